//! The network faults on a simulated network: they decide what happens to each segment.
//!
//! Conditions combine as on a real network, and faults on commands follow the same frames with the same code. Only what
//! the kernel does is missing: rules, probes and packet sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::time::Duration;

use super::calls::{Calls, Ordered, SoFar, Strikes, Treatment};
use super::capture::OFFLOAD_HEADER;
use super::condition::{Condition, combined};
use super::frame::{self, Tcp, flags};
use super::{Effect, InjectedFault, Pair};

/// All faults of a simulated network.
#[derive(Default)]
pub struct LinkFaults {
    faults: BTreeMap<u32, InjectedFault>,
    /// Healed faults whose connections are still followed; see [`Network`](super::Network).
    followed: BTreeMap<u32, InjectedFault>,
    conditions: BTreeMap<Pair, Condition>,
    calls: Calls,
    strikes: Strikes,
}

/// A TCP segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    /// The sequence number of its first byte.
    pub sequence: u32,
    /// The sequence number of the byte that its sender expects next.
    pub acknowledged: u32,
    /// True if it opens a connection, or answers a segment that does.
    pub opens: bool,
    pub payload: &'a [u8],
}

/// The decision on a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentFate {
    /// The segment is delivered, this much late.
    Late(Duration),
    /// These segments are delivered in its place, this much late: each with its sender, its receiver, and its payload.
    Replaced(Vec<(SocketAddrV4, SocketAddrV4, Vec<u8>)>, Duration),
    /// The segment is lost, and will be sent again.
    Lost,
    /// The segment is held until it is released, or forever.
    Withheld,
    /// The segment is lost, and both ends of its connection get a reset.
    Reset,
    /// The segment is lost, and the connection ends for both ends, as if the other end had closed it.
    Closed,
}

/// Held data that a healed fault releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// These bytes continue from one end to the other.
    Bytes { from: SocketAddrV4, to: SocketAddrV4, payload: Vec<u8> },
    /// Both ends of this connection get a reset.
    Reset { from: SocketAddrV4, to: SocketAddrV4 },
}

impl LinkFaults {
    pub fn new() -> LinkFaults {
        let strikes = Strikes::default();
        LinkFaults { calls: Calls::new(strikes.clone()), strikes, ..LinkFaults::default() }
    }

    /// Applies an effect to these links; if the effect is invalid, the error says why.
    pub fn inject(&mut self, fault: u32, pairs: &[Pair], effect: Effect) -> Result<String, String> {
        let is_there = self.faults.contains_key(&fault) || self.followed.contains_key(&fault);
        super::check(is_there, fault, pairs, &effect)?;
        self.strikes.arm(fault);
        let text = match &effect {
            Effect::Drop => "cut",
            Effect::Lose { .. } => "lose packets",
            Effect::Delay { .. } => "slow",
            Effect::Reset => "reset connections",
            Effect::Command(_) => "watched",
        };
        let pairs: BTreeSet<Pair> = pairs.iter().copied().collect();
        let text = format!("{} {} {text}", pairs.len(), if pairs.len() == 1 { "link" } else { "links" });
        self.faults.insert(fault, InjectedFault { effect, pairs });
        self.change();
        Ok(text)
    }

    /// Undoes a fault; returns the data that it held, and its links. `None` if there is no such fault.
    pub fn heal(&mut self, fault: u32) -> Option<(Vec<Released>, BTreeSet<Pair>)> {
        let healed = self.faults.remove(&fault)?;
        let left = super::left_by(&healed, &self.strikes.so_far(fault, true));
        self.followed.extend(left.map(|left| (fault, left)));
        let frames = self.change();
        self.strikes.forget(fault);
        Some((frames.iter().filter_map(|frame| released(frame)).collect(), healed.pairs))
    }

    /// Undoes all faults.
    pub fn heal_all(&mut self) {
        *self = LinkFaults::new();
    }

    pub fn in_effect(&self) -> Vec<u32> {
        self.faults.keys().copied().collect()
    }

