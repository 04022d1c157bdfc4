//! Time that members lost whatever the lock did. The machine stood still, or a member got no processor, was stopped from outside,
//! had ended, or did not answer.
//!
//! A claim about time has no evidence if members lost a relevant share of the time by which it is violated. A client without a
//! processor is like a paused client, and a lock that fails under a pause is broken. If values or stamps show that, the wait is
//! the cause and does not excuse the lock. A missing server is different: nothing is known about the lock meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::{Anomaly, Gate, GateName};
use super::words::{Words, count, length, seconds};
use base::members::Role;
use model::fault_kinds::OnPackets;
use model::history::{FaultWindow, History, Operation, Process, Waited, WhyWaited};

/// A measured time is not evidence if members lost more than 1/4 of it.
pub(super) const SHARE: u64 = 4;
/// A server that is silent for fewer nanoseconds may have been busy with its work.
const LEAST_SILENCE: u64 = 1_000_000_000;
/// The advice at the end of a doubt about a busy machine.
pub const QUIETER: &str = "rerun it on a quieter machine";

/// The members that a claim needs, besides all servers unless stated otherwise.
pub(super) enum Needs<'n> {
    Everyone,
    /// All clients that asked for the lock of this key meanwhile. Also the agent, while it heals or while a fault on packets is
    /// in effect.
    Lock(&'n str),
    Client(&'n str),
    /// This client alone, without servers: it decides by its own clock.
    ClientAlone(&'n str),
}

/// Says which member lost how much time between two times. `margin` is the time in nanoseconds by which the claim is violated;
/// None if the loss is not a relevant share of it.
pub(super) fn kept(history: &History, needs: Needs, (from, to): (u64, u64), margin: u64) -> Option<String> {
    let words = Words::new(history);
    let asked: BTreeSet<Process> = match needs {
        Needs::Lock(key) if !history.kept_waiting.is_empty() => {
            let asks = |operation: &&Operation| {
                operation.key.as_str() == key
                    && operation.invoked < to
                    && operation.completed.is_none_or(|completed| from < completed)
            };
            history.operations.iter().filter(asks).map(|operation| operation.process).collect()
        }
        _ => BTreeSet::new(),
    };
    let asked: BTreeSet<String> = asked.into_iter().map(|process| words.process(process)).collect();
    let is_needed = |member: &str| match (Role::of(member), &needs) {
        (Some(Role::Client), Needs::Lock(_)) => asked.contains(member),
        (Some(Role::Client), Needs::Client(client)) => member == *client,
        (Some(Role::Agent), Needs::Client(_)) => false,
        (_, Needs::ClientAlone(client)) => member == *client,
        _ => true,
    };
    let within = |(start, end): (u64, u64)| end.min(to).saturating_sub(start.max(from));
    let stood: u64 = history.stalls.iter().chain(&history.brief_stalls).copied().map(within).sum();
    let mut spans: Vec<(u64, u64)> = history.stalls.iter().chain(&history.brief_stalls).copied().collect();
    let of_agent = |fault: &FaultWindow| {
        let from = if fault.kind.does.packets == OnPackets::Pass { fault.heal? } else { fault.inject };
        Some((from, fault.healed.map_or(u64::MAX, |(healed, _)| healed)))
    };
    let mut at_work: Vec<(u64, u64)> = history.faults.iter().filter_map(of_agent).collect();
    at_work.sort_unstable();
    // By member and reason.
    let mut lost: BTreeMap<(&str, WhyWaited), u64> = BTreeMap::new();
    for (_, waited) in &history.kept_waiting {
        let (until, most) = match waited.why {
            WhyWaited::Gone => (u64::MAX, u64::MAX),
            _ => (waited.to_ns, waited.waited_ns),
        };
        let Some(member) = waited.members.iter().find(|member| is_needed(member)) else { continue };
        let (began, ended) = (waited.from_ns.max(from), until.min(to));
        let time = match Role::of(member) {
            Some(Role::Agent) => covered(at_work.iter().copied(), began, ended),
            _ => ended.saturating_sub(began),
        };
        let part = time.min(most);
        if part == 0 {
            continue;
        }
        spans.push((waited.from_ns, until));
        *lost.entry((member.as_str(), waited.why)).or_default() += part;
    }
    spans.sort_unstable();
    let all = lost.values().sum::<u64>().saturating_add(stood).min(covered(spans, from, to));
    if all.saturating_mul(SHARE) <= margin || all == 0 {
        return None;
    }
    let most = lost.iter().max_by_key(|(_, lost)| **lost).filter(|(_, lost)| **lost > stood);
    let Some((&(member, why), most)) = most else {
        return Some(format!("the machine stood still for {} of that time; {QUIETER}", length(stood)));
    };
    let mut others: Vec<&str> = lost.keys().map(|(other, _)| *other).filter(|other| *other != member).collect();
    others.dedup();
    let others = base::words::unless_none(others.len() as u64, |more| {
        format!(", and {} did not always run either", count(more, "other member"))
    });
    Some(format!("{} for {} of that time{others}; {QUIETER}", did(member, why), length(*most)))
}

/// True if no member lost a relevant share of `margin` between two times.
pub fn everyone_ran(history: &History, span: (u64, u64), margin: u64) -> bool {
    kept(history, Needs::Everyone, span, margin).is_none()
}

/// How much of the time from `from` to `to` these spans cover together. They must be ordered by their starts.
pub fn covered(spans: impl IntoIterator<Item = (u64, u64)>, from: u64, to: u64) -> u64 {
    let (mut reached, mut sum) = (from, 0);
    for (start, end) in spans {
        let (start, end) = (start.max(reached), end.min(to));
        sum += end.saturating_sub(start);
        reached = reached.max(end);
    }
    sum
}

/// The behaviour of a member, to be followed by the duration.
fn did(member: &str, why: WhyWaited) -> String {
    let member = match Role::of(member) {
        Some(Role::Resource | Role::Agent) => format!("the {member}"),
        _ => member.to_string(),
    };
    match why {
        WhyWaited::Processor => format!("{member} waited for a processor"),
        WhyWaited::Stopped => format!("{member} was stopped by another process"),
        WhyWaited::Gone => format!("{member}'s process was gone"),
        WhyWaited::Silent => format!("{member} did not answer"),
        WhyWaited::Late => format!("{member} stood still"),
    }
}

/// A time in which a server was missing, though no fault stopped it.
struct Absence<'h> {
    waited: &'h Waited,
    /// Until when events may be a consequence of the absence.
    until: u64,
}

/// The gate that fails if a server was missing while clients worked; None if all were there. Anomalies in that time prove nothing
/// about the lock.
pub(super) fn servers_there(history: &History, anomalies: &[Anomaly]) -> Option<Gate> {
    let absences = absences(history);
    let first = absences.first()?;
    let falls = |anomaly: &Anomaly| absences.iter().any(|absence| absence.has(history, anomaly));
    let mut of_claims = anomalies.iter().filter(|anomaly| anomaly.kind.contradicts().is_some()).peekable();
    let undermines_violations = of_claims.peek().is_some() && of_claims.all(falls);
    let others =
        base::words::unless_none(absences.len() as u64 - 1, |more| format!(", and {}", count(more, "more time")));
    let Waited { members, why, from_ns, to_ns, .. } = first.waited;
    let lasted = if *why == WhyWaited::Gone { String::new() } else { format!(" for {}", length(to_ns - from_ns)) };
    let text = format!(
        "{}{lasted} from {} on{others}, and no fault caused that; a violation in that time proves nothing about the lock",
        did(members.first().map_or("", String::as_str), *why),
        seconds(*from_ns),
    );
    Some(Gate { name: GateName::NodesHealthy.word().to_string(), passed: false, text, undermines_violations })
}

/// True if a server was missing while clients worked, without a fault that stops it.
pub fn a_server_was_missing(history: &History) -> bool {
    !absences(history).is_empty()
}

/// When servers were missing. A server that only waited for a processor was there, and its wait explains a silence.
fn absences(history: &History) -> Vec<Absence<'_>> {
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    let of_servers = history
        .kept_waiting
        .iter()
        .map(|(_, waited)| waited)
        .filter(|waited| waited.members.iter().any(|member| Role::of(member).is_some_and(Role::is_server)));
    let absent = of_servers.filter(|waited| match waited.why {
        WhyWaited::Processor | WhyWaited::Late => false,
        WhyWaited::Stopped | WhyWaited::Gone => true,
        WhyWaited::Silent => waited.waited_ns >= LEAST_SILENCE && !is_explained(history, waited),
    });
    let until = |waited: &Waited| match waited.why {
        WhyWaited::Gone => u64::MAX,
        _ => waited.to_ns.saturating_add(ttl_ns),
    };
    absent.map(|waited| Absence { waited, until: until(waited) }).collect()
}

