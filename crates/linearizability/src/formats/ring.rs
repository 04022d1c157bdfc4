//! Threads in a ring that pass on a baton. Only the thread with the baton may use it, so threads use it in the order of the ring.

use std::sync::mpsc::{Receiver, Sender, channel};

/// One thread's place in a ring: it receives from the thread before and sends to the thread after.
pub(super) struct Baton<T> {
    from: Receiver<T>,
    to: Sender<T>,
}

impl<T> Baton<T> {
    /// Waits for its turn. None if a thread left the ring and took the baton with it.
    pub fn take(&self) -> Option<T> {
        self.from.recv().ok()
    }

    pub fn pass_on(&self, baton: T) {
        // If no thread is left to take it, all work is done.
        _ = self.to.send(baton);
    }
}

/// A ring of this many threads, of which the first has the baton.
pub(super) fn ring<T>(threads: usize, baton: T) -> Vec<Baton<T>> {
    let (mut to, from): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    if let Some(first) = to.first() {
        _ = Sender::send(first, baton);
    }
    to.rotate_left(1.min(threads));
    from.into_iter().zip(to).map(|(from, to)| Baton { from, to }).collect()
}
