//! A sentence with the lines of the history that prove it.

use serde::{Deserialize, Serialize};

/// A statement of a report about an incident. Readers can check it: every sentence has at least one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    text: String,
    /// Indices of events, in order, without duplicates.
    lines: Vec<u64>,
}

impl Sentence {
    /// None if no line proves the sentence.
    pub fn new(text: String, lines: impl IntoIterator<Item = u64>) -> Option<Sentence> {
        let mut lines: Vec<u64> = lines.into_iter().collect();
        lines.sort_unstable();
        lines.dedup();
        (!lines.is_empty()).then_some(Sentence { text, lines })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn lines(&self) -> &[u64] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_line_shows_is_not_said() {
        assert_eq!(Sentence::new("It was the moon.".to_string(), []), None);
        let said = Sentence::new("c0 wrote.".to_string(), [7, 3, 7]).unwrap();
        assert_eq!((said.text(), said.lines()), ("c0 wrote.", &[3, 7][..]));
    }
}
