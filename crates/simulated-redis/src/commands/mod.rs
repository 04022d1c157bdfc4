//! The commands: their names, how many words they have, which of these are keys, and what runs them.

mod cluster;
mod connection;
mod expiry;
pub(crate) mod glob;
mod hashes;
pub(crate) mod info;
mod keys;
mod lists;
mod pubsub;
mod replication;
mod scripts;
mod settings;
mod strings;
mod transaction;

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;

use crate::data::{Data, Words};
use crate::keyspace::Value;
use crate::number;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;

/// An answer, or an error as the answer.
pub(crate) type Answer = Result<Reply, Reply>;

/// What runs a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// It needs the data only, so scripts may call it: the data, the database, the words.
    Data(fn(&mut Data, usize, Words<'_>) -> Answer),
    /// It is about a connection or the whole server.
    Server(fn(&mut Server, Connection, Words<'_>) -> Answer),
}

/// It changes data: a read-only replica refuses it.
pub(crate) const WRITE: u8 = 1;
/// It may need more memory: a server that has none left refuses it.
pub(crate) const GROWS: u8 = 2;
/// Run at once even between MULTI and EXEC.
pub(crate) const AT_ONCE: u8 = 4;
/// Allowed for a RESP2 client that has subscribed to something.
pub(crate) const WHILE_SUBSCRIBED: u8 = 8;

/// A command.
pub(crate) struct Command {
    /// In small letters.
    pub name: &'static str,
    /// How many words it has, its name included; at least so many if negative.
    pub arity: i32,
    pub flags: u8,
    /// The places of its first and its last key, counted from the end if negative, and the step between two. None at 0.
    pub keys: (i32, i32, usize),
    pub run: Run,
}

impl Command {
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn accepts(&self, words: usize) -> bool {
        accepts(self.arity, words)
    }

    /// The keys among its words.
    pub fn keys_in<'a>(&self, words: Words<'a>) -> Vec<&'a [u8]> {
        if let "eval" | "evalsha" = self.name {
            let count = words.get(2).and_then(|count| number::unsigned(count)).unwrap_or(0) as usize;
            return words.iter().skip(3).take(count).copied().collect();
        }
        let (first, last, step) = self.keys;
        if first == 0 {
            return Vec::new();
        }
        let last = if last < 0 { words.len() as i32 + last } else { last } as usize;
        words.iter().take(last + 1).skip(first as usize).step_by(step).copied().collect()
    }
}

const NO_KEYS: (i32, i32, usize) = (0, 0, 0);
const ONE: (i32, i32, usize) = (1, 1, 1);
const TWO: (i32, i32, usize) = (1, 2, 1);
const ALL: (i32, i32, usize) = (1, -1, 1);
const PAIRS: (i32, i32, usize) = (1, -1, 2);

const fn data(
    name: &'static str,
    arity: i32,
    flags: u8,
    keys: (i32, i32, usize),
    run: fn(&mut Data, usize, Words<'_>) -> Answer,
) -> Command {
    Command { name, arity, flags, keys, run: Run::Data(run) }
}

const fn server(
    name: &'static str,
    arity: i32,
    flags: u8,
    run: fn(&mut Server, Connection, Words<'_>) -> Answer,
) -> Command {
    Command { name, arity, flags, keys: NO_KEYS, run: Run::Server(run) }
}

static COMMANDS: &[Command] = &[
    data("append", 3, WRITE | GROWS, ONE, strings::append),
    server("asking", 1, 0, cluster::asking),
    server("auth", -2, 0, connection::auth),
    server("client", -2, 0, connection::client),
    server("cluster", -2, 0, cluster::cluster),
    server("config", -2, 0, settings::config),
    data("dbsize", 1, 0, NO_KEYS, keys::dbsize),
    server("debug", -2, 0, settings::debug),
    data("decr", 2, WRITE | GROWS, ONE, strings::decr),
    data("decrby", 3, WRITE | GROWS, ONE, strings::decrby),
    data("del", -2, WRITE, ALL, keys::del),
    server("discard", 1, AT_ONCE, transaction::discard),
    data("echo", 2, 0, NO_KEYS, keys::echo),
    server("eval", -3, 0, scripts::eval),
    server("evalsha", -3, 0, scripts::evalsha),
    server("exec", 1, AT_ONCE, transaction::exec),
    data("exists", -2, 0, ALL, keys::exists),
    data("expire", -3, WRITE, ONE, expiry::expire),
    data("expireat", -3, WRITE, ONE, expiry::expireat),
    data("expiretime", 2, 0, ONE, expiry::expiretime),
    data("flushall", -1, WRITE, NO_KEYS, keys::flushall),
    data("flushdb", -1, WRITE, NO_KEYS, keys::flushdb),
    data("get", 2, 0, ONE, strings::get),
    data("getdel", 2, WRITE, ONE, strings::getdel),
    data("getex", -2, WRITE, ONE, strings::getex),
    data("getrange", 4, 0, ONE, strings::getrange),
    data("getset", 3, WRITE | GROWS, ONE, strings::getset),
    data("hdel", -3, WRITE, ONE, hashes::hdel),
    server("hello", -1, 0, connection::hello),
    data("hexists", 3, 0, ONE, hashes::hexists),
    data("hget", 3, 0, ONE, hashes::hget),
    data("hgetall", 2, 0, ONE, hashes::hgetall),
    data("hincrby", 4, WRITE | GROWS, ONE, hashes::hincrby),
    data("hkeys", 2, 0, ONE, hashes::hkeys),
    data("hlen", 2, 0, ONE, hashes::hlen),
    data("hmget", -3, 0, ONE, hashes::hmget),
    data("hmset", -4, WRITE | GROWS, ONE, hashes::hset),
    data("hset", -4, WRITE | GROWS, ONE, hashes::hset),
    data("hsetnx", 4, WRITE | GROWS, ONE, hashes::hsetnx),
    data("hvals", 2, 0, ONE, hashes::hvals),
    data("incr", 2, WRITE | GROWS, ONE, strings::incr),
    data("incrby", 3, WRITE | GROWS, ONE, strings::incrby),
    server("info", -1, 0, info::info),
    data("keys", 2, 0, NO_KEYS, keys::keys),
    data("lindex", 3, 0, ONE, lists::lindex),
    data("llen", 2, 0, ONE, lists::llen),
    data("lpop", -2, WRITE, ONE, lists::lpop),
    data("lpush", -3, WRITE | GROWS, ONE, lists::lpush),
    data("lpushx", -3, WRITE | GROWS, ONE, lists::lpushx),
    data("lrange", 4, 0, ONE, lists::lrange),
    data("lrem", 4, WRITE, ONE, lists::lrem),
    data("ltrim", 4, WRITE, ONE, lists::ltrim),
    data("mget", -2, 0, ALL, strings::mget),
    data("mset", -3, WRITE | GROWS, PAIRS, strings::mset),
    data("msetnx", -3, WRITE | GROWS, PAIRS, strings::msetnx),
    server("multi", 1, AT_ONCE, transaction::multi),
    data("persist", 2, WRITE, ONE, expiry::persist),
    data("pexpire", -3, WRITE, ONE, expiry::pexpire),
    data("pexpireat", -3, WRITE, ONE, expiry::pexpireat),
    data("pexpiretime", 2, 0, ONE, expiry::pexpiretime),
    server("ping", -1, WHILE_SUBSCRIBED, connection::ping),
    data("psetex", 4, WRITE | GROWS, ONE, strings::psetex),
    server("psubscribe", -2, WHILE_SUBSCRIBED, pubsub::psubscribe),
    server("psync", -3, 0, replication::psync),
    data("pttl", 2, 0, ONE, expiry::pttl),
    data("publish", 3, 0, NO_KEYS, pubsub::publish),
    server("pubsub", -2, 0, pubsub::pubsub),
    server("punsubscribe", -1, WHILE_SUBSCRIBED, pubsub::punsubscribe),
    server("quit", -1, AT_ONCE | WHILE_SUBSCRIBED, connection::quit),
    data("randomkey", 1, 0, NO_KEYS, keys::randomkey),
    data("rename", 3, WRITE, TWO, keys::rename),
    data("renamenx", 3, WRITE, TWO, keys::renamenx),
    server("replconf", -1, 0, replication::replconf),
    server("replicaof", 3, 0, replication::replicaof),
    server("reset", 1, AT_ONCE | WHILE_SUBSCRIBED, connection::reset),
    server("role", 1, 0, replication::role),
    data("rpop", -2, WRITE, ONE, lists::rpop),
    data("rpush", -3, WRITE | GROWS, ONE, lists::rpush),
    data("rpushx", -3, WRITE | GROWS, ONE, lists::rpushx),
    data("scan", -2, 0, NO_KEYS, keys::scan),
    server("script", -2, 0, scripts::script),
    server("select", 2, 0, connection::select),
    data("set", -3, WRITE | GROWS, ONE, strings::set),
    data("setex", 4, WRITE | GROWS, ONE, strings::setex),
    data("setnx", 3, WRITE | GROWS, ONE, strings::setnx),
    data("setrange", 4, WRITE | GROWS, ONE, strings::setrange),
    server("slaveof", 3, 0, replication::replicaof),
    data("strlen", 2, 0, ONE, strings::strlen),
    server("subscribe", -2, WHILE_SUBSCRIBED, pubsub::subscribe),
    data("time", 1, 0, NO_KEYS, keys::time),
    data("touch", -2, 0, ALL, keys::exists),
    data("ttl", 2, 0, ONE, expiry::ttl),
    data("type", 2, 0, ONE, keys::kind),
    data("unlink", -2, WRITE, ALL, keys::del),
    server("unsubscribe", -1, WHILE_SUBSCRIBED, pubsub::unsubscribe),
    server("unwatch", 1, 0, transaction::unwatch),
    server("wait", 3, 0, replication::wait),
    Command { name: "watch", arity: -2, flags: AT_ONCE, keys: ALL, run: Run::Server(transaction::watch) },
];

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, FxBuildHasher>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name.as_bytes(), command)).collect());

