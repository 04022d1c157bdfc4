//! Counterexamples that a person can follow: the fewest operations that have no legal order, why they have none, and how
//! far the history was legal.

mod cycle;
mod ends;
mod shrink;

use serde::Serialize;

pub use ends::DeadEnd;

use super::dispatch::{Options, WithModel, fast_check, with_model};
use super::search::{Finding, Limits, Strategy, before, examine};
use super::words::Words;
use super::{Answer, Conflict, Model, ModelSpec};
use crate::history::Outcome;
use crate::history::table::{NEVER, Op};

/// Why a history is not linearizable. Places count the list of operations that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Operations that have no legal order, whatever else happened, by invocation.
    pub operations: Vec<u32>,
    /// Of these, the ones of which only what they did matters, not what they found.
    pub weakened: Vec<u32>,
    /// Whether without any one of them (or with less said by it) the others have a legal order.
    pub minimal: bool,
    /// Who must come before whom, in a circle; empty where the reason is not as simple.
    pub cycle: Vec<Link>,
    /// What else must be known to see a step of the cycle that the values ask for.
    pub basis: Vec<Link>,
    /// How every order of `operations` ends, at most a few.
    pub dead_ends: Vec<DeadEnd>,
    /// The reason in plain sentences.
    pub sentences: Vec<String>,
    /// The operation whose return no order of the whole history explains; none where that was not found out.
    pub fails_at: Option<u32>,
    /// What happened before this place in the order of events is linearizable.
    pub legal_before: u32,
    /// The end of one legal order of it.
    pub order: Vec<u32>,
    /// How many operations come before those of `order`.
    pub order_omitted: u32,
}

impl Explanation {
    /// The same with places that count another list: `places` says where in it each operation is.
    pub fn counted_in(mut self, places: &[u32]) -> Explanation {
        let count = |place: &mut u32| *place = places.get(*place as usize).copied().unwrap_or(*place);
        self.operations.iter_mut().for_each(count);
        self.weakened.iter_mut().for_each(count);
        for link in self.cycle.iter_mut().chain(&mut self.basis) {
            count(&mut link.before);
            count(&mut link.after);
        }
        for end in &mut self.dead_ends {
            end.order.iter_mut().for_each(count);
            count(&mut end.refused);
        }
        self.fails_at.iter_mut().for_each(count);
        self.order.iter_mut().for_each(count);
        self
    }
}

/// One step of a cycle: `before` must come before `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    pub before: u32,
    pub after: u32,
    pub because: Because,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// The one had returned when the other was invoked.
    RealTime,
    /// What they found and wrote says so.
    Value,
}

/// How much of a legal order is told.
const TOLD: usize = 20;
/// Longer histories are not put in order: that takes a search much longer than all else takes here.
const ORDERED: usize = 20_000;

/// Explains why operations have no legal order. `conflict` is what the check that found it says.
pub fn explain<M: Model>(
    model: &M,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    limits: &Limits,
) -> Explanation {
    let mut explanation = shrunk(model, operations, words, conflict, limits);
    match examine(model, operations, limits, Strategy::Race) {
        Finding::Illegal { place, event } => {
            (explanation.fails_at, explanation.legal_before) = (Some(place), event);
        }
        Finding::Unknown { legal_before, .. } => explanation.legal_before = legal_before,
        Finding::Legal { .. } => {}
    }
    put_in_order(model, operations, limits, &mut explanation);
    explanation
}

/// The fewest of the operations, and what there is to say of them.
fn shrunk<M: Model>(model: &M, operations: &[Op], words: &Words, conflict: &Conflict, limits: &Limits) -> Explanation {
    let (kept, minimal) = shrink::shrink(model, operations, &conflict.operations, limits);
    let mut explanation = Explanation {
        operations: kept.iter().map(|kept| kept.place).collect(),
        weakened: kept.iter().filter(|kept| kept.weakened).map(|kept| kept.place).collect(),
        minimal,
        dead_ends: ends::dead_ends(model, &kept, words),
        ..Explanation::default()
    };
    cycle::tell(model, &kept, operations, words, conflict, &mut explanation);
    explanation
}

