//! The workloads, nemeses, suites and known issues that come with the binary, and the user's own files.
//!
//! A name means an embedded file; anything with a slash or ending in `.toml` is a path. `build.rs` embeds each file that
//! it finds in the four folders. The files are data: reading one never executes anything.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::de::DeserializeOwned;

use crate::history::Progress;
use crate::nemesis::{Fault, Nemesis, OneOf, RecurringFault, Target};
use crate::scenario::Workload;
use base::files;
use base::sync::lock;
use base::units::LengthError;

/// An embedded file: its name without `.toml`, and its text.
pub type EmbeddedFile = (&'static str, &'static str);

/// Every workload that comes with the binary, by name.
pub const WORKLOADS: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// Every nemesis that comes with the binary, by name.
pub const NEMESES: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/nemeses.rs"));

/// Every suite that comes with the binary, by name.
pub const SUITES: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/suites.rs"));

/// Every known issue of a library that comes with the binary, by the name of its file.
pub const ISSUES: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/issues.rs"));

/// Why a workload, nemesis or suite can't be used: one message with file, line and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CatalogueError(pub(super) String);

/// A workload by name or path, with the name for its run folders.
pub fn workload(name_or_path: &str) -> Result<(String, Workload), CatalogueError> {
    let (name, mut workload): (String, Workload) = find("workload", WORKLOADS, name_or_path)?;
    if let Some(client) = workload.client.as_mut().filter(|_| is_path(name_or_path)) {
        let folder = Path::new(name_or_path).parent().filter(|folder| !folder.as_os_str().is_empty());
        let whole = std::path::absolute(folder.unwrap_or(Path::new(".")));
        client.in_folder(&whole.map_err(|error| CatalogueError(format!("workload file {name_or_path}: {error}")))?);
    }
    let checked = workload.complete().and_then(|()| workload.check());
    checked.map_err(|text| CatalogueError(format!("workload {name}: {text}")))?;
    Ok((name, workload))
}

/// A nemesis by name or path, with the name for its run folders. Several, separated by commas, become one that does everything
/// that they do. A phrase such as `pause node:0` becomes a nemesis that does just that.
pub fn nemesis(names_or_paths: &str) -> Result<(String, Nemesis), CatalogueError> {
    let mut all: Option<(String, Nemesis)> = None;
    for wanted in apart(names_or_paths) {
        // No phrase ends like a file name.
        let (name, nemesis): (String, Nemesis) = match wanted.contains(' ') && !wanted.ends_with(".toml") {
            true => spoken(&wanted)?,
            false => find("nemesis", NEMESES, &wanted)?,
        };
        let of_today = |(workload, expected): (String, _)| (renamed("workload", &workload).to_string(), expected);
        let nemesis = Nemesis { expect: nemesis.expect.into_iter().map(of_today).collect(), ..nemesis };
        nemesis.check().map_err(|text| CatalogueError(format!("nemesis {name}: {text}")))?;
        all = Some(match all {
            None => (name, nemesis),
            Some((names, before)) => {
                let both = before.and(nemesis);
                let both = both.map_err(|error| CatalogueError(format!("--nemesis {names_or_paths}: {error}")))?;
                (format!("{names}+{name}"), both)
            }
        });
    }
    all.ok_or_else(|| CatalogueError("no nemesis is given".to_string()))
}

/// Splits at commas, except within a phrase, where commas separate targets: `pause client:0,node:1` is one phrase.
fn apart(names_or_paths: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in names_or_paths.split(',').map(str::trim) {
        let is_target = part.split(' ').next().is_some_and(|word| word.parse::<Target>().is_ok());
        match parts.last_mut().filter(|before| is_target && before.contains(' ')) {
            Some(phrase) => phrase.extend([",", part]),
            None => parts.push(part.to_string()),
        }
    }
    parts
}

