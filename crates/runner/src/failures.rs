//! Whether there is any point in going on, where runs can't be made.

/// So many runs in a row that could not be made are enough: of one cell, or of any as long as none was made at all.
const MOST: u32 = 3;
/// The same for runs of whatever cells. On a loaded machine a few in a row may fail, such as of a runtime that is slow to start.
const MOST_OF_ANY: u32 = 9;

/// The runs in a row that could not be made.
#[derive(Debug, Default)]
pub(super) struct Failures {
    in_a_row: u32,
    /// The cell of the last of them, and how many of the last are of it.
    of_cell: (String, u32),
    /// Whether any run was made.
    made_any: bool,
}

impl Failures {
    /// Counts a run that is over. Returns how many in a row could not be made, if the others can't be either.
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

    /// After which of these runs it was given up: `!` stands for one that could not be made.
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
