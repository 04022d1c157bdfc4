//! Starts under way, so that removal can wait for one that was given up.
//!
//! The engine carries out a request even when nobody waits for the answer. If a run were removed while its start is
//! still making containers, some would appear afterwards and stay.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::cluster::error::ClusterError;

/// The starts under way in this process, by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts(Arc<Mutex<HashMap<String, Weak<Start>>>>);

/// One start under way.
#[derive(Debug, Default)]
pub(crate) struct Start {
    given_up: AtomicBool,
    /// Held while the start makes things.
    pub busy: tokio::sync::Mutex<()>,
}

/// Gives up the start when dropped, since nobody waits for it any more.
pub(crate) struct GiveUpWhenDropped(pub Arc<Start>);

impl Drop for GiveUpWhenDropped {
    fn drop(&mut self) {
        self.0.given_up.store(true, Ordering::Relaxed);
    }
}

impl Starts {
    pub fn begin(&self, run_id: &str) -> Result<Arc<Start>, ClusterError> {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.retain(|_, start| start.strong_count() > 0);
        if starts.contains_key(run_id) {
            return Err(ClusterError::RunExists { run_id: run_id.to_string() });
        }
        let start = Arc::new(Start::default());
        starts.insert(run_id.to_string(), Arc::downgrade(&start));
        Ok(start)
    }

    /// Gives up the start of this run, if one is under way, and waits until it makes nothing more.
    pub async fn give_up(&self, run_id: &str) {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(run_id).and_then(Weak::upgrade);
        if let Some(start) = start {
            start.given_up.store(true, Ordering::Relaxed);
            drop(start.busy.lock().await);
        }
    }
}

impl Start {
    /// Fails once nobody waits for this start any more.
    pub fn go_on(&self) -> Result<(), ClusterError> {
        if self.given_up.load(Ordering::Relaxed) { Err(ClusterError::GivenUp) } else { Ok(()) }
    }
}
