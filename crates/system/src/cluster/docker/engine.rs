//! The connection to a Docker engine: finds the engine, agrees on an API version, and checks that the engine is usable.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use bollard::API_DEFAULT_VERSION;
use futures_util::future::BoxFuture;

use super::ask::{ENGINE_LIMIT, ask_within, in_words};
use crate::cluster::error::ClusterError;
use crate::cluster::starts::Starts;

/// A Docker engine that answered. Clones share the list of starts in progress.
#[derive(Clone, Debug)]
pub struct Docker {
    pub api: bollard::Docker,
    pub engine: Engine,
    pub starts: Starts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// For example `20.10.24`.
    pub version: String,
    /// The API version that redjepsen uses with this engine, such as `1.41`.
    pub api_version: String,
    /// The processor, in Docker's naming: `amd64`, `arm64`.
    pub architecture: String,
    /// The kernel that the members run on.
    pub kernel: String,
    /// True if redjepsen reaches it through a socket of this machine (the engine can still run in a virtual machine).
    pub local: bool,
    /// The address at which redjepsen reached it.
    pub address: String,
}

/// Time limit for the engine's first answer. A missing engine fails at once.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

impl Docker {
    /// Connects to the engine that DOCKER_HOST names, or else to this machine's engine.
    pub fn connect() -> BoxFuture<'static, Result<Docker, ClusterError>> {
        Box::pin(async move {
            let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
            Docker::connect_to(host.as_deref()).await
        })
    }

    /// Connects to the engine at `host` (in DOCKER_HOST's format), or to this machine's engine if `None`.
    pub async fn connect_to(host: Option<&str>) -> Result<Docker, ClusterError> {
        let address = match host {
            Some(host) => host.to_string(),
            None => format!("unix://{}", default_socket().display()),
        };
        let seconds = ENGINE_LIMIT.as_secs();
        let (api, local) = if let Some(path) = address.strip_prefix("unix://") {
            match std::fs::metadata(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(unreachable(&address, "this socket does not exist".to_string()));
                }
                Err(error) => return Err(unreachable(&address, error.to_string())),
                Ok(_) => {}
            }
            (bollard::Docker::connect_with_unix(&address, seconds, API_DEFAULT_VERSION), true)
        } else if address.starts_with("tcp://") || address.starts_with("http://") {
            if std::env::var("DOCKER_TLS_VERIFY").is_ok_and(|value| !value.is_empty()) {
                return Err(unsupported(&address, "DOCKER_TLS_VERIFY is set, and redjepsen does not speak TLS"));
            }
            (bollard::Docker::connect_with_http(&address, seconds, API_DEFAULT_VERSION), false)
        } else if address.starts_with("ssh://") {
            return Err(unsupported(&address, "redjepsen cannot use ssh; forward the socket with `ssh -L`"));
        } else {
            return Err(unsupported(&address, "not a socket or an address"));
        };
        let api = api.map_err(|error| unreachable(&address, in_words(&error).0))?;
        let hello = |api: bollard::Docker| async {
            let api = api.negotiate_version().await?;
            let version = api.version().await?;
            Ok((api, version))
        };
        let (api, version) =
            ask_within(HELLO_LIMIT, "give its version", hello(api)).await.map_err(|error| match error {
                ClusterError::Engine { reason, .. } => unreachable(&address, reason),
                other => unreachable(&address, other.to_string()),
            })?;
        let os = version.os.unwrap_or_default();
        if os != "linux" {
            return Err(ClusterError::NotLinux { found: os });
        }
        let engine = Engine {
            version: version.version.unwrap_or_default(),
            api_version: api.client_version().to_string(),
            architecture: version.arch.unwrap_or_default(),
            kernel: version.kernel_version.unwrap_or_default(),
            local,
            address,
        };
        Ok(Docker { api, engine, starts: Starts::default() })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Engine {
    /// True if the kernel is at least this version, judging by its name.
    pub fn kernel_is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
        let found = (numbers.next().flatten(), numbers.next().flatten());
        matches!(found, (Some(first), Some(second)) if (first, second) >= (major, minor))
    }
}

/// The usual socket, or the socket of a rootless engine or of Docker Desktop.
fn default_socket() -> PathBuf {
    let usual = PathBuf::from(DEFAULT_SOCKET);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let rootless = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("docker.sock"));
    let desktop =
        home.iter().flat_map(|home| [home.join(".docker/desktop/docker.sock"), home.join(".docker/run/docker.sock")]);
    let others = rootless.into_iter().chain(desktop);
    std::iter::once(usual.clone()).chain(others).find(|path| path.exists()).unwrap_or(usual)
}

const OF_THE_LIBRARY: &str = "Error in the hyper legacy client: client error (Connect)";

fn unreachable(address: &str, reason: String) -> ClusterError {
    let address = address.to_string();
    // The kernel's error text, even if it is nested deep in an HTTP error.
    if reason.to_lowercase().contains("permission denied") {
        return ClusterError::Forbidden { address, reason };
    }
    let remedy =
        "start it (`systemctl start docker`, or Docker Desktop), set DOCKER_HOST, or use --cluster local or sim";
    // The library's own words about itself do not help the user.
    let reason = match reason.trim_start_matches(OF_THE_LIBRARY).trim_start_matches([':', ' ']) {
        "" => "nothing listens there, or the network does not reach it".to_string(),
        reason => reason.to_string(),
    };
    ClusterError::Unreachable { address, reason, remedy }
}

fn unsupported(host: &str, reason: &'static str) -> ClusterError {
    ClusterError::UnsupportedHost { host: host.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn engines_that_cannot_be_reached_are_explained() {
        for (host, word) in [
            ("unix:///nowhere/docker.sock", "systemctl start docker"),
            ("tcp://127.0.0.1:1", "DOCKER_HOST"),
            ("ssh://somewhere", "ssh -L"),
            ("gopher://somewhere", "tcp://HOST:PORT"),
        ] {
            let message = Docker::connect_to(Some(host)).await.unwrap_err().to_string();
            assert!(message.contains(word) && message.contains(host) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_socket_that_may_not_be_used_is_no_engine_that_is_not_there() {
        let message = unreachable("unix:///s", "connect: Permission denied (os error 13)".to_string()).to_string();
        assert!(message.contains("may not use") && message.contains("usermod -aG docker"), "{message}");
        let message = unreachable("unix:///s", "Connection refused (os error 111)".to_string()).to_string();
        assert!(message.contains("no Docker engine answers") && message.contains("systemctl start"), "{message}");
    }

    #[test]
    fn kernel_versions_compare_by_number() {
        let engine = |kernel: &str| Engine {
            version: String::new(),
            api_version: String::new(),
            architecture: String::new(),
            kernel: kernel.to_string(),
            local: true,
            address: String::new(),
        };
        assert!(engine("6.18.44-cloud").kernel_is_at_least(6, 15));
        assert!(engine("7.0-rc1").kernel_is_at_least(6, 15));
        assert!(!engine("6.9.1").kernel_is_at_least(6, 15));
        assert!(!engine("").kernel_is_at_least(6, 15));
    }
}
