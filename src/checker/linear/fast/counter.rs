//! A counter: numbers are added, reads show the sum.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::elements::refuse;
use super::levels::{NONE, against_time, completed};
use crate::checker::linear::Answer;
use crate::history::Outcome;
use crate::history::table::{Op, OpFunction, Value, Values};

/// Decides a counter, given its operations in the order of their invocations. It begins with `initial`, or with 0 where
/// that is no number.
///
/// First the bounds: a read shows at least what was certainly added before it and at most what was possibly added (less
/// and more if numbers are negative). That is necessary only. It is also enough where no number can have been added
/// during a read or be missing from it. Where all numbers that are added are equal, as in a counter of events, the check
/// is exact: reads then tell how many additions came before each, and it remains to give every addition a stretch
/// between two reads, so many to each, which is scheduling jobs of one length with earliest and latest times: always
/// the one with the earliest deadline (Jackson 1955). Undecided otherwise. O(n log n), linear but for the heap.
pub fn counter(ops: &[Op], values: &Values, initial: Value) -> Answer {
    match (Counter { ops, values }).decide(initial) {
        Ok(answer) | Err(answer) => answer,
    }
}

struct Counter<'a> {
    ops: &'a [Op],
    values: &'a Values,
}

/// Sums of negative and of positive numbers up to any place in the order of events.
struct Sums {
    /// The places, and what had been summed up there.
    sums: Vec<(u32, (i64, i64))>,
}

impl Sums {
    /// Of numbers at places in order.
    fn of(numbers: Vec<(u32, i64)>) -> Sums {
        let mut sum = (0, 0);
        let add = |(at, number): (u32, i64)| {
            sum = (sum.0 + number.min(0), sum.1 + number.max(0));
            (at, sum)
        };
        Sums { sums: numbers.into_iter().map(add).collect() }
    }

    fn before(&self, place: u32) -> (i64, i64) {
        let count = self.sums.partition_point(|(at, _)| *at < place);
        count.checked_sub(1).map_or((0, 0), |last| self.sums[last].1)
    }
}

/// Reads that show the same, and what real time says of them.
#[derive(Clone, Copy)]
struct Group {
    /// How many additions came before them.
    count: i64,
    /// The read that completed first of these and all later groups, and when.
    first: (u32, u32),
    /// The read that was invoked last of these and all earlier groups, and when.
    last: (u32, u32),
}

