//! Groups of real servers and of simulated ones: what clients are told, and who is the primary after a kill.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::support::network::Network;
use super::support::real::{Real, ServerProgram};
use super::support::sharded;
use super::support::watched::{has, node, sentinel, settled, watched};

/// Real servers on a loaded machine get more time than simulated ones.
const LIMIT: Duration = Duration::from_secs(60);

/// A port that is free, and so is the one of the cluster bus.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An answer without what differs from server to server: numbers, addresses, ids.
fn shape(answer: &str) -> String {
    let mut shape = String::new();
    for word in answer.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.') {
        let (core, end) = word.split_at(word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()).len());
        let number = !core.is_empty() && core.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        let id = core.len() == 40 && core.chars().all(|letter| letter.is_ascii_hexdigit());
        shape += if number || id { "#" } else { core };
        shape += end;
    }
    shape
}

/// Both give an answer of the same shape.
fn same(real: &str, simulated: &str, words: &[&str]) {
    assert_eq!(shape(real), shape(simulated), "{words:?}\nreal: {real}\nsimulated: {simulated}");
}

/// The names in an answer that alternates names and values.
fn names(answer: &str) -> Vec<String> {
    let words: Vec<&str> = answer.split("\r\n").filter(|word| !word.starts_with(['*', '$', '%'])).collect();
    words.chunks(2).map(|pair| pair[0].to_string()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn shapes_leave_out_what_differs() {
    assert_eq!(shape("*2\r\n$9\r\n127.0.0.1\r\n:42\r\n"), shape("*2\r\n$8\r\n10.0.0.7\r\n:1\r\n"));
    assert_ne!(shape("$-1\r\n"), shape("$2\r\nab\r\n"));
    assert_ne!(shape("+OK\r\n"), shape("-ERR x\r\n"));
}

/// Two nodes and three Sentinels.
fn real_watched(program: &ServerProgram) -> (Vec<Real>, Vec<u16>, Vec<Real>) {
    let ports = [free_port(), free_port()];
    let nodes = ports.iter().enumerate().map(|(number, port)| {
        let replica_of = if number > 0 { format!("replicaof 127.0.0.1 {}\n", ports[0]) } else { String::new() };
        let priority = 10 * (number + 1);
        let settings = format!(
            "port {port}\nsave \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nreplica-priority {priority}\n{replica_of}"
        );
        Real::with(program, &["redis.conf"], &[("redis.conf", &settings)])
    });
    let nodes: Vec<Real> = nodes.collect();
    let sentinel_ports = [free_port(), free_port(), free_port()];
    let id = |number: usize| format!("{number:040x}");
    let sentinels = sentinel_ports.iter().enumerate().map(|(number, port)| {
        let mut settings = format!(
            "port {port}\nsentinel myid {}\nsentinel monitor lock 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds lock 500\nsentinel failover-timeout lock 2000\n\
             sentinel known-replica lock 127.0.0.1 {}\n",
            id(number),
            ports[0],
            ports[1]
        );
        for (other, port) in sentinel_ports.iter().enumerate().filter(|(other, _)| *other != number) {
            settings += &format!("sentinel known-sentinel lock 127.0.0.1 {port} {}\n", id(other));
        }
        Real::with(program, &["sentinel.conf", "--sentinel"], &[("sentinel.conf", &settings)])
    });
    let sentinels: Vec<Real> = sentinels.collect();
    until("the Sentinels agree", || {
        sentinels.iter().all(|one| one.ask(&["SENTINEL", "CKQUORUM", "lock"]).starts_with("+OK 3"))
            && nodes[1].ask(&["INFO", "replication"]).contains("master_link_status:up")
            && sentinels
                .iter()
                .all(|one| !one.ask(&["SENTINEL", "REPLICAS", "lock"]).contains("master-link-status\r\n$3\r\nerr"))
    });
    // Until the stream begins.
    std::thread::sleep(Duration::from_secs(2));
    (nodes, ports.to_vec(), sentinels)
}

#[test]
fn sentinels_and_their_servers_say_and_do_the_same() {
    let (mut real, ports, real_sentinels) = real_watched(&ServerProgram::usual());
    let mut simulated = watched(1);
    let on_nodes: &[(usize, &[&str])] = &[
        (0, &["SET", "k", "v"]),
        (1, &["SET", "k", "w"]),
        (1, &["EVAL", "return redis.call('set', 'k', 'w')", "0"]),
        (1, &["DEL", "k"]),
        (1, &["PEXPIRE", "k", "1"]),
        (1, &["WAIT", "0", "0"]),
        (0, &["WAIT", "0", "0"]),
        (1, &["EXISTS", "nothing"]),
        (0, &["ROLE"]),
        (1, &["ROLE"]),
    ];
    for (number, words) in on_nodes {
        let told = simulated.ask(node(*number as u8 + 1), words);
        same(&real[*number].ask(words), &told, words);
    }
    let questions: &[&[&str]] = &[
        &["PING"],
        &["ROLE"],
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "lock"],
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "other"],
        &["SENTINEL", "CKQUORUM", "lock"],
        &["SENTINEL", "CKQUORUM", "other"],
        &["SENTINEL", "FAILOVER", "other"],
        &["SENTINEL", "NONSENSE"],
        &["SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "1.2.3.4", "1", "0", "*"],
        &["GET", "k"],
    ];
    for words in questions {
        let told = simulated.ask(sentinel(1), words);
        same(&real_sentinels[0].ask(words), &told, words);
    }
    for what in ["MASTER", "REPLICAS", "SENTINELS"] {
        let words = ["SENTINEL", what, "lock"];
        let (real, told) = (names(&real_sentinels[0].ask(&words)), names(&simulated.ask(sentinel(1), &words)));
        let unknown: Vec<&String> = told.iter().filter(|name| !real.contains(name)).collect();
        assert!(unknown.is_empty() && !told.is_empty(), "{what}: {unknown:?}");
    }
    real[0].kill();
    simulated.kill(*node(1).ip());
    until("the replica is promoted", || real[1].ask(&["ROLE"]).contains("master"));
    simulated.until(LIMIT, "the replica is promoted", |network| network.ask(node(2), &["ROLE"]).contains("master"));
    assert_eq!(real[1].ask(&["GET", "k"]), simulated.ask(node(2), &["GET", "k"]));
    let leads_to =
        |one: &Real| one.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "lock"]).contains(&ports[1].to_string());
    until("all Sentinels know", || real_sentinels.iter().all(leads_to));
    real[0].start_again();
    simulated.start(*node(1).ip());
    until("the old one follows", || real[0].ask(&["INFO", "replication"]).contains("master_link_status:up"));
    simulated.until(LIMIT, "the old one follows", |network| has(network, node(1), "master_link_status:up"));
    assert_eq!(real[0].ask(&["GET", "k"]), simulated.ask(node(1), &["GET", "k"]));
    simulated.until(LIMIT, "the Sentinels are sure", settled);
}

