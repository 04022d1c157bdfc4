//! The pages of a suite: their content, that foreign text stays text, and that no part exceeds its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use checker::{Remark, Validity};
use model::nemesis::Expectation::{self, Valid, Violation};
use model::scenario::{Cause, Finding, Library, Options};
use report::matrix::SuiteSummary;
use report::{Look, matrix as pages};
use sha2::{Digest, Sha256};
use suite::balance::Durations;
use suite::file::FoundIn;
use suite::matrix::{Circumstances, Matrix, Overall};
use suite::outcome::{Numbers, RunOutcome, Timing};
use suite::plan::{PlannedCell, Suite};
use suite::shard::Shard;

/// A terminal of the usual width, with colours.
const COLORED: Look = Look { color: true, width: Some(96) };

pub fn cell(workload: &str, nemesis: &str, expected: Option<Expectation>, runs: u64) -> PlannedCell {
    let scripted = nemesis.contains('-');
    let found = if scripted { FoundIn::Every } else { FoundIn::Some };
    PlannedCell {
        name: format!("{workload} under {nemesis}"),
        place: 0,
        workload: workload.into(),
        nemesis: nemesis.into(),
        with: String::new(),
        scripted,
        expected,
        found: (expected == Some(Violation)).then_some(found),
        command: Some(format!("redjepsen run --workload {workload} --nemesis {nemesis}")),
        scenario: Options::default().scenario("redlock", "pause", 1, Path::new("")).unwrap(),
        seeds: (1..=runs).collect(),
        planned_ms: runs * 7_000,
    }
}

pub fn run(cell: &PlannedCell, run: u32, valid: Option<Validity>) -> RunOutcome {
    let lost = if valid == Some(Validity::Invalid) { 5 } else { 0 };
    let summary = match valid {
        Some(Validity::Valid) => "Redlock kept all 120 acknowledged updates.",
        Some(Validity::Invalid) => "Redlock lost 5 of 120 acknowledged updates (4.2%).",
        Some(Validity::Unknown) => "This run proves nothing about the lock.",
        None => "could not run: no Docker engine answers (exit code 255)",
    };
    RunOutcome {
        cell: cell.name.clone(),
        run,
        seed: u64::from(run),
        valid,
        simulated: false,
        summary: summary.into(),
        folder: if valid.is_some() {
            format!("runs/{}-{}/2026-{run}", cell.workload, cell.nemesis)
        } else {
            String::new()
        },
        struck: None,
        repeat: cell.repeat(run.into()).unwrap(),
        seconds: 7.25,
        numbers: Numbers {
            acknowledged: if valid.is_some() { 120 } else { 0 },
            lost,
            overlaps: lost * 3,
            holds: 118,
            first_violation_s: (lost > 0).then_some(1.5 * f64::from(run)),
            without_lock_s: Some(0.041),
            per_second: valid.map(|_| 19.5 + f64::from(run)),
            latency_ms: None,
        },
        advisories: Vec::new(),
        misdiagnosed: None,
        defects: Vec::new(),
        timing: Timing { late_ms: Some(3), limit_ms: 50, beside_others: true, asks_for_quiet: false },
        first_attempt: None,
    }
}

pub fn suite(cells: Vec<PlannedCell>) -> Suite {
    let (name, description) = ("mine".into(), "What must break breaks".into());
    Suite { name, description, cells, sha256: "s".into(), cut_sha256: None }
}

