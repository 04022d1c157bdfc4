//! The evidence for each claim: facts in the history that could have shown a violation if there had been one.
//!
//! A claim that no fact could have contradicted is unknown, not valid. So each claim counts its facts. Evidence is missing if
//! there are too few facts, or if an operation does not report its own: it may have broken the lock. A client need not report
//! what it can't know because it died or its answer is in doubt.

use std::collections::{BTreeMap, BTreeSet};

use super::gates::acknowledged;
use super::holds::at_least;
use super::locks::grant;
use super::register::written;
use super::verdict::Anomaly;
use super::words::{Words, count, length};
use base::mutants::planted;
use model::history::{Function, History, Operation, Outcome, Phase, PhaseStamp, Process, Reading};

/// Fewer facts than this prove nothing about a claim.
pub const LEAST_EVIDENCE: u64 = 5;

/// The facts that could have falsified a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub count: u64,
    /// A description of these facts, with their number.
    pub text: String,
    /// The missing evidence, if there are too few facts.
    pub missing: Option<String>,
    pub not_counted: Option<NotCounted>,
}

/// An observation that would have contradicted a claim, and why it does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotCounted {
    /// A fault explains it, and the claim stands.
    Explained(String),
    /// Something outside the run may explain it, and the claim is unknown.
    Undecided(String),
}

/// The anomalies of one property, and the facts that could have contradicted it.
pub(super) struct Findings {
    pub anomalies: Vec<Anomaly>,
    pub evidence: Evidence,
}

impl Findings {
    /// `count` is the number of facts that could have contradicted the property. `missing` describes such facts, in case there
    /// are none.
    pub fn new(anomalies: Vec<Anomaly>, count: u64, text: String, missing: &str) -> Findings {
        let missing = (count == 0).then(|| missing.to_string());
        Findings { anomalies, evidence: Evidence { count, text, missing, not_counted: None } }
    }

    /// The same findings, but undecided for this reason, if there is one.
    pub fn undecided(mut self, why: Option<String>) -> Findings {
        self.evidence.not_counted = why.map(NotCounted::Undecided).or(self.evidence.not_counted);
        self
    }
}

impl Evidence {
    /// This many facts, and the client that leaves out the reports that they need.
    fn new(count: u64, text: String, rates: &ReportingRate, what: &str) -> Evidence {
        let missing = match rates.silent() {
            Some((client, said, all)) => Some(match (rates.refused.get(client).and_then(Option::as_ref), said) {
                (Some(refused), _) => format!("{what}; {refused}"),
                (None, 0) => format!("{what}; {client} never does this"),
                (None, said) => format!("{what}; {client} does this in only {said} of {all} cases"),
            }),
            None if count + u64::from(planted("evidence.one-fact-less")) < LEAST_EVIDENCE => {
                Some(format!("{text}; at least {LEAST_EVIDENCE} are needed"))
            }
            None => None,
        };
        Evidence { count, text, missing, not_counted: None }
    }
}

/// For each client, how many reports that a claim needs it made, and how many it should have made.
#[derive(Default)]
struct ReportingRate {
    rates: BTreeMap<String, (u64, u64)>,
    /// Clients that always reported, each with the reason why some reports are not used, as a sentence.
    refused: BTreeMap<String, Option<String>>,
}

impl ReportingRate {
    fn of<'h>(history: &'h History, cases: impl Iterator<Item = (&'h Operation, bool)>) -> ReportingRate {
        let mut processes: BTreeMap<Process, (u64, u64)> = BTreeMap::new();
        let words = Words::new(history);
        let mut rates = ReportingRate::default();
        for (operation, said) in cases {
            let (yes, all) = processes.entry(operation.process).or_default();
            *yes += u64::from(said);
            *all += 1;
            if !said {
                let client = words.process(operation.process);
                let why = why_refused(history, operation, &client);
                let known = rates.refused.entry(client).or_insert(why.clone());
                *known = known.take().filter(|_| why.is_some());
            }
        }
        for (process, (said, cases)) in processes {
            let (yes, all) = rates.rates.entry(words.process(process)).or_default();
            (*yes, *all) = (*yes + said, *all + cases);
        }
        rates
    }

    /// The client that leaves out the largest share of its reports; None if no client leaves out any.
    fn silent(&self) -> Option<(&str, u64, u64)> {
        let silent = self.rates.iter().filter(|(_, (yes, all))| yes < all);
        silent.map(|(client, (yes, all))| (client.as_str(), *yes, *all)).min_by_key(|(_, yes, all)| yes * 1000 / all)
    }
}

