//! Counterexamples as users see them: in the terminal, as JSON, as a drawing, on a page. Each history is a file that
//! another program might have written.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An event: process, type, function, value.
type Event = (Value, &'static str, &'static str, Value);

/// An operation with no other event in between.
fn op(process: impl Into<Value>, f: &'static str, invoked: Value, found: Value) -> [Event; 2] {
    let process = process.into();
    [(process.clone(), "invoke", f, invoked), (process, "ok", f, found)]
}

/// A folder with a history of these events, three milliseconds apart.
fn history(events: impl IntoIterator<Item = Event>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = |(number, (process, kind, f, value)): (usize, Event)| {
        let time = 2_000_000_000 + number * 3_000_000;
        json!({ "process": process, "type": kind, "f": f, "value": value, "time": time }).to_string() + "\n"
    };
    let text: String = events.into_iter().enumerate().map(line).collect();
    fs::write(folder.path().join("history.jsonl"), text).unwrap();
    folder
}

fn redjepsen(folder: &TempDir) -> Command {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    command.current_dir(folder);
    command
}

fn stale() -> TempDir {
    history(
        [op(0, "write", json!(1), json!(1)), op(1, "write", json!(2), json!(2)), op(2, "read", json!(null), json!(1))]
            .concat(),
    )
}

/// Two operations that found and replaced the same value, after some correct ones.
fn lost_update(before: u64) -> TempDir {
    let rmw = |process: u64, old: Value, new: &str| op(process, "rmw", json!([null, new]), json!([old, new]));
    let name = |number: u64| format!("c{}:{number}", number % 3);
    let mut events = Vec::new();
    for number in 0..before {
        let old = number.checked_sub(1).map_or(Value::Null, |last| name(last).into());
        events.extend(rmw(number % 3, old, &name(number)));
    }
    let (one, other) = (rmw(7, name(before - 1).into(), "one"), rmw(8, name(before - 1).into(), "other"));
    let [one, other] = [one, other].map(|[invoked, ok]| (invoked, ok));
    events.extend([one.0, other.0, one.1, other.1]);
    history(events)
}

fn drawing(folder: &TempDir, arguments: &[&str]) -> String {
    redjepsen(folder).args(["check", "history.jsonl", "--svg", "drawing.svg"]).args(arguments).assert().code(1);
    let svg = fs::read_to_string(folder.path().join("drawing.svg")).unwrap();
    assert_eq!(crate::kit::malformed(&svg), None, "{svg}");
    for forbidden in ["<script", "href", "url(", "NaN", "inf\""] {
        assert!(!svg.contains(forbidden), "{forbidden} in {svg}");
    }
    svg
}

/// How often a class is drawn.
fn drawn(svg: &str, class: &str) -> usize {
    svg.matches(&format!("class=\"{class}\"")).count()
}

fn no_label_on_another(svg: &str) {
    let boxes = crate::kit::text_boxes(svg);
    for (place, one) in boxes.iter().enumerate() {
        for other in &boxes[place + 1..] {
            assert!(!one.meets(other), "{} and {}: {svg}", one.text, other.text);
        }
    }
}

