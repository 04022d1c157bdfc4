//! Jepsen's logs: lines of process, type, function and value, after the logger's prefix.
//!
//! A log also has other lines; they are skipped and counted. A line counts as an operation if two keywords follow a process, and
//! then it must be valid: no unusual line may lose an operation.

use super::edn::{Parser, Stop};
use super::event::{EventType, FileEvent, NEMESIS, Name, Remark, clip, function, unknown_function, unknown_type};
use super::input::Input;
use super::tree::TreeValue;
use super::{Broken, FormatOptions, Loading, at, tree};

/// Adds every operation of `input`.
pub(super) fn load(input: &mut Input, loading: &mut Loading, options: &FormatOptions) -> Result<(), Broken> {
    while let Some(line) = input.next_line()? {
        let number = line.number;
        add(line.bytes, number, loading, options).map_err(|reason| at(number, reason))?;
    }
    if loading.pairing.len() == 0 {
        return Err(at(1, "neither JSON nor EDN, and no line of the file is an operation of a Jepsen log".into()));
    }
    Ok(())
}

fn add(line: &[u8], number: u64, loading: &mut Loading, options: &FormatOptions) -> Result<(), String> {
    let text = str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    if memchr::memchr(0, line).is_some() {
        return Err("a NUL byte; this is not text".into());
    }
    let Some(parts) = parts(text)? else {
        if !text.trim().is_empty() {
            loading.skipped += 1;
            loading.first_skipped.get_or_insert(number);
        }
        return Ok(());
    };
    let process = match parts.process.trim_start_matches(':') {
        NEMESIS => return Ok(()),
        name => Name::Text(name),
    };
    let process = parts.process.parse().map_or(process, Name::Number);
    let kind = EventType::of(parts.kind.as_bytes()).ok_or_else(|| unknown_type(parts.kind))?;
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
    // After the value comes the error, in any form: a single word is kept, any other form counts as an error without a word.
    let (error, more) = (form(), form());
    let mut key = None;
    let mut value = value.as_ref();
    if let Some((tuple_key, tuple_value)) = value.and_then(|value| tree::tuple(value, options.independent)) {
        key = Some(tuple_key.name().ok_or("the key of an independent tuple must be a name or a whole number")?);
        value = Some(tuple_value);
    }
    let event = FileEvent {
        process,
        kind,
        f,
        key,
        value: TreeValue(value),
        time: None,
        index: None,
        error: match (&error, more) {
            (Ok(None), _) => Remark::None,
            (Ok(Some(tree)), Ok(None)) => tree.word().map_or(Remark::Other, Remark::Text),
            _ => Remark::Other,
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

/// The parts of a line with an operation: a process with two keywords after it. None if the line has another subject; an error if
/// it looks like an operation but is not one.
fn parts(line: &str) -> Result<Option<Parts<'_>>, String> {
    let mut words = LogWords { line, at: 0 };
    // True for the first word of a line, or the first word after the logger's prefix.
    let mut first = true;
    let mut process = words.next().unwrap_or_default();
    while let Some(word) = words.next() {
        let mut ahead = LogWords { ..words };
        let next = ahead.next();
        let is_number = process.bytes().all(|byte| byte.is_ascii_digit());
        let is_type = |word: &str| EventType::of(word.trim_start_matches(':').as_bytes()).is_some();
        let is_function = |word: &str| function(word.trim_start_matches(':').as_bytes()).is_some();
        match (keyword(word), next.and_then(keyword)) {
            (Some(kind), Some(f))
                if is_number || keyword(process).is_some() || is_type(kind) || first && is_function(f) =>
            {
                // Operations written as maps do not belong in such a log.
                if process.contains('{') {
                    return Ok(None);
                }
                if !is_process(process) {
                    return Err(format!("`{}` is not a process; expected a number or a name", clip(process)));
                }
                return Ok(Some(Parts { process, kind, f, rest: &line[ahead.at..] }));
            }
            (kind, _)
                if (is_number || first && is_process(process))
                    && is_type(word)
                    && (kind.is_some() || next.is_some_and(is_function)) =>
            {
                return Err("this looks like an operation; its type and its function must be keywords".into());
            }
            _ => {}
        }
        first = process.ends_with(['-', ':']);
        process = word;
    }
    Ok(None)
}

/// True if a word can be a process: a number, a name or a keyword.
fn is_process(word: &str) -> bool {
    let name = keyword(word).unwrap_or(word);
    let is_name = name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./@".contains(&byte));
    is_name && (word.parse::<i64>().is_ok() || !word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A keyword's name.
fn keyword(word: &str) -> Option<&str> {
    let name = word.strip_prefix(':')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./+*!?<>=".contains(&byte));
    is_name.then_some(name)
}

/// The words of a line, and where each ends.
struct LogWords<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> LogWords<'a> {
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
            for process in ["4", ":c4", "c4", "client-4", "n1/4"] {
                let line = line.replace("4\t", &format!("{process}\t"));
                let parts = parts(&line).unwrap().expect("an operation");
                assert_eq!(
                    (parts.process, parts.kind, parts.f, parts.rest.trim()),
                    (process, "invoke", "cas", "[0 2]")
                );
            }
        }
        for line in [
            "",
            "INFO jepsen.core - Everything looks good!",
            "12:00 :x",
            ":a :b",
            "INFO jepsen.db - n1 says :ok to us",
            "INFO jepsen.core - Running :register :test",
            "WARN jepsen.core - Process 4 crashed {:process 4, :type :invoke, :f :read}",
            "WARN jepsen.core - Process 4 crashed {:type :invoke :f :read :process 4}",
        ] {
            assert!(parts(line).unwrap().is_none(), "{line}");
        }
        let parts = parts("INFO - :nemesis\t:info\t:start\t\"cut off\"").unwrap().expect("an operation");
        assert_eq!((parts.process, parts.kind, parts.f), (":nemesis", "info", "start"));
    }

    #[test]
    fn what_looks_like_an_operation_must_be_one() {
        for (line, reason) in [
            ("4 invoke :cas [0 2]", "must be keywords"),
            ("INFO jepsen.util - 4\tinvoke\tcas\t[0 2]", "must be keywords"),
            ("c4 invoke cas [0 2]", "must be keywords"),
            ("4 :invoke [1]", "must be keywords"),
            ("4\t:invoke", "must be keywords"),
            ("[0 :invoke :read nil]", "`[0` is not a process"),
            ("INFO jepsen.util - :invoke :read nil", "`-` is not a process"),
            ("-4 :invoke :read nil", "`-4` is not a process"),
            ("\"c4\" :invoke :read nil", "is not a process"),
            ("99999999999999999999 :invoke :read nil", "is not a process"),
        ] {
            let error = parts(line).err().unwrap_or_else(|| panic!("accepted: {line}"));
            assert!(error.contains(reason), "{line}: {error}");
        }
        // A line of an unknown type is not skipped either.
        for line in ["c4 :invok :read nil", "INFO - c4 :invok :read nil", "4 :invok :read nil", ":c4 :invok :read nil"]
        {
            assert_eq!(parts(line).unwrap().map(|parts| parts.kind), Some("invok"), "{line}");
        }
    }
}
