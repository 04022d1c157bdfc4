//! One node: [`super::single`] that also counts its acquisitions, so that the resource can refuse a late holder.
//!
//! Source: Kleppmann (2016), "Making the lock safe with fencing". One script sets the key and raises the counter. A number drawn
//! in a second command may be drawn after the lock was lost, and then be the greater one. The lock promises numbers that grow as
//! long as its node remembers. Their value depends on the resource: if it checks them only on writes, it is safe from one late
//! holder, not from two.

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, Node, OneNode, PhaseHook, Token};
use base::mutants::planted;

pub(super) const ABOUT: About = About { name: "fenced", called: "The fenced lock", tokens: true, ..About::OF_ITS_OWN };

pub struct Fenced;

/// The key of the counter with the number of a lock's latest acquisition.
pub(super) fn counter(key: &str) -> String {
    format!("{key}:token")
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for OneNode<N, C, Fenced> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let start = self.clock.now();
        let mut held = Held::on_one_node(self.clock.mark(), self.ttl);
        let taken = match self.node.set_if_absent_and_count(key, &held.mark, self.ttl, &counter(key)).await {
            Ok(None) => return Err("held by another client".into()),
            Ok(Some(number)) => {
                held.token = Some(Token { number, minor: None });
                held.since(&self.clock, start)
            }
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

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, Nobody, one_node};
    use super::*;

    #[tokio::test]
    async fn tokens_grow_over_releases_and_expiries() {
        let lock = one_node::<Fenced>(&[]);
        let mut numbers = Vec::new();
        for released in [true, false, true] {
            let held = lock.attempt("k", &Nobody).await.unwrap();
            numbers.push(held.token.unwrap().number);
            assert!(lock.attempt("k", &Nobody).await.is_err(), "and one that failed draws none");
            match released {
                true => lock.release("k", &held, &Nobody).await,
                false => lock.clock.sleep(lock.ttl).await,
            }
        }
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_node_that_forgets_begins_anew() {
        let lock = one_node::<Fenced>(&[]);
        let before = lock.attempt("k", &Nobody).await.unwrap();
        lock.node.forget();
        assert_eq!(lock.attempt("k", &Nobody).await.unwrap().token, before.token);
    }

    #[tokio::test]
    async fn an_uncertain_attempt_is_taken_back() {
        let lock = one_node::<Fenced>(&[FakeAnswer::Silent]);
        assert!(lock.attempt("k", &Nobody).await.is_err());
        assert_eq!(lock.node.deleted().len(), 1);
    }
}
