//! Scenarios that strike twice in one operation, made of strikes that a library withstood one by one: what two of them do
//! together is not known from either.
//!
//! The first one leaves its client going on, by itself or once it is healed; the second one is told as it is alone.

use super::commands::{RenewalMode, When};
use super::steps::Steps;
use super::strikes::{FaultPoint, Place, Scripted, Strike};

/// More are seldom played in the time that there is.
const MOST: usize = 60;

/// How two strikes follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Together {
    /// The same command, at one node and at another.
    AtTwoNodes,
    /// One while it takes the lock, the other when it gives back what it got of it.
    TakenAndGivenBack,
    /// One at a renewal, the other at the release.
    RenewedAndGivenBack,
    /// One while it takes the lock, the other at a renewal.
    TakenAndRenewed,
    /// One command after the other.
    InARow,
}

/// The pairs of these, which were withstood; of each way to follow each other some come before the rest of any.
pub fn pairs(withstood: &[FaultPoint], upkeep: RenewalMode) -> Vec<Scripted> {
    let mut ranked: Vec<((usize, Together), Scripted)> = Vec::new();
    for first in withstood {
        for second in withstood {
            let Some(together) = together(first, second, upkeep) else { continue };
            let before = ranked.iter().filter(|((_, other), _)| *other == together).count();
            let scenario = Scripted::new(vec![first.clone(), second.clone()], upkeep, 0, ("", ""), |steps, aims| {
                let [first, second] = aims else { return };
                together.write(steps, first, second);
            });
            ranked.push(((before, together), scenario));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, scenario)| scenario).take(MOST).collect()
}

/// How the second one may follow the first; None if it can't, or would be another one.
fn together(first: &FaultPoint, second: &FaultPoint, upkeep: RenewalMode) -> Option<Together> {
    use Strike::*;
    use When::{Holding, Releasing, Taking};
    // A client that stops may be one that has the lock by now, and then the pause is all that there is to it.
    let ends = matches!(second.strike, LateReply | LateRequest | LostReply);
    let (one, other) = (&first.sent, &second.sent);
    let everywhere = first.at == Place::All && second.at == Place::All;
    // A fault waits for a name and a key: it would take the one for the other.
    let told_apart = (&one.name, one.on()) != (&other.name, other.on());
    match (one.when, other.when) {
        (When::Waiting, _) | (_, When::Waiting) => None,
        // The script would keep it from working, and so from extending its lock.
        (Holding, _) | (_, Holding) if upkeep == RenewalMode::ByItsHolder => None,
        (when, same) if when == same && one == other && !everywhere => {
            let two = matches!((first.at, second.at), (Place::Node(one), Place::Node(other)) if one < other);
            (two && first.strike == LostReply && ends).then_some(Together::AtTwoNodes)
        }
        _ if !everywhere => None,
        (Taking, Releasing) => {
            let goes_on = first.strike == LateReply || (first.strike == LostReply && told_apart);
            (goes_on && ends).then_some(Together::TakenAndGivenBack)
        }
        (Holding, Releasing) => {
            let goes_on = matches!(first.strike, Reset | LostReply) && told_apart;
            (goes_on && ends).then_some(Together::RenewedAndGivenBack)
        }
        (Taking, Holding) => {
            (first.strike == Reset && (ends || second.strike == Reset)).then_some(Together::TakenAndRenewed)
        }
        (Holding, Holding) if !told_apart => {
            (first.strike == Reset && ends && one.nth == other.nth).then_some(Together::InARow)
        }
        (when, same) if when == same => {
            let later = if told_apart { one < other } else { one.nth < other.nth };
            (first.strike == Reset && later && (ends || second.strike == Kill)).then_some(Together::InARow)
        }
        _ => None,
    }
}

impl Together {
    fn write(self, steps: &mut Steps, first: &FaultPoint, second: &FaultPoint) {
        let when = first.sent.when;
        match self {
            Together::AtTwoNodes => {
                steps.begin(when, &[first, second]);
                steps.await_strike(first, "2ttl");
                steps.strike_and_after(second);
                // Its client may wait for that answer.
                let end = steps.steps.iter().rposition(|step| step == "await client:0 end");
                steps.heal(first);
                if let (Some(end), Some(heal)) = (end, steps.steps.pop()) {
                    steps.steps.insert(end, heal);
                }
                return;
            }
            Together::TakenAndGivenBack => {
                steps.begin(when, &[first]);
                steps.await_strike(first, "2ttl");
                // It waits for its answer.
                steps.arm(second);
                steps.add([if first.strike == Strike::LateReply { "wait 1.1ttl" } else { "wait 0.2ttl" }]);
                steps.heal(first);
            }
            Together::TakenAndRenewed => {
                steps.add(["wait 1ttl", "start client:0 to acquiring giving up after 3ttl"]);
                steps.arm(first);
                steps.add(["go client:0 to read"]);
                steps.await_strike(first, "1ttl");
                steps.heal(first);
                steps.arm(second);
            }
            Together::InARow if when != When::Holding => {
                steps.begin(when, &[first, second]);
                steps.await_strike(first, "2ttl");
                steps.heal(first);
            }
            Together::InARow | Together::RenewedAndGivenBack => {
                steps.begin(when, &[first]);
                steps.await_strike(first, "2ttl");
                if first.strike == Strike::LostReply {
                    steps.add(["wait 0.2ttl"]);
                }
                steps.heal(first);
                steps.arm(second);
                if self == Together::RenewedAndGivenBack {
                    steps.add(["go client:0"]);
                }
            }
        }
        steps.strike_and_after(second);
    }
}
