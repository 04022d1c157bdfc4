//! Describes an incident in a few sentences. Values are in backticks.
//!
//! Each sentence is a [`Sentence`] with the lines of the history that it follows from. Nothing is said that no line shows. If
//! the operations themselves are missing, the checker's own summary is used.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::ends::unnamed_losses;
use super::story::{Incident, Story, fault_label};
use super::times;
use base::words::{capital, count, length, line, list, moment, plural, quoted, sanitize};
use checker::properties::Lines;
use checker::{Anomaly, AnomalyKind, HowKind, Sentence, Validity, covered};
use model::fault_kinds::{OnPackets, OnProcess};
use model::history::{FactName, FaultWindow, Operation, Outcome, Phase, Reading, ResourceKind};

/// At most this many operations are described and drawn one by one; others are only counted. Two or three suffice to understand
/// the incident.
const MOST_PRINCIPALS: usize = 3;
/// The limit if all operations held the lock at once.
const MOST_DRAWN: usize = 6;
/// At most this many values and summaries are listed; others are only counted.
const LISTED: usize = 4;

/// A wait at a breakpoint is mentioned if it is longer than this, in nanoseconds.
const KEPT_NS: u64 = 20_000_000;

/// A part of a sentence, with the lines that it follows from.
struct Clause {
    text: String,
    lines: Vec<u64>,
}

/// Describes an incident, in the order of events.
pub(super) fn narrate(story: &Story, incident: &Incident, steps: Vec<Step>) -> Vec<Sentence> {
    if story.permits() > 1 {
        return too_many(story, incident);
    }
    let steps = || steps.iter().map(|step| (step.time, step.sentence.clone()));
    let Some(mut holders) = Holders::of(story, incident) else {
        return steps().map(|(_, sentence)| sentence).chain(by_checker(story, incident)).collect();
    };
    holders.steps.extend(steps());
    let sentences = [holders.opening(), holders.others(), holders.ending()];
    // The library's own reports during the incident.
    let of_words = incident.anomalies.iter().filter(|anomaly| anomaly.kind.property().is_conditional());
    let said =
        of_words.take(LISTED).filter_map(|anomaly| Sentence::new(in_full(&anomaly.summary), lines(story, anomaly)));
    sentences.into_iter().flatten().flatten().chain(said).collect()
}

/// A command at a node that a diagnosis names.
pub(super) struct Step {
    pub time: u64,
    pub sentence: Sentence,
}

type TimedAct<'a> = (u64, Act, &'a Operation);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Took,
    Wrote,
}

/// An incident of several holders: the first one, and those that held the lock meanwhile.
struct Holders<'s, 'a> {
    story: &'s Story<'a>,
    incident: &'s Incident<'a>,
    first: &'a Operation,
    second: &'a Operation,
    /// The holders that are described one by one, including the first.
    principals: Vec<&'a Operation>,
    /// When the first holder sent its write.
    first_write: Option<u64>,
    /// The commands at the nodes that changed the lock, in the order of time.
    steps: BTreeMap<u64, Sentence>,
}

impl<'s, 'a> Holders<'s, 'a> {
    /// None if the incident is of another kind, or if it is unknown which client held the lock.
    fn of(story: &'s Story<'a>, incident: &'s Incident<'a>) -> Option<Holders<'s, 'a>> {
        let [first, second, ..] = incident.operations[..] else { return None };
        let of_holders = incident.has(AnomalyKind::LostUpdate) || incident.has(AnomalyKind::OverlappingHolders);
        let is_told = of_holders && times::hold(first).is_some();
        is_told.then(|| {
            let first_write = times::write(first).map(|write| write.sent);
            Holders {
                story,
                incident,
                first,
                second,
                principals: principals(incident),
                first_write,
                steps: BTreeMap::new(),
            }
        })
    }

    /// The first holder, the fault that hit it, and its writes while no other client held the lock.
    fn opening(&mut self) -> Vec<Option<Sentence>> {
        let (story, first) = (self.story, self.first);
        let is_kept = self.incident.how().is_some_and(|how| how.kind == HowKind::Breakpoint);
        let took = sentence(story, first, took_the_lock(story, first, None));
        let went_wrong = what_went_wrong(story, self.incident, first, self.second);
        let mut told = match self.was_struck_before() {
            true => vec![went_wrong, took],
            false if is_kept => vec![took, self.how(true), went_wrong],
            false => vec![took, went_wrong],
        };
        told.extend((is_kept && self.was_struck_before()).then(|| self.how(true)));
        told.push(meanwhile(story, first, self.incident.fault));
        told.extend((!is_kept).then(|| self.how(true)));
        if let Some(wrote) = self.first_write.filter(|_| self.wrote_before()) {
            told.extend(self.steps_before(wrote));
            told.push(wrote_at(story, self.incident, first, first));
        }
        told
    }

