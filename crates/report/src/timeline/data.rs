//! The data of the timeline: operations in columns, which compress well, and everything else as lists. Times are microseconds
//! since the run began. Only `timeline.js` reads this.
//!
//! If a run has more operations than a page can carry, only those around incidents and faults are included. Elsewhere there are
//! counts; see [`Data::full`].

use std::collections::HashMap;

use serde::Serialize;

use super::lanes::{Bin, Lanes, micros};
use super::servers::Servers;
use crate::Report;
use base::words::sanitize;
use model::history::{Function, Operation, Outcome, Phase, Reading};
use summary::story::fault_label;
use summary::times;

const MOST_OPERATIONS: usize = 110_000;
/// At most this many characters of a text from outside are kept.
const LONGEST: usize = 60;

#[derive(Serialize)]
pub(super) struct Data {
    end: u64,
    /// The lock's TTL; 0 if it has none.
    ttl: u64,
    clients: Vec<String>,
    nodes: Vec<String>,
    keys: Vec<String>,
    texts: Vec<String>,
    operations: Columns,
    total: usize,
    /// The time ranges in which every operation is included. Empty if that is the whole run.
    full: Vec<(u64, u64)>,
    bins: Vec<Vec<Bin>>,
    faults: Vec<FaultBar>,
    incidents: Vec<Incident>,
    promotions: Vec<(u64, u64, String, String)>,
    stalls: Vec<(u64, u64)>,
    servers: Option<Servers>,
    /// The time, the member, and the text.
    logs: Vec<(u64, String, String)>,
}

/// Operations in the order of invocation, with a column for each property.
#[derive(Default, Serialize)]
struct Columns {
    /// The line of the invocation, relative to the previous operation's.
    line: Vec<u64>,
    /// The client's index. The controller has one more than the last client.
    client: Vec<u32>,
    f: Vec<u8>,
    key: Vec<u32>,
    /// The time since the previous invocation.
    invoked: Vec<u64>,
    /// The duration; -1 if the operation never ended.
    took: Vec<i64>,
    /// 0 ok, 1 fail, 2 info.
    outcome: Vec<u8>,
    /// Indexes in the texts, plus one; 0 for none.
    read: Vec<u32>,
    wrote: Vec<u32>,
    error: Vec<u32>,
    /// 1 if the update was lost.
    lost: Vec<u8>,
    /// The hold as its client believed it: its beginning relative to the invocation, or -1, and its length.
    held: Vec<i64>,
    hold: Vec<u64>,
    /// How long after the hold's beginning the client counted on the lock at most; -1 if unknown.
    valid: Vec<i64>,
    /// The times at which the client had the value, the write was sent, and the write took effect. Relative to the invocation,
    /// or -1.
    got: Vec<i64>,
    sent: Vec<i64>,
    effect: Vec<i64>,
    /// The index of the operation, and its fencing token.
    tokens: Vec<(usize, u64)>,
    /// The number of reported phases. Then, for each phase, its word, its time since the one before, and its line relative to
    /// the one before.
    phases: Vec<u8>,
    phase: Vec<u8>,
    at: Vec<i64>,
    on: Vec<u64>,
}

#[derive(Serialize)]
struct FaultBar {
    number: u32,
    /// The label, such as `paused`.
    label: &'static str,
    what: String,
    targets: Vec<String>,
    /// Other members that the fault affects through their links.
    others: Vec<String>,
    from: u64,
    /// None if it was never healed.
    to: Option<u64>,
    observed: bool,
    lines: Vec<u64>,
    texts: Vec<String>,
}

#[derive(Serialize)]
struct Incident {
    what: String,
    time: u64,
    from: u64,
    to: u64,
    claimed: bool,
    /// The lines of the operations' invocations.
    lines: Vec<u64>,
}

/// Texts and keys by their indexes.
#[derive(Default)]
struct Interner {
    all: Vec<String>,
    places: HashMap<String, u32>,
}

impl Interner {
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(sanitize(text, LONGEST));
        self.places.insert(text.to_string(), place);
        place
    }
}

/// The microseconds from one time to another.
fn after(from: u64, to: u64) -> i64 {
    micros(to) as i64 - micros(from) as i64
}