/// Fills in the end of a legal order of what was legal.
fn put_in_order<M: Model>(model: &M, operations: &[Op], limits: &Limits, explanation: &mut Explanation) {
    if operations.partition_point(|op| op.invoked < explanation.legal_before) > ORDERED {
        return;
    }
    let (prefix, places) = before(operations, explanation.legal_before);
    if let Finding::Legal { order } = examine(model, &prefix, limits, Strategy::Depth) {
        let omitted = order.len().saturating_sub(TOLD);
        explanation.order = order[omitted..].iter().map(|place| places[*place as usize]).collect();
        explanation.order_omitted = omitted as u32;
    }
}

/// [`explain`] with a built-in model. Where there is a near-linear check of it, that finds out where the history fails, and
/// only what came before is looked at.
pub fn explain_object(
    spec: ModelSpec,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    options: &Options,
) -> Explanation {
    struct Explain<'a, 'b> {
        operations: &'a [Op],
        words: &'a Words<'a>,
        conflict: &'a Conflict,
        limits: &'a Limits<'b>,
        /// Where it fails, if that is known.
        event: Option<u32>,
    }
    impl WithModel for Explain<'_, '_> {
        type Output = Explanation;
        fn with<M: Model>(self, model: &M) -> Explanation {
            let Explain { operations, words, conflict, limits, event } = self;
            let Some(event) = event else { return explain(model, operations, words, conflict, limits) };
            let mut explanation = shrunk(model, operations, words, conflict, limits);
            let returned = operations.iter().position(|op| op.completed == event);
            (explanation.fails_at, explanation.legal_before) = (returned.map(|place| place as u32), event);
            put_in_order(model, operations, limits, &mut explanation);
            explanation
        }
    }
    let first = first_failure(spec, operations, words, conflict, options);
    let (event, conflict) = first.as_ref().map_or((None, conflict), |(event, conflict)| (Some(*event), conflict));
    let begun = operations.partition_point(|op| event.is_none_or(|event| op.invoked < event));
    let operations = &operations[..begun];
    let limits = &options.limits;
    with_model(spec, operations, words.values, options, Explain { operations, words, conflict, limits, event })
}

/// Conflicts that are looked for one before the other; if there are more, halving the rest is faster.
const ONE_BY_ONE: usize = 3;

/// The first event by which a history has no legal order, and a conflict that says so; none where that takes a search.
fn first_failure(
    spec: ModelSpec,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    options: &Options,
) -> Option<(u32, Conflict)> {
    let returned = |conflict: &Conflict, operations: &[Op]| {
        let ops = conflict.operations.iter().filter_map(|place| operations.get(*place as usize));
        ops.filter(|op| op.outcome != Outcome::Info).map(|op| op.completed).max().filter(|event| *event != NEVER)
    };
    let mut found = (returned(conflict, operations)?, conflict.clone());
    // Nobody must rely on what a stranger says.
    let (prefix, _) = before(operations, found.0 + 1);
    let shows = || matches!(fast_check(spec, &prefix, words.values, options), Answer::NotLinearizable(_));
    if prefix.len() <= ORDERED && !shows() {
        return None;
    }
    let mut legal_before = 0;
    for round in 0.. {
        if (options.limits.give_up)() {
            return None;
        }
        let event = match round < ONE_BY_ONE {
            true => found.0,
            false => found.0 - (found.0 - legal_before) / 2,
        };
        let (prefix, places) = before(operations, event);
        match fast_check(spec, &prefix, words.values, options) {
            Answer::Linearizable if event == found.0 => return Some(found),
            Answer::Linearizable => legal_before = event,
            Answer::NotLinearizable(mut earlier) => {
                let returned = returned(&earlier, &prefix).filter(|returned| *returned < event)?;
                earlier.operations.iter_mut().for_each(|place| *place = places[*place as usize]);
                found = (returned, earlier);
            }
            Answer::Undecided(_) => return None,
        }
    }
    None
}
