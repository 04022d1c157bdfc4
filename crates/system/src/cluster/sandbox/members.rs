//! The members' processes. Each starts in its own namespaces, and the sandbox watches it until it ends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::mount::MountFlags;
use rustix::process::Signal;

use super::channel::{Begin, MemberStatus, SandboxAnswer, Spawn};
use super::limits;
use super::links::{Bridge, configure_inside};
use super::namespaces;
use super::privileges::drop_all;
use super::root::{Owner, mount_own, mount_proc};
use super::sockets;
use crate::faults::HeldProcess;
use base::sync::lock;

/// How often clients are counted: often enough for a program that doubles its processes as fast as it can.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// All members that were ever started.
pub(super) struct Members {
    bridge: Mutex<Bridge>,
    /// The order with which the cluster began.
    begin: Begin,
    processes: Mutex<HashMap<String, Arc<MemberProcess>>>,
}

/// A member's first process in its namespace. All other processes in the namespace end with it.
struct MemberProcess {
    held: HeldProcess,
    /// The PID namespace of a client, to count its resources; None for other members.
    namespace: Option<u64>,
    /// A client's standard error while the client runs, to write why it is killed. The log does not end before this file is
    /// closed.
    stderr: Mutex<Option<File>>,
    why_killed: Mutex<Option<String>>,
    state: Mutex<MemberStatus>,
    changed: Condvar,
}

impl Members {
    pub fn new(bridge: Bridge, begin: Begin) -> Members {
        Members { bridge: Mutex::new(bridge), begin, processes: Mutex::default() }
    }

    /// The members with which the member at this address talks: a client talks to the servers, a server to all members.
    fn neighbours(&self, address: Ipv4Addr) -> Vec<Ipv4Addr> {
        let Begin { gateway, servers, clients, .. } = &self.begin;
        let is_server = servers.contains(&address);
        let of_server = clients.iter().chain([gateway]).filter(|_| is_server);
        servers.iter().chain(of_server).filter(|other| **other != address).copied().collect()
    }

    fn is_client(&self, address: Ipv4Addr) -> bool {
        self.begin.clients.contains(&address)
    }

    /// Kills clients that exceed their limits, for as long as this process lives.
    pub fn keep_within_limits(&self) {
        limits::run_first();
        loop {
            thread::sleep(LOOK_EVERY);
            let processes: Vec<Arc<MemberProcess>> = lock(&self.processes).values().map(Arc::clone).collect();
            let running = |process: &Arc<MemberProcess>| {
                process.namespace.is_some() && matches!(*lock(&process.state), MemberStatus::Runs(_))
            };
            if !processes.iter().any(running) {
                continue;
            }
            for process in &processes {
                let MemberStatus::Runs(first) = *lock(&process.state) else { continue };
                let counted = limits::processes_of(first).filter(|_| process.namespace.is_some());
                if let Some(why) = counted.and_then(|processes| limits::Usage::of_processes(processes).too_much()) {
                    process.end_for(why);
                }
            }
            let usages = limits::usages();
            for process in processes.iter().filter(|process| running(process)) {
                let usage = process.namespace.and_then(|namespace| usages.get(&namespace));
                if let Some(why) = usage.and_then(|usage| usage.too_much()) {
                    process.end_for(why);
                }
            }
        }
    }

    /// Starts a member's process with this stdin, stdout and stderr.
    pub fn spawn(self: &Arc<Self>, spawn: Spawn, stdio: Vec<OwnedFd>) -> Result<(), String> {
        let name = spawn.member.clone();
        if let Some(earlier) = lock(&self.processes).get(&name)
            && matches!(*lock(&earlier.state), MemberStatus::Runs(_))
        {
            return Err(format!("{name} runs already"));
        }
        let is_client = self.is_client(spawn.address);
        let [stdin, stdout, stderr] =
            <[OwnedFd; 3]>::try_from(stdio).map_err(|_| "expected stdin, stdout and stderr".to_string())?;
        let told = stderr.try_clone().map_err(|error| error.to_string())?;
        let members = Arc::clone(self);
        // Starts in a new thread, which enters the member's namespaces and ends.
        let started = thread::Builder::new().spawn(move || members.start(&spawn, [stdin, stdout, stderr]));
        let started = started.map_err(|error| error.to_string())?;
        let child = started.join().map_err(|_| "its start panicked".to_string())??;
        // The process is not reaped yet, so no other process can have its PID. This thread must open it, because only here does
        // /proc show it under this PID.
        let held = HeldProcess::open(child.id()).map_err(|error| format!("taking hold of it: {error}"))?;
        let namespace = is_client.then(|| limits::namespace_of(child.id())).flatten();
        let stderr = Mutex::new(namespace.map(|_| File::from(told)));
        let state = Mutex::new(MemberStatus::Runs(child.id()));
        let process = Arc::new(MemberProcess {
            held,
            namespace,
            stderr,
            why_killed: Mutex::default(),
            state,
            changed: Condvar::new(),
        });
        lock(&self.processes).insert(name, Arc::clone(&process));
        let watched = thread::Builder::new().spawn(move || process.watch(child));
        watched.map(|_| ()).map_err(|error| error.to_string())
    }

