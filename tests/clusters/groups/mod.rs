//! Tests of replicated nodes, for local and Docker clusters.

use std::time::{Duration, Instant};

use base::members::Role;
use model::fault_kinds::FaultKind;
use model::topology::{ClusterOptions, SentinelOptions, Topology};
use system::cluster::Cluster;
use system::faults::Injection;

const KEY: &str = "lock:k0";
/// A failover takes two or three seconds, and twice as long if its first election fails.
const FAILOVER_LIMIT: Duration = Duration::from_secs(15);
/// A former primary learns of its replacement after eight seconds.
const SETTLED_LIMIT: Duration = Duration::from_secs(30);

/// Each topology whose nodes have roles, with a suitable number of nodes.
pub fn topologies() -> [(&'static str, u32, Topology); 2] {
    let (down_after, failover_timeout) = (Duration::from_secs(1), Duration::from_secs(2));
    let sentinel = SentinelOptions { name: "lock".to_string(), sentinels: 3, down_after, failover_timeout };
    let cluster = ClusterOptions { node_timeout: Duration::from_millis(500) };
    [("sentinel", 3, Topology::Sentinel(sentinel)), ("cluster", 6, Topology::Cluster(cluster))]
}

/// All nodes learn their roles. When the primary is killed, another node takes over. When the old primary is restarted, it
/// follows the new primary.
pub async fn get_over_the_loss_of_the_primary(cluster: &Cluster) {
    // A Sentinel calls a server down for a moment if the machine delays the server.
    let roles = cluster.settle_roles(SETTLED_LIMIT).await.unwrap().unwrap();
    eprintln!("{roles}");
    assert!(roles.primaries.values().all(|replicas| !replicas.is_empty()), "{roles}");
    assert_eq!(cluster.node_urls().len(), roles.primaries.values().map(|replicas| 1 + replicas.len()).sum::<usize>());
    assert!(cluster.lock_group().is_some());
    let primary = cluster.primary_of(KEY).await.unwrap();
    let replicas = cluster.replicas_of(&primary).await;
    assert_eq!(roles.primaries.get(&primary), Some(&replicas));

    let kill = Injection::on_members(FaultKind::Kill, vec![primary.clone()]);
    assert!(cluster.agent.inject(0, &kill).await.unwrap().observed);
    let began = Instant::now();
    let next = loop {
        match cluster.primary_of(KEY).await {
            Some(next) if next != primary => break next,
            _ => assert!(began.elapsed() < FAILOVER_LIMIT, "nobody took the place of {primary}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    eprintln!("{next} took the place of {primary} after {:?}", began.elapsed());
    assert_eq!(Some(&next), replicas.first(), "the next in line");
    assert!(cluster.settled_roles().await.is_err(), "one of them is gone");

    cluster.restart_server(&primary).await.unwrap();
    assert!(cluster.agent.heal(0).await.unwrap().observed);
    let began = Instant::now();
    let roles = cluster.settle_roles(SETTLED_LIMIT).await.unwrap().unwrap();
    eprintln!("settled after {:?}: {roles}", began.elapsed());
    assert!(roles.primaries.get(&next).is_some_and(|replicas| replicas.contains(&primary)), "{roles}");
    assert!(cluster.members().all(|member| member.role != Role::Sentinel || member.name.starts_with('s')));
}
