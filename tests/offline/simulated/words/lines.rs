//! Reads a history from its lines, without any code of the checker, as docs/histories.md and docs/client-protocol.md describe it.

use std::collections::HashMap;

use serde_json::Value;

pub struct Lines {
    pub events: Vec<Value>,
    pub header: Value,
    pub operations: Vec<Operation>,
    /// The operation of each event; both are indices.
    of: HashMap<usize, usize>,
    /// The operation that had to write each value, and the operations that read it.
    writers: HashMap<String, usize>,
    readers: HashMap<String, Vec<usize>>,
    start: Option<i64>,
}

/// An operation with the indices of its events.
pub struct Operation {
    pub client: String,
    pub key: String,
    pub new: Option<String>,
    pub invoked: u64,
    pub invoke: usize,
    pub answer: Option<usize>,
    pub phases: Vec<usize>,
}

impl Lines {
    pub fn read(history: &[u8]) -> Lines {
        let text = std::str::from_utf8(history).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let header = events[0]["run"].clone();
        let clock = events.iter().find(|event| event["type"] == "clock");
        let start = clock.and_then(|event| event["clock"]["mono_at_start_ns"].as_i64());
        let mut lines = Lines {
            events,
            header,
            operations: Vec::new(),
            of: HashMap::new(),
            writers: HashMap::new(),
            readers: HashMap::new(),
            start,
        };
        let mut open: HashMap<String, usize> = HashMap::new();
        for place in 0..lines.events.len() {
            let event = &lines.events[place];
            let process = event["process"].to_string();
            match event["type"].as_str().unwrap() {
                "invoke" => {
                    let operation = Operation {
                        client: lines.client(place),
                        key: event["key"].as_str().unwrap().to_string(),
                        new: lines.written(place),
                        invoked: event["time"].as_u64().unwrap(),
                        invoke: place,
                        answer: None,
                        phases: Vec::new(),
                    };
                    open.insert(process, lines.operations.len());
                    lines.of.insert(place, lines.operations.len());
                    lines.operations.push(operation);
                }
                "phase" => {
                    let operation = open[&process];
                    lines.operations[operation].phases.push(place);
                    lines.of.insert(place, operation);
                }
                "ok" | "fail" | "info" if process != "\"nemesis\"" => {
                    let operation = open.remove(&process).unwrap();
                    lines.operations[operation].answer = Some(place);
                    lines.of.insert(place, operation);
                }
                _ => {}
            }
        }
        for (number, operation) in lines.operations.iter().enumerate() {
            if let Some(value) = &operation.new {
                lines.writers.entry(value.clone()).or_insert(number);
            }
            if let Some(Some(value)) = lines.read_by(operation) {
                lines.readers.entry(value).or_default().push(number);
            }
        }
        lines
    }

    /// The operation that had to write a value; None if no operation had to.
    pub fn writer(&self, value: &str) -> Option<&Operation> {
        self.writers.get(value).map(|number| &self.operations[*number])
    }

    /// The operations that read a value.
    pub fn readings(&self, value: &str) -> impl Iterator<Item = &Operation> {
        self.readers.get(value).into_iter().flatten().map(|number| &self.operations[*number])
    }

    /// True if an operation read this value, or an empty key.
    pub fn reads(&self, operation: &Operation, value: Option<&str>) -> bool {
        self.read_by(operation).is_some_and(|read| read.as_deref() == value)
    }

    /// An operation, the operation whose value it read, the operation whose value that one read, and so on.
    pub fn lineage<'l>(&'l self, operation: &'l Operation) -> Vec<&'l Operation> {
        let mut line = vec![operation];
        while let Some(before) = self.read_by(line[line.len() - 1]).flatten().and_then(|value| self.writer(&value)) {
            // The values form a circle.
            if line.len() > self.operations.len() {
                break;
            }
            line.push(before);
        }
        line
    }

    /// All writes that an operation builds on: the ancestors of the value that it wrote, or of the value that it read.
    pub fn known_to<'l>(&'l self, operation: &'l Operation) -> Vec<&'l Operation> {
        let own = operation.new.is_some().then_some(operation);
        let read = self.read_by(operation).flatten().and_then(|value| self.writer(&value));
        own.into_iter().chain(read.into_iter().flat_map(|writer| self.lineage(writer))).collect()
    }

