//! `redjepsen risk`: the truth of its numbers, its output, its files, and its refusals.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use base::units::Length;
use checker::check;
use labs::risk::distribution::Source;
use labs::risk::{Distribution, FaultCause, Interval, Question, Risk, assess};
use model::history::FaultKind;
use model::nemesis::{Fault, Target, Targets};
use model::plan::{Plan, PlannedFault};
use model::scenario::{Options, Scenario};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use runner::simulate::simulate_plan;

use crate::kit::on_all_processors;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three clients, four updates per second, a TTL of half a second.
fn scenario(workload: &str, ttl: Duration, time_limit: Duration) -> Scenario {
    let options = Options {
        ttl: Some(Length::Absolute(ttl)),
        time_limit: Some(Length::Absolute(time_limit)),
        clients: Some(3),
        rate: Some(4.0),
        hold: Some("50ms..150ms".parse().unwrap()),
        ..Options::default()
    };
    options.scenario(workload, "none", 7, Path::new("")).unwrap()
}

/// Each length once in this time, as in a profile.
fn every(over: Duration, lengths: &[u64]) -> Distribution {
    let source = Source::Profile { description: "harsh".to_string(), from: "made up".to_string() };
    let lengths = lengths.iter().map(|length| (ms(*length), 1.0)).collect();
    Distribution { name: "harsh".to_string(), lengths, over, source }
}

fn question(scenarios: Vec<Scenario>, kind: FaultCause, distribution: &Distribution, runs: usize) -> Question {
    let faults = vec![(kind, distribution.clone())];
    Question { scenarios, asked: 0, faults, runs, crashes_per_day: 1.0, threads: 2 }
}

fn assessed(scenario: &Scenario, kind: FaultCause, distribution: &Distribution, runs: usize) -> Risk {
    assess(&question(vec![scenario.clone()], kind, distribution, runs), &simulate_plan, &|| true).unwrap()
}

/// If a pause longer than the TTL begins at its planned point, between a lock and its write, it nearly always costs an update.
#[test]
fn faults_begin_where_they_are_placed() {
    for seed in [7, 1007, 3007] {
        let scenario = Scenario { seed, ..scenario("single", ms(500), Duration::from_secs(60)) };
        let part =
            assessed(&scenario, FaultCause::Pause, &every(Duration::from_secs(100), &[900, 1500]), 60).rows[0].parts[0];
        assert!(part.hits * 10 >= part.runs * 8, "seed {seed}: {part:?}");
    }
}

/// The time from which clients are fully at work, in seconds.
const BEGIN: f64 = 1.5;

/// Pauses for each client at the times of a Poisson process. A pause that would begin before the end of the previous one begins
/// at that end.
fn as_they_come(scenario: &Scenario, pauses: &Distribution) -> Vec<PlannedFault> {
    let every = pauses.over.as_secs_f64() / pauses.count();
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
    let mut faults = Vec::new();
    for client in 0..scenario.clients {
        let mut at = BEGIN + every * exponential(&mut rng);
        while at < scenario.time_limit.as_secs_f64() {
            let (length, _) = pauses.lengths[rng.random_range(0..pauses.lengths.len())];
            let what = Fault::on(FaultKind::Pause, Targets::one(Target::Client(client)));
            let (at_ms, lasts_ms) = ((at * 1000.0) as u64, length.as_millis() as u64);
            faults.push(PlannedFault { fault: 0, what, key: None, at_ms, lasts_ms, series: client as usize });
            at += (every * exponential(&mut rng)).max(length.as_secs_f64() + 0.01);
        }
    }
    faults.sort_by_key(|fault| (fault.at_ms, fault.series));
    (0..).zip(&mut faults).for_each(|(number, fault)| fault.fault = number);
    faults
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -f64::ln(1.0 - rng.random::<f64>())
}

/// Updates lost per second, counted directly: in runs with pauses so frequent that some minutes have losses.
fn counted(scenario: &Scenario, pauses: &Distribution) -> Interval {
    let seeds: Vec<u64> = (0..60).map(|number| scenario.seed + number).collect();
    let lost = on_all_processors(&seeds, |seed| {
        let scenario = Scenario { seed: *seed, ..scenario.clone() };
        let plan = Plan { faults: as_they_come(&scenario, pauses), ..Plan::draw(&scenario).unwrap() };
        let lost = check(&simulate_plan(&scenario, &plan).unwrap()).lost_updates.count as f64;
        lost / (scenario.time_limit.as_secs_f64() - BEGIN)
    });
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed);
    // The Bayesian bootstrap, as in crates/labs/src/risk/interval.rs.
    let drawn = (0..2000).map(|_| {
        let weights: Vec<f64> = lost.iter().map(|_| exponential(&mut rng)).collect();
        lost.iter().zip(&weights).map(|(lost, weight)| lost * weight).sum::<f64>() / weights.iter().sum::<f64>()
    });
    let drawn = drawn.collect();
    Interval::of(lost.iter().sum::<f64>() / lost.len() as f64, drawn)
}

