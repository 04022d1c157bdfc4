//! Redis Cluster, in virtual time.

use super::support::sharded::{KEYS, SECOND, cluster, is_primary, node, settled};

#[test]
fn each_key_has_its_node_and_others_say_which() {
    let mut network = cluster();
    for (number, key) in (1..).zip(KEYS) {
        assert_eq!(network.ask(node(number), &["SET", key, "v"]), "+OK\r\n");
        let slot = network.ask(node(number), &["CLUSTER", "KEYSLOT", key]);
        let slot = slot.trim_start_matches(':').trim();
        for other in (1..=6).filter(|other| *other != number) {
            let moved = network.ask(node(other), &["GET", key]);
            assert_eq!(moved, format!("-MOVED {slot} 10.0.0.{number}:6379\r\n"));
        }
    }
    let crossed = network.ask(node(1), &["EXISTS", "a", "b"]);
    assert_eq!(crossed, "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
    let script = network.ask(node(1), &["EVAL", "return redis.call('get', 'a')", "1", "b"]);
    assert!(script.contains("non local key"), "{script}");
}

#[test]
fn a_dead_primary_is_replaced_and_follows_when_it_is_back() {
    let mut network = cluster();
    network.ask(node(1), &["SET", KEYS[0], "v"]);
    network.pass(SECOND);
    network.kill(*node(1).ip());
    network.until(2 * SECOND, "the cluster is down", |network| {
        network.ask(node(2), &["GET", KEYS[1]]).starts_with("-CLUSTERDOWN")
    });
    network.until(5 * SECOND, "its replica is elected", |network| is_primary(network, 4));
    network.until(5 * SECOND, "it serves", |network| network.ask(node(4), &["GET", KEYS[0]]).contains('v'));
    network.until(5 * SECOND, "others know", |network| network.ask(node(2), &["GET", KEYS[0]]).contains("10.0.0.4"));
    network.start(*node(1).ip());
    network.until(10 * SECOND, "all agree", settled);
    assert!(!is_primary(&mut network, 1));
    network.kill(*node(1).ip());
    network.start(*node(1).ip());
    assert!(!is_primary(&mut network, 1), "it has written that down");
}

#[test]
fn a_primary_that_is_cut_off_stops_to_serve_and_loses_what_it_took() {
    let mut network = cluster();
    let client = network.connect(node(1));
    network.ask_on(client, &["SET", KEYS[0], "before"]);
    network.cut_off(*node(1).ip());
    network.until(5 * SECOND, "its replica is elected", |network| is_primary(network, 4));
    network.until(5 * SECOND, "it serves", |network| network.ask(node(4), &["SET", KEYS[0], "new"]).starts_with("+OK"));
    network.rejoin(*node(1).ip());
    let refused = network.ask(node(1), &["SET", KEYS[0], "old"]);
    assert!(refused.starts_with("-CLUSTERDOWN"), "{refused}");
    network.until(10 * SECOND, "all agree", settled);
    assert!(!is_primary(&mut network, 1));
    assert!(network.ask(node(4), &["GET", KEYS[0]]).contains("new"));
}

#[test]
fn a_handover_loses_nothing_and_only_a_replica_takes_one() {
    let mut network = cluster();
    let refused = network.ask(node(1), &["CLUSTER", "FAILOVER"]);
    assert_eq!(refused, "-ERR You should send CLUSTER FAILOVER to a replica\r\n");
    network.ask(node(1), &["SET", KEYS[0], "v"]);
    assert_eq!(network.ask(node(4), &["CLUSTER", "FAILOVER"]), "+OK\r\n");
    let took = network.until(4 * SECOND, "the replica takes over", |network| is_primary(network, 4));
    assert!(took < SECOND, "{took:?}");
    assert!(network.ask(node(4), &["GET", KEYS[0]]).contains('v'));
    network.until(10 * SECOND, "all agree", settled);
    assert!(!is_primary(&mut network, 1));
}

#[test]
fn without_a_majority_nobody_is_elected() {
    let mut network = cluster();
    network.kill(*node(2).ip());
    network.kill(*node(3).ip());
    network.kill(*node(5).ip());
    network.kill(*node(6).ip());
    network.kill(*node(1).ip());
    network.pass(20 * SECOND);
    assert!(!is_primary(&mut network, 4));
}
