//! One node: `INCR`; the client that gets 1 has the lock; `DEL` releases it. No TTL, no owner.
//!
//! Source: a comment under Kleppmann's article (2016) that asks whether this is safe enough, since without a TTL no pause can
//! outlive it. It promises exclusion as long as every release happens exactly once. A holder that dies holds the lock forever.
//! And since a missing release keeps all clients out, a client must send a release until it is answered. If the answer is lost,
//! the repeated `DEL` costs the next holder its lock, since any `DEL` frees it.

use std::time::Duration;

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, LockParts, Node, PhaseHook};

pub(super) const ABOUT: About = About { name: "incr", expires: false, ..About::ON_ONE_NODE };

pub struct Incr<N, C> {
    pub node: N,
    pub clock: C,
    /// The key does not expire; the client tries to release for [`RELEASE_TTLS`] times this long.
    pub ttl: Duration,
    /// Bounds of the wait between attempts to release.
    pub retry_delay: (Duration, Duration),
}

pub(super) fn build<N, C, M>(mut parts: LockParts<'_, N, C, M>) -> Result<Incr<N, C>, String> {
    let retry_delay = parts.settings.retry_delay()?;
    Ok(Incr { node: parts.node()?, ttl: parts.settings.ttl(), clock: parts.clock, retry_delay })
}

/// How long a client tries to release, in TTLs.
const RELEASE_TTLS: u32 = 4;

#[async_trait]
impl<N: Node, C: Clock> Algorithm for Incr<N, C> {
    async fn attempt(&self, key: &str, _: &dyn PhaseHook) -> Result<Held, String> {
        match self.node.increment(key).await {
            Ok(1) => Ok(Held { mark: String::new(), validity: None, votes: Vec::new(), token: None }),
            Ok(count) => Err(format!("held by another client: the count is {count}")),
            // If the node executed it and returned 1, the lock is held and no client knows that it holds it.
            Err(error) => Err(error.to_string()),
        }
    }

    async fn release(&self, key: &str, _: &Held, _: &dyn PhaseHook) {
        let deadline = self.clock.now() + self.ttl * RELEASE_TTLS;
        loop {
            if self.node.delete(key).await.is_ok() || self.clock.now() >= deadline {
                return;
            }
            self.clock.sleep(self.clock.draw(self.retry_delay)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, FakeClock, FakeNode, Nobody};
    use super::*;

    fn lock(answers: &[FakeAnswer]) -> Incr<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        let node = FakeNode::new(answers, clock.clone());
        let retry_delay = (Duration::from_millis(5), Duration::from_millis(9));
        Incr { node, clock, ttl: Duration::from_millis(100), retry_delay }
    }

    #[tokio::test]
    async fn the_first_has_it_until_it_gives_it_back_however_long_that_takes() {
        let lock = lock(&[]);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        assert_eq!(held.validity, None);
        lock.clock.sleep(lock.ttl * 1000).await;
        assert_eq!(lock.attempt("k", &Nobody).await, Err("held by another client: the count is 2".into()));
        lock.release("k", &held, &Nobody).await;
        assert!(lock.attempt("k", &Nobody).await.is_ok());
    }

    #[tokio::test]
    async fn a_release_is_sent_until_it_is_answered_and_then_frees_whatever_is_there() {
        let lock = lock(&[]);
        let first = lock.attempt("k", &Nobody).await.unwrap();
        lock.node.lose_replies(2);
        lock.release("k", &first, &Nobody).await;
        assert_eq!(lock.node.deletions("k"), 3, "two whose answers were lost, and one more");
    }

    #[tokio::test]
    async fn an_answer_that_was_lost_locks_everybody_out() {
        let lock = lock(&[FakeAnswer::SetSilently]);
        assert!(lock.attempt("k", &Nobody).await.is_err());
        assert_eq!(lock.attempt("k", &Nobody).await, Err("held by another client: the count is 2".into()));
    }
}
