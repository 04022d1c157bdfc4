//! What the nightly suite expects of real clusters, in virtual time.

use std::path::Path;

use checker::Validity;
use model::nemesis::Expectation;
use model::topology::ClusterKind;
use runner::simulate::simulate;
use suite::file::{self, FoundIn};
use suite::plan::{Clusters, PlannedCell, Source, Suite};

use crate::kit::on_all_processors;

/// The cells of a suite that come with the program, as simulated ones.
pub fn cells(suite: &str) -> Vec<PlannedCell> {
    let (name, file, _) = file::open(suite).unwrap();
    let source = Source { name: &name, file: &file, folder: Path::new("") };
    let clusters = Clusters { instead: Some(ClusterKind::SIM), auto: ClusterKind::SIM };
    Suite::plan(&source, clusters).unwrap().cells
}

/// What one run of a cell showed: None if it can't be simulated.
fn shown(cell: &PlannedCell) -> Option<(Validity, String)> {
    match simulate(&cell.scenario) {
        Ok(checked) => Some((checked.verdict.valid, checked.verdict.reasons.join("; "))),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("simulated") || text.contains("virtual time"), "{}: {text}", cell.name);
            None
        }
    }
}

/// True if a single run is what its cell expects. A violation that is to be found in some run only may be missing in one.
fn is_as_expected(cell: &PlannedCell, valid: Validity) -> bool {
    match (cell.expected, cell.found) {
        (None, _) => true,
        (Some(Expectation::Valid), _) => valid == Validity::Valid,
        (Some(Expectation::Violation), Some(FoundIn::Some)) => valid != Validity::Unknown,
        (Some(Expectation::Violation), _) => valid == Validity::Invalid,
    }
}

/// How many of the cells can be simulated at least: what is left is etcd, ZooKeeper and PostgreSQL.
const LEAST_SIMULATED: usize = 216;

#[test]
fn each_cell_of_the_nightly_suite_comes_out_as_expected() {
    let cells = cells("nightly");
    let shown = on_all_processors(&cells, shown);
    let mut surprises = Vec::new();
    for (cell, shown) in cells.iter().zip(&shown) {
        if let Some((valid, reasons)) = shown
            && !is_as_expected(cell, *valid)
        {
            let command = cell.repeat(cell.seeds[0]).unwrap_or_default();
            surprises.push(format!("{}: {valid:?}, expected {:?}: {reasons}\n    {command}", cell.name, cell.expected));
        }
    }
    let simulated = shown.iter().flatten().count();
    assert!(surprises.is_empty(), "{} of {simulated}:\n{}", surprises.len(), surprises.join("\n"));
    assert!(simulated >= LEAST_SIMULATED, "only {simulated} of {} cells", cells.len());
}

/// The other side: an expectation that is turned around is a surprise.
#[test]
fn a_cell_that_comes_out_otherwise_is_noticed() {
    let cells = cells("nightly");
    let broken = cells.iter().find(|cell| cell.name == "redlock under pause-before-write").unwrap();
    let (valid, _) = shown(broken).unwrap();
    assert!(is_as_expected(broken, valid));
    let turned = PlannedCell { expected: Some(Expectation::Valid), found: None, ..broken.clone() };
    assert!(!is_as_expected(&turned, valid));
}
