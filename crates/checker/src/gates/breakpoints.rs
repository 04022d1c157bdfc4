//! The gate on breakpoints. A script that keeps a holder waiting until its lock has expired causes the violations that follow,
//! whatever the lock.
//!
//! A script may do so on purpose where a lock is renewed meanwhile; then its steps say so ([`Opened::meant`]), and this gate does
//! not apply. Otherwise something took longer than the script expected, such as a release that a library retried. A violation
//! that a fault explains counts against the fault. If another client acquired the lock before its time was over, that counts
//! against the lock.

use std::collections::BTreeSet;

use super::super::verdict::{Anomaly, Gate, GateName};
use super::super::words::{Words, seconds};
use super::gate;
use base::members::client_name;
use model::history::{History, Opened, Operation, Phase, PhaseStamp};

/// A holder whose lock expired while it waited at a breakpoint.
struct OverdueHolder<'h> {
    operation: &'h Operation,
    from: Phase,
    ended: u64,
    opened: u64,
}

/// Passes unless every violation is about a holder that only the script kept from ending in time. None if there is no script, or
/// locks never expire.
pub fn nobody_kept(history: &History, anomalies: &[Anomaly]) -> Option<Gate> {
    let run = history.run.as_ref().filter(|run| run.script_steps > 0 && run.expires)?;
    let ttl_ns = run.ttl_ms.saturating_mul(1_000_000);
    let opened = history.steps.iter().flat_map(|(time, step)| step.opens.iter().map(move |opened| (*time, opened)));
    let (meant, unmeant): (Vec<_>, Vec<_>) = opened
        .filter_map(|(time, opened)| Some((opened.meant, kept(history, time, opened, ttl_ns)?)))
        .partition(|(meant, _)| *meant);
    let kept: Vec<OverdueHolder> = unmeant.into_iter().map(|(_, kept)| kept).collect();
    let name = GateName::BreakpointsBrief;
    let Some(first) = kept.first() else {
        let on_purpose = if meant.is_empty() { "" } else { ", except where the script tests this" };
        let text = format!("no breakpoint alone stopped a holder until its lock had expired{on_purpose}");
        return Some(gate(name, true, text));
    };
    let involved: BTreeSet<u64> = kept.iter().map(|kept| kept.operation.index).collect();
    let is_of_it = |anomaly: &Anomaly| anomaly.operations.iter().any(|operation| involved.contains(operation));
    let words = Words::new(history);
    let what = format!(
        "the script stopped {} at `{}` until {}, although its lock had expired at {}, and no fault delayed the client",
        words.process(first.operation.process),
        first.from.word(),
        seconds(first.opened),
        seconds(first.ended),
    );
    // The library alone answers for what it says about an expired lock, whatever delayed its client.
    let of_the_lock =
        |anomaly: &&Anomaly| anomaly.kind.contradicts().is_some() && !anomaly.kind.property().is_conditional();
    let of_the_claims = || anomalies.iter().filter(of_the_lock);
    if of_the_claims().next().is_none() || !of_the_claims().all(is_of_it) {
        return Some(gate(name, true, format!("{what}; no violation depends on it")));
    }
    let text = format!("{what}: the violations that follow prove nothing about the lock");
    Some(Gate { undermines_violations: true, ..gate(name, false, text) })
}

/// The holder that a script let go from a breakpoint at this time. None unless its lock had expired there by itself.
fn kept<'h>(history: &'h History, time: u64, opened: &Opened, ttl_ns: u64) -> Option<OverdueHolder<'h>> {
    let Opened { client, from, .. } = *opened;
    if !(Phase::HalfAcquired..=Phase::BeforeWrite).contains(&from) {
        return None;
    }
    let words = Words::new(history);
    let name = client_name(client);
    let is_its = |operation: &&Operation| words.process(operation.process) == name && operation.invoked <= time;
    let operation = history.operations.iter().rev().find(is_its)?;
    // The client's own stamps count: on a busy machine the controller reads reports late.
    let stood = operation.phase(from).filter(|stamp| stamp.received <= time)?.time();
    // The client may report at the breakpoint that it owns the lock; such a report does not mean that it went on.
    let acts = operation.phases.iter().filter(|stamp| stamp.phase != Phase::Owned);
    let next = acts.map(PhaseStamp::time).filter(|at| *at > stood).min();
    let opened = next.map_or(time, |next| next.min(time));
    let granted = history.grants(operation);
    let until = granted.filter(|stamp| stamp.time() <= opened).map(|stamp| {
        let left = stamp.validity_ms.map_or(ttl_ns, |left| left.saturating_mul(1_000_000));
        stamp.time().saturating_add(left)
    });
    let ended = until.max().filter(|ended| stood <= *ended && *ended < opened)?;
    let by_a_fault = history.faults.iter().any(|window| {
        let (since, until) = window.span();
        (window.kind.suspends() || window.kind.is_at_command())
            && window.was_observed()
            && window.targets.contains(&name)
            && since <= ended
            && until.is_none_or(|until| ended <= until)
    });
    let is_real = by_a_fault || was_robbed(history, operation, ttl_ns);
    (!is_real).then_some(OverdueHolder { operation, from, ended, opened })
}

/// True if another client had acquired the lock before its time can have been over.
fn was_robbed(history: &History, holder: &Operation, ttl_ns: u64) -> bool {
    let Some(acquired) = holder.phase(Phase::Acquired) else { return false };
    // The node set the key after the request left.
    let asked = holder.phase(Phase::Acquiring).map_or(holder.invoked, PhaseStamp::time);
    let earliest = asked.saturating_add(ttl_ns);
    let of_others =
        history.operations.iter().filter(|other| other.key == holder.key && other.process != holder.process);
    // A reader beside another reader takes nothing away.
    of_others.filter(|other| !(other.f.is_shared() && holder.f.is_shared())).any(|other| {
        other.phase(Phase::Acquired).is_some_and(|other| acquired.time() < other.time() && other.time() < earliest)
    })
}
