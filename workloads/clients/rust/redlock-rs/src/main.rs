//! The crate redlock: https://github.com/badboy/redlock-rs

use std::process::ExitCode;
use std::time::Duration;

use redjepsen_client::{Library, Settings, serve};
use redlock::RedLock;

struct Redlock {
    settings: Settings,
    manager: RedLock,
}

/// The data of the library's lock, which cannot be stored beside its manager.
struct Taken {
    resource: Vec<u8>,
    value: Vec<u8>,
    validity: Duration,
}

impl Library for Redlock {
    type Lock = Taken;
    /// `acquire` blocks.
    const CANCELS: bool = false;

    async fn acquire(&self, name: &str, within: Duration) -> Result<Option<Taken>, String> {
        let longest = u32::try_from(self.settings.retry_delay.as_millis()).unwrap_or(u32::MAX);
        let mut manager = self.manager.clone();
        manager.set_retry(self.settings.attempts(within), longest);
        let ttl = usize::try_from(self.settings.ttl.as_millis()).unwrap_or(usize::MAX);
        let lock = manager.lock(name.as_bytes(), ttl).map_err(|error| error.to_string())?;
        Ok(lock.map(|lock| Taken {
            validity: Duration::from_millis(u64::try_from(lock.validity_time).unwrap_or(u64::MAX)),
            resource: lock.resource,
            value: lock.val,
        }))
    }

    async fn release(&self, lock: Taken) {
        let Taken { resource, value: val, .. } = lock;
        self.manager.unlock(&redlock::Lock { resource, val, validity_time: 0, lock_manager: &self.manager });
    }

    fn validity(&self, lock: &Taken) -> Option<Duration> {
        Some(lock.validity)
    }
}

async fn connect(settings: &Settings) -> Result<Redlock, String> {
    Ok(Redlock { settings: settings.clone(), manager: RedLock::new(settings.nodes.clone()) })
}

fn main() -> ExitCode {
    serve("redlock 2.0.0", connect)
}
