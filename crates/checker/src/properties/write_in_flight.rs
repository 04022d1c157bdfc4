//! No client releases the lock while its own write is still in flight. No lock can prevent the consequences, so such a run proves
//! nothing about the lock. The theory is in `checker/blame.rs`, and the gate `clients-careful` reports it.

use super::super::evidence::Evidence;
use super::*;

pub static DEF: Property = Property {
    id: "clients-careful",
    rank: Rank::Gate,
    title: "No client releases the lock with a write still under way that later overwrites an update",
    applies: "every run",
    parameter: None,
    check: |case| Findings {
        anomalies: case.updates_where(|kind| kind == AnomalyKind::WriteInFlight),
        evidence: Evidence::default(),
    },
};

/// An update was lost to a write that was in flight when its client released the lock: that client's fault.
pub static WRITE_IN_FLIGHT: AnomalyDef = AnomalyDef {
    name: "write in flight",
    incident: "A lock released with a write still in flight",
    lines: Lines::Operations,
    blames: Blames::Writes,
};
