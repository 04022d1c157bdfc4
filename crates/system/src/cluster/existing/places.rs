//! Finds the servers of a group of existing servers, and how they announce each other.

use std::net::Ipv4Addr;

use tokio::time::{Duration, timeout};

use super::Existing;
use super::announced::{Announced, Place};
use base::slots;
use model::topology::{LockGroup, Topology};
use remote::{Address, Resp, Stream};

/// Existing servers by their member's index, and their addresses as they announce each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub nodes: Vec<Address>,
    pub sentinels: Vec<Address>,
    /// Nodes, then Sentinels; empty if they know nothing of each other.
    pub announced: Vec<Place>,
}

impl Places {
    /// The announced servers, each with the address of its relay: first all nodes, then all Sentinels.
    pub fn with_relays(&self, relays: &[(Ipv4Addr, u16)]) -> Announced {
        let places = self.announced.iter().cloned().zip(relays);
        Announced(places.map(|(place, relay)| Place { relay: Some(*relay), ..place }).collect())
    }
}

/// Finds all servers of a group from the addresses of some: nodes of a Redis Cluster, or Sentinels. The error is a sentence.
pub(super) async fn find(
    existing: &Existing,
    given: &[Address],
    topology: &Topology,
    nodes: u32,
) -> Result<Places, String> {
    let found = match topology.group().map(|group| group.for_clients(Vec::new())) {
        None => return Ok(Places { nodes: given.to_vec(), ..Places::default() }),
        Some(LockGroup::Cluster) => cluster(existing, given).await?,
        Some(LockGroup::Sentinel { name, .. }) => sentinel_group(existing, given, &name).await?,
    };
    match found.nodes.len() {
        there if there == nodes as usize => Ok(found),
        there => Err(format!("the group has {there} nodes, but the run expects {nodes}; give --nodes {there}")),
    }
}

/// A node of a Redis Cluster, as a node of the cluster announces it.
struct Announcement {
    id: String,
    known_as: Vec<(String, u16)>,
    is_asked: bool,
    /// The sort order: false for a primary, so that primaries come first; then the first slot of its primary.
    order: (bool, u16),
}

async fn cluster(existing: &Existing, given: &[Address]) -> Result<Places, String> {
    let mut known: Vec<(Announcement, Address)> = Vec::new();
    for address in given {
        let reply = ask(existing, address, &["CLUSTER", "NODES"]).await?;
        let text = reply.as_text().ok_or_else(|| format!("{address}: this is not a node of a Redis Cluster"))?;
        for said in announcements(text) {
            let at = match (said.is_asked, said.known_as.iter().find(|(host, _)| !host.is_empty())) {
                (true, _) => address.clone(),
                (false, Some((host, port))) => address.beside(host, *port),
                (false, None) => continue,
            };
            match known.iter_mut().find(|(other, _)| other.id == said.id) {
                // The address that the user gave is better than an address that other nodes announce.
                Some((_, there)) if said.is_asked => *there = at,
                Some(_) => {}
                None => known.push((said, at)),
            }
        }
    }
    known.sort_by_key(|(node, _)| node.order);
    let place = |(said, at): &(Announcement, Address)| Place {
        id: Some(said.id.clone()),
        known_as: said.known_as.iter().cloned().chain([(at.host.clone(), at.port)]).collect(),
        relay: None,
    };
    let announced = known.iter().map(place).collect();
    Ok(Places { nodes: known.into_iter().map(|(_, at)| at).collect(), sentinels: Vec::new(), announced })
}

/// Parses the lines of CLUSTER NODES, without nodes that are gone or not known yet.
fn announcements(text: &str) -> Vec<Announcement> {
    let roles = slots::parse(text);
    let first_slot = |address: &str| {
        let of = roles.iter().find(|node| node.address == address);
        let primary = of.and_then(|node| node.replicates.as_deref()).unwrap_or(address);
        let of = roles.iter().find(|node| node.address == primary);
        of.and_then(|node| node.slots.first()).map_or(u16::MAX, |(first, _)| *first)
    };
    let each = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, place, flags, ..] = words[..] else { return None };
        let flags: Vec<&str> = flags.split(',').collect();
        if flags.iter().any(|flag| matches!(*flag, "fail" | "noaddr" | "handshake")) {
            return None;
        }
        // The form is `host:port@bus,name,…`.
        let mut parts = place.split(',');
        let at = parts.next()?.split('@').next()?;
        let (host, port) = at.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        let name = parts.next().filter(|name| !name.is_empty() && !name.contains('='));
        let hosts = [Some(host), name].into_iter().flatten();
        Some(Announcement {
            id: id.to_string(),
            known_as: hosts.map(|host| (host.to_string(), port)).collect(),
            is_asked: flags.contains(&"myself"),
            order: (!flags.contains(&"master"), first_slot(at)),
        })
    });
    each.collect()
}

