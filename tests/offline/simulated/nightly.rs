//! The nightly suite's expectations of real clusters, in virtual time.

use std::path::Path;

use checker::Validity;
use model::nemesis::Expectation;
use model::scenario::Options;
use model::topology::ClusterKind;
use runner::simulate::simulate;
use suite::file::{self, FoundIn};
use suite::plan::{PlannedCell, Source, Suite};

use crate::kit::on_all_processors;

/// The cells of an embedded suite as simulated cells.
pub fn cells(suite: &str) -> Vec<PlannedCell> {
    let (name, file, _) = file::open(suite).unwrap();
    let simulated = Options { cluster: Some(ClusterKind::SIM), ..Options::default() };
    let file = file.with_overrides(simulated, None, None);
    let source = Source { name: &name, file: &file, folder: Path::new("") };
    Suite::plan(&source, ClusterKind::SIM).unwrap().cells
}

/// The result of one run of a cell; None if it can't be simulated.
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

/// True if a single run matches its cell's expectation. A violation that is expected only in some run may be missing in one run.
fn is_as_expected(cell: &PlannedCell, valid: Validity) -> bool {
    match (cell.expected, cell.found) {
        (None, _) => true,
        (Some(Expectation::Valid), _) => valid == Validity::Valid,
        (Some(Expectation::Violation), Some(FoundIn::Some)) => valid != Validity::Unknown,
        (Some(Expectation::Violation), _) => valid == Validity::Invalid,
    }
}

/// At least this many cells can be simulated; the others use etcd, ZooKeeper and PostgreSQL.
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

/// The other side: a reversed expectation makes a cell unexpected.
#[test]
fn a_cell_that_comes_out_otherwise_is_noticed() {
    let cells = cells("nightly");
    let broken = cells.iter().find(|cell| cell.name == "redlock under pause-before-write").unwrap();
    let (valid, _) = shown(broken).unwrap();
    assert!(is_as_expected(broken, valid));
    let turned = PlannedCell { expected: Some(Expectation::Valid), found: None, ..broken.clone() };
    assert!(!is_as_expected(&turned, valid));
}
