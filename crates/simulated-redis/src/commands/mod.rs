//! The commands: names, numbers of words, keys among these words, and handlers.

mod cluster;
mod connection;
mod expiry;
pub(crate) mod glob;
pub(crate) mod info;
mod keys;
mod pubsub;
pub(crate) mod replication;
mod scripts;
pub(crate) mod settings;
mod snapshots;
mod strings;
mod transaction;

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;

use crate::data::{CommandWords, Data};
use crate::number;
use crate::process::Connection;
use crate::reply::Reply;
use crate::server::Server;
use crate::version::Version;
use glob::matches;

/// An answer, or an error as the answer.
pub(crate) type CommandResult = Result<Reply, Reply>;

/// The handler of a command.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Needs only the data and the words, so scripts may call it.
    Data(fn(&mut Data, CommandWords<'_>) -> CommandResult),
    /// Concerns a connection or the whole server.
    Server(fn(&mut Server, Connection, CommandWords<'_>) -> CommandResult),
}

/// Changes data: a read-only replica refuses the command.
pub(crate) const WRITE: u8 = 1;
/// May need more memory: a server out of memory refuses the command.
pub(crate) const GROWS: u8 = 2;
/// Runs at once, even between MULTI and EXEC.
pub(crate) const AT_ONCE: u8 = 4;
/// Allowed for a client with subscriptions.
pub(crate) const WHILE_SUBSCRIBED: u8 = 8;

/// Recorded as executed, although it concerns a connection or the whole server.
pub(crate) const RECORDED: u8 = 16;

/// The keys among the words after the name.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    None,
    One,
    All,
}

pub(crate) struct Command {
    /// The name in lowercase.
    pub name: &'static str,
    /// The number of words with the name; if negative, the least number.
    pub arity: i32,
    pub flags: u8,
    pub keys: Keys,
    pub run: Handler,
}

impl Command {
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn accepts(&self, words: usize) -> bool {
        accepts(self.arity, words)
    }

    /// Returns the keys among these words.
    pub fn keys_in<'a>(&self, words: CommandWords<'a>) -> Vec<&'a [u8]> {
        if self.name == "eval" {
            let count = words.get(2).and_then(|count| number::unsigned(count)).unwrap_or(0) as usize;
            return words.iter().skip(3).take(count).copied().collect();
        }
        let count = match self.keys {
            Keys::None => 0,
            Keys::One => 1,
            Keys::All => words.len(),
        };
        words.iter().skip(1).take(count).copied().collect()
    }
}

const fn data(
    name: &'static str,
    arity: i32,
    flags: u8,
    keys: Keys,
    run: fn(&mut Data, CommandWords<'_>) -> CommandResult,
) -> Command {
    Command { name, arity, flags, keys, run: Handler::Data(run) }
}

const fn server(
    name: &'static str,
    arity: i32,
    flags: u8,
    run: fn(&mut Server, Connection, CommandWords<'_>) -> CommandResult,
) -> Command {
    Command { name, arity, flags, keys: Keys::None, run: Handler::Server(run) }
}

static COMMANDS: &[Command] = &[
    server("asking", 1, 0, cluster::asking),
    server("bgsave", -1, 0, snapshots::bgsave),
    server("client", -2, 0, connection::client),
    server("cluster", -2, 0, cluster::cluster),
    server("config", -2, 0, settings::config),
    data("dbsize", 1, 0, Keys::None, keys::dbsize),
    data("del", -2, WRITE, Keys::All, keys::del),
    data("delex", -2, WRITE, Keys::One, keys::delex),
    data("delifeq", 3, WRITE, Keys::One, keys::delifeq),
    server("eval", -3, RECORDED, scripts::eval),
    server("exec", 1, AT_ONCE, transaction::exec),
    data("exists", -2, 0, Keys::All, keys::exists),
    data("flushall", 1, WRITE, Keys::None, keys::flushall),
    data("get", 2, 0, Keys::One, strings::get),
    data("incr", 2, WRITE | GROWS, Keys::One, strings::incr),
    server("info", -1, 0, info::info),
    data("keys", 2, 0, Keys::None, keys::keys),
    server("multi", 1, AT_ONCE | RECORDED, transaction::multi),
    data("pexpire", -3, WRITE, Keys::One, expiry::pexpire),
    data("pexpireat", -3, WRITE, Keys::One, expiry::pexpireat),
    server("ping", -1, WHILE_SUBSCRIBED, connection::ping),
    server("psync", -3, 0, replication::psync),
    data("pttl", 2, 0, Keys::One, expiry::pttl),
    data("publish", 3, 0, Keys::None, pubsub::publish),
    server("replconf", -1, 0, replication::replconf),
    server("replicaof", 3, 0, replication::replicaof),
    server("role", 1, 0, replication::role),
    server("script", -2, RECORDED, scripts::script),
    server("select", 2, 0, connection::select),
    data("set", -3, WRITE | GROWS, Keys::One, strings::set),
    data("setnx", 3, WRITE | GROWS, Keys::One, strings::setnx),
    server("slaveof", 3, 0, replication::replicaof),
    server("subscribe", -2, WHILE_SUBSCRIBED | RECORDED, pubsub::subscribe),
    data("time", 1, 0, Keys::None, keys::time),
    data("type", 2, 0, Keys::One, keys::kind),
    server("wait", 3, RECORDED, replication::wait),
];

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, FxBuildHasher>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name.as_bytes(), command)).collect());

