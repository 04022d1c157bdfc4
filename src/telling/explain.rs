//! What happened in an incident, in a few sentences. Values are set in backticks.
//!
//! Each sentence is a [`Sentence`]: it names the lines of the history that it follows from, and what no line shows is not said.
//! If the operations themselves are missing, the checker's own summary is used.

use super::ends::unnamed_losses;
use super::moments;
use super::story::{Incident, Story};
use crate::checker::{Anomaly, AnomalyKind, HowKind, Sentence, Validity, covered};
use crate::fault_kinds::OnProcess;
use crate::history::{Claim, FactName, FaultWindow, Operation, Outcome, Phase, Reading, ResourceKind};
use crate::words::{count, length, line, list, moment, plural, quoted, sanitize};

/// More operations than this are counted, not told and drawn one by one: two or three make the point.
const MOST_PRINCIPALS: usize = 3;
/// And more than this are too many even where all of them held the lock at once.
const MOST_DRAWN: usize = 6;
/// More values and summaries than this are counted, not listed.
const LISTED: usize = 4;

/// A stay at a breakpoint that is told, in nanoseconds.
const KEPT_NS: u64 = 20_000_000;

/// Something that a line says, as a part of a sentence.
struct Clause {
    text: String,
    lines: Vec<u64>,
}

/// What happened in an incident, in the order in which it happened.
pub(super) fn told(story: &Story, incident: &Incident) -> Vec<Sentence> {
    if story.permits() > 1 {
        return too_many(story, incident);
    }
    let Some(holders) = Holders::of(story, incident) else { return by_checker(story, incident) };
    let sentences = [holders.opening(), holders.others(), holders.later_writes(), holders.ending()];
    // What a library said of it meanwhile.
    let of_words =
        incident.anomalies.iter().filter(|anomaly| anomaly.kind.contradicts().is_some_and(Claim::is_conditional));
    let said =
        of_words.take(LISTED).filter_map(|anomaly| Sentence::new(in_full(&anomaly.summary), said(story, anomaly)));
    sentences.into_iter().flatten().flatten().chain(said).collect()
}

/// An incident of several holders: who had the lock first, and those who had it meanwhile.
struct Holders<'s, 'a> {
    story: &'s Story<'a>,
    incident: &'s Incident<'a>,
    first: &'a Operation,
    second: &'a Operation,
    /// Those that are told one by one, the first one among them.
    principals: Vec<&'a Operation>,
    /// When the first one sent its write.
    first_write: Option<u64>,
}

impl<'s, 'a> Holders<'s, 'a> {
    /// None if the incident is of another kind, or nobody says who held the lock.
    fn of(story: &'s Story<'a>, incident: &'s Incident<'a>) -> Option<Holders<'s, 'a>> {
        let [first, second, ..] = incident.operations[..] else { return None };
        let of_holders = incident.has(AnomalyKind::LostUpdate) || incident.has(AnomalyKind::OverlappingHolders);
        let is_told = of_holders && moments::hold(first).is_some();
        is_told.then(|| {
            let first_write = moments::write(first).map(|write| write.sent);
            Holders { story, incident, first, second, principals: principals(incident), first_write }
        })
    }

    /// Who had the lock first, what it met, and what it wrote while nobody else had the lock.
    fn opening(&self) -> Vec<Option<Sentence>> {
        let (story, first) = (self.story, self.first);
        let is_kept = self.incident.how().is_some_and(|how| how.kind == HowKind::Breakpoint);
        let mut told = vec![sentence(story, first, took_the_lock(story, first, None))];
        told.extend(is_kept.then(|| self.how(true)));
        told.push(what_went_wrong(story, self.incident, first, self.second));
        told.push(meanwhile(story, first, self.incident.fault));
        told.extend((!is_kept).then(|| self.how(true)));
        told.extend(self.wrote_before().then(|| wrote_at(story, self.incident, first, first)));
        told
    }

    /// How it came about, if that was before the others took the lock, or else if it was after.
    fn how(&self, early: bool) -> Option<Sentence> {
        let is_early = |kind| !matches!(kind, HowKind::Extended | HowKind::Stolen | HowKind::Expired);
        self.incident.how().filter(|how| is_early(how.kind) == early).map(|how| how.sentence.clone())
    }

