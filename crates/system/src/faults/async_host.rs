//! A host as the kinds of faults see it: its primitives, done where they keep nobody waiting, and its servers.

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
    /// By the number of the fault and the member.
    kept: Mutex<BTreeMap<(u32, String), Kept>>,
}

/// What a fault goes on doing to a server until its heal.
pub struct Kept {
    /// Ends when this is dropped.
    pub task: JoinSet<()>,
    /// The connection that it does it on.
    pub server: MultiplexedConnection,
    /// How often it was done before the fault, if the server counts that.
    pub before: Option<u64>,
}

impl AsyncHost {
    pub fn new(host: Arc<dyn Host>) -> AsyncHost {
        AsyncHost { probes: Probes::new(host.machine()), host, kept: Mutex::default() }
    }

    /// For what takes no time.
    pub fn now(&self) -> &dyn Host {
        &*self.host
    }

    pub fn machine(&self) -> Arc<dyn Machine> {
        self.host.machine()
    }

    /// Keeps what a fault goes on doing to this member.
    pub fn keep(&self, fault: u32, member: &str, kept: Kept) {
        lock(&self.kept).insert((fault, member.to_string()), kept);
    }

    /// Gives it back, to be ended.
    pub fn take_kept(&self, fault: u32, member: &str) -> Option<Kept> {
        lock(&self.kept).remove(&(fault, member.to_string()))
    }

    /// Has the host do something that may take its time, without holding up other orders.
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

    /// Does this to each member, to all at once: a slow one keeps no other one waiting.
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

    /// Undoes that.
    pub async fn restore_links(&self, fault: u32) -> Result<Observation, String> {
        // A fault that was refused has no effect anywhere.
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

    /// Where a member's Redis is.
    pub fn url_of(&self, name: &str) -> Result<String, String> {
        self.address_of(name).map(url)
    }

    fn address_of(&self, name: &str) -> Result<Ipv4Addr, String> {
        self.host.address_of(name)?.ok_or_else(|| format!("{name} has no address"))
    }

    pub fn addresses(&self, links: &[(String, String)]) -> Result<Vec<Pair>, String> {
        links.iter().map(|(from, to)| Ok((self.address_of(from)?, self.address_of(to)?))).collect()
    }

    /// The name of the end of these links that has this address.
    pub fn name_of(&self, address: Ipv4Addr, links: &[(String, String)]) -> String {
        let mut names = links.iter().flat_map(|(from, to)| [from, to]);
        let has_it = |name: &&String| self.host.address_of(name) == Ok(Some(address));
        names.find(has_it).map_or_else(|| address.to_string(), String::clone)
    }
}

fn url(address: Ipv4Addr) -> String {
    format!("redis://{address}:{REDIS_PORT}")
}
