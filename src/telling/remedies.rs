//! What would have prevented an incident: only what the catalogue has tried, each with the command that shows it.
//!
//! A remedy is a workload that differs from the run's in the thing that is missing. It is named only where a suite expects that
//! workload to hold under the run's own nemesis, or under the scenario that brings about the same cause; a test plays each
//! command that can be simulated. Of incidents that cost no update, only what is wrong with the lock itself is said, and nothing
//! where a script kept the holder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::moments;
use super::story::{Incident, Story};
use crate::checker::{AnomalyKind, HowKind};
use crate::fault_kinds::OnProcess;
use crate::history::{Claim, Operation};
use crate::members::Role;
use crate::nemesis::Expectation;
use crate::scenario::catalogue;
use crate::suite::file as suites;
use crate::words::length;

/// Something that would have prevented an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// What it is, and why it helps.
    pub text: String,
    /// Runs the same nemesis and seed with it, or its own scenario.
    pub command: String,
    /// Whether that command needs real servers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_servers: bool,
}

/// A cell of the catalogue in which a remedy is seen to hold.
#[derive(Clone, Copy)]
struct Try {
    workload: &'static str,
    simulated: bool,
    text: &'static str,
}

const fn simulated(workload: &'static str, text: &'static str) -> Try {
    Try { workload, simulated: true, text }
}

const REAL_ETCD: Try = Try {
    workload: "etcd",
    simulated: false,
    text: "A lock in a store that agrees by consensus, with the resource checking its tokens: such a store does not forget a \
           lock when its leader changes. This needs etcd.",
};

const COMPARE: &str = "A resource that compares and sets: it writes only if the value is still the one that the writer read. Two \
    clients may still hold the lock at once; of two writes that build on the same value the second is refused, which is an \
    error and no lost update.";
const TOKENS: &str = "Fencing tokens that the resource checks at reads and at writes: once a newer holder has read, a write with an \
    older token is refused. Checking writes alone is not enough: of two late holders that have read the same value, both are let \
    in if they write in the order of their tokens.";

/// What goes wrong where a lock has one thing wrong.
#[derive(Clone, Copy)]
enum Wrong {
    /// Two clients have it at once.
    Shared,
    /// A client that should get it doesn't.
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

/// Locks with one thing wrong, what that leads to, and another lock with it put right.
const PUT_RIGHT: &[(&str, Wrong, Try)] = &[
    (
        "redlock-wall",
        Wrong::Shared,
        simulated(
            "redlock-patient",
            "A client that measures by a monotonic clock how long it took to get the lock. \
        A wall clock can stop or jump meanwhile.",
        ),
    ),
    (
        "redlock-unchecked",
        Wrong::Shared,
        simulated(
            "redlock-patient",
            "A client that subtracts the time that it took to get the lock from the lock's \
        validity, as Redlock asks for.",
        ),
    ),
    (
        "single-constant",
        Wrong::Shared,
        simulated(
            "single",
            "A value that only this holder knows, and a release that compares it and deletes in one \
        step: then nobody frees another client's lock.",
        ),
    ),
    (
        "single-constant",
        Wrong::Stuck,
        simulated(
            "single",
            "A value that only this client knows, and a release that compares it and deletes in one step: a client that is not \
        sure whether it set the key can release it all the same.",
        ),
    ),
    (
        "single-get-del",
        Wrong::Shared,
        simulated(
            "single",
            "A release that compares and deletes in one step, on the server: between a GET and a DEL \
        the lock can change hands.",
        ),
    ),
    (
        "incr",
        Wrong::Shared,
        simulated(
            "single",
            "A release that compares the lock's value and deletes in one step, which may be sent twice without \
        harm.",
        ),
    ),
    (
        "incr",
        Wrong::Stuck,
        simulated(
            "single",
            "A key that is set with its end, SET with NX and PX: what a client leaves behind that died, or gave up, is gone after \
        a TTL.",
        ),
    ),
    (
        "setnx-expire",
        Wrong::Stuck,
        simulated(
            "single",
            "One command that sets the key and its end, SET with NX and PX: a client that dies or gives up between two \
        commands leaves a lock without an end.",
        ),
    ),
    (
        "redlock-lazy-release",
        Wrong::Stuck,
        simulated(
            "redlock",
            "A release on every node, also on those that did not answer: they may have set the \
        key all the same.",
        ),
    ),
    (
        "redlock-lockstep",
        Wrong::Stuck,
        simulated(
            "redlock",
            "A random delay before the next try, so that clients do not split the votes again and \
        again.",
        ),
    ),
    (
        "steal-hasty",
        Wrong::Shared,
        simulated("steal", "A thief that waits until its victim has heard of the theft, or for a whole TTL."),
    ),
];

/// What would have prevented an incident, and what would not have.
pub(super) fn remedies(story: &Story, incident: &Incident) -> (Vec<Remedy>, Vec<String>) {
    let nothing = (Vec::new(), Vec::new());
    let (Some(scenario), Some(nemesis)) = (story.subject.scenario, story.nemesis()) else { return nothing };
    // Where a script kept the holder, nobody knows what would have become of it without the script.
    let kept = incident.how().is_some_and(|how| how.kind == HowKind::Breakpoint);
    if !incident.claimed || kept {
        return nothing;
    }
    let workload = scenario.workload_name.as_str();
    let seed = story.seed().unwrap_or(1);
    let mut found: Vec<Remedy> = Vec::new();
    let mut add = |one: Try, under: &str| {
        let is_other = (one.workload, under) != (workload, nemesis);
        let is_new = is_other && !found.iter().any(|remedy| remedy.text == one.text);
        if is_new && holds(one.workload, under) {
            found.push(remedy(one, under, seed));
        }
    };
    if !story.is_unlocked() {
        for (_, _, better) in PUT_RIGHT.iter().filter(|(of, wrong, _)| *of == workload && wrong.is_seen_in(incident)) {
            add(*better, nemesis);
        }
        for (one, under) in for_nodes(story, incident) {
            add(one, under);
        }
    }
    let lost = !incident.lost.is_empty() && incident.has(AnomalyKind::LostUpdate);
    if lost && story.claims(Claim::Updates) {
        for one in refusing(story) {
            match stand_in(incident) {
                _ if holds(one.workload, nemesis) => add(one, nemesis),
                Some(other) => add(one, other),
                None => {}
            }
        }
        if incident.how().is_some_and(|how| how.kind == HowKind::Promoted) {
            add(REAL_ETCD, "partition");
        }
    }
    let useless = if lost { longer_ttl(story, incident).into_iter().collect() } else { Vec::new() };
    (found, useless)
}

/// Resources that refuse what comes too late, for a lock like the run's.
fn refusing(story: &Story) -> Vec<Try> {
    let Some(scenario) = story.subject.scenario else { return Vec::new() };
    let workload = &scenario.workload;
    let (compare, tokens) = (simulated("redlock-guarded", COMPARE), simulated("fenced-reads", TOKENS));
    match (scenario.workload_name.as_str(), workload.topology.group()) {
        (_, Some(_)) => vec![simulated("replicated-guarded", COMPARE)],
        ("etcd-unguarded", _) => vec![Try { workload: "etcd", simulated: false, text: TOKENS }],
        ("zookeeper-unguarded", _) => vec![Try { workload: "zookeeper", simulated: false, text: TOKENS }],
        _ if workload.nodes > 1 => vec![compare, tokens],
        _ => vec![tokens, compare],
    }
}

/// The scenario of the catalogue that brings about the same cause, where the run's nemesis is the user's own.
fn stand_in(incident: &Incident) -> Option<&'static str> {
    let fault = incident.fault?;
    let late = incident.how().is_none_or(|how| how.kind == HowKind::Expired);
    let stops = fault.kind.does.process == OnProcess::Stops && fault.hits(Role::Client);
    (late && stops).then_some("pause-before-write")
}

