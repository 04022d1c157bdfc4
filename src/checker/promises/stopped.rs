//! When a client could neither act nor speak: a fault had stopped it, or the machine stood still. A clock that is wrong
//! stops nobody.

use std::collections::BTreeMap;

use super::super::liveness::covered;
use crate::fault_kinds::OnProcess;
use crate::history::{FaultWindow, History};

/// The times in which each client, or a part of its threads, was stopped, or the machine, ordered by their starts.
pub(super) struct Stops<'h> {
    of_clients: BTreeMap<&'h str, Vec<(u64, u64)>>,
    of_the_machine: &'h [(u64, u64)],
}

impl<'h> Stops<'h> {
    pub fn new(history: &'h History) -> Stops<'h> {
        // One whose heal nobody saw may still last.
        let until = |window: &FaultWindow| window.healed.filter(|(_, seen)| *seen).map_or(u64::MAX, |(time, _)| time);
        let stops = |window: &&FaultWindow| window.kind.does.process != OnProcess::GoesOn && window.skipped.is_none();
        let mut of_clients: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for window in history.faults.iter().filter(stops) {
            for target in &window.targets {
                of_clients.entry(target).or_default().push((window.inject, until(window)));
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

    /// For how much of this time a client may have been stopped, in nanoseconds.
    pub fn of(&self, client: &str, from: u64, to: u64) -> u64 {
        covered(self.spans(client).iter().copied(), from, to)
    }

    /// Whether a client may have been stopped at some moment of this time, both ends included.
    pub fn any(&self, client: &str, from: u64, to: u64) -> bool {
        self.spans(client).iter().any(|(start, end)| *start <= to && from <= *end)
    }
}
