//! The built-in client as a task, in virtual time: what it says to the controller follows from its seed.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use simulated_redis::{Action, Clocks, Config, Connection, Disk, Event, Process, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, empty, split};
use tokio::time::{Instant, sleep};

use super::all_or_first_error;
use super::flood::StderrLog;
use super::messages::{receive, send};
use crate::client::protocol::{FromClient, Hello, Invoke, PROTOCOL, Resource, ToClient, to_line};
use crate::client::serve;
use crate::cluster::ClientProcess;
use crate::history::{Function, Phase, ResourceKind};
use crate::locks::{LockOptions, LockSettings};
use crate::machine::{Machine, Stream};
use crate::scenario::Fencing;

const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6379);
const LATENCY: Duration = Duration::from_millis(2);
/// How long the holder thinks: too long to wait for in real time.
const HOLD: Duration = Duration::from_secs(3600);
/// Until when somebody else holds the lock.
const TAKEN: Duration = Duration::from_millis(200);

/// A machine in virtual time on which every server is one simulated Redis.
struct VirtualMachine {
    began: Instant,
    redis: Arc<Redis>,
}

struct Redis {
    began: Instant,
    server: Mutex<Server>,
    connections: AtomicU64,
    /// Every request it got, with the time.
    asked: Mutex<Vec<String>>,
}

