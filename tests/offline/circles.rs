//! No circles between files and folders, at every level of `src/` and of the crates. Files and folders in one folder use each
//! other in one direction only. So each part can be read, moved and tested with the parts below it.
//!
//! A file uses another file by a path (`super::flood::StderrLog`, `crate::cluster::local::Local`), or by a name that a `mod.rs`
//! re-exports (`pub use local::Local`). Definitions in a `mod.rs` itself are shared by its folder and do not count. Tests and
//! comments are left out. The test does not see when methods of one type in several files use each other's fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Allowed circles: the folder, the files and folders in the circle, and the reason.
const EXCUSED: &[(&str, &[&str], &str)] = &[
    ("crates/linearizability/src", &["dispatch", "evidence"], "what counts as evidence asks which check was made"),
    (
        "crates/simulated-redis/src",
        &[
            "busy",
            "client",
            "cluster",
            "commands",
            "cron",
            "data",
            "disk",
            "execute",
            "pubsub",
            "replication",
            "script",
            "sentinel",
            "server",
        ],
        "each command and subsystem works on the whole server, as in Redis itself",
    ),
    (
        "crates/simulated-redis/src/sentinel",
        &["failover", "links"],
        "a failover speaks on links, whose replies move it on",
    ),
    (
        "crates/system/src/cluster/simulated",
        &["machine", "stream"],
        "a machine opens streams, and a stream stops with its machine",
    ),
];

/// The source of a file without its tests and comments.
pub fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The modules of a crate: each with its path, from the root, and its code.
type Modules = BTreeMap<Vec<String>, String>;

fn modules(folder: &Path, path: &[String], found: &mut Modules) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_stem().unwrap().to_str().unwrap().to_string();
        if name == "tests" || name == "main" {
            continue;
        }
        let inside: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
        if entry.is_dir() {
            modules(&entry, &inside, found);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            let of = if name == "mod" || name == "lib" { path.to_vec() } else { inside };
            found.insert(of, code_of(&fs::read_to_string(&entry).unwrap()));
        }
    }
}

fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The paths of a use tree such as `a::{b, c::D as E}`, each with the name that it gets.
fn tree(text: &str) -> Vec<(Vec<String>, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !is_of_a_word(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if let Some(rest) = rest.strip_prefix("::") {
        let mut inner = tree(rest);
        for (path, _) in &mut inner {
            path.insert(0, word.to_string());
        }
        return inner;
    }
    if let Some(list) = text.strip_prefix('{') {
        let (mut depth, mut part, mut found) = (0, String::new(), Vec::new());
        for c in list.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.extend(tree(&std::mem::take(&mut part)));
                    continue;
                }
                _ => {}
            }
            part.push(c);
        }
        found.extend(Some(part).filter(|part| !part.trim().is_empty()).iter().flat_map(|part| tree(part)));
        return found;
    }
    if text.starts_with('*') {
        return vec![(vec!["*".to_string()], "*".to_string())];
    }
    let alias = rest.trim_start().strip_prefix("as ").map(str::trim_start);
    let alias = alias.map(|alias| alias.split(|c| !is_of_a_word(c)).next().unwrap_or_default());
    vec![(vec![word.to_string()], alias.unwrap_or(word).to_string())]
}

/// All paths in the code that begin with `crate`, `super` or `self`, as paths from the root.
fn mentions(module: &[String], code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate", "super", "self"] {
        for (place, _) in code.match_indices(&format!("{root}::")) {
            let before = code[..place].chars().next_back();
            // Skips matches in the middle of a word or path, such as `super::super`, whose first word was already counted.
            if before.is_some_and(|c| is_of_a_word(c) || c == ':') {
                continue;
            }
            for (path, _) in tree(&code[place..]) {
                let mut at: Vec<String> = module.to_vec();
                for word in path {
                    match word.as_str() {
                        "crate" => at.clear(),
                        "self" => {}
                        "super" => _ = at.pop(),
                        _ => at.push(word),
                    }
                }
                found.push(at);
            }
        }
    }
    found
}

/// The names that a module re-exports from its submodules, as in `pub use local::Local`, each with its origin.
fn taken(module: &[String], modules: &Modules) -> Vec<(String, Vec<String>)> {
    let code = &modules[module];
    let mut found = Vec::new();
    for (place, _) in code.match_indices("use ") {
        if code[..place].chars().next_back().is_some_and(is_of_a_word) {
            continue;
        }
        let end = code[place..].find(';').map_or(code.len(), |end| place + end);
        for (path, name) in tree(&code[place + 4..end]) {
            let path = path.into_iter().filter(|word| word != "self");
            let from: Vec<String> = module.iter().cloned().chain(path).collect();
            if modules.contains_key(&from[..=module.len()]) {
                found.push((name, from));
            }
        }
    }
    found
}

/// The modules that a path leads to: the last module on the path, or the module from which this one re-exports the next word.
fn leads_to(path: &[String], code: &str, modules: &Modules) -> Vec<Vec<String>> {
    let known = (0..=path.len()).rev().find(|end| modules.contains_key(&path[..*end])).unwrap_or(0);
    let module = &path[..known];
    let Some(word) = path.get(known) else { return vec![module.to_vec()] };
    let words: BTreeSet<&str> = match word.as_str() {
        "*" => code.split(|c| !is_of_a_word(c)).collect(),
        word => BTreeSet::from([word]),
    };
    let mut found: Vec<Vec<String>> = Vec::new();
    for (name, from) in taken(module, modules) {
        if words.contains(name.as_str()) && from != path {
            found.extend(leads_to(&from, code, modules));
        }
    }
    if found.is_empty() { vec![module.to_vec()] } else { found }
}

