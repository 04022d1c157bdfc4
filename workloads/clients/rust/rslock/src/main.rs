//! rslock: https://github.com/hexcowboy/rslock

use std::process::ExitCode;
use std::time::Duration;

use redjepsen_client::{Library, Settings, serve};
use rslock::{Lock, LockError, LockManager};

struct Rslock {
    settings: Settings,
    manager: LockManager,
}

impl Rslock {
    /// Returns a manager with this number of attempts, which is set per manager; all managers share their connections.
    fn trying(&self, attempts: u32) -> LockManager {
        let mut manager = self.manager.clone();
        manager.set_retry(attempts, self.settings.retry_delay);
        manager
    }
}

impl Library for Rslock {
    type Lock = Lock;

    async fn acquire(&self, name: &str, within: Duration) -> Result<Option<Lock>, String> {
        let lock = self.trying(self.settings.attempts(within)).lock(name, self.settings.ttl).await;
        lock.map(Some).map_err(|error| error.to_string())
    }

    async fn release(&self, lock: Lock) {
        lock.release().await;
    }

    fn validity(&self, lock: &Lock) -> Option<Duration> {
        u64::try_from(lock.validity_time).ok().map(Duration::from_millis)
    }

    async fn owned(&self, lock: &Lock) -> Option<bool> {
        match self.manager.is_freed(lock).await {
            Ok(freed) => Some(!freed),
            // The library never returns the documented `true`, but has two errors for it.
            Err(LockError::RedisKeyMismatch | LockError::RedisKeyNotFound) => Some(false),
            Err(_) => None,
        }
    }

    async fn extend(&self, lock: &mut Lock) -> Result<(), String> {
        // A second attempt would only find that the first has deleted the lock.
        let extended = self.trying(1).extend(lock, self.settings.ttl).await;
        *lock = extended.map_err(|error| error.to_string())?;
        Ok(())
    }
}

async fn connect(settings: &Settings) -> Result<Rslock, String> {
    let manager = LockManager::new(settings.nodes.clone());
    Ok(Rslock { settings: settings.clone(), manager })
}

fn main() -> ExitCode {
    serve("rslock 0.10.0", connect)
}
