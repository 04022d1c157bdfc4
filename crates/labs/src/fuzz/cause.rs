//! The cause of a violation. Runs with the same cause count as the same finding.

use std::fmt;
use std::ptr;

use base::members::Role;
use checker::{AnomalyKind, ClaimVerdict, Validity, Verdict};
use model::history::{FaultKind, History, StepOutcome};
use summary::{RunFacts, Story, Subject, Why, why_of};

/// Why a run is a violation: the anomaly, and what explains its incident.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    pub anomaly: AnomalyKind,
    pub by: By,
}

/// The explanation of an incident, as in the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// A fault, and the role of the member that it hit: `client`, `node`.
    Fault(FaultKind, String),
    /// A reason other than a fault.
    Other(Why),
    /// No certain explanation, although faults were active.
    Uncertain,
    /// No explanation, and there was no fault.
    Nothing,
}

impl Cause {
    /// The cause of a violation: that of the first anomaly that decides the verdict, lost updates before lock anomalies. None
    /// if the run is not a violation, if its script broke off, or if a fault was not observed. In the last two cases clients
    /// waited at breakpoints for an unknown time.
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

    /// True if a run with this cause counts as the `wanted` finding. If no fault explains the wanted violation for certain, a
    /// run without any fault counts too.
    pub fn is(&self, wanted: &Cause) -> bool {
        let fewer = self.by == By::Nothing && wanted.by == By::Uncertain;
        self.anomaly == wanted.anomaly && (self.by == wanted.by || fewer)
    }
}

/// The index of the first anomaly that decides the verdict; see [`Cause::of`]. The anomalies must be ordered by time.
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
    // Before the script, clients only show that the lock works. After it, they meet locks and faults that the script left
    // behind.
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

/// The role of a fault's first target; its name if it has no role.
fn hit(targets: &[String]) -> String {
    let first = targets.first().map_or("", String::as_str);
    Role::of(first).map_or(first, |role| role.word()).to_string()
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.anomaly.name())?;
        match &self.by {
            By::Fault(fault, at) if at.is_empty() => write!(f, ", {}", fault.says.name),
            By::Fault(fault, at) => write!(f, ", {} of a {at}", fault.says.name),
            By::Other((when, clause)) => write!(f, ", {when} {clause}"),
            By::Uncertain => f.write_str(", by an uncertain cause"),
            By::Nothing => f.write_str(", without a fault"),
        }
    }
}