    /// True if the fault was active before the first holder had the lock, and the fault's sentence does not mention that
    /// holder.
    fn was_struck_before(&self) -> bool {
        let taken = times::at(self.first, Phase::Acquired);
        let name = self.story.name(self.first.process);
        let is_early = |fault: &&FaultWindow| {
            taken.is_some_and(|taken| fault.span().0 < taken) && !fault.targets.contains(&name) && fault.was_observed()
        };
        self.incident.fault.filter(is_early).is_some() && ran_out(self.story, self.first, self.second).is_none()
    }

    /// The commands at the nodes before this time that are not yet described.
    fn steps_before(&mut self, time: u64) -> Vec<Option<Sentence>> {
        let later = self.steps.split_off(&time);
        std::mem::replace(&mut self.steps, later).into_values().map(Some).collect()
    }

    /// The mechanism. With `early`, only if it belongs before the others acquired the lock; otherwise only if it belongs after.
    fn how(&self, early: bool) -> Option<Sentence> {
        let is_early = |kind| !matches!(kind, HowKind::Extended | HowKind::Stolen | HowKind::Expired);
        self.incident.how().filter(|how| is_early(how.kind) == early).map(|how| how.sentence.clone())
    }

    /// True if the first holder wrote before the second one had the lock.
    fn wrote_before(&self) -> bool {
        let taken = times::at(self.second, Phase::Acquired);
        self.first_write.zip(taken).is_some_and(|(wrote, taken)| wrote < taken)
    }

    /// True if an operation wrote after the first holder, so that its write is described later.
    fn wrote_later(&self, operation: &Operation) -> bool {
        times::write(operation).zip(self.first_write).is_some_and(|(write, first)| write.sent > first)
    }

    /// The acts of the others, and the first holder's writes after one of them had the lock, in the order of time. Then the
    /// number of acts left out.
    fn others(&mut self) -> Vec<Option<Sentence>> {
        let (story, mut told) = (self.story, Vec::new());
        let acts = self.acts();
        let mut acts = acts.iter().peekable();
        while let Some((time, act, operation)) = acts.next() {
            told.extend(self.steps_before(*time));
            if *act == Act::Wrote {
                told.push(wrote_at(story, self.incident, self.first, operation));
                continue;
            }
            let mut clauses = took_the_lock(story, operation, Some(self.first));
            let at_once = |next: &&TimedAct| next.1 == Act::Wrote && next.2.index == operation.index;
            if !self.wrote_later(operation) && acts.next_if(at_once).is_some() {
                clauses.extend(wrote(story, operation));
            }
            told.push(sentence(story, operation, clauses));
            told.push(too_early(story, operation, self.first));
        }
        told.extend(self.steps_before(u64::MAX));
        let is_told = |one: &Operation| self.principals.iter().any(|known| known.index == one.index);
        let untold = self.incident.operations.iter().filter(|one| !is_told(one));
        let untold: Vec<u64> = untold.map(|operation| operation.index).collect();
        let verb = if untold.len() == 1 { "operation took" } else { "operations took" };
        told.push(Sentence::new(format!("{} more {verb} part.", count(untold.len() as u64)), untold));
        told
    }

    /// The times at which each of the others acquired the lock and wrote, and at which the first holder wrote, unless already
    /// described.
    fn acts(&self) -> Vec<TimedAct<'a>> {
        let mut acts: Vec<TimedAct> = Vec::new();
        for operation in &self.principals {
            let is_first = operation.index == self.first.index;
            if !is_first {
                let taken = times::at(operation, Phase::Acquired).unwrap_or(operation.invoked);
                acts.push((taken, Act::Took, operation));
            }
            let write = times::write(operation).filter(|_| !(is_first && self.wrote_before()));
            acts.extend(write.map(|write| (write.sent, Act::Wrote, *operation)));
        }
        acts.sort_by_key(|(time, act, operation)| (*time, *act, operation.index));
        acts
    }

    /// How long several clients held the lock, and the damage.
    fn ending(&self) -> Vec<Option<Sentence>> {
        vec![both_held(self.story, self.incident), self.how(false), consequence(self.story, self.incident)]
    }
}

/// Describes an incident of a lock with several permits: the first holder, its fault, and the time of too many holders.
fn too_many(story: &Story, incident: &Incident) -> Vec<Sentence> {
    let of_holders = incident.has(AnomalyKind::OverlappingHolders);
    let opening = match incident.operations[..] {
        [first, second, ..] if of_holders && (incident.fault.is_some() || incident.how().is_some()) => vec![
            sentence(story, first, took_the_lock(story, first, None)),
            what_went_wrong(story, incident, first, second),
        ],
        _ => Vec::new(),
    };
    opening.into_iter().flatten().chain(by_checker(story, incident)).collect()
}

/// The time and the value of an operation's write.
fn wrote_at(story: &Story, incident: &Incident, first: &Operation, operation: &Operation) -> Option<Sentence> {
    let (write, wrote) = (times::write(operation)?, wrote(story, operation)?);
    let name = story.name(operation.process);
    let back = if operation.index == first.index { resumed_unaware(story, incident, first, write.sent) } else { "" };
    let is_told =
        incident.fault_hits(story, operation) || incident.how().is_some_and(|how| how.kind == HowKind::Breakpoint);
    let kept = kept_before_its_write(story, operation).filter(|_| !is_told);
    let by_script =
        kept.map_or_else(String::new, |(since, _)| format!(", kept at work by the script since {},", moment(since)));
    let text = format!("At {} {name}{by_script} {back}{}.", moment(write.sent), wrote.text);
    Sentence::new(text, wrote.lines.into_iter().chain(kept.map(|(_, line)| line)))
}