impl Counter<'_> {
    /// An error only so that `?` ends it early.
    fn decide(&self, initial: Value) -> Result<Answer, Answer> {
        let start = self.values.int(initial).unwrap_or(0);
        let (mut adds, mut reads) = (Vec::new(), Vec::new());
        for (place, op) in self.ops.iter().enumerate().filter(|(_, op)| op.outcome != Outcome::Fail) {
            match op.f {
                OpFunction::Add => {
                    let number = self.number(op.a)?;
                    if number != 0 {
                        adds.push((place as u32, number));
                    }
                }
                OpFunction::Read if op.outcome != Outcome::Ok || op.a == Value::UNKNOWN => {}
                OpFunction::Read => reads.push((place as u32, self.number(op.a)?)),
                _ => return Err(Answer::Undecided(format!("line {} is no operation on a counter", op.line))),
            }
        }
        let numbers = adds.iter().chain(&reads).map(|(_, number)| number.unsigned_abs());
        if numbers.chain([start.unsigned_abs()]).fold(0_u64, u64::saturating_add) > i64::MAX as u64 / 2 {
            return Err(Answer::Undecided("numbers too large to be added".into()));
        }
        let exact = self.bounds(start, &adds, &reads)?;
        if exact {
            return Ok(Answer::Linearizable);
        }
        let amount = adds.first().map_or(1, |(_, number)| *number);
        if adds.iter().any(|(_, number)| *number != amount) {
            return Err(Answer::Undecided("the bounds hold, but they are necessary only".into()));
        }
        let groups = self.groups(start, amount, &reads)?;
        self.schedule(&groups, &adds)
    }

    fn op(&self, place: u32) -> &Op {
        &self.ops[place as usize]
    }

    fn number(&self, value: Value) -> Result<i64, Answer> {
        self.values.int(value).ok_or_else(|| Answer::Undecided("a counter of something other than numbers".into()))
    }

    /// Refuses a read outside its bounds; says whether least and greatest were the same at every read.
    fn bounds(&self, start: i64, adds: &[(u32, i64)], reads: &[(u32, i64)]) -> Result<bool, Answer> {
        let mut ended: Vec<(u32, i64)> = adds.iter().map(|(place, add)| (completed(self.op(*place)), *add)).collect();
        ended.sort_by_key(|(end, _)| *end);
        let (ended, begun) =
            (Sums::of(ended), Sums::of(adds.iter().map(|(p, add)| (self.op(*p).invoked, *add)).collect()));
        let mut exact = true;
        for (place, shown) in reads {
            let op = self.op(*place);
            let (sure, possible) = (ended.before(op.invoked), begun.before(op.completed));
            let (least, greatest) = (start + sure.1 + possible.0, start + sure.0 + possible.1);
            exact &= least == greatest;
            if *shown < least || *shown > greatest {
                let reason = if least == greatest {
                    format!("line {} shows {shown}, but the sum was {least}", op.line)
                } else {
                    format!("line {} shows {shown}, but the sum was between {least} and {greatest}", op.line)
                };
                return Err(refuse(self.proof(start, *place, *shown, adds), reason));
            }
        }
        Ok(exact)
    }

    /// A read outside its bounds with the additions that it needs for that: those invoked last first, until the bounds of
    /// what was taken exclude what it shows. The read alone if it shows anything but the initial value.
    fn proof(&self, start: i64, read: u32, shown: i64, adds: &[(u32, i64)]) -> Vec<u32> {
        let op = self.op(read);
        let mut operations = vec![read];
        let (mut least, mut greatest) = (start, start);
        for (place, number) in adds.iter().rev() {
            if shown < least || shown > greatest {
                break;
            }
            let (add, number) = (self.op(*place), *number);
            if completed(add) < op.invoked {
                (least, greatest) = (least + number, greatest + number);
                operations.push(*place);
            } else if add.invoked < op.completed {
                (least, greatest) = (least + number.min(0), greatest + number.max(0));
                operations.push(*place);
            }
        }
        operations
    }

    /// The reads by what they show, in the order of additions, checked against real time.
    fn groups(&self, start: i64, amount: i64, reads: &[(u32, i64)]) -> Result<Vec<Group>, Answer> {
        let mut counted = Vec::with_capacity(reads.len());
        for (place, shown) in reads {
            if (shown - start) % amount != 0 {
                let line = self.op(*place).line;
                return Err(refuse(vec![*place], format!("line {line} shows {shown}, no sum of numbers added")));
            }
            counted.push(((shown - start) / amount, *place));
        }
        counted.sort_by_key(|(count, _)| *count);
        let mut levels = vec![NONE; self.ops.len()];
        let mut groups: Vec<Group> = Vec::new();
        for (count, place) in &counted {
            let op = self.op(*place);
            let (first, last) = ((op.completed, *place), (op.invoked, *place));
            match groups.last_mut() {
                Some(group) if group.count == *count => {
                    group.first = group.first.min(first);
                    group.last = group.last.max(last);
                }
                _ => groups.push(Group { count: *count, first, last }),
            }
            levels[*place as usize] = groups.len() as u32 - 1;
        }
        if let Some((early, late)) = against_time(self.ops, &levels, groups.len()) {
            let (early_line, late_line) = (self.op(early).line, self.op(late).line);
            let reason = format!("line {late_line} shows fewer additions than line {early_line} had shown before");
            return Err(refuse(vec![early, late], reason));
        }
        for place in 1..groups.len() {
            groups[place].last = groups[place].last.max(groups[place - 1].last);
        }
        for place in (1..groups.len()).rev() {
            groups[place - 1].first = groups[place - 1].first.min(groups[place].first);
        }
        Ok(groups)
    }

    /// Gives every addition a stretch: number k ends at group k, the last one is after all reads.
    fn schedule(&self, groups: &[Group], adds: &[(u32, i64)]) -> Result<Answer, Answer> {
        let mut waiting: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
        // What was given a stretch: the stretch, the deadline, the addition.
        let mut given: Vec<(u32, u32, u32)> = Vec::with_capacity(adds.len());
        let mut next = 0;
        for stretch in 0..=groups.len() {
            let group = groups.get(stretch);
            // Not before reads that completed before it was invoked, not after reads that were invoked after it completed.
            while let Some((place, _)) = adds.get(next)
                && group.is_none_or(|group| self.op(*place).invoked < group.first.0)
            {
                let end = completed(self.op(*place));
                let deadline = groups.partition_point(|group| group.last.0 < end);
                if deadline < stretch {
                    return Err(self.too_many(&groups[deadline], Some(&groups[deadline]), &[*place]));
                }
                waiting.push(Reverse((deadline as u32, *place)));
                next += 1;
            }
            let Some(group) = group else { break };
            while (given.len() as i64) < group.count {
                let Some(Reverse((deadline, place))) = waiting.pop() else {
                    // The bounds exclude it: all that was invoked before some read of so many or more is given.
                    return Err(Answer::Undecided("fewer additions than the bounds allow".into()));
                };
                given.push((stretch as u32, deadline, place));
            }
            if waiting.peek().is_some_and(|Reverse((deadline, _))| *deadline <= stretch as u32) {
                // After the last stretch that had time for something less urgent, only these were waiting.
                let urgent = |deadline: u32| deadline <= stretch as u32;
                let from = given.iter().rposition(|(_, deadline, _)| !urgent(*deadline));
                let since = from.map(|from| given[from].0);
                let later = given.iter().filter(|(at, _, _)| since.is_none_or(|since| *at > since));
                let left = waiting.iter().filter(|Reverse((deadline, _))| urgent(*deadline));
                let all: Vec<u32> =
                    later.map(|(_, _, place)| *place).chain(left.map(|Reverse((_, place))| *place)).collect();
                let before = since.and_then(|since| groups.get(since as usize));
                return Err(self.too_many(group, before, &all));
            }
        }
        Ok(Answer::Linearizable)
    }

    /// More additions between two reads (or before one) than the reads tell apart.
    fn too_many(&self, group: &Group, before: Option<&Group>, adds: &[u32]) -> Answer {
        let late = self.op(group.last.1);
        // One more than the reads tell apart is enough.
        let enough = group.count - before.map_or(0, |before| before.count) + 1;
        let mut operations: Vec<u32> = adds.iter().copied().take(enough.max(1) as usize).collect();
        operations.push(group.last.1);
        let mut since = String::new();
        if let Some(before) = before {
            operations.push(before.first.1);
            since = format!(" since line {}", self.op(before.first.1).line);
        }
        let reason = format!("line {} does not show all {} additions{since} that had ended", late.line, adds.len());
        refuse(operations, reason)
    }
}
