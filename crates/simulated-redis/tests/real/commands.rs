//! Random sequences of commands: a real server and a simulated one answer the same, byte for byte.

use std::time::{Duration, Instant};

use simulated_redis::{Connection, Persistence, Version};

use super::generate::{Generator, KEYS};
use super::support::real::{Real, RealClient, ServerProgram};
use super::support::request;
use super::support::simulated::Simulated;

/// A command that comes closer than this to the end of a key's life waits until that is over.
const TOO_CLOSE: Duration = Duration::from_millis(5);
/// Clocks are read in whole milliseconds.
const CLOCKS_APART: Duration = Duration::from_millis(2);

/// Both servers, and when keys may end.
struct Both<'a> {
    real: &'a mut [RealClient],
    simulated: &'a mut Simulated,
    version: Version,
    connections: Vec<Connection>,
    since: Instant,
    /// From when to when keys may end.
    ends: Vec<(Instant, Instant)>,
    /// The lives that begin when a client's transaction is executed.
    queued: Vec<Vec<Duration>>,
    /// A command was on its way while a key may have ended.
    unsure: bool,
    history: Vec<String>,
    /// How much later than the simulated server the real one may have got a command.
    lag: Duration,
}

impl<'a> Both<'a> {
    /// Each client has a connection to both.
    fn new(real: &'a mut [RealClient], simulated: &'a mut Simulated, version: Version, since: Instant) -> Both<'a> {
        let connections: Vec<_> = real.iter().map(|_| simulated.connect()).collect();
        let queued = vec![Vec::new(); connections.len()];
        let (ends, history, lag) = (Vec::new(), Vec::new(), Duration::ZERO);
        Both { real, simulated, version, connections, since, ends, queued, unsure: false, history, lag }
    }

    fn ask(&mut self, client: usize, words: &[&str]) -> (Vec<u8>, Vec<u8>) {
        while let Some((_, last)) = self.ends.iter().find(|(first, last)| {
            let now = Instant::now();
            now + TOO_CLOSE > *first && now < *last + TOO_CLOSE
        }) {
            std::thread::sleep((*last + TOO_CLOSE).saturating_duration_since(Instant::now()));
        }
        let bytes = request(words);
        let connection = self.connections[client];
        self.simulated.follow_real_clocks(self.since);
        let began = Instant::now();
        let simulated = self.simulated.ask(connection, &bytes);
        let real = self.real[client].ask(&bytes);
        let now = Instant::now();
        self.lag = self.lag.max(now - began);
        self.unsure |=
            self.ends.iter().any(|(first, last)| began <= *last + CLOCKS_APART && now + CLOCKS_APART >= *first);
        self.ends.retain(|(_, last)| *last + TOO_CLOSE > now);
        let mut lives: Vec<_> = words.iter().filter_map(|word| short_life(word)).collect();
        if words[0].eq_ignore_ascii_case("exec") {
            lives.append(&mut self.queued[client]);
        }
        if real == b"+QUEUED\r\n" {
            self.queued[client].append(&mut lives);
        }
        self.ends.extend(lives.iter().map(|life| (began + *life, now + *life)));
        self.history.push(format!("{client}: {}", words.join(" ")));
        (simulated, real)
    }

    fn compare(&mut self, client: usize, words: &[&str]) {
        let (simulated, real) = self.ask(client, words);
        self.compare_answers(words, &simulated, &real);
    }

    fn compare_answers(&mut self, words: &[&str], simulated: &[u8], real: &[u8]) {
        let same = match words[0].to_ascii_lowercase().as_str() {
            // Later versions also count what they write to a file only.
            "role" if self.version != Version::Redis70 => without_numbers(simulated) == without_numbers(real),
            "pttl" | "exec" => close(simulated, real, self.apart()),
            _ => simulated == real,
        };
        if !same {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let from = self.history.len().saturating_sub(30);
            let history = self.history[from..].join("\n");
            panic!("{history}\nsimulated: {:?}\nreal:      {:?}", text(simulated), text(real));
        }
    }

    /// By how many milliseconds the servers may think differently of how long a key lives: both the command that set it
    /// and the one that asks may have come later to one of them.
    fn apart(&self) -> i64 {
        2 * self.lag.as_millis() as i64 + 2
    }

    /// Everything that the keys hold.
    fn compare_keys(&mut self, client: usize) {
        for key in KEYS {
            self.compare(client, &["TYPE", key]);
            self.compare(client, &["PTTL", key]);
            self.compare(client, &["GET", key]);
        }
        self.compare(client, &["DBSIZE"]);
    }
}

/// How long a key may live after a command with this word, if it may end during the sequence.
fn short_life(word: &str) -> Option<Duration> {
    let millis = if word.contains("'PX', 30") { 30 } else { word.parse().ok()? };
    (15..60).contains(&millis).then(|| Duration::from_millis(millis))
}

