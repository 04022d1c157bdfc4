//! Ethernet frames with ARP, IPv4, ICMP and TCP content, as far as the faults read and forge them.
//!
//! Reading never trusts a length: data that does not fit is `None`. Frames have an Ethernet header and no VLAN tag. Later
//! fragments and IP options are recognized, and never read as another header.
//!
//! Written by hand: `etherparse` (0.21) would replace only the offsets and checksums, about 60 lines. The main task here is
//! reading frames that may be cut, padded, larger than IPv4 can say, or later fragments. etherparse leaves these cases to its
//! caller.

use std::net::Ipv4Addr;

/// A MAC address.
pub(super) type Mac = [u8; 6];

pub(super) const BROADCAST: Mac = [0xff; 6];
/// Length of the Ethernet header.
pub(super) const ETHERNET: usize = 14;
pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_ARP: u16 = 0x0806;
pub(super) const PROTOCOL_ICMP: u8 = 1;
pub(super) const PROTOCOL_TCP: u8 = 6;

pub(super) mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const ACK: u8 = 0x10;
}

/// The most bytes of all headers of a TCP segment.
pub(super) const HEADERS: usize = ETHERNET + 60 + 60;
/// Length of an IPv4 header without options.
const IPV4: usize = 20;
/// Length of a TCP header without options.
const TCP: usize = 20;

/// An IPv4 packet inside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ipv4<'frame> {
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
    pub protocol: u8,
    pub identification: u16,
    /// The data after the header; empty in all fragments but the first.
    pub payload: &'frame [u8],
}

/// The header of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tcp {
    pub from_port: u16,
    pub to_port: u16,
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
    /// Bytes of payload.
    pub length: u32,
}

/// Both MAC addresses of a frame: sender, receiver.
pub(super) fn macs(frame: &[u8]) -> Option<(Mac, Mac)> {
    Some((frame.get(6..12)?.try_into().ok()?, frame.get(..6)?.try_into().ok()?))
}

pub(super) fn ipv4(frame: &[u8]) -> Option<Ipv4<'_>> {
    if u16_at(frame, 12)? != ETHERTYPE_IPV4 {
        return None;
    }
    let packet = frame.get(ETHERNET..)?;
    let first = *packet.first()?;
    let header = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header < IPV4 || packet.len() < header {
        return None;
    }
    // Data beyond the total length is padding of a short frame. A length of 0 means a packet too large for the field.
    let total = match usize::from(u16_at(packet, 2)?) {
        0 => packet.len(),
        total => total.min(packet.len()),
    };
    let is_first = u16_at(packet, 6)? & 0x1fff == 0;
    Some(Ipv4 {
        from: address_at(packet, 12)?,
        to: address_at(packet, 16)?,
        protocol: *packet.get(9)?,
        identification: u16_at(packet, 4)?,
        payload: if is_first { packet.get(header..total)? } else { &[] },
    })
}

pub(super) fn tcp(packet: &Ipv4<'_>) -> Option<Tcp> {
    if packet.protocol != PROTOCOL_TCP {
        return None;
    }
    let segment = packet.payload;
    let header = usize::from(*segment.get(12)? >> 4) * 4;
    if header < TCP {
        return None;
    }
    Some(Tcp {
        from_port: u16_at(segment, 0)?,
        to_port: u16_at(segment, 2)?,
        sequence: u32_at(segment, 4)?,
        acknowledged: u32_at(segment, 8)?,
        flags: *segment.get(13)?,
        length: u32::try_from(segment.len().checked_sub(header)?).ok()?,
    })
}

/// The payload of a TCP segment; empty if the packet has no TCP segment.
pub(super) fn content<'frame>(packet: &Ipv4<'frame>) -> &'frame [u8] {
    let header = packet.payload.get(12).map_or(usize::MAX, |first| usize::from(first >> 4) * 4);
    packet.payload.get(header..).filter(|_| packet.protocol == PROTOCOL_TCP).unwrap_or_default()
}

/// A frame whose TCP segment can be changed in place, without changing its length.
pub(super) struct SegmentMut<'frame> {
    frame: &'frame mut [u8],
    /// The segment's range in the frame.
    segment: std::ops::Range<usize>,
    /// The offset of the payload in the frame.
    content: usize,
}

