//! The run in one sentence.

use super::ends::{and_the_end, update};
use super::story::{Incident, PropertyOutcome, Story};
use super::{Report, moments};
use crate::checker::{AnomalyKind, Gap, HowKind, STUCK_AFTER_TTLS, Validity};
use crate::history::{Claim, FaultKind, FaultWindow, Operation};
use crate::words::{count, length, line, percent, plural};

/// A shorter time without the lock is not worth a word in the headline, in nanoseconds.
const LONG_GAP_NS: u64 = 2_000_000_000;
/// More of a reason is in the report.
const LONGEST_REASON: usize = 300;

/// The run in one sentence; if it proves nothing, with the first reason.
pub fn headline(report: &Report) -> String {
    let told = headline_of(&Story::new(report));
    match report.verdict.reasons.first().filter(|_| report.verdict.valid == Validity::Unknown) {
        Some(reason) => format!("{}: {}", told.trim_end_matches('.'), line(reason, LONGEST_REASON)),
        None => told,
    }
}

/// The same without a reason, for where all of them follow. One that was simulated says so first, wherever the sentence is shown.
pub(super) fn headline_of(story: &Story) -> String {
    let told = told_of(story);
    if story.is_simulated() { format!("Simulated: {told}") } else { told }
}

fn told_of(story: &Story) -> String {
    let verdict = story.report.verdict;
    let lock = story.lock_name();
    let (lost, acknowledged) = (verdict.lost_updates.count, verdict.lost_updates.acknowledged);
    let update = update(story);
    let end = and_the_end(story);
    let updates_broken = story.standing(Claim::Updates) == PropertyOutcome::Broken;
    let exclusion_broken = story.standing(Claim::MutualExclusion) == PropertyOutcome::Broken;
    let overlaps = story.contradictions(Claim::MutualExclusion);
    match verdict.valid {
        Validity::Unknown if story.is_unlocked() => "This run proves nothing.".to_string(),
        Validity::Unknown => "This run proves nothing about the lock.".to_string(),
        Validity::Invalid if lost > 0 && updates_broken => {
            let share = percent(verdict.lost_updates.fraction);
            let of = plural(acknowledged, &format!("acknowledged {update}"));
            format!("{lock} lost {} of {of} ({share}){}{end}.", count(lost), cause(story, true))
        }
        Validity::Invalid if updates_broken => format!(
            "{lock} produced {} that no correct order of the updates explains{}.",
            plural(story.contradictions(Claim::Updates), "observation"),
            cause(story, true)
        ),
        Validity::Invalid if exclusion_broken => {
            let in_flight = story.has(AnomalyKind::WriteInFlight);
            let none_lost = if acknowledged > 0 && story.contradictions(Claim::Updates) == 0 && !in_flight {
                "; no acknowledged update was lost"
            } else {
                ""
            };
            format!(
                "{lock} let two clients hold the lock at once{}: {} among {}{none_lost}.",
                cause(story, false),
                plural(overlaps, "overlap"),
                plural(verdict.mutual_exclusion.comparable_holds, "hold")
            )
        }
        Validity::Invalid if story.standing(Claim::Tokens) == PropertyOutcome::Broken => {
            let tokens = verdict.lock.token_regressions;
            let rise = if tokens == 1 { "does not rise" } else { "do not rise" };
            format!("{lock} handed out {} that {rise}.", plural(tokens, "token"))
        }
        Validity::Invalid if story.has(AnomalyKind::NotObtained) => {
            format!("{lock} was free and asked for, and nobody got it.")
        }
        Validity::Invalid if story.has(AnomalyKind::AcquiredLate) => {
            format!("{lock} could not be acquired when it should have been available.")
        }
        Validity::Invalid if story.has(AnomalyKind::WaitedTooLong) => {
            let waits = verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::WaitedTooLong);
            let attempts = plural(waits.count() as u64, "attempt");
            format!("{lock} let {attempts} wait for longer than they were to{}.", cause(story, false))
        }
        Validity::Invalid if story.has(AnomalyKind::LeftBehind) => {
            format!("{lock} left a lock behind that never ends.")
        }
        Validity::Invalid => {
            verdict.reasons.first().cloned().unwrap_or_else(|| format!("{lock} broke what the workload claims."))
        }
        Validity::Valid => {
            let faults = story.report.history.faults.iter().filter(|fault| fault.was_observed()).count() as u64;
            let through = match faults {
                0 => String::new(),
                _ => format!(" through {}", plural(faults, "fault")),
            };
            let kept = match acknowledged {
                0 => format!("{lock} broke none of its claims{through}"),
                1 => format!("{lock} kept the one acknowledged {update}{through}"),
                _ => format!("{lock} kept all {} acknowledged {update}s{through}", count(acknowledged)),
            };
            let gap = story.report.verdict.lock.longest_gap.as_ref().filter(|gap| is_long(story, gap));
            let gap = gap.map_or_else(String::new, |gap| {
                format!(
                    " But for {} nobody got the lock of {}, though it was free and asked for.",
                    length(gap.to - gap.from),
                    gap.key
                )
            });
            let never = match story.standing(Claim::MutualExclusion) {
                PropertyOutcome::Held if story.claims(Claim::MutualExclusion) => {
                    ", and never let two clients hold the lock at once"
                }
                _ => "",
            };
            format!("{kept}{never}{end}.{gap}")
        }
    }
}

