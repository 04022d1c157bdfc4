//! The flags of `run`, and the scenario that they mean. Nothing downstream sees a flag.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::Ipv4Net;

use super::Failure;
use crate::cluster::{ClientCommand, ClientMount, NodeSource, PlatformKind, PlatformRequest};
use crate::nemesis::Expectation;
use crate::scenario::{Scenario, catalogue};
use crate::topology::{Persistence, Program};
use crate::units::{Length, LengthRange};

/// Enough that some client always waits for the lock.
const CLIENTS: u32 = 5;
/// Long against what a request takes, short against anybody's patience.
const TTL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct RunFlags {
    /// Lock and resource: a name from `redjepsen list`, or the path of a .toml file
    #[arg(long, default_value = "redlock")]
    workload: String,
    /// Faults: a name from `redjepsen list`, the path of a .toml file, or several of them with commas
    #[arg(long, default_value = "pause")]
    nemesis: String,
    /// Concurrent client processes [default: what the nemesis says, else 5]
    #[arg(long)]
    clients: Option<u32>,
    /// Independent Redis masters under the lock [default: what the workload says; 5 for redlock]
    #[arg(long)]
    nodes: Option<u32>,
    /// Keys that the clients update, each with a lock of its own [default: what the workload says; 1 for redlock]
    #[arg(long)]
    keys: Option<u32>,
    /// The lock's time to live [default: what the nemesis says, else 1s]
    #[arg(long, value_parser = absolute)]
    ttl: Option<Duration>,
    /// Operations a second that all clients together aim at
    #[arg(long, default_value_t = 50.0)]
    rate: f64,
    /// How long clients start new operations
    #[arg(long, default_value = "30s", value_parser = absolute)]
    time_limit: Duration,
    /// Repeats the plan of an earlier run [default: drawn, and printed]
    #[arg(long)]
    seed: Option<u64>,
    /// How long the holder thinks between read and write, drawn for each operation
    #[arg(long, default_value = "0.01ttl..0.1ttl")]
    hold: LengthRange,
    /// How long an operation may wait for the lock
    #[arg(long, default_value = "4ttl")]
    acquire_timeout: Length,
    /// What the lock's nodes keep on their disks [default: what the nemesis says, else none]
    #[arg(long, value_enum)]
    persistence: Option<Persistence>,
    /// What the cluster is made of: containers, or programs of this machine in namespaces; auto takes Docker where it answers
    #[arg(long, value_enum, default_value_t = ClusterKind::Auto)]
    cluster: ClusterKind,
    /// Folder that keeps the runs
    #[arg(long, default_value = "store")]
    pub store: PathBuf,
    /// Exit 0 only if the run shows this
    #[arg(long, value_enum)]
    expect: Option<Expectation>,
    /// Leave the cluster up afterwards (`redjepsen clean` removes it)
    #[arg(long)]
    pub keep: bool,
    /// Redis-compatible image of the nodes [default: redis:7, or one made of this machine's own Redis]
    #[arg(long)]
    image: Option<String>,
    /// Redis-compatible server program of the nodes, such as your own build [default: redis-server on PATH]
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    redis_server: Option<PathBuf>,
    /// The cluster's network, such as 10.9.8.0/24 [default: one that is free]
    #[arg(long)]
    pub subnet: Option<Ipv4Net>,
    /// Your own lock client: a command that speaks the client protocol (see README), run here or in --client-image
    #[arg(long)]
    client_cmd: Option<String>,
    /// The image that --client-cmd runs in, with Docker
    #[arg(long, requires = "client_cmd")]
    client_image: Option<String>,
    /// Makes a file or folder of this machine visible to --client-cmd: HOST:CONTAINER, read-only
    #[arg(long = "mount", requires = "client_cmd", value_name = "HOST:CONTAINER")]
    mounts: Vec<String>,
    /// Show the log on standard error as well
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClusterKind {
    Auto,
    Docker,
    Local,
}

impl RunFlags {
    /// The scenario that the flags mean, checked; the seed is drawn where none was given.
    pub fn scenario(&self) -> Result<Scenario, Failure> {
        let (workload_name, workload) = catalogue::workload(&self.workload).map_err(Failure::arguments)?;
        let (nemesis_name, nemesis) = catalogue::nemesis(&self.nemesis).map_err(Failure::arguments)?;
        let seed = match self.seed {
            Some(seed) => seed,
            // Short enough to be typed again.
            None => u64::from(getrandom::u32().map_err(Failure::could_not_run)?),
        };
        let program = workload.lock.program();
        if self.persistence.is_some() && program != Program::Redis {
            return Err(Failure::arguments(format!(
                "--persistence is for Redis; lock {} lives in a database, which keeps what it has acknowledged",
                workload.lock.name()
            )));
        }
        let usual = nemesis.ttl.map_or(TTL, |ttl| ttl.resolve(TTL));
        let ttl = self.ttl.unwrap_or(usual);
        let scenario = Scenario {
            workload_name,
            nemesis_name,
            seed,
            clients: self.clients.or(nemesis.clients).unwrap_or(CLIENTS),
            nodes: self.nodes.unwrap_or(workload.nodes),
            keys: self.keys.unwrap_or(workload.keys),
            ttl,
            time_limit: self.time_limit,
            hold: self.hold,
            rate: self.rate,
            acquire_timeout: self.acquire_timeout.resolve(ttl).min(self.time_limit),
            persistence: self.persistence.or(nemesis.persistence).unwrap_or_default(),
            expect: self.expect,
            workload,
            nemesis,
        };
        scenario.check().map_err(Failure::arguments)?;
        Ok(scenario)
    }

    /// Where the cluster is to run, and of what; `program` is what its nodes run. Flags that only one kind of cluster knows decide for it.
    pub fn platform(&self, program: Program) -> Result<PlatformRequest, Failure> {
        let for_docker = [
            ("--image", self.image.is_some()),
            ("--client-image", self.client_image.is_some()),
            ("--mount", !self.mounts.is_empty()),
            // A local cluster ends with this process.
            ("--keep", self.keep),
        ];
        let for_docker = for_docker.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
        let for_local = self.client_cmd.is_some() && self.client_image.is_none();
        let kind = match (self.cluster, for_docker) {
            (ClusterKind::Local, Some(flag)) => {
                return Err(Failure::arguments(format!("{flag} makes no sense with --cluster local")));
            }
            (ClusterKind::Docker | ClusterKind::Auto, Some(_)) | (ClusterKind::Docker, None) => {
                if for_local {
                    return Err(Failure::arguments(
                        "--client-cmd needs --client-image in Docker, the image that it runs in; or use --cluster local",
                    ));
                }
                PlatformKind::Docker
            }
            (ClusterKind::Local, None) => PlatformKind::Local,
            (ClusterKind::Auto, None) if for_local => PlatformKind::Local,
            (ClusterKind::Auto, None) => PlatformKind::Auto,
        };
        let node = match (&self.image, &self.redis_server) {
            (Some(image), _) => NodeSource::Named(image.clone()),
            (None, Some(program)) => NodeSource::Program(program.clone()),
            (None, None) => NodeSource::Default,
        };
        Ok(PlatformRequest { kind, node, program, client_image: self.client_image.clone() })
    }

    /// The user's own client, if there is one.
    pub fn own_client(&self) -> Result<Option<ClientCommand>, Failure> {
        let Some(command) = &self.client_cmd else { return Ok(None) };
        let argv = split_words(command).map_err(|reason| Failure::arguments(format!("--client-cmd: {reason}")))?;
        let mounts = self.mounts.iter().map(|text| mount(text)).collect::<Result<_, _>>()?;
        Ok(Some(ClientCommand::Custom { argv, mounts, env: Vec::new() }))
    }
}

/// The command that repeats a run, as the user would type it: the words that were said, and the seed.
pub(super) fn repeat(said: &[String], seed: u64) -> String {
    let mut words = vec!["redjepsen".to_string()];
    let mut said = said.iter();
    while let Some(word) = said.next() {
        if word == "--seed" {
            said.next();
        } else if !word.starts_with("--seed=") {
            words.push(quoted(word));
        }
    }
    words.push(format!("--seed {seed}"));
    words.join(" ")
}

/// A length of time that does not depend on a TTL.
pub(super) fn absolute(text: &str) -> Result<Duration, String> {
    match text.parse::<Length>() {
        Ok(Length::Absolute(duration)) => Ok(duration),
        Ok(Length::Ttl(_)) => Err("a multiple of the TTL makes no sense here; write for example `30s`".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn mount(text: &str) -> Result<ClientMount, Failure> {
    let bad = |reason: &str| Failure::arguments(format!("--mount {text}: {reason}"));
    let Some((host, container)) = text.split_once(':') else {
        return Err(bad("expected HOST:CONTAINER"));
    };
    if !container.starts_with('/') || container.contains(':') {
        return Err(bad("CONTAINER must be an absolute path, without a colon (mounts are read-only)"));
    }
    let host = std::fs::canonicalize(host).map_err(|error| bad(&format!("{host}: {error}")))?;
    let source = host.into_os_string().into_string().map_err(|_| bad("HOST is not UTF-8"))?;
    Ok(ClientMount { source, target: container.to_string(), read_only: true })
}

/// Splits a command into words as a shell does, with quotes and backslashes and nothing else.
fn split_words(command: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(command).ok_or_else(|| format!("a quote is not closed in `{command}`"))?;
    if words.is_empty() { Err("it is empty".into()) } else { Ok(words) }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_string(), |word| word.into_owned())
}

impl ValueEnum for Expectation {
    fn value_variants<'a>() -> &'a [Self] {
        &[Expectation::Valid, Expectation::Violation]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(match self {
            Expectation::Valid => "valid",
            Expectation::Violation => "violation",
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: RunFlags,
    }

    fn scenario(words: &str) -> Result<Scenario, Failure> {
        Command::parse_from(std::iter::once("run").chain(words.split(' '))).flags.scenario()
    }

    #[test]
    fn a_workload_says_how_many_keys_there_are_unless_the_user_does() {
        for (words, keys) in [("--seed 1", 1), ("--workload several-keys", 5), ("--workload several-keys --keys 2", 2)]
        {
            assert_eq!(scenario(words).map(|scenario| scenario.keys).ok(), Some(keys), "{words}");
        }
        assert!(scenario("--workload several-keys --keys 0").is_err());
    }
}
