//! The effect of each Redis command. Faults at commands and the analysis of libraries use this one table.
//!
//! A test compares it with the answer of a real server (`COMMAND`). A command that is not in the table may do anything. Names
//! are in capitals.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Commands that change a key, according to servers' flags.
const WRITES: &str = "
    APPEND BITFIELD BITOP BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN COPY DECR DECRBY DEL DELEX DELIFEQ EXPIRE EXPIREAT
    FLUSHALL FLUSHDB GEOADD GEORADIUS GEORADIUSBYMEMBER GEOSEARCHSTORE GETDEL GETEX GETSET HDEL HEXPIRE HEXPIREAT HGETDEL HGETEX
    HINCRBY HINCRBYFLOAT HMSET HPERSIST HPEXPIRE HPEXPIREAT HSET HSETEX HSETNX INCR INCRBY INCRBYFLOAT LINSERT LMOVE LMPOP LPOP LPUSH
    LPUSHX LREM LSET LTRIM MIGRATE MOVE MSET MSETEX MSETNX PERSIST PEXPIRE PEXPIREAT PFADD PFDEBUG PFMERGE PSETEX RENAME RENAMENX
    RESTORE RESTORE-ASKING RPOP RPOPLPUSH RPUSH RPUSHX SADD SDIFFSTORE SET SETBIT SETEX SETNX SETRANGE SINTERSTORE SMOVE SORT SPOP
    SREM SUNIONSTORE SWAPDB UNLINK XACK XACKDEL XADD XAUTOCLAIM XCLAIM XDEL XDELEX XREADGROUP XSETID XTRIM ZADD ZDIFFSTORE ZINCRBY
    ZINTERSTORE ZMPOP ZPOPMAX ZPOPMIN ZRANGESTORE ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZUNIONSTORE";

/// Commands of [`WRITES`] that extend the TTL of a key or field.
const RENEWS: &str = "
    EXPIRE EXPIREAT GETEX HEXPIRE HEXPIREAT HGETEX HPEXPIRE HPEXPIREAT HSETEX PEXPIRE PEXPIREAT PSETEX SET SETEX";

/// Commands of [`WRITES`] that remove a key, or may do so by removing its last element.
const REMOVES: &str = "
    BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN DEL DELEX DELIFEQ FLUSHALL FLUSHDB GETDEL HDEL HGETDEL LMOVE LMPOP LPOP LREM
    LTRIM MIGRATE MOVE RENAME RENAMENX RPOP RPOPLPUSH SMOVE SPOP SREM SWAPDB UNLINK ZMPOP ZPOPMAX ZPOPMIN ZREM ZREMRANGEBYLEX
    ZREMRANGEBYRANK ZREMRANGEBYSCORE";

/// Commands of [`WRITES`] that answer 0 if there was nothing to do.
const NOTHING_AT_ZERO: &str = "
    COPY DEL DELEX DELIFEQ EXPIRE EXPIREAT HDEL HSETNX LPUSHX LREM MOVE MSETNX PERSIST PEXPIRE PEXPIREAT RENAMENX RPUSHX SETNX SMOVE SREM UNLINK ZREM";

/// Commands of [`WRITES`] that answer nil if there was nothing to do.
const NOTHING_AT_NIL: &str = "GETDEL GETEX LPOP RPOP SET SPOP";

/// Commands that read a key's existence, content or TTL.
const ASKS: &str = "
    BITCOUNT BITFIELD_RO BITPOS DIGEST DUMP EXISTS EXPIRETIME GEODIST GEOHASH GEOPOS GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH GET
    GETBIT GETRANGE HEXISTS HEXPIRETIME HGET HGETALL HKEYS HLEN HMGET HPEXPIRETIME HPTTL HRANDFIELD HSCAN HSTRLEN HTTL HVALS LCS LINDEX
    LLEN LPOS LRANGE MGET PEXPIRETIME PFCOUNT PTTL SCARD SDIFF SINTER SISMEMBER SMEMBERS SMISMEMBER SORT_RO SRANDMEMBER SSCAN STRLEN
    SUBSTR SUNION TOUCH TTL TYPE XLEN XPENDING XRANGE XREVRANGE ZCARD ZCOUNT ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX
    ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE";

/// Commands that neither change nor read a single key: transactions, messages between clients, and reads of many keys.
const OTHERS: &str = "
    DISCARD EXEC KEYS LOLWUT MULTI OBJECT PSUBSCRIBE PUBLISH PUBSUB PUNSUBSCRIBE RANDOMKEY SCAN SINTERCARD SPUBLISH SSUBSCRIBE
    SUBSCRIBE SUNSUBSCRIBE TIME UNSUBSCRIBE UNWATCH WAIT WATCH XINFO XREAD ZDIFF ZINTER ZINTERCARD ZUNION";

