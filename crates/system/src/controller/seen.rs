//! Compares the clients' holds and updates during a run, to show problems while the user watches. It decides nothing: the verdict
//! comes from the check of the whole history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

use base::sync::lock;
use model::history::{Function, Phase, Reading};

/// How many of a key's latest holds are compared, and how many replaced values are remembered: enough for a run that a user
/// watches.
const MOST: usize = 10_000;

/// The problems seen so far; see [`Status`](super::Status).
#[derive(Default)]
pub(super) struct SeenSoFar(Mutex<BTreeMap<String, Key>>);

#[derive(Default)]
struct Key {
    /// Finished holds, ordered by their end.
    over: VecDeque<HoldSpan>,
    /// Ongoing holds, by process.
    open: BTreeMap<u32, HoldSpan>,
    replaced: BTreeSet<Option<String>>,
}

/// The start and end of a hold, and whether it is shared with other readers.
type HoldSpan = (u64, u64, bool);

impl SeenSoFar {
    /// Records that a client has reached a phase at this time of its clock. Returns how many more pairs of holds overlap.
    pub fn phase(&self, key: &str, process: u32, f: Function, phase: Phase, stamp: Option<u64>) -> u64 {
        let mut keys = lock(&self.0);
        let key = keys.entry(key.to_string()).or_default();
        match (phase, stamp) {
            (Phase::Acquired, Some(stamp)) => {
                key.open.insert(process, (stamp, stamp, f.is_shared()));
                0
            }
            (Phase::Releasing, stamp) => {
                key.extend(process, stamp);
                key.close(process)
            }
            (Phase::Lost | Phase::Released, _) => key.close(process),
            (Phase::Read | Phase::BeforeWrite | Phase::Written | Phase::Extended, stamp) => {
                key.extend(process, stamp);
                0
            }
            _ => 0,
        }
    }

    /// Records that a client's operation is over, which ends its hold. Returns how many more pairs of holds overlap.
    pub fn end(&self, key: &str, process: u32) -> u64 {
        lock(&self.0).get_mut(key).map_or(0, |key| key.close(process))
    }

    /// Records that an acknowledged update has replaced this value; values are unique. Returns whether another update had
    /// replaced the same value before: then one of the two updates is lost.
    pub fn replaced(&self, key: &str, old: &Reading) -> bool {
        let old = match old {
            Reading::Unknown => return false,
            Reading::Empty => None,
            Reading::Value(value) => Some(value.to_string()),
        };
        let mut keys = lock(&self.0);
        let replaced = &mut keys.entry(key.to_string()).or_default().replaced;
        if replaced.len() >= MOST {
            replaced.clear();
        }
        !replaced.insert(old)
    }
}

impl Key {
    fn extend(&mut self, process: u32, stamp: Option<u64>) {
        if let (Some((_, end, _)), Some(stamp)) = (self.open.get_mut(&process), stamp) {
            *end = stamp.max(*end);
        }
    }

    fn close(&mut self, process: u32) -> u64 {
        let Some((from, to, reads)) = self.open.remove(&process) else { return 0 };
        let overlap = |other: &&HoldSpan| other.0 < to && from < other.1 && !(reads && other.2);
        let pairs = self.over.iter().rev().take_while(|other| other.1 > from).filter(overlap).count() as u64;
        let place = self.over.partition_point(|other| other.1 <= to);
        self.over.insert(place, (from, to, reads));
        if self.over.len() > MOST {
            self.over.pop_front();
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_that_overlap_are_counted_once_and_others_are_not() {
        let seen = SeenSoFar::default();
        let held = |f, process, from, to| {
            assert_eq!(seen.phase("k", process, f, Phase::Acquired, Some(from)), 0);
            seen.phase("k", process, f, Phase::Releasing, Some(to)) + seen.phase("k", process, f, Phase::Released, None)
        };
        let hold = |process, from, to| held(Function::Rmw, process, from, to);
        assert_eq!([hold(0, 10, 20), hold(1, 20, 30), hold(2, 30, 40)], [0, 0, 0]);
        // A paused client, whose hold began before the last two.
        assert_eq!(hold(3, 15, 35), 3);
        // A client may report its hold late.
        assert_eq!(hold(4, 50, 60) + hold(5, 41, 45), 0);
        assert_eq!(
            seen.phase("other", 6, Function::Rmw, Phase::Acquired, Some(10))
                + seen.end("other", 6)
                + seen.end("none", 6),
            0
        );
        assert_eq!(seen.phase("k", 7, Function::Rmw, Phase::Releasing, Some(1000)), 0, "it never said that it had it");
        // Readers may hold the lock together, but no writer beside them.
        let read = |process, from, to| held(Function::Shared, process, from, to);
        assert_eq!([read(0, 110, 120), read(1, 115, 125), hold(2, 118, 130)], [0, 0, 2]);
    }

    #[test]
    fn two_updates_of_one_value_are_one_too_many() {
        let seen = SeenSoFar::default();
        let value = |text: &str| Reading::Value(text.into());
        assert!(
            !seen.replaced("k", &Reading::Empty)
                && !seen.replaced("k", &value("a"))
                && !seen.replaced("l", &value("a"))
        );
        assert!(seen.replaced("k", &value("a")) && seen.replaced("k", &Reading::Empty));
        assert!(!seen.replaced("k", &Reading::Unknown) && !seen.replaced("k", &Reading::Unknown));
    }
}
