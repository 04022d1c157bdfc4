//! A held lock, with the work that is due while time passes.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::Library;
use crate::control::{Operation, Stop, now};

/// A lock is extended after this share of its TTL, and held until shortly after the TTL.
const EXTEND_AFTER: f64 = 0.6;
const HELD_AFTERWARDS: f64 = 0.05;

pub struct Holder<'c, L: Library> {
    library: &'c L,
    operation: &'c Operation,
    lock: L::Lock,
    valid_until: Option<Instant>,
    /// The interval at which the library is asked whether the client holds the lock, and when this is due.
    ask: Option<(Duration, Instant)>,
    /// Why the lock is lost; None if no loss was reported.
    lost: Option<String>,
}

impl<'c, L: Library> Holder<'c, L> {
    pub fn new(library: &'c L, operation: &'c Operation, lock: L::Lock) -> Holder<'c, L> {
        let valid_until = valid_until(library.validity(&lock));
        let ask = operation.check_every().map(|every| (every, Instant::now() + every));
        Holder { library, operation, lock, valid_until, ask, lost: None }
    }

    /// Returns the validity of the lock, as the library gives it, as a fact of a phase.
    pub fn validity(&self) -> Value {
        let whole = |validity: Duration| u64::try_from(validity.as_millis()).unwrap_or(u64::MAX);
        self.library.validity(&self.lock).map_or(json!({}), |validity| json!({"validity_ms": whole(validity)}))
    }

    /// Reports a phase, stamped now. At a breakpoint it waits, and then reports the phase again: only then does the
    /// operation continue.
    pub async fn phase(&mut self, name: &str, facts: &Value) -> Result<(), Stop> {
        let operation = self.operation;
        operation.report(name, facts)?;
        if operation.stops_at(name) && self.meanwhile(operation.opened(name)).await? {
            operation.report(name, facts)?;
        }
        Ok(())
    }

    /// Waits for the operation's hold time. If a TTL is given, extends the lock before the TTL is over, and holds it
    /// until shortly after.
    pub async fn think(&mut self, ttl: Option<Duration>) -> Result<(), Stop> {
        let Some(ttl) = ttl else { return self.wait(self.operation.hold()).await };
        self.wait(ttl.mul_f64(EXTEND_AFTER)).await?;
        let extended = self.library.extend(&mut self.lock).await;
        if extended.is_ok() {
            self.valid_until = valid_until(self.library.validity(&self.lock));
            self.operation.report("extended", &self.validity())?;
        }
        self.wait(ttl.mul_f64(HELD_AFTERWARDS)).await?;
        if let Err(text) = extended {
            eprintln!("the extension failed: {text}");
            // The time for which the lock was valid before stays valid.
            if self.valid_until.is_none_or(|until| Instant::now() > until) {
                self.lose(text)?;
            }
        }
        Ok(())
    }

    /// The last check before the write. Returns why the lock is lost; None if it is not.
    pub async fn look(&mut self) -> Result<Option<String>, Stop> {
        if self.ask.is_some() && self.lost.is_none() {
            self.ask_owned().await?;
        }
        Ok(self.lost.clone())
    }

    pub async fn release(mut self) -> Result<(), Stop> {
        // From now on, the release reports the state.
        self.ask = None;
        self.phase("releasing", &json!({})).await?;
        self.library.release(self.lock).await;
        let operation = self.operation;
        operation.report("released", &json!({}))?;
        if operation.stops_at("released") && operation.opened("released").await {
            operation.report("released", &json!({}))?;
        }
        Ok(())
    }

    /// Waits for this time, or until the operation is cancelled.
    async fn wait(&mut self, time: Duration) -> Result<(), Stop> {
        let (operation, until) = (self.operation, Instant::now() + time);
        let waiting = async {
            tokio::select! {
                () = sleep_until(until) => {}
                () = operation.cancelled() => {}
            }
        };
        self.meanwhile(waiting).await
    }

    /// Awaits `what`, and asks the library whenever that is due.
    async fn meanwhile<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Stop> {
        let mut what = pin!(what);
        loop {
            let Some((every, due)) = self.ask.filter(|_| self.lost.is_none()) else { return Ok(what.await) };
            tokio::select! {
                biased;
                value = &mut what => return Ok(value),
                () = sleep_until(due) => {
                    self.ask_owned().await?;
                    self.ask = Some((every, Instant::now() + every));
                }
            }
        }
    }

    /// Asks the library whether the client holds the lock. The answer is about the time before the question.
    async fn ask_owned(&mut self) -> Result<(), Stop> {
        let asked = now();
        match self.library.owned(&self.lock).await {
            Some(true) => self.operation.report("owned", &json!({"mono_ns": asked})),
            Some(false) => self.lose("it is no longer owned".to_string()),
            None => Ok(()),
        }
    }

    fn lose(&mut self, why: String) -> Result<(), Stop> {
        self.operation.report("lost", &json!({"text": why}))?;
        self.lost = Some(why);
        Ok(())
    }
}

fn valid_until(validity: Option<Duration>) -> Option<Instant> {
    validity.and_then(|validity| Instant::now().checked_add(validity))
}
