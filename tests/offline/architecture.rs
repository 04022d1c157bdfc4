//! Tests the architecture: names that the code of each room must not use. A room's manifest says which other rooms it may use,
//! and Cargo enforces this. [`circles`] finds circles inside rooms.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::circles;

/// The program's crates, from the bottom to the top: each may use only the crates before it, which Cargo enforces.
const ROOMS: [&str; 12] = [
    "base",
    "model",
    "remote",
    "system",
    "checker",
    "diagnosis",
    "doctor",
    "suite",
    "summary",
    "report",
    "runner",
    "labs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the code of a crate.
fn code_folder(room: &str) -> PathBuf {
    root().join("crates").join(room).join("src")
}

/// All code of the program, with paths below the root of the repository.
fn sources() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    files(&root().join("src"), &mut paths);
    for room in ROOMS {
        files(&code_folder(room), &mut paths);
    }
    paths.iter().map(|path| path.strip_prefix(root()).unwrap().to_path_buf()).collect()
}

/// The names of a manifest's dependencies.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let part = text.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names = part.lines().filter_map(|line| line.split([' ', '.']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).map(str::to_string).collect()
}

/// Each room with the rooms that it uses, from the bottom to the top; `cli` is the program itself.
pub fn rooms() -> Vec<(&'static str, Vec<String>)> {
    let is_room = |name: &String| ROOMS.contains(&name.as_str());
    let of = |manifest: PathBuf| dependencies(&manifest).into_iter().filter(is_room).collect();
    let below = ROOMS.iter().map(|room| (*room, of(root().join("crates").join(room).join("Cargo.toml"))));
    below.chain([("cli", of(root().join("Cargo.toml")))]).collect()
}

