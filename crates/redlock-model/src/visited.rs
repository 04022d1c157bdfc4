//! A set of states: open addressing in one vector, since a state is never 0.

use std::collections::TryReserveError;

use crate::layout::State;

/// The visited states.
#[derive(Debug)]
pub struct Visited {
    slots: Vec<State>,
    len: usize,
}

impl Visited {
    pub fn new() -> Visited {
        Visited { slots: vec![0; 1024], len: 0 }
    }

    /// Adds a state; returns true if it was new. Fails if there is no memory for it.
    pub fn insert(&mut self, state: State) -> Result<bool, TryReserveError> {
        if self.len * 8 >= self.slots.len() * 5 {
            self.grow()?;
        }
        let place = place(&self.slots, state);
        if self.slots[place] == state {
            return Ok(false);
        }
        self.slots[place] = state;
        self.len += 1;
        Ok(true)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Its memory in bytes, including the memory for the next growth.
    pub fn bytes(&self) -> usize {
        let now = self.slots.len() * size_of::<State>();
        if self.len * 2 >= self.slots.len() { now * 3 } else { now }
    }

    fn grow(&mut self) -> Result<(), TryReserveError> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(self.slots.len() * 2)?;
        slots.resize(self.slots.len() * 2, 0);
        for state in self.slots.drain(..).filter(|state| *state != 0) {
            let place = place(&slots, state);
            slots[place] = state;
        }
        self.slots = slots;
        Ok(())
    }
}

/// The slot of the state, or the free slot for it.
fn place(slots: &[State], state: State) -> usize {
    let last = slots.len() - 1;
    // The upper half of the hash; the lower bits choose the part of the set.
    let mut place = (hash(state) >> 32) as usize & last;
    while slots[place] != 0 && slots[place] != state {
        place = (place + 1) & last;
    }
    place
}

/// A hash whose bits all depend on all bits of the state: two rounds of multiplying and folding.
pub fn hash(state: State) -> u64 {
    let mixed = |number: u64, by: u64| {
        let product = u128::from(number) * u128::from(by);
        (product >> 64) as u64 ^ product as u64
    };
    // Odd numbers without a pattern: the fractions of the golden ratio and of the square root of 3.
    mixed(state as u64 ^ mixed((state >> 64) as u64, 0x9e37_79b9_7f4a_7c15), 0xbb67_ae85_84ca_a73b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_new_once_also_after_the_set_has_grown() {
        let mut visited = Visited::new();
        let states = || (1..50_000u128).map(|number| number << 40 | 1);
        assert!(states().all(|state| visited.insert(state).unwrap()));
        assert!(!states().any(|state| visited.insert(state).unwrap()));
        assert_eq!(visited.len(), 49_999);
    }

    #[test]
    fn states_that_differ_in_one_bit_are_spread() {
        let low_bits: std::collections::BTreeSet<u64> = (0..128).map(|bit| hash(1 << bit) & 0xff).collect();
        assert!(low_bits.len() > 80, "{low_bits:?}");
    }
}
