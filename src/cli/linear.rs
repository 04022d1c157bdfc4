//! `redjepsen check --model`: a history from anywhere, held against a model, and the answer in words or as JSON.

use std::time::Instant;

use serde::Serialize;

use super::check::CheckFlags;
use super::{Exit, Failure, exit_for};
use crate::checker::Validity;
use crate::checker::linear::{self, Answer, How, Limits, ModelSpec, Object, Options, words};
use crate::history::formats::{self, Loaded, Source};
use crate::history::table::{Content, OpFunction, Table, Value};

/// The result as JSON; the fields are stable, docs/histories.md describes them.
#[derive(Serialize)]
struct Result<'a> {
    /// `true`, `false` or `"unknown"`.
    valid: Validity,
    model: String,
    operations: usize,
    keys: usize,
    format: &'a str,
    compression: &'a str,
    seconds: Seconds,
    /// Of every key that is not linearizable or not decided; the others have nothing to tell.
    objects: Vec<Told<'a>>,
}

#[derive(Serialize)]
struct Seconds {
    load: f64,
    check: f64,
}

#[derive(Serialize)]
struct Told<'a> {
    key: &'a str,
    operations: usize,
    linearizable: Validity,
    how: How,
    reason: &'a str,
    /// Operations that by themselves have no legal order.
    conflict: Vec<Involved>,
}

#[derive(Serialize)]
struct Involved {
    /// Where its invocation is in the file, from 1.
    line: u32,
    process: u32,
    text: String,
}

/// More operations than this are counted, not listed.
const LISTED: usize = 20;
/// More keys than this are counted, not told.
const KEYS_TOLD: usize = 10;

/// Loads the history as operations, checks it and prints what was found.
pub fn check(flags: &CheckFlags, source: Source<'_>) -> std::result::Result<Exit, Failure> {
    let begin = Instant::now();
    let options = formats::Options { independent: flags.independent, ..formats::Options::default() };
    let mut loaded = source.table(&options).map_err(Failure::could_not_run)?;
    let load = begin.elapsed().as_secs_f64();
    let spec = match flags.model {
        Some(spec) => spec,
        None => {
            let spec = suggest(&loaded.table);
            eprintln!("model: {spec}, by the operations in it (--model says otherwise)");
            spec
        }
    };
    let initial = initial(&mut loaded.table, &flags.initial);
    let begin = Instant::now();
    let deadline = begin + flags.timeout;
    let give_up = move || Instant::now() >= deadline;
    let limits = Limits { give_up: &give_up, memory_bytes: flags.memory };
    let objects = linear::check(&loaded.table, spec, &Options { initial, failed_cas: flags.failed_cas, limits });
    let seconds = Seconds { load, check: begin.elapsed().as_secs_f64() };
    let result = conclude(spec, &loaded, &objects, seconds);
    if flags.json {
        let text = serde_json::to_string_pretty(&result).map_err(Failure::could_not_run)?;
        println!("{text}");
    } else {
        print!("{}", in_words(&result));
    }
    Ok(exit_for(result.valid, None))
}