/// One cell of each kind.
fn mixed() -> Matrix {
    use Validity::{Invalid, Unknown, Valid as Held};
    let all = [
        (cell("redlock", "none", Some(Valid), 2), vec![Some(Held), Some(Held)]),
        (cell("redlock", "pause", Some(Violation), 3), vec![Some(Invalid), Some(Held), Some(Unknown)]),
        (cell("redlock", "partition", Some(Valid), 3), vec![Some(Held), Some(Invalid), Some(Unknown)]),
        (cell("redlock", "clock", None, 2), vec![Some(Held), Some(Invalid)]),
        (cell("redlock", "pause-before-write", Some(Violation), 2), vec![Some(Invalid), Some(Held)]),
        (cell("redlock-guarded", "pause", Some(Valid), 2), vec![Some(Held), None]),
        (cell("redlock-guarded", "pause-before-write", Some(Valid), 2), vec![Some(Held)]),
    ];
    let mut runs = Vec::new();
    for (cell, valids) in &all {
        runs.extend((1..).zip(valids).map(|(number, valid)| run(cell, number, *valid)));
    }
    let suite = suite(all.into_iter().map(|(cell, _)| cell).collect());
    let versions = BTreeMap::from([("server".to_string(), "redis 7.0.15".to_string())]);
    let started = "2026-11-21T12:00:00Z".into();
    let repeat = "redjepsen suite ./mine.toml".into();
    Matrix::new(&suite, &runs, Circumstances { started, versions, repeat, ..Circumstances::default() })
}

#[test]
fn each_page_says_what_came_out() {
    let matrix = mixed();
    let text = [
        pages::terminal(&SuiteSummary::new(&matrix), Look::PLAIN),
        pages::markdown(&SuiteSummary::new(&matrix)),
        pages::junit(&SuiteSummary::new(&matrix)),
    ]
    .join("\n----------\n\n");
    insta::assert_snapshot!(text);
    assert!(pages::terminal(&SuiteSummary::new(&matrix), COLORED).starts_with("\u{1b}[1;31mUNEXPECTED"));
    let table = SuiteSummary::new(&matrix);
    let again: SuiteSummary = serde_json::from_str(&serde_json::to_string(&table).unwrap()).unwrap();
    assert_eq!(pages::html(&again), pages::html(&table), "a table reads back as it was written");
    // Except for the last digits of numbers, the JSON is complete.
    let again: Matrix = serde_json::from_str(&pages::json(&matrix)).unwrap();
    assert_eq!((again.verdict, again.counts), (matrix.verdict, matrix.counts));
    assert_eq!(pages::html(&SuiteSummary::new(&again)), pages::html(&SuiteSummary::new(&matrix)));
}

#[test]
fn the_page_needs_nothing_but_itself_and_leads_to_the_reports_of_its_runs() {
    let matrix = mixed();
    let page = pages::html(&SuiteSummary::new(&matrix));
    // The page has one script, which is redjepsen's: its policy allows no other, whatever foreign text the page contains.
    let script = concat!(
        include_str!("../../../crates/report/src/html/copy.js"),
        include_str!("../../../crates/report/src/matrix/sort.js")
    );
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains(&format!("<script>{script}</script>")) && !script.contains("</"));
    let hash = STANDARD.encode(Sha256::digest(script.as_bytes()));
    let policy = format!("content=\"default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline';");
    assert!(page.contains(&policy), "{policy}");
    // The targets of cells' links and of the contents exist.
    for anchor in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(page.contains(&format!(" id=\"{anchor}\"")), "{anchor}");
    }
    for forbidden in ["<link", "src=\"", "href=\"http", "@import", "url(", "fetch(", "eval(", "innerHTML"] {
        assert!(!page.contains(forbidden), "{forbidden} in the page");
    }
    let order = ["<h1>UNEXPECTED", "id=\"alarms\"", "id=\"matrix\"", "id=\"numbers\"", "id=\"terms\"", "id=\"repeat\""];
    let places: Vec<usize> = order.iter().map(|part| page.find(part).expect(part)).collect();
    assert!(places.is_sorted(), "{places:?}");
    for run in matrix.cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.valid.is_some()) {
        assert!(page.contains(&format!("href=\"{}/report.html\"", run.folder)), "{}", run.folder);
    }
    // No information depends on colour alone.
    for word in ["failed", "passed", "unknown", "UNEXPECTED", "as expected", "observed", "expected: pass"] {
        assert!(page.contains(word), "{word}");
    }
}

