//! The common cause of most incidents of a run, in a few words.

use super::story::{Incident, Story};
use super::times;
use checker::{Anomaly, AnomalyKind, HowKind, everyone_ran};
use model::history::{Claim, FaultWindow, Operation};

/// ` when its holder was paused`, if most incidents share that cause.
pub(super) fn cause(story: &Story, of_updates: bool) -> String {
    let is_relevant = |incident: &&Incident| {
        !of_updates || incident.anomalies.iter().any(|a| a.kind.contradicts() == Some(Claim::Updates))
    };
    // If the text is about updates, an incident counts once per lost update.
    let mut relevant: Vec<(Option<Why>, usize)> = Vec::new();
    for incident in story.incidents.iter().filter(is_relevant) {
        let lost: usize = incident.anomalies.iter().map(|anomaly| anomaly.lost.len()).sum();
        if !of_updates || lost == 0 {
            relevant.push((why(story, incident), 1));
        } else if incident.has(AnomalyKind::OverlappingHolders) {
            relevant.push((why(story, incident), lost));
        } else {
            // Without two holders at once, each loss has its own cause.
            let of_each = |anomaly: &&Anomaly| (why_of_anomaly(story, incident, anomaly), anomaly.lost.len());
            relevant.extend(incident.anomalies.iter().map(of_each).filter(|(_, lost)| *lost > 0));
        }
    }
    let all: usize = relevant.iter().map(|(_, weight)| weight).sum();
    let number = |why: &Why| -> usize {
        relevant.iter().filter(|(one, _)| one.as_ref() == Some(why)).map(|(_, weight)| weight).sum()
    };
    let most = relevant.iter().filter_map(|(why, _)| why.as_ref()).rev().max_by_key(|why| number(why));
    let words = |(when, clause): &Why| {
        let clause = if story.is_unlocked() { clause.replace("its holder", "a client") } else { clause.to_string() };
        format!(" {when} {clause}")
    };
    match most {
        Some(why) if number(why) == all => words(why),
        Some(why) if number(why) * 2 > all => format!(", mostly{}", words(why)),
        _ if story.subject.history.run.is_some()
            && story.subject.history.faults.iter().all(|fault| fault.injected.is_none()) =>
        {
            match story.incidents.iter().filter(is_relevant).all(|incident| all_ran(story, incident)) {
                true => ", without any fault".to_string(),
                false => ", without a fault, though some members did not always run or answer".to_string(),
            }
        }
        _ => String::new(),
    }
}

/// True if no member lost more than a quarter of a TTL while the incident's clients were at work.
fn all_ran(story: &Story, incident: &Incident) -> bool {
    let history = story.subject.history;
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let from = incident.operations.iter().map(|operation| operation.invoked).min().unwrap_or(0);
    let to = incident.operations.iter().map(|operation| operation.completed.unwrap_or(u64::MAX)).max().unwrap_or(0);
    everyone_ran(history, (from, to), ttl_ns)
}

/// The cause of an incident: `when`, and that its holder was paused. The pause may have ended before the damage.
pub type Why = (&'static str, &'static str);

/// The cause of an incident if it is not a fault. None if `how` is only a symptom.
pub fn why_of(how: HowKind) -> Option<Why> {
    match how {
        HowKind::Breakpoint => Some(("when", "a holder took longer than its lock lasted")),
        HowKind::StoodStill => Some(("when", "the machine stood still")),
        HowKind::Starved => Some(("when", "its holder waited for a processor")),
        HowKind::StoppedOutside => Some(("when", "its holder was stopped by another process")),
        HowKind::Stolen => Some(("when", "a client stole the lock from another client, as the lock allows")),
        HowKind::Promoted => Some(("after", "a replica was promoted")),
        HowKind::Extended | HowKind::Expired | HowKind::Released => None,
    }
}

fn why(story: &Story, incident: &Incident) -> Option<Why> {
    let how = incident.how().and_then(|how| why_of(how.kind));
    how.or_else(|| by_fault(story, incident, incident.fault?))
}

fn why_of_anomaly(story: &Story, incident: &Incident, anomaly: &Anomaly) -> Option<Why> {
    let fault = || story.subject.history.faults.iter().find(|window| Some(window.fault) == anomaly.fault);
    let how = anomaly.how.as_ref().and_then(|how| why_of(how.kind));
    how.or_else(|| by_fault(story, incident, fault()?))
}

fn by_fault(story: &Story, incident: &Incident, fault: &FaultWindow) -> Option<Why> {
    let (from, to) = fault.ordered_span();
    let hits = |operation: &Operation| fault.hits_process(operation, &story.name(operation.process));
    let held_meanwhile = |operation: &Operation| {
        hits(operation)
            && times::hold(operation).is_some_and(|hold| from <= hold.end && to.is_none_or(|to| hold.start < to))
    };
    let clause = match incident.operations.iter().any(|operation| held_meanwhile(operation)) {
        true => fault.kind.says.holder,
        false if story.client_operations().any(hits) => fault.kind.says.client,
        false => fault.kind.says.node,
    };
    Some(("when", clause))
}
