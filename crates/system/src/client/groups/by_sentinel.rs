//! Sends requests to the server that Sentinels call the primary, as the documentation asks of clients. It asks one Sentinel after
//! another for the address and checks that the server there agrees. If the connection is lost, it asks again.
//!
//! Source: the Redis documentation, "Guidelines for Redis clients with support for Redis Sentinel".

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, FromRedisValue, Value};
use tokio::sync::Mutex;

use super::Primary;
use crate::client::connection::Connection;
use base::machine::Machine;
use model::locks::RequestError;

pub struct BySentinel {
    sentinels: Vec<Connection>,
    /// The name by which the Sentinels know the primary.
    name: String,
    limit: Duration,
    machine: Arc<dyn Machine>,
    /// The server believed to be the primary, until it answers otherwise or not at all.
    primary: Mutex<Option<Arc<Connection>>>,
}

#[async_trait]
impl Primary for BySentinel {
    async fn request(&self, command: &Cmd) -> Result<Value, RequestError> {
        self.request(command).await
    }

    async fn last_asked(&self) -> Option<Arc<Connection>> {
        self.primary.lock().await.clone()
    }
}

impl BySentinel {
    /// Fails only if a URL is invalid.
    pub fn new(
        sentinels: &[String],
        name: &str,
        limit: Duration,
        machine: &Arc<dyn Machine>,
    ) -> Result<BySentinel, String> {
        let sentinels = sentinels.iter().map(|url| Connection::new(url, limit, machine)).collect::<Result<_, _>>()?;
        let machine = Arc::clone(machine);
        Ok(BySentinel { sentinels, name: name.to_string(), limit, machine, primary: Mutex::new(None) })
    }

    pub async fn request<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RequestError> {
        let mut slot = self.primary.lock().await;
        let primary = match slot.take() {
            Some(primary) => primary,
            None => self.find().await?,
        };
        let answer = primary.request(command).await;
        // After any error, this server may no longer be the primary.
        if answer.is_ok() {
            *slot = Some(primary);
        }
        answer
    }

    /// The first server that a Sentinel calls the primary and that agrees. Has not yet sent the caller's request.
    async fn find(&self) -> Result<Arc<Connection>, RequestError> {
        let mut last = "there are no Sentinels".to_string();
        for sentinel in &self.sentinels {
            match self.find_by(sentinel).await {
                Ok(primary) => return Ok(Arc::new(primary)),
                Err(reason) => last = reason,
            }
        }
        Err(RequestError::NotDone(format!("no Sentinel knows a primary: {last}")))
    }

    async fn find_by(&self, sentinel: &Connection) -> Result<Connection, String> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let found: Option<(String, u16)> = sentinel.request(&command).await.map_err(|error| error.to_string())?;
        let (host, port) = found.ok_or_else(|| format!("the Sentinel does not know the group `{}`", self.name))?;
        let server = Connection::new(&format!("redis://{host}:{port}"), self.limit, &self.machine)?;
        let role: Value = server.request(&redis::cmd("ROLE")).await.map_err(|error| format!("{host}: {error}"))?;
        match role {
            Value::Array(words) if words.first() == Some(&Value::BulkString(b"master".to_vec())) => Ok(server),
            _ => Err(format!("{host} reports that it is not a primary")),
        }
    }
}
