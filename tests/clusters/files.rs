//! Runs on local clusters whose disk is full, whose store is deleted, or whose clients are hostile: the output, and whether the
//! files load afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::turns;

/// A run with a client that misbehaves in this way, or with the built-in client.
fn run(limit: Option<u32>, flags: &str, client: Option<&str>, store: &Path) -> Command {
    let limit = limit.map_or(String::new(), |bytes| format!("ulimit -f {}; ", bytes / 512));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit}exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_redjepsen"), "run"]);
    command.args(["--cluster", "local"]).args(flags.split(' ')).arg("--store").arg(store).stdin(Stdio::null());
    if let Some(how) = client {
        let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clusters/clients/misbehave.py");
        command.args(["--client-cmd", &format!("python3 -u '{client}' {how}")]);
    }
    command
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn checked(folder: &Path, command: &str) -> (Option<i32>, String, String) {
    texts(&Command::new(env!("CARGO_BIN_EXE_redjepsen")).arg(command).arg(folder).output().unwrap())
}

fn size(path: PathBuf) -> u64 {
    fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).len()
}

#[test]
fn a_disk_that_fills_up_in_mid_run_leaves_the_verdict_and_what_was_recorded() {
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let limit = 48 << 10;
    let flags = "--workload single --nemesis none --clients 2 --rate 40 --time-limit 8s --seed 3";
    let (code, shown, told) = texts(&run(Some(limit), flags, None, store.path()).output().unwrap());
    let folder = store.path().join("latest");
    assert_eq!(code, Some(255), "{shown}{told}");
    assert!(shown.starts_with("UNKNOWN"), "{shown}{told}");
    assert!(!shown.contains("report.html") && shown.contains("  repeat  redjepsen run"), "{shown}");
    for words in [
        "the run stopped early: cannot write ",
        "/history.jsonl: File too large",
        "raise the limit on the size of files",
        "(nor report.html",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let history = fs::read(folder.join("history.jsonl")).unwrap();
    assert_eq!(history.len(), limit as usize, "it was written to the last byte");
    let cut_off = if history.ends_with(b"\n") { "" } else { "cut off in line " };
    assert!(shown.contains(cut_off), "{shown}");
    let cut: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!cut.iter().any(|name| name.to_str().unwrap().starts_with('.') || name == "report.html"), "{cut:?}");
    // With enough space again, all files can be written.
    let (code, shown, _) = checked(&folder, "check");
    assert!(code == Some(2) && shown.contains(cut_off), "{shown}");
    assert_eq!(checked(&folder, "report").0, Some(0));
    assert!(size(folder.join("report.html")) > u64::from(limit));

    // Before the run, there is nothing to lose.
    let (code, shown, told) = texts(&run(Some(512), flags, None, store.path()).output().unwrap());
    assert!(code == Some(255) && shown.is_empty() && told.contains("scenario.toml: File too large"), "{shown}{told}");
}

fn wait_for_operations(store: &Path, run: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(store.join("latest/history.jsonl")).unwrap_or_default().contains("\"invoke\"") {
        assert!(Instant::now() < deadline && run.try_wait().unwrap().is_none(), "no operation");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_store_that_is_deleted_ends_the_run() {
    let _turn = turns::local();
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let flags = "--workload single --nemesis none --clients 2 --time-limit 60s --seed 3";
    let mut command = run(None, flags, None, &store);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_operations(&store, &mut run);
    fs::remove_dir_all(&store).unwrap();
    let deleted = Instant::now();
    let (code, shown, told) = texts(&run.wait_with_output().unwrap());
    assert!(deleted.elapsed() < Duration::from_secs(20), "{:?}", deleted.elapsed());
    assert!(code == Some(255) && shown.is_empty(), "{shown}{told}");
    let error = told.lines().last().unwrap();
    assert!(
        error.contains("/history.jsonl is gone: it was deleted, moved or replaced") && !told.contains("panicked"),
        "{told}"
    );
    assert!(!store.exists(), "nothing was written to where it had been");
}

#[test]
fn what_a_client_says_steers_no_terminal_and_is_kept_as_it_is() {
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let flags = "--workload single --nemesis none --clients 2 --rate 20 --ttl 100ms --time-limit 3s --seed 3 --verbose";
    for how in ["steers", "steers-and-fails", "garbage"] {
        let output = run(None, flags, Some(how), store.path()).output().unwrap();
        let (_, shown, told) = texts(&output);
        let folder = store.path().join("latest");
        let log = fs::read_to_string(folder.join("redjepsen.log")).unwrap();
        for text in [&shown, &told, &log] {
            assert!(!text.contains(['\u{1b}', '\r', '\u{9b}', '\u{202e}']), "{how}: {text:?}");
            // A separate line would look like redjepsen's own.
            assert!(!text.lines().any(|line| line.starts_with("VALID")), "{how}: {text}");
        }
        assert!(log.contains("[31mred"), "{log}");
        let history = fs::read_to_string(folder.join("history.jsonl")).unwrap();
        assert!(how != "steers" || history.contains("misbehaving\\u001b[2J"), "{how}: {history}");
    }
}

#[test]
fn a_client_that_floods_is_cut_off() {
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let flags = "--workload single --nemesis none --clients 2 --rate 20 --ttl 100ms --time-limit 3s --seed 3";
    for (how, words) in [
        ("floods", "it floods the history: more than 1000 phases of one operation within 1 s"),
        ("floods-with-values", "it floods the history: it reports that it read a value of 900000 bytes"),
        // The client continues, so one of its messages may arrive during the next operation.
        ("floods-out-of-turn", "is in progress"),
        ("floods-stderr", ""),
    ] {
        let began = Instant::now();
        let (code, shown, told) = texts(&run(None, flags, Some(how), store.path()).output().unwrap());
        assert!(matches!(code, Some(1 | 2)) && told.contains(words), "{how}: {code:?} {shown}{told}");
        assert!(began.elapsed() < Duration::from_secs(60), "{how}: {:?}", began.elapsed());
        let folder = store.path().join("latest");
        let bytes = ["history.jsonl", "redjepsen.log", "c0/client.log"].map(|file| size(folder.join(file)));
        assert!(bytes[0] < 4 << 20 && bytes[1] < 1 << 20 && bytes[2] < 2 << 20, "{how}: {bytes:?}");
    }
}
