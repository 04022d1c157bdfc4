//! When each process held the lock, as far as its operations show. Both mutex checks use this.
//!
//! A hold is an acquire and the release that ended it. Holds follow one another like the blocks of a register, so a hold's zone
//! has all that matters (see [`crate::value_graph`]).
//!
//! The theory extends to indeterminate operations of a process whose other operations do not overlap. In any legal order, an
//! indeterminate acquire can be removed if it is followed by an indeterminate release of its process, or by nothing. The rest is
//! forced:
//! - an `ok` acquire after an `ok` acquire needs an indeterminate release in between, and an `ok` release after an `ok` release
//!   needs an indeterminate acquire. Any that was invoked earlier will do, and the oldest is best. If any was invoked before the
//!   hold, the oldest was, and for later holds the remaining ones are equivalent;
//! - an `ok` acquire that is the last of its process may be ended by any remaining indeterminate release;
//! - an `ok` acquire and the next `ok` release are one hold, or two if an indeterminate release and an indeterminate
//!   acquire *split* it. Splitting never hurts, except that it uses up both.
//!
//! So without splits the holds are exact. With splits the check brackets the truth: free splits allow too much; paid splits
//! (first come, first served) and no splits allow too little.

use super::NONE;
use crate::history::{NEVER, Op, OpFunction, Outcome};
use crate::value_graph::Zone;
use crate::{Answer, Conflict};

/// A period in which one process held the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldPeriod {
    /// Index of the acquire in the list of operations.
    pub lock: u32,
    /// Index of the release; [`NONE`] if nothing can have ended the hold.
    pub unlock: u32,
    /// The zone of the two operations; its end is [`NEVER`] if the hold does not end. If forward, the process certainly held the
    /// lock.
    pub zone: Zone<u32>,
}

/// All holds of a history.
#[derive(Debug)]
pub(super) struct Holds {
    pub list: Vec<HoldPeriod>,
    /// For each operation, the hold (an index into `list`) that has it as its last invocation: this gives the holds by
    /// the ends of their zones without sorting. Holds that do not end are not included.
    pub by_last: Vec<u32>,
    /// True if any hold was split.
    split: bool,
}

/// Where an indeterminate release and acquire may split a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Splits {
    /// Wherever there are any, without using them up: too lenient.
    Free,
    /// Wherever any are left, first come, first served: one possible history.
    Paid,
    /// Nowhere: another possible history.
    Not,
}

/// Decides a mutex. `check` decides exactly whether given holds conflict.
pub(super) fn decide(ops: &[Op], check: impl Fn(&Holds) -> Option<Conflict>) -> Answer {
    if let Some(op) = overlapping(ops) {
        return Answer::Undecided(format!("process {} did two things at once (line {})", op.process, op.line));
    }
    let lenient = match find(ops, Splits::Free) {
        Ok(holds) => holds,
        Err(answer) => return answer,
    };
    if let Some(conflict) = check(&lenient) {
        return Answer::NotLinearizable(conflict);
    }
    let possible = |splits| find(ops, splits).is_ok_and(|holds| check(&holds).is_none());
    if !lenient.split || possible(Splits::Paid) || possible(Splits::Not) {
        return Answer::Linearizable;
    }
    Answer::Undecided("indeterminate releases and acquires allow several orders of holds".into())
}

/// A conflict of the operations of some holds.
pub(super) fn conflict(holds: &[&HoldPeriod], reason: String) -> Conflict {
    Conflict::new(holds.iter().flat_map(|hold| [hold.lock, hold.unlock]).collect(), reason)
}

/// A hold in words.
pub(super) fn in_words(ops: &[Op], hold: &HoldPeriod) -> String {
    let lock = &ops[hold.lock as usize];
    match ops.get(hold.unlock as usize) {
        Some(unlock) => format!("process {} (lines {} to {})", lock.process, lock.line, unlock.line),
        None => format!("process {} (from line {} on, never released)", lock.process, lock.line),
    }
}

/// The state of a process during the walk through the history.
#[derive(Clone)]
struct HoldingProcess {
    /// The `ok` acquire that is not yet released.
    open: u32,
    /// The previous `ok` operation.
    previous: u32,
    acquires: Stock,
    releases: Stock,
}

/// Indeterminate operations of one kind, oldest first, and the number that are used up.
#[derive(Clone, Default)]
struct Stock {
    all: Vec<u32>,
    used: usize,
}

impl Stock {
    fn oldest(&self) -> Option<u32> {
        self.all.get(self.used).copied()
    }

    fn take(&mut self) -> Option<u32> {
        let oldest = self.oldest()?;
        self.used += 1;
        Some(oldest)
    }
}

const NEW: HoldingProcess = HoldingProcess {
    open: NONE,
    previous: NONE,
    acquires: Stock { all: Vec::new(), used: 0 },
    releases: Stock { all: Vec::new(), used: 0 },
};

/// An operation invoked while an `ok` one of its process was open. Checked before anything else, because it may come late.
fn overlapping(ops: &[Op]) -> Option<&Op> {
    let numbers = ProcessNumbers::of(ops);
    let mut busy_until: Vec<u32> = Vec::new();
    ops.iter().filter(|op| op.outcome != Outcome::Fail).find(|op| {
        let number = numbers.number(op.process);
        if number >= busy_until.len() {
            busy_until.resize(number + 1, 0);
        }
        let overlaps = busy_until[number] > op.invoked;
        if op.outcome == Outcome::Ok {
            busy_until[number] = op.completed;
        }
        overlaps
    })
}

