//! Histories of earlier versions keep their verdicts. Newer histories have fields where these have the words of a nemesis. The
//! words keep their meaning, even if the grammar changes.

use std::collections::BTreeSet;
use std::io::Cursor;

use checker::{AnomalyKind, STUCK_AFTER_TTLS, Validity, check};
use model::history::{CallEffect, FaultKind, FaultWindow, History, Phase, load, load_reader};
use runner::simulate::simulated_history;

use crate::kit::scenario;

const MS: u64 = 1_000_000;
const TTL_MS: u64 = 1000;

/// The first line, as the first version wrote it, and as the last version without these fields wrote it.
const HEADERS: [&str; 2] = [
    r#""workload":"single","nemesis":"x","seed":7,"clients":3,"nodes":2,"keys":1,"ttl_ms":1000,"time_limit_ms":5000,"claims":["updates"],"faults_expected":true,"started":"2026-11-20T12:00:00Z""#,
    r#""workload":"single","nemesis":"x","seed":7,"clients":3,"nodes":2,"keys":1,"ttl_ms":1000,"acquire_timeout_ms":2000,"time_limit_ms":5000,"resource":"register","claims":["updates"],"faults_expected":true,"script_steps":0,"progress":"some","simulated":true,"started":"2026-11-24T06:14:08Z""#,
];

/// A run in which c0 acquires the lock and a fault lasts from 30 to 100 ms. After that, c1 asks for the lock in vain for this
/// many milliseconds.
struct Old<'a> {
    header: &'a str,
    kind: &'a str,
    /// The text of the fault's order, if it has one.
    what: Option<&'a str>,
    targets: &'a [&'a str],
    /// Further fields of the fault's last line.
    healed: &'a str,
    in_vain_ms: u64,
}

