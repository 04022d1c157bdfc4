//! Records the commands of a run's clients on existing servers, by MONITOR. Only with the user's permission: MONITOR takes a part of
//! the server's time, and shows the commands of all its clients. Commands of other clients are dropped at once.
//!
//! Diagnoses rest on the commands' order and times, so both must be certain. MONITOR gives the order. Its times are those of the
//! server's clock, so a server that is far away, or whose clock moves, is not recorded. A relay's connection stands for the
//! client behind it, so a proxy that hides the relay's address is refused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Existing, LIMIT};
use crate::faults::{Keeps, MonitorLine, Open, SeenCommand, Watched, seen, theirs};
use base::machine::{Machine, ThisMachine};
use base::sync::lock;
use remote::{Address, Stream};

/// A command's time is known to within the time that its line travels. The limit is diagnoses' tolerance.
const MOST_DISTANT: Duration = Duration::from_millis(2);
/// The number of round trips of which the shortest counts.
const ROUND_TRIPS: usize = 5;
/// A second with fewer lines says too little about the server's clock: all of them may have come late.
const LEAST_LINES: usize = 5;
/// The clocks of two machines drift apart by less than 1/5000.
const DRIFT: u64 = 5_000;
const LOOK: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(super) struct Recorder {
    /// The monitored nodes, by name.
    nodes: Mutex<Vec<(String, Watched)>>,
    /// The client behind each of the relays' connections, by the address that the server sees.
    clients: Clients,
}

type Clients = Arc<Mutex<BTreeMap<SocketAddr, SocketAddr>>>;

impl Recorder {
    /// Monitors these nodes from now on. The error says why a node cannot be recorded.
    pub async fn begin(&self, existing: &Arc<Existing>, nodes: &[(String, Address)]) -> Result<(), String> {
        let machine: Arc<dyn Machine> = Arc::new(ThisMachine);
        for (node, address) in nodes {
            let watched = watched(existing, &machine, address, &self.clients).await;
            let watched = watched.map_err(|why| format!("--record-commands: {address}: {why}"))?;
            lock(&self.nodes).push((node.clone(), watched));
        }
        Ok(())
    }

    /// Notes the client behind a relay's connection.
    pub fn note(&self, relay: Option<SocketAddr>, client: Option<SocketAddr>) {
        if let Some((relay, client)) = relay.zip(client) {
            lock(&self.clients).insert(relay, client);
        }
    }

    /// Ends the recording. Returns the clients' commands with the names of the nodes.
    pub fn end(&self) -> Vec<(String, SeenCommand)> {
        let clients = std::mem::take(&mut *lock(&self.clients));
        let nodes = std::mem::take(&mut *lock(&self.nodes));
        let of_node = |(node, watched): (String, Watched)| {
            let lines = watched.lines();
            let commands = match ahead(&lines) {
                Ok(ahead) => of_clients(&lines, ahead, &clients),
                // Nothing of this node is told.
                Err(why) => vec![gap(lines.first(), why)],
            };
            commands.into_iter().map(|command| (node.clone(), command)).collect::<Vec<_>>()
        };
        nodes.into_iter().flat_map(of_node).collect()
    }
}

/// The commands of these clients and of their scripts. Each has its client's own address.
fn of_clients(lines: &[MonitorLine], ahead: u64, clients: &BTreeMap<SocketAddr, SocketAddr>) -> Vec<SeenCommand> {
    let all = lines.iter().filter_map(|line| seen(line, ahead)).collect();
    let mut own = theirs(all, |from| clients.contains_key(&from));
    // The relay's own, before it carries the client's.
    own.retain(|command| command.words.first().is_none_or(|name| !name.eq_ignore_ascii_case("AUTH")));
    own.iter_mut().for_each(|command| command.from = command.from.and_then(|from| clients.get(&from).copied()));
    own
}

fn gap(first: Option<&MonitorLine>, why: String) -> SeenCommand {
    let mono_ns = first.map_or(0, |line| line.mono_ns);
    SeenCommand { mono_ns, from: None, words: Vec::new(), missed: Some(why) }
}

