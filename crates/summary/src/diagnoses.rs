//! What is wrong with the lock, and which incidents that explains.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::RunSummary;
use super::setting::{known, known_finding, known_of_code};
use super::story::{Incident, Story};
use checker::{AnomalyKind, Validity};
use diagnosis::{Biographies, Diagnosis, Finding, Harm, KeyEvent};
use model::history::{Operation, RecordedCommand};

/// A diagnosis with what it explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiagnosisAccount {
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// The incidents that it explains, counted from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<usize>,
    /// What the catalogue knows of this defect in this library: its sentence, source lines and issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

impl DiagnosisAccount {
    fn new(story: &Story, diagnosis: Diagnosis) -> DiagnosisAccount {
        let known = known_of_code(story, &diagnosis.code);
        DiagnosisAccount { diagnosis, incidents: Vec::new(), known }
    }

    /// What happened first; harm before what only could have done harm.
    pub fn sentence(&self) -> &str {
        self.diagnosis.sentence()
    }

    /// `in 3 incidents`, `in 12 places, without harm in this run`
    pub fn seen(&self) -> String {
        let places = base::words::plural(self.diagnosis.findings.len() as u64, "place");
        match (self.incidents.len() as u64, self.diagnosis.is_harmful()) {
            (0, false) => format!("seen in {places}, without harm in this run"),
            (0, true) => format!("seen in {places}"),
            (many, _) => format!("seen in {places}; it explains {}", base::words::plural(many, "incident")),
        }
    }
}

impl RunSummary {
    /// Tells what the commands of this run's nodes make certain, in the headline too if it explains a broken claim.
    pub fn diagnose(&mut self, story: &Story, commands: &[RecordedCommand]) {
        let diagnoses = diagnosis::diagnose(story.subject.history, commands);
        let mut accounts: Vec<DiagnosisAccount> =
            diagnoses.into_iter().map(|diagnosis| DiagnosisAccount::new(story, diagnosis)).collect();
        for (number, incident) in story.incidents.iter().enumerate() {
            let Some((account, finding)) = explains(&accounts, incident) else { continue };
            let Diagnosis { code, name, .. } = &accounts[account].diagnosis;
            self.incidents[number].diagnosis =
                Some(Told { code: code.clone(), name: name.clone(), sentence: finding.sentence.clone() });
            accounts[account].incidents.push(number + 1);
        }
        // What explains most comes first, and among equals the order of the diagnoses is kept.
        accounts.sort_by_key(|account| (account.diagnosis.inherent, Reverse(account.incidents.len())));
        let is_broken =
            |account: &&DiagnosisAccount| account.incidents.iter().any(|number| self.incidents[number - 1].claimed);
        if self.valid == Validity::Invalid
            && let Some(account) = accounts.iter().find(is_broken)
        {
            let Diagnosis { title, code, .. } = &account.diagnosis;
            let title = base::words::small(title.trim_end_matches('.'));
            self.headline = format!("{}: {title} ({code}).", self.headline.trim_end_matches('.'));
            self.one_line.clone_from(&self.headline);
        }
        // What the catalogue knows stands beside its diagnosis, and need not stand among the notes.
        if let Some(known) = known(story).filter(|_| accounts.iter().any(|account| account.known.is_some())) {
            self.notes.retain(|note| *note != known);
        }
        // Where a node was not watched all the time, a diagnosis that is absent says nothing.
        let is_whole = commands.iter().all(|command| command.missed.is_none());
        self.misdiagnosed = misdiagnosed(story, &accounts).filter(|_| is_whole);
        self.notes.extend(self.misdiagnosed.clone());
        self.diagnoses = accounts;
    }
}

/// Says that a violation is not diagnosed as the catalogue has it; None if it is, or the catalogue has no code for it.
fn misdiagnosed(story: &Story, accounts: &[DiagnosisAccount]) -> Option<String> {
    let finding = known_finding(story)?;
    // A finding's code is that of its plainest nemesis, the first.
    let is_first = finding.nemesis.first() == story.subject.scenario.map(|scenario| &scenario.nemesis_name);
    let known = finding.code.as_ref().filter(|_| is_first)?;
    if accounts.iter().any(|account| account.diagnosis.code == *known) {
        return None;
    }
    let shown: Vec<String> = accounts.iter().map(|account| account.diagnosis.code.clone()).collect();
    let shown = if shown.is_empty() { "no diagnosis".to_string() } else { base::words::list(&shown) };
    Some(format!("The catalogue expects {known} of this library under this nemesis; the commands show {shown}."))
}

/// More of a key's life than this nobody reads.
const LIFE: usize = 40;

/// What became of an incident's key, from the first request of those involved to the last; and how much of it is left out.
pub fn life_of_key(biographies: &Biographies, incident: &Incident) -> (Vec<KeyEvent>, usize) {
    let from = incident.operations.iter().map(|operation| operation.invoked).min().unwrap_or(incident.time);
    let to = incident.operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(incident.time);
    let mut events = biographies.of(incident.key, from, to);
    let left_out = events.len().saturating_sub(LIFE);
    events.truncate(LIFE);
    (events, left_out)
}

/// The diagnosis of an incident.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub code: String,
    pub name: String,
    /// What happened in this incident.
    pub sentence: String,
}

/// The diagnosis that explains an incident, and what shows that: it ended the lock of an operation of the incident before that was
/// seen, or kept the lock from others where somebody waited. What can be mended goes before what is inherent.
fn explains<'a>(accounts: &'a [DiagnosisAccount], incident: &Incident) -> Option<(usize, &'a Finding)> {
    let is_involved = |index: u64| incident.operations.iter().any(|operation| operation.index == index);
    let is_wait = incident.anomalies.iter().any(|anomaly| waits(anomaly.kind));
    let last = incident.operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(0);
    let concerns = |finding: &&Finding| {
        finding.key == incident.key
            && match finding.harm {
                Harm::None => false,
                Harm::Ended(index) => is_involved(index) && finding.time <= incident.time,
                // What it was told, or not told, mattered until its end.
                Harm::Misled(index) => is_involved(index) && finding.time <= incident.time.max(last),
                Harm::Waited => is_wait && finding.time <= incident.time.max(last),
                // What an attempt itself left behind kept another one out.
                Harm::Kept => {
                    let is_other = |operation: &&Operation| !finding.operations.contains(&operation.index);
                    is_wait && finding.time <= incident.time && incident.operations.iter().any(|one| is_other(&&**one))
                }
            }
    };
    let found = accounts.iter().enumerate().filter_map(|(place, account)| {
        // The last one before it.
        Some((place, account.diagnosis.findings.iter().filter(concerns).max_by_key(|finding| finding.time)?))
    });
    found.min_by_key(|(place, _)| (accounts[*place].diagnosis.inherent, *place))
}

/// Whether somebody waited for a lock that nobody had.
fn waits(kind: AnomalyKind) -> bool {
    use AnomalyKind::{AcquiredLate, LeftBehind, NotObtained, Unavailable, WaitedTooLong};
    matches!(kind, AcquiredLate | LeftBehind | NotObtained | Unavailable | WaitedTooLong)
}