impl Old<'_> {
    fn load(&self) -> History {
        let Old { header, kind, what, targets, healed, in_vain_ms } = self;
        let text = what.map_or(String::new(), |what| format!(r#","text":"{what}""#));
        let fault = |step: &str, more: &str| {
            format!(
                r#""type":"info","process":"nemesis","f":"{kind}","value":{targets:?},"fault":0,"step":"{step}"{more}"#
            )
        };
        let operation = |kind: &str, process: u32, more: &str| {
            let value = format!(r#"[null,"c{process}:1"]"#);
            format!(r#""type":"{kind}","process":{process},"f":"rmw","key":"k0","value":{value}{more}"#)
        };
        let events = [
            (0, format!(r#""type":"run","run":{{"format":1,"redjepsen":"0.1.0",{header}}}"#)),
            (0, r#""type":"fact","fact":{"name":"nodes-healthy","holds":true}"#.to_string()),
            (1, operation("invoke", 0, "")),
            (10, r#""type":"phase","process":0,"phase":"acquired""#.to_string()),
            (20, operation("ok", 0, "")),
            (30, fault("inject", &text)),
            (31, fault("injected", r#","observed":true"#)),
            (99, fault("heal", "")),
            (100, fault("healed", &format!(r#","observed":true{healed}"#))),
            (110, operation("invoke", 1, "")),
            (111, r#""type":"phase","process":1,"phase":"acquiring""#.to_string()),
            (100 + in_vain_ms, operation("fail", 1, r#","error":"not-acquired""#)),
        ];
        let lines = (0..).zip(&events).map(|(index, (at, event))| {
            let time = at * MS;
            format!("{{\"index\":{index},\"time\":{time},{event}}}\n")
        });
        load_reader(Cursor::new(lines.collect::<String>()), "old.jsonl").unwrap()
    }

    fn is_accused(&self) -> bool {
        check(&self.load()).anomalies.iter().any(|anomaly| anomaly.kind == AnomalyKind::NotObtained)
    }
}

/// How long after the heal of a clock the lock may stay taken: `None` if forever, because the end is not known.
fn keeps_the_lock_for(what: Option<&str>, target: &str, healed: &str, aftermath_ms: Option<u64>) {
    for header in HEADERS {
        let patience = STUCK_AFTER_TTLS * TTL_MS + aftermath_ms.unwrap_or(100 * TTL_MS);
        let old = Old { header, kind: "clock", what, targets: &[target], healed, in_vain_ms: patience };
        assert!(!old.is_accused(), "{what:?}{healed}");
        let accused = Old { in_vain_ms: patience + 1, ..old }.is_accused();
        assert_eq!(accused, aftermath_ms.is_some(), "{what:?}{healed}");
    }
}

#[test]
fn a_clock_keeps_the_lock_for_as_long_as_its_words_said() {
    for (what, target, aftermath_ms) in [
        (None, "n0", None),                          // before there were words
        (Some("clock node:0 x11"), "n0", Some(700)), // ten times the 70 ms that it lasted
        (Some("clock node:0 x0.5"), "n0", Some(0)),
        (Some("clock node:0 +2ttl"), "n0", Some(2_000)),
        (Some("clock nodes +1s500ms"), "n0", Some(1_500)),
        (Some("clock node:0,node:1 -500ms"), "n1", Some(0)),
        (Some("clock node:0 strobe 200ms every 1ms"), "n0", Some(200)),
        (Some("clock client:0 +2ttl"), "c0", Some(0)),
        (Some("clock node:0"), "n0", None),
        (Some("clock node:0 +soon"), "n0", None),
        (Some("clock somebody +2ttl"), "n0", None),
        (Some("clock node:0 x0"), "n0", None),
        (Some("clock node:0 +1001ttl"), "n0", None),
        (Some("skew node:0 by 2ttl"), "n0", None),
    ] {
        keeps_the_lock_for(what, target, "", aftermath_ms);
    }
}

#[test]
fn where_the_history_says_it_the_words_are_not_asked() {
    keeps_the_lock_for(Some("clock node:0 +2ttl"), "n0", r#","aftermath_ns":0"#, Some(0));
    keeps_the_lock_for(Some("skew node:0 by 2ttl"), "n0", r#","aftermath_ns":700000000"#, Some(700));
    keeps_the_lock_for(None, "n0", r#","aftermath_ns":18446744073709551615"#, None);
}

/// The fault of such a history.
fn fault(kind: &str, what: &str, targets: &[&str]) -> FaultWindow {
    let [first, last] = HEADERS.map(|header| {
        Old { header, kind, what: Some(what), targets, healed: "", in_vain_ms: 20 }.load().faults.remove(0)
    });
    assert_eq!(first, last);
    last
}

#[test]
fn a_partition_cuts_whom_its_words_named() {
    for (what, targets, links) in [
        ("partition client:0 from node:1", &["c0", "n1"][..], Some("c0>n1 n1>c0")),
        ("partition client:0 to node:0,node:1", &["c0", "n0", "n1"], Some("c0>n0 c0>n1")),
        ("partition client:0 from node:1; node:0 to client:2", &["c0", "c2", "n0", "n1"], Some("c0>n1 n0>c2 n1>c0")),
        ("partition clients to node:0", &["c0", "c1", "c2", "n0"], Some("c0>n0 c1>n0 c2>n0")),
        ("partition client:1 to nodes", &["c1", "n0", "n1"], Some("c1>n0 c1>n1")),
        // The resource had another name, and so had its member.
        ("partition client:1 to storage", &["c1", "store"], Some("c1>store")),
        ("partition client:1 to resource", &["c1", "resource"], Some("c1>resource")),
        ("partition holder to voter", &["c2", "n1"], Some("c2>n1")),
        ("partition holder to voter", &["c2", "n0", "n1"], Some("")),
        ("partition primary to sentinels", &["n0", "s0"], Some("")),
        ("partition minority", &["c0", "c1", "c2", "n0"], None),
        ("partition client:0 from somebody", &["c0", "n1"], None),
        ("", &["c0", "n1"], None),
    ] {
        let named = fault("partition", what, targets).links.map(|links| {
            let mut links: Vec<String> = links.iter().map(|(from, to)| format!("{from}>{to}")).collect();
            links.sort();
            links.join(" ")
        });
        assert_eq!(named.as_deref(), links, "{what}");
    }
    // A foreign history may name more members than any run has.
    let crowd: Vec<String> = (0..300).flat_map(|number| [format!("c{number}"), format!("n{number}")]).collect();
    let crowd: Vec<&str> = crowd.iter().map(String::as_str).collect();
    assert_eq!(fault("partition", "partition clients from nodes", &crowd).links, None);
    assert_eq!(fault("loss", "loss 30% client:0 and node:1", &["c0", "n1"]).links, None, "nobody asks that of these");
}

#[test]
fn a_fault_at_a_command_does_what_its_words_said() {
    for (what, on_call) in [
        ("hold request any client:0 to node:1", Some(CallEffect::HoldRequest)),
        ("hold reply to 2nd SET client:0 from node:1", Some(CallEffect::HoldReply)),
        ("lose reply to EVAL on lock:* clients from nodes", Some(CallEffect::LoseReply)),
        ("reset after write client:0 and nodes", Some(CallEffect::ResetAfter)),
        ("reset connection of SUBSCRIBE client:0 and node:0", Some(CallEffect::ResetConnection)),
        ("cut connection of SUBSCRIBE client:0 and node:0", Some(CallEffect::CutConnection)),
        ("answer SET client:0 and node:0", None),
        ("", None),
    ] {
        assert_eq!(fault("call", what, &["c0", "n1"]).on_call, on_call, "{what}");
    }
    assert_eq!(fault("reset", "reset after hours", &["c0", "n1"]).on_call, None);
}

#[test]
fn a_step_expects_what_its_words_said() {
    let step = |text: &str| {
        let lines = format!(
            "{{\"index\":0,\"time\":0,\"type\":\"run\",\"run\":{{\"format\":1,\"redjepsen\":\"0.1.0\",{}}}}}\n\
             {{\"index\":1,\"time\":9,\"type\":\"step\",\"script\":{{\"number\":1,\"step\":\"{text}\",\"outcome\":\"not-live\"}}}}\n",
            HEADERS[0]
        );
        let history = load_reader(Cursor::new(lines), "old.jsonl").unwrap();
        history.steps[0].1.expects.map(|expects| (expects.client, expects.phase))
    };
    assert_eq!(step("expect client:1 acquired within 0.5ttl"), Some((1, Some(Phase::Acquired))));
    assert_eq!(step("expect client:0 end within 1s"), Some((0, None)));
    assert_eq!(step("await client:1 acquired within 0.5ttl"), None);
}

/// Runs of the last version without these fields, exactly as it wrote them: 149 and 139 updates, with three faults each.
#[test]
fn whole_runs_keep_their_verdicts() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/earlier");
    let read = |name: &str| load(&fixtures.join(name)).unwrap();
    let clock = read("redlock-clock.jsonl.gz");
    let aftermaths: Vec<_> = clock.faults.iter().map(|window| window.aftermath_ns).collect();
    assert_eq!(aftermaths, [Some(2_000 * MS), Some(1_500 * MS), Some(0)], "+2ttl, strobe 1.5ttl, -2ttl");
    let partition = read("redlock-partition.jsonl.gz");
    let links: Vec<_> = partition.faults.iter().map(|window| window.links.as_ref().map_or(0, Vec::len)).collect();
    assert_eq!(links, [10, 6, 6], "five clients and a node, one client and three nodes, twice");
    for (history, updates) in [(clock, 149), (partition, 139)] {
        let verdict = check(&history);
        assert_eq!(verdict.valid, Validity::Valid, "{:#?}", verdict.reasons);
        assert_eq!((verdict.lost_updates.acknowledged, verdict.lost_updates.count), (updates, 0));
        assert!(verdict.gates.iter().all(|gate| gate.passed), "{:#?}", verdict.gates);
    }
}

/// A run's fields say the same as its words always did.
#[test]
fn fields_say_what_the_words_said() {
    for (nemesis, fields) in [("clock", 3), ("partition", 3), ("packets", 0)] {
        let written = simulated_history(&scenario("redlock", nemesis, 7, "12s")).unwrap();
        let said = load_reader(Cursor::new(&written), "now.jsonl").unwrap().faults;
        let text = String::from_utf8(written).unwrap();
        let without = text.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            for field in ["aftermath_ns", "links", "on_call"] {
                line.as_object_mut().unwrap().remove(field);
            }
            format!("{line}\n")
        });
        let without: String = without.collect();
        assert!(text.contains("\"aftermath_ns\":") && !without.contains("\"aftermath_ns\":"));
        let read = load_reader(Cursor::new(without), "before.jsonl").unwrap().faults;
        assert_eq!(said.len(), read.len());
        let mut same = 0;
        for (said, read) in said.iter().zip(&read) {
            assert_eq!((said.aftermath_ns, said.on_call), (read.aftermath_ns, read.on_call), "{}", said.what);
            let sorted = |window: &FaultWindow| window.links.clone().map(BTreeSet::from_iter);
            if said.kind == FaultKind::Partition {
                assert_eq!(sorted(said), sorted(read), "{}", said.what);
            }
            same += usize::from(matches!(said.kind, FaultKind::Clock | FaultKind::Partition));
        }
        assert!(same >= fields, "{nemesis}: {same}");
    }
}
