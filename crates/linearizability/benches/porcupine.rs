//! How long the search takes on Porcupine's public histories: `cargo bench --bench porcupine -- DIR`, where DIR is your
//! own copy of github.com/anishathalye/porcupine. Prints a line for each file: its name, operations, whether it is
//! linearizable, microseconds (the best of several runs, checking only). `benches/porcupine.sh` compares the times with
//! Porcupine's own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Table, Value};
use linearizability::{Answer, FailedCas, ModelSpec, Options, check};

fn main() {
    let Some(folder) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) else {
        println!("nothing to do: name a copy of porcupine");
        return;
    };
    let data = Path::new(&folder).join("test_data");
    for (path, spec) in files(&data.join("jepsen"), ModelSpec::CasRegister)
        .into_iter()
        .chain(files(&data.join("kv"), ModelSpec::TextAppend))
    {
        let table = read(&path);
        let (legal, time) = measure(&table, spec);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name},{},{legal},{:.1}", table.operations.len(), time.as_secs_f64() * 1e6);
    }
}

fn files(folder: &Path, spec: ModelSpec) -> Vec<(PathBuf, ModelSpec)> {
    let entries = std::fs::read_dir(folder).expect("a folder of histories");
    let mut paths: Vec<_> = entries.map(|entry| (entry.expect("an entry").path(), spec)).collect();
    paths.sort_by(|(one, _), (other, _)| one.cmp(other));
    paths
}

/// The best of several runs; the shorter they are, the more of them.
fn measure(table: &Table, spec: ModelSpec) -> (bool, Duration) {
    let (mut best, mut legal) = (Duration::MAX, true);
    let started = Instant::now();
    for run in 0..50 {
        if run >= 3 && started.elapsed() > Duration::from_secs(2) {
            break;
        }
        let begun = Instant::now();
        let objects = check(table, spec, &Options { failed_cas: FailedCas::Check, ..Options::default() });
        best = best.min(begun.elapsed());
        legal = objects.iter().all(|object| object.answer == Answer::Linearizable);
    }
    (legal, best)
}

/// Reads lines of an etcd log (`INFO jepsen.util - 0 :invoke :read nil`) or maps of a key-value history.
fn read(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).expect("a history");
    let mut table = Table::default();
    let mut keys: HashMap<String, u32> = HashMap::new();
    let mut open: HashMap<u32, usize> = HashMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let (process, kind, f, key, value) = if text.starts_with('{') { map(text) } else { words(text) };
        let key = *keys.entry(key.into()).or_insert_with(|| {
            table.keys.push(key.into());
            table.keys.len() as u32 - 1
        });
        let mut intern = |text: &str| match text {
            "nil" | "" => Value::NIL,
            ":timed-out" => Value::UNKNOWN,
            _ => table.values.intern(match text.parse() {
                Ok(int) => Content::Int(int),
                Err(_) => Content::Text(text.trim_matches('"').into()),
            }),
        };
        let (a, b) = match value.strip_prefix('[').and_then(|value| value.strip_suffix(']')?.split_once(' ')) {
            Some((from, to)) => (intern(from), intern(to)),
            None if value == "\"\"" => (Value::NIL, Value::NIL),
            None => (intern(value), Value::NIL),
        };
        let f = match f {
            ":read" | ":get" => OpFunction::Read,
            ":write" | ":put" => OpFunction::Write,
            ":cas" => OpFunction::Cas,
            ":append" => OpFunction::Append,
            f => panic!("{}: line {line}: {f}", path.display()),
        };
        if kind == ":invoke" {
            open.insert(process, table.operations.len());
            let a = if f == OpFunction::Read { Value::UNKNOWN } else { a };
            let outcome = Outcome::Info;
            table.operations.push(Op { key, process, f, outcome, a, b, invoked: line, completed: NEVER, line });
            continue;
        }
        let op = &mut table.operations[open.remove(&process).expect("an invocation")];
        match kind {
            ":info" => {}
            ":fail" => (op.outcome, op.completed) = (Outcome::Fail, line),
            _ => (op.outcome, op.completed) = (Outcome::Ok, line),
        }
        if f == OpFunction::Read && kind == ":ok" {
            op.a = a;
        }
    }
    table
}

type Fields<'a> = (u32, &'a str, &'a str, &'a str, &'a str);

fn words(text: &str) -> Fields<'_> {
    let mut rest = text.split_once(" - ").expect("a log line").1.trim();
    let mut word = || {
        let (word, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = more.trim_start();
        word
    };
    let (process, kind, f) = (word(), word(), word());
    (process.parse().expect("a process"), kind, f, "", rest)
}

fn map(text: &str) -> Fields<'_> {
    let field = |name: &str| {
        let rest = text.split_once(name).expect("a field").1.trim_start();
        match name {
            ":value " => rest.trim_end_matches('}'),
            _ => rest.split_once(',').expect("another field").0,
        }
    };
    let process = field(":process ").parse().expect("a process");
    (process, field(":type "), field(":f "), field(":key ").trim_matches('"'), field(":value "))
}
