//! `redjepsen serve`: its pages of a store, its refusals, the same pages as files, and the progress of a run.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use checker::Validity;
use report::foreign::{self, FileLook};
use report::matrix as pages;
use report::serve::{BoundServer, Names, export};
use suite::matrix::{Circumstances, Matrix};
use summary::store::live::{Events, LiveStatus};
use summary::store::sides;
use tempfile::TempDir;

use crate::pure::matrix::{cell, run as made, suite};

const RUN: &str = "redlock-pause/20260101T000000.000Z";
/// Hostile in every way in which a name can be.
const ODD: &str = "a\"><script>alert(1)<script>'&?#%2e%2e/20260102T000000.000Z";

/// A store with a run, a run with a hostile name, and files that do not belong to the store.
fn store() -> TempDir {
    let store = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = store.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(&format!("{RUN}/results.json"), &results("Redlock lost 3 of 100 acknowledged updates."));
    put(&format!("{RUN}/report.html"), "<!DOCTYPE html><p>the report");
    put(&format!("{RUN}/c0/client.log"), "its last words\n");
    put(&format!("{RUN}/.hidden"), "hidden");
    put(&format!("{ODD}/results.json"), &results("<img src=x onerror=alert(1)></script>"));
    put("secret.toml", "of the store, and of no run");
    symlink("/etc/passwd", store.path().join(RUN).join("passwd")).unwrap();
    symlink("/etc", store.path().join(RUN).join("etc")).unwrap();
    store
}

/// A run's results file with this summary.
fn results(summary: &str) -> String {
    format!(
        r#"{{"valid": false, "summary": {summary:?}, "lost_updates": {{"count": 3, "acknowledged": 100, "fraction": 0.03}},
        "mutual_exclusion": {{"violations": 2, "comparable_holds": 90}}, "lock": {{"tokens": 0, "token_regressions": 0,
        "reacquired_after_ns": null, "untold_losses": []}}, "first_violation_s": 1.5, "acknowledged_per_second": 9.0,
        "workload": "redlock", "nemesis": "pause", "seed": 7, "started": "2026-01-01T00:00:00Z", "busy_s": 12.5,
        "versions": {{"redjepsen": "0.1.0", "server": "redis 7.0.15"}}, "repeat": "redjepsen run --seed 7",
        "setting": [{{"name": "Locks live for", "text": "1s"}}]}}"#
    )
}

/// A server for a store, on its own thread until the test ends.
fn serve(store: &Path, names: &[&str]) -> SocketAddr {
    let names = Names(names.iter().map(|name| name.to_string()).collect());
    let (store, (sender, receiver)) = (store.to_path_buf(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let server = BoundServer::bind("127.0.0.1:0".parse().unwrap(), &store, names).await.unwrap();
            sender.send(server.address().unwrap()).unwrap();
            match server.run().await {}
        })
    });
    receiver.recv().unwrap()
}

/// Sends these bytes and returns the answer's status, head and body.
fn send(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    // A hang lasts longer than this. Not a measurement.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_lowercase(), body.to_string())
}

fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

