//! Can clients acquire a free lock? A key is stuck if its lock is free and requested, but no client acquires it for longer than
//! any expiry explains. Faults do not matter for that.
//!
//! Free means that nothing in the history keeps the lock. No live client holds it, may hold it or renews it. No fault is or may
//! still be in effect, such as one whose heal was not observed. A machine that stood still keeps a lock as a fault does. A dead
//! holder keeps nothing: a lock must recover from it.
//!
//! An attempt that failed without the lock did not acquire it, whatever its error. An attempt with an unknown end may have held
//! the lock, so it is not evidence of a violation. But if the key would be stuck without it, evidence is missing.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::AnomalyKind;
use super::attribute::began;
use super::evidence::{Evidence, NotCounted};
use super::holds::at_least;
use super::starved::{Needs, covered, kept};
use super::verdict::{Anomaly, Gap};
use super::words::{count, length, list, seconds};
use base::mutants::planted;
use model::history::{ClientStep, FactName, FaultWindow, History, Operation, Outcome, Phase, PhaseStamp, Process};

/// If a free lock is not acquired for this many TTLs, it counts as stuck. One TTL is for a node that expires a key late, the
/// others for contenders, which need several attempts.
pub const STUCK_AFTER_TTLS: u64 = 3;
/// The minimum of that time for very short TTLs, in nanoseconds.
const STUCK_AFTER_NS: u64 = 2_000_000_000;
/// Attempts with shorter gaps than this count as one continuous request: clients pause between attempts.
const RETRY_GAP_NS: u64 = 100_000_000;
/// This many attempts show that clients requested a lock, however short they were.
const ATTEMPTS: usize = 5;

pub(super) struct Liveness {
    /// One anomaly for each time that a key was stuck.
    pub anomalies: Vec<Anomaly>,
    pub evidence: Evidence,
    /// The longest time for which a lock was free and requested.
    pub longest_gap: Option<Gap>,
    /// Nanoseconds from the last heal to the next acquisition of any key; None if there was no heal or no acquisition.
    pub reacquired_after_ns: Option<u64>,
}

/// A start and an end, in nanoseconds of run time.
type Span = (u64, u64);