    /// See [`Network::strike`](super::Network::strike).
    pub fn strike(&self, fault: u32, disarm: bool) -> SoFar {
        self.strikes.so_far(fault, disarm)
    }

    /// Decides on a segment; `draw` returns a uniform random number from 0 to 1.
    pub fn pass(&mut self, segment: &Segment<'_>, mut draw: impl FnMut() -> f64) -> SegmentFate {
        let link = (*segment.from.ip(), *segment.to.ip());
        let Some(condition) = self.conditions.get(&link).copied() else { return SegmentFate::Late(Duration::ZERO) };
        if condition.cut || (condition.pass < 1.0 && draw() >= condition.pass) {
            return SegmentFate::Lost;
        }
        if condition.reset {
            return SegmentFate::Reset;
        }
        let mut replaced = None;
        if condition.calls {
            match self.calls.treat(&framed(segment)) {
                Treatment::PassOn => {}
                Treatment::Withheld => return SegmentFate::Withheld,
                Treatment::Answered(frames) if frames.iter().any(|frame| has(frame, flags::FIN)) => {
                    return SegmentFate::Closed;
                }
                Treatment::Answered(_) => return SegmentFate::Reset,
                Treatment::Replaced(frames) => {
                    let all: Vec<_> = frames.iter().filter_map(|frame| carried(frame)).collect();
                    // If only sequence numbers changed, the segment itself is delivered.
                    let is_as_before = matches!(&all[..], [(from, _, payload)] if (*from, &payload[..]) == (segment.from, segment.payload));
                    replaced = Some(all).filter(|_| !is_as_before);
                }
            }
        }
        let (least, most) = (condition.shortest_delay(), condition.longest_delay());
        let late = if least == most { least } else { least + (most - least).mul_f64(draw()) };
        match replaced {
            Some(all) => SegmentFate::Replaced(all, late),
            None => SegmentFate::Late(late),
        }
    }

    /// Puts exactly the faults and the followed connections in effect; returns the frames to send at once.
    fn change(&mut self) -> Vec<Vec<u8>> {
        let all = self.followed.iter().chain(&self.faults).map(|(fault, ordered)| (*fault, ordered.clone())).collect();
        self.conditions = combined(BTreeMap::values(&all));
        let calls: BTreeMap<u32, Ordered> = super::calls_among(&all);
        self.calls.arm(&calls)
    }
}

/// A segment as a captured frame.
fn framed(segment: &Segment<'_>) -> Vec<u8> {
    let header = Tcp {
        from_port: segment.from.port(),
        to_port: segment.to.port(),
        sequence: segment.sequence,
        acknowledged: segment.acknowledged,
        flags: match (segment.opens, segment.acknowledged) {
            (true, 0) => flags::SYN,
            (true, _) => flags::SYN | flags::ACK,
            (false, _) => flags::ACK,
        },
        length: 0,
    };
    let ends = (*segment.from.ip(), *segment.to.ip());
    let frame = frame::segment(([2; 6], [4; 6]), ends, 0, &header, segment.payload, 1024);
    [&[0; OFFLOAD_HEADER], &frame[..]].concat()
}

fn has(captured: &[u8], flag: u8) -> bool {
    let packet = captured.get(OFFLOAD_HEADER..).and_then(frame::ipv4);
    packet.and_then(|packet| frame::tcp(&packet)).is_some_and(|segment| segment.flags & flag != 0)
}

fn released(captured: &[u8]) -> Option<Released> {
    let (from, to, payload) = carried(captured)?;
    Some(if has(captured, flags::RST) { Released::Reset { from, to } } else { Released::Bytes { from, to, payload } })
}

/// The sender, the receiver and the payload of a frame.
fn carried(captured: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4, Vec<u8>)> {
    let packet = frame::ipv4(captured.get(OFFLOAD_HEADER..)?)?;
    let segment = frame::tcp(&packet)?;
    let (from, to) = (SocketAddrV4::new(packet.from, segment.from_port), SocketAddrV4::new(packet.to, segment.to_port));
    Some((from, to, frame::content(&packet).to_vec()))
}
