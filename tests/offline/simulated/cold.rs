//! A cold runtime takes seconds for its first lock, and faults wait for it: a fault before any client works would have no effect.

use model::history::{History, Outcome, Process};
use model::scenario::Options;
use runner::simulate::simulate;

use crate::kit::scenario;

/// The times at which the first update was acknowledged and the first fault was ordered, in nanoseconds.
fn begins(history: &History) -> (u64, u64) {
    let clients = history.operations.iter().filter(|operation| matches!(operation.process, Process::Client(_)));
    let updated =
        clients.filter(|operation| operation.outcome == Outcome::Ok).filter_map(|operation| operation.completed);
    (updated.min().unwrap(), history.faults.iter().map(|fault| fault.inject).min().unwrap())
}

#[test]
fn recurring_faults_wait_for_the_first_update() {
    for nemesis in ["pause", "kill-node", "clock"] {
        for seed in 0..2 {
            let warm = scenario("redlock", nemesis, seed, "30s");
            let (_, planned) = begins(&simulate(&warm).unwrap().history);
            let options = Options { hold: Some("8s".parse().unwrap()), ..Options::default() };
            let cold = options.scenario("redlock", nemesis, seed, std::path::Path::new("")).unwrap();
            let (updated, injected) = begins(&simulate(&cold).unwrap().history);
            assert!(planned < updated, "{nemesis}: {planned} is no earlier than {updated}");
            assert!(injected > updated, "{nemesis}: a fault at {injected}, the first update at {updated}");
        }
    }
}
