//! Diagnoses of a lock's faults, from the commands that its nodes executed.
//!
//! A verdict says what happened to the data, from the history alone. A diagnosis names the client and the command that did it,
//! the rule that it breaks, and what to change. It is reported only if the commands make it certain; other faults have no
//! diagnosis. No verdict depends on it.
//!
//! - [`acts`]: the effect of each command on a lock's key, and whose key it was then
//! - [`kinds`]: the diagnoses, one per file: its code, its rule, its fix, and the pattern that makes it certain
//! - [`commands`]: the effect of a command, from its words
//! - [`case`]: a run with facts that several diagnoses need
//! - [`biography`]: the history of a key, line by line

mod acts;
mod biography;
mod case;
mod commands;
mod kinds;

pub use biography::{KeyEvent, Lives};
pub use kinds::KINDS;

use serde::{Deserialize, Serialize};

use self::case::Case;
use model::history::Claim;

/// The declaration of a diagnosis.
pub struct Kind {
    /// `RJ001`. It is in stored files, so it never changes.
    pub code: &'static str,
    /// `release-without-compare`
    pub name: &'static str,
    /// The defect, as a sentence.
    pub title: &'static str,
    /// The rule that it breaks, as sentences.
    pub rule: &'static str,
    /// The source of the rule: a title and an address.
    pub source: (&'static str, &'static str),
    /// The change that removes the defect, as sentences.
    pub fix: &'static str,
    /// The fix as commands, if there are any.
    pub commands: &'static [&'static str],
    /// The workload of a lock without the fault, and the scenario that shows it.
    pub right: Option<(&'static str, &'static str)>,
    /// The claims that this defect can violate. The defect explains no incident that violates another claim.
    pub breaks: &'static [Claim],
    /// True if every lock with a TTL has it, so that only the resource can help.
    pub inherent: bool,
    pub(crate) check: fn(&Case) -> Vec<Finding>,
}

/// A place in a run that shows a diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Nanoseconds since the run's start.
    pub time: u64,
    /// The key of the operations.
    pub key: String,
    /// The event, with names and times, as a sentence.
    pub sentence: String,
    /// The operations concerned, as indices of their `invoke` events.
    pub operations: Vec<u64>,
    /// The lines of commands.jsonl that show it, counted from 1.
    pub commands: Vec<u64>,
    pub harm: Harm,
    /// The fault that caused it, by its number. None if no fault did, or if it does not matter which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<u32>,
}

/// The harm that it did in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// None, though it could have.
    None,
    /// It ended the lock of this operation, by the index of its `invoke` event, while its client relied on it.
    Ended(u64),
    /// It gave the client of this operation false information about its lock, or did not report the loss.
    Misled(u64),
    /// It let the resource accept a late write of the finding's other operation, over the update of this operation.
    Outwritten(u64),
    /// It made its own client wait.
    Waited,
    /// It kept all other clients from a lock that no client had any more.
    Kept,
}

/// A diagnosis of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub code: String,
    pub name: String,
    pub title: String,
    /// First the findings that did harm, then by time. There is at least one.
    pub findings: Vec<Finding>,
    /// The number of findings that are left out.
    #[serde(default, skip_serializing_if = "base::words::is_zero")]
    pub left_out: u64,
    pub rule: String,
    pub source: String,
    pub fix: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The command that shows a lock without the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherent: bool,
}

/// At most this many places of one diagnosis are kept.
pub const MOST_FINDINGS: usize = 100;

fn all(case: &Case) -> Vec<Diagnosis> {
    let mut all: Vec<Diagnosis> = Vec::new();
    for kind in KINDS {
        let mut findings = case.weighed((kind.check)(case));
        findings.sort_by_key(|finding| (finding.harm == Harm::None, finding.time));
        if !findings.is_empty() {
            all.push(Diagnosis::new(kind, findings));
        }
    }
    // The inherent diagnoses come last, because the others can be fixed.
    all.sort_by_key(|diagnosis| (diagnosis.inherent, !diagnosis.is_harmful()));
    all
}

impl Diagnosis {
    fn new(kind: &Kind, findings: Vec<Finding>) -> Diagnosis {
        Diagnosis {
            code: kind.code.to_string(),
            name: kind.name.to_string(),
            title: kind.title.to_string(),
            findings,
            left_out: 0,
            rule: kind.rule.to_string(),
            source: format!("{}: {}", kind.source.0, kind.source.1),
            fix: kind.fix.to_string(),
            commands: kind.commands.iter().map(|line| (*line).to_string()).collect(),
            right: kind.right.map(|(workload, nemesis)| shown_by(workload, nemesis)),
            inherent: kind.inherent,
        }
    }

    /// True if it ended a lock, or kept other clients from one, in this run.
    pub fn is_harmful(&self) -> bool {
        self.findings.iter().any(|finding| finding.harm != Harm::None)
    }

    /// Leaves out the findings after the first ones, and counts them.
    pub fn shorten(&mut self) {
        self.left_out += self.findings.len().saturating_sub(MOST_FINDINGS) as u64;
        self.findings.truncate(MOST_FINDINGS);
    }

    /// The number of places.
    pub fn places(&self) -> u64 {
        self.findings.len() as u64 + self.left_out
    }

    /// The first event, as a sentence.
    pub fn sentence(&self) -> &str {
        self.findings.first().map_or("", |finding| &finding.sentence)
    }
}

/// The command that runs a workload under a scenario.
pub fn shown_by(workload: &str, nemesis: &str) -> String {
    format!("redjepsen run --workload {workload} --nemesis {nemesis}")
}

/// A diagnosis by its code or its name, in any case.
pub fn find(word: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| [kind.code, kind.name].iter().any(|name| name.eq_ignore_ascii_case(word)))
}
