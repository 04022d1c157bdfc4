//! The architecture as a test: which module of `src/` may use which others. docs/architecture.md says why; circles below
//! that level are found by [`circles`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::circles;

/// Each module with those that it may name, in layers: a module may name only modules listed above it.
pub const MAY_NAME: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("units", &[]),
    ("words", &[]),
    ("members", &[]),
    ("mutants", &[]),
    ("slots", &[]),
    ("files", &[]),
    ("runs", &["files"]),
    ("interrupt", &[]),
    ("machine", &[]),
    ("redis_commands", &[]),
    ("topology", &["members", "slots", "units"]),
    ("fault_kinds", &["members"]),
    ("history", &["fault_kinds", "members", "units", "words"]),
    ("resource", &["history"]),
    ("locks", &["mutants", "sync", "topology", "units"]),
    ("nemesis", &["fault_kinds", "history", "members", "topology", "units"]),
    ("scenario", &["files", "history", "locks", "nemesis", "runs", "sync", "topology", "units"]),
    ("plan", &["history", "nemesis", "scenario", "topology", "units", "words"]),
    (
        "client",
        &["history", "locks", "machine", "mutants", "resource", "scenario", "slots", "sync", "topology", "units"],
    ),
    (
        "faults",
        &["fault_kinds", "history", "machine", "members", "redis_commands", "sync", "topology", "units", "words"],
    ),
    ("cluster", &["client", "faults", "files", "interrupt", "machine", "members", "runs", "sync", "topology", "units"]),
    (
        "controller",
        &[
            "client",
            "cluster",
            "fault_kinds",
            "faults",
            "files",
            "history",
            "interrupt",
            "members",
            "mutants",
            "nemesis",
            "plan",
            "resource",
            "scenario",
            "sync",
            "units",
            "words",
        ],
    ),
    ("checker", &["fault_kinds", "history", "members", "mutants", "redis_commands", "sync", "words"]),
    ("compare", &["checker"]),
    ("suite", &["checker", "compare", "files", "nemesis", "plan", "scenario", "topology", "units", "words"]),
    (
        "telling",
        &[
            "checker",
            "compare",
            "fault_kinds",
            "history",
            "members",
            "nemesis",
            "scenario",
            "suite",
            "topology",
            "units",
            "words",
        ],
    ),
    ("store", &["checker", "compare", "files", "nemesis", "scenario", "suite", "sync", "telling"]),
    (
        "report",
        &[
            "checker", "compare", "files", "history", "members", "scenario", "store", "suite", "sync", "telling",
            "words",
        ],
    ),
    ("serve", &["compare", "files", "report", "store", "sync"]),
    (
        "runner",
        &[
            "checker",
            "cluster",
            "controller",
            "files",
            "history",
            "interrupt",
            "members",
            "plan",
            "report",
            "runs",
            "scenario",
            "store",
            "suite",
            "sync",
            "telling",
            "topology",
            "words",
        ],
    ),
    (
        "labs",
        &[
            "checker",
            "cluster",
            "fault_kinds",
            "files",
            "history",
            "interrupt",
            "locks",
            "members",
            "nemesis",
            "plan",
            "redis_commands",
            "report",
            "runner",
            "scenario",
            "store",
            "suite",
            "sync",
            "telling",
            "topology",
            "units",
            "words",
        ],
    ),
    (
        "cli",
        &[
            "checker",
            "client",
            "cluster",
            "compare",
            "controller",
            "faults",
            "files",
            "history",
            "labs",
            "nemesis",
            "plan",
            "report",
            "runner",
            "runs",
            "scenario",
            "serve",
            "store",
            "suite",
            "sync",
            "topology",
            "units",
            "words",
        ],
    ),
];

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

/// Which modules each one names, with a file that does so.
fn named(src: &Path) -> BTreeMap<(String, String), PathBuf> {
    let mut paths = Vec::new();
    files(src, &mut paths);
    let mut named = BTreeMap::new();
    for path in paths {
        let place = path.strip_prefix(src).unwrap().to_str().unwrap();
        let module = place.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_string();
        if matches!(module.as_str(), "lib" | "main") {
            continue;
        }
        for mention in code_of(&path).split("crate::").skip(1) {
            let other: String = mention.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if other != module && !other.is_empty() {
                named.insert((module.clone(), other), path.clone());
            }
        }
    }
    named
}