/// Commands about a connection or a server. No lock consists of them.
const HOUSEKEEPING: &str = "
    ACL AUTH BGREWRITEAOF BGSAVE CLIENT CLUSTER COMMAND CONFIG DBSIZE DEBUG ECHO FAILOVER FUNCTION HELLO INFO LASTSAVE LATENCY MEMORY
    MODULE MONITOR PING QUIT READONLY READWRITE REPLICAOF RESET ROLE SAVE SCRIPT SELECT SENTINEL SHUTDOWN SLAVEOF SLOWLOG";

/// Commands whose arguments are all keys.
const ALL_ARE_KEYS: &str =
    "DEL EXISTS MGET PFCOUNT PFMERGE SDIFF SDIFFSTORE SINTER SINTERSTORE SUNION SUNIONSTORE TOUCH UNLINK WATCH";
/// Commands whose arguments are all keys, except for a time at the end.
const ALL_BUT_LAST: &str = "BLPOP BRPOP BZPOPMAX BZPOPMIN";
/// Commands that begin with two keys.
const FIRST_TWO: &str = "BLMOVE BRPOPLPUSH COPY GEOSEARCHSTORE LCS LMOVE RENAME RENAMENX RPOPLPUSH SMOVE ZRANGESTORE";
/// Commands with keys and values in turn.
const PAIRS: &str = "MSET MSETNX";
/// Commands with the number of keys, then the keys.
const COUNTED: &str = "LMPOP SINTERCARD ZDIFF ZINTER ZINTERCARD ZMPOP ZUNION";
/// Commands with a script, a function or a time, then the number of keys, then the keys.
const COUNTED_SECOND: &str = "BLMPOP BZMPOP EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO";
/// Commands of [`WRITES`] and [`ASKS`] whose keys are elsewhere, or that concern more than keys.
const ELSEWHERE: &str = "
    BITOP FLUSHALL FLUSHDB GEORADIUS GEORADIUSBYMEMBER MIGRATE MOVE MSETEX PFDEBUG SORT SORT_RO SWAPDB XREADGROUP ZDIFFSTORE ZINTERSTORE
    ZUNIONSTORE";

/// The keys of a command, whose first word is its name. None if their positions are unknown.
pub fn keys<'w, W: AsRef<[u8]>>(words: &'w [W]) -> Option<Vec<&'w [u8]>> {
    let (name, arguments) = words.split_first()?;
    let name = String::from_utf8_lossy(name.as_ref()).to_uppercase();
    let is_in = |list: &str| list.split_whitespace().any(|other| other == name);
    let these = |some: &'w [W]| some.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>();
    let counted = |from: &'w [W]| {
        let (count, rest) = from.split_first()?;
        let count: usize = std::str::from_utf8(count.as_ref()).ok()?.parse().ok()?;
        rest.get(..count).map(these)
    };
    if is_in(ALL_ARE_KEYS) {
        Some(these(arguments))
    } else if is_in(ALL_BUT_LAST) {
        arguments.split_last().map(|(_, keys)| these(keys))
    } else if is_in(FIRST_TWO) {
        arguments.get(..2).map(these)
    } else if is_in(PAIRS) {
        Some(arguments.iter().step_by(2).map(AsRef::as_ref).collect())
    } else if is_in(COUNTED) {
        counted(arguments)
    } else if is_in(COUNTED_SECOND) {
        counted(arguments.get(1..)?)
    } else if !is_in(ELSEWHERE) && (does(&name).writes || does(&name).asks) {
        arguments.get(..1).map(these)
    } else {
        None
    }
}

#[derive(Clone, Copy, Default)]
struct Does {
    writes: bool,
    renews: bool,
    removes: bool,
    asks: bool,
    is_housekeeping: bool,
    nothing_at_zero: bool,
    nothing_at_nil: bool,
}

static TABLE: LazyLock<HashMap<&str, Does>> = LazyLock::new(|| {
    let mut table: HashMap<&str, Does> = HashMap::new();
    let mut mark = |names: &'static str, mark: fn(&mut Does)| {
        names.split_whitespace().for_each(|name| mark(table.entry(name).or_default()));
    };
    mark(WRITES, |does| does.writes = true);
    mark(RENEWS, |does| does.renews = true);
    mark(REMOVES, |does| does.removes = true);
    mark(NOTHING_AT_ZERO, |does| does.nothing_at_zero = true);
    mark(NOTHING_AT_NIL, |does| does.nothing_at_nil = true);
    mark(ASKS, |does| does.asks = true);
    mark(OTHERS, |_| ());
    mark(HOUSEKEEPING, |does| does.is_housekeeping = true);
    table
});

