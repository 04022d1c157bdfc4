//! The lives of locks on their nodes, from sightings; and whose each of them was.
//!
//! A server does not know the clients by name: whose a key was is reckoned from when it came and when a client then reported
//! to have got the lock. Where that fits two clients, or none, nobody is named.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::lanes::{Lanes, micros};
use crate::history::{Held, Process, Sight, Sighting};
use crate::telling::{Story, moments};
use crate::words::sanitize;

/// More are not drawn.
const MOST: usize = 40_000;
/// How far the clocks of clients and the onlooker may be apart, with what an answer takes, in nanoseconds.
const SLACK: u64 = 10_000_000;

#[derive(Serialize)]
pub(in crate::report) struct Servers {
    /// How often the nodes were looked at, in milliseconds; 0 if every change was seen.
    every: u64,
    pub lives: Vec<Life>,
    /// When a node did not answer: its place, from, to.
    unseen: Vec<(usize, u64, u64)>,
    /// When a node began to call itself a primary, or a replica: its place, time.
    roles: Vec<(usize, u64, bool)>,
    /// How far its wall clock was ahead from then on, in microseconds.
    clocks: Vec<(usize, u64, i64)>,
    /// From when on nothing was noted any more.
    until: Option<u64>,
}

/// The life of one value of one key on one node.
#[derive(Serialize)]
pub(in crate::report) struct Life {
    pub node: usize,
    pub key: String,
    pub value: String,
    /// The place of the client whose it was; -1 if that is not known.
    pub owner: i64,
    /// It came between these two.
    after: u64,
    pub from: u64,
    /// It went at this time at the latest.
    pub to: u64,
    /// 0 it was gone before its end, 1 it ran out, 2 another value took its place, 3 it was still there at last.
    how: u8,
    /// From when on it was to end when; the first is that of its beginning. 0 for never.
    ends: Vec<(u64, u64)>,
}

/// Holds by key, in the order of their beginnings: when the operation began, when the hold did, and whose it was.
pub(super) struct Owners(HashMap<String, Vec<(u64, u64, Process)>>);

impl Owners {
    pub fn of(story: &Story) -> Owners {
        let mut holds: HashMap<String, Vec<(u64, u64, Process)>> = HashMap::new();
        for operation in story.client_operations() {
            if let Some(hold) = moments::hold(operation) {
                let of_key = holds.entry(operation.key.to_string()).or_default();
                of_key.push((operation.invoked, hold.start, operation.process));
            }
        }
        holds.values_mut().for_each(|of_key| of_key.sort_by_key(|(_, start, _)| *start));
        Owners(holds)
    }

    /// Who got the lock from this life of its key, if that is one only: it came while the client asked, and was there when the
    /// client had it.
    fn of_life(&self, key: &str, open: &Open, to: u64) -> Option<Process> {
        let of_key = self.0.get(resource_key(key)?)?;
        // First as if all clocks agreed; what fits nobody then may still fit within what they differ.
        [0, SLACK].into_iter().find_map(|slack| {
            let first = of_key.partition_point(|(_, start, _)| *start + slack < open.after);
            let begun = of_key[first..].iter().take_while(|(_, start, _)| *start <= to + slack);
            let mut found = begun.filter(|(invoked, _, _)| *invoked <= open.from + slack);
            let (_, _, process) = found.next()?;
            Some(found.next().is_none().then_some(*process))
        })?
    }
}

/// `k0` of `prefix:{lock:k0}`.
fn resource_key(key: &str) -> Option<&str> {
    let name = &key[key.find("lock:k")? + "lock:".len()..];
    let end = name[1..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |end| end + 1);
    Some(&name[..end])
}

/// A life that has not ended yet.
struct Open {
    held: Held,
    after: u64,
    from: u64,
    ends: Vec<(u64, u64)>,
}

