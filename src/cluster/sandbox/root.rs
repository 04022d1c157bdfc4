//! What members see as the file system: this machine's, plus our folder, which containers have as well.
//!
//! So the agent finds a member's files at the same path below /proc/PID/root in both kinds of clusters.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change};
use rustix::process::{chdir, chroot};

use crate::cluster::FILES;

/// Makes `root` the root of this process, containing everything that this machine's root has.
pub(super) fn build(root: &Path) -> io::Result<()> {
    // Nobody else sees what is mounted from here on.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("redjepsen", root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")?;
    // `root` is itself below a folder that is about to be mounted in it.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let (there, here) = (entry.path(), root.join(entry.file_name()));
        if there == Path::new(FILES) {
            continue;
        }
        let kind = entry.file_type()?;
        let shown = if kind.is_symlink() {
            symlink(fs::read_link(&there)?, &here)
        } else if kind.is_dir() {
            fs::create_dir(&here).and_then(|()| Ok(mount_bind_recursive(&there, &here)?))
        } else if kind.is_file() {
            fs::write(&here, "").and_then(|()| Ok(mount_bind(&there, &here)?))
        } else {
            continue;
        };
        // No member can need a folder that this user may not enter.
        if let Err(error) = shown {
            eprintln!("members do not see {}: {error}", there.display());
        }
    }
    fs::create_dir(root.join(FILES.trim_start_matches('/')))?;
    chroot(root)?;
    chdir("/")?;
    mount_proc()
}

/// Mounts a /proc that shows only the processes of the caller's namespace. Allocates nothing, so that it may be called
/// between fork and exec.
pub(super) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None)?)
}

/// Mounts `files` over our folder.
pub(super) fn mount_files(files: &Path) -> io::Result<()> {
    Ok(mount_bind(files, FILES)?)
}