async fn sentinel_group(existing: &Existing, sentinels: &[Address], name: &str) -> Result<Places, String> {
    let Some(first) = sentinels.first() else { return Err("no Sentinel is named".to_string()) };
    let primary = ask(existing, first, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).await?;
    let primary = primary.as_list().and_then(server).ok_or_else(|| {
        format!("{first}: this Sentinel watches no group of the name {name}; give its name with --sentinel")
    })?;
    let replicas = ask(existing, first, &["SENTINEL", "REPLICAS", name]).await?;
    let replicas = replicas.as_list().unwrap_or_default().iter().filter_map(|replica| {
        let fields = replica.as_list()?;
        let value =
            |name: &str| fields.chunks_exact(2).find(|pair| pair[0].as_text() == Some(name)).map(|pair| &pair[1]);
        let is_gone = value("flags")?.as_text()?.split(',').any(|flag| matches!(flag, "s_down" | "o_down"));
        if is_gone { None } else { server(&[value("ip")?.clone(), value("port")?.clone()]) }
    });
    let found: Vec<(String, u16)> = [primary].into_iter().chain(replicas).collect();
    let place = |known_as: Vec<(String, u16)>| Place { id: None, known_as, relay: None };
    let mut announced: Vec<Place> = found.iter().map(|server| place(vec![server.clone()])).collect();
    for sentinel in sentinels {
        // Other Sentinels announce it by its IP address, whatever name the user gave.
        let mut known_as = vec![(sentinel.host.clone(), sentinel.port)];
        let resolved = tokio::net::lookup_host((sentinel.host.as_str(), sentinel.port)).await;
        known_as.extend(resolved.into_iter().flatten().map(|at| (at.ip().to_string(), sentinel.port)));
        announced.push(place(known_as));
    }
    let nodes = found.iter().map(|(host, port)| first.beside(host, *port)).collect();
    Ok(Places { nodes, sentinels: sentinels.to_vec(), announced })
}

/// The host and port at the beginning of a list.
fn server(parts: &[Resp]) -> Option<(String, u16)> {
    let [host, port, ..] = parts else { return None };
    Some((host.as_text()?.to_string(), port.as_number()?.try_into().ok()?))
}

async fn ask(existing: &Existing, address: &Address, words: &[&str]) -> Result<Resp, String> {
    let mut stream: Box<dyn Stream> =
        existing.open_at(address).await.map_err(|reason| format!("--server {address}: {reason}"))?;
    match timeout(super::LIMIT, remote::ask(&mut stream, words)).await {
        Ok(Ok(reply)) => match reply.as_error() {
            None => Ok(reply),
            Some(error) => Err(format!(
                "--server {address}: the answer to `{}` is: {}. If the user may not use this command, add +{} to its ACL rules",
                words.join(" "),
                existing.access.clean(&error),
                words[..2].join("|").to_lowercase()
            )),
        },
        Ok(Err(error)) => Err(format!("--server {address}: {error}")),
        Err(_) => Err(format!("--server {address}: no answer in {} s", Duration::as_secs(&super::LIMIT))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_come_before_replicas_and_nodes_that_are_gone_are_left_out() {
        let text = "aa 10.0.0.2:7000@17000,two.example myself,master - 0 0 1 connected 8192-16383\n\
                    bb 10.0.0.3:7000@17000,,shard-id=1 slave aa 0 0 1 connected\n\
                    cc 10.0.0.1:7000@17000 master - 0 0 2 connected 0-8191\n\
                    dd :0@0 master,noaddr - 0 0 2 disconnected\n\
                    ee 10.0.0.5:7000@17000 master,fail - 0 0 2 disconnected\nnonsense\n";
        let mut found = announcements(text);
        found.sort_by_key(|node| node.order);
        assert_eq!(found.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["cc", "aa", "bb"]);
        let known_as = [("10.0.0.2".to_string(), 7000), ("two.example".to_string(), 7000)];
        assert_eq!((found[1].is_asked, &found[1].known_as[..]), (true, &known_as[..]));
        assert_eq!(found[2].known_as, [("10.0.0.3".to_string(), 7000)]);
    }
}
