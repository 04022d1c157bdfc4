//! README.md and docs/ agree with the program: their tables are generated from it, their commands are accepted, and their links
//! have targets.
//!
//! `UPDATE_DOCS=1 cargo test --test offline docs` regenerates the tables, and the pages of docs/libraries down to their
//! `<!-- end -->`.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use model::fault_kinds::{ErrorReply, FaultKind};
use model::nemesis::Expectation;
use model::scenario::catalogue;

use crate::architecture::rooms;
use crate::kit::planted::{self, OfChecker, OfLock};
use crate::simulated::sides::ONE_SIDED;

mod libraries;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let folders = [root().join("docs"), root().join("docs").join(libraries::FOLDER)];
    let docs = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    // The links of SUMMARY.md are links of the site, which tests/packaging builds.
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md") && !path.ends_with("SUMMARY.md");
    let mut pages: Vec<PathBuf> = docs.filter(is_page).collect();
    let others = [
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docker/README.md",
        "crates/linearizability/README.md",
        "crates/redlock-model/README.md",
        "crates/simulated-redis/README.md",
    ];
    pages.extend(others.map(|page| root().join(page)));
    pages.sort();
    pages.into_iter().map(|page| (page.clone(), fs::read_to_string(page).unwrap())).collect()
}

fn redjepsen(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock").args(arguments).assert()
}

/// The output of `redjepsen list --json`: each section by its key, with names and descriptions.
fn listed() -> BTreeMap<String, Vec<(String, String)>> {
    let text = redjepsen(&["list", "--json"]).code(0).get_output().stdout.clone();
    let sections: BTreeMap<String, Vec<BTreeMap<String, String>>> = serde_json::from_slice(&text).unwrap();
    let pairs = |entries: Vec<BTreeMap<String, String>>| {
        entries.into_iter().map(|of| (of["name"].clone(), of["description"].clone())).collect()
    };
    sections.into_iter().map(|(key, entries)| (key, pairs(entries))).collect()
}

/// The expectation for each workload under each nemesis.
fn expectations() -> BTreeMap<(String, String), Expectation> {
    let mut expected = BTreeMap::new();
    for (workload, _) in catalogue::WORKLOADS {
        let file = catalogue::workload(workload).unwrap().1;
        expected.extend(file.expect.into_iter().map(|(nemesis, what)| ((workload.to_string(), nemesis), what)));
    }
    for (nemesis, _) in catalogue::NEMESES {
        let file = catalogue::nemesis(nemesis).unwrap().1;
        expected.extend(file.expect.into_iter().map(|(workload, what)| ((workload, nemesis.to_string()), what)));
    }
    expected
}

fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | ")).replace("|  |", "| |")
}

fn table(heads: &[&str], rows: Vec<String>) -> String {
    let line = format!("|{}", "---|".repeat(heads.len()));
    [vec![row(heads), line], rows].concat().join("\n") + "\n"
}

fn code<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// An upstream issue as a link, with the rest of its text: `bsm/redislock#1, open` names its page.
fn issue(text: &str) -> String {
    let (name, rest) = text.split_at(text.find([' ', ',']).unwrap_or(text.len()));
    match name.split_once('#') {
        Some((repository, number)) if repository.contains('/') && number.parse::<u32>().is_ok() => {
            format!("[{name}](https://github.com/{repository}/issues/{number}){rest}")
        }
        _ => text.to_string(),
    }
}

/// A row for a bug planted in a lock, and what finds the bug.
fn mutant(OfLock { bug, workload, what, cells, found, by, codes, why, .. }: OfLock) -> String {
    let such_as = if found == 0 { String::new() } else { format!("`{by}`") };
    let found = format!("{found} of {cells}");
    let named = if codes.is_empty() { why } else { codes.join(", ") };
    row(&[&format!("`{bug}`"), &what, &format!("`{workload}`"), &found, &such_as, &named])
}

/// How many bugs of locks are named by a diagnosis, of those that are found and whose locks send commands.
fn named_mutants() -> Vec<String> {
    let sends = |row: &OfLock| !catalogue::workload(&row.workload).unwrap().1.lock.is_granted_by_controller();
    let found: Vec<OfLock> = planted::of_locks().into_iter().filter(|row| row.found > 0 && sends(row)).collect();
    let is_named = |row: &&OfLock| !row.codes.is_empty();
    let (named, others): (Vec<&OfLock>, Vec<&OfLock>) = found.iter().partition(is_named);
    let (only_also, none): (Vec<&OfLock>, Vec<&OfLock>) = others.into_iter().partition(|row| !row.also.is_empty());
    let of_all = format!("{} of {}", named.len(), found.len());
    vec![row(&[&of_all, &only_also.len().to_string(), &none.len().to_string()])]
}