/// Two cells on three servers. One cell has a different result on the last server.
fn on_servers(last: &str) -> Matrix {
    use Validity::{Invalid, Valid as Held};
    let (mut cells, mut runs) = (Vec::new(), Vec::new());
    for (nemesis, on_last) in [("none", Held), ("pause", Invalid)] {
        for (server, valid) in [("redis:7.0", Held), ("valkey:8.1", Held), (last, on_last)] {
            let plain = cell("redlock", nemesis, None, 1);
            let with = format!("ttl 1s, server {server}");
            let cell = PlannedCell { name: format!("{} with {with}", plain.name), with, ..plain };
            runs.push(run(&cell, 1, Some(valid)));
            cells.push(cell);
        }
    }
    let versions = BTreeMap::from([("server".to_string(), "redis 7.0.15 / valkey 8.1.8 / valkey 9.1.2".to_string())]);
    Matrix::new(&suite(cells), &runs, Circumstances { versions, ..Circumstances::default() })
}

#[test]
fn servers_stand_beside_each_other_and_first_where_they_differ() {
    let table = SuiteSummary::new(&on_servers("valkey:9.1"));
    let servers = table.servers.as_ref().unwrap();
    let rows: Vec<_> = servers.rows.iter().map(|row| (row.title.as_str(), row.differs, &row.cells[..])).collect();
    assert_eq!(
        rows,
        [
            ("redlock under pause with ttl 1s", true, &[Some(3), Some(4), Some(5)][..]),
            ("redlock under none with ttl 1s", false, &[Some(0), Some(1), Some(2)][..])
        ]
    );
    let lines = [
        "redlock under pause with ttl 1s: failed on valkey:9.1; passed on redis:7.0, valkey:8.1",
        "1 cell had the same result on each of redis:7.0, valkey:8.1, valkey:9.1",
    ];
    assert_eq!(servers.lines, lines);
    let versions: Vec<_> = servers.servers.iter().filter_map(|server| server.version.as_deref()).collect();
    assert_eq!(versions, ["redis 7.0.15", "valkey 8.1.8", "valkey 9.1.2"]);
    assert!(table.sweeps.is_empty(), "servers are no numbers to be plotted");
    let text = pages::terminal(&table, Look::PLAIN);
    assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    let page = pages::html(&table);
    assert!(page.contains("href=\"#servers\"") && page.contains("valkey 9.1.2"), "{page}");
    assert!(SuiteSummary::new(&mixed()).servers.is_none(), "no servers are named there");
    let page = pages::html(&SuiteSummary::new(&on_servers("<script>alert(1)</script>")));
    assert!(page.matches("<script").count() == 1 && page.contains("id=\"servers\""));
}

#[test]
fn what_strangers_wrote_is_text() {
    let evil = "</td><script>alert(1)</script>\"' onload=\"x` | [x](javascript:y) \u{1}\n# z";
    let mut matrix = mixed();
    (matrix.suite, matrix.description) = (evil.into(), evil.into());
    for cell in &mut matrix.cells {
        (cell.name, cell.workload, cell.nemesis, cell.with) = (evil.into(), evil.into(), evil.into(), evil.into());
        for run in &mut cell.runs {
            (run.summary, run.repeat, run.folder) = (evil.into(), evil.into(), format!("javascript:{evil}"));
        }
    }
    let page = pages::html(&SuiteSummary::new(&matrix));
    assert!(
        page.matches("<script").count() == 1 && !page.contains("onload=\"") && !page.contains("href=\"javascript:")
    );
    assert!(!page.contains("alert(1)</script>"));
    let text = pages::markdown(&SuiteSummary::new(&matrix));
    // Everything between backticks is plain text.
    let text: String = text.split('`').step_by(2).collect();
    assert!(!text.contains("<script") && !text.contains("[x](javascript") && !text.contains("\n# z"));
    let junit = pages::junit(&SuiteSummary::new(&matrix));
    assert!(!junit.contains("<script") && !junit.contains('\u{1}') && junit.contains("&lt;script"));
    assert!(!pages::terminal(&SuiteSummary::new(&matrix), Look::PLAIN).contains('\u{1}'));
}

