//! When each client's lock certainly existed.
//!
//! A client's lock exists from the client's last reply until its release is about to leave, or until the lock can have expired.
//! The lock cannot have expired sooner than one TTL after its earliest possible acquisition. That is the time its client asked
//! or, with one node, the earliest time the previous lock can have been gone. Events that may remove a lock before that make it
//! uncertain: a node that forgot or whose clock was wrong, or a promotion. A lock that clients may steal, or that several clients
//! may hold, is uncertain too. This module ignores clients that release or overwrite another client's lock: such a lock violates
//! other claims.

use std::collections::BTreeMap;

use base::members::Role;
use model::fault_kinds::OnData;
use model::history::{History, Operation, Phase, PhaseStamp, Process};

/// Servers keep time in milliseconds and read their clocks once per command, so a key may expire this many nanoseconds early.
const EARLY_NS: i64 = 10_000_000;
/// At most this many earlier holders are searched for one whose lock existed until late.
const MOST_BEFORE: usize = 64;

/// A client's lock, in nanoseconds of run time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    /// The index of the operation in the history.
    pub place: usize,
    pub process: Process,
    /// The earliest possible time of the acquisition.
    pub taken: i64,
    /// When its client received the last reply.
    pub from: i64,
    /// The earliest possible time of the expiry.
    pub runs_out: i64,
    /// Until when it certainly existed: until it expired, or until its release was about to leave.
    pub until: i64,
}

/// The locks of each key, in the order in which their clients acquired them.
pub(super) struct Owners<'h> {
    keys: BTreeMap<&'h str, Vec<Owned>>,
    /// Times in which something may have removed locks from nodes.
    disturbed: Vec<(i64, i64)>,
}

