//! The library in processes of its own: this test program, started again with the library and told what to read
//! ([`child`]), and a stock Redis server.
//!
//! The library stands before libc alone, while rustix asks the kernel itself. So within one process the standard
//! library's clock is the skewed one and rustix's the true one, and each reading can be judged against the true time
//! right before and right after it, on however slow a machine.

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
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::*;

/// Tells the test program that it is a child, by being there.
const CHILD: &str = "REDJEPSEN_CLOCK_TEST_CHILD";
const SECOND: i64 = NS_PER_S;

// ---- The child: reads clocks and syncs files as it is told, line by line.

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

/// The wall clock as it is.
fn truth() -> i64 {
    ns(clock_gettime(ClockId::Realtime))
}

fn libc_clock(clock: c_int) -> i64 {
    let mut time = libc::Pair::default();
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    time.0 * NS_PER_S + time.1
}

fn say(words: &[i64]) {
    let line: Vec<String> = words.iter().map(i64::to_string).collect();
    // Straight to the descriptor, so that nothing is left in a buffer when a fork copies it.
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
            "hammer" => say(&hammer(number(1), Duration::from_millis(number(2) as u64))),
            "fork" => fork(),
            "execute" => execute(),
            "sync" => sync(words[1], Path::new(words[2]), number(3), number(4)),
            other => panic!("{other}"),
        }
    }
}

/// True time, every wall clock that there is, true time; then the same of the monotonic clock.
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

/// Reads the clock in several threads; how far it was ahead, in seconds, and how often, in pairs.
fn hammer(threads: usize, duration: Duration) -> Vec<i64> {
    let until = Instant::now() + duration;
    let read = || {
        let mut seen: BTreeMap<i64, i64> = BTreeMap::new();
        while Instant::now() < until {
            let (from, shown, to) = (truth(), wall(), truth());
            // A thread that was interrupted meanwhile tells nothing.
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

/// Makes a file of so many bytes, syncs it, and writes so many more.
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
    // One that fails, of a descriptor that is none, changes nothing and says why.
    assert_eq!(unsafe { libc::fdatasync(-1) }, -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(9), "EBADF");
    say(&[]);
}

// ---- The tests' side.

/// A folder with the library and a control file, as a member's root has them.
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

/// A child that reads clocks; killed when it is dropped.
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
        // Coarse clocks are a tick behind, 10 ms at most; the last tells whole seconds.
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

// ---- The page.

#[test]
fn a_reader_never_sees_half_a_state() {
    let root = Root::new();
    let (control, stop) = (root.control(), AtomicBool::new(false));
    let state = |n: i64| State {
        base_ns: n,
        real_ns: n,
        offset_ns: n,
        excess: n,
        excess_before: n,
        strobe_ns: n,
        period_ns: n,
    };
    thread::scope(|scope| {
        let read = || {
            let mut highest = 0;
            while !stop.load(Ordering::Relaxed) {
                let (generation, seen) = control.page().state();
                assert_eq!(seen, state(seen.base_ns));
                assert_eq!(generation.cast_signed(), seen.base_ns);
                assert!(generation >= highest, "{generation} after {highest}");
                highest = generation;
            }
            highest
        };
        let readers = [scope.spawn(read), scope.spawn(read), scope.spawn(read)];
        for n in 1..=300_000 {
            assert_eq!(control.page().publish(&state(n)), n.cast_unsigned());
        }
        stop.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().any(|reader| reader.join().unwrap() > 0));
    });
}

#[test]
fn states_mean_what_they_say() {
    let jump = State { offset_ns: 30, ..State::default() };
    assert_eq!(jump.shown_ns(1000, || panic!("the monotonic clock is not needed")), 1030);
    // Three times as fast from 100 on, half as fast before.
    let rate = State {
        base_ns: 100,
        real_ns: 5000,
        offset_ns: 7,
        excess: 2 * ONE,
        excess_before: -ONE / 2,
        ..State::default()
    };
    for (mono, shown) in [(90, 5002), (98, 5006), (100, 5007), (110, 5037)] {
        assert_eq!(rate.shown_ns(i64::MIN, || mono), shown);
    }
    let strobe = State { base_ns: 100, strobe_ns: -50, period_ns: 10, ..State::default() };
    for (mono, shown) in [(99, 950), (100, 950), (109, 950), (110, 1000), (119, 1000), (120, 950), (130, 1000)] {
        assert_eq!(strobe.shown_ns(1000, || mono), shown, "{mono}");
    }
    // Nothing that somebody else wrote into the page makes anybody panic.
    for wild in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
        let state = State {
            base_ns: wild,
            real_ns: wild,
            offset_ns: wild,
            excess: wild,
            excess_before: wild,
            strobe_ns: wild,
            period_ns: wild,
        };
        for now in [i64::MIN, -1, 0, 1, i64::MAX] {
            state.shown_ns(now, || now);
            State { excess: 0, excess_before: 0, ..state }.shown_ns(now, || now);
        }
    }
}

