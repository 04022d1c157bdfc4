//! Clusters of this machine's own programs. They need no engine and no images, and no root if users may create namespaces.
//!
//! The controller starts one [`sandbox`](super::sandbox), which holds everything else; when the sandbox ends, everything in it
//! ends. This is the controller's side: the servers' program, the run's [`folder`](clean), the members' stdio.

mod folder;
mod run;
mod sandbox;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use ipnet::Ipv4Net;
use tokio::time::{Instant, sleep};

use super::backend::Backend;
use super::error::ClusterError;
use super::existing::Existing;
use super::installed::{self, Installed};
use super::parts::{Description, MemberHandle, Parts, agent_on};
use super::provider::{FoundProvider, NodeSource, PlatformRequest, Provider};
use super::sandbox::channel::Begin;
use super::sandbox::links::BRIDGE;
use super::spec::{ClusterSpec, Member};
use super::starts::{Start, Starts};
use super::{address, redis_program};
use crate::faults::AgentError;
use base::members::Role;
use model::topology::{ClusterKind, ExistingServers, Program};

use self::folder::Folder;
pub use self::folder::clean;
pub use self::run::LocalRun;
use self::sandbox::Sandbox;

/// The members' network, which is invisible outside the sandbox.
const SUBNET: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 213, 0, 0), 16);
/// At most this many members are awaited at the same time.
const AT_ONCE: usize = 64;

#[derive(Clone, Debug)]
pub struct Local {
    server: PathBuf,
    /// The program of the lock nodes, if it is not Redis.
    service: Option<Installed>,
    /// The redjepsen binary that the sandbox and built-in clients run.
    program: PathBuf,
    /// The existing servers that the lock nodes stand for.
    existing: Option<Arc<Existing>>,
    starts: Starts,
}

impl Local {
    /// Checks the server program `server`, or else the program on PATH. `program` is the redjepsen binary; `None` stands for this
    /// program.
    pub fn find(server: Option<&Path>, program: Option<PathBuf>) -> Result<Local, ClusterError> {
        let server = match server {
            Some(path) => path.to_path_buf(),
            None => redis_program::find().ok_or(ClusterError::NoServerProgram)?,
        };
        redis_program::version(&server)?;
        let server = std::path::absolute(&server).map_err(|error| ClusterError::Program {
            program: server.display().to_string(),
            reason: error.to_string(),
        })?;
        // The path of this process's own binary, even if its file has been replaced meanwhile.
        let program = program.unwrap_or_else(|| "/proc/self/exe".into());
        Ok(Local { server, service: None, program, existing: None, starts: Starts::default() })
    }

    /// The same cluster with nodes that run this program. Fails if the program is not installed here.
    pub fn with_nodes(self, program: Program) -> Result<Local, ClusterError> {
        if program == Program::Redis {
            return Ok(Local { service: None, ..self });
        }
        let missing = || ClusterError::NoServiceProgram { program, package: installed::package(program) };
        if program.user().is_some() && !rustix::process::geteuid().is_root() {
            return Err(ClusterError::Program {
                program: program.to_string(),
                reason:
                    "this program refuses to run as root, and members of a local cluster run as root unless redjepsen itself \
                     does; use --cluster docker, or sudo"
                        .to_string(),
            });
        }
        Ok(Local { service: Some(installed::find(program).ok_or_else(missing)?), ..self })
    }

    /// The same cluster, with nodes that are relays to these servers.
    pub fn with_existing(self, servers: &ExistingServers) -> Result<Local, ClusterError> {
        Ok(Local { existing: Some(Arc::new(Existing::of(servers)?)), ..self })
    }

    /// PATH for a server of this program; None if this process's own PATH is enough.
    pub fn path_of(&self, program: Program) -> Option<String> {
        let folder = self.service.as_ref().filter(|_| program != Program::Redis)?.path.as_ref()?;
        let inherited = std::env::var("PATH").unwrap_or_default();
        Some(format!("{}:{inherited}", folder.display()))
    }

    fn nodes_program(&self) -> &Path {
        self.service.as_ref().map_or(&self.server, Installed::program)
    }

    pub fn server_program(&self) -> &Path {
        &self.server
    }

    /// The path of a server program, and its first arguments, including `argv[0]`.
    pub fn program_of(&self, program: Program) -> (PathBuf, Vec<String>) {
        match &self.service {
            Some(service) if program != Program::Redis => (service.program().to_path_buf(), service.command.clone()),
            _ => (self.server.clone(), vec![redis_program::called(&self.server).to_string()]),
        }
    }

