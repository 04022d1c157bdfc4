//! The namespaces of a local cluster, and how to enable them if the system refuses them.

use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// PIDs, network, mounts, host name. The sandbox has its own, which limit all its members' view, and each member has its own.
/// Members also have their own shared memory and semaphores.
const ALL: UnshareFlags =
    UnshareFlags::NEWPID.union(UnshareFlags::NEWNET).union(UnshareFlags::NEWNS).union(UnshareFlags::NEWUTS);

/// Moves this single-threaded process and its future children into new namespaces. The PID namespace applies only to the
/// children. An error says what the system refused and how to allow it.
pub(super) fn enter() -> Result<(), String> {
    let privileged = geteuid().is_root();
    if privileged && unshare(ALL).is_ok() {
        return Ok(());
    }
    // A user without privileges has all privileges in their own user namespace, over everything created there.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER).map_err(|error| refused("a user namespace", &error))?;
    map_to_root(user, group).map_err(|error| refused("to be root in a user namespace", &error))?;
    unshare(ALL).map_err(|error| refused("process, network and mount namespaces", &error))
}

/// Moves only this thread into a member's namespaces; processes that the thread starts are in them, too.
pub(super) fn enter_own() -> io::Result<()> {
    unshare(ALL | UnshareFlags::NEWIPC)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of file descriptors stays shared.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

fn map_to_root(user: u32, group: u32) -> io::Result<()> {
    // Without this, the kernel allows no user to map a group, since dropping a group could give access to files.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Describes what the system refused, and how the administrator can allow it.
pub(super) fn refused(what: &str, error: &io::Error) -> String {
    let setting = |name: &str, closed: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|value| value.trim() == closed)
    };
    let switches = [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let closed = switches.iter().find(|(name, closed, _)| !geteuid().is_root() && setting(name, closed));
    let remedy = match closed {
        Some((name, _, open)) => format!("to allow it, use `sudo sysctl -w {name}={open}`, or run redjepsen as root"),
        None if geteuid().is_root() => {
            "a container needs the capabilities SYS_ADMIN and NET_ADMIN for this, and an AppArmor profile that allows mounts"
                .to_string()
        }
        None => "run redjepsen as root".to_string(),
    };
    format!("{what}: {error}; {remedy}, or use --cluster docker")
}
