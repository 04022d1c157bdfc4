//! Members as the agent knows them: a name, the first process that the controller named, and all its processes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;

use super::tracer::Tracer;
use crate::faults::clock::Control;
use crate::faults::process::{self, ProcessHandle};
use crate::faults::wire::Scope;

/// A member of the cluster, into which faults can be injected.
#[derive(Debug)]
pub struct Member {
    pub name: String,
    /// The member's first process; with a container, its PID 1.
    pub init: ProcessHandle,
    /// Its address in the members' network.
    pub address: Option<Ipv4Addr>,
    /// The namespace of all its processes; None if its processes are the descendants of `init`.
    namespace: Option<String>,
    /// The page that sets its wall clock; opened when first needed.
    pub control: Option<Control>,
    /// How many bytes of its append-only files were durable when it was killed, by file name.
    pub durable: HashMap<OsString, u64>,
    /// True if its processes were stopped and not yet continued.
    pub paused: bool,
    /// True if its wall clock was changed and this was not seen to be undone.
    pub skewed: bool,
    /// True if a snapshot of it must not outlive its process.
    pub snapshots: bool,
    /// How many of its syncs had waited before its disk became slow; None once the heal was observed.
    pub slowed: Option<u64>,
    /// Keeps all its threads but the first stopped.
    pub background: Option<Tracer>,
}

impl Member {
    /// Opens a member by the PID of its first process, as the agent sees it.
    pub fn adopt(name: &str, pid: u32, scope: Scope) -> io::Result<Member> {
        let init = ProcessHandle::open(pid)?;
        let namespace = match scope {
            Scope::Descendants => None,
            Scope::Namespace => {
                let namespace = process::pid_namespace(pid)?;
                // The agent's own namespace contains all processes of the machine, and a fault would stop all of them.
                if namespace == process::pid_namespace(std::process::id())? {
                    return Err(io::Error::other(format!("process {pid} is in no container")));
                }
                Some(namespace)
            }
        };
        if !init.exists() {
            return Err(io::Error::other(format!("process {pid} ended meanwhile")));
        }
        if pid == 1 || is_or_descends_from(std::process::id(), pid) {
            return Err(io::Error::other(format!("process {pid} is the agent or one of its ancestors")));
        }
        Ok(Member {
            name: name.to_string(),
            init,
            address: None,
            namespace,
            control: None,
            durable: HashMap::new(),
            paused: false,
            skewed: false,
            snapshots: false,
            slowed: None,
            background: None,
        })
    }

    /// Every process of the member that exists now, each held by its pidfd. Empty if the member is gone.
    pub fn processes(&self) -> io::Result<Vec<ProcessHandle>> {
        if !self.init.exists() {
            return Ok(Vec::new());
        }
        match &self.namespace {
            Some(namespace) => {
                let belongs = |pid: u32| process::pid_namespace(pid).is_ok_and(|found| found == *namespace);
                let candidates = process::all_pids()?.into_iter().filter(|pid| belongs(*pid));
                // Checked again once the process is held: the PID may have been reused in between.
                Ok(candidates
                    .filter_map(|pid| ProcessHandle::open(pid).ok())
                    .filter(|held| belongs(held.pid))
                    .collect())
            }
            None => {
                let parents = parents()?;
                let mut found = vec![self.init.pid];
                let mut next = 0;
                while next < found.len() {
                    let parent = found[next];
                    found.extend(parents.iter().filter(|(_, its)| **its == parent).map(|(pid, _)| *pid));
                    next += 1;
                }
                let still_so = |held: &ProcessHandle| {
                    held.start_ticks == self.init.start_ticks && held.pid == self.init.pid
                        || process::stat(held.pid).is_ok_and(|stat| parents.get(&held.pid) == Some(&stat.parent))
                };
                Ok(found.into_iter().filter_map(|pid| ProcessHandle::open(pid).ok()).filter(still_so).collect())
            }
        }
    }
}

fn parents() -> io::Result<HashMap<u32, u32>> {
    let pids = process::all_pids()?;
    Ok(pids.into_iter().filter_map(|pid| Some((pid, process::stat(pid).ok()?.parent))).collect())
}

fn is_or_descends_from(mut pid: u32, ancestor: u32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        match process::stat(pid) {
            Ok(stat) => pid = stat.parent,
            Err(_) => return false,
        }
    }
    false
}