/// True if the server, or the agent that listened, had no processor in a relevant share of the silence.
fn is_explained(history: &History, silence: &Waited) -> bool {
    let (from, to) = (silence.from_ns, silence.to_ns);
    let why = history.kept_waiting.iter().map(|(_, waited)| waited).filter(|waited| {
        let of_agent = waited.members.iter().any(|member| Role::of(member) == Some(Role::Agent));
        of_agent || waited.why == WhyWaited::Processor && waited.members == silence.members
    });
    let mut spans: Vec<(u64, u64)> =
        why.map(|waited| (waited.from_ns, waited.to_ns)).chain(history.stalls.iter().copied()).collect();
    spans.sort_unstable();
    covered(spans, from, to).saturating_mul(SHARE) >= to - from
}

impl Absence<'_> {
    /// True if an anomaly falls into the absence: it became visible then, or one of its operations was in progress then.
    fn has(&self, history: &History, anomaly: &Anomaly) -> bool {
        let meets = |from: u64, to: u64| from <= self.until && self.waited.from_ns <= to;
        let mut places = anomaly.operations.iter().filter_map(|index| history.place_of(*index));
        meets(anomaly.time, anomaly.time)
            || places.any(|place| {
                let operation = &history.operations[place];
                meets(operation.invoked, operation.completed.unwrap_or(u64::MAX))
            })
    }
}

