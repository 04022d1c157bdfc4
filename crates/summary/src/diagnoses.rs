//! The lock's defects, and the incidents that they explain.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::RunSummary;
use super::advice::Advice;
use super::explain::narrate;
use super::headline::headline;
use super::incidents::IncidentAccount;
use super::setting::{known, known_finding, known_of_code};
use super::story::{ClaimStatus, Incident, Story};
use super::told::Told;
use checker::{AnomalyKind, Validity};
use diagnosis::{Diagnosis, Finding, Harm, KeyEvent};
use model::history::{Claim, Phase};
use model::scenario::Fencing;

/// The remark on an inherent diagnosis.
pub const INHERENT: &str =
    "This can happen to every lock with a TTL on Redis; only the resource that the lock protects can prevent the harm.";

/// The fix of an inherent diagnosis if the resource already checks fencing tokens, but only on writes.
const READS_TOO: &str = "Checking fencing tokens on writes is not enough: two late holders can both write, in the order of their tokens. \
    Let the resource check tokens on reads too, as in `fenced-reads`, or compare with the value that was read.";
/// The same if a server, not the holder, lost the lock: then its tokens may be lost as well.
const COMPARE_TOO: &str = "Checking fencing tokens on writes is not enough: a server that loses a lock may hand out its tokens again. Let \
    the resource compare with the value that was read.";

/// A diagnosis with the incidents that it explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiagnosisAccount {
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// The incidents that it explains, counted from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<usize>,
    /// The catalogue's entry on this defect in this library: its sentence, source lines and issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

impl DiagnosisAccount {
    fn new(story: &Story, diagnosis: Diagnosis) -> DiagnosisAccount {
        let known = known_of_code(story, &diagnosis.code);
        let mut diagnosis = diagnosis;
        if story.is_simulated() {
            diagnosis.right = diagnosis.right.map(|command| format!("{command} --cluster sim"));
        }
        let fencing = story.subject.scenario.map(|scenario| scenario.workload.resource.fencing);
        if diagnosis.inherent && matches!(fencing, Some(Fencing::Token | Fencing::TokenGreater)) {
            diagnosis.fix = if diagnosis.code == "RJ022" { READS_TOO } else { COMPARE_TOO }.to_string();
        }
        DiagnosisAccount { diagnosis, incidents: Vec::new(), known }
    }

    /// The first harmful finding. If none did harm, the first one that could have.
    pub fn sentence(&self) -> &str {
        self.diagnosis.sentence()
    }

    /// A text such as `in 3 incidents`, `in 12 places, without harm in this run`
    pub fn seen(&self) -> String {
        let places = base::words::plural(self.diagnosis.places(), "place");
        match (self.incidents.len() as u64, self.diagnosis.is_harmful()) {
            (0, false) => format!("seen in {places}, without harm in this run"),
            (0, true) => format!("seen in {places}"),
            (many, _) => format!("seen in {places}; it explains {}", base::words::plural(many, "incident")),
        }
    }
}

impl RunSummary {
    /// The advice on a reason. None if another reason explains it.
    pub fn advice_on(&self, reason: &str) -> Option<&Advice> {
        self.advice.iter().find(|advice| advice.reason == reason)
    }

