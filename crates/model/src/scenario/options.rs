//! The options of a run, from flags or from `with` in a suite file, and the resulting scenario.
//!
//! Options that are not given come from the workload and the nemesis, or else from the defaults here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ipnet::Ipv4Net;
use serde::{Deserialize, Deserializer};

use super::server::ServerChoice;
use super::{ClusterSettings, Fencing, Scenario, ScenarioError, Workload, catalogue};
use crate::nemesis::{Expectation, Nemesis};
use crate::topology::redis_config;
use crate::topology::{
    ClientMount, ClusterKind, ExistingServers, NamedServer, OwnClient, Persistence, SentinelOptions, Topology,
};
use base::texts::one_or_more;
use base::units::{Length, LengthRange};

/// Enough that some client is always waiting for the lock.
const CLIENTS: u32 = 5;
/// Long compared with a request, short compared with users' patience.
const TTL: Duration = Duration::from_secs(1);
const TIME_LIMIT: Duration = Duration::from_secs(30);
const RATE: f64 = 50.0;
const HOLD: LengthRange = LengthRange { low: Length::Ttl(0.01), high: Length::Ttl(0.1) };
/// In a script, phases determine when things happen, and no client needs to wait for a holder that only thinks.
const HOLD_IN_SCRIPT: LengthRange = LengthRange { low: Length::Ttl(0.01), high: Length::Ttl(0.01) };
const ACQUIRE_TIMEOUT: Length = Length::Ttl(4.0);

fn operations_a_second(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number of operations per second, such as 50".to_string())
}

fn number_of_servers(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "expected a number, such as 5; the address of a server that already runs goes to --server".into())
}

fn network(text: &str) -> Result<Ipv4Net, String> {
    text.parse().map_err(|_| "expected an address and a prefix length, such as 10.9.8.0/24".to_string())
}

