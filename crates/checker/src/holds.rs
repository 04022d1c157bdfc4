//! Did two clients believe at once that they held a key's lock, or more clients than may? Any number of clients may hold it for
//! reading, as long as no client holds it for writing meanwhile.
//!
//! A certain hold is built from the clients' own stamps, which are taken on the safe side (docs/client-protocol.md) and come from
//! one clock. It begins when the client had acquired the lock. It ends when the client releases the lock or its library reports
//! the loss of the lock. If the client falls silent, it ends at its last act as the holder. The last act also ends the hold if
//! the client was stopped and learnt of its loss before it acted again: it did no harm. A hold is never longer than the client
//! believed, so an overlap of two certain holds is certain. The outcome of the operation does not matter: a failed or
//! indeterminate operation held the lock all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::AnomalyKind;
use super::verdict::Anomaly;
use super::words::{Words, count, length, seconds};
use base::mutants::planted;
use model::history::{History, Operation, Phase, PhaseStamp, Process};

/// Further anomalies of one kind are counted but not listed.
const MOST_LISTED: usize = 1000;

/// A time in which a client certainly believed that it held a lock, in nanoseconds of run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    start: i64,
    end: i64,
    /// The index of the operation in the history.
    place: usize,
    /// True if the hold is for reading.
    shared: bool,
}

pub(super) struct Overlaps {
    /// The first [`MOST_LISTED`] overlaps.
    pub anomalies: Vec<Anomaly>,
    /// The number of pairs of overlapping holds. If several clients may hold the lock: the number of holds beyond that.
    pub violations: u64,
    pub comparable_holds: u64,
    /// The number of holds that end at the last act because their holder was stopped.
    pub to_last_act: u64,
    /// The number of pairs of simultaneous holds for reading, which are allowed.
    pub side_by_side: u64,
}

/// Finds the pairs of overlapping holds on each key. If several clients may hold the lock, finds each hold that began when all
/// permits were held. Sorts the holds; the rest takes n log n plus the number of pairs listed.
pub(super) fn check(history: &History) -> Overlaps {
    let words = Words::new(history);
    let permits = history.permits() as usize + usize::from(planted("holds.one-more"));
    let mut keys: BTreeMap<&str, Vec<Hold>> = BTreeMap::new();
    let mut overlaps =
        Overlaps { anomalies: Vec::new(), violations: 0, comparable_holds: 0, to_last_act: 0, side_by_side: 0 };
    for (place, operation) in history.operations.iter().enumerate() {
        if let Some((start, end)) =
            history.certain_hold(operation).filter(|_| !planted("holds.last-key") || operation.key != "k0")
        {
            let (start, end) = match (start, end) {
                _ if planted("holds.first-client") && operation.process == Process::Client(0) => continue,
                (start, end) if planted("holds.ends-swapped") => (end, start),
                (start, end) => (start, end - i64::from(planted("holds.end-one-early"))),
            };
            let shared = operation.f.is_shared();
            overlaps.to_last_act += u64::from(operation.certain_hold().is_some_and(|(_, over)| end < over));
            keys.entry(&operation.key).or_default().push(Hold { start, end, place, shared });
        }
    }
    for holds in keys.values_mut() {
        // By start, then by end, so that a hold of length zero precedes other holds that begin with it.
        holds.sort_unstable();
        overlaps.comparable_holds += holds.len() as u64;
        // Holds that had not ended when the latest hold began, by their end.
        let mut open: BTreeSet<(i64, usize)> = BTreeSet::new();
        let mut by_place: BTreeMap<usize, Hold> = BTreeMap::new();
        let mut readers = 0;
        for hold in holds.iter() {
            while let Some(&(end, place)) = open.first()
                && end <= hold.start - i64::from(planted("holds.touch"))
            {
                open.pop_first();
                readers -= u64::from(by_place.remove(&place).is_some_and(|gone| gone.shared));
            }
            let room = MOST_LISTED - overlaps.anomalies.len();
            if permits == 1 {
                let beside = if hold.shared { readers } else { 0 };
                overlaps.side_by_side += beside;
                overlaps.violations += open.len() as u64 - beside;
                let earlier = by_place.values().filter(|earlier| !(earlier.shared && hold.shared)).take(room);
                overlaps.anomalies.extend(earlier.map(|earlier| anomaly(history, *earlier, *hold, words)));
            } else if open.len() >= permits {
                overlaps.violations += 1;
                let earlier = || by_place.values().copied().collect();
                overlaps.anomalies.extend((room > 0).then(|| one_too_many(history, earlier(), *hold, words)));
            }
            open.insert((hold.end, hold.place));
            by_place.insert(hold.place, *hold);
            readers += u64::from(hold.shared);
        }
    }
    overlaps
}

