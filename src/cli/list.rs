//! `redjepsen list`: shows the catalogue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::console::{Exit, Failure, look, print};
use super::linear::MODELS;
use base::files;
use base::words::{plural, wrap};
use model::nemesis::{Argument, Fault, Need, TargetSpec};
use model::plan::Plan;
use model::scenario::catalogue::{self, CatalogueError, EmbeddedFile, ISSUES, NEMESES, SUITES, WORKLOADS};
use model::scenario::{self, CLIENT_FILES, Fencing, Options, Workload, WorkloadClient, quoted};
use model::topology::Topology;

/// A narrower column is harder to read than lines that the terminal breaks.
const SHORTEST_LINE: usize = 24;

#[derive(Debug, Args)]
pub struct ListFlags {
    /// Topic, or the name of a workload, nemesis, suite or issue, whose file is printed
    ///
    /// Topics: workloads, libraries, locks, faults, nemeses, scenarios, suites, issues, properties, diagnoses, models.
    name: Option<String>,
    /// With `why-not`: a workload and a nemesis. Says why redjepsen does not run this pair
    #[arg(value_name = "WORKLOAD NEMESIS")]
    pair: Vec<String>,
    /// Only entries whose client is written in this language: go, java, node, php, python or rust
    #[arg(long)]
    language: Option<String>,
    /// Only locks of this kind
    #[arg(long, value_enum)]
    kind: Option<KindOfLock>,
    /// Only faults that happen here
    #[arg(long, value_enum)]
    at: Option<Place>,
    /// Print everything as JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
    /// Write the file to this new folder, to change it there; for a library, also its client and helper package
    #[arg(long, value_name = "FOLDER", requires = "name")]
    save: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindOfLock {
    /// One Redis server
    OneNode,
    /// Several independent nodes, of which a majority must agree
    Majority,
    /// A primary and replicas with Sentinels
    Sentinel,
    /// Redis Cluster
    Cluster,
    /// Several clients may hold it at once
    Semaphore,
    /// Clients acquire it for reading or for writing
    ReadWrite,
    /// The resource refuses late writes
    Fenced,
    /// It does not expire
    NoTtl,
}

impl KindOfLock {
    fn has(self, of: &Workload) -> bool {
        match self {
            KindOfLock::OneNode => of.topology == Topology::Independent && of.nodes == 1,
            KindOfLock::Majority => of.topology == Topology::Independent && of.nodes > 1,
            KindOfLock::Sentinel => matches!(of.topology, Topology::Sentinel(_)),
            KindOfLock::Cluster => matches!(of.topology, Topology::Cluster(_)),
            KindOfLock::Semaphore => of.permits > 1,
            KindOfLock::ReadWrite => of.has_readers(),
            KindOfLock::Fenced => of.resource.fencing != Fencing::None,
            KindOfLock::NoTtl => !of.lock.expires(),
        }
    }
}

/// Where a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// At one command or its reply
    Command,
    /// At client processes
    Client,
    /// At servers
    Server,
    /// Between members
    Network,
    /// At wall clocks
    Clock,
}

impl Place {
    fn has(self, fault: &Fault) -> bool {
        let is_clock = matches!(fault.with, Argument::Clock(_));
        let hits_clients = matches!(&fault.whom, TargetSpec::Members(of) if of.0.iter().any(|one| one.is_client()));
        let at_process = !fault.kind.is_at_command() && !fault.kind.is_of_the_network() && !is_clock;
        match self {
            Place::Command => fault.kind.is_at_command(),
            Place::Network => fault.kind.is_of_the_network() && !fault.kind.is_at_command(),
            Place::Clock => is_clock,
            Place::Client => at_process && hits_clients,
            Place::Server => at_process && !hits_clients,
        }
    }
}