/// An option is a row: its help, its name, its type, and how a user types its value. All code that goes over every option is
/// generated from these.
macro_rules! options {
    ($($(#[$attribute:meta])* pub $name:ident: $type:ty => $typed:expr,)*) => {
        /// The options of a run beside its workload, its nemesis and its seed.
        #[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Options {
            $($(#[$attribute])* pub $name: $type,)*
        }

        impl Options {
            /// The names of all fields, which are also their ids on the command line.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// These options, completed with the others.
            pub fn or(&self, other: &Options) -> Options {
                Options { $($name: if self.$name.iter().next().is_some() { &self.$name } else { &other.$name }.clone(),)* }
            }

            /// Each given option, by the name of its flag and as a user would type it.
            pub fn to_flags(&self) -> Vec<(String, String)> {
                let mut said = Vec::new();
                $(
                    let typed = self.$name.iter().map($typed);
                    said.extend(typed.map(|value: String| (stringify!($name).replace('_', "-"), value)));
                )*
                said
            }
        }
    };
}

options! {
    /// Where the servers run [default: auto]
    #[arg(long, value_enum, value_name = "KIND")]
    pub cluster: Option<ClusterKind> => |kind| kind.word().to_string(),
    /// How long clients keep starting operations [default: 30s]
    #[arg(long, value_name = "LENGTH", allow_hyphen_values = true)]
    pub time_limit: Option<Length> => ToString::to_string,
    /// Time to live of the lock [default: 1s]
    ///
    /// The file of a nemesis can set another default.
    #[arg(long, value_name = "LENGTH", allow_hyphen_values = true)]
    pub ttl: Option<Length> => ToString::to_string,
    /// Number of clients [default: 5]
    ///
    /// Each client is a process, unless --threads says otherwise. The file of a nemesis can set another default.
    #[arg(long, value_name = "N")]
    pub clients: Option<u32> => ToString::to_string,
    /// Clients per process, as threads or tasks [default: from the workload or the nemesis, else 1]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub threads: Option<u32> => ToString::to_string,
    /// Version of the published library; `run` bisects a range such as 7.0..8.1 [default: the pinned version]
    ///
    /// Given a range, redjepsen looks for the first version with a different verdict. It installs versions other than the pinned one without checking hashes.
    #[arg(long, hide_short_help = true, value_name = "VERSION")]
    pub library_version: Option<String> => ToString::to_string,
    /// Number of servers [default: from the workload]
    #[arg(long, value_name = "N", value_parser = number_of_servers)]
    pub nodes: Option<u32> => ToString::to_string,
    /// Number of keys that clients update, each with its own lock [default: from the workload; 1 for redlock]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub keys: Option<u32> => ToString::to_string,
    /// Operations per second that all clients together aim for [default: 50]
    #[arg(long, hide_short_help = true, value_parser = operations_a_second)]
    pub rate: Option<f64> => ToString::to_string,
    /// Time between the holder's read and its write, drawn for each operation [default: from the nemesis, else 0.01ttl..0.1ttl; 0.01ttl in a script]
    #[arg(long, value_name = "LENGTHS", hide_short_help = true, allow_hyphen_values = true)]
    pub hold: Option<LengthRange> => ToString::to_string,
    /// How long an operation waits for the lock [default: from the workload, else 4ttl]
    #[arg(long, value_name = "LENGTH", hide_short_help = true, allow_hyphen_values = true)]
    pub acquire_timeout: Option<Length> => ToString::to_string,
    /// Which late writes the resource refuses [default: from the workload]
    #[arg(long, value_enum, hide_short_help = true)]
    pub fencing: Option<Fencing> => |fencing| fencing.word().to_string(),
    /// What the lock's nodes keep on disk [default: from the nemesis, else none]
    #[arg(long, value_enum, hide_short_help = true)]
    pub persistence: Option<Persistence> => word,
    /// Line of redis.conf for the lock's nodes, such as "min-replicas-to-write 1"; can be repeated
    #[arg(long, value_name = "LINE", hide_short_help = true)]
    #[serde(deserialize_with = "lines")]
    pub redis_config: Vec<String> => ToString::to_string,
    /// Record the commands of the lock's nodes in commands.jsonl, for diagnoses. MONITOR, which records them, slows the nodes. On a
    /// --server that already runs, MONITOR shows the commands of all programs; redjepsen saves only those of its run. [default: true
    /// in runs with a page, false on servers that already run]
    #[arg(long, hide_short_help = true, value_name = "YES", num_args = 0..=1, default_missing_value = "true")]
    pub record_commands: Option<bool> => ToString::to_string,
    /// Redis-compatible image of the nodes [default: redis:7, or an image of this machine's Redis]
    #[arg(long, hide_short_help = true)]
    pub image: Option<String> => ToString::to_string,
    /// Redis-compatible server program of the nodes, such as your own build [default: redis-server on PATH]
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub redis_server: Option<PathBuf> => |path| path.display().to_string(),
    /// Redis of the nodes: an installed one such as valkey:9.1, ./FILE, an image, or redis://host:port of a server that already runs
    ///
    /// `redjepsen install --servers` installs servers. An address stands for a node of the lock and can be repeated; rediss://host:port
    /// means TLS. The run writes only its own keys there, and removes them at the end. Faults hit clients and their connections. The
    /// password is in the environment variable REDISCLI_AUTH or in --password-file.
    #[arg(long, value_name = "SERVER")]
    #[serde(deserialize_with = "servers")]
    pub server: Vec<String> => ToString::to_string,
    /// Allow redjepsen to write its own keys on a --server that already runs
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "true", hide_short_help = true)]
    pub allow_writes: Option<bool> => ToString::to_string,
    /// Allow redjepsen to make a replica of a --server that already runs the primary, with the nemesis failover-on-command
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "true", hide_short_help = true)]
    pub allow_failover: Option<bool> => ToString::to_string,
    /// The name of the group, if each --server is a Sentinel that already runs
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub sentinel: Option<String> => ToString::to_string,
    /// ACL user on the --server
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String> => ToString::to_string,
    /// Read the password of the --server from this file [default: the environment variable REDISCLI_AUTH]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub password_file: Option<PathBuf> => |path| path.display().to_string(),
    /// PEM file with the certificates to trust [default: those of the system]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ca: Option<PathBuf> => |path| path.display().to_string(),
    /// PEM file with the client's certificate
    #[arg(long, value_name = "FILE", requires = "key", hide_short_help = true)]
    pub cert: Option<PathBuf> => |path| path.display().to_string(),
    /// PEM file with the key of the client's certificate
    #[arg(long, value_name = "FILE", requires = "cert", hide_short_help = true)]
    pub key: Option<PathBuf> => |path| path.display().to_string(),
    /// Accept any certificate of the --server
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "true", hide_short_help = true)]
    pub insecure: Option<bool> => ToString::to_string,
    /// Network of the cluster, such as 10.9.8.0/24 [default: a free network]
    #[arg(long, hide_short_help = true, value_parser = network)]
    pub subnet: Option<Ipv4Net> => ToString::to_string,
    /// Your own client, which speaks the client protocol
    ///
    /// The protocol is in docs/client-protocol.md. The command runs on this machine, or in --client-image.
    #[arg(long, value_name = "COMMAND")]
    pub client_cmd: Option<String> => ToString::to_string,
    /// Image in which --client-cmd runs, with Docker
    #[arg(long, hide_short_help = true)]
    pub client_image: Option<String> => ToString::to_string,
    /// Make a file or folder of this machine visible to --client-cmd, read-only
    #[arg(long, hide_short_help = true, value_name = "HOST:CONTAINER")]
    #[serde(deserialize_with = "mounts")]
    pub mount: Vec<String> => ToString::to_string,
}

