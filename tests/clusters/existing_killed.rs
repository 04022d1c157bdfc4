//! A redjepsen that is killed at any moment leaves keys behind at most, and `redjepsen clean` removes them.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redis::Value;

use crate::existing::{AUTH, NARROW, SECRET, redjepsen, state};
use crate::redis_server::Redis;
use crate::turns;

/// From the moment at which the program starts until the run is over, in milliseconds.
const RUN_MS: u64 = 8_000;

#[test]
fn a_server_is_as_before_after_a_kill_at_ten_random_moments() {
    let _turn = turns::cleaning();
    let keeper = "user keeper on >hunter2-hunter2 ~*redjepsen:* resetchannels -@all +setnx +get +set +del +ping +info +evalsha +eval +hello";
    let lines =
        [NARROW, &[keeper, "maxmemory 64mb", "slowlog-log-slower-than 100000", "notify-keyspace-events Kx"]].concat();
    let redis = Redis::start(&lines);
    for command in ["SET theirs 1", "SET lock:k0 theirs", "HSET orders 7 paid", "SCRIPT LOAD return\t1"] {
        redis.ask(AUTH, command);
    }
    redis.ask(AUTH, "CONFIG SET maxmemory-policy volatile-lru");
    let before = state(&redis, AUTH);
    let keys = || match redis.ask(AUTH, "KEYS *redjepsen:*") {
        Value::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    };
    let url = redis.url().replace("://", "://keeper@");
    let mut moments = ChaCha8Rng::seed_from_u64(46);
    let mut left = 0;
    for _ in 0..10 {
        let moment = Duration::from_millis(moments.random_range(0..RUN_MS));
        let store = tempfile::tempdir().unwrap();
        // The locks of this workload never expire.
        let flags = "run --workload forever --nemesis pause --ttl 500ms --time-limit 6s --allow-writes --clients 3";
        let mut command = redjepsen(flags, store.path(), std::slice::from_ref(&url));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        left += keys();
        let mut clean = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        let clean = clean.arg("clean").env("TMPDIR", store.path()).env("REDISCLI_AUTH", SECRET).output().unwrap();
        assert!(clean.status.success(), "{moment:?}: {}", String::from_utf8_lossy(&clean.stderr));
        assert_eq!(keys(), 0, "{moment:?}");
        let now = state(&redis, AUTH);
        let other: Vec<_> = now.iter().zip(&before).filter(|(now, before)| now != before).collect();
        assert!(other.is_empty() && now.len() == before.len(), "{moment:?}: {other:?} {} {}", now.len(), before.len());
        let folders =
            fs::read_dir(store.path()).unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        assert!(folders.into_iter().all(|name| !name.starts_with("redjepsen-run-")), "{moment:?}");
    }
    assert!(left > 0, "no kill left a key behind, so the test shows nothing");
}
