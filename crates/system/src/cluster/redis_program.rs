//! The Redis server program of this machine.
//!
//! It is installed on more Debian and Ubuntu machines than have a `redis-server`: redis-check-rdb, from the package
//! redis-tools, is the same program. The name it is called by decides what it does.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::ClusterError;

/// The server program on PATH, if there is one.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let on_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    // redis-check-rdb counts only if it really is the server under another name, which its answer shows.
    on_path("redis-server").or_else(|| on_path("redis-check-rdb").filter(|path| version(path).is_ok()))
}

/// The name under which the program at `path` acts as a server.
pub fn called(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str());
    name.filter(|name| name.ends_with("-server")).unwrap_or("redis-server")
}

/// The server's version, such as `7.0.15`.
pub fn version(path: &Path) -> Result<String, ClusterError> {
    let fail = |reason: String| ClusterError::Program { program: path.display().to_string(), reason };
    let output = Command::new(path).arg0(called(path)).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| fail(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `Redis server v=7.0.15 sha=…`, `Valkey server v=8.1.1 …`
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    version
        .filter(|_| text.contains(" server "))
        .map(str::to_string)
        .ok_or_else(|| fail("it is no Redis server".to_string()))
}
