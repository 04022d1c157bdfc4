//! Finds a value's node without hashing: the numbers of values are dense, so they serve as indices of an array.

use super::chain::{INITIAL, Meaning};
use crate::history::{Op, Value};

/// Maps each value to the index of its node: the initial value first, then by number.
pub(super) struct Places {
    initial: Value,
    least: u32,
    span: usize,
    /// The values in order, if their numbers are sparse because most belong to other keys; otherwise empty.
    scattered: Vec<u32>,
}

impl Places {
    pub(super) fn of(ops: &[Op], initial: Value, meaning: impl Fn(&Op) -> Meaning) -> Places {
        let (mut least, mut greatest) = (u32::MAX, 0);
        let values = || ops.iter().flat_map(|op| meaning(op).values());
        values().for_each(|value| (least, greatest) = (least.min(value.0), greatest.max(value.0)));
        let span = if least > greatest { 0 } else { (greatest - least) as usize + 1 };
        let mut scattered = Vec::new();
        // Clearing four nodes per operation costs about as much as sorting.
        if span > 4 * ops.len() + 64 {
            scattered.extend(values().map(|value| value.0));
            scattered.sort_unstable();
            scattered.dedup();
        }
        Places { initial, least, span, scattered }
    }

    pub(super) fn count(&self) -> usize {
        1 + if self.scattered.is_empty() { self.span } else { self.scattered.len() }
    }

    pub(super) fn of_value(&self, value: Value) -> u32 {
        if value == self.initial {
            INITIAL
        } else if self.scattered.is_empty() {
            value.0 - self.least + 1
        } else {
            // Every value was added, so it is found.
            let (Ok(place) | Err(place)) = self.scattered.binary_search(&value.0);
            place as u32 + 1
        }
    }
}
