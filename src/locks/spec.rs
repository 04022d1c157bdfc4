//! The `[lock.NAME]` table of a workload file: which lock, and its options.
//!
//! The vocabulary is closed, so that a typo gets a message that lists what was expected. Lengths may be given in TTLs;
//! [`LockSpec::options`] resolves them for the clients.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::LockOptions;
use crate::topology::Program;
use crate::units::{Length, LengthRange};

/// The lock under test, with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockSpec {
    /// No lock at all.
    None(NoOptions),
    /// [`super::perfect`]
    Perfect(PerfectOptions),
    /// [`super::single`]
    Single(SingleOptions),
    /// [`super::setnx_expire`]
    SetnxExpire(NodeOptions),
    /// [`super::incr`]
    Incr(NodeOptions),
    /// [`super::single_constant`]
    SingleConstant(NodeOptions),
    /// [`super::single_get_del`]
    SingleGetDel(NodeOptions),
    /// [`super::fenced`]
    Fenced(NodeOptions),
    /// [`super::paired_token`]
    PairedToken(NodeOptions),
    /// [`super::redlock`]
    Redlock(RedlockOptions),
    /// [`super::redlock_tokens`]
    RedlockTokens(RedlockOptions),
    /// [`super::steal`]
    Steal(StealOptions),
    /// [`super::etcd`]
    Etcd(NodeOptions),
    /// [`super::zookeeper`]
    Zookeeper(NodeOptions),
    /// `SELECT … FOR UPDATE` of the row that is the resource; the client does both in one transaction.
    Postgres(NodeOptions),
    /// A lock that the workload's own client brings.
    Library(LibraryOptions),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

/// Options of the lock that the controller grants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfectOptions {
    /// How long to wait before asking again, drawn each time.
    pub retry_delay: LengthRange,
}

/// What has to be known of a lock that is not ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryOptions {
    /// How long one request to one node may take, for libraries that can be told.
    pub node_timeout: Length,
    /// How long to wait before asking again, for libraries that can be told.
    pub retry_delay: LengthRange,
    /// Whether the lock runs out by itself.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub expires: bool,
    /// Whether each acquisition comes with a fencing token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tokens: bool,
}

/// Options of a lock on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOptions {
    /// How long one request to the node may take.
    pub node_timeout: Length,
    /// How long to wait before asking again, drawn each time.
    pub retry_delay: LengthRange,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleOptions {
    /// How long one request to the node may take.
    pub node_timeout: Length,
    /// How long to wait before asking again, drawn each time.
    pub retry_delay: LengthRange,
    /// How many replicas must acknowledge the lock before it counts as acquired (WAIT).
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedlockOptions {
    pub ask: Ask,
    /// How long one request to one node may take; far below the TTL.
    pub node_timeout: Length,
    /// Fraction of the TTL by which clocks may drift apart while the lock is held, such as 0.01.
    pub drift_factor: f64,
    /// How long to wait before asking again, drawn each time so that contenders fall out of step.
    pub retry_delay: LengthRange,
    /// Whether a majority that took longer than the lock is valid counts as none, as it should.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub check_elapsed: bool,
    /// The clock by which the client measures how long asking took.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock: ClockSource,
    /// Which nodes are told of a release.
    #[serde(default, skip_serializing_if = "is_default")]
    pub release: ReleaseOn,
    /// Whether the holder checks its remaining validity once more right before it writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recheck: bool,
    /// How often a holder renews its lock; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_every: Option<Length>,
}

/// Options of the lock that is stolen by priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StealOptions {
    /// How long one request to one node may take; far below the TTL.
    pub node_timeout: Length,
    /// Fraction of the TTL by which clocks may drift apart while the lock is held, such as 0.01.
    pub drift_factor: f64,
    /// How long to wait before asking again, drawn each time.
    pub retry_delay: LengthRange,
    /// The clients' priorities in the order of their numbers, repeated as needed: client 0 has the first one.
    pub priorities: Vec<u32>,
    /// Fraction of the TTL for which a thief waits for its victim's acknowledgement before it acts without one; from 0
    /// to 1, where 1 means that it never does.
    pub stolen_consistency_factor: f64,
    /// Whether the holder checks its remaining validity once more right before it writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recheck: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The clock that a lock's client reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// One that never jumps and runs evenly.
    #[default]
    Monotonic,
    /// The time of day, which somebody may set.
    Wall,
}

