//! A node and a clock for the locks' own tests: a Redis that is one map, scripted answers, lost replies, and time that
//! moves only when something takes time.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Clock, Mail, Node, OneNode, PhaseHook, RequestError};

/// What a fake node answers to one attempt to acquire, whatever it holds.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// It does what it is asked, and the answer takes this long.
    Set {
        after_ms: u64,
    },
    /// It does what it is asked, but the answer is lost.
    SetSilently,
    Taken,
    /// The request is lost.
    Silent,
}

/// Clones are the same node.
#[derive(Clone)]
pub struct FakeNode {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    keys: Arc<Mutex<BTreeMap<String, Entry>>>,
    deleted: Arc<Mutex<Vec<(String, String)>>>,
    replies_to_lose: Arc<Mutex<u32>>,
    cut_off: Arc<Mutex<bool>>,
    clock: FakeClock,
}

struct Entry {
    value: String,
    expires: Option<Duration>,
}

impl FakeNode {
    pub const TIMEOUT_MS: u64 = 50;
    /// How many replicas acknowledge each write.
    pub const REPLICAS: u32 = 1;

    /// A node that gives these answers to the first attempts to acquire, and then answers like a Redis.
    pub fn new(answers: &[Answer], clock: FakeClock) -> FakeNode {
        FakeNode {
            answers: Arc::new(Mutex::new(answers.iter().copied().collect())),
            keys: Arc::default(),
            deleted: Arc::default(),
            replies_to_lose: Arc::default(),
            cut_off: Arc::default(),
            clock,
        }
    }

    /// The marks whose deletion was asked for, in order.
    pub fn deleted(&self) -> Vec<String> {
        self.deleted.lock().unwrap().iter().map(|(_, mark)| mark.clone()).collect()
    }

    /// How often somebody tried to delete a key.
    pub fn deletions(&self, key: &str) -> usize {
        self.deleted.lock().unwrap().iter().filter(|(deleted, _)| deleted == key).count()
    }

    /// Loses the answers to this many requests other than attempts to acquire.
    pub fn lose_replies(&self, replies: u32) {
        *self.replies_to_lose.lock().unwrap() = replies;
    }

    /// Sets whether requests are kept from reaching it.
    pub fn cut_off(&self, cut_off: bool) {
        *self.cut_off.lock().unwrap() = cut_off;
    }

    /// Forgets everything, as after a restart without persistence.
    pub fn forget(&self) {
        self.keys.lock().unwrap().clear();
    }

    pub fn value(&self, key: &str) -> Option<String> {
        let now = self.clock.now();
        let mut keys = self.keys.lock().unwrap();
        keys.retain(|_, entry| entry.expires.is_none_or(|expires| now < expires));
        keys.get(key).map(|entry| entry.value.clone())
    }

    fn put(&self, key: &str, value: String, expires: Option<Duration>) {
        self.keys.lock().unwrap().insert(key.to_string(), Entry { value, expires });
    }

    fn set_expiry(&self, key: &str, ttl: Duration) {
        let expires = self.clock.now() + ttl;
        if let Some(entry) = self.keys.lock().unwrap().get_mut(key) {
            entry.expires = Some(expires);
        }
    }

    fn count(&self, key: &str) -> u64 {
        let count = self.value(key).map_or(0, |value| value.parse::<u64>().unwrap()) + 1;
        let expires = self.keys.lock().unwrap().get(key).and_then(|entry| entry.expires);
        self.put(key, count.to_string(), expires);
        count
    }

    async fn timeout<T>(&self) -> Result<T, RequestError> {
        let timeout = Duration::from_millis(Self::TIMEOUT_MS);
        self.clock.sleep(timeout).await;
        Err(RequestError::Timeout(timeout))
    }

    /// An attempt to acquire: the scripted answer if there is one, else what a Redis does.
    async fn acquisition<T>(&self, taken: T, act: impl FnOnce() -> T) -> Result<T, RequestError> {
        if *self.cut_off.lock().unwrap() {
            return self.timeout().await;
        }
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            None => Ok(act()),
            Some(Answer::Set { after_ms }) => {
                let done = act();
                self.clock.sleep(Duration::from_millis(after_ms)).await;
                Ok(done)
            }
            Some(Answer::SetSilently) => {
                act();
                self.timeout().await
            }
            Some(Answer::Taken) => Ok(taken),
            Some(Answer::Silent) => self.timeout().await,
        }
    }

    /// Any other request.
    async fn request<T>(&self, act: impl FnOnce() -> T) -> Result<T, RequestError> {
        if *self.cut_off.lock().unwrap() {
            return self.timeout().await;
        }
        let done = act();
        let lost = {
            let mut left = self.replies_to_lose.lock().unwrap();
            let lost = *left > 0;
            *left = left.saturating_sub(1);
            lost
        };
        if lost { self.timeout().await } else { Ok(done) }
    }

    fn set(&self, key: &str, value: &str, ttl: Option<Duration>) -> bool {
        let absent = self.value(key).is_none();
        if absent {
            self.put(key, value.to_string(), ttl.map(|ttl| self.clock.now() + ttl));
        }
        absent
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
                self.put(key, value.to_string(), Some(self.clock.now() + ttl));
            }
            (set, before)
        })
        .await
    }

    async fn expire(&self, key: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.request(|| {
            self.set_expiry(key, ttl);
            self.value(key).is_some()
        })
        .await
    }

    async fn expire_if_equals(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        self.request(|| {
            let equal = self.value(key).as_deref() == Some(value);
            if equal {
                self.set_expiry(key, ttl);
            }
            equal
        })
        .await
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
            self.put(key, present.max(number).to_string(), None);
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<bool, RequestError> {
        self.deleted.lock().unwrap().push((key.to_string(), self.value(key).unwrap_or_default()));
        self.request(|| self.keys.lock().unwrap().remove(key).is_some()).await
    }

    async fn delete_if_equals(&self, key: &str, mark: &str) -> Result<bool, RequestError> {
        self.deleted.lock().unwrap().push((key.to_string(), mark.to_string()));
        self.request(|| {
            let equal = self.value(key).as_deref() == Some(mark);
            equal && self.keys.lock().unwrap().remove(key).is_some()
        })
        .await
    }

    async fn wait_for(&self, _: u32) -> Result<u32, RequestError> {
        Ok(Self::REPLICAS)
    }
}

/// The lock `L` with a TTL of 100 ms on a node that gives these answers first.
pub fn one_node<L>(answers: &[Answer]) -> OneNode<FakeNode, FakeClock, L> {
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

/// A post office: everything arrives, until it is cut off.
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
    /// From now on nothing reaches anybody.
    pub fn cut_off(&self) {
        self.boxes.lock().unwrap().clear();
    }
}

/// A hook that lets everything pass.
pub struct Nobody;

impl PhaseHook for Nobody {
    fn half_acquired(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn half_released(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A hook that lets nothing pass.
pub struct Stuck;

impl PhaseHook for Stuck {
    fn half_acquired(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn half_released(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// A hook that remembers what it was told.
#[derive(Default)]
pub struct Record(Mutex<Vec<&'static str>>);

impl Record {
    pub fn moments(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl PhaseHook for Record {
    fn half_acquired(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.lock().unwrap().push("half-acquired") })
    }

    fn half_released(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.lock().unwrap().push("half-released") })
    }
}
