//! What each server has and lacks. The comparison with real servers has the exact words; no real Redis 8.4 is compared.

use simulated_redis::{Persistence, Version};

use super::support::simulated::Simulated;

#[test]
fn a_key_is_set_by_ifeq_if_it_holds_the_value_and_without_px_it_loses_its_ttl() {
    for version in Version::ALL.into_iter().filter(|version| version.has_ifeq()) {
        let mut server = Simulated::of(version, Persistence::None);
        let client = server.connect();
        let mut ask = |line: &str| server.words(client, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(ask("SET k me IFEQ me PX 1000"), "$-1\r\n", "it creates nothing");
        assert_eq!(ask("EXISTS k"), ":0\r\n");
        assert_eq!(ask("SET k me NX PX 1000"), "+OK\r\n");
        assert_eq!(ask("SET k me IFEQ you PX 9000"), "$-1\r\n");
        assert_eq!(ask("PTTL k"), ":1000\r\n", "{version:?}");
        assert_eq!(ask("SET k me IFEQ me PX 2000"), "+OK\r\n");
        assert_eq!(ask("PTTL k"), ":2000\r\n", "{version:?}");
        assert_eq!(ask("SET k me IFEQ me"), "+OK\r\n");
        assert_eq!(ask("PTTL k"), ":-1\r\n", "{version:?}");
        assert_eq!(ask("SET k me NX IFEQ me"), "-ERR syntax error\r\n");
        assert_eq!(ask("SET k me IFEQ"), "-ERR syntax error\r\n");
    }
}

#[test]
fn a_server_without_ifeq_answers_with_a_syntax_error_and_changes_nothing() {
    for version in [Version::Redis70, Version::Redis82] {
        let mut server = Simulated::of(version, Persistence::None);
        let client = server.connect();
        server.words(client, &["SET", "k", "me", "PX", "1000"]);
        assert_eq!(server.words(client, &["SET", "k", "me", "IFEQ", "me"]), "-ERR syntax error\r\n");
        assert_eq!(server.words(client, &["PTTL", "k"]), ":1000\r\n");
    }
}

#[test]
fn compare_and_delete_is_a_command_of_its_own_on_some_servers() {
    for version in Version::ALL {
        let mut server = Simulated::of(version, Persistence::None);
        let client = server.connect();
        for words in [&["DELIFEQ", "k", "me"][..], &["DELEX", "k", "IFEQ", "me"]] {
            server.words(client, &["SET", "k", "you"]);
            let refused = server.words(client, words);
            server.words(client, &["SET", "k", "me"]);
            let deleted = server.words(client, words);
            let is_there = server.words(client, &["EXISTS", "k"]);
            let has_it = match words[0] {
                "DELIFEQ" => matches!(version, Version::Valkey90 | Version::Valkey91),
                _ => version == Version::Redis84,
            };
            if has_it {
                assert_eq!([&*refused, &*deleted, &*is_there], [":0\r\n", ":1\r\n", ":0\r\n"], "{version:?}");
            } else {
                assert!(
                    refused.starts_with("-ERR unknown command 'DEL") && refused == deleted,
                    "{version:?}: {refused}"
                );
                assert_eq!(is_there, ":1\r\n");
            }
        }
    }
}

/// By its documentation: no program of that version is compared.
#[test]
fn redis_8_4_has_the_other_conditions_too() {
    let mut server = Simulated::of(Version::Redis84, Persistence::None);
    let client = server.connect();
    let mut ask = |line: &str| server.words(client, &line.split(' ').collect::<Vec<_>>());
    assert_eq!(ask("SET k a IFNE b"), "+OK\r\n", "it creates the key");
    assert_eq!(ask("SET k c IFNE a"), "$-1\r\n");
    assert_eq!(ask("DELEX k IFNE a"), ":0\r\n");
    assert_eq!(ask("DELEX k IFNE b"), ":1\r\n");
    assert_eq!(ask("DELEX k IFNE b"), ":0\r\n", "there is no key");
    ask("SET k a");
    assert_eq!(ask("DELEX k"), ":1\r\n");
    assert!(ask("DELEX k IFEQ").starts_with("-ERR wrong number"));
}

#[test]
fn what_was_set_and_deleted_on_a_condition_is_the_same_after_a_restart() {
    for version in [Version::Valkey91, Version::Redis84] {
        let mut server = Simulated::of(version, Persistence::Always);
        let client = server.connect();
        let delete: &[&str] =
            if version == Version::Redis84 { &["DELEX", "b", "IFEQ", "v"] } else { &["DELIFEQ", "b", "v"] };
        for words in [
            &["SET", "a", "v", "PX", "5000"][..],
            &["SET", "a", "v", "IFEQ", "v"],
            &["SET", "b", "v"],
            delete,
            &["SET", "c", "v"],
            &["SET", "c", "w", "IFEQ", "v", "PX", "7000"],
        ] {
            server.words(client, words);
        }
        server.kill_and_restart();
        let client = server.connect();
        assert_eq!(server.words(client, &["PTTL", "a"]), ":-1\r\n");
        assert_eq!(server.words(client, &["EXISTS", "b"]), ":0\r\n");
        assert_eq!(server.words(client, &["PTTL", "c"]), ":7000\r\n");
        assert_eq!(server.words(client, &["GET", "c"]), "$1\r\nw\r\n");
    }
}

#[test]
fn a_server_says_who_it_is() {
    for version in Version::ALL {
        let mut server = Simulated::of(version, Persistence::None);
        let client = server.connect();
        let info = server.words(client, &["INFO", "server"]);
        let field = format!("{}_version:{}\r\n", version.name(), version.number());
        assert!(info.contains(&field), "{version:?}: {info}");
        assert_eq!(info.contains("server_name:valkey"), version.name() == "valkey");
    }
}