fn conclude<'a>(spec: ModelSpec, loaded: &'a Loaded, objects: &'a [Object], seconds: Seconds) -> Result<'a> {
    let table = &loaded.table;
    let validity = |answer: &Answer| match answer {
        Answer::Linearizable => Validity::Valid,
        Answer::NotLinearizable(_) => Validity::Invalid,
        Answer::Undecided(_) => Validity::Unknown,
    };
    let answers = || objects.iter().map(|object| validity(&object.answer));
    let valid = if answers().any(|valid| valid == Validity::Invalid) {
        Validity::Invalid
    } else if answers().any(|valid| valid == Validity::Unknown) || table.operations.is_empty() {
        // A history in which nothing happened proves nothing.
        Validity::Unknown
    } else {
        Validity::Valid
    };
    let told = objects.iter().filter(|object| object.answer != Answer::Linearizable).map(|object| {
        let (reason, conflict) = match &object.answer {
            Answer::Linearizable => ("", &[][..]),
            Answer::Undecided(reason) => (reason.as_str(), &[][..]),
            Answer::NotLinearizable(conflict) => (conflict.reason.as_str(), conflict.operations.as_slice()),
        };
        let conflict = conflict.iter().filter_map(|&place| {
            let op = table.operations.get(*object.operations.get(place as usize)? as usize)?;
            Some(Involved { line: op.line, process: op.process, text: words::operation(&table.values, op) })
        });
        Told {
            key: table.keys.get(object.key as usize).map_or("", String::as_str),
            operations: object.operations.len(),
            linearizable: validity(&object.answer),
            how: object.how,
            reason,
            conflict: conflict.collect(),
        }
    });
    Result {
        valid,
        model: spec.to_string(),
        operations: table.operations.len(),
        keys: objects.len(),
        format: loaded.format.name(),
        compression: loaded.compression.name(),
        seconds,
        objects: told.collect(),
    }
}

fn in_words(result: &Result) -> String {
    let word = match result.valid {
        Validity::Valid => "VALID",
        Validity::Invalid => "INVALID",
        Validity::Unknown => "UNKNOWN",
    };
    let keys = if result.keys > 1 { format!(" on {} keys", result.keys) } else { String::new() };
    let mut text = format!(
        "{word}  {} operations{keys} against the model {}, loaded in {:.3} s, checked in {:.3} s\n",
        result.operations, result.model, result.seconds.load, result.seconds.check
    );
    if result.operations == 0 {
        text.push_str("\n  There is no operation in it, so it proves nothing.\n");
    }
    for object in result.objects.iter().take(KEYS_TOLD) {
        let name = if object.key.is_empty() { String::new() } else { format!("Key {}: ", object.key) };
        text.push_str(&format!("\n  {name}{}\n", object.reason));
        for involved in object.conflict.iter().take(LISTED) {
            text.push_str(&format!("    {}\n", involved.text));
        }
        if object.conflict.len() > LISTED {
            text.push_str(&format!("    and {} more\n", object.conflict.len() - LISTED));
        }
    }
    if result.objects.len() > KEYS_TOLD {
        text.push_str(&format!("\n  and {} more keys\n", result.objects.len() - KEYS_TOLD));
    }
    text
}

/// The model that fits the operations: what nearly always is meant by them.
fn suggest(table: &Table) -> ModelSpec {
    let has = |f: OpFunction| table.operations.iter().any(|op| op.f == f);
    let reads_lists = || {
        let read = |op: &&crate::history::table::Op| op.f == OpFunction::Read;
        let reads = table.operations.iter().filter(read);
        reads.filter_map(|op| table.values.content(op.a)).any(|content| matches!(content, Content::List(_)))
    };
    let has_tokens = || {
        let granted = |op: &&crate::history::table::Op| op.f == OpFunction::Acquire;
        table.operations.iter().filter(granted).any(|op| table.values.int(op.a).is_some())
    };
    if has(OpFunction::Acquire) || has(OpFunction::Release) {
        if has_tokens() { ModelSpec::FencedMutex } else { ModelSpec::OwnerMutex }
    } else if has(OpFunction::Append) {
        if reads_lists() { ModelSpec::ListAppend } else { ModelSpec::TextAppend }
    } else if has(OpFunction::Add) {
        if reads_lists() { ModelSpec::Set } else { ModelSpec::Counter }
    } else if has(OpFunction::Rmw) {
        ModelSpec::Rmw
    } else if has(OpFunction::Cas) {
        ModelSpec::CasRegister
    } else {
        ModelSpec::Register
    }
}

/// What the user wrote as the initial value: nil, a number, or a text.
fn initial(table: &mut Table, text: &str) -> Value {
    match (text, text.parse::<i64>()) {
        ("nil" | "null", _) => Value::NIL,
        (_, Ok(number)) => table.values.intern(Content::Int(number)),
        (text, Err(_)) => table.values.intern(Content::Text(text.to_string())),
    }
}