/// The command of this name, in letters of either case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 16;
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

/// As Redis answers a command that it does not know.
pub(crate) fn unknown(words: Words<'_>) -> Reply {
    const SHOWN: usize = 128;
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let mut arguments = String::new();
    for word in words.iter().skip(1) {
        if arguments.len() >= SHOWN {
            break;
        }
        let shown = word.len().min(SHOWN - arguments.len());
        arguments += &format!("'{}' ", text(&word[..shown]));
    }
    let name = words.first().map(|name| text(&name[..name.len().min(SHOWN)])).unwrap_or_default();
    Reply::failed(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}

/// As Redis answers a command with too many or too few words. The name of a subcommand follows a bar.
pub(crate) fn wrong_arity(name: &str) -> Reply {
    Reply::failed(format!("ERR wrong number of arguments for '{name}' command"))
}

/// As Redis answers a subcommand that it does not know.
fn unknown_subcommand(words: Words<'_>) -> Reply {
    let text = |place: usize| words.get(place).map(|word| String::from_utf8_lossy(word)).unwrap_or_default();
    Reply::failed(format!("ERR unknown subcommand '{}'. Try {} HELP.", text(1), text(0).to_uppercase()))
}

/// A subcommand in small letters.
pub(crate) fn subcommand(words: Words<'_>) -> String {
    words.get(1).map(|word| String::from_utf8_lossy(word).to_lowercase()).unwrap_or_default()
}

/// The commands that have subcommands, and how many words these have in total; at least so many if negative.
const SUBCOMMANDS: &[(&str, &[(&str, i32)])] = &[
    ("client", &[("getname", 2), ("id", 2), ("info", 2), ("kill", -3), ("list", -2), ("no-evict", 3), ("setname", 3)]),
    (
        "cluster",
        &[
            ("countkeysinslot", 3),
            ("failover", -2),
            ("info", 2),
            ("keyslot", 3),
            ("links", 2),
            ("myid", 2),
            ("nodes", 2),
            ("replicas", 3),
            ("shards", 2),
            ("slaves", 3),
            ("slots", 2),
        ],
    ),
    ("config", &[("get", -3), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    ("pubsub", &[("channels", -2), ("numpat", 2), ("numsub", -2)]),
    ("script", &[("exists", -3), ("flush", -2), ("kill", 2), ("load", 3)]),
];

/// Refuses a subcommand that there is not, or with too many or too few words.
pub(crate) fn check_subcommand(command: &Command, words: Words<'_>) -> Result<(), Reply> {
    let Some((_, subcommands)) = SUBCOMMANDS.iter().find(|(name, _)| *name == command.name) else { return Ok(()) };
    let wanted = subcommand(words);
    match subcommands.iter().find(|(name, _)| *name == wanted) {
        Some((_, arity)) if accepts(*arity, words.len()) => Ok(()),
        Some((name, _)) => Err(wrong_arity(&format!("{}|{name}", command.name))),
        None => Err(unknown_subcommand(words)),
    }
}

fn accepts(arity: i32, words: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { words >= wanted } else { words == wanted }
}

pub(crate) const SYNTAX: Reply = Reply::error("ERR syntax error");
const NOT_AN_INTEGER: Reply = Reply::error("ERR value is not an integer or out of range");
const WRONG_TYPE: Reply = Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value");
const NO_SUCH_KEY: Reply = Reply::error("ERR no such key");

fn integer(word: &[u8]) -> Result<i64, Reply> {
    number::integer(word).ok_or(NOT_AN_INTEGER)
}

fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// The string in a value; None if there is no value.
fn string(value: Option<&Value>) -> Result<Option<&[u8]>, Reply> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(WRONG_TYPE),
    }
}

/// The part of a sequence between two places, both included and counted from the end if negative.
fn range(from: i64, to: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let place = |place: i64| if place < 0 { (length.saturating_add(place)).max(0) } else { place };
    let to = if to < 0 { length.saturating_add(to) } else { to.min(length - 1) };
    let from = place(from);
    if from > to { 0..0 } else { from as usize..to as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name_and_have_their_keys() {
        let keys = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let command = find(words[0]).unwrap();
            assert!(command.accepts(words.len()));
            command.keys_in(&words).iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&["GeT", "a"]), ["a"]);
        assert_eq!(keys(&["mset", "a", "1", "b", "2"]), ["a", "b"]);
        assert_eq!(keys(&["del", "a", "b"]), ["a", "b"]);
        assert_eq!(keys(&["eval", "return 1", "2", "a", "b", "c"]), ["a", "b"]);
        assert!(keys(&["ping"]).is_empty());
        assert!(find(b"nonsense").is_none() && find(&[b'x'; 100]).is_none());
        assert!(!find(b"get").unwrap().accepts(3));
    }

    #[test]
    fn ranges_end_where_the_sequence_does() {
        for (from, to, expected) in
            [(0, -1, 0..5), (1, 2, 1..3), (-2, 100, 3..5), (3, 1, 0..0), (9, 10, 0..0), (-100, 0, 0..1), (0, -6, 0..0)]
        {
            assert_eq!(range(from, to, 5), expected);
        }
        assert_eq!(range(0, -1, 0), 0..0);
    }
}
