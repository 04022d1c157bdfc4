//! A lock in use: what is done with it while time passes.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::Library;
use crate::control::{Operation, Stop, now};

/// A lock is extended when this part of its TTL is over, and held until shortly after.
const EXTEND_AFTER: f64 = 0.6;
const HELD_AFTERWARDS: f64 = 0.05;

pub struct Holder<'c, L: Library> {
    library: &'c L,
    operation: &'c Operation,
    lock: L::Lock,
    valid_until: Option<Instant>,
    /// How often the library is asked whether the client has the lock, and when that is due.
    ask: Option<(Duration, Instant)>,
    /// Why the lock is gone, once somebody said so.
    lost: Option<String>,
}

impl<'c, L: Library> Holder<'c, L> {
    pub fn new(library: &'c L, operation: &'c Operation, lock: L::Lock) -> Holder<'c, L> {
        let valid_until = valid_until(library.validity(&lock));
        let ask = operation.check_every().map(|every| (every, Instant::now() + every));
        Holder { library, operation, lock, valid_until, ask, lost: None }
    }

    /// For how long the library says that the lock is valid, as a phase tells it.
    pub fn validity(&self) -> Value {
        let whole = |validity: Duration| u64::try_from(validity.as_millis()).unwrap_or(u64::MAX);
        self.library.validity(&self.lock).map_or(json!({}), |validity| json!({"validity_ms": whole(validity)}))
    }

    /// Reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next happen.
    pub async fn phase(&mut self, name: &str, facts: &Value) -> Result<(), Stop> {
        let operation = self.operation;
        operation.report(name, facts)?;
        if operation.stops_at(name) && self.meanwhile(operation.opened(name)).await? {
            operation.report(name, facts)?;
        }
        Ok(())
    }

    /// Takes the operation's time. If a TTL is given, the lock is extended before it is over, and held for that instead.
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
            // That takes nothing from the time that the lock was valid for before.
            if self.valid_until.is_none_or(|until| Instant::now() > until) {
                self.lose(text)?;
            }
        }
        Ok(())
    }

    /// The last question before the write. Returns why the lock must not be relied on any more, if it must not.
    pub async fn look(&mut self) -> Result<Option<String>, Stop> {
        if self.ask.is_some() && self.lost.is_none() {
            self.ask_owned().await?;
        }
        Ok(self.lost.clone())
    }

    pub async fn release(mut self) -> Result<(), Stop> {
        // What is said from now on is said by the release.
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

    /// Waits for so long, or until the operation is cancelled.
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

    /// Awaits this, and asks the library whenever that is due.
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

    /// Asks the library whether the client has the lock. What it says is of the time before it was asked.
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
