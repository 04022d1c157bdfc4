//! A history as its lines say it, read without anything of the checker: docs/histories.md and docs/client-protocol.md.

use std::collections::HashMap;

use serde_json::Value;

pub struct Lines {
    pub events: Vec<Value>,
    pub header: Value,
    pub operations: Vec<Operation>,
    /// The operation to which each event belongs, by their places.
    of: HashMap<usize, usize>,
    start: Option<i64>,
}

/// An operation with the places of its events.
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
        let mut lines = Lines { events, header, operations: Vec::new(), of: HashMap::new(), start };
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
        lines
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

    /// When it happened: the client's own stamp if it gave one.
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

    /// What was written, by an event of the operation.
    fn written(&self, place: usize) -> Option<String> {
        let value = &self.events[place]["value"];
        let value = if value.is_array() { &value[1] } else { value };
        let writes = matches!(self.events[place]["f"].as_str(), Some("rmw" | "cas" | "write"));
        value.as_str().filter(|_| writes).map(str::to_string)
    }

    /// What an operation read, if anything says so: `Some(None)` is an empty key.
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

    /// How much it read, of a counter or list.
    pub fn count_of(&self, operation: &Operation) -> Option<u64> {
        let events = operation.phases.iter().chain(&operation.answer);
        events.filter_map(|place| self.events[*place]["count"].as_u64()).next_back()
    }

    /// Whether it took the lock for reading.
    pub fn is_shared(&self, operation: &Operation) -> bool {
        self.events[operation.invoke]["f"] == "shared"
    }

    /// By the client's answer, or by the resource's, whatever the client said later.
    pub fn is_acknowledged(&self, operation: &Operation) -> bool {
        let answer = operation.answer.map_or("info", |place| self.events[place]["type"].as_str().unwrap());
        answer == "ok" || answer == "info" && !self.stamps(operation, "written").is_empty()
    }

    pub fn stamps(&self, operation: &Operation, phase: &str) -> Vec<usize> {
        operation.phases.iter().copied().filter(|place| self.is_phase(*place, phase)).collect()
    }

    /// From the acquisition to the release, or to the last act as the holder: docs/guide.md, "What a verdict rests on".
    pub fn hold(&self, operation: &Operation) -> Option<(u64, u64)> {
        let from = *self.stamps(operation, "acquired").first()?;
        let after = operation.phases.iter().copied().skip_while(|place| *place != from).skip(1);
        let mut end = self.time(from);
        for place in after {
            match self.events[place]["phase"].as_str().unwrap() {
                "releasing" => return Some((self.time(from), self.time(place).max(self.time(from)))),
                "lost" | "released" => break,
                "read" | "before-write" | "written" | "extended" => end = end.max(self.time(place)),
                _ => {}
            }
        }
        Some((self.time(from), end))
    }
}

/// A moment as it is written.
pub fn moment(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// Whether a length as it is written stands for this many nanoseconds, to its last digit.
pub fn is_length(text: &str, ns: u64) -> bool {
    if let Some((minutes, seconds)) = text.strip_suffix(" s").and_then(|text| text.split_once(" min ")) {
        let told = minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap();
        return (told - ns as f64 / 1e9).abs() <= 0.500_001;
    }
    let (number, unit) = text.split_once(' ').unwrap();
    let unit = if unit == "ms" { 1e6 } else { 1e9 };
    // Zeros at the end are left out, so that the text may be a digit more exact than it looks.
    let told = number.parse::<f64>().unwrap() * unit;
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    let exact = (told - ns as f64).abs() <= unit * 0.5 * 10f64.powi(-i32::try_from(digits).unwrap()) * 1.000_001;
    exact && (told == 0.0) == (ns < 500)
}
