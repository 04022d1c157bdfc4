//! The operations of one object, prepared for the search: classes of identical operations, a slot for each open one,
//! and the events in order.
//!
//! Slots are for operations that return, and are reused afterwards, so there are as many slots as clients. Indeterminate
//! operations never return, so they have no slots: identical ones form a class with a count, usable within a window of events.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::config::FastHasher;
use crate::history::{NEVER, Op, OpFunction, Outcome, Value};
use crate::model::{Candidate, Effect, Model};

/// Operations that are identical except for their times.
pub struct Class {
    /// Any of them.
    pub op: Op,
    pub effect: Effect,
    /// Indices of the indeterminate ones, in the order of their use.
    pub indeterminate: Vec<u32>,
    /// The last event at which an indeterminate operation is useful.
    until: u32,
}

/// An operation that returns.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub slot: u32,
    pub class: u32,
    /// Its index in the list being checked.
    pub place: u32,
    /// The place of its return in the order of events.
    pub completed: u32,
    /// True if its effect can be noticed after its return.
    pub lasting: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Invoke(Open),
    Return(Open),
    /// One more indeterminate operation of the class is available.
    Available(u32),
    /// The indeterminate operations of the class are of no more use.
    Retire(u32),
}

pub struct Problem {
    pub classes: Vec<Class>,
    pub events: Vec<Event>,
    /// The greatest number of operations open at once.
    pub slots: usize,
}

impl Problem {
    pub fn new<M: Model>(model: &M, operations: &[Op]) -> Problem {
        let mut candidates: Vec<Candidate> = operations
            .iter()
            .enumerate()
            .map(|(place, op)| Candidate::new(place as u32, *op))
            .filter(|candidate| returns(&candidate.op) || model.effect(&candidate.op) != Effect::Nothing)
            .collect();
        model.simplify(&mut candidates);

        let (classes, class_of) = classify(model, &candidates);
        let mut order = Vec::with_capacity(candidates.len() * 2);
        for (index, candidate) in candidates.iter().enumerate() {
            if returns(&candidate.op) {
                order.push((candidate.op.invoked, EventRank::Invoke, index as u32));
                order.push((candidate.op.completed, EventRank::Return, index as u32));
            } else {
                order.push((candidate.from.max(candidate.op.invoked), EventRank::Available, class_of[index]));
            }
        }
        for (class, entry) in classes.iter().enumerate() {
            if !entry.indeterminate.is_empty() && entry.until != NEVER {
                order.push((entry.until, EventRank::Retire, class as u32));
            }
        }
        // An invocation goes before a return at the same place: the two overlap.
        order.sort_unstable();

        let mut slots = Slots::default();
        let mut slot_of = vec![0; candidates.len()];
        let open = |index: u32, slot: u32| {
            let candidate = &candidates[index as usize];
            let (place, completed) = (candidate.place, candidate.op.completed);
            Open { slot, class: class_of[index as usize], place, completed, lasting: candidate.until > completed }
        };
        let events = order
            .into_iter()
            .map(|(_, kind, index)| match kind {
                EventRank::Invoke => {
                    slot_of[index as usize] = slots.take();
                    Event::Invoke(open(index, slot_of[index as usize]))
                }
                EventRank::Return => {
                    slots.free.push(slot_of[index as usize]);
                    Event::Return(open(index, slot_of[index as usize]))
                }
                EventRank::Available => Event::Available(index),
                EventRank::Retire => Event::Retire(index),
            })
            .collect();
        Problem { classes, events, slots: slots.count as usize }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventRank {
    Invoke,
    Available,
    Return,
    Retire,
}

fn returns(op: &Op) -> bool {
    op.completed != NEVER && op.outcome != Outcome::Info
}

type Identity = (OpFunction, bool, Value, Value, u32);

fn classify<M: Model>(model: &M, candidates: &[Candidate]) -> (Vec<Class>, Vec<u32>) {
    let mut numbers: HashMap<Identity, u32, BuildHasherDefault<FastHasher>> =
        HashMap::with_capacity_and_hasher(candidates.len(), Default::default());
    let mut classes: Vec<Class> = Vec::new();
    let mut class_of = Vec::with_capacity(candidates.len());
    for Candidate { place, op, until, .. } in candidates {
        let owner = if model.has_owners() { op.process } else { 0 };
        let identity = (op.f, op.outcome == Outcome::Fail, op.a, op.b, owner);
        let number = *numbers.entry(identity).or_insert_with(|| {
            classes.push(Class { op: *op, effect: model.effect(op), indeterminate: Vec::new(), until: 0 });
            classes.len() as u32 - 1
        });
        class_of.push(number);
        if !returns(op) {
            let class = &mut classes[number as usize];
            class.indeterminate.push(*place);
            class.until = class.until.max(*until);
        }
    }
    (classes, class_of)
}

#[derive(Default)]
struct Slots {
    free: Vec<u32>,
    count: u32,
}

impl Slots {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}
