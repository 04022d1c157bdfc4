//! All results of a library, grouped by outcome, by the result of the reference lock, and by symptom.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::commands::{ObservedCommand, When};
use super::endless::Endless;
use super::kind::{Baseline, Kind};
use super::struck::FaultHit;
use checker::{AnomalyKind, Remark, Validity};
use summary::DiagnosisAccount;

/// The scenario that separates the effect of many processes from that of many threads.
const CROWD_OF_PROCESSES: &str = "crowd-of-processes";

/// The beginning of an inconclusive run's summary.
const NOTHING_PROVEN: &str = "This run proves nothing about the lock: ";

/// All results on a library's page.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The command that repeats the campaign, with the servers that the user named.
    pub repeat: String,
    /// `redis-py Lock 8.1.0`, or the workload's name.
    pub name: String,
    pub kind: Kind,
    pub ttls: Vec<String>,
    /// The TTLs that the library rejects, each with its error.
    pub refused: Vec<(String, String)>,
    pub sent: Vec<ObservedCommand>,
    pub tried: Vec<Tried>,
    /// The smallest scenarios that break the lock, each with its file.
    pub found: Vec<Found>,
    /// Scenarios that are about other locks, each with the reason.
    pub not_about: Vec<(String, String)>,
    /// How many runs are missing because the time ended.
    pub not_made: usize,
    pub took: Duration,
    /// The versions that the cluster and the server reported.
    pub versions: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Tried {
    pub scenario: String,
    pub description: String,
    /// True if it has no fault and no script. A lock that breaks here breaks by itself.
    pub plain: bool,
    /// True if its clients are threads or tasks that share processes.
    pub by_threads: bool,
    pub of_its_kind: Baseline,
    /// True if the lock breaks in the same way when the steps are run without faults.
    pub without_strike: bool,
    /// True if it was repeated while the machine was quiet, one run after the other.
    pub tried_alone: bool,
    pub runs: Vec<TriedRun>,
}

#[derive(Clone, Debug, Default)]
pub struct TriedRun {
    pub ttl: String,
    /// None if the run could not be made.
    pub valid: Option<Validity>,
    /// True if events happened at the times that the scenario asks for.
    pub timing_was_kept: bool,
    /// True if a client held the lock for longer than its TTL. Any lock that nothing renews may break then.
    pub outlived: bool,
    /// The event, in a sentence. If the run is unknown, the reason.
    pub summary: String,
    /// The commands that faults hit, and what these commands did.
    pub struck: Vec<FaultHit>,
    /// The client's activity then, or when another fault hit it.
    pub when: Vec<When>,
    /// The kind of anomaly, such as `lost-update`.
    pub anomaly: Option<String>,
    /// How the incident happened, in a few sentences. Empty if the report does not say.
    pub account: String,
    /// The keys without a TTL that the nodes kept to the end of the run.
    pub endless: Endless,
    /// Remarks that no claim covers but users want to know.
    pub advisories: Vec<Remark>,
    /// The lock's defects, found from the commands that the nodes executed.
    pub diagnoses: Vec<DiagnosisAccount>,
    /// The run's folder, relative to the page.
    pub folder: String,
    pub repeat: String,
}

/// A scenario that breaks the lock, shrunk on real servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub scenario: String,
    /// The scenario's file, relative to the page.
    pub file: String,
    /// The number of steps now and before shrinking.
    pub steps: usize,
    pub steps_before: usize,
    /// The number of smaller scenarios tried, and true if time sufficed for all.
    pub tried: u64,
    pub finished: bool,
    /// How many runs with other seeds broke the lock in the same way, and how many were made.
    pub came_back: u32,
    pub of: u32,
    pub repeat: String,
}

/// Scenarios that break the lock in the same way: at the same commands, with the same anomaly, and the same result of the
/// reference lock.
pub struct Symptom<'a> {
    pub of_its_kind: Baseline,
    pub anomaly: &'a str,
    pub when: &'a [When],
    pub commands: Vec<&'a str>,
    pub tried: Vec<&'a Tried>,
}

