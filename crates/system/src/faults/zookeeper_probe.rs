//! The controller's questions to members of a ZooKeeper ensemble: the four-letter command `srvr` on a plain connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::wire::{RedisCommand, RedisReply};

/// Asks the member at `url`, within `limit` in total.
pub(super) async fn ask(url: &str, command: &RedisCommand, limit: Duration) -> Result<RedisReply, String> {
    let asked = async {
        let mut stream = TcpStream::connect(url.trim_start_matches("zookeeper://")).await?;
        stream.write_all(b"srvr").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(limit, asked).await {
        Ok(Ok(answer)) => understood(command, &answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
    }
}

fn understood(command: &RedisCommand, answer: &str) -> Result<RedisReply, String> {
    let after = |prefix: &str| answer.lines().find_map(|line| line.strip_prefix(prefix)).map(str::trim);
    match command {
        // Only a follower or leader has a mode; other members say that they do not serve.
        RedisCommand::Ping if after("Mode:").is_some() => Ok(RedisReply::Pong),
        RedisCommand::Version => {
            let version = after("Zookeeper version:").and_then(|text| text.split(['-', ',']).next());
            Ok(RedisReply::Version(format!("zookeeper {}", version.unwrap_or("of unknown version"))))
        }
        RedisCommand::Ping => Err(format!("it answers `{}`", answer.trim())),
        other => Err(format!("ZooKeeper can't be asked for {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_that_serves_is_ready() {
        let serves =
            "Zookeeper version: 3.8.0-1, built on 2024-12-29 17:54 UTC\nZxid: 0x0\nMode: follower\nNode count: 5\n";
        assert_eq!(understood(&RedisCommand::Ping, serves), Ok(RedisReply::Pong));
        assert_eq!(understood(&RedisCommand::Version, serves), Ok(RedisReply::Version("zookeeper 3.8.0".into())));
        let alone = "This ZooKeeper instance is not currently serving requests\n";
        assert!(understood(&RedisCommand::Ping, alone).unwrap_err().contains("not currently serving"));
        assert!(understood(&RedisCommand::Dbsize, serves).is_err());
    }
}
