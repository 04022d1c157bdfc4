//! The same history gives the same table in every notation and compression.

use proptest::prelude::*;

use super::generate::{Generator, Line, Object, any_history, edn, json, log};
use super::{gzip, load, zstd};

fn table(bytes: &[u8]) -> linearizability::history::Table {
    load(bytes).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(bytes))).table
}

fn by_line(lines: &[Line], write: impl FnMut(&Line) -> String) -> String {
    lines.iter().map(write).collect()
}

fn agree(lines: &[Line]) {
    let plain = by_line(lines, |line| json(line, ""));
    let expected = table(plain.as_bytes());
    let edn_lines = by_line(lines, edn);
    let mut number = 0;
    let numbered = by_line(lines, |line| {
        number += 1;
        json(line, &format!("\"index\":{number},\"node\":[{{}}],"))
    });
    for text in [
        numbered,
        edn_lines.clone(),
        edn_lines.replace("{:type", "#jepsen.history.Op{:type"),
        format!("[{}]", edn_lines.trim_end()),
    ] {
        assert_eq!(table(text.as_bytes()), expected, "{text}");
    }
    assert_eq!(table(&gzip(edn_lines.as_bytes())), expected);
    assert_eq!(table(&zstd(plain.as_bytes())), expected);

    let without_keys: Vec<Line> = lines.iter().map(|line| Line { key: None, ..line.clone() }).collect();
    let expected = table(by_line(&without_keys, |line| json(line, "")).as_bytes());
    assert_eq!(table(by_line(&without_keys, log).as_bytes()), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_the_same_in_every_notation(lines in any_history()) {
        // An empty file has no notation.
        if !lines.is_empty() {
            agree(&lines);
        }
    }
}

#[test]
fn a_history_of_many_chunks_is_the_same_in_every_notation() {
    for (object, strings) in [(Object::Register, false), (Object::Rmw, true)] {
        let lines: Vec<Line> = Generator::new(object, strings, 8_000, 7, 20).collect();
        agree(&lines);
    }
}
