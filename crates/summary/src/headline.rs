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
use model::history::{Claim, Phase, StepOutcome};

/// At most this many characters of a reason are shown; the report has the rest.
const LONGEST_REASON: usize = 300;

/// The run in one sentence. For a simulated run, it says so first. A violation has this cause, such as ` when a node was killed`,
/// or else that of most of its incidents.
pub(super) fn headline(story: &Story, proven: Option<&str>) -> String {
    let verdict = story.subject.verdict;
    let text = match verdict.valid {
        // The run shows nothing about the lock, but this is still a finding.
        Validity::Unknown if story.has(AnomalyKind::EndedByItself) => ended(story),
        Validity::Unknown if story.has(AnomalyKind::KeptOut) => kept_out(story),
        Validity::Unknown if story.is_unlocked() => "This run proves nothing.".to_string(),
        Validity::Unknown => "This run proves nothing about the lock.".to_string(),
        // The clients that were kept out say more than the lock that was left behind.
        Validity::Invalid if story.has(AnomalyKind::KeptOut) && first_broken(story) == Some(Claim::Timeouts) => {
            kept_out(story)
        }
        Validity::Invalid => violation(story, proven),
        Validity::Valid => kept(story),
    };
    if story.is_simulated() { format!("Simulated: {text}") } else { text }
}

/// A headline with the first reason, if the run is unknown.
pub(super) fn with_reason(headline: &str, verdict: &Verdict) -> String {
    match verdict.reasons.first().filter(|_| verdict.valid == Validity::Unknown) {
        Some(reason) => format!("{}: {}", headline.trim_end_matches('.'), line(reason, LONGEST_REASON)),
        None => headline.to_string(),
    }
}

/// The headline if clients exited by themselves.
fn ended(story: &Story) -> String {
    let ended = || story.subject.verdict.anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::EndedByItself);
    let first = ended().next().and_then(|anomaly| story.names(&anomaly.operations).into_iter().next());
    let client = first.unwrap_or_else(|| "a client".to_string());
    let times = match ended().count() as u64 {
        1 => String::new(),
        many => format!(", the first of {}", count(many)),
    };
    format!("{client} exited unexpectedly{times}. This run proves nothing else about the lock.")
}

/// The clients that asked for a lock without any fault and never acquired it.
fn kept_out(story: &Story) -> String {
    let anomalies = &story.subject.verdict.anomalies;
    let first = anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::KeptOut);
    format!("{}.", first.map_or(String::new(), |anomaly| base::words::capital(&anomaly.summary.replace('`', ""))))
}

/// The first broken claim, in the order of reports.
fn first_broken(story: &Story) -> Option<Claim> {
    Claim::ALL.iter().copied().find(|claim| story.status(*claim) == ClaimStatus::Broken)
}

/// The headline of a violation: its first broken claim, in the order of reports.
fn violation(story: &Story, proven: Option<&str>) -> String {
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
        cause: proven.map_or_else(|| cause(story, false), str::to_string),
        cause_of_losses: proven.map_or_else(|| cause(story, true), str::to_string),
        end: and_the_end(story),
    };
    (seen.def.headline)(&seen, &circumstances)
}

/// The headline of a valid run.
fn kept(story: &Story) -> String {
    let lock = story.lock_name();
    let faults = story.subject.history.faults.iter().filter(|fault| fault.was_observed()).count() as u64;
    let during = unless_none(faults, |_| format!(" during {}", plural(faults, "fault")));
    let overlaps = story.contradictions(Claim::MutualExclusion);
    let text = match overlaps {
        0 => format!("{lock} {}", survived(story, &during)),
        _ => let_in(story, &lock, overlaps, &during),
    };
    let gap = story.subject.verdict.lock.longest_gap.as_ref().filter(|gap| is_long(story.subject.history, gap));
    let gap = gap.map_or_else(String::new, |gap| match (story.permits(), length(gap.to - gap.from)) {
        (1, lasted) => format!(" However, no client acquired the free lock of {} for {lasted}.", gap.key),
        (_, lasted) => {
            format!(" However, a permit of {} stayed free for {lasted}, though clients asked for it.", gap.key)
        }
    });
    let never = match story.status(Claim::MutualExclusion) {
        ClaimStatus::Held if story.claims(Claim::MutualExclusion) => {
            // A client that paused may have believed that it held the lock while another one did.
            let held = if story.subject.verdict.mutual_exclusion.to_last_act == 0 {
                "hold the lock"
            } else {
                "act as its holder"
            };
            format!(", and never let {} {held} at once", too_many_clients(story.subject.history))
        }
        _ => String::new(),
    };
    format!("{text}{never}{}.{}{gap}", and_the_end(story), in_time(story))
}

