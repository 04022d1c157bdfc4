//! Files as users meet them on their own machines: full disks, links and pipes of other users, endless files. The program must
//! not hang, follow a link out of a run's folder, or lose existing files.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, starts_with};
use serde_json::json;

const INVALID: &str = include_str!("../fixtures/pause-outlives-lock.jsonl");

fn redjepsen() -> Command {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock").timeout(Duration::from_secs(30));
    command
}

/// The program under a limit on the size of files, in bytes, which acts like a full disk.
fn limited(bytes: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512), env!("CARGO_BIN_EXE_redjepsen")]);
    command.args(arguments).timeout(Duration::from_secs(30));
    command
}

fn run_folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("history.jsonl"), INVALID).unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    (folder, path)
}

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn files_without_end_and_pipes_without_a_writer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    pipe(&folder.path().join("pipe.toml"));
    fs::write(path("huge.toml"), format!("description = \"{}\"\n", "x".repeat(1 << 20))).unwrap();
    let (pipe, huge) = (path("pipe.toml"), path("huge.toml"));
    let folder_words = "it is a folder, not a regular file";
    let kinds = [
        ("/dev/zero", "it is a device, not a regular file"),
        (pipe.as_str(), "it is a named pipe, not a regular file"),
        (huge.as_str(), "it is larger than 1 MiB, the limit"),
        ("/", folder_words),
    ];
    for (file, words) in kinds {
        for flag in ["--workload", "--nemesis", "--scenario"] {
            // A scenario may be named by its folder.
            let words =
                if (flag, words) == ("--scenario", folder_words) { "/scenario.toml: No such file" } else { words };
            let place = if words.starts_with('/') { words.to_string() } else { format!("{file}: {words}") };
            redjepsen().args(["run", flag, file]).assert().code(254).stderr(contains(place));
        }
        redjepsen().args(["suite", file, "--dry-run"]).assert().code(254).stderr(contains(format!("{file}: {words}")));
    }
    // A file that a suite names, and a matrix to merge.
    let suite = "description = \"mine\"\n[[cells]]\nworkload = \"/dev/zero\"\nnemesis = \"pause\"\n";
    fs::write(path("suite.toml"), suite).unwrap();
    redjepsen().args(["suite", &path("suite.toml"), "--dry-run"]).assert().code(254).stderr(contains("it is a device"));
    fs::create_dir(path("part")).unwrap();
    pipe_at(&path("part/matrix.json"));
    redjepsen().args(["suite", "--merge", &path("part")]).assert().code(254).stderr(contains("it is a named pipe"));
}

fn pipe_at(path: &str) {
    pipe(Path::new(path));
}

#[test]
fn no_link_leads_out_of_a_run_folder() {
    let (folder, run) = run_folder();
    let elsewhere = tempfile::tempdir().unwrap();
    let theirs = elsewhere.path().join("theirs");
    fs::write(&theirs, "as it was").unwrap();
    for name in ["report.html", "results.json", "locks.png", "incident-1.svg"] {
        symlink(&theirs, folder.path().join(name)).unwrap();
    }
    redjepsen().args(["report", &run]).assert().code(0);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "as it was");
    assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().ends_with("</html>"));
    assert!(!names(folder.path()).iter().any(|name| name.ends_with(".new")), "{:?}", names(folder.path()));

    // Links and pipes in a folder are refused when they are read. A file that the user names may be anything.
    for name in ["scenario.toml", "facts.json"] {
        symlink(&theirs, folder.path().join(name)).unwrap();
        redjepsen().args(["check", &run]).assert().code(255).stderr(contains(format!("/{name}: it is a link")));
        fs::remove_file(folder.path().join(name)).unwrap();
        pipe(&folder.path().join(name));
        redjepsen().args(["check", &run]).assert().code(255).stderr(contains(format!("/{name}: it is a named pipe")));
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let history = folder.path().join("history.jsonl");
    fs::rename(&history, elsewhere.path().join("history.jsonl")).unwrap();
    symlink(elsewhere.path().join("history.jsonl"), &history).unwrap();
    for command in ["check", "report"] {
        let words =
            contains("history.jsonl: it is a link that leads out of the folder; if you trust it, name the file itself");
        redjepsen().args([command, &run]).assert().code(255).stderr(words);
    }
    redjepsen().arg("check").arg(&history).assert().code(1).stdout(starts_with("INVALID"));
    fs::remove_file(&history).unwrap();
    pipe(&history);
    redjepsen().args(["check", &run]).assert().code(255).stderr(contains("history.jsonl: it is not a regular file"));
}

