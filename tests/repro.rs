//! Histories on which a verdict was wrong once, each with what `redjepsen check` may say of it now.
//!
//! They lie beside the project, with a table of why: `../shared/repro/README.md`.

use assert_cmd::Command;

/// Refused, with a reason.
const REFUSED: [i32; 2] = [254, 255];

/// A file, arguments, and the exit codes that are right: 0 valid, 1 invalid, 2 unknown.
const ROWS: &[(&str, &[&str], &[i32])] = &[
    ("09a_untagged_tuples.edn", &[], &[254]),
    ("09a_untagged_tuples.edn", &["--independent"], &[0]),
    ("10_all_info.edn", &[], &[2]),
    ("11_tok_float.jsonl", &["--model", "fenced-mutex"], &REFUSED),
    ("11_tok_float.jsonl", &[], &REFUSED),
    ("12_semaphore_three_owners_of_two.jsonl", &["--model", "semaphore:2"], &[1]),
    // Nil says nothing of a register, unless the user says that it does.
    ("15c_nil_read_knossos.edn", &[], &[2]),
    ("15c_nil_read_knossos.edn", &["--nil-reads", "empty"], &[1]),
    ("15d_log_named_process_dropped.log", &["--nil-reads", "empty"], &[1]),
    ("15d_log_named_process_dropped.log", &[], &[2]),
    ("15e_failed_cas_not_sent.edn", &[], &[2]),
    ("15e_failed_cas_not_sent.edn", &["--failed-cas", "check"], &[2]),
    ("15f_colon_field.jsonl", &["--nil-reads", "empty"], &[0]),
    ("15f_colon_field_escaped.jsonl", &["--nil-reads", "empty"], &[0]),
    ("15f_colon_field.jsonl", &[], &[2]),
    ("15f_colon_field_escaped.jsonl", &[], &[2]),
];

#[test]
fn each_history_gets_the_verdict_of_the_table() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/repro");
    for (file, arguments, right) in ROWS {
        let path = format!("{folder}/{file}");
        let output =
            Command::cargo_bin("redjepsen").unwrap().arg("check").arg(&path).args(*arguments).output().unwrap();
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let code = output.status.code().unwrap();
        assert!(right.contains(&code), "{file} {arguments:?}: exit code {code}, not one of {right:?}\n{told}");
    }
}
