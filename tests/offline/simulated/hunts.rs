//! `redjepsen fuzz` as a program: its findings, files and answers. It ends on a signal, and within its time limit. Its findings
//! are kept even if its files cannot be written.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::interrupt::Interrupt;
use checker::AnomalyKind;
use labs::fuzz::{Cause, Search, Shrunk, Until, draw};
use model::scenario::{Options, Scenario};
use model::topology::ClusterKind;
use runner::simulate::simulate;

use crate::kit::on_all_processors;

/// A command that ends needs at most two seconds of processor time for it; this allows more.
const SOON: Duration = Duration::from_secs(6);

pub fn fuzz(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.arg("fuzz").args(arguments.split(' ')).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command's exit code, and its output on stdout and stderr.
pub fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

/// Sends a signal, and expects the command to end soon.
pub fn stopped(child: Child, signal: &str) -> (Option<i32>, String) {
    let before = work_of(&child);
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let worked = work_until_its_end(&child) - before;
    let (code, said) = ended(child);
    assert!(worked < SOON, "{signal}: {worked:?}: {said}");
    (code, said)
}

/// The processor time that a command has used so far. On a busy machine, the wall-clock time is much longer.
fn work_of(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // These are the 14th and 15th field, in hundredths of a second; the process's name in brackets is the second field.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let [user, system] = [11, 12].map(|field| fields[field].parse::<u64>().unwrap());
    Duration::from_millis((user + system) * 10)
}

fn work_until_its_end(child: &Child) -> Duration {
    let id = rustix::process::Pid::from_child(child);
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(id), options).unwrap();
    work_of(child)
}

/// Waits until a command's standard error contains these words.
pub fn wait_for(child: &mut Child, words: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it never said `{words}`");
    }
    // Reads its later output, so that the command does not block.
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
}

pub fn files_in(folder: PathBuf, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

#[test]
fn who_stops_a_hunt_keeps_what_it_found() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = fuzz(folder.path(), "--workload none --time 8s --jobs 1 --seed 3").spawn().unwrap();
        wait_for(&mut child, "shrinking:");
        let (code, said) = stopped(child, signal);
        assert_eq!(code, Some(1), "{signal}: {said}");
        for words in ["BROKEN  none", "interrupted", "no time to shrink it further", "replay  "] {
            assert!(said.contains(words), "{signal}, {words}: {said}");
        }
        let store = folder.path().join("store");
        let scripts = files_in(store.join("fuzz"), ".toml");
        assert!(!scripts.is_empty(), "{said}");
        assert!(said.contains("/report.html (simulated)"), "{said}");
        // The file is an ordinary nemesis, and breaks the lock.
        let again = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
            .args(["check", said.lines().find_map(|line| line.split("redjepsen replay ").nth(1)).unwrap()])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stdout));
        let script = fs::read_to_string(&scripts[0]).unwrap();
        assert!(script.contains("There was no time to shrink it completely"), "{script}");
    }
}

#[test]
fn a_hunt_that_found_nothing_and_was_stopped_says_nothing_about_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    // A run of a day takes minutes: the signal comes in the middle of the first runs.
    for arguments in ["--workload perfect --time 60s", "--workload perfect --nemesis pause --time-limit 1d --rate 100"]
    {
        let child = fuzz(folder.path(), arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let (code, said) = stopped(child, "-TERM");
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert!(
            said.contains("NOTHING FOUND  no violation by perfect") && said.contains("interrupted"),
            "{arguments}: {said}"
        );
    }
    assert!(!folder.path().join("store").exists());
    let (code, said) = ended(fuzz(folder.path(), "--workload perfect --runs 20").spawn().unwrap());
    assert!(code == Some(0) && !said.contains("interrupted"), "{code:?}: {said}");
}

#[test]
fn the_time_of_a_hunt_includes_making_it_smaller() {
    let folder = tempfile::tempdir().unwrap();
    // Its first run breaks the lock, so nearly all its time goes into shrinking the script. The kinds of faults are named, so
    // that a new kind does not change the random choices.
    let child = fuzz(folder.path(), "--workload redlock --faults pause --seed 29 --time 2s --jobs 1").spawn().unwrap();
    let worked = work_until_its_end(&child);
    let (code, said) = ended(child);
    assert!(worked < Duration::from_secs(2) + SOON, "{worked:?}: {said}");
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains("interrupted"), "its time was over: {said}");
}

