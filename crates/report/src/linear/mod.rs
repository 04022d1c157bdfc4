//! The result of a check against a model, for readers and for programs. `docs/histories.md` describes the JSON.

mod json;
mod text;

use crate::Counterexample;
use base::words;
use checker::Validity;
use linearizability::formats::{Compression, Loaded};
use linearizability::{Answer, FailedCas, ModelSpec, evidence};
use model::history::Outcome;

#[derive(Clone, Debug)]
pub struct KeyAnswer {
    /// Its index in [`Table::keys`](linearizability::history::Table::keys).
    pub key: u32,
    /// The number of the history's operations on this key.
    pub operations: u64,
    /// The check that decided, in one word.
    pub how: String,
    /// The answer. The operations of a conflict are indexes in
    /// [`Table::operations`](linearizability::history::Table::operations).
    pub answer: Answer,
    /// True if the history could have shown a violation.
    pub evidence: bool,
    /// The proof. None unless the key is not linearizable.
    pub counterexample: Option<Counterexample>,
}

/// The result of a check against a model.
#[derive(Debug)]
pub struct LinearReport<'a> {
    pub file: String,
    pub valid: Validity,
    pub model: ModelSpec,
    /// True if redjepsen chose the model.
    pub chosen: bool,
    pub initial: Option<String>,
    pub failed_cas: FailedCas,
    pub loaded: &'a Loaded,
    pub answers: Vec<KeyAnswer>,
    pub load_seconds: f64,
    pub check_seconds: f64,
}

impl LinearReport<'_> {
    pub fn summary(&self) -> String {
        let what = if self.loaded.simulated { "Simulated: " } else { "" };
        format!("{what}{}", self.conclusion())
    }

    fn conclusion(&self) -> String {
        let count = |matches: fn(&Answer) -> bool| self.answers.iter().filter(|key| matches(&key.answer)).count();
        let keys = self.answers.len();
        let of_keys = |some: usize| if keys == 1 { String::new() } else { format!(" on {some} of {keys} keys") };
        match self.valid {
            Validity::Valid => "linearizable: some order of the operations explains every answer".to_string(),
            Validity::Invalid => {
                let some = count(|answer| matches!(answer, Answer::NotLinearizable(_)));
                format!("not linearizable{}: no order of the operations explains the answers", of_keys(some))
            }
            Validity::Unknown if self.loaded.table.operations.is_empty() => {
                "no operations, so this history proves nothing".into()
            }
            Validity::Unknown => match count(|answer| matches!(answer, Answer::Undecided(_))) {
                0 => format!("{}, so this history proves nothing", self.no_evidence()),
                some => format!("not decided{}", of_keys(some)),
            },
        }
    }

    /// Why a key shows nothing although an order explains it.
    pub fn no_evidence(&self) -> String {
        let missing = evidence::what_is_missing(self.model);
        format!("no result could contradict another: {missing}")
    }

    /// Further remarks beside the verdict.
    pub fn notes(&self) -> Vec<String> {
        let bare = self.answers.iter().filter(|key| key.answer == Answer::Linearizable && !key.evidence).count() as u64;
        let keys = self.valid == Validity::Valid && bare > 0;
        let keys = keys.then(|| format!("on {}, {}", words::plural(bare, "key"), self.no_evidence()));
        self.loaded.notes.iter().cloned().chain(keys).collect()
    }

    pub fn counterexample(&self) -> Option<&Counterexample> {
        self.answers.iter().find_map(|key| key.counterexample.as_ref())
    }

    /// The keys that are not linearizable, then the undecided ones.
    pub fn troubled(&self) -> Vec<&KeyAnswer> {
        let mut keys: Vec<&KeyAnswer> = self.answers.iter().filter(|key| key.answer != Answer::Linearizable).collect();
        keys.sort_by_key(|key| matches!(key.answer, Answer::Undecided(_)));
        keys
    }

    /// The name of a key; None if the history has no keys.
    pub fn key(&self, key: u32) -> Option<&str> {
        let name = self.loaded.table.keys.get(key as usize)?;
        Some(name.as_str()).filter(|name| !name.is_empty())
    }

    /// The facts of the check, as pairs of name and text.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let table = &self.loaded.table;
        let [ok, fail, info] = self.outcomes();
        let why = if self.chosen { ", chosen from the operations (--model chooses another)" } else { "" };
        let mut facts = vec![
            ("model", format!("{}{why}", self.model)),
            (
                "operations",
                format!(
                    "{} on {}: {} ok, {} fail, {} info",
                    words::count(table.operations.len() as u64),
                    words::plural(table.keys.len() as u64, "key"),
                    words::count(ok),
                    words::count(fail),
                    words::count(info)
                ),
            ),
        ];
        if let Some(line) = self.loaded.truncated_at_line {
            facts.push(("cut off", format!("at line {line}; operations in progress there have an unknown outcome")));
        }
        let packed = match self.loaded.compression {
            Compression::None => String::new(),
            packed => format!(", {}", packed.name()),
        };
        facts.push(("history", format!("{} ({}{packed})", words::line(&self.file, 200), self.loaded.format.name())));
        let length = |seconds: f64| words::length((seconds * 1e9) as u64);
        facts.extend(self.notes().into_iter().map(|note| ("note", note)));
        facts.push(("time", format!("{} to load, {} to check", length(self.load_seconds), length(self.check_seconds))));
        facts
    }

    /// The number of operations with each outcome: ok, fail, info.
    pub fn outcomes(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for op in &self.loaded.table.operations {
            counts[match op.outcome {
                Outcome::Ok => 0,
                Outcome::Fail => 1,
                Outcome::Info => 2,
            }] += 1;
        }
        counts
    }
}