impl<'h> Owners<'h> {
    pub fn new(history: &'h History) -> Owners<'h> {
        let run = history.run.as_ref();
        let ttl_ns = run.filter(|run| run.expires).map(|run| time(run.ttl_ms.saturating_mul(1_000_000)) - EARLY_NS);
        let one_node = run.is_some_and(|run| run.nodes == 1);
        let mut keys: BTreeMap<&str, Vec<Owned>> = BTreeMap::new();
        if run.is_some_and(|run| !run.steals && run.permits == 1) {
            // A reader may hold the lock beside others.
            let alone = |(_, operation): &(usize, &Operation)| !operation.f.is_shared();
            for (place, operation) in history.operations.iter().enumerate().filter(alone) {
                if let Some(owned) = asked(place, operation) {
                    keys.entry(&operation.key).or_default().push(owned);
                }
            }
        }
        let mut owners = Owners { keys: BTreeMap::new(), disturbed: disturbed(history) };
        let lives = ttl_ns.map_or(i64::MAX, |ttl_ns| ttl_ns.max(0));
        for owned in keys.values_mut() {
            owned.sort_by_key(|owned| (owned.from, owned.place));
            // For each end of a certain hold, its start.
            let mut before: BTreeMap<i64, i64> = BTreeMap::new();
            for one in owned.iter_mut() {
                // This lock was acquired after such a hold. Otherwise it must have expired before the hold began, and there was
                // no time for that.
                let latest = one.taken.saturating_add(lives);
                let mut gone = before.range(..=one.from).rev().take(MOST_BEFORE).filter(|_| one_node);
                if let Some((gone, _)) = gone.find(|(_, from)| **from < latest) {
                    one.taken = one.taken.max(*gone);
                }
                one.runs_out = one.taken.saturating_add(lives);
                one.until = one.until.min(one.runs_out);
                if one.until > one.from && owners.is_undisturbed(one.taken, one.until) {
                    before.insert(one.until, one.from);
                }
            }
        }
        owners.keys = keys;
        owners
    }

    pub fn of_key(&self, key: &str) -> &[Owned] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// The lock of this operation.
    pub fn of(&self, operation: &Operation, place: usize) -> Option<&Owned> {
        let from = operation.phase(Phase::Acquired)?.stamped?;
        let of_key = self.of_key(&operation.key);
        of_key.binary_search_by_key(&(from, place), |owned| (owned.from, owned.place)).ok().map(|at| &of_key[at])
    }

    /// Another client's lock of this key that certainly existed throughout this time. It was acquired before `from`, and was
    /// neither released nor possibly expired by `to`.
    pub fn other(&self, key: &str, process: Process, from: i64, to: i64) -> Option<&Owned> {
        let of_key = self.of_key(key);
        let before = &of_key[..of_key.partition_point(|owned| owned.from < from)];
        let holds = |owned: &&Owned| owned.process != process && to <= owned.until;
        before.iter().rev().take(MOST_BEFORE).find(holds).filter(|owned| self.is_undisturbed(owned.taken, to))
    }

    /// True if `later` was certainly acquired after `earlier`. Otherwise `later` must have expired before `earlier` began, and
    /// there was no time for that.
    pub fn is_after(&self, earlier: &Owned, later: &Owned) -> bool {
        let lived = earlier.runs_out.saturating_sub(earlier.taken);
        later.taken.saturating_add(lived) > earlier.from && self.is_undisturbed(later.taken, later.from)
    }

    /// True if nothing but clients and expiry can have removed a lock from a node in this time.
    pub fn is_undisturbed(&self, from: i64, to: i64) -> bool {
        !self.disturbed.iter().any(|(start, end)| *start <= to && from <= *end)
    }
}

/// The lock that an operation held, as far as it reports it. A TTL has not yet limited the end of the hold.
fn asked(place: usize, operation: &Operation) -> Option<Owned> {
    let had = operation.phases.iter().position(|stamp| stamp.phase == Phase::Acquired)?;
    let from = operation.phases.get(had)?.stamped?;
    let taken = operation.phases.before(had).filter(|stamp| stamp.phase == Phase::Acquiring).last()?.stamped?;
    let ends = |stamp: &PhaseStamp| matches!(stamp.phase, Phase::Lost | Phase::Releasing | Phase::Released);
    let end = operation.phases.after(had).find(ends);
    let until = match end.filter(|end| end.phase != Phase::Released) {
        Some(end) => end.stamped?,
        None if end.is_none() && operation.completed.is_none() => i64::MAX,
        // An operation may not report where its release began. It had the lock at least until its last act at work.
        None => {
            let at_it = operation.phases.after(had).take_while(|stamp| !ends(stamp));
            at_it.filter_map(|stamp| stamp.stamped).fold(from, i64::max)
        }
    };
    Some(Owned { place, process: operation.process, taken, from, runs_out: i64::MAX, until })
}

fn disturbed(history: &History) -> Vec<(i64, i64)> {
    let faults = history
        .faults
        .iter()
        .filter(|window| window.skipped.is_none() && window.kind.does.data != OnData::Kept && window.hits(Role::Node));
    let faults = faults.map(|window| {
        let (from, to) = window.span();
        // A killed node may have lost a lock that is asked for later; a node whose clock was ahead keeps a lock longer.
        (time(from), to.map_or(i64::MAX, time))
    });
    // The old primary may go on answering clients that still reach it, and no line of a history says when it stops.
    let promotions = history.promotions.iter().map(|seen| (time(seen.promotion.after_ns), i64::MAX));
    faults.chain(promotions).collect()
}

pub(super) fn time(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}

/// True if a client received an extension of its lock after another client may have acquired it: it may hold the lock again.
pub(super) fn took_it_back(operation: &Operation, other: &Owned) -> bool {
    let mut extended = operation.phases.iter().filter(|stamp| stamp.phase == Phase::Extended);
    extended.any(|stamp| stamp.stamped.is_none_or(|stamped| stamped >= other.taken))
}

pub(super) fn run_time(stamp: i64) -> u64 {
    u64::try_from(stamp).unwrap_or(0)
}
