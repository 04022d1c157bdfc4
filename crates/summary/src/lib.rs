//! Everything that is told of a run, said once: made from its verdict and history, in words and numbers.
//!
//! A [`RunSummary`] is plain data that reads back as it was written; `results.json` is nothing else. Pages, terminal and
//! JSON print it and make no sentence of their own, and a page over many runs can read the same value. It decides nothing:
//! it says what the checker concluded, of every history that loads: without a header, without a clock, cut off in the
//! middle, or with values that a user's client made up. Texts from outside are as they came; whoever prints them makes them
//! safe.
//!
//! - [`story`]: history and verdict indexed; anomalies grouped into incidents; the names of those involved
//! - [`headline`], [`cause`]: the run in a sentence, and what most incidents have in common
//! - [`claims`], [`ends`], [`numbers`]: its claims, its resource, its counts
//! - [`diagnoses`]: what is wrong with the lock, and which incidents that explains
//! - [`explain`], [`incidents`]: each incident, sentence by sentence, with the lines that it follows from
//! - [`remedies`]: what would have prevented an incident
//! - [`advice`]: what to do about a run that proves nothing
//! - [`setting`]: what was run, with what, and how to run it again
//! - [`table`]: the same for a suite of runs
//!
//! Drawings are made from the [`Story`] too, since they show operations; [`times`] says when those held the lock.

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

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use advice::Advice;
pub use cause::{Why, why_of};
pub use claims::ClaimAccount;
pub use diagnoses::{DiagnosisAccount, life_of_key};
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

/// What a run is told from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// None if only a history was given.
    pub scenario: Option<&'a Scenario>,
    pub history: &'a History,
    pub verdict: &'a Verdict,
    pub facts: &'a RunFacts,
}

/// Everything that is told of a run. Fields are written in this order; more may be added, existing ones keep their names
/// and meanings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Left out of a real run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// `true`, `false` or `"unknown"`.
    pub valid: Validity,
    /// The headline; of a run that proves nothing, with the first reason.
    #[serde(rename = "summary")]
    pub one_line: String,
    /// The run in one sentence.
    pub headline: String,
    /// What is wrong with the lock, from the commands that its nodes carried out: first what can be mended, and what did harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnoses: Vec<DiagnosisAccount>,
    /// That the diagnosis is not the one that the catalogue knows of this library under this nemesis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misdiagnosed: Option<String>,
    /// Why the verdict is not valid, most important first, each said once.
    pub reasons: Vec<String>,
    /// What to do about each reason, in their order, if the run proves nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// What a reader must know before believing the rest.
    pub notes: Vec<String>,
    /// Each claim with the evidence for it.
    pub claims: Vec<ClaimAccount>,
    pub lost_updates: LostUpdates,
    /// The final state of each key.
    pub keys: Vec<KeyEnd>,
    /// `4 of 5 lost updates`; None if there is only one key.
    pub keys_text: Option<String>,
    /// How counters or lists ended; None for others.
    pub resource_text: Option<String>,
    /// The 95 % confidence interval of the share of lost updates. None: a single run does not tell how runs vary.
    pub lost_95: Option<(f64, f64)>,
    pub mutual_exclusion: MutualExclusion,
    pub lock: LockProperties,
    /// From the first operation to the first violation of what the workload claims; None if there was none.
    pub first_violation_s: Option<f64>,
    /// Acknowledged client operations per second of the time in which clients were busy; None if they never were.
    pub acknowledged_per_second: Option<f64>,
    /// Of acknowledged client operations; None if there were none.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// From the first to the last event of a client.
    pub busy_s: f64,
    pub counts: Counts,
    /// Whether clients wrote and never asked for a lock, so that locks need no mention.
    pub unlocked: bool,
    /// Client reads that returned a value.
    pub acknowledged_reads: u64,
    pub faults: Faults,
    pub workload: Option<String>,
    pub nemesis: Option<String>,
    pub seed: Option<u64>,
    pub started: String,
    /// How late a timer of the controller was at worst while clients worked: if it is a good part of the TTL, the machine
    /// was too busy for the plan's times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_at_line: Option<u64>,
    pub gates: Vec<Gate>,
    /// `17 of 18 passed; failed: contention`.
    pub gates_text: String,
    /// What the incidents are, or were not: `What went wrong`.
    pub incidents_title: String,
    /// Said if there are none.
    pub no_incident: Option<String>,
    /// Those that lost updates first, then those that break a claim, each group ordered by time.
    pub incidents: Vec<IncidentAccount>,
    /// What the times are, where clients' clocks could not be used.
    pub times_text: Option<String>,
    /// Ordered by time.
    pub anomalies: Vec<AnomalyAccount>,
    /// What no workload claims, and its users want to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advisories: Vec<Remark>,
    pub image: String,
    /// The lock client's name and version, as it reported them.
    pub client: String,
    pub versions: BTreeMap<String, String>,
    pub setting: Vec<Row>,
    /// What it ran on, and with which versions.
    pub made_with: Vec<Row>,
    /// The run folder, as the user would type it; may be empty.
    pub folder: String,
    /// The command that repeats the run; may be empty.
    pub repeat: String,
    /// What that command repeats.
    pub repeat_text: String,
    /// The command that checks the history again.
    pub check: String,
}

impl RunSummary {
    /// Tells a run. Linear in operations, faults and anomalies, but for incidents of many operations.
    pub fn new(story: &Story) -> RunSummary {
        let Subject { history, verdict, facts, .. } = story.subject;
        let known = remedies::RemediesSoFar::default();
        let incidents: Vec<IncidentAccount> =
            story.incidents.iter().map(|incident| IncidentAccount::new(story, incident, &known)).collect();
        let headline = headline::headline(story);
        RunSummary {
            simulated: story.is_simulated(),
            valid: verdict.valid,
            one_line: headline::with_reason(&headline, verdict),
            headline,
            diagnoses: Vec::new(),
            misdiagnosed: None,
            // Several gates may find that no fault was observed.
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

    /// Tells what the commands that the story follows make certain.
    pub fn diagnose(&mut self, story: &Story) {
        self.find_causes(story);
        self.anomalies = incidents::anomalies(story, &self.incidents);
    }

    /// Keeps the remedies that hold, as far as `holds` knows of the runs with them.
    pub fn keep_remedies(&mut self, holds: impl Fn(&Scenario) -> Option<bool>) {
        for incident in &mut self.incidents {
            incident.remedies.retain_mut(|remedy| {
                let held = remedy.run.as_ref().and_then(|run| holds(run));
                remedy.played = held == Some(true);
                held != Some(false)
            });
        }
    }

    /// How many contradictions of a claim were seen.
    pub fn contradictions(&self, claim: Claim) -> u64 {
        self.claims.iter().find(|account| account.checked.claim == claim).map_or(0, |account| account.contradictions)
    }
}
