//! The perfect lock: the controller grants it to one client at a time, until that client releases it. No server, no TTL.
//!
//! The control that tests the tester. The lock can't be lost. A stopped holder still has it when it continues. A holder that died
//! or gave up keeps it until none of its requests can still reach the resource. So any violation under this lock is a bug of the
//! tester.

use std::sync::Arc;

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::about::range;
use super::{About, Algorithm, Held, LockOptions, LockTable, PhaseHook};
use base::units::LengthRange;

pub const ABOUT: About = About {
    name: "perfect",
    called: "The perfect lock",
    granted_by_controller: true,
    expires: false,
    ..About::OF_ITS_OWN
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfectOptions {
    /// How long to wait before the next attempt, drawn each time.
    pub retry_delay: LengthRange,
    /// The number of clients to which the controller grants it at once; None for the workload's `permits`. A larger number makes
    /// a broken lock, to test that the checker finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<u32>,
}

impl LockTable for PerfectOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        Ok(LockOptions { retry_delay_ms: Some(range(self.retry_delay, ttl)?), ..LockOptions::default() })
    }

    fn holders(&self) -> Option<u32> {
        self.holders
    }

    fn describe(&self) -> String {
        format!(": granted by the controller, retry after {}", self.retry_delay)
    }
}

/// Grants the lock of one key to one client.
pub trait Grantor: Send + Sync {
    /// Asks for the lock: true if it was free and the client now holds it.
    fn ask(&self) -> impl Future<Output = Result<bool, String>> + Send;

    fn give_back(&self) -> impl Future<Output = ()> + Send;
}

impl<G: Grantor> Grantor for Arc<G> {
    fn ask(&self) -> impl Future<Output = Result<bool, String>> + Send {
        G::ask(self)
    }

    fn give_back(&self) -> impl Future<Output = ()> + Send {
        G::give_back(self)
    }
}

pub struct Perfect<G> {
    pub grantor: G,
}

#[async_trait]
impl<G: Grantor> Algorithm for Perfect<G> {
    async fn attempt(&self, _: &str, _: &dyn PhaseHook) -> Result<Held, String> {
        match self.grantor.ask().await? {
            true => Ok(Held { mark: String::new(), validity: None, votes: Vec::new(), token: None }),
            false => Err("held by another client".to_string()),
        }
    }

    async fn release(&self, _: &str, _: &Held, _: &dyn PhaseHook) {
        self.grantor.give_back().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::fake::Nobody;
    use super::*;

    /// True if the lock is held.
    struct HeldTable(Mutex<bool>);

    impl Grantor for &HeldTable {
        async fn ask(&self) -> Result<bool, String> {
            Ok(std::mem::take(&mut *self.0.lock().unwrap()))
        }

        async fn give_back(&self) {
            *self.0.lock().unwrap() = true;
        }
    }

    #[tokio::test]
    async fn it_is_held_by_one_until_it_is_given_back() {
        let table = HeldTable(Mutex::new(true));
        let lock = Perfect { grantor: &table };
        let held = lock.attempt("k", &Nobody).await.unwrap();
        assert_eq!(held.validity, None);
        assert_eq!(lock.attempt("k", &Nobody).await, Err("held by another client".into()));
        lock.release("k", &held, &Nobody).await;
        assert!(lock.attempt("k", &Nobody).await.is_ok());
    }
}