/// A row for a bug planted in the checker, and the tests that find it.
fn checker_mutant(OfChecker { bug, what, found, by }: OfChecker) -> String {
    let test = by.trim_start_matches("pure::checker::");
    row(&[&format!("`{bug}`"), &what, &found.to_string(), &format!("`{test}`")])
}

/// How many bugs are planted, and how many of them are found.
fn mutant_counts() -> Vec<String> {
    let (of_locks, of_checker) = (planted::of_locks(), planted::of_checker());
    let found = |found: usize, all: usize| format!("{found} of {all}");
    let missed = of_locks.iter().filter(|row| row.found == 0).count();
    let seen = of_checker.iter().filter(|row| row.found > 0).count();
    vec![
        row(&["a lock", &found(of_locks.len() - missed, of_locks.len()), &missed.to_string()]),
        row(&["the checker", &found(seen, of_checker.len()), "0"]),
    ]
}

/// The tables that pages contain, by name.
fn tables() -> BTreeMap<String, String> {
    let (listed, expected) = (listed(), expectations());
    let link = |folder: &str, name: &str| format!("[`{name}`](../{folder}/{name}.toml)");
    let about = |section: &str, folder: &str| {
        listed[section].iter().map(|(name, about)| row(&[&link(folder, name), about])).collect::<Vec<_>>()
    };
    let is_published = |workload: &String| catalogue::workload(workload).unwrap().1.library.is_some();
    let workloads = listed["workloads"].iter().map(|(name, about)| {
        let falls =
            expected.iter().filter(|((workload, _), what)| workload == name && **what == Expectation::Violation);
        row(&[&link("workloads", name), about, &code(falls.map(|((_, nemesis), _)| nemesis))])
    });
    let scenarios = listed["scenarios"].iter().map(|(name, about)| {
        let with = |wanted: Expectation| {
            let of_it = expected.iter().filter(|((_, nemesis), what)| nemesis == name && **what == wanted);
            let (of_libraries, of_ours): (Vec<&String>, Vec<&String>) =
                of_it.map(|((workload, _), _)| workload).partition(|workload| is_published(workload));
            let elsewhere = ONE_SIDED.iter().find(|side| side.scenario == name && side.missing == wanted);
            elsewhere.map_or_else(|| code(if of_ours.is_empty() { of_libraries } else { of_ours }), |side| side.cell())
        };
        let (fails, passes) = (with(Expectation::Violation), with(Expectation::Valid));
        row(&[&link("nemeses", name), about, &fails, &passes])
    });
    let modules = rooms().into_iter().map(|(room, others)| row(&[&format!("`{room}`"), &code(&others)]));
    let refutations = FaultKind::ALL.iter().map(|kind| row(&[&format!("`{kind}`"), &kind.does.rules_out.words()]));
    let properties = checker::properties_by_rank().into_iter().map(|one| {
        let key = one.parameter.map_or(String::new(), |key| format!("; with `{key}`"));
        row(&[&format!("`{}`", one.id), one.rank, one.title, &format!("{}{key}", one.applies)])
    });
    let mutants = |rows: Vec<OfLock>| {
        table(
            &["bug", "what is wrong", "lock", "found in", "example", "diagnosis"],
            rows.into_iter().map(mutant).collect(),
        )
    };
    let mut tables = BTreeMap::from(
        [
            ("workloads", table(&["workload", "lock", "fails"], workloads.collect())),
            ("nemeses", table(&["nemesis", "what happens"], about("nemeses", "nemeses"))),
            ("scenarios", table(&["scenario", "what happens", "fails", "passes"], scenarios.collect())),
            ("errors", table(&["code", "the error of a SET of `lock:k0` to 10.0.0.2"], errors())),
            ("refutations", table(&["fault", "the history contradicts the fault if"], refutations.collect())),
            ("properties", table(&["property", "rank", "what it says", "checked in"], properties.collect())),
            ("diagnoses", table(&["code", "name", "what is wrong", "what to change", "a correct lock"], diagnoses())),
            ("suites", table(&["suite", "what it is"], about("suites", "suites"))),
            ("modules", table(&["room", "names"], modules.collect())),
            ("mutants", mutants(planted::of_locks())),
            ("mutant-counts", table(&["bugs in", "found", "equivalent"], mutant_counts())),
            ("named-mutants", table(&["named", "only a consequence is named", "no diagnosis"], named_mutants())),
            ("hardest-mutants", mutants(planted::hardest())),
            (
                "checker-mutants",
                table(
                    &["bug", "what is wrong", "tests that find it", "example"],
                    planted::of_checker().into_iter().map(checker_mutant).collect(),
                ),
            ),
        ]
        .map(|(name, table)| (name.to_string(), table)),
    );
    tables.extend(libraries::tables());
    tables
}

