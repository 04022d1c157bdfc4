//! The results of a library, as text and as a page.

mod defects;
mod html;
mod remarks;
mod text;

pub use html::html;
pub use text::terminal;

use std::collections::BTreeSet;

use defects::{defects, named};
use remarks::{fault_free, remarks};

use crate::library::commands::ObservedCommand;
use crate::library::examined::{Examined, Found, Symptom, Tried};
use crate::library::kind::Baseline;
use base::words::{length, list, plural};
use checker::Validity;

/// The file name of the page, in the folder of the catalogue's runs.
pub const FILE: &str = "library.html";

/// The defects that the library's commands show, and the scenarios that it fails.
fn headline(examined: &Examined) -> String {
    let crashed = base::words::unless_none(remarks::crashes(examined), |many| {
        format!(". Its program exits under a fault in {}", plural(many, "scenario"))
    });
    verdict(examined) + &crashed
}

fn verdict(examined: &Examined) -> String {
    match named(examined, &defects(examined)) {
        // A name keeps its capitalization.
        Some(named) => {
            let failed = failed(examined);
            let is_name = failed.starts_with(&examined.name);
            format!("{named}. {}", if is_name { failed } else { base::words::capital(&failed) })
        }
        None => failed(examined),
    }
}

/// `redis-py Lock 8.1.0 fails 8 of 46 scenarios: 3 that similar locks also fail (a lock with a TTL, on one node); 5 that the
/// reference lock passes`.
fn failed(examined: &Examined) -> String {
    let fell = examined.that(Validity::Invalid).len();
    let shown = fell + examined.that(Validity::Valid).len();
    if fell == 0
        && let Some(headline) = nothing_fell(examined, shown)
    {
        return headline;
    }
    let of = |kind| examined.that(Validity::Invalid).iter().filter(|tried| tried.of_its_kind == kind).count();
    let parts = [
        (Baseline::Falls, format!("that similar locks also fail ({})", examined.kind)),
        (Baseline::Holds, format!("that the reference lock {} passes", reference(examined))),
        (Baseline::Unexcused, "in which no fault hit a live client".to_string()),
        (Baseline::Outlived, "in which a client held the lock for longer than its TTL".to_string()),
        (Baseline::Unknown, "without an explanation".to_string()),
    ];
    let parts = parts.into_iter().map(|(kind, what)| (of(kind), what)).filter(|(many, _)| *many > 0);
    let parts: Vec<String> = parts.map(|(many, what)| format!("{many} {what}")).collect();
    let scenarios = plural(shown as u64, "scenario");
    // Most runs were inconclusive, which weakens the result of the others.
    let (few, name) = match shows_little(examined) {
        true => {
            let (all, was) = (examined.tried.len(), if shown == 1 { "was" } else { "were" });
            (
                format!("Only {shown} of {} {was} conclusive for {}: ", plural(all as u64, "scenario"), examined.name),
                "it",
            )
        }
        false => (String::new(), &*examined.name),
    };
    let plain: Vec<&Tried> = examined.that(Validity::Invalid).into_iter().filter(|tried| tried.plain).collect();
    let parts = parts.join("; ");
    let what = match fell {
        0 if !few.is_empty() => format!("{name} passed {}", if shown == 1 { "that scenario" } else { "all of them" }),
        0 => format!("{name} passed all {}", plural(shown as u64, "conclusive scenario")),
        _ if plain.iter().any(|tried| tried.is_certain()) => {
            let by_threads = plain.iter().filter(|tried| tried.is_certain()).all(|tried| tried.by_threads);
            let by = if by_threads { by_whom(examined) } else { String::new() };
            format!("{name} fails even without injected faults{by}; it fails {fell} of {scenarios}: {parts}")
        }
        _ if !plain.is_empty() => {
            let (broken, of) = plain.iter().map(|tried| tried.broken()).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            let runs = plural(of as u64, "run");
            format!(
                "{name} fails {fell} of {scenarios}: {parts}; without injected faults it fails in {broken} of {runs}"
            )
        }
        _ => format!("{name} fails {fell} of {scenarios}: {parts}"),
    };
    few + &what
}

