//! Pairs invocations with completions and refuses impossible histories. The same for every format.

use std::collections::HashMap;

use super::event::{EventType, FileEvent, Second, Token, Written, word};
use super::in_flight::{InFlight, OutOfTurn};
use super::meaning;
use super::names::{Keys, Processes};
use crate::history::{NEVER, Op, OpFunction, Outcome, Table, Value};

/// Builds a [`Table`], event by event.
#[derive(Default)]
pub(super) struct Pairing {
    table: Table,
    processes: Processes,
    in_flight: InFlight,
    keys: Keys,
    /// The next place in the order of events.
    place: u32,
    time: Option<i64>,
    index: Option<i64>,
    /// Events with decreasing times, which are possible between machines: the line of the first, their number, and the largest
    /// step in nanoseconds.
    backwards: Option<(u32, u64, u64)>,
    /// The arguments of operations in flight, if they matter for reading the completion.
    asked: HashMap<u32, Asked>,
    /// True if a value was refused because it is a key with its value.
    pub needs_independent: bool,
    /// Indices of operations that turned out to prove nothing, ascending.
    empty: Vec<u32>,
    items: Vec<Value>,
    /// The time of each event by its place, if requested.
    pub times: Option<Vec<i64>>,
}

/// The argument of an invocation.
struct Asked {
    /// A token; ignored if the completion repeats it.
    token: Token,
    /// The first of two items, if the second was nil. If the completion repeats this item, the item is a key.
    key: Option<String>,
}

impl Pairing {
    /// Adds an event; `line` is its line in the file.
    pub fn add<V: Written>(&mut self, event: &FileEvent<'_, V>, line: u32) -> Result<(), String> {
        self.in_order(event, line)?;
        let process = self.processes.number(event.process)?;
        match event.kind {
            EventType::Invoke => self.invoke(process, event, line),
            EventType::Ok => self.complete(process, event, Outcome::Ok),
            EventType::Fail => self.complete(process, event, Outcome::Fail),
            EventType::Info => self.complete(process, event, Outcome::Info),
        }
    }

    fn in_order<V>(&mut self, event: &FileEvent<'_, V>, line: u32) -> Result<(), String> {
        if let Some(time) = event.time {
            if let Some(last) = self.time
                && time < last
            {
                let (first, count, most) = self.backwards.unwrap_or((line, 0, 0));
                self.backwards = Some((first, count + 1, most.max(last.abs_diff(time))));
            }
            self.time = Some(time);
        }
        if let Some(index) = event.index {
            if let Some(last) = self.index
                && index <= last
            {
                return Err(format!("index {index} after index {last}; lines are out of order or duplicated"));
            }
            self.index = Some(index);
        }
        Ok(())
    }

    fn invoke<V: Written>(&mut self, process: u32, event: &FileEvent<'_, V>, line: u32) -> Result<(), String> {
        let number = self.table.operations.len() as u32;
        self.in_flight.invoke(process, number).map_err(|wrong| self.told(wrong, process))?;
        let (a, b) = meaning::invoked(event.f, &event.value, &mut self.table.values, &mut self.items)?;
        self.ask(process, event)?;
        let key = self.keys.number(event.key);
        let invoked = self.next_place()?;
        self.table.operations.push(Op {
            key,
            process,
            f: event.f,
            outcome: Outcome::Info,
            a,
            b,
            invoked,
            completed: NEVER,
            line,
        });
        Ok(())
    }

    /// Stores the argument of an invocation.
    fn ask<V: Written>(&mut self, process: u32, event: &FileEvent<'_, V>) -> Result<(), String> {
        use OpFunction::{Acquire, Cas, Read, Release, Rmw};
        let key = match (event.f, event.value.keyed()) {
            _ if event.key.is_some() => None,
            (Cas | Rmw, Some((_, Second::Pair))) => return self.refuse_keyed(),
            (Read | Rmw | Acquire | Release, Some((key, Second::Nil))) => Some(format!("{key:?}")),
            _ => None,
        };
        let token = if event.f == Acquire { event.value.token() } else { Ok(None) };
        if key.is_some() || token != Ok(None) {
            self.asked.insert(process, Asked { token, key });
        }
        Ok(())
    }

    /// Without the option, jepsen.independent's tuples would be misread, and any verdict would be wrong.
    fn refuse_keyed(&mut self) -> Result<(), String> {
        self.needs_independent = true;
        Err("this value is a key with its value, as jepsen.independent writes them; to read such values, use --independent".into())
    }

