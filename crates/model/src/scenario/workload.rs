//! A workload file: a lock, the resource that it protects, the operations of its clients, and its claims.

use serde::{Deserialize, Serialize};

use super::package::is_version;
use super::{Library, WorkloadClient};
use crate::history::{Claim, Function, ResourceKind, is_one, one};
use crate::locks::LockSpec;
use crate::nemesis::Expectation;
use crate::topology::Topology;
use crate::topology::redis_config;
use base::units::Length;

/// A larger number of holders needs more clients than a run has.
const MOST_PERMITS: u32 = 99;

/// A lock, the resource that it protects, and the claims of the pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// One line for `redjepsen list`.
    pub description: String,
    /// The origin of the lock, and what theory says about it.
    pub source: String,
    pub nodes: u32,
    /// The default number of keys that clients update, each with its own lock.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub keys: u32,
    /// The default number of clients that share one process.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<Library>,
    /// The program with the lock; if None, redjepsen's own client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<WorkloadClient>,
    /// The mix of operations, if clients do more than one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<OperationMix>,
    pub claims: Vec<Claim>,
    /// The default time that an operation may wait for the lock. It must be longer than three TTLs plus the rest of a lock's
    /// time. Only then does a run distinguish a waiter that sleeps past the end of a lock from one that gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_timeout: Option<Length>,
    /// The longest time for which a free and requested lock may stay free, whatever happens. A longer time violates liveness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<Length>,
    /// How much later than its limit a call may end. The default is half of the limit, but at least a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_overrun: Option<Length>,
    #[serde(default, skip_serializing_if = "WaitClock::is_monotonic")]
    pub waits_by: WaitClock,
    /// For the claim `losses`: the time within which the library must report a lost lock to its holder. It begins at the end of
    /// the last validity that the holder received, or else when another client had the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_within: Option<Length>,
    /// How often a holder must ask its library if it has the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_every: Option<Length>,
    /// The expected result under each nemesis, by its name.
    #[serde(default)]
    pub expect: std::collections::BTreeMap<String, Expectation>,
}

impl Workload {
    /// Checks that a run of it can prove anything.
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
    /// True if some clients acquire the lock for reading, beside each other.
    pub fn has_readers(&self) -> bool {
        self.operations.is_some_and(|mix| mix.shared > 0)
    }

    /// The claims that decide a run's verdict. If the resource refuses late writes, two simultaneous holders alone do no harm:
    /// lost updates decide, and overlaps are only reported.
    pub fn claims_of_a_run(&self) -> Vec<Claim> {
        let spared = self.resource.refuses_late_writes() && self.claims.contains(&Claim::Updates);
        let decides = |claim: &Claim| !(spared && *claim == Claim::MutualExclusion);
        self.claims.iter().copied().filter(decides).collect()
    }

    /// Checks that a lock with several holders makes no claim that only a lock with one can fulfil.
    fn check_permits(&self) -> Result<(), String> {
        if !(1..=MOST_PERMITS).contains(&self.permits) {
            return Err(format!(
                "`permits = {}` is out of range; it must be between 1 and {MOST_PERMITS}",
                self.permits
            ));
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
        // These claims depend on which client holds the lock, and this lock has several holders.
        let of_one = |claim: &&Claim| {
            !matches!(claim, Claim::MutualExclusion | Claim::Liveness | Claim::Timeouts | Claim::Grants)
        };
        match self.claims.iter().find(of_one) {
            Some(claim) => Err(format!("`{}` can't be claimed with `permits = {}`", claim.name(), self.permits)),
            None => Ok(()),
        }
    }
}

/// The clock by which a library measures its waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitClock {
    #[default]
    Monotonic,
    /// A clock that can be changed, so that a wait may be longer by the change.
    WallClock,
}

impl WaitClock {
    /// True if a fault can change it.
    pub fn can_be_set(self) -> bool {
        self == WaitClock::WallClock
    }

    fn is_monotonic(&self) -> bool {
        !self.can_be_set()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceSpec {
    pub kind: ResourceKind,
    pub fencing: Fencing,
}

impl ResourceSpec {
    /// True if it refuses the write of a holder whose lock is gone.
    pub fn refuses_late_writes(self) -> bool {
        self.kind == ResourceKind::Row || (self.kind != ResourceKind::None && self.fencing != Fencing::None)
    }
}

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
    /// The default mix without a lock: all equally often.
    pub const UNLOCKED: OperationMix = OperationMix { read: 1, write: 1, cas: 1, rmw: 0, shared: 0 };

    pub fn weights(self) -> [(Function, u32); 5] {
        [
            (Function::Read, self.read),
            (Function::Write, self.write),
            (Function::Cas, self.cas),
            (Function::Rmw, self.rmw),
            (Function::Shared, self.shared),
        ]
    }

    pub(super) fn check(self, locked: bool) -> Result<(), String> {
        const MOST: u32 = 1000;
        if let Some((f, weight)) = self.weights().into_iter().find(|(_, weight)| *weight > MOST) {
            let name = format!("{f:?}").to_lowercase();
            return Err(format!("`{name} = {weight}` is out of range; a weight must be between 0 and {MOST}"));
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
    /// Like `token`, but it also refuses a token that is equal: two writers may have the same after a failover.
    TokenGreater,
    /// Like `token`, but a read counts as a write does.
    TokenReads,
}

impl Fencing {
    /// True if it distinguishes writers by fencing tokens.
    pub fn needs_tokens(self) -> bool {
        matches!(self, Fencing::Token | Fencing::TokenGreater | Fencing::TokenReads)
    }

    pub fn word(self) -> &'static str {
        match self {
            Fencing::None => "none",
            Fencing::CompareAndSet => "compare-and-set",
            Fencing::Token => "token",
            Fencing::TokenGreater => "token-greater",
            Fencing::TokenReads => "token-reads",
        }
    }
}

impl Workload {
    /// Fills in the fields that its file leaves to other files.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        match &mut self.library {
            Some(library) => library.complete(self.client.as_ref()),
            None => Ok(()),
        }
    }

    /// The same workload with its library in another version, without findings or expectations.
    pub fn with_library_version(mut self, name: &str, version: &str) -> Result<Workload, String> {
        let of = |why: String| format!("--library-version {version}: {why}");
        let Some(library) = &mut self.library else {
            return Err(of(format!(
                "workload {name} is not a published library; `redjepsen list libraries` shows all that are"
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
        // Findings and expectations apply to the pinned version.
        library.findings.clear();
        self.expect.clear();
        Ok(self)
    }
}