/// The time from which the script held an operation back before its write, and the line with that time. None if the wait was
/// too short to mention.
fn kept_before_its_write(story: &Story, operation: &Operation) -> Option<(u64, u64)> {
    let reached = operation.phase(Phase::BeforeWrite)?;
    let resumed_at = story.subject.history.resumed_at(&story.name(operation.process), reached)?;
    let wrote = times::write(operation)?.sent;
    (resumed_at <= wrote && resumed_at.saturating_sub(reached.time()) >= KEPT_NS)
        .then(|| (reached.time(), reached.index))
}

/// The checker's own summaries, for incidents that are not about two holders.
fn by_checker(story: &Story, incident: &Incident) -> Vec<Sentence> {
    let summary = |anomaly: &&Anomaly| Sentence::new(in_full(&anomaly.summary), lines(story, anomaly));
    let mut told: Vec<Sentence> = incident.anomalies.iter().take(LISTED).filter_map(summary).collect();
    told.dedup_by(|one, other| one.text() == other.text());
    told.extend(incident.how().map(|how| how.sentence.clone()));
    told
}

/// The lines of the history that an anomaly's summary follows from.
fn lines(story: &Story, anomaly: &Anomaly) -> Vec<u64> {
    let history = story.subject.history;
    let operations = anomaly.operations.iter().chain(&anomaly.lost).filter_map(|index| story.operation(*index));
    match anomaly.kind.def().lines {
        Lines::Operations => operations.flat_map(all_lines).collect(),
        Lines::Grants => operations.flat_map(asked_and_got).collect(),
        Lines::Answers => answer_lines(story, anomaly),
        Lines::LeftBehind => {
            let is_of_it = |name| matches!(name, FactName::NothingEndless | FactName::NothingTooLong);
            let facts = history.facts.iter().zip(&history.fact_lines);
            facts.filter(|(fact, _)| is_of_it(fact.name) && !fact.holds).map(|(_, line)| *line).collect()
        }
        Lines::Attempts => {
            let is_under_way = |one: &&Operation| {
                one.key == anomaly.key
                    && one.invoked <= anomaly.time
                    && one.completed.is_none_or(|completed| completed >= anomaly.time)
            };
            history.operations.iter().filter(is_under_way).map(|operation| operation.index).collect()
        }
    }
}

/// The lines in which an operation asks for its lock and acquires it.
fn asked_and_got(operation: &Operation) -> Vec<u64> {
    let stamps = operation.phases.iter().filter(|stamp| matches!(stamp.phase, Phase::Acquiring | Phase::Acquired));
    stamps.map(|stamp| stamp.index).collect()
}

/// All lines of an operation: a summary may refer to any of them.
fn all_lines(operation: &Operation) -> Vec<u64> {
    let stamps = operation.phases.iter().map(|stamp| stamp.index);
    [operation.index].into_iter().chain(stamps).chain(operation.completed_index).collect()
}

/// A summary of the checker as a sentence.
fn in_full(summary: &str) -> String {
    begun(&format!("{}.", line(summary, 400).trim_end_matches('.')))
}

/// The lines of a library's reports about a lock, and of the lock's holders.
fn answer_lines(story: &Story, anomaly: &Anomaly) -> Vec<u64> {
    let operations = anomaly.operations.iter().filter_map(|index| story.operation(*index));
    let stamps = operations.flat_map(|one| one.phases.iter().map(|stamp| (one.index, stamp)));
    let matters = stamps.filter(|(of, stamp)| {
        let own = anomaly.operations.first() == Some(of);
        matches!(stamp.phase, Phase::Acquired | Phase::Extended | Phase::Lost)
            || own && matches!(stamp.phase, Phase::Releasing | Phase::Released)
            || own && stamp.phase == Phase::Owned && stamp.time() == anomaly.time
    });
    matters.map(|(_, stamp)| stamp.index).collect()
}

/// An operation's acts, as a sentence about its client.
fn sentence(story: &Story, operation: &Operation, clauses: Vec<Clause>) -> Option<Sentence> {
    let texts: Vec<String> = clauses.iter().map(|clause| clause.text.clone()).collect();
    let text = format!("{} {}.", story.name(operation.process), list(&texts));
    Sentence::new(text, clauses.into_iter().flat_map(|clause| clause.lines))
}