    /// Whether the first one wrote before the second one had the lock.
    fn wrote_before(&self) -> bool {
        let taken = moments::at(self.second, Phase::Acquired);
        self.first_write.zip(taken).is_some_and(|(wrote, taken)| wrote < taken)
    }

    /// Whether an operation wrote after the first one, so that its write is told after that.
    fn wrote_later(&self, operation: &Operation) -> bool {
        moments::write(operation).zip(self.first_write).is_some_and(|(write, first)| write.sent > first)
    }

    /// What the others did, and how many are not told.
    fn others(&self) -> Vec<Option<Sentence>> {
        let story = self.story;
        let mut told = Vec::new();
        for operation in self.principals.iter().skip(1) {
            let mut clauses = took_the_lock(story, operation, Some(self.first));
            if !self.wrote_later(operation) {
                clauses.extend(wrote(story, operation));
            }
            told.push(sentence(story, operation, clauses));
            told.push(too_early(story, operation, self.first));
        }
        let is_told = |one: &Operation| self.principals.iter().any(|known| known.index == one.index);
        let untold = self.incident.operations.iter().filter(|one| !is_told(one));
        let untold: Vec<u64> = untold.map(|operation| operation.index).collect();
        let verb = if untold.len() == 1 { "operation took" } else { "operations took" };
        told.push(Sentence::new(format!("{} more {verb} part.", count(untold.len() as u64)), untold));
        told
    }

    /// The writes that were sent once another client had the lock.
    fn later_writes(&self) -> Vec<Option<Sentence>> {
        let of_first = Some(self.first).filter(|_| !self.wrote_before());
        let of_others = self.principals.iter().copied().skip(1).filter(|one| self.wrote_later(one));
        let writers = of_first.into_iter().chain(of_others);
        writers.map(|operation| wrote_at(self.story, self.incident, self.first, operation)).collect()
    }

    /// For how long several held the lock, and what that did.
    fn ending(&self) -> Vec<Option<Sentence>> {
        vec![both_held(self.incident), self.how(false), consequence(self.story, self.incident)]
    }
}

/// A lock that several may hold: who had it, what that one met, and when there were too many.
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

/// When an operation wrote, and what.
fn wrote_at(story: &Story, incident: &Incident, first: &Operation, operation: &Operation) -> Option<Sentence> {
    let (write, wrote) = (moments::write(operation)?, wrote(story, operation)?);
    let name = story.name(operation.process);
    let back = if operation.index == first.index { went_on(story, incident, first, write.sent) } else { "" };
    let is_told = incident.fault_hits(&name) || incident.how().is_some_and(|how| how.kind == HowKind::Breakpoint);
    let kept = kept_before_its_write(story, operation).filter(|_| !is_told);
    let by_script = kept.map_or_else(String::new, |(since, _)| {
        format!(", kept before its write by the script since {},", moment(since))
    });
    let text = format!("At {} {name}{by_script} {back}{}.", moment(write.sent), wrote.text);
    Sentence::new(text, wrote.lines.into_iter().chain(kept.map(|(_, line)| line)))
}

/// Since when the script kept an operation before its write, with the line that says so; none if that was no time to speak of.
fn kept_before_its_write(story: &Story, operation: &Operation) -> Option<(u64, u64)> {
    let reached = operation.phase(Phase::BeforeWrite)?;
    let let_go = story.subject.history.let_go(&story.name(operation.process), reached)?;
    let wrote = moments::write(operation)?.sent;
    (let_go <= wrote && let_go.saturating_sub(reached.time()) >= KEPT_NS).then(|| (reached.time(), reached.index))
}

