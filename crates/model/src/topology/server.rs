//! A server's process: one description for every kind of cluster.

use std::net::Ipv4Addr;

use super::{Persistence, Program, REDIS_PORT};

/// The folder for the data of servers, by its path for them. It is redjepsen's own folder, since images have different folders
/// and users.
pub const DATA: &str = "/redjepsen/data";

/// A server's process and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub program: Program,
    pub arguments: Vec<String>,
    /// Variables in addition to the environment of the image or of this process.
    pub env: Vec<(String, String)>,
    /// Written once, before the first start. A restarted server finds its own changes to them.
    pub files: Vec<ServerFile>,
    /// True if it gets the folder [`DATA`]. A server without it writes nothing, whatever folder it starts in.
    pub data: bool,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFile {
    /// Absolute, in the folder where the server sees redjepsen's files.
    pub path: String,
    pub content: String,
}

impl Program {
    /// The name of its log in the run folder.
    pub fn log_name(self) -> &'static str {
        match self {
            Program::Redis => "redis.log",
            Program::Etcd => "etcd.log",
            Program::Zookeeper => "zookeeper.log",
            Program::Postgres => "postgres.log",
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Program::Redis => "redis",
            Program::Etcd => "http",
            Program::Zookeeper => "zookeeper",
            Program::Postgres => "postgres",
        }
    }

    /// The user in a container, if it refuses to run as root.
    pub fn user(self) -> Option<&'static str> {
        (self == Program::Postgres).then_some("postgres")
    }
}

impl Server {
    pub fn url(&self, address: Ipv4Addr) -> String {
        format!("{}://{address}:{}", self.program.scheme(), self.port)
    }

    /// A Redis on its usual port.
    pub fn redis(arguments: Vec<String>, files: Vec<ServerFile>, data: bool) -> Server {
        let (program, port) = (Program::Redis, REDIS_PORT);
        Server { program, arguments, env: Vec::new(), files, data, port }
    }
}

pub type Settings = Vec<(&'static str, String)>;

pub fn settings(persistence: Persistence) -> Settings {
    let keep = |fsync| vec![("dir", DATA), ("appendonly", "yes"), ("appendfsync", fsync)];
    let kept = match persistence {
        Persistence::None => vec![("appendonly", "no")],
        Persistence::Everysec => keep("everysec"),
        Persistence::Always => keep("always"),
    };
    let port = REDIS_PORT.to_string();
    // No snapshots in any case: they would be written at any time, and save keys that the append-only file has lost.
    let always = [("port", port.as_str()), ("bind", "0.0.0.0"), ("protected-mode", "no"), ("save", "")];
    always.into_iter().chain(kept).map(|(name, value)| (name, value.to_string())).collect()
}

pub fn as_arguments(settings: &Settings) -> Vec<String> {
    settings.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
}

pub fn as_file(settings: &Settings) -> String {
    let line = |(name, value): &(&str, String)| match value.is_empty() {
        true => format!("{name} \"\"\n"),
        false => format!("{name} {value}\n"),
    };
    settings.iter().map(line).collect()
}
