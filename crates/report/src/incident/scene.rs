//! The content of an incident's drawing before layout: lanes, marks on them, and the values of the register.

use base::words::{count, length, sanitize};
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
    /// Faults on members without their own lane, such as nodes, and the keys of nodes, by member.
    pub elsewhere: Vec<Shade>,
    /// Empty if the drawing does not show the resource.
    pub resource: Vec<Value>,
    pub resource_name: String,
    /// The times at which a holder's lock expired, or a command at a node ended it, each with its label. Ordered by time.
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
        let named: Vec<String> = lanes.iter().map(|lane| lane.name.clone()).collect();
        let elsewhere = (incident.fault.into_iter())
            .flat_map(|fault| fault.targets.iter().map(move |target| (fault, target)))
            .filter(|(_, target)| !named.contains(target))
            .filter_map(|(fault, target)| {
                let (from, to) = fault.ordered_span();
                let (from, to) = (from.max(start), to.unwrap_or(end).min(end));
                let label = fault_label(fault).0.to_string();
                (from < to).then(|| Shade { from, to, label, whose: sanitize(target, 14), kind: ShadeKind::Fault })
            })
            .take(3)
            .collect();
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
        let mut moments: Vec<(u64, String)> = expiry.into_iter().chain(steps).collect();
        moments.sort();
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
    let shades = story.subject.history.faults.iter().filter(hits).filter_map(|fault| {
        // The same length as in the text and in the table of faults.
        let label = match (fault_label(fault), fault.span()) {
            ((label, true), (from, Some(to))) => format!("{label} {}", length(to.saturating_sub(from))),
            ((label, _), _) => label.to_string(),
        };
        let (from, to) = fault.ordered_span();
        let (from, to) = (from.max(start), to.unwrap_or(u64::MAX).min(end));
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

/// The values of the register during the incident, as far as the reported writes show them.
fn resource(story: &Story, incident: &Incident, principals: &[&Operation], start: u64, end: u64) -> Vec<Value> {
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
