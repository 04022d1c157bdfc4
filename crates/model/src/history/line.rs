//! One event as one line of JSON, with Jepsen's field names where Jepsen has a field for it.
//!
//! Every line has `index`, `time` and `type`. Operations have `process`, `type` (`invoke`, `ok`, `fail`, `info`), `f`, `key`,
//! `value`, `error` and `text`. `value` is `[old, new]` for an rmw or a cas, the result of a read, or the value to write.
//! `untold` means that an `ok` does not report the value it read; null would mean an empty key. `count` is the amount that was
//! read from a counter or list, and `elements` the whole list, in a read at the end. An `invoke` may have `acquire_timeout_ms`
//! (if it differs from the header's) and `breakpoints` (the phases at which to wait for `go`). It may also have
//! `release_again_ms` (how long after its release to make another one). `type: "cancel"` orders the client to cancel its
//! operation in flight. Phases: `type: "phase"`. Faults are Jepsen's `info` lines of `process: "nemesis"`, with `value` naming
//! the targets. A `client` line has `nodes` if the client got a list of only some nodes. Faults have `links` and `on_call` when ordered, and `aftermath_ns` and, on clocks, `clock_off_ns` when healed. The
//! rest (`run`, `clock`, `fact`, `client`, `step`, `promotion`, `stall`, `waited`, `end`) have their own object. Unknown fields
//! are ignored, so newer histories stay readable.

use std::fmt;

use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json::{Json, Word};
use super::{
    Amount, Body, CallEffect, ClientEvent, ClientStep, ClockBound, Command, Completion, End, Event, Fact, FaultStep,
    Function, Header, Invocation, NemesisEvent, Orders, Outcome, Phase, PhaseReport, Process, Promotion, Reading,
    Stall, StepEvent, Text, Waited,
};

/// A line: the fields of every line, then fields of some lines, in the order in which they are written.
macro_rules! line {
    ($($field:ident: $type:ty,)*) => {
        #[derive(Debug, Default, Serialize)]
        struct RawLine<'l> {
            index: Option<u64>,
            time: Option<u64>,
            #[serde(rename = "type")]
            kind: Option<Word<'l>>,
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                $field: Option<$type>,
            )*
        }

        /// Fills a line in place: a line is large, and a long history has millions of them.
        impl<'l> Visitor<'l> for &mut RawLine<'l> {
            type Value = ();

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'l>>(self, mut fields: A) -> Result<(), A::Error> {
                while let Some(Word(name)) = fields.next_key()? {
                    match &name[..] {
                        "index" => fill(&mut self.index, "index", &mut fields)?,
                        "time" => fill(&mut self.time, "time", &mut fields)?,
                        "type" => fill(&mut self.kind, "type", &mut fields)?,
                        // A JSON null is a value here (an empty register), so absence and null must stay apart.
                        "value" if self.value.is_none() => self.value = Some(fields.next_value()?),
                        $(stringify!($field) => fill(&mut self.$field, stringify!($field), &mut fields)?,)*
                        _ => drop(fields.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(())
            }
        }
    };
}

line! {
    process: Json<'l>,
    f: Word<'l>,
    key: Text,
    value: Json<'l>,
    untold: bool,
    count: u64,
    elements: Vec<String>,
    error: Text,
    text: Text,
    phase: Phase,
    mono_ns: u64,
    token: u64,
    validity_ms: u64,
    acquire_timeout_ms: u64,
    release_again_ms: u64,
    breakpoints: Vec<Phase>,
    fault: u32,
    step: FaultStep,
    observed: bool,
    links: Vec<(String, String)>,
    on_call: CallEffect,
    on_each: Command,
    delay_ns: u64,
    aftermath_ns: u64,
    clock_off_ns: u64,
    client: ClientStep,
    nodes: Vec<String>,
    completed: bool,
    run: Box<Header>,
    clock: ClockBound,
    fact: Fact,
    script: Box<StepEvent>,
    stall: Stall,
    promotion: Box<Promotion>,
    waited: Box<Waited>,
}

fn fill<'l, A, T>(field: &mut Option<T>, name: &'static str, fields: &mut A) -> Result<(), A::Error>
where
    A: MapAccess<'l>,
    T: Deserialize<'l>,
{
    match field {
        Some(_) => Err(A::Error::duplicate_field(name)),
        None => fields.next_value().map(|told| *field = told),
    }
}