impl Symptom<'_> {
    fn is_as(&self, other: &Symptom) -> bool {
        let key = |symptom: &Symptom| (symptom.of_its_kind, symptom.anomaly.to_string(), symptom.when.to_vec());
        key(self) == key(other) && self.commands == other.commands && self.is_by_threads() == other.is_by_threads()
    }

    /// Why the comparison shows nothing about the library. None if there is no run to compare with.
    pub fn why_unexplained(&self) -> Option<&'static str> {
        let (broken, of) = self.broken();
        match () {
            () if self.tried.iter().all(|tried| tried.without_strike) => {
                Some("the same steps also fail without the fault")
            }
            () if self.tried.iter().any(|tried| tried.is_certain()) => None,
            () if broken < of => Some("not in every run"),
            () if self.tried.iter().any(|tried| tried.tried_alone) => {
                Some("timers were late in each of these runs, also in the run without parallel load")
            }
            () => Some("timers were late in each of these runs, and there was no time to rerun one alone"),
        }
    }

    /// True if it needs no fault.
    pub fn is_plain(&self) -> bool {
        self.tried.iter().all(|tried| tried.plain)
    }

    /// True if it needs threads that share a process, as far as is known.
    pub fn is_by_threads(&self) -> bool {
        self.tried.iter().all(|tried| tried.by_threads)
    }

    /// How it happened, from the first conclusive run.
    pub fn account(&self) -> &str {
        self.tried.first().and_then(|tried| tried.telling()).map_or("", |run| &run.account)
    }

    /// The number of runs that broke the lock, and of conclusive runs.
    pub fn broken(&self) -> (usize, usize) {
        let each = self.tried.iter().map(|tried| tried.broken());
        each.fold((0, 0), |(broken, of), (more, of_more)| (broken + more, of + of_more))
    }
}

impl Tried {
    /// Invalid if at least one run broke the lock. Valid if some runs passed and none broke it. Unknown if no run is
    /// conclusive.
    pub fn outcome(&self) -> Validity {
        match self.broken() {
            (0, 0) => Validity::Unknown,
            (0, _) => Validity::Valid,
            _ => Validity::Invalid,
        }
    }

    /// The most telling run: the first run with the scenario's outcome.
    pub fn telling(&self) -> Option<&TriedRun> {
        let shows = |run: &&TriedRun| match self.outcome() {
            Validity::Invalid => run.valid == Some(Validity::Invalid),
            Validity::Valid => run.withstood(),
            Validity::Unknown => run.valid.is_some(),
        };
        self.runs.iter().find(shows).or(self.runs.first())
    }

    /// How many faults hit a command in the runs that passed.
    pub fn strikes(&self) -> u64 {
        let withstood = self.runs.iter().filter(|run| run.withstood());
        withstood.flat_map(|run| &run.struck).map(|struck| struck.times).sum()
    }

    /// True if the lock breaks in every conclusive run, and not only while the machine was late. Without a fault, two such runs
    /// suffice: the other runs had no fault that could have come at another time.
    pub fn is_certain(&self) -> bool {
        let (broken, shown) = self.broken();
        let is_in_time = |run: &&TriedRun| run.valid == Some(Validity::Invalid) && run.timing_was_kept;
        match self.runs.iter().filter(is_in_time).count() {
            0 => false,
            1 => broken == shown,
            _ => broken == shown || self.plain,
        }
    }

    /// True if the machine was late in every run that broke the lock. Such runs show little.
    pub fn is_late(&self) -> bool {
        !self.runs.iter().any(|run| run.valid == Some(Validity::Invalid) && run.timing_was_kept)
    }

    /// True if the fault may not be the cause, because the lock also breaks without a fault, in this share of runs. Either the
    /// lock did not break in every run with the fault, or all these failures may be chance.
    pub fn may_be_chance(&self, (broken, of): (usize, usize)) -> bool {
        let (fell, shown) = self.broken();
        let chance = (broken as f64 / of.max(1) as f64).powi(i32::try_from(shown).unwrap_or(i32::MAX));
        fell < shown || shown < 2 || chance > BY_CHANCE
    }

    /// The anomaly of the most telling run. None if the lock did not break.
    pub fn anomaly(&self) -> Option<&str> {
        self.telling().filter(|run| run.valid == Some(Validity::Invalid))?.anomaly.as_deref()
    }

    /// True if a diagnosis explains the first incident of each run that broke the lock.
    pub fn is_explained(&self) -> bool {
        let mut broke = self.runs.iter().filter(|run| run.valid == Some(Validity::Invalid));
        broke.all(|run| run.diagnoses.iter().any(|account| account.incidents.contains(&1)))
    }

    /// The number of runs that broke the lock, and of conclusive runs.
    pub fn broken(&self) -> (usize, usize) {
        let broken = self.runs.iter().filter(|run| run.valid == Some(Validity::Invalid)).count();
        (broken, broken + self.runs.iter().filter(|run| run.withstood()).count())
    }
}

/// If all runs under a fault break by chance with at most this probability, the failures without a fault do not explain them.
const BY_CHANCE: f64 = 0.05;

