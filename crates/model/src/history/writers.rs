//! Which operation was to write each value: a table of numbers, since the values stand in the operations.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Numbers of operations by the values that they were to write, which are unique.
#[derive(Debug, Default)]
pub struct Writers {
    /// With half of the hash, so that a table that grows need not look at the values again.
    numbers: HashTable<(u32, u32)>,
    /// Values come from users' clients, so nobody may know which of them collide.
    seed: RandomState,
}

impl Writers {
    /// The number of the operation that was to write this value; `new` gives the value of each.
    pub fn of<'v>(&self, value: &str, new: impl Fn(u32) -> Option<&'v str>) -> Option<u32> {
        let half = self.half(value);
        let is_it = |entry: &(u32, u32)| entry.1 == half && new(entry.0) == Some(value);
        self.numbers.find(widened(half), is_it).map(|(number, _)| *number)
    }

    /// Adds an operation by the value that it is to write, unless there is one with that value: then it is returned.
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

/// As good as a hash of full length for tables of less than 2^25 places.
fn widened(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}
