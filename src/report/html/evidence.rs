//! The lower part of the page: plots, gates, a glossary, what was run and how to repeat it.

use base64::Engine as _;
use maud::{Markup, PreEscaped, html};

use super::prose;
use crate::history::{FaultWindow, ResourceKind};
use crate::report::plots::{self, Plot};
use crate::report::results::faults_in_words;
use crate::report::story::{Story, fault_words};
use crate::report::terminal::in_folder;
use crate::scenario::{Fencing, Scenario};
use crate::words::{length, line, list, moment, tame};

/// The table shows at most this many faults.
const ROWS: usize = 300;
/// A table with more faults than this is collapsed.
const ROWS_UNFOLDED: usize = 12;

pub fn plots(story: &Story) -> Markup {
    html! {
        section id="plots" {
            h2 { "The run in pictures" }
            @for plot in plots::all(story) { (plot_of(&plot)) }
        }
    }
}

/// The plot as vectors if it has few shapes, else as pixels.
fn plot_of(plot: &Plot) -> Markup {
    let drawn = if plot.picture.is_large() {
        plots::fine_png(&plot.picture).map(|png| {
            let data = base64::engine::general_purpose::STANDARD.encode(png);
            html! { img width="900" height="400" alt=(plot.caption) src={ "data:image/png;base64," (data) }; }
        })
    } else {
        // The drawing library escapes texts itself.
        plots::svg(&plot.picture).map(|svg| html! { (PreEscaped(svg)) })
    };
    html! {
        figure class="plot" {
            @match drawn {
                Ok(drawn) => (drawn),
                Err(error) => p class="note" { "This plot could not be drawn: " (error) },
            }
            figcaption { (plot.caption) }
        }
    }
}

