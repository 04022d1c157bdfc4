//! What a workload file says: a lock, the resource that it protects, what its clients do, and what is claimed of it.

use serde::{Deserialize, Serialize};

use super::package::is_version;
use super::{Library, WorkloadClient};
use crate::history::{Claim, Function, ResourceKind, is_one, one};
use crate::locks::LockSpec;
use crate::nemesis::Expectation;
use crate::topology::Topology;
use crate::topology::redis_config;
use base::units::Length;

/// More holders at once than this need more clients than a run has.
const MOST_PERMITS: u32 = 99;

/// A lock, the resource that it protects, and what the pair claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// One line for `redjepsen list`.
    pub description: String,
    /// Where the lock comes from and what theory says of it.
    pub source: String,
    /// How many lock nodes a run has unless the user says otherwise.
    pub nodes: u32,
    /// How many keys clients update unless the user says otherwise, each with a lock of its own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub keys: u32,
    /// How many clients share one process unless the user says otherwise.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    /// How many clients may hold a lock at once: more than one for a semaphore.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub permits: u32,
    /// Lines of redis.conf for the lock's nodes, such as `min-replicas-to-write 1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redis_config: Vec<String>,
    /// How the nodes relate to each other.
    #[serde(default, skip_serializing_if = "Topology::is_independent")]
    pub topology: Topology,
    pub lock: LockSpec,
    pub resource: ResourceSpec,
    /// The published library that is under test, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<Library>,
    /// The program that brings the lock; if None, redjepsen's own client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<WorkloadClient>,
    /// What clients do, if it is more than one kind of operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<OperationMix>,
    /// The properties that decide the verdict.
    pub claims: Vec<Claim>,
    /// How long an operation may wait for the lock unless the user says otherwise. It has to be longer than three TTLs and
    /// the rest of a lock's time, so that a waiter that sleeps through the end of a lock is told from one that gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_timeout: Option<Length>,
    /// The longest time for which a free lock that is requested may stay free, whatever happens; beyond it, liveness is
    /// broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<Length>,
    /// How much later than its limit a call may end; half of the limit, and a second at least, if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_overrun: Option<Length>,
    /// The clock by which the library measures how long it waits.
    #[serde(default, skip_serializing_if = "WaitClock::is_monotonic")]
    pub waits_by: WaitClock,
    /// For the claim `losses`: within which time a holder is told that its lock is gone, from the end of the last validity
    /// that it was told, or else from when another client had the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_within: Option<Length>,
    /// How often a holder is to ask its library whether it has the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_every: Option<Length>,
    /// What is expected under a nemesis, by the nemesis's name.
    #[serde(default)]
    pub expect: std::collections::BTreeMap<String, Expectation>,
}

impl Workload {
    /// Checks that a run of it can show anything.
    pub(super) fn check(&self) -> Result<(), String> {
        for line in &self.redis_config {
            redis_config::parse(line).map_err(|why| format!("`redis_config` has {line:?}: {why}"))?;
        }
        if self.claims.is_empty() {
            return Err("`claims` is empty, so no run could fail; name `updates`, `mutual-exclusion` or both".into());
        }
        let pairs = [
            (Claim::Losses, self.lost_within.is_some(), "lost_within"),
            (Claim::Ownership, self.check_every.is_some(), "check_every"),
        ];
        for (claim, is_given, key) in pairs {
            if self.claims.contains(&claim) != is_given {
                let claim = claim.name();
                return Err(format!(
                    "the claim `{claim}` and `{key}` go together; add the other one, or leave both out"
                ));
            }
        }
        self.check_permits()?;
        match (&self.lock, &self.client) {
            (LockSpec::Library(_), None) => {
                Err("`[lock.library]` needs a client; add `[client.python]` or `[client.command]`".into())
            }
            (_, Some(client)) => client.check(),
            (_, None) => Ok(()),
        }
    }
}

impl Workload {
    /// Whether some clients take the lock for reading, beside each other.
    pub fn has_readers(&self) -> bool {
        self.operations.is_some_and(|mix| mix.shared > 0)
    }

    /// The claims that decide a run's verdict. Where the resource refuses late writes, two holders at once do no harm by
    /// themselves: whether an update was lost decides, and overlaps are only told.
    pub fn claims_of_a_run(&self) -> Vec<Claim> {
        let spared = self.resource.refuses_late_writes() && self.claims.contains(&Claim::Updates);
        let decides = |claim: &Claim| !(spared && *claim == Claim::MutualExclusion);
        self.claims.iter().copied().filter(decides).collect()
    }

    /// Checks that nothing is asked of several holders at once that only one can promise.
    fn check_permits(&self) -> Result<(), String> {
        if !(1..=MOST_PERMITS).contains(&self.permits) {
            return Err(format!("`permits = {}` is out of range; it may be 1 to {MOST_PERMITS}", self.permits));
        }
        if self.permits == 1 {
            return Ok(());
        }
        if self.resource.kind != ResourceKind::None {
            return Err(format!(
                "with `permits = {}`, clients may undo each other's updates; write `kind = \"none\"` in `[resource]`",
                self.permits
            ));
        }
        // These follow from whose the lock is, and it has several owners.
        let of_one = |claim: &&Claim| {
            !matches!(claim, Claim::MutualExclusion | Claim::Liveness | Claim::Timeouts | Claim::Grants)
        };
        match self.claims.iter().find(of_one) {
            Some(claim) => Err(format!("`{}` can't be claimed with `permits = {}`", claim.name(), self.permits)),
            None => Ok(()),
        }
    }
}

