//! The agent itself: takes orders from a stream, carries them out side by side, answers each when it is done.
//!
//! Orders are read by a thread of its own that answers `clock` on the spot, since every hop between tasks would widen
//! the bound on the clients' clock. When the stream ends, or on SIGTERM, everything that was broken is healed.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::member::Member;
use super::pause;
use super::probe::Probes;
use super::wire::{Answer, Observation, Order, Request, Response, Scope};
use crate::history::FaultKind;

/// How often the agent tries at its end to heal what would not heal.
const LAST_ATTEMPTS: usize = 25;

/// Runs the agent on stdin and stdout until stdin ends or a signal asks for the end.
pub async fn run_agent() -> anyhow::Result<()> {
    serve(io::stdin(), io::stdout()).await
}

/// Runs an agent on any pair of streams, for controllers that have members in reach of their own process.
pub async fn serve(orders: impl Read + Send + 'static, answers: impl Write + Send + 'static) -> anyhow::Result<()> {
    let agent = Arc::new(Server::default());
    let answers = Arc::new(Mutex::new(answers));
    let (sender, mut requests) = mpsc::unbounded_channel();
    // A plain thread, not a task: it ends with the process, even while it waits for a stream that never ends.
    let direct = Arc::clone(&answers);
    thread::Builder::new().name("orders".to_string()).spawn(move || read_orders(orders, &direct, &sender))?;

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                None => break,
                Some(request) => {
                    let (agent, answers) = (Arc::clone(&agent), Arc::clone(&answers));
                    running.spawn(async move {
                        let answer = agent.carry_out(request.order).await;
                        // Where nobody reads answers any more, the orders' stream ends as well.
                        let _ = send(&answers, &Response { id: request.id, answer });
                    });
                }
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    agent.ending.store(true, Ordering::SeqCst);
    let unhealed = tokio::task::spawn_blocking(move || agent.heal_for_good()).await?;
    anyhow::ensure!(unhealed.is_empty(), "still stopped at the agent's end: {}", unhealed.join(", "));
    Ok(())
}

fn read_orders<W: Write>(orders: impl Read, answers: &Mutex<W>, sender: &mpsc::UnboundedSender<Request>) {
    for line in BufReader::new(orders).lines() {
        let Ok(line) = line else { return };
        match serde_json::from_str::<Request>(&line) {
            Ok(Request { id, order: Order::Clock }) => {
                let _ = send(answers, &Response { id, answer: clock() });
            }
            Ok(request) => {
                if sender.send(request).is_err() {
                    return;
                }
            }
            // Both ends are one program, so this is a person trying the agent by hand.
            Err(error) => eprintln!("not an order: {error}: {line}"),
        }
    }
}

fn send<W: Write>(answers: &Mutex<W>, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    let mut answers = lock(answers);
    answers.write_all(&line)?;
    answers.flush()
}

fn clock() -> Answer {
    let now = clock_gettime(ClockId::Monotonic);
    Answer::Clock { mono_ns: now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec) }
}

#[derive(Default)]
struct Server {
    members: Mutex<HashMap<String, Arc<Mutex<Member>>>>,
    probes: Probes,
    /// Set before the last heal, so that no order still under way breaks anything after it.
    ending: AtomicBool,
}

impl Server {
    async fn carry_out(self: Arc<Self>, order: Order) -> Answer {
        match order {
            Order::Clock => clock(),
            Order::Adopt { member, pid, scope } => self.blocking(move |server| server.adopt(&member, pid, scope)).await,
            Order::Inject { kind, member } => self.blocking(move |server| server.inject(kind, &member)).await,
            Order::Heal { kind, member } => self.blocking(move |server| server.heal(kind, &member)).await,
            Order::HealAll => self.blocking(|server| server.heal_all()).await,
            Order::Redis { url, command, limit_ms } => {
                match self.probes.ask(&url, &command, Duration::from_millis(limit_ms)).await {
                    Ok(reply) => Answer::Redis(reply),
                    Err(reason) => Answer::Failed(reason),
                }
            }
        }
    }

