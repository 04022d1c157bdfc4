//! Redlock: the same mark on a majority of N independent masters.
//!
//! Source: antirez, "Distributed locks with Redis". It promises exclusion only with bounded pauses, delays and clock
//! error (Kleppmann 2016). An attempt counts if a majority answered yes and validity is left: the TTL less the time
//! taken, less `ttl * drift_factor + 2 ms` for clock drift. After a failed attempt ALL nodes are told to release at
//! once, even those that said no or nothing: a lost reply may have been a yes.
//!
//! A renewal extends the mark by another TTL on a majority, with the same arithmetic.

use std::time::Duration;

use super::{Algorithm, Clock, Held, LockSettings, Node, PhaseHook, RequestError, all};

pub struct Redlock<N, C> {
    pub nodes: Vec<N>,
    pub clock: C,
    pub ttl: Duration,
    /// Fraction of the TTL by which clocks may drift apart while the lock is held.
    pub drift_factor: f64,
    /// Ask one node after another instead of all at once.
    pub sequential: bool,
    /// Whether a majority that took longer than the lock is valid counts as none. Without this check a delay or a pause
    /// while asking breaks the lock; with it, it does not.
    pub check_elapsed: bool,
    /// Whether all nodes are told of a release, not only those that said yes.
    pub release_on_all: bool,
}

/// Redis expires keys to the millisecond; the documentation allows 2 ms for that besides the drift.
const EXPIRY_PRECISION: Duration = Duration::from_millis(2);

impl<N: Node, C: Clock> Redlock<N, C> {
    /// The error says what is missing.
    pub(super) fn from_settings(settings: &LockSettings, nodes: Vec<N>, clock: C) -> Result<Redlock<N, C>, String> {
        let LockSettings { name, options, .. } = settings;
        if nodes.is_empty() {
            return Err(format!("lock {name} needs nodes"));
        }
        Ok(Redlock {
            nodes,
            clock,
            ttl: Duration::from_millis(settings.ttl_ms),
            drift_factor: options.drift_factor.ok_or_else(|| format!("lock {name} needs `drift_factor`"))?,
            sequential: options.sequential.unwrap_or(false),
            check_elapsed: options.check_elapsed.unwrap_or(true),
            release_on_all: options.release_on_all.unwrap_or(true),
        })
    }

    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// What is left of the TTL after acquiring took this long.
    pub(super) fn validity(&self, took: Duration) -> Duration {
        let took = if self.check_elapsed { took } else { Duration::ZERO };
        self.ttl.saturating_sub(took + self.ttl.mul_f64(self.drift_factor) + EXPIRY_PRECISION)
    }

    async fn ask_all(&self, key: &str, mark: &str) -> Vec<Result<bool, RequestError>> {
        if !self.sequential {
            return all(self.nodes.iter().map(|node| node.set_if_absent(key, mark, self.ttl))).await;
        }
        let mut answers = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            answers.push(node.set_if_absent(key, mark, self.ttl).await);
        }
        answers
    }
}

