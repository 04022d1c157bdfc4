//! Updates a second of a lock by the path between clients and its Redis: the kernel alone, as on redjepsen's own clusters, or a
//! relay of redjepsen, as before servers that already run; each also with a fault at a command that is armed and never fires.
//!
//! `cargo bench --bench paths [-- CLIENTS...]` takes five minutes; it needs redis-server. The shares are of the first column.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const ROUNDS: usize = 3;
const PORT: &str = "6390";
/// In this part of a run, in nanoseconds of its clock, the fault is armed and every client works.
const COUNTED: std::ops::Range<u64> = 1_500_000_000..4_000_000_000;
/// A fault that is armed for most of the run. No client uses such a key.
const ARMED: &str = "description = \"d\"\nstory = \"s\"\nprogress = \"any\"\n[[faults]]\nevery = \"9s\"\nfor = \"3s\"\n\
                     fault = \"hold reply to SET on no-such-key:* clients from nodes\"\n";

/// A server that ends with this program.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("paths");
    fs::create_dir_all(&folder).expect("a folder");
    let armed = folder.join("armed.toml");
    fs::write(&armed, ARMED).expect("a file");
    let server = Command::new("redis-server").args(["--port", PORT, "--save", ""]).stdout(Stdio::null()).spawn();
    let _server = Server(server.expect("a redis-server"));
    while TcpStream::connect(format!("127.0.0.1:{PORT}")).is_err() {
        sleep(Duration::from_millis(20));
    }
    let url = format!("redis://127.0.0.1:{PORT}");
    let kernel = ["--cluster", "local"];
    let relay = ["--server", &url, "--allow-writes"];
    let paths: [(&[&str], &str); 4] = [
        (&kernel, "none"),
        (&kernel, armed.to_str().expect("UTF-8")),
        (&relay, "none"),
        (&relay, armed.to_str().expect("UTF-8")),
    ];
    println!("{:>7} {:>10} {:>18} {:>18} {:>18}", "clients", "kernel", "kernel, armed", "relay", "relay, armed");
    for clients in ["1", "5", "50"].into_iter().filter(|one| words.is_empty() || words.iter().any(|word| word == one)) {
        // The best of each: other work of the machine only reduces the rate. The paths take turns.
        let mut best = [0.0_f64; 4];
        for _ in 0..ROUNDS {
            for ((cluster, nemesis), best) in paths.iter().zip(&mut best) {
                *best = best.max(updates_a_second(clients, cluster, nemesis, &folder));
            }
        }
        let shares: Vec<String> =
            best[1..].iter().map(|rate| format!("{rate:>9.0} ({:>4.0} %)", 100.0 * rate / best[0])).collect();
        println!("{clients:>7} {:>10.0} {}", best[0], shares.join(" "));
    }
}

fn updates_a_second(clients: &str, cluster: &[&str], nemesis: &str, folder: &Path) -> f64 {
    let store = folder.join("store");
    let _ = fs::remove_dir_all(&store);
    // Few clients contend for a lock, so the path decides how many updates there are.
    let load = ["--workload", "single", "--ttl", "400ms", "--keys", "500", "--hold", "0s", "--rate", "100000"];
    let run = Command::new(env!("CARGO_BIN_EXE_redjepsen"))
        .args(["run", "--nemesis", nemesis, "--clients", clients, "--time-limit", "5s", "--seed", "1"])
        .args(load)
        .args(cluster)
        .arg("--store")
        .arg(&store)
        .output()
        .expect("this program");
    let history = fs::read_to_string(store.join("latest/history.jsonl")).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&run.stderr));
    });
    let lines = history.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let counted =
        lines.filter(|line| line["type"] == "ok" && line["time"].as_u64().is_some_and(|time| COUNTED.contains(&time)));
    counted.count() as f64 / (COUNTED.end - COUNTED.start) as f64 * 1e9
}