#[test]
fn on_a_full_disk_the_verdict_is_shown_and_no_file_is_cut() {
    let (folder, run) = run_folder();
    // Some files fit, the page does not.
    limited(16 << 10, &["report", &run])
        .assert()
        .code(255)
        .stderr(contains("/report.html: File too large").and(contains("raise the limit on the size of files")));
    assert!(!folder.path().join("report.html").exists());
    let whole = fs::read_to_string(folder.path().join("results.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&whole).unwrap();
    redjepsen().args(["report", &run]).assert().code(0);
    let page = fs::read(folder.path().join("report.html")).unwrap();
    let all = names(folder.path());
    assert!(all.iter().all(|name| !name.starts_with('.')), "{all:?}");
    // Existing files stay unchanged.
    limited(512, &["report", &run]).assert().code(255).stderr(contains("(nor report.html, "));
    assert!(fs::read(folder.path().join("report.html")).unwrap() == page && names(folder.path()) == all);
    // The verdict stays a violation even if the page cannot be written.
    let page = folder.path().join("page.html").to_str().unwrap().to_string();
    limited(512, &["check", &run, "--html", &page])
        .assert()
        .code(1)
        .stdout(starts_with("INVALID"))
        .stderr(contains(format!("cannot write {page}: File too large")));
    assert!(!Path::new(&page).exists());
    redjepsen().args(["check", &run, "--html", "/dev/full"]).assert().code(1).stderr(contains("free some space"));
    redjepsen().args(["check", &run, "--html", "/dev/stdout"]).assert().code(1).stdout(contains("</html>"));
    assert!(fs::symlink_metadata("/dev/stdout").unwrap().is_symlink(), "it was not replaced");
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn a_violation_stays_one_where_nothing_can_be_printed() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let read = "{\"type\":\"invoke\",\"process\":0,\"f\":\"read\",\"value\":null}\n{\"type\":\"ok\",\"process\":0,\"f\":\"read\",\"value\":7}\n";
    put("never-written.jsonl", read);
    fs::create_dir(folder.path().join("run")).unwrap();
    put("run/history.jsonl", INVALID);
    for (command, code) in [
        ("check run", 1),
        ("check run --json", 1),
        ("check run --html page.html", 1),
        ("check never-written.jsonl --model register --initial 0", 1),
        ("check never-written.jsonl --model register --initial 0 --json", 1),
        ("check never-written.jsonl --model register --initial 7", 255),
        ("explore", 1),
        ("explore --out explored", 1),
        ("explore --time 2", 255),
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        let output = program.current_dir(&folder).args(command.split(' ')).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(said.contains("standard output: No space left"), "{command}: {said}");
    }
    for written in ["page.html", "explored/explore.html"] {
        assert!(folder.path().join(written).is_file(), "{written}");
    }
}

#[test]
fn traps_in_the_folder_for_temporary_files_do_not_hold_clean_up() {
    let place = tempfile::tempdir().unwrap();
    let run = |id: &str| {
        let folder = place.path().join(format!("redjepsen-run-{id}"));
        fs::create_dir(&folder).unwrap();
        folder
    };
    pipe(&run("pipe").join("owner.json"));
    symlink("/dev/zero", run("zero").join("owner.json")).unwrap();
    let clean = |arguments: &[&str]| {
        let mut command = redjepsen();
        command.env("TMPDIR", place.path()).arg("clean").args(arguments);
        command.assert()
    };
    clean(&[]).code(0).stdout(
        contains("kept run pipe: its owner is not known (")
            .and(contains("owner.json: it is a named pipe, not a regular file); --all removes it"))
            .and(contains("kept run zero:")),
    );
    clean(&["--all"]).code(0).stdout(contains("removed run pipe").and(contains("removed run zero")));
    assert_eq!(names(place.path()), Vec::<String>::new());
    assert!(fs::metadata("/dev/zero").unwrap().file_type().is_char_device());
    fs::remove_dir(place.path()).unwrap();
    clean(&[]).code(255).stderr(contains("not everything could be removed").and(contains("did not look for")));
}

/// An engine with two abandoned runs. The first cannot be removed.
fn stubborn_engine(socket: PathBuf) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let removed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        for stream in listener.incoming() {
            let removed = std::sync::Arc::clone(&removed);
            std::thread::spawn(move || serve(stream.unwrap(), &removed));
        }
    });
}

