//! The objects of `docs/histories.md` and their rules; tries every order of the operations.
//!
//! Written only from that page. Slow, plain, and without any code of the checker.

use std::collections::BTreeSet;

/// A value, or another datum in its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Datum>),
    /// A map with a token.
    Fence(i64),
    /// The value of an indeterminate update, which occurs nowhere else.
    Else,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    Register,
    CasRegister,
    Rmw,
    Counter,
    Set,
    ListAppend,
    TextAppend,
    Mutex,
    OwnerMutex,
    ReentrantMutex,
    FencedMutex,
    Semaphore(usize),
}

impl Model {
    pub fn is_lock(self) -> bool {
        use Model::{FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Semaphore};
        matches!(self, Mutex | OwnerMutex | ReentrantMutex | FencedMutex | Semaphore(_))
    }
}

pub const MODELS: [(&str, Model); 12] = [
    ("register", Model::Register),
    ("cas-register", Model::CasRegister),
    ("rmw", Model::Rmw),
    ("counter", Model::Counter),
    ("set", Model::Set),
    ("list-append", Model::ListAppend),
    ("text-append", Model::TextAppend),
    ("mutex", Model::Mutex),
    ("owner-mutex", Model::OwnerMutex),
    ("reentrant-mutex", Model::ReentrantMutex),
    ("fenced-mutex", Model::FencedMutex),
    ("semaphore:2", Model::Semaphore(2)),
];

#[derive(Clone, Debug)]
pub struct Operation {
    pub key: usize,
    pub process: u32,
    pub f: &'static str,
    /// The argument of the invocation.
    pub asked: Datum,
    pub ended: Ended,
    /// Places in the order of events; no end if its return is not known.
    pub begin: usize,
    pub end: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    Ok(Datum),
    /// With the error, if any.
    Fail(Option<&'static str>),
    Info,
    /// There is no completion.
    Never,
}

/// How to read parts that a history leaves open.
#[derive(Clone, Debug)]
pub struct Rules {
    pub model: Model,
    pub initial: Datum,
    pub failed_cas_counts: bool,
    pub nil_reads_are_empty: bool,
}

#[derive(Clone, Debug)]
pub enum State {
    Value(Datum),
    Sum(i64),
    Elements(BTreeSet<Datum>),
    List(Vec<Datum>),
    Text(String),
    /// The holders, each as often as it acquired; and the last token.
    Held(Vec<u32>, Option<i64>),
}

/// The truth about a history according to the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Truth {
    Legal,
    Illegal,
    Open,
}

/// The only errors with which a failed compare-and-set counts.
const MISMATCHES: [&str; 6] =
    ["mismatch", "value-mismatch", "precondition-failed", "did-not-succeed", "compare-failed", "cas-failed"];

impl Operation {
    pub fn is_ok(&self) -> bool {
        matches!(self.ended, Ended::Ok(_))
    }

    /// The token of an acquire. A value that repeats the argument is not a token.
    pub fn token(&self) -> Option<i64> {
        let number = |datum: &Datum| match datum {
            Datum::Int(token) | Datum::Fence(token) => Some(*token),
            _ => None,
        };
        match &self.ended {
            Ended::Ok(returned) => number(returned).filter(|token| number(&self.asked) != Some(*token)),
            _ => None,
        }
    }

    fn items(&self) -> (Datum, Datum) {
        let pair = match &self.ended {
            Ended::Ok(pair @ Datum::List(_)) => pair,
            _ => &self.asked,
        };
        match pair {
            Datum::List(items) if items.len() == 2 => (items[0].clone(), items[1].clone()),
            _ => (Datum::Nil, Datum::Nil),
        }
    }
}

impl Rules {
    pub fn start(&self) -> State {
        match self.model {
            Model::Register | Model::CasRegister | Model::Rmw => State::Value(self.initial.clone()),
            Model::Counter => State::Sum(if let Datum::Int(number) = self.initial { number } else { 0 }),
            Model::Set => State::Elements(BTreeSet::new()),
            Model::ListAppend => State::List(Vec::new()),
            Model::TextAppend => State::Text(String::new()),
            _ => State::Held(Vec::new(), None),
        }
    }

    /// True if it proves anything at all. Failed operations do not, nor do reads with an unknown result.
    fn matters(&self, op: &Operation) -> bool {
        match &op.ended {
            Ended::Fail(error) => {
                let word = error.map(|error| error.trim_start_matches(':').to_lowercase().replace([' ', '_'], "-"));
                let compared = word.is_none_or(|word| MISMATCHES.contains(&word.as_str()));
                op.f == "cas" && self.failed_cas_counts && compared
            }
            Ended::Ok(returned) => {
                let is_register = matches!(self.model, Model::Register | Model::CasRegister);
                !(op.f == "read" && *returned == Datum::Nil && is_register && !self.nil_reads_are_empty)
            }
            Ended::Info | Ended::Never => op.f != "read",
        }
    }