    /// `ok`, `fail`, or `info` if the outcome is unknown.
    pub fn outcome(&self, operation: &Operation) -> &str {
        operation.answer.map_or("info", |place| self.events[place]["type"].as_str().unwrap())
    }

    /// The time of its answer; None if it has none.
    pub fn answered(&self, operation: &Operation) -> Option<u64> {
        operation.answer.and_then(|place| self.events[place]["time"].as_u64())
    }

    /// When a write was acknowledged: by the client's stamp, or else by its answer.
    pub fn over(&self, operation: &Operation) -> Option<u64> {
        let written = self.stamps(operation, "written").first().map(|place| self.time(*place));
        written.or(self.answered(operation).filter(|_| self.outcome(operation) == "ok"))
    }

    /// The latest time at which a write took effect, if it did: its stamp, or its answer, or else the start of its operation.
    pub fn effective(&self, operation: &Operation) -> u64 {
        let written = self.stamps(operation, "written").first().map(|place| self.time(*place));
        written.or(self.answered(operation)).unwrap_or(operation.invoked)
    }

    /// The earliest time at which a write was sent.
    pub fn sent(&self, operation: &Operation) -> u64 {
        let stamped = |place: &&usize| self.events[**place]["mono_ns"].is_i64() && self.start.is_some();
        let stamps = self.stamps(operation, "before-write");
        let sent = stamps.last().filter(stamped).map(|place| self.time(*place));
        sent.map_or(operation.invoked, |sent| sent.max(operation.invoked))
    }

    /// By when an operation's value had certainly been there: the write was acknowledged, or an operation read the value.
    pub fn certainly_there(&self, operation: &Operation) -> Option<u64> {
        let value = operation.new.as_deref()?;
        let read = self.readings(value).filter_map(|one| self.answered(one).filter(|_| self.outcome(one) == "ok"));
        self.over(operation).into_iter().chain(read).min()
    }

    /// The client that an event is about.
    pub fn client(&self, place: usize) -> String {
        let clients = self.header["clients"].as_u64().unwrap().max(1);
        match self.events[place]["process"].as_u64() {
            Some(process) => format!("c{}", process % clients),
            None => self.events[place]["process"].as_str().unwrap_or_default().to_string(),
        }
    }

    pub fn operation_of(&self, place: usize) -> Option<&Operation> {
        self.of.get(&place).map(|operation| &self.operations[*operation])
    }

    /// The time of an event: the client's own stamp if it has one.
    pub fn time(&self, place: usize) -> u64 {
        let event = &self.events[place];
        match (event["mono_ns"].as_i64(), self.start) {
            (Some(mono), Some(start)) => u64::try_from(mono - start).unwrap_or(0),
            _ => event["time"].as_u64().unwrap(),
        }
    }

    pub fn is_phase(&self, place: usize, phase: &str) -> bool {
        self.events[place]["type"] == "phase" && self.events[place]["phase"] == phase
    }

    /// The value that was written, from an event of the operation.
    fn written(&self, place: usize) -> Option<String> {
        let value = &self.events[place]["value"];
        let value = if value.is_array() { &value[1] } else { value };
        let writes = matches!(self.events[place]["f"].as_str(), Some("rmw" | "cas" | "write"));
        value.as_str().filter(|_| writes).map(str::to_string)
    }

    /// The value that an operation read, if an event has it: `Some(None)` is an empty key.
    pub fn read_by(&self, operation: &Operation) -> Option<Option<String>> {
        let answer = operation.answer.map(|place| &self.events[place]).filter(|event| event["type"] == "ok");
        let told = answer.filter(|event| event["untold"] != true && event["f"] != "write" && event["f"] != "hold");
        let of_answer =
            told.map(
                |event| {
                    if event["f"] == "read" || event["f"] == "shared" { &event["value"] } else { &event["value"][0] }
                },
            );
        let phase = operation.phases.iter().find(|place| self.is_phase(**place, "read"));
        let of_phase = phase.map(|place| &self.events[*place]).filter(|event| event.get("value").is_some());
        of_answer.or(of_phase.map(|event| &event["value"])).map(|value| value.as_str().map(str::to_string))
    }

