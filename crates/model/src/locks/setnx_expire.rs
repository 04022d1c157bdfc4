//! One node: `SETNX`, then `PEXPIRE` in a second command, released by an atomic compare-and-delete.
//!
//! Source: a common lock from before `SET` took `NX` and `PX` together (2.6.12), which tutorials still show. It promises the same
//! as [`super::single`] as long as no client dies between the two commands. If a client does, the key has no TTL, and the lock
//! stays held forever without a holder.

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, Node, OneNode, PhaseHook};

pub(super) const ABOUT: About = About { name: "setnx-expire", halves: true, ..About::ON_ONE_NODE };

pub struct SetnxExpire;

#[async_trait]
impl<N: Node, C: Clock> Algorithm for OneNode<N, C, SetnxExpire> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let mut held = Held::on_one_node(self.clock.mark(), self.ttl);
        let taken = match self.node.set_for_ever_if_absent(key, &held.mark).await {
            Ok(false) => return Err("held by another client".into()),
            Err(error) => Err(error.to_string()),
            Ok(true) => {
                hook.half_acquired().await;
                // The TTL starts here.
                let start = self.clock.now();
                match self.node.expire(key, self.ttl).await {
                    Ok(true) => held.since(&self.clock, start),
                    Ok(false) => Err("the key was gone before it had a TTL".to_string()),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        if taken.is_err() {
            self.release(key, &held, hook).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        let _ = self.node.delete_if_equals(key, &held.mark).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Count, FakeAnswer, Nobody, Stuck, one_node};
    use super::*;

    #[tokio::test]
    async fn both_commands_make_the_lock_and_it_expires() {
        let lock = one_node::<SetnxExpire>(&[]);
        let seen = Count::default();
        let held = lock.attempt("k", &seen).await.unwrap();
        assert_eq!(held.validity, Some(lock.ttl));
        assert_eq!(seen.0.into_inner(), 1, "it was half acquired once");
        assert!(lock.attempt("k", &Nobody).await.is_err());
        lock.clock.sleep(lock.ttl).await;
        assert!(lock.attempt("k", &Nobody).await.is_ok());
    }

    #[tokio::test]
    async fn who_dies_between_the_two_commands_holds_it_for_ever() {
        let lock = one_node::<SetnxExpire>(&[]);
        let dies = futures_util::future::select(
            Box::pin(lock.attempt("k", &Stuck)),
            Box::pin(async { tokio::task::yield_now().await }),
        );
        drop(dies.await);
        lock.clock.sleep(lock.ttl * 1000).await;
        assert_eq!(lock.attempt("k", &Nobody).await, Err("held by another client".into()));
    }

    #[tokio::test]
    async fn an_uncertain_attempt_is_taken_back() {
        let lock = one_node::<SetnxExpire>(&[FakeAnswer::Silent]);
        assert!(lock.attempt("k", &Nobody).await.is_err());
        assert_eq!(lock.node.deleted().len(), 1);
    }
}
