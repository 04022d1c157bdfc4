//! A sentence with the lines of the history that it follows from.

use serde::{Deserialize, Serialize};

/// What a report says of an incident. Whoever doubts it can look it up: there is no sentence without a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    text: String,
    /// Indices of events, in their order, each once.
    lines: Vec<u64>,
}

impl Sentence {
    /// None if there is no line that says it.
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