/// The checker's own summaries, for what is no story of two holders.
fn by_checker(story: &Story, incident: &Incident) -> Vec<Sentence> {
    let history = story.subject.history;
    let left_behind = || {
        let facts = history.facts.iter().zip(&history.fact_lines);
        let is_of_it = |name| matches!(name, FactName::NothingEndless | FactName::NothingTooLong);
        facts.filter(move |(fact, _)| is_of_it(fact.name) && !fact.holds).map(|(_, line)| *line)
    };
    let summary = |anomaly: &&Anomaly| {
        let text = in_full(&anomaly.summary);
        let operations = anomaly.operations.iter().chain(&anomaly.lost).filter_map(|index| story.operation(*index));
        let lines: Vec<u64> = match anomaly.kind {
            AnomalyKind::LeftBehind => left_behind().collect(),
            AnomalyKind::FalseRelease
            | AnomalyKind::FalseOwnership
            | AnomalyKind::ToldLate
            | AnomalyKind::ExpiredGrant => said(story, anomaly),
            // Whoever asked for it at the time.
            AnomalyKind::Unavailable => {
                let asking = history.operations.iter().filter(|one| {
                    one.key == anomaly.key
                        && one.invoked <= anomaly.time
                        && one.completed.is_none_or(|completed| completed >= anomaly.time)
                });
                asking.map(|operation| operation.index).collect()
            }
            _ => operations.flat_map(|one| [one.index].into_iter().chain(one.completed_index)).collect(),
        };
        Sentence::new(text, lines)
    };
    let mut told: Vec<Sentence> = incident.anomalies.iter().take(LISTED).filter_map(summary).collect();
    told.dedup_by(|one, other| one.text() == other.text());
    told.extend(incident.how().map(|how| how.sentence.clone()));
    told
}

/// A summary of the checker as a sentence.
fn in_full(summary: &str) -> String {
    format!("{}.", line(summary, 400).trim_end_matches('.'))
}

/// The lines of what a library said of a lock, and of who had it.
fn said(story: &Story, anomaly: &Anomaly) -> Vec<u64> {
    let operations = anomaly.operations.iter().filter_map(|index| story.operation(*index));
    let stamps = operations.flat_map(|one| one.phases.iter().map(|stamp| (one.index, stamp)));
    let matters = stamps.filter(|(of, stamp)| {
        let own = anomaly.operations.first() == Some(of);
        if anomaly.kind == AnomalyKind::ExpiredGrant {
            return matches!(stamp.phase, Phase::Acquiring | Phase::Acquired);
        }
        matches!(stamp.phase, Phase::Acquired | Phase::Extended | Phase::Lost)
            || own && matches!(stamp.phase, Phase::Releasing | Phase::Released)
            || own && stamp.phase == Phase::Owned && stamp.time() == anomaly.time
    });
    matters.map(|(_, stamp)| stamp.index).collect()
}

/// What an operation did, as a sentence about its client.
fn sentence(story: &Story, operation: &Operation, clauses: Vec<Clause>) -> Option<Sentence> {
    let texts: Vec<String> = clauses.iter().map(|clause| clause.text.clone()).collect();
    let text = format!("{} {}.", story.name(operation.process), list(&texts));
    Sentence::new(text, clauses.into_iter().flat_map(|clause| clause.lines))
}

/// The operations of an incident that are told one by one and drawn: the first one, then those that matter most, few
/// enough to follow.
pub fn principals<'a>(incident: &Incident<'a>) -> Vec<&'a Operation> {
    let mut principals: Vec<&Operation> = Vec::new();
    // One holder too many is seen only beside all the others.
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

