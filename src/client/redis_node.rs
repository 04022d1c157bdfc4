//! A Redis server as a client sees it: one connection, every request bounded in time, nothing retried.
//!
//! A connection on which a request failed to bring an answer is closed and never used again: a late reply to the old
//! request would be taken for the reply to the next one.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::locks::{Node, RequestError};

/// Deletes the key if it holds the mark; from the Redis documentation of the lock pattern.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

pub struct RedisNode {
    client: Client,
    /// How long connecting may take, and how long one request.
    limit: Duration,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisNode {
    /// A node at a `redis://` URL; connects at the first request. Fails only where the URL makes no sense.
    pub fn new(url: &str, limit: Duration) -> Result<RedisNode, String> {
        let client = Client::open(url).map_err(|error| format!("{url}: {error}"))?;
        Ok(RedisNode { client, limit, connection: Mutex::new(None) })
    }

    /// Connects now, if there is no connection. Its failure means that nothing was sent.
    pub async fn connect(&self) -> Result<(), RequestError> {
        let mut slot = self.connection.lock().await;
        if slot.is_none() {
            *slot = Some(self.new_connection().await?);
        }
        Ok(())
    }

    /// One request and its answer. Requests of one client follow one another, so the connection is taken out while one
    /// is under way and put back only when an answer came.
    pub async fn request<T: FromRedisValue>(&self, command: Cmd) -> Result<T, RequestError> {
        let mut slot = self.connection.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.new_connection().await?,
        };
        match timeout(self.limit, command.query_async(&mut connection)).await {
            Err(_) => Err(RequestError::Timeout(self.limit)),
            Ok(Ok(value)) => {
                *slot = Some(connection);
                Ok(value)
            }
            Ok(Err(error)) if refused(&error) => {
                *slot = Some(connection);
                Err(RequestError::NotDone(error.to_string()))
            }
            Ok(Err(error)) => Err(RequestError::ConnectionLost(error.to_string())),
        }
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

impl Node for RedisNode {
    async fn set_if_absent(&self, key: &str, value: &str, ttl: Duration) -> Result<bool, RequestError> {
        let mut command = redis::cmd("SET");
        command.arg(key).arg(value).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        let answer: Option<String> = self.request(command).await?;
        Ok(answer.is_some())
    }

    async fn delete_if_equals(&self, key: &str, value: &str) -> Result<bool, RequestError> {
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_DELETE).arg(1).arg(key).arg(value);
        let deleted: u64 = self.request(command).await?;
        Ok(deleted > 0)
    }
}
