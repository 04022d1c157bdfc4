//! One node: `SETNX key mark`, released by an atomic compare-and-delete, and no TTL.
//!
//! Source: the oldest lock on Redis, and the lock of libraries that get no TTL. It never expires under a holder, however long the
//! holder stops. In return, a client that dies with it, or can't release it, leaves it held for ever.

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, Node, OneNode, PhaseHook};

pub(super) const ABOUT: About = About {
    name: "forever",
    called: "The lock without a TTL",
    called_on_primary: None,
    expires: false,
    ..About::ON_ONE_NODE
};

pub struct Forever;

#[async_trait]
impl<N: Node, C: Clock> Algorithm for OneNode<N, C, Forever> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let held = Held { mark: self.clock.mark(), validity: None, votes: Vec::new(), token: None };
        match self.node.set_for_ever_if_absent(key, &held.mark).await {
            Ok(true) => Ok(held),
            Ok(false) => Err("held by another client".into()),
            Err(error) => {
                // The node may have set the key nevertheless.
                self.release(key, &held, hook).await;
                Err(error.to_string())
            }
        }
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        let _ = self.node.delete_if_equals(key, &held.mark).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, Nobody, one_node};
    use super::*;

    #[tokio::test]
    async fn it_is_held_until_it_is_given_back_and_by_nobody_whose_answer_was_lost() {
        let lock = one_node::<Forever>(&[]);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        assert_eq!(held.validity, None);
        lock.clock.sleep(lock.ttl * 100).await;
        assert!(lock.attempt("k", &Nobody).await.is_err(), "it never runs out");
        lock.release("k", &held, &Nobody).await;
        lock.attempt("k", &Nobody).await.unwrap();

        let silent = one_node::<Forever>(&[FakeAnswer::SetSilently]);
        assert!(silent.attempt("k", &Nobody).await.is_err());
        assert_eq!(silent.node.value("k"), None, "what its node did nevertheless is undone");
    }
}
