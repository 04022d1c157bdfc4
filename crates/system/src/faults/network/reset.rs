//! The fault `reset` acts like a middlebox that lost its state: it answers each TCP segment with an RST to both ends.
//!
//! An end accepts an RST only if its sequence number is exactly the number that the end expects next (RFC 5961). For the receiver
//! of a segment, this is the segment's own number, unless earlier segments are missing. For its sender, it is the number that the
//! segment acknowledges. So connections break with the next segment they send; idle connections stay until then.
//!
//! This module also closes connections: the client gets a FIN, as from a server that closes. All its later segments get an RST,
//! as from a closed socket (RFC 9293, 3.10.7.1).

use super::frame::{self, Tcp, flags};

/// Identification of every IPv4 packet forged here; systems send 0 in segments as short as these.
pub(super) const FORGED: u16 = 0x524a;

/// The window of forged segments. With a window of 0, an end that gets a FIN would keep its unsent data.
pub(super) const WINDOW: u16 = 1024;

/// The RSTs that answer a captured frame, as frames; empty if it is not a TCP segment.
pub(super) fn forge(captured: &[u8]) -> Vec<Vec<u8>> {
    forge_from(captured, |segment| *segment)
}

/// The RSTs if the segment's receiver still waits for the byte with this number.
pub(super) fn forge_at(captured: &[u8], sequence: u32) -> Vec<Vec<u8>> {
    forge_from(captured, |segment| Tcp { sequence, ..*segment })
}

/// The frames that replace a segment of the server: a FIN to the client, and an RST to the server.
pub(super) fn close(captured: &[u8]) -> Vec<Vec<u8>> {
    answers(captured, |segment| {
        [onwards(segment).map(|header| Tcp { flags: flags::FIN | flags::ACK, ..header }), back(segment)]
    })
}

/// The RST to a client whose connection is closed, for one of its segments; empty if the segment only acknowledges.
pub(super) fn refuse(captured: &[u8]) -> Vec<Vec<u8>> {
    answers(captured, |segment| {
        let only_acknowledges = segment.length == 0 && segment.flags & flags::FIN == 0;
        [None, back(segment).filter(|_| !only_acknowledges)]
    })
}

fn forge_from(captured: &[u8], as_if: impl Fn(&Tcp) -> Tcp) -> Vec<Vec<u8>> {
    answers(captured, |segment| {
        let segment = as_if(segment);
        [onwards(&segment), back(&segment)]
    })
}

/// The answers to the receiver and to the sender of a captured segment, as frames.
fn answers(captured: &[u8], say: impl Fn(&Tcp) -> [Option<Tcp>; 2]) -> Vec<Vec<u8>> {
    let read = || {
        let packet = frame::ipv4(captured)?;
        Some((frame::macs(captured)?, (packet.from, packet.to), frame::tcp(&packet)?))
    };
    let Some(((from_mac, to_mac), (from, to), segment)) = read() else { return Vec::new() };
    let [to_receiver, to_sender] = say(&segment);
    let onwards =
        to_receiver.map(|header| frame::segment((from_mac, to_mac), (from, to), FORGED, &header, &[], WINDOW));
    let back = to_sender.map(|header| frame::segment((to_mac, from_mac), (to, from), FORGED, &header, &[], WINDOW));
    onwards.into_iter().chain(back).collect()
}

/// An RST to the segment's receiver. None if the segment opens a connection: the receiver has nothing to reset yet.
fn onwards(segment: &Tcp) -> Option<Tcp> {
    let acknowledges = segment.flags & flags::ACK;
    if segment.flags & flags::SYN != 0 && acknowledges == 0 {
        return None;
    }
    Some(Tcp { flags: flags::RST | acknowledges, length: 0, ..*segment })
}

