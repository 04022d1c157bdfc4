//! `redjepsen list`: the catalogue as a user reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::console::{Exit, Failure, look, print};
use super::linear::MODELS;
use base::files;
use base::words::{plural, wrap};
use model::scenario::catalogue::{self, CatalogueError, EmbeddedFile, ISSUES, NEMESES, SUITES, WORKLOADS};
use model::scenario::{self, CLIENT_FILES, WorkloadClient, quoted};

/// A column of fewer characters is harder to read than one that is broken by the terminal.
const SHORTEST_LINE: usize = 24;

pub fn list(name: Option<&str>, json: bool) -> Result<Exit, Failure> {
    print(match name {
        None if json => as_json()?,
        None => everything()?,
        Some("issues") => section(ISSUES_TITLE, &issues()?, look().width) + ISSUES_HELP,
        Some("diagnoses") => section(DIAGNOSES_TITLE, &diagnoses(), look().width),
        Some("properties") => section(PROPERTIES_TITLE, &properties(), look().width),
        Some(name) => shown(name)?,
    })?;
    Ok(Exit::Valid)
}

const ISSUES_TITLE: &str =
    "Issues of libraries, each with the version that falls and the one that holds (redjepsen run --issue)";

const PROPERTIES_TITLE: &str = "Properties, which a history is asked (redjepsen list properties)";

pub const DIAGNOSES_TITLE: &str = "Diagnoses, of what is wrong with a lock (redjepsen explain CODE)";

/// Every diagnosis with what it says.
pub fn diagnoses() -> Vec<(String, String)> {
    let told = |kind: &&diagnosis::Kind| (kind.code.to_string(), format!("{}: {}", kind.name, kind.title));
    diagnosis::KINDS.iter().map(told).collect()
}

/// Every property with what it says.
fn properties() -> Vec<(String, String)> {
    let told = |row: checker::PropertyRow| {
        let key = row.parameter.map_or(String::new(), |key| format!(", with `{key}`"));
        (row.id.to_string(), format!("{}: {} (in {}{key})", row.rank, row.title, row.applies))
    };
    checker::properties_by_rank().into_iter().map(told).collect()
}

const ISSUES_HELP: &str = "\
`redjepsen list redis-py#554` shows one with its file; `redjepsen suite issues` plays them all, with both versions.
";

/// Every known issue with what it says.
fn issues() -> Result<Vec<(String, String)>, Failure> {
    let told = |(file, _): &EmbeddedFile| {
        let (name, issue) = scenario::known_issue(file).map_err(Failure::could_not_run)?;
        Ok((name, format!("{} {}", issue.says, issue.sides())))
    };
    ISSUES.iter().map(told).collect()
}

