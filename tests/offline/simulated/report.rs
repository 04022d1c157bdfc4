//! The reader's view of a report. No history can prevent a report.

use checker::*;
use linearizability::Limits;
use model::history::*;
use model::locks::{LockSpec, NoOptions};
use model::nemesis::Expectation;
use model::scenario::Scenario;
use report::export::{self, Reference};
use report::{Counterexample, Look, Pictures};
use runner::Checked;

use crate::kit::{as_if_real, bare, far_away, malformed, oddities, pause, scenario, terminal, text_boxes};

/// A terminal of the usual width, with colours.
const COLORED: Look = Look { color: true, width: Some(96) };

/// Writes sample reports to look at: `REPORTS_TO=/tmp/rep cargo test --test offline samples`.
#[test]
fn samples() {
    let Ok(folder) = std::env::var("REPORTS_TO") else { return };
    let node = far_away(invalid());
    for (name, run) in [
        ("invalid", invalid()),
        ("harmless", harmless()),
        ("valid", valid()),
        ("unknown", unknown()),
        ("node", node),
        ("many", many()),
    ] {
        let folder = std::path::Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the samples");
        report::write(&folder, &run.report()).expect("a report");
        println!("{}", terminal(&run.report(), Look::PLAIN, true));
    }
}

fn run(workload: &str, nemesis: &str) -> Checked {
    as_if_real(&scenario(workload, nemesis, 7, "12s"))
}

fn invalid() -> Checked {
    run("redlock", "pause")
}

/// Two clients held the lock at once, but the resource prevented any harm.
fn harmless() -> Checked {
    run("redlock-guarded", "pause")
}

/// A run with pauses that do not affect a majority.
fn valid() -> Checked {
    run("redlock", "pause-node")
}

/// A run in which not all faults were observed.
fn unknown() -> Checked {
    let mut run = valid();
    for (fault, window) in run.history.faults.iter_mut().enumerate() {
        window.injected = window.injected.map(|(time, _)| (time, fault > 0));
    }
    Checked::new(run.history, run.scenario, run.facts)
}

fn many() -> Checked {
    let few = scenario("redlock", "pause", 7, "30s");
    as_if_real(&Scenario { clients: 50, keys: 20, hold: "10ms..30ms".parse().unwrap(), ..few })
}

#[test]
fn the_terminal_tells_the_verdict_first_and_in_ten_lines() {
    let narrow = Look { color: false, width: Some(80) };
    let told = [invalid(), harmless(), valid(), unknown()].map(|run| {
        let plain = terminal(&run.report(), Look::PLAIN, false);
        let second = plain.lines().nth(1).unwrap();
        assert!(second.starts_with("  "), "the verdict is one line in a pipe: {plain}");
        [false, true].map(|verbose| terminal(&run.report(), narrow, verbose))
    });
    for [short, long] in &told {
        assert!(short.lines().count() <= 10 && long.lines().count() <= 36, "{short}{long}");
        let wide = |line: &&str| line.chars().count() > 80 && !line.contains("redjepsen run");
        assert_eq!(short.lines().chain(long.lines()).find(wide), None);
    }
    insta::assert_snapshot!(told.as_flattened().join("\n----------\n\n"));
    assert!(terminal(&invalid().report(), COLORED, false).starts_with("\u{1b}[1;31mINVALID"));
}

/// Redlock under pauses, with a changed workload.
fn with(change: impl FnOnce(&mut model::scenario::Workload)) -> Checked {
    let mut scenario = scenario("redlock", "pause", 7, "12s");
    change(&mut scenario.workload);
    as_if_real(&scenario)
}

