//! The source lines that findings about libraries cite. docs/citations.toml has each line's text, and a link to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use model::scenario::{Library, catalogue};
use serde::Deserialize;

/// docs/citations.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Citations {
    file: Vec<CitedFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CitedFile {
    /// The path as findings cite it.
    path: String,
    /// A workload of the library, which determines the cited version.
    workload: String,
    /// The link with `{version}` and `{path}`; None if no page is known to have this exact version.
    link: Option<String>,
    /// The text of the first line of each cited range, with single blanks.
    lines: BTreeMap<String, String>,
}

/// A place in a library's source: a file, and one or more ranges of lines.
struct Place<'s> {
    path: &'s str,
    ranges: Vec<&'s str>,
}

impl Citations {
    pub fn read() -> Citations {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/citations.toml");
        toml::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    }

    fn file(&self, path: &str) -> Option<&CitedFile> {
        self.file.iter().find(|file| file.path == path)
    }

    /// A finding's `source`, with each range of lines as a link to the range.
    pub fn linked(&self, source: &str) -> String {
        let one = |place: &Place| {
            let file = self.file(place.path);
            let of_range = |(number, range): (usize, &&str)| {
                let shown = if number == 0 { format!("{}:{range}", place.path) } else { (*range).to_string() };
                match file.filter(|file| file.lines.contains_key(*range)).and_then(|file| file.link(range)) {
                    Some(link) => format!("[{shown}]({link})"),
                    None => shown,
                }
            };
            place.ranges.iter().enumerate().map(of_range).collect::<Vec<_>>().join(",")
        };
        places(source).iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

impl CitedFile {
    fn library(&self) -> Library {
        catalogue::workload(&self.workload).unwrap().1.library.unwrap()
    }

    fn link(&self, range: &str) -> Option<String> {
        let page = self.link.as_ref()?.replace("{version}", &self.library().version).replace("{path}", &self.path);
        let (first, last) = range.split_once('-').map_or((range, None), |(first, last)| (first, Some(last)));
        Some(match last {
            Some(last) if page.contains("github.com") => format!("{page}#L{first}-L{last}"),
            Some(last) if page.contains("docs.rs") => format!("{page}#{first}-{last}"),
            None if page.contains("docs.rs") => format!("{page}#{first}"),
            _ => format!("{page}#L{first}"),
        })
    }
}

/// The places that a source names: `redis/lock.py:243, by kombu/transport/redis.py:285`, `redlock.js:397,419`.
fn places(source: &str) -> Vec<Place<'_>> {
    let mut places: Vec<Place> = Vec::new();
    for part in source.split(',').map(str::trim) {
        match (part.strip_prefix("by ").unwrap_or(part).rsplit_once(':'), places.last_mut()) {
            (Some((path, range)), _) => places.push(Place { path, ranges: vec![range] }),
            (None, Some(last)) => last.ranges.push(part),
            (None, None) => panic!("`{source}` names no file and line"),
        }
    }
    places
}

/// All ranges that findings cite, by their file.
fn cited() -> BTreeMap<String, BTreeSet<String>> {
    let mut cited: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, _) in catalogue::WORKLOADS {
        let library = catalogue::workload(name).unwrap().1.library;
        for source in library.iter().flat_map(|library| &library.findings).filter_map(|finding| finding.source.as_ref())
        {
            for Place { path, ranges } in places(source) {
                let number = |text: &str| text.split('-').all(|number| number.parse::<u32>().is_ok());
                assert!(ranges.iter().all(|range| number(range)), "{name}: `{source}`");
                cited.entry(path.to_string()).or_default().extend(ranges.iter().map(|range| (*range).to_string()));
            }
        }
    }
    cited
}

#[test]
fn every_line_that_is_kept_is_one_that_a_finding_cites() {
    let cited = cited();
    for file in Citations::read().file {
        for range in file.lines.keys() {
            let known = cited.get(&file.path).is_some_and(|ranges| ranges.contains(range));
            assert!(known, "no finding cites {}:{range}; take it out of docs/citations.toml", file.path);
        }
        assert!(!file.library().version.is_empty(), "{}", file.path);
    }
}

