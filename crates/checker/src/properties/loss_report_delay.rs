//! The delay from the loss of a lock until the library reports it to the holder. Where a workload states a limit, the claim
//! `losses` decides.

use super::super::stopped::Stops;
use super::Recorded;
use super::losses::{gone, held};
use super::*;

pub static DEF: Advisory = Advisory {
    id: "loss-report-delay",
    title: "The library reports a lost lock to its holder at once",
    applies: "runs whose clients report how long their lock is valid, or in which another client acquires it",
    check,
};

/// The shortest delay that is reported, in nanoseconds: a library checks only now and then.
const AT_ONCE_NS: u64 = 100_000_000;

/// Reports the longest time for which a holder acted without its lock, minus the time in which it was stopped.
fn check(run: &Recorded) -> Option<Remark> {
    let (history, words) = (run.history, Words::new(run.history));
    let (owners, stops) = (Owners::new(history), Stops::new(history));
    let delay = |(place, operation): (usize, &Operation)| {
        let (until, told) = held(operation)?;
        let (from, client) = (gone(history, &owners, place, until)?.from, words.client(place));
        let delay = until.saturating_sub(from).saturating_sub(stops.of(&client, from, until));
        // If a client did not run, its delay proves nothing about its lock.
        let margin = delay.saturating_sub(AT_ONCE_NS);
        let ran = margin == 0 || kept(history, Needs::Client(&client), (from, until), margin).is_none();
        ran.then_some((delay, place, told.is_some()))
    };
    let holders = history.operations.iter().enumerate().filter(|(_, operation)| operation.f.is_locked());
    let delays: Vec<(u64, usize, bool)> = holders.filter_map(delay).collect();
    let late = || delays.iter().filter(|(delay, ..)| *delay > AT_ONCE_NS);
    let (longest, place, told) = late().max_by_key(|(delay, ..)| *delay)?;
    let (client, longest) = (words.client(*place), length(*longest));
    let text = match told {
        true => format!("the library reported the loss to {client} {longest} after its lock was gone"),
        false => format!("{client} worked for {longest} without its lock, and the library did not report the loss"),
    };
    Remark::new(late().count() as u64, delays.len() as u64, text)
}
