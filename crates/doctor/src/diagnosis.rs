//! The result of doctor as one value: for text, page and JSON.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checks::{Case, Finding, Shape, Weight, findings};
use crate::fitness::{Fitness, fitness};
use crate::observations::{Observations, Server};
use base::units::millis;
use base::words::{count, plural};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub verdict: Verdict,
    /// The result in a sentence.
    pub headline: String,
    pub shape: Shape,
    /// The TTL that the user gave.
    pub ttl_ms: Option<u64>,
    pub findings: Vec<Finding>,
    /// Kinds of lock and libraries.
    pub locks: Vec<Fitness>,
    /// The ACL rules that would allow the questions that this user may not ask.
    pub missing_rules: BTreeSet<String>,
    pub observations: Observations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing was found that could lose a lock.
    NothingFound,
    LosesLocks,
    /// Nothing was found, but some important fact could not be observed.
    CouldNotTell,
    /// None of the named servers answered.
    NotReached,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::NothingFound => "NOTHING FOUND",
            Verdict::LosesLocks => "LOSES LOCKS",
            Verdict::CouldNotTell => "COULD NOT TELL",
            Verdict::NotReached => "NOT REACHED",
        }
    }
}

/// Judges the observations. `ttl` is the lock's TTL, if the user gave it.
pub fn diagnose(observations: Observations, ttl: Option<Duration>) -> Diagnosis {
    let findings = findings(&observations, ttl);
    let locks = fitness(&observations, &findings);
    let case = Case { observations: &observations, ttl };
    let shape = case.shape();
    let has = |weight: Weight| findings.iter().any(|finding| finding.weight == weight);
    let unreached = |server: &Server| server.unreached.is_some();
    let verdict = if observations.servers.iter().all(unreached) {
        Verdict::NotReached
    } else if has(Weight::Loses) {
        Verdict::LosesLocks
    } else if has(Weight::Unseen) || observations.servers.iter().any(unreached) || shape == Shape::Nothing {
        Verdict::CouldNotTell
    } else {
        Verdict::NothingFound
    };
    let missing_rules = observations.servers.iter().flat_map(|server| server.missing_rules.iter().cloned()).collect();
    let headline = headline(verdict, &observations, shape, &findings);
    let ttl_ms = ttl.map(millis);
    Diagnosis { verdict, headline, shape, ttl_ms, findings, locks, missing_rules, observations }
}

/// The servers in a few words: `Redis 7.0.15, one server`.
fn called(observations: &Observations, shape: Shape) -> String {
    let reached = observations.servers.iter().filter(|server| server.unreached.is_none());
    let mut kinds: Vec<String> = Vec::new();
    for server in reached {
        let version = server.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
        let name = base::words::capital(&format!("{}{version}", server.kind.name()));
        if !kinds.contains(&name) {
            kinds.push(name);
        }
    }
    let shape = match shape {
        Shape::Nothing => "no server that grants locks".to_string(),
        Shape::Single => "one server".to_string(),
        Shape::Independent(number) => format!("{} independent servers", count(number as u64)),
        Shape::Replicated => "a primary with replicas".to_string(),
        Shape::Sentinel => "a Sentinel group".to_string(),
        Shape::Cluster => "a Redis Cluster".to_string(),
    };
    format!("{}, {shape}", base::words::list(&kinds))
}

fn headline(verdict: Verdict, observations: &Observations, shape: Shape, findings: &[Finding]) -> String {
    let called = called(observations, shape);
    let number = |weight: Weight| {
        let checks: BTreeSet<&str> =
            findings.iter().filter(|finding| finding.weight == weight).map(|finding| finding.check.as_str()).collect();
        checks.len() as u64
    };
    match verdict {
        Verdict::NotReached => "None of these servers could be reached.".to_string(),
        Verdict::LosesLocks => format!("{called}: {} can lose a lock.", plural(number(Weight::Loses), "cause")),
        Verdict::CouldNotTell => {
            format!("{called}: no cause of lost locks was found, but some settings could not be read.")
        }
        Verdict::NothingFound => format!("{called}: no setting was found that loses a lock."),
    }
}
