//! The questions to a history, one property per file: its declaration, its words, and its check.
//!
//! A file contains everything about its property. [`super`] lists the properties with their kinds of anomalies; the list of
//! advisories is here. The verdict depends on ranks and never on names. A failed gate makes a run unknown, a violated claim of
//! the workload makes it invalid, and an advisory is only reported.
//!
//! Deliberately absent: facts that several properties need, such as which client had the lock and which could not report.
//! [`super::case`] computes them once.

pub mod amounts;
pub mod answers;
pub mod busy_polling;
pub mod client_crash;
pub mod client_crashes;
pub mod early_refusals;
pub mod false_losses;
pub mod grants;
pub mod kept_out;
pub mod liveness;
pub mod loss_report_delay;
pub mod losses;
pub mod mutual_exclusion;
pub mod ownership;
pub mod releases;
mod sent;
pub mod slow_releases;
pub mod stray_commands;
pub mod tokens;
pub mod updates;
pub mod write_in_flight;

use super::AnomalyKind;
use super::case::Case;
use super::evidence::Findings;
use super::owners::Owners;
use super::starved::{Needs, everyone_ran, kept};
use super::verdict::{Anomaly, Blames, Remark, Verdict};
use super::words::{Words, length, seconds};
use base::words::{count, plural, sanitize};
use model::history::{Claim, Header, History, Operation, Outcome, Phase, PhaseStamp, Process, RecordedCommand};
use sent::SentCommands;

/// The declaration of a property.
pub struct Property {
    /// The id in `redjepsen list properties` and `results.json`. Stored files contain it, so it never changes.
    pub id: &'static str,
    pub rank: Rank,
    /// The property, as a sentence without a full stop.
    pub title: &'static str,
    /// The runs in which it is checked, for `redjepsen list properties`.
    pub applies: &'static str,
    /// The key of a workload's file that sets a parameter of the property.
    pub parameter: Option<&'static str>,
    pub(super) check: fn(&Case) -> Findings,
}

/// The consequence if a property does not hold.
pub enum Rank {
    /// The run proves nothing.
    Gate,
    /// The run is invalid, if the workload makes the claim.
    Claim(ClaimDef),
}

/// The declaration of a claim.
pub struct ClaimDef {
    pub claim: Claim,
    /// True for a claim about situations that a run may lack, such as the library's answers about a lost lock. Without evidence
    /// it is not shown, and leaves the verdict to the others. It counts only for workloads that make it.
    pub conditional: bool,
    /// Decides whether it counts for the verdict of a run with this header.
    pub decides: fn(&Header) -> bool,
    /// Decides whether to report the outcome for this history although the workload does not make the claim.
    pub concerns: fn(&History) -> bool,
    /// How many contradictions were counted, if that is more than the number of listed anomalies.
    pub counted: fn(&Verdict) -> u64,
    /// A more exact title for a run, if there is one.
    pub retitled: fn(&History) -> Option<String>,
    /// Why the verdict is invalid, in a sentence without a full stop.
    pub reason: fn(&Seen) -> String,
    /// The findings, in a few words, whether the claim holds or not.
    pub found: fn(&Seen) -> String,
    /// The headline of the run, if this is the first violated claim.
    pub headline: fn(&Seen, &Circumstances) -> String,
}

impl ClaimDef {
    /// A claim about the library's answers. It counts only if the workload makes it.
    pub const fn of_answers(
        claim: Claim,
        decides: fn(&Header) -> bool,
        found: fn(&Seen) -> String,
        headline: fn(&Seen, &Circumstances) -> String,
    ) -> ClaimDef {
        ClaimDef {
            claim,
            conditional: true,
            decides,
            concerns: |_| false,
            counted: |_| 0,
            retitled: |_| None,
            reason: |seen| seen.first_summary(),
            found,
            headline,
        }
    }
}

/// The declaration of an advisory: a property that no workload claims but users want to know about. It is only reported.
pub struct Advisory {
    /// The id in `redjepsen list properties` and `results.json`. Stored files contain it, so it never changes.
    pub id: &'static str,
    /// The advisory, as a sentence without a full stop.
    pub title: &'static str,
    /// The runs in which it is checked, for `redjepsen list properties`.
    pub applies: &'static str,
    /// Returns the finding that contradicts this advisory, if any.
    pub check: fn(&Recorded) -> Option<Remark>,
}

/// The advisories, in the order of the report.
pub static ADVISORIES: &[&Advisory] = &[
    &client_crashes::DEF,
    &kept_out::ADVISORY,
    &false_losses::DEF,
    &loss_report_delay::DEF,
    &stray_commands::DEF,
    &early_refusals::DEF,
    &slow_releases::DEF,
    &busy_polling::DEF,
];

/// The data that advisories check.
#[derive(Clone, Copy)]
pub struct Recorded<'a> {
    pub history: &'a History,
    pub verdict: &'a Verdict,
    /// The commands that the nodes recorded; empty if they did not record any.
    pub commands: &'a [RecordedCommand],
}

