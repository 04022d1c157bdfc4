//! Excerpts of a client's own words.

use base::words;

/// At most this many characters of a text are kept.
const LONGEST_TEXT: usize = 500;

/// A client's own words as part of a sentence in a message.
pub(super) fn told(text: &str) -> String {
    words::line(text, LONGEST_TEXT)
}

/// The beginning of a client's text, unchanged.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
