//! One node, with the compare-and-set and the compare-and-delete of newer servers: `SET key mark NX PX ttl`, extended by
//! `SET key mark IFEQ mark PX ttl`, released by `DELIFEQ` or `DELEX`.
//!
//! Source: the documentation of these commands, which names the release of a lock as their purpose. The lock promises what
//! [`super::single`] does. The first release tries which command the server has. The version says little: managed services and
//! proxies refuse commands that the version has. A server that has neither gets the script of [`super::single`].
//!
//! `SET` without `PX` takes the TTL from its key, also with `IFEQ`. A renewal that is copied from a script with `PEXPIRE` leaves it
//! out. Then the lock never ends: if its holder dies, all others wait forever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::about::{asking, is_yes, within_ttls, yes};
use super::{
    About, Algorithm, Clock, CompareAndDelete, Held, LockOptions, LockParts, LockTable, Node, PhaseHook, RequestError,
};
use base::units::{Length, LengthRange};

pub(super) const ABOUT: About = About { name: "single-ifeq", needs_ifeq: true, ..About::ON_ONE_NODE };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleIfeqOptions {
    /// How long one request to the node may take.
    pub node_timeout: Length,
    /// How long to wait before asking again, drawn each time.
    pub retry_delay: LengthRange,
    /// How often a holder renews its lock.
    pub renew_every: Length,
    /// A renewal gives the key its TTL again, as it should.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub renewal_sets_ttl: bool,
}

/// As the client gets it.
#[derive(Serialize, Deserialize)]
struct ClientSettings {
    /// A renewal gives the key its TTL again.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    renewal_sets_ttl: bool,
}

impl LockTable for SingleIfeqOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        let options = LockOptions {
            renew_every_ms: Some(within_ttls("renew_every", self.renew_every, 1, ttl)?),
            ..asking(self.node_timeout, self.retry_delay, ttl)?
        };
        Ok(options.with(&ClientSettings { renewal_sets_ttl: self.renewal_sets_ttl }))
    }

    fn describe(&self) -> String {
        let without = if self.renewal_sets_ttl { "" } else { " without a TTL" };
        format!(
            ": node timeout {}, retry after {}, renewed every {}{without}",
            self.node_timeout, self.retry_delay, self.renew_every
        )
    }
}

/// The commands that may delete, in the order in which they are tried. If the server knows none of these commands, the client runs a script.
const DELETIONS: [CompareAndDelete; 2] = [CompareAndDelete::Delifeq, CompareAndDelete::Delex];

pub struct SingleIfeq<N, C> {
    pub node: N,
    pub clock: C,
    pub ttl: Duration,
    pub renewal_sets_ttl: bool,
    /// How many of [`DELETIONS`] the server is known not to have.
    lacks: AtomicUsize,
}

pub(super) fn build<N, C, M>(mut parts: LockParts<'_, N, C, M>) -> Result<SingleIfeq<N, C>, String> {
    let ClientSettings { renewal_sets_ttl } = parts.settings.own()?;
    let (node, ttl) = (parts.node()?, parts.settings.ttl());
    Ok(SingleIfeq { node, ttl, clock: parts.clock, renewal_sets_ttl, lacks: AtomicUsize::new(0) })
}

impl<N: Node, C: Clock> SingleIfeq<N, C> {
    /// Deletes the key if it holds the mark, by the first command that the server has.
    async fn delete(&self, key: &str, mark: &str) -> Result<bool, RequestError> {
        for (place, command) in DELETIONS.iter().enumerate().skip(self.lacks.load(Ordering::Relaxed)) {
            if let Some(deleted) = self.node.delete_by(*command, key, mark).await? {
                return Ok(deleted);
            }
            self.lacks.store(place + 1, Ordering::Relaxed);
        }
        self.node.delete_if_equals(key, mark).await
    }
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for SingleIfeq<N, C> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let start = self.clock.now();
        let mut held = Held::on_one_node(self.clock.mark(), self.ttl);
        let taken = match self.node.set_if_absent(key, &held.mark, self.ttl).await {
            Ok(false) => return Err("held by another client".into()),
            Ok(true) => held.since(&self.clock, start),
            // The node may have set it nevertheless.
            Err(error) => Err(error.to_string()),
        };
        if taken.is_err() {
            self.release(key, &held, hook).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        let _ = self.delete(key, &held.mark).await;
    }