/// The declaration of a kind of anomaly.
pub struct AnomalyDef {
    /// The displayed name: `lost update`.
    pub name: &'static str,
    /// The title of an incident that shows it.
    pub incident: &'static str,
    /// The lines of the history that prove its summary.
    pub lines: Lines,
    pub(super) blames: Blames,
}

/// The lines of the history that show an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// All lines of its operations.
    Operations,
    /// The lines in which its operations ask for and acquire their locks.
    Grants,
    /// The library's answers about the lock, and the lines that show which client had it.
    Answers,
    /// The facts about locks that were left behind.
    LeftBehind,
    /// The attempts on the key that were in progress.
    Attempts,
}

impl Property {
    /// The property of this claim.
    pub fn of(claim: Claim) -> &'static Property {
        let is_it = |property: &&&Property| property.claim().is_some_and(|def| def.claim == claim);
        super::PROPERTIES.iter().find(is_it).expect("each claim is in the list, as a test says")
    }

    pub fn claim(&self) -> Option<&ClaimDef> {
        match &self.rank {
            Rank::Claim(def) => Some(def),
            Rank::Gate => None,
        }
    }

    /// See [`ClaimDef::conditional`].
    pub fn is_conditional(&self) -> bool {
        self.claim().is_some_and(|def| def.conditional)
    }

    /// True if it is checked in this history.
    pub(super) fn is_asked(&self, history: &History) -> bool {
        let made = |def: &ClaimDef| history.run.as_ref().is_some_and(|run| run.claims.contains(&def.claim));
        self.claim().is_none_or(|def| !def.conditional || made(def))
    }
}

/// The outcome of a claim in a run.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub history: &'a History,
    pub verdict: &'a Verdict,
    pub def: &'a ClaimDef,
}

impl<'a> Seen<'a> {
    pub fn new(history: &'a History, verdict: &'a Verdict, claim: Claim) -> Seen<'a> {
        let def = Property::of(claim).claim().expect("it is a claim");
        Seen { history, verdict, def }
    }

    fn anomalies(&self) -> impl Iterator<Item = &'a Anomaly> + use<'a> {
        let claim = self.def.claim;
        self.verdict.anomalies.iter().filter(move |anomaly| anomaly.kind.contradicts() == Some(claim))
    }

    /// Number of contradictions.
    pub fn contradictions(&self) -> u64 {
        (self.def.counted)(self.verdict).max(self.anomalies().count() as u64)
    }

    fn permits(&self) -> u32 {
        self.history.permits()
    }

    fn first_of(&self, kind: AnomalyKind) -> Option<&'a Anomaly> {
        self.anomalies().find(|anomaly| anomaly.kind == kind)
    }

    /// The summary of the first anomaly, of the kind that comes first.
    fn first_summary(&self) -> String {
        self.anomalies().min_by_key(|anomaly| anomaly.kind).map(|anomaly| anomaly.summary.clone()).unwrap_or_default()
    }

    /// ` 3 times`; empty if it happened once.
    fn times(&self) -> String {
        match self.contradictions() {
            1 => String::new(),
            many => format!(" {} times", count(many)),
        }
    }
}

/// Parts of a headline besides the violated claim.
pub struct Circumstances {
    /// `Redlock`
    pub lock: String,
    /// `update`, `increment`
    pub update: &'static str,
    /// ` when its holder was paused`; may be empty.
    pub cause: String,
    /// The same for the incidents that lost updates.
    pub cause_of_losses: String,
    /// The end of a counter or list: `: the counter k0 ends at 93`; may be empty.
    pub end: String,
}

/// True if a fault had been injected or an operation cancelled by then.
fn was_disturbed(history: &History, time: u64) -> bool {
    history.faults.iter().any(|window| window.skipped.is_none() && window.inject <= time)
        || history.steps.iter().any(|(at, step)| *at <= time && step.step.starts_with("cancel "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{AnomalyKind, PROPERTIES};
    use super::*;

    #[test]
    fn every_claim_is_declared_once_and_no_declaration_is_empty() {
        let claims: Vec<Claim> = PROPERTIES.iter().filter_map(|one| Some(one.claim()?.claim)).collect();
        assert_eq!(claims, Claim::ALL, "in the order in which reports tell them");
        let mut ids = BTreeSet::new();
        for property in PROPERTIES {
            assert!(ids.insert(property.id), "{} twice", property.id);
            assert!(![property.title, property.applies].contains(&""), "{}", property.id);
            let id = property.claim().map(|def| serde_json::to_string(&def.claim).unwrap());
            assert!(id.is_none_or(|id| id == format!("\"{}\"", property.id)), "{}", property.id);
        }
        for advisory in ADVISORIES {
            assert!(ids.insert(advisory.id), "{} twice", advisory.id);
            assert!(![advisory.title, advisory.applies].contains(&""), "{}", advisory.id);
        }
        let mut names = BTreeSet::new();
        for kind in AnomalyKind::ALL {
            assert!(names.insert(kind.name()) && !kind.def().incident.is_empty(), "{kind:?}");
        }
    }
}
