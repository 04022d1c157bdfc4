//! The verdicts of `client-check` on clients: a complete client, and the same client with parts of its messages left out.

use labs::client_check::{self, ClientCheck, Refused, Stopped};
use model::history::{History, Outcome, Phase, Process, Reading};
use model::nemesis::Nemesis;
use model::scenario::{Scenario, catalogue};
use report::Look;
use runner::simulate::{simulate, simulated_history};

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
    client_check::page::terminal(check, "redjepsen run …", false, Look::PLAIN)
}

#[test]
fn a_client_that_leaves_nothing_out_is_ready() {
    let check = checked(&histories("single"));
    assert!(check.is_right() && check.is_complete(), "{check:#?}");
    assert!(matches!(check.refused, Some(Refused::After(_))), "{:?}", check.refused);
    assert_eq!(check.serves, ["pause", "pause-before-write", "between-set-and-expire"]);
    let text = text(&check);
    for said in [
        "READY  ",
        "3 of 3 claims can be checked and 3 of 4",
        "the phase `half-released`: pause-in-release",
        "1 other about",
    ] {
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
    // Without stamps, the times of its holds are unknown.
    let mut silent = whole.clone();
    silent[0].operations.iter_mut().for_each(|operation| operation.phases.each(|stamp| stamp.stamped = None));
    let check = checked(&silent);
    assert!(check.is_right() && !check.is_complete());
    let said = text(&check);
    for part in ["INCOMPLETE  ", "mutual exclusion  CAN'T be checked: clients must send `mono_ns`", "Put `mono_ns` on"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // A phase that the client never reaches.
    let mut short = whole.clone();
    for history in &mut short {
        history
            .operations
            .iter_mut()
            .for_each(|operation| operation.phases.edit(|stamps| stamps.retain(|s| s.phase != Phase::BeforeWrite)));
    }
    let wanted = "start client:0 to before-write or end within 8ttl";
    let step = short[1].steps.iter_mut().find(|(_, event)| event.step == wanted).unwrap();
    step.1.outcome = model::history::StepOutcome::WentOn;
    let check = checked(&short);
    assert!(check.is_right() && !check.is_complete());
    assert!(!check.serves.contains(&"pause-before-write".to_string()), "{:?}", check.serves);
    assert!(text(&check).contains("Report the phases `before-write`"), "{}", text(&check));
}

#[test]
fn why_little_is_seen_of_a_client_is_said() {
    let whole = histories("single");
    let said = text(&checked(&whole));
    assert!(!said.contains("Give the client more time") && !said.contains("no further"), "{said}");
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
    (event.outcome, event.text) = (model::history::StepOutcome::Failed, "client c0 is still at it".to_string());
    let said = text(&checked(&broken));
    assert!(
        said.contains("the steps after step") && said.contains("client c0 is still at it were not tried"),
        "{said}"
    );
    // A client that waits too long lacks an ability only if the step requires it to stop waiting.
    let mut late = whole;
    let asked = late[1].steps.iter_mut().find(|(_, event)| event.step.starts_with("await client:1 ")).unwrap();
    asked.1.outcome = model::history::StepOutcome::WentOn;
    let check = checked(&late);
    assert!(check.refused == Some(Refused::Late) && check.is_complete(), "{check:#?}");
    late[0].run.as_mut().unwrap().claims.push(model::history::Claim::Timeouts);
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
    let contradiction = model::history::Contradiction {
        line: operation.index + 3,
        process: operation.process,
        text: "it continued from `read` without reporting it again".to_string(),
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

/// Whether the client is wrong because it writes nothing, and the text about it.
fn unwritten(histories: &[History; 2]) -> (bool, String) {
    let check = checked(histories);
    assert_eq!(check.is_right(), !check.unwritten, "{check:#?}");
    (check.unwritten, text(&check))
}

#[test]
fn answers_to_writes_that_the_resource_never_had_are_wrong() {
    for workload in ["single", "counter", "list", "perfect"] {
        let whole = histories(workload);
        let (is_wrong, said) = unwritten(&whole);
        assert!(!is_wrong, "{workload}: {said}");
        // Each client reads and writes elsewhere, and reports the values that it finds there.
        let mut elsewhere = whole.clone();
        for history in &mut elsewhere {
            let reads = history.operations.iter_mut().filter(|one| one.process == Process::Controller);
            reads.for_each(|one| (one.old, one.amount) = (Reading::Empty, None));
        }
        let (is_wrong, said) = unwritten(&elsewhere);
        let told = [
            "WRONG  ",
            "answers `ok` to writes that never reach the resource",
            "at the end k0 was empty",
            "Write the `value`",
        ];
        assert!(is_wrong && told.iter().all(|part| said.contains(part)), "{workload}: {said}");
        // The client writes invented values.
        let mut strange = whole.clone();
        for history in &mut strange {
            let reads = history.operations.iter_mut().filter(|one| one.process == Process::Controller);
            reads.for_each(|one| (one.old, one.amount) = (Reading::Value("v".into()), None));
        }
        assert!(unwritten(&strange).1.contains("at the end k0 held `v`"), "{workload}");
        // Only the first write reaches the resource.
        let mut first = whole.clone();
        let value =
            first[0].operations.iter().find(|one| one.outcome == Outcome::Ok && one.f.writes()).unwrap().new.clone();
        let last = first[0].operations.iter_mut().rfind(|one| one.process == Process::Controller).unwrap();
        (last.old, last.amount) = (Reading::Value(value.unwrap()), None);
        let (is_wrong, said) = unwritten(&first);
        assert!(is_wrong && said.contains("later the resource still held"), "{workload}: {said}");
    }
    // A lock that lets two clients in loses updates; the client is not to blame.
    let (is_wrong, said) = unwritten(&histories("none"));
    assert!(!is_wrong, "{said}");
}

#[test]
fn stamps_of_another_clock_are_called_that_and_not_left_out() {
    let scenario = client_check::at_work(&like("single"));
    let history = simulate(&scenario).unwrap().history;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.jsonl");
    let written = String::from_utf8(simulated_history(&scenario).unwrap()).unwrap();
    for (off_ns, said) in [
        (9_000_000_000_i64, "9 s after the controller had received its report"),
        (-9_000_000_000, "before its operation began"),
    ] {
        let off = written.lines().map(|line| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(stamp) = event.get("mono_ns").and_then(serde_json::Value::as_i64) {
                event["mono_ns"] = (stamp + off_ns).max(0).into();
            }
            event.to_string() + "\n"
        });
        std::fs::write(&file, off.collect::<String>()).unwrap();
        let stopped = simulate(&client_check::stopped(&like("single")).unwrap()).unwrap().history;
        let check = checked(&[model::history::load(&file).unwrap(), stopped]);
        let text = text(&check);
        let told = ["stamps with another clock", said, "the first wrong stamp, at `acquiring`"];
        assert!(!check.is_complete() && told.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("never does") && !text.contains("Put `mono_ns` on"), "{text}");
    }
    assert!(history.unfit_stamps.is_empty());
}

#[test]
fn client_that_never_answers_is_not_waited_for_again() {
    let mut silent = histories("single")[0].clone();
    assert!(!client_check::never_answers(&silent), "it answers");
    assert!(!client_check::never_answers(&History::default()));
    let of_clients = |one: &&mut model::history::Operation| one.process != Process::Controller;
    let hangs = "it hangs: no answer 10 s after its `invoke`, and no report";
    for operation in silent.operations.iter_mut().filter(of_clients) {
        (operation.outcome, operation.old) = (Outcome::Info, Reading::Unknown);
        operation.fails(Some("crash".into()), Some(hangs.into()));
    }
    assert!(client_check::never_answers(&silent));
    let nothing = History { run: silent.run.clone(), ..History::default() };
    let check = checked(&[silent.clone(), nothing]);
    let said = text(&check);
    assert!(!check.is_right() && said.contains("never said `ok`") && said.contains("Answer each `invoke`"), "{said}");
    let event = |text: &str| model::history::ClientEvent {
        process: 0,
        step: model::history::ClientStep::Ended,
        text: text.into(),
        nodes: Vec::new(),
    };
    for (how, told) in [(hangs, "does not answer each `invoke`"), ("it ended with exit code 1", "exits on its own")] {
        let mut ends = silent.clone();
        ends.clients.push((9, event(how)));
        let nothing = History { run: ends.run.clone(), ..History::default() };
        let said = text(&checked(&[ends, nothing]));
        assert!(said.contains("WRONG  ") && said.contains(told), "{said}");
    }
    // A client that answers once gets further operations.
    let once = silent.operations.iter_mut().find(of_clients).unwrap();
    once.outcome = Outcome::Ok;
    once.fails(None, None);
    assert!(!client_check::never_answers(&silent));
}
