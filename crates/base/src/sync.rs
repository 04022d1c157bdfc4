//! Locks a mutex, and runs two functions at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{panic, thread};

/// Locks the mutex even if a thread panicked while it held it. The guarded value is valid after every statement, and active
/// faults must still be undone.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