fn word(persistence: &Persistence) -> String {
    let word = match persistence {
        Persistence::None => "none",
        Persistence::Everysec => "everysec",
        Persistence::Always => "always",
    };
    word.to_string()
}

impl Options {
    /// The checked scenario of these options. A user's own client that runs on this machine starts in `folder`; other paths are
    /// relative to this process's working directory (see [`Options::in_folder`]).
    pub fn scenario(&self, workload: &str, nemesis: &str, seed: u64, folder: &Path) -> Result<Scenario, ScenarioError> {
        self.scenario_of(catalogue::workload(workload)?, catalogue::nemesis(nemesis)?, seed, folder)
    }

    /// The same for a workload and a nemesis that are already loaded, each with its name.
    pub fn scenario_of(
        &self,
        (workload_name, workload): (String, Workload),
        (nemesis_name, nemesis): (String, Nemesis),
        seed: u64,
        folder: &Path,
    ) -> Result<Scenario, ScenarioError> {
        let mut workload = match &self.library_version {
            Some(version) => workload.with_library_version(&workload_name, version).map_err(ScenarioError)?,
            None => workload,
        };
        if self.persistence.is_some() && !workload.lock.is_on_redis() {
            return Err(ScenarioError(format!(
                "--persistence is for Redis, but lock {} lives in a database, which keeps all acknowledged data",
                workload.lock.name()
            )));
        }
        for line in &self.redis_config {
            redis_config::parse(line).map_err(|why| ScenarioError(format!("--redis-config {line:?}: {why}")))?;
        }
        if !self.redis_config.is_empty() && !workload.lock.is_on_redis() {
            return Err(ScenarioError(format!(
                "--redis-config is for Redis, but lock {} does not use Redis",
                workload.lock.name()
            )));
        }
        workload.redis_config.extend(self.redis_config.clone());
        workload.resource.fencing = self.fencing.unwrap_or(workload.resource.fencing);
        let usual = nemesis.ttl.map_or(TTL, |ttl| ttl.resolve(TTL));
        let ttl = absolute("--ttl", self.ttl)?.unwrap_or(usual);
        let time_limit = absolute("--time-limit", self.time_limit)?.unwrap_or(TIME_LIMIT);
        let ChosenServers { addresses, named, program, image } = self.servers()?;
        workload.topology = self.watched_by_theirs(workload.topology, &addresses)?;
        let scenario = Scenario {
            workload_name,
            nemesis_name,
            seed,
            clients: self.clients.or(nemesis.clients).unwrap_or(CLIENTS),
            threads: self.threads.or(nemesis.threads).unwrap_or(workload.threads),
            nodes: self.nodes.unwrap_or(match u32::try_from(addresses.len()) {
                // In a group, these are the servers from which redjepsen learns the nodes.
                Ok(servers) if servers > 0 && workload.topology.is_independent() => servers,
                _ => workload.nodes,
            }),
            keys: self.keys.or(nemesis.keys).unwrap_or(workload.keys),
            ttl,
            time_limit,
            hold: self.hold.or(nemesis.hold).unwrap_or(if nemesis.script.is_empty() { HOLD } else { HOLD_IN_SCRIPT }),
            rate: self.rate.unwrap_or(RATE),
            acquire_timeout: self
                .acquire_timeout
                .or(workload.acquire_timeout)
                .unwrap_or(ACQUIRE_TIMEOUT)
                .resolve(ttl)
                .min(time_limit),
            persistence: self.persistence.or(nemesis.persistence).unwrap_or_default(),
            record_commands: self.record_commands,
            expect: None,
            cluster: ClusterSettings {
                kind: self.cluster.unwrap_or(match addresses.is_empty() {
                    true => ClusterKind::default(),
                    false => ClusterKind::EXISTING,
                }),
                image: image.or_else(|| self.image.clone()),
                redis_server: program
                    .as_ref()
                    .or(self.redis_server.as_ref())
                    .map(|path| absolute_path("--redis-server", path))
                    .transpose()?,
                server: named,
                // Otherwise it is the image of the user's own client.
                client_image: self.client_image.clone().filter(|_| self.client_cmd.is_none()),
                subnet: self.subnet,
                existing: self.existing(addresses)?,
            },
            client: self.own_client(folder, workload.client.is_some())?,
            workload,
            nemesis,
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// The servers in `--server`: those that already run, or one that the nodes run.
    fn servers(&self) -> Result<ChosenServers, ScenarioError> {
        let mut chosen = ChosenServers::default();
        for word in &self.server {
            match ServerChoice::of(word)? {
                ServerChoice::Running(address) => chosen.addresses.push(address),
                _ if self.server.len() > 1 => {
                    return Err(ScenarioError(format!(
                        "--server {word} cannot be used with another --server: all nodes run the same program. Only addresses of \
                         servers that already run can be repeated"
                    )));
                }
                ServerChoice::Named(server) => chosen.named = Some(server),
                ServerChoice::Program(path) => chosen.program = Some(path),
                ServerChoice::Image(image) => chosen.image = Some(image),
            }
        }
        let twice = [
            ("--redis-server", chosen.program.is_some() && self.redis_server.is_some()),
            ("--image", chosen.image.is_some() && self.image.is_some()),
        ];
        match twice.iter().find(|(_, twice)| *twice) {
            Some((flag, _)) => {
                Err(ScenarioError(format!("--server and {flag} say the same thing; leave out one of them")))
            }
            None => Ok(chosen),
        }
    }

    /// The servers that already run; None without addresses.
    fn existing(&self, addresses: Vec<String>) -> Result<Option<ExistingServers>, ScenarioError> {
        let path =
            |flag: &str, path: &Option<PathBuf>| path.as_deref().map(|path| absolute_path(flag, path)).transpose();
        let servers = ExistingServers {
            addresses,
            user: self.user.clone(),
            password_file: path("--password-file", &self.password_file)?,
            ca: path("--ca", &self.ca)?,
            cert: path("--cert", &self.cert)?,
            key: path("--key", &self.key)?,
            insecure: self.insecure.unwrap_or_default(),
            allow_writes: self.allow_writes.unwrap_or_default(),
            allow_failover: self.allow_failover.unwrap_or_default(),
        };
        Ok(Some(servers).filter(|servers| *servers != ExistingServers::default()))
    }

    /// The group, with the user's Sentinels in place of those that redjepsen starts.
    fn watched_by_theirs(&self, topology: Topology, addresses: &[String]) -> Result<Topology, ScenarioError> {
        let refuse = |text: &str| Err(ScenarioError(text.to_string()));
        match (topology, &self.sentinel) {
            (Topology::Sentinel(options), Some(name)) if !addresses.is_empty() => {
                let sentinels = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
                Ok(Topology::Sentinel(SentinelOptions { name: name.clone(), sentinels, ..options }))
            }
            (Topology::Sentinel(_), None) if !addresses.is_empty() => refuse(
                "the lock of this workload asks Sentinels: give each Sentinel with --server, and the name of their group with --sentinel",
            ),
            (topology, None) => Ok(topology),
            (_, Some(_)) if addresses.is_empty() => refuse("--sentinel needs the Sentinels: give each with --server"),
            (_, Some(_)) => refuse(
                "--sentinel is for a lock that asks Sentinels; choose a workload such as redis-py-sentinel or coredis-sentinel",
            ),
        }
    }

    /// The user's own client. Without one, only a workload's own client can have an image.
    fn own_client(&self, folder: &Path, of_workload: bool) -> Result<Option<OwnClient>, ScenarioError> {
        let image = self.client_image.is_some() && !of_workload;
        let Some(command) = &self.client_cmd else {
            return match [("--client-image", image), ("--mount", !self.mount.is_empty())]
                .iter()
                .find(|(_, given)| *given)
            {
                Some((flag, _)) => Err(ScenarioError(format!("{flag} is for your own client; give --client-cmd"))),
                None => Ok(None),
            };
        };
        let unclosed = || ScenarioError(format!("--client-cmd: a quote is not closed in `{command}`"));
        // Paths in the command keep their meaning, wherever the run is repeated.
        let folder = match self.client_image {
            None => Some(absolute_path("--client-cmd", folder)?),
            Some(_) => None,
        };
        Ok(Some(OwnClient {
            command: shlex::split(command).ok_or_else(unclosed)?,
            image: self.client_image.clone(),
            mounts: self.mount.iter().map(|text| mount(text)).collect::<Result<_, _>>()?,
            folder,
        }))
    }

    /// The options of a scenario that differ from the defaults of its workload and its nemesis.
    pub fn of(scenario: &Scenario) -> Options {
        let workload = (scenario.workload_name.clone(), scenario.workload.clone());
        let nemesis = (scenario.nemesis_name.clone(), scenario.nemesis.clone());
        let none = Options::default();
        let usual = none.scenario_of(workload, nemesis, 1, Path::new(""));
        let Ok(usual) = usual else { return none };
        fn unusual<T: PartialEq>(value: T, usual: T) -> Option<T> {
            (value != usual).then_some(value)
        }
        Options {
            time_limit: unusual(scenario.time_limit, usual.time_limit).map(Length::Absolute),
            ttl: unusual(scenario.ttl, usual.ttl).map(Length::Absolute),
            clients: unusual(scenario.clients, usual.clients),
            nodes: unusual(scenario.nodes, usual.nodes),
            keys: unusual(scenario.keys, usual.keys),
            rate: unusual(scenario.rate, usual.rate),
            hold: unusual(scenario.hold, usual.hold),
            server: scenario.cluster.server.iter().map(ToString::to_string).collect(),
            ..none
        }
    }

    /// The same options with paths relative to this folder, like the paths in a file.
    pub fn in_folder(&self, folder: &Path) -> Options {
        // Joining an absolute path yields that path.
        let host = |mount: &String| folder.join(mount).display().to_string();
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        Options {
            redis_server: path(&self.redis_server),
            server: self.server.iter().map(|word| ServerChoice::in_folder(word, folder)).collect(),
            password_file: path(&self.password_file),
            ca: path(&self.ca),
            cert: path(&self.cert),
            key: path(&self.key),
            mount: self.mount.iter().map(host).collect(),
            ..self.clone()
        }
    }

    /// The command `redjepsen run` with these options, as a user would type it, without the seed. None if it would mean a
    /// different run elsewhere, because a user's own client starts in its folder.
    pub fn command(&self, workload: &str, nemesis: &str, expect: Option<Expectation>) -> Option<String> {
        if self.client_cmd.is_some() && self.client_image.is_none() {
            return None;
        }
        let mut said =
            vec![("workload".to_string(), workload.to_string()), ("nemesis".to_string(), nemesis.to_string())];
        said.extend(self.to_flags());
        said.extend(expect.map(|expect| ("expect".to_string(), expect.word().to_string())));
        Some(format!("redjepsen run{}", typed(said)))
    }
}

/// The servers of a run, as the user named them.
#[derive(Default)]
struct ChosenServers {
    /// Addresses of servers that already run.
    addresses: Vec<String>,
    /// At most one of these is set: the nodes run it.
    named: Option<NamedServer>,
    program: Option<PathBuf>,
    image: Option<String>,
}

/// A word, quoted for a shell if necessary.
pub fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_string(), |word| word.into_owned())
}

