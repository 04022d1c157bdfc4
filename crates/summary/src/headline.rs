//! The run in one sentence.

use super::cause::cause;
use super::ends::{and_the_end, update};
use super::explain::was_refused;
use super::story::{ClaimStatus, Story};
use base::words::{count, length, line, plural, unless_none};
use checker::properties::Circumstances;
use checker::properties::liveness::is_long;
use checker::properties::mutual_exclusion::too_many_clients;
use checker::{AnomalyKind, Validity, Verdict};
use model::history::Claim;

/// More of a reason is in the report.
const LONGEST_REASON: usize = 300;

/// The run in one sentence. One that was simulated says so first, wherever the sentence is shown.
pub(super) fn headline(story: &Story) -> String {
    let verdict = story.subject.verdict;
    let text = match verdict.valid {
        // It proves nothing of the lock, and is a finding all the same.
        Validity::Unknown if story.has(AnomalyKind::EndedByItself) => ended(story),
        Validity::Unknown if story.has(AnomalyKind::KeptOut) => kept_out(story),
        Validity::Unknown if story.is_unlocked() => "This run proves nothing.".to_string(),
        Validity::Unknown => "This run proves nothing about the lock.".to_string(),
        // That a lock was left behind says less than whom it kept out.
        Validity::Invalid if story.has(AnomalyKind::KeptOut) && first_broken(story) == Some(Claim::Timeouts) => {
            kept_out(story)
        }
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
    format!("{client} exited unexpectedly{times}; otherwise this run proves nothing about the lock.")
}

/// The clients that asked for a lock with no fault and never acquired it.
fn kept_out(story: &Story) -> String {
    let anomalies = &story.subject.verdict.anomalies;
    let first = anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::KeptOut);
    format!("{}.", first.map_or(String::new(), |anomaly| base::words::capital(&anomaly.summary.replace('`', ""))))
}

/// The first claim that is broken, in the order in which reports tell them.
fn first_broken(story: &Story) -> Option<Claim> {
    Claim::ALL.iter().copied().find(|claim| story.status(*claim) == ClaimStatus::Broken)
}

/// What was broken: the first claim in the order in which reports tell them.
fn violation(story: &Story) -> String {
    let verdict = story.subject.verdict;
    let lock = story.lock_name();
    let Some(broken) = first_broken(story) else {
        let reason = verdict.reasons.first().cloned();
        return reason.unwrap_or_else(|| format!("{lock} violated what the workload claims."));
    };
    let seen = story.seen(broken);
    let circumstances = Circumstances {
        lock: lock.to_string(),
        update: update(story),
        cause: cause(story, false),
        cause_of_losses: cause(story, true),
        end: and_the_end(story),
    };
    (seen.def.headline)(&seen, &circumstances)
}

/// What a valid run shows.
fn kept(story: &Story) -> String {
    let lock = story.lock_name();
    let faults = story.subject.history.faults.iter().filter(|fault| fault.was_observed()).count() as u64;
    let through = unless_none(faults, |_| format!(" through {}", plural(faults, "fault")));
    let overlaps = story.contradictions(Claim::MutualExclusion);
    let text = match overlaps {
        0 => format!("{lock} {}", survived(story, &through)),
        _ => let_in(story, &lock, overlaps, &through),
    };
    let gap = story.subject.verdict.lock.longest_gap.as_ref().filter(|gap| is_long(story.subject.history, gap));
    let gap = gap.map_or_else(String::new, |gap| {
        format!(" But for {} no client acquired the free lock of {}.", length(gap.to - gap.from), gap.key)
    });
    let never = match story.status(Claim::MutualExclusion) {
        ClaimStatus::Held if story.claims(Claim::MutualExclusion) => {
            // A client that stood still may have believed in its lock while another had it.
            let held = if story.subject.verdict.mutual_exclusion.to_last_act == 0 {
                "hold the lock"
            } else {
                "act as its holder"
            };
            format!(", and never let {} {held} at once", too_many_clients(story.subject.history))
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
    let too_many =
        format!("{lock} let {} hold the lock at once {times}{through}", too_many_clients(story.subject.history));
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