/// Why a client's report of an operation is not used; None if the checker uses it.
fn why_refused(history: &History, operation: &Operation, client: &str) -> Option<String> {
    let lines = operation.index + 1..=operation.completed_index.map_or(u64::MAX, |index| index + 1);
    let contradictions = &history.contradictions;
    let first = contradictions.partition_point(|contradiction| contradiction.line < *lines.start());
    let mut of_it = contradictions[first..].iter().take_while(|contradiction| lines.contains(&contradiction.line));
    if let Some(found) = of_it.find(|contradiction| contradiction.process == operation.process) {
        let (text, line) = (&found.text, found.line);
        return Some(format!(
            "{client} contradicted itself about an operation, so these reports do not count: {text} (line {line})"
        ));
    }
    let unfit = history.unfit_stamps.get(&operation.index)?;
    let (phase, line, off) = (unfit.phase.word(), unfit.line, length(unfit.off_ns.unsigned_abs()));
    let lies = match unfit.off_ns < 0 {
        true => format!("{off} before its operation began"),
        false => format!("{off} after the controller had received its report"),
    };
    Some(format!("{client} stamps with another clock: `{phase}` is stamped {lies} (line {line})"))
}

/// The facts for updates: reads, and updates that happened and report the value that they replaced. `happened` has each
/// read-modify-write and compare-and-set that was acknowledged or seen, and whether the replaced value is known.
pub(super) fn updates(history: &History, happened: &[(u32, bool)]) -> Evidence {
    let rates =
        ReportingRate::of(history, happened.iter().map(|&(place, known)| (&history.operations[place as usize], known)));
    let updates = happened.iter().filter(|(_, known)| *known).count() as u64;
    let by_client = |operation: &&Operation| operation.process != Process::Controller;
    let is_read = |operation: &&Operation| operation.f == Function::Read && operation.outcome == Outcome::Ok;
    let answered = |operation: &&Operation| {
        operation.f.is_shared() && operation.outcome == Outcome::Ok && operation.process != Process::Controller
    };
    let readers = history.operations.iter().filter(answered);
    let readers = ReportingRate::of(history, readers.map(|one| (one, one.old != Reading::Unknown)));
    let reads = history.operations.iter().filter(is_read).filter(by_client).count() as u64;
    let told = |operation: &&Operation| operation.old != Reading::Unknown && history.kept_until(operation).is_some();
    let shared = history.operations.iter().filter(told).count() as u64;
    let mut text = format!("{} with a known predecessor", count(updates, "update"));
    for (number, what) in [(reads, "read"), (shared, "shared read")] {
        if number > 0 {
            text = format!("{text}, and {}", count(number, what));
        }
    }
    let all = updates + reads + shared;
    if rates.silent().is_none() && readers.silent().is_some() {
        return Evidence::new(all, text, &readers, "each read under a lock for reading must say what it read");
    }
    Evidence::new(all, text, &rates, "each update that took effect must say what it replaced (`old`)")
}

/// True if an operation certainly had the lock, or reported a phase that only a holder reports.
fn had_the_lock(operation: &&Operation) -> bool {
    let of_a_holder = |stamp: PhaseStamp| stamp.phase >= Phase::Acquired;
    operation.f.is_locked() && (operation.outcome == Outcome::Ok || operation.phases.iter().any(of_a_holder))
}

/// Mutual exclusion: pairs of holds by different clients on one key that could have been seen to overlap.
pub(super) fn mutual_exclusion(history: &History, side_by_side: u64) -> Evidence {
    let words = Words::new(history);
    let held = || history.operations.iter().filter(had_the_lock);
    let rates = ReportingRate::of(history, held().map(|operation| (operation, is_extent_told(operation))));
    let mut holds: BTreeMap<(&str, Process, bool), u64> = BTreeMap::new();
    let least = least_hold(history);
    let cut_short = |operation: &&Operation| is_cut_short(history, words, operation, least);
    // A hold of length zero overlaps only holds that it lies within.
    let lasts = |operation: &&Operation| history.certain_hold(operation).is_some_and(|(start, end)| start < end);
    for operation in held().filter(lasts).filter(|operation| !cut_short(operation)) {
        *holds.entry((&operation.key, operation.process, operation.f.is_shared())).or_default() += 1;
    }
    // For each client, all holds and the holds for reading.
    let mut keys: BTreeMap<&str, BTreeMap<String, (u64, u64)>> = BTreeMap::new();
    for ((key, process, shared), number) in holds {
        let (all, reading) = keys.entry(key).or_default().entry(words.process(process)).or_default();
        (*all, *reading) = (*all + number, *reading + if shared { number } else { 0 });
    }
    let pairs_of = |numbers: &mut dyn Iterator<Item = u64>| {
        let (all, squares) = numbers.fold((0, 0), |(all, squares), one| (all + one, squares + one * one));
        (all * all - squares) / 2
    };
    // Two readers may hold the lock at once.
    let pairs = |of_clients: &BTreeMap<String, (u64, u64)>| {
        pairs_of(&mut of_clients.values().map(|(all, _)| *all))
            - pairs_of(&mut of_clients.values().map(|(_, reading)| *reading))
    };
    let (facts, text) = match history.permits() as usize {
        1 => {
            let pairs: u64 = keys.values().map(pairs).sum();
            let readers = base::words::unless_none(side_by_side, |times| {
                format!("; readers held the lock side by side {}", count(times, "time"))
            });
            (pairs, format!("{} of holds{readers}", count(pairs, "comparable pair")))
        }
        permits => {
            let asked = blocked_attempts(history, permits, |operation| !cut_short(&operation));
            (asked, format!("{} at a lock that {permits} clients held", count(asked, "attempt")))
        }
    };
    let what = "clients must send `mono_ns` (CLOCK_MONOTONIC) at the start and end of each hold";
    let mut evidence = Evidence::new(facts, text, &rates, what);
    let whole = ReportingRate::of(history, held().map(|operation| (operation, !cut_short(&operation))));
    if let Some((client, said, all)) = whole.silent().filter(|_| rates.silent().is_none()) {
        evidence.missing = Some(format!(
            "each hold must last as long as the run asks, at least {}; holds of {client} last that long in only {said} of {all} cases",
            length(u64::try_from(least).unwrap_or(0))
        ));
    }
    evidence
}

