//! Histories in many blocks on several threads: no line gets lost or out of order, and errors have the right line.

use linearizability::history::NEVER;

use super::generate::{Generator, Object, json, log};
use super::{load, operations};

fn generator() -> Generator {
    Generator::new(Object::Rmw, true, 15_000, 20, 10)
}

/// A few megabytes of lines. Some are empty, and some need the slow parser.
fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for (place, line) in generator().enumerate() {
        let unusual = if place % 7 == 0 { "\"note\":{\"deep\":[1.5]}," } else { "" };
        lines.push(json(&line, unusual));
        if place % 1_000 == 500 {
            lines.push("\n".into());
        }
    }
    lines
}

#[test]
fn every_line_is_read_once_and_in_order() {
    let lines = lines();
    let table = load(lines.concat().as_bytes()).unwrap().table;
    assert_eq!(table.operations.len(), 15_000);
    let invoked: Vec<usize> = (1..).zip(&lines).filter(|(_, line)| line.contains("invoke")).map(|(n, _)| n).collect();
    let found: Vec<usize> = table.operations.iter().map(|op| op.line as usize).collect();
    assert_eq!(found, invoked);
    let places = table.operations.iter().flat_map(|op| [op.invoked, op.completed]);
    let mut places: Vec<u32> = places.filter(|place| *place != NEVER).collect();
    places.sort_unstable();
    assert!((0..places.len() as u32).eq(places));
    // Logs are read line by line.
    let logged: String = generator().map(|line| log(&line)).collect();
    assert_eq!(operations(&load(logged.as_bytes()).unwrap().table), operations(&table));
}

#[test]
fn what_is_wrong_is_found_at_its_line_whatever_comes_after_it() {
    let mut lines = lines();
    let far = [20_011, 29_500, 5, 12_345];
    for (place, line) in far.into_iter().enumerate() {
        lines[line - 1] = ["{\"process\":1.5}\n", "\u{1}\n", "{}}\n", "[\n"][place].into();
        let first = far[..=place].iter().min().unwrap();
        let refused = load(lines.concat().as_bytes()).unwrap_err();
        assert!(refused.starts_with(&format!("file, line {first}: ")), "{refused}");
    }
}
