//! Shared by the tests of clusters: descriptions of clusters, talking to their clients and servers, and checks for every kind of
//! cluster.

use std::process::Command;
use std::time::{Duration, Instant};

use model::fault_kinds::FaultKind;
use model::topology::{OwnClient, Persistence, Program, Topology};
use system::cluster::{ClientCommand, ClientOutput, ClientProcess, Cluster, ClusterError, ClusterSpec, Owner};
use system::faults::{AgentError, Injection, Observation, RedisCommand, RedisReply};
use tokio::io::AsyncWriteExt;

/// A server with commands that Debian's Redis lacks.
pub const NEWER: &str = "valkey:9.1";

const LIMIT: Duration = Duration::from_secs(2);

/// A cluster of independent nodes with built-in clients. Its run has this name, which must differ between tests.
pub fn spec(name: &str, nodes: u32, clients: u32) -> ClusterSpec {
    ClusterSpec {
        run_id: format!("{name}-{}", std::process::id()),
        nodes,
        program: Program::Redis,
        topology: Topology::Independent,
        clients,
        threads: 1,
        client: ClientCommand::BuiltIn,
        subnet: None,
        owner: Owner::current(),
        persistence: Persistence::None,
        config: Vec::new(),
        preload: false,
        server: None,
        upgrades: Vec::new(),
        needs_ifeq: None,
        network_faults: false,
    }
}

/// Installs the newer server program that some scenarios and locks need, unless it is there. Returns the line with its path.
pub fn install_newer_server() -> String {
    let installed =
        Command::new(env!("CARGO_BIN_EXE_redjepsen")).args(["install", "--servers", NEWER]).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    String::from_utf8(installed.stdout).unwrap()
}

/// A program of this machine as the client.
pub fn command(argv: &[&str]) -> ClientCommand {
    let command = argv.iter().map(|word| (*word).to_string()).collect();
    ClientCommand::Own(OwnClient { command, ..OwnClient::default() })
}

pub async fn next(process: &mut ClientProcess) -> ClientOutput {
    // A hang takes longer than this on any machine.
    tokio::time::timeout(Duration::from_secs(60), process.output.recv()).await.expect("output").expect("not closed")
}