/// The errors with which a fault refuses a command.
fn errors() -> Vec<String> {
    let at = Ipv4Addr::new(10, 0, 0, 2);
    let errors = ErrorReply::ALL.into_iter();
    errors
        .map(|error| row(&[&format!("`{}`", error.code()), &format!("`{}`", error.text("SET", "lock:k0", at))]))
        .collect()
}

/// A row for each diagnosis: what to change, and the command that shows a lock without the defect.
fn diagnoses() -> Vec<String> {
    let told = |kind: &&diagnosis::Kind| {
        let inherent = if kind.inherent { " *Inherent.*" } else { "" };
        let right = kind
            .right
            .map_or(String::new(), |(workload, nemesis)| format!("`{}`", diagnosis::shown_by(workload, nemesis)));
        row(&[kind.code, &format!("`{}`", kind.name), &format!("{}{inherent}", kind.title), kind.fix, &right])
    };
    diagnosis::KINDS.iter().map(told).collect()
}

/// The text with each table between its marks regenerated, and the names of these tables.
fn with_tables(text: &str, tables: &BTreeMap<String, String>) -> (String, Vec<String>) {
    let (mut parts, mut names) = (text.split("<!-- made by tests/offline/docs.rs: "), Vec::new());
    let mut made = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("the mark of a table ends its line");
        let rest = rest.split_once("<!-- end -->").expect("a table ends with `<!-- end -->`").1;
        let table = tables.get(name).unwrap_or_else(|| panic!("there is no table `{name}`"));
        made += &format!("<!-- made by tests/offline/docs.rs: {name} -->\n{table}<!-- end -->{rest}");
        names.push(name.to_string());
    }
    (made, names)
}

/// Creates the pages of libraries that have none yet, without their generated part.
fn begin_pages(tables: &BTreeMap<String, String>) {
    for name in tables.keys().filter(|name| name.starts_with(libraries::FOLDER)) {
        let page = root().join("docs").join(format!("{name}.md"));
        if !page.exists() {
            fs::write(page, format!("<!-- made by tests/offline/docs.rs: {name} -->\n<!-- end -->\n")).unwrap();
        }
    }
}

#[test]
fn tables_say_what_the_catalogue_says() {
    let (tables, updates) = (tables(), std::env::var_os("UPDATE_DOCS").is_some());
    let mut seen = Vec::new();
    if updates {
        begin_pages(&tables);
    }
    for (page, text) in pages() {
        let (made, names) = with_tables(&text, &tables);
        for name in names.iter().filter(|name| name.starts_with(libraries::FOLDER)) {
            assert!(page.ends_with(format!("docs/{name}.md")), "`{name}` stands in {}", page.display());
        }
        seen.extend(names);
        if updates && made != text {
            fs::write(&page, &made).unwrap();
        } else {
            assert!(made == text, "a table of {} is not up to date; see the head of this file", page.display());
        }
    }
    seen.sort();
    assert_eq!(seen, tables.keys().cloned().collect::<Vec<_>>(), "each table stands in one page");
}

#[test]
fn a_table_that_says_something_else_is_found() {
    let tables = BTreeMap::from([("suites".to_string(), "| new |\n".to_string())]);
    let page = |body: &str| format!("Text\n<!-- made by tests/offline/docs.rs: suites -->\n{body}<!-- end -->\nmore\n");
    assert_eq!(with_tables(&page("| old |\n"), &tables), (page("| new |\n"), vec!["suites".to_string()]));
}

#[test]
fn models_are_described_as_they_are_listed() {
    let page = fs::read_to_string(root().join("docs/histories.md")).unwrap();
    let models = page.split("| model | operations | chosen for |").nth(1).unwrap().split("\n\n").next().unwrap();
    let described = models.lines().skip(2).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_string(), cells[2].to_string())
    });
    assert_eq!(described.collect::<Vec<_>>(), listed()["models"]);
}

