//! An acquisition that reads the key in one command and sets it in another.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ012",
    name: "check-then-set",
    title: "The acquisition checks for the key in one command, and sets it in another.",
    rule: "Between two commands another client can set the key. Then both have the lock.",
    source: REDIS_SET,
    fix: "Create the key only if it is absent, with one command.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "none")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

/// The acquisitions that replaced another client's key while that client relied on it, and its TTL was not over. They set it, or
/// removed it to create it again.
pub(super) fn overwrites<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = (&'c Act<'a>, Owned<'a>)> {
    let remove_first = remove_first(case);
    case.on_others().filter(move |(act, owner)| {
        let sets = matches!(act.what, Change::Create(Create { only: Only::Always, gets: false, .. }));
        let removes = remove_first.contains(act.client) && creates_next(case, act);
        // The client's first command that creates the key is the acquisition, though the client may report the lock at nearly the
        // same time.
        let earlier = |other: &Act| other.place < act.place && other.life == act.life && other.create().is_some();
        let is_first = act.operation.is_some_and(|place| !case.acts.of_operation(place).any(earlier));
        let acquires = case.of(act).is_some_and(|operation| is_first && sets || !case.had_lock(operation, act.time));
        (sets || removes)
            && acquires
            && !act.by_watch()
            && act.by != (Means::Script { compared: true })
            && act.time.saturating_sub(owner.since) < case.ttl
            && case.cost(owner, act.time) != Harm::None
    })
}

/// The act by which the client had read the key before this one, outside of scripts.
pub(super) fn asked_apart<'c, 'a>(case: &'c Case<'a>, act: &Act) -> Option<&'c Act<'a>> {
    case.had_asked(act).filter(|asked| !matches!(asked.by, Means::Script { .. }))
}

/// A client that removes the key first in fewer acquisitions than this may only release late.
const HABIT: usize = 3;

/// The clients that remove the key, whatever its value, before they create it, as most of their acquisitions show.
fn remove_first<'a>(case: &Case<'a>) -> HashSet<&'a str> {
    let mut acquired: HashMap<&str, (usize, usize)> = HashMap::new();
    for (place, operation) in case.history.operations.iter().enumerate() {
        if operation.phase(Phase::Acquired).is_none() {
            continue;
        }
        // A removal after its first request is the release of a try that failed.
        let acts = || case.acts.of_operation(place);
        let Some(asked) = acts().find(|act| act.create().is_some()) else { continue };
        let is_own = |act: &Act| act.owner().is_some_and(|owner| owner.client == act.client);
        let mut before = acts().take_while(|act| act.place < asked.place);
        let removed = before.any(|act| act.what == Change::Remove && act.by == Means::Plain && !is_own(act));
        let (all, removing) = acquired.entry(asked.client).or_default();
        *all += 1;
        *removing += usize::from(removed);
    }
    let often = acquired.into_iter().filter(|(_, (all, removing))| *removing >= HABIT && removing * 2 > *all);
    often.map(|(client, _)| client).collect()
}

/// True if an act removed the key, and the next command of its operation created it.
fn creates_next(case: &Case, act: &Act) -> bool {
    let next = case.acts.after(act).find(|other| other.client == act.client && other.what != Change::Read);
    let creates = |next: &Act| next.operation == act.operation && next.is_done() && next.create().is_some();
    act.what == Change::Remove && act.by == Means::Plain && next.is_some_and(creates)
}

/// Says how an acquisition replaced the key of another client.
pub(super) fn replaced(act: &Act, owner: &Owned) -> String {
    match act.what {
        Change::Remove => format!("removed {}'s key to create its own", owner.client),
        _ => format!("overwrote {}'s key", owner.client),
    }
}

fn check(case: &Case) -> Vec<Finding> {
    overwrites(case)
        .filter_map(|(act, owner)| {
            let asked = asked_apart(case, act).filter(|asked| asked.place < owner.created)?;
            let sentence = format!(
                "{} {}{}: it had asked for the key {} before, in a separate command ({}).",
                case.did(act),
                replaced(act, &owner),
                on(case, act.node),
                length(act.time.saturating_sub(asked.time)),
                case.named(asked)
            );
            let places = [asked.place, owner.created, act.place];
            Some(case.finding(act, &places, &[act.operation, owner.operation], case.cost(&owner, act.time), sentence))
        })
        .collect()
}
