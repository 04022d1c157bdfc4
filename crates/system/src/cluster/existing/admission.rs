//! The commands that clients may send to an existing server: commands on keys of the run, and commands that change nothing.

use base::redis_commands::{is_housekeeping, keys, runs_a_script, writes};

/// The decision on a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Send the command. It may write these keys of the run.
    Pass(Vec<Vec<u8>>),
    /// Send this command in its place.
    Replace(Vec<Vec<u8>>),
    /// Do not send the command; the client gets this error.
    Refuse(String),
}

/// Commands without keys that change nothing on a server.
const HARMLESS: &str = "
    ASKING COMMAND DISCARD ECHO EXEC HELLO INFO MULTI PING PUNSUBSCRIBE QUIT READONLY READWRITE ROLE SUNSUBSCRIBE TIME UNSUBSCRIBE UNWATCH WAIT
    WAITAOF";
/// Subcommands that change nothing. Other subcommands of these commands may.
const HARMLESS_PARTS: &str = "
    CLIENT/GETNAME CLIENT/ID CLIENT/INFO CLIENT/MAINT_NOTIFICATIONS CLIENT/NO-EVICT CLIENT/NO-TOUCH CLIENT/REPLY CLIENT/SETINFO
    CLIENT/SETNAME CLUSTER/INFO CLUSTER/KEYSLOT CLUSTER/MYID CLUSTER/NODES CLUSTER/SHARDS CLUSTER/SLOTS SCRIPT/EXISTS SCRIPT/LOAD";
/// Questions to Sentinels, which have no keys.
const OF_SENTINELS: &str = "
    SENTINEL/CKQUORUM SENTINEL/GET-MASTER-ADDR-BY-NAME SENTINEL/MASTER SENTINEL/MASTERS SENTINEL/MYID SENTINEL/REPLICAS SENTINEL/SENTINELS
    SENTINEL/SLAVES";
/// Commands that make a replica the primary, where the user allows it.
const FAILOVERS: &str = "CLUSTER/FAILOVER SENTINEL/FAILOVER";
/// Settings that a library may read. Others are refused, since they include passwords.
const SETTINGS: &str = "DATABASES MAXMEMORY-POLICY NOTIFY-KEYSPACE-EVENTS PROTO-MAX-BULK-LEN TIMEOUT";
/// Commands for messages between clients, on channels.
const CHANNELS: &str = "PSUBSCRIBE SPUBLISH SSUBSCRIBE SUBSCRIBE";

/// The rules for commands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    /// A text that all keys and channels of the run contain.
    pub mark: &'a str,
    /// The only database of the server that clients may use.
    pub database: u32,
    /// True for a Sentinel. It publishes its own messages on channels.
    pub is_sentinel: bool,
    /// True if the user allows failovers.
    pub may_fail_over: bool,
}

