//! Duties of a lock besides exclusion: tokens that rise, acquisition when a script expects it, notice of a loss.
//!
//! - **tokens** (Kleppmann's fencing): an acquisition that began after another one was over has the greater token;
//! - **in time**: a client acquires a lock that the script knows to be free ([`super::liveness`] asks the same of any run);
//! - **told**: if another client acquired the lock, its holder learns of that (`lost`) before it acts again.
//!
//! As everywhere, only facts that the stamps make certain count.

use std::collections::BTreeMap;

use super::AnomalyKind;
use super::starved::{Needs, QUIETER, SHARE, kept};
use super::verdict::{Anomaly, UntoldLoss};
use super::words::{Words, length, seconds};
use base::mutants::planted;
use model::fault_kinds::OnProcess;
use model::history::{
    CallEffect, Expects, FaultWindow, History, Operation, Outcome, Phase, PhaseStamp, Process, StepOutcome,
};

#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub anomalies: Vec<Anomaly>,
    /// The number of acquisitions with a token at known times.
    pub seen: u64,
    /// The number of these that came after another acquisition, and so must have a greater token.
    pub comparable: u64,
    pub regressions: u64,
}

/// An acquisition that had a token.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    /// The time before the client sent its first request for the lock.
    began: i64,
    /// The time after it received the last reply.
    over: i64,
    token: u64,
    place: usize,
}

/// Reports each acquisition with a token not greater than the token of an acquisition that was over before it began.
pub(super) fn tokens(history: &History) -> Tokens {
    let words = Words::new(history);
    let mut keys: BTreeMap<&str, Vec<Grant>> = BTreeMap::new();
    for (place, operation) in history.operations.iter().enumerate() {
        if let Some(grant) = grant(place, operation) {
            keys.entry(&operation.key).or_default().push(grant);
        }
    }
    let mut tokens = Tokens::default();
    for (key, mut grants) in keys {
        tokens.seen += grants.len() as u64;
        let mut by_end = grants.clone();
        by_end.sort_by_key(|grant| grant.over);
        grants.sort_by_key(|grant| grant.began);
        let mut over = by_end.into_iter().peekable();
        let mut greatest: Option<Grant> = None;
        for grant in grants {
            while let Some(earlier) =
                over.next_if(|earlier| earlier.over < grant.began + i64::from(planted("tokens.equal-stamps")))
            {
                greatest = Some(greatest.filter(|greatest| greatest.token >= earlier.token).unwrap_or(earlier));
            }
            tokens.comparable += u64::from(greatest.is_some());
            let Some(earlier) =
                greatest.filter(|earlier| earlier.token >= grant.token + u64::from(planted("tokens.equal-may-be")))
            else {
                continue;
            };
            tokens.regressions += 1;
            let time = u64::try_from(grant.over).unwrap_or(0);
            tokens.anomalies.push(Anomaly::new(
                AnomalyKind::TokenRegress,
                key,
                time,
                vec![history.operations[earlier.place].index, history.operations[grant.place].index],
                format!(
                    "{} acquired the lock of {key} with token {} at {}, after {} had acquired it with token {}",
                    words.client(grant.place),
                    grant.token,
                    seconds(time),
                    words.client(earlier.place),
                    earlier.token,
                ),
            ));
        }
    }
    tokens
}

/// The grant of an operation, if the operation reports everything needed to compare it. Readers may share a token.
pub(super) fn grant(place: usize, operation: &Operation) -> Option<Grant> {
    let acquired = operation.phase(Phase::Acquired).filter(|_| !operation.f.is_shared())?;
    let began = operation.phase(Phase::Acquiring)?.stamped?;
    Some(Grant { began, over: acquired.stamped?, token: acquired.token?, place })
}