impl Data {
    /// The data. None if there is nothing on the time axis.
    pub fn new(report: &Report) -> Option<Data> {
        let story = &report.story;
        let history = story.subject.history;
        if history.operations.is_empty() {
            return None;
        }
        let lanes = Lanes::of(report);
        let incidents = incidents(report);
        let (full, chosen) = chosen(&history.operations, &incidents, report);
        let (mut keys, mut texts) = (Interner::default(), Interner::default());
        let operations = columns(report, &chosen, &lanes, &mut keys, &mut texts);
        let bins = if full.is_empty() { Vec::new() } else { lanes.bins(&history.operations, history.last_time) };
        let servers = super::servers(report, &lanes);
        let logs = report.artifacts.map(|artifacts| artifacts.logs.iter());
        let faults = history.faults.iter().filter(|fault| fault.injected.is_some()).take(2000);
        Some(Data {
            end: micros(history.last_time).max(1),
            ttl: story.ttl_ns().map_or(0, micros),
            operations,
            total: history.operations.len(),
            full,
            bins,
            faults: faults.map(fault).collect(),
            incidents,
            promotions: (history.promotions.iter())
                .map(|seen| {
                    let name = |text: &str| sanitize(text, LONGEST);
                    let (node, key) = (name(&seen.promotion.node), name(&seen.promotion.key));
                    (micros(seen.promotion.after_ns), micros(seen.time), node, key)
                })
                .collect(),
            stalls: history.stalls.iter().map(|(from, to)| (micros(*from), micros(*to))).collect(),
            servers,
            logs: logs
                .into_iter()
                .flatten()
                .map(|line| (micros(line.time), line.member.clone(), line.text.clone()))
                .collect(),
            keys: keys.all,
            texts: texts.all,
            clients: lanes.clients,
            nodes: lanes.nodes,
        })
    }

    pub fn total(&self) -> usize {
        self.total
    }

    pub fn counted_only(&self) -> usize {
        if self.full.is_empty() { 0 } else { self.total - self.operations.client.len() }
    }

    pub fn has_servers(&self) -> bool {
        self.servers.is_some()
    }
}

fn incidents(report: &Report) -> Vec<Incident> {
    let story = &report.story;
    let last = story.subject.history.last_time;
    let accounts = &report.summary.incidents;
    (story.incidents.iter().zip(accounts).take(2000))
        .map(|(incident, account)| {
            let (from, to) = span(incident, last);
            Incident {
                what: account.what.clone(),
                time: micros(incident.time),
                from: micros(from),
                to: micros(to),
                claimed: incident.claimed,
                lines: incident.operations.iter().take(100).map(|operation| operation.index).collect(),
            }
        })
        .collect()
}

/// The time range of an incident, in nanoseconds: its operations from their holds on, and some margin.
pub(super) fn span(incident: &summary::Incident, last: u64) -> (u64, u64) {
    let ends = |operation: &&Operation| {
        let hold = times::hold(operation);
        let from = hold.map_or(operation.invoked, |hold| hold.start);
        let to = hold.map_or(operation.invoked, |hold| hold.end).max(times::effect(operation).unwrap_or(0));
        (from, to)
    };
    let (mut from, mut to) = (incident.time, incident.time);
    for (begins, ends) in incident.operations.iter().map(ends) {
        (from, to) = (from.min(begins), to.max(ends));
    }
    let around = ((to - from) / 6).max(20_000_000);
    (from.saturating_sub(around), to.saturating_add(around).min(last.max(1)))
}

/// The operations to include one by one, and the time ranges in which these are all. No time ranges if all operations are
/// included.
fn chosen(all: &[Operation], incidents: &[Incident], report: &Report) -> (Vec<(u64, u64)>, Vec<usize>) {
    if all.len() <= MOST_OPERATIONS {
        return (Vec::new(), (0..all.len()).collect());
    }
    let faults = report.story.subject.history.faults.iter().filter(|fault| fault.injected.is_some());
    let around_faults = faults.map(|fault| {
        let (from, to) = fault.span();
        (micros(from), micros(to.unwrap_or(from)))
    });
    let around_incidents = incidents.iter().map(|incident| (incident.from, incident.to));
    let invoked_by = |time: u64| all.partition_point(|operation| micros(operation.invoked) <= time);
    let mut room = MOST_OPERATIONS * 3 / 4;
    let mut times: Vec<(u64, u64)> = Vec::new();
    for (from, to) in around_incidents.chain(around_faults) {
        let number = invoked_by(to) - invoked_by(from.saturating_sub(1));
        if number <= room {
            room -= number;
            times.push((from, to));
        }
    }
    if times.is_empty() {
        times.push((0, micros(all[room].invoked)));
    }
    times.sort_unstable();
    let mut full: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match full.last_mut().filter(|last| last.1 >= from) {
            Some(last) => last.1 = last.1.max(to),
            None => full.push((from, to)),
        }
    }
    let is_in = |operation: &Operation| {
        let (from, to) = (micros(operation.invoked), operation.completed.map_or(u64::MAX, micros));
        let place = full.partition_point(|(_, end)| *end < from);
        full.get(place).is_some_and(|(begin, _)| *begin <= to)
    };
    let chosen = (0..all.len()).filter(|place| is_in(&all[*place])).take(MOST_OPERATIONS).collect();
    (full, chosen)
}