    /// Checks whether this cluster can run here, as far as this is known before the start.
    pub fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        address::check_room(subnet(spec), spec.addresses())
    }

    /// Cancels the start of this run, if it is in progress, and waits until everything of it is removed.
    pub async fn remove_run(&self, run_id: &str) {
        self.starts.give_up(run_id).await;
    }

    /// Describes the leftovers of a run that this process does not remove.
    pub fn traces(run_id: &str) -> String {
        format!("the folder {}", folder::path(run_id).display())
    }

    async fn start_members(&self, spec: &ClusterSpec, start: &Start) -> Result<Parts, ClusterError> {
        self.check(spec)?;
        let began = Instant::now();
        let folder = Folder::make(&spec.run_id, &spec.owner)?;
        let subnet = subnet(spec);
        let gateway = subnet.hosts().next().unwrap_or(subnet.network());
        let members = spec.members(subnet);
        let addresses = |servers: bool| {
            let of_kind = members.iter().filter(|member| member.role.is_server() == servers);
            of_kind.filter_map(|member| member.address).collect()
        };
        let begin = Begin {
            gateway,
            prefix: subnet.prefix_len(),
            root: folder.root(),
            files: folder.path().to_path_buf(),
            servers: addresses(true),
            clients: addresses(false),
        };
        let agent_handle = MemberHandle::new(Member::agent());
        let sandbox = Sandbox::start(&self.program, begin, &agent_handle.log);
        let (sandbox, process) = start.unless_given_up(sandbox).await?;
        tracing::debug!("sandbox ready after {:?}", began.elapsed());
        let agent = agent_on(process);
        if spec.network_faults {
            let refused = |error: AgentError| ClusterError::NoNetworkFaults { reason: error.to_string() };
            let table = format!("redjepsen-{}", spec.run_id);
            start.unless_given_up(async { agent.network(BRIDGE, &table).await.map_err(refused) }).await?;
        }
        let run = LocalRun::new(self, spec, &members, folder, sandbox, agent.clone())?;
        let placed = members.into_iter().map(MemberHandle::new);
        let handles: Vec<_> = [agent_handle].into_iter().chain(placed).map(Arc::new).collect();
        for watchers in [false, true] {
            let now = handles.iter().filter(|handle| handle.member.role.watches() == watchers);
            let starts = start.unless_given_up(start_all(&run, now)).await;
            if let Err(error) = starts {
                if let Err(error) = run.remove(&spec.run_id).await {
                    tracing::warn!("the failed start left something behind: {error}");
                }
                return Err(error);
            }
        }
        tracing::debug!("members started after {:?}", began.elapsed());
        let description = Description {
            cluster: self.kind().word(),
            nodes: match &self.existing {
                Some(existing) => existing.shown(),
                None => self.nodes_program().display().to_string(),
            },
            server: String::new(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            engine: None,
            subnet,
        };
        Ok(Parts { description, handles, agent, backend: Box::new(run), at_once: AT_ONCE })
    }
}

async fn start_all(run: &LocalRun, handles: impl Iterator<Item = &Arc<MemberHandle>>) -> Result<(), ClusterError> {
    let starts = join_all(handles.map(async |handle| match handle.member.role {
        Role::Agent => Ok(()),
        role if role.is_server() => run.start_server(&handle.member, None).await,
        _ => run.start_attached(&handle.member, &handle.log).await.map(|process| handle.keep(process)),
    }));
    starts.await.into_iter().collect()
}

#[async_trait]
impl Provider for Local {
    fn kind(&self) -> ClusterKind {
        if self.existing.is_some() { ClusterKind::EXISTING } else { ClusterKind::LOCAL }
    }

    async fn check(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        self.check(spec)?;
        match &self.existing {
            Some(existing) => existing.check(spec).await,
            None => Ok(()),
        }
    }

    async fn start(&self, spec: &ClusterSpec, start: &Start) -> Result<Parts, ClusterError> {
        self.start_members(spec, start).await
    }

    fn starts(&self) -> Option<&Starts> {
        Some(&self.starts)
    }

    async fn remove(&self, run_id: &str) -> Result<(), ClusterError> {
        self.remove_run(run_id).await;
        Ok(())
    }

    async fn patience(&self, enough: Duration) {
        sleep(enough).await
    }

    fn traces(&self, run_id: &str) -> String {
        Local::traces(run_id)
    }
}

/// The local clusters that the request asks for; the error says what is missing here.
pub(super) fn found(request: &PlatformRequest) -> Result<Local, ClusterError> {
    let server: Option<PathBuf> = match &request.node {
        NodeSource::Default | NodeSource::Existing(_) => None,
        NodeSource::Program(path) => Some(path.clone()),
        NodeSource::Named(image) => return Err(ClusterError::ImageForLocal { image: image.clone() }),
    };
    let local = Local::find(server.as_deref(), None)?;
    match &request.node {
        NodeSource::Existing(servers) => local.with_existing(servers),
        _ => local.with_nodes(request.program),
    }
}

pub(super) fn find(request: &PlatformRequest) -> FoundProvider {
    found(request).map(|local| Arc::new(local) as Arc<dyn Provider>)
}

fn subnet(spec: &ClusterSpec) -> Ipv4Net {
    spec.subnet.map_or(SUBNET, |subnet| subnet.trunc())
}
