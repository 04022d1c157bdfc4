//! Faults that the history refutes: a stopped or killed member acts, or an answer comes that no server could have sent, or sooner
//! than possible. Each kind of fault [declares](RulesOut) what it rules out.
//!
//! A fault counts from the time its effect was observed to the time its heal was ordered. A report may reach the controller late,
//! so the client's own stamp is the time of an act. Without a stamp, the act lies between the order to begin the operation and
//! the report. A reply may have been on its way when the fault began, so only answers to later requests count.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::super::reach::{Needed, clock_margin};
use super::super::words::{Words, seconds};
use base::members::{Role, client_name, node_name};
use model::fault_kinds::{FaultKind, RulesOut};
use model::history::{
    CallEffect, Command, FaultWindow, Function, History, Operation, Outcome, Phase, PhaseStamp, Process, Reading,
    ResourceKind,
};
use model::nemesis::{Argument, Fault};

/// Start and end, in nanoseconds of run time.
type TimeSpan = (i64, i64);

/// A delay counts in milliseconds, so packets may leave this many nanoseconds sooner.
const DELAY_STEP: i64 = 1_000_000;

/// A time in which a member certainly did not answer, or not so soon.
struct Outage<'h> {
    window: &'h FaultWindow,
    target: &'h str,
    /// The only client that the target cannot answer; `None` if it cannot answer any client.
    cut_from: Option<String>,
    lets: Lets,
    span: TimeSpan,
}

/// The answers that come in spite of an outage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lets {
    Nothing,
    Reads,
    /// Answers that take at least this long, in nanoseconds.
    Later(i64),
}

/// Two times of an operation between which a server must have answered its client.
struct Answered {
    client: String,
    by: By,
    did: &'static str,
    span: TimeSpan,
}

/// The servers that must have answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// At least one of the lock's nodes.
    ANode,
    /// The server that stores the resource; a node, if the nodes store it.
    Resource,
}

/// The first observation that contradicts the faults; None if there is none.
pub(super) fn refuted(history: &History, faults: &[&FaultWindow]) -> Option<String> {
    let words = Words::new(history);
    let outages: Vec<Outage> = faults.iter().flat_map(|window| outages(history, window)).collect();
    let locks = history.takes_locks();
    let of_operations = history.operations.iter().flat_map(|operation| answers(operation, words));
    // Without a lock, clients ask no node for it.
    let answers: Vec<Answered> = of_operations.filter(|answer| locks || answer.by != By::ANode).collect();
    let acted = outages.iter().find_map(|outage| acted(history, outage, words));
    let (nodes, primaries) = (nodes(history), only_primaries(history));
    let served = || {
        answers.iter().find_map(|answer| {
            // A replica may answer reads, but it accepts no write.
            let primaries = primaries.as_deref().filter(|_| answer.did != READ);
            served(history, &outages, answer, (primaries.unwrap_or(&nodes), primaries.is_some()))
        })
    };
    let unsided = || faults.iter().find_map(|window| nobody_was_cut_off(history, window, &answers));
    let kept = || faults.iter().find_map(|window| old_value(history, window, words));
    acted.or_else(served).or_else(unsided).or_else(kept)
}

/// The time in which an observed fault was certainly in effect, by the clients' stamps.
fn certain_span(history: &History, window: &FaultWindow) -> Option<TimeSpan> {
    let (since, mut until) = window.certain_span()?;
    if window.kind.needs.by_client {
        // The client itself ends the fault, and its report of the end comes later.
        until = until.min(window.inject.saturating_add(asked_length(history, window)?));
    }
    let margin = |time: i64| clock_margin(history, time);
    let (since, until) = (run_time(since), run_time(until));
    Some((since.saturating_add(margin(since)), until.saturating_sub(margin(until))))
}

/// How long a client was asked to keep up a fault, in nanoseconds.
fn asked_length(history: &History, window: &FaultWindow) -> Option<u64> {
    let ttl = Duration::from_millis(history.run.as_ref()?.ttl_ms);
    match window.what.parse::<Fault>().ok()?.with {
        Argument::For(length) => u64::try_from(length.resolve(ttl).as_nanos()).ok(),
        _ => None,
    }
}