#[test]
fn modules_name_only_what_stands_below_them() {
    let named = named(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut seen = BTreeSet::new();
    for (module, allowed) in MAY_NAME {
        for other in *allowed {
            assert!(seen.contains(other), "the table itself: `{module}` stands above `{other}`, which it may name");
            let used = named.contains_key(&(module.to_string(), other.to_string()));
            assert!(used, "the table: `{module}` may name `{other}` and no longer does; take it out");
        }
        seen.insert(*module);
    }
    for ((module, other), path) in &named {
        let allowed = MAY_NAME.iter().find(|(name, _)| name == module).map(|(_, allowed)| allowed);
        let allowed = allowed.unwrap_or_else(|| panic!("`{module}` is not in the table"));
        assert!(allowed.contains(&other.as_str()), "`{module}` names `{other}`, which it may not: {}", path.display());
    }
}

/// Where kinds of faults are told apart by name: where each is declared and done, and where risk is about two of them.
const KNOW_FAULTS_BY_NAME: &[&str] = &["fault_kinds", "faults/kinds", "labs/risk"];

/// Whoever adds a kind of fault would have to find everybody else who asks for one by name.
#[test]
fn a_kind_of_fault_is_named_only_where_it_is_declared_and_done() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    files(&src, &mut paths);
    for path in paths {
        let file = path.strip_prefix(&src).unwrap();
        if KNOW_FAULTS_BY_NAME.iter().any(|place| file.starts_with(place)) {
            continue;
        }
        let code = code_of(&path);
        let named = code.split("FaultKind::").skip(1).find(|rest| !rest.starts_with("ALL"));
        let named = named.and_then(|rest| rest.lines().next());
        assert_eq!(named, None, "{}: ask what the kind does, as in `kind.halts()`", file.display());
    }
}

/// The code of a run that could use virtual time, and that a seed repeats. Not the agent's own work on real processes
/// and packets, nor code that reads the clock only for its own limits and progress lines (cli, checker, suite).
const ON_A_RUNS_WAY: &[&str] = &[
    "client",
    "cluster",
    "controller",
    "faults/async_host.rs",
    "faults/handle.rs",
    "faults/injection.rs",
    "faults/kinds",
    "faults/wire.rs",
    "history/record.rs",
    "locks",
    "machine.rs",
    "plan",
    "topology",
];

/// What such code must not name: time that no test can virtualize, and randomness that no seed repeats. Iterating over
/// a hash map is random too: its order differs in each process.
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

/// Where it may be named anyway, and why.
const MAY_BE_UNREPEATABLE: &[(&str, &str, &str)] = &[
    ("machine.rs", "clock_gettime", "the seam itself"),
    ("machine.rs", "std::time::SystemTime", "the seam itself"),
    ("cluster/docker", "HashMap", "the engine's API takes labels in this form"),
    ("cluster/docker/made.rs", "std::time::SystemTime", "images are made before the run"),
    ("cluster/local", "HashMap", "looked up by name"),
    ("cluster/owner.rs", "HashMap", "looked up by name"),
    ("cluster/sandbox", "HashMap", "a process of its own, and looked up by name"),
    ("cluster/sandbox", "thread::sleep", "a process of its own, which looks at what clients take of the real machine"),
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
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut excused = BTreeSet::new();
    for place in ON_A_RUNS_WAY {
        let mut paths = Vec::new();
        match src.join(place) {
            file if file.is_file() => paths.push(file),
            folder => files(&folder, &mut paths),
        }
        assert!(!paths.is_empty(), "{place} is gone");
        for path in paths {
            let file = path.strip_prefix(&src).unwrap();
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
        let manifest = fs::read_to_string(manifest).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        let names: Vec<&str> = dependencies.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        assert_eq!(names, needs, "{name}");
    }
}

/// What prints a run or a suite has its words from the telling; only drawings look at operations.
#[test]
fn pages_print_what_is_told() {
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report");
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
            assert!(!code.contains(word), "{place} names `{word}`: say it in src/telling, and print that");
        }
    }
}

/// Cargo.toml says `doctest = false`, so an example in a comment would never be compiled.
#[test]
fn the_library_has_no_examples_in_its_comments() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let example = text.lines().find(|line| ["/// ```", "//! ```"].contains(&line.trim()));
        assert_eq!(example, None, "{} has an example: move it to crates/, or let doctests run", path.display());
    }
}
