//! Parts of the report besides the history: the contents of the servers, and measures that would have prevented an incident.

use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use checker::Validity;
use model::history::{NodeChange, Sighting};
use runner::simulate::simulate;
use serde_json::Value;
use summary::Remedy;

use crate::kit::scenario;

/// A simulated run in its own folder.
fn run(store: &Path, more: &[&str]) -> std::path::PathBuf {
    let program = env!("CARGO_BIN_EXE_redjepsen");
    let mut run = vec!["run", "--cluster", "sim", "--seed", "7", "--quiet", "--store"];
    if !more.contains(&"--nemesis") {
        run.splice(1..1, ["--nemesis", "pause", "--time-limit", "8s"]);
    }
    let output = std::process::Command::new(program).args(run).arg(store).args(more).output().unwrap();
    assert!(matches!(output.status.code(), Some(0..=2)), "{}", String::from_utf8_lossy(&output.stderr));
    store.join("latest").canonicalize().unwrap()
}

/// The data for the page's script.
fn data(page: &str) -> Value {
    let (_, packed) = page.split_once("id=\"timeline-data\">\"").unwrap();
    let (packed, _) = packed.split_once('"').unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    let mut json = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn nobody_in_a_run_notices_the_onlooker() {
    let (with, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (with, without) = (run(with.path(), &[]), run(without.path(), &["--no-observer"]));
    let history = |folder: &Path| std::fs::read(folder.join("history.jsonl")).unwrap();
    assert!(history(&with) == history(&without), "the histories are the same, byte for byte");
    assert!(!without.join(Sighting::FILE).exists());

    let seen = Sighting::read(&std::fs::read_to_string(with.join(Sighting::FILE)).unwrap()).unwrap();
    let watched: Vec<&str> =
        seen.iter().filter(|one| matches!(one.saw, NodeChange::Watched { .. })).map(|one| &one.node[..]).collect();
    assert_eq!(watched, ["n0", "n1", "n2", "n3", "n4"]);
    let held = |held: bool| {
        let of_key = seen.iter().filter_map(|one| match &one.saw {
            NodeChange::Key { key, held } => Some((key, held)),
            _ => None,
        });
        of_key.filter(|(key, is)| *key == "lock:k0" && is.is_some() == held).count()
    };
    assert!(held(true) > 50 && held(false) > 50, "{} and {}", held(true), held(false));

    // For nearly all keys, the owner of each lifetime is known.
    let page = std::fs::read_to_string(with.join("report.html")).unwrap();
    let lives = data(&page)["servers"]["lives"].as_array().unwrap().clone();
    let known = lives.iter().filter(|life| life["owner"].as_i64().unwrap() >= 0).count();
    assert!(known * 10 > lives.len() * 8, "{known} of {}", lives.len());
    let page = std::fs::read_to_string(without.join("report.html")).unwrap();
    assert!(data(&page)["servers"].is_null() && page.contains("were not recorded in this run"));
}

/// The page's text on the contents of each node during its first incident.
fn of_nodes(folder: &Path) -> Vec<(String, String)> {
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    let (_, list) = page.split_once("<dl class=\"nodes\">").expect("what the nodes held");
    let (list, _) = list.split_once("</dl>").unwrap();
    let parts = list.split("<dt>").skip(1).map(|part| part.trim_end_matches("</dd>").split_once("</dt><dd>").unwrap());
    parts.map(|(node, text)| (node.to_string(), text.replace('\u{a0}', " "))).collect()
}

#[test]
fn what_the_nodes_held_during_an_incident_says_which_of_them_had_forgotten() {
    let store = tempfile::tempdir().unwrap();
    let held = of_nodes(&run(store.path(), &["--nemesis", "clock-jump-forward", "--workload", "redlock"]));
    let of = |node: &str| held.iter().find(|(name, _)| name == node).map(|(_, text)| &text[..]).unwrap();
    let nodes: Vec<&str> = held.iter().map(|(nodes, _)| &nodes[..]).collect();
    assert_eq!(nodes, ["n0 and n1", "n2", "n3 and n4"], "what held the same is told once");
    assert!(
        of("n2").contains("before its expiry; c1's key from") && of("n2").contains("the node's clock was 2 s fast"),
        "{}",
        of("n2")
    );
    // These nodes had the key until its end, or never.
    let of_c0 = of("n0 and n1");
    assert!(
        of_c0.starts_with("c0's key from") && !of_c0.contains("before its expiry") && !of_c0.contains("c1's"),
        "{of_c0}"
    );
    assert!(of("n3 and n4").starts_with("c1's key from") && !of("n3 and n4").contains("c0's"), "{}", of("n3 and n4"));

    let failover = ["--nemesis", "failover", "--workload", "replicated", "--time-limit", "40s"];
    let held = of_nodes(&run(store.path(), &failover));
    let new = held.iter().find(|(_, text)| text.contains("reported that it was a primary")).expect("a new primary");
    assert!(!new.1.contains("c0's"), "it never had the lock of the holder: {}", new.1);
    assert!(held.iter().any(|(_, text)| text.starts_with("c0's key from")), "{held:?}");

    // If a pause is to blame, each lock lasts as long as it should; an attempt that failed has no owner.
    let held = of_nodes(&run(store.path(), &[]));
    assert!(
        held.iter().all(|(_, text)| text.contains("until it expired at") && !text.contains("before its expiry")),
        "{held:?}"
    );
}

/// Each time in the text about a node is a time at which its lock came, went or had to end. Other keys of the lock do not count.
#[test]
fn what_the_nodes_held_is_told_of_locks_and_not_of_counters() {
    let store = tempfile::tempdir().unwrap();
    let mut told = 0;
    for (workload, nemesis) in [("redlock-tokens", "uneven-tokens"), ("paired-token", "pause"), ("fenced", "pause")] {
        let folder = run(store.path(), &["--workload", workload, "--nemesis", nemesis, "--time-limit", "8s"]);
        let seen = Sighting::read(&std::fs::read_to_string(folder.join(Sighting::FILE)).unwrap()).unwrap();
        let beside = |one: &Sighting| matches!(&one.saw, NodeChange::Key { key, .. } if key.ends_with(":token"));
        assert!(seen.iter().any(beside), "{workload} counts");
        let of_locks = seen.iter().filter_map(|one| match &one.saw {
            NodeChange::Key { key, held } if key == "lock:k0" => {
                Some((&one.node[..], one.time, held.as_ref().and_then(|held| held.ends)))
            }
            _ => None,
        });
        let times: std::collections::HashSet<(&str, String)> = of_locks
            .flat_map(|(node, time, ends)| {
                [Some(time), ends]
                    .into_iter()
                    .flatten()
                    .map(move |time| (node, base::words::moment(time / 1000 * 1000)))
            })
            .collect();
        for (nodes, text) in of_nodes(&folder) {
            let parts = text
                .split("; ")
                .filter(|part| part.contains("from ") && !part.contains("clock") && !part.contains("not seen"));
            for part in parts {
                let part_times = part.match_indices(" s").filter_map(|(at, _)| part[..at].rsplit(' ').next());
                for time in part_times.filter(|time| time.split_once('.').is_some_and(|(_, digits)| digits.len() == 3))
                {
                    told += 1;
                    // The first of several nodes with the same contents stands for all of them.
                    let node = nodes.split([',', ' ']).next().unwrap();
                    let known = times.contains(&(node, format!("{time} s")));
                    assert!(known, "{workload}: at {time} s nothing was seen of the lock of {node}: {part}");
                }
            }
        }
    }
    assert!(told > 8, "{told} times");
}

#[test]
fn what_a_stranger_wrote_as_sightings_is_told_and_keeps_no_report_from_being_written() {
    let store = tempfile::tempdir().unwrap();
    let folder = run(store.path(), &[]);
    let report = |text: &str| {
        std::fs::write(folder.join(Sighting::FILE), text).unwrap();
        let program = env!("CARGO_BIN_EXE_redjepsen");
        let output = std::process::Command::new(program).arg("report").arg(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(folder.join("report.html")).unwrap()
    };
    assert!(report("{\"time\":</script>").contains("servers.jsonl, line 1: "));
    let evil = r#"{"time":9,"since":5,"node":"n0","saw":{"key":{"key":"lock:k0</script><script>alert(1)</script>","held":{"value":"x"}}}}"#;
    let page = report(evil);
    assert!(!page.contains("alert(1)") && data(&page)["servers"]["lives"].as_array().unwrap().len() == 1);
}

#[test]
fn what_is_said_to_prevent_an_incident_does() {
    let causes = [
        ("redlock", "pause-before-write", 2),
        ("redlock", "pause", 7),
        ("single", "pause-before-write", 2),
        ("fenced", "double-pause", 1),
        ("redlock", "clock-jump-forward", 3),
        ("redlock", "crash-no-persistence", 1),
        ("redlock-wall", "slow-client-clock", 1),
        ("redlock-unchecked", "late-acquire-reply", 1),
        ("single-constant", "late-release", 1),
        ("replicated", "failover", 3),
        ("steal-hasty", "victim-unreachable", 1),
    ];
    let mut told = Vec::new();
    for (workload, nemesis, seed) in causes {
        let limit = if workload == "replicated" { "40s" } else { "12s" };
        let mut found = simulate(&scenario(workload, nemesis, seed, limit)).unwrap();
        assert_eq!(found.verdict.valid, Validity::Invalid, "{workload} under {nemesis}");
        found.play_remedies();
        let summary = found.report().summary;
        let mut remedies: Vec<Remedy> = summary.incidents.iter().flat_map(|one| one.remedies.clone()).collect();
        remedies.dedup();
        assert!(!remedies.is_empty(), "{workload} under {nemesis} has a remedy: {}", summary.headline);
        let ttl =
            summary.incidents.iter().flat_map(|one| &one.no_remedies).any(|text| text.starts_with("A longer TTL"));
        assert!(ttl || nemesis != "pause-before-write", "{workload}: {}", summary.headline);
        told.extend(remedies);
    }
    assert!(told.iter().all(|remedy| remedy.played != remedy.needs_servers), "{told:#?}");
    let named: Vec<&str> = told.iter().map(|remedy| remedy.text.split([',', ':', '.']).next().unwrap()).collect();
    for part in
        ["compare-and-set", "check fencing tokens", "sync their file", "Delay the restart", "monotonic", "consensus"]
    {
        assert!(named.iter().any(|text| text.contains(part)), "{part} in {named:?}");
    }
}

#[test]
fn a_lock_with_two_things_wrong_is_told_the_one_that_an_incident_shows() {
    // INCR without a TTL, and a DEL that releases any client's lock.
    for (nemesis, part, other) in [
        ("crash-holder", "Set the key together with its TTL", "compares the lock's value"),
        ("repeated-release", "compares the lock's value", "Set the key together with its TTL"),
    ] {
        let summary = simulate(&scenario("incr", nemesis, 1, "12s")).unwrap().report().summary;
        let remedies: Vec<&str> =
            summary.incidents.iter().flat_map(|one| &one.remedies).map(|remedy| &remedy.text[..]).collect();
        assert!(remedies.iter().any(|text| text.contains(part)), "{nemesis}: {remedies:?}");
        assert!(!remedies.iter().any(|text| text.contains(other)), "{nemesis}: {remedies:?}");
    }
}

#[test]
fn where_nothing_was_lost_or_the_lock_held_nothing_is_recommended() {
    for (workload, nemesis) in [("redlock-guarded", "pause"), ("redlock", "pause-node")] {
        let run = simulate(&scenario(workload, nemesis, 7, "12s")).unwrap();
        let summary = run.report().summary;
        assert!(summary.incidents.iter().all(|one| one.remedies.is_empty() && one.no_remedies.is_empty()));
    }
}

#[test]
fn other_tools_get_the_same_run() {
    use report::export::{Format, export};
    let run = simulate(&scenario("redlock", "pause", 7, "12s")).unwrap();
    let report = run.report();
    let csv = export(&report, Format::Csv);
    assert_eq!(csv.lines().count(), run.history.operations.len() + 1);
    assert_eq!(csv.matches(",lost\r\n").count() as u64, run.verdict.lost_updates.count + 1, "and the head");

    let trace: Value = serde_json::from_str(&export(&report, Format::Perfetto)).unwrap();
    let holds =
        trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "holds the lock").count();
    assert!(holds > 50);

    // redjepsen's own reader of Jepsen histories gives the same verdict.
    for (workload, code) in [("redlock", 1), ("redlock-guarded", 0)] {
        let run = simulate(&scenario(workload, "pause", 7, "12s")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.edn");
        std::fs::write(&path, export(&run.report(), Format::Edn)).unwrap();
        let program = env!("CARGO_BIN_EXE_redjepsen");
        let check =
            std::process::Command::new(program).arg("check").arg(&path).args(["--model", "cas-register"]).output();
        let check = check.unwrap();
        let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
        assert_eq!(check.status.code(), Some(code), "{workload}: {said}");
    }
    let _ = report::html(&report);
}