/// The line for an event, without the newline.
pub(super) fn to_line(event: &Event) -> String {
    let line = RawLine { index: Some(event.index), time: Some(event.time), ..RawLine::default() };
    let line = match &event.body {
        Body::Run(header) => RawLine { kind: Some("run".into()), run: Some(header.clone()), ..line },
        Body::Clock(bound) => RawLine { kind: Some("clock".into()), clock: Some(*bound), ..line },
        Body::Stall(stall) => RawLine { kind: Some("stall".into()), stall: Some(*stall), ..line },
        Body::Promotion(promotion) => {
            RawLine { kind: Some("promotion".into()), promotion: Some(promotion.clone().into()), ..line }
        }
        Body::Waited(waited) => RawLine { kind: Some("waited".into()), waited: Some(waited.clone().into()), ..line },
        Body::Fact(fact) => RawLine { kind: Some("fact".into()), fact: Some(fact.clone()), ..line },
        Body::Step(step) => RawLine { kind: Some("step".into()), script: Some(step.clone().into()), ..line },
        Body::Client(event) => RawLine {
            kind: Some("client".into()),
            process: Some(event.process.into()),
            client: Some(event.step),
            nodes: Some(event.nodes.clone()).filter(|nodes| !nodes.is_empty()),
            text: Some(event.text.as_str().into()),
            ..line
        },
        Body::Invoke(invocation) => RawLine {
            kind: Some("invoke".into()),
            process: Some(process_to_json(invocation.process)),
            f: Some(Word(word(&invocation.f).into())),
            key: Some(invocation.key.clone()),
            value: Some(value_to_json(invocation.f, Json::Null, &invocation.new)),
            acquire_timeout_ms: invocation.orders.acquire_timeout_ms,
            release_again_ms: invocation.orders.release_again_ms,
            breakpoints: Some(invocation.orders.breakpoints.clone()).filter(|breakpoints| !breakpoints.is_empty()),
            ..line
        },
        Body::Complete(completion) => {
            let Completion { process, f, key, outcome, old, amount, new, error, text } = completion;
            let unread = matches!(f, Function::Hold | Function::Write) || *outcome != Outcome::Ok;
            let (count, elements) = amount_to_json(amount);
            RawLine {
                kind: Some(Word::from(match outcome {
                    Outcome::Ok => "ok",
                    Outcome::Fail => "fail",
                    Outcome::Info => "info",
                })),
                process: Some(process_to_json(*process)),
                f: Some(Word(word(f).into())),
                key: Some(key.clone()),
                value: Some(value_to_json(*f, reading_to_json(old).unwrap_or_default(), new)),
                untold: (!unread && *old == Reading::Unknown).then_some(true),
                count,
                elements,
                error: error.clone(),
                text: text.clone(),
                ..line
            }
        }
        Body::Cancel { process } => RawLine { kind: Some("cancel".into()), process: Some((*process).into()), ..line },
        Body::Phase(report) => {
            let (count, elements) = amount_to_json(&report.amount);
            RawLine {
                kind: Some("phase".into()),
                process: Some(report.process.into()),
                phase: Some(report.phase),
                mono_ns: report.mono_ns,
                token: report.token,
                validity_ms: report.validity_ms,
                value: reading_to_json(&report.value),
                count,
                elements,
                text: report.text.clone(),
                ..line
            }
        }
        Body::Nemesis(event) => RawLine {
            kind: Some("info".into()),
            process: Some("nemesis".into()),
            f: Some(Word(word(&event.kind).into())),
            fault: Some(event.fault),
            step: Some(event.step),
            value: Some(Json::List(event.targets.iter().map(|target| target.as_str().into()).collect())),
            observed: matches!(event.step, FaultStep::Injected | FaultStep::Healed).then_some(event.observed),
            links: event.links.clone(),
            on_call: event.on_call,
            on_each: event.on_each.clone(),
            delay_ns: event.delay_ns,
            aftermath_ns: event.aftermath_ns,
            clock_off_ns: event.clock_off_ns,
            text: Some(event.text.as_str().into()).filter(|text: &Text| !text.is_empty()),
            ..line
        },
        Body::End(end) => RawLine {
            kind: Some("end".into()),
            completed: Some(end.completed),
            text: Some(end.text.as_str().into()),
            ..line
        },
    };
    serde_json::to_string(&line).expect("a line has string keys only")
}

