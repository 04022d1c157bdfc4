//! Dropped or blurred evidence proves less, but never something else: an invalid history never becomes valid that way, nor a
//! valid history invalid. And an update that the test makes lost is found. `REDJEPSEN_CASES` sets the number of mutated
//! histories.

use std::sync::LazyLock;

use checker::AnomalyKind::{self, ImpossibleRead, LostUpdate, NotObtained, OverlappingHolders, TokenRegress};
use checker::{Validity, Verdict, check};
use model::history::{History, Operation, Outcome, Reading, load_reader};
use proptest::prelude::*;
use runner::simulate::simulated_history;
use serde_json::Value;

use crate::kit::{cases, on_all_processors, scenario};

/// Runs by workload and nemesis, each with its anomaly, if any. No simulated server issues wrong tokens, so the test changes that
/// run.
const RUNS: [(&str, &str, Option<AnomalyKind>); 11] = [
    ("redlock", "none", None),
    ("list", "none", None),
    ("perfect", "pause", None),
    ("redlock-guarded", "pause-before-write", None),
    ("redlock", "pause-before-write", Some(LostUpdate)),
    ("counter", "pause-before-write", Some(LostUpdate)),
    ("list", "pause", Some(LostUpdate)),
    ("mutex", "pause", Some(OverlappingHolders)),
    ("fenced", "kill-node", Some(TokenRegress)),
    ("setnx-expire", "between-set-and-expire", Some(NotObtained)),
    ("counter", "none", Some(ImpossibleRead)),
];

/// The lines of each run, for two seeds.
static LINES: LazyLock<Vec<Vec<Value>>> = LazyLock::new(|| {
    let all: Vec<_> = (1..=2).flat_map(|seed| RUNS.map(|run| (run, seed))).collect();
    on_all_processors(&all, |((workload, nemesis, shown), seed)| {
        let history = simulated_history(&scenario(workload, nemesis, *seed, "8s")).unwrap();
        let lines = String::from_utf8(history).unwrap();
        let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if *shown == Some(ImpossibleRead) {
            let last = lines.iter_mut().rfind(|line| !line["count"].is_null()).unwrap();
            last["count"] = (last["count"].as_u64().unwrap() + 1).into();
        }
        lines
    })
});

/// A history of these lines, with new line numbers.
fn history(lines: &[Value]) -> History {
    let numbered = lines.iter().zip(0..).map(|(line, index)| {
        let mut line = line.clone();
        line["index"] = index.into();
        format!("{line}\n")
    });
    load_reader(numbered.collect::<String>().as_bytes(), "history.jsonl").unwrap()
}

fn verdict(lines: &[Value]) -> Verdict {
    check(&history(lines))
}

/// Removes something from a line, if possible: fields that a client may omit, or lines that no other line depends on.
fn weaken(lines: &mut Vec<Value>, place: usize, how: u8) {
    let line = &mut lines[place];
    let kind = line["type"].as_str().unwrap_or_default().to_string();
    match (kind.as_str(), how) {
        ("phase", 0 | 1) => _ = lines.remove(place),
        ("phase", 2) => _ = line.as_object_mut().map(|line| line.remove("mono_ns")),
        ("phase", 3) => _ = line.as_object_mut().map(|line| line.remove("token")),
        ("phase", 4) => _ = line.as_object_mut().map(|line| line.remove("value")),
        ("phase" | "ok", 5) => _ = line.as_object_mut().map(|line| line.remove("count")),
        ("phase", 6) => _ = line.as_object_mut().map(|line| line.remove("validity_ms")),
        ("ok", 0) if line["f"] == "rmw" => {
            line["value"][0] = Value::Null;
            line["untold"] = true.into();
        }
        ("fact" | "clock" | "end", _) => _ = lines.remove(place),
        ("info", 0) if line["process"] == "nemesis" => _ = lines.remove(place),
        ("info", _) if line["process"] == "nemesis" => line["observed"] = false.into(),
        // The final read: remove both the question and the answer.
        ("invoke", 0) if line["process"] == "controller" => {
            lines.remove(place);
            lines.remove(place);
        }
        _ => {}
    }
}

#[test]
fn each_run_shows_what_it_is_there_for() {
    for (lines, (workload, nemesis, shown)) in LINES.iter().zip(RUNS.iter().cycle()) {
        let verdict = verdict(lines);
        let expected = if shown.is_some() { Validity::Invalid } else { Validity::Valid };
        assert_eq!(verdict.valid, expected, "{workload} under {nemesis}: {:?}", verdict.reasons);
        let found = |kind| verdict.anomalies.iter().any(|anomaly| anomaly.kind == kind);
        assert!(shown.is_none_or(found), "{workload} under {nemesis}: {:?}", verdict.anomalies);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn less_evidence_never_turns_a_verdict_round(
        run: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..7u8), 1..60),
    ) {
        let run = run.index(LINES.len());
        let (mut lines, (.., shown)) = (LINES[run].clone(), RUNS[run % RUNS.len()]);
        for (place, how) in changes {
            // The first line states the claims, which are not evidence.
            let place = 1 + place.index(lines.len() - 1);
            weaken(&mut lines, place, how);
        }
        let (before, after) = (if shown.is_some() { Validity::Invalid } else { Validity::Valid }, verdict(&lines));
        prop_assert!(
            after.valid == before || after.valid == Validity::Unknown,
            "{:?}: {before:?} became {:?}: {:?}", RUNS[run % RUNS.len()], after.valid, after.reasons
        );
    }
}

/// Of two consecutive updates, the first is erased if the second read the same value as the first.
#[test]
fn a_lost_update_is_always_found() {
    let mut erased = 0;
    for (lines, _) in LINES.iter().zip(RUNS.iter().cycle()).filter(|(_, run)| run.2.is_none() && run.0 != "list") {
        let history = history(lines);
        let acknowledged = || history.operations.iter().filter(|one| one.outcome == Outcome::Ok && one.new.is_some());
        for first in acknowledged() {
            let read_it =
                |second: &&Operation| second.old == first.new.clone().map_or(Reading::Unknown, Reading::Value);
            let Some(second) = acknowledged().find(read_it) else { continue };
            let mut changed = history.clone();
            changed.operations.iter_mut().find(|one| one.index == second.index).unwrap().old = first.old.clone();
            let verdict = check(&changed);
            let cites = |operations: &[u64]| [first, second].iter().all(|one| operations.contains(&one.index));
            let found = verdict.anomalies.iter().any(|one| one.kind == LostUpdate && cites(&one.operations));
            assert!(found && verdict.lost_updates.count > 0, "{first:?}, {second:?}: {:#?}", verdict.anomalies);
            erased += 1;
        }
    }
    assert!(erased > 100, "{erased} updates were erased");
}
