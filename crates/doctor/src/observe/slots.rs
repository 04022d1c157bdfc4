//! Asks a Redis Cluster node about the cluster.

use redis::Value;

use super::joined;
use crate::connection::{Session, words};
use crate::observations::{ClusterView, Seen, Shard};
use crate::values::{fields, list, long_text, number, text};

/// Asks a node. `host` replaces an address that a node does not announce.
pub async fn ask(session: &mut Session<'_>, host: &str) -> (Seen<ClusterView>, Vec<(&'static str, bool)>) {
    let questions = ["CLUSTER SLOTS", "CLUSTER INFO", "CONFIG GET cluster-node-timeout"].map(words);
    let answers = session.ask(&questions).await;
    let shards = answers[0].seen(|value| shards(value, host));
    let state = answers[1].seen(|value| fields(&long_text(value)?).get("cluster_state").cloned());
    let node_timeout_ms = answers[2]
        .seen(|value| crate::values::map(value)?.get("cluster-node-timeout").and_then(number)?.try_into().ok());
    let forbidden = vec![
        ("+cluster|slots", shards == Seen::Forbidden),
        ("+cluster|info", state == Seen::Forbidden),
        ("+config|get", node_timeout_ms == Seen::Forbidden),
    ];
    let view = match shards {
        Seen::Known(shards) => Seen::Known(ClusterView { state: state.known().cloned(), node_timeout_ms, shards }),
        Seen::Forbidden => Seen::Forbidden,
        Seen::Refused(text) => Seen::Refused(text),
        Seen::Unknown => Seen::Unknown,
    };
    (view, forbidden)
}

fn shards(value: &Value, host: &str) -> Option<Vec<Shard>> {
    let each = list(value)?.iter().map(|range| {
        let parts = list(range)?;
        let slot = |index: usize| number(parts.get(index)?)?.try_into().ok();
        let nodes = parts.get(2..)?.iter().filter_map(|node| {
            let node = list(node)?;
            let announced = node.first().and_then(text).filter(|name| !name.is_empty() && name != "?");
            Some(joined(announced.as_deref().unwrap_or(host), &text(node.get(1)?)?))
        });
        Some(Shard { first: slot(0)?, last: slot(1)?, addresses: nodes.collect() })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_without_an_address_is_where_it_was_asked() {
        let node = |host: Value| Value::Array(vec![host, Value::Int(7000), Value::BulkString(b"id".to_vec())]);
        let range = Value::Array(vec![
            Value::Int(0),
            Value::Int(5460),
            node(Value::Nil),
            node(Value::BulkString(b"10.0.0.9".to_vec())),
        ]);
        let shards = shards(&Value::Array(vec![range]), "h").unwrap();
        assert_eq!(shards[0].addresses, ["h:7000", "10.0.0.9:7000"]);
        assert_eq!(super::shards(&Value::Array(vec![Value::Int(1)]), "h"), None);
    }
}
