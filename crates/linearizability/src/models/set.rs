//! A set that only grows.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::history::{Content, Op, OpFunction, Outcome, Value, Values};
use crate::model::{Effect, Model, Transition};
use crate::words::{self, Words};

/// A set, initially empty. `add` x makes x an element; `read` returns all elements, in any order. A failed operation
/// did not happen.
///
/// The states of a search are numbers of sets, to keep them small.
pub struct Set {
    /// For each value that is a list, its distinct elements in order.
    lists: HashMap<Value, Box<[Value]>>,
    seen: Mutex<SeenSets>,
}

#[derive(Default)]
struct SeenSets {
    sets: Vec<Box<[Value]>>,
    numbers: HashMap<Box<[Value]>, u32>,
    added: HashMap<(u32, Value), u32>,
}

impl SeenSets {
    fn number(&mut self, set: Box<[Value]>) -> u32 {
        if let Some(number) = self.numbers.get(&set) {
            return *number;
        }
        let number = self.sets.len() as u32;
        self.sets.push(set.clone());
        self.numbers.insert(set, number);
        number
    }

    fn add(&mut self, state: u32, element: Value) -> u32 {
        if let Some(number) = self.added.get(&(state, element)) {
            return *number;
        }
        let set = &self.sets[state as usize];
        let number = match set.binary_search(&element) {
            Ok(_) => state,
            Err(at) => {
                let larger = [&set[..at], &[element], &set[at..]].concat();
                self.number(larger.into())
            }
        };
        self.added.insert((state, element), number);
        number
    }
}

impl Set {
    /// An empty set; `values` holds the elements.
    pub fn new(values: &Values) -> Set {
        let list = |number: u32| match values.content(Value(number)) {
            Some(Content::List(list)) => Some((Value(number), sorted(list))),
            _ => None,
        };
        let mut seen = SeenSets::default();
        seen.number(Box::default());
        Set { lists: (0..values.len() as u32).filter_map(list).collect(), seen: Mutex::new(seen) }
    }

    /// The result of a read; nil is an empty set.
    fn read(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::NIL => Some(&[]),
            value => self.lists.get(&value).map(|list| &**list),
        }
    }
}

fn sorted(list: &[Value]) -> Box<[Value]> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list.dedup();
    list.into()
}

impl Model for Set {
    /// The number of the set.
    type State = u32;

    fn initial(&self) -> u32 {
        0
    }

    fn step(&self, state: &u32, op: &Op) -> Transition<u32> {
        if op.outcome == Outcome::Fail || op.f == OpFunction::Read && op.a == Value::UNKNOWN {
            return Transition::Same;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match op.f {
            OpFunction::Add => match seen.add(*state, op.a) {
                same if same == *state => Transition::Same,
                larger => Transition::To(larger),
            },
            OpFunction::Read if self.read(op.a) == Some(&*seen.sets[*state as usize]) => Transition::Same,
            _ => Transition::Illegal,
        }
    }

    fn effect(&self, op: &Op) -> Effect {
        match op.f {
            OpFunction::Add if op.outcome != Outcome::Fail => Effect::Commutes,
            _ => Effect::Nothing,
        }
    }

    fn has_owners(&self) -> bool {
        false
    }

    /// True if the read contains everything in the state.
    fn leads_to(&self, state: &u32, read: &Op) -> bool {
        if read.outcome == Outcome::Fail || read.a == Value::UNKNOWN {
            return true;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut elements = seen.sets[*state as usize].iter();
        self.read(read.a).is_some_and(|found| elements.all(|element| found.binary_search(element).is_ok()))
    }

    fn absurd(&self, operations: &[Op]) -> Option<u32> {
        let adds = operations.iter().filter(|op| op.f == OpFunction::Add && op.outcome != Outcome::Fail);
        let added: HashSet<Value> = adds.map(|op| op.a).collect();
        let found = |op: &Op| {
            let read = self.read(op.a).filter(|_| op.f == OpFunction::Read && op.outcome == Outcome::Ok);
            read.is_some_and(|read| read.iter().any(|element| !added.contains(element)))
        };
        let places = (0..).zip(operations).filter(|(_, op)| found(op));
        places.min_by_key(|(_, op)| op.completed).map(|(place, _)| place)
    }

    /// Reads, and additions of elements that no read contains.
    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        let reads = operations.iter().filter(|op| op.f == OpFunction::Read && op.outcome == Outcome::Ok);
        let found: HashSet<Value> = reads.filter_map(|op| self.read(op.a)).flatten().copied().collect();
        let may_go = |op: &Op| self.effect(op) == Effect::Nothing || !found.contains(&op.a);
        (0..operations.len() as u32)
            .filter(|place| may_go(&operations[*place as usize]))
            .map(|place| vec![place])
            .collect()
    }

    fn describe(&self, state: &u32, words: &Words) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Some(words::list(words.values, &seen.sets[*state as usize]))
    }
}
