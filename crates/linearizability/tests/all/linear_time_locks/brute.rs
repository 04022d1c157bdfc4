//! Every order of a few operations, tried: what the fast checks are compared with. Slow, short, and written without a
//! look at them.

use linearizability::history::{Content, NEVER, Op, OpFunction, Outcome, Value, Values};

/// What the operations are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Owner,
    Fenced,
    Counter,
    Set,
    List,
}

/// Is there a legal order that agrees with real time? At most 20 operations.
pub fn linearizable(kind: Kind, ops: &[Op], values: &Values) -> bool {
    let ops: Vec<&Op> = ops.iter().filter(|op| op.outcome != Outcome::Fail).collect();
    let completed = |op: &Op| if op.outcome == Outcome::Ok { op.completed } else { NEVER };
    let before: Vec<u32> = ops.iter().map(|op| mask(ops.iter().map(|other| completed(other) < op.invoked))).collect();
    let needed = mask(ops.iter().map(|op| op.outcome == Outcome::Ok));
    let mut states: Vec<Vec<u64>> = vec![Vec::new(); 1 << ops.len()];
    states[0].push(initial(kind));
    for done in 0..states.len() {
        if states[done].is_empty() {
            continue;
        }
        if done as u32 & needed == needed {
            return true;
        }
        for (place, op) in ops.iter().enumerate() {
            let next = done | 1 << place;
            if next == done || before[place] & !(done as u32) != 0 {
                continue;
            }
            for which in 0..states[done].len() {
                if let Some(state) = step(kind, states[done][which], op, values)
                    && !states[next].contains(&state)
                {
                    states[next].push(state);
                }
            }
        }
    }
    false
}

fn mask(bits: impl Iterator<Item = bool>) -> u32 {
    bits.enumerate().fold(0, |mask, (place, bit)| mask | u32::from(bit) << place)
}

/// Mutexes: the holder, from 1, in the low byte, the last token above it. Counter: the number. Set: a bit for each value. List:
/// the values, four bits each, the last one lowest.
pub fn initial(_: Kind) -> u64 {
    0
}

/// What an operation does; none if it does not fit. Indeterminate ones fit any result.
pub fn step(kind: Kind, state: u64, op: &Op, values: &Values) -> Option<u64> {
    let owner = u64::from(op.process) + 1;
    match (kind, op.f) {
        (Kind::Owner | Kind::Fenced, OpFunction::Acquire) => {
            if state & 0xff != 0 {
                return None;
            }
            let last = state >> 8;
            match values.int(op.a) {
                Some(token) if kind == Kind::Fenced && op.outcome == Outcome::Ok => {
                    (token as u64 > last).then_some((token as u64) << 8 | owner)
                }
                _ => Some(state | owner),
            }
        }
        (Kind::Owner | Kind::Fenced, _) => (state & 0xff == owner).then_some(state & !0xff),
        (_, OpFunction::Read) if op.outcome != Outcome::Ok => Some(state),
        (_, OpFunction::Read) => (seen(kind, op.a, values) == Some(state)).then_some(state),
        (Kind::Counter, _) => Some((state as i64).wrapping_add(values.int(op.a)?) as u64),
        (Kind::Set, _) => Some(state | 1 << op.a.0),
        (Kind::List, _) => Some(state << 4 | u64::from(op.a.0)),
    }
}

fn seen(kind: Kind, value: Value, values: &Values) -> Option<u64> {
    match (kind, values.content(value)?) {
        (Kind::Counter, Content::Int(number)) => Some(*number as u64),
        (Kind::Set, Content::List(list)) => Some(list.iter().fold(0, |set, value| set | 1 << value.0)),
        (Kind::List, Content::List(list)) => Some(list.iter().fold(0, |list, value| list << 4 | u64::from(value.0))),
        _ => None,
    }
}
