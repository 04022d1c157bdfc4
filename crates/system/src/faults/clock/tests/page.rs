//! The control page: the meaning of its states, and that no reader sees a half-written state.

use super::*;

#[test]
fn a_reader_never_sees_half_a_state() {
    let root = Root::new();
    let control = root.control();
    let state = |n: i64| State {
        base_ns: n,
        real_ns: n,
        offset_ns: n,
        excess: n,
        excess_before: n,
        strobe_ns: n,
        period_ns: n,
    };
    // Publishing continues until each reader has seen changes: a busy machine may start a reader late.
    let (reading, published) = (AtomicUsize::new(3), AtomicUsize::new(0));
    let read = || {
        let mut highest = 0;
        let mut changes = 0;
        while changes < 100 || published.load(Ordering::Relaxed) < 300_000 {
            let (generation, seen) = control.page().state();
            assert_eq!(seen, state(seen.base_ns));
            assert_eq!(generation.cast_signed(), seen.base_ns);
            assert!(generation >= highest, "{generation} after {highest}");
            changes += u32::from(generation > highest);
            highest = generation;
        }
    };
    thread::scope(|scope| {
        for _ in 0..reading.load(Ordering::Relaxed) {
            scope.spawn(|| {
                let over = Ended(&reading);
                read();
                drop(over);
            });
        }
        let mut n = 0;
        while reading.load(Ordering::Relaxed) > 0 {
            n += 1;
            assert_eq!(control.page().publish(&state(n)), n.cast_unsigned());
            published.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Counts a reader as ended when it ends, even by a panic.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn states_mean_what_they_say() {
    let jump = State { offset_ns: 30, ..State::default() };
    assert_eq!(jump.shown_ns(1000, || panic!("the monotonic clock is not needed")), 1030);
    // Three times as fast from 100 on, and half as fast before.
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
    // Whatever another process writes into the page, reading it does not panic.
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
    let other_version = format!("its content does not have version {VERSION}");
    assert!(refused(&[7; PAGE_BYTES]).contains(&other_version));
    assert!(refused(&[&blank[..8], &(VERSION + 1).to_ne_bytes(), &blank[16..]].concat()).contains(&other_version));
    assert!(Control::open(root.folder.path()).unwrap_err().to_string().contains("the control file"));
    fs::write(&path, &blank).unwrap();
    assert!(Control::open(&path).is_ok());
}
