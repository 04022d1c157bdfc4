//! A running group, as [`Group`](model::topology::Group) asks about it: the primary of a key, its replicas, and whether all nodes
//! agree.

use std::net::Ipv4Addr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::cluster::Cluster;
use super::spec::Member;
use crate::faults::{Promotion, RedisCommand, RedisReply};
use base::members::Role;
use model::topology::{LockGroup, Roles, Servers, field};

/// Time limit for a server's answer.
const LIMIT: Duration = Duration::from_millis(500);

impl Cluster {
    /// How a client finds the primary; None if every node is a primary.
    pub fn lock_group(&self) -> Option<LockGroup> {
        let sentinels = self.members().filter(|member| member.role == Role::Sentinel).filter_map(Member::url);
        Some(self.topology.group()?.for_clients(sentinels.collect()))
    }

    /// The name of the node that is now the primary of a key, according to a majority of the nodes or Sentinels that decide. None
    /// while they disagree, or if nodes have no roles.
    pub async fn primary_of(&self, key: &str) -> Option<String> {
        self.topology.group()?.primary_of(self, key).await
    }

    /// The replicas of a primary as most of the other nodes see them, the likeliest successor first.
    pub async fn replicas_of(&self, primary: &str) -> Vec<String> {
        match self.topology.group() {
            Some(group) => group.replicas_of(self, primary).await,
            None => Vec::new(),
        }
    }

    /// The operator's command that makes a replica take over from this primary. None if no server can carry it out.
    pub async fn failover_of(&self, primary: &str) -> Option<Promotion> {
        let group = self.topology.group()?;
        let replicas = self.replicas_of(primary).await;
        let (told, words) = group.failover(self, &replicas).await?;
        let url = self.member(&told)?.url()?;
        Some(Promotion { replicas, url, words })
    }

    /// The roles, once all nodes agree and replicas follow their primaries; until then, an error that says what is missing.
    /// `None` if nodes have no roles.
    pub async fn settled_roles(&self) -> Result<Option<Roles>, String> {
        let Some(group) = self.topology.group() else { return Ok(None) };
        let roles = group.roles(self).await?;
        let following = roles.primaries.iter().flat_map(|(primary, replicas)| {
            let replicas = replicas.iter().map(move |replica| self.follows(replica, Some(primary)));
            [self.follows(primary, None)].into_iter().chain(replicas)
        });
        join_all(following.collect::<Vec<_>>()).await.into_iter().collect::<Result<Vec<()>, String>>()?;
        Ok(Some(roles))
    }

    /// Checks that a node says that it is a primary (if `primary` is None), or follows `primary` and has a link to it.
    async fn follows(&self, name: &str, primary: Option<&String>) -> Result<(), String> {
        let info = self.ask(name, &["INFO", "replication"]).await?;
        let Some(primary) = primary else {
            return match field(&info, "role") {
                Some("master") => Ok(()),
                role => Err(format!("{name} should be the primary, but reports {}", role.unwrap_or("nothing"))),
            };
        };
        let follows = field(&info, "master_host").and_then(|host| self.node_at(host));
        if follows.as_ref() != Some(primary) {
            return Err(format!("{name} does not follow {primary} yet"));
        }
        match field(&info, "master_link_status") {
            Some("up") => Ok(()),
            _ => Err(format!("{name} has no link to {primary} yet")),
        }
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members().find(|member| member.name == name)
    }
}

#[async_trait]
impl Servers for Cluster {
    fn of_role(&self, role: Role) -> Vec<&str> {
        self.members().filter(|member| member.role == role).map(|member| member.name.as_str()).collect()
    }

    fn node_at(&self, address: &str) -> Option<String> {
        let host: Ipv4Addr = address.split(':').next()?.parse().ok()?;
        let node = self.members().find(|member| member.role == Role::Node && member.address == Some(host))?;
        Some(node.name.clone())
    }

    async fn ask(&self, server: &str, words: &[&str]) -> Result<String, String> {
        let url = self.member(server).and_then(Member::url).unwrap_or_default();
        let command = RedisCommand::Words(words.iter().map(|word| (*word).to_string()).collect());
        match self.agent.redis(&url, command, LIMIT).await {
            Ok(RedisReply::Text(text)) => Ok(text),
            Ok(other) => Err(format!("{server}: {other:?}")),
            Err(error) => Err(format!("{server}: {error}")),
        }
    }
}
