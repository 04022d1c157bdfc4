//! Commands that a fault refuses: the server never gets them, and the client gets an error instead of the reply.
//!
//! For each byte of the command, the server gets a line end. Redis ignores empty lines between commands, so both ends count the
//! same bytes of requests. The error is one reply more than the server knows. From then on, the client counts more bytes of
//! replies than the server, by the error's length. So all segments are renumbered until the connection ends, even after the fault
//! is healed.
//!
//! Each error is sent once all replies before it have passed. Selective acknowledgements are removed, as TCP allows.

use std::collections::VecDeque;

use super::super::capture::OFFLOAD_HEADER;
use super::super::frame::{self, SegmentMut, Tcp, flags};
use super::super::reset::{FORGED, WINDOW};
use super::{Ends, StreamDirection, bare};
use model::topology::REDIS_PORT;

/// The most bytes in one forged segment, so that it fits into a frame on any bridge.
const LONGEST: usize = 1200;
/// Redis ignores line ends between commands.
const LINE_END: u8 = b'\n';

/// The commands that a fault has refused on one connection, and their errors.
#[derive(Default)]
pub(super) struct Refusals {
    /// The positions of refused commands that the server has not acknowledged: their first byte, and the first byte after them.
    commands: Vec<(u32, u32)>,
    /// Errors that must wait for earlier replies, each with the number of its reply, counted from 1.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// Errors that the client has not acknowledged: the server's next byte after each error, and the error's length.
    said: VecDeque<(u32, u32)>,
    /// How many bytes of errors the client has acknowledged.
    settled: u32,
    /// Errors to send with the next segment, each with the client's sequence number of its first byte.
    new: Vec<(u32, Vec<u8>)>,
    has_any: bool,
}

/// A segment and its direction.
pub(super) type Directed = (StreamDirection, Vec<u8>);

impl Refusals {
    /// True if the two ends count bytes differently, or will.
    pub fn has_any(&self) -> bool {
        self.has_any
    }

    /// Refuses the command between these two bytes. Its error is the reply with this number.
    pub fn refuse(&mut self, command: (u32, u32), number: u64, error: &str) {
        self.has_any = true;
        self.commands.push(command);
        self.waiting.push_back((number, format!("-{error}\r\n").into_bytes()));
    }

    /// Sends the errors that come directly after this many replies, before the server's byte `next`. Returns the number of
    /// replies including them.
    pub fn say(&mut self, mut answered: u64, next: u32) -> u64 {
        while self.waiting.front().is_some_and(|(number, _)| *number == answered + 1)
            && let Some((_, error)) = self.waiting.pop_front()
        {
            let length = u32::try_from(error.len()).unwrap_or(u32::MAX);
            self.new.push((self.to_client(next), error));
            self.said.push_back((next, length));
            answered += 1;
        }
        answered
    }

    /// The client's sequence number for a byte that the server sent.
    fn to_client(&self, byte: u32) -> u32 {
        let before = self.said.iter().filter(|(next, _)| !is_before(byte, *next));
        before.fold(byte.wrapping_add(self.settled), |sum, (_, length)| sum.wrapping_add(*length))
    }

    /// The server's sequence number for the byte that its client expects. If the byte is within an error, the next byte after the
    /// error.
    pub fn to_server(&self, expected: u32) -> u32 {
        let mut more = self.settled;
        for (next, length) in &self.said {
            let begin = next.wrapping_add(more);
            if !is_before(begin, expected) {
                break;
            }
            more = more.wrapping_add(expected.wrapping_sub(begin).min(*length));
        }
        expected.wrapping_sub(more)
    }

    /// Forgets commands and errors that both ends have acknowledged.
    fn settle(&mut self, direction: StreamDirection, segment: &Tcp) {
        let acknowledged = segment.acknowledged;
        match direction {
            StreamDirection::Request => {
                while let Some((next, length)) = self.said.front().copied()
                    && !is_before(acknowledged, next.wrapping_add(self.settled).wrapping_add(length))
                {
                    self.settled = self.settled.wrapping_add(length);
                    self.said.pop_front();
                }
            }
            StreamDirection::Reply => self.commands.retain(|(_, end)| is_before(acknowledged, *end)),
        }
    }

