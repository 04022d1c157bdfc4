//! Simulated runs: what repeats by its seed, what comes out as expected, and whom the tester must not accuse.

mod cold;
mod digests;
mod marked;
mod nightly;
mod safe;
mod scripts;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use redjepsen::scenario::{Options, Scenario};

/// A scenario of the catalogue, of this length.
pub fn scenario(workload: &str, nemesis: &str, seed: u64, time_limit: &str) -> Scenario {
    let options = Options { time_limit: Some(time_limit.parse().unwrap()), ..Options::default() };
    options.scenario(workload, nemesis, seed, Path::new("")).unwrap()
}

/// What `work` returns for each of these, on all processors, in their order.
pub fn on_all_processors<I: Sync, T: Send>(of: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let (next, threads) = (AtomicUsize::new(0), thread::available_parallelism().map_or(1, usize::from));
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let one = || {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = of.get(number) else { return done };
                done.push((number, work(item)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
