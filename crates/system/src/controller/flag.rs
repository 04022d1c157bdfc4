//! A flag that is raised once and wakes all tasks that wait for it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes waiters in the order of their arrival; tokio's `watch` would choose a different order in each run.
#[derive(Default)]
pub(super) struct Flag {
    is_raised: AtomicBool,
    waiting: Notify,
}

impl Flag {
    pub fn raise(&self) {
        self.is_raised.store(true, Ordering::SeqCst);
        self.waiting.notify_waiters();
    }

    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::SeqCst)
    }

    pub async fn raised(&self) {
        // From here on a `raise` is not missed.
        let raised = self.waiting.notified();
        if !self.is_raised.load(Ordering::SeqCst) {
            raised.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn whoever_waits_hears_of_it_before_and_after() {
        let flag = Flag::default();
        let mut before = Box::pin(flag.raised());
        assert!((&mut before).now_or_never().is_none(), "not yet");
        flag.raise();
        before.await;
        flag.raised().await;
    }
}