/// Reports each script step by which a client should have acquired the lock but had not. Skips steps that are not evidence, and
/// returns the first reason for skipping one.
pub(super) fn late(history: &History, found: &mut Vec<Anomaly>) -> Option<String> {
    let mut doubt = None;
    for (time, step) in history.steps.iter().filter(|(_, step)| step.outcome == StepOutcome::NotLive) {
        let Some(Expects { client, phase, within_ns }) = step.expects else { continue };
        let of_client = history.operations.iter().filter(|operation| {
            let Process::Client(process) = operation.process else { return false };
            process % history.run.as_ref().map_or(u32::MAX, |run| run.clients.max(1)) == client
        });
        // An operation that began at the same time began after the step was over.
        let Some(operation) = of_client.clone().rfind(|operation| operation.invoked < *time) else { continue };
        let leaves_out = |phase: &Phase| {
            let mut had_it = of_client.clone().filter(|other| other.f.is_locked() && other.outcome == Outcome::Ok);
            had_it.any(|other| !other.phases.has(*phase))
        };
        if broke_off(history, operation, *time) || phase.is_some_and(|phase| came_as_far(operation, phase, *time)) {
            continue;
        }
        let why = match phase.filter(leaves_out) {
            Some(phase) => Some(format!("c{client} does not report `{}`", phase.word())),
            None => hampered(history, operation, (*time, step.number), within_ns),
        };
        if let Some(why) = why {
            doubt.get_or_insert(format!("`{}` was not reached, but {why}", step.step));
            continue;
        }
        // A client that gave up does not wait any more.
        let gave_up = operation.completed.filter(|ended| operation.outcome == Outcome::Fail && ended <= time);
        found.push(Anomaly::new(
            AnomalyKind::AcquiredLate,
            &operation.key,
            *time,
            vec![operation.index],
            match phase {
                Some(Phase::Acquired) => format!(
                    "c{client} asked for the lock at {} and {} {} later, though it should have been available (`{}`)",
                    seconds(operation.invoked),
                    if gave_up.is_some() { "gave up" } else { "still did not hold it" },
                    length(gave_up.unwrap_or(*time).saturating_sub(operation.invoked)),
                    step.step
                ),
                _ => {
                    format!(
                        "a working lock would have reached this step by {} (`{}`): {}",
                        seconds(*time),
                        step.step,
                        step.text
                    )
                }
            },
        ));
    }
    doubt
}

/// Says that another client at work had a valid lock from the beginning of this operation to a deadline. None if that is not certain,
/// or if clients may share or steal the lock.
fn had_it(history: &History, other: &Operation, operation: &Operation, until: u64) -> Option<String> {
    let run = history.run.as_ref().filter(|run| !run.steals && run.permits <= 1)?;
    let is_at_work =
        other.completed.is_none_or(|ended| ended > until) && !(other.f.is_shared() && operation.f.is_shared());
    let client = run.client_name(other.process);
    let is_stopped = |window: &FaultWindow| {
        let (from, to) = window.span();
        window.kind.does.process != OnProcess::GoesOn
            && window.hits_process(other, &client)
            && from <= until
            && to.is_none_or(|to| to >= operation.invoked)
    };
    if !is_at_work || history.faults.iter().any(is_stopped) {
        return None;
    }
    history.grants(other).filter(|grant| grant.time() <= operation.invoked).find_map(|grant| {
        let end = grant.time().saturating_add(grant.validity_ms?.saturating_mul(1_000_000));
        (end >= until).then(|| format!("{client} held the lock, which was valid until {}", seconds(end)))
    })
}

/// Returns what kept a client from its lock until the time of a step, whatever the lock did. The controller looked too late, a
/// needed member was [`kept`], or a heal took long while another client needed it. `None` if nothing of the kind took a relevant
/// share of the time.
fn hampered(
    history: &History,
    operation: &Operation,
    (time, number): (u64, u32),
    within_ns: Option<u64>,
) -> Option<String> {
    let before = history.steps.iter().rev().find(|(_, step)| step.number < number).map(|(time, _)| *time);
    let from = before.filter(|before| *before < time).unwrap_or(operation.invoked);
    let waited = time.saturating_sub(from);
    let allowed = within_ns.unwrap_or(waited);
    let matters = |lost: u64| lost > allowed / SHARE;
    if matters(waited.saturating_sub(allowed)) {
        let begun = before.unwrap_or(0);
        if let Some(ended) = operation.completed.filter(|ended| *ended <= begun) {
            return Some(format!(
                "its operation ended at {}, before the script reached this step at {}",
                seconds(ended),
                seconds(begun)
            ));
        }
        let late = length(waited - allowed);
        return Some(format!("the machine was busy: redjepsen checked {late} too late; {QUIETER}"));
    }
    let of_key = |other: &&Operation| other.key == operation.key && other.process != operation.process;
    let deadline = from.saturating_add(allowed);
    let had_it = |other| had_it(history, other, operation, deadline);
    if let Some(why) = history.operations.iter().filter(of_key).find_map(had_it) {
        return Some(why);
    }
    // Another client may still have the lock then, and release it once a fault is healed. It needs its time as well.
    let is_healed = |other: &&Operation| {
        let at_work = other.invoked..=operation.invoked;
        other.completed.is_none_or(|completed| *at_work.end() < completed)
            && history.faults.iter().any(|fault| fault.heal.is_some_and(|heal| at_work.contains(&heal)))
    };
    let before = history.operations.iter().filter(of_key).filter(is_healed).map(|other| other.invoked).min();
    let since = from.min(operation.invoked).min(before.unwrap_or(u64::MAX));
    if let Some(why) = kept(history, Needs::Lock(&operation.key), (since, time), allowed) {
        return Some(why);
    }
    // A client that ended without the lock within the last TTL may have left it behind. It needs the time around its end to
    // release it.
    let ttl = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let ended = history.operations.iter().filter(of_key).filter(|other| other.outcome != Outcome::Ok);
    let recent = |other: &&Operation| {
        other
            .completed
            .is_some_and(|ended| ended <= operation.invoked && operation.invoked <= ended.saturating_add(ttl))
    };
    let hampered_before = ended.filter(recent).find_map(|other| {
        let ended = other.completed?;
        let last_part = ended.saturating_sub(allowed).max(other.invoked);
        let until = operation.invoked.min(ended.saturating_add(allowed));
        kept(history, Needs::Lock(&operation.key), (last_part, until), allowed)
    });
    if hampered_before.is_some() {
        return hampered_before;
    }
    // Another client that has the lock may have needed that heal to release it.
    history.faults.iter().find_map(|fault| {
        let (ordered, (healed, true)) = (fault.heal?, fault.healed?) else { return None };
        let meanwhile =
            |other: &Operation| other.invoked < healed && other.completed.is_none_or(|completed| completed > ordered);
        let slow = matters(healed.saturating_sub(ordered)) && ordered < time;
        let last = || history.operations.iter().filter(of_key).rfind(|other| other.invoked < time);
        (slow && last().is_some_and(meanwhile)).then(|| {
            format!(
                "`{}` took {} to heal while another client was at work; {QUIETER}",
                fault.what,
                length(healed - ordered)
            )
        })
    })
}