/// The operations of an incident to describe and draw one by one: the first one, then the most important ones, few enough to
/// follow.
pub fn principals<'a>(incident: &Incident<'a>) -> Vec<&'a Operation> {
    let mut principals: Vec<&Operation> = Vec::new();
    // One holder too many is visible only beside all the others.
    let most = incident.overlaps().iter().map(Vec::len).max().unwrap_or_default().clamp(MOST_PRINCIPALS, MOST_DRAWN);
    let accused = incident.anomalies.iter().flat_map(|anomaly| &anomaly.operations);
    let first = incident.operations.first().map(|operation| operation.index);
    let culprit = incident.culprit().map(|operation| operation.index);
    let indices = first.into_iter().chain(culprit).chain(accused.copied()).chain(incident.lost.iter().copied());
    for index in indices {
        // An incident may have as many operations as the run.
        if principals.len() == most {
            break;
        }
        let known = incident.operations.iter().find(|operation| operation.index == index);
        if let Some(operation) = known
            && !principals.iter().any(|one| one.index == index)
        {
            principals.push(operation);
        }
    }
    principals.sort_by_key(|operation| incident.operations.iter().position(|one| one.index == operation.index));
    principals
}

/// An operation's acts up to its write, as clauses that follow its client's name.
fn took_the_lock(story: &Story, operation: &Operation, earlier: Option<&Operation>) -> Vec<Clause> {
    let Some(acquired) = operation.phase(Phase::Acquired) else {
        let text = format!("began its operation at {}", moment(operation.invoked));
        return vec![Clause { text, lines: vec![operation.index] }];
    };
    let mut details: Vec<String> = acquired.token.map(|token| format!("token {token}")).into_iter().collect();
    if earlier.is_none() {
        let good = acquired.validity_ms.map(|ms| length(ms.saturating_mul(1_000_000)));
        details.extend(good.map(|good| match story.ttl_ns() {
            Some(ttl) if length(ttl) != good => format!("valid for {good}, TTL {}", length(ttl)),
            _ => format!("valid for {good}"),
        }));
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let how = if operation.f.is_shared() { " for reading" } else { "" };
    let text = format!("acquired the lock{how} at {}{details}", moment(acquired.time()));
    let mut clauses = vec![Clause { text, lines: vec![acquired.index] }];
    let too = if earlier.is_some_and(|earlier| earlier.old == operation.old) { " too" } else { "" };
    let read = match &operation.old {
        Reading::Unknown => return clauses,
        Reading::Empty => format!("found the key empty{too}"),
        Reading::Value(value) => format!("read {}{too}", with_count(story, operation, 0, value)),
    };
    let lines = operation.phase(Phase::Read).map(|stamp| stamp.index).into_iter().chain(operation.completed_index);
    clauses.push(Clause { text: read, lines: lines.collect() });
    clauses
}

/// A value. For a counter or a list, its number or length comes first: what the operation read, plus `more`.
fn with_count(story: &Story, operation: &Operation, more: u64, value: &str) -> String {
    let amount = operation.amount.as_ref().map(|amount| amount.count().saturating_add(more));
    match (amount, story.resource()) {
        (Some(number), Some(ResourceKind::Counter)) => format!("{} ({})", count(number), quoted(value)),
        (Some(length), Some(ResourceKind::List)) => format!("{} up to {}", plural(length, "element"), quoted(value)),
        _ => quoted(value),
    }
}

/// Says that a client acquired the lock while an earlier holder still held it, by that holder's own count.
fn too_early(story: &Story, operation: &Operation, earlier: &Operation) -> Option<Sentence> {
    let acquired = operation.phase(Phase::Acquired)?;
    let taken = acquired.time();
    let (expiry, told) = times::expiry_at(story.subject.history, earlier, taken)?;
    let left = expiry.checked_sub(taken).filter(|left| *left > 0)?;
    let still_held = times::hold(earlier).is_some_and(|hold| hold.start < taken && taken < hold.end);
    let text =
        format!("By its own clock {} still held the lock for another {}.", story.name(earlier.process), length(left));
    still_held.then(|| Sentence::new(text, [told.index, acquired.index])).flatten()
}

/// When the first holder's lock expired. None if it no longer held the lock then, or if another client already did.
fn ran_out(story: &Story, first: &Operation, second: &Operation) -> Option<(u64, u64)> {
    let taken = times::at(second, Phase::Acquired);
    let hold = times::hold(first)?;
    let (expiry, line) = story.expiry_at(first, taken.unwrap_or(hold.end))?;
    let in_time = expiry < hold.end && taken.is_none_or(|taken| expiry <= taken);
    in_time.then_some((expiry, line))
}

/// The fault, and the time at which the first holder's lock expired.
fn what_went_wrong(story: &Story, incident: &Incident, first: &Operation, second: &Operation) -> Option<Sentence> {
    let ran_out = ran_out(story, first, second);
    let line = ran_out.map(|(_, line)| line);
    let name = story.name(first.process);
    let Some(fault) = incident.fault else {
        let text = format!("Its lock expired at {}, before its work was done.", moment(ran_out?.0));
        return Sentence::new(text, line);
    };
    let fault = &as_one_stop(story, fault, first, ran_out.map(|(time, _)| time));
    let (from, to) = fault.span();
    let is_it = incident.fault_hits(story, first) && fault.targets.len() == 1;
    let kept = ran_out.filter(|_| is_it).and_then(|(time, _)| story.subject.history.breakpoint_at(first, time));
    let by_script = kept.map_or_else(String::new, |kept| {
        format!(" while the script kept it at `{}` until {}", kept.reached.phase.word(), moment(kept.resumed))
    });
    let then = match ran_out {
        Some((time, _)) if is_it && time >= from && to.is_none_or(|to| time <= to) => {
            format!(", and its lock expired at {} meanwhile", moment(time))
        }
        Some((time, _)) if time >= from => format!("; {name}'s lock expired at {}", moment(time)),
        _ => String::new(),
    };
    let lines = fault.lines.iter().copied().chain(line.filter(|_| !then.is_empty()));
    let lines = lines.chain(kept.into_iter().flat_map(|kept| [kept.reached.index, kept.repeated.index]));
    Sentence::new(format!("{}{by_script}{then}.", struck(story, fault, is_it)), lines)
}

/// The fault as the first holder met it: stops of its client without a gap between them are one stop.
fn as_one_stop<'a>(
    story: &Story<'a>,
    fault: &'a FaultWindow,
    first: &Operation,
    ran_out: Option<u64>,
) -> Cow<'a, FaultWindow> {
    let stops = story.subject.history.stops_at(first, ran_out.unwrap_or(fault.inject));
    if stops.len() < 2 || stops.iter().all(|one| one.fault != fault.fault) {
        return Cow::Borrowed(fault);
    }
    let ends = stops.iter().map(|one| one.healed).collect::<Option<Vec<_>>>();
    Cow::Owned(FaultWindow {
        inject: stops[0].inject,
        healed: ends.and_then(|ends| ends.into_iter().max()),
        targets: vec![story.name(first.process)],
        lines: stops.iter().flat_map(|one| one.lines.iter().copied()).collect(),
        ..fault.clone()
    })
}

