//! A library that answers its holder that it has the lock, while another client has it.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ039",
    name: "false-ownership",
    title: "The library says that the holder has the lock while another client's key is there.",
    rule: "Only the server, or a clock that has counted since the acquisition, knows whether the lock is still held.",
    source: REDIS_LOCKS,
    fix: "Compare the time since the acquisition with the TTL, or ask the server for the value of the key.",
    commands: &["GET KEY"],
    right: Some(("redlock-asks", "pause-at-work")),
    breaks: &[Claim::Updates, Claim::Amounts, Claim::Ownership],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // If a lock is on several nodes, one key proves nothing.
    if case.run.nodes > 1 {
        return Vec::new();
    }
    case.history.operations.iter().enumerate().filter_map(|(place, one)| finding(case, place, one)).collect()
}

fn finding(case: &Case, place: usize, operation: &Operation) -> Option<Finding> {
    let client = case.run.client_name(operation.process);
    let asked = |stamp: &PhaseStamp| stamp.phase == Phase::Owned;
    operation.phases.iter().filter(asked).find_map(|stamp| {
        let time = u64::try_from(stamp.stamped?).ok()?;
        let (owner, lines) = owner_at(case, &operation.key, time)?;
        if owner.client == client || owner.operation == Some(place) {
            return None;
        }
        let sentence = format!(
            "{client} asked at {} whether it held the lock, and the library said yes; {} had held the key since {}.",
            moment(time),
            owner.client,
            moment(owner.since)
        );
        let mut finding = case.finding(
            lines,
            &[owner.created, lines.place],
            &[Some(place), owner.operation],
            Harm::Misled(operation.index),
            sentence,
        );
        finding.time = time;
        Some(finding)
    })
}

/// The certain owner of a key at this time, and the act that proves it.
fn owner_at<'c, 'a>(case: &'c Case<'a>, key: &str, time: u64) -> Option<(Owned<'a>, &'c super::super::acts::Act<'a>)> {
    let from = case.acts.all.partition_point(|act| act.time <= time.saturating_add(EDGE));
    let next = case.acts.all[from..].iter().find(|act| key_behind(act.key) == Some(key))?;
    let owner = next.owner().filter(|owner| owner.since.saturating_add(EDGE) < time)?;
    case.acts.was_watched(next.node, owner.since, next.time).then_some((owner, next))
}
