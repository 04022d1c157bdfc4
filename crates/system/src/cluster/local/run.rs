//! Operations on the members of a running local cluster.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::unix::pipe;

use super::Local;
use super::folder::Folder;
use super::sandbox::Sandbox;
use crate::cluster::backend::Backend;
use crate::cluster::error::ClusterError;
use crate::cluster::existing::Relays;
use crate::cluster::lines::{ClientProcess, Log};
use crate::cluster::redis_program;
use crate::cluster::sandbox::channel::{MemberStatus, Spawn};
use crate::cluster::spec::{ClientCommand, ClusterSpec, FILES, Member, MemberState};
use crate::faults::clock::ENVIRONMENT;
use crate::faults::{Agent, SeenCommand, Sighting};
use base::members::Role;
use model::topology::NamedServer;
use model::topology::server::Server;

/// Time limit for the end of a killed process. It is gone within milliseconds, unless it waits for a disk.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// How long the sandbox may take to end by itself before it is killed. A sandbox that does not respond is killed at once.
const END_LIMIT: Duration = Duration::from_secs(3);
/// The user that owns nothing.
const NOBODY: u32 = 65534;
/// How many bytes at the end of a log are searched for its last lines.
const LOG_END: usize = 16 << 10;

/// A running local cluster: its sandbox, its files, and how its members are started.
pub struct LocalRun {
    sandbox: Sandbox,
    folder: Folder,
    agent: Agent,
    /// Recipes by member name.
    recipes: HashMap<String, Recipe>,
    /// The controller's end of the relays. None if no node stands for an existing server.
    relays: Option<Arc<Relays>>,
    /// The programs to which nodes can be upgraded.
    upgrades: Vec<(NamedServer, Option<PathBuf>)>,
}

struct Recipe {
    program: PathBuf,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    directory: PathBuf,
    user: Option<u32>,
    /// The relay's index, if the member is a relay.
    relay: Option<usize>,
}

impl LocalRun {
    pub(super) fn new(
        local: &Local,
        spec: &ClusterSpec,
        members: &[Member],
        folder: Folder,
        sandbox: Sandbox,
        agent: Agent,
    ) -> Result<LocalRun, ClusterError> {
        for member in members {
            folder.furnish(member, spec.preloads(member.role))?;
        }
        let relays = local.existing.as_ref();
        let relays =
            relays.map(|existing| Relays::begin(existing, &spec.run_id, folder.path(), members)).transpose()?;
        let is_relay = |member: &Member| relays.is_some() && matches!(member.role, Role::Node | Role::Sentinel);
        let recipes = members.iter().enumerate().map(|(place, member)| {
            let mut recipe = match &member.server {
                // Nodes come first among the members, then Sentinels.
                Some(server) if is_relay(member) => relay(local, place, server.port),
                Some(of) => server(local, of),
                None => client(local, spec),
            };
            if spec.preloads(member.role) {
                recipe.env.extend(ENVIRONMENT.map(|(name, value)| (name.to_string(), value.to_string())));
            }
            (member.name.clone(), recipe)
        });
        let upgrades = spec.upgrades.clone();
        Ok(LocalRun { recipes: recipes.collect(), sandbox, folder, agent, relays, upgrades })
    }

    /// Starts a member, with another server program if there is one.
    async fn spawn(
        &self,
        member: &Member,
        other: Option<&NamedServer>,
        stdio: [OwnedFd; 3],
    ) -> Result<(), ClusterError> {
        let unknown = || ClusterError::UnknownMember { member: member.name.clone() };
        let recipe = self.recipes.get(&member.name).ok_or_else(unknown)?;
        let (mut program, mut argv) = (recipe.program.clone(), recipe.argv.clone());
        if let Some(server) = other {
            let found = self.upgrades.iter().find(|(named, _)| named == server).and_then(|(_, path)| path.as_ref());
            program = found.ok_or_else(unknown)?.clone();
            if let Some(called) = argv.first_mut() {
                *called = redis_program::called(&program).to_string();
            }
        }
        let spawn = Spawn {
            member: member.name.clone(),
            program,
            argv,
            env: recipe.env.clone(),
            address: member.address.ok_or_else(unknown)?,
            directory: recipe.directory.clone(),
            user: recipe.user,
        };
        self.sandbox.spawn(spawn, stdio).await
    }
}

