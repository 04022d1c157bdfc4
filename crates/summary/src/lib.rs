//! The summary of a run, in words and numbers, from its verdict and history.
//!
//! A [`RunSummary`] is plain data that can be read back from `results.json`. Pages, terminal and JSON print it and add no
//! sentences of their own. Pages over many runs read the same value. The summary decides nothing: it reports the checker's
//! conclusions. It must work for every history that loads: without a header, without a clock, truncated, or with values that a
//! user's client made up. Texts from outside are not escaped; the code that prints them must do so.
//!
//! - [`story`]: indexes history and verdict, groups anomalies into incidents, and names the members
//! - [`headline`], [`cause`]: the run in a sentence, and the common cause of most incidents
//! - [`claims`], [`ends`], [`numbers`]: its claims, its resource, its counts
//! - [`diagnoses`]: the lock's defects, and the incidents that they explain
//! - [`explain`], [`incidents`]: each incident in sentences, with the lines of the history
//! - [`remedies`]: changes that would have prevented an incident
//! - [`advice`]: advice for an unknown run
//! - [`setting`]: the setup, and the command that repeats the run
//! - [`table`]: the same for a suite run
//!
//! Drawings use the [`Story`] too, since they show operations. [`times`] has the times at which operations held the lock.

mod advice;
mod cause;
mod claims;
mod diagnoses;
mod ends;
mod explain;
mod facts;
mod headline;
mod incidents;
mod numbers;
mod remedies;
mod repeat;
mod setting;
pub mod store;
pub mod story;
pub mod table;
pub mod times;
mod told;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use advice::Advice;
pub use cause::{Why, why_of};
pub use claims::ClaimAccount;
pub use diagnoses::{DiagnosisAccount, INHERENT, life_of_key};
pub use diagnosis::{Diagnosis, KeyEvent};
pub use explain::principals;
pub use facts::RunFacts;
pub use incidents::{AnomalyAccount, IncidentAccount};
pub use numbers::{FaultAccount, Faults, Latency};
pub use remedies::Remedy;
pub use setting::Row;
pub use story::{ClaimStatus, Incident, Story};

use checker::{Counts, Gate, KeyEnd, LockProperties, LostUpdates, MutualExclusion, Remark, Validity, Verdict, advise};
use model::history::{Claim, History};
use model::scenario::Scenario;

/// The sources of a summary.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// None if only a history was given.
    pub scenario: Option<&'a Scenario>,
    pub history: &'a History,
    pub verdict: &'a Verdict,
    pub facts: &'a RunFacts,
}

/// The summary of a run. Fields are written in this order. More may be added; existing ones keep their names and meanings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Not written for a real run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// `true`, `false` or `"unknown"`.
    pub valid: Validity,
    /// The headline. For an unknown run, with the first reason.
    #[serde(rename = "summary")]
    pub one_line: String,
    /// The run in one sentence.
    pub headline: String,
    /// The lock's defects, from the commands that its nodes executed. Defects that explain the headline come first. Then fixable and
    /// harmful ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnoses: Vec<DiagnosisAccount>,
    /// A remark if the diagnosis differs from the one in the catalogue for this library under this nemesis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misdiagnosed: Option<String>,
    /// Why the verdict is not valid, without duplicates, the most important reason first.
    pub reasons: Vec<String>,
    /// If the run is unknown, the advice for each reason, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// Facts that a reader must know first.
    pub notes: Vec<String>,
    /// Each claim with the evidence for it.
    pub claims: Vec<ClaimAccount>,
    pub lost_updates: LostUpdates,
    /// The final state of each key.
    pub keys: Vec<KeyEnd>,
    /// `4 of 5 lost updates`; None if there is only one key.
    pub keys_text: Option<String>,
    /// The final state of counters or lists. None for other resources.
    pub resource_text: Option<String>,
    /// The 95% confidence interval of the share of lost updates. Always None: a single run does not show how runs vary.
    pub lost_95: Option<(f64, f64)>,
    pub mutual_exclusion: MutualExclusion,
    pub lock: LockProperties,
    /// The time from the first operation to the first violation of a claim of the workload. None if there was none.
    pub first_violation_s: Option<f64>,
    /// Acknowledged client operations per second in which clients were busy. None if they never were.
    pub acknowledged_per_second: Option<f64>,
    /// The latency of acknowledged client operations. None if there were none.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// The time from the first to the last event of a client.
    pub busy_s: f64,
    pub counts: Counts,
    /// True if clients wrote and never asked for a lock. Then reports do not mention locks.
    pub unlocked: bool,
    /// The number of client reads that returned a value.
    pub acknowledged_reads: u64,
    pub faults: Faults,
    /// The rule by which the resource refuses late writes. None if it accepts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    pub workload: Option<String>,
    pub nemesis: Option<String>,
    pub seed: Option<u64>,
    pub started: String,
    /// The largest delay of a timer of the controller while clients worked. If it is a good part of the TTL, the machine was
    /// too busy for the plan's times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_at_line: Option<u64>,
    pub gates: Vec<Gate>,
    /// `17 of 18 passed; failed: contention`.
    pub gates_text: String,
    /// The title of the incidents: `What went wrong`.
    pub incidents_title: String,
    /// The text if there are no incidents.
    pub no_incident: Option<String>,
    /// Incidents that lost updates come first, then those that break a claim. Each group is ordered by time.
    pub incidents: Vec<IncidentAccount>,
    /// A note on the times, if clients' clocks could not be used.
    pub times_text: Option<String>,
    /// Ordered by time.
    pub anomalies: Vec<AnomalyAccount>,
    /// Remarks that no claim covers but users want to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advisories: Vec<Remark>,
    pub image: String,
    /// The lock client's name and version, as it reported them.
    pub client: String,
    pub versions: BTreeMap<String, String>,
    pub setting: Vec<Row>,
    /// The environment and its versions.
    pub made_with: Vec<Row>,
    /// The run folder, as the user would type it. May be empty.
    pub folder: String,
    /// The command that repeats the run. May be empty.
    pub repeat: String,
    /// A sentence on what that command repeats.
    pub repeat_text: String,
    /// The command that checks the history again.
    pub check: String,
}

