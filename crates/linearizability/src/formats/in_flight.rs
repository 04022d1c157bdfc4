//! The operation that each process has in flight, and impossible events. The same for every kind of history.

use std::collections::HashMap;

/// The operations in flight, by the numbers of their processes. The caller numbers the operations.
#[derive(Debug, Default)]
pub struct InFlight {
    /// For processes below [`LISTED`]. A file may use any number, but the list must not grow without limit.
    listed: Vec<ProcessState>,
    others: HashMap<u32, ProcessState>,
}

const LISTED: u32 = 1 << 20;

/// The state of a process.
#[derive(Clone, Copy, Debug, Default)]
enum ProcessState {
    #[default]
    Idle,
    Open(u32),
    /// It ended while performing this operation, whose outcome may still be reported.
    Leaving(u32),
    Ended,
    /// This operation never completed, so it is unknown if the process still performs it.
    Lost(u32),
}

/// An impossible event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTurn {
    /// It invoked an operation while performing this one.
    Busy(u32),
    /// It completed an operation that it did not invoke.
    NotInvoked,
    /// It acted again after it had ended.
    Ended,
    /// It acted again after this operation had become indeterminate.
    Lost(u32),
}

impl InFlight {
    /// A process invokes an operation.
    pub fn invoke(&mut self, process: u32, operation: u32) -> Result<(), OutOfTurn> {
        let state = self.state(process);
        match *state {
            ProcessState::Idle => *state = ProcessState::Open(operation),
            ProcessState::Open(open) => return Err(OutOfTurn::Busy(open)),
            ProcessState::Leaving(_) | ProcessState::Ended => return Err(OutOfTurn::Ended),
            ProcessState::Lost(operation) => return Err(OutOfTurn::Lost(operation)),
        }
        Ok(())
    }

    /// A process completes its operation, which is returned.
    pub fn complete(&mut self, process: u32) -> Result<u32, OutOfTurn> {
        let state = self.state(process);
        let (operation, next) = match *state {
            ProcessState::Open(operation) => (operation, ProcessState::Idle),
            ProcessState::Leaving(operation) => (operation, ProcessState::Ended),
            ProcessState::Idle => return Err(OutOfTurn::NotInvoked),
            ProcessState::Ended => return Err(OutOfTurn::Ended),
            ProcessState::Lost(operation) => return Err(OutOfTurn::Lost(operation)),
        };
        *state = next;
        Ok(operation)
    }

    /// The operation that a process is performing.
    pub fn open(&mut self, process: u32) -> Option<u32> {
        match *self.state(process) {
            ProcessState::Open(operation) | ProcessState::Leaving(operation) => Some(operation),
            ProcessState::Idle | ProcessState::Ended | ProcessState::Lost(_) => None,
        }
    }

    /// A process ends: it can still complete its current operation, but do nothing else.
    pub fn end(&mut self, process: u32) {
        let open = self.open(process);
        *self.state(process) = open.map_or(ProcessState::Ended, ProcessState::Leaving);
    }

    /// An operation becomes indeterminate, and its process can do nothing more.
    pub fn lose(&mut self, process: u32, operation: u32) {
        *self.state(process) = ProcessState::Lost(operation);
    }

    fn state(&mut self, process: u32) -> &mut ProcessState {
        if process >= LISTED {
            return self.others.entry(process).or_default();
        }
        let place = process as usize;
        if place >= self.listed.len() {
            self.listed.resize(place + 1, ProcessState::Idle);
        }
        &mut self.listed[place]
    }
}

impl OutOfTurn {
    /// The error in a sentence; `line` returns the line in which an operation was invoked.
    pub fn told(self, process: &str, line: impl Fn(u32) -> u64) -> String {
        match self {
            OutOfTurn::Busy(open) => {
                format!(
                    "process {process} starts an operation before its operation of line {} has completed",
                    line(open)
                )
            }
            OutOfTurn::NotInvoked => format!("process {process} completes an operation that it did not invoke"),
            OutOfTurn::Ended => format!("process {process} acts after it has ended"),
            OutOfTurn::Lost(operation) => format!(
                "process {process} starts an operation after its operation of line {} ended with `info`; its next operations \
                 need a new process number",
                line(operation)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_does_one_thing_at_a_time_until_it_ends() {
        let mut in_flight = InFlight::default();
        for process in [0, LISTED] {
            assert_eq!(in_flight.complete(process), Err(OutOfTurn::NotInvoked));
            assert_eq!(in_flight.invoke(process, 7), Ok(()));
            assert_eq!(in_flight.invoke(process, 8), Err(OutOfTurn::Busy(7)));
            // The outcome of the operation in progress may still be reported.
            in_flight.end(process);
            assert_eq!((in_flight.open(process), in_flight.invoke(process, 8)), (Some(7), Err(OutOfTurn::Ended)));
            assert_eq!(in_flight.complete(process), Ok(7));
            assert_eq!((in_flight.open(process), in_flight.complete(process)), (None, Err(OutOfTurn::Ended)));
        }
        assert_eq!(in_flight.invoke(1, 9), Ok(()));
        in_flight.lose(1, 9);
        assert_eq!(in_flight.invoke(1, 10), Err(OutOfTurn::Lost(9)));
        assert_eq!(in_flight.invoke(2, 10), Ok(()));
    }
}
