//! The library in separate processes. One is this test program, started again with the library and with orders on what to read
//! ([`child`]). The other is a stock Redis server.
//!
//! Within one process, the standard library's clock is skewed, and a system call gives the true time. So each reading can be
//! compared with the true time just before and after it, however slow the machine is.

mod library;
mod page;
mod redis;
mod synced;
mod ways;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicUsize;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::*;

/// If this variable is set, the test program is a child.
const CHILD: &str = "REDJEPSEN_CLOCK_TEST_CHILD";
const SECOND: i64 = NS_PER_S;

// ---- The child: reads clocks and syncs files as ordered, line by line.

mod libc {
    use std::ffi::{c_int, c_long, c_void};

    #[repr(C)]
    #[derive(Default)]
    pub struct Pair(pub c_long, pub c_long);

    unsafe extern "C" {
        pub fn clock_gettime(clock: c_int, time: *mut Pair) -> c_int;
        pub fn gettimeofday(time: *mut Pair, zone: *mut c_void) -> c_int;
        pub fn time(time: *mut c_long) -> c_long;
        pub fn timespec_get(time: *mut Pair, base: c_int) -> c_int;
        pub fn fdatasync(file: c_int) -> c_int;
        pub fn fork() -> c_int;
        pub fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
        pub fn _exit(status: c_int) -> !;
    }
}

/// The wall clock as a program sees it.
fn wall() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => (before.duration().as_nanos() as i64).wrapping_neg(),
    }
}

/// The true wall clock, directly from the kernel.
fn truth() -> i64 {
    let mut time = libc::Pair::default();
    assert_eq!(unsafe { ::libc::syscall(::libc::SYS_clock_gettime, 0, &raw mut time) }, 0);
    time.0 * NS_PER_S + time.1
}

fn libc_clock(clock: c_int) -> i64 {
    let mut time = libc::Pair::default();
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    time.0 * NS_PER_S + time.1
}

fn say(words: &[i64]) {
    let line: Vec<String> = words.iter().map(i64::to_string).collect();
    // Written directly to the descriptor, so that no buffer has data left when a fork copies it.
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    output.write_all(format!("\n@{}\n", line.join(" ")).as_bytes()).unwrap();
}

#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<usize>().unwrap();
        match words[0] {
            "sample" => {
                let mut samples = Vec::with_capacity(number(1));
                for _ in 0..number(1) {
                    samples.extend([truth(), wall(), truth()]);
                }
                say(&samples);
            }
            "every" => say(&every_clock()),
            "vdso" => say(&[truth(), ns(clock_gettime(ClockId::Realtime)), truth()]),
            "hammer" => say(&hammer(number(1), Duration::from_millis(number(2) as u64))),
            "fork" => fork(),
            "execute" => execute(),
            "sync" => sync(words[1], Path::new(words[2]), number(3), number(4)),
            other => panic!("{other}"),
        }
    }
}

/// The true time, every wall clock there is, the true time; then the same for the monotonic clock.
fn every_clock() -> [i64; 11] {
    let from = truth();
    let (mut day, mut iso, mut seconds) = (libc::Pair::default(), libc::Pair::default(), 0);
    let returned = unsafe {
        assert_eq!(libc::gettimeofday(&mut day, ptr::null_mut()), 0);
        assert_eq!(libc::timespec_get(&mut iso, 1), 1);
        assert_eq!(libc::timespec_get(&mut libc::Pair::default(), 99), 0, "no such base");
        libc::time(&mut seconds)
    };
    assert!((0..=1).contains(&(seconds - returned).abs()));
    let (realtime, coarse) = (libc_clock(0), libc_clock(5));
    let words =
        [from, wall(), realtime, coarse, day.0 * NS_PER_S + day.1 * 1000, iso.0 * NS_PER_S + iso.1, seconds * NS_PER_S];
    let to = truth();
    let (before, mono, after) =
        (ns(clock_gettime(ClockId::Monotonic)), libc_clock(1), ns(clock_gettime(ClockId::Monotonic)));
    let mut all = [0; 11];
    all[..7].copy_from_slice(&words);
    all[7..].copy_from_slice(&[to, before, mono, after]);
    all
}

