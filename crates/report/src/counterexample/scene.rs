//! The content of a counterexample's drawing before layout: bars in rows, and arrows between them.
//!
//! Only the order of events matters, so a moment is the rank of its event among the drawn ones.

use std::collections::BTreeMap;

use super::{Counterexample, OperationText, Precedence};
use base::words::{length, line, moment};
use linearizability::explain::Because;
use linearizability::words::called;

/// A picture with more operations than this would be too hard to follow.
pub const DRAWN: usize = 20;
/// With more operations than this, labels are shorter.
const FEW: usize = 6;

pub struct Scene {
    /// The names of the rows, from top to bottom. A process has one row, and further ones if it left operations open and went
    /// on.
    pub rows: Vec<Option<String>>,
    /// The operations, ordered by invocation.
    pub bars: Vec<Bar>,
    pub arrows: Vec<Arrow>,
    /// The time at each rank, if known.
    pub moments: Vec<Option<i64>>,
    /// The number of operations that are not drawn.
    pub omitted: usize,
}

pub struct Bar {
    pub row: usize,
    pub from: u64,
    /// None if the operation may take effect at any later time.
    pub to: Option<u64>,
    pub label: String,
    /// The operation's line, and its outcome unless that is `ok`.
    pub under: String,
    /// All details of the operation, shown on hover.
    pub full: String,
    pub look: OperationLook,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationLook {
    Plain,
    /// It contradicts an order of the other operations.
    Refused,
    /// It is unknown if it took effect.
    Open,
}

/// One operation must come before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    pub from: usize,
    pub to: usize,
    pub because: Because,
}

impl Scene {
    pub fn new(example: &Counterexample) -> Scene {
        let chosen = chosen(example);
        let told: Vec<&OperationText> = chosen.iter().map(|place| &example.operations[*place]).collect();
        let (ranks, moments) = ranks(&told);
        let rank = |event: u32| ranks.get(&event).copied().unwrap_or_default();
        let longest = if told.len() <= FEW { 34 } else { 18 };
        let refused = refused(example);

        let mut rows: Vec<(String, Option<u32>)> = Vec::new();
        let mut bars = Vec::new();
        for (place, op) in chosen.iter().zip(&told) {
            let row = row_for(&mut rows, op);
            bars.push(Bar {
                row,
                from: rank(op.invoked_event),
                to: op.completed_event.map(rank),
                label: line(&op.short, longest),
                under: match op.outcome {
                    "ok" => format!("line {}", op.line),
                    "fail" => format!("line {}, failed", op.line),
                    _ => format!("line {}, perhaps", op.line),
                },
                full: full(op),
                look: match op.outcome {
                    "info" => OperationLook::Open,
                    _ if refused.contains(place) => OperationLook::Refused,
                    _ => OperationLook::Plain,
                },
            });
        }
        let (order, rows) = grouped(&rows);
        for bar in &mut bars {
            bar.row = order[bar.row];
        }
        let place = |wanted: usize| chosen.iter().position(|place| *place == wanted);
        let mut arrows: Vec<Arrow> = Vec::new();
        for Precedence { before, after, because } in example.basis.iter().chain(&example.cycle) {
            if let (Some(from), Some(to)) = (place(*before), place(*after))
                && !arrows.contains(&Arrow { from, to, because: *because })
            {
                arrows.push(Arrow { from, to, because: *because });
            }
        }
        Scene { rows, arrows, moments, omitted: example.operations.len() - bars.len(), bars }
    }

    /// The rank after all others.
    pub fn end(&self) -> u64 {
        self.moments.len() as u64
    }

    /// The times at the ranks: the first one absolute, the others relative to it.
    pub fn times(&self) -> Vec<(u64, String)> {
        let mut first = None;
        let mut told = Vec::new();
        for (rank, ns) in (0..).zip(&self.moments) {
            let Some(ns) = ns else { continue };
            told.push(match first {
                None => (rank, moment(u64::try_from(*ns).unwrap_or_default())),
                Some(first) => {
                    (rank, format!("+{}", length(u64::try_from(ns.saturating_sub(first)).unwrap_or_default())))
                }
            });
            first = first.or(Some(*ns));
        }
        told
    }
}

/// The operations to draw: those of the cycle, then those that were invoked last, because errors show at the end.
fn chosen(example: &Counterexample) -> Vec<usize> {
    let all = example.operations.len();
    if all <= DRAWN {
        return (0..all).collect();
    }
    let told = example.cycle.iter().chain(&example.basis).flat_map(|step| [step.before, step.after]);
    let mut chosen: Vec<usize> = Vec::new();
    for place in told.chain((0..all).rev()) {
        if chosen.len() < DRAWN && !chosen.contains(&place) {
            chosen.push(place);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The rank of every event that is drawn, and the times of the ranks.
fn ranks(told: &[&OperationText]) -> (BTreeMap<u32, u64>, Vec<Option<i64>>) {
    let mut events = BTreeMap::new();
    for op in told {
        events.insert(op.invoked_event, op.invoked_ns);
        if let Some(event) = op.completed_event {
            events.insert(event, op.completed_ns);
        }
    }
    let ranks = events.keys().copied().zip(0..).collect();
    (ranks, events.into_values().collect())
}

/// The operations at which orders of the others get stuck. Empty if a cycle is the reason.
fn refused(example: &Counterexample) -> Vec<usize> {
    if !example.cycle.is_empty() {
        return Vec::new();
    }
    let fails_at = example.legal.fails_at.as_ref().map(|op| op.invoked_event);
    let last = example.operations.iter().position(|op| Some(op.invoked_event) == fails_at);
    example.dead_ends.iter().map(|end| end.refused).chain(last).collect()
}

/// The index of the first free row of the operation's process. Each row has its process and the event at which it is free
/// again.
fn row_for(rows: &mut Vec<(String, Option<u32>)>, op: &OperationText) -> usize {
    let free = |(process, until): &(String, Option<u32>)| {
        *process == op.process && until.is_some_and(|until| until < op.invoked_event)
    };
    let row = rows.iter().position(free).unwrap_or_else(|| {
        rows.push((op.process.clone(), None));
        rows.len() - 1
    });
    rows[row].1 = op.completed_event;
    row
}

/// Groups the rows by process. Returns the new index of each row, and the rows in their new order.
fn grouped(rows: &[(String, Option<u32>)]) -> (Vec<usize>, Vec<Option<String>>) {
    let first = |process: &str| rows.iter().position(|(other, _)| other == process);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| (first(&rows[*row].0), *row));
    let mut goes = vec![0; rows.len()];
    for (at, row) in order.iter().enumerate() {
        goes[*row] = at;
    }
    let row = |row: &usize| {
        let (process, _) = &rows[*row];
        (first(process) == Some(*row)).then(|| line(&called(process), 40))
    };
    (goes, order.iter().map(row).collect())
}

fn full(op: &OperationText) -> String {
    let weakened = if op.weakened { ". Its result does not matter here, only its effect" } else { "" };
    let ended = match op.outcome {
        "ok" => "",
        "fail" => ", failed",
        _ => ", and it is unknown whether or when it took effect",
    };
    format!("{}: {}{ended}, line {}{weakened}", called(&op.process), op.text, op.line)
}
