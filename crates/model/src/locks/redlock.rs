//! Redlock: the same mark on a majority of N independent masters.
//!
//! Source: antirez, "Distributed locks with Redis". It promises exclusion only with bounded pauses, delays and clock error
//! (Kleppmann 2016). An attempt counts if a majority answered yes and validity is left: the TTL less the time taken, less `ttl *
//! drift_factor + 2 ms` for clock drift. After a failed attempt the client releases on ALL nodes at once, even those that said no
//! or nothing. A lost reply may have been a yes.
//!
//! A renewal extends the mark by another TTL on a majority, with the same arithmetic.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::about::{asking, is_default, is_yes, within_ttls, yes};
use super::{About, Algorithm, Clock, Held, LockOptions, LockParts, LockTable, Node, PhaseHook, RequestError, all};
use base::mutants::planted;
use base::units::{Length, LengthRange};

pub(super) const ABOUT: About =
    About { name: "redlock", called: "Redlock", independent_nodes: true, ..About::OF_ITS_OWN };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedlockOptions {
    pub ask: Ask,
    /// How long one request to one node may take; far below the TTL.
    pub node_timeout: Length,
    /// Fraction of the TTL by which clocks may drift apart while the lock is held, such as 0.01.
    pub drift_factor: f64,
    /// How long to wait before the next attempt, drawn each time so that contenders fall out of step.
    pub retry_delay: LengthRange,
    /// True if a majority that took longer than the lock's validity counts as none, as it should.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub check_elapsed: bool,
    /// The clock with which the client measures how long the acquisition took.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock: ClockSource,
    #[serde(default, skip_serializing_if = "is_default")]
    pub release: ReleaseOn,
    /// True if the holder checks its remaining validity once more right before it writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recheck: bool,
    /// True if that check asks the nodes; an answer after the end of the validity does not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asks: bool,
    /// How often a holder renews its lock; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_every: Option<Length>,
    /// The part of the client that renews it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub renewed_by: RenewedBy,
}

/// The part of a client that renews a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RenewedBy {
    /// A background task, as long as the client holds the lock.
    #[default]
    Watchdog,
    /// The holder itself, which works for a TTL longer and extends its lock meanwhile.
    Holder,
}

/// The order in which Redlock asks its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    Parallel,
    /// One after another.
    Sequential,
}

/// The clock of a lock's client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// A clock that never jumps and runs evenly.
    #[default]
    Monotonic,
    /// The time of day, which may be changed.
    Wall,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseOn {
    /// All nodes, as the documentation says: a lost reply may have been a yes.
    #[default]
    All,
    /// The nodes that said yes.
    Acquired,
}

impl LockTable for RedlockOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        let settings = RedlockSettings {
            sequential: self.ask == Ask::Sequential,
            check_elapsed: self.check_elapsed,
            release_on_all: self.release == ReleaseOn::All,
            ..RedlockSettings::new(self.drift_factor)?
        };
        if self.renewed_by == RenewedBy::Holder && self.renew_every.is_none() {
            return Err(
                "`renewed_by = \"holder\"` needs `renew_every`: how often the holder extends its lock".to_string()
            );
        }
        let options = LockOptions {
            wall_clock: (self.clock == ClockSource::Wall).then_some(true),
            recheck: self.recheck.then_some(true),
            asks: self.asks.then_some(true),
            extends: (self.renewed_by == RenewedBy::Holder).then_some(true),
            renew_every_ms: self.renew_every.map(|every| within_ttls("renew_every", every, 1, ttl)).transpose()?,
            ..asking(self.node_timeout, self.retry_delay, ttl)?
        };
        Ok(options.with(&settings))
    }

    fn describe(&self) -> String {
        let order = match self.ask {
            Ask::Parallel => "all at once",
            Ask::Sequential => "one after the other",
        };
        let mut text = format!(
            ": nodes asked {order}, node timeout {}, drift factor {}, retry after {}",
            self.node_timeout, self.drift_factor, self.retry_delay
        );
        if self.recheck {
            text += RECHECK;
        }
        if self.asks {
            text += ", nodes asked again before the write";
        }
        let by = if self.renewed_by == RenewedBy::Holder { " by its holder" } else { "" };
        text + &self.renew_every.map(|every| format!(", renewed every {every}{by}")).unwrap_or_default()
    }
}

/// A phrase for the report.
pub(super) const RECHECK: &str = ", validity checked again before the write";

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RedlockSettings {
    /// Fraction of the TTL by which clocks may drift apart while the lock is held.
    pub drift_factor: f64,
    /// Ask one node after another instead of all at once.
    #[serde(default)]
    pub sequential: bool,
    /// True if a majority that took longer than the lock's validity counts as none. Without this check a delay or a pause during
    /// the acquisition breaks the lock; with it, it does not.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub check_elapsed: bool,
    /// True if the client releases on all nodes, not only those that said yes.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub release_on_all: bool,
}

