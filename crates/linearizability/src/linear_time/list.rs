//! A list that grows at its end: elements are appended, and a read shows all of it.

use super::NONE;
use super::elements::{Elements, in_words, shown};
use super::levels::against_time;
use crate::Answer;
use crate::history::{Op, OpFunction, Outcome, Values};

/// Decides a list, empty at first, given its operations in the order of invocation. Each element is appended once.
///
/// Exact. Every read must show a prefix of the longest read. The longest read orders the elements that reads saw, and the lengths
/// of reads order the reads among them. Elements that no read saw come last (or, if indeterminate, never). Only real time remains
/// to be checked (see the module `levels`). Linear in the total length of the distinct reads. Undecided if an element is appended
/// twice.
pub fn list_append(ops: &[Op], values: &Values) -> Answer {
    decide(ops, values).unwrap_or_else(|answer| answer)
}

/// The error case exists only so that `?` returns early.
fn decide(ops: &[Op], values: &Values) -> Result<Answer, Answer> {
    let elements = Elements::of(ops, values, OpFunction::Append)?;
    let (mut longest, mut witness) = (&[][..], None);
    for place in &elements.reads {
        let list = shown(&ops[*place as usize], values)?;
        if list.len() > longest.len() {
            (longest, witness) = (list, Some(*place));
        }
    }

    // Reads of n elements are at level 2n; the element at index n (from 0) is at level 2n + 1.
    let mut levels = vec![NONE; ops.len()];
    for (position, element) in longest.iter().enumerate() {
        let (Some(by), Some(read)) = (elements.put(*element), witness) else {
            let line = witness.map_or(0, |read| ops[read as usize].line);
            let element = in_words(values, *element);
            return Err(Answer::refused(
                witness.into_iter().collect(),
                format!("line {line} shows {element}, which no operation appended"),
            ));
        };
        if levels[by as usize] != NONE {
            let (line, element) = (ops[read as usize].line, in_words(values, *element));
            return Err(Answer::refused(vec![by, read], format!("line {line} shows {element} twice")));
        }
        levels[by as usize] = 2 * position as u32 + 1;
    }
    let mut compared = vec![false; values.len()];
    for place in &elements.reads {
        let op = &ops[*place as usize];
        let list = shown(op, values)?;
        levels[*place as usize] = 2 * list.len() as u32;
        if std::mem::replace(&mut compared[op.a.0 as usize], true) {
            continue;
        }
        let differs = list.iter().zip(longest).position(|(one, other)| one != other);
        if let (Some(position), Some(other)) = (differs, witness) {
            let reason = format!(
                "lines {} and {} show different elements at place {}: {} and {}",
                op.line,
                ops[other as usize].line,
                position + 1,
                in_words(values, list[position]),
                in_words(values, longest[position])
            );
            let mut operations = vec![*place, other];
            operations.extend(elements.put(list[position]).into_iter().chain(elements.put(longest[position])));
            return Err(Answer::refused(operations, reason));
        }
    }

    let unseen = 2 * longest.len() as u32 + 1;
    for by in elements.by.iter().filter(|by| **by != NONE) {
        if levels[*by as usize] == NONE && ops[*by as usize].outcome == Outcome::Ok {
            levels[*by as usize] = unseen;
        }
    }
    let Some((early, late)) = against_time(ops, &levels, unseen as usize + 1) else {
        return Ok(Answer::Linearizable);
    };
    Ok(contradiction(ops, values, (early, late), witness))
}

/// Two operations with one order in the reads and the other in real time, and the read that proves it.
fn contradiction(ops: &[Op], values: &Values, (early, late): (u32, u32), witness: Option<u32>) -> Answer {
    let (first, second) = (&ops[early as usize], &ops[late as usize]);
    let name = |op: &Op| in_words(values, op.a);
    let (mut operations, lines) = (vec![early, late], (first.line, second.line));
    let reason = match (first.f == OpFunction::Read, second.f == OpFunction::Read) {
        (true, true) => format!("line {} shows less than line {} had shown before", lines.1, lines.0),
        (true, false) => format!("line {} shows {} before it was appended in line {}", lines.0, name(second), lines.1),
        (false, true) => {
            format!("{} had been appended in line {} but is missing in line {}", name(first), lines.0, lines.1)
        }
        (false, false) => {
            operations.extend(witness);
            let line = witness.map_or(0, |read| ops[read as usize].line);
            format!(
                "{} was appended before {}, but line {line} shows them in the opposite order",
                name(first),
                name(second)
            )
        }
    };
    Answer::refused(operations, reason)
}
