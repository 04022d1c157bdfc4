//! Finds the lives of locks on their nodes, and their owners, from sightings.
//!
//! A server does not know the clients by name. So the owner of a key is the client that reported an acquisition when the key
//! appeared. If that fits two clients, the key's end tells when it was set. If that does not decide, the owner is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::lanes::{Lanes, micros};
use base::words::sanitize;
use model::history::{Held, NodeChange, Process, Sighting, locked_key};
use summary::{Story, times};

const MOST: usize = 40_000;
/// The largest difference between the clocks of clients and the observer, including the delay of a reply, in nanoseconds.
pub(super) const SLACK: u64 = 10_000_000;

#[derive(Default, Serialize)]
pub(crate) struct Servers {
    /// How often the nodes were observed, in milliseconds; 0 if every change was recorded.
    pub(super) every: u64,
    #[serde(skip)]
    pub(super) watched: BTreeSet<usize>,
    pub lives: Vec<Life>,
    /// Times in which a node did not answer: its index, from, to.
    pub(super) unseen: Vec<(usize, u64, u64)>,
    /// The times at which a node began to report that it is a primary (true) or a replica: its index, time.
    pub(super) roles: Vec<(usize, u64, bool)>,
    /// The lead of a node's wall clock from a time on: its index, time, microseconds.
    pub(super) clocks: Vec<(usize, u64, i64)>,
    /// The time at which the records end. None if they are complete.
    pub(super) until: Option<u64>,
}

/// The life of one value of one key on one node.
#[derive(Serialize)]
pub(crate) struct Life {
    pub node: usize,
    pub key: String,
    pub value: String,
    /// The index of the client that owns it; -1 if unknown.
    pub owner: i64,
    /// The time at which that client's hold began, in nanoseconds.
    #[serde(skip)]
    pub(super) hold: u64,
    /// It appeared between these two times.
    pub(super) after: u64,
    pub from: u64,
    /// It was still there at the first of these times, and gone at the second.
    #[serde(skip)]
    seen: u64,
    pub to: u64,
    /// How it ended:
    /// - 0: it was removed before its end
    /// - 1: it expired
    /// - 2: another value replaced it
    /// - 3: it was still there at the last observation
    /// - 4: it was gone at the first observation after its end, so it is unknown if it expired or was removed just before
    pub(super) how: u8,
    /// Pairs (from, end): from `from` on, the key would expire at `end`; 0 means never. The first pair is for the key's creation.
    pub(super) ends: Vec<(u64, u64)>,
}

/// A value of this many characters is random or names a client. A shorter one may be the same for all clients.
const DRAWN: usize = 16;

/// The largest distance between a client's request and the set time that follows from a key's end, in microseconds. A server
/// reports whole milliseconds, and its reply takes time.
const NEAR: u64 = 3000;

/// A hold: the start of its operation, its own start, both in nanoseconds, and its process.
type Begun = (u64, u64, Process);

/// The holds of each key, in the order of their beginnings.
pub(super) struct Owners {
    holds: HashMap<String, Vec<Begun>>,
    /// The TTL of the lock, in microseconds.
    ttl: Option<u64>,
}

impl Owners {
    pub fn of(story: &Story) -> Owners {
        let mut holds: HashMap<String, Vec<Begun>> = HashMap::new();
        for operation in story.client_operations() {
            if let Some(hold) = times::hold(operation) {
                let of_key = holds.entry(operation.key.to_string()).or_default();
                of_key.push((operation.invoked, hold.start, operation.process));
            }
        }
        holds.values_mut().for_each(|of_key| of_key.sort_by_key(|(_, start, _)| *start));
        Owners { holds, ttl: story.ttl_ns().map(micros) }
    }