    fn start(&self, spawn: &Spawn, stdio: [OwnedFd; 3]) -> Result<Child, String> {
        let step = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        namespaces::enter_own().map_err(step("its namespaces"))?;
        rustix::system::sethostname(spawn.member.as_bytes()).map_err(io::Error::from).map_err(step("its host name"))?;
        let namespace = File::open("/proc/thread-self/ns/net").map_err(step("its network namespace"))?;
        let connected = lock(&self.bridge).connect(&spawn.member, spawn.address, namespace.as_fd());
        connected.map_err(step("its network devices"))?;
        let neighbours = self.neighbours(spawn.address);
        configure_inside(spawn.address, self.begin.prefix, &neighbours).map_err(step("its address"))?;
        let is_client = self.is_client(spawn.address);
        let owner = if is_client { Owner::Client } else { Owner::Server };
        mount_own(&spawn.member, owner, &self.begin.files).map_err(step("its files"))?;

        let [stdin, stdout, stderr] = stdio.map(Stdio::from);
        let mut command = Command::new(&spawn.program);
        let mut argv = spawn.argv.iter();
        if let Some(name) = argv.next() {
            command.arg0(name);
        }
        command.args(argv).envs(spawn.env.iter().cloned()).current_dir(&spawn.directory);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let user = spawn.user;
        // Members must not change kernel settings through /proc, so it is read-only.
        let pids_are_own = limits::pids_are_own();
        let confine = move || {
            // A separate session: some kernels divide the processor between sessions. Then each member gets as much as any other
            // program, however many processes a client or another program has.
            // however many processes a client has, or another program on this machine.
            rustix::process::setsid()?;
            if is_client {
                limits::lower(pids_are_own)?;
            }
            mount_proc(MountFlags::RDONLY)?;
            drop_all(user)?;
            sockets::only_of_the_network()
        };
        // SAFETY: the closure makes only system calls and allocates no memory.
        unsafe { command.pre_exec(confine) };
        let program = spawn.program.display();
        command.spawn().map_err(|error| format!("{program}: {error}"))
    }

    /// Waits until none of a member's processes run; with `kill`, kills them first.
    pub fn end(&self, member: &str, kill: bool, limit: Duration) -> SandboxAnswer {
        let Some(process) = lock(&self.processes).get(member).cloned() else { return SandboxAnswer::Done };
        if kill && let Err(error) = process.held.signal(Signal::KILL) {
            return SandboxAnswer::Failed(error.to_string());
        }
        let runs = |state: &mut MemberStatus| matches!(state, MemberStatus::Runs(_));
        let waited = process.changed.wait_timeout_while(lock(&process.state), limit, runs);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, MemberStatus::Runs(_)) { SandboxAnswer::StillRuns } else { SandboxAnswer::Done }
    }

    /// The state of every member.
    pub fn states(&self) -> Vec<(String, MemberStatus)> {
        lock(&self.processes).iter().map(|(name, process)| (name.clone(), *lock(&process.state))).collect()
    }
}

impl MemberProcess {
    /// Kills all processes of a client. Its log then ends with the reason.
    fn end_for(&self, why: String) {
        *lock(&self.why_killed) = Some(why);
        // The first process of a namespace takes all others with it. If it has just ended, nothing is left to kill.
        let _ = self.held.signal(Signal::KILL);
    }

    /// Waits for the end of the process and records it.
    fn watch(&self, mut child: Child) {
        // The process is this process's child, and nothing else waits for it. If this were not so, the process would be gone as
        // well.
        let code = child.wait().map_or(-1, exit_code);
        // No process of the namespace is left, so this is the last line of the log, and no process can fill the pipe.
        if let (Some(mut stderr), Some(why)) = (lock(&self.stderr).take(), lock(&self.why_killed).take()) {
            // Without a reader, the line is not needed.
            let _ = stderr.write_all(format!("\nredjepsen killed this client: {why}\n").as_bytes());
        }
        *lock(&self.state) = MemberStatus::Ended(code);
        self.changed.notify_all();
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