/// For each folder, which of its files and folders use which others.
fn arrows(modules: &Modules) -> BTreeMap<Vec<String>, BTreeSet<(String, String)>> {
    let mut arrows: BTreeMap<Vec<String>, BTreeSet<(String, String)>> = BTreeMap::new();
    for (module, code) in modules {
        for path in mentions(module, code) {
            for other in leads_to(&path, code, modules) {
                let shared = module.iter().zip(&other).take_while(|(one, other)| one == other).count();
                if let (Some(from), Some(to)) = (module.get(shared), other.get(shared)) {
                    arrows.entry(module[..shared].to_vec()).or_default().insert((from.clone(), to.clone()));
                }
            }
        }
    }
    arrows
}

/// The groups of two or more in which each can reach each other.
fn circles(arrows: &BTreeSet<(String, String)>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            for (_, to) in arrows.iter().filter(|(one, _)| one == at) {
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<&String>> = arrows.iter().map(|(from, _)| (from, reached(from))).collect();
    let groups = all.iter().map(|(one, reached)| {
        let back = |other: &&&String| all.get(*other).is_some_and(|back| back.contains(one));
        reached.iter().filter(back).map(|other| other.to_string()).collect::<BTreeSet<_>>()
    });
    groups.filter(|group| group.len() > 1).collect()
}

/// All circles below a folder with a crate's source, each with its folder.
fn circles_below(source: &Path, name: &str) -> BTreeSet<(String, BTreeSet<String>)> {
    let mut found = Modules::new();
    modules(source, &[], &mut found);
    let in_folders = arrows(&found).into_iter().flat_map(|(folder, arrows)| {
        let folder = [&[name.to_string()], &folder[..]].concat().join("/");
        circles(&arrows).into_iter().map(move |circle| (folder.clone(), circle))
    });
    in_folders.collect()
}

#[test]
fn files_and_folders_stand_in_no_circles() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = vec!["src".to_string()];
    sources.extend(fs::read_dir(here.join("crates")).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        format!("crates/{name}/src")
    }));
    let found: BTreeSet<_> = sources.iter().flat_map(|source| circles_below(&here.join(source), source)).collect();
    let excused: BTreeSet<(String, BTreeSet<String>)> = EXCUSED
        .iter()
        .map(|(folder, circle, _)| (folder.to_string(), circle.iter().map(|name| name.to_string()).collect()))
        .collect();
    let new: Vec<_> = found.difference(&excused).collect();
    assert!(new.is_empty(), "these name each other in circles: {new:#?}");
    let gone: Vec<_> = excused.difference(&found).collect();
    assert!(gone.is_empty(), "these no longer do, so take their excuses out: {gone:#?}");
}

#[test]
fn circles_are_seen_and_nothing_else_is_one() {
    let of = |files: &[(&str, &str)]| {
        let modules: Modules = files
            .iter()
            .map(|(path, code)| {
                let path = path.split('/').filter(|word| !word.is_empty()).map(str::to_string).collect();
                (path, code_of(code))
            })
            .collect();
        let folders = arrows(&modules).into_iter().flat_map(|(folder, arrows)| {
            circles(&arrows).into_iter().map(move |circle| {
                let names: Vec<String> = circle.into_iter().collect();
                format!("{}: {}", folder.join("/"), names.join(" "))
            })
        });
        folders.collect::<Vec<_>>().join("; ")
    };
    let root = ("", "mod a;\nmod b;\npub use b::{c::Deep, Thing as Other};");
    for (files, circle) in [
        // By a path, in a use and within code.
        (&[root, ("a", "use super::b::X;"), ("b", "fn f() { crate::a::g() }")][..], ": a b"),
        (&[root, ("a", "use crate::{z, b::{self, X}};"), ("b", "use super::a;")], ": a b"),
        // By a name that is re-exported from there.
        (&[root, ("a", "use super::Other;"), ("b", "use super::a::X;")], ": a b"),
        (&[root, ("a", "use super::*;\nfn f(_: Other) {}"), ("b", "use super::a::X;")], ": a b"),
        (&[root, ("a", "use super::Deep;"), ("b", "mod c;"), ("b/c", "use crate::a::X;")], ": a b"),
        // Within a folder, and around three files.
        (&[root, ("a", "mod x;\nmod y;"), ("a/x", "use super::y::Y;"), ("a/y", "use super::x::X;")], "a: x y"),
        (&[root, ("a", "use crate::b::X;"), ("b", "use crate::d::X;"), ("d", "use crate::a::X;")], ": a b d"),
        // In one direction, a folder with its own content, tests and comments.
        (&[root, ("a", "use super::b::X;"), ("b", "")], ""),
        (&[root, ("a", "use super::Thing;"), ("b", "use super::a::X;")], ""),
        (&[root, ("a", "use super::*;\nfn f(_: Another) {}"), ("b", "use super::a::X;")], ""),
        (&[root, ("a", "mod x;\nuse self::x::X;"), ("a/x", "use super::A;")], ""),
        (&[root, ("a", "// see super::b::X\n#[cfg(test)]\nmod tests { use crate::b; }"), ("b", "use super::a;")], ""),
    ] {
        assert_eq!(of(files), circle, "{files:#?}");
    }
}
