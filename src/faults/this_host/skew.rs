//! A member's wall clock goes wrong, as after an administrator's change, an NTP step, or a resume
//! of the machine. Its monotonic clock stays true. For the mechanism, see [`clock`](crate::faults::clock).
//!
//! It counts as observed when the member has read its clock under the new state. A server does ten times a second. If a
//! member reads no clock meanwhile, such as a client that uses its monotonic clock, it is enough that it would.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::member::Member;
use crate::faults::clock::{CONTROL_PATH, Control, Skew, is_loaded};
use crate::faults::wire::Observation;

/// A server reads its clock ten times a second, or somewhat later on a loaded machine.
const LIMIT: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Skews the member's clock and observes that it is skewed.
pub(crate) fn inject(member: &mut Member, skew: Skew) -> io::Result<Observation> {
    change(member, |control| control.set(skew))
}

/// Makes the member's clock show the true time and observes that it does.
pub(crate) fn heal(member: &mut Member) -> io::Result<Observation> {
    if !member.init.runs() {
        // It will be restarted with the same control file, so the file is healed all the same.
        if let Some(control) = &member.control {
            control.heal();
        }
        let gone = Observation::gone(&member.name);
        return Ok(Observation { observed: member.control.is_some(), ..gone });
    }
    change(member, |control| {
        control.heal();
        Ok(())
    })
}

fn change(member: &mut Member, change: impl FnOnce(&Control) -> io::Result<()>) -> io::Result<Observation> {
    let ordered = Instant::now();
    let (name, pid) = (member.name.clone(), member.init.pid);
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
    let effect_us = applied.then(|| micros(ordered));
    let nobody_looked = control.readings() == before;
    let observed = applied || (nobody_looked && is_loaded(pid));
    let ahead = control.shown_offset_ns() as f64 / 1e9;
    let text = match (applied, observed) {
        (true, _) => format!("{name}: its wall clock shows {ahead:+.3} s"),
        (_, true) => format!("{name}: its wall clock shows {ahead:+.3} s, and it has not read it since"),
        _ => format!("{name}: its wall clock should show {ahead:+.3} s, which was not seen"),
    };
    Ok(Observation { observed, effect_us, took_us: micros(ordered), ..Observation::unseen(text) })
}

/// The member's control page; the member keeps it from now on.
pub(super) fn control_of(member: &mut Member) -> io::Result<&Control> {
    let pid = member.init.pid;
    let control = match member.control.take() {
        Some(control) => control,
        None => Control::open(&control_path(pid)?)?,
    };
    Ok(member.control.insert(control))
}

/// The path of the member's control file as seen from here; it is at the same place in every member's root.
fn control_path(pid: u32) -> io::Result<PathBuf> {
    if !is_loaded(pid) {
        return Err(io::Error::other("it was not started with the preload library, so its clock can't be touched"));
    }
    Ok(PathBuf::from(format!("/proc/{pid}/root{CONTROL_PATH}")))
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
