//! How often an event happens to a member, and how long it lasts: measured lengths from a file, or a profile.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use base::files;
use base::units::{Length, LengthError, LengthRange};

/// At most this many bytes of a file are read: some million lines.
const LARGEST: u64 = 64 << 20;
/// The number of lengths that represent one range of a profile.
const POINTS: u32 = 16;
const MEASURED_OVER: &str = "measured over ";

/// Lengths, and the time in which one member had all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The name of the file or profile, for messages.
    pub name: String,
    /// The sorted lengths, each with its count.
    pub lengths: Vec<(Duration, f64)>,
    /// The time in which one member had all of them.
    pub over: Duration,
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A measurement. A second one would differ slightly.
    Measured,
    /// A profile: an example, not a measurement.
    Profile { description: String, from: String },
}

/// Why there is no distribution, and how to fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct DistributionError(String);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    description: String,
    /// Where the numbers come from, in words.
    from: String,
    /// The time in which a member has all of them.
    over: Length,
    lengths: Vec<Lengths>,
}

/// A number of lengths, spread evenly on a logarithmic scale.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lengths {
    length: LengthRange,
    times: f64,
}

pub const PROFILES: [(&str, &str); 4] = [
    ("jvm-g1", include_str!("../../../../profiles/jvm-g1.toml")),
    ("jvm-parallel-old", include_str!("../../../../profiles/jvm-parallel-old.toml")),
    ("quiet", include_str!("../../../../profiles/quiet.toml")),
    ("vm-migration", include_str!("../../../../profiles/vm-migration.toml")),
];

impl Distribution {
    /// A profile by its name, or a file of lengths. `over` is the time of the measurement, if the file does not state it.
    pub fn named(text: &str, over: Option<Duration>) -> Result<Distribution, DistributionError> {
        match PROFILES.iter().find(|(name, _)| *name == text) {
            Some(_) if over.is_some() => Err(DistributionError(format!(
                "{text} is a profile, which says how often its faults occur; --measured-over needs a file"
            ))),
            Some((name, file)) => profile(name, file),
            None if !text.contains(['/', '.']) => {
                let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
                Err(DistributionError(format!(
                    "there is no profile `{text}`; the profiles are {}. To use a file, write its path with a `/` or a `.`, as in ./{text}",
                    names.join(", ")
                )))
            }
            None => {
                let file = files::read_named(Path::new(text), LARGEST)
                    .map_err(|error| DistributionError(format!("{error}; give a profile or a file of lengths")))?;
                measured(text, &file, over)
            }
        }
    }

    pub fn longest(&self) -> Duration {
        self.lengths.last().map_or(Duration::ZERO, |(length, _)| *length)
    }

    pub fn count(&self) -> f64 {
        self.lengths.iter().map(|(_, times)| times).sum()
    }

    /// True if a second measurement would differ.
    pub fn is_measured(&self) -> bool {
        self.source == Source::Measured
    }
}

fn profile(name: &str, file: &str) -> Result<Distribution, DistributionError> {
    let wrong = |error: String| DistributionError(format!("profile {name}: {error}"));
    let of_length = |error: LengthError| wrong(error.to_string());
    let profile: Profile = toml::from_str(file).map_err(|error| wrong(error.to_string()))?;
    let mut lengths = Vec::new();
    for Lengths { length, times } in profile.lengths {
        let (low, high) = (length.low.absolute().map_err(of_length)?, length.high.absolute().map_err(of_length)?);
        let ratio = high.as_secs_f64() / low.as_secs_f64();
        for point in 0..POINTS {
            let share = (f64::from(point) + 0.5) / f64::from(POINTS);
            lengths.push((low.mul_f64(ratio.powf(share)), times / f64::from(POINTS)));
        }
    }
    lengths.sort_by_key(|(length, _)| *length);
    let source = Source::Profile { description: profile.description, from: profile.from };
    Ok(Distribution { name: name.to_string(), lengths, over: profile.over.absolute().map_err(of_length)?, source })
}

