//! Decides when to give up because runs cannot be made.

/// Give up after this many failures in a row of one cell. While no run was made at all, of any cells.
const MOST: u32 = 3;
/// After some run was made, give up after this many failures in a row of any cells. On a loaded machine a few in a row may
/// fail, for example if a runtime starts slowly.
const MOST_OF_ANY: u32 = 9;

#[derive(Debug, Default)]
pub(super) struct Failures {
    in_a_row: u32,
    /// The cell of the last failure, and how many of the last failures are of that cell.
    of_cell: (String, u32),
    made_any: bool,
}

impl Failures {
    /// Records a run that has ended. Returns the number of failures in a row if it is time to give up.
    pub fn ended(&mut self, cell: &str, was_made: bool) -> Option<u32> {
        if was_made {
            *self = Failures { made_any: true, ..Failures::default() };
            return None;
        }
        self.in_a_row += 1;
        let of_cell = if self.of_cell.0 == cell { self.of_cell.1 + 1 } else { 1 };
        self.of_cell = (cell.to_string(), of_cell);
        let most = if self.made_any { MOST_OF_ANY } else { MOST };
        (self.in_a_row >= most || of_cell >= MOST).then_some(self.in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index of the run after which it gives up. `!` marks a run that could not be made.
    fn given_up(runs: &str) -> Option<usize> {
        let mut failures = Failures::default();
        runs.split(' ').position(|run| failures.ended(run.trim_end_matches('!'), !run.ends_with('!')).is_some())
    }

    #[test]
    fn what_fails_in_one_cell_or_before_anything_was_made_is_given_up_after_three() {
        assert_eq!(given_up("a! b! c! d"), Some(2));
        assert_eq!(given_up("a b! b! b! c"), Some(3));
        assert_eq!(given_up("a! b! a"), None);
    }

    #[test]
    fn a_few_failures_of_several_cells_do_not_end_a_suite_that_can_be_made() {
        assert_eq!(given_up("a b! c! d! e! f"), None);
        assert_eq!(given_up("a b! c! b! c! b! c! b!"), None);
        assert_eq!(given_up("a b! b! c b! b! c"), None);
        assert_eq!(given_up("a b! c! d! e! f! g! h! i! j! k!"), Some(9));
    }
}
