//! The operation that was meant to write each value: a table of numbers, since the operations contain the values.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Numbers of operations by the values that they were meant to write, which are unique.
#[derive(Debug, Default)]
pub struct Writers {
    /// Each with half of its hash, so that a growing table need not look at the values again.
    numbers: HashTable<(u32, u32)>,
    /// Random, because values come from users' clients, which must not be able to force collisions.
    seed: RandomState,
}

impl Writers {
    /// The number of the operation that was meant to write this value; `new` returns the value of each operation.
    pub fn of<'v>(&self, value: &str, new: impl Fn(u32) -> Option<&'v str>) -> Option<u32> {
        let half = self.half(value);
        let is_it = |entry: &(u32, u32)| entry.1 == half && new(entry.0) == Some(value);
        self.numbers.find(widened(half), is_it).map(|(number, _)| *number)
    }

    /// Adds an operation by the value that it is meant to write. If another operation has that value, returns its number instead.
    pub fn add<'v>(&mut self, value: &str, number: u32, new: impl Fn(u32) -> Option<&'v str>) -> Option<u32> {
        let first = self.of(value, new);
        if first.is_none() {
            let half = self.half(value);
            self.numbers.insert_unique(widened(half), (number, half), |(_, half)| widened(*half));
        }
        first
    }

    fn half(&self, value: &str) -> u32 {
        self.seed.hash_one(value) as u32
    }
}

/// As good as a full hash for tables of less than 2^25 entries.
fn widened(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}
