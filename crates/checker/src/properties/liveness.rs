//! Clients acquire a lock that is free and requested. The theory is in `checker/liveness.rs` and, for scripts, in
//! `checker/locks.rs`.

use super::super::evidence::NotCounted;
use super::super::liveness::STUCK_AFTER_TTLS;
use super::super::verdict::Gap;
use super::super::words;
use super::*;
use model::history::{CallEffect, FactName, locked_key};

/// The shortest time without the lock that the headline mentions, in nanoseconds.
const LONG_GAP_NS: u64 = 2_000_000_000;

pub static DEF: Property = Property {
    id: "liveness",
    rank: Rank::Claim(ClaimDef {
        claim: Claim::Liveness,
        conditional: false,
        decides: |run| run.claims.contains(&Claim::Liveness),
        concerns: |history| history.takes_locks() && history.operations.iter().any(|operation| operation.f.is_locked()),
        counted: |_| 0,
        retitled: |_| None,
        reason,
        found,
        headline,
    }),
    title: "A free lock can be acquired",
    applies: "runs whose clients acquire a lock",
    parameter: None,
    check: |case| {
        let mut evidence = case.liveness.evidence.clone();
        evidence.not_counted = case.late_doubt.clone().map(NotCounted::Undecided).or(evidence.not_counted);
        let anomalies: Vec<Anomaly> = case.late.iter().chain(&case.liveness.anomalies).cloned().collect();
        Findings { anomalies, evidence }
    },
};

const fn anomaly(name: &'static str, incident: &'static str, lines: Lines) -> AnomalyDef {
    AnomalyDef { name, incident, lines, blames: Blames::Effects }
}

/// Clients asked for a free lock, and none acquired it, with no fault in effect.
pub static NOT_OBTAINED: AnomalyDef = AnomalyDef {
    blames: Blames::Nothing,
    ..anomaly("free lock that no client acquired", "A free lock that no client acquired", Lines::Operations)
};
/// The lock was not acquired in the time that a script grants any live lock.
pub static ACQUIRED_LATE: AnomalyDef =
    anomaly("lock acquired late", "A free lock was not acquired in time", Lines::Operations);
/// Clients asked for a free lock for longer than the workload allows, and none acquired it.
pub static UNAVAILABLE: AnomalyDef =
    anomaly("lock unavailable for too long", "Free lock not acquired in time", Lines::Attempts);

fn reason(seen: &Seen) -> String {
    let stuck = seen.first_of(AnomalyKind::NotObtained).or_else(|| seen.first_of(AnomalyKind::Unavailable));
    stuck.map(|anomaly| anomaly.summary.clone()).unwrap_or_else(|| {
        let late = seen.verdict.count_of(AnomalyKind::AcquiredLate);
        format!("{} did not acquire the lock when it should have been available", words::count(late, "client"))
    })
}

fn found(seen: &Seen) -> String {
    let (history, verdict) = (seen.history, seen.verdict);
    if verdict.has(AnomalyKind::AcquiredLate) {
        return "not acquired in time".to_string();
    }
    if never_freed(history, verdict).is_some() {
        return "not acquired: its key has no TTL".to_string();
    }
    if seen.contradictions() > 0 {
        return "free, but not acquired".to_string();
    }
    let gap = verdict.lock.longest_gap.as_ref();
    let stuck = match verdict.lock.reacquired_after_ns {
        Some(after) => Some(format!("acquired {} after the last heal", length(after))),
        // A lock that does not count as stuck may still have been unavailable for long.
        None => gap.is_none_or(|gap| !is_long(history, gap)).then(|| "never stuck".to_string()),
    };
    let gap = gap.map(|gap| format!("longest wait for a free lock: {}", length(gap.to - gap.from)));
    stuck.into_iter().chain(gap).collect::<Vec<String>>().join("; ")
}

