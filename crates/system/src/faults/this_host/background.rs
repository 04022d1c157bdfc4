//! Stops every thread of a member's processes but the first, such as a thread that keeps a lock alive, while the first continues.
//!
//! SIGSTOP stops whole processes, so this needs ptrace, which is bound to one thread of the tracer. For each member, a thread of
//! the agent stops the member's threads, including threads that begin meanwhile, and lets them go. If the agent dies, the kernel
//! lets them go. A thread counts as stopped once /proc shows it in state `t`.
//!
//! A running thread may hold a lock that others need, such as an interpreter's lock; stopping it would stop them too. A thread
//! that waits for this lock may be its next owner, and the others would wait for this thread. So a thread is stopped in a system
//! call in which it waits for time to pass, for a reply, or for long. A thread that never does so is stopped wherever it is.

use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use libc::c_int;

use super::member::Member;
use super::tracer::Tracer;
use crate::faults::process::{self, ProcessHandle};
use crate::faults::wire::Observation;
use base::units::micros;

/// A stop is visible within microseconds, unless a thread waits for a disk. After this time it counts as not observed.
const LIMIT: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// How often to check whether a thread waits. This takes about 100 ms, and longer on busy processors, where threads wait for each
/// other more often.
const PATIENCE: u32 = 500;
/// A thread that has waited in a futex for this long waits for an event, not for a lock.
const LASTS: Duration = Duration::from_millis(10);
/// Interval between two searches for new threads.
const LOOK_FOR_MORE: Duration = Duration::from_millis(5);
/// The results of an interrupted system call: EINTR, or the results that only the kernel and tracers see, ERESTARTSYS to
/// ERESTART_RESTARTBLOCK in include/linux/errno.h.
const INTERRUPTED: [i64; 5] = [-4, -512, -513, -514, -516];
/// NT_PRSTATUS in include/uapi/linux/elf.h.
const GENERAL_REGISTERS: usize = 1;

/// Stops all threads of each of the member's processes but the first, and observes that they are stopped.
pub fn inject(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    let processes = member.processes()?;
    if processes.is_empty() {
        return Ok(Observation::gone(&member.name));
    }
    if processes.iter().all(|process| in_background(process).is_empty()) {
        let text = format!("{}: it has only one thread, so none is in the background", member.name);
        return Ok(Observation::unseen(text));
    }
    let (hold, held) = mpsc::channel();
    let (told, tell) = mpsc::channel();
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let work = move || stop_until_dropped(&processes, &told, &held);
    let thread = thread::Builder::new().name("tracer".to_string()).spawn(work)?;
    member.background = Some(Tracer::new(hold, thread));
    let stopped = tell.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that stops others ended")));
    let stopped = stopped.inspect_err(|_| member.background = None)?;
    let now = member.processes()?;
    let processes = now.iter().filter(|one| pids.contains(&one.pid)).filter_map(ProcessHandle::describe).collect();
    let text = format!("{}: {} in state t", member.name, count(stopped));
    let took_us = micros(ordered.elapsed());
    Ok(Observation { observed: true, processes, effect_us: Some(took_us), took_us, text })
}

