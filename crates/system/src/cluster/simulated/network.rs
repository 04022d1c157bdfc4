//! Connections between machines, their segments, and the effects of faults on them.
//!
//! A connection is a [`SimulatedLink`] with a lane in each direction. A segment is either in flight, and arrives after the
//! segments before it, or lost. A lost segment and all segments behind it wait until it is sent again. Timeouts are Linux's: one
//! second for the segments that open a connection, 200 ms for others, and twice as long after each loss.
//!
//! The network knows no machines: each result that concerns the outside is a [`NetworkEffect`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use simulated_redis::Connection;
use tokio::io::ReadBuf;

use super::Distance;
use super::servers::ServerEvent;
use crate::faults::{LinkFaults, Pair, Released, Segment, SegmentFate};

/// The first timeout of a segment that opens a connection.
const OPENING_TIMEOUT: Duration = Duration::from_secs(1);
/// The first timeout of any other segment.
const TIMEOUT: Duration = Duration::from_millis(200);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The most bytes in one segment.
const LONGEST_SEGMENT: usize = 32 << 10;
/// If a segment is in flight for longer than this, a fault is delaying it.
const HELD_UP: Duration = Duration::from_millis(10);
/// The first port for a machine's outgoing connections.
const FIRST_PORT: u16 = 40_000;

/// The direction on a connection: from the end that opened it, or towards that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// One or more segments may arrive.
    Arrive(u64, Direction),
    SendAgain(u64, Direction),
}

/// The results of an event in the network, in the order in which the world must carry them out.
pub(super) enum NetworkEffect {
    At(Duration, Due),
    /// The server with this PID at this address gets the event.
    Tell(SocketAddrV4, u32, ServerEvent),
}

/// A machine's reaction to a request to open a connection.
pub(super) enum AcceptDecision {
    Process(u32),
    Refuses,
    /// The machine does not answer.
    Silent,
}

/// The current time and surroundings of an event in the network.
pub(super) struct Tick<'w> {
    /// The time since the start of the simulated world.
    pub now: Duration,
    pub rng: &'w mut ChaCha8Rng,
    pub listens: &'w dyn Fn(SocketAddrV4) -> AcceptDecision,
    pub effects: Vec<NetworkEffect>,
}

impl Tick<'_> {
    /// A random number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.rng.random()
    }

    fn schedule(&mut self, at: Duration, due: Due) {
        self.effects.push(NetworkEffect::At(at, due));
    }

    fn tell(&mut self, server: SocketAddrV4, pid: u32, happened: ServerEvent) {
        self.effects.push(NetworkEffect::Tell(server, pid, happened));
    }
}

pub(super) struct Network {
    pub faults: LinkFaults,
    distance: Distance,
    links: Links,
    next_ports: BTreeMap<Ipv4Addr, u16>,
}

/// Connections by their numbers; a number is never reused.
#[derive(Default)]
struct Links(Vec<Option<Box<SimulatedLink>>>);

struct SimulatedLink {
    /// The end that opened the connection, and the end that accepts it.
    ends: [SocketAddrV4; 2],
    sides: [LinkSide; 2],
    lanes: [LinkLane; 2],
}

/// The process or task at an end of a connection.
enum LinkSide {
    /// The connection is still being opened.
    NotYet,
    Task(TaskEnd),
    Process {
        pid: u32,
        connection: Connection,
    },
    Gone,
}

#[derive(Default)]
struct TaskEnd {
    /// The result of opening the connection, once it is known.
    opened: Option<Result<(), io::ErrorKind>>,
    /// Bytes that have arrived and were not read.
    unread: BytesMut,
    /// How the connection ended: in order, or with an error. None if it has not ended.
    ended: Option<Result<(), io::ErrorKind>>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct LinkLane {
    unsent: VecDeque<SegmentContent>,
    /// True if the first unsent segment was lost and will be sent again.
    waits: bool,
    /// How long it will wait if it is lost once more.
    timeout: Option<Duration>,
    /// Segments in flight, with their arrival times.
    flying: VecDeque<(Duration, SegmentContent)>,
    /// The sequence number of the next byte to send.
    sequence: u32,
    /// The sequence number of the next byte to arrive.
    expected: u32,
    /// True if a fault withholds the end of the connection.
    withheld_close: bool,
}

enum SegmentContent {
    Open,
    Accept,
    Refuse,
    Bytes(Vec<u8>),
    Close,
}

impl Direction {
    fn from(self) -> usize {
        self as usize
    }

