//! The truth about small histories: every order is tried.

use linearizability::history::{Op, OpFunction, Outcome, Value};

/// Whether some order of the operations is legal and agrees with real time. Up to ten that may have happened.
///
/// For each set of operations, which values the object can hold once exactly those took effect. An `ok` operation must
/// take effect, an indeterminate one may. A compare-and-set that failed must have found something else than it expected;
/// whatever else failed does not matter.
pub fn linearizable(ops: &[Op], initial: Value) -> bool {
    let ops: Vec<Op> =
        ops.iter().copied().filter(|op| op.outcome != Outcome::Fail || op.f == OpFunction::Cas).collect();
    assert!(ops.len() <= 10, "too many operations to try every order");
    // What can be held, with one value that is none of the others: nobody knows what was written, and it may be that.
    let mut values = vec![initial, Value(u32::MAX - 1)];
    values.extend(ops.iter().flat_map(|op| [op.a, op.b]).filter(|value| *value != Value::UNKNOWN));
    values.sort_unstable();
    values.dedup();
    let number = |value: Value| 1_u32 << values.iter().position(|known| *known == value).expect("a value");
    let anything = (1 << values.len()) - 1;
    let certain = set(&ops, |op| op.outcome != Outcome::Info);
    let before: Vec<usize> = ops
        .iter()
        .map(|op| set(&ops, |other| other.outcome != Outcome::Info && other.completed < op.invoked))
        .collect();
    let mut states = vec![0_u32; 1 << ops.len()];
    states[0] = number(initial);
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
            let fits = match observed(op) {
                _ if op.outcome == Outcome::Fail && op.a != Value::UNKNOWN => states[done] & !number(op.a),
                Some(value) => states[done] & number(value),
                None => states[done],
            };
            states[done | 1 << place] |= match written(op) {
                _ if fits == 0 || op.outcome == Outcome::Fail => fits,
                Some(Value::UNKNOWN) => anything,
                Some(value) => number(value),
                None => fits,
            };
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
