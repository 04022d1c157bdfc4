//! The Redis server program of this machine.
//!
//! More Debian and Ubuntu machines have redis-check-rdb, from the package redis-tools, than `redis-server`. Both are the same
//! program, which behaves according to the name under which it is called.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::ClusterError;
use super::installed::on_path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    pub path: PathBuf,
    /// The program's name in lower case: `redis` or `valkey`.
    pub name: String,
    /// For example `7.0.15`.
    pub version: String,
}

/// The server program on PATH; None if PATH has none.
pub fn find() -> Option<PathBuf> {
    // redis-check-rdb counts only if it is really the server under another name. Its answer to `--version` shows this.
    on_path("redis-server").or_else(|| on_path("redis-check-rdb").filter(|path| version(path).is_ok()))
}

/// The server programs of Redis and Valkey on PATH, each under the first of its names that works.
pub fn on_this_machine() -> Vec<ServerProgram> {
    let names = [["redis-server", "redis-check-rdb"], ["valkey-server", "valkey-check-rdb"]];
    names
        .iter()
        .filter_map(|names| names.iter().filter_map(|name| on_path(name)).find_map(|path| at(&path).ok()))
        .collect()
}

/// The name under which the program at `path` acts as a server.
pub fn called(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        _ if name.ends_with("-server") => name,
        _ if name.starts_with("valkey-") => "valkey-server",
        _ => "redis-server",
    }
}

pub fn version(path: &Path) -> Result<String, ClusterError> {
    at(path).map(|program| program.version)
}

/// The server program at `path`; an error if the file is another program.
fn at(path: &Path) -> Result<ServerProgram, ClusterError> {
    let fail = |reason: String| ClusterError::Program { program: path.display().to_string(), reason };
    let output = Command::new(path).arg0(called(path)).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| fail(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Parses `Redis server v=7.0.15 sha=…` and `Valkey server v=8.1.1 …`.
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    match (text.split_once(" server "), version) {
        (Some((name, _)), Some(version)) => {
            Ok(ServerProgram { path: path.to_path_buf(), name: name.to_lowercase(), version: version.to_string() })
        }
        _ => Err(fail("it is not a Redis server".to_string())),
    }
}
