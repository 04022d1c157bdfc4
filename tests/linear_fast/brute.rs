//! The truth about small histories: every order is tried.

use redjepsen::history::Outcome;
use redjepsen::history::table::{Op, OpFunction, Value};

/// Whether some order of the operations is legal and agrees with real time. Up to ten that may have happened.
///
/// For each set of operations, in which states the object can be once exactly those took effect. An `ok` operation must
/// take effect, an indeterminate one may, a failed one does not.
pub fn linearizable(ops: &[Op], initial: Value) -> bool {
    let ops: Vec<Op> = ops.iter().copied().filter(|op| op.outcome != Outcome::Fail).collect();
    assert!(ops.len() <= 10, "too many operations to try every order");
    // State 0 is the initial value, state i + 1 what operation i wrote.
    let held: Vec<Value> =
        std::iter::once(initial).chain(ops.iter().map(|op| written(op).unwrap_or(initial))).collect();
    let certain = set(&ops, |op| op.outcome == Outcome::Ok);
    let before: Vec<usize> =
        ops.iter().map(|op| set(&ops, |other| other.outcome == Outcome::Ok && other.completed < op.invoked)).collect();
    let mut states = vec![0u16; 1 << ops.len()];
    states[0] = 1;
    for done in 0..states.len() {
        if states[done] == 0 {
            continue;
        }
        if done & certain == certain {
            return true;
        }
        for (place, op) in ops.iter().enumerate() {
            if done & (1 << place) != 0 || before[place] & !done != 0 {
                continue;
            }
            let mut reached = 0;
            for state in (0..held.len()).filter(|state| states[done] & (1 << state) != 0) {
                let fits = observed(op).is_none_or(|value| value == held[state]);
                if fits {
                    reached |= 1 << if written(op).is_some() { place + 1 } else { state };
                }
            }
            states[done | 1 << place] |= reached;
        }
    }
    false
}

fn set(ops: &[Op], belongs: impl Fn(&Op) -> bool) -> usize {
    ops.iter().enumerate().filter(|(_, op)| belongs(op)).map(|(place, _)| 1 << place).sum()
}

/// The value that the operation leaves behind if it happens.
pub fn written(op: &Op) -> Option<Value> {
    match op.f {
        OpFunction::Write => Some(op.a),
        OpFunction::Cas | OpFunction::Rmw => Some(op.b),
        _ => None,
    }
}

/// The value that must be there for the operation to happen, if there is one.
pub fn observed(op: &Op) -> Option<Value> {
    let observes = match op.f {
        OpFunction::Write => false,
        OpFunction::Read => op.outcome == Outcome::Ok,
        _ => true,
    };
    (observes && op.a != Value::UNKNOWN).then_some(op.a)
}
