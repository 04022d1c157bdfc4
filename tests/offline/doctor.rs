//! `redjepsen doctor` as users see it: exit codes, refusals, and no password in any output. Its findings on real servers are
//! tested in crates/doctor/tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

const SECRET: &str = "hunter2-hunter2";

fn doctor() -> Command {
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    command.arg("doctor").env_remove("REDISCLI_AUTH");
    command
}

/// The words of the next command.
fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = || {
        let mut text = String::new();
        reader.read_line(&mut text).ok().filter(|read| *read > 0)?;
        Some(text.trim_end().to_string())
    };
    let number: usize = line()?.trim_start_matches('*').parse().ok()?;
    (0..number).map(|_| line().and_then(|_| line())).collect()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A server with this INFO text and this setting of appendfsync. With an empty text, it refuses both.
fn server(info: &'static str, fsync: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let serve = move |stream: TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some(words) = command(&mut reader) {
            let reply = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["AUTH", .., password] if *password != SECRET => "-WRONGPASS no\r\n".to_string(),
                ["INFO", ..] if !info.is_empty() => bulk(info),
                ["CONFIG", "GET", "appendfsync"] if !fsync.is_empty() => {
                    format!("*2\r\n{}{}", bulk("appendfsync"), bulk(fsync))
                }
                ["SET", _, "b", ..] => "$-1\r\n".to_string(),
                ["SET", ..] | ["AUTH", ..] => "+OK\r\n".to_string(),
                ["GET", ..] => bulk("a"),
                ["PTTL", ..] => ":9\r\n".to_string(),
                ["DEL", ..] => ":1\r\n".to_string(),
                _ => format!("-ERR unknown command '{}', with args beginning with: '{SECRET}'\r\n", words[0]),
            };
            if writer.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

const PRIMARY: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:a\r\nrole:master\r\nconnected_slaves:0\r\n\
                       maxmemory:0\r\nused_memory:1\r\nmaxmemory_policy:noeviction\r\n";

#[test]
fn exit_code_says_whether_something_loses_locks() {
    let synced: &'static str = Box::leak(format!("{PRIMARY}aof_enabled:1\r\n").into_boxed_str());
    let unsaved: &'static str = Box::leak(format!("{PRIMARY}aof_enabled:0\r\n").into_boxed_str());
    for (info, fsync, code, word) in [
        (synced, "always", 0, "NOTHING FOUND"),
        (synced, "everysec", 1, "LOSES LOCKS"),
        (unsaved, "always", 1, "LOSES LOCKS"),
        (synced, "", 2, "COULD NOT TELL"),
        ("", "", 2, "COULD NOT TELL"),
    ] {
        let url = server(info, fsync);
        let silent = || contains(SECRET).not();
        let assert = doctor().arg(&url).env("REDISCLI_AUTH", SECRET).assert().code(code);
        assert.stdout(contains(word).and(silent())).stderr("");
        let assert = doctor().args([url.as_str(), "--json"]).env("REDISCLI_AUTH", SECRET).assert().code(code);
        let out = assert.stdout(silent()).get_output().stdout.clone();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["verdict"].as_str().unwrap().to_uppercase().replace('-', " "), word);
        assert!(json["observations"]["servers"].is_array() && json["locks"].is_array());
        let file = tempfile::NamedTempFile::new().unwrap();
        let page = [&url, "--page", file.path().to_str().unwrap()];
        doctor().args(page).env("REDISCLI_AUTH", SECRET).assert().code(code);
        let page = std::fs::read_to_string(file.path()).unwrap();
        // The page contains the printed findings.
        assert!(page.contains(word) && page.contains("<td><code>SET NX PX</code>"), "{page}");
        assert!(!page.contains(SECRET) && !page.contains("<script src"), "{page}");
        let first = json["findings"][0]["sentence"].as_str().map(|text| text.split('`').next().unwrap().to_string());
        assert!(page.contains(&first.unwrap_or_default()), "{page}");
    }
    let nowhere = doctor().args([server("", "").as_str(), "--page", "/nonexistent/page.html"]).assert().code(255);
    nowhere.stderr(contains("/nonexistent/page.html"));
    // A port where nothing listens.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let assert = doctor().arg(format!("redis://{closed}")).assert().code(255);
    assert.stdout(contains("NOT REACHED").and(contains("refused")));
}