/// The record of one key's lock.
#[derive(Default)]
struct KeyRecord<'h> {
    /// How many clients may hold the lock at once; it is free while fewer do.
    permits: usize,
    /// When a live client certainly held the lock.
    held: Vec<Span>,
    /// When a live client held the lock, if the attempts in doubt acquired it.
    perhaps_held: Vec<Span>,
    /// Attempts that failed, in the order of their invocations.
    failed: Vec<(Span, &'h Operation)>,
    /// Attempts that may or may not have acquired the lock, in the order of their invocations.
    in_doubt: Vec<(Span, &'h Operation)>,
    /// Attempts that acquired the lock, from the request to the acquisition.
    asked: Vec<Span>,
}

/// Sorts the holds of each key; linear otherwise.
pub(super) fn check(history: &History) -> Liveness {
    let keys = keys(history);
    let faults = faults(history);
    let healed = history.faults.iter().filter_map(|window| window.healed.filter(|_| window.was_observed()));
    let last_heal = healed.map(|(time, _)| time).max();
    let acquired = || keys.values().flat_map(|key| &key.asked).map(|(_, acquired)| *acquired);
    let healthy = history.facts.iter().any(|fact| fact.name == FactName::NodesHealthy && fact.holds);
    // If no client ever acquired a lock, the lock may be stuck or the clients may be unable to use it.
    let tells = healthy && acquired().next().is_some();
    let (mut anomalies, mut doubts) = (Vec::new(), Vec::new());
    let (mut gaps, mut gaps_at_worst) = (Vec::new(), Vec::new());
    let mut undecided = None;
    let words = Availability { permits: history.permits() };
    for (name, key) in &keys {
        let (certain, worst, last_time) = (key.for_certain(), key.at_worst(), history.last_time);
        for stretch in stuck(history, &certain, &faults).filter(|_| tells) {
            match kept(history, Needs::Lock(name), (stretch.from, stretch.last), stretch.last - stretch.from) {
                Some(why) => _ = undecided.get_or_insert(words.but(name, (stretch.from, stretch.last), &why)),
                None => anomalies.push(stretch.anomaly(name, words)),
            };
        }
        gaps.extend(longest_gap(name, &certain, last_time));
        let found = stuck(history, &worst, &faults).filter(|_| tells);
        doubts.extend(found.map(|stretch| words.doubt(name, (stretch.from, stretch.last))));
        gaps_at_worst.extend(longest_gap(name, &worst, last_time));
    }
    let reacquired_after_ns = last_heal
        .filter(|_| !faults.iter().any(|(_, until)| *until == u64::MAX))
        .and_then(|healed| acquired().filter(|&time| time > healed).min().map(|time| time - healed));
    let longest_gap = gaps.into_iter().max_by_key(length_of);
    let allowed = history.run.as_ref().and_then(|run| run.longest_gap_ms).map(|ms| ms.saturating_mul(1_000_000));
    let is_too_long = |gap: &&Gap| allowed.is_some_and(|most| length_of(gap) > most);
    if let Some(gap) = longest_gap.as_ref().filter(is_too_long) {
        match kept(history, Needs::Lock(&gap.key), (gap.from, gap.to), length_of(gap)) {
            Some(why) => _ = undecided.get_or_insert(words.but(&gap.key, (gap.from, gap.to), &why)),
            None => anomalies.push(unavailable(gap, words)),
        }
    }
    doubts.extend(
        gaps_at_worst
            .iter()
            .max_by_key(|gap| length_of(gap))
            .into_iter()
            .filter(is_too_long)
            .map(|gap| words.doubt(&gap.key, (gap.from, gap.to))),
    );
    let mut evidence = evidence(&keys, &faults, last_heal);
    evidence.missing = evidence.missing.or(doubts.into_iter().next());
    evidence.not_counted = undecided.map(NotCounted::Undecided);
    Liveness { anomalies, evidence, longest_gap, reacquired_after_ns }
}

fn keys(history: &History) -> BTreeMap<&str, KeyRecord<'_>> {
    let ended = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ended);
    let ended: HashMap<u32, u64> = ended.map(|(time, event)| (event.process, *time)).collect();
    let (lasts, permits) = (Lasts::new(history), history.permits() as usize);
    let mut keys: BTreeMap<&str, KeyRecord> = BTreeMap::new();
    for operation in history.operations.iter().filter(|operation| operation.f.is_locked()) {
        let key = keys.entry(&operation.key).or_default();
        let died = match operation.process {
            Process::Client(process) => ended.get(&process).copied(),
            Process::Controller => None,
        };
        let acquired = operation.phase(Phase::Acquired).map(|stamp| stamp.received);
        key.asked.extend(acquired.map(|acquired| (operation.invoked, acquired)));
        let attempt = (operation.invoked, operation.completed.or(died).unwrap_or(history.last_time));
        match without_the_lock(operation) {
            Some(true) if asked(operation) => key.failed.push((attempt, operation)),
            Some(true) => key.in_doubt.push((attempt, operation)),
            Some(false) => {
                key.perhaps_held.push(lasts.possible_hold(operation, died));
                key.in_doubt.push((attempt, operation));
            }
            None => key.held.push(lasts.possible_hold(operation, died)),
        }
    }
    for key in keys.values_mut() {
        key.held.sort_unstable();
        key.permits = permits;
        key.asked.sort_unstable();
    }
    keys
}

impl<'h> KeyRecord<'h> {
    /// When all permits of the lock were held, given each hold.
    fn taken<'k>(&self, held: Cow<'k, [Span]>) -> Cow<'k, [Span]> {
        match self.permits {
            1 => held,
            permits => Cow::Owned(at_least(permits, held.iter().copied())),
        }
    }

    /// The reading that never accuses a lock wrongly: every client that may have held the lock held it.
    fn for_certain(&self) -> Interpretation<'_, 'h> {
        Interpretation::new(self.taken(sorted(&self.held, &self.perhaps_held)), self.failed.clone(), &self.asked)
    }

    /// The reading that accuses most: attempts in doubt did not acquire the lock.
    fn at_worst(&self) -> Interpretation<'_, 'h> {
        let mut failed: Vec<_> = self.failed.iter().chain(&self.in_doubt).copied().collect();
        failed.sort_by_key(|(attempt, _)| *attempt);
        Interpretation::new(self.taken(Cow::Borrowed(&self.held)), failed, &self.asked)
    }
}

