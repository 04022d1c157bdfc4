//! Sets of slots: one word if at most 64 operations were ever open at once, else as many words as needed.
//!
//! A checker with a fixed-width mask reports histories with more clients as violations; this one does not.

use std::hash::Hash;

/// A set of numbers below a bound that is fixed at construction.
pub trait Bits: Clone + Eq + Hash + Send {
    fn empty(slots: usize) -> Self;
    fn has(&self, slot: u32) -> bool;
    fn insert(&mut self, slot: u32);
    fn remove(&mut self, slot: u32);
    fn is_subset(&self, other: &Self) -> bool;
    fn count(&self) -> u32;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
}

impl Bits for u64 {
    fn empty(slots: usize) -> u64 {
        debug_assert!(slots <= 64);
        0
    }

    fn has(&self, slot: u32) -> bool {
        self >> slot & 1 != 0
    }

    fn insert(&mut self, slot: u32) {
        *self |= 1 << slot;
    }

    fn remove(&mut self, slot: u32) {
        *self &= !(1 << slot);
    }

    fn is_subset(&self, other: &u64) -> bool {
        self & !other == 0
    }

    fn count(&self) -> u32 {
        self.count_ones()
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Any number of slots.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Wide(Box<[u64]>);

impl Bits for Wide {
    fn empty(slots: usize) -> Wide {
        Wide(vec![0; slots.div_ceil(64)].into())
    }

    fn has(&self, slot: u32) -> bool {
        self.0[slot as usize / 64].has(slot % 64)
    }

    fn insert(&mut self, slot: u32) {
        self.0[slot as usize / 64].insert(slot % 64);
    }

    fn remove(&mut self, slot: u32) {
        self.0[slot as usize / 64].remove(slot % 64);
    }

    fn is_subset(&self, other: &Wide) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word.is_subset(other))
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn heap_bytes(&self) -> usize {
        self.0.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_set_is_a_set_beyond_the_first_word() {
        let mut set = Wide::empty(200);
        for slot in [0, 63, 64, 127, 128, 199] {
            assert!(!set.has(slot));
            set.insert(slot);
            assert!(set.has(slot));
        }
        let mut other = Wide::empty(200);
        other.insert(64);
        assert!(other.is_subset(&set) && !set.is_subset(&other));
        assert_eq!((set.count(), other.count()), (6, 1));
        set.remove(64);
        assert!(!set.has(64) && !other.is_subset(&set));
    }
}
