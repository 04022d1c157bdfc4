//! Questions to servers, from a place that can reach the members' network. This module asks Redis; other servers have their own
//! modules.
//!
//! One connection per server is kept open. It is closed as soon as a request on it fails or times out. Otherwise a late answer
//! could be taken for the answer to the next request. No request is repeated.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::wire::{Observation, RedisCommand, RedisReply};
use super::{etcd_probe, postgres_probe, zookeeper_probe};
use base::machine::{Address, Machine};
use base::units::micros;
use model::topology::field;

/// The end of the message about a silent server whose kernel does not answer either.
pub const UNREACHED: &str = ", nor to an attempt to connect";
/// Time limit for the kernel's answer to a connection attempt. A kernel answers within a millisecond, unless its machine is
/// overloaded.
const CONNECTED_BY_THEN: Duration = Duration::from_millis(300);
/// How much later than the caller's time limit the library times out.
const BEYOND: Duration = Duration::from_secs(1);

type Slot = Arc<Mutex<Option<MultiplexedConnection>>>;

pub struct Probes {
    /// The machine from which servers are asked.
    machine: Arc<dyn Machine>,
    open: Mutex<HashMap<String, Slot>>,
}

impl Probes {
    pub fn new(machine: Arc<dyn Machine>) -> Probes {
        Probes { machine, open: Mutex::default() }
    }

    /// Closes the connection to the server at `url`, unless a request on it is in progress.
    pub async fn close(&self, url: &str) {
        self.open.lock().await.remove(url);
    }

    /// Asks the server at `url`, within `limit` in total.
    pub async fn ask(&self, url: &str, command: &RedisCommand, limit: Duration) -> Result<RedisReply, String> {
        let named = |error| format!("{url}: {error}");
        match url.split(':').next() {
            Some("http") => return etcd_probe::ask(url, command, limit).await.map_err(named),
            Some("postgres") => return postgres_probe::ask(url, command, limit).await.map_err(named),
            Some("zookeeper") => return zookeeper_probe::ask(url, command, limit).await.map_err(named),
            _ => {}
        }
        let slot = Arc::clone(self.open.lock().await.entry(url.to_string()).or_default());
        let answer = tokio::time::timeout(limit, async {
            let mut slot = slot.lock().await;
            // The connection is taken out during the request. If the request fails or times out, the connection is dropped with
            // it.
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => connect(&self.machine, url, limit).await?,
            };
            // A kept connection still has the limit of the request that opened it.
            connection.set_response_timeout(limit + BEYOND);
            let reply = query(&mut connection, command).await?;
            *slot = Some(connection);
            Ok::<_, RedisError>(reply)
        });
        match answer.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(format!("{url}: {error}")),
            Err(_) => {
                let how = if is_cut_off(&self.machine, url).await { UNREACHED } else { "" };
                Err(format!("{url}: no answer within {} ms{how}", limit.as_millis()))
            }
        }
    }
}

/// True if a server's machine does not answer an attempt to connect. If packets pass, the kernel there answers at once, even if
/// its processes are paused.
async fn is_cut_off(machine: &Arc<dyn Machine>, url: &str) -> bool {
    let Ok(address) = Address::of(url, machine) else { return false };
    tokio::time::timeout(CONNECTED_BY_THEN, address.connect()).await.is_err()
}

/// Connects to a Redis server. The caller must limit the time.
pub async fn connect(
    machine: &Arc<dyn Machine>,
    url: &str,
    limit: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let address = Address::of(url, machine).map_err(|text| (ErrorKind::InvalidClientConfig, "no URL", text))?;
    // The caller's limit must come first: the library's default is half a second, and an equal value would race it.
    let beyond = Some(limit + BEYOND);
    let config = AsyncConnectionConfig::new().set_connection_timeout(beyond).set_response_timeout(beyond);
    let stream = address.connect().await?;
    let (connection, traffic) = MultiplexedConnection::new_with_config(&address.greeting, stream, config).await?;
    // The task ends with the connection.
    tokio::spawn(traffic);
    Ok(connection)
}

/// The result of an action on a server, as `work` observes it within `limit`.
pub async fn observed(
    name: &str,
    limit: Duration,
    work: impl Future<Output = Result<(bool, String), RedisError>>,
) -> Observation {
    let began = Instant::now();
    let (observed, text) = match tokio::time::timeout(limit, work).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => (false, error.to_string()),
        Err(_) => (false, format!("no result within {} s", limit.as_secs())),
    };
    let took_us = micros(began.elapsed());
    Observation {
        observed,
        took_us,
        effect_us: observed.then_some(took_us),
        ..Observation::unseen(format!("{name}: {text}"))
    }
}

async fn query(connection: &mut MultiplexedConnection, command: &RedisCommand) -> Result<RedisReply, RedisError> {
    match command {
        RedisCommand::Ping => redis::cmd("PING").query_async::<()>(connection).await.map(|()| RedisReply::Pong),
        RedisCommand::Dbsize => redis::cmd("DBSIZE").query_async(connection).await.map(RedisReply::Count),
        RedisCommand::Get(key) => redis::cmd("GET").arg(key).query_async(connection).await.map(RedisReply::Value),
        RedisCommand::Connections => {
            let info: String = redis::cmd("INFO").arg("clients").query_async(connection).await?;
            let count = field(&info, "connected_clients").and_then(|count| count.parse().ok());
            count
                .map(RedisReply::Count)
                .ok_or_else(|| (ErrorKind::Parse, "no connected_clients in INFO clients").into())
        }
        RedisCommand::Exists(key) => redis::cmd("EXISTS").arg(key).query_async(connection).await.map(RedisReply::Count),
        RedisCommand::Time => {
            let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await?;
            Ok(RedisReply::Count(seconds.saturating_mul(1_000_000).saturating_add(micros)))
        }
        RedisCommand::Words(words) => {
            let mut command = redis::Cmd::new();
            words.iter().for_each(|word| _ = command.arg(word));
            command.query_async(connection).await.map(|answer| RedisReply::Text(text(&answer)))
        }
        RedisCommand::Version => {
            let info: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
            Ok(RedisReply::Version(version(&info)))
        }
    }
}

/// Any answer as text, each part on its own line.
fn text(answer: &Value) -> String {
    match answer {
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Okay => "OK".to_string(),
        _ => String::new(),
    }
}

/// The server's name and version from `INFO server`. Valkey gives its own version there, and the Redis version that it is
/// compatible with.
fn version(info: &str) -> String {
    let name = field(info, "server_name").unwrap_or("redis");
    let version = field(info, &format!("{name}_version")).or_else(|| field(info, "redis_version"));
    format!("{name} {}", version.unwrap_or("of unknown version"))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn servers_are_named_as_they_name_themselves() {
        assert_eq!(version("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"), "redis 7.0.15");
        let valkey = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(version(valkey), "valkey 8.1.1");
        assert_eq!(version(""), "redis of unknown version");
    }
}
