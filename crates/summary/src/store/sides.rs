//! Reads an argument of `redjepsen compare` as a side: a run's folder, a folder with several runs, a suite run, or one cell of
//! it (`NIGHT#CELL`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::results::Results;
use super::{Store, StoredState, night};
use model::nemesis::Expectation;
use suite::compare::{About, Runs, Side};
use suite::matrix::{Cell, Matrix};

/// Settings that are specific to one run.
const OF_A_RUN: [&str; 1] = ["seed"];

/// Names and values.
type Setting = Vec<(String, String)>;
/// The name and the setting of runs.
type SideKey = (String, Setting);

/// Reads a side. The error says what was found instead.
pub fn read(named: &str) -> Result<Side, String> {
    if !Path::new(named).exists()
        && let Some((night, cell)) = named.split_once('#').filter(|(night, _)| !night.is_empty())
    {
        let matrix = matrix(Path::new(night))?;
        let found: Vec<&Cell> = matrix.cells.iter().filter(|other| other.name == cell).collect();
        if found.is_empty() {
            let names: Vec<String> = matrix.cells.iter().map(|cell| format!("  {}", cell.name)).collect();
            return Err(format!("{night} has no cell `{cell}`; its cells:\n{}", names.join("\n")));
        }
        return Ok(of_night(named, Path::new(night), &matrix, &found));
    }
    let path = PathBuf::from(named);
    if !path.exists() {
        return Err(format!("{named}: no such folder"));
    }
    if path.is_file() || path.join(night::FILE).exists() {
        let matrix = matrix(&path)?;
        let home = if path.is_file() { path.parent().unwrap_or(Path::new("")).to_path_buf() } else { path };
        return Ok(of_night(named, &home, &matrix, &matrix.cells.iter().collect::<Vec<_>>()));
    }
    of_runs(named, &path)
}

fn matrix(path: &Path) -> Result<Matrix, String> {
    night::matrix(path).map_err(|error| error.to_string())
}

fn of_night(named: &str, folder: &Path, matrix: &Matrix, cells: &[&Cell]) -> Side {
    let cells = cells.iter().map(|cell| {
        let mut setting = Vec::new();
        let runs = cell.runs.iter().map(|run| {
            // The matrix has the deciding facts. The runs' own results add details, if they still exist.
            let mut sample = run.sample();
            if let Some(results) = Results::of(folder, run) {
                setting = setting_of(&results);
                // Matrices of earlier versions have neither.
                sample.numbers.latency_ms = sample.numbers.latency_ms.or(results.numbers().latency_ms);
                if sample.advisories.is_empty() {
                    sample.advisories = results.advisories;
                }
            }
            sample
        });
        let runs = runs.collect();
        let must_hold = cell.expected == Some(Expectation::Valid);
        Runs { name: cell.name.clone(), must_hold, runs, setting }
    });
    let cells: Vec<Runs> = cells.collect();
    let what = match &cells[..] {
        [one] => format!("{} in the suite {}", one.name, matrix.suite),
        _ => format!("a run of the suite {}", matrix.suite),
    };
    let (started, versions) = (matrix.started.clone(), matrix.versions.clone());
    Side { about: About { name: named.to_string(), what, started, versions }, cells }
}

/// A run, or all runs in a folder. Runs with another setting form another cell.
fn of_runs(named: &str, path: &Path) -> Result<Side, String> {
    let mut found: Vec<Results> = Vec::new();
    match Results::read(path) {
        Ok(results) => found.push(results),
        Err(error) => {
            for run in &Store::new(path).snapshot().runs {
                if let StoredState::Done(results) = &run.state {
                    found.push((**results).clone());
                }
            }
            if found.is_empty() {
                return Err(format!("{named} is neither a run, nor a folder with runs, nor a suite run ({error})"));
            }
        }
    }
    let mut groups: BTreeMap<SideKey, Vec<&Results>> = BTreeMap::new();
    for results in &found {
        let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".to_string());
        let name = format!("{} under {}", text(&results.workload), text(&results.nemesis));
        groups.entry((name, setting_of(results))).or_default().push(results);
    }
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for (name, version) in found.iter().flat_map(|results| &results.versions) {
        let known = versions.entry(name.clone()).or_default();
        if !known.split(" / ").any(|known| known == version) {
            known.push_str(if known.is_empty() { "" } else { " / " });
            known.push_str(version);
        }
    }
    let settings: Vec<SideKey> = groups.keys().cloned().collect();
    let cells: Vec<Runs> = (groups.into_iter())
        .map(|((name, setting), runs)| {
            let others = settings.iter().filter(|(other, of_other)| *other == name && *of_other != setting);
            let others: Vec<&Setting> = others.map(|(_, of_other)| of_other).collect();
            let own = setting.iter().filter(|row| others.iter().any(|other| !other.contains(row)));
            let own: Vec<String> = own.map(|(what, text)| format!("{what} {text}")).collect();
            let name = if own.is_empty() { name } else { format!("{name} with {}", own.join(", ")) };
            Runs { name, must_hold: false, runs: runs.into_iter().map(Results::sample).collect(), setting }
        })
        .collect();
    let simulated = found.iter().all(|results| results.simulated);
    let (one, several) = if simulated { ("a simulated run", "simulated runs") } else { ("a run", "runs") };
    let what = match (&found[..], &cells[..]) {
        ([_], [cell]) => format!("{one} of {}", cell.name),
        (runs, [cell]) => format!("{} {several} of {}", runs.len(), cell.name),
        (runs, cells) => format!("{} {several} of {} kinds", runs.len(), cells.len()),
    };
    // A simulation always begins at the same time, which tells readers nothing.
    let real = found.iter().filter(|results| !results.simulated);
    let started = real.map(|results| results.started.clone()).min().unwrap_or_default();
    Ok(Side { about: About { name: named.to_string(), what, started, versions }, cells })
}

fn setting_of(results: &Results) -> Setting {
    let rows = results.setting.iter().filter(|row| !OF_A_RUN.contains(&row.name.as_str()));
    rows.map(|row| (row.name.clone(), row.text.clone())).collect()
}
