//! Facts about a register whose values repeat: replacing a value uses up one occurrence of it.
//!
//! An operation that replaced a value needs its own occurrence: an earlier write of the value, or the initial one. So at no time
//! can more replacements of a value have returned than writes of it were invoked, plus the initial one. As a graph, with
//! operations as edges between values, one path must use all the edges (Euler). A counter's lost update shows as two edges that
//! leave a value with only one incoming edge.
//!
//! An indeterminate operation counts as a write if an occurrence of the value that it replaces may be left by the operations that
//! certainly happened. Otherwise it is left out, which may rule out other operations in turn.
//!
//! This condition is necessary, not sufficient: it ignores when each occurrence was there.

use super::chain::{INITIAL, Meaning};
use super::places::Places;
use crate::Conflict;
use crate::history::{NEVER, Op, Outcome, Value};

/// The operations to balance, in the order of their invocations. The checks are linear, except for sorting by completion.
pub(super) struct Scales<'o, F> {
    places: Places,
    ops: &'o [Op],
    meaning: &'o F,
    /// Operations invoked from here on do not count, since any value may be there any number of times.
    until: u32,
}

impl<'o, F: Fn(&Op) -> Meaning> Scales<'o, F> {
    pub(super) fn new(ops: &'o [Op], initial: Value, meaning: &'o F) -> Self {
        let anything = |op: &&Op| matches!(meaning(op), Meaning::Anything | Meaning::Outside(_));
        let until = ops.iter().find(anything).map_or(NEVER, |op| op.invoked);
        Scales { places: Places::of(ops, initial, meaning), ops, meaning, until }
    }

    /// True if all operations count.
    pub(super) fn are_complete(&self) -> bool {
        self.until == NEVER
    }

    fn ops(&self) -> impl Iterator<Item = (u32, &Op)> {
        (0u32..).zip(self.ops).take_while(|(_, op)| op.invoked < self.until)
    }

    fn happened(&self, op: &Op) -> bool {
        op.outcome == Outcome::Ok && op.completed <= self.until
    }

    /// The value of which the operation creates an occurrence. None if it creates none, or consumes one of the same value.
    fn makes(&self, op: &Op) -> Option<Value> {
        match (self.meaning)(op) {
            Meaning::Write(to) => Some(to),
            Meaning::Link(from, to) if from != to => Some(to),
            _ => None,
        }
    }

    /// The value that an operation uses up, by replacing it with another.
    fn uses(&self, op: &Op) -> Option<Value> {
        match (self.meaning)(op) {
            Meaning::Link(from, to) if from != to => Some(from),
            _ => None,
        }
    }

    /// The initial number of occurrences of each value.
    fn at_first(&self) -> Vec<i32> {
        let mut left = vec![0; self.places.count()];
        left[INITIAL as usize] = 1;
        left
    }

    fn at(&self, value: Value) -> usize {
        self.places.of_value(value) as usize
    }

    /// Indeterminate operations that cannot have happened, or need not have. They cannot if every occurrence of the value that
    /// they replace is used up. They need not if there is only one occurrence, and another operation does the same and began
    /// earlier.
    pub(super) fn idle(&self) -> Vec<bool> {
        let mut left = self.at_first();
        let mut indeterminate: Vec<Vec<u32>> = vec![Vec::new(); left.len()];
        for (place, op) in self.ops() {
            if let Some(to) = self.makes(op) {
                left[self.at(to)] += 1;
            }
            match self.uses(op) {
                Some(from) if self.happened(op) => left[self.at(from)] -= 1,
                Some(from) => indeterminate[self.at(from)].push(place),
                None => {}
            }
        }
        let mut idle = vec![false; self.ops.len()];
        let mut few: Vec<usize> = (0..left.len()).filter(|value| left[*value] <= 1).collect();
        // For each value, the round that kept an operation that writes it.
        let (mut kept, mut round) = (vec![0; left.len()], 0);
        while let Some(value) = few.pop() {
            round += 1;
            let mut stays = Vec::new();
            for place in std::mem::take(&mut indeterminate[value]) {
                let Some(to) = self.makes(&self.ops[place as usize]) else { continue };
                if left[value] == 1 && std::mem::replace(&mut kept[self.at(to)], round) != round {
                    stays.push(place);
                    continue;
                }
                idle[place as usize] = true;
                left[self.at(to)] -= 1;
                if (0..=1).contains(&left[self.at(to)]) {
                    few.push(self.at(to));
                }
            }
            indeterminate[value] = stays;
        }
        idle
    }

    /// Finds operations that replaced a value more often than it was there.
    pub(super) fn overdrawn(&self, idle: &[bool]) -> Option<Conflict> {
        let mut left = self.at_first();
        let happened = self.ops().filter(|(_, op)| self.happened(op));
        let mut uses: Vec<(u32, Value)> = happened.filter_map(|(_, op)| Some((op.completed, self.uses(op)?))).collect();
        uses.sort_unstable();
        let mut begun = self.ops().peekable();
        for (completed, value) in uses {
            while let Some((place, op)) = begun.next_if(|(_, op)| op.invoked < completed) {
                if let Some(to) = self.makes(op).filter(|_| !idle[place as usize]) {
                    left[self.at(to)] += 1;
                }
            }
            left[self.at(value)] -= 1;
            if left[self.at(value)] < 0 {
                let set = self.users_and_makers(value, idle);
                return Some(Conflict::new(set, "Operations replaced a value more often than it existed."));
            }
        }
        None
    }

    /// The operations that prove that `place` cannot have happened.
    pub(super) fn why_idle(&self, place: u32, idle: &[bool]) -> Vec<u32> {
        let from = self.uses(&self.ops[place as usize]).filter(|_| idle[place as usize]);
        from.map_or(Vec::new(), |from| self.users_and_makers(from, idle))
    }

    /// All operations that write the value or certainly use it; the same for the value that an impossible writer needs.
    fn users_and_makers(&self, value: Value, idle: &[bool]) -> Vec<u32> {
        let (mut set, mut values, mut told) = (Vec::new(), vec![value], vec![false; self.places.count()]);
        while let Some(value) = values.pop() {
            if std::mem::replace(&mut told[self.at(value)], true) {
                continue;
            }
            for (place, op) in (0u32..).zip(self.ops).filter(|(_, op)| op.outcome != Outcome::Fail) {
                if op.written() == Some(value) {
                    set.push(place);
                    values.extend(self.uses(op).filter(|_| idle[place as usize]));
                } else if self.uses(op) == Some(value) && self.happened(op) {
                    set.push(place);
                }
            }
        }
        set
    }
}
