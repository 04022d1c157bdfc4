//! The lock that a workload file names, and its options.
//!
//! The vocabulary is closed, so a typo gets a message with the expected words. The list of locks is in [`locks`](super); their
//! differences are in each lock's own file.

use std::fmt;
use std::time::Duration;

use super::{About, LockOptions, LockSpec};
use crate::topology::Program;
use base::units::Length;

/// Builds from the list of locks the type [`LockSpec`], and the only code that chooses a lock by its name. Each line has the
/// variant, the type of its `[lock.NAME]` table, its file, and, for a lock on Redis nodes, its build function.
macro_rules! locks {
    ($($(#[$doc:meta])* $variant:ident($options:ty): $file:ident $(=> $build:path)?;)*) => {
        /// The lock under test, with its options.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum LockSpec {
            $($(#[$doc])* $variant($options),)*
        }

        impl LockSpec {
            /// The facts of the lock without its options, and the options.
            fn parts(&self) -> (About, &dyn LockTable) {
                match self {
                    $(LockSpec::$variant(options) => ($file::ABOUT, options),)*
                }
            }
        }

        pub const ALL: &[About] = &[$($file::ABOUT),*];

        /// The algorithm of a lock on Redis.
        fn build<N: Node + 'static, C: Clock, M: Mail>(
            parts: LockParts<'_, N, C, M>,
        ) -> Result<Box<dyn Algorithm>, String> {
            $($(
                if parts.settings.name == $file::ABOUT.name {
                    return Ok(Box::new($build(parts)?));
                }
            )?)*
            Err(unknown(&parts.settings.name))
        }
    };
}
pub(super) use locks;

impl LockSpec {
    pub fn about(&self) -> About {
        let (about, options) = self.parts();
        options.refine(about)
    }

    /// Its name in workload files and in the protocol.
    pub fn name(&self) -> &'static str {
        self.about().name
    }

    /// True if it has no nodes, since the controller grants it.
    pub fn is_granted_by_controller(&self) -> bool {
        self.about().granted_by_controller
    }

    /// True if it expires by itself some time after a client acquired or renewed it.
    pub fn expires(&self) -> bool {
        self.about().expires
    }

    /// Returns true if its nodes must have `SET … IFEQ`.
    pub fn needs_ifeq(&self) -> bool {
        self.about().needs_ifeq
    }

    /// True if each acquisition comes with a fencing token.
    pub fn gives_tokens(&self) -> bool {
        self.about().tokens
    }

    pub fn program(&self) -> Program {
        self.about().program
    }

    pub fn is_on_redis(&self) -> bool {
        self.program() == Program::Redis
    }

    /// How many replicas must acknowledge the acquisition.
    pub fn replicas(&self) -> u32 {
        self.parts().1.replicas()
    }

    /// The number of clients to which the controller grants it at once; None for the number in the workload.
    pub fn holders(&self) -> Option<u32> {
        self.parts().1.holders()
    }

    /// Options for only this client, given its number.
    pub fn of_client(&self, client: u32) -> LockOptions {
        self.parts().1.of_client(client)
    }

    /// The options for the clients, with every length resolved against the TTL. The error names the option and says what is
    /// allowed.
    pub fn options(&self, ttl: Duration) -> Result<LockOptions, String> {
        let (about, options) = self.parts();
        if about.whole_seconds && !ttl.as_millis().is_multiple_of(1000) {
            let (name, ttl) = (about.name, Length::Absolute(ttl));
            return Err(format!("{name}'s leases last whole seconds, so `--ttl {ttl}` is not possible"));
        }
        options.resolve(ttl)
    }
}

/// For the report: the name and the chosen options.
impl fmt::Display for LockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (about, options) = self.parts();
        write!(f, "{}{}", about.name, options.describe())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn spec(table: &str) -> Result<LockSpec, String> {
        #[derive(Debug, Deserialize)]
        struct File {
            lock: LockSpec,
        }
        toml::from_str::<File>(table).map(|file| file.lock).map_err(|error| error.to_string())
    }

    const ONE_NODE: [&str; 11] = [
        "zookeeper",
        "etcd",
        "postgres",
        "single",
        "setnx-expire",
        "incr",
        "single-constant",
        "single-get-del",
        "fenced",
        "forever",
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
            assert_eq!(
                (options.renew_every_ms, options.recheck, options.own.get("check_elapsed")),
                (Some(300), Some(true), None)
            );
            assert!(lock.to_string().ends_with("checked again before the write, renewed every 0.3ttl"), "{lock}");
        }
    }

    #[test]
    fn only_a_lock_of_newer_commands_needs_them_and_its_renewal_may_leave_the_ttl_out() {
        let table = |more: &str| {
            format!(
                "[lock.single-ifeq]\nnode_timeout = \"0.2ttl\"\nretry_delay = \"10ms..50ms\"\nrenew_every = \"0.3ttl\"\n{more}"
            )
        };
        let right = spec(&table("")).unwrap();
        assert!(right.needs_ifeq());
        let options = right.options(Duration::from_secs(1)).unwrap();
        assert_eq!((options.renew_every_ms, options.own.get("renewal_sets_ttl")), (Some(300), None));
        assert!(right.to_string().ends_with("renewed every 0.3ttl"), "{right}");
        let wrong = spec(&table("renewal_sets_ttl = false")).unwrap();
        let options = wrong.options(Duration::from_secs(1)).unwrap();
        assert_eq!(options.own.get("renewal_sets_ttl"), Some(&json!(false)));
        assert!(wrong.to_string().ends_with("renewed every 0.3ttl without a TTL"), "{wrong}");
        assert!(!spec("[lock.none]").unwrap().needs_ifeq());
    }

    #[test]
    fn the_perfect_lock_takes_no_node_and_no_time() {
        let lock = spec("[lock.perfect]\nretry_delay = \"10ms..50ms\"").unwrap();
        assert!(lock.is_granted_by_controller() && !lock.gives_tokens() && !lock.about().on_one_key);
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
        let priority =
            |lock: &LockSpec, client| lock.of_client(client).own.get("priority").and_then(|value| value.as_u64());
        assert_eq!([0, 1, 2, 3].map(|client| priority(&lock, client)), [Some(1), Some(5), Some(1), Some(5)]);
        assert_eq!(priority(&spec("[lock.none]").unwrap(), 1), None);
        let options = lock.options(Duration::from_secs(1)).unwrap();
        assert_eq!(
            (options.own.get("stolen_consistency_factor"), options.node_timeout_ms),
            (Some(&json!(0.5)), Some(50))
        );
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
                redlock("redlock", "renewed_by = \"holder\""),
                "needs `renew_every`: how often the holder extends its lock",
            ),
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
