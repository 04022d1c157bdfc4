//! Values that are written once order operations: the graph behind the checks of registers, and its theory.
//!
//! A **node** is a value, with its writer and its readers. If a writer also read (compare-and-set, read-modify-write), an
//! **edge** leads from the value that it replaced to the value that it wrote. Every value is written once, so a read identifies
//! its writer without guessing.
//!
//! **What happened.** An `ok` operation did, a failed one did not. An indeterminate one counts iff its value was seen. If unseen,
//! it is left out. In a legal order, what follows it is nothing, a plain write, or another operation that is left out. So without
//! it the rest is still legal.
//!
//! **Lines.** An operation that replaces a value directly follows that value's writer. So two such operations for one value
//! contradict each other (a fork), and a value that descends from itself has no beginning (see [`circles`]). Without these, only
//! lines remain. A line begins with the initial value, or with a write, which may follow any operation. On a line the order is
//! given: each writer, the reads of its value, the next writer. It agrees with real time iff no operation completed before an
//! earlier one was invoked. Reads of one value are unordered.
//!
//! **Between lines.** Values do not come back, so nothing fits inside a line: whole lines are ordered, as blocks. A must come
//! before B iff an operation in A completed before one in B was invoked, that is, iff f(A) < s(B). Here f is the least completion
//! and s the greatest invocation (its [`Zone`]). The initial value's block comes first: its f precedes all. An order exists iff
//! no two blocks must each precede the other. Proof: take a longer cycle, and in it the block M with the greatest s. Every block
//! X of the cycle precedes a next one, so f(X) < s(next) <= s(M), and X must precede M. M must precede its own next, N, which is
//! such an X: M and N are a cycle of two. Without cycles there is an order, in which no operation of an earlier block was invoked
//! after one of a later block completed.
//!
//! **Two questions** are asked of the graph:
//! - *Is there a legal order?* [`crate::linear_time`] stops at the first contradiction, in time linear in the
//!   operations. So it keeps only one successor of each value, and only those reads that bound it.
//! - *What was lost?* The checker of a run continues and keeps every read and all branches of a fork. It reports which branches
//!   survived, which reads were stale, and which clients were affected.
//!
//! Sources: Gibbons and Korach (Testing shared memories, SIAM J. Comput. 1997) for zones of single writes; Emmi and
//! Enea for why unique values suffice.

/// The extent of a block of operations in real time, which is all that matters for the order of blocks. `T` is a time, `W` names
/// an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone<T, W = ()> {
    /// f: the least completion.
    pub first: T,
    /// The operation with that completion.
    pub first_by: W,
    /// s: the greatest invocation.
    pub last: T,
    /// The operation with that invocation.
    pub last_by: W,
}

impl<T: Copy + Ord, W: Copy> Zone<T, W> {
    /// The zone of a block without operations. No invocation is before `start`, no completion after `never`.
    pub fn empty(start: T, never: T, nobody: W) -> Zone<T, W> {
        Zone { first: never, first_by: nobody, last: start, last_by: nobody }
    }

    /// Adds the completion of an operation of the block.
    #[inline]
    pub fn complete(&mut self, time: T, by: W) {
        if time < self.first {
            (self.first, self.first_by) = (time, by);
        }
    }

    /// Adds the invocation of an operation of the block.
    #[inline]
    pub fn invoke(&mut self, time: T, by: W) {
        if time > self.last {
            (self.last, self.last_by) = (time, by);
        }
    }

    /// True if the block needs the object to itself from f to s. If not, one time between s and f is enough.
    #[inline]
    pub fn is_forward(&self) -> bool {
        self.first < self.last
    }

    /// True if an operation in this block completed before one in the other was invoked.
    #[inline]
    pub fn must_precede(&self, other: &Zone<T, W>) -> bool {
        self.first < other.last
    }

    /// True if each must precede the other: both are forward and overlap, or a backward one lies inside a forward one.
    #[inline]
    pub fn clashes_with(&self, other: &Zone<T, W>) -> bool {
        self.must_precede(other) && other.must_precede(self)
    }
}

/// Finds pairs of blocks that must each precede the other, the later block second. The blocks must come by falling s.
///
/// While no two forward zones overlap, only the last forward zone so far can reach down to the next s. So the first pair is
/// right, and there is a pair exactly if the blocks have no order. Further pairs clash too, but more pairs may clash.
pub fn clashes<'b, B: 'b, T: Copy + Ord + 'b, W: Copy + 'b>(
    blocks: impl Iterator<Item = &'b B>,
    zone: impl Fn(&B) -> &Zone<T, W>,
) -> impl Iterator<Item = (&'b B, &'b B)> {
    let mut later: Option<&B> = None;
    blocks.filter_map(move |block| {
        let clash = later.filter(|later| zone(block).clashes_with(zone(later)));
        if zone(block).is_forward() {
            later = Some(block);
        }
        clash.map(|later| (block, later))
    })
}

/// The cycles among values from 0 to `count`; `replaced` returns the value that each one replaced. Each cycle lists its values in
/// the order in which they follow one another. Linear.
pub fn circles(count: usize, replaced: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    let mut circles = Vec::new();
    // For each value, the walk (from 1) that met it first.
    let mut met_on = vec![0; count];
    for start in 0..count {
        let mut walk = Vec::new();
        let mut next = Some(start);
        while let Some(value) = next.filter(|value| met_on[*value] == 0) {
            met_on[value] = start + 1;
            walk.push(value);
            next = replaced(value);
        }
        if let Some(again) = next.filter(|value| met_on[*value] == start + 1) {
            let from = walk.iter().position(|value| *value == again).unwrap_or(0);
            circles.push(walk.drain(from..).rev().collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(first: u32, last: u32) -> Zone<u32> {
        Zone { first, first_by: (), last, last_by: () }
    }

    #[test]
    fn zones_clash_where_each_must_precede_the_other() {
        let found = |zones: &[Zone<u32>]| clashes(zones.iter(), |zone| zone).count();
        assert_eq!(found(&[zone(5, 8), zone(1, 4)]), 0);
        assert_eq!(found(&[zone(3, 8), zone(1, 4)]), 1);
        // Inside a forward zone, and just touching it.
        assert_eq!(found(&[zone(2, 9), zone(5, 4)]), 1);
        assert_eq!(found(&[zone(2, 9), zone(9, 4)]), 0);
        // Two blocks that need only one time each.
        assert_eq!(found(&[zone(9, 4), zone(8, 3)]), 0);
    }

    #[test]
    fn a_value_that_descends_from_itself_is_on_a_circle() {
        let found = |replaced: &[Option<usize>]| circles(replaced.len(), |value| replaced[value]);
        assert!(found(&[None, Some(0), Some(1), Some(0)]).is_empty());
        assert_eq!(found(&[None, Some(3), Some(1), Some(2), Some(3), Some(5)]), [vec![2, 3, 1], vec![5]]);
    }
}
