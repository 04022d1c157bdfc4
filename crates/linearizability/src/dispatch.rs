//! Checks a whole history against a built-in model: each object by the fastest check that decides it.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::models::{
    Counter, FailedCas, FencedMutex, ListAppend, Mutex as AnyoneMutex, OwnerMutex, Register, Semaphore, Set, TextAppend,
};
use super::search::{Finding, Limits, Strategy, examine};
use super::{Answer, Model, ModelSpec, check_object, evidence, linear_time, words};
use crate::history::{Content, Op, OpFunction, Outcome, Table, Value, Values};

/// How a history is checked.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The initial value of a register. For a counter its first number, or 0 if it is not a number.
    pub initial: Value,
    /// The meaning of a failed compare-and-set.
    pub failed_cas: FailedCas,
    /// Limits of each search.
    pub limits: Limits<'a>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { initial: Value::NIL, failed_cas: FailedCas::default(), limits: Limits::default() }
    }
}

/// The kind of check that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A near-linear check, see [`linear_time`].
    LinearTime,
    /// The general search, see [`crate::search`].
    Search,
}

impl How {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            How::LinearTime => "fast",
            How::Search => "search",
        }
    }
}

/// The result for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its index in [`Table::keys`].
    pub key: u32,
    /// The indices of its operations in [`Table::operations`]. The places in `answer` are indices into this list.
    pub operations: Vec<u32>,
    /// Its places are indices into `operations`.
    pub answer: Answer,
    /// The check that produced it.
    pub how: How,
    /// True if a violation could have shown at all, see [`evidence`].
    pub evidence: bool,
}

/// Checks every key separately, largest first, on one thread per processor. Results are in the order of the keys.
pub fn check(table: &Table, spec: ModelSpec, options: &Options) -> Vec<Object> {
    let mut by_key: Vec<Vec<u32>> = vec![Vec::new(); table.keys.len().max(1)];
    for (place, op) in (0..).zip(&table.operations) {
        let key = op.key as usize;
        if key >= by_key.len() {
            by_key.resize(key + 1, Vec::new());
        }
        by_key[key].push(place);
    }
    let mut queue: Vec<usize> = (0..by_key.len()).collect();
    queue.sort_by_key(|key| std::cmp::Reverse(by_key[*key].len()));

    let next = AtomicUsize::new(0);
    let answers: Mutex<Vec<Option<(Answer, How, bool)>>> = Mutex::new(vec![None; by_key.len()]);
    let work = || {
        while let Some(key) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
            let operations: Cow<[Op]> = match by_key.len() {
                1 => Cow::Borrowed(&table.operations),
                _ => by_key[*key].iter().map(|place| table.operations[*place as usize]).collect(),
            };
            let (answer, how) = check_one(spec, &operations, &table.values, options);
            let evidence = evidence::is_there(spec, &operations, options);
            if let Ok(mut answers) = answers.lock() {
                answers[*key] = Some((answer, how, evidence));
            }
        }
    };
    // Starting a thread takes longer than checking a small history.
    let threads = match table.operations.len() {
        0..=WORTH_A_THREAD => 1,
        _ => std::thread::available_parallelism().map_or(1, usize::from).min(queue.len()),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let answers = answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut objects = Vec::with_capacity(by_key.len());
    for ((key, operations), answer) in (0..).zip(by_key).zip(answers) {
        if let Some((answer, how, evidence)) = answer {
            objects.push(Object { key, operations, answer, how, evidence });
        }
    }
    objects
}

/// This many operations are checked in the time a thread takes to start.
const WORTH_A_THREAD: usize = 2_000;

fn check_one(spec: ModelSpec, operations: &[Op], values: &Values, options: &Options) -> (Answer, How) {
    match linear_time_check(spec, operations, values, options) {
        Answer::Undecided(_) => (search_object(spec, operations, values, options), How::Search),
        answer => (answer, How::LinearTime),
    }
}

/// The near-linear check for this model. Undecided if there is none or it does not apply.
pub(super) fn linear_time_check(spec: ModelSpec, operations: &[Op], values: &Values, options: &Options) -> Answer {
    let initial = options.initial;
    match spec {
        ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw if foreign(spec, operations).is_none() => {
            linear_time::register(operations, initial, options.failed_cas)
        }
        ModelSpec::OwnerMutex => linear_time::owner_mutex(operations),
        ModelSpec::FencedMutex => linear_time::fenced_mutex(operations, values),
        ModelSpec::Counter => linear_time::counter(operations, values, initial),
        ModelSpec::Set => linear_time::set(operations, values),
        ModelSpec::ListAppend => linear_time::list_append(operations, values),
        _ => Answer::Undecided(format!("there is no near-linear check of {spec}")),
    }
}

fn failed_cas(op: &Op) -> bool {
    (op.f, op.outcome) == (OpFunction::Cas, Outcome::Fail)
}

