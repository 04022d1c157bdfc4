//! What was tried of a library, put together: by what came of it, by whether its kind falls too, and by symptom.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::commands::{ObservedCommand, When};
use super::endless::Endless;
use super::kind::{Baseline, Kind};
use super::struck::FaultHit;
use checker::{AnomalyKind, Remark, Validity};
use summary::DiagnosisAccount;

/// The scenario that tells what a crowd of processes does from what a crowd of threads does.
const CROWD_OF_PROCESSES: &str = "crowd-of-processes";

/// How the summary of a run begins that shows nothing.
const NOTHING_PROVEN: &str = "This run proves nothing about the lock: ";

/// Everything that a page tells of a library.
#[derive(Clone, Debug)]
pub struct Examined {
    /// As the user named it, quoted for a shell.
    pub workload: String,
    /// `redis-py Lock 8.1.0`, or the workload's name.
    pub name: String,
    pub kind: Kind,
    /// The TTLs that it was tried with.
    pub ttls: Vec<String>,
    /// The TTLs that it does not take, each with what it says.
    pub refused: Vec<(String, String)>,
    pub sent: Vec<ObservedCommand>,
    pub tried: Vec<Tried>,
    /// The smallest scenarios that break it, each with its file.
    pub found: Vec<Found>,
    /// Scenarios that are about other locks, each with the reason.
    pub not_about: Vec<(String, String)>,
    /// How many runs the time did not suffice for.
    pub not_made: usize,
    /// How long it took, installing included.
    pub took: Duration,
    /// The cluster and server that it ran on, as they reported themselves.
    pub versions: BTreeMap<String, String>,
}

/// A scenario, and all runs of it.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    pub scenario: String,
    pub description: String,
    /// Whether it was made from what the library was seen to send.
    pub searched: bool,
    /// Whether it has no fault and no script, so that what breaks there breaks by itself.
    pub plain: bool,
    /// Whether its clients are threads or tasks that share programs.
    pub by_threads: bool,
    pub of_its_kind: Baseline,
    /// Whether it breaks the lock in the same way if its steps are played and nothing is injected.
    pub without_strike: bool,
    /// Whether it was played once more when the machine kept time, one run after the other.
    pub tried_alone: bool,
    pub runs: Vec<TriedRun>,
}

#[derive(Clone, Debug, Default)]
pub struct TriedRun {
    pub ttl: String,
    /// None if it could not be made.
    pub valid: Option<Validity>,
    /// Whether things happened when the scenario wanted them to.
    pub timing_was_kept: bool,
    /// Whether what went wrong may become of any lock that nothing renews: somebody had it for longer than its TTL.
    pub outlived: bool,
    /// What happened, in a sentence; why nothing is known, if it is not.
    pub summary: String,
    /// At which commands it struck, and what these did.
    pub struck: Vec<FaultHit>,
    /// What its client was doing then, or when it was struck otherwise.
    pub when: Vec<When>,
    /// What went wrong, in a word such as `lost-update`.
    pub anomaly: Option<String>,
    /// How the incident came about that shows it, in a few sentences; empty if nothing is told.
    pub account: String,
    /// The keys without a TTL that its nodes kept to its end.
    pub endless: Endless,
    /// What no workload claims, and its users want to know.
    pub advisories: Vec<Remark>,
    /// What is wrong with the lock, from the commands that its nodes carried out.
    pub diagnoses: Vec<DiagnosisAccount>,
    /// Its folder, relative to the page.
    pub folder: String,
    /// The command that repeats it.
    pub repeat: String,
}

/// A scenario that breaks the lock, made as small as it could be on real servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub scenario: String,
    /// Its file, relative to the page.
    pub file: String,
    /// How many steps it has, and had.
    pub steps: usize,
    pub steps_before: usize,
    /// How many smaller ones were tried, and whether there was time for all.
    pub tried: u64,
    pub finished: bool,
    /// In how many of how many runs with other seeds it broke the lock in the same way.
    pub came_back: u32,
    pub of: u32,
    pub repeat: String,
}

/// Scenarios that break the lock in the same way: at the same commands, with the same incident, and with the same lot of a lock
/// of its kind.
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

    /// Why nothing can be said of the library by comparison; None if there is no run to compare with.
    pub fn why_unexplained(&self) -> Option<&'static str> {
        let (broken, of) = self.broken();
        match () {
            () if self.tried.iter().all(|tried| tried.without_strike) => {
                Some("the same steps also fail without the fault")
            }
            () if self.tried.iter().any(|tried| tried.is_certain()) => None,
            () if broken < of => Some("not in every run"),
            () if self.tried.iter().any(|tried| tried.tried_alone) => {
                Some("the machine was late in each of these runs, also in the run without parallel load")
            }
            () => Some("the machine was late in each of these runs, and there was no time to rerun one alone"),
        }
    }

    /// Whether it came with no fault at all.
    pub fn is_plain(&self) -> bool {
        self.tried.iter().all(|tried| tried.plain)
    }

    /// Whether it takes threads that share a program, as far as is known.
    pub fn is_by_threads(&self) -> bool {
        self.tried.iter().all(|tried| tried.by_threads)
    }

    /// How it came about, in the first run that tells.
    pub fn account(&self) -> &str {
        self.tried.first().and_then(|tried| tried.telling()).map_or("", |run| &run.account)
    }

    /// In how many runs it came, of those that show anything.
    pub fn broken(&self) -> (usize, usize) {
        let each = self.tried.iter().map(|tried| tried.broken());
        each.fold((0, 0), |(broken, of), (more, of_more)| (broken + more, of + of_more))
    }
}