#[test]
fn rare_pauses_placed_where_they_hurt_come_to_the_same_as_plain_runs() {
    let scenario = scenario("single", ms(500), Duration::from_secs(60));
    let harsh = every(Duration::from_secs(100), &[600, 900, 1500]);
    let placed = assessed(&scenario, FaultCause::Pause, &harsh, 240).rows[0].lost;
    let counted_ones = counted(&scenario, &harsh);
    let overlap = |counted: Interval| placed.low <= counted.high && counted.low <= placed.high;
    assert!(placed.mean > 0.0 && counted_ones.mean > 0.0, "{placed:?} {counted_ones:?}");
    assert!(overlap(counted_ones), "placed {placed:?}, counted {counted_ones:?}");
    assert!((0.75..1.35).contains(&(placed.mean / counted_ones.mean)), "placed {placed:?}, counted {counted_ones:?}");
    // The comparison can fail: it detects pauses that are four times as rare.
    let rarer = counted(&scenario, &every(Duration::from_secs(400), &[600, 900, 1500]));
    assert!(!overlap(rarer), "placed {placed:?}, four times as rare {rarer:?}");
}

#[test]
fn pauses_that_end_in_time_cost_nothing_and_longer_ones_do() {
    let scenario = scenario("redlock", ms(1000), Duration::from_secs(3600));
    let part = |length: u64| {
        assessed(&scenario, FaultCause::Pause, &every(Duration::from_secs(60), &[length]), 60).rows[0].parts[0]
    };
    let shortest = assessed(&scenario, FaultCause::Pause, &every(Duration::from_secs(60), &[1]), 20).rows[0].clone();
    assert_eq!((shortest.shortest, shortest.parts[0].runs), (ms(700), 0), "what can't cost anything is not simulated");
    assert_eq!(shortest.lost.high, 0.0);
    assert_eq!((part(700).runs, part(700).hits), (60, 0), "the bound is on the safe side");
    assert!(part(2500).hits > 30, "{:?}", part(2500));
}

#[test]
fn each_kind_of_fault_can_cost_updates_and_no_minority_of_clocks_does() {
    let hits = |workload: &str, kind: FaultCause| {
        let scenario = scenario(workload, ms(1000), Duration::from_secs(3600));
        // The delay is longer than the TTL. TCP sends again 1.4 s after a loss, before a client gives up its write after 2 s.
        assessed(&scenario, kind, &every(Duration::from_secs(60), &[1300]), 60).rows[0].parts[0].hits
    };
    assert!(hits("single", FaultCause::Delay) > 0);
    assert!(hits("single", FaultCause::ClockStep) > 0);
    assert_eq!(hits("redlock", FaultCause::ClockStep), 0, "one node of five");
}

#[test]
fn a_resource_that_compares_and_sets_loses_nothing_from_the_same_faults() {
    let risk = assessed(
        &scenario("redlock", ms(1000), Duration::from_secs(3600)),
        FaultCause::Pause,
        &every(Duration::from_secs(60), &[2500]),
        60,
    );
    let guarded = risk.guarded.unwrap();
    assert_eq!((guarded.runs, guarded.lost), (60, 0));
    assert!(risk.rows[0].parts[0].lost > 0);
    let guarded = scenario("redlock-guarded", ms(1000), Duration::from_secs(3600));
    let risk = assessed(&guarded, FaultCause::Pause, &every(Duration::from_secs(60), &[2500]), 60);
    assert!(risk.guarded.is_none() && risk.rows[0].parts[0].lost == 0, "it is guarded already");
}

#[test]
fn the_same_question_has_the_same_answer_on_any_number_of_threads() {
    let of = |threads: usize, seed: u64| {
        let scenario = Scenario { seed, ..scenario("single", ms(500), Duration::from_secs(3600)) };
        let harsh = every(Duration::from_secs(60), &[600, 1500]);
        let question = Question { threads, ..question(vec![scenario], FaultCause::Pause, &harsh, 40) };
        assess(&question, &simulate_plan, &|| true).unwrap().rows[0].clone()
    };
    assert_eq!(of(1, 7).lost, of(3, 7).lost);
    assert_eq!(of(1, 7).parts, of(3, 7).parts);
    assert_ne!(of(1, 7).lost, of(1, 8).lost);
}

