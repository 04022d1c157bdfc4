//! What a server member runs: one description that every kind of cluster runs.

use std::net::Ipv4Addr;

use super::group_files::{Group, NODES_FILE};
use super::{ClusterSpec, Member, databases};
use crate::members::Role;
use crate::topology::{Persistence, Program, REDIS_PORT, Topology};

/// Where servers keep what they write, as they see it. It is our own folder, since images differ in which folders they
/// have and in the user that the server runs as.
pub(crate) const DATA: &str = "/redjepsen/data";
/// The port that Sentinels listen on.
pub(super) const SENTINEL_PORT: u16 = 26379;

/// A server's process and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub program: Program,
    pub arguments: Vec<String>,
    /// Variables in addition to those of the image or of this process.
    pub env: Vec<(String, String)>,
    /// Written once, before the first start: a restarted server finds what it made of them.
    pub files: Vec<ServerFile>,
    /// Whether it gets the folder [`DATA`]. A server without it writes nothing, whatever folder it is started in.
    pub data: bool,
    /// The port that it answers on.
    pub port: u16,
}

/// A file that a server starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFile {
    /// Absolute, below [`FILES`](super::FILES).
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

    /// The scheme of its URLs.
    fn scheme(self) -> &'static str {
        match self {
            Program::Redis => "redis",
            Program::Etcd => "http",
            Program::Zookeeper => "zookeeper",
            Program::Postgres => "postgres",
        }
    }

    /// The user to run as in a container, if it refuses to be root.
    pub(crate) fn user(self) -> Option<&'static str> {
        (self == Program::Postgres).then_some("postgres")
    }
}

impl Server {
    /// Its URL at this address.
    pub fn url(&self, address: Ipv4Addr) -> String {
        format!("{}://{address}:{}", self.program.scheme(), self.port)
    }
}

/// Sets what each server among the members runs.
pub(crate) fn assign_servers(spec: &ClusterSpec, members: &mut [Member]) {
    let group = Group::new(spec, members);
    let numbered = |role: Role, members: &mut [Member], server: &dyn Fn(usize) -> Server| {
        let of_role = members.iter_mut().filter(|member| member.role == role);
        of_role.enumerate().for_each(|(number, member)| member.server = Some(server(number)));
    };
    let addresses: Vec<Ipv4Addr> =
        members.iter().filter(|member| member.role == Role::Node).filter_map(|member| member.address).collect();
    numbered(Role::Node, members, &|number| match spec.program {
        Program::Redis => node(spec, &group, number),
        Program::Etcd => databases::etcd(&spec.run_id, &addresses, number),
        Program::Zookeeper => databases::zookeeper(&addresses, number),
        Program::Postgres => databases::postgres(),
    });
    numbered(Role::Sentinel, members, &|number| sentinel(&group, number));
    // It must be there at the end, but nothing ever restarts it.
    numbered(Role::Resource, members, &|_| redis(as_arguments(&settings(Persistence::None)), Vec::new(), false));
}

fn node(spec: &ClusterSpec, group: &Group, number: usize) -> Server {
    let mut settings = settings(spec.persistence);
    settings.extend(group.settings(number));
    match &spec.topology {
        Topology::Independent => redis(as_arguments(&settings), Vec::new(), spec.persistence != Persistence::None),
        // From a file, in which it records its role, so that it still knows it after a restart.
        Topology::Sentinel(_) => {
            let path = format!("{DATA}/redis.conf");
            let file = ServerFile { path: path.clone(), content: as_file(&settings) };
            redis(vec![path], vec![file], true)
        }
        Topology::Cluster(_) => {
            let file = ServerFile { path: format!("{DATA}/{NODES_FILE}"), content: group.nodes_file(number) };
            redis(as_arguments(&settings), vec![file], true)
        }
    }
}

fn sentinel(group: &Group, number: usize) -> Server {
    let path = format!("{DATA}/sentinel.conf");
    let file = ServerFile { path: path.clone(), content: group.sentinel_file(number) };
    Server { port: SENTINEL_PORT, ..redis(vec![path, "--sentinel".to_string()], vec![file], true) }
}

/// Settings of a Redis by name.
pub(super) type Settings = Vec<(&'static str, String)>;

fn settings(persistence: Persistence) -> Settings {
    let keep = |fsync| vec![("dir", DATA), ("appendonly", "yes"), ("appendfsync", fsync)];
    let kept = match persistence {
        Persistence::None => vec![("appendonly", "no")],
        Persistence::Everysec => keep("everysec"),
        Persistence::Always => keep("always"),
    };
    let port = REDIS_PORT.to_string();
    // No snapshots in any case: at times of their own, they would save keys that the append-only file has lost.
    let always = [("port", port.as_str()), ("bind", "0.0.0.0"), ("protected-mode", "no"), ("save", "")];
    always.into_iter().chain(kept).map(|(name, value)| (name, value.to_string())).collect()
}

fn as_arguments(settings: &Settings) -> Vec<String> {
    settings.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
}

pub(super) fn as_file(settings: &Settings) -> String {
    let line = |(name, value): &(&str, String)| match value.is_empty() {
        true => format!("{name} \"\"\n"),
        false => format!("{name} {value}\n"),
    };
    settings.iter().map(line).collect()
}

fn redis(arguments: Vec<String>, files: Vec<ServerFile>, data: bool) -> Server {
    let (program, port) = (Program::Redis, REDIS_PORT);
    Server { program, arguments, env: Vec::new(), files, data, port }
}
