//! A run of redjepsen read as operations, as `check RUN --model` does.

use linearizability::formats::{FormatOptions, Loaded, OpenHistory, word};
use linearizability::history::{Content, NEVER, Outcome, Table, Value};
use model::history::{HistoryError, lock_operations, operations};

const HEALED_IN_TIME: &str = include_str!("../../../fixtures/pause-healed-in-time.jsonl");
const OUTLIVES_LOCK: &str = include_str!("../../../fixtures/pause-outlives-lock.jsonl");

fn load(text: &[u8]) -> Result<Loaded, HistoryError> {
    operations(OpenHistory::of(text, "file")?, &FormatOptions::default())
}

fn means(text: &str, expected: &[&str]) {
    let loaded = load(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(told(&loaded.table), expected, "{text}");
}

/// The operations of a table, one per line: `3 rmw@k "a" "b" ok 0..1`.
fn told(table: &Table) -> Vec<String> {
    let value = |value: Value| match table.values.content(value) {
        None => "?".to_string(),
        Some(Content::Nil) => "nil".to_string(),
        Some(Content::Text(text)) => format!("{text:?}"),
        Some(other) => panic!("runs write texts, not {other:?}"),
    };
    let line = |op: &linearizability::history::Op| {
        let outcome = match op.outcome {
            Outcome::Ok => "ok",
            Outcome::Fail => "fail",
            Outcome::Info => "info",
        };
        let until = if op.completed == NEVER { String::new() } else { op.completed.to_string() };
        let (f, key, a, b) = (word(op.f), &table.keys[op.key as usize], value(op.a), value(op.b));
        format!("{} {f}@{key} {a} {b} {outcome} {}..{until}", op.process, op.invoked)
    };
    table.operations.iter().map(line).collect()
}

/// A run with these operations, each written as `process type f value`.
fn run(lines: &[&str]) -> String {
    let header = OUTLIVES_LOCK.lines().next().unwrap();
    let line = |(line, index): (&&str, u32)| {
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().unwrap();
        let (process, kind, f, value) = (next(), next(), next(), next());
        format!(
            "{{\"index\":{index},\"time\":{index},\"key\":\"k\",\"process\":{process},\"type\":\"{kind}\",\
             \"f\":\"{f}\",\"value\":{value}}}\n"
        )
    };
    let lines: String = lines.iter().zip(1..).map(line).collect();
    format!("{header}\n{lines}")
}

#[test]
fn a_run_is_read_without_what_is_no_operation() {
    let loaded = load(OUTLIVES_LOCK.as_bytes()).unwrap();
    let count = OUTLIVES_LOCK.lines().filter(|line| line.contains("\"type\":\"invoke\"")).count();
    assert_eq!(loaded.table.operations.len(), count);
    assert_eq!(loaded.table.keys, ["k0"]);
    assert_eq!(told(&loaded.table)[0], "0 rmw@k0 nil \"c0:1\" ok 0..1");
    assert_eq!(loaded.process_name(loaded.table.operations[count - 1].process), "controller");

    // Counters and lists appear as the identities of their updates; amounts only matter to the run's verdict.
    let amounts = OUTLIVES_LOCK
        .replace("\"value\":[\"", "\"count\":7,\"value\":[\"")
        .replace("\"f\":\"read\",", "\"f\":\"read\",\"count\":2,\"elements\":[\"c0:1\",\"a\\\"b\"],");
    assert!(amounts.contains("\"elements\""));
    assert_eq!(load(amounts.as_bytes()).unwrap().table, loaded.table);

    // The rest of the history is accepted although its writer died within the last line.
    let cut = load(&OUTLIVES_LOCK.as_bytes()[..OUTLIVES_LOCK.len() - 5]).unwrap();
    assert_eq!(cut.truncated_at_line, Some(OUTLIVES_LOCK.lines().count() as u64));
    assert_eq!(cut.table, loaded.table);
}

#[test]
fn a_client_may_go_on_after_it_did_not_know_and_may_tell_what_it_had_read() {
    let lines = ["0 invoke rmw [null,\"b\"]", "0 info rmw [\"a\",\"b\"]", "0 invoke rmw [null,\"c\"]"];
    means(&run(&lines), &["0 rmw@k \"a\" \"b\" info 0..", "0 rmw@k ? \"c\" info 1.."]);
    // An answer without the old value does not mean an empty key.
    let untold = run(&["0 invoke rmw [null,\"b\"]", "0 ok rmw [null,\"b\"]"]);
    means(&untold.replace("\"ok\",", "\"ok\",\"untold\":true,"), &["0 rmw@k ? \"b\" ok 0..1"]);
}

#[test]
fn what_a_compare_and_set_replaced_is_known_from_its_end_or_not_at_all() {
    let lines = run(&[
        "0 invoke write \"a\"",
        "0 ok write \"a\"",
        "0 invoke cas [null,\"b\"]",
        "0 ok cas [\"a\",\"b\"]",
        "0 invoke cas [null,\"c\"]",
        "0 fail cas [null,\"c\"]",
        "0 invoke cas [null,\"d\"]",
        "0 info cas [null,\"d\"]",
    ]);
    means(&lines, &["0 write@k \"a\" nil ok 0..1", "0 cas@k \"a\" \"b\" ok 2..3", "0 write@k \"d\" nil info 4.."]);
    let wrong = run(&["0 invoke cas [null,\"b\"]", "0 ok cas [\"a\",\"x\"]"]);
    let error = load(wrong.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("the completion does not fit its invocation"), "{error}");
}

#[test]
fn a_token_is_a_number_and_time_never_runs_backwards() {
    let line = HEALED_IN_TIME.lines().position(|line| line.contains("\"phase\":\"acquired\"")).unwrap() + 1;
    for (token, reason) in [("9223372036854775808", "beyond 2^63"), ("5.0", "floating point `5.0`")] {
        let acquired = format!("\"phase\":\"acquired\",\"token\":{token}");
        let text = HEALED_IN_TIME.replacen("\"phase\":\"acquired\"", &acquired, 1);
        let source = OpenHistory::of(text.as_bytes(), "file").unwrap();
        let error = lock_operations(source, &FormatOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("file, line {line}: ")) && error.contains(reason), "{error}");
    }
    // One clock stamps all events of a run.
    let start: String = OUTLIVES_LOCK.lines().take(2).map(|line| format!("{line}\n")).collect();
    let late = "{\"index\":2,\"time\":5,\"type\":\"end\",\"completed\":true}";
    let early = "{\"index\":3,\"time\":4,\"type\":\"end\",\"completed\":true}";
    let error = load(format!("{start}{late}\n{early}\n").as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("file, line 4: ") && error.contains("time runs backwards, from 5 to 4"), "{error}");
}
