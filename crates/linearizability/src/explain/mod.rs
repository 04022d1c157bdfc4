//! Counterexamples that a person can follow: the fewest operations without a legal order, why they have none, and how far the
//! history was legal.

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

/// Why a history is not linearizable. Places are indices into the list of operations that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Operations without a legal order, whatever else happened, in the order of their invocations.
    pub operations: Vec<u32>,
    /// Those of `operations` for which only their effect matters, not the value that they found.
    pub weakened: Vec<u32>,
    /// True if the rest has a legal order once any of `operations` is removed or weakened.
    pub minimal: bool,
    /// A cycle of operations, each of which must come before the next. Empty if the reason is not that simple.
    pub cycle: Vec<Link>,
    /// Additional steps that prove a step of the cycle that follows from the values.
    pub basis: Vec<Link>,
    /// How every order of `operations` ends; only a few are listed.
    pub dead_ends: Vec<DeadEnd>,
    /// The reason in plain sentences.
    pub sentences: Vec<String>,
    /// The operation whose return no order of the whole history explains; None if not known.
    pub fails_at: Option<u32>,
    /// Everything before this place in the order of events is linearizable.
    pub legal_before: u32,
    /// The last operations of one legal order of the events before `legal_before`.
    pub order: Vec<u32>,
    /// The number of operations before those in `order`.
    pub order_omitted: u32,
}

impl Explanation {
    /// Translates the places to indices into another list: `places` has the index there of each operation.
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
    /// The place of the operation that comes later.
    pub after: u32,
    /// Why it must.
    pub because: Because,
}

/// Why one operation must come before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// The first had returned when the second was invoked.
    RealTime,
    /// It follows from the values that they found and wrote.
    Value,
}

/// At most this many operations of a legal order are shown.
const TOLD: usize = 20;
/// With more operations, a search takes much longer than the rest of the explanation.
const FEW: usize = 20_000;
/// How often the search for a legal order may ask if it should give up. It asks every thousand steps.
const PATIENCE: u32 = 200;

/// Explains why operations have no legal order. `conflict` comes from the check that found this.
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

/// Reduces the operations to as few as possible, and explains those.
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

/// Fills in the end of a legal order of the legal part, if a short search finds one.
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

/// [`explain`] with a built-in model. If it has a near-linear check, the check finds where the history fails.
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
        failure: Option<FailurePoint>,
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
    let first = failure.as_ref().and_then(|failure| first_conflict(spec, operations, words, failure.event?, options));
    let conflict = first.as_ref().unwrap_or(conflict);
    let limits = &options.limits;
    with_model(spec, operations, words.values, options, Explain { operations, words, conflict, limits, failure })
}

/// The conflict that shows first, by this event. A check may report a later one.
fn first_conflict(
    spec: ModelSpec,
    operations: &[Op],
    words: &Words,
    event: u32,
    options: &Options,
) -> Option<Conflict> {
    let (prefix, places) = before(operations, event.checked_add(1)?);
    match linear_time_check(spec, &prefix, words.values, options) {
        Answer::NotLinearizable(conflict) => {
            let places = conflict.operations.iter().map(|place| places[*place as usize]).collect();
            Some(Conflict { operations: places, ..conflict })
        }
        _ => None,
    }
}

/// Where a history fails.
struct FailurePoint {
    legal_before: u32,
    /// The first event by which there is no legal order, if known.
    event: Option<u32>,
}

/// At most this many conflicts are searched for one after another. If there are more, it is faster to go back by growing steps,
/// and then to halve the rest.
const ONE_BY_ONE: u32 = 3;

/// Where a history fails, according to the near-linear checks of its prefixes. None if that takes a search.
fn failure(
    spec: ModelSpec,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    options: &Options,
) -> Option<FailurePoint> {
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
    // A conflict from a search may contain most of the operations; a conflict from the caller may be wrong.
    if conflict.operations.len() > FEW || few && check(by + 1).is_ok() {
        return None;
    }
    // Part of the conflict may return later than necessary to show it, unless it is a conflict only because a writer is missing.
    let set: Vec<Op> =
        conflict.operations.iter().filter_map(|place| operations.get(*place as usize).copied()).collect();
    if let Finding::Illegal { event, .. } = examine_object(spec, &set, words.values, options, Strategy::Race)
        && event < by
        && let Err(Some(earlier)) = check(event + 1)
    {
        by = earlier;
    }
    let mut failure = FailurePoint { legal_before: 0, event: None };
    for round in 0_u32.. {
        let back = if round < ONE_BY_ONE { 0 } else { 1 << (2 * round).min(31) };
        let event = by - back.min((by - failure.legal_before) / 2);
        match if (options.limits.give_up)() { Ok(false) } else { check(event) } {
            Ok(true) => failure.legal_before = event,
            Err(Some(earlier)) => by = earlier,
            // With few operations a search finds it.
            Ok(false) | Err(None) => return (!few).then_some(failure),
        }
        if failure.legal_before == by {
            failure.event = Some(by);
            break;
        }
    }
    Some(failure)
}