/// A part of the list: its title, and the name and description of each of its entries.
type Section = (&'static str, Vec<(String, String)>);

/// An object with a list for each part, by the first word of its title: `{"workloads": [{"name": …, "description": …}], …}`.
fn as_json() -> Result<String, Failure> {
    let part = |(title, entries): Section| {
        let name = title.split([',', ' ']).next().unwrap_or_default().to_lowercase();
        let entries =
            entries.into_iter().map(|(name, description)| json!({ "name": name, "description": description }));
        (name, entries.collect::<Vec<_>>().into())
    };
    let all: serde_json::Map<String, serde_json::Value> = sections()?.into_iter().map(part).collect();
    let text = serde_json::to_string_pretty(&all).map_err(Failure::could_not_run)?;
    Ok(text + "\n")
}

/// Every lock, workload, nemesis, scenario, suite, issue and model, one per line.
fn everything() -> Result<String, Failure> {
    let sections = sections()?;
    let mut text: String = sections.iter().map(|(title, entries)| section(title, entries, look().width)).collect();
    text.push_str(
        "`redjepsen list NAME` shows one with its file; copy it, change it, and give its path to `run`. With a library it\n\
         shows the client as well: for one of your own, begin with `redjepsen list redis-py`.\n",
    );
    Ok(text)
}

fn sections() -> Result<Vec<Section>, Failure> {
    let (mut workloads, mut libraries) = (Vec::new(), Vec::new());
    let mut locks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, _) in WORKLOADS {
        let (_, workload) = catalogue::workload(name).map_err(Failure::could_not_run)?;
        if workload.library.is_some() {
            libraries.push((name.to_string(), workload.description));
            continue;
        }
        locks.entry(workload.lock.name()).or_default().push(name);
        workloads.push((name.to_string(), workload.description));
    }
    let locks = locks.into_iter().map(|(lock, workloads)| (lock.to_string(), workloads.join(", "))).collect();
    let (mut nemeses, mut scenarios) = (Vec::new(), Vec::new());
    for (name, _) in NEMESES {
        let (_, nemesis) = catalogue::nemesis(name).map_err(Failure::could_not_run)?;
        let entries = if nemesis.script.is_empty() { &mut nemeses } else { &mut scenarios };
        entries.push((name.to_string(), nemesis.description));
    }
    let mut suites = Vec::new();
    for (name, _) in SUITES {
        let (_, suite, _) = suite::file::open(name).map_err(Failure::could_not_run)?;
        suites.push((name.to_string(), suite.description));
    }
    let models = MODELS.iter().map(|(name, about)| (name.to_string(), about.to_string())).collect();
    Ok(vec![
        ("Workloads, each a lock and what it protects (--workload)", workloads),
        ("Libraries, published locks as they ship (--workload)", libraries),
        ("Locks, and the workloads that use them", locks),
        ("Nemeses, whose faults recur (--nemesis, several with commas)", nemeses),
        ("Scenarios, scripts that create one moment step by step (--nemesis)", scenarios),
        ("Suites of many runs (redjepsen suite NAME)", suites),
        (ISSUES_TITLE, issues()?),
        (PROPERTIES_TITLE, properties()),
        (DIAGNOSES_TITLE, diagnoses()),
        ("Models, for histories from anywhere (redjepsen check --model)", models),
    ])
}

/// On a terminal, a text that is too long for a line goes on below itself.
pub fn section(title: &str, entries: &[(String, String)], line: Option<usize>) -> String {
    let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let room = line.map_or(usize::MAX, |line| line.saturating_sub(width + 4).max(SHORTEST_LINE));
    let indent = format!("\n{}", " ".repeat(width + 4));
    let told = |(name, text): &(String, String)| format!("  {name:<width$}  {}\n", wrap(text, room).join(&indent));
    format!("{title}:\n{}\n", entries.iter().map(told).collect::<String>())
}

const FOLDERS: [(&str, &[EmbeddedFile]); 4] =
    [("workloads", WORKLOADS), ("nemeses", NEMESES), ("suites", SUITES), ("issues", ISSUES)];

/// The files with that name, each with its folder.
fn named(name: &str) -> Result<Vec<(&'static str, &'static EmbeddedFile)>, Failure> {
    let issue = scenario::known_issue(name).ok().map(|_| name.replace('#', "-"));
    let name = issue.as_deref().unwrap_or(name);
    let files: Vec<_> = FOLDERS
        .into_iter()
        .flat_map(|(folder, entries)| entries.iter().map(move |entry| (folder, entry)))
        .filter(|(_, (entry, _))| *entry == name)
        .collect();
    if files.is_empty() {
        let names = FOLDERS.into_iter().flat_map(|(_, entries)| entries).map(|(name, _)| *name);
        let alike = catalogue::did_you_mean(name, names);
        let text =
            format!("there is no workload, nemesis, suite or issue `{name}`; {alike}`redjepsen list` shows them");
        return Err(Failure::arguments(text));
    }
    Ok(files)
}

/// The files with that name, and for a library the files of its client.
fn shown(name: &str) -> Result<String, Failure> {
    let found = named(name)?;
    let mut text: String =
        found.iter().map(|(folder, (name, text))| format!("# {folder}/{name}.toml\n{text}\n")).collect();
    if found.iter().any(|(folder, _)| *folder == "workloads") {
        text.push_str(&client(name).map_err(Failure::could_not_run)?);
    }
    Ok(text)
}