#[test]
fn the_sync_that_began_last_counts() {
    let root = Root::new();
    let control = root.control();
    let file = &control.page().files[0];
    assert_eq!(file.durable_bytes(), None);
    let (first, second) = (file.begin(), file.begin());
    file.end(second, 200);
    file.end(first, 100);
    assert_eq!(file.durable_bytes(), Some(200), "it came back last, but what it saw was older");
    // A file may get shorter.
    file.end(file.begin(), 50);
    assert_eq!(file.durable_bytes(), Some(50));
    file.end(file.begin(), u64::MAX);
    assert!(file.durable_bytes().unwrap() >= 1 << 47);
    for length in 0..200_000 {
        file.end(file.begin(), length);
        assert_eq!(file.durable_bytes(), Some(length), "tickets begin again after 16 bits");
    }
}

#[test]
fn skews_are_read_and_checked() {
    for (text, skew) in [
        (r#"{"jump":{"ms":-30000}}"#, Skew::Jump { ms: -30_000 }),
        (r#"{"rate":{"factor":1.05}}"#, Skew::Rate { factor: 1.05 }),
        (r#"{"strobe":{"ms":200,"period_us":125}}"#, Skew::Strobe { ms: 200, period_us: 125 }),
    ] {
        assert_eq!(serde_json::from_str::<Skew>(text).unwrap(), skew);
        assert_eq!(serde_json::to_string(&skew).unwrap(), text);
        assert_eq!(skew.check(), Ok(()));
    }
    let typo = serde_json::from_str::<Skew>(r#"{"strobe":{"ms":200,"period_ms":1}}"#).unwrap_err().to_string();
    assert!(typo.contains("unknown field `period_ms`, expected `ms` or `period_us`"), "{typo}");

    let root = Root::new();
    let control = root.control();
    for (skew, message) in [
        (Skew::Jump { ms: 0 }, "a jump by 0 ms"),
        (Skew::Jump { ms: i64::MIN }, "a jump by -9223372036854775808 ms: expected 1 to 315360000000 (ten years)"),
        (Skew::Rate { factor: f64::NAN }, "a rate of NaN"),
        (Skew::Rate { factor: f64::INFINITY }, "a rate of inf"),
        (Skew::Rate { factor: -0.5 }, "a rate of -0.5: expected 0 (the clock stands still) to 1000"),
        (Skew::Rate { factor: 1000.5 }, "a rate of 1000.5"),
        (Skew::Strobe { ms: 0, period_us: 125 }, "a strobe by 0 ms"),
        (Skew::Strobe { ms: 200, period_us: 0 }, "a strobe with periods of 0 µs"),
        (Skew::Strobe { ms: 200, period_us: u64::MAX }, "expected 1 to 3600000000 (an hour)"),
    ] {
        let refused = control.set(skew).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(refused.to_string().contains(message), "{refused}");
    }
    assert_eq!(control.page().state(), (0, State::default()), "what is refused changes nothing");
    for skew in [Skew::Rate { factor: 0.0 }, Skew::Rate { factor: 1000.0 }, Skew::Jump { ms: MAX_JUMP_MS }] {
        control.set(skew).unwrap();
    }
}

#[test]
fn only_a_control_file_is_opened() {
    let root = Root::new();
    let path = root.path(CONTROL_PATH);
    let refused = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        Control::open(&path).unwrap_err().to_string()
    };
    let blank = blank_control();
    assert!(refused(b"").contains("it has 0 bytes instead of 4096"));
    assert!(refused(&blank[..4095]).contains("4095 bytes"));
    assert!(refused(&[7; PAGE_BYTES]).contains("none of version 1"));
    assert!(refused(&[&blank[..8], &[9], &blank[9..]].concat()).contains("none of version 1"));
    assert!(Control::open(root.folder.path()).unwrap_err().to_string().contains("the control file"));
    fs::write(&path, &blank).unwrap();
    assert!(Control::open(&path).is_ok());
}

// ---- The library in a process that reads clocks.

#[test]
fn a_jump_moves_every_wall_clock_and_no_other() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    reader.assert_ahead(0);
    assert!(is_loaded(reader.process.id()));
    assert!(!is_loaded(std::process::id()));

    control.set(Skew::Jump { ms: 30_000 }).unwrap();
    let readings = control.readings();
    assert!(!control.is_applied(), "nobody has read the clock yet");
    assert_eq!(control.shown_offset_ns(), 30 * SECOND);
    reader.assert_ahead(30);
    assert!(control.is_applied());
    assert!(control.readings() > readings);
    // Jumps add up.
    control.set(Skew::Jump { ms: -60_000 }).unwrap();
    reader.assert_ahead(-30);
    control.heal();
    assert!(!control.is_applied());
    reader.assert_ahead(0);
    assert!(control.is_applied());
    assert_eq!(control.shown_offset_ns(), 0);
}

#[test]
fn a_rate_is_exact_and_begins_without_a_jump() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    // Two true clocks can't be read at once; a busy machine needs tens of µs for that.
    let slack = 50_000;
    let (mut last, mut old_factor) = (reader.samples(1)[0], 1.0);
    for factor in [2.0, 0.5, 1.05, 0.0, 1.0] {
        let ordered = truth();
        control.set(Skew::Rate { factor }).unwrap();
        let in_force = truth();
        thread::sleep(Duration::from_millis(100));
        let sample = reader.samples(1)[0];
        // The rate changed some time between those two; each reading was made some time between its own.
        let gains = |factor: f64, least: i64, most: i64| {
            let gain = |elapsed: i64| (elapsed as f64 * (factor - 1.0)) as i64;
            (gain(least).min(gain(most)), gain(least).max(gain(most)))
        };
        let old = gains(old_factor, ordered - last.to, in_force - last.from);
        let new = gains(factor, sample.from - in_force, sample.to - ordered);
        let expected = last.ahead().start + old.0 + new.0 - slack..last.ahead().end + old.1 + new.1 + slack;
        let ahead = sample.ahead();
        assert!(
            ahead.end > expected.start && ahead.start < expected.end,
            "rate {factor}: {ahead:?}, expected {expected:?}"
        );
        (last, old_factor) = (sample, factor);
    }
    let ahead = control.shown_offset_ns();
    let (from, to) = (last.ahead().start - slack, last.ahead().end + slack);
    assert!((from..to).contains(&ahead), "at rate 1 it stays where it was: {ahead}, {from} to {to}");
}

#[test]
fn the_clock_never_jumps_when_its_rate_changes() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    reader.samples(1);
    let (mut changes, mut last) = (0, None);
    for _ in 0..5 {
        reader.order("sample 100000");
        // Until the samples are there, which the reader's answer shows.
        let answer = thread::scope(|scope| {
            let answer = scope.spawn(|| reader.answer());
            for factor in [2.0, 100.0, 0.5, 1.0, 0.0].into_iter().cycle() {
                if answer.is_finished() {
                    break;
                }
                control.set(Skew::Rate { factor }).unwrap();
                changes += 1;
            }
            answer.join().unwrap()
        });
        for sample in samples(&answer) {
            if let Some(Sample { from, shown, .. }) = last {
                let (went, at_most) = (sample.shown - shown, (sample.to - from) * 100);
                // Two true clocks can't be read at once, which costs less than a µs.
                assert!((-1000..=at_most + 1000).contains(&went), "{went} ns in {} ns", sample.to - from);
            }
            last = Some(sample);
        }
    }
    assert!(changes > 10, "only {changes} changes meanwhile");
}

