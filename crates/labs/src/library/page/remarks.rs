//! What a library does that no claim is about, and whoever uses it wants to know.

use std::cmp::Reverse;

use crate::library::examined::{Examined, Tried, TriedRun};
use base::words::{plural, sanitize};
use checker::AnomalyKind;
use checker::properties::busy_polling::Asking;
use checker::properties::early_refusals::{LockOccupancy, Refusals};
use checker::properties::false_losses::FalseLosses;
use checker::properties::slow_releases::SlowRelease;
use checker::properties::stray_commands::StrayCommand;

/// So many attempts that are refused early are no accident.
const NO_ACCIDENT: u64 = 2;

/// Which attempts of a run may be refused early, and what was so then.
type Refused = (fn(&TriedRun) -> &Refusals, LockOccupancy);
const REFUSED: [Refused; 2] =
    [(|run| &run.refusals, LockOccupancy::ByOthers), (|run| &run.refusals_of_free, LockOccupancy::ByNobody)];

/// Scenarios in which it did one such thing.
pub struct Remarks<'e> {
    pub id: &'static str,
    pub title: &'static str,
    /// What there is to say of each, in a sentence.
    pub of: Vec<(&'e Tried, String)>,
}

/// All there is to remark.
pub fn remarks(examined: &Examined) -> Vec<Remarks<'_>> {
    let each = |say: &dyn Fn(&Tried) -> Option<String>| -> Vec<(&Tried, String)> {
        examined.tried.iter().filter_map(|tried| Some((tried, say(tried)?))).collect()
    };
    let ended = |tried: &Tried| tried.ended_under_a_fault().map(|ended| sanitize(&ended.how, 400));
    let lost = |tried: &Tried| Some(tried.false_losses()).filter(|losses| losses.told > 0).map(|losses| losses.words());
    let early = |tried: &Tried| {
        let of_each = REFUSED.iter().map(|(of, had)| (tried.refusals(of), had));
        let early = of_each.filter(|(all, _)| all.early > 0).map(|(all, had)| all.words(had.words()));
        Some(early.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    };
    let mut slow: Vec<(&Tried, &SlowRelease)> =
        examined.tried.iter().filter_map(|tried| Some((tried, tried.slow_release()?))).collect();
    slow.sort_by_key(|(_, slow)| Reverse(slow.took));
    let all = [
        Remarks {
            id: "ends",
            title: "Its program ends under a fault that ends nobody: no claim is broken by that, but it is gone",
            of: each(&ended),
        },
        Remarks {
            id: "false-losses",
            title: "Says that the lock is lost while it has it: no claim is broken by that, but whoever believes it gives up",
            of: each(&lost),
        },
        Remarks {
            id: "untrue",
            title: "Says what is not so: its file claims nothing of that, but whoever believes it is wrong",
            of: untrue(&examined.tried),
        },
        Remarks {
            id: "goes-on",
            title: "Goes on when its lock is given back, or was never had: no claim is broken by that, but nobody asked for it",
            of: each(&|tried| tried.runs.iter().find_map(|run| run.goes_on.as_ref()).map(StrayCommand::words)),
        },
        Remarks {
            id: "early-refusals",
            title: "Gives up before its time: no claim is broken by that, but whoever asks is refused while there is time",
            of: each(&early),
        },
        Remarks {
            id: "slow-releases",
            title: "Gives the lock back late: no claim is broken by that, but whoever calls waits for so long",
            of: slow.into_iter().map(|(tried, slow)| (tried, slow.words())).collect(),
        },
        Remarks {
            id: "asking",
            title: "Hardly rests while it waits: no claim is broken by that, but a node has others to serve",
            of: each(&|tried| tried.asking().map(Asking::words)),
        },
    ];
    all.into_iter().filter(|remarks| !remarks.of.is_empty()).collect()
}

/// One scenario for each kind of what was not so, and in how many others it was.
fn untrue(all: &[Tried]) -> Vec<(&Tried, String)> {
    let mut told: Vec<(AnomalyKind, &Tried, &str, u64)> = Vec::new();
    for tried in all {
        let mut kinds = Vec::new();
        for (kind, said) in tried.runs.iter().flat_map(|run| &run.untrue) {
            if kinds.contains(kind) {
                continue;
            }
            kinds.push(*kind);
            match told.iter_mut().find(|(other, ..)| other == kind) {
                Some((.., more)) => *more += 1,
                None => told.push((*kind, tried, said, 0)),
            }
        }
    }
    let one = |(_, tried, said, more): (AnomalyKind, _, &str, u64)| {
        let more = if more > 0 { format!("; and so in {}", plural(more, "other scenario")) } else { String::new() };
        (tried, sanitize(said, 400) + &more)
    };
    told.into_iter().map(one).collect()
}

/// What it does with nothing done to anybody.
pub struct FaultFree<'e> {
    /// In capitals, for a page on which nothing is worse.
    pub word: &'static str,
    pub what: String,
    /// A run that shows it.
    pub run: &'e TriedRun,
}

/// All that it does by itself, which comes before everything else.
pub fn fault_free(examined: &Examined) -> Vec<FaultFree<'_>> {
    let runs = || examined.tried.iter().flat_map(|tried| &tried.runs);
    let mut all = Vec::new();
    let (ended, of) = examined.ended();
    if let Some(run) = ended.first() {
        let how = run.ended.as_ref().map_or("", |ended| &ended.how);
        let runs = plural(of as u64, "run");
        let what = format!("Its program ended by itself, with no fault, in {} of {runs}: {how}", ended.len());
        all.push(FaultFree { word: "ENDS BY ITSELF", what, run });
    }
    let losses_of = |run: &&TriedRun| run.false_losses.struck.is_empty();
    let losses = runs().filter(losses_of).fold(FalseLosses::default(), |all, run| all.and(&run.false_losses));
    let shows = |run: &&TriedRun| run.false_losses.told > 0 && run.false_losses.soonest == losses.soonest;
    if let Some(run) = runs().filter(losses_of).find(shows) {
        let what = format!("It says that a lock is lost which it has, with no fault: {}", losses.words());
        all.push(FaultFree { word: "FALSE LOSSES", what, run });
    }
    if let Some((run, what)) = runs().find_map(|run| Some((run, run.goes_on.as_ref().filter(|it| !it.faulty)?))) {
        let what = format!("It goes on when its lock is given back, or was never had, with no fault: {}", what.words());
        all.push(FaultFree { word: "GOES ON", what, run });
    }
    for (of, had) in REFUSED {
        let refusals = runs().fold(Refusals::default(), |all, run| all.and(of(run)));
        let shows = |run: &&TriedRun| of(run).early > 0 && of(run).soonest == refusals.soonest;
        if let Some(run) = runs().find(shows).filter(|_| refusals.early >= NO_ACCIDENT) {
            let what = format!("It gives up before its time, with no fault: {}", refusals.words(had.words()));
            all.push(FaultFree { word: "GIVES UP EARLY", what, run });
        }
    }
    all
}
