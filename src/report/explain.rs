//! The prose: one sentence for a run, a few for an incident. Values are set in backticks.
//!
//! Every sentence says only what the history holds. What is missing is left out; if the operations themselves are
//! missing, the checker's own summary is used.

use super::ends::{and_the_end, update};
use super::story::{Incident, PropertyOutcome, Story, fault_words};
use super::{Report, moments};
use crate::checker::{AnomalyKind, Gap, STUCK_AFTER_TTLS, Validity};
use crate::history::{Claim, FaultKind, FaultWindow, Operation, Outcome, Phase, Reading, ResourceKind};
use crate::words::{count, length, line, list, moment, percent, plural, quoted, tame};

/// More operations than this are counted, not told and drawn one by one: two or three make the point.
const CAST: usize = 3;
/// A shorter time without the lock is not worth a word in the headline, in nanoseconds.
const LONG_GAP_NS: u64 = 2_000_000_000;
/// More values and summaries than this are counted, not listed.
const LISTED: usize = 4;

/// The run in one sentence.
pub fn headline(report: &Report) -> String {
    headline_of(&Story::new(report))
}

/// What happened in one incident.
pub fn explain(report: &Report, number: usize) -> Option<String> {
    let story = Story::new(report);
    story.incidents.get(number).map(|incident| explain_incident(&story, incident))
}

/// One that was simulated says so first, wherever the sentence is shown.
pub(super) fn headline_of(story: &Story) -> String {
    let told = told_of(story);
    if story.is_simulated() { format!("Simulated: {told}") } else { told }
}

fn told_of(story: &Story) -> String {
    let verdict = story.report.verdict;
    let lock = story.lock_name();
    let (lost, acknowledged) = (verdict.lost_updates.count, verdict.lost_updates.acknowledged);
    let update = update(story);
    let end = and_the_end(story);
    let updates_broken = story.standing(Claim::Updates) == PropertyOutcome::Broken;
    let exclusion_broken = story.standing(Claim::MutualExclusion) == PropertyOutcome::Broken;
    let overlaps = story.contradictions(Claim::MutualExclusion);
    match verdict.valid {
        Validity::Unknown if story.is_unlocked() => "This run proves nothing.".to_string(),
        Validity::Unknown => "This run proves nothing about the lock.".to_string(),
        Validity::Invalid if lost > 0 && updates_broken => {
            let share = percent(verdict.lost_updates.fraction);
            let of = plural(acknowledged, &format!("acknowledged {update}"));
            format!("{lock} lost {} of {of} ({share}){}{end}.", count(lost), cause(story, true))
        }
        Validity::Invalid if updates_broken => format!(
            "{lock} produced {} that no correct order of the updates explains{}.",
            plural(story.contradictions(Claim::Updates), "observation"),
            cause(story, true)
        ),
        Validity::Invalid if exclusion_broken => {
            let none_lost = if acknowledged > 0 && story.contradictions(Claim::Updates) == 0 {
                "; no acknowledged update was lost"
            } else {
                ""
            };
            format!(
                "{lock} let two clients hold the lock at once {}{}{none_lost}.",
                if overlaps == 1 { "once".to_string() } else { format!("{} times", count(overlaps)) },
                cause(story, false)
            )
        }
        Validity::Invalid if story.has(AnomalyKind::NotObtained) => {
            format!("{lock} was free and asked for, and nobody got it.")
        }
        Validity::Invalid if story.has(AnomalyKind::AcquiredLate) => {
            format!("{lock} could not be acquired when it should have been available.")
        }
        Validity::Invalid if story.has(AnomalyKind::WaitedTooLong) => {
            let waits = verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::WaitedTooLong);
            let attempts = plural(waits.count() as u64, "attempt");
            format!("{lock} let {attempts} wait for longer than they were to{}.", cause(story, false))
        }
        Validity::Invalid if story.has(AnomalyKind::LeftBehind) => {
            format!("{lock} left a lock behind that never ends.")
        }
        Validity::Invalid => {
            verdict.reasons.first().cloned().unwrap_or_else(|| format!("{lock} broke what the workload claims."))
        }
        Validity::Valid => {
            let faults = story.report.history.faults.iter().filter(|fault| fault.was_observed()).count() as u64;
            let through = match faults {
                0 => String::new(),
                _ => format!(" through {}", plural(faults, "fault")),
            };
            let kept = match acknowledged {
                0 => format!("{lock} broke none of its claims{through}"),
                1 => format!("{lock} kept the one acknowledged {update}{through}"),
                _ => format!("{lock} kept all {} acknowledged {update}s{through}", count(acknowledged)),
            };
            let gap = story.report.verdict.lock.longest_gap.as_ref().filter(|gap| is_long(story, gap));
            let gap = gap.map_or_else(String::new, |gap| {
                format!(
                    " But for {} nobody got the lock of {}, though it was free and asked for.",
                    length(gap.to - gap.from),
                    gap.key
                )
            });
            let never = match story.standing(Claim::MutualExclusion) {
                PropertyOutcome::Held if story.claims(Claim::MutualExclusion) => {
                    ", and never let two clients hold the lock at once"
                }
                _ => "",
            };
            format!("{kept}{never}{end}.{gap}")
        }
    }
}

