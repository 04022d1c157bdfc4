//! Tests of the simulated network alone. Each shows a fault's effect, and that the effect is absent without the fault or on other
//! links.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use simulated_redis::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::Distance;
use super::host::SimulatedHost;
use super::in_virtual_time;
use super::machine::{Inside, Stoppable};
use super::servers::Program;
use super::world::{Machine, What, World};
use crate::faults::{Effect, Host, MemberAction};
use base::machine::{Machine as _, Stream};
use model::fault_kinds::{CallEffect, Command, CommandFault, ErrorReply};

const AGENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const NODE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const PORT: u16 = 6379;
const TO_NODE: (Ipv4Addr, Ipv4Addr) = (CLIENT, NODE);
const FROM_NODE: (Ipv4Addr, Ipv4Addr) = (NODE, CLIENT);
/// Longer than a request and its reply take without a fault.
const SOON: Duration = Duration::from_millis(20);

/// A server and a client's machine.
struct Small {
    world: Arc<World>,
    host: SimulatedHost,
}

impl Small {
    fn new() -> Small {
        let world = World::new(1, Distance::default(), None);
        world.change(|state| {
            for (name, address) in [("n0", NODE), ("c0", CLIENT)] {
                let server = || Program::Redis(Config::new(SocketAddrV4::new(NODE, PORT), 1));
                let program = (address == NODE).then(server);
                state.machines.insert(address, Machine::new(name, program));
            }
            state.start_server(NODE);
        });
        tokio::spawn(Arc::clone(&world).go_on());
        let host = SimulatedHost { world: Arc::clone(&world), address: AGENT };
        Small { world, host }
    }

    fn at(&self, address: Ipv4Addr, pid: Option<u32>) -> Inside {
        Inside { world: Arc::clone(&self.world), address, pid }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        self.at(CLIENT, None).connect(&NODE.to_string(), PORT).await
    }

    /// The server's reply to the agent, which no fault reaches.
    async fn asked_by_agent(&self, words: &str) -> String {
        let mut stream = self.at(AGENT, None).connect(&NODE.to_string(), PORT).await.unwrap();
        ask(&mut stream, words).await
    }

    fn inject(&self, links: &[(Ipv4Addr, Ipv4Addr)], effect: Effect) {
        assert!(self.host.change_links(7, links, effect).unwrap().observed);
    }

    fn heal(&self) {
        assert!(self.host.restore_links(7).unwrap().observed);
    }
}

fn request(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), parts.collect::<String>()).into_bytes()
}

async fn ask(stream: &mut Box<dyn Stream>, words: &str) -> String {
    stream.write_all(&request(words)).await.unwrap();
    reply(stream).await.unwrap()
}

/// The next reply. Replies here have one line, or a length and one more line.
async fn reply(stream: &mut Box<dyn Stream>) -> io::Result<String> {
    let mut lines = Vec::new();
    while lines.len()
        < lines.first().map_or(1, |first: &String| 1 + usize::from(first.starts_with('$') && first != "$-1"))
    {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(stream.read_u8().await?);
        }
        lines.push(String::from_utf8_lossy(&line).trim_end().to_string());
    }
    Ok(lines.pop().unwrap_or_default())
}

