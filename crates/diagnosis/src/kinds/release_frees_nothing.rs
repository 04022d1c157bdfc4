//! A release that leaves its key where it is.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ016",
    name: "release-frees-nothing",
    title: "The release says that the lock is free, but its key is still there.",
    rule: "A release must remove its key from every node. Otherwise all other clients wait until its TTL is over.",
    source: REDIS_LOCKS,
    fix: "Keep the value that the acquisition wrote, and delete the key only if it has this value. Check the server's answer.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("single", "none")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// If a key has less than its TTL divided by this left, the release may as well have left it to expire.
const LEFT: u64 = 4;

pub(super) fn check(case: &Case) -> Vec<Finding> {
    // For each value of a client, the operation that wrote it first.
    let mut first: HashMap<(&str, &str, &str), Option<usize>> = HashMap::new();
    for act in &case.acts.all {
        if let Some(create) = act.create() {
            first.entry((act.client, act.key, create.token)).or_insert(act.operation);
        }
    }
    let created = case.acts.all.iter().filter(|act| act.is_done() && act.create().is_some());
    let is_first = |act: &Act, token| first.get(&(act.client, act.key, token)) == Some(&act.operation);
    created.filter_map(|act| left(case, act, is_first(act, act.create()?.token))).collect()
}

/// A key that a release left where it was. With `is_first` no earlier operation wrote its value.
fn left(case: &Case, act: &Act, is_first: bool) -> Option<Finding> {
    let operation = case.of(act)?;
    let over = operation.completed.filter(|_| operation.outcome == Outcome::Ok)?;
    operation.phase(Phase::Released)?;
    // A request on its way may have created the key after the release had found none.
    let releasing = operation.phase(Phase::Releasing)?.time();
    // An earlier operation's request with the same value may have created it, too.
    let invoked = operation.invoked.saturating_sub(case.ttl);
    if act.time >= releasing || !(is_first || case.was_quiet(invoked, act.time)) {
        return None;
    }
    // A release on its way to an unreachable node is another matter, and so is a release that waits for a processor.
    let is_sure = |time: u64| {
        let has_arrived = || case.has_arrived(act.client, act.node, (act.time, over, time));
        case.acts.was_watched(act.node, act.time, time) && (case.was_quiet(act.time, time) || has_arrived())
    };
    let is_there = |other: &Act| matches!(other.before, KeyState::There(there) if there.created == act.place);
    // The state of the key at the first informative act after the release. A key that is gone never comes back.
    let after = case.acts.after(act);
    let mut until_gone = after
        .clone()
        .filter(|other| other.time > over && other.before != KeyState::Unknown)
        .take_while(|other| is_there(other));
    let told = until_gone.find(|other| is_sure(other.time))?;
    let KeyState::There(owned) = told.before else { return None };
    let end = match owned.end {
        KeyEnd::At(end) => end,
        KeyEnd::Never => u64::MAX,
        KeyEnd::Unknown => return None,
    };
    // A release that returns after a majority reaches the other nodes a moment later.
    let tried = after.clone().any(|other| {
        other.client == act.client
            && other.time <= end
            && case.of(other).is_none_or(|of| of.index == operation.index)
            && matches!(other.what, Change::Remove | Change::Other)
    });
    let later = after.clone().filter(|other| other.time >= told.time).take_while(|other| is_there(other));
    let last = later.map(|other| other.time).filter(|time| is_sure(*time)).last().unwrap_or(told.time);
    let stayed = end.min(last).saturating_sub(over);
    if owned.created != act.place || tried || end.saturating_sub(over) < case.ttl / LEFT {
        return None;
    }
    // Keys that an earlier try left behind, also by a late request, do not concern the release.
    let granted = operation.phase(Phase::Acquired).map_or(releasing, PhaseStamp::time);
    if case.last_value(act.operation?, granted) != Some(act.create()?.token) {
        return None;
    }
    let sentence = format!(
        "{}'s release ended at {}, and its key{} was still there {} later: no command of {} had removed it.",
        act.client,
        moment(over),
        on(case, act.node),
        length(stayed.max(1_000_000)),
        act.client
    );
    Some(case.finding(act, &[act.place, told.place], &[act.operation], Harm::Kept, sentence))
}
