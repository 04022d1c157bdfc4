//! The content of an incident's drawing before layout: lanes, marks on them, and the values of the register.

use crate::drawing::{GUTTER, WHO, text_width};
use base::words::{count, length, moment, sanitize};
use model::history::{FaultWindow, Function, Operation, Outcome, Phase, PhaseStamp, Reading, ResourceKind};
use summary::story::fault_label;
use summary::times::{self, Hold};
use summary::{Incident, IncidentAccount, Story, principals};

/// If the resource's lane has more values than this, they are drawn as one.
const VALUES_ONE_BY_ONE: usize = 4;

pub struct Scene {
    pub start: u64,
    pub end: u64,
    pub lanes: Vec<Lane>,
    /// Lasting faults on members without their own lane, such as nodes, and the keys of nodes, by member.
    pub elsewhere: Vec<Shade>,
    /// Empty if the drawing does not show the resource.
    pub resource: Vec<Value>,
    pub resource_name: String,
    /// The times at which a lock expired, a command or a fault at a node ended it, or a replica was promoted. Each has a label.
    /// Ordered by time.
    pub moments: Vec<(u64, String)>,
    /// The times at which two clients held the lock at once, with their lanes.
    pub overlaps: Vec<Overlap>,
    /// The time at which each tick begins. Empty if moments are nanoseconds of run time.
    pub ticks: Vec<(u64, String)>,
}

pub struct Lane {
    pub name: String,
    pub under_name: String,
    pub token: Option<u64>,
    pub hold: Hold,
    /// True if `hold` is the time in which the lock was held, false if it is the whole operation.
    pub held: bool,
    /// The texts of the hold's bar, the longest first.
    pub words: Vec<String>,
    pub waits_from: Option<u64>,
    /// The client's activity until it acquires the lock. None if marks show it.
    pub waiting: Option<&'static str>,
    pub marks: Vec<Mark>,
    pub pauses: Vec<Shade>,
    pub arrows: Vec<Arrow>,
}

/// A labelled moment on a lane.
pub struct Mark {
    pub time: u64,
    pub label: String,
    pub bad: bool,
}