/// The share of runs without a fault that break in this way, as (broken, conclusive), of the scenario with the largest share.
/// None if there is none. Failures of threads say nothing about processes. All violations of mutual exclusion count as the same
/// failure, because chance decides which of them shows.
pub fn share_by_itself<'t>(
    tried: impl IntoIterator<Item = &'t Tried>,
    anomaly: &str,
    by_threads: bool,
) -> Option<(usize, usize)> {
    let of_exclusion = |anomaly: &str| {
        [AnomalyKind::LostUpdate, AnomalyKind::OverlappingHolders, AnomalyKind::StaleRead, AnomalyKind::ImpossibleRead]
            .iter()
            .any(|kind| kind.name() == anomaly)
    };
    let is_alike = |other: &str| other == anomaly || of_exclusion(other) && of_exclusion(anomaly);
    let tells =
        |tried: &&Tried| tried.plain && (by_threads || !tried.by_threads) && tried.outcome() == Validity::Invalid;
    let share = |tried: &Tried| {
        let broken =
            tried.runs.iter().filter_map(|run| run.anomaly.as_deref()).filter(|anomaly| is_alike(anomaly)).count();
        (broken, tried.broken().1)
    };
    let plain = tried.into_iter().filter(tells).map(share).filter(|(broken, _)| *broken > 0);
    // The largest share, in millionths.
    plain.max_by_key(|(broken, of)| (broken * 1_000_000 / of.max(&1), *of))
}

impl TriedRun {
    /// True if faults hit the lock and it passed.
    pub fn withstood(&self) -> bool {
        self.valid == Some(Validity::Valid) && self.void().is_none()
    }

    /// The first fault hit, if no hit had an effect on the lock: then passing means nothing. None otherwise.
    pub fn void(&self) -> Option<&FaultHit> {
        self.struck.first().filter(|_| self.struck.iter().all(FaultHit::is_void))
    }
}

impl Examined {
    /// The scenarios with this outcome, in the order in which they were tried.
    pub fn that(&self, outcome: Validity) -> Vec<&Tried> {
        self.tried.iter().filter(|tried| tried.outcome() == outcome).collect()
    }

    /// The failures by symptom. The order: without any fault, passed by the reference lock, unknown for the reference lock, and
    /// inherent to the kind.
    pub fn symptoms(&self) -> Vec<Symptom<'_>> {
        let mut symptoms: Vec<Symptom> = Vec::new();
        for tried in self.that(Validity::Invalid) {
            let run = tried.telling();
            let anomaly = run.and_then(|run| run.anomaly.as_deref()).unwrap_or("unclear");
            let when = run.map_or(&[][..], |run| &run.when);
            let commands = run.map_or(Vec::new(), |run| run.struck.iter().map(|struck| &*struck.command).collect());
            let one = Symptom { of_its_kind: tried.of_its_kind, anomaly, when, commands, tried: vec![tried] };
            match symptoms.iter_mut().find(|other| one.is_as(other)) {
                Some(symptom) => symptom.tried.push(tried),
                None => symptoms.push(one),
            }
        }
        let rank = |symptom: &Symptom| {
            let fate = match symptom.of_its_kind {
                Baseline::Holds => 0,
                Baseline::Unexcused => 1,
                Baseline::Unknown => 2,
                Baseline::Outlived => 3,
                Baseline::Falls => 4,
            };
            (!symptom.is_plain(), fate)
        };
        symptoms.sort_by_key(rank);
        symptoms
    }

    /// The symptoms without the scenarios that a diagnosis explains.
    pub fn unexplained(&self) -> Vec<Symptom<'_>> {
        let mut symptoms = self.symptoms();
        symptoms.iter_mut().for_each(|symptom| symptom.tried.retain(|tried| !tried.is_explained()));
        symptoms.retain(|symptom| !symptom.tried.is_empty());
        symptoms
    }

    /// The outcome of the scenario with many processes. None if it was not run.
    pub fn crowd_of_processes(&self) -> Option<Validity> {
        self.tried.iter().find(|tried| tried.scenario == CROWD_OF_PROCESSES).map(Tried::outcome)
    }

    /// The share of runs without a fault that break in this way too, as (broken, conclusive). None if there is none. Such
    /// failures blur the effect of a fault.
    pub fn share_by_itself(&self, symptom: &Symptom) -> Option<(usize, usize)> {
        share_by_itself(self.tried.iter(), symptom.anomaly, symptom.is_by_threads())
    }

    /// How many runs were made.
    pub fn runs(&self) -> usize {
        self.tried.iter().map(|tried| tried.runs.len()).sum()
    }

    /// The inconclusive scenarios, by reason.
    pub fn nothing_shown(&self) -> BTreeMap<String, Vec<&Tried>> {
        let mut reasons: BTreeMap<String, Vec<&Tried>> = BTreeMap::new();
        for tried in self.that(Validity::Unknown) {
            let why = match tried.telling() {
                None => "it was not run".to_string(),
                Some(run) => match run.void().filter(|_| run.valid == Some(Validity::Valid)) {
                    Some(struck) => format!("the fault had no effect: {struck}"),
                    None => run.summary.strip_prefix(NOTHING_PROVEN).unwrap_or(&run.summary).to_string(),
                },
            };
            reasons.entry(why).or_default().push(tried);
        }
        reasons
    }
}
