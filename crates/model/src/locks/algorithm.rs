//! The interface of every lock of this crate: an attempt to acquire, a release and, for some locks, a renewal.

use std::time::Duration;

use async_trait::async_trait;

use super::Clock;
use base::mutants::planted;

/// A lock algorithm over its own nodes.
#[async_trait]
pub trait Algorithm: Send + Sync {
    /// Tries once to acquire. The error says why it failed. Then the client holds nothing, and the algorithm has removed from the
    /// nodes what it could.
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String>;

    /// Releases an acquired lock. If the release fails, the rest is left to the TTL, if there is one.
    async fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook);

    /// Extends an acquired lock by another TTL. Returns the new validity. The error says why the lock is no longer held.
    async fn renew(&self, _key: &str, _held: &Held) -> Result<Duration, String> {
        Err("this lock can't be renewed".to_string())
    }

    /// Resolves with the reason once another client has acquired the lock from its holder. Never resolves if the holder would not
    /// learn of it.
    async fn taken(&self, _held: &Held) -> String {
        std::future::pending().await
    }

    /// The holder knows that another client has acquired the lock, and no longer acts on it.
    async fn let_go(&self, _held: &Held) {}

    /// Asks if the lock is still held. The error says why it is not, or that there was no answer.
    async fn ask(&self, _key: &str, _held: &Held) -> Result<(), String> {
        Ok(())
    }

    /// The holder is about to write, and can't be stopped from here on. The error says why it must not write.
    fn may_act(&self, _held: &Held) -> Result<(), String> {
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value that marks this acquisition on the nodes.
    pub mark: String,
    /// How much longer the algorithm promises exclusion, computed when the last reply arrived; `None` if it promises it until the
    /// release.
    pub validity: Option<Duration>,
    /// For each node, whether it granted the lock, if there are several nodes.
    pub votes: Vec<bool>,
    /// A token by which the resource can tell this acquisition from others.
    pub token: Option<Token>,
}

/// A fencing token (Kleppmann 2016): a number meant to grow with each acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub number: u64,
    /// For a paired token: the first number whose holder never released the lock and may still be about to write.
    pub minor: Option<u64>,
}

/// Called inside an acquisition or a release that takes more than one step: the best times for a fault. The algorithm continues
/// when the hook returns, by default at once.
#[async_trait]
pub trait PhaseHook: Send + Sync {
    /// The lock is acquired, but a further step of the acquisition is still missing.
    async fn half_acquired(&self) {}

    /// True if the caller no longer wants the lock.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// The release has checked the owner, but has not acted yet.
    async fn half_released(&self) {}
}

impl Held {
    pub(super) fn on_one_node(mark: String, validity: Duration) -> Held {
        Held { mark, validity: Some(validity), votes: Vec::new(), token: None }
    }

    /// Subtracts the time since the acquisition began. The error says that no validity is left.
    pub(super) fn since(&mut self, clock: &impl Clock, start: Duration) -> Result<(), String> {
        let Some(validity) = &mut self.validity else { return Ok(()) };
        *validity = validity.saturating_sub(clock.now().saturating_sub(start));
        if validity.is_zero() && !planted("attempt.elapsed-unchecked") {
            Err("the reply took longer than the TTL".to_string())
        } else {
            Ok(())
        }
    }
}
