//! Handles packets in user space where rules alone cannot. It holds packets for a delay, answers them for a reset, and follows
//! their commands for a fault on one command ([`calls`](super::calls)).
//!
//! The rules drop the packets of these links, but only after a packet socket saw them enter the bridge. The carrier sends held
//! packets out of the bridge itself, as frames of this machine, which the rules ignore. Frames keep their flags for pending
//! checksums and segmentation, so members notice only the delay.
//!
//! While rules change, packets are both held and forwarded for some milliseconds. Then they arrive twice, which TCP ignores, but
//! they always arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::OwnedFd;

use super::calls::{Calls, Ordered, Strikes, Treatment};
use super::capture::{Frames, OFFLOAD_HEADER, PacketSocket};
use super::condition::Handling;
use super::delay::{Fate, Queue};
use super::frame::{self, ETHERTYPE_IPV4, PROTOCOL_TCP};
use super::links::{self, Bridge};
use super::{Pair, filter, reset};

/// How many frames to read before checking whether held frames are due.
const BATCH: usize = 32;
/// The most frames to read before an order is carried out: the order must not wait for members that never stop sending.
const MOST_BEFORE_AN_ORDER: usize = 8192;
/// At most once per this time does an unknown interface cause a search for new ports: a restarted member gets a new port.
const LOOK_FOR_PORTS: Duration = Duration::from_millis(50);

/// A thread that handles the packets of some links.
pub(super) struct Carrier {
    orders: Sender<CarrierOrder>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// The carrier's work since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CarrierStats {
    /// Counts by link.
    pub links: BTreeMap<Pair, Carried>,
    /// Packets that were lost because the queue had no room.
    pub no_room: u64,
    /// Frames that passed unread.
    pub missed: u64,
}

/// Counts for one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// How many packets were held.
    pub held: u64,
    /// How many segments were answered with an RST.
    pub reset: u64,
}

impl CarrierStats {
    pub fn add(&mut self, more: CarrierStats) {
        for (pair, carried) in more.links {
            let sum = self.links.entry(pair).or_default();
            sum.held += carried.held;
            sum.reset += carried.reset;
        }
        self.no_room += more.no_room;
        self.missed += more.missed;
    }

    /// Takes out the counts of these links, and all losses, on whatever link.
    pub fn take(&mut self, links: &BTreeSet<Pair>) -> CarrierStats {
        let carried = links.iter().filter_map(|pair| self.links.remove_entry(pair)).collect();
        CarrierStats { links: carried, no_room: mem::take(&mut self.no_room), missed: mem::take(&mut self.missed) }
    }
}

struct CarrierOrder {
    handling: BTreeMap<Pair, Handling>,
    calls: BTreeMap<u32, Ordered>,
    bridge: Bridge,
    done: Sender<io::Result<CarrierStats>>,
}

impl Carrier {
    /// Starts the thread in the caller's network namespace. It handles no link yet.
    pub fn start(bridge_name: &str, bridge: Bridge, strikes: Strikes) -> io::Result<Carrier> {
        let socket = PacketSocket::open(Frames::WithOffload, &filter::nothing())?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, received) = mpsc::channel();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let work = Work {
            socket,
            bridge_name: bridge_name.to_string(),
            bridge,
            handling: BTreeMap::new(),
            queue: Queue::default(),
            calls: Calls::new(strikes),
            random: ChaCha8Rng::from_seed(seed),
            stats: CarrierStats::default(),
            looked_for_ports: None,
        };
        let woken = Arc::clone(&wake);
        let thread = thread::Builder::new().name("carrier".to_string()).spawn(move || work.run(&received, &woken))?;
        Ok(Carrier { orders, wake, thread: Some(thread) })
    }

    /// From now on, handles exactly these links in user space, and arms these faults on commands. Packets that wait for a cut
    /// link are lost. Before this returns, it sends the packets of links without delay, and packets that no fault on a command
    /// holds any more.
    pub fn carry(
        &self,
        handling: BTreeMap<Pair, Handling>,
        calls: BTreeMap<u32, Ordered>,
        bridge: Bridge,
    ) -> io::Result<CarrierStats> {
        let (done, answer) = mpsc::channel();
        let ended = || io::Error::other("the thread that forwards packets ended");
        self.orders.send(CarrierOrder { handling, calls, bridge, done }).map_err(|_| ended())?;
        self.wake();
        answer.recv().map_err(|_| ended())?
    }

    fn wake(&self) {
        // Fails only if a wake-up is already pending.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // The thread ends when its sender is gone.
        self.orders = mpsc::channel().0;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    socket: PacketSocket,
    bridge_name: String,
    bridge: Bridge,
    handling: BTreeMap<Pair, Handling>,
    queue: Queue,
    calls: Calls,
    random: ChaCha8Rng,
    stats: CarrierStats,
    looked_for_ports: Option<Instant>,
}

