//! The perfect lock, which the controller itself grants. Each key has one holder, or any number of holders that only read, until
//! they release the lock.
//!
//! A holder that crashes keeps the lock until nothing that it sent can still arrive at the resource. Then its process is gone,
//! and the resource has closed its connections. The resource has carried out everything that arrived before. Packets still in the
//! network find no connection. If this can't be confirmed, the lock stays taken.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard};

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::facts::{BETWEEN_TRIES, HEALTHY_LIMIT, connections_from};
use super::{Run, RunError};
use crate::faults::{RedisCommand, RedisReply};
use base::members::client_name;
use base::mutants::planted;
use base::sync::lock;
use base::words;
use model::scenario::Scenario;

/// The holders of each key's lock.
pub(super) struct Grants {
    /// How many clients may hold a lock at once.
    permits: usize,
    held: Mutex<BTreeMap<String, Vec<Holder>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub process: u32,
    pub operation: u64,
    /// True if it holds the lock for reading, together with other readers.
    pub shared: bool,
}

impl Grants {
    pub fn new(scenario: &Scenario) -> Grants {
        Grants::to(scenario.workload.lock.holders().unwrap_or(scenario.workload.permits))
    }

    fn to(permits: u32) -> Grants {
        Grants { permits: permits as usize, held: Mutex::default() }
    }

    /// Grants the lock to the client if it is free for it; returns whether it was.
    pub fn ask(&self, key: &str, asker: Holder) -> bool {
        let mut held = self.held();
        let holders = held.entry(key.to_string()).or_default();
        let unseen = |holder: &Holder| holder.shared || planted("grants.reader-beside-writer");
        let beside = asker.shared && holders.iter().all(unseen);
        let readers_only = planted("grants.writer-beside-readers") && holders.iter().all(|holder| holder.shared);
        let permits = self.permits + usize::from(planted("grants.one-too-many"));
        let free = beside || readers_only || holders.len() < permits;
        if free {
            holders.push(asker);
        }
        free
    }

    /// Releases the lock if the client holds it.
    pub fn give_back(&self, key: &str, giver: Holder) {
        if let Some(holders) = self.held().get_mut(key) {
            holders.retain(|holder| *holder != giver && !planted("grants.release-frees-all"));
        }
    }

    /// True if a process holds any lock.
    fn has_any(&self, process: u32) -> bool {
        self.held().values().flatten().any(|holder| holder.process == process)
    }

    /// Releases every lock that a process held.
    fn take_from(&self, process: u32) {
        self.held().values_mut().for_each(|holders| holders.retain(|holder| holder.process != process));
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Holder>>> {
        lock(&self.held)
    }
}

impl Run<'_> {
    /// Releases the locks of a client's replaced process, once nothing that it sent can still arrive at the resource.
    pub(super) async fn take_from(&self, client: u32, process: u32) -> Result<(), RunError> {
        if !self.grants.has_any(process) {
            return Ok(());
        }
        self.cluster.kill_client(client).await?;
        let disconnected = tokio::select! {
            biased;
            () = self.cut_off.raised() => Err("the run was ending".to_string()),
            disconnected = self.disconnect(client) => disconnected,
        };
        match disconnected {
            Ok(()) => self.grants.take_from(process),
            Err(reason) => warn!(client, reason, "its locks remain held"),
        }
        Ok(())
    }

    /// Makes the resource close all connections of a client whose process is gone.
    async fn disconnect(&self, client: u32) -> Result<(), String> {
        let name = client_name(client);
        let address: Vec<Ipv4Addr> =
            self.cluster.members().filter(|member| member.name == name).filter_map(|member| member.address).collect();
        let deadline = Instant::now() + self.longest_fault() + HEALTHY_LIMIT;
        loop {
            let seen = match self.at_the_resource(&["CLIENT", "LIST"]).await {
                Ok(list) => match connections_from(&list, &address) {
                    open if open.is_empty() => return Ok(()),
                    open => {
                        for number in &open {
                            // The next list shows whether the connection was closed.
                            let _ = self.at_the_resource(&["CLIENT", "KILL", "ID", number]).await;
                        }
                        format!(
                            "{name}: {} to the resource are still open",
                            words::plural(open.len() as u64, "connection")
                        )
                    }
                },
                Err(text) => text,
            };
            if Instant::now() >= deadline {
                return Err(seen);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }

    async fn at_the_resource(&self, words: &[&str]) -> Result<String, String> {
        let words = words.iter().map(|word| word.to_string()).collect();
        match self.ask(&self.cluster.resource_url(), RedisCommand::Words(words)).await {
            Ok(RedisReply::Text(text)) => Ok(text),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_holder_until_that_one_gives_it_back_or_is_gone() {
        let grants = Grants::to(1);
        let holder = |process, operation| Holder { process, operation, shared: false };
        assert!(grants.ask("k0", holder(0, 1)));
        assert!(grants.ask("k1", holder(1, 2)), "each key has a lock of its own");
        assert!(!grants.ask("k0", holder(1, 3)));
        assert!(!grants.ask("k0", holder(0, 4)), "nor its own process, for another operation");
        for stranger in [holder(0, 4), holder(1, 1)] {
            grants.give_back("k0", stranger);
            assert!(!grants.ask("k0", holder(2, 5)));
        }
        grants.give_back("k0", holder(0, 1));
        assert!(grants.ask("k0", holder(2, 6)) && grants.has_any(2));
        grants.take_from(1);
        assert!(!grants.has_any(1) && !grants.ask("k0", holder(3, 7)), "the others keep theirs");
        grants.take_from(2);
        assert!(grants.ask("k0", holder(3, 8)));
    }

    #[test]
    fn readers_have_it_side_by_side_and_nobody_beside_a_writer() {
        let grants = Grants::to(1);
        let holder = |process, shared| Holder { process, operation: u64::from(process), shared };
        assert!(grants.ask("k0", holder(0, true)) && grants.ask("k0", holder(1, true)));
        assert!(!grants.ask("k0", holder(2, false)), "there are readers");
        grants.give_back("k0", holder(0, true));
        assert!(!grants.ask("k0", holder(2, false)), "there still is one");
        grants.give_back("k0", holder(1, true));
        assert!(grants.ask("k0", holder(2, false)));
        assert!(!grants.ask("k0", holder(0, true)) && !grants.ask("k0", holder(3, false)), "there is a writer");
    }

    #[test]
    fn a_semaphore_has_as_many_holders_as_it_has_permits() {
        let grants = Grants::to(2);
        let holder = |process| Holder { process, operation: u64::from(process), shared: false };
        assert!(grants.ask("k0", holder(0)) && grants.ask("k0", holder(1)) && !grants.ask("k0", holder(2)));
        grants.give_back("k0", holder(0));
        assert!(grants.ask("k0", holder(2)) && !grants.ask("k0", holder(3)), "one was given back, and one is free");
    }
}