pub fn list(flags: &ListFlags) -> Result<Exit, Failure> {
    let ListFlags { name, pair, save, json, .. } = flags;
    if flags.language.is_some() || flags.kind.is_some() || flags.at.is_some() {
        print(filtered(flags)?)?;
        return Ok(Exit::Valid);
    }
    let text = match (name.as_deref(), pair.as_slice(), save) {
        (Some("why-not"), [workload, nemesis], None) => why_not(workload, nemesis)?,
        (Some("why-not"), ..) => {
            return Err(Failure::arguments(
                "why-not takes a workload and a nemesis, such as `list why-not single minority-counts`",
            ));
        }
        (_, [more, ..], _) => {
            return Err(Failure::arguments(format!(
                "unexpected argument `{more}`: `list` takes one topic or one name"
            )));
        }
        (Some(name), [], Some(folder)) => return saved(name, folder),
        (None, [], _) if *json => as_json()?,
        (None, [], _) => overview()?,
        (Some(name), [], None) => match topic(name)? {
            Some(text) => text,
            None => shown(name)?,
        },
    };
    print(text)?;
    Ok(Exit::Valid)
}

/// The sections of a topic with all their entries. None if there is no such topic.
fn topic(name: &str) -> Result<Option<String>, Failure> {
    let keys: &[&str] = match name {
        "faults" => &["nemeses", "scenarios"],
        name => &[name],
    };
    let found = sections()?.into_iter().filter(|section| keys.contains(&section.key.as_str()));
    let text: String = found.map(|of| section(of.title, &of.entries, look().width)).collect();
    let help = if name == "issues" { ISSUES_HELP } else { "" };
    Ok((!text.is_empty()).then(|| text + help))
}

fn filtered(flags: &ListFlags) -> Result<String, Failure> {
    let ListFlags { name, language, kind, at, .. } = flags;
    let topic = name.as_deref().unwrap_or(if at.is_some() { "faults" } else { "locks" });
    let refused = |flag: &str, topics: &str| {
        Err(Failure::arguments(format!("{flag} does not apply to `{topic}`; use it with {topics}")))
    };
    let of_locks = ["workloads", "libraries", "locks"].contains(&topic);
    let of_faults = ["faults", "nemeses", "scenarios"].contains(&topic);
    match at {
        Some(_) if !of_faults || kind.is_some() || language.is_some() => {
            return refused("--at", "faults, nemeses and scenarios");
        }
        None if !of_locks => {
            let given = if language.is_some() { "--language" } else { "--kind" };
            return refused(given, "workloads, libraries and locks");
        }
        _ => {}
    }
    let mut entries = Vec::new();
    for (name, _) in if of_faults { NEMESES } else { WORKLOADS } {
        let description = match at {
            Some(place) => {
                let (_, nemesis) = catalogue::nemesis(name).map_err(Failure::could_not_run)?;
                let is_meant = topic == "faults" || (topic == "scenarios") != nemesis.script.is_empty();
                (is_meant && nemesis.all_faults().any(|fault| place.has(fault))).then_some(nemesis.description)
            }
            None => {
                let (_, workload) = catalogue::workload(name).map_err(Failure::could_not_run)?;
                let is_meant = topic == "locks" || (topic == "libraries") == workload.library.is_some();
                let speaks = language.as_deref().is_none_or(|wanted| language_of(&workload) == wanted);
                let is_kind = kind.is_none_or(|kind| kind.has(&workload));
                (is_meant && speaks && is_kind).then_some(workload.description)
            }
        };
        entries.extend(description.map(|description| (name.to_string(), description)));
    }
    match (entries.is_empty(), language) {
        (true, Some(language)) => Err(Failure::arguments(format!(
            "no entry of {topic} has a client in `{language}`; the languages are {}",
            base::words::list(&languages()?.into_keys().map(str::to_string).collect::<Vec<_>>())
        ))),
        _ => {
            let of = if topic == "faults" { "Faults and scenarios".to_string() } else { base::words::capital(topic) };
            Ok(section(&format!("{of} ({})", entries.len()), &entries, look().width))
        }
    }
}

/// The language of a workload's client: the folder of its adapter. Clients of redjepsen itself are in Rust.
fn language_of(workload: &Workload) -> &'static str {
    let paths = workload.client.iter().flat_map(WorkloadClient::made_of);
    let folders: Vec<String> = paths
        .filter_map(|path| Some(path.strip_prefix("clients").ok()?.iter().next()?.to_str()?.to_string()))
        .collect();
    let known = ["go", "java", "node", "php", "python", "rust"];
    known.into_iter().find(|known| folders.iter().any(|folder| folder == known)).unwrap_or("rust")
}

