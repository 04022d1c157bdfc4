//! Random commands on a few keys, most of them sensible.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

const SCRIPTS: &[&str] = &[
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 10000) else return 0 end",
    "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30)",
    "return {redis.call('get', KEYS[1]), 1.9, false, true, 'x', {redis.call('exists', KEYS[1])}, nil, 3}",
    "return redis.call('pexpire', KEYS[1], 20000)",
    "return redis.call('incr', KEYS[1])",
    "return redis.call('set', KEYS[1], ARGV[1], 'IFEQ', ARGV[1], 'PX', 20000)",
    "return redis.call('delifeq', KEYS[1], ARGV[1])",
    "redis.call('set', KEYS[1], tonumber('0.5') + 2.5) return redis.call('get', KEYS[1])",
    "return tonumber(string.match(ARGV[1] or '', '^%d+')) or 0",
    "\n\nreturn nothing",
    "return #ARGV + tonumber(ARGV[1] or '0')",
    "redis.call('set', KEYS[1], 1)\nerror('stop')",
    "redis.call('set', KEYS[1], 1)\nerror({err='MINE stop'})",
    "return {err='CODE text'}",
    "return {ok='fine'}",
    "return redis.call('nonsense')",
    "return redis.call('get')",
    "return redis.call('wait', 0, 0)",
    "return redis.call('set', KEYS[1], {})",
    "return redis.call()",
    "return tostring(1e15)",
    "x = 1",
    "return syntax error",
    "local t = redis.call('time') return #t",
    "redis.call('del', KEYS[1]) redis.call('setnx', KEYS[1], 3) return redis.call('incr', KEYS[1])",
];

/// These take more words on a real server than the simulated one knows.
const MORE_ON_REAL: [&str; 5] = ["PEXPIRE", "PEXPIREAT", "FLUSHALL", "SCRIPT", "CLIENT"];

pub struct Generator {
    random: ChaCha8Rng,
    /// Whether keys may expire during the sequence.
    short_lives: bool,
}

impl Generator {
    pub fn new(seed: u64, short_lives: bool) -> Generator {
        Generator { random: ChaCha8Rng::seed_from_u64(seed), short_lives }
    }

    /// Which of so many clients asks.
    pub fn client(&mut self, clients: usize) -> usize {
        self.random.random_range(0..clients as u64) as usize
    }

    /// How long nobody asks, in milliseconds.
    pub fn rest(&mut self) -> Option<u64> {
        (self.short_lives && self.random.random_range(0..8) == 0).then(|| self.random.random_range(0..30))
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.random_range(0..of.len() as u64) as usize]
    }

    fn key(&mut self) -> String {
        self.one(&KEYS).to_string()
    }

    fn value(&mut self) -> String {
        self.one(&["1", "10", "-5", "x", "hello", "", "9223372036854775807", "a b", "007", "3.5"]).to_string()
    }

    /// A time to live in milliseconds.
    fn millis(&mut self) -> String {
        match self.short_lives && self.random.random_range(0..2) == 0 {
            true => self.random.random_range(15..60).to_string(),
            false => self.one(&["10000", "100000", "0", "-1", "x", "9223372036854775807"]).to_string(),
        }
    }

    pub fn command(&mut self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
        let mut command = match self.random.random_range(0..10) {
            0 | 1 => self.set(),
            2 => self.expiry(),
            3 | 4 => {
                let name = self.one(&["GET", "get", "TYPE", "PTTL", "EXISTS", "INCR", "DEL"]);
                vec![name.to_string(), self.key()]
            }
            5 => match self.random.random_range(0..3) {
                0 => vec!["SETNX".to_string(), self.key(), self.value()],
                1 => vec!["DELIFEQ".to_string(), self.key(), self.value()],
                _ => vec!["DELEX".to_string(), self.key(), self.one(&["IFEQ", "IFNE"]).to_string(), self.value()],
            },
            6 => {
                let name = self.one(&["DEL", "EXISTS"]);
                vec![name.to_string(), self.key(), self.value(), self.key()]
            }
            7 | 8 => {
                let script = self.one(SCRIPTS);
                vec!["EVAL".to_string(), script.to_string(), "1".to_string(), self.key(), self.value()]
            }
            _ => self.other(),
        };
        match self.random.random_range(0..40) {
            0 | 1 if MORE_ON_REAL.contains(&&command[0][..]) => {}
            0 => command.push(self.value()),
            1 if command.len() > 1 => _ = command.pop(),
            2 => command = words(&["nonsense", "with", "words"]),
            _ => {}
        }
        command
    }

    fn set(&mut self) -> Vec<String> {
        let mut command = vec!["SET".to_string(), self.key(), self.value()];
        for _ in 0..self.random.random_range(0..3) {
            match self.one(&["NX", "nx", "PX", "px", "PXAT", "IFEQ", "ifeq", "IFNE"]) {
                option @ ("IFEQ" | "ifeq" | "IFNE") => command.extend([option.to_string(), self.value()]),
                option @ ("PX" | "px") => command.extend([option.to_string(), self.millis()]),
                option @ "PXAT" => command.extend([option.to_string(), "4102444800000".to_string()]),
                option => command.push(option.to_string()),
            }
        }
        command
    }

    fn expiry(&mut self) -> Vec<String> {
        match self.one(&["PEXPIRE", "PEXPIREAT"]) {
            name @ "PEXPIRE" => vec![name.to_string(), self.key(), self.millis()],
            name => {
                let moment = self.one(&["4102444800000", "4102444800000", "1000", "-1", "x"]);
                vec![name.to_string(), self.key(), moment.to_string()]
            }
        }
    }

    fn other(&mut self) -> Vec<String> {
        let fixed: &[&[&str]] = &[
            &["MULTI"],
            &["MULTI"],
            &["EXEC"],
            &["EXEC"],
            &["EXEC"],
            &["PING"],
            &["PING", "x"],
            &["SELECT", "0"],
            &["SELECT", "x"],
            &["DBSIZE"],
            &["FLUSHALL"],
            &["CONFIG", "GET", "maxmemory"],
            &["CONFIG", "SET", "maxmemory", "much"],
            &["CONFIG", "SET", "nonsense", "1"],
            &["CONFIG", "nonsense"],
            &["CLIENT", "KILL", "ID", "0"],
            &["CLIENT", "KILL", "ID", "999999"],
            &["CLIENT", "KILL", "TYPE", "pubsub"],
            &["CLIENT", "KILL", "TYPE", "odd"],
            &["SCRIPT", "FLUSH"],
            &["EVAL", "return 1", "-1"],
            &["EVAL", "return 1", "2", "a"],
            &["EVAL", "return 1", "x"],
            &["WAIT", "0", "10"],
            &["WAIT", "x", "10"],
            &["WAIT", "0", "-1"],
            &["PUBLISH", "channel", "x"],
            &["KEYS", "nothing*"],
            &["ROLE"],
            &["REPLICAOF", "NO", "ONE"],
            &["ASKING"],
            &["CLUSTER", "INFO"],
        ];
        let words = fixed[self.random.random_range(0..fixed.len() as u64) as usize];
        words.iter().map(|word| (*word).to_string()).collect()
    }
}
