//! The package of a published library: its name in a registry, its pinned version, and the order of versions. The version is only
//! in the file of pins that the package manager reads; a workload's file names just the package.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A package by its URL without a version, as `pkg:pypi/redis` (<https://github.com/package-url/purl-spec>).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Package {
    pub registry: Registry,
    /// Its name for its package manager: `redis`, `@sesamecare-oss/redlock`, `org.redisson:redisson`.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    Pypi,
    Npm,
    Go,
    Maven,
    Cargo,
}

/// Each registry with its word in a package URL.
const WORDS: [(Registry, &str); 5] = [
    (Registry::Pypi, "pypi"),
    (Registry::Npm, "npm"),
    (Registry::Go, "golang"),
    (Registry::Maven, "maven"),
    (Registry::Cargo, "cargo"),
];

impl FromStr for Package {
    type Err = String;

    fn from_str(text: &str) -> Result<Package, String> {
        let words = || WORDS.map(|(_, word)| word).join("`, `");
        let bad = |why: String| format!("`{text}` is not a package; {why}, such as `pkg:pypi/redis`");
        let (word, name) = text
            .strip_prefix("pkg:")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| bad("expected `pkg:REGISTRY/NAME`".to_string()))?;
        let known = WORDS.iter().find(|(_, known)| *known == word);
        let (registry, _) = known.ok_or_else(|| bad(format!("the registry must be one of `{}`", words())))?;
        let name = name.replace("%40", "@");
        let plain = |c: char| c.is_ascii_alphanumeric() || "@/._-".contains(c);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
            return Err(bad("the name must consist of letters, digits, `.`, `_`, `-` and `/`".to_string()));
        }
        let name = match registry {
            Registry::Maven => name.replacen('/', ":", 1),
            _ => name,
        };
        Ok(Package { registry: *registry, name })
    }
}

impl TryFrom<String> for Package {
    type Error = String;

    fn try_from(text: String) -> Result<Package, String> {
        text.parse()
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let word = WORDS.iter().find(|(registry, _)| *registry == self.registry).map_or("", |(_, word)| word);
        write!(f, "pkg:{word}/{}", self.name.replace('@', "%40").replace(':', "/"))
    }
}

impl From<Package> for String {
    fn from(package: Package) -> String {
        package.to_string()
    }
}

impl Package {
    /// The version in one of these files of pins.
    pub(super) fn pinned(&self, files: impl Iterator<Item = String>) -> Result<String, String> {
        files.into_iter().find_map(|text| self.version_in(&text)).ok_or_else(|| {
            format!(
                "no file from which its client is installed pins the version of {self}; pin it there, or give `version`"
            )
        })
    }

    /// The version of the package in a file of pins.
    fn version_in(&self, text: &str) -> Option<String> {
        let version = match self.registry {
            Registry::Pypi => text.lines().find_map(|line| {
                let (name, rest) = line.split_once("==")?;
                let same = normal(name) == normal(&self.name);
                same.then(|| rest.split([' ', ';', '\\']).next().unwrap_or(rest).to_string())
            }),
            Registry::Npm => {
                let lock: Value = serde_json::from_str(text).ok()?;
                let package = lock.get("packages")?.get(format!("node_modules/{}", self.name))?;
                package.get("version")?.as_str().map(str::to_string)
            }
            Registry::Go => text.lines().find_map(|line| {
                let mut words = line.trim().trim_start_matches("require ").split_whitespace();
                (words.next()? == self.name).then(|| words.next())?.map(|word| word.trim_start_matches('v').to_string())
            }),
            // The module for a library has its version as a property, so that a command can set another one.
            Registry::Maven => {
                let (_, artifact) = self.name.split_once(':')?;
                text.contains(&format!("<artifactId>{artifact}</artifactId>")).then_some(())?;
                let rest = text.split_once("<library.version>")?.1;
                Some(rest.split_once("</library.version>")?.0.trim().to_string())
            }
            Registry::Cargo => {
                let lock: toml::Table = toml::from_str(text).ok()?;
                let packages = lock.get("package")?.as_array()?;
                let ours = packages
                    .iter()
                    .find(|package| package.get("name").and_then(|name| name.as_str()) == Some(&self.name))?;
                ours.get("version")?.as_str().map(str::to_string)
            }
        };
        version.filter(|version| is_version(version))
    }
}

/// A Python package's normalized name (PEP 503).
fn normal(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '.'], "-")
}

