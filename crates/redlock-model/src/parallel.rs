//! Runs work on several threads.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::layout::State;

/// Splits the states into slices, one per thread.
pub(crate) fn shares(states: &[State], threads: usize) -> impl Iterator<Item = &[State]> {
    // A thread handles a few states before another thread has started.
    states.chunks(states.len().div_ceil(threads).max(256))
}

/// The results of `work` on each item, in order. Each item gets its own thread, as far as the system allows; a single item needs
/// no other thread.
pub(crate) fn in_parallel<I: Send, R: Send>(items: impl Iterator<Item = I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let items: Vec<Mutex<Option<I>>> = items.map(|item| Mutex::new(Some(item))).collect();
    // The first thread to take an item does the work.
    let once = |item: &Mutex<Option<I>>| item.lock().unwrap_or_else(PoisonError::into_inner).take().map(&work);
    if let [item] = &items[..] {
        return once(item).into_iter().collect();
    }
    let once = &once;
    thread::scope(|scope| {
        let spawn = |item| thread::Builder::new().spawn_scoped(scope, move || once(item)).map_err(|_| item);
        let threads: Vec<_> = items.iter().map(spawn).collect();
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(item) => once(item),
        });
        ended.flatten().collect()
    })
}