    fn to(self) -> usize {
        1 - self.from()
    }

    fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Back,
            Direction::Back => Direction::Forward,
        }
    }
}

impl Network {
    pub fn new(distance: Distance) -> Network {
        Network { faults: LinkFaults::new(), distance, links: Links::default(), next_ports: BTreeMap::new() }
    }

    fn link(&mut self, link: u64) -> Option<&mut SimulatedLink> {
        self.links.get_mut(link)
    }

    fn open(&mut self, from: Ipv4Addr, to: SocketAddrV4, side: LinkSide) -> u64 {
        let port = self.next_ports.entry(from).or_insert(FIRST_PORT);
        let own = SocketAddrV4::new(from, *port);
        *port = port.checked_add(1).unwrap_or(FIRST_PORT);
        let (sides, lanes) = ([side, LinkSide::NotYet], [LinkLane::default(), LinkLane::default()]);
        self.links.add(SimulatedLink { ends: [own, to], sides, lanes })
    }

    /// The link that one of its ends knows by this process and connection.
    fn of_process(&self, pid: u32, connection: Connection) -> Option<(u64, Direction)> {
        let is_it = |side: &LinkSide| matches!(side, LinkSide::Process { pid: its, connection: called } if (*its, *called) == (pid, connection));
        // On the accepting side, the connection's number is the link's number.
        if let Connection::Accepted(link) = connection {
            return self.links.get(link).filter(|found| is_it(&found.sides[1])).map(|_| (link, Direction::Back));
        }
        self.links.iter().find(|(_, link)| is_it(&link.sides[0])).map(|(link, _)| (link, Direction::Forward))
    }
}

impl Links {
    fn add(&mut self, link: SimulatedLink) -> u64 {
        self.0.push(Some(Box::new(link)));
        self.0.len() as u64 - 1
    }

    fn get(&self, number: u64) -> Option<&SimulatedLink> {
        self.0.get(usize::try_from(number).ok()?)?.as_deref()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut SimulatedLink> {
        self.0.get_mut(usize::try_from(number).ok()?)?.as_deref_mut()
    }

    fn remove(&mut self, number: u64) {
        if let Some(link) = usize::try_from(number).ok().and_then(|number| self.0.get_mut(number)) {
            *link = None;
        }
    }

    /// The existing links, the oldest first.
    fn iter(&self) -> impl Iterator<Item = (u64, &SimulatedLink)> {
        (0..).zip(&self.0).filter_map(|(number, link)| Some((number, link.as_deref()?)))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut SimulatedLink)> {
        (0..).zip(&mut self.0).filter_map(|(number, link)| Some((number, link.as_deref_mut()?)))
    }
}

impl SimulatedLink {
    fn is_over(&self) -> bool {
        let never_left = matches!(self.lanes[0].unsent.front(), Some(SegmentContent::Open));
        match &self.sides {
            [LinkSide::Gone, LinkSide::Gone] => true,
            [LinkSide::Gone, LinkSide::NotYet] => never_left,
            _ => false,
        }
    }

    fn task(&mut self) -> Option<&mut TaskEnd> {
        match &mut self.sides[0] {
            LinkSide::Task(end) => Some(end),
            _ => None,
        }
    }
}

impl TaskEnd {
    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    fn wait(&mut self, context: &Context<'_>) {
        self.waker = Some(context.waker().clone());
    }

    fn end(&mut self, how: Result<(), io::ErrorKind>) {
        self.opened.get_or_insert(Err(io::ErrorKind::ConnectionReset));
        self.ended.get_or_insert(how);
        self.wake();
    }
}

impl Network {
    /// Starts to open a connection for a task on this machine.
    pub fn connect_task(&mut self, from: Ipv4Addr, to: SocketAddrV4, tick: &mut Tick) -> u64 {
        let link = self.open(from, to, LinkSide::Task(TaskEnd::default()));
        self.send(link, Direction::Forward, SegmentContent::Open, tick);
        link
    }

