//! An observer's notes about real servers: keys with owners and ends, and that a paused server is not seen.

use std::process::Command;

use model::history::{NodeChange, Sighting};

use crate::turns;

#[test]
fn keys_of_locks_are_seen_with_their_ends_and_a_stopped_server_is_not_seen() {
    let _turn = turns::local();
    let store = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(["run", "--cluster", "local", "--workload", "redlock", "--nemesis", "pause-node", "--time-limit", "8s"])
        .args(["--seed", "1", "--store"])
        .arg(store.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    let seen = std::fs::read_to_string(store.path().join("latest").join(Sighting::FILE));
    let seen = Sighting::read(&seen.unwrap_or_else(|error| panic!("{error}: {said}"))).unwrap();
    for node in ["n0", "n1", "n2", "n3", "n4"] {
        let of_node: Vec<&Sighting> = seen.iter().filter(|one| one.node == node).collect();
        assert!(of_node.iter().all(|one| one.since <= one.time), "{node}");
        let held = of_node.iter().filter_map(|one| match &one.saw {
            NodeChange::Key { key, held: Some(held) } => Some((one.time, key, held)),
            _ => None,
        });
        let mut held = held.peekable();
        assert!(held.peek().is_some(), "{node} held a lock: {said}");
        for (time, key, held) in held {
            let left = held.ends.unwrap_or_else(|| panic!("{key} ends")).saturating_sub(time);
            assert!(
                key == "lock:k0" && !held.value.is_empty() && left <= 1_010_000_000,
                "{left} ns of a TTL of 1 s are left"
            );
        }
    }
    let unseen = |one: &&Sighting| matches!(one.saw, NodeChange::Unseen { .. });
    let stopped = seen.iter().find(unseen).unwrap_or_else(|| panic!("a stopped node is not seen: {said}"));
    let again =
        seen.iter().find(|one| one.node == stopped.node && one.saw == NodeChange::SeenAgain && one.time > stopped.time);
    assert!(again.is_some_and(|again| again.time - stopped.since > 500_000_000), "{stopped:?}");
}