impl Work {
    fn run(mut self, orders: &Receiver<CarrierOrder>, wake: &OwnedFd) {
        // Room for the longest IPv4 packet with its headers.
        let mut buffer = vec![0; OFFLOAD_HEADER + frame::ETHERNET + (1 << 16)];
        loop {
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
            let wait = self.queue.next_due().map(|due| due.saturating_duration_since(Instant::now()));
            // If a wait is too long for a `Timespec`, it may as well be endless.
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            if poll(&mut ready, wait.as_ref()).is_err_and(|error| error != rustix::io::Errno::INTR) {
                return;
            }
            let _ = rustix::io::read(wake, &mut [0; 8]);
            loop {
                match orders.try_recv() {
                    Ok(order) => {
                        let CarrierOrder { handling, calls, bridge, done } = order;
                        let obeyed = self.obey(handling, &calls, bridge, &mut buffer);
                        // The caller may have given up.
                        let _ = done.send(obeyed);
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.take(BATCH, &mut buffer);
            while let Some(bytes) = self.queue.pop(Instant::now()) {
                self.send(&bytes);
            }
        }
    }

    fn obey(
        &mut self,
        handling: BTreeMap<Pair, Handling>,
        calls: &BTreeMap<u32, Ordered>,
        bridge: Bridge,
        buffer: &mut [u8],
    ) -> io::Result<CarrierStats> {
        // Frames that came before the order are handled as before, and sent at once if no fault holds them now.
        self.take(MOST_BEFORE_AN_ORDER, buffer);
        let (from, to): (Vec<_>, Vec<_>) = handling.keys().copied().unzip();
        let unique = |mut addresses: Vec<_>| {
            addresses.sort_unstable();
            addresses.dedup();
            addresses
        };
        let accepted =
            if handling.is_empty() { filter::nothing() } else { filter::between(&unique(from), &unique(to)) };
        self.socket.set_filter(&accepted)?;
        let now = Instant::now();
        let fate = |pair: &Pair| match handling.get(pair) {
            Some(Handling::Cut) => Fate::Lose,
            Some(Handling::Hold { most, .. }) if !most.is_zero() => Fate::Wait(now + *most),
            _ => Fate::Send,
        };
        for bytes in self.queue.sort_out(fate) {
            self.send(&bytes);
        }
        (self.handling, self.bridge) = (handling, bridge);
        for bytes in self.calls.arm(calls) {
            self.send(&bytes);
        }
        self.stats.missed += self.socket.missed()?;
        Ok(mem::take(&mut self.stats))
    }

    /// Reads at most this many waiting frames.
    fn take(&mut self, frames: usize, buffer: &mut [u8]) {
        for _ in 0..frames {
            match self.socket.receive(buffer) {
                Ok(Some(received)) if received.outgoing => {}
                Ok(Some(received)) => {
                    if self.is_port(received.interface) {
                        self.treat(&buffer[..received.length]);
                    }
                }
                Ok(None) => return,
                Err(_) => self.stats.missed += 1,
            }
        }
    }

    fn is_port(&mut self, interface: u32) -> bool {
        if self.bridge.ports.contains(&interface) {
            return true;
        }
        if self.looked_for_ports.is_none_or(|before| before.elapsed() > LOOK_FOR_PORTS) {
            self.looked_for_ports = Some(Instant::now());
            if let Ok(bridge) = links::bridge(&self.bridge_name) {
                self.bridge = bridge;
            }
        }
        self.bridge.ports.contains(&interface)
    }

    /// Handles one packet, with its offload header, according to the link's condition.
    fn treat(&mut self, bytes: &[u8]) {
        let Some(captured) = bytes.get(OFFLOAD_HEADER..) else { return };
        let Some(packet) = frame::ipv4(captured) else { return };
        let pair = (packet.from, packet.to);
        let is_tcp = packet.protocol == PROTOCOL_TCP;
        let pass = match self.handling.get(&pair) {
            Some(Handling::Reset | Handling::Hold { reset: true, .. }) if is_tcp => {
                for forged in reset::forge(captured) {
                    self.send(&[&[0; OFFLOAD_HEADER], &forged[..]].concat());
                }
                self.stats.links.entry(pair).or_default().reset += 1;
                return;
            }
            Some(Handling::Hold { pass, .. }) => *pass,
            None | Some(Handling::Cut | Handling::Reset) => return,
        };
        if pass < 1.0 && self.random.random::<f64>() >= pass {
            return;
        }
        match self.calls.treat(bytes) {
            Treatment::PassOn => self.pass_on(pair, bytes),
            Treatment::Withheld => {}
            Treatment::Answered(forged) => forged.iter().for_each(|frame| self.send(frame)),
            Treatment::Replaced(frames) => {
                for frame in frames {
                    if let Some(packet) = frame.get(OFFLOAD_HEADER..).and_then(frame::ipv4) {
                        self.pass_on((packet.from, packet.to), &frame);
                    }
                }
            }
        }
    }

    /// Sends a packet, with its offload header, once the link's delay is over.
    fn pass_on(&mut self, pair: Pair, bytes: &[u8]) {
        let (least, most) = match self.handling.get(&pair) {
            Some(Handling::Hold { least, most, .. }) => (*least, *most),
            _ => (Duration::ZERO, Duration::ZERO),
        };
        let spread = self.random.random_range(least..=most);
        if self.queue.push(pair, Instant::now() + spread, bytes) {
            self.stats.links.entry(pair).or_default().held += 1;
        } else {
            self.stats.no_room += 1;
        }
    }

    fn send(&self, bytes: &[u8]) {
        // A frame that cannot be sent is lost, as on any network.
        let _ = self.socket.send(self.bridge.index, ETHERTYPE_IPV4, bytes);
    }
}