/// Returns the command with this name in any case, if this server has it.
pub(crate) fn find(version: Version, name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 16;
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied().filter(|command| version.has(command.name))
}

/// Redis's answer to an unknown command.
pub(crate) fn unknown(words: CommandWords<'_>) -> Reply {
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

/// Redis's answer to a command with a wrong number of words. The name of a subcommand follows a bar.
pub(crate) fn wrong_arity(name: &str) -> Reply {
    Reply::failed(format!("ERR wrong number of arguments for '{name}' command"))
}

/// Redis's answer to an unknown subcommand.
fn unknown_subcommand(words: CommandWords<'_>) -> Reply {
    let text = |place: usize| words.get(place).map(|word| String::from_utf8_lossy(word)).unwrap_or_default();
    Reply::failed(format!("ERR unknown subcommand '{}'. Try {} HELP.", text(1), text(0).to_uppercase()))
}

pub(crate) fn subcommand(words: CommandWords<'_>) -> String {
    words.get(1).map(|word| String::from_utf8_lossy(word).to_lowercase()).unwrap_or_default()
}

/// The commands with subcommands, and the total number of words; if negative, the least number.
const SUBCOMMANDS: &[(&str, &[(&str, i32)])] = &[
    ("client", &[("id", 2), ("kill", -4), ("list", 2)]),
    ("cluster", &[("failover", 2), ("info", 2), ("keyslot", 3), ("nodes", 2), ("slots", 2)]),
    ("config", &[("get", -3), ("rewrite", 2), ("set", -4)]),
    ("script", &[("flush", 2), ("kill", 2)]),
];

/// Refuses an unknown subcommand, or a wrong number of words.
pub(crate) fn check_subcommand(command: &Command, words: CommandWords<'_>) -> Result<(), Reply> {
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

fn integer(word: &[u8]) -> Result<i64, Reply> {
    number::integer(word).ok_or(NOT_AN_INTEGER)
}

fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name_and_have_their_keys() {
        let keys = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let command = find(Version::Valkey91, words[0]).unwrap();
            assert!(command.accepts(words.len()));
            command.keys_in(&words).iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&["GeT", "a"]), ["a"]);
        assert_eq!(keys(&["del", "a", "b"]), ["a", "b"]);
        assert_eq!(keys(&["delifeq", "a", "b"]), ["a"]);
        assert_eq!(keys(&["eval", "return 1", "2", "a", "b", "c"]), ["a", "b"]);
        assert!(keys(&["ping"]).is_empty());
        let find = |name| super::find(Version::Redis70, name);
        assert!(find(b"nonsense").is_none() && find(&[b'x'; 100]).is_none());
        assert!(!find(b"get").unwrap().accepts(3));
        assert!(find(b"delifeq").is_none() && find(b"delex").is_none());
    }
}