/// The command lines on a page: those typed in examples, and those quoted in sentences.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    let mut prose = String::new();
    let mut fenced = false;
    for line in text.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose += line;
            prose.push(' ');
        } else if let Some(command) = line.strip_prefix("$ ") {
            lines.push(command.to_string());
        }
    }
    lines.extend(prose.split('`').skip(1).step_by(2).map(str::to_string));
    let words = lines.iter().filter_map(|line| shlex::split(line));
    let of_ours = words.filter_map(|words| {
        let from = words.iter().position(|word| word.ends_with("redjepsen"))?;
        let is_end = |word: &&String| !["|", ";", "&&", ">"].contains(&word.as_str());
        (from == 0 || words[from - 1] == "|").then(|| words[from..].iter().take_while(is_end).cloned().collect())
    });
    of_ours.filter(|words: &Vec<String>| words.len() > 1).collect()
}

/// Why the program would not accept this command line; None if it would. Starts nothing.
fn refusal(words: &[String]) -> Option<String> {
    let mut arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    // A placeholder such as NAME stands for any name.
    let is_name = |word: &str| !word.contains('/') && !word.ends_with(".toml") && word != word.to_uppercase();
    for pair in arguments.windows(2).filter(|pair| is_name(pair[1])) {
        let unknown = match pair[0] {
            "--workload" => catalogue::workload(pair[1]).err().map(|error| error.to_string()),
            "--nemesis" => catalogue::nemesis(pair[1]).err().map(|error| error.to_string()),
            "suite" if !pair[1].starts_with('-') => {
                let known = catalogue::SUITES.iter().any(|(name, _)| *name == pair[1]);
                (!known).then(|| format!("there is no suite `{}`", pair[1]))
            }
            _ => None,
        };
        if unknown.is_some() {
            return unknown;
        }
    }
    if arguments[0] == "list" {
        // With `--save`, the command would write a folder.
        let listed: Vec<&str> = arguments.iter().copied().take_while(|word| *word != "--save").collect();
        return (redjepsen(&listed).get_output().status.code() != Some(0) && is_name(arguments[1]))
            .then(|| "is not listed".to_string());
    }
    // The program parses everything before `--help` first.
    arguments.push("--help");
    let assert = redjepsen(&arguments);
    let output = assert.get_output();
    (output.status.code() != Some(0)).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_command_is_understood() {
    let mut count = 0;
    for (page, text) in pages() {
        for words in commands(&text) {
            if let Some(reason) = refusal(&words) {
                panic!("{}: `{}`: {reason}", page.display(), words.join(" "));
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} commands were found");
}

#[test]
fn a_command_that_is_not_understood_is_found() {
    let text = "```console\n$ redjepsen run --nemesis pause   # why\n$ redjepsen run --nemesys \\\n    pause\n```\n\
                `redjepsen run --workload cas-tokens` and `redjepsen suite smok`, `redjepsen run --ttl 1`, \
                `redjepsen list paws`, `redjepsen list NAME`, `cat x | redjepsen check - --json`, `redjepsen`.";
    let commands = commands(text);
    let refused: Vec<bool> = commands.iter().map(|words| refusal(words).is_some()).collect();
    assert_eq!(refused, [false, true, true, true, true, true, false, false], "{commands:?}");
}

/// redjepsen's commands on a page that are followed by their output, each with this output.
fn shown(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(|block| {
        let parts = block.replace("\\\n", " ");
        let parts: Vec<String> = format!("\n{parts}").split("\n$ ").skip(1).map(str::to_string).collect();
        parts.into_iter().filter_map(|part| {
            let (command, output) = part.split_once('\n')?;
            let command = command.split(" #").next()?.trim().to_string();
            (!output.trim().is_empty()).then(|| (command, output.trim_end().to_string()))
        })
    });
    commands.filter(|(command, _)| command.starts_with("redjepsen ")).collect()
}

/// The words of an output without everything that differs between runs: numbers, their units and line ends.
fn shape(output: &str) -> Vec<String> {
    let words = output.split_whitespace().map(|word| {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
        match bare {
            "ns" | "µs" | "ms" | "s" | "min" => word.replace(bare, "s"),
            _ if bare.bytes().all(|byte| byte.is_ascii_digit() || b",.".contains(&byte)) && !bare.is_empty() => {
                word.replace(bare, "0")
            }
            _ => word.to_string(),
        }
    });
    words.collect()
}

/// The program's output for a command on a page, if a test can make it: in virtual time instead of real servers.
fn printed(command: &str) -> Option<String> {
    let words = shlex::split(command).unwrap();
    let mut arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let store = tempfile::tempdir().unwrap();
    let is_ours = !arguments.contains(&"redis-py") && !arguments.iter().any(|word| word.ends_with("mylock.toml"));
    match arguments[0] {
        "check" => {}
        "run" if is_ours => {
            let kind = arguments.iter().position(|word| *word == "local")?;
            arguments[kind] = "sim";
            arguments.extend(["--store", store.path().to_str()?]);
        }
        "fuzz" => arguments.extend(["--store", store.path().to_str()?]),
        _ => return None,
    }
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    let assert = command.current_dir(root()).args(&arguments).assert();
    Some(
        String::from_utf8_lossy(&assert.get_output().stdout)
            .replace("Simulated: ", "")
            .replace(" --cluster sim  #", "  #"),
    )
}

/// True if a page shows the beginning of the output.
fn is_shown(output: &str, printed: &str) -> bool {
    shape(printed).starts_with(&shape(output))
}

#[test]
fn what_a_page_shows_is_what_is_printed() {
    let mut not_tried = Vec::new();
    for (page, text) in pages() {
        for (command, output) in shown(&text) {
            match printed(&command) {
                Some(printed) => {
                    let page = page.display();
                    assert!(is_shown(&output, &printed), "{page}: `{command}` now prints\n{printed}\nnot\n{output}");
                }
                None => not_tried.push(command),
            }
        }
    }
    // Commands that need a library, a run of the user's own, or most of a minute.
    let other = [
        "run --cluster local --workload redis-py",
        "run --cluster local --workload ./mylock.toml",
        "library",
        "client-check",
        "doctor",
        "replay",
        "risk",
    ];
    for command in not_tried {
        let arguments = command.trim_start_matches("redjepsen ");
        assert!(other.iter().any(|other| arguments.starts_with(other)), "nobody tries `{command}`");
    }
}

#[test]
fn what_is_no_longer_printed_is_found() {
    let page = "```console\n$ redjepsen run --nemesis pause   # why\n$ redjepsen check a \\\n    --json\nVALID  it held\n  in 1.5 s\n\n$ ls\nx\n```\n";
    let found = shown(page);
    assert_eq!(found, [("redjepsen check a      --json".to_string(), "VALID  it held\n  in 1.5 s".to_string())]);
    assert!(is_shown(&found[0].1, "VALID  it\n held in 30 ms\nand more"));
    for printed in ["VALID  it held", "VALID  it held for 30 ms", "INVALID  it held in 1.5 s"] {
        assert!(!is_shown(&found[0].1, printed), "{printed}");
    }
}

/// The targets on a page: its links, and the project files that it names.
fn targets(page: &Path, text: &str) -> Vec<PathBuf> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let of_here = links.filter(|link| !link.is_empty() && !link.contains("://"));
    let links = of_here.map(|link| page.parent().unwrap().join(link));
    let roots = ["src/", "crates/", "tests/", "workloads/", "nemeses/", "suites/", "docs/", "docker/", "benches/"];
    let words = text.split('`').skip(1).step_by(2);
    let files = words.filter(|word| roots.iter().any(|root| word.starts_with(root)));
    let files = files.filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || "/._-0123456789".contains(c)));
    links.chain(files.map(|file| root().join(file))).collect()
}