/// Whether a lock was out of reach for so long that "valid" alone would mislead.
fn is_long(story: &Story, gap: &Gap) -> bool {
    let ttl = story.report.history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    gap.to - gap.from > ttl.saturating_mul(STUCK_AFTER_TTLS).max(LONG_GAP_NS)
}

/// ` while its holder was paused`, if most incidents have that in common.
fn cause(story: &Story, of_updates: bool) -> String {
    let relevant: Vec<Option<Why>> = story
        .incidents
        .iter()
        .filter(|incident| {
            !of_updates || incident.anomalies.iter().any(|a| a.kind.contradicts() == Some(Claim::Updates))
        })
        .map(|incident| Why::of(story, incident))
        .collect();
    let number = |why: &Why| relevant.iter().filter(|one| one.as_ref() == Some(why)).count();
    let most = relevant.iter().flatten().rev().max_by_key(|why| number(why));
    match most {
        Some(why) if number(why) == relevant.len() => why.words(story.is_unlocked()),
        Some(why) if number(why) * 2 >= relevant.len() => format!(", mostly{}", why.words(story.is_unlocked())),
        _ if story.report.history.run.is_some()
            && story.report.history.faults.iter().all(|fault| fault.injected.is_none()) =>
        {
            ", with no fault at all".to_string()
        }
        _ => String::new(),
    }
}

/// What explains an incident, in a few words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Breakpoint,
    Stolen,
    Promoted,
    Fault(FaultKind, Whose),
}

/// Whom a fault struck.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Holder,
    OtherClient,
    Server,
}

impl Why {
    fn of(story: &Story, incident: &Incident) -> Option<Why> {
        match incident.how().map(|how| how.kind) {
            Some(HowKind::Breakpoint) => return Some(Why::Breakpoint),
            Some(HowKind::Stolen) => return Some(Why::Stolen),
            Some(HowKind::Promoted) => return Some(Why::Promoted),
            Some(HowKind::Extended | HowKind::Expired | HowKind::Released) | None => {}
        }
        let fault = incident.fault?;
        let (from, to) = (fault.inject, fault.heal.or(fault.span().1));
        let held_meanwhile = |operation: &Operation| {
            incident.fault_hits(&story.name(operation.process))
                && moments::hold(operation).is_some_and(|hold| from <= hold.end && to.is_none_or(|to| hold.start <= to))
        };
        let whose = match incident.operations.iter().any(|operation| held_meanwhile(operation)) {
            true => Whose::Holder,
            false if hits_a_client(story, fault) => Whose::OtherClient,
            false => Whose::Server,
        };
        Some(Why::Fault(fault.kind, whose))
    }

    fn words(self, unlocked: bool) -> String {
        match self {
            Why::Breakpoint => " while a script kept its holder at a breakpoint".to_string(),
            Why::Stolen => " when one client took it from another, as the lock allows".to_string(),
            Why::Promoted => " after a replica was promoted".to_string(),
            Why::Fault(kind, whose) => {
                let was = what_was(kind, whose).to_string();
                format!(" while {}", if unlocked { was.replace("its holder", "a client") } else { was })
            }
        }
    }
}

fn hits_a_client(story: &Story, fault: &FaultWindow) -> bool {
    let mut operations = story.client_operations();
    operations.any(|operation| fault.targets.contains(&story.name(operation.process)))
}

/// What was going on, in a few words.
fn what_was(kind: FaultKind, whose: Whose) -> &'static str {
    match whose {
        Whose::Holder => kind.says.holder,
        Whose::OtherClient => kind.says.client,
        Whose::Server => kind.says.node,
    }
}
