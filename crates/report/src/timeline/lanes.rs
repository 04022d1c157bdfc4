//! The lanes of the timeline, and the counts of a client's operations if there are too many to include.

use crate::Report;
use base::members::{client_name, node_name};
use model::history::{Operation, Outcome, Process};
use summary::times;

/// The number of time ranges with counts.
const BINS: usize = 1200;
const MOST_LANES: u32 = 200;

/// Nanoseconds as whole microseconds.
pub(super) fn micros(ns: u64) -> u64 {
    ns / 1000
}

/// A client's operations that ended in a time range: ok, fail, info. Then the share of the range in which the client held the
/// lock, in thousandths.
pub(super) type Bin = (u32, u32, u32, u32);

pub(crate) struct Lanes {
    pub clients: Vec<String>,
    pub nodes: Vec<String>,
    in_all: u32,
}

impl Lanes {
    pub fn of(report: &Report) -> Lanes {
        let history = report.story.subject.history;
        let processes = history.operations.iter().filter_map(|operation| match operation.process {
            Process::Client(number) => Some(number),
            Process::Controller => None,
        });
        let header = history.run.as_ref().filter(|run| run.clients > 0);
        let clients =
            header.map_or_else(|| processes.max().map_or(0, |most| most.saturating_add(1)), |run| run.clients);
        let nodes = header.map_or(0, |run| run.nodes).min(MOST_LANES);
        let clients = clients.max(1);
        let names = |name: fn(u32) -> String, number| (0..number).map(name).collect();
        Lanes { clients: names(client_name, clients.min(MOST_LANES)), nodes: names(node_name, nodes), in_all: clients }
    }

    #[cfg(test)]
    pub(super) fn for_test(clients: u32, nodes: u32) -> Lanes {
        Lanes {
            clients: (0..clients).map(client_name).collect(),
            nodes: (0..nodes).map(node_name).collect(),
            in_all: clients,
        }
    }

    /// The index of a process's client. One more than the last for the controller, and for clients without a lane.
    pub fn place(&self, process: Process) -> u32 {
        match process {
            Process::Client(number) => (number % self.in_all).min(self.clients.len() as u32),
            Process::Controller => self.clients.len() as u32,
        }
    }

    /// The counts of each client's operations.
    pub(super) fn bins(&self, operations: &[Operation], last: u64) -> Vec<Vec<Bin>> {
        let width = (last / BINS as u64).max(1);
        let bin = |time: u64| ((time / width) as usize).min(BINS - 1);
        let mut counts = vec![vec![(0, 0, 0, 0_u32); BINS]; self.clients.len()];
        let mut held = vec![vec![0_u64; BINS]; self.clients.len()];
        for operation in operations {
            let Some(of_client) = counts.get_mut(self.place(operation.process) as usize) else { continue };
            let into = &mut of_client[bin(operation.completed.unwrap_or(operation.invoked))];
            match operation.outcome {
                Outcome::Ok => into.0 += 1,
                Outcome::Fail => into.1 += 1,
                Outcome::Info => into.2 += 1,
            }
            let Some(hold) = times::hold(operation) else { continue };
            let of_client = &mut held[self.place(operation.process) as usize];
            let (first, last) = (bin(hold.start), bin(hold.end));
            for (place, held) in (first..).zip(&mut of_client[first..=last.max(first)]) {
                let (from, to) = (place as u64 * width, (place as u64 + 1) * width);
                *held += hold.end.min(to).saturating_sub(hold.start.max(from));
            }
        }
        for (counts, held) in counts.iter_mut().zip(&held) {
            for (count, held) in counts.iter_mut().zip(held) {
                count.3 = (held * 1000 / width).min(1000) as u32;
            }
        }
        counts
    }
}
