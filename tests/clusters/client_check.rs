//! `redjepsen client-check` with users' own programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::turns;

const OF_TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clusters/clients/breaks_protocol.py");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/clients/python/client.py");

#[test]
fn a_client_hears_what_it_can_serve_and_what_it_lacks() {
    let _turn = turns::local();
    for (client, code, told) in [
        (format!("'{EXAMPLE}'"), 0, "READY python-example 1 speaks the protocol; 3 of 3 claims"),
        // The client does not wait at the breakpoint.
        (format!("'{OF_TESTS}' none"), 1, "At a phase that `breakpoints` names (`acquiring`, `acquired`, `read`"),
        (format!("'{OF_TESTS}' falling-stamps"), 1, "mistake at work: it stamped `read`"),
        (format!("'{OF_TESTS}' always-unsure"), 1, "none of its operations counts as `ok`"),
        (format!("'{OF_TESTS}' writes-nothing"), 1, "answers `ok` to writes that never reach the resource"),
        (format!("'{OF_TESTS}' writes-elsewhere"), 1, "the resource has none of their values: at the end k0 was empty"),
        (format!("'{OF_TESTS}' writes-first"), 1, "which is older"),
        (format!("'{OF_TESTS}' never-answers"), 1, "does not answer each `invoke`"),
        (format!("'{OF_TESTS}' another-protocol"), 255, "it speaks protocol 7, this run needs 1"),
    ] {
        let (here, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (ended, text) = check(&client, here.path(), temporary.path(), &[]);
        assert_eq!(ended, code, "{client}: {text}");
        assert!(text.contains(told), "{client}, expected `{told}`: {text}");
        for folder in [here, temporary] {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{client} left something");
        }
    }
}

#[test]
fn a_check_keeps_its_runs_where_it_is_told_to() {
    let _turn = turns::local();
    let (here, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let broken = "-c 'raise SystemExit(\"no such thing as a lock\")'";
    let (code, text) = check(broken, here.path(), temporary.path(), &[]);
    let says = "last lines on standard error: no such thing as a lock; `--store FOLDER` keeps the client's whole log";
    assert!(code == 255 && text.contains(says), "{code}: {text}");
    let (code, text) = check(broken, here.path(), temporary.path(), &["--store", "kept"]);
    assert!(
        code == 255
            && text.contains("last lines on standard error: no such thing as a lock (kept/single-client-check/"),
        "{text}"
    );
    assert!(here.path().join("kept/single-client-check/latest/c0/client.log").exists());
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_workload_with_a_client_of_its_own_needs_no_command() {
    let _turn = turns::local();
    let (here, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::copy(EXAMPLE, here.path().join("mine.py")).unwrap();
    let single = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/single.toml")).unwrap();
    let client = "\n[client.python]\nadapter = \"mine.py\"\n";
    fs::write(here.path().join("mine.toml"), single + client).unwrap();
    let checked = |workload: &str| checked(&["--workload", workload], here.path(), temporary.path());
    let (code, text) = checked("./mine.toml");
    assert!(code == 0 && text.contains("READY python-example 1 speaks the protocol"), "{code}: {text}");
    let next = "redjepsen run --workload ./mine.toml --nemesis pause-before-write --cluster local";
    assert!(text.contains(next), "{text}");
    let (code, text) = checked("single");
    assert!(code == 254 && text.contains("workload single does not name a client; give the command"), "{text}");
}

/// The exit code, and the output as one line.
fn check(client: &str, here: &Path, temporary: &Path, more: &[&str]) -> (i32, String) {
    let client = format!("python3 -u {client}");
    checked(&[&[client.as_str()], more].concat(), here, temporary)
}

fn checked(words: &[&str], here: &Path, temporary: &Path) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(["client-check", "--cluster", "local"]).args(words);
    command.current_dir(here).env("TMPDIR", temporary);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}