impl Tried {
    /// Invalid if at least one run broke the lock, valid if some held and none broke it, unknown if no run shows anything.
    pub fn outcome(&self) -> Validity {
        match self.broken() {
            (0, 0) => Validity::Unknown,
            (0, _) => Validity::Valid,
            _ => Validity::Invalid,
        }
    }

    /// The first run that shows what came of it.
    pub fn telling(&self) -> Option<&TriedRun> {
        let shows = |run: &&TriedRun| match self.outcome() {
            Validity::Invalid => run.valid == Some(Validity::Invalid),
            Validity::Valid => run.withstood(),
            Validity::Unknown => run.valid.is_some(),
        };
        self.runs.iter().find(shows).or(self.runs.first())
    }

    /// How often it struck in the runs that were withstood.
    pub fn strikes(&self) -> u64 {
        let withstood = self.runs.iter().filter(|run| run.withstood());
        withstood.flat_map(|run| &run.struck).map(|struck| struck.times).sum()
    }

    /// Whether it breaks the lock in every run that shows anything, and not only where the machine was late. Where nothing is
    /// injected, two runs are enough: there was nothing in the others that could have struck at another moment.
    pub fn is_certain(&self) -> bool {
        let (broken, shown) = self.broken();
        let is_in_time = |run: &&TriedRun| run.valid == Some(Validity::Invalid) && run.timing_was_kept;
        match self.runs.iter().filter(is_in_time).count() {
            0 => false,
            1 => broken == shown,
            _ => broken == shown || self.plain,
        }
    }

    /// Whether the machine was late in every run that broke it, so that those tell little.
    pub fn is_late(&self) -> bool {
        !self.runs.iter().any(|run| run.valid == Some(Validity::Invalid) && run.timing_was_kept)
    }

    /// Whether it broke under its fault in the same way as with no fault at all, of which this is the share, so that nobody knows what the
    /// fault did: it did not break every time, or may have done so by chance.
    pub fn may_be_chance(&self, (broken, of): (usize, usize)) -> bool {
        let (fell, shown) = self.broken();
        let chance = (broken as f64 / of.max(1) as f64).powi(i32::try_from(shown).unwrap_or(i32::MAX));
        fell < shown || shown < 2 || chance > BY_CHANCE
    }

    /// What broke in the run that tells most.
    pub fn anomaly(&self) -> Option<&str> {
        self.telling().filter(|run| run.valid == Some(Validity::Invalid))?.anomaly.as_deref()
    }

    /// Whether a diagnosis explains the first incident of each run that broke it.
    pub fn is_explained(&self) -> bool {
        let mut broke = self.runs.iter().filter(|run| run.valid == Some(Validity::Invalid));
        broke.all(|run| run.diagnoses.iter().any(|account| account.incidents.contains(&1)))
    }

    /// How many runs broke it, of those that show anything.
    pub fn broken(&self) -> (usize, usize) {
        let broken = self.runs.iter().filter(|run| run.valid == Some(Validity::Invalid)).count();
        (broken, broken + self.runs.iter().filter(|run| run.withstood()).count())
    }
}

/// What happens with no fault at all in so few runs does not explain what happens under a fault in all of several runs, in as many by chance.
const BY_CHANCE: f64 = 0.05;

/// In how many of how many runs without a fault one of these broke in this way, of the scenario that did so most often; None if none did.
/// That threads break it by themselves says nothing of processes. Who has two holders at once loses updates by chance, and the other way
/// about.
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
    // The larger share by its cross product.
    plain.max_by_key(|(broken, of)| (broken * 1_000_000 / of.max(&1), *of))
}

impl TriedRun {
    /// Whether the lock was struck and held.
    pub fn withstood(&self) -> bool {
        self.valid == Some(Validity::Valid) && self.void().is_none()
    }

    /// What was struck in vain, if everything was: to withstand that is no news.
    pub fn void(&self) -> Option<&FaultHit> {
        self.struck.first().filter(|_| self.struck.iter().all(FaultHit::is_void))
    }
}

impl Examined {
    /// The scenarios of which this came, in the order in which they were tried.
    pub fn that(&self, outcome: Validity) -> Vec<&Tried> {
        self.tried.iter().filter(|tried| tried.outcome() == outcome).collect()
    }

    /// What broke it, by symptom: first what came with no fault at all, then what locks of its kind withstand, then what nothing is
    /// known of, then what breaks them all.
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

    /// The symptoms, without the scenarios that a diagnosis explains.
    pub fn unexplained(&self) -> Vec<Symptom<'_>> {
        let mut symptoms = self.symptoms();
        symptoms.iter_mut().for_each(|symptom| symptom.tried.retain(|tried| !tried.is_explained()));
        symptoms.retain(|symptom| !symptom.tried.is_empty());
        symptoms
    }

    /// What came of a crowd of processes; None if there was none.
    pub fn crowd_of_processes(&self) -> Option<Validity> {
        self.tried.iter().find(|tried| tried.scenario == CROWD_OF_PROCESSES).map(Tried::outcome)
    }

    /// In how many of how many runs with no fault at all it breaks in this way too, so that a run with a fault does not tell what the fault
    /// did; None if in none.
    pub fn share_by_itself(&self, symptom: &Symptom) -> Option<(usize, usize)> {
        share_by_itself(self.tried.iter(), symptom.anomaly, symptom.is_by_threads())
    }

    /// How many runs were made.
    pub fn runs(&self) -> usize {
        self.tried.iter().map(|tried| tried.runs.len()).sum()
    }

    /// The scenarios that show nothing, by the reason.
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
