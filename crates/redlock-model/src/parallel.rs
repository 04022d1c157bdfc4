//! Work that threads share.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::layout::State;

/// The slices on which threads work.
pub(crate) fn shares(states: &[State], threads: usize) -> impl Iterator<Item = &[State]> {
    // A few states are done before another thread has started.
    states.chunks(states.len().div_ceil(threads).max(256))
}

/// The results of `work` on each item, in their order, on a thread for each as far as the system gives them; one alone
/// needs no other thread.
pub(crate) fn in_parallel<I: Send, R: Send>(items: impl Iterator<Item = I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let items: Vec<Mutex<Option<I>>> = items.map(|item| Mutex::new(Some(item))).collect();
    // Whoever comes first does it.
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
