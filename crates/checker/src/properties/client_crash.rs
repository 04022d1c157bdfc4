//! No client fails by itself. An unexpected exit violates no claim; it is a finding, and the gate `clients-steady` reports it.

use super::super::evidence::Evidence;
use super::super::gates::ended_by_themselves;
use super::*;

pub static DEF: Property = Property {
    id: "clients-steady",
    rank: Rank::Gate,
    title: "No client fails on its own",
    applies: "every run",
    parameter: None,
    check: |case| Findings { anomalies: ended_by_themselves(case.history), evidence: Evidence::default() },
};

/// A client's program ended by itself; no fault ended it.
pub static ENDED_BY_ITSELF: AnomalyDef = AnomalyDef {
    name: "program that ended by itself",
    incident: "Client exited unexpectedly",
    lines: Lines::Operations,
    blames: Blames::Nothing,
};
