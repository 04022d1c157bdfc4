//! Parsing of phrases: words, lengths, and errors with the expected phrase.

use std::str::FromStr;

use base::units::{Length, LengthRange};

/// Why a phrase is invalid, with the expected phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PhraseError(String);

impl PhraseError {
    pub(super) fn new(text: impl Into<String>) -> PhraseError {
        PhraseError(text.into())
    }

    pub(super) fn expected(phrase: &str, expected: &str) -> PhraseError {
        PhraseError(format!("`{phrase}` is not understood; expected {expected}"))
    }
}

/// The first word, and the rest.
pub(super) fn first(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(first, rest)| (first, rest.trim()))
}

/// A phrase of one word, with nothing after it.
pub(super) fn only<T: FromStr<Err = PhraseError>>(text: &str) -> Result<T, PhraseError> {
    text.trim().parse()
}

pub(super) fn length(text: &str) -> Result<Length, PhraseError> {
    text.parse().map_err(|error: base::units::LengthError| PhraseError::new(error.to_string()))
}

pub(super) fn lengths(text: &str) -> Result<LengthRange, PhraseError> {
    text.parse().map_err(|error: base::units::LengthError| PhraseError::new(error.to_string()))
}

/// Phrases are strings in files.
macro_rules! serde_as_phrase {
    ($($type:ty),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(super) use serde_as_phrase;
