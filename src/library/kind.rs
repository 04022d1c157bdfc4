//! A lock of ours that is of the same kind as a library's: what breaks it too is the fate of the kind, not a defect.

use std::fmt;

use serde::Serialize;

use super::sent::When;
use crate::checker::Validity;
use crate::scenario::{Options, Scenario};
use crate::topology::Topology;

/// What kind of lock it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// The workload to compare with; None if there is none of the kind.
    pub reference: Option<String>,
    /// In words: `a lock with a TTL on one node`.
    pub what: String,
}

/// How a lock of the same kind does under the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfItsKind {
    /// It falls as well.
    Falls,
    /// It holds.
    Holds,
    /// There is none, or it showed nothing.
    Unknown,
}

impl Kind {
    /// The kind of this scenario's lock. `renewed`: whether it was seen to renew itself.
    pub fn of(scenario: &Scenario, renewed: bool) -> Kind {
        let workload = &scenario.workload;
        let (place, lock, watchdog) = match (&workload.topology, scenario.nodes) {
            (Topology::Independent, 0) => return Kind { reference: None, what: "a lock without nodes".to_string() },
            (Topology::Independent, 1) => ("one node", "single", "redlock-watchdog"),
            (Topology::Independent, _) => ("several nodes, of which a majority counts", "redlock", "redlock-watchdog"),
            (Topology::Sentinel(_), _) => ("a primary with Sentinels", "replicated", ""),
            (Topology::Cluster(_), _) => ("a Redis Cluster", "cluster", ""),
        };
        let (what, reference) = match (workload.lock.expires(), renewed) {
            (false, _) => ("a lock without a TTL", ""),
            (true, true) => ("a lock with a TTL that renews itself", watchdog),
            (true, false) => ("a lock with a TTL", lock),
        };
        let reference = (!reference.is_empty()).then(|| reference.to_string());
        Kind { reference, what: format!("{what}, on {place}") }
    }

    /// The same run with the lock to compare with; None if there is none, or the nemesis is not about it.
    pub fn scenario(&self, like: &Scenario, nemesis: &str, options: &Options, seed: u64) -> Option<Scenario> {
        let reference = self.reference.as_deref()?;
        let options = Options { nodes: Some(like.nodes), cluster: None, ..options.clone() };
        options.scenario(reference, nemesis, seed, std::path::Path::new("")).ok()
    }
}

/// How the lock to compare with did, by the verdicts of its runs and what its client was doing when it was struck. None if they
/// show nothing. `when`: what the library's client was doing. A run in which that was something else withstood something else.
pub fn judged(runs: impl IntoIterator<Item = (Validity, Option<When>)>, when: Option<When>) -> Option<OfItsKind> {
    let (mut held, mut other) = (false, false);
    for (valid, struck) in runs {
        match valid {
            Validity::Invalid => return Some(OfItsKind::Falls),
            Validity::Valid if struck == when => held = true,
            Validity::Valid => other = true,
            Validity::Unknown => {}
        }
    }
    match (held, other) {
        (true, _) => Some(OfItsKind::Holds),
        (false, true) => Some(OfItsKind::Unknown),
        (false, false) => None,
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
