//! Explains why a few operations have no legal order. Values and real time show which operation must come before which, in a
//! cycle.
//!
//! Operations on a value that was written once belong together: no operation can come between the write and the last operation
//! that finds its value. So if one operation of such a group precedes one of another group in real time, the whole group does
//! (Gibbons and Korach 1997).

use super::shrink::Kept;
use super::{Because, Explanation, Link};
use crate::history::{Op, OpFunction, Outcome, Value};
use crate::words::{self, Words};
use crate::{Conflict, Model, Transition};

/// Fills in the cycle, its basis and the sentences.
pub fn tell<M: Model>(
    model: &M,
    kept: &[Kept],
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    explanation: &mut Explanation,
) {
    let say = |kept: &Kept| words.operation(&kept.op);
    let ops: Vec<Op> = kept.iter().map(|kept| kept.op).collect();
    if let (Some(_), [only]) = (model.absurd(&ops), kept) {
        explanation.sentences = vec![format!("{}, but no operation could have led to that", say(only))];
        return;
    }
    let initial = model.initial();
    let at_first = |value: Value| {
        ops.first().is_some_and(|op| {
            let read = Op { f: OpFunction::Read, outcome: Outcome::Ok, a: value, ..*op };
            model.step(&initial, &read) != Transition::Illegal
        })
    };
    let found = match kept.iter().any(|kept| wrote(kept).is_some()) && !kept.iter().any(wrote_anything) {
        true => twice(kept, &at_first, words)
            .or_else(|| early(kept, &at_first, &say))
            .or_else(|| late(kept, &at_first, &say))
            .or_else(|| apart(kept, &at_first, words))
            .or_else(|| meanwhile(kept, &at_first, words)),
        false => None,
    };
    let told = found.unwrap_or_else(|| Told {
        sentences: dead_ends(kept.len(), operations, conflict, explanation),
        ..Told::default()
    });
    (explanation.cycle, explanation.basis, explanation.sentences) = (told.cycle, told.basis, told.sentences);
}

/// The sentences if there is no cycle: how far each order goes.
fn dead_ends(count: usize, operations: &[Op], conflict: &Conflict, explanation: &Explanation) -> Vec<String> {
    let mut sentences = vec![match (count, explanation.dead_ends.is_empty()) {
        (_, true) => format!("{count} operations have no valid order: {}", conflict.reason),
        (1, false) => "this operation does not fit:".into(),
        (2, false) => "these two operations do not fit in any order:".into(),
        (_, false) => format!("these {count} operations do not fit in any order:"),
    }];
    for end in &explanation.dead_ends {
        let lines: Vec<String> = end.order.iter().map(|place| line(operations, *place)).collect();
        let after = match lines.as_slice() {
            [] => "at first".into(),
            [only] => format!("after line {only}"),
            lines => format!("after lines {}", lines.join(", ")),
        };
        let state = end.state.as_ref().map_or(String::new(), |state| format!(" the object is {state}, and"));
        sentences
            .push(format!("{after}{state} the operation on line {} cannot come next", line(operations, end.refused)));
    }
    sentences
}

fn line(operations: &[Op], place: u32) -> String {
    operations[place as usize].line.to_string()
}

#[derive(Default)]
struct Told {
    cycle: Vec<Link>,
    basis: Vec<Link>,
    sentences: Vec<String>,
}

fn wrote(kept: &Kept) -> Option<Value> {
    match kept.op.f {
        _ if kept.op.outcome == Outcome::Fail => None,
        OpFunction::Write => Some(kept.op.a),
        OpFunction::Cas | OpFunction::Rmw => Some(kept.op.b),
        _ => None,
    }
}

fn found(kept: &Kept) -> Option<Value> {
    match kept.op.f {
        _ if kept.op.outcome != Outcome::Ok || kept.op.a == Value::UNKNOWN => None,
        OpFunction::Read | OpFunction::Cas | OpFunction::Rmw => Some(kept.op.a),
        _ => None,
    }
}

/// It is unknown what the operation wrote, so no value was certainly written only once.
fn wrote_anything(kept: &Kept) -> bool {
    wrote(kept) == Some(Value::UNKNOWN)
}

/// The only operation that wrote a value; None if several did.
fn writer(kept: &[Kept], value: Value) -> Option<&Kept> {
    let mut writers = kept.iter().filter(|kept| wrote(kept) == Some(value));
    writers.next().filter(|_| writers.next().is_none())
}

fn by_time(before: &Kept, after: &Kept) -> bool {
    before.op.completed < after.op.invoked
}

fn link(before: &Kept, after: &Kept, because: Because) -> Link {
    Link { before: before.place, after: after.place, because }
}

/// Two operations found a value that was there only once, and each replaced it.
fn twice(kept: &[Kept], at_first: &dyn Fn(Value) -> bool, words: &Words) -> Option<Told> {
    let replaced = |kept: &Kept| found(kept).filter(|value| wrote(kept).is_some_and(|wrote| wrote != *value));
    for (at, one) in kept.iter().enumerate() {
        let Some(value) = replaced(one) else { continue };
        let writers = kept.iter().filter(|kept| wrote(kept) == Some(value)).count();
        let Some(other) = kept[at + 1..].iter().find(|other| replaced(other) == Some(value)) else { continue };
        if writers + usize::from(at_first(value)) != 1 {
            continue;
        }
        let shown = words::value(words.values, value);
        let origin = match writer(kept, value) {
            Some(writer) => format!("was written once (line {})", writer.op.line),
            None => "was the initial value, and never written".into(),
        };
        return Some(Told {
            cycle: vec![link(one, other, Because::Value), link(other, one, Because::Value)],
            sentences: vec![
                words.operation(&one.op),
                words.operation(&other.op),
                format!("both replaced {shown}, so each must come before the other"),
                format!("but {shown} {origin}, and cannot come back"),
            ],
            ..Told::default()
        });
    }
    None
}

