//! A known issue of a published library: a file with its report, its summary and the run that shows it. It names the version that
//! fails and, if there is one, the version that passes.

use serde::{Deserialize, Serialize};

use super::catalogue::{self, CatalogueError, ISSUES};
use super::options::Options;
use super::package::is_version;
use crate::history::Claim;

/// A known issue by its upstream name, such as `redis-py#554`, or by path, with its upstream name.
pub fn known(name_or_path: &str) -> Result<(String, Issue), CatalogueError> {
    let wanted =
        if catalogue::is_path(name_or_path) { name_or_path.to_string() } else { name_or_path.replace('#', "-") };
    let known = ISSUES.iter().any(|(name, _)| *name == wanted);
    if !known && !catalogue::is_path(&wanted) {
        let names: Vec<String> = ISSUES.iter().map(|(name, _)| issue_name(name)).collect();
        let alike = catalogue::did_you_mean(name_or_path, names.iter().map(String::as_str));
        return Err(CatalogueError(format!(
            "unknown issue `{name_or_path}`; {alike}`redjepsen list issues` shows all; you can also give the path of a \
             .toml file"
        )));
    }
    let (name, issue): (String, Issue) = catalogue::find("issue", ISSUES, &wanted)?;
    let name = issue_name(&name);
    issue.check().map_err(|text| CatalogueError(format!("issue {name}: {text}")))?;
    Ok((name, issue))
}

/// The upstream name of an issue, by the name of its file: `redis-py-554` is `redis-py#554`.
fn issue_name(file: &str) -> String {
    match file.rsplit_once('-') {
        Some((package, number)) if number.parse::<u32>().is_ok() => format!("{package}#{number}"),
        _ => file.to_string(),
    }
}

/// A file of `issues/`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    pub url: String,
    /// A summary in one sentence, in redjepsen's words.
    pub says: String,
    /// The workload that shows it, by name or path, unless a side names another.
    pub workload: String,
    /// The nemesis or scenario that causes it.
    pub nemesis: String,
    #[serde(default)]
    pub with: Options,
    pub breaks: Claim,
    pub falls: Side,
    /// None if no released version passes.
    pub holds: Option<Side>,
}

/// A version that fails, or a version that passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    pub version: String,
    /// Another workload than the issue's, such as one with the option that fixes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A remark, such as the first version that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Issue {
    pub fn run(&self, side: &Side) -> (String, Options) {
        let with = Options { library_version: Some(side.version.clone()), ..Options::default() };
        (side.workload.as_ref().unwrap_or(&self.workload).clone(), with.or(&self.with))
    }

    /// The side with this version. Any other version is run as the failing side. If an option fixes the issue, both sides may
    /// have the same version; then it is the failing side.
    pub fn side(&self, version: Option<&str>) -> &Side {
        let other = self.holds.as_ref().filter(|holds| holds.version != self.falls.version);
        other.filter(|holds| version == Some(&holds.version)).unwrap_or(&self.falls)
    }

    /// `7.0.0 falls, 7.0.1 holds`. If an option fixes the issue, the option replaces the repeated version.
    pub fn sides(&self) -> String {
        let falls = &self.falls;
        let how = |side: &Side| {
            let workload = side.workload.as_ref().map(|workload| format!(" as `{workload}`"));
            let note = side.note.as_ref().map(|note| format!(" ({note})"));
            workload.into_iter().chain(note).collect::<String>()
        };
        match &self.holds {
            None => format!("{} fails, and no release passes", falls.version),
            Some(holds) if holds.version == falls.version => {
                format!("{} fails{}, and passes{}", falls.version, how(falls), how(holds))
            }
            Some(holds) => format!("{} fails, {} passes", falls.version, holds.version),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.with.library_version.is_some() {
            return Err("`[falls]` and `[holds]` name its versions; leave `library_version` out of `[with]`".into());
        }
        if !self.url.starts_with("https://") {
            return Err(format!("`url = {:?}` is not an address; it begins with https://", self.url));
        }
        let same = |holds: &&Side| (&holds.version, &holds.workload) == (&self.falls.version, &self.falls.workload);
        if self.holds.as_ref().is_some_and(|holds| same(&holds)) {
            return Err(
                "`[falls]` and `[holds]` name the same run; give one of them another version or workload".into()
            );
        }
        let sides = [Some(&self.falls), self.holds.as_ref()];
        match sides.into_iter().flatten().find(|side| !is_version(&side.version)) {
            Some(side) => Err(format!("`version = {:?}` is not a version; for example, use 7.0.1", side.version)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_issue_that_comes_with_the_binary_can_be_run_on_each_of_its_sides() {
        for (file, _) in ISSUES {
            let (name, issue) = known(file).unwrap();
            assert_eq!(known(&name).unwrap().1, issue, "{name}");
            assert!(issue.url.ends_with(&format!("/{}", name.rsplit('#').next().unwrap())), "{name}: {}", issue.url);
            assert!(!issue.says.is_empty() && !issue.says.contains('\n'), "{name}");
            let sides = [Some(&issue.falls), issue.holds.as_ref()];
            for side in sides.into_iter().flatten() {
                let (workload, with) = issue.run(side);
                let scenario = with.scenario(&workload, &issue.nemesis, 7, Path::new("")).unwrap();
                assert!(scenario.workload.claims.contains(&issue.breaks), "{name}: nobody claims {:?}", issue.breaks);
                assert_eq!(scenario.workload.library.unwrap().version, side.version, "{name}");
            }
        }
    }

    #[test]
    fn sides_of_one_version_are_told_by_what_mends_it() {
        for (file, _) in ISSUES {
            let (name, issue) = known(file).unwrap();
            let sides = issue.sides();
            assert_eq!(sides.matches(&issue.falls.version).count(), 1, "{name}: {sides}");
        }
        assert_eq!(
            known("huey#538").unwrap().1.sides(),
            "3.5.4 fails (with default settings), and passes as `huey` (with a TTL)"
        );
        assert!(known("redis-py#554").unwrap().1.sides().contains(" fails, "));
    }

    #[test]
    fn a_mistake_in_an_issue_gets_a_message_that_says_where_and_what() {
        let error = known("redis-py#545").unwrap_err().to_string();
        assert!(error.contains("unknown issue `redis-py#545`; did you mean `redis-py#554`"), "{error}");
        let nothing_like_it = known("zzz").unwrap_err().to_string();
        assert!(nothing_like_it.starts_with("unknown issue `zzz`; `redjepsen list issues`"), "{nothing_like_it}");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let good = ISSUES.iter().find(|(name, _)| *name == "redis-py-554").unwrap().1;
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            known(file.to_str().unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(read(good).unwrap().0, "mine");
        for (from, to, expected) in [
            ("breaks = \"", "breaks = \"not-", "unknown variant"),
            ("workload = ", "workloud = ", "unknown field `workloud`"),
            ("version = \"", "version = \"--", "is not a version"),
            ("https://", "http:/", "is not an address"),
            ("\"3.0.1\"", "\"2.10.6\"", "name the same run"),
        ] {
            let error = read(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected) && error.contains("mine"), "{error}");
        }
    }
}
