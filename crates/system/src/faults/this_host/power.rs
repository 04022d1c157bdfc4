//! Ends a node at once; its append-only file keeps only the data that it had synced.
//!
//! A kill alone loses nothing that was written, since the kernel still has it. The preload library shows what a machine without
//! power would lose: it records each file's length at each completed sync. The member is stopped, its files are truncated to that
//! length, and then it is killed. No file system is mounted for this, so it needs no privileges and works in any image. It is the
//! worst case: a real kernel may have written more by itself.

use std::fs::{self, OpenOptions};
use std::io;
use std::time::Instant;

use super::member::Member;
use super::synced_files::{durable, files};
use super::{kill, skew, stop};
use crate::faults::wire::Observation;
use base::units::micros;

/// Kills the member, keeps only the data that it had synced, and observes that it is gone.
pub fn inject(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    let outcome = stop_cut_kill(member);
    // If the power loss failed half-way, the member must resume: its heal would not look for a stopped member.
    if member.paused {
        stop::heal(member)?;
    }
    let (killed, lost) = match outcome? {
        (seen, None) => return Ok(seen),
        (killed, Some(lost)) => (killed, lost),
    };
    let took_us = micros(ordered.elapsed());
    Ok(Observation { text: format!("{}; {lost}", killed.text), took_us, ..killed })
}

/// The last observation, and the lost data if it got that far.
fn stop_cut_kill(member: &mut Member) -> io::Result<(Observation, Option<String>)> {
    // A stopped member writes nothing, and an unfinished sync has not returned.
    let stopped = stop::inject(member)?;
    if !stopped.observed {
        return Ok((Observation { observed: false, ..stopped }, None));
    }
    let lost = lose_unsynced(member)?;
    Ok((kill::inject(member)?, Some(lost)))
}

/// Truncates every append-only file to its synced length; says what was lost.
fn lose_unsynced(member: &mut Member) -> io::Result<String> {
    let Some(files) = files(member)? else { return Ok("it had nothing on its disk".to_string()) };
    skew::control_of(member)?;
    let mut lost = Vec::new();
    for file in files {
        let there = fs::metadata(&file.path)?.len();
        let synced = durable(member, &file)?.min(there);
        if synced < there {
            OpenOptions::new().write(true).open(&file.path)?.set_len(synced)?;
            lost.push(format!("{} of {there} bytes of {}", there - synced, file.name.display()));
        }
    }
    Ok(match lost.is_empty() {
        true => "all its data was synced".to_string(),
        false => format!("not synced, and therefore lost: {}", lost.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::synced_files::FOLDER;
    use super::*;
    use crate::faults::Scope;
    use crate::faults::process::stat;

    #[test]
    fn what_keeps_no_file_is_just_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
        let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
        let seen = inject(&mut member).unwrap();
        assert!(seen.observed && seen.text.contains("had nothing on its disk"), "{seen:?}");
        child.wait().unwrap();
    }

    #[test]
    fn one_that_fails_half_way_leaves_nothing_stopped() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        fs::write(folder.path().join(FOLDER).join("file"), "content").unwrap();
        // The process was started without the library, so its synced lengths are unknown.
        let mut child = Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
        let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
        let error = inject(&mut member).unwrap_err().to_string();
        assert!(error.contains("preload library"), "{error}");
        assert!(!member.paused);
        assert_ne!(stat(child.id()).unwrap().state, 'T');
        assert_eq!(fs::read(folder.path().join(FOLDER).join("file")).unwrap(), b"content");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
