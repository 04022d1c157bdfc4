//! One node: `SET key mark NX PX ttl`, released by an atomic compare-and-delete.
//!
//! Source: the Redis documentation, "Correct implementation with a single instance". It promises exclusion while the work is
//! shorter than the TTL and the node neither stops nor forgets. The duration of the request counts against the validity, as in
//! Redlock: a late reply has used up the TTL.
//!
//! If nodes replicate, the lock is on the current primary, and replication is asynchronous: another node that takes over may not
//! have the lock. WAIT waits until replicas acknowledge before the lock counts as acquired. Its documentation says that this
//! makes the loss less likely, not impossible.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::about::{asking, is_default};
use super::{About, Algorithm, Clock, Held, LockOptions, LockParts, LockTable, Node, PhaseHook};
use base::mutants::planted;
use base::units::{Length, LengthRange};

pub(super) const ABOUT: About = About { name: "single", ..About::ON_ONE_NODE };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleOptions {
    /// How long one request to the node may take.
    pub node_timeout: Length,
    /// How long to wait before the next attempt, drawn each time.
    pub retry_delay: LengthRange,
    /// How many replicas must acknowledge the lock before it counts as acquired (WAIT).
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: u32,
}

/// The lock's own options in the client protocol.
#[derive(Serialize, Deserialize)]
struct ClientSettings {
    /// How many replicas must acknowledge the lock before it counts as acquired.
    #[serde(default, skip_serializing_if = "is_default")]
    wait_replicas: u32,
}

impl LockTable for SingleOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        Ok(asking(self.node_timeout, self.retry_delay, ttl)?.with(&ClientSettings { wait_replicas: self.wait }))
    }

    fn describe(&self) -> String {
        let wait = match self.wait {
            0 => String::new(),
            replicas => format!(", acknowledged by {} (WAIT)", base::words::plural(u64::from(replicas), "replica")),
        };
        format!(": node timeout {}, retry after {}{wait}", self.node_timeout, self.retry_delay)
    }

    fn replicas(&self) -> u32 {
        self.wait
    }
}

pub struct Single<N, C> {
    pub node: N,
    pub clock: C,
    pub ttl: Duration,
    /// How many replicas must acknowledge the lock.
    pub wait: u32,
}

pub(super) fn build<N, C, M>(mut parts: LockParts<'_, N, C, M>) -> Result<Single<N, C>, String> {
    let ClientSettings { wait_replicas: wait } = parts.settings.own()?;
    Ok(Single { node: parts.node()?, ttl: parts.settings.ttl(), clock: parts.clock, wait })
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for Single<N, C> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let start = self.clock.now();
        let mut held = Held::on_one_node(self.clock.mark(), self.ttl);
        let taken = match self.node.set_if_absent(key, &held.mark, self.ttl).await {
            Ok(false) => return Err("held by another client".into()),
            Ok(true) => self.acknowledged().await.and_then(|()| held.since(&self.clock, start)),
            // The node may have set the key nevertheless.
            Err(error) => Err(error.to_string()),
        };
        if taken.is_err() && !planted("attempt.not-taken-back") {
            self.release(key, &held, hook).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        let _ = self.node.delete_if_equals(key, &held.mark).await;
    }
}

impl<N: Node, C: Clock> Single<N, C> {
    /// Checks that enough replicas have acknowledged the previous write.
    async fn acknowledged(&self) -> Result<(), String> {
        if self.wait == 0 {
            return Ok(());
        }
        match self.node.wait_for(self.wait).await {
            Ok(replicas) if replicas >= self.wait => Ok(()),
            Ok(replicas) => Err(format!("{replicas} replicas acknowledged the write, but {} are required", self.wait)),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, FakeClock, FakeNode, Nobody};
    use super::*;

    fn lock(answers: &[FakeAnswer]) -> Single<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        Single { node: FakeNode::new(answers, clock.clone()), clock, ttl: Duration::from_millis(100), wait: 0 }
    }

    #[tokio::test]
    async fn acquires_a_free_lock_and_reckons_the_time_it_took() {
        let lock = lock(&[FakeAnswer::Set { after_ms: 30 }]);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        assert_eq!(held.validity, Some(Duration::from_millis(70)));
        assert_eq!(held.mark.len(), 40, "20 bytes as hexadecimal");
        lock.release("k", &held, &Nobody).await;
        assert_eq!(lock.node.deleted(), [held.mark]);
    }

    #[tokio::test]
    async fn a_reply_later_than_the_ttl_a_refusal_and_a_timeout_are_no_lock() {
        let late = lock(&[FakeAnswer::Set { after_ms: 100 }]);
        assert!(late.attempt("k", &Nobody).await.is_err());
        assert_eq!(late.node.deleted().len(), 1, "what was set too late is released");

        let taken = lock(&[FakeAnswer::Taken]);
        assert_eq!(taken.attempt("k", &Nobody).await, Err("held by another client".into()));
        assert!(taken.node.deleted().is_empty(), "another's lock is not touched");

        let silent = lock(&[FakeAnswer::Silent]);
        assert!(silent.attempt("k", &Nobody).await.is_err());
        assert_eq!(silent.node.deleted().len(), 1, "a timeout is not a failure: it may have been set");
    }

    #[tokio::test]
    async fn as_many_replicas_as_have_to_acknowledge_it_or_it_is_released() {
        let waiting = |wait| Single { wait, ..lock(&[]) };
        let enough = waiting(FakeNode::REPLICAS);
        let held = enough.attempt("k", &Nobody).await.unwrap();
        assert_eq!(enough.node.value("k"), Some(held.mark));
        let too_few = waiting(FakeNode::REPLICAS + 1);
        assert!(too_few.attempt("k", &Nobody).await.unwrap_err().contains("but 2 are required"));
        assert_eq!(too_few.node.value("k"), None);
    }

    #[tokio::test]
    async fn a_late_release_leaves_the_next_holder_alone() {
        let lock = lock(&[]);
        let first = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl).await;
        let second = lock.attempt("k", &Nobody).await.unwrap();
        lock.release("k", &first, &Nobody).await;
        assert_eq!(lock.node.value("k"), Some(second.mark));
    }
}