/// The record of a key under one reading of its doubtful attempts, in the order of time.
struct Interpretation<'k, 'h> {
    held: Cow<'k, [Span]>,
    failed: Vec<(Span, &'h Operation)>,
    /// All attempts with a known end, successful or not.
    asked: Cow<'k, [Span]>,
}

impl<'k, 'h> Interpretation<'k, 'h> {
    fn new(held: Cow<'k, [Span]>, failed: Vec<(Span, &'h Operation)>, got: &'k [Span]) -> Interpretation<'k, 'h> {
        let without: Vec<Span> = failed.iter().map(|(span, _)| *span).collect();
        Interpretation { held, failed, asked: sorted(got, &without) }
    }
}

/// These sorted spans merged with some more.
fn sorted<'k>(spans: &'k [Span], more: &[Span]) -> Cow<'k, [Span]> {
    if more.is_empty() {
        return Cow::Borrowed(spans);
    }
    let mut all = [spans, more].concat();
    all.sort_unstable();
    Cow::Owned(all)
}

/// True if only a client that had the lock reports this phase.
fn is_of_a_holder(stamp: PhaseStamp) -> bool {
    stamp.phase >= Phase::Acquired
}

/// True if an attempt that did not report the lock certainly ended without it; None if its client had the lock.
///
/// A client that fails without having reported the lock does not have it, whatever its error, except for these errors of holders.
fn without_the_lock(operation: &Operation) -> Option<bool> {
    let of_a_holder = ["fenced", "conflict", "lock-lost"];
    let word = operation.error().unwrap_or_default();
    match operation.outcome {
        _ if operation.phases.iter().any(is_of_a_holder) => None,
        Outcome::Ok => None,
        Outcome::Fail => Some(!of_a_holder.contains(&word)),
        Outcome::Info => Some(false),
    }
}

fn asked(operation: &Operation) -> bool {
    operation.phases.has(Phase::Acquiring)
}

/// Everything that may end a hold other than its holder, as far as the history shows.
struct Lasts {
    /// True if the lock expires by itself.
    expires: bool,
    /// True if holders renew the lock.
    is_renewed: bool,
    ttl_ns: u64,
}

impl Lasts {
    fn new(history: &History) -> Lasts {
        let is_renewed = history.operations.iter().any(|operation| operation.phases.has(Phase::Extended));
        let mut stamps = history.operations.iter().flat_map(|operation| &operation.phases);
        let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
        Lasts { is_renewed, ttl_ns, expires: stamps.any(|stamp| stamp.validity_ms.is_some()) }
    }

    /// When a live client held or may have held the lock, given that the client died at `died`.
    fn possible_hold(&self, operation: &Operation, died: Option<u64>) -> Span {
        let (mut start, mut over, mut runs_out) = (None, None, None);
        for PhaseStamp { phase, received, validity_ms, .. } in &operation.phases {
            start = start.or((phase >= Phase::HalfAcquired).then_some(received));
            over = over.or(matches!(phase, Phase::Lost | Phase::Released).then_some(received));
            runs_out = runs_out.max(validity_ms.map(|left| received.saturating_add(left.saturating_mul(1_000_000))));
        }
        let start = start.unwrap_or(operation.invoked);
        let end = match (over, operation.completed) {
            (Some(over), _) => over,
            (None, Some(completed)) if operation.outcome != Outcome::Info => completed,
            (None, None) => u64::MAX,
            // It is not known whether the client released the lock. If locks expire, this one expires some time after that.
            (None, Some(completed)) if self.expires => {
                let asked_last = completed.saturating_add(self.ttl_ns);
                runs_out.filter(|_| !self.is_renewed).unwrap_or(asked_last)
            }
            (None, Some(completed)) if operation.phases.has(Phase::Releasing) => completed,
            // The client never reported a release, so only its death ends its hold.
            (None, Some(_)) => u64::MAX,
        };
        let runs_out = runs_out.filter(|_| !self.is_renewed).unwrap_or(u64::MAX);
        (start, end.min(runs_out).min(died.unwrap_or(u64::MAX)).max(start))
    }
}

/// When faults were or may have been in effect, or may have kept a lock after their heal, and when failovers were in progress.
fn faults(history: &History) -> Vec<Span> {
    let until = |window: &FaultWindow| match (window.healed, window.aftermath_ns) {
        (Some((time, true)), Some(aftermath)) => time.saturating_add(aftermath),
        _ => u64::MAX,
    };
    let windows = history.faults.iter().filter(|window| window.skipped.is_none());
    let failovers = history.promotions.iter().map(|seen| (began(history, seen), seen.time));
    windows.map(|window| (window.inject, until(window))).chain(failovers).collect()
}

