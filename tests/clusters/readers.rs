//! Locks for readers, with the packages for languages whose libraries here have no such lock. The adapter's lock is a variable of
//! its program, shared by three threads.

use std::path::Path;
use std::process::Command;

use crate::languages::{missing, tell};
use crate::turns;

/// An adapter to run. `{rw}` says whether it acquires the lock in the requested mode; otherwise it always acquires it for
/// reading.
struct Adapter {
    files: &'static [(&'static str, &'static str)],
    client: &'static str,
}

const NODE: Adapter = Adapter {
    files: &[(
        "rw.js",
        r#"
const locks = new Map();
const pause = () => new Promise((done) => setTimeout(done, 2));
const connect = () => async (key, within, operation) => {
  const lock = locks.get(key) || locks.set(key, { readers: 0, writes: false }).get(key);
  const shared = {rw} ? operation.shared : true;
  for (const until = Date.now() + within; lock.writes || (!shared && lock.readers > 0); await pause()) {
    if (Date.now() >= until) return null;
  }
  if (shared) lock.readers += 1;
  else lock.writes = true;
  return { release: () => void (shared ? (lock.readers -= 1) : (lock.writes = false)) };
};
require("{clients}/node/redjepsen.js").serve("a variable", connect, undefined, { shared: true });
"#,
    )],
    client: r#"command = ["node", "{folder}/rw.js"]"#,
};

const GO: Adapter = Adapter {
    files: &[
        (
            "go.mod",
            "module example.invalid/rw\n\ngo 1.26.0\n\nrequire redjepsen.invalid/clients v0.0.0\n\n\
             replace redjepsen.invalid/clients => {clients}/go\n",
        ),
        (
            "main.go",
            r#"package main

import (
	"sync"
	"time"

	"redjepsen.invalid/clients/redjepsen"
)

func main() {
	var mutex sync.Mutex
	locks := map[string]*sync.RWMutex{}
	of := func(key string) *sync.RWMutex {
		mutex.Lock()
		defer mutex.Unlock()
		if locks[key] == nil {
			locks[key] = &sync.RWMutex{}
		}
		return locks[key]
	}
	connect := func(redjepsen.Settings) (redjepsen.Acquire, error) {
		return func(operation *redjepsen.Operation) (*redjepsen.Held, error) {
			lock, shared := of(operation.Key), operation.Shared() || !{rw}
			take, release := lock.TryLock, lock.Unlock
			if shared {
				take, release = lock.TryRLock, lock.RUnlock
			}
			for until := time.Now().Add(operation.Within); !take(); time.Sleep(2 * time.Millisecond) {
				if time.Now().After(until) {
					return nil, nil
				}
			}
			return &redjepsen.Held{Release: func() error { release(); return nil }}, nil
		}, nil
	}
	redjepsen.Serve(redjepsen.Adapter{Name: "a variable", Connect: connect, Shared: true})
}
"#,
        ),
    ],
    client: r#"command = ["{env}/rw"]
install = ["go", "build", "-C", "{folder}", "-buildvcs=false", "-o", "{env}/rw", "."]
sources = ["go.mod", "main.go"]"#,
};

const WORKLOAD: &str = r#"description = "A variable"
source = "Nowhere."
nodes = 1
claims = ["updates", "mutual-exclusion", "liveness"]

[library]
name = "a variable"
version = "1"

[client.command]
{client}

[lock.library]
node_timeout = "1ttl"
retry_delay = "10ms..20ms"
expires = false

[operations]
rmw = 1
shared = 2

[resource]
kind = "register"
fencing = "none"
"#;

impl Adapter {
    /// Makes a run in which readers and writers are kept apart, or not. Returns the exit code and the whole output.
    fn run(&self, folder: &Path, keeps_apart: bool) -> (Option<i32>, String) {
        let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/clients");
        let rw = keeps_apart.to_string();
        for (name, text) in self.files {
            std::fs::write(folder.join(name), text.replace("{clients}", clients).replace("{rw}", &rw)).unwrap();
        }
        std::fs::write(folder.join("rw.toml"), WORKLOAD.replace("{client}", self.client)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
        command.current_dir(folder).args([
            "run",
            "-v",
            "--cluster",
            "local",
            "--seed",
            "1",
            "--clients",
            "3",
            "--threads",
            "3",
        ]);
        let output = command.args(["--workload", "./rw.toml", "--nemesis", "reader-beside-writer"]).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The packages of a language distinguish readers from writers, and report this ability.
    fn keeps_readers_and_writers_apart(&self, programs: &[&str]) {
        if let Some(program) = missing(programs) {
            return tell("readers", program);
        }
        let _turn = turns::local();
        let folder = tempfile::tempdir().unwrap();
        let (code, text) = self.run(folder.path(), true);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("readers held the lock side by side"), "{text}");
        let (code, text) = self.run(folder.path(), false);
        assert_eq!(code, Some(1), "{text}");
    }
}

#[test]
fn in_node() {
    NODE.keeps_readers_and_writers_apart(&["node"]);
}

#[test]
fn in_go() {
    GO.keeps_readers_and_writers_apart(&["go"]);
}