#[async_trait]
impl Backend for LocalRun {
    async fn start_attached(&self, member: &Member, log: &Log) -> Result<ClientProcess, ClusterError> {
        let fail = |error: io::Error| failed(member, &error);
        let (stdin, to_stdin) = io::pipe().map_err(fail)?;
        let (from_stdout, stdout) = io::pipe().map_err(fail)?;
        let (from_stderr, stderr) = io::pipe().map_err(fail)?;
        self.spawn(member, None, [stdin.into(), stdout.into(), stderr.into()]).await?;
        let to_stdin = pipe::Sender::from_owned_fd(to_stdin.into()).map_err(fail)?;
        let from_stdout = pipe::Receiver::from_owned_fd(from_stdout.into()).map_err(fail)?;
        let from_stderr = pipe::Receiver::from_owned_fd(from_stderr.into()).map_err(fail)?;
        Ok(ClientProcess::over(to_stdin, from_stdout, from_stderr, log.clone()))
    }

    async fn start_server(&self, member: &Member, program: Option<&NamedServer>) -> Result<(), ClusterError> {
        let fail = |error: io::Error| failed(member, &error);
        let relay = self.recipes.get(&member.name).and_then(|recipe| recipe.relay).zip(self.relays.as_ref());
        let stdin: OwnedFd = match relay {
            Some((place, relays)) => relays.serve(place).map_err(fail)?,
            None => File::open("/dev/null").map_err(fail)?.into(),
        };
        let log = OpenOptions::new().create(true).append(true).open(self.folder.log_of(&member.name)).map_err(fail)?;
        let stderr = log.try_clone().map_err(fail)?;
        self.spawn(member, program, [stdin, log.into(), stderr.into()]).await
    }

    async fn kill(&self, member: &Member) -> Result<(), ClusterError> {
        self.sandbox.end(&member.name, true, KILL_LIMIT).await
    }

    async fn wait_for_end(&self, member: &Member, limit: Duration) -> Result<(), ClusterError> {
        self.sandbox.end(&member.name, false, limit).await
    }

    async fn running_pid(&self, member: &Member) -> Result<Result<u32, String>, ClusterError> {
        Ok(match self.sandbox.states().await?.get(&member.name) {
            Some(MemberStatus::Runs(pid)) => Ok(*pid),
            Some(MemberStatus::Ended(code)) => Err(format!("exit code {code}")),
            None => Err("it was never started".to_string()),
        })
    }

    async fn states(&self, _: &str, members: Vec<&Member>) -> Result<Vec<MemberState>, ClusterError> {
        let states = self.sandbox.states().await?;
        let state_of = |member: &Member| {
            let (running, text) = match states.get(&member.name) {
                // The agent has just answered, so it runs.
                _ if member.role == Role::Agent => (true, "Up".to_string()),
                Some(MemberStatus::Runs(_)) => (true, "Up".to_string()),
                Some(MemberStatus::Ended(code)) => (false, format!("Exited ({code})")),
                None => (false, "never started".to_string()),
            };
            MemberState { name: member.name.clone(), role: member.role, running, text }
        };
        Ok(members.into_iter().map(state_of).collect())
    }

    async fn server_log(&self, member: &Member, last_lines: Option<u32>) -> Result<Vec<u8>, ClusterError> {
        let text = tokio::fs::read(self.folder.log_of(&member.name)).await.map_err(|error| failed(member, &error))?;
        let Some(last_lines) = last_lines else { return Ok(text) };
        let end = text.get(text.len().saturating_sub(LOG_END)..).unwrap_or_default();
        let lines: Vec<&[u8]> = end.trim_ascii_end().split(|byte| *byte == b'\n').collect();
        let skip = lines.len().saturating_sub(last_lines as usize);
        Ok(lines.get(skip..).unwrap_or_default().join(&b'\n'))
    }

