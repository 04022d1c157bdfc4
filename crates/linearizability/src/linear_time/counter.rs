//! A counter: numbers are added, reads show the sum.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::NONE;
use crate::Answer;
use crate::history::{NEVER, Op, OpFunction, Outcome, Value, Values};

/// Decides a counter, given its operations in the order of their invocations. It starts at `initial`, or at 0 if that
/// is not a number.
///
/// The bounds come first. A read shows at least the sum of certain additions before it, and at most the sum of possible ones
/// (vice versa for negative numbers). This is necessary, and it is sufficient if the two bounds agree at every read. If all added
/// numbers are equal, as in a counter of events, the check is exact. Reads then show how many additions came before each. Every
/// addition must be placed in a stretch between two reads, with a fixed number per stretch. That is scheduling jobs of unit
/// length with release times and deadlines: earliest deadline first (Jackson 1955). Otherwise undecided. Linear, except for a
/// heap about as large as the number of clients; n log n if most events belong to other keys.
pub fn counter(ops: &[Op], values: &Values, initial: Value) -> Answer {
    match (Counter { ops, values }).decide(initial) {
        Ok(answer) | Err(answer) => answer,
    }
}

struct Counter<'a> {
    ops: &'a [Op],
    values: &'a Values,
}

/// Reads that show the same number, and what real time says about them.
#[derive(Clone, Copy)]
struct Group {
    /// The number of additions before them.
    count: i64,
    /// Among these and all later groups, the read that completed first, and its completion.
    first: (u32, u32),
    /// Among these and all earlier groups, the read that was invoked last, and its invocation.
    last: (u32, u32),
}

