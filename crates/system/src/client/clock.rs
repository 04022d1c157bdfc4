//! The clock that a lock computes with, and the client's random choices. They follow from the seed that the controller sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use super::protocol::Hello;
use base::machine::Machine;
use base::sync::lock;
use model::locks::Clock;

/// Length of a mark in bytes, as the documentation of the lock pattern advises.
const MARK_BYTES: usize = 20;

/// The machine's clock for the lock, and the lock's random waits and unique values.
#[derive(Clone)]
pub struct ClientClock {
    machine: Arc<dyn Machine>,
    /// True if the lock uses the time of day.
    wall: bool,
    waits: Arc<Mutex<ChaCha8Rng>>,
    marks: Arc<Marks>,
}

/// Makes unique marks from the client's name, the seed of its process, and the number of marks made before.
struct Marks {
    client: String,
    seed: u64,
    next: AtomicU64,
}

impl ClientClock {
    pub fn new(hello: &Hello, machine: &Arc<dyn Machine>) -> ClientClock {
        ClientClock {
            machine: Arc::clone(machine),
            wall: hello.lock.options.wall_clock.unwrap_or(false),
            waits: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(hello.seed))),
            marks: Arc::new(Marks { client: hello.client.clone(), seed: hello.seed, next: AtomicU64::new(0) }),
        }
    }
}

impl Clock for ClientClock {
    fn now(&self) -> Duration {
        if self.wall { self.machine.wall() } else { self.machine.monotonic() }
    }

    async fn sleep(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }

    fn draw(&self, (low, high): (Duration, Duration)) -> Duration {
        let (low, high) = (low.as_micros() as u64, high.as_micros() as u64);
        let mut waits = lock(&self.waits);
        Duration::from_micros(waits.random_range(low..=high.max(low)))
    }

    fn mark(&self) -> String {
        let Marks { client, seed, next } = &*self.marks;
        let number = next.fetch_add(1, Ordering::Relaxed);
        base::words::hex(&Sha256::digest(format!("{client} {seed} {number}"))[..MARK_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use base::machine::ThisMachine;

    /// The first 100 marks of a client's process.
    fn marks(client: &str, seed: u64) -> Vec<String> {
        let hello = format!(
            r#"{{"protocol":1,"client":"{client}","lock":{{"name":"single","ttl_ms":1000,"nodes":[],"options":{{}}}},
                 "resource":{{"kind":"register","url":"redis://b","fencing":"none"}},"seed":{seed}}}"#
        );
        let machine: Arc<dyn Machine> = Arc::new(ThisMachine);
        let clock = ClientClock::new(&serde_json::from_str(&hello).unwrap(), &machine);
        // A clone continues the sequence of its original.
        (0..50).flat_map(|_| [clock.mark(), clock.clone().mark()]).collect()
    }

    #[test]
    fn marks_follow_from_the_seed() {
        assert_eq!(marks("c1", 7), marks("c1", 7));
        assert!(marks("c1", 7).iter().all(|mark| mark.len() == 2 * MARK_BYTES));
    }

    #[test]
    fn no_two_acquisitions_have_the_same_mark() {
        // Another client, another process of the same client, and another client that was given the same seed.
        let processes = [("c1", 7), ("c2", 8), ("c1", 12), ("c3", 7)];
        let all: BTreeSet<String> = processes.into_iter().flat_map(|(client, seed)| marks(client, seed)).collect();
        assert_eq!(all.len(), 4 * 100);
    }
}
