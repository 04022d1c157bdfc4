//! The kernel's data about a member's processes: whether they wait for a processor, are stopped, or have ended.
//!
//! The second number of a thread's `schedstat` is its total wait for a processor. It rises when the thread runs again, so a wait
//! is seen at its end. A wait that continues shows as a thread that is ready to run (R) but does not run. The quota of a control
//! group counts as well, since the kernel keeps throttled threads ready to run. The files stay open: opening a file takes longer
//! than reading it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::{io, mem, process};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::gettid;

use super::super::process::parse_stat;

/// At most this many threads of a process are watched.
const MOST_THREADS: usize = 64;
/// At most this many files are kept open.
const MOST_FILES: u64 = 4096;

/// How many files may be kept open besides the agent's own files.
pub(super) fn most_files() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(u64::MAX).min(2 * MOST_FILES);
    // If the kernel refuses this, the limit stays unchanged.
    _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    let current = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    usize::try_from((current / 2).min(MOST_FILES)).unwrap_or(0)
}

/// The kernel's data about a member since the last look.
#[derive(Default)]
pub(super) struct Sight {
    /// The longest wait of one of its threads for a processor since the last look, in nanoseconds.
    pub waited: u64,
    pub stopped: bool,
    /// True if its first process has ended.
    pub gone: bool,
}

/// The processes of one member: its first process and all descendants. For the agent, only its first process: the agent's
/// children may be members themselves.
pub(super) struct Processes {
    pub first: u32,
    is_alone: bool,
    of: BTreeMap<u32, ThreadGroup>,
}

/// A process and its threads, by their ids.
struct ThreadGroup {
    /// The state of its main thread, which is stopped whenever all others are.
    stat: File,
    threads: BTreeMap<u32, Thread>,
    /// Since when its main thread has been ready to run without running; None otherwise.
    ready_since: Option<u64>,
}

struct Thread {
    schedstat: File,
    ran: Ran,
}

/// How long a thread has run, and how long it has waited for a processor, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ran {
    ran: u64,
    waited: u64,
}

impl Processes {
    /// No process is known before `list` is called.
    pub fn new(first: u32) -> Processes {
        Processes { first, is_alone: first == process::id(), of: BTreeMap::new() }
    }

    pub fn look(&mut self, now: u64) -> Sight {
        let mut sight = Sight { gone: self.of.is_empty(), ..Sight::default() };
        for (pid, process) in &mut self.of {
            let state = process.state();
            sight.stopped |= state == Some('T');
            sight.gone |= *pid == self.first && state.is_none_or(|state| matches!(state, 'Z' | 'X'));
            sight.waited = sight.waited.max(process.look(*pid, state, now));
        }
        sight
    }

    /// Since when one of the main threads has been ready to run without running; None if none is.
    pub fn ready_since(&self) -> Option<u64> {
        self.of.values().filter_map(|process| process.ready_since).min()
    }

    /// How many files are open for the member's processes.
    pub fn files(&self) -> usize {
        self.of.values().map(|process| 1 + process.threads.len()).sum()
    }

    /// Lists the processes and their threads, and opens at most this many new files.
    pub fn list(&mut self, most: usize) {
        let before = self.files();
        let (mut found, mut ahead) = (BTreeSet::new(), vec![self.first]);
        while let Some(pid) = ahead.pop() {
            let threads = threads(pid);
            if !threads.is_empty() && found.insert(pid) {
                if !self.is_alone {
                    ahead.extend(threads.iter().flat_map(|thread| children(pid, *thread)));
                }
                self.open(pid, &threads, most.saturating_sub(self.files().saturating_sub(before)));
            }
        }
        // Ended processes are dropped, except the first, so that its end is reported.
        self.of.retain(|pid, _| *pid == self.first || found.contains(pid));
    }

    fn open(&mut self, pid: u32, threads: &BTreeSet<u32>, most: usize) {
        if !self.of.contains_key(&pid)
            && most > 0
            && let Ok(process) = ThreadGroup::open(pid)
        {
            self.of.insert(pid, process);
        }
        if let Some(process) = self.of.get_mut(&pid) {
            process.open_threads(pid, threads, most.saturating_sub(1));
        }
    }
}

impl ThreadGroup {
    fn open(pid: u32) -> io::Result<ThreadGroup> {
        // The file of the whole process would sum over all its threads.
        let stat = File::open(format!("/proc/{pid}/task/{pid}/stat"))?;
        Ok(ThreadGroup { stat, threads: BTreeMap::new(), ready_since: None })
    }

    /// The state; None if the process is gone. An open file never reads another process that reuses the PID.
    fn state(&self) -> Option<char> {
        let mut buffer = [0; 1024];
        let read = self.stat.read_at(&mut buffer, 0).ok()?;
        Some(parse_stat(&buffer[..read])?.state)
    }

    /// How long one of its threads has waited since the last look, the longest wait.
    fn look(&mut self, pid: u32, state: Option<char>, now: u64) -> u64 {
        let (mut waited, mut stood) = (0, false);
        for (id, thread) in &mut self.threads {
            let Some(ran) = ran(&thread.schedstat) else { continue };
            let before = mem::replace(&mut thread.ran, ran);
            waited = waited.max(ran.waited.saturating_sub(before.waited));
            stood |= *id == pid && ran == before;
        }
        let is_ready = stood && state == Some('R');
        self.ready_since = self.ready_since.or(Some(now)).filter(|_| is_ready);
        waited
    }

    fn open_threads(&mut self, pid: u32, threads: &BTreeSet<u32>, most: usize) {
        self.threads.retain(|thread, _| threads.contains(thread));
        let new: Vec<u32> = threads.iter().filter(|thread| !self.threads.contains_key(thread)).copied().collect();
        for thread in new.into_iter().take(most) {
            if let Ok(schedstat) = File::open(format!("/proc/{pid}/task/{thread}/schedstat"))
                && let Some(ran) = ran(&schedstat)
            {
                self.threads.insert(thread, Thread { schedstat, ran });
            }
        }
    }
}

/// The threads of a process; empty if it is gone.
fn threads(pid: u32) -> BTreeSet<u32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // The sampler's own thread does not delay any member.
    let own = gettid().as_raw_pid().unsigned_abs();
    listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id| *id != own)
        .take(MOST_THREADS)
        .collect()
}

/// The processes that a thread has started. A namespace's first process also has all processes whose parents have ended.
fn children(pid: u32, thread: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// How long a thread has run and waited since it began; None if it is gone.
fn ran(schedstat: &File) -> Option<Ran> {
    let mut buffer = [0; 128];
    let read = schedstat.read_at(&mut buffer, 0).ok()?;
    let mut numbers = std::str::from_utf8(&buffer[..read]).ok()?.split_ascii_whitespace().map(str::parse);
    Some(Ran { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}
