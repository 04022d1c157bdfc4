//! Checks the sentences in reports of simulated runs. The reader knows only docs/histories.md, docs/client-protocol.md and
//! docs/verdicts.md, and trusts only the history. Named causes are tested by leaving them out. `REDJEPSEN_CASES=2000` reads this
//! many incidents.

mod headlines;
mod lines;
mod pattern;
mod sentences;
mod summaries;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use checker::{HowKind, Validity};
use model::history::{FaultKind, load_reader};
use model::nemesis::Expectation;
use model::scenario::{Options, Scenario, catalogue};
use report::RunFacts;
use runner::Checked;
use runner::simulate::{simulate, simulated_history};

use crate::kit::{self, cases, on_all_processors, scenario};
use lines::Lines;
use sentences::Scene;

/// The default number of incidents to read: those of about two hundred runs, which take two processors ten seconds.
const INCIDENTS: u32 = 150;
/// This many runs are made at the same time.
const AT_ONCE: usize = 32;
/// At most this many incidents of one run are read, so that many runs are read.
const OF_ONE_RUN: usize = 12;
/// Kinds of headlines and sentences on incidents that must occur.
const KINDS: [&str; 11] = [
    "headline: lost",
    "headline: kept",
    "headline: overlap",
    "headline: stuck",
    "took the lock",
    "fault",
    "wrote",
    "both held",
    "by its own clock",
    "cause: promoted",
    "lost",
];

/// Pairs of workload and nemesis that can be simulated, in a mixed order, round after round. The first round has the pairs with
/// an expected violation, the second all pairs, and so on.
fn scenarios() -> impl Iterator<Item = Scenario> {
    let all = || {
        (catalogue::WORKLOADS.iter())
            .flat_map(|(workload, _)| catalogue::NEMESES.iter().map(move |(nemesis, _)| (*workload, *nemesis)))
    };
    let is_broken = |(workload, nemesis): &(&str, &str)| {
        let (_, of_workload) = catalogue::workload(workload).unwrap();
        let (_, of_nemesis) = catalogue::nemesis(nemesis).unwrap();
        let expected = of_workload.expect.get(*nemesis).or(of_nemesis.expect.get(*workload)).copied();
        expected == Some(Expectation::Violation)
    };
    let broken: Vec<(&str, &str)> = mixed(all().filter(is_broken).collect());
    // The second round has all pairs, and so has every tenth round after it.
    let pairs = (1..).flat_map(move |seed| {
        let round = if seed % 10 == 2 { mixed(all().collect()) } else { broken.clone() };
        round.into_iter().map(move |pair| (pair, seed))
    });
    let of_catalogue = pairs.filter_map(|((workload, nemesis), seed)| {
        let options = Options { time_limit: Some("9s".parse().unwrap()), ..kit::options(workload) };
        let scenario = options.scenario(workload, nemesis, seed, Path::new("")).ok();
        // Clients that are separate programs do not run in virtual time.
        scenario.filter(|scenario| scenario.workload.client.is_none())
    });
    // Every fourth scenario is one with rare sentences.
    let mut seldom = seldom();
    of_catalogue.enumerate().flat_map(move |(number, one)| {
        let other = if number % 3 == 0 { seldom.next() } else { None };
        other.into_iter().chain([one])
    })
}

/// Runs without a lock, with readers beside writers, with tokens, and with resources that refuse late writes.
fn seldom() -> impl Iterator<Item = Scenario> {
    let pairs = [
        ("none", "none"),
        ("register-sentinel", "split-brain"),
        ("shared", "none"),
        ("redlock-tokens", "uneven-tokens"),
        ("none", "pause"),
        ("register-sentinel", "lost-write"),
        ("shared", "pause"),
        ("redlock-guarded", "pause"),
        ("none", "packets"),
        ("register-sentinel", "failover"),
        ("none", "all"),
        ("paired-token", "pause"),
        ("none", "partition"),
    ];
    (1..).flat_map(move |seed| pairs.into_iter().map(move |pair| (pair, seed))).filter_map(
        |((workload, nemesis), seed)| {
            let options = Options { time_limit: Some("4s".parse().unwrap()), ..Options::default() };
            let name = if workload == "shared" { "perfect-shared" } else { workload };
            let mut scenario = options.scenario(name, nemesis, seed, Path::new("")).ok()?;
            if workload == "shared" {
                // A lock that lets three in, so that a writer comes beside readers.
                let lock = serde_json::json!({"perfect": {"retry_delay": "10ms..50ms", "holders": 3}});
                scenario.workload.lock = serde_json::from_value(lock).unwrap();
            }
            Some(scenario)
        },
    )
}

