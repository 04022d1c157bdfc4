//! A node and a clock for the locks' own tests: a Redis in one map, scripted answers, and lost replies. Time moves only when an
//! operation takes time.
//!
//! This is not the simulated Redis, because locks may not depend on the client that turns a [`Node`]'s requests into commands and
//! scripts. These tests also need exact control: one millisecond of validity left, a lost reply to the third of five nodes, the
//! list of requested deletions. The tests of the same locks on simulated and real servers are in tests/offline/simulated and
//! tests/clusters.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Clock, CompareAndDelete, Mail, Node, OneNode, PhaseHook, RequestError};

/// A fake node's answer to one attempt to acquire, whatever the node stores.
#[derive(Clone, Copy, Debug)]
pub enum FakeAnswer {
    /// The node sets the key, and its answer takes this long.
    Set {
        after_ms: u64,
    },
    /// The node sets the key, but its answer is lost.
    SetSilently,
    Taken,
    /// The request is lost.
    Silent,
}

/// Clones are the same node.
#[derive(Clone)]
pub struct FakeNode {
    state: Arc<Mutex<FakeState>>,
    clock: FakeClock,
}

#[derive(Default)]
struct FakeState {
    answers: VecDeque<FakeAnswer>,
    /// Values, and when they expire.
    keys: BTreeMap<String, (String, Option<Duration>)>,
    deleted: Vec<(String, String)>,
    /// The command by which it compares and deletes, and those that were tried.
    has: Option<CompareAndDelete>,
    tried: Vec<CompareAndDelete>,
    replies_to_lose: u32,
    cut_off: bool,
}

impl FakeNode {
    pub const TIMEOUT_MS: u64 = 50;
    /// How many replicas acknowledge each write.
    pub const REPLICAS: u32 = 1;

    /// A node that gives these answers to the first attempts to acquire, and then answers like Redis.
    pub fn new(answers: &[FakeAnswer], clock: FakeClock) -> FakeNode {
        let state = FakeState { answers: answers.iter().copied().collect(), ..FakeState::default() };
        FakeNode { state: Arc::new(Mutex::new(state)), clock }
    }

