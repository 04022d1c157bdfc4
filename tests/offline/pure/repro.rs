//! Histories that once got a wrong verdict, each with the verdicts that `redjepsen check` may give now.
//!
//! They are in `tests/fixtures/repro`, compressed. Its README.md has the right verdicts with their reasons.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;

/// The exit codes of a history that is refused with a reason.
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
    // Nil says nothing about a register, unless the user gives it a meaning.
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
    ("14_written_then_info_then_lost.jsonl", &[], &[1]),
    ("dead_control.jsonl", &[], &[1]),
    ("dead_unavailable.jsonl", &[], &[1]),
    ("dead_half.jsonl", &[], &[1]),
    ("dead_info.jsonl", &[], &[2]),
    // Two clients held the lock at once; the update was lost because one client released its lock too early.
    ("in_flight_blamed.jsonl", &[], &[1]),
    ("only_node_paused_locks_taken.jsonl", &[], &[2]),
    ("only_node_killed_locks_taken.jsonl", &[], &[2]),
    ("all_clients_cut_off_locks_taken.jsonl", &[], &[2]),
    ("paused_client_acts_in_an_op_begun_before.jsonl", &[], &[2]),
    ("killed_client_goes_on_under_its_old_number.jsonl", &[], &[2]),
    ("killed_resource_acknowledges_writes.jsonl", &[], &[2]),
    ("holds_as_ordered.jsonl", &[], &[0]),
    ("holds_stamped_1us_long.jsonl", &[], &[2]),
    ("failed_but_written.jsonl", &[], &[2]),
    ("written_under_another_key.jsonl", &[], &[2]),
    ("went_on_without_reporting_again.jsonl", &[], &[2]),
    ("acquired_left_out_and_accused.jsonl", &[], &[0, 2]),
    ("placebo_delay_3s_clients_and_nodes.jsonl", &[], &[2]),
    ("told_lost_after_five_others_had_it.jsonl", &[], &[1]),
    ("told_lost_control.jsonl", &[], &[1]),
    ("told_lost_real_run.jsonl", &[], &[1]),
    ("readers_never_say_what_they_read.jsonl", &[], &[2]),
    ("placebo_refuse-writes_node0.jsonl", &[], &[2]),
    ("two_primaries_both_accused.jsonl", &[], &[1]),
    ("stall_recorded_and_ignored.jsonl", &[], &[2]),
    ("starved_node_at_heal_docker.jsonl", &[], &[2]),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/repro")
}

/// Runs `redjepsen check` on a file of the table; returns the exit code and the whole output.
fn checked(file: &str, arguments: &[&str]) -> (i32, String) {
    let path = folder().join(format!("{file}.gz"));
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
fn every_history_is_checked_and_explained() {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter_map(|name| Some(name.strip_suffix(".gz")?.to_string())).collect();
    let checked: BTreeSet<String> = ROWS.iter().map(|(file, ..)| file.to_string()).collect();
    assert_eq!(files, checked);
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for file in &files {
        assert!(readme.contains(&format!("| {file} |")), "{file} is not in the table");
    }
}

#[test]
fn the_verdict_says_what_is_wrong_and_how_much() {
    for (file, words) in [
        ("01_incr_delayed_write_ttl2s_LIVE.jsonl", "c0 had released the lock while its write of c0:4"),
        ("02a_k1_stuck_forever.jsonl", "No client acquired the lock of k1 for 15 s"),
        ("06a_counter_ends_at_1_after_54_LIVE.jsonl", "but that value is the result of 54 updates"),
        ("07a_ok_without_old_LIVE.jsonl", "c2 contradicts itself in line 30"),
        ("13a_one_stale_read_counted_10.jsonl", "updates           VIOLATED     1 contradiction\n"),
        ("13b_lost_2_instead_of_3.jsonl", "3 of 15 lost"),
        ("14_written_then_info_then_lost.jsonl", "1 of 15 lost"),
        ("dead_unavailable.jsonl", "evidence: 90 of 214 attempts in the run acquired the lock"),
        ("dead_half.jsonl", "No client acquired the lock of k1 for 59 s"),
        ("dead_info.jsonl", "it is unknown whether a client held the lock of k1 for 59 s"),
        ("in_flight_blamed.jsonl", "updates           valid        none of 18 lost"),
        ("only_node_paused_locks_taken.jsonl", "but c0 acquired a lock in that time"),
        ("paused_client_acts_in_an_op_begun_before.jsonl", "but c0 reported 'acquiring' at"),
        ("killed_resource_acknowledges_writes.jsonl", "fault 0 (kill resource) was reported as active"),
        ("holds_stamped_1us_long.jsonl", "each hold must last as long as the run asks"),
        ("failed_but_written.jsonl", "c1 contradicts itself in line 96"),
        ("written_under_another_key.jsonl", "it was asked to write c1:w1 to k1, but c2"),
        ("went_on_without_reporting_again.jsonl", "it continued from 'before-write' without reporting it again"),
    ] {
        let told = checked(file, &["--verbose"]).1;
        let joined = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(words) || joined.contains(words), "{file}: {told}");
    }
    let told = checked("in_flight_blamed.jsonl", &[]).1;
    assert!(!told.contains("lost 1 of"), "the lock did not lose it: {told}");
    let told = checked("01_incr_delayed_write_ttl2s_LIVE.jsonl", &[]).1;
    assert!(!told.contains("ran out"), "INCR has no TTL: {told}");
}
