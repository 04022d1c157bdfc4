//! Planted bugs: wrong locks and a wrong checker, each with the cells or tests that find it. A build with debug assertions reads
//! the name of a bug from its environment, once. So each bug is planted in a separate process: this test program, started again
//! for one test.
//!
//! For each bug of a lock, the fixtures say how many cells of the nightly suite find it. Only cells count in which the correct
//! lock must be valid. For one such cell, they also list all diagnoses: those that name the bug, and others that are true. For a bug of the checker, they say how many tests of `pure::checker` find it, without the brute-force
//! tests and the oracles. `numbers_are_made_again` writes these numbers.
#![cfg(debug_assertions)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use checker::Validity;
use model::nemesis::Expectation;
use model::scenario::Scenario;
use runner::simulate::{simulate, simulate_in};
use suite::plan::PlannedCell;

use super::nightly::cells;
use crate::kit::on_all_processors;
use crate::kit::planted::{CHECKER, LOCKS, OfChecker, OfLock, fixture, of_checker, of_locks};

/// The file with the cells that a child process must run: each cell's name without its workload, and its scenario. The child does
/// not plan the suite, because this takes longer than running a cell.
const PLAYS: &str = "REDJEPSEN_PLAYS";

/// The cells of the nightly suite in which these workloads must be valid and that can be simulated, by workload. Each has its
/// name without the workload, and its scenario.
fn passed() -> BTreeMap<String, Vec<(String, PlannedCell)>> {
    let mut passed: BTreeMap<String, Vec<(String, PlannedCell)>> = BTreeMap::new();
    for cell in cells("nightly") {
        if cell.expected == Some(Expectation::Valid) {
            let under = cell.name.strip_prefix(&format!("{} under ", cell.workload)).unwrap().to_string();
            passed.entry(cell.workload.clone()).or_default().push((under, cell));
        }
    }
    passed
}

fn with_seed(cell: &PlannedCell, seed: u64) -> Scenario {
    Scenario { seed, ..cell.scenario.clone() }
}

#[test]
#[ignore = "plays what another test of this file tells it"]
fn planted_bug_is_played() {
    let Some(plays) = std::env::var_os(PLAYS) else { return };
    let cells: Vec<(String, Scenario)> = serde_json::from_slice(&fs::read(plays).unwrap()).unwrap();
    for (under, scenario) in cells {
        let folder = tempfile::tempdir().unwrap();
        let played = simulate_in(folder.path(), &scenario).unwrap();
        let codes: Vec<String> = played.report().summary.diagnoses.into_iter().map(|one| one.diagnosis.code).collect();
        let verdict = &played.verdict;
        println!("\nverdict: {under}: {}: {:?} {}", codes.join(" "), verdict.valid, verdict.reasons.join("; "));
    }
}

/// This test program with a planted bug, started for these tests.
fn child(bug: &str, arguments: &[&str], plays: &Path) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(arguments).env("REDJEPSEN_PLANTED", bug).env(PLAYS, plays);
    child.output().unwrap()
}

/// What a run shows.
#[derive(Clone, Debug, Default)]
struct Shown {
    /// The verdict and its reasons.
    verdict: String,
    /// The codes of its diagnoses.
    codes: Vec<String>,
}

impl Shown {
    fn is_violation(&self) -> bool {
        self.verdict.starts_with(&format!("{:?}", Validity::Invalid))
    }
}

/// What a run of each of these cells with this bug shows.
fn shown(bug: &str, cells: &[&(String, PlannedCell)]) -> BTreeMap<String, Shown> {
    let test = ["--exact", "simulated::mutants::planted_bug_is_played", "--include-ignored", "--nocapture"];
    let plays = tempfile::NamedTempFile::new().unwrap();
    let cells: Vec<(&String, &Scenario)> = cells.iter().map(|(under, cell)| (under, &cell.scenario)).collect();
    fs::write(plays.path(), serde_json::to_vec(&cells).unwrap()).unwrap();
    let output = child(bug, &test, plays.path());
    let out = String::from_utf8(output.stdout).unwrap();
    let verdicts = out.lines().filter_map(|line| {
        let (under, rest) = line.strip_prefix("verdict: ")?.split_once(": ")?;
        let (codes, verdict) = rest.split_once(": ")?;
        let mut codes: Vec<String> = codes.split_whitespace().map(str::to_string).collect();
        codes.sort();
        Some((under.to_string(), Shown { verdict: verdict.to_string(), codes }))
    });
    verdicts.collect()
}