#[test]
fn a_summary_fits_into_a_ci_job_however_large_the_suite() {
    let cells: Vec<PlannedCell> =
        (0..3000).map(|number| cell("redlock", &format!("n{number}"), Some(Valid), 2)).collect();
    let runs: Vec<RunOutcome> = cells.iter().map(|cell| run(cell, 1, Some(Validity::Invalid))).collect();
    let matrix = Matrix::new(&suite(cells), &runs, Circumstances::default());
    let text = pages::markdown(&SuiteSummary::new(&matrix));
    assert!(text.len() < 250_000, "{} bytes", text.len());
    assert!(text.contains("3000 not as expected") && text.contains("more, in matrix.html"));
}

#[test]
fn a_run_that_was_late_or_made_again_is_named_on_every_page() {
    let cell = cell("redlock", "pause-before-write", Some(Violation), 3);
    let late = Timing { late_ms: Some(130), ..run(&cell, 1, None).timing };
    let missed = RunOutcome { timing: late, ..run(&cell, 1, Some(Validity::Valid)) };
    let alone = Timing { beside_others: false, ..late };
    let first_attempt = Some(Box::new(missed.as_attempt()));
    let again = RunOutcome { timing: alone, first_attempt, ..run(&cell, 1, Some(Validity::Invalid)) };
    let found = RunOutcome { timing: late, ..run(&cell, 2, Some(Validity::Invalid)) };
    let in_time = run(&cell, 3, Some(Validity::Invalid));
    let matrix = |first: &RunOutcome| {
        let runs = [first.clone(), found.clone(), in_time.clone()];
        Matrix::new(&suite(vec![cell.clone()]), &runs, Circumstances::default())
    };
    assert!(
        pages::terminal(&SuiteSummary::new(&matrix(&missed)), Look::PLAIN).starts_with("UNKNOWN"),
        "until it is made again"
    );
    let matrix = matrix(&again);
    let words = "seed 1: rerun alone with the same seed: the first attempt was valid, and the machine was too busy: \
                 timers were 130 ms late (50 ms are allowed); in the rerun as well, the machine was too busy";
    let also = "seed 2: the machine was too busy";
    for page in
        [pages::terminal(&SuiteSummary::new(&matrix), Look::PLAIN), pages::markdown(&SuiteSummary::new(&matrix))]
    {
        assert!(page.contains(words) && page.contains(also) && !page.contains("seed 3"), "{page}");
    }
    let page = pages::html(&SuiteSummary::new(&matrix));
    assert!(page.contains("id=\"timing\"") && page.contains(&words[8..]) && page.contains("1 rerun alone"));
    assert!(pages::terminal(&SuiteSummary::new(&matrix), Look::PLAIN).contains("failed 3 of 3, 1 rerun alone"));
    assert!(!pages::html(&SuiteSummary::new(&mixed())).contains("id=\"timing\""));
    let again: Matrix = serde_json::from_str(&pages::json(&matrix)).unwrap();
    assert_eq!(again.cells[0].runs[0].first_attempt, matrix.cells[0].runs[0].first_attempt);
}

#[test]
fn nothing_expected_is_nothing_passed() {
    let cell = cell("redlock", "clock", None, 1);
    let run = run(&cell, 1, Some(Validity::Valid));
    let matrix = Matrix::new(&suite(vec![cell]), &[run], Circumstances::default());
    assert!(
        pages::terminal(&SuiteSummary::new(&matrix), Look::PLAIN).starts_with("UNKNOWN  No cell has an expectation")
    );
}

