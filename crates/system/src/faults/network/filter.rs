//! The filters of packet sockets, as classic BPF programs. They only save work: the reader checks every frame again.

use std::net::Ipv4Addr;

use libc::sock_filter;

use super::frame::{ETHERTYPE_ARP, ETHERTYPE_IPV4, Mac, PROTOCOL_ICMP, PROTOCOL_TCP};

/// With more addresses than this, addresses are not compared, since the reach of a jump is limited.
const MOST_ADDRESSES: usize = 200;

/// Load the value at this offset of the frame: one byte, two, or four.
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
/// Load at this offset plus the length of the IPv4 header.
const LOAD_BYTE_BEHIND: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
const LOAD_HALF_BEHIND: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
/// Store the length of the IPv4 header at this offset.
const MEASURE_HEADER: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
/// Accept this many bytes of the frame.
const ACCEPT: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Accepts no frame.
pub(super) fn nothing() -> Vec<sock_filter> {
    vec![step(ACCEPT, 0)]
}

/// Accepts answers to the prober's ARP requests, echo replies with this identifier, and TCP segments from or to the port with the
/// same number.
pub(super) fn answers(asker: Mac, identifier: u16) -> Vec<sock_filter> {
    // The last four bytes are distinctive enough.
    let asker = u32::from_be_bytes([asker[2], asker[3], asker[4], asker[5]]);
    let identifier = u32::from(identifier);
    // Jumps count from the next step; step 17 rejects and step 18 accepts.
    vec![
        step(LOAD_HALF, 12),
        /* 1 */ test(u32::from(ETHERTYPE_ARP), 0, 2),
        step(LOAD_WORD, 34),
        /* 3 */ test(asker, 14, 13),
        /* 4 */ test(u32::from(ETHERTYPE_IPV4), 0, 12),
        step(MEASURE_HEADER, 14),
        step(LOAD_BYTE, 23),
        /* 7 */ test(u32::from(PROTOCOL_ICMP), 0, 4),
        step(LOAD_BYTE_BEHIND, 14),
        /* 9: an echo reply */ test(0, 0, 7),
        step(LOAD_HALF_BEHIND, 18),
        /* 11 */ test(identifier, 6, 5),
        /* 12 */ test(u32::from(PROTOCOL_TCP), 0, 4),
        step(LOAD_HALF_BEHIND, 14),
        /* 14 */ test(identifier, 3, 0),
        step(LOAD_HALF_BEHIND, 16),
        /* 16 */ test(identifier, 1, 0),
        step(ACCEPT, 0),
        step(ACCEPT, u32::MAX),
    ]
}

/// Accepts IPv4 packets from one of `from` to one of `to`.
pub(super) fn between(from: &[Ipv4Addr], to: &[Ipv4Addr]) -> Vec<sock_filter> {
    let mut program = vec![step(LOAD_HALF, 12), test(u32::from(ETHERTYPE_IPV4), 1, 0), step(ACCEPT, 0)];
    for (offset, addresses) in [(26, from), (30, to)] {
        if addresses.len() > MOST_ADDRESSES {
            continue;
        }
        program.push(step(LOAD_WORD, offset));
        for (at, address) in addresses.iter().enumerate() {
            // Jumps past the remaining comparisons and the rejection after them. `MOST_ADDRESSES` bounds the distance, so it
            // fits.
            program.push(test(address.to_bits(), (addresses.len() - at) as u8, 0));
        }
        program.push(step(ACCEPT, 0));
    }
    program.push(step(ACCEPT, u32::MAX));
    program
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Skips `then` steps if the loaded value is `k`, else `otherwise` steps.
fn test(k: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: IF_EQUAL, jt: then, jf: otherwise, k }
}