/// Parses lengths, one per line, or lines of the form `at,duration`. Lines that begin with `#` are comments, except `# measured
/// over 24h`.
pub fn measured(name: &str, text: &str, over: Option<Duration>) -> Result<Distribution, DistributionError> {
    let mut lengths = Vec::new();
    let (mut said, mut span) = (None, None::<(Duration, Duration)>);
    // Excel writes a byte order mark first.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let wrong = |reason: String| DistributionError(format!("{name}, line {number}: {reason}"));
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(length) = comment.trim().strip_prefix(MEASURED_OVER) {
                let over = humantime::parse_duration(length.trim());
                let no_time = |_| wrong(format!("`{length}` is not a time; write for example `# measured over 24h`"));
                said = Some(over.map_err(no_time)?);
            }
            continue;
        }
        if line.is_empty() || line == "at,duration" {
            continue;
        }
        let (at, length) = match line.split_once(',') {
            Some((at, length)) => (Some(at.trim()), length.trim()),
            None => (None, line),
        };
        let length = length_of(length).map_err(wrong)?;
        if let Some(at) = at {
            let at = moment_of(at).map_err(wrong)?;
            let (first, last) = span.unwrap_or((at, at));
            span = Some((first.min(at), last.max(at.saturating_add(length))));
        }
        lengths.push((length, 1.0));
    }
    if lengths.is_empty() {
        return Err(DistributionError(format!(
            "{name} has no length; write one per line, such as `35ms`, or `at,duration` as in `12.5,35ms`"
        )));
    }
    let of_moments = span.map(|(first, last)| last - first);
    let Some(over) = over.or(said).or(of_moments).filter(|over| !over.is_zero()) else {
        return Err(DistributionError(format!(
            "{name} does not say over which time it was measured, so redjepsen cannot tell how often its faults occur; give \
             --measured-over, such as 24h, or a line `# measured over 24h`"
        )));
    };
    if let Some((longest, _)) = lengths.iter().max_by_key(|(length, _)| *length)
        && *longest > over
    {
        return Err(DistributionError(format!(
            "{name} has a length of {}, longer than the {} over which it was measured; give the time for which one member was \
             observed",
            humantime::format_duration(*longest),
            humantime::format_duration(over)
        )));
    }
    lengths.sort_by_key(|(length, _)| *length);
    Ok(Distribution { name: name.to_string(), lengths, over, source: Source::Measured })
}

fn length_of(text: &str) -> Result<Duration, String> {
    let remedy = "; write for example `35ms`, `1.2s` or, with the time at which it began, `12.5,35ms`";
    let length: Length = text.parse().map_err(|_| format!("`{text}` is not a length of time{remedy}"))?;
    length.absolute().map_err(|_| format!("`{text}` is a multiple of a TTL, but a measured length is a time{remedy}"))
}

/// A time since any fixed start, in seconds or as a length such as `2m`.
fn moment_of(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| humantime::parse_duration(text).ok()).ok_or_else(|| {
        format!("`{text}` is not a time; write the seconds since the measurement began, as in `12.5,35ms`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn lengths_are_read_with_the_time_over_which_they_were_measured() {
        let one = measured("f", "# of a service\n# measured over 30d\n1.5s\n\n12.5ms\n", None).unwrap();
        assert_eq!(one.lengths, [(Duration::from_micros(12_500), 1.0), (ms(1500), 1.0)]);
        assert_eq!((one.over, one.longest(), one.count()), (Duration::from_secs(30 * 24 * 3600), ms(1500), 2.0));
        assert_eq!(
            measured("f", "\u{feff}# measured over 30d\n1.5s\n12.5ms\n", None).unwrap(),
            one,
            "as Excel writes it"
        );
        assert!(
            measured("f", "1s\n\u{feff}2s\n", Some(Duration::from_secs(60))).is_err(),
            "it is for the beginning only"
        );
        let two = measured("f", "at,duration\n10,20ms\n20.5, 500ms\n", None).unwrap();
        assert_eq!(two.over, Duration::from_secs(11), "from the first to the end of the last");
        let three = measured("f", "10,20ms\n20.5,500ms\n", Some(Duration::from_secs(60))).unwrap();
        assert_eq!(three.over, Duration::from_secs(60), "what the user says goes first");
    }

    #[test]
    fn what_is_no_length_is_refused_with_line_and_remedy() {
        for (text, expected) in [
            ("", "f has no length; write one per line"),
            ("# only this\n", "f has no length"),
            ("20ms\n", "`# measured over 24h`"),
            ("10,20ms\n-1,30ms", "f, line 2: `-1` is not a time"),
            ("1s\n20\n", "f, line 2: `20` is not a length of time"),
            ("# measured over soon\n1s\n", "f, line 1: `soon`"),
            ("1s\n2ttl\n", "f, line 2: `2ttl` is a multiple of a TTL"),
            ("# measured over 1s\n2s\n", "longer than the 1s over which it was measured"),
        ] {
            let error = measured("f", text, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn profiles_can_be_read_and_say_where_they_come_from() {
        for (name, _) in PROFILES {
            let profile = Distribution::named(name, None).unwrap();
            let Source::Profile { description, from } = &profile.source else { panic!("{name}") };
            assert!(!description.is_empty() && from.contains("not measured"), "{name}: {from}");
            assert!(profile.lengths.is_sorted_by_key(|(length, _)| *length), "{name}");
            assert!(profile.lengths.iter().all(|(length, times)| !length.is_zero() && *times > 0.0), "{name}");
        }
        let error = Distribution::named("jvm", None).unwrap_err().to_string();
        assert!(error.contains("jvm-g1") && error.contains("./jvm"), "{error}");
        assert!(Distribution::named("quiet", Some(ms(1))).is_err());
        assert!(Distribution::named("./no-such-file", None).unwrap_err().to_string().contains("no-such-file"));
    }
}