impl RedlockSettings {
    /// Redlock as documented. The error explains the allowed drift.
    pub fn new(drift_factor: f64) -> Result<RedlockSettings, String> {
        if !(0.0..1.0).contains(&drift_factor) {
            return Err(format!("`drift_factor = {drift_factor}` must be a part of the TTL, from 0 to below 1"));
        }
        Ok(RedlockSettings { drift_factor, sequential: false, check_elapsed: true, release_on_all: true })
    }
}

pub struct Redlock<N, C> {
    pub nodes: Vec<N>,
    pub clock: C,
    pub ttl: Duration,
    pub settings: RedlockSettings,
}

pub(super) fn build<N, C, M>(parts: LockParts<'_, N, C, M>) -> Result<Redlock<N, C>, String> {
    if parts.nodes.is_empty() {
        return Err(format!("lock {} needs nodes", parts.settings.name));
    }
    let settings = parts.settings.own()?;
    Ok(Redlock { nodes: parts.nodes, clock: parts.clock, ttl: parts.settings.ttl(), settings })
}

/// Redis expires keys with millisecond precision; the documentation allows 2 ms for that besides the drift.
const EXPIRY_PRECISION: Duration = Duration::from_millis(2);

impl<N: Node, C: Clock> Redlock<N, C> {
    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + usize::from(!planted("redlock.quorum-minus-one"))
    }

    /// The remaining TTL after an acquisition that took this long.
    pub(super) fn validity(&self, took: Duration) -> Duration {
        let took = if self.settings.check_elapsed { took } else { Duration::ZERO };
        self.ttl.saturating_sub(took + self.ttl.mul_f64(self.settings.drift_factor) + EXPIRY_PRECISION)
    }

    async fn ask_all(&self, key: &str, mark: &str) -> Vec<Result<bool, RequestError>> {
        if !self.settings.sequential {
            return all(self.nodes.iter().map(|node| node.set_if_absent(key, mark, self.ttl))).await;
        }
        let mut answers = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            answers.push(node.set_if_absent(key, mark, self.ttl).await);
        }
        answers
    }
}

