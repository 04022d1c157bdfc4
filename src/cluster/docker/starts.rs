//! Starts that are under way, so that one which is given up can be waited for before its things are removed.
//!
//! The engine carries out a request even when nobody waits for the answer. Were a run removed while its start is still
//! making containers, some would appear afterwards and stay.

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

/// Lives as long as somebody waits for the start.
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

    /// Gives up the start of this run, if there is one under way, and waits until it makes nothing more.
    pub async fn give_up(&self, run_id: &str) {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(run_id).and_then(Weak::upgrade);
        if let Some(start) = start {
            start.given_up.store(true, Ordering::Relaxed);
            drop(start.busy.lock().await);
        }
    }
}

impl Start {
    /// An error when nobody waits for this start any more.
    pub fn go_on(&self) -> Result<(), ClusterError> {
        if self.given_up.load(Ordering::Relaxed) { Err(ClusterError::GivenUp) } else { Ok(()) }
    }
}
