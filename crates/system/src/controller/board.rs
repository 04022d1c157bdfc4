//! Tracks how far each client is in its operation. A nemesis uses it to pick the client that holds the lock, and a script to wait
//! for a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use base::sync::{lock, until};
use model::history::{Outcome, Phase};

/// The progress of every client. Clones are cheap and share one board.
#[derive(Clone)]
pub struct ClientStates {
    clients: Arc<Mutex<Vec<ClientProgress>>>,
    /// For each key, the start time of the operation that acquired its lock; of several operations, the latest start time.
    taken: Arc<Mutex<BTreeMap<String, Instant>>>,
    changed: Arc<Notify>,
}

#[derive(Clone, Debug, Default)]
pub struct ClientProgress {
    /// How many operations it has begun.
    pub begun: u64,
    /// The key of its latest operation.
    pub key: String,
    /// When its latest operation began.
    pub began: Option<Instant>,
    /// How many of its operations have ended.
    pub ended: u64,
    /// How many of its operations were acknowledged.
    pub acknowledged: u64,
    /// The phases it has reported in its latest operation.
    pub reached: Vec<(Phase, Instant)>,
    /// How often its process has been replaced.
    pub replaced: u64,
}

/// A client that does not report its reads is assumed to have read within this time.
const READS_BY_THEN: Duration = Duration::from_millis(30);

impl ClientStates {
    pub fn new(clients: u32) -> ClientStates {
        let clients = Arc::new(Mutex::new(vec![ClientProgress::default(); clients as usize]));
        ClientStates { clients, taken: Arc::default(), changed: Arc::default() }
    }

    pub fn begin(&self, client: u32, key: &str) {
        self.change(client, |standing| {
            standing.begun += 1;
            standing.key = key.to_string();
            standing.began = Some(Instant::now());
            standing.reached.clear();
        });
    }

    pub fn reach(&self, client: u32, phase: Phase) {
        self.change(client, |standing| {
            standing.reached.push((phase, Instant::now()));
            if let (Phase::Acquired, Some(began)) = (phase, standing.began) {
                let mut taken = lock(&self.taken);
                let last = taken.entry(standing.key.clone()).or_insert(began);
                *last = began.max(*last);
            }
        });
    }

    /// True if an operation that began after `moment` has acquired the key's lock.
    pub fn was_taken_since(&self, key: &str, moment: Instant) -> bool {
        lock(&self.taken).get(key).is_some_and(|began| *began > moment)
    }

    /// Records that a client's operation is over.
    pub fn end(&self, client: u32, outcome: Outcome) {
        self.change(client, |standing| {
            standing.ended += 1;
            standing.acknowledged += u64::from(outcome == Outcome::Ok);
        });
    }

    /// Records that a client's process has been replaced by a new process, which is ready.
    pub fn replace(&self, client: u32) {
        self.change(client, |standing| standing.replaced += 1);
    }

    pub fn is_busy(&self, client: u32) -> bool {
        self.clients().get(client as usize).is_some_and(|standing| standing.begun > standing.ended)
    }

    /// The key of a client's latest operation.
    pub fn key_of(&self, client: u32) -> String {
        self.clients().get(client as usize).map_or(String::new(), |standing| standing.key.clone())
    }

    /// How many operations of each client were acknowledged.
    pub fn acknowledged(&self) -> Vec<u64> {
        self.clients().iter().map(|standing| standing.acknowledged).collect()
    }

    /// Waits until an operation of any client was acknowledged; returns when this call saw it.
    pub async fn first_acknowledged(&self) -> Instant {
        let acknowledged = |clients: &mut Vec<ClientProgress>| {
            clients.iter().any(|standing| standing.acknowledged > 0).then(Instant::now)
        };
        until(&self.clients, &self.changed, acknowledged).await
    }

    /// How often a client's process has been replaced.
    pub fn replaced(&self, client: u32) -> u64 {
        self.clients().get(client as usize).map_or(0, |standing| standing.replaced)
    }

