//! When a client could neither act nor report: a fault had stopped it, or the machine stood still. A wrong clock stops no client.

use std::collections::BTreeMap;

use super::starved::covered;
use model::fault_kinds::OnProcess;
use model::history::{FaultWindow, History};

/// The times in which each client, or some of its threads, or the machine was stopped, ordered by their starts.
pub(super) struct Stops<'h> {
    of_clients: BTreeMap<&'h str, Vec<(u64, u64)>>,
    of_the_machine: &'h [(u64, u64)],
}

impl<'h> Stops<'h> {
    pub fn new(history: &'h History) -> Stops<'h> {
        let mut of_clients: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for window in history.faults.iter().filter(|window| stops(window)) {
            for target in &window.targets {
                of_clients.entry(target).or_default().push(span(window));
            }
        }
        for spans in of_clients.values_mut() {
            spans.extend(&history.stalls);
            spans.sort_unstable();
        }
        Stops { of_clients, of_the_machine: &history.stalls }
    }

    fn spans(&self, client: &str) -> &[(u64, u64)] {
        self.of_clients.get(client).map_or(self.of_the_machine, Vec::as_slice)
    }

    /// How much of this time a client may have been stopped, in nanoseconds.
    pub fn of(&self, client: &str, from: u64, to: u64) -> u64 {
        covered(self.spans(client).iter().copied(), from, to)
    }

    /// Why a client may have been stopped at some point in this time, both ends included: `its client was paused`.
    pub fn why(&self, history: &History, client: &str, from: u64, to: u64) -> Option<String> {
        self.spans(client).iter().find(|(start, end)| *start <= to && from <= *end).map(|(start, end)| {
            let is_it = |window: &&FaultWindow| {
                stops(window) && window.targets.iter().any(|target| target == client) && span(window) == (*start, *end)
            };
            match history.faults.iter().find(is_it) {
                Some(window) => format!("its client was {}", window.kind.says.done),
                None => "the machine stood still".to_string(),
            }
        })
    }
}

fn stops(window: &FaultWindow) -> bool {
    window.kind.does.process != OnProcess::GoesOn && window.skipped.is_none()
}

/// The start and end of a fault. If its heal was not observed, it may still last.
fn span(window: &FaultWindow) -> (u64, u64) {
    (window.inject, window.healed.filter(|(_, seen)| *seen).map_or(u64::MAX, |(time, _)| time))
}
