//! The checks: what may lose a lock, what keeps clients from one, and what could not be observed. Each check declares what it
//! reads and what to change. It decides from the observations alone.

mod disk;
mod failover;
mod memory;
mod reach;
mod way;

pub(crate) use reach::UNREACHED;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observations::{Group, Mode, Observations, Role, Seen, Server};
use base::words::{capital, list};

/// The declaration of a check.
pub struct Check {
    /// The name, such as `no-persistence`. It is in the JSON, so it must never change.
    pub id: &'static str,
    /// The failure in a few words.
    pub title: &'static str,
    /// The observations that it reads.
    pub reads: &'static str,
    /// The remedy, as sentences.
    pub remedy: &'static str,
    pub(crate) check: fn(&Case) -> Vec<(Weight, String)>,
}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The check's `id`.
    pub check: String,
    pub title: String,
    pub weight: Weight,
    /// The fact and its consequence, with addresses and numbers.
    pub sentence: String,
    pub remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// A lock can be lost: two clients hold it at once.
    Loses,
    /// Clients cannot acquire, renew or release a lock.
    Blocks,
    /// It matters for locks and could not be observed.
    Unseen,
    /// A remark.
    Note,
}

/// All checks. Findings of the same weight have this order.
pub static CHECKS: &[&Check] = &[
    &way::DIFFERENT_SERVERS,
    &way::SAME_SERVER,
    &disk::NO_PERSISTENCE,
    &disk::LATE_SYNC,
    &failover::ASYNCHRONOUS,
    &failover::NO_MIN_REPLICAS,
    &failover::REPLICA_BEHIND,
    &failover::CLOCKS_APART,
    &memory::EVICTION,
    &memory::FULL,
    &reach::UNREACHED,
    &reach::ANNOUNCED,
    &reach::LEAST_COMMANDS,
    &reach::UNTRIED,
    &reach::UNSEEN,
    &failover::NO_REPLICA,
    &failover::FEW_SENTINELS,
    &failover::PRIMARY_DOWN,
    &failover::CLUSTER_DOWN,
    &failover::OUTAGE,
    &failover::NO_ACKNOWLEDGEMENT,
    &way::REFUSED,
    &way::TRANSLATED,
    &way::WATCHED,
    &reach::TOO_MANY,
];

/// All findings, by weight. `ttl` is the lock's TTL, if the user gave it.
pub fn findings(observations: &Observations, ttl: Option<Duration>) -> Vec<Finding> {
    let case = Case { observations, ttl };
    let each = CHECKS.iter().flat_map(|check| {
        (check.check)(&case).into_iter().map(|(weight, sentence)| Finding {
            check: check.id.to_string(),
            title: check.title.to_string(),
            weight,
            sentence,
            remedy: check.remedy.to_string(),
        })
    });
    let mut found: Vec<Finding> = each.collect();
    found.sort_by_key(|finding| finding.weight);
    found
}

/// The relation between the servers, as far as it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// No server answered.
    Nothing,
    /// One server.
    Single,
    /// Servers that do not know each other.
    Independent(usize),
    /// A primary with replicas. No Sentinel was found.
    Replicated,
    Sentinel,
    Cluster,
}

/// The observations, with queries for the checks.
pub(crate) struct Case<'a> {
    pub observations: &'a Observations,
    pub ttl: Option<Duration>,
}

impl<'a> Case<'a> {
    pub fn servers(&self) -> impl Iterator<Item = &'a Server> + use<'a> {
        self.observations.servers.iter()
    }

    /// The servers that answered and hold data.
    pub fn data(&self) -> impl Iterator<Item = &'a Server> + use<'a> {
        self.servers().filter(|server| server.unreached.is_none() && server.role != Role::Sentinel)
    }

    /// The servers that may grant a lock: primaries, and servers that do not report their role.
    pub fn granting(&self) -> impl Iterator<Item = &'a Server> + use<'a> {
        self.data().filter(|server| server.role != Role::Replica)
    }

    pub fn groups(&self) -> Vec<&'a Group> {
        let mut found: Vec<&Group> = Vec::new();
        for group in self.servers().filter_map(|server| server.groups.known()).flatten() {
            if !found.iter().any(|other| other.name == group.name) {
                found.push(group);
            }
        }
        found
    }

    pub fn shape(&self) -> Shape {
        let granting: Vec<&Server> = self.granting().collect();
        if self.data().any(|server| server.mode == Mode::Cluster) {
            return Shape::Cluster;
        }
        if !self.groups().is_empty() {
            return Shape::Sentinel;
        }
        if self.data().any(|server| server.role == Role::Replica || has_replicas(server)) {
            return Shape::Replicated;
        }
        match granting.len() {
            0 => Shape::Nothing,
            1 => Shape::Single,
            number => Shape::Independent(number),
        }
    }

    /// True if another server can take a primary's place.
    pub fn can_fail_over(&self) -> bool {
        matches!(self.shape(), Shape::Replicated | Shape::Sentinel | Shape::Cluster)
            && (self.data().any(|server| server.role == Role::Replica || has_replicas(server))
                || self.groups().iter().any(|group| group.number_of_replicas.is_some_and(|number| number > 0))
                || self
                    .servers()
                    .filter_map(|server| server.cluster.known())
                    .any(|view| view.shards.iter().any(|shard| shard.addresses.len() > 1)))
    }

    /// One finding for all servers with the same result.
    pub fn alike<K: PartialEq>(
        &self,
        servers: impl Iterator<Item = &'a Server>,
        of: impl Fn(&Server) -> Option<K>,
        say: impl Fn(&Servers, &K) -> (Weight, String),
    ) -> Vec<(Weight, String)> {
        let mut groups: Vec<(K, Servers)> = Vec::new();
        for server in servers {
            let Some(key) = of(server) else { continue };
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.0.push(server.address.clone()),
                None => groups.push((key, Servers(vec![server.address.clone()]))),
            }
        }
        let said = groups.iter().map(|(key, servers)| say(servers, key));
        said.map(|(weight, text)| (weight, capital(&text))).collect()
    }
}

pub(crate) fn has_replicas(server: &Server) -> bool {
    server.replicas.known().is_some_and(|replicas| !replicas.is_empty())
}

/// The addresses of servers, for sentences.
pub(crate) struct Servers(Vec<String>);

impl Servers {
    /// `a`, `a or b`, `any of 3 servers`
    pub fn any(&self) -> String {
        match &self.0[..] {
            [one] => one.clone(),
            [one, other] => format!("{one} or {other}"),
            more => format!("any of {} servers", more.len()),
        }
    }

    /// `a`, `a and b`, `3 servers`
    pub fn all(&self) -> String {
        match self.0.len() {
            1 | 2 => list(&self.0),
            number => format!("{number} servers"),
        }
    }
}

/// True if the value could not be observed.
pub(crate) fn is_unseen<T>(seen: &Seen<T>) -> bool {
    !seen.is_known()
}

/// `30s`, `2.5s`, `250ms`
pub(crate) fn span(ms: u64) -> String {
    base::words::length(ms.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::safe;