#[test]
fn shards_are_cut_evenly_and_joined_whole() {
    let numbered = |number: u32| {
        let cell = cell("redlock", &format!("n{number}"), Some(Valid), u64::from(number) % 7 + 1);
        PlannedCell { place: number - 1, ..cell }
    };
    let all: Vec<PlannedCell> = (1..20).map(numbered).collect();
    let part = |index| suite(all.clone()).shard(Shard { index, of: 3 }, None);
    let loads: Vec<u64> = (1..=3).map(|index| part(index).planned_ms()).collect();
    assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 7_000, "{loads:?}");
    let matrix = |index| {
        let part = part(index);
        let runs: Vec<RunOutcome> = part
            .cells
            .iter()
            .flat_map(|cell| cell.seeds.iter().map(|seed| run(cell, *seed as u32, Some(Validity::Valid))))
            .collect();
        let versions = BTreeMap::from([("kernel".to_string(), format!("6.{}", index % 2))]);
        let started = format!("2026-11-21T12:00:0{index}Z");
        let shard = Some(Shard { index, of: 3 });
        let circumstances = Circumstances { shard, started, versions, ..Circumstances::default() };
        (format!("../s{index}"), Matrix::new(&part, &runs, circumstances))
    };
    let whole = Matrix::join((1..=3).map(matrix).collect()).unwrap();
    assert_eq!((whole.cells.len(), whole.counts.as_expected), (all.len(), all.len() as u64));
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<String>>();
    let in_suite = names(all.iter().map(|cell| &cell.name).collect());
    assert_eq!(names(whole.cells.iter().map(|cell| &cell.name).collect()), in_suite, "in the suite's order");
    assert_eq!((whole.started.as_str(), whole.versions["kernel"].as_str()), ("2026-11-21T12:00:01Z", "6.1 / 6.0"));
    let homes: BTreeSet<&str> = whole.cells.iter().map(|cell| &cell.runs[0].folder[..11]).collect();
    assert_eq!(homes, BTreeSet::from(["../s1/runs/", "../s2/runs/", "../s3/runs/"]));
    let parts = Matrix::join(vec![matrix(1), matrix(3)]).unwrap();
    assert!(parts.headline().ends_with("; missing: shard 2/3."), "{}", parts.headline());
    assert!(Matrix::join(vec![matrix(1), matrix(1)]).unwrap_err().to_string().contains("is in ../s1 and in ../s1"));
    let mut other = matrix(2);
    other.1.suite_sha256 = "t".into();
    assert!(Matrix::join(vec![matrix(1), other]).unwrap_err().to_string().contains("not from the same suite"));
    let mut other = matrix(2);
    other.1.cut_sha256 = Some("t".into());
    let error = Matrix::join(vec![matrix(1), other]).unwrap_err().to_string();
    assert!(error.contains("in ../s1 and in ../s2 were divided differently"), "{error}");
}