fn languages() -> Result<BTreeMap<&'static str, usize>, Failure> {
    let mut languages = BTreeMap::new();
    for (name, _) in WORKLOADS {
        let (_, workload) = catalogue::workload(name).map_err(Failure::could_not_run)?;
        if workload.library.is_some() {
            *languages.entry(language_of(&workload)).or_default() += 1;
        }
    }
    Ok(languages)
}

/// Why redjepsen does not run a workload under a nemesis, or the command that runs it.
fn why_not(workload: &str, nemesis: &str) -> Result<String, Failure> {
    let of_workload = catalogue::workload(workload).map_err(Failure::arguments)?;
    let of_nemesis = catalogue::nemesis(nemesis).map_err(Failure::arguments)?;
    let expected = of_workload.1.expect.get(&of_nemesis.0).or_else(|| of_nemesis.1.expect.get(&of_workload.0)).copied();
    let options = Options::default();
    let made = options.scenario_of(of_workload, of_nemesis, 1, Path::new("")).map_err(|error| error.to_string());
    let fits = made.and_then(|made| Plan::draw(&made).map(|_| made).map_err(|error| error.to_string()));
    let scenario = match fits {
        Ok(scenario) => scenario,
        Err(why) => return Ok(wrapped(&format!("{workload} does not run under {nemesis}: {why}."))),
    };
    let mut text = wrapped(&match expected {
        Some(expected) => format!("{workload} runs under {nemesis}. Expected: {}.", expected.word()),
        None => {
            format!("{workload} can run under {nemesis}, but no file expects a result, so no suite runs this pair.")
        }
    });
    let asked: Vec<String> =
        scenario.asks_of_clients().into_iter().map(|(one, _)| format!("`{}`", one.word())).collect();
    if !asked.is_empty() {
        text += &wrapped(&format!(
            "Its client must report {} among its capabilities; otherwise the run cannot start (docs/client-protocol.md).",
            base::words::list(&asked)
        ));
    }
    let renewal = scenario.nemesis.needs().into_iter().find_map(|need| match need {
        Need::Renewal => Some("locks that their library renews in the background"),
        Need::NoRenewal => Some("locks that nothing renews in the background"),
        _ => None,
    });
    text += &renewal.map_or_else(String::new, |which| wrapped(&format!("The scenario applies only to {which}.")));
    Ok(text + &format!("  redjepsen run --workload {workload} --nemesis {nemesis}\n"))
}

fn wrapped(text: &str) -> String {
    wrap(text, look().line()).iter().map(|line| format!("{line}\n")).collect()
}

const ISSUES_TITLE: &str = "Known issues of libraries (redjepsen run --issue)";

const PROPERTIES_TITLE: &str = "Checks of a run (results.json)";

pub const DIAGNOSES_TITLE: &str = "Diagnoses (redjepsen explain CODE)";

pub fn diagnoses() -> Vec<(String, String)> {
    let told = |kind: &&diagnosis::Kind| (kind.code.to_string(), format!("{}: {}", kind.name, kind.title));
    diagnosis::KINDS.iter().map(told).collect()
}

/// Every property with its description.
fn properties() -> Vec<(String, String)> {
    let told = |row: checker::PropertyRow| {
        let key = row.parameter.map_or(String::new(), |key| format!(", with `{key}`"));
        (row.id.to_string(), format!("{}: {} (in {}{key})", row.rank, row.title, row.applies))
    };
    checker::properties_by_rank().into_iter().map(told).collect()
}

const ISSUES_HELP: &str = "\
`redjepsen list redis-py#554` prints one file. `redjepsen suite issues` runs all of them, in both versions.
";

fn issues() -> Result<Vec<(String, String)>, Failure> {
    let told = |(file, _): &EmbeddedFile| {
        let (name, issue) = scenario::known_issue(file).map_err(Failure::could_not_run)?;
        Ok((name, format!("{} {}", issue.says, issue.sides())))
    };
    ISSUES.iter().map(told).collect()
}

struct Section {
    key: String,
    title: &'static str,
    /// Names and descriptions.
    entries: Vec<(String, String)>,
}

