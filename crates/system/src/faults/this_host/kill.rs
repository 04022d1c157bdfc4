//! Ends every process of a member: at once, as SIGKILL, the out-of-memory killer, or `docker kill` do, or by SIGTERM, as a rolling
//! restart does.
//!
//! Data that the member had passed to the kernel survives: a written file is there after the restart, synced or not. The code
//! that started the process restarts it; the heal waits to see this.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::member::Member;
use super::{skew, snapshot, synced_files};
use crate::faults::process::ProcessHandle;
use crate::faults::wire::Observation;
use base::units::micros;

/// Time limit for the end of a killed process. It is gone within milliseconds, unless it waits for a disk.
const LIMIT: Duration = Duration::from_secs(2);
/// Time limit for a server to write its data and end.
const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(4);
/// Interval between two checks.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Kills every process of the member and observes that none is left.
pub fn inject(member: &mut Member) -> io::Result<Observation> {
    end(member, Signal::KILL, LIMIT)
}

/// Asks the member's first process to end, and observes that no process is left. Its children are killed once it has ended.
pub fn shut_down(member: &mut Member) -> io::Result<Observation> {
    end(member, Signal::TERM, SHUT_DOWN_LIMIT)
}

fn end(member: &mut Member, signal: Signal, limit: Duration) -> io::Result<Observation> {
    let ordered = Instant::now();
    // A dead process has no descendants, so they must be found first.
    let mut held = member.processes()?;
    // Its files on disk must also be found first, because they are reached through the process.
    let files = match skew::control_of(member) {
        Ok(_) => synced_files::files(member)?.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let snapshots = if member.snapshots { Some(snapshot::folder(member)?) } else { None };
    if !member.init.signal(signal)? {
        return Ok(Observation::gone(&member.name));
    }
    let mut effect = None;
    loop {
        if effect.is_none() && !member.init.runs() {
            effect = Some(micros(ordered.elapsed()));
            // No process is left that could be resumed.
            member.paused = false;
            synced_files::remember(member, &files);
        }
        held.retain(ProcessHandle::runs);
        for process in held.iter().filter(|_| effect.is_some() || signal == Signal::KILL) {
            process.signal(Signal::KILL)?;
        }
        let observed = held.is_empty() && effect.is_some();
        if observed && let Some(folder) = &snapshots {
            // This must be done before the server can be restarted: it would load its snapshot.
            snapshot::remove_in(folder)?;
        }
        if observed || ordered.elapsed() > limit {
            let text = format!("{}: {}", member.name, if observed { "gone" } else { "still there" });
            let processes = held.iter().filter_map(ProcessHandle::describe).collect();
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

/// Says whether the member runs. After a kill, this means that it was restarted.
pub fn runs_again(member: &Member, since: Instant) -> Observation {
    let observed = member.init.runs();
    let text = format!("{}: {}", member.name, if observed { "runs again" } else { "was not started again" });
    Observation { observed, took_us: micros(since.elapsed()), ..Observation::unseen(text) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::faults::Scope;

    #[test]
    fn a_member_that_is_shut_down_does_its_last_work_and_a_member_that_ignores_it_is_still_there() {
        let folder = tempfile::tempdir().unwrap();
        let last_words = folder.path().join("last");
        for (trap, ends) in [(format!("echo saved > {}; exit 0", last_words.display()), true), (String::new(), false)] {
            let script = format!("trap '{trap}' TERM; while true; do sleep 0.01; done");
            let mut child = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
            let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
            // The shell needs a moment to set its trap.
            thread::sleep(Duration::from_millis(100));
            let seen = shut_down(&mut member).unwrap();
            assert_eq!((seen.observed, member.init.runs()), (ends, !ends), "{seen:?}");
            assert!(last_words.exists());
            inject(&mut member).unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_member_is_killed_with_all_its_children_even_when_it_stands_still() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 60 & sleep 60 & wait"]).stdin(Stdio::null()).spawn().unwrap();
        let mut member = Member::adopt("c0", child.id(), Scope::Descendants).unwrap();
        assert!(runs_again(&member, Instant::now()).observed, "it was never killed");
        assert!(super::super::stop::inject(&mut member).unwrap().observed);
        let held = member.processes().unwrap();
        let seen = inject(&mut member).unwrap();
        assert!(seen.observed && seen.effect_us.is_some(), "{seen:?}");
        assert!(held.iter().all(|process| !process.runs()));
        assert!(!member.paused);
        assert!(!runs_again(&member, Instant::now()).observed);
        child.wait().unwrap();
        assert!(!inject(&mut member).unwrap().observed, "it is gone already");
    }
}
