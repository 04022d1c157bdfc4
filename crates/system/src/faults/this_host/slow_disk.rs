//! Makes a node's disk slow: each of its syncs begins with a wait in the preload library ([`clock`](crate::faults::clock)).
//!
//! The fault counts as observed when a sync has begun to wait. If no client writes to a node and it syncs nothing for a second, a
//! slow disk has no visible effect. A node without an append-only file is refused. The heal reports how many syncs have waited.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::member::Member;
use super::skew::control_of;
use super::synced_files::{durable, files};
use crate::faults::wire::Observation;
use base::words::plural;

/// How long to watch for a sync: with `appendfsync everysec`, the next sync may be a second away. Members are checked one after
/// another, and the controller waits five seconds for all.
const LIMIT: Duration = Duration::from_millis(1100);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Makes the member's syncs take this much longer, and observes that one waits.
pub fn inject(member: &mut Member, ms: u64, jitter_ms: u64) -> io::Result<Observation> {
    let ordered = Instant::now();
    let name = member.name.clone();
    if !member.init.runs() {
        return Ok(Observation::gone(&name));
    }
    if ms == 0 {
        return Ok(Observation::unseen(format!("{name}: a disk delay of 0 ms has no effect")));
    }
    if let Some(why_not) = out_of_reach(member)? {
        return Ok(Observation::unseen(why_not));
    }
    let waited = control_of(member)?.waited();
    // Set before the change: whatever happens from here on, a heal must follow.
    member.slowed.get_or_insert(waited);
    let control = control_of(member)?;
    control.slow_disk(Duration::from_millis(ms), Duration::from_millis(jitter_ms))?;
    let mut waits = false;
    while !waits && ordered.elapsed() < LIMIT {
        waits = control.waited() != waited;
        if !waits {
            thread::sleep(LOOK_AGAIN);
        }
    }
    let longer = match jitter_ms {
        0 => format!("{ms} ms"),
        _ => format!("{} to {} ms", ms.saturating_sub(jitter_ms), ms.saturating_add(jitter_ms)),
    };
    let text = match waits {
        true => format!("{name}: its syncs take {longer} longer"),
        false => {
            format!("{name}: its syncs should take {longer} longer, but it synced nothing in {} ms", LIMIT.as_millis())
        }
    };
    let effect_us = waits.then(|| micros(ordered));
    Ok(Observation { observed: waits, effect_us, took_us: micros(ordered), ..Observation::unseen(text) })
}

/// Restores the normal length of the member's syncs, including waiting syncs, and reports how many have waited.
pub fn heal(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    let name = member.name.clone();
    let Some(before) = member.slowed else {
        return Ok(Observation::of(true, format!("{name}: its disk was not changed")));
    };
    // A dead member will be restarted with the same control file, so the file must be healed too.
    let gone = !member.init.runs();
    let control = match &member.control {
        Some(control) => control,
        None if gone => return Ok(Observation::gone(&name)),
        None => control_of(member)?,
    };
    let woken = control.slow_disk(Duration::ZERO, Duration::ZERO)?;
    let waited = control.waited().wrapping_sub(before);
    member.slowed = None;
    if gone {
        return Ok(Observation { observed: true, ..Observation::gone(&name) });
    }
    let until_now = if woken > 0 { format!("; {woken} of them waited until the heal") } else { String::new() };
    let text = format!("{name}: its syncs are no longer delayed; {} waited{until_now}", plural(waited, "sync"));
    Ok(Observation { took_us: micros(ordered), ..Observation::of(true, text) })
}

/// Why the member's disk cannot be made slow; `None` if it can.
fn out_of_reach(member: &mut Member) -> io::Result<Option<String>> {
    let name = member.name.clone();
    let files = files(member)?.unwrap_or_default();
    if files.is_empty() {
        return Ok(Some(format!("{name}: it has no append-only file, so a slow disk changes nothing")));
    }
    control_of(member)?;
    for file in &files {
        if durable(member, file)? > 0 {
            return Ok(None);
        }
    }
    Ok(Some(format!("{name}: it never synced its append-only file, so redjepsen can't slow its disk down")))
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::super::synced_files::{FOLDER, ONE_FILE};
    use super::*;
    use crate::faults::Scope;

    /// The observations of the fault, and of its heal, for a member that works in a folder with these files.
    fn refused(files: &[&str], ms: u64) -> (Observation, Observation) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "content").unwrap();
        }
        let mut child = Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
        let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
        let seen = inject(&mut member, ms, 0).unwrap_or_else(|error| Observation::unseen(error.to_string()));
        let healed = heal(&mut member).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!inject(&mut member, ms, 0).unwrap().observed, "it is gone");
        (seen, healed)
    }

    #[test]
    fn a_member_that_a_slow_disk_does_not_reach_is_refused_with_the_reason() {
        let in_folder = format!("{FOLDER}/file");
        for (file, ms, reason) in [
            (None, 200, "has no append-only file"),
            (Some("dump.rdb"), 200, "has no append-only file"),
            (Some(in_folder.as_str()), 200, "preload library"),
            (Some(ONE_FILE), 200, "preload library"),
            (Some(&in_folder), 0, "a disk delay of 0 ms has no effect"),
        ] {
            let (seen, healed) = refused(file.as_slice(), ms);
            assert!(!seen.observed && seen.text.contains(reason), "{seen:?}");
            assert!(healed.observed && healed.text.contains("its disk was not changed"), "{healed:?}");
        }
    }
}