    /// Adds the diagnoses that the nodes' commands prove. If one explains a broken claim, it is also in the headline.
    pub(super) fn find_causes(&mut self, story: &Story) {
        let Some(lives) = &story.lives else { return };
        let commands = lives.commands;
        let diagnoses = lives.diagnose();
        let mut accounts: Vec<DiagnosisAccount> =
            diagnoses.into_iter().map(|diagnosis| DiagnosisAccount::new(story, diagnosis)).collect();
        for (number, incident) in story.incidents.iter().enumerate() {
            let causes = explains(story, &accounts, incident);
            let places: Vec<usize> = causes.iter().map(|(account, _)| *account).collect();
            let mut told =
                causes.into_iter().map(|(account, finding)| Told::new(lives, &accounts[account].diagnosis, finding));
            let of_incident = &mut self.incidents[number];
            (of_incident.diagnosis, of_incident.also) = (told.next(), told.collect());
            of_incident.sentences = narrate(story, incident, of_incident.told().filter_map(Told::as_step).collect());
            places.iter().for_each(|account| accounts[*account].incidents.push(number + 1));
        }
        accounts.iter_mut().for_each(|account| account.diagnosis.shorten());
        // The headline is about the first broken claim.
        let broken = Claim::ALL.iter().find(|claim| story.status(**claim) == ClaimStatus::Broken);
        let is_of_it =
            |incident: &Incident| broken.is_some_and(|broken| contradicted(story, incident).contains(broken));
        let can_break = |account: &DiagnosisAccount| {
            diagnosis::find(&account.diagnosis.code)
                .zip(broken)
                .is_some_and(|(kind, broken)| kind.breaks.contains(broken))
        };
        let is_unknown = self.valid == Validity::Unknown;
        let leads = |account: &DiagnosisAccount| {
            let mut incidents = account.incidents.iter().map(|number| &story.incidents[number - 1]);
            match is_unknown {
                true => incidents.any(|incident| incident.has(AnomalyKind::KeptOut)),
                false => can_break(account) && incidents.any(is_of_it),
            }
        };
        // Order: first the defects of the headline. Then defects that end locks come before false reports about locks, and those
        // that explain more incidents come first. Otherwise the order of the diagnoses is kept.
        let ends_none = |account: &DiagnosisAccount| {
            !account.diagnosis.findings.iter().any(|finding| matches!(finding.harm, Harm::Ended(_)))
        };
        accounts.sort_by_key(|account| {
            (!leads(account), account.diagnosis.inherent, ends_none(account), Reverse(account.incidents.len()))
        });
        if is_unknown && !story.has(AnomalyKind::KeptOut) {
            self.tell_what_keeps_all_out(story, &accounts);
        } else if self.valid != Validity::Valid
            && let Some(account) = accounts.first().filter(|account| leads(account))
        {
            let Diagnosis { title, code, .. } = &account.diagnosis;
            let title = title.trim_end_matches('.');
            let of_it = story.incidents.iter().zip(&self.incidents).filter(|(incident, _)| is_of_it(incident));
            if let Some(fault) = common_fault(story, code, of_it) {
                let is_said = title.to_lowercase().starts_with(fault);
                let clause = if is_said { String::new() } else { format!(" when {fault}") };
                self.headline = headline(story, Some(&clause));
            }
            let headline = self.headline.trim_end_matches('.');
            // A sentence has at most one colon.
            self.headline = match headline.trim_start_matches("Simulated: ").contains(": ") {
                true => format!("{headline}. {title} ({code})."),
                false => format!("{headline}: {} ({code}).", base::words::small(title)),
            };
            self.one_line.clone_from(&self.headline);
        }
        // The catalogue's entry is already beside its diagnosis, so it is not repeated in the notes.
        if let Some(known) = known(story).filter(|_| accounts.iter().any(|account| account.known.is_some())) {
            self.notes.retain(|note| *note != known);
        }
        // If the commands of a node are incomplete, a missing diagnosis means nothing.
        let is_whole = commands.iter().all(|command| command.missed.is_none());
        self.misdiagnosed = misdiagnosed(story, &accounts).filter(|_| is_whole);
        self.notes.extend(self.misdiagnosed.clone());
        self.diagnoses = accounts;
    }
}

impl RunSummary {
    /// If no client acquired any lock, without any fault, the defect that prevented it leads the headline.
    fn tell_what_keeps_all_out(&mut self, story: &Story, accounts: &[DiagnosisAccount]) {
        let history = story.subject.history;
        let asked = || history.operations.iter().filter(|one| one.f.is_locked());
        let none_acquired = asked().next().is_some() && !asked().any(|one| one.phases.has(Phase::Acquired));
        let is_disturbed =
            history.faults.iter().any(|window| window.skipped.is_none()) || !history.cancelled.is_empty();
        let keeps_out = |account: &&DiagnosisAccount| {
            let of_it = |finding: &Finding| matches!(finding.harm, Harm::Kept | Harm::Waited);
            !account.diagnosis.inherent && account.diagnosis.findings.iter().any(of_it)
        };
        if let Some(account) = accounts.iter().find(keeps_out).filter(|_| none_acquired && !is_disturbed) {
            let Diagnosis { title, code, .. } = &account.diagnosis;
            let title = base::words::small(title.trim_end_matches('.'));
            self.headline = format!("No client acquired the lock, although no fault was injected: {title} ({code}).");
            self.one_line.clone_from(&self.headline);
        }
    }
}