/// The clock by which a library measures how long it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitClock {
    #[default]
    Monotonic,
    /// One that can be set, so that a wait may be longer by as much.
    WallClock,
}

impl WaitClock {
    /// Whether a fault can set it.
    pub fn can_be_set(self) -> bool {
        self == WaitClock::WallClock
    }

    fn is_monotonic(&self) -> bool {
        !self.can_be_set()
    }
}

/// What the lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceSpec {
    pub kind: ResourceKind,
    pub fencing: Fencing,
}

impl ResourceSpec {
    /// Whether it refuses the write of a holder whose lock is gone.
    pub fn refuses_late_writes(self) -> bool {
        self.kind == ResourceKind::Row || (self.kind != ResourceKind::None && self.fencing != Fencing::None)
    }
}

/// How often clients do what, as relative weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperationMix {
    pub read: u32,
    pub write: u32,
    pub cas: u32,
    /// Updates under the lock.
    pub rmw: u32,
    /// Reads under a lock for reading.
    pub shared: u32,
}

impl OperationMix {
    /// What clients do without a lock unless the workload says otherwise: all equally often.
    pub const UNLOCKED: OperationMix = OperationMix { read: 1, write: 1, cas: 1, rmw: 0, shared: 0 };

    /// Each function with its weight.
    pub fn weights(self) -> [(Function, u32); 5] {
        [
            (Function::Read, self.read),
            (Function::Write, self.write),
            (Function::Cas, self.cas),
            (Function::Rmw, self.rmw),
            (Function::Shared, self.shared),
        ]
    }

    /// Checks the weights of a workload with or without a lock.
    pub(super) fn check(self, locked: bool) -> Result<(), String> {
        const MOST: u32 = 1000;
        if let Some((f, weight)) = self.weights().into_iter().find(|(_, weight)| *weight > MOST) {
            let name = format!("{f:?}").to_lowercase();
            return Err(format!("`{name} = {weight}` is out of range; a weight may be 0 to {MOST}"));
        }
        if let Some((f, _)) = self.weights().into_iter().find(|(f, weight)| *weight > 0 && f.is_locked() != locked) {
            let (name, how) =
                (format!("{f:?}").to_lowercase(), if locked { "needs no lock" } else { "needs the lock" });
            return Err(format!("`{name}` {how}, but this workload has {}", if locked { "one" } else { "none" }));
        }
        match (self.write + self.cas + self.rmw, locked) {
            (0, true) => Err("nothing is ever written; give `rmw` a weight in `[operations]`".to_string()),
            (0, false) => Err("nothing is ever written; give `write` or `cas` a weight in `[operations]`".to_string()),
            _ => Ok(()),
        }
    }
}

/// How the resource guards itself against writers that lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Fencing {
    /// Not at all: every write is accepted.
    None,
    /// It refuses a write whose old value is not current (a check-and-set, made by Lua on the resource).
    #[serde(alias = "old-value")]
    CompareAndSet,
    /// It refuses a write with a fencing token older than that of an earlier writer, atomically by Lua on the resource.
    Token,
    /// Like `token`, but a read counts as a write does.
    TokenReads,
}

impl Fencing {
    /// Whether it tells writers apart by fencing tokens.
    pub fn needs_tokens(self) -> bool {
        matches!(self, Fencing::Token | Fencing::TokenReads)
    }

    /// As in a workload's file.
    pub fn word(self) -> &'static str {
        match self {
            Fencing::None => "none",
            Fencing::CompareAndSet => "compare-and-set",
            Fencing::Token => "token",
            Fencing::TokenReads => "token-reads",
        }
    }
}

impl Workload {
    /// Fills in what its file leaves to others.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        match &mut self.library {
            Some(library) => library.complete(self.client.as_ref()),
            None => Ok(()),
        }
    }

    /// The same workload with its library in another version, of which nothing is known or expected.
    pub fn with_library_version(mut self, name: &str, version: &str) -> Result<Workload, String> {
        let of = |why: String| format!("--library-version {version}: {why}");
        let Some(library) = &mut self.library else {
            return Err(of(format!(
                "workload {name} is not a published library; `redjepsen list` shows those that are"
            )));
        };
        if !is_version(version) {
            return Err(of("it is not a version; for example, use 7.0.1".to_string()));
        }
        if version == library.version {
            return Ok(self);
        }
        let can = match &self.client {
            Some(WorkloadClient::Python(client)) => client.requirements.is_some(),
            Some(WorkloadClient::Command(client)) => !client.another_version.is_empty(),
            None => false,
        };
        if library.package.is_none() || !can {
            return Err(of(format!(
                "only version {} of {} can be installed: its workload's file names no `package`, or no way to install other \
                 versions",
                library.version, library.name
            )));
        }
        let pinned = std::mem::replace(&mut library.version, version.to_string());
        library.instead_of.get_or_insert(pinned);
        // What is known and expected is so of the pinned version.
        library.findings.clear();
        self.expect.clear();
        Ok(self)
    }
}
