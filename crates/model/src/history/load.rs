//! Reads a history back and pairs its events. Refuses an impossible history, and names the line.

use std::collections::BTreeMap;
use std::io::BufRead;

use linearizability::formats::{InFlight, OutOfTurn};

use super::contradiction::{Said, refute, void};
use super::lines::{self, Unread};
use super::writers::Writers;
use super::{
    Body, ClientStep, ClockBound, Completion, Contradiction, Event, FORMAT, FaultStep, FaultWindow, History,
    HistoryError, Invocation, NemesisEvent, Operation, Outcome, Phase, PhaseReport, PhaseStamp, Phases, Process,
    Reading, SeenPromotion, UnfitStamp, earlier,
};

/// Loads a history from any reader; `name` stands for it in messages.
pub fn load_reader(reader: impl BufRead, name: &str) -> Result<History, HistoryError> {
    let mut builder = Builder::default();
    let malformed = |line, reason| HistoryError::Malformed { name: name.to_string(), line, reason };
    let (lines, cut) = lines::read(reader, |event| builder.add(event)).map_err(|unread| match unread {
        Unread::Io(source) => HistoryError::Io { name: name.to_string(), source },
        Unread::Malformed(line, reason) => malformed(line, reason),
    })?;
    // The recorder writes whole lines, so a writer that died left a line without a newline. If there is no other line, the file
    // may not be a history at all.
    match (lines, cut) {
        (0, true) => Err(malformed(1, "no complete line; this is not a history of redjepsen".into())),
        (0, false) => Err(malformed(0, "the file is empty".into())),
        _ => {
            builder.history.truncated_at_line = cut.then_some(lines + 1);
            Ok(builder.finish())
        }
    }
}

/// More clients or nodes than any run can have. The checker lists them one by one, so a wrong number in a file must not cost
/// memory.
const MOST_MEMBERS: u32 = 10_000;

/// A history with this many operations may have very many more, so room for all of them is reserved at once. Unused room costs
/// only addresses. A growing list would be copied again and again, and needs twice the memory meanwhile.
const MANY: usize = 1 << 16;
const ROOM: usize = 1 << 21;

#[derive(Default)]
struct Builder {
    history: History,
    next_index: u64,
    /// Operations, as indices into `history.operations`.
    in_flight: InFlight,
    /// The clients' reports about their operations in flight: few, and looked up for each line.
    said: BTreeMap<u32, Said>,
    /// Operations whose client contradicted itself, with the first contradiction of each.
    contradicted: BTreeMap<usize, Contradiction>,
    faults: BTreeMap<u32, FaultWindow>,
    writers: Writers,
}

impl Builder {
    fn add(&mut self, event: Event) -> Result<(), String> {
        if event.index != self.next_index {
            return Err(format!(
                "index {}, but {} was expected; lines are missing or out of order",
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
                        return Err(format!("{number} {what}, but a run has at most {MOST_MEMBERS}"));
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
                let span = (event.time.saturating_sub(stall.lasted_ns), event.time);
                if self.history.run.as_ref().is_some_and(|run| stall.lasted_ns <= run.stall_ns()) {
                    self.history.brief_stalls.push(span);
                } else {
                    self.history.stalls.push(span);
                    self.history.stall_lines.push(event.index);
                }
            }
            Body::Promotion(promotion) => {
                self.history.promotions.push(SeenPromotion { index: event.index, time: event.time, promotion });
            }
            Body::Waited(waited) => self.history.kept_waiting.push((event.index, waited)),
            Body::End(end) => self.history.end = Some(end),
        }
        Ok(())
    }

    fn invoke(&mut self, index: u64, time: u64, invocation: Invocation) -> Result<(), String> {
        let process = invocation.process;
        let place =
            u32::try_from(self.history.operations.len()).map_err(|_| "more operations than fit into 32 bits")?;
        self.in_flight.invoke(process.number(), place).map_err(|wrong| self.told(wrong, process))?;
        let operations = &self.history.operations;
        if let Some(new) = &invocation.new
            && let Some(first) = self.writers.add(new, place, |place| operations[place as usize].new.as_deref())
        {
            let first = operations[first as usize].index;
            return Err(format!("value `{new}` was already written at index {first}; values must be unique"));
        }
        self.history.acquire_timeouts.extend(invocation.orders.acquire_timeout_ms.map(|limit| (index, limit)));
        if !invocation.orders.breakpoints.is_empty() {
            self.said.insert(place, Said::with_breakpoints(invocation.orders.breakpoints));
        }
        if self.history.operations.len() == MANY {
            // If the memory is not available, the list grows as usual.
            let _ = self.history.operations.try_reserve_exact(ROOM);
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
            failure: None,
            phases: Phases::default(),
        });
        Ok(())
    }

