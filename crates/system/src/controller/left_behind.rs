//! Looks for locks that last too long: after the last client has gone, and while clients work. If a lock expires, it must not
//! remain for much longer than its TTL, nor ever get a much longer TTL. The check during the run is needed because most of a long
//! TTL may be over by the end of the run.
//!
//! Libraries keep other keys with a lock's name, such as the counter of its tokens, which must stay. If a key was there while a
//! client acquired the lock, the key did not block the client, so it is not a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Run, RunError};
use crate::cluster::Member;
use crate::faults::{RedisCommand, RedisReply};
use base::members::Role;
use base::sync::lock;
use base::units::nanos;
use base::words;
use model::history::{Claim, FactName, key_behind, locked_key};

/// By node and key: when a key without a TTL was first seen while no fault was in effect.
pub(super) type WithoutTtl = Mutex<BTreeMap<(String, String), Instant>>;

impl Run<'_> {
    /// Checks, after the last client is gone, for locks that never end or end long after their TTL. Only for libraries whose
    /// locks expire.
    pub(super) async fn look_for_endless_locks(&self) -> Result<(), RunError> {
        if !self.locks_are_to_end() {
            return Ok(());
        }
        let (mut looked_at, mut endless, mut beside) = (0_u64, Vec::new(), Vec::new());
        for node in self.cluster.members().filter(|member| member.role == Role::Node) {
            match self.endless_locks_on(node, longest_left(self.scenario.ttl)).await {
                Ok((keys, found)) => {
                    looked_at += keys;
                    for (key, end) in found {
                        let text = format!("{} on {}, which {end}", words::quoted(&key), node.name);
                        let kept = if self.keeps_nobody_out(node, &key) { &mut beside } else { &mut endless };
                        kept.push(text);
                    }
                }
                // The check is then inconclusive, so no fact is recorded.
                Err(text) => {
                    warn!(node = node.name, text, "redjepsen could not search every node for locks without a TTL");
                    return Ok(());
                }
            }
        }
        let text = match (&endless[..], &beside[..]) {
            ([], []) => format!("{looked_at} keys looked at"),
            ([], _) => format!("{looked_at} keys looked at; no lock is {}", beside.join(", ")),
            _ => endless.join(", "),
        };
        self.fact(FactName::NothingEndless, endless.is_empty(), text)
    }

    /// Once all faults are over, repeatedly notes the keys that never end, for as long as it is polled.
    pub(super) async fn watch_for_missing_ttl(&self) -> Infallible {
        self.faults_are_over.raised().await;
        loop {
            self.note_what_never_ends().await;
            sleep(self.scenario.ttl.max(BETWEEN_LOOKS)).await;
        }
    }

    /// Notes the keys that never end. Skips a node that does not answer.
    pub(super) async fn note_what_never_ends(&self) {
        if !self.locks_are_to_end() {
            return;
        }
        for node in self.cluster.members().filter(|member| member.role == Role::Node) {
            let Ok((_, found)) = self.endless_locks_on(node, Duration::MAX).await else { continue };
            let seen = Instant::now();
            let mut without_ttl = lock(&self.without_ttl);
            // If a key goes away and comes back, it counts as a new key.
            without_ttl.retain(|(on, key), _| *on != node.name || found.iter().any(|(other, _)| other == key));
            for (key, _) in found.into_iter().filter(|(_, end)| end == NEVER) {
                without_ttl.entry((node.name.clone(), key)).or_insert(seen);
            }
        }
    }

    /// True if a client acquired the lock although this key was already there when the client asked.
    fn keeps_nobody_out(&self, node: &Member, key: &str) -> bool {
        let seen = lock(&self.without_ttl).get(&(node.name.clone(), key.to_string())).copied();
        seen.zip(key_behind(key)).is_some_and(|(seen, of)| self.board.was_taken_since(of, seen))
    }

    /// Repeatedly looks for locks that have far more than their TTL left, for as long as it is polled, and records each such lock
    /// once. Locks without a TTL are checked at the end of the run: their holder may still set one.
    pub(super) async fn watch_for_long_locks(&self) -> Result<Infallible, RunError> {
        if !self.locks_are_to_end() {
            return std::future::pending().await;
        }
        // A holder that extends its lock may add a TTL to the remaining time.
        let longest = longest_left(self.scenario.ttl * 2);
        let mut told = BTreeSet::new();
        loop {
            sleep(self.scenario.ttl.max(BETWEEN_LOOKS)).await;
            for node in self.cluster.members().filter(|member| member.role == Role::Node) {
                // If a node does not answer now, a later round asks it again.
                let Ok((_, found)) = self.endless_locks_on(node, longest).await else { continue };
                for (key, end) in found.into_iter().filter(|(_, end)| end != NEVER) {
                    let text = format!("{} on {}, which {end}", words::quoted(&key), node.name);
                    if told.insert((node.name.clone(), key)) {
                        self.fact(FactName::NothingTooLong, false, text)?;
                    }
                }
            }
        }
    }

    /// True if the lock under test promises that it expires, and is on nodes that can be searched. Counters of several holders
    /// may outlive the holders, so locks with several permits are excluded.
    fn locks_are_to_end(&self) -> bool {
        let workload = &self.scenario.workload;
        // KEYS would go through all keys of an existing server.
        if !self.scenario.cluster_kind().owns_nodes() {
            return false;
        }
        let is_promised = workload.library.is_some() || workload.claims.contains(&Claim::Timeouts);
        is_promised && workload.lock.expires() && workload.permits == 1 && workload.lock.is_on_redis()
    }

    /// How many keys of locks a node has, and the keys that outlive a lock, each with its end.
    async fn endless_locks_on(&self, node: &Member, longest: Duration) -> Result<(u64, Vec<(String, String)>), String> {
        let url = node.url().unwrap_or_default();
        // If a node's clock was wrong, so may be the ends of its keys. And a counter of tokens may outlive the lock.
        let excused = self.scenario.nemesis.needs_preload() || self.scenario.workload.lock.gives_tokens();
        let longest = (!excused).then_some(longest);
        let ask = async |words: [&str; 2]| {
            let command = RedisCommand::Words(words.map(str::to_string).to_vec());
            match self.ask(&url, command).await {
                Ok(RedisReply::Text(text)) => Ok(text),
                other => Err(format!("{other:?}")),
            }
        };
        let (mut keys, mut endless) = (0, Vec::new());
        for key in ask(["KEYS", "*lock:k*"]).await?.lines() {
            keys += 1;
            // Lists and other types serve waiters.
            let is_lock = matches!(ask(["TYPE", key]).await?.trim(), "string" | "hash");
            // Other keys of a library, such as a note for waiters, may last until their own TTL ends. A counter, for example of
            // tokens, may last forever.
            let longest = longest.filter(|_| locked_key(key).is_some());
            let is_count = locked_key(key).is_none() && ask(["GET", key]).await.is_ok_and(|text| is_a_number(&text));
            if is_lock
                && !is_count
                && let Some(end) = outlasts(ask(["PTTL", key]).await?.trim(), longest)
            {
                endless.push((key.to_string(), end));
            }
        }
        Ok((keys, endless))
    }
}

