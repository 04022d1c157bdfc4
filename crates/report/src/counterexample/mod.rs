//! The smallest set of operations that no order explains, in words, as a list and as a drawing.
//!
//! Built from a checker's [`Explanation`], which refers to operations by number. Here they have names, lines, words and times.
//! References are indexes in [`Counterexample::operations`].

mod draw;
mod route;
mod scene;

use serde::Serialize;

use base::words::{self, count, plural};
use checker::MinimalCounterexample;
use linearizability::explain::{Because, Explanation, Link};
use linearizability::formats::word;
use linearizability::history::{NEVER, Op, OpFunction, Table};
use linearizability::words::{called, label, value};
use model::history::{History, Outcome};

/// The source of an explanation's operations.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    pub table: &'a Table,
    /// The time of each event, in nanoseconds, in the order of events. Empty if unknown.
    pub times: &'a [i64],
    /// The name of a process, or its number if it has none.
    pub process: &'a dyn Fn(u32) -> String,
}

/// Why the operations on one key are not linearizable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counterexample {
    /// None if the history has no keys.
    pub key: Option<String>,
    /// The number of operations on the key.
    pub of: u64,
    /// The operations that no order explains, ordered by invocation.
    pub operations: Vec<OperationText>,
    /// True if an order exists as soon as any one of these operations is left out.
    pub minimal: bool,
    /// A cycle of operations, each of which must come before the next, and the reasons for that.
    pub cycle: Vec<Precedence>,
    pub basis: Vec<Precedence>,
    pub dead_ends: Vec<DeadEnd>,
    pub sentences: Vec<String>,
    pub legal: Legal,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationText {
    /// The line of its invocation.
    pub line: u32,
    pub process: String,
    pub f: &'static str,
    pub outcome: &'static str,
    /// The operation's effect and result: `cas 1 -> 2`.
    pub text: String,
    /// The part of that text that matters here.
    #[serde(skip)]
    pub short: String,
    /// True if only the operation's effect matters here, not its result.
    pub weakened: bool,
    /// The numbers of its events among all operations' events. No completion if it is unknown when the operation took effect.
    pub invoked_event: u32,
    pub completed_event: Option<u32>,
    pub invoked_ns: Option<i64>,
    pub completed_ns: Option<i64>,
}

/// One operation must come before another. Indices into [`Counterexample::operations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precedence {
    pub before: usize,
    pub after: usize,
    pub because: Because,
}

/// An order that cannot be continued. Indices into [`Counterexample::operations`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadEnd {
    pub order: Vec<usize>,
    /// The state of the object at that point. None if unknown.
    pub state: Option<String>,
    pub refused: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Legal {
    pub events: u32,
    /// The operation whose return no order explains. None if the search did not find it.
    pub fails_at: Option<OperationText>,
    /// The last operations of one order of this part.
    pub order: Vec<OperationText>,
    /// The number of operations before those.
    pub omitted: u32,
}

impl Counterexample {
    /// Builds the counterexample. `explanation` refers to operations of the origin's table.
    pub fn new(origin: &Origin, key: Option<&str>, of: u64, explanation: &Explanation) -> Counterexample {
        let op = |place: &u32| origin.table.operations.get(*place as usize);
        let tell = |place: &u32| Some(told(origin, op(place)?, explanation.weakened.contains(place)));
        let whole = |place: &u32| Some(told(origin, op(place)?, false));
        let place = |wanted: u32| explanation.operations.iter().position(|place| *place == wanted);
        let step = |link: &Link| {
            Some(Precedence { before: place(link.before)?, after: place(link.after)?, because: link.because })
        };
        let dead_ends = explanation.dead_ends.iter().filter_map(|end| {
            Some(DeadEnd {
                order: end.order.iter().filter_map(|one| place(*one)).collect(),
                state: end.state.clone(),
                refused: place(end.refused)?,
            })
        });
        Counterexample {
            key: key.map(str::to_string),
            of,
            operations: explanation.operations.iter().filter_map(tell).collect(),
            minimal: explanation.minimal,
            cycle: explanation.cycle.iter().filter_map(step).collect(),
            basis: explanation.basis.iter().filter_map(step).collect(),
            dead_ends: dead_ends.collect(),
            sentences: explanation.sentences.clone(),
            legal: Legal {
                events: explanation.legal_before,
                fails_at: explanation.fails_at.as_ref().and_then(whole),
                order: explanation.order.iter().filter_map(whole).collect(),
                omitted: explanation.order_omitted,
            },
        }
    }

