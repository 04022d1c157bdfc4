//! A checker that is blind in one eye: a gate that always passes, or a kind of anomaly that it does not look for. Only builds with
//! debug assertions have it, and only the tests of the tester plant it: see [`base::mutants`].

use super::verdict::{Anomaly, Gate};
use base::mutants::planted;

/// Passes the gate, or drops the anomalies, that the planted bug names: `gate.completed`, `anomaly.lost update`.
pub(super) fn blind(gates: &mut [Gate], anomalies: &mut Vec<Anomaly>) {
    for gate in gates {
        gate.passed |= planted(&format!("gate.{}", gate.name));
    }
    anomalies.retain(|anomaly| !planted(&format!("anomaly.{}", anomaly.kind.name())));
}
