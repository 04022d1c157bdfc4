//! A value that several clients write.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ009",
    name: "shared-token",
    title: "Two clients write the same value into the key.",
    rule: "The value says who holds the key. It must be unique among all clients and all acquisitions, so that no client \
        mistakes another client's lock for its own.",
    source: REDIS_LOCKS,
    fix: "Generate 20 random bytes for each acquisition.",
    commands: &[],
    right: Some(("single", "late-release")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Releases],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    let mut first: HashMap<(&str, &str), usize> = HashMap::new();
    let mut found = Vec::new();
    for (place, act) in case.acts.all.iter().enumerate().filter(|(_, act)| act.is_done()) {
        // A count is not a value.
        let Change::Create(create) = act.what else { continue };
        if create.token.is_empty() {
            continue;
        }
        let key = (act.key, create.token);
        let Some(earlier) = first.get(&key).map(|place| &case.acts.all[*place]) else {
            first.insert(key, place);
            continue;
        };
        if earlier.client != act.client {
            let sentence = format!(
                "{} wrote the value `{}`, which {} had written {}.",
                case.did(act),
                sanitize(create.token, 40),
                if case.run.threads > 1 { format!("{}'s process", earlier.client) } else { earlier.client.to_string() },
                at(earlier.time)
            );
            found.push(case.finding(
                act,
                &[earlier.place, act.place],
                &[act.operation, earlier.operation],
                Harm::None,
                sentence,
            ));
        }
    }
    // A release that compares with such a value removes another client's key.
    let compares = |act: &Act| act.by == (Means::Script { compared: true }) || case.had_compared(act).is_some();
    for (act, owner) in case.on_others().filter(|(act, _)| act.what == Change::Remove && compares(act)) {
        let own = case.acts.before(act).rev().find(|other| {
            other.place < owner.created && other.client == act.client && other.is_done() && other.create().is_some()
        });
        if let Some(own) =
            own.filter(|own| own.create().is_some_and(|create| create.token == owner.token && !create.token.is_empty()))
        {
            let sentence = format!(
                "{} removed {}'s key: both clients write the value `{}`.",
                case.did(act),
                owner.client,
                sanitize(owner.token, 40)
            );
            let harm = case.ended(&owner, act.time);
            let places = [own.place, owner.created, act.place];
            found.push(case.finding(act, &places, &[act.operation, owner.operation], harm, sentence));
        }
    }
    found
}