impl Counter<'_> {
    /// The error case exists only so that `?` returns early.
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
                _ => return Err(Answer::Undecided(format!("line {} is not an operation on a counter", op.line))),
            }
        }
        let numbers = adds.iter().chain(&reads).map(|(_, number)| number.unsigned_abs());
        if numbers.chain([start.unsigned_abs()]).fold(0_u64, u64::saturating_add) > i64::MAX as u64 / 2 {
            return Err(Answer::Undecided("numbers too large to be added".into()));
        }
        let ended = self.by_completion(&adds);
        let exact = self.bounds(start, &adds, &ended, &reads)?;
        if exact {
            return Ok(Answer::Linearizable);
        }
        let amount = adds.first().map_or(1, |(_, number)| *number);
        if adds.iter().any(|(_, number)| *number != amount) {
            return Err(Answer::Undecided("the bounds hold, but they do not prove that an order exists".into()));
        }
        let groups = self.groups(start, amount, adds.len(), &reads)?;
        let deadlines = self.deadlines(&groups, &adds, &ended);
        self.schedule(&groups, &adds, &deadlines)
    }

    fn op(&self, place: u32) -> &Op {
        &self.ops[place as usize]
    }

    fn number(&self, value: Value) -> Result<i64, Answer> {
        self.values.int(value).ok_or_else(|| Answer::Undecided("the counter contains values other than numbers".into()))
    }

    /// The indices of the completed operations of a list, in the order of completion.
    fn by_completion(&self, list: &[(u32, i64)]) -> Vec<u32> {
        let completed = |number: u32| self.op(list[number as usize].0).happened_by();
        let mut ended: Vec<u32> = (0..list.len() as u32).filter(|number| completed(*number) != NEVER).collect();
        let places = || ended.iter().map(|number| completed(*number));
        let (least, greatest) = (places().min().unwrap_or(0), places().max().unwrap_or(0));
        let span = (greatest - least) as usize + 1;
        // Places in the order of events are distinct, so no sort is needed unless most belong to other keys.
        if span <= 8 * list.len() {
            let mut at = vec![NONE; span];
            let is_taken =
                |number: &u32| std::mem::replace(&mut at[(completed(*number) - least) as usize], *number) != NONE;
            if !ended.iter().any(is_taken) {
                at.retain(|number| *number != NONE);
                return at;
            }
        }
        ended.sort_unstable_by_key(|number| completed(*number));
        ended
    }

    /// Refuses a read outside its bounds. Returns whether the two bounds were equal at every read.
    fn bounds(&self, start: i64, adds: &[(u32, i64)], ended: &[u32], reads: &[(u32, i64)]) -> Result<bool, Answer> {
        // The sum of certain additions before each read was invoked; negative and positive numbers separately.
        let (mut sum, mut ended) = ((0, 0), ended.iter().map(|number| &adds[*number as usize]).peekable());
        let mut sure = Vec::with_capacity(reads.len());
        for (read, _) in reads {
            while let Some(&(_, number)) =
                ended.next_if(|(add, _)| self.op(*add).happened_by() < self.op(*read).invoked)
            {
                sum = (sum.0 + number.min(0), sum.1 + number.max(0));
            }
            sure.push(sum);
        }
        // The sum of possible additions before each read completed.
        let (mut sum, mut begun) = ((0, 0), adds.iter().peekable());
        let mut exact = true;
        for number in self.by_completion(reads) {
            let ((place, shown), sure) = (reads[number as usize], sure[number as usize]);
            let op = self.op(place);
            while let Some(&(_, number)) = begun.next_if(|(add, _)| self.op(*add).invoked < op.completed) {
                sum = (sum.0 + number.min(0), sum.1 + number.max(0));
            }
            let (least, greatest) = (start + sure.1 + sum.0, start + sure.0 + sum.1);
            exact &= least == greatest;
            if shown < least || shown > greatest {
                let reason = if least == greatest {
                    format!("line {} shows {shown}, but the sum was {least}", op.line)
                } else {
                    format!("line {} shows {shown}, but the sum was between {least} and {greatest}", op.line)
                };
                return Err(Answer::refused(self.proof(start, place, shown, adds), reason));
            }
        }
        Ok(exact)
    }

    /// A read outside its bounds, with the additions that prove it. The additions invoked last come first, until the bounds
    /// exclude the read's number. Just the read, if the initial value alone excludes it.
    fn proof(&self, start: i64, read: u32, shown: i64, adds: &[(u32, i64)]) -> Vec<u32> {
        let op = self.op(read);
        let mut operations = vec![read];
        let (mut least, mut greatest) = (start, start);
        for (place, number) in adds.iter().rev() {
            if shown < least || shown > greatest {
                break;
            }
            let (add, number) = (self.op(*place), *number);
            if add.happened_by() < op.invoked {
                (least, greatest) = (least + number, greatest + number);
                operations.push(*place);
            } else if add.invoked < op.completed {
                (least, greatest) = (least + number.min(0), greatest + number.max(0));
                operations.push(*place);
            }
        }
        operations
    }

    /// Groups the reads by their numbers, in the order of additions, and checks them against real time.
    fn groups(&self, start: i64, amount: i64, adds: usize, reads: &[(u32, i64)]) -> Result<Vec<Group>, Answer> {
        let empty = |count| Group { count, first: (NEVER, NONE), last: (0, NONE) };
        let mut groups: Vec<Group> = (0..=adds as i64).map(empty).collect();
        for (place, shown) in reads {
            let op = self.op(*place);
            // The bounds exclude counts below zero and above all additions.
            let count = usize::try_from((shown - start) / amount).ok().filter(|_| (shown - start) % amount == 0);
            let Some(group) = count.and_then(|count| groups.get_mut(count)) else {
                return Err(Answer::refused(
                    vec![*place],
                    format!("line {} shows {shown}, which is not a sum of added numbers", op.line),
                ));
            };
            group.first = group.first.min((op.completed, *place));
            if group.last.1 == NONE || group.last.0 < op.invoked {
                group.last = (op.invoked, *place);
            }
        }
        groups.retain(|group| group.last.1 != NONE);
        let mut first = (NEVER, NONE);
        for group in groups.iter_mut().rev() {
            if first.0 < group.last.0 {
                let (early_line, late_line) = (self.op(first.1).line, self.op(group.last.1).line);
                let reason = format!("line {late_line} shows fewer additions than line {early_line} had shown before");
                return Err(Answer::refused(vec![first.1, group.last.1], reason));
            }
            first = first.min(group.first);
            group.first = first;
        }
        for place in 1..groups.len() {
            groups[place].last = groups[place].last.max(groups[place - 1].last);
        }
        Ok(groups)
    }

    /// For each addition, the last possible stretch: the one before the first read that must include it.
    fn deadlines(&self, groups: &[Group], adds: &[(u32, i64)], ended: &[u32]) -> Vec<u32> {
        let mut deadlines = vec![groups.len() as u32; adds.len()];
        let mut stretch = 0;
        for number in ended {
            let end = self.op(adds[*number as usize].0).happened_by();
            while groups.get(stretch).is_some_and(|group| group.last.0 < end) {
                stretch += 1;
            }
            deadlines[*number as usize] = stretch as u32;
        }
        deadlines
    }

    /// Assigns every addition to a stretch: stretch k ends at group k, and the last one comes after all reads.
    fn schedule(&self, groups: &[Group], adds: &[(u32, i64)], deadlines: &[u32]) -> Result<Answer, Answer> {
        // Additions that a read must include, about as many as there are clients; and all other additions.
        let mut waiting: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
        let mut patient: VecDeque<u32> = VecDeque::new();
        // The assigned additions: the stretch, the deadline, the addition.
        let mut given: Vec<(u32, u32, u32)> = Vec::with_capacity(adds.len());
        let mut next = 0;
        for stretch in 0..=groups.len() {
            let group = groups.get(stretch);
            // Not before reads that completed before its invocation, nor after reads invoked after its completion.
            while let Some((place, _)) = adds.get(next)
                && group.is_none_or(|group| self.op(*place).invoked < group.first.0)
            {
                let deadline = deadlines[next];
                if (deadline as usize) < stretch {
                    let group = &groups[deadline as usize];
                    return Err(self.too_many(group, Some(group), &[*place]));
                }
                match groups.get(deadline as usize) {
                    Some(_) => waiting.push(Reverse((deadline, *place))),
                    None => patient.push_back(*place),
                }
                next += 1;
            }
            let Some(group) = group else { break };
            while (given.len() as i64) < group.count {
                let urgent = waiting.pop().map(|Reverse(urgent)| urgent);
                let Some((deadline, place)) = urgent.or_else(|| Some((NONE, patient.pop_front()?))) else {
                    // Impossible by the bounds: all additions invoked before a read of at least this count are already assigned.
                    return Err(Answer::Undecided("fewer additions than the bounds require".into()));
                };
                given.push((stretch as u32, deadline, place));
            }
            if waiting.peek().is_some_and(|Reverse((deadline, _))| *deadline <= stretch as u32) {
                // Since the last stretch that had room for a less urgent addition, only these were waiting.
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

    /// More additions between two reads (or before one) than the reads' numbers allow.
    fn too_many(&self, group: &Group, before: Option<&Group>, adds: &[u32]) -> Answer {
        let late = self.op(group.last.1);
        // One more than the reads allow is enough.
        let enough = group.count - before.map_or(0, |before| before.count) + 1;
        let mut operations: Vec<u32> = adds.iter().copied().take(enough.max(1) as usize).collect();
        operations.push(group.last.1);
        let mut since = String::new();
        if let Some(before) = before {
            operations.push(before.first.1);
            since = format!(" since line {}", self.op(before.first.1).line);
        }
        let reason = format!("line {} shows fewer than the {} additions that completed{since}", late.line, adds.len());
        Answer::refused(operations, reason)
    }
}
