//! Who is how far in its operation, so that a nemesis can pick the client that holds the lock.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::history::Phase;

/// The phase that each client reported last, and when. Cheap to clone; all clones show the same board.
#[derive(Clone)]
pub struct Board {
    clients: watch::Sender<Vec<Option<(Phase, Instant)>>>,
}

/// A client that does not report its reads is taken to be past them after this long.
const READS_BY_THEN: Duration = Duration::from_millis(30);

impl Board {
    pub fn new(clients: u32) -> Board {
        Board { clients: watch::Sender::new(vec![None; clients as usize]) }
    }

    /// A client has reached a phase, or is between two operations.
    pub fn set(&self, client: u32, phase: Option<Phase>) {
        self.clients.send_modify(|clients| {
            if let Some(slot) = clients.get_mut(client as usize) {
                *slot = phase.map(|phase| (phase, Instant::now()));
            }
        });
    }

    /// Waits for a client that has come between its read and its write after this call, the moment at which losing the lock
    /// hurts. Waits for ever where none does.
    pub async fn fresh_holder(&self) -> u32 {
        let since = Instant::now();
        let mut changes = self.clients.subscribe();
        loop {
            if let Some(client) = holder(&changes.borrow_and_update(), since) {
                return client;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(READS_BY_THEN) => {}
            }
        }
    }
}

fn holder(clients: &[Option<(Phase, Instant)>], since: Instant) -> Option<u32> {
    (0..).zip(clients).find_map(|(client, slot)| {
        let (phase, reached) = (*slot)?;
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

    #[tokio::test]
    async fn the_holder_is_the_client_that_reads_next() {
        let board = Board::new(3);
        board.set(0, Some(Phase::Read));
        tokio::time::sleep(Duration::from_millis(2)).await;
        let seen = board.clone();
        let waiting = tokio::spawn(async move { seen.fresh_holder().await });
        tokio::time::sleep(Duration::from_millis(2)).await;
        board.set(1, Some(Phase::Acquired));
        board.set(2, Some(Phase::Read));
        assert_eq!(waiting.await.unwrap(), 2, "not 0, which may have written long ago, nor 1, which has not read");
    }

    #[tokio::test]
    async fn a_client_that_never_reports_its_read_is_found_too_and_others_are_not() {
        let board = Board::new(3);
        let seen = board.clone();
        let waiting = tokio::spawn(async move { seen.fresh_holder().await });
        tokio::time::sleep(Duration::from_millis(2)).await;
        board.set(0, Some(Phase::Written));
        board.set(1, Some(Phase::Acquired));
        board.set(2, None);
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