#[test]
fn a_strobe_shows_one_of_two_times_and_never_another() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    let away = 300 * NS_PER_MS;
    control.set(Skew::Strobe { ms: 300, period_us: 125 }).unwrap();
    let from = Instant::now();
    let (mut here, mut there, mut changes, mut was_away) = (0, 0, 0, None);
    for sample in samples(&reader.ask("sample 50000")) {
        let is_away = sample.ahead().contains(&away);
        assert!(is_away || sample.ahead().contains(&0), "neither true nor 300 ms ahead: {sample:?}");
        if is_away {
            there += 1;
        } else {
            here += 1;
        }
        changes += i32::from(was_away.is_some_and(|was| was != is_away));
        was_away = Some(is_away);
    }
    let periods = from.elapsed().as_micros() / 125;
    assert!(here > 1000 && there > 1000, "{here} true, {there} ahead");
    assert!(changes > 20 && changes as u128 <= periods + 1, "{changes} changes in at most {periods} periods");
    // It is seen in the agent too.
    let offsets: Vec<i64> = (0..2000).map(|_| control.shown_offset_ns()).collect();
    assert!(offsets.contains(&0) && offsets.contains(&away));
    assert!(offsets.iter().all(|offset| [0, away].contains(offset)));
    // What comes next starts from where it was without the strobe.
    control.set(Skew::Jump { ms: -1000 }).unwrap();
    reader.assert_ahead(-1);
}

