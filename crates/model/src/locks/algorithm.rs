//! What every lock of this crate has: a way to try, a way to give up, and, for some, a way to hold on.

use std::time::Duration;

use async_trait::async_trait;

use super::Clock;
use base::mutants::planted;

/// A lock algorithm over its own nodes.
#[async_trait]
pub trait Algorithm: Send + Sync {
    /// Tries once. The error says why it failed. Nothing is held then, and the algorithm has taken back what it could
    /// from the nodes.
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String>;

    /// Gives up what was acquired; if the release fails, the rest is left to the TTL, if there is one.
    async fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook);

    /// Extends what was acquired by another TTL. Returns the new validity; the error says why the lock is no longer
    /// held.
    async fn renew(&self, _key: &str, _held: &Held) -> Result<Duration, String> {
        Err("this lock can't be renewed".to_string())
    }

    /// Resolves with the reason once the lock has been taken from its holder; never, if its holder would not be told.
    async fn taken(&self, _held: &Held) -> String {
        std::future::pending().await
    }

    /// The holder knows that its lock was taken, and no longer acts on it.
    async fn let_go(&self, _held: &Held) {}

    /// Asks whether the lock is still held. The error says why it is not, or that nobody said so.
    async fn ask(&self, _key: &str, _held: &Held) -> Result<(), String> {
        Ok(())
    }

    /// The holder is about to write, and can't be stopped from here on. The error says why it must not write.
    fn may_act(&self, _held: &Held) -> Result<(), String> {
        Ok(())
    }
}

/// A lock that was acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value that marks this acquisition on the nodes.
    pub mark: String,
    /// How much longer the algorithm promises exclusion, computed when the last reply was in hand; `None` if it
    /// promises it until the release.
    pub validity: Option<Duration>,
    /// Which nodes said yes, if there are several.
    pub votes: Vec<bool>,
    /// How the resource can tell this acquisition from others.
    pub token: Option<Token>,
}

/// A fencing token (Kleppmann 2016): a number meant to grow with each acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub number: u64,
    /// For a paired token: the first number whose holder never released the lock and may still be about to write.
    pub minor: Option<u64>,
}

/// Is told of the moments inside an acquisition or a release that takes more than one step: the moments to break it.
/// The algorithm continues when the hook returns, by default at once.
#[async_trait]
pub trait PhaseHook: Send + Sync {
    /// The lock has been taken, and something that belongs to it is still missing.
    async fn half_acquired(&self) {}

    /// Whether whoever asked for the lock has no use for it any more.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// The release has looked, but has not acted yet.
    async fn half_released(&self) {}
}

impl Held {
    /// Held on one node.
    pub(super) fn on_one_node(mark: String, validity: Duration) -> Held {
        Held { mark, validity: Some(validity), votes: Vec::new(), token: None }
    }

    /// Subtracts the time since acquiring began. The error says that nothing is left.
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
