//! Every text about a simulated run says so first, and never appears unmarked beside a real run.

use std::process::Command;

use report::Look;
use runner::simulate::{simulate, simulated_history};

use crate::kit::scenario;

/// Words about real machines, which have no meaning in a simulated run.
const OF_REAL_ONES: [&str; 6] = ["Docker", "kernel", "(SIGSTOP", "(SIGKILL", "PID", "container"];

#[test]
fn the_first_line_and_the_title_of_a_simulated_run_say_so() {
    for (workload, nemesis) in [("redlock", "pause"), ("redlock-guarded", "none")] {
        let checked = simulate(&scenario(workload, nemesis, 7, "12s")).unwrap();
        let report = checked.report();
        let summary = report::summary(&report, Look::PLAIN, true);
        assert!(summary.lines().next().unwrap().contains("  Simulated: "), "{summary}");
        let results: serde_json::Value = serde_json::from_str(&report::results_json(&report)).unwrap();
        assert_eq!(results["simulated"], true);
        assert!(results["summary"].as_str().unwrap().starts_with("Simulated: "));
        let page = report::html(&report);
        assert!(page.contains(" (simulated) · "), "the title");
        assert!(page.contains("processes and time are simulated"));
        assert!(!page.contains("The real run is not deterministic"));
    }
}

#[test]
fn so_does_what_a_model_says_of_its_history() {
    let history = simulated_history(&scenario("redlock", "pause", 7, "12s")).unwrap();
    let real = String::from_utf8(history.clone()).unwrap().replacen("\"simulated\":true,", "", 1).into_bytes();
    assert_ne!(history, real);
    let checked = |history: &[u8], options: &[&str]| {
        let mut check = assert_cmd::Command::cargo_bin("redjepsen").unwrap();
        let output = check.args(["check", "-", "--model", "rmw"]).args(options).write_stdin(history).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let first = |text: &str| text.lines().next().unwrap_or_default().to_string();
    assert!(first(&checked(&history, &[])).contains("  Simulated: "), "{}", checked(&history, &[]));
    assert!(!checked(&real, &[]).contains("imulated"), "{}", checked(&real, &[]));
    let of = |history: &[u8]| serde_json::from_str::<serde_json::Value>(&checked(history, &["--json"])).unwrap();
    assert_eq!(of(&history)["simulated"], true);
    assert_eq!(of(&real)["simulated"], false);
}

#[test]
fn a_real_one_says_nothing_of_the_kind() {
    let mut checked = simulate(&scenario("redlock", "pause", 7, "12s")).unwrap();
    checked.history.run.as_mut().unwrap().simulated = false;
    let report = checked.report();
    for text in [report::summary(&report, Look::PLAIN, true), report::results_json(&report)] {
        assert!(!text.to_lowercase().contains("simulated"), "{text}");
    }
    assert!(!report::html(&report).contains("processes and time are simulated"));
}

#[test]
fn its_page_has_no_words_of_real_machines() {
    for nemesis in ["pause", "all"] {
        let checked = simulate(&scenario("redlock", nemesis, 7, "12s")).unwrap();
        let page = report::html(&checked.report()).replace("--cluster docker", "");
        for word in OF_REAL_ONES {
            let at = page.find(word).map(|at| page[at.saturating_sub(80)..].chars().take(160).collect::<String>());
            assert_eq!(at, None, "`{word}` on the page of {nemesis}");
        }
    }
}

/// Runs the program without Docker and Redis: PATH is empty, and no engine is at the address.
fn nowhere(words: &str) -> (Option<i32>, String, String) {
    let store = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(words.split(' '))
        .arg("--store")
        .arg(store.path())
        .env("PATH", "/nonexistent")
        .env("DOCKER_HOST", "tcp://127.0.0.1:1")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn where_there_is_neither_docker_nor_redis_any_cluster_means_a_simulated_one_which_says_how_to_get_a_real_one() {
    let (code, out, said) = nowhere("run --cluster any --nemesis pause --time-limit 12s --seed 7");
    assert_eq!(code, Some(1), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("SIMULATED") && first.contains("redis-server") && first.contains("--cluster"), "{said}");
    assert!(out.starts_with("INVALID  Simulated: "), "{out}");
    assert!(out.contains("repeat  redjepsen run --cluster sim --nemesis pause"), "{out}");
    let (code, _, said) = nowhere("run --nemesis pause --time-limit 12s --seed 7");
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("no place to run a cluster"), "{said}");
}