    /// The node's state, without keys that have expired.
    fn state(&self) -> MutexGuard<'_, FakeState> {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap();
        state.keys.retain(|_, (_, expires)| expires.is_none_or(|expires| now < expires));
        state
    }

    /// The marks whose deletion was requested, in order.
    pub fn deleted(&self) -> Vec<String> {
        self.state().deleted.iter().map(|(_, mark)| mark.clone()).collect()
    }

    /// Sets the command by which it compares and deletes; without one it has scripts only.
    pub fn has_command(&self, command: Option<CompareAndDelete>) {
        self.state().has = command;
    }

    /// The commands by which it was to compare and delete, in order, whether it has them or not.
    pub fn tried_commands(&self) -> Vec<CompareAndDelete> {
        self.state().tried.clone()
    }

    /// How often a client tried to delete a key.
    pub fn deletions(&self, key: &str) -> usize {
        self.state().deleted.iter().filter(|(deleted, _)| deleted == key).count()
    }

    /// Loses the answers to the next requests, this many, other than attempts to acquire.
    pub fn lose_replies(&self, replies: u32) {
        self.state().replies_to_lose = replies;
    }

    /// Sets whether requests fail to reach it.
    pub fn cut_off(&self, cut_off: bool) {
        self.state().cut_off = cut_off;
    }

    /// Forgets all keys, as after a restart without persistence.
    pub fn forget(&self) {
        self.state().keys.clear();
    }

    pub fn value(&self, key: &str) -> Option<String> {
        self.state().keys.get(key).map(|(value, _)| value.clone())
    }

    fn put(&self, key: &str, value: &str, ttl: Option<Duration>) {
        let expires = ttl.map(|ttl| self.clock.now() + ttl);
        self.state().keys.insert(key.to_string(), (value.to_string(), expires));
    }

    fn set(&self, key: &str, value: &str, ttl: Option<Duration>) -> bool {
        let absent = self.value(key).is_none();
        if absent {
            self.put(key, value, ttl);
        }
        absent
    }

    fn expire_at_once(&self, key: &str, ttl: Duration) -> bool {
        let expires = self.clock.now() + ttl;
        self.state().keys.get_mut(key).map(|entry| entry.1 = Some(expires)).is_some()
    }

    fn count(&self, key: &str) -> u64 {
        let mut state = self.state();
        let (value, _) = state.keys.entry(key.to_string()).or_insert(("0".to_string(), None));
        *value = (value.parse::<u64>().unwrap() + 1).to_string();
        value.parse().unwrap()
    }

    async fn timeout<T>(&self) -> Result<T, RequestError> {
        let timeout = Duration::from_millis(Self::TIMEOUT_MS);
        self.clock.sleep(timeout).await;
        Err(RequestError::Timeout(timeout))
    }

    /// An attempt to acquire: the scripted answer if there is one, else Redis's answer.
    async fn acquisition<T>(&self, taken: T, act: impl FnOnce() -> T) -> Result<T, RequestError> {
        if self.state().cut_off {
            return self.timeout().await;
        }
        let answer = self.state().answers.pop_front();
        match answer {
            None => Ok(act()),
            Some(FakeAnswer::Set { after_ms }) => {
                let done = act();
                self.clock.sleep(Duration::from_millis(after_ms)).await;
                Ok(done)
            }
            Some(FakeAnswer::SetSilently) => {
                act();
                self.timeout().await
            }
            Some(FakeAnswer::Taken) => Ok(taken),
            Some(FakeAnswer::Silent) => self.timeout().await,
        }
    }

    /// Any other request.
    async fn request<T>(&self, act: impl FnOnce() -> T) -> Result<T, RequestError> {
        if self.state().cut_off {
            return self.timeout().await;
        }
        let done = act();
        let left = self.state().replies_to_lose;
        self.state().replies_to_lose = left.saturating_sub(1);
        if left > 0 { self.timeout().await } else { Ok(done) }
    }

    /// Deletes the key if it holds this mark; deletes it whatever it holds if `mark` is None.
    async fn deletion(&self, key: &str, mark: Option<&str>) -> Result<bool, RequestError> {
        let present = self.value(key);
        self.state().deleted.push((key.to_string(), mark.or(present.as_deref()).unwrap_or_default().to_string()));
        self.request(|| {
            let equal = mark.is_none_or(|mark| self.value(key).as_deref() == Some(mark));
            equal && self.state().keys.remove(key).is_some()
        })
        .await
    }
}

impl Node for FakeNode {
    async fn set_if_absent(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.acquisition(false, || self.set(key, value, Some(ttl))).await
    }

    async fn set_for_ever_if_absent(&self, key: &str, value: &str) -> Result<bool, RequestError> {
        self.acquisition(false, || self.set(key, value, None)).await
    }

    async fn set_if_absent_and_count(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
        counter: &str,
    ) -> Result<Option<u64>, RequestError> {
        self.acquisition(None, || self.set(key, value, Some(ttl)).then(|| self.count(counter))).await
    }

    async fn set_if_outranks(
        &self,
        key: &str,
        value: &str,
        rank: u32,
        ttl: Duration,
    ) -> Result<(bool, Option<String>), RequestError> {
        self.acquisition((false, None), || {
            let before = self.value(key);
            let outranked = |before: &String| before.split(' ').next().unwrap().parse::<u32>().unwrap() < rank;
            let set = before.as_ref().is_none_or(outranked);
            if set {
                self.put(key, value, Some(ttl));
            }
            (set, before)
        })
        .await
    }

    async fn expire(&self, key: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.request(|| self.expire_at_once(key, ttl)).await
    }

