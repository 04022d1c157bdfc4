//! Sequences with appends: a list of elements, or a text.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use crate::history::{Content, Op, OpFunction, Outcome, Value, Values};
use crate::model::{Effect, Model, Transition};
use crate::search::FastHasher;
use crate::words::{self, Words};

/// A list, initially empty. `append` x puts x at its end; `read` returns all of it, in order.
pub type ListAppend = Sequence<Value>;

/// A text, initially empty. `append` x puts the text x at its end; `write` replaces the text; `read` returns all of it.
pub type TextAppend = Sequence<u8>;

/// A sequence with appends, and the states of a search over it. A state is a prefix of some read's result, so it takes two
/// numbers. All other sequences are one state, because no read sees them or their extensions.
///
/// A `read` of nil returned an empty sequence. A failed operation did not happen.
pub struct Sequence<T> {
    /// The distinct reads, in order.
    reads: Vec<Box<[T]>>,
    /// For each read, the length of the prefix that it shares with the one before.
    shared: Vec<usize>,
    values: HashMap<Value, PrefixMeaning<T>, BuildHasherDefault<FastHasher>>,
}

/// The meaning of a value.
struct PrefixMeaning<T> {
    /// As a whole sequence.
    whole: State,
    /// As something to append.
    tail: Box<[T]>,
}

/// The first read with this prefix, and the length of the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    read: u32,
    length: u32,
}

const EMPTY: State = State { read: 0, length: 0 };
const UNSEEN: State = State { read: u32::MAX, length: 0 };

impl ListAppend {
    pub fn list(values: &Values, operations: &[Op]) -> ListAppend {
        let whole = |value: Value| match values.content(value) {
            Some(Content::List(list)) => Some(list.as_slice().into()),
            Some(Content::Nil) => Some(Box::default()),
            _ => None,
        };
        Sequence::new(operations, whole, |value| [value].into())
    }
}

impl TextAppend {
    pub fn text(values: &Values, operations: &[Op]) -> TextAppend {
        let whole = |value: Value| match values.content(value) {
            Some(Content::Text(text)) => Some(text.as_bytes().into()),
            Some(Content::Int(int)) => Some(int.to_string().into_bytes().into()),
            Some(Content::Nil) => Some(Box::default()),
            _ => None,
        };
        Sequence::new(operations, whole, |value| whole(value).unwrap_or_default())
    }
}

impl<T: Ord + Copy> Sequence<T> {
    fn new(
        operations: &[Op],
        whole: impl Fn(Value) -> Option<Box<[T]>>,
        tail: impl Fn(Value) -> Box<[T]>,
    ) -> Sequence<T> {
        let reads = operations.iter().filter(|op| op.f == OpFunction::Read && op.outcome == Outcome::Ok);
        let mut reads: Vec<Box<[T]>> = reads.filter_map(|op| whole(op.a)).collect();
        reads.sort_unstable();
        reads.dedup();
        let shared = (0..reads.len()).map(|at| if at == 0 { 0 } else { common(&reads[at - 1], &reads[at]) }).collect();
        let mut sequence = Sequence { reads, shared, values: HashMap::default() };
        for op in operations.iter().filter(|op| op.a != Value::UNKNOWN) {
            if !sequence.values.contains_key(&op.a) {
                let state = whole(op.a).map_or(UNSEEN, |whole| sequence.grow(EMPTY, &whole));
                sequence.values.insert(op.a, PrefixMeaning { whole: state, tail: tail(op.a) });
            }
        }
        sequence
    }

    /// The state after an append.
    fn grow(&self, state: State, tail: &[T]) -> State {
        let length = state.length as usize;
        let Some(first) = self.reads.get(state.read as usize) else {
            return if state == EMPTY && tail.is_empty() { EMPTY } else { UNSEEN };
        };
        // The reads with this prefix come right after the first one, sorted by the text after the prefix.
        let mut fits = common(&first[length..], tail);
        for at in state.read as usize.. {
            if fits == tail.len() {
                return State { read: at as u32, length: (length + fits) as u32 };
            }
            match self.shared.get(at + 1) {
                // It differs from the tail at the same point as the previous read.
                Some(shared) if *shared > length + fits => {}
                Some(shared) if *shared >= length => fits = common(&self.reads[at + 1][length..], tail),
                _ => return UNSEEN,
            }
        }
        UNSEEN
    }

