//! The program nft of this machine, with which the agent tampers with packets. It comes with the runtime image, since
//! the engine's machine need not have it.

use std::path::{Path, PathBuf};

use super::bundle::Bundle;
use super::error::ClusterError;

/// Where it lies in the image: in a folder of the PATH that an engine gives to containers.
const IN_IMAGE: &str = "/usr/sbin/nft";
/// Folders of the administrator's PATH, which other users' lack.
const MORE_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The program, if this machine has it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join("nft")).find(|file| file.is_file())
}

/// The program with its libraries, if this machine has it.
pub(crate) fn bundle() -> Result<Option<Bundle>, ClusterError> {
    find().map(|path| Bundle::of(&path, Path::new(IN_IMAGE))).transpose()
}
