//! Random commands on a few keys, most of them sensible.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

const SCRIPTS: &[&str] = &[
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 10000) else return 0 end",
    "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30)",
    "return {redis.call('get', KEYS[1]), 1.9, false, true, 'x', {redis.call('exists', KEYS[1])}, nil, 3}",
    "return redis.call('incrby', KEYS[1], 2.5)",
    "return redis.pcall('incr', KEYS[1])",
    "redis.call('append', KEYS[1], tonumber('0.1') + 0.2) return redis.call('strlen', KEYS[1])",
    "return redis.call('lrange', KEYS[1], 0, -1)",
    "return redis.call('hgetall', KEYS[1])",
    "local r = redis.pcall('lpush', KEYS[1], ARGV[1]) if type(r) == 'table' then return r.err end return r",
    "\n\nreturn nothing",
    "return #ARGV + tonumber(ARGV[1] or '0')",
    "redis.call('set', KEYS[1], 1)\nerror('stop')",
    "redis.call('set', KEYS[1], 1)\nerror({err='MINE stop'})",
    "return redis.error_reply('plain')",
    "return redis.error_reply('CODE text')",
    "return redis.status_reply('fine')",
    "return redis.call('nonsense')",
    "return redis.call('get')",
    "return redis.call('wait', 0, 0)",
    "return redis.call('set', KEYS[1], {})",
    "return redis.call()",
    "return {math.random(), math.random(100), redis.sha1hex('')}",
    "return tostring(math.random()) .. tostring(math.random(7)) .. tostring(1e15)",
    "x = 1",
    "return syntax error",
    "local t = redis.call('time') return #t",
    "redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], 3, 2, 1) return redis.call('ltrim', KEYS[1], 0, 1)",
];

pub struct Generator {
    random: ChaCha8Rng,
    /// Whether keys may expire during the sequence.
    short_lives: bool,
    /// How many lives have been drawn that a server compares with others.
    compared: u64,
}

