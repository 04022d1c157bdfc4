//! Wrong locks: correct locks with changed requests, changed reading of answers, or changed settings. Only builds with debug
//! assertions contain them, and only the tests of the tester plant one: see [`base::mutants`].

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::{Algorithm, Clock, CompareAndDelete, Held, LockSettings, Node, PhaseHook, RequestError, Token};
use base::mutants::planted;

/// The settings of a lock whose author omitted something.
pub fn settings(settings: &LockSettings) -> LockSettings {
    let mut changed = settings.clone();
    let options = &mut changed.options;
    let own = [
        ("settings.no-drift", "drift_factor", json!(0.0)),
        ("settings.elapsed-unchecked", "check_elapsed", json!(false)),
        ("settings.release-where-acquired", "release_on_all", json!(false)),
        ("settings.sequential", "sequential", json!(true)),
        ("settings.no-wait", "wait_replicas", json!(0)),
        ("settings.thief-does-not-wait", "stolen_consistency_factor", json!(0.0)),
    ];
    for (bug, name, value) in own {
        if planted(bug) {
            options.own.insert(name.to_string(), value);
        }
    }
    if planted("settings.wall-clock") {
        options.wall_clock = Some(true);
    }
    if planted("settings.no-recheck") {
        options.recheck = None;
    }
    if planted("settings.asks-no-node") {
        options.asks = None;
    }
    if planted("settings.never-renewed") {
        options.renew_every_ms = None;
    }
    if planted("settings.renewed-too-late") {
        options.renew_every_ms = Some(2 * settings.ttl_ms);
    }
    if planted("settings.retry-at-once") {
        options.retry_delay_ms = Some((1, 1));
    }
    if planted("settings.patient-nodes") {
        options.node_timeout_ms = None;
    }
    if planted("settings.half-the-ttl") {
        changed.ttl_ms /= 2;
    }
    changed
}

/// A node behind a wrong lock.
pub(super) struct MutatedNode<N>(pub N);

fn lives(ttl: Duration) -> Duration {
    let longer = if planted("set.ttl-in-seconds") { 1000 } else { 1 };
    let shorter = if planted("set.ttl-cut-short") { 1000 } else { 1 };
    ttl * longer / shorter
}

impl<N: Node> MutatedNode<N> {
    /// Removes the old key first, so that the key is always set.
    async fn force(&self, key: &str) {
        if planted("set.without-nx") {
            let _ = self.0.delete(key).await;
        }
    }
}

/// How a wrong lock reads the answer to an attempt.
fn read(answer: Result<bool, RequestError>) -> Result<bool, RequestError> {
    match answer {
        Ok(false) if planted("set.refusal-is-yes") => Ok(true),
        Err(_) if planted("set.silence-is-yes") => Ok(true),
        Err(_) if planted("set.silence-is-no") => Ok(false),
        answer => answer,
    }
}

impl<N: Node> Node for MutatedNode<N> {
    async fn set_if_absent(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.force(key).await;
        let own = format!("{key}:{value}");
        let key = if planted("set.key-of-its-own") { &own } else { key };
        if planted("set.without-px") {
            return read(self.0.set_for_ever_if_absent(key, value).await);
        }
        if planted("set.looks-first") {
            return match self.0.get(key).await? {
                Some(_) => Ok(false),
                None => {
                    let _ = self.0.delete(key).await;
                    self.0.set_if_absent(key, value, ttl).await
                }
            };
        }
        if planted("set.then-expires") {
            let set = self.0.set_for_ever_if_absent(key, value).await?;
            return Ok(set && self.0.expire(key, ttl).await?);
        }
        read(self.0.set_if_absent(key, value, lives(ttl)).await)
    }

    async fn set_for_ever_if_absent(&self, key: &str, value: &str) -> Result<bool, RequestError> {
        self.force(key).await;
        if planted("set.expires-nevertheless") {
            return self.0.set_if_absent(key, value, Duration::from_millis(300)).await;
        }
        read(self.0.set_for_ever_if_absent(key, value).await)
    }

    async fn set_if_absent_and_count(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
        counter: &str,
    ) -> Result<Option<u64>, RequestError> {
        self.force(key).await;
        if planted("token.before-the-lock") {
            let number = self.0.increment(counter).await?;
            return Ok(self.0.set_if_absent(key, value, ttl).await?.then_some(number));
        }
        if planted("token.after-the-lock") {
            let set = self.0.set_if_absent(key, value, ttl).await?;
            return Ok(if set { Some(self.0.increment(counter).await?) } else { None });
        }
        self.0.set_if_absent_and_count(key, value, lives(ttl), counter).await
    }

    async fn set_if_outranks(
        &self,
        key: &str,
        value: &str,
        rank: u32,
        ttl: Duration,
    ) -> Result<(bool, Option<String>), RequestError> {
        let rank = if planted("steal.from-equals") { rank + 1 } else { rank };
        let (set, before) = self.0.set_if_outranks(key, value, rank, lives(ttl)).await?;
        Ok((set, before.filter(|_| !planted("steal.unseen-victim"))))
    }

    async fn expire(&self, key: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.0.expire(key, ttl).await
    }

    async fn expire_if_equals(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        if planted("renewal.creates") {
            let _ = self.0.set_if_absent(key, value, ttl).await;
        }
        if planted("renewal.without-compare") {
            return self.0.expire(key, ttl).await;
        }
        if planted("renewal.not-sent") {
            return Ok(true);
        }
        if planted("renewal.shortens") {
            return self.0.expire_if_equals(key, value, ttl / 4).await;
        }
        match self.0.expire_if_equals(key, value, ttl).await {
            Ok(false) if planted("renewal.refusal-is-yes") => Ok(true),
            Err(_) if planted("renewal.silence-is-yes") => Ok(true),
            answer => answer,
        }
    }

