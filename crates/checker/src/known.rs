//! The operations of a history, corrected where other evidence shows more than their clients reported.

use std::collections::HashMap;
use std::ops::Index;

use model::history::Operation;

/// Operations by their index in the history. Only corrected operations are copied.
#[derive(Debug)]
pub(super) struct Known<'h> {
    told: &'h [Operation],
    otherwise: HashMap<usize, Operation>,
}

impl<'h> Known<'h> {
    pub fn new(told: &'h [Operation]) -> Known<'h> {
        Known { told, otherwise: HashMap::new() }
    }

    /// The operation, to be corrected.
    pub fn edit(&mut self, place: usize) -> &mut Operation {
        self.otherwise.entry(place).or_insert_with(|| self.told[place].clone())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        (0..self.told.len()).map(|place| &self[place])
    }
}

impl Index<usize> for Known<'_> {
    type Output = Operation;

    fn index(&self, place: usize) -> &Operation {
        let otherwise = if self.otherwise.is_empty() { None } else { self.otherwise.get(&place) };
        otherwise.unwrap_or(&self.told[place])
    }
}