/// The effect of a fault, its target, its time and its duration.
fn struck(story: &Story, fault: &FaultWindow, is_it: bool) -> String {
    let how = fault.kind.says.how;
    let (from, to) = fault.span();
    // The command that it hit says more than the order.
    if let Some(struck) = fault.texts.first().filter(|_| fault.kind.is_at_command() && fault.was_observed()) {
        let struck = sanitize(struck, 200);
        let lasted = to.filter(|_| fault_label(fault).1).map(moment);
        let text = match (lasted, struck.strip_suffix("is held")) {
            (None, _) => struck,
            (Some(until), Some(before)) => format!("{before}was held until {until}"),
            (Some(until), None) => format!(
                "{} until {until}",
                struck.replace("nor is", "nor was").replace("as is everything", "as was everything")
            ),
        };
        return format!("At {} {text}", moment(from));
    }
    let is_on_links = fault.kind.is_of_the_network() && !fault.kind.is_at_command();
    let what = if is_on_links { on_links(fault) } else { on_members(fault, is_it) };
    let for_long = match to {
        // The fault happens at once and is never healed.
        _ if !fault.kind.says.lasts => String::new(),
        // A new process takes the place of a killed client at once.
        _ if fault.kills_clients() => String::new(),
        Some(to) => format!(" for {}", length(to.saturating_sub(from))),
        None => ", and never resumed".to_string(),
    };
    let unseen = if fault.was_observed() { "" } else { "; its effect was not observed" };
    // A simulation sends no signal, but the effect is the same.
    let how = if story.is_simulated() && how.starts_with("SIG") { format!("simulated {how}") } else { how.to_string() };
    let how = match fault.kind.does.process {
        OnProcess::Stops => how,
        _ if fault.what.is_empty() => how,
        _ => format!("{how}: `{}`", sanitize(&fault.what, 120)),
    };
    format!("{what} at {}{for_long} ({how}{unseen})", moment(from))
}

/// `It was paused`, `n0 and n1 were flushed`.
fn on_members(fault: &FaultWindow, is_it: bool) -> String {
    // Packet faults have a sentence of their own.
    let whom = if is_it { "It".to_string() } else { named(fault.targets.iter().map(String::as_str)) };
    let verb = if fault.targets.len() > 1 { "were" } else { "was" };
    format!("{} {verb} {}", begun(&whom), fault.kind.says.done)
}

