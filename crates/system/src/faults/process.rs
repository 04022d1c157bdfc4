//! Processes as the kernel identifies them: their identity, their state, and signals that reach only them.
//!
//! A PID alone does not identify a process. The kernel can reuse it as soon as its process is gone, and a signal would then hit
//! another process. So a process is held by a pidfd. A process found by listing /proc is checked again after its pidfd was
//! opened: start time and PID namespace must still be the same.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One incarnation of a process, safe against PID reuse.
#[derive(Debug)]
pub struct ProcessHandle {
    pub pid: u32,
    /// Clock ticks from boot to its start: field 22 of /proc/PID/stat.
    pub start_ticks: u64,
    pidfd: OwnedFd,
}

/// The fields of /proc/PID/stat that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub name: String,
    pub state: char,
    pub parent: u32,
    pub start_ticks: u64,
}

/// A process of a member, as seen at the end of an injection or a heal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    pub pid: u32,
    pub name: String,
    /// The distinct states of its threads, one letter each as in /proc: `T` alone if all are stopped.
    pub states: String,
}

impl ProcessHandle {
    /// Opens the process that has this PID now.
    pub fn open(pid: u32) -> io::Result<ProcessHandle> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| io::Error::other(format!("{pid} is not a process id")))?;
        let before = stat(pid)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty())?;
        let after = stat(pid)?;
        if before.start_ticks != after.start_ticks {
            return Err(io::Error::other(format!("another process replaced process {pid} meanwhile")));
        }
        Ok(ProcessHandle { pid, start_ticks: after.start_ticks, pidfd })
    }

    /// True if this same process still exists, even as a zombie.
    pub fn exists(&self) -> bool {
        stat(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks)
    }

    /// True if this same process exists and is not a zombie.
    pub fn runs(&self) -> bool {
        stat(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks && !matches!(stat.state, 'Z' | 'X'))
    }

    /// Sends a signal to this same process; `Ok(false)` if it is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The states of all its threads; `None` if the process is gone.
    pub fn thread_states(&self) -> Option<Vec<char>> {
        Some(self.threads()?.into_iter().map(|(_, state)| state).collect())
    }

    /// The ids and states of all its threads; `None` if the process is gone. The first thread's id is the PID.
    pub fn threads(&self) -> Option<Vec<(u32, char)>> {
        let mut threads = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?.flatten() {
            // A thread that has ended meanwhile has no state and needs none.
            if let Ok(text) = fs::read(entry.path().join("stat"))
                && let Some(stat) = parse_stat(&text)
                && let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            {
                threads.push((thread, stat.state));
            }
        }
        (!threads.is_empty() && self.exists()).then_some(threads)
    }

    /// The process's name and states, for messages.
    pub fn describe(&self) -> Option<ProcessState> {
        let name = stat(self.pid).ok()?.name;
        let mut states = self.thread_states()?;
        states.sort_unstable();
        states.dedup();
        Some(ProcessState { pid: self.pid, name, states: states.into_iter().collect() })
    }
}

/// True if a thread in this state runs no code until it is woken: a signal (T) or a tracer (t) has stopped it. A zombie (Z) or
/// dead thread (X) never runs again.
pub fn is_still(state: char) -> bool {
    matches!(state, 'T' | 't' | 'Z' | 'X')
}

/// Reads /proc/PID/stat.
pub fn stat(pid: u32) -> io::Result<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is unreadable")))
}

/// How often a thread has gone to sleep voluntarily.
pub fn sleeps(thread: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// True if a process only waits for a process that it started.
pub fn waits_for_children(pid: u32) -> bool {
    let Ok(call) = fs::read_to_string(format!("/proc/{pid}/syscall")) else { return false };
    let number = call.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
    number.is_some_and(|number: i64| [libc::SYS_wait4, libc::SYS_waitid].contains(&number))
}

/// The PID namespace of a process, such as `pid:[4026531836]`.
pub fn pid_namespace(pid: u32) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/{pid}/ns/pid"))?.to_string_lossy().into_owned())
}

/// All existing PIDs.
pub fn all_pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

pub(super) fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may itself contain spaces and parentheses, so the last closing parenthesis counts.
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // `rest` starts with field 3.
    Some(Stat {
        name,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let line = b"42 (a) b (c) T 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, Stat { name: "a) b (c".to_string(), state: 'T', parent: 7, start_ticks: 4711 });
        for broken in [&b""[..], b"42", b"42 (x", b"42 (x) T", b"42 )x( T 1"] {
            assert!(parse_stat(broken).is_none());
        }
    }

    #[test]
    fn a_process_that_ended_gets_no_signal() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let process = ProcessHandle::open(child.id()).unwrap();
        assert!(process.exists());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.exists());
        assert!(!process.signal(Signal::STOP).unwrap(), "whoever has this PID now must not be hit");
        assert!(ProcessHandle::open(child.id()).is_err());
        assert!(ProcessHandle::open(0).is_err());
        assert!(ProcessHandle::open(u32::MAX).is_err());
    }
}
