//! The fault `pause background`: every thread of a member's processes but the first stops, such as one that keeps a
//! lock alive, while the first goes on.
//!
//! SIGSTOP stops whole processes, so this takes ptrace, which is bound to one thread of the tracer: each member has a
//! thread of the agent that stops its threads, also those that begin meanwhile, and lets them go. If the agent dies, the
//! kernel lets them go. A thread counts as stopped once /proc shows it in state `t`.
//!
//! A thread that computes may have what the others need, such as an interpreter's lock, and they would stop with it. So
//! it is stopped in a system call in which it sleeps or waits, such as for a reply; one that does not for long is stopped
//! wherever it is.

use std::collections::BTreeMap;
use std::io;
use std::ptr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libc::c_int;

use super::member::Member;
use super::process::{self, Process};
use super::wire::Observation;

/// A stop is seen within microseconds, unless a thread waits for a disk. After this time it counts as not observed.
const LIMIT: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// How long to wait until a thread waits for something.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often to look for threads that began meanwhile.
const LOOK_FOR_MORE: Duration = Duration::from_millis(5);

/// Keeps the threads of a member stopped until it is dropped.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Nothing is ever sent: dropping it ends the thread.
    hold: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.hold.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Stops all threads of the member but the first of each process, and observes that they are stopped.
pub(crate) fn inject(member: &mut Member) -> io::Result<Observation> {
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
    member.background = Some(Tracer { hold: Some(hold), thread: Some(thread) });
    let stopped = tell.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that stops others ended")));
    let stopped = stopped.inspect_err(|_| member.background = None)?;
    let now = member.processes()?;
    let processes = now.iter().filter(|one| pids.contains(&one.pid)).filter_map(Process::describe).collect();
    let text = format!("{}: {} in state t", member.name, count(stopped));
    let took_us = micros(ordered);
    Ok(Observation { observed: true, processes, effect_us: Some(took_us), took_us, text })
}

/// Lets them go, and observes that none is stopped.
pub(crate) fn heal(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    member.background = None;
    loop {
        let processes = member.processes()?;
        let traced = processes.iter().flat_map(in_background).filter(|(_, state)| *state == 't').count();
        if traced == 0 || ordered.elapsed() > LIMIT {
            let verdict = if traced == 0 { "no thread is stopped".to_string() } else { count(traced) + " in state t" };
            let text = format!("{}: {verdict}", member.name);
            let took_us = micros(ordered);
            return Ok(Observation { observed: traced == 0, took_us, ..Observation::unseen(text) });
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The threads of a process but the first, with their states.
fn in_background(process: &Process) -> Vec<(u32, char)> {
    let mut threads = process.threads().unwrap_or_default();
    threads.retain(|(thread, _)| *thread != process.pid);
    threads
}

/// Tells once how many threads it has stopped, or why it can't.
fn stop_until_dropped(processes: &[Process], told: &Sender<io::Result<usize>>, held: &Receiver<()>) {
    let began = Instant::now();
    // With the signal that each had been about to get.
    let mut stopped: BTreeMap<u32, c_int> = BTreeMap::new();
    let mut has_told = false;
    loop {
        let patient_until = Instant::now() + PATIENCE;
        let threads: Vec<(u32, char)> = processes.iter().flat_map(in_background).collect();
        stopped.retain(|thread, _| threads.iter().any(|(other, _)| other == thread));
        let mut error = None;
        for (thread, _) in threads.iter().filter(|(_, state)| !matches!(state, 'Z' | 'X')) {
            if !stopped.contains_key(thread) {
                match stop(*thread, patient_until) {
                    Ok(signal) => stopped.extend(signal.map(|signal| (*thread, signal))),
                    Err(refused) => error = Some(refused),
                }
            }
        }
        let still = |(_, state): &(u32, char)| matches!(state, 't' | 'Z' | 'X');
        let all_still = !threads.is_empty() && threads.iter().all(still);
        if !has_told && (all_still || error.is_some() || began.elapsed() > LIMIT + PATIENCE) {
            let late =
                || Err(io::Error::other(format!("not all of its threads stopped within {} ms", LIMIT.as_millis())));
            let outcome = match error {
                Some(error) => Err(error),
                None if all_still => Ok(threads.len()),
                None => late(),
            };
            // Whoever asked waits for it.
            let _ = told.send(outcome);
            has_told = true;
        }
        let pause = if has_told { LOOK_FOR_MORE } else { LOOK_AGAIN };
        if held.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    for (thread, signal) in stopped {
        // One that has ended meanwhile needs nothing.
        let _ = ptrace(libc::PTRACE_DETACH, thread, signal);
    }
}

/// Stops a thread, and returns the signal that it has to get when it goes on; none if it has ended.
fn stop(thread: u32, patient_until: Instant) -> io::Result<Option<c_int>> {
    if !asked(libc::PTRACE_SEIZE, thread, 0)? {
        return Ok(None);
    }
    loop {
        let sleeps = process::stat(thread).is_ok_and(|stat| stat.state == 'S');
        if !sleeps && Instant::now() <= patient_until {
            thread::sleep(LOOK_AGAIN);
            continue;
        }
        if !asked(libc::PTRACE_INTERRUPT, thread, 0)? {
            return Ok(None);
        }
        let signal = stopped(thread)?;
        if signal.is_none() || is_in_a_call(thread) || Instant::now() > patient_until {
            return Ok(signal);
        }
        asked(libc::PTRACE_CONT, thread, signal.unwrap_or(0))?;
        thread::sleep(LOOK_AGAIN);
    }
}

/// `false` if the thread has ended.
fn asked(request: libc::c_uint, thread: u32, data: c_int) -> io::Result<bool> {
    match ptrace(request, thread, data) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let remedy = "to stop a thread takes the capability SYS_PTRACE (run as root; docker: --cap-add SYS_PTRACE), and \
                          nobody else who traces it";
            Err(io::Error::new(error.kind(), format!("{remedy}: {error}")))
        }
        done => done.map(|()| true),
    }
}

/// Waits until a traced thread has stopped, and returns the signal that it was about to get; none if it has ended.
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

/// Whether a stopped thread was in a system call, which it makes again when it goes on.
fn is_in_a_call(thread: u32) -> bool {
    // Where the kernel does not say, any place will do.
    std::fs::read_to_string(format!("/proc/{thread}/syscall")).map_or(true, |call| !call.starts_with("-1"))
}

fn ptrace(request: libc::c_uint, thread: u32, data: c_int) -> io::Result<()> {
    let (nowhere, data) = (ptr::null_mut::<libc::c_void>(), data as libc::c_long);
    // SAFETY: these requests take numbers, and write to no memory of this process.
    let done = unsafe { libc::ptrace(request, thread.cast_signed(), nowhere, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn count(threads: usize) -> String {
    if threads == 1 { "1 thread".to_string() } else { format!("{threads} threads") }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::faults::{Scope, pause};

    /// Counts up in two files, one for each thread.
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
        // A write may be on its way into the file.
        thread::sleep(Duration::from_millis(50));
        let before = read("second");
        (0..10).for_each(|_| goes_on("first"));
        assert_eq!(read("second"), before);

        assert!(pause::inject(&mut member).unwrap().observed, "all of it can stop as well");
        assert!(pause::heal(&mut member).unwrap().observed);
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
