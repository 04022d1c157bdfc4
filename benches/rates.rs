//! Updates a second that a run carries out and records, beside what `redis-benchmark` gets out of the same server over
//! the same kind of bridge: both on a local cluster, one after the other, with as many clients.
//!
//! An update is a GET and a SET, each with its answer. A run's client also reports three phases, and the controller
//! writes six lines of history. `cargo bench --bench rates` takes a minute; it needs redis-tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use model::topology::{OwnClient, Persistence, Program, Topology};
use system::cluster::{ClientCommand, ClientOutput, ClientProcess, ClusterSpec, Local, Owner};
use tokio::io::AsyncWriteExt;

const PROGRAM: &str = env!("CARGO_BIN_EXE_redjepsen");
const ROUNDS: usize = 3;
const RUN_SECONDS: &str = "5s";

/// Reads `ADDRESS CLIENTS REQUESTS` and prints redis-benchmark's requests a second for GET and SET.
const BENCHMARK: &str = "while read -r address clients requests; do
    redis-benchmark -h $address -c $clients -n $requests -t get,set --csv 2>/dev/null | tail -n +2 | cut -d, -f2 | tr -d '\"' | tr '\\n' ' '
    echo; done";

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rates");
    println!("{:>7} {:>16} {:>18} {:>8}", "clients", "updates a second", "GET and SET pairs", "share");
    for clients in [1_u32, 5, 50] {
        if !words.is_empty() && !words.contains(&clients.to_string()) {
            continue;
        }
        // The best of each: what else this machine does only ever takes away.
        let (mut updates, mut pairs) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            updates = updates.max(updates_a_second(clients, &store));
            pairs = pairs.max(pairs_a_second(clients).await);
        }
        println!("{clients:>7} {updates:>16.0} {pairs:>18.0} {:>6.0} %", 100.0 * updates / pairs);
    }
}

fn updates_a_second(clients: u32, store: &Path) -> f64 {
    let _ = std::fs::remove_dir_all(store);
    let count = clients.to_string();
    let args = ["--cluster", "local", "--workload", "none", "--nemesis", "none", "--hold", "0s", "--rate", "100000"];
    let run = Command::new(PROGRAM)
        .arg("run")
        .args(args)
        .args(["--time-limit", RUN_SECONDS, "--clients", &count, "--store"])
        .arg(store)
        .output()
        .expect("this program");
    let results = std::fs::read(store.join("latest/results.json")).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&run.stderr));
    });
    let results: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
    results["acknowledged_per_second"].as_f64().expect("a number")
}

async fn pairs_a_second(clients: u32) -> f64 {
    let local = Local::find(None, Some(PROGRAM.into())).expect("a redis-server");
    let spec = ClusterSpec {
        run_id: format!("rates-{}", std::process::id()),
        nodes: 0,
        program: Program::Redis,
        topology: Topology::Independent,
        clients: 1,
        threads: 1,
        client: ClientCommand::Own(OwnClient {
            command: ["sh", "-c", BENCHMARK].map(str::to_string).to_vec(),
            ..OwnClient::default()
        }),
        subnet: None,
        owner: Owner::current(),
        persistence: Persistence::None,
        config: Vec::new(),
        preload: false,
        server: None,
        upgrades: Vec::new(),
        needs_ifeq: None,
        network_faults: false,
    };
    let cluster = local.start(spec).await.expect("a cluster");
    let mut client = cluster.start_client(0).await.expect("a client");
    let url = cluster.resource_url();
    let address = url.trim_start_matches("redis://").trim_end_matches(":6379");
    let requests = if clients == 1 { 50_000 } else { 100_000 };
    let line = ask(&mut client, &format!("{address} {clients} {requests}\n")).await;
    drop(client);
    cluster.stop().await.expect("a cluster that ends");
    let rates: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [one, other] = rates[..] else { panic!("redis-benchmark said `{line}`") };
    1.0 / (1.0 / one + 1.0 / other)
}

async fn ask(client: &mut ClientProcess, line: &str) -> String {
    client.stdin.write_all(line.as_bytes()).await.expect("a client that listens");
    loop {
        match tokio::time::timeout(Duration::from_secs(120), client.output.recv()).await {
            Ok(Some(ClientOutput::Stdout(line))) => return String::from_utf8_lossy(&line).into_owned(),
            Ok(Some(ClientOutput::Stderr(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}
