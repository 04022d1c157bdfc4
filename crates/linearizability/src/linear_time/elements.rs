//! The operation that added each element. The checks of sets and lists start from this.

use crate::Answer;
use crate::history::{Content, Op, OpFunction, Outcome, Value, Values};

use super::NONE;

/// The operations that add elements, by element, and the reads with a known result.
pub(super) struct Elements {
    /// For each value, the place of the operation that added it; [`NONE`] if there is none.
    pub by: Vec<u32>,
    /// Places of the reads.
    pub reads: Vec<u32>,
}

impl Elements {
    /// Linear. Undecided if an element was added twice, or if an operation does not belong to the object.
    pub fn of(ops: &[Op], values: &Values, put: OpFunction) -> Result<Elements, Answer> {
        let mut elements = Elements { by: vec![NONE; values.len()], reads: Vec::new() };
        for (place, op) in ops.iter().enumerate().filter(|(_, op)| op.outcome != Outcome::Fail) {
            if op.f == OpFunction::Read {
                // A read whose result is unknown constrains nothing.
                if op.outcome == Outcome::Ok && op.a != Value::UNKNOWN {
                    elements.reads.push(place as u32);
                }
            } else if op.f != put {
                return Err(Answer::Undecided(format!("line {} is not an operation of this object", op.line)));
            } else {
                match elements.by.get_mut(op.a.0 as usize) {
                    Some(by) if *by == NONE => *by = place as u32,
                    Some(_) => {
                        return Err(Answer::Undecided(format!("line {} adds an element a second time", op.line)));
                    }
                    None => return Err(Answer::Undecided(format!("line {} adds an unknown element", op.line))),
                }
            }
        }
        Ok(elements)
    }

    /// The operation that added an element.
    pub fn put(&self, element: Value) -> Option<u32> {
        self.by.get(element.0 as usize).copied().filter(|place| *place != NONE)
    }
}

/// The list in a read. Undecided if the value is not a list.
pub(super) fn shown<'a>(op: &Op, values: &'a Values) -> Result<&'a [Value], Answer> {
    match values.content(op.a) {
        Some(Content::List(list)) => Ok(list),
        Some(Content::Nil) => Ok(&[]),
        _ => Err(Answer::Undecided(format!("the read on line {} did not return a list", op.line))),
    }
}

/// An element in words.
pub(super) fn in_words(values: &Values, element: Value) -> String {
    match values.content(element) {
        Some(Content::Int(number)) => number.to_string(),
        Some(Content::Text(text)) => format!("\"{text}\""),
        _ => format!("value {}", element.0),
    }
}