    /// The states that an operation can lead to; empty if it cannot happen. `anything` are the possible values of an unknown
    /// value.
    pub fn step(&self, state: &State, op: &Operation, anything: &[Datum]) -> Vec<State> {
        let only = |fits: bool, state: State| if fits { vec![state] } else { Vec::new() };
        let returned = match &op.ended {
            Ended::Ok(returned) => Some(returned),
            _ => None,
        };
        match (op.f, state.clone()) {
            ("read", state) => only(returned.is_none_or(|found| shows(&state, found)), state),
            ("write", State::Value(_)) => vec![State::Value(op.asked.clone())],
            ("cas", State::Value(value)) if matches!(op.ended, Ended::Fail(_)) => {
                only(value != op.items().0, State::Value(value))
            }
            ("cas", State::Value(value)) => {
                let (from, to) = op.items();
                only(value == from, State::Value(to))
            }
            ("rmw", State::Value(value)) => match (returned, op.items()) {
                (Some(_), (old, new)) => only(value == old, State::Value(new)),
                (None, (_, Datum::Nil)) => anything.iter().cloned().map(State::Value).collect(),
                (None, (_, new)) => vec![State::Value(new)],
            },
            ("add", State::Sum(sum)) => match op.asked {
                Datum::Int(number) => vec![State::Sum(sum + number)],
                _ => Vec::new(),
            },
            ("add", State::Elements(mut set)) => {
                set.insert(op.asked.clone());
                vec![State::Elements(set)]
            }
            ("append", State::List(mut list)) => {
                list.push(op.asked.clone());
                vec![State::List(list)]
            }
            ("append", State::Text(text)) => vec![State::Text(text + &as_text(&op.asked))],
            ("write", State::Text(_)) => vec![State::Text(as_text(&op.asked))],
            ("acquire", State::Held(holders, last)) => self.acquire(op, holders, last),
            ("release", State::Held(mut holders, last)) => {
                let mine = holders.iter().position(|holder| *holder == op.process || self.model == Model::Mutex);
                only(mine.map(|mine| holders.remove(mine)).is_some(), State::Held(holders, last))
            }
            (f, state) => panic!("{f} of {state:?}"),
        }
    }

    fn acquire(&self, op: &Operation, mut holders: Vec<u32>, last: Option<i64>) -> Vec<State> {
        let is_free = match self.model {
            Model::Semaphore(places) => holders.len() < places,
            Model::ReentrantMutex => holders.iter().all(|holder| *holder == op.process),
            _ => holders.is_empty(),
        };
        let token = if self.model == Model::FencedMutex { op.token() } else { None };
        if !is_free || token.is_some() && token <= last {
            return Vec::new();
        }
        holders.push(op.process);
        vec![State::Held(holders, token.or(last))]
    }

    /// True if some order of these operations, all on one key, explains all their results.
    pub fn judge(&self, operations: &[Operation]) -> Truth {
        let read_nil = |op: &Operation| op.f == "read" && op.ended == Ended::Ok(Datum::Nil);
        if self.model == Model::Counter && operations.iter().any(read_nil) {
            return Truth::Open;
        }
        let mut anything = vec![Datum::Else, self.initial.clone()];
        for op in operations {
            let (first, second) = op.items();
            anything.extend([first, second, op.asked.clone()]);
            if let Ended::Ok(returned) = &op.ended {
                anything.push(returned.clone());
            }
        }
        anything.sort();
        anything.dedup();
        let mut left: Vec<&Operation> = operations.iter().filter(|op| self.matters(op)).collect();
        if self.explains(&self.start(), &mut left, &anything) { Truth::Legal } else { Truth::Illegal }
    }

    fn explains(&self, state: &State, left: &mut Vec<&Operation>, anything: &[Datum]) -> bool {
        // No operation may come after one that returned before it began. Indeterminate operations may be left out.
        let Some(first_end) = left.iter().filter_map(|op| op.end).min() else { return true };
        for place in 0..left.len() {
            if left[place].begin > first_end {
                continue;
            }
            let op = left.remove(place);
            let found = self.step(state, op, anything).iter().any(|next| self.explains(next, left, anything));
            left.insert(place, op);
            if found {
                return true;
            }
        }
        false
    }

    /// True if another result could have contradicted a result of these operations.
    pub fn is_evidence(&self, operations: &[Operation]) -> bool {
        let acquired: Vec<&Operation> = operations.iter().filter(|op| op.f == "acquire" && op.is_ok()).collect();
        match self.model {
            Model::Mutex | Model::OwnerMutex => acquired.len() >= 2,
            Model::ReentrantMutex => acquired.iter().map(|op| op.process).collect::<BTreeSet<_>>().len() >= 2,
            Model::FencedMutex => acquired.iter().filter(|op| op.token().is_some()).count() >= 2,
            Model::Semaphore(places) => acquired.len() > places,
            _ => {
                let tells = |op: &&Operation| ["read", "cas", "rmw"].contains(&op.f);
                operations.iter().filter(tells).any(|op| self.matters(op) && op.end.is_some())
            }
        }
    }
}

/// True if a read of this state may return this.
fn shows(state: &State, found: &Datum) -> bool {
    match (state, found) {
        (State::Value(value), found) => value == found,
        (State::Sum(sum), found) => *found == Datum::Int(*sum),
        (State::Elements(set), Datum::List(items)) => *set == items.iter().cloned().collect(),
        (State::Elements(set), found) => set.is_empty() && *found == Datum::Nil,
        (State::List(list), Datum::List(items)) => list == items,
        (State::List(list), found) => list.is_empty() && *found == Datum::Nil,
        (State::Text(text), found) => *text == as_text(found),
        (State::Held(..), _) => false,
    }
}

fn as_text(datum: &Datum) -> String {
    match datum {
        Datum::Int(number) => number.to_string(),
        Datum::Text(text) => text.clone(),
        _ => String::new(),
    }
}
