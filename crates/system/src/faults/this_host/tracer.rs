//! A member's handle on the thread that keeps its threads stopped.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// Keeps the threads of a member stopped until it is dropped.
#[derive(Debug)]
pub struct Tracer {
    /// Nothing is ever sent: dropping it ends the thread.
    hold: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    /// `thread` must end once `hold` is dropped.
    pub fn new(hold: Sender<()>, thread: JoinHandle<()>) -> Tracer {
        Tracer { hold: Some(hold), thread: Some(thread) }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.hold.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
