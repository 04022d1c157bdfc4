//! One node: `SET key mark NX PX ttl`, released by an atomic compare-and-delete.
//!
//! Source: the Redis documentation, "Correct implementation with a single instance". It promises exclusion while the
//! work is shorter than the TTL and the node neither stops nor forgets. The time that the request took counts against
//! the validity, as in Redlock: a reply that comes late has used the TTL up.

use std::time::Duration;

use super::{Clock, Held, Node, random_mark};

pub struct Single<N, C> {
    pub node: N,
    pub clock: C,
    pub ttl: Duration,
    /// Bounds of the wait between attempts.
    pub retry_delay: (Duration, Duration),
}

impl<N: Node, C: Clock> Single<N, C> {
    /// One attempt; the error says why it failed, and then nothing is held.
    pub(super) async fn attempt(&self, key: &str) -> Result<Held, String> {
        let mark = random_mark();
        let start = self.clock.now();
        match self.node.set_if_absent(key, &mark, self.ttl).await {
            Ok(false) => Err("held by another".into()),
            Ok(true) => {
                let validity = self.ttl.saturating_sub(self.clock.now() - start);
                if validity.is_zero() {
                    self.release(key, &mark).await;
                    return Err("the reply took longer than the TTL".into());
                }
                Ok(Held { mark, validity, votes: Vec::new() })
            }
            Err(error) => {
                // The node may have set it all the same.
                self.release(key, &mark).await;
                Err(error.to_string())
            }
        }
    }

    pub(super) async fn release(&self, key: &str, mark: &str) {
        let _ = self.node.delete_if_equals(key, mark).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Answer, FakeClock, FakeNode};
    use super::*;

    fn lock(answers: &[Answer]) -> Single<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        Single {
            node: FakeNode::new(answers, clock.clone()),
            clock,
            ttl: Duration::from_millis(100),
            retry_delay: (Duration::from_millis(5), Duration::from_millis(5)),
        }
    }

    #[tokio::test]
    async fn acquires_a_free_lock_and_reckons_the_time_it_took() {
        let lock = lock(&[Answer::Set { after_ms: 30 }]);
        let held = lock.attempt("k").await.unwrap();
        assert_eq!(held.validity, Duration::from_millis(70));
        assert_eq!(held.mark.len(), 40, "20 bytes as hexadecimal");
        lock.release("k", &held.mark).await;
        assert_eq!(lock.node.deleted(), [held.mark]);
    }

    #[tokio::test]
    async fn a_reply_later_than_the_ttl_a_refusal_and_a_timeout_are_no_lock() {
        let late = lock(&[Answer::Set { after_ms: 100 }]);
        assert!(late.attempt("k").await.is_err());
        assert_eq!(late.node.deleted().len(), 1, "what was set too late is released");

        let taken = lock(&[Answer::Taken]);
        assert_eq!(taken.attempt("k").await, Err("held by another".into()));
        assert!(taken.node.deleted().is_empty(), "another's lock is not touched");

        let silent = lock(&[Answer::Silent]);
        assert!(silent.attempt("k").await.is_err());
        assert_eq!(silent.node.deleted().len(), 1, "a timeout is not a failure: it may have been set");
    }
}
