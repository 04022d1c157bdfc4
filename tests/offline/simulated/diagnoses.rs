//! A run's diagnosis of a lock's defect, on the terminal, in results.json and on the page, from the commands beside its history.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A simulated run in its own folder, and its output.
fn run(store: &Path, words: &str) -> (PathBuf, String) {
    let arguments = format!("run --cluster sim --seed 1 --time-limit 12s {words} --store");
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let output = command.args(arguments.split(' ')).arg(store).output().unwrap();
    assert!(matches!(output.status.code(), Some(0..=2)), "{}", String::from_utf8_lossy(&output.stderr));
    (store.join("latest").canonicalize().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn results(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("results.json")).unwrap()).unwrap()
}

#[test]
fn a_release_in_two_commands_is_named_wherever_the_run_is_told() {
    let store = tempfile::tempdir().unwrap();
    let (folder, printed) = run(store.path(), "--workload single-get-del --nemesis between-check-and-delete");
    let title = "the release compares the key in one command and deletes it in another (RJ002).";
    assert!(printed.lines().next().unwrap().ends_with(title), "{printed}");
    let results = results(&folder);
    let diagnosis = &results["diagnoses"][0];
    let sentence = diagnosis["findings"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("c0's DEL at ") && sentence.contains("removed c1's key"), "{sentence}");
    assert!(results["headline"].as_str().unwrap().ends_with(title) && diagnosis["incidents"] == serde_json::json!([1]));
    assert_eq!(results["incidents"][0]["diagnosis"]["code"], "RJ002");
    // The incident names c1, the owner of the key, and c2, which acquired the lock then. The diagnosis names c0 as well.
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("id=\"RJ002\"") && page.contains("History of the key"));
    // Each cited line exists and has the cited content.
    let commands = fs::read_to_string(folder.join("commands.jsonl")).unwrap();
    let cited = diagnosis["findings"][0]["commands"].as_array().unwrap();
    let last = cited.last().unwrap().as_u64().unwrap() as usize;
    let command: Value = serde_json::from_str(commands.lines().nth(last - 1).unwrap()).unwrap();
    assert_eq!((command["from"].as_str(), command["words"][0].as_str()), (Some("c0"), Some("DEL")));
}

/// The page of a simulated run, with its first drawing, and its output.
fn page(words: &str) -> (String, String, String) {
    let store = tempfile::tempdir().unwrap();
    let (folder, printed) = run(store.path(), words);
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let drawing = page.split("<svg class=\"drawing\"").nth(1).unwrap().split("</svg>").next().unwrap().to_string();
    (page, drawing, printed)
}

#[test]
fn drawing_and_headline_show_the_fault_that_the_cause_names() {
    let (_, drawing, printed) = page("--workload redlock --nemesis clock-jump-forward");
    for part in [">clock wrong<", ">n2<", ">n0, n1, n3<", ">n4<", ">cut off since 0."] {
        assert!(drawing.contains(part), "{part}: {drawing}");
    }
    let headline = printed.split("(RJ023)").next().unwrap();
    assert!(headline.contains("a node's clock was wrong") && !headline.contains("partitioned"), "{printed}");
    let (_, drawing, printed) = page("--workload redlock --nemesis pause-before-write");
    assert!(!drawing.contains("clock wrong") && printed.contains("when its holder was paused"), "{printed}");

    let (_, drawing, _) = page("--workload replicated --nemesis failover");
    assert!(drawing.contains(">n1 seen as primary<"), "{drawing}");
    // The fault began before the drawing does.
    let (_, drawing, _) = page("--workload single-get-del --nemesis between-check-and-delete");
    assert!(drawing.contains(">request held since 0."), "{drawing}");
}

#[test]
fn a_page_shows_no_resource_where_there_is_none() {
    let reads = "the resource's reads and writes";
    let (whole, drawing, _) = page("--workload mutex --nemesis pause");
    assert!(
        !whole.contains(reads) && !drawing.contains(">resource<") && !drawing.contains("acknowledged"),
        "{drawing}"
    );
    let (whole, drawing, _) = page("--workload redlock --nemesis pause");
    assert!(whole.contains(reads) && drawing.contains(">resource<") && drawing.contains("acknowledged"), "{drawing}");
}

