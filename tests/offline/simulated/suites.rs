//! Suites in regular use, in virtual time. Tests options for all cells, selected cells, failed cells, changes since the last
//! suite run, and the removal of old suite runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Two cells that can be simulated, and one that can't.
const MINE: &str = "description = \"mine\"\nruns = 2\n[with]\ntime_limit = \"5s\"\n\
    [[cells]]\nworkload = [\"single\", \"etcd\"]\nnemesis = \"none\"\n\
    [[cells]]\nworkload = \"single\"\nnemesis = \"pause-before-write\"\n";

fn redjepsen(folder: &Path, arguments: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let command = command.args(shlex::split(arguments).unwrap()).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn mine(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), text).unwrap();
    folder
}

#[test]
fn what_cannot_be_simulated_is_left_out_and_said_and_the_rest_decides() {
    let folder = mine(MINE);
    let (code, out, err) = redjepsen(folder.path(), "suite ./mine.toml --cluster sim");
    assert_eq!(code, Some(0), "{out}{err}");
    let first = out.lines().next().unwrap();
    assert!(first.contains("All 2 cells are as expected; left out, since they can't be simulated: etcd."), "{first}");
    assert!(out.contains("etcd, left out: ") && !out.contains("etcd under"), "{out}");
    let read = |name: &str| fs::read_to_string(folder.path().join("store/suites/mine/latest").join(name)).unwrap();
    for page in ["matrix.html", "matrix.md", "matrix.json"] {
        assert!(read(page).contains("left out") || read(page).contains("left_out"), "{page}");
    }
    // If no cell is left, nothing is shown.
    let (code, _, err) = redjepsen(folder.path(), "suite ./mine.toml --cluster sim --only etcd");
    assert!(code == Some(254) && err.contains("etcd"), "{err}");
}

#[test]
fn options_of_a_run_are_options_of_all_cells() {
    let folder = mine(MINE);
    let all = "suite ./mine.toml --cluster sim --time-limit 4s --ttl 2s --seed 9 --runs 1";
    let (code, out, err) = redjepsen(folder.path(), &format!("{all} --json"));
    assert_eq!(code, Some(0), "{out}{err}");
    let matrix: serde_json::Value = serde_json::from_str(&out).expect("only JSON on standard output");
    let cells = matrix["cells"].as_array().unwrap();
    for cell in cells {
        let runs = cell["runs"].as_array().unwrap();
        assert_eq!((runs.len(), runs[0]["seed"].as_u64()), (1, Some(9)), "{cell}");
        let repeat = runs[0]["repeat"].as_str().unwrap();
        assert!(repeat.contains("--time-limit 4s") && repeat.contains("--ttl 2s"), "{repeat}");
    }
    assert_eq!(matrix["repeat"], format!("redjepsen {all}"));
    // Cells that differ only in an option that is set for all cells become one cell.
    let twice = mine(
        "[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\nwith = { ttl = \"2s\" }\n\
                      [[cells]]\nworkload = \"single\"\nnemesis = \"none\"\n",
    );
    let (code, out, _) = redjepsen(twice.path(), "suite ./mine.toml --dry-run --ttl 1s");
    assert!(code == Some(0) && out.contains("1 run in 1 cell"), "{out}");
    let (code, out, _) = redjepsen(twice.path(), "suite ./mine.toml --dry-run");
    assert!(code == Some(0) && out.contains("2 runs in 2 cells"), "{out}");
    for wrong in
        ["--seed 18446744073709551615 --runs 2", "--runs 0", "--runs many", "--ttl 5", "--seed x", "--only nothing"]
    {
        let (code, _, err) = redjepsen(folder.path(), &format!("suite ./mine.toml --dry-run {wrong}"));
        assert!(code == Some(254) && !err.is_empty(), "{wrong}: {err}");
    }
}

