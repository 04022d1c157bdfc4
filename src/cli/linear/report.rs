//! What a check against a model concluded, for people and for programs. `docs/histories.md` describes the JSON.

use std::fmt::Write;

use serde::Serialize;
use serde_json::json;

use crate::checker::Validity;
use crate::checker::linear::{Answer, FailedCas};
use crate::history::Outcome;
use crate::history::formats::{Compression, Loaded, word};
use crate::history::table::{Content, Op, OpFunction, Table, Value};
use crate::report::words;

/// The answer for one key.
#[derive(Clone, Debug)]
pub struct KeyAnswer {
    /// Its place in [`Table::keys`].
    pub key: u32,
    /// How many operations there are on it.
    pub operations: u64,
    /// Which check decided, in one word.
    pub how: String,
    /// The operations of a conflict are places in [`Table::operations`].
    pub answer: Answer,
}

/// All that a check against a model found.
#[derive(Debug)]
pub struct LinearReport<'a> {
    pub file: String,
    pub valid: Validity,
    pub model: String,
    /// Whether redjepsen chose the model.
    pub chosen: bool,
    pub initial: Option<String>,
    pub failed_cas: FailedCas,
    pub loaded: &'a Loaded,
    pub answers: Vec<KeyAnswer>,
    pub load_seconds: f64,
    pub check_seconds: f64,
}

/// Keys without a clean answer that are told in full.
const TOLD: usize = 5;
/// Operations of a conflict that are listed.
const LISTED: usize = 20;

/// One operation of a conflict.
#[derive(Serialize)]
struct Told {
    line: u32,
    process: String,
    f: &'static str,
    outcome: &'static str,
    text: String,
}