/// Monitors a server that is near and shows the addresses of its clients.
async fn watched(
    existing: &Arc<Existing>,
    machine: &Arc<dyn Machine>,
    address: &Address,
    clients: &Clients,
) -> Result<Watched, String> {
    let (mut probe, local) = existing.open_from(address).await?;
    let mut shortest = LIMIT;
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        ask(&mut probe, &["PING"]).await?;
        shortest = shortest.min(began.elapsed());
    }
    if shortest > MOST_DISTANT {
        return Err(format!(
            "a round trip takes {:.1} ms, so the times of commands would be uncertain; run redjepsen within {} ms of the server",
            shortest.as_secs_f64() * 1e3,
            MOST_DISTANT.as_millis()
        ));
    }
    let (of, server) = (Arc::clone(existing), address.clone());
    let open: Open = Box::new(move |_| {
        let (of, server) = (Arc::clone(&of), server.clone());
        Box::pin(async move {
            let (stream, _) = of.open_from(&server).await?;
            Ok(Box::new(stream) as Box<dyn base::machine::Stream>)
        })
    });
    let mark = format!("redjepsen:{:x}", machine.monotonic().as_nanos());
    let watched = Watched::begin(machine, open, of_the_run(clients, &mark), LIMIT).await?;
    // The server must show this command with the address that this end of the connection has.
    ask(&mut probe, &["PING", &mark]).await?;
    let shown = timeout(LIMIT, async {
        loop {
            let lines = watched.lines();
            let is_it = |command: &SeenCommand| command.words.contains(&mark);
            if let Some(command) = lines.iter().filter_map(|line| seen(line, 0)).find(is_it) {
                return command.from;
            }
            sleep(LOOK).await;
        }
    });
    match shown.await {
        Err(_) => Err("MONITOR does not show the commands of other connections".to_string()),
        Ok(from) if from.is_none() || from != local => Err(
            "MONITOR shows another address than that of this connection, so a proxy hides which client sent a command; name the \
             server itself"
                .to_string(),
        ),
        Ok(_) => Ok(watched),
    }
}

/// Keeps the lines of the run's clients and of their scripts, and the line with this mark.
fn of_the_run(clients: &Clients, mark: &str) -> Keeps {
    let (clients, mark) = (Arc::clone(clients), mark.to_string());
    let mut is_theirs = false;
    Box::new(move |line| {
        let from = line.split_once(" [").and_then(|(_, rest)| rest.split_once("] ")?.0.split_once(' '));
        match from {
            Some((_, "lua")) => {}
            Some((_, from)) => is_theirs = from.parse().is_ok_and(|from| lock(&clients).contains_key(&from)),
            None => is_theirs = false,
        }
        is_theirs || line.contains(&mark)
    })
}

async fn ask(stream: &mut Box<dyn Stream>, words: &[&str]) -> Result<(), String> {
    let reply = timeout(LIMIT, remote::ask(stream, words)).await;
    let reply = reply.map_err(|_| "no answer to PING in time".to_string())?.map_err(|error| error.to_string())?;
    reply.as_error().map_or(Ok(()), |error| Err(format!("it answers PING with `{error}`")))
}

/// How far the server's wall clock is ahead of this machine's CLOCK_MONOTONIC, in nanoseconds. The line that travelled fastest
/// shows it best. Fails if the server's clock moved meanwhile.
fn ahead(lines: &[MonitorLine]) -> Result<u64, String> {
    // By second, the largest lead and the number of lines.
    let mut seconds: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for line in lines {
        let Some(wall) = line.text.as_deref().ok().and_then(wall) else { continue };
        let (largest, count) = seconds.entry(line.mono_ns / 1_000_000_000).or_default();
        *largest = (*largest).max(wall.saturating_sub(line.mono_ns));
        *count += 1;
    }
    let telling = || seconds.values().filter(|(_, count)| *count >= LEAST_LINES).map(|(largest, _)| *largest);
    let lasted = seconds.len() as u64 * 1_000_000_000;
    let tolerance = MOST_DISTANT.as_nanos() as u64 + lasted / DRIFT;
    match (telling().min(), telling().max()) {
        (Some(least), Some(most)) if most - least > tolerance => Err(format!(
            "the server's clock moved by {:.1} ms against this machine's clock, or its answers came late",
            (most - least) as f64 / 1e6
        )),
        _ => Ok(seconds.values().map(|(largest, _)| *largest).max().unwrap_or(0)),
    }
}

