//! The pages over a store: its runs, each run, and the runs of each suite.
//!
//! `redjepsen serve` serves them, and can also write them as files. So every link is relative, and nothing depends on a server.
//!
//! | page | at |
//! |---|---|
//! | all runs and suites | `index.html`; only the runs in progress, `live.html` |
//! | a run | `runs/PATH.html` |
//! | the runs of a suite | `suites/NAME.html` |
//! | a suite run against the one before | `nights/PATH.html` |
//! | a file of a run or suite run | `files/PATH` |
//!
//! A path is that of a folder in the store. Pages fetch only themselves, and run one script, which filters and sorts. Without
//! the script they show the newest entries.

mod index;
mod run;
mod suite;

pub use index::{index, live};
use maud::{Markup, html};
pub use run::run;
pub use suite::suite;

use super::compare;
use super::html::{Page, Script, address};
use ::suite::compare::Comparison;
use base::words::{length, sanitize};
use checker::Validity;
use summary::store::{Snapshot, StoredState};

const STYLE: &str = include_str!("style.css");
const SCRIPT: Script = Script::served(concat!(include_str!("../html/copy.js"), include_str!("script.js")));

#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The path from the root of the pages, such as `runs/redlock-pause/20260101T000000.000Z.html`.
    pub page: &'a str,
    /// The store, as the user named it.
    pub store: &'a str,
    /// True if a server answers, so that the page can fetch news.
    pub live: bool,
}

/// A file of a run, with its path in the run's folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileEntry {
    pub path: String,
    pub bytes: u64,
    pub here: bool,
}

impl At<'_> {
    /// The address of another page, or of a file.
    fn to(&self, page: &str) -> String {
        format!("{}{}", "../".repeat(self.page.matches('/').count()), address(page))
    }

    fn run(&self, path: &str) -> String {
        self.to(&format!("runs/{path}.html"))
    }

    fn file(&self, path: &str) -> String {
        self.to(&format!("files/{path}"))
    }

    fn suite(&self, suite: &str) -> String {
        self.to(&format!("suites/{suite}.html"))
    }

    fn page(&self, title: &[&str], head: &Markup, content: &Markup) -> String {
        let body = html! {
            main class="store" {
                nav {
                    a href=(self.to("index.html")) { b { "redjepsen" } } span { (sanitize(self.store, 80)) }
                    (head)
                }
                (content)
            }
        };
        let style = format!("{}{STYLE}", super::drawing::STYLE);
        Page { title, style: &style, script: SCRIPT, body: &body }.text()
    }
}

/// The policy of a page: run its own script, and fetch itself again.
pub fn policy() -> String {
    SCRIPT.policy()
}

/// The comparison of a suite run with the one before.
pub fn comparison(at: At, suite: &str, of: &Comparison) -> String {
    let head = html! { a href=(at.suite(suite)) { "suite " (sanitize(suite, 60)) } };
    at.page(&[of.verdict.word(), suite], &head, &compare::content(of))
}

/// `2026-11-24 10:21`, from a folder's name or an RFC 3339 time.
fn when(time: &str) -> String {
    let digits: String = time.chars().filter(char::is_ascii_digit).take(12).collect();
    match digits.len() {
        12 => format!("{}-{}-{} {}:{}", &digits[..4], &digits[4..6], &digits[6..8], &digits[8..10], &digits[10..12]),
        _ => sanitize(time, 40),
    }
}

fn seconds(seconds: f64) -> String {
    if seconds > 0.0 { length((seconds.min(1e9) * 1e9) as u64) } else { "–".to_string() }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// The state of a run in a word, and its class.
fn word(state: &StoredState) -> (&'static str, &'static str) {
    match state {
        StoredState::Done(results) => match results.valid {
            Validity::Valid => ("valid", "held"),
            Validity::Invalid => ("invalid", "broken"),
            Validity::Unknown => ("unknown", "unproven"),
        },
        StoredState::Going(_) => ("in progress", "going"),
        StoredState::BrokenOff(_) => ("broken off", "open"),
        StoredState::Unreadable(_) => ("unreadable", "open"),
    }
}

/// The paths of all pages over a store.
pub fn pages(snapshot: &Snapshot) -> Vec<String> {
    let runs = snapshot.runs.iter().map(|run| format!("runs/{}.html", run.path));
    let suites = snapshot.suites.keys().map(|suite| format!("suites/{suite}.html"));
    let nights = snapshot.suites.values().flat_map(|nights| nights.iter().skip(1));
    let nights = nights.map(|night| format!("nights/{}.html", night.path));
    std::iter::once("index.html".to_string()).chain(suites).chain(nights).chain(runs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!(when("20261124T102152.105Z"), "2026-11-24 10:21");
        assert_eq!(when("2026-11-24T10:21:52Z"), "2026-11-24 10:21");
        assert_eq!(when("latest <b>"), "latest <b>");
        assert_eq!([bytes(7), bytes(12_345), bytes(12_345_678)], ["7 B", "12 kB", "12.3 MB"]);
    }

    #[test]
    fn links_are_relative_and_escaped() {
        let at = At { page: "runs/a/b.html", store: "store", live: false };
        assert_eq!(at.run("c d/<e>\"?#"), "../../runs/c%20d/%3Ce%3E%22%3F%23.html");
    }
}