fn headline(seen: &Seen, of: &Circumstances) -> String {
    let (verdict, lock) = (seen.verdict, &of.lock);
    if let Some(key) = never_freed(seen.history, verdict) {
        let died = died_after(seen.history).map_or(String::new(), |died| format!("; {died}"));
        return format!("{lock} could not be acquired: {key}, was still there at the end{died}.");
    }
    if seen.history.permits() > 1 && (verdict.has(AnomalyKind::NotObtained) || verdict.has(AnomalyKind::Unavailable)) {
        return format!("{lock} kept clients waiting, although a permit was free.");
    }
    if verdict.has(AnomalyKind::NotObtained) {
        return format!("{lock} could not be acquired by any client, though no live client had a valid lock.");
    }
    match verdict.lock.longest_gap.as_ref().filter(|_| verdict.has(AnomalyKind::Unavailable)) {
        Some(gap) => {
            let lasted = length(gap.to - gap.from);
            format!("{lock} could not be acquired by any client for {lasted}, though no live client had a valid lock.")
        }
        None => format!("{lock} could not be acquired when it should have been available."),
    }
}

/// True if a lock was unavailable for so long that "valid" alone would mislead.
pub fn is_long(history: &History, gap: &Gap) -> bool {
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    gap.to - gap.from > ttl_ns.saturating_mul(STUCK_AFTER_TTLS).max(LONG_GAP_NS)
}

/// The key that kept all clients from a lock that no client had: `its key `lock:k0` on n0, which never ends`. None unless a node
/// still had it at the end without a TTL, and no client acquired the lock in between.
pub fn never_freed(history: &History, verdict: &Verdict) -> Option<String> {
    let stuck = verdict.anomalies.iter().find(|anomaly| anomaly.kind.contradicts() == Some(Claim::Liveness))?;
    let operations = stuck.operations.iter().filter_map(|index| history.place_of(*index));
    let from = operations.map(|place| history.operations[place].invoked).min().unwrap_or(stuck.time);
    let acquired = |one: &Operation| one.phase(Phase::Acquired).is_some_and(|stamp| stamp.time() >= from);
    if history.operations.iter().any(|one| one.key == stuck.key && acquired(one)) {
        return None;
    }
    endless_key(history, &stuck.key).map(|key| format!("its key {key}, which has no TTL"))
}

/// The key of this lock that a node still had at the end, without a TTL: `` `lock:k0` on n0 ``.
pub(super) fn endless_key(history: &History, of: &str) -> Option<String> {
    let left = history.facts.iter().filter(|fact| fact.name == FactName::NothingEndless && !fact.holds);
    let keys = left.flat_map(|fact| fact.text.split(", `")).map(|key| key.trim_start_matches('`'));
    let endless = keys.filter_map(|text| text.strip_suffix(", which never ends")?.split_once("` on "));
    endless
        .filter(|(key, _)| locked_key(key) == Some(of))
        .map(|(key, on)| format!("`{}` on {}", sanitize(key, 60), sanitize(on, 60)))
        .next()
}

/// The only killed client, if it was killed after its command had reached a node: `c0 was killed before it had the reply to its
/// 1st SETNX`.
fn died_after(history: &History) -> Option<String> {
    let faults = || history.faults.iter().filter(|window| window.was_observed());
    let mut killed = faults().filter(|window| window.kind.ends_processes());
    let kill = killed.next().filter(|_| killed.next().is_none())?;
    let [client] = &kill.targets[..] else { return None };
    let held = faults().find(|window| {
        let (from, until) = window.span();
        window.on_call == Some(CallEffect::HoldReply)
            && from <= kill.inject
            && until.is_none_or(|until| kill.inject <= until)
    })?;
    let mut words = held.texts.first()?.strip_prefix(&format!("{client}'s "))?.split(' ');
    let (nth, command) = (words.next()?, words.next()?);
    Some(format!("{client} was killed before it received the reply to its {nth} {command}"))
}
