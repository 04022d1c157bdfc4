//! The results of a hunt, as text.

use std::fmt::Write;

use super::{Found, Hunt, ShrinkEnd, Shrunk};
use base::words;
use checker::wilson_95;
use model::scenario::Scenario;

/// The outcome of a hunt.
pub fn summary(base: &Scenario, hunt: &Hunt, interrupted: bool) -> String {
    let mut text = String::new();
    let runs = words::plural(hunt.runs, "simulated run");
    let seconds = hunt.took.as_secs_f64();
    let verdict = match hunt.violations() {
        // Runs that prove nothing are no reassurance.
        0 if hunt.valid == 0 && hunt.runs > 0 => {
            format!("NOTHING SHOWN  no known outcome of {} in {runs}", base.workload_name)
        }
        0 => format!("NOTHING FOUND  no violation by {} in {runs}", base.workload_name),
        some => format!("BROKEN  {} in {} of {runs}", base.workload_name, words::count(some)),
    };
    let _ = writeln!(
        text,
        "{verdict}, in {seconds:.1} s ({} valid, {} unknown).",
        words::count(hunt.valid),
        words::count(hunt.unknown())
    );
    if hunt.violations() == 0 && hunt.valid == 0 && hunt.runs > 0 {
        let _ = writeln!(text, "  All runs were unknown. Choose other faults, or a longer --time-limit.");
    }
    if interrupted {
        let _ = writeln!(text, "  interrupted: what was found so far is kept");
    }
    if hunt.unknown() > 0 {
        let mut gates: Vec<(&String, &u64)> = hunt.nothing.iter().collect();
        gates.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let gates: Vec<String> =
            gates.into_iter().map(|(gate, count)| format!("{gate} {}", words::count(*count))).collect();
        let _ = writeln!(text, "  failed gates  {}", gates.join(", "));
    }
    if hunt.unclear > 0 {
        let _ = writeln!(text, "  violations outside the script  {}", words::count(hunt.unclear));
    }
    for (cause, found) in &hunt.found {
        let _ = writeln!(text, "\n  {cause}: {}", rate(found, hunt.runs));
    }
    text
}

/// How many runs have this cause, with the interval of its rate.
fn rate(found: &Found, runs: u64) -> String {
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let interval = wilson_95(found.count, runs)
        .map(|(low, high)| format!(", {} to {} % of runs like these", percent(low), percent(high)))
        .unwrap_or_default();
    let after = found.after.as_secs_f64();
    format!(
        "{}{interval} (95 %), first after {after:.2} s, seed {}",
        words::plural(found.count, "run"),
        found.seeds.first().copied().unwrap_or_default()
    )
}

/// The steps of a script, as text.
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
