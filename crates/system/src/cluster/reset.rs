//! Resets a used cluster to its initial state for the next run. If this is impossible, the error says why.
//!
//! Containers, network and servers stay; clients are restarted. The reset removes everything that a run may have left, and checks
//! that it is gone: connections, keys, scripts, settings, faults, packet rules.
//!
//! Servers keep running, because restarting containers takes as long as making new ones. With five nodes, the resource and five
//! clients on a loaded two-core machine, killing takes 1.2 s and starting again 4.1 s. A new cluster takes 3.9 s, and its removal
//! 1.0 s. Restarting only the clients takes 1.6 s. In a local cluster, a reset takes 0.05 s and a new cluster 0.15 s.
//!
//! So a cluster is reset only if everything that a run can leave in it is known: see [`ClusterSpec::can_be_reset`].

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::cluster::Cluster;
use super::error::ClusterError;
use super::parts::MemberHandle;
use super::spec::{ClientCommand, ClusterSpec, Member};
use crate::faults::{RedisCommand, RedisReply};
use base::members::Role;
use model::topology::{Persistence, Program};

/// Time limit for a server's answer. An idle server obeys within milliseconds.
const LIMIT: Duration = Duration::from_secs(2);
/// At most this many members are reset at the same time.
const AT_ONCE: usize = 16;

/// The state of a cluster's servers when it was new.
pub struct InitialState {
    /// Each server's settings, by its name.
    settings: BTreeMap<String, ServerSettings>,
}

type ServerSettings = BTreeMap<String, String>;

impl ClusterSpec {
    /// Says whether a cluster like this can be reset without restarting its servers. These clusters cannot:
    ///
    /// - Groups: roles, epochs, offsets and the changes that Sentinels make to their configuration stay.
    /// - Programs other than Redis: no command resets leases, sessions and revisions to zero.
    /// - Persistent servers: a server reads its files only at its start.
    /// - Members whose clocks may be skewed: a process may still use the wrong time that it saw.
    /// - Nodes that may be upgraded: another program leaves other files.
    /// - Users' own clients: they may have changed anything on a server.
    pub fn can_be_reset(&self) -> bool {
        self.program == Program::Redis
            && self.topology.is_independent()
            && self.persistence == Persistence::None
            && !self.preload
            && self.upgrades.is_empty()
            && matches!(self.client, ClientCommand::BuiltIn)
    }
}

impl Cluster {
    /// The servers' current state. The caller must call this while the cluster is new.
    pub fn initial_state(&self) -> LocalBoxFuture<'_, Result<InitialState, ClusterError>> {
        Box::pin(async move {
            let servers = self.members().filter(|member| member.role.is_server());
            let asked =
                stream::iter(servers).map(async |server| Ok((server.name.clone(), self.settings_of(server).await?)));
            Ok(InitialState { settings: asked.buffered(AT_ONCE).try_collect().await? })
        })
    }

    /// Resets the cluster to its initial state and restarts every client. After an error, the caller can only
    /// [stop](Cluster::stop) the cluster.
    pub fn reset<'a>(&'a self, new: &'a InitialState) -> LocalBoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            self.stop_clients().await?;
            let agent = |doing: &str| {
                let doing = doing.to_string();
                move |source| ClusterError::Agent { doing, source }
            };
            for seen in self.agent.heal_all().await.map_err(agent("undo every fault"))? {
                if !seen.observed {
                    return Err(not_reset("the cluster", seen.text));
                }
            }
            self.agent.reset().await.map_err(agent("start anew"))?;
            for handle in &self.handles {
                handle.log.clear();
            }
            let clients = self.handles.iter().filter(|handle| handle.member.role == Role::Client);
            stream::iter(clients)
                .map(Ok)
                .try_for_each_concurrent(AT_ONCE, |handle| self.start_client_anew(handle))
                .await?;
            let version = self.make_all_ready(AT_ONCE).await?;
            if version != self.description.server {
                return Err(not_reset("a server", format!("its version is {version} now")));
            }
            // This must be last. By now, new clients have the addresses of the old clients, so no packet of the old clients is in
            // flight. And the new clients do not know the servers' addresses yet.
            let servers = self.members().filter(|member| member.role.is_server());
            stream::iter(servers).map(Ok).try_for_each_concurrent(AT_ONCE, |server| self.clear(server, new)).await
        })
    }

    async fn start_client_anew(&self, handle: &MemberHandle) -> Result<(), ClusterError> {
        drop(handle.take());
        self.backend.start_attached(&handle.member, &handle.log).await.map(|process| handle.keep(process))
    }

    async fn clear(&self, server: &Member, new: &InitialState) -> Result<(), ClusterError> {
        let url = server.url().unwrap_or_default();
        let cleared = self.agent.clear(&url, LIMIT).await;
        cleared.map_err(|error| not_reset(&server.name, error.to_string()))?;
        let settings = self.settings_of(server).await?;
        let before = new.settings.get(&server.name).cloned().unwrap_or_default();
        difference(&before, &settings).map_or(Ok(()), |changed| Err(not_reset(&server.name, changed)))
    }

    async fn settings_of(&self, server: &Member) -> Result<ServerSettings, ClusterError> {
        let words = ["CONFIG", "GET", "*"].map(str::to_string).into();
        let answer = self.agent.redis(&server.url().unwrap_or_default(), RedisCommand::Words(words), LIMIT).await;
        match answer {
            Ok(RedisReply::Text(settings)) => Ok(by_name(&settings)),
            Ok(other) => Err(not_reset(&server.name, format!("the answer to CONFIG GET is {other:?}"))),
            Err(error) => Err(not_reset(&server.name, error.to_string())),
        }
    }
}

