//! Locks a mutex, waits for a change of what it guards, and runs two functions at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{panic, thread};

use tokio::sync::Notify;

/// Locks the mutex even if a thread panicked while it held it. The guarded value is valid after every statement, and active
/// faults must still be undone.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `found` returns a value for the guarded state, possibly forever. Each change of the state must notify `changed`.
pub async fn until<S, T>(state: &Mutex<S>, changed: &Notify, mut found: impl FnMut(&mut S) -> Option<T>) -> T {
    loop {
        // From here on, a change is not missed.
        let changed = changed.notified();
        if let Some(found) = found(&mut lock(state)) {
            return found;
        }
        changed.await;
    }
}

/// Runs both functions, in parallel if that is worth a thread.
pub fn both<A: Send, B>(worth_it: bool, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    if !worth_it {
        return (one(), other());
    }
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| panic::resume_unwind(panic)), other)
    })
}