#[test]
fn every_file_that_is_named_exists() {
    for (page, text) in pages() {
        for target in targets(&page, &text) {
            assert!(target.exists(), "{} points at {}", page.display(), target.display());
        }
    }
    let page = root().join("docs/guide.md");
    let found = targets(&page, "[a](gone.md) [b](https://x.org/y) [c](#here) `src/gone.rs` `src/NAME.rs` `src/lib.rs`");
    assert_eq!(found.iter().filter(|target| !target.exists()).count(), 2, "{found:?}");
}

/// The tests that a page names, such as `local::nobody_special_can_run_it`, and that do not exist.
fn missing_tests(text: &str) -> Vec<&str> {
    let there = |name: &str| {
        let (module, function) = name.rsplit_once("::").unwrap();
        let module = module.replace("::", "/");
        ["offline", "clusters"].iter().any(|program| {
            let file = root().join("tests").join(program).join(format!("{module}.rs"));
            fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {function}()")))
        })
    };
    let names = text.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
    names.filter(|name| !there(name)).collect()
}

#[test]
fn what_is_said_about_security_is_tried_by_the_tests_that_are_named() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    assert_eq!(missing_tests(&text), Vec::<&str>::new());
    let named = text.split('`').filter(|name| name.contains("::")).count();
    assert!(named > 20, "{named} tests are named");
    assert_eq!(missing_tests("`trust::no_such_test`, `docs::the_readme_is_short`"), ["trust::no_such_test"]);
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 120, "README.md has {lines} lines, and may have 120 at most; the rest belongs into docs/");
}
