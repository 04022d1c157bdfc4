//! Operations on the resource and faults as a history in Jepsen's EDN. There is one map per line, and invocations and
//! completions have dense indexes. If there are several keys, they look as in `jepsen.independent`.
//!
//! A holder's update is a compare-and-set of the value that it read. If that value is unknown, it is a write, which may follow
//! anything. So the history is never rejected if the run's own check accepts it. A hold as reader is a read that begins when
//! the lock is released.

use std::fmt::Write;

use crate::Report;
use model::history::{FaultWindow, Function, History, Operation, Outcome, Process, Reading};

pub(super) fn word(f: Function) -> &'static str {
    match f {
        Function::Rmw => "rmw",
        Function::Hold => "hold",
        Function::Shared => "shared",
        Function::Read => "read",
        Function::Write => "write",
        Function::Cas => "cas",
    }
}

pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Fail => "fail",
        Outcome::Info => "info",
    }
}

/// A line, with its sort keys.
type OrderedLine = (u64, u64, String);

pub fn edn(report: &Report) -> String {
    let history = report.story.subject.history;
    let mut events: Vec<OrderedLine> = Vec::new();
    let several = history.operations.iter().any(|operation| operation.key != history.operations[0].key);
    for operation in history.operations.iter().filter(|operation| operation.f != Function::Hold) {
        add_operation(history, operation, several, &mut events);
    }
    history.faults.iter().filter(|fault| fault.injected.is_some()).for_each(|fault| add_fault(fault, &mut events));
    events.sort();
    let mut text = String::new();
    for (index, (_, _, event)) in events.iter().enumerate() {
        let _ = writeln!(text, "{{:index {index}, {event}}}");
    }
    text
}

fn add_operation(history: &History, operation: &Operation, several: bool, events: &mut Vec<OrderedLine>) {
    let process = match operation.process {
        Process::Client(number) => u64::from(number),
        // A number that no client has.
        Process::Controller => history.operations.iter().fold(0, |most, other| match other.process {
            Process::Client(number) => most.max(u64::from(number) + 1),
            Process::Controller => most,
        }),
    };
    let (f, value) = meaning(operation);
    let of_key = |value: String| if several { format!("[{} {value}]", quoted(&operation.key)) } else { value };
    let event = |time: u64, kind: &str, value: &str| {
        format!(":time {time}, :type :{kind}, :process {process}, :f :{f}, :value {}", of_key(value.to_string()))
    };
    let asked = if f == "read" { "nil" } else { &value };
    let from = history.kept_until(operation).unwrap_or(operation.invoked);
    events.push((from, operation.index, event(from, "invoke", asked)));
    if let (Some(time), Some(index)) = (operation.completed, operation.completed_index) {
        let value = if operation.outcome == Outcome::Ok { &value } else { asked };
        let error = operation.error().map_or(String::new(), |error| format!(", :error {}", quoted(error)));
        events.push((time, index, event(time, outcome(operation.outcome), value) + &error));
    }
}

/// The operation in terms of Jepsen's register model, and its value.
fn meaning(operation: &Operation) -> (&'static str, String) {
    let value = |value: Option<&str>| value.map_or("nil".to_string(), quoted);
    let old = match &operation.old {
        Reading::Unknown => None,
        Reading::Empty => Some("nil".to_string()),
        Reading::Value(old) => Some(quoted(old)),
    };
    match (operation.f, old) {
        (Function::Read | Function::Hold | Function::Shared, old) => ("read", old.unwrap_or_else(|| "nil".to_string())),
        (Function::Rmw | Function::Cas, Some(old)) => ("cas", format!("[{old} {}]", value(operation.new.as_deref()))),
        (Function::Rmw | Function::Cas | Function::Write, _) => ("write", value(operation.new.as_deref())),
    }
}

fn add_fault(fault: &FaultWindow, events: &mut Vec<OrderedLine>) {
    let targets: Vec<String> = fault.targets.iter().map(|target| quoted(target)).collect();
    let (first, last) = (fault.lines.first().copied().unwrap_or(0), fault.lines.last().copied().unwrap_or(0));
    let event = |time: u64, f: &str| {
        format!(":time {time}, :type :info, :process :nemesis, :f :{f}, :value [{}]", targets.join(" "))
    };
    let name = fault.kind.id;
    events.push((fault.inject, first, event(fault.inject, &format!("start-{name}"))));
    if let Some((time, _)) = fault.healed {
        events.push((time, last, event(time, &format!("stop-{name}"))));
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => _ = write!(quoted, "\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
