//! Finds the fewest operations without a legal order.
//!
//! Delta debugging (Zeller and Hildebrandt 2002), but only with sound deletions: the model says that they keep a legal order
//! legal ([`Model::omissible`], [`Model::weaken`]). So the remaining operations are illegal in the whole history too, not just
//! because others were deleted.

use std::collections::BTreeSet;

use super::FEW;
use crate::Model;
use crate::history::{Op, OpFunction};
use crate::search::{Finding, Limits, Strategy, examine};

/// An operation that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub place: u32,
    pub op: Op,
    /// The value that it found does not matter.
    pub weakened: bool,
}

/// Returns the remaining operations, and whether they are certainly minimal. `hint` names some that may be illegal alone.
///
/// Starts from the hint and its dependencies. If these are legal, or too many, starts from the hint alone, provided that there
/// are many operations and the hint is illegal. Otherwise starts from all.
pub fn shrink<M: Model>(model: &M, operations: &[Op], hint: &[u32], limits: &Limits) -> (Vec<Kept>, bool) {
    let keep = |place: u32| operations.get(place as usize).map(|op| Kept { place, op: *op, weakened: false });
    let mut shrinking = Shrinking { model, limits, besides: Vec::new(), kept: Vec::new(), sure: true };
    let complete = complete(model, operations, hint).filter(|kept| kept.len() <= FEW || operations.len() <= FEW);
    let begun = complete.is_some_and(|kept| shrinking.begin(kept, true))
        || operations.len() > FEW && shrinking.begin(hint.iter().copied().filter_map(keep).collect(), false);
    if !begun {
        let all: Vec<Kept> = (0..operations.len() as u32).filter_map(keep).collect();
        shrinking.sure = true;
        if !shrinking.begin(all.clone(), true) {
            // It matters that no other operation happened.
            (shrinking.kept, shrinking.besides) = (all, Vec::new());
        }
    }
    shrinking.cut();
    loop {
        let before = shrinking.kept.clone();
        shrinking.delete();
        shrinking.weaken();
        if shrinking.kept == before {
            return (shrinking.kept, shrinking.sure);
        }
        shrinking.cut();
    }
}

/// The hint with all its dependencies. Added operations are weakened where possible.
fn complete<M: Model>(model: &M, operations: &[Op], hint: &[u32]) -> Option<Vec<Kept>> {
    let hint: BTreeSet<u32> = hint.iter().copied().filter(|place| (*place as usize) < operations.len()).collect();
    let places: Vec<u32> = hint.iter().copied().collect();
    let keep = |place: u32| Kept { place, op: operations[place as usize], weakened: false };
    let mut kept: Vec<Kept> = places.iter().map(|place| keep(*place)).collect();
    kept.extend(model.needed(operations, &places)?.into_iter().map(|place| match model.weaken(&keep(place).op) {
        Some(op) => Kept { op, weakened: true, ..keep(place) },
        None => keep(place),
    }));
    // Added operations that cannot be weakened may need others in turn; then the hint is useless.
    let closed = kept.iter().skip(places.len()).all(|kept| kept.weakened || kept.op.f == OpFunction::Write)
        || model.needed(operations, &kept.iter().map(|kept| kept.place).collect::<Vec<_>>())?.is_empty();
    kept.sort_unstable_by_key(|kept| kept.place);
    (closed && !kept.is_empty()).then_some(kept)
}

struct Shrinking<'a, M> {
    model: &'a M,
    limits: &'a Limits<'a>,
    /// Operations that stand for everything that is left out.
    besides: Vec<Op>,
    kept: Vec<Kept>,
    /// True as long as no search gave up.
    sure: bool,
}

impl<M: Model> Shrinking<'_, M> {
    /// Starts from these operations if they are illegal: with bystanders, or alone.
    fn begin(&mut self, kept: Vec<Kept>, besides: bool) -> bool {
        let operations: Vec<Op> = kept.iter().map(|kept| kept.op).collect();
        self.besides = if besides { self.model.bystanders(&operations) } else { Vec::new() };
        self.kept = kept;
        self.is_illegal(&self.kept.clone())
    }

    fn is_over(&mut self) -> bool {
        let over = (self.limits.give_up)();
        self.sure &= !over;
        over
    }

    fn with_bystanders(&self, kept: &[Kept]) -> Vec<Op> {
        self.besides.iter().copied().chain(kept.iter().map(|kept| kept.op)).collect()
    }

    fn find(&mut self, kept: &[Kept]) -> Option<u32> {
        if self.is_over() {
            return None;
        }
        match examine(self.model, &self.with_bystanders(kept), self.limits, Strategy::Race) {
            Finding::Illegal { event, .. } => Some(event),
            Finding::Legal { .. } => None,
            Finding::Unknown { .. } => {
                self.sure = false;
                None
            }
        }
    }

    fn is_illegal(&mut self, kept: &[Kept]) -> bool {
        self.find(kept).is_some()
    }

    /// Drops operations invoked after the event at which no order was legal any more.
    fn cut(&mut self) {
        if let Some(event) = self.find(&self.kept.clone()) {
            self.kept.retain(|kept| kept.op.invoked < event);
        }
    }

    /// Drops as many operations as possible, many at a time at first.
    fn delete(&mut self) {
        let mut size = self.sets().len();
        while size > 0 {
            let mut from = 0;
            loop {
                let sets = self.sets();
                if from >= sets.len() || self.is_over() {
                    break;
                }
                let to = (from + size).min(sets.len());
                let mut stays = vec![true; self.kept.len()];
                sets[from..to].iter().flatten().for_each(|place| stays[*place as usize] = false);
                let mut stays = stays.into_iter();
                let rest: Vec<Kept> = self.kept.iter().copied().filter(|_| stays.next().unwrap_or(true)).collect();
                if !rest.is_empty() && self.is_illegal(&rest) {
                    self.kept = rest;
                } else {
                    from = to;
                }
            }
            size /= 2;
        }
    }

    fn sets(&self) -> Vec<Vec<u32>> {
        let sets = self.model.omissible(&self.with_bystanders(&self.kept)).into_iter();
        let besides = self.besides.len() as u32;
        let of_kept = |set: Vec<u32>| set.into_iter().map(|place| place.checked_sub(besides)).collect();
        sets.filter_map(of_kept).collect()
    }

    /// Weakens operations, many at a time at first.
    fn weaken(&mut self) {
        let mut size = self.kept.len();
        while size > 0 {
            for from in (0..self.kept.len()).step_by(size) {
                if self.is_over() {
                    return;
                }
                let mut weaker = self.kept.clone();
                for kept in weaker.iter_mut().skip(from).take(size) {
                    if let Some(op) = self.model.weaken(&kept.op) {
                        *kept = Kept { op, weakened: true, ..*kept };
                    }
                }
                if weaker != self.kept && self.is_illegal(&weaker) {
                    self.kept = weaker;
                }
            }
            size /= 2;
        }
    }
}
