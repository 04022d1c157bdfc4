//! The members' view of the file system: this machine's, plus redjepsen's folder, which containers have as well.
//!
//! So programs of this machine run unchanged, and the agent finds a member's files at the same path below /proc/PID/root in
//! containers and here. But a member must not reach this machine through a file. So members can write only their own files, and
//! see only harmless devices. Sockets of services, such as a container engine's, are hidden.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, chroot};

use crate::cluster::spec::FILES;
use model::topology::server;

/// Devices that store no data.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Links that programs expect among the devices.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// The folder for programs' temporary files.
const TEMPORARY: &str = "/tmp";
/// The folders of services' sockets, current and former.
const SERVICES: &str = "/run";
const OLD_SERVICES: &str = "/var/run";
/// Options of a mount in memory: members may fill this much memory with files.
const ROOM: &std::ffi::CStr = c"mode=1777,size=256m";
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// The sockets of this machine that have a path: sockets with a listener, and sockets mounted here from elsewhere. The caller
/// must call this before this process has its own network.
pub(super) fn sockets() -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // The path is the last field, and may itself contain spaces.
    let path_of = |line: &str| Some(line.get(line.find(" /")? + 1..)?.to_string());
    let listening = read("/proc/net/unix");
    let mounted = read("/proc/self/mountinfo");
    let mounts = mounted.lines().filter_map(|line| line.split(' ').nth(4).map(str::to_string));
    let engines = ["DOCKER_HOST", "CONTAINER_HOST"].into_iter().filter_map(|name| std::env::var(name).ok());
    let engines = engines.filter_map(|host| host.strip_prefix("unix://").map(str::to_string));
    let paths = listening.lines().filter_map(path_of).chain(mounts).chain(engines).map(PathBuf::from);
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.is_absolute() && is_socket(path)).collect();
    found.sort();
    found.dedup();
    found
}

/// Makes `root` the root of this process. It shows members the content of this machine's root, and `files`, the run's own folder,
/// at [`FILES`].
pub(super) fn build(root: &Path, files: &Path, sockets: &[PathBuf]) -> io::Result<()> {
    // Mounts from here on are invisible to other processes.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("redjepsen", root, "tmpfs", PLAIN, c"mode=0755")?;
    // `root` is itself below a folder that is about to be mounted into it.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    for entry in fs::read_dir("/")? {
        let (there, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        // If this user may not enter a folder, no member can need it.
        if let Err(error) = show(&there, &root.join(name)) {
            eprintln!("members do not see {}: {error}", there.display());
        }
    }
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    // The old folder is usually a link to the new folder.
    let services = below(OLD_SERVICES);
    if fs::symlink_metadata(&services).is_ok_and(|found| found.is_dir()) {
        mount("redjepsen", &services, "tmpfs", PLAIN, c"mode=0755")?;
    }
    let devices = below("/dev");
    for folder in [&devices, &below("/proc"), &below(FILES)] {
        fs::create_dir(folder)?;
    }
    protect(root)?;
    make_devices(&devices)?;
    for socket in sockets {
        let here = root.join(socket.strip_prefix("/").unwrap_or(socket));
        if fs::symlink_metadata(&here).is_ok_and(|found| found.file_type().is_socket()) {
            mount_bind(devices.join(DEVICES[0]), &here)?;
        }
    }
    // The devices are complete. From here on, all members see the same devices, and no member can change them.
    mount_remount(&devices, MountFlags::BIND | MountFlags::NOSUID | MountFlags::RDONLY, "")?;
    mount_bind(files, below(FILES))?;
    chroot(root)?;
    chdir("/")?;
    mount_proc(MountFlags::empty())
}

/// Shows an entry of this machine's root at `here`.
fn show(there: &Path, here: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(there)?.file_type();
    if kind.is_symlink() {
        symlink(fs::read_link(there)?, here)
    } else if there == Path::new(SERVICES) {
        fs::create_dir(here)?;
        // Some systems find their programs through links in this folder.
        for entry in fs::read_dir(there)?.flatten() {
            if let Ok(to) = fs::read_link(entry.path()) {
                symlink(to, here.join(entry.file_name()))?;
            }
        }
        Ok(())
    } else if ["/dev", "/proc", FILES].map(Path::new).contains(&there) {
        Ok(())
    } else if kind.is_dir() {
        fs::create_dir(here)?;
        Ok(mount_bind_recursive(there, here)?)
    } else if kind.is_file() {
        fs::write(here, "")?;
        Ok(mount_bind(there, here)?)
    } else {
        Ok(())
    }
}

