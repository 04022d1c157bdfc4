//! Writes the progress of a run into its folder, for readers during the run ([`summary::store::live`]). A run does not depend
//! on it: after a write error, the log says so.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::warn;

use base::runs::RunFolder;
use model::scenario::Scenario;
use summary::RunSummary;
use summary::store::live::{Events, LiveStatus};
use system::controller::Status;

/// The interval at which counts alone are written.
const EVERY: Duration = Duration::from_secs(1);
/// The interval at which other changes are checked.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Diary {
    events: Option<Events>,
    last: LiveStatus,
}

impl Diary {
    pub fn begin(folder: &RunFolder, scenario: &Scenario) -> Diary {
        let events = Events::begin(folder.path());
        let events =
            events.inspect_err(|error| warn!(%error, "no events.jsonl, so the progress of the run is not shown")).ok();
        let last = LiveStatus {
            workload: scenario.workload_name.clone(),
            nemesis: scenario.nemesis_name.clone(),
            seed: scenario.seed,
            ..LiveStatus::default()
        };
        Diary { events, last }
    }

    /// Follows a run until its status sender is dropped.
    pub fn follow(mut self, mut status: watch::Receiver<Status>) -> JoinHandle<Diary> {
        tokio::spawn(async move {
            let (mut told, mut written) = (0, None::<Instant>);
            loop {
                let now = status.borrow_and_update().clone();
                let moment = self.moment(&now, &mut told);
                let other = |a: &LiveStatus, b: &LiveStatus| {
                    (&a.stage, &a.faults) != (&b.stage, &b.faults) || !a.notes.is_empty()
                };
                let due = written.is_none_or(|written| written.elapsed() >= EVERY);
                if due || other(&moment, &self.last) {
                    written = Some(Instant::now());
                    self.put(moment);
                }
                let over = async { while status.changed().await.is_ok() {} };
                if timeout(LOOK, over).await.is_ok() {
                    let now = status.borrow().clone();
                    self.last = self.moment(&now, &mut told);
                    return self;
                }
            }
        })
    }

    /// Writes why the run ended before its first operation.
    pub fn break_off(&mut self, why: String) {
        self.put(self.last.broken_off(why));
    }

    /// Writes the last line, with the result of the run.
    pub fn conclude(mut self, summary: &RunSummary) {
        let LiveStatus { workload, nemesis, seed, at_s, of_s, .. } = self.last.clone();
        let (counts, lost) = (summary.counts, summary.lost_updates.count);
        self.put(LiveStatus {
            workload,
            nemesis,
            seed,
            at_s,
            of_s,
            stage: "done".into(),
            ok: counts.ok,
            fail: counts.fail,
            info: counts.info,
            overlaps: summary.mutual_exclusion.violations,
            lost,
            valid: Some(summary.valid),
            summary: summary.one_line.clone(),
            ..LiveStatus::default()
        });
    }

    fn moment(&self, status: &Status, told: &mut usize) -> LiveStatus {
        let notes = status.notes.iter().skip(*told).cloned().collect();
        *told = status.notes.len();
        LiveStatus {
            stage: status.stage.clone(),
            at_s: status.at.map(|at| at.as_secs_f64()),
            of_s: status.of.map(|of| of.as_secs_f64()),
            ok: status.ok,
            fail: status.fail,
            info: status.info,
            faults: status.faults.iter().map(|(_, what)| what.clone()).collect(),
            overlaps: status.overlaps,
            lost: status.lost,
            notes,
            ..self.last.clone()
        }
    }

    fn put(&mut self, moment: LiveStatus) {
        if let Some(Err(error)) = self.events.as_mut().map(|events| events.write(&moment)) {
            warn!(%error, "events.jsonl ends here");
            self.events = None;
        }
        self.last = LiveStatus { notes: Vec::new(), ..moment };
    }
}
