//! ZooKeeper: ephemeral nodes numbered in order; the client with the lowest number holds the lock.
//!
//! Source: ZooKeeper's recipe for locks, in the form that does not wait: a client that finds another one ahead of it leaves
//! again. A node lives as long as its maker's session, and the session as long as the servers hear from its client. A holder that
//! stops for longer loses its node without noticing (Kleppmann 2016). The transaction that made a node has a number, the zxid,
//! greater than that of any earlier transaction: a fencing token.
//!
//! A server that lags behind may answer reads. But a list requested after a client made its own node shows all nodes made before
//! it. A node in the list that is already gone does no harm.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, NoAnswer, PhaseHook, Token};
use crate::topology::Program;

pub const ABOUT: About = About {
    name: "zookeeper",
    called: "The lock in ZooKeeper",
    program: Program::Zookeeper,
    tokens: true,
    ..About::OF_ITS_OWN
};

/// Requests of the lock to ZooKeeper. The implementation limits the time of each request. If a request gets no answer, the
/// implementation gives up its session, and with it all nodes that the session made.
pub trait Contest: Send + Sync {
    /// The numbers of the lock's child nodes.
    fn contenders(&self, key: &str) -> impl Future<Output = Result<Vec<i64>, NoAnswer>> + Send;

    /// Makes a child node of the lock's node.
    fn enter(&self, key: &str) -> impl Future<Output = Result<OwnNode, NoAnswer>> + Send;

    /// Removes the node with this number. No error if it is already gone.
    fn leave(&self, key: &str, number: i64) -> impl Future<Output = Result<(), NoAnswer>> + Send;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnNode {
    pub number: i64,
    /// The transaction that made it.
    pub zxid: u64,
    /// How long the session lives without hearing from its client.
    pub ttl: Duration,
}

pub struct Zookeeper<Z, C> {
    pub contest: Z,
    pub clock: C,
}

#[async_trait]
impl<Z: Contest, C: Clock> Algorithm for Zookeeper<Z, C> {
    async fn attempt(&self, key: &str, _: &dyn PhaseHook) -> Result<Held, String> {
        let words = |error: NoAnswer| error.to_string();
        // A read is cheap; all servers agree on a node and write it to their disks.
        if !self.contest.contenders(key).await.map_err(words)?.is_empty() {
            return Err("held by another client".into());
        }
        let start = self.clock.now();
        let entry = self.contest.enter(key).await.map_err(words)?;
        let mut held = Held::on_one_node(entry.number.to_string(), entry.ttl);
        held.token = Some(Token { number: entry.zxid, minor: None });
        let taken = match self.contest.contenders(key).await {
            Ok(numbers) if numbers.iter().min() == Some(&entry.number) => held.since(&self.clock, start),
            Ok(_) => Err("another client was faster".to_string()),
            Err(error) => Err(error.to_string()),
        };
        if taken.is_err() {
            let _ = self.contest.leave(key, entry.number).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        if let Ok(number) = held.mark.parse() {
            let _ = self.contest.leave(key, number).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::fake::{FakeClock, Nobody};
    use super::*;

    struct FakeContest {
        /// The nodes listed before and after the client makes its own node.
        seen: Mutex<Vec<Result<Vec<i64>, NoAnswer>>>,
        took: Duration,
        clock: FakeClock,
        left: Mutex<Vec<i64>>,
    }

    impl Contest for FakeContest {
        async fn contenders(&self, _: &str) -> Result<Vec<i64>, NoAnswer> {
            self.seen.lock().unwrap().remove(0)
        }

        async fn enter(&self, _: &str) -> Result<OwnNode, NoAnswer> {
            self.clock.sleep(self.took).await;
            Ok(OwnNode { number: 7, zxid: 33, ttl: Duration::from_secs(1) })
        }

        async fn leave(&self, _: &str, number: i64) -> Result<(), NoAnswer> {
            self.left.lock().unwrap().push(number);
            Ok(())
        }
    }

    fn lock(seen: &[&[i64]], took_ms: u64) -> Zookeeper<FakeContest, FakeClock> {
        let clock = FakeClock::default();
        let seen = seen.iter().map(|numbers| Ok(numbers.to_vec())).collect();
        let took = Duration::from_millis(took_ms);
        let contest = FakeContest { seen: Mutex::new(seen), took, clock: clock.clone(), left: Mutex::default() };
        Zookeeper { contest, clock }
    }

    #[tokio::test]
    async fn the_lowest_node_is_the_lock_and_its_zxid_the_token() {
        let lock = lock(&[&[], &[8, 7]], 30);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        let token = Some(Token { number: 33, minor: None });
        assert_eq!((held.token, held.validity), (token, Some(Duration::from_millis(970))));
        lock.release("k", &held, &Nobody).await;
        assert_eq!(*lock.contest.left.lock().unwrap(), [7]);
    }

    #[tokio::test]
    async fn one_who_is_not_the_first_makes_no_node_or_leaves_again() {
        let taken = lock(&[&[3]], 0);
        assert_eq!(taken.attempt("k", &Nobody).await, Err("held by another client".into()));
        assert!(taken.contest.left.lock().unwrap().is_empty());
        // Overtaken, already gone, or too late.
        for (seen, took_ms) in [(&[6, 7][..], 0), (&[], 0), (&[7], 1000)] {
            let lock = lock(&[&[], seen], took_ms);
            assert!(lock.attempt("k", &Nobody).await.is_err());
            assert_eq!(*lock.contest.left.lock().unwrap(), [7]);
        }
    }

    #[tokio::test]
    async fn a_list_that_is_not_answered_is_no_lock() {
        let lock = lock(&[&[]], 0);
        lock.contest.seen.lock().unwrap().push(Err(NoAnswer("no answer within 500ms".into())));
        assert!(lock.attempt("k", &Nobody).await.is_err());
        assert_eq!(*lock.contest.left.lock().unwrap(), [7]);
    }
}
