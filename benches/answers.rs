//! Time and memory from a file to an answer with its reasons: all of `redjepsen check FILE --json`, in a separate
//! process. `cargo bench --bench answers [-- WORD...]` runs the rows that contain every WORD, such as `-- Cas 1000000`;
//! all of them together take several minutes.

#[path = "../crates/linearizability/benches/histories/mod.rs"]
mod histories;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use histories::{Object, Shape, Violation, history};
use linearizability::formats::word;
use linearizability::history::Outcome;
use linearizability::history::{Content, NEVER, Op, OpFunction, Table, Value};

/// Tells this program to write the history of the row with this number.
const WRITE: &str = "--write";

fn main() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("answers.jsonl");
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(WRITE) {
        let number = args.next().and_then(|number| number.parse::<usize>().ok()).expect("the number of a row");
        let shape = shapes()[number];
        return write(&history(shape), shape.object, &path).expect("a place to write to");
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("{:<74} {:>7} {:>7} {:>7} {:>5}  answer", "", "total s", "load s", "check s", "MB");
    for (number, shape) in shapes().into_iter().enumerate() {
        let name = format!("{:?}: {shape}", shape.object);
        if words.iter().all(|word| name.contains(word)) {
            // In another process, since a child's peak memory is at least its parent's.
            let this = std::env::current_exe().expect("this program");
            Command::new(this).args([WRITE, &number.to_string()]).status().expect("this program again");
            row(&name, shape, &path).expect("a file to check");
        }
    }
}

/// Registers in every variant; for each other object a large history, good and bad.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let places = [Violation::None, Violation::Start, Violation::Middle, Violation::End];
    for object in [Object::Register, Object::Cas, Object::Rmw, Object::Increments, Object::Unknown] {
        for operations in [10_000, 100_000, 1_000_000] {
            for clients in [10, 50] {
                for info_percent in [0, 1, 5] {
                    let shape = |violation| Shape { object, operations, clients, info_percent, violation, seed: 7 };
                    shapes.extend(places.map(shape));
                }
            }
        }
    }
    for object in [Object::Owner, Object::Fenced, Object::Counter, Object::Set, Object::List] {
        // A client that does not know whether it got the lock releases it here, which other histories do not allow.
        let info_percent = if matches!(object, Object::Owner | Object::Fenced) { 0 } else { 5 };
        let (operations, clients) = (1_000_000, 50);
        let shape = |violation| Shape { object, operations, clients, info_percent, violation, seed: 7 };
        shapes.extend([Violation::None, Violation::End].map(shape));
    }
    shapes
}

/// Checks a history and prints its time and memory.
fn row(name: &str, shape: Shape, path: &Path) -> io::Result<()> {
    let model = match shape.object {
        Object::Register => "register",
        Object::Cas => "cas-register",
        Object::Rmw | Object::Increments | Object::Unknown => "rmw",
        Object::Owner => "owner-mutex",
        Object::Fenced => "fenced-mutex",
        Object::Counter => "counter",
        Object::Set => "set",
        Object::List => "list-append",
    };
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(["check", "--json", "--failed-cas", "check", "--model", model])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut json = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut json)?;
    let peak = peak_bytes(child.id()) / 1_000_000;
    let took = begun.elapsed().as_secs_f64();
    let json: serde_json::Value = serde_json::from_str(&json)?;
    let result = &json["results"][0];
    let answer = match &result["valid"] {
        serde_json::Value::Bool(true) => "linearizable".to_string(),
        serde_json::Value::Bool(false) => {
            let operations = result["conflict"].as_array().map_or(0, Vec::len);
            let fewest = if result["explanation"]["minimal"] == true { ", the fewest" } else { "" };
            format!("not linearizable: {operations} operations{fewest}")
        }
        _ => format!("unknown: {}", result["reason"]),
    };
    let seconds = |field: &str| json[field].as_f64().unwrap_or_default();
    let (load, check) = (seconds("load_seconds"), seconds("check_seconds"));
    let how = result["how"].as_str().unwrap_or_default();
    println!("{name:<74} {took:>7.3} {load:>7.3} {check:>7.3} {peak:>5}  {answer} ({how})");
    std::fs::remove_file(path)
}

/// Waits for a child; returns its peak memory.
fn peak_bytes(child: u32) -> u64 {
    // SAFETY: it holds only numbers, for which all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both places are valid until the call returns, and nobody else waits for this child.
    unsafe { libc::wait4(child.cast_signed(), &mut status, 0, &mut usage) };
    usage.ru_maxrss.unsigned_abs() * 1024
}

/// Writes a history as JSON lines with Jepsen's fields.
fn write(table: &Table, object: Object, path: &Path) -> io::Result<()> {
    let mut events: Vec<(u32, bool, &Op)> = Vec::new();
    for op in &table.operations {
        events.push((op.invoked, true, op));
        events.extend(Some((op.completed, false, op)).filter(|(place, ..)| *place != NEVER));
    }
    events.sort_unstable_by_key(|(place, ..)| *place);
    let mut out = BufWriter::new(File::create(path)?);
    for (index, (_, invoked, op)) in events.into_iter().enumerate() {
        let kind = match (invoked, op.outcome) {
            (true, _) => "invoke",
            (false, Outcome::Fail) => "fail",
            (false, _) => "ok",
        };
        // An increment knows in advance what replaces what, so in the file it is a compare-and-set.
        let f = if object == Object::Increments { OpFunction::Cas } else { op.f };
        let value = match f {
            OpFunction::Read | OpFunction::Acquire if invoked => "null".to_string(),
            OpFunction::Rmw if invoked && object == Object::Unknown => "null".to_string(),
            OpFunction::Rmw if invoked => format!("[null,{}]", plain(table, op.b)),
            OpFunction::Cas | OpFunction::Rmw => format!("[{},{}]", plain(table, op.a), plain(table, op.b)),
            _ => plain(table, op.a),
        };
        let (time, process, f) = (index * 1_000, op.process, word(f));
        writeln!(
            out,
            r#"{{"index":{index},"time":{time},"type":"{kind}","process":{process},"f":"{f}","value":{value}}}"#
        )?;
    }
    out.flush()
}

fn plain(table: &Table, value: Value) -> String {
    match table.values.content(value) {
        Some(Content::Int(number)) => number.to_string(),
        Some(Content::List(list)) => {
            let items: Vec<String> = list.iter().map(|item| plain(table, *item)).collect();
            format!("[{}]", items.join(","))
        }
        _ => "null".to_string(),
    }
}
