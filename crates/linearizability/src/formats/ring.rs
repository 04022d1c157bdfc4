//! Threads in a ring that hand something on: who has it may use it, and the order of the ring is the order of its use.

use std::sync::mpsc::{Receiver, Sender, channel};

/// One thread's place in a ring: what comes from the thread before, and goes to the one behind.
pub(super) struct Baton<T> {
    from: Receiver<T>,
    to: Sender<T>,
}

impl<T> Baton<T> {
    /// Waits for its turn; none if a thread left the ring and took the baton with it.
    pub fn take(&self) -> Option<T> {
        self.from.recv().ok()
    }

    pub fn pass_on(&self, baton: T) {
        // Where nobody is left to take it, all is done.
        _ = self.to.send(baton);
    }
}

/// A ring of so many threads, of which the first has the baton.
pub(super) fn ring<T>(threads: usize, baton: T) -> Vec<Baton<T>> {
    let (mut to, from): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    if let Some(first) = to.first() {
        _ = Sender::send(first, baton);
    }
    to.rotate_left(1.min(threads));
    from.into_iter().zip(to).map(|(from, to)| Baton { from, to }).collect()
}