/// The code of a module, without its tests and comments.
fn code_of(path: &Path) -> String {
    circles::code_of(&fs::read_to_string(path).unwrap())
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn manifests_list_only_rooms_in_use() {
    for (room, named) in rooms() {
        let mut paths = Vec::new();
        files(&if room == "cli" { root().join("src") } else { code_folder(room) }, &mut paths);
        let code: String = paths.iter().map(|path| code_of(path)).collect();
        for other in named {
            assert!(
                code.contains(&format!("{other}::")),
                "`{room}` no longer names `{other}`: take it out of its manifest"
            );
        }
    }
}

/// A log line has the name of its crate, and a run's log keeps only lines of the crates in its list.
#[test]
fn run_log_hears_every_crate_that_logs() {
    let manifest = |room: &str| root().join("crates").join(room).join("Cargo.toml");
    let logs = |room: &&str| dependencies(&manifest(room)).iter().any(|name| name == "tracing");
    let mut logging: Vec<String> = ROOMS.into_iter().filter(logs).map(|room| format!("{room:?}")).collect();
    logging.sort();
    let log = code_of(&code_folder("runner").join("log.rs"));
    assert!(log.contains(&format!("= [{}];", logging.join(", "))), "{logging:?}");
}

/// The places that may name kinds of faults: their declarations, their actions, and the risk estimate, which is about two kinds.
const KNOW_FAULTS_BY_NAME: &[&str] =
    &["crates/model/src/fault_kinds", "crates/system/src/faults/kinds", "crates/labs/src/risk"];

/// Otherwise, adding a kind of fault would mean finding all other code that asks for a kind by name.
#[test]
fn a_kind_of_fault_is_named_only_where_it_is_declared_and_done() {
    for file in sources() {
        if KNOW_FAULTS_BY_NAME.iter().any(|place| file.starts_with(place)) {
            continue;
        }
        let code = code_of(&root().join(&file));
        let named = code.split("FaultKind::").skip(1).find(|rest| !rest.starts_with("ALL"));
        let named = named.and_then(|rest| rest.lines().next());
        assert_eq!(named, None, "{}: ask what the kind does, as in `kind.halts()`", file.display());
    }
}

/// The code of a run that must work in virtual time and be repeatable from a seed. Not included: the agent's work on real
/// processes and packets. Also not included: code that reads the clock only for its own limits and progress lines (cli, checker,
/// suite).
const ON_A_RUNS_WAY: &[&str] = &[
    "crates/system/src/client",
    "crates/system/src/cluster",
    "crates/system/src/controller",
    "crates/system/src/faults/async_host.rs",
    "crates/system/src/faults/handle.rs",
    "crates/system/src/faults/injection.rs",
    "crates/system/src/faults/kinds",
    "crates/system/src/faults/wire.rs",
    "crates/model/src/history/record.rs",
    "crates/model/src/locks",
    "crates/base/src/machine.rs",
    "crates/model/src/plan",
    "crates/model/src/topology",
];

/// Names that such code must not use: time that no test can virtualize, and randomness that no seed repeats. Iterating over a
/// hash map is random too: its order differs in each process.
const UNREPEATABLE: &[&str] = &[
    "clock_gettime",
    "getrandom",
    "rand::rng",
    "std::time::Instant",
    "std::time::SystemTime",
    "thread::sleep",
    "HashMap",
    "HashSet",
];

/// Exceptions, each with its reason.
const MAY_BE_UNREPEATABLE: &[(&str, &str, &str)] = &[
    ("crates/base/src/machine.rs", "clock_gettime", "the seam itself"),
    ("crates/base/src/machine.rs", "std::time::SystemTime", "the seam itself"),
    ("crates/system/src/cluster/docker", "HashMap", "the engine's API takes labels in this form"),
    ("crates/system/src/cluster/docker/made.rs", "std::time::SystemTime", "images are made before the run"),
    ("crates/system/src/cluster/local", "HashMap", "looked up by name"),
    ("crates/system/src/cluster/owner.rs", "HashMap", "looked up by name"),
    ("crates/system/src/cluster/sandbox", "HashMap", "a process of its own, and looked up by name"),
    (
        "crates/system/src/cluster/sandbox",
        "thread::sleep",
        "a process of its own, which looks at what clients take of the real machine",
    ),
];

/// The words of [`UNREPEATABLE`] that the code names, and `select!` if the order of its branches is random.
fn unrepeatable(code: &str) -> BTreeSet<String> {
    let mut words: BTreeSet<String> = UNREPEATABLE
        .iter()
        .filter(|word| !word.starts_with("std::time::") && code.contains(**word))
        .map(|word| word.to_string())
        .collect();
    for mention in code.split("std::time::").skip(1) {
        let end =
            if mention.starts_with('{') { mention.find('}') } else { mention.find(|c: char| !c.is_alphanumeric()) };
        let names = mention[..end.unwrap_or(mention.len())].split(|c: char| !c.is_alphanumeric());
        let names: BTreeSet<String> = names.map(|name| format!("std::time::{name}")).collect();
        words.extend(names.into_iter().filter(|name| UNREPEATABLE.contains(&name.as_str())));
    }
    if code.split("select! {").skip(1).any(|branches| !branches.trim_start().starts_with("biased;")) {
        words.insert("select!".to_string());
    }
    words
}

#[test]
fn what_no_seed_repeats_is_seen_and_nothing_else() {
    for (code, word) in [
        ("use std::time::{Duration, Instant};", "std::time::Instant"),
        ("let began = std::time::Instant::now();", "std::time::Instant"),
        ("use std::time::{\n    SystemTime,\n};", "std::time::SystemTime"),
        ("getrandom::fill(&mut bytes)", "getrandom"),
        ("tokio::select! {\n    ended = work => {}\n}", "select!"),
    ] {
        assert_eq!(unrepeatable(code), BTreeSet::from([word.to_string()]), "{code}");
    }
    for code in [
        "use std::time::Duration;\nuse tokio::time::{Instant, sleep};",
        "tokio::select! {\n    biased;\n    ended = work => {}\n}",
        "",
    ] {
        assert!(unrepeatable(code).is_empty(), "{code}");
    }
}

#[test]
fn on_a_runs_way_time_can_be_virtual_and_draws_repeat_by_their_seed() {
    let mut excused = BTreeSet::new();
    for place in ON_A_RUNS_WAY {
        let mut paths = Vec::new();
        match root().join(place) {
            file if file.is_file() => paths.push(file),
            folder => files(&folder, &mut paths),
        }
        assert!(!paths.is_empty(), "{place} is gone");
        for path in paths {
            let file = path.strip_prefix(root()).unwrap();
            for word in unrepeatable(&code_of(&path)) {
                let excuse =
                    MAY_BE_UNREPEATABLE.iter().find(|(place, excused, _)| file.starts_with(place) && *excused == word);
                let excuse = excuse.unwrap_or_else(|| {
                    panic!("{} names `{word}`: use tokio's time, or what the seed or the caller gives", file.display())
                });
                excused.insert(excuse);
            }
        }
    }
    for excuse in MAY_BE_UNREPEATABLE {
        assert!(excused.contains(excuse), "{} no longer names `{}`; take it out", excuse.0, excuse.1);
    }
}

#[test]
fn the_crates_need_no_runtime_engine_or_database() {
    for (name, needs) in [
        ("linearizability", &["flate2", "hashbrown", "memchr", "ruzstd", "serde", "serde_json", "thiserror"][..]),
        ("redlock-model", &["thiserror"]),
        ("simulated-redis", &["indexmap", "mlua", "rand", "rand_chacha", "rustc-hash", "sha1_smol", "thiserror"]),
    ] {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("Cargo.toml");
        assert_eq!(dependencies(&manifest), needs, "{name}");
    }
}

/// Code that prints a run or a suite takes its words from the summary; only drawings look at operations.
#[test]
fn pages_print_what_is_told() {
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/report/src");
    for place in [
        "terminal.rs",
        "html/evidence.rs",
        "html/incidents.rs",
        "html/verdict.rs",
        "html/contents.rs",
        "matrix/badges.rs",
        "matrix/cells.rs",
        "matrix/grid.rs",
        "matrix/html.rs",
        "matrix/junit.rs",
        "matrix/markdown.rs",
        "matrix/terminal.rs",
    ] {
        let code = code_of(&report.join(place));
        for word in ["Verdict", ".verdict.", "History", ".history", "Operation", "Matrix", "Cell,", "RunOutcome"] {
            assert!(!code.contains(word), "{place} names `{word}`: say it in crates/summary/src, and print that");
        }
    }
}

/// The manifests say `doctest = false`, so an example in a comment would never be compiled.
#[test]
fn the_library_has_no_examples_in_its_comments() {
    for path in sources() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let example = text.lines().find(|line| ["/// ```", "//! ```"].contains(&line.trim()));
        assert_eq!(example, None, "{} has an example: let doctests of its crate run", path.display());
    }
}
