//! Selects the cells of a suite that the user names: by cell, by workload, or by nemesis.

use std::collections::BTreeSet;

use super::plan::{PlannedCell, Suite};
use base::words::quoted;

/// Why no cell matches the user's names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChoiceError(String);

impl PlannedCell {
    /// True if the name means this cell.
    fn is_meant_by(&self, wanted: &str) -> bool {
        [&self.name, &self.workload, &self.nemesis].into_iter().any(|name| name == wanted)
    }
}

impl Suite {
    /// Keeps the named cells. Each name is that of a cell, a workload or a nemesis.
    ///
    /// # Errors
    ///
    /// If a name matches no cell.
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

    pub fn without_cells(mut self, names: &BTreeSet<String>) -> Suite {
        self.cells.retain(|cell| !names.contains(&cell.name));
        self
    }

    /// Removes the cells of the workloads for which `workloads` returns true.
    pub fn without<'n>(mut self, workloads: impl Fn(&str) -> bool + 'n) -> Suite {
        self.cells.retain(|cell| !workloads(&cell.workload));
        self
    }

    /// The indexes of its cells in the whole suite.
    pub fn places(&self) -> Vec<u32> {
        self.cells.iter().map(|cell| cell.place).collect()
    }
}
