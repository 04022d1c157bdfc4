//! Histories as files: two complete recordings, and every way in which a file can be broken.

use std::io::Cursor;

use checker::{AnomalyKind, Validity, Verdict, check};
use model::history::{Amount, History, HistoryError, Reading, ResourceKind, load, load_reader};
use proptest::prelude::*;

const HEALED_IN_TIME: &str = include_str!("../../../fixtures/pause-healed-in-time.jsonl");
const OUTLIVES_LOCK: &str = include_str!("../../../fixtures/pause-outlives-lock.jsonl");

fn read(bytes: &[u8]) -> Result<History, HistoryError> {
    load_reader(Cursor::new(bytes), "history.jsonl")
}

fn verdict(text: &str) -> Verdict {
    check(&read(text.as_bytes()).unwrap())
}

/// Expects that the file is refused, and that the error names the line and the reason.
fn refused(text: impl AsRef<[u8]>, line: u64, reason: &str) {
    let error = read(text.as_ref()).expect_err("a broken file").to_string();
    assert!(error.starts_with(&format!("history.jsonl, line {line}: ")), "{error}");
    assert!(error.contains(reason), "{error}");
}

/// The sound history with one line (counted from 1) replaced.
fn with_line(line: usize, replace: impl Fn(&str) -> String) -> String {
    let lines = HEALED_IN_TIME.lines().enumerate();
    lines.map(|(number, text)| if number + 1 == line { replace(text) } else { text.to_string() } + "\n").collect()
}

fn line_of(what: &str) -> usize {
    1 + HEALED_IN_TIME.lines().position(|line| line.contains(what)).expect("a line")
}

#[test]
fn a_pause_that_ends_in_time_is_valid() {
    let resource = read(HEALED_IN_TIME.as_bytes()).unwrap().run.unwrap().resource;
    assert_eq!(resource, ResourceKind::Register, "it is older than the field");
    let verdict = verdict(HEALED_IN_TIME);
    assert_eq!(verdict.valid, Validity::Valid, "{:#?}", verdict.reasons);
    assert_eq!((verdict.lost_updates.acknowledged, verdict.counts.ok), (14, 14));
    assert_eq!((verdict.mutual_exclusion.comparable_holds, verdict.mutual_exclusion.violations), (14, 0));
}

#[test]
fn a_pause_that_outlives_the_lock_loses_what_others_wrote_meanwhile() {
    let verdict = verdict(OUTLIVES_LOCK);
    assert_eq!(verdict.valid, Validity::Invalid);
    assert_eq!(verdict.lost_updates.count, 2);
    let lost = verdict.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::LostUpdate).expect("a loss");
    assert_eq!(
        lost.summary,
        "c0 and c1 both read k0 = c2:2; c0's write of c0:3 at 2.110 s erased c1:3 and c2:3, which had been acknowledged"
    );
    assert_eq!((lost.fault, lost.lost.len()), (Some(0), 2));
    assert_eq!(verdict.mutual_exclusion.violations, 2);
    assert_eq!(
        verdict.reasons,
        ["2 of 14 acknowledged updates lost (14.3%)", "two clients held one lock at once: 2 overlaps among 14 holds"]
    );
}

#[test]
fn a_run_folder_loads_as_well_as_a_file_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = load(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("history.jsonl: No such file"), "{missing}");
    std::fs::write(folder.path().join("history.jsonl"), HEALED_IN_TIME).unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("history.jsonl")] {
        assert_eq!(check(&load(&path).unwrap()).valid, Validity::Valid);
    }
}

#[test]
fn a_history_cut_off_anywhere_is_never_valid() {
    for cut in (1..HEALED_IN_TIME.len()).rev().step_by(97).chain([1, HEALED_IN_TIME.len() - 1]) {
        let part = &HEALED_IN_TIME[..cut];
        let lines = part.matches('\n').count() as u64;
        match read(part.as_bytes()) {
            Err(error) => assert!(lines == 0 && error.to_string().contains("line 1: no complete line"), "{error}"),
            Ok(history) => {
                let expected = (!part.ends_with('\n')).then_some(lines + 1);
                assert_eq!(history.truncated_at_line, expected);
                let verdict = check(&history);
                assert_eq!(verdict.valid, Validity::Unknown);
                let reason = expected.map_or("ends before the run does".into(), |line| format!("line {line}"));
                assert!(verdict.reasons[0].contains(&reason), "{:?}", verdict.reasons);
            }
        }
    }
}

#[test]
fn a_violation_is_still_seen_in_a_history_that_was_cut_off() {
    let cut = OUTLIVES_LOCK.len() - 20;
    let verdict = verdict(&OUTLIVES_LOCK[..cut]);
    assert_eq!((verdict.valid, verdict.lost_updates.count), (Validity::Invalid, 2));
}

#[test]
fn what_is_no_history_is_refused() {
    let empty = read(b"").unwrap_err().to_string();
    assert!(empty.contains("the file is empty"), "{empty}");
    refused(b"\x7fELF\x02\x01\x01\0\0\0\0\0", 1, "no complete line");
    refused(b"\x7fELF\xff\xfe\n\0\0\0\n", 1, "not UTF-8");
    refused("\n", 1, "EOF");
    refused(vec![b'['; 10 << 20], 1, "longer than");
    refused(
        [HEALED_IN_TIME.as_bytes(), &vec![b' '; 10 << 20]].concat(),
        1 + HEALED_IN_TIME.lines().count() as u64,
        "longer",
    );
    refused(format!("{}\n", "[".repeat(100_000)), 1, "");
}

