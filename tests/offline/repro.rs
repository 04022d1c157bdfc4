//! Histories that once got a wrong verdict, each with what `redjepsen check` may say about it now.
//!
//! They are kept next to the project, with a table of reasons: `../shared/repro/README.md`.

use assert_cmd::Command;

/// Refused, with a reason.
const REFUSED: [i32; 2] = [254, 255];

/// A file, arguments, and the acceptable exit codes: 0 valid, 1 invalid, 2 unknown.
const ROWS: &[(&str, &[&str], &[i32])] = &[
    ("01_incr_delayed_write_ttl2s_LIVE.jsonl", &[], &[2]),
    ("02a_k1_stuck_forever.jsonl", &[], &[1]),
    ("03a_held_by_a_live_renewing_holder_LIVE.jsonl", &[], &[2]),
    ("04_control_same_with_stamps.jsonl", &[], &[1]),
    ("04a_one_client_without_stamps.jsonl", &[], &[2]),
    ("05a_tokens_claimed_none_seen.jsonl", &[], &[2]),
    ("06a_counter_ends_at_1_after_54_LIVE.jsonl", &[], &[1]),
    ("07a_ok_without_old_LIVE.jsonl", &[], &[2]),
    ("08b_pause_of_an_idle_client.jsonl", &[], &[2]),
    ("08c_eight_of_ten_clients_never_succeed.jsonl", &[], &[2]),
    ("13a_one_stale_read_counted_10.jsonl", &[], &[1]),
    ("13b_lost_2_instead_of_3.jsonl", &[], &[1]),
    ("09a_untagged_tuples.edn", &[], &[254]),
    ("09a_untagged_tuples.edn", &["--independent"], &[0]),
    ("10_all_info.edn", &[], &[2]),
    ("11_tok_float.jsonl", &["--model", "fenced-mutex"], &REFUSED),
    ("11_tok_float.jsonl", &[], &REFUSED),
    ("12_semaphore_three_owners_of_two.jsonl", &["--model", "semaphore:2"], &[1]),
    // Nil says nothing about a register, unless the user says that it does.
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

/// Runs `redjepsen check` on a file of the table; returns the exit code and the whole output.
fn checked(file: &str, arguments: &[&str]) -> (i32, String) {
    let path = format!("{}/../shared/repro/{file}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::cargo_bin("redjepsen").unwrap().arg("check").arg(&path).args(arguments).output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), told)
}

#[test]
fn each_history_gets_the_verdict_of_the_table() {
    for (file, arguments, right) in ROWS {
        let (code, told) = checked(file, arguments);
        assert!(right.contains(&code), "{file} {arguments:?}: exit code {code}, not one of {right:?}\n{told}");
    }
}

#[test]
fn the_verdict_says_what_is_wrong_and_how_much() {
    for (file, words) in [
        ("01_incr_delayed_write_ttl2s_LIVE.jsonl", "c0 had released the lock while its write of c0:4"),
        ("02a_k1_stuck_forever.jsonl", "nobody got the lock of k1 for 15 s"),
        ("06a_counter_ends_at_1_after_54_LIVE.jsonl", "which descends from 54 updates"),
        ("07a_ok_without_old_LIVE.jsonl", "c2 contradicts itself in line 30"),
        ("13a_one_stale_read_counted_10.jsonl", "updates           BROKEN       1 contradiction\n"),
        ("13b_lost_2_instead_of_3.jsonl", "3 of 15 lost"),
    ] {
        let told = checked(file, &[]).1;
        assert!(told.contains(words), "{file}: {told}");
    }
    let told = checked("01_incr_delayed_write_ttl2s_LIVE.jsonl", &[]).1;
    assert!(!told.contains("ran out"), "INCR has no TTL: {told}");
}
