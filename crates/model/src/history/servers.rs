//! The data on the lock's nodes over time, stored beside a history. They are not part of it, and no verdict depends on them.
//!
//! An observer, which takes no part in the run, looks at each node on its own connection and records the changes since its last
//! look. So each [`Sighting`] has two times: the change had not happened at the first, and had at the second. With simulated
//! nodes, the observer records every change when it happens. Then the two times are equal, unless the node did not run in
//! between.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A change of a node that was seen for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Nanoseconds since the run began, when the observer received this answer: the change had happened.
    pub time: u64,
    /// When the observer asked the previous question: the change had not happened yet.
    pub since: u64,
    pub node: String,
    pub saw: NodeChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeChange {
    /// The observer watches the node from now on. It looks every `every_ms` milliseconds, or sees every change if that is 0.
    /// `wall_us` is the machine's wall clock, in microseconds since 1970; None if no logs must be dated by it.
    Watched {
        every_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wall_us: Option<u64>,
    },
    /// A key got this value or another expiry, or was removed (None).
    Key { key: String, held: Option<Held> },
    /// The node reports that it is a primary (true) or a replica.
    Primary(bool),
    /// Its wall clock is this many microseconds ahead of the machine's; behind it if negative.
    Clock { ahead_us: i64 },
    /// It does not answer, for this reason: its data are not known.
    Unseen { why: String },
    /// It answers again.
    SeenAgain,
    /// No further changes of any node are recorded: there is no more room.
    NoMore,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its value, or the first field of a hash, where libraries store the owner; cut off if it is long.
    pub value: String,
    /// When it expires, as the node reported it then, in nanoseconds since the run began; None if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<u64>,
}

impl Sighting {
    /// The file's name in a run's folder. Each line is one JSON object.
    pub const FILE: &str = "servers.jsonl";

    /// Reads the text of such a file. The error has the line number and the reason.
    pub fn read(text: &str) -> Result<Vec<Sighting>, String> {
        let parsed = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
        };
        text.lines().enumerate().map(parsed).collect()
    }

    /// The same with times since another start: `start` nanoseconds are subtracted from each.
    pub fn since_start(self, start: u64) -> Sighting {
        let placed = |time: u64| time.saturating_sub(start);
        let saw = match self.saw {
            NodeChange::Key { key, held: Some(Held { value, ends }) } => {
                NodeChange::Key { key, held: Some(Held { value, ends: ends.map(placed) }) }
            }
            other => other,
        };
        Sighting { time: placed(self.time), since: placed(self.since), saw, ..self }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    pub keys: BTreeMap<String, Held>,
    /// True if it calls itself a primary; None if not asked.
    pub primary: Option<bool>,
    /// How far its wall clock is ahead, in microseconds; None if not asked.
    pub ahead_us: Option<i64>,
}

/// Turns looks into sightings: records the changes, up to a number far beyond any run of a minute.
#[derive(Debug, Default)]
pub struct Sightings {
    noted: Vec<Sighting>,
    nodes: BTreeMap<String, NodeRecord>,
}

#[derive(Debug, Default)]
struct NodeRecord {
    look: NodeState,
    /// When the observer asked the last question that was answered.
    asked: u64,
    unseen: bool,
    /// True if every change is seen when it happens.
    exact: bool,
}

/// At most this many sightings are kept: about ten megabytes.
const MOST: usize = 60_000;
/// At most this many characters of a value are kept.
const LONGEST_VALUE: usize = 120;

impl Sightings {
    pub fn begin(&mut self, node: &str, now: u64, every_ms: u64, wall_us: Option<u64>) {
        self.nodes.insert(node.to_string(), NodeRecord { asked: now, exact: every_ms == 0, ..NodeRecord::default() });
        self.note(node, now, now, NodeChange::Watched { every_ms, wall_us });
    }

    /// Records an answer. It was requested at the first of the two times and came by the second. Expiries and clocks that differ
    /// by at most `tolerance` nanoseconds count as equal.
    pub fn look(&mut self, node: &str, (asked, now): (u64, u64), look: NodeState, tolerance: u64) {
        let Some(known) = self.nodes.get_mut(node) else { return };
        let mut saw = Vec::new();
        let unseen = std::mem::take(&mut known.unseen);
        if unseen {
            saw.push(NodeChange::SeenAgain);
        }
        for key in known.look.keys.keys().filter(|key| !look.keys.contains_key(*key)) {
            saw.push(NodeChange::Key { key: key.clone(), held: None });
        }
        known.look.keys.retain(|key, _| look.keys.contains_key(key));
        for (key, mut held) in look.keys {
            held.value = cut(held.value);
            if known.look.keys.get(&key).is_none_or(|before| before.differs(&held, tolerance)) {
                saw.push(NodeChange::Key { key: key.clone(), held: Some(held.clone()) });
                known.look.keys.insert(key, held);
            }
        }
        if look.primary.is_some() && look.primary != known.look.primary {
            known.look.primary = look.primary;
            saw.extend(look.primary.map(NodeChange::Primary));
        }
        // A clock that is right is not recorded.
        let before = known.look.ahead_us.unwrap_or(0);
        if let Some(ahead_us) = look.ahead_us.filter(|ahead| ahead.abs_diff(before) > tolerance / 1000) {
            known.look.ahead_us = Some(ahead_us);
            saw.push(NodeChange::Clock { ahead_us });
        }
        let before = std::mem::replace(&mut known.asked, asked);
        let since = if known.exact && !unseen { now } else { before };
        for one in saw {
            self.note(node, since, now, one);
        }
    }