fn does(command: &str) -> Does {
    TABLE.get(command).copied().unwrap_or_default()
}

/// A waiter that sends more commands per second than this to a node polls almost without a pause.
pub const BUSY_PER_SECOND: u64 = 500;
/// Shorter waits do not show if a waiter polls without a pause. In nanoseconds.
pub const SHORT_WAIT_NS: u64 = 200_000_000;

pub fn writes(command: &str) -> bool {
    does(command).writes
}

/// True if it may change a key: it does, or it is unknown.
pub fn may_write(command: &str) -> bool {
    TABLE.get(command).is_none_or(|does| does.writes)
}

/// True if it can acquire, extend or release a lock: it changes a key, or is a subscription, by which some libraries hold a
/// lock.
pub fn changes_a_lock(command: &str) -> bool {
    writes(command) || command == "SUBSCRIBE"
}

/// True if it extends a key's TTL, itself or in a script.
pub fn renews(command: &str) -> bool {
    does(command).renews
}

/// True if it removes a key, or may do so.
pub fn removes(command: &str) -> bool {
    does(command).removes
}

/// True if it reads a key's existence, content or TTL.
pub fn asks(command: &str) -> bool {
    does(command).asks
}

/// True if it is about a connection or a server.
pub fn is_housekeeping(command: &str) -> bool {
    does(command).is_housekeeping
}

/// True if the answer 0 means that there was nothing to do.
pub fn does_nothing_at_zero(command: &str) -> bool {
    does(command).nothing_at_zero
}

/// True if an empty answer means that there was nothing to do.
pub fn does_nothing_at_nil(command: &str) -> bool {
    does(command).nothing_at_nil
}

pub fn runs_a_script(command: &str) -> bool {
    command.starts_with("EVAL") || command.starts_with("FCALL")
}

#[cfg(test)]
mod tests {
    /// A test on a real server compares these with the positions in the reply to COMMAND.
    #[test]
    fn keys_are_found_where_they_stand_and_nowhere_else() {
        let keys = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let found = super::keys(&words)?;
            Some(found.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>().join(" "))
        };
        for (line, expected) in [
            ("set k v NX PX 100", "k"),
            ("DEL a b", "a b"),
            ("BLPOP a b 0", "a b"),
            ("RENAME a b", "a b"),
            ("MSET a 1 b 2", "a b"),
            ("EVAL script 2 a b c", "a b"),
            ("EVALSHA sha 0 c", ""),
            ("LMPOP 2 a b LEFT", "a b"),
            ("BLMPOP 0 1 a LEFT", "a"),
            ("HSET h f v", "h"),
        ] {
            assert_eq!(keys(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "FLUSHALL",
            "PING",
            "EVAL script x a",
            "EVAL script 3 a b",
            "EVAL",
            "SORT a BY b",
            "NEVERHEARD a",
            "GET",
            "RENAME a",
        ] {
            assert_eq!(keys(line), None, "{line}");
        }
        assert_eq!(super::keys::<&str>(&[]), None);
    }

    use super::*;

    #[test]
    fn a_command_is_of_one_kind_and_only_what_writes_renews_and_removes() {
        let kinds = [WRITES, ASKS, OTHERS, HOUSEKEEPING];
        let names: Vec<&str> = kinds.iter().flat_map(|names| names.split_whitespace()).collect();
        assert_eq!(names.len(), TABLE.len(), "a name is in two kinds, or in none");
        for (name, does) in TABLE.iter() {
            let of_writes = does.renews || does.removes || does.nothing_at_zero || does.nothing_at_nil;
            assert!(does.writes || !of_writes, "{name}");
        }
    }

    #[test]
    fn what_is_not_known_may_write() {
        assert!(may_write("NEW.COMMAND") && may_write("SET") && !may_write("GET") && !may_write("PING"));
        assert!(!writes("NEW.COMMAND") && writes("ZREMRANGEBYSCORE"));
        assert!(changes_a_lock("SUBSCRIBE") && changes_a_lock("SET") && !changes_a_lock("PUBLISH"));
        assert!(runs_a_script("EVALSHA_RO") && !runs_a_script("SET"));
    }
}
