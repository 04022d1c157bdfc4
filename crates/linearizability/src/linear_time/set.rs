//! A set that grows: elements are added, and a read shows all of it.

use super::NONE;
use super::elements::{Elements, in_words, shown};
use super::levels::against_time;
use crate::Answer;
use crate::history::{Op, OpFunction, Outcome, Value, Values};

/// Decides an initially empty set, given its operations in the order of their invocations. Each element is added once.
///
/// Exact. The set only grows, so reads must form a chain by inclusion. The chain determines the level of each read and of each
/// element that a read saw; other elements come last (or, if indeterminate, never). Only real time remains to be checked (see the
/// module `levels`). Linear in the total length of the distinct reads. Undecided if an element is added twice, or if a read shows
/// one twice.
pub fn set(ops: &[Op], values: &Values) -> Answer {
    decide(ops, values).unwrap_or_else(|answer| answer)
}

/// The error case exists only so that `?` returns early.
fn decide(ops: &[Op], values: &Values) -> Result<Answer, Answer> {
    let elements = Elements::of(ops, values, OpFunction::Add)?;
    let mut reads = Vec::with_capacity(elements.reads.len());
    for place in &elements.reads {
        reads.push((shown(&ops[*place as usize], values)?, *place));
    }
    reads.sort_by_key(|(set, _)| set.len());

    // The level of each element: even levels are for reads, odd ones for elements added before the next read.
    let mut joined = vec![NONE; values.len()];
    let mut shown_by = vec![NONE; values.len()];
    let mut levels = vec![NONE; ops.len()];
    // The read at each even level.
    let mut chain: Vec<u32> = Vec::new();
    let (mut level, mut size) = (0_u32, 0_usize);
    let mut previous = None;
    for (set, place) in &reads {
        let value = ops[*place as usize].a;
        if previous.replace(value) == Some(value) {
            levels[*place as usize] = level;
            continue;
        }
        let mut known = 0;
        for element in *set {
            if elements.put(*element).is_none() {
                let op = &ops[*place as usize];
                let element = in_words(values, *element);
                return Err(Answer::refused(
                    vec![*place],
                    format!("line {} shows {element}, which no operation added", op.line),
                ));
            }
            let element = element.0 as usize;
            if std::mem::replace(&mut shown_by[element], *place) == *place {
                let line = ops[*place as usize].line;
                return Err(Answer::Undecided(format!("the read of line {line} shows an element twice")));
            }
            known += usize::from(joined[element] != NONE);
        }
        if known < size {
            return Err(no_chain(ops, values, &elements, (*place, set), &joined, &shown_by, &chain));
        }
        if chain.is_empty() || set.len() > size {
            level = 2 * chain.len() as u32 + 2;
            chain.push(*place);
            size = set.len();
            for element in set.iter().filter(|element| joined[element.0 as usize] == NONE).collect::<Vec<_>>() {
                joined[element.0 as usize] = level - 1;
            }
        }
        levels[*place as usize] = level;
    }

    let unseen = 2 * chain.len() as u32 + 1;
    for (element, by) in elements.by.iter().enumerate().filter(|(_, by)| **by != NONE) {
        let seen = joined[element] != NONE;
        if seen || ops[*by as usize].outcome == Outcome::Ok {
            levels[*by as usize] = if seen { joined[element] } else { unseen };
        }
    }
    let Some((early, late)) = against_time(ops, &levels, unseen as usize + 1) else {
        return Ok(Answer::Linearizable);
    };
    Ok(contradiction(ops, values, (early, late), &levels, &chain))
}

/// A read that lacks an element of another read with no more elements.
fn no_chain(
    ops: &[Op],
    values: &Values,
    elements: &Elements,
    (place, set): (u32, &[Value]),
    joined: &[u32],
    shown_by: &[u32],
    chain: &[u32],
) -> Answer {
    let lacks = (0..joined.len()).find(|element| joined[*element] != NONE && shown_by[*element] != place);
    let has = set.iter().find(|element| joined[element.0 as usize] == NONE);
    let (Some(lacks), Some(has), Some(other)) = (lacks.map(|element| Value(element as u32)), has, chain.last()) else {
        return Answer::Undecided("of two reads, neither contains all elements of the other".into());
    };
    let operations = [Some(place), Some(*other), elements.put(lacks), elements.put(*has)];
    let reason = format!(
        "line {} shows {} and not {}, but line {} shows the second and not the first",
        ops[place as usize].line,
        in_words(values, *has),
        in_words(values, lacks),
        ops[*other as usize].line
    );
    Answer::refused(operations.into_iter().flatten().collect(), reason)
}

/// Two operations with one order in the reads and the other in real time, and the read that proves it.
fn contradiction(ops: &[Op], values: &Values, (early, late): (u32, u32), levels: &[u32], chain: &[u32]) -> Answer {
    let (first, second) = (&ops[early as usize], &ops[late as usize]);
    let name = |op: &Op| in_words(values, op.a);
    let (mut operations, lines) = (vec![early, late], (first.line, second.line));
    let reason = match (first.f == OpFunction::Read, second.f == OpFunction::Read) {
        (true, true) => format!("line {} read an element that is missing from line {}", lines.0, lines.1),
        (true, false) => format!("line {} shows {} before it was added in line {}", lines.0, name(second), lines.1),
        (false, true) => {
            format!("{} had been added in line {} but is missing in line {}", name(first), lines.0, lines.1)
        }
        (false, false) => {
            // Level 2k+1 is for elements added before the read at level 2k+2, which is number k of the chain.
            let read = chain.get(levels[late as usize] as usize / 2).copied();
            operations.extend(read);
            let line = read.map_or(0, |read| ops[read as usize].line);
            format!("line {line} shows {} but not {}, which had been added before", name(second), name(first))
        }
    };
    Answer::refused(operations, reason)
}
