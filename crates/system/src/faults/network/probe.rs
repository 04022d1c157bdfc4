//! Observes packets between members, from outside the members.
//!
//! To check the link from X to Y, it sends X an echo request that claims to come from Y. X's kernel then sends an echo reply to
//! Y, over this link. A packet socket sees the reply enter the bridge and, unless a fault stops it, leave the bridge. Y's kernel
//! ignores a reply that it did not ask for. This works even for paused members, since their kernel answers. For TCP, X gets a SYN
//! to a closed port, and answers with an RST.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::capture::{Frames, PacketSocket, Received};
use super::frame::{self, ETHERTYPE_ARP, ETHERTYPE_IPV4, Mac, Tcp, flags};
use super::links::Bridge;
use super::reset::FORGED;
use super::{Ends, Pair, filter};
use model::topology::REDIS_PORT;

/// A member that has not sent its MAC address after all these waits is gone.
const ARP_WAITS_MS: [u64; 4] = [3, 10, 30, 100];
/// How many frames to send before reading the answers.
const BATCH: usize = 32;
/// A port that is usually closed (tcpmux). If a program listens there, the answer is a SYN-ACK, which serves as well.
const CLOSED_PORT: u16 = 1;
/// If an RST was forged, the segment itself leaves within this time, or never.
const TAKEN_AFTER: Duration = Duration::from_millis(2);

/// The packet that X must send to Y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    Echo,
    Tcp,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub pair: Pair,
    pub kind: ProbeKind,
    /// How long the probe may take to enter the bridge.
    pub entry: Duration,
    /// How long the probe may take from entering to leaving.
    pub transit: Duration,
}

/// The observations of one probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trace {
    pub entered: Option<Instant>,
    pub left: Option<Instant>,
    /// When the forged RST left in its place.
    pub forged: Option<Instant>,
    /// The index of the port where the probe entered.
    port: u32,
    /// When the kernel saw the probe enter and leave, by the wall clock.
    stamps: (Option<Duration>, Option<Duration>),
}

impl Trace {
    /// The time from entering to leaving. It uses the kernel's timestamps, because a late reader would read both frames at almost
    /// the same time.
    pub fn transit(&self) -> Option<Duration> {
        let read = self.left?.duration_since(self.entered?);
        let stamped = self.stamps.0.zip(self.stamps.1).map(|(entered, left)| left.saturating_sub(entered));
        Some(stamped.unwrap_or(read))
    }
}

pub(super) struct Prober {
    socket: PacketSocket,
    /// The identifier of all echo requests; also the port that TCP probes claim to come from.
    identifier: u16,
    /// Distinguishes this prober's probes from all others.
    nonce: u64,
    /// The number of the next probe.
    next: u32,
    buffer: Vec<u8>,
}

impl Prober {
    /// Fails if packet sockets are not allowed.
    pub fn open() -> io::Result<Prober> {
        let socket = PacketSocket::open(Frames::BothWays, &filter::nothing())?;
        let nonce = getrandom::u64().map_err(io::Error::other)?;
        // A port in the range that systems assign last. The cast takes the lowest bits.
        let identifier = 61_000 + (nonce as u16) % 4_000;
        // Longer frames are not from this prober.
        Ok(Prober { socket, identifier, nonce, next: 0, buffer: vec![0; 70 << 10] })
    }

    /// Sends the server a segment that claims to come from the client's end of a connection, with a sequence number that is
    /// almost certainly wrong. The server answers with the number that it expects (RFC 9293, 3.10.7.4). This changes nothing for
    /// either end.
    pub fn provoke(
        &mut self,
        bridge: &Bridge,
        macs: &BTreeMap<Ipv4Addr, Mac>,
        (client, port, server): Ends,
    ) -> io::Result<()> {
        let (Some(from), Some(to)) = (macs.get(&client), macs.get(&server)) else { return Ok(()) };
        let sequence = getrandom::u32().map_err(io::Error::other)?;
        let header =
            Tcp { from_port: port, to_port: REDIS_PORT, sequence, acknowledged: 0, flags: flags::ACK, length: 0 };
        let forged = frame::segment((*from, *to), (client, server), FORGED, &header, &[], 0);
        self.socket.send(bridge.index, ETHERTYPE_IPV4, &forged)
    }