#[async_trait]
impl<N: Node, C: Clock> Algorithm for Redlock<N, C> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let mark = self.clock.mark();
        let start = self.clock.now();
        let answers = self.ask_all(key, &mark).await;
        let votes = answers.iter().filter(|answer| **answer == Ok(true)).count();
        let validity = self.validity(self.clock.now().saturating_sub(start));
        let said_yes = answers.iter().map(|answer| *answer == Ok(true)).collect();
        let held = Held { mark, validity: Some(validity), votes: said_yes, token: None };
        let quorum = self.quorum();
        if votes >= quorum && !validity.is_zero() {
            return Ok(held);
        }
        if !planted("attempt.not-taken-back") {
            self.release(key, &held, hook).await;
        }
        let silent = answers.iter().filter(|answer| answer.is_err()).count();
        Err(if votes >= quorum {
            format!("{votes} of {} nodes granted the lock, but that took longer than its validity", self.nodes.len())
        } else {
            format!("{votes} of {} nodes granted the lock, {quorum} needed, {silent} did not answer", self.nodes.len())
        })
    }

    async fn release(&self, key: &str, held: &Held, _: &dyn PhaseHook) {
        let everywhere = self.settings.release_on_all;
        let told = self.nodes.iter().zip(&held.votes).filter(|(_, said_yes)| everywhere || **said_yes);
        all(told.map(|(node, _)| node.delete_if_equals(key, &held.mark))).await;
    }

    async fn ask(&self, key: &str, held: &Held) -> Result<(), String> {
        let answers = all(self.nodes.iter().map(|node| node.get(key))).await;
        let have_it = answers.iter().flatten().flatten().filter(|mark| **mark == held.mark).count();
        if have_it >= self.quorum() {
            return Ok(());
        }
        Err(format!("{have_it} of {} nodes report that they have the key, {} needed", self.nodes.len(), self.quorum()))
    }

    async fn renew(&self, key: &str, held: &Held) -> Result<Duration, String> {
        let start = self.clock.now();
        let answers = self.nodes.iter().map(|node| node.expire_if_equals(key, &held.mark, self.ttl));
        let renewed = all(answers).await.into_iter().filter(|answer| *answer == Ok(true)).count();
        let validity = self.validity(self.clock.now().saturating_sub(start));
        if renewed >= self.quorum() && !validity.is_zero() {
            return Ok(validity);
        }
        Err(format!("renewed on {renewed} of {} nodes, {} needed", self.nodes.len(), self.quorum()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeAnswer, FakeClock, FakeNode, Nobody};
    use super::*;

    fn lock(answers: [FakeAnswer; 5], sequential: bool) -> Redlock<FakeNode, FakeClock> {
        let clock = FakeClock::default();
        Redlock {
            nodes: answers.iter().map(|answer| FakeNode::new(&[*answer], clock.clone())).collect(),
            clock,
            ttl: Duration::from_millis(1000),
            settings: RedlockSettings { sequential, ..RedlockSettings::new(0.01).unwrap() },
        }
    }

    const YES: FakeAnswer = FakeAnswer::Set { after_ms: 0 };

    #[tokio::test]
    async fn a_majority_in_time_is_the_lock() {
        for sequential in [false, true] {
            let lock = lock([YES, FakeAnswer::Silent, YES, FakeAnswer::Taken, YES], sequential);
            let held = lock.attempt("k", &Nobody).await.unwrap();
            // 1000 ms less 10 ms of drift, 2 ms of expiry, and the timeout of the silent node.
            assert_eq!(held.validity, Some(Duration::from_millis(1000 - 10 - 2 - FakeNode::TIMEOUT_MS)));
            lock.release("k", &held, &Nobody).await;
            assert!(lock.nodes.iter().all(|node| node.deleted() == [held.mark.clone()]), "released on all nodes");
        }
    }

    #[tokio::test]
    async fn a_minority_is_no_lock_and_all_nodes_are_told() {
        let lock = lock([YES, FakeAnswer::Silent, YES, FakeAnswer::Taken, FakeAnswer::Taken], false);
        let error = lock.attempt("k", &Nobody).await.unwrap_err();
        assert_eq!(error, "2 of 5 nodes granted the lock, 3 needed, 1 did not answer");
        assert!(lock.nodes.iter().all(|node| node.deleted().len() == 1), "also those that said no or nothing");
    }

    #[tokio::test]
    async fn a_majority_that_took_as_long_as_the_validity_is_no_lock() {
        let too_late = lock([YES, YES, YES, YES, FakeAnswer::Set { after_ms: 988 }], false);
        assert!(too_late.attempt("k", &Nobody).await.unwrap_err().contains("took longer"));
        let just_in_time = lock([YES, YES, YES, YES, FakeAnswer::Set { after_ms: 987 }], false);
        assert_eq!(just_in_time.attempt("k", &Nobody).await.unwrap().validity, Some(Duration::from_millis(1)));
    }

    #[tokio::test]
    async fn without_the_check_it_believes_in_a_lock_that_has_expired() {
        let answers = [YES, YES, YES, YES, FakeAnswer::Set { after_ms: 1500 }];
        let mut unchecked = lock(answers, false);
        unchecked.settings.check_elapsed = false;
        let held = unchecked.attempt("k", &Nobody).await.unwrap();
        assert_eq!(held.validity, Some(Duration::from_millis(1000 - 10 - 2)));
        assert!(lock(answers, false).attempt("k", &Nobody).await.is_err());
    }

    #[tokio::test]
    async fn told_only_where_it_saw_a_yes_a_node_whose_reply_was_lost_keeps_the_key() {
        let answers = [YES, FakeAnswer::Silent, FakeAnswer::Silent, FakeAnswer::Silent, YES];
        let mut lazy = lock(answers, false);
        lazy.settings.release_on_all = false;
        assert!(lazy.attempt("k", &Nobody).await.is_err());
        assert_eq!(lazy.nodes.iter().map(|node| node.deleted().len()).collect::<Vec<_>>(), [1, 0, 0, 0, 1]);
    }

    #[tokio::test]
    async fn a_renewal_lasts_another_ttl_on_a_majority_and_brings_nothing_back() {
        let lock = lock([YES; 5], false);
        let held = lock.attempt("k", &Nobody).await.unwrap();
        lock.clock.sleep(lock.ttl / 2).await;
        lock.nodes[0].forget();
        lock.nodes[1].forget();
        assert_eq!(lock.renew("k", &held).await, Ok(Duration::from_millis(1000 - 10 - 2)));
        lock.clock.sleep(lock.ttl * 3 / 4).await;
        assert!(lock.renew("k", &held).await.is_ok(), "it would have expired without the first renewal");
        lock.nodes[2].forget();
        assert_eq!(lock.renew("k", &held).await, Err("renewed on 2 of 5 nodes, 3 needed".into()));
        lock.clock.sleep(lock.ttl).await;
        assert_eq!(lock.renew("k", &held).await, Err("renewed on 0 of 5 nodes, 3 needed".into()));
    }
}
