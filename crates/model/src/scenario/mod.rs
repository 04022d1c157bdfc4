//! The configuration of a run: a workload, a nemesis, the numbers and the cluster, complete and checked before anything starts.
//!
//! [`Options`] are the user's settings, from flags or a suite file; [`Scenario`] is the complete result. A scenario is saved with
//! its run and passed on whole, so that any user who has it can repeat the run.
//!
//! The workload and nemesis files deserialize into the types here. The vocabulary is closed, so a typo gets a message with the
//! expected words.

pub mod catalogue;
mod cluster;
mod issue;
mod library;
mod options;
mod package;
mod server;
mod trust;
mod workload;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::history::{Claim, ResourceKind, is_one, one};
use crate::locks::{self, LockSettings, LockSpec};
use crate::nemesis::{Expectation, Nemesis, Step};
use crate::topology::{Group, OwnClient, Persistence};
use base::files;
use base::runs;
use base::units::{Length, LengthError, LengthRange, as_text, millis};

pub use cluster::ClusterSettings;
pub use issue::{Issue, Side, known as known_issue};
pub use library::{CLIENT_FILES, Cause, CommandClient, Finding, Library, PythonClient, WorkloadClient};
pub use options::{Options, quoted, typed};
pub use package::{Package, Registry, Versions, in_range};
pub use trust::TRUST;
pub use workload::{Fencing, OperationMix, ResourceSpec, WaitClock, Workload};

/// The name of the file with the scenario in a run's folder.
pub const FILE: &str = "scenario.toml";

/// The shortest time between two ownership checks of a client.
const SHORTEST_CHECK: Duration = Duration::from_millis(5);

/// A complete run, as saved in `scenario.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub workload_name: String,
    pub nemesis_name: String,
    pub seed: u64,
    pub clients: u32,
    /// How many clients share one process; the last process may have fewer.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    pub nodes: u32,
    pub keys: u32,
    /// The lock's time to live.
    #[serde(with = "as_text")]
    pub ttl: Duration,
    /// How long clients go on starting new operations.
    #[serde(with = "as_text")]
    pub time_limit: Duration,
    /// How long a holder thinks between read and write, drawn per operation.
    pub hold: LengthRange,
    /// The target number of operations per second of all clients together.
    pub rate: f64,
    /// How long an operation may wait for the lock.
    #[serde(with = "as_text")]
    pub acquire_timeout: Duration,
    /// The data that the lock's nodes store on disk.
    #[serde(default)]
    pub persistence: Persistence,
    /// Records the commands of the lock's nodes if true. None: records them in runs with a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_commands: Option<bool>,
    /// The expected result of the run, if the user stated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expectation>,
    #[serde(default)]
    pub cluster: ClusterSettings,
    /// The user's own lock client; if None, redjepsen's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<OwnClient>,
    pub workload: Workload,
    pub nemesis: Nemesis,
}

/// Why a scenario makes no sense: the user's setting, and a valid one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl From<LengthError> for ScenarioError {
    fn from(error: LengthError) -> Self {
        ScenarioError(error.to_string())
    }
}

impl From<catalogue::CatalogueError> for ScenarioError {
    fn from(error: catalogue::CatalogueError) -> Self {
        ScenarioError(error.to_string())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Being several clients at once, each a thread or task of one process.
    Threads,
    /// Ending a cancelled operation early.
    Cancel,
    /// Blocking the client's own event loop.
    Block,
    /// Acquiring the lock for reading, beside other readers.
    Shared,
    ReleaseAgain,
}

impl Ability {
    /// The word in the `capabilities` of a client's `ready`.
    pub const fn word(self) -> &'static str {
        match self {
            Ability::Threads => "threads",
            Ability::Cancel => "cancel",
            Ability::Block => "block",
            Ability::Shared => "shared",
            Ability::ReleaseAgain => "release-again",
        }
    }
}

