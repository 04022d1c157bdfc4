//! Remedies: changes that would have prevented an incident, each with a command that shows it.
//!
//! A remedy is the run with one change: to its resource's guard, to the setup of its nodes, or to its lock. The runner runs
//! each remedy that can be simulated, and keeps those that work
//! ([`RunSummary::keep_remedies`](super::RunSummary::keep_remedies)). Other remedies, and other locks, are named only if a
//! suite expects them to hold. For incidents that cost no update, only defects of the lock itself are named. If a script
//! stopped the holder, there are no remedies.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::repeat::{changed, said};
use super::story::{Incident, Story};
use super::times;
use base::members::Role;
use base::units::Length;
use base::words::length;
use checker::{AnomalyKind, HowKind};
use model::history::{Claim, Operation, ResourceKind};
use model::nemesis::Expectation;
use model::scenario::{Fencing, Options, Scenario, Workload, catalogue};
use model::topology::ClusterKind;
use suite::file as suites;

/// The time that the suites give to long scenarios.
const LONG: Duration = Duration::from_secs(40);

/// A change that would have prevented an incident.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// The change, and why it helps.
    pub text: String,
    /// The command that runs it. Empty if the run's own files have no name.
    pub command: String,
    /// True if the run cannot be simulated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_servers: bool,
    /// True if the run was simulated for this report, and was valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub played: bool,
    #[serde(skip)]
    pub run: Option<Arc<Scenario>>,
}

impl Remedy {
    /// A sentence that says if the remedy was tried for this report.
    pub fn status(&self) -> &'static str {
        match (self.played, self.needs_servers) {
            (true, _) => "redjepsen simulated this variant for up to 40 TTLs: it passed.",
            (false, true) => {
                "redjepsen did not try this variant: it needs real servers, or a program that can't be simulated."
            }
            (false, false) => {
                "redjepsen did not try this variant: it can't be simulated, or its simulation takes too long."
            }
        }
    }
}

