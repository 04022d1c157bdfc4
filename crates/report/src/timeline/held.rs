//! The keys that the lock's nodes held during an incident, in words. The nodes reported them; they are not part of the history.

use super::data;
use super::lanes::{Lanes, micros};
use super::servers::{Life, SLACK, Servers};
use crate::Report;
use base::words::{length, list, moment, plural};
use model::history::{Process, locked_key};
use summary::times::{self, Hold};
use summary::{Incident, principals};

/// At most this many nodes are described. The time axis has all of them.
const MOST_NODES: usize = 7;

/// A key without a certain owner that lived for less than this, in microseconds, is only counted.
const BRIEF: u64 = 50_000;

/// The keys of a node, or of several nodes with the same keys.
pub(crate) struct OfNodes {
    /// `n0, n1 and n2`.
    pub nodes: String,
    /// The text. Parts in backticks are from a server.
    pub text: String,
}

/// The recorded keys of a run's nodes, for its incidents.
pub(crate) struct HeldKeys<'a> {
    report: &'a Report<'a>,
    lanes: Lanes,
    servers: Servers,
}

impl<'a> HeldKeys<'a> {
    /// None if the nodes' keys were not recorded, or if there is no incident.
    pub fn of(report: &'a Report) -> Option<HeldKeys<'a>> {
        if report.story.incidents.is_empty() {
            return None;
        }
        let lanes = Lanes::of(report);
        let servers = super::servers(report, &lanes)?;
        Some(HeldKeys { report, lanes, servers })
    }

    pub fn how(&self) -> String {
        let whose =
            "redjepsen infers the client of a value from the time at which the value appeared, and from its expiry.";
        match self.servers.every {
            0 => format!("Each change was recorded as it happened. {whose}"),
            every => format!(
                "redjepsen asked the nodes every {every} ms over a separate connection, so each change came shortly before it \
                 was seen. {whose}"
            ),
        }
    }

    /// For each observed node, its keys of the incident's lock since the first of the incident's clients held it.
    pub fn during(&self, incident: &Incident) -> Vec<OfNodes> {
        let last = self.report.story.subject.history.last_time;
        let principals: Vec<(Process, Hold)> = principals(incident)
            .into_iter()
            .filter_map(|operation| Some((operation.process, times::hold(operation)?)))
            .collect();
        let from = principals.iter().map(|(_, hold)| hold.start).min().unwrap_or(incident.time);
        let span = (micros(from), micros(data::span(incident, last).1));
        let watched = (0..self.lanes.nodes.len()).filter(|place| self.servers.watched.contains(place));
        let mut told: Vec<(Vec<String>, Vec<&Life>, Vec<String>)> = Vec::new();
        for place in watched.take(MOST_NODES) {
            let of_key = |life: &&Life| {
                life.node == place
                    && locked_key(&life.key) == Some(incident.key)
                    && life.to > span.0
                    && life.from <= span.1
            };
            let lives: Vec<&Life> = self.servers.lives.iter().filter(of_key).collect();
            let circumstances = self.circumstances(place, span);
            let node = self.lanes.nodes[place].clone();
            match told.iter_mut().find(|(_, others, beside)| *beside == circumstances && self.are_alike(&lives, others))
            {
                Some((nodes, _, _)) => nodes.push(node),
                None => told.push((vec![node], lives, circumstances)),
            }
        }
        let noted = self.servers.until.filter(|until| *until <= span.1);
        let of_nodes = |(nodes, lives, circumstances): (Vec<String>, Vec<&Life>, Vec<String>)| {
            let mut parts = self.lives(lives.into_iter(), &principals);
            if parts.is_empty() {
                parts.push("no node reported a key of this lock".to_string());
            }
            parts.extend(circumstances);
            parts.extend(
                noted.map(|until| format!("the nodes' keys were not recorded from {} on", moment(until * 1000))),
            );
            OfNodes { nodes: list(&nodes), text: parts.join("; ") + "." }
        };
        told.into_iter().map(of_nodes).collect()
    }

    /// True if two nodes held the same keys, within the precision of the observations.
    fn are_alike(&self, lives: &[&Life], others: &[&Life]) -> bool {
        let near = |one: u64, other: u64| one.abs_diff(other) <= (self.servers.every * 1000).max(micros(SLACK) / 2);
        let alike = |(one, other): (&&Life, &&Life)| {
            (&one.value, one.owner, one.how) == (&other.value, other.owner, other.how)
                && near(one.from, other.from)
                && near(one.to, other.to)
        };
        lives.len() == others.len() && lives.iter().zip(others).all(alike)
    }

    /// The lives of the described clients' keys. Other lives in between are counted.
    fn lives<'l>(&self, lives: impl Iterator<Item = &'l Life>, principals: &[(Process, Hold)]) -> Vec<String> {
        let (mut parts, mut others) = (Vec::new(), 0);
        for life in lives {
            let hold = principals
                .iter()
                .find(|(process, hold)| i64::from(self.lanes.place(*process)) == life.owner && hold.start == life.hold);
            // Most keys without a known owner were set in an attempt that failed.
            if hold.is_none() && (life.owner >= 0 || life.to - life.from < BRIEF) {
                others += 1;
                continue;
            }
            if others > 0 && !parts.is_empty() {
                parts.push(format!("{others} more"));
            }
            others = 0;
            parts.push(self.life(life, hold.map(|(_, hold)| hold)));
        }
        if others > 0 && parts.is_empty() {
            parts.push(format!("{} {} left out here", plural(others, "value"), if others == 1 { "is" } else { "are" }));
        }
        parts
    }