/// Which nodes are told of a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseOn {
    /// All of them, as the documentation says: a lost reply may have been a yes.
    #[default]
    All,
    /// Those that said yes.
    Acquired,
}

/// The order in which Redlock asks its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// All at once.
    Parallel,
    /// One after another.
    Sequential,
}

impl LockSpec {
    /// Its name in workload files and in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            LockSpec::None(_) => "none",
            LockSpec::Perfect(_) => "perfect",
            LockSpec::Single(_) => "single",
            LockSpec::SetnxExpire(_) => "setnx-expire",
            LockSpec::Incr(_) => "incr",
            LockSpec::SingleConstant(_) => "single-constant",
            LockSpec::SingleGetDel(_) => "single-get-del",
            LockSpec::Fenced(_) => "fenced",
            LockSpec::PairedToken(_) => "paired-token",
            LockSpec::Redlock(_) => "redlock",
            LockSpec::RedlockTokens(_) => "redlock-tokens",
            LockSpec::Etcd(_) => "etcd",
            LockSpec::Zookeeper(_) => "zookeeper",
            LockSpec::Postgres(_) => "postgres",
            LockSpec::Steal(_) => "steal",
            LockSpec::Library(_) => "library",
        }
    }

    /// Whether it is acquired in two steps, so that a client may stop half-way.
    pub fn has_halves(&self) -> bool {
        matches!(self, LockSpec::SetnxExpire(_) | LockSpec::RedlockTokens(_) | LockSpec::Steal(_))
    }

    /// Whether it has no nodes, since the controller grants it.
    pub fn is_granted_by_controller(&self) -> bool {
        matches!(self, LockSpec::Perfect(_))
    }

    /// Whether all it needs is one key on one node, so that it can be on any primary.
    pub fn is_on_one_key(&self) -> bool {
        match self {
            LockSpec::None(_)
            | LockSpec::Single(_)
            | LockSpec::SetnxExpire(_)
            | LockSpec::Incr(_)
            | LockSpec::SingleConstant(_)
            | LockSpec::SingleGetDel(_) => true,
            // It would have to find the primary by itself.
            LockSpec::Library(_) => false,
            LockSpec::Perfect(_)
            | LockSpec::Fenced(_)
            | LockSpec::PairedToken(_)
            | LockSpec::Redlock(_)
            | LockSpec::RedlockTokens(_)
            | LockSpec::Steal(_)
            | LockSpec::Etcd(_)
            | LockSpec::Zookeeper(_)
            | LockSpec::Postgres(_) => false,
        }
    }

    /// Whether it runs out by itself some time after it was taken or renewed.
    pub fn expires(&self) -> bool {
        match self {
            LockSpec::None(_) | LockSpec::Perfect(_) | LockSpec::Incr(_) | LockSpec::Postgres(_) => false,
            LockSpec::Library(options) => options.expires,
            _ => true,
        }
    }

    /// Whether a client may take it from its holder.
    pub fn steals(&self) -> bool {
        matches!(self, LockSpec::Steal(_))
    }

    /// Whether each acquisition comes with a fencing token.
    pub fn gives_tokens(&self) -> bool {
        matches!(
            self,
            LockSpec::Library(LibraryOptions { tokens: true, .. })
                | LockSpec::Fenced(_)
                | LockSpec::PairedToken(_)
                | LockSpec::RedlockTokens(_)
                | LockSpec::Etcd(_)
                | LockSpec::Zookeeper(_)
        )
    }

    /// What its nodes run.
    pub fn program(&self) -> Program {
        match self {
            LockSpec::Etcd(_) => Program::Etcd,
            LockSpec::Zookeeper(_) => Program::Zookeeper,
            LockSpec::Postgres(_) => Program::Postgres,
            _ => Program::Redis,
        }
    }

    /// The priority of a client, given its number, if the lock has priorities.
    pub fn priority_of(&self, client: u32) -> Option<u32> {
        let LockSpec::Steal(options) = self else { return None };
        options.priorities.iter().cycle().nth(client as usize % options.priorities.len().max(1)).copied()
    }

    /// The options as the clients get them, with every length resolved against the TTL. The error names the option and
    /// says what is allowed.
    pub fn options(&self, ttl: Duration) -> Result<LockOptions, String> {
        match self {
            LockSpec::None(_) => Ok(LockOptions::default()),
            LockSpec::Perfect(options) => {
                Ok(LockOptions { retry_delay_ms: Some(range(options.retry_delay, ttl)?), ..LockOptions::default() })
            }
            LockSpec::Single(SingleOptions { node_timeout, retry_delay, wait }) => {
                let options = NodeOptions { node_timeout: *node_timeout, retry_delay: *retry_delay };
                Ok(LockOptions { wait_replicas: (*wait > 0).then_some(*wait), ..options.resolve(ttl)? })
            }
            LockSpec::SetnxExpire(options)
            | LockSpec::Incr(options)
            | LockSpec::SingleConstant(options)
            | LockSpec::SingleGetDel(options)
            | LockSpec::Fenced(options)
            | LockSpec::PairedToken(options)
            | LockSpec::Zookeeper(options)
            | LockSpec::Postgres(options) => options.resolve(ttl),
            LockSpec::Etcd(options) => {
                if !ttl.as_millis().is_multiple_of(1000) {
                    let ttl = Length::Absolute(ttl);
                    return Err(format!("etcd's leases last whole seconds, so `--ttl {ttl}` is not possible"));
                }
                options.resolve(ttl)
            }
            LockSpec::Redlock(options) | LockSpec::RedlockTokens(options) => options.resolve(ttl),
            LockSpec::Steal(options) => options.resolve(ttl),
            LockSpec::Library(LibraryOptions { node_timeout, retry_delay, .. }) => {
                NodeOptions { node_timeout: *node_timeout, retry_delay: *retry_delay }.resolve(ttl)
            }
        }
    }
}

