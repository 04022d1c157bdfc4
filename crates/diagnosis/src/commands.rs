//! The effect of a command on the keys of locks in it, from its words alone.

use base::redis_commands::{asks, may_write};
use model::history::key_behind;

/// The effect on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Read,
    Create(Create<'a>),
    /// Sets its TTL from now on, in ns; None if it is not known, as with PEXPIREAT.
    Renew(Option<u64>),
    /// Removes its TTL.
    Persist,
    Remove,
    /// Another effect, which this crate does not follow.
    Other,
}

/// A key that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Create<'a> {
    /// The owner of the key according to the command: its value, or the field of a hash.
    pub token: &'a str,
    pub ttl: Expiry,
    pub only: Only,
    /// True if it answers the previous value, as GETSET does.
    pub gets: bool,
    /// The value that the key must have before, as in `SET … IFEQ`.
    pub if_value: Option<&'a str>,
}

/// When a key that is set expires, according to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    /// This many ns after the command.
    After(u64),
    /// At a time of the server's clock, as with PXAT. The run's clock does not know that time.
    Unknown,
}

impl Expiry {
    /// In ns after the command; None if the key never expires, or that is not known.
    pub fn after(self) -> Option<u64> {
        match self {
            Expiry::After(ttl) => Some(ttl),
            Expiry::Never | Expiry::Unknown => None,
        }
    }
}

/// The condition under which a key is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    Always,
    IfAbsent,
    IfThere,
}

/// The effects of a command on the keys of locks in it.
pub(crate) fn changes<'a>(name: &str, words: &'a [String]) -> Vec<(&'a str, Change<'a>)> {
    let is_lock = |word: &&'a String| key_behind(word).is_some();
    let first = words.get(1).filter(is_lock).map(String::as_str);
    let one = |what: Change<'a>| first.map(|key| (key, what)).into_iter().collect();
    let all = |what: Change<'a>| words.iter().skip(1).filter(is_lock).map(|key| (key.as_str(), what)).collect();
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let ms = |place: usize| word(place).parse::<u64>().ok().map(|ms| ms.saturating_mul(1_000_000));
    let seconds = |place: usize| word(place).parse::<u64>().ok().map(|s| s.saturating_mul(1_000_000_000));
    let create = |token: &'a str, ttl: Expiry, only: Only| {
        Change::Create(Create { token, ttl, only, gets: false, if_value: None })
    };
    match name {
        "SET" => set(words).map_or(Vec::new(), one),
        "SETNX" => one(create(word(2), Expiry::Never, Only::IfAbsent)),
        "PSETEX" => one(ms(2).map_or(Change::Other, |ttl| create(word(3), Expiry::After(ttl), Only::Always))),
        "SETEX" => one(seconds(2).map_or(Change::Other, |ttl| create(word(3), Expiry::After(ttl), Only::Always))),
        "GETSET" => {
            let (token, only) = (word(2), Only::Always);
            one(Change::Create(Create { token, ttl: Expiry::Never, only, gets: true, if_value: None }))
        }
        // A time in the past removes the key.
        "PEXPIRE" | "EXPIRE" | "PEXPIREAT" | "EXPIREAT" if word(2).parse::<i64>().is_ok_and(|time| time <= 0) => {
            one(Change::Remove)
        }
        // The server refuses a time that is not a whole number, and the TTL stays.
        "PEXPIRE" | "EXPIRE" | "PEXPIREAT" | "EXPIREAT" if word(2).parse::<i64>().is_err() => Vec::new(),
        "PEXPIRE" if words.len() == 3 => one(Change::Renew(ms(2))),
        "EXPIRE" if words.len() == 3 => one(Change::Renew(seconds(2))),
        "PEXPIREAT" | "EXPIREAT" if words.len() == 3 => one(Change::Renew(None)),
        "PERSIST" => one(Change::Persist),
        "DEL" | "UNLINK" | "GETDEL" => all(Change::Remove),
        // A lock that counts its owner's entries in a field, as Redisson's does. A further entry of the same owner changes no
        // owner. The mode of a lock for readers and writers is not an owner.
        "HSET" | "HSETNX" | "HMSET" if word(2) == "mode" => Vec::new(),
        "HSET" | "HSETNX" | "HMSET" => one(create(word(2), Expiry::Never, Only::IfAbsent)),
        "HINCRBY" if word(3).starts_with('-') => Vec::new(),
        "HINCRBY" => one(create(word(2), Expiry::Never, Only::IfAbsent)),
        // A lock that is a count: the first client to count has it.
        "INCR" => one(create("", Expiry::Never, Only::IfAbsent)),
        "MULTI" | "EXEC" | "WATCH" | "PUBLISH" | "SPUBLISH" | "SUBSCRIBE" | "SSUBSCRIBE" => Vec::new(),
        "MGET" | "EXISTS" | "TOUCH" => all(Change::Read),
        name if asks(name) => one(Change::Read),
        name if may_write(name) => all(Change::Other),
        _ => Vec::new(),
    }
}

/// `SET key value [NX | XX] [GET] [PX ms | EX s | …]`; None if the server refuses it, because its TTL is not a whole number above 0.
fn set(words: &[String]) -> Option<Change<'_>> {
    let (mut ttl, mut only, mut gets, mut if_value) = (Expiry::Never, Only::Always, false, None);
    let Some(token) = words.get(2) else { return Some(Change::Other) };
    let mut options = words[3..].iter();
    while let Some(option) = options.next() {
        let mut number = || options.next().and_then(|word| word.parse::<u64>().ok()).filter(|number| *number > 0);
        match &*option.to_ascii_uppercase() {
            "NX" => only = Only::IfAbsent,
            "XX" => only = Only::IfThere,
            "GET" => gets = true,
            "PX" => ttl = Expiry::After(number()?.saturating_mul(1_000_000)),
            "EX" => ttl = Expiry::After(number()?.saturating_mul(1_000_000_000)),
            "PXAT" | "EXAT" => ttl = number().map(|_| Expiry::Unknown)?,
            // `SET … IFEQ value`, of Redis 8.4 and Valkey 8.1: it sets an existing key, if it has this value.
            "IFEQ" => (only, if_value) = (Only::IfThere, options.next().map(String::as_str)),
            // Such as KEEPTTL.
            _ => return Some(Change::Other),
        }
    }
    Some(Change::Create(Create { token, ttl, only, gets, if_value }))
}
