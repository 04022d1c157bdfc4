//! Redlock: the same mark on a majority of N independent masters.
//!
//! Source: antirez, "Distributed locks with Redis". It promises exclusion only with bounded pauses, delays and clock
//! error (Kleppmann 2016). An attempt counts when a majority answered yes and the time that it took, with an allowance
//! for clock drift of `ttl * drift_factor + 2 ms`, left some validity. After a failed attempt ALL nodes are told to
//! release at once, also those that said no or nothing: a reply that was lost may have been a yes.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Clock, Held, Node, RequestError, random_mark};

pub struct Redlock<N, C> {
    pub nodes: Vec<N>,
    pub clock: C,
    pub ttl: Duration,
    /// Part of the TTL that clocks may drift apart while the lock is held.
    pub drift_factor: f64,
    /// Ask one node after the other instead of all at once.
    pub sequential: bool,
    /// Bounds of the wait between attempts.
    pub retry_delay: (Duration, Duration),
    /// Whether a majority that took longer than the lock is valid counts as none. Without this check a delay or a pause
    /// while asking breaks the lock; with it, it does not.
    pub check_elapsed: bool,
    /// Whether all nodes are told of a release, not only those that said yes.
    pub release_on_all: bool,
}

/// Redis expires keys to the millisecond; the documentation allows 2 ms for it beside the drift.
const EXPIRY_PRECISION: Duration = Duration::from_millis(2);

impl<N: Node, C: Clock> Redlock<N, C> {
    /// One attempt; the error says why it failed, and then nothing is held.
    pub(super) async fn attempt(&self, key: &str) -> Result<Held, String> {
        let mark = random_mark();
        let start = self.clock.now();
        let answers = self.ask_all(key, &mark).await;
        let votes = answers.iter().filter(|answer| **answer == Ok(true)).count();
        let took = if self.check_elapsed { self.clock.now().saturating_sub(start) } else { Duration::ZERO };
        let validity = self.ttl.saturating_sub(took + self.ttl.mul_f64(self.drift_factor) + EXPIRY_PRECISION);
        let quorum = self.nodes.len() / 2 + 1;
        let said_yes = answers.iter().map(|answer| *answer == Ok(true)).collect();
        let held = Held { mark, validity, votes: said_yes };
        if votes >= quorum && !validity.is_zero() {
            return Ok(held);
        }
        self.release(key, &held).await;
        let silent = answers.iter().filter(|answer| answer.is_err()).count();
        Err(if votes >= quorum {
            format!("{votes} of {} nodes, but it took longer than the lock is valid", self.nodes.len())
        } else {
            format!("{votes} of {} nodes, {quorum} needed, {silent} did not answer", self.nodes.len())
        })
    }

    async fn ask_all(&self, key: &str, mark: &str) -> Vec<Result<bool, RequestError>> {
        if !self.sequential {
            return join_all(self.nodes.iter().map(|node| node.set_if_absent(key, mark, self.ttl))).await;
        }
        let mut answers = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            answers.push(node.set_if_absent(key, mark, self.ttl).await);
        }
        answers
    }

    pub(super) async fn release(&self, key: &str, held: &Held) {
        let told = self.nodes.iter().zip(&held.votes).filter(|(_, said_yes)| self.release_on_all || **said_yes);
        join_all(told.map(|(node, _)| node.delete_if_equals(key, &held.mark))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Answer, FakeClock, FakeNode};
    use super::*;

    fn lock(answers: [Answer; 5], sequential: bool) -> Redlock<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        Redlock {
            nodes: answers.iter().map(|answer| FakeNode::new(&[*answer], clock.clone())).collect(),
            clock,
            ttl: Duration::from_millis(1000),
            drift_factor: 0.01,
            sequential,
            retry_delay: (Duration::from_millis(5), Duration::from_millis(9)),
            check_elapsed: true,
            release_on_all: true,
        }
    }

    const YES: Answer = Answer::Set { after_ms: 0 };

    #[tokio::test]
    async fn a_majority_in_time_is_the_lock() {
        for sequential in [false, true] {
            let lock = lock([YES, Answer::Silent, YES, Answer::Taken, YES], sequential);
            let held = lock.attempt("k").await.unwrap();
            // 1000 ms less 10 ms of drift, 2 ms of expiry, and what the silent node's timeout took.
            assert_eq!(held.validity, Duration::from_millis(1000 - 10 - 2 - FakeNode::TIMEOUT_MS));
            lock.release("k", &held).await;
            assert!(lock.nodes.iter().all(|node| node.deleted() == [held.mark.clone()]), "released on all nodes");
        }
    }

    #[tokio::test]
    async fn a_minority_is_no_lock_and_all_nodes_are_told() {
        let lock = lock([YES, Answer::Silent, YES, Answer::Taken, Answer::Taken], false);
        let error = lock.attempt("k").await.unwrap_err();
        assert_eq!(error, "2 of 5 nodes, 3 needed, 1 did not answer");
        assert!(lock.nodes.iter().all(|node| node.deleted().len() == 1), "also those that said no or nothing");
    }

    #[tokio::test]
    async fn a_majority_that_took_as_long_as_the_validity_is_no_lock() {
        let too_late = lock([YES, YES, YES, YES, Answer::Set { after_ms: 988 }], false);
        assert!(too_late.attempt("k").await.unwrap_err().contains("took longer"));
        let just_in_time = lock([YES, YES, YES, YES, Answer::Set { after_ms: 987 }], false);
        assert_eq!(just_in_time.attempt("k").await.unwrap().validity, Duration::from_millis(1));
    }

    #[tokio::test]
    async fn without_the_check_it_believes_in_a_lock_that_has_expired() {
        let answers = [YES, YES, YES, YES, Answer::Set { after_ms: 1500 }];
        let unchecked = Redlock { check_elapsed: false, ..lock(answers, false) };
        assert_eq!(unchecked.attempt("k").await.unwrap().validity, Duration::from_millis(1000 - 10 - 2));
        assert!(lock(answers, false).attempt("k").await.is_err());
    }

    #[tokio::test]
    async fn told_only_where_it_saw_a_yes_a_node_whose_reply_was_lost_keeps_the_key() {
        let answers = [YES, Answer::Silent, Answer::Silent, Answer::Silent, YES];
        let lazy = Redlock { release_on_all: false, ..lock(answers, false) };
        assert!(lazy.attempt("k").await.is_err());
        assert_eq!(lazy.nodes.iter().map(|node| node.deleted().len()).collect::<Vec<_>>(), [1, 0, 0, 0, 1]);
    }

    #[tokio::test]
    async fn two_attempts_never_use_the_same_mark() {
        let marks: std::collections::HashSet<String> = (0..100).map(|_| random_mark()).collect();
        assert_eq!(marks.len(), 100);
    }
}
