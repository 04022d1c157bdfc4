//! The controller's questions to a PostgreSQL server, and to its table, which is the resource.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, Config, Error, NoTls};

use super::wire::{RedisCommand, RedisReply};

/// Asks the server at `url` on a new connection, within `limit` in total.
pub(super) async fn ask(url: &str, command: &RedisCommand, limit: Duration) -> Result<RedisReply, String> {
    let mut config: Config = url.parse().map_err(|error: Error| error.to_string())?;
    config.user("postgres").dbname("postgres");
    let asked = async {
        let (client, connection) = config.connect(NoTls).await?;
        let traffic = tokio::spawn(async move { drop(connection.await) });
        let reply = query(&client, command).await;
        traffic.abort();
        reply
    };
    match timeout(limit, asked).await {
        Ok(Ok(Some(reply))) => Ok(reply),
        Ok(Ok(None)) => Err(format!("PostgreSQL can't be asked for {command:?}")),
        Ok(Err(error)) => Err(error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_string())),
        Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
    }
}

/// The answer; None if the question does not apply to PostgreSQL.
async fn query(client: &Client, command: &RedisCommand) -> Result<Option<RedisReply>, Error> {
    let count = async |statement: &str| {
        let count: i64 = client.query_one(statement, &[]).await?.try_get(0)?;
        Ok::<_, Error>(RedisReply::Count(u64::try_from(count).unwrap_or(0)))
    };
    Ok(Some(match command {
        RedisCommand::Ping => client.query_one("select 1", &[]).await.map(|_| RedisReply::Pong)?,
        RedisCommand::Dbsize => count("select count(value) from registers").await?,
        RedisCommand::Connections => {
            count("select count(*) from pg_stat_activity where backend_type = 'client backend'").await?
        }
        RedisCommand::Get(key) => {
            let row = client.query_opt("select value from registers where key = $1", &[key]).await?;
            RedisReply::Value(row.map_or(Ok(None), |row| row.try_get(0))?)
        }
        RedisCommand::Version => {
            let version: String = client.query_one("show server_version", &[]).await?.try_get(0)?;
            // Parses `15.18 (Debian 15.18-0+deb12u1)`.
            RedisReply::Version(format!("postgresql {}", version.split(' ').next().unwrap_or_default()))
        }
        _ => return Ok(None),
    }))
}
