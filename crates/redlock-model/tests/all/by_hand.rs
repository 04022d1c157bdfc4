//! The same rules once more, with plain structs and one hash set, without crashes and without a resource. The number of states
//! and the verdicts must be the same as those of the search.

use std::collections::HashSet;

use redlock_model::{Bounds, Clocks, Holding, Limits, Model, Settings, Verdict, search};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Asking,
    Holding,
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Client {
    doing: Doing,
    clock: u32,
    began: u32,
    yes: Vec<u32>,
    next: u32,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct World {
    time: u32,
    clients: Vec<Client>,
    /// For each node, the owner of its key, and when its last key expires or expired.
    keys: Vec<(Option<usize>, u32)>,
}

/// How to count states that differ only in facts that can no longer matter: as one (`Forgotten`, like the crate), or separately.
#[derive(Clone, Copy, PartialEq)]
enum Stale {
    Forgotten,
    Kept,
}

fn next(settings: &Settings, stale: Stale, world: &World) -> Vec<World> {
    let Bounds { nodes, ttl, time, .. } = settings.bounds;
    let mut found = Vec::new();
    let mut may = |change: &dyn Fn(&mut World)| {
        let mut after = world.clone();
        change(&mut after);
        if settings.clocks == Clocks::Perfect {
            let time = after.time;
            after.clients.iter_mut().for_each(|client| client.clock = time);
        }
        if stale == Stale::Forgotten {
            forget(settings, &mut after);
        }
        found.push(after);
    };
    if world.time < time {
        may(&|after| after.time += 1);
    }
    for (node, key) in world.keys.iter().enumerate() {
        if key.0.is_some() && world.time >= key.1 {
            may(&|after| after.keys[node].0 = None);
        }
    }
    for (number, client) in world.clients.iter().enumerate() {
        let is_over = stale == Stale::Forgotten && client.doing == Doing::Done;
        if settings.clocks == Clocks::Lagging && client.clock < world.time && !is_over {
            may(&|after| after.clients[number].clock += 1);
        }
        match client.doing {
            Doing::Nothing => may(&|after| {
                let clock = after.clients[number].clock;
                let client = &mut after.clients[number];
                *client = Client { doing: Doing::Asking, clock, began: clock, ..Client::default() };
            }),
            Doing::Asking if client.next < nodes => {
                let node = client.next as usize;
                match world.keys[node].0 {
                    None => may(&|after| {
                        after.keys[node] = (Some(number), after.time + ttl);
                        after.clients[number].yes.push(client.next);
                        after.clients[number].next += 1;
                    }),
                    Some(_) => may(&|after| after.clients[number].next += 1),
                }
            }
            Doing::Asking => {
                let has_it = 2 * client.yes.len() > nodes as usize && client.clock - client.began < ttl;
                match has_it {
                    true => may(&|after| after.clients[number].doing = Doing::Holding),
                    false => may(&|after| {
                        after.clients[number].doing = Doing::Nothing;
                        after.clients[number].yes.clear();
                        delete(after, number);
                    }),
                }
            }
            Doing::Holding => may(&|after| {
                after.clients[number].doing = Doing::Done;
                delete(after, number);
            }),
            Doing::Done => {}
        }
    }
    found
}

fn delete(world: &mut World, number: usize) {
    let of_it = world.keys.iter_mut().filter(|key| key.0 == Some(number));
    of_it.for_each(|key| key.0 = None);
}

fn forget(settings: &Settings, world: &mut World) {
    world.keys.iter_mut().filter(|key| key.0.is_none()).for_each(|key| key.1 = 0);
    for client in &mut world.clients {
        let Client { doing, clock, began, .. } = *client;
        match doing {
            Doing::Asking => {}
            Doing::Nothing => *client = Client { doing, clock, ..Client::default() },
            Doing::Holding if settings.holding == Holding::WhileValid => {
                *client = Client { doing, clock, began, ..Client::default() };
            }
            Doing::Holding => *client = Client { doing, clock, ..Client::default() },
            Doing::Done => {
                let clock = if settings.clocks == Clocks::Perfect { clock } else { 0 };
                *client = Client { doing, clock, ..Client::default() };
            }
        }
    }
}

fn is_violated(settings: &Settings, world: &World) -> bool {
    let holds = |client: &&Client| {
        let in_time = client.clock - client.began < settings.bounds.ttl;
        client.doing == Doing::Holding && (settings.holding == Holding::UntilRelease || in_time)
    };
    world.clients.iter().filter(holds).count() > 1
}

/// The number of states after each level, up to the first level with a violation; and whether there is one.
fn levels(settings: &Settings, stale: Stale) -> (Vec<u64>, bool) {
    count(settings, stale, |level, _| level.iter().any(|world| is_violated(settings, world)))
}

/// The same, for this many levels.
fn levels_to(settings: &Settings, stale: Stale, levels: usize) -> Vec<u64> {
    count(settings, stale, |_, number| number == levels).0
}

fn count(settings: &Settings, stale: Stale, is_enough: impl Fn(&[World], usize) -> bool) -> (Vec<u64>, bool) {
    let Bounds { nodes, clients, .. } = settings.bounds;
    let first =
        World { time: 0, clients: vec![Client::default(); clients as usize], keys: vec![(None, 0); nodes as usize] };
    let mut seen = HashSet::from([first.clone()]);
    let (mut level, mut counts) = (vec![first], Vec::new());
    while !level.is_empty() {
        counts.push(seen.len() as u64);
        if is_enough(&level, counts.len()) {
            return (counts, true);
        }
        let candidates = level.iter().flat_map(|world| next(settings, stale, world));
        level = candidates.filter(|world| seen.insert(world.clone())).collect();
    }
    (counts, false)
}

#[test]
fn the_search_counts_the_states_that_plain_structs_have() {
    for clocks in [Clocks::Perfect, Clocks::Lagging] {
        for holding in [Holding::UntilRelease, Holding::WhileValid] {
            for (nodes, clients, ttl, time) in [(1, 2, 2, 5), (2, 2, 2, 3), (3, 2, 2, 3), (2, 3, 1, 2), (3, 2, 3, 2)] {
                let bounds = Bounds { nodes, clients, ttl, time };
                let settings = Settings { bounds, clocks, holding, ..Settings::default() };
                let (counts, violated) = levels(&settings, Stale::Forgotten);
                let outcome = search(&Model::new(settings).unwrap(), &Limits::default());
                assert_eq!(outcome.states, *counts.last().unwrap(), "{settings:?}");
                assert_eq!(outcome.depth as usize, counts.len() - 1, "{settings:?}");
                assert_eq!(matches!(outcome.verdict, Verdict::Violated(_)), violated, "{settings:?}");
            }
        }
    }
}

/// A published model with these rules reports 759,666 states when its checker, with several threads, finds the violation. It
/// keeps facts that no longer matter, and checks a state when it expands it. So by then it knows all states at the distance of
/// the violation and a part of the next level.
#[test]
fn with_what_no_longer_matters_the_default_has_as_many_states_as_published() {
    let (counts, violated) = levels(&Settings::default(), Stale::Kept);
    assert!(violated);
    assert_eq!((counts.len(), counts[14]), (15, 448_878));
    let further = levels_to(&Settings::default(), Stale::Kept, 16);
    assert_eq!(further[15], 899_313);
    assert!((counts[14]..further[15]).contains(&759_666));
}
