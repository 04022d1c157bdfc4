//! One node: [`super::fenced`] whose token gets a second number if an earlier holder expired without a release.
//!
//! Source: a comment by idelvall under Kleppmann's article (2016), against two late holders in a row. If no acquisition since the
//! last release has expired, the token is an ordinary one. Otherwise it is paired: its major number is that of the acquisition,
//! its minor number the first number that was not released. The resource accepts a write with a paired token only if no client
//! with the minor number or a later one has written. So of several holders that may all have read before, the first to write
//! wins. Kleppmann called it plausible and asked for a proof.
//!
//! It promises that tokens grow as long as its node remembers. A release declares all earlier tokens done, but that may be false.
//! A holder may release without having written. Then the next holder gets an ordinary token, though an earlier holder may still
//! be about to write.

use async_trait::async_trait;

use super::fenced::counter;
use super::{About, Algorithm, Clock, Held, Node, OneNode, PhaseHook, Token};

pub(super) const ABOUT: About =
    About { name: "paired-token", called: "The fenced lock", tokens: true, ..About::OF_ITS_OWN };

pub struct PairedToken;

/// The key with the greatest released number.
fn given_back(key: &str) -> String {
    format!("{key}:released")
}

impl<N: Node, C: Clock> OneNode<N, C, PairedToken> {
    async fn token(&self, key: &str, number: u64) -> Result<Token, String> {
        let given_back = self.node.get(&given_back(key)).await.map_err(|error| error.to_string())?;
        let given_back = given_back.map_or(Ok(0), |text| text.parse::<u64>());
        let first_left = given_back.map_err(|error| format!("the number of the last release: {error}"))? + 1;
        // The acquisitions in between have expired, since the lock was free.
        Ok(Token { number, minor: (first_left < number).then_some(first_left) })
    }
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for OneNode<N, C, PairedToken> {
    async fn attempt(&self, key: &str, _: &dyn PhaseHook) -> Result<Held, String> {
        let start = self.clock.now();
        let mut held = Held::on_one_node(self.clock.mark(), self.ttl);
        let taken = match self.node.set_if_absent_and_count(key, &held.mark, self.ttl, &counter(key)).await {
            Ok(None) => return Err("held by another client".into()),
            Ok(Some(number)) => self.token(key, number).await.and_then(|token| {
                held.token = Some(token);
                held.since(&self.clock, start)
            }),
            Err(error) => Err(error.to_string()),
        };
        if taken.is_err() {
            // It does not mark its number as released: that would also mark earlier holders.
            let _ = self.node.delete_if_equals(key, &held.mark).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        if let Some(token) = held.token {
            let _ = self.node.raise(&given_back(key), token.number).await;
        }
        let _ = self.node.delete_if_equals(key, &held.mark).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Nobody, one_node};
    use super::*;

    fn token(number: u64, minor: Option<u64>) -> Option<Token> {
        Some(Token { number, minor })
    }

    #[tokio::test]
    async fn after_releases_tokens_are_ordinary() {
        let lock = one_node::<PairedToken>(&[]);
        for number in 1..=3 {
            let held = lock.attempt("k", &Nobody).await.unwrap();
            assert_eq!(held.token, token(number, None));
            lock.release("k", &held, &Nobody).await;
        }
    }

    #[tokio::test]
    async fn after_expiries_they_name_the_first_that_was_not_given_back() {
        let lock = one_node::<PairedToken>(&[]);
        let first = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl).await;
        assert_eq!(lock.attempt("k", &Nobody).await.unwrap().token, token(2, Some(1)));
        lock.clock.sleep(lock.ttl).await;
        assert_eq!(lock.attempt("k", &Nobody).await.unwrap().token, token(3, Some(1)));
        lock.clock.sleep(lock.ttl).await;
        lock.release("k", &first, &Nobody).await;
        assert_eq!(lock.attempt("k", &Nobody).await.unwrap().token, token(4, Some(2)), "a late release counts");
    }

    #[tokio::test]
    async fn a_release_speaks_for_all_before_it() {
        let lock = one_node::<PairedToken>(&[]);
        lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl).await;
        let second = lock.attempt("k", &Nobody).await.unwrap();
        lock.release("k", &second, &Nobody).await;
        assert_eq!(lock.attempt("k", &Nobody).await.unwrap().token, token(3, None));
    }
}
