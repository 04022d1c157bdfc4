//! Histories from elsewhere: the accepted and the refused files of each notation, the messages, and that no file breaks the
//! reader.

mod accepted;
mod blocks;
mod fuzz;
mod generate;
mod notations;
mod refused;

use std::io::Write;

use linearizability::formats::{FormatOptions, Loaded, read, word};
use linearizability::history::{Content, NEVER, Outcome, Table, Value};

/// Reads bytes as a history; an error is the message that the user sees.
fn load(bytes: &[u8]) -> Result<Loaded, String> {
    read(bytes, "file", &FormatOptions::default()).map_err(|error| error.to_string())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// The operations of a table, one per line: `3 write 5 ok 0..1`, with the key after an `@` if there is one.
fn operations(table: &Table) -> Vec<String> {
    let line = |op: &linearizability::history::Op| {
        let key = match table.keys[op.key as usize].as_str() {
            "" => String::new(),
            key => format!("@{key}"),
        };
        let outcome = match op.outcome {
            Outcome::Ok => "ok",
            Outcome::Fail => "fail",
            Outcome::Info => "info",
        };
        let until = if op.completed == NEVER { String::new() } else { op.completed.to_string() };
        let (f, a, b) = (word(op.f), value(table, op.a), value(table, op.b));
        format!("{} {f}{key} {a} {b} {outcome} {}..{until}", op.process, op.invoked)
    };
    table.operations.iter().map(line).collect()
}

fn value(table: &Table, value: Value) -> String {
    match table.values.content(value) {
        None => "?".to_string(),
        Some(Content::Nil) => "nil".to_string(),
        Some(Content::Int(number)) => number.to_string(),
        Some(Content::Text(text)) => format!("{text:?}"),
        Some(Content::List(items)) => {
            let items: Vec<String> = items.iter().map(|item| self::value(table, *item)).collect();
            format!("[{}]", items.join(" "))
        }
    }
}