fn anomaly(history: &History, earlier: Hold, later: Hold, words: Words) -> Anomaly {
    let operation = |hold: Hold| &history.operations[hold.place];
    let time = run_time(later.start);
    let together = run_time(earlier.end.min(later.end).saturating_sub(later.start));
    let modes = match (earlier.shared, later.shared) {
        (true, false) => ", the first for reading,",
        (false, true) => ", the second for reading,",
        _ => "",
    };
    let summary = format!(
        "{} and {} both held the lock of {}{modes} for {} from {}: {} acquired it at {} and {} {}",
        words.client(earlier.place),
        words.client(later.place),
        operation(earlier).key,
        length(together),
        seconds(time),
        words.client(earlier.place),
        seconds(run_time(earlier.start)),
        if is_ended_by_loss(operation(earlier), earlier) {
            "did not learn of the loss until"
        } else {
            "still acted as its holder at"
        },
        seconds(run_time(earlier.end)),
    );
    Anomaly::new(
        AnomalyKind::OverlappingHolders,
        &operation(earlier).key,
        time,
        vec![operation(earlier).index, operation(later).index],
        summary,
    )
}

/// True if a hold ended because the client's library reported the loss of the lock.
fn is_ended_by_loss(operation: &Operation, hold: Hold) -> bool {
    let ends = |stamp: &PhaseStamp| matches!(stamp.phase, Phase::Releasing | Phase::Lost | Phase::Released);
    let end = operation.phases.iter().find(ends);
    end.is_some_and(|stamp| stamp.phase == Phase::Lost && stamp.stamped == Some(hold.end))
}

/// Reports a hold that began when the lock had its maximum of holders or more. Names the holders in the order of acquisition.
fn one_too_many(history: &History, mut earlier: Vec<Hold>, later: Hold, words: Words) -> Anomaly {
    earlier.sort_unstable();
    let index = |hold: &Hold| history.operations[hold.place].index;
    let key = &history.operations[later.place].key;
    let time = run_time(later.start);
    let end = earlier.iter().map(|hold| hold.end).fold(later.end, i64::min);
    let summary = format!(
        "{} held the lock of {key} at once for {} from {}, but at most {} may: {} acquired it at {}, when {} still held it",
        count(earlier.len() as u64 + 1, "client"),
        length(run_time(end.saturating_sub(later.start))),
        seconds(time),
        history.permits(),
        words.client(later.place),
        seconds(time),
        words.clients(earlier.iter().map(|hold| hold.place)),
    );
    let mut operations: Vec<u64> = earlier.iter().map(index).collect();
    operations.insert(1, index(&later));
    Anomaly::new(AnomalyKind::OverlappingHolders, key, time, operations, summary)
}

/// The times in which at least `number` of these spans overlap, in order.
pub(super) fn at_least<T: Copy + Ord>(number: usize, spans: impl Iterator<Item = (T, T)>) -> Vec<(T, T)> {
    // A span that begins as another one ends does not overlap it.
    let lasting = spans.filter(|(start, end)| start < end);
    let mut turns: Vec<(T, bool)> = lasting.flat_map(|(start, end)| [(start, true), (end, false)]).collect();
    turns.sort_unstable();
    let (mut open, mut since, mut found) = (0, None, Vec::new());
    for (time, begins) in turns {
        match begins {
            true => open += 1,
            false => open -= 1,
        }
        match since {
            None if open == number => since = Some(time),
            Some(start) if open < number => {
                found.push((start, time));
                since = None;
            }
            _ => {}
        }
    }
    found
}

fn run_time(stamp: i64) -> u64 {
    u64::try_from(stamp).unwrap_or(0)
}
