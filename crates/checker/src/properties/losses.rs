//! The library reports a lost lock to its holder within the time that the workload states.
//!
//! The time begins at the end of the last validity that the holder reported. So a client that reports a validity must also report
//! its extensions. If a client reports none, the time begins when another client had certainly acquired the lock after it. Time
//! in which the holder's client or the machine was stopped does not count: the library could not report the loss. If a holder
//! stops acting before the time is over, it needs no report.

use super::super::words::count;
use super::*;

pub static DEF: Property = Property {
    id: "losses",
    rank: Rank::Claim(ClaimDef::of_answers(
        Claim::Losses,
        |run| run.claims.contains(&Claim::Losses),
        |seen| match seen.contradictions() {
            0 => "each loss reported in time".to_string(),
            many => plural(many, "late or missing report"),
        },
        |seen, of| format!("{} did not report to a holder in time that its lock was gone{}.", of.lock, seen.times()),
    )),
    title: "The library reports a lost lock to its holder in time",
    applies: "runs whose workload states this time",
    parameter: Some("lost_within"),
    check,
};

/// The library reported the lost lock to its holder too late, or never.
pub static LATE_LOSS_REPORT: AnomalyDef = AnomalyDef {
    name: "holder learned too late that its lock was lost",
    incident: "A loss reported too late",
    lines: Lines::Answers,
    blames: Blames::Nothing,
};

/// When a holder's lock was gone.
pub(super) struct Gone {
    pub from: u64,
    /// The index of the operation that had the lock by then; `None` if the holder's validity was over.
    other: Option<usize>,
}

/// Reports holders that learnt of their loss too late, or not while they acted.
fn check(case: &Case) -> Findings {
    let (history, owners, stops) = (case.history, case.owners(), case.stops());
    let missing = "no holder's lock was gone for long enough while it held it";
    let within = history.run.as_ref().and_then(|run| run.lost_within_ms).map(|ms| ms.saturating_mul(1_000_000));
    let Some(within) = within else {
        return Findings::new(
            Vec::new(),
            0,
            String::new(),
            "the workload does not say within which time (`lost_within`)",
        );
    };
    let words = Words::new(history);
    let (mut anomalies, mut losses, mut undecided) = (Vec::new(), 0, None);
    for (place, operation) in history.operations.iter().enumerate().filter(|(_, operation)| operation.f.is_locked()) {
        let Some((acted_until, told)) = held(operation) else { continue };
        let Some(gone) = gone(history, owners, place, acted_until) else { continue };
        let client = words.client(place);
        let late = acted_until.saturating_sub(gone.from).saturating_sub(stops.of(&client, gone.from, acted_until));
        let is_late = late > within;
        losses += u64::from(told.is_some() || is_late);
        if !is_late {
            continue;
        }
        let why = match gone.other {
            Some(other) => format!("{} held it from {} on", words.client(other), seconds(gone.from)),
            None => format!("its validity ended at {}", seconds(gone.from)),
        };
        let what = match told {
            Some(_) => format!("was notified only at {}", seconds(acted_until)),
            None => format!("had not been notified by {}", seconds(acted_until)),
        };
        let mut operations = vec![operation.index];
        operations.extend(gone.other.map(|other| history.operations[other].index));
        let summary = format!(
            "{client} {what} that its lock of {} was gone: {why}, and the workload promises a report within {}",
            operation.key,
            length(within)
        );
        if let Some(why) = kept(history, Needs::Client(&client), (gone.from, acted_until), late - within) {
            undecided.get_or_insert(format!("{summary}, but {why}"));
            continue;
        }
        anomalies.push(Anomaly::new(AnomalyKind::LateLossReport, &operation.key, acted_until, operations, summary));
    }
    let text = format!("{} whose lock was gone while it was held", count(losses, "holder"));
    Findings::new(anomalies, losses, text, missing).undecided(undecided)
}

/// Until when a holder certainly acted as one, and the stamp of `lost` if that ended its hold.
pub(super) fn held(operation: &Operation) -> Option<(u64, Option<PhaseStamp>)> {
    let had = operation.phases.iter().position(|stamp| stamp.phase == Phase::Acquired)?;
    let mut until = operation.phases.get(had).filter(|stamp| stamp.stamped.is_some())?.time();
    for stamp in operation.phases.after(had).filter(|stamp| stamp.stamped.is_some()) {
        match stamp.phase {
            Phase::Lost => return Some((stamp.time(), Some(stamp))),
            Phase::Releasing => return Some((stamp.time(), None)),
            Phase::Released | Phase::HalfReleased => break,
            _ => until = until.max(stamp.time()),
        }
    }
    Some((until, None))
}

/// When the lock was gone; None if it was not gone by `by`.
pub(super) fn gone(history: &History, owners: &Owners, place: usize, by: u64) -> Option<Gone> {
    let operation = &history.operations[place];
    let granted = history.grants(operation).filter(|stamp| stamp.stamped.is_some() && stamp.time() <= by);
    let last = granted.max_by_key(|stamp| stamp.time())?;
    if let Some(validity) = last.validity_ms {
        let from = last.time().saturating_add(validity.saturating_mul(1_000_000));
        return (from <= by).then_some(Gone { from, other: None });
    }
    let mine = owners.of(operation, place)?;
    let of_key = owners.of_key(&operation.key);
    let later = &of_key[of_key.partition_point(|other| other.from <= mine.from)..];
    let mut by_then = later.iter().take_while(|other| u64::try_from(other.from).unwrap_or(0) <= by);
    let took = by_then.find(|other| {
        other.process != mine.process
            && owners.is_after(mine, other)
            && (last.phase == Phase::Acquired || i64::try_from(last.time()).is_ok_and(|told| told < other.taken))
    })?;
    let from = u64::try_from(took.from).unwrap_or(0);
    Some(Gone { from, other: Some(took.place) })
}