    pub fn of_run(history: &History, minimal_counterexample: &MinimalCounterexample) -> Counterexample {
        let process = |number| MinimalCounterexample::called(history, number);
        let origin =
            Origin { table: &minimal_counterexample.table, times: &minimal_counterexample.times, process: &process };
        let of = minimal_counterexample.table.operations.len() as u64;
        Counterexample::new(&origin, Some(&minimal_counterexample.key), of, &minimal_counterexample.explanation)
    }

    pub fn title(&self) -> String {
        let operations = match self.operations.len() as u64 {
            1 => "The operation that no order explains".to_string(),
            many if self.minimal => format!("The {} operations that no order explains", count(many)),
            many => format!("{} operations that no order explains", count(many)),
        };
        match &self.key {
            Some(key) => format!("{operations}, on key {}", words::line(key, 40)),
            None => operations,
        }
    }

    /// A sentence on how the set is minimal.
    pub fn minimality(&self) -> String {
        match (self.minimal, self.operations.len()) {
            (true, 1) => "It fits into no order, whatever the other operations did.".into(),
            (true, 2) => "If you remove either of the two, an order exists.".into(),
            (true, _) => "If you remove any one of them, the rest can be ordered.".into(),
            (false, _) => "A smaller set might suffice, but the search took too long.".into(),
        }
    }
}

impl Legal {
    /// The point at which the history fails, as a sentence without a full stop. None if unknown.
    pub fn sentence(&self) -> Option<String> {
        let until = match &self.fails_at {
            Some(op) => format!(
                "every result was possible until line {} returned ({}, {})",
                op.line,
                called(&op.process),
                op.text
            ),
            None if self.events > 0 => "redjepsen had no time to find out where the history fails; every result was \
            possible"
                .into(),
            None => return None,
        };
        let all = self.order.len() as u64 + u64::from(self.omitted);
        let ends = if self.omitted > 0 { " ends" } else { "" };
        // Without an order, the sentence stands alone.
        Some(match all {
            0 => format!("{until} for {}", plural(self.events.into(), "event")),
            1 => format!("{until}; one operation came before"),
            _ => format!("{until}; a possible order of the {} before{ends}", plural(all, "operation")),
        })
    }

    /// The last `most` operations of the order, with their lines.
    pub fn order_in_words(&self, most: usize) -> String {
        let skipped = self.order.len().saturating_sub(most);
        let operations = self.order[skipped..].iter().map(|op| format!("{} (line {})", op.text, op.line));
        let start = (self.omitted as usize + skipped > 0).then(|| "…".to_string());
        start.into_iter().chain(operations).collect::<Vec<_>>().join(", ")
    }
}

/// An operation of the table, as shown to readers.
fn told(origin: &Origin, op: &Op, weakened: bool) -> OperationText {
    let time = |event: u32| origin.times.get(event as usize).copied();
    let values = &origin.table.values;
    let completed = Some(op.completed).filter(|event| *event != NEVER);
    OperationText {
        line: op.line,
        process: (origin.process)(op.process),
        f: word(op.f),
        outcome: match op.outcome {
            Outcome::Ok => "ok",
            Outcome::Fail => "fail",
            Outcome::Info => "info",
        },
        text: label(values, op),
        short: match op.f {
            _ if !weakened => label(values, op),
            OpFunction::Cas | OpFunction::Rmw => format!("{} … -> {}", word(op.f), value(values, op.b)),
            f => word(f).to_string(),
        },
        weakened,
        invoked_event: op.invoked,
        completed_event: completed,
        invoked_ns: time(op.invoked),
        completed_ns: completed.and_then(time),
    }
}
