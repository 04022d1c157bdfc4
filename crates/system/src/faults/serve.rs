//! The agent itself: takes orders from a stream, carries them out concurrently, and answers each when it is done.
//!
//! The actions for each kind of fault are in [`kinds`]. This module keeps which faults are in effect, and the order in which to
//! undo them. When the stream ends, or on SIGTERM, the agent heals everything.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinSet;

use super::async_host::AsyncHost;
use super::host::Host;
use super::injection::Injection;
use super::monitor::Monitors;
use super::observer::Observers;
use super::sampler::{Hit, Sampler};
use super::this_host::ThisHost;
use super::wire::{Answer, Observation, Order, Request, Response, Struck};
use super::{clear, kinds};

use base::members::Role;
use base::sync::lock;
use model::fault_kinds::OnProcess;

/// How often the agent, at its end, tries to heal faults that do not heal.
const LAST_ATTEMPTS: usize = 25;

/// Runs the agent on stdin and stdout until stdin ends or a signal ends it.
pub fn run_agent() -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move { serve(io::stdin(), io::stdout()).await })
}

/// Runs an agent for members of this machine on any pair of streams, for controllers that can reach the members from their own
/// process.
pub async fn serve(orders: impl Read + Send + 'static, answers: impl Write + Send + 'static) -> anyhow::Result<()> {
    let answers = Arc::new(Mutex::new(answers));
    let (sender, requests) = mpsc::unbounded_channel();
    // A plain thread, not a task: it ends with the process, even while it waits for a stream that never ends. It answers `clock`
    // itself, since every switch between tasks would widen the bound on the clients' clock.
    let direct = Arc::clone(&answers);
    thread::Builder::new().name("orders".to_string()).spawn(move || read_orders(orders, &direct, &sender))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let told_to_end = async {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    // If nothing reads answers any more, the stream of orders ends as well.
    let answer = move |response: &Response| _ = send(&answers, response);
    serve_orders(ThisHost::default(), requests, answer, told_to_end).await
}

/// Serves orders for this host's members until there are no more, or until `told_to_end` resolves; then undoes everything.
pub async fn serve_orders(
    host: impl Host,
    mut requests: mpsc::UnboundedReceiver<Request>,
    answer: impl Fn(&Response) + Clone + Send + 'static,
    told_to_end: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let agent = Arc::new(Agent::new(Arc::new(host)));
    let mut running = JoinSet::new();
    tokio::pin!(told_to_end);
    loop {
        tokio::select! {
            biased;
            () = &mut told_to_end => break,
            request = requests.recv() => match request {
                None => break,
                Some(request) => {
                    let (answer, work) = (answer.clone(), Arc::clone(&agent).begin(request.order));
                    running.spawn(async move {
                        let response = Response { id: request.id, answer: work.await };
                        answer(&response);
                    });
                }
            },
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    agent.ending.store(true, Ordering::SeqCst);
    let unhealed = agent.heal_until_clean().await;
    anyhow::ensure!(unhealed.is_empty(), "the agent could not undo: {}", unhealed.join(", "));
    Ok(())
}

fn read_orders<W: Write>(orders: impl Read, answers: &Mutex<W>, sender: &mpsc::UnboundedSender<Request>) {
    for line in BufReader::new(orders).lines() {
        let Ok(line) = line else { return };
        match serde_json::from_str::<Request>(&line) {
            Ok(Request { id, order: Order::Clock }) => {
                let _ = send(answers, &Response { id, answer: Ok(clock(&ThisHost::default()).into()) });
            }
            Ok(request) => {
                if sender.send(request).is_err() {
                    return;
                }
            }
            // Both ends are one program, so a person is trying the agent by hand.
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

/// The host's monotonic clock, in nanoseconds.
fn clock(host: &dyn Host) -> i64 {
    i64::try_from(host.monotonic().as_nanos()).unwrap_or(i64::MAX)
}

fn told(outcome: Result<impl Serialize, String>) -> Answer {
    serde_json::to_value(outcome?).map_err(|error| error.to_string())
}

/// A fault that was ordered.
#[derive(Clone)]
struct Ordered {
    injection: Injection,
    /// Locked while the fault is injected and while it is healed. Otherwise an unfinished injection could take effect after the
    /// heal.
    busy: Arc<tokio::sync::Mutex<()>>,
}

/// The members that these faults hit. The sampler must not report these members as stopped from outside.
fn hit<'o>(in_effect: impl Iterator<Item = &'o Ordered>) -> Hit {
    let mut hit = Hit::default();
    for Ordered { injection, .. } in in_effect {
        if injection.kind.does.process != OnProcess::GoesOn || injection.kind.does.restarts {
            hit.standing.extend(injection.members.iter().cloned());
        }
        hit.servers |= injection.affected().iter().any(|name| Role::of(name).is_some_and(Role::is_server));
    }
    hit
}

struct Agent {
    host: AsyncHost,
    monitors: Monitors,
    observers: Observers,
    sampler: Sampler,
    /// Faults by number, each from before its injection until its heal was observed.
    in_effect: Mutex<BTreeMap<u32, Ordered>>,
    /// Set before the last heal, so that no unfinished order takes effect after it.
    ending: AtomicBool,
}

impl Agent {
    fn new(host: Arc<dyn Host>) -> Agent {
        Agent {
            host: AsyncHost::new(host),
            monitors: Monitors::default(),
            observers: Observers::default(),
            sampler: Sampler::default(),
            in_effect: Mutex::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// Begins an order and returns the future that carries it out. An injection is registered before this returns. So a heal that
    /// was ordered later finds the injection and waits for it, whichever task runs first.
    fn begin(self: Arc<Self>, order: Order) -> impl Future<Output = Answer> + Send + 'static {
        let registered = match &order {
            Order::Inject { fault, injection } => self.register(*fault, injection).map(Some),
            _ => Ok(None),
        };
        async move {
            match registered {
                Ok(busy) => {
                    let answer = self.carry_out(order).await;
                    drop(busy);
                    answer
                }
                Err(reason) => Err(reason),
            }
        }
    }

    async fn carry_out(&self, order: Order) -> Answer {
        let host = &self.host;
        match order {
            Order::Clock => told(Ok(clock(host.now()))),
            Order::Guard { bridge, table } => told(host.run(move |host| host.guard(&bridge, &table)).await),
            Order::Network { bridge, table } => told(host.run(move |host| host.set_network(&bridge, &table)).await),
            Order::Adopt { member, pid, scope, address } => {
                let name = member.clone();
                let adopted = host.run(move |host| host.adopt(&name, pid, scope, address)).await;
                told(adopted.map(|()| self.sampler.adopt(&member, pid)))
            }
            Order::Inject { fault, injection } => told(self.inject(fault, injection).await),
            Order::Strike { fault, disarm } => told(self.strike(fault, disarm).await),
            Order::Heal { fault } => told(self.heal(fault).await),
            Order::HealAll => told(Ok(self.heal_all().await)),
            Order::StartAnew => told(self.reset().await),
            Order::Clear { url, limit_ms } => {
                // The connection would be among those that `clear` closes.
                host.probes.close(&url).await;
                told(clear::clear(&host.machine(), &url, Duration::from_millis(limit_ms)).await)
            }
            Order::Monitor { url, limit_ms } => {
                told(self.monitors.begin(&host.machine(), &url, Duration::from_millis(limit_ms)).await)
            }
            Order::Monitored { url, of } => told(Ok(self.monitors.take(&host.machine(), &url, &of))),
            Order::Observe { nodes } => {
                self.observers.begin(&host.machine(), nodes);
                told(Ok(()))
            }
            Order::Observed => told(Ok(self.observers.tell())),
            Order::Watch { servers, least_ns } => told(self.sampler.begin(&host.machine(), servers, least_ns)),
            Order::Watched => told(Ok(self.sampler.tell().await)),
            Order::Redis { url, command, limit_ms } => {
                told(host.probes.ask(&url, &command, Duration::from_millis(limit_ms)).await)
            }
        }
    }

    /// Registers an injection before anything is done: whatever happens from here on, a heal must follow. Heals wait until the
    /// returned guard is dropped.
    fn register(&self, fault: u32, injection: &Injection) -> Result<OwnedMutexGuard<()>, String> {
        for name in injection.affected() {
            self.host.now().address_of(&name)?;
        }
        let busy = Arc::new(tokio::sync::Mutex::new(()));
        let guard = Arc::clone(&busy).try_lock_owned().map_err(|error| error.to_string())?;
        let mut in_effect = lock(&self.in_effect);
        if self.ending.load(Ordering::SeqCst) {
            return Err("the agent is ending".to_string());
        }
        if in_effect.contains_key(&fault) {
            return Err(format!("fault {fault} is already active"));
        }
        in_effect.insert(fault, Ordered { injection: injection.clone(), busy });
        self.sampler.know(hit(in_effect.values()));
        Ok(guard)
    }

    fn is_over(&self, fault: u32) {
        let mut in_effect = lock(&self.in_effect);
        in_effect.remove(&fault);
        self.sampler.know(hit(in_effect.values()));
    }

    async fn inject(&self, fault: u32, injection: Injection) -> Result<Observation, String> {
        let order = kinds::Order { fault, injection, still_held: Vec::new() };
        kinds::act_of(order.injection.kind)?.inject(&self.host, &order).await
    }

    /// Undoes a fault. Forgets it only once this was observed; until then, every further call tries again.
    async fn heal(&self, fault: u32) -> Result<Observation, String> {
        let found = lock(&self.in_effect).get(&fault).cloned();
        let Some(Ordered { injection, busy }) = found else { return Ok(Observation::nothing_to_undo()) };
        let _busy = busy.lock().await;
        let order = kinds::Order { fault, still_held: self.still_held(fault, &injection), injection };
        let seen = kinds::act_of(order.injection.kind)?.heal(&self.host, &order).await;
        if seen.as_ref().is_ok_and(|seen| seen.observed) {
            self.is_over(fault);
        }
        seen
    }

    /// Says whether a fault at a command has fired, and where.
    async fn strike(&self, fault: u32, disarm: bool) -> Result<Struck, String> {
        let injection = lock(&self.in_effect).get(&fault).map(|ordered| ordered.injection.clone());
        let injection = injection.ok_or_else(|| format!("fault {fault} is not active"))?;
        let order = kinds::Order { fault, injection, still_held: Vec::new() };
        kinds::act_of(order.injection.kind)?.strike(&self.host, &order, disarm).await
    }

    /// The members that another fault of the same kind still hits. Here, all faults that end processes are of the same kind.
    fn still_held(&self, fault: u32, injection: &Injection) -> Vec<String> {
        let in_effect = lock(&self.in_effect);
        let kind = injection.kind;
        let others: Vec<&Injection> = in_effect
            .iter()
            .filter(|(number, _)| **number != fault)
            .map(|(_, ordered)| &ordered.injection)
            .filter(|other| other.kind == kind || (other.kind.ends_processes() && kind.ends_processes()))
            .collect();
        let is_held = |member: &&String| others.iter().any(|other| other.members.contains(member));
        injection.members.iter().filter(is_held).cloned().collect()
    }

    /// Undoes every fault, the latest first, and returns an observation for each.
    async fn heal_all(&self) -> Vec<Observation> {
        let faults: Vec<u32> = lock(&self.in_effect).keys().rev().copied().collect();
        let mut seen = Vec::new();
        for fault in faults {
            seen.push(self.heal(fault).await.unwrap_or_else(Observation::unseen));
        }
        seen
    }

    /// Returns to the state before the first order, except for the network. Refuses while any fault is in effect.
    async fn reset(&self) -> Result<(), String> {
        let on_network = self.host.now().on_network();
        let broken: BTreeSet<u32> = lock(&self.in_effect).keys().copied().chain(on_network).collect();
        if let Some(fault) = broken.first() {
            return Err(format!("fault {fault} was not undone"));
        }
        self.monitors.forget();
        self.observers.forget();
        self.sampler.forget();
        self.host.run(|host| host.reset()).await
    }

    /// Heals everything, with several attempts if needed, and returns the faults that would not heal. Killed members are not
    /// restarted, since their starter is gone.
    async fn heal_until_clean(&self) -> Vec<String> {
        let ordered: Vec<(u32, Ordered)> =
            lock(&self.in_effect).iter().map(|(fault, ordered)| (*fault, ordered.clone())).collect();
        for (fault, Ordered { injection, busy }) in ordered {
            if injection.kind.ends_processes() {
                let _done = busy.lock().await;
                self.is_over(fault);
            }
        }
        let mut unhealed = Vec::new();
        for attempt in 0..LAST_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let seen = self.heal_all().await;
            unhealed = seen.into_iter().filter(|seen| !seen.observed).map(|seen| seen.text).collect();
            if unhealed.is_empty() {
                break;
            }
        }
        unhealed.extend(self.host.now().close_network().err());
        unhealed
    }
}

#[cfg(test)]
mod tests {
    use std::io::PipeWriter;
    use std::process::Command;

    use super::*;
    use crate::faults::Scope;
    use crate::faults::process::stat;
    use model::fault_kinds::FaultKind;

    /// An agent on pipes; returns the pipe for orders, the pipe for answers, and its task.
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
        assert!(order(&mut to, &mut from, r#""clock""#).starts_with(r#"{"id":1,"answer":{"Ok":"#));
        let adopt =
            format!(r#"{{"adopt":{{"member":"c0","pid":{},"scope":"descendants","address":null}}}}"#, child.id());
        assert!(order(&mut to, &mut from, &adopt).contains(r#"{"Ok":null}"#));
        let inject = r#"{"inject":{"fault":0,"injection":{"kind":"pause","members":["c0"]}}}"#;
        assert!(order(&mut to, &mut from, inject).contains(r#""observed":true"#));
        assert_eq!(stat(child.id()).unwrap().state, 'T');
        let stranger = r#"{"inject":{"fault":1,"injection":{"kind":"pause","members":["c1"]}}}"#;
        assert!(order(&mut to, &mut from, stranger).contains("no member `c1`"));
        drop(to);
        agent.await.unwrap().unwrap();
        assert_ne!(stat(child.id()).unwrap().state, 'T', "the agent's last act");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_heal_waits_for_an_injection_that_was_ordered_before_and_has_not_begun() {
        let server = Arc::new(Agent::new(Arc::new(ThisHost::default())));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        server.host.now().adopt("c0", child.id(), Scope::Descendants, None).unwrap();
        let pause = || Injection::on_members(FaultKind::Pause, vec!["c0".to_string()]);
        let state = || stat(child.id()).unwrap().state;
        // The first order's future is not polled until the second order has waited for a while.
        let injected = Arc::clone(&server).begin(Order::Inject { fault: 3, injection: pause() });
        let healed = tokio::spawn(Arc::clone(&server).begin(Order::HealAll));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!healed.is_finished());
        assert_ne!(state(), 'T');
        assert_eq!(injected.await.unwrap()["observed"], true);
        let seen: Vec<Observation> = serde_json::from_value(healed.await.unwrap().unwrap()).unwrap();
        assert!(seen.len() == 1 && seen[0].observed, "{seen:?}");
        assert_ne!(state(), 'T');
        assert!(lock(&server.in_effect).is_empty());
        // A refused order is not registered, so nothing waits for it.
        let stranger = Injection::on_members(FaultKind::Pause, vec!["c1".to_string()]);
        let refused = Arc::clone(&server).begin(Order::Inject { fault: 4, injection: stranger });
        assert!(lock(&server.in_effect).is_empty());
        assert!(matches!(refused.await, Err(reason) if reason.contains("no member `c1`")));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_is_not_there_is_not_waited_for() {
        let (mut to, mut from, _agent) = start();
        let ping = r#"{"redis":{"url":"redis://127.0.0.1:1","command":"ping","limit_ms":500}}"#;
        assert!(order(&mut to, &mut from, ping).contains("Err"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ping = format!(r#"{{"redis":{{"url":"redis://127.0.0.1:{port}","command":"ping","limit_ms":200}}}}"#);
        assert!(order(&mut to, &mut from, &ping).contains("200 ms"), "one that accepts and says nothing");
    }
}