    /// Records that a node does not answer.
    pub fn unseen(&mut self, node: &str, now: u64, why: &str) {
        let Some(known) = self.nodes.get_mut(node) else { return };
        if !std::mem::replace(&mut known.unseen, true) {
            if known.exact {
                known.asked = now;
            }
            let since = known.asked;
            self.note(node, since, now, NodeChange::Unseen { why: cut(why.to_string()) });
        }
    }

    /// All sightings, in the order of time.
    pub fn take(&mut self) -> Vec<Sighting> {
        let mut noted = std::mem::take(&mut self.noted);
        noted.sort_by_key(|sighting| sighting.time);
        noted
    }

    fn note(&mut self, node: &str, since: u64, time: u64, saw: NodeChange) {
        let saw = match self.noted.len() {
            MOST => NodeChange::NoMore,
            more if more > MOST => return,
            _ => saw,
        };
        self.noted.push(Sighting { time, since, node: node.to_string(), saw });
    }
}

impl Held {
    fn differs(&self, other: &Held, tolerance: u64) -> bool {
        self.value != other.value
            || match (self.ends, other.ends) {
                (Some(one), Some(other)) => one.abs_diff(other) > tolerance,
                (one, other) => one != other,
            }
    }
}

/// The key that the lock of this name on a node protects: `k0` of `prefix:{lock:k0}`. `None` for data beside a lock. Their name
/// continues, such as `lock:k0:token`, or says before the lock's name what they are, such as `redisson_lock_token:{lock:k0}`.
pub fn locked_key(name: &str) -> Option<&str> {
    let key = key_behind(name)?;
    let (before, rest) = name.trim_end_matches('}').split_once("lock:k")?;
    // Some libraries repeat after the name that it is a lock: `lock:k0:lock`.
    let rest = [":lock", "_lock", "-lock", ".lock"].iter().find_map(|end| rest.strip_suffix(end)).unwrap_or(rest);
    let mut words = before.split(|c: char| !c.is_ascii_alphanumeric());
    let is_beside = words.any(|word| BESIDE_A_LOCK.iter().any(|other| word.eq_ignore_ascii_case(other)));
    (rest == &key[1..] && !rest.is_empty() && !is_beside).then_some(key)
}

/// The run's key to which a key of this name on a node belongs, as a lock or as data beside one: `k0` of `lock:k0:token`.
pub fn key_behind(name: &str) -> Option<&str> {
    let key = &name[name.find("lock:k")? + "lock:".len()..];
    let end = key[1..].find(|c: char| !c.is_ascii_digit()).map_or(key.len(), |end| end + 1);
    Some(&key[..end])
}

/// Words before the lock's name with which libraries mark data beside a lock.
const BESIDE_A_LOCK: [&str; 10] =
    ["token", "tokens", "fence", "fencing", "counter", "queue", "timeout", "latch", "channel", "signal"];