fn serve(stream: UnixStream, removed: &std::sync::atomic::AtomicBool) {
    use std::sync::atomic::Ordering::SeqCst;
    let mut answers = stream.try_clone().unwrap();
    let mut requests = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if requests.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut header = String::from("-");
        while !header.trim().is_empty() {
            header.clear();
            requests.read_line(&mut header).unwrap();
        }
        let container = |run: &str| {
            json!({ "Id": run[..5], "Names": [format!("/redjepsen-{run}")], "State": "exited",
                    "Labels": { "redjepsen": "1", "redjepsen.run": run } })
        };
        let there = |run: &str| run != "yielding" || !removed.load(SeqCst);
        let listed: Vec<_> = ["stuck\u{1b}[2J", "yielding"]
            .into_iter()
            .filter(|run| there(run) && (!request.contains("redjepsen.run%3D") || request.contains(&run[..5])))
            .map(container)
            .collect();
        let (status, body) = match request.split('?').next().unwrap_or_default() {
            path if path.contains("/version") => {
                let version = json!({ "Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux",
                                      "Arch": "amd64", "KernelVersion": "6.1.0" });
                ("200 OK", version)
            }
            path if path.contains("/containers/json") => ("200 OK", json!(listed)),
            path if path.contains("/networks") => ("200 OK", json!([])),
            path if path.starts_with("DELETE") && path.contains("stuck") => {
                ("500 Internal Server Error", json!({ "message": "device or resource busy" }))
            }
            path if path.starts_with("DELETE") => {
                removed.store(true, SeqCst);
                ("204 No Content", json!(null))
            }
            _ => ("404 Not Found", json!({ "message": "no such thing" })),
        };
        let body = if status.starts_with("204") { String::new() } else { body.to_string() };
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        if answers.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn clean_goes_on_past_what_an_engine_does_not_remove() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("engine.sock");
    stubborn_engine(socket.clone());
    let mut command = redjepsen();
    command.env("TMPDIR", place.path()).env("DOCKER_HOST", format!("unix://{}", socket.display()));
    let assert = command.args(["clean", "--all"]).assert().code(255);
    let output = assert.get_output();
    let (shown, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("removed run yielding: redjepsen-yielding") && !shown.contains("stuck"), "{shown}");
    assert!(told.contains("not everything could be removed\nrun stuck") && told.contains("resource busy"), "{told}");
    assert!(!told.contains('\u{1b}') && !shown.contains('\u{1b}'), "{told}{shown}");
}

#[test]
fn nothing_that_a_file_says_steers_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, "description = \"a\"\n\"\\u001b[2Jtypo\" = 1\n").unwrap();
    let raw = folder.path().join("raw.toml");
    fs::write(&raw, "description = \"\u{1b}[2J\u{9b}31m\"\n").unwrap();
    for file in [path, raw] {
        let mut said = Vec::new();
        let assert = redjepsen().arg("run").arg("--workload").arg(&file).assert().code(254);
        assert.get_output().stderr.as_slice().read_to_end(&mut said).unwrap();
        assert!(!said.contains(&0x1b), "{}", String::from_utf8_lossy(&said));
    }
}
