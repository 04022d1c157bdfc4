//! Planted bugs: a gate that always passes, or a kind of anomaly that the checker ignores. Only builds with debug assertions
//! contain them, and only the tests of the tester plant them: see [`base::mutants`].

use super::verdict::{Anomaly, Gate};
use base::mutants::planted;

/// Passes the gate, or drops the anomalies, that the planted bug names: `gate.completed`, `anomaly.lost update`.
pub(super) fn blind(gates: &mut [Gate], anomalies: &mut Vec<Anomaly>) {
    for gate in gates {
        gate.passed |= planted(&format!("gate.{}", gate.name));
    }
    anomalies.retain(|anomaly| !planted(&format!("anomaly.{}", anomaly.kind.name())));
}