#[test]
fn threads_see_the_old_clock_or_the_new_one() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    reader.samples(1);
    reader.order("hammer 4 500");
    let until = Instant::now() + Duration::from_millis(600);
    while Instant::now() < until {
        control.set(Skew::Jump { ms: 3_600_000 }).unwrap();
        thread::yield_now();
        control.set(Skew::Jump { ms: -10_800_000 }).unwrap();
        thread::yield_now();
        control.heal();
        thread::yield_now();
    }
    let mut seen: BTreeMap<i64, i64> = BTreeMap::new();
    for [seconds, count] in reader.answer().as_chunks::<2>().0 {
        *seen.entry(*seconds).or_default() += count;
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [-7200, 0, 3600], "{seen:?}");
}

#[test]
fn children_inherit_the_clock() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    for (ms, order) in [(30_000, "fork"), (-60_000, "fork"), (60_000, "execute")] {
        control.set(Skew::Jump { ms }).unwrap();
        let ahead = samples(&reader.ask(order))[0].ahead();
        assert!(ahead.contains(&control.shown_offset_ns()), "{order}: {ahead:?}");
    }
    // Processes share the page, and a change in it reaches those that are there already.
    let mut other = root.reader();
    control.heal();
    reader.assert_ahead(0);
    other.assert_ahead(0);
    control.set(Skew::Jump { ms: 1000 }).unwrap();
    reader.assert_ahead(1);
    other.assert_ahead(1);
}