/// The event of a line. The error says what is wrong with the line.
pub(super) fn from_line(text: &str) -> Result<Event, String> {
    let mut line = RawLine::default();
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(&mut line).and_then(|()| json.end()).map_err(|error| error.to_string())?;
    let (index, time) = (need(line.index, "index")?, need(line.time, "time")?);
    let kind = need(line.kind, "type")?.0;
    let body = match &kind[..] {
        "run" => Body::Run(need(line.run, "run")?),
        "clock" => Body::Clock(need(line.clock, "clock")?),
        "fact" => Body::Fact(need(line.fact, "fact")?),
        "stall" => Body::Stall(need(line.stall, "stall")?),
        "promotion" => Body::Promotion(*need(line.promotion, "promotion")?),
        "waited" => Body::Waited(*need(line.waited, "waited")?),
        "client" => Body::Client(ClientEvent {
            process: client_process(&line.process)?,
            step: need(line.client, "client")?,
            text: line.text.map(|text| text.to_string()).unwrap_or_default(),
            nodes: line.nodes.unwrap_or_default(),
        }),
        "invoke" => {
            let f: Function = from_word(need(line.f, "f")?, "f")?;
            let new = match f {
                Function::Rmw | Function::Cas => Some(pair(f, line.value)?.1),
                Function::Write => Some(written(line.value)?),
                Function::Hold | Function::Read | Function::Shared => None,
            };
            let orders = Orders {
                acquire_timeout_ms: line.acquire_timeout_ms,
                release_again_ms: line.release_again_ms,
                breakpoints: line.breakpoints.unwrap_or_default(),
            };
            let process = process_from_json(&line.process)?;
            Body::Invoke(Invocation { process, f, key: need(line.key, "key")?, new, orders })
        }
        "info" if line.process == Some(Json::from("nemesis")) => Body::Nemesis(NemesisEvent {
            fault: need(line.fault, "fault")?,
            kind: from_word(need(line.f, "f")?, "f")?,
            step: need(line.step, "step")?,
            targets: targets(line.value)?,
            observed: line.observed.unwrap_or(false),
            links: line.links,
            on_call: line.on_call,
            on_each: line.on_each,
            delay_ns: line.delay_ns,
            aftermath_ns: line.aftermath_ns,
            clock_off_ns: line.clock_off_ns,
            text: line.text.map(|text| text.to_string()).unwrap_or_default(),
        }),
        "ok" | "fail" | "info" => {
            let outcome = match &kind[..] {
                "ok" => Outcome::Ok,
                "fail" => Outcome::Fail,
                _ => Outcome::Info,
            };
            let f: Function = from_word(need(line.f, "f")?, "f")?;
            let (old, new) = match f {
                Function::Rmw | Function::Cas => {
                    let (old, new) = pair(f, line.value)?;
                    (old, Some(new))
                }
                Function::Write => (Json::Null, Some(written(line.value)?)),
                Function::Hold => (Json::Null, None),
                Function::Read | Function::Shared => (need(line.value, "value")?, None),
            };
            // If it is not known that the operation happened, null means that the value it read is unknown.
            let old = match (outcome, old) {
                _ if matches!(f, Function::Hold | Function::Write) => Reading::Unknown,
                (Outcome::Ok, Json::Null) if line.untold == Some(true) => Reading::Unknown,
                (Outcome::Ok, old) => reading_from_json(old)?,
                (_, Json::Null) => Reading::Unknown,
                (_, old) => reading_from_json(old)?,
            };
            Body::Complete(Completion {
                process: process_from_json(&line.process)?,
                f,
                key: need(line.key, "key")?,
                outcome,
                old,
                amount: amount_from_json(line.count, line.elements)?,
                new,
                error: line.error,
                text: line.text,
            })
        }
        "phase" => Body::Phase(PhaseReport {
            process: client_process(&line.process)?,
            phase: need(line.phase, "phase")?,
            mono_ns: line.mono_ns,
            token: line.token.map(whole_token).transpose()?,
            validity_ms: line.validity_ms,
            value: line.value.map_or(Ok(Reading::Unknown), reading_from_json)?,
            amount: amount_from_json(line.count, line.elements)?,
            text: line.text,
        }),
        "cancel" => Body::Cancel { process: client_process(&line.process)? },
        "step" => Body::Step(*need(line.script, "script")?),
        "end" => Body::End(End {
            completed: need(line.completed, "completed")?,
            text: line.text.map(|text| text.to_string()).unwrap_or_default(),
        }),
        other => {
            return Err(format!(
                "unknown type `{other}`; expected invoke, ok, fail, info, cancel, phase, run, clock, fact, client, step, stall, promotion, waited or end"
            ));
        }
    };
    Ok(Event { index, time, body })
}

