//! How a Redis-compatible server is started, wherever it runs.

use super::REDIS_PORT;
use crate::scenario::Persistence;

/// Where servers keep what they persist, as they see it. A folder of ours, since images differ in what they have, and in
/// the user that the server runs as.
pub(crate) const DATA: &str = "/redjepsen/data";

/// A server's arguments. One without persistence writes nothing, whatever folder it is started in.
pub(crate) fn arguments(persistence: Persistence) -> Vec<String> {
    let port = REDIS_PORT.to_string();
    // No snapshots in any case: they would keep keys that the append-only file has lost, at times of their own.
    let mut words = vec!["--port", &port, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""];
    match persistence {
        Persistence::None => words.extend(["--appendonly", "no"]),
        Persistence::Everysec => words.extend(["--dir", DATA, "--appendonly", "yes", "--appendfsync", "everysec"]),
        Persistence::Always => words.extend(["--dir", DATA, "--appendonly", "yes", "--appendfsync", "always"]),
    }
    words.into_iter().map(str::to_string).collect()
}