    async fn expire_if_equals(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.request(|| self.value(key).as_deref() == Some(value) && self.expire_at_once(key, ttl)).await
    }

    async fn get(&self, key: &str) -> Result<Option<String>, RequestError> {
        self.request(|| self.value(key)).await
    }

    async fn increment(&self, key: &str) -> Result<u64, RequestError> {
        self.acquisition(2, || self.count(key)).await
    }

    async fn raise(&self, key: &str, number: u64) -> Result<(), RequestError> {
        self.request(|| {
            let present = self.value(key).map_or(0, |value| value.parse::<u64>().unwrap());
            self.put(key, &present.max(number).to_string(), None);
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<bool, RequestError> {
        self.deletion(key, None).await
    }

    async fn delete_if_equals(&self, key: &str, mark: &str) -> Result<bool, RequestError> {
        self.deletion(key, Some(mark)).await
    }

    async fn set_if_equals(&self, key: &str, value: &str, ttl: Option<Duration>) -> Result<bool, RequestError> {
        self.request(|| {
            let equal = self.value(key).as_deref() == Some(value);
            if equal {
                self.put(key, value, ttl);
            }
            equal
        })
        .await
    }

    async fn delete_by(&self, command: CompareAndDelete, key: &str, mark: &str) -> Result<Option<bool>, RequestError> {
        self.state().tried.push(command);
        if self.state().has != Some(command) {
            return Ok(None);
        }
        self.deletion(key, Some(mark)).await.map(Some)
    }

    async fn wait_for(&self, _: u32) -> Result<u32, RequestError> {
        Ok(Self::REPLICAS)
    }
}

/// The lock `L` with a TTL of 100 ms on a node that gives these answers first.
pub fn one_node<L>(answers: &[FakeAnswer]) -> OneNode<FakeNode, FakeClock, L> {
    let clock = FakeClock::default();
    let node = FakeNode::new(answers, clock.clone());
    OneNode { node, clock, ttl: Duration::from_millis(100), lock: PhantomData }
}

#[derive(Clone, Default)]
pub struct FakeClock {
    time: Arc<Mutex<Duration>>,
    marks: Arc<AtomicU64>,
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        *self.time.lock().unwrap()
    }

    async fn sleep(&self, length: Duration) {
        *self.time.lock().unwrap() += length;
        tokio::task::yield_now().await;
    }

    fn draw(&self, (low, _): (Duration, Duration)) -> Duration {
        low
    }

    fn mark(&self) -> String {
        format!("{:040x}", self.marks.fetch_add(1, Ordering::Relaxed))
    }
}

/// A post office: every message arrives, until it is cut off.
#[derive(Clone, Default)]
pub struct FakeMail {
    boxes: Arc<Mutex<BTreeMap<String, UnboundedSender<String>>>>,
}

impl Mail for FakeMail {
    async fn send(&self, address: &str, text: &str) {
        if let Some(mailbox) = self.boxes.lock().unwrap().get(address) {
            mailbox.send(text.to_string()).unwrap();
        }
    }

    fn listen(&self, address: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        self.boxes.lock().unwrap().insert(address.to_string(), sender);
        receiver
    }
}

impl FakeMail {
    /// From now on no message arrives.
    pub fn cut_off(&self) {
        self.boxes.lock().unwrap().clear();
    }
}

/// A hook that does nothing.
pub struct Nobody;

#[async_trait]
impl PhaseHook for Nobody {}

/// A hook that blocks every acquisition half-way.
pub struct Stuck;

#[async_trait]
impl PhaseHook for Stuck {
    async fn half_acquired(&self) {
        std::future::pending().await
    }
}

/// A hook that counts how often a lock was half acquired.
#[derive(Default)]
pub struct Count(pub AtomicU64);

#[async_trait]
impl PhaseHook for Count {
    async fn half_acquired(&self) {
        _ = self.0.fetch_add(1, Ordering::Relaxed)
    }
}