impl Scenario {
    /// Reads the scenario saved in a file or in a run's folder; it is not [checked](Scenario::check).
    pub fn read(file_or_folder: &Path) -> Result<Scenario, ScenarioError> {
        let file = if file_or_folder.is_dir() { file_or_folder.join(FILE) } else { file_or_folder.to_path_buf() };
        // A run's folder may come from an unknown source; a file that the user names is read where it is.
        let read = if file == file_or_folder { files::read_named } else { files::read_inside };
        let text = read(&file, files::BY_HAND).map_err(|error| {
            let named = runs::with_runs_in_it(file_or_folder).filter(|_| !file.exists());
            let remedy = named.map_or(format!("give the folder of a run, or its {FILE}"), str::to_string);
            ScenarioError(format!("{error}; {remedy}"))
        })?;
        let scenario: Scenario = toml::from_str(&text).map_err(|error| {
            ScenarioError(format!(
                "{}: {}\nthis file was edited, or saved by another version of redjepsen; this version is {}",
                file.display(),
                error.to_string().trim_end(),
                env!("CARGO_PKG_VERSION")
            ))
        })?;
        // Code that uses the scenario may name a folder by it.
        scenario.check_names().map_err(|error| ScenarioError(format!("{}: {error}", file.display())))?;
        Ok(scenario)
    }

    /// Reads a scenario to be rerun: no programs of others, unless the user trusts it.
    pub fn read_to_run(file_or_folder: &Path, trusted: bool) -> Result<Scenario, ScenarioError> {
        let scenario = Scenario::read(file_or_folder)?;
        if !trusted {
            scenario.must_run_only_ours(file_or_folder)?;
        }
        Ok(scenario)
    }

    /// A length from the workload's file in this run, in milliseconds.
    pub fn in_ms(&self, length: Option<Length>) -> Option<u64> {
        length.map(|length| millis(length.resolve(self.ttl)))
    }

    /// The abilities that it needs from clients, which take version 2 of the client protocol, each with the part of the scenario
    /// that needs it.
    pub fn asks_of_clients(&self) -> Vec<(Ability, String)> {
        let step = |asks: fn(&Step) -> bool| {
            self.nemesis.script.iter().find(|step| asks(step)).map(|step| format!("`{step}`"))
        };
        let readers = || "`shared` in `[operations]` of the workload".to_string();
        let mut blocks = self.nemesis.all_faults().filter(|fault| fault.kind.needs.by_client);
        [
            (Ability::Threads, (self.threads > 1).then(|| format!("--threads {}", self.threads))),
            (Ability::Cancel, step(|step| matches!(step, Step::Cancel { .. }))),
            (Ability::Block, blocks.next().map(|fault| format!("`{fault}`"))),
            (Ability::Shared, self.workload.has_readers().then(readers)),
            (Ability::ReleaseAgain, step(|step| matches!(step, Step::Start { releases_again: Some(_), .. }))),
        ]
        .into_iter()
        .filter_map(|(ability, what)| Some((ability, what?)))
        .collect()
    }