/// What an operation did up to its write, as clauses that follow its client's name.
fn took_the_lock(story: &Story, operation: &Operation, earlier: Option<&Operation>) -> Vec<Clause> {
    let Some(acquired) = operation.phase(Phase::Acquired) else {
        let text = format!("began its operation at {}", moment(operation.invoked));
        return vec![Clause { text, lines: vec![operation.index] }];
    };
    let mut details: Vec<String> = acquired.token.map(|token| format!("token {token}")).into_iter().collect();
    if earlier.is_none() {
        let good = acquired.validity_ms.map(|ms| length(ms.saturating_mul(1_000_000)));
        details.extend(good.map(|good| match story.ttl_ns() {
            Some(ttl) => format!("valid for {good} of its TTL of {}", length(ttl)),
            None => format!("valid for {good}"),
        }));
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let how = if operation.f.is_shared() { " for reading" } else { "" };
    let text = format!("took the lock{how} at {}{details}", moment(acquired.time()));
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

/// A value, preceded by the number of a counter or the length of a list, which is `more` than the operation had read.
fn with_count(story: &Story, operation: &Operation, more: u64, value: &str) -> String {
    let amount = operation.amount.as_ref().map(|amount| amount.count().saturating_add(more));
    match (amount, story.resource()) {
        (Some(number), Some(ResourceKind::Counter)) => format!("{} ({})", count(number), quoted(value)),
        (Some(length), Some(ResourceKind::List)) => format!("{} up to {}", plural(length, "element"), quoted(value)),
        _ => quoted(value),
    }
}

/// Says that a lock was acquired while an earlier holder still had it, by that holder's count.
fn too_early(story: &Story, operation: &Operation, earlier: &Operation) -> Option<Sentence> {
    let acquired = operation.phase(Phase::Acquired)?;
    let taken = acquired.time();
    let (expiry, told) = moments::expiry_at(earlier, taken)?;
    let left = expiry.checked_sub(taken).filter(|left| *left > 0)?;
    let still_held = moments::hold(earlier).is_some_and(|hold| hold.start < taken && taken < hold.end);
    let text =
        format!("By its own count {} still had the lock for another {}.", story.name(earlier.process), length(left));
    still_held.then(|| Sentence::new(text, [told.index, acquired.index])).flatten()
}

/// When the first holder's lock expired by its own count, if it still held it then and nobody else had it yet.
fn ran_out(first: &Operation, second: &Operation) -> Option<(u64, u64)> {
    let taken = moments::at(second, Phase::Acquired);
    let hold = moments::hold(first)?;
    let (expiry, told) = moments::expiry_at(first, taken.unwrap_or(hold.end))?;
    let in_time = expiry < hold.end && taken.is_none_or(|taken| expiry <= taken);
    in_time.then_some((expiry, told.index))
}

/// The fault, and when the first holder's lock expired.
fn what_went_wrong(story: &Story, incident: &Incident, first: &Operation, second: &Operation) -> Option<Sentence> {
    let ran_out = ran_out(first, second);
    let line = ran_out.map(|(_, line)| line);
    let name = story.name(first.process);
    let Some(fault) = incident.fault else {
        let text = format!("Its lock expired at {}, before it was done.", moment(ran_out?.0));
        return Sentence::new(text, line);
    };
    let (from, to) = fault.span();
    let is_it = incident.fault_hits(&name) && fault.targets.len() == 1;
    let then = match ran_out {
        Some((time, _)) if is_it && time >= from && to.is_none_or(|to| time <= to) => {
            format!(", and its lock expired at {} meanwhile", moment(time))
        }
        Some((time, _)) => format!("; {name}'s lock expired at {}", moment(time)),
        None => String::new(),
    };
    let lines = fault.lines.iter().copied().chain(line);
    Sentence::new(format!("{}{then}.", struck(story, fault, is_it)), lines)
}

/// What a fault did to whom, when and for how long.
fn struck(story: &Story, fault: &FaultWindow, is_it: bool) -> String {
    let (past, how) = (fault.kind.says.done, fault.kind.says.how);
    let (from, to) = fault.span();
    // What it struck says more than what was ordered.
    if let Some(struck) = fault.texts.first().filter(|_| fault.kind.is_at_command() && fault.was_observed()) {
        let until = to.map_or_else(String::new, |to| format!(", until {}", moment(to)));
        return format!("At {} {}{until}", moment(from), sanitize(struck, 200));
    }
    // A sentence about a paused client does not fit one whose packets were lost.
    let whom = match is_it {
        true => "It".to_string(),
        false => list(&fault.targets.iter().map(|target| sanitize(target, 30)).collect::<Vec<_>>()),
    };
    let verb = if fault.targets.len() > 1 { "were" } else { "was" };
    let for_long = match to {
        // Injected once, and never healed.
        _ if !fault.kind.says.lasts => String::new(),
        Some(to) => format!(" for {}", length(to.saturating_sub(from))),
        None => ", and never resumed".to_string(),
    };
    let unseen = if fault.was_observed() { "" } else { "; its effect was not observed" };
    // No signal was sent there, but the effect is that of one.
    let how = if story.is_simulated() && how.starts_with("SIG") { format!("as by {how}") } else { how.to_string() };
    let how = match fault.kind.does.process {
        OnProcess::Stops => how,
        _ if fault.what.is_empty() => how,
        _ => format!("{how}: `{}`", sanitize(&fault.what, 120)),
    };
    format!("{whom} {verb} {past} at {}{for_long} ({how}{unseen})", moment(from))
}

/// The other faults in effect while an operation was in progress.
fn meanwhile(story: &Story, operation: &Operation, told: Option<&FaultWindow>) -> Option<Sentence> {
    let end = operation.completed.unwrap_or(u64::MAX);
    let others: Vec<&FaultWindow> = (story.subject.history.faults.iter())
        .filter(|fault| told.is_none_or(|told| fault.fault != told.fault))
        .filter(|fault| fault.was_observed() && !fault.what.is_empty())
        .filter(|fault| fault.inject <= end && fault.span().1.is_none_or(|to| to >= operation.invoked))
        .collect();
    let mut names: Vec<String> = others.iter().map(|fault| ordered(fault)).collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let also = if told.is_some() { "Also in effect" } else { "In effect meanwhile" };
    let lines = others.iter().flat_map(|fault| fault.lines.iter().copied()).chain([operation.index]);
    (!others.is_empty()).then(|| Sentence::new(format!("{also}: {}{more}.", names.join(", ")), lines)).flatten()
}

/// What was ordered, and whom that struck if the order names roles: `partition primary from replica`, of n0 and n1.
fn ordered(fault: &FaultWindow) -> String {
    let order = format!("`{}`", sanitize(&fault.what, 120));
    let by_name = fault.what.contains(|c: char| c.is_ascii_digit());
    match &fault.targets[..] {
        targets if by_name || targets.is_empty() || targets.len() > LISTED => order,
        targets => format!("{order} ({})", list(&targets.iter().map(|one| sanitize(one, 30)).collect::<Vec<_>>())),
    }
}

/// Whether the first holder was struck, and wrote afterwards without having been told that its lock was gone.
fn went_on(story: &Story, incident: &Incident, first: &Operation, sent: u64) -> &'static str {
    let struck_before = incident.fault_hits(&story.name(first.process))
        && incident.fault.is_some_and(|fault| fault.healed.is_some_and(|(time, _)| time <= sent));
    let told = first.phases.iter().any(|stamp| stamp.phase == Phase::Lost && stamp.time() <= sent);
    if struck_before && !told { "went on, believing that it still held the lock, and " } else { "" }
}

/// What became of an operation's write.
fn wrote(story: &Story, operation: &Operation) -> Option<Clause> {
    let write = moments::write(operation)?;
    let written = |operation: &Operation| Some(with_count(story, operation, 1, operation.new.as_deref()?));
    let new = written(operation)?;
    let over = story.certainly_overwritten(operation);
    let (replaced, over) = match (over, &operation.old) {
        (Some(over), Reading::Value(old)) if over.new.as_ref() == Some(old) => (None, String::new()),
        (Some(over), _) => (Some(over), written(over).map_or(String::new(), |over| format!(" over {over}"))),
        (None, _) => (None, String::new()),
    };
    let error = operation.error().map(|word| format!(" ({})", sanitize(word, 30))).unwrap_or_default();
    let refused = story.refusal().is_some() && matches!(operation.error(), Some("fenced" | "conflict"));
    let text = match operation.outcome {
        Outcome::Ok => format!("wrote {new}{over} (acknowledged)"),
        Outcome::Fail if refused => format!("tried to write {new}, which the resource refused{error}"),
        Outcome::Fail => format!("failed to write {new}{error}"),
        Outcome::Info if write.acknowledged.is_some() => {
            format!("wrote {new}{over}, with no certain answer{error}")
        }
        Outcome::Info => format!("sent the write of {new}, with no certain answer{error}"),
    };
    let stamps = |operation: &Operation| -> Vec<u64> {
        let of_write = operation.phases.iter().filter(|one| matches!(one.phase, Phase::BeforeWrite | Phase::Written));
        of_write.map(|one| one.index).chain(operation.completed_index).collect()
    };
    let lines = stamps(operation).into_iter().chain(replaced.map(stamps).into_iter().flatten()).collect();
    Some(Clause { text, lines })
}

/// For how long the checker's pairs of holders overlapped; what several pairs share counts once.
fn both_held(incident: &Incident) -> Option<Sentence> {
    let pairs = incident.overlaps();
    // Also of pairs that another incident is about: the sentence is of all who take part in this one.
    let mut holders: Vec<&Operation> = pairs.concat();
    holders.sort_unstable_by_key(|holder| holder.index);
    holders.dedup_by_key(|holder| holder.index);
    let of_all = holders
        .iter()
        .enumerate()
        .flat_map(|(place, one)| holders[place + 1..].iter().filter_map(|other| moments::overlap(&[*one, *other])));
    let mut times: Vec<(u64, u64)> = of_all.collect();
    let text = match times[..] {
        [] => return None,
        [(from, to)] => format!("For {} both believed that they held the lock.", length(to - from)),
        _ => {
            times.sort_unstable();
            let sum = length(covered(times, 0, u64::MAX));
            format!("For {sum} in all, two clients at once believed that they held the lock.")
        }
    };
    let ends = |operation: &Operation| -> Vec<u64> {
        let hold = |phase| !matches!(phase, Phase::Acquiring | Phase::HalfAcquired);
        operation.phases.iter().filter(|stamp| hold(stamp.phase)).map(|stamp| stamp.index).collect()
    };
    Sentence::new(text, pairs.into_iter().flatten().flat_map(ends))
}

/// What it did to the data; None if the clients write none, or nobody knows.
fn consequence(story: &Story, incident: &Incident) -> Option<Sentence> {
    let lines = |one: &Operation| [one.index].into_iter().chain(one.completed_index).collect::<Vec<u64>>();
    let of_all = || incident.operations.iter().flat_map(|one| lines(one));
    let in_flight = incident.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::WriteInFlight);
    if let Some(anomaly) = in_flight.filter(|_| !incident.has(AnomalyKind::LostUpdate)) {
        // The checker's last clause says whose write it was.
        let why = anomaly.summary.rsplit_once("; ").map_or(anomaly.summary.as_str(), |(_, why)| why);
        return Sentence::new(format!("This loss is not the lock's: {why}."), of_all());
    }
    let stale = incident.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::StaleRead);
    if let Some(anomaly) = stale.filter(|_| incident.lost.is_empty()) {
        return Sentence::new(in_full(&anomaly.summary), of_all());
    }
    if incident.lost.is_empty() {
        return Sentence::new(nothing_lost(story, incident)?, of_all());
    }
    let lost: Vec<&Operation> = incident.lost.iter().filter_map(|index| story.operation(*index)).collect();
    Sentence::new(what_is_lost(story, incident.lost.len(), &lost), lost.iter().flat_map(|one| lines(one)))
}