/// What keeps nodes from forgetting a lock, where an independent node that was killed did.
fn for_nodes(story: &Story, incident: &Incident) -> Vec<(Try, &'static str)> {
    let is_redlock = story.subject.scenario.is_some_and(|scenario| {
        scenario.workload.lock.name() == "redlock" && scenario.workload.topology.group().is_none()
    });
    let forgot = incident.fault.is_some_and(|fault| fault.kind.ends_processes() && fault.hits(Role::Node));
    if !(is_redlock && forgot) {
        return Vec::new();
    }
    // The lock is the same: what differs is how its nodes are run.
    let text = |text| Try { workload: "redlock", simulated: true, text };
    vec![
        (
            text(
                "Nodes that sync their file before they answer (`appendfsync always`): a node that comes back remembers the \
                 locks that it has given.",
            ),
            "crash-synced",
        ),
        (
            text(
                "A delayed restart: a node that comes back only after the longest TTL has forgotten nothing that anybody still \
                 relies on.",
            ),
            "delayed-restart",
        ),
    ]
}

/// By how much a longer TTL would have had to be longer: only where the write was too late for the TTL by its client's own
/// stamps, and a fault kept the client.
fn longer_ttl(story: &Story, incident: &Incident) -> Option<String> {
    let ttl = story.ttl_ns()?;
    incident.fault?;
    let took = |operation: &Operation| {
        let (sent, _) = moments::certain_write(operation)?;
        sent.checked_sub(moments::hold(operation)?.start)
    };
    let struck = incident.operations.iter().filter(|operation| incident.fault_hits(&story.name(operation.process)));
    let (late, culprit) =
        struck.filter_map(|operation| Some((took(operation)?, operation))).max_by_key(|(took, _)| *took)?;
    let name = story.name(culprit.process);
    let more = late.checked_sub(ttl).filter(|more| *more > 0)?;
    Some(format!(
        "A longer TTL only moves the limit: {name} sent its write {} after it had got the lock, {} more than the TTL of {}, and a \
         client can be stopped for longer than any TTL.",
        length(late),
        length(more),
        length(ttl)
    ))
}

fn remedy(one: Try, nemesis: &str, seed: u64) -> Remedy {
    let cluster = if one.simulated { " --cluster sim" } else { "" };
    let time = if takes_long(nemesis) { " --time-limit 40s" } else { "" };
    let command = format!(
        "redjepsen run --workload {} --nemesis {nemesis}{cluster}{time} --seed {seed} --expect valid",
        one.workload
    );
    Remedy { text: one.text.to_string(), command, needs_servers: !one.simulated }
}

/// Whether the suites give a nemesis more time, as a failover takes.
fn takes_long(nemesis: &str) -> bool {
    cells().long.contains(nemesis)
}

/// Whether a suite expects this workload to hold under this nemesis.
fn holds(workload: &str, nemesis: &str) -> bool {
    cells().valid.contains(&(workload.to_string(), nemesis.to_string()))
}

/// The scenarios of which it is known what they show of this workload.
pub(super) fn known(workload: &str) -> impl Iterator<Item = &'static str> {
    cells().known.get(workload).into_iter().flatten().map(String::as_str)
}

/// What files and suites of the catalogue expect.
#[derive(Default)]
struct Cells {
    valid: BTreeSet<(String, String)>,
    /// The nemeses of which anything is expected, by the workload.
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