/// The longest version, in bytes.
const LONGEST: usize = 64;

/// True if a text can be a version: it contains nothing that could be an option, a path or another registry.
pub(super) fn is_version(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= LONGEST && text.chars().all(plain)
}

/// The argument of `--library-version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    One(String),
    /// From the first to the last, both included: `7.0..8.1` has all versions from 7.0 to 8.1, and 8.1.3 too.
    Range(String, String),
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Versions, String> {
        let bad = || format!("`{text}` is not a version; for example, use `7.0.1`, or the range `7.0..8.1`");
        let one = |text: &str| if is_version(text) { Ok(text.to_string()) } else { Err(bad()) };
        match text.split_once("..") {
            None => Ok(Versions::One(one(text)?)),
            Some((low, high)) => {
                let (low, high) = (one(low)?, one(high)?);
                match order(&low, &high) {
                    Ordering::Greater => Err(format!("`{text}` begins with the later version; write `{high}..{low}`")),
                    _ => Ok(Versions::Range(low, high)),
                }
            }
        }
    }
}

/// The published versions in a range, in order. Pre-releases count only if the range names one.
pub fn in_range(published: &[String], low: &str, high: &str) -> Vec<String> {
    let with_early = is_early(low) || is_early(high);
    let mut inside: Vec<String> = published
        .iter()
        .filter(|version| is_version(version) && (with_early || !is_early(version)))
        .filter(|version| order(low, version) != Ordering::Greater)
        .filter(|version| order(version, high) != Ordering::Greater || begins_with(version, high))
        .cloned()
        .collect();
    inside.sort_by(|one, other| order(one, other));
    inside.dedup();
    inside
}

/// True if a version belongs to a shorter one: 8.1.3 belongs to 8.1.
fn begins_with(version: &str, short: &str) -> bool {
    version.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'))
}