impl Generator {
    pub fn new(seed: u64, short_lives: bool) -> Generator {
        Generator { random: ChaCha8Rng::seed_from_u64(seed), short_lives, compared: 0 }
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

    fn number(&mut self) -> String {
        self.one(&["0", "1", "2", "-1", "-2", "5", "100", "-100", "x", "9223372036854775807", "-9223372036854775808"])
            .to_string()
    }

    /// A time to live in milliseconds.
    fn millis(&mut self) -> String {
        match self.short_lives && self.random.random_range(0..2) == 0 {
            true => self.random.random_range(15..60).to_string(),
            false => self.one(&["10000", "100000", "0", "-1", "x", "9223372036854775807"]).to_string(),
        }
    }

    fn seconds(&mut self) -> String {
        self.one(&["10", "100", "0", "-1", "x", "9223372036854775807"]).to_string()
    }

    /// A time to live in seconds that ends long before or after any other of the sequence. Which of two equal ones ends
    /// first depends on the milliseconds in which a server got them.
    fn compared_seconds(&mut self) -> u64 {
        self.compared += 10;
        self.random.random_range(1..100) * 1000 + self.compared
    }

    pub fn command(&mut self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
        let mut command = match self.random.random_range(0..12) {
            0 | 1 => self.set(),
            2 => self.expiry(),
            3 => {
                let name = self.one(&["GET", "get", "STRLEN", "TYPE", "TTL", "PTTL", "PERSIST", "GETDEL", "EXISTS"]);
                vec![name.to_string(), self.key()]
            }
            4 => {
                let name = self.one(&["INCR", "DECR", "DEL", "UNLINK", "LLEN", "HLEN", "HGETALL", "HKEYS", "LPOP"]);
                vec![name.to_string(), self.key()]
            }
            5 => {
                let name = self.one(&["INCRBY", "DECRBY", "APPEND", "GETSET", "SETNX", "LINDEX", "LPOP", "RPOP"]);
                let value = if self.random.random_range(0..2) == 0 { self.number() } else { self.value() };
                vec![name.to_string(), self.key(), value]
            }
            6 => {
                let name = self.one(&["LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "MGET", "DEL", "TOUCH", "HDEL", "HMGET"]);
                vec![name.to_string(), self.key(), self.value(), self.key()]
            }
            7 => {
                let name = self.one(&["LRANGE", "LTRIM", "GETRANGE", "LREM", "SETRANGE", "HINCRBY"]);
                vec![name.to_string(), self.key(), self.number(), self.number()]
            }
            8 => {
                let name = self.one(&["HSET", "HSETNX", "HMSET", "HGET", "HEXISTS", "MSET", "MSETNX", "RENAME"]);
                vec![name.to_string(), self.key(), self.key(), self.value()]
            }
            9 | 10 => {
                let script = self.one(SCRIPTS);
                vec!["EVAL".to_string(), script.to_string(), "1".to_string(), self.key(), self.value()]
            }
            _ => self.other(),
        };
        match self.random.random_range(0..40) {
            0 => command.push(self.value()),
            // HELLO by itself tells the number of the connection.
            1 if command.len() > 1 && command[0] != "HELLO" => _ = command.pop(),
            2 => command = words(&["nonsense", "with", "words"]),
            _ => {}
        }
        command
    }

    fn set(&mut self) -> Vec<String> {
        let mut command = vec!["SET".to_string(), self.key(), self.value()];
        for _ in 0..self.random.random_range(0..3) {
            match self.one(&["NX", "xx", "GET", "KEEPTTL", "PX", "px", "EX", "PXAT"]) {
                option @ ("PX" | "px") => command.extend([option.to_string(), self.millis()]),
                option @ "EX" => command.extend([option.to_string(), self.seconds()]),
                option @ "PXAT" => command.extend([option.to_string(), "4102444800000".to_string()]),
                option => command.push(option.to_string()),
            }
        }
        command
    }

    fn expiry(&mut self) -> Vec<String> {
        let names = ["EXPIRE", "PEXPIRE", "PEXPIRE", "SETEX", "PSETEX", "GETEX", "PEXPIREAT", "PEXPIREAT"];
        let mut command = match self.one(&names) {
            name @ "EXPIRE" => vec![name.to_string(), self.key(), self.seconds()],
            name @ "PEXPIRE" => vec![name.to_string(), self.key(), self.millis()],
            name @ "SETEX" => return vec![name.to_string(), self.key(), self.seconds(), self.value()],
            name @ "PSETEX" => return vec![name.to_string(), self.key(), self.millis(), self.value()],
            name @ "GETEX" => match self.one(&["", "PERSIST", "PX", "EX"]) {
                "" => return vec![name.to_string(), self.key()],
                option @ "PX" => return vec![name.to_string(), self.key(), option.to_string(), self.millis()],
                option @ "EX" => return vec![name.to_string(), self.key(), option.to_string(), self.seconds()],
                option => return vec![name.to_string(), self.key(), option.to_string()],
            },
            name => {
                let moment = self.one(&["4102444800000", "4102444800000", "1000", "-1", "x"]);
                vec![name.to_string(), self.key(), moment.to_string()]
            }
        };
        for _ in 0..self.random.random_range(0..3) {
            let option = self.one(&["NX", "XX", "gt", "LT", "ZZ"]);
            // Moments are the same for both servers; lives that are over at once, or too long, do not hang on milliseconds.
            let is_compared = matches!(option, "gt" | "LT") && matches!(command[2].parse(), Ok(1..=10_000_000_u64));
            match command[0].as_str() {
                "EXPIRE" if is_compared => command[2] = self.compared_seconds().to_string(),
                "PEXPIRE" if is_compared => command[2] = (self.compared_seconds() * 1000).to_string(),
                _ => {}
            }
            command.push(option.to_string());
        }
        command
    }

    fn other(&mut self) -> Vec<String> {
        let fixed: &[&[&str]] = &[
            &["MULTI"],
            &["MULTI"],
            &["EXEC"],
            &["EXEC"],
            &["EXEC"],
            &["DISCARD"],
            &["WATCH", "a", "b"],
            &["UNWATCH"],
            &["PING"],
            &["PING", "x"],
            &["ECHO", "x"],
            &["SELECT", "0"],
            &["SELECT", "16"],
            &["SELECT", "x"],
            &["DBSIZE"],
            &["FLUSHALL"],
            &["FLUSHDB", "SYNC"],
            &["FLUSHDB", "later"],
            &["CONFIG", "GET", "maxmemory"],
            &["CONFIG", "SET", "maxmemory", "much"],
            &["CONFIG", "SET", "nonsense", "1"],
            &["CONFIG", "nonsense"],
            &["CLIENT", "GETNAME"],
            &["CLIENT", "SETNAME", "me"],
            &["CLIENT", "SETNAME", "m e"],
            &["CLIENT", "SETINFO", "lib-name", "x"],
            &["CLIENT", "NO-EVICT", "on"],
            &["CLIENT", "KILL", "1.1.1.1:1"],
            &["CLIENT", "KILL", "ID", "0"],
            &["CLIENT", "KILL", "ID", "999999"],
            &["CLIENT", "KILL", "TYPE", "pubsub"],
            &["CLIENT", "KILL", "TYPE", "odd"],
            &["SCRIPT", "EXISTS", "x"],
            &["SCRIPT", "LOAD", "return 1"],
            &["SCRIPT", "FLUSH"],
            &["SCRIPT", "nonsense"],
            &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
            &["EVAL", "return 1", "-1"],
            &["EVAL", "return 1", "2", "a"],
            &["EVAL", "return 1", "x"],
            &["WAIT", "0", "10"],
            &["WAIT", "x", "10"],
            &["WAIT", "0", "-1"],
            &["PUBLISH", "channel", "x"],
            &["PUBSUB", "NUMPAT"],
            &["SCAN", "x"],
            &["SCAN", "0", "COUNT", "0"],
            &["KEYS", "nothing*"],
            &["ROLE"],
            &["REPLICAOF", "NO", "ONE"],
            &["ASKING"],
            &["CLUSTER", "INFO"],
            &["AUTH", "x"],
            &["AUTH", "default", "x"],
            &["AUTH", "other", "x"],
            &["HELLO", "4"],
            &["HELLO", "x"],
            &["DEBUG", "SLEEP", "0"],
        ];
        let words = fixed[self.random.random_range(0..fixed.len() as u64) as usize];
        words.iter().map(|word| (*word).to_string()).collect()
    }
}