    /// Faults look at /proc and wait, which must not hold up other orders.
    async fn blocking(self: Arc<Self>, job: impl FnOnce(&Server) -> Result<Answer, String> + Send + 'static) -> Answer {
        match tokio::task::spawn_blocking(move || job(&self)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(reason)) => Answer::Failed(reason),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    fn adopt(&self, name: &str, pid: u32, scope: Scope) -> Result<Answer, String> {
        let member = Member::adopt(name, pid, scope).map_err(|error| format!("cannot adopt {name}: {error}"))?;
        if let Ok(earlier) = self.member(name) {
            let mut earlier = lock(&earlier);
            if earlier.paused {
                pause::heal(&mut earlier).map_err(|error| error.to_string())?;
            }
        }
        lock(&self.members).insert(name.to_string(), Arc::new(Mutex::new(member)));
        Ok(Answer::Adopted)
    }

    fn inject(&self, kind: FaultKind, name: &str) -> Result<Answer, String> {
        let member = self.member(name)?;
        let mut member = lock(&member);
        if self.ending.load(Ordering::SeqCst) {
            return Err("the agent is ending".to_string());
        }
        let observation = match kind {
            FaultKind::Pause => pause::inject(&mut member),
        };
        observation.map(Answer::Observed).map_err(|error| format!("{name}: {error}"))
    }

    fn heal(&self, kind: FaultKind, name: &str) -> Result<Answer, String> {
        let member = self.member(name)?;
        let mut member = lock(&member);
        let observation = match kind {
            FaultKind::Pause => pause::heal(&mut member),
        };
        observation.map(Answer::Observed).map_err(|error| format!("{name}: {error}"))
    }

    fn heal_all(&self) -> Result<Answer, String> {
        let mut members: Vec<_> = lock(&self.members).values().cloned().collect();
        members.sort_by_key(|member| lock(member).name.clone());
        let mut observations = Vec::new();
        for member in members {
            let mut member = lock(&member);
            if member.paused {
                observations.push(pause::heal(&mut member).unwrap_or_else(|error| Observation {
                    text: format!("{}: {error}", member.name),
                    ..Observation::gone(&member.name)
                }));
            }
        }
        Ok(Answer::ObservedAll(observations))
    }

    /// Heals everything, several times where that is needed, and returns what would not heal.
    fn heal_for_good(&self) -> Vec<String> {
        let mut unhealed = Vec::new();
        for attempt in 0..LAST_ATTEMPTS {
            if attempt > 0 {
                thread::sleep(Duration::from_millis(20));
            }
            if let Ok(Answer::ObservedAll(seen)) = self.heal_all() {
                unhealed = seen.into_iter().filter(|seen| !seen.observed).map(|seen| seen.text).collect();
                if unhealed.is_empty() {
                    break;
                }
            }
        }
        unhealed
    }

    fn member(&self, name: &str) -> Result<Arc<Mutex<Member>>, String> {
        lock(&self.members).get(name).cloned().ok_or_else(|| format!("no member `{name}` was adopted"))
    }
}

/// A task that panicked leaves a member that still must be healed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::PipeWriter;
    use std::process::Command;

    use super::*;
    use crate::faults::process::stat;

    /// An agent on pipes; returns where to write orders, where to read answers, and its end.
    fn start() -> (PipeWriter, impl BufRead, tokio::task::JoinHandle<anyhow::Result<()>>) {
        let (orders, write_orders) = io::pipe().unwrap();
        let (read_answers, answers) = io::pipe().unwrap();
        (write_orders, BufReader::new(read_answers), tokio::spawn(serve(orders, answers)))
    }

    fn order(to: &mut PipeWriter, from: &mut impl BufRead, order: &str) -> String {
        writeln!(to, r#"{{"id":1,"order":{order}}}"#).unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn members_go_on_when_the_orders_end() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (mut to, mut from, agent) = start();
        writeln!(to, "nonsense").unwrap();
        assert!(order(&mut to, &mut from, r#""clock""#).contains("mono_ns"));
        let adopt = format!(r#"{{"adopt":{{"member":"c0","pid":{},"scope":"descendants"}}}}"#, child.id());
        assert!(order(&mut to, &mut from, &adopt).contains("adopted"));
        let inject = r#"{"inject":{"kind":"pause","member":"c0"}}"#;
        assert!(order(&mut to, &mut from, inject).contains(r#""observed":true"#));
        assert_eq!(stat(child.id()).unwrap().state, 'T');
        let stranger = r#"{"inject":{"kind":"pause","member":"c1"}}"#;
        assert!(order(&mut to, &mut from, stranger).contains("no member `c1`"));
        drop(to);
        agent.await.unwrap().unwrap();
        assert_ne!(stat(child.id()).unwrap().state, 'T', "the agent's last deed");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_is_not_there_is_not_waited_for() {
        let (mut to, mut from, _agent) = start();
        let ping = r#"{"redis":{"url":"redis://127.0.0.1:1","command":"ping","limit_ms":500}}"#;
        assert!(order(&mut to, &mut from, ping).contains("failed"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ping = format!(r#"{{"redis":{{"url":"redis://127.0.0.1:{port}","command":"ping","limit_ms":200}}}}"#);
        assert!(order(&mut to, &mut from, &ping).contains("200 ms"), "one that accepts and says nothing");
    }
}
