//! What several properties rest on, computed once for a history: what became of the updates, who held the lock when, which
//! locks were certainly there, and who could not speak.

use std::sync::OnceLock;

use super::AnomalyKind;
use super::evidence::{self, Evidence};
use super::holds::{self, Overlaps};
use super::liveness::{self, Liveness};
use super::locks::{self, Tokens};
use super::owners::Owners;
use super::stopped::Stops;
use super::updates::{self, Updates};
use super::verdict::Anomaly;
use super::{blame, causes};
use base::sync::both;
use model::history::History;

/// A history with what its properties rest on.
pub struct Case<'h> {
    pub history: &'h History,
    /// Losses to writes in flight are no losses of the lock.
    pub updates: Updates,
    pub overlaps: Overlaps,
    pub exclusion: Evidence,
    pub tokens: Tokens,
    /// Steps of a script at which the lock should have been acquired by then but was not.
    pub late: Vec<Anomaly>,
    /// Why a step that did not come in time is no evidence, if there is such a step.
    pub late_doubt: Option<String>,
    pub liveness: Liveness,
    owners: OnceLock<Owners<'h>>,
    stops: OnceLock<Stops<'h>>,
}

/// What does not depend on the values that were read and written.
struct OfLocks {
    overlaps: Overlaps,
    exclusion: Evidence,
    tokens: Tokens,
    late: Vec<Anomaly>,
    late_doubt: Option<String>,
    liveness: Liveness,
}

impl<'h> Case<'h> {
    pub fn new(history: &'h History) -> Case<'h> {
        let (mut updates, of_locks) = both(history.is_long(), || updates::check(history), || of_locks(history));
        let OfLocks { overlaps, exclusion, tokens, late, late_doubt, liveness } = of_locks;
        blame::assign(history, &mut updates.anomalies);
        blame::take_out(&updates.anomalies, &mut updates.lost, &mut updates.keys);
        let (owners, stops) = (OnceLock::new(), OnceLock::new());
        Case { history, updates, overlaps, exclusion, tokens, late, late_doubt, liveness, owners, stops }
    }

    /// Whose lock was certainly there, and when.
    pub fn owners(&self) -> &Owners<'h> {
        self.owners.get_or_init(|| Owners::new(self.history))
    }

    /// When a client could neither act nor speak.
    pub fn stops(&self) -> &Stops<'h> {
        self.stops.get_or_init(|| Stops::new(self.history))
    }

    /// The anomalies of some kinds among those of the updates.
    pub fn updates_where(&self, is_it: impl Fn(AnomalyKind) -> bool) -> Vec<Anomaly> {
        self.updates.anomalies.iter().filter(|anomaly| is_it(anomaly.kind)).cloned().collect()
    }
}

fn of_locks(history: &History) -> OfLocks {
    let mut overlaps = holds::check(history);
    causes::of_overlaps(history, &mut overlaps.anomalies);
    let mut late = Vec::new();
    let late_doubt = locks::late(history, &mut late);
    OfLocks {
        exclusion: evidence::mutual_exclusion(history, overlaps.side_by_side),
        tokens: locks::tokens(history),
        liveness: liveness::check(history),
        late,
        late_doubt,
        overlaps,
    }
}
