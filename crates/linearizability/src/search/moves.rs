//! The possible next steps in a configuration: the rules that both searches share.
//!
//! Just-in-time linearization (Lowe, "Testing for linearizability", 2017): nothing is decided before an operation returns. Then
//! all orders are tried in which it comes last, after any of the other open operations. Many of these are skipped, because
//! another order is at least as good:
//!
//! - An operation that would change nothing now may count as having happened: it is *settled*. It can still happen later if it
//!   would then change the state. So reads never branch.
//! - When a write takes effect, the other open writes may have happened just before it, unseen: they are settled too.
//! - So an indeterminate operation, or a write other than the returning one, is tried only if a pending operation notices it
//!   before it is overwritten.
//! - Of identical operations only the one that returns first is tried, and indeterminate ones last.
//! - Operations that commute wait for their return, unless a pending operation could notice the difference.

use std::hash::Hash;

use super::bits::Bits;
use super::config::Config;
use super::cursor::Cursor;
use super::problem::{Event, Open};
use crate::model::{Effect, Model, Transition};

/// An operation chosen as the next step.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    Open(Open),
    /// The first unused operation of an indeterminate class.
    Indeterminate(u32),
}

/// Moves on to the next return, or to the end; `config` settles operations invoked on the way.
pub fn advance<M: Model, B: Bits>(model: &M, cursor: &mut Cursor, config: &mut Config<M::State, B>) {
    while let Some(event) = cursor.event() {
        if matches!(event, Event::Return(_)) {
            return;
        }
        meet(model, cursor, config, event);
        cursor.forward();
    }
}

/// Applies an event other than a return to a configuration.
pub fn meet<M: Model, B: Bits>(model: &M, cursor: &Cursor, config: &mut Config<M::State, B>, event: Event) {
    match event {
        Event::Invoke(open) => {
            if model.step(&config.state, &cursor.problem.classes[open.class as usize].op) == Transition::Same {
                config.settled.insert(open.slot);
            }
        }
        Event::Retire(class) => config.retire(class),
        Event::Available(_) | Event::Return(_) => {}
    }
}

/// Lets the next operation return.
pub fn close<M: Model, B: Bits>(model: &M, cursor: &Cursor, config: &mut Config<M::State, B>, target: Open) {
    let class = &cursor.problem.classes[target.class as usize];
    if class.effect == Effect::Overwrites
        && !config.spent.has(target.slot)
        && model.step(&config.state, &class.op) == Transition::Same
    {
        // A write of the value already there: other writes may have happened just before it.
        settle_overwriting(cursor, config);
    }
    config.close(target.slot);
}

/// The number of moves to try, see [`attempt`].
pub fn choices(cursor: &Cursor) -> usize {
    cursor.open.len() + cursor.live.len()
}

/// The configuration after the move with this number, below [`choices`], if it is possible and useful. The first move
/// is the returning operation itself.
pub fn attempt<M: Model, B: Bits>(
    model: &M,
    cursor: &Cursor,
    config: &Config<M::State, B>,
    choice: usize,
) -> Option<(Move, Config<M::State, B>)> {
    let (movement, class) = match cursor.open.len().checked_sub(choice + 1) {
        Some(at) => {
            let open = cursor.open[at];
            if config.spent.has(open.slot) || repeats(cursor, config, at) {
                return None;
            }
            (Move::Open(open), open.class)
        }
        None => {
            let class = cursor.live[choice - cursor.open.len()];
            let waits = |open: &Open| open.class == class && !config.spent.has(open.slot);
            if config.used(class) >= cursor.available[class as usize] || cursor.open.iter().any(waits) {
                return None;
            }
            (Move::Indeterminate(class), class)
        }
    };
    let returns = choice == 0;
    let operation = &cursor.problem.classes[class as usize];
    match operation.effect {
        Effect::Nothing => return None,
        Effect::Overwrites if config.unseen => return None,
        Effect::Commutes if !returns && !order_shows(cursor, config) => return None,
        _ => {}
    }
    let mut next = config.clone();
    match model.step(&config.state, &operation.op) {
        Transition::To(state) => next.state = state,
        // A write of the value already there can hide other writes.
        Transition::Same if operation.effect == Effect::Overwrites && hides(cursor, config) => {}
        _ => return None,
    }
    match movement {
        Move::Open(open) => {
            next.spent.insert(open.slot);
            next.settled.insert(open.slot);
        }
        Move::Indeterminate(class) => next.use_one(class),
    }
    if operation.effect == Effect::Overwrites {
        settle_overwriting(cursor, &mut next);
    }
    let seen = settle(model, cursor, &mut next);
    let optional = operation.effect == Effect::Overwrites || matches!(movement, Move::Indeterminate(_));
    next.unseen = !returns && optional && !seen;
    match movement {
        _ if next.unseen && !is_noticed(model, cursor, &next) => None,
        _ if is_hopeless(model, cursor, &next) => None,
        // It was settled already, and no operation that completes later can notice that it happened now.
        Move::Open(open) if returns && !open.lasting && !seen && config.settled.has(open.slot) => None,
        _ => Some((movement, next)),
    }
}

