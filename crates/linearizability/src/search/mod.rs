//! The general search: linearizability of the operations on one object, for any model.
//!
//! Wing and Gong ("Testing and verifying concurrent objects", 1993) try the orders depth-first. Lowe (2017) remembers
//! configurations, and decides only when an operation returns. Here a configuration is small however long the history
//! ([`config`]), and most orders are skipped because another order is at least as good ([`moves`]). Two searches race:
//! depth-first ([`depth`]) is fast if there is a legal order, breadth-first ([`breadth`]) if there is none. The problem is
//! NP-complete (Gibbons and Korach 1997), so some histories exceed any limit. Then the answer is unknown, with the part that was
//! shown to be legal.

mod bits;
mod breadth;
mod config;
mod cursor;
mod depth;
mod moves;
mod order;
mod problem;
mod watch;

use std::sync::atomic::Ordering;

pub(crate) use config::FastHasher;
pub use watch::Limits;

use super::{Answer, Conflict, Model};
use crate::history::{NEVER, Op, OpFunction, Outcome, Value};
use bits::{Bits, Wide};
use depth::{Depth, SearchOutcome};
use problem::{Event, Problem};
use watch::{Shared, Stopped, Watch};

/// The searches to run; tests and measurements run them separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Depth-first alone while it is cheap, then both at once.
    #[default]
    Race,
    /// Depth-first alone.
    Depth,
    /// Breadth-first alone.
    Breadth,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The variants describe the fields.
