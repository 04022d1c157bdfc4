//! Errors of a cluster. Each error is one line that says how to fix its cause.
//!
//! Users meet these errors before anything else works, often on a machine that they do not administer. So every variant names the
//! attempt, its result, and the remedy.

use std::path::PathBuf;

use crate::faults::AgentError;
use base::files::FileError;
use model::topology::Program;

/// Why a cluster could not be started, used, or removed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("no Docker engine answers at {address}: {reason}; {remedy}")]
    Unreachable { address: String, reason: String, remedy: &'static str },
    #[error(
        "this user may not use the Docker engine at {address} ({reason}); run `sudo usermod -aG docker $USER` and \
         log in again"
    )]
    Forbidden { address: String, reason: String },
    #[error(
        "DOCKER_HOST is `{host}`, which redjepsen cannot use ({reason}); set it to `unix:///PATH` or `tcp://HOST:PORT`"
    )]
    UnsupportedHost { host: String, reason: &'static str },
    #[error(
        "the Docker engine runs {found} containers, and redjepsen needs linux; switch the engine to Linux containers"
    )]
    NotLinux { found: String },
    #[error("the Docker engine could not {doing}: {reason}")]
    Engine { doing: String, reason: String, status: Option<u16> },
    #[error("it took longer than {seconds} s to {doing}; check whether this machine is overloaded, and try again")]
    Timeout { doing: String, seconds: u64 },
    #[error(
        "there is no image `{image}` here, and it cannot be pulled ({reason}); load it with `docker load` or make its registry reachable"
    )]
    ImageMissing { image: String, reason: String },
    #[error(
        "there is no Redis to run: no image `{image}` here, it cannot be pulled ({reason}), and this machine has no redis-server \
         to build an image from; `apt-get install redis-tools`, or make the registry reachable, or name an image with --image"
    )]
    NoRedis { image: String, reason: String },
    #[error(
        "there is no {program} to run: no image `{image}` here, it cannot be pulled ({reason}), and this machine has no \
         {program} to build an image from; `apt-get install {package}`, or make the registry reachable"
    )]
    NoService { program: Program, image: String, reason: String, package: &'static str },
    #[error(
        "there is no {program} on this machine for a local cluster; `apt-get install {package}` (its service need not run), or use \
         --cluster docker"
    )]
    NoServiceProgram { program: Program, package: &'static str },
    #[error("{reason}; run it with `redjepsen run --cluster docker` or `--cluster local`")]
    Simulated { reason: String },
    #[error(
        "workload {workload} needs a server with `SET … IFEQ` (Valkey 8.1, Redis 8.4, and later), and {server} does not have it; add \
         --server valkey:9.1{install}"
    )]
    NoIfeq { workload: String, server: String, install: &'static str },
    #[error("a container cannot be upgraded to {server}, since it has one image; use --cluster local or --cluster sim")]
    NoUpgrade { server: String },
    #[error("{server} is not simulated; --cluster sim has {known}. Use one of these, or --cluster local")]
    NotSimulatedServer { server: String, known: String },
    #[error("the folder {} for temporary files does not exist; create it, or set TMPDIR to an existing folder", path.display())]
    NoTemporaryFolder { path: PathBuf },
    #[error("{program} cannot be used: {reason}")]
    Program { program: String, reason: String },
    #[error(
        "redjepsen's program file is gone ({path}): it was rebuilt or removed while running; start redjepsen again"
    )]
    ProgramReplaced { path: String },
    #[error("{program} is built for {found}, and the Docker engine runs {wanted} containers; use a build for {wanted}")]
    ForeignProgram { program: String, found: String, wanted: String },
    #[error(
        "the network {subnet} cannot be used: {reason}; choose another --subnet, or leave it out to let redjepsen choose"
    )]
    SubnetTaken { subnet: ipnet::Ipv4Net, reason: String },
    #[error("no free network found for the cluster ({reason}); name one with --subnet, or see `docker network ls`")]
    NoSubnet { reason: String },
    #[error(
        "the network {subnet} has room for {room} members and the cluster needs {needed}; choose a larger --subnet"
    )]
    SubnetTooSmall { subnet: ipnet::Ipv4Net, room: u64, needed: u64 },
    #[error(
        "{clients} clients of {nodes} nodes need {needed} entries in the kernel's table of neighbours, which has room for \
         {room}, so some members could not reach others; to make room, use `sudo sysctl -w \
         net.ipv4.neigh.default.gc_thresh3=8192`, or use fewer clients or nodes, or --cluster local, which does not need the \
         table"
    )]
    TooManyNeighbours { clients: u32, nodes: u32, needed: u64, room: u64 },
    #[error("`{run_id}` cannot name a run: use letters, digits, `-`, `_` and `.`, first a letter or digit, at most 64")]
    BadRunId { run_id: String },
    #[error("the run `{run_id}` exists already; `redjepsen clean` removes what is left of runs that ended")]
    RunExists { run_id: String },
    #[error("the start of the cluster was aborted")]
    GivenUp,
    #[error("the start of the cluster failed by a bug in redjepsen: {reason}")]
    StartPanicked { reason: String },
    #[error("{what} could not be removed ({reason}); to remove it, run `redjepsen clean`")]
    NotRemoved { what: String, reason: String },
    #[error(
        "the engine counts members in the network {network}, but lists none (a bug of the engine, after it removed containers \
         under load); restart the engine, then `redjepsen clean` removes the network"
    )]
    EngineMiscounts { network: String },
    #[error("{member} exited right after its start ({state}), before it was ready{log}")]
    MemberDied { member: String, state: String, log: String },
    #[error("{member} did not answer within {seconds} s of its start ({reason}){log}")]
    NotReady { member: String, seconds: u64, reason: String, log: String },
    #[error(
        "{member} runs, but {address} does not answer: a firewall seems to drop packets between the engine's machine and its \
         containers; to find the rule, look at the counters of `sudo iptables -vnL INPUT` and `OUTPUT`, or at `sudo nft list \
         ruleset`"
    )]
    Firewall { member: String, address: String },
    #[error("{member} cannot be reset: {reason}")]
    NotReset { member: String, reason: String },
    #[error("there is no member `{member}` in this cluster")]
    UnknownMember { member: String },
    #[error("{member} is not a server")]
    NoServer { member: String },
    #[error("{member} still runs; only a killed server can be started again")]
    StillRuns { member: String },
    #[error("this cluster cannot have network faults: {reason}; choose a nemesis without them")]
    NoNetworkFaults { reason: String },
    #[error("could not {doing} on this machine: {reason}")]
    Local { doing: String, reason: String },
    #[error("a local cluster cannot run here: {reason}")]
    NoNamespaces { reason: String },
    #[error(
        "there is no redis-server on PATH for a local cluster; `apt-get install redis-server`, or use --cluster docker. To run another \
         server, use `redjepsen install --servers` and --server valkey:9.1, or name your own build with --server ./FILE"
    )]
    NoServerProgram,
    #[error("a local cluster runs programs, not the image `{image}`; leave it out, or use --cluster docker")]
    ImageForLocal { image: String },
    #[error("{reason}")]
    Existing { reason: String },
    #[error(
        "no place to run a cluster ({docker}). Install or start Docker, or `apt-get install redis-server`. To run another \
         server, use `redjepsen install --servers` and --server valkey:9.1, or name your own build with --server ./FILE"
    )]
    Nowhere { docker: String },
    #[error("the agent could not {doing}: {source}")]
    Agent { doing: String, source: AgentError },
    #[error("{0}")]
    File(FileError),
}

impl ClusterError {
    /// True if the engine said that the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ClusterError::Engine { status: Some(404), .. })
    }

    /// True if the engine reported a conflict: a name in use, a removal under way, a container that is running.
    pub fn is_conflict(&self) -> bool {
        matches!(self, ClusterError::Engine { status: Some(409), .. })
    }

    /// True if the engine's message contains `text`.
    pub fn says(&self, text: &str) -> bool {
        matches!(self, ClusterError::Engine { reason, .. } if reason.contains(text))
    }
}

/// Joins the lines of a text, since an error is one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