    fn complete<V: Written>(&mut self, process: u32, event: &FileEvent<'_, V>, outcome: Outcome) -> Result<(), String> {
        let number = self.in_flight.complete(process).map_err(|wrong| self.told(wrong, process))?;
        let mut op = self.table.operations[number as usize];
        if op.f != event.f {
            let (invoked, completed) = (word(op.f), word(event.f));
            let line = op.line;
            return Err(format!(
                "the operation invoked at line {line} is `{invoked}`, but its completion says `{completed}`"
            ));
        }
        if event.key.is_some() && self.keys.number(event.key) != op.key {
            return Err(format!("the completion and its invocation have different keys; {}", invoked_at(&op)));
        }
        op.outcome = outcome;
        let asked = if self.asked.is_empty() { None } else { self.asked.remove(&process) };
        if let (Outcome::Ok, Some(Asked { key: Some(key), .. }), Some((again, second))) =
            (outcome, &asked, event.value.keyed())
            && *key == format!("{again:?}")
            && (op.f != OpFunction::Rmw || second == Second::Pair)
        {
            return self.refuse_keyed();
        }
        let asked = asked.map_or(Ok(None), |asked| asked.token);
        let (values, items) = (&mut self.table.values, &mut self.items);
        let understood = match outcome {
            Outcome::Ok => meaning::succeeded(&mut op, &event.value, asked, values, items),
            Outcome::Fail if op.f == OpFunction::Cas => {
                meaning::is_mismatch(&op, event, values, items).map(|mismatch| {
                    if !mismatch {
                        self.empty.push(number);
                    }
                })
            }
            Outcome::Fail => Ok(()),
            Outcome::Info => {
                self.in_flight.lose(process, number);
                Ok(())
            }
        };
        understood.map_err(|reason| format!("{reason}; {}", invoked_at(&op)))?;
        if outcome != Outcome::Info {
            op.completed = self.next_place()?;
        }
        self.table.operations[number as usize] = op;
        Ok(())
    }

    fn next_place(&mut self) -> Result<u32, String> {
        if self.place >= NEVER - 1 {
            return Err("more events than fit into 32 bits".into());
        }
        if let Some(times) = &mut self.times {
            times.push(self.time.unwrap_or_default());
        }
        self.place += 1;
        Ok(self.place - 1)
    }

    fn told(&self, wrong: OutOfTurn, process: u32) -> String {
        wrong.told(&self.processes.name(process), |operation| self.table.operations[operation as usize].line.into())
    }

    /// The number of operations so far.
    pub fn len(&self) -> usize {
        self.table.operations.len()
    }

    /// Remarks on reading the history, for readers of the verdict.
    pub fn notes(&self) -> Vec<String> {
        let backwards = self.backwards.map(|(line, count, most)| {
            let times = if count == 1 { "once".into() } else { format!("{count} times, first") };
            let most = most as f64 / 1e6;
            format!(
                "time runs backwards {times} at line {line}, by {most} ms at most; the order of lines is what counts"
            )
        });
        let empty = match self.empty.len() {
            0 => None,
            count => Some(format!("{count} failed cas left out: they do not say whether the value differed")),
        };
        backwards.into_iter().chain(empty).collect()
    }

    /// The times of the events by their places. Empty if not requested, or if the file has none.
    pub fn take_times(&mut self) -> Vec<i64> {
        self.times.take().filter(|_| self.time.is_some()).unwrap_or_default()
    }

    /// The finished table, and the names of processes that have one. Operations in flight stay indeterminate.
    pub fn finish(mut self) -> (Table, Vec<String>) {
        if !self.empty.is_empty() {
            self.empty.sort_unstable();
            let (mut number, mut empty) = (0, self.empty.iter().peekable());
            self.table.operations.retain(|_| {
                number += 1;
                empty.next_if_eq(&&(number - 1)).is_none()
            });
        }
        for op in &mut self.table.operations {
            // If its expected value is unknown, it may have replaced any value, as a write does.
            if op.f == OpFunction::Cas && op.a == Value::UNKNOWN {
                (op.f, op.a, op.b) = (OpFunction::Write, op.b, Value::NIL);
            }
        }
        self.table.keys = self.keys.into_names();
        (self.table, self.processes.into_names())
    }
}

fn invoked_at(op: &Op) -> String {
    format!("it was invoked at line {}", op.line)
}