#[test]
fn password_comes_from_the_environment_a_file_or_standard_input() {
    let url = server(PRIMARY, "always");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let file = file.to_str().unwrap();
    let reached = || contains("Redis 7.0.15, primary");
    doctor().arg(&url).env("REDISCLI_AUTH", SECRET).assert().stdout(reached());
    doctor().args([&url, "--password-file", file]).assert().stdout(reached());
    doctor().args([&url, "--ask-password"]).write_stdin(format!("{SECRET}\n")).assert().stdout(reached());
    for wrong in ["hunter3", "hunter2"] {
        let assert = doctor().arg(&url).env("REDISCLI_AUTH", wrong).assert().code(255);
        assert.stdout(contains("rejects the password").and(contains(wrong).not()));
    }
    std::fs::write(file, "\n").unwrap();
    doctor().args([&url, "--password-file", file]).assert().code(254).stderr(contains("the first line is empty"));
    doctor().args([&url, "--ask-password"]).write_stdin("").assert().code(254).stderr(contains("no password"));
}

#[test]
fn password_on_the_command_line_is_refused_and_not_repeated() {
    for arguments in [
        &["redis://:hunter2-hunter2@h"][..],
        &["redis://app:hunter2-hunter2@h:6379/0"],
        &["rediss://h", "redis://a:hunter2-hunter2@b@h"],
        &["--sentinel", "m", "redis://:hunter2-hunter2@h"],
        &["hunter2-hunter2@h"],
    ] {
        let assert = doctor().args(arguments).assert().code(254);
        assert.stdout("").stderr(contains("REDISCLI_AUTH").and(contains(SECRET).not()));
    }
    // Flags that do not exist.
    for arguments in [&["redis://h", "--password=hunter2-hunter2"][..], &["redis://h", "--pass=hunter2-hunter2"]] {
        doctor().args(arguments).assert().code(254).stdout("").stderr(contains(SECRET).not());
    }
}

#[test]
fn flags_that_do_not_fit_are_refused_with_what_to_write() {
    for (arguments, words) in [
        (&["localhost:6379"][..], "expected redis://host:port"),
        (&["redis://h", "--ca", "ca.pem"], "write rediss://"),
        (&["redis://h", "--insecure"], "write rediss://"),
        (&["rediss://h", "--ca", "/nonexistent.pem"], "--ca /nonexistent.pem"),
        (&["rediss://h", "--cert", "c.pem"], "--key"),
        (&["redis://h", "--prefix", "a{b}"], "no braces"),
        (&["redis://h", "--ttl", "soon"], "--ttl"),
        (&["redis://h", "--password-file", "/nonexistent"], "--password-file /nonexistent"),
        (&[], "ADDRESS"),
    ] {
        doctor().args(arguments).assert().code(254).stderr(contains(words));
    }
}

#[test]
fn a_lock_is_tried_only_with_the_users_word_and_on_servers_that_answer() {
    let address = "redis://127.0.0.1:1";
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().join("runs");
    doctor().args([address, "--try", "single"]).assert().code(254).stderr(contains("--allow-writes"));
    doctor()
        .args([address, "--try", "singel", "--allow-writes"])
        .assert()
        .code(254)
        .stderr(contains("did you mean `single`"));
    doctor()
        .args([address, "--try", "postgres", "--allow-writes"])
        .assert()
        .code(254)
        .stderr(contains("no lock on Redis"));
    let tried = [address, "--try", "single", "--allow-writes", "--store", folder.to_str().unwrap()];
    doctor().args(tried).assert().code(255).stdout(contains("NOT REACHED"));
    assert!(!folder.exists(), "no run begins");
}