/// A time in which the lock was free and requested, and not acquired for too long.
struct Stretch<'h> {
    from: u64,
    /// When the last attempt in this time ended.
    last: u64,
    attempts: Vec<&'h Operation>,
    /// The number of these attempts that had failed by then; the others still waited.
    failed: usize,
}

/// Each time at which the lock was free and requested, but not acquired for too long.
fn stuck<'h>(history: &History, key: &Interpretation<'_, 'h>, faults: &[Span]) -> impl Iterator<Item = Stretch<'h>> {
    let unit = if planted("liveness.ttl-in-microseconds") { 1_000 } else { 1_000_000 };
    let ttl_ns = history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(unit));
    let patience =
        ttl_ns.saturating_mul(STUCK_AFTER_TTLS).max(STUCK_AFTER_NS) * if planted("liveness.patient") { 100 } else { 1 };
    let kept: Vec<Span> = faults.iter().chain(&history.stalls).copied().collect();
    let taken = sorted(&key.held, &kept);
    // A sentinel after everything else ends the last stretch.
    let taken = taken.iter().copied().chain([(history.last_time, u64::MAX)]);
    let mut found = Vec::new();
    let mut failed = key.failed.as_slice();
    let mut free_from: u64 = 0;
    for (from, until) in taken {
        if free_from.saturating_add(patience) < from {
            let over = failed.iter().take_while(|((_, completed), _)| *completed <= free_from).count();
            failed = &failed[over..];
            let meanwhile = failed.iter().take_while(|((invoked, _), _)| *invoked < from);
            let attempts: Vec<_> = meanwhile.filter(|((_, completed), _)| *completed > free_from).collect();
            let last = attempts.iter().map(|((_, completed), _)| (*completed).min(from)).max().unwrap_or(0);
            let waited = last.saturating_sub(free_from);
            let tried = attempts.len() >= ATTEMPTS + usize::from(planted("liveness.one-attempt-more"))
                || 2 * covered(attempts.iter().map(|(span, _)| *span), free_from, from) >= waited;
            if waited > patience && tried {
                let failed = attempts.iter().filter(|((_, completed), _)| *completed <= last).count();
                let attempts = attempts.into_iter().map(|(_, operation)| *operation).collect();
                found.push(Stretch { from: free_from, last, attempts, failed });
            }
        }
        free_from = free_from.max(until);
    }
    found.into_iter()
}

/// The longest time in which a key's lock was not known to be held and was requested nearly all the time.
fn longest_gap(name: &str, key: &Interpretation, last_time: u64) -> Option<Gap> {
    let mut longest: Option<Gap> = None;
    let mut asked = key.asked.iter().copied().peekable();
    // Attempts in progress when the lock was last acquired, in the order in which they began.
    let mut open: Vec<Span> = Vec::new();
    let mut free_from = 0;
    for (from, until) in key.held.iter().copied().chain([(last_time, u64::MAX)]) {
        open.extend(std::iter::from_fn(|| asked.next_if(|(began, _)| *began < from)));
        // Times in which the lock is free and requested.
        let mut stretch: Option<Span> = None;
        for &(began, ended) in &open {
            let (began, ended) = (began.max(free_from), ended.min(from));
            stretch = match stretch {
                Some((start, end)) if began <= end.saturating_add(RETRY_GAP_NS) => Some((start, end.max(ended))),
                _ => Some((began, ended)).filter(|(began, ended)| began < ended),
            };
            if let Some((from, to)) = stretch
                && longest.as_ref().is_none_or(|gap| length_of(gap) < to - from)
            {
                longest = Some(Gap { key: name.to_string(), from, to });
            }
        }
        free_from = free_from.max(until);
        open.retain(|(_, ended)| *ended > free_from);
    }
    longest
}

fn length_of(gap: &Gap) -> u64 {
    gap.to.saturating_sub(gap.from)
}

fn unavailable(gap: &Gap, words: Availability) -> Anomaly {
    let what = words.stayed_free(&gap.key, (gap.from, gap.to));
    let summary = format!("{what}, though clients asked for it: longer than the workload allows");
    Anomaly::new(AnomalyKind::Unavailable, &gap.key, gap.from, Vec::new(), summary)
}

