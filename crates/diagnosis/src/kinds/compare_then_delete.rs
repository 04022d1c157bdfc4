//! A release that compares in one command and deletes in another.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ002",
    name: "compare-then-delete",
    title: "The release compares the key in one command and deletes it in another.",
    rule: "Between two commands the lock can expire, and another client can acquire it. The server must compare and delete in \
        one step.",
    source: REDIS_LOCKS,
    fix: "Compare and delete in one script, or in a transaction that watches the key.",
    commands: COMPARE_AND_DELETE,
    right: Some(("single", "between-check-and-delete")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Releases],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let found = after_comparing(case, |change| change == Change::Remove, "removed");
    let by_holders = found.into_iter().filter(|(act, _, _)| !case.of(act).is_some_and(gave_up));
    by_holders.map(|(act, owner, finding)| Finding { harm: case.ended(&owner, act.time), ..finding }).collect()
}

/// Effects of clients on another client's key, after they had read in another command that it was theirs. The harm is not yet
/// set.
pub(super) fn after_comparing<'c, 'a>(
    case: &'c Case<'a>,
    is_meant: impl Fn(Change) -> bool,
    did: &str,
) -> Vec<(&'c Act<'a>, Owned<'a>, Finding)> {
    let meant = case.on_others().filter(|(act, _)| is_meant(act.what));
    let apart = meant.filter(|(act, _)| matches!(act.by, Means::Plain | Means::Transaction { watched: false }));
    apart
        .filter_map(|(act, owner)| {
            let asked = case.had_compared(act)?;
            // If the client read another client's key, the comparison did not cause this.
            let was_own = asked.owner().is_none_or(|then| then.client == act.client);
            let sentence = format!(
                "{} {did} {}'s key{}: {} had read the value {} before, in a separate command ({}).",
                case.did(act),
                owner.client,
                on(case, act.node),
                act.client,
                length(act.time.saturating_sub(asked.time)),
                case.named(asked),
            );
            let places = [owner.created, asked.place, act.place];
            let finding = case.finding(act, &places, &[act.operation, owner.operation], Harm::None, sentence);
            was_own.then_some((act, owner, finding))
        })
        .collect()
}
