//! Lengths of time in text form: `250ms`, `2.5ttl`, `20ms..100ms`.
//!
//! A length in `ttl` is a multiple of the lock's TTL, because the TTL decides if a pause does harm. It is resolved once against
//! the scenario's TTL, before anything is drawn from the seed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time, absolute or as a multiple of the lock's TTL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Absolute(Duration),
    /// A multiple of the lock's TTL, such as `1.5ttl`.
    Ttl(f64),
}

/// Lengths from `low` to `high`, both included. For a single length, both ends are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthRange {
    pub low: Length,
    pub high: Length,
}

/// Why a text is not a length, and what was expected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct LengthError(String);

/// A longer length is taken for a typo.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl Length {
    pub fn resolve(self, ttl: Duration) -> Duration {
        match self {
            Length::Absolute(duration) => duration,
            // A history may contain any TTL.
            Length::Ttl(factor) => Duration::try_from_secs_f64(ttl.as_secs_f64() * factor).unwrap_or(Duration::MAX),
        }
    }

    /// Parses a length without `ttl`, for places where no TTL is known.
    pub fn without_ttl(text: &str) -> Result<Duration, LengthError> {
        if text.trim().ends_with("ttl") {
            return text.parse::<Length>()?.absolute();
        }
        fixed(text.trim(), "`250ms`, `30s` or `2m`")
    }

    /// The duration. An error if it depends on a TTL.
    pub fn absolute(self) -> Result<Duration, LengthError> {
        match self {
            Length::Absolute(duration) => Ok(duration),
            Length::Ttl(_) => {
                Err(LengthError("a multiple of the TTL makes no sense here; write for example `30s`".to_string()))
            }
        }
    }
}

impl LengthRange {
    /// Both ends as durations if the TTL is `ttl`. An error if the first is longer than the second.
    pub fn resolve(self, ttl: Duration) -> Result<(Duration, Duration), LengthError> {
        let (low, high) = (self.low.resolve(ttl), self.high.resolve(ttl));
        if low > high {
            return Err(LengthError(format!(
                "`{self}` goes from a longer length to a shorter one; write the shorter one first"
            )));
        }
        Ok((low, high))
    }
}

/// Whole milliseconds. A value that does not fit becomes the largest number.
pub fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Whole microseconds, limited like [`millis`].
pub fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// Nanoseconds, limited like [`millis`].
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

impl FromStr for Length {
    type Err = LengthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Some(factor) = text.strip_suffix("ttl") {
            let factor: f64 = factor.trim().parse().map_err(|_| not_a_length(text, "`1.5ttl`"))?;
            if !factor.is_finite() || !(0.0..=1000.0).contains(&factor) {
                return Err(LengthError(format!(
                    "`{text}` is out of range; a multiple of the TTL lies between 0 and 1000"
                )));
            }
            return Ok(Length::Ttl(factor));
        }
        fixed(text, "`250ms`, `30s`, `2m` or `1.5ttl`").map(Length::Absolute)
    }
}

fn fixed(text: &str, examples: &str) -> Result<Duration, LengthError> {
    let duration = humantime::parse_duration(text).map_err(|_| not_a_length(text, examples))?;
    if duration > LONGEST {
        return Err(LengthError(format!("`{text}` is longer than any option allows; write for example {examples}")));
    }
    Ok(duration)
}

fn not_a_length(text: &str, examples: &str) -> LengthError {
    let remedy = match text.parse::<f64>() {
        _ if text.starts_with('-') => format!("a length must be positive, such as {examples}"),
        Ok(number) if number >= 0.0 => format!("did you mean `{text}s`?"),
        _ => format!("write for example {examples}"),
    };
    LengthError(format!("`{text}` is not a length of time; {remedy}"))
}

impl FromStr for LengthRange {
    type Err = LengthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("..") {
            None => {
                let length: Length = text.parse()?;
                Ok(LengthRange { low: length, high: length })
            }
            Some((low, high)) => Ok(LengthRange { low: low.parse()?, high: high.parse()? }),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // humantime separates units by spaces. Without them the text is one word of a command line.
            Length::Absolute(d) => f.write_str(&humantime::format_duration(*d).to_string().replace(' ', "")),
            Length::Ttl(factor) => write!(f, "{factor}ttl"),
        }
    }
}

impl fmt::Display for LengthRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high { write!(f, "{}", self.low) } else { write!(f, "{}..{}", self.low, self.high) }
    }
}

/// A length in a file. A bare number is rejected with the expected form.
struct LengthText;

impl serde::de::Visitor<'_> for LengthText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time in quotes, such as \"5s\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_string())
    }
}

macro_rules! serde_as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(LengthText)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(Length, LengthRange);

/// Durations in text form.
pub mod as_text {
    use super::*;

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Length::Absolute(*duration))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Length::deserialize(deserializer)?.absolute().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_people_write_are_understood() {
        let ttl = Duration::from_secs(2);
        for (text, millis) in [("250ms", 250), ("30s", 30_000), ("2m", 120_000), ("1.5ttl", 3000), ("0ttl", 0)] {
            let length: Length = text.parse().unwrap();
            assert_eq!(length.resolve(ttl), Duration::from_millis(millis), "{text}");
            assert_eq!(length.to_string().parse::<Length>().unwrap(), length, "{text} survives printing");
        }
        assert_eq!(Length::Ttl(1000.0).resolve(Duration::MAX), Duration::MAX);
        let range: LengthRange = "20ms..0.5ttl".parse().unwrap();
        assert_eq!(range.resolve(ttl).unwrap(), (Duration::from_millis(20), Duration::from_secs(1)));
        assert_eq!("1s".parse::<LengthRange>().unwrap().to_string(), "1s");
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        for text in ["", "ttl", "-1s", "1", "nanttl", "infttl", "1e9ttl", "-2ttl", "1s..", "..", "5 parsecs", "8days"] {
            assert!(text.parse::<LengthRange>().is_err(), "{text:?} must be refused");
        }
        let backwards: LengthRange = "2s..1s".parse().unwrap();
        assert!(backwards.resolve(Duration::from_secs(1)).is_err());
    }
}