fn columns(report: &Report, chosen: &[usize], lanes: &Lanes, keys: &mut Interner, texts: &mut Interner) -> Columns {
    let story = &report.story;
    let all = &story.subject.history.operations;
    let mut columns = Columns::default();
    let (mut line, mut invoked) = (0, 0);
    for place in chosen {
        let operation = &all[*place];
        let begin = operation.invoked;
        let moment = |time: Option<u64>| time.map_or(-1, |time| after(begin, time).max(0));
        columns.line.push(operation.index - line);
        line = operation.index;
        columns.client.push(lanes.place(operation.process));
        columns.f.push(match operation.f {
            Function::Rmw => 0,
            Function::Hold => 1,
            Function::Read => 2,
            Function::Write => 3,
            Function::Cas => 4,
            Function::Shared => 5,
        });
        columns.key.push(keys.place(&operation.key));
        columns.invoked.push(micros(begin).saturating_sub(invoked));
        invoked = micros(begin);
        columns.took.push(moment(operation.completed));
        columns.outcome.push(match operation.outcome {
            Outcome::Ok => 0,
            Outcome::Fail => 1,
            Outcome::Info => 2,
        });
        let mut text = |text: Option<&str>| text.map_or(0, |text| texts.place(text) + 1);
        columns.read.push(text(match &operation.old {
            Reading::Unknown => None,
            Reading::Empty => Some("(empty)"),
            Reading::Value(value) => Some(value),
        }));
        columns.wrote.push(text(operation.new.as_deref()));
        columns.error.push(text(operation.error()));
        columns.lost.push(u8::from(story.is_lost(operation)));
        let hold = times::hold(operation);
        columns.held.push(moment(hold.map(|hold| hold.start)));
        columns.hold.push(hold.map_or(0, |hold| micros(hold.end) - micros(hold.start)));
        let valid = hold.and_then(|hold| Some((hold, times::expiry_at(story.subject.history, operation, hold.end)?.0)));
        columns.valid.push(valid.map_or(-1, |(hold, until)| after(hold.start, until).max(0)));
        columns.got.push(moment(times::at(operation, Phase::Read)));
        columns.sent.push(moment(times::write(operation).map(|write| write.sent)));
        let effect = times::effect(operation).filter(|_| operation.outcome != Outcome::Fail);
        columns.effect.push(moment(effect));
        if let Some(token) = operation.phases.iter().filter_map(|stamp| stamp.token).last() {
            columns.tokens.push((columns.client.len() - 1, token));
        }
        let phases = operation.phases.before(60);
        columns.phases.push(phases.clone().count() as u8);
        let (mut time, mut index) = (begin, operation.index);
        for stamp in phases {
            columns.phase.push(stamp.phase as u8);
            columns.at.push(after(time, stamp.time()));
            columns.on.push(stamp.index - index);
            (time, index) = (stamp.time(), stamp.index);
        }
    }
    columns
}

fn fault(fault: &model::history::FaultWindow) -> FaultBar {
    let (from, to) = fault.span();
    let name = |text: &String| sanitize(text, LONGEST);
    let linked = fault.links.iter().flatten().flat_map(|(one, other)| [one, other]);
    let mut others: Vec<String> = linked.filter(|member| !fault.targets.contains(member)).map(name).collect();
    others.sort();
    others.dedup();
    FaultBar {
        number: fault.fault,
        label: fault_label(fault).0,
        what: sanitize(&fault.what, 200),
        targets: fault.targets.iter().map(name).collect(),
        others,
        from: micros(from),
        to: if fault_label(fault).1 {
            to.map(micros)
        } else {
            Some(micros(fault.injected.map_or(from, |(time, _)| time)))
        },
        observed: fault.was_observed(),
        lines: fault.lines.clone(),
        texts: fault.texts.iter().take(4).map(|text| sanitize(text, 200)).collect(),
    }
}
