//! A simulated server that a test asks directly.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use simulated_redis::{
    Action, Clocks, Config, Connection, Disk, ExecutedCommand, Persistence, Process, ProcessEvent, Server, Version,
};

use super::request;

pub fn address() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 6379)
}

/// A simulated server with clocks that its owner sets.
pub struct Simulated {
    server: Option<Server>,
    config: Config,
    pub clocks: Clocks,
    next: u64,
}

impl Simulated {
    pub fn start(config: Config) -> Simulated {
        let clocks = Clocks { wall: Duration::from_secs(1_700_000_000), monotonic: Duration::from_secs(5) };
        let server = Some(Server::start(config.clone(), Disk::default(), clocks));
        Simulated { server, config, clocks, next: 0 }
    }

    pub fn with(persistence: Persistence) -> Simulated {
        Simulated::of(Version::default(), persistence)
    }

    pub fn of(version: Version, persistence: Persistence) -> Simulated {
        Simulated::start(Config { persistence, version, ..Config::new(address(), 7) })
    }

    fn handle(&mut self, event: ProcessEvent<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.server.as_mut().unwrap().handle(event, self.clocks, &mut actions);
        actions
    }

    pub fn connect(&mut self) -> Connection {
        self.next += 1;
        let connection = Connection::Accepted(self.next);
        let peer = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 40_000 + self.next as u16);
        self.handle(ProcessEvent::Accepted { connection, peer, local: address() });
        connection
    }

    /// Returns everything that the server sends because of these bytes.
    pub fn tell(&mut self, connection: Connection, bytes: &[u8]) -> Vec<Action> {
        self.handle(ProcessEvent::Received { connection, bytes })
    }

    /// What this connection is answered at once.
    pub fn ask(&mut self, connection: Connection, bytes: &[u8]) -> Vec<u8> {
        answers(self.tell(connection, bytes), connection)
    }

    pub fn words(&mut self, connection: Connection, words: &[&str]) -> String {
        String::from_utf8(self.ask(connection, &request(words))).unwrap()
    }

    /// Lets time go by, with the wakes that the server wants.
    pub fn pass(&mut self, time: Duration) -> Vec<Action> {
        let end = self.clocks.monotonic + time;
        let mut actions = Vec::new();
        while let Some(wake) = self.server.as_ref().unwrap().next_wake().filter(|wake| *wake <= end) {
            let step = wake.saturating_sub(self.clocks.monotonic);
            self.advance(step);
            actions.extend(self.handle(ProcessEvent::Wake));
            let next = self.server.as_ref().unwrap().next_wake();
            assert!(next.is_none_or(|next| next > self.clocks.monotonic), "it is woken for nothing");
        }
        self.advance(end - self.clocks.monotonic);
        actions
    }

    fn advance(&mut self, step: Duration) {
        self.clocks.monotonic += step;
        self.clocks.wall += step;
    }

    /// Takes over this machine's clocks.
    pub fn follow_real_clocks(&mut self, since: Instant) {
        self.clocks.wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.clocks.monotonic = Duration::from_secs(5) + since.elapsed();
    }

    pub fn record_commands(&mut self) {
        self.server.as_mut().unwrap().record_commands();
    }

    pub fn take_executed(&mut self) -> Vec<ExecutedCommand> {
        self.server.as_mut().unwrap().take_executed()
    }

    pub fn forget_snapshot(&mut self) {
        self.server.as_mut().unwrap().forget_snapshot();
    }

    /// Ends it; what it wrote is left.
    pub fn kill(&mut self) -> Disk {
        self.server.take().unwrap().kill()
    }

    pub fn kill_and_restart(&mut self) {
        let disk = self.kill();
        self.server = Some(Server::start(self.config.clone(), disk, self.clocks));
    }

    pub fn lose_power_and_restart(&mut self) {
        let disk = self.server.take().unwrap().lose_power();
        self.server = Some(Server::start(self.config.clone(), disk, self.clocks));
    }
}

pub fn answers(actions: Vec<Action>, wanted: Connection) -> Vec<u8> {
    let sent = actions.into_iter().filter_map(|action| match action {
        Action::Send { connection, bytes } if connection == wanted => Some(bytes),
        _ => None,
    });
    sent.flatten().collect()
}
