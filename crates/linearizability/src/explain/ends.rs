//! How every order of a few operations ends.

use serde::Serialize;

use super::shrink::Kept;
use crate::history::Outcome;
use crate::words::Words;
use crate::{Model, Transition};

/// An order that is legal up to a point and cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadEnd {
    /// Operations that fit one after another, as places.
    pub order: Vec<u32>,
    /// The state of the object then, if the model can describe it.
    pub state: Option<String>,
    /// The operation that must come next but does not fit: it returned before all other remaining operations.
    pub refused: u32,
}

/// At most this many dead ends are listed.
const TOLD: usize = 6;
/// Orders are tried only for at most this many operations.
const FEW: usize = 12;
const STEPS: usize = 20_000;

/// The longest orders that cannot go on; empty if there are too many operations.
pub fn dead_ends<M: Model>(model: &M, kept: &[Kept], words: &Words) -> Vec<DeadEnd> {
    let mut walk =
        Walk { model, kept, words, left: vec![true; kept.len()], order: Vec::new(), found: Vec::new(), steps: 0 };
    if kept.len() <= FEW {
        walk.go_on(&model.initial());
    }
    let mut found = walk.found;
    found.sort_by_key(|end| std::cmp::Reverse(end.order.len()));
    found.dedup_by(|one, other| one.state == other.state && one.refused == other.refused);
    found.truncate(TOLD);
    found
}

struct Walk<'a, M> {
    model: &'a M,
    kept: &'a [Kept],
    words: &'a Words<'a>,
    left: Vec<bool>,
    order: Vec<u32>,
    found: Vec<DeadEnd>,
    steps: usize,
}

impl<M: Model> Walk<'_, M> {
    fn go_on(&mut self, state: &M::State) {
        self.steps += 1;
        let waiting = || (0..self.kept.len()).filter(|at| self.left[*at]);
        let must = waiting().filter(|at| self.kept[*at].op.outcome != Outcome::Info);
        let Some(first) = must.min_by_key(|at| self.kept[*at].op.completed) else { return };
        let deadline = self.kept[first].op.completed;
        let mut stuck = true;
        for at in 0..self.kept.len() {
            if !self.left[at] || self.kept[at].op.invoked > deadline || self.steps > STEPS {
                continue;
            }
            let next = match self.model.step(state, &self.kept[at].op) {
                Transition::Same => state.clone(),
                Transition::To(next) => next,
                Transition::Illegal => continue,
            };
            stuck = false;
            self.left[at] = false;
            self.order.push(self.kept[at].place);
            self.go_on(&next);
            self.order.pop();
            self.left[at] = true;
        }
        if stuck {
            let state = self.model.describe(state, self.words);
            self.found.push(DeadEnd { order: self.order.clone(), state, refused: self.kept[first].place });
        }
    }
}
