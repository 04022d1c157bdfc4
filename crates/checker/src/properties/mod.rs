//! What a history is asked, one property a file: its declaration, its words, and the check.
//!
//! A file says all there is to know of its property. The list is in [`super`], where a line names the property and its kinds of
//! anomalies; that of advisories is here. The verdict asks for ranks and never for names: a gate makes a run unknown, a claim that the workload makes
//! makes it invalid, an advisory is only reported.
//!
//! Deliberately absent: what several properties rest on, such as who had the lock and who could not speak. That is computed
//! once, in [`super::case`].

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
    /// As `redjepsen list properties` and `results.json` call it. It is in stored files, so it never changes.
    pub id: &'static str,
    pub rank: Rank,
    /// What it says, as a sentence without a full stop.
    pub title: &'static str,
    /// What it is checked in, for `redjepsen list properties`.
    pub applies: &'static str,
    /// The key of a workload's file that goes with it.
    pub parameter: Option<&'static str>,
    pub(super) check: fn(&Case) -> Findings,
}

/// What follows if a property does not hold.
pub enum Rank {
    /// The run proves nothing.
    Gate,
    /// The run is invalid, if the workload makes the claim.
    Claim(ClaimDef),
}

/// What a claim has besides.
pub struct ClaimDef {
    pub claim: Claim,
    /// Whether it is about what need not come up in a run, such as what a library says of a lock that is lost. Without
    /// evidence it is not shown, and leaves the verdict to the others. Only a workload that makes it is held to it.
    pub conditional: bool,
    /// Whether it decides the verdict of a run with this header.
    pub decides: fn(&Header) -> bool,
    /// Whether the history bears on it, so that its outcome is reported though the workload does not make it.
    pub concerns: fn(&History) -> bool,
    /// How many contradictions were counted, if that is more than the anomalies that are listed.
    pub counted: fn(&Verdict) -> u64,
    /// Its title in a run where another one is more exact.
    pub retitled: fn(&History) -> Option<String>,
    /// Why the verdict is invalid, in a sentence without a full stop.
    pub reason: fn(&Seen) -> String,
    /// What was found, in a few words, whether it holds or not.
    pub found: fn(&Seen) -> String,
    /// The run in a sentence, if this is the first claim that it breaks.
    pub headline: fn(&Seen, &Circumstances) -> String,
}

impl ClaimDef {
    /// A claim on what a library says: it is held to it only if its workload makes it.
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

/// The declaration of an advisory: a property that no workload claims, and that its users want to know of. It is only reported.
pub struct Advisory {
    /// As `redjepsen list properties` and `results.json` call it. It is in stored files, so it never changes.
    pub id: &'static str,
    /// What it says, as a sentence without a full stop.
    pub title: &'static str,
    /// What it is checked in, for `redjepsen list properties`.
    pub applies: &'static str,
    /// What speaks against it, if anything does.
    pub check: fn(&Recorded) -> Option<Remark>,
}

/// The advisories, in the order in which reports tell them.
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

/// What advisories are checked in.
#[derive(Clone, Copy)]
pub struct Recorded<'a> {
    pub history: &'a History,
    pub verdict: &'a Verdict,
    /// What the nodes carried out; empty where they were not recorded.
    pub commands: &'a [RecordedCommand],
}

/// The declaration of a kind of anomaly.
pub struct AnomalyDef {
    /// For people: `lost update`.
    pub name: &'static str,
    /// The title of an incident that shows it.
    pub incident: &'static str,
    /// Which lines of the history its summary follows from.
    pub lines: Lines,
    pub(super) blames: Blames,
}

/// The lines of the history that show an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// All lines of its operations.
    Operations,
    /// Those in which its operations ask for their locks and get them.
    Grants,
    /// What the library said of the lock, and who had it.
    Answers,
    /// The facts on locks that were left behind.
    LeftBehind,
    /// The attempts on the key that were under way.
    Attempts,
}

impl Property {
    /// The property that is this claim.
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

    /// Whether it is looked for in this history.
    pub(super) fn is_asked(&self, history: &History) -> bool {
        let made = |def: &ClaimDef| history.run.as_ref().is_some_and(|run| run.claims.contains(&def.claim));
        self.claim().is_none_or(|def| !def.conditional || made(def))
    }
}

/// What was seen of a claim in a run.
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

    /// The summary of the first anomaly of the first kind.
    fn first_summary(&self) -> String {
        self.anomalies().min_by_key(|anomaly| anomaly.kind).map(|anomaly| anomaly.summary.clone()).unwrap_or_default()
    }

    /// ` 3 times`, or nothing if it was once.
    fn times(&self) -> String {
        match self.contradictions() {
            1 => String::new(),
            many => format!(" {} times", count(many)),
        }
    }
}

/// What a headline says besides the claim that was broken.
pub struct Circumstances {
    /// `Redlock`
    pub lock: String,
    /// `update`, `increment`
    pub update: &'static str,
    /// ` when its holder was paused`, or nothing.
    pub cause: String,
    /// The same of the incidents that lost updates.
    pub cause_of_losses: String,
    /// How a counter or list ended, or nothing: `: the counter k0 ends at 93`.
    pub end: String,
}

/// Whether anything had been done to anybody by then.
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