impl LinearReport<'_> {
    /// For people.
    pub fn text(&self, color: bool) -> String {
        let table = &self.loaded.table;
        let mut text = String::new();
        let (verdict, paint) = match self.valid {
            Validity::Valid => ("VALID", "32"),
            Validity::Invalid => ("INVALID", "31"),
            Validity::Unknown => ("UNKNOWN", "33"),
        };
        let verdict = if color { format!("\x1b[1;{paint}m{verdict}\x1b[0m") } else { verdict.to_string() };
        let _ = writeln!(text, "{verdict}  {}", self.summary());
        let _ = writeln!(text);
        for answer in self.answers.iter().filter(|key| key.answer != Answer::Linearizable).take(TOLD) {
            self.tell(&mut text, answer);
        }
        let more = self.answers.iter().filter(|key| key.answer != Answer::Linearizable).skip(TOLD).count();
        if more > 0 {
            let _ = writeln!(text, "  and {more} more keys; --json has them all\n");
        }
        let why = if self.chosen { ", which the operations fit (--model takes another)" } else { "" };
        let _ = writeln!(text, "  model       {}{why}", self.model);
        let [ok, fail, info] = self.outcomes();
        let _ = writeln!(
            text,
            "  operations  {} on {}: {} ok, {} fail, {} info",
            words::count(table.operations.len() as u64),
            words::plural(table.keys.len() as u64, "key"),
            words::count(ok),
            words::count(fail),
            words::count(info)
        );
        if let Some(line) = self.loaded.truncated_at_line {
            let _ = writeln!(text, "  cut off     in line {line}; what was in flight there is indeterminate");
        }
        let packed = match self.loaded.compression {
            Compression::None => String::new(),
            packed => format!(", {}", packed.name()),
        };
        let _ =
            writeln!(text, "  history     {} ({}{packed})", words::line(&self.file, 200), self.loaded.format.name());
        let length = |seconds: f64| words::length((seconds * 1e9) as u64);
        let _ = writeln!(
            text,
            "  time        {} to load, {} to check",
            length(self.load_seconds),
            length(self.check_seconds)
        );
        text
    }

    fn summary(&self) -> String {
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
                "no operations, so nothing was shown".into()
            }
            Validity::Unknown => {
                format!("not decided{}", of_keys(count(|answer| matches!(answer, Answer::Undecided(_)))))
            }
        }
    }

    fn tell(&self, text: &mut String, key: &KeyAnswer) {
        let named = self.loaded.table.keys.get(key.key as usize).filter(|name| !name.is_empty());
        let of_key = named.map_or(String::new(), |name| format!("key {}: ", words::quoted(name)));
        match &key.answer {
            Answer::Linearizable => {}
            Answer::Undecided(reason) => {
                let _ = writeln!(text, "  {of_key}{reason}\n");
            }
            Answer::NotLinearizable(conflict) => {
                let _ = writeln!(text, "  {of_key}{}", conflict.reason.replace('\n', "\n  "));
                for told in self.operations(&conflict.operations).take(LISTED) {
                    let Told { line, process, text: operation, outcome, .. } = told;
                    let process = words::line(&process, 20);
                    let _ = writeln!(text, "    line {line:>8}  process {process:>4}  {outcome:4}  {operation}");
                }
                if conflict.operations.len() > LISTED {
                    let _ = writeln!(text, "    and {} more", conflict.operations.len() - LISTED);
                }
                let _ = writeln!(text);
            }
        }
    }

    /// For programs: one object.
    pub fn json(&self) -> String {
        let table = &self.loaded.table;
        let [ok, fail, info] = self.outcomes();
        let results: Vec<_> = self.answers.iter().map(|key| self.result(key)).collect();
        let report = json!({
            "valid": self.valid,
            "summary": self.summary(),
            "model": self.model,
            "model_chosen": self.chosen,
            "initial": self.initial,
            "failed_cas": match self.failed_cas { FailedCas::Check => "check", FailedCas::Drop => "drop" },
            "file": self.file,
            "format": self.loaded.format.name(),
            "compression": self.loaded.compression.name(),
            "truncated_at_line": self.loaded.truncated_at_line,
            "operations": table.operations.len(),
            "outcomes": { "ok": ok, "fail": fail, "info": info },
            "keys": table.keys.len(),
            "results": results,
            "load_seconds": self.load_seconds,
            "check_seconds": self.check_seconds,
        });
        format!("{report:#}\n")
    }

    fn result(&self, key: &KeyAnswer) -> serde_json::Value {
        let name = self.loaded.table.keys.get(key.key as usize).filter(|name| !name.is_empty());
        let (valid, reason, operations) = match &key.answer {
            Answer::Linearizable => (Validity::Valid, None, None),
            Answer::Undecided(reason) => (Validity::Unknown, Some(reason), None),
            Answer::NotLinearizable(conflict) => {
                let operations: Vec<Told> = self.operations(&conflict.operations).collect();
                (Validity::Invalid, Some(&conflict.reason), Some(operations))
            }
        };
        json!({
            "key": name,
            "operations": key.operations,
            "valid": valid,
            "how": key.how,
            "reason": reason,
            "conflict": operations,
        })
    }

    fn operations(&self, places: &[u32]) -> impl Iterator<Item = Told> {
        let table = &self.loaded.table;
        places.iter().filter_map(|place| table.operations.get(*place as usize)).map(|op| Told {
            line: op.line,
            process: self.loaded.process_name(op.process),
            f: word(op.f),
            outcome: match op.outcome {
                Outcome::Ok => "ok",
                Outcome::Fail => "fail",
                Outcome::Info => "info",
            },
            text: in_words(op, table),
        })
    }

    /// How many operations ended in each way: ok, fail, info.
    fn outcomes(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for op in &self.loaded.table.operations {
            counts[op.outcome as usize] += 1;
        }
        counts
    }
}

/// An operation with its values: `cas 1 -> 2`.
fn in_words(op: &Op, table: &Table) -> String {
    let value = |value| words::line(&value_in_words(value, table, 0), 60);
    match op.f {
        OpFunction::Release => "release".to_string(),
        OpFunction::Acquire if op.a == Value::NIL || op.a == Value::UNKNOWN => "acquire".to_string(),
        OpFunction::Acquire => format!("acquire, token {}", value(op.a)),
        OpFunction::Cas | OpFunction::Rmw => format!("{} {} -> {}", word(op.f), value(op.a), value(op.b)),
        f => format!("{} {}", word(f), value(op.a)),
    }
}

/// A value as people write it; of long lists the start.
fn value_in_words(value: Value, table: &Table, depth: u32) -> String {
    match table.values.content(value) {
        None => "?".to_string(),
        Some(Content::Nil) => "nil".to_string(),
        Some(Content::Int(number)) => number.to_string(),
        Some(Content::Text(text)) => format!("{:?}", words::line(text, 40)),
        Some(Content::List(_)) if depth > 2 => "[…]".to_string(),
        Some(Content::List(items)) => {
            let mut parts: Vec<String> =
                items.iter().take(12).map(|item| value_in_words(*item, table, depth + 1)).collect();
            if items.len() > 12 {
                parts.push("…".to_string());
            }
            format!("[{}]", parts.join(" "))
        }
    }
}