    async fn get(&self, key: &str) -> Result<Option<String>, RequestError> {
        self.0.get(key).await
    }

    async fn increment(&self, key: &str) -> Result<u64, RequestError> {
        match self.0.increment(key).await {
            Ok(2) if planted("incr.two-may-have-it") => Ok(1),
            answer => answer,
        }
    }

    async fn raise(&self, key: &str, number: u64) -> Result<(), RequestError> {
        if planted("token.release-not-noted") {
            return Ok(());
        }
        self.0.raise(key, number).await
    }

    async fn delete(&self, key: &str) -> Result<bool, RequestError> {
        match self.0.delete(key).await {
            Err(_) if planted("incr.released-once") => Ok(true),
            answer => answer,
        }
    }

    async fn delete_if_equals(&self, key: &str, value: &str) -> Result<bool, RequestError> {
        if planted("release.without-compare") {
            return self.0.delete(key).await;
        }
        if planted("release.in-two-steps") {
            return match self.0.get(key).await? {
                Some(mark) if mark == value => self.0.delete(key).await,
                _ => Ok(false),
            };
        }
        if planted("release.never") {
            return Ok(true);
        }
        if planted("release.of-another-key") {
            return self.0.delete_if_equals(&format!("{key}:"), value).await;
        }
        if planted("release.leaves-it-to-expire") {
            return self.0.expire_if_equals(key, value, Duration::from_millis(20)).await;
        }
        if planted("release.tried-until-answered") {
            while self.0.delete(key).await.is_err() {}
            return Ok(true);
        }
        self.0.delete_if_equals(key, value).await
    }

    async fn set_if_equals(&self, key: &str, value: &str, ttl: Option<Duration>) -> Result<bool, RequestError> {
        self.0.set_if_equals(key, value, ttl).await
    }

    async fn delete_by(&self, command: CompareAndDelete, key: &str, value: &str) -> Result<Option<bool>, RequestError> {
        self.0.delete_by(command, key, value).await
    }

    async fn wait_for(&self, replicas: u32) -> Result<u32, RequestError> {
        if planted("wait.answer-ignored") {
            let _ = self.0.wait_for(replicas).await;
            return Ok(replicas);
        }
        self.0.wait_for(replicas).await
    }
}

/// The clock of a wrong lock.
#[derive(Clone)]
pub(super) struct MutatedClock<C>(pub C);

impl<C: Clock> Clock for MutatedClock<C> {
    fn now(&self) -> Duration {
        if planted("clock.stands-still") { Duration::ZERO } else { self.0.now() }
    }

    async fn sleep(&self, length: Duration) {
        self.0.sleep(length).await;
    }

    fn draw(&self, range: (Duration, Duration)) -> Duration {
        self.0.draw(range)
    }

    fn mark(&self) -> String {
        if planted("mark.same-for-all") { "owner".to_string() } else { self.0.mark() }
    }
}

/// A wrong lock, whose steps differ from those of the correct one.
pub(super) struct Mutated<C> {
    pub right: Box<dyn Algorithm>,
    pub clock: C,
}

#[async_trait]
impl<C: Clock> Algorithm for Mutated<C> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let mut attempt = self.right.attempt(key, hook).await;
        if attempt.is_err() && planted("attempt.failure-is-yes") {
            attempt = Ok(Held { mark: self.clock.mark(), validity: None, votes: Vec::new(), token: None });
        }
        let mut held = attempt?;
        if planted("attempt.released-at-once") {
            self.right.release(key, &held, hook).await;
        }
        if planted("token.constant") {
            held.token = held.token.map(|_| Token { number: 1, minor: None });
        }
        if planted("token.by-the-clock") {
            let seconds = self.clock.now().as_secs();
            held.token = held.token.map(|_| Token { number: 1 + seconds, minor: None });
        }
        if planted("token.shared-by-two") {
            held.token = held.token.map(|token| Token { number: token.number.div_ceil(2), ..token });
        }
        if planted("token.unpaired") {
            held.token = held.token.map(|token| Token { minor: None, ..token });
        }
        Ok(held)
    }

    async fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook) {
        self.right.release(key, held, hook).await;
        if planted("release.sent-twice") {
            self.clock.sleep(Duration::from_millis(30)).await;
            self.right.release(key, held, hook).await;
        }
    }

    async fn renew(&self, key: &str, held: &Held) -> Result<Duration, String> {
        if planted("renewal.not-waited-for") {
            let _ = tokio::time::timeout(Duration::ZERO, self.right.renew(key, held)).await;
            return Ok(Duration::from_secs(1));
        }
        match self.right.renew(key, held).await {
            Err(_) if planted("renewal.loss-ignored") => Ok(Duration::from_secs(1)),
            renewed => renewed,
        }
    }

    async fn taken(&self, held: &Held) -> String {
        if planted("steal.victim-is-deaf") { std::future::pending().await } else { self.right.taken(held).await }
    }

    async fn let_go(&self, held: &Held) {
        if !planted("steal.victim-is-silent") {
            self.right.let_go(held).await;
        }
    }

    async fn ask(&self, key: &str, held: &Held) -> Result<(), String> {
        self.right.ask(key, held).await
    }

    fn may_act(&self, held: &Held) -> Result<(), String> {
        if planted("steal.victim-acts") { Ok(()) } else { self.right.may_act(held) }
    }
}
