//! Existing servers behind something else: a Sentinel group behind HAProxy, and a Redis Cluster behind address translation.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::existing::{SECRET, redis_cluster, redis_cluster_at, run, sentinel_group, until};
use crate::redis_server::{Redis, free_port};
use crate::turns;

/// A HAProxy that ends with the test.
struct Proxy(Child, #[expect(dead_code, reason = "the folder goes with the proxy")] TempDir);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts HAProxy with these sections, and waits until it accepts connections on this port.
fn proxy(sections: &str, port: u16) -> Proxy {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("haproxy.cfg");
    let defaults = "defaults\n mode tcp\n timeout connect 1s\n timeout client 1h\n timeout server 1h\n";
    fs::write(&file, format!("global\n maxconn 1000\n{defaults}{sections}")).unwrap();
    let program =
        ["/usr/sbin/haproxy", "haproxy"].into_iter().find(|path| Command::new(path).arg("-v").output().is_ok());
    let program = program.expect("HAProxy: install haproxy");
    let child = Command::new(program).arg("-db").arg("-f").arg(&file).stdout(Stdio::null()).spawn().unwrap();
    until("HAProxy listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Proxy(child, folder)
}

/// As HAProxy's users find the primary of a Sentinel group: by its role. Of two primaries, the first one in the list counts.
fn to_the_primary(nodes: &[&Redis], port: u16) -> Proxy {
    let mut section =
        format!("listen primary\n bind 127.0.0.1:{port}\n balance first\n timeout check 3s\n option tcp-check\n");
    for (send, expect) in [(format!("AUTH\\ {SECRET}"), "+OK"), ("INFO\\ replication".into(), "role:master")] {
        write!(section, " tcp-check send {send}\\r\\n\n tcp-check expect string {expect}\n").unwrap();
    }
    for (number, node) in nodes.iter().enumerate() {
        writeln!(section, " server s{number} {} check inter 200ms fall 2 rise 1", node.address()).unwrap();
    }
    proxy(&section, port)
}

#[test]
fn a_sentinel_group_behind_haproxy_has_two_primaries_for_seconds_after_a_failover() {
    let _turn = turns::local();
    let (nodes, sentinels) = sentinel_group();
    let port = free_port();
    let _proxy = to_the_primary(&[&nodes[1], &nodes[2], &nodes[0]], port);
    let url = [format!("redis://127.0.0.1:{port}")];
    until("HAProxy knows the primary", || is_primary(port));
    let doctor = doctor(&url[0], 1);
    for sentence in [
        "primary, 2 replicas".to_string(),
        format!("Something forwards the connections to 127.0.0.1:{port}: clients have addresses there that"),
        format!("Sentinels watch 127.0.0.1:{port}: a failover is possible, and its settings were not read."),
        "min-replicas-to-write is 0".to_string(),
    ] {
        assert!(doctor.contains(&sentence), "{sentence}: {doctor}");
    }
    let flags = "--seed 1 --allow-writes --nemesis";
    run(&format!("--workload single {flags} none --time-limit 3s"), &url).expect(0).is_silent();
    run(&format!("--workload single {flags} pause-before-write"), &url).expect(1).is_silent();
    // The Sentinels promote a replica, and HAProxy connects to it from then on. An older connection still leads to the old primary.
    let folder = tempfile::tempdir().unwrap();
    let roles = format!("redis-cli -p {} ROLE; redis-cli -p {} ROLE", nodes[1].port, nodes[2].port);
    let steps = [
        "hook failover",
        "wait 0.05ttl",
        "start client:0 to before-write",
        "reset client:1 and nodes",
        "start client:1 giving up after 0.2ttl",
        "wait 0.02ttl",
        "heal reset client:1 and nodes",
        "await client:1 end within 0.4ttl or go on",
        "go client:0",
        "await client:0 end",
        "await client:1 end",
        "heal all",
    ];
    let nemesis = format!(
        "description = \"d\"\nstory = \"s\"\nprogress = \"any\"\nclients = 2\nttl = \"10s\"\nscript = {steps:?}\n[hooks.failover]\n\
         inject = \"redis-cli -p {} SENTINEL FAILOVER theirs\"\nseen = \"({roles}) | grep -qx master\"\n",
        sentinels[0].port,
    );
    let file = folder.path().join("failover.toml");
    fs::write(&file, nemesis).unwrap();
    let broken = run(&format!("--workload single {flags} {}", file.display()), &url).expect(1);
    broken.is_silent();
}

/// True if a connection to this port leads to a primary.
fn is_primary(port: u16) -> bool {
    let role = Command::new("redis-cli").args(["-p", &port.to_string(), "ROLE"]).env("REDISCLI_AUTH", SECRET).output();
    role.unwrap().stdout.starts_with(b"master")
}

/// Doctor's text about an address, if it ends with this code.
fn doctor(url: &str, code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let output = command.args(["doctor", url]).env("REDISCLI_AUTH", SECRET).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_redis_cluster_behind_translated_addresses_is_tested_through_them() {
    let _turn = turns::local();
    let ports: [u16; 6] = std::array::from_fn(|_| free_port());
    let outside: [u16; 6] = std::array::from_fn(|_| free_port());
    let sections: String = ports.iter().zip(outside).fold(String::new(), |text, (inside, outside)| {
        text + &format!("listen p{outside}\n bind 127.0.0.1:{outside}\n server s 127.0.0.1:{inside}\n")
    });
    let _proxy = proxy(&sections, outside[0]);
    let nodes = redis_cluster_at(&ports, |number| {
        let bus = u32::from(ports[number]) + 10_000;
        let lines = [format!("cluster-announce-port {}", outside[number]), format!("cluster-announce-bus-port {bus}")];
        let replica = format!("replica-announce-port {}", outside[number]);
        [&lines[..], &["cluster-announce-ip 127.0.0.1".to_string(), replica]].concat()
    });
    let url = [nodes[4].url()];
    let told = doctor(&url[0], 1);
    // Doctor follows the announced addresses of the primaries.
    for port in &outside[..3] {
        assert!(told.contains(&format!("127.0.0.1:{port}")), "{port}: {told}");
    }
    assert!(told.contains("Something forwards the connections to 3 servers"), "{told}");
    assert!(!told.contains("does not answer from here"), "{told}");
    let flags = "--seed 1 --allow-writes --workload cluster --nemesis";
    run(&format!("{flags} none --time-limit 3s"), &url).expect(0).is_silent();
    run(&format!("{flags} pause-before-write"), &url).expect(1).is_silent();
    run(&format!("{flags} failover-on-command --allow-failover"), &url).expect(0).is_silent();
}

#[test]
fn names_that_do_not_resolve_here_are_an_obstacle_for_clients_but_not_for_a_run() {
    let _turn = turns::local();
    let nodes = redis_cluster();
    let told = doctor(&nodes[0].url(), 1);
    assert!(
        told.contains("invalid:") && told.contains("does not answer from here: clients that follow it fail"),
        "{told}"
    );
}