/// True if a version is a pre-release, such as a beta.
fn is_early(version: &str) -> bool {
    parts(version).iter().any(|part| matches!(part, VersionPart::Early(_)))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart {
    /// `beta`, `rc`, …: before the version that follows it.
    Early(String),
    /// The end, or a word with the same meaning: `Final`, `RELEASE`.
    End,
    /// `post`.
    Later(String),
    Number(u64),
}

/// Compares two versions number by number; words such as `beta` and `rc` come before the version without them.
pub fn order(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (parts(one), parts(other));
    let longest = one.len().max(other.len());
    // 1.0 and 1.0.0 are equal, and 1.0.0-beta comes before both.
    let fill = |parts: &mut Vec<VersionPart>| parts.resize(longest, VersionPart::End);
    fill(&mut one);
    fill(&mut other);
    let zero_is_end =
        |part: &VersionPart| if *part == VersionPart::Number(0) { VersionPart::End } else { part.clone() };
    one.iter().map(zero_is_end).cmp(other.iter().map(zero_is_end))
}

fn parts(version: &str) -> Vec<VersionPart> {
    // The part after `+` describes the build.
    let version = version.split('+').next().unwrap_or(version);
    let mut parts = Vec::new();
    for piece in version.split(['.', '-', '_']) {
        let mut rest = piece;
        while !rest.is_empty() {
            let digits = rest.starts_with(|c: char| c.is_ascii_digit());
            let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            rest = tail;
            parts.push(match (word.parse(), word.to_lowercase().as_str()) {
                (Ok(number), _) => VersionPart::Number(number),
                (_, "final" | "release" | "ga" | "v") => VersionPart::End,
                (_, "post" | "patch" | "p" | "sp") => VersionPart::Later(word.to_lowercase()),
                (_, early) => VersionPart::Early(early.to_string()),
            });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::catalogue;

    #[test]
    fn a_package_is_a_package_url() {
        for (text, registry, name) in [
            ("pkg:pypi/redis", Registry::Pypi, "redis"),
            ("pkg:npm/%40sesamecare-oss/redlock", Registry::Npm, "@sesamecare-oss/redlock"),
            ("pkg:golang/github.com/bsm/redislock", Registry::Go, "github.com/bsm/redislock"),
            ("pkg:maven/org.redisson/redisson", Registry::Maven, "org.redisson:redisson"),
            ("pkg:cargo/rslock", Registry::Cargo, "rslock"),
        ] {
            let package: Package = text.parse().unwrap();
            assert_eq!((package.registry, package.name.as_str(), package.to_string().as_str()), (registry, name, text));
        }
        for (text, expected) in [
            ("redis", "expected `pkg:REGISTRY/NAME`"),
            ("pkg:gem/redlock", "the registry must be one of `pypi`"),
            ("pkg:pypi/--index-url", "letters, digits"),
            ("pkg:pypi/redis evil", "letters, digits"),
            ("pkg:pypi/", "letters, digits"),
        ] {
            let error = text.parse::<Package>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_version_is_one_or_a_range_and_nothing_else() {
        assert_eq!("7.0.1".parse(), Ok(Versions::One("7.0.1".to_string())));
        assert_eq!("5.0.0-beta.2".parse(), Ok(Versions::One("5.0.0-beta.2".to_string())));
        assert_eq!("7.0..8.1".parse(), Ok(Versions::Range("7.0".to_string(), "8.1".to_string())));
        for (text, expected) in [
            ("", "is not a version"),
            ("latest", "is not a version"),
            ("--pre", "is not a version"),
            ("1.0 --index-url=x", "is not a version"),
            ("1.0;x", "is not a version"),
            ("1/../2", "is not a version"),
            ("..8.1", "is not a version"),
            ("8.1..7.0", "write `7.0..8.1`"),
        ] {
            let error = text.parse::<Versions>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn versions_are_ordered_as_their_authors_mean_them() {
        let rising = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-beta.1",
            "1.0.0-beta.2",
            "1.0.0rc1",
            "1.0",
            "1.0.post1",
            "1.0.1",
            "1.2",
            "1.10",
            "2",
        ];
        for pair in rising.windows(2) {
            assert_eq!(order(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(order(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        for (one, same) in
            [("1.0", "1.0.0"), ("7.5.2.RELEASE", "7.5.2"), ("6.4.2.Final", "6.4.2"), ("1.0+build5", "1.0")]
        {
            assert_eq!(order(one, same), Ordering::Equal, "{one} and {same}");
        }
    }

    #[test]
    fn a_range_has_both_its_ends_and_no_early_versions_unless_it_names_one() {
        let published =
            ["8.1.3", "6.4.0", "7.0.0", "8.0.0rc1", "7.0.1", "8.1.0", "8.2.0", "8.0.0", "--evil"].map(str::to_string);
        assert_eq!(in_range(&published, "7.0", "8.1"), ["7.0.0", "7.0.1", "8.0.0", "8.1.0", "8.1.3"]);
        assert_eq!(in_range(&published, "7.0.1", "8.0.0"), ["7.0.1", "8.0.0"]);
        assert_eq!(in_range(&published, "8.0.0rc1", "8.0"), ["8.0.0rc1", "8.0.0"]);
        assert_eq!(in_range(&published, "9", "10"), Vec::<String>::new());
    }

    #[test]
    fn every_library_has_the_version_that_its_pins_say() {
        let mut seen = 0;
        for (name, _) in catalogue::WORKLOADS {
            let Some(library) = catalogue::workload(name).unwrap().1.library else { continue };
            assert!(is_version(&library.version), "{name}: {}", library.version);
            seen += usize::from(library.package.is_some());
        }
        assert!(seen > 40, "{seen}");
    }

    #[test]
    fn pins_are_read_in_each_format() {
        let of = |package: &str, text: &str| package.parse::<Package>().unwrap().version_in(text);
        let pom = "<properties><library.version>6.10.0</library.version></properties><artifactId>shed</artifactId>";
        for (package, text, version) in [
            ("pkg:pypi/celery-redbeat", "redis==8.1.0 \\\ncelery_redbeat==2.4.2 \\\n    --hash=sha256:0\n", "2.4.2"),
            ("pkg:npm/%40a/b", r#"{"packages": {"node_modules/@a/b": {"version": "1.4.0"}}}"#, "1.4.0"),
            (
                "pkg:golang/github.com/x/y/v4",
                "require (\n\tgithub.com/x/y v1.0.0\n\tgithub.com/x/y/v4 v4.18.1\n)\n",
                "4.18.1",
            ),
            ("pkg:maven/net.x/shed", pom, "6.10.0"),
            ("pkg:cargo/rslock", "[[package]]\nname = \"rslock\"\nversion = \"0.10.0\"\n", "0.10.0"),
        ] {
            assert_eq!(of(package, text).as_deref(), Some(version), "{package}");
            assert_eq!(of(package, &text.replace(version, "$(evil)")), None, "{package}");
            assert_eq!(of(package, "nothing of the kind"), None, "{package}");
        }
    }
}
