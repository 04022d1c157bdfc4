//! A bounded wait ends in time, and a lock expires however its holder ends.

use super::super::words::count;
use super::*;
use base::members::Role;
use base::mutants::planted;
use model::history::{FactName, FaultWindow};

pub static DEF: Property = Property {
    id: "promises",
    rank: Rank::Claim(ClaimDef {
        claim: Claim::Timeouts,
        conditional: false,
        decides: |run| run.claims.contains(&Claim::Timeouts),
        // Applies to runs that check a library whose locks expire. Other runs list this property only if they violate it.
        concerns: |history| history.facts.iter().any(|fact| fact.name == FactName::NothingEndless),
        counted: |_| 0,
        retitled: |_| None,
        reason: |seen| seen.first_summary(),
        found: |seen| match seen.contradictions() {
            0 => "all kept".to_string(),
            broken => plural(broken, "broken promise"),
        },
        headline: |seen, of| match seen.verdict.count_of(AnomalyKind::WaitedTooLong) {
            0 => format!("{} left a lock behind that outlasts its TTL.", of.lock),
            waits => {
                let their = if waits == 1 { "its" } else { "their" };
                format!("{} let {} exceed {their} timeout{}.", of.lock, plural(waits, "attempt"), of.cause)
            }
        },
    }),
    title: "Attempts keep to their timeout, and locks expire",
    applies: "runs whose attempts have a timeout, or whose locks expire",
    parameter: None,
    check,
};

/// An attempt to acquire the lock overran its timeout by far.
pub static WAITED_TOO_LONG: AnomalyDef = AnomalyDef {
    name: "attempt past its timeout",
    incident: "An attempt past its timeout",
    lines: Lines::Operations,
    blames: Blames::Effects,
};

/// A lock stayed on a node forever, or long after its TTL.
pub static LEFT_BEHIND: AnomalyDef = AnomalyDef {
    name: "lock that outlasts its TTL",
    incident: "A lock that outlasts its TTL",
    lines: Lines::LeftBehind,
    blames: Blames::Effects,
};

/// A wait may overrun by this fraction of its length, and at least by [`LEAST_OVERRUN_NS`]: clients check only now and then, and
/// machines are busy.
const OVERRUN: f64 = 0.5;
const LEAST_OVERRUN_NS: u64 = 1_000_000_000;

/// Examines each attempt that had a time limit, and the locks left on the nodes.
fn check(case: &Case) -> Findings {
    let history = case.history;
    let mut anomalies = Vec::new();
    let mut undecided = None;
    let waits = waits(case, &mut anomalies, &mut undecided);
    endless(history, &mut anomalies);
    let text = format!("{} with a timeout", count(waits, "attempt"));
    Findings::new(anomalies, waits, text, "the history records no attempt with a timeout").undecided(undecided)
}

