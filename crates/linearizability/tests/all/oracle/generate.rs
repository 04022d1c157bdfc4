//! Random small histories of a correct object, some of them with false reports.

use crate::support::Random;

use super::objects::{Datum, Ended, Model, Operation, Rules, State};

/// One history, in the order of its events. Each event is an operation and whether it completes.
#[derive(Debug)]
pub struct History {
    pub rules: Rules,
    pub operations: Vec<Operation>,
    pub events: Vec<(usize, bool)>,
}

/// An operation in flight: its index, and whether it took effect.
#[derive(Clone, Copy)]
struct Flight {
    operation: usize,
    happened: Option<bool>,
}

struct Play {
    random: Random,
    history: History,
    states: Vec<State>,
    values: Vec<Datum>,
    /// Percentage of results that are reported falsely.
    lies: usize,
    doubts: usize,
}

pub fn history(model: Model, seed: u64) -> History {
    let mut random = Random(seed);
    let texts = model == Model::TextAppend;
    let pool = if texts {
        vec![Datum::Text("a".into()), Datum::Text("b".into()), Datum::Text("ab".into()), Datum::Int(7)]
    } else if model == Model::Counter {
        [1, 2, -1, 0].map(Datum::Int).to_vec()
    } else {
        vec![Datum::Int(1), Datum::Int(2), Datum::Text("a".into()), Datum::Int(0)]
    };
    let values = pool[..1 + random.below(4)].to_vec();
    let is_register = matches!(model, Model::Register | Model::CasRegister | Model::Rmw);
    let initial =
        if (is_register || model == Model::Counter) && random.chance(40) { random.one_of(&values) } else { Datum::Nil };
    let rules = Rules {
        model,
        initial: if model == Model::Counter && !matches!(initial, Datum::Int(_)) { Datum::Nil } else { initial },
        failed_cas_counts: random.chance(50),
        nil_reads_are_empty: random.chance(50),
    };
    let states = vec![rules.start(); random.one_of(&[1, 1, 1, 1, 2])];
    let lies = random.one_of(&[0, 25, 60]);
    let doubts = random.one_of(&[0, 10, 40]);
    let history = History { rules, operations: Vec::new(), events: Vec::new() };
    Play { random, history, states, values, lies, doubts }.run()
}

impl Play {
    fn run(mut self) -> History {
        // With locks it takes more operations to prove anything.
        let few = if self.history.rules.model.is_lock() { 3 } else { 1 };
        let (clients, count) = (1 + self.random.below(4), few + self.random.below(8));
        let mut processes: Vec<u32> = (0..clients as u32).collect();
        let mut flights: Vec<Option<Flight>> = vec![None; clients];
        while self.history.operations.len() < count || flights.iter().any(Option::is_some) {
            let client = self.random.below(clients);
            match flights[client] {
                None if self.history.operations.len() < count => {
                    flights[client] = Some(self.invoke(processes[client]));
                }
                None => {}
                Some(Flight { operation, happened: None }) if self.random.chance(50) => {
                    let happened = self.happen(operation);
                    // The object may later allow an operation that it refuses now.
                    let settled = happened || self.random.chance(10);
                    flights[client] = Some(Flight { operation, happened: settled.then_some(happened) });
                }
                Some(flight) => {
                    flights[client] = None;
                    // If an operation's end is unknown, its process does not continue.
                    if !self.complete(flight) {
                        processes[client] += clients as u32;
                    }
                }
            }
        }
        self.history
    }

    fn invoke(&mut self, process: u32) -> Flight {
        let value = self.random.one_of(&self.values);
        let update = match self.random.chance(25) {
            true => Datum::Nil,
            false => Datum::List(vec![Datum::Nil, value.clone()]),
        };
        let pair = Datum::List(vec![self.random.one_of(&self.values), value.clone()]);
        // With unknown values, a failed compare-and-set would state something that cannot be checked.
        let compares = !self.history.rules.failed_cas_counts;
        // A process with a lock usually releases it, and a process without usually wants one.
        let last = self.history.operations.iter().rev().find(|op| op.process == process);
        let has = last.is_some_and(|op| op.f == "acquire" && op.is_ok());
        let gives_back = self.random.chance(if has { 80 } else { 15 });
        let (f, asked) = match (self.history.rules.model, self.random.below(6)) {
            (Model::Register, 0..3) | (Model::CasRegister, 0) | (Model::TextAppend, 0) => ("write", value),
            (Model::CasRegister, 1..4) => ("cas", pair),
            (Model::Rmw, 0) => ("write", value),
            (Model::Rmw, 1) if compares => ("cas", pair),
            (Model::Rmw, 1..4) => ("rmw", update),
            (Model::Counter | Model::Set, 0..3) => ("add", value),
            (Model::ListAppend, 0..3) | (Model::TextAppend, 1..4) => ("append", value),
            (model, _) if model.is_lock() && gives_back => ("release", Datum::Nil),
            (Model::FencedMutex, 0) => ("acquire", Datum::Int(self.random.below(4) as i64)),
            (model, _) if model.is_lock() => ("acquire", Datum::Nil),
            _ => ("read", Datum::Nil),
        };
        let asked = if f == "write" && self.random.chance(10) { Datum::Nil } else { asked };
        let key = self.random.below(self.states.len());
        let operation = self.history.operations.len();
        let begin = self.history.events.len();
        self.history.events.push((operation, false));
        self.history.operations.push(Operation { key, process, f, asked, ended: Ended::Never, begin, end: None });
        Flight { operation, happened: None }
    }

