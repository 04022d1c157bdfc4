//! Makes many simulated runs at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::RiskError;

/// Runs all jobs on this many threads. Returns the results in the order of the jobs. Calls `done` after each job, and stops if
/// it returns false.
pub fn all<J: Sync, T: Send, E: Send>(
    jobs: &[J],
    threads: usize,
    done: &(dyn Fn() -> bool + Sync),
    job: impl Fn(&J) -> Result<T, RiskError<E>> + Sync,
) -> Result<Vec<T>, RiskError<E>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut results = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = jobs.get(number) else { break };
            let result = job(one);
            let goes_on = done();
            if result.is_err() || !goes_on {
                stop.store(true, Ordering::Relaxed);
            }
            results.push((number, result));
        }
        results
    };
    let mut results: Vec<(usize, Result<T, RiskError<E>>)> = thread::scope(|scope| {
        // Use as many threads as the system grants. Without any, this thread does all the work.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let workers: Vec<_> = (0..threads.max(1)).map_while(spawn).collect();
        if workers.is_empty() {
            return work();
        }
        // A panic of a worker is a bug. It was already printed, and shows as a missing result here.
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    });
    results.sort_by_key(|(number, _)| *number);
    let count = results.len();
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<T>, _>>()?;
    if count < jobs.len() { Err(RiskError::Interrupted) } else { Ok(results) }
}
