//! A lock that is held, from its acquisition to its release.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use super::{Algorithm, Clock, Held, Lock, PhaseHook};
use base::sync::lock;

/// A lock that is held, or was: call [`Holding::look`] before you write.
pub struct Holding<'a, C> {
    lock: &'a Lock<C>,
    key: &'a str,
    pub held: Held,
    /// When the client acquired it, by the lock's clock.
    had: Duration,
    state: Mutex<LockState>,
}

/// The holder's knowledge of its lock.
struct LockState {
    /// When its validity ends, by the lock's clock; `None` if it does not expire.
    until: Option<Duration>,
    /// Why the lock is gone, once the holder knows.
    lost: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lock is valid for this long from now.
    Extended(Duration),
    /// It is no longer held, for this reason.
    Lost(String),
}

impl<'a, C: Clock> Holding<'a, C> {
    pub(super) fn new(lock: &'a Lock<C>, key: &'a str, held: Held) -> Holding<'a, C> {
        let had = lock.clock.now();
        let until = held.validity.map(|validity| had + validity);
        Holding { lock, key, held, had, state: Mutex::new(LockState { until, lost: None }) }
    }

    /// Renews the lock regularly, if it is renewed in the background, and notices when another client acquires it. Calls `tell`
    /// each time. Runs until it is dropped.
    pub async fn keep<F: Future<Output = ()>>(&self, tell: impl Fn(Renewal) -> F) -> Infallible {
        while let Some(algorithm) = &self.lock.algorithm {
            let renewed = tokio::select! {
                biased;
                reason = algorithm.taken(&self.held) => Err(reason),
                renewed = self.renewed(algorithm.as_ref()) => renewed,
            };
            if !self.note(algorithm.as_ref(), renewed, &tell).await {
                break;
            }
        }
        std::future::pending().await
    }

    /// True if only [`Holding::work`] renews it.
    pub fn is_extended_by_its_holder(&self) -> bool {
        self.lock.extends.is_some()
    }

    /// Works for `length` plus a TTL, and extends the lock whenever that is due, until it is lost. Calls `tell` each time.
    /// Returns at once for a lock that its holder does not extend.
    pub async fn work<F: Future<Output = ()>>(&self, length: Duration, tell: impl Fn(Renewal) -> F) {
        let Lock { algorithm: Some(algorithm), renew_every: Some(every), extends: Some(longer), clock, .. } = self.lock
        else {
            return;
        };
        let end = clock.now() + length + *longer;
        let mut due = self.had + *every;
        while due < end {
            clock.sleep(due.saturating_sub(clock.now())).await;
            let renewed = algorithm.renew(self.key, &self.held).await;
            if !self.note(algorithm.as_ref(), renewed, &tell).await {
                return;
            }
            due = clock.now() + *every;
        }
        clock.sleep(end.saturating_sub(clock.now())).await;
    }

    /// Stores the result of a renewal and passes it to `tell`; false if the lock is lost.
    async fn note<F: Future<Output = ()>>(
        &self,
        algorithm: &dyn Algorithm,
        renewed: Result<Duration, String>,
        tell: impl Fn(Renewal) -> F,
    ) -> bool {
        match renewed {
            Ok(validity) => {
                self.state().until = Some(self.lock.clock.now() + validity);
                tell(Renewal::Extended(validity)).await;
                true
            }
            Err(reason) => {
                self.state().lost = Some(reason.clone());
                tell(Renewal::Lost(reason)).await;
                algorithm.let_go(&self.held).await;
                false
            }
        }
    }

    /// The next renewal, when it is due; never resolves if the lock is not renewed in the background.
    async fn renewed(&self, algorithm: &dyn Algorithm) -> Result<Duration, String> {
        let Some(every) = self.lock.renew_every.filter(|_| self.lock.extends.is_none()) else {
            return std::future::pending().await;
        };
        self.lock.clock.sleep(every).await;
        algorithm.renew(self.key, &self.held).await
    }

    /// The holder's last check before it writes. The error says that its lock is gone. A lock with `asks` asks its nodes, and an
    /// answer that comes too late counts as none. A lock without renewal, recheck or stealing always passes.
    pub async fn look(&self) -> Result<(), String> {
        if let Some(algorithm) = self.lock.algorithm.as_ref().filter(|_| self.lock.asks) {
            algorithm.ask(self.key, &self.held).await?;
        }
        let state = self.state();
        if let Some(reason) = &state.lost {
            return Err(reason.clone());
        }
        let over = state.until.is_some_and(|until| self.lock.clock.now() >= until);
        if (self.lock.recheck || self.lock.asks) && over {
            return Err("its validity is over".to_string());
        }
        self.lock.algorithm.as_ref().map_or(Ok(()), |algorithm| algorithm.may_act(&self.held))
    }

    /// True if [`Holding::keep`] has already noticed that the lock is gone.
    pub fn is_known_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    /// Releases the lock. If the caller is cancelled meanwhile, it may call this again.
    pub async fn release(&self, hook: &dyn PhaseHook) {
        if let Some(algorithm) = &self.lock.algorithm {
            algorithm.release(self.key, &self.held, hook).await;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LockState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeClock, FakeMail, FakeNode, Nobody};
    use super::super::redlock::RedlockSettings;
    use super::super::{LockOptions, LockSettings};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn on_three(clock: &FakeClock) -> Vec<FakeNode> {
        (0..3).map(|_| FakeNode::new(&[], clock.clone())).collect()
    }

    fn redlock(nodes: Vec<FakeNode>, clock: &FakeClock, options: LockOptions) -> Lock<FakeClock> {
        let options = LockOptions { retry_delay_ms: Some((5, 9)), ..options };
        let options = options.with(&RedlockSettings::new(0.01).unwrap());
        let settings = LockSettings { name: "redlock".into(), ttl_ms: 1000, nodes: Vec::new(), group: None, options };
        Lock::from_settings(&settings, nodes, clock.clone(), FakeMail::default()).unwrap()
    }

    #[tokio::test]
    async fn only_a_lock_that_looks_again_says_that_its_validity_is_over() {
        for recheck in [false, true] {
            let clock = FakeClock::default();
            let lock =
                redlock(on_three(&clock), &clock, LockOptions { recheck: Some(recheck), ..LockOptions::default() });
            let holding = lock.acquire("k", SECOND, &Nobody).await.unwrap().unwrap();
            assert_eq!(holding.look().await, Ok(()));
            clock.sleep(SECOND - Duration::from_millis(12)).await;
            assert_eq!(holding.look().await.is_err(), recheck);
            assert!(!holding.is_known_lost());
        }
    }

    #[tokio::test]
    async fn a_lock_that_asks_learns_that_its_nodes_forgot_it_and_does_not_believe_an_answer_that_came_too_late() {
        for (asks, forgotten, waited_ms, silent, lost) in [
            (true, 1, 50, 0, None),
            (true, 2, 50, 0, Some("1 of 3 nodes report that they have the key, 2 needed")),
            (false, 2, 50, 0, None),
            (true, 0, 900, 1, None),
            (true, 0, 960, 1, Some("its validity is over")),
            (true, 0, 50, 2, Some("1 of 3 nodes report that they have the key, 2 needed")),
        ] {
            let clock = FakeClock::default();
            let nodes = on_three(&clock);
            let options = LockOptions { asks: Some(asks), ..LockOptions::default() };
            let lock = redlock(nodes.clone(), &clock, options);
            let holding = lock.acquire("k", SECOND, &Nobody).await.unwrap().unwrap();
            nodes[..forgotten].iter().for_each(FakeNode::forget);
            nodes[3 - silent..].iter().for_each(|node| node.lose_replies(1));
            clock.sleep(Duration::from_millis(waited_ms)).await;
            assert_eq!(holding.look().await.err().as_deref(), lost, "{asks}, {forgotten} forgot, {waited_ms} ms");
        }
    }

    #[tokio::test]
    async fn a_lock_that_is_renewed_outlives_its_ttl_until_it_is_gone() {
        let clock = FakeClock::default();
        let renewed = LockOptions { renew_every_ms: Some(300), recheck: Some(true), ..LockOptions::default() };
        let lock = redlock(on_three(&clock), &clock, renewed);
        let holding = lock.acquire("k", SECOND, &Nobody).await.unwrap().unwrap();
        let told = Mutex::new(Vec::new());
        let kept = holding.keep(|renewal| {
            told.lock().unwrap().push(renewal);
            if told.lock().unwrap().len() == 5 {
                // The holder was stopped for longer than the TTL.
                let stopped = clock.sleep(SECOND);
                futures_util::FutureExt::now_or_never(stopped);
            }
            std::future::ready(())
        });
        let ended = tokio::time::timeout(Duration::from_millis(50), kept).await;
        assert!(ended.is_err(), "it ends with its caller only");
        let told = told.into_inner().unwrap();
        assert!(told[..5].iter().all(|renewal| *renewal == Renewal::Extended(Duration::from_millis(988))), "{told:?}");
        assert_eq!(told[5..], [Renewal::Lost("renewed on 0 of 3 nodes, 2 needed".into())]);
        assert!(holding.is_known_lost() && holding.look().await.is_err());
    }

    #[tokio::test]
    async fn a_holder_extends_its_lock_while_it_works_and_at_no_other_time() {
        let clock = FakeClock::default();
        let extends = LockOptions { renew_every_ms: Some(300), extends: Some(true), ..LockOptions::default() };
        let lock = redlock(on_three(&clock), &clock, extends);
        let work = |stopped: Duration| {
            let (clock, lock) = (&clock, &lock);
            async move {
                let holding = lock.acquire("k", SECOND, &Nobody).await.unwrap().unwrap();
                clock.sleep(stopped).await;
                let told = Mutex::new(Vec::new());
                let began = clock.now();
                holding
                    .work(Duration::from_millis(200), |renewal| {
                        told.lock().unwrap().push(renewal);
                        std::future::ready(())
                    })
                    .await;
                holding.release(&Nobody).await;
                (told.into_inner().unwrap(), clock.now() - began)
            }
        };
        let (told, took) = work(Duration::ZERO).await;
        assert_eq!(told, vec![Renewal::Extended(Duration::from_millis(988)); 3]);
        assert!(took >= Duration::from_millis(1200), "a TTL longer than it was to take: {took:?}");
        // A holder that stood still for a TTL learns that at once.
        let (told, _) = work(SECOND).await;
        assert_eq!(told, [Renewal::Lost("renewed on 0 of 3 nodes, 2 needed".into())]);
    }

    #[tokio::test]
    async fn what_is_missing_or_unknown_is_named() {
        let clock = FakeClock::default();
        for (name, nodes, expected) in [
            ("redlok", 1, "unknown lock `redlok`; this client knows"),
            ("single", 0, "lock single needs a node"),
            ("redlock", 0, "lock redlock needs nodes"),
            ("redlock", 3, "lock redlock: missing field `drift_factor`"),
            ("incr", 1, "lock incr needs `retry_delay_ms`"),
        ] {
            let options = LockOptions::default();
            let settings = LockSettings { name: name.into(), ttl_ms: 1000, nodes: Vec::new(), group: None, options };
            let nodes = (0..nodes).map(|_| FakeNode::new(&[], clock.clone())).collect();
            let error = Lock::from_settings(&settings, nodes, clock.clone(), FakeMail::default()).err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}