    async fn remove(&self, _: &str) -> Result<(), ClusterError> {
        let lost = self.agent.is_lost();
        self.agent.close().await;
        self.sandbox.wait(if lost { Duration::ZERO } else { END_LIMIT }).await?;
        if let Some(relays) = &self.relays {
            relays.close().await?;
        }
        self.folder.remove()
    }

    fn key_prefix(&self) -> &str {
        self.relays.as_ref().map_or("", |relays| relays.mark())
    }

    fn behind(&self, member: &str) -> Option<String> {
        let place = self.recipes.get(member)?.relay?;
        self.relays.as_ref().map(|relays| relays.server(place))
    }

    // Existing servers get only requests about the run.
    fn observe(&self) -> bool {
        self.relays.is_some()
    }

    fn observed(&self) -> Option<Vec<Sighting>> {
        self.relays.as_ref().map(|_| Vec::new())
    }

    // MONITOR shows the commands of all clients, so the user must ask for it.
    async fn record_commands(&self, asked: bool) -> Option<Result<(), String>> {
        match self.relays.as_ref()? {
            relays if asked => Some(relays.record().await),
            _ => Some(Ok(())),
        }
    }

    fn recorded_commands(&self) -> Option<Vec<(String, SeenCommand)>> {
        self.relays.as_ref().map(|relays| relays.recorded())
    }
}

fn server(local: &Local, server: &Server) -> Recipe {
    let (program, mut argv) = local.program_of(server.program);
    argv.extend(server.arguments.iter().cloned());
    let mut env = server.env.clone();
    env.extend(local.path_of(server.program).map(|path| ("PATH".to_string(), path)));
    Recipe {
        program,
        argv,
        env,
        // For files that the server writes without a configured path.
        directory: FILES.into(),
        // Members are root in their namespaces, and some servers refuse to run as root.
        user: server.program.user().map(|_| NOBODY),
        relay: None,
    }
}

fn relay(local: &Local, place: usize, port: u16) -> Recipe {
    Recipe {
        program: local.program.clone(),
        argv: vec!["redjepsen".to_string(), "relay".to_string(), port.to_string()],
        env: Vec::new(),
        directory: FILES.into(),
        user: None,
        relay: Some(place),
    }
}

fn client(local: &Local, spec: &ClusterSpec) -> Recipe {
    let here = || std::env::current_dir().unwrap_or_else(|_| "/".into());
    match &spec.client {
        ClientCommand::BuiltIn => {
            let argv = vec!["redjepsen".to_string(), "client".to_string()];
            Recipe { program: local.program.clone(), argv, env: Vec::new(), directory: here(), user: None, relay: None }
        }
        ClientCommand::Own(own) => {
            let program = own.command.first().map(PathBuf::from).unwrap_or_default();
            let directory = own.folder.clone().unwrap_or_else(here);
            // A client can write in /tmp, wherever this process has its own temporary files.
            let env = vec![("TMPDIR".to_string(), "/tmp".to_string())];
            Recipe { program, argv: own.command.clone(), env, directory, user: None, relay: None }
        }
        ClientCommand::Installed(client) => {
            let program = client.command.first().map(PathBuf::from).unwrap_or_default();
            let own = client.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
            let env = own.chain([("TMPDIR".to_string(), "/tmp".to_string())]).collect();
            Recipe { program, argv: client.command.clone(), env, directory: here(), user: None, relay: None }
        }
    }
}

fn failed(member: &Member, error: &io::Error) -> ClusterError {
    ClusterError::Local { doing: format!("start {}", member.name), reason: error.to_string() }
}
