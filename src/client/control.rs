//! The client's line to the controller: messages on standard input and output, one a line.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Mutex;

use super::protocol::{self, FromClient, ToClient};
use crate::locks::perfect::Grantor;

pub struct Control {
    input: Mutex<Lines<BufReader<Stdin>>>,
    /// The operation under way.
    operation: AtomicU64,
}

impl Control {
    /// This process's own standard input and output.
    pub fn new() -> Arc<Control> {
        let input = Mutex::new(BufReader::new(tokio::io::stdin()).lines());
        Arc::new(Control { input, operation: AtomicU64::new(0) })
    }

    /// What is granted from now on is granted to this operation.
    pub fn begin(&self, operation: u64) {
        self.operation.store(operation, Ordering::Relaxed);
    }

    /// The next message; none where the controller is gone.
    pub async fn next(&self) -> anyhow::Result<Option<ToClient>> {
        match self.input.lock().await.next_line().await? {
            None => Ok(None),
            Some(line) => Ok(Some(serde_json::from_str(&line).map_err(|error| anyhow::anyhow!("{error}: {line}"))?)),
        }
    }

    /// Writes at once: a phase that is reported late would move the moment at which the nemesis acts.
    pub fn say(&self, message: &FromClient) -> std::io::Result<()> {
        let mut output = std::io::stdout().lock();
        output.write_all(protocol::to_line(message).as_bytes())?;
        output.flush()
    }
}

impl Grantor for Arc<Control> {
    async fn ask(&self) -> Result<bool, String> {
        let id = self.operation.load(Ordering::Relaxed);
        self.say(&FromClient::Acquire { id }).map_err(|error| error.to_string())?;
        match self.next().await.map_err(|error| error.to_string())? {
            Some(ToClient::Granted { id: granted_to, granted }) if granted_to == id => Ok(granted),
            Some(other) => Err(format!("{other:?} where the answer about the lock was expected")),
            None => Err("the controller is gone".to_string()),
        }
    }

    async fn give_back(&self) {
        // Where it can't be said, the controller is gone, and the lock with it.
        let _ = self.say(&FromClient::Release { id: self.operation.load(Ordering::Relaxed) });
    }
}