/// True if no reply comes for this long.
async fn is_silent(stream: &mut Box<dyn Stream>, length: Duration) -> bool {
    timeout(length, reply(stream)).await.is_err()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn virtually(work: impl AsyncFnOnce() + Send) {
    in_virtual_time(work).unwrap();
}

#[test]
fn what_one_connection_sends_arrives_in_order_and_two_connections_have_none() {
    virtually(async || {
        let small = Small::new();
        small.inject(&[TO_NODE, FROM_NODE], Effect::Delay { ms: 50, jitter_ms: 49 });
        let (mut one, mut other) = (small.connect().await.unwrap(), small.connect().await.unwrap());
        for _ in 0..100 {
            one.write_all(&request("INCR n")).await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
        for number in 1..=100 {
            assert_eq!(reply(&mut one).await.unwrap(), format!(":{number}"));
        }
        let mut overtaken = 0;
        for _ in 0..50 {
            one.write_all(&request("SET last one")).await.unwrap();
            other.write_all(&request("SET last other")).await.unwrap();
            assert_eq!(
                (reply(&mut one).await.unwrap(), reply(&mut other).await.unwrap()),
                ("+OK".into(), "+OK".into())
            );
            overtaken += u32::from(small.asked_by_agent("GET last").await == "one");
        }
        assert!((10..40).contains(&overtaken), "{overtaken} of 50");
    });
}

#[test]
fn a_cut_of_requests_keeps_them_from_the_server_and_a_cut_of_replies_does_not() {
    for (link, arrives) in [(TO_NODE, "$-1"), (FROM_NODE, "x")] {
        virtually(async || {
            let small = Small::new();
            let mut stream = small.connect().await.unwrap();
            assert_eq!(ask(&mut stream, "PING").await, "+PONG");
            small.inject(&[link], Effect::Drop);
            stream.write_all(&request("SET k x")).await.unwrap();
            assert!(is_silent(&mut stream, seconds(5.0)).await);
            assert_eq!(small.asked_by_agent("GET k").await, arrives);
        });
    }
}

#[test]
fn a_reset_ends_a_connection_for_both_ends_and_no_other() {
    virtually(async || {
        let small = Small::new();
        let mut stream = small.connect().await.unwrap();
        let mut beside = small.at(AGENT, None).connect(&NODE.to_string(), PORT).await.unwrap();
        assert_eq!((ask(&mut stream, "PING").await, ask(&mut beside, "PING").await), ("+PONG".into(), "+PONG".into()));
        small.inject(&[TO_NODE, FROM_NODE], Effect::Reset);
        stream.write_all(&request("SET k x")).await.unwrap();
        let error = reply(&mut stream).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(ask(&mut beside, "GET k").await, "$-1", "what was reset did not arrive");
    });
}

#[test]
fn a_dead_server_refuses_at_once_and_one_that_is_cut_off_says_nothing() {
    virtually(async || {
        let small = Small::new();
        assert!(small.connect().await.is_ok());
        small.inject(&[TO_NODE], Effect::Drop);
        assert!(timeout(seconds(30.0), small.connect()).await.is_err());
        small.heal();
        small.host.act("n0", MemberAction::Kill).unwrap();
        let refused = timeout(SOON, small.connect()).await.expect("at once").err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        small.world.change(|state| state.start_server(NODE));
        assert!(timeout(SOON, small.connect()).await.expect("at once").is_ok());
    });
}

#[test]
fn a_disk_that_takes_no_time_cannot_be_slow() {
    virtually(async || {
        let small = Small::new();
        let seen = small.host.act("n0", MemberAction::SlowDisk { ms: 200, jitter_ms: 0 }).unwrap();
        assert!(!seen.observed && seen.text.contains("can't be slow"), "{}", seen.text);
        assert!(small.host.act("n0", MemberAction::RestoreDisk).unwrap().observed);
    });
}

/// The network of a killed process soon ends, and with it the kernel that would refuse connections.
#[test]
fn one_that_has_been_dead_for_a_while_says_nothing_until_it_is_asked_again() {
    virtually(async || {
        let small = Small::new();
        small.host.act("n0", MemberAction::Kill).unwrap();
        sleep(seconds(0.1)).await;
        assert!(timeout(seconds(10.0), small.connect()).await.is_err());
        let began = Instant::now();
        let connecting = small.connect();
        tokio::pin!(connecting);
        assert!(timeout(seconds(0.5), &mut connecting).await.is_err());
        small.world.change(|state| state.start_server(NODE));
        assert!(connecting.await.is_ok());
        assert!((1.0..1.1).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
        assert!(timeout(SOON, small.connect()).await.expect("at once").is_ok());
    });
}

#[test]
fn a_server_that_stands_still_accepts_and_answers_when_it_goes_on() {
    virtually(async || {
        let small = Small::new();
        small.host.act("n0", MemberAction::Stop).unwrap();
        let mut stream = timeout(SOON, small.connect()).await.expect("at once").unwrap();
        stream.write_all(&request("SET k x")).await.unwrap();
        assert!(is_silent(&mut stream, seconds(10.0)).await);
        small.host.act("n0", MemberAction::Continue).unwrap();
        assert_eq!(timeout(SOON, reply(&mut stream)).await.expect("at once").unwrap(), "+OK");
        assert_eq!(timeout(SOON, ask(&mut stream, "GET k")).await.expect("at once"), "x");
    });
}

/// Linux waits 200 ms, then twice as long each time: 0.2, 0.6, 1.4, 3.0, 6.2 seconds after the first attempt.
#[test]
fn after_a_cut_what_was_lost_is_sent_again_at_the_next_of_its_times_and_not_before() {
    for (cut_for, arrives_after) in [(0.1, 0.2), (0.5, 0.6), (2.0, 3.0), (3.5, 6.2)] {
        virtually(async || {
            let small = Small::new();
            let mut stream = small.connect().await.unwrap();
            small.inject(&[TO_NODE, FROM_NODE], Effect::Drop);
            let sent = Instant::now();
            stream.write_all(&request("INCR n")).await.unwrap();
            sleep(seconds(cut_for)).await;
            small.heal();
            assert_eq!(reply(&mut stream).await.unwrap(), ":1", "once");
            let took = sent.elapsed();
            assert!(seconds(arrives_after) <= took && took <= seconds(arrives_after) + SOON, "{cut_for}: {took:?}");
        });
    }
    virtually(async || {
        let small = Small::new();
        let mut stream = small.connect().await.unwrap();
        assert_eq!(timeout(SOON, ask(&mut stream, "INCR n")).await.expect("without a cut"), ":1");
    });
}

#[test]
fn a_held_reply_comes_at_the_heal_and_a_lost_one_never() {
    for (action, comes) in [(CallEffect::HoldReply, true), (CallEffect::LoseReply, false)] {
        virtually(async || {
            let small = Small::new();
            let mut stream = small.connect().await.unwrap();
            let command = Command::Named("SET".to_string());
            let call = CommandFault { effect: action, command, nth: None, key: None, error: None };
            small.inject(&[TO_NODE, FROM_NODE], Effect::Command(call.into()));
            assert_eq!(ask(&mut stream, "GET k").await, "$-1", "another command");
            stream.write_all(&request("SET k x")).await.unwrap();
            assert!(is_silent(&mut stream, seconds(5.0)).await);
            assert_eq!(small.asked_by_agent("GET k").await, "x");
            assert!(small.host.strike(7, false).is_ok());
            small.heal();
            match comes {
                true => assert_eq!(timeout(SOON, reply(&mut stream)).await.expect("at once").unwrap(), "+OK"),
                false => assert!(!matches!(timeout(seconds(60.0), reply(&mut stream)).await, Ok(Ok(_)))),
            }
        });
    }
}

#[test]
fn after_a_command_a_connection_is_reset_or_closed() {
    for (action, ends) in [
        (CallEffect::ResetAfter, io::ErrorKind::ConnectionReset),
        (CallEffect::CloseAfter, io::ErrorKind::UnexpectedEof),
    ] {
        virtually(async || {
            let small = Small::new();
            let mut stream = small.connect().await.unwrap();
            let call = CommandFault {
                effect: action,
                command: Command::Named("SET".to_string()),
                nth: None,
                key: None,
                error: None,
            };
            small.inject(&[TO_NODE, FROM_NODE], Effect::Command(call.into()));
            stream.write_all(&request("SET k x")).await.unwrap();
            assert_eq!(reply(&mut stream).await.unwrap_err().kind(), ends);
            assert_eq!(small.asked_by_agent("GET k").await, "x");
            small.heal();
            assert_eq!(ask(&mut small.connect().await.unwrap(), "GET k").await, "x");
        });
    }
}

#[test]
fn a_refused_command_is_not_carried_out_and_the_next_ones_are() {
    let refuse = |nth| CommandFault {
        effect: CallEffect::Refuse,
        command: Command::Named("SET".to_string()),
        nth,
        key: None,
        error: Some(ErrorReply::Oom),
    };
    const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";
    virtually(async || {
        let small = Small::new();
        let mut stream = small.connect().await.unwrap();
        small.inject(&[TO_NODE, FROM_NODE], Effect::Command(refuse(Some(2)).into()));
        assert_eq!(ask(&mut stream, "SET k x").await, "+OK");
        assert_eq!(ask(&mut stream, "SET k y").await, OOM);
        assert_eq!(ask(&mut stream, "GET k").await, "x");
        small.heal();
        assert_eq!(ask(&mut stream, "SET k z").await, "+OK", "on the same connection");
        // Another fault still finds its commands and replies there.
        let (faults, links) = (CallEffect::HoldReply, [TO_NODE, FROM_NODE]);
        let hold = CommandFault { effect: faults, error: None, ..refuse(None) };
        small.world.change(|state| state.network.faults.inject(8, &links, Effect::Command(hold.into())).unwrap());
        stream.write_all(&request("SET k w")).await.unwrap();
        assert!(is_silent(&mut stream, seconds(5.0)).await);
        assert!(small.host.strike(8, false).is_ok());
    });
    virtually(async || {
        let small = Small::new();
        let mut stream = small.connect().await.unwrap();
        small.inject(&[TO_NODE, FROM_NODE], Effect::Command(refuse(None).into()));
        let all = [request("SET k x"), request("GET k"), request("SET k y")].concat();
        stream.write_all(&all).await.unwrap();
        for expected in [OOM, "$-1", OOM] {
            assert_eq!(reply(&mut stream).await.unwrap(), expected, "in the order of the commands");
        }
    });
}

/// Starts a client that sends one request after one second, and then waits forever. Returns a notifier for the moment of the
/// request.
fn start_client(small: &Small, words: &'static str) -> Arc<Notify> {
    let sent = Arc::new(Notify::new());
    let start =
        |state: &mut super::world::WorldState| state.start(CLIENT, What::Client { task: None, waiting: Vec::new() });
    let pid = small.world.change(start).unwrap();
    let inside = small.at(CLIENT, Some(pid));
    let work = {
        let (inside, sent) = (inside.clone(), Arc::clone(&sent));
        async move {
            let mut stream = inside.connect(&NODE.to_string(), PORT).await.unwrap();
            sleep(seconds(1.0)).await;
            stream.write_all(&request(words)).await.unwrap();
            sent.notify_one();
            let _ = reply(&mut stream).await;
            std::future::pending::<()>().await;
        }
    };
    let task = tokio::spawn(Stoppable { inside, work: Box::pin(work) });
    small.world.change(|state| {
        if let Some(What::Client { task: its, .. }) = state.running(CLIENT).map(|running| &mut running.what) {
            *its = Some(task.abort_handle());
        }
    });
    sent
}

#[test]
fn what_a_client_sent_before_it_was_killed_arrives_and_nothing_else() {
    // The client is killed before it sends, right after it sends, and right after it sends during a cut that is healed later.
    for (sends, cut, arrives) in [(false, false, "$-1"), (true, false, "x"), (true, true, "x")] {
        virtually(async || {
            let small = Small::new();
            let sent = start_client(&small, "SET k x");
            sleep(seconds(0.5)).await;
            if cut {
                small.inject(&[TO_NODE], Effect::Drop);
            }
            if sends {
                sent.notified().await;
            }
            assert!(small.host.act("c0", MemberAction::Kill).unwrap().observed);
            if cut {
                sleep(seconds(1.0)).await;
                assert_eq!(small.asked_by_agent("GET k").await, "$-1");
                small.heal();
            }
            sleep(seconds(10.0)).await;
            assert_eq!(small.asked_by_agent("GET k").await, arrives, "sent: {sends}, cut: {cut}");
        });
    }
}

#[test]
fn a_client_that_stands_still_sends_nothing_until_it_goes_on() {
    virtually(async || {
        let small = Small::new();
        start_client(&small, "SET k x");
        sleep(seconds(0.5)).await;
        small.host.act("c0", MemberAction::Stop).unwrap();
        sleep(seconds(5.0)).await;
        assert_eq!(small.asked_by_agent("GET k").await, "$-1");
        small.host.act("c0", MemberAction::Continue).unwrap();
        sleep(SOON).await;
        assert_eq!(small.asked_by_agent("GET k").await, "x");
    });
}

#[test]
fn a_fault_that_does_not_exist_is_refused() {
    virtually(async || {
        let small = Small::new();
        assert!(small.host.restore_links(7).is_err());
        small.inject(&[TO_NODE], Effect::Drop);
        assert!(small.host.change_links(7, &[TO_NODE], Effect::Drop).is_err(), "its number is taken");
        small.heal();
        assert_eq!(small.host.on_network(), Vec::<u32>::new());
        assert!(small.host.strike(7, false).is_err());
    });
}
