//! etcd: a key that exists as long as its lease. A transaction creates it only if it is absent.
//!
//! Source: etcd's documentation of leases and transactions. The servers agree on every step, so the lock survives the failure of
//! a minority of them. But the servers cannot know if its holder still runs. A holder that stops for longer than its lease loses
//! the key without noticing (Kleppmann 2016). The revision at which the key was created is greater than that of any earlier lock.
//! It is a fencing token, by which a resource can tell such a holder.
//!
//! The lock never renews a lease; the lease has the TTL of the lock.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;

use super::{About, Algorithm, Clock, Held, NoAnswer, PhaseHook, Token};
use crate::topology::Program;

pub const ABOUT: About = About {
    name: "etcd",
    called: "The lock in etcd",
    program: Program::Etcd,
    whole_seconds: true,
    tokens: true,
    ..About::OF_ITS_OWN
};

/// Requests of the lock to etcd. The implementation limits the time of each request.
pub trait Leases: Send + Sync {
    /// Grants a new lease that expires by itself.
    fn grant(&self, ttl: Duration) -> impl Future<Output = Result<Lease, NoAnswer>> + Send;

    fn exists(&self, key: &str) -> impl Future<Output = Result<bool, NoAnswer>> + Send;

    /// Creates the key, attached to the lease, if it is absent. Returns its revision; `None` if the key was there.
    fn create(&self, key: &str, lease: i64) -> impl Future<Output = Result<Option<u64>, NoAnswer>> + Send;

    /// Ends a lease, and with it every key attached to it. No error if it has already ended.
    fn revoke(&self, lease: i64) -> impl Future<Output = Result<(), NoAnswer>> + Send;
}

/// A lease as the servers granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: i64,
    /// How long it lives; may be longer than requested.
    pub ttl: Duration,
}

pub struct Etcd<L, C> {
    pub leases: L,
    pub clock: C,
    pub ttl: Duration,
}

#[async_trait]
impl<L: Leases, C: Clock> Algorithm for Etcd<L, C> {
    async fn attempt(&self, key: &str, _: &dyn PhaseHook) -> Result<Held, String> {
        // A read is cheap; all servers agree on a lease and write it to their disks.
        if self.leases.exists(key).await.map_err(|error| error.to_string())? {
            return Err("held by another client".into());
        }
        let start = self.clock.now();
        let lease = self.leases.grant(self.ttl).await.map_err(|error| error.to_string())?;
        let mut held = Held::on_one_node(lease.id.to_string(), lease.ttl);
        let taken = match self.leases.create(key, lease.id).await {
            Ok(Some(number)) => {
                held.token = Some(Token { number, minor: None });
                held.since(&self.clock, start)
            }
            Ok(None) => Err("another client was faster".to_string()),
            Err(error) => Err(error.to_string()),
        };
        if taken.is_err() {
            // Revokes even after an error, since the key may have been created. If this fails too, the lease expires by itself.
            let _ = self.leases.revoke(lease.id).await;
        }
        taken.map(|()| held)
    }

    async fn release(&self, _: &str, held: &Held, _: &dyn PhaseHook) {
        if let Ok(lease) = held.mark.parse() {
            let _ = self.leases.revoke(lease).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::fake::{FakeClock, Nobody};
    use super::*;

    /// The answer of a fake etcd to the transaction.
    #[derive(Clone, Copy)]
    enum Create {
        Made { after_ms: u64 },
        Exists,
        Silent,
    }

    struct FakeEtcd {
        taken: bool,
        create: Create,
        clock: FakeClock,
        granted: Mutex<Vec<i64>>,
        revoked: Mutex<Vec<i64>>,
    }

    impl Leases for FakeEtcd {
        async fn grant(&self, ttl: Duration) -> Result<Lease, NoAnswer> {
            let mut granted = self.granted.lock().unwrap();
            granted.push(7);
            Ok(Lease { id: 7, ttl })
        }

        async fn exists(&self, _: &str) -> Result<bool, NoAnswer> {
            Ok(self.taken)
        }

        async fn create(&self, _: &str, lease: i64) -> Result<Option<u64>, NoAnswer> {
            assert_eq!(lease, 7);
            match self.create {
                Create::Made { after_ms } => {
                    self.clock.sleep(Duration::from_millis(after_ms)).await;
                    Ok(Some(33))
                }
                Create::Exists => Ok(None),
                Create::Silent => Err(NoAnswer("no answer within 500ms".into())),
            }
        }

        async fn revoke(&self, lease: i64) -> Result<(), NoAnswer> {
            self.revoked.lock().unwrap().push(lease);
            Ok(())
        }
    }

    fn lock(taken: bool, create: Create) -> Etcd<FakeEtcd, FakeClock> {
        let clock = FakeClock::default();
        let leases =
            FakeEtcd { taken, create, clock: clock.clone(), granted: Mutex::default(), revoked: Mutex::default() };
        Etcd { leases, clock, ttl: Duration::from_secs(1) }
    }

    #[tokio::test]
    async fn a_free_key_is_the_lock_and_its_revision_the_token() {
        let lock = lock(false, Create::Made { after_ms: 30 });
        let held = lock.attempt("k", &Nobody).await.unwrap();
        let token = Some(Token { number: 33, minor: None });
        assert_eq!((held.token, held.validity), (token, Some(Duration::from_millis(970))));
        assert!(lock.leases.revoked.lock().unwrap().is_empty());
        lock.release("k", &held, &Nobody).await;
        assert_eq!(*lock.leases.revoked.lock().unwrap(), [7]);
    }

    #[tokio::test]
    async fn a_key_that_exists_costs_no_lease() {
        let lock = lock(true, Create::Exists);
        assert_eq!(lock.attempt("k", &Nobody).await, Err("held by another client".into()));
        assert!(lock.leases.granted.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn whatever_else_happens_the_lease_is_ended() {
        for create in [Create::Made { after_ms: 1000 }, Create::Exists, Create::Silent] {
            let lock = lock(false, create);
            assert!(lock.attempt("k", &Nobody).await.is_err());
            assert_eq!(*lock.leases.revoked.lock().unwrap(), [7], "it may have made the key");
        }
    }
}
