//! If a client contradicts itself, the report names the line, and the client's messages about this operation are not evidence.

use std::io::Cursor;

use checker::{Validity, check};
use model::history::{Contradiction, History, Outcome, Process, Reading, load_reader};

const SOUND: &str = include_str!("../../../fixtures/pause-healed-in-time.jsonl");

/// The sound history with some lines changed; lines are found by text that they contain.
fn changed(changes: &[(&str, &str, &str)]) -> History {
    let mut text = String::new();
    let mut changes = changes.to_vec();
    for line in SOUND.lines() {
        let mut line = line.to_string();
        changes.retain(|(within, from, to)| {
            let fits = line.contains(within);
            if fits {
                assert!(line.contains(from), "{line}");
                line = line.replacen(from, to, 1);
            }
            !fits
        });
        text.push_str(&line);
        text.push('\n');
    }
    assert!(changes.is_empty(), "not found: {changes:?}");
    load_reader(Cursor::new(text), "history.jsonl").unwrap()
}

// The first operation of c1, answered in line 22.
const READ: &str = r#""index":17,"#;
const BEFORE_WRITE: &str = r#""index":18,"#;
const WRITTEN: &str = r#""index":19,"#;
const RELEASING: &str = r#""index":20,"#;
const ANSWER: &str = r#""index":21,"#;