#[test]
fn a_part_is_chosen_by_name_or_by_what_failed_and_the_headline_says_what_changed() {
    // First a wrong expectation, then the right one; the cell's name does not change.
    let with = |expect: &str| {
        format!(
            "[with]\ntime_limit = \"5s\"\n[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\n\
             [[cells]]\nworkload = \"single\"\nnemesis = \"pause-before-write\"\nexpect = \"{expect}\"\n"
        )
    };
    let folder = mine(&with("valid"));
    let suite = |more: &str| redjepsen(folder.path(), &format!("suite ./mine.toml --cluster sim {more}"));
    let (code, _, err) = suite("--failed");
    assert!(code == Some(254) && err.contains("run it once without --failed"), "{err}");
    let (code, out, _) = suite("");
    assert!(code == Some(1) && !out.contains("ince 2"), "there was no last time: {out}");
    // Cells that were as expected are not rerun, and do not hide the others.
    let (code, out, _) = suite("--only none");
    assert!(code == Some(0) && out.contains("The only cell is as expected. Nothing changed since 2"), "{out}");
    let (code, out, _) = suite("--failed --dry-run");
    assert!(code == Some(0) && out.contains("pause-before-write") && out.contains("1 run in 1 cell"), "{out}");
    fs::write(folder.path().join("mine.toml"), with("violation")).unwrap();
    let (code, out, _) = suite("--failed");
    assert!(code == Some(0) && out.contains("1 as expected again."), "{out}");
    assert!(out.contains("single under pause-before-write: as expected, was UNEXPECTED"), "{out}");
    let (code, out, _) = suite("--failed");
    assert!(code == Some(0) && out.contains("nothing to rerun"), "{out}");
    // A cell that was never run counts as not as expected.
    let more = with("violation") + "[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\nwith = { ttl = \"2s\" }\n";
    fs::write(folder.path().join("mine.toml"), more).unwrap();
    let (code, out, _) = suite("--failed --dry-run");
    assert!(code == Some(0) && out.contains("1 run in 1 cell") && out.contains("ttl 2s"), "{out}");
    fs::write(folder.path().join("mine.toml"), with("violation")).unwrap();
    let (code, out, _) = suite("--only 'single under none' --only pause-before-write --dry-run");
    assert!(code == Some(0) && out.contains("2 runs in 2 cells"), "{out}");
    // Another command is another suite run.
    let (code, out, _) = suite("--runs 2");
    assert!(code == Some(0) && !out.contains("ince 2"), "{out}");
}

#[test]
fn old_runs_are_listed_and_go_only_when_that_is_said() {
    let folder = mine("[with]\ntime_limit = \"5s\"\n[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\n");
    for command in
        ["suite ./mine.toml --cluster sim", "run --cluster sim --workload single --nemesis none --time-limit 5s"]
    {
        assert_eq!(redjepsen(folder.path(), command).0, Some(0));
    }
    let store = folder.path().join("store");
    let (code, out, _) = redjepsen(folder.path(), "clean --older-than 0s");
    assert!(code == Some(0) && out.contains("no run is beyond these limits"), "they may be in use: {out}");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for of in ["suites/mine/latest", "latest"] {
        for entry in fs::read_dir(store.join(of)).unwrap() {
            fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
    }
    let (code, out, _) = redjepsen(folder.path(), "clean --older-than 0s");
    assert!(code == Some(0) && out.contains("2 folders, ") && out.contains("nothing was removed: --yes"), "{out}");
    assert!(store.join("latest/report.html").exists());
    let (_, out, _) = redjepsen(folder.path(), "clean --older-than 30d --yes");
    assert!(out.contains("no run is beyond these limits"), "{out}");
    let (_, out, _) = redjepsen(folder.path(), "clean --keep 1 --yes");
    assert!(out.contains("no run is beyond these limits"), "{out}");
    let (code, out, _) = redjepsen(folder.path(), "clean --older-than 0s --yes");
    assert!(code == Some(0) && out.contains("removed 2 folders"), "{out}");
    assert!(fs::symlink_metadata(store.join("latest")).is_err() && !store.join("single-none").exists());
    for wrong in ["clean --yes", "clean --keep 0", "clean --older-than 30d --all", "clean --older-than soon"] {
        assert_eq!(redjepsen(folder.path(), wrong).0, Some(254), "{wrong}");
    }
}
