//! The library in a process that reads clocks.

use super::*;

#[test]
fn a_jump_moves_every_wall_clock_and_no_other() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    reader.assert_ahead(0);
    assert_eq!(asks(reader.process.id()).unwrap(), Asks::Library);
    assert_eq!(asks(std::process::id()).unwrap(), Asks::Elsewhere);

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
    // Two true clocks can't be read at once; on a busy machine they are tens of µs apart.
    let slack = 50_000;
    let (mut last, mut old_factor) = (reader.samples(1)[0], 1.0);
    for factor in [2.0, 0.5, 1.05, 0.0, 1.0] {
        let ordered = truth();
        control.set(Skew::Rate { factor }).unwrap();
        let in_force = truth();
        thread::sleep(Duration::from_millis(100));
        let sample = reader.samples(1)[0];
        // The rate changed at some time between those two times; each reading was made between its own two times.
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
        // Runs until the reader's answer shows that the samples are complete.
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
                // Two true clocks can't be read at once; the error is less than a µs.
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
    // The agent sees it too.
    let offsets: Vec<i64> = (0..2000).map(|_| control.shown_offset_ns()).collect();
    assert!(offsets.contains(&0) && offsets.contains(&away));
    assert!(offsets.iter().all(|offset| [0, away].contains(offset)));
    // The next skew starts from where the clock was without the strobe.
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
    // Processes share the page, and a change also reaches processes that already run.
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
    // The counterpart of all following cases: with this content and this variable, the clock is skewed.
    root.reader().assert_ahead(30);
    let readings = control.readings();

    let mut command = root.command(std::env::current_exe().unwrap());
    command.env_remove("REDJEPSEN_CLOCK").env("NOT_REDJEPSEN_CLOCK", &path).env("REDJEPSEN_CLOC", &path);
    let mut reader = Reader::start(command);
    reader.assert_ahead(0);
    assert_eq!(asks(reader.process.id()).unwrap(), Asks::Nobody, "it is there, but has nothing to go by");
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
        [&skewed[..8], &(VERSION + 1).to_ne_bytes(), &skewed[16..]].concat(),
        vec![0xff; PAGE_BYTES],
    ] {
        fs::write(&path, &content).unwrap();
        let mut reader = root.reader();
        reader.assert_ahead(0);
        // Syncs still work as well.
        reader.ask(&format!("sync fsync {} 1 1", root.path("file").display()));
        assert_eq!(fs::read(&path).unwrap(), content, "it is not written to either");
    }
    // A file that looks like a control file but holds invalid numbers shows a wrong time, and the process continues.
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
    // Its tables are in its first segment, where addresses equal offsets in the file.
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