/// Whether a lock was out of reach for so long that "valid" alone would mislead.
fn is_long(story: &Story, gap: &Gap) -> bool {
    let ttl = story.report.history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    gap.to - gap.from > ttl.saturating_mul(STUCK_AFTER_TTLS).max(LONG_GAP_NS)
}

/// ` while a holder was paused`, if most incidents have that in common.
fn cause(story: &Story, of_updates: bool) -> String {
    if story.report.history.faults.iter().all(|fault| fault.injected.is_none()) {
        return if story.report.history.run.is_some() { ", with no fault at all".to_string() } else { String::new() };
    }
    let relevant = || {
        let wanted = move |incident: &&Incident| {
            !of_updates || incident.anomalies.iter().any(|a| a.kind.contradicts() == Some(Claim::Updates))
        };
        story.incidents.iter().filter(wanted)
    };
    let total = relevant().count();
    let Some(kind) = relevant().find_map(|incident| incident.fault).map(|fault| fault.kind) else {
        return String::new();
    };
    let of_kind = |incident: &&Incident| incident.fault.is_some_and(|fault| fault.kind == kind);
    let client = |incident: &&Incident| {
        of_kind(incident)
            && incident.operations.iter().any(|operation| incident.fault_hits(&story.name(operation.process)))
    };
    let on_clients = relevant().filter(client).count();
    let on_nodes = relevant().filter(of_kind).count() - on_clients;
    let how_many = on_clients.max(on_nodes);
    let mut was = what_was(kind, on_clients >= on_nodes).to_string();
    if story.is_unlocked() {
        was = was.replace("its holder", "a client");
    }
    match how_many {
        _ if total == 0 || how_many * 2 < total => String::new(),
        _ if how_many < total => format!(", mostly while {was}"),
        _ => format!(" while {was}"),
    }
}

/// What was going on, in a few words: on a client that held the lock, or elsewhere.
fn what_was(kind: FaultKind, on_holder: bool) -> &'static str {
    match (kind, on_holder) {
        (FaultKind::Pause, true) => "its holder was paused",
        (FaultKind::Pause, false) => "a node was paused",
        (FaultKind::Kill, true) => "its holder was killed",
        (FaultKind::Kill, false) => "a node was killed",
        (FaultKind::PowerLoss, _) => "a node lost power",
        (FaultKind::Clock, true) => "its holder's clock was wrong",
        (FaultKind::Clock, false) => "a node's clock was wrong",
        (FaultKind::Partition, _) => "the network was partitioned",
        (FaultKind::Loss, _) => "packets were lost",
        (FaultKind::Delay, _) => "packets were delayed",
        (FaultKind::Reset, _) => "connections were reset",
        (FaultKind::Evict, _) => "nodes evicted keys",
        (FaultKind::Flush, _) => "nodes lost their keys",
        (FaultKind::Failover, _) => "a replica was promoted to primary",
        (FaultKind::Call, _) => "one of its calls was interrupted",
        (FaultKind::PauseBackground, _) => "its holder's background threads were paused",
    }
}

