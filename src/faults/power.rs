//! The fault `power-loss`: a node ends at once, and of its append-only file nothing is left that it had not synced.
//!
//! A kill alone loses nothing that was written, since the kernel still has it. What a machine without power would lose is
//! known from the preload library, which notes how long a file was at each sync that came back: the member is stopped, its
//! files are cut to that, then it is killed. No file system of our own has to be mounted for it, so it takes no privilege
//! and works in any image. It is the worst case: a kernel may have written more to the disk by itself.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::member::Member;
use super::wire::Observation;
use super::{kill, pause, skew};

/// The folder in a server's working directory that Redis 7 keeps its append-only files in.
const FOLDER: &str = "appendonlydir";

/// Ends the member with what it had synced, and observes that it is gone.
pub(crate) fn inject(member: &mut Member) -> io::Result<Observation> {
    let ordered = Instant::now();
    // While it stands still it writes nothing, and what it syncs has not come back.
    let stopped = pause::inject(member)?;
    if !stopped.observed {
        return Ok(stopped);
    }
    let lost = lose_unsynced(member)?;
    let killed = kill::inject(member)?;
    let took_us = u64::try_from(ordered.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(Observation { text: format!("{}; {lost}", killed.text), took_us, ..killed })
}

/// Cuts every append-only file to what was synced; says what was lost.
fn lose_unsynced(member: &mut Member) -> io::Result<String> {
    let folder = PathBuf::from(format!("/proc/{}/cwd", member.init.pid)).join(FOLDER);
    if !folder.is_dir() {
        return Ok("it kept nothing on its disk".to_string());
    }
    let control = skew::synced_by(member)?;
    let mut lost = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let there = fs::metadata(&path)?.len();
        let synced = control.synced(&path)?.unwrap_or(0).min(there);
        if synced < there {
            OpenOptions::new().write(true).open(&path)?.set_len(synced)?;
            lost.push(format!("{} of {there} bytes of {}", there - synced, name(&path)));
        }
    }
    Ok(match lost.is_empty() {
        true => "everything that it had written was synced".to_string(),
        false => format!("not synced, and lost: {}", lost.join(", ")),
    })
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
