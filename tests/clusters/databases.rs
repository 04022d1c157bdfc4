//! Servers other than Redis, in local and Docker clusters. Each group gets ready, faults hit its members, they recover, and
//! everything is removed. The gallery of scenarios tests whether their locks behave as theory says.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::fault_kinds::FaultKind;
use model::topology::Program;
use system::cluster::{Cluster, ClusterError, ClusterSpec, Docker, ImageRequest, Local};
use system::faults::{Injection, RedisCommand, RedisReply};

use crate::kit;
use crate::turns;

const LIMIT: Duration = Duration::from_secs(5);

/// The kinds of servers, the number of nodes of each, and their own names with versions.
const KINDS: [(Program, u32, &str); 3] =
    [(Program::Etcd, 3, "etcd 3."), (Program::Zookeeper, 3, "zookeeper 3."), (Program::Postgres, 1, "postgresql 1")];

fn spec(kind: &str, program: Program, nodes: u32) -> ClusterSpec {
    ClusterSpec { program, ..kit::spec(&format!("test-{kind}-{program}").to_lowercase(), nodes, 1) }
}

fn redjepsen() -> PathBuf {
    env!("CARGO_BIN_EXE_redjepsen").into()
}

/// Pauses and kills the group's first node. Each time, its absence is noticed and it comes back.
async fn is_hit_and_comes_back(cluster: &Cluster, version: &str) {
    assert!(cluster.describe().server.contains(version), "{:?}", cluster.describe());
    let url = cluster.node_urls().remove(0);
    let answers = async || cluster.agent.redis(&url, RedisCommand::Ping, Duration::from_millis(500)).await;
    assert_eq!(answers().await.unwrap(), RedisReply::Pong);
    let faults = [
        Injection::on_members(FaultKind::Pause, vec!["n0".to_string()]),
        Injection::on_members(FaultKind::Kill, vec!["n0".to_string()]),
    ];
    for (number, fault) in (0..).zip(&faults) {
        let seen = cluster.agent.inject(number, fault).await.unwrap();
        assert!(seen.observed, "{seen:?}");
        assert!(answers().await.is_err(), "{fault:?}");
        if fault.kind == FaultKind::Kill {
            cluster.restart_server("n0").await.unwrap();
        }
        let seen = cluster.agent.heal(number).await.unwrap();
        assert!(seen.observed, "{seen:?}");
        let healed = Instant::now();
        while answers().await.is_err() {
            assert!(healed.elapsed() < LIMIT, "{fault:?} was healed, and it does not answer");
        }
    }
    if cluster.resource().is_some_and(|store| store.name == "n0") {
        let values = cluster.agent.redis(&url, RedisCommand::Dbsize, LIMIT).await.unwrap();
        assert_eq!(values, RedisReply::Count(0), "the table of the resource is there, and empty");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_docker() {
    let _turn = turns::docker();
    let docker = Docker::connect().await.expect("this test needs a Docker engine");
    for (program, nodes, version) in KINDS {
        let request = ImageRequest { nodes_run: program, program: Some(redjepsen()), ..ImageRequest::default() };
        let images = docker.prepare(&request, &mut |line| eprintln!("{line}")).await.unwrap();
        let began = Instant::now();
        let spec = spec("docker", program, nodes);
        let run_id = spec.run_id.clone();
        let cluster = docker.start(spec, images).await.unwrap();
        eprintln!("{program}: ready after {:?}", began.elapsed());
        is_hit_and_comes_back(&cluster, version).await;
        cluster.stop().await.unwrap();
        let left = cluster.member_states().await.unwrap();
        assert!(left.iter().all(|member| member.text == "removed"), "{run_id}: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locally() {
    let _turn = turns::local();
    for (program, nodes, version) in KINDS {
        let local = Local::find(None, Some(redjepsen())).expect("this test needs a redis-server");
        let local = match local.with_nodes(program) {
            // PostgreSQL refuses to run as root, and an unprivileged user cannot switch to another user there.
            Err(ClusterError::Program { reason, .. }) if reason.contains("refuses to run as root") => continue,
            other => other.unwrap(),
        };
        let began = Instant::now();
        let cluster = local.start(spec("local", program, nodes)).await.unwrap();
        eprintln!("{program}: ready after {:?}", began.elapsed());
        is_hit_and_comes_back(&cluster, version).await;
        cluster.stop().await.unwrap();
    }
}
