//! The pages of a run and of a suite, used in a real browser as a reader would: by mouse, by keys alone, narrow and dark, with a look
//! at what they ask for and log, and at whether those who can't see them can use them. `tests/browser` does all that; here a run and
//! a suite are made for it, and what it needs is installed, each package in an exact version with its hash.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

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
    for file in ["package.json", "package-lock.json", "kit.mjs", "matrix.mjs", "report.mjs"] {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    if !is_there {
        done(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder));
    }
    folder
}

/// Makes what a page is written for, by these arguments, which ends with this code, and uses the page.
fn used(arguments: &[&str], code: i32, page: &str, script: &str) {
    // Two at once would install the packages into each other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let browser = BROWSERS.iter().find_map(|name| on_path(name)).expect("a Chromium; run `./docker/setup test`");
    let store = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(arguments).arg("--store").arg(store.path()).output();
    let made = made.unwrap();
    assert_eq!(made.status.code(), Some(code), "{}", String::from_utf8_lossy(&made.stderr));
    let told = done(Command::new("node").arg(script).arg(store.path().join(page)).arg(&browser).current_dir(driver()));
    assert!(told.contains(" works in "), "{told}");
}

#[test]
fn a_report_works_in_a_browser() {
    let run = ["run", "--cluster", "sim", "--nemesis", "pause", "--time-limit", "12s", "--seed", "7", "--quiet"];
    used(&run, 1, "latest/report.html", "report.mjs");
}

#[test]
fn a_matrix_works_in_a_browser() {
    let suite = tempfile::Builder::new().prefix("differs-").suffix(".toml").tempfile().unwrap();
    // Locks of ours that break where this says that they do not, and some that hold.
    let cells = "description = \"Some of it not as expected\"\n[with]\ntime_limit = \"4s\"\n[[cells]]\n\
                 workload = [\"single\", \"redlock-guarded\", \"fenced\"]\n\
                 nemesis = [\"none\", \"pause-before-write\"]\nexpect = \"valid\"\n";
    fs::write(suite.path(), cells).unwrap();
    let path = suite.path().to_str().unwrap();
    let name = suite.path().file_stem().unwrap().to_str().unwrap();
    let page = format!("suites/{name}/latest/matrix.html");
    used(&["suite", path, "--cluster", "sim", "--quiet"], 1, &page, "matrix.mjs");
}