    /// The segments to send in place of this segment, in order. `bytes` begins with the offload header.
    pub fn renumber(&mut self, ends: Ends, direction: StreamDirection, bytes: &[u8]) -> Vec<Directed> {
        let captured = bytes.get(OFFLOAD_HEADER..).unwrap_or_default();
        let read = || {
            let packet = frame::ipv4(captured)?;
            Some((frame::tcp(&packet)?, frame::content(&packet).to_vec(), frame::macs(captured)?))
        };
        let Some((segment, content, macs)) = read() else { return vec![(direction, bytes.to_vec())] };
        if segment.flags & flags::ACK != 0 {
            self.settle(direction, &segment);
        }
        match direction {
            StreamDirection::Request => {
                let errors = self.errors(ends, (macs.1, macs.0), segment.sequence);
                let request = (StreamDirection::Request, self.request(&segment, bytes));
                [request].into_iter().chain(errors.into_iter().map(|(_, error)| error)).collect()
            }
            StreamDirection::Reply => {
                let errors = self.errors(ends, macs, segment.acknowledged);
                let first = self.to_client(segment.sequence);
                let mut all = self.replies(ends, macs, &segment, &content, bytes);
                all.extend(errors);
                all.sort_by_key(|(number, _)| number.wrapping_sub(first));
                all.into_iter().map(|(_, segment)| segment).collect()
            }
        }
    }

    /// A request with line ends in place of the refused commands.
    fn request(&self, segment: &Tcp, bytes: &[u8]) -> Vec<u8> {
        changed(bytes, |parts| {
            if segment.flags & flags::ACK != 0 {
                parts.set_acknowledged(self.to_server(segment.acknowledged));
            }
            parts.forget_selective();
            for (at, byte) in (0_u32..).zip(parts.content()) {
                let at = segment.sequence.wrapping_add(at);
                if self.commands.iter().any(|(begin, end)| !is_before(at, *begin) && is_before(at, *end)) {
                    *byte = LINE_END;
                }
            }
        })
    }

    /// A reply with the client's sequence numbers; several segments if errors come within it.
    fn replies(
        &self,
        ends: Ends,
        macs: (frame::Mac, frame::Mac),
        segment: &Tcp,
        content: &[u8],
        bytes: &[u8],
    ) -> Vec<(u32, Directed)> {
        let mut cuts: Vec<usize> =
            self.said.iter().map(|(next, _)| next.wrapping_sub(segment.sequence) as usize).collect();
        cuts.retain(|cut| (1..content.len()).contains(cut));
        cuts.dedup();
        if cuts.is_empty() {
            let first = self.to_client(segment.sequence);
            return vec![(first, (StreamDirection::Reply, changed(bytes, |parts| parts.set_sequence(first))))];
        }
        cuts.push(content.len());
        let (mut all, mut from) = (Vec::new(), 0);
        for cut in cuts {
            for piece in content[from..cut].chunks(LONGEST) {
                let sequence = self.to_client(segment.sequence.wrapping_add(from as u32));
                let header = Tcp { sequence, ..*segment };
                all.push((sequence, made(ends, macs, &header, piece)));
                from += piece.len();
            }
        }
        all
    }

    /// The new errors as segments to the client. `acknowledged` is their acknowledgement number.
    fn errors(&mut self, ends: Ends, macs: (frame::Mac, frame::Mac), acknowledged: u32) -> Vec<(u32, Directed)> {
        let header =
            Tcp { from_port: REDIS_PORT, to_port: ends.1, sequence: 0, acknowledged, flags: flags::ACK, length: 0 };
        let new = std::mem::take(&mut self.new).into_iter();
        new.map(|(sequence, error)| (sequence, made(ends, macs, &Tcp { sequence, ..header }, &error))).collect()
    }
}

/// Builds a segment to the client.
fn made((client, _, server): Ends, macs: (frame::Mac, frame::Mac), header: &Tcp, content: &[u8]) -> Directed {
    (StreamDirection::Reply, bare(frame::segment(macs, (server, client), FORGED, header, content, WINDOW)))
}

/// A changed copy of a frame with its offload header.
fn changed(bytes: &[u8], change: impl FnOnce(&mut SegmentMut<'_>)) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    if let Some((offload, frame)) = copy.split_at_mut_checked(OFFLOAD_HEADER)
        && let Some(mut parts) = SegmentMut::of(frame)
    {
        change(&mut parts);
        // If the first bit is set, the kernel will compute the checksum.
        if offload[0] & 1 == 0 {
            parts.sum_up();
        }
    }
    copy
}

/// True if one byte comes before another; sequence numbers wrap around.
fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}
