//! Hooks on existing servers: the user's own commands, and a person who disturbs the servers while a run waits.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use redis::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::existing::{AUTH, NARROW, Outcome, keys_of, redis_cluster, redjepsen, run, sentinel_group, until};
use crate::redis_server::Redis;
use crate::turns;

/// A nemesis file with one hook, which comes this often.
fn nemesis(folder: &Path, every: &str, hook: &str) -> String {
    let file = folder.join("mine.toml");
    let fault = format!("[[faults]]\nfault = \"hook mine\"\nevery = \"{every}\"\nfor = \"1s\"\n");
    let text = format!("description = \"d\"\nstory = \"s\"\nprogress = \"any\"\n{fault}[hooks.mine]\n{hook}");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Commands that make a server refuse writes, show this, and undo it. redis-cli takes the password from its variable.
fn refusing(port: u16) -> [String; 3] {
    let cli = format!("redis-cli -p {port} CONFIG");
    [
        format!("inject = \"{cli} SET min-replicas-to-write 1\"\n"),
        format!("seen = \"{cli} GET min-replicas-to-write | grep -qx 1\"\n"),
        format!("heal = \"{cli} SET min-replicas-to-write 0\"\n"),
    ]
}

fn refuses(redis: &Redis) -> bool {
    let Value::Array(answer) = redis.ask(AUTH, "CONFIG GET min-replicas-to-write") else { panic!("no setting") };
    answer[1] == Value::BulkString(b"1".to_vec())
}

fn history(outcome: &Outcome) -> String {
    fs::read_to_string(outcome.store.path().join("latest/history.jsonl")).unwrap()
}

#[test]
fn a_hook_counts_only_if_its_effect_is_seen_and_is_undone_in_any_case() {
    let _turn = turns::local();
    let redis = Redis::start(NARROW);
    let folder = tempfile::tempdir().unwrap();
    let flags = "--workload single --seed 1 --allow-writes --clients 2 --ttl 1s --hold 0.1ttl..0.2ttl --time-limit 8s --nemesis";
    let [inject, seen, heal] = refusing(redis.port);
    let limit = "within = \"2s\"\n";
    let whole = nemesis(folder.path(), "3s", &[&inject, &seen, &heal].map(String::as_str).concat());
    let outcome = run(&format!("{flags} {whole}"), &[redis.url()]).expect(0);
    outcome.is_silent();
    let text = history(&outcome);
    assert!(text.contains("`seen` succeeds, after ") && text.contains("`seen` fails again, after "), "{text}");
    assert!(!refuses(&redis));
    for (hook, why) in [
        ([&inject, "seen = \"false\"\n", &heal, limit].concat(), "`seen` did not succeed after 2s"),
        ([&inject, "seen = \"true\"\n", &heal, limit].concat(), "`seen` succeeded before the hook"),
        (["inject = \"exit 3\"\n", &seen, &heal, limit].concat(), "`inject` failed: exit status: 3"),
        (["inject = \"sleep 60\"\n", &seen, &heal, limit].concat(), "`inject` was still running after 2s"),
        ([&inject, &seen, "heal = \"exit 4\"\n", limit].concat(), "`heal` failed: exit status: 4"),
    ] {
        let outcome = run(&format!("{flags} {}", nemesis(folder.path(), "3s", &hook)), &[redis.url()]).expect(2);
        assert!(history(&outcome).contains(why), "{}", outcome.text);
        if hook.contains(&heal) {
            assert!(!refuses(&redis), "{hook}");
        }
    }
    // A fault without a command to undo it must end by itself.
    redis.ask(AUTH, "CONFIG SET min-replicas-to-write 0");
    let endless = nemesis(folder.path(), "3s", &[&inject, &seen, limit].concat());
    let outcome = run(&format!("{flags} {endless}"), &[redis.url()]).expect(2);
    assert!(history(&outcome).contains("`seen` still succeeded after 2s"), "{}", outcome.text);
}

#[test]
fn a_hook_is_undone_after_ctrl_c() {
    let _turn = turns::local();
    let redis = Redis::start(NARROW);
    let store = tempfile::tempdir().unwrap();
    let [inject, seen, heal] = refusing(redis.port);
    // The command takes longer than redjepsen waits after Ctrl-C.
    let slow = heal.replace("heal = \"", "heal = \"sleep 3; ");
    let hook = nemesis(store.path(), "1h", &[inject, seen, slow].concat()).replace(' ', "\\ ");
    let flags = format!("run --workload single --allow-writes --ttl 2s --time-limit 60s --nemesis {hook}");
    let mut command = redjepsen(&flags, store.path(), &[redis.url()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the hook began", || refuses(&redis));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    until("the hook is undone", || !refuses(&redis));
}

#[test]
fn a_new_primary_shows_a_hook_and_a_person_may_be_the_hook() {
    let _turn = turns::local();
    let (nodes, sentinels) = sentinel_group();
    let before = keys_of(&nodes);
    let folder = tempfile::tempdir().unwrap();
    let urls: Vec<String> = sentinels.iter().map(Redis::url).collect();
    let port = sentinels[0].port;
    let order = format!("inject = \"redis-cli -p {port} SENTINEL FAILOVER theirs\"\n");
    let flags = "--seed 1 --allow-writes --workload replicated-guarded --sentinel theirs --ttl 2s --nemesis";
    let file = nemesis(folder.path(), "1h", &order);
    let ordered = run(&format!("{flags} {file} --time-limit 20s"), &urls).expect(0);
    assert!(history(&ordered).contains(" became the primary instead of "), "{}", ordered.text);
    // Nothing happens, so the run shows nothing.
    let file = nemesis(folder.path(), "1h", "inject = \"true\"\nwithin = \"3s\"\n");
    let outcome = run(&format!("{flags} {file} --time-limit 12s"), &urls).expect(2);
    assert!(history(&outcome).contains("was still the primary after 3s"), "{}", outcome.text);
    // Sentinels refuse a second failover for a while.
    let person = thread::scope(|scope| {
        let failover = || {
            let answer = sentinels[0].ask(&[], "SENTINEL FAILOVER theirs");
            matches!(answer, Value::Okay | Value::SimpleString(_))
        };
        scope.spawn(move || {
            thread::sleep(std::time::Duration::from_secs(15));
            until("the Sentinels fail over", failover);
        });
        run(&format!("{flags} 'hook by-hand' --time-limit 20s"), &urls)
    });
    let person = person.expect(0);
    assert!(
        person.text.contains("it is your turn. The run waits up to 1m until another node than n"),
        "{}",
        person.text
    );
    assert_eq!(keys_of(&nodes), before);
}

#[test]
fn a_hook_gets_the_addresses_of_the_locks_primary_and_replica() {
    let _turn = turns::local();
    let nodes = redis_cluster();
    let folder = tempfile::tempdir().unwrap();
    // Only the primary of the lock's own slot ever has a key of the run.
    let has_key =
        "redis-cli -h ${REDJEPSEN_PRIMARY%:*} -p ${REDJEPSEN_PRIMARY#*:} --scan --pattern '*redjepsen:*' | grep -q .";
    let take = "redis-cli -h ${REDJEPSEN_REPLICA%:*} -p ${REDJEPSEN_REPLICA#*:} CLUSTER FAILOVER TAKEOVER";
    let file = nemesis(
        folder.path(),
        "1h",
        &format!("inject = \"until {has_key}; do sleep 0.02; done; {take}\"\nwithin = \"20s\"\n"),
    );
    let flags = "--seed 1 --allow-writes --workload cluster --ttl 2s --time-limit 15s --nemesis";
    let outcome = run(&format!("{flags} {file}"), &[nodes[0].url()]);
    let text = history(&outcome);
    assert!(text.contains(" became the primary instead of "), "{text}");
}
