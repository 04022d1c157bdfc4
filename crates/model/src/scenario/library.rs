//! A workload whose lock is a published library: the library, the client around it, and its installation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use super::package::{Package, is_version};
use base::texts::one_or_more;

/// The files of clients that come with redjepsen, by their paths relative to `workloads/`.
pub const CLIENT_FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/client_files.rs"));

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    pub name: String,
    /// Left out in a file with `package`: then it is the pinned version.
    #[serde(default)]
    pub version: String,
    /// The version that comes with redjepsen, if the user asked for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// The package that contains it, so that other versions can be installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Package>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// How many people use it and when that was counted, such as `5,800 stars (2026-11)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<String>,
    /// Known faults that break it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Why a library fails, or passes, under a nemesis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The nemeses or scenarios that show it, the simplest first; one, or a list.
    #[serde(deserialize_with = "names")]
    pub nemesis: Vec<String>,
    pub cause: Cause,
    /// The diagnosis that a run under the first of these nemeses shows: `RJ002`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// One sentence.
    pub what: String,
    /// The lines in the library's source, such as `redis/lock.py:253`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The report to its authors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<String>,
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    one_or_more(deserializer, "the name of a nemesis such as \"pause\", or a list of names")
}

/// The cause, that is, the part that could do better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The library: others of its kind pass.
    Library,
    /// The kind of lock. A lock that expires by itself does not protect a holder that stops, and Redlock depends on its nodes'
    /// clocks and memories.
    Kind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadClient {
    Python(PythonClient),
    Command(CommandClient),
}

/// A Python script on the package `redjepsen` ([`CLIENT_FILES`]), with its other requirements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonClient {
    /// The script, relative to the workload's file.
    pub adapter: PathBuf,
    /// A file that pins every package it needs, relative to the workload's file; None if it needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<PathBuf>,
    /// A file that pins the build requirements of packages without a wheel; None if pip should find them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_with: Option<PathBuf>,
    /// Files and folders of the user's own package, if `requirements` names it by its path, relative to the workload's file. If
    /// one changes, the package is installed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The base folder of these paths; None for the files that come with redjepsen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

/// Any other program. In its words `{folder}` is the workload file's folder, and `{env}` is the folder of its installation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandClient {
    pub command: Vec<String>,
    /// The command that installs it, run once for these words; empty if there is nothing to install.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install: Vec<String>,
    /// The command that installs another version of the library, with `{package}` and `{version}` in its words; empty if only one
    /// version can be installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub another_version: Vec<String>,
    /// Files and folders from which it is installed, relative to the workload's file. If one changes, it is installed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// As in [`PythonClient::folder`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl Library {
    /// Fills in its version from the pins if its file leaves it out.
    pub(super) fn complete(&mut self, client: Option<&WorkloadClient>) -> Result<(), String> {
        if self.instead_of.is_none() {
            let pinned = match (&self.package, client) {
                (Some(package), Some(client)) => Some(package.pinned(files_of_pins(client))),
                _ => None,
            };
            match pinned {
                Some(Ok(pinned)) if self.version.is_empty() => self.version = pinned,
                Some(Ok(pinned)) if pinned != self.version => {
                    return Err(format!(
                        "`[library]` has version {}, but the client's files install {pinned}; leave `version` out",
                        self.version
                    ));
                }
                Some(Err(text)) if self.version.is_empty() => return Err(format!("`[library]`: {text}")),
                _ => {}
            }
        }
        match is_version(&self.version) {
            true => Ok(()),
            false if self.version.is_empty() => {
                Err("`[library]`: give its `version`, or the `package` whose version is pinned".to_string())
            }
            false => Err(format!(
                "`[library]`: `version = {:?}` is not a version; it begins with a digit and has letters, digits, `.`, `_`, `+` and `-`",
                self.version
            )),
        }
    }
}

/// The texts of the files that may pin the packages of a client.
fn files_of_pins(client: &WorkloadClient) -> impl Iterator<Item = String> {
    let files: Vec<PathBuf> = match client {
        WorkloadClient::Python(client) => client.requirements.iter().cloned().collect(),
        WorkloadClient::Command(client) => {
            let inside = |path: &PathBuf| {
                let pins = ["package-lock.json", "go.mod", "pom.xml", "Cargo.lock"].map(|name| path.join(name));
                [vec![path.clone()], pins.to_vec()].concat()
            };
            client.sources.iter().flat_map(inside).collect()
        }
    };
    files.into_iter().filter_map(|path| text_of(client, &path))
}

/// The text of a file from which a client is installed.
fn text_of(client: &WorkloadClient, path: &Path) -> Option<String> {
    match client.folder() {
        Some(folder) => base::files::read_named(&folder.join(path), base::files::BY_HAND).ok(),
        None => CLIENT_FILES.iter().find(|(known, _)| Path::new(known) == path).map(|(_, text)| (*text).to_string()),
    }
}

/// The Python modules in the folder of an adapter, without the adapter, in the order of their names.
fn modules_beside(adapter: &Path) -> Vec<PathBuf> {
    const MOST: usize = 200;
    let entries = adapter.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    let is_module = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "py") && path != adapter;
    let mut modules: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_module).collect();
    modules.sort();
    modules.truncate(MOST);
    modules
}

impl WorkloadClient {
    /// The base folder of its paths; None for the files that come with redjepsen.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            WorkloadClient::Python(PythonClient { folder, .. })
            | WorkloadClient::Command(CommandClient { folder, .. }) => folder.as_deref(),
        }
    }

    /// Its files and folders, as its workload's file names them.
    pub fn made_of(&self) -> Vec<&PathBuf> {
        match self {
            WorkloadClient::Python(client) => {
                let files = client.requirements.iter().chain(&client.built_with).chain([&client.adapter]);
                files.chain(&client.sources).collect()
            }
            WorkloadClient::Command(client) => client.sources.iter().collect(),
        }
    }

    /// The same, with their full paths; empty for a client that comes with redjepsen. Python finds modules beside the adapter, so
    /// these belong to it, too.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let Some(folder) = self.folder() else { return Vec::new() };
        let mut files: Vec<PathBuf> = self.made_of().into_iter().map(|path| folder.join(path)).collect();
        if let WorkloadClient::Python(client) = self {
            files.extend(modules_beside(&folder.join(&client.adapter)));
        }
        files
    }

    /// A hash of the contents of these files, in hexadecimal; None for a client that comes with redjepsen.
    pub fn sources(&self) -> Option<String> {
        const SHOWN: usize = 12;
        let files = self.own_files();
        if files.is_empty() {
            return None;
        }
        let mut hash = Sha256::new();
        for file in files {
            hash.update(base::files::content(&file).unwrap_or_default());
        }
        Some(base::words::hex(&hash.finalize())[..SHOWN].to_string())
    }

    /// The same client of a workload file in this folder.
    pub(super) fn in_folder(&mut self, of_file: &Path) {
        match self {
            WorkloadClient::Python(PythonClient { folder, .. })
            | WorkloadClient::Command(CommandClient { folder, .. }) => *folder = Some(of_file.to_path_buf()),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let outside = |path: &Path| path.is_absolute() || path.components().any(|part| part.as_os_str() == "..");
        if let WorkloadClient::Command(client) = self
            && client.command.is_empty()
        {
            return Err("`[client.command]`: `command` is empty; give a program and its arguments".to_string());
        }
        match self.made_of().into_iter().find(|path| outside(path)) {
            Some(path) => Err(format!(
                "`[client]`: {} leads out of the workload file's folder; give a path below it",
                path.display()
            )),
            None => Ok(()),
        }
    }
}
