//! Tries the advice in reports. A remedy that a report gives for an incident must prevent it in its own run. The advice for an
//! inconclusive run must lead to a conclusive run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use checker::Validity;
use clap::ValueEnum;
use model::scenario::{Fencing, Options, Scenario, catalogue};
use model::topology::ClusterKind;
use runner::Checked;
use runner::simulate::{can_be_simulated, simulate};
use summary::RunSummary;

use crate::kit::{self, on_all_processors};

/// A workload under a nemesis, with the command that repeats its run.
struct Cell {
    scenario: Scenario,
    repeat: String,
}

impl Cell {
    /// None if the combination is invalid, or can't be simulated.
    fn new(workload: &str, nemesis: &str, seed: u64) -> Option<Cell> {
        let server =
            kit::options(workload).server.iter().map(|server| format!(" --server {server}")).collect::<String>();
        let repeat =
            format!("redjepsen run --workload {workload} --nemesis {nemesis} --cluster sim{server} --seed {seed}");
        Cell::of(&repeat).filter(|cell| can_be_simulated(&cell.scenario).is_ok())
    }

    /// The scenario of a command; None if the command is refused.
    fn of(command: &str) -> Option<Cell> {
        let words = shlex::split(command).unwrap();
        assert_eq!(words[..2], ["redjepsen", "run"], "{command}");
        let (mut workload, mut nemesis, mut seed) = ("redlock", "pause", 1);
        let mut options = Options { cluster: Some(ClusterKind::SIM), ..Options::default() };
        for pair in words[2..].chunks(2) {
            let value = pair[1].as_str();
            match pair[0].as_str() {
                "--workload" => workload = value,
                "--nemesis" => nemesis = value,
                "--seed" => seed = value.parse().unwrap(),
                "--ttl" => options.ttl = Some(value.parse().unwrap()),
                "--time-limit" => options.time_limit = Some(value.parse().unwrap()),
                "--hold" => options.hold = Some(value.parse().unwrap()),
                "--clients" => options.clients = Some(value.parse().unwrap()),
                "--server" => options.server = vec![value.to_string()],
                "--rate" => options.rate = Some(value.parse().unwrap()),
                "--fencing" => options.fencing = Some(Fencing::from_str(value, false).unwrap()),
                "--cluster" | "--expect" => {}
                other => panic!("{other} in {command}"),
            }
        }
        let scenario = options.scenario(workload, nemesis, seed, Path::new("")).ok()?;
        Some(Cell { scenario, repeat: command.to_string() })
    }

    /// The scenario's run; None if no plan can be drawn for it.
    fn run(&self) -> Option<Checked> {
        let mut run = simulate(&self.scenario).ok()?;
        run.facts.repeat = self.repeat.clone();
        Some(run)
    }

    fn name(&self) -> String {
        format!("{} under {}", self.scenario.workload_name, self.scenario.nemesis_name)
    }
}

/// Every workload under every nemesis that can be simulated.
fn catalogue() -> Vec<Cell> {
    let workloads = catalogue::WORKLOADS.iter().map(|(name, _)| *name);
    let cells = workloads
        .flat_map(|workload| catalogue::NEMESES.iter().filter_map(move |(nemesis, _)| Cell::new(workload, nemesis, 1)));
    cells.collect()
}

/// Every `step`-th cell of the catalogue. With `EACH=1` all cells are run, which takes most of an hour.
fn each(step: usize) -> Vec<Cell> {
    let step = std::env::var("EACH").map_or(step, |step| step.parse().unwrap());
    catalogue().into_iter().step_by(step).collect()
}

/// The commands of the remedies in a report that need no server.
fn named(summary: &RunSummary) -> BTreeSet<String> {
    let remedies = summary.incidents.iter().flat_map(|incident| &incident.remedies);
    remedies.filter(|remedy| !remedy.needs_servers).map(|remedy| remedy.command.clone()).collect()
}

/// Runs every remedy that the reports of these cells name, once per command. Returns how many were considered, how many are
/// named, and the named remedies that do not help.
fn remedies(cells: &[Cell]) -> (usize, usize, Vec<String>) {
    let told = on_all_processors(cells, |cell| {
        let Some(mut run) = cell.run().filter(|run| run.verdict.valid == Validity::Invalid) else {
            return (0, BTreeSet::new());
        };
        let thought_of = named(&run.report().summary).len();
        run.play_remedies();
        let summary = run.report().summary;
        for remedy in summary.incidents.iter().flat_map(|incident| &incident.remedies) {
            assert_eq!(remedy.played, !remedy.needs_servers, "{}: {remedy:?}", cell.name());
            if remedy.played {
                assert_eq!(
                    Cell::of(&remedy.command).unwrap().scenario,
                    **remedy.run.as_ref().unwrap(),
                    "{}",
                    remedy.command
                );
            }
        }
        (thought_of, named(&summary))
    });
    let distinct: Vec<&String> = told.iter().flat_map(|(_, told)| told).collect::<BTreeSet<_>>().into_iter().collect();
    let held = on_all_processors(&distinct, |command| {
        Cell::of(command).and_then(|cell| cell.run()).is_some_and(|run| run.verdict.valid == Validity::Valid)
    });
    let held: BTreeMap<&String, bool> = distinct.iter().copied().zip(held).collect();
    let of_cells = || told.iter().flat_map(|(_, told)| told);
    let failed = of_cells().filter(|command| !held[command]).cloned().collect();
    (told.iter().map(|(thought_of, _)| thought_of).sum(), of_cells().count(), failed)
}