    /// The number of a counter or the length of a list that the operation read.
    pub fn count_of(&self, operation: &Operation) -> Option<u64> {
        let events = operation.phases.iter().chain(&operation.answer);
        events.filter_map(|place| self.events[*place]["count"].as_u64()).next_back()
    }

    /// True if the operation acquired the lock for reading.
    pub fn is_shared(&self, operation: &Operation) -> bool {
        self.events[operation.invoke]["f"] == "shared"
    }

    /// By the client's answer, or by the resource's, whatever the client reported later.
    pub fn is_acknowledged(&self, operation: &Operation) -> bool {
        let answer = operation.answer.map_or("info", |place| self.events[place]["type"].as_str().unwrap());
        answer == "ok" || answer == "info" && !self.stamps(operation, "written").is_empty()
    }

    pub fn stamps(&self, operation: &Operation, phase: &str) -> Vec<usize> {
        operation.phases.iter().copied().filter(|place| self.is_phase(*place, phase)).collect()
    }

    /// True if there is a resource, and between two times the client was stopped or the machine stood still.
    fn stood_still(&self, operation: &Operation, from: u64, to: u64) -> bool {
        let stops = |event: &Value| matches!(event["f"].as_str(), Some("pause" | "pause-background" | "block"));
        let is_its = |event: &&Value| {
            event["value"].as_array().is_some_and(|all| all.iter().any(|one| *one == operation.client))
        };
        let of_client = self.events.iter().filter(|event| event["step"] == "inject" && stops(event)).filter(is_its);
        let until = |fault: &Value| {
            let healed = |event: &&Value| event["step"] == "healed" && event["fault"] == fault["fault"];
            self.events.iter().find(healed).map_or(u64::MAX, |event| event["time"].as_u64().unwrap())
        };
        let stopped = of_client.map(|event| (event["time"].as_u64().unwrap(), until(event)));
        let stood = self.events.iter().filter(|event| event["type"] == "stall").map(|event| {
            let end = event["time"].as_u64().unwrap();
            (end - event["stall"]["lasted_ns"].as_u64().unwrap(), end)
        });
        self.header["resource"] != "none" && stopped.chain(stood).any(|(began, ended)| began < to && from < ended)
    }

    /// From the acquisition to the release, or to the last act as the holder: see docs/verdicts.md, "Claims".
    pub fn hold(&self, operation: &Operation) -> Option<(u64, u64)> {
        let from = *self.stamps(operation, "acquired").first()?;
        let after = operation.phases.iter().copied().skip_while(|place| *place != from).skip(1);
        let mut end = self.time(from);
        for place in after {
            match self.events[place]["phase"].as_str().unwrap() {
                // A client relies on the lock until its library reports the loss.
                "releasing" | "lost" => {
                    let over = self.time(place).max(self.time(from));
                    let is_told_first = self.events[place]["phase"] == "lost" && self.stood_still(operation, end, over);
                    return Some((self.time(from), if is_told_first { end } else { over }));
                }
                "released" => break,
                "read" | "before-write" | "written" | "extended" => end = end.max(self.time(place)),
                _ => {}
            }
        }
        Some((self.time(from), end))
    }
}

/// A time in the form of reports.
pub fn moment(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// True if a written length stands for this many nanoseconds, to its last digit.
pub fn is_length(text: &str, ns: u64) -> bool {
    if let Some((minutes, seconds)) = text.split_once(" min") {
        let seconds = seconds.trim().trim_end_matches(" s");
        let told = minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap_or(0.0);
        return (told - ns as f64 / 1e9).abs() <= 0.500_001;
    }
    let (number, unit) = text.split_once(' ').unwrap();
    let unit = if unit == "ms" { 1e6 } else { 1e9 };
    // Trailing zeros are left out, so the text may be one digit more exact than it looks.
    let told = number.parse::<f64>().unwrap() * unit;
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    let exact = (told - ns as f64).abs() <= unit * 0.5 * 10f64.powi(-i32::try_from(digits).unwrap()) * 1.000_001;
    exact && (told == 0.0) == (ns < 500)
}
