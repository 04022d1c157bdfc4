//! rslock: https://github.com/hexcowboy/rslock

use std::process::ExitCode;
use std::time::Duration;

use redjepsen_client::{Library, Settings, serve};
use rslock::{Lock, LockManager};
use tokio::runtime::Runtime;

struct Rslock {
    settings: Settings,
    manager: LockManager,
    runtime: Runtime,
}

impl Library for Rslock {
    type Lock = Lock;

    fn acquire(&mut self, name: &str, within: Duration) -> Result<Option<Lock>, String> {
        self.manager.set_retry(self.settings.attempts(within), self.settings.retry_delay);
        let lock = self.runtime.block_on(self.manager.lock(name, self.settings.ttl));
        lock.map(Some).map_err(|error| error.to_string())
    }

    fn release(&mut self, lock: Lock) {
        self.runtime.block_on(lock.release());
    }

    fn validity(&self, lock: &Lock) -> Option<Duration> {
        u64::try_from(lock.validity_time).ok().map(Duration::from_millis)
    }

    fn extend(&mut self, lock: &mut Lock) -> Result<(), String> {
        // Tried again it would only find that it has deleted the lock.
        self.manager.set_retry(1, self.settings.retry_delay);
        let extended = self.runtime.block_on(self.manager.extend(lock, self.settings.ttl));
        *lock = extended.map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn connect(settings: &Settings) -> Result<Rslock, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let manager = LockManager::new(settings.nodes.clone());
    Ok(Rslock { settings: settings.clone(), manager, runtime })
}

fn main() -> ExitCode {
    serve("rslock 0.10.0", connect)
}