/// The headline of a library that no scenario breaks, if there are other defects or too few runs. None if there is nothing to
/// add. Known defects come first: no praise may stand above a defect.
fn nothing_fell(examined: &Examined, shown: usize) -> Option<String> {
    let Examined { name, not_made, .. } = examined;
    let (made, all) = (examined.runs(), examined.tried.len());
    let scenarios = match shown {
        0 => "no run was conclusive".to_string(),
        1 => format!("only 1 of {} was conclusive, and the library did not fail it", plural(all as u64, "scenario")),
        _ => format!("{shown} of {} were conclusive, and the library failed none", plural(all as u64, "scenario")),
    };
    let is_little = is_too_little(examined);
    let too_little = format!("redjepsen has run {made} of {} so far", plural((made + not_made) as u64, "run"));
    let (alone, beside) = (fault_free(examined).len() as u64, remarks(examined).len() as u64);
    let defects = match (alone, beside) {
        (0, 0) => None,
        (0, beside) => Some(format!("{name} has {} that violates no claim", plural(beside, "kind") + " of defect")),
        (alone, _) => Some(format!("{name} shows {} even in runs without injected faults", plural(alone, "defect"))),
    };
    match (defects, is_little) {
        (Some(defects), true) => Some(format!("{defects}; its claims are not tested enough yet: {too_little}")),
        (Some(defects), false) => Some(format!("{defects}; {scenarios}")),
        (None, true) => Some(format!("Too few runs of {name} yet: {too_little}; {scenarios}")),
        (None, false) if shown == 0 => Some(format!("No result for {name}: {scenarios}")),
        (None, false) => None,
    }
}

/// True if most runs are still missing, so that passed scenarios say nothing about the library yet.
fn is_too_little(examined: &Examined) -> bool {
    let shown = examined.that(Validity::Valid).len() + examined.that(Validity::Invalid).len();
    examined.not_made > 0 && (shown < FEW || examined.not_made > examined.runs())
}

/// With fewer conclusive scenarios than this, and more to come, a library is not rated.
const FEW: usize = 10;

/// The condition for failures that do not occur with one client per process.
const BY_THREADS: &str = "if threads share a process";

/// The condition for failures without a fault. If as many processes pass, the threads are the cause. If the processes fail too,
/// the number of clients is.
fn by_whom(examined: &Examined) -> String {
    match examined.crowd_of_processes() {
        Some(Validity::Valid) => format!(", {BY_THREADS}"),
        Some(Validity::Invalid) => String::new(),
        _ => format!(", {BY_THREADS} (there is no conclusive run with one process per client)"),
    }
}

/// True if fewer than half of the scenarios are conclusive.
fn shows_little(examined: &Examined) -> bool {
    examined.that(Validity::Unknown).len() * 2 > examined.tried.len()
}

fn reference(examined: &Examined) -> String {
    examined.kind.reference.as_ref().map_or("nothing".to_string(), |name| format!("`{name}`"))
}

/// The meaning of this symptom. Symptoms of the same rank share it.
fn meaning(symptom: &Symptom, examined: &Examined) -> String {
    match symptom.of_its_kind {
        _ if symptom.is_plain() => "Fails without injected faults".to_string(),
        Baseline::Holds => format!("Library defect: the reference lock {}, {}, passes", reference(examined), examined.kind),
        Baseline::Unknown => {
            "Not explained: no reference run had the same fault, or the failure happens only in some runs, only with late \
             timers, or also without a fault"
                .to_string()
        }
        Baseline::Unexcused => "Library defect: no fault hit a live client, and an expired TTL is not the cause".to_string(),
        Baseline::Outlived => "Known limitation: a client held the lock for longer than its TTL, and nothing renews this lock".to_string(),
        Baseline::Falls => format!("Known limitation: the reference lock {}, {}, fails too", reference(examined), examined.kind),
    }
}

/// `EVAL while it takes the lock: lost update, in 7 of 7 runs of 4 scenarios; \`single\` passes`.
fn symptom(symptom: &Symptom, examined: &Examined) -> String {
    let mut struck: Vec<String> = Vec::new();
    for (place, when) in symptom.when.iter().enumerate() {
        let command = symptom.commands.get(place).copied().unwrap_or_default();
        let command = if command.is_empty() { "struck" } else { command };
        struck.push(format!("{command} {when}"));
    }
    let struck = match struck.is_empty() {
        true if symptom.is_plain() && symptom.is_by_threads() => {
            format!("without any fault{}", by_whom(examined))
        }
        true if symptom.is_plain() => "without any fault".to_string(),
        true if symptom.is_by_threads() => BY_THREADS.to_string(),
        true => at_no_client(symptom),
        false => struck.join(", then "),
    };
    let (broken, of) = symptom.broken();
    let scenarios = plural(symptom.tried.len() as u64, "scenario");
    let fate = match symptom.of_its_kind {
        Baseline::Holds => format!("{} passes{}", reference(examined), seldom_by_itself(symptom, examined)),
        Baseline::Falls => format!("{} fails, too", reference(examined)),
        Baseline::Unexcused => "no fault hit a live client".to_string(),
        Baseline::Outlived => "the TTL had expired".to_string(),
        Baseline::Unknown if examined.share_by_itself(symptom).is_some() && !symptom.is_plain() => {
            "also fails without a fault".to_string()
        }
        Baseline::Unknown => symptom.why_unexplained().unwrap_or("no run to compare with").to_string(),
    };
    format!("{struck}: {}, in {broken} of {} of {scenarios}; {fate}", symptom.anomaly, plural(of as u64, "run"))
}