/// Why an incident cost no acknowledged update; None if nobody knows whether it did.
fn nothing_lost(story: &Story, incident: &Incident) -> Option<String> {
    if let Some(refusal) = story.refusal().filter(|_| !incident.claimed) {
        return Some(format!("Harmless here: {refusal}."));
    }
    if incident.has(AnomalyKind::LostUpdate) {
        return Some("What was overwritten had not been acknowledged.".to_string());
    }
    let verdict = story.subject.verdict;
    let unknown = verdict.valid == Validity::Unknown
        || verdict.lost_updates.acknowledged == 0
        || unnamed_losses(story) > 0
        || incident.operations.iter().any(|operation| story.is_lost(operation));
    (!unknown).then(|| "No acknowledged update was lost this time.".to_string())
}

/// Which acknowledged updates are lost, so many in all.
fn what_is_lost(story: &Story, all: usize, lost: &[&Operation]) -> String {
    let values: Vec<String> = lost.iter().take(LISTED).filter_map(|one| one.new.as_deref().map(quoted)).collect();
    if all == 1 {
        let value = values.first().map_or(String::new(), |value| format!(" {value}"));
        let whose = lost.first().map_or(String::new(), |one| format!(" of {}", story.name(one.process)));
        return format!("The acknowledged update{value}{whose} is lost: no later value builds on it.");
    }
    let values = if values.len() == all { list(&values) } else { format!("{} and more", values.join(", ")) };
    format!("{} acknowledged updates are lost, since no later value builds on them: {values}.", count(all as u64))
}