/// `n0 was cut off from n1 and n2`, `Packets from c0 to the resource were delayed`: nothing happens to the members themselves.
fn on_links(fault: &FaultWindow) -> String {
    let cut = fault.kind.does.packets == OnPackets::Cut;
    // `packets were delayed`, on all links.
    let (what, done) = if cut {
        ("packets", "dropped")
    } else {
        fault.kind.says.node.split_once(" were ").unwrap_or(("packets", "disturbed"))
    };
    let what = capital(what);
    let links: BTreeSet<(&str, &str)> = fault.links.iter().flatten().map(|(from, to)| (&from[..], &to[..])).collect();
    let is_named = |name: &&str| links.iter().any(|(from, to)| from == name || to == name);
    let members: Vec<&str> = fault.targets.iter().map(String::as_str).filter(is_named).collect();
    let only = |pairs: usize, joins: &dyn Fn(&str, &str) -> bool| {
        links.len() == pairs && links.iter().all(|(from, to)| joins(from, to))
    };
    let (senders, others): (Vec<&str>, Vec<&str>) =
        members.iter().partition(|name| links.iter().any(|(from, _)| from == *name));
    if !others.is_empty()
        && only(senders.len() * others.len(), &|from, to| senders.contains(&from) && others.contains(&to))
    {
        return format!("{what} from {} to {} were {done}", named(senders), named(others));
    }
    let first = members.first().copied().unwrap_or_default();
    let (far, near): (Vec<&str>, Vec<&str>) = members.iter().partition(|name| links.contains(&(first, **name)));
    let crosses = |from: &str, to: &str| near.contains(&from) != near.contains(&to);
    if !far.is_empty() && only(2 * near.len() * far.len(), &crosses) {
        let verb = if near.len() == 1 { "was" } else { "were" };
        return match cut {
            true => begun(&format!("{} {verb} cut off from {}", named(near), named(far))),
            false => format!("{what} between {} and {} were {done}", named(near), named(far)),
        };
    }
    if members.len() > 2 && only(members.len() * (members.len() - 1), &|from, to| from != to) {
        return match cut {
            true => begun(&format!("{} were cut off from each other", named(members))),
            false => format!("{what} among {} were {done}", named(members)),
        };
    }
    let all = if members.is_empty() { named(fault.targets.iter().map(String::as_str)) } else { named(members) };
    format!("{what} on links among {all} were {done}")
}

/// Capitalizes the beginning of a sentence, except for names of members.
fn begun(text: &str) -> String {
    let is_a_member = |word: &str| word == "controller" || word.contains(|c: char| c.is_ascii_digit());
    if text.split(' ').next().is_some_and(is_a_member) { text.to_string() } else { capital(text) }
}

/// Members in a sentence: `c0 and the resource`.
fn named<'a>(members: impl IntoIterator<Item = &'a str>) -> String {
    let name = |member: &str| if member == "resource" { "the resource".to_string() } else { sanitize(member, 30) };
    list(&members.into_iter().map(name).collect::<Vec<_>>())
}

/// The other faults that were active while an operation held the lock.
fn meanwhile(story: &Story, operation: &Operation, told: Option<&FaultWindow>) -> Option<Sentence> {
    let end = operation.completed.unwrap_or(u64::MAX);
    let since = times::at(operation, Phase::Acquired).unwrap_or(operation.invoked);
    let others: Vec<&FaultWindow> = (story.subject.history.faults.iter())
        .filter(|fault| told.is_none_or(|told| fault.fault != told.fault))
        .filter(|fault| fault.was_observed() && !fault.what.is_empty())
        .filter(|fault| fault.inject <= end && fault.span().1.is_none_or(|to| to >= since))
        .collect();
    let mut names: Vec<String> = others.iter().map(|fault| ordered(fault)).collect();
    names.dedup();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let also = if told.is_some() { "Also in effect" } else { "In effect meanwhile" };
    let lines = others.iter().flat_map(|fault| fault.lines.iter().copied()).chain([operation.index]);
    (!others.is_empty()).then(|| Sentence::new(format!("{also}: {}{more}.", names.join(", ")), lines)).flatten()
}

/// The order of a fault, with its targets if the order names roles: `partition primary from replica`, of n0 and n1.
fn ordered(fault: &FaultWindow) -> String {
    let order = format!("`{}`", sanitize(&fault.what, 120));
    let by_name = fault.what.contains(|c: char| c.is_ascii_digit());
    match &fault.targets[..] {
        targets if by_name || targets.is_empty() || targets.len() > LISTED => order,
        targets => format!("{order} ({})", list(&targets.iter().map(|one| sanitize(one, 30)).collect::<Vec<_>>())),
    }
}

/// A clause if the fault hit the first holder, and the holder wrote later without a report that its lock was lost.
fn resumed_unaware(story: &Story, incident: &Incident, first: &Operation, sent: u64) -> &'static str {
    let taken = times::at(first, Phase::Acquired).unwrap_or(first.invoked);
    let stood = |fault: &FaultWindow| {
        let fault = as_one_stop(story, fault, first, None);
        fault.kind.does.process == OnProcess::Stops
            && fault.healed.is_some_and(|(time, _)| taken <= time && time <= sent)
    };
    let struck_before = incident.fault_hits(story, first) && incident.fault.is_some_and(stood);
    let told = first.phases.iter().any(|stamp| stamp.phase == Phase::Lost && stamp.time() <= sent);
    if struck_before && !told { "went on, believing that it still held the lock, and " } else { "" }
}