/// A remark on runs without a fault that fail in the same way, though seldom. Empty if there are none.
fn seldom_by_itself(symptom: &Symptom, examined: &Examined) -> String {
    let share = examined.share_by_itself(symptom).filter(|_| !symptom.is_plain());
    share.map_or(String::new(), |(broken, of)| {
        format!("; without a fault it fails in {broken} of {}", plural(of as u64, "run"))
    })
}

/// The faults of nodes and links, if no client was hit: `refusal of writes of n0`.
fn at_no_client(symptom: &Symptom) -> String {
    let first = symptom.tried.iter().find_map(|tried| tried.telling());
    let mut struck: Vec<&str> = first.iter().flat_map(|run| &run.struck).map(|struck| &*struck.what).collect();
    struck.dedup();
    if struck.is_empty() { "without a fault".to_string() } else { struck.join(", then ") }
}

/// The faults that hit a lock that passed, how often, and their effect. Then the defects that did harm in these runs.
fn withstood(tried: &Tried) -> String {
    let mut parts = Vec::new();
    if let Some(run) = tried.telling().filter(|run| !run.struck.is_empty()) {
        let struck: Vec<String> = run.struck.iter().map(ToString::to_string).collect();
        let (strikes, runs) = (tried.strikes(), tried.broken().1);
        let often = match (strikes, runs) {
            (1, 1) => "once".to_string(),
            _ => format!("the fault fired {} in {}", plural(strikes, "time"), plural(runs as u64, "run")),
        };
        parts.push(format!("{} ({often})", struck.join("; and ")));
    }
    let shown = tried.runs.iter().flat_map(|run| &run.diagnoses).map(|account| &account.diagnosis);
    let harmful = shown.filter(|diagnosis| diagnosis.is_harmful() && !diagnosis.inherent);
    let codes: BTreeSet<&str> = harmful.map(|diagnosis| &*diagnosis.code).collect();
    if !codes.is_empty() {
        let codes: Vec<String> = codes.into_iter().map(str::to_string).collect();
        parts.push(format!("no claim was violated, but {} did harm", list(&codes)));
    }
    parts.join("; ")
}

/// `3 of 3 runs, 6 steps of 14: file`.
fn shrunk(found: &Found) -> String {
    let Found { steps, steps_before, tried, came_back, of, .. } = found;
    let size = if steps == steps_before {
        format!("all of its {steps} steps")
    } else {
        format!("{steps} of its {steps_before} steps")
    };
    let all = if found.finished { "" } else { ", and there was no time to try more" };
    format!(
        "{size}, after {} on real servers{all}; failed again in {came_back} of {} with other seeds",
        plural(*tried, "trial"),
        plural((*of).into(), "run")
    )
}

/// `SET lock:k0 … NX PX 1000`, with the commands that its script calls.
fn command(sent: &ObservedCommand) -> String {
    match sent.calls.is_empty() {
        true => sent.example.clone(),
        false => format!("{} (calls {})", sent.example, sent.calls.join(", ")),
    }
}

/// `2 of 2 runs`.
fn broken(tried: &Tried) -> String {
    let (broken, of) = tried.broken();
    format!("{broken} of {}", plural(of as u64, "run"))
}

fn facts(examined: &Examined) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("kind", examined.kind.to_string()),
        ("compared with", reference(examined)),
        ("TTL", examined.ttls.join(", ")),
        ("tried", format!("{} in {}", plural(examined.runs() as u64, "run"), length(examined.took.as_nanos() as u64))),
    ];
    for (ttl, why) in &examined.refused {
        facts.push(("TTL refused", format!("{ttl}: {why}")));
    }
    if !examined.sent.is_empty() && examined.sent.iter().all(|sent| sent.key.is_none()) {
        let why = "no command contains the operation's key, so redjepsen found no command for its faults; does the adapter pass \
            the whole key to the library?";
        facts.push(("commands", why.to_string()));
    }
    if examined.not_made > 0 {
        facts.push(("not tried", format!("{}, for lack of time", plural(examined.not_made as u64, "run"))));
    }
    let versions =
        examined.versions.iter().map(|(what, version)| match version.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("{what} {version}"),
            false => version.clone(),
        });
    facts.push(("ran on", versions.collect::<Vec<_>>().join(", ")));
    facts
}
