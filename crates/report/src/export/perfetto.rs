//! The run as a JSON trace of events, the older of the two formats that Perfetto reads. Clients, nodes, the resource and faults
//! are processes. Holds, lives of keys and writes are slices. Times are microseconds since the run began.

use serde_json::{Value, json};

use crate::{Report, timeline};
use model::history::{Operation, Outcome};
use summary::story::fault_label;
use summary::times;

const CLIENTS: u32 = 1;
const NODES: u32 = 2;
const FAULTS: u32 = 3;

pub fn perfetto(report: &Report) -> String {
    let mut events = Vec::new();
    for (pid, name) in [(CLIENTS, "clients"), (NODES, "nodes, as the servers had it"), (FAULTS, "faults")] {
        events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}));
    }
    let lanes = timeline::Lanes::of(report);
    let thread = |pid: u32, (tid, name): (usize, &String)| json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}});
    events.extend(lanes.clients.iter().enumerate().map(|named| thread(CLIENTS, named)));
    events.extend(lanes.nodes.iter().enumerate().map(|named| thread(NODES, named)));
    for operation in &report.story.subject.history.operations {
        operation_events(report, operation, lanes.place(operation.process), &mut events);
    }
    for life in timeline::servers(report, &lanes).into_iter().flat_map(|servers| servers.lives) {
        let owner = usize::try_from(life.owner).ok().and_then(|place| lanes.clients.get(place));
        let name = owner.map_or_else(|| life.key.clone(), |owner| format!("{} of {owner}", life.key));
        let args = json!({"value": life.value});
        events.push(slice(NODES, life.node as u32, &name, (life.from, life.to), args));
    }
    for fault in report.story.subject.history.faults.iter().filter(|fault| fault.injected.is_some()) {
        let (from, to) = fault.span();
        let to = to.unwrap_or(report.story.subject.history.last_time);
        let name = format!("{} {}", fault.targets.join(", "), fault_label(fault).0);
        events.push(slice(
            FAULTS,
            fault.fault,
            &name,
            (from / 1000, to / 1000),
            json!({"what": fault.what, "observed": fault.was_observed()}),
        ));
    }
    serde_json::to_string(&json!({"displayTimeUnit": "ms", "traceEvents": events})).unwrap_or_default()
}

fn operation_events(report: &Report, operation: &Operation, tid: u32, events: &mut Vec<Value>) {
    let last = report.story.subject.history.last_time;
    let span = (operation.invoked / 1000, operation.completed.unwrap_or(last) / 1000);
    let name = format!("{} {}", super::edn::word(operation.f), operation.key);
    let args = json!({
        "index": operation.index,
        "outcome": super::edn::outcome(operation.outcome),
        "wrote": operation.new,
        "error": operation.error(),
        "lost": report.story.is_lost(operation),
    });
    events.push(slice(CLIENTS, tid, &name, span, args));
    if let Some(hold) = times::hold(operation) {
        // Keep it within the operation's slice: a client may have stamped its phases before the controller logged the
        // invocation.
        let held = ((hold.start / 1000).clamp(span.0, span.1), (hold.end / 1000).clamp(span.0, span.1));
        let name = if operation.f.is_shared() { "holds the lock for reading" } else { "holds the lock" };
        events.push(slice(CLIENTS, tid, name, held, json!({})));
    }
    if let Some(time) = times::effect(operation).filter(|_| operation.outcome != Outcome::Fail) {
        events.push(json!({"ph": "i", "s": "t", "name": format!("writes {}", operation.new.as_deref().unwrap_or("")),
            "pid": CLIENTS, "tid": tid, "ts": time / 1000}));
    }
}

fn slice(pid: u32, tid: u32, name: &str, (from, to): (u64, u64), args: Value) -> Value {
    json!({"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": from, "dur": to.saturating_sub(from), "args": args})
}
