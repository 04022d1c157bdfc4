//! What every lock of this crate has: a way to try, a way to give up, and, for some, a way to hold on.

use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Clock;
use crate::mutants::planted;

/// A lock algorithm over its own nodes.
pub trait Algorithm: Send + Sync {
    /// Tries once. The error says why it failed. Nothing is held then, and the algorithm has taken back what it could
    /// from the nodes.
    fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> impl Future<Output = Result<Held, String>> + Send;

    /// Gives up what was acquired; if the release fails, the rest is left to the TTL, if there is one.
    fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook) -> impl Future<Output = ()> + Send;

    /// Extends what was acquired by another TTL. Returns the new validity; the error says why the lock is no longer
    /// held.
    fn renew(&self, key: &str, held: &Held) -> impl Future<Output = Result<Duration, String>> + Send {
        let _ = (key, held);
        async { Err("this lock can't be renewed".to_string()) }
    }

    /// Resolves with the reason once the lock has been taken from its holder; never, if its holder would not be told.
    fn taken(&self, held: &Held) -> impl Future<Output = String> + Send {
        let _ = held;
        std::future::pending()
    }

    /// The holder knows that its lock was taken, and no longer acts on it.
    fn let_go(&self, held: &Held) -> impl Future<Output = ()> + Send {
        let _ = held;
        async {}
    }

    /// Asks whether the lock is still held. The error says why it is not, or that nobody said so.
    fn ask(&self, key: &str, held: &Held) -> impl Future<Output = Result<(), String>> + Send {
        let _ = (key, held);
        async { Ok(()) }
    }

    /// The holder is about to write, and can't be stopped from here on. The error says why it must not write.
    fn may_act(&self, held: &Held) -> Result<(), String> {
        let _ = held;
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
pub trait PhaseHook: Send + Sync {
    /// The lock has been taken, and something that belongs to it is still missing.
    fn half_acquired(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Whether whoever asked for the lock has no use for it any more.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// The release has looked, but has not acted yet.
    fn half_released(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
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

/// [`Algorithm`] as a trait object.
pub(super) trait AnyAlgorithm: Send + Sync {
    fn attempt<'a>(&'a self, key: &'a str, hook: &'a dyn PhaseHook) -> BoxFuture<'a, Result<Held, String>>;
    fn release<'a>(&'a self, key: &'a str, held: &'a Held, hook: &'a dyn PhaseHook) -> BoxFuture<'a, ()>;
    fn renew<'a>(&'a self, key: &'a str, held: &'a Held) -> BoxFuture<'a, Result<Duration, String>>;
    fn taken<'a>(&'a self, held: &'a Held) -> BoxFuture<'a, String>;
    fn let_go<'a>(&'a self, held: &'a Held) -> BoxFuture<'a, ()>;
    fn ask<'a>(&'a self, key: &'a str, held: &'a Held) -> BoxFuture<'a, Result<(), String>>;
    fn may_act(&self, held: &Held) -> Result<(), String>;
}

impl<A: Algorithm> AnyAlgorithm for A {
    fn attempt<'a>(&'a self, key: &'a str, hook: &'a dyn PhaseHook) -> BoxFuture<'a, Result<Held, String>> {
        Box::pin(Algorithm::attempt(self, key, hook))
    }

    fn release<'a>(&'a self, key: &'a str, held: &'a Held, hook: &'a dyn PhaseHook) -> BoxFuture<'a, ()> {
        Box::pin(Algorithm::release(self, key, held, hook))
    }

    fn renew<'a>(&'a self, key: &'a str, held: &'a Held) -> BoxFuture<'a, Result<Duration, String>> {
        Box::pin(Algorithm::renew(self, key, held))
    }

    fn taken<'a>(&'a self, held: &'a Held) -> BoxFuture<'a, String> {
        Box::pin(Algorithm::taken(self, held))
    }

    fn let_go<'a>(&'a self, held: &'a Held) -> BoxFuture<'a, ()> {
        Box::pin(Algorithm::let_go(self, held))
    }

    fn ask<'a>(&'a self, key: &'a str, held: &'a Held) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(Algorithm::ask(self, key, held))
    }

    fn may_act(&self, held: &Held) -> Result<(), String> {
        Algorithm::may_act(self, held)
    }
}
