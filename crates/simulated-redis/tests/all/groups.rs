//! Replicas and Sentinels, in virtual time.

use std::time::Duration;

use simulated_redis::Persistence;

use super::support::watched::{SECOND, has, is_primary, node, primary_by, replicated, sentinel, settled, watched};

#[test]
fn replicas_get_all_that_is_written_and_refuse_writes() {
    let mut network = replicated(2, Persistence::None);
    network.ask(node(1), &["SET", "k", "v", "PX", "1000"]);
    network.ask(node(1), &["EVAL", "redis.call('set', 'a', 1) return redis.call('incr', 'a')", "0"]);
    network.pass(Duration::from_millis(5));
    for number in 2..=3 {
        assert_eq!(network.ask(node(number), &["GET", "a"]), "$1\r\n2\r\n");
        let refused = network.ask(node(number), &["SET", "k", "w"]);
        assert_eq!(refused, "-READONLY You can't write against a read only replica.\r\n");
        assert!(network.ask(node(number), &["GET", "k"]).contains('v'));
    }
    network.pass(SECOND);
    assert_eq!(network.ask(node(2), &["GET", "k"]), "$-1\r\n");
    network.pass(SECOND);
    assert_eq!(network.ask(node(2), &["DBSIZE"]), ":1\r\n", "the primary told it");
}

#[test]
fn a_replica_hides_what_has_expired_and_keeps_it_until_it_is_told() {
    let mut network = replicated(1, Persistence::None);
    network.ask(node(1), &["SET", "k", "v", "PX", "1000"]);
    network.pass(Duration::from_millis(50));
    network.cut_off(*node(1).ip());
    network.pass(3 * SECOND);
    assert_eq!(network.ask(node(2), &["GET", "k"]), "$-1\r\n");
    assert_eq!(network.ask(node(2), &["DBSIZE"]), ":1\r\n");
}

#[test]
fn wait_counts_replicas_that_have_the_write() {
    let mut network = replicated(2, Persistence::None);
    let client = network.connect(node(1));
    network.pass(2 * SECOND);
    network.ask_on(client, &["SET", "k", "v"]);
    assert_eq!(network.ask_on(client, &["WAIT", "2", "100"]).unwrap(), ":2\r\n");
    network.cut_off(*node(3).ip());
    network.ask_on(client, &["SET", "k", "w"]);
    let began = network.now();
    assert_eq!(network.ask_on(client, &["WAIT", "2", "100"]).unwrap(), ":1\r\n");
    assert!(network.now() - began >= Duration::from_millis(100));
    assert_eq!(network.ask_on(client, &["WAIT", "1", "100"]).unwrap(), ":1\r\n");
}

#[test]
fn a_replica_that_was_cut_off_goes_on_where_it_was() {
    let mut network = replicated(1, Persistence::Always);
    network.ask(node(1), &["SET", "a", "1"]);
    network.pass(Duration::from_millis(20));
    network.cut_off(*node(2).ip());
    network.ask(node(1), &["SET", "b", "2"]);
    network.pass(2 * SECOND);
    assert_eq!(network.ask(node(2), &["ROLE"]), "", "nobody reaches it");
    network.rejoin(*node(2).ip());
    network.until(3 * SECOND, "it has the rest", |network| network.ask(node(2), &["GET", "b"]).contains('2'));
    network.kill(*node(2).ip());
    network.ask(node(1), &["SET", "c", "3"]);
    network.start(*node(2).ip());
    network.until(3 * SECOND, "it has a new copy", |network| network.ask(node(2), &["GET", "c"]).contains('3'));
    assert!(network.ask(node(2), &["GET", "a"]).contains('1'));
}

#[test]
fn a_dead_primary_is_replaced_by_the_next_in_line_and_follows_when_it_is_back() {
    let mut network = watched(2);
    let client = network.connect(node(1));
    network.ask_on(client, &["SET", "k", "v"]);
    network.pass(SECOND);
    network.kill(*node(1).ip());
    let took = network.until(10 * SECOND, "a replica is promoted", |network| is_primary(network, node(2)));
    assert!(took > Duration::from_millis(500), "not before it was silent for that long: {took:?}");
    network.until(5 * SECOND, "all Sentinels know", |network| {
        (1..=3).all(|number| primary_by(network, number) == Some(*node(2).ip()))
    });
    assert!(network.ask(node(2), &["GET", "k"]).contains('v'));
    network.until(10 * SECOND, "the other one follows", |network| {
        has(network, node(3), "master_host:10.0.0.2") && has(network, node(3), "master_link_status:up")
    });
    network.start(*node(1).ip());
    network.until(30 * SECOND, "the old one follows", |network| has(network, node(1), "master_host:10.0.0.2"));
    network.until(15 * SECOND, "the Sentinels are sure again", settled);
    network.kill(*node(1).ip());
    network.start(*node(1).ip());
    assert!(has(&mut network, node(1), "master_host:10.0.0.2"), "it has written that down");
}

#[test]
fn a_primary_that_is_cut_off_takes_writes_that_are_lost() {
    let mut network = watched(2);
    let client = network.connect(node(1));
    network.pass(SECOND);
    network.cut_off(*node(1).ip());
    network.until(10 * SECOND, "a replica is promoted", |network| is_primary(network, node(2)));
    network.ask(node(2), &["SET", "k", "new"]);
    network.rejoin(*node(1).ip());
    assert_eq!(network.ask_on(client, &["PING"]), None);
    assert_eq!(network.ask(node(1), &["SET", "k", "old"]), "+OK\r\n", "nobody has told it yet");
    network.until(30 * SECOND, "the old one follows", |network| has(network, node(1), "master_link_status:up"));
    assert!(network.ask(node(1), &["GET", "k"]).contains("new"));
}

#[test]
fn an_operator_may_order_a_failover_and_a_minority_may_not_begin_one() {
    let mut network = watched(1);
    assert!(network.ask(sentinel(1), &["SENTINEL", "FAILOVER", "other"]).starts_with("-ERR No such master"));
    assert_eq!(network.ask(sentinel(1), &["SENTINEL", "FAILOVER", "lock"]), "+OK\r\n");
    network.until(4 * SECOND, "the replica is promoted", |network| is_primary(network, node(2)));
    network.until(30 * SECOND, "the old one follows", |network| has(network, node(1), "master_link_status:up"));
    network.until(30 * SECOND, "the Sentinels are sure again", settled);
    network.kill(*sentinel(1).ip());
    network.kill(*sentinel(2).ip());
    network.kill(*node(2).ip());
    network.pass(30 * SECOND);
    assert!(!is_primary(&mut network, node(1)));
}
