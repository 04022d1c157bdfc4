//! What broke a lock in a run, as far as runs with the same cause are told from others.

use std::fmt;

use crate::checker::{AnomalyKind, Validity, Verdict};
use crate::history::{FaultKind, Header, History, StepOutcome};

/// Why a run is a violation: what went wrong, and the kind of fault that explains it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    pub anomaly: AnomalyKind,
    /// None if no fault explains it.
    pub fault: Option<FaultKind>,
    /// Whose fault it was: `client`, `node`.
    pub at: Option<String>,
}

impl Cause {
    /// The cause of a violation: that of the first anomaly which decides the verdict, updates before locks. None if the
    /// run is no violation, if its script broke off, or if a fault was not seen to happen: clients waited at their
    /// breakpoints then, for nobody knows how long.
    pub fn of(history: &History, verdict: &Verdict) -> Option<Cause> {
        let broke_off = history.steps.iter().any(|(_, step)| step.outcome == StepOutcome::Failed);
        let unseen = history.faults.iter().any(|window| !window.was_observed() && !window.kind.is_at_command());
        if verdict.valid != Validity::Invalid
            || (history.run.as_ref().is_some_and(is_scripted) && (broke_off || unseen))
        {
            return None;
        }
        let broken = verdict.claims.iter().find(|claim| claim.claimed && claim.valid == Validity::Invalid)?;
        // What the clients do before and after the script only shows that the lock works.
        let (first, last) = (history.steps.first(), history.steps.last());
        let is_of_the_script = |index: &u64| {
            let operation = history.operations.iter().find(|operation| operation.index == *index);
            operation.is_none_or(|operation| {
                first.is_none_or(|(time, _)| operation.completed.is_none_or(|completed| completed >= *time))
                    && last.is_none_or(|(time, _)| operation.invoked < *time)
            })
        };
        let anomaly = verdict.anomalies.iter().find(|anomaly| {
            anomaly.kind.contradicts() == Some(broken.claim) && anomaly.operations.iter().all(is_of_the_script)
        })?;
        let window = history.faults.iter().find(|window| Some(window.fault) == anomaly.fault);
        let at = window.and_then(|window| window.targets.first()).map(|target| match target.as_bytes() {
            [b'c', b'0'..=b'9', ..] => "client".to_string(),
            [b'n', b'0'..=b'9', ..] => "node".to_string(),
            _ => target.clone(),
        });
        Some(Cause { anomaly: anomaly.kind, fault: window.map(|window| window.kind), at })
    }
}

fn is_scripted(run: &Header) -> bool {
    run.script_steps > 0
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.anomaly.name())?;
        match (&self.fault, &self.at) {
            (Some(fault), Some(at)) => write!(f, ", {fault} of a {at}"),
            (Some(fault), None) => write!(f, ", {fault}"),
            (None, _) => f.write_str(", without a fault"),
        }
    }
}
