//! Cells of one suite that differ in one option only, such as the TTL, and the updates that they lose.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use suite::compare::{Numbers, Runs};
use suite::matrix::{Cell, Matrix};

/// Cells that differ in the value of one option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepAccount {
    /// `redlock under pause`, and the other common options.
    pub title: String,
    /// The option: `ttl`.
    pub option: String,
    /// In the order of the suite.
    pub points: Vec<SweepPoint>,
}

/// One of the cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    pub value: String,
    pub numbers: Numbers,
    /// The share of lost updates of each run with a verdict.
    pub shares: Vec<f64>,
    /// Acknowledged operations per second: the minimum, the median and the maximum of the runs.
    pub per_second: Option<(f64, f64, f64)>,
}

/// A cell with the options that distinguish it from others.
struct Swept<'m> {
    cell: &'m Cell,
    /// The tested lock: a workload, or a library in any version.
    of: String,
    options: BTreeMap<String, String>,
}

/// All sweeps of a suite.
pub(super) fn all(matrix: &Matrix) -> Vec<SweepAccount> {
    let swept: Vec<Swept> = matrix.cells.iter().map(|cell| Swept::of(matrix, cell)).collect();
    let mut groups: Vec<((&str, &str), Vec<&Swept>)> = Vec::new();
    for one in &swept {
        let key = (one.of.as_str(), one.cell.nemesis.as_str());
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, cells)) => cells.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups.iter().flat_map(|((of, nemesis), cells)| in_group(&format!("{of} under {nemesis}"), cells)).collect()
}

impl Swept<'_> {
    fn of<'m>(matrix: &'m Matrix, cell: &'m Cell) -> Swept<'m> {
        let said = cell.with.split(", ").filter_map(|said| said.split_once(' '));
        let mut options: BTreeMap<String, String> =
            said.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let library = matrix.libraries.iter().find(|tested| tested.workload == cell.workload);
        let of = match library {
            Some(tested) => {
                options.insert("version".to_string(), tested.library.version.clone());
                tested.library.name.clone()
            }
            None => cell.workload.clone(),
        };
        // Servers have a table of their own.
        let of = options.remove("server").map_or_else(|| of.clone(), |server| format!("{of} on {server}"));
        Swept { cell, of, options }
    }

    fn value(&self, option: &str) -> &str {
        self.options.get(option).map_or("", String::as_str)
    }
}

/// The sweeps among cells of one workload and nemesis. The option with the most values is swept; each combination of the others
/// gives one sweep.
fn in_group(title: &str, cells: &[&Swept]) -> Vec<SweepAccount> {
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.options.keys()).collect();
    let values = |name: &str| {
        let said: BTreeSet<&str> =
            cells.iter().map(|cell| cell.value(name)).filter(|value| !value.is_empty()).collect();
        said.len()
    };
    let Some(option) = names.iter().filter(|name| values(name) > 1).max_by_key(|name| values(name)) else {
        return Vec::new();
    };
    let others: Vec<&&String> = names.iter().filter(|name| name != &option && values(name) > 1).collect();
    let rest = |cell: &Swept| {
        let said = others.iter().map(|name| format!("{name} {}", cell.value(name)));
        said.collect::<Vec<String>>().join(", ")
    };
    let mut sweeps: Vec<(String, Vec<SweepPoint>)> = Vec::new();
    for cell in cells.iter().filter(|cell| !cell.value(option).is_empty()) {
        let (rest, point) = (rest(cell), SweepPoint::of(cell.value(option), cell.cell));
        match sweeps.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, points)) => points.push(point),
            None => sweeps.push((rest, vec![point])),
        }
    }
    (sweeps.into_iter().filter(|(_, points)| points.len() > 1))
        .map(|(rest, points)| SweepAccount {
            title: if rest.is_empty() { title.to_string() } else { format!("{title}, {rest}") },
            option: option.to_string(),
            points,
        })
        .collect()
}

impl SweepPoint {
    fn of(value: &str, cell: &Cell) -> SweepPoint {
        let runs: Vec<_> = cell.runs.iter().map(|run| run.sample()).collect();
        let judged = cell.runs.iter().filter(|run| run.numbers.acknowledged > 0 && run.valid.is_some());
        SweepPoint {
            value: value.to_string(),
            shares: judged.map(|run| run.numbers.lost as f64 / run.numbers.acknowledged as f64).collect(),
            numbers: Numbers::of(&Runs { runs, ..Runs::default() }),
            per_second: cell.numbers.per_second.map(|spread| (spread.least, spread.median, spread.most)),
        }
    }
}
