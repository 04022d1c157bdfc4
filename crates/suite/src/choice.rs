//! The cells of a suite that the user asks for: by name, by workload, or by nemesis.

use std::collections::BTreeSet;

use super::plan::{PlannedCell, Suite};
use base::words::quoted;

/// Why nothing fits what the user asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChoiceError(String);

impl PlannedCell {
    /// Whether the user means this cell by that name.
    fn is_meant_by(&self, wanted: &str) -> bool {
        [&self.name, &self.workload, &self.nemesis].into_iter().any(|name| name == wanted)
    }
}

impl Suite {
    /// Keeps the cells that are named: each name is that of a cell, a workload or a nemesis.
    ///
    /// # Errors
    ///
    /// If a name fits no cell.
    pub fn only(mut self, wanted: &[String]) -> Result<Suite, ChoiceError> {
        if let Some(nothing) = wanted.iter().find(|name| !self.cells.iter().any(|cell| cell.is_meant_by(name))) {
            let text = format!(
                "--only {}: the suite {} has no such cell, workload or nemesis; `--dry-run` lists its cells, such as {}",
                quoted(nothing),
                self.name,
                self.cells.first().map_or_else(String::new, |cell| quoted(&cell.name))
            );
            return Err(ChoiceError(text));
        }
        self.cells.retain(|cell| wanted.iter().any(|name| cell.is_meant_by(name)));
        Ok(self)
    }

    /// Takes out the cells with these names.
    pub fn without_cells(mut self, names: &BTreeSet<String>) -> Suite {
        self.cells.retain(|cell| !names.contains(&cell.name));
        self
    }

    /// Takes out the cells of these workloads.
    pub fn without<'n>(mut self, workloads: impl Fn(&str) -> bool + 'n) -> Suite {
        self.cells.retain(|cell| !workloads(&cell.workload));
        self
    }

    /// The places of its cells, as they are in the whole suite.
    pub fn places(&self) -> Vec<u32> {
        self.cells.iter().map(|cell| cell.place).collect()
    }
}
