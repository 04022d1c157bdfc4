//! The controller's questions to members of an etcd cluster.

use std::time::Duration;

use reqwest::Client;
use serde_json::Value;

use super::wire::{RedisCommand, RedisReply};

/// Asks the member at `url`, within `limit` in total.
pub(super) async fn ask(url: &str, command: &RedisCommand, limit: Duration) -> Result<RedisReply, String> {
    let path = match command {
        RedisCommand::Ping => "/health",
        RedisCommand::Version => "/version",
        other => return Err(format!("etcd can't be asked for {other:?}")),
    };
    // No connections are kept: a connection left open by a cut would look like a member that does not answer.
    let client = Client::builder().timeout(limit).no_proxy().pool_max_idle_per_host(0);
    let client = client.build().map_err(|error| error.to_string())?;
    let response = client.get(format!("{url}{path}")).send().await.map_err(|error| error.to_string())?;
    let answer: Value = response.json().await.map_err(|error| error.to_string())?;
    understood(command, &answer)
}

fn understood(command: &RedisCommand, answer: &Value) -> Result<RedisReply, String> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    match command {
        // A member is healthy if it has just done a read that a majority agreed to.
        RedisCommand::Ping if text("health") == Some("true") => Ok(RedisReply::Pong),
        RedisCommand::Version => {
            Ok(RedisReply::Version(format!("etcd {}", text("etcdserver").unwrap_or("of unknown version"))))
        }
        _ => Err(format!("it answers {answer}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_that_has_no_majority_is_not_healthy() {
        assert_eq!(understood(&RedisCommand::Ping, &json!({ "health": "true" })), Ok(RedisReply::Pong));
        let without_leader = json!({ "health": "false", "reason": "RAFT NO LEADER" });
        assert!(understood(&RedisCommand::Ping, &without_leader).unwrap_err().contains("NO LEADER"));
        let version = understood(&RedisCommand::Version, &json!({ "etcdserver": "3.4.23" }));
        assert_eq!(version, Ok(RedisReply::Version("etcd 3.4.23".into())));
    }
}