impl StealOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        if self.priorities.is_empty() {
            return Err("`priorities` is empty; name at least one, such as `[1, 2, 3]`".to_string());
        }
        if !(0.0..=1.0).contains(&self.stolen_consistency_factor) {
            let factor = self.stolen_consistency_factor;
            return Err(format!("`stolen_consistency_factor = {factor}` must be a part of the TTL, from 0 to 1"));
        }
        Ok(LockOptions {
            node_timeout_ms: Some(within_ttls("node_timeout", self.node_timeout, 10, ttl)?),
            retry_delay_ms: Some(range(self.retry_delay, ttl)?),
            drift_factor: Some(part_of_ttl(self.drift_factor)?),
            stolen_consistency_factor: Some(self.stolen_consistency_factor),
            recheck: self.recheck.then_some(true),
            ..LockOptions::default()
        })
    }
}

impl NodeOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        Ok(LockOptions {
            node_timeout_ms: Some(within_ttls("node_timeout", self.node_timeout, 10, ttl)?),
            retry_delay_ms: Some(range(self.retry_delay, ttl)?),
            ..LockOptions::default()
        })
    }
}

impl RedlockOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        let renew_every_ms = self.renew_every.map(|every| within_ttls("renew_every", every, 1, ttl)).transpose()?;
        Ok(LockOptions {
            node_timeout_ms: Some(within_ttls("node_timeout", self.node_timeout, 10, ttl)?),
            retry_delay_ms: Some(range(self.retry_delay, ttl)?),
            drift_factor: Some(part_of_ttl(self.drift_factor)?),
            sequential: Some(self.ask == Ask::Sequential),
            check_elapsed: (!self.check_elapsed).then_some(false),
            wall_clock: (self.clock == ClockSource::Wall).then_some(true),
            release_on_all: (self.release == ReleaseOn::Acquired).then_some(false),
            recheck: self.recheck.then_some(true),
            renew_every_ms,
            ..LockOptions::default()
        })
    }
}

fn part_of_ttl(drift_factor: f64) -> Result<f64, String> {
    if (0.0..1.0).contains(&drift_factor) {
        return Ok(drift_factor);
    }
    Err(format!("`drift_factor = {drift_factor}` must be a part of the TTL, from 0 to below 1"))
}

/// In milliseconds; the error names the option if its length makes no sense.
fn within_ttls(name: &str, length: Length, most: u32, ttl: Duration) -> Result<u64, String> {
    let resolved = length.resolve(ttl);
    if resolved > ttl * most || resolved < Duration::from_millis(1) {
        let ttl = Length::Absolute(ttl);
        let ttls = if most == 1 { "the TTL".to_string() } else { format!("{most} TTLs") };
        return Err(format!("`{name} = \"{length}\"` must lie between 1 ms and {ttls} of {ttl}"));
    }
    Ok(millis(resolved))
}

