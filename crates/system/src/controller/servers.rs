//! The contents of the lock's nodes, which an observer outside the run notes beside the history. The observer's results do not
//! change the run: if it fails, only its file is missing.

use tracing::warn;

use super::Run;
use base::files;
use model::history::{ClockBound, Sighting};

impl Run<'_> {
    /// Watches the nodes from now on, if the run observes them.
    pub(super) async fn begin_to_observe(&self) {
        if self.observe
            && let Err(error) = self.cluster.observe().await
        {
            warn!(%error, "the keys of the servers are not recorded");
        }
    }

    /// Writes the observations into the run's folder, ordered by time.
    pub(super) async fn write_sightings(&self, clock: ClockBound) {
        if !self.observe {
            return;
        }
        let start = u64::try_from(clock.mono_at_start_ns).unwrap_or_default();
        let line = |sighting: Sighting| serde_json::to_string(&sighting.since_start(start)).unwrap_or_default() + "\n";
        match self.cluster.observed().await {
            Ok(seen) if seen.is_empty() => {}
            Ok(seen) => {
                let text: String = seen.into_iter().map(line).collect();
                if let Err(error) = files::write(&self.folder.join(Sighting::FILE), text) {
                    warn!(%error, "the keys of the servers were not saved");
                }
            }
            Err(error) => warn!(%error, "the keys of the servers are unknown"),
        }
    }
}
