//! The run in one sentence.

use super::cause::cause;
use super::ends::{and_the_end, update};
use super::explain::was_refused;
use super::story::{Standing, Story};
use crate::checker::{AnomalyKind, Gap, STUCK_AFTER_TTLS, Validity, Verdict};
use crate::history::{CallEffect, Claim};
use crate::words::{count, length, line, percent, plural};

/// A shorter time without the lock is not worth a word in the headline, in nanoseconds.
const LONG_GAP_NS: u64 = 2_000_000_000;
/// More of a reason is in the report.
const LONGEST_REASON: usize = 300;

/// The run in one sentence. One that was simulated says so first, wherever the sentence is shown.
pub(super) fn headline(story: &Story) -> String {
    let verdict = story.subject.verdict;
    let text = match verdict.valid {
        // It proves nothing of the lock, and is a finding all the same.
        Validity::Unknown if story.has(AnomalyKind::EndedByItself) => ended(story),
        Validity::Unknown if story.is_unlocked() => "This run proves nothing.".to_string(),
        Validity::Unknown => "This run proves nothing about the lock.".to_string(),
        Validity::Invalid => violation(story),
        Validity::Valid => kept(story),
    };
    if story.is_simulated() { format!("Simulated: {text}") } else { text }
}

/// A headline with the first reason, if the run proves nothing.
pub(super) fn with_reason(headline: &str, verdict: &Verdict) -> String {
    match verdict.reasons.first().filter(|_| verdict.valid == Validity::Unknown) {
        Some(reason) => format!("{}: {}", headline.trim_end_matches('.'), line(reason, LONGEST_REASON)),
        None => headline.to_string(),
    }
}

/// Whose programs ended by themselves.
fn ended(story: &Story) -> String {
    let ended = || story.subject.verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::EndedByItself);
    let first = ended().next().and_then(|anomaly| story.names(&anomaly.operations).into_iter().next());
    let client = first.unwrap_or_else(|| "a client".to_string());
    let times = match ended().count() as u64 {
        1 => String::new(),
        many => format!(", the first of {}", count(many)),
    };
    format!("The program of {client} ended by itself{times}; beyond that, this run proves nothing about the lock.")
}

/// What was broken: lost updates first, then the lock's own claims.
fn violation(story: &Story) -> String {
    let verdict = story.subject.verdict;
    let lock = story.lock_name();
    let broken = |claim| story.standing(claim) == Standing::Broken;
    let lost = verdict.lost_updates;
    if broken(Claim::Updates) && lost.count > 0 {
        let of = plural(lost.acknowledged, &format!("acknowledged {}", update(story)));
        let (share, lost) = (percent(lost.fraction), count(lost.count));
        return format!("{lock} lost {lost} of {of} ({share}){}{}.", cause(story, true), and_the_end(story));
    }
    if broken(Claim::Updates) {
        let observations = plural(story.contradictions(Claim::Updates), "observation");
        let why = cause(story, true);
        let reads = verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::StaleRead).count() as u64;
        if story.has_readers() && reads == story.contradictions(Claim::Updates) {
            return format!("{lock} let {} go stale under the lock{why}.", plural(reads, "read"));
        }
        return format!("{lock} produced {observations} that no correct order of the updates explains{why}.");
    }
    if broken(Claim::MutualExclusion) {
        return overlapped(story, &lock);
    }
    if broken(Claim::Tokens) {
        let tokens = verdict.lock.token_regressions;
        let rise = if tokens == 1 { "does not rise" } else { "do not rise" };
        return format!("{lock} handed out {} that {rise}.", plural(tokens, "token"));
    }
    if broken(Claim::Liveness) {
        return stuck(story, &lock);
    }
    if broken(Claim::Amounts) {
        return wrong_amount(story, &lock);
    }
    if story.has(AnomalyKind::WaitedTooLong) {
        let waits = verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::WaitedTooLong).count();
        let their = if waits == 1 { "its" } else { "their" };
        return format!(
            "{lock} let {} overrun {their} timeout{}.",
            plural(waits as u64, "attempt"),
            cause(story, false)
        );
    }
    if story.has(AnomalyKind::LeftBehind) {
        return format!("{lock} left a lock behind that outlasts its TTL.");
    }
    let times = |claim| match story.contradictions(claim) {
        1 => String::new(),
        many => format!(" {} times", count(many)),
    };
    if broken(Claim::Releases) {
        return format!("{lock} answered a release untruthfully{}.", times(Claim::Releases));
    }
    if broken(Claim::Ownership) {
        return format!("{lock} told a client that it had a lock that another one had{}.", times(Claim::Ownership));
    }
    if broken(Claim::Losses) {
        return format!("{lock} did not tell a holder in time that its lock was gone{}.", times(Claim::Losses));
    }
    if broken(Claim::Grants) {
        return format!("{lock} handed out a lock that had run out by its own word{}.", times(Claim::Grants));
    }
    verdict.reasons.first().cloned().unwrap_or_else(|| format!("{lock} broke what the workload claims."))
}

