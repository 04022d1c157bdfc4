//! Output on a terminal: colours unless they are turned off, lines that fit, and no control characters. A pipe gets none of
//! these, and the verdict on one line.

use std::path::Path;
use std::process::{Command, Stdio};

/// The program's output on a terminal with this many columns, with these environment settings.
fn shown(folder: &Path, columns: u32, settings: &str, arguments: &str) -> String {
    let program = env!("CARGO_BIN_EXE_redjepsen");
    let inside = format!("stty cols {columns}; env -u NO_COLOR TERM=xterm {settings} '{program}' {arguments}");
    let mut script = Command::new("script");
    script.args(["-qec", &inside, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    let output = script.output().expect("this test needs `script`, of util-linux");
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

/// Makes a simulated run and returns its folder.
fn run(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let run = "run --cluster sim --workload redlock --nemesis pause-before-write --time-limit 12s --seed 7";
    let output = command.args(run.split(' ')).current_dir(folder).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let report = said.lines().find_map(|line| line.trim().strip_prefix("report")).unwrap().trim().to_string();
    report.strip_suffix("/report.html").unwrap().to_string()
}

/// A defect is printed with its code although the run is valid; a lock without a defect has no such line.
#[test]
fn defect_that_violates_no_claim_is_printed() {
    let printed = |planted: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        let run = "run --cluster sim --workload single --nemesis none --time-limit 12s --seed 1";
        let output = command.args(run.split(' ')).env("REDJEPSEN_PLANTED", planted).current_dir(folder.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let never = printed("release.never");
    assert!(never.starts_with("VALID") && never.contains("  seen    c1's release ended"), "{never}");
    assert!(never.contains("(RJ016)") && never.contains("  do      Keep the value"), "{never}");
    assert!(never.lines().count() <= 10, "{never}");
    assert!(!printed("").contains("  seen  "), "{}", printed(""));
}

#[test]
fn colours_are_for_terminals_that_are_to_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let check = format!("check --verbose {}", run(folder.path()));
    for (settings, colored) in
        [("", true), ("NO_COLOR=", true), ("NO_COLOR=1", false), ("TERM=dumb", false), ("NO_COLOR=1 TERM=dumb", false)]
    {
        let said = shown(folder.path(), 100, settings, &check);
        assert!(said.contains("INVALID") && said.contains("mutual exclusion"), "{settings}: {said}");
        assert_eq!(said.contains("\u{1b}["), colored, "{settings}: {said:?}");
    }
    let hunt = "fuzz --workload perfect --runs 20";
    assert!(!shown(folder.path(), 100, "TERM=dumb", hunt).contains(['\u{1b}', '\r']), "nothing is written over");
    assert!(shown(folder.path(), 100, "", hunt).contains("NOTHING FOUND"));
}

#[test]
fn lines_fit_the_terminal_and_a_pipe_gets_the_verdict_on_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let longest = |said: &str| {
        let wide = said.lines().filter(|line| !line.contains("redjepsen ") && !line.contains("store/"));
        wide.map(|line| line.chars().count()).max().unwrap_or_default()
    };
    let at = |columns| shown(folder.path(), columns, "NO_COLOR=1", &format!("check --verbose {run}"));
    let (narrow, wide, wider) = (at(60), at(120), at(300));
    assert!(longest(&narrow) <= 60, "{narrow}");
    assert!((61..=120).contains(&longest(&wide)), "{wide}");
    assert_eq!(longest(&wide), longest(&wider), "nobody likes to read longer lines");
    let headline = |said: &str| said.lines().next().unwrap().to_string();
    assert!(headline(&narrow).chars().count() <= 60);
    let piped = Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(["check", &run]).current_dir(folder.path()).output();
    let piped = String::from_utf8(piped.unwrap().stdout).unwrap();
    assert!(headline(&piped).starts_with("INVALID  ") && headline(&piped).ends_with('.'), "{piped}");
    assert!(headline(&piped).chars().count() > 60 && !piped.contains('\u{1b}'), "{piped}");

    let listed = shown(folder.path(), 70, "", "list");
    assert!(longest(&listed.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")) <= 70);
}

#[test]
fn what_a_stranger_says_steers_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    // A client that colours its last output, and clears the screen.
    let client = r#"printf '\033[2J\033[31mno lock\033[0m\n' >&2; printf 'hello \033]0;title\007\n'; exit 3"#;
    std::fs::write(folder.path().join("client.sh"), client).unwrap();
    let said = shown(folder.path(), 100, "NO_COLOR=1", "check client.sh --model register");
    assert!(!said.contains(['\u{1b}', '\u{7}']), "{said:?}");
    // The same in a workload file.
    std::fs::write(folder.path().join("x.toml"), "description = \"\\u001b[2J\"\nlock = \"\\u001b[31m\"\n").unwrap();
    let said = shown(folder.path(), 100, "NO_COLOR=1", "fuzz --workload ./x.toml");
    assert!(!said.contains('\u{1b}') && said.contains("x.toml"), "{said:?}");
}