    async fn renew(&self, key: &str, held: &Held) -> Result<Duration, String> {
        let start = self.clock.now();
        let ttl = self.renewal_sets_ttl.then_some(self.ttl);
        match self.node.set_if_equals(key, &held.mark, ttl).await {
            Ok(true) => {
                let mut renewed = Held::on_one_node(held.mark.clone(), self.ttl);
                renewed.since(&self.clock, start)?;
                Ok(renewed.validity.unwrap_or_default())
            }
            Ok(false) => Err("the node no longer has it".to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, FakeClock, FakeNode, Nobody};
    use super::*;

    fn lock(answers: &[FakeAnswer], renewal_sets_ttl: bool) -> SingleIfeq<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        let (node, ttl) = (FakeNode::new(answers, clock.clone()), Duration::from_millis(100));
        SingleIfeq { node, clock, ttl, renewal_sets_ttl, lacks: AtomicUsize::new(0) }
    }

    #[tokio::test]
    async fn a_renewal_lasts_another_ttl_and_brings_nothing_back() {
        let lock = lock(&[], true);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl / 2).await;
        assert_eq!(lock.renew("k", &held).await, Ok(lock.ttl));
        lock.clock.sleep(lock.ttl * 3 / 4).await;
        assert_eq!(lock.node.value("k"), Some(held.mark.clone()), "it would have expired without the renewal");
        lock.clock.sleep(lock.ttl).await;
        assert_eq!(lock.renew("k", &held).await, Err("the node no longer has it".into()));
        assert_eq!(lock.node.value("k"), None);
        let next = lock.attempt("k", &Nobody).await.unwrap();
        assert!(lock.renew("k", &held).await.is_err());
        lock.release("k", &held, &Nobody).await;
        assert_eq!(lock.node.value("k"), Some(next.mark), "another client's lock is not touched");
    }

    #[tokio::test]
    async fn a_renewal_without_a_ttl_makes_a_lock_that_never_ends() {
        let lock = lock(&[], false);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        assert_eq!(lock.renew("k", &held).await, Ok(lock.ttl));
        lock.clock.sleep(lock.ttl * 100).await;
        assert_eq!(lock.node.value("k"), Some(held.mark));
    }

    #[tokio::test]
    async fn it_is_released_by_the_command_that_the_server_has_and_others_are_tried_once() {
        for (has, tried) in [
            (Some(CompareAndDelete::Delifeq), &[CompareAndDelete::Delifeq, CompareAndDelete::Delifeq][..]),
            (
                Some(CompareAndDelete::Delex),
                &[CompareAndDelete::Delifeq, CompareAndDelete::Delex, CompareAndDelete::Delex],
            ),
            (None, &[CompareAndDelete::Delifeq, CompareAndDelete::Delex]),
        ] {
            let lock = lock(&[], true);
            lock.node.has_command(has);
            for _ in 0..2 {
                let held = lock.attempt("k", &Nobody).await.unwrap();
                lock.release("k", &held, &Nobody).await;
                assert_eq!(lock.node.value("k"), None, "{has:?}");
            }
            assert_eq!(lock.node.tried_commands(), tried, "{has:?}");
        }
    }

    #[tokio::test]
    async fn a_late_reply_and_a_timeout_are_no_lock() {
        for answer in [FakeAnswer::Set { after_ms: 100 }, FakeAnswer::Silent] {
            let lock = lock(&[answer], true);
            assert!(lock.attempt("k", &Nobody).await.is_err());
            assert_eq!(lock.node.deleted().len(), 1, "what may have been set is released");
        }
        let taken = lock(&[FakeAnswer::Taken], true);
        assert_eq!(taken.attempt("k", &Nobody).await, Err("held by another client".into()));
        assert!(taken.node.deleted().is_empty());
    }
}
