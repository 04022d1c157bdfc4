//! The easiest to follow among all shortest counterexamples: the actor changes as rarely as possible.
//!
//! The search does not record how it reached a state. This module expands each level once more, backwards from the states that
//! violate the property. It keeps the states that lead to a violation, with their best way. Then it follows that way forwards.

use std::collections::HashMap;

use crate::layout::State;
use crate::model::Model;
use crate::parallel::{in_parallel, shares};
use crate::step::{Actor, Step};

/// A violation of the property in as few steps as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    pub moves: Vec<Move>,
}

/// A step and its place in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub step: Step,
    /// The tick after it.
    pub time: u32,
}

/// A way on from a state: the number of changes of the actor from here on, the first step, and the state after it.
type Way = (u32, Step, State);

/// A counterexample of `levels.len()` steps that ends in one of these states; `None` if none of them can be reached.
pub(crate) fn find(
    model: &Model,
    levels: &[Vec<State>],
    violated: Vec<State>,
    threads: usize,
) -> Option<Counterexample> {
    // For each state that leads to a violation: its best ways, one per first actor.
    let mut ways: Vec<HashMap<State, Vec<Way>>> = Vec::new();
    let mut goals: HashMap<State, Vec<Way>> = violated.into_iter().map(|state| (state, Vec::new())).collect();
    for level in levels.iter().rev() {
        let found = in_parallel(shares(level, threads), |share| {
            let led_on = |state: &State| Some((*state, ways_on(model, *state, &goals)?));
            share.iter().filter_map(led_on).collect::<Vec<_>>()
        });
        ways.push(std::mem::replace(&mut goals, found.into_iter().flatten().collect()));
    }
    let mut state = model.initial();
    let mut last = None;
    let mut moves = Vec::new();
    // The goals are now those of the first level; the others follow, the latest level first.
    let mut here = goals.get(&state)?;
    for further in ways.iter().rev() {
        let (_, step, next) = here.iter().min_by_key(|(changes, step, next)| {
            (changes + u32::from(last.is_some_and(|last| last != step.actor())), *step, *next)
        })?;
        moves.push(Move { step: *step, time: model.time(*next) });
        (last, state) = (Some(step.actor()), *next);
        here = further.get(&state)?;
    }
    Some(Counterexample { moves })
}

/// The best ways on from a state to one of the goals, one per first actor; `None` if there are none.
fn ways_on(model: &Model, state: State, goals: &HashMap<State, Vec<Way>>) -> Option<Vec<Way>> {
    let mut best: Vec<Way> = Vec::new();
    model.steps(state, |step, next| {
        let Some(further) = goals.get(&next) else { return };
        let changes_after = |(changes, after, _): &Way| changes + u32::from(after.actor() != step.actor());
        let way = (further.iter().map(changes_after).min().unwrap_or(0), step, next);
        match best.iter_mut().find(|(_, known, _)| known.actor() == step.actor()) {
            Some(known) => *known = way.min(*known),
            None => best.push(way),
        }
    });
    (!best.is_empty()).then_some(best)
}

impl Counterexample {
    /// The turns: each actor with its consecutive steps.
    pub fn turns(&self) -> impl Iterator<Item = (Actor, &[Move])> {
        let same = |one: &Move, other: &Move| one.step.actor() == other.step.actor();
        self.moves.chunk_by(same).filter_map(|moves| Some((moves.first()?.step.actor(), moves)))
    }
}