#[test]
fn a_broken_line_is_named_wherever_it_is() {
    for line in [1, 2, 20, HEALED_IN_TIME.lines().count()] {
        refused(with_line(line, |text| text[..text.len() / 2].to_string()), line as u64, "EOF");
        refused(
            with_line(line, |text| text.replacen("\"type\":\"", "\"type\":\"x", 1)),
            line as u64,
            "unknown type `x",
        );
        refused(with_line(line, |_| String::new()), line as u64, "EOF");
        refused(with_line(line, |text| text.replacen("\"index\":", "\"index\":9", 1)), line as u64, "out of order");
    }
    let lines: Vec<&str> = HEALED_IN_TIME.lines().collect();
    refused(format!("{}\n", [&lines[..19], &lines[20..]].concat().join("\n")), 20, "index 20, but 19 was expected");
    refused(with_line(30, |text| text.replace("\"time\":", "\"time\":0,\"was\":")), 30, "time runs backwards");
    let after = lines.len();
    refused(
        format!("{HEALED_IN_TIME}{}\n", lines[after - 1].replace(&format!(":{}", after - 1), &format!(":{after}"))),
        after as u64 + 1,
        "after the end",
    );
}

#[test]
fn amounts_are_taken_from_the_phase_or_the_answer_and_stay_with_their_value() {
    let (phase, ok) = (line_of("\"phase\":\"read\""), line_of(r#""type":"ok","process":0"#));
    let counted = |phase_says: &str, ok_says: &str| {
        let phase_says = format!("\"value\":{phase_says}}}");
        let lines = HEALED_IN_TIME.lines().zip(1..).map(|(text, line)| match line {
            line if line == phase => text.replacen("\"value\":null}", &phase_says, 1),
            line if line == ok => text.replacen("\"f\":", &format!("{ok_says}\"f\":"), 1),
            _ => text.to_string(),
        });
        let text: String = lines.map(|line| line + "\n").collect();
        let history = read(text.as_bytes()).unwrap();
        let first = history.operations.into_iter().find(|operation| operation.new.as_deref() == Some("c0:1")).unwrap();
        (first.old, first.amount)
    };
    let empty = |amount| (Reading::Empty, amount);
    assert_eq!(counted("null", ""), empty(None));
    assert_eq!(counted("null,\"count\":0", ""), empty(Some(Amount::Count(0))));
    assert_eq!(counted("null", "\"count\":0,"), empty(Some(Amount::Count(0))));
    // Two statements that contradict each other count as no statement.
    assert_eq!(counted("null,\"count\":4", "\"count\":0,"), (Reading::Unknown, None));
    assert_eq!(counted("\"c9:9\",\"count\":4", ""), (Reading::Unknown, None));
    for (field, reason) in [("\"count\":-1,", "invalid value"), ("\"elements\":7,", "invalid type")] {
        refused(with_line(ok, |text| text.replacen("\"f\":", &format!("{field}\"f\":"), 1)), ok as u64, reason);
        refused(
            with_line(phase, |text| text.replacen("\"phase\":", &format!("{field}\"phase\":"), 1)),
            phase as u64,
            reason,
        );
    }
    let both = "\"count\":2,\"elements\":[\"c0:1\"],";
    let disagree = with_line(ok, |text| text.replacen("\"f\":", &format!("{both}\"f\":"), 1));
    refused(disagree, ok as u64, "field `count` is 2, but `elements` has 1");
}

#[test]
fn what_cannot_have_happened_is_refused() {
    let second = line_of(r#""value":[null,"c1:3"]"#);
    let invoke = |process: &str| with_line(second, |text| text.replace("\"process\":1", process));
    refused(invoke("\"process\":0"), second as u64, "before its operation of line");
    let twice = with_line(second, |text| text.replace("c1:3", "c0:1"));
    refused(twice, second as u64, "value `c0:1` was already written");
    let ok = line_of(r#""type":"ok","process":0"#);
    refused(with_line(ok, |text| text.replace("\"process\":0", "\"process\":2")), ok as u64, "did not invoke");
    refused(with_line(ok, |text| text.replace("c0:1", "c0:9")), ok as u64, "does not fit its invocation");
    refused(with_line(ok, |text| text.replace("\"k0\"", "\"k1\"")), ok as u64, "does not fit its invocation");
    let phase = line_of(r#""type":"phase","process":0"#);
    refused(
        with_line(phase, |text| text.replace("\"process\":0", "\"process\":2")),
        phase as u64,
        "without an operation",
    );
    let ended = line_of("\"process\":0,\"client\":\"ready\"");
    let after_its_end = with_line(ended, |text| text.replace("\"ready\"", "\"ended\""));
    let invoked = line_of(r#""type":"invoke","process":0"#);
    refused(after_its_end, invoked as u64, "acts after it has ended");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::kit::cases(500)))]

    /// Every sequence of bytes gets an answer. The answer is `valid` only if the history is complete and supports it.
    #[test]
    fn mutated_histories_never_panic_and_are_valid_only_if_whole(
        outlives in any::<bool>(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..6),
    ) {
        let mut bytes = if outlives { OUTLIVES_LOCK } else { HEALED_IN_TIME }.as_bytes().to_vec();
        for (place, byte, how) in mutations {
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => bytes[place] = b"0123456789"[usize::from(byte) % 10],
                2 => _ = bytes.remove(place),
                _ => bytes.insert(place, byte),
            }
        }
        match read(&bytes) {
            Err(error) => prop_assert!(error.to_string().contains("line "), "{error}"),
            Ok(history) => {
                let verdict = check(&history);
                let whole = history.truncated_at_line.is_none() && history.end.is_some_and(|end| end.completed);
                prop_assert!(verdict.valid != Validity::Valid || (whole && !outlives));
                // The checker's verdict must survive serialization.
                let written = serde_json::to_string(&verdict).unwrap();
                prop_assert_eq!(serde_json::from_str::<Verdict>(&written).unwrap(), verdict);
            }
        }
    }
}
