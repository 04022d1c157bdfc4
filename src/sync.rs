//! One way to take a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the mutex even if a thread panicked while it held it: what it guards is valid after every statement, and what is
/// in effect must still be undone.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