/// The words about a lock that was free and requested. If it has several permits, clients may acquire another permit meanwhile.
#[derive(Clone, Copy)]
struct Availability {
    permits: u32,
}

impl Availability {
    /// The sentence for a time in which the lock, or one of its permits, stayed free.
    fn stayed_free(self, key: &str, (from, to): Span) -> String {
        let lasted = length(to.saturating_sub(from));
        match self.permits {
            1 => format!("no client acquired the lock of {key} for {lasted} from {}", seconds(from)),
            permits => {
                format!("fewer than {permits} clients had a valid lock of {key} for {lasted} from {}", seconds(from))
            }
        }
    }

    /// The doubt for which a time proves nothing.
    fn but(self, key: &str, span: Span, why: &str) -> String {
        format!("{}, but {why}", self.stayed_free(key, span))
    }

    /// The missing evidence if it is not certain that the lock was free.
    fn doubt(self, key: &str, (from, to): Span) -> String {
        let held = match self.permits {
            1 => format!("a client held the lock of {key}"),
            _ => format!("clients held all permits of {key}"),
        };
        format!(
            "it is unknown whether {held} for {} from {}: attempts with an unknown outcome may have acquired it",
            length(to.saturating_sub(from)),
            seconds(from),
        )
    }
}

impl Stretch<'_> {
    fn anomaly(&self, key: &str, words: Availability) -> Anomaly {
        let though = if words.permits == 1 { "no client had a valid lock" } else { "clients asked for it" };
        Anomaly::new(
            AnomalyKind::NotObtained,
            key,
            self.from,
            self.attempts.iter().take(2).map(|operation| operation.index).collect(),
            format!(
                "{}, though {though}: {}, and no fault was in effect",
                words.stayed_free(key, (self.from, self.last)),
                match (self.failed as u64, (self.attempts.len() - self.failed) as u64) {
                    (failed, 0) => format!("{} failed", count(failed, "attempt")),
                    (0, waiting) => format!("{} waited for it", count(waiting, "attempt")),
                    (failed, waiting) => format!("{} failed and {waiting} waited for it", count(failed, "attempt")),
                },
            ),
        )
    }
}

/// The attempts after the last heal, or all attempts if there was no fault. If they had failed for long enough, the claim would
/// be violated.
fn evidence(keys: &BTreeMap<&str, KeyRecord>, faults: &[Span], last_heal: Option<u64>) -> Evidence {
    let since = last_heal.unwrap_or(0);
    let when = match last_heal {
        Some(healed) => format!("after the last heal at {}", seconds(healed)),
        None => "during the run".to_string(),
    };
    let acquired = |key: &KeyRecord| key.asked.iter().filter(|(_, time)| *time >= since).count() as u64;
    let without = |key: &KeyRecord| {
        let attempts = key.failed.iter().chain(&key.in_doubt);
        attempts.filter(|((invoked, _), _)| *invoked >= since).count() as u64
    };
    let obtained: u64 = keys.values().map(acquired).sum();
    let attempts = obtained + keys.values().map(without).sum::<u64>();
    let failed: Vec<String> = keys
        .iter()
        .filter(|(_, key)| without(key) > 0 && acquired(key) == 0)
        .map(|(name, key)| format!("{name} ({})", count(without(key), "attempt")))
        .collect();
    let missing = if faults.iter().any(|(_, until)| *until == u64::MAX) {
        Some("a fault was not observed to be healed and may still be in effect".to_string())
    } else if attempts == 0 {
        Some(format!("no client certainly asked for the lock {when}"))
    } else if !failed.is_empty() {
        Some(format!(
            "no client acquired the lock of {} {when}, but a client held it, or it was not free for long enough to blame the lock",
            list(&failed)
        ))
    } else {
        None
    };
    let text = match (last_heal, attempts - obtained) {
        (Some(_), 0) => format!("{} acquired the lock since the last heal", count(obtained, "attempt")),
        // An attempt that began before the heal and failed after it proves nothing.
        (Some(_), failed) => format!(
            "{} acquired the lock since the last heal; {failed} that began since then did not",
            count(obtained, "attempt")
        ),
        (None, _) => format!("{obtained} of {} in the run acquired the lock", count(attempts, "attempt")),
    };
    Evidence { count: attempts, text, missing, not_counted: None }
}
