//! The locks under test, one file each.
//!
//! A lock is an [`Algorithm`], written against small traits for requests to a Redis node ([`Node`]), time ([`Clock`]) and mail
//! between contenders ([`Mail`]). So the same code runs against real servers and in virtual time. These traits never retry a
//! request: a node may have executed a request that timed out, and only the algorithm knows what that means.
//!
//! Locks of systems other than Redis have a trait in their own file for their requests.
//!
//! To add a lock, add a file with its algorithm, facts ([`About`]) and settings, and a line in the list below.

mod about;
mod algorithm;
mod clock;
pub mod etcd;
pub mod fenced;
pub mod forever;
mod holding;
pub mod incr;
mod library;
mod mail;
#[cfg(debug_assertions)]
pub mod mutants;
mod node;
mod none;
mod one_node;
pub mod paired_token;
pub mod perfect;
mod postgres;
pub mod redlock;
pub mod redlock_tokens;
pub mod setnx_expire;
mod settings;
pub mod single;
pub mod single_constant;
pub mod single_get_del;
pub mod single_ifeq;
mod spec;
pub mod steal;
pub mod zookeeper;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use about::{About, LockTable, NodeOptions};
pub use algorithm::{Algorithm, Held, PhaseHook, Token};
pub use clock::Clock;
pub use holding::{Holding, Renewal};
pub use library::LibraryOptions;
pub use mail::Mail;
pub use node::{CompareAndDelete, NoAnswer, Node, RequestError};
pub use none::NoOptions;
pub use perfect::PerfectOptions;
pub use redlock::{Ask, ClockSource, RedlockOptions, ReleaseOn};
pub use settings::{LockOptions, LockSettings};
pub use single::SingleOptions;
pub use single_ifeq::SingleIfeqOptions;
pub use steal::StealOptions;

use node::all;
use one_node::OneNode;

spec::locks! {
    /// No lock at all.
    None(NoOptions): none;
    /// [`perfect`]
    Perfect(PerfectOptions): perfect;
    /// [`single`]
    Single(SingleOptions): single => single::build;
    /// [`setnx_expire`]
    SetnxExpire(NodeOptions): setnx_expire => OneNode::<_, _, setnx_expire::SetnxExpire>::build;
    /// [`forever`]
    Forever(NodeOptions): forever => OneNode::<_, _, forever::Forever>::build;
    /// [`incr`]
    Incr(NodeOptions): incr => incr::build;
    /// [`single_constant`]
    SingleConstant(NodeOptions): single_constant => OneNode::<_, _, single_constant::SingleConstant>::build;
    /// [`single_get_del`]
    SingleGetDel(NodeOptions): single_get_del => OneNode::<_, _, single_get_del::SingleGetDel>::build;
    /// [`single_ifeq`]
    SingleIfeq(SingleIfeqOptions): single_ifeq => single_ifeq::build;
    /// [`fenced`]
    Fenced(NodeOptions): fenced => OneNode::<_, _, fenced::Fenced>::build;
    /// [`paired_token`]
    PairedToken(NodeOptions): paired_token => OneNode::<_, _, paired_token::PairedToken>::build;
    /// [`redlock`]
    Redlock(RedlockOptions): redlock => redlock::build;
    /// [`redlock_tokens`]
    RedlockTokens(RedlockOptions): redlock_tokens => redlock_tokens::build;
    /// [`steal`]
    Steal(StealOptions): steal => steal::build;
    /// [`etcd`]
    Etcd(NodeOptions): etcd;
    /// [`zookeeper`]
    Zookeeper(NodeOptions): zookeeper;
    /// `SELECT … FOR UPDATE` of the row that is the resource; the client locks and writes in one transaction.
    Postgres(NodeOptions): postgres;
    /// A lock in the workload's own client.
    Library(LibraryOptions): library;
}

struct LockParts<'a, N, C, M> {
    settings: &'a LockSettings,
    nodes: Vec<N>,
    clock: C,
    mail: M,
}

impl<N, C, M> LockParts<'_, N, C, M> {
    /// The only node of the lock. The error says that there is none.
    fn node(&mut self) -> Result<N, String> {
        let nodes = std::mem::take(&mut self.nodes);
        nodes.into_iter().next().ok_or_else(|| format!("lock {} needs a node", self.settings.name))
    }
}

