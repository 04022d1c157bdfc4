//! How a Redis-compatible server is started, wherever it runs.

use super::REDIS_PORT;
use crate::scenario::Persistence;

/// A server's arguments. What it persists goes into the folder `data`; nothing else of it depends on the folder that it
/// is started in, and a server without persistence writes nothing.
pub(crate) fn arguments(persistence: Persistence, data: &str) -> Vec<String> {
    let port = REDIS_PORT.to_string();
    // No snapshots in either case: they would keep keys that the append-only file has lost, at times of their own.
    let mut words = vec!["--port", &port, "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""];
    match persistence {
        Persistence::None => words.extend(["--appendonly", "no"]),
        Persistence::Everysec => words.extend(["--dir", data, "--appendonly", "yes", "--appendfsync", "everysec"]),
        Persistence::Always => words.extend(["--dir", data, "--appendonly", "yes", "--appendfsync", "always"]),
    }
    words.into_iter().map(str::to_string).collect()
}