fn outages<'h>(history: &'h History, window: &'h FaultWindow) -> Vec<Outage<'h>> {
    let Some(span) = certain_span(history, window) else { return Vec::new() };
    let of_targets = |lets: Lets| -> Vec<Outage<'h>> {
        let outage = |target: &'h String| Outage {
            window,
            target,
            cut_from: None,
            lets,
            span: until_another(history, window, target, span),
        };
        window.targets.iter().map(outage).collect()
    };
    // A client whose request or reply is lost gets no answer, so each link counts for both ends.
    let across = |lets: &dyn Fn(i64) -> Lets| -> Vec<Outage<'h>> {
        let links: BTreeSet<&'h (String, String)> = window.links.iter().flatten().collect();
        let ends: BTreeSet<(&'h String, &'h String)> =
            links.iter().flat_map(|(one, other)| [(one, other), (other, one)]).collect();
        let outage = |(from, to): (&'h String, &'h String)| {
            let ways = links.iter().filter(|(one, other)| (one, other) == (from, to) || (one, other) == (to, from));
            let lets = lets(ways.count() as i64);
            Outage { window, target: from, cut_from: Some(to.clone()), lets, span }
        };
        ends.into_iter().map(outage).collect()
    };
    match window.kind.does.rules_out {
        RulesOut::Acts | RulesOut::Answers => of_targets(Lets::Nothing),
        RulesOut::Writes => of_targets(Lets::Reads),
        RulesOut::AnswersAcross => across(&|_| Lets::Nothing),
        RulesOut::SoonAnswersAcross => match window.delay_ns {
            Some(late) => across(&|ways| Lets::Later(run_time(late).saturating_mul(ways).saturating_sub(DELAY_STEP))),
            None => Vec::new(),
        },
        RulesOut::AnswersToCommands => match (window.on_call, &window.on_each) {
            (Some(effect), Some(Command::Any)) if keeps_answers(effect) || effect == CallEffect::Refuse => {
                across(&|_| Lets::Nothing)
            }
            (Some(effect), Some(Command::Write)) if keeps_answers(effect) => across(&|_| Lets::Reads),
            _ => Vec::new(),
        },
        RulesOut::OldValues | RulesOut::Nothing(_) => Vec::new(),
    }
}

/// True if a command with this effect gets no answer. A write in a transaction passes a refusal of writes; a refusal of any command
/// refuses the MULTI.
fn keeps_answers(effect: CallEffect) -> bool {
    effect == CallEffect::HoldRequest || effect.waits_for_the_reply()
}

/// The part of an outage that is certain although other faults stop or end the same member. A fault that begins later may end this
/// outage at its beginning: a killed member starts anew. A fault that began earlier may end it by its heal. A pause never starts
/// a process that has ended, and a member stays stopped while another pause of the same kind hits it.
fn until_another(history: &History, window: &FaultWindow, target: &str, (since, until): TimeSpan) -> TimeSpan {
    let starts_anew = |kind: FaultKind| kind.ends_processes() || kind.does.restarts;
    let known_since = window.injected.map_or(u64::MAX, |(answered, _)| answered);
    let leaves_it = |other: &FaultWindow| match starts_anew(window.kind) {
        _ if other.left_to_another(target) => true,
        true => !starts_anew(other.kind),
        false => other.kind == window.kind && other.ordered_span().1.is_none_or(|heal| heal > known_since),
    };
    let others = history.faults.iter().filter(|other| {
        let is_here = other.targets.iter().any(|name| name == target);
        let is_over = other.span().1.is_some_and(|healed| healed < window.inject);
        let may_end_it = (other.kind.halts() || other.kind.does.restarts) && !leaves_it(other);
        other.fault != window.fault && may_end_it && is_here && !is_over
    });
    // Of two faults that begin at the same time, the second one counts as later.
    let is_later = |other: &FaultWindow| (other.inject, other.fault) > (window.inject, window.fault);
    let ends = others.filter_map(|other| if is_later(other) { Some(other.inject) } else { other.ordered_span().1 });
    let ends = ends.map(run_time).map(|time| time.saturating_sub(clock_margin(history, time)));
    (since, ends.fold(until, i64::min))
}