#[test]
fn a_violation_stays_one_whatever_became_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    // A file in place of the store: even root cannot write below it.
    fs::write(folder.path().join("store"), "not a folder").unwrap();
    let hunt = "--workload redlock --faults pause --seed 29 --jobs 1 --time 3s";
    let (code, said) = ended(fuzz(folder.path(), hunt).spawn().unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("BROKEN  redlock") && said.contains("  1. "), "the script is told all the same: {said}");
    assert!(said.contains("redjepsen: ") && said.contains("the report of"), "{said}");
    let (code, said) = ended(fuzz(folder.path(), &format!("{hunt} --expect violation")).spawn().unwrap());
    assert_eq!(code, Some(255), "what was expected came out, and not all was written: {said}");
}

#[test]
fn a_replay_tells_its_verdict_though_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_redjepsen");
    let run = "run --cluster sim --workload single --nemesis pause-before-write --time-limit 12s --seed 7";
    let output = Command::new(program).args(run.split(' ')).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    // Blocks of 512 bytes: enough for everything; enough for the history but not for the whole report; and enough for nothing.
    for (blocks, verdict, code) in [
        (4000, "CAME BACK  lost update, pause of a client: in 1 of 1 run", 0),
        (160, "CAME BACK  lost update, pause of a client: in 1 of 1 run", 255),
        (8, "NOT REPLAYED  lost update, pause of a client: no run finished", 255),
    ] {
        let words = format!(
            "ulimit -f {blocks}; exec '{program}' replay store/latest --cluster sim --times 1 --store s{blocks}"
        );
        let output = Command::new("sh").args(["-c", &words]).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{blocks}: {said}");
        assert!(said.contains(verdict), "{blocks}: {said}");
        assert_eq!(said.contains("File too large"), code != 0, "{blocks}: {said}");
    }
}

/// A hunt of one run, which breaks the lock in six steps.
pub const ONE_RUN: &str = "--workload setnx-expire --faults flush --runs 1 --seed 1 --jobs 1";

#[test]
fn a_seed_finds_the_same_again_and_writes_it_down() {
    let hunt = || {
        let folder = tempfile::tempdir().unwrap();
        let (code, said) = ended(fuzz(folder.path(), ONE_RUN).spawn().unwrap());
        assert_eq!(code, Some(1), "{said}");
        let told = [
            "BROKEN  setnx-expire failed in 1 of 1 simulated run",
            "lost update, flush of a node",
            "   1. start client:0",
        ];
        for words in told {
            assert!(said.contains(words), "{words}: {said}");
        }
        let scripts = files_in(folder.path().join("store/fuzz"), ".toml");
        assert_eq!(scripts.len(), 1, "{said}");
        assert!(
            said.contains(&format!("  scenario  store/fuzz/{}", scripts[0].file_name().unwrap().to_str().unwrap()))
        );
        let kept = said.lines().find_map(|line| line.split("redjepsen replay ").nth(1)).unwrap();
        for file in ["scenario.toml", "history.jsonl", "report.html"] {
            assert!(folder.path().join(kept).join(file).is_file(), "{file}");
        }
        let history = fs::read(folder.path().join(kept).join("history.jsonl")).unwrap();
        (fs::read_to_string(&scripts[0]).unwrap(), history)
    };
    let (script, history) = hunt();
    assert!(
        script.contains("Found by fuzzing setnx-expire: lost update")
            && script.contains("setnx-expire = \"violation\""),
        "{script}"
    );
    assert!((script, history) == hunt(), "the same script, and the same run of it");
}

