//! Breadth-first: every possible configuration after each return. Only the frontier is kept, so this is fast and small if there
//! is no legal order. At a time without open operations only the set of states remains.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use super::bits::Bits;
use super::config::{Config, FastHasher};
use super::cursor::Cursor;
use super::moves::{attempt, choices, close, meet};
use super::problem::{Event, Open, Problem};
use super::watch::{Stopped, Watch};
use crate::model::{Effect, Model};

type Set<S, B> = HashSet<Config<S, B>, BuildHasherDefault<FastHasher>>;

/// At most this many configurations with the same state are compared to find one that covers another.
const COMPARED: usize = 64;

/// The configurations left at the end, none if there is no legal order; and the event reached.
pub struct Reached<S, B> {
    pub frontier: Vec<Config<S, B>>,
    pub at: usize,
}

pub fn run<M: Model, B: Bits>(
    model: &M,
    problem: &Problem,
    watch: &mut Watch,
) -> Result<Reached<M::State, B>, Stopped> {
    let mut cursor = Cursor::new(problem);
    let mut frontier = vec![Config::new(model.initial(), problem.slots)];
    while let Some(event) = cursor.event() {
        if let Event::Return(target) = event {
            let next = after(model, &cursor, &frontier, target, watch)?;
            if next.is_empty() {
                return Ok(Reached { frontier: next, at: cursor.at });
            }
            frontier = next;
        } else {
            for config in &mut frontier {
                meet(model, &cursor, config, event);
            }
        }
        cursor.forward();
    }
    Ok(Reached { frontier, at: cursor.at })
}

/// Every configuration after a return.
fn after<M: Model, B: Bits>(
    model: &M,
    cursor: &Cursor,
    frontier: &[Config<M::State, B>],
    target: Open,
    watch: &mut Watch,
) -> Result<Vec<Config<M::State, B>>, Stopped> {
    let mut next: Set<M::State, B> = Set::default();
    let mut met: Set<M::State, B> = Set::default();
    let mut pending: Vec<Config<M::State, B>> = Vec::new();
    let mut bytes: usize = frontier.iter().map(Config::bytes).sum();
    let is_read = cursor.problem.classes[target.class as usize].effect == Effect::Nothing;
    let mut emit = |mut config: Config<M::State, B>, bytes: &mut usize| {
        close(model, cursor, &mut config, target);
        *bytes += config.bytes();
        next.insert(config);
    };
    let mut start = frontier.iter();
    loop {
        watch.look(bytes, cursor.at)?;
        let config = match pending.pop() {
            Some(config) => config,
            None => {
                let Some(config) = start.next() else { break };
                if config.settled.has(target.slot) {
                    emit(config.clone(), &mut bytes);
                }
                config.clone()
            }
        };
        let settled = config.settled.has(target.slot);
        if settled && (is_read || !target.lasting) {
            continue;
        }
        for choice in 0..choices(cursor) {
            watch.look(bytes, cursor.at)?;
            let Some((_, config)) = attempt(model, cursor, &config, choice) else { continue };
            if choice == 0 {
                emit(config, &mut bytes);
                continue;
            }
            if config.settled.has(target.slot) && !settled {
                emit(config.clone(), &mut bytes);
            }
            if !met.contains(&config) {
                bytes += config.bytes() * 2;
                met.insert(config.clone());
                pending.push(config);
            }
        }
    }
    Ok(uncovered(next))
}

/// Drops configurations whose every future is also a future of another configuration.
fn uncovered<S: Clone + Eq + std::hash::Hash, B: Bits>(found: Set<S, B>) -> Vec<Config<S, B>> {
    if found.len() < 2 {
        return found.into_iter().collect();
    }
    let mut found: Vec<_> = found.into_iter().collect();
    let burden = |config: &Config<S, B>| {
        let used: u32 = config.used.iter().map(|(_, count)| count).sum();
        (config.spent.count() + used, u32::MAX - config.settled.count())
    };
    found.sort_by_cached_key(burden);
    let mut by_state: HashMap<S, Vec<u32>, BuildHasherDefault<FastHasher>> = HashMap::default();
    let mut kept: Vec<Config<S, B>> = Vec::with_capacity(found.len());
    for config in found {
        let peers = by_state.entry(config.state.clone()).or_default();
        if !peers.iter().take(COMPARED).any(|peer| kept[*peer as usize].covers(&config)) {
            peers.push(kept.len() as u32);
            kept.push(config);
        }
    }
    kept
}