/// An act of a client while it was stopped, or after its process was killed.
fn acted(history: &History, outage: &Outage, words: Words) -> Option<String> {
    let Outage { window, target, span: (since, until), .. } = outage;
    if window.kind.does.rules_out != RulesOut::Acts {
        return None;
    }
    let its = |operation: &&Operation| words.process(operation.process) == *target;
    let mut operations: Vec<&Operation> = history.operations.iter().filter(its).collect();
    let mut until = *until;
    if window.kind.ends_processes() {
        // The client goes on as another process; the killed process never does.
        let there = there_before(history, window.inject);
        operations.retain(|operation| there.contains(&operation.process));
        until = i64::MAX;
    }
    let within = |time: i64| *since < time && time < until;
    let told = |did: String| Some(format!("{}, but {target} {did}", reported(window, target)));
    let begun = || operations.iter().filter(|operation| within(run_time(operation.invoked)));
    let finished = begun().find_map(|operation| {
        let completed = operation.completed.filter(|_| operation.outcome != Outcome::Info)?;
        Some((operation.invoked, completed)).filter(|(_, completed)| within(run_time(*completed)))
    });
    if let Some((from, to)) = finished {
        let (from, to) = (seconds(from), seconds(to));
        return told(format!("began and finished an operation in that time, from {from} to {to}"));
    }
    let said = |stamp: &PhaseStamp| within(stamp.stamped.unwrap_or(run_time(stamp.received)));
    let stamped = operations.iter().find_map(|operation| {
        let begun = within(run_time(operation.invoked));
        operation.phases.iter().filter(|stamp| stamp.stamped.is_some() || begun).find(said)
    });
    let stamp = stamped?;
    let at = stamp.stamped.map_or(stamp.received, |stamped| u64::try_from(stamped).unwrap_or(0));
    told(format!("reported `{}` at {} in that time", stamp.phase.word(), seconds(at)))
}

/// The processes that certainly existed before this time.
fn there_before(history: &History, time: u64) -> HashSet<Process> {
    let began = history.operations.iter().filter(|operation| operation.invoked < time);
    let ready = history.clients.iter().filter(|(at, _)| *at < time).map(|(_, event)| Process::Client(event.process));
    began.map(|operation| operation.process).chain(ready).collect()
}

/// A client reads a value from before the fault, though all servers of the data lost it.
fn old_value(history: &History, window: &FaultWindow, words: Words) -> Option<String> {
    history.run.as_ref().filter(|run| run.resource == ResourceKind::Replicated)?;
    let all = nodes(history).iter().all(|node| window.targets.contains(node));
    let (since, _) = window.certain_span().filter(|_| all && window.kind.does.rules_out == RulesOut::OldValues)?;
    let there = |value: &str, key: &str| {
        let wrote = |one: &&Operation| one.key == key && one.new.as_deref() == Some(value) && one.f.writes();
        let mut writes = history.operations.iter().filter(wrote);
        let over =
            |one: &Operation| one.outcome == Outcome::Ok && one.completed.is_some_and(|over| over < window.inject);
        // If another operation writes the same value, the value may have come from it.
        writes.next().is_some_and(over) && writes.next().is_none()
    };
    history.operations.iter().find_map(|one| {
        let Reading::Value(value) = &one.old else { return None };
        let asked = asked_for(one).filter(|asked| *asked > since)?;
        there(value, &one.key).then(|| {
            let (client, at) = (words.process(one.process), seconds(asked));
            let whom = base::words::list(&window.targets);
            let (fault, flushed) = (window.fault, seconds(since));
            format!(
                "fault {fault} ({} {whom}) was reported as done by {flushed}, but {client} still read {value} after {at}",
                window.kind.says.verb
            )
        })
    })
}

