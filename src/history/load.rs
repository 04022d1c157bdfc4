//! Reads a history back and pairs what belongs together; refuses what cannot be a history, naming the line.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Read};

use linearizability::formats::{InFlight, LONGEST_LINE, OutOfTurn};

use super::contradiction::{Said, refute, void};
use super::{
    Body, ClientStep, ClockBound, Completion, Contradiction, Event, FORMAT, FaultStep, FaultWindow, History,
    HistoryError, Invocation, NemesisEvent, Operation, Outcome, Phase, PhaseReport, PhaseStamp, Process, Reading,
    SeenPromotion, earlier, line,
};

/// Loads a history from any reader; `name` stands for it in messages.
pub fn load_reader(mut reader: impl BufRead, name: &str) -> Result<History, HistoryError> {
    let mut builder = Builder::default();
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        bytes.clear();
        let read = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| HistoryError::Io { name: name.to_string(), source })?;
        if read == 0 {
            break;
        }
        number += 1;
        let malformed = |reason: String| HistoryError::Malformed { name: name.to_string(), line: number, reason };
        if bytes.last() != Some(&b'\n') && read as u64 == LONGEST_LINE {
            return Err(malformed(format!("longer than {LONGEST_LINE} bytes; this is not a history of redjepsen")));
        }
        // The recorder writes whole lines, so a line without a newline was left unfinished by a dying writer. If there
        // is no other line, nothing says that the file is a history.
        if bytes.last() != Some(&b'\n') {
            if number == 1 {
                return Err(malformed("not one complete line; this is not a history of redjepsen".into()));
            }
            builder.history.truncated_at_line = Some(number);
            break;
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| malformed(format!("not UTF-8: {error}")))?;
        let event = line::from_line(text.trim_end()).map_err(malformed)?;
        builder.add(event).map_err(malformed)?;
    }
    if number == 0 {
        return Err(HistoryError::Malformed { name: name.to_string(), line: 0, reason: "the file is empty".into() });
    }
    Ok(builder.finish())
}

/// More clients or nodes than any run can have. They are listed one by one, so a number that somebody has only written down
/// must not cost memory.
const MOST_MEMBERS: u32 = 10_000;

#[derive(Default)]
struct Builder {
    history: History,
    next_index: u64,
    /// Operations, as indices into `history.operations`.
    in_flight: InFlight,
    /// What the clients said about their operations in flight.
    said: HashMap<u32, Said>,
    /// Operations whose client contradicted itself, with the first contradiction of each.
    contradicted: BTreeMap<usize, Contradiction>,
    faults: BTreeMap<u32, FaultWindow>,
    /// The index of the first invocation that writes each value.
    written_values: HashMap<String, u64>,
}

impl Builder {
    fn add(&mut self, event: Event) -> Result<(), String> {
        if event.index != self.next_index {
            return Err(format!(
                "index {} where {} was due; lines are missing or out of order",
                event.index, self.next_index
            ));
        }
        if event.time < self.history.last_time {
            return Err(format!("time runs backwards, from {} to {} ns", self.history.last_time, event.time));
        }
        if self.history.end.is_some() {
            return Err("a line after the end of the run".into());
        }
        self.next_index += 1;
        self.history.last_time = event.time;
        match event.body {
            Body::Run(header) => {
                if event.index != 0 {
                    return Err("a second `run` line".into());
                }
                if header.format > FORMAT {
                    return Err(format!(
                        "format {} is newer than {FORMAT}, the newest that this build reads; use redjepsen {} or later",
                        header.format, header.redjepsen
                    ));
                }
                for (what, number) in [("clients", header.clients), ("nodes", header.nodes)] {
                    if number > MOST_MEMBERS {
                        return Err(format!("{number} {what}, where no run has more than {MOST_MEMBERS}"));
                    }
                }
                self.history.run = Some(*header);
            }
            Body::Clock(bound) => self.history.clock = Some(bound),
            Body::Fact(fact) => {
                self.history.facts.push(fact);
                self.history.fact_lines.push(event.index);
            }
            Body::Client(client) => {
                if client.step == ClientStep::Ended {
                    self.in_flight.end(client.process);
                }
                self.history.clients.push((event.time, client));
            }
            Body::Cancel { process } => self.cancel(event.time, process)?,
            Body::Invoke(invocation) => self.invoke(event.index, event.time, invocation)?,
            Body::Complete(completion) => self.complete(event.index, event.time, completion)?,
            Body::Phase(report) => self.phase(event.index, event.time, report)?,
            Body::Nemesis(nemesis) => self.nemesis(event.index, event.time, nemesis)?,
            Body::Step(mut step) => {
                step.expects = step.expects.or_else(|| earlier::expects(&step.step));
                self.history.steps.push((event.time, step));
            }
            Body::Stall(stall) => {
                self.history.stalls.push((event.time.saturating_sub(stall.lasted_ns), event.time));
            }
            Body::Promotion(promotion) => {
                self.history.promotions.push(SeenPromotion { index: event.index, time: event.time, promotion });
            }
            Body::End(end) => self.history.end = Some(end),
        }
        Ok(())
    }

