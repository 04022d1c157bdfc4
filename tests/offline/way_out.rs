//! Every stage ends at once when the user wants it, even while an engine or a program hangs. The engines here are not real;
//! tests/clusters/killed.rs tests real clusters.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A hang lasts much longer than this. Not a measurement.
const SOON: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(60);

/// An engine that sends its version, if at all, and then nothing more. The receiver gets the first line of each request.
fn engine(socket: &Path, says_its_version: bool) -> Receiver<String> {
    let listener = UnixListener::bind(socket).unwrap();
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || answer(stream.unwrap(), says_its_version, &sender));
        }
    });
    asked
}

fn answer(mut stream: UnixStream, says_its_version: bool, asked: &Sender<String>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(first)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let _ = asked.send(first.clone());
        if says_its_version && first.contains("version") {
            let body =
                r#"{"Version":"20.10.24","ApiVersion":"1.41","Os":"linux","Arch":"amd64","KernelVersion":"6.1"}"#;
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
            write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
        } else {
            std::thread::sleep(LONG);
        }
    }
}

fn redjepsen(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(arguments.split(' ')).current_dir(folder).env("TMPDIR", folder);
    command.env("DOCKER_HOST", format!("unix://{}", folder.join("engine").display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn wait_for(asked: &Receiver<String>, words: &str) {
    let deadline = Instant::now() + LONG;
    while !asked.recv_timeout(deadline - Instant::now()).expect(words).contains(words) {}
}

/// Sends a signal, and expects the process to end soon, with the exit code of a run that could not be made.
fn ends(child: Child, name: &str) -> Output {
    let asked = Instant::now();
    signal(&child, name);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(asked.elapsed() < SOON, "{name}: {:?}: {said}", asked.elapsed());
    assert_eq!(output.status.code(), Some(255), "{name}: {said}");
    output
}

#[test]
fn an_engine_that_hangs_holds_nobody_up() {
    for (says_its_version, hangs_at) in [(false, "version"), (true, "/images/json")] {
        let folder = tempfile::tempdir().unwrap();
        let asked = engine(&folder.path().join("engine"), says_its_version);
        for arguments in ["run --cluster docker", "suite smoke --cluster docker"] {
            for name in ["-INT", "-TERM", "-HUP"] {
                let child = redjepsen(folder.path(), arguments).spawn().unwrap();
                wait_for(&asked, hangs_at);
                let said = String::from_utf8(ends(child, name).stderr).unwrap();
                assert!(said.contains("interrupted"), "{arguments}, {name}: {said}");
            }
            let child = redjepsen(folder.path(), arguments).spawn().unwrap();
            wait_for(&asked, hangs_at);
            let said = String::from_utf8(ends(child, "-QUIT").stderr).unwrap();
            assert!(said.contains("nothing is left behind"), "{said}");
        }
        assert!(!folder.path().join("store").exists(), "nothing was begun");
    }
}

#[test]
fn a_server_program_that_hangs_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("redis-server");
    fs::write(&program, "#!/bin/sh\necho asked > asked\nexec sleep 10\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = redjepsen(folder.path(), "run --cluster local --redis-server ./redis-server").spawn().unwrap();
    let deadline = Instant::now() + LONG;
    while !folder.path().join("asked").exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    let asked = Instant::now();
    signal(&child, "-INT");
    // The test does not wait for the output: the hanging program still holds the other ends of the pipes.
    assert_eq!(child.wait().unwrap().code(), Some(255));
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn who_is_to_outlive_the_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let asked = engine(&folder.path().join("engine"), false);
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" run --cluster docker", env!("CARGO_BIN_EXE_redjepsen")]);
    nohup.env("DOCKER_HOST", format!("unix://{}", folder.path().join("engine").display()));
    let mut child = nohup.current_dir(folder.path()).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for(&asked, "version");
    signal(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it was started with nohup");
    ends(child, "-TERM");
}

#[test]
fn a_terminal_that_is_gone_is_no_mistake_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let asked = engine(&folder.path().join("engine"), false);
    let (reader, writer) = std::io::pipe().unwrap();
    let child = redjepsen(folder.path(), "run --cluster docker").stderr(writer).spawn().unwrap();
    wait_for(&asked, "version");
    drop(reader);
    ends(child, "-HUP");
}
