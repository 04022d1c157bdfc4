//! Stops every process of a member, as SIGSTOP, a long garbage collection, or swapping do.
//!
//! The first process is stopped before the others are searched for. The fault is mainly about this process, and stopping it takes
//! microseconds, while the search takes milliseconds. A pause counts as observed when a search finds only stopped processes.
//! Until then, newly forked processes are stopped as well.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::member::Member;
use crate::faults::process::{ProcessHandle, is_still};
use crate::faults::wire::Observation;
use base::units::micros;

/// A stop is visible within microseconds, unless a thread waits for a disk. After this time it counts as not observed.
const LIMIT: Duration = Duration::from_millis(200);
/// Interval between two checks.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// At least this many checks are made, even after [`LIMIT`]: an agent that waits that long for a processor has checked only once.
const LEAST_LOOKS: u32 = 50;

/// Stops every process of the member and observes that they are stopped.
pub fn inject(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    // Set before the signal: whatever happens from here on, a heal must follow.
    member.paused = true;
    if !member.init.signal(Signal::STOP)? {
        member.paused = false;
        return Ok(Observation::gone(&member.name));
    }
    let mut effect = None;
    let mut held: BTreeMap<u32, ProcessHandle> = BTreeMap::new();
    let mut looks = 0;
    loop {
        looks += 1;
        let mut all_still = note_when_still(&member.init, ordered, &mut effect);
        let mut any_new = false;
        for process in member.processes()? {
            let known = held.get(&process.pid).is_some_and(|known| known.start_ticks == process.start_ticks);
            if !known {
                any_new = true;
                process.signal(Signal::STOP)?;
                held.insert(process.pid, process);
            }
        }
        held.retain(|_, process| process.exists());
        for process in held.values() {
            if process.thread_states().is_some_and(|states| !states.into_iter().all(is_still)) {
                all_still = false;
                process.signal(Signal::STOP)?;
            }
        }
        if !member.init.exists() {
            return Ok(Observation::gone(&member.name));
        }
        // Stopped processes do not fork. So once a search finds only known processes, there are no others.
        let complete = all_still && !any_new;
        if complete || is_given_up(looks, ordered) {
            let processes: Vec<_> = held.values().filter_map(ProcessHandle::describe).collect();
            let stopped =
                processes.iter().any(|process| process.pid == member.init.pid && process.states.contains('T'));
            let observed = complete && stopped;
            let text = format!(
                "{}: {} {}",
                member.name,
                count(processes.len()),
                if observed { "in state T" } else { "not all in state T" }
            );
            let effect_us = effect.filter(|_| stopped);
            return Ok(Observation { observed, processes, effect_us, took_us: micros(ordered.elapsed()), text });
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Resumes every process of the member and observes that none is stopped.
pub fn heal(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    let mut effect = None;
    if !member.init.signal(Signal::CONT)? {
        member.paused = false;
        // No process of it can be stopped any more, which is the goal of a heal.
        return Ok(Observation { observed: true, ..Observation::gone(&member.name) });
    }
    let mut looks = 0;
    loop {
        looks += 1;
        let goes_on = |process: &ProcessHandle| process.thread_states().is_none_or(|states| !states.contains(&'T'));
        if effect.is_none() && goes_on(&member.init) {
            effect = Some(micros(ordered.elapsed()));
        }
        let processes = member.processes()?;
        let mut any_stopped = false;
        for process in processes.iter().filter(|process| !goes_on(process)) {
            any_stopped = true;
            process.signal(Signal::CONT)?;
        }
        if !any_stopped || is_given_up(looks, ordered) {
            let observed = !any_stopped;
            // If it was not seen to resume, it stays marked as paused, so that the agent tries again at its end.
            member.paused = !observed;
            let processes: Vec<_> = processes.iter().filter_map(ProcessHandle::describe).collect();
            let verdict = if observed { "going on" } else { "not all going on" };
            let text = format!("{}: {} {verdict}", member.name, count(processes.len()));
            return Ok(Observation {
                observed,
                processes,
                effect_us: effect,
                took_us: micros(ordered.elapsed()),
                text,
            });
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn is_given_up(looks: u32, ordered: Instant) -> bool {
    looks >= LEAST_LOOKS && ordered.elapsed() > LIMIT
}

/// True if the process is stopped. Records the time when this is first seen; checks up to 20 times in a row.
fn note_when_still(process: &ProcessHandle, ordered: Instant, effect: &mut Option<u64>) -> bool {
    for _ in 0..20 {
        if process.thread_states().is_none_or(|states| states.into_iter().all(is_still)) {
            effect.get_or_insert_with(|| micros(ordered.elapsed()));
            return true;
        }
        if effect.is_some() {
            return false;
        }
        thread::sleep(Duration::from_micros(10));
    }
    false
}

fn count(processes: usize) -> String {
    if processes == 1 { "1 process".to_string() } else { format!("{processes} processes") }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::faults::Scope;
    use crate::faults::process::{self, stat};

    fn state_of(pid: u32) -> char {
        stat(pid).unwrap().state
    }

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_stops_and_goes_on() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        let seen = inject(&mut member).unwrap();
        assert!(seen.observed, "{seen:?}");
        assert_eq!(state_of(child.id()), 'T');
        assert_eq!(seen.processes.len(), 1);
        assert_eq!(seen.processes[0].states, "T");
        assert!(seen.effect_us.unwrap() <= seen.took_us);
        assert!(member.paused);

        let seen = heal(&mut member).unwrap();
        assert!(seen.observed, "{seen:?}");
        assert_ne!(state_of(child.id()), 'T');
        assert!(!member.paused);
        end(child);
    }

    #[test]
    fn children_stop_too_and_strangers_do_not() {
        let stranger = Command::new("sleep").arg("60").spawn().unwrap();
        let child = shell("sleep 60 & sleep 60 & (sleep 60 & wait) & wait");
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        // The shell needs a moment to fork all processes.
        let mut found = 0;
        for _ in 0..200 {
            found = member.processes().unwrap().len();
            if found == 5 {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(found, 5, "the shell, its subshell and three sleeps");
        let seen = inject(&mut member).unwrap();
        assert!(seen.observed, "{seen:?}");
        assert_eq!(seen.processes.len(), 5);
        assert!(seen.processes.iter().all(|process| state_of(process.pid) == 'T'), "{seen:?}");
        assert_ne!(state_of(stranger.id()), 'T');
        assert!(heal(&mut member).unwrap().observed);
        let pids: Vec<u32> = seen.processes.iter().map(|process| process.pid).collect();
        assert!(pids.iter().all(|pid| state_of(*pid) != 'T'));
        for pid in pids {
            let _ = ProcessHandle::open(pid).unwrap().signal(Signal::KILL);
        }
        end(stranger);
        let mut child = child;
        child.wait().unwrap();
    }

    #[test]
    fn a_member_that_forks_all_the_time_is_caught() {
        let child = shell("while :; do sleep 0.001 & sleep 0.001 & wait; done");
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        for _ in 0..20 {
            let seen = inject(&mut member).unwrap();
            assert!(seen.observed, "{seen:?}");
            for process in member.processes().unwrap() {
                assert!(process.thread_states().unwrap().into_iter().all(is_still), "{}", process.pid);
            }
            assert!(heal(&mut member).unwrap().observed);
            thread::sleep(Duration::from_millis(3));
        }
        end(child);
    }

    #[test]
    fn a_member_that_is_gone_is_reported_and_nobody_is_hit() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        end(child);
        let seen = inject(&mut member).unwrap();
        assert!(!seen.observed);
        assert!(seen.text.contains("gone"), "{}", seen.text);
        assert!(!member.paused);
    }

    #[test]
    fn a_container_is_never_taken_for_the_whole_machine() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        // The process runs in this namespace, so it is not a container, whatever the controller believes.
        let refused = Member::adopt("c0", child.id(), Scope::Namespace).unwrap_err().to_string();
        assert!(refused.contains("no container"), "{refused}");
        end(child);
    }

    #[test]
    fn the_agent_never_adopts_itself_or_its_ancestors() {
        let own = std::process::id();
        let parent = process::stat(own).unwrap().parent;
        for pid in [own, parent, 1, 0] {
            assert!(Member::adopt("c0", pid, Scope::Descendants).is_err(), "{pid}");
        }
    }
}