#[test]
fn of_a_part_that_is_joined_only_its_runs_are_believed() {
    let joined = |change: fn(&mut Matrix)| {
        let mut part = mixed();
        change(&mut part);
        Matrix::join(vec![("../s1".into(), part)]).map_err(|error| error.to_string())
    };
    let honest = joined(|_| {}).unwrap();
    assert_eq!((honest.counts, honest.verdict), (mixed().counts, mixed().verdict));
    let embellished = joined(|part| {
        part.verdict = Overall::AsExpected;
        part.counts = suite::matrix::Counts { as_expected: 7, ..Default::default() };
        for cell in &mut part.cells {
            cell.standing = suite::outcome::CellStatus::AsExpected;
            cell.tally = suite::outcome::Tally { planned: 0, valid: 99, ..Default::default() };
            cell.numbers.lost_updates.count = 0;
        }
    });
    let embellished = embellished.unwrap();
    // If a cell's runs are present, its failure stays, whatever the totals say. Only the part itself can tell that a run is
    // missing.
    assert_eq!((embellished.verdict, embellished.counts.surprise), (Overall::Surprise, honest.counts.surprise));
    assert_eq!(embellished.cells[1].tally.invalid, 1);
    assert_eq!(embellished.cells[1].numbers, honest.cells[1].numbers);
    let without_runs = joined(|part| part.cells.iter_mut().for_each(|cell| cell.runs.clear())).unwrap();
    assert_eq!((without_runs.verdict, without_runs.counts.as_expected), (Overall::Unknown, 0));

    let shard = |index, of| Shard { index, of };
    let cut = joined(|part| part.shards = vec![Shard { index: 1000, of: 1000 }]).unwrap();
    assert_eq!(cut.missing_shards.len(), 999);
    for (shards, expected) in [
        (vec![shard(1, u32::MAX)], "there is no shard 1/4294967295"),
        (vec![shard(1, 1001)], "there is no shard 1/1001"),
        (vec![shard(0, 2)], "there is no shard 0/2"),
        (vec![shard(3, 2)], "there is no shard 3/2"),
        (vec![shard(1, 2), shard(1, 3)], "its shards were divided differently"),
    ] {
        let error = Matrix::join(vec![("../s1".into(), Matrix { shards, ..mixed() })]).unwrap_err().to_string();
        assert!(error.starts_with("../s1: ") && error.contains(expected), "{error}");
    }
    for (change, expected) in [
        ((|part| part.cells[1] = part.cells[0].clone()) as fn(&mut Matrix), "is there twice"),
        (|part| part.cells[0].runs[1] = part.cells[0].runs[0].clone(), "twice or wrongly"),
        (|part| part.cells[0].runs[1].cell = "another".into(), "has run 2 of `another` twice or wrongly"),
    ] {
        let error = joined(change).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    // Numbers that no suite wrote do not cause a failure.
    let huge = joined(|part| {
        part.cells.iter_mut().flat_map(|cell| &mut cell.runs).for_each(|run| {
            (run.numbers.lost, run.numbers.acknowledged, run.numbers.holds) = (u64::MAX, 1, u64::MAX);
        });
        part.missing_shards = vec![Shard { index: 1, of: 2 }];
    });
    assert!(huge.unwrap().missing_shards.is_empty());
}

#[test]
fn shards_are_cut_by_what_the_last_night_took_and_by_the_plan_where_it_does_not_say() {
    let all: Vec<PlannedCell> =
        (0..12).map(|place| PlannedCell { place, ..cell("redlock", &format!("n{place}"), Some(Valid), 2) }).collect();
    // All are planned for 14 s. The first three took ten times as long as the others; the last is new.
    let seconds = |place: u32| if place < 3 { 100.0 } else { 10.0 };
    let runs: Vec<RunOutcome> = all[..11]
        .iter()
        .flat_map(|cell| {
            (1..=2)
                .map(|number| RunOutcome { seconds: seconds(cell.place), ..run(cell, number, Some(Validity::Valid)) })
        })
        // A run that could not be made has no duration to learn from.
        .chain([RunOutcome { seconds: 5_000.0, ..run(&all[4], 3, None) }])
        .collect();
    let durations = Durations::of(&Matrix::new(&suite(all[..11].to_vec()), &runs, Circumstances::default()));
    assert_eq!(durations.known(&suite(all.clone())), 11);
    let part = |index, durations: Option<&Durations>| suite(all.clone()).shard(Shard { index, of: 3 }, durations);
    let long = |durations: Option<&Durations>| {
        let of_part = |index| part(index, durations).cells.iter().filter(|cell| cell.place < 3).count();
        [1, 2, 3].map(of_part)
    };
    assert_eq!(long(Some(&durations)), [1, 1, 1], "the long ones go to different shards");
    let sizes = [1, 2, 3].map(|index| part(index, Some(&durations)).cells.len());
    assert_eq!(sizes.iter().sum::<usize>(), all.len());
    assert_eq!(part(1, Some(&durations)).cut_sha256, part(2, Some(&durations)).cut_sha256);
    assert_ne!(part(1, Some(&durations)).cut_sha256, part(1, None).cut_sha256);
    assert_eq!(part(1, None).cut_sha256, part(3, None).cut_sha256);
    // Durations of another suite have no effect, and invalid values in a file are skipped.
    let strange: Vec<RunOutcome> = [f64::NAN, -1.0, f64::INFINITY, 1e300]
        .into_iter()
        .map(|seconds| RunOutcome { seconds, ..run(&all[0], 1, Some(Validity::Valid)) })
        .collect();
    let strange = Durations::of(&Matrix::new(&suite(all[..1].to_vec()), &strange, Circumstances::default()));
    assert_eq!(strange.known(&suite(all.clone())), 0);
    assert_eq!(part(1, Some(&strange)).cut_sha256, part(1, None).cut_sha256);
}

/// Two libraries, one of which can't run here; these scenarios are known to break the other.
fn libraries() -> Matrix {
    libraries_with(|_| true)
}

fn libraries_with(is_known: fn(&Finding) -> bool) -> Matrix {
    use Validity::{Invalid, Valid as Held};
    let library = |name: &str| Library {
        name: name.to_string(),
        instead_of: None,
        package: None,
        version: "8.1.0".into(),
        home: Some("https://example.org/<lock>".into()),
        users: (name == "redis-py's lock").then(|| "5 users (2026-11)".to_string()),
        findings: vec![
            Finding {
                nemesis: vec!["late-acquire-reply".into()],
                cause: Cause::Library,
                code: None,
                what: "It never looks at the <time>.".into(),
                source: Some("lock.py:243".into()),
                issue: None,
            },
            Finding {
                nemesis: vec!["pause".into()],
                cause: Cause::Kind,
                code: None,
                what: "A lock that runs out does not stop its holder.".into(),
                source: None,
                issue: None,
            },
        ]
        .into_iter()
        .filter(is_known)
        .collect(),
    };
    let mut cells = vec![
        cell("redis-py", "none", Some(Valid), 2),
        cell("redis-py", "pause", Some(Violation), 1),
        cell("redis-py", "late-acquire-reply", Some(Violation), 1),
        cell("node-redlock", "none", Some(Valid), 1),
        cell("redlock", "none", Some(Valid), 1),
    ];
    for cell in cells.iter_mut().filter(|cell| cell.workload != "redlock") {
        cell.scenario.workload.library = Some(library(&format!("{}'s lock", cell.workload)));
    }
    let ended = [(0, Held), (0, Held), (1, Invalid), (2, Invalid), (4, Held)];
    let runs: Vec<RunOutcome> =
        (1..).zip(ended).map(|(number, (place, valid))| run(&cells[place], number, Some(valid))).collect();
    let not_here = BTreeMap::from([("node-redlock".to_string(), "it needs node, which is not on PATH".to_string())]);
    Matrix::new(&suite(cells), &runs, Circumstances { not_here, ..Circumstances::default() })
}

#[test]
fn libraries_have_a_scoreboard_that_says_whose_fault_it_is() {
    let matrix = libraries();
    let (page, text) = (pages::html(&SuiteSummary::new(&matrix)), pages::markdown(&SuiteSummary::new(&matrix)));
    for shown in [
        "passed 1 of 3 scenarios, 1 defect of the library itself",
        "the library's own defect",
        "It never looks at the &lt;time&gt;.",
        "a limitation of every lock of this kind",
        "lock.py:243",
        "skipped on this machine: it needs node, which is not on PATH",
        "5 users (2026-11)",
        "number of downloads and stars unknown",
    ] {
        assert!(page.contains(&shown.replace('\'', "&#39;")) || page.contains(shown), "{shown}: {page}");
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!page.contains("<time>") && !page.contains("<lock>") && !text.contains("<time>"));
    assert!(!text.contains("### redlock"), "no library, no scoreboard");
    assert_eq!(matrix.verdict, Overall::Unknown, "what was not run is never passed");
    let folder = tempfile::tempdir().unwrap();
    pages::write(folder.path(), &matrix).unwrap();
    let badge = |name: &str| std::fs::read_to_string(folder.path().join("badges").join(name)).unwrap();
    assert!(
        badge("redis-py.svg").starts_with("<svg ") && badge("redis-py.svg").contains("1 defect of the library itself")
    );
    assert!(badge("node-redlock.svg").contains("1 not shown"));
    pages::write(folder.path(), &mixed()).unwrap();
    let none = tempfile::tempdir().unwrap();
    pages::write(none.path(), &mixed()).unwrap();
    assert!(!none.path().join("badges").exists(), "no libraries, no badges");
}

#[test]
fn each_page_lists_advisories_with_the_worst_run() {
    let mut matrix = mixed();
    let silent = SuiteSummary::new(&matrix);
    assert!(silent.advisories.is_empty() && !pages::html(&silent).contains("id=\"advisories\""));
    let remark = |id: &str, severity, text: &str| Remark {
        id: id.into(),
        title: format!("Title of {id}"),
        count: 1,
        of: 2,
        severity,
        disturbed: false,
        text: text.into(),
    };
    matrix.cells[0].runs[0].advisories = vec![remark("busy-polling", 5, "c0 asked 5 times")];
    matrix.cells[1].runs[1].advisories = vec![remark("busy-polling", 9, "c1 asked 9 times"), remark("b", 0, "b")];
    // A run that could not be made proves nothing.
    matrix.cells[5].runs[1].advisories = vec![remark("busy-polling", 99, "c9 asked 99 times")];
    let told = SuiteSummary::new(&matrix);
    let line = "Advisory \"Title of busy-polling\": violated in 2 of 14 runs, for example in redlock under pause, seed 2: c1 asked 9 times";
    assert_eq!((told.advisories.len(), told.advisories[0].as_str()), (2, line));
    let texts = [pages::terminal(&told, Look::PLAIN), pages::html(&told), pages::markdown(&told)];
    for text in texts {
        assert!(text.contains("Advisories") && text.contains("c1 asked 9 times") && !text.contains("c9"), "{text}");
    }
}

#[test]
fn a_violation_that_nobody_has_explained_is_nobodys_defect() {
    let matrix = libraries_with(|finding| finding.cause == Cause::Library);
    let text = pages::markdown(&SuiteSummary::new(&matrix));
    assert!(
        text.contains("passed 1 of 3 scenarios, 1 defect of the library itself, 1 violation not explained"),
        "{text}"
    );
    assert!(text.contains("**pause** 1/1, not explained yet; `redjepsen library` finds the cause."), "{text}");
    let text = pages::markdown(&SuiteSummary::new(&libraries_with(|_| false)));
    assert!(
        text.contains("passed 1 of 3 scenarios, 2 violations not explained") && !text.contains("of the library itself")
    );
}

#[test]
fn simulated_runs_are_marked_on_every_page_and_join_no_real_ones() {
    let all = [0, 1].map(|place| PlannedCell { place, ..cell("redlock", &format!("n{place}"), Some(Valid), 1) });
    let of = |place: usize, simulated: bool| {
        let made = RunOutcome { simulated, ..run(&all[place], 1, Some(Validity::Valid)) };
        (format!("../s{place}"), Matrix::new(&suite(vec![all[place].clone()]), &[made], Circumstances::default()))
    };
    let first = |text: String, line: usize| text.lines().nth(line).unwrap_or_default().to_string();
    let marked = |matrix: &Matrix| {
        [
            first(pages::terminal(&SuiteSummary::new(matrix), Look::PLAIN), 0).contains("Simulated"),
            first(pages::markdown(&SuiteSummary::new(matrix)), 0).contains("(simulated)"),
            first(pages::junit(&SuiteSummary::new(matrix)), 1).contains("(simulated)"),
            first(pages::json(matrix), 1).contains("\"simulated\": 1"),
            pages::html(&SuiteSummary::new(matrix)).contains("(simulated) \u{b7} "),
        ]
    };
    assert_eq!(marked(&of(0, true).1), [true; 5]);
    assert_eq!(marked(&of(0, false).1), [false; 5]);

    for (one, other) in [(true, false), (false, true)] {
        let error = Matrix::join(vec![of(0, one), of(1, other)]).unwrap_err().to_string();
        assert!(error.contains("one of them was simulated"), "{error}");
    }
    let joined = |simulated| Matrix::join(vec![of(0, simulated), of(1, simulated)]).unwrap();
    assert_eq!(joined(true).headline(), "Simulated. All 2 cells are as expected.");
    assert_eq!(joined(false).headline(), "All 2 cells are as expected.");
    let runs = [true, false]
        .map(|simulated| RunOutcome { simulated, ..run(&all[usize::from(simulated)], 1, Some(Validity::Valid)) });
    let both = Matrix::new(&suite(all.to_vec()), &runs, Circumstances::default());
    assert!(both.headline().starts_with("Simulated in 1 of 2 runs. "), "{}", both.headline());
}
