//! `redjepsen client-check` with programs of other people's.

use std::process::{Command, Stdio};

use crate::turns;

const OF_TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clusters/clients/breaks_protocol.py");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/clients/python/client.py");

#[test]
fn a_client_hears_what_it_can_serve_and_what_it_lacks() {
    let _turn = turns::local();
    for (client, code, told) in [
        (format!("'{EXAMPLE}'"), 0, "READY python-example 1 speaks the protocol; 3 of 3 claims"),
        // It goes on by itself where it is to wait.
        (format!("'{OF_TESTS}' none"), 1, "At a phase that `breakpoints` names (`acquiring`, `acquired`, `read`"),
        (format!("'{OF_TESTS}' falling-stamps"), 1, "mistake at work: it stamped `read`"),
        (format!("'{OF_TESTS}' always-unsure"), 1, "never said `ok`"),
        (format!("'{OF_TESTS}' another-protocol"), 255, "it speaks protocol 7, this run needs 1"),
    ] {
        let store = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.args(["client-check", "--cluster", "local", &format!("python3 -u {client}"), "--store"]);
        let output = command.arg(store.path()).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{client}: {text}");
        assert!(text.contains(told), "{client}, expected `{told}`: {text}");
    }
}