    fn change(&self, client: u32, change: impl FnOnce(&mut ClientProgress)) {
        if let Some(standing) = self.clients().get_mut(client as usize) {
            change(standing);
        }
        self.changed.notify_waiters();
    }

    fn clients(&self) -> MutexGuard<'_, Vec<ClientProgress>> {
        lock(&self.clients)
    }

    /// Waits until `is_so` returns a value for a client's progress, possibly forever.
    pub async fn until<T>(&self, client: u32, is_so: impl Fn(&ClientProgress) -> Option<T>) -> T {
        until(&self.clients, &self.changed, |clients| clients.get(client as usize).and_then(&is_so)).await
    }

    /// Waits for a client that, after this call, is between its read and its write. A lost lock does most harm then. Waits
    /// forever if no client gets there.
    pub async fn fresh_holder(&self) -> u32 {
        let since = Instant::now();
        loop {
            let changed = self.changed.notified();
            if let Some(client) = holder(&self.clients(), since) {
                return client;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep(READS_BY_THEN) => {}
            }
        }
    }
}

fn holder(clients: &[ClientProgress], since: Instant) -> Option<u32> {
    (0..).zip(clients).find_map(|(client, standing)| {
        let (phase, reached) = *standing.reached.last().filter(|_| standing.begun > standing.ended)?;
        let between_read_and_write = match phase {
            Phase::Read => true,
            Phase::Acquired | Phase::Extended => reached.elapsed() >= READS_BY_THEN,
            _ => false,
        };
        (between_read_and_write && reached >= since).then_some(client)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_asked_before_does_not_show_that_a_lock_can_be_had_since() {
        let board = ClientStates::new(2);
        board.begin(0, "k0");
        let moment = Instant::now();
        board.reach(0, Phase::Acquired);
        board.begin(1, "k1");
        board.reach(1, Phase::Acquired);
        assert!(!board.was_taken_since("k0", moment), "it was asked for before");
        assert!(board.was_taken_since("k1", moment) && !board.was_taken_since("k2", moment));
        board.begin(0, "k0");
        board.reach(0, Phase::Acquiring);
        assert!(!board.was_taken_since("k0", moment), "it is only asked for");
        board.reach(0, Phase::Acquired);
        assert!(board.was_taken_since("k0", moment));
    }

    #[tokio::test(start_paused = true)]
    async fn the_holder_is_the_client_that_reads_next() {
        let board = ClientStates::new(4);
        (0..4).for_each(|client| board.begin(client, "k0"));
        board.reach(0, Phase::Read);
        sleep(Duration::from_millis(2)).await;
        let seen = board.clone();
        let waiting = tokio::spawn(async move { seen.fresh_holder().await });
        sleep(Duration::from_millis(2)).await;
        board.reach(1, Phase::Acquired);
        board.end(3, Outcome::Ok);
        board.reach(3, Phase::Read);
        board.reach(2, Phase::Read);
        assert_eq!(waiting.await.unwrap(), 2, "not 0, which may have written long ago, nor 1, which has not read");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reports_its_read_is_found_too_and_others_are_not() {
        let board = ClientStates::new(3);
        (0..3).for_each(|client| board.begin(client, "k0"));
        let seen = board.clone();
        let waiting = tokio::spawn(async move { seen.fresh_holder().await });
        sleep(Duration::from_millis(2)).await;
        board.reach(0, Phase::Written);
        board.reach(1, Phase::Acquired);
        board.end(2, Outcome::Ok);
        assert_eq!(waiting.await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_when_it_is_so_and_not_before() {
        let board = ClientStates::new(1);
        let seen = board.clone();
        let waiting = tokio::spawn(async move {
            seen.until(0, |standing| (standing.ended == 1).then_some(standing.reached.len())).await
        });
        board.begin(0, "k0");
        board.reach(0, Phase::Acquired);
        sleep(Duration::from_millis(2)).await;
        assert!(!waiting.is_finished());
        board.end(0, Outcome::Ok);
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