    /// Starts to open a connection for a server.
    pub fn connect_process(
        &mut self,
        from: Ipv4Addr,
        pid: u32,
        connection: Connection,
        to: SocketAddrV4,
        tick: &mut Tick,
    ) {
        let link = self.open(from, to, LinkSide::Process { pid, connection });
        self.send(link, Direction::Forward, SegmentContent::Open, tick);
    }

    pub fn poll_connected(&mut self, link: u64, context: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(end) = self.link(link).and_then(SimulatedLink::task) else { return Poll::Ready(Err(broken())) };
        match end.opened {
            Some(opened) => Poll::Ready(opened.map_err(io::Error::from)),
            None => {
                end.wait(context);
                Poll::Pending
            }
        }
    }

    pub fn poll_read(&mut self, link: u64, context: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(end) = self.link(link).and_then(SimulatedLink::task) else { return Poll::Ready(Ok(())) };
        if !end.unread.is_empty() {
            let length = end.unread.len().min(into.remaining());
            into.put_slice(&end.unread[..length]);
            end.unread.advance(length);
            return Poll::Ready(Ok(()));
        }
        match end.ended {
            Some(ended) => Poll::Ready(ended.map_err(io::Error::from)),
            None => {
                end.wait(context);
                Poll::Pending
            }
        }
    }

    pub fn send_from_task(&mut self, link: u64, bytes: &[u8], tick: &mut Tick) -> io::Result<usize> {
        let Some(end) = self.link(link).and_then(SimulatedLink::task) else { return Err(broken()) };
        if let Some(ended) = end.ended {
            return Err(ended.err().map_or_else(broken, io::Error::from));
        }
        self.send_bytes(link, Direction::Forward, bytes, tick);
        Ok(bytes.len())
    }

    pub fn close_from_task(&mut self, link: u64, tick: &mut Tick) {
        self.close(link, Direction::Forward, tick);
    }

    pub fn send_from_process(&mut self, pid: u32, connection: Connection, bytes: &[u8], tick: &mut Tick) {
        if let Some((link, direction)) = self.of_process(pid, connection) {
            self.send_bytes(link, direction, bytes, tick);
        }
    }

    pub fn close_from_process(&mut self, pid: u32, connection: Connection, tick: &mut Tick) {
        if let Some((link, direction)) = self.of_process(pid, connection) {
            self.close(link, direction, tick);
        }
    }

    /// Closes all connections of a server that has ended.
    pub fn close_all_of(&mut self, ended: u32, tick: &mut Tick) {
        let is_its = |side: &LinkSide| matches!(side, LinkSide::Process { pid, .. } if *pid == ended);
        let links = self.links.iter();
        let its: Vec<(u64, Direction)> = links
            .filter_map(|(number, link)| match &link.sides {
                [one, _] if is_its(one) => Some((number, Direction::Forward)),
                [_, other] if is_its(other) => Some((number, Direction::Back)),
                _ => None,
            })
            .collect();
        for (link, direction) in its {
            self.close(link, direction, tick);
        }
    }

    fn close(&mut self, number: u64, direction: Direction, tick: &mut Tick) {
        let Some(link) = self.link(number) else { return };
        if matches!(link.sides[direction.from()], LinkSide::Gone) {
            return;
        }
        link.sides[direction.from()] = LinkSide::Gone;
        if link.is_over() {
            self.links.remove(number);
        } else {
            self.send(number, direction, SegmentContent::Close, tick);
        }
    }

    fn send_bytes(&mut self, link: u64, direction: Direction, bytes: &[u8], tick: &mut Tick) {
        for piece in bytes.chunks(LONGEST_SEGMENT) {
            self.send(link, direction, SegmentContent::Bytes(piece.to_vec()), tick);
        }
    }

    fn send(&mut self, number: u64, direction: Direction, content: SegmentContent, tick: &mut Tick) {
        let Some(link) = self.link(number) else { return };
        let lane = &mut link.lanes[direction.from()];
        lane.unsent.push_back(content);
        if !lane.waits {
            self.transmit(number, direction, tick);
        }
    }