/// The names of the locks that pass the test, as a phrase: `a, b and c`.
pub fn names(wanted: impl Fn(&About) -> bool) -> String {
    let mut names: Vec<&str> = ALL.iter().filter(|about| wanted(about)).map(|about| about.name).collect();
    names.sort_unstable();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

fn unknown(name: &str) -> String {
    let apart = |about: &About| about.name != library::ABOUT.name && !about.program.keeps_resource();
    format!("unknown lock `{name}`; this client knows {}", names(apart))
}

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
    /// `None` means no lock at all: every client always holds it.
    algorithm: Option<Box<dyn Algorithm>>,
    clock: C,
    /// Bounds of the wait between attempts.
    retry_delay: (Duration, Duration),
    /// True if a holder checks its validity again before it writes.
    recheck: bool,
    /// True if that check asks the nodes.
    asks: bool,
    /// How often a holder renews the lock.
    renew_every: Option<Duration>,
    /// How much longer a holder works that renews the lock itself; None if the lock is renewed in the background or never.
    extends: Option<Duration>,
}

impl<C: Clock> Lock<C> {
    /// Builds the lock that the settings name; needs a runtime. The error says what is missing or unknown. Only locks whose
    /// contenders talk to each other use the mail.
    pub fn from_settings<N: Node + 'static>(
        settings: &LockSettings,
        nodes: Vec<N>,
        clock: C,
        mail: impl Mail,
    ) -> Result<Lock<C>, String> {
        if settings.name == none::ABOUT.name {
            let never = (Duration::ZERO, Duration::ZERO);
            return Ok(Lock {
                algorithm: None,
                clock,
                retry_delay: never,
                recheck: false,
                asks: false,
                renew_every: None,
                extends: None,
            });
        }
        #[cfg(debug_assertions)]
        let nodes = nodes.into_iter().map(mutants::MutatedNode).collect();
        let of_algorithm = clock.clone();
        #[cfg(debug_assertions)]
        let of_algorithm = mutants::MutatedClock(of_algorithm);
        let algorithm = build(LockParts { settings, nodes, clock: of_algorithm, mail })?;
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

    fn of(algorithm: Box<dyn Algorithm>, settings: &LockSettings, clock: C) -> Result<Lock<C>, String> {
        #[cfg(debug_assertions)]
        let algorithm = Box::new(mutants::Mutated { right: algorithm, clock: clock.clone() });
        Ok(Lock {
            algorithm: Some(algorithm),
            clock,
            retry_delay: settings.retry_delay()?,
            recheck: settings.options.recheck.unwrap_or(false),
            asks: settings.options.asks.unwrap_or(false),
            renew_every: settings.options.renew_every_ms.map(Duration::from_millis),
            extends: (settings.options.extends == Some(true) && settings.options.renew_every_ms.is_some())
                .then_some(Duration::from_millis(settings.ttl_ms)),
        })
    }

    /// Tries to acquire, with a random delay between attempts, until `within` has passed or the hook is cancelled. Returns `None`
    /// as the held lock if there is no lock.
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
                    if self.clock.now() + pause >= deadline || hook.is_cancelled() {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_that_is_about_a_lock_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/locks");
        let listed: BTreeSet<String> = ALL.iter().map(|about| about.name.to_string()).collect();
        assert_eq!(listed.len(), ALL.len(), "each name once");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if std::fs::read_to_string(&path).unwrap().contains("const ABOUT: About =") {
                found.insert(path.file_stem().unwrap().to_str().unwrap().replace('_', "-"));
            }
        }
        found.remove("mod");
        assert_eq!(
            listed, found,
            "a lock's file has its name, and its line in the list of crates/model/src/locks/mod.rs"
        );
    }

    #[test]
    fn names_are_told_in_a_sentence() {
        assert_eq!(names(|about| about.tokens), "etcd, fenced, paired-token, redlock-tokens and zookeeper");
        assert_eq!(names(|about| about.steals), "steal");
        assert_eq!(names(|_| false), "");
    }
}