/// Settles the open writes when another write takes effect.
fn settle_overwriting<S: Clone + Eq + Hash, B: Bits>(cursor: &Cursor, config: &mut Config<S, B>) {
    for open in &cursor.open {
        if cursor.problem.classes[open.class as usize].effect == Effect::Overwrites {
            config.settled.insert(open.slot);
        }
    }
}

/// True if a write that takes effect would settle another.
fn hides<S: Clone + Eq + Hash, B: Bits>(cursor: &Cursor, config: &Config<S, B>) -> bool {
    cursor.open.iter().any(|open| {
        cursor.problem.classes[open.class as usize].effect == Effect::Overwrites && !config.settled.has(open.slot)
    })
}

/// Settles the operations that would change nothing in a new state. Returns true if there were any.
fn settle<M: Model, B: Bits>(model: &M, cursor: &Cursor, config: &mut Config<M::State, B>) -> bool {
    let mut seen = false;
    for open in &cursor.open {
        if !config.settled.has(open.slot)
            && model.step(&config.state, &cursor.problem.classes[open.class as usize].op) == Transition::Same
        {
            config.settled.insert(open.slot);
            seen = true;
        }
    }
    seen
}

/// True if a pending operation could follow in the new state without overwriting it.
fn is_noticed<M: Model, B: Bits>(model: &M, cursor: &Cursor, config: &Config<M::State, B>) -> bool {
    let follows = |class: u32| {
        let class = &cursor.problem.classes[class as usize];
        matches!(class.effect, Effect::Any | Effect::Commutes)
            && matches!(model.step(&config.state, &class.op), Transition::To(_))
    };
    cursor.open.iter().any(|open| !config.spent.has(open.slot) && follows(open.class))
        || cursor.live.iter().any(|class| config.used(*class) < cursor.available[*class as usize] && follows(*class))
}

/// True if the read that is about to return can no longer be right.
fn is_hopeless<M: Model, B: Bits>(model: &M, cursor: &Cursor, config: &Config<M::State, B>) -> bool {
    let class = |class: u32| &cursor.problem.classes[class as usize];
    let waits = |open: &Open| {
        class(open.class).effect == Effect::Nothing
            && !config.settled.has(open.slot)
            && !model.leads_to(&config.state, &class(open.class).op)
    };
    let overwrites = |open: &Open| class(open.class).effect == Effect::Overwrites && !config.spent.has(open.slot);
    cursor.open.last().is_some_and(waits)
        && !cursor.open.iter().any(overwrites)
        && !cursor.live.iter().any(|live| class(*live).effect == Effect::Overwrites)
}

/// True if an identical operation that returns earlier should be tried instead.
fn repeats<S: Clone + Eq + Hash, B: Bits>(cursor: &Cursor, config: &Config<S, B>, at: usize) -> bool {
    let open = cursor.open[at];
    cursor.open[at + 1..].iter().any(|earlier| {
        earlier.class == open.class
            && !config.spent.has(earlier.slot)
            && (!config.settled.has(earlier.slot) || config.settled.has(open.slot))
    })
}

/// True if a pending operation could notice the order of commuting operations.
fn order_shows<S: Clone + Eq + Hash, B: Bits>(cursor: &Cursor, config: &Config<S, B>) -> bool {
    let ordered = |class: u32| cursor.problem.classes[class as usize].effect != Effect::Commutes;
    cursor.open.iter().any(|open| ordered(open.class) && !config.spent.has(open.slot) && !idle(cursor, config, open))
        || cursor.live.iter().any(|class| ordered(*class))
}

/// True if it was settled and can have no more effect.
fn idle<S: Clone + Eq + Hash, B: Bits>(cursor: &Cursor, config: &Config<S, B>, open: &Open) -> bool {
    config.settled.has(open.slot) && cursor.problem.classes[open.class as usize].effect == Effect::Nothing
}