#[test]
fn without_a_control_file_the_clock_is_true() {
    let root = Root::new();
    let control = root.control();
    control.set(Skew::Jump { ms: 30_000 }).unwrap();
    let path = root.path(CONTROL_PATH);
    let skewed = fs::read(&path).unwrap();
    // The pair of all that follows: with this content and this variable it is not.
    root.reader().assert_ahead(30);
    let readings = control.readings();

    let mut command = root.command(std::env::current_exe().unwrap());
    command.env_remove("REDJEPSEN_CLOCK").env("NOT_REDJEPSEN_CLOCK", &path).env("REDJEPSEN_CLOC", &path);
    let mut reader = Reader::start(command);
    reader.assert_ahead(0);
    assert!(is_loaded(reader.process.id()), "it is there, but has nothing to go by");
    for value in ["", "/no/such/file", "/dev/null", "/dev/full", "/proc/self/environ", "/tmp", &"x/".repeat(5000)] {
        let mut command = root.command(std::env::current_exe().unwrap());
        Reader::start({
            command.env("REDJEPSEN_CLOCK", value);
            command
        })
        .assert_ahead(0);
    }
    assert_eq!(control.readings(), readings);

    for content in [
        Vec::new(),
        skewed[..100].to_vec(),
        skewed[..PAGE_BYTES - 1].to_vec(),
        [&[0; 8], &skewed[8..]].concat(),
        [&skewed[..8], &[2], &skewed[9..]].concat(),
        vec![0xff; PAGE_BYTES],
    ] {
        fs::write(&path, &content).unwrap();
        let mut reader = root.reader();
        reader.assert_ahead(0);
        // Syncs go on as well.
        reader.ask(&format!("sync fsync {} 1 1", root.path("file").display()));
        assert_eq!(fs::read(&path).unwrap(), content, "it is not written to either");
    }
    // What looks like a control file and holds nonsense shows nonsense, and the process goes on.
    for byte in [0x7f, 0x80, 0xff, 0x01] {
        fs::write(&path, [&skewed[..16], &[byte; PAGE_BYTES - 16]].concat()).unwrap();
        let mut reader = root.reader();
        reader.ask("fork");
        reader.ask(&format!("sync fsync {} 1 1", root.path("file").display()));
    }
}

#[test]
fn the_library_needs_no_libc() {
    let text = |wanted: &[u8]| LIBRARY.windows(wanted.len()).any(|window| window == wanted);
    assert!(text(b"clock_gettime") && text(b"__errno_location"), "the pair of what follows");
    assert!(!text(b"GLIBC") && !text(b"libc.so") && !text(b"malloc"));
    let word = |at: usize, bytes: usize| {
        LIBRARY[at..at + bytes].iter().rev().fold(0, |word: u64, byte| (word << 8) | u64::from(*byte)) as usize
    };
    let (headers, header_bytes, count) = (word(32, 8), word(54, 2), word(56, 2));
    let kinds: Vec<usize> = (0..count).map(|index| word(headers + index * header_bytes, 4)).collect();
    const DYNAMIC: usize = 2;
    const TLS: usize = 7;
    assert!(kinds.contains(&DYNAMIC) && !kinds.contains(&TLS), "{kinds:?}");
    // Its tables are in its first segment, where addresses are offsets in the file.
    let dynamic = word(headers + kinds.iter().position(|kind| *kind == DYNAMIC).unwrap() * header_bytes + 8, 8);
    let entries: BTreeMap<usize, usize> = (0..)
        .map(|index| (word(dynamic + 16 * index, 8), word(dynamic + 16 * index + 8, 8)))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let (needed, hash, strings, symbols, versions) = (1, 4, 5, 6, 0x6fff_fffe);
    assert!(!entries.contains_key(&needed) && !entries.contains_key(&versions), "{entries:x?}");
    let mut names = (Vec::new(), Vec::new());
    for index in 1..word(entries[&hash] + 4, 4) {
        let symbol = entries[&symbols] + 24 * index;
        let name = &LIBRARY[entries[&strings] + word(symbol, 4)..];
        let name = std::ffi::CStr::from_bytes_until_nul(name).unwrap().to_str().unwrap();
        let is_undefined = word(symbol + 6, 2) == 0;
        if is_undefined { names.0.push(name) } else { names.1.push(name) }
    }
    names.1.sort_unstable();
    assert_eq!(names.0, ["__errno_location"], "undefined");
    assert_eq!(names.1, ["clock_gettime", "fdatasync", "fsync", "gettimeofday", "time", "timespec_get"]);
}

// ---- What was synced.

