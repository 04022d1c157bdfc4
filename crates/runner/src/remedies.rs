//! Simulates remedies before a report names them.

use std::time::Duration;

use super::checked::Checked;
use super::simulate::{can_be_simulated, simulate_within};
use checker::Validity;
use model::scenario::Scenario;
use summary::{RunSummary, Story};

/// How many TTLs of a run are simulated. The longer time follows only if the shorter one shows no violation.
const TTLS_PLAYED: [u32; 2] = [12, 40];
/// The limit of that time, however long a TTL is.
const MOST_PLAYED: Duration = Duration::from_secs(60);
/// A script that takes longer than this is abandoned.
const LONGEST_SCRIPT: Duration = Duration::from_secs(300);
/// A run with more clients, or more operations per second, is not simulated: it could take minutes.
const MOST_CLIENTS: u32 = 24;
const HIGHEST_RATE: f64 = 500.0;

impl Checked {
    /// Simulates the remedies of a violation, so that the report names only those that work. The cost is limited in virtual
    /// time and not in real time, so every report of this run names the same remedies.
    pub fn play_remedies(&mut self) {
        let story = Story::new(self.subject());
        if story.incidents.is_empty() {
            return;
        }
        let incidents = RunSummary::new(&story).incidents;
        for run in incidents.into_iter().flat_map(|incident| incident.remedies).filter_map(|remedy| remedy.run) {
            if can_be_played(&run) && self.played(&run).is_none() {
                let mut limits = TTLS_PLAYED.map(|ttls| run.time_limit.min((run.ttl * ttls).min(MOST_PLAYED))).to_vec();
                limits.dedup();
                let mut verdict = Validity::Unknown;
                for limit in limits {
                    verdict = verdict_of(&run, limit);
                    if verdict == Validity::Invalid {
                        break;
                    }
                }
                self.played.push((run, verdict == Validity::Valid));
            }
        }
    }
}

fn can_be_played(run: &Scenario) -> bool {
    run.clients <= MOST_CLIENTS && run.rate <= HIGHEST_RATE && can_be_simulated(run).is_ok()
}

fn verdict_of(run: &Scenario, time_limit: Duration) -> Validity {
    let played = simulate_within(LONGEST_SCRIPT, &Scenario { time_limit, ..run.clone() });
    played.ok().flatten().map_or(Validity::Unknown, |played| played.verdict.valid)
}