/// When a client asked for the value that it read, at the earliest. If a resource compared and set it, the client read it again.
fn asked_for(operation: &Operation) -> Option<u64> {
    if operation.f == Function::Cas && operation.outcome == Outcome::Ok {
        return Some(operation.phase(Phase::BeforeWrite).map_or(operation.invoked, PhaseStamp::time));
    }
    let read = operation.phases.iter().position(|stamp| stamp.phase == Phase::Read);
    let before = read.and_then(|read| operation.phases.before(read).last()).map(PhaseStamp::time);
    (read.is_some() || operation.outcome == Outcome::Ok).then_some(before.unwrap_or(operation.invoked))
}

/// An answer that must have come from servers that could not answer. Where nodes answer, it came from one of these; true if they are
/// all primaries of a group.
fn served(
    history: &History,
    outages: &[Outage],
    answer: &Answered,
    (nodes, are_primaries): (&[String], bool),
) -> Option<String> {
    let header = history.run.as_ref()?;
    let covers = |outage: &&Outage| {
        let comes = match outage.lets {
            Lets::Nothing => false,
            Lets::Reads => answer.did == READ,
            Lets::Later(least) => answer.span.1.saturating_sub(answer.span.0) >= least,
        };
        !comes && outage.span.0 < answer.span.0 && answer.span.1 < outage.span.1 && !let_go(history, outage, answer)
    };
    let unreachable = |is_it: &dyn Fn(&str) -> bool| {
        let mut during = outages.iter().filter(covers).filter(|outage| is_it(outage.target));
        during.find(|outage| outage.cut_from.as_ref().is_none_or(|from| *from == answer.client))
    };
    let outage = match answer.by {
        By::Resource if !matches!(header.resource, ResourceKind::Replicated | ResourceKind::Row) => {
            unreachable(&|target| Role::of(target) == Some(Role::Resource))
        }
        _ => {
            let nodes = nodes.iter().map(|node| unreachable(&|target| target == node));
            nodes.collect::<Option<Vec<_>>>()?.into_iter().next()
        }
    }?;
    let others = match answer.by {
        By::ANode if are_primaries => ", when no primary could answer it",
        By::ANode if header.nodes > 1 => ", when no node could answer it",
        _ => "",
    };
    let did = match answer.by {
        By::Resource if answer.did == WROTE => format!("{} acknowledged a write of {}", outage.target, answer.client),
        _ => format!("{} {}", answer.client, answer.did),
    };
    Some(format!(
        "{}, but {did} in that time, from {} to {}{others}",
        reported(outage.window, outage.target),
        seconds(u64::try_from(answer.span.0).unwrap_or(0)),
        seconds(u64::try_from(answer.span.1).unwrap_or(0)),
    ))
}

fn nodes(history: &History) -> Vec<String> {
    (0..history.run.as_ref().map_or(0, |run| run.nodes)).map(node_name).collect()
}

/// The primaries of a group in which no replica was ever promoted. None if there was a promotion, or no group.
fn only_primaries(history: &History) -> Option<Vec<String>> {
    match Needed::new(history, "", 0) {
        Needed::OneOf(primaries) if history.promotions.is_empty() => {
            Some(primaries.into_iter().map(str::to_string).collect())
        }
        _ => None,
    }
}

/// True if another fault on the same link may have been healed meanwhile. Packets that wait on the link then go on at once.
fn let_go(history: &History, outage: &Outage, answer: &Answered) -> bool {
    let Lets::Later(_) = outage.lets else { return false };
    let joins = |(from, to): &(String, String)| {
        let is_end = |name: &String| name == outage.target || Some(name) == outage.cut_from.as_ref();
        is_end(from) && is_end(to)
    };
    let early = |time: i64| time.saturating_sub(clock_margin(history, time));
    let late = |time: i64| time.saturating_add(clock_margin(history, time));
    history.faults.iter().any(|other| {
        let (ordered, healed) = (other.heal, other.healed.map(|(healed, _)| healed));
        other.fault != outage.window.fault
            && other.kind.is_of_the_network()
            && other.links.as_ref().is_none_or(|links| links.iter().any(joins))
            && ordered.or(healed).is_some_and(|time| early(run_time(time)) <= answer.span.1)
            && healed.is_none_or(|time| late(run_time(time)) >= answer.span.0)
    })
}