/// The kind of fault on a node that caused all these incidents by this defect, as a clause: `a node was killed`. None if another
/// fault explains any of them.
fn common_fault<'a>(
    story: &Story,
    code: &str,
    incidents: impl Iterator<Item = (&'a Incident<'a>, &'a IncidentAccount)>,
) -> Option<&'static str> {
    let of_one = |(_, account): (&Incident, &IncidentAccount)| {
        let told = account.diagnosis.as_ref().filter(|told| told.code == code)?;
        let fault = story.subject.history.faults.iter().find(|window| Some(window.fault) == told.fault)?;
        Some(fault.kind.says.node)
    };
    let clauses: HashSet<&'static str> = incidents.map(of_one).collect::<Option<_>>()?;
    clauses.iter().next().copied().filter(|_| clauses.len() == 1)
}

/// A remark if the diagnosis of a violation differs from the catalogue's. None if it agrees, or if the catalogue has no code
/// for it.
fn misdiagnosed(story: &Story, accounts: &[DiagnosisAccount]) -> Option<String> {
    let finding = known_finding(story)?;
    // A finding's code is that of its plainest nemesis, which is the first.
    let is_first = finding.nemesis.first() == story.subject.scenario.map(|scenario| &scenario.nemesis_name);
    let known = finding.code.as_ref().filter(|_| is_first)?;
    if accounts.iter().any(|account| account.diagnosis.code == *known) {
        return None;
    }
    let shown: Vec<String> = accounts.iter().map(|account| account.diagnosis.code.clone()).collect();
    let shown = if shown.is_empty() { "no diagnosis".to_string() } else { base::words::list(&shown) };
    Some(format!("The catalogue expects {known} of this library under this nemesis; the commands show {shown}."))
}

/// At most this many events of a key are listed.
const LIFE: usize = 40;

/// The events of an incident's key, and the number of events left out. They range from the first request of the incident's
/// clients to the last one, and to the incident.
pub fn life_of_key(story: &Story, incident: &Incident) -> (Vec<KeyEvent>, usize) {
    let Some(lives) = &story.lives else { return (Vec::new(), 0) };
    let from = incident.operations.iter().map(|operation| operation.invoked).min().unwrap_or(incident.time);
    let to = incident.operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(0);
    let mut events = lives.of_key(incident.key, from, to.max(incident.time));
    let left_out = events.len().saturating_sub(LIFE);
    let until = events.partition_point(|event| event.time <= incident.time).max(LIFE);
    events.truncate(until);
    events.drain(..until.saturating_sub(LIFE).min(events.len()));
    (events, left_out)
}

/// The claim in the incident's title. The workload need not make it.
fn shown(incident: &Incident) -> Option<Claim> {
    let claims = || incident.anomalies.iter().filter_map(|anomaly| anomaly.kind.contradicts());
    let special = || claims().find(|claim| *claim != Claim::MutualExclusion).or(claims().next());
    match () {
        () if incident.has(AnomalyKind::LostUpdate) => Some(Claim::Updates),
        () if incident.has(AnomalyKind::KeptOut) => Some(Claim::Liveness),
        () => special(),
    }
}

/// The claims that an incident contradicts: the claim of its title. If it neither lost updates nor kept a client out, also all
/// others that the workload makes.
fn contradicted(story: &Story, incident: &Incident) -> Vec<Claim> {
    let is_whole = incident.has(AnomalyKind::LostUpdate) || incident.has(AnomalyKind::KeptOut);
    let claims = incident.anomalies.iter().filter_map(|anomaly| anomaly.kind.contradicts());
    shown(incident).into_iter().chain(claims.filter(|claim| !is_whole && story.claims(*claim))).collect()
}

