//! A power loss leaves the same data on a simulated node as on a real node, whose file is cut at its last sync. Compared after
//! the same random commands, some of which came after the last sync.

use std::time::Duration;

use model::fault_kinds::FaultKind;
use model::topology::Persistence;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system::cluster::{Cluster, ClusterSpec, Local, Simulated, in_virtual_time};
use system::faults::{Injection, RedisCommand, RedisReply};
use tokio::time::sleep;

use crate::kit;
use crate::turns;

const KEYS: u32 = 8;
const LIMIT: Duration = Duration::from_secs(5);
/// The position within a second of the server's clock at which the last commands come. The first of them is synced at once, since
/// the last sync was in an earlier second. The others are not synced before the next second.
const PLACE: Duration = Duration::from_millis(350);
const SYNCED_BY_THEN: Duration = Duration::from_millis(50);
/// If a busy machine delays the last commands beyond this, the intended situation did not occur.
const TOO_LATE: Duration = Duration::from_millis(850);
const TRIES: u64 = 5;

const APPEND: &str = "return(redis.call('set',KEYS[1],(redis.call('get',KEYS[1])or'')..ARGV[1]))";

fn spec(persistence: Persistence) -> ClusterSpec {
    ClusterSpec { persistence, preload: true, ..kit::spec("power", 1, 0) }
}

struct Node {
    cluster: Cluster,
    url: String,
    rng: ChaCha8Rng,
}

impl Node {
    fn new(cluster: Cluster, seed: u64) -> Node {
        let url = cluster.node_urls()[0].clone();
        Node { cluster, url, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    async fn ask(&self, command: RedisCommand) -> RedisReply {
        self.cluster.agent.redis(&self.url, command, LIMIT).await.expect("an answer")
    }

    async fn change_something(&mut self) {
        let (key, number) = (self.rng.random_range(0..KEYS), self.rng.random_range(0..1000));
        let command = match self.rng.random_range(0..6) {
            0 | 1 => format!("SET k{key} {number}"),
            2 => format!("SET k{key} {number} PX 60000"),
            // A command that builds on the existing value.
            3 => format!("EVAL {APPEND} 1 k{key} {number}"),
            4 => format!("EVAL return(redis.call('setnx',KEYS[1],ARGV[1])) 1 k{key} {number}"),
            _ => format!("DEL k{key}"),
        };
        self.ask(RedisCommand::Words(command.split(' ').map(str::to_string).collect())).await;
    }

    /// How far the server's clock is within its second.
    async fn place_in_the_second(&self) -> Duration {
        match self.ask(RedisCommand::Time).await {
            RedisReply::Count(micros) => Duration::from_micros(micros % 1_000_000),
            other => panic!("{other:?}"),
        }
    }

    async fn values(&self) -> Vec<RedisReply> {
        let mut values = Vec::new();
        for key in 0..KEYS {
            values.push(self.ask(RedisCommand::Get(format!("k{key}"))).await);
        }
        values
    }
}

/// The data of a node before and after a power loss. None if the machine was too busy.
async fn power_loss(mut node: Node) -> Option<[Vec<RedisReply>; 2]> {
    for _ in 0..40 {
        node.change_something().await;
    }
    sleep(Duration::from_millis(1500)).await;
    let second = Duration::from_secs(1);
    sleep((second + PLACE).saturating_sub(node.place_in_the_second().await)).await;
    node.change_something().await;
    sleep(SYNCED_BY_THEN).await;
    for _ in 0..12 {
        node.change_something().await;
    }
    let before = node.values().await;
    let late = !(PLACE..TOO_LATE).contains(&node.place_in_the_second().await);
    let loss = Injection::on_members(FaultKind::PowerLoss, vec!["n0".to_string()]);
    assert!(node.cluster.agent.inject(1, &loss).await.unwrap().observed);
    node.cluster.restart_server("n0").await.unwrap();
    assert!(node.cluster.agent.heal(1).await.unwrap().observed);
    let after = node.values().await;
    node.cluster.stop().await.unwrap();
    (!late).then_some([before, after])
}

fn real(persistence: Persistence, seed: u64) -> Option<[Vec<RedisReply>; 2]> {
    let run = async {
        let program = Some(env!("CARGO_BIN_EXE_redjepsen").into());
        let local = Local::find(None, program).expect("these tests need a redis-server");
        power_loss(Node::new(local.start(spec(persistence)).await.unwrap(), seed)).await
    };
    tokio::runtime::Runtime::new().unwrap().block_on(run)
}

fn simulated(persistence: Persistence, seed: u64) -> [Vec<RedisReply>; 2] {
    let run = async || {
        let cluster = Simulated::new(seed).start(spec(persistence)).await.unwrap();
        power_loss(Node::new(cluster, seed)).await.expect("it is never busy")
    };
    in_virtual_time(run).unwrap()
}

#[test]
fn it_leaves_the_same_on_a_simulated_node_and_on_a_local_one() {
    let _turn = turns::local();
    for persistence in [Persistence::None, Persistence::Everysec, Persistence::Always] {
        let in_time = (1..=TRIES).find_map(|seed| Some((seed, real(persistence, seed)?)));
        let (seed, real) =
            in_time.unwrap_or_else(|| panic!("{persistence:?}: this machine was too busy {TRIES} times"));
        let simulated = simulated(persistence, seed);
        assert_eq!(simulated, real, "{persistence:?}, seed {seed}");
        let [before, after] = real;
        let empty = after.iter().all(|value| *value == RedisReply::Value(None));
        // Otherwise the test would have compared nothing.
        assert_eq!(
            (empty, before == after),
            match persistence {
                Persistence::None => (true, false),
                Persistence::Everysec => (false, false),
                Persistence::Always => (false, true),
            }
        );
    }
}