    fn invoke(&mut self, index: u64, time: u64, invocation: Invocation) -> Result<(), String> {
        let process = invocation.process;
        let place =
            u32::try_from(self.history.operations.len()).map_err(|_| "more operations than fit into 32 bits")?;
        self.in_flight.invoke(process.number(), place).map_err(|wrong| self.told(wrong, process))?;
        if let Some(new) = &invocation.new
            && let Some(first) = self.written_values.insert(new.clone(), index)
        {
            return Err(format!("value `{new}` is written again, first at index {first}; values must be unique"));
        }
        self.history.acquire_timeouts.extend(invocation.orders.acquire_timeout_ms.map(|limit| (index, limit)));
        if !invocation.orders.breakpoints.is_empty() {
            self.said.insert(place, Said::with_breakpoints(invocation.orders.breakpoints));
        }
        self.history.operations.push(Operation {
            index,
            completed_index: None,
            process,
            f: invocation.f,
            key: invocation.key,
            invoked: time,
            completed: None,
            outcome: Outcome::Info,
            old: Reading::Unknown,
            amount: None,
            new: invocation.new,
            error: None,
            text: None,
            phases: Vec::new(),
        });
        Ok(())
    }

    fn cancel(&mut self, time: u64, process: u32) -> Result<(), String> {
        let Some(open) = self.in_flight.open(process) else {
            return Err(format!("an operation of process {process} is cancelled, and none is in flight"));
        };
        self.said.entry(open).or_default().cancelled();
        self.history.cancelled.entry(self.history.operations[open as usize].index).or_insert(time);
        Ok(())
    }

    fn complete(&mut self, index: u64, time: u64, completion: Completion) -> Result<(), String> {
        let process = completion.process;
        let open = self.in_flight.complete(process.number()).map_err(|wrong| self.told(wrong, process))?;
        if let Err(text) = self.said.remove(&open).unwrap_or_default().answer(&completion) {
            self.contradicted.entry(open as usize).or_insert(Contradiction { line: index + 1, process, text });
        }
        let operation = &mut self.history.operations[open as usize];
        if (operation.f, &operation.key, &operation.new) != (completion.f, &completion.key, &completion.new) {
            return Err(format!(
                "the completion does not fit its invocation at index {}: function, key and new value must agree",
                operation.index
            ));
        }
        operation.completed_index = Some(index);
        operation.completed = Some(time);
        operation.outcome = completion.outcome;
        operation.has_read(completion.old, completion.amount);
        operation.error = completion.error;
        operation.text = completion.text;
        Ok(())
    }

    fn phase(&mut self, index: u64, time: u64, report: PhaseReport) -> Result<(), String> {
        let process = Process::Client(report.process);
        let Some(open) = self.in_flight.open(report.process) else {
            return Err(format!("process {} reports a phase without an operation in flight", report.process));
        };
        if let Err(text) = self.said.entry(open).or_default().phase(&report) {
            self.contradicted.entry(open as usize).or_insert(Contradiction { line: index + 1, process, text });
        }
        let clock = self.history.clock;
        let operation = &mut self.history.operations[open as usize];
        if report.phase == Phase::Read {
            operation.has_read(report.value, report.amount);
        }
        operation.phases.push(PhaseStamp {
            index,
            phase: report.phase,
            received: time,
            stamped: stamp_in_run_time(report.mono_ns, clock, operation.invoked, time),
            token: report.token,
            validity_ms: report.validity_ms,
        });
        Ok(())
    }

    fn told(&self, wrong: OutOfTurn, process: Process) -> String {
        wrong.told(&process.to_string(), |operation| self.history.operations[operation as usize].index + 1)
    }

    fn nemesis(&mut self, index: u64, time: u64, event: NemesisEvent) -> Result<(), String> {
        let window = self.faults.entry(event.fault);
        let window =
            window.or_insert_with(|| FaultWindow { inject: time, ..FaultWindow::new(event.fault, event.kind) });
        window.lines.push(index);
        window.targets = event.targets;
        match event.step {
            FaultStep::Inject => {
                window.inject = time;
                window.what = event.text;
                (window.links, window.on_call) = (event.links, event.on_call);
                return Ok(());
            }
            FaultStep::Injected => {
                window.injected = Some((time, event.observed));
                if event.observed && event.kind.is_at_command() {
                    window.inject = time;
                }
            }
            FaultStep::Heal => window.heal = Some(time),
            FaultStep::Healed => {
                window.healed = Some((time, event.observed));
                window.aftermath_ns = event.aftermath_ns;
                window.clock_off_ns = event.clock_off_ns;
            }
            FaultStep::Skipped => window.skipped = Some(event.text.clone()),
        }
        if !event.text.is_empty() {
            window.texts.push(event.text);
        }
        Ok(())
    }

    fn finish(mut self) -> History {
        self.history.faults = self.faults.into_values().collect();
        for window in &mut self.history.faults {
            earlier::complete(window, self.history.run.as_ref());
        }
        for (&place, contradiction) in &self.contradicted {
            void(&mut self.history.operations[place], &contradiction.text);
        }
        let refuted = refute(&mut self.history);
        self.history.contradictions = self.contradicted.into_values().chain(refuted).collect();
        self.history.contradictions.sort_by_key(|contradiction| contradiction.line);
        self.history
    }
}

/// A client's stamp as run time, if a clock bound is known and the stamp lies between the operation's invocation and
/// the moment its report was read. A stamp outside cannot come from the clients' common clock and is not used.
fn stamp_in_run_time(mono_ns: Option<u64>, clock: Option<ClockBound>, invoked: u64, received: u64) -> Option<i64> {
    let (mono_ns, clock) = (i64::try_from(mono_ns?).ok()?, clock?);
    let stamped = mono_ns.checked_sub(clock.mono_at_start_ns)?;
    let error = i64::try_from(clock.error_ns).ok()?;
    let earliest = i64::try_from(invoked).ok()?.saturating_sub(error);
    let latest = i64::try_from(received).ok()?.saturating_add(error);
    (earliest..=latest).contains(&stamped).then_some(stamped)
}
