//! One node: `SET key constant NX PX ttl`, released by a plain `DEL`.
//!
//! Source: a warning of the Redis documentation, and the first version of many locks. Every holder writes the same value, so no
//! client can tell whose the key is. It promises exclusion as long as no client works for longer than the TTL. A late holder
//! frees the next holder's lock, that holder the one after it, and so on.

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, Node, OneNode, PhaseHook};

pub(super) const ABOUT: About = About { name: "single-constant", ..About::ON_ONE_NODE };

pub struct SingleConstant;

/// The value that every holder writes.
const CONSTANT: &str = "locked";

#[async_trait]
impl<N: Node, C: Clock> Algorithm for OneNode<N, C, SingleConstant> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let start = self.clock.now();
        let mut held = Held::on_one_node(CONSTANT.to_string(), self.ttl);
        match self.node.set_if_absent(key, CONSTANT, self.ttl).await {
            Ok(false) => Err("held by another client".into()),
            Ok(true) => {
                let in_time = held.since(&self.clock, start);
                if in_time.is_err() {
                    self.release(key, &held, hook).await;
                }
                in_time.map(|()| held)
            }
            // The key may be another holder's, so it is left to expire.
            Err(error) => Err(error.to_string()),
        }
    }

    async fn release(&self, key: &str, _: &Held, _: &dyn PhaseHook) {
        let _ = self.node.delete(key).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, Nobody, one_node};
    use super::*;

    #[tokio::test]
    async fn one_has_it_until_its_release() {
        let lock = one_node::<SingleConstant>(&[]);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        assert_eq!(lock.attempt("k", &Nobody).await, Err("held by another client".into()));
        lock.release("k", &held, &Nobody).await;
        assert_eq!(lock.node.value("k"), None);
    }

    #[tokio::test]
    async fn a_late_release_frees_the_next_holders_lock() {
        let lock = one_node::<SingleConstant>(&[]);
        let first = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl).await;
        lock.attempt("k", &Nobody).await.unwrap();
        lock.release("k", &first, &Nobody).await;
        assert_eq!(lock.node.value("k"), None);
    }

    #[tokio::test]
    async fn an_uncertain_attempt_is_no_lock_and_takes_nothing_back() {
        let lock = one_node::<SingleConstant>(&[FakeAnswer::Silent]);
        assert!(lock.attempt("k", &Nobody).await.is_err());
        assert_eq!(lock.node.deletions("k"), 0);
    }
}