const NEVER: &str = "never ends";
/// Pause between two searches of a node.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

fn is_a_number(text: &str) -> bool {
    text.trim().parse::<u64>().is_ok()
}

/// The longest TTL that a lock may have: rounding to whole seconds adds up to one second.
fn longest_left(ttl: Duration) -> Duration {
    ttl + Duration::from_secs(1)
}

/// If a lock outlives its TTL, how long it lasts, from the answer to PTTL; None if it does not.
fn outlasts(left: &str, longest: Option<Duration>) -> Option<String> {
    if left == "-1" {
        return Some(NEVER.to_string());
    }
    let left = Duration::from_millis(left.parse().ok()?);
    let nanoseconds = nanos(left);
    (left > longest?).then(|| format!("ends after another {}", words::length(nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_outlasts_its_ttl_if_it_never_ends_or_has_far_more_than_its_ttl_left() {
        let longest = Some(longest_left(Duration::from_secs(1)));
        assert_eq!(outlasts("-1", longest).as_deref(), Some("never ends"));
        assert_eq!(outlasts("-1", None).as_deref(), Some("never ends"));
        assert_eq!(outlasts("29800", longest).as_deref(), Some("ends after another 29.8 s"));
        // The key is gone, within the TTL, or rounded up; or the node's clock is not known.
        for (left, longest) in
            [("-2", longest), ("940", longest), ("2000", longest), ("29800", None), ("what", longest)]
        {
            assert_eq!(outlasts(left, longest), None, "{left}");
        }
    }
}
