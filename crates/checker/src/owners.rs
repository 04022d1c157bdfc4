//! Whose lock was certainly there, and when.
//!
//! A client's lock is there from the moment at which it has its last reply in hand until its release is about to leave,
//! or until it can have run out. It cannot have run out sooner than a TTL after it can have been taken at the earliest:
//! when its client asked, or, with one node, when the lock of the one before could be gone at the earliest. Whatever may
//! take a lock away before that makes it uncertain: a node that forgot or whose clock was wrong, a promotion, a lock that
//! lets clients steal, or several have it at once. That a client releases or overwrites the lock of another one is not thought of: such a lock has
//! other claims that it breaks.

use std::collections::BTreeMap;

use base::members::Role;
use model::fault_kinds::OnData;
use model::history::{History, Operation, Phase, PhaseStamp, Process};

/// Servers keep time in milliseconds and look at their clocks once per command, so a key may go a little before its time.
const EARLY_NS: i64 = 10_000_000;
/// Of those who had the lock before, no more than this many are looked at for one that was there until late.
const MOST_BEFORE: usize = 64;

/// A client's lock, in nanoseconds of run time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    /// Place of the operation in the history.
    pub place: usize,
    pub process: Process,
    /// When it can have been taken at the earliest.
    pub taken: i64,
    /// When its client had its last reply.
    pub from: i64,
    /// When it can have run out at the earliest.
    pub runs_out: i64,
    /// Until when it was certainly there: it ran out, or its release was about to leave.
    pub until: i64,
}

/// The locks of each key, by when their clients had them.
pub(super) struct Owners<'h> {
    keys: BTreeMap<&'h str, Vec<Owned>>,
    /// When something may have taken locks from nodes.
    disturbed: Vec<(i64, i64)>,
}

impl<'h> Owners<'h> {
    pub fn new(history: &'h History) -> Owners<'h> {
        let run = history.run.as_ref();
        let ttl_ns = run.filter(|run| run.expires).map(|run| time(run.ttl_ms.saturating_mul(1_000_000)) - EARLY_NS);
        let one_node = run.is_some_and(|run| run.nodes == 1);
        let mut keys: BTreeMap<&str, Vec<Owned>> = BTreeMap::new();
        if run.is_some_and(|run| !run.steals && run.permits == 1) {
            // Who has it for reading may have it beside others.
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
            // By their ends: since when those had the lock who certainly had it.
            let mut before: BTreeMap<i64, i64> = BTreeMap::new();
            for one in owned.iter_mut() {
                // It was taken after them, since it cannot have been taken, and have run out, before them.
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

    /// The lock of the operation at this place.
    pub fn of(&self, operation: &Operation, place: usize) -> Option<&Owned> {
        let from = operation.phase(Phase::Acquired)?.stamped?;
        let of_key = self.of_key(&operation.key);
        of_key.binary_search_by_key(&(from, place), |owned| (owned.from, owned.place)).ok().map(|at| &of_key[at])
    }

    /// Another client's lock of this key that was certainly there at each moment of this time: it was had before `from`,
    /// and was not given back and cannot have run out by `to`.
    pub fn other(&self, key: &str, process: Process, from: i64, to: i64) -> Option<&Owned> {
        let of_key = self.of_key(key);
        let before = &of_key[..of_key.partition_point(|owned| owned.from < from)];
        let holds = |owned: &&Owned| owned.process != process && to <= owned.until;
        before.iter().rev().take(MOST_BEFORE).find(holds).filter(|owned| self.is_undisturbed(owned.taken, to))
    }

    /// Whether `later` was certainly taken after `earlier`: only a lock that had run out meanwhile could have been taken
    /// before, and there was no time for that.
    pub fn is_after(&self, earlier: &Owned, later: &Owned) -> bool {
        let lived = earlier.runs_out.saturating_sub(earlier.taken);
        later.taken.saturating_add(lived) > earlier.from && self.is_undisturbed(later.taken, later.from)
    }

    /// Whether nothing but clients and time can have taken a lock from a node meanwhile.
    pub fn is_undisturbed(&self, from: i64, to: i64) -> bool {
        !self.disturbed.iter().any(|(start, end)| *start <= to && from <= *end)
    }
}

/// What an operation says of the lock that it had, before its end is limited by a TTL.
fn asked(place: usize, operation: &Operation) -> Option<Owned> {
    let had = operation.phases.iter().position(|stamp| stamp.phase == Phase::Acquired)?;
    let from = operation.phases.get(had)?.stamped?;
    let taken = operation.phases.before(had).filter(|stamp| stamp.phase == Phase::Acquiring).last()?.stamped?;
    let ends = |stamp: &PhaseStamp| matches!(stamp.phase, Phase::Lost | Phase::Releasing | Phase::Released);
    let end = operation.phases.after(had).find(ends);
    let until = match end.filter(|end| end.phase != Phase::Released) {
        Some(end) => end.stamped?,
        None if end.is_none() && operation.completed.is_none() => i64::MAX,
        // One that is silent of where its release began had it for a time that nobody knows, but not less than it was at it.
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
        // A node that was killed may have forgotten what it is asked for later; one whose clock was ahead keeps it longer.
        (time(from), to.map_or(i64::MAX, time))
    });
    // The old primary may go on answering those who still reach it, and no line of a history says when it stops.
    let promotions = history.promotions.iter().map(|seen| (time(seen.promotion.after_ns), i64::MAX));
    faults.chain(promotions).collect()
}

pub(super) fn time(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}

/// Whether a client was told that its lock was extended after another one may have taken it: it may have it again.
pub(super) fn took_it_back(operation: &Operation, other: &Owned) -> bool {
    let mut extended = operation.phases.iter().filter(|stamp| stamp.phase == Phase::Extended);
    extended.any(|stamp| stamp.stamped.is_none_or(|stamped| stamped >= other.taken))
}

pub(super) fn run_time(stamp: i64) -> u64 {
    u64::try_from(stamp).unwrap_or(0)
}
