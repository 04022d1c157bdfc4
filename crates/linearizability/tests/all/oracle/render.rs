//! Writes a history as a file, in a notation and spelling that the page allows.

use std::fmt::Write;

use super::generate::History;
use super::objects::{Datum, Ended, Operation};
use crate::support::Random;

pub struct File {
    pub text: String,
    /// True if keys are written as tuples.
    pub independent: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Notation {
    Json,
    Edn,
    Log,
}

struct Pen {
    random: Random,
    notation: Notation,
    independent: bool,
    keyed: bool,
    /// True if processes have names.
    named: bool,
    /// In JSON: field names and words as Clojure writes them, and escapes.
    colons: bool,
}

pub const KEYS: [&str; 2] = ["a", "b"];

pub fn render(history: &History, seed: u64) -> File {
    let mut random = Random(seed);
    let notation = random.one_of(&[Notation::Json, Notation::Edn, Notation::Log]);
    let keyed = history.operations.iter().any(|op| op.key > 0);
    let independent = keyed && (notation == Notation::Log || random.chance(50));
    let (named, colons) = (random.chance(30), random.chance(30));
    let mut pen = Pen { random, notation, independent, keyed, named, colons };
    let mut text = String::new();
    let vector = notation == Notation::Edn && pen.random.chance(40);
    text.push_str(if vector { "[" } else { "" });
    for (place, (operation, completes)) in history.events.iter().enumerate() {
        if place > 0 && pen.random.chance(5) {
            text.push_str(match notation {
                Notation::Json => "{\"process\":\"nemesis\",\"type\":\"info\",\"f\":\"start\",\"value\":1.5}\n",
                Notation::Edn => "{:process :nemesis, :type :info, :f :start, :value #{\"n1\"}} ; nothing\n",
                Notation::Log => "INFO  jepsen.core - nothing to see\n",
            });
        }
        let op = &history.operations[*operation];
        let kind = match (completes, &op.ended) {
            (false, _) => "invoke",
            (true, Ended::Ok(_)) => "ok",
            (true, Ended::Fail(_)) => "fail",
            (true, _) => "info",
        };
        let value = pen.value(op, kind);
        pen.line(&mut text, op, kind, &value);
    }
    text.push_str(if vector { "]" } else { "" });
    File { text, independent }
}

impl Pen {
    fn value(&mut self, op: &Operation, kind: &str) -> String {
        // A word in place of the value describes the end.
        let word = match self.notation {
            Notation::Json => "true",
            _ => ":timed-out",
        };
        let datum = match (kind, &op.ended) {
            ("info", _) if self.random.chance(50) => return word.into(),
            ("fail", _) if op.f != "cas" && self.random.chance(50) => return word.into(),
            ("fail", _) if self.random.chance(30) => &Datum::Nil,
            ("ok", Ended::Ok(returned)) => returned,
            _ => &op.asked,
        };
        let mut text = String::new();
        self.datum(&mut text, datum);
        let comma = if self.notation == Notation::Json { "," } else { " " };
        match self.independent {
            true if self.notation == Notation::Edn && self.random.chance(20) => {
                format!("#jepsen.independent.Tuple[\"{}\" {text}]", KEYS[op.key])
            }
            true => format!("[\"{}\"{comma}{text}]", KEYS[op.key]),
            false => text,
        }
    }

    fn datum(&self, text: &mut String, datum: &Datum) {
        let json = self.notation == Notation::Json;
        match datum {
            Datum::Nil | Datum::Else => text.push_str(if json { "null" } else { "nil" }),
            Datum::Int(number) => write!(text, "{number}").unwrap(),
            Datum::Text(content) => write!(text, "{content:?}").unwrap(),
            Datum::Fence(token) if json => write!(text, "{{\"fence\":{token}}}").unwrap(),
            Datum::Fence(token) => write!(text, "{{:fence {token}}}").unwrap(),
            Datum::List(items) => {
                text.push('[');
                for (place, item) in items.iter().enumerate() {
                    text.push_str(if place == 0 {
                        ""
                    } else if json {
                        ","
                    } else {
                        " "
                    });
                    self.datum(text, item);
                }
                text.push(']');
            }
        }
    }

    fn line(&mut self, text: &mut String, op: &Operation, kind: &str, value: &str) {
        let error = match (&op.ended, kind) {
            (Ended::Fail(error), "fail") => *error,
            _ => None,
        };
        let (process, number) = (format!("c{}", op.process), op.process.to_string());
        let key = (self.keyed && !self.independent).then_some(KEYS[op.key]);
        // Times may run backwards, and mean nothing.
        let time = self.random.chance(20).then(|| self.random.below(1000));
        match self.notation {
            Notation::Json => {
                let colon = if self.colons { ":" } else { "" };
                let process = if self.named { format!("\"{colon}{process}\"") } else { number };
                write!(text, "{{\"{colon}process\":{process},\"{colon}type\":\"{colon}{kind}\"").unwrap();
                write!(text, ",\"{colon}f\":\"{}\",\"{colon}value\":{value}", op.f).unwrap();
                if let Some(key) = key {
                    let name = if self.colons && self.random.chance(50) { "\\u003akey" } else { "key" };
                    write!(text, ",\"{name}\":\"{key}\"").unwrap();
                }
                if let Some(error) = error {
                    write!(text, ",\"error\":{error:?}").unwrap();
                }
                if let Some(time) = time {
                    write!(text, ", \"time\": {time}").unwrap();
                }
                text.push_str("}\n");
            }
            Notation::Edn => {
                let process = if self.named { format!(":{process}") } else { number };
                let tag = if self.random.chance(20) { "#jepsen.history.Op" } else { "" };
                write!(text, "{tag}{{:process {process}, :type :{kind}, :f :{}, :value {value}", op.f).unwrap();
                if let Some(key) = key {
                    write!(text, ", :key {key:?}").unwrap();
                }
                match error {
                    Some(error) if error.starts_with(':') => write!(text, ", :error {error}").unwrap(),
                    Some(error) => write!(text, ", :error {error:?}").unwrap(),
                    None => {}
                }
                if let Some(time) = time {
                    write!(text, ", :time {time}").unwrap();
                }
                text.push_str("}\n");
            }
            Notation::Log => {
                let prefix =
                    self.random.one_of(&["", "INFO  jepsen.util - ", "INFO [2015] jepsen worker 1 - jepsen.util: "]);
                let process = if self.named { process } else { number };
                write!(text, "{prefix}{process}\t:{kind}\t:{}\t{value}", op.f).unwrap();
                match error {
                    // An error of two words must be quoted to be one text.
                    Some(error) if error.starts_with("Pre") => write!(text, "\t{error:?}").unwrap(),
                    Some(error) => write!(text, "\t{error}").unwrap(),
                    None => {}
                }
                text.push('\n');
            }
        }
    }
}