/// What happened in an incident, in the order in which it happened.
pub(super) fn explain_incident(story: &Story, incident: &Incident) -> String {
    let told_by_checker = || {
        let summaries = incident.anomalies.iter().take(LISTED).map(|anomaly| line(&anomaly.summary, 400));
        let mut sentences: Vec<String> = summaries.map(|text| format!("{}.", text.trim_end_matches('.'))).collect();
        sentences.dedup();
        sentences.join(" ")
    };
    let other_kind = !incident.has(AnomalyKind::LostUpdate) && !incident.has(AnomalyKind::OverlappingHolders);
    let Some((&first, others)) = incident.operations.split_first() else { return told_by_checker() };
    if other_kind || others.is_empty() || moments::hold(first).is_none() {
        return told_by_checker();
    }
    let told = cast(incident);
    let clause =
        |operation: &Operation, clauses: Vec<String>| format!("{} {}.", story.name(operation.process), list(&clauses));
    let mut sentences = vec![clause(first, took_the_lock(story, first, None))];
    sentences.extend(what_went_wrong(story, incident, first, others.first().copied()));
    let first_write = moments::write(first).map(|write| write.sent);
    let is_later = |operation: &Operation| {
        moments::write(operation).zip(first_write).is_some_and(|(write, first)| write.sent > first)
    };
    for operation in told.iter().skip(1) {
        let mut clauses = took_the_lock(story, operation, Some(first));
        if !is_later(operation)
            && let Some(wrote) = wrote(story, operation, None)
        {
            clauses.push(wrote);
        }
        sentences.push(clause(operation, clauses));
        sentences.extend(too_early(story, operation, first));
    }
    match incident.operations.len() - told.len() {
        0 => {}
        1 => sentences.push("One more operation followed.".to_string()),
        untold => sentences.push(format!("{} more operations followed.", count(untold as u64))),
    }
    let name = story.name(first.process);
    let back = match (incident.fault, first_write) {
        (Some(fault), Some(sent))
            if incident.fault_hits(&name) && fault.healed.is_some_and(|(time, _)| time <= sent) =>
        {
            "went on, still believing to hold it, and "
        }
        _ => "",
    };
    let writers =
        std::iter::once((first, back)).chain(told.iter().skip(1).filter(|one| is_later(one)).map(|one| (*one, "")));
    for (operation, back) in writers {
        if let (Some(write), Some(end)) =
            (moments::write(operation), wrote(story, operation, story.overwritten(operation)))
        {
            sentences.push(format!("At {} {} {back}{end}.", moment(write.sent), story.name(operation.process)));
        }
    }
    sentences.extend(both_held(incident));
    sentences.extend(how(incident));
    sentences.extend(consequence(story, incident));
    sentences.join(" ")
}

/// The operations of an incident that are told one by one and drawn: the first one, then those that matter most, few
/// enough to follow.
pub(super) fn cast<'a>(incident: &Incident<'a>) -> Vec<&'a Operation> {
    let mut cast: Vec<&Operation> = Vec::new();
    let accused = incident.anomalies.iter().flat_map(|anomaly| &anomaly.operations);
    let indices: Vec<u64> = incident
        .operations
        .first()
        .map(|operation| operation.index)
        .into_iter()
        .chain(incident.culprit().map(|operation| operation.index))
        .chain(accused.copied())
        .chain(incident.lost.iter().copied())
        .collect();
    for index in indices {
        let known = incident.operations.iter().find(|operation| operation.index == index);
        if let Some(operation) = known
            && cast.len() < CAST
            && !cast.iter().any(|one| one.index == index)
        {
            cast.push(operation);
        }
    }
    cast.sort_by_key(|operation| incident.operations.iter().position(|one| one.index == operation.index));
    cast
}

