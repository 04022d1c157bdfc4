//! What `client-check` says of clients: of one that is complete, and of the same one with something left out of what it said.

use redjepsen::client_check::{self, ClientCheck, Refused, Stopped};
use redjepsen::history::{History, Phase};
use redjepsen::nemesis::Nemesis;
use redjepsen::report::{self, Look};
use redjepsen::runner::simulate::simulate;
use redjepsen::scenario::{Scenario, catalogue};

use crate::kit;

fn like(workload: &str) -> Scenario {
    Scenario { clients: 2, ..kit::scenario(workload, "none", 1, "3s") }
}

fn histories(workload: &str) -> [History; 2] {
    let like = like(workload);
    [client_check::at_work(&like), client_check::stopped(&like).unwrap()]
        .map(|scenario| simulate(&scenario).unwrap().history)
}

fn checked([at_work, stopped]: &[History; 2]) -> ClientCheck {
    let of = |name: &str| -> Result<Nemesis, String> { Ok(catalogue::nemesis(name).unwrap().1) };
    let catalogue: Vec<_> = ["pause", "pause-before-write", "between-set-and-expire", "pause-in-release"]
        .map(|name| (name.to_string(), of(name)))
        .into_iter()
        .chain([("partition".to_string(), Err("one node can't be split".to_string()))])
        .collect();
    ClientCheck::new(at_work, stopped, &catalogue)
}

fn text(check: &ClientCheck) -> String {
    report::client_check::terminal(check, "redjepsen run …", false, Look::PLAIN)
}

#[test]
fn a_client_that_leaves_nothing_out_is_ready() {
    let check = checked(&histories("single"));
    assert!(check.is_right() && check.is_complete(), "{check:#?}");
    assert!(matches!(check.refused, Some(Refused::After(_))), "{:?}", check.refused);
    assert_eq!(check.serves, ["pause", "pause-before-write", "between-set-and-expire"]);
    let text = text(&check);
    for said in ["READY  ", "3 of 3 claims and 3 of 4", "the phase `half-released`: pause-in-release", "1 other about"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn so_is_one_without_a_lock_to_ask_for_or_without_a_resource() {
    for (workload, asked) in [("mutex", true), ("register-sentinel", false)] {
        let check = checked(&histories(workload));
        assert!(check.is_right(), "{workload}: {check:#?}");
        assert_eq!(check.refused.is_some(), asked, "{workload}");
    }
}

#[test]
fn what_is_left_out_is_named_with_what_it_costs() {
    let whole = histories("single");
    // No stamps: nobody knows when it held the lock.
    let mut silent = whole.clone();
    silent[0].operations.iter_mut().for_each(|operation| operation.phases.each(|stamp| stamp.stamped = None));
    let check = checked(&silent);
    assert!(check.is_right() && !check.is_complete());
    let said = text(&check);
    for part in
        ["INCOMPLETE  ", "mutual exclusion  CAN'T be judged: each hold must carry `mono_ns`", "Put `mono_ns` on"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // A phase that it never comes by.
    let mut short = whole.clone();
    for history in &mut short {
        history
            .operations
            .iter_mut()
            .for_each(|operation| operation.phases.edit(|stamps| stamps.retain(|s| s.phase != Phase::BeforeWrite)));
    }
    let wanted = "start client:0 to before-write or end within 8ttl";
    let step = short[1].steps.iter_mut().find(|(_, event)| event.step == wanted).unwrap();
    step.1.outcome = redjepsen::history::StepOutcome::WentOn;
    let check = checked(&short);
    assert!(check.is_right() && !check.is_complete());
    assert!(!check.serves.contains(&"pause-before-write".to_string()), "{:?}", check.serves);
    assert!(text(&check).contains("Report the phases `before-write`"), "{}", text(&check));
}

#[test]
fn why_little_is_seen_of_a_client_is_said() {
    let whole = histories("single");
    let said = text(&checked(&whole));
    assert!(!said.contains("Give it time") && !said.contains("no further"), "{said}");
    // Each operation takes a third of the run.
    let mut slow = whole.clone();
    slow[0].last_time = 3_000_000_000;
    slow[0].operations.truncate(3);
    slow[0].operations.iter_mut().for_each(|operation| operation.completed = Some(operation.invoked + 1_000_000_000));
    let longer = |history: &History| client_check::longer_at_work(&like("single"), history);
    assert_eq!(longer(&slow[0]).map(|longer| longer.time_limit.as_secs()), Some(16));
    assert_eq!(longer(&whole[0]), None);
    let said = text(&checked(&slow));
    assert!(said.contains("an operation takes 1 s, so `--time-limit 16s` shows more"), "{said}");
    // The script breaks off.
    let mut broken = whole.clone();
    let wanted = "start client:0 to read or end within 8ttl";
    let place = broken[1].steps.iter().position(|(_, event)| event.step == wanted).unwrap();
    broken[1].steps.truncate(place + 1);
    let event = &mut broken[1].steps[place].1;
    (event.outcome, event.text) = (redjepsen::history::StepOutcome::Failed, "client c0 is still at it".to_string());
    let said = text(&checked(&broken));
    assert!(
        said.contains("what comes after step") && said.contains("client c0 is still at it was not tried"),
        "{said}"
    );
    // Who waits for longer than it is to leaves something out only where it is to do that.
    let mut late = whole;
    let asked = late[1].steps.iter_mut().find(|(_, event)| event.step.starts_with("await client:1 ")).unwrap();
    asked.1.outcome = redjepsen::history::StepOutcome::WentOn;
    let check = checked(&late);
    assert!(check.refused == Some(Refused::Late) && check.is_complete(), "{check:#?}");
    late[0].run.as_mut().unwrap().claims.push(redjepsen::history::Claim::Promises);
    let check = checked(&late);
    assert!(!check.is_complete() && text(&check).contains("Give up after `acquire_timeout_ms`"), "{}", text(&check));
}

#[test]
fn a_breakpoint_that_is_passed_is_a_mistake_and_not_a_matter_of_taste() {
    let mut histories = histories("single");
    let wanted = "start client:0 to read or end within 8ttl";
    let (time, _) = histories[1].steps.iter().find(|(_, event)| event.step == wanted).unwrap();
    let mut operations = histories[1].operations.iter();
    let operation = operations.rfind(|operation| operation.invoked <= *time).unwrap();
    let contradiction = redjepsen::history::Contradiction {
        line: operation.index + 3,
        process: operation.process,
        text: "it went on from `read` without reporting it again".to_string(),
    };
    histories[1].contradictions.push(contradiction);
    let check = checked(&histories);
    assert!(!check.is_right());
    let stopped = |phase| check.phases.iter().find(|used| used.phase == phase).map(|used| used.stopped.clone());
    assert!(matches!(stopped(Phase::Read), Some(Stopped::WentOn(_))));
    assert_eq!(stopped(Phase::BeforeWrite), Some(Stopped::Waited));
    let said = text(&check);
    assert!(said.contains("WRONG  ") && said.contains("wait for `go`, and report it again"), "{said}");
}
