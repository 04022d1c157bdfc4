//! The locks under test, one file each.
//!
//! A lock is an [`Algorithm`], written against small traits: what it may ask of a Redis node ([`Node`]), of time
//! ([`Clock`]), and, if contenders talk to each other, of their mail ([`Mail`]). So the same code runs against real
//! servers and in virtual time. Nothing below it retries a request: one that timed out may have been carried out, and
//! only the algorithm knows what that means.
//!
//! Locks of systems other than Redis have a trait in their own file for what they ask of it.
//!
//! A new lock is a file with its algorithm, a variant of [`LockSpec`] with its options, and a line in
//! [`Lock::from_settings`].

mod algorithm;
mod clock;
pub mod etcd;
pub mod fenced;
mod holding;
pub mod incr;
mod mail;
mod node;
pub mod paired_token;
pub mod perfect;
pub mod redlock;
pub mod redlock_tokens;
pub mod setnx_expire;
mod settings;
pub mod single;
pub mod single_constant;
pub mod single_get_del;
mod spec;
pub mod steal;
pub mod zookeeper;

use std::time::Duration;

pub use algorithm::{Algorithm, Held, PhaseHook, Token};
pub use clock::Clock;
pub use holding::{Holding, Renewal};
pub use mail::Mail;
pub use node::{NoAnswer, Node, RequestError};
pub use settings::{LockGroup, LockOptions, LockSettings};
pub use spec::{
    Ask, ClockSource, LockSpec, NoOptions, NodeOptions, PerfectOptions, RedlockOptions, ReleaseOn, SingleOptions,
    StealOptions,
};

use algorithm::AnyAlgorithm;
use fenced::Fenced;
use incr::Incr;
use node::all;
use paired_token::PairedToken;
use redlock::Redlock;
use redlock_tokens::RedlockTokens;
use setnx_expire::SetnxExpire;
use single::Single;
use single_constant::SingleConstant;
use single_get_del::SingleGetDel;
use steal::Steal;

/// Why a lock was not acquired. The caller certainly does not hold it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not acquired within {} ({attempts} attempts; the last: {last})", humantime::format_duration(*.within))]
pub struct NotAcquired {
    pub within: Duration,
    pub attempts: u32,
    pub last: String,
}

/// Any lock of this crate, ready to be acquired.
pub struct Lock<C> {
    /// `None` is no lock at all: everybody always holds it.
    algorithm: Option<Box<dyn AnyAlgorithm>>,
    clock: C,
    /// Bounds of the wait between attempts.
    retry_delay: (Duration, Duration),
    /// Whether a holder checks its validity again before it writes.
    recheck: bool,
    /// How often a holder renews the lock.
    renew_every: Option<Duration>,
}

impl<C: Clock> Lock<C> {
    /// Builds the lock that the settings name, within a runtime; the error says what is missing or unknown. Only locks
    /// whose contenders talk to each other use the mail.
    pub fn from_settings<N: Node + 'static>(
        settings: &LockSettings,
        nodes: Vec<N>,
        clock: C,
        mail: impl Mail,
    ) -> Result<Lock<C>, String> {
        let LockSettings { name, options, .. } = settings;
        let ttl = Duration::from_millis(settings.ttl_ms);
        let mut nodes = nodes.into_iter();
        let mut node = || nodes.next().ok_or_else(|| format!("lock {name} needs a node"));
        let algorithm: Box<dyn AnyAlgorithm> = match name.as_str() {
            "none" => {
                let never = (Duration::ZERO, Duration::ZERO);
                return Ok(Lock { algorithm: None, clock, retry_delay: never, recheck: false, renew_every: None });
            }
            "single" => {
                let wait = options.wait_replicas.unwrap_or(0);
                Box::new(Single { node: node()?, clock: clock.clone(), ttl, wait })
            }
            "setnx-expire" => Box::new(SetnxExpire { node: node()?, clock: clock.clone(), ttl }),
            "incr" => Box::new(Incr { node: node()?, clock: clock.clone(), ttl, retry_delay: settings.retry_delay()? }),
            "single-constant" => Box::new(SingleConstant { node: node()?, clock: clock.clone(), ttl }),
            "single-get-del" => Box::new(SingleGetDel { node: node()?, clock: clock.clone(), ttl }),
            "fenced" => Box::new(Fenced { node: node()?, clock: clock.clone(), ttl }),
            "paired-token" => Box::new(PairedToken { node: node()?, clock: clock.clone(), ttl }),
            "redlock" => Box::new(Redlock::from_settings(settings, nodes.collect(), clock.clone())?),
            "redlock-tokens" => {
                Box::new(RedlockTokens { redlock: Redlock::from_settings(settings, nodes.collect(), clock.clone())? })
            }
            "steal" => {
                let redlock = Redlock::from_settings(settings, nodes.collect(), clock.clone())?;
                let factor = options.stolen_consistency_factor;
                let factor = factor.ok_or_else(|| format!("lock {name} needs `stolen_consistency_factor`"))?;
                Box::new(Steal::new(redlock, options.priority.unwrap_or(0), factor, mail))
            }
            other => {
                return Err(format!(
                    "unknown lock `{other}`; this client knows etcd, fenced, incr, none, paired-token, perfect, redlock, \
                     redlock-tokens, setnx-expire, single, single-constant, single-get-del, steal and \
                     zookeeper"
                ));
            }
        };
        Lock::of(algorithm, settings, clock)
    }

    /// A lock of a system other than Redis.
    pub fn elsewhere<A: Algorithm + 'static>(
        algorithm: A,
        settings: &LockSettings,
        clock: C,
    ) -> Result<Lock<C>, String> {
        Lock::of(Box::new(algorithm), settings, clock)
    }

    fn of(algorithm: Box<dyn AnyAlgorithm>, settings: &LockSettings, clock: C) -> Result<Lock<C>, String> {
        Ok(Lock {
            algorithm: Some(algorithm),
            clock,
            retry_delay: settings.retry_delay()?,
            recheck: settings.options.recheck.unwrap_or(false),
            renew_every: settings.options.renew_every_ms.map(Duration::from_millis),
        })
    }

    /// Tries to acquire until `within` has passed, with a random delay between attempts. Returns `None` as the held
    /// lock if there is no lock.
    pub async fn acquire<'a>(
        &'a self,
        key: &'a str,
        within: Duration,
        hook: &dyn PhaseHook,
    ) -> Result<Option<Holding<'a, C>>, NotAcquired> {
        let Some(algorithm) = &self.algorithm else { return Ok(None) };
        let deadline = self.clock.now() + within;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match algorithm.attempt(key, hook).await {
                Ok(held) => return Ok(Some(Holding::new(self, key, held))),
                Err(last) => {
                    let pause = self.clock.draw(self.retry_delay);
                    if self.clock.now() + pause >= deadline {
                        return Err(NotAcquired { within, attempts, last });
                    }
                    self.clock.sleep(pause).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod fake;