/// A value is found before it is written.
fn early(kept: &[Kept], at_first: &dyn Fn(Value) -> bool, say: &dyn Fn(&Kept) -> String) -> Option<Told> {
    let found = |reader: &Kept| found(reader).filter(|value| !at_first(*value));
    let mut pairs = kept.iter().filter_map(|reader| Some((reader, writer(kept, found(reader)?)?)));
    let (reader, writer) = pairs.find(|(reader, writer)| by_time(reader, writer))?;
    let cycle = vec![link(writer, reader, Because::Value), link(reader, writer, Because::RealTime)];
    let sentence =
        format!("{} and returned before the only write of the value was invoked: {}", say(reader), say(writer));
    Some(Told { cycle, sentences: vec![sentence], ..Told::default() })
}

/// An operation finds the initial value after another value was written.
fn late(kept: &[Kept], at_first: &dyn Fn(Value) -> bool, say: &dyn Fn(&Kept) -> String) -> Option<Told> {
    let unwritten = |reader: &&Kept| {
        reader.op.f == OpFunction::Read
            && found(reader).is_some_and(|value| at_first(value) && kept.iter().all(|kept| wrote(kept) != Some(value)))
    };
    let mut pairs = kept.iter().filter(unwritten).flat_map(|reader| kept.iter().map(move |writer| (reader, writer)));
    let (reader, writer) = pairs.find(|(reader, writer)| wrote(writer).is_some() && by_time(writer, reader))?;
    let cycle = vec![link(reader, writer, Because::Value), link(writer, reader, Because::RealTime)];
    let sentences = vec![
        format!(
            "{}: no operation wrote this value, so it is the initial value, and the read must come before every write",
            say(reader)
        ),
        format!("but {}, and that operation had already returned", say(writer)),
    ];
    Some(Told { cycle, sentences, ..Told::default() })
}

/// Two values that must each come before the other. In real time an operation on the first value precedes an operation on the
/// second, so all operations on the first do. But an operation on the second had returned before one on the first was invoked.
fn apart(kept: &[Kept], at_first: &dyn Fn(Value) -> bool, words: &Words) -> Option<Told> {
    let written: Vec<Value> =
        kept.iter().filter_map(wrote).filter(|value| writer(kept, *value).is_some() && !at_first(*value)).collect();
    let group = |value: Value| kept.iter().filter(move |kept| found(kept) == Some(value) || wrote(kept) == Some(value));
    // A compare-and-set belongs to both groups, so it proves nothing new about their order.
    let of_one = |one: &Kept, other: Value| found(one) != Some(other) && wrote(one) != Some(other);
    let step = |from: Value, to: Value| {
        let pairs = group(from).flat_map(|one| group(to).map(move |other| (one, other)));
        pairs.filter(|(one, other)| of_one(one, to) && of_one(other, from)).find(|(one, other)| by_time(one, other))
    };
    for (at, one) in written.iter().enumerate() {
        for other in &written[at + 1..] {
            let (Some(first), Some(second)) = (step(*one, *other), step(*other, *one)) else { continue };
            // If the readers' order rests on the order of the writes, the writes come first.
            let writes = |(before, after): (&Kept, &Kept)| wrote(before).is_some() && wrote(after).is_some();
            return Some(match writes(second) && !writes(first) {
                true => contradiction((*other, *one), second, first, words),
                false => contradiction((*one, *other), first, second, words),
            });
        }
    }
    None
}

/// An operation found another value at a time when a value is known to have been there, before and after.
fn meanwhile(kept: &[Kept], at_first: &dyn Fn(Value) -> bool, words: &Words) -> Option<Told> {
    let say = |kept: &Kept| words.operation(&kept.op);
    let refused = kept.iter().filter(|kept| kept.op.f == OpFunction::Cas && kept.op.outcome == Outcome::Fail);
    for refused in refused {
        let value = refused.op.a;
        let touches = |kept: &&Kept| found(kept) == Some(value) || wrote(kept) == Some(value);
        let before = kept.iter().filter(touches).find(|kept| by_time(kept, refused));
        let after = kept.iter().filter(|kept| found(kept) == Some(value)).find(|kept| by_time(refused, kept));
        let once = writer(kept, value).is_some() != at_first(value);
        let (Some(after), true) = (after, once && (before.is_some() || at_first(value))) else { continue };
        let shown = words::value(words.values, value);
        let begin = before.map_or(format!("{shown} was the initial value"), &say);
        let sentences = vec![
            format!("{begin}, and {} after that", say(after)),
            format!("{shown} cannot come back, so it was the value all the time in between, but {}", say(refused)),
        ];
        return Some(Told { sentences, ..Told::default() });
    }
    None
}

/// The order of the values that `given` implies contradicts `against`.
fn contradiction((one, other): (Value, Value), given: (&Kept, &Kept), against: (&Kept, &Kept), words: &Words) -> Told {
    let (one, other) = (words::value(words.values, one), words::value(words.values, other));
    let sentence = |(before, after): (&Kept, &Kept), one: &str, other: &str| {
        let (before, after) = (words.operation(&before.op), words.operation(&after.op));
        format!("{before} and returned before the next operation was invoked: {after}; so {one} came before {other}")
    };
    Told {
        cycle: vec![link(against.0, against.1, Because::RealTime), link(against.1, against.0, Because::Value)],
        basis: vec![link(given.0, given.1, Because::RealTime)],
        sentences: vec![
            sentence(given, &one, &other),
            sentence(against, &other, &one),
            format!("but each of {one} and {other} was written once, and cannot come back"),
        ],
    }
}
