//! A server's append-only files, and how much of them survives a power loss: the data that the preload library saw synced.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, io};

use super::member::Member;
use crate::faults::clock::FileId;

/// The folder in a server's working directory where Redis 7 keeps its append-only files.
pub(super) const FOLDER: &str = "appendonlydir";
/// The only file that earlier versions keep. A rewrite gives its name to a new file, which was synced before.
pub(super) const ONE_FILE: &str = "appendonly.aof";

/// How many bytes of a file survive: the bytes that the member has synced, or had synced before a restart if these are more.
/// Files are found by name, since a file's id may have changed. Redis reuses no name but the manifest's, and syncs the manifest
/// before it renames it.
pub(super) fn durable(member: &Member, file: &AppendOnlyFile) -> io::Result<u64> {
    let synced = member.control.as_ref().map_or(Ok(None), |control| control.synced(file.id))?;
    let found = member.durable.get(&file.name).copied();
    Ok(synced.max(found).unwrap_or(0))
}

/// An append-only file of a member.
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

/// Records how many bytes of these files are durable, for a member that is gone. After a restart, the adopted member takes this
/// record over, since the new process does not sync unchanged files.
pub(super) fn remember(member: &mut Member, files: &[AppendOnlyFile]) {
    let durable = |file: &AppendOnlyFile| Some((file.name.clone(), durable(member, file).ok()?));
    member.durable = files.iter().filter_map(durable).collect();
}