#[test]
fn remedies_hold_where_they_are_told() {
    let (thought_of, told, failed) = remedies(&each(61));
    println!("{thought_of} remedies, of which {told} are named and {} of these do not hold", failed.len());
    assert!(told > 5 && failed.is_empty(), "{told}: {failed:#?}");
}

#[test]
fn a_remedy_is_tried_on_the_users_own_workload_and_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |of: &[(&str, &str)], name: &str| {
        let file = folder.path().join(format!("our-{name}.toml"));
        fs::write(&file, of.iter().find(|(known, _)| *known == name).unwrap().1).unwrap();
        file.display().to_string()
    };
    let (workload, nemesis) = (copy(catalogue::WORKLOADS, "redlock"), copy(catalogue::NEMESES, "pause"));
    let repeat = format!(
        "redjepsen run --workload {workload} --nemesis {nemesis} --cluster sim --ttl 2s --time-limit 20s --seed 4"
    );
    let mut run = Cell::of(&repeat).unwrap().run().unwrap();
    run.play_remedies();
    let named = named(&run.report().summary);
    let own = format!("{repeat} --fencing compare-and-set --expect valid");
    assert!(named.contains(&own), "{named:#?}");
    assert_eq!(Cell::of(&own).unwrap().run().unwrap().verdict.valid, Validity::Valid);
}

/// The result of the advice for an inconclusive run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    /// The advised command is conclusive.
    Proves,
    /// The advised command is inconclusive too.
    Nothing,
    /// The advice has no command.
    Words,
}

/// The inconclusive cells, each with its first advice, and the result of the advice.
fn advised(cells: &[Cell]) -> Vec<(String, String, Option<String>, Came)> {
    let found = on_all_processors(cells, |cell| {
        let run = cell.run().filter(|run| run.verdict.valid == Validity::Unknown)?;
        let summary = run.report().summary;
        // A reason that follows from another one has no advice of its own.
        for advice in &summary.advice {
            let is_one = summary.reasons.contains(&advice.reason);
            assert!(is_one && advice.text.ends_with('.'), "{}: {advice:?}", cell.name());
        }
        let first = summary.advice.into_iter().next()?;
        let came = match &first.command {
            None => Came::Words,
            Some(command) => match Cell::of(command).and_then(|cell| cell.run()) {
                Some(run) if run.verdict.valid != Validity::Unknown => Came::Proves,
                _ => Came::Nothing,
            },
        };
        Some((format!("{}: {}", cell.name(), first.reason), first.text, first.command, came))
    });
    found.into_iter().flatten().collect()
}

/// How often each result came, by the text of the advice.
fn census(of: &[(String, String, Option<String>, Came)]) -> BTreeMap<(&str, &Came), usize> {
    let mut census = BTreeMap::new();
    for (_, text, _, came) in of {
        *census.entry((text.as_str(), came)).or_default() += 1;
    }
    census
}

#[test]
fn what_is_advised_about_a_run_that_proves_nothing_proves_something() {
    let all = advised(&each(37));
    for (what, text, command, came) in &all {
        println!("{came:?}\t{what}\t{text}\t{}", command.as_deref().unwrap_or("–"));
    }
    println!("{:#?}", census(&all));
    let proves = all.iter().filter(|(.., came)| *came == Came::Proves).count();
    assert!(all.len() > 10 && proves * 10 >= all.len() * 8, "{proves} of {}: {all:#?}", all.len());
}

/// The options of the advised command are those that the run lacks: more operations, or longer holds.
#[test]
fn a_run_with_too_few_operations_or_too_short_holds_is_advised_to_change_just_that() {
    let first = |options: &str| {
        let cell = Cell::of(&format!("redjepsen run --cluster sim --seed 7 {options}")).unwrap();
        let advice = cell.run().unwrap().report().summary.advice.into_iter().next();
        advice.map(|advice| (advice.text, advice.command.unwrap_or_default()))
    };
    let (text, command) = first("--nemesis none --rate 0.1 --time-limit 5s").unwrap();
    assert!(text.contains("Use a higher --rate") && command.contains("--rate 50"), "{text}\n{command}");
    assert_eq!(first("--nemesis none --rate 50 --time-limit 5s"), None);
    let (text, command) = first("--nemesis pause --hold 0ms").unwrap();
    assert!(text.contains("Use a longer --hold") && command.contains("--hold 0.2ttl..0.5ttl"), "{text}\n{command}");
    assert_eq!(first("--nemesis pause"), None);
}

#[test]
fn a_cluster_that_is_to_lose_its_keys_loses_those_of_a_primary() {
    for workload in ["cluster", "replicated"] {
        for nemesis in ["memory", "all"] {
            let run = Cell::new(workload, nemesis, 1).unwrap().run().unwrap();
            assert_ne!(run.verdict.valid, Validity::Unknown, "{workload} {nemesis}: {:?}", run.verdict.reasons);
        }
    }
}
