//! The crate relock.

use std::process::ExitCode;
use std::time::Duration;

use redjepsen_client::{Library, Settings, serve};
use relock::Relock;

struct Client {
    settings: Settings,
    manager: Relock,
}

impl Library for Client {
    /// The lock's name and its owner's id.
    type Lock = (String, String);

    async fn acquire(&self, name: &str, within: Duration) -> Result<Option<Self::Lock>, String> {
        let ttl = self.settings.ttl.as_millis() as usize;
        let delay = self.settings.retry_delay.as_millis() as u32 / 2;
        let lock = self.manager.lock(name, ttl, self.settings.attempts(within), delay).await;
        let lock = lock.map_err(|error| format!("{error:?}"))?;
        Ok(Some((name.to_string(), lock.id)))
    }

    async fn release(&self, (name, id): Self::Lock) {
        if let Err(error) = self.manager.unlock(name, id).await {
            eprintln!("the release failed: {error:?}");
        }
    }
}

async fn connect(settings: &Settings) -> Result<Client, String> {
    let [node] = settings.nodes.as_slice() else {
        return Err("relock locks on one node: take --nodes 1".to_string());
    };
    let manager = Relock::new(node.as_str()).map_err(|error| format!("{error:?}"))?;
    Ok(Client { settings: settings.clone(), manager })
}

fn main() -> ExitCode {
    serve("relock 0.1.2", connect)
}