/// How many attempts at a lock with several permits went on while all permits were certainly held. Each of them could have been
/// seen to acquire the lock.
fn blocked_attempts(history: &History, permits: usize, counts: impl Fn(&Operation) -> bool) -> u64 {
    let mut held: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| counts(operation)) {
        held.entry(&operation.key).or_default().extend(history.certain_hold(operation));
    }
    let full: BTreeMap<&str, Vec<(i64, i64)>> =
        held.into_iter().map(|(key, held)| (key, at_least(permits, held.into_iter()))).collect();
    let asked = |operation: &&Operation| {
        let from = operation.phase(Phase::Acquiring).and_then(|stamp| stamp.stamped);
        let until = match operation.phase(Phase::Acquired) {
            Some(acquired) => acquired.stamped,
            None => operation.completed.and_then(|time| i64::try_from(time).ok()),
        };
        let (Some(from), Some(until), Some(full)) = (from, until, full.get(operation.key.as_str())) else {
            return false;
        };
        full[full.partition_point(|(_, end)| *end <= from)..].first().is_some_and(|(start, _)| *start < until)
    };
    history.operations.iter().filter(asked).count() as u64
}

/// The shortest time for which a client was asked to hold the lock, in nanoseconds.
fn least_hold(history: &History) -> i64 {
    let ms = history.run.as_ref().and_then(|run| run.least_hold_ms).unwrap_or(0);
    i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX)
}

/// True if a successful hold was over, by its own stamps, before half of the time for which every hold was ordered. Such stamps
/// do not show how long the client had the lock. Timers may end a little early, but not by so much, unless they follow a clock
/// that a fault set.
fn is_cut_short(history: &History, words: Words, operation: &Operation, least: i64) -> bool {
    let Some((start, end)) = history.certain_hold(operation) else { return false };
    let client = || words.process(operation.process);
    let mut clocks = history.faults.iter().filter(|window| window.kind.does.wall_clock);
    operation.outcome == Outcome::Ok
        && !operation.phases.has(Phase::Lost)
        && end.saturating_sub(start) < least / 2
        && !clocks.any(|window| window.targets.contains(&client()))
}

/// True if a hold has stamps for its beginning and its end. An end that the client never reached needs no stamp.
fn is_extent_told(operation: &Operation) -> bool {
    let stamped = |phase| operation.phase(phase).is_some_and(|stamp| stamp.stamped.is_some());
    let gave_up = operation.outcome == Outcome::Info || stamped(Phase::Lost);
    stamped(Phase::Acquired) && (stamped(Phase::Releasing) || gave_up)
}

/// The facts for tokens: `comparable` is the number of grants with a token that came after another grant.
pub(super) fn tokens(history: &History, comparable: u64) -> Evidence {
    let granted = history.operations.iter().filter(had_the_lock);
    let rates = ReportingRate::of(history, granted.map(|operation| (operation, grant(0, operation).is_some())));
    let text = count(comparable, "comparable token");
    Evidence::new(comparable, text, &rates, "each grant must carry its token, and `mono_ns` where it begins and ends")
}

/// The facts for amounts: for each key, `measured` has the number of updates whose amount can be compared with their line.
pub(super) fn amounts(history: &History, measured: &[(String, u64)]) -> Evidence {
    let updates = measured.iter().map(|(_, updates)| updates).sum();
    let text = count(updates, "comparable amount");
    // A client that reports amounts must always report them.
    let counted = |operation: &&Operation| operation.amount.is_some();
    let counting: BTreeSet<Process> = history.operations.iter().filter(counted).map(|one| one.process).collect();
    let answered = acknowledged(history).map(|(operation, _)| operation).filter(|one| one.outcome == Outcome::Ok);
    let of_them = answered.filter(|operation| counting.contains(&operation.process));
    let rates = ReportingRate::of(history, of_them.map(|operation| (operation, operation.amount.is_some())));
    let mut evidence =
        Evidence::new(updates, text, &rates, "a client that reports amounts must report them every time");
    if let Some((key, _)) = measured.iter().find(|(_, updates)| *updates == 0) {
        evidence.missing = Some(format!("the expected or the actual amount of {key} at the end is unknown"));
    }
    evidence
}

/// True if the history is of a counter or list; only these have amounts.
pub(super) fn has_amounts(history: &History) -> bool {
    use model::history::ResourceKind::{Counter, List};
    match &history.run {
        Some(run) => matches!(run.resource, Counter | List),
        None => history.operations.iter().any(|operation| operation.amount.is_some() && written(operation).is_some()),
    }
}