/// The same elements in another order: a step without a common divisor with their number reaches each element once.
fn mixed<T: Copy>(all: Vec<T>) -> Vec<T> {
    let step = (1..).map(|n| all.len() * 3 / 5 + n).find(|step| gcd(*step, all.len()) == 1).unwrap();
    (0..all.len()).map(|number| all[number * step % all.len()]).collect()
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Reads every sentence on a run, and adds it to the counts by kind. Returns the number of incidents, and the errors.
fn read_run(history: &[u8], scenario: &Scenario, counts: &mut BTreeMap<&'static str, u64>) -> (usize, Vec<String>) {
    let loaded = load_reader(history, "history").unwrap();
    let checked = Checked::new(loaded, Some(scenario.clone()), RunFacts::default());
    let lines = Lines::read(history);
    let summary = checked.report().summary;
    let incidents: Vec<_> = summary.incidents.iter().map(|incident| &incident.sentences).collect();
    let mut wrong = Vec::new();
    let headline = &summary.one_line;
    match headlines::check(&lines, headline) {
        Ok(kind) => *counts.entry(kind).or_default() += 1,
        Err(reason) => wrong.push(format!("{headline}\n      {reason}")),
    }
    for incident in incidents.iter().copied().take(OF_ONE_RUN) {
        let mut scene = Scene::new(&lines);
        let mut in_turn: Vec<_> = incident.iter().collect();
        // If a fault began before the first holder, its sentence comes first. It can be checked only once the holder is known.
        let alone = in_turn.first().map(|one| sentences::check(&mut Scene::new(&lines), one.text(), one.lines()));
        if in_turn.len() > 1 && matches!(alone, Some(Err(reason)) if sentences::NEEDS_A_HOLDER.contains(&&*reason)) {
            in_turn.swap(0, 1);
        }
        for sentence in in_turn {
            match sentences::check(&mut scene, sentence.text(), sentence.lines()) {
                Ok(kind) => *counts.entry(kind).or_default() += 1,
                Err(reason) => {
                    let all: Vec<&str> = incident.iter().map(|sentence| sentence.text()).collect();
                    wrong.push(format!("{}\n      {reason}\n      in: {}", sentence.text(), all.join(" ")));
                }
            }
        }
    }
    (incidents.len().min(OF_ONE_RUN), wrong)
}

#[test]
fn every_sentence_on_simulated_incidents_is_true() {
    let wanted = cases(INCIDENTS) as usize;
    let (mut incidents, mut runs, mut counts, mut wrong) = (0, 0, BTreeMap::new(), Vec::new());
    let mut scenarios = scenarios();
    // The catalogue determines which runs come first, so more runs are read until each kind has occurred.
    let missing = |counts: &BTreeMap<&str, u64>| KINDS.into_iter().find(|kind| !counts.contains_key(kind));
    while incidents < wanted || missing(&counts).is_some() && runs < 4 * wanted {
        let some: Vec<Scenario> = scenarios.by_ref().take(AT_ONCE).collect();
        let histories = on_all_processors(&some, |scenario| simulated_history(scenario).ok());
        for (scenario, history) in some.iter().zip(histories) {
            let Some(history) = history else { continue };
            let (read, found) = read_run(&history, scenario, &mut counts);
            (incidents, runs) = (incidents + read, runs + 1);
            let name = format!("{} under {}, seed {}", scenario.workload_name, scenario.nemesis_name, scenario.seed);
            wrong.extend(found.into_iter().map(|text| format!("{name}:\n    {text}")));
        }
    }
    let read: u64 = counts.values().sum();
    println!("{read} sentences on {incidents} incidents of {runs} runs: {counts:?}");
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    assert_eq!(missing(&counts), None, "nothing was said of this kind");
}

/// The same for runs on real servers: all runs below the folders in `RUNS`, separated by colons.
#[test]
#[ignore = "reads the runs that somebody made: RUNS=store cargo test --test offline words::every -- --ignored --nocapture"]
fn every_sentence_on_stored_runs_is_true() {
    let folders = std::env::var("RUNS").expect("RUNS names folders of runs");
    let mut open: Vec<PathBuf> = folders.split(':').map(PathBuf::from).collect();
    let (mut incidents, mut runs, mut counts, mut wrong) = (0, 0, BTreeMap::new(), Vec::new());
    while let Some(folder) = open.pop() {
        let inside = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
        // Links such as `latest` lead to runs that are read anyway.
        open.extend(inside.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()));
        let (history, scenario) = (fs::read(folder.join("history.jsonl")), Scenario::read(&folder));
        let (Ok(history), Ok(scenario)) = (history, scenario) else { continue };
        let (read, found) = read_run(&history, &scenario, &mut counts);
        (incidents, runs) = (incidents + read, runs + 1);
        wrong.extend(found.into_iter().map(|text| format!("{}:\n    {text}", folder.display())));
    }
    let read: u64 = counts.values().sum();
    println!("{read} sentences on {incidents} incidents of {runs} runs: {counts:?}");
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(incidents > 0, "nothing was told of {runs} runs");
}

