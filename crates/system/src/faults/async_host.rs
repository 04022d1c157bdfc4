//! A host as fault kinds see it: its primitives, run without blocking other orders, and its servers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::host::{Host, MemberAction};
use super::network::{Effect, Pair};
use super::probe::Probes;
use super::wire::{Observation, RedisCommand, RedisReply};
use base::machine::Machine;
use base::sync::lock;
use model::topology::REDIS_PORT;

pub struct AsyncHost {
    host: Arc<dyn Host>,
    pub probes: Probes,
    /// By the number of the fault and the name of the member.
    kept: Mutex<BTreeMap<(u32, String), Kept>>,
}

/// A fault's ongoing work on a server, which ends at the heal.
pub struct Kept {
    /// Dropping it ends the work.
    pub task: JoinSet<()>,
    /// The connection that the work uses.
    pub server: MultiplexedConnection,
    /// The server's count of this work before the fault; None if the server does not count it.
    pub before: Option<u64>,
}

impl AsyncHost {
    pub fn new(host: Arc<dyn Host>) -> AsyncHost {
        AsyncHost { probes: Probes::new(host.machine()), host, kept: Mutex::default() }
    }

    /// The host, for calls that return at once.
    pub fn now(&self) -> &dyn Host {
        &*self.host
    }

    pub fn machine(&self) -> Arc<dyn Machine> {
        self.host.machine()
    }

    /// Keeps a fault's ongoing work on this member.
    pub fn keep(&self, fault: u32, member: &str, kept: Kept) {
        lock(&self.kept).insert((fault, member.to_string()), kept);
    }

    /// Returns the ongoing work, so that the caller can end it.
    pub fn take_kept(&self, fault: u32, member: &str) -> Option<Kept> {
        lock(&self.kept).remove(&(fault, member.to_string()))
    }

    /// Runs work on the host that may take long, without delaying other orders.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Host) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        if !self.host.blocks() {
            return work(&*self.host);
        }
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || work(&*host)).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Applies the action to all members at once: a slow member does not delay the others.
    pub async fn each(&self, members: &[String], action: MemberAction) -> Result<Observation, String> {
        let acts = members.iter().cloned().map(|name| self.run(move |host| host.act(&name, action)));
        let seen: Result<Vec<Observation>, String> = join_all(acts).await.into_iter().collect();
        seen.map(Observation::all)
    }

    /// Applies an effect to the links between members, under the number of the fault.
    pub async fn change_links(
        &self,
        fault: u32,
        links: &[(String, String)],
        effect: Effect,
    ) -> Result<Observation, String> {
        let links = self.addresses(links)?;
        self.run(move |host| host.change_links(fault, &links, effect)).await
    }

    /// Undoes the fault's effect on links.
    pub async fn restore_links(&self, fault: u32) -> Result<Observation, String> {
        // A refused fault has no effect on any link.
        if !self.host.on_network().contains(&fault) {
            return Ok(Observation::nothing_to_undo());
        }
        self.run(move |host| host.restore_links(fault)).await
    }

    /// Asks a member's Redis, within a time limit.
    pub async fn ask(&self, address: Ipv4Addr, words: &[&str], limit: Duration) -> Result<RedisReply, String> {
        let words = words.iter().map(ToString::to_string).collect();
        self.probes.ask(&url(address), &RedisCommand::Words(words), limit).await
    }

    /// The URL of a member's Redis.
    pub fn url_of(&self, name: &str) -> Result<String, String> {
        self.address_of(name).map(url)
    }

    fn address_of(&self, name: &str) -> Result<Ipv4Addr, String> {
        self.host.address_of(name)?.ok_or_else(|| format!("{name} has no address"))
    }

    pub fn addresses(&self, links: &[(String, String)]) -> Result<Vec<Pair>, String> {
        links.iter().map(|(from, to)| Ok((self.address_of(from)?, self.address_of(to)?))).collect()
    }

    /// The name of the link end that has this address.
    pub fn name_of(&self, address: Ipv4Addr, links: &[(String, String)]) -> String {
        let mut names = links.iter().flat_map(|(from, to)| [from, to]);
        let has_it = |name: &&String| self.host.address_of(name) == Ok(Some(address));
        names.find(has_it).map_or_else(|| address.to_string(), String::clone)
    }
}

fn url(address: Ipv4Addr) -> String {
    format!("redis://{address}:{REDIS_PORT}")
}