/// True if an operation had certainly reached this phase by then. Phases are optional. An operation that ended `ok` went through
/// all of them, and a client that reports any phase of a holder had acquired the lock.
fn came_as_far(operation: &Operation, phase: Phase, by: u64) -> bool {
    let ended = operation.outcome == Outcome::Ok && operation.completed.is_some_and(|completed| completed <= by);
    let implies = |stamp: PhaseStamp| stamp.phase == phase || (phase == Phase::Acquired && stamp.phase > phase);
    ended
        || operation
            .phases
            .iter()
            .any(|stamp| stamp.received + u64::from(planted("late.just-in-time")) <= by && implies(stamp))
}

/// True if an attempt had failed by then because a fault at a command broke its client's own connection or refused the command.
/// The client says rightly that it has not acquired the lock, and nothing kept other clients from it. A later attempt may show
/// more.
fn broke_off(history: &History, operation: &Operation, by: u64) -> bool {
    let breaks = |what: &str| {
        use CallEffect::{CloseAfter, CutConnection, LoseReply, Refuse, ResetAfter, ResetConnection};
        let effects = [LoseReply, ResetAfter, CloseAfter, ResetConnection, CutConnection, Refuse];
        effects.iter().any(|effect| what.starts_with(effect.words()))
    };
    let name = history.run.as_ref().map(|run| run.client_name(operation.process));
    operation.outcome == Outcome::Fail
        && operation.completed.is_some_and(|completed| completed <= by)
        && operation.phase(Phase::Acquired).is_none()
        && history.faults.iter().any(|fault| {
            fault.kind.is_at_command()
                && fault.was_observed()
                && breaks(&fault.what)
                && name.as_ref().is_some_and(|name| fault.targets.contains(name))
                // The controller may report the fault after the client's answer to it, but the client has done nothing since.
                && (operation.invoked..=by).contains(&fault.inject)
        })
}

/// Holders that went on acting after another client had acquired the same lock, without learning of it. Lists each holder once,
/// with the time at which it lost the lock.
pub(super) fn untold_losses(history: &History, overlapping: &[Anomaly]) -> Vec<UntoldLoss> {
    let mut losses: BTreeMap<u64, UntoldLoss> = BTreeMap::new();
    for anomaly in overlapping {
        let &[earlier, _] = anomaly.operations.as_slice() else { continue };
        let Some(place) = history.place_of(earlier) else { continue };
        let operation = &history.operations[place];
        if operation.phases.iter().any(|stamp| stamp.phase == Phase::Lost) {
            continue;
        }
        let Some((_, end)) = history.certain_hold(operation) else { continue };
        losses.entry(earlier).or_insert(UntoldLoss {
            operation: earlier,
            time: anomaly.time,
            acted_until: u64::try_from(end).unwrap_or(0),
            fault: anomaly.fault,
        });
    }
    losses.into_values().collect()
}