/// Lets the threads go, and observes that none is stopped.
pub fn heal(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    member.background = None;
    loop {
        let processes = member.processes()?;
        let traced = processes.iter().flat_map(in_background).filter(|(_, state)| *state == 't').count();
        if traced == 0 || ordered.elapsed() > LIMIT {
            let verdict = if traced == 0 { "no thread is stopped".to_string() } else { count(traced) + " in state t" };
            let text = format!("{}: {verdict}", member.name);
            let took_us = micros(ordered.elapsed());
            return Ok(Observation { observed: traced == 0, took_us, ..Observation::unseen(text) });
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The threads of a process but the first, with their states.
fn in_background(process: &ProcessHandle) -> Vec<(u32, char)> {
    let mut threads = process.threads().unwrap_or_default();
    threads.retain(|(thread, _)| *thread != process.pid);
    threads
}

/// Stops the threads until `held` is dropped. Reports once how many threads it has stopped, or why it can't.
fn stop_until_dropped(processes: &[ProcessHandle], told: &Sender<io::Result<usize>>, held: &Receiver<()>) {
    let mut last_stop = Instant::now();
    // Each with the signal that it was about to get.
    let mut stopped: BTreeMap<u32, c_int> = BTreeMap::new();
    let mut has_told = false;
    loop {
        let mut patience = PATIENCE;
        let threads: Vec<(u32, char)> = processes.iter().flat_map(in_background).collect();
        stopped.retain(|thread, _| threads.iter().any(|(other, _)| other == thread));
        let mut error = None;
        let alive = threads.iter().filter(|(_, state)| !matches!(state, 'Z' | 'X')).map(|(thread, _)| *thread);
        // All threads are examined first, so that their waits can last while others are stopped.
        let go_on: Vec<(u32, Looked)> =
            alive.filter(|thread| !stopped.contains_key(thread)).map(|thread| (thread, Looked::at(thread))).collect();
        for (thread, looked) in go_on {
            match stop(thread, looked, &mut patience) {
                Ok(signal) => stopped.extend(signal.map(|signal| (thread, signal))),
                Err(refused) => error = Some(refused),
            }
            last_stop = Instant::now();
        }
        let still = |(_, state): &(u32, char)| matches!(state, 't' | 'Z' | 'X');
        let all_still = !threads.is_empty() && threads.iter().all(still);
        if !has_told && (all_still || error.is_some() || last_stop.elapsed() > LIMIT) {
            let late =
                || Err(io::Error::other(format!("not all of its threads stopped within {} ms", LIMIT.as_millis())));
            let outcome = match error {
                Some(error) => Err(error),
                None if all_still => Ok(threads.len()),
                None => late(),
            };
            // The caller waits for this.
            let _ = told.send(outcome);
            has_told = true;
        }
        let pause = if has_told { LOOK_FOR_MORE } else { LOOK_AGAIN };
        if held.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    for (thread, signal) in stopped {
        // A thread that has ended meanwhile needs nothing.
        let _ = ptrace(libc::PTRACE_DETACH, thread, signal);
    }
}

/// Stops a thread, and returns the signal that it must get when it continues; None if it has ended.
fn stop(thread: u32, mut looked: Looked, patience: &mut u32) -> io::Result<Option<c_int>> {
    if !asked(libc::PTRACE_SEIZE, thread, 0)? {
        return Ok(None);
    }
    loop {
        looked = looked.again(thread);
        if !looked.is_a_good_time() && *patience > 0 {
            *patience -= 1;
            thread::sleep(LOOK_AGAIN);
            continue;
        }
        if !asked(libc::PTRACE_INTERRUPT, thread, 0)? {
            return Ok(None);
        }
        let signal = stopped(thread)?;
        if signal.is_none() || looked.was_right(thread) || *patience == 0 {
            return Ok(signal);
        }
        asked(libc::PTRACE_CONT, thread, signal.unwrap_or(0))?;
        *patience -= 1;
        thread::sleep(LOOK_AGAIN);
    }
}

/// A thread's observed wait, and when the wait began.
struct Looked {
    wait: Option<Sleep>,
    since: Instant,
}

/// A system call in which a thread sleeps.
#[derive(Debug, PartialEq)]
struct Sleep {
    /// The call's number, arguments and stack, as in `/proc/<thread>/syscall`; empty if the kernel does not say.
    call: String,
    /// How often the thread had gone to sleep by then.
    sleeps: u64,
}

impl Looked {
    fn at(thread: u32) -> Looked {
        Looked { wait: Sleep::of(thread), since: Instant::now() }
    }

    fn again(self, thread: u32) -> Looked {
        let now = Looked::at(thread);
        if now.wait == self.wait { self } else { now }
    }

    fn is_a_good_time(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| !wait.is_for_a_thread() || self.since.elapsed() > LASTS)
    }

    /// True if a thread that was stopped meanwhile was still in the observed wait.
    fn was_right(&self, thread: u32) -> bool {
        self.wait.as_ref().is_none_or(|wait| wait.was_left_by(thread))
    }
}

impl Sleep {
    /// None if the thread is not asleep.
    fn of(thread: u32) -> Option<Sleep> {
        if process::stat(thread).ok()?.state != 'S' {
            return None;
        }
        let call = call(thread);
        // The thread may have woken up in between.
        (!call.starts_with("running")).then(|| Sleep { call, sleeps: process::sleeps(thread).unwrap_or_default() })
    }

    /// True if the thread may wait for another thread, such as for an interpreter's lock, and not for time to pass or for a
    /// reply. An interpreter may hand its lock only to a waiting thread, and stand still until this thread takes it.
    fn is_for_a_thread(&self) -> bool {
        let number = self.call.split(' ').next().and_then(|number| number.parse().ok());
        // A wait that is restarted after a stop has another name.
        matches!(number, Some(libc::SYS_futex | libc::SYS_restart_syscall))
    }

    /// True if the thread, which is stopped now, was in this call and will restart it when it continues.
    fn was_left_by(&self, thread: u32) -> bool {
        call(thread) == self.call && call_result(thread).is_none_or(|result| INTERRUPTED.contains(&result))
    }
}

fn call(thread: u32) -> String {
    std::fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default()
}

/// The C library's type for ptrace requests.
#[cfg(target_env = "musl")]
type PtraceRequest = c_int;
#[cfg(not(target_env = "musl"))]
type PtraceRequest = libc::c_uint;

/// Makes a ptrace request; `false` if the thread has ended.
fn asked(request: PtraceRequest, thread: u32, data: c_int) -> io::Result<bool> {
    match ptrace(request, thread, data) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let remedy = "stopping a thread needs the capability SYS_PTRACE (run as root; docker: --cap-add SYS_PTRACE), and no \
                other process may trace the thread";
            Err(io::Error::new(error.kind(), format!("{remedy}: {error}")))
        }
        done => done.map(|()| true),
    }
}

/// Waits until a traced thread has stopped, and returns the signal that it was about to get; None if it has ended.
fn stopped(thread: u32) -> io::Result<Option<c_int>> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        let mut status = 0;
        // SAFETY: the pointer is that of a live number.
        let changed = unsafe { libc::waitpid(thread.cast_signed(), &mut status, libc::__WALL | libc::WNOHANG) };
        if changed < 0 {
            return Err(io::Error::last_os_error());
        }
        if changed > 0 {
            let asked_for = status >> 16 == libc::PTRACE_EVENT_STOP;
            let signal = if libc::WIFSTOPPED(status) && !asked_for { libc::WSTOPSIG(status) } else { 0 };
            return Ok(libc::WIFSTOPPED(status).then_some(signal));
        }
        thread::sleep(LOOK_AGAIN);
    }
    Err(io::Error::other(format!("thread {thread} did not stop within {} ms", LIMIT.as_millis())))
}