fn overlapped(story: &Story, lock: &str) -> String {
    let verdict = story.subject.verdict;
    let none_lost = verdict.lost_updates.acknowledged > 0
        && story.contradictions(Claim::Updates) == 0
        && !story.has(AnomalyKind::WriteInFlight);
    if story.permits() > 1 {
        return format!(
            "{lock} let {} hold the lock at once{}: {} among {}.",
            too_many_clients(story),
            cause(story, false),
            too_many(story.contradictions(Claim::MutualExclusion)),
            plural(verdict.mutual_exclusion.comparable_holds, "hold"),
        );
    }
    format!(
        "{lock} let {} hold the lock at once{}: {} among {}{}.",
        two_clients(story),
        cause(story, false),
        plural(story.contradictions(Claim::MutualExclusion), "overlap"),
        plural(verdict.mutual_exclusion.comparable_holds, "hold"),
        if none_lost { "; no acknowledged update was lost" } else { "" }
    )
}

/// Those who must not hold a lock at once, however many may.
fn too_many_clients(story: &Story) -> String {
    match story.permits() {
        1 => two_clients(story).to_string(),
        permits => format!("more than {permits} clients"),
    }
}

/// Those who must not hold a lock at once.
fn two_clients(story: &Story) -> &'static str {
    if story.has_readers() { "a writer and another client" } else { "two clients" }
}

/// So many holders beyond those that a lock may have.
pub(super) fn too_many(holds: u64) -> String {
    format!("{} too many", plural(holds, "hold"))
}

/// The first wrong amount, as the checker says it.
fn wrong_amount(story: &Story, lock: &str) -> String {
    let mut wrong = story.subject.verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::WrongAmount);
    let first = wrong.next().map_or(String::new(), |anomaly| format!(": {}", line(&anomaly.summary, LONGEST_REASON)));
    match wrong.count() as u64 {
        0 => format!("{lock} left a wrong amount{first}."),
        more => format!("{lock} left {} wrong amounts, the first{first}.", count(more + 1)),
    }
}

/// How a live lock failed.
fn stuck(story: &Story, lock: &str) -> String {
    let gap = story.subject.verdict.lock.longest_gap.as_ref();
    let died = died_after(story).map_or(String::new(), |died| format!("; {died}"));
    match gap {
        _ if story.never_freed().is_some() => {
            let key = story.never_freed().unwrap_or_default();
            format!("{lock} could not be acquired: {key}, was still there at the end{died}.")
        }
        _ if story.has(AnomalyKind::NotObtained) => format!("{lock} was free, yet no client acquired it."),
        Some(gap) if story.has(AnomalyKind::Unavailable) => {
            format!("{lock} was free for {}, yet no client acquired it.", length(gap.to - gap.from))
        }
        _ => format!("{lock} could not be acquired when it should have been available."),
    }
}

/// Which client was killed when its command had reached a node, if it is one: `c0 was killed before it had the reply to its 1st SETNX`.
fn died_after(story: &Story) -> Option<String> {
    let faults = || story.subject.history.faults.iter().filter(|window| window.was_observed());
    let mut killed = faults().filter(|window| window.kind.ends_processes());
    let kill = killed.next().filter(|_| killed.next().is_none())?;
    let [client] = &kill.targets[..] else { return None };
    let held = faults().find(|window| {
        let (from, until) = window.span();
        window.on_call == Some(CallEffect::HoldReply)
            && from <= kill.inject
            && until.is_none_or(|until| kill.inject <= until)
    })?;
    let mut words = held.texts.first()?.strip_prefix(&format!("{client}'s "))?.split(' ');
    let (nth, command) = (words.next()?, words.next()?);
    Some(format!("{client} was killed before it had the reply to its {nth} {command}"))
}