/// An object with a list for each section: `{"workloads": [{"name": …, "description": …}], …}`.
fn as_json() -> Result<String, Failure> {
    let part = |Section { key, entries, .. }: Section| {
        let entries =
            entries.into_iter().map(|(name, description)| json!({ "name": name, "description": description }));
        (key, entries.collect::<Vec<_>>().into())
    };
    let all: serde_json::Map<String, serde_json::Value> = sections()?.into_iter().map(part).collect();
    let text = serde_json::to_string_pretty(&all).map_err(Failure::could_not_run)?;
    Ok(text + "\n")
}

fn overview() -> Result<String, Failure> {
    let row = |Section { key, title, entries }: &Section| {
        let about = title.split(" (").next().unwrap_or_default();
        let room = look().line().saturating_sub(19).max(SHORTEST_LINE);
        let with = |many: usize| {
            let names: Vec<&str> = entries.iter().take(many).map(|(name, _)| name.as_str()).collect();
            if many == 0 { about.to_string() } else { format!("{about}: {}, …", names.join(", ")) }
        };
        let text = (0..=3).rev().map(with).find(|text| text.chars().count() <= room).unwrap_or_default();
        format!("  {key:<11}{:>4}  {text}\n", entries.len())
    };
    let rows: String = sections()?.iter().map(row).collect();
    let languages: Vec<String> =
        languages()?.into_iter().map(|(language, many)| format!("{many} {language}")).collect();
    Ok(format!(
        "redjepsen list TOPIC prints a topic, and redjepsen list NAME prints one file.\n\n{rows}\n\
         Libraries by language: {}.\n\n\
         \u{20} redjepsen list libraries --language node         libraries of one language\n\
         \u{20} redjepsen list locks --kind semaphore            locks of one kind\n\
         \u{20} redjepsen list faults --at command               faults at one place\n\
         \u{20} redjepsen list why-not single minority-counts    why a pair is not run\n\
         \u{20} redjepsen list redis-py --save mylock            a copy to change\n",
        languages.join(", ")
    ))
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
    let sections = [
        ("workloads", "Locks of redjepsen, with a resource (--workload)", workloads),
        ("libraries", "Published libraries (--workload)", libraries),
        ("locks", "Lock algorithms (lock in a workload's file)", locks),
        ("nemeses", "Faults that recur (--nemesis)", nemeses),
        ("scenarios", "Scripts of faults (--nemesis)", scenarios),
        ("suites", "Suites of many runs (redjepsen suite NAME)", suites),
        ("issues", ISSUES_TITLE, issues()?),
        ("properties", PROPERTIES_TITLE, properties()),
        ("diagnoses", DIAGNOSES_TITLE, diagnoses()),
        ("models", "Models for histories (redjepsen check --model)", models),
    ];
    Ok(sections.map(|(key, title, entries)| Section { key: key.to_string(), title, entries }).into())
}

/// A section as text. On a terminal, long descriptions are wrapped below themselves.
pub fn section(title: &str, entries: &[(String, String)], line: Option<usize>) -> String {
    let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let room = line.map_or(usize::MAX, |line| line.saturating_sub(width + 4).max(SHORTEST_LINE));
    let indent = format!("\n{}", " ".repeat(width + 4));
    let told = |(name, text): &(String, String)| format!("  {name:<width$}  {}\n", wrap(text, room).join(&indent));
    format!("{title}:\n{}\n", entries.iter().map(told).collect::<String>())
}

const FOLDERS: [(&str, &[EmbeddedFile]); 4] =
    [("workloads", WORKLOADS), ("nemeses", NEMESES), ("suites", SUITES), ("issues", ISSUES)];

fn named(name: &str) -> Result<Vec<(&'static str, &'static EmbeddedFile)>, Failure> {
    let issue = scenario::known_issue(name).ok().map(|_| name.replace('#', "-"));
    let name = issue.as_deref().unwrap_or(name);
    let files: Vec<_> = FOLDERS
        .into_iter()
        .flat_map(|(folder, entries)| entries.iter().map(move |entry| (folder, entry)))
        .filter(|(_, (entry, _))| *entry == name)
        .collect();
    if files.is_empty() {
        if let Some(elsewhere) = without_file(name)? {
            return Err(Failure::arguments(elsewhere));
        }
        let names = FOLDERS.into_iter().flat_map(|(_, entries)| entries).map(|(name, _)| *name);
        let alike = catalogue::did_you_mean(name, names);
        let mentions = if alike.is_empty() { mentions(name)? } else { alike };
        let text = format!(
            "there is no workload, nemesis, suite or issue `{name}`; {mentions}`redjepsen list` shows all topics"
        );
        return Err(Failure::arguments(text));
    }
    Ok(files)
}