#[test]
fn holders_that_outlast_their_lock_need_no_fault() {
    let row = |ttl: u64| {
        let scenario = Scenario {
            rate: 20.0,
            hold: "200ms..400ms".parse().unwrap(),
            ..scenario("single", ms(ttl), Duration::from_secs(3600))
        };
        assessed(&scenario, FaultCause::Pause, &every(Duration::from_secs(60), &[2000]), 20).rows[0].clone()
    };
    assert!(row(100).lost_without_faults && row(100).parts.is_empty());
    assert!(!row(1000).lost_without_faults);
}

fn risk(flags: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    let output = command.arg("risk").args(flags).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_first_line_is_the_answer_and_everything_says_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("pauses.csv"), folder.path().join("out"));
    fs::write(&file, "# measured over 10d\n1.2s\n1.9s\n3s\n").unwrap();
    let flags = ["--pauses", file.to_str().unwrap(), "--ttl", "1s", "--ttls", "1s,5s", "--runs", "40"];
    let (code, text, errors) = risk(&[&flags[..], &["--out", out.to_str().unwrap()]].concat());
    assert_eq!(code, Some(0), "{errors}");
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("SIMULATED  with a TTL of 1 s, redlock loses ") && first.contains("95%"), "{text}");
    assert!(text.contains("no update can be lost; none was lost in 40 runs"), "{text}");
    assert!(
        text.contains("none of the pauses is longer than 3 s, so this estimate says nothing about longer faults"),
        "{text}"
    );
    assert!(text.contains("with a TTL of 5 s or more, no measured length is long enough"), "{text}");
    let most = text.split("may cause up to ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let row = text.lines().find(|line| line.trim_start().starts_with("5 s ")).unwrap();
    assert!(
        row.contains(&format!("none seen, up to {most}")) && !row.contains(" 0 "),
        "a zero would be a promise: {text}"
    );
    let page = fs::read_to_string(out.join("risk.html")).unwrap();
    // No option of a command is broken between lines.
    let words = page.replace("<span>", "").replace("</span>", "");
    assert!(
        words.contains("SIMULATED") && words.contains("<svg") && words.contains("redjepsen risk --workload redlock")
    );
    assert!(fs::read_to_string(out.join("risk.svg")).unwrap().contains("simulated"));
    assert!(fs::read(out.join("risk.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn a_profile_is_called_an_example() {
    let (code, text, errors) = risk(&["--pauses", "quiet", "--ttl", "30s", "--ttls", "30s", "--runs", "20"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("none of the given faults can cost redlock an update: the longest lasts 14"), "{text}");
    assert!(text.contains("profile quiet, an example and not a measurement"), "{text}");
    assert!(!text.contains("up to 0"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pauses.csv");
    fs::write(&file, "12ms\nlong\n").unwrap();
    for (flags, words) in [
        (&["--pauses", file.to_str().unwrap()][..], "pauses.csv, line 2: `long` is not a length of time"),
        (&["--pauses", "golang"], "there is no profile `golang`; the profiles are jvm-g1"),
        (&["--pauses", "./nowhere.csv"], "nowhere.csv"),
        (&["--ttl", "0s"], "--ttl"),
        (&["--measured-over", "1h"], "--measured-over needs a file"),
        (&["--rate", "0"], "--rate 0 is out of range"),
        (&["--crashes-per-day", "-1"], "--crashes-per-day -1 is out of range"),
        (&["--workload", "nothing"], "nothing"),
        (&["--runs", "1"], "--runs"),
        (&["--jobs", "0"], "expected a whole number from 1 to 256"),
        (&["--jobs", "100000"], "expected a whole number from 1 to 256"),
        (&["--workload", "replicated"], "`risk` does not count the losses of a failover"),
        (&["--workload", "cluster"], "its nodes are primaries and replicas"),
        (&["--workload", "register-sentinel"], "its nodes are primaries and replicas"),
        (&["--workload", "etcd"], "etcd cannot be simulated, only Redis can"),
        (&["--workload", "redis-py"], "only redjepsen's own clients can be simulated"),
    ] {
        let (code, _, errors) = risk(flags);
        assert_eq!(code, Some(254), "{flags:?}: {errors}");
        assert!(errors.contains(words), "{flags:?}: {errors}");
    }
}