/// Makes everything below `root` read-only. No program or device there can give a process more privileges.
fn protect(root: &Path) -> io::Result<()> {
    /// `struct mount_attr`: the flags to set, the flags to clear, propagation, a user namespace.
    #[repr(C)]
    struct Attributes([u64; 4]);
    const READ_ONLY: u64 = 1;
    const NO_SUID: u64 = 2;
    const NO_DEVICES: u64 = 4;
    let attributes = Attributes([READ_ONLY | NO_SUID | NO_DEVICES, 0, 0, 0]);
    let root = CString::new(root.as_os_str().as_bytes())?;
    // SAFETY: both pointers point to live values, and the size is the structure's.
    let set = unsafe {
        let size = size_of::<Attributes>();
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, root.as_ptr(), libc::AT_RECURSIVE, &attributes, size)
    };
    match io::Error::last_os_error() {
        _ if set == 0 => Ok(()),
        // The kernel is older, or a container forbids this call.
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            eprintln!(
                "no read-only mounts, which need Linux 5.12, so servers and clients can write wherever your user can: \
            {error}"
            );
            Ok(())
        }
        error => Err(error),
    }
}

/// Creates /dev with few devices.
fn make_devices(devices: &Path) -> io::Result<()> {
    mount("redjepsen", devices, "tmpfs", MountFlags::NOSUID, c"mode=0755")?;
    for device in DEVICES {
        let (there, here) = (Path::new("/dev").join(device), devices.join(device));
        fs::write(&here, "")?;
        mount_bind(there, &here)?;
    }
    for (link, to) in DEVICE_LINKS {
        symlink(to, devices.join(link))?;
    }
    // The folder of shared memory. Each member mounts its own there.
    fs::create_dir(devices.join("shm"))
}

/// Mounts a /proc that shows only the processes of the caller's namespace. It allocates no memory, so it may run between fork and
/// exec.
pub(super) fn mount_proc(more: MountFlags) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | more;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None)?)
}

/// The member that owns the files. A client's files stay in memory with limited size; a server's files are on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Client,
    Server,
}

/// Mounts the files that a member may write: its own folder in place of redjepsen's folder, and empty shared memory. In /tmp it
/// sees this machine's files, except the folder `run`; only the member sees its own changes there.
pub(super) fn mount_own(member: &str, owner: Owner, run: &Path) -> io::Result<()> {
    mount("redjepsen", "/dev/shm", "tmpfs", PLAIN, ROOM)?;
    if Path::new(TEMPORARY).is_dir()
        && let Err(error) = mount_temporary()
    {
        // Not every kernel and file system supports this.
        eprintln!("{member} can't write in {TEMPORARY}: {error}");
    }
    if run.is_dir() {
        mount("redjepsen", run, "tmpfs", PLAIN | MountFlags::RDONLY, c"mode=0755")?;
    }
    let own = Path::new(FILES).join(member);
    match owner {
        Owner::Server => Ok(mount_bind(own, FILES)?),
        Owner::Client => mount_in_memory(&own),
    }
}

/// Mounts a folder of limited size in memory in place of redjepsen's folder. It contains the files of `own`.
fn mount_in_memory(own: &Path) -> io::Result<()> {
    let name = Path::new(server::DATA).file_name().unwrap_or_default();
    // Mounted at a hidden place until it is complete.
    let new = own.join(name);
    mount("redjepsen", &new, "tmpfs", PLAIN, ROOM)?;
    for entry in fs::read_dir(own)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let here = new.join(entry.file_name());
            fs::write(&here, "")?;
            // The agent also writes to these files, and its changes must outlast a client's process.
            mount_bind(entry.path(), &here)?;
        }
    }
    let data = new.join(name);
    fs::create_dir(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777))?;
    Ok(mount_bind_recursive(&new, FILES)?)
}

/// Mounts a writable layer over /tmp that shows the files below it.
fn mount_temporary() -> io::Result<()> {
    let below = File::open(TEMPORARY)?;
    mount("redjepsen", TEMPORARY, "tmpfs", PLAIN, ROOM)?;
    let overlay = || {
        let [upper, work] = ["upper", "work"].map(|name| Path::new(TEMPORARY).join(name));
        fs::create_dir(&upper)?;
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o1777))?;
        fs::create_dir(&work)?;
        let (upper, work, below) = (upper.display(), work.display(), below.as_raw_fd());
        let options = format!("lowerdir=/proc/self/fd/{below},upperdir={upper},workdir={work}");
        let options = CString::new(options)?;
        Ok(mount("redjepsen", TEMPORARY, "overlay", PLAIN, Some(options.as_c_str()))?)
    };
    overlay().inspect_err(|_: &io::Error| _ = unmount(TEMPORARY, UnmountFlags::DETACH))
}
