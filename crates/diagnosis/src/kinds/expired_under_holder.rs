//! A lock that expires while its holder still relies on it, as every lock with a TTL can.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ022",
    name: "expired-under-holder",
    title: "The lock expired while its holder still relied on it, and another client acquired it.",
    rule: "A client can be stopped at any moment, for longer than any TTL, and then continue without noticing. No lock with a TTL can prevent that; \
           only the resource can.",
    source: KLEPPMANN,
    fix: "Let the resource refuse late writes: by a fencing token that increases with each acquisition, or by comparing with the value \
          that was read. A longer TTL or a renewal makes this failure rarer, but does not prevent it.",
    commands: &[
        "UPDATE ITEMS SET VALUE = NEW, VERSION = VERSION + 1 WHERE ID = KEY AND VERSION = VERSION_READ",
        r#"EVAL "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0" 1 KEY VALUE_READ NEW"#,
    ],
    right: Some(("fenced-reads", "pause-before-write")),
    breaks: TWO_HOLDERS,
    inherent: true,
    check,
};

/// An expired key, by its creation, with the creation of the next key.
struct Ended<'c> {
    lost: &'c Act<'c>,
    took: &'c Act<'c>,
    end: u64,
}

fn check(case: &Case) -> Vec<Finding> {
    // A lock over several nodes has a key on each of them; all keys of the same two operations are one event.
    let mut events: BTreeMap<(usize, usize), Vec<Ended>> = BTreeMap::new();
    for took in case.acts.all.iter().filter(|act| is_granted(act)) {
        let KeyState::Absent(_, Some(Gone::Expired(end))) = took.before else { continue };
        let Some(lost) = case.acts.before(took).rev().find(|act| is_granted(act)) else { continue };
        if let Some(pair) = lost.operation.zip(took.operation).filter(|_| is_of_both(case, lost, took)) {
            events.entry(pair).or_default().push(Ended { lost, took, end });
        }
    }
    events.values().filter_map(|keys| finding(case, keys)).collect()
}

fn is_granted(act: &Act) -> bool {
    act.is_done() && act.create().is_some() && act.operation.is_some()
}

/// True if a key was part of its client's lock, and the next key was part of another client's lock, acquired meanwhile.
fn is_of_both(case: &Case, lost: &Act, took: &Act) -> bool {
    let (Some(holder), Some(other)) = (case.of(lost), case.of(took)) else { return false };
    let since = |operation| case.history.certain_hold(operation).and_then(|(start, _)| u64::try_from(start).ok());
    let (Some(held), Some(taken)) = (since(holder), since(other)) else { return false };
    // A key created after the grant is not part of the lock, nor is a key of an earlier try that was released.
    lost.time <= held
        && case.had_key(took, taken)
        && took.time <= taken.saturating_add(EDGE)
        && took.client != lost.client
        && case.holds(holder, taken)
}

fn finding(case: &Case, keys: &[Ended]) -> Option<Finding> {
    // If some keys had expired before the client received the lock, the library handed it out too late. A key of an earlier try
    // does not count.
    let (held, _) = case.history.certain_hold(case.of(keys.first()?.lost)?)?;
    let is_same = |one: &Ended, other: &Ended| {
        one.lost.create().map(|create| create.token) == other.lost.create().map(|create| create.token)
    };
    let (late, keys): (Vec<&Ended>, Vec<&Ended>) =
        keys.iter().partition(|key| i64::try_from(key.end).is_ok_and(|end| end <= held));
    if late.iter().any(|one| keys.iter().any(|key| is_same(one, key))) {
        return None;
    }
    let first = keys.iter().min_by_key(|key| key.took.time)?;
    let (start, _) = case.history.certain_hold(case.of(first.took)?)?;
    let granted = u64::try_from(start).ok()?;
    let is_before = |key: &&&Ended| i64::try_from(key.took.time).is_ok_and(|time| time <= start);
    // The key with which the other client acquired the lock, within the tolerance.
    let last = keys.iter().filter(is_before).max_by_key(|key| key.took.time).unwrap_or(first);
    let (lost, took) = (last.lost, last.took);
    let end = keys.iter().map(|key| key.end).max()?;
    let renewals = case.acts.before(took).filter(|act| act.place > lost.place && act.extended());
    let renewed = unless_none(renewals.count() as u64, |many| format!(", extended {}", plural(many, "time")));
    let whose = match keys[..] {
        [_] => format!("{}'s key, created at {}{renewed}, expired at {}", lost.client, moment(lost.time), moment(end)),
        _ => {
            let nodes: BTreeSet<String> = keys.iter().map(|key| key.lost.node.to_string()).collect();
            let nodes: Vec<String> = nodes.into_iter().collect();
            format!("{}'s keys on {} had expired by {}", lost.client, list(&nodes), moment(end))
        }
    };
    let sentence = format!(
        "{whose} while {} still relied on {}; {} acquired the lock at {}.",
        lost.client,
        if keys.len() == 1 { "it" } else { "them" },
        took.client,
        moment(granted)
    );
    let places: Vec<usize> = keys.iter().flat_map(|key| [key.lost.place, key.took.place]).collect();
    let harm = Harm::Ended(case.of(lost)?.index);
    Some(case.finding(took, &places, &[lost.operation, took.operation], harm, sentence))
}
