//! A server's append-only files, and how much of them survives a loss of power: what the preload library saw to be synced.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, io};

use super::member::Member;
use crate::faults::clock::FileId;

/// The folder in a server's working directory where Redis 7 keeps its append-only files.
pub(super) const FOLDER: &str = "appendonlydir";
/// The one file that earlier versions keep instead. A rewrite gives its name to a new file, which was synced before.
pub(super) const ONE_FILE: &str = "appendonly.aof";

/// How much of a file survives: what the member has synced of it, or what it had synced before a restart, if that is
/// more. By name, since a file's id may have changed. Redis reuses no name but the manifest's, and syncs the file
/// before it renames it.
pub(super) fn durable(member: &Member, file: &AppendOnlyFile) -> io::Result<u64> {
    let synced = member.control.as_ref().map_or(Ok(None), |control| control.synced(file.id))?;
    let found = member.durable.get(&file.name).copied();
    Ok(synced.max(found).unwrap_or(0))
}

/// One of a member's append-only files.
pub(super) struct AppendOnlyFile {
    pub name: OsString,
    pub path: PathBuf,
    id: FileId,
}

/// The append-only files of a running member; `None` if it keeps none.
pub(super) fn files(member: &Member) -> io::Result<Option<Vec<AppendOnlyFile>>> {
    let place = PathBuf::from(format!("/proc/{}/cwd", member.init.pid));
    let folder = place.join(FOLDER);
    let paths = match (folder.is_dir(), place.join(ONE_FILE)) {
        (true, _) => fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?,
        (false, file) if file.is_file() => vec![file],
        (false, _) => return Ok(None),
    };
    let mut files = Vec::new();
    for path in paths {
        // A link would lead outside the member's own files.
        if fs::symlink_metadata(&path)?.is_file() {
            let name = path.file_name().unwrap_or_default().to_os_string();
            files.push(AppendOnlyFile { name, id: FileId::of(&path)?, path });
        }
    }
    Ok(Some(files))
}

/// Records how much of these files is durable, for a member that is gone. Whoever adopts it after a restart takes this
/// over, since the new process will not sync what it does not touch.
pub(super) fn remember(member: &mut Member, files: &[AppendOnlyFile]) {
    let durable = |file: &AppendOnlyFile| Some((file.name.clone(), durable(member, file).ok()?));
    member.durable = files.iter().filter_map(durable).collect();
}
