//! Contradictions: a client contradicts itself, or the whole history contradicts it. That is the client's fault, not the lock's,
//! and it is not evidence for anything.
//!
//! A client reports an operation in several messages. Sometimes two of them can't both be true. An answer omits or changes the
//! value of the `read` phase, phases are out of order, or a count fits no value. Then it is unknown which message is right, so
//! the checker believes neither. The operation counts as one that may have happened, and nothing else is known about it. The same
//! applies to a `fail` whose value is read later, and to a value that turns up under another key. Only the client that was asked
//! to write a value knows it, so no lock and no resource can have moved it.

use std::collections::BTreeMap;

use super::line::word;
use super::phases::Packer;
use super::writers::Writers;
use super::{
    Amount, Completion, History, Operation, Outcome, Phase, PhaseReport, Process, Reading, ResourceKind, Text,
};

/// A contradiction in a client's reports about an operation. Only the first contradiction of each operation is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The line of the history, counted from 1, that contradicts itself or an earlier line.
    pub line: u64,
    pub process: Process,
    /// The client's statement, as a sentence without its subject.
    pub text: String,
}

/// A client's reports so far about its operation in flight.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The furthest phase among those that have an order.
    furthest: Option<Phase>,
    acquired: bool,
    written: bool,
    /// The latest stamp of such a phase.
    stamp: Option<u64>,
    /// The value that was read, and its count.
    read: Option<(Reading, Option<u64>)>,
    /// The phases at which the client waits for `go`.
    breakpoints: Vec<Phase>,
    /// The breakpoint that the client has reported, and must report again.
    waits_at: Option<Phase>,
    /// True if the client was asked to cancel the operation.
    is_cancelled: bool,
    pub phases: Packer,
}

impl Said {
    /// No reports yet; the client must wait at these phases.
    pub fn with_breakpoints(breakpoints: Vec<Phase>) -> Said {
        Said { breakpoints, ..Said::default() }
    }

    /// The client was asked to cancel, and need not wait for `go` any more.
    pub fn cancelled(&mut self) {
        self.is_cancelled = true;
    }

    /// Adds a phase. The error says what it contradicts.
    pub fn phase(&mut self, report: &PhaseReport) -> Result<(), String> {
        // Renewals go on in the background while the client waits.
        if !matches!(report.phase, Phase::Extended | Phase::Owned | Phase::Lost) {
            self.goes_on(Some(report.phase))?;
        }
        let after = |furthest: Phase| Err(format!("it reported `{}` after `{}`", word(&report.phase), word(&furthest)));
        match report.phase {
            // A holder reports these at any time, from any part of the client.
            Phase::Extended | Phase::Owned | Phase::Lost => match self.furthest {
                Some(furthest @ Phase::Released) => after(furthest)?,
                Some(furthest) if furthest >= Phase::Acquired => {}
                _ => return Err(format!("it reported `{}` before it had `acquired` the lock", word(&report.phase))),
            },
            // A client that did not get the lock may ask again.
            Phase::Acquiring if self.furthest <= Some(Phase::HalfAcquired) => {
                self.furthest = Some(Phase::Acquiring);
                self.stamp(report)?;
            }
            // If one transaction holds the lock and writes, its commit both writes and releases.
            Phase::Written if self.furthest == Some(Phase::Releasing) => self.stamp(report)?,
            phase => {
                if let Some(furthest) = self.furthest.filter(|furthest| *furthest > phase) {
                    after(furthest)?;
                }
                self.furthest = Some(phase);
                self.stamp(report)?;
            }
        }
        self.acquired |= report.phase == Phase::Acquired;
        self.written |= report.phase == Phase::Written;
        if report.phase == Phase::Read {
            self.read(&report.value, &report.amount)?;
        }
        Ok(())
    }

    /// Adds the answer. The error says what it contradicts.
    pub fn answer(&mut self, completion: &Completion) -> Result<(), String> {
        let error = completion.error.as_deref().unwrap_or_default();
        if completion.outcome != Outcome::Info {
            self.goes_on(None)?;
        }
        match completion.outcome {
            Outcome::Ok => self.succeeded(completion),
            Outcome::Fail if self.written => Err("it answered `fail` after it had `written`".to_string()),
            Outcome::Fail if error == "not-acquired" && self.acquired => {
                Err("it answered `not-acquired` after it had `acquired` the lock".to_string())
            }
            Outcome::Fail | Outcome::Info => Ok(()),
        }
    }

    /// Goes on to a phase, or to the answer if `to` is None. A client that waits at a breakpoint must first report it again.
    fn goes_on(&mut self, to: Option<Phase>) -> Result<(), String> {
        match self.waits_at.take() {
            Some(from) if to != Some(from) && !self.is_cancelled => {
                Err(format!("it continued from `{}` without reporting it again", word(&from)))
            }
            Some(_) => Ok(()),
            None => {
                self.waits_at = to.filter(|phase| self.breakpoints.contains(phase));
                Ok(())
            }
        }
    }

