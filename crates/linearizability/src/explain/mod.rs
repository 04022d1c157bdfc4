//! Counterexamples that a person can follow: the fewest operations that have no legal order, why they have none, and how
//! far the history was legal.

mod cycle;
mod ends;
mod shrink;

use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

pub use ends::DeadEnd;

use super::dispatch::{Options, WithModel, examine_object, linear_time_check, with_model};
use super::search::{Finding, Limits, Strategy, before, examine};
use super::words::Words;
use super::{Answer, Conflict, Model, ModelSpec};
use crate::history::{NEVER, Op, Outcome};

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
    /// The place of the operation that comes first.
    pub before: u32,
    /// The place of the one that comes later.
    pub after: u32,
    /// What says so.
    pub because: Because,
}

/// Why one operation must come before another.
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
/// Of more operations a search takes much longer than all else takes here.
const FEW: usize = 20_000;
/// How often the search for a legal order may ask whether to give up, which it does every thousand steps.
const PATIENCE: u32 = 200;

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

/// Fills in the end of a legal order of what was legal, if a short search finds one.
fn put_in_order<M: Model>(model: &M, operations: &[Op], limits: &Limits, explanation: &mut Explanation) {
    if operations.partition_point(|op| op.invoked < explanation.legal_before) > FEW {
        return;
    }
    let (prefix, places) = before(operations, explanation.legal_before);
    let asked = AtomicU32::new(0);
    let give_up = || (limits.give_up)() || asked.fetch_add(1, Ordering::Relaxed) > PATIENCE;
    let limits = Limits { give_up: &give_up, ..*limits };
    if let Finding::Legal { order } = examine(model, &prefix, &limits, Strategy::Depth) {
        let omitted = order.len().saturating_sub(TOLD);
        explanation.order = order[omitted..].iter().map(|place| places[*place as usize]).collect();
        explanation.order_omitted = omitted as u32;
    }
}

/// [`explain`] with a built-in model. Where there is a near-linear check of it, that finds out where the history fails.
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
        failure: Option<Failure>,
    }
    impl WithModel for Explain<'_, '_> {
        type Output = Explanation;
        fn with<M: Model>(self, model: &M) -> Explanation {
            let Explain { operations, words, conflict, limits, failure } = self;
            let Some(failure) = failure else { return explain(model, operations, words, conflict, limits) };
            let returned = operations.iter().position(|op| Some(op.completed) == failure.event);
            let mut explanation = Explanation {
                fails_at: returned.map(|place| place as u32),
                legal_before: failure.legal_before,
                ..shrunk(model, operations, words, conflict, limits)
            };
            put_in_order(model, operations, limits, &mut explanation);
            explanation
        }
    }
    let failure = failure(spec, operations, words, conflict, options);
    let limits = &options.limits;
    with_model(spec, operations, words.values, options, Explain { operations, words, conflict, limits, failure })
}

/// Where a history fails.
struct Failure {
    legal_before: u32,
    /// The first event by which there is none, where that was found out.
    event: Option<u32>,
}

/// Conflicts that are looked for one before the other; if there are more, going back ever farther is faster, and then
/// halving the rest.
const ONE_BY_ONE: u32 = 3;

/// Where a history fails, as the near-linear checks of what came before tell; none where that takes a search.
fn failure(
    spec: ModelSpec,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    options: &Options,
) -> Option<Failure> {
    let returned = |conflict: &Conflict, operations: &[Op]| {
        let ops = conflict.operations.iter().filter_map(|place| operations.get(*place as usize));
        ops.filter(|op| op.outcome != Outcome::Info).map(|op| op.completed).max().filter(|event| *event != NEVER)
    };
    let check = |event: u32| {
        let (prefix, _) = before(operations, event);
        match linear_time_check(spec, &prefix, words.values, options) {
            Answer::NotLinearizable(conflict) => Err(returned(&conflict, &prefix).filter(|earlier| *earlier < event)),
            answer => Ok(answer == Answer::Linearizable),
        }
    };
    let mut by = returned(conflict, operations)?;
    let few = operations.len() <= FEW;
    // A conflict that a search found has most of the operations; one that someone else names may be none.
    if conflict.operations.len() > FEW || few && check(by + 1).is_ok() {
        return None;
    }
    // Some of the conflict may return later than it takes to see that there is one; unless it is for want of a writer.
    let set: Vec<Op> =
        conflict.operations.iter().filter_map(|place| operations.get(*place as usize).copied()).collect();
    if let Finding::Illegal { event, .. } = examine_object(spec, &set, words.values, options, Strategy::Race)
        && event < by
        && let Err(Some(earlier)) = check(event + 1)
    {
        by = earlier;
    }
    let mut failure = Failure { legal_before: 0, event: None };
    for round in 0_u32.. {
        let back = if round < ONE_BY_ONE { 0 } else { 1 << (2 * round).min(31) };
        let event = by - back.min((by - failure.legal_before) / 2);
        match if (options.limits.give_up)() { Ok(false) } else { check(event) } {
            Ok(true) => failure.legal_before = event,
            Err(Some(earlier)) => by = earlier,
            // Of a few operations a search finds it out.
            Ok(false) | Err(None) => return (!few).then_some(failure),
        }
        if failure.legal_before == by {
            failure.event = Some(by);
            break;
        }
    }
    Some(failure)
}
