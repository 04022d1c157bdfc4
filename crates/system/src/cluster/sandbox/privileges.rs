//! What a member may do: what any process may, and nothing that takes privileges.
//!
//! A local cluster of root's holds everything that root may do, and one of any other user all of it within the user's
//! own namespace. None of that is the members' business: they could undo faults, reach each other past the bridge, or
//! change this machine.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

/// Reading what the user can read: a client's files may belong to the user for whom root runs it.
const KEPT: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;
/// The kernel has fewer than this; there is room for no more.
const MOST_CAPABILITIES: u32 = 64;

/// Gives up, for good, what the member's program must not have; it goes on as this user, if there is one. Allocates
/// nothing, so that it may be called between fork and exec.
pub(super) fn drop_all(user: Option<u32>) -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    for capability in (0..MOST_CAPABILITIES).filter(|capability| KEPT.bits() & 1 << capability == 0) {
        // SAFETY: no pointers are involved.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) } == 0 {
            continue;
        }
        match io::Error::last_os_error() {
            // The kernel does not know it, nor any that follow. Or this process may not, which matters little: without
            // new privileges, a program that root runs gets no more than what is left below.
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => break,
            error => return Err(error),
        }
    }
    if let Some(user) = user {
        become_user(user)?;
    }
    // Whoever became another user has none left, and in a container root may have few.
    let kept = capabilities(None)?.permitted & KEPT;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// As system calls, since libc's functions would also address the threads that this process had before the fork.
fn become_user(user: u32) -> io::Result<()> {
    // SAFETY: the only pointer belongs to an empty list.
    let done = unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) == 0
            && libc::syscall(libc::SYS_setresgid, user, user, user) == 0
            && libc::syscall(libc::SYS_setresuid, user, user, user) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
