//! Objects whose reads show which part of the order each operation belongs to: sets, lists, counters.
//!
//! Suppose each operation has a level, and the order within a level does not matter. Then a legal order exists exactly if no
//! operation of a higher level completed before one of a lower level was invoked. Real time orders the operations as
//! intervals. So any order of levels that does not contradict real time can be refined to agree with real time.

use super::NONE;
use crate::history::Op;

/// Two operations whose levels contradict real time: first the operation of the higher level, which completed before the other
/// was invoked. `levels` has one entry per operation, all below `count`; [`NONE`] leaves an operation out. Linear.
pub(super) fn against_time(ops: &[Op], levels: &[u32], count: usize) -> Option<(u32, u32)> {
    // For each level, the operation that completed first and the one that was invoked last.
    let mut first = vec![NONE; count];
    let mut last = vec![NONE; count];
    for (place, (op, level)) in ops.iter().zip(levels).enumerate() {
        if *level == NONE {
            continue;
        }
        let (first, last) = (&mut first[*level as usize], &mut last[*level as usize]);
        if *first == NONE || op.happened_by() < ops[*first as usize].happened_by() {
            *first = place as u32;
        }
        // Operations are in the order of their invocations.
        *last = place as u32;
    }
    let mut higher = NONE;
    for level in (0..count).rev() {
        if let (Some(early), Some(late)) = (ops.get(higher as usize), ops.get(last[level] as usize))
            && early.happened_by() < late.invoked
        {
            return Some((higher, last[level]));
        }
        if let Some(op) = ops.get(first[level] as usize)
            && ops.get(higher as usize).is_none_or(|early| op.happened_by() < early.happened_by())
        {
            higher = first[level];
        }
    }
    None
}
