//! If the library says that a client has the lock, the client has it.

use super::super::owners::{run_time, time, took_it_back};
use super::super::words::count;
use super::*;

pub static DEF: Property = Property {
    id: "ownership",
    rank: Rank::Claim(ClaimDef::of_answers(
        Claim::Ownership,
        |run| run.claims.contains(&Claim::Ownership),
        |seen| match seen.contradictions() {
            0 => "every answer true".to_string(),
            many => plural(many, "untrue answer"),
        },
        |seen, of| format!("{} told a client that it held a lock that another client held{}.", of.lock, seen.times()),
    )),
    title: "The library answers truthfully who holds the lock",
    applies: "runs whose holders ask whether they hold the lock",
    parameter: Some("check_every"),
    check,
};

/// The library said that a client had a lock that another client had.
pub static FALSE_OWNERSHIP: AnomalyDef = AnomalyDef {
    name: "client told that it holds another client's lock",
    incident: "A client told that it holds another client's lock",
    lines: Lines::Answers,
    blames: Blames::Nothing,
};

/// Reports each false "yes": another client certainly had the lock at that time.
fn check(case: &Case) -> Findings {
    let (history, owners) = (case.history, case.owners());
    let words = Words::new(history);
    let error = history.clock.map_or(0, |clock| clock.error_ns);
    let (mut anomalies, mut asked) = (Vec::new(), 0);
    for (place, operation) in history.operations.iter().enumerate() {
        let mut is_told = false;
        for stamp in of_a_holder(operation).filter(|stamp| matches!(stamp.phase, Phase::Owned | Phase::Lost)) {
            let Some(at) = stamp.stamped else { continue };
            let read = if stamp.phase == Phase::Owned { time(stamp.received.saturating_add(error)) } else { at };
            let other = owners.other(&operation.key, operation.process, at, read);
            let Some(other) = other.filter(|other| !took_it_back(operation, other)) else { continue };
            asked += 1;
            // Repeated questions by one holder count as one anomaly.
            if stamp.phase == Phase::Lost || std::mem::replace(&mut is_told, true) {
                continue;
            }
            let summary = format!(
                "{} asked at {} whether it held the lock of {}, and the library said yes, although {} had held it since {}",
                words.client(place),
                seconds(run_time(at)),
                operation.key,
                words.client(other.place),
                seconds(run_time(other.from)),
            );
            let operations = vec![operation.index, history.operations[other.place].index];
            anomalies.push(Anomaly::new(
                AnomalyKind::FalseOwnership,
                &operation.key,
                stamp.time(),
                operations,
                summary,
            ));
        }
    }
    let text = format!("{} about a lock that another client already held", count(asked, "answer"));
    Findings::new(anomalies, asked, text, "no client asked about a lock that another client certainly held")
}

/// The stamps from acquiring the lock to releasing it.
fn of_a_holder(operation: &Operation) -> impl Iterator<Item = PhaseStamp> {
    let had = operation.phases.iter().skip_while(|stamp| stamp.phase != Phase::Acquired);
    had.take_while(|stamp| stamp.phase != Phase::Releasing)
}