/// The diagnoses that explain an incident, each with the finding that shows it.
///
/// Such a diagnosis can break the incident's claim. Before the incident, it ended a lock of the incident, or kept the lock from
/// waiting clients. Defects that can be fixed come before inherent ones. Then come diagnoses that ended other locks of the
/// incident.
fn explains<'a>(story: &Story, accounts: &'a [DiagnosisAccount], incident: &Incident) -> Vec<(usize, &'a Finding)> {
    let broken = contradicted(story, incident);
    let can_break = |account: &DiagnosisAccount| {
        let kind = diagnosis::find(&account.diagnosis.code);
        kind.is_some_and(|kind| kind.breaks.iter().any(|claim| broken.contains(claim)))
    };
    let involved: HashSet<u64> = incident.operations.iter().map(|operation| operation.index).collect();
    let is_wait = incident.anomalies.iter().any(|anomaly| waits(anomaly.kind));
    let last = incident.operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(0);
    let concerns = |finding: &&Finding| {
        finding.key == incident.key
            && match finding.harm {
                Harm::None => false,
                Harm::Ended(index) => involved.contains(&index) && finding.time <= incident.time,
                // A false or missing report matters until the operation ends.
                Harm::Misled(index) => involved.contains(&index) && finding.time <= incident.time.max(last),
                // Another update may be lost for another reason.
                Harm::Outwritten(index) => {
                    let is_lost = || incident.anomalies.iter().any(|anomaly| anomaly.lost.contains(&index));
                    finding.operations.iter().all(|index| involved.contains(index))
                        && finding.time <= incident.time
                        && (!incident.has(AnomalyKind::LostUpdate) || is_lost())
                }
                Harm::Waited => is_wait && finding.time <= incident.time.max(last),
                // A lock that an attempt left behind kept another client out.
                Harm::Kept => {
                    let is_other = |index: &u64| !finding.operations.contains(index);
                    let kept_one = involved.iter().any(is_other) || incident.has(AnomalyKind::LeftBehind);
                    is_wait && finding.time <= incident.time && kept_one
                }
            }
    };
    let mut found: Vec<(usize, &Finding)> = Vec::new();
    for (place, account) in accounts.iter().enumerate().filter(|(_, account)| can_break(account)) {
        found.extend(account.diagnosis.findings.iter().filter(concerns).map(|finding| (place, finding)));
    }
    // Fixable defects come first. Then the last finding before the incident.
    found.sort_by_key(|(place, finding)| (accounts[*place].diagnosis.inherent, *place, Reverse(finding.time)));
    let first_broken = Claim::ALL.iter().find(|claim| broken.contains(claim));
    let breaks_first = |account: usize| {
        let kind = diagnosis::find(&accounts[account].diagnosis.code);
        kind.zip(first_broken).is_some_and(|(kind, first)| kind.breaks.contains(first))
    };
    let mut ended: HashSet<u64> = HashSet::new();
    let mut is_first_of_its_lock = |(account, finding): &(usize, &Finding)| match finding.harm {
        Harm::Ended(index) => ended.insert(index),
        // A false report explains the lock's end only if it can break the same claim.
        Harm::Misled(index) if breaks_first(*account) => {
            ended.insert(index);
            false
        }
        _ => false,
    };
    let mut causes: Vec<(usize, &Finding)> = found.first().copied().into_iter().collect();
    for other in found.into_iter().filter(|one| is_first_of_its_lock(one)) {
        if causes.iter().all(|(place, _)| *place != other.0) {
            causes.push(other);
        }
    }
    causes
}

/// True if a client waited for a lock that no client held.
fn waits(kind: AnomalyKind) -> bool {
    use AnomalyKind::{AcquiredLate, KeptOut, LeftBehind, NotObtained, Unavailable, WaitedTooLong};
    matches!(kind, AcquiredLate | KeptOut | LeftBehind | NotObtained | Unavailable | WaitedTooLong)
}
