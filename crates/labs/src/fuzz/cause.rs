//! What broke a lock in a run, as far as runs with the same cause are told from others.

use std::fmt;
use std::ptr;

use base::members::Role;
use checker::{AnomalyKind, ClaimVerdict, Validity, Verdict};
use model::history::{FaultKind, History, StepOutcome};
use summary::{RunFacts, Story, Subject, Why, why_of};

/// Why a run is a violation: what went wrong, and what its incident was put down to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    pub anomaly: AnomalyKind,
    pub by: By,
}

/// What explains an incident, as the report tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// A fault, and whom it hit: `client`, `node`.
    Fault(FaultKind, String),
    /// Something that is no fault.
    Other(Why),
    /// Nothing that is certain, though faults were in effect.
    Uncertain,
    /// Nothing, and there was no fault.
    Nothing,
}

impl Cause {
    /// The cause of a violation: that of the first anomaly which decides the verdict, updates before locks. None if the
    /// run is no violation, if its script broke off, or if a fault was not seen to happen: clients waited at their
    /// breakpoints then, for nobody knows how long.
    pub fn of(history: &History, verdict: &Verdict) -> Option<Cause> {
        let of_each = verdict.anomalies.iter().map(|anomaly| (anomaly.kind, &*anomaly.operations));
        let anomaly = &verdict.anomalies[decisive(history, verdict.valid, verdict.claims.iter(), of_each)?];
        let subject = Subject { scenario: None, history, verdict, facts: &RunFacts::default() };
        let story = Story::new(subject);
        let incident = story.incidents.iter().find(|one| one.anomalies.iter().any(|other| ptr::eq(*other, anomaly)))?;
        let other = || incident.how().and_then(|how| why_of(how.kind));
        let by = match (incident.fault, other()) {
            (Some(window), _) => By::Fault(window.kind, hit(&window.targets)),
            (None, Some(why)) => By::Other(why),
            (None, None) if history.faults.iter().any(|window| window.injected.is_some()) => By::Uncertain,
            (None, None) => By::Nothing,
        };
        Some(Cause { anomaly: anomaly.kind, by })
    }

    /// Whether a run with this cause is one of those that were looked for: of a violation that no fault explains for certain, no
    /// fault at all may be left.
    pub fn is(&self, wanted: &Cause) -> bool {
        let fewer = self.by == By::Nothing && wanted.by == By::Uncertain;
        self.anomaly == wanted.anomaly && (self.by == wanted.by || fewer)
    }
}

/// The place of the first anomaly that decides the verdict, of these, which are ordered by time; see [`Cause::of`].
pub fn decisive<'a>(
    history: &History,
    valid: Validity,
    mut claims: impl Iterator<Item = &'a ClaimVerdict>,
    mut anomalies: impl Iterator<Item = (AnomalyKind, &'a [u64])>,
) -> Option<usize> {
    let broke_off = history.steps.iter().any(|(_, step)| step.outcome == StepOutcome::Failed);
    let unseen = history.faults.iter().any(|window| !window.was_observed() && !window.kind.is_at_command());
    let is_scripted = history.run.as_ref().is_some_and(|run| run.script_steps > 0);
    if valid != Validity::Invalid || (is_scripted && (broke_off || unseen)) {
        return None;
    }
    let broken = claims.find(|claim| claim.claimed && claim.valid == Validity::Invalid)?;
    // What the clients do before the script only shows that the lock works. What they do after it meets what the script left undone.
    let first = history.steps.first();
    let is_of_the_script = |index: &u64| {
        let operation = history.operations.iter().find(|operation| operation.index == *index);
        let ends_after =
            |time: u64| operation.is_none_or(|one| one.completed.is_none_or(|completed| completed >= time));
        first.is_none_or(|(time, _)| ends_after(*time))
    };
    anomalies.position(|(kind, operations)| {
        kind.contradicts() == Some(broken.claim) && operations.iter().any(is_of_the_script)
    })
}

/// Whom a fault with these targets hit, by its first one's role.
fn hit(targets: &[String]) -> String {
    let first = targets.first().map_or("", String::as_str);
    Role::of(first).map_or(first, |role| role.word()).to_string()
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.anomaly.name())?;
        match &self.by {
            By::Fault(fault, at) if at.is_empty() => write!(f, ", {fault}"),
            By::Fault(fault, at) => write!(f, ", {fault} of a {at}"),
            By::Other((when, clause)) => write!(f, ", {when} {clause}"),
            By::Uncertain => f.write_str(", by an uncertain cause"),
            By::Nothing => f.write_str(", without a fault"),
        }
    }
}