/// Where a name is described that has no file, such as a diagnosis or a model; None if no topic has it.
fn without_file(name: &str) -> Result<Option<String>, Failure> {
    let is_meant = |kind: &&&diagnosis::Kind| kind.code.eq_ignore_ascii_case(name) || kind.name == name;
    if let Some(kind) = diagnosis::KINDS.iter().find(is_meant) {
        let code = kind.code;
        return Ok(Some(format!("`{name}` is a diagnosis and has no file; `redjepsen explain {code}` explains it")));
    }
    let has_it = |section: &Section| section.entries.iter().any(|(entry, _)| entry == name);
    let topic = sections()?.into_iter().find(has_it).map(|section| section.key);
    Ok(topic.map(|topic| format!("`{name}` has no file; `redjepsen list {topic}` describes it")))
}

/// The entries whose description contains this word.
fn mentions(word: &str) -> Result<String, Failure> {
    let word = word.to_lowercase();
    let entries = sections()?.into_iter().filter(|of| of.key != "locks").flat_map(|section| section.entries);
    let mentions = entries.filter(|(name, text)| format!("{name} {text}").to_lowercase().contains(&word));
    let names: Vec<String> = mentions.map(|(name, _)| format!("`{name}`")).take(6).collect();
    Ok(if names.is_empty() {
        String::new()
    } else {
        format!("the word occurs in the description of {}; ", base::words::list(&names))
    })
}

/// The files with this name. For a library, also the files of its client.
fn shown(name: &str) -> Result<String, Failure> {
    let found = named(name)?;
    let mut text: String =
        found.iter().map(|(folder, (name, text))| format!("# {folder}/{name}.toml\n{text}\n")).collect();
    if found.iter().any(|(folder, _)| *folder == "workloads") {
        text.push_str(&client(name).map_err(Failure::could_not_run)?);
    }
    Ok(text)
}

/// The client files of a workload, and how to change them. Empty without a client.
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

/// True for a file that pins packages, or that belongs to the package below all adapters of a language.
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

/// Writes the files with this name into a new folder, where the user can change them. For a library, also its client.
fn saved(name: &str, folder: &Path) -> Result<Exit, Failure> {
    let found = named(name)?;
    let is_workload = found.iter().any(|(of, _)| *of == "workloads");
    let client = match is_workload {
        true => catalogue::workload(name).map_err(Failure::could_not_run)?.1.client,
        false => None,
    };
    // The build files of a language name all its clients. Python has no build files.
    let whole = |client: &WorkloadClient| if matches!(client, WorkloadClient::Python(_)) { usize::MAX } else { 2 };
    let wanted: Vec<PathBuf> = client
        .iter()
        .flat_map(|client| client.made_of().into_iter().map(|path| path.components().take(whole(client)).collect()))
        .collect();
    std::fs::create_dir(folder)
        .map_err(|error| Failure::arguments(format!("--save {}: {error}; name a new folder", folder.display())))?;
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

/// How to test another library in Python.
const OWN_LIBRARY: &str = "\
# To test your own library, save the script as mylock_client.py, the packages as mylock.txt, and the first file as mylock.toml.
# In mylock.toml, set `adapter = \"mylock_client.py\"` and `requirements = \"mylock.txt\"`. Then run
#   redjepsen run --cluster local --workload ./mylock.toml --nemesis none --time-limit 10s
";

/// How to change a client in another language.
const OTHER_LANGUAGE: &str = "\
# These files are the client. To change it, copy it and its helper package into a folder:
#   redjepsen list NAME --save mylock
#   redjepsen run --cluster local --workload mylock/NAME.toml --nemesis none --time-limit 10s
";
