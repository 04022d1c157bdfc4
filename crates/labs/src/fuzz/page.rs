//! The results of a hunt, as text.

use std::fmt::Write;

use super::{Found, Hunt, ShrinkEnd, Shrunk};
use base::words;
use checker::{GateName, wilson_95};
use model::scenario::Scenario;

pub fn summary(base: &Scenario, hunt: &Hunt, interrupted: bool) -> String {
    let mut text = String::new();
    let runs = words::plural(hunt.runs, "simulated run");
    let seconds = hunt.took.as_secs_f64();
    // Runs that prove nothing are no reassurance.
    let proves_nothing = hunt.violations() == 0 && hunt.valid == 0 && hunt.runs > 0;
    let verdict = match hunt.violations() {
        0 if proves_nothing => {
            format!("NOTHING SHOWN  none of {runs} of {} proved anything", base.workload_name)
        }
        0 => format!("NOTHING FOUND  no violation by {} in {runs}", base.workload_name),
        some => format!("BROKEN  {} failed in {} of {runs}", base.workload_name, words::count(some)),
    };
    let unclear = words::unless_none(hunt.unclear, |some| format!(", {some} not counted"));
    let _ = writeln!(
        text,
        "{verdict}, in {seconds:.1} s ({} valid, {} unknown{unclear}).",
        words::count(hunt.valid),
        words::count(hunt.unknown())
    );
    if interrupted {
        let _ = writeln!(text, "  interrupted: the findings so far are kept");
    }
    let mut gates: Vec<(&String, &u64)> = hunt.nothing.iter().collect();
    gates.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (row, (gate, count)) in gates.iter().enumerate() {
        let label = if row == 0 { "unknown" } else { "" };
        let _ = writeln!(text, "  {label:13}{}: {}", words::plural(**count, "run"), unmet(gate));
    }
    if hunt.unclear > 0 {
        let runs = words::plural(hunt.unclear, "run");
        let _ = writeln!(
            text,
            "  {:13}{runs}: something other than the script may have caused the violation",
            "not counted"
        );
    }
    if proves_nothing {
        let first = gates.first().and_then(|(gate, _)| GateName::ALL.iter().find(|one| one.word() == gate.as_str()));
        let advice = match first {
            Some(GateName::ScriptPlayed) if !base.nemesis.script.is_empty() => {
                "Choose another --nemesis: this script does not fit the lock."
            }
            Some(GateName::ScriptPlayed) => "Choose other --faults: these have no effect on the lock.",
            _ => "Use a longer --time-limit, or choose other faults.",
        };
        let _ = writeln!(text, "  {:13}{advice}", "do");
    }
    for (cause, found) in &hunt.found {
        let _ = writeln!(text, "\n  {cause}: {}", rate(found, hunt.runs));
    }
    text
}

/// Says of a failed gate why its run is unknown.
fn unmet(gate: &str) -> &str {
    let Some(gate) = GateName::ALL.iter().find(|one| one.word() == gate) else { return gate };
    match gate {
        GateName::Completed => "the run did not reach its planned end",
        GateName::ResourceEmpty => "the resource was not empty at the start",
        GateName::ClientsReady => "a client was not ready",
        GateName::NodesReady => "a node did not answer at the start",
        GateName::ClientsSteady => "a client failed on its own",
        GateName::ClientsConsistent => "a client contradicted itself",
        GateName::ClientsCareful => "a client released the lock with a write still under way",
        GateName::ScriptPlayed => "a step of the script had no effect",
        GateName::CancellationsTaken => "a cancelled operation did not end as cancelled",
        GateName::FaultsObserved => "a fault was not observed",
        GateName::FaultsHealed => "the end of a fault was not observed",
        GateName::NodesHealthy => "a node did not answer at the end",
        GateName::FinalReads => "a key was not read at the end",
        GateName::EnoughAcknowledged => "too few updates were acknowledged",
        GateName::EveryClient => "a client had no update acknowledged",
        GateName::Contention => "clients did not compete for the lock",
        GateName::FaultsMetHolds => "no fault hit a holder or an operation in progress",
        GateName::ProgressBefore => "no update was acknowledged before the faults",
        GateName::ProgressDuring => "the updates during the faults were not as the nemesis expects",
        GateName::ProgressAfter => "no update was acknowledged after the faults",
        GateName::BreakpointsBrief => "the script held a client until its lock had expired",
    }
}

/// How many runs have this cause, with the interval of its rate.
fn rate(found: &Found, runs: u64) -> String {
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let interval = wilson_95(found.count, runs)
        .map(|(low, high)| format!(" (95% interval of the rate: {}% to {}%)", percent(low), percent(high)))
        .unwrap_or_default();
    let after = found.after.as_secs_f64();
    format!(
        "{}{interval}, first after {after:.2} s, seed {}",
        words::plural(found.count, "run"),
        found.seeds.first().copied().unwrap_or_default()
    )
}

pub fn steps(shrunk: &Shrunk) -> String {
    let script = &shrunk.scenario.nemesis.script;
    let larger = match shrunk.end {
        ShrinkEnd::Smallest => "",
        ShrinkEnd::CutShort => " (no time to shrink it further)",
        ShrinkEnd::ByLuck => " (it depends on network timing, so it is not shrunk)",
    };
    let size = match script.len() {
        0 => "without a step: running clients are enough".to_string(),
        steps => format!("in {}", words::plural(steps as u64, "step")),
    };
    let end = if script.is_empty() { "." } else { ":" };
    let mut text = format!("\n{}, {size}{larger}{end}\n", shrunk.cause);
    for (number, step) in (1..).zip(script) {
        let _ = writeln!(text, "  {number:>2}. {step}");
    }
    text
}