#[test]
fn a_token_that_repeats_explains_no_loss_between_tokens_that_rise() {
    let store = tempfile::tempdir().unwrap();
    let words = "--workload incr-token-greater --nemesis several-locks-by-threads,memory --hold 0.8ttl..1.5ttl";
    let (folder, _) = run(store.path(), words);
    let results = results(&folder);
    let incidents = results["incidents"].as_array().unwrap();
    let (lost, others): (Vec<&Value>, Vec<&Value>) =
        incidents.iter().partition(|one| one["lost"] != serde_json::json!([]));
    let is_named = |incident: &&&Value| incident["diagnosis"]["code"] == "RJ030";
    assert_eq!((lost.len() > 5, lost.iter().filter(is_named).count()), (true, 0));
    assert!(others.iter().filter(is_named).count() > 5, "tokens repeat later");
}

#[test]
fn a_renewal_without_px_is_named_and_one_with_it_holds() {
    let store = tempfile::tempdir().unwrap();
    let on_valkey = |workload: &str| {
        let words = format!("--workload {workload} --nemesis dead-after-long-work --server valkey:9.1");
        run(store.path(), &words)
    };
    let (folder, printed) = on_valkey("single-ifeq-without-px");
    let title = "the renewal removes the TTL from the key (RJ025).";
    assert!(printed.lines().next().unwrap().ends_with(title), "{printed}");
    let results = results(&folder);
    assert_eq!(results["incidents"][0]["diagnosis"]["code"], "RJ025");
    let sentence = results["diagnoses"][0]["findings"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("c0's SET at ") && sentence.contains("removed the TTL of the key"), "{sentence}");

    let (_, printed) = on_valkey("single-ifeq");
    assert!(printed.starts_with("VALID") && !printed.contains("RJ0"), "{printed}");
}