    pub fn send_again(&mut self, number: u64, direction: Direction, tick: &mut Tick) {
        let Some(link) = self.link(number) else { return };
        link.lanes[direction.from()].waits = false;
        self.transmit(number, direction, tick);
    }

    /// Sends all unsent segments of a lane, until one is lost.
    fn transmit(&mut self, number: u64, direction: Direction, tick: &mut Tick) {
        let now = tick.now;
        loop {
            let (first, second) = (tick.draw(), tick.draw());
            let Some(link) = self.links.get_mut(number) else { return };
            let (from, to) = (link.ends[direction.from()], link.ends[direction.to()]);
            let expected = link.lanes[direction.to()].expected;
            let lane = &mut link.lanes[direction.from()];
            let Some(content) = lane.unsent.front() else { return };
            let payload: &[u8] = if let SegmentContent::Bytes(bytes) = content { bytes } else { &[] };
            let opens = matches!(content, SegmentContent::Open | SegmentContent::Accept | SegmentContent::Refuse);
            let acknowledged = if matches!(content, SegmentContent::Open) { 0 } else { expected };
            let segment = Segment { from, to, sequence: lane.sequence, acknowledged, opens, payload };
            let transit = self.distance.transit(first);
            match self.faults.pass(&segment, || second) {
                SegmentFate::Late(later) => {
                    let Some(content) = lane.unsent.pop_front() else { return };
                    lane.sequence = lane.sequence.wrapping_add(content.length());
                    if !opens {
                        lane.timeout = None;
                    }
                    let at = (now + transit + later).max(lane.flying.back().map_or(now, |(last, _)| *last));
                    lane.flying.push_back((at, content));
                    tick.schedule(at, Due::Arrive(number, direction));
                }
                SegmentFate::Replaced(all, later) => {
                    let Some(content) = lane.unsent.pop_front() else { return };
                    lane.sequence = lane.sequence.wrapping_add(content.length());
                    lane.timeout = None;
                    for (sender, _, payload) in all {
                        let way = if sender == from { direction } else { direction.opposite() };
                        let lane = &mut link.lanes[way.from()];
                        let at = (now + transit + later).max(lane.flying.back().map_or(now, |(last, _)| *last));
                        lane.flying.push_back((at, SegmentContent::Bytes(payload)));
                        tick.schedule(at, Due::Arrive(number, way));
                    }
                }
                SegmentFate::Lost => {
                    let timeout = lane.timeout.unwrap_or(if opens { OPENING_TIMEOUT } else { TIMEOUT });
                    (lane.waits, lane.timeout) = (true, Some((timeout * 2).min(LONGEST_TIMEOUT)));
                    tick.schedule(now + timeout, Due::SendAgain(number, direction));
                    return;
                }
                SegmentFate::Withheld => {
                    let Some(content) = lane.unsent.pop_front() else { return };
                    lane.sequence = lane.sequence.wrapping_add(content.length());
                    lane.withheld_close |= matches!(content, SegmentContent::Close);
                }
                SegmentFate::Reset => return self.end(number, Err(io::ErrorKind::ConnectionReset), tick),
                SegmentFate::Closed => return self.end(number, Ok(()), tick),
            }
        }
    }

    /// Delivers the next segment of a lane that is due; false if none is due. The effects of one segment come before the next
    /// segment arrives.
    pub fn arrive(&mut self, number: u64, direction: Direction, tick: &mut Tick) -> bool {
        let Some(link) = self.link(number) else { return false };
        let lane = &mut link.lanes[direction.from()];
        if lane.flying.front().is_none_or(|(at, _)| *at > tick.now) {
            return false;
        }
        let Some((_, content)) = lane.flying.pop_front() else { return false };
        lane.expected = lane.expected.wrapping_add(content.length());
        self.deliver(number, direction, content, tick);
        true
    }