/// The wait that kept a client from running when its lock expired at `ran_out`, with the index of its event. Without the time
/// lost since `began`, the client would have ended by then, and not at `ended`.
pub(super) fn did_not_run<'h>(
    history: &'h History,
    client: &str,
    (began, ran_out, ended): (u64, u64, u64),
) -> Option<(u64, &'h Waited)> {
    let of_client = history.kept_waiting.iter().filter(|(_, waited)| {
        matches!(waited.why, WhyWaited::Processor | WhyWaited::Stopped)
            && waited.members.iter().any(|member| member == client)
    });
    let part = |waited: &Waited| {
        let within = waited.to_ns.min(ended).saturating_sub(waited.from_ns.max(began));
        within.min(waited.waited_ns)
    };
    let lost: u64 = of_client.clone().map(|(_, waited)| part(waited)).sum();
    let mut then = of_client.filter(|(_, waited)| (waited.from_ns..=waited.to_ns).contains(&ran_out));
    let (index, waited) = then.find(|(_, waited)| waited.waited_ns * 2 >= waited.to_ns - waited.from_ns)?;
    (lost >= ended.saturating_sub(ran_out)).then_some((*index, waited))
}

/// How a client failed to run, in words.
pub(super) fn how(client: &str, waited: &Waited) -> String {
    let from = seconds(waited.from_ns);
    format!("{} for {} from {from} to {}", did(client, waited.why), length(waited.waited_ns), seconds(waited.to_ns))
}
