//! The lock in a redjepsen run, as acquires and releases: the input for the models of locks.
//!
//! A run's operations acquire the lock on their way. Their phases, which clients stamp on the safe side and on one clock, show
//! when. An acquire lasts from `acquiring` to `acquired` and has the token, if there is one. A release lasts from `releasing` to
//! `released`. If a client stopped reporting, or its library reported a lost lock, the lock became free at an unknown time after
//! the [certain hold](History::certain_hold). That is an indeterminate release, because expiry releases the lock. Attempts
//! without success are left out, since an acquire that never returned explains nothing. So are holds for reading, which no model
//! of a mutex supports.

use super::{History, Operation, Outcome, Phase, Process, Stamps};
use linearizability::history::{NEVER, Op, OpFunction, Table, Value};

/// One end of an acquire or release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ActBoundary {
    /// Nanoseconds of run time.
    time: i64,
    among_equals: Rank,
    /// Index in the list of acquires and releases.
    number: usize,
    is_completion: bool,
}

/// The order of events at the same time. It fixes as little as possible, so that holds may touch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Invoked,
    /// The completion of an acquire and the invocation of its release at the same time: a hold of length zero.
    Instant,
    Completed,
}

/// An acquire or a release, in run time.
struct LockAct<'h> {
    operation: &'h Operation,
    process: u32,
    f: OpFunction,
    token: Option<u64>,
    invoked: i64,
    /// `None` if it is indeterminate.
    completed: Option<i64>,
    /// True if it is one end of a hold of length zero.
    is_instant: bool,
}

/// The acquires and releases of a run, and the times of their ends by index, in nanoseconds of run time.
pub fn lock_table(history: &History) -> (Table, Vec<i64>) {
    let mut acts = Vec::new();
    for operation in history.operations.iter().filter(|operation| operation.f.is_locked() && !operation.f.is_shared()) {
        if let Process::Client(process) = operation.process {
            acts.extend(of_operation(history, operation, process).into_iter().flatten());
        }
    }
    let mut moments = Vec::with_capacity(acts.len() * 2);
    for (number, act) in acts.iter().enumerate() {
        let rank = |usual| if act.is_instant { Rank::Instant } else { usual };
        let (invoked, completed) = match act.f {
            OpFunction::Acquire => (Rank::Invoked, rank(Rank::Completed)),
            _ => (rank(Rank::Invoked), Rank::Completed),
        };
        moments.push(ActBoundary { time: act.invoked, among_equals: invoked, number, is_completion: false });
        let end = |time| ActBoundary { time, among_equals: completed, number, is_completion: true };
        moments.extend(act.completed.map(end));
    }
    moments.sort_unstable();

    let mut table = Table::default();
    let mut places = vec![0; acts.len()];
    for (place, moment) in (0..).zip(&moments) {
        let act = &acts[moment.number];
        match moment.is_completion {
            true => table.operations[places[moment.number]].completed = place,
            false => {
                places[moment.number] = table.operations.len();
                let a = match (act.f, act.token.and_then(|token| i64::try_from(token).ok())) {
                    (OpFunction::Acquire, Some(token)) => table.values.intern_int(token),
                    _ => Value::NIL,
                };
                table.operations.push(Op {
                    key: key(&mut table.keys, &act.operation.key),
                    process: act.process,
                    f: act.f,
                    outcome: if act.completed.is_some() { Outcome::Ok } else { Outcome::Info },
                    a,
                    b: Value::NIL,
                    invoked: place,
                    completed: NEVER,
                    line: u32::try_from(act.operation.index + 1).unwrap_or(u32::MAX),
                });
            }
        }
    }
    (table, moments.iter().map(|moment| moment.time).collect())
}

/// The acquire and the release of an operation that held the lock; `None` if it did not, or does not report when.
fn of_operation<'h>(history: &History, operation: &'h Operation, process: u32) -> Option<[LockAct<'h>; 2]> {
    let acquired = operation.phases.iter().position(|stamp| stamp.phase == Phase::Acquired)?;
    let at = operation.phases.get(acquired)?;
    let acquired_at = at.stamped?;
    let asked = operation.phases.before(acquired).find(|stamp| stamp.phase == Phase::Acquiring);
    let (_, gave_up) = history.certain_hold(operation)?;
    let over = released(operation.phases.after(acquired)).map(|over| over.max(gave_up));
    // Without a stamp it is unknown when the client asked; it may have had the lock for any time before.
    let asked = asked.and_then(|stamp| stamp.stamped).unwrap_or(i64::MIN).min(acquired_at);
    let act = |f, invoked, completed| {
        let is_instant = gave_up == acquired_at;
        LockAct { operation, process, f, token: at.token, invoked, completed, is_instant }
    };
    Some([act(OpFunction::Acquire, asked, Some(acquired_at)), act(OpFunction::Release, gave_up, over)])
}

/// When a client had released its lock, if it reports that.
fn released(phases: Stamps) -> Option<i64> {
    let mut end = phases.skip_while(|stamp| !matches!(stamp.phase, Phase::Releasing | Phase::Lost));
    end.next().filter(|stamp| stamp.phase == Phase::Releasing)?;
    end.find(|stamp| matches!(stamp.phase, Phase::Released | Phase::Lost))
        .filter(|stamp| stamp.phase == Phase::Released)?
        .stamped
}

fn key(keys: &mut Vec<String>, name: &str) -> u32 {
    let place = keys.iter().position(|known| known == name).unwrap_or_else(|| {
        keys.push(name.to_string());
        keys.len() - 1
    });
    u32::try_from(place).unwrap_or(u32::MAX)
}
