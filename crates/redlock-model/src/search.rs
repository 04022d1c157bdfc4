//! All states, level by level: after level n, every state that n steps can lead to is known.
//!
//! Threads share nothing while they work. Each expands a part of a level, and sorts the next states by hash into one batch per
//! thread. Then each adds its batches to its own part of the set of states. So the answer, the number of states and the
//! counterexample do not depend on the number of threads.

use std::collections::TryReserveError;
use std::num::NonZeroUsize;
use std::thread;

use crate::layout::State;
use crate::model::Model;
use crate::parallel::{in_parallel, shares};
use crate::shortest::{self, Counterexample};
use crate::visited::{Visited, hash};

/// When to give up, and the number of threads.
pub struct Limits<'a> {
    /// Called now and then; the search stops once it returns true.
    pub give_up: &'a (dyn Fn() -> bool + Sync),
    pub memory_bytes: usize,
    pub threads: NonZeroUsize,
}

impl Default for Limits<'_> {
    /// No limit, and one thread per core.
    fn default() -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Limits { give_up: &|| false, memory_bytes: usize::MAX, threads }
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// The number of distinct states that were visited.
    pub states: u64,
    /// The number of steps that were tried, including those to known states.
    pub steps: u64,
    /// The number of steps to the deepest states.
    pub depth: u32,
}

/// The answer: can the property be violated within the bounds?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No state violates it.
    Holds,
    /// A shortest violation.
    Violated(Counterexample),
    /// The search gave up. No violation has [`Outcome::depth`] steps or fewer.
    Undecided(GaveUp),
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    Time,
    Memory,
    /// The system provided no more memory, though the limit was not reached.
    NoMoreMemory,
}

impl From<TryReserveError> for GaveUp {
    fn from(_: TryReserveError) -> GaveUp {
        GaveUp::NoMoreMemory
    }
}

/// How many states a thread expands before it passes on the results. The number is small enough that waiting results take little
/// of the memory, and large enough that starting threads costs nothing.
const BATCH: usize = 1 << 16;

/// Visits all states that the model allows, or stops at the first level with a violation.
pub fn search(model: &Model, limits: &Limits) -> Outcome {
    let mut search = Search::new(model, limits);
    let verdict = loop {
        match search.next_level() {
            Err(limit) => break Verdict::Undecided(limit),
            Ok(violated) if !violated.is_empty() => match search.shortest(violated) {
                Some(counterexample) => break Verdict::Violated(counterexample),
                // Impossible: each of them was reached from the previous level.
                None => break Verdict::Undecided(GaveUp::Time),
            },
            Ok(_) if search.levels.last().is_none_or(Vec::is_empty) => break Verdict::Holds,
            Ok(_) => {}
        }
    };
    let states = search.parts.iter().map(|part| part.len() as u64).sum();
    let deepest = search.levels.iter().rposition(|level| !level.is_empty()).unwrap_or(0);
    Outcome { verdict, states, steps: search.steps, depth: deepest as u32 }
}

struct Search<'a> {
    model: &'a Model,
    limits: &'a Limits<'a>,
    /// The set of states, divided by hash into one part per thread.
    parts: Vec<Visited>,
    levels: Vec<Vec<State>>,
    steps: u64,
}

impl<'a> Search<'a> {
    fn new(model: &'a Model, limits: &'a Limits) -> Search<'a> {
        let mut parts: Vec<Visited> = (0..limits.threads.get()).map(|_| Visited::new()).collect();
        let initial = model.initial();
        // The new set has room for the first state.
        let _ = parts[part_of(initial, limits.threads.get())].insert(initial);
        Search { model, limits, parts, levels: vec![vec![initial]], steps: 0 }
    }

    /// Finds the states of the next level, and returns those that violate the property.
    fn next_level(&mut self) -> Result<Vec<State>, GaveUp> {
        let (mut next, mut violated) = (Vec::new(), Vec::new());
        let level = self.levels.len() - 1;
        let threads = self.limits.threads.get();
        let mut from = 0;
        while from < self.levels[level].len() {
            if (self.limits.give_up)() {
                return Err(GaveUp::Time);
            }
            if self.bytes() + next.len() * size_of::<State>() > self.limits.memory_bytes {
                return Err(GaveUp::Memory);
            }
            let to = (from + BATCH * threads).min(self.levels[level].len());
            let (steps, batches) = expand(self.model, &self.levels[level][from..to], threads)?;
            self.steps += steps;
            for (new, broken) in absorb(self.model, &mut self.parts, &batches)? {
                next.try_reserve(new.len())?;
                next.extend(new);
                violated.extend(broken);
            }
            from = to;
        }
        self.levels.push(next);
        Ok(violated)
    }

    fn shortest(&self, violated: Vec<State>) -> Option<Counterexample> {
        let before = &self.levels[..self.levels.len() - 1];
        shortest::find(self.model, before, violated, self.limits.threads.get())
    }

    fn bytes(&self) -> usize {
        let states = self.levels.iter().map(Vec::capacity).sum::<usize>();
        self.parts.iter().map(Visited::bytes).sum::<usize>() + states * size_of::<State>()
    }
}

fn part_of(state: State, threads: usize) -> usize {
    (hash(state) as u32 as usize) % threads
}

/// The next states, by thread and part of the set.
type Batches = Vec<Vec<Vec<State>>>;

/// Expands these states: returns the number of steps, and the next states by expanding thread and part of the set.
fn expand(model: &Model, states: &[State], threads: usize) -> Result<(u64, Batches), TryReserveError> {
    let work = |share: &[State]| -> Result<(u64, Vec<Vec<State>>), TryReserveError> {
        let mut batches = vec![Vec::new(); threads];
        for batch in &mut batches {
            batch.try_reserve(share.len() * 4 / threads)?;
        }
        let (mut steps, mut full) = (0, Ok(()));
        for state in share {
            model.steps(*state, |_, next| {
                steps += 1;
                if let Err(error) = push(&mut batches[part_of(next, threads)], next) {
                    full = Err(error);
                }
            });
            full.clone()?;
        }
        Ok((steps, batches))
    };
    let results = in_parallel(shares(states, threads), work).into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((results.iter().map(|(steps, _)| steps).sum(), results.into_iter().map(|(_, batches)| batches).collect()))
}

/// For one part of the set: the new states, and those of them that violate the property.
type New = (Vec<State>, Vec<State>);

/// Adds each part's batches to it.
fn absorb(model: &Model, parts: &mut [Visited], batches: &[Vec<Vec<State>>]) -> Result<Vec<New>, TryReserveError> {
    let work = |(number, part): (usize, &mut Visited)| -> Result<New, TryReserveError> {
        let (mut new, mut violated) = (Vec::new(), Vec::new());
        for state in batches.iter().flat_map(|batches| &batches[number]) {
            if part.insert(*state)? {
                push(&mut new, *state)?;
                if model.is_violated(*state) {
                    push(&mut violated, *state)?;
                }
            }
        }
        Ok((new, violated))
    };
    if batches.len() < 2 {
        parts.iter_mut().enumerate().map(work).collect()
    } else {
        in_parallel(parts.iter_mut().enumerate(), work).into_iter().collect()
    }
}

/// Adds a state; fails if there is no memory for it.
fn push(states: &mut Vec<State>, state: State) -> Result<(), TryReserveError> {
    if states.len() == states.capacity() {
        states.try_reserve(1)?;
    }
    states.push(state);
    Ok(())
}