    /// The holds that a value of a key may belong to. The value appeared while the client asked, and was there when the client
    /// had acquired the lock.
    fn of_value(&self, first: &Life, to: u64) -> Vec<Begun> {
        let of_key = locked_key(&first.key).and_then(|key| self.holds.get(key)).map_or(&[][..], Vec::as_slice);
        // First try without clock differences. If no hold fits, permit them.
        let fits = [0, micros(SLACK)].into_iter().map(|slack| {
            let began = of_key.partition_point(|(_, start, _)| micros(*start) + slack < first.after);
            let begun = of_key[began..].iter().take_while(|(_, start, _)| micros(*start) <= to + slack);
            begun.filter(|(invoked, _, _)| micros(*invoked) <= first.from + slack).copied().collect::<Vec<_>>()
        });
        fits.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The holds whose client asked at the time at which a key with such an end was set. Empty if the key never ends.
    fn asked_when_set(&self, found: &[Begun], first: &Life) -> Vec<Begun> {
        let ends = first.ends.first().map_or(0, |(_, ends)| *ends);
        let Some(set) = self.ttl.and_then(|ttl| ends.checked_sub(ttl)) else { return Vec::new() };
        let asked =
            |(invoked, start, _): &Begun| (micros(*invoked)..=micros(*start) + NEAR * 2).contains(&(set + NEAR));
        found.iter().filter(|begun| asked(begun)).copied().collect()
    }
}

/// If all known owners of a value are one client, that client owns every appearance of it. A late copy belongs to no other
/// client.
fn of_one_client(holds: &mut [Option<(i64, u64)>]) {
    let known: Vec<(i64, u64)> = holds.iter().flatten().copied().collect();
    let Some(&first) = known.first() else { return };
    let agree = || known.len() > 1 && known.iter().all(|(owner, _)| *owner == first.0);
    let is_certain = holds[0].is_some() || agree();
    for hold in holds {
        match hold {
            _ if !is_certain => *hold = None,
            Some((owner, _)) if *owner == first.0 => {}
            _ => *hold = Some(first),
        }
    }
}

/// A life that has not ended yet.
struct OpenLife {
    held: Held,
    after: u64,
    from: u64,
    ends: Vec<(u64, u64)>,
}

impl Servers {
    /// The data to draw from these sightings.
    pub(super) fn new(sightings: &[Sighting], owners: &Owners, lanes: &Lanes, run_ended: u64) -> Servers {
        let places: HashMap<&str, usize> =
            lanes.nodes.iter().enumerate().map(|(place, name)| (&name[..], place)).collect();
        let mut servers = Servers::default();
        let mut open: BTreeMap<(usize, &str), OpenLife> = BTreeMap::new();
        let mut unseen: BTreeMap<usize, u64> = BTreeMap::new();
        // A key that did not change was there until the end of the run.
        let noted = sightings.last().map_or(0, |sighting| sighting.time);
        let is_cut = sightings.iter().any(|sighting| sighting.saw == NodeChange::NoMore);
        let last = if is_cut { noted } else { noted.max(run_ended) };
        for Sighting { time, since, node, saw } in sightings {
            let Some(&place) = places.get(&node[..]) else { continue };
            match saw {
                NodeChange::Watched { every_ms, .. } => {
                    servers.every = *every_ms;
                    servers.watched.insert(place);
                }
                NodeChange::Unseen { .. } => _ = unseen.insert(place, *since),
                NodeChange::SeenAgain => {
                    servers.unseen.extend(unseen.remove(&place).map(|from| (place, micros(from), micros(*time))));
                }
                NodeChange::Primary(primary) => servers.roles.push((place, micros(*time), *primary)),
                NodeChange::Clock { ahead_us } => servers.clocks.push((place, micros(*time), *ahead_us)),
                NodeChange::NoMore => servers.until = Some(micros(*time)),
                NodeChange::Key { key, held } => {
                    let before = open.remove(&(place, key));
                    let same = |before: &OpenLife| held.as_ref().is_some_and(|held| held.value == before.held.value);
                    let open_now = match (before, held) {
                        (Some(mut before), Some(held)) if same(&before) => {
                            before.ends.push((*time, held.ends.unwrap_or(0)));
                            before.held = held.clone();
                            Some(before)
                        }
                        (before, held) => {
                            if let Some(before) = before {
                                servers.end((place, key), before, (*since, *time), u8::from(held.is_some()) * 2);
                            }
                            held.as_ref().map(|held| OpenLife {
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
            servers.end((place, key), left, (last, last), 3);
        }
        servers.unseen.extend(unseen.into_iter().map(|(place, from)| (place, micros(from), micros(last))));
        servers.lives.sort_by_key(|life| life.from);
        if let Some(first) = servers.lives.get(MOST) {
            servers.until = servers.until.min(Some(first.from)).or(Some(first.from));
            servers.lives.truncate(MOST);
        }
        servers.name_owners(owners, lanes);
        servers.one_value_a_hold();
        servers.lives.sort_by_key(|life| (life.node, life.from));
        servers
    }

    /// Ends a life. The key was there at the first of these times, and gone at the second.
    fn end(&mut self, (node, key): (usize, &str), open: OpenLife, (since, time): (u64, u64), how: u8) {
        let over = open.held.ends.filter(|ends| *ends <= time && how != 3);
        let how = match over {
            // The key was not removed before its end: every change is recorded.
            Some(_) if self.every == 0 && since == time => 1,
            Some(_) => 4,
            None => how,
        };
        self.lives.push(Life {
            node,
            key: sanitize(key, 60),
            value: sanitize(&open.held.value, 60),
            owner: -1,
            hold: 0,
            after: micros(open.after),
            from: micros(open.from),
            seen: micros(since.max(open.from)),
            to: micros(over.filter(|_| how == 1).unwrap_or(time).max(open.from)),
            how,
            ends: open.ends.into_iter().map(|(time, ends)| (micros(time), micros(ends))).collect(),
        });
    }

    /// Finds the owner of each value. If it was on several nodes at once, the first appearance decides: a copy may come late.
    fn name_owners(&mut self, owners: &Owners, lanes: &Lanes) {
        let mut of_value: BTreeMap<(&str, &str), Vec<Vec<usize>>> = BTreeMap::new();
        let mut until: HashMap<(&str, &str), u64> = HashMap::new();
        for (number, life) in self.lives.iter().enumerate() {
            let value = (&life.key[..], &life.value[..]);
            let until = until.entry(value).or_default();
            let times = of_value.entry(value).or_default();
            match times.last_mut().filter(|_| life.after <= *until) {
                Some(together) => together.push(number),
                None => times.push(vec![number]),
            }
            *until = life.to.max(*until);
        }
        let may_be = |together: &Vec<usize>| {
            let first = &self.lives[together[0]];
            // After half of the nodes had lost the value, its client cannot have acquired the lock with it.
            let mut seen: Vec<u64> = together.iter().map(|number| self.lives[*number].seen).collect();
            seen.sort_unstable();
            let found = owners.of_value(first, seen[seen.len() / 2]);
            let by_end = owners.asked_when_set(&found, first);
            (found, by_end)
        };
        // The end of a lock does not tell when it was set if the lock has another TTL, or was extended before it was observed.
        // Then no client asked at that time for some key, and the ends are not used.
        let known: Vec<Vec<(Vec<Begun>, Vec<Begun>)>> =
            of_value.values().map(|times| times.iter().map(may_be).collect()).collect();
        let ends_tell = known.iter().flatten().all(|(found, by_end)| found.is_empty() || !by_end.is_empty());
        let whose = |(found, by_end): &(Vec<Begun>, Vec<Begun>)| {
            let one =
                [Some(found), Some(by_end).filter(|_| ends_tell)].into_iter().flatten().find(|of| of.len() == 1)?;
            Some((i64::from(lanes.place(one[0].2)), one[0].1))
        };
        let mut found: Vec<(usize, i64, u64)> = Vec::new();
        for (((_, value), times), known) in of_value.iter().zip(&known) {
            let mut holds: Vec<Option<(i64, u64)>> = known.iter().map(whose).collect();
            if value.len() >= DRAWN {
                of_one_client(&mut holds);
            }
            for (together, hold) in times.iter().zip(holds) {
                found.extend(hold.iter().flat_map(|(owner, hold)| together.iter().map(|life| (*life, *owner, *hold))));
            }
        }
        for (number, owner, hold) in found {
            (self.lives[number].owner, self.lives[number].hold) = (owner, hold);
        }
    }

    /// A holder set one value on its nodes. Other clients' values may fit by their times as well, although they did not acquire
    /// the lock. So the value on most nodes is the holder's, and the others have no known owner.
    fn one_value_a_hold(&mut self) {
        let mut nodes: HashMap<(i64, u64, &str), HashMap<&str, BTreeSet<usize>>> = HashMap::new();
        for life in self.lives.iter().filter(|life| life.owner >= 0) {
            let values = nodes.entry((life.owner, life.hold, &life.key)).or_default();
            values.entry(&life.value).or_default().insert(life.node);
        }
        let best = |values: &HashMap<&str, BTreeSet<usize>>| {
            let most = values.values().map(BTreeSet::len).max()?;
            let mut with_most = values.iter().filter(|(_, nodes)| nodes.len() == most);
            let (value, _) = with_most.next()?;
            with_most.next().is_none().then(|| value.to_string())
        };
        let best: HashMap<(i64, u64, String), Option<String>> =
            nodes.iter().map(|((owner, hold, key), values)| ((*owner, *hold, key.to_string()), best(values))).collect();
        for life in self.lives.iter_mut().filter(|life| life.owner >= 0) {
            if best.get(&(life.owner, life.hold, life.key.clone())).cloned().flatten().as_ref() != Some(&life.value) {
                (life.owner, life.hold) = (-1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::history::{NodeState, Sightings};

    const MS: u64 = 1_000_000;

    /// Nodes that are observed every 20 ms. `values` has each node's value and the times of its life.
    fn seen(values: &[(&str, &str, u64, u64)]) -> Vec<Sighting> {
        let mut sightings = Sightings::default();
        for node in ["n0", "n1", "n2"] {
            sightings.begin(node, 0, 20, None);
            for now in (20..400).step_by(20) {
                let mut here = values.iter().filter(|(at, _, from, to)| *at == node && (*from..*to).contains(&now));
                let held = here.next().map(|(_, value, from, _)| {
                    let held = Held { value: value.to_string(), ends: Some((from + 1000) * MS) };
                    ("lock:k0".to_string(), held)
                });
                sightings.look(
                    node,
                    (now * MS, now * MS),
                    NodeState { keys: held.into_iter().collect(), ..NodeState::default() },
                    MS,
                );
            }
        }
        sightings.take()
    }

    #[test]
    fn each_value_is_of_one_hold_and_what_did_not_get_the_lock_is_nobodys() {
        // c0 holds the lock twice in a row, then c1. n2 first had the value of another client, which tried in vain meanwhile.
        let holds = [(95, 101, 0), (155, 161, 0), (215, 221, 1)];
        let holds = holds.map(|(asked, got, client)| (asked * MS, got * MS, Process::Client(client)));
        let owners = Owners { holds: HashMap::from([("k0".to_string(), holds.to_vec())]), ttl: Some(1_000_000) };
        let all = |value, from, to| ["n0", "n1"].map(|node| (node, value, from, to));
        let values = [
            &all("a", 98, 150)[..],
            &all("b", 158, 210),
            &all("c", 218, 290),
            &[("n2", "a", 98, 150), ("n2", "x", 217, 222), ("n2", "c", 228, 290)],
        ]
        .concat();
        let servers = Servers::new(&seen(&values), &owners, &Lanes::for_test(2, 3), 0);
        let whose: Vec<(usize, &str, i64, u64)> =
            servers.lives.iter().map(|life| (life.node, &life.value[..], life.owner, life.hold / MS)).collect();
        let of = |node| [(node, "a", 0, 101), (node, "b", 0, 161), (node, "c", 1, 221)];
        assert_eq!(whose[..6], [of(0), of(1)].concat());
        assert_eq!(whose[6..], [(2, "a", 0, 101), (2, "x", -1, 0), (2, "c", 1, 221)]);
        assert_eq!(servers.watched, BTreeSet::from([0, 1, 2]));
    }

    /// The lives in these sightings: node, value, owner, and how and when each ended.
    fn lives(mut sightings: Sightings, holds: &[(u64, u64, u32)]) -> Vec<(usize, String, i64, u8, u64)> {
        let holds = holds.iter().map(|(asked, got, client)| (asked * MS, got * MS, Process::Client(*client)));
        let owners = Owners { holds: HashMap::from([("k0".to_string(), holds.collect())]), ttl: Some(1_000_000) };
        let servers = Servers::new(&sightings.take(), &owners, &Lanes::for_test(2, 3), 0);
        servers.lives.into_iter().map(|life| (life.node, life.value, life.owner, life.how, life.to / 1000)).collect()
    }

    fn look(value: Option<(&str, u64)>) -> NodeState {
        let held = |(value, ends): (&str, u64)| Held { value: value.to_string(), ends: Some(ends * MS) };
        NodeState {
            keys: value.map(|value| ("lock:k0".to_string(), held(value))).into_iter().collect(),
            ..NodeState::default()
        }
    }

    #[test]
    fn of_two_who_may_have_put_it_there_its_end_tells_the_one_unless_ends_do_not_tell() {
        // c1 released the lock right before c0 acquired it, between two observations.
        let owners = |kept_for: u64| {
            let mut sightings = Sightings::default();
            sightings.begin("n0", 0, 20, None);
            for (now, value) in [(140, None), (160, Some(("a", 158 + kept_for))), (420, None)] {
                sightings.look("n0", (now * MS, now * MS), look(value), 0);
            }
            lives(sightings, &[(145, 146, 1), (157, 158, 0)]).into_iter().map(|life| life.2).collect::<Vec<_>>()
        };
        assert_eq!(owners(1000), [0]);
        assert_eq!((owners(988), owners(1100), owners(500)), (vec![1], vec![-1], vec![-1]));
    }

    #[test]
    fn a_copy_that_comes_late_makes_a_value_nobody_elses() {
        let mut two_primaries = Sightings::default();
        ["n0", "n1", "n2"].iter().for_each(|node| two_primaries.begin(node, 0, 0, None));
        // n2 is a replica of n1.
        for (node, value, from) in [("n1", "a", 98), ("n0", "b", 99), ("n2", "a", 100)] {
            two_primaries.look(node, (from * MS, from * MS), look(Some((value, 1000))), 0);
        }
        for (node, to) in [("n0", 150), ("n1", 151), ("n2", 153)] {
            two_primaries.look(node, (to * MS, to * MS), look(None), 0);
        }
        // Each value may belong to either client. When the copy appeared, only c1 had not acquired its lock yet, but the copy
        // is not c1's for that reason.
        let owners: Vec<i64> =
            lives(two_primaries, &[(95, 99, 0), (90, 101, 1)]).into_iter().map(|life| life.2).collect();
        assert_eq!(owners, [-1, -1, -1]);
        let mut alone = Sightings::default();
        ["n1", "n2"].iter().for_each(|node| alone.begin(node, 0, 0, None));
        for (node, from) in [("n1", 98), ("n2", 100)] {
            alone.look(node, (from * MS, from * MS), look(Some(("a", 1000))), 0);
        }
        let owners: Vec<i64> = lives(alone, &[(95, 99, 0), (99, 101, 1)]).into_iter().map(|life| life.2).collect();
        assert_eq!(owners, [0, 0], "also the copy");
    }

    #[test]
    fn that_a_value_ran_out_is_said_only_where_nobody_can_have_removed_it() {
        let gone = |every, last, now| {
            let mut sightings = Sightings::default();
            sightings.begin("n0", 0, every, None);
            sightings.look("n0", (90 * MS, 100 * MS), look(Some(("a", 200))), 0);
            if last > 100 {
                sightings.look("n0", (last * MS, last * MS), look(Some(("a", 200))), 0);
            } else {
                sightings.unseen("n0", 110 * MS, "it does not run");
            }
            sightings.look("n0", (now * MS, now * MS), look(None), 0);
            let (_, _, _, how, to) = lives(sightings, &[]).remove(0);
            (how, to)
        };
        // Every change was recorded: it lived to its end, or was removed before.
        assert_eq!((gone(0, 101, 203), gone(0, 101, 199)), ((1, 200), (0, 199)));
        // With periodic observations, it may have been removed before its end. The same holds for a node that did not run.
        assert_eq!((gone(20, 190, 210), gone(20, 100, 300), gone(0, 100, 300)), ((4, 210), (4, 300), (4, 300)));
        assert_eq!(gone(20, 170, 190), (0, 190));
    }

    #[test]
    fn what_comes_again_late_is_no_other_clients() {
        let owners = |value: &str| {
            let mut sightings = Sightings::default();
            ["n0", "n1"].iter().for_each(|node| sightings.begin(node, 0, 0, None));
            for (node, from, to) in [("n0", 98, 120), ("n1", 300, 320)] {
                sightings.look(node, (from * MS, from * MS), look(Some((value, 1000))), 0);
                sightings.look(node, (to * MS, to * MS), look(None), 0);
            }
            lives(sightings, &[(95, 99, 0), (290, 305, 1)]).into_iter().map(|life| life.2).collect::<Vec<_>>()
        };
        assert_eq!(owners("52a795ff54ad40db"), [0, 0]);
        // A value that all clients write tells nothing.
        assert_eq!(owners("1"), [0, 1]);
    }

    #[test]
    fn what_was_there_at_last_was_there_to_the_end_of_the_run_unless_nothing_was_noted_any_more() {
        let to = |cut: bool| {
            let mut sightings = Sightings::default();
            sightings.begin("n0", 0, 20, None);
            sightings.look("n0", (90 * MS, 100 * MS), look(Some(("a", 0))), 0);
            let mut noted = sightings.take();
            noted.iter_mut().for_each(|one| {
                if let NodeChange::Key { held: Some(held), .. } = &mut one.saw {
                    held.ends = None;
                }
            });
            let no_more = Sighting { time: 150 * MS, since: 150 * MS, node: "n0".to_string(), saw: NodeChange::NoMore };
            noted.extend(cut.then_some(no_more));
            let servers =
                Servers::new(&noted, &Owners { holds: HashMap::new(), ttl: None }, &Lanes::for_test(2, 3), 900 * MS);
            (servers.lives[0].how, servers.lives[0].to / 1000)
        };
        assert_eq!((to(false), to(true)), ((3, 900), (3, 150)));
    }
}
