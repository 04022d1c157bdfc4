//! Ongoing starts, so that a cancelled start leaves nothing behind.
//!
//! Each start runs in its own task. An engine carries out a request even if its caller has left. So if a run were removed while
//! its start still creates containers, some would appear afterwards and stay. A caller that cancels a start therefore drops its
//! future, and then waits for the task. The task ends as soon as it can and removes what it made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::watch;

use super::error::ClusterError;
use base::interrupt::{Interrupt, Interrupted};
use base::sync::lock;

/// Starts in progress in this process, by run id.
#[derive(Clone, Debug, Default)]
pub struct Starts(Arc<Mutex<BTreeMap<String, Weak<Start>>>>);

#[derive(Debug)]
pub struct Start {
    give_up: watch::Sender<bool>,
    /// Raised once the start is cancelled.
    given_up: Interrupt,
    /// Locked from the beginning of the start until it creates nothing more.
    busy: Arc<tokio::sync::Mutex<()>>,
}

/// Cancels the start when dropped.
struct GiveUpWhenDropped(Arc<Start>);

impl Drop for GiveUpWhenDropped {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Starts {
    /// Carries out the start of this run. If the caller drops this future, the start is cancelled and everything it made is
    /// removed. `remove` must not [cancel](Starts::give_up) the start: it would wait for its own task.
    pub async fn carry_out<T, F, R>(
        &self,
        run_id: &str,
        work: impl FnOnce(Arc<Start>) -> F + Send + 'static,
        remove: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<T, ClusterError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterError>> + Send + 'static,
        R: Future<Output = Result<(), ClusterError>> + Send + 'static,
    {
        let start = self.begin(run_id)?;
        let _dropped = GiveUpWhenDropped(Arc::clone(&start));
        let busy = Arc::clone(&start.busy).lock_owned().await;
        let task = tokio::spawn(async move {
            let made = match start.go_on() {
                Ok(()) => work(Arc::clone(&start)).await,
                Err(given_up) => Err(given_up),
            };
            let made = match made {
                // The cluster is complete, but the start was cancelled.
                Ok(made) if start.go_on().is_err() => {
                    if let Err(error) = remove(made).await {
                        tracing::warn!("the aborted start left something behind: {error}");
                    }
                    Err(ClusterError::GivenUp)
                }
                other => other,
            };
            // Both are returned together, in this order: a dropped cluster is gone before the start counts as over.
            (made, busy)
        });
        match task.await {
            Ok((made, _)) => made,
            Err(error) => Err(ClusterError::StartPanicked { reason: error.to_string() }),
        }
    }

    fn begin(&self, run_id: &str) -> Result<Arc<Start>, ClusterError> {
        let mut starts = lock(&self.0);
        starts.retain(|_, start| start.strong_count() > 0);
        if starts.contains_key(run_id) {
            return Err(ClusterError::RunExists { run_id: run_id.to_string() });
        }
        let start = Arc::new(Start::default());
        starts.insert(run_id.to_string(), Arc::downgrade(&start));
        Ok(start)
    }

    /// Cancels the start of this run, if it is in progress, and waits until it creates nothing more.
    pub async fn give_up(&self, run_id: &str) {
        let start = lock(&self.0).get(run_id).and_then(Weak::upgrade);
        if let Some(start) = start {
            start.give_up();
            drop(start.busy.lock().await);
        }
    }
}

impl Default for Start {
    fn default() -> Start {
        let (give_up, given_up) = Interrupt::new();
        Start { give_up, given_up, busy: Arc::default() }
    }
}

impl Start {
    fn give_up(&self) {
        self.give_up.send_replace(true);
    }

    /// Fails once this start is cancelled.
    pub fn go_on(&self) -> Result<(), ClusterError> {
        if self.given_up.is_raised() { Err(ClusterError::GivenUp) } else { Ok(()) }
    }

    /// Runs `work` until it ends or this start is cancelled, which drops it half-way.
    pub async fn unless_given_up<T>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        self.given_up.unless(work).await.unwrap_or_else(|Interrupted| Err(ClusterError::GivenUp))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_complete_and_no_longer_wanted_is_removed_before_the_start_counts_as_over() {
        for given_up in [true, false] {
            let (starts, removed) = (Starts::default(), Arc::new(AtomicBool::new(false)));
            let (go_on, may_go_on) = oneshot::channel::<()>();
            let (begin, has_begun) = oneshot::channel::<()>();
            let made = |_| async move {
                let _ = begin.send(());
                let _ = may_go_on.await;
                Ok("made")
            };
            let was_removed = Arc::clone(&removed);
            let remove = |_| async move {
                was_removed.store(true, Ordering::Relaxed);
                Ok(())
            };
            let mut start = Box::pin(starts.carry_out("run", made, remove));
            assert!((&mut start).now_or_never().is_none());
            has_begun.await.unwrap();
            if given_up {
                drop(start);
                go_on.send(()).unwrap();
            } else {
                go_on.send(()).unwrap();
                assert_eq!(start.await.unwrap(), "made");
            }
            starts.give_up("run").await;
            assert_eq!(removed.load(Ordering::Relaxed), given_up);
        }
    }
}