#[test]
fn a_lock_of_newer_commands_says_which_servers_have_them_before_anything_is_run() {
    let store = tempfile::tempdir().unwrap();
    let refused = |server: &str| {
        let words = format!("run --cluster sim --workload single-ifeq --nemesis none{server} --store");
        let output = Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(words.split(' ')).arg(store.path()).output();
        let output = output.unwrap();
        assert!(output.status.code().is_some_and(|code| code > 2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (server, named) in [("", "the simulated redis 7.0.15"), (" --server redis:8.2", "redis:8.2")] {
        let text = refused(server);
        assert!(text.contains("workload single-ifeq needs a server with `SET … IFEQ`"), "{text}");
        assert!(text.contains(&format!("{named} does not have it")) && text.contains("--server valkey:9.1"), "{text}");
    }
    let text = refused(" --server redis:6.2");
    assert!(text.contains("redis:6.2 is not simulated") && text.contains("valkey:9.1.2"), "{text}");
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0, "nothing was begun");
    // The newest that is meant.
    let (_, printed) = run(store.path(), "--workload single-ifeq --nemesis none --server redis");
    assert!(printed.starts_with("VALID"), "{printed}");
}

#[test]
fn what_is_inherent_is_told_as_such_and_a_sound_run_has_nothing() {
    let store = tempfile::tempdir().unwrap();
    let (folder, printed) = run(store.path(), "--workload single --nemesis pause-before-write");
    assert!(printed.contains("RJ022"), "{printed}");
    assert_eq!(results(&folder)["diagnoses"][0]["inherent"], true);

    let (folder, printed) = run(store.path(), "--workload single --nemesis late-release");
    assert!(printed.starts_with("VALID") && !printed.contains("RJ0"), "{printed}");
    assert!(results(&folder).get("diagnoses").is_none() && folder.join("commands.jsonl").exists());
}

#[test]
fn a_failover_that_loses_a_lock_is_named() {
    let store = tempfile::tempdir().unwrap();
    let (folder, printed) = run(store.path(), "--workload replicated --nemesis failover");
    assert!(printed.starts_with("INVALID"), "{printed}");
    assert_eq!(results(&folder)["incidents"][0]["diagnosis"]["code"], "RJ020", "{printed}");
    let (_, printed) = run(store.path(), "--workload replicated --nemesis none");
    assert!(printed.starts_with("VALID") && !printed.contains("RJ020"), "{printed}");
}

#[test]
fn a_release_that_claims_success_explains_that_claim_and_no_lost_update() {
    let store = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/single.toml")).unwrap();
    let file = store.path().join("claims.toml");
    fs::write(&file, text.replace("\"liveness\"]", "\"liveness\", \"releases\"]")).unwrap();
    for (nemesis, cause) in [("eviction", "RJ021"), ("late-release", "RJ029")] {
        let (folder, _) = run(store.path(), &format!("--workload {} --nemesis {nemesis}", file.display()));
        let results = results(&folder);
        let codes: Vec<&Value> = results["diagnoses"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
        assert!(codes.contains(&&Value::from("RJ029")), "{codes:?}");
        assert_eq!(results["incidents"][0]["diagnosis"]["code"], cause);
        assert!(results["headline"].as_str().unwrap().ends_with(&format!("({cause}).")), "{}", results["headline"]);
    }
}

#[test]
fn without_commands_there_is_the_same_verdict_and_no_diagnosis() {
    let store = tempfile::tempdir().unwrap();
    let words = "--workload single-get-del --nemesis between-check-and-delete";
    let (with, _) = run(store.path(), words);
    let (without, printed) = run(store.path(), &format!("{words} --record-commands=false"));
    assert!(printed.starts_with("INVALID") && !printed.contains("RJ0"), "{printed}");
    assert!(!without.join("commands.jsonl").exists() && results(&without).get("diagnoses").is_none());
    let history = |folder: &Path| fs::read(folder.join("history.jsonl")).unwrap();
    assert!(history(&with) == history(&without), "nobody in a run notices that it is recorded");
    let unknown = |folder: &Path| {
        fs::read_to_string(folder.join("report.html")).unwrap().contains("</h3><p>redjepsen names a defect only if")
    };
    assert_eq!((unknown(&with), unknown(&without)), (false, true));
}

#[test]
fn the_lock_that_does_it_right_is_valid_where_the_diagnosis_says_so() {
    let store = tempfile::tempdir().unwrap();
    let mut pairs: Vec<(&str, &str)> = diagnosis::KINDS.iter().filter_map(|kind| kind.right).collect();
    pairs.sort_unstable();
    pairs.dedup();
    // A published library's client cannot be simulated.
    pairs.retain(|(workload, _)| model::scenario::catalogue::workload(workload).unwrap().1.library.is_none());
    assert!(pairs.len() > 8, "{pairs:?}");
    for (workload, nemesis) in pairs {
        let (_, printed) = run(store.path(), &format!("--workload {workload} --nemesis {nemesis}"));
        assert!(printed.starts_with("VALID"), "{workload} under {nemesis}: {printed}");
    }
}

#[test]
fn codes_of_the_catalogue_are_those_of_diagnoses() {
    let workloads = model::scenario::catalogue::WORKLOADS.iter().map(|(name, _)| *name);
    let libraries =
        workloads.filter_map(|name| Some((name, model::scenario::catalogue::workload(name).unwrap().1.library?)));
    let mut codes = 0;
    for (name, library) in libraries {
        for code in library.findings.iter().filter_map(|finding| finding.code.as_ref()) {
            let kind = diagnosis::find(code).filter(|kind| kind.code == code);
            assert!(kind.is_some(), "{name}: `{code}` is not a code of `redjepsen list diagnoses`");
            codes += 1;
        }
    }
    assert!(codes > 80, "{codes} findings have a code");
}

/// A workload file of a published library with the two-command release as its lock, and a finding with this code.
fn library_with(folder: &Path, code: &str) -> PathBuf {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/single-get-del.toml")).unwrap();
    let library = format!(
        "[library]\nname = \"two-step\"\nversion = \"0.1.0\"\n\n[[library.findings]]\n\
         nemesis = \"between-check-and-delete\"\ncause = \"library\"\ncode = \"{code}\"\nwhat = \"Its release deletes in a second command.\"\n\
         source = \"lib.rs:7\"\n\n"
    );
    let first_table = text.find("\n[").unwrap() + 1;
    let file = folder.join("two-step.toml");
    fs::write(&file, format!("{}{library}{}", &text[..first_table], &text[first_table..])).unwrap();
    file
}

#[test]
fn a_known_finding_stands_beside_its_diagnosis_and_another_one_is_said() {
    let store = tempfile::tempdir().unwrap();
    for (code, fits) in [("RJ002", true), ("RJ001", false)] {
        let file = library_with(store.path(), code);
        let words = format!("--workload {} --nemesis between-check-and-delete", file.display());
        let results = results(&run(store.path(), &words).0);
        let known = results["diagnoses"][0]["known"].as_str().unwrap_or_default();
        assert_eq!(known.contains("(lib.rs:7)"), fits, "{known}");
        let wrong = results["misdiagnosed"].as_str().unwrap_or_default();
        assert_eq!(wrong.contains("expects RJ001") && wrong.contains("RJ002"), !fits, "{wrong}");
    }
}
