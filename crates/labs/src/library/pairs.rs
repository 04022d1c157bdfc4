//! Scenarios with two faults in one operation. The library passed each fault alone, but that does not show that it passes both
//! together.
//!
//! After the first fault, the client goes on, by itself or after the heal. The second fault then runs as it does alone.

use super::commands::{RenewalMode, When};
use super::steps::Steps;
use super::strikes::{FaultPoint, Place, Scripted, Strike};

/// There is rarely time for more pairs.
const MOST: usize = 60;

/// How two faults follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Together {
    /// The same command, at two nodes.
    AtTwoNodes,
    /// One fault during the acquisition, the other at the release.
    TakenAndGivenBack,
    /// One fault at a renewal, the other at the release.
    RenewedAndGivenBack,
    /// One fault during the acquisition, the other at a renewal.
    TakenAndRenewed,
    /// At two consecutive commands.
    InARow,
}

/// Pairs of these passed faults. The order alternates between the ways to follow each other.
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

/// How the second fault can follow the first. None if it cannot, or if it would hit another command.
fn together(first: &FaultPoint, second: &FaultPoint, upkeep: RenewalMode) -> Option<Together> {
    use Strike::*;
    use When::{Holding, Releasing, Taking};
    // A paused client may already hold the lock. The pause alone would then be the cause.
    let ends = matches!(second.strike, LateReply | LateRequest | LostReply);
    let (one, other) = (&first.sent, &second.sent);
    let everywhere = first.at == Place::All && second.at == Place::All;
    // A fault recognizes a command by its name and key, so it would confuse two equal commands.
    let told_apart = (&one.name, one.on()) != (&other.name, other.on());
    match (one.when, other.when) {
        (When::Waiting, _) | (_, When::Waiting) => None,
        // The script would stop the client from working, and so from extending its lock.
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
                // The client may wait for that reply.
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
                // The client waits for its reply.
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