/// An active fault, or a key on a node.
pub struct Shade {
    pub from: u64,
    pub to: u64,
    pub label: String,
    pub whose: String,
    pub kind: ShadeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ShadeKind {
    Fault,
    Key,
}

/// A message between a client and the resource.
pub struct Arrow {
    pub from: u64,
    pub to: u64,
    pub kind: ArrowKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ArrowKind {
    Read,
    Write,
    /// A write that overwrote other clients' writes.
    BadWrite,
    /// A write that was rejected, or that may not have arrived.
    NoWrite,
}

/// The value of the resource from a moment on.
pub struct Value {
    pub from: u64,
    pub text: String,
    pub lost: bool,
}

pub struct Overlap {
    pub from: u64,
    pub to: u64,
    pub lanes: (usize, usize),
    pub label: String,
}

impl Scene {
    pub fn new(story: &Story, incident: &Incident, account: &IncidentAccount) -> Option<Scene> {
        let principals = principals(incident);
        let holds: Vec<(Hold, bool)> = principals.iter().map(|operation| extent(operation)).collect();
        let start = holds.iter().map(|(hold, _)| hold.start).min()?;
        let end = holds.iter().map(|(hold, _)| hold.end).max()?;
        let end = principals.iter().filter_map(|operation| times::write(operation)?.acknowledged).fold(end, u64::max);
        let lanes: Vec<Lane> = (principals.iter().zip(holds))
            .map(|(operation, hold)| lane(story, incident, operation, hold, start))
            .collect();
        let overlaps = (incident.overlaps().iter())
            .filter_map(|holders| {
                let place =
                    |wanted: &&Operation| principals.iter().position(|operation| operation.index == wanted.index);
                let lanes = holders.iter().map(place).collect::<Option<Vec<usize>>>()?;
                let (from, to) = times::overlap(holders)?;
                let number = if holders.len() == 2 { "two".to_string() } else { holders.len().to_string() };
                let label = format!("{number} holders for {}", length(to - from));
                Some(Overlap { from, to, lanes: (*lanes.iter().min()?, *lanes.iter().max()?), label })
            })
            .collect();
        let faults = faults(story, incident, account);
        let elsewhere = elsewhere(&faults, &lanes, start, end);
        let expiry = (principals.iter())
            .filter_map(|operation| {
                let expiry = story.expiry(operation)?;
                let label = format!("lock of {} expires", story.name(operation.process));
                Some((expiry, label))
            })
            .min_by_key(|(time, _)| *time);
        let steps = account.told().filter_map(|told| told.step.as_ref());
        let steps = steps.filter(|step| (start..=end).contains(&step.time)).take(2);
        let steps = steps.map(|step| (step.time, sanitize(&step.text, 60)));
        let at_once = faults.iter().filter_map(|fault| Some((fault.inject, at_once(fault, &lanes)?)));
        let promoted = story.subject.history.promotions.iter().map(|seen| {
            let node = sanitize(&seen.promotion.node, 14);
            (seen.time, format!("{node} seen as primary"))
        });
        let at_nodes = at_once.chain(promoted).filter(|(time, _)| (start..=end).contains(time)).take(3);
        let mut moments: Vec<(u64, String)> = expiry.into_iter().chain(steps).chain(at_nodes).collect();
        moments.sort();
        moments.dedup();
        Some(Scene {
            start,
            end,
            resource: resource(story, incident, &principals, start, end),
            resource_name: sanitize(incident.key, 14),
            lanes,
            elsewhere,
            moments,
            overlaps,
            ticks: Vec::new(),
        })
    }
}

/// The incident's fault, and the faults that its diagnoses name.
fn faults<'a>(story: &Story<'a>, incident: &Incident<'a>, account: &IncidentAccount) -> Vec<&'a FaultWindow> {
    let number = incident.fault.map(|fault| fault.fault);
    let is_named = |window: &&FaultWindow| account.told().any(|told| told.fault == Some(window.fault));
    let named = story.subject.history.faults.iter().filter(is_named).filter(|window| Some(window.fault) != number);
    incident.fault.into_iter().chain(named).collect()
}

/// The targets of a fault without a lane.
fn others(fault: &FaultWindow, lanes: &[Lane]) -> Vec<String> {
    let targets = fault.targets.iter().map(|target| sanitize(target, 14));
    targets.filter(|target| lanes.iter().all(|lane| lane.name != *target)).collect()
}

/// A fault that does not last, on members without a lane: `n0 flushed`. None if it lasts, or hit only members with a lane.
fn at_once(fault: &FaultWindow, lanes: &[Lane]) -> Option<String> {
    let (label, lasts) = fault_label(fault);
    let mut rows = in_rows(others(fault, lanes)).into_iter().filter(|_| !lasts);
    let colon = if fault.kind.is_at_command() { ":" } else { "" };
    rows.next().map(|whose| format!("{whose}{colon} {label}"))
}

/// At most this many rows show members without a lane.
const MEMBERS: usize = 6;

/// The faults that last, on members without a lane. Members with the same fault share a row if their names fit.
fn elsewhere(faults: &[&FaultWindow], lanes: &[Lane], start: u64, end: u64) -> Vec<Shade> {
    let shades = faults.iter().flat_map(|fault| {
        let (label, lasts) = fault_label(fault);
        let (began, healed) = fault.ordered_span();
        let (from, to) = (began.max(start), healed.unwrap_or(end).min(end));
        let label = since(label.to_string(), began, (start, end));
        let rows = in_rows(others(fault, lanes)).into_iter().filter(move |_| lasts && from < to);
        rows.map(move |whose| Shade { from, to, label: label.clone(), whose, kind: ShadeKind::Fault })
    });
    shades.take(MEMBERS).collect()
}

/// The names in rows that fit before the drawing's first moment.
fn in_rows(names: Vec<String>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for name in names {
        let longer = rows.last().map(|row| format!("{row}, {name}"));
        match longer.filter(|longer| text_width(longer, WHO, true) <= GUTTER - 8.0).zip(rows.last_mut()) {
            Some((longer, row)) => *row = longer,
            None => rows.push(name),
        }
    }
    rows
}

/// The label of a fault, with its start if the drawing begins much later.
fn since(label: String, began: u64, (start, end): (u64, u64)) -> String {
    let is_earlier = start.saturating_sub(began) > (end - start) / 20;
    if is_earlier { format!("{label} since {}", moment(began)) } else { label }
}

/// The operation's hold. If the operation never reported a hold, its whole duration, and false.
fn extent(operation: &Operation) -> (Hold, bool) {
    match times::hold(operation) {
        Some(hold) => (hold, true),
        None => {
            let last_heard = operation.phases.iter().map(PhaseStamp::time).max().unwrap_or(operation.invoked);
            let end = operation.completed.unwrap_or(last_heard).max(operation.invoked);
            (Hold { start: operation.invoked, end, ended: operation.completed.is_some() }, false)
        }
    }
}

fn lane(story: &Story, incident: &Incident, operation: &Operation, (hold, held): (Hold, bool), start: u64) -> Lane {
    let name = story.name(operation.process);
    let lost = incident.lost.contains(&operation.index);
    let takes = Mark { time: hold.start, label: "takes lock".to_string(), bad: false };
    let mut marks: Vec<Mark> = held.then_some(takes).into_iter().collect();
    let mut arrows = Vec::new();
    for (of_one, arrow) in [reads(story, operation), writes(story, incident, operation)].into_iter().flatten() {
        marks.extend(of_one);
        arrows.push(arrow);
    }
    let holds = length(hold.end - hold.start);
    let asked = times::at(operation, Phase::Acquiring).unwrap_or(operation.invoked).max(start);
    Lane {
        under_name: match operation.outcome {
            _ if lost => "update lost".to_string(),
            // Without a resource, a client writes nothing.
            Outcome::Ok if !story.has_resource() => String::new(),
            Outcome::Ok => "acknowledged".to_string(),
            Outcome::Fail => "failed".to_string(),
            Outcome::Info => "indeterminate".to_string(),
        },
        token: operation.phase(Phase::Acquired).and_then(|stamp| stamp.token),
        waiting: Some("waits for the lock"),
        waits_from: (held && asked < hold.start).then_some(asked),
        pauses: faults_on(story, &name, start, hold.end),
        name: sanitize(&name, 14),
        words: vec![
            format!("believes it holds the lock{}, {holds}", if operation.f.is_shared() { " for reading" } else { "" }),
            format!("believes it holds, {holds}"),
            holds,
        ],
        hold,
        held,
        marks: one_a_moment(marks),
        arrows,
    }
}

/// The mark and the message of an operation's read. None if it read nothing.
fn reads(story: &Story, operation: &Operation) -> Option<(Vec<Mark>, Arrow)> {
    // A read operation reports its value with its reply.
    let is_answered_read = operation.f == Function::Read && operation.outcome == Outcome::Ok;
    let time = times::at(operation, Phase::Read).or(operation.completed.filter(|_| is_answered_read))?;
    let label = match &operation.old {
        Reading::Unknown => "reads".to_string(),
        Reading::Empty => "reads nothing".to_string(),
        Reading::Value(value) => format!("reads {}", shown(story, operation, 0, value)),
    };
    Some((vec![Mark { time, label, bad: false }], Arrow { from: time, to: time, kind: ArrowKind::Read }))
}

/// The marks and the message of an operation's write, and what happened to it. None if it wrote nothing.
fn writes(story: &Story, incident: &Incident, operation: &Operation) -> Option<(Vec<Mark>, Arrow)> {
    let write = times::write(operation)?;
    let lost = incident.lost.contains(&operation.index);
    let overwrites = overwrites_blindly(story, operation)
        || incident.culprit().is_some_and(|culprit| culprit.index == operation.index);
    let new = operation.new.as_deref().map(|new| shown(story, operation, 1, new)).unwrap_or_default();
    let (sent, stored) = (write.sent, write.acknowledged.is_some());
    let (kind, word) = match operation.outcome {
        Outcome::Fail => (ArrowKind::NoWrite, "refused"),
        Outcome::Info if !stored => (ArrowKind::NoWrite, "no answer"),
        outcome => {
            let kind = if overwrites { ArrowKind::BadWrite } else { ArrowKind::Write };
            (kind, if outcome == Outcome::Ok { "ok" } else { "stored" })
        }
    };
    // The reply gets its own mark only if it came late.
    let answer = write.acknowledged.or(operation.completed);
    let marks = match answer.filter(|answer| times::is_slow(operation, sent, *answer)) {
        Some(time) => vec![
            Mark { time: sent, label: format!("writes {new}"), bad: overwrites },
            Mark { time, label: word.to_string(), bad: lost },
        ],
        None => vec![Mark { time: sent, label: format!("writes {new}, {word}"), bad: overwrites }],
    };
    Some((marks, Arrow { from: sent, to: times::effect(operation).unwrap_or(sent), kind }))
}

/// The first faults on a client in this time range.
fn faults_on(story: &Story, name: &str, start: u64, end: u64) -> Vec<Shade> {
    let hits = |fault: &&FaultWindow| fault.injected.is_some() && fault.targets.iter().any(|target| target == name);
    // A fault that does not last has no effect later.
    let is_in = |fault: &&FaultWindow| fault_label(fault).1 || fault.inject >= start;
    let shades = story.subject.history.faults.iter().filter(hits).filter(is_in).filter_map(|fault| {
        // The same length as in the text and in the table of faults.
        let label = match (fault_label(fault), fault.span()) {
            ((label, true), (from, Some(to))) => format!("{label} {}", length(to.saturating_sub(from))),
            ((label, _), _) => label.to_string(),
        };
        let (began, to) = fault.ordered_span();
        let (from, to) = (began.max(start), to.unwrap_or(u64::MAX).min(end));
        let label = since(label, began, (start, end));
        (from < to).then(|| Shade { from, to, label, whose: name.to_string(), kind: ShadeKind::Fault })
    });
    shades.take(3).collect()
}

/// Marks in the order of time. Each moment keeps only one label.
fn one_a_moment(mut marks: Vec<Mark>) -> Vec<Mark> {
    marks.sort_by_key(|mark| mark.time);
    marks.dedup_by(|later, earlier| {
        let same = later.time == earlier.time;
        if same {
            earlier.label = format!("{}, {}", earlier.label, later.label);
            earlier.bad |= later.bad;
        }
        same
    });
    marks
}

/// A value. For a counter, the number that the operation read, plus `more`.
fn shown(story: &Story, operation: &Operation, more: u64, value: &str) -> String {
    match (&operation.amount, story.resource()) {
        (Some(amount), Some(ResourceKind::Counter)) => count(amount.count().saturating_add(more)),
        _ => sanitize(value, 14),
    }
}

/// True if the operation replaced another value than the one it had read.
fn overwrites_blindly(story: &Story, operation: &Operation) -> bool {
    match (story.overwritten(operation).and_then(|last| last.new.as_ref()), &operation.old) {
        (Some(replaced), Reading::Value(read)) => replaced != read,
        (Some(_), Reading::Empty) => true,
        _ => false,
    }
}

/// The values of the register during the incident, as far as the reported writes show them. Empty if the run has no resource.
fn resource(story: &Story, incident: &Incident, principals: &[&Operation], start: u64, end: u64) -> Vec<Value> {
    if !story.has_resource() {
        return Vec::new();
    }
    let writes = story.writes(incident.key, start, end);
    let first_read = principals
        .iter()
        .filter(|operation| times::at(operation, Phase::Read).is_some())
        .min_by_key(|operation| times::at(operation, Phase::Read));
    let before = match first_read.map(|operation| (operation, &operation.old)) {
        Some((operation, Reading::Value(value))) => shown(story, operation, 0, value),
        Some((_, Reading::Empty)) => "empty".to_string(),
        _ => "?".to_string(),
    };
    let is_principal = |operation: &Operation| principals.iter().any(|one| one.index == operation.index);
    let strangers = writes.iter().filter(|(_, operation)| !is_principal(operation)).count();
    let mut values = vec![Value { from: start, text: before, lost: false }];
    let mut merged = 0;
    for (time, operation) in writes {
        let lost = incident.lost.contains(&operation.index);
        if strangers > VALUES_ONE_BY_ONE && !is_principal(operation) {
            merged += 1;
            let text = format!("{} more values", count(merged));
            match values.last_mut().filter(|_| merged > 1) {
                Some(last) => (last.text, last.lost) = (text, last.lost && lost),
                None => values.push(Value { from: *time, text, lost }),
            }
            continue;
        }
        merged = 0;
        values.push(Value {
            from: *time,
            text: shown(story, operation, 1, operation.new.as_deref().unwrap_or("?")),
            lost,
        });
    }
    values
}
