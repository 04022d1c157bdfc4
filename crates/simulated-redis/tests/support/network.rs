//! A small network in virtual time: every message takes a millisecond.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use simulated_redis::{
    Action, Clocks, Config, Connection, Disk, Process, ProcessEvent, Sentinel, SentinelConfig, Server,
};

use super::{reply_length, request};

const WAY: Duration = Duration::from_millis(1);
const AT_START: Duration = Duration::from_secs(1_700_000_000);
const ASKER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 200);

#[derive(Clone)]
pub enum Program {
    Server(Config),
    Sentinel(SentinelConfig),
}

enum Running {
    Server(Box<Server>),
    Sentinel(Box<Sentinel>),
}

impl Running {
    fn process(&mut self) -> &mut dyn Process {
        match self {
            Running::Server(server) => &mut **server,
            Running::Sentinel(sentinel) => &mut **sentinel,
        }
    }
}

struct Member {
    program: Program,
    running: Option<Running>,
    disk: Disk,
}

type End = (Ipv4Addr, Connection);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Open { from: End, to: SocketAddrV4 },
    Opened(End),
    Data(End, Vec<u8>),
    Close(End),
}

#[derive(Default)]
pub struct Network {
    now: Duration,
    members: BTreeMap<Ipv4Addr, Member>,
    peers: BTreeMap<End, End>,
    queue: BinaryHeap<Reverse<(Duration, u64, Message)>>,
    sequence: u64,
    /// Members that hear and say nothing.
    cut_off: BTreeSet<Ipv4Addr>,
    answers: BTreeMap<Connection, Vec<u8>>,
}

impl Network {
    pub fn now(&self) -> Duration {
        self.now
    }

    fn clocks(&self) -> Clocks {
        Clocks { wall: AT_START + self.now, monotonic: self.now }
    }

    pub fn add(&mut self, at: SocketAddrV4, program: Program) {
        self.members.insert(*at.ip(), Member { program, running: None, disk: Disk::default() });
        self.start(*at.ip());
    }

    pub fn start(&mut self, ip: Ipv4Addr) {
        let clocks = self.clocks();
        let member = self.members.get_mut(&ip).unwrap();
        let disk = std::mem::take(&mut member.disk);
        let mut running = match &member.program {
            Program::Server(config) => Running::Server(Box::new(Server::start(config.clone(), disk, clocks))),
            Program::Sentinel(config) => Running::Sentinel(Box::new(Sentinel::start(config.clone(), disk, clocks))),
        };
        let mut actions = Vec::new();
        running.process().handle(ProcessEvent::Wake, clocks, &mut actions);
        member.running = Some(running);
        self.act(ip, actions);
    }

    pub fn kill(&mut self, ip: Ipv4Addr) {
        let member = self.members.get_mut(&ip).unwrap();
        member.disk = match member.running.take().unwrap() {
            Running::Server(server) => server.kill(),
            Running::Sentinel(sentinel) => sentinel.kill(),
        };
        let ends: Vec<End> = self.peers.keys().filter(|(owner, _)| *owner == ip).copied().collect();
        for end in ends {
            if let Some(peer) = self.peers.remove(&end) {
                self.post(Message::Close(peer));
            }
        }
    }

    /// Nothing comes through to or from this member any more.
    pub fn cut_off(&mut self, ip: Ipv4Addr) {
        self.cut_off.insert(ip);
    }

    /// What was sent meanwhile is lost; connections break.
    pub fn rejoin(&mut self, ip: Ipv4Addr) {
        self.cut_off.remove(&ip);
        let ends: Vec<End> =
            self.peers.iter().filter(|(end, peer)| end.0 == ip || peer.0 == ip).map(|(end, _)| *end).collect();
        for end in ends {
            self.peers.remove(&end);
            self.post(Message::Close(end));
        }
    }