fn need<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("missing field `{name}`"))
}

/// The word that serde writes for a unit variant.
pub(super) fn word<T: Serialize>(variant: &T) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(word)) => word,
        other => unreachable!("a unit variant is a word, not {other:?}"),
    }
}

fn from_word<T: serde::de::DeserializeOwned>(word: Word, field: &str) -> Result<T, String> {
    T::deserialize(word.0.into_deserializer()).map_err(|error: Error| format!("field `{field}`: {error}"))
}

fn process_to_json(process: Process) -> Json<'static> {
    match process {
        Process::Client(number) => number.into(),
        Process::Controller => "controller".into(),
    }
}

fn process_from_json(value: &Option<Json>) -> Result<Process, String> {
    match value {
        Some(Json::Text(name)) if name == "controller" => Ok(Process::Controller),
        _ => client_process(value).map(Process::Client),
    }
}

fn client_process(value: &Option<Json>) -> Result<u32, String> {
    match value {
        Some(Json::Number(number)) => u32::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| "field `process` must be a process number, \"controller\" or \"nemesis\"".to_string())
}

/// The value of an operation that read `old`, and is meant to write `new`.
fn value_to_json<'l>(f: Function, old: Json<'l>, new: &'l Option<Text>) -> Json<'l> {
    let new = new.as_deref().map_or(Json::Null, Json::from);
    match f {
        Function::Rmw | Function::Cas => Json::List(vec![old, new]),
        Function::Write => new,
        Function::Hold => Json::Null,
        Function::Read | Function::Shared => old,
    }
}

fn reading_to_json(reading: &Reading) -> Option<Json<'_>> {
    match reading {
        Reading::Unknown => None,
        Reading::Empty => Some(Json::Null),
        Reading::Value(value) => Some(value.as_str().into()),
    }
}

fn reading_from_json(value: Json) -> Result<Reading, String> {
    match value {
        Json::Null => Ok(Reading::Empty),
        Json::Text(value) => Ok(Reading::Value(value[..].into())),
        other => Err(format!("a register's value must be a string or null, not {other}")),
    }
}

/// A token; it must fit into a signed 64-bit integer, as in histories from elsewhere.
fn whole_token(token: u64) -> Result<u64, String> {
    i64::try_from(token).map(|_| token).map_err(|_| format!("the token {token} is beyond 2^63"))
}

fn amount_to_json(amount: &Option<Amount>) -> (Option<u64>, Option<Vec<String>>) {
    let elements = match amount {
        Some(Amount::Elements(elements)) => Some(elements.clone()),
        Some(Amount::Count(_)) | None => None,
    };
    (amount.as_ref().map(Amount::count), elements)
}

fn amount_from_json(count: Option<u64>, elements: Option<Vec<String>>) -> Result<Option<Amount>, String> {
    match (count, elements) {
        (Some(count), Some(elements)) if count != elements.len() as u64 => {
            Err(format!("field `count` is {count}, but `elements` has {}", elements.len()))
        }
        (_, Some(elements)) => Ok(Some(Amount::Elements(elements))),
        (count, None) => Ok(count.map(Amount::Count)),
    }
}

/// The old and the new value of an rmw or a cas.
fn pair<'l>(f: Function, value: Option<Json<'l>>) -> Result<(Json<'l>, Text), String> {
    match value {
        Some(Json::List(pair)) => match <[Json; 2]>::try_from(pair) {
            Ok([old, Json::Text(new)]) => Ok((old, new[..].into())),
            _ => Err(format!("the value of `{}` must be [old, new] with a string as new", word(&f))),
        },
        _ => Err(format!("the value of `{}` must be [old, new]", word(&f))),
    }
}

