//! Strings that grow by appending, as in key-value tests (get, put, append): read as the lists that they are.
//!
//! There a read returns one string, the pieces that were put and appended one after another. As a list of these pieces it
//! is an object that the list models know. The pieces can be told apart where none begins with another; where one does,
//! the history is refused rather than guessed at.

use std::collections::HashMap;

use crate::history::Outcome;
use crate::history::table::{Content, Op, OpFunction, Table, Value};

/// Turns what reads returned and writes put into lists, where the history appends text and its reads return text.
pub(super) fn split(table: &mut Table) -> Result<(), String> {
    let is_text = |value| matches!(table.values.content(value), Some(Content::Text(_)));
    let returned = |op: &&Op| op.f == OpFunction::Read && op.outcome == Outcome::Ok;
    let appends = table.operations.iter().any(|op| op.f == OpFunction::Append);
    if !appends || !table.operations.iter().filter(returned).any(|op| is_text(op.a)) {
        return Ok(());
    }
    for op in &table.operations {
        let fits = match op.f {
            OpFunction::Append | OpFunction::Write => is_text(op.a),
            OpFunction::Read => is_text(op.a) || op.a == Value::NIL || op.a == Value::UNKNOWN,
            _ => true,
        };
        if !fits {
            return Err(format!(
                "line {}: a {} of something else than text, in a history whose reads return what was appended as text",
                op.line,
                super::pair::word(op.f)
            ));
        }
    }
    let pieces = pieces(table)?;
    let mut lists: HashMap<Value, Value> = HashMap::new();
    for place in 0..table.operations.len() {
        let op = table.operations[place];
        let changes = match op.f {
            OpFunction::Read => op.outcome == Outcome::Ok,
            OpFunction::Write => true,
            _ => false,
        };
        if changes && op.a != Value::NIL {
            let list = match lists.get(&op.a) {
                Some(list) => *list,
                None => *lists.entry(op.a).or_insert(list_of(table, op.a, &pieces)),
            };
            table.operations[place].a = list;
        }
    }
    Ok(())
}

/// What was put or appended, sorted.
fn pieces(table: &Table) -> Result<Vec<(String, Value)>, String> {
    let mut pieces = Vec::new();
    for op in &table.operations {
        if let (OpFunction::Append | OpFunction::Write, Some(Content::Text(text))) = (op.f, table.values.content(op.a))
        {
            if !text.is_empty() {
                pieces.push((text.clone(), op.a));
            } else if op.f == OpFunction::Append {
                return Err(format!("line {}: an append of nothing", op.line));
            }
        }
    }
    pieces.sort_unstable();
    pieces.dedup();
    // Sorted, whatever begins with a text follows it directly.
    match pieces.windows(2).find(|pair| pair[1].0.starts_with(&pair[0].0)) {
        None => Ok(pieces),
        Some(pair) => Err(format!(
            "the appended `{}` begins with the appended `{}`, so nobody can tell of which the strings that were read consist; \
             write reads as lists of what was appended",
            super::event::clip(&pair[1].0),
            super::event::clip(&pair[0].0)
        )),
    }
}

/// The list of pieces that a string consists of; a rest that nobody put there is one item.
fn list_of(table: &mut Table, value: Value, pieces: &[(String, Value)]) -> Value {
    let mut items = Vec::new();
    if let Some(Content::Text(text)) = table.values.content(value) {
        let mut rest = text.as_str();
        while !rest.is_empty() {
            // No piece begins with another, so the only one that can stand here is the greatest that is not above.
            let above = pieces.partition_point(|(piece, _)| piece.as_str() <= rest);
            match above.checked_sub(1).map(|place| &pieces[place]) {
                Some((piece, value)) if rest.starts_with(piece) => {
                    items.push(*value);
                    rest = &rest[piece.len()..];
                }
                _ => break,
            }
        }
        if !rest.is_empty() {
            let rest = rest.to_owned();
            items.push(table.values.intern_text(&rest));
        }
    }
    table.values.intern_list(&items)
}