#[test]
fn what_was_expected_decides_how_a_hunt_ends() {
    let nothing = "--workload perfect --runs 3 --faults pause --jobs 1";
    for (hunt, expected, code) in [
        (ONE_RUN, "", 1),
        (ONE_RUN, " --expect valid", 1),
        (ONE_RUN, " --expect violation", 0),
        (nothing, "", 0),
        (nothing, " --expect valid", 0),
        (nothing, " --expect violation", 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (ended_with, said) = ended(fuzz(folder.path(), &format!("{hunt}{expected}")).spawn().unwrap());
        assert_eq!(ended_with, Some(code), "{hunt}{expected}: {said}");
        let found = said.contains("BROKEN  setnx-expire failed in 1 of 1 simulated run");
        assert_eq!(found, hunt == ONE_RUN, "{said}");
        assert_eq!(said.contains("NOTHING FOUND  no violation by perfect in 3 simulated runs"), !found, "{said}");
        assert_eq!(folder.path().join("store").exists(), found, "only what was found is kept: {said}");
    }
}

#[test]
fn a_hunt_of_unknown_runs_does_not_reassure() {
    let folder = tempfile::tempdir().unwrap();
    // This lock releases by a script, so no client reports the phase that the scenario waits for.
    let hunt = "--workload redlock --nemesis pause-in-release --runs 3 --jobs 1";
    let (code, said) = ended(fuzz(folder.path(), hunt).spawn().unwrap());
    assert!(
        code == Some(2)
            && said.contains("NOTHING SHOWN  none of 3 simulated runs of redlock proved anything")
            && said.contains("3 runs: a step of the script had no effect")
            && said.contains("Choose another --nemesis"),
        "{said}"
    );
}

/// The steps of the only script that a hunt left in a folder.
fn script_in(store: PathBuf) -> (PathBuf, toml::Table) {
    let scripts = files_in(store.join("fuzz"), ".toml");
    assert_eq!(scripts.len(), 1, "{scripts:?}");
    (scripts[0].clone(), fs::read_to_string(&scripts[0]).unwrap().parse().unwrap())
}

/// The findings of a hunt with this many runs, made as small as possible, in this process. The program would also draw each run.
fn found_by(workload: &str, seed: u64, runs: u64) -> Vec<Shrunk> {
    let options = Options { cluster: Some(ClusterKind::SIM), ..Options::default() };
    let base = options.scenario(workload, "none", seed, Path::new("")).unwrap();
    let until = Until { runs: Some(runs), time: None, first_violation: false };
    let search = Search { base, own_nemesis: false, kinds: draw::kinds(), first_seed: seed, threads: 1, until };
    let found = search.run(&Interrupt::new().1, |_| ()).unwrap().1;
    found.into_iter().filter_map(|one| one.shrunk).collect()
}

/// In how many of 20 runs a scenario breaks the lock with this cause.
fn broken(scenario: &Scenario, cause: &Cause) -> usize {
    let breaks = |seed: &u64| {
        let run = simulate(&Scenario { seed: *seed, ..scenario.clone() }).ok();
        run.and_then(|run| Cause::of(&run.history, &run.verdict)).is_some_and(|now| now.is(cause))
    };
    (1..=20).filter(breaks).count()
}

/// In how many of 20 runs a scenario shows this anomaly, with any cause and at any time.
fn shows(scenario: &Scenario, kind: AnomalyKind) -> usize {
    let shows = |seed: &u64| {
        let run = simulate(&Scenario { seed: *seed, ..scenario.clone() }).ok();
        run.is_some_and(|run| run.verdict.anomalies.iter().any(|anomaly| anomaly.kind == kind))
    };
    (1..=20).filter(shows).count()
}

/// For each step of a scenario, in how many of 20 runs it still breaks the lock without that step.
fn without_each(one: &Shrunk) -> Vec<(String, usize)> {
    let steps = &one.scenario.nemesis.script;
    let without = |place: usize| {
        let mut part = one.scenario.clone();
        let step = part.nemesis.script.remove(place);
        (step.to_string(), shows(&part, one.cause.anomaly))
    };
    (0..steps.len()).map(without).collect()
}

#[test]
fn the_smallest_scenario_has_no_step_that_can_go() {
    let found = found_by("fenced", 2000, 3);
    assert!(!found.is_empty());
    for one in found {
        let text: String = one.scenario.nemesis.script.iter().map(|step| format!("{step}; ")).collect();
        assert!(text.contains("flush node:0"), "{text}");
        assert!(broken(&one.scenario, &one.cause) >= 19, "{text}");
        for (step, still) in without_each(&one) {
            assert!(still < 19, "without `{step}` it is broken in {still} of 20 runs: {text}");
        }
    }
}

#[test]
fn a_lock_that_keeps_nobody_out_needs_no_step() {
    let found = found_by("none", 6, 1);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].scenario.nemesis.script, []);
    assert!(broken(&found[0].scenario, &found[0].cause) >= 19);
}

#[test]
#[ignore = "measures many hunts, which takes minutes"]
fn no_find_has_a_step_that_can_go() {
    let seconds = std::env::var("SECONDS_OF_HUNTS").map_or(60, |seconds| seconds.parse().unwrap());
    let began = std::time::Instant::now();
    let workloads = ["none", "setnx-expire", "redlock", "single", "incr", "fenced", "replicated", "single-get-del"];
    let hunts: Vec<(u64, &str)> = (1..100).flat_map(|seed| workloads.map(|workload| (seed, workload))).collect();
    let finds = on_all_processors(&hunts, |(seed, workload)| {
        if began.elapsed() > Duration::from_secs(seconds) {
            return Vec::new();
        }
        let found = found_by(workload, seed * 1000, 3).into_iter();
        found
            .map(|one| {
                (format!("{workload} {seed}: {}", one.cause), broken(&one.scenario, &one.cause), without_each(&one))
            })
            .collect()
    });
    let (mut steps, mut can_go) = (0, Vec::new());
    let finds: Vec<_> = finds.into_iter().flatten().collect();
    for (what, whole, without) in &finds {
        println!("{what}: whole {whole} of 20: {without:?}");
        steps += without.len();
        can_go.extend(
            without.iter().filter(|(_, still)| *still >= 19).map(|(step, still)| format!("{what}: {step}: {still}")),
        );
    }
    println!("{} finds, {steps} steps, {} can go: {can_go:#?}", finds.len(), can_go.len());
    assert!(!finds.is_empty() && can_go.is_empty(), "{can_go:#?}");
}

