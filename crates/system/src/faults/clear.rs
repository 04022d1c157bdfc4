//! Removes everything that the clients of a run left on a Redis, so that the next run can use it.
//!
//! This is not a fault: the server is idle, and a server that does not obey can't be used again.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, cmd};

use super::probe::connect;
use base::machine::Machine;

const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Closes every connection except its own, removes keys and scripts, and checks that nothing is left, all within `limit`.
///
/// No running client may be left that could connect. Requests that the server has not read yet are lost with their connection, so
/// nothing is carried out after the keys were removed.
pub async fn clear(machine: &Arc<dyn Machine>, url: &str, limit: Duration) -> Result<(), String> {
    let mut left = Some("it did not answer".to_string());
    let work = async {
        let mut server = connect(machine, url, limit).await?;
        for kind in ["normal", "pubsub"] {
            let mut kill = cmd("CLIENT");
            kill.arg(&["KILL", "TYPE", kind, "SKIPME", "yes"]).query_async::<()>(&mut server).await?;
        }
        cmd("FLUSHALL").query_async::<()>(&mut server).await?;
        cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut server).await?;
        while left.is_some() {
            let info: String = cmd("INFO").query_async(&mut server).await?;
            left = left_in(&info);
            if left.is_some() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        Ok::<_, RedisError>(())
    };
    let done = tokio::time::timeout(limit, work).await;
    match (done, left) {
        (Ok(Err(error)), _) => Err(format!("{url}: {error}")),
        (_, Some(left)) => Err(format!("{url}: not cleared within {} ms: {left}", limit.as_millis())),
        (_, None) => Ok(()),
    }
}

/// The leftovers of clients on a server, according to its INFO; None if there are none. `connected_clients` also counts this
/// connection.
fn left_in(info: &str) -> Option<String> {
    const OF_A_NEW_ONE: [(&str, &str); 5] = [
        ("connected_clients", "1"),
        ("blocked_clients", "0"),
        ("number_of_cached_scripts", "0"),
        ("role", "master"),
        ("connected_slaves", "0"),
    ];
    let mut fields = info.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim()));
    fields
        .find(|(name, value)| {
            let database = name.strip_prefix("db").is_some_and(|number| number.parse::<u32>().is_ok());
            database || OF_A_NEW_ONE.iter().any(|(field, new)| field == name && value != new)
        })
        .map(|(name, value)| format!("{name} is {value}"))
        .or_else(|| (!info.contains("connected_clients:")).then(|| "it does not list its connections".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_somebody_uses_or_wrote_to_is_not_cleared() {
        let new = "# Clients\r\nconnected_clients:1\r\nblocked_clients:0\r\n# Memory\r\nnumber_of_cached_scripts:0\r\n\
                   # Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Keyspace\r\n";
        assert_eq!(left_in(new), None);
        for (other, left) in [
            (new.replace("clients:1", "clients:2"), "connected_clients is 2"),
            (new.replace("scripts:0", "scripts:3"), "number_of_cached_scripts is 3"),
            (new.replace("master", "slave"), "role is slave"),
            (format!("{new}db7:keys=1,expires=0,avg_ttl=0\r\n"), "db7 is keys=1,expires=0,avg_ttl=0"),
            ("redis_version:7.0.15\r\n".to_string(), "it does not list its connections"),
        ] {
            assert_eq!(left_in(&other).as_deref(), Some(left));
        }
    }
}
