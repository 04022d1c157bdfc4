//! `redjepsen library` on real servers, with a reference lock, which needs no installation.

use std::process::{Command, Stdio};

use crate::turns;

#[test]
fn a_lock_is_examined_by_its_own_commands_and_goes_on_where_its_time_was_over() {
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let examine = |time: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.args([
            "library",
            "single-get-del",
            "--cluster",
            "local",
            "--ttl",
            "1s",
            "--jobs",
            "2",
            "--budget",
            time,
        ]);
        let output = command.arg("--store").arg(store.path()).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = examine("25s");
    assert_eq!(code, Some(2), "there was no time for all: {text}");
    for told in ["SET lock:k0", "while it acquires the lock", "GET lock:k0", "DEL lock:k0, while it releases the lock"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(text.contains("run the same command to resume"), "{text}");
    let page = text.lines().find_map(|line| line.trim().strip_prefix("page  ")).expect(&text);
    let page = std::fs::read_to_string(page.trim()).unwrap();
    assert!(page.contains("Commands of the library") && page.contains("DEL lock:k0"), "{page}");
    // Finished runs are not made again.
    let (_, text) = examine("1s");
    assert!(text.contains("resuming") && text.contains("DEL lock:k0"), "{text}");
}

#[test]
fn what_cannot_be_asked_what_it_gets_is_refused() {
    let store = tempfile::tempdir().unwrap();
    for (lock, cluster, why) in [("single", "sim", "real servers"), ("etcd", "local", "MONITOR")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.args(["library", lock, "--cluster", cluster, "--store"]).arg(store.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(254) && text.contains(why), "{lock}: {text}");
    }
}
