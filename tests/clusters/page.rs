//! The report's page, used in a real browser as a reader would: by mouse, by keys alone, narrow and dark, with a look at what it
//! asks for and logs, and at whether those who can't see it can use it. `tests/browser/report.mjs` does all that; here a run
//! is made for it, and what it needs is installed, each package in an exact version with its hash.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The first of these that is there.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run `./docker/setup test`"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}:\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A copy of what drives the browser, with its packages, which stays for the next time.
fn driver() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    fs::create_dir_all(&folder).unwrap();
    let is_there = fs::read(folder.join("package-lock.json")).ok() == fs::read(source.join("package-lock.json")).ok()
        && folder.join("node_modules").is_dir();
    for file in ["package.json", "package-lock.json", "report.mjs", "pages.mjs"] {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    if !is_there {
        done(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder));
    }
    folder
}

#[test]
fn a_report_works_in_a_browser() {
    let browser = BROWSERS.iter().find_map(|name| on_path(name)).expect("a Chromium; run `./docker/setup test`");
    let store = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args([
            "run",
            "--cluster",
            "sim",
            "--nemesis",
            "pause",
            "--time-limit",
            "12s",
            "--seed",
            "7",
            "--quiet",
            "--store",
        ])
        .arg(store.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1), "{}", String::from_utf8_lossy(&run.stderr));
    let (folder, report) = (driver(), store.path().join("latest/report.html"));
    let told = done(Command::new("node").arg("report.mjs").arg(&report).arg(&browser).current_dir(&folder));
    assert!(told.starts_with("the report works"), "{told}");
}

/// Ends what it started, whatever becomes of the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_pages_over_a_store_work_in_a_browser() {
    let browser = BROWSERS.iter().find_map(|name| on_path(name)).expect("a Chromium; run `./docker/setup test`");
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let redjepsen = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(args).current_dir(place.path()).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code <= 2), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for seed in ["7", "8", "9"] {
        for workload in ["redlock", "redlock-guarded"] {
            redjepsen(&[
                "run",
                "--cluster",
                "sim",
                "--workload",
                workload,
                "--nemesis",
                "pause",
                "--seed",
                seed,
                "--quiet",
            ]);
        }
    }
    redjepsen(&["sweep", "--cluster", "sim", "--ttl", "500ms,1s", "--quiet"]);
    redjepsen(&["compare", "store/redlock-guarded-pause", "store/redlock-pause", "--html", "compare.html", "--quiet"]);
    let sweep = fs::read_dir(store.join("suites/sweep-redlock-pause"))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().path().join("matrix.html")).filter(|page| page.is_file()));
    let sweep = sweep.last().expect("the page of a sweep");
    let server = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(["serve", "--port", "0", "store"])
        .current_dir(place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Served(server);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).expect("where it listens");
    let mut used = Command::new("node");
    used.arg("pages.mjs").arg(address).arg(&browser).arg(place.path().join("compare.html")).arg(sweep);
    let told = done(used.current_dir(driver()));
    assert!(told.starts_with("the pages work"), "{told}");
}