impl<N: Node, C: Clock> Algorithm for Redlock<N, C> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let mark = self.clock.mark();
        let start = self.clock.now();
        let answers = self.ask_all(key, &mark).await;
        let votes = answers.iter().filter(|answer| **answer == Ok(true)).count();
        let validity = self.validity(self.clock.now().saturating_sub(start));
        let said_yes = answers.iter().map(|answer| *answer == Ok(true)).collect();
        let held = Held { mark, validity: Some(validity), votes: said_yes, token: None };
        let quorum = self.quorum();
        if votes >= quorum && !validity.is_zero() {
            return Ok(held);
        }
        self.release(key, &held, hook).await;
        let silent = answers.iter().filter(|answer| answer.is_err()).count();
        Err(if votes >= quorum {
            format!("{votes} of {} nodes, but it took longer than the lock is valid", self.nodes.len())
        } else {
            format!("{votes} of {} nodes, {quorum} needed, {silent} did not answer", self.nodes.len())
        })
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        let told = self.nodes.iter().zip(&held.votes).filter(|(_, said_yes)| self.release_on_all || **said_yes);
        all(told.map(|(node, _)| node.delete_if_equals(key, &held.mark))).await;
    }

    async fn renew(&self, key: &str, held: &Held) -> Result<Duration, String> {
        let start = self.clock.now();
        let answers = self.nodes.iter().map(|node| node.expire_if_equals(key, &held.mark, self.ttl));
        let renewed = all(answers).await.into_iter().filter(|answer| *answer == Ok(true)).count();
        let validity = self.validity(self.clock.now().saturating_sub(start));
        if renewed >= self.quorum() && !validity.is_zero() {
            return Ok(validity);
        }
        Err(format!("renewed on {renewed} of {} nodes, {} needed", self.nodes.len(), self.quorum()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Answer, FakeClock, FakeNode, Nobody};
    use super::*;

    fn lock(answers: [Answer; 5], sequential: bool) -> Redlock<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        Redlock {
            nodes: answers.iter().map(|answer| FakeNode::new(&[*answer], clock.clone())).collect(),
            clock,
            ttl: Duration::from_millis(1000),
            drift_factor: 0.01,
            sequential,
            check_elapsed: true,
            release_on_all: true,
        }
    }

    const YES: Answer = Answer::Set { after_ms: 0 };

    #[tokio::test]
    async fn a_majority_in_time_is_the_lock() {
        for sequential in [false, true] {
            let lock = lock([YES, Answer::Silent, YES, Answer::Taken, YES], sequential);
            let held = lock.attempt("k", &Nobody).await.unwrap();
            // 1000 ms less 10 ms of drift, 2 ms of expiry, and what the silent node's timeout took.
            assert_eq!(held.validity, Some(Duration::from_millis(1000 - 10 - 2 - FakeNode::TIMEOUT_MS)));
            lock.release("k", &held, &Nobody).await;
            assert!(lock.nodes.iter().all(|node| node.deleted() == [held.mark.clone()]), "released on all nodes");
        }
    }

    #[tokio::test]
    async fn a_minority_is_no_lock_and_all_nodes_are_told() {
        let lock = lock([YES, Answer::Silent, YES, Answer::Taken, Answer::Taken], false);
        let error = lock.attempt("k", &Nobody).await.unwrap_err();
        assert_eq!(error, "2 of 5 nodes, 3 needed, 1 did not answer");
        assert!(lock.nodes.iter().all(|node| node.deleted().len() == 1), "also those that said no or nothing");
    }

    #[tokio::test]
    async fn a_majority_that_took_as_long_as_the_validity_is_no_lock() {
        let too_late = lock([YES, YES, YES, YES, Answer::Set { after_ms: 988 }], false);
        assert!(too_late.attempt("k", &Nobody).await.unwrap_err().contains("took longer"));
        let just_in_time = lock([YES, YES, YES, YES, Answer::Set { after_ms: 987 }], false);
        assert_eq!(just_in_time.attempt("k", &Nobody).await.unwrap().validity, Some(Duration::from_millis(1)));
    }

    #[tokio::test]
    async fn without_the_check_it_believes_in_a_lock_that_has_expired() {
        let answers = [YES, YES, YES, YES, Answer::Set { after_ms: 1500 }];
        let unchecked = Redlock { check_elapsed: false, ..lock(answers, false) };
        let held = unchecked.attempt("k", &Nobody).await.unwrap();
        assert_eq!(held.validity, Some(Duration::from_millis(1000 - 10 - 2)));
        assert!(lock(answers, false).attempt("k", &Nobody).await.is_err());
    }

    #[tokio::test]
    async fn told_only_where_it_saw_a_yes_a_node_whose_reply_was_lost_keeps_the_key() {
        let answers = [YES, Answer::Silent, Answer::Silent, Answer::Silent, YES];
        let lazy = Redlock { release_on_all: false, ..lock(answers, false) };
        assert!(lazy.attempt("k", &Nobody).await.is_err());
        assert_eq!(lazy.nodes.iter().map(|node| node.deleted().len()).collect::<Vec<_>>(), [1, 0, 0, 0, 1]);
    }

    #[tokio::test]
    async fn a_renewal_lasts_another_ttl_on_a_majority_and_brings_nothing_back() {
        let lock = lock([YES; 5], false);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl / 2).await;
        lock.nodes[0].forget();
        lock.nodes[1].forget();
        assert_eq!(lock.renew("k", &held).await, Ok(Duration::from_millis(1000 - 10 - 2)));
        lock.clock.sleep(lock.ttl * 3 / 4).await;
        assert!(lock.renew("k", &held).await.is_ok(), "it would have expired without the first renewal");
        lock.nodes[2].forget();
        assert_eq!(lock.renew("k", &held).await, Err("renewed on 2 of 5 nodes, 3 needed".into()));
        lock.clock.sleep(lock.ttl).await;
        assert_eq!(lock.renew("k", &held).await, Err("renewed on 0 of 5 nodes, 3 needed".into()));
    }
}
