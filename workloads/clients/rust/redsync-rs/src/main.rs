//! The crate redsync: https://github.com/jace-ys/redsync

use std::process::ExitCode;
use std::time::{Duration, Instant};

use redjepsen_client::{Library, Settings, serve};
use redsync::{Lock, RedisInstance, Redsync, RedsyncBuilder};

struct Client {
    settings: Settings,
}

impl Client {
    /// Creates a manager. The number of attempts is set per manager; each request opens a connection anyway.
    fn manager(&self, within: Duration) -> Result<Redsync<RedisInstance>, String> {
        let nodes = self.settings.nodes.iter().map(|url| RedisInstance::new(url.as_str()));
        let nodes = nodes.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let manager = RedsyncBuilder::new(nodes).retry_count(self.settings.attempts(within));
        Ok(manager.retry_delay(self.settings.retry_delay / 2).build())
    }
}

impl Library for Client {
    type Lock = Lock;
    /// `acquire` blocks.
    const CANCELS: bool = false;

    async fn acquire(&self, name: &str, within: Duration) -> Result<Option<Lock>, String> {
        self.manager(within)?.lock(name, self.settings.ttl).map(Some).map_err(|error| error.to_string())
    }

    async fn release(&self, lock: Lock) {
        let released = self.manager(Duration::ZERO).and_then(|manager| {
            let released = manager.unlock(&lock);
            released.map_err(|error| error.to_string())
        });
        if let Err(text) = released {
            eprintln!("the release failed: {text}");
        }
    }

    fn validity(&self, lock: &Lock) -> Option<Duration> {
        Some(lock.expiry.saturating_duration_since(Instant::now()))
    }

    async fn extend(&self, lock: &mut Lock) -> Result<(), String> {
        let extended = self.manager(Duration::ZERO)?.extend(lock, self.settings.ttl);
        *lock = extended.map_err(|error| error.to_string())?;
        Ok(())
    }
}

async fn connect(settings: &Settings) -> Result<Client, String> {
    let client = Client { settings: settings.clone() };
    client.manager(Duration::ZERO).map(|_| client)
}

fn main() -> ExitCode {
    serve("redsync 1.0.1", connect)
}