/// A fault given as a phrase instead of a file, such as `pause node:0`; it recurs.
fn spoken(phrase: &str) -> Result<(String, Nemesis), CatalogueError> {
    tell_renamed("--nemesis", phrase);
    let fault: Fault = phrase.parse().map_err(|error| CatalogueError(format!("--nemesis: {error}")))?;
    let range = |text: &str| text.parse().map_err(|error: LengthError| CatalogueError(error.to_string()));
    // A hook takes as long as the servers do, or a person. So it comes once.
    let (every, how_often) = if fault.kind.is_a_hook() { ("48h", "once") } else { ("3ttl..4ttl", "repeatedly") };
    let recurring = RecurringFault { fault: OneOf(vec![fault]), every: range(every)?, lasts: range("1ttl..2ttl")? };
    let nemesis = Nemesis {
        description: phrase.to_string(),
        story: format!("`{phrase}`, {how_often}."),
        // It is unknown how much progress such a fault allows.
        progress: Progress::Any,
        faults: vec![recurring],
        ..Nemesis::default()
    };
    Ok((folder_name(phrase), nemesis))
}

/// Old words that are still understood: their kind, the old word, the new word.
const RENAMED: [(&str, &str, &str); 3] = [
    ("workload", "cas-token", "redlock-guarded"),
    ("fencing", "old-value", "compare-and-set"),
    ("target", "storage", "resource"),
];

/// A file's text without its prose, which may use any word. An invalid file is refused later.
fn without_prose(text: &str) -> String {
    let mut table: toml::Table = toml::from_str(text).unwrap_or_default();
    for prose in ["description", "source", "story"] {
        table.remove(prose);
    }
    table.to_string()
}

/// The current name of something that may have been renamed.
fn renamed<'n>(what: &str, name: &'n str) -> &'n str {
    RENAMED.iter().find(|(of, old, _)| (*of, *old) == (what, name)).map_or(name, |(_, _, new)| new)
}

