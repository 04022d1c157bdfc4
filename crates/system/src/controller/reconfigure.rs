//! Clients with other lists of nodes. The controller gives a client its list when the client starts, so it restarts the client.

use futures_util::future::{join_all, try_join_all};
use tokio::time::timeout;

use super::Run;
use super::nemesis::{InEffect, REPLACED_LIMIT};
use base::members::{client_name, node_name};
use base::sync::lock;
use base::words::list;
use model::nemesis::{Argument, Target};

impl Run<'_> {
    /// Restarts the clients of a fault with the lists that are right from now on. All of them end before the first one starts.
    /// Says what each client got; the error says which client was not restarted.
    pub(super) async fn restart_with_lists(&self, fault: &InEffect, heals: bool) -> Result<String, String> {
        let hosts: Vec<_> = self.hosts().iter().filter(|host| fault.members.contains(&host.name())).collect();
        let lists = hosts.iter().map(|host| self.list_of(&host.name(), heals.then_some(fault.fault)));
        let lists: Vec<Vec<u32>> = lists.collect();
        let clients = || fault.members.iter().flat_map(|member| self.threads_of(member));
        let before: Vec<(u32, u64)> = clients().map(|client| (client, self.board.replaced(client))).collect();
        for (host, list) in hosts.iter().zip(&lists) {
            host.restart_with(list.clone());
        }
        let killed = hosts.iter().map(|host| self.cluster.kill_client(host.first));
        try_join_all(killed).await.map_err(|error| error.to_string())?;
        let replaced = before.iter().map(|&(client, before)| async move {
            let replaced = self.board.until(client, |standing| (standing.replaced > before).then_some(()));
            timeout(REPLACED_LIMIT, replaced).await.map_err(|_| client_name(client))
        });
        let late: Vec<String> = join_all(replaced).await.into_iter().filter_map(Result::err).collect();
        if !late.is_empty() {
            return Err(format!("not ready again within {} s: {}", REPLACED_LIMIT.as_secs(), list(&late)));
        }
        let told = hosts.iter().zip(&lists).map(|(host, nodes)| match &nodes[..] {
            [] => format!("{} is ready with all nodes", host.name()),
            some => {
                let nodes: Vec<String> = some.iter().copied().map(node_name).collect();
                format!("{} is ready with {} as its nodes", host.name(), list(&nodes))
            }
        });
        Ok(told.collect::<Vec<_>>().join("; "))
    }

    /// The nodes that the latest fault puts on a client's list, apart from the fault that ends; empty for all nodes.
    fn list_of(&self, client: &str, ends: Option<u32>) -> Vec<u32> {
        let in_effect = lock(&self.in_effect);
        let mut lists = in_effect.values().rev().filter_map(|other| match &other.what.with {
            Argument::Nodes(nodes) if Some(other.fault) != ends => {
                other.members.iter().any(|member| member == client).then_some(nodes)
            }
            _ => None,
        });
        let nodes = lists.next().map(|nodes| nodes.0.iter());
        let numbers = nodes.into_iter().flatten().filter_map(|node| match node {
            Target::Node(number) => Some(*number),
            _ => None,
        });
        numbers.collect()
    }
}
