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
        let used = self.clock.now() - start + self.ttl.mul_f64(self.drift_factor) + EXPIRY_PRECISION;
        let validity = self.ttl.saturating_sub(used);
        let quorum = self.nodes.len() / 2 + 1;
        if votes >= quorum && !validity.is_zero() {
            return Ok(Held { mark, validity });
        }
        self.release(key, &mark).await;
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

    pub(super) async fn release(&self, key: &str, mark: &str) {
        join_all(self.nodes.iter().map(|node| node.delete_if_equals(key, mark))).await;
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
            lock.release("k", &held.mark).await;
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
    async fn two_attempts_never_use_the_same_mark() {
        let marks: std::collections::HashSet<String> = (0..100).map(|_| random_mark()).collect();
        assert_eq!(marks.len(), 100);
    }
}