/// Decides on a command.
pub(super) fn admit(words: &[Vec<u8>], rules: Rules<'_>) -> Admission {
    let Rules { mark, database, is_sentinel, may_fail_over } = rules;
    let upper = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default();
    let name = upper(0);
    let is_in = |list: &str, name: &str| list.split_whitespace().any(|other| other == name);
    let is_ours = |word: &[u8]| !mark.is_empty() && word.windows(mark.len()).any(|part| part == mark.as_bytes());
    let refuse = |why: &str| Admission::Refuse(format!("{name}: {why}"));
    if is_in(HARMLESS, &name) {
        // redjepsen authenticates a connection before a client uses it.
        return match name == "HELLO" && words.iter().any(|word| word.eq_ignore_ascii_case(b"AUTH")) {
            true => refuse("redjepsen authenticates connections itself"),
            false => Admission::Pass(Vec::new()),
        };
    }
    if name == "SELECT" {
        let number = words.get(1).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        return match number {
            // Clients use database 0; it stands for the database that the user named.
            Some(0) => Admission::Replace(vec![words[0].clone(), database.to_string().into_bytes()]),
            Some(number) if number == database => Admission::Pass(Vec::new()),
            _ => refuse("redjepsen uses only the database of the server's address"),
        };
    }
    let whole = format!("{name}/{}", upper(1));
    let passes = is_in(HARMLESS_PARTS, &whole)
        || is_sentinel && (is_in(OF_SENTINELS, &whole) || is_in(CHANNELS, &name))
        || may_fail_over && is_in(FAILOVERS, &whole);
    if passes {
        return Admission::Pass(Vec::new());
    }
    if name == "CONFIG" && upper(1) == "GET" {
        return match words.len() > 2 && (2..words.len()).all(|at| is_in(SETTINGS, &upper(at))) {
            true => Admission::Pass(Vec::new()),
            false => refuse("other settings may hold passwords"),
        };
    }
    if name == "PUBLISH" || is_in(CHANNELS, &name) {
        let channels = if name.ends_with("PUBLISH") { words.get(1..2) } else { words.get(1..) };
        return match channels.unwrap_or_default() {
            channels if channels.iter().all(|channel| is_ours(channel)) => Admission::Pass(Vec::new()),
            _ => refuse("the channel has no key of the run in its name, so other programs may use it"),
        };
    }
    match keys(words) {
        Some(keys) if keys.is_empty() => refuse("it names no key"),
        Some(keys) if !keys.iter().all(|key| is_ours(key)) => refuse("it is not a key of the run"),
        // Keys are noted as text, for their removal.
        Some(keys) if keys.iter().any(|key| std::str::from_utf8(key).is_err()) => refuse("the key is not UTF-8"),
        Some(keys) if writes(&name) || runs_a_script(&name) => {
            Admission::Pass(keys.into_iter().map(<[u8]>::to_vec).collect())
        }
        Some(_) => Admission::Pass(Vec::new()),
        None if is_housekeeping(&name) => {
            refuse("the command affects the whole server, which does not belong to redjepsen")
        }
        None => refuse("redjepsen does not know the keys of this command"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules<'_> = Rules { mark: "redjepsen:r1:", database: 3, is_sentinel: false, may_fail_over: false };

    fn judged_by(rules: Rules<'_>, line: &str) -> Admission {
        admit(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>(), rules)
    }

    fn judged(line: &str) -> Admission {
        judged_by(RULES, line)
    }

    #[test]
    fn sentinels_are_asked_and_failovers_ordered_only_where_they_may_be() {
        for (line, rules) in [
            ("SENTINEL get-master-addr-by-name m", Rules { is_sentinel: true, ..RULES }),
            ("PSUBSCRIBE *", Rules { is_sentinel: true, ..RULES }),
            ("CLUSTER FAILOVER", Rules { may_fail_over: true, ..RULES }),
            ("SENTINEL FAILOVER m", Rules { may_fail_over: true, ..RULES }),
        ] {
            assert_eq!(judged_by(rules, line), Admission::Pass(Vec::new()), "{line}");
            assert!(matches!(judged(line), Admission::Refuse(_)), "{line}");
        }
        for line in
            ["SENTINEL REMOVE m", "SENTINEL SET m quorum 1", "SENTINEL RESET *", "CLUSTER RESET", "CLUSTER FORGET x"]
        {
            let all = Rules { is_sentinel: true, may_fail_over: true, ..RULES };
            assert!(matches!(judged_by(all, line), Admission::Refuse(_)), "{line}");
        }
    }

    #[test]
    fn commands_on_keys_of_the_run_pass_and_their_keys_are_known() {
        for (line, written) in [
            ("SET lock:redjepsen:r1:k0 v NX PX 1000", &["lock:redjepsen:r1:k0"][..]),
            ("del redjepsen:r1:k0 redjepsen:r1:k1", &["redjepsen:r1:k0", "redjepsen:r1:k1"]),
            ("EVAL script 1 redjepsen:r1:k0 arg", &["redjepsen:r1:k0"]),
            ("GET redjepsen:r1:k0", &[]),
            ("PUBLISH ch:redjepsen:r1:k0 x", &[]),
            ("SUBSCRIBE ch:redjepsen:r1:k0", &[]),
            ("PING", &[]),
            ("HELLO 3", &[]),
            ("CLIENT SETNAME x", &[]),
            ("CONFIG GET notify-keyspace-events", &[]),
            ("SCRIPT LOAD x", &[]),
            ("SELECT 3", &[]),
        ] {
            let keys = written.iter().map(|key| key.as_bytes().to_vec()).collect();
            assert_eq!(judged(line), Admission::Pass(keys), "{line}");
        }
        assert_eq!(judged("SELECT 0"), Admission::Replace(vec![b"SELECT".to_vec(), b"3".to_vec()]));
    }

    #[test]
    fn what_could_touch_the_servers_owner_is_refused() {
        for line in [
            "SET k0 v",
            "DEL redjepsen:r1:k0 theirs",
            "MSET redjepsen:r1:k0 v theirs v",
            "EVAL script 0",
            "EVAL script 2 redjepsen:r1:k0 theirs",
            "FLUSHALL",
            "FLUSHDB",
            "CONFIG SET save x",
            "CONFIG GET *",
            "CONFIG GET requirepass",
            "CONFIG GET timeout masterauth",
            "CONFIG GET",
            "CLIENT KILL x",
            "CLIENT PAUSE 1000",
            "SCRIPT FLUSH",
            "FUNCTION LOAD x",
            "SHUTDOWN",
            "DEBUG SLEEP 1",
            "MONITOR",
            "KEYS *",
            "SCAN 0",
            "DBSIZE",
            "AUTH x",
            "RESET",
            "HELLO 3 AUTH default x",
            "SELECT 1",
            "SELECT",
            "PUBLISH theirs x",
            "PSUBSCRIBE *",
            "SUBSCRIBE redjepsen:r1:k0 theirs",
            "REPLICAOF NO ONE",
            "CLUSTER FAILOVER",
            "NEVERHEARD redjepsen:r1:k0",
            "",
        ] {
            assert!(matches!(judged(line), Admission::Refuse(_)), "{line}");
        }
        assert!(matches!(judged_by(Rules { mark: "", ..RULES }, "GET k"), Admission::Refuse(_)), "no mark, no key");
    }
}