#[test]
fn two_holders_do_no_harm_where_the_resource_refuses_late_writes() {
    let guard = |workload: &mut model::scenario::Workload| {
        assert!(workload.claims.contains(&Claim::MutualExclusion), "its file claims it");
        workload.resource.fencing = model::scenario::Fencing::CompareAndSet;
    };
    let exclusion = |run: &Checked| {
        let told = run.report().summary.claims;
        told.into_iter().find(|of| of.checked.claim == Claim::MutualExclusion).unwrap()
    };
    let spared = with(guard);
    assert_eq!(spared.verdict.valid, Validity::Valid, "{:?}", spared.verdict.reasons);
    assert!(spared.verdict.mutual_exclusion.violations > 0);
    let told = exclusion(&spared);
    assert_eq!((told.standing_text.as_str(), told.word()), ("Seen, but harmless here", "harmless"));
    assert!(told.harmless.is_some() && spared.report().summary.incidents.iter().all(|one| one.harmless));

    // Without such a resource, or if updates are not claimed, the violations break a claim.
    let unguarded = with(|_| ());
    let alone = with(|workload| {
        guard(workload);
        workload.claims = vec![Claim::MutualExclusion];
    });
    for broken in [unguarded, alone] {
        assert_eq!(broken.verdict.valid, Validity::Invalid);
        let told = exclusion(&broken);
        assert_eq!((told.standing_text.as_str(), told.harmless), ("Violated", None));
    }

    // No violation is harmless while updates are lost: a resource that checks tokens only at writes lets a second late write in.
    let mut late = scenario("fenced", "double-pause", 1, "12s");
    late.workload.claims.push(Claim::MutualExclusion);
    let late = as_if_real(&late);
    assert_eq!(late.verdict.valid, Validity::Invalid);
    let told = exclusion(&late);
    assert_eq!((told.standing_text.as_str(), told.harmless), ("Violated, but only lost updates count", None));
}

