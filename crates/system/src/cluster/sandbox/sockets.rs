//! The sockets that a member can make: network sockets, which reach only its cluster, and connected pairs.
//!
//! A process finds a socket with a path through the file system, whatever network the listener is in. A socket can be reached
//! under several names: a relative path, a link to its folder, another mount. No list of paths to hide is complete, so a member
//! cannot create the socket that connects. Sockets of virtual machines (AF_VSOCK) ignore network namespaces and are refused in
//! the same way. A member's processes can still talk to each other through connected pairs, pipes, and the network's loopback
//! device.

use std::io;

use libc::{sock_filter, sock_fprog};

/// The kernel's number of the processor that programs are built for; 0 if redjepsen does not know it.
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") {
    0xC000_003E
} else if cfg!(target_arch = "aarch64") {
    0xC000_00B7
} else if cfg!(target_arch = "riscv64") {
    0xC000_00F3
} else {
    0
};
/// The offsets of the system call's number, the architecture, and the low halves of two arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST: u32 = 16;
const SECOND: u32 = 24;
/// For programs with short pointers, x86 has the same calls under other numbers.
const OTHER_NUMBERS: u32 = 0x4000_0000;
/// The kind of a socket, without its flags.
const KIND: u32 = 0xf;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NO_SUCH_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
/// The answer of a kernel without this call, so that programs do without it.
const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// A jump. It skips `yes` instructions if the values are equal, else `no`.
const fn equal(value: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: yes, jf: no, k: value }
}

const fn load(offset: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

const fn answer(value: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value }
}

static FILTER: [sock_filter; 20] = [
    load(ARCHITECTURE_AT),
    // Programs for another architecture have other numbers. They are refused, so that one filter is enough.
    equal(ARCHITECTURE, 0, 17),
    load(NUMBER),
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, jt: 15, jf: 0, k: OTHER_NUMBERS },
    // io_uring can create and connect sockets without any other system call.
    equal(libc::SYS_io_uring_setup as u32, 14, 0),
    equal(libc::SYS_socket as u32, 2, 0),
    equal(libc::SYS_socketpair as u32, 6, 0),
    answer(ALLOW),
    // For socket, the family decides.
    load(FIRST),
    equal(libc::AF_INET as u32, 8, 0),
    equal(libc::AF_INET6 as u32, 7, 0),
    // Resolvers use it to ask for the machine's addresses.
    equal(libc::AF_NETLINK as u32, 6, 0),
    answer(NO_SUCH_FAMILY),
    // For socketpair, the kind decides: one socket of a datagram pair could be connected elsewhere afterwards; stream sockets
    // cannot.
    load(SECOND),
    sock_filter { code: (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, jt: 0, jf: 0, k: KIND },
    equal(libc::SOCK_STREAM as u32, 2, 0),
    equal(libc::SOCK_SEQPACKET as u32, 1, 0),
    answer(NO_SUCH_FAMILY),
    answer(ALLOW),
    answer(NO_SUCH_CALL),
];

/// Makes the kernel refuse all other sockets to this process and its children, for good. Needs `no_new_privs`. It allocates no
/// memory, so it may run between fork and exec.
pub(super) fn only_of_the_network() -> io::Result<()> {
    if ARCHITECTURE == 0 {
        return Ok(());
    }
    let program = sock_fprog { len: FILTER.len() as u16, filter: FILTER.as_ptr().cast_mut() };
    // SAFETY: the program lives longer than the call, and the kernel only reads it.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter's answer to a system call.
    fn answer_to(architecture: u32, number: i64, arguments: [u32; 2]) -> u32 {
        let data = |offset: u32| match offset {
            NUMBER => number as u32,
            ARCHITECTURE_AT => architecture,
            FIRST => arguments[0],
            SECOND => arguments[1],
            other => panic!("loads {other}"),
        };
        let (mut place, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = FILTER[place];
            let code = u32::from(code);
            place += 1;
            let jump = |yes: bool| usize::from(if yes { jt } else { jf });
            match code & 0x07 {
                libc::BPF_LD => value = data(k),
                libc::BPF_ALU => value &= k,
                libc::BPF_RET => return k,
                libc::BPF_JMP if code & 0xf0 == libc::BPF_JEQ => place += jump(value == k),
                libc::BPF_JMP => place += jump(value >= k),
                other => panic!("instruction {other}"),
            }
        }
    }

    #[test]
    fn sockets_of_the_network_and_pairs_are_made_and_no_others() {
        let here = |number, arguments| answer_to(ARCHITECTURE, number, arguments);
        let (unix, datagram, stream) = (libc::AF_UNIX as u32, libc::SOCK_DGRAM as u32, libc::SOCK_STREAM as u32);
        let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u32;
        for family in [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK] {
            assert_eq!(here(libc::SYS_socket, [family as u32, stream | flags]), ALLOW);
        }
        for family in [libc::AF_UNIX, libc::AF_VSOCK, libc::AF_PACKET, libc::AF_ALG, libc::AF_BLUETOOTH] {
            assert_eq!(here(libc::SYS_socket, [family as u32, stream]), NO_SUCH_FAMILY, "{family}");
        }
        for kind in [stream, stream | flags, libc::SOCK_SEQPACKET as u32] {
            assert_eq!(here(libc::SYS_socketpair, [unix, kind]), ALLOW);
        }
        for kind in [datagram, datagram | flags, libc::SOCK_RAW as u32] {
            assert_eq!(here(libc::SYS_socketpair, [unix, kind]), NO_SUCH_FAMILY);
        }
        for number in [libc::SYS_connect, libc::SYS_bind, libc::SYS_execve, libc::SYS_read, libc::SYS_clone] {
            assert_eq!(here(number, [unix, datagram]), ALLOW);
        }
        assert_eq!(here(libc::SYS_io_uring_setup, [1, 0]), NO_SUCH_CALL);
        assert_eq!(here(libc::SYS_socket | i64::from(OTHER_NUMBERS), [2, 1]), NO_SUCH_CALL);
        assert_eq!(answer_to(0x4000_0003, libc::SYS_read, [0, 0]), NO_SUCH_CALL);
    }
}