fn cut(mut value: String) -> String {
    if let Some((end, _)) = value.char_indices().nth(LONGEST_VALUE) {
        value.truncate(end);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_beside_a_lock_is_no_lock() {
        for (lock, key) in [
            ("lock:k0", "k0"),
            ("redlock:lock:k12", "k12"),
            ("{lock:k3}", "k3"),
            ("locks:{lock:k0}", "k0"),
            ("lock:k0:lock", "k0"),
            ("_tooz_lock:k0_lock", "k0"),
        ] {
            assert_eq!((locked_key(lock), key_behind(lock)), (Some(key), Some(key)), "{lock}");
        }
        for other in [
            "lock:k0:token",
            "lock:k0:released",
            "lock:k0:waiters",
            "lock:k0:2",
            "{lock:k0}:token",
            "redisson_unlock_latch:{lock:k0}:2f0a",
            "redisson_lock_token:{lock:k0}",
            "lock-signal:lock:k0",
        ] {
            assert_eq!((locked_key(other), key_behind(other)), (None, Some("k0")), "{other}");
        }
        assert_eq!((locked_key("lock:k"), locked_key("k0")), (None, None));
    }

    fn look(value: Option<(&str, u64)>) -> NodeState {
        let held = |(value, ends): (&str, u64)| Held { value: value.to_string(), ends: Some(ends) };
        NodeState {
            keys: value.map(|value| ("lock:k0".to_string(), held(value))).into_iter().collect(),
            ..NodeState::default()
        }
    }

    #[test]
    fn only_what_has_changed_is_noted_with_when_it_was_otherwise() {
        let mut sightings = Sightings::default();
        sightings.begin("n0", 5, 10, Some(7));
        sightings.look("n0", (8, 10), look(None), 3);
        sightings.look("n0", (18, 20), look(Some(("a", 100))), 3);
        // The same expiry, within the tolerance.
        sightings.look("n0", (28, 30), look(Some(("a", 102))), 3);
        sightings.look("n0", (38, 40), look(Some(("a", 150))), 3);
        sightings.unseen("n0", 60, "no answer");
        sightings.unseen("n0", 70, "no answer");
        sightings.look("n0", (88, 90), look(None), 3);
        // The observer does not watch this node.
        sightings.look("n1", (93, 95), look(Some(("a", 100))), 3);
        let noted: Vec<(u64, u64, NodeChange)> =
            sightings.take().into_iter().map(|one| (one.since, one.time, one.saw)).collect();
        let key = |held: Option<(&str, u64)>| NodeChange::Key {
            key: "lock:k0".to_string(),
            held: held.map(|(value, ends)| Held { value: value.to_string(), ends: Some(ends) }),
        };
        let expected = [
            (5, 5, NodeChange::Watched { every_ms: 10, wall_us: Some(7) }),
            (8, 20, key(Some(("a", 100)))),
            (28, 40, key(Some(("a", 150)))),
            (38, 60, NodeChange::Unseen { why: "no answer".to_string() }),
            (38, 90, NodeChange::SeenAgain),
            (38, 90, key(None)),
        ];
        assert_eq!(noted, expected);
    }

    #[test]
    fn of_a_node_whose_every_change_is_seen_it_is_known_when_it_stopped_and_not_what_became_of_its_keys() {
        let mut sightings = Sightings::default();
        sightings.begin("n0", 0, 0, None);
        sightings.look("n0", (10, 10), look(Some(("a", 100))), 0);
        sightings.unseen("n0", 60, "it does not run");
        sightings.look("n0", (90, 90), look(None), 0);
        sightings.look("n0", (95, 95), look(Some(("b", 200))), 0);
        let times: Vec<(u64, u64)> = sightings.take().into_iter().map(|one| (one.since, one.time)).collect();
        assert_eq!(times, [(0, 0), (10, 10), (60, 60), (60, 90), (60, 90), (95, 95)]);
    }

    #[test]
    fn a_clock_and_a_role_are_noted_when_they_change() {
        let mut sightings = Sightings::default();
        sightings.begin("n0", 0, 10, None);
        let told =
            |primary, ahead_us| NodeState { primary: Some(primary), ahead_us: Some(ahead_us), ..NodeState::default() };
        for (now, look) in [(1, told(true, 1)), (2, told(true, 2)), (3, told(true, 5000)), (4, told(false, 5001))] {
            sightings.look("n0", (now, now), look, 2_000_000);
        }
        let saw: Vec<NodeChange> = sightings.take().into_iter().skip(1).map(|one| one.saw).collect();
        assert_eq!(saw, [NodeChange::Primary(true), NodeChange::Clock { ahead_us: 5000 }, NodeChange::Primary(false)]);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept_and_it_says_so() {
        let mut sightings = Sightings::default();
        sightings.begin("n0", 0, 10, None);
        for now in 0..=MOST as u64 + 10 {
            sightings.look("n0", (now, now), look(Some((&"x".repeat(500), now * 1000))), 0);
        }
        let noted = sightings.take();
        assert_eq!((noted.len(), &noted[MOST].saw), (MOST + 1, &NodeChange::NoMore));
        let NodeChange::Key { held: Some(held), .. } = &noted[1].saw else { panic!("{:?}", noted[1]) };
        assert_eq!(held.value.len(), LONGEST_VALUE);
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_broken_line_is_named() {
        let mut sightings = Sightings::default();
        sightings.begin("n0", 1000, 10, None);
        sightings.look("n0", (2000, 2000), look(Some(("a", 9000))), 0);
        let noted: Vec<Sighting> = sightings.take().into_iter().map(|one| one.since_start(1000)).collect();
        assert_eq!((noted[1].since, noted[1].time), (0, 1000));
        let text: String = noted.iter().map(|one| serde_json::to_string(one).unwrap() + "\n").collect();
        assert!(text.contains(r#""saw":{"key":{"key":"lock:k0","held":{"value":"a","ends":8000}}}"#), "{text}");
        assert_eq!(Sighting::read(&text).unwrap(), noted);
        assert!(Sighting::read(&format!("{text}{{")).is_err_and(|error| error.starts_with("line 3: ")));
    }
}
