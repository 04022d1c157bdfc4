//! One way to take a mutex, and one to do two things at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{panic, thread};

/// Takes the mutex even if a thread panicked while it held it: what it guards is valid after every statement, and what is
/// in effect must still be undone.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does both, side by side if that is worth a thread.
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