/// Flags with their values, as a user would type them after a command.
pub fn typed(flags: impl IntoIterator<Item = (String, String)>) -> String {
    flags.into_iter().map(|(name, value)| format!(" --{name} {}", quoted(&value))).collect()
}

/// A length of time that does not depend on a TTL.
fn absolute(flag: &str, length: Option<Length>) -> Result<Option<Duration>, ScenarioError> {
    let of = |length: Length| length.absolute().map_err(|error| ScenarioError(format!("{flag} {length}: {error}")));
    length.map(of).transpose()
}

fn absolute_path(flag: &str, path: &Path) -> Result<PathBuf, ScenarioError> {
    // The empty path means this process's working directory.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::path::absolute(path).map_err(|error| ScenarioError(format!("{flag} {}: {error}", path.display())))
}

fn mount(text: &str) -> Result<ClientMount, ScenarioError> {
    let bad = |reason: &str| ScenarioError(format!("--mount {text}: {reason}"));
    let Some((host, container)) = text.split_once(':') else {
        return Err(bad("expected HOST:CONTAINER"));
    };
    if !container.starts_with('/') || container.contains(':') {
        return Err(bad("CONTAINER must be an absolute path, without a colon (mounts are read-only)"));
    }
    let host = std::fs::canonicalize(host).map_err(|error| bad(&format!("{host}: {error}")))?;
    let source = host.into_os_string().into_string().map_err(|_| bad("HOST is not UTF-8"))?;
    Ok(ClientMount { source, target: container.to_string() })
}

fn mounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    one_or_more(deserializer, "a mount such as \"./client:/client\", or a list of mounts")
}

fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    one_or_more(deserializer, "a line such as \"min-replicas-to-write 1\", or a list of lines")
}

fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    one_or_more(deserializer, "a server such as \"valkey:9.1\" or \"redis://host:6379\", or a list of addresses")
}
