//! A client's own words, as much of them as is kept.

use base::words;

/// How much of a text, in characters.
const LONGEST_TEXT: usize = 500;

/// A client's own words in a sentence of ours.
pub(super) fn told(text: &str) -> String {
    words::line(text, LONGEST_TEXT)
}

/// Their beginning, as it was said.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
