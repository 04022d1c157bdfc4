//! Simulated runs a minute, from scenario to verdict: five clients on five nodes for thirty seconds, on as many threads as
//! the machine has processors. `cargo bench --bench simulated [-- NEMESIS...]`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::scenario::{Options, Scenario};
use runner::simulate::{simulate, simulated_history};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MEASURED: Duration = Duration::from_secs(5);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{:>16} {:>8} {:>14} {:>18} {:>10}", "nemesis", "threads", "runs a minute", "unchecked", "kB a run");
    for nemesis in ["none", "pause", "all"] {
        if words.is_empty() || words.iter().any(|word| word == nemesis) {
            let (unchecked, bytes) =
                a_minute(nemesis, threads, |scenario| simulated_history(scenario).expect("a run").len());
            let (checked, _) =
                a_minute(nemesis, threads, |scenario| simulate(scenario).expect("a run").history.operations.len());
            println!("{nemesis:>16} {threads:>8} {checked:>14.0} {unchecked:>18.0} {:>10}", bytes / 1000);
        }
    }
}

/// Runs a minute, and the mean of what they return.
fn a_minute(nemesis: &str, threads: usize, make: impl Fn(&Scenario) -> usize + Sync) -> (f64, u64) {
    let (runs, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed() < MEASURED {
                    let seed = runs.fetch_add(1, Ordering::Relaxed);
                    let options = Options { time_limit: Some("30s".parse().expect("a length")), ..Options::default() };
                    let scenario = options.scenario("redlock", nemesis, seed, Path::new("")).expect("a scenario");
                    sum.fetch_add(make(&scenario) as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let made = runs.into_inner();
    (made as f64 / began.elapsed().as_secs_f64() * 60.0, sum.into_inner() / made.max(1))
}