#[test]
fn what_agrees_is_no_contradiction() {
    for changes in [
        vec![],
        vec![(READ, r#""value":"c0:1""#, r#""value":"c0:1","count":1"#)],
        vec![(READ, r#""value":"c0:1""#, r#""value":"c0:1","count":1"#), (ANSWER, "}", r#","count":1}"#)],
        // Only one of the two lines has the value.
        vec![(READ, r#","value":"c0:1""#, "")],
        vec![(READ, r#""read""#, r#""extended""#), (BEFORE_WRITE, "before-write", "read")],
        vec![(WRITTEN, r#""phase":"written""#, r#""phase":"before-write""#)],
        // A commit that both writes and releases the lock.
        vec![(WRITTEN, r#""phase":"written""#, r#""phase":"releasing""#), (RELEASING, "releasing", "written")],
    ] {
        let history = changed(&changes);
        assert_eq!(history.contradictions, [], "{changes:?}");
        assert_eq!(check(&history).valid, Validity::Valid, "{changes:?}: {:?}", check(&history).reasons);
    }
}

#[test]
fn an_answer_may_leave_out_what_was_read_and_then_nobody_knows_it() {
    let history =
        changed(&[(ANSWER, r#"["c0:1","c1:1"]"#, r#"[null,"c1:1"],"untold":true"#), (READ, r#","value":"c0:1""#, "")]);
    let operation = history.operations.iter().find(|operation| operation.index == 15).unwrap();
    assert_eq!((operation.outcome, &operation.old), (Outcome::Ok, &Reading::Unknown));
}

#[test]
fn what_can_not_all_be_true_is_told_and_counts_for_nothing() {
    for (changes, line, said) in [
        (
            vec![(ANSWER, r#"["c0:1","#, "[null,")],
            22,
            "it answered `ok` without `old`, though its `read` phase said c0:1",
        ),
        (
            vec![(ANSWER, r#"["c0:1","c1:1"]"#, r#"[null,"c1:1"],"untold":true"#)],
            22,
            "it answered `ok` without `old`, though its `read` phase said c0:1",
        ),
        (vec![(ANSWER, r#"["c0:1","#, r#"["c0:0","#)], 22, "it reported that it read c0:1, and then c0:0"),
        (
            vec![(READ, r#""value":"c0:1""#, r#""value":null"#)],
            22,
            "it reported that it read an empty key, and then c0:1",
        ),
        (
            vec![(READ, r#""value":"c0:1""#, r#""value":"c0:1","count":1"#), (ANSWER, "}", r#","count":2}"#)],
            22,
            "it reported that it read a count of 1, and then a count of 2",
        ),
        (vec![(READ, r#""value":"c0:1""#, r#""value":"c0:1","count":0"#)], 18, "it read c0:1 with a count of 0"),
        (
            vec![(READ, r#""value":"c0:1""#, r#""value":null,"count":3"#), (ANSWER, r#"["c0:1","#, "[null,")],
            18,
            "it reported that the key was empty, with a count of 3",
        ),
        (vec![(BEFORE_WRITE, "before-write", "acquired")], 19, "it reported `acquired` after `read`"),
        (vec![(BEFORE_WRITE, "before-write", "releasing")], 21, ""),
        (
            vec![(WRITTEN, "written", "released"), (RELEASING, "releasing", "extended")],
            21,
            "`extended` after `released`",
        ),
        (vec![(r#""index":16,"#, "acquired", "lost")], 17, "it reported `lost` before it had `acquired` the lock"),
        (
            vec![(RELEASING, "1165000000", "1159000000")],
            21,
            "it stamped `releasing` 1000000 ns before an earlier phase",
        ),
        (
            vec![(ANSWER, r#""type":"ok""#, r#""type":"fail","error":"conflict""#), (ANSWER, r#""c0:1""#, "null")],
            22,
            "it answered `fail` after it had `written`",
        ),
        (
            vec![
                (ANSWER, r#""type":"ok""#, r#""type":"fail","error":"not-acquired""#),
                (ANSWER, r#""c0:1""#, "null"),
                (WRITTEN, "written", "before-write"),
            ],
            22,
            "it answered `not-acquired` after it had `acquired` the lock",
        ),
    ] {
        let history = changed(&changes);
        if said.is_empty() {
            // This is the commit of a transaction: the report of the write may follow the release.
            assert_eq!(history.contradictions, []);
            continue;
        }
        let [Contradiction { line: found, process, text }] = &history.contradictions[..] else {
            panic!("{changes:?}: {:?}", history.contradictions)
        };
        assert_eq!((*found, *process), (line, Process::Client(1)), "{text}");
        assert!(text.contains(said), "{text}");
        let operation = history.operations.iter().find(|operation| operation.index == 15).unwrap();
        assert_eq!((operation.outcome, &operation.old, &operation.amount), (Outcome::Info, &Reading::Unknown, &None));
        let told = operation.phases.iter().any(|stamp| stamp.stamped.is_some() || stamp.validity_ms.is_some());
        assert!(!told, "nor do its stamps count");
        let verdict = check(&history);
        assert_eq!(verdict.valid, Validity::Unknown, "{text}: {:?}", verdict.anomalies);
        let gate = verdict.gates.iter().find(|gate| !gate.passed).unwrap();
        assert_eq!(gate.name, "clients-consistent");
        assert!(gate.text.starts_with(&format!("c1 contradicts itself in line {line}: {text}")), "{}", gate.text);
    }
}

const INVOKED: &str = r#""index":15,"#;

#[test]
fn who_is_told_to_wait_reports_the_phase_again() {
    let gated = |phases: &str| (INVOKED, "}", format!(r#","breakpoints":[{phases}]}}"#));
    let (at, from, to) = gated(r#""before-write""#);
    let history = changed(&[(at, from, &to)]);
    let [Contradiction { line: 20, text, .. }] = &history.contradictions[..] else {
        panic!("{:?}", history.contradictions)
    };
    assert_eq!(text, "it continued from `before-write` without reporting it again");
    assert_eq!(check(&history).valid, Validity::Unknown);
    // Here it does: the report of the write becomes a second report of the earlier phase.
    let again = (WRITTEN, r#""phase":"written""#, r#""phase":"before-write""#);
    assert_eq!(changed(&[(at, from, &to), again]).contradictions, []);
    // The client never came to this phase.
    let (at, from, to) = gated(r#""half-acquired""#);
    assert_eq!(changed(&[(at, from, &to)]).contradictions, []);
    // A renewal in the background does not mean that the client continued.
    let (at, from, to) = gated(r#""before-write""#);
    let renewed = (WRITTEN, r#""phase":"written""#, r#""phase":"extended""#);
    let [Contradiction { line: 21, .. }] = &changed(&[(at, from, &to), renewed]).contradictions[..] else { panic!() };
}

/// Other clients' reads show that a client did something else than it says. The lock is not to blame.
#[test]
fn whoever_calls_a_write_failed_that_others_read_is_not_believed() {
    let failed = (ANSWER, r#""type":"ok""#, r#""type":"fail","error":"unavailable""#);
    let unread = (ANSWER, r#""c0:1""#, "null");
    let silent = (WRITTEN, "written", "before-write");
    let history = changed(&[failed, unread, silent]);
    let [Contradiction { line: 22, process: Process::Client(1), text }] = &history.contradictions[..] else {
        panic!("{:?}", history.contradictions)
    };
    assert_eq!(text, "it answered `fail`, but c2 read c1:1, the value of its write");
    let verdict = check(&history);
    assert_eq!((verdict.valid, &verdict.anomalies[..]), (Validity::Unknown, &[][..]));

    let elsewhere = |within| (within, r#""key":"k0""#, r#""key":"k1""#);
    let history = changed(&[elsewhere(INVOKED), elsewhere(ANSWER), (READ, r#","value":"c0:1""#, ""), unread]);
    let [Contradiction { line: 16, process: Process::Client(1), text }] = &history.contradictions[..] else {
        panic!("{:?}", history.contradictions)
    };
    assert_eq!(text, "it was asked to write c1:1 to k1, but c2 read it in k0");
    let verdict = check(&history);
    assert_eq!((verdict.valid, &verdict.anomalies[..]), (Validity::Unknown, &[][..]));
    // A value that no client had to write is still found.
    let history = changed(&[(ANSWER, r#""c0:1","#, r#""c9:9","#), (READ, r#""c0:1""#, r#""c9:9""#)]);
    assert_eq!((history.contradictions.len(), check(&history).valid), (0, Validity::Invalid));
}