#[test]
fn the_terminal_tells_where_it_fails_and_what_was_legal_before() {
    let text = |folder: &TempDir| {
        let assert = redjepsen(folder).args(["check", "history.jsonl"]).assert().code(1);
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    let told = text(&stale());
    assert!(
        told.contains(
            "every result was possible until line 5 returned (process 2, read 1); a possible order of the 2 \
             operations before:\n    write 1 (line 1), write 2 (line 3)\n"
        ),
        "{told}"
    );
    let told = text(&lost_update(40));
    assert!(told.lines().count() <= 20, "{told}");
    for part in [
        "both replaced \"c0:39\", so each must come before the other\n",
        "but \"c0:39\" was written once (line 79), and cannot come back\n",
        "rmw \"c2:38\" -> \"c0:39\"   (any value would fail here)\n",
        "every result was possible until line 82 returned (process 8, rmw \"c0:39\" -> \"other\"); a possible order of the 41 \
         operations before ends:\n    …, rmw",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn json_has_the_whole_explanation() {
    let assert = redjepsen(&stale()).args(["check", "history.jsonl", "--json"]).assert().code(1);
    let result: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let explanation = &result["results"][0]["explanation"];
    let operation = |line: u64, process: &str, f: &str, text: &str| {
        json!({
            "line": line, "process": process, "f": f, "outcome": "ok", "text": text, "weakened": false,
            "invoked_event": line - 1, "completed_event": line,
            "invoked_ns": 2_000_000_000 + (line - 1) * 3_000_000, "completed_ns": 2_000_000_000 + line * 3_000_000,
        })
    };
    let (one, two, read) = (
        operation(1, "0", "write", "write 1"),
        operation(3, "1", "write", "write 2"),
        operation(5, "2", "read", "read 1"),
    );
    assert_eq!(explanation["minimal"], true);
    assert_eq!(explanation["operations"], json!([one, two, read]));
    assert_eq!(
        explanation["cycle"],
        json!([
            { "before": 3, "after": 5, "because": "real-time" },
            { "before": 5, "after": 3, "because": "value" },
        ])
    );
    assert_eq!(explanation["basis"], json!([{ "before": 1, "after": 3, "because": "real-time" }]));
    assert_eq!(explanation["dead_ends"], json!([{ "order": [1, 3], "state": "2", "refused": 5 }]));
    assert_eq!(explanation["sentences"].as_array().map(Vec::len), Some(3));
    assert_eq!(explanation["fails_at"], read);
    assert_eq!(explanation["legal_prefix"], json!({ "events": 5, "operations": 2, "order": [one, two], "omitted": 0 }));
    // All earlier fields are still there.
    assert_eq!(
        result["results"][0]["conflict"][2],
        json!({ "line": 5, "process": "2", "f": "read", "outcome": "ok", "text": "read 1" })
    );

    let fine = history([op(0, "write", json!(1), json!(1)), op(2, "read", json!(null), json!(1))].concat());
    let assert = redjepsen(&fine).args(["check", "history.jsonl", "--json"]).assert().code(0);
    let result: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(result["results"][0]["explanation"], Value::Null);
}

#[test]
fn a_drawing_has_a_bar_for_each_operation_and_an_arrow_for_each_step() {
    let svg = drawing(&stale(), &[]);
    assert_eq!((drawn(&svg, "bar"), drawn(&svg, "bytime-head"), drawn(&svg, "byvalue-head")), (3, 2, 1), "{svg}");
    for part in
        [">by time<", ">by value<", ">write 2<", ">line 3<", ">process 2<", ">2.000 s<", ">+3 ms<", "cannot come back"]
    {
        assert!(svg.contains(part), "{part} in {svg}");
    }
    no_label_on_another(&svg);

    let svg = drawing(&lost_update(5), &[]);
    assert_eq!((drawn(&svg, "bar"), drawn(&svg, "bytime-head"), drawn(&svg, "byvalue-head")), (3, 0, 2), "{svg}");
    assert!(svg.contains("rmw … -&gt; &quot;c1:4&quot;"), "what does not matter is not shown: {svg}");
    no_label_on_another(&svg);
}

#[test]
fn an_operation_that_may_still_take_effect_has_no_end() {
    let read = |process: u64, value: u64| op(process, "read", json!(null), json!(value));
    let mut events = vec![(json!(0), "invoke", "write", json!(1))];
    events.extend([read(2, 1)].concat());
    events.extend(op(1, "write", json!(2), json!(2)));
    events.extend([read(3, 2), read(2, 1)].concat());
    events.push((json!(0), "info", "write", json!(1)));
    let svg = drawing(&history(events), &[]);
    assert_eq!((drawn(&svg, "bar open"), drawn(&svg, "outgoing")), (1, 2), "{svg}");
    assert!(svg.contains("line 1, perhaps") && svg.contains("it is unknown whether or when it took effect"), "{svg}");
    no_label_on_another(&svg);
}

#[test]
fn one_operation_and_many_are_drawn_too() {
    let svg = drawing(&history(op(4, "read", json!(null), json!(9))), &[]);
    assert_eq!((drawn(&svg, "bar refused"), drawn(&svg, "bar")), (1, 0), "{svg}");
    no_label_on_another(&svg);

    let mut events: Vec<Event> = (0..30).flat_map(|number| op(number % 6, "add", json!(1), json!(1))).collect();
    events.extend(op(9, "read", json!(null), json!(29)));
    let svg = drawing(&history(events), &[]);
    assert_eq!((drawn(&svg, "bar"), drawn(&svg, "bar refused")), (19, 1), "{svg}");
    assert!(svg.contains("11 more operations not drawn"), "{svg}");
    no_label_on_another(&svg);
}

#[test]
fn drawings_of_every_size_have_labels_apart() {
    for count in 2..=22_u64 {
        // This many processes share a semaphore with one place fewer; three at a time ask together.
        let mut events = Vec::new();
        let workers: Vec<Value> = (0..count).map(|number| json!(format!("worker-{number}"))).collect();
        for at_once in workers.chunks(3) {
            let all =
                |kind: &'static str| at_once.iter().map(move |worker| (worker.clone(), kind, "acquire", json!(null)));
            events.extend(all("invoke").chain(all("ok")));
        }
        no_label_on_another(&drawing(&history(events), &["--model", &format!("semaphore:{}", count - 1)]));
    }
}

#[test]
fn what_strangers_wrote_is_text() {
    let evil = "</text></svg><script>alert(1)</script>\"' onload=\"x`&\u{202e}\u{1b}[31m";
    let long = "<script>".repeat(100_000);
    let mut events = op(evil, "write", json!(evil), json!(evil)).to_vec();
    events.extend(op(format!("{evil}2"), "write", json!(long), json!(long)));
    events.extend(op(3, "read", json!(null), json!(evil)));
    let folder = history(events);
    let path = folder.path().join("history.jsonl");
    let lines: Vec<Value> =
        fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let with_key = lines.into_iter().map(|mut line| {
        line["key"] = evil.into();
        line.to_string() + "\n"
    });
    fs::write(&path, with_key.collect::<String>()).unwrap();
    let svg = drawing(&folder, &["--html", "page.html"]);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    for text in [&svg, &page] {
        assert!(!text.contains("<script") && !text.contains("onload=\"") && text.contains("&lt;"), "{text}");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}'), "{text}");
    }
    assert!(svg.len() < 20_000 && page.len() < 60_000, "{} and {} bytes", svg.len(), page.len());
    no_label_on_another(&svg);
    redjepsen(&folder)
        .args(["check", "history.jsonl"])
        .assert()
        .code(1)
        .stdout(contains("\u{1b}").not().and(contains("\u{202e}").not()));
}

#[test]
fn a_page_has_all_keys_that_have_no_order_and_needs_nothing_but_itself() {
    let folder = stale();
    let path = folder.path().join("history.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let of_keys = |keys: u64, seen: fn(u64) -> u64| -> String {
        let mut all = String::new();
        for (number, line) in (0..keys).flat_map(|key| text.lines().map(move |line| (key, line))) {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("time");
            line["key"] = number.into();
            if line["f"] == "read" && line["type"] == "ok" {
                line["value"] = seen(number).into();
            }
            all += &(line.to_string() + "\n");
        }
        all
    };
    let page = |text: String, code: i32| {
        fs::write(&path, text).unwrap();
        redjepsen(&folder).args(["check", "history.jsonl", "--html", "page.html"]).assert().code(code);
        let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
        for forbidden in ["<script", "<link", "src=\"http", "href=", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden} in the page");
        }
        page
    };
    let bad = page(of_keys(13, |key| if key == 4 { 2 } else { 1 }), 1);
    assert!(bad.contains(">INVALID<") && bad.contains("model register") && bad.contains("12 keys of 13"), "{bad}");
    assert_eq!((bad.matches("<svg").count(), bad.matches("2 more keys").count()), (10, 1));
    assert!(!bad.contains("on key 4<"), "what is fine is not told");
    assert!(bad.contains(
        "Every result was possible until line 5 returned (process 2, read 1); a possible order of the 2 operations before: \
         write 1 (line 1), write 2 (line 3)."
    ));
    let fine = page(of_keys(2, |_| 2), 0);
    assert!(fine.contains(">VALID<") && !fine.contains("<svg"), "{fine}");
}

#[test]
fn files_that_cannot_or_should_not_be_written_are_refused() {
    let folder = stale();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let refused = |arguments: &[&str], words: &str| {
        redjepsen(&folder).args(["check", "history.jsonl"]).args(arguments).assert().code(254).stderr(contains(words));
    };
    refused(&["--html", "sub"], "--html sub: is a directory");
    refused(&["--svg", "none/x.svg"], "--svg none/x.svg: there is no such directory");
    refused(&["--svg", "history.jsonl"], "--svg history.jsonl: is the history itself");
    refused(&["--svg", "sub/../history.jsonl"], "is the history itself");
    refused(&["--svg", "x", "--html", "x"], "--html and --svg name the same file");
    redjepsen(&folder)
        .args(["check", ".", "--model", "register", "--html", "history.jsonl"])
        .assert()
        .code(254)
        .stderr(contains("is the history itself"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing was written");

    fs::write(folder.path().join("old.svg"), "old").unwrap();
    redjepsen(&folder).args(["check", "history.jsonl", "--svg", "old.svg"]).assert().code(1);
    assert!(fs::read_to_string(folder.path().join("old.svg")).unwrap().starts_with("<svg"), "a file is replaced");

    let fine = history([op(0, "write", json!(1), json!(1)), op(0, "read", json!(null), json!(1))].concat());
    redjepsen(&fine)
        .args(["check", "history.jsonl", "--svg", "none.svg"])
        .assert()
        .code(0)
        .stderr(contains("no counterexample to draw, so none.svg was not written"));
    assert!(!fine.path().join("none.svg").exists());
}

/// The history of a run that is kept as a fixture.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn a_run_that_lost_updates_shows_its_counterexample_beside_the_incidents() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, code: i32| {
        let mut command = redjepsen(&folder);
        command
            .arg("check")
            .arg(fixture(name))
            .args(["--html", "page.html", "--svg", "drawing.svg"])
            .assert()
            .code(code);
        fs::read_to_string(folder.path().join("page.html")).unwrap()
    };
    let page = check("pause-healed-in-time.jsonl", 0);
    assert!(!page.contains("id=\"minimal_counterexample\"") && !folder.path().join("drawing.svg").exists());
    let page = check("pause-outlives-lock.jsonl", 1);
    let places =
        ["id=\"incidents\"", "id=\"minimal_counterexample\"", "id=\"plots\""].map(|part| page.find(part).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("c1 read &quot;c2:2&quot; and wrote &quot;c1:3&quot; (line 56)"));
    let svg = fs::read_to_string(folder.path().join("drawing.svg")).unwrap();
    assert_eq!((crate::kit::malformed(&svg), drawn(&svg, "byvalue-head")), (None, 2), "{svg}");
    no_label_on_another(&svg);

    fs::copy(fixture("pause-outlives-lock.jsonl"), folder.path().join("history.jsonl")).unwrap();
    redjepsen(&folder).args(["report", "."]).assert().code(0);
    assert_eq!(fs::read_to_string(folder.path().join("counterexample.svg")).unwrap(), svg);
    assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().contains("id=\"minimal_counterexample\""));
}
