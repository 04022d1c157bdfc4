//! `redjepsen check --model`: checks a history from any program against a model.

mod choose;
mod flags;

use std::time::{Duration, Instant};

pub use self::flags::{CheckFlags, NilReads};
use super::console::{Exit, Failure, exit_after, exit_for, look, print};
use checker::Validity;
use linearizability::explain::Explanation;
use linearizability::formats::{Format, FormatOptions, Loaded, OpenHistory};
use linearizability::history::{Content, Op, OpFunction, Table, Value};
use linearizability::words::{self, Words};
use linearizability::{Answer, Conflict, Limits, ModelSpec, Object};
use model::history::{self, HistoryError};
use report::linear::{KeyAnswer, LinearReport};
use report::{Counterexample, Origin, linear_html};

pub const MODELS: [(&str, &str); 12] = [
    ("register", "read, write"),
    ("cas-register", "read, write, cas"),
    ("rmw", "rmw, read, write, cas"),
    ("counter", "add, read of a number"),
    ("set", "add, read of a list"),
    ("list-append", "append, read of a list"),
    ("text-append", "append, put, get of text"),
    ("mutex", "acquire, release by anyone"),
    ("owner-mutex", "acquire, release by the owner"),
    ("reentrant-mutex", "acquire, release by the owner, who may acquire again"),
    ("fenced-mutex", "acquire, release by the owner, each token greater than the last"),
    ("semaphore:N", "acquire, release by an owner, up to N at once"),
];

pub fn check(source: OpenHistory, asked: Option<ModelSpec>, flags: &CheckFlags) -> Result<Exit, Failure> {
    let file = source.name().to_string();
    let start = Instant::now();
    let times = flags.json || flags.pages.any();
    let options = FormatOptions { independent: flags.independent, times };
    let of_locks = source.format() == Format::Run && asked.is_some_and(|spec| spec.is_lock());
    let loaded =
        if of_locks { history::lock_operations(source, &options) } else { history::operations(source, &options) };
    let mut loaded = loaded.map_err(|error| match error {
        HistoryError::Ambiguous { .. } => Failure::arguments(error),
        error => Failure::could_not_run(error),
    })?;
    let bears_token = |op: &Op| op.f == OpFunction::Acquire && op.a != Value::NIL;
    if asked == Some(ModelSpec::FencedMutex) && of_locks && !loaded.table.operations.iter().any(bears_token) {
        let text = "no acquisition in this run has a token, so fenced-mutex cannot find a violation; owner-mutex checks whether \
            holds overlap";
        return Err(Failure::could_not_run(text));
    }
    let load_seconds = start.elapsed().as_secs_f64();
    let spec = match asked {
        Some(spec) => spec,
        None => known(choose::model(&loaded.table).map_err(|reason| no_model(&reason))?)?,
    };

    let usual = if loaded.format == Format::Run { NilReads::Empty } else { NilReads::Unknown };
    let is_register = matches!(spec, ModelSpec::Register | ModelSpec::CasRegister);
    if is_register && flags.nil_reads.unwrap_or(usual) == NilReads::Unknown {
        loaded.forget_nil_reads();
    }

    let start = Instant::now();
    let answers = answers(&mut loaded, spec, flags);
    let check_seconds = start.elapsed().as_secs_f64();
    let valid = conclude(&answers);
    let report = LinearReport {
        file,
        valid,
        model: spec,
        chosen: asked.is_none(),
        initial: flags.initial.clone(),
        failed_cas: flags.failed_cas,
        loaded: &loaded,
        answers,
        load_seconds,
        check_seconds,
    };
    let shown = match flags.json {
        true => print(report.json()),
        false => print(report.text(look())),
    };
    let svg = || report.counterexample().map(Counterexample::standalone);
    let written = flags.pages.write(|| linear_html(&report), svg);
    let pointed = || match &flags.pages.html {
        Some(page) if !flags.json => print(format!("  page        {}\n", page.display())),
        _ => Ok(()),
    };
    exit_after(exit_for(valid, None), shown.and(written).and_then(|()| pointed()))
}

