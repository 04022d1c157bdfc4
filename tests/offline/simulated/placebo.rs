//! Placebos: faults that a history reports and that never happened. A run with a placebo is never valid if its own history
//! contradicts the fault. No other fault is contradicted.

use checker::{Validity, check};
use model::fault_kinds::RulesOut;
use model::history::{
    CallEffect, Command, FaultKind, FaultWindow, Function, History, Operation, Outcome, Phase, PhaseStamp, Promotion,
    SeenPromotion, load_reader,
};
use runner::simulate::simulated_history;

use crate::kit::histories::read_later;
use crate::kit::{on_all_processors, scenario};

const MS: u64 = 1_000_000;

fn without_faults(workload: &str, seed: u64) -> History {
    let history = simulated_history(&scenario(workload, "none", seed, "8s")).unwrap();
    load_reader(history.as_slice(), "history.jsonl").unwrap()
}

/// A fault on all members that is reported as observed and healed.
fn placebo(history: &History, kind: FaultKind, from: u64, to: u64) -> FaultWindow {
    let run = history.run.as_ref().unwrap();
    let clients: Vec<String> = (0..run.clients).map(|client| format!("c{client}")).collect();
    let nodes: Vec<String> = (0..run.nodes).map(|node| format!("n{node}")).collect();
    let pairs = clients.iter().flat_map(|client| nodes.iter().map(move |node| (client.clone(), node.clone())));
    let links = pairs.flat_map(|(client, node)| [(client.clone(), node.clone()), (node, client)]).collect();
    let of_links = kind.is_of_the_network();
    FaultWindow {
        targets: if of_links { clients.iter().chain(&nodes).cloned().collect() } else { nodes },
        inject: from,
        injected: Some((from, true)),
        heal: Some(to),
        healed: Some((to, true)),
        aftermath_ns: Some(0),
        what: if kind.needs.by_client { format!("block client:0 for {}ms", (to - from) / MS) } else { String::new() },
        links: of_links.then_some(links),
        delay_ns: (kind == FaultKind::Delay).then_some(1_000 * MS),
        on_call: kind.is_at_command().then_some(CallEffect::HoldReply),
        on_each: kind.is_at_command().then_some(Command::Write),
        ..FaultWindow::new(0, kind)
    }
}

/// True if an operation asked for the lock and acquired it within this time.
fn acquires_within(operation: &Operation, from: u64, to: u64) -> bool {
    let at = |phase| operation.phase(phase).and_then(|stamp| u64::try_from(stamp.stamped?).ok());
    let (Some(asked), Some(acquired)) = (at(Phase::Acquiring), at(Phase::Acquired)) else { return false };
    // Stamps of other machines may differ slightly from the run's clock.
    from + MS < asked && acquired + MS < to
}

#[test]
fn a_fault_without_an_effect_is_refuted_by_what_it_rules_out_and_only_by_that() {
    let histories: Vec<History> = on_all_processors(&[1, 2], |seed| without_faults("single", *seed));
    let (mut refuted, mut stand) = (0, 0);
    for (seed, kind) in (0..).zip(FaultKind::ALL.iter().flat_map(|kind| [*kind; 8])) {
        let mut history = histories[seed % histories.len()].clone();
        let from = (1_000 + 577 * (seed as u64 % 11)) * MS;
        let to = from + (300 + 71 * (seed as u64 % 7)) * MS;
        history.run.as_mut().unwrap().faults_expected = true;
        history.faults = vec![placebo(&history, kind, from, to)];
        let verdict = check(&history);
        let shown = history.operations.iter().any(|operation| acquires_within(operation, from, to));
        let rules_out = kind.does.rules_out;
        let is_refuted = shown && !matches!(rules_out, RulesOut::OldValues | RulesOut::Nothing(_));
        let gate = verdict.gates.iter().find(|gate| gate.name == "faults-observed").unwrap();
        if is_refuted {
            assert!(!gate.passed, "{kind} from {from} to {to}: {}", gate.text);
            assert_eq!(verdict.valid, Validity::Unknown, "{kind} from {from} to {to}");
            refuted += 1;
        } else {
            assert!(gate.passed || shown, "{kind} from {from} to {to}: {}", gate.text);
            assert!(gate.passed || !matches!(rules_out, RulesOut::Nothing(_)), "{kind}: {}", gate.text);
            stand += 1;
        }
    }
    assert!(refuted >= 50 && stand >= 20, "{refuted} refuted, {stand} stand");
}

#[test]
fn a_flush_is_refuted_by_a_value_that_outlives_it_on_all_nodes() {
    let mut history = without_faults("register-sentinel", 1);
    let found = |history: &History| {
        let gates = check(history).gates;
        gates.into_iter().find(|gate| gate.name == "faults-observed").map(|gate| (gate.passed, gate.text)).unwrap()
    };
    let (value, before, after) = read_later(&history);
    history.faults = vec![placebo(&history, FaultKind::Flush, before + 1, after - 1)];
    let (passed, text) = found(&history);
    assert!(!passed && text.contains(&format!("still read {value}")), "{text}");
    // A compare-and-set that failed read the value, too.
    let mut compared = history.clone();
    for one in compared.operations.iter_mut().filter(|one| one.f == Function::Read) {
        (one.f, one.outcome) = (Function::Cas, Outcome::Fail);
        let (index, received) = (one.index, one.completed.unwrap_or(one.invoked));
        let (phase, stamped) = (Phase::Read, i64::try_from(received).ok());
        let stamp = PhaseStamp { index, phase, received, stamped, token: None, validity_ms: None };
        one.phases.edit(|stamps| stamps.push(stamp));
    }
    let (passed, text) = found(&compared);
    assert!(!passed && text.contains(" still read "), "{text}");
    history.faults[0].targets.pop();
    let (passed, text) = found(&history);
    assert!(passed, "another node may have kept it: {text}");
}

#[test]
fn without_a_promotion_an_acquired_lock_refutes_an_outage_of_the_primary_alone() {
    let history = without_faults("replicated", 1);
    let at = |one: &Operation, phase| one.phase(phase).and_then(|stamp| u64::try_from(stamp.stamped?).ok());
    let mut acquired =
        history.operations.iter().filter_map(|one| Some((at(one, Phase::Acquiring)?, at(one, Phase::Acquired)?)));
    let (from, to) = acquired.next().unwrap();
    let passes = |nodes: &[&str], promotions: usize| {
        let mut history = history.clone();
        history.faults = vec![placebo(&history, FaultKind::Pause, from - MS, to + MS)];
        history.faults[0].targets = nodes.iter().map(ToString::to_string).collect();
        let promotion = Promotion { key: "k0".into(), node: "n1".into(), instead_of: "n0".into(), after_ns: from };
        history.promotions = vec![SeenPromotion { index: 9, time: from, promotion }; promotions];
        check(&history).gates.into_iter().find(|gate| gate.name == "faults-observed").unwrap().passed
    };
    assert!(!passes(&["n0"], 0) && passes(&["n1", "n2"], 0), "n0 is the primary");
    assert!(passes(&["n0"], 1), "another node may have been the primary");
}
