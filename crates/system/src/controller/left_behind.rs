//! What is left of locks once the last client has gone, and how long those last that nodes keep meanwhile. Of a lock that
//! runs out nothing may be left that lasts for much longer than its TTL, and none may be set for much longer: by the end of
//! a run most of its time may be over.
//!
//! Libraries keep more than locks by a lock's name, such as the counter of its tokens, which is to last. What was there when
//! somebody took the lock anew keeps nobody out, and is no lock.

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

/// When each key that never ends was first seen while no fault was in effect, by its node and its name.
pub(super) type WithoutTtl = Mutex<BTreeMap<(String, String), Instant>>;

impl Run<'_> {
    /// Once the last client is gone: whether a node keeps a lock that never ends, or long after its TTL, though the
    /// library's locks run out.
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
                // Nothing is known then, and nothing is said.
                Err(text) => {
                    warn!(node = node.name, text, "not every node could be searched for locks that never end");
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

    /// Once faults are over, looks again and again which keys are there that never end, for as long as it is polled.
    pub(super) async fn watch_for_missing_ttl(&self) -> Infallible {
        self.faults_are_over.raised().await;
        loop {
            self.note_what_never_ends().await;
            sleep(self.scenario.ttl.max(BETWEEN_LOOKS)).await;
        }
    }

    /// Notes which keys are there that never end. A node that does not answer is left out.
    pub(super) async fn note_what_never_ends(&self) {
        if !self.locks_are_to_end() {
            return;
        }
        for node in self.cluster.members().filter(|member| member.role == Role::Node) {
            let Ok((_, found)) = self.endless_locks_on(node, Duration::MAX).await else { continue };
            let seen = Instant::now();
            let mut without_ttl = lock(&self.without_ttl);
            // A key that went away meanwhile and comes back is another one.
            without_ttl.retain(|(on, key), _| *on != node.name || found.iter().any(|(other, _)| other == key));
            for (key, _) in found.into_iter().filter(|(_, end)| end == NEVER) {
                without_ttl.entry((node.name.clone(), key)).or_insert(seen);
            }
        }
    }

    /// Whether a client asked for the lock when this key was there already, and got it.
    fn keeps_nobody_out(&self, node: &Member, key: &str) -> bool {
        let seen = lock(&self.without_ttl).get(&(node.name.clone(), key.to_string())).copied();
        seen.zip(key_behind(key)).is_some_and(|(seen, of)| self.board.was_taken_since(of, seen))
    }

    /// Looks again and again, for as long as it is polled, whether a node keeps a lock that has far more than its TTL left,
    /// and records each such lock once. What never ends is looked for at the end: a holder may still give it one.
    pub(super) async fn watch_for_long_locks(&self) -> Result<Infallible, RunError> {
        if !self.locks_are_to_end() {
            return std::future::pending().await;
        }
        // A holder that extends its lock may add a TTL to what is left of it.
        let longest = longest_left(self.scenario.ttl * 2);
        let mut told = BTreeSet::new();
        loop {
            sleep(self.scenario.ttl.max(BETWEEN_LOOKS)).await;
            for node in self.cluster.members().filter(|member| member.role == Role::Node) {
                // A node that does not answer just now is asked again.
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

    /// Whether what is under test promises that its locks run out, on nodes that can be asked for them. What keeps count of
    /// several holders may outlast them.
    fn locks_are_to_end(&self) -> bool {
        let workload = &self.scenario.workload;
        // KEYS would look at everything that an existing server keeps.
        if !self.scenario.cluster_kind().owns_nodes() {
            return false;
        }
        let is_promised = workload.library.is_some() || workload.claims.contains(&Claim::Timeouts);
        is_promised && workload.lock.expires() && workload.permits == 1 && workload.lock.is_on_redis()
    }

    /// How many keys of locks a node has, and those that outlast a lock, with when they end.
    async fn endless_locks_on(&self, node: &Member, longest: Duration) -> Result<(u64, Vec<(String, String)>), String> {
        let url = node.url().unwrap_or_default();
        // A node whose clock was wrong set the ends of its keys by it; and a count of tokens may last for longer.
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
            // Lists and the like serve those who wait.
            let is_lock = matches!(ask(["TYPE", key]).await?.trim(), "string" | "hash");
            // What else a library leaves behind, such as a note for those who wait, may last until its time is over; and a count, such
            // as that of tokens, may last for ever.
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
/// Nodes are not asked more often than this.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

fn is_a_number(text: &str) -> bool {
    text.trim().parse::<u64>().is_ok()
}

/// What may be left of a lock's time: rounding to whole seconds adds up to one to its TTL.
fn longest_left(ttl: Duration) -> Duration {
    ttl + Duration::from_secs(1)
}

/// When a lock ends that outlasts what its TTL allows, by the answer to PTTL; None if it does not.
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
        // Gone, within the TTL, rounded up, and where nothing is known of the node's clock.
        for (left, longest) in
            [("-2", longest), ("940", longest), ("2000", longest), ("29800", None), ("what", longest)]
        {
            assert_eq!(outlasts(left, longest), None, "{left}");
        }
    }
}