    /// Lets the operation take effect now, if the object allows it.
    fn happen(&mut self, operation: usize) -> bool {
        let answer = self.answer(operation);
        let op = &mut self.history.operations[operation];
        op.ended = Ended::Ok(answer);
        match self.history.rules.step(&self.states[op.key], op, &[]).pop() {
            Some(next) => self.states[op.key] = next,
            None => op.ended = Ended::Fail(None),
        }
        op.is_ok()
    }

    /// The object's answer at this time.
    fn answer(&mut self, operation: usize) -> Datum {
        let value = self.random.one_of(&self.values);
        let op = &self.history.operations[operation];
        match (op.f, &self.states[op.key]) {
            ("read", State::Value(value)) => value.clone(),
            ("read", State::Sum(sum)) => Datum::Int(*sum),
            ("read", State::Elements(set)) => {
                let mut items: Vec<Datum> = set.iter().rev().cloned().collect();
                items.extend(set.first().cloned().filter(|_| self.random.chance(20)));
                Datum::List(items)
            }
            ("read", State::List(list)) => Datum::List(list.clone()),
            ("read", State::Text(text)) => Datum::Text(text.clone()),
            ("rmw", State::Value(old)) => match &op.asked {
                Datum::List(items) => Datum::List(vec![old.clone(), items[1].clone()]),
                _ => Datum::List(vec![old.clone(), value]),
            },
            ("acquire", State::Held(_, last)) if self.random.chance(75) => {
                let token = last.unwrap_or(0) + 1 + self.random.below(2) as i64;
                if self.random.chance(30) { Datum::Fence(token) } else { Datum::Int(token) }
            }
            ("read" | "acquire" | "release", _) => Datum::Nil,
            // The answer may repeat the argument.
            _ => {
                if self.random.chance(50) {
                    op.asked.clone()
                } else {
                    Datum::Nil
                }
            }
        }
    }

    /// Reports an operation's end. Returns whether its process continues.
    fn complete(&mut self, flight: Flight) -> bool {
        let operation = flight.operation;
        let happened = match flight.happened {
            Some(happened) => happened,
            None => self.random.chance(70) && self.happen(operation),
        };
        let lie = self.random.chance(self.lies);
        let told = match &self.history.operations[operation].ended {
            _ if self.random.chance(self.doubts) => self.random.one_of(&[Ended::Info, Ended::Never]),
            Ended::Ok(_) if lie && self.random.chance(40) => Ended::Fail(None),
            Ended::Ok(_) if lie => Ended::Ok(self.wrong(operation)),
            _ if lie => Ended::Ok(self.wrong(operation)),
            ended @ Ended::Ok(_) if happened => ended.clone(),
            _ => Ended::Fail(None),
        };
        let errors = [
            None,
            None,
            Some(":did-not-succeed"),
            Some("Precondition failed"),
            Some("mismatch of versions"),
            Some("connection refused before compare"),
        ];
        let told = if told == Ended::Fail(None) { Ended::Fail(self.random.one_of(&errors)) } else { told };
        let op = &mut self.history.operations[operation];
        op.ended = told;
        if matches!(op.ended, Ended::Ok(_) | Ended::Fail(_)) {
            op.end = Some(self.history.events.len());
        }
        if op.ended != Ended::Never {
            self.history.events.push((operation, true));
        }
        op.end.is_some()
    }

    /// A possible result of such an operation.
    fn wrong(&mut self, operation: usize) -> Datum {
        let value = self.random.one_of(&self.values);
        let some = |random: &mut Random, values: &[Datum]| -> Vec<Datum> {
            (0..random.below(3)).map(|_| random.one_of(values)).collect()
        };
        let op = &self.history.operations[operation];
        match (op.f, self.history.rules.model) {
            ("read", Model::Set | Model::ListAppend) if self.random.chance(15) => Datum::Nil,
            ("read", Model::Set | Model::ListAppend) => Datum::List(some(&mut self.random, &self.values)),
            ("read", Model::TextAppend) => {
                let parts = some(&mut self.random, &self.values);
                let text = |part: &Datum| if let Datum::Text(text) = part { text.clone() } else { "7".into() };
                Datum::Text(parts.iter().map(text).collect())
            }
            ("read", _) if self.random.chance(15) => Datum::Nil,
            ("read", _) => value,
            ("rmw", _) => match &op.asked {
                Datum::List(items) => Datum::List(vec![value, items[1].clone()]),
                _ => Datum::List(vec![value.clone(), value]),
            },
            ("acquire", _) => self.random.one_of(&[Datum::Nil, Datum::Int(1), Datum::Fence(2), Datum::Int(3)]),
            _ => Datum::Nil,
        }
    }
}