/// A partition with unknown sides that cut off no client. Each client that it names, or every client if it names none, acquired a
/// lock from the only node. If it names no node, each of them must also have reached the resource.
fn nobody_was_cut_off(history: &History, window: &FaultWindow, answers: &[Answered]) -> Option<String> {
    let header =
        history.run.as_ref().filter(|run| run.nodes == 1 && window.kind.does.rules_out == RulesOut::AnswersAcross)?;
    let span = certain_span(history, window).filter(|_| window.links.is_none())?;
    let names = |role: Role| window.targets.iter().filter(move |target| Role::of(target) == Some(role)).cloned();
    let mut clients: Vec<String> = names(Role::Client).collect();
    if clients.is_empty() {
        clients = (0..header.clients).map(client_name).collect();
    }
    let reached = |client: &String, by: By| {
        let mut its = answers.iter().filter(|answer| answer.by == by && answer.client == *client);
        its.any(|answer| span.0 < answer.span.0 && answer.span.1 < span.1)
    };
    let named = names(Role::Node).next().is_some();
    let all = clients.iter().all(|client| reached(client, By::ANode) && (named || reached(client, By::Resource)));
    let whom = base::words::list(&window.targets);
    all.then(|| format!("{}, but each client reached the node in that time", reported(window, &whom)))
}

const READ: &str = "read the resource";
const WROTE: &str = "wrote the resource";

/// The answers without which an operation could not have come so far.
fn answers(operation: &Operation, words: Words) -> Vec<Answered> {
    let client = words.process(operation.process);
    let answer = |by: By, did: &'static str, span: TimeSpan| Answered { client: client.clone(), by, did, span };
    let mut found = Vec::new();
    let mut between = |by: By, did: &'static str, from: Phase, to: Phase| {
        let mut stamps = operation.phases.iter().enumerate();
        let Some((place, stamp)) = stamps.find(|(_, stamp)| stamp.phase == to) else { return };
        // A client that waits at a breakpoint, or asks again, reports a phase more than once.
        let began = operation.phases.before(place).filter(|stamp| stamp.phase == from).last();
        let began = began.and_then(|stamp| stamp.stamped).unwrap_or(run_time(operation.invoked));
        found.push(answer(by, did, (began, stamp.stamped.unwrap_or(run_time(stamp.received)))));
    };
    if operation.f.is_locked() {
        between(By::ANode, "acquired a lock", Phase::Acquiring, Phase::Acquired);
    }
    between(By::Resource, READ, Phase::Acquired, Phase::Read);
    between(By::Resource, WROTE, Phase::BeforeWrite, Phase::Written);
    if let Some(completed) = operation.completed.filter(|_| operation.outcome == Outcome::Ok) {
        let whole = (run_time(operation.invoked), run_time(completed));
        if operation.f.is_locked() {
            found.push(answer(By::ANode, "acquired a lock", whole));
        }
        match operation.f {
            Function::Hold => {}
            Function::Read | Function::Shared => found.push(answer(By::Resource, READ, whole)),
            Function::Rmw | Function::Write | Function::Cas => found.push(answer(By::Resource, WROTE, whole)),
        }
    }
    found
}

fn reported(window: &FaultWindow, target: &str) -> String {
    let (since, until) = window.certain_span().unwrap_or((window.inject, u64::MAX));
    let until = if until == u64::MAX { "the end".to_string() } else { seconds(until) };
    let what = window.kind.says.verb;
    format!("fault {} ({what} {target}) was reported as active from {} to {until}", window.fault, seconds(since))
}

fn run_time(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