fn written(value: Option<Json>) -> Result<Text, String> {
    match value {
        Some(Json::Text(new)) => Ok(new[..].into()),
        _ => Err("the value of a write must be a string".into()),
    }
}

fn targets(value: Option<Json>) -> Result<Vec<String>, String> {
    let listed = match value {
        None => return Ok(Vec::new()),
        Some(Json::List(list)) => list.into_iter().map(|name| match name {
            Json::Text(name) => Some(name.into_owned()),
            _ => None,
        }),
        Some(_) => return Err(TARGETS.to_string()),
    };
    listed.collect::<Option<Vec<String>>>().ok_or_else(|| TARGETS.to_string())
}

const TARGETS: &str = "the value of a fault must be a list of member names";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Expects, FactName, FaultKind, Opened, StepOutcome, WhyWaited};

    fn survives(body: Body) {
        let event = Event { index: 3, time: 17, body };
        let line = to_line(&event);
        assert_eq!(from_line(&line).unwrap(), event, "{line}");
    }

    #[test]
    fn every_kind_of_event_survives_its_line() {
        survives(Body::Clock(ClockBound { mono_at_start_ns: -5, error_ns: 9 }));
        survives(Body::Stall(Stall { lasted_ns: 700_000_000 }));
        survives(Body::Waited(Waited {
            members: vec!["c2".into(), "c3".into()],
            why: WhyWaited::Processor,
            from_ns: 5,
            to_ns: 400_000_005,
            waited_ns: 300_000_000,
        }));
        survives(Body::Fact(Fact { name: FactName::FinalReads, holds: true, text: "2 keys".into() }));
        survives(Body::Client(ClientEvent {
            process: 8,
            step: ClientStep::Ended,
            text: "exit 1".into(),
            nodes: Vec::new(),
        }));
        survives(Body::Client(ClientEvent {
            process: 9,
            step: ClientStep::Ready,
            text: "redlock".into(),
            nodes: vec!["n0".into(), "n2".into()],
        }));
        survives(Body::Invoke(Invocation {
            process: Process::Client(3),
            f: Function::Rmw,
            key: "k0".into(),
            new: Some("c3:1".into()),
            orders: Orders {
                acquire_timeout_ms: Some(300),
                release_again_ms: Some(200),
                breakpoints: vec![Phase::Acquired, Phase::BeforeWrite],
            },
        }));
        for (outcome, old) in [
            (Outcome::Ok, Reading::Empty),
            (Outcome::Ok, Reading::Value("c1:1".into())),
            (Outcome::Info, Reading::Unknown),
        ] {
            survives(Body::Complete(Completion {
                process: Process::Client(3),
                f: Function::Rmw,
                key: "k0".into(),
                outcome,
                old,
                amount: Some(Amount::Count(7)),
                new: Some("c3:1".into()),
                error: Some("timeout".into()),
                text: None,
            }));
        }
        for (f, old) in [(Function::Write, Reading::Unknown), (Function::Cas, Reading::Value("c1:1".into()))] {
            let (process, key, new) = (Process::Client(3), Text::from("k0"), Some(Text::from("c3:1")));
            let orders = Orders::default();
            survives(Body::Invoke(Invocation { process, f, key: key.clone(), new: new.clone(), orders }));
            for outcome in [Outcome::Ok, Outcome::Fail, Outcome::Info] {
                let (key, old, new) = (key.clone(), old.clone(), new.clone());
                let (error, text, amount) = (None, None, None);
                survives(Body::Complete(Completion { process, f, key, outcome, old, amount, new, error, text }));
            }
        }
        let (process, f, key) = (Process::Client(3), Function::Shared, Text::from("k0"));
        let orders = Orders::default();
        survives(Body::Invoke(Invocation { process, f, key: key.clone(), new: None, orders }));
        for old in [Reading::Unknown, Reading::Empty, Reading::Value("c1:1".into())] {
            let (key, new, amount, error, text) = (key.clone(), None, None, None, None);
            survives(Body::Complete(Completion {
                process,
                f,
                key,
                outcome: Outcome::Ok,
                old,
                amount,
                new,
                error,
                text,
            }));
        }
        survives(Body::Complete(Completion {
            process: Process::Controller,
            f: Function::Read,
            key: "k0".into(),
            outcome: Outcome::Ok,
            old: Reading::Value("c3:1".into()),
            amount: Some(Amount::Elements(vec!["c1:0".into(), "c3:1".into()])),
            new: None,
            error: None,
            text: None,
        }));
        survives(Body::Cancel { process: 3 });
        for value in [Reading::Unknown, Reading::Empty, Reading::Value("v".into())] {
            survives(Body::Phase(PhaseReport {
                process: 1,
                phase: Phase::BeforeWrite,
                mono_ns: Some(5),
                token: None,
                validity_ms: Some(950),
                value,
                amount: None,
                text: None,
            }));
        }
        survives(Body::Nemesis(NemesisEvent {
            fault: 2,
            kind: FaultKind::Pause,
            step: FaultStep::Injected,
            targets: vec!["c3".into()],
            observed: true,
            links: Some(vec![("c3".into(), "n0".into())]),
            on_call: Some(CallEffect::HoldReply),
            on_each: Some(Command::Write),
            delay_ns: Some(50_000_000),
            aftermath_ns: Some(700),
            clock_off_ns: Some(900),
            text: "1 process in state T".into(),
        }));
        survives(Body::Step(StepEvent {
            number: 2,
            step: "wait 1ttl".into(),
            outcome: StepOutcome::WentOn,
            text: String::new(),
            missed: Some(crate::history::Missed::NotStruck),
            expects: Some(Expects { client: 1, phase: Some(Phase::Acquired), within_ns: Some(5) }),
            opens: vec![
                Opened { client: 1, from: Phase::Read, meant: true },
                Opened { client: 0, from: Phase::BeforeWrite, meant: false },
            ],
        }));
        survives(Body::End(End { completed: false, text: "interrupted".into() }));
    }

    #[test]
    fn lines_that_say_nothing_are_refused_with_a_reason() {
        for (line, reason) in [
            ("", "EOF"),
            ("[]", "invalid type: sequence, expected an object"),
            (r#"{"index":0,"time":0}"#, "missing field `type`"),
            (r#"{"index":0,"time":0,"type":"okay"}"#, "unknown type `okay`"),
            (r#"{"index":0,"time":-1,"type":"end","completed":true}"#, "invalid value"),
            (r#"{"index":0,"time":0,"type":"invoke","process":0,"f":"rmw","key":"k"}"#, "[old, new]"),
            (
                r#"{"index":0,"time":0,"type":"invoke","process":0,"f":"cas","key":"k","value":"v"}"#,
                "`cas` must be [old, new]",
            ),
            (
                r#"{"index":0,"time":0,"type":"invoke","process":0,"f":"write","key":"k","value":null}"#,
                "must be a string",
            ),
            (
                r#"{"index":0,"time":0,"type":"invoke","process":0,"f":"rwm","key":"k","value":null}"#,
                "unknown variant `rwm`",
            ),
            (r#"{"index":0,"time":0,"type":"ok","process":"x","f":"read","key":"k","value":null}"#, "process"),
            (r#"{"index":0,"time":0,"type":"ok","process":1,"f":"read","key":"k","value":3}"#, "string or null"),
            (r#"{"index":0,"time":0,"type":"ok","process":1,"f":"read","key":"k"}"#, "missing field `value`"),
            (
                r#"{"index":0,"time":0,"type":"ok","process":1,"f":"read","key":"k","value":"v","count":-1}"#,
                "invalid value",
            ),
            (
                r#"{"index":0,"time":0,"type":"ok","process":1,"f":"read","key":"k","value":"v","elements":[1]}"#,
                "a string",
            ),
            (
                r#"{"index":0,"time":0,"type":"ok","process":1,"f":"read","key":"k","value":"v","count":2,"elements":["v"]}"#,
                "field `count` is 2, but `elements` has 1",
            ),
            (
                r#"{"index":0,"time":0,"type":"info","process":"nemesis","f":"pause","fault":0,"step":"injected","value":"c3"}"#,
                "list of member names",
            ),
        ] {
            let error = from_line(line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