/// An RST to the segment's sender. None if the segment is an RST, which is never answered.
fn back(segment: &Tcp) -> Option<Tcp> {
    if segment.flags & flags::RST != 0 {
        return None;
    }
    let (from_port, to_port) = (segment.to_port, segment.from_port);
    if segment.flags & flags::ACK != 0 {
        let sequence = segment.acknowledged;
        return Some(Tcp { from_port, to_port, sequence, acknowledged: 0, flags: flags::RST, length: 0 });
    }
    // SYN and FIN count as one byte each.
    let takes = |flag: u8| u32::from(segment.flags & flag != 0);
    let end = segment.sequence.wrapping_add(segment.length);
    let acknowledged = end.wrapping_add(takes(flags::SYN)).wrapping_add(takes(flags::FIN));
    Some(Tcp { from_port, to_port, sequence: 0, acknowledged, flags: flags::RST | flags::ACK, length: 0 })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn answers(flags: u8, sequence: u32, acknowledged: u32) -> Vec<(Ipv4Addr, Tcp)> {
        let header = Tcp { from_port: 7, to_port: 6379, sequence, acknowledged, flags, length: 0 };
        let captured = frame::segment(([1; 6], [2; 6]), (A, B), 0, &header, &[], 9);
        let forged = forge(&captured);
        let read = |bytes: &Vec<u8>| {
            let packet = frame::ipv4(bytes).unwrap();
            assert_eq!(packet.identification, FORGED);
            (packet.to, frame::tcp(&packet).unwrap())
        };
        forged.iter().map(read).collect()
    }

    #[test]
    fn both_ends_get_the_number_that_they_expect() {
        let seen = answers(flags::ACK, 100, 200);
        let to_b = Tcp {
            from_port: 7,
            to_port: 6379,
            sequence: 100,
            acknowledged: 200,
            flags: flags::RST | flags::ACK,
            length: 0,
        };
        let to_a = Tcp { from_port: 6379, to_port: 7, sequence: 200, acknowledged: 0, flags: flags::RST, length: 0 };
        assert_eq!(seen, [(B, to_b), (A, to_a)]);
    }

    #[test]
    fn a_new_connection_is_refused() {
        let seen = answers(flags::SYN, u32::MAX, 0);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].0, seen[0].1.acknowledged, seen[0].1.flags), (A, 0, flags::RST | flags::ACK));
    }

    #[test]
    fn a_reset_is_passed_on_and_not_answered() {
        let seen = answers(flags::RST, 100, 0);
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].0, seen[0].1.sequence, seen[0].1.flags), (B, 100, flags::RST));
    }

    #[test]
    fn a_server_closes_once_and_has_no_ear_for_what_follows() {
        let read =
            |bytes: &Vec<u8>| frame::tcp(&frame::ipv4(bytes).unwrap()).map(|tcp| (tcp.flags, tcp.sequence)).unwrap();
        let captured = |flags: u8, payload: &[u8]| {
            let header = Tcp { from_port: 6379, to_port: 7, sequence: 100, acknowledged: 200, flags, length: 0 };
            frame::segment(([1; 6], [2; 6]), (A, B), 0, &header, payload, 9)
        };
        let closed: Vec<_> = close(&captured(flags::ACK, b"+OK\r\n")).iter().map(read).collect();
        assert_eq!(closed, [(flags::FIN | flags::ACK, 100), (flags::RST, 200)]);
        let refused =
            |flags: u8, payload: &[u8]| refuse(&captured(flags, payload)).iter().map(read).collect::<Vec<_>>();
        assert!(refused(flags::ACK, b"").is_empty(), "that it got the FIN");
        assert_eq!(refused(flags::ACK, b"PING"), [(flags::RST, 200)]);
        assert_eq!(refused(flags::ACK | flags::FIN, b""), [(flags::RST, 200)]);
        assert!(refused(flags::RST, b"").is_empty());
    }

    #[test]
    fn what_is_no_segment_is_not_answered() {
        assert!(forge(&frame::echo_request(([1; 6], [2; 6]), (A, B), (1, 1), b"x")).is_empty());
        assert!(forge(b"").is_empty());
    }
}