    fn deliver(&mut self, number: u64, direction: Direction, content: SegmentContent, tick: &mut Tick) {
        let Some(link) = self.links.get_mut(number) else { return };
        let (peer, local) = (link.ends[direction.from()], link.ends[direction.to()]);
        let side = &mut link.sides[direction.to()];
        if let SegmentContent::Open = content {
            return self.accept(number, peer, local, tick);
        }
        match (side, content) {
            (LinkSide::Task(end), SegmentContent::Accept) => {
                end.opened = Some(Ok(()));
                end.wake();
            }
            (LinkSide::Task(end), SegmentContent::Refuse) => {
                end.opened = Some(Err(io::ErrorKind::ConnectionRefused));
                end.wake();
            }
            (LinkSide::Task(end), SegmentContent::Bytes(bytes)) => {
                end.unread.extend_from_slice(&bytes);
                end.wake();
            }
            (LinkSide::Task(end), SegmentContent::Close) => end.end(Ok(())),
            // Empty bytes only triggered a fault.
            (LinkSide::Process { .. }, SegmentContent::Bytes(bytes)) if bytes.is_empty() => {}
            (LinkSide::Process { pid, connection }, content) => {
                let (pid, connection) = (*pid, *connection);
                let happened = match content {
                    SegmentContent::Bytes(bytes) => ServerEvent::Received(connection, bytes),
                    SegmentContent::Accept => ServerEvent::Connected(connection),
                    SegmentContent::Refuse => ServerEvent::Refused(connection),
                    SegmentContent::Close | SegmentContent::Open => ServerEvent::Closed(connection),
                };
                if matches!(happened, ServerEvent::Refused(_) | ServerEvent::Closed(_)) {
                    link.sides[direction.to()] = LinkSide::Gone;
                }
                tick.tell(local, pid, happened);
            }
            (LinkSide::NotYet | LinkSide::Gone, _) | (LinkSide::Task(_), SegmentContent::Open) => {}
        }
        if self.link(number).is_some_and(|link| link.is_over()) {
            self.links.remove(number);
        }
    }

    /// Handles a request to open a connection that has arrived.
    fn accept(&mut self, number: u64, peer: SocketAddrV4, local: SocketAddrV4, tick: &mut Tick) {
        let pid = match (tick.listens)(local) {
            AcceptDecision::Process(pid) => pid,
            AcceptDecision::Silent => return self.ask_again(number, tick),
            AcceptDecision::Refuses => {
                if let Some(link) = self.link(number) {
                    link.sides[1] = LinkSide::Gone;
                }
                return self.send(number, Direction::Back, SegmentContent::Refuse, tick);
            }
        };
        let connection = Connection::Accepted(number);
        if let Some(link) = self.link(number) {
            link.sides[1] = LinkSide::Process { pid, connection };
        }
        // The acceptance is sent before anything that the server sends at once.
        self.send(number, Direction::Back, SegmentContent::Accept, tick);
        tick.tell(local, pid, ServerEvent::Accepted { connection, peer, local });
    }

    /// A request to open a connection got no answer: it is sent again after a while.
    fn ask_again(&mut self, number: u64, tick: &mut Tick) {
        let Some(link) = self.link(number) else { return };
        let lane = &mut link.lanes[Direction::Forward.from()];
        let timeout = lane.timeout.unwrap_or(OPENING_TIMEOUT);
        lane.unsent.push_front(SegmentContent::Open);
        lane.sequence = lane.sequence.wrapping_sub(SegmentContent::Open.length());
        lane.expected = lane.expected.wrapping_sub(SegmentContent::Open.length());
        (lane.waits, lane.timeout) = (true, Some((timeout * 2).min(LONGEST_TIMEOUT)));
        let at = tick.now + timeout;
        tick.schedule(at, Due::SendAgain(number, Direction::Forward));
    }

    /// Tells both ends that the connection has ended, and how. A task can still read the bytes that arrived before.
    fn end(&mut self, number: u64, how: Result<(), io::ErrorKind>, tick: &mut Tick) {
        let Some(link) = self.link(number) else { return };
        link.lanes = Default::default();
        let mut told = Vec::new();
        for (side, end) in link.sides.iter_mut().zip(link.ends) {
            match side {
                LinkSide::Task(end) => end.end(how),
                LinkSide::Process { pid, connection } => {
                    told.push((end, *pid, *connection));
                    *side = LinkSide::Gone;
                }
                LinkSide::NotYet | LinkSide::Gone => *side = LinkSide::Gone,
            }
        }
        if link.is_over() {
            self.links.remove(number);
        }
        for (address, pid, connection) in told {
            tick.tell(address, pid, ServerEvent::Closed(connection));
        }
    }