/// Reports attempts that went on much longer than allowed, though nothing delayed their client and no request lacked an answer.
/// Skips attempts that something delayed; stores the reason for the first of these. Returns the number of attempts.
fn waits(case: &Case, found: &mut Vec<Anomaly>, undecided: &mut Option<String>) -> u64 {
    let (history, stops) = (case.history, case.stops());
    let Some(run) = &history.run else { return 0 };
    let Some(usual) = run.acquire_timeout_ms else { return 0 };
    let overrun = run.longest_overrun_ms.map(|ms| ms.saturating_mul(1_000_000));
    let words = Words::new(history);
    let mut attempts = 0;
    for (place, operation) in history.operations.iter().enumerate().filter(|(_, operation)| operation.f.is_locked()) {
        let limit = history.acquire_timeouts.get(&operation.index).copied().unwrap_or(usual).saturating_mul(1_000_000);
        let overrun = overrun.unwrap_or_else(|| ((limit as f64 * OVERRUN) as u64).max(LEAST_OVERRUN_NS));
        let most = limit.saturating_add(overrun);
        // The controller may read a report later than a stated limit allows, so the client's own stamps count.
        let when = |stamp: PhaseStamp| if run.longest_overrun_ms.is_some() { stamp.time() } else { stamp.received };
        let asked = operation.phase(Phase::Acquiring).filter(|_| run.longest_overrun_ms.is_some());
        let asked = asked.map_or(operation.invoked, PhaseStamp::time);
        let acquired = operation.phase(Phase::Acquired).map(when);
        let Some(end) = acquired.or(operation.completed.filter(|_| ended_without_the_lock(operation))) else {
            continue;
        };
        attempts += 1;
        let waited = end.saturating_sub(asked);
        let client = words.process(operation.process);
        let from = answered_from(history, asked, end);
        let mut hindered = stops.of(&client, from, end);
        if run.waits_by_wall_clock {
            hindered = hindered.saturating_add(clock_off(history, &client, from, end));
        }
        let took = end.saturating_sub(from).saturating_sub(hindered);
        if took <= most - u64::from(planted("waits.end-one-early")) {
            continue;
        }
        let outcome = match (acquired, operation.outcome) {
            (Some(_), _) => "acquired it",
            (None, Outcome::Info) => "had neither acquired it nor given up",
            (None, _) => "gave up",
        };
        let summary = format!(
            "{} asked for the lock at {} and {outcome} {} later, past its timeout of {}",
            words.client(place),
            seconds(asked),
            length(waited),
            length(limit),
        );
        if let Some(why) = kept(history, Needs::Client(&client), (asked, end), took - most) {
            undecided.get_or_insert(format!("{summary}, but {why}"));
            continue;
        }
        let operations = vec![operation.index];
        found.push(Anomaly::new(AnomalyKind::WaitedTooLong, &operation.key, end, operations, summary));
    }
    attempts
}

/// Returns the time from which all nodes could answer again; `from` if no fault silenced a node. A lock may wait for an answer up
/// to its request timeout, which is separate from its limit. TCP may resend lost data only as long after the heal as the fault
/// lasted.
fn answered_from(history: &History, from: u64, to: u64) -> u64 {
    let silences = |window: &&FaultWindow| window.kind.does.silences && window.hits(Role::Node);
    let answered = |window: &FaultWindow| {
        let healed = window.healed.filter(|(_, seen)| *seen).map_or(u64::MAX, |(time, _)| time);
        healed.saturating_add(healed.saturating_sub(window.inject))
    };
    let hit = history.faults.iter().filter(silences).filter(|window| window.skipped.is_none() && window.inject < to);
    hit.map(answered).fold(from, u64::max).min(to)
}

/// True if an attempt ended and had certainly not acquired the lock before. An attempt with an unknown outcome lasted until then
/// if its client reported that it asked, and nothing later.
fn ended_without_the_lock(operation: &Operation) -> bool {
    let asked = || operation.phases.has(Phase::Acquiring);
    let got_further = || operation.phases.iter().any(|stamp| stamp.phase > Phase::HalfAcquired);
    match operation.outcome {
        Outcome::Ok => false,
        Outcome::Fail => true,
        Outcome::Info => asked() && !got_further(),
    }
}

/// By how much, in nanoseconds, a fault may have set back a client's wall clock in this time: never more than the clock was
/// wrong. Unlimited if an old history leaves out the amount.
fn clock_off(history: &History, client: &str, from: u64, to: u64) -> u64 {
    let of_clock = |window: &&FaultWindow| window.kind.does.wall_clock && window.skipped.is_none();
    let hit = history.faults.iter().filter(of_clock).filter(|window| {
        let (inject, healed) = window.span();
        window.targets.iter().any(|target| target == client)
            && inject <= to
            && healed.is_none_or(|healed| from <= healed)
    });
    hit.map(|window| window.clock_off_ns.unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

/// Reports locks that the nodes kept longer than they should.
fn endless(history: &History, found: &mut Vec<Anomaly>) {
    for fact in history.facts.iter().filter(|fact| !fact.holds) {
        let what = match fact.name {
            FactName::NothingEndless => "after the last client had gone, a lock was left that outlasts its TTL",
            FactName::NothingTooLong => "a node kept a lock that outlasts its TTL",
            _ => continue,
        };
        found.push(Anomaly::new(
            AnomalyKind::LeftBehind,
            history.operations.first().map_or("", |operation| &operation.key),
            history.last_time,
            Vec::new(),
            format!("{what}: {}", fact.text),
        ));
    }
}