    /// Rejects numbers that make no sense before anything starts, naming the flag and its valid values.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_names()?;
        self.check_existing()?;
        within("--clients", self.clients, 1..=100)?;
        within("--threads", self.threads, 1..=self.clients)?;
        let permits = self.workload.permits;
        if permits > 1 && self.clients <= permits {
            return Err(ScenarioError(format!(
                "--clients {}: up to {permits} clients may hold the lock of workload {} at once, so a test needs more than \
                 {permits} clients",
                self.clients, self.workload_name
            )));
        }
        match (self.workload.lock.is_granted_by_controller(), self.nodes) {
            (true, 0) => {}
            (true, nodes) => {
                return Err(ScenarioError(format!(
                    "--nodes {nodes}: workload {} has no nodes, since the controller grants its lock; leave out --nodes, or write \
                     `nodes = 0` in its file",
                    self.workload_name
                )));
            }
            (false, nodes) => within("--nodes", nodes, 1..=31)?,
        }
        within("--keys", self.keys, 1..=10_000)?;
        length_within("--ttl", self.ttl, Duration::from_millis(10), Duration::from_secs(3600))?;
        length_within("--time-limit", self.time_limit, Duration::from_secs(1), Duration::from_secs(24 * 3600))?;
        length_within("--acquire-timeout", self.acquire_timeout, Duration::from_millis(1), self.time_limit)?;
        if !(self.rate.is_finite() && (0.01..=100_000.0).contains(&self.rate)) {
            return Err(ScenarioError(format!(
                "--rate {} is out of range; give a number of operations per second from 0.01 to 100000",
                self.rate
            )));
        }
        let (_, longest_hold) =
            self.hold.resolve(self.ttl).map_err(|error| ScenarioError(format!("--hold: {error}")))?;
        if longest_hold >= self.time_limit {
            return Err(ScenarioError(format!(
                "--hold {} can last as long as --time-limit {}; make it shorter",
                self.hold,
                Length::Absolute(self.time_limit)
            )));
        }
        if self.workload.resource.fencing.needs_tokens() && !self.workload.lock.gives_tokens() {
            return Err(ScenarioError(format!(
                "workload {}: the resource is fenced by tokens, but lock {} hands out no tokens; locks with tokens: {}",
                self.workload_name,
                self.workload.lock.name(),
                locks::names(|about| about.tokens)
            )));
        }
        let resource = self.workload.resource;
        if self.workload.lock.program().keeps_resource() != (resource.kind == ResourceKind::Row) {
            return Err(ScenarioError(format!(
                "workload {}: `kind = \"row\"` and lock postgres need each other, since they share a transaction",
                self.workload_name
            )));
        }
        if resource.kind == ResourceKind::Row && (self.nodes, resource.fencing) != (1, Fencing::None) {
            return Err(ScenarioError(format!(
                "workload {}: a row lives in one database, so --nodes must be 1 and `fencing` none",
                self.workload_name
            )));
        }
        self.workload.check().map_err(|text| ScenarioError(format!("workload {}: {text}", self.workload_name)))?;
        if let Some(every) = self.workload.check_every.map(|every| every.resolve(self.ttl))
            && every < SHORTEST_CHECK
        {
            return Err(ScenarioError(format!(
                "workload {}: `check_every` is {} here, but less than {} would flood the history; make it or --ttl longer",
                self.workload_name,
                Length::Absolute(every),
                Length::Absolute(SHORTEST_CHECK)
            )));
        }
        self.check_library_version()?;
        self.nemesis.check().map_err(|text| ScenarioError(format!("nemesis {}: {text}", self.nemesis_name)))?;
        if self.record_commands == Some(true) && !self.workload.lock.is_on_redis() {
            return Err(ScenarioError(
                "--record-commands uses Redis's MONITOR, but this lock is not on Redis".to_string(),
            ));
        }
        self.check_operations()?;
        self.check_topology()?;
        self.check_cluster()?;
        self.lock_settings(Vec::new()).map(|_| ())
    }

    /// Checks that the library's version has a valid form: it becomes a word of the command that installs it.
    fn check_library_version(&self) -> Result<(), ScenarioError> {
        match &self.workload.library {
            Some(library) if !package::is_version(&library.version) => Err(ScenarioError(format!(
                "workload {}: `version = {:?}` of its library is not a version",
                self.workload_name, library.version
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the operations fit the resource, and that a workload without a lock fits its topology too.
    fn check_operations(&self) -> Result<(), ScenarioError> {
        let Workload { topology, lock, resource, operations, claims, permits, .. } = &self.workload;
        let wrong = match (resource.kind, operations) {
            (ResourceKind::Replicated, _) if !matches!(lock, LockSpec::None(_)) => {
                format!("`kind = \"replicated\"` has no lock, so it needs `[lock.none]`, not {}", lock.name())
            }
            (ResourceKind::Replicated, _) if !topology.has_roles() => {
                "`kind = \"replicated\"` needs nodes that replicate; add `[topology.sentinel]` or `[topology.cluster]`"
                    .to_string()
            }
            (ResourceKind::Replicated, _) if resource.fencing != Fencing::None => {
                "with `kind = \"replicated\"`, cas operations compare, so `fencing` must be none".to_string()
            }
            (ResourceKind::Replicated, _) if claims.iter().any(|claim| *claim != Claim::Updates) => {
                "without a lock, a workload can claim only `updates`".to_string()
            }
            (ResourceKind::Replicated, Some(mix)) => match mix.check(false) {
                Ok(()) => return Ok(()),
                Err(text) => text,
            },
            (ResourceKind::Register, Some(_))
                if *permits > 1 || lock.gives_tokens() || claims.contains(&Claim::Tokens) =>
            {
                "readers share their lock, so it has one permit and no fencing tokens; leave `[operations]` out"
                    .to_string()
            }
            (ResourceKind::Register, Some(mix)) => match mix.check(true) {
                Ok(()) => return Ok(()),
                Err(text) => text,
            },
            (_, Some(_)) => {
                "`[operations]` is for `kind = \"replicated\"` and `kind = \"register\"`; leave it out".to_string()
            }
            (_, None) => return Ok(()),
        };
        Err(ScenarioError(format!("workload {}: {wrong}", self.workload_name)))
    }

    /// Checks that such a group of nodes is possible, and that the lock can work on it.
    fn check_topology(&self) -> Result<(), ScenarioError> {
        let Workload { topology, lock, .. } = &self.workload;
        let replicas = topology.replicas_each(self.nodes);
        // The layout of the user's own group is known only once redjepsen asks its servers.
        let possible = if self.cluster_kind().owns_nodes() { topology.check(self.nodes) } else { Ok(()) };
        let wrong = match possible {
            Err(text) => text,
            Ok(()) if lock.replicas() > replicas => {
                let wait = lock.replicas();
                format!(
                    "`wait = {wait}` can't be fulfilled: with {} nodes a primary has {replicas} replicas",
                    self.nodes
                )
            }
            Ok(()) if lock.about().independent_nodes && topology.has_roles() => {
                format!("{} is a lock over independent nodes; leave `topology` out", lock.name())
            }
            Ok(()) if topology.group().is_some_and(Group::splits_keys) && !lock.about().on_one_key => {
                format!("{} uses several keys, which a Redis Cluster keeps on several nodes", lock.name())
            }
            Ok(()) => return Ok(()),
        };
        Err(ScenarioError(format!("workload {}: {wrong}", self.workload_name)))
    }

    /// The lock settings for clients, with every length resolved.
    pub fn lock_settings(&self, nodes: Vec<String>) -> Result<LockSettings, ScenarioError> {
        let options = self.workload.lock.options(self.ttl);
        let mut options =
            options.map_err(|error| ScenarioError(format!("workload {}: {error}", self.workload_name)))?;
        if self.workload.permits > 1 {
            options.own.insert("permits".to_string(), self.workload.permits.into());
        }
        let ttl_ms = millis(self.ttl);
        Ok(LockSettings { name: self.workload.lock.name().to_string(), ttl_ms, nodes, group: None, options })
    }

    /// The name of the run's folder, such as `redlock-pause`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.workload_name, self.nemesis_name)
    }
}

fn within(flag: &str, number: u32, allowed: std::ops::RangeInclusive<u32>) -> Result<(), ScenarioError> {
    if allowed.contains(&number) {
        return Ok(());
    }
    Err(ScenarioError(format!(
        "{flag} {number} is out of range; it must be between {} and {}",
        allowed.start(),
        allowed.end()
    )))
}

fn length_within(flag: &str, length: Duration, shortest: Duration, longest: Duration) -> Result<(), ScenarioError> {
    if (shortest..=longest).contains(&length) {
        return Ok(());
    }
    // As a user can write it: `24h`, not `1day`.
    let text = |length: Duration| match length.as_secs() {
        seconds if seconds >= 3600 && length == Duration::from_secs(seconds / 3600 * 3600) => {
            format!("{}h", seconds / 3600)
        }
        _ => Length::Absolute(length).to_string(),
    };
    Err(ScenarioError(format!(
        "{flag} {} is out of range; it must be between {} and {}",
        text(length),
        text(shortest),
        text(longest)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::catalogue;
    use crate::topology::Topology;

    fn scenario() -> Scenario {
        on("redlock")
    }

    /// A lock under `pause`, on its workload's nodes.
    fn on(workload: &str) -> Scenario {
        let scenario = Options::default().scenario(workload, "pause", 7, Path::new("")).unwrap();
        Scenario { expect: Some(Expectation::Violation), ..scenario }
    }

    fn with_nodes(workload: &str, nodes: u32) -> Scenario {
        Scenario { nodes, ..on(workload) }
    }

    /// The scenario is accepted, and its file contains all of it.
    fn survives(scenario: &Scenario) {
        scenario.check().unwrap();
        let file = toml::to_string(scenario).unwrap();
        assert_eq!(toml::from_str::<Scenario>(&file).unwrap(), *scenario, "{file}");
    }

    fn refused(mut scenario: Scenario, change: impl FnOnce(&mut Scenario), expected: &str) {
        change(&mut scenario);
        let error = scenario.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_scenario_that_makes_sense_is_accepted_and_survives_its_file() {
        let scenario = scenario();
        survives(&scenario);
        let settings = scenario.lock_settings(vec!["redis://n0".into()]).unwrap();
        assert_eq!((settings.ttl_ms, settings.options.node_timeout_ms), (1000, Some(50)));
        let (_, several) = catalogue::workload("several-keys").unwrap();
        let file = toml::to_string(&several).unwrap();
        assert_eq!((toml::from_str(&file), several.keys), (Ok(several), 5), "{file}");
    }

    #[test]
    fn what_was_saved_before_there_were_clusters_in_it_still_loads() {
        let file = toml::to_string(&scenario()).unwrap();
        let before = file.replace("[cluster]\nkind = \"auto\"\n\n", "");
        assert_ne!(before, file);
        assert_eq!(toml::from_str::<Scenario>(&before).unwrap(), scenario());
    }

    #[test]
    fn only_a_lock_that_the_controller_grants_has_no_nodes() {
        survives(&with_nodes("perfect", 0));
        for (workload, nodes, expected) in [
            ("perfect", 1, "--nodes 1: workload perfect has no nodes"),
            ("single", 0, "--nodes 0"),
            ("none", 0, "--nodes 0"),
        ] {
            refused(on(workload), |s| s.nodes = nodes, expected);
        }
    }

    #[test]
    fn a_lock_gets_the_nodes_that_it_can_live_on_and_no_others() {
        let waiting = with_nodes("replicated-wait", 3);
        survives(&waiting);
        let own = waiting.lock_settings(Vec::new()).unwrap().options.own;
        assert_eq!(own.get("wait_replicas"), Some(&serde_json::json!(1)));
        with_nodes("cluster", 6).check().unwrap();

        fn wait(scenario: &mut Scenario, replicas: u32) {
            let LockSpec::Single(single) = &mut scenario.workload.lock else { panic!("another lock") };
            single.wait = replicas;
        }
        refused(on("replicated"), |s| s.nodes = 1, "2 to 9 nodes, not 1");
        refused(on("cluster"), |s| s.nodes = 5, "not 5");
        refused(waiting, |s| wait(s, 3), "`wait = 3` can't be fulfilled: with 3 nodes a primary has 2 replicas");
        refused(with_nodes("single", 1), |s| wait(s, 1), "`wait = 1` can't be fulfilled");
        let topology = |workload: &str| on(workload).workload.topology;
        let redlock = with_nodes("redlock", 3);
        refused(redlock, |s| s.workload.topology = topology("replicated"), "redlock is a lock over independent nodes");
        let fenced = with_nodes("fenced", 6);
        refused(fenced, |s| s.workload.topology = topology("cluster"), "fenced uses several keys");
    }

    #[test]
    fn of_a_lock_that_several_may_hold_nothing_is_asked_that_only_one_can_promise() {
        let semaphore = on("perfect-semaphore");
        survives(&semaphore);
        let options = semaphore.lock_settings(Vec::new()).unwrap().options;
        assert_eq!(options.own.get("permits"), Some(&serde_json::json!(2)), "clients are told");
        let refused = |change: fn(&mut Scenario), expected: &str| refused(semaphore.clone(), change, expected);
        refused(|s| s.workload.permits = 0, "`permits = 0` is out of range");
        refused(|s| s.clients = 2, "a test needs more than 2 clients");
        refused(|s| s.workload.resource.kind = ResourceKind::Register, "may undo each other's updates");
        refused(|s| s.workload.claims.push(Claim::Releases), "`releases` can't be claimed with `permits = 2`");
    }

    #[test]
    fn a_lock_that_is_also_taken_for_reading_guards_a_register_and_asks_it_of_clients() {
        let shared = on("perfect-shared");
        survives(&shared);
        let readers = "`shared` in `[operations]` of the workload".to_string();
        assert_eq!(shared.asks_of_clients(), [(Ability::Shared, readers)]);
        assert_eq!(scenario().asks_of_clients(), []);
        let refused = |change: fn(&mut Scenario), expected: &str| refused(shared.clone(), change, expected);
        refused(|s| s.workload.resource.kind = ResourceKind::List, "`[operations]` is for `kind = \"replicated\"`");
        refused(|s| s.workload.claims.push(Claim::Tokens), "readers share their lock");
        refused(|s| s.workload.operations.as_mut().unwrap().rmw = 0, "nothing is ever written; give `rmw` a weight");
        refused(|s| s.workload.operations.as_mut().unwrap().cas = 1, "`cas` needs no lock, but this workload has one");
        refused(|s| s.workload.operations.as_mut().unwrap().shared = 1001, "`shared = 1001` is out of range");
    }

    #[test]
    fn a_resource_without_a_lock_is_on_nodes_that_replicate_it() {
        ["register-sentinel", "register-cluster"].iter().for_each(|name| survives(&on(name)));
        let mut without = on("register-sentinel");
        without.workload.operations = None;
        without.check().unwrap();

        let refused = |change: fn(&mut Scenario), expected: &str| refused(on("register-sentinel"), change, expected);
        refused(
            |s| s.workload.lock = catalogue::workload("single").unwrap().1.lock,
            "it needs `[lock.none]`, not single",
        );
        refused(|s| s.workload.topology = Topology::Independent, "add `[topology.sentinel]`");
        refused(|s| s.workload.resource.fencing = Fencing::CompareAndSet, "`fencing` must be none");
        refused(|s| s.workload.claims.push(Claim::MutualExclusion), "can claim only `updates`");
        refused(|s| s.workload.resource.kind = ResourceKind::Counter, "`[operations]` is for `kind = \"replicated\"`");
        refused(
            |s| s.workload.resource.kind = ResourceKind::Register,
            "`read` needs no lock, but this workload has one",
        );
        const NOTHING: OperationMix = OperationMix { read: 0, write: 0, cas: 0, rmw: 0, shared: 0 };
        fn mixed(scenario: &mut Scenario, mix: Option<OperationMix>) {
            scenario.workload.operations = mix;
        }
        refused(|s| mixed(s, Some(NOTHING)), "nothing is ever written");
        refused(|s| mixed(s, Some(OperationMix { read: 5, ..NOTHING })), "nothing is ever written");
        refused(|s| mixed(s, Some(OperationMix { write: 1001, ..NOTHING })), "`write = 1001` is out of range");
        refused(
            |s| mixed(s, Some(OperationMix { shared: 1, ..OperationMix::UNLOCKED })),
            "`shared` needs the lock, but this workload has none",
        );
        let mut writes = on("register-cluster");
        mixed(&mut writes, Some(OperationMix { write: 1, ..NOTHING }));
        writes.check().unwrap();
        let typo = toml::to_string(&on("register-cluster").workload).unwrap().replace("cas = 1", "casx = 1");
        let error = toml::from_str::<Workload>(&typo).unwrap_err().to_string();
        assert!(
            error.contains("unknown field `casx`, expected one of `read`, `write`, `cas`, `rmw`, `shared`"),
            "{error}"
        );
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_the_name_of_their_flag() {
        let refused = |change: fn(&mut Scenario), flag: &str| refused(scenario(), change, flag);
        refused(|s| s.clients = 0, "--clients 0");
        refused(|s| s.workload.claims.push(Claim::Losses), "the claim `losses` and `lost_within` go together");
        refused(|s| s.workload.lost_within = "1ttl".parse().ok(), "the claim `losses` and `lost_within` go together");
        refused(|s| s.workload.claims.push(Claim::Ownership), "`ownership` and `check_every` go together");
        refused(
            |s| {
                s.workload.claims.push(Claim::Ownership);
                s.workload.check_every = "4ms".parse().ok();
            },
            "`check_every` is 4ms here, but less than 5ms would flood the history",
        );
        refused(|s| s.nodes = 32, "--nodes 32");
        refused(|s| s.keys = 0, "--keys 0");
        refused(|s| s.ttl = Duration::ZERO, "--ttl 0s");
        refused(|s| s.time_limit = Duration::from_millis(999), "--time-limit 999ms");
        refused(|s| s.rate = 0.0, "--rate 0");
        refused(|s| s.rate = f64::NAN, "--rate NaN");
        refused(|s| s.hold = "31s".parse().unwrap(), "--hold 31s");
        refused(|s| s.hold = "2s..1s".parse().unwrap(), "--hold");
        refused(|s| s.acquire_timeout = Duration::from_secs(31), "--acquire-timeout 31s");
        refused(|s| s.ttl = Duration::from_millis(15), "node_timeout");
        refused(|s| s.workload.resource.fencing = Fencing::Token, "lock redlock hands out no tokens");
    }
}
