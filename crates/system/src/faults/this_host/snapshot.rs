//! Removes the snapshot that a fault made a server write, at the fault's heal or when the server is killed. A server without
//! other files would load it after a restart. Restores the file that it replaced, such as a replica's copy of its primary.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, linkat, renameat, unlinkat};
use rustix::io::Errno;

use super::member::Member;
use crate::faults::wire::Observation;

/// The default name of a server's snapshot; a server writes it under another name first.
const SNAPSHOT: &str = "dump.rdb";
const UNFINISHED: &str = "temp-";
/// A second name for the file that had this name before. A server that writes another snapshot does not change it.
const BEFORE: &str = "dump.rdb.before";

/// From now on, no snapshot outlives its process.
pub fn keep_none(member: &mut Member) -> io::Result<Observation> {
    let name = &member.name;
    if !member.init.runs() {
        return Ok(Observation::gone(name));
    }
    if !member.snapshots {
        let folder = folder(member)?;
        match linkat(&folder, SNAPSHOT, &folder, BEFORE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        member.snapshots = true;
    }
    Ok(Observation::of(true, format!("{}: ready", member.name)))
}

/// Removes all snapshots written since then, and observes this.
pub fn remove(member: &mut Member) -> io::Result<Observation> {
    if member.snapshots && member.init.runs() {
        remove_in(&folder(member)?)?;
    }
    // If the member was killed, its snapshot is already gone.
    member.snapshots = false;
    Ok(Observation::of(true, format!("{}: no snapshot is left", member.name)))
}

/// The folder that a running server writes to. It stays usable after the server is gone.
pub fn folder(member: &Member) -> io::Result<File> {
    File::open(PathBuf::from(format!("/proc/{}/cwd", member.init.pid)))
}

/// Removes the snapshots from the folder of a server that is not writing one.
pub fn remove_in(folder: &File) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_unfinished = name.to_str().is_ok_and(|name| name.starts_with(UNFINISHED) && name.ends_with(".rdb"));
        if is_unfinished {
            unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    let back = renameat(folder, BEFORE, folder, SNAPSHOT);
    // If both names belong to one file, the rename changes nothing.
    let gone = unlinkat(folder, if back.is_ok() { BEFORE } else { SNAPSHOT }, AtFlags::empty());
    match (back, gone) {
        (Ok(()) | Err(Errno::NOENT), Ok(()) | Err(Errno::NOENT)) => Ok(()),
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::super::kill;
    use super::*;
    use crate::faults::Scope;

    #[test]
    fn no_snapshot_outlasts_its_process_and_what_was_there_before_does() {
        for (before, killed) in [(None, false), (Some("copy"), false), (None, true), (Some("copy"), true)] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            if let Some(before) = before {
                fs::write(at(SNAPSHOT), before).unwrap();
            }
            let mut child = Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
            let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
            assert!(keep_none(&mut member).unwrap().observed);
            // Written as a server does it.
            fs::write(at("temp-7.rdb"), "new").unwrap();
            fs::rename(at("temp-7.rdb"), at(SNAPSHOT)).unwrap();
            fs::write(at("temp-8.rdb"), "half").unwrap();
            assert!(keep_none(&mut member).unwrap().observed, "a second fault changes nothing");
            if killed {
                assert!(kill::inject(&mut member).unwrap().observed);
            }
            let there = || {
                let mut names: Vec<_> =
                    fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                names.sort();
                names
            };
            let expected: Vec<std::ffi::OsString> = before.iter().map(|_| SNAPSHOT.into()).collect();
            assert!(!killed || there() == expected, "{before:?}: {:?}", there());
            assert!(remove(&mut member).unwrap().observed && remove(&mut member).unwrap().observed);
            assert_eq!(there(), expected, "{before:?} {killed}");
            assert_eq!(fs::read_to_string(at(SNAPSHOT)).ok().as_deref(), before);
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_file_that_no_fault_made_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SNAPSHOT), "copy").unwrap();
        let mut child = Command::new("sleep").arg("60").current_dir(&folder).spawn().unwrap();
        let mut member = Member::adopt("n0", child.id(), Scope::Descendants).unwrap();
        assert!(remove(&mut member).unwrap().observed && kill::inject(&mut member).unwrap().observed);
        assert_eq!(fs::read_to_string(folder.path().join(SNAPSHOT)).unwrap(), "copy");
        child.wait().unwrap();
    }
}