/// The time of a line by the server's wall clock, in nanoseconds.
fn wall(line: &str) -> Option<u64> {
    let (seconds, micros) = line.strip_prefix('+')?.split_once(" [")?.0.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(micros.parse::<u64>().ok()?.checked_mul(1000)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten lines a second for four seconds; the clock has this lead in each of the seconds, in ms.
    fn lines(leads: [u64; 4]) -> Vec<MonitorLine> {
        let line = |number: u64| {
            let (mono_ns, lead) = (number * 100_000_000, leads[(number / 10) as usize]);
            // Lines come up to 40 ms late; one in ten comes at once.
            let told_us = (mono_ns / 1000).saturating_sub(number % 10 * 4_000) + lead * 1000 + 1_700_000_000_000_000;
            let text = format!("+{}.{:06} [0 10.0.0.3:5123] \"PING\"", told_us / 1_000_000, told_us % 1_000_000);
            MonitorLine { mono_ns, text: Ok(text) }
        };
        (10..40).map(line).collect()
    }

    #[test]
    fn the_line_that_travelled_fastest_shows_the_servers_clock() {
        let lines = lines([0, 7, 7, 7]);
        let ahead = ahead(&lines).unwrap();
        assert_eq!(ahead, 1_700_000_000_000_000_000 + 7_000_000);
        let first = seen(&lines[0], ahead).unwrap();
        assert_eq!(first.mono_ns, 1_000_000_000);
        assert_eq!(seen(&lines[3], ahead).unwrap().mono_ns, 1_300_000_000 - 12_000_000, "when it was carried out");
    }

    #[test]
    fn a_clock_that_moves_makes_times_uncertain() {
        assert!(ahead(&lines([0, 0, 1, 2])).is_ok());
        for moved in [[0, 0, 0, 4], [0, 9, 0, 0]] {
            assert!(ahead(&lines(moved)).unwrap_err().contains("the server's clock moved by"), "{moved:?}");
        }
        assert_eq!(ahead(&[]), Ok(0));
    }

    #[test]
    fn lines_of_other_clients_are_dropped_when_they_arrive() {
        let [relay, client] = ["127.0.0.1:7000", "10.0.0.3:9"].map(|text| text.parse().unwrap());
        let clients: Clients = Arc::new(Mutex::new(BTreeMap::from([(relay, client)])));
        let mut keeps = of_the_run(&clients, "redjepsen:7");
        let lines = [
            ("+1.000001 [0 127.0.0.1:7000] \"EVAL\" \"x\"", true),
            ("+1.000001 [0 lua] \"GET\" \"k\"", true),
            ("+1.000001 [0 127.0.0.1:7001] \"EVAL\" \"secret\"", false),
            ("+1.000001 [0 lua] \"GET\" \"secret\"", false),
            ("+1.000001 [0 127.0.0.1:7002] \"PING\" \"redjepsen:7\"", true),
            ("no line of MONITOR", false),
        ];
        for (line, is_kept) in lines {
            assert_eq!(keeps(line), is_kept, "{line}");
        }
    }

    #[test]
    fn commands_have_their_clients_address_and_those_of_others_are_dropped() {
        let [relay, other, client] =
            ["127.0.0.1:7000", "127.0.0.1:7001", "10.0.0.3:9"].map(|text| text.parse().unwrap());
        let line =
            |from: &str, words: &str| MonitorLine { mono_ns: 5, text: Ok(format!("+1.000001 [0 {from}] {words}")) };
        let lines = [
            line("127.0.0.1:7000", "\"AUTH\" \"(redacted)\""),
            line("127.0.0.1:7000", "\"EVAL\" \"x\""),
            line("lua", "\"GET\" \"k\""),
            line("127.0.0.1:7001", "\"EVAL\" \"secret\""),
            line("lua", "\"GET\" \"secret\""),
            MonitorLine { mono_ns: 9, text: Err("it ended") },
        ];
        let kept = of_clients(&lines, 0, &BTreeMap::from([(relay, client)]));
        let shown: Vec<_> = kept.iter().map(|command| (command.from, command.words.join(" "))).collect();
        let expected = [(Some(client), "EVAL x".to_string()), (None, "GET k".to_string()), (None, String::new())];
        assert_eq!(shown, expected, "{other}");
        assert_eq!(kept[2].missed.as_deref(), Some("it ended"));
    }
}
