//! Redlock that counts its acquisitions on every node; the token is the highest count of a majority.
//!
//! Source: Kleppmann (2016), who doubts it: "Keeping counters on several nodes would mean they would go out of sync." It promises
//! tokens that grow as long as every acquisition reaches all nodes and no node forgets. If different nodes are unreachable in
//! turn, the highest count of one majority may exceed all counts that the next majority sees. A node that restarts empty begins
//! at 1 again.

use async_trait::async_trait;

use super::fenced::counter;
use super::redlock::{self, Redlock};
use super::{About, Algorithm, Clock, Held, LockParts, Node, PhaseHook, Token, all};
use base::mutants::planted;

pub(super) const ABOUT: About = About {
    name: "redlock-tokens",
    called: "Redlock with tokens",
    independent_nodes: true,
    halves: true,
    tokens: true,
    ..About::OF_ITS_OWN
};

pub struct RedlockTokens<N, C> {
    pub redlock: Redlock<N, C>,
}

pub(super) fn build<N, C, M>(parts: LockParts<'_, N, C, M>) -> Result<RedlockTokens<N, C>, String> {
    redlock::build(parts).map(|redlock| RedlockTokens { redlock })
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for RedlockTokens<N, C> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let mut held = self.redlock.attempt(key, hook).await?;
        let acquired = self.redlock.clock.now();
        hook.half_acquired().await;
        let counter = counter(key);
        let counts = all(self.redlock.nodes.iter().map(|node| node.increment(&counter))).await;
        let counts: Vec<u64> = counts.into_iter().flatten().collect();
        let refused = if counts.len() < self.redlock.quorum() && !planted("token.of-a-minority") {
            format!("{} of {} nodes counted", counts.len(), self.redlock.nodes.len())
        } else {
            held.token = counts.into_iter().max().map(|number| Token { number, minor: None });
            match held.since(&self.redlock.clock, acquired) {
                Ok(()) => return Ok(held),
                Err(too_late) => too_late,
            }
        };
        self.release(key, &held, hook).await;
        Err(refused)
    }

    async fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook) {
        self.redlock.release(key, held, hook).await;
    }

    async fn ask(&self, key: &str, held: &Held) -> Result<(), String> {
        self.redlock.ask(key, held).await
    }

    async fn renew(&self, key: &str, held: &Held) -> Result<std::time::Duration, String> {
        self.redlock.renew(key, held).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fake::{FakeClock, FakeNode, Nobody};
    use super::*;

    fn lock() -> RedlockTokens<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        let redlock = Redlock {
            nodes: (0..5).map(|_| FakeNode::new(&[], clock.clone())).collect(),
            clock,
            ttl: Duration::from_millis(1000),
            settings: redlock::RedlockSettings::new(0.01).unwrap(),
        };
        RedlockTokens { redlock }
    }

    /// The token of an acquisition that reaches these nodes only.
    async fn token(lock: &RedlockTokens<FakeNode, FakeClock>, reached: &[usize]) -> u64 {
        for (number, node) in lock.redlock.nodes.iter().enumerate() {
            node.cut_off(!reached.contains(&number));
        }
        let held = lock.attempt("k", &Nobody).await.unwrap();
        lock.release("k", &held, &Nobody).await;
        held.token.unwrap().number
    }

    #[tokio::test]
    async fn tokens_grow_while_one_majority_is_reached() {
        let lock = lock();
        assert_eq!(token(&lock, &[0, 1, 2, 3, 4]).await, 1);
        assert_eq!(token(&lock, &[0, 1, 2]).await, 2);
        assert_eq!(token(&lock, &[2, 3, 4]).await, 3, "the majorities have node 2 in common");
    }

    #[tokio::test]
    async fn they_go_back_when_the_node_with_the_highest_count_is_out_of_reach() {
        let lock = lock();
        assert_eq!(token(&lock, &[0, 1, 2]).await, 1);
        assert_eq!(token(&lock, &[0, 3, 4]).await, 2);
        assert_eq!(token(&lock, &[0, 1, 3]).await, 3);
        assert_eq!(token(&lock, &[0, 2, 4]).await, 4);
        assert_eq!(token(&lock, &[1, 2, 3]).await, 3);
    }

    #[tokio::test]
    async fn without_a_majority_of_counts_there_is_no_lock() {
        let lock = lock();
        for node in &lock.redlock.nodes[..3] {
            node.cut_off(true);
        }
        assert!(lock.attempt("k", &Nobody).await.is_err());
    }
}
