//! The process that holds a local cluster: `redjepsen sandbox`, which the controller starts.
//!
//! It moves into its own namespaces, where it is process 1 and has all privileges. It sets up a bridge and a file system, starts
//! members in their own namespaces, and is the agent that injects faults. When it ends, the kernel removes all of this:
//! processes, network devices, packet rules, mounts. It ends with the controller, because then the stream of the agent's orders
//! ends.
//!
//! - [`channel`]: its orders
//! - `namespaces`, `root`, `links`: the members' environment; `privileges`, `sockets`, `limits`: the members' rights in it
//! - `members`: the members' processes; [`relay`]: the process of a node that stands for an existing server
//!
//! There are two processes because a process cannot move into another PID namespace; only its children can.

pub mod channel;
mod limits;
pub mod links;
mod members;
mod namespaces;
mod privileges;
pub mod relay;
mod root;
mod sockets;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Signal, WaitOptions, WaitStatus, set_parent_process_death_signal, waitpid};

use self::channel::{Begin, Channel, Reply, SandboxAnswer, SandboxOrder, SandboxRequest};
use self::links::Bridge;
use self::members::Members;

/// Runs the sandbox until the controller closes the channel. This process must have no other thread.
pub fn run() -> anyhow::Result<()> {
    let channel =
        channel_on_stdin().context("stdin is not a channel; `redjepsen run --cluster local` starts the sandbox")?;
    let Some((SandboxRequest { id, order: SandboxOrder::Begin(begin) }, mut descriptors)) =
        channel.receive::<SandboxRequest>()?
    else {
        bail!("the first order must be to begin");
    };
    let agent = UnixStream::from(descriptors.pop().context("there is no stream for the agent")?);
    let sockets = root::sockets();
    if let Err(refused) = namespaces::enter() {
        return Ok(channel.send(&Reply { id, answer: SandboxAnswer::Failed(refused) }, &[])?);
    }
    // SAFETY: no other thread exists that could hold a lock now.
    match unsafe { libc::fork() } {
        0 => hold(channel, id, begin, &sockets, agent),
        child if child > 0 => {
            drop((channel, agent));
            wait_for(child)
        }
        _ => Err(io::Error::last_os_error()).context("fork"),
    }
}

/// Takes the channel from stdin, so that programs it starts do not inherit it.
fn channel_on_stdin() -> io::Result<Channel> {
    let channel: OwnedFd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::net::sockopt::socket_type(&channel)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Channel::from(channel))
}

fn wait_for(child: i32) -> anyhow::Result<()> {
    let child = rustix::process::Pid::from_raw(child);
    loop {
        match waitpid(child, WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) if WaitStatus::exit_status(status) == Some(0) => return Ok(()),
            Ok(status) => bail!("the sandbox ended: {status:?}"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Runs as process 1 of the cluster's namespace.
fn hold(channel: Channel, id: u64, begin: Begin, sockets: &[PathBuf], agent: UnixStream) -> anyhow::Result<()> {
    // Killing the parent must also kill this process.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let bridge = match furnish(&begin, sockets) {
        Ok(bridge) => bridge,
        Err(reason) => return Ok(channel.send(&Reply { id, answer: SandboxAnswer::Failed(reason) }, &[])?),
    };
    let members = Arc::new(Members::new(bridge, begin));
    channel.send(&Reply { id, answer: SandboxAnswer::Done }, &[])?;
    let watched = Arc::clone(&members);
    thread::Builder::new().name("limits".to_string()).spawn(move || watched.keep_within_limits())?;
    thread::Builder::new().name("members".to_string()).spawn(move || take_orders(&Arc::new(channel), &members))?;

    agent.set_nonblocking(false)?;
    let answers = agent.try_clone()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(crate::faults::serve(agent, answers));
    runtime.shutdown_background();
    outcome
}

/// Sets up the environment that all members share.
fn furnish(begin: &Begin, sockets: &[PathBuf]) -> Result<Bridge, String> {
    root::build(&begin.root, &begin.files, sockets).map_err(|error| namespaces::refused("mounts", &error))?;
    Bridge::make(begin.gateway, begin.prefix, &begin.servers)
        .map_err(|error| namespaces::refused("a network bridge", &error))
}

/// Carries out orders concurrently until the controller is gone.
fn take_orders(channel: &Arc<Channel>, members: &Arc<Members>) {
    loop {
        match channel.receive::<SandboxRequest>() {
            Ok(Some((request, descriptors))) => {
                let (channel, members) = (Arc::clone(channel), Arc::clone(members));
                let carried_out = thread::Builder::new().spawn(move || {
                    let answer = carry_out(request.order, descriptors, &members);
                    // If nothing reads answers any more, the controller is gone and this process ends soon.
                    let _ = channel.send(&Reply { id: request.id, answer }, &[]);
                });
                if let Err(error) = carried_out {
                    eprintln!("no thread for order {}: {error}", request.id);
                }
            }
            Ok(None) => return,
            // Both ends are the same program, so after an invalid order no further message can be trusted.
            Err(error) => return eprintln!("not an order: {error}"),
        }
    }
}

fn carry_out(order: SandboxOrder, descriptors: Vec<OwnedFd>, members: &Arc<Members>) -> SandboxAnswer {
    match order {
        SandboxOrder::Begin(_) => SandboxAnswer::Failed("the sandbox has begun already".to_string()),
        SandboxOrder::Spawn(spawn) => {
            members.spawn(spawn, descriptors).map_or_else(SandboxAnswer::Failed, |()| SandboxAnswer::Done)
        }
        SandboxOrder::End { member, kill, limit_ms } => members.end(&member, kill, Duration::from_millis(limit_ms)),
        SandboxOrder::States => SandboxAnswer::States(members.states()),
    }
}