impl Machine for VirtualMachine {
    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }

    fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    fn connect<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        let (ours, theirs) = duplex(1 << 16);
        let redis = Arc::clone(&self.redis);
        tokio::spawn(async move { redis.serve(theirs).await });
        Box::pin(async { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

impl Redis {
    fn start() -> Redis {
        let (began, clocks) = (Instant::now(), Clocks { wall: Duration::ZERO, monotonic: Duration::ZERO });
        let server = Server::start(Config::new(ADDRESS, 7), Disk::default(), clocks);
        Redis { began, server: Mutex::new(server), connections: AtomicU64::new(0), asked: Mutex::default() }
    }

    fn handle(&self, event: Event<'_>) -> Vec<Action> {
        let clocks = Clocks { wall: self.began.elapsed(), monotonic: self.began.elapsed() };
        let mut actions = Vec::new();
        self.server.lock().unwrap().handle(event, clocks, &mut actions);
        actions
    }

    fn accept(&self) -> Connection {
        let connection = Connection::Accepted(self.connections.fetch_add(1, Ordering::Relaxed));
        self.handle(Event::Accepted { connection, peer: ADDRESS, local: ADDRESS });
        connection
    }

    fn answer(&self, connection: Connection, bytes: &[u8]) -> Vec<u8> {
        let sent = self.handle(Event::Received { connection, bytes }).into_iter().filter_map(|action| match action {
            Action::Send { bytes, .. } => Some(bytes),
            _ => None,
        });
        sent.flatten().collect()
    }

    async fn serve(&self, mut stream: DuplexStream) -> io::Result<()> {
        let connection = self.accept();
        let mut bytes = [0; 1 << 16];
        loop {
            let read = stream.read(&mut bytes).await?;
            if read == 0 {
                return Ok(());
            }
            sleep(LATENCY).await;
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            self.asked.lock().unwrap().push(format!("{:?} {}", self.began.elapsed(), text));
            let answer = self.answer(connection, &bytes[..read]);
            sleep(LATENCY).await;
            stream.write_all(&answer).await?;
        }
    }
}

fn hello(seed: u64) -> ToClient {
    let options = LockOptions { retry_delay_ms: Some((5, 50)), ..LockOptions::default() };
    ToClient::Hello(Hello {
        protocol: PROTOCOL,
        client: "c0".into(),
        lock: LockSettings {
            name: "single".into(),
            ttl_ms: 2 * HOLD.as_millis() as u64,
            nodes: vec!["redis://n0:6379".into()],
            group: None,
            options,
        },
        resource: Resource { kind: ResourceKind::Register, url: "redis://store:6379".into(), fencing: Fencing::None },
        seed,
    })
}

/// What a client says during one update for which it has to wait for the lock, and what the servers are asked.
async fn update(seed: u64) -> (Vec<FromClient>, String) {
    let redis = Arc::new(Redis::start());
    let began = redis.began;
    let taken =
        format!("*5\r\n$3\r\nSET\r\n$7\r\nlock:k0\r\n$8\r\nsomebody\r\n$2\r\nPX\r\n$3\r\n{}\r\n", TAKEN.as_millis());
    assert_eq!(redis.answer(redis.accept(), taken.as_bytes()), b"+OK\r\n");
    let machine = Arc::new(VirtualMachine { began, redis: Arc::clone(&redis) });
    let (ours, theirs) = duplex(1 << 16);
    let (input, output) = split(theirs);
    let client = tokio::spawn(serve(input, output, machine));

    let (stdout, stdin) = split(ours);
    let mut link = ClientProcess::over(stdin, stdout, empty(), Default::default());
    let (mut said, mut stderr) = (Vec::new(), StderrLog::default());
    let invoke = Invoke {
        id: 1,
        f: Function::Rmw,
        key: "k0".into(),
        value: Some("c0:1".into()),
        hold_ms: HOLD.as_millis() as u64,
        acquire_timeout_ms: 1000,
        breakpoints: vec![Phase::BeforeWrite],
    };
    let deadline = Instant::now() + 2 * HOLD;
    send(&mut link, &hello(seed)).await.unwrap();
    said.push(receive(&mut link, &mut stderr, deadline).await.unwrap().unwrap());
    send(&mut link, &ToClient::Invoke(invoke)).await.unwrap();
    while !matches!(said.last(), Some(FromClient::Ok { .. })) {
        let message = receive(&mut link, &mut stderr, deadline).await.unwrap().unwrap();
        let waits = matches!(&message, FromClient::Phase(phase) if phase.phase == Phase::BeforeWrite);
        // It reports the phase again once it may continue.
        if waits && !matches!(said.last(), Some(FromClient::Phase(last)) if last.phase == Phase::BeforeWrite) {
            send(&mut link, &ToClient::Go { id: 1, phase: Phase::BeforeWrite }).await.unwrap();
        }
        said.push(message);
    }
    send(&mut link, &ToClient::Bye).await.unwrap();
    client.await.unwrap().unwrap();
    assert!(began.elapsed() > HOLD + TAKEN, "{:?}", began.elapsed());
    let asked = redis.asked.lock().unwrap().join("\n");
    (said, asked)
}

#[tokio::test(start_paused = true)]
async fn one_seed_makes_a_client_say_the_same_byte_for_byte_and_another_one_does_not() {
    let real = std::time::Instant::now();
    let [one, again, other] = [update(7).await, update(7).await, update(8).await];
    assert!(real.elapsed() < HOLD / 60, "an hour each, and nobody waited for it");

    let phases = |said: &[FromClient]| -> Vec<Phase> {
        let phase = |message: &FromClient| match message {
            FromClient::Phase(phase) => Some(phase.phase),
            _ => None,
        };
        said.iter().filter_map(phase).collect()
    };
    use Phase::*;
    let expected = [Acquiring, Acquired, Read, BeforeWrite, BeforeWrite, Written, Releasing, Released];
    assert_eq!((phases(&one.0), phases(&other.0)), (expected.into(), expected.into()));

    let lines = |said: &[FromClient]| said.iter().map(to_line).collect::<String>();
    assert_eq!(lines(&one.0), lines(&again.0));
    assert_eq!(one.1, again.1);
    assert_ne!(lines(&one.0), lines(&other.0), "it waits for other times between its attempts");
    assert_ne!(marks(&one.1), marks(&other.1));
    assert_eq!(marks(&one.1).len(), one.1.matches("\nNX\r").count(), "each attempt has a mark of its own");
}

/// The values with which the lock was requested.
fn marks(asked: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = asked.lines().filter(|line| !line.starts_with('$')).collect();
    words.windows(4).filter(|words| words[0] == "SET" && words[3] == "NX").map(|words| words[2]).collect()
}

#[tokio::test]
async fn all_are_waited_for_unless_one_fails() {
    let slowest_first = (0..40_u64).map(|place| async move {
        sleep(Duration::from_millis(40 - place)).await;
        Ok::<u64, ()>(place)
    });
    assert_eq!(all_or_first_error(slowest_first).await, Ok((0..40).collect()));
    let last_fails = (0..40).map(|place| async move {
        match place {
            39 => Err("broken"),
            _ => std::future::pending::<Result<(), _>>().await,
        }
    });
    assert_eq!(all_or_first_error(last_fails).await, Err("broken"));
}