/// The part of a run that is changed.
#[derive(Clone, Copy)]
enum RunChange {
    /// The guard of the resource.
    Resource(Fencing),
    /// The setup of the nodes: a scenario of the catalogue.
    Nodes(&'static str),
    /// The lock: a workload of the catalogue.
    Lock(&'static str),
    All(&'static str, &'static str),
}

/// A change, and why it helps.
#[derive(Clone, Copy)]
struct Try {
    change: RunChange,
    text: &'static str,
}

const fn lock(workload: &'static str, text: &'static str) -> Try {
    Try { change: RunChange::Lock(workload), text }
}

const REAL_ETCD: Try = Try {
    change: RunChange::All("etcd", "partition"),
    text: "Use a lock in a store with consensus, and let the resource check its tokens: such a store does not forget a lock when \
           its leader changes. This needs etcd.",
};

const COMPARE: &str = "Use a resource with compare-and-set: it writes only if the value is unchanged since the writer read it. Two \
    clients may still hold the lock at once. But a late write fails, and no update is lost.";
const TOKENS: &str = "Let the resource check fencing tokens on reads and writes: once a newer holder has read, the resource refuses \
    writes with an older token. It is not enough to check writes: two late holders that read the same value can both write, in \
    the order of their tokens.";

/// The failure of a lock with one defect.
#[derive(Clone, Copy)]
enum Wrong {
    /// Two clients hold the lock at once.
    Shared,
    /// A client that should acquire the lock does not.
    Stuck,
}

impl Wrong {
    fn is_seen_in(self, incident: &Incident) -> bool {
        match self {
            Wrong::Shared => incident.has(AnomalyKind::OverlappingHolders) || incident.has(AnomalyKind::LostUpdate),
            Wrong::Stuck => {
                let mut kinds = incident.anomalies.iter().map(|anomaly| anomaly.kind);
                kinds.any(|kind| kind.contradicts() == Some(Claim::Liveness) || kind == AnomalyKind::LeftBehind)
            }
        }
    }
}

/// Locks with one defect, its failure, another lock without the defect, and why that helps.
const PUT_RIGHT: &[(&str, Wrong, &str, &str)] = &[
    (
        "redlock-wall",
        Wrong::Shared,
        "redlock-patient",
        "Measure with a monotonic clock how long the acquisition took. A wall clock can stop or jump during the acquisition.",
    ),
    (
        "redlock-unchecked",
        Wrong::Shared,
        "redlock-patient",
        "Subtract the time of the acquisition from the lock's validity, as Redlock requires.",
    ),
    (
        "single-constant",
        Wrong::Shared,
        "single",
        "Write a value that only this holder knows, and release with one step that compares it and deletes the key. Then no client \
         releases another client's lock.",
    ),
    (
        "single-constant",
        Wrong::Stuck,
        "single",
        "Write a value that only this client knows, and release with one step that compares it and deletes the key. Then even a \
         client that does not know whether it set the key can send the release.",
    ),
    (
        "single-get-del",
        Wrong::Shared,
        "single",
        "Release with one script that compares the value and deletes the key: between a GET and a DEL, another client can acquire \
         the lock.",
    ),
    (
        "incr",
        Wrong::Shared,
        "single",
        "Release with one script that compares the lock's value and deletes the key: it may be sent twice without harm.",
    ),
    (
        "incr",
        Wrong::Stuck,
        "single",
        "Set the key together with its TTL, by SET with NX and PX: if a client dies or gives up, its key expires after the TTL.",
    ),
    (
        "setnx-expire",
        Wrong::Stuck,
        "single",
        "Set the key and its TTL with one command, SET with NX and PX: a client that dies or gives up between two commands leaves a \
         lock without a TTL.",
    ),
    (
        "single-ifeq-without-px",
        Wrong::Stuck,
        "single-ifeq",
        "Renew by SET with IFEQ and PX, which sets the TTL again. Without PX the key loses its TTL: if the holder dies, the lock \
         stays held forever.",
    ),
    (
        "redlock-lazy-release",
        Wrong::Stuck,
        "redlock",
        "Release on every node, including nodes that did not answer: these may have set the key too.",
    ),
    (
        "redlock-lockstep",
        Wrong::Stuck,
        "redlock",
        "Wait for a random delay before the next attempt, so that clients do not split the votes again and again.",
    ),
    (
        "steal-hasty",
        Wrong::Shared,
        "steal",
        "Let a client that steals the lock act only after the old holder has confirmed the theft, or after a full TTL.",
    ),
];

/// The remedies considered so far, by text. Incidents of a run share many of them.
#[derive(Default)]
pub(super) struct RemediesSoFar(RefCell<BTreeMap<&'static str, Option<Remedy>>>);

/// The remedies of an incident, and the changes that would not have helped.
pub(super) fn remedies(story: &Story, incident: &Incident, known: &RemediesSoFar) -> (Vec<Remedy>, Vec<String>) {
    let nothing = (Vec::new(), Vec::new());
    let (Some(scenario), Some(nemesis)) = (story.subject.scenario, story.nemesis()) else { return nothing };
    // If a script stopped the holder, its behaviour without the script is unknown.
    let kept = incident.how().is_some_and(|how| how.kind == HowKind::Breakpoint);
    if !incident.claimed || kept {
        return nothing;
    }
    let workload = scenario.workload_name.as_str();
    let mut found: Vec<Remedy> = Vec::new();
    let mut add = |one: Try| {
        if found.iter().all(|remedy| remedy.text != one.text) {
            let mut known = known.0.borrow_mut();
            found.extend(known.entry(one.text).or_insert_with(|| remedy(story, scenario, nemesis, one)).clone());
        }
    };
    if !story.is_unlocked() {
        let right = PUT_RIGHT.iter().filter(|(of, wrong, ..)| *of == workload && wrong.is_seen_in(incident));
        right.for_each(|(_, _, better, why)| add(lock(better, why)));
        for_nodes(scenario, incident).into_iter().for_each(&mut add);
    }
    let lost = !incident.lost.is_empty() && incident.has(AnomalyKind::LostUpdate);
    if lost && story.claims(Claim::Updates) {
        refusing(scenario).into_iter().for_each(&mut add);
        if incident.how().is_some_and(|how| how.kind == HowKind::Promoted) {
            add(REAL_ETCD);
        }
    }
    let useless = if lost { longer_ttl(story, incident).into_iter().collect() } else { Vec::new() };
    (found, useless)
}

/// Resources that refuse late writes, for a lock like the run's.
fn refusing(scenario: &Scenario) -> Vec<Try> {
    let workload = &scenario.workload;
    let compare = Try { change: RunChange::Resource(Fencing::CompareAndSet), text: COMPARE };
    let tokens = match workload.lock.gives_tokens() {
        true => Try { change: RunChange::Resource(Fencing::TokenReads), text: TOKENS },
        false => lock("fenced-reads", TOKENS),
    };
    match workload.topology.group() {
        Some(_) => vec![compare],
        None if workload.nodes > 1 => vec![compare, tokens],
        None => vec![tokens, compare],
    }
}

/// Setups in which nodes do not forget a lock, if a killed independent node forgot it.
fn for_nodes(scenario: &Scenario, incident: &Incident) -> Vec<Try> {
    let is_redlock = scenario.workload.lock.name() == "redlock" && scenario.workload.topology.group().is_none();
    let forgot = incident.fault.is_some_and(|fault| fault.kind.ends_processes() && fault.hits(Role::Node));
    if !(is_redlock && forgot) {
        return Vec::new();
    }
    vec![
        Try {
            change: RunChange::Nodes("crash-synced"),
            text: "Let the nodes sync their file before they answer (`appendfsync always`): a node that comes back still has the \
                locks that it granted.",
        },
        Try {
            change: RunChange::Nodes("delayed-restart"),
            text: "Delay the restart: if a node comes back only after the longest TTL, every lock that it forgot has expired.",
        },
    ]
}

/// The TTL that would have sufficed. Only if the write was too late by its client's own stamps, and a fault delayed the client.
fn longer_ttl(story: &Story, incident: &Incident) -> Option<String> {
    let ttl = story.ttl_ns()?;
    incident.fault?;
    let took = |operation: &Operation| {
        let (sent, _) = times::certain_write(operation)?;
        sent.checked_sub(times::hold(operation)?.start)
    };
    let struck = incident.operations.iter().filter(|operation| incident.fault_hits(story, operation));
    let (late, culprit) =
        struck.filter_map(|operation| Some((took(operation)?, operation))).max_by_key(|(took, _)| *took)?;
    let name = story.name(culprit.process);
    let more = late.checked_sub(ttl).filter(|more| *more > 0)?;
    Some(format!(
        "A longer TTL only moves the limit: {name} sent its write {} after it acquired the lock, {} later than its TTL of {}. A \
         client can be stopped for longer than any TTL.",
        length(late),
        length(more),
        length(ttl)
    ))
}

/// A run with a change. None if it makes no sense, or if it cannot be simulated and no suite expects it to hold.
fn remedy(story: &Story, scenario: &Scenario, nemesis: &str, one: Try) -> Option<Remedy> {
    let (run, command) = match one.change {
        RunChange::Resource(fencing) => guarded(story, scenario, fencing)?,
        RunChange::Nodes(other) => another(story, scenario, None, Some(other))?,
        RunChange::Lock(other) => another(story, scenario, Some(other), None)?,
        RunChange::All(workload, nemesis) => another(story, scenario, Some(workload), Some(nemesis))?,
    };
    let needs_servers = !is_simulated(&run);
    let is_expected = match one.change {
        RunChange::Resource(_) if needs_servers => holds(guarded_like(&run.workload), nemesis) || !is_known(nemesis),
        RunChange::Lock(other) => holds(other, nemesis) || !(needs_servers || is_known(nemesis)),
        RunChange::All(workload, nemesis) => holds(workload, nemesis),
        RunChange::Resource(_) | RunChange::Nodes(_) => true,
    };
    let text = one.text.to_string();
    is_expected.then(|| Remedy { text, command, needs_servers, played: false, run: Some(Arc::new(run)) })
}

/// The run with a guarded resource. None if its resource cannot be guarded, or already is.
fn guarded(story: &Story, scenario: &Scenario, fencing: Fencing) -> Option<(Scenario, String)> {
    let mut run = scenario.clone();
    let resource = &mut run.workload.resource;
    let can = matches!(resource.kind, ResourceKind::Register | ResourceKind::Counter | ResourceKind::List);
    if !can || resource.fencing == fencing {
        return None;
    }
    resource.fencing = fencing;
    run.check().ok()?;
    let changes = [("fencing", fencing.word().to_string()), ("expect", Expectation::Valid.word().to_string())];
    let command = changed(story, &changes).or_else(|| {
        let options = Options { fencing: Some(fencing), cluster: cluster(&run), ..Options::of(scenario) };
        command(&options, workload_word(story, scenario)?, nemesis_word(story, scenario)?, scenario.seed)
    });
    Some((run, command.unwrap_or_default()))
}

/// The run with another lock, another scenario, or both, from the catalogue.
fn another(
    story: &Story,
    scenario: &Scenario,
    workload: Option<&str>,
    nemesis: Option<&str>,
) -> Option<(Scenario, String)> {
    let mut options = Options::of(scenario);
    if workload.is_some() {
        (options.nodes, options.keys) = (None, None);
    }
    if nemesis.is_some() {
        (options.ttl, options.clients, options.hold) = (None, None, None);
    }
    if takes_long(nemesis.unwrap_or(&scenario.nemesis_name)) {
        options.time_limit = Some(Length::Absolute(scenario.time_limit.max(LONG)));
    }
    let with = |name: Option<&str>| name.map(catalogue::workload).transpose().ok();
    let its_workload = with(workload)?.unwrap_or((scenario.workload_name.clone(), scenario.workload.clone()));
    let its_nemesis = nemesis.map(catalogue::nemesis).transpose().ok()?;
    let its_nemesis = its_nemesis.unwrap_or((scenario.nemesis_name.clone(), scenario.nemesis.clone()));
    let mut run = options.scenario_of(its_workload, its_nemesis, scenario.seed, Path::new("")).ok()?;
    options.cluster = cluster(&run);
    run.cluster.kind = options.cluster.unwrap_or_default();
    let words = || {
        let workload = workload.map(str::to_string).or_else(|| workload_word(story, scenario))?;
        let nemesis = nemesis.map(str::to_string).or_else(|| nemesis_word(story, scenario))?;
        command(&options, workload, nemesis, scenario.seed)
    };
    Some((run, words().unwrap_or_default()))
}

fn command(options: &Options, workload: String, nemesis: String, seed: u64) -> Option<String> {
    Some(format!("{} --seed {seed}", options.command(&workload, &nemesis, Some(Expectation::Valid))?))
}

/// The run's workload, as an argument of a command.
fn workload_word(story: &Story, scenario: &Scenario) -> Option<String> {
    let is_known = catalogue::WORKLOADS.iter().any(|(name, _)| *name == scenario.workload_name);
    if is_known { Some(scenario.workload_name.clone()) } else { said(story, "--workload") }
}

/// The run's nemesis, as an argument of a command.
fn nemesis_word(story: &Story, scenario: &Scenario) -> Option<String> {
    let name = &scenario.nemesis_name;
    if is_known(name) { Some(name.clone()) } else { said(story, "--nemesis") }
}

fn is_known(nemesis: &str) -> bool {
    catalogue::NEMESES.iter().any(|(name, _)| *name == nemesis)
}

/// The guarded workload of the catalogue with a lock like this one's.
fn guarded_like(workload: &Workload) -> &str {
    match (workload.lock.name(), workload.topology.group()) {
        (etcd_or_zookeeper @ ("etcd" | "zookeeper"), _) => etcd_or_zookeeper,
        (_, Some(_)) => "replicated-guarded",
        (_, None) => "redlock-guarded",
    }
}

fn cluster(run: &Scenario) -> Option<ClusterKind> {
    is_simulated(run).then_some(ClusterKind::SIM)
}

/// True if a run can be simulated: it uses redjepsen's clients, and its lock is on Redis.
fn is_simulated(run: &Scenario) -> bool {
    run.client.is_none() && run.workload.client.is_none() && run.workload.lock.is_on_redis()
}

/// True if the suites give a nemesis more time, because it has a failover.
fn takes_long(nemesis: &str) -> bool {
    cells().long.contains(nemesis)
}

/// True if a suite expects this workload to hold under this nemesis.
fn holds(workload: &str, nemesis: &str) -> bool {
    cells().valid.contains(&(workload.to_string(), nemesis.to_string()))
}

/// The scenarios with a known result for this workload.
pub(super) fn known(workload: &str) -> impl Iterator<Item = &'static str> {
    cells().known.get(workload).into_iter().flatten().map(String::as_str)
}

/// The expectations of the catalogue's files and suites.
#[derive(Default)]
struct Cells {
    valid: BTreeSet<(String, String)>,
    /// The nemeses with an expectation, by workload.
    known: BTreeMap<String, BTreeSet<String>>,
    long: BTreeSet<String>,
}

fn cells() -> &'static Cells {
    static CELLS: OnceLock<Cells> = OnceLock::new();
    CELLS.get_or_init(|| {
        let mut cells = Cells::default();
        let mut expect = |workload: &str, nemesis: &str, expected: Expectation| {
            cells.known.entry(workload.to_string()).or_default().insert(nemesis.to_string());
            if expected == Expectation::Valid {
                cells.valid.insert((workload.to_string(), nemesis.to_string()));
            }
        };
        for (name, _) in catalogue::WORKLOADS {
            let Ok((_, workload)) = catalogue::workload(name) else { continue };
            workload.expect.iter().for_each(|(nemesis, expected)| expect(name, nemesis, *expected));
        }
        for (name, _) in catalogue::NEMESES {
            let Ok((_, nemesis)) = catalogue::nemesis(name) else { continue };
            nemesis.expect.iter().for_each(|(workload, expected)| expect(workload, name, *expected));
        }
        if let Ok((_, nightly, _)) = suites::open("nightly") {
            for block in nightly.cells {
                let names = |names: Option<suites::Names>| names.map(|names| names.0).unwrap_or_default();
                let (workloads, nemeses) = (names(block.workload), names(block.nemesis));
                let expected = block.expect.and_then(suites::Expected::expectation);
                for workload in workloads.iter().filter(|_| expected.is_some()) {
                    nemeses
                        .iter()
                        .for_each(|nemesis| expect(workload, nemesis, expected.unwrap_or(Expectation::Valid)));
                }
                if workloads.is_empty() && block.with.time_limit.is_some() {
                    cells.long.extend(nemeses);
                }
            }
        }
        cells
    })
}