/// The other side: a changed name, number or value in a true sentence is nearly always detected. Some changed sentences are still
/// true, such as a length that is the same to its last digit.
#[test]
fn a_sentence_that_was_changed_is_not_believed() {
    let (mut believed, mut changed) = (Vec::new(), 0);
    for (workload, nemesis) in
        [("redlock", "pause"), ("replicated", "failover"), ("counter", "pause"), ("fenced", "pause")]
    {
        let scenario = Options::default().scenario(workload, nemesis, 3, Path::new("")).unwrap();
        let history = simulated_history(&scenario).unwrap();
        let lines = Lines::read(&history);
        let loaded = load_reader(&history[..], "history").unwrap();
        let checked = Checked::new(loaded, Some(scenario), RunFacts::default());
        for incident in checked.report().summary.incidents.iter().take(4) {
            let mut scene = Scene::new(&lines);
            for sentence in &incident.sentences {
                for text in changes(sentence.text()) {
                    let mut before = Scene { lines: &lines, first: scene.first, last: scene.last, told: scene.told };
                    changed += 1;
                    if sentences::check(&mut before, &text, sentence.lines()).is_ok() {
                        believed.push(text);
                    }
                }
                sentences::check(&mut scene, sentence.text(), sentence.lines()).unwrap();
            }
        }
    }
    assert!(changed > 300, "{changed} changes");
    assert!(believed.len() * 50 < changed, "{} of {changed}: {}", believed.len(), believed.join("\n"));
}

/// The same sentence with another digit, for each digit that begins a name's number or a number.
fn changes(text: &str) -> Vec<String> {
    let digits = text.char_indices().filter(|(at, c)| {
        let before = text[..*at].chars().next_back();
        c.is_ascii_digit() && before.is_none_or(|before| !before.is_ascii_digit() && before != '.')
    });
    let other = |c: char| if c == '1' { '2' } else { '1' };
    digits.map(|(at, c)| format!("{}{}{}", &text[..at], other(c), &text[at + 1..])).collect()
}

/// Without the fault, the violation is gone, or something else explains it.
#[test]
fn a_fault_that_is_named_is_needed() {
    let scripted: Vec<Scenario> =
        scenarios().take(3 * cases(150) as usize).filter(|one| !one.nemesis.script.is_empty()).collect();
    let tried = on_all_processors(&scripted[..scripted.len().min(cases(150) as usize)], without_the_cause);
    let (mut gone, mut wrong) = (0, Vec::new());
    for found in tried.into_iter().flatten() {
        match found {
            Ok(()) => gone += 1,
            Err(text) => wrong.push(text),
        }
    }
    println!("{gone} causes are needed, {} are not", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(gone > 20, "only {gone} causes were tried");
}

/// The result of a run without the fault that explains its first incident; None if no fault explains it.
fn without_the_cause(scenario: &Scenario) -> Option<Result<(), String>> {
    let named = |checked: &Checked| -> Option<(String, FaultKind)> {
        let story = checked.report().story;
        let incident = story.incidents.first().filter(|incident| incident.claimed)?;
        let is_more = incident
            .how()
            .is_some_and(|how| matches!(how.kind, HowKind::Breakpoint | HowKind::Stolen | HowKind::Promoted));
        incident.fault.filter(|_| !is_more).map(|fault| (fault.what.clone(), fault.kind))
    };
    let checked = simulate(scenario).ok().filter(|checked| checked.verdict.valid == Validity::Invalid)?;
    let (what, _) = named(&checked)?;
    let mut without = scenario.clone();
    without.nemesis.script.retain(|step| {
        let text = step.to_string();
        text != what && text != format!("heal {what}") && !text.starts_with(&format!("await {what}"))
    });
    if without.nemesis.script.len() == scenario.nemesis.script.len() {
        return None;
    }
    let again = simulate(&without).ok()?;
    let still = again.verdict.valid == Validity::Invalid;
    let explained = {
        let story = again.report().story;
        story.incidents.first().is_some_and(|incident| incident.fault.is_some() || incident.how().is_some())
    };
    let name = format!("{} under {}, seed {}", scenario.workload_name, scenario.nemesis_name, scenario.seed);
    Some(if still && !explained {
        Err(format!(
            "{name}: `{what}` is named, and it is broken alike without:\n  {}\n  {}",
            checked.report().summary.one_line,
            again.report().summary.one_line
        ))
    } else {
        Ok(())
    })
}

#[test]
fn whoever_gets_the_lock_when_its_pause_is_over_was_no_holder_in_it() {
    let headline = |workload, nemesis| {
        let history = simulated_history(&scenario(workload, nemesis, 3, "12s")).unwrap();
        let checked = Checked::new(load_reader(&history[..], "history").unwrap(), None, RunFacts::default());
        checked.report().summary.headline
    };
    let (waiting, holding) = (headline("redlock-wall", "slow-client-clock"), headline("redlock", "pause"));
    assert!(waiting.ends_with("when a client was paused."), "{waiting}");
    assert!(holding.ends_with("when its holder was paused."), "{holding}");
}
