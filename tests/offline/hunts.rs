//! `redjepsen fuzz` as a program: it ends when it is told to, in the time that it was given, and what it found stays found,
//! whatever becomes of its files.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What ends, ends within two seconds on an idle machine.
const SOON: Duration = Duration::from_secs(6);

fn fuzz(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.arg("fuzz").args(arguments.split(' ')).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a hunt ended: its exit code, and what it said on both its outputs.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

/// Tells a hunt to stop, and expects that it soon does.
fn stopped(child: Child, signal: &str) -> (Option<i32>, String) {
    let asked = Instant::now();
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let (code, said) = ended(child);
    assert!(asked.elapsed() < SOON, "{signal}: {:?}: {said}", asked.elapsed());
    (code, said)
}

/// Waits until a hunt says this on its standard error.
fn wait_for(child: &mut Child, words: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it never said `{words}`");
    }
    // What it says later must not stop it.
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
}

fn files_in(folder: PathBuf, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

#[test]
fn who_stops_a_hunt_keeps_what_it_found() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = fuzz(folder.path(), "--workload none --time 60s --jobs 1 --seed 3").spawn().unwrap();
        wait_for(&mut child, "making it smaller");
        let (code, said) = stopped(child, signal);
        assert_eq!(code, Some(1), "{signal}: {said}");
        for words in ["BROKEN  none", "interrupted", "there was no time to make it as small as possible", "for real"] {
            assert!(said.contains(words), "{signal}, {words}: {said}");
        }
        let store = folder.path().join("store");
        let scripts = files_in(store.join("fuzz"), ".toml");
        assert!(!scripts.is_empty(), "{said}");
        assert!(said.contains("/report.html (simulated)"), "{said}");
        // It is a nemesis like any other, and breaks the lock.
        let again = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
            .args(["check", said.lines().find_map(|line| line.split("redjepsen replay ").nth(1)).unwrap()])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stdout));
        let script = fs::read_to_string(&scripts[0]).unwrap();
        assert!(script.contains("There was no time to make it as small as possible"), "{script}");
    }
}

#[test]
fn a_hunt_that_found_nothing_and_was_stopped_says_nothing_about_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    // A day takes minutes: the signal comes in the middle of the first runs.
    for arguments in ["--workload perfect --time 60s", "--workload perfect --nemesis pause --time-limit 1d --rate 100"]
    {
        let child = fuzz(folder.path(), arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let (code, said) = stopped(child, "-TERM");
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert!(said.contains("NOTHING FOUND  perfect") && said.contains("interrupted"), "{arguments}: {said}");
    }
    assert!(!folder.path().join("store").exists());
    let (code, said) = ended(fuzz(folder.path(), "--workload perfect --runs 20").spawn().unwrap());
    assert!(code == Some(0) && !said.contains("interrupted"), "{code:?}: {said}");
}

#[test]
fn the_time_of_a_hunt_includes_making_it_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let (code, said) = ended(fuzz(folder.path(), "--workload redlock --time 2s --jobs 1").spawn().unwrap());
    assert!(began.elapsed() < Duration::from_secs(2) + SOON, "{:?}: {said}", began.elapsed());
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains("interrupted"), "its time was over: {said}");
}

#[test]
fn a_violation_stays_one_whatever_became_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the store is to be: also root cannot write beneath it.
    fs::write(folder.path().join("store"), "not a folder").unwrap();
    let hunt = "--workload none --seed 3 --jobs 1 --time 3s";
    let (code, said) = ended(fuzz(folder.path(), hunt).spawn().unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("BROKEN  none") && said.contains("  1. "), "the script is told all the same: {said}");
    assert!(said.contains("redjepsen: ") && said.contains("there is no report of"), "{said}");
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
    // Blocks of 512 bytes: enough for everything, for the history but not for all of the report, and for nothing.
    for (blocks, verdict, code) in [
        (4000, "CAME BACK  lost update, pause of a client: in 1 of 1 run", 0),
        (160, "CAME BACK  lost update, pause of a client: in 1 of 1 run", 255),
        (8, "NOT REPEATED  lost update, pause of a client: no run of it was made", 255),
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
