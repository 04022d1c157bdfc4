//! Tests the pages of a run, of a suite and of a store in a real browser, as a reader would use them. The scripts use the pages
//! by mouse, by keyboard alone, narrow and dark. They also check the pages' requests and logs, and their accessibility. This file
//! makes the runs and suites, and installs the packages, each in an exact version with its hash.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The first of these programs on PATH is used.
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

/// A copy of the scripts with their packages, kept for the next time.
fn driver() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    fs::create_dir_all(&folder).unwrap();
    let is_there = fs::read(folder.join("package-lock.json")).ok() == fs::read(source.join("package-lock.json")).ok()
        && folder.join("node_modules").is_dir();
    for file in
        ["package.json", "package-lock.json", "kit.mjs", "matrix.mjs", "pages.mjs", "report.mjs", "strangers.mjs"]
    {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    if !is_there {
        done(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder));
    }
    folder
}

/// Runs a script of `tests/browser` on a page. `more` are further arguments after the browser's path.
fn browse(script: &str, page: &str, more: &[&Path]) {
    // Two tests at once would install packages into each other's folder.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let browser = BROWSERS.iter().find_map(|name| on_path(name)).expect("a Chromium; run `./docker/setup test`");
    let told = done(Command::new("node").args([script, page]).arg(&browser).args(more).current_dir(driver()));
    assert!(told.contains(" work in ") || told.contains(" works in "), "{told}");
}

/// Runs the program with these arguments, expects this exit code, and uses the page that it wrote.
fn used(arguments: &[&str], code: i32, page: &str, script: &str) {
    let store = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(arguments).arg("--store").arg(store.path()).output();
    let made = made.unwrap();
    assert_eq!(made.status.code(), Some(code), "{}", String::from_utf8_lossy(&made.stderr));
    browse(script, store.path().join(page).to_str().unwrap(), &[]);
}

#[test]
fn a_report_works_in_a_browser() {
    let run = ["run", "--cluster", "sim", "--nemesis", "pause", "--time-limit", "12s", "--seed", "7", "--quiet"];
    used(&run, 1, "latest/report.html", "report.mjs");
}

#[test]
fn a_matrix_works_in_a_browser() {
    let suite = tempfile::Builder::new().prefix("differs-").suffix(".toml").tempfile().unwrap();
    // Some reference locks fail where the suite expects them to pass, and some pass.
    let cells = "description = \"Some of it not as expected\"\n[with]\ntime_limit = \"4s\"\n[[cells]]\n\
                 workload = [\"single\", \"redlock-guarded\", \"fenced\"]\n\
                 nemesis = [\"none\", \"pause-before-write\"]\nexpect = \"valid\"\n";
    fs::write(suite.path(), cells).unwrap();
    let path = suite.path().to_str().unwrap();
    let name = suite.path().file_stem().unwrap().to_str().unwrap();
    let page = format!("suites/{name}/latest/matrix.html");
    used(&["suite", path, "--cluster", "sim", "--quiet"], 1, &page, "matrix.mjs");
}

/// Ends the process when dropped, whatever the result of the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `redjepsen serve` over the store in this folder, and its address.
fn serve(place: &Path) -> (Served, String) {
    let server = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(["serve", "--port", "0", "store"])
        .current_dir(place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Served(server);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).expect("where it listens");
    (server, address.to_string())
}