/// An operation that the model does not support.
fn foreign(spec: ModelSpec, operations: &[Op]) -> Option<&Op> {
    use OpFunction::*;
    let known: &[OpFunction] = match spec {
        ModelSpec::Register => &[Read, Write],
        ModelSpec::CasRegister => &[Read, Write, Cas],
        ModelSpec::Rmw => &[Read, Write, Cas, Rmw],
        ModelSpec::Counter | ModelSpec::Set => &[Read, Add],
        ModelSpec::ListAppend => &[Read, Append],
        ModelSpec::TextAppend => &[Read, Write, Append],
        _ => &[Acquire, Release],
    };
    operations.iter().find(|op| !known.contains(&op.f))
}

/// Searches the operations of one object, which are in the order of their invocations.
pub fn search_object(spec: ModelSpec, operations: &[Op], values: &Values, options: &Options) -> Answer {
    struct GroupSearch<'a, 'b>(&'a [Op], &'a Limits<'b>);
    impl WithModel for GroupSearch<'_, '_> {
        type Output = Answer;
        fn with<M: Model>(self, model: &M) -> Answer {
            check_object(model, self.0, self.1)
        }
    }
    match refusal(spec, operations, values, options) {
        Some(reason) => Answer::Undecided(reason),
        None => with_model(spec, operations, values, options, GroupSearch(operations, &options.limits)),
    }
}

/// Like [`search_object`], but returns all results of the search.
pub fn examine_object(
    spec: ModelSpec,
    operations: &[Op],
    values: &Values,
    options: &Options,
    strategy: Strategy,
) -> Finding {
    struct Examine<'a, 'b>(&'a [Op], &'a Limits<'b>, Strategy);
    impl WithModel for Examine<'_, '_> {
        type Output = Finding;
        fn with<M: Model>(self, model: &M) -> Finding {
            examine(model, self.0, self.1, self.2)
        }
    }
    with_model(spec, operations, values, options, Examine(operations, &options.limits, strategy))
}

/// Code to run with a model, whatever its type.
pub trait WithModel {
    /// Its result.
    type Output;
    /// Runs it.
    fn with<M: Model>(self, model: &M) -> Self::Output;
}

/// Builds the model for the operations of one object and runs the code with it.
pub fn with_model<W: WithModel>(
    spec: ModelSpec,
    operations: &[Op],
    values: &Values,
    options: &Options,
    what: W,
) -> W::Output {
    match spec {
        ModelSpec::Register | ModelSpec::CasRegister | ModelSpec::Rmw => {
            what.with(&Register::new(options.initial, options.failed_cas, operations))
        }
        ModelSpec::Counter => what.with(&Counter::new(values.int(options.initial).unwrap_or(0), values, operations)),
        ModelSpec::Set => what.with(&Set::new(values)),
        ModelSpec::ListAppend => what.with(&ListAppend::list(values, operations)),
        ModelSpec::TextAppend => what.with(&TextAppend::text(values, operations)),
        ModelSpec::Mutex => what.with(&AnyoneMutex),
        ModelSpec::OwnerMutex => what.with(&OwnerMutex { reentrant: false }),
        ModelSpec::ReentrantMutex => what.with(&OwnerMutex { reentrant: true }),
        ModelSpec::FencedMutex => what.with(&FencedMutex::new(values)),
        ModelSpec::Semaphore(limit) => what.with(&Semaphore { limit }),
    }
}

/// Why a model cannot be applied to these operations; None if it can.
fn refusal(spec: ModelSpec, operations: &[Op], values: &Values, options: &Options) -> Option<String> {
    use OpFunction::*;
    if let Some(op) = foreign(spec, operations) {
        return Some(format!("line {}: the model {spec} has no such operation", op.line));
    }
    let shaped = |op: &Op| match (spec, op.f, values.content(op.a)) {
        // Nil need not mean 0.
        (ModelSpec::Counter, _, Some(Content::Nil)) => false,
        // Unknown or nil: no token, an empty set or list.
        (_, _, None | Some(Content::Nil)) => true,
        (ModelSpec::Counter, ..) | (ModelSpec::FencedMutex, Acquire, _) => values.int(op.a).is_some(),
        (ModelSpec::Set | ModelSpec::ListAppend, Read, Some(content)) => matches!(content, Content::List(_)),
        (ModelSpec::TextAppend, _, Some(content)) => !matches!(content, Content::List(_)),
        _ => true,
    };
    if let Some(op) = operations.iter().find(|op| op.outcome != Outcome::Fail && !shaped(op)) {
        let value = words::value(values, op.a);
        return Some(format!("line {}: {value} is not a value of the model {spec}", op.line));
    }
    let unknown = |op: &&Op| op.f == Rmw && op.outcome != Outcome::Fail && op.b == Value::UNKNOWN;
    let unknown = operations.iter().find(unknown)?;
    (options.failed_cas == FailedCas::Check && operations.iter().any(failed_cas)).then(|| {
        format!(
            "line {}: the value that an indeterminate operation wrote is unknown, and some compare-and-sets failed, so the \
             values that they found are unknown",
            unknown.line
        )
    })
}