/// The answer for each key, in the order of the keys.
fn answers(loaded: &mut Loaded, spec: ModelSpec, flags: &CheckFlags) -> Vec<KeyAnswer> {
    let deadline = Instant::now() + flags.timeout;
    let give_up = move || Instant::now() >= deadline;
    let options = linearizability::Options {
        initial: initial(&mut loaded.table, flags.initial.as_deref()),
        failed_cas: flags.failed_cas,
        limits: Limits { give_up: &give_up, memory_bytes: usize::try_from(flags.memory).unwrap_or(usize::MAX) },
    };
    let objects = linearizability::check(&loaded.table, spec, &options);
    let enough = Instant::now() + EXPLAINING;
    let give_up = move || Instant::now() >= enough;
    let options = linearizability::Options { limits: Limits { give_up: &give_up, ..options.limits }, ..options };
    objects.into_iter().map(|object| answer(object, loaded, spec, &options)).collect()
}

/// The time limit for shrinking counterexamples. Afterwards they are shown as they are.
const EXPLAINING: Duration = Duration::from_secs(5);

/// The answer for one object. Its counterexample is minimized, and its operations are indexes in the whole history.
fn answer(object: Object, loaded: &Loaded, spec: ModelSpec, options: &linearizability::Options) -> KeyAnswer {
    let Object { key, operations, mut answer, how, evidence } = object;
    let of = operations.len() as u64;
    let counterexample = match &mut answer {
        Answer::NotLinearizable(conflict) => {
            let explanation = explain(loaded, spec, &operations, conflict, options);
            conflict.operations.clone_from(&explanation.operations);
            if !explanation.sentences.is_empty() {
                conflict.reason = explanation.sentences.join("\n");
            }
            let origin =
                Origin { table: &loaded.table, times: &loaded.times, process: &|process| loaded.process_name(process) };
            let name = loaded.table.keys.get(key as usize).filter(|name| !name.is_empty());
            Some(Counterexample::new(&origin, name.map(String::as_str), of, &explanation))
        }
        _ => None,
    };
    KeyAnswer { key, operations: of, how: how.name().to_string(), answer, evidence, counterexample }
}

/// Why the operations at these indexes have no order, as indexes in the whole history.
fn explain(
    loaded: &Loaded,
    spec: ModelSpec,
    operations: &[u32],
    conflict: &Conflict,
    options: &linearizability::Options,
) -> Explanation {
    let ops: Vec<Op> = operations.iter().map(|&place| loaded.table.operations[place as usize]).collect();
    let process = |process| words::called(&loaded.process_name(process));
    let words = Words { values: &loaded.table.values, process: &process };
    let explanation = linearizability::explain::explain_object(spec, &ops, &words, conflict, options);
    explanation.counted_in(operations)
}

/// The object's initial value from the user's text: nil, a number, or a text.
fn initial(table: &mut Table, text: Option<&str>) -> Value {
    match text.map(|text| (text, text.parse::<i64>())) {
        None | Some(("nil" | "null", _)) => Value::NIL,
        Some((_, Ok(number))) => table.values.intern(Content::Int(number)),
        Some((text, Err(_))) => table.values.intern_text(text),
    }
}

/// A violation on any key makes the result invalid. Otherwise the result is unknown if any key is undecided, or if no key could
/// have shown a violation.
fn conclude(answers: &[KeyAnswer]) -> Validity {
    let any = |matches: fn(&Answer) -> bool| answers.iter().any(|key| matches(&key.answer));
    if any(|answer| matches!(answer, Answer::NotLinearizable(_))) {
        Validity::Invalid
    } else if any(|answer| matches!(answer, Answer::Undecided(_))) || !answers.iter().any(|key| key.evidence) {
        Validity::Unknown
    } else {
        Validity::Valid
    }
}

/// The model with this name. For an unknown name, the error lists all models.
pub fn known(model: &str) -> Result<ModelSpec, Failure> {
    model.parse().map_err(|_| no_model(&format!("there is no model `{model}`")))
}

fn no_model(reason: &str) -> Failure {
    let models: Vec<String> = MODELS.iter().map(|(name, about)| format!("  {name:16} {about}")).collect();
    Failure::arguments(format!("{reason}; --model takes one of\n{}", models.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_one_of_the_list_and_a_semaphore_has_permits() {
        for model in ["register", "owner-mutex", "semaphore:3"] {
            assert!(known(model).is_ok(), "{model}");
        }
        for model in ["", "lock", "semaphore", "semaphore:0", "semaphore:N", "semaphore:x"] {
            assert!(known(model).is_err_and(|failure| failure.text.contains("fenced-mutex")), "{model}");
        }
    }
}