/// What a valid run shows.
fn kept(story: &Story) -> String {
    let lock = story.lock_name();
    let faults = story.subject.history.faults.iter().filter(|fault| fault.was_observed()).count() as u64;
    let through = match faults {
        0 => String::new(),
        _ => format!(" through {}", plural(faults, "fault")),
    };
    let overlaps = story.contradictions(Claim::MutualExclusion);
    let text = match overlaps {
        0 => format!("{lock} {}", survived(story, &through)),
        _ => let_in(story, &lock, overlaps, &through),
    };
    let gap = story.subject.verdict.lock.longest_gap.as_ref().filter(|gap| is_long(story, gap));
    let gap = gap.map_or_else(String::new, |gap| {
        format!(" But for {} no client acquired the free lock of {}.", length(gap.to - gap.from), gap.key)
    });
    let never = match story.standing(Claim::MutualExclusion) {
        Standing::Held if story.claims(Claim::MutualExclusion) => {
            format!(", and never let {} hold the lock at once", too_many_clients(story))
        }
        _ => String::new(),
    };
    format!("{text}{never}{}.{gap}", and_the_end(story))
}

/// What became of the acknowledged updates of a valid run.
fn survived(story: &Story, through: &str) -> String {
    let (update, lost) = (update(story), story.subject.verdict.lost_updates);
    let in_flight = in_flight(story);
    match lost.acknowledged {
        0 => format!("broke none of its claims{through}"),
        all if lost.count > 0 => format!(
            "broke none of its claims{through}, though {} of {} {} lost",
            count(lost.count),
            plural(all, &format!("acknowledged {update}")),
            if lost.count == 1 { "was" } else { "were" }
        ),
        all if in_flight > 0 => format!(
            "kept all but {} of {}{through}; {} to a client's own write in flight",
            count(in_flight),
            plural(all, &format!("acknowledged {update}")),
            if in_flight == 1 { "that one was lost" } else { "those were lost" }
        ),
        1 => format!("kept the one acknowledged {update}{through}"),
        all => format!("kept all {} acknowledged {update}s{through}", count(all)),
    }
}

/// How many acknowledged updates were lost to writes in flight, which no lock can prevent.
fn in_flight(story: &Story) -> u64 {
    let anomalies = story.subject.verdict.anomalies.iter();
    anomalies.filter(|one| one.kind == AnomalyKind::WriteInFlight).map(|one| one.lost.len() as u64).sum()
}

/// A lock that let too many clients in, which broke no claim: what was kept is not its merit, but that of what it protects.
fn let_in(story: &Story, lock: &str, overlaps: u64, through: &str) -> String {
    let times = plural(overlaps, "time");
    let too_many = format!("{lock} let {} hold the lock at once {times}{through}", too_many_clients(story));
    let refused = story.client_operations().filter(|operation| was_refused(story, operation)).count() as u64;
    let lost = story.subject.verdict.lost_updates;
    let gone = lost.count + in_flight(story);
    let all = plural(lost.acknowledged, &format!("acknowledged {}", update(story)));
    let kept = match (lost.acknowledged, gone) {
        (0, _) => None,
        (_, 0) => Some(format!("none of {all} was lost")),
        (_, _) => Some(format!("{} of {all} lost", count(gone))),
    };
    let refused = (refused > 0).then(|| format!("the resource refused {}", plural(refused, "late write")));
    match (refused, kept) {
        (Some(refused), Some(kept)) if gone == 0 => format!("{too_many}; {refused}, so {kept}"),
        (Some(refused), Some(kept)) => format!("{too_many}; {refused}, {kept}"),
        (Some(one), None) | (None, Some(one)) => format!("{too_many}; {one}"),
        (None, None) => format!("{too_many}, which this workload does not rule out"),
    }
}

/// Whether a lock was out of reach for so long that "valid" alone would mislead.
pub(super) fn is_long(story: &Story, gap: &Gap) -> bool {
    let ttl = story.subject.history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
    gap.to - gap.from > ttl.saturating_mul(STUCK_AFTER_TTLS).max(LONG_GAP_NS)
}
