//! Decides which tests run at the same time.
//!
//! Runs mostly wait, so several run at once. But the tests of one machine share its cores, its Docker engine, and the objects
//! that `redjepsen clean` looks at. Each test takes its turn in its first line and releases it at its end, however it ends. Turns
//! are locks on files. So they work between the threads of a test program, between programs, and between checkouts of one user.
//! The system releases the locks of a killed test. So it doesn't matter which program runs the tests, nor how many it starts at
//! once.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::thread::{self, available_parallelism, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

/// How often a waiting test checks whether a place is free.
const LOOK: Duration = Duration::from_millis(20);

/// By default, the test program has as many threads as cores, and a test that waits for its turn occupies one. The first tests in
/// the list would then wait for each other while the rest could run. So the program gets more threads than tests can wait for the
/// same turn; waiting tests use nothing else. The variable must be set before `main` reads it.
#[used]
#[unsafe(link_section = ".init_array")]
static ENOUGH_THREADS: extern "C" fn() = {
    extern "C" fn ask_for_threads() {
        const NAME: &str = "RUST_TEST_THREADS";
        if std::env::var_os(NAME).is_none() {
            // SAFETY: before `main`, no other thread could read the environment meanwhile.
            unsafe { std::env::set_var(NAME, "64") };
        }
    }
    ask_for_threads
};

/// The locks that a test holds while it runs. At the end it reports how long the test waited for them, and how long the test then
/// took.
pub struct Turn {
    #[expect(dead_code, reason = "a lock is held as long as its file is open")]
    held: Vec<File>,
    waited: Duration,
    since: Instant,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let test = thread::current();
        let (waited, took) = (self.waited.as_secs_f32(), self.since.elapsed().as_secs_f32());
        let name = test.name().unwrap_or_default();
        eprintln!("{name}: took {took:.1} s, after waiting {waited:.1} s for its turn");
        // A passing test's output is discarded, but the slowest tests are worth knowing. A failed write does not matter.
        let times = File::options().create(true).append(true).open(folder().join("times.tsv"));
        let _ = times.and_then(|mut times| writeln!(times, "{name}\t{took:.1}\t{waited:.1}"));
    }
}

/// A test that uses local clusters, one at a time.
pub fn local() -> Turn {
    take(&[], 1)
}

/// A test that keeps two local clusters busy.
pub fn two_local() -> Turn {
    take(&[], 2)
}

/// A test that uses the Docker engine. The engine uses all cores while it starts or removes a dozen containers.
pub fn docker() -> Turn {
    take(&["docker"], 1)
}

/// As [`docker`], with two clusters at a time.
pub fn two_in_docker() -> Turn {
    take(&["docker"], 2)
}

/// A test that calls `redjepsen clean`, which removes the leftovers of all dead controllers of this machine.
pub fn cleaning() -> Turn {
    take(&["clean"], 1)
}

/// As [`cleaning`], with clusters in Docker.
pub fn cleaning_docker() -> Turn {
    take(&["clean", "docker"], 1)
}

/// A test of many runs with short TTLs, each made once: a busy machine must not cause its results.
pub fn alone() -> Turn {
    take(&["clean", "docker"], places())
}

/// At most this many tests with one cluster each run at once: they wait more than they work.
fn places() -> usize {
    cores() + 2
}

/// This many tests run at once whatever else the machine does. Each further test begins only while cores are idle.
fn always() -> usize {
    cores() + 1
}

fn cores() -> usize {
    available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The cores are watched for this long before a further test begins. By then the previous test is running, so its load is
/// visible.
const WATCHED: Duration = Duration::from_secs(1);

/// A further test begins if the cores were idle for this share of that time.
const IDLE: f64 = 0.6;

/// Watches the cores for a while; true if they were mostly idle. If the kernel gives no numbers, they count as busy.
fn has_idle_cores() -> bool {
    let times = || -> Option<(u64, u64)> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let times: Vec<u64> =
            stat.lines().next()?.split_whitespace().skip(1).map_while(|time| time.parse().ok()).collect();
        // A core that waits for a disk counts as idle.
        Some((times.get(3)? + times.get(4)?, times.iter().take(8).sum()))
    };
    let Some((idle, all)) = times() else { return false };
    sleep(WATCHED);
    let Some((later_idle, later_all)) = times() else { return false };
    let (idle, all) = (later_idle.saturating_sub(idle), later_all.saturating_sub(all));
    all > 0 && idle as f64 > IDLE * all as f64
}

/// Waits for the names, in alphabetical order, and then for this many places. One queue hands out all places. So a test that
/// needs many places gets them, and no two tests wait for each other's places.
fn take(names: &[&str], number: usize) -> Turn {
    assert!(names.is_sorted(), "two tests could wait for each other");
    let began = Instant::now();
    let mut held: Vec<File> = names.iter().map(|name| waited_for(name)).collect();
    // Tests without names wait here in one line. So the next test of the engine, or the next test that cleans, overtakes all but
    // one of them. Tests with names already take turns among themselves, so otherwise the last of them would have to wait for all
    // others.
    let lobby = names.is_empty().then(|| waited_for("lobby"));
    let queue = waited_for("queue");
    let mut free: Vec<(usize, File)> = (0..places()).map(|place| (place, file(&format!("place-{place}")))).collect();
    let wanted = held.len() + number.min(free.len());
    // The engine's tests take longest in all, and a test that runs alone waits for all others anyway.
    let at_once = names.contains(&"docker");
    while held.len() < wanted {
        match free.iter().position(|(_, place)| flock(place, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            Some(at) if at_once || free[at].0 < always() || has_idle_cores() => held.push(free.remove(at).1),
            Some(at) => flock(&free[at].1, FlockOperation::Unlock).unwrap_or_else(|error| panic!("a place: {error}")),
            None => sleep(LOOK),
        }
    }
    drop((queue, lobby));
    Turn { held, waited: began.elapsed(), since: Instant::now() }
}

fn waited_for(name: &str) -> File {
    let file = file(name);
    retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).unwrap_or_else(|error| panic!("{name}: {error}"));
    file
}

fn file(name: &str) -> File {
    let folder = folder();
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let path = folder.join(name);
    File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each user has a folder, because a user cannot write another user's files.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("redjepsen-tests-{}", rustix::process::getuid().as_raw()))
}