pub enum Finding {
    /// There is a legal order, given as indices of operations. Empty if breadth-first was faster. It leaves out indeterminate
    /// operations that need not have happened, and some failed ones.
    Legal { order: Vec<u32> },
    /// There is no legal order: the operation at `place` cannot have returned its result, at `event`.
    Illegal { place: u32, event: u32 },
    /// A limit was reached. Everything before `legal_before`, a place in the order of events, has a legal order.
    Unknown { reason: &'static str, legal_before: u32 },
}

/// Searches for a legal order of one object's operations, given in the order of their invocations.
pub fn check_object<M: Model>(model: &M, operations: &[Op], limits: &Limits) -> Answer {
    match examine(model, operations, limits, Strategy::Race) {
        Finding::Legal { .. } => Answer::Linearizable,
        Finding::Illegal { place, .. } if model.absurd(operations) == Some(place) => {
            let line = operations[place as usize].line;
            let reason = format!("line {line}: no operation could have led to the value that this operation found");
            Answer::NotLinearizable(Conflict { operations: vec![place], reason })
        }
        Finding::Illegal { place, event } => {
            let line = operations[place as usize].line;
            let reason =
                format!("line {line}: no order of the earlier operations explains the result of this operation");
            let begun = (0..operations.len() as u32).filter(|place| operations[*place as usize].invoked < event);
            Answer::NotLinearizable(Conflict { operations: begun.collect(), reason })
        }
        Finding::Unknown { reason, legal_before } => {
            Answer::Undecided(format!("{reason}; the events before {legal_before} are linearizable"))
        }
    }
}

/// Like [`check_object`], but returns all results of the search.
pub fn examine<M: Model>(model: &M, operations: &[Op], limits: &Limits, strategy: Strategy) -> Finding {
    let Some(absurd) = model.absurd(operations) else { return examine_all(model, operations, limits, strategy) };
    // The part before it may or may not be legal. Most likely it is, and that is faster to find.
    let event = operations[absurd as usize].completed;
    let (before, places) = before(operations, event);
    match examine_all(model, &before, limits, strategy) {
        Finding::Illegal { place, event } => Finding::Illegal { place: places[place as usize], event },
        _ => Finding::Illegal { place: absurd, event },
    }
}

/// The known facts just before an event, with the operations' indices. Operations that return at the event or later are
/// indeterminate.
pub(crate) fn before(operations: &[Op], event: u32) -> (Vec<Op>, Vec<u32>) {
    let begun = (0..).zip(operations).filter(|(_, op)| op.invoked < event);
    let known = begun.filter(|(_, op)| op.completed < event || op.outcome != Outcome::Fail);
    let cut = |(place, op): (u32, &Op)| match op.completed < event {
        true => (*op, place),
        // The token is known only after the return.
        false if op.f == OpFunction::Acquire => {
            (Op { outcome: Outcome::Info, completed: NEVER, a: Value::UNKNOWN, ..*op }, place)
        }
        false => (Op { outcome: Outcome::Info, completed: NEVER, ..*op }, place),
    };
    known.map(cut).unzip()
}

fn examine_all<M: Model>(model: &M, operations: &[Op], limits: &Limits, strategy: Strategy) -> Finding {
    let problem = Problem::new(model, operations);
    match problem.slots {
        0..=64 => search::<M, u64>(model, &problem, limits, strategy),
        _ => search::<M, Wide>(model, &problem, limits, strategy),
    }
}

/// Depth-first steps before breadth-first joins: more than most histories take, fewer than starting a thread costs.
const STEPS_ALONE: u64 = 8 * 1024;

fn search<M: Model, B: Bits>(model: &M, problem: &Problem, limits: &Limits, strategy: Strategy) -> Finding {
    let shared = Shared::default();
    let watch = |is_breadth, steps| Watch::new(*limits, &shared, is_breadth, steps);
    let breadth = || breadth_first::<M, B>(model, problem, &mut watch(true, u64::MAX));
    let result = match strategy {
        Strategy::Breadth => breadth(),
        Strategy::Depth => Depth::<M, B>::new(model, problem).run(&mut watch(false, u64::MAX)),
        Strategy::Race => {
            let mut depth = Depth::<M, B>::new(model, problem);
            match depth.run(&mut watch(false, STEPS_ALONE)) {
                Err(Stopped::Steps) => std::thread::scope(|scope| {
                    let other = scope.spawn(|| first(&shared, breadth()));
                    let mine = first(&shared, depth.run(&mut watch(false, u64::MAX)));
                    drop(depth);
                    match (mine, other.join().unwrap_or(Err(Stopped::Raced))) {
                        (Ok(found), _) | (_, Ok(found)) => Ok(found),
                        (Err(Stopped::GaveUp), _) | (_, Err(Stopped::GaveUp)) => Err(Stopped::GaveUp),
                        (Err(stopped), _) => Err(stopped),
                    }
                }),
                result => result,
            }
        }
    };
    let place = |at: usize| match problem.events.get(at) {
        Some(Event::Return(open)) => (open.place, open.completed),
        _ => (0, 0),
    };
    match result {
        Ok(SearchOutcome { legal: true, choices, .. }) => {
            Finding::Legal { order: order::replay::<M, B>(model, problem, &choices) }
        }
        Ok(SearchOutcome { legal: false, furthest, .. }) => {
            let (place, event) = place(furthest);
            Finding::Illegal { place, event }
        }
        Err(stopped) => Finding::Unknown {
            reason: match stopped {
                Stopped::Memory => "the search used all the memory that it may use",
                _ => "the search used all the time that it may use",
            },
            legal_before: place(shared.furthest.load(Ordering::Relaxed)).1,
        },
    }
}

fn breadth_first<M: Model, B: Bits>(model: &M, problem: &Problem, watch: &mut Watch) -> Result<SearchOutcome, Stopped> {
    let reached = breadth::run::<M, B>(model, problem, watch)?;
    Ok(SearchOutcome { legal: !reached.frontier.is_empty(), furthest: reached.at, choices: Vec::new() })
}

fn first(shared: &Shared, result: Result<SearchOutcome, Stopped>) -> Result<SearchOutcome, Stopped> {
    if result.is_ok() || result.as_ref().is_err_and(|stopped| *stopped == Stopped::GaveUp) {
        shared.decided.store(true, Ordering::Relaxed);
    }
    result
}