/// What an operation did up to its write, as clauses that follow its client's name.
fn took_the_lock(story: &Story, operation: &Operation, earlier: Option<&Operation>) -> Vec<String> {
    let Some(acquired) = moments::at(operation, Phase::Acquired) else {
        return vec![format!("began its operation at {}", moment(operation.invoked))];
    };
    let (token, validity_ms) = moments::grant(operation);
    let mut details: Vec<String> = token.map(|token| format!("token {token}")).into_iter().collect();
    if earlier.is_none() {
        let good = validity_ms.map(|ms| length(ms.saturating_mul(1_000_000)));
        details.extend(good.map(|good| match story.ttl_ns() {
            Some(ttl) => format!("valid for {good} of its TTL of {}", length(ttl)),
            None => format!("valid for {good}"),
        }));
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let mut clauses = vec![format!("took the lock at {}{details}", moment(acquired))];
    let too = if earlier.is_some_and(|earlier| earlier.old == operation.old) { " too" } else { "" };
    match &operation.old {
        Reading::Unknown => {}
        Reading::Empty => clauses.push(format!("found the key empty{too}")),
        Reading::Value(value) => clauses.push(format!("read {}{too}", with_count(story, operation, 0, value))),
    }
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

/// Says that a lock was acquired while an earlier one was still valid, which no pause of that holder explains.
fn too_early(story: &Story, operation: &Operation, earlier: &Operation) -> Option<String> {
    let acquired = moments::at(operation, Phase::Acquired)?;
    let left = moments::expiry(earlier)?.checked_sub(acquired)?;
    Some(format!("The lock of {} was still valid for {} then.", story.name(earlier.process), length(left)))
}

/// The fault, and when the first holder's lock expired.
fn what_went_wrong(
    story: &Story,
    incident: &Incident,
    first: &Operation,
    second: Option<&Operation>,
) -> Option<String> {
    let expiry = moments::expiry(first);
    let taken = second.and_then(|second| moments::at(second, Phase::Acquired));
    let ran_out = expiry.filter(|expiry| taken.is_none_or(|taken| *expiry <= taken));
    let Some(fault) = incident.fault else {
        return ran_out.map(|time| format!("Its lock expired at {}, before it was done.", moment(time)));
    };
    let (_, past, how) = fault_words(fault.kind);
    let (from, to) = fault.span();
    let first_name = story.name(first.process);
    // A sentence about a paused client does not fit one whose packets were lost.
    let whom = if incident.fault_hits(&first_name) && fault.targets.len() == 1 {
        "It".to_string()
    } else {
        list(&fault.targets.iter().map(|target| tame(target, 30)).collect::<Vec<_>>())
    };
    let verb = if fault.targets.len() > 1 { "were" } else { "was" };
    let for_long = match (fault.kind, to) {
        // Injected once, and never healed.
        (FaultKind::Flush | FaultKind::Failover, _) => String::new(),
        (_, Some(to)) => format!(" for {}", length(to.saturating_sub(from))),
        (_, None) => ", and never resumed".to_string(),
    };
    let unseen = if fault.was_observed() { "" } else { "; its effect was not observed" };
    let then = match ran_out {
        Some(time) if whom == "It" && time >= from && to.is_none_or(|to| time <= to) => {
            let meanwhile = if fault.kind == FaultKind::Pause { "while it stood still" } else { "meanwhile" };
            format!(", and its lock expired at {} {meanwhile}", moment(time))
        }
        Some(time) => format!("; {first_name}'s lock expired at {}", moment(time)),
        None => String::new(),
    };
    // No signal was sent there, but the effect is that of one.
    let how = if story.is_simulated() && how.starts_with("SIG") { format!("as by {how}") } else { how.to_string() };
    let how = match fault.kind {
        FaultKind::Pause => how,
        _ if fault.what.is_empty() => how,
        _ => format!("{how}: `{}`", tame(&fault.what, 120)),
    };
    let others = meanwhile(story, first, fault);
    // What it struck says more than what was ordered.
    if let (FaultKind::Call, Some(struck)) = (fault.kind, fault.texts.first().filter(|_| fault.was_observed())) {
        let until = to.map_or_else(String::new, |to| format!(", until {}", moment(to)));
        return Some(format!("At {} {}{until}{then}.{others}", moment(from), tame(struck, 200)));
    }
    Some(format!("{whom} {verb} {past} at {}{for_long} ({how}{unseen}){then}.{others}", moment(from)))
}

/// The other faults in effect while an operation was in progress.
fn meanwhile(story: &Story, operation: &Operation, told: &FaultWindow) -> String {
    let end = operation.completed.unwrap_or(u64::MAX);
    let others: Vec<String> = (story.report.history.faults.iter())
        .filter(|fault| fault.fault != told.fault && fault.was_observed() && !fault.what.is_empty())
        .filter(|fault| fault.inject <= end && fault.span().1.is_none_or(|to| to >= operation.invoked))
        .map(|fault| format!("`{}`", tame(&fault.what, 120)))
        .collect();
    match others.len() {
        0 => String::new(),
        1..=LISTED => format!(" Also in effect: {}.", others.join(", ")),
        more => format!(" Also in effect: {} and {} more.", others[..LISTED].join(", "), more - LISTED),
    }
}

/// What became of an operation's write, as the end of a sentence.
fn wrote(story: &Story, operation: &Operation, over: Option<&Operation>) -> Option<String> {
    moments::write(operation)?;
    let written = |operation: &Operation| Some(with_count(story, operation, 1, operation.new.as_deref()?));
    let new = written(operation)?;
    let over = match (over, &operation.old) {
        (Some(over), Reading::Value(old)) if over.new.as_ref() == Some(old) => String::new(),
        (Some(over), _) => written(over).map_or(String::new(), |over| format!(" over {over}")),
        (None, _) => String::new(),
    };
    let error = operation.error.as_deref().map(|word| format!(" ({})", tame(word, 30))).unwrap_or_default();
    Some(match operation.outcome {
        Outcome::Ok => format!("wrote {new}{over} (acknowledged)"),
        Outcome::Fail if story.resource_refuses() => format!("tried to write {new}, which the resource refused{error}"),
        Outcome::Fail => format!("tried to write {new}, which failed{error}"),
        Outcome::Info => format!("sent the write of {new}, with no certain answer{error}"),
    })
}

/// For how long the checker's pairs of holders overlapped.
fn both_held(incident: &Incident) -> Option<String> {
    let lengths: Vec<u64> = (incident.overlaps().iter())
        .filter_map(|(one, other)| moments::overlap(one, other))
        .map(|(from, to)| to - from)
        .collect();
    match lengths[..] {
        [] => None,
        [one] => Some(format!("For {} both believed to hold the lock.", length(one))),
        _ => {
            Some(format!("Two clients at once believed to hold the lock for {} in all.", length(lengths.iter().sum())))
        }
    }
}

/// How two clients came to hold the lock at once, where that is certain.
fn how(incident: &Incident) -> Option<String> {
    let told = incident.anomalies.iter().find_map(|anomaly| anomaly.how.as_deref())?;
    Some(format!("{told}."))
}

/// What it did to the data; None if the clients write none.
fn consequence(story: &Story, incident: &Incident) -> Option<String> {
    Some(match incident.lost[..] {
        [] if !incident.claimed && story.resource_refuses() => {
            format!("Harmless here: {}.", story.refusal().unwrap_or_default())
        }
        [] if incident.has(AnomalyKind::LostUpdate) => "What was overwritten had not been acknowledged.".to_string(),
        [] if story.report.verdict.lost_updates.acknowledged == 0 => return None,
        [] => "No acknowledged update was lost this time.".to_string(),
        [index] => {
            let operation = story.operation(index);
            let value = operation
                .and_then(|operation| operation.new.as_deref())
                .map_or(String::new(), |new| format!(" {}", quoted(new)));
            let whose = operation.map_or(String::new(), |operation| format!(" of {}", story.name(operation.process)));
            format!("The acknowledged update{value}{whose} is lost: no later value builds on it.")
        }
        _ => {
            let total = incident.lost.len();
            let values: Vec<String> = (incident.lost.iter().take(LISTED))
                .filter_map(|index| story.operation(*index)?.new.as_deref().map(quoted))
                .collect();
            let values = if values.len() == total { list(&values) } else { format!("{} and more", values.join(", ")) };
            format!(
                "{} acknowledged updates are lost, since no later value builds on them: {values}.",
                count(total as u64)
            )
        }
    })
}
