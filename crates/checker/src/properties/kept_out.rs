//! Every client has an update acknowledged. A client may ask for its lock for long, without any fault, and never acquire it. That
//! does not certainly violate a claim. It is a finding, and the gate `every-client` reports it.

use std::collections::BTreeMap;

use super::super::evidence::Evidence;
use super::super::gates::most_often_said;
use super::super::liveness::STUCK_AFTER_TTLS;
use super::super::starved::covered;
use super::liveness::endless_key;
use super::*;
use model::history::FactName;

pub static DEF: Property = Property {
    id: "every-client",
    rank: Rank::Gate,
    title: "Every client has an update acknowledged",
    applies: "every run",
    parameter: None,
    check: |case| Findings { anomalies: kept_out(case.history), evidence: Evidence::default() },
};

/// Clients asked for a lock for long, with no fault, and never acquired it.
pub static KEPT_OUT: AnomalyDef = AnomalyDef {
    name: "client that never acquired the lock",
    incident: "A client that never acquired the lock",
    lines: Lines::Operations,
    blames: Blames::Nothing,
};

/// The same as an advisory: the users of a library want to know of it, whatever its claims.
pub static ADVISORY: Advisory = Advisory {
    id: "kept-out",
    title: "A client that keeps asking for a lock acquires it",
    applies: "runs without faults and scripts",
    check: |run| {
        let found = run.verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::KeptOut);
        let all: Vec<&Anomaly> = found.collect();
        let clients = all.iter().map(|anomaly| anomaly.operations.len() as u64).sum();
        let of = run.history.run.as_ref().map_or(clients, |header| u64::from(header.clients));
        Remark::new(clients, of, sanitize(&all.first()?.summary, 400))
    },
};

/// A client that asks for less time than this, in nanoseconds and in TTLs, may have been unlucky.
const LONG_NS: u64 = 5_000_000_000;
const LONG_TTLS: u64 = STUCK_AFTER_TTLS + 2;
/// For each client, other clients must acquire the lock this often before a client counts as kept out. By chance alone each
/// client would have acquired it by then.
const TURNS: u64 = 10;

/// A client that never acquired the lock of a key.
struct Refused<'h> {
    client: String,
    attempts: Vec<&'h Operation>,
    asked: u64,
}

/// For each key, the clients that asked for its lock for long and never acquired it, without any fault, while all members ran.
/// Either other clients acquired it many times, or no client ever did. Then a key of the lock that never expires is in the way, or
/// the attempts' own error says what happened.
fn kept_out(history: &History) -> Vec<Anomaly> {
    let Some(run) = &history.run else { return Vec::new() };
    let is_disturbed = run.script_steps > 0
        || !history.cancelled.is_empty()
        || history.faults.iter().any(|window| window.skipped.is_none())
        || !history.facts.iter().any(|fact| fact.name == FactName::NodesHealthy && fact.holds);
    // A client that others may rob, and a writer among readers, waits by design.
    if is_disturbed || run.steals || history.has_readers() {
        return Vec::new();
    }
    let mut keys: BTreeMap<&str, BTreeMap<String, Vec<&Operation>>> = BTreeMap::new();
    let words = Words::new(history);
    for operation in history.operations.iter().filter(|one| one.f.is_locked() && one.process != Process::Controller) {
        let clients = keys.entry(&operation.key).or_default();
        clients.entry(words.process(operation.process)).or_default().push(operation);
    }
    keys.iter().filter_map(|(key, clients)| of_key(history, run, key, clients)).collect()
}

fn of_key(history: &History, run: &Header, key: &str, clients: &BTreeMap<String, Vec<&Operation>>) -> Option<Anomaly> {
    let long = LONG_NS.max(run.ttl_ms.saturating_mul(1_000_000).saturating_mul(LONG_TTLS));
    let acquired = |one: &&&Operation| one.phases.has(Phase::Acquired) || one.outcome == Outcome::Ok;
    let grants: Vec<u64> = clients.values().flatten().filter(acquired).map(|one| one.invoked).collect();
    let refused = clients.iter().filter_map(|(client, attempts)| {
        // An operation whose end is not known may have had the lock.
        let is_refused = |one: &&Operation| {
            one.outcome == Outcome::Fail
                && one.phases.has(Phase::Acquiring)
                && one.phases.iter().all(|stamp| stamp.phase < Phase::HalfAcquired)
        };
        let spans = attempts.iter().map(|one| (one.invoked, one.completed.unwrap_or(one.invoked)));
        let asked = covered(spans, 0, u64::MAX);
        (attempts.iter().all(is_refused) && asked >= long).then(|| Refused {
            client: client.clone(),
            attempts: attempts.clone(),
            asked,
        })
    });
    let refused: Vec<Refused> = refused.collect();
    let from = refused.iter().filter_map(|one| one.attempts.first()).map(|one| one.invoked).min()?;
    let to = refused.iter().filter_map(|one| one.attempts.last()?.completed).max()?;
    let asked = refused.iter().map(|one| one.asked).min()?;
    let meanwhile = grants.iter().filter(|time| (from..to).contains(time)).count() as u64;
    // A client that may have acquired the lock may still have it.
    let in_doubt = clients.values().flatten().any(|one| one.outcome == Outcome::Info);
    if grants.is_empty() && in_doubt {
        return None;
    }
    let why = match endless_key(history, key) {
        _ if !grants.is_empty() => format!("other clients acquired it {} meanwhile", plural(meanwhile, "time")),
        Some(endless) => format!("the key {endless}, which has no TTL, is in the way"),
        None => {
            let (said, times) = most_often_said(refused.iter().flat_map(|one| &one.attempts).copied())?;
            format!("{} ended with: {}", plural(times, "attempt"), sanitize(&said, 160))
        }
    };
    let had_turns = grants.is_empty() || meanwhile >= TURNS.saturating_mul(u64::from(run.clients));
    if !had_turns || kept(history, Needs::Lock(key), (from, to), asked).is_some() {
        return None;
    }
    let names: Vec<String> = refused.iter().map(|one| one.client.clone()).collect();
    let asking = if grants.is_empty() && names.len() == clients.len() && names.len() > 1 {
        format!("all {} clients", names.len())
    } else {
        base::words::list(&names)
    };
    let summary = format!(
        "{asking} asked for the lock of {key} for {}, without any fault, and never acquired it: {why}",
        length(asked)
    );
    let operations = refused.iter().filter_map(|one| one.attempts.first()).map(|one| one.index).collect();
    Some(Anomaly::new(AnomalyKind::KeptOut, key, from.saturating_add(long), operations, summary))
}
