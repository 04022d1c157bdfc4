//! The fault `power-loss`: a node ends at once, and its append-only file keeps only what it had synced.
//!
//! A kill alone loses nothing that was written, since the kernel still has it. What a machine without power would lose
//! is known from the preload library, which records how long a file was at each completed sync. The member is stopped,
//! its files are truncated to that length, then it is killed. No file system is mounted for it, so this needs no
//! privileges and works in any image. It is the worst case: a kernel may have written more by itself.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use super::clock::FileId;
use super::member::Member;
use super::wire::Observation;
use super::{kill, pause, skew};

/// The folder in a server's working directory where Redis 7 keeps its append-only files.
const FOLDER: &str = "appendonlydir";

/// Kills the member, leaving only what it had synced, and observes that it is gone.
pub(crate) fn inject(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    let outcome = stop_cut_kill(member);
    // A power loss that failed half-way leaves the member as it was; its heal would not look for a stopped one.
    if member.paused {
        pause::heal(member)?;
    }
    let (killed, lost) = match outcome? {
        (seen, None) => return Ok(seen),
        (killed, Some(lost)) => (killed, lost),
    };
    let took_us = u64::try_from(ordered.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(Observation { text: format!("{}; {lost}", killed.text), took_us, ..killed })
}

/// What was seen last, and what was lost, if it got that far.
fn stop_cut_kill(member: &mut Member) -> io::Result<(Observation, Option<String>)> {
    // While it is stopped it writes nothing, and a sync under way has not returned.
    let stopped = pause::inject(member)?;
    if !stopped.observed {
        return Ok((Observation { observed: false, ..stopped }, None));
    }
    let lost = lose_unsynced(member)?;
    Ok((kill::inject(member)?, Some(lost)))
}

/// Truncates every append-only file to what was synced; says what was lost.
fn lose_unsynced(member: &mut Member) -> io::Result<String> {
    let Some(files) = files(member)? else { return Ok("it kept nothing on its disk".to_string()) };
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
        true => "everything it had written was synced".to_string(),
        false => format!("not synced, and lost: {}", lost.join(", ")),
    })
}

/// How much of a file survives: what the member has synced of it, or what it had synced before a restart, if that is
/// more. By name, since a file's id may have changed. Redis reuses no name but the manifest's, and syncs the file
/// before it renames it.
fn durable(member: &Member, file: &Kept) -> io::Result<u64> {
    let synced = member.control.as_ref().map_or(Ok(None), |control| control.synced(file.id))?;
    let found = member.durable.get(&file.name).copied();
    Ok(synced.max(found).unwrap_or(0))
}

/// One of a member's append-only files.
pub(super) struct Kept {
    name: OsString,
    path: PathBuf,
    id: FileId,
}

/// The append-only files of a running member; `None` if it keeps none.
pub(super) fn files(member: &Member) -> io::Result<Option<Vec<Kept>>> {
    let folder = PathBuf::from(format!("/proc/{}/cwd", member.init.pid)).join(FOLDER);
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        // A link would lead outside the member's own files.
        if entry.file_type()?.is_file() {
            let path = entry.path();
            files.push(Kept { name: entry.file_name(), id: FileId::of(&path)?, path });
        }
    }
    Ok(Some(files))
}

/// Records how much of these files is durable, for a member that is gone. Whoever adopts it after a restart takes this
/// over, since the new process will not sync what it does not touch.
pub(super) fn remember(member: &mut Member, files: &[Kept]) {
    let durable = |file: &Kept| Some((file.name.clone(), durable(member, file).ok()?));
    member.durable = files.iter().filter_map(durable).collect();
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::faults::Scope;
    use crate::faults::process::stat;

    #[test]
    fn what_keeps_no_file_is_just_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
        let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
        let seen = inject(&mut member).unwrap();
        assert!(seen.observed && seen.text.contains("kept nothing"), "{seen:?}");
        child.wait().unwrap();
    }

    #[test]
    fn one_that_fails_half_way_leaves_nothing_stopped() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        fs::write(folder.path().join(FOLDER).join("file"), "content").unwrap();
        // It was started without the library, so nobody knows what it had synced.
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
