//! Roles in a group of nodes: which node is the primary of a key, which replicas it has, and whether all nodes agree.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;

use super::Member;
use super::cluster::Cluster;
use super::group_files::GROUP_NAME;
use crate::faults::{Promotion, RedisCommand, RedisReply};
use crate::locks::LockGroup;
use crate::members::Role;
use crate::slots::{self, ClusterNode};
use crate::topology::Topology;

/// How long a server may take to answer.
const LIMIT: Duration = Duration::from_millis(500);

/// The roles of the nodes in a group, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Each primary with its replicas, the next in line first.
    pub primaries: BTreeMap<String, Vec<String>>,
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let groups = self.primaries.iter().map(|(primary, replicas)| match replicas.is_empty() {
            true => format!("{primary} primary"),
            false => format!("{primary} primary of {}", replicas.join(" and ")),
        });
        f.write_str(&groups.collect::<Vec<_>>().join(", "))
    }
}

impl Cluster {
    /// How a client finds the primary; none if every node is one.
    pub fn lock_group(&self) -> Option<LockGroup> {
        match self.topology {
            Topology::Independent => None,
            Topology::Sentinel(_) => {
                let sentinels = self.of_role(Role::Sentinel).filter_map(Member::url).collect();
                Some(LockGroup::Sentinel { sentinels, name: GROUP_NAME.to_string() })
            }
            Topology::Cluster(_) => Some(LockGroup::Cluster),
        }
    }

    /// The name of the node that is now the primary of a key, by a majority of the nodes or Sentinels that decide. None
    /// while they disagree, or if nodes have no roles.
    pub async fn primary_of(&self, key: &str) -> Option<String> {
        let (watchers, views) = match self.topology {
            Topology::Independent => return None,
            Topology::Sentinel(_) => {
                let views = join_all(self.of_role(Role::Sentinel).map(|sentinel| self.primary_by(sentinel))).await;
                (self.of_role(Role::Sentinel).count(), views.into_iter().flatten().collect())
            }
            Topology::Cluster(_) => {
                let slot = slots::slot(key.as_bytes());
                let serving = |nodes: Vec<ClusterNode>| {
                    nodes.iter().find(|node| node.serves(slot)).and_then(|node| self.node_at(&node.address))
                };
                let views = join_all(self.of_role(Role::Node).map(|node| self.nodes_by(node))).await;
                let views: Vec<String> = views.into_iter().filter_map(Result::ok).filter_map(serving).collect();
                (self.of_role(Role::Node).count(), views)
            }
        };
        let votes = |name: &String| views.iter().filter(|view| *view == name).count();
        views.iter().find(|name| votes(name) * 2 > watchers).cloned()
    }

    /// The replicas of a primary as most of the others see them, the next in line first.
    pub async fn replicas_of(&self, primary: &str) -> Vec<String> {
        let nodes = || self.of_role(Role::Node).map(|node| node.name.clone()).filter(|name| name != primary);
        match self.topology {
            Topology::Independent => Vec::new(),
            Topology::Sentinel(_) => nodes().collect(),
            Topology::Cluster(_) => {
                for node in self.of_role(Role::Node) {
                    if let Ok(view) = self.nodes_by(node).await {
                        return self.roles_in(&view).primaries.remove(primary).unwrap_or_default();
                    }
                }
                Vec::new()
            }
        }
    }

    /// The operator's command that makes a replica take over from this primary. It goes to a Sentinel that answers or,
    /// in a Redis Cluster, to the replica itself. None if there is nobody to send it to.
    pub async fn failover_of(&self, primary: &str) -> Option<Promotion> {
        let replicas = self.replicas_of(primary).await;
        let (told, words) = match self.topology {
            Topology::Independent => return None,
            Topology::Sentinel(_) => {
                let answers = self.of_role(Role::Sentinel).map(async |sentinel| {
                    let primary = self.primary_by(sentinel).await;
                    primary.map(|_| sentinel)
                });
                let told = join_all(answers).await.into_iter().flatten().next()?;
                (told, vec!["SENTINEL", "FAILOVER", GROUP_NAME])
            }
            Topology::Cluster(_) => {
                let told = self.of_role(Role::Node).find(|node| replicas.first() == Some(&node.name))?;
                (told, vec!["CLUSTER", "FAILOVER"])
            }
        };
        Some(Promotion { replicas, url: told.url()?, words: words.into_iter().map(str::to_string).collect() })
    }

