//! What was tried of a library, put together: by what came of it, by whether its kind falls too, and by symptom.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::kind::{Kind, OfItsKind};
use super::sent::{Sent, When};
use crate::checker::Validity;

/// How the summary of a run begins that shows nothing.
const NOTHING_PROVEN: &str = "This run proves nothing about the lock: ";

/// Everything that a page tells of a library.
#[derive(Clone, Debug, Serialize)]
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
    pub sent: Vec<Sent>,
    pub tried: Vec<Tried>,
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
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    pub scenario: String,
    pub description: String,
    /// Whether it was made from what the library was seen to send.
    pub searched: bool,
    /// Whether it brings one moment about, the same in every run.
    pub scripted: bool,
    pub of_its_kind: OfItsKind,
    pub runs: Vec<TriedRun>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct TriedRun {
    pub ttl: String,
    /// None if it could not be made.
    pub valid: Option<Validity>,
    /// Whether things happened when the scenario wanted them to.
    pub timing_was_kept: bool,
    /// What happened, in a sentence; why nothing is known, if it is not.
    pub summary: String,
    /// At which command it struck, and what that was answered.
    pub struck: Option<String>,
    /// What the client was doing then.
    pub when: Option<When>,
    /// What went wrong, in a word such as `lost-update`.
    pub anomaly: Option<String>,
    /// Its folder, relative to the page.
    pub folder: String,
    /// The command that repeats it.
    pub repeat: String,
}

/// What came of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// At least one run broke the lock.
    Fell,
    /// Some held, and none broke it.
    Held,
    /// No run shows anything.
    Nothing,
}

/// Scenarios that break the lock in the same way.
pub struct Symptom<'a> {
    pub of_its_kind: OfItsKind,
    pub anomaly: &'a str,
    pub when: Option<When>,
    pub tried: Vec<&'a Tried>,
}

impl Tried {
    pub fn came(&self) -> Came {
        let any = |valid| self.runs.iter().any(|run| run.valid == Some(valid));
        match () {
            () if any(Validity::Invalid) => Came::Fell,
            () if any(Validity::Valid) => Came::Held,
            () => Came::Nothing,
        }
    }

    /// The first run that shows what came of it.
    pub fn telling(&self) -> Option<&TriedRun> {
        let wanted = match self.came() {
            Came::Fell => Some(Validity::Invalid),
            Came::Held => Some(Validity::Valid),
            Came::Nothing => Some(Validity::Unknown),
        };
        self.runs.iter().find(|run| run.valid == wanted).or(self.runs.first())
    }

    /// Whether it breaks the lock in every run that shows anything, and not only where the machine was late.
    pub fn is_certain(&self) -> bool {
        let (broken, shown) = self.broken();
        let broken_in_time = |run: &TriedRun| run.valid == Some(Validity::Invalid) && run.timing_was_kept;
        broken == shown && self.runs.iter().any(broken_in_time)
    }

    /// How many runs broke it, of those that show anything.
    pub fn broken(&self) -> (usize, usize) {
        let count = |valid| self.runs.iter().filter(|run| run.valid == Some(valid)).count();
        let broken = count(Validity::Invalid);
        (broken, broken + count(Validity::Valid))
    }
}

impl Examined {
    /// The scenarios of which this came, in the order in which they were tried.
    pub fn that(&self, came: Came) -> Vec<&Tried> {
        self.tried.iter().filter(|tried| tried.came() == came).collect()
    }

    /// What broke it, by symptom: first what locks of its kind withstand, then what nothing is known of, then what breaks them all.
    pub fn symptoms(&self) -> Vec<Symptom<'_>> {
        let mut symptoms: Vec<Symptom> = Vec::new();
        for tried in self.that(Came::Fell) {
            let run = tried.telling();
            let anomaly = run.and_then(|run| run.anomaly.as_deref()).unwrap_or("unclear");
            let (of_its_kind, when) = (tried.of_its_kind, run.and_then(|run| run.when));
            let same =
                |other: &&mut Symptom| (other.of_its_kind, other.anomaly, other.when) == (of_its_kind, anomaly, when);
            match symptoms.iter_mut().find(same) {
                Some(symptom) => symptom.tried.push(tried),
                None => symptoms.push(Symptom { of_its_kind, anomaly, when, tried: vec![tried] }),
            }
        }
        let rank = |symptom: &Symptom| match symptom.of_its_kind {
            OfItsKind::Holds => 0,
            OfItsKind::Unknown => 1,
            OfItsKind::Falls => 2,
        };
        symptoms.sort_by_key(rank);
        symptoms
    }

    /// How many runs were made.
    pub fn runs(&self) -> usize {
        self.tried.iter().map(|tried| tried.runs.len()).sum()
    }

    /// The scenarios that show nothing, by the reason.
    pub fn nothing_shown(&self) -> BTreeMap<&str, Vec<&Tried>> {
        let mut reasons: BTreeMap<&str, Vec<&Tried>> = BTreeMap::new();
        for tried in self.that(Came::Nothing) {
            let why = tried.telling().map_or("it was not run", |run| &*run.summary);
            let why = why.strip_prefix(NOTHING_PROVEN).unwrap_or(why);
            reasons.entry(why).or_default().push(tried);
        }
        reasons
    }
}