/// The client of a workload that has one, and how to make one's own of it.
fn client(workload: &str) -> Result<String, CatalogueError> {
    let Some(client) = catalogue::workload(workload)?.1.client else { return Ok(String::new()) };
    let then = match &client {
        WorkloadClient::Python(_) => OWN_LIBRARY.to_string(),
        WorkloadClient::Command(_) => OTHER_LANGUAGE.replace("NAME", workload),
    };
    let paths = client.made_of();
    let of_it = |path: &str| paths.iter().any(|wanted| Path::new(path).starts_with(wanted));
    let told = CLIENT_FILES.iter().filter(|(path, _)| of_it(path)).map(|(path, text)| match is_beside(path) {
        false => format!("# workloads/{path}\n{text}\n"),
        true => format!("# workloads/{path}\n"),
    });
    Ok(told.collect::<String>() + &then)
}

/// Whether a file of a client is no part of its adapter, but pins packages or is of the package that all adapters of its language
/// are made on.
fn is_beside(path: &str) -> bool {
    const PINS: [&str; 4] = ["package-lock.json", "go.sum", "Cargo.lock", "install.sh"];
    const PACKAGES: [&str; 6] = [
        "go/redjepsen/",
        "java/client/",
        "rust/redjepsen-client/",
        "node/redjepsen.js",
        "php/redjepsen.php",
        "php/packages/",
    ];
    let of_language = path.strip_prefix("clients/").unwrap_or(path);
    PINS.iter().any(|name| path.ends_with(name)) || PACKAGES.iter().any(|name| of_language.starts_with(name))
}

/// Writes what has that name into a new folder, where it can be changed and played; of a library all that its client is made of.
pub fn save(name: &str, folder: &Path) -> Result<Exit, Failure> {
    let found = named(name)?;
    let is_workload = found.iter().any(|(of, _)| *of == "workloads");
    let client = match is_workload {
        true => catalogue::workload(name).map_err(Failure::could_not_run)?.1.client,
        false => None,
    };
    // The build files of a language name all its clients; Python has none.
    let whole = |client: &WorkloadClient| if matches!(client, WorkloadClient::Python(_)) { usize::MAX } else { 2 };
    let wanted: Vec<PathBuf> = client
        .iter()
        .flat_map(|client| client.made_of().into_iter().map(|path| path.components().take(whole(client)).collect()))
        .collect();
    std::fs::create_dir(folder).map_err(|error| {
        Failure::arguments(format!("--save {}: {error}; it takes a folder that is not there yet", folder.display()))
    })?;
    let mut files: Vec<(PathBuf, &str)> =
        found.iter().map(|(_, (name, text))| (PathBuf::from(format!("{name}.toml")), *text)).collect();
    let of_client = CLIENT_FILES.iter().filter(|(path, _)| wanted.iter().any(|of| Path::new(path).starts_with(of)));
    files.extend(of_client.map(|(path, text)| (PathBuf::from(path), *text)));
    for (path, text) in &files {
        let path = folder.join(path);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        written.map_err(|error| Failure::could_not_run(format!("{}: {error}", path.display())))?;
        files::write(&path, text).map_err(Failure::could_not_run)?;
    }
    let then = match is_workload {
        true => {
            let file = folder.join(format!("{name}.toml")).display().to_string();
            format!("; redjepsen run --workload {}", quoted(&file))
        }
        false => String::new(),
    };
    print(format!("{} in {}{then}\n", plural(files.len() as u64, "file"), folder.display()))?;
    Ok(Exit::Valid)
}

/// What to do with a client in Python.
const OWN_LIBRARY: &str = "\
# For a library of your own: save the script as mylock_client.py, the packages as mylock.txt and the first file as mylock.toml,
# with `adapter = \"mylock_client.py\"` and `requirements = \"mylock.txt\"`, and run
#   redjepsen run --cluster local --workload ./mylock.toml --nemesis none --time-limit 10s
";

/// What to do with one in another language.
const OTHER_LANGUAGE: &str = "\
# These files are its client. To make one of your own of it, write them into a folder, with the package that they are made on:
#   redjepsen list NAME --save mylock
#   redjepsen run --cluster local --workload mylock/NAME.toml --nemesis none --time-limit 10s
";