    fn succeeded(&mut self, completion: &Completion) -> Result<(), String> {
        match (&completion.old, &self.read) {
            (Reading::Unknown | Reading::Empty, Some((read @ Reading::Value(_), _))) => {
                Err(format!("it answered `ok` without `old`, though its `read` phase said {}", in_words(read)))
            }
            _ => self.read(&completion.old, &completion.amount),
        }
    }

    /// A stamp can't be earlier than a previous one of the same clock.
    fn stamp(&mut self, report: &PhaseReport) -> Result<(), String> {
        let before = self.stamp.filter(|before| report.mono_ns.is_some_and(|stamp| stamp < *before));
        self.stamp = report.mono_ns.or(self.stamp);
        match before {
            Some(before) => {
                let name = word(&report.phase);
                let stamp = report.mono_ns.unwrap_or_default();
                Err(format!("it stamped `{name}` {} ns before an earlier phase", before - stamp))
            }
            None => Ok(()),
        }
    }

    /// Adds the value that was read. The client may report it twice, with the same content.
    fn read(&mut self, value: &Reading, amount: &Option<Amount>) -> Result<(), String> {
        let count = amount.as_ref().map(Amount::count);
        match (value, count) {
            (Reading::Unknown, _) => return Ok(()),
            (Reading::Empty, Some(count)) if count > 0 => {
                return Err(format!("it reported that the key was empty, with a count of {count}"));
            }
            (Reading::Value(value), Some(0)) => return Err(format!("it read {value} with a count of 0")),
            _ => {}
        }
        if let Some((before, counted)) = &self.read {
            if before != value {
                return Err(format!("it reported that it read {}, and then {}", in_words(before), in_words(value)));
            }
            if let (Some(before), Some(count)) = (counted, count)
                && *before != count
            {
                return Err(format!("it reported that it read a count of {before}, and then a count of {count}"));
            }
        }
        let known = self.read.take().and_then(|(_, count)| count);
        self.read = Some((value.clone(), count.or(known)));
        Ok(())
    }
}

/// Corrects reports that other operations disprove. A write that its client called failed was read after all. Or a value was read
/// under another key than it was written to. If nodes replicate the resource, they are under test and may be the cause, so
/// nothing is corrected.
pub(super) fn refute(history: &mut History, writers: &Writers) -> Vec<Contradiction> {
    let Some(header) = history.run.clone().filter(|run| run.resource != ResourceKind::Replicated) else {
        return Vec::new();
    };
    // By writer, so that each is reported once, with the first reader that disproves it.
    let mut refuted: BTreeMap<usize, Contradiction> = BTreeMap::new();
    let mut misread = Vec::new();
    for (place, reader) in history.operations.iter().enumerate() {
        let elements = match &reader.amount {
            Some(Amount::Elements(elements)) => elements.as_slice(),
            _ => &[],
        };
        let last = match &reader.old {
            Reading::Value(value) => Some(value.as_str()),
            _ => None,
        };
        for value in last.into_iter().chain(elements.iter().map(String::as_str)) {
            let writer = writers.of(value, |place| history.operations[place as usize].new.as_deref());
            let writer = writer.map(|place| place as usize);
            let Some(writer) = writer.filter(|writer| *writer != place) else { continue };
            let operation = &history.operations[writer];
            let who = header.client_name(reader.process);
            let (line, text) = if operation.key != reader.key {
                misread.push(place);
                let text =
                    format!("it was asked to write {value} to {}, but {who} read it in {}", operation.key, reader.key);
                (operation.index + 1, text)
            } else if operation.outcome == Outcome::Fail {
                let text = format!("it answered `fail`, but {who} read {value}, the value of its write");
                (operation.completed_index.unwrap_or(operation.index) + 1, text)
            } else {
                continue;
            };
            refuted.entry(writer).or_insert(Contradiction { line, process: operation.process, text });
        }
    }
    for place in misread {
        // It is not known what the key held at that time.
        (history.operations[place].old, history.operations[place].amount) = (Reading::Unknown, None);
    }
    for (&place, contradiction) in &refuted {
        void(&mut history.operations[place], &contradiction.text);
    }
    refuted.into_values().collect()
}

/// Keeps only that an operation may have happened, and how far it reported to have come.
pub(super) fn void(operation: &mut Operation, text: &str) {
    operation.outcome = Outcome::Info;
    operation.old = Reading::Unknown;
    operation.amount = None;
    // The acknowledgement would make the write certain, and nothing about this operation is certain.
    operation.phases.edit(|stamps| stamps.retain(|stamp| stamp.phase != Phase::Written));
    operation.phases.each(|stamp| (stamp.stamped, stamp.token, stamp.validity_ms) = (None, None, None));
    let error = operation.error().map(Text::from);
    operation.fails(error, Some(format!("its client contradicts itself: {text}").into()));
}

fn in_words(reading: &Reading) -> String {
    match reading {
        Reading::Unknown => "something".to_string(),
        Reading::Empty => "an empty key".to_string(),
        Reading::Value(value) => value.to_string(),
    }
}