    /// The roles, once all agree and replicas follow their primaries; until then, an error that says what is missing.
    /// `None` if nodes have no roles.
    pub async fn settled_roles(&self) -> Result<Option<Roles>, String> {
        let roles = match self.topology {
            Topology::Independent => return Ok(None),
            Topology::Sentinel(_) => self.roles_by_sentinels().await?,
            Topology::Cluster(_) => self.roles_by_nodes().await?,
        };
        let following = roles.primaries.iter().flat_map(|(primary, replicas)| {
            let replicas = replicas.iter().map(move |replica| self.follows(replica, Some(primary)));
            [self.follows(primary, None)].into_iter().chain(replicas)
        });
        join_all(following.collect::<Vec<_>>()).await.into_iter().collect::<Result<Vec<()>, String>>()?;
        Ok(Some(roles))
    }

    async fn roles_by_sentinels(&self) -> Result<Roles, String> {
        let views = self.of_role(Role::Sentinel).map(async |sentinel| {
            let quorum = self.words(sentinel, &["SENTINEL", "CKQUORUM", GROUP_NAME]).await?;
            if !quorum.starts_with("OK") {
                return Err(format!("{}: {quorum}", sentinel.name));
            }
            for whom in ["MASTER", "REPLICAS", "SENTINELS"] {
                let answer = self.words(sentinel, &["SENTINEL", whom, GROUP_NAME]).await?;
                let doubt = answer.lines().zip(answer.lines().skip(1)).find_map(|(name, value)| doubt(name, value));
                if let Some(doubt) = doubt {
                    return Err(format!("{} says of a server: {doubt}", sentinel.name));
                }
            }
            self.primary_by(sentinel).await.ok_or_else(|| format!("{} knows no primary", sentinel.name))
        });
        let views = join_all(views).await.into_iter().collect::<Result<Vec<_>, String>>()?;
        let primary = views.first().cloned().unwrap_or_default();
        if views.iter().any(|view| *view != primary) {
            return Err(format!("the Sentinels do not agree: {}", views.join(", ")));
        }
        let replicas = self.replicas_of(&primary).await;
        Ok(Roles { primaries: BTreeMap::from([(primary, replicas)]) })
    }

    async fn roles_by_nodes(&self) -> Result<Roles, String> {
        let views = self.of_role(Role::Node).map(async |node| {
            let info = self.words(node, &["CLUSTER", "INFO"]).await?;
            if field(&info, "cluster_state") != Some("ok") {
                return Err(format!("{} reports that the cluster is incomplete", node.name));
            }
            let nodes = self.nodes_by(node).await?;
            match nodes.iter().find(|node| node.doubtful) {
                Some(doubtful) => Err(format!("{} reports that {} may be down", node.name, doubtful.address)),
                None => Ok((node.name.clone(), nodes)),
            }
        });
        let views = join_all(views).await.into_iter().collect::<Result<Vec<_>, String>>()?;
        let Some((first, view)) = views.first() else { return Err("there are no nodes".to_string()) };
        match views.iter().find(|(_, other)| other != view) {
            Some((other, _)) => Err(format!("{first} and {other} disagree about the nodes' roles")),
            None => Ok(self.roles_in(view)),
        }
    }