fn range(range: LengthRange, ttl: Duration) -> Result<(u64, u64), String> {
    range.resolve(ttl).map(|(low, high)| (millis(low), millis(high))).map_err(|error| error.to_string())
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// For the report: the name and the chosen options.
impl fmt::Display for LockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            LockSpec::None(_) => Ok(()),
            LockSpec::Perfect(options) => write!(f, ": granted by the controller, retry after {}", options.retry_delay),
            LockSpec::Single(SingleOptions { node_timeout, retry_delay, wait }) => {
                write!(f, ": node timeout {node_timeout}, retry after {retry_delay}")?;
                if *wait > 0 { write!(f, ", acknowledged by {wait} replicas (WAIT)") } else { Ok(()) }
            }
            LockSpec::SetnxExpire(options)
            | LockSpec::Incr(options)
            | LockSpec::SingleConstant(options)
            | LockSpec::SingleGetDel(options)
            | LockSpec::Fenced(options)
            | LockSpec::PairedToken(options)
            | LockSpec::Etcd(options)
            | LockSpec::Zookeeper(options)
            | LockSpec::Postgres(options) => {
                write!(f, ": node timeout {}, retry after {}", options.node_timeout, options.retry_delay)
            }
            LockSpec::Library(options) => {
                write!(f, ", as its client brings it: node timeout {}", options.node_timeout)?;
                if options.expires { Ok(()) } else { f.write_str(", no TTL") }
            }
            LockSpec::Redlock(options) | LockSpec::RedlockTokens(options) => {
                let order = match options.ask {
                    Ask::Parallel => "all at once",
                    Ask::Sequential => "one after the other",
                };
                write!(
                    f,
                    ": nodes asked {order}, node timeout {}, drift factor {}, retry after {}",
                    options.node_timeout, options.drift_factor, options.retry_delay
                )?;
                if options.recheck {
                    f.write_str(", validity checked again before the write")?;
                }
                options.renew_every.map_or(Ok(()), |every| write!(f, ", renewed every {every}"))
            }
            LockSpec::Steal(options) => {
                write!(
                    f,
                    ": priorities {:?}, thieves wait for {} of the TTL, node timeout {}, drift factor {}, retry after {}",
                    options.priorities,
                    options.stolen_consistency_factor,
                    options.node_timeout,
                    options.drift_factor,
                    options.retry_delay
                )?;
                f.write_str(if options.recheck { ", validity checked again before the write" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(table: &str) -> Result<LockSpec, String> {
        #[derive(Debug, Deserialize)]
        struct File {
            lock: LockSpec,
        }
        toml::from_str::<File>(table).map(|file| file.lock).map_err(|error| error.to_string())
    }

    const ONE_NODE: [&str; 10] = [
        "zookeeper",
        "etcd",
        "postgres",
        "single",
        "setnx-expire",
        "incr",
        "single-constant",
        "single-get-del",
        "fenced",
        "paired-token",
    ];

    #[test]
    fn a_lease_of_etcd_lasts_whole_seconds() {
        let lock = spec("[lock.etcd]\nnode_timeout = \"0.5ttl\"\nretry_delay = \"10ms..50ms\"").unwrap();
        assert!(lock.options(Duration::from_secs(2)).is_ok());
        assert!(lock.options(Duration::from_millis(1500)).unwrap_err().contains("whole seconds"));
    }

    #[test]
    fn every_lock_is_known_by_its_name_and_resolves_its_lengths() {
        for name in ONE_NODE {
            let lock =
                spec(&format!("[lock.{name}]\nnode_timeout = \"0.2ttl\"\nretry_delay = \"10ms..50ms\"")).unwrap();
            assert_eq!(lock.name(), name);
            let options = lock.options(Duration::from_secs(1)).unwrap();
            assert_eq!((options.node_timeout_ms, options.retry_delay_ms), (Some(200), Some((10, 50))));
            assert_eq!(lock.to_string(), format!("{name}: node timeout 0.2ttl, retry after 10ms..50ms"));
        }
        for name in ["redlock", "redlock-tokens"] {
            let lock = spec(&redlock(name, "renew_every = \"0.3ttl\"\nrecheck = true")).unwrap();
            assert_eq!(lock.name(), name);
            let options = lock.options(Duration::from_secs(1)).unwrap();
            assert_eq!((options.renew_every_ms, options.recheck, options.check_elapsed), (Some(300), Some(true), None));
            assert!(lock.to_string().ends_with("checked again before the write, renewed every 0.3ttl"), "{lock}");
        }
    }

    #[test]
    fn the_perfect_lock_takes_no_node_and_no_time() {
        let lock = spec("[lock.perfect]\nretry_delay = \"10ms..50ms\"").unwrap();
        assert!(lock.is_granted_by_controller() && !lock.gives_tokens() && !lock.is_on_one_key());
        let options = lock.options(Duration::from_secs(1)).unwrap();
        assert_eq!((options.node_timeout_ms, options.retry_delay_ms), (None, Some((10, 50))));
        assert_eq!(lock.to_string(), "perfect: granted by the controller, retry after 10ms..50ms");
        let error = spec("[lock.perfect]\nretry_delay = \"10ms\"\nnode_timeout = \"10ms\"").unwrap_err();
        assert!(error.contains("unknown field `node_timeout`, expected `retry_delay`"), "{error}");
        assert!(!spec("[lock.none]").unwrap().is_granted_by_controller());
    }

    fn redlock(name: &str, more: &str) -> String {
        let usual = "ask = \"parallel\"\nnode_timeout = \"50ms\"\ndrift_factor = 0.01\nretry_delay = \"20ms..100ms\"";
        format!("[lock.{name}]\n{usual}\n{more}")
    }

    fn steal(more: &str) -> String {
        let usual = "node_timeout = \"50ms\"\ndrift_factor = 0.01\nretry_delay = \"20ms..100ms\"";
        format!("[lock.steal]\n{usual}\n{more}")
    }

    #[test]
    fn priorities_go_round() {
        let lock = spec(&steal("priorities = [1, 5]\nstolen_consistency_factor = 0.5")).unwrap();
        assert_eq!([0, 1, 2, 3].map(|client| lock.priority_of(client)), [Some(1), Some(5), Some(1), Some(5)]);
        assert_eq!(spec("[lock.none]").unwrap().priority_of(1), None);
        let options = lock.options(Duration::from_secs(1)).unwrap();
        assert_eq!((options.stolen_consistency_factor, options.node_timeout_ms), (Some(0.5), Some(50)));
        for (more, expected) in [
            ("priorities = []\nstolen_consistency_factor = 1", "`priorities` is empty"),
            ("priorities = [1]\nstolen_consistency_factor = 1.5", "must be a part of the TTL, from 0 to 1"),
        ] {
            let error = spec(&steal(more)).unwrap().options(Duration::from_secs(1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_mistake_gets_a_message_that_lists_what_was_expected() {
        let one_node = |more: &str| format!("[lock.incr]\nnode_timeout = \"50ms\"\nretry_delay = \"10ms\"\n{more}");
        for (table, expected) in [
            ("[lock.setnx]".to_string(), "unknown variant `setnx`, expected one of `none`, `perfect`, `single`"),
            ("[lock.none]\nttl = 3".to_string(), "unknown field `ttl`, there are no fields"),
            (one_node("renew_every = \"1s\""), "unknown field `renew_every`, expected `node_timeout` or `retry_delay`"),
            ("[lock.fenced]\nnode_timeout = \"50ms\"".to_string(), "missing field `retry_delay`"),
            (redlock("redlock", "renew = \"1s\""), "unknown field `renew`, expected one of `ask`"),
        ] {
            let error = spec(&table).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for (table, expected) in [
            (
                redlock("redlock", "renew_every = \"2ttl\""),
                "`renew_every = \"2ttl\"` must lie between 1 ms and the TTL of 1s",
            ),
            (redlock("redlock", "").replace("0.01", "1.5"), "`drift_factor = 1.5` must be a part of the TTL"),
            (
                one_node("").replace("\"50ms\"", "\"11ttl\""),
                "`node_timeout = \"11ttl\"` must lie between 1 ms and 10 TTLs",
            ),
            (one_node("").replace("\"10ms\"", "\"2s..1s\""), "write the shorter one first"),
        ] {
            let error = spec(&table).unwrap().options(Duration::from_secs(1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
