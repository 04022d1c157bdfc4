//! Attempts to acquire a lock that gave up long before their timeout, with only a holder in the way, or not even that. This
//! violates no claim. But a caller that asks to wait ten seconds and is refused after one did not get its wait.

use super::*;

pub static DEF: Advisory = Advisory {
    id: "early-refusals",
    title: "An attempt waits until its timeout",
    applies: "runs without faults and scripts whose attempts have a timeout",
    check: |run| {
        // It takes long to find out which client had the lock during an attempt, so this check comes first.
        run.history.operations.iter().find(|attempt| refused_early(run.history, attempt))?;
        let each = [LockOccupancy::ByOthers, LockOccupancy::ByNobody].map(|had| (early(run.history, had), had.words()));
        let found: Vec<_> = each.iter().filter(|(refusals, _)| refusals.early > 0).collect();
        let text: Vec<String> = found.iter().map(|(refusals, while_)| refusals.words(while_)).collect();
        let sum = |number: fn(&Refusals) -> u64| found.iter().map(|(refusals, _)| number(refusals)).sum();
        let remark = Remark::new(sum(|refusals| refusals.early), sum(|refusals| refusals.of), text.join("; "))?;
        let soonest = found.iter().filter_map(|(refusals, _)| refusals.soonest).map(Refusal::share);
        Some(Remark { severity: MILLION - soonest.min().unwrap_or(MILLION).min(MILLION), ..remark })
    },
};

/// An attempt is refused early if it took less than its limit divided by this.
const EARLY: u64 = 2;

const MILLION: u64 = 1_000_000;

/// Words that show a failed connection in an error, in lower case.
const OF_CONNECTIONS: [&str; 6] = ["connect", "econn", "epipe", "broken pipe", "socket", "network"];

/// How the lock was held during an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOccupancy {
    /// All permits were held at some time of the attempt.
    ByOthers,
    /// No client held the lock at any time of the attempt, and all earlier holders had released it.
    ByNobody,
}

/// The attempts during which the lock was held in one of these ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The number of attempts that were refused early, and the number of all attempts.
    pub early: u64,
    pub of: u64,
    /// The attempt that was refused soonest, relative to its limit.
    pub soonest: Option<Refusal>,
}

/// An attempt that was refused early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How long its client was ready to wait, and how long it waited, in nanoseconds.
    pub limit: u64,
    pub waited: u64,
}

/// Early refusals of a run without faults in which every member ran. A script may ask for very short waits, so runs with a script
/// are left out.
pub fn early(history: &History, had: LockOccupancy) -> Refusals {
    let mut refusals = Refusals::default();
    if history.run.as_ref().is_none_or(|run| run.script_steps != 0) || !history.faults.is_empty() {
        return refusals;
    }
    let attempts = history.operations.iter().filter(|one| one.f.is_locked() && one.process != Process::Controller);
    for attempt in attempts {
        let acquired = attempt.phase(Phase::Acquired).map(PhaseStamp::time);
        let (Some(limit), Some(end)) = (limit(history, attempt), acquired.or(attempt.completed)) else { continue };
        let others =
            || history.operations.iter().filter(|other| other.index != attempt.index && other.key == attempt.key);
        let is_so = match had {
            LockOccupancy::ByOthers => {
                let holders = others().filter(|other| is_in_the_way(other, attempt, end, history.last_time));
                holders.count() >= history.permits() as usize
            }
            LockOccupancy::ByNobody => others().all(|other| had_nothing(other, attempt.invoked, end)),
        };
        if !is_so {
            continue;
        }
        refusals.of += 1;
        let refusal = Refusal { limit, waited: end.saturating_sub(attempt.invoked) };
        if refused_early(history, attempt) && everyone_ran(history, (attempt.invoked, end), refusal.waited) {
            refusals.early += 1;
            refusals.soonest = refusals.soonest.into_iter().chain([refusal]).min_by_key(|one| one.share());
        }
    }
    refusals
}

/// How long the client of an attempt was ready to wait, in nanoseconds.
fn limit(history: &History, attempt: &Operation) -> Option<u64> {
    let asked = history.acquire_timeouts.get(&attempt.index).copied();
    asked.or(history.run.as_ref()?.acquire_timeout_ms).map(|ms| ms.saturating_mul(1_000_000))
}

/// True if an attempt ended without the lock long before its limit.
fn refused_early(history: &History, attempt: &Operation) -> bool {
    let Some((limit, end)) = limit(history, attempt).zip(attempt.completed).filter(|_| is_refused(attempt)) else {
        return false;
    };
    attempt.phase(Phase::Acquired).is_none() && end.saturating_sub(attempt.invoked).saturating_mul(EARLY) < limit
}

impl LockOccupancy {
    pub fn words(self) -> &'static str {
        match self {
            LockOccupancy::ByOthers => "while another client held the lock",
            LockOccupancy::ByNobody => "while no client held the lock",
        }
    }
}

impl Refusals {
    /// `whoever asked for 10 s was refused after 1.2 s while nobody had the lock, 12 of 40 attempts`
    pub fn words(&self, while_: &str) -> String {
        let Some(soonest) = self.soonest else { return String::new() };
        let (limit, waited) = (length(soonest.limit), length(soonest.waited));
        let (early, attempts) = (self.early, plural(self.of, "attempt"));
        format!(
            "an attempt with a timeout of {limit} was refused after {waited} {while_}; refused early: {early} of {attempts}"
        )
    }
}

impl Refusal {
    /// The share of its limit that it waited, in millionths.
    fn share(self) -> u64 {
        (u128::from(self.waited) * u128::from(MILLION) / u128::from(self.limit.max(1))) as u64
    }
}

/// True if the library refused the lock, rather than failing to connect.
fn is_refused(attempt: &Operation) -> bool {
    let Some(failure) = attempt.failure.as_ref().filter(|_| attempt.outcome == Outcome::Fail) else { return false };
    let text = failure.text.as_ref().map_or(String::new(), |text| text.to_string().to_lowercase());
    failure.error.as_deref() == Some("not-acquired") && !OF_CONNECTIONS.iter().any(|word| text.contains(word))
}

/// True if another client had the lock at some time of an attempt that ended at `end`.
fn is_in_the_way(other: &Operation, attempt: &Operation, end: u64, last: u64) -> bool {
    let at = |phase| other.phase(phase).map(PhaseStamp::time);
    let Some(from) = at(Phase::Acquired) else { return false };
    let until = at(Phase::Releasing).or(at(Phase::Lost)).or(other.completed).unwrap_or(last);
    let both_read = other.f.is_shared() && attempt.f.is_shared();
    other.process != attempt.process && !both_read && from < end && until > attempt.invoked
}

/// True if an operation did not have the lock from `from` to `end`, and cannot have left it behind.
fn had_nothing(other: &Operation, from: u64, end: u64) -> bool {
    let at = |phase| other.phase(phase).map(PhaseStamp::time);
    at(Phase::Acquired).is_none_or(|acquired| acquired > end || at(Phase::Released).is_some_and(|gone| gone < from))
}
