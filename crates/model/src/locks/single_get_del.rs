//! One node: like [`super::single`], but released by `GET`, a comparison in the client, and `DEL`.
//!
//! Source: Zhang Tielei, "Are distributed locks on Redis safe?" (zhangtielei.com, in Chinese), and many libraries from before
//! scripts. It promises the same as [`super::single`] except in one window. A client that stops between its `GET` and its `DEL`
//! for longer than the rest of its TTL frees the next holder's lock.

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, Node, OneNode, PhaseHook};

pub(super) const ABOUT: About = About { name: "single-get-del", ..About::ON_ONE_NODE };

pub struct SingleGetDel;

impl<N: Node, C: Clock> OneNode<N, C, SingleGetDel> {
    async fn is_mine(&self, key: &str, held: &Held) -> bool {
        self.node.get(key).await == Ok(Some(held.mark.clone()))
    }
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for OneNode<N, C, SingleGetDel> {
    async fn attempt(&self, key: &str, _: &dyn PhaseHook) -> Result<Held, String> {
        let start = self.clock.now();
        let mut held = Held::on_one_node(self.clock.mark(), self.ttl);
        let taken = match self.node.set_if_absent(key, &held.mark, self.ttl).await {
            Ok(false) => return Err("held by another client".into()),
            Ok(true) => held.since(&self.clock, start),
            Err(error) => Err(error.to_string()),
        };
        // This belongs to the acquisition, so it is not reported as a release.
        if taken.is_err() && self.is_mine(key, &held).await {
            let _ = self.node.delete(key).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook) {
        if self.is_mine(key, held).await {
            hook.half_released().await;
            let _ = self.node.delete(key).await;
        }
    }
}

#[cfg(test)]
mod tests {

    use super::super::fake::{FakeClock, FakeNode, Nobody, one_node};
    use super::*;

    #[tokio::test]
    async fn a_release_that_comes_late_as_a_whole_leaves_the_next_holder_alone() {
        let lock = one_node::<SingleGetDel>(&[]);
        let first = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl).await;
        let second = lock.attempt("k", &Nobody).await.unwrap();
        lock.release("k", &first, &Nobody).await;
        assert_eq!(lock.node.value("k"), Some(second.mark.clone()));
        lock.release("k", &second, &Nobody).await;
        assert_eq!(lock.node.value("k"), None);
    }

    /// Lets the TTL expire and another client acquire the lock between `GET` and `DEL`.
    struct Meanwhile<'a>(&'a OneNode<FakeNode, FakeClock, SingleGetDel>);

    #[async_trait]
    impl PhaseHook for Meanwhile<'_> {
        async fn half_released(&self) {
            self.0.clock.sleep(self.0.ttl).await;
            self.0.attempt("k", &Nobody).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_release_that_stops_half_way_frees_the_next_holders_lock() {
        let lock = one_node::<SingleGetDel>(&[]);
        let first = lock.attempt("k", &Nobody).await.unwrap();
        lock.release("k", &first, &Meanwhile(&lock)).await;
        assert_eq!(lock.node.value("k"), None);
    }
}
