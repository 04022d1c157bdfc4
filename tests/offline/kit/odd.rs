//! Histories that can be loaded, but that redjepsen would never write.

use checker::*;
use model::history::*;
use report::RunFacts;
use runner::Checked;

use super::{as_if_real, scenario};

/// The same run with its faults on a node, and with clients whose clocks are not known.
pub fn far_away(mut run: Checked) -> Checked {
    run.history.faults.iter_mut().for_each(|fault| fault.targets = vec!["n2".into()]);
    run.history.clock = None;
    run.history.operations.iter_mut().for_each(|one| one.phases.each(|stamp| stamp.stamped = None));
    run
}

/// The same run as a foreign history: only the operations and their ends.
pub fn bare(mut run: Checked) -> Checked {
    (run.history.run, run.history.clock) = (None, None);
    run.history.faults.clear();
    run.verdict.anomalies.iter_mut().for_each(|anomaly| (anomaly.fault, anomaly.how) = (None, None));
    run.history.operations.iter_mut().for_each(|operation| operation.phases.edit(Vec::clear));
    run
}

/// A pause whose beginning and end were observed.
pub fn pause(fault: u32, target: String, from: u64, to: u64) -> FaultWindow {
    FaultWindow {
        what: format!("pause {target}"),
        targets: vec![target],
        inject: from,
        injected: Some((from + 1_000_000, true)),
        heal: Some(to - 1_000_000),
        healed: Some((to, true)),
        aftermath_ns: Some(0),
        texts: vec!["1 process in state T".into(), "1 process runs again".into()],
        lines: vec![0],
        ..FaultWindow::new(fault, FaultKind::Pause)
    }
}

/// The histories with their names.
pub fn oddities() -> Vec<(&'static str, Checked)> {
    let sample = || as_if_real(&scenario("redlock", "pause", 7, "9s"));
    let mut empty = Checked::new(History::default(), None, RunFacts::default());
    (empty.verdict.claims, empty.verdict.gates, empty.verdict.reasons) = Default::default();
    let mut all = vec![("empty", empty)];
    let mut add = |name, change: &dyn Fn(&mut Checked)| {
        let mut run = sample();
        change(&mut run);
        all.push((name, run));
    };
    add("bare", &|run| *run = Checked { scenario: None, ..bare(sample()) });
    add("no clients in the header", &|run| run.history.run.as_mut().unwrap().clients = 0);
    add("no operations", &|run| run.history.operations.clear());
    add("no anomalies", &|run| run.verdict.anomalies.clear());
    add("one client", &|run| run.history.operations.retain(|one| one.process == Process::Client(0)));
    add("truncated", &|run| {
        run.history.truncated_at_line = Some(77);
        run.history.end = None;
    });
    add("broken off", &|run| run.history.end = Some(End { completed: false, text: "interrupted".into() }));
    add("never healed", &|run| {
        run.history.faults.iter_mut().for_each(|fault| (fault.heal, fault.healed) = (None, None))
    });
    add("skipped", &|run| {
        run.history.faults.iter_mut().for_each(|fault| {
            *fault = FaultWindow { injected: None, healed: None, skipped: Some("no holder".into()), ..fault.clone() };
        });
    });
    add("no targets", &|run| run.history.faults.iter_mut().for_each(|fault| fault.targets.clear()));
    add("all at time 0", &|run| {
        run.history.last_time = 0;
        run.history.operations.iter_mut().for_each(|operation| {
            (operation.invoked, operation.completed) = (0, Some(0));
            operation.phases.each(|stamp| (stamp.received, stamp.stamped) = (0, Some(-5)));
        });
    });
    add("the end of time", &|run| {
        run.history.last_time = u64::MAX;
        run.history.faults.push(pause(8, "c1".into(), u64::MAX / 2, u64::MAX - 1));
        run.history.operations.iter_mut().for_each(|operation| {
            operation.completed = Some(u64::MAX);
            operation.phases.each(|stamp| (stamp.received, stamp.stamped) = (u64::MAX, Some(i64::MAX)));
        });
    });
    add("never answered", &|run| {
        run.history.operations.iter_mut().for_each(|operation| {
            (operation.completed, operation.outcome) = (None, Outcome::Info);
            operation.phases.edit(|stamps| stamps.truncate(2));
        });
    });
    add("only reads", &|run| {
        run.history.operations.iter_mut().for_each(|operation| {
            (operation.f, operation.new) = (Function::Read, None);
            operation.phases.edit(Vec::clear);
        });
    });
    add("values of a megabyte", &|run| {
        run.history.operations.truncate(40);
        run.history.operations.iter_mut().for_each(|operation| {
            operation.new = Some("\u{202e}漢`\n".repeat(100_000).into());
            operation.old = Reading::Value("é".repeat(500_000).into());
            operation.key = "k".repeat(100_000).into();
        });
    });
    add("anomalies of nothing", &|run| {
        let mut odd = Vec::new();
        for kind in [
            AnomalyKind::LostUpdate,
            AnomalyKind::StaleRead,
            AnomalyKind::ImpossibleRead,
            AnomalyKind::OrderViolation,
            AnomalyKind::OverlappingHolders,
        ] {
            for operations in [vec![], vec![1], vec![1, 1], vec![1, 9], vec![123_456, 9], (0..3000).collect()] {
                let lost = operations.iter().copied().take(2000).collect();
                odd.push(Anomaly {
                    how: None,
                    kind,
                    key: String::new(),
                    time: 0,
                    operations,
                    fault: Some(99),
                    lost,
                    summary: String::new(),
                });
            }
        }
        run.verdict.anomalies = odd;
    });
    add("thousands of faults", &|run| {
        let begins = (0..5000).map(|number| (number, u64::from(number) * 5_000_000));
        run.history.faults =
            begins.map(|(number, at)| pause(number, format!("n{number}"), at, at + 3_000_000)).collect();
    });
    all
}
