//! Generates histories, and writes each of them in every notation.

use std::fmt::Write;

use proptest::prelude::*;

use crate::support::Random;

/// One line of a history.
#[derive(Clone, Debug)]
pub struct Line {
    pub process: u32,
    pub kind: &'static str,
    pub f: &'static str,
    pub key: Option<String>,
    pub value: Datum,
    pub time: u64,
}

#[derive(Clone, Debug)]
pub enum Datum {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Datum>),
}

/// The operations of a generated history.
#[derive(Clone, Copy, Debug)]
pub enum Object {
    /// Reads, and writes of unique values.
    Register,
    Rmw,
}

/// A history of a register or of updates. Operations take effect when they complete.
pub struct Generator {
    pub object: Object,
    pub strings: bool,
    pub left: u32,
    random: Random,
    open: Vec<Option<Line>>,
    /// The current process of each client.
    processes: Vec<u32>,
    indeterminate_per_mille: usize,
    value: Datum,
    written: i64,
    time: u64,
}

impl Generator {
    pub fn new(
        object: Object,
        strings: bool,
        operations: u32,
        clients: u32,
        indeterminate_per_mille: usize,
    ) -> Generator {
        Generator {
            object,
            strings,
            left: operations,
            random: Random(1),
            open: vec![None; clients as usize],
            processes: (0..clients).collect(),
            indeterminate_per_mille,
            value: Datum::Nil,
            written: 0,
            time: 1_000_000,
        }
    }

    fn unique(&mut self, client: usize) -> Datum {
        self.written += 1;
        if self.strings { Datum::Text(format!("c{client}:{}", self.written)) } else { Datum::Int(self.written) }
    }
}

impl Iterator for Generator {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        self.time += self.random.next() % 10_000;
        let busy = self.open.iter().filter(|line| line.is_some()).count();
        if self.left == 0 && busy == 0 {
            return None;
        }
        let mut client = self.random.below(self.open.len());
        while self.left == 0 && self.open[client].is_none() {
            client = (client + 1) % self.open.len();
        }
        let Some(invoked) = self.open[client].take() else {
            self.left -= 1;
            let (f, value) = match self.object {
                Object::Register if self.random.one_in(2) => ("read", Datum::Nil),
                Object::Register => ("write", self.unique(client)),
                Object::Rmw => ("rmw", Datum::List(vec![Datum::Nil, self.unique(client)])),
            };
            let process = self.processes[client];
            let line = Line { process, kind: "invoke", f, key: None, value, time: self.time };
            self.open[client] = Some(line.clone());
            return Some(line);
        };
        let mut line = Line { kind: "ok", time: self.time, ..invoked };
        if self.random.below(1000) < self.indeterminate_per_mille {
            line.kind = "info";
            self.processes[client] += self.processes.len() as u32;
            return Some(line);
        }
        match (line.f, &mut line.value) {
            ("read", value) => *value = self.value.clone(),
            ("rmw", Datum::List(pair)) => pair[0] = std::mem::replace(&mut self.value, pair[1].clone()),
            (_, value) => self.value = value.clone(),
        }
        Some(line)
    }
}

/// A line of JSON; `fields` goes before the other fields, such as `"index":1,`.
pub fn json(line: &Line, fields: &str) -> String {
    let mut text = format!("{{{fields}\"time\":{},\"type\":\"{}\",\"process\":{}", line.time, line.kind, line.process);
    write!(text, ",\"f\":\"{}\"", line.f).unwrap();
    if let Some(key) = &line.key {
        write!(text, ",\"key\":{}", serde_json::to_string(key).unwrap()).unwrap();
    }
    text.push_str(",\"value\":");
    datum(&mut text, &line.value, "null", ",");
    text + "}\n"
}

/// An EDN map.
pub fn edn(line: &Line) -> String {
    let mut text = format!("{{:type :{}, :f :{}, :value ", line.kind, line.f);
    datum(&mut text, &line.value, "nil", " ");
    write!(text, ", :process {}, :time {}", line.process, line.time).unwrap();
    if let Some(key) = &line.key {
        text.push_str(", :key ");
        datum(&mut text, &Datum::Text(key.clone()), "nil", " ");
    }
    text + "}\n"
}

/// A line of a log, which cannot hold a key.
pub fn log(line: &Line) -> String {
    let mut text = format!("INFO  jepsen.util - {}\t:{}\t:{}\t", line.process, line.kind, line.f);
    datum(&mut text, &line.value, "nil", " ");
    text + "\n"
}

fn datum(text: &mut String, value: &Datum, nil: &str, comma: &str) {
    match value {
        Datum::Nil => text.push_str(nil),
        Datum::Int(number) => write!(text, "{number}").unwrap(),
        // The escapes that serde writes are valid in EDN too.
        Datum::Text(content) => text.push_str(&serde_json::to_string(content).unwrap()),
        Datum::List(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push_str(comma);
                }
                datum(text, item, nil, comma);
            }
            text.push(']');
        }
    }
}

/// Any valid history of a few clients, with every function and outcome, and values of every shape.
pub fn any_history() -> impl Strategy<Value = Vec<Line>> {
    let step = (0..4_u32, 0..8_usize, 0..8_u32, any_scalar(), any_scalar(), prop::option::of("[a-z]{1,2}"));
    prop::collection::vec(step, 0..60).prop_map(|steps| {
        let mut lines = Vec::new();
        let mut open: [Option<Line>; 4] = Default::default();
        let mut processes = [0, 1, 2, 3];
        for (time, (client, f, outcome, a, b, key)) in steps.into_iter().enumerate() {
            let client = client as usize;
            let mut line = match open[client].take() {
                None => {
                    let f = ["read", "write", "cas", "rmw", "acquire", "release", "add", "append"][f];
                    let value = match f {
                        "read" | "acquire" | "release" => Datum::Nil,
                        "cas" => Datum::List(vec![a, b]),
                        "rmw" => Datum::List(vec![Datum::Nil, a]),
                        // Texts that grow by appending have their own test.
                        "append" => Datum::Int(time as i64),
                        "add" => Datum::List(vec![a]),
                        _ => a,
                    };
                    let line = Line { process: processes[client], kind: "invoke", f, key, value, time: time as u64 };
                    open[client] = Some(line.clone());
                    line
                }
                Some(invoked) => {
                    let kind = ["ok", "ok", "ok", "ok", "ok", "ok", "fail", "info"][outcome as usize];
                    let value = match (invoked.f, kind) {
                        ("read", "ok") => Datum::List(vec![a, Datum::List(vec![b])]),
                        ("acquire", "ok") => Datum::Int(time as i64),
                        ("rmw", "ok") => match invoked.value {
                            Datum::List(mut pair) => Datum::List(vec![a, pair.remove(1)]),
                            other => other,
                        },
                        (_, _) => invoked.value,
                    };
                    if kind == "info" {
                        processes[client] += 4;
                    }
                    Line { kind, value, ..invoked }
                }
            };
            line.time = time as u64 * 1000;
            lines.push(line);
        }
        lines
    })
}

fn any_scalar() -> impl Strategy<Value = Datum> {
    prop_oneof![
        Just(Datum::Nil),
        any::<i64>().prop_map(Datum::Int),
        (0..5_i64).prop_map(Datum::Int),
        any::<String>().prop_map(|text| Datum::Text(text.replace('\0', "0"))),
        "[a-z]{0,9}".prop_map(Datum::Text),
    ]
}