#[test]
fn a_longer_scenario_replaces_no_shorter_one() {
    let folder = tempfile::tempdir().unwrap();
    let hunt = || {
        let (code, said) = ended(fuzz(folder.path(), ONE_RUN).spawn().unwrap());
        assert_eq!(code, Some(1), "{said}");
        said
    };
    hunt();
    let (file, found) = script_in(folder.path().join("store"));
    let with = |steps: Vec<toml::Value>| {
        let mut script = found.clone();
        script.insert("script".to_string(), steps.into());
        fs::write(&file, script.to_string()).unwrap();
        fs::read_to_string(&file).unwrap()
    };
    let steps = found["script"].as_array().unwrap().clone();
    // A script with fewer steps stays, and the new finding goes into a second file.
    let shorter = with(steps[..1].to_vec());
    let said = hunt();
    assert_eq!(fs::read_to_string(&file).unwrap(), shorter, "{said}");
    let beside = PathBuf::from(file.to_string_lossy().replace(".toml", "-seed-1.toml"));
    assert_eq!(fs::read_to_string(&beside).unwrap().parse::<toml::Table>().unwrap(), found, "{said}");
    assert!(said.contains("-seed-1.toml"), "{said}");
    // A script with more steps is replaced.
    with([steps.clone(), steps].concat());
    let said = hunt();
    assert_eq!(fs::read_to_string(&file).unwrap().parse::<toml::Table>().unwrap(), found, "{said}");
}

#[test]
fn whatever_is_called_broken_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) =
        ended(fuzz(folder.path(), "--workload setnx-expire --seed 1 --jobs 1 --runs 12").spawn().unwrap());
    assert_eq!(code, Some(1), "{said}");
    let causes = said.lines().filter(|line| line.contains(" first after ")).count();
    assert_eq!(said.matches("  scenario  store/fuzz/").count(), causes, "{said}");
    assert_eq!(said.matches("/report.html (simulated)").count(), causes, "{said}");
    assert!(!said.contains("not kept"), "{said}");
}

#[test]
fn the_help_says_each_thing_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_, said) = ended(fuzz(folder.path(), "--help").spawn().unwrap());
    assert!(!said.contains("--cluster"), "it is always simulated: {said}");
    assert!(!said.contains("[default: 1] [default: 1]"), "{said}");
}

#[test]
fn a_nemesis_is_run_seed_after_seed_and_its_first_violation_kept() {
    let folder = tempfile::tempdir().unwrap();
    let hunt = "--workload none --nemesis pause --time-limit 6s --runs 2 --seed 3 --jobs 1";
    let (code, said) = ended(fuzz(folder.path(), hunt).spawn().unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("BROKEN  none failed in 2 of 2 simulated runs") && said.contains("seed 3"), "{said}");
    assert!(!said.contains("shrinking"), "there is no script to shrink: {said}");
    assert!(files_in(folder.path().join("store/fuzz"), ".toml").is_empty(), "{said}");
    assert_eq!(files_in(folder.path().join("store/none-pause"), "Z").len(), 1, "{said}");
}

#[test]
fn a_hunt_that_makes_no_sense_is_refused_with_what_would() {
    for (hunt, expected) in [
        ("--workload nothing", "unknown workload `nothing`"),
        ("--nemesis nothing", "unknown nemesis `nothing`"),
        ("--runs 0", "expected a whole number, 1 or more"),
        ("--jobs 0", "expected a whole number from 1 to 256"),
        ("--time 0s", "give a length such as 30s"),
        ("--time 1ttl", "--time: a multiple of the TTL makes no sense here"),
        ("--time soon", "`soon` is not a length of time"),
        ("--faults pause --nemesis pause", "cannot be used with"),
        ("--faults nonsense", "[possible values: pause, kill"),
        ("--cluster docker", "`redjepsen replay` runs its scenarios on real"),
        ("--clients 0", "--clients 0"),
        ("--expect something", "[possible values: valid, violation]"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (code, said) = ended(fuzz(folder.path(), hunt).spawn().unwrap());
        assert_eq!(code, Some(254), "{hunt}: {said}");
        assert!(said.contains(expected), "{hunt}: {said}");
        assert!(!folder.path().join("store").exists(), "{hunt}");
    }
}
