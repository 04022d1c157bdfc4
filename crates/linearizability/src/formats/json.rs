//! Histories with one JSON object per line: operations with Jepsen's fields.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::fast::{self, Fast, LineShape};
use super::input::{Fault, Input};
use super::ring::{Baton, ring};
use super::tree::{self, Tree};
use super::{Broken, FormatOptions, Loading, at, too_long};

/// Adds every line of `input`.
///
/// Threads take turns, see [`ring`]. Each takes the next block of lines and parses it while others parse other blocks. It adds
/// its lines once all earlier lines have been added.
pub(super) fn load(input: &mut Input, loading: &mut Loading, options: &FormatOptions) -> Result<(), Broken> {
    // Bytes that are already in memory are parsed before another thread would have started.
    let threads = match input.is_exhausted() {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
    };
    let inputs = ring(threads, input);
    let turns = ring(threads, Turn { loading, line: 1 });
    let mut batons = inputs.into_iter().zip(turns);
    let mine = batons.next();
    std::thread::scope(|scope| {
        let others: Vec<_> =
            batons.map(|(inputs, turns)| scope.spawn(move || take_turns(&inputs, &turns, options))).collect();
        let done = mine.map_or(Ok(()), |(inputs, turns)| take_turns(&inputs, &turns, options));
        // At most one thread has found an error, which ended the others.
        others.into_iter().fold(done, |done, other| match other.join() {
            Ok(found) => done.and(found),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Lines are added by one thread at a time, so more threads would only wait.
const MOST_THREADS: usize = 4;

/// The turn to add lines.
struct Turn<'l> {
    loading: &'l mut Loading,
    /// The number of the next line.
    line: u64,
}

/// The work of one thread. If another thread has found an error, the baton never comes back.
fn take_turns(inputs: &Baton<&mut Input>, turns: &Baton<Turn>, options: &FormatOptions) -> Result<(), Broken> {
    let (mut shape, mut block) = (LineShape::default(), Vec::new());
    while let Some(input) = inputs.take() {
        let read = input.next_block(&mut block);
        inputs.pass_on(input);
        if matches!(read, Ok(false)) {
            break;
        }
        let lines = if read.is_ok() { understand(&block, &mut shape, options) } else { Vec::new() };
        let Some(mut turn) = turns.take() else { break };
        match read {
            Err(Fault::TooLong) => return Err(too_long(turn.line)),
            Err(fault) => return Err(fault.into()),
            Ok(_) => turn.add(&lines, options)?,
        }
        turns.pass_on(turn);
    }
    Ok(())
}

/// The content of a line.
enum LineMeaning<'b> {
    Fast(Fast<'b>),
    /// Something that only the full JSON parser understands.
    Tree(Tree<'b>),
    Nothing,
    /// Not JSON.
    Broken(String),
}

/// The contents of the lines of a block.
fn understand<'b>(block: &'b [u8], shape: &mut LineShape, options: &FormatOptions) -> Vec<LineMeaning<'b>> {
    let mut lines = Vec::with_capacity(block.len() / 64);
    let mut rest = block;
    while !rest.is_empty() {
        // Tuples of jepsen.independent are left to the parser.
        let fast = if options.independent { None } else { fast::scan(rest, shape) };
        let (says, length) = match fast {
            Some((fast, length)) => (LineMeaning::Fast(fast), length),
            None => {
                let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
                (slowly(&rest[..length]), length)
            }
        };
        lines.push(says);
        rest = &rest[length..];
    }
    lines
}

fn slowly(line: &[u8]) -> LineMeaning<'_> {
    match str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line)) {
        Err(error) => LineMeaning::Broken(format!("not UTF-8: {error}")),
        Ok(text) if text.trim_ascii().is_empty() => LineMeaning::Nothing,
        Ok(text) => parse(text).map_or_else(LineMeaning::Broken, LineMeaning::Tree),
    }
}

impl Turn<'_> {
    fn add(&mut self, lines: &[LineMeaning], options: &FormatOptions) -> Result<(), Broken> {
        for line in lines {
            self.add_line(line, options).map_err(|reason| at(self.line, reason))?;
            self.line += 1;
        }
        Ok(())
    }

    fn add_line(&mut self, line: &LineMeaning, options: &FormatOptions) -> Result<(), String> {
        let pairing = &mut self.loading.pairing;
        let number = super::short(self.line);
        match line {
            LineMeaning::Fast(Fast::Event(event)) => pairing.add(event, number),
            LineMeaning::Tree(tree) => match tree::event(tree, options)? {
                Some(event) => pairing.add(&event, number),
                None => Ok(()),
            },
            LineMeaning::Broken(reason) => Err(reason.clone()),
            LineMeaning::Fast(Fast::Nemesis) | LineMeaning::Nothing => Ok(()),
        }
    }
}

/// The `type` of a line, if the line is an object that has one.
pub(super) fn type_of<'t>(tree: &'t Tree) -> Option<&'t str> {
    let Tree::Map(entries) = tree else { return None };
    entries.iter().find_map(|entry| match entry {
        (Tree::Text(name), Tree::Text(kind)) if name == "type" => Some(kind.as_ref()),
        _ => None,
    })
}

/// Parses a line into a tree. The error has the column.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, String> {
    serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        let reason = words.split(" at line ").next().unwrap_or(&words);
        format!("column {}: {reason}", error.column())
    })
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree<'de>, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Nil)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree<'de>, E> {
        Ok(i64::try_from(number).map_or_else(|_| Tree::Odd(number.to_string().into()), Tree::Int))
    }

    /// Floats, and integers beyond 64 bits.
    fn visit_f64<E>(self, number: f64) -> Result<Tree<'de>, E> {
        Ok(Tree::Odd(format!("{number:?}").into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree<'de>, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Tree::Map(map))
    }
}
