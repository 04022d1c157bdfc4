//! Jepsen's logs: lines of process, type, function and value, behind whatever prefix the logger wrote.
//!
//! A log also has lines that are no operations; they are skipped. A line counts as one where two keywords follow a process,
//! and then it must be a sound one: an operation must not get lost because its line is unusual.

use super::edn::{Parser, Stop};
use super::event::{Event, Kind, NEMESIS, Name, Remark, function, unknown_function, unknown_type};
use super::input::Input;
use super::tree::TreeValue;
use super::{Broken, Loading, Options, at, tree};

/// Adds every operation of `input`.
pub(super) fn load(input: &mut Input, loading: &mut Loading, options: &Options) -> Result<(), Broken> {
    while let Some(line) = input.next_line()? {
        let number = line.number;
        add(line.bytes, number, loading, options).map_err(|reason| at(number, reason))?;
    }
    if loading.pairing.len() == 0 {
        return Err(at(1, "neither JSON nor EDN, and no line of the file is an operation of a Jepsen log".into()));
    }
    Ok(())
}

fn add(line: &[u8], number: u64, loading: &mut Loading, options: &Options) -> Result<(), String> {
    let text = str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    if memchr::memchr(0, line).is_some() {
        return Err("a NUL; this is no text".into());
    }
    let Some(parts) = parts(text) else { return Ok(()) };
    if parts.process.trim_start_matches(':') == NEMESIS {
        return Ok(());
    }
    let kind = Kind::of(parts.kind.as_bytes()).ok_or_else(|| unknown_type(parts.kind))?;
    let f = function(parts.f.as_bytes()).ok_or_else(|| unknown_function(parts.f))?;
    let column = |at: usize| text.len() - parts.rest.len() + at + 1;
    let mut parser = Parser::new(parts.rest.as_bytes(), true);
    let mut form = || match parser.next_byte(0) {
        Ok(None) => Ok(None),
        Ok(Some(_)) => parser.form(0).map(Some),
        Err(stop) => Err(stop),
    };
    let value = form().map_err(|stop| match stop {
        Stop::Bad(reason, at) => format!("column {}: {reason}", column(at)),
        Stop::More => "cut off".to_string(),
    })?;
    // What follows the value is words about what went wrong, in any form.
    let error = form();
    let mut key = None;
    let mut value = value.as_ref();
    if let Some((tuple_key, tuple_value)) = value.and_then(|value| tree::tuple(value, options.independent)) {
        key = Some(tuple_key.name().ok_or("the key of an independent tuple must be a name or a whole number")?);
        value = Some(tuple_value);
    }
    let event = Event {
        process: parts.process.parse().map_or(Name::Text(parts.process.trim_start_matches(':')), Name::Number),
        kind,
        f,
        key,
        value: TreeValue(value),
        time: None,
        index: None,
        error: match &error {
            Ok(None) => Remark::None,
            Ok(Some(tree)) => tree.word().map_or(Remark::Other, Remark::Text),
            Err(_) => Remark::Other,
        },
    };
    loading.pairing.add(&event, super::short(number))
}

struct Parts<'a> {
    process: &'a str,
    /// Without their colons.
    kind: &'a str,
    f: &'a str,
    rest: &'a str,
}

/// The parts of a line that is an operation: a process (a number, or a keyword) with two keywords after it.
fn parts(line: &str) -> Option<Parts<'_>> {
    let mut words = Words { line, at: 0 };
    let mut process = words.next()?;
    loop {
        let word = words.next()?;
        if is_process(process)
            && let Some(kind) = keyword(word)
        {
            let mut ahead = Words { ..words };
            if let Some(f) = ahead.next().and_then(keyword) {
                return Some(Parts { process, kind, f, rest: &line[ahead.at..] });
            }
        }
        process = word;
    }
}

fn is_process(word: &str) -> bool {
    keyword(word).is_some() || (word.len() < 20 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A keyword's name.
fn keyword(word: &str) -> Option<&str> {
    let name = word.strip_prefix(':')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./+*!?<>=".contains(&byte));
    is_name.then_some(name)
}

/// The words of a line and where each ends.
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = &self.line[self.at..];
        let word = rest.trim_start();
        if word.is_empty() {
            return None;
        }
        let length = word.find(char::is_whitespace).unwrap_or(word.len());
        self.at = self.line.len() - word.len() + length;
        Some(&word[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_found_behind_any_prefix() {
        for prefix in [
            "",
            "INFO  jepsen.util - ",
            "INFO [2015-06-01 12:00:00,123] jepsen worker 3 - jepsen.core ",
            "2024-01-02 12:00:00,123{GMT}\tINFO\t[jepsen worker 3] jepsen.util: ",
        ] {
            let line = format!("{prefix}4\t:invoke\t:cas\t[0 2]\r");
            let parts = parts(&line).expect("an operation");
            assert_eq!((parts.process, parts.kind, parts.f, parts.rest.trim()), ("4", "invoke", "cas", "[0 2]"));
        }
        for line in
            ["", "INFO jepsen.core - Everything looks good!", "4 invoke :cas", "12:00 :x", ":a :b", "4 :invoke [1]"]
        {
            assert!(parts(line).is_none(), "{line}");
        }
        let parts = parts("INFO - :nemesis\t:info\t:start\t\"cut off\"").expect("an operation");
        assert_eq!((parts.process, parts.kind, parts.f), (":nemesis", "info", "start"));
    }
}