/// Six nodes: three primaries with a replica each.
fn real_cluster(program: &ServerProgram) -> Vec<Real> {
    let ports: Vec<u16> = (0..6).map(|_| free_port()).collect();
    let id = |number: usize| format!("{:040x}", number + 1);
    let edge = |part: usize| 16384 * part / 3;
    let start = |number: usize| {
        let mut nodes = String::new();
        for (other, port) in ports.iter().enumerate() {
            let myself = if other == number { "myself," } else { "" };
            let (role, primary, slots) = match other {
                0..3 => ("master", "-".to_string(), format!(" {}-{}", edge(other), edge(other + 1) - 1)),
                _ => ("slave", id(other - 3), String::new()),
            };
            let (bus, epoch) = (port + 10_000, other % 3 + 1);
            nodes += &format!(
                "{} 127.0.0.1:{port}@{bus} {myself}{role} {primary} 0 0 {epoch} connected{slots}\n",
                id(other)
            );
        }
        nodes += "vars currentEpoch 3 lastVoteEpoch 0\n";
        let port = ports[number].to_string();
        let arguments = ["--port", &port, "--save", "", "--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0"];
        let of_cluster = ["--cluster-node-timeout", "500", "--cluster-replica-validity-factor", "0"];
        Real::with(program, &[&arguments[..], &of_cluster].concat(), &[("nodes.conf", &nodes)])
    };
    let nodes: Vec<Real> = (0..6).map(start).collect();
    until("the cluster is up", || real_settled(&nodes));
    nodes
}