/// Parses alternating lines of names and values. Their order differs from process to process.
fn by_name(lines: &str) -> ServerSettings {
    let lines: Vec<&str> = lines.split('\n').collect();
    let pairs = lines.chunks(2).map(|pair| (pair[0].to_string(), pair.get(1).unwrap_or(&"").to_string()));
    pairs.collect()
}

/// Describes the first setting that differs; None if all are equal.
fn difference(before: &ServerSettings, now: &ServerSettings) -> Option<String> {
    let changed = now.iter().find(|(name, value)| before.get(*name) != Some(*value));
    let changed = changed.or_else(|| before.iter().find(|(name, _)| !now.contains_key(*name)));
    changed.map(|(name, value)| format!("its setting `{name} {value}` changed"))
}

fn not_reset(member: &str, reason: String) -> ClusterError {
    ClusterError::NotReset { member: member.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::topology::{ClusterOptions, OwnClient, Topology};

    #[test]
    fn settings_are_the_same_in_whatever_order_they_come() {
        let new = by_name("hz\n10\nsave\n\nport\n6379");
        assert_eq!(difference(&new, &by_name("port\n6379\nhz\n10\nsave\n")), None);
        for (now, changed) in [
            ("hz\n20\nsave\n\nport\n6379", "its setting `hz 20` changed"),
            ("hz\n10\nsave\n60 1\nport\n6379", "its setting `save 60 1` changed"),
            ("save\n\nport\n6379", "its setting `hz 10` changed"),
        ] {
            assert_eq!(difference(&new, &by_name(now)).as_deref(), Some(changed));
        }
    }

    #[test]
    fn only_clusters_of_which_is_known_all_that_can_be_left_are_renewed() {
        let plain = ClusterSpec::for_test();
        assert!(plain.can_be_reset());
        let group = ClusterOptions { node_timeout: Duration::from_secs(1) };
        let own = ClientCommand::Own(OwnClient::default());
        for other in [
            ClusterSpec { program: Program::Etcd, ..plain.clone() },
            ClusterSpec { topology: Topology::Cluster(group), ..plain.clone() },
            ClusterSpec { persistence: Persistence::Everysec, ..plain.clone() },
            ClusterSpec { preload: true, ..plain.clone() },
            ClusterSpec { upgrades: vec![("valkey".parse().unwrap(), None)], ..plain.clone() },
            ClusterSpec { client: own, ..plain },
        ] {
            assert!(!other.can_be_reset(), "{other:?}");
        }
    }
}
