//! An engine that refuses to remove an empty network, as Docker does once it has lost count. `clean` reports this and ends with
//! 0, since nothing more can be done. If a container is still there, it is a failure.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};

/// Labels of a run on another machine.
const LABELS: &str = r#"{"redjepsen":"1","redjepsen.run":"gone","redjepsen.controller.host":"h","redjepsen.controller.pid":"1",
    "redjepsen.controller.start":"1","redjepsen.controller.boot":"b","redjepsen.controller.pidns":"p"}"#;

/// An engine that has a network, and this list of containers.
fn engine(socket: &Path, containers: String) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let containers = containers.clone();
            std::thread::spawn(move || answer(stream.unwrap(), &containers));
        }
    });
}

fn answer(mut stream: UnixStream, containers: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(first)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let (status, body) = if first.contains("/version") {
            let version =
                r#"{"Version":"20.10.24","ApiVersion":"1.41","Os":"linux","Arch":"amd64","KernelVersion":"6.1"}"#;
            ("200 OK", version.to_string())
        } else if first.starts_with("DELETE") && first.contains("/networks/") {
            ("403 Forbidden", r#"{"message":"error while removing network: n has active endpoints"}"#.to_string())
        } else if first.starts_with("DELETE") {
            ("409 Conflict", r#"{"message":"removal is in progress"}"#.to_string())
        } else if first.contains("/networks") {
            ("200 OK", format!(r#"[{{"Name":"redjepsen-gone","Id":"n","Labels":{LABELS}}}]"#))
        } else if first.contains("/containers/json") {
            ("200 OK", containers.to_string())
        } else {
            ("200 OK", "[]".to_string())
        };
        let body = body.replace('\n', "");
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
        if write!(stream, "{head}\r\n\r\n{body}").is_err() {
            return;
        }
    }
}

/// Cleans up all runs that this engine and an empty folder of temporary files have, whatever their owner.
fn clean(containers: String) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine");
    engine(&socket, containers);
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    command.args(["clean", "--all"]).env("TMPDIR", folder.path()).env("HOME", folder.path());
    command.env_remove("XDG_CACHE_HOME").env("DOCKER_HOST", format!("unix://{}", socket.display()));
    command.output().unwrap()
}

#[test]
fn a_network_that_the_engine_miscounts_is_kept_with_the_remedy() {
    let output = clean("[]".to_string());
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("kept run gone: ") && said.contains("restart the engine"), "{said}");
}

#[test]
fn a_network_with_a_container_that_stays_is_a_failure() {
    let output = clean(format!(r#"[{{"Id":"c","Names":["/redjepsen-gone-n0"],"State":"exited","Labels":{LABELS}}}]"#));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("not everything could be removed") && !said.contains("restart the engine"), "{said}");
}