#[test]
fn what_was_synced_is_known_and_what_was_written_later_is_not() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    let file = |name: &str| root.path(name);
    let mut sync = |how: &str, name: &str, bytes: usize, more: usize| {
        assert!(reader.ask(&format!("sync {how} {} {bytes} {more}", file(name).display())).is_empty());
    };
    sync("fsync", "a", 100, 50);
    sync("fdatasync", "b", 10, 0);
    sync("none", "c", 100, 50);
    assert_eq!(fs::metadata(file("a")).unwrap().len(), 150);
    assert_eq!(control.synced(&file("a")).unwrap(), Some(100));
    assert_eq!(control.synced(&file("b")).unwrap(), Some(10));
    assert_eq!(control.synced(&file("c")).unwrap(), None, "never synced");
    assert!(control.synced(&file("d")).is_err(), "no such file");
    // A file keeps what is known of it under another name.
    fs::rename(file("a"), file("d")).unwrap();
    assert_eq!(control.synced(&file("d")).unwrap(), Some(100));
    // A new one has not been synced, also where it gets the inode of one that was.
    for _ in 0..20 {
        fs::remove_file(file("d")).unwrap();
        sync("none", "d", 150, 0);
        assert_eq!(control.synced(&file("d")).unwrap(), None);
    }
    // The same file, made shorter, synced again.
    sync("fsync", "b", 4, 20);
    assert_eq!(control.synced(&file("b")).unwrap(), Some(4));
}

#[test]
fn more_files_than_the_table_takes_are_admitted() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    let mut sync = |index: usize| {
        let file = root.path(&format!("file{index}"));
        assert!(reader.ask(&format!("sync fdatasync {} {index} 1", file.display())).is_empty());
        control.synced(&file).map_err(|error| error.to_string())
    };
    for index in 0..FILES {
        assert_eq!(sync(index), Ok(Some(index as u64)));
    }
    assert!(sync(FILES).unwrap_err().contains("more than 144 files"));
    assert!(sync(0).is_err(), "the table is not trusted any more");
}

// ---- A stock Redis server.

/// The server program on PATH. Debian's redis-check-rdb is the same program, which goes by the name that it is called
/// by.
fn server() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = ["redis-server", "redis-check-rdb"].into_iter().flat_map(|name| {
        std::env::split_paths(&path).map(move |folder| folder.join(name)).filter(|file| file.is_file())
    });
    found.next().expect("a Redis server: install redis-server or redis-tools")
}

/// A server with the library in it; killed when it is dropped.
struct Redis {
    process: Child,
    port: u16,
    root: Root,
    control: Control,
}

impl Redis {
    fn start(arguments: &[&str]) -> Redis {
        let root = Root::new();
        let control = root.control();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = root.command(server());
        command.arg0("redis-server").arg("--port").arg(port.to_string()).args(["--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(root.folder.path()).args(arguments);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Redis { process, port, root, control };
        let from = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(from.elapsed() < Duration::from_secs(20), "the server does not start");
            thread::sleep(Duration::from_millis(5));
        }
        // It listens before it has made its files, but answers after.
        assert_eq!(redis.ask("PING"), "PONG");
        redis
    }

    /// The answer to a command, without what marks its kind.
    fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{command}\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer = answer.strip_suffix("+OK\r\n").unwrap_or_else(|| panic!("{answer}"));
        answer
            .lines()
            .filter(|line| !line.starts_with(['$', '*']))
            .collect::<Vec<_>>()
            .join(" ")
            .replace([':', '+'], "")
    }

    fn set(&self, ttl_ms: u64) {
        assert_eq!(self.ask(&format!("SET k v PX {ttl_ms}")), "OK");
    }

    fn has_key(&self) -> bool {
        self.ask("EXISTS k") == "1"
    }