/// The result of a stopped thread's last system call; None where this is not implemented or fails.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn call_result(thread: u32) -> Option<i64> {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    let mut place =
        libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of::<libc::user_regs_struct>() };
    let place: *mut libc::iovec = &raw mut place;
    // SAFETY: the kernel writes at most the given length into the registers, which outlive the call. All zeros are valid
    // registers too.
    let (done, registers) = unsafe {
        let kind = ptr::without_provenance_mut::<libc::c_void>(GENERAL_REGISTERS);
        (libc::ptrace(libc::PTRACE_GETREGSET, thread.cast_signed(), kind, place), registers.assume_init())
    };
    #[cfg(target_arch = "x86_64")]
    let result = registers.rax;
    #[cfg(target_arch = "aarch64")]
    let result = registers.regs[0];
    (done >= 0).then_some(result.cast_signed())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn call_result(_: u32) -> Option<i64> {
    None
}

fn ptrace(request: PtraceRequest, thread: u32, data: c_int) -> io::Result<()> {
    let (nowhere, data) = (ptr::null_mut::<libc::c_void>(), data as libc::c_long);
    // SAFETY: these requests take numbers, and write to no memory of this process.
    let done = unsafe { libc::ptrace(request, thread.cast_signed(), nowhere, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn count(threads: usize) -> String {
    if threads == 1 { "1 thread".to_string() } else { format!("{threads} threads") }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::super::stop;
    use super::*;
    use crate::faults::Scope;

    /// Counts in two files, one for each thread.
    const TWO_THREADS: &str = "
import sys, threading, time
def count(name):
    number = 0
    while True:
        number += 1
        with open(name, 'w') as file: file.write(str(number))
        time.sleep(0.02)
threading.Thread(target=count, args=(sys.argv[1] + '/second',), daemon=True).start()
count(sys.argv[1] + '/first')
";

    fn python(script: &str, folder: &std::path::Path) -> Child {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(folder).stdin(Stdio::null()).spawn().expect("python3")
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_first_thread_goes_on_and_the_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| -> u64 {
            std::fs::read_to_string(folder.path().join(name)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        let goes_on = |name: &str| {
            let before = read(name);
            until(name, || read(name) > before);
        };
        let child = python(TWO_THREADS, folder.path());
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        goes_on("second");
        let seen = inject(&mut member).unwrap();
        assert!(seen.observed && seen.text == "c0: 1 thread in state t", "{seen:?}");
        // A write to the file may still be in progress.
        thread::sleep(Duration::from_millis(50));
        let before = read("second");
        (0..10).for_each(|_| goes_on("first"));
        assert_eq!(read("second"), before);

        assert!(stop::inject(&mut member).unwrap().observed, "all of it can stop as well");
        assert!(stop::heal(&mut member).unwrap().observed);
        goes_on("first");
        assert_eq!(in_background(&member.init)[0].1, 't', "and goes on without the other");

        let seen = heal(&mut member).unwrap();
        assert!(seen.observed && seen.text == "c0: no thread is stopped", "{seen:?}");
        goes_on("second");
        end(child);
    }

    #[test]
    fn a_thread_that_begins_meanwhile_is_stopped_and_all_go_on_if_the_agent_forgets_them() {
        let folder = tempfile::tempdir().unwrap();
        let script = TWO_THREADS.replace("count(sys.argv[1] + '/first')", "time.sleep(0.5)")
            + "threading.Thread(target=count, args=(sys.argv[1] + '/third',), daemon=True).start()\ntime.sleep(60)";
        let child = python(&script, folder.path());
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        until("a second thread", || in_background(&member.init).len() == 1);
        assert!(inject(&mut member).unwrap().observed);
        let states = || in_background(&member.init).into_iter().map(|(_, state)| state).collect::<String>();
        until("a third thread that is stopped", || states() == "tt");
        let background = member.background.take();
        drop(background);
        until("both go on", || !states().contains('t'));
        end(child);
    }

    #[test]
    fn a_thread_that_takes_turns_with_the_first_is_not_stopped_when_it_waits_for_its_turn() {
        const BUSY: &str = "
import sys, threading, time
def sleep():
    while True: time.sleep(0.001)
threading.Thread(target=sleep, daemon=True).start()
until = 0
while True:
    if time.monotonic() > until:
        with open(sys.argv[1] + '/first', 'w') as file: file.write(str(until))
        until = time.monotonic() + 0.05
";
        let folder = tempfile::tempdir().unwrap();
        let read = || std::fs::read_to_string(folder.path().join("first")).unwrap_or_default();
        let child = python(BUSY, folder.path());
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        until("it runs", || !read().is_empty());
        for _ in 0..10 {
            assert!(inject(&mut member).unwrap().observed);
            let before = read();
            until("the first goes on", || !matches!(read(), now if now.is_empty() || now == before));
            assert!(heal(&mut member).unwrap().observed);
        }
        end(child);
    }

    #[test]
    fn a_process_of_one_thread_has_none_in_the_background() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        let seen = inject(&mut member).unwrap();
        assert!(!seen.observed && seen.text.contains("only one thread"), "{seen:?}");
        assert!(heal(&mut member).unwrap().observed);
        end(child);
        assert!(inject(&mut member).unwrap().text.contains("gone"));
    }
}