    /// `c0's key from 0.301 s, gone before 0.318 s, 983 ms before its end`
    fn life(&self, life: &Life, hold: Option<&Hold>) -> String {
        let whose = match self.owner(life) {
            Some(owner) => format!("{owner}'s key"),
            None => format!("a key with the value `{}`, of an unknown client,", life.value),
        };
        let (at, to) = (moment(life.from * 1000), moment(life.to * 1000));
        // It may have come at any time between two observations.
        let came = if life.from - life.after > BRIEF.max(3000 * self.servers.every) { "seen from" } else { "from" };
        // True if the key disappeared before its client had a reason to release it. Unknown if the client never reported again.
        let is_early = hold.is_some_and(|hold| hold.ended && life.to + micros(SLACK) < micros(hold.end));
        let ends = life.ends.last().map_or(0, |(_, ends)| *ends);
        let lacked = ends.saturating_sub(life.to);
        let early = if is_early && lacked > micros(SLACK) {
            format!(", {} before its expiry", length(lacked * 1000))
        } else {
            String::new()
        };
        let gone = if self.servers.every == 0 { "at" } else { "before" };
        match life.how {
            1 => format!("{whose} {came} {at} until it expired at {to}"),
            2 => format!("{whose} {came} {at}, replaced {gone} {to}{early}"),
            3 => format!("{whose} {came} {at}, still there at the last observation"),
            4 => format!("{whose} {came} {at}, gone {gone} {to}, after its expiry at {}", moment(ends * 1000)),
            _ => format!("{whose} {came} {at}, gone {gone} {to}{early}"),
        }
    }

    fn owner(&self, life: &Life) -> Option<&str> {
        let place = usize::try_from(life.owner).ok()?;
        self.lanes.clients.get(place).map(String::as_str)
    }

    /// Further facts about a node: times in which it was not observed, its role, and the error of its clock.
    fn circumstances(&self, place: usize, (from, to): (u64, u64)) -> Vec<String> {
        let mut parts = Vec::new();
        let at = |time: u64| moment(time * 1000);
        for (_, since, until) in
            self.servers.unseen.iter().filter(|(node, since, until)| *node == place && *until >= from && *since <= to)
        {
            parts.push(format!("the node was not observed from {} to {}", at(*since), at(*until)));
        }
        for (_, time, primary) in
            self.servers.roles.iter().filter(|(node, time, _)| *node == place && *time <= to && *time > from)
        {
            parts.push(format!(
                "at {} the node reported that it was a {}",
                at(*time),
                if *primary { "primary" } else { "replica" }
            ));
        }
        for (_, time, ahead) in
            self.servers.clocks.iter().filter(|(node, time, _)| *node == place && *time <= to && *time > from)
        {
            let by = length(ahead.unsigned_abs() * 1000);
            parts.push(match ahead {
                0 => format!("at {} the node's clock was right", at(*time)),
                1.. => format!("at {} the node's clock was {by} fast", at(*time)),
                _ => format!("at {} the node's clock was {by} slow", at(*time)),
            });
        }
        parts
    }
}