/// The same but for numbers of milliseconds, which differ by when either server got the command and the one that set the
/// time.
fn close(one: &[u8], other: &[u8], apart: i64) -> bool {
    let lines =
        |bytes: &[u8]| -> Vec<String> { String::from_utf8_lossy(bytes).split("\r\n").map(str::to_string).collect() };
    let (one, other) = (lines(one), lines(other));
    let number = |line: &str| line.strip_prefix(':')?.parse::<i64>().ok().filter(|number| *number > 0);
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| {
            one == other || number(one).zip(number(other)).is_some_and(|(one, other)| (one - other).abs() <= apart)
        })
}

fn without_numbers(answer: &[u8]) -> Vec<String> {
    let answer = String::from_utf8_lossy(answer);
    answer.split("\r\n").filter(|line| !line.starts_with(':')).map(str::to_string).collect()
}

fn cases(normal: u64) -> u64 {
    std::env::var("REDJEPSEN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(normal)
}

/// Plays a sequence of commands, and begins again if the machine was too slow for the lives of its keys.
fn play(seed: u64, length: usize, short_lives: bool, both: &mut Both<'_>) {
    const TRIES: u32 = 50;
    assert!((0..TRIES).any(|_| play_once(seed, length, short_lives, both)), "this machine is too slow for the test");
}

/// Returns false if the machine was too slow.
fn play_once(seed: u64, length: usize, short_lives: bool, both: &mut Both<'_>) -> bool {
    let mut generator = Generator::new(seed, short_lives);
    for client in 0..both.connections.len() {
        // Ends what the sequence before left open; there may be nothing.
        both.ask(client, &["EXEC"]);
    }
    both.compare(0, &["FLUSHALL"]);
    both.compare(0, &["SCRIPT", "FLUSH"]);
    both.history.clear();
    (both.lag, both.unsure) = (Duration::ZERO, false);
    for _ in 0..length {
        let client = generator.client(both.connections.len());
        let words = generator.command();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words[0] == "DBSIZE" {
            // Keys that have expired count until they are looked at.
            both.ask(client, &["EXISTS", "a", "b", "c", "d", "e", "f"]);
        }
        let (simulated, real) = both.ask(client, &words);
        if both.unsure {
            return false;
        }
        both.compare_answers(&words, &simulated, &real);
        if let Some(millis) = generator.rest() {
            std::thread::sleep(Duration::from_millis(millis));
        }
    }
    true
}

/// Plays so many sequences on each server.
fn compare(cases: u64, length: usize, short_lives: bool) {
    for program in ServerProgram::all() {
        let real = Real::start(&program, Persistence::None);
        let mut simulated = Simulated::of(program.version, Persistence::None);
        let mut clients = [real.connect(), real.connect()];
        let mut both = Both::new(&mut clients, &mut simulated, program.version, Instant::now());
        for seed in 0..cases {
            play(seed, length, short_lives, &mut both);
        }
    }
}

#[test]
fn both_answer_the_same() {
    compare(cases(2000), 60, false);
}

#[test]
fn keys_end_at_the_same_time() {
    compare(cases(60), 40, true);
}

/// Whether a server has nothing left to write to its file.
fn is_written(real: &Real) -> bool {
    real.ask(&["INFO", "persistence"]).contains("aof_buffer_length:0\r")
}

#[test]
fn both_have_the_same_keys_after_a_kill() {
    ServerProgram::all().iter().for_each(same_keys_after_a_kill);
}

fn same_keys_after_a_kill(program: &ServerProgram) {
    for persistence in [Persistence::None, Persistence::Never, Persistence::Everysec, Persistence::Always] {
        let mut real = Real::start(program, persistence);
        let mut simulated = Simulated::of(program.version, persistence);
        let since = Instant::now();
        for seed in 0..cases(12) {
            let mut clients = [real.connect()];
            let mut both = Both::new(&mut clients, &mut simulated, program.version, since);
            play(1000 + seed, 60, seed % 3 == 0, &mut both);
            let (ends, lag) = (std::mem::take(&mut both.ends), both.lag);
            if let Some((_, last)) = ends.iter().max_by_key(|(_, last)| *last) {
                std::thread::sleep((*last + TOO_CLOSE).saturating_duration_since(Instant::now()));
            }
            // With `everysec`, Redis holds a write back while a sync is under way.
            while persistence.keeps_file() && !is_written(&real) {
                std::thread::sleep(Duration::from_millis(5));
            }
            real.restart();
            simulated.follow_real_clocks(since);
            simulated.kill_and_restart();
            let mut clients = [real.connect()];
            let mut both = Both::new(&mut clients, &mut simulated, program.version, since);
            // Times that were set before may be as far apart as then.
            both.lag = lag;
            both.history.push(format!("{program:?}, {persistence:?}, seed {seed}, after a restart"));
            both.compare_keys(0);
        }
    }
}