/// The result of an operation's write.
fn wrote(story: &Story, operation: &Operation) -> Option<Clause> {
    let write = times::write(operation)?;
    let written = |operation: &Operation| Some(with_count(story, operation, 1, operation.new.as_deref()?));
    let new = written(operation)?;
    let over = story.certainly_overwritten(operation);
    let (replaced, over) = match (over, &operation.old) {
        (Some(over), Reading::Value(old)) if over.new.as_ref() == Some(old) => (None, String::new()),
        (Some(over), _) => (Some(over), written(over).map_or(String::new(), |over| format!(" over {over}"))),
        (None, _) => (None, String::new()),
    };
    let error = operation.error().map(|word| format!(" ({})", sanitize(word, 30))).unwrap_or_default();
    let text = match operation.outcome {
        Outcome::Ok => format!("wrote {new}{over} (acknowledged)"),
        Outcome::Fail if was_refused(story, operation) => {
            format!("tried to write {new}, which the resource refused{error}")
        }
        Outcome::Fail => format!("failed to write {new}{error}"),
        Outcome::Info if write.acknowledged.is_some() => {
            format!("wrote {new}{over} and got no clear answer{error}")
        }
        Outcome::Info => format!("sent the write of {new} and got no clear answer{error}"),
    };
    let stamps = |operation: &Operation| -> Vec<u64> {
        let of_write = operation.phases.iter().filter(|one| matches!(one.phase, Phase::BeforeWrite | Phase::Written));
        of_write.map(|one| one.index).chain(operation.completed_index).chain([operation.index]).collect()
    };
    let lines = stamps(operation).into_iter().chain(replaced.map(stamps).into_iter().flatten()).collect();
    Some(Clause { text, lines })
}

/// True if the resource refused an operation's write because it came too late.
pub(super) fn was_refused(story: &Story, operation: &Operation) -> bool {
    operation.outcome == Outcome::Fail
        && story.refusal().is_some()
        && matches!(operation.error(), Some("fenced" | "conflict"))
}

/// With more clients than this, a sentence gives their number only.
const MOST_NAMED: usize = 4;

/// How long the incident's holders overlapped at least; common time counts once. Other holds of these clients may have overlapped,
/// too. Readers may hold a lock together.
fn both_held(story: &Story, incident: &Incident) -> Option<Sentence> {
    let pairs = incident.overlaps();
    // Includes pairs of other incidents: the sentence is about all clients of this one.
    if pairs.is_empty() {
        return None;
    }
    let holders: Vec<&Operation> =
        incident.operations.iter().copied().filter(|one| one.certain_hold().is_some()).collect();
    let excludes = |one: &Operation, other: &Operation| {
        !(one.f.is_shared() && other.f.is_shared()) && story.name(one.process) != story.name(other.process)
    };
    let of_all = holders.iter().enumerate().flat_map(|(place, one)| {
        let others = holders[place + 1..].iter().filter(|other| excludes(one, other));
        others.filter_map(|other| Some(([*one, *other], times::overlap(&[*one, *other])?)))
    });
    let (all_pairs, mut times): (Vec<[&Operation; 2]>, Vec<(u64, u64)>) = of_all.unzip();
    let mut names: Vec<String> = Vec::new();
    for name in all_pairs.iter().flatten().map(|operation| story.name(operation.process)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // Other clients may have held it too, such as a client whose release of an earlier lock removed the key.
    let who = if names.len() > MOST_NAMED { plural(names.len() as u64, "client") } else { list(&names) };
    let text = match times[..] {
        [] => return None,
        [(from, to)] => format!("For at least {} {who} both believed that they held the lock.", length(to - from)),
        _ => {
            times.sort_unstable();
            let sum = length(covered(times, 0, u64::MAX));
            match names.len() {
                2 => format!("For at least {sum} in total, {who} both believed that they held the lock."),
                _ => format!(
                    "For at least {sum} in total, two or more of {who} believed at the same time that they held the lock."
                ),
            }
        }
    };
    let ends = |operation: &Operation| -> Vec<u64> {
        let hold = |phase| !matches!(phase, Phase::Acquiring | Phase::HalfAcquired);
        operation.phases.iter().filter(|stamp| hold(stamp.phase)).map(|stamp| stamp.index).collect()
    };
    Sentence::new(text, pairs.into_iter().flatten().chain(all_pairs.into_iter().flatten()).flat_map(ends))
}

/// The damage to the data. None if the clients write no data, or if the damage is unknown.
fn consequence(story: &Story, incident: &Incident) -> Option<Sentence> {
    let of_all = || incident.operations.iter().flat_map(|one| all_lines(one));
    let in_flight = incident.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::WriteInFlight);
    if let Some(anomaly) = in_flight.filter(|_| !incident.has(AnomalyKind::LostUpdate)) {
        // The checker's last clause names the writer.
        let why = anomaly.summary.rsplit_once("; ").map_or(anomaly.summary.as_str(), |(_, why)| why);
        return Sentence::new(format!("The lock did not cause this loss: {why}."), of_all());
    }
    let stale = incident.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::StaleRead);
    if let Some(anomaly) = stale.filter(|_| incident.lost.is_empty()) {
        return Sentence::new(in_full(&anomaly.summary), of_all());
    }
    if incident.lost.is_empty() {
        return Sentence::new(nothing_lost(story, incident)?, of_all());
    }
    let lost: Vec<&Operation> = incident.lost.iter().filter_map(|index| story.operation(*index)).collect();
    Sentence::new(
        what_is_lost(story, incident.key, incident.lost.len(), &lost),
        lost.iter().flat_map(|one| all_lines(one)),
    )
}