    /// Asserts that the server's TIME is ahead by so much; to the ms, which is how often it looks between commands.
    fn assert_ahead(&self, seconds: i64) {
        let from = truth();
        let answer = self.ask("TIME");
        let to = truth();
        let [s, us] = answer.split(' ').map(|word| word.parse::<i64>().unwrap()).collect::<Vec<_>>()[..] else {
            panic!("{answer}")
        };
        let shown = s * SECOND + us * 1000 - seconds * SECOND;
        assert!((from - NS_PER_MS..=to).contains(&shown), "{shown} is not in {from} to {to}");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_key_expires_early_on_a_clock_that_jumps_ahead() {
    let redis = Redis::start(&[]);
    assert!(is_loaded(redis.process.id()));
    redis.assert_ahead(0);
    redis.set(10_000);
    assert!(redis.has_key());
    redis.control.set(Skew::Jump { ms: 30_000 }).unwrap();
    redis.assert_ahead(30);
    assert!(redis.control.is_applied());
    assert!(!redis.has_key(), "30 s are more than its 10");
    // One that is set now has its own time.
    redis.set(10_000);
    assert!(redis.has_key());
    redis.control.heal();
    redis.assert_ahead(0);
    let left: i64 = redis.ask("PTTL k").parse().unwrap();
    assert!((30_000..=40_000).contains(&left), "{left}");
}

#[test]
fn a_key_expires_late_on_a_clock_that_jumps_back_and_on_time_on_a_true_one() {
    let (late, on_time, healed) = (Redis::start(&[]), Redis::start(&[]), Redis::start(&[]));
    for redis in [&late, &on_time, &healed] {
        redis.set(10_000);
    }
    let set = Instant::now();
    for redis in [&late, &healed] {
        redis.control.set(Skew::Jump { ms: -30_000 }).unwrap();
        redis.assert_ahead(-30);
    }
    on_time.assert_ahead(0);
    thread::sleep(Duration::from_secs(5));
    healed.control.heal();
    healed.assert_ahead(0);
    for redis in [&late, &on_time, &healed] {
        let has_key = redis.has_key();
        assert!(has_key || set.elapsed() > Duration::from_secs(9), "it expired before its time");
    }
    thread::sleep(Duration::from_millis(10_050).saturating_sub(set.elapsed()));
    assert!(late.has_key(), "30 s late");
    assert!(!on_time.has_key());
    assert!(!healed.has_key(), "on time after the heal");
}

#[test]
fn a_key_lives_half_as_long_on_a_clock_that_runs_twice_as_fast() {
    let (fast, slow) = (Redis::start(&[]), Redis::start(&[]));
    fast.control.set(Skew::Rate { factor: 2.0 }).unwrap();
    slow.control.set(Skew::Rate { factor: 0.5 }).unwrap();
    let set = Instant::now();
    fast.set(2000);
    slow.set(1000);
    thread::sleep(Duration::from_millis(500));
    let has_key = fast.has_key();
    assert!(has_key || set.elapsed() > Duration::from_millis(900), "it expired before its time");
    thread::sleep(Duration::from_millis(1100).saturating_sub(set.elapsed()));
    assert!(!fast.has_key(), "2 s of its clock are 1 s of ours");
    let has_key = slow.has_key();
    assert!(has_key || set.elapsed() > Duration::from_millis(1900), "it expired before its time");
    thread::sleep(Duration::from_millis(2100).saturating_sub(set.elapsed()));
    assert!(!slow.has_key(), "1 s of its clock is 2 s of ours");
}

#[test]
fn what_a_server_has_synced_of_its_log_is_known() {
    for (policy, is_synced_at_once) in [("always", true), ("everysec", false), ("no", false)] {
        let redis = Redis::start(&["--appendonly", "yes", "--appendfsync", policy]);
        let folder = redis.root.path("appendonlydir");
        let logs = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let log = logs
            .into_iter()
            .find(|path| path.extension().is_some_and(|end| end == "aof") && path.to_string_lossy().contains(".incr."))
            .unwrap();
        let length = || fs::metadata(&log).unwrap().len();
        assert_eq!(length(), 0);
        // The first one may come at the end of a second; more than one within a second are not all synced.
        for value in 0..5 {
            assert_eq!(redis.ask(&format!("SET k {value}")), "OK");
        }
        let written = length();
        assert!(written > 0);
        let synced = redis.control.synced(&log).unwrap();
        if is_synced_at_once {
            assert_eq!(synced, Some(written), "always");
            continue;
        }
        thread::sleep(Duration::from_millis(2500));
        let synced = redis.control.synced(&log).unwrap();
        if policy == "no" {
            assert_eq!(synced, None, "no");
        } else {
            // It may write some of it later than it answers.
            assert_eq!(synced, Some(length()), "{policy}, after more than a second");
        }
    }
}
