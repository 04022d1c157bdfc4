//! The crate redis-lock, with its lock on several names at once: https://github.com/JonathanWoollett-Light/redis-lock

use std::process::ExitCode;
use std::time::Duration;

use redis_lock::MultiResourceLock;
use redjepsen_client::{Library, Settings, serve};

struct Client {
    settings: Settings,
    client: redis::Client,
}

impl Library for Client {
    type Lock = String;

    async fn acquire(&self, name: &str, within: Duration) -> Result<Option<String>, String> {
        let mut lock = MultiResourceLock::new(self.client.clone()).map_err(|error| error.to_string())?;
        let taken = lock.acquire(&[name.to_string()], self.settings.ttl, within, self.settings.retry_delay / 2).await;
        taken.map_err(|error| error.to_string())
    }

    async fn release(&self, id: String) {
        if let Ok(mut lock) = MultiResourceLock::new(self.client.clone())
            && let Err(error) = lock.release(&id).await
        {
            eprintln!("the release failed: {error}");
        }
    }
}

async fn connect(settings: &Settings) -> Result<Client, String> {
    let [node] = settings.nodes.as_slice() else {
        return Err("redis-lock locks on one node: take --nodes 1".to_string());
    };
    let client = redis::Client::open(node.as_str()).map_err(|error| error.to_string())?;
    redis_lock::setup(&client).await.map_err(|error| error.to_string())?;
    Ok(Client { settings: settings.clone(), client })
}

fn main() -> ExitCode {
    serve("redis-lock 0.5.1", connect)
}