/// Reads the clock in several threads. Returns pairs: how far it was ahead, in seconds, and how often this was read.
fn hammer(threads: usize, duration: Duration) -> Vec<i64> {
    let until = Instant::now() + duration;
    let read = || {
        let mut seen: BTreeMap<i64, i64> = BTreeMap::new();
        while Instant::now() < until {
            let (from, shown, to) = (truth(), wall(), truth());
            // If the thread was interrupted during the reading, the reading proves nothing.
            if to - from < SECOND / 10 {
                *seen.entry((shown - from + SECOND / 2).div_euclid(SECOND)).or_default() += 1;
            }
        }
        seen
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
        let seen = readers.into_iter().flat_map(|reader| reader.join().unwrap());
        seen.flat_map(|(seconds, count)| [seconds, count]).collect()
    })
}

fn fork() {
    match unsafe { libc::fork() } {
        0 => {
            say(&[truth(), wall(), truth()]);
            unsafe { libc::_exit(0) }
        }
        pid => assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), 0) }, pid),
    }
}

fn execute() {
    let from = truth();
    let output = Command::new("date").arg("+%s%N").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    say(&[from, shown, truth()]);
}

/// Creates a file of `bytes` bytes, syncs it, and writes `more` bytes.
fn sync(how: &str, path: &Path, bytes: usize, more: usize) {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![b'x'; bytes]).unwrap();
    match how {
        "fsync" => file.sync_all().unwrap(),
        "fdatasync" => file.sync_data().unwrap(),
        "none" => {}
        other => panic!("{other}"),
    }
    file.write_all(&vec![b'x'; more]).unwrap();
    // A failed sync, of an invalid descriptor, changes nothing and says why.
    assert_eq!(unsafe { libc::fdatasync(-1) }, -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(9), "EBADF");
    say(&[]);
}

// ---- The tests' side.

/// A folder with the library and a control file, as in a member's root.
struct Root {
    folder: TempDir,
}

impl Root {
    fn new() -> Root {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("redjepsen")).unwrap();
        let root = Root { folder };
        fs::write(root.path(LIBRARY_PATH), LIBRARY).unwrap();
        fs::write(root.path(CONTROL_PATH), blank_control()).unwrap();
        root
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn control(&self) -> Control {
        Control::open(&self.path(CONTROL_PATH)).unwrap()
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, path) in ENVIRONMENT {
            command.env(name, self.path(path));
        }
        command
    }

    fn reader(&self) -> Reader {
        Reader::start(self.command(std::env::current_exe().unwrap()))
    }
}

/// A child that reads clocks; killed when dropped.
struct Reader {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Reader {
    fn start(mut command: Command) -> Reader {
        command.args(["faults::clock::tests::child", "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Reader { process, orders, answers }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    fn answer(&mut self) -> Vec<i64> {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the child ended");
            if let Some(words) = line.trim_end().strip_prefix('@') {
                return words.split_whitespace().map(|word| word.parse().unwrap()).collect();
            }
        }
    }

    fn ask(&mut self, order: &str) -> Vec<i64> {
        self.order(order);
        self.answer()
    }

    fn samples(&mut self, count: usize) -> Vec<Sample> {
        samples(&self.ask(&format!("sample {count}")))
    }

    /// Asserts that every wall clock is `seconds` ahead, and the monotonic clock is not.
    fn assert_ahead(&mut self, seconds: i64) {
        let words = self.ask("every");
        let [from, shown @ .., to, before, mono, after] = &words[..] else { panic!("{words:?}") };
        let (from, to) = (from + seconds * SECOND, to + seconds * SECOND);
        // Coarse clocks are up to 10 ms behind; the last clock shows only whole seconds.
        for (which, (time, behind)) in shown.iter().zip([0, 0, SECOND / 50, 1000, 0, SECOND + SECOND / 50]).enumerate()
        {
            assert!((from - behind..=to).contains(time), "clock {which}: {time} is not in {from} to {to}");
        }
        assert!(before <= mono && mono <= after, "monotonic: {before} {mono} {after}");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The true time before a reading, the reading, and the true time after it.
#[derive(Clone, Copy, Debug)]
struct Sample {
    from: i64,
    shown: i64,
    to: i64,
}

impl Sample {
    fn ahead(&self) -> Range<i64> {
        self.shown - self.to..self.shown - self.from + 1
    }
}

fn samples(words: &[i64]) -> Vec<Sample> {
    let (samples, []) = words.as_chunks::<3>() else { panic!("{}", words.len()) };
    samples.iter().map(|[from, shown, to]| Sample { from: *from, shown: *shown, to: *to }).collect()
}