fn real_settled(nodes: &[Real]) -> bool {
    nodes.iter().all(|one| {
        let info = one.ask(&["INFO", "replication"]);
        let view = one.ask(&["CLUSTER", "NODES"]);
        one.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
            && (info.contains("role:master") || info.contains("master_link_status:up"))
            && !view.contains("fail")
            && !view.contains("disconnected")
    })
}

/// An answer to `CLUSTER SLOTS` with a word in place of each host, port and id, whose lengths differ as well.
fn without_places(answer: &str) -> String {
    let parts = answer.lines().filter(|part| !part.starts_with('$')).map(|part| match part.strip_prefix(':') {
        Some(number) if number == "6379" || number.parse().is_ok_and(|port: u32| port > 16_383) => "port",
        None if part.parse::<std::net::Ipv4Addr>().is_ok() => "host",
        None if part.len() == 40 => "id",
        _ => part,
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[test]
fn nodes_of_a_cluster_say_and_do_the_same() {
    let mut real = real_cluster(&ServerProgram::usual());
    let mut simulated: Network = sharded::cluster();
    for (number, key) in (0..).zip(["b", "c", "a"]) {
        real[number].ask(&["SET", key, "v"]);
        simulated.ask(sharded::node(number as u8 + 1), &["SET", key, "v"]);
    }
    // Until all have heard of each other's offsets.
    std::thread::sleep(Duration::from_secs(3));
    simulated.pass(Duration::from_secs(3));
    let questions: &[(usize, &[&str])] = &[
        (0, &["SET", "b", "v"]),
        (1, &["SET", "b", "v"]),
        (3, &["GET", "b"]),
        (4, &["EVAL", "return 1", "1", "b"]),
        (0, &["EXISTS", "a", "b"]),
        (0, &["EVAL", "return redis.call('get', 'a')", "1", "b"]),
        (0, &["REPLICAOF", "NO", "ONE"]),
        (0, &["CLUSTER", "KEYSLOT", "{user1000}.following"]),
        (0, &["CLUSTER", "NONSENSE"]),
        (0, &["CLUSTER", "KEYSLOT"]),
        (0, &["CLUSTER", "SLOTS", "all"]),
        (0, &["CLUSTER", "FAILOVER"]),
        (0, &["ASKING"]),
        (3, &["ROLE"]),
        (0, &["PING"]),
    ];
    for (number, words) in questions {
        let told = simulated.ask(sharded::node(*number as u8 + 1), words);
        same(&real[*number].ask(words), &told, words);
    }
    let slots: &[&str] = &["CLUSTER", "SLOTS"];
    same(&without_places(&real[0].ask(slots)), &without_places(&simulated.ask(sharded::node(1), slots)), slots);
    real[0].kill();
    simulated.kill(*sharded::node(1).ip());
    until("the cluster is down", || real[1].ask(&["GET", "c"]).starts_with("-CLUSTERDOWN"));
    simulated.until(LIMIT, "the cluster is down", |network| {
        network.ask(sharded::node(2), &["GET", "c"]).starts_with("-CLUSTERDOWN")
    });
    until("its replica serves", || real[3].ask(&["GET", "b"]).contains('v'));
    simulated.until(LIMIT, "its replica serves", |network| network.ask(sharded::node(4), &["GET", "b"]).contains('v'));
    real[0].start_again();
    simulated.start(*sharded::node(1).ip());
    until("all agree again", || real_settled(&real) && real[0].ask(&["ROLE"]).contains("slave"));
    simulated.until(LIMIT, "all agree again", sharded::settled);
    until("another primary hands over", || real[4].ask(&["CLUSTER", "FAILOVER"]) == "+OK\r\n");
    assert_eq!(simulated.ask(sharded::node(5), &["CLUSTER", "FAILOVER"]), "+OK\r\n");
    until("the replica takes over", || real[4].ask(&["ROLE"]).contains("master"));
    simulated
        .until(LIMIT, "the replica takes over", |network| network.ask(sharded::node(5), &["ROLE"]).contains("master"));
}