#[test]
fn pages_of_strangers_reach_nothing_from_a_browser() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("store/theirs/20260101T000000.000Z");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("history.jsonl"), "").unwrap();
    // Listeners for forbidden connections, by TCP and by UDP. The first pair is for a page without protection.
    let traps = [0, 1].map(|_| {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        (tcp, udp)
    });
    let pages = |trap: &(TcpListener, UdpSocket)| {
        let (tcp, udp) = (trap.0.local_addr().unwrap(), trap.1.local_addr().unwrap());
        let script = |text: String| format!("<!DOCTYPE html><p>x</p><script>{text}</script>");
        let rtc = format!(
            "const c = new RTCPeerConnection({{iceServers:[{{urls:\"stun:{udp}\"}}]}}); c.createDataChannel(\"x\"); \
             c.createOffer().then((offer) => c.setLocalDescription(offer));"
        );
        [
            ("preconnect.html", format!("<!DOCTYPE html><link rel=\"preconnect\" href=\"http://{tcp}/\"><p>x")),
            ("prefetch.html", format!("<!DOCTYPE html><link rel=\"prefetch\" href=\"http://{tcp}/\"><p>x")),
            (
                "refresh.html",
                format!("<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url=http://{tcp}/\"><p>x"),
            ),
            ("frame.html", format!("<!DOCTYPE html><iframe src=\"http://{tcp}/\"></iframe>")),
            ("object.html", format!("<!DOCTYPE html><object data=\"http://{tcp}/\"></object>")),
            ("link.html", format!("<!DOCTYPE html><a href=\"http://{tcp}/\">x</a>")),
            ("location.html", script(format!("location = \"http://{tcp}/?secret\""))),
            ("fetch.html", script(format!("fetch(\"http://{tcp}/\", {{mode: \"no-cors\"}})"))),
            (
                "rules.html",
                format!(
                    "<!DOCTYPE html><p>x</p><script type=\"speculationrules\">{{\"prefetch\":[{{\"urls\":[\"http://{tcp}/\"]}}]}}</script>"
                ),
            ),
            ("rtc.html", script(rtc)),
            (
                "drawing.svg",
                format!(
                    "<svg xmlns=\"http://www.w3.org/2000/svg\"><h:link xmlns:h=\"http://www.w3.org/1999/xhtml\" rel=\"preconnect\" href=\"http://{tcp}/\"/></svg>"
                ),
            ),
        ]
    };
    let free = place.path().join("free");
    fs::create_dir(&free).unwrap();
    let mut addresses = Vec::new();
    for (name, text) in pages(&traps[0]).iter().filter(|(name, _)| ["fetch.html", "rtc.html"].contains(name)) {
        fs::write(free.join(name), text).unwrap();
        addresses.push(format!("file://{}", free.join(name).display()));
    }
    let (_server, address) = serve(place.path());
    for (name, text) in pages(&traps[1]) {
        fs::write(run.join(name), text).unwrap();
        addresses.push(format!("{address}files/theirs/20260101T000000.000Z/{name}"));
    }
    let is_caught = place.path().join("caught");
    let more: Vec<&Path> =
        [&is_caught].into_iter().map(PathBuf::as_path).chain(addresses[1..].iter().map(Path::new)).collect();
    let [(tcp, udp), served] = &traps;
    let free = thread::scope(|scope| {
        let free = scope.spawn(|| {
            let mut free = [false; 2];
            let until = Instant::now() + Duration::from_secs(60);
            while free != [true; 2] && Instant::now() < until {
                free = [free[0] || tcp.accept().is_ok(), free[1] || udp.recv(&mut [0; 64]).is_ok()];
                thread::sleep(Duration::from_millis(50));
            }
            fs::write(&is_caught, "").unwrap();
            free
        });
        browse("strangers.mjs", &addresses[0], &more);
        free.join().unwrap()
    });
    let caught = [free, [served.0.accept().is_ok(), served.1.recv(&mut [0; 64]).is_ok()]];
    assert_eq!(
        caught,
        [[true, true], [false, false]],
        "by TCP and by UDP, from pages that nobody holds back and from those that are served"
    );
}

#[test]
fn the_pages_over_a_store_work_in_a_browser() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let redjepsen = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(args).current_dir(place.path()).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code <= 2), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for seed in ["7", "8", "9"] {
        for workload in ["redlock", "redlock-guarded"] {
            let run = ["run", "--cluster", "sim", "--nemesis", "pause", "--quiet"];
            redjepsen(&[&run[..], &["--workload", workload, "--seed", seed]].concat());
        }
    }
    redjepsen(&["sweep", "--cluster", "sim", "--ttl", "500ms,1s", "--quiet"]);
    redjepsen(&["compare", "store/redlock-guarded-pause", "store/redlock-pause", "--html", "compare.html", "--quiet"]);
    let sweep = fs::read_dir(store.join("suites/sweep-redlock-pause"))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().path().join("matrix.html")).filter(|page| page.is_file()));
    let sweep = sweep.last().expect("the page of a sweep");
    let (_server, address) = serve(place.path());
    browse("pages.mjs", &address, &[&place.path().join("compare.html"), &sweep]);
}
