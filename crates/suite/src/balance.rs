//! Cuts a suite into shards.
//!
//! Machines do not communicate. Each cuts the whole suite by itself and takes its own part. So the cut depends only on the
//! suite and, if given, on the durations of an earlier suite run. [`Cut::sha256`] identifies the cut, so that parts of
//! different cuts are not merged.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::matrix::Matrix;
use super::plan::{PlannedCell, Suite};
use super::shard::Shard;
use base::words::hex;

/// The durations of an earlier suite run.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    /// The duration of one run, in milliseconds, by the cell's name.
    per_run: BTreeMap<String, u64>,
}

impl Durations {
    /// The durations in a matrix: for each cell, the mean of the runs with a verdict.
    pub fn of(matrix: &Matrix) -> Durations {
        let mut per_run = BTreeMap::new();
        for cell in &matrix.cells {
            let made = cell.runs.iter().filter(|run| run.valid.is_some()).map(|run| run.seconds);
            // The file may contain any number.
            let ms: Vec<u64> = made
                .filter(|seconds| (0.0..1e6).contains(seconds))
                .map(|seconds| (seconds * 1e3).round() as u64)
                .collect();
            if !ms.is_empty() {
                per_run.insert(cell.name.clone(), ms.iter().sum::<u64>() / ms.len() as u64);
            }
        }
        Durations { per_run }
    }

    /// The number of the suite's cells with a known duration.
    pub fn known(&self, suite: &Suite) -> usize {
        suite.cells.iter().filter(|cell| self.per_run.contains_key(&cell.name)).count()
    }

    fn of_cell(&self, cell: &PlannedCell) -> Option<u64> {
        self.per_run.get(&cell.name).map(|ms| ms * cell.seeds.len() as u64)
    }

    /// The duration of each cell, in milliseconds. An unknown one is estimated from the planned duration, at the pace of the
    /// known cells.
    fn weights(&self, suite: &Suite) -> Vec<u64> {
        let known = suite.cells.iter().filter_map(|cell| Some((self.of_cell(cell)?, cell.planned_ms)));
        let (took, planned) = known.fold((0u128, 0u128), |(took, planned), (cell_took, cell_planned)| {
            (took + u128::from(cell_took), planned + u128::from(cell_planned))
        });
        let at_pace = |planned_ms: u64| match planned {
            0 => planned_ms,
            planned => u64::try_from(u128::from(planned_ms) * took / planned).unwrap_or(u64::MAX / 1_000_000),
        };
        suite.cells.iter().map(|cell| self.of_cell(cell).unwrap_or_else(|| at_pace(cell.planned_ms))).collect()
    }
}

/// A cut of a suite into shards.
struct Cut {
    /// For each cell, the index of its shard, from 0.
    of_cell: Vec<usize>,
    sha256: String,
}

impl Cut {
    /// Assigns the longest cells first, each to the shard with the least work so far. So all shards take about the same time.
    fn new(suite: &Suite, of: u32, durations: Option<&Durations>) -> Cut {
        let planned = || suite.cells.iter().map(|cell| cell.planned_ms).collect();
        let weights: Vec<u64> = durations.map_or_else(planned, |durations| durations.weights(suite));
        let mut places: Vec<usize> = (0..suite.cells.len()).collect();
        places.sort_by_key(|place| std::cmp::Reverse(weights[*place]));
        let mut loads = vec![0u64; of as usize];
        let mut of_cell = vec![0; suite.cells.len()];
        for place in places {
            let lightest = (0..loads.len()).min_by_key(|number| loads[*number]).unwrap_or(0);
            loads[lightest] += weights[place];
            of_cell[place] = lightest;
        }
        let mut hash = Sha256::new();
        for (cell, shard) in suite.cells.iter().zip(&of_cell) {
            hash.update(format!("{}\n{shard}/{of}\n", cell.name));
        }
        let sha256 = hex(&hash.finalize());
        Cut { of_cell, sha256 }
    }
}

impl Suite {
    /// The part of the suite that a shard runs. All machines cut the suite in the same way if they all get the same durations,
    /// or none.
    pub fn shard(mut self, shard: Shard, durations: Option<&Durations>) -> Suite {
        let Cut { of_cell, sha256 } = Cut::new(&self, shard.of, durations);
        let mut shards = of_cell.into_iter();
        self.cells.retain(|_| shards.next() == Some(shard.index as usize - 1));
        Suite { cut_sha256: Some(sha256), ..self }
    }
}
