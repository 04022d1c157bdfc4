//! One connection to one Redis server: every request bounded in time, nothing retried.
//!
//! A connection on which a request failed to bring an answer is closed and never used again: a late reply to the old
//! request would be taken for the reply to the next one.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::locks::RequestError;

pub struct Connection {
    client: Client,
    /// How long connecting may take, and how long one request.
    pub limit: Duration,
    open: Mutex<Option<MultiplexedConnection>>,
}

impl Connection {
    /// To a server at a `redis://` URL; connects at the first request. Fails only where the URL makes no sense.
    pub fn new(url: &str, limit: Duration) -> Result<Connection, String> {
        let client = Client::open(url).map_err(|error| format!("{url}: {error}"))?;
        Ok(Connection { client, limit, open: Mutex::new(None) })
    }

    /// Connects now, if there is no connection. Its failure means that nothing was sent.
    pub async fn connect(&self) -> Result<(), RequestError> {
        let mut slot = self.open.lock().await;
        if slot.is_none() {
            *slot = Some(self.new_connection().await?);
        }
        Ok(())
    }

    /// One request and its answer.
    pub async fn request<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RequestError> {
        self.ask(command).await?.map_err(|refusal| RequestError::NotDone(refusal.to_string()))
    }

    /// One request and its answer, or the server's own word that it did not carry the request out. Requests of one client
    /// follow one another, so the connection is taken out while one is under way and put back only when an answer came.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<Result<T, RedisError>, RequestError> {
        let mut slot = self.open.lock().await;
        let connection = match slot.take() {
            Some(connection) => connection,
            None => self.new_connection().await?,
        };
        let (answer, connection) = answer(command, connection, self.limit).await?;
        *slot = Some(connection);
        Ok(answer)
    }

    /// A request about what was done on this very connection before; where it is gone, that is over.
    pub async fn follow_up<T: FromRedisValue>(&self, command: &Cmd, limit: Duration) -> Result<T, RequestError> {
        let mut slot = self.open.lock().await;
        let gone = || RequestError::NotDone("the connection is gone".to_string());
        let (answer, connection) = answer(command, slot.take().ok_or_else(gone)?, limit).await?;
        *slot = Some(connection);
        answer.map_err(|refusal| RequestError::NotDone(refusal.to_string()))
    }

    async fn new_connection(&self) -> Result<MultiplexedConnection, RequestError> {
        // Both limits are this type's own: the library's defaults are half a second and one second.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        match timeout(self.limit, self.client.get_multiplexed_async_connection_with_config(&config)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(RequestError::NotDone(format!("can't connect: {error}"))),
            Err(_) => {
                Err(RequestError::NotDone(format!("can't connect within {}", humantime::format_duration(self.limit))))
            }
        }
    }
}

/// Gives the connection back where an answer came; else it is closed.
async fn answer<T: FromRedisValue>(
    command: &Cmd,
    mut connection: MultiplexedConnection,
    limit: Duration,
) -> Result<(Result<T, RedisError>, MultiplexedConnection), RequestError> {
    match timeout(limit, command.query_async(&mut connection)).await {
        Err(_) => Err(RequestError::Timeout(limit)),
        Ok(Ok(value)) => Ok((Ok(value), connection)),
        Ok(Err(error)) if refused(&error) => Ok((Err(error), connection)),
        Ok(Err(error)) => Err(RequestError::ConnectionLost(error.to_string())),
    }
}

/// Whether the server itself said that it did not carry the command out. Only words that are known to mean it count;
/// every other error leaves the request indeterminate.
fn refused(error: &RedisError) -> bool {
    const REFUSALS: &[&str] = &[
        "ERR",
        "OOM",
        "READONLY",
        "LOADING",
        "MISCONF",
        "NOREPLICAS",
        "BUSY",
        "WRONGTYPE",
        "NOPERM",
        "NOAUTH",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "MOVED",
        "ASK",
    ];
    matches!(error.kind(), ErrorKind::Server(_)) && error.code().is_some_and(|code| REFUSALS.contains(&code))
}
