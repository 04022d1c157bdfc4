//! What members see as the file system: this machine's, and in it the folder of ours that containers have as well.
//!
//! So the agent finds a member's files at the same place below /proc/PID/root, whichever kind of cluster it is.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change};
use rustix::process::{chdir, chroot};

use crate::cluster::FILES;

/// Makes `root` the root of this process, with everything in it that this machine's root has.
pub(super) fn build(root: &Path) -> io::Result<()> {
    // Nothing that is mounted from here on is seen by anybody else.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("redjepsen", root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")?;
    // It lies somewhere below a folder that is about to appear in it.
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
        // A folder that this user may not enter is nothing that a member could need.
        if let Err(error) = shown {
            eprintln!("members do not see {}: {error}", there.display());
        }
    }
    fs::create_dir(root.join(FILES.trim_start_matches('/')))?;
    chroot(root)?;
    chdir("/")?;
    mount_proc()
}

/// Shows the processes of the caller's namespace, and no others. Allocates nothing, so that it may be called between
/// fork and exec.
pub(super) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None)?)
}

/// Shows `files` in the place of ours.
pub(super) fn mount_files(files: &Path) -> io::Result<()> {
    Ok(mount_bind(files, FILES)?)
}
