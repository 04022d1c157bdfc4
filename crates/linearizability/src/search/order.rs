//! The legal order in the choices of a depth-first search.

use std::collections::HashSet;

use super::bits::Bits;
use super::config::Config;
use super::cursor::Cursor;
use super::depth::Choice;
use super::moves::{Move, attempt, choices, close, meet};
use super::problem::{Event, Open, Problem};
use crate::model::{Effect, Model};

/// Replays the choices and records the order. A settled operation comes where it was settled, unless it happens later.
pub fn replay<M: Model, B: Bits>(model: &M, problem: &Problem, made: &[Choice]) -> Vec<u32> {
    let mut cursor = Cursor::new(problem);
    let mut config = Config::<M::State, B>::new(model.initial(), problem.slots);
    let mut order: Vec<(u32, bool)> = Vec::new();
    let mut happened: HashSet<u32> = HashSet::new();
    let mut made = made.iter().peekable();
    while let Some(event) = cursor.event() {
        let Event::Return(target) = event else {
            meet(model, &cursor, &mut config, event);
            if let Event::Invoke(open) = event
                && config.settled.has(open.slot)
            {
                order.push((open.place, false));
            }
            cursor.forward();
            continue;
        };
        while let Some((_, Some(movement))) = made.next_if(|(at, _)| *at as usize == cursor.at) {
            let tried = (0..choices(&cursor)).find_map(|choice| {
                attempt(model, &cursor, &config, choice).filter(|(other, _)| is_same(movement, other))
            });
            let Some((_, next)) = tried else { continue };
            let settled = |open: &&Open| next.settled.has(open.slot) && !config.settled.has(open.slot);
            let overwrites = |open: &&Open| effect(problem, open.class) == Effect::Overwrites;
            let (place, class) = match movement {
                Move::Open(open) => (open.place, open.class),
                Move::Indeterminate(class) => {
                    (problem.classes[*class as usize].indeterminate[config.used(*class) as usize], *class)
                }
            };
            let unseen = effect(problem, class) == Effect::Overwrites;
            let others = || cursor.open.iter().filter(|open| open.place != place).filter(settled);
            order.extend(others().filter(|open| unseen && overwrites(open)).map(|open| (open.place, false)));
            order.push((place, true));
            order.extend(others().filter(|open| !(unseen && overwrites(open))).map(|open| (open.place, false)));
            happened.insert(place);
            config = next;
        }
        let before = config.clone();
        close(model, &cursor, &mut config, target);
        let settled = |open: &&Open| config.settled.has(open.slot) && !before.settled.has(open.slot);
        order.extend(cursor.open.iter().filter(settled).map(|open| (open.place, false)));
        // The write of the same value that settled them must come after them.
        if !happened.contains(&target.place) && cursor.open.iter().any(|open| settled(&open)) {
            order.retain(|(place, _)| *place != target.place);
            order.push((target.place, false));
        }
        cursor.forward();
    }
    order.retain(|(place, happens)| *happens || !happened.contains(place));
    order.into_iter().map(|(place, _)| place).collect()
}

fn effect(problem: &Problem, class: u32) -> Effect {
    problem.classes[class as usize].effect
}

fn is_same(one: &Move, other: &Move) -> bool {
    match (one, other) {
        (Move::Open(one), Move::Open(other)) => one.place == other.place,
        (Move::Indeterminate(one), Move::Indeterminate(other)) => one == other,
        _ => false,
    }
}