/// A client's answer to this line.
pub async fn say(process: &mut ClientProcess, text: &str) -> String {
    process.stdin.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    process.stdin.flush().await.unwrap();
    match next(process).await {
        ClientOutput::Stdout(line) => String::from_utf8(line).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub async fn ask(cluster: &Cluster, url: &str, command: RedisCommand) -> Result<RedisReply, String> {
    cluster.agent.redis(url, command, LIMIT).await.map_err(|error| error.to_string())
}

pub fn members(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

pub async fn inject(cluster: &Cluster, fault: u32, injection: Injection) -> Observation {
    let seen = cluster.agent.inject(fault, &injection).await.unwrap();
    assert!(seen.observed, "{injection:?}: {seen:?}");
    seen
}

pub async fn heal(cluster: &Cluster, fault: u32) {
    let seen = cluster.agent.heal(fault).await.unwrap();
    assert!(seen.observed, "{seen:?}");
}

/// Pauses a member. The fault's number is the number in the member's name, plus 100 for a node.
pub async fn pause(cluster: &Cluster, member: &str) -> Result<Observation, AgentError> {
    let number: u32 = member[1..].parse().unwrap();
    let fault = if member.starts_with('n') { 100 + number } else { number };
    cluster.agent.inject(fault, &Injection::on_members(FaultKind::Pause, members(&[member]))).await
}

/// Five nodes and five clients that repeat their input: all answer, stand still while they are paused, and a killed client comes
/// back.
pub async fn answers_and_pauses(cluster: &Cluster) {
    let began = Instant::now();
    assert_eq!(cluster.members().count(), 12);
    assert_eq!(cluster.node_urls().len(), 5);
    for url in cluster.node_urls().iter().chain([&cluster.resource_url()]) {
        assert_eq!(ask(cluster, url, RedisCommand::Ping).await, Ok(RedisReply::Pong));
        assert_eq!(ask(cluster, url, RedisCommand::Dbsize).await, Ok(RedisReply::Count(0)));
        let value = ask(cluster, url, RedisCommand::Get("k0".to_string())).await;
        assert_eq!(value, Ok(RedisReply::Value(None)));
    }
    let bound = cluster.agent.clock_bound(began.into()).await.unwrap();
    assert!(bound.error_ns < 50_000_000, "{bound:?}");
    eprintln!("clock bound: {bound:?}");

    // Every client answers, and no client's lines mix with another's.
    let mut clients = Vec::new();
    for client in 0..5 {
        clients.push(cluster.start_client(client).await.unwrap());
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(say(client, &format!("I am {number}")).await, format!("I am {number}"));
    }

    // A client that stays silent or never reads delays no other client.
    let seen = pause(cluster, "c3").await.unwrap();
    assert!(seen.observed && seen.effect_us.is_some(), "{seen:?}");
    clients[3].stdin.write_all(b"are you there?\n").await.unwrap();
    clients[3].stdin.flush().await.unwrap();
    let answer = tokio::time::timeout(Duration::from_millis(300), clients[3].output.recv()).await;
    assert!(answer.is_err(), "a paused client says nothing: {answer:?}");
    assert_eq!(say(&mut clients[2], "I am").await, "I am");
    heal(cluster, 3).await;
    assert_eq!(next(&mut clients[3]).await, ClientOutput::Stdout(b"are you there?".to_vec()));

    let url = &cluster.node_urls()[2];
    let seen = pause(cluster, "n2").await.unwrap();
    // Redis has several threads, and all of them are stopped.
    assert!(seen.observed && seen.processes.iter().all(|process| process.states == "T"), "{seen:?}");
    assert!(cluster.agent.redis(url, RedisCommand::Ping, Duration::from_millis(300)).await.is_err());
    assert!(ask(cluster, &cluster.node_urls()[1], RedisCommand::Ping).await.is_ok(), "the others do not mind");
    let seen = cluster.agent.heal_all().await.unwrap();
    assert!(seen.len() == 1 && seen[0].observed, "{seen:?}");
    ask(cluster, url, RedisCommand::Ping).await.unwrap();

    // A client killed while paused comes back as a new process at the same address.
    assert!(pause(cluster, "c1").await.unwrap().observed);
    let began = Instant::now();
    let mut again = cluster.restart_client(1).await.unwrap();
    eprintln!("client restarted in {:?}", began.elapsed());
    assert_eq!(say(&mut again, "I am new").await, "I am new");
    assert_eq!(next(&mut clients[1]).await, ClientOutput::Closed(None));
    let healed = cluster.agent.heal_all().await.unwrap();
    assert!(healed.len() == 1 && healed[0].observed, "the new process was never stopped: {healed:?}");
    assert!(pause(cluster, "c1").await.unwrap().observed);
    let states = cluster.member_states().await.unwrap();
    assert!(states.len() == 12 && states.iter().all(|state| state.running), "{states:?}");

    let logs = tempfile::tempdir().unwrap();
    cluster.collect_logs(logs.path()).await.unwrap();
    for member in ["n0", "n4", "resource"] {
        let log = std::fs::read_to_string(logs.path().join(member).join("redis.log")).unwrap();
        assert!(log.contains("Ready to accept connections"), "{member}: {log}");
    }
    assert!(logs.path().join("c0/client.log").exists());
}

/// After a kill and a restart, a node has the data that it had written to its disk.
pub async fn comes_back_with_what_it_persisted(start: impl AsyncFn(ClusterSpec) -> Result<Cluster, ClusterError>) {
    for (persistence, kept) in [(Persistence::None, 0), (Persistence::Everysec, 1), (Persistence::Always, 1)] {
        let cluster = start(ClusterSpec {
            persistence,
            preload: true,
            client: command(&["/bin/cat"]),
            ..spec("test-restart", 2, 1)
        })
        .await
        .unwrap();
        let url = &cluster.node_urls()[1];
        ask(&cluster, url, RedisCommand::Words(members(&["SET", "lock", "1"]))).await.unwrap();
        inject(&cluster, 0, Injection::on_members(FaultKind::Kill, members(&["n1"]))).await;
        assert!(ask(&cluster, url, RedisCommand::Ping).await.is_err());
        assert!(!cluster.agent.heal(0).await.unwrap().observed, "nobody has started it again");
        let began = Instant::now();
        cluster.restart_server("n1").await.unwrap();
        eprintln!("{persistence:?}: started again in {:?}", began.elapsed());
        heal(&cluster, 0).await;
        let found = ask(&cluster, url, RedisCommand::Exists("lock".to_string())).await;
        assert_eq!(found, Ok(RedisReply::Count(kept)), "{persistence:?}");
        // The node is an ordinary member again.
        assert!(pause(&cluster, "n1").await.unwrap().observed);
        heal(&cluster, 101).await;
        cluster.stop().await.unwrap();
    }
}

/// A cluster that cannot be started is refused in one line, and leaves nothing.
pub async fn fails_with_a_reason(
    start: impl AsyncFn(ClusterSpec) -> Result<Cluster, ClusterError>,
    is_gone: impl AsyncFn(&str),
) {
    let good = || ClusterSpec { client: command(&["/bin/cat"]), ..spec("test-fails", 1, 1) };
    let subnet = Some("10.212.0.0/30".parse().unwrap());
    for (spec, words) in [
        (ClusterSpec { client: command(&["/nowhere/client"]), ..good() }, &["c0", "/nowhere/client"][..]),
        (ClusterSpec { run_id: "no/slash".to_string(), ..good() }, &["no/slash"]),
        (ClusterSpec { subnet, ..good() }, &["room for 1"]),
    ] {
        let run_id = spec.run_id.clone();
        let error = start(spec).await.err().expect("must fail").to_string();
        assert!(!error.contains('\n') && words.iter().all(|word| error.contains(word)), "{error}");
        is_gone(&run_id).await;
    }

    // A client that exits at once fails the start, or `start_client` returns it as ended. Its last output is kept.
    match start(ClusterSpec { client: command(&["/bin/cat", "--nonsense"]), ..good() }).await {
        Err(error) => assert!(error.to_string().contains("nonsense"), "{error}"),
        Ok(cluster) => {
            let mut client = cluster.start_client(0).await.unwrap();
            assert!(matches!(next(&mut client).await, ClientOutput::Stderr(_)));
            cluster.stop().await.unwrap();
        }
    }

    let first = start(ClusterSpec { clients: 0, ..good() }).await.unwrap();
    let error = start(ClusterSpec { clients: 0, ..good() }).await.err().unwrap();
    assert!(matches!(error, ClusterError::RunExists { .. }), "{error}");
    assert!(first.member_states().await.unwrap().iter().all(|state| state.running), "the first run is unharmed");
    for name in ["n0", "c0", "n7"] {
        let error = first.restart_server(name).await.unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    first.stop().await.unwrap();
}
