//! Facts that several properties need, computed once for a history: surviving and lost updates, holders, locks that certainly
//! existed, and clients that could not act.

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

/// A history with the facts that its properties need.
pub struct Case<'h> {
    pub history: &'h History,
    /// Updates that were lost to writes in flight are not counted as lost.
    pub updates: Updates,
    pub overlaps: Overlaps,
    pub exclusion: Evidence,
    pub tokens: Tokens,
    /// Script steps by which a client should have acquired the lock but had not.
    pub late: Vec<Anomaly>,
    /// Why a late step is not evidence; None if there is no such step.
    pub late_doubt: Option<String>,
    pub liveness: Liveness,
    owners: OnceLock<Owners<'h>>,
    stops: OnceLock<Stops<'h>>,
}

/// The results that do not depend on the values read and written.
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

    /// When each client's lock certainly existed.
    pub fn owners(&self) -> &Owners<'h> {
        self.owners.get_or_init(|| Owners::new(self.history))
    }

    /// When a client could neither act nor report.
    pub fn stops(&self) -> &Stops<'h> {
        self.stops.get_or_init(|| Stops::new(self.history))
    }

    /// The anomalies of the updates whose kind passes the test.
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