impl SegmentMut<'_> {
    /// `None` if the frame has no TCP segment.
    pub fn of(frame: &mut [u8]) -> Option<SegmentMut<'_>> {
        let packet = ipv4(frame)?;
        let length = tcp(&packet)?.length as usize;
        let begin = ETHERNET + usize::from(*frame.get(ETHERNET)? & 0x0f) * 4;
        let segment = begin..begin + packet.payload.len();
        let content = segment.end.checked_sub(length)?;
        Some(SegmentMut { frame, segment, content })
    }

    pub fn set_sequence(&mut self, number: u32) {
        self.set(4, number);
    }

    pub fn set_acknowledged(&mut self, number: u32) {
        self.set(8, number);
    }

    fn set(&mut self, at: usize, number: u32) {
        let at = self.segment.start + at;
        self.frame[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }

    /// The segment's payload.
    pub fn content(&mut self) -> &mut [u8] {
        &mut self.frame[self.content..self.segment.end]
    }

    /// Overwrites the option that acknowledges later segments (RFC 2018) with no-operation options.
    pub fn forget_selective(&mut self) {
        const NOTHING: u8 = 1;
        const SELECTIVE: u8 = 5;
        let options = &mut self.frame[self.segment.start + TCP..self.content];
        let mut at = 0;
        while let Some(kind) = options.get(at).copied().filter(|kind| *kind != 0) {
            let length = if kind == NOTHING { 1 } else { options.get(at + 1).map_or(0, |length| usize::from(*length)) };
            let Some(option) = options.get_mut(at..at + length).filter(|option| !option.is_empty()) else { return };
            if kind == SELECTIVE {
                option.fill(NOTHING);
            }
            at += length;
        }
    }

    /// Recomputes the segment's checksum.
    pub fn sum_up(&mut self) {
        let sum = self.segment.start + 16;
        self.frame[sum..sum + 2].fill(0);
        // The addresses are the last part of an IPv4 header without options.
        let addresses = &self.frame[ETHERNET + 12..ETHERNET + IPV4];
        let length = u16::try_from(self.segment.len()).unwrap_or(u16::MAX).to_be_bytes();
        let pseudo_header = [addresses, &[0, PROTOCOL_TCP], &length].concat();
        let computed = checksum(&[&pseudo_header, &self.frame[self.segment.clone()]]);
        self.frame[sum..sum + 2].copy_from_slice(&computed.to_be_bytes());
    }
}

/// Identifier, sequence number and payload of an ICMP echo reply.
pub(super) fn echo_reply<'frame>(packet: &Ipv4<'frame>) -> Option<(u16, u16, &'frame [u8])> {
    let message = packet.payload;
    let is_reply = packet.protocol == PROTOCOL_ICMP && message.get(..2)? == [0, 0];
    if is_reply { Some((u16_at(message, 4)?, u16_at(message, 6)?, message.get(8..)?)) } else { None }
}

