//! The setup of a run, its environment, and the command that repeats it.

use serde::{Deserialize, Serialize};

use super::story::Story;
use base::units::nanos;
use base::words::{length, sanitize};
use checker::Validity;
use model::history::{Header, ResourceKind};
use model::nemesis::Expectation;
use model::scenario::{Cause, Fencing, Finding, Library, OperationMix, Scenario, catalogue};

/// A name and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub text: String,
}

fn row(name: &str, text: impl Into<String>) -> Row {
    Row { name: name.to_string(), text: text.into() }
}

/// The setup, from the scenario, or else from the history's header. Empty if neither is there.
pub(super) fn setting(story: &Story) -> Vec<Row> {
    match (story.subject.scenario, &story.subject.history.run) {
        (Some(scenario), _) => of_scenario(scenario),
        (None, Some(run)) => of_header(run),
        (None, None) => Vec::new(),
    }
}

fn of_header(run: &Header) -> Vec<Row> {
    let text = |ms: u64| length(ms.saturating_mul(1_000_000));
    vec![
        row("workload", &run.workload),
        row("nemesis", &run.nemesis),
        row("clients, nodes, keys", format!("{}, {}, {}", clients(run.clients, run.threads), run.nodes, run.keys)),
        row("lock's TTL", ttl(run.expires, text(run.ttl_ms))),
        row("clients busy for", text(run.time_limit_ms)),
        row("seed", run.seed.to_string()),
    ]
}

/// The number of clients, and of threads per process if they share processes.
fn clients(clients: u32, threads: u32) -> String {
    if threads > 1 { format!("{clients} (threads, {threads} per process)") } else { clients.to_string() }
}

/// The resource and its guard.
fn resource(scenario: &Scenario) -> String {
    let resource = scenario.workload.resource;
    let kind = match resource.kind {
        ResourceKind::Register => "register",
        ResourceKind::Counter => "counter",
        ResourceKind::List => "list",
        ResourceKind::Row => "row",
        ResourceKind::Replicated => "register, kept by the nodes",
        ResourceKind::None => return "none: only the lock".to_string(),
    };
    let guard = match (resource.fencing, resource.kind) {
        (Fencing::None, ResourceKind::Row) => "written in the transaction that holds the lock",
        (Fencing::None, ResourceKind::Replicated) => "with reads, writes and compare-and-sets",
        (Fencing::None, _) => "accepts every write",
        (Fencing::CompareAndSet, _) => "refuses a write whose old value is not current",
        (Fencing::Token, _) => "refuses a write whose token is older than the token of an earlier write",
        (Fencing::TokenGreater, _) => {
            "refuses a write whose token is not greater than the tokens of all earlier writes"
        }
        (Fencing::TokenReads, _) => {
            "refuses a read or write whose token is older than the token of an earlier read or write"
        }
    };
    format!("{kind}, {guard}")
}

fn of_scenario(scenario: &Scenario) -> Vec<Row> {
    let workload = &scenario.workload;
    let text = |duration: std::time::Duration| length(nanos(duration));
    let lock = match &workload.library {
        Some(library) => format!("{} {}, {}", library.name, library.version, workload.lock),
        None => workload.lock.to_string(),
    };
    let mut rows = vec![
        row("workload", format!("{}: {}", scenario.workload_name, workload.description)),
        row("its source", &workload.source),
        row("lock", lock),
        row("resource", resource(scenario)),
        row("nemesis", format!("{}: {}", scenario.nemesis_name, scenario.nemesis.description)),
        row("its story", &scenario.nemesis.story),
        row(
            "clients, nodes, keys",
            format!("{}, {}, {}", clients(scenario.clients, scenario.threads), scenario.nodes, scenario.keys),
        ),
        row("nodes are", workload.topology.to_string()),
        row("lock's TTL", ttl(workload.lock.expires(), text(scenario.ttl))),
        row("holders work for", scenario.hold.to_string()),
        row("target rate", format!("{} operations per second", scenario.rate)),
        row("wait for the lock", format!("at most {}", text(scenario.acquire_timeout))),
        row("clients busy for", text(scenario.time_limit)),
        row("seed", scenario.seed.to_string()),
    ];
    if workload.resource.kind == ResourceKind::Replicated {
        rows.retain(|row| !OF_LOCKS.contains(&row.name.as_str()));
        let mix = workload.operations.unwrap_or(OperationMix::UNLOCKED);
        rows.push(row("cas takes", scenario.hold.to_string()));
        rows.push(row("reads : writes : cas", format!("{} : {} : {}", mix.read, mix.write, mix.cas)));
    } else if let Some(mix) = workload.operations {
        rows.push(row("updates : reads under the lock", format!("{} : {}", mix.rmw, mix.shared)));
    }
    rows
}

fn ttl(expires: bool, length: String) -> String {
    if expires { length } else { format!("none; the run uses {length} as its unit of time") }
}

/// Settings that matter only with a lock.
const OF_LOCKS: [&str; 4] = ["lock", "lock's TTL", "holders work for", "wait for the lock"];

