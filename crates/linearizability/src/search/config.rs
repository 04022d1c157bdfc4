//! A configuration: everything on which the future of a search depends.
//!
//! It contains the state and the status of the open operations; the place in the order of events is kept separately. So its size
//! does not depend on the length of the history. It stands for many plain configurations at once. For each open operation it
//! records whether it *may* count as having happened, and whether it may still happen.

use std::hash::{Hash, Hasher};

use super::bits::Bits;

/// The state, and the status of the open operations.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Config<S, B> {
    pub state: S,
    /// Operations that cannot happen any more, because they already have.
    pub spent: B,
    /// Operations that need not happen any more, a superset of `spent`. It also has operations that would have changed nothing at
    /// some time since their invocation. And it has writes that were open when another write took effect, because they may have
    /// happened just before it, unseen.
    pub settled: B,
    /// How many indeterminate operations of each class have happened, by class; classes with none are omitted.
    pub used: Box<[(u32, u32)]>,
    /// The last operation happened early and nothing has seen it yet, so it must not be overwritten.
    pub unseen: bool,
}

impl<S: Clone + Eq + Hash, B: Bits> Config<S, B> {
    pub fn new(state: S, slots: usize) -> Config<S, B> {
        Config { state, spent: B::empty(slots), settled: B::empty(slots), used: Box::default(), unseen: false }
    }

    pub fn used(&self, class: u32) -> u32 {
        self.used.iter().find(|(c, _)| *c == class).map_or(0, |(_, count)| *count)
    }

    pub fn use_one(&mut self, class: u32) {
        let mut used = std::mem::take(&mut self.used).into_vec();
        match used.binary_search_by_key(&class, |(c, _)| *c) {
            Ok(at) => used[at].1 += 1,
            Err(at) => used.insert(at, (class, 1)),
        }
        self.used = used.into();
    }

    /// Drops the count of a class, because its operations are of no more use.
    pub fn retire(&mut self, class: u32) {
        if self.used.iter().any(|(c, _)| *c == class) {
            self.used = self.used.iter().copied().filter(|(c, _)| *c != class).collect();
        }
    }

    /// Frees a slot for another operation.
    pub fn close(&mut self, slot: u32) {
        self.spent.remove(slot);
        self.settled.remove(slot);
        self.unseen = false;
    }

    /// True if every future of `other` is also a future of this configuration.
    pub fn covers(&self, other: &Self) -> bool {
        self.state == other.state
            && self.spent.is_subset(&other.spent)
            && other.settled.is_subset(&self.settled)
            && (!self.unseen || other.unseen)
            && self.used.iter().all(|(class, count)| *count <= other.used(*class))
    }

    /// Its approximate size in a table, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.spent.heap_bytes() * 2 + size_of_val(&*self.used)
    }
}

/// A multiplying hash, as in FxHash, but folded at the end so that every bit counts. The search's tables are small and used all
/// the time, and no attacker chooses their keys.
#[derive(Clone, Default)]
pub struct FastHasher(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        let folded = self.0 ^ self.0 >> 32;
        folded.wrapping_mul(FACTOR) ^ folded >> 29
    }
}