impl RunSummary {
    /// Summarizes a run. The time is linear in operations, faults and anomalies, except for incidents of many operations.
    pub fn new(story: &Story) -> RunSummary {
        let Subject { history, verdict, facts, .. } = story.subject;
        let known = remedies::RemediesSoFar::default();
        let incidents: Vec<IncidentAccount> =
            story.incidents.iter().map(|incident| IncidentAccount::new(story, incident, &known)).collect();
        let headline = headline::headline(story, None);
        RunSummary {
            simulated: story.is_simulated(),
            valid: verdict.valid,
            one_line: headline::with_reason(&headline, verdict),
            headline,
            diagnoses: Vec::new(),
            misdiagnosed: None,
            // Several gates may have the same reason, such as that no fault was observed.
            reasons: table::distinct(verdict.reasons.iter().map(String::as_str)),
            advice: advice::advice(story),
            notes: setting::notes(story),
            claims: verdict.claims.iter().map(|claim| ClaimAccount::new(story, claim)).collect(),
            lost_updates: verdict.lost_updates,
            keys: verdict.keys.clone(),
            keys_text: ends::keys(story),
            resource_text: ends::end_of_all(story),
            lost_95: None,
            mutual_exclusion: verdict.mutual_exclusion,
            lock: verdict.lock.clone(),
            first_violation_s: numbers::first_violation_s(story),
            acknowledged_per_second: numbers::per_second(story),
            latency: numbers::latency(story),
            busy_s: story.busy_seconds(),
            counts: verdict.counts,
            unlocked: story.is_unlocked(),
            acknowledged_reads: story.acknowledged_reads(),
            faults: Faults::new(history),
            refusal: story.refusal().map(str::to_string),
            workload: story.workload().map(str::to_string),
            nemesis: story.nemesis().map(str::to_string),
            seed: story.seed(),
            started: story.started().to_string(),
            late_ms: facts.late_ms,
            truncated_at_line: history.truncated_at_line,
            gates: verdict.gates.clone(),
            gates_text: numbers::gates(&verdict.gates),
            incidents_title: incidents::title(story).to_string(),
            no_incident: incidents.is_empty().then(|| incidents::nothing_wrong(story)),
            times_text: history.clock.is_none().then(|| incidents::WITHOUT_CLOCK.to_string()),
            anomalies: incidents::anomalies(story, &incidents),
            incidents,
            advisories: advise(history, verdict, &[]),
            image: facts.image.clone(),
            client: story.client().to_string(),
            versions: facts.versions.clone(),
            setting: setting::setting(story),
            made_with: setting::made_with(story),
            folder: facts.folder.clone(),
            repeat: facts.repeat.clone(),
            repeat_text: setting::repeats(story).to_string(),
            check: setting::check(&facts.folder),
        }
    }

    /// Adds the diagnoses that the nodes' commands prove.
    pub fn diagnose(&mut self, story: &Story) {
        self.find_causes(story);
        self.anomalies = incidents::anomalies(story, &self.incidents);
    }

    /// Keeps only remedies that work. `holds` returns the result of the run with a remedy, if it is known.
    pub fn keep_remedies(&mut self, holds: impl Fn(&Scenario) -> Option<bool>) {
        for incident in &mut self.incidents {
            incident.remedies.retain_mut(|remedy| {
                let held = remedy.run.as_ref().and_then(|run| holds(run));
                remedy.played = held == Some(true);
                held != Some(false)
            });
        }
    }

    /// The number of contradictions of a claim.
    pub fn contradictions(&self, claim: Claim) -> u64 {
        self.claims.iter().find(|account| account.checked.claim == claim).map_or(0, |account| account.contradictions)
    }
}