    /// Fails unless a node says that it is a primary (if `None`) or follows `primary` and has a link to it.
    async fn follows(&self, name: &str, primary: Option<&String>) -> Result<(), String> {
        let node = self.of_role(Role::Node).find(|node| node.name == name);
        let info = self.words(node.ok_or("no such node")?, &["INFO", "replication"]).await?;
        let Some(primary) = primary else {
            return match field(&info, "role") {
                Some("master") => Ok(()),
                role => Err(format!("{name} should be the primary and says {}", role.unwrap_or("nothing"))),
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

    /// The primary's name according to a Sentinel.
    async fn primary_by(&self, sentinel: &Member) -> Option<String> {
        let answer = self.words(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP_NAME]).await.ok()?;
        self.node_at(answer.lines().next()?)
    }

    /// All nodes of a Redis Cluster according to one of them.
    async fn nodes_by(&self, node: &Member) -> Result<Vec<ClusterNode>, String> {
        self.words(node, &["CLUSTER", "NODES"]).await.map(|answer| slots::parse(&answer))
    }

    fn roles_in(&self, view: &[ClusterNode]) -> Roles {
        let name = |address: &str| self.node_at(address).unwrap_or_else(|| address.to_string());
        let replicas_of = |primary: &ClusterNode| {
            let replicas = view.iter().filter(|node| node.replicates.as_ref() == Some(&primary.address));
            replicas.map(|node| name(&node.address)).collect()
        };
        let primaries = view.iter().filter(|node| node.primary);
        Roles { primaries: primaries.map(|primary| (name(&primary.address), replicas_of(primary))).collect() }
    }

    /// The name of the node at `host` or `host:port`.
    fn node_at(&self, address: &str) -> Option<String> {
        let host: Ipv4Addr = address.split(':').next()?.parse().ok()?;
        self.of_role(Role::Node).find(|node| node.address == Some(host)).map(|node| node.name.clone())
    }

    async fn words(&self, server: &Member, words: &[&str]) -> Result<String, String> {
        let command = RedisCommand::Words(words.iter().map(|word| (*word).to_string()).collect());
        match self.agent.redis(&server.url().unwrap_or_default(), command, LIMIT).await {
            Ok(RedisReply::Text(text)) => Ok(text),
            Ok(other) => Err(format!("{}: {other:?}", server.name)),
            Err(error) => Err(format!("{}: {error}", server.name)),
        }
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &Member> {
        self.members().filter(move |member| member.role == role)
    }
}

/// What a member is, and that another Sentinel once thought a primary down, which stays where nobody asks it again.
const SAYS_NOTHING: [&str; 5] = ["master", "slave", "replica", "sentinel", "master_down"];

/// Why a Sentinel does not trust a server yet, judging by one field of its answer.
fn doubt(name: &str, value: &str) -> Option<String> {
    match name {
        // Such as `s_down,master`.
        "flags" if value.split(',').any(|flag| !SAYS_NOTHING.contains(&flag)) => Some(value.to_string()),
        // Milliseconds since it last answered INFO, or since 1970 if it never did.
        "info-refresh" if value.parse().is_ok_and(|millis: u64| millis > 60_000) => Some("not known yet".to_string()),
        _ => None,
    }
}

/// A field of an INFO answer.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_not_heard_of_or_is_doubted_is_no_settled_one() {
        assert_eq!(doubt("flags", "master"), None);
        assert_eq!(doubt("flags", "sentinel,master_down"), None, "seen with Valkey 9.1");
        assert!(doubt("flags", "s_down,slave").is_some() && doubt("flags", "s_down,sentinel,master_down").is_some());
        assert!(doubt("flags", "slave,s_down").is_some() && doubt("flags", "sentinel,disconnected").is_some());
        assert_eq!(doubt("info-refresh", "812"), None);
        assert!(doubt("info-refresh", "1763754000000").is_some());
        assert_eq!(doubt("name", "a,b"), None);
    }

    #[test]
    fn roles_are_told_in_words() {
        let primaries = [("n0", vec!["n1", "n2"]), ("n3", vec![])].map(|(primary, replicas)| {
            (primary.to_string(), replicas.into_iter().map(str::to_string).collect::<Vec<_>>())
        });
        assert_eq!(Roles { primaries: primaries.into() }.to_string(), "n0 primary of n1 and n2, n3 primary");
    }
}