/// Pairs acquires with releases; returns the answer instead if that is impossible. Linear.
fn find(ops: &[Op], splits: Splits) -> Result<Holds, Answer> {
    let mut processes: Vec<HoldingProcess> = Vec::new();
    let numbers = ProcessNumbers::of(ops);
    let mut holds = Holds { list: Vec::with_capacity(ops.len() / 2 + 1), by_last: vec![NONE; ops.len()], split: false };
    for (place, op) in ops.iter().enumerate() {
        let place = place as u32;
        if op.outcome == Outcome::Fail {
            continue;
        }
        let number = numbers.number(op.process);
        if number >= processes.len() {
            processes.resize(number + 1, NEW);
        }
        let process = &mut processes[number];
        match (op.f, op.outcome) {
            (OpFunction::Acquire, Outcome::Info) => process.acquires.all.push(place),
            (OpFunction::Release, Outcome::Info) => process.releases.all.push(place),
            (OpFunction::Acquire, _) => {
                if process.open != NONE {
                    let Some(release) = process.releases.take() else {
                        return Err(acquired_twice(ops, process.open, place));
                    };
                    holds.add(ops, process.open, release);
                }
                process.open = place;
            }
            (OpFunction::Release, _) if process.open == NONE => {
                let Some(acquire) = process.acquires.take() else {
                    return Err(not_held(ops, process.previous, place));
                };
                holds.add(ops, acquire, place);
            }
            (OpFunction::Release, _) => {
                let (open, stocks) = (process.open, (process.releases.oldest(), process.acquires.oldest()));
                match stocks {
                    (Some(release), Some(acquire)) if splits != Splits::Not => {
                        if splits == Splits::Paid {
                            process.releases.used += 1;
                            process.acquires.used += 1;
                        }
                        holds.split = true;
                        holds.add(ops, open, release);
                        holds.add(ops, acquire, place);
                    }
                    _ => holds.add(ops, open, place),
                }
                process.open = NONE;
            }
            _ => return Err(Answer::Undecided("a mutex has only acquires and releases".into())),
        }
        if op.outcome == Outcome::Ok {
            process.previous = place;
        }
    }
    for process in processes.iter_mut().filter(|process| process.open != NONE) {
        let release = process.releases.take().unwrap_or(NONE);
        holds.add(ops, process.open, release);
    }
    Ok(holds)
}

impl Holds {
    fn add(&mut self, ops: &[Op], lock: u32, unlock: u32) {
        let (acquire, release) = (&ops[lock as usize], ops.get(unlock as usize));
        let first = release.map_or(NEVER, Op::happened_by).min(acquire.happened_by());
        let last = release.map_or(NEVER, |release| release.invoked.max(acquire.invoked));
        let number = self.list.len() as u32;
        self.list.push(HoldPeriod { lock, unlock, zone: Zone { first, first_by: (), last, last_by: () } });
        if release.is_none() {
            return;
        }
        // Operations are in the order of their invocations. No other hold ends with this operation: a release invoked after the
        // acquire is used up, or older than the next acquire.
        self.by_last[lock.max(unlock) as usize] = number;
    }
}

/// Leaves out indeterminate releases that had to end earlier holds, together with those holds: there was one release too few.
fn acquired_twice(ops: &[Op], before: u32, now: u32) -> Answer {
    let op = &ops[now as usize];
    Answer::NotLinearizable(Conflict {
        operations: vec![before, now],
        reason: format!(
            "process {} acquired the lock (line {}) that it held already (since line {})",
            op.process, op.line, ops[before as usize].line
        ),
    })
}

fn not_held(ops: &[Op], before: u32, now: u32) -> Answer {
    let op = &ops[now as usize];
    let mut operations = vec![now];
    let mut since = String::new();
    if let Some(release) = ops.get(before as usize) {
        operations.insert(0, before);
        since = format!("; that process had released the lock before (line {})", release.line);
    }
    let reason = format!("process {} released the lock (line {}) without holding it{since}", op.process, op.line);
    Answer::NotLinearizable(Conflict { operations, reason })
}

/// Numbers of processes: their own if they are small, otherwise counted.
enum ProcessNumbers {
    AsTheyAre,
    Counted(std::collections::HashMap<u32, usize>),
}

impl ProcessNumbers {
    fn of(ops: &[Op]) -> ProcessNumbers {
        let greatest = ops.iter().map(|op| op.process as usize).max().unwrap_or(0);
        if greatest <= 2 * ops.len() + 1_000 {
            return ProcessNumbers::AsTheyAre;
        }
        let mut counted = std::collections::HashMap::new();
        for op in ops {
            let next = counted.len();
            counted.entry(op.process).or_insert(next);
        }
        ProcessNumbers::Counted(counted)
    }

    fn number(&self, process: u32) -> usize {
        match self {
            ProcessNumbers::AsTheyAre => process as usize,
            ProcessNumbers::Counted(counted) => counted[&process],
        }
    }
}
