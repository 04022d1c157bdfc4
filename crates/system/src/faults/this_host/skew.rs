//! Makes a member's wall clock wrong, as after an administrator's change, an NTP step, or a resume of the machine. Its monotonic
//! clock stays true. For the mechanism, see [`clock`](crate::faults::clock).
//!
//! The skew counts as observed when the member has read its clock in the new state. A server does this ten times per second. Some
//! members read no clock meanwhile, such as a client that waits or that uses its monotonic clock. Then it is enough that the
//! program itself, and not only a shell around it, has asked the library for the time before. Every client has done so by the
//! time it is ready, since it sends time stamps. A program that has never asked the library gets its time elsewhere, such as a
//! statically linked program. It is refused, since the fault would have no effect.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::member::Member;
use crate::faults::clock::{Asks, CONTROL_PATH, Control, Skew, asks};
use crate::faults::process;
use crate::faults::wire::Observation;
use base::units::micros;

/// A server reads its clock ten times per second, or slightly later on a loaded machine.
const LIMIT: Duration = Duration::from_millis(500);
/// A newly started program may not have read its clock yet.
const PATIENCE: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Skews the member's clock and observes that it is skewed.
pub fn inject(member: &mut Member, skew: Skew) -> io::Result<Observation> {
    let ordered = Instant::now();
    while let Some(why_not) = out_of_reach(member)? {
        if ordered.elapsed() > PATIENCE {
            return Ok(Observation::unseen(why_not));
        }
        thread::sleep(LOOK_AGAIN);
    }
    // Set before the change: whatever happens from here on, a heal must follow.
    member.skewed = true;
    change(member, |control| control.set(skew))
}

/// Makes the member's clock show the true time and observes that it does.
pub fn heal(member: &mut Member) -> io::Result<Observation> {
    if !member.skewed {
        let text = format!("{}: its clock was not changed", member.name);
        return Ok(Observation { observed: true, ..Observation::unseen(text) });
    }
    let seen = if member.init.runs() {
        change(member, |control| {
            control.heal();
            Ok(())
        })?
    } else {
        // The member will be restarted with the same control file, so the file must be healed too.
        if let Some(control) = &member.control {
            control.heal();
        }
        Observation { observed: member.control.is_some(), ..Observation::gone(&member.name) }
    };
    member.skewed = !seen.observed;
    Ok(seen)
}

/// Why the member's clock cannot be made wrong; `None` if it can.
fn out_of_reach(member: &Member) -> io::Result<Option<String>> {
    let name = &member.name;
    let mut anybody_asked = false;
    let mut waits = None;
    for held in member.processes()? {
        let pid = held.pid;
        let (asked, program) = (asks(pid), process::stat(pid).map(|stat| stat.name).unwrap_or_default());
        // A process that has ended, or ends meanwhile, has no memory to read.
        if !held.runs() {
            continue;
        }
        match asked? {
            Asks::Library => anybody_asked = true,
            // The process is a shell or an init that has started the program.
            Asks::Nobody if process::waits_for_children(pid) => waits = Some(program),
            Asks::Nobody => {
                return Ok(Some(format!(
                    "{name}: its program ({program}) has never asked libc for the time, so redjepsen can't change its clock"
                )));
            }
            Asks::Elsewhere => {
                return Ok(Some(format!(
                    "{name}: its program ({program}) does not read its clock through libc, so redjepsen can't change it; \
                     statically linked programs, such as Go programs without cgo, never use libc"
                )));
            }
        }
    }
    let nobody = || match waits {
        Some(program) => {
            format!("{name}: {program} has no program that asks for the time, so redjepsen can't change its clock")
        }
        None => format!("{name}: its process is gone"),
    };
    Ok((!anybody_asked).then(nobody))
}

fn change(member: &mut Member, change: impl FnOnce(&Control) -> io::Result<()>) -> io::Result<Observation> {
    let ordered = Instant::now();
    let name = member.name.clone();
    let control = control_of(member)?;
    let before = control.readings();
    change(control)?;
    let mut applied = false;
    while !applied && ordered.elapsed() < LIMIT {
        applied = control.is_applied();
        if !applied {
            thread::sleep(LOOK_AGAIN);
        }
    }
    let effect_us = applied.then(|| micros(ordered.elapsed()));
    let nobody_looked = control.readings() == before;
    let observed = applied || nobody_looked;
    let ahead = control.shown_offset_ns() as f64 / 1e9;
    let text = match (applied, observed) {
        (true, _) => format!("{name}: its wall clock shows {ahead:+.3} s"),
        (_, true) => format!("{name}: its wall clock shows {ahead:+.3} s, and the member has not read it since"),
        _ => format!("{name}: its wall clock should show {ahead:+.3} s, but this was not observed"),
    };
    Ok(Observation { observed, effect_us, took_us: micros(ordered.elapsed()), ..Observation::unseen(text) })
}

/// Opens the member's control page, which the member then keeps.
pub(super) fn control_of(member: &mut Member) -> io::Result<&Control> {
    let pid = member.init.pid;
    let control = match member.control.take() {
        Some(control) => control,
        None => Control::open(&control_path(pid)?)?,
    };
    Ok(member.control.insert(control))
}

/// The path of the member's control file as this process sees it; in every member's root the path is the same.
fn control_path(pid: u32) -> io::Result<PathBuf> {
    if asks(pid)? == Asks::Elsewhere {
        return Err(io::Error::other(
            "the member was not started with the preload library, so redjepsen can't change its clock",
        ));
    }
    Ok(PathBuf::from(format!("/proc/{pid}/root{CONTROL_PATH}")))
}
