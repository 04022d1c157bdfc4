//! The server in `--server`.

use std::path::{Path, PathBuf};

use super::ScenarioError;
use crate::topology::NamedServer;

/// A server in one of the forms that a user can name it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerChoice {
    /// The address of a server that already runs.
    Running(String),
    /// Redis or Valkey by its version, installed on this machine.
    Named(NamedServer),
    Program(PathBuf),
    Image(String),
}

impl ServerChoice {
    /// Files begin with `/`, `./` or `../`, so that they are not taken for images.
    pub fn of(word: &str) -> Result<ServerChoice, ScenarioError> {
        if word.contains("://") {
            return Ok(ServerChoice::Running(word.to_string()));
        }
        if is_file(word) {
            return Ok(ServerChoice::Program(word.into()));
        }
        if word.contains('/') {
            return Ok(ServerChoice::Image(word.to_string()));
        }
        let unknown = |error| {
            ScenarioError(format!(
                "--server {word}: {error}. For a file, write `./FILE`; for an image, `valkey/valkey:9.1`; for a server that \
                 already runs, `redis://host:port`"
            ))
        };
        word.parse().map(ServerChoice::Named).map_err(unknown)
    }

    /// A file, made relative to this folder; any other word stays the same.
    pub fn in_folder(word: &str, folder: &Path) -> String {
        // The empty folder is this process's own, and a path in it must begin like a path.
        if word.starts_with('.') && is_file(word) && !folder.as_os_str().is_empty() {
            let path = folder.join(word);
            let path = if path.is_absolute() { path } else { Path::new(".").join(path) };
            return path.display().to_string();
        }
        word.to_string()
    }
}

fn is_file(word: &str) -> bool {
    ["/", "./", "../"].iter().any(|start| word.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_name_a_server_is_told_from_the_others() {
        let named = |text: &str| ServerChoice::Named(text.parse().unwrap());
        for (word, choice) in [
            ("redis://host:6379", ServerChoice::Running("redis://host:6379".into())),
            ("rediss://user@host", ServerChoice::Running("rediss://user@host".into())),
            ("valkey:9.1", named("valkey:9.1")),
            ("redis", named("redis")),
            ("./valkey-server", ServerChoice::Program("./valkey-server".into())),
            ("../bin/redis-server", ServerChoice::Program("../bin/redis-server".into())),
            ("/opt/valkey-server", ServerChoice::Program("/opt/valkey-server".into())),
            ("valkey/valkey:9.1", ServerChoice::Image("valkey/valkey:9.1".into())),
            ("localhost:5000/redis", ServerChoice::Image("localhost:5000/redis".into())),
        ] {
            assert_eq!(ServerChoice::of(word), Ok(choice), "{word}");
        }
        for word in ["127.0.0.1:6379", "localhost", "valky:9", "valkey:9.x", ""] {
            let error = ServerChoice::of(word).unwrap_err().to_string();
            assert!(error.contains("expected a name") && error.contains("redis://host:port"), "{error}");
        }
    }

    #[test]
    fn only_files_are_relative_to_a_folder() {
        for (word, folder, expected) in [
            ("./server", "suites", "./suites/./server"),
            ("../server", "/suites", "/suites/../server"),
            ("./server", "", "./server"),
            ("/opt/server", "suites", "/opt/server"),
            ("valkey:9.1", "suites", "valkey:9.1"),
            ("valkey/valkey", "suites", "valkey/valkey"),
            ("redis://host", "suites", "redis://host"),
        ] {
            assert_eq!(ServerChoice::in_folder(word, Path::new(folder)), expected);
        }
    }
}
