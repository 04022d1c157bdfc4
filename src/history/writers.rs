//! Which operation was to write each value: a table of places, four bytes each, since the values stand in the operations.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::Operation;

/// The places of operations by the values that they were to write, which are unique.
#[derive(Default)]
pub(super) struct Writers {
    places: HashTable<u32>,
    /// Values come from users' clients, so nobody may know which of them collide.
    seed: RandomState,
}

impl Writers {
    /// The operation that was to write this value.
    pub fn of(&self, operations: &[Operation], value: &str) -> Option<usize> {
        let is_it = |place: &u32| new_of(operations, *place) == value;
        self.places.find(self.seed.hash_one(value), is_it).map(|place| *place as usize)
    }

    /// Adds the operation at this place, which no other operation writes the value of.
    pub fn add(&mut self, operations: &[Operation], place: u32) {
        let hash = |place: &u32| self.seed.hash_one(new_of(operations, *place));
        self.places.insert_unique(hash(&place), place, hash);
    }
}

fn new_of(operations: &[Operation], place: u32) -> &str {
    operations[place as usize].new.as_deref().unwrap_or_default()
}