#[test]
fn a_source_becomes_links_to_the_pinned_version() {
    let citations: Citations = toml::from_str(
        "[[file]]\npath = \"redis/lock.py\"\nworkload = \"redis-py\"\nlink = \"https://github.com/x/blob/v{version}/{path}\"\n\
         [file.lines]\n\"243\" = \"if\"\n\"226-230\" = \"while\"\n",
    )
    .unwrap();
    let page = |lines: &str| {
        let version = catalogue::workload("redis-py").unwrap().1.library.unwrap().version;
        format!("https://github.com/x/blob/v{version}/redis/lock.py#{lines}")
    };
    assert_eq!(citations.linked("redis/lock.py:243"), format!("[redis/lock.py:243]({})", page("L243")));
    assert_eq!(
        citations.linked("redis/lock.py:226-230,243, by kombu/x.py:1"),
        format!("[redis/lock.py:226-230]({}),[243]({}), kombu/x.py:1", page("L226-L230"), page("L243"))
    );
    assert_eq!(citations.linked("redis/lock.py:7"), "redis/lock.py:7", "no line that is not kept");
}

/// The folders of libraries' sources on this machine: the installations of `redjepsen install`, and the sources from which Go and
/// cargo built them.
fn roots() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let in_home = |folder: &str| home.join(folder);
    let mut roots = Vec::new();
    for folder in [in_home(".cache/redjepsen/clients"), in_home("go/pkg/mod/github.com/bsm")] {
        roots.extend(fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()));
    }
    for index in fs::read_dir(in_home(".cargo/registry/src")).into_iter().flatten() {
        roots.extend(fs::read_dir(index.unwrap().path()).into_iter().flatten().map(|entry| entry.unwrap().path()));
    }
    roots
}

/// The files with this path in a folder, at any depth.
fn find(folder: &Path, path: &str, found: &mut Vec<PathBuf>) {
    if folder.join(path).is_file() {
        found.push(folder.join(path));
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&entry.path(), path, found);
        }
    }
}

/// A name and a version in the form of installations' folders.
fn slug(text: &str) -> String {
    text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[test]
#[ignore = "needs the libraries: redjepsen install"]
fn the_lines_that_are_cited_say_what_is_cited() {
    let (roots, mut wrong, mut looked_at) = (roots(), Vec::new(), 0);
    for file in Citations::read().file {
        let library = file.library();
        let package = library.package.as_ref().map_or(library.name.clone(), |package| package.name.clone());
        let last = package.rsplit('/').next().unwrap().to_string();
        let ours = [&library.name, &last].map(|name| slug(&format!("{name} {}", library.version)));
        let is_ours = |root: &&PathBuf| {
            let name = slug(&root.file_name().unwrap().to_string_lossy());
            ours.iter().any(|slug| name == *slug || name.starts_with(&format!("{slug}-")))
                || name == slug(&format!("{last}@v{}", library.version))
        };
        let mut found = Vec::new();
        roots.iter().filter(is_ours).for_each(|root| find(root, &file.path, &mut found));
        let Some(text) = found.first().map(|path| fs::read_to_string(path).unwrap()) else {
            println!("not looked at: {} of {} {} is not on this machine", file.path, library.name, library.version);
            continue;
        };
        let lines: Vec<&str> = text.lines().collect();
        for (range, expected) in &file.lines {
            looked_at += 1;
            let first: usize = range.split('-').next().unwrap().parse().unwrap();
            let is = lines.get(first - 1).unwrap_or(&"").split_whitespace().collect::<Vec<_>>().join(" ");
            if is != *expected {
                wrong.push(format!("{}:{first} says `{is}`, not `{expected}`", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(looked_at > 0, "no library is installed here");
    println!("{looked_at} cited lines say what is cited");
}
