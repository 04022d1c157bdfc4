//! The library in a stock Redis server.

use super::*;

/// The server program on PATH. Debian's redis-check-rdb is the same program, which behaves according to the name under which it
/// is called.
fn server() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = ["redis-server", "redis-check-rdb"].into_iter().flat_map(|name| {
        std::env::split_paths(&path).map(move |folder| folder.join(name)).filter(|file| file.is_file())
    });
    found.next().expect("a Redis server: install redis-server or redis-tools")
}

/// A server with the library loaded; killed when dropped.
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
        // The server listens before it has created its files, but answers only afterwards.
        assert_eq!(redis.ask("PING"), "PONG");
        redis
    }

    /// The answer to a command, without its type marker.
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

    /// Asserts that the server's TIME is ahead by this much. The tolerance is 1 ms, since the server reads its clock once per ms.
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
    assert_eq!(asks(redis.process.id()).unwrap(), Asks::Library);
    redis.assert_ahead(0);
    redis.set(10_000);
    assert!(redis.has_key());
    redis.control.set(Skew::Jump { ms: 30_000 }).unwrap();
    redis.assert_ahead(30);
    assert!(redis.control.is_applied());
    assert!(!redis.has_key(), "30 s are more than its 10");
    // A key that is set now expires by the server's clock.
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
        // The first write may come at the end of a second. Of several writes within one second, not all are synced.
        for value in 0..5 {
            assert_eq!(redis.ask(&format!("SET k {value}")), "OK");
        }
        let written = length();
        assert!(written > 0);
        let synced = redis.control.synced(FileId::of(&log).unwrap()).unwrap();
        if is_synced_at_once {
            assert_eq!(synced, Some(written), "always");
            continue;
        }
        thread::sleep(Duration::from_millis(2500));
        let synced = redis.control.synced(FileId::of(&log).unwrap()).unwrap();
        if policy == "no" {
            assert_eq!(synced, None, "no");
        } else {
            // The server may write a part of the file only after its answer.
            assert_eq!(synced, Some(length()), "{policy}, after more than a second");
        }
    }
}
