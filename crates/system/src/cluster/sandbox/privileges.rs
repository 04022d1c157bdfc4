//! The privileges of a member: none beyond those of any unprivileged process.
//!
//! A local cluster that root starts has all of root's privileges. A local cluster of any other user has all privileges within the
//! user's own namespace. Members must not have these privileges: they could undo faults, reach each other past the bridge, or
//! change this machine.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

/// The privilege to read all files that the user can read: a client's files may belong to the user for whom root runs it.
const KEPT: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;
/// The kernel has fewer capabilities than this, and its interface has room for no more.
const MOST_CAPABILITIES: u32 = 64;

/// Drops, for good, the privileges that the member's program must not have, and changes to this user, if one is given. It
/// allocates no memory, so it may run between fork and exec.
pub(super) fn drop_all(user: Option<u32>) -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    for capability in (0..MOST_CAPABILITIES).filter(|capability| KEPT.bits() & 1 << capability == 0) {
        // SAFETY: no pointers are involved.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) } == 0 {
            continue;
        }
        match io::Error::last_os_error() {
            // The kernel does not know this capability, nor any later one. Or this process may not drop it. This matters little:
            // without new privileges, a program that root runs gets only the capabilities that remain below.
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => break,
            error => return Err(error),
        }
    }
    if let Some(user) = user {
        become_user(user)?;
    }
    // A process that changed its user has no capabilities left, and in a container root may have few.
    let kept = capabilities(None)?.permitted & KEPT;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Uses system calls directly: libc's functions would also try to change the threads that this process had before the fork.
fn become_user(user: u32) -> io::Result<()> {
    // SAFETY: the only pointer is that of an empty list.
    let done = unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) == 0
            && libc::syscall(libc::SYS_setresgid, user, user, user) == 0
            && libc::syscall(libc::SYS_setresuid, user, user, user) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