#[test]
fn a_store_is_shown() {
    let store = store();
    let address = serve(store.path(), &[]);
    let (status, head, index) = get(address, "/");
    assert_eq!(status, 200, "{head}");
    assert!(index.contains("redlock under pause") && index.contains("3 of 100, 3%"), "{index}");
    assert!(index.contains("<h1 class=\"plain\">Violations in "), "{index}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "x-content-type-options: nosniff",
        "no-store",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(!head.contains("access-control"), "no origin is let in");
    let (status, _, run) = get(address, &format!("/runs/{RUN}.html"));
    assert_eq!(status, 200);
    assert!(
        run.contains("redjepsen run <span>--seed 7</span>")
            && run.contains("report.html")
            && run.contains("c0/client.log"),
        "{run}"
    );
    assert!(!run.contains("passwd") && !run.contains("/.hidden"), "{run}");
    let (status, head, log) = get(address, &format!("/files/{RUN}/c0/client.log"));
    assert_eq!((status, log.as_str()), (200, "its last words\n"));
    assert!(head.contains("content-type: text/plain") && head.contains("content-security-policy: sandbox;"), "{head}");
    // A report is foreign content: it may run only scripts with known hashes, and cannot reach the network.
    let (_, head, report) = get(address, &format!("/files/{RUN}/report.html"));
    let policy =
        "content-security-policy: sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'sha256-";
    assert!(head.contains(policy) && head.contains("x-dns-prefetch-control: off"), "{head}");
    assert!(!head.contains("connect-src") && head.matches("'unsafe-inline'").count() == 1, "styles alone: {head}");
    assert_eq!(report, "<!DOCTYPE html><p>the report");
    let head_only = format!("HEAD / HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n", address.port());
    let (status, head, body) = send(address, &head_only);
    assert!(status == 200 && body.is_empty() && head.contains("content-length"), "{head}");
    // By a name that the user gave, and by a link from another site.
    let named = serve(store.path(), &["ci.example.org"]);
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    let followed = format!("GET / HTTP/1.1\r\nHost: ci.example.org\r\n{link}Connection: close\r\n\r\n");
    assert_eq!(send(named, &followed).0, 200);
    assert_eq!(send(address, &followed).0, 421);
}

#[test]
fn a_hostile_name_is_shown_as_text_and_leads_to_its_own_page() {
    let store = store();
    let address = serve(store.path(), &[]);
    let (_, _, index) = get(address, "/");
    assert_eq!(index.matches("<script").count(), 2, "the data and the script, and nobody else's: {index}");
    let link = index.split("href=\"").find(|link| link.starts_with("runs/a%22")).unwrap();
    let (status, _, page) = get(address, &format!("/{}", link.split('"').next().unwrap()));
    assert_eq!(status, 200);
    assert!(page.contains("&lt;img src=x") && !page.contains("<img") && page.matches("<script").count() == 1, "{page}");
}

#[test]
fn twenty_hostile_requests_are_refused() {
    let store = store();
    let address = serve(store.path(), &[]);
    let (port, files) = (address.port(), format!("/files/{RUN}"));
    let by = |line: &str, headers: &str| format!("{line} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
    let ours = format!("Host: 127.0.0.1:{port}");
    let to = |path: &str| by(&format!("GET {path}"), &ours);
    let long = "a/".repeat(20_000);
    let requests: Vec<(&str, String, &[u16])> = vec![
        ("up and out", to("/files/../../../../etc/passwd"), &[404]),
        ("up in hexadecimal", to("/files/%2e%2e/%2e%2e/%2e%2e/etc/passwd"), &[404]),
        ("up with hexadecimal slashes", to(&format!("{files}/..%2f..%2f..%2fetc%2fpasswd")), &[404]),
        ("up, encoded twice", to(&format!("{files}/%252e%252e/secret.toml")), &[404]),
        ("up with backslashes", to(&format!("{files}/..%5c..%5csecret.toml")), &[404]),
        ("absolute", to("/files//etc/passwd"), &[404]),
        ("a link out of the store", to(&format!("{files}/passwd")), &[404]),
        ("through a link to a folder", to(&format!("{files}/etc/passwd")), &[404]),
        ("a hidden file", to(&format!("{files}/.hidden")), &[404]),
        ("a file of no run", to("/files/secret.toml"), &[404]),
        ("a folder as a file", to(&files), &[404]),
        ("with a zero in it", to(&format!("{files}/report.html%00.png")), &[404]),
        ("not UTF-8", to("/files/%ff%fe"), &[400]),
        ("another name for this address", by("GET /", &format!("Host: evil.example:{port}")), &[421]),
        ("a name that begins like ours", by("GET /", "Host: 127.0.0.1.evil.example"), &[421]),
        ("no host", by("GET /", "Accept: */*"), &[400, 421]),
        ("two hosts", by("GET /", &format!("{ours}\r\nHost: evil.example")), &[400]),
        ("another host in the address", by("GET http://evil.example/", &ours), &[400]),
        ("a script of another origin", by("GET /", &format!("{ours}\r\nOrigin: http://evil.example")), &[403]),
        ("a page in a sandbox", by("GET /", &format!("{ours}\r\nOrigin: null")), &[403]),
        (
            "a picture in another page",
            by("GET /", &format!("{ours}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors")),
            &[403],
        ),
        (
            "a frame in another page",
            by(
                "GET /",
                &format!("{ours}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe"),
            ),
            &[403],
        ),
        ("a post", by("POST /", &format!("{ours}\r\nContent-Length: 0")), &[405]),
        ("a deletion", by(&format!("DELETE {files}/report.html"), &ours), &[405]),
        ("questions about other origins", by("OPTIONS /", &format!("{ours}\r\nOrigin: http://evil.example")), &[405]),
        ("a tunnel", by("CONNECT evil.example:443", &ours), &[405]),
        ("an endless path", to(&format!("/files/{long}")), &[0, 404, 414, 431]),
        ("no HTTP", "\u{16}\u{3}\u{1}\r\n\r\n".to_string(), &[0, 400]),
    ];
    assert!(requests.len() >= 20);
    for (what, request, statuses) in &requests {
        let (status, head, body) = send(address, request);
        assert!(statuses.contains(&status), "{what}: {status} {head}");
        for secret in ["root:", "hidden", "of the store", "the report", "redlock"] {
            assert!(!body.contains(secret), "{what}: {body}");
        }
        assert!(!head.contains("access-control"), "{what}: {head}");
    }
    assert_eq!(get(address, "/").0, 200, "it goes on all the same");
    assert!(store.path().join(RUN).join("report.html").exists());
}

/// Foreign pages and drawings that would act, with their names.
const STRANGE: [(&str, &str); 6] = [
    ("connects.html", "<!DOCTYPE html><link rel=\"preconnect\" href=\"http://127.0.0.1:1/\"><p>x"),
    ("moves.html", "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url=http://127.0.0.1:1/\">"),
    ("handler.html", "<!DOCTYPE html><p onclick=\"x()\">x"),
    ("frame.html", "<!DOCTYPE html><iframe src=\"http://127.0.0.1:1/\"></iframe>"),
    ("script.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>x()</script></svg>"),
    (
        "link.svg",
        "<svg xmlns:h=\"http://www.w3.org/1999/xhtml\"><h:link rel=\"preconnect\" href=\"http://127.0.0.1:1/\"/></svg>",
    ),
];
/// A page that would reach the network by a script, and does nothing without it.
const SCRIPTED: &str =
    "<!DOCTYPE html><p>x</p><script>new RTCPeerConnection({iceServers:[{urls:\"stun:127.0.0.1:1\"}]})</script>";

#[test]
fn pages_of_strangers_run_nothing_and_those_that_need_no_script_to_connect_are_text() {
    let store = store();
    let run = store.path().join(RUN);
    for (name, text) in STRANGE {
        fs::write(run.join(name), text).unwrap();
    }
    fs::write(run.join("report.html"), SCRIPTED).unwrap();
    fs::write(run.join("drawing.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\"><g></g></svg>").unwrap();
    // The server does not check content beyond this length.
    fs::write(run.join("long.html"), format!("<!DOCTYPE html><p>{}", " ".repeat(17 << 20))).unwrap();
    let address = serve(store.path(), &[]);
    for (name, kind) in STRANGE.iter().map(|(name, _)| (*name, "text/plain")).chain([
        ("long.html", "text/plain"),
        ("report.html", "text/html"),
        ("drawing.svg", "image/svg+xml"),
    ]) {
        let (status, head, body) = get(address, &format!("/files/{RUN}/{name}"));
        assert_eq!(status, 200, "{name}: {head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{name}: {head}");
        assert!(head.contains("content-security-policy: sandbox; default-src 'none'; style-src"), "{name}: {head}");
        assert!(!head.contains("allow-scripts") && !head.contains("script-src"), "{name}: {head}");
        assert_eq!(body.len() as u64, fs::metadata(run.join(name)).unwrap().len(), "{name}: all of it");
    }
}

#[test]
fn pages_and_drawings_of_ours_pass_as_ours() {
    let folder = tempfile::tempdir().unwrap();
    let suite = "description = \"Small\"\nruns = 1\nwith = { time_limit = \"6s\" }\n[[cells]]\nworkload = [\"redlock\", \"replicated\", \
                 \"redlock-guarded\"]\nnemesis = [\"none\", \"pause\"]\n";
    fs::write(folder.path().join("small.toml"), suite).unwrap();
    for (command, code) in [
        ("run --cluster sim --nemesis pause --time-limit 12s --seed 7", 1),
        ("suite small.toml --cluster sim", 0),
        ("sweep --cluster sim --workload redlock --nemesis pause --ttl 500ms,1s --runs 1 --time-limit 8s", 0),
    ] {
        let mut program = Command::cargo_bin("redjepsen").unwrap();
        program.current_dir(folder.path()).args(command.split(' ')).arg("--quiet").assert().code(code);
    }
    let (mut folders, mut seen) = (vec![folder.path().join("store")], [0, 0]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            match path.extension().and_then(|ending| ending.to_str()) {
                _ if kind.is_dir() => folders.push(path),
                Some("html") if kind.is_file() => {
                    assert_eq!(
                        foreign::page(&fs::read_to_string(&path).unwrap()),
                        FileLook::Ours,
                        "{}",
                        path.display()
                    );
                    seen[0] += 1;
                }
                Some("svg") if kind.is_file() => {
                    assert!(foreign::is_our_drawing(&fs::read_to_string(&path).unwrap()), "{}", path.display());
                    seen[1] += 1;
                }
                _ => {}
            }
        }
    }
    assert!(seen[0] > 8 && seen[1] > 3, "{seen:?}");
}

#[test]
fn who_asks_and_does_not_read_keeps_nobody_else_waiting() {
    let store = store();
    fs::File::create(store.path().join(RUN).join("history.jsonl")).unwrap().set_len(64 << 20).unwrap();
    let address = serve(store.path(), &[]);
    let request = format!("GET /files/{RUN}/history.jsonl HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let silent: Vec<TcpStream> = (0..70)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(get(address, "/").0, 200, "others are answered");
    // A client that reads gets the whole file, at whatever speed.
    let mut reads = TcpStream::connect(address).unwrap();
    reads.write_all(request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let (mut part, mut all) = (vec![0; 1 << 20], 0);
    loop {
        match reads.read(&mut part).unwrap() {
            0 => break,
            read => all += read,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(all > 64 << 20, "{all}");
    drop(silent);
}

#[test]
fn an_export_has_nothing_of_strangers_that_does_something() {
    let (store, into) = (store(), tempfile::tempdir().unwrap());
    let run = store.path().join(RUN);
    for (name, text) in STRANGE {
        fs::write(run.join(name), text).unwrap();
    }
    fs::write(run.join("report.html"), SCRIPTED).unwrap();
    fs::write(run.join("drawing.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\"><g></g></svg>").unwrap();
    let others = [
        ("page.xml", "<x:script xmlns:x=\"http://www.w3.org/1999/xhtml\">x()</x:script>"),
        ("page.xhtml", "<html xmlns=\"http://www.w3.org/1999/xhtml\"></html>"),
        ("page.htm", "<p>x"),
        ("page", "<p>x"),
        ("page.html.log", "x"),
        ("page.php.txt", "<?php x(); ?>"),
        ("page.log", " \n<html>"),
        ("page.json", "\u{feff}<html>"),
        ("page.js", "x()"),
    ];
    for (name, text) in others {
        fs::write(run.join(name), text).unwrap();
    }
    for name in ["redis-7.0.log", "notes.md"] {
        fs::write(run.join(name), "# as it is <b>\n").unwrap();
    }
    // A suite run's page is regenerated from its matrix.
    let night = store.path().join("suites/smoke/20260104T000000.000Z");
    fs::create_dir_all(&night).unwrap();
    let cell = cell("redlock", "pause", None, 1);
    let matrix =
        Matrix::new(&suite(vec![cell.clone()]), &[made(&cell, 1, Some(Validity::Valid))], Circumstances::default());
    pages::write(&night, &matrix).unwrap();
    for name in ["matrix.html", "junit.xml", "matrix.md"] {
        fs::write(night.join(name), STRANGE[0].1).unwrap();
    }
    let pages = into.path().join("pages");
    let done = export(store.path(), &pages, &|| false).unwrap();
    assert!(done.left_out.is_empty(), "{done:?}");
    let read = |name: &str| fs::read_to_string(pages.join("files").join(RUN).join(name));
    for (name, _) in STRANGE.iter().chain(&others) {
        assert!(read(name).is_err(), "{name}");
    }
    let report = read("report.html").unwrap();
    assert!(
        report
            .starts_with("<!DOCTYPE html><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ")
    );
    assert!(report.ends_with(&SCRIPTED["<!DOCTYPE html>".len()..]), "{report}");
    for name in ["drawing.svg", "redis-7.0.log", "notes.md", "c0/client.log", "results.json"] {
        assert_eq!(read(name).unwrap(), fs::read_to_string(run.join(name)).unwrap(), "{name}");
    }
    for name in ["matrix.html", "matrix.json", "matrix.md", "matrix.csv", "junit.xml"] {
        let text = fs::read_to_string(pages.join("files/suites/smoke/20260104T000000.000Z").join(name)).unwrap();
        assert!(!text.contains("preconnect") && text.contains("redlock"), "{name}: {text}");
    }
    let page = fs::read_to_string(pages.join(format!("runs/{RUN}.html"))).unwrap();
    assert!(
        page.contains("connects.html")
            && !page.contains("href=\"../../files/redlock-pause/20260101T000000.000Z/connects.html")
    );
}

#[test]
fn a_strange_name_is_left_out_of_an_export_and_the_rest_is_written() {
    let (store, into) = (store(), tempfile::tempdir().unwrap());
    let put = |path: &str| {
        fs::create_dir_all(store.path().join(path)).unwrap();
        fs::write(store.path().join(path).join("results.json"), results("It lost some.")).unwrap();
    };
    let long = "r".repeat(252);
    for path in [&format!("a/{long}")[..], "b/x", "b/x.html/z", "c/y", &format!("{long}/z")] {
        put(path);
    }
    let deep = vec!["d".repeat(250); 8].join("/");
    put(&deep);
    for (number, name) in ["s".repeat(300), "a/../b".into(), ".hidden".into(), "good".into()].into_iter().enumerate() {
        let night = store.path().join(format!("suites/x/2026010{number}T000000.000Z"));
        fs::create_dir_all(&night).unwrap();
        let mut suite = suite(vec![]);
        suite.name = name;
        fs::write(night.join("matrix.json"), pages::json(&Matrix::new(&suite, &[], Circumstances::default()))).unwrap();
    }
    let out = into.path().join("pages");
    let done = export(store.path(), &out, &|| false).unwrap();
    let named = |name: &str| done.left_out.iter().any(|path| path.contains(name));
    assert!(named(&format!("runs/a/{long}.html")) && named(&"s".repeat(300)) && named("a/../b"), "{done:?}");
    assert!(named("runs/b/x.html"), "one of the two that can't lie beside each other: {done:?}");
    for page in [
        "index.html",
        "runs/c/y.html",
        "suites/good.html",
        &format!("runs/{long}/z.html"),
        &format!("runs/{deep}.html"),
    ] {
        assert!(out.join(page).is_file(), "{page}");
    }
    assert!(
        out.join(format!("runs/{RUN}.html")).is_file() && out.join(format!("files/a/{long}/results.json")).is_file()
    );
}

#[test]
fn an_export_is_whole_or_nothing_and_none_lies_in_its_store() {
    let (store, place) = (store(), tempfile::tempdir().unwrap());
    let names = |folder: &Path| {
        let names =
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let (new, empty) = (place.path().join("new"), place.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    for after in 0..5 {
        let asked = std::cell::Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) >= after;
        for into in [&new, &empty] {
            asked.set(0);
            let error = export(store.path(), into, &is_over).unwrap_err().to_string();
            assert!(error.contains("interrupted; everything written so far was removed"), "{error}");
        }
        assert_eq!((names(place.path()), names(&empty)), (vec!["empty".to_string()], vec![]), "{after}");
    }
    // Leftovers of a killed export are removed; other files stay.
    let left = empty.join(".redjepsen-export.new/files");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("half"), "half").unwrap();
    for into in [&new, &empty] {
        export(store.path(), into, &|| false).unwrap();
        assert_eq!(names(into), ["files", "index.html", "runs"]);
    }
    let mine = place.path().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("notes"), "mine").unwrap();
    assert!(export(store.path(), &mine, &|| false).unwrap_err().to_string().contains("it is not empty"));
    assert_eq!(names(&mine), ["notes"]);
    // By any path.
    let before = names(store.path());
    symlink(store.path(), place.path().join("link")).unwrap();
    for into in [store.path().join("pages"), store.path().join("redlock-pause/pages"), place.path().join("link/pages")]
    {
        let error = export(store.path(), &into, &|| false).unwrap_err().to_string();
        assert!(error.contains("it is inside the store") && !into.exists(), "{error}");
    }
    assert_eq!(names(store.path()), before);
}

#[test]
fn the_same_pages_are_written_as_files_and_nothing_from_elsewhere() {
    let store = store();
    fs::write(store.path().join(RUN).join("history.jsonl"), vec![b'x'; 2 << 20]).unwrap();
    let into = tempfile::tempdir().unwrap();
    let done = export(store.path(), &into.path().join("pages"), &|| false).unwrap();
    assert_eq!(done.pages, 3, "all runs, and two of them");
    let page = |path: &str| fs::read_to_string(into.path().join("pages").join(path));
    let index = page("index.html").unwrap();
    assert!(index.contains("Content-Security-Policy") && !index.contains("data-look="), "{index}");
    let run = page(&format!("runs/{RUN}.html")).unwrap();
    assert!(run.contains(&format!("../../files/{RUN}/report.html")) && run.contains("in the store only"), "{run}");
    let report = page(&format!("files/{RUN}/report.html")).unwrap();
    let policy =
        "<!DOCTYPE html><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-";
    assert!(report.starts_with(policy) && report.ends_with("<p>the report"), "{report}");
    for path in ["history.jsonl", "passwd", "etc/passwd", ".hidden"] {
        assert!(page(&format!("files/{RUN}/{path}")).is_err(), "{path}");
    }
    let again = export(store.path(), &into.path().join("pages"), &|| false).unwrap_err().to_string();
    assert!(again.contains("not empty"), "{again}");
}

#[test]
fn a_night_has_its_own_runs_and_none_from_elsewhere() {
    let (night, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for home in [night.path(), elsewhere.path()] {
        fs::create_dir_all(home.join("runs/x/1")).unwrap();
        fs::write(home.join("runs/x/1/results.json"), results("It lost some.")).unwrap();
    }
    symlink(elsewhere.path().join("runs"), night.path().join("linked")).unwrap();
    symlink(elsewhere.path().join("runs/x/1"), night.path().join("runs/x/latest")).unwrap();
    let absolute = elsewhere.path().join("runs/x/1").display().to_string();
    let up = format!("../{}/runs/x/1", elsewhere.path().file_name().unwrap().display());
    let cell = cell("redlock", "pause", None, 1);
    for (folder, is_its_own) in [
        ("runs/x/1", true),
        (&absolute, false),
        (&up, false),
        ("linked/x/1", false),
        ("runs/x/latest", false),
        ("", false),
    ] {
        let mut made = made(&cell, 1, Some(Validity::Invalid));
        made.folder = folder.to_string();
        let matrix = Matrix::new(&suite(vec![cell.clone()]), &[made], Circumstances::default());
        fs::write(night.path().join("matrix.json"), pages::json(&matrix)).unwrap();
        let side = sides::read(&night.path().display().to_string()).unwrap();
        assert_eq!(!side.cells[0].setting.is_empty(), is_its_own, "{folder}");
        assert_eq!(side.cells[0].runs.len(), 1, "what the matrix says of it counts in any case");
    }
}

#[test]
fn a_run_is_seen_while_it_goes_and_told_as_ended_after() {
    let store = store();
    let going = store.path().join("redlock-pause/20260103T000000.000Z");
    fs::create_dir_all(&going).unwrap();
    fs::write(going.join("history.jsonl"), "").unwrap();
    let mut events = Events::begin(&going).unwrap();
    let moment = LiveStatus {
        workload: "redlock".into(),
        nemesis: "pause".into(),
        stage: "running".into(),
        at_s: Some(12.0),
        of_s: Some(30.0),
        ok: 41,
        faults: vec!["pause client:3 <b>".into()],
        ..LiveStatus::default()
    };
    events.write(&moment).unwrap();
    let page = "/runs/redlock-pause/20260103T000000.000Z.html";
    let (_, _, body) = get(serve(store.path(), &[]), page);
    assert!(body.contains("IN PROGRESS") && body.contains("running · 12 of 30 s · 41 updates"), "{body}");
    assert!(body.contains("data-look=") && body.contains("pause client:3 &lt;b&gt;"), "{body}");
    drop(events);
    let (_, _, body) = get(serve(store.path(), &[]), page);
    assert!(body.contains("BROKEN OFF") && body.contains("without results. Its last reported state"), "{body}");
    assert!(!body.contains("data-look=") && !body.contains("Remove the reason"), "{body}");
}

#[test]
fn a_run_that_could_not_begin_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::cargo_bin("redjepsen").unwrap();
    let words = "run --cluster sim --workload single --nemesis blocked-holder --quiet";
    command.current_dir(folder.path()).args(words.split(' ')).assert().code(255);
    let pages = tempfile::tempdir().unwrap();
    export(&folder.path().join("store"), &pages.path().join("pages"), &|| false).unwrap();
    let runs = pages.path().join("pages/runs/single-blocked-holder");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let page = fs::read_to_string(run).unwrap();
    assert!(page.contains("BROKEN OFF") && page.contains("needs the capability <code>block</code>"), "{page}");
    assert!(page.contains("Remove the reason above first"), "{page}");
    let log = fs::read_to_string(folder.path().join("store/latest/redjepsen.log")).unwrap();
    assert!(log.contains("needs the capability `block`"), "{log}");
}

#[test]
fn a_real_run_tells_how_it_goes_and_what_it_came_to() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let mut command = Command::cargo_bin("redjepsen").unwrap();
        command.current_dir(folder.path()).args(arguments.split(' ')).output().unwrap()
    };
    let output = run("run --cluster sim --nemesis pause --time-limit 8s --seed 7 --quiet --json");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert!(summary["latency"]["median_ms"].as_f64().unwrap() > 0.0, "{summary}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = fs::read_to_string(folder.path().join("store/latest/results.json")).unwrap();
    assert_eq!(written, String::from_utf8(output.stdout).unwrap(), "the same as in its folder");
    let events = fs::read_to_string(folder.path().join("store/latest/events.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["stage"], &last["valid"], &last["ok"]),
        (&"done".into(), &summary["valid"], &summary["counts"]["ok"])
    );
    assert_eq!(last["overlaps"], summary["mutual_exclusion"]["violations"]);

    // Then compared with itself, and with too few runs.
    let compared = run("compare store/latest store/latest");
    assert_eq!(compared.status.code(), Some(2), "one run of each shows nothing");
    assert!(String::from_utf8(compared.stdout).unwrap().starts_with("TOO FEW RUNS  "));
    let nothing = run("compare store/latest store/none");
    assert_eq!(nothing.status.code(), Some(254));
}

#[test]
fn a_sweep_is_a_cell_for_each_value_a_plot_and_sides_to_compare() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let mut command = Command::cargo_bin("redjepsen").unwrap();
        let words = shlex::split(arguments).unwrap();
        let output = command.current_dir(folder.path()).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap(), said)
    };
    let pauses = "description = \"a pause of a second\"\nstory = \"as it says\"\n[[faults]]\nfault = \"pause holder\"\nevery = \"2s..3s\"\nfor = \"1s\"\n";
    fs::write(folder.path().join("pauses.toml"), pauses).unwrap();
    let (code, said) = run(
        "sweep --cluster sim --workload redlock --nemesis ./pauses.toml --ttl 300ms,3s --runs 3 --time-limit 12s --jobs 2",
    );
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("redlock under pauses by ttl") && said.contains("ttl 300ms: failed in"), "{said}");
    let night = folder.path().join("store/suites/sweep-redlock-pauses/latest");
    let page = fs::read_to_string(night.join("matrix.html")).unwrap();
    assert!(page.contains("id=\"sweeps\"") && page.contains("updates lost, %"), "the plot is on the page");
    assert!(page.contains("OBSERVED") && page.contains("2 cells side by side"), "a sweep is no failure");
    let pages = tempfile::tempdir().unwrap();
    export(&folder.path().join("store"), &pages.path().join("pages"), &|| false).unwrap();
    for list in ["index.html", "suites/sweep-redlock-pauses.html"] {
        let list = fs::read_to_string(pages.path().join("pages").join(list)).unwrap();
        assert!(list.contains(">observed<") && list.contains("2 cells side by side"), "as its own page says: {list}");
        assert!(!list.contains("the suite proves nothing"), "{list}");
    }
    let answer = |counts: (&str, &str)| {
        let path = night.join("matrix.json");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace(counts.0, counts.1)).unwrap();
        let pages = tempfile::tempdir().unwrap();
        export(&folder.path().join("store"), &pages.path().join("pages"), &|| false).unwrap();
        fs::read_to_string(pages.path().join("pages/index.html")).unwrap()
    };
    let (whole, missing) = ("\"observed\": 2", "\"observed\": 1");
    assert!(answer((whole, whole)).contains(">No unexpected results<"), "a complete sweep misses nothing");
    assert!(answer((whole, missing)).contains(">Results are missing in sweep-redlock-pauses<"));
    answer((missing, whole));
    let cell = |ttl: &str| format!("'store/suites/sweep-redlock-pauses/latest#redlock under pauses with ttl {ttl}'");
    let (code, said) = run(&format!("compare {} {}", cell("300ms"), cell("300ms")));
    assert_eq!(code, 0, "the same is not worse: {said}");
    let (code, said) = run(&format!("compare {} {}", cell("3s"), cell("300ms")));
    assert_eq!((code, said.starts_with("WORSE  ")), (1, true), "{said}");
    assert!(said.contains("lock's TTL"), "what they differ in: {said}");
    let (code, said) = run(&format!("compare {} {} --json", cell("300ms"), cell("3s")));
    assert!(code == 0 && said.contains("\"verdict\": \"not-worse\""), "{said}");
    let (code, said) = run("compare store/suites/sweep-redlock-pauses/latest '#none'");
    assert!(code == 254 && said.contains("no such folder"), "{said}");
    let (code, said) = run("sweep --cluster sim --ttl 1s");
    assert!(code == 254 && said.contains("--ttl 1s,2s,5s"), "{said}");
}

#[test]
fn a_library_whose_files_changed_is_named_and_not_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let redjepsen = |arguments: &str| {
        let mut command = Command::cargo_bin("redjepsen").unwrap();
        command.current_dir(folder.path()).args(arguments.split(' ')).output().unwrap()
    };
    let suite = "description = \"d\"\n[[cells]]\nworkload = \"single\"\nnemesis = \"none\"\nruns = 1\n";
    fs::write(folder.path().join("s.toml"), suite).unwrap();
    redjepsen("suite ./s.toml --cluster sim --time-limit 2s");
    let nights = folder.path().join("store/suites/s");
    let first = fs::read_dir(&nights).unwrap().flatten().find(|entry| !entry.path().is_symlink()).unwrap().path();
    let read =
        || serde_json::from_str::<serde_json::Value>(&fs::read_to_string(first.join("matrix.json")).unwrap()).unwrap();
    // Two runs of a library's suite. In the second, the library's files differ, and so does the suite's hash, but not the hash of
    // its tests.
    let night = |path: &Path, sources: &str, suite: &str, tests: &str| {
        let mut matrix = read();
        matrix["versions"]["sources of naivelock"] = sources.into();
        matrix["suite_sha256"] = suite.into();
        matrix["tests_sha256"] = tests.into();
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("matrix.json"), matrix.to_string()).unwrap();
    };
    let shown = |tests: &str| {
        let second = nights.join("29990101T000000.000Z");
        night(&first, "1111aaaa1111", "one", "same");
        night(&second, "2222bbbb2222", "two", tests);
        let pages = tempfile::tempdir().unwrap();
        export(&folder.path().join("store"), &pages.path().join("pages"), &|| false).unwrap();
        let list = fs::read_to_string(pages.path().join("pages/suites/s.html")).unwrap();
        let output = redjepsen(&format!("compare {} {}", first.display(), second.display()));
        (list, String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (list, compared) = shown("same");
    assert!(list.contains("<mark>sources of naivelock 2222bbbb2222</mark>"), "{list}");
    assert!(!list.contains("the suite's file"), "{list}");
    for hash in ["sources of naivelock", "1111aaaa1111", "2222bbbb2222"] {
        assert!(compared.contains(hash), "{hash}: {compared}");
    }
    let (list, _) = shown("other");
    assert!(list.contains("the suite's file"), "its tests changed as well: {list}");
}

/// Run with `cargo test --test offline ten_thousand -- --ignored --nocapture`, preferably with `--release`.
#[test]
#[ignore = "prints how long answers take over a store of 10,000 runs, in a minute"]
fn answers_over_ten_thousand_runs_are_measured() {
    let one = store();
    let results = fs::read(one.path().join(RUN).join("results.json")).unwrap();
    let store = tempfile::tempdir().unwrap();
    let runs =
        (0..9_000).map(|number| format!("lock{}-pause/202601{:02}T{:06}.000Z", number % 40, 1 + number % 28, number));
    let of_nights = (0..1_000).map(|number| {
        format!(
            "suites/mine/202601{:02}T000000.000Z/runs/lock{}-pause/20260101T{number:06}.000Z",
            1 + number % 28,
            number % 40
        )
    });
    for run in runs.chain(of_nights) {
        let folder = store.path().join(run);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("results.json"), &results).unwrap();
        fs::write(folder.join("report.html"), "x").unwrap();
    }
    let began = std::time::Instant::now();
    let snapshot = summary::store::Store::new(store.path());
    let found = snapshot.snapshot().runs.len();
    println!("{found} runs read in {:?}", began.elapsed());
    let address = serve(store.path(), &[]);
    get(address, "/");
    for path in
        ["/", "/runs/lock0-pause/20260101T000000.000Z.html", "/files/lock0-pause/20260101T000000.000Z/report.html"]
    {
        for pause in [0, 1100] {
            std::thread::sleep(Duration::from_millis(pause));
            let began = std::time::Instant::now();
            let (status, _, body) = get(address, path);
            let what = if pause == 0 { "again within a second" } else { "after a new look at the store" };
            println!("{path}: {status}, {} kB in {:?}, {what}", body.len() / 1000, began.elapsed());
        }
    }
}
