//! The diagnoses, one a file.
//!
//! A file has the declaration, the pattern that makes the diagnosis certain, and its sentence. The order of the list is that in
//! which the list of diagnoses shows them; codes are given once and never change their meaning.

mod acquire_overwrites;
mod attempt_left_lock;
mod busy_polling;
mod check_then_set;
mod compare_then_delete;
mod compare_then_renew;
mod expired_extension;
mod expired_grant;
mod expired_under_holder;
mod failover_lost_lock;
mod false_ownership;
mod fencing_token_repeated;
mod give_up_deletes;
mod grant_without_server;
mod lock_shared_by_threads;
mod lock_without_ttl;
mod loss_not_told;
mod node_clock_jumped;
mod node_lost_lock;
mod nodes_asked_in_turn;
mod quorum_too_small;
mod release_claims_success;
mod release_frees_nothing;
mod release_not_repeated;
mod release_skips_node;
mod release_without_compare;
mod removes_own_lock;
mod renewal_creates;
mod renewal_outlives_holder;
mod renewal_removes_ttl;
mod renewal_stops;
mod renewal_without_compare;
mod retry_meets_own_lock;
mod script_forgotten;
mod shared_token;
mod stops_at_dead_node;
mod thundering_waiters;
mod ttl_in_second_command;
mod ttl_in_wrong_unit;
mod ttl_longer_than_asked;
mod validity_by_wall_clock;
mod votes_kept;
mod wait_ignored;
mod waiter_asleep;

use super::Kind;

/// All of them, by their codes.
pub static KINDS: &[&Kind] = &[
    &release_without_compare::KIND,
    &compare_then_delete::KIND,
    &give_up_deletes::KIND,
    &lock_without_ttl::KIND,
    &ttl_in_second_command::KIND,
    &ttl_in_wrong_unit::KIND,
    &expired_grant::KIND,
    &quorum_too_small::KIND,
    &shared_token::KIND,
    &renewal_without_compare::KIND,
    &renewal_creates::KIND,
    &check_then_set::KIND,
    &acquire_overwrites::KIND,
    &renewal_outlives_holder::KIND,
    &renewal_stops::KIND,
    &release_frees_nothing::KIND,
    &attempt_left_lock::KIND,
    &release_skips_node::KIND,
    &script_forgotten::KIND,
    &failover_lost_lock::KIND,
    &node_lost_lock::KIND,
    &expired_under_holder::KIND,
    &node_clock_jumped::KIND,
    &compare_then_renew::KIND,
    &renewal_removes_ttl::KIND,
    &loss_not_told::KIND,
    &retry_meets_own_lock::KIND,
    &nodes_asked_in_turn::KIND,
    &release_claims_success::KIND,
    &fencing_token_repeated::KIND,
    &wait_ignored::KIND,
    &validity_by_wall_clock::KIND,
    &waiter_asleep::KIND,
    &lock_shared_by_threads::KIND,
    &removes_own_lock::KIND,
    &ttl_longer_than_asked::KIND,
    &votes_kept::KIND,
    &expired_extension::KIND,
    &false_ownership::KIND,
    &release_not_repeated::KIND,
    &grant_without_server::KIND,
    &stops_at_dead_node::KIND,
    &busy_polling::KIND,
    &thundering_waiters::KIND,
];

/// `Distributed locks with Redis`
const REDIS_LOCKS: (&str, &str) =
    ("Redis, Distributed locks", "https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/");
const REDIS_SET: (&str, &str) = ("Redis, SET", "https://redis.io/docs/latest/commands/set/");
const KLEPPMANN: (&str, &str) = (
    "M. Kleppmann, How to do distributed locking",
    "https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html",
);

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
    use std::collections::BTreeSet;

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