/// The environment of the run: versions, the cluster, the image, the client.
pub(super) fn made_with(story: &Story) -> Vec<Row> {
    let facts = story.subject.facts;
    let mut rows: Vec<Row> = facts.versions.iter().map(|(name, version)| row(name, version)).collect();
    let run = story.subject.history.run.as_ref().filter(|_| !facts.versions.contains_key("redjepsen"));
    if let Some(run) = run {
        rows.insert(0, row("redjepsen", &run.redjepsen));
    }
    let others = [("cluster", facts.cluster.as_str()), ("image", &facts.image), ("client", story.client())];
    rows.extend(others.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| row(name, text)));
    rows
}

/// The note on simulated runs.
const SIMULATED: &str = "Servers, network, processes and time are simulated; the lock's code and the checker are real.";

/// Facts that a reader must know first.
pub(super) fn notes(story: &Story) -> Vec<String> {
    let history = story.subject.history;
    let mut notes = Vec::new();
    if story.is_simulated() {
        notes.push(SIMULATED.to_string());
    }
    if let Some(line) = history.truncated_at_line {
        notes.push(format!("The history is cut off in line {line}: the end of the run is missing."));
    }
    if let Some(end) = history.end.as_ref().filter(|end| !end.completed) {
        let why = if end.text.is_empty() { String::new() } else { format!(": {}", sanitize(&end.text, 300)) };
        notes.push(format!("The run did not reach its planned end{why}."));
    }
    let seen = match story.subject.verdict.valid {
        Validity::Valid => Some(Expectation::Valid),
        Validity::Invalid => Some(Expectation::Violation),
        Validity::Unknown => None,
    };
    if let (Some(expected), Some(seen)) = (story.expectation(), seen) {
        let what = match expected {
            Expectation::Valid => "no violation",
            Expectation::Violation => "a violation",
        };
        let start = if expected == seen { "As expected" } else { "Not as expected" };
        notes.push(format!("{start}: this workload should show {what} under this nemesis."));
    }
    notes.extend(known(story));
    notes
}

/// The catalogue's findings on this run's library, if the run uses the version that they are about.
fn findings<'s>(story: &Story<'s>) -> Option<&'s Library> {
    let library = story.subject.scenario?.workload.library.as_ref()?;
    let pinned = catalogue::workload(story.workload()?).ok().and_then(|(_, workload)| workload.library);
    pinned.is_none_or(|pinned| pinned.version == library.version).then_some(library)
}

/// The finding that a violation of this library under this nemesis shows.
pub(super) fn known_finding<'s>(story: &Story<'s>) -> Option<&'s Finding> {
    if story.subject.verdict.valid != Validity::Invalid {
        return None;
    }
    let nemesis = &story.subject.scenario?.nemesis_name;
    findings(story)?.findings.iter().find(|finding| finding.nemesis.contains(nemesis))
}

/// The catalogue's entry on this library under this nemesis, if the run shows a violation: `Known defect of redis-py 8.1.0
/// under pause: …`.
pub(super) fn known(story: &Story) -> Option<String> {
    let (finding, library) = (known_finding(story)?, findings(story)?);
    let (what, whose) = whose(finding);
    let nemesis = &story.subject.scenario?.nemesis_name;
    Some(format!("Known {what} of {} {} under {nemesis}{whose}: {}.", library.name, library.version, told(finding)))
}

/// The catalogue's entry on the defect with this code in this library.
pub(super) fn known_of_code(story: &Story, code: &str) -> Option<String> {
    let library = findings(story)?;
    let nemesis = &story.subject.scenario?.nemesis_name;
    let has_it = |finding: &&Finding| finding.code.as_deref() == Some(code);
    let of_code = || library.findings.iter().filter(has_it);
    let finding = of_code().find(|finding| finding.nemesis.contains(nemesis)).or_else(|| of_code().next())?;
    let (what, whose) = whose(finding);
    Some(format!("Known {what} of {} {}{whose}: {}.", library.name, library.version, told(finding)))
}

/// The kind of a finding, and a clause if every such lock has it.
fn whose(finding: &Finding) -> (&'static str, &'static str) {
    match finding.cause {
        Cause::Library => ("defect", ""),
        Cause::Kind => ("limitation", ", as of every lock of this kind"),
    }
}

fn told(finding: &Finding) -> String {
    let places: Vec<&str> = [&finding.source, &finding.issue].into_iter().flatten().map(String::as_str).collect();
    let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join("; ")) };
    format!("{}{places}", finding.what.trim_end_matches('.'))
}

/// A sentence on what the command repeats.
pub(super) fn repeats(story: &Story) -> &'static str {
    if story.is_simulated() {
        "The same run, event for event: in virtual time everything follows from the seed. With --cluster local it uses real servers."
    } else {
        "The same plan from the same seed. A real run is not deterministic, so compare rates of violations, not single runs."
    }
}

/// The command that checks the run in this folder again.
pub(super) fn check(folder: &str) -> String {
    format!("redjepsen check {}", if folder.is_empty() { "RUN".to_string() } else { sanitize(folder, 300) })
}