/// Reports once, on standard error, the renamed words of a file or flag.
fn tell_renamed(place: &str, text: &str) {
    static TOLD: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut told = lock(&TOLD);
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    for (what, old, new) in RENAMED {
        if words.contains(old) && told.insert(old) {
            let text = format!("{place}: the {what} `{old}` is now called `{new}`; the old name still works\n");
            // The message is optional, so a failure to write it does not matter.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

/// The entry with a name, or the file at a path, and the name for its run folders.
pub fn find<T: DeserializeOwned>(
    kind: &str,
    entries: &[EmbeddedFile],
    wanted: &str,
) -> Result<(String, T), CatalogueError> {
    if is_path(wanted) {
        let path = Path::new(wanted);
        let text = files::read_named(path, files::BY_HAND);
        let text = text.map_err(|error| CatalogueError(format!("{kind} file {error}")))?;
        tell_renamed(wanted, &without_prose(&text));
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        return Ok((folder_name(&name), parse(wanted, &text)?));
    }
    tell_renamed(&format!("--{kind}"), wanted);
    let wanted =
        RENAMED.iter().find(|(what, old, _)| (*what, *old) == (kind, wanted)).map_or(wanted, |(_, _, new)| new);
    let Some((name, text)) = entries.iter().find(|(name, _)| *name == wanted) else {
        let names = entries.iter().map(|(name, _)| *name);
        return Err(CatalogueError(format!(
            "unknown {kind} `{wanted}`; {}{}; you can also give the path of a .toml file",
            did_you_mean(wanted, names),
            where_all_are(kind)
        )));
    };
    Ok((name.to_string(), parse(&format!("{kind} {name}"), text)?))
}

/// Says which command lists all entries of this kind.
fn where_all_are(kind: &str) -> String {
    match kind {
        "workload" => "`redjepsen list workloads` and `redjepsen list libraries` show all".to_string(),
        "nemesis" => "`redjepsen list faults` shows all".to_string(),
        kind => format!("`redjepsen list {kind}s` shows all"),
    }
}

/// The known names that are most like an unknown word, as a question; empty if none is.
pub fn did_you_mean<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    let mut alike: Vec<(f64, &str)> = names.map(|name| (strsim::jaro_winkler(word, name), name)).collect();
    alike.retain(|(likeness, _)| *likeness > LEAST_LIKENESS);
    alike.sort_by(|(one, name), (other, other_name)| other.total_cmp(one).then(name.cmp(other_name)));
    // Things of several kinds may have the same name.
    alike.dedup();
    let alike: Vec<String> = alike.iter().take(MOST_ALIKE).map(|(_, name)| format!("`{name}`")).collect();
    match &alike[..] {
        [] => String::new(),
        [one] => format!("did you mean {one}? "),
        [others @ .., last] => format!("did you mean {} or {last}? ", others.join(", ")),
    }
}

/// The least Jaro-Winkler similarity of a suggestion, from 0 to 1.
const LEAST_LIKENESS: f64 = 0.8;
const MOST_ALIKE: usize = 3;

pub fn is_path(wanted: &str) -> bool {
    wanted.contains('/') || wanted.ends_with(".toml")
}

/// Parses a file into its type. The parser's message shows the line and what was expected there.
fn parse<T: DeserializeOwned>(place: &str, text: &str) -> Result<T, CatalogueError> {
    toml::from_str(text).map_err(|error| CatalogueError(format!("{place}: {}", error.to_string().trim_end())))
}

/// The name for run folders: one plain word, whatever the name of the file.
fn folder_name(name: &str) -> String {
    let word: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    if word.is_empty() { "custom".to_string() } else { word }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::nemesis::Expectation;

    fn files_in(folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder))
            .unwrap()
            .filter_map(|entry| {
                entry.unwrap().file_name().into_string().unwrap().strip_suffix(".toml").map(String::from)
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_of_several_things_is_proposed_once() {
        let names = ["none", "pause", "none", "node-redlock", "none"];
        assert_eq!(did_you_mean("nine", names.into_iter()), "did you mean `none`? ");
        assert_eq!(did_you_mean("nodes", ["node", "none", "node"].into_iter()), "did you mean `node` or `none`? ");
        assert_eq!(did_you_mean("zzz", names.into_iter()), "");
    }

    #[test]
    fn every_file_is_embedded_parses_and_is_described() {
        let names = |entries: &[EmbeddedFile]| entries.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(files_in("workloads"), names(WORKLOADS));
        assert_eq!(files_in("nemeses"), names(NEMESES));
        assert_eq!(files_in("suites"), names(SUITES));
        assert_eq!(files_in("issues"), names(ISSUES));
        for (name, _) in WORKLOADS {
            let (_, workload) = workload(name).unwrap();
            assert!(!workload.description.is_empty() && !workload.description.contains('\n'), "{name}");
            let shown = workload.library.iter().flat_map(|library| &library.findings).flat_map(|finding| {
                assert!(!finding.nemesis.is_empty(), "{name}");
                &finding.nemesis
            });
            for nemesis_name in shown {
                let expected = workload.expect.get(nemesis_name);
                assert_eq!(expected, Some(&Expectation::Violation), "{name} has a finding under {nemesis_name}");
            }
            for nemesis_name in workload.expect.keys() {
                nemesis(nemesis_name).unwrap_or_else(|error| panic!("{name} expects something of {error}"));
            }
        }
        for (name, _) in NEMESES {
            let (_, nemesis) = nemesis(name).unwrap();
            assert!(!nemesis.description.is_empty() && !nemesis.description.contains('\n'), "{name}");
            for (workload_name, expected) in &nemesis.expect {
                let (_, workload) =
                    workload(workload_name).unwrap_or_else(|error| panic!("{name} expects something of {error}"));
                let other = workload.expect.get(*name);
                assert!(other.is_none_or(|other| other == expected), "{name} and {workload_name} disagree");
            }
        }
    }

    #[test]
    fn nemeses_are_composed_and_said_in_place_of_a_file() {
        let (name, both) = nemesis("pause,pause-node").unwrap();
        assert_eq!((name.as_str(), both.faults.len()), ("pause+pause-node", 2));
        let (name, spoken) = nemesis("clock node:2 +2ttl").unwrap();
        assert_eq!((name.as_str(), spoken.faults.len()), ("clock-node-2--2ttl", 1));
        let (_, spoken) = nemesis("pause client:0, node:1, partition primary from nodes,sentinels, kill-node").unwrap();
        let faults: Vec<_> = spoken.faults.iter().map(|recurring| recurring.fault.0[0].to_string()).collect();
        assert_eq!(faults[..2], ["pause client:0,node:1", "partition primary from nodes,sentinels"]);
        assert_eq!(faults.len(), 3);
        for (wanted, expected) in [
            ("pause,paus", "unknown nemesis `paus`"),
            ("pause,node", "unknown nemesis `node`"),
            ("pause client:0,nod:1", "unknown nemesis `nod:1`"),
            ("pause,pause-before-write", "can't be combined"),
            ("paus holder", "expected `pause WHO`"),
            ("pause everybody", "unknown target `everybody`"),
        ] {
            let error = nemesis(wanted).unwrap_err().to_string();
            assert!(error.contains(expected), "{wanted}: {error}");
        }
    }

    #[test]
    fn old_names_still_work() {
        assert_eq!(workload("cas-token").unwrap().0, "redlock-guarded");
        let (_, nemesis) = nemesis("pause storage").unwrap();
        assert_eq!(nemesis.faults[0].fault.0[0].to_string(), "pause resource");
        let text = WORKLOADS.iter().find(|(name, _)| *name == "redlock-guarded").unwrap().1;
        let old = text.replace("\"compare-and-set\"", "\"old-value\"");
        assert_ne!(old, text);
        assert!(without_prose(&old).contains("old-value"));
        assert!(!without_prose("source = \"writing back to storage\"\nnodes = 1").contains("storage"), "only prose");
        assert_eq!(parse::<Workload>("mine", &old).unwrap(), parse::<Workload>("mine", text).unwrap());
    }

    #[test]
    fn a_mistake_in_a_nemesis_file_is_shown_with_its_line() {
        let good = NEMESES.iter().find(|(name, _)| *name == "pause-before-write").unwrap().1;
        for (from, to, expected) in [
            ("start client:0", "begin client:0", "expected `start client:N`"),
            ("to before-write", "to the-write", "a phase (`acquiring`"),
            ("pause client:0", "pause client:zero", "unknown target `client:zero`"),
            ("within 3ttl", "within 3tll", "is not a length of time"),
            ("progress = \"any\"", "progress = \"much\"", "expected one of `some`, `none`, `any`"),
            ("clients = 2", "clinets = 2", "unknown field `clinets`"),
            ("single = \"violation\"", "single = \"broken\"", "expected `valid` or `violation`"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            let error = parse::<Nemesis>("mine.toml", &bad).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("mine.toml") && error.contains("line"), "{error}");
        }
    }

    #[test]
    fn a_mistake_gets_a_message_that_says_where_and_what() {
        let unknown = workload("redlok").unwrap_err().to_string();
        assert!(unknown.contains("unknown workload `redlok`; did you mean `redlock`, `"), "{unknown}");
        let nothing_like_it = workload("zzz").unwrap_err().to_string();
        assert!(
            nothing_like_it.starts_with(
                "unknown workload `zzz`; `redjepsen list workloads` and `redjepsen list libraries` show all;"
            ),
            "{nothing_like_it}"
        );
        let missing = nemesis("no/such.toml").unwrap_err().to_string();
        assert!(missing.contains("no/such.toml"), "{missing}");
        let endless = workload("/dev/zero").unwrap_err().to_string();
        assert_eq!(endless, "workload file /dev/zero: it is a device, not a regular file");

        let good = WORKLOADS.iter().find(|(name, _)| *name == "redlock").unwrap().1;
        for (from, to, expected) in [
            ("drift_factor", "drift_faktor", "unknown field `drift_faktor`"),
            ("[lock.redlock]", "[lock.readlock]", "unknown variant `readlock`"),
            ("\"0.05ttl\"", "\"0.05tll\"", "`0.05tll` is not a length of time"),
            ("\"parallel\"", "\"both\"", "expected `parallel` or `sequential`"),
            ("kind = \"register\"", "kind = 3", "line"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            let error = parse::<Workload>("redlock.toml", &bad).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("redlock.toml") && error.contains("line"), "{error}");
        }
        let good = NEMESES.iter().find(|(name, _)| *name == "pause").unwrap().1;
        let bad = good.replace("pause holder", "pause client:x");
        let error = parse::<Nemesis>("pause.toml", &bad).unwrap_err().to_string();
        assert!(error.contains("unknown target `client:x`; expected `holder`"), "{error}");
    }
}
