//! The members' processes: each starts in its own namespaces and is watched until it ends.

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

/// How often clients are looked at: often enough for a program that doubles its processes as fast as it can.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// All members that were ever started.
pub(super) struct Members {
    bridge: Mutex<Bridge>,
    /// What the cluster began with.
    begin: Begin,
    processes: Mutex<HashMap<String, Arc<MemberProcess>>>,
}

/// A member's process: the first one of a namespace. All others in the namespace end with it.
struct MemberProcess {
    held: HeldProcess,
    /// Of a client, to keep it within its limits.
    namespace: Option<u64>,
    /// A client's standard error while it runs, to say why it is killed. Nobody reads to its end before this is closed.
    stderr: Mutex<Option<File>>,
    why_killed: Mutex<Option<String>>,
    state: Mutex<MemberStatus>,
    changed: Condvar,
}

impl Members {
    pub fn new(bridge: Bridge, begin: Begin) -> Members {
        Members { bridge: Mutex::new(bridge), begin, processes: Mutex::default() }
    }

    /// Whom a member at this address talks to: a client to the servers, a server to everybody.
    fn neighbours(&self, address: Ipv4Addr) -> Vec<Ipv4Addr> {
        let Begin { gateway, servers, clients, .. } = &self.begin;
        let is_server = servers.contains(&address);
        let of_server = clients.iter().chain([gateway]).filter(|_| is_server);
        servers.iter().chain(of_server).filter(|other| **other != address).copied().collect()
    }

    fn is_client(&self, address: Ipv4Addr) -> bool {
        self.begin.clients.contains(&address)
    }

    /// Kills clients that have more than they may, for as long as this process lives.
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
        // In its own thread, which never leaves the member's namespaces.
        let started = thread::Builder::new().spawn(move || members.start(&spawn, [stdin, stdout, stderr]));
        let started = started.map_err(|error| error.to_string())?;
        let child = started.join().map_err(|_| "its start panicked".to_string())??;
        // It is not reaped yet, so its PID is still its own. Done here, where /proc shows it under that PID.
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
        // Whatever /proc can change about the kernel is not a member's to change.
        let pids_are_own = limits::pids_are_own();
        let confine = move || {
            // A session of its own: a kernel that shares the processor out by sessions gives each member as much as any other program,
            // however many processes a client has, or another program on this machine.
            rustix::process::setsid()?;
            if is_client {
                limits::lower(pids_are_own)?;
            }
            mount_proc(MountFlags::RDONLY)?;
            drop_all(user)?;
            sockets::only_of_the_network()
        };
        // SAFETY: these are system calls, no memory is allocated.
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
    /// Kills all of a client; its log says why, after all else.
    fn end_for(&self, why: String) {
        *lock(&self.why_killed) = Some(why);
        // The first process of a namespace takes all others along. If it has just ended, it was no use.
        let _ = self.held.signal(Signal::KILL);
    }

    /// Records the end of the process.
    fn watch(&self, mut child: Child) {
        // It is our child and nobody else waits for it; if that were not so, it would be gone as well.
        let code = child.wait().map_or(-1, exit_code);
        // Nobody of its namespace is left, so these are the last words, and nobody fills the pipe.
        if let (Some(mut stderr), Some(why)) = (lock(&self.stderr).take(), lock(&self.why_killed).take()) {
            // Without a reader nobody misses them.
            let _ = stderr.write_all(format!("\nredjepsen killed this client: {why}\n").as_bytes());
        }
        *lock(&self.state) = MemberStatus::Ended(code);
        self.changed.notify_all();
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