    /// The MAC addresses of the members that answer; the others are gone.
    pub fn who_is_there(
        &mut self,
        bridge: &Bridge,
        addresses: &BTreeSet<Ipv4Addr>,
    ) -> io::Result<BTreeMap<Ipv4Addr, Mac>> {
        self.socket.set_filter(&filter::answers(bridge.mac, self.identifier))?;
        let mut found = BTreeMap::new();
        for wait_ms in ARP_WAITS_MS {
            for address in addresses.iter().filter(|address| !found.contains_key(*address)).collect::<Vec<_>>() {
                self.socket.send(bridge.index, ETHERTYPE_ARP, &frame::arp_request(bridge.mac, *address))?;
            }
            let end = Instant::now() + Duration::from_millis(wait_ms);
            loop {
                self.read(|bytes, _| {
                    if let Some((address, mac)) = frame::arp_answer(bytes, bridge.mac) {
                        found.insert(address, mac);
                    }
                })?;
                if addresses.iter().all(|address| found.contains_key(address)) {
                    return Ok(found);
                }
                if !self.wait_until(end)? {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Sends the probes and follows each until it has left the bridge or its time is up. `None` if frames were missed: then an
    /// unseen frame proves nothing. Members without a MAC address are not probed.
    pub fn follow(
        &mut self,
        bridge: &Bridge,
        macs: &BTreeMap<Ipv4Addr, Mac>,
        probes: &[Probe],
    ) -> io::Result<Option<Vec<Trace>>> {
        self.socket.set_filter(&filter::answers(bridge.mac, self.identifier))?;
        self.socket.missed()?;
        let first = self.next;
        self.next = first.wrapping_add(u32::try_from(probes.len()).unwrap_or(u32::MAX));
        let mut traces = vec![Trace::default(); probes.len()];
        for (at, probe) in probes.iter().enumerate() {
            if let Some(mac) = macs.get(&probe.pair.0) {
                let number = first.wrapping_add(at as u32);
                self.socket.send(bridge.index, ETHERTYPE_IPV4, &self.request(bridge.mac, *mac, probe, number))?;
            }
            if at % BATCH == BATCH - 1 {
                self.note(bridge, probes, first, &mut traces)?;
            }
        }
        let sent = Instant::now();
        loop {
            self.note(bridge, probes, first, &mut traces)?;
            let next = probes.iter().zip(&traces).filter_map(|(probe, trace)| settles_at(probe, trace, sent)).max();
            let Some(next) = next else { break };
            if !self.wait_until(next)? {
                break;
            }
        }
        let missed = self.socket.missed()?;
        self.socket.set_filter(&filter::nothing())?;
        Ok((missed == 0).then_some(traces))
    }

    /// Builds a frame that makes `probe.pair.0` send a packet to `probe.pair.1`.
    fn request(&self, own: Mac, mac: Mac, probe: &Probe, number: u32) -> Vec<u8> {
        let (answers, hears) = probe.pair;
        match probe.kind {
            ProbeKind::Echo => {
                let payload = [&self.nonce.to_be_bytes()[..], &number.to_be_bytes()].concat();
                // The payload contains the whole number.
                frame::echo_request((own, mac), (hears, answers), (self.identifier, number as u16), &payload)
            }
            ProbeKind::Tcp => {
                let header = Tcp {
                    from_port: self.identifier,
                    to_port: CLOSED_PORT,
                    sequence: self.first_sequence().wrapping_add(number),
                    acknowledged: 0,
                    flags: flags::SYN,
                    length: 0,
                };
                frame::segment((own, mac), (hears, answers), 0, &header, &[], 1024)
            }
        }
    }

    fn first_sequence(&self) -> u32 {
        // Half of the nonce is random enough.
        self.nonce as u32
    }

    /// Reads all waiting frames and records them in the traces.
    fn note(&mut self, bridge: &Bridge, probes: &[Probe], first: u32, traces: &mut [Trace]) -> io::Result<()> {
        let (nonce, identifier, first_sequence) = (self.nonce.to_be_bytes(), self.identifier, self.first_sequence());
        self.read(|bytes, received| {
            let (interface, outgoing) = (received.interface, received.outgoing);
            let Some(packet) = frame::ipv4(bytes).filter(|_| bridge.ports.contains(&interface)) else { return };
            let number = if let Some((found, _, payload)) = frame::echo_reply(&packet) {
                let number = payload.strip_prefix(&nonce).filter(|_| found == identifier);
                number.and_then(|number| number.get(..4)?.try_into().ok()).map(u32::from_be_bytes)
            } else {
                let ours = frame::tcp(&packet).filter(|tcp| (tcp.from_port, tcp.to_port) == (CLOSED_PORT, identifier));
                ours.map(|tcp| tcp.acknowledged.wrapping_sub(1).wrapping_sub(first_sequence))
            };
            let at = number.map(|number| number.wrapping_sub(first) as usize);
            let Some((at, probe)) = at.and_then(|at| Some((at, probes.get(at)?))) else { return };
            if probe.pair != (packet.from, packet.to) {
                return;
            }
            let (trace, now) = (&mut traces[at], Instant::now());
            if !outgoing {
                trace.entered.get_or_insert(now);
                trace.stamps.0 = trace.stamps.0.or(received.seen);
                trace.port = interface;
            } else if packet.identification == FORGED && probe.kind == ProbeKind::Tcp {
                trace.forged.get_or_insert(now);
            } else if interface != trace.port {
                trace.left.get_or_insert(now);
                trace.stamps.1 = trace.stamps.1.or(received.seen);
            }
        })
    }

    /// Calls `each` with every waiting frame.
    fn read(&mut self, mut each: impl FnMut(&[u8], &Received)) -> io::Result<()> {
        while let Some(received) = self.socket.receive(&mut self.buffer)? {
            each(&self.buffer[..received.length], &received);
        }
        Ok(())
    }

    /// Waits until frames can be read; `false` if `end` comes first.
    fn wait_until(&self, end: Instant) -> io::Result<bool> {
        let Some(left) = end.checked_duration_since(Instant::now()) else { return Ok(false) };
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The time until which to wait for this probe; `None` if it needs no more waiting.
fn settles_at(probe: &Probe, trace: &Trace, sent: Instant) -> Option<Instant> {
    match trace {
        Trace { left: Some(_), .. } => None,
        Trace { entered: Some(entered), forged: Some(_), .. } => Some(*entered + TAKEN_AFTER.min(probe.transit)),
        Trace { entered: Some(entered), .. } => Some(*entered + probe.transit),
        Trace { entered: None, .. } => Some(sent + probe.entry),
    }
}