    fn cancel(&mut self, time: u64, process: u32) -> Result<(), String> {
        let Some(open) = self.in_flight.open(process) else {
            return Err(format!("an operation of process {process} is cancelled, but none is in flight"));
        };
        self.said.entry(open).or_default().cancelled();
        self.history.cancelled.entry(self.history.operations[open as usize].index).or_insert(time);
        Ok(())
    }

    fn complete(&mut self, index: u64, time: u64, completion: Completion) -> Result<(), String> {
        let process = completion.process;
        let open = self.in_flight.complete(process.number()).map_err(|wrong| self.told(wrong, process))?;
        let mut said = self.said.remove(&open).unwrap_or_default();
        if let Err(text) = said.answer(&completion) {
            self.contradicted.entry(open as usize).or_insert(Contradiction { line: index + 1, process, text });
        }
        let operation = &mut self.history.operations[open as usize];
        if (operation.f, &operation.key, &operation.new) != (completion.f, &completion.key, &completion.new) {
            return Err(format!(
                "the completion does not fit its invocation at index {}: function, key and new value must agree",
                operation.index
            ));
        }
        operation.phases = said.phases.pack();
        operation.completed_index = Some(index);
        operation.completed = Some(time);
        operation.outcome = completion.outcome;
        operation.has_read(completion.old, completion.amount);
        operation.fails(completion.error, completion.text);
        Ok(())
    }

    fn phase(&mut self, index: u64, time: u64, report: PhaseReport) -> Result<(), String> {
        let process = Process::Client(report.process);
        let Some(open) = self.in_flight.open(report.process) else {
            return Err(format!("process {} reports a phase without an operation in flight", report.process));
        };
        let said = self.said.entry(open).or_default();
        if let Err(text) = said.phase(&report) {
            self.contradicted.entry(open as usize).or_insert(Contradiction { line: index + 1, process, text });
        }
        let clock = self.history.clock;
        let operation = &mut self.history.operations[open as usize];
        if report.phase == Phase::Read {
            operation.has_read(report.value, report.amount);
        }
        let stamped = stamp_in_run_time(report.mono_ns, clock, operation.invoked, time);
        let off =
            stamped.and_then(Result::err).map(|off_ns| UnfitStamp { line: index + 1, phase: report.phase, off_ns });
        if let Some(off) = off {
            self.history.unfit_stamps.entry(operation.index).or_insert(off);
        }
        said.phases.push(PhaseStamp {
            index,
            phase: report.phase,
            received: time,
            stamped: stamped.and_then(Result::ok),
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
                (window.links, window.on_call, window.on_each) = (event.links, event.on_call, event.on_each);
                window.delay_ns = event.delay_ns;
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
        for (place, said) in &mut self.said {
            self.history.operations[*place as usize].phases = said.phases.pack();
        }
        for (&place, contradiction) in &self.contradicted {
            void(&mut self.history.operations[place], &contradiction.text);
        }
        let refuted = refute(&mut self.history, &self.writers);
        self.history.contradictions = self.contradicted.into_values().chain(refuted).collect();
        self.history.contradictions.sort_by_key(|contradiction| contradiction.line);
        self.history.kept_waiting.sort_by_key(|(_, waited)| waited.from_ns);
        self.history
    }
}

/// A client's stamp as run time; None without a stamp or a clock bound. A stamp before the operation's invocation, or after its
/// report was read, cannot come from the clients' common clock and is not used. The error is the difference.
fn stamp_in_run_time(
    mono_ns: Option<u64>,
    clock: Option<ClockBound>,
    invoked: u64,
    received: u64,
) -> Option<Result<i64, i64>> {
    let (mono_ns, clock) = (i64::try_from(mono_ns?).unwrap_or(i64::MAX), clock?);
    let stamped = mono_ns.saturating_sub(clock.mono_at_start_ns);
    let error = i64::try_from(clock.error_ns).ok()?;
    let earliest = i64::try_from(invoked).ok()?.saturating_sub(error);
    let latest = i64::try_from(received).ok()?.saturating_add(error);
    Some(match stamped {
        _ if stamped < earliest => Err(stamped.saturating_sub(earliest)),
        _ if stamped > latest => Err(stamped.saturating_sub(latest)),
        _ => Ok(stamped),
    })
}
