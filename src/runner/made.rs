//! A run that was made, and what its report shows besides its verdict: the counterexample, and which of its remedies hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use linearizability::Limits;

use super::Checked;
use super::events::Diary;
use super::simulate::simulate;
use crate::checker::{self, Validity, Verdict};
use crate::files::Unwritten;
use crate::history::History;
use crate::report::{self, Counterexample};
use crate::runs::RunFolder;
use crate::sync::lock;
use crate::telling::{Remedy, Telling};

/// How long a report may wait for its counterexample, which does not decide the verdict.
const LOOKING: Duration = Duration::from_secs(3);
/// After so long no further remedy is played.
const PLAYING: Duration = Duration::from_secs(1);

/// A run that was made and checked. Its verdict can be shown before anything else is written, which may fail.
pub struct Made {
    pub checked: Checked,
    folder: RunFolder,
    /// What could not be written so far.
    unwritten: Unwritten,
    /// As long as it is here, the run goes on for whoever looks at its folder.
    diary: Option<Diary>,
}

impl Made {
    pub(super) fn new(checked: Checked, folder: RunFolder, unwritten: Unwritten, diary: Option<Diary>) -> Made {
        Made { checked, folder, unwritten, diary }
    }

    /// Writes the report. The error names every file of the run that could not be written, now or earlier; the verdict
    /// holds all the same.
    pub fn write_report(&mut self) -> Result<(), Unwritten> {
        self.checked.look_further();
        self.checked.look_beside(self.folder.path());
        let mut unwritten = std::mem::take(&mut self.unwritten);
        let report = self.checked.report();
        unwritten.note_all(report::write(self.folder.path(), &report));
        if let Some(diary) = self.diary.take() {
            diary.conclude(&report.telling);
        }
        unwritten.conclude()
    }
}

impl Checked {
    /// Looks for what the report shows besides the verdict, for some seconds: the counterexample, and which remedies hold.
    pub fn look_further(&mut self) {
        self.minimal_counterexample = minimal_counterexample(&self.history, &self.verdict);
        if self.verdict.valid == Validity::Invalid {
            self.facts.played = play(&self.report().telling);
        }
    }
}

/// The counterexample, if it is found in time.
fn minimal_counterexample(history: &History, verdict: &Verdict) -> Option<Counterexample> {
    let deadline = Instant::now() + LOOKING;
    let limits = Limits { give_up: &|| Instant::now() >= deadline, ..Limits::default() };
    checker::minimal_counterexample(history, verdict, &limits)
        .map(|minimal_counterexample| Counterexample::of_run(history, &minimal_counterexample))
}

/// What came of the remedies that were played in this process, by their commands: the runs of a suite have many in common.
static PLAYED: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Plays each remedy that is told, in virtual time: whether it was valid, by its command. One that can't be played is left out.
fn play(telling: &Telling) -> BTreeMap<String, bool> {
    let deadline = Instant::now() + PLAYING;
    let told: BTreeSet<&str> = BTreeSet::new();
    let remedies = telling.incidents.iter().flat_map(|incident| &incident.remedies);
    let distinct = remedies.scan(told, |told, remedy| Some(told.insert(&remedy.command).then_some(remedy))).flatten();
    let mut played = BTreeMap::new();
    for remedy in distinct {
        let known = lock(&PLAYED).get(&remedy.command).copied();
        let held = match known {
            Some(held) => Some(held),
            None if Instant::now() >= deadline => None,
            None => holds(remedy),
        };
        if let Some(held) = held {
            lock(&PLAYED).insert(remedy.command.clone(), held);
            played.insert(remedy.command.clone(), held);
        }
    }
    played
}

fn holds(remedy: &Remedy) -> Option<bool> {
    let scenario = remedy.scenario()?;
    // A thread of its own, since virtual time must not stand in a runtime whose time is real.
    let run = thread::scope(|scope| scope.spawn(|| simulate(&scenario)).join()).ok()?;
    Some(run.ok()?.verdict.valid == Validity::Valid)
}