/// Why an incident cost no acknowledged update. None if that is unknown.
fn nothing_lost(story: &Story, incident: &Incident) -> Option<String> {
    if let Some(refusal) = story.harmless(incident) {
        return Some(format!("Harmless here: {refusal}."));
    }
    if incident.has(AnomalyKind::LostUpdate) {
        return Some("The overwritten update had not been acknowledged.".to_string());
    }
    let verdict = story.subject.verdict;
    let unknown = verdict.valid == Validity::Unknown
        || verdict.lost_updates.acknowledged == 0
        || unnamed_losses(story) > 0
        || incident.operations.iter().any(|operation| lost_by(story, operation));
    (!unknown).then(|| "No acknowledged update was lost this time.".to_string())
}

/// True if the operation's own update is lost, or the one that it certainly overwrote.
fn lost_by(story: &Story, operation: &Operation) -> bool {
    story.is_lost(operation) || story.certainly_overwritten(operation).is_some_and(|over| story.is_lost(over))
}

/// The lost acknowledged updates, with their total number.
fn what_is_lost(story: &Story, key: &str, all: usize, lost: &[&Operation]) -> String {
    let key = sanitize(key, 30);
    let values: Vec<String> = lost.iter().take(LISTED).filter_map(|one| one.new.as_deref().map(quoted)).collect();
    if all == 1 {
        let value = values.first().map_or(String::new(), |value| format!(" {value}"));
        let whose = lost.first().map_or("The".to_string(), |one| format!("{}'s", story.name(one.process)));
        return format!("{whose} acknowledged update{value} is lost: the last value of {key} is not based on it.");
    }
    let values = if values.len() == all { list(&values) } else { format!("{} and more", values.join(", ")) };
    let all = count(all as u64);
    format!("{all} acknowledged updates are lost, since the last value of {key} is based on none of them: {values}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::history::FaultKind;

    /// A fault on these links. The targets keep their order.
    fn on(kind: FaultKind, targets: &[&str], links: &[(&str, &str)]) -> FaultWindow {
        let links = links.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect();
        let targets = targets.iter().map(|target| target.to_string()).collect();
        FaultWindow { targets, links: Some(links), ..FaultWindow::new(0, kind) }
    }

    fn both_ways<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        pairs.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect()
    }

    #[test]
    fn a_fault_on_links_says_between_whom() {
        use FaultKind::{Delay, Loss, Partition, Reset};
        let primary = both_ways(&[("n0", "n1"), ("n0", "n2"), ("n0", "s0")]);
        let told = |kind, targets: &[&str], links: &[(&str, &str)]| on_links(&on(kind, targets, links));
        assert_eq!(told(Partition, &["n0", "n1", "n2", "s0"], &primary), "n0 was cut off from n1, n2 and s0");
        assert_eq!(told(Partition, &["n1", "n2", "n0", "s0"], &primary), "n1, n2 and s0 were cut off from n0");
        assert_eq!(
            told(Partition, &["resource", "c0"], &both_ways(&[("c0", "resource")])),
            "The resource was cut off from c0"
        );
        let all = both_ways(&[("n0", "n1"), ("n0", "n2"), ("n1", "n2")]);
        assert_eq!(told(Partition, &["n0", "n1", "n2"], &all), "n0, n1 and n2 were cut off from each other");
        assert_eq!(told(Loss, &["n0", "n1", "n2"], &all), "Packets among n0, n1 and n2 were lost");
        assert_eq!(
            told(Delay, &["c0", "resource"], &[("c0", "resource")]),
            "Packets from c0 to the resource were delayed"
        );
        assert_eq!(told(Partition, &["c0", "n0"], &[("n0", "c0")]), "Packets from n0 to c0 were dropped");
        let c0 = both_ways(&[("c0", "resource")]);
        assert_eq!(told(Delay, &["c0", "resource"], &c0), "Packets between c0 and the resource were delayed");
        assert_eq!(told(Reset, &["c0", "resource"], &c0), "Connections between c0 and the resource were reset");
        // A ring, in which not all pairs are disconnected, and a history without links.
        let ring = both_ways(&[("n0", "n2"), ("n1", "n3")]);
        assert_eq!(
            told(Partition, &["n0", "n1", "n2", "n3"], &ring),
            "Packets on links among n0, n1, n2 and n3 were dropped"
        );
        assert_eq!(told(Delay, &["c0", "n0"], &[]), "Packets on links among c0 and n0 were delayed");
    }

    #[test]
    fn each_kind_of_fault_on_links_says_what_became_of_what_is_on_them() {
        for kind in FaultKind::ALL.iter().filter(|kind| kind.is_of_the_network() && !kind.is_at_command()) {
            let told = on_links(&on(*kind, &["c0", "n0"], &[("c0", "n0")]));
            assert!(told.contains(" from c0 to n0 were ") && !told.contains("disturbed"), "{kind}: {told}");
        }
    }
}
