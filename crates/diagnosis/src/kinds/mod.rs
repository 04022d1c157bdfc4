//! The diagnoses, one per file.
//!
//! A file has the declaration, the pattern that makes the diagnosis certain, and its sentence. The list of diagnoses has the same
//! order as here; a code never changes its meaning.

// Names for all files, which import everything from here.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::acts::{Act, Change, Create, EDGE, Gone, KeyEnd, KeyState, Means, Only, Owned, begun_after};
use super::case::{Case, at, end_of, gave_up, on};
use super::commands::Expiry;
use super::{Finding, Harm, Kind};
use base::redis_commands::{BUSY_PER_SECOND, SHORT_WAIT_NS};
use base::words::{count, length, list, moment, plural, sanitize, unless_none};
use model::fault_kinds::{OnData, OnProcess};
use model::history::{
    Claim, FaultWindow, Operation, Outcome, Phase, PhaseStamp, Process, RecordedCommand, SeenPromotion, key_behind,
};

/// Declares the files and lists them by their codes.
macro_rules! kinds {
    ($($kind:ident)*) => {
        $(mod $kind;)*
        /// All of them, by their codes.
        pub static KINDS: &[&Kind] = &[$(&$kind::KIND),*];
    };
}

kinds! {
    release_without_compare
    compare_then_delete
    give_up_deletes
    lock_without_ttl
    ttl_in_second_command
    ttl_in_wrong_unit
    expired_grant
    quorum_too_small
    shared_token
    renewal_without_compare
    renewal_creates
    check_then_set
    acquire_overwrites
    renewal_outlives_holder
    renewal_stops
    release_frees_nothing
    attempt_left_lock
    release_skips_node
    script_forgotten
    failover_lost_lock
    node_lost_lock
    expired_under_holder
    node_clock_jumped
    compare_then_renew
    renewal_removes_ttl
    loss_not_told
    retry_meets_own_lock
    nodes_asked_in_turn
    release_claims_success
    fencing_token_repeated
    wait_ignored
    validity_by_wall_clock
    waiter_asleep
    lock_shared_by_threads
    removes_own_lock
    ttl_longer_than_asked
    votes_kept
    expired_extension
    false_ownership
    release_not_repeated
    grant_without_server
    stops_at_dead_node
    busy_polling
    thundering_waiters
    extension_without_server
    refusal_ignored
    key_of_its_own
    ttl_shorter_than_asked
    renewal_shortens
    lists_of_nodes_differ
}

/// `Distributed locks with Redis`
const REDIS_LOCKS: (&str, &str) =
    ("Redis, Distributed locks", "https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/");
const REDIS_SET: (&str, &str) = ("Redis, SET", "https://redis.io/docs/latest/commands/set/");
const KLEPPMANN: (&str, &str) = (
    "M. Kleppmann, How to do distributed locking",
    "https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html",
);

/// Two clients rely on the lock at once.
const TWO_HOLDERS: &[Claim] = &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts];
/// A client waits for a lock that no client uses, or does not acquire it.
const WAITS: &[Claim] = &[Claim::Liveness, Claim::Timeouts];

/// The script that compares and deletes.
const COMPARE_AND_DELETE: &[&str] = &[
    r#"EVAL "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0" 1 KEY TOKEN"#,
];

/// The script that compares and extends.
const COMPARE_AND_EXTEND: &[&str] = &[
    r#"EVAL "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0" 1 KEY TOKEN TTL"#,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_diagnosis_has_its_code_and_says_everything() {
        let mut names = BTreeSet::new();
        for (number, kind) in KINDS.iter().enumerate() {
            assert_eq!(kind.code, format!("RJ{:03}", number + 1));
            assert!(names.insert(kind.name), "{} twice", kind.name);
            for text in [kind.title, kind.rule, kind.fix] {
                assert!(text.ends_with('.') && text.len() > 20, "{}: {text}", kind.code);
            }
            assert!(kind.source.1.starts_with("https://") || kind.source.1.starts_with("http://"), "{}", kind.code);
        }
    }
}