    fn whole(&self, value: Value) -> State {
        match self.values.get(&value) {
            Some(meaning) => meaning.whole,
            None => UNSEEN,
        }
    }
}

/// The length of the common prefix of two sequences.
fn common<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

impl<T: Ord + Copy + Sync + Symbol> Model for Sequence<T> {
    type State = State;

    fn initial(&self) -> State {
        EMPTY
    }

    fn step(&self, state: &State, op: &Op) -> Transition<State> {
        let to = |next: State| if next == *state { Transition::Same } else { Transition::To(next) };
        if op.outcome == Outcome::Fail || op.f == OpFunction::Read && op.a == Value::UNKNOWN {
            return Transition::Same;
        }
        match op.f {
            OpFunction::Append => match self.values.get(&op.a) {
                Some(meaning) if *state != UNSEEN => to(self.grow(*state, &meaning.tail)),
                _ => to(UNSEEN),
            },
            OpFunction::Write => to(self.whole(op.a)),
            OpFunction::Read if *state != UNSEEN && self.whole(op.a) == *state => Transition::Same,
            _ => Transition::Illegal,
        }
    }

    fn effect(&self, op: &Op) -> Effect {
        match op.f {
            _ if op.outcome == Outcome::Fail => Effect::Nothing,
            OpFunction::Write => Effect::Overwrites,
            OpFunction::Read => Effect::Nothing,
            _ => Effect::Any,
        }
    }

    fn has_owners(&self) -> bool {
        false
    }

    /// The read begins with the current state.
    fn leads_to(&self, state: &State, read: &Op) -> bool {
        let whole = self.whole(read.a);
        let sequences = (self.reads.get(state.read as usize), self.reads.get(whole.read as usize));
        match sequences {
            _ if *state == EMPTY || read.outcome == Outcome::Fail || read.a == Value::UNKNOWN => true,
            (Some(now), Some(then)) if state.length <= whole.length => {
                then.get(..whole.length as usize).is_some_and(|then| then.starts_with(&now[..state.length as usize]))
            }
            _ => false,
        }
    }

    fn omissible(&self, operations: &[Op]) -> Vec<Vec<u32>> {
        let reads = || operations.iter().filter(|op| op.f == OpFunction::Read && op.outcome == Outcome::Ok);
        let found = T::found(self, reads().map(|op| self.whole(op.a)));
        let overwrites = operations.iter().any(|op| op.f == OpFunction::Write);
        let may_go = |op: &Op| match op.f {
            _ if self.effect(op) == Effect::Nothing => true,
            // If no operation overwrites, an element in no read was appended after all of them.
            OpFunction::Append => !overwrites && found.as_ref().is_some_and(|found| !found.contains(&op.a)),
            _ => false,
        };
        let singles = (0..operations.len() as u32).filter(|place| may_go(&operations[*place as usize]));
        singles.map(|place| vec![place]).collect()
    }

    fn describe(&self, state: &State, words: &Words) -> Option<String> {
        match self.reads.get(state.read as usize) {
            Some(read) => Some(T::show(&read[..state.length as usize], words.values)),
            None if *state == EMPTY => Some(T::show(&[], words.values)),
            None => Some("a value that no operation read".into()),
        }
    }
}

/// The parts of a sequence.
pub trait Symbol: Sized {
    fn show(sequence: &[Self], values: &Values) -> String;

    /// All values in these reads; None if a sequence does not show its values.
    fn found(sequence: &Sequence<Self>, reads: impl Iterator<Item = State>) -> Option<HashSet<Value>>;
}

impl Symbol for Value {
    fn show(sequence: &[Value], values: &Values) -> String {
        words::list(values, sequence)
    }

    fn found(sequence: &Sequence<Value>, reads: impl Iterator<Item = State>) -> Option<HashSet<Value>> {
        let reads = reads.filter_map(|state| Some(&sequence.reads.get(state.read as usize)?[..state.length as usize]));
        Some(reads.flatten().copied().collect())
    }
}

impl Symbol for u8 {
    fn show(sequence: &[u8], _: &Values) -> String {
        words::text(&String::from_utf8_lossy(sequence))
    }

    fn found(_: &Sequence<u8>, _: impl Iterator<Item = State>) -> Option<HashSet<Value>> {
        None
    }
}