/// An echo request that claims to come from `from`.
pub(super) fn echo_request(
    macs: (Mac, Mac),
    (from, to): (Ipv4Addr, Ipv4Addr),
    (identifier, sequence): (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend(payload);
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet(macs, (from, to), PROTOCOL_ICMP, 0, &message)
}

/// A TCP segment; `header.length` is ignored.
pub(super) fn segment(
    macs: (Mac, Mac),
    (from, to): (Ipv4Addr, Ipv4Addr),
    identification: u16,
    header: &Tcp,
    payload: &[u8],
    window: u16,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TCP);
    bytes.extend(header.from_port.to_be_bytes());
    bytes.extend(header.to_port.to_be_bytes());
    bytes.extend(header.sequence.to_be_bytes());
    bytes.extend(header.acknowledged.to_be_bytes());
    bytes.extend([5 << 4, header.flags]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    let pseudo_header = [&from.octets()[..], &to.octets()[..], &[0, PROTOCOL_TCP], &length].concat();
    let sum = checksum(&[&pseudo_header, &bytes]);
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    packet(macs, (from, to), PROTOCOL_TCP, identification, &bytes)
}

/// Asks all members for the MAC address of `wanted`. Gives no sender address (RFC 5227), so that no member learns a false
/// neighbour from it.
pub(super) fn arp_request(from: Mac, wanted: Ipv4Addr) -> Vec<u8> {
    let mut frame = ethernet((from, BROADCAST), ETHERTYPE_ARP);
    // Ethernet and IPv4, with addresses of 6 and 4 bytes; 1 is a request.
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(from);
    frame.extend([0; 4]);
    frame.extend([0; 6]);
    frame.extend(wanted.octets());
    frame
}

/// The IPv4 and MAC address of a member that answers an [`arp_request`] of `asker`.
pub(super) fn arp_answer(frame: &[u8], asker: Mac) -> Option<(Ipv4Addr, Mac)> {
    let message = frame.get(ETHERNET..)?;
    let is_answer = u16_at(frame, 12)? == ETHERTYPE_ARP
        && message.get(..8)? == [0, 1, 8, 0, 6, 4, 0, 2]
        && message.get(18..24)? == asker
        && message.get(24..28)? == [0; 4];
    if is_answer { Some((address_at(message, 14)?, message.get(8..14)?.try_into().ok()?)) } else { None }
}

fn ethernet((from, to): (Mac, Mac), ethertype: u16) -> Vec<u8> {
    let mut frame = Vec::with_capacity(80);
    frame.extend(to);
    frame.extend(from);
    frame.extend(ethertype.to_be_bytes());
    frame
}

fn packet(
    macs: (Mac, Mac),
    (from, to): (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    identification: u16,
    payload: &[u8],
) -> Vec<u8> {
    // Only short packets are forged here, so the length fits.
    let total = u16::try_from(IPV4 + payload.len()).unwrap_or(u16::MAX);
    let mut header = vec![0x45, 0];
    header.extend(total.to_be_bytes());
    header.extend(identification.to_be_bytes());
    // The flag "don't fragment", and 64 hops.
    header.extend([0x40, 0, 64, protocol, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = ethernet(macs, ETHERTYPE_IPV4);
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// The Internet checksum (RFC 1071) of consecutive parts; all but the last must have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u64 = words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The sum was folded above, so it fits.
    !(sum as u16)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn address_at(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    u32_at(bytes, at).map(Ipv4Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const MACS: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    #[test]
    fn what_is_forged_reads_as_what_was_meant() {
        let header =
            Tcp { from_port: 7, to_port: 6379, sequence: 1 << 31, acknowledged: 9, flags: flags::ACK, length: 0 };
        let frame = segment(MACS, (A, B), 77, &header, &[], 0);
        let read = ipv4(&frame).unwrap();
        assert_eq!((read.from, read.to, read.identification), (A, B, 77));
        assert_eq!(tcp(&read), Some(header));
        assert_eq!(macs(&frame), Some(MACS));
        assert_eq!(checksum(&[&frame[14..34]]), 0, "a header with its checksum sums up to nothing");

        let mut frame = echo_request(MACS, (A, B), (5, 6), b"payload");
        assert_eq!(checksum(&[&frame[34..]]), 0);
        assert_eq!(echo_reply(&ipv4(&frame).unwrap()), None, "a request");
        frame[34] = 0;
        assert_eq!(echo_reply(&ipv4(&frame).unwrap()), Some((5, 6, &b"payload"[..])));
    }

    #[test]
    fn what_is_changed_in_place_reads_as_if_it_had_been_sent_so() {
        let header = |sequence, acknowledged| Tcp {
            from_port: 7,
            to_port: 6379,
            sequence,
            acknowledged,
            flags: flags::ACK,
            length: 0,
        };
        let mut frame = segment(MACS, (A, B), 77, &header(1, 2), b"abc", 9);
        let mut parts = SegmentMut::of(&mut frame).unwrap();
        parts.set_sequence(3);
        parts.set_acknowledged(4);
        parts.content()[1] = b'x';
        parts.forget_selective();
        parts.sum_up();
        assert_eq!(frame, segment(MACS, (A, B), 77, &header(3, 4), b"axc", 9));

        // Twelve bytes of options in place of the payload: two no-operations, then the selective option of ten bytes.
        let mut frame = segment(MACS, (A, B), 77, &header(1, 2), &[1, 1, 5, 10, 9, 9, 9, 9, 9, 9, 9, 9], 9);
        frame[46] = 8 << 4;
        SegmentMut::of(&mut frame).unwrap().forget_selective();
        assert_eq!(frame[54..], [1; 12]);
        assert!(SegmentMut::of(&mut frame[..40]).is_none(), "cut off");
        assert!(SegmentMut::of(&mut arp_request(MACS.0, B)).is_none());
    }

    #[test]
    fn only_answers_to_the_asker_count() {
        let mut frame = arp_request(MACS.0, B);
        assert_eq!(arp_answer(&frame, MACS.0), None);
        frame[21] = 2;
        frame[22..28].copy_from_slice(&MACS.1);
        frame[28..32].copy_from_slice(&B.octets());
        frame[32..38].copy_from_slice(&MACS.0);
        frame[38..42].copy_from_slice(&[0; 4]);
        assert_eq!(arp_answer(&frame, MACS.0), Some((B, MACS.1)));
        assert_eq!(arp_answer(&frame, MACS.1), None);
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let header = Tcp { from_port: 7, to_port: 9, sequence: 1, acknowledged: 2, flags: 0, length: 0 };
        let mut frame = segment(MACS, (A, B), 1, &header, &[], 0);
        frame[21] = 1;
        assert_eq!(tcp(&ipv4(&frame).unwrap()), None);
    }

    proptest! {
        #[test]
        fn no_frame_makes_the_reader_stumble(mut frame in prop::collection::vec(any::<u8>(), 0..120), ip: bool) {
            if ip && frame.len() > 14 {
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            }
            let _ = (macs(&frame), arp_answer(&frame, MACS.0));
            if let Some(packet) = ipv4(&frame) {
                let _ = (tcp(&packet), content(&packet), echo_reply(&packet));
            }
            if let Some(mut parts) = SegmentMut::of(&mut frame) {
                parts.set_sequence(1);
                parts.forget_selective();
                parts.sum_up();
            }
        }
    }
}