#[test]
fn incidents_are_explained_so_that_a_person_understands() {
    let mut told = Vec::new();
    let tokens = as_if_real(&Scenario { clients: 3, ..scenario("redlock-tokens", "pause", 7, "12s") });
    let runs = [tokens, invalid(), harmless(), far_away(invalid()), bare(invalid())];
    for run in &runs {
        let summary = run.report().summary;
        let incidents = summary.incidents.iter().take(2).map(|incident| incident.text());
        told.extend(std::iter::once(summary.one_line.clone()).chain(incidents));
        told.push(String::new());
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn what_is_done_once_is_not_said_to_last() {
    let told = |kind| {
        let mut run = far_away(invalid());
        run.history.faults.iter_mut().for_each(|fault| fault.kind = kind);
        run.report().summary.incidents[0].text()
    };
    let lasts = |text: &str, past: &str| {
        let said = text.split_once(past).unwrap_or_else(|| panic!("{text}")).1;
        said.split_once('(').unwrap().0.contains(" for ")
    };
    assert!(lasts(&told(FaultKind::Pause), "was paused"));
    assert!(!lasts(&told(FaultKind::Flush), "was flushed"));
    assert!(!lasts(&told(FaultKind::Failover), "was replaced"));
}

#[test]
fn the_headline_says_whose_claim_is_broken() {
    let headline = |change: &dyn Fn(&mut Checked)| {
        let mut run = invalid();
        change(&mut run);
        run.report().summary.one_line
    };
    let only_overlaps = |run: &mut Checked| {
        run.verdict.anomalies.retain(|anomaly| anomaly.kind == AnomalyKind::OverlappingHolders);
        run.verdict.lost_updates.count = 0;
    };
    assert_eq!(
        headline(&only_overlaps),
        "Redlock let two clients hold the lock at once when its holder was paused: 35 overlaps among 113 holds; no acknowledged \
         update was lost."
    );
    let no_lock_no_fault = |run: &mut Checked| {
        run.scenario.as_mut().unwrap().workload.lock = LockSpec::None(NoOptions {});
        run.history.faults.clear();
    };
    assert_eq!(
        headline(&no_lock_no_fault),
        "Running without a lock lost 3 of 113 acknowledged updates (2.7%), without any fault."
    );
    let stale = |run: &mut Checked| {
        run.verdict.lost_updates.count = 0;
        run.verdict.anomalies.truncate(1);
        run.verdict.anomalies[0].kind = AnomalyKind::StaleRead;
        run.verdict.anomalies[0].fault = None;
    };
    assert_eq!(headline(&stale), "Redlock produced 1 observation that no correct order of the updates explains.");
    let unfounded = |run: &mut Checked| {
        run.verdict.valid = Validity::Unknown;
        run.verdict.reasons.clear();
    };
    assert_eq!(headline(&unfounded), "This run proves nothing about the lock.");
    let for_a_reason = |run: &mut Checked| {
        unfounded(run);
        run.verdict.reasons = vec!["c1 failed: unknown word `aquired`".to_string(), "no fault was seen".to_string()];
    };
    assert_eq!(headline(&for_a_reason), "This run proves nothing about the lock: c1 failed: unknown word `aquired`");
}

#[test]
fn a_client_that_is_not_ours_is_called_by_its_own_name() {
    for (ready, named) in [("my-node-lock 0.1", "my-node-lock 0.1"), ("redjepsen 0.1.0", "Redlock"), ("", "Redlock")] {
        let mut run = invalid();
        run.history.clients[0].1.text = ready.to_string();
        let headline = run.report().summary.one_line;
        assert!(headline.starts_with(&format!("{named} lost 3 of 113")), "{headline}");
    }
}

/// An invalid run of this workload, with these final states of its keys.
fn over(workload: &str, ends: &[(u64, u64, u64, Option<u64>)]) -> Checked {
    let mut run = run(workload, "pause");
    let end = |(number, &(acknowledged, lost, unacknowledged, amount)): (usize, &(u64, u64, u64, Option<u64>))| {
        KeyEnd { key: format!("k{number}"), acknowledged, lost, lost_unnamed: 0, unacknowledged, amount }
    };
    run.verdict.keys = ends.iter().enumerate().map(end).collect();
    for (number, operation) in run.history.operations.iter_mut().enumerate() {
        operation.amount = (operation.old != Reading::Unknown).then_some(Amount::Count(1000 + number as u64));
    }
    run
}

#[test]
fn counters_and_lists_are_told_by_where_they_end() {
    let told = |workload, ends: &[_]| {
        let run = over(workload, ends);
        let headline = run.report().summary.one_line;
        let terminal = terminal(&run.report(), Look::PLAIN, true);
        let resource = terminal.lines().find_map(|line| line.strip_prefix("  resource          ")).map(String::from);
        (headline.split_once(": ").map(|(_, end)| end.to_string()), resource)
    };
    let both = |end: &str, terminal: &str| (Some(end.to_string()), Some(terminal.to_string()));
    let one = (113, 3, 0, Some(110));
    assert_eq!(
        told("counter", &[one]),
        both("the counter k0 ends at 110.", "the counter k0 ends at 110 after 113 acknowledged increments")
    );
    assert_eq!(
        told("list", &[(113, 3, 2, Some(112))]),
        both(
            "the list k0 ends with 112 elements (2 of them never acknowledged).",
            "the list k0 ends with 112 elements (2 of them never acknowledged); 113 were acknowledged"
        )
    );
    assert_eq!(
        told("counter", &[one, (82, 0, 0, Some(82))]),
        both("the 2 counters add up to 192.", "the 2 counters add up to 192 after 195 acknowledged increments")
    );
    // A register has no amount, and an amount that was not read is not reported.
    assert_eq!(told("redlock", &[(113, 3, 0, None)]), (None, None));
    assert_eq!(told("counter", &[one, (82, 0, 0, None)]), (None, None));
    let headline = over("counter", &[one]).report().summary.one_line;
    assert!(headline.starts_with("Redlock lost 3 of 113 acknowledged increments (2.7%)"), "{headline}");
    let incident = over("counter", &[one]).report().summary.incidents[0].text();
    let counted =
        |verb: &str| incident.split(&format!("{verb} 1,")).nth(1).is_some_and(|rest| rest[3..].starts_with(" (`c"));
    assert!(counted("read") && counted("wrote"), "{incident}");
    let drawing = report::drawing(&over("counter", &[one]).report(), 0).unwrap();
    assert!(drawing.contains(">reads 1,") && drawing.contains(">writes 1,"), "{drawing}");
    let incident = over("list", &[one]).report().summary.incidents[0].text();
    assert!(incident.contains(" elements up to `c"), "{incident}");
}

#[test]
fn a_page_lists_what_several_keys_came_to_and_never_all_of_many() {
    let page = |run: &Checked| report::html(&run.report());
    assert!(!page(&over("counter", &[(113, 3, 0, Some(110))])).contains("id=\"keys\""));
    let several = page(&over("redlock", &[(100, 0, 0, None), (82, 8, 0, None)]));
    let rows: Vec<&str> =
        several.split("id=\"keys\"").nth(1).unwrap().split("</section>").next().unwrap().split("<tr").collect();
    assert!(
        rows.len() == 4 && rows[2].contains("<td>k1</td><td class=\"n\">82</td><td class=\"n\">8</td></tr>"),
        "the loser first: {rows:?}"
    );
    let many = page(&over("list", &[(10, 0, 0, Some(10)); 5_000]));
    assert!(many.contains("4,988 more keys") && many.contains("<th>ends at</th>"));
    assert!(many.len() < several.len() + 10_000);
    let terminal = terminal(&over("redlock", &[(100, 0, 0, None), (82, 8, 0, None)]).report(), Look::PLAIN, true);
    assert!(terminal.contains("  keys              1 of 2 keys lost updates\n"), "{terminal}");
}

#[test]
fn a_bug_report_stands_alone_and_names_nothing_private() {
    let mut run = invalid();
    let library = model::scenario::catalogue::workload("redis-py").unwrap().1.library;
    run.scenario.as_mut().unwrap().workload.library = library;
    run.facts.folder = "/home/ann/store".into();
    run.facts.image = "registry.ann.example/redis".into();
    run.facts.repeat = "redjepsen run --store /home/ann/store".into();
    run.facts.versions.insert("kernel".into(), "6.1-ann".into());
    let similar = Reference { kind: "a lock".into(), workload: "single".into(), expected: Expectation::Violation };
    let text = export::bug_report(&run.report(), Some(&similar), Some("drawing.svg")).unwrap();
    for part in [
        "- Library: redis-py Lock 8.1.0\n- Package: `pkg:pypi/redis`\n",
        "Project: <https://github.com/redis/redis-py>",
        "- No two clients hold the lock at once **violated here**\n",
        "c3 acquired the lock at 1.588 s",
        "is lost: the last value of k0",
        "c3      R==",
        "![The incident on a time axis](drawing.svg)",
        "## In the source\n\n- Lock expiry does not stop the holder",
        "$ redjepsen run --workload redlock --nemesis pause --time-limit 12s --seed 7\n",
        "`single`, redjepsen's own example of a lock, fails the same scenario",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for private in ["/home", "ann.example", "6.1-ann", "store"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
    assert!(text.lines().all(|line| !line.starts_with("c3   ") || line.len() <= 80), "{text}");
    assert_eq!(export::bug_report(&valid().report(), None, None), None);
}

#[test]
fn a_bug_report_has_the_script_and_its_drawing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let redjepsen = |words: &str| {
        let mut command = assert_cmd::Command::cargo_bin("redjepsen").unwrap();
        command.current_dir(folder.path()).args(words.split(' ')).assert()
    };
    let run = "run --cluster sim --workload redlock --nemesis pause-before-write --time-limit 12s --seed 7 --store";
    redjepsen(&format!("{run} fails")).code(1);
    redjepsen("export fails/latest --bug-report -o bug.md").code(0);
    let text = std::fs::read_to_string(folder.path().join("bug.md")).unwrap();
    assert!(text.contains("The script, step by step:\n\n1. `"), "{text}");
    assert!(text.contains("RJ022 (expired-under-holder)") && text.contains("(bug.svg)"), "{text}");
    assert!(std::fs::read_to_string(folder.path().join("bug.svg")).unwrap().starts_with("<svg"));
    redjepsen(&format!("{} holds", run.replace("pause-before-write", "pause-node"))).code(0);
    redjepsen("export holds/latest --bug-report").code(254).stderr(predicates::str::contains("shows no violation"));
    redjepsen("export fails/latest").code(254);
}

#[test]
fn a_loss_and_its_overlap_are_one_incident() {
    let run = invalid();
    let story = run.report().story;
    let told: usize = story.incidents.iter().map(|incident| incident.anomalies.len()).sum();
    assert_eq!(told, run.verdict.anomalies.len(), "each anomaly is told, and told once");
    assert_eq!(story.incidents.len(), run.history.faults.len(), "one incident for each pause");
    for incident in story.incidents.iter().filter(|incident| !incident.lost.is_empty()) {
        assert!(incident.has(AnomalyKind::LostUpdate) && incident.has(AnomalyKind::OverlappingHolders));
    }
}

#[test]
fn results_are_for_programs() {
    let run = invalid();
    let results: serde_json::Value = serde_json::from_str(&report::results_json(&run.report())).unwrap();
    assert_eq!(results["valid"], false);
    assert_eq!(results["lost_updates"]["count"], run.verdict.lost_updates.count);
    assert_eq!(results["mutual_exclusion"]["violations"], run.verdict.mutual_exclusion.violations);
    assert_eq!(results["seed"], 7);
    assert_eq!(results["anomalies"].as_array().unwrap().len(), run.verdict.anomalies.len());
    let first = &results["anomalies"][0];
    assert_eq!(first["kind"], "overlapping-holders");
    assert!(first["text"].as_str().unwrap().contains("was paused at"));
    let run = unknown();
    let results: serde_json::Value = serde_json::from_str(&report::results_json(&run.report())).unwrap();
    assert_eq!(results["valid"], "unknown");
    assert_eq!(results["reasons"], serde_json::json!(run.verdict.reasons));
}

#[test]
fn the_page_needs_nothing_but_itself_and_starts_with_the_verdict() {
    for run in [invalid(), harmless(), valid(), unknown(), many()] {
        let page = report::html(&run.report());
        for forbidden in ["<link", "src=\"http", "href=\"http", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden} in the page");
        }
        only_our_script_runs(&page);
        // The page of a run with incidents begins with them; other pages begin with the claims.
        let (claims, incidents) =
            (["class=\"claims\"", "class=\"numbers\""], ["id=\"incidents\"", "id=\"timeline\"", "id=\"operations\""]);
        let has_incidents = page.contains("id=\"incident-1\"");
        let first = if has_incidents { [&incidents[..], &claims[..]] } else { [&claims[..], &incidents[..]] };
        let rest =
            ["id=\"plots\"", "id=\"gates\"", "id=\"terms\"", "id=\"scenario\"", "id=\"faults\"", "id=\"repeat\""];
        let order: Vec<&str> = ["<h1>"].iter().chain(first.concat().iter()).chain(&rest).copied().collect();
        let places: Vec<usize> = order.iter().map(|part| page.find(part).expect(part)).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(page.len() < 2_000_000);
    }
}

#[test]
fn what_strangers_wrote_is_text() {
    let mut run = invalid();
    let evil = "</text></svg><script>alert(1)</script>\"' onload=\"x`";
    for operation in &mut run.history.operations {
        operation.key = evil.into();
        operation.fails(Some(evil.into()), None);
        operation.old = Reading::Value(evil.into());
        operation.new = operation.new.take().map(|value| format!("{evil}{value}").into());
    }
    for anomaly in &mut run.verdict.anomalies {
        anomaly.key = evil.into();
        anomaly.summary = evil.into();
    }
    for gate in &mut run.verdict.gates {
        (gate.name, gate.text) = (evil.into(), evil.into());
    }
    run.verdict.reasons = vec![evil.into()];
    run.history.faults.push(pause(9, evil.into(), 1_000_000_000, 2_000_000_000));
    run.history.run.as_mut().unwrap().workload = evil.into();
    let scenario = run.scenario.as_mut().unwrap();
    (scenario.workload_name, scenario.nemesis.story) = (evil.into(), evil.into());
    (run.facts.repeat, run.facts.folder) = (evil.into(), evil.into());
    let folder = tempfile::tempdir().unwrap();
    report::write(folder.path(), &run.report()).unwrap();
    for file in ["report.html", "incident-1.svg"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(!text.contains("<script>alert") && !text.contains("onload=\"") && text.contains("&lt;"), "{file}");
        match file {
            "report.html" => only_our_script_runs(&text),
            _ => assert!(!text.contains("<script"), "{file}"),
        }
    }
}

/// A page has two elements for scripts: data, and one script, the only script that the page's policy allows.
fn only_our_script_runs(page: &str) {
    use base64::Engine as _;
    use sha2::{Digest, Sha256};
    let (_, script) = page.split_once("<script>").expect("the timeline's script");
    let (script, rest) = script.split_once("</script>").unwrap();
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(script.as_bytes()));
    let policy = format!("default-src 'none'; script-src 'sha256-{hash}'; ");
    let (head, _) = page.split_once("<title>").unwrap();
    assert!(head.contains(&format!("http-equiv=\"Content-Security-Policy\" content=\"{policy}")), "{head}");
    assert_eq!((page.matches("<script").count(), rest.contains("<script")), (2, false));
    // No data can end its own element.
    let (_, data) = page.split_once("id=\"timeline-data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    assert!(data.trim_matches('"').chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c)));
}

#[test]
fn nothing_that_may_be_missing_keeps_a_report_from_being_written() {
    for (name, run) in oddities() {
        let report = run.report();
        let folder = tempfile::tempdir().unwrap();
        report::write(folder.path(), &report).unwrap_or_else(|error| panic!("{name}: {error}"));
        let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
        for sign_of_trouble in ["could not be drawn", "\"NaN", " NaN", ">NaN", ",NaN", "\"inf\"", ">inf<"] {
            assert!(!page.contains(sign_of_trouble), "{name}: {sign_of_trouble}");
        }
        let narrow = Look { color: false, width: Some(80) };
        assert!(terminal(&report, narrow, true).lines().count() <= 40, "{name}");
        let short = terminal(&report, narrow, false);
        assert!(short.lines().count() <= 10, "{name}: {short}");
    }
}

#[test]
fn the_shortest_proof_is_found_in_any_history_and_drawn() {
    let mut shown = 0;
    let runs = [("invalid", invalid()), ("harmless", harmless()), ("many", many())];
    for (name, mut run) in runs.into_iter().chain(oddities()) {
        let minimal_counterexample = minimal_counterexample(&run.history, &run.verdict, &Limits::default());
        run.minimal_counterexample = minimal_counterexample.map(|found| Counterexample::of_run(&run.history, &found));
        let page = report::html(&run.report());
        assert_eq!(page.contains("id=\"minimal_counterexample\""), run.minimal_counterexample.is_some(), "{name}");
        let Some(minimal_counterexample) = run.minimal_counterexample else { continue };
        assert!(
            minimal_counterexample.minimal && minimal_counterexample.operations.len() <= 8,
            "{name}: {minimal_counterexample:?}"
        );
        assert_eq!(malformed(&minimal_counterexample.standalone()), None, "{name}");
        shown += 1;
    }
    assert!(shown > 2, "{shown} shown");
    assert_eq!(malformed(&Counterexample::default().standalone()), None);
}

#[test]
fn plots_are_pictures_of_900_by_400() {
    let folder = tempfile::tempdir().unwrap();
    report::write(folder.path(), &invalid().report()).unwrap();
    for name in ["latency-raw", "latency-quantiles", "rate", "locks"] {
        let bytes = std::fs::read(folder.path().join(format!("{name}.png"))).unwrap();
        assert_eq!(&bytes[1..4], b"PNG");
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((number(16), number(20)), (900, 400), "{name}");
    }
}

#[test]
fn a_page_links_only_pictures_that_are_there() {
    let run = invalid();
    for (pictures, painted) in [(Pictures::Painted, true), (Pictures::OnPageOnly, false)] {
        let folder = tempfile::tempdir().unwrap();
        let mut report = run.report();
        report.pictures = pictures;
        report::write(folder.path(), &report).unwrap();
        let there = |name: &str| folder.path().join(name).exists();
        assert!(there("results.json") && there("incident-1.svg"));
        assert_eq!((there("locks.png"), there("incident-1.png")), (painted, painted));
        let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
        assert_eq!(page.contains("incident-1.png"), painted);
        assert_eq!(page.contains("incident-1.svg"), !painted);
    }
}

#[test]
fn a_long_history_still_makes_a_page_that_opens() {
    let mut run = many();
    let few = run.history.operations.clone();
    let far = run.history.last_time;
    for round in 1..=120_000 / few.len() as u64 {
        run.history.operations.extend(few.iter().cloned().map(|mut operation| {
            operation.index += round * 1_000_000;
            operation.invoked += round * far;
            operation.completed = operation.completed.map(|time| time + round * far);
            operation.phases.each(|stamp| {
                stamp.received += round * far;
                stamp.stamped = stamp.stamped.map(|time| time + (round * far) as i64);
            });
            operation
        }));
        run.history.last_time += far;
    }
    assert!(run.history.operations.len() > 100_000);
    let page = report::html(&run.report());
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
    assert!(page.contains("data:image/png;base64,"));
}

#[test]
fn labels_of_a_drawing_never_lie_on_top_of_each_other() {
    let long = "a-client-of-a-stranger-writes-long-values";
    for seed in 0..12 {
        let mut run = as_if_real(&Scenario { clients: 2 + seed as u32, ..scenario("redlock", "pause", seed, "12s") });
        if seed % 3 == 0 {
            run.history.operations.iter_mut().for_each(|operation| operation.new = Some(long.into()));
        }
        if seed % 4 == 1 {
            run = far_away(run);
        }
        for number in 0..5 {
            let Some(svg) = report::drawing(&run.report(), number) else { break };
            assert_eq!(malformed(&svg), None, "{svg}");
            let boxes = text_boxes(&svg);
            assert!(boxes.len() > 8, "{svg}");
            for (place, one) in boxes.iter().enumerate() {
                for other in &boxes[place + 1..] {
                    assert!(!one.meets(other), "seed {seed}, incident {number}: {} and {}", one.text, other.text);
                }
            }
        }
    }
}

#[test]
fn lock_whose_key_never_ends_is_not_called_free() {
    let scenario = scenario("setnx-expire", "between-set-and-expire", 1, "9s");
    let history = runner::simulate::simulate(&scenario).unwrap().history;
    let said = |history: &History, holds: bool, text: &str| {
        let mut history = history.clone();
        history.facts.push(Fact { name: FactName::NothingEndless, holds, text: text.to_string() });
        history.fact_lines.push(history.operations[0].index);
        Checked::new(history, Some(scenario.clone()), Default::default()).report().summary.one_line.clone()
    };
    let endless = "`lock:k0` on n0, which never ends";
    let told = said(&history, false, endless);
    let there = "could not be acquired: its key `lock:k0` on n0, which has no TTL, was still there at the end";
    assert!(
        told.contains(there) && told.contains("c0 was killed before it received the reply to its 1st SETNX"),
        "{told}"
    );
    // Nothing was left behind, or the key expires, or it is another key: then the cause is unknown.
    for (holds, text) in [
        (true, "1 key looked at"),
        (false, "`lock:k0` on n0, which ends after another 29.8 s"),
        (false, "`lock:k7` on n0, which never ends"),
    ] {
        let told = said(&history, holds, text);
        assert!(!told.contains("was still there"), "{told}");
    }
    // A client acquired the lock afterwards, so the key was left behind later.
    let mut acquired = history.clone();
    let mut later = acquired.operations.iter().find(|one| one.phases.has(Phase::Acquired)).unwrap().clone();
    let end = acquired.last_time;
    later.phases.each(|stamp| (stamp.received, stamp.stamped) = (end, None));
    acquired.operations.push(later);
    let told = said(&acquired, false, endless);
    assert!(!told.contains("was still there"), "{told}");
}
