//! A simulated server records the same commands as a real server's MONITOR.

use simulated_redis::Persistence;

use super::support::real::{Real, ServerProgram};
use super::support::request;
use super::support::simulated::Simulated;

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const COMMANDS: &[&[&str]] = &[
    &["SET", "lock:k0", "a b", "NX", "PX", "100000"],
    &["set", "lock:k0", "c", "NX"],
    // Refused before it is carried out.
    &["SET", "lock:k0"],
    &["NOSUCH", "x"],
    &["EVAL", COMPARE_AND_DELETE, "1", "lock:k0", "no"],
    &["EVAL", COMPARE_AND_DELETE, "1", "lock:k0", "a b"],
    &["MULTI"],
    &["SET", "lock:k1", "x"],
    &["PEXPIRE", "lock:k1", "100000"],
    &["EXEC"],
    &["PTTL", "lock:k9"],
    &["WAIT", "0", "1"],
    &["PUBLISH", "lock:k0", "free"],
    // Not every server has them.
    &["SET", "lock:k1", "x", "IFEQ", "x", "PX", "100000"],
    &["SET", "lock:k1", "y", "IFEQ", "z", "PX", "100000"],
    &["DELIFEQ", "lock:k1", "y"],
    &["DELEX", "lock:k1", "IFEQ", "y"],
    &["EVAL", COMPARE_AND_DELETE, "1", "lock:k1", "x"],
];

/// The words of a line of MONITOR, and whether a script called them.
fn told(line: &str) -> (bool, String) {
    let (head, words) = line.trim_end().split_once("] ").unwrap();
    (head.ends_with(" lua"), words.to_string())
}

#[test]
fn what_is_recorded_is_what_monitor_tells() {
    ServerProgram::all().iter().for_each(recorded_as_told);
}

fn recorded_as_told(program: &ServerProgram) {
    let real = Real::start(program, Persistence::None);
    let (mut monitor, mut client) = (real.connect(), real.connect());
    assert_eq!(monitor.ask(b"MONITOR\r\n"), b"+OK\r\n");
    let mut simulated = Simulated::of(program.version, Persistence::None);
    let connection = simulated.connect();
    simulated.record_commands();
    for words in COMMANDS {
        client.ask(&request(words));
        simulated.ask(connection, &request(words));
    }
    let end = ["PING", "the end"];
    client.ask(&request(&end));
    let mut lines = Vec::new();
    loop {
        let line = told(&String::from_utf8(monitor.ask(b"")).unwrap());
        if line.1.contains("the end") {
            break;
        }
        lines.push(line);
    }
    let quoted = |words: &[Vec<u8>]| {
        let words = words.iter().map(|word| format!("\"{}\"", String::from_utf8_lossy(word)));
        words.collect::<Vec<_>>().join(" ")
    };
    let recorded = simulated.take_executed();
    let recorded: Vec<(bool, String)> =
        recorded.iter().map(|command| (command.from.is_none(), quoted(&command.words))).collect();
    assert_eq!(recorded, lines, "{program:?}");
    assert!(lines.iter().any(|(in_script, words)| *in_script && words.starts_with("\"del\"")), "{lines:?}");
}