/// The result of a script that tests whether clients can acquire the lock: otherwise the headline would name only what it did not
/// test. Empty for other scripts, and unless each such step succeeded.
fn in_time(story: &Story) -> &'static str {
    let steps = story.subject.history.steps.iter().map(|(_, step)| step);
    let mut expected = steps.filter(|step| step.expects.is_some_and(|of| of.phase == Some(Phase::Acquired))).peekable();
    let is_shown = story.claims(Claim::Liveness) && story.status(Claim::Liveness) == ClaimStatus::Held;
    if is_shown && expected.peek().is_some() && expected.all(|step| step.outcome == StepOutcome::Happened) {
        " Clients acquired the lock in time wherever the scenario expects it."
    } else {
        ""
    }
}

/// How the acknowledged updates of a valid run survived.
fn survived(story: &Story, during: &str) -> String {
    let (update, lost) = (update(story), story.subject.verdict.lost_updates);
    let in_flight = in_flight(story);
    match lost.acknowledged {
        0 => format!("broke none of its claims{during}"),
        all if lost.count > 0 => format!(
            "broke none of its claims{during}, though {} of {} {} lost",
            count(lost.count),
            plural(all, &format!("acknowledged {update}")),
            if lost.count == 1 { "was" } else { "were" }
        ),
        all if in_flight > 0 => format!(
            "kept all but {} of {}{during}; {} to a client's own write in flight",
            count(in_flight),
            plural(all, &format!("acknowledged {update}")),
            if in_flight == 1 { "that one was lost" } else { "those were lost" }
        ),
        1 => format!("kept the one acknowledged {update}{during}"),
        all => format!("kept all {} acknowledged {update}s{during}", count(all)),
    }
}

/// The number of acknowledged updates that writes in flight overwrote, which no lock can prevent.
fn in_flight(story: &Story) -> u64 {
    let anomalies = story.subject.verdict.anomalies.iter();
    anomalies.filter(|one| one.kind == AnomalyKind::WriteInFlight).map(|one| one.lost.len() as u64).sum()
}

/// The headline if the lock let in too many clients but no claim broke. The resource prevented harm, not the lock.
fn let_in(story: &Story, lock: &str, overlaps: u64, during: &str) -> String {
    let times = if overlaps == 1 { "once".to_string() } else { plural(overlaps, "time") };
    let during = if during.is_empty() { String::new() } else { format!(",{during}") };
    let too_many = format!(
        "{lock} let {} hold the lock at the same time ({times}{during})",
        too_many_clients(story.subject.history)
    );
    let refused = story.client_operations().filter(|operation| was_refused(story, operation)).count() as u64;
    let lost = story.subject.verdict.lost_updates;
    let gone = lost.count + in_flight(story);
    let all = plural(lost.acknowledged, &format!("acknowledged {}", update(story)));
    let kept = match (lost.acknowledged, gone) {
        (0, _) => None,
        (_, 0) => Some(format!("None of {all} was lost")),
        (_, _) => Some(format!("{} of {all} lost", count(gone))),
    };
    let refused = (refused > 0).then(|| format!("the resource refused {}", plural(refused, "late write")));
    match (refused, kept) {
        (refused, Some(kept)) if gone == 0 => {
            let although = match too_many.strip_prefix("The ") {
                Some(rest) => format!("the {rest}"),
                None => too_many,
            };
            let refused = refused.map_or_else(String::new, |refused| format!("; {refused}"));
            format!("{kept}, although {although}{refused}")
        }
        (Some(refused), Some(kept)) => format!("{too_many}; {refused}, {kept}"),
        (Some(one), None) | (None, Some(one)) => format!("{too_many}; {one}"),
        (None, None) => format!("{too_many}, which this workload does not rule out"),
    }
}