pub fn gates(story: &Story) -> Markup {
    let gates = &story.report.verdict.gates;
    html! {
        section id="gates" {
            h2 { "Does the run prove anything?" }
            p { "A run that fails one of these is unknown, never valid." }
            @if gates.is_empty() { p class="none" { "No gate was checked." } }
            @else {
                table class="gates" {
                    thead { tr { th { "gate" } th { "" } th { "what was found" } } }
                    tbody {
                        @for gate in gates {
                            tr class=[(!gate.passed).then_some("failed")] {
                                td { code { (tame(&gate.name, 60)) } }
                                td class="mark" { @if gate.passed { "passed" } @else { "FAILED" } }
                                td {
                                    (prose(&line(&gate.text, 600)))
                                    @if !gate.passed && gate.undermines_violations { " Violations in this run can't be trusted either." }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a lost update is if the next write hides it.
const ROLLED_BACK: &str = "An acknowledged update that was undone: a later read found a value from before it, and nobody saw it again. An update that is merely overwritten is not lost, and one that nobody read before the next write is not counted.";

/// Whether a term is only about locks.
fn of_locks(term: &str) -> bool {
    matches!(term, "overlap" | "TTL, validity")
}

pub fn terms(story: &Story) -> Markup {
    let unlocked = story.is_unlocked();
    let terms = [
        (
            "acknowledged update",
            match unlocked {
                true => "A write or compare-and-set that was confirmed to the client.",
                false => "A read-modify-write under the lock whose write the resource confirmed to the client.",
            },
        ),
        (
            "lost update",
            if unlocked {
                ROLLED_BACK
            } else {
                "An acknowledged update that no later value builds on: somebody overwrote it without having read it. Counted only where it is certain, however the operations without an answer are read."
            },
        ),
        (
            "overlap",
            "Two clients believed at once that they held the lock of one key, each from the moment it had acquired the lock to the moment it began to release it.",
        ),
        (
            "ok, fail, info",
            "How an operation ended: it happened; it certainly did not; nobody knows, so it may still take effect later, or never.",
        ),
        (
            "TTL, validity",
            "How long the lock lives on its nodes, and how much of that was left, by the client's own clock, when it had acquired the lock.",
        ),
        ("observed", "The fault's effect was seen, not only ordered. A fault that nobody saw proves nothing."),
    ];
    html! {
        section id="terms" {
            h2 { "What the words mean" }
            dl class="terms" { @for (term, meaning) in terms.into_iter().filter(|(term, _)| !unlocked || !of_locks(term)) { dt { (term) } dd { (meaning) } } }
        }
    }
}

pub fn scenario(story: &Story) -> Markup {
    let mut rows: Vec<(&str, String)> = Vec::new();
    match (story.report.scenario, &story.report.history.run) {
        (Some(scenario), _) => rows.extend(settings(scenario)),
        (None, Some(run)) => {
            rows.push(("workload", run.workload.clone()));
            rows.push(("nemesis", run.nemesis.clone()));
            rows.push(("clients, nodes, keys", format!("{}, {}, {}", run.clients, run.nodes, run.keys)));
            rows.push(("lock's TTL", ttl(run.expires, length(run.ttl_ms.saturating_mul(1_000_000)))));
            rows.push(("clients busy for", length(run.time_limit_ms.saturating_mul(1_000_000))));
            rows.push(("seed", run.seed.to_string()));
        }
        (None, None) => {}
    }
    html! {
        section id="scenario" {
            h2 { "What was run" }
            @if rows.is_empty() { p class="none" { "The history does not say." } }
            @else {
                table class="pairs" { tbody { @for (name, text) in rows { tr { th { (name) } td { (tame(&text, 800)) } } } } }
            }
        }
    }
}

fn settings(scenario: &Scenario) -> Vec<(&'static str, String)> {
    let workload = &scenario.workload;
    let kind = match workload.resource.kind {
        ResourceKind::Register => "register",
        ResourceKind::Counter => "counter",
        ResourceKind::List => "list",
        ResourceKind::Row => "row",
        ResourceKind::Replicated => "register on the nodes themselves",
        ResourceKind::None => "none: the lock alone",
    };
    let guard = match workload.resource.fencing {
        Fencing::None if workload.resource.kind == ResourceKind::Row => {
            "written in the transaction that holds the lock"
        }
        Fencing::None if workload.resource.kind == ResourceKind::Replicated => "read, written, compared and set",
        Fencing::None => "takes every write",
        Fencing::CompareAndSet => "refuses a write whose old value is not current",
        Fencing::Token => "refuses a write with a token older than one that has written",
        Fencing::TokenReads => "refuses a read or write with a token older than one that has read or written",
    };
    let resource = match workload.resource.kind {
        ResourceKind::None => kind.to_string(),
        _ => format!("{kind}, {guard}"),
    };
    let text = |duration: std::time::Duration| length(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let lock = match &workload.library {
        Some(library) => format!("{} {}, {}", library.name, library.version, workload.lock),
        None => workload.lock.to_string(),
    };
    let mut rows = vec![
        ("workload", format!("{}: {}", scenario.workload_name, workload.description)),
        ("its source", workload.source.clone()),
        ("lock", lock),
        ("resource", resource),
        ("nemesis", format!("{}: {}", scenario.nemesis_name, scenario.nemesis.description)),
        ("its story", scenario.nemesis.story.clone()),
        ("clients, nodes, keys", format!("{}, {}, {}", scenario.clients, scenario.nodes, scenario.keys)),
        ("nodes are", workload.topology.to_string()),
        ("lock's TTL", ttl(workload.lock.expires(), text(scenario.ttl))),
        ("holders think for", scenario.hold.to_string()),
        ("rate aimed at", format!("{} operations a second", scenario.rate)),
        ("wait for the lock", format!("at most {}", text(scenario.acquire_timeout))),
        ("clients busy for", text(scenario.time_limit)),
        ("seed", scenario.seed.to_string()),
    ];
    if workload.resource.kind == ResourceKind::Replicated {
        rows.retain(|(name, _)| !OF_LOCKS.contains(name));
        let mix = workload.operations.unwrap_or_default();
        rows.push(("cas thinks for", scenario.hold.to_string()));
        rows.push(("reads : writes : cas", format!("{} : {} : {}", mix.read, mix.write, mix.cas)));
    }
    rows
}

fn ttl(expires: bool, length: String) -> String {
    if expires { length } else { format!("none; the run counts in lengths of {length}") }
}

/// Settings that mean nothing without a lock.
const OF_LOCKS: [&str; 4] = ["lock", "lock's TTL", "holders think for", "wait for the lock"];

pub fn faults(story: &Story) -> Markup {
    let faults = &story.report.history.faults;
    let table = html! {
        table {
            thead { tr { th { "#" } th { "fault" } th { "target" } th { "ordered" } th { "lasted" } th { "observed" } th { "healed" } th { "what was seen" } } }
            tbody { @for fault in faults.iter().take(ROWS) { (fault_row(fault)) } }
        }
        @if faults.len() > ROWS { p class="fine" { (faults.len() - ROWS) " more in history.jsonl." } }
    };
    html! {
        section id="faults" {
            h2 { "Faults " span class="count" { (faults_in_words(story)) } }
            @if faults.is_empty() { p class="none" { "No faults were planned." } }
            @else if faults.len() <= ROWS_UNFOLDED { (table) }
            @else { details { summary { "All " (faults.len()) " faults" } (table) } }
        }
    }
}

fn fault_row(fault: &FaultWindow) -> Markup {
    let targets: Vec<String> = fault.targets.iter().take(6).map(|target| tame(target, 24)).collect();
    let (from, to) = fault.span();
    let seen = |step: Option<(u64, bool)>| match step {
        Some((_, true)) => "yes",
        Some((_, false)) => "NOT SEEN",
        None => "–",
    };
    html! {
        tr class=[(fault.skipped.is_none() && !(fault.was_observed() && fault.was_healed())).then_some("failed")] {
            td class="n" { (fault.fault) }
            td { (fault_words(fault.kind).0) }
            td { (if targets.is_empty() { "–".to_string() } else { list(&targets) }) }
            td class="n" { (moment(from)) }
            @if let Some(why) = &fault.skipped {
                td colspan="3" { "skipped" }
                td { (tame(why, 200)) }
            } @else {
                td class="n" { (to.map_or("never healed".to_string(), |to| length(to.saturating_sub(from)))) }
                td { (seen(fault.injected)) }
                td { (seen(fault.healed)) }
                td { (tame(&fault.texts.join("; "), 200)) }
            }
        }
    }
}

pub fn repeat(story: &Story) -> Markup {
    let facts = story.report.facts;
    let mut versions: Vec<(String, String)> =
        facts.versions.iter().map(|(name, version)| (name.clone(), version.clone())).collect();
    let known = |versions: &[(String, String)], name: &str| versions.iter().any(|(known, _)| known == name);
    if let Some(run) = &story.report.history.run
        && !known(&versions, "redjepsen")
    {
        versions.insert(0, ("redjepsen".to_string(), run.redjepsen.clone()));
    }
    for (name, text) in [("cluster", facts.cluster.as_str()), ("image", &facts.image), ("client", story.client())] {
        if !text.is_empty() {
            versions.push((name.to_string(), text.to_string()));
        }
    }
    let folder = if facts.folder.is_empty() { "RUN".to_string() } else { tame(&facts.folder, 300) };
    html! {
        section id="repeat" {
            h2 { "Run it again" }
            @if !facts.repeat.is_empty() {
                p {
                    @if story.is_simulated() { "The same run, event for event: in virtual time everything follows from the seed." }
                    @else { "The same plan, drawn from the same seed. The real run is not deterministic, so look at the rate of violations, not at one." }
                }
                pre { (facts.repeat) }
            }
            p { "Check this history again, without running anything:" }
            pre { "redjepsen check " (folder) }
            p class="fine" {
                "Every event is a line of " code { (in_folder(&tame(&facts.folder, 300), "history.jsonl")) }
                ", the verdict for programs is in " code { "results.json" } ", the pictures are beside them."
            }
            @if !versions.is_empty() {
                table class="pairs" { tbody { @for (name, text) in versions { tr { th { (tame(&name, 60)) } td { (tame(&text, 300)) } } } } }
            }
        }
    }
}
