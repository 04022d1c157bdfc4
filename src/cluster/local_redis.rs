//! The redis-server program of this machine, which can stand in for an image.
//!
//! Debian and Ubuntu put it on more machines than have a `redis-server`: redis-check-rdb from the package redis-tools is
//! the same program, which decides by the name it is called by what it is.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bundle::Bundle;
use super::error::ClusterError;

/// The server program on PATH, if there is one.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let on_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    // redis-check-rdb counts only when it really is the server under another name, which its answer shows.
    on_path("redis-server").or_else(|| on_path("redis-check-rdb").filter(|path| version(path).is_ok()))
}

/// The program's files; in the image it is called redis-server, or valkey-server where that is its name.
pub(crate) fn bundle(path: &Path) -> Result<Bundle, ClusterError> {
    let real = std::fs::canonicalize(path)
        .map_err(|error| ClusterError::Program { program: path.display().to_string(), reason: error.to_string() })?;
    let name = match real.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.ends_with("-server") => name.to_string(),
        _ => "redis-server".to_string(),
    };
    Bundle::of(&real, &real.with_file_name(name))
}

/// The server's version, such as `7.0.15`.
pub(crate) fn version(path: &Path) -> Result<String, ClusterError> {
    let fail = |reason: String| ClusterError::Program { program: path.display().to_string(), reason };
    let output = Command::new(path).arg0("redis-server").arg("--version").output();
    let output = output.map_err(|error| fail(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `Redis server v=7.0.15 sha=…`, `Valkey server v=8.1.1 …`
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    version
        .filter(|_| text.contains(" server "))
        .map(str::to_string)
        .ok_or_else(|| fail("it is no Redis server".to_string()))
}

/// The version for an image's tag, which takes few characters.
pub(crate) fn version_of_bundle(bundle: &Bundle) -> String {
    let version = version(bundle.source()).unwrap_or_else(|_| "unknown".to_string());
    version.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(40).collect()
}
