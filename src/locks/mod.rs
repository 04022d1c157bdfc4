//! The locks under test, one file each.
//!
//! A lock is written against two small traits, what it may ask of a Redis node ([`Node`]) and of time ([`Clock`]), so
//! that the same code runs against real servers and in virtual time. It never retries a request by itself: a request
//! that timed out may have been carried out, and only the algorithm knows what that means.

mod redlock;
mod single;

use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use redlock::Redlock;
pub use single::Single;

/// What a lock may ask of one Redis node. Each request is bounded in time by the implementation.
pub trait Node: Send + Sync {
    /// `SET key value NX PX ttl`: whether the key was absent and is now set.
    fn set_if_absent(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, RequestError>> + Send;

    /// Deletes the key if it holds the value, atomically: whether it did.
    fn delete_if_equals(&self, key: &str, value: &str) -> impl Future<Output = Result<bool, RequestError>> + Send;
}

/// Why a request brought no answer that could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It certainly was not carried out: nothing was sent, or the server refused it.
    #[error("not carried out: {0}")]
    NotDone(String),
    /// It may have been carried out, may yet be, or never will.
    #[error("no answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The connection broke with the request under way: as uncertain as a timeout.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
}

/// Time as a lock sees it, and the randomness of its waits.
pub trait Clock: Send + Sync {
    /// A reading of the clock. Only differences mean anything; where it is the time of day, later ones may be smaller.
    fn now(&self) -> Duration;

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> + Send;

    /// A length drawn evenly from the range, both ends included.
    fn draw(&self, range: (Duration, Duration)) -> Duration;
}

/// A lock that was acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The random value that marks this acquisition on the nodes.
    pub mark: String,
    /// How much longer the algorithm promises exclusion, reckoned when the last reply was in hand.
    pub validity: Duration,
    /// Which nodes said yes, where there are several.
    pub votes: Vec<bool>,
}

/// Why a lock was not acquired. Certain: the caller does not hold it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not acquired within {} ({attempts} attempts; the last: {last})", humantime::format_duration(*.within))]
pub struct NotAcquired {
    pub within: Duration,
    pub attempts: u32,
    pub last: String,
}

/// A lock by its name in the catalogue, with every length resolved; the `lock` of the protocol's `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockSettings {
    pub name: String,
    pub ttl_ms: u64,
    /// The lock's nodes as `redis://` URLs.
    pub nodes: Vec<String>,
    pub options: LockOptions,
}

/// Options of every lock; a lock ignores what it has no use for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockOptions {
    /// How long one request to one node may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_timeout_ms: Option<u64>,
    /// Bounds of the wait between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<(u64, u64)>,
    /// Part of the TTL that clocks may drift apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_factor: Option<f64>,
    /// Whether nodes are asked one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<bool>,
    /// Whether the time that asking took is left out of account, which it must not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<bool>,
    /// Whether the client reckons by the time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock: Option<bool>,
    /// Whether only nodes that said yes are told of a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_acquired: Option<bool>,
}

/// Any lock of this crate over nodes of type `N` and a clock of type `C`.
pub enum Lock<N, C> {
    /// No lock at all: everybody holds it always.
    None,
    Single(Single<N, C>),
    Redlock(Redlock<N, C>),
}

impl<N: Node, C: Clock> Lock<N, C> {
    /// Builds the lock that the settings name; an error names what is missing or unknown.
    pub fn from_settings(settings: &LockSettings, nodes: Vec<N>, clock: C) -> Result<Lock<N, C>, String> {
        let ttl = Duration::from_millis(settings.ttl_ms);
        let millis = |(low, high): (u64, u64)| (Duration::from_millis(low), Duration::from_millis(high));
        let retry_delay = settings.options.retry_delay_ms.map(millis);
        let need_delay = || retry_delay.ok_or_else(|| format!("lock {} needs `retry_delay_ms`", settings.name));
        match settings.name.as_str() {
            "none" => Ok(Lock::None),
            "single" => {
                let node = nodes.into_iter().next().ok_or("lock single needs a node")?;
                Ok(Lock::Single(Single { node, clock, ttl, retry_delay: need_delay()? }))
            }
            "redlock" if nodes.is_empty() => Err("lock redlock needs nodes".into()),
            "redlock" => Ok(Lock::Redlock(Redlock {
                nodes,
                clock,
                ttl,
                drift_factor: settings.options.drift_factor.ok_or("lock redlock needs `drift_factor`")?,
                sequential: settings.options.sequential.unwrap_or(false),
                retry_delay: need_delay()?,
                check_elapsed: !settings.options.unchecked.unwrap_or(false),
                release_on_all: !settings.options.release_acquired.unwrap_or(false),
            })),
            other => Err(format!("unknown lock `{other}`; this client knows none, single and redlock")),
        }
    }

    /// Tries to acquire until `within` has passed; `None` as the held lock where there is no lock.
    pub async fn acquire(&self, key: &str, within: Duration) -> Result<Option<Held>, NotAcquired> {
        match self {
            Lock::None => Ok(None),
            Lock::Single(lock) => retry(&lock.clock, lock.retry_delay, within, || lock.attempt(key)).await.map(Some),
            Lock::Redlock(lock) => retry(&lock.clock, lock.retry_delay, within, || lock.attempt(key)).await.map(Some),
        }
    }

    /// Releases what was acquired; a release that fails leaves the rest to the TTL.
    pub async fn release(&self, key: &str, held: &Held) {
        match self {
            Lock::None => {}
            Lock::Single(lock) => lock.release(key, &held.mark).await,
            Lock::Redlock(lock) => lock.release(key, held).await,
        }
    }
}

/// Attempts again after a random delay until one succeeds or the time is over.
async fn retry<C: Clock, A, F>(
    clock: &C,
    delay: (Duration, Duration),
    within: Duration,
    attempt: A,
) -> Result<Held, NotAcquired>
where
    A: Fn() -> F,
    F: Future<Output = Result<Held, String>>,
{
    let deadline = clock.now() + within;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match attempt().await {
            Ok(held) => return Ok(held),
            Err(last) => {
                let pause = clock.draw(delay);
                if clock.now() + pause >= deadline {
                    return Err(NotAcquired { within, attempts, last });
                }
                clock.sleep(pause).await;
            }
        }
    }
}

/// A value that no other acquisition has: 20 bytes from the system's secure source, as hexadecimal text.
///
/// # Panics
/// Where the operating system has no random source, without which no lock of this kind is a lock.
fn random_mark() -> String {
    let mut bytes = [0u8; 20];
    getrandom::fill(&mut bytes).expect("the operating system's random source");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod fake;
