//! The crate async-redis-lock, which renews its locks: https://github.com/imstevez/async-redis-lock

use std::process::ExitCode;
use std::time::Duration;

use async_redis_lock::options::Options;
use async_redis_lock::{Lock, Locker};
use redjepsen_client::{Library, Settings, serve};

struct Client {
    settings: Settings,
    locker: Locker,
}

impl Library for Client {
    type Lock = Lock;

    async fn acquire(&self, name: &str, within: Duration) -> Result<Option<Lock>, String> {
        // By default, the library renews three times per TTL.
        let options = Options::new().ttl(self.settings.ttl).extend(self.settings.ttl / 3);
        let options = options.retry(self.settings.retry_delay / 2).timeout(Some(within));
        let name = name.to_string();
        let lock = self.locker.clone().acquire_with_options(&options, &name).await;
        lock.map(Some).map_err(|error| error.to_string())
    }

    async fn release(&self, lock: Lock) {
        if let Err(error) = lock.release() {
            eprintln!("the release failed: {error}");
        }
    }
}

async fn connect(settings: &Settings) -> Result<Client, String> {
    let [node] = settings.nodes.as_slice() else {
        return Err("async-redis-lock locks on one node: take --nodes 1".to_string());
    };
    let locker = Locker::from_redis_url(node).await.map_err(|error| error.to_string())?;
    Ok(Client { settings: settings.clone(), locker })
}

fn main() -> ExitCode {
    serve("async-redis-lock 0.2.3", connect)
}