fn none_of(missed: Vec<Option<String>>) {
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{}:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn planted_bugs_of_locks_are_found_or_explained() {
    let bugs = of_locks();
    assert!(bugs.len() >= 100);
    let passed = passed();
    none_of(on_all_processors(&bugs, |OfLock { bug, workload, found, by, codes, also, why, .. }| {
        if *found == 0 {
            return (!why.starts_with("equivalent: ")).then(|| format!("{bug} of {workload} is not found; say why"));
        }
        if codes.is_empty() == why.is_empty() {
            return Some(format!("{bug} of {workload}: name it by a code, or say why none can"));
        }
        let cell: Vec<_> = passed[workload].iter().filter(|(under, _)| under == by).collect();
        let shown = shown(bug, &cell).remove(by).unwrap_or_default();
        let told: BTreeSet<&String> = codes.iter().chain(also).collect();
        let is_told = shown.codes.iter().collect::<BTreeSet<_>>() == told;
        (!(shown.is_violation() && is_told)).then(|| format!("{bug}, {workload}, {by}: {shown:?}, not {told:?}"))
    }));
}

#[test]
fn planted_bugs_of_the_checker_are_found() {
    let bugs = of_checker();
    assert!(bugs.len() >= 60);
    none_of(on_all_processors(&bugs, |OfChecker { bug, by, .. }| {
        let output = child(bug, &["--exact", by, "--nocapture"], Path::new(""));
        let failed = String::from_utf8_lossy(&output.stdout).contains("test result: FAILED. 0 passed; 1 failed");
        (!failed).then(|| format!("{bug} is not found by {by}"))
    }));
}

/// The other side: each of these cells passes with the correct lock and each of its seeds.
#[test]
fn correct_locks_pass_cells_that_find_bugs() {
    let found: BTreeSet<(String, String)> =
        of_locks().into_iter().filter(|row| row.found > 0).map(|row| (row.workload, row.by)).collect();
    let passed = passed();
    let runs: Vec<(&PlannedCell, u64)> = found
        .iter()
        .flat_map(|(workload, by)| {
            let (_, cell) = passed[workload]
                .iter()
                .find(|(under, _)| under == by)
                .unwrap_or_else(|| panic!("the nightly suite has no cell `{workload} under {by}` that is to be valid"));
            cell.seeds.iter().map(move |seed| (cell, *seed))
        })
        .collect();
    none_of(on_all_processors(&runs, |(cell, seed)| {
        let verdict = simulate(&with_seed(cell, *seed)).unwrap().verdict;
        (verdict.valid != Validity::Valid).then(|| format!("{}, seed {seed}: {:?}", cell.name, verdict.reasons))
    }));
}

/// The names of bugs in the code, except names that the code builds from gates and anomalies.
fn planted_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            planted_in(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let named = text.split("planted(\"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(named.map(str::to_string));
        }
    }
}

#[test]
fn every_bug_in_the_code_is_in_a_table_with_one_sentence() {
    let mut found = BTreeSet::new();
    for room in ["base", "model", "system", "checker", "runner"] {
        planted_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(room).join("src"), &mut found);
    }
    let mut listed: BTreeMap<String, String> = BTreeMap::new();
    let of_checker = of_checker().into_iter().map(|row| (row.bug, row.what));
    for (bug, what) in of_locks().into_iter().map(|row| (row.bug, row.what)).chain(of_checker) {
        assert!(what.ends_with('.') && what.split_whitespace().count() <= 25, "{bug}: {what}");
        let before = listed.insert(bug.clone(), what.clone());
        assert!(before.is_none_or(|before| before == what), "{bug} is one bug: {what}");
    }
    let unlisted: Vec<&String> = found.iter().filter(|bug| !listed.contains_key(*bug)).collect();
    assert!(!found.is_empty() && unlisted.is_empty(), "{unlisted:?}");
}

/// Runs each bug in every cell that its lock passes and in every test of the checker. Writes the cells and tests that find it
/// into the fixtures, with the codes of the diagnoses. A code that is new in its cell is listed under `also`, until someone has
/// compared it with the bug. `BUGS=settings.` does this only for bugs with this prefix.
#[test]
#[ignore = "takes half an hour: `cargo test --test offline numbers_are_made_again -- --ignored`, then UPDATE_DOCS=1"]
fn numbers_are_made_again() {
    let wanted = std::env::var("BUGS").unwrap_or_default();
    let passed = passed();
    let locks = on_all_processors(&of_locks(), |row| {
        if !row.bug.starts_with(&wanted) {
            return row.clone();
        }
        let cells = &passed[&row.workload];
        let shown = shown(&row.bug, &cells.iter().collect::<Vec<_>>());
        let found = |under: &String| shown.get(under).is_some_and(Shown::is_violation);
        let found: Vec<&String> = cells.iter().map(|(under, _)| under).filter(|under| found(under)).collect();
        // A cell without faults is the simplest.
        let by = found.iter().find(|under| **under == "none").or(found.first()).map(|by| by.to_string());
        let (cells, found, by) = (cells.len(), found.len(), by.unwrap_or_default());
        let told = shown.get(&by).map(|shown| shown.codes.clone()).unwrap_or_default();
        let (codes, also) = told.into_iter().partition(|code| row.codes.contains(code));
        OfLock { cells, found, by, codes, also, ..row.clone() }
    });
    let mut text = "bug,workload,what,cells,found,by,codes,also,why\n".to_string();
    for OfLock { bug, workload, what, cells, found, by, codes, also, why } in locks {
        let why = if codes.is_empty() { why } else { String::new() };
        let (codes, also) = (codes.join(" "), also.join(" "));
        text += &format!("{bug},{workload},{what},{cells},{found},{by},{codes},{also},{why}\n");
    }
    fs::write(fixture(LOCKS), text).unwrap();
    let checker = on_all_processors(&of_checker(), |row| {
        if !row.bug.starts_with(&wanted) {
            return row.clone();
        }
        let output =
            child(&row.bug, &["pure::checker::", "--skip", "::brute::", "--skip", "::oracles::"], Path::new(""));
        let out = String::from_utf8(output.stdout).unwrap();
        let mut failed: Vec<&str> =
            out.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
        failed.sort_unstable();
        let by = failed.first().map(|by| by.to_string()).unwrap_or_default();
        OfChecker { found: failed.len(), by, ..row.clone() }
    });
    let mut text = "bug,what,found,by\n".to_string();
    for OfChecker { bug, what, found, by } in checker {
        text += &format!("{bug},{what},{found},{by}\n");
    }
    fs::write(fixture(CHECKER), text).unwrap();
}