    /// Delivers the segments that a fault held and no longer holds on these links.
    pub fn release(&mut self, held: Vec<Released>, links: &BTreeSet<Pair>, tick: &mut Tick) {
        let now = tick.now;
        for held in held {
            match held {
                Released::Bytes { from, to, payload } => {
                    let Some((number, direction)) = self.between(from, to) else { continue };
                    let Some(link) = self.link(number) else { continue };
                    let lane = &mut link.lanes[direction.from()];
                    if !payload.is_empty() {
                        lane.flying.push_back((now, SegmentContent::Bytes(payload)));
                    } else if std::mem::take(&mut lane.withheld_close) {
                        lane.flying.push_back((now, SegmentContent::Close));
                    }
                    tick.schedule(now, Due::Arrive(number, direction));
                }
                Released::Reset { from, to } => {
                    if let Some((number, _)) = self.between(from, to) {
                        self.end(number, Err(io::ErrorKind::ConnectionReset), tick);
                    }
                }
            }
        }
        // Delayed segments arrive at once.
        let mut arrivals = Vec::new();
        for (number, link) in self.links.iter_mut() {
            for direction in [Direction::Forward, Direction::Back] {
                let ends = (*link.ends[direction.from()].ip(), *link.ends[direction.to()].ip());
                let lane = &mut link.lanes[direction.from()];
                if links.contains(&ends) && lane.flying.iter().any(|(at, _)| *at > now + HELD_UP) {
                    lane.flying.iter_mut().for_each(|(at, _)| *at = now);
                    arrivals.push((number, direction));
                }
            }
        }
        for (number, direction) in arrivals {
            tick.schedule(now, Due::Arrive(number, direction));
        }
    }

    /// The connection between these ends, and the direction from the first end.
    fn between(&self, from: SocketAddrV4, to: SocketAddrV4) -> Option<(u64, Direction)> {
        self.links.iter().find_map(|(number, link)| match link.ends {
            ends if ends == [from, to] => Some((number, Direction::Forward)),
            ends if ends == [to, from] => Some((number, Direction::Back)),
            _ => None,
        })
    }

    /// Makes each of these connections, given by its client and server, send an empty segment: this triggers a fault that has
    /// chosen the connection.
    pub fn provoke(&mut self, connections: &[(Ipv4Addr, u16, Ipv4Addr)], tick: &mut Tick) {
        let chosen =
            |link: &SimulatedLink| connections.contains(&(*link.ends[0].ip(), link.ends[0].port(), *link.ends[1].ip()));
        let links: Vec<u64> = self.links.iter().filter(|(_, link)| chosen(link)).map(|(number, _)| number).collect();
        for number in links {
            self.send(number, Direction::Back, SegmentContent::Bytes(Vec::new()), tick);
        }
    }
}

impl Distance {
    /// A segment's time in flight without faults, from a random number from 0 to 1.
    fn transit(self, drawn: f64) -> Duration {
        // Times in milliseconds, each with the share of segments that take at most this long.
        let times: &[(f64, u64)] = match self {
            Distance::DataCentre => &[(0.6, 1), (0.9, 2), (0.98, 3), (1.0, 8)],
            Distance::OneMachine => &[(0.9, 0), (1.0, 1)],
        };
        let (_, time) = times.iter().find(|(share, _)| drawn < *share).unwrap_or(&times[0]);
        Duration::from_millis(*time)
    }
}

impl SegmentContent {
    /// How many sequence numbers the segment uses. A segment that opens a connection counts as one byte.
    fn length(&self) -> u32 {
        match self {
            SegmentContent::Open | SegmentContent::Accept | SegmentContent::Refuse => 1,
            SegmentContent::Bytes(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            SegmentContent::Close => 0,
        }
    }
}

fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
