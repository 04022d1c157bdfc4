//! `redjepsen explore`: its output, its files, and its refusals.

use std::fs;

use assert_cmd::Command;
use labs::explore::{NoScript, script};
use model::scenario::catalogue;
use redlock_model::{Claim, Clocks, Counterexample, Fencing, Holding, Move, Settings, Step};

fn explore(flags: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    let output = command.arg("explore").args(flags).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn memory_that_is_not_to_be_had_ends_the_search_and_not_the_program() {
    let search = "explore --nodes 4 --clients 3 --time 12 --clocks perfect --holding while-valid --memory 64GiB";
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -v 600000; exec \"$0\" {search}"), env!("CARGO_BIN_EXE_redjepsen")]);
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("UNKNOWN") && said.contains("the memory of this machine ran out"), "{said}");
}

#[test]
fn the_first_line_is_the_answer_and_the_last_the_way_to_real_redis() {
    let (code, text, _) = explore(&[]);
    let first =
        "INVALID  two clients hold the lock at once after 14 steps (15 states); no shorter sequence of steps exists";
    assert_eq!((code, text.lines().next()), (Some(1), Some(first)));
    assert!(text.contains("  tick 3  time advances to tick 3\n          c1's key on n1 expires\n"), "{text}");
    assert!(text.contains("property    mutual exclusion") && text.contains("313,895 states"), "{text}");
    let last: Vec<&str> = text.lines().rev().take(2).map(str::trim).collect();
    assert_eq!(
        last,
        [
            "redjepsen run --cluster local --workload redlock-wall --nodes 3 --nemesis explored/scenario.toml",
            "redjepsen explore --out explored",
        ]
    );
    let (code, text, _) = explore(&["--clocks", "perfect", "--holding", "while-valid"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("VALID  no two clients hold the lock at once in any of the 1,244,199 states"), "{text}");
    assert!(text.contains("the search was exhaustive") && !text.contains("redjepsen run"), "{text}");
    let (code, text, _) = explore(&["--timeout", "0s"]);
    assert_eq!(code, Some(2));
    assert!(text.starts_with("UNKNOWN") && text.contains("--timeout"), "{text}");
}

#[test]
fn what_is_expected_turns_the_exit_code_around() {
    let small = ["--nodes", "1", "--time", "4", "--clocks", "perfect"];
    let with = |more: &[&str]| explore(&[&small, more].concat()).0;
    assert_eq!(with(&["--expect", "violation"]), Some(0));
    assert_eq!(with(&["--expect", "violation", "--holding", "while-valid"]), Some(1));
    assert_eq!(with(&["--expect", "valid", "--holding", "while-valid"]), Some(0));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    for (flags, words) in [
        (&["--nodes", "9"][..], "--nodes 9 is out of range; it must be between 1 and 7"),
        (&["--clients", "1"], "--clients 1 is out of range; it must be between 2 and 4"),
        (&["--ttl", "0"], "--ttl 0 is out of range"),
        (&["--time", "99"], "--time 99 is out of range"),
        (&["--restart", "after-ttl"], "--restart needs a crash; give --crash lose"),
        (&["--crashes", "2"], "--crashes needs a crash"),
        (&["--crash", "lose", "--crashes", "9"], "--crashes 9 is out of range; it must be between 1 and 3"),
        (&["--claim", "mutual-exclusion", "--fencing", "token"], "give --claim updates"),
        (&["--clocks", "slow"], "possible values: perfect, lagging"),
        (&["--nodes", "7", "--clients", "4", "--ttl", "12", "--time", "30"], "use fewer nodes or clients"),
        (&["--memory", "much"], "not an amount of memory"),
        (&["--out", "here,there"], "choose a folder without a comma"),
    ] {
        let (code, _, error) = explore(flags);
        assert_eq!(code, Some(254), "{flags:?}: {error}");
        assert!(error.contains(words), "{flags:?}: {error}");
    }
}

#[test]
fn the_files_are_a_page_a_drawing_without_collisions_and_a_script_that_a_run_takes() {
    for (flags, workload) in [
        (&[][..], "redlock-wall"),
        (&["--clocks", "perfect"], "redlock"),
        (&["--clocks", "perfect", "--holding", "while-valid", "--crash", "lose"], "redlock-patient"),
        (&["--clocks", "perfect", "--fencing", "none"], "redlock"),
        (&["--clocks", "perfect", "--fencing", "token"], "redlock-tokens"),
        (&["--nodes", "5", "--clients", "3", "--clocks", "perfect", "--ttl", "1", "--time", "1"], "redlock"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a folder");
        // An existing folder is used again.
        for _ in 0..2 {
            let (code, text, _) = explore(&[flags, &["--out", out.to_str().unwrap()]].concat());
            assert_eq!(code, Some(1), "{text}");
            assert!(
                text.contains(&format!("--workload {workload} ")) && text.contains("a folder/scenario.toml'"),
                "{text}"
            );
        }
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        assert!(read("explore.html").contains("INVALID") && read("explore.html").contains("scenario.toml"));
        let svg = read("counterexample.svg");
        assert_eq!(crate::kit::malformed(&svg), None, "{svg}");
        let boxes = crate::kit::text_boxes(&svg);
        for (number, one) in boxes.iter().enumerate() {
            let other = boxes[number + 1..].iter().find(|other| one.meets(other));
            assert!(other.is_none(), "{flags:?}: {} is drawn over {}", one.text, other.unwrap().text);
        }
        let (_, nemesis) = catalogue::nemesis(out.join("scenario.toml").to_str().unwrap()).unwrap();
        assert!(nemesis.script.len() >= 8 && nemesis.injects(), "{nemesis:?}");
        assert!(catalogue::workload(workload).is_ok() && nemesis.expect.contains_key(workload));
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, ..) = explore(&[
        "--nodes",
        "1",
        "--clocks",
        "perfect",
        "--holding",
        "while-valid",
        "--out",
        folder.path().to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0));
    let written: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(written, ["explore.html"], "without a violation there is nothing to draw or to carry out");
}

/// The steps of a file, without the model's comments on them.
fn steps(file: &str) -> Vec<String> {
    let nemesis: model::nemesis::Nemesis = toml::from_str(file).unwrap();
    nemesis.script.iter().map(ToString::to_string).collect()
}

fn at(time: u32, steps: &[Step]) -> Vec<Move> {
    steps.iter().map(|step| Move { step: *step, time }).collect()
}

/// A client asks one node and acquires the lock.
fn acquires(client: u32, time: u32) -> Vec<Move> {
    at(
        time,
        &[
            Step::Start { client, clock: time },
            Step::Set { client, node: 0, until: time + 2 },
            Step::Acquire { client, votes: 1, clock: time },
        ],
    )
}

fn small() -> Settings {
    let bounds = redlock_model::Bounds { nodes: 1, clients: 2, ttl: 2, time: 4 };
    Settings { bounds, clocks: Clocks::Perfect, holding: Holding::UntilRelease, ..Settings::default() }
}

#[test]
fn a_holder_is_paused_while_time_passes_and_goes_on_last() {
    let passes = [at(1, &[Step::Tick { to: 1 }]), at(2, &[Step::Tick { to: 2 }, Step::Expire { node: 0, client: 0 }])];
    let moves = [acquires(0, 0), passes.concat(), acquires(1, 2)].concat();
    let script = script(&small(), &Counterexample { moves }).unwrap();
    assert_eq!((script.workload, script.nodes), ("redlock", 1));
    assert_eq!(
        steps(&script.file),
        [
            "start client:0 to before-write",
            "pause client:0",
            "wait 1.1ttl",
            "start client:1 to before-write",
            "go client:1",
            "await client:1 end",
            "heal pause client:0",
            "go client:0",
            "await client:0 end",
        ]
    );
}

#[test]
fn a_client_that_never_gets_the_lock_waits_for_replies() {
    let begins = at(0, &[Step::Start { client: 1, clock: 0 }]);
    let script = script(&small(), &Counterexample { moves: begins }).unwrap();
    assert_eq!(script.workload, "redlock-patient");
    assert_eq!(
        steps(&script.file),
        [
            "start client:1 to acquiring",
            "hold request SET client:1 to node:0",
            "go client:1",
            "await hold request SET client:1 to node:0 within 1ttl",
        ]
    );
}

#[test]
fn what_no_script_can_do_to_real_clients_is_said_instead() {
    let refused = |settings: &Settings, moves: Vec<Move>| script(settings, &Counterexample { moves }).unwrap_err();
    let release = at(0, &[Step::Release { client: 0 }]);
    assert_eq!(refused(&small(), [acquires(0, 0), release].concat()), NoScript::ReleasesUnused(0));
    let gives_up = at(0, &[Step::Start { client: 1, clock: 0 }, Step::GiveUp { client: 1, votes: 0, late: false }]);
    assert_eq!(refused(&small(), gives_up), NoScript::GivesUp(1));
    let catches_up = at(1, &[Step::ClockAdvances { client: 0, clock: 1 }]);
    assert_eq!(refused(&small(), catches_up), NoScript::ClockCatchesUp(0));
    let fenced = Settings { claim: Claim::Updates(Fencing::CompareAndSet), ..small() };
    assert_eq!(refused(&fenced, acquires(0, 0)), NoScript::NoWorkload);
}
