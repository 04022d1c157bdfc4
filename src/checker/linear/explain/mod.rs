//! Counterexamples that a person can follow: the fewest operations that have no legal order, why they have none, and how
//! far the history was legal.

mod cycle;
mod ends;
mod shrink;

use serde::Serialize;

pub use ends::DeadEnd;

use super::dispatch::{Options, WithModel, with_model};
use super::search::{Finding, Limits, Strategy, before, examine};
use super::words::Words;
use super::{Conflict, Model, ModelSpec};
use crate::history::table::Op;

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

/// Explains why operations have no legal order. `conflict` is what the check that found it says.
pub fn explain<M: Model>(
    model: &M,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    limits: &Limits,
) -> Explanation {
    let (kept, minimal) = shrink::shrink(model, operations, &conflict.operations, limits);
    let mut explanation = Explanation {
        operations: kept.iter().map(|kept| kept.place).collect(),
        weakened: kept.iter().filter(|kept| kept.weakened).map(|kept| kept.place).collect(),
        minimal,
        dead_ends: ends::dead_ends(model, &kept, words),
        ..Explanation::default()
    };
    cycle::tell(model, &kept, operations, words, conflict, &mut explanation);

    match examine(model, operations, limits, Strategy::Race) {
        Finding::Illegal { place, event } => {
            (explanation.fails_at, explanation.legal_before) = (Some(place), event);
        }
        Finding::Unknown { legal_before, .. } => explanation.legal_before = legal_before,
        Finding::Legal { .. } => {}
    }
    let (prefix, places) = before(operations, explanation.legal_before);
    if let Finding::Legal { order } = examine(model, &prefix, limits, Strategy::Depth) {
        let omitted = order.len().saturating_sub(TOLD);
        explanation.order = order[omitted..].iter().map(|place| places[*place as usize]).collect();
        explanation.order_omitted = omitted as u32;
    }
    explanation
}

/// [`explain`] with a built-in model.
pub fn explain_object(
    spec: ModelSpec,
    operations: &[Op],
    words: &Words,
    conflict: &Conflict,
    options: &Options,
) -> Explanation {
    struct Explain<'a, 'b>(&'a [Op], &'a Words<'a>, &'a Conflict, &'a Limits<'b>);
    impl WithModel for Explain<'_, '_> {
        type Output = Explanation;
        fn with<M: Model>(self, model: &M) -> Explanation {
            explain(model, self.0, self.1, self.2, self.3)
        }
    }
    with_model(spec, operations, words.values, options, Explain(operations, words, conflict, &options.limits))
}
