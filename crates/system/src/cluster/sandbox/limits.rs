//! Limits on the machine's resources that a client may use. Clients are foreign programs: a client that runs wild must fail its
//! run, not harm the machine.
//!
//! The kernel's own limits apply to single processes. Its limits on the number of processes do not apply to root, except for a
//! namespace's highest PID. So the sandbox also counts all processes of a client together, a few times per second. If a client
//! exceeds its limits, the sandbox kills all its processes and writes the reason into its log. From then on, it is a crashed
//! client like any other.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most processes and threads of one client together. A JVM has about fifty.
const TASKS: u64 = 500;
/// The most memory of all its processes together, in bytes.
const MEMORY: u64 = 2 << 30;
/// The most memory that one process may request, so that no process grows faster than the sandbox counts.
const MEMORY_OF_ONE: u64 = 2 * MEMORY;
/// The highest PID in a client's namespace. It keeps a client within [`TASKS`] even between two counts: once all PIDs were used,
/// the kernel keeps the first 300 for itself.
const HIGHEST_PID: &[u8] = b"800";
/// The first Linux version in which each namespace has its own highest PID. In an older version, the setting would apply to the
/// whole machine.
const OWN_PIDS_SINCE: (u32, u32) = (6, 14);
const OPEN_FILES: u64 = 4096;
/// The largest file in bytes, for clients that write to a disk and not to memory.
const LARGEST_FILE: u64 = 256 << 20;

/// True if a namespace has its own highest PID.
pub(super) fn pids_are_own() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OWN_PIDS_SINCE)
}

/// Gives this thread priority over the processes that it watches: a client with hundreds of processes would leave it little time.
pub(super) fn run_first() {
    // SAFETY: no pointers are involved. Only root may do this; without root, the thread watches as fast as it can.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Lowers the limits of this process, the first of its namespace, and of all processes that it starts. It allocates no memory, so
/// it may run between fork and exec.
pub(super) fn lower(pids_are_own: bool) -> io::Result<()> {
    if pids_are_own {
        File::options().write(true).open("/proc/sys/kernel/pid_max")?.write_all(HIGHEST_PID)?;
    }
    // If memory runs out all the same, the kernel kills a client before anything else on the machine.
    if let Ok(mut score) = File::options().write(true).open("/proc/self/oom_score_adj") {
        // If this is not allowed, the kernel chooses the process to kill.
        let _ = score.write(b"1000");
    }
    for (resource, most) in [
        (Resource::Data, MEMORY_OF_ONE),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Fsize, LARGEST_FILE),
        (Resource::Core, 0),
    ] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        setrlimit(resource, Rlimit { current: lower(current), maximum: lower(maximum) })?;
    }
    Ok(())
}

/// The resources that all processes of a namespace use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    tasks: u64,
    /// In bytes.
    memory: u64,
}

impl Usage {
    /// The usage of this many processes whose memory is not known.
    pub fn of_processes(tasks: u64) -> Usage {
        Usage { tasks, memory: 0 }
    }

    /// Why this exceeds a client's limits; None if it does not.
    pub fn too_much(self) -> Option<String> {
        let Usage { tasks, memory } = self;
        if tasks > TASKS {
            return Some(format!("it had {tasks} processes and threads, but a client may have at most {TASKS}"));
        }
        let mib = |bytes: u64| bytes >> 20;
        let text = || format!("it used {} MiB of memory, but a client may use at most {}", mib(memory), mib(MEMORY));
        (memory > MEMORY).then(text)
    }
}

/// The PID namespace of a process. It identifies the member.
pub(super) fn namespace_of(pid: u32) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The number of processes in the namespace whose first process is `first`, counted in the namespace's own /proc. None if that
/// process has ended. This takes one short call, while [`usages`] makes several calls for each process. If a client has hundreds
/// of busy processes, there is no time for `usages`, unless this process may run first.
pub(super) fn processes_of(first: u32) -> Option<u64> {
    let listed = fs::read_dir(format!("/proc/{first}/root/proc")).ok()?;
    let is_process = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
    Some(listed.flatten().filter(|entry| is_process(entry.file_name().as_encoded_bytes())).count() as u64)
}

/// The resources that the processes of each namespace use, for all processes that this process sees.
pub(super) fn usages() -> HashMap<u64, Usage> {
    // SAFETY: no pointers are involved.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let mut usages: HashMap<u64, Usage> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The process may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let (Some((tasks, pages)), Some(namespace)) = (counts(&stat), namespace_of(pid)) else { continue };
        let usage = usages.entry(namespace).or_default();
        usage.tasks += tasks;
        usage.memory += pages.saturating_mul(page);
    }
    usages
}

/// The number of threads and resident pages, from `/proc/PID/stat`. The name, in parentheses, may contain any characters.
fn counts(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    // These are the 20th and the 24th field of the line; the first field here is its third.
    Some((fields.get(17)?.parse().ok()?, fields.get(21)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_counted_and_has_not_too_much() {
        let own = namespace_of(std::process::id()).unwrap();
        let usage = usages()[&own];
        assert!(usage.tasks >= 1 && usage.memory > 1 << 20, "{usage:?}");
        let stat = "7 (a) b) c) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 99 4096 12 0";
        assert_eq!(counts(stat), Some((3, 12)));
        assert!(processes_of(std::process::id()).is_some_and(|processes| processes >= 1));
        assert_eq!(processes_of(u32::MAX), None);
        assert_eq!(counts("7 (cut"), None);
        assert_eq!(Usage { tasks: TASKS, memory: MEMORY }.too_much(), None);
        let processes = Usage { tasks: TASKS + 1, memory: 0 }.too_much().unwrap();
        assert_eq!(processes, "it had 501 processes and threads, but a client may have at most 500");
        let memory = Usage { tasks: 1, memory: MEMORY + (1 << 20) }.too_much().unwrap();
        assert_eq!(memory, "it used 2049 MiB of memory, but a client may use at most 2048");
    }
}