impl Servers {
    /// What is drawn of these sightings.
    pub fn new(sightings: &[Sighting], owners: &Owners, lanes: &Lanes) -> Servers {
        let places: HashMap<&str, usize> =
            lanes.nodes.iter().enumerate().map(|(place, name)| (&name[..], place)).collect();
        let mut servers = Servers {
            every: 0,
            lives: Vec::new(),
            unseen: Vec::new(),
            roles: Vec::new(),
            clocks: Vec::new(),
            until: None,
        };
        let mut open: BTreeMap<(usize, &str), Open> = BTreeMap::new();
        let mut unseen: BTreeMap<usize, u64> = BTreeMap::new();
        let whose = |key: &str, open: &Open, to| {
            owners.of_life(key, open, to).map_or(-1, |process| i64::from(lanes.place(process)))
        };
        let last = sightings.last().map_or(0, |sighting| sighting.time);
        for Sighting { time, since, node, saw } in sightings {
            let Some(&place) = places.get(&node[..]) else { continue };
            match saw {
                Sight::Watched { every_ms, .. } => servers.every = *every_ms,
                Sight::Unseen { .. } => _ = unseen.insert(place, *since),
                Sight::SeenAgain => {
                    servers.unseen.extend(unseen.remove(&place).map(|from| (place, micros(from), micros(*time))));
                }
                Sight::Primary(primary) => servers.roles.push((place, micros(*time), *primary)),
                Sight::Clock { ahead_us } => servers.clocks.push((place, micros(*time), *ahead_us)),
                Sight::NoMore => servers.until = Some(micros(*time)),
                Sight::Key { key, held } => {
                    let before = open.remove(&(place, key));
                    let same = |before: &Open| held.as_ref().is_some_and(|held| held.value == before.held.value);
                    let open_now = match (before, held) {
                        (Some(mut before), Some(held)) if same(&before) => {
                            before.ends.push((*time, held.ends.unwrap_or(0)));
                            before.held = held.clone();
                            Some(before)
                        }
                        (before, held) => {
                            if let Some(before) = before {
                                servers.end((place, key), before, (*since, *time, held.is_some()), |open, to| {
                                    whose(key, open, to)
                                });
                            }
                            held.as_ref().map(|held| Open {
                                held: held.clone(),
                                after: *since,
                                from: *time,
                                ends: vec![(*time, held.ends.unwrap_or(0))],
                            })
                        }
                    };
                    open.extend(open_now.map(|now| ((place, &key[..]), now)));
                }
            }
        }
        for ((place, key), left) in open {
            servers.end((place, key), left, (last, last, false), |open, to| whose(key, open, to));
            servers.lives.last_mut().into_iter().filter(|life| life.how == 0).for_each(|life| life.how = 3);
        }
        servers.unseen.extend(unseen.into_iter().map(|(place, from)| (place, micros(from), micros(last))));
        servers.lives.sort_by_key(|life| (life.node, life.from));
        servers.same_value_same_owner();
        servers.lives.truncate(MOST);
        servers
    }

    /// A life is over: it was there at the first of these times, and was not at the second.
    fn end(
        &mut self,
        (node, key): (usize, &str),
        open: Open,
        (since, time, replaced): (u64, u64, bool),
        owner: impl Fn(&Open, u64) -> i64,
    ) {
        let ran_out = open.held.ends.filter(|ends| *ends <= time + SLACK);
        let to = ran_out.map_or(time, |ends| ends.min(time));
        let owner = owner(&open, since.clamp(open.from, to.max(open.from)));
        self.lives.push(Life {
            node,
            key: sanitize(key, 60),
            value: sanitize(&open.held.value, 60),
            owner,
            after: micros(open.after),
            from: micros(open.from),
            to: micros(to).max(micros(open.from)),
            how: if ran_out.is_some() {
                1
            } else if replaced {
                2
            } else {
                0
            },
            ends: open.ends.into_iter().map(|(time, ends)| (micros(time), micros(ends))).collect(),
        });
    }

    /// What one client put onto several nodes has one value.
    fn same_value_same_owner(&mut self) {
        let mut of_value: HashMap<String, Option<i64>> = HashMap::new();
        for life in self.lives.iter().filter(|life| life.owner >= 0) {
            let owner = of_value.entry(life.value.clone()).or_insert(Some(life.owner));
            if *owner != Some(life.owner) {
                *owner = None;
            }
        }
        for life in self.lives.iter_mut().filter(|life| life.owner < 0) {
            life.owner = of_value.get(&life.value).copied().flatten().unwrap_or(-1);
        }
    }
}
