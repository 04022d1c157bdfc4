//! licenses.txt names everything that is linked into the program or embedded in it, each with its notice. `UPDATE_DOCS=1 cargo
//! test --test offline licenses` regenerates it from the sources that the build itself uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Embedded parts that are not separate crates: their name, the crate with their sources, and the file with their notice. With
/// two marks, the notice is only a part of the file: from the first line with the first mark to the last line before the second
/// mark.
const EMBEDDED: [(&str, &str, &str, Option<[&str; 2]>); 3] = [
    ("DejaVu fonts 2.37 (in the pictures)", "dejavu", "assets/dejavu-fonts-ttf-2.37/LICENSE", None),
    (
        "Lua 5.1 (in simulated Redis servers)",
        "lua-src",
        "lua-5.1.5/lua.h",
        Some(["* Copyright (C) 1994", "****************"]),
    ),
    ("mimalloc (the allocator)", "libmimalloc-sys", "c_src/mimalloc/v3/LICENSE", None),
];

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-musl"];

const HEAD: &str = "redjepsen and its crates linearizability, redlock-model and simulated-redis are under MIT. These are in the program as\n\
    well, each under the licence that is named; where several are offered and one of them is MIT, it is used under that. Rust's\n\
    standard library, which is in every program in Rust, is under MIT or Apache-2.0.\n\n";

/// The file itself, which is in the program's root folder.
const MADE: &str = "licenses.txt";

struct Package {
    name: String,
    version: String,
    license: String,
    authors: String,
    folder: PathBuf,
}

/// All known packages, and the names of the packages that are linked in.
fn packages(target: &str) -> (BTreeMap<String, Package>, BTreeSet<String>) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", target]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut packages = BTreeMap::new();
    let mut macros = BTreeSet::new();
    for package in all["packages"].as_array().unwrap() {
        let authors = package["authors"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(", ");
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_path_buf();
        let kinds = package["targets"].as_array().unwrap().iter().flat_map(|target| target["kind"].as_array().unwrap());
        if kinds.into_iter().any(|kind| kind == "proc-macro") {
            macros.insert(text(&package["id"]));
        }
        let [name, version, license] = ["name", "version", "license"].map(|field| text(&package[field]));
        packages.insert(text(&package["id"]), Package { name, version, license, authors, folder });
    }
    let nodes = all["resolve"]["nodes"].as_array().unwrap();
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (node["id"].as_str().unwrap(), node)).collect();
    let mut linked = BTreeSet::new();
    let mut next = vec![text(&all["resolve"]["root"])];
    while let Some(id) = next.pop() {
        if macros.contains(&id) || !linked.insert(id.clone()) {
            continue;
        }
        for needed in nodes[id.as_str()]["deps"].as_array().unwrap() {
            if needed["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null()) {
                next.push(text(&needed["pkg"]));
            }
        }
    }
    (packages, linked)
}

/// The notices in a package's sources. If the package is offered under MIT, only the notices for MIT.
fn notices(package: &Package) -> Vec<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(&package.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mit = package.license.contains("MIT");
    let is_notice = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().to_lowercase();
        let is_one =
            ["license", "licence", "copying", "copyright", "notice"].iter().any(|start| name.starts_with(start));
        is_one
            && name != MADE
            && path.is_file()
            && !(mit && ["apache", "boost", "bsl"].iter().any(|other| name.contains(other)))
    };
    let texts = files.iter().filter(is_notice).map(|path| fs::read_to_string(path).unwrap());
    texts.map(|text| text.replace("\r\n", "\n").trim_end().to_string()).filter(|text| !text.is_empty()).collect()
}

fn embedded(packages: &BTreeMap<String, Package>, of: &str, file: &str, part: Option<[&str; 2]>) -> String {
    let package = packages.values().find(|package| package.name == of).expect(of);
    let text = fs::read_to_string(package.folder.join(file)).unwrap();
    let Some([from, to]) = part else { return text.trim_end().to_string() };
    let lines = text.lines().skip_while(|line| !line.contains(from)).take_while(|line| !line.contains(to));
    lines.map(|line| line.trim_start_matches(['*', ' '])).collect::<Vec<_>>().join("\n")
}

/// The content of the whole file.
fn made() -> String {
    let mut all: BTreeMap<String, Package> = BTreeMap::new();
    let mut linked = BTreeSet::new();
    for target in TARGETS {
        let (packages, of_target) = packages(target);
        all.extend(packages);
        linked.extend(of_target);
    }
    let mut text = HEAD.to_string();
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    for package in linked.iter().map(|id| &all[id]) {
        // The package is a part of redjepsen itself, under its licence.
        if package.folder.starts_with(&crates) && notices(package).is_empty() {
            continue;
        }
        text.push_str(&format!("{} {} ({})\n", package.name, package.version, package.license));
        let mut notices = notices(package);
        if notices.is_empty() {
            let by = if package.authors.is_empty() { "its authors" } else { &package.authors };
            notices
                .push(format!("Copyright {by}; its sources come without the text of the licence {}.", package.license));
        }
        for notice in notices {
            by_text.entry(notice).or_default().push(format!("{} {}", package.name, package.version));
        }
    }
    for (what, of, file, part) in EMBEDDED {
        text.push_str(&format!("{what}\n"));
        by_text.entry(embedded(&all, of, file, part)).or_default().push(what.to_string());
    }
    for (notice, whose) in by_text {
        text.push_str(&format!("\n{}\n{}\n\n{notice}\n", "-".repeat(80), whose.join(", ")));
    }
    text
}

#[test]
fn every_part_of_the_program_has_its_notice() {
    let made = made();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(MADE);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        // The program of this build contains the earlier file.
        fs::write(&path, &made).unwrap();
        return;
    }
    let there = fs::read_to_string(&path).unwrap();
    assert!(there == made, "licenses.txt is not what is linked in; make it anew with UPDATE_DOCS=1");
    for part in ["Bitstream Vera", "Lua.org, PUC-Rio", "Daan Leijen", "tokio ", "mlua-sys ", "Apache License"] {
        assert!(made.contains(part), "{part}");
    }
    let mut redjepsen = assert_cmd::Command::cargo_bin("redjepsen").unwrap();
    let printed = redjepsen.arg("licenses").assert().code(0).get_output().stdout.clone();
    assert_eq!(String::from_utf8(printed).unwrap(), there);
}

#[test]
fn no_licence_is_there_that_deny_toml_does_not_allow() {
    let (packages, linked) = packages(TARGETS[0]);
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml")).unwrap();
    let rules: toml::Table = toml::from_str(&text).unwrap();
    let allowed: Vec<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    let fits = |license: &str| {
        let any = |part: &str| part.split(" OR ").any(|one| allowed.contains(&one.trim_matches(['(', ')', ' '])));
        license.replace('/', " OR ").split(" AND ").all(any)
    };
    for package in linked.iter().map(|id| &packages[id]) {
        assert!(fits(&package.license), "{} is under {}", package.name, package.license);
    }
    assert!(!fits("GPL-3.0-only") && !fits("MIT AND GPL-3.0-only") && fits("GPL-3.0-only OR MIT"));
}