    fn post(&mut self, message: Message) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + WAY, self.sequence, message)));
    }

    fn act(&mut self, ip: Ipv4Addr, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Connect { connection, to } => self.post(Message::Open { from: (ip, connection), to }),
                Action::Send { connection, bytes } => {
                    if let Some(peer) = self.peers.get(&(ip, connection)).copied()
                        && !self.cut_off.contains(&ip)
                        && !self.cut_off.contains(&peer.0)
                    {
                        self.post(Message::Data(peer, bytes));
                    }
                }
                Action::Close { connection } => {
                    if let Some(peer) = self.peers.remove(&(ip, connection)) {
                        self.post(Message::Close(peer));
                    }
                }
            }
        }
    }

    fn tell(&mut self, ip: Ipv4Addr, event: ProcessEvent<'_>) {
        let clocks = self.clocks();
        let mut actions = Vec::new();
        if let Some(running) = self.members.get_mut(&ip).and_then(|member| member.running.as_mut()) {
            running.process().handle(event, clocks, &mut actions);
        }
        self.act(ip, actions);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Open { from, to } => {
                if self.cut_off.contains(&from.0) || self.cut_off.contains(to.ip()) {
                    return;
                }
                if self.members.get(to.ip()).is_none_or(|member| member.running.is_none()) {
                    return self.post(Message::Close(from));
                }
                self.sequence += 1;
                let connection = Connection::Accepted(self.sequence);
                let end = (*to.ip(), connection);
                self.peers.insert(end, from);
                self.peers.insert(from, end);
                let peer = SocketAddrV4::new(from.0, 40_000);
                self.tell(*to.ip(), ProcessEvent::Accepted { connection, peer, local: to });
                self.post(Message::Opened(from));
            }
            Message::Opened((ip, connection)) => self.tell(ip, ProcessEvent::Connected { connection }),
            Message::Data((ip, connection), bytes) if ip == ASKER => {
                self.answers.entry(connection).or_default().extend(bytes);
            }
            Message::Data((ip, connection), bytes) => {
                self.tell(ip, ProcessEvent::Received { connection, bytes: &bytes })
            }
            Message::Close(end) => {
                self.peers.remove(&end);
                self.tell(end.0, ProcessEvent::Closed { connection: end.1 });
            }
        }
    }

    /// One event or wake, if it is due by then.
    fn step(&mut self, end: Duration) -> bool {
        let wake = self
            .members
            .iter_mut()
            .filter_map(|(ip, member)| Some((member.running.as_mut()?.process().next_wake()?, *ip)));
        let wake = wake.min();
        let message = self.queue.peek().map(|Reverse((time, ..))| *time);
        match (wake, message) {
            (wake, Some(time)) if time <= end && wake.is_none_or(|(wake, _)| time <= wake) => {
                self.now = self.now.max(time);
                if let Some(Reverse((_, _, message))) = self.queue.pop() {
                    self.deliver(message);
                }
                true
            }
            (Some((wake, ip)), _) if wake <= end => {
                self.now = self.now.max(wake);
                self.tell(ip, ProcessEvent::Wake);
                true
            }
            _ => false,
        }
    }

    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
        self.now = end;
    }

    /// Waits until this holds; panics if it takes longer than the limit.
    pub fn until(&mut self, limit: Duration, what: &str, mut holds: impl FnMut(&mut Network) -> bool) -> Duration {
        let began = self.now;
        while !holds(self) {
            assert!(self.now - began < limit, "not within {limit:?}: {what}");
            self.pass(Duration::from_millis(10));
        }
        self.now - began
    }

    /// A connection of the test's own.
    pub fn connect(&mut self, to: SocketAddrV4) -> Connection {
        self.sequence += 1;
        let connection = Connection::Opened(self.sequence);
        self.post(Message::Open { from: (ASKER, connection), to });
        self.pass(3 * WAY);
        connection
    }

    pub fn send(&mut self, connection: Connection, words: &[&str]) {
        self.act(ASKER, vec![Action::Send { connection, bytes: request(words) }]);
    }

    /// The answer, if it comes within a second.
    pub fn ask_on(&mut self, connection: Connection, words: &[&str]) -> Option<String> {
        self.answers.remove(&connection);
        self.send(connection, words);
        for _ in 0..1000 {
            self.pass(WAY);
            if let Some(bytes) = self.answers.get(&connection).filter(|bytes| reply_length(bytes).is_some()) {
                return Some(String::from_utf8_lossy(bytes).into_owned());
            }
        }
        None
    }

    /// The answer on a new connection; empty if there is none.
    pub fn ask(&mut self, to: SocketAddrV4, words: &[&str]) -> String {
        let connection = self.connect(to);
        let answer = self.ask_on(connection, words).unwrap_or_default();
        self.act(ASKER, vec![Action::Close { connection }]);
        answer
    }
}

pub fn address(number: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number), port)
}
