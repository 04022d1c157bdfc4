//! The agent itself: takes orders from a stream, carries them out concurrently, and answers each when it is done.
//!
//! What it does to members and their network is up to a [`Host`]; which faults are in effect, and in which order they are
//! undone, is kept here. When the stream ends, or on SIGTERM, the agent heals everything.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinSet;

use super::host::{Deed, Host};
use super::injection::Injection;
use super::network::{self, Call, Ends};
use super::probe::Probes;
use super::this_host::ThisHost;
use super::wire::{Answer, Observation, Order, RedisCommand, RedisReply, Request, Response, Struck};
use super::{clear, failover, memory};
use crate::history::{Command, FaultKind};
use crate::topology::REDIS_PORT;

/// How long a server may take to list its connections.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// The same for what it can do without: a server that is stopped must not hold up a script.
const ASK_TO_ARM: Duration = Duration::from_millis(50);
/// How often the agent, at its end, tries to heal what does not heal.
const LAST_ATTEMPTS: usize = 25;

/// Runs the agent on stdin and stdout until stdin ends or a signal asks it to end.
pub async fn run_agent() -> anyhow::Result<()> {
    serve(io::stdin(), io::stdout()).await
}

/// Runs an agent for members of this machine on any pair of streams, for controllers that can reach them from their own
/// process.
pub async fn serve(orders: impl Read + Send + 'static, answers: impl Write + Send + 'static) -> anyhow::Result<()> {
    let answers = Arc::new(Mutex::new(answers));
    let (sender, requests) = mpsc::unbounded_channel();
    // A plain thread, not a task: it ends with the process, even while it waits for a stream that never ends. It answers
    // `clock` on the spot, since every hop between tasks would widen the bound on the clients' clock.
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
    // If nobody reads answers any more, the stream of orders ends as well.
    let answer = move |response: &Response| _ = send(&answers, response);
    carry_out_all(ThisHost::default(), requests, answer, told_to_end).await
}

/// Carries out orders on this host's members until there are no more, or until `told_to_end`; then undoes everything.
pub(crate) async fn carry_out_all<H: Host>(
    host: H,
    mut requests: mpsc::UnboundedReceiver<Request>,
    answer: impl Fn(&Response) + Clone + Send + 'static,
    told_to_end: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let agent = Arc::new(Server::new(host));
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
    let unhealed = agent.heal_for_good().await;
    anyhow::ensure!(unhealed.is_empty(), "not undone at the agent's end: {}", unhealed.join(", "));
    Ok(())
}

fn read_orders<W: Write>(orders: impl Read, answers: &Mutex<W>, sender: &mpsc::UnboundedSender<Request>) {
    for line in BufReader::new(orders).lines() {
        let Ok(line) = line else { return };
        match serde_json::from_str::<Request>(&line) {
            Ok(Request { id, order: Order::Clock }) => {
                let _ = send(answers, &Response { id, answer: clock(&ThisHost::default()) });
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

fn clock(host: &impl Host) -> Answer {
    Answer::Clock { mono_ns: i64::try_from(host.monotonic().as_nanos()).unwrap_or(i64::MAX) }
}

/// A fault that was ordered.
#[derive(Clone)]
struct Ordered {
    injection: Injection,
    /// Held while the fault is injected and while it is healed. Otherwise an injection still under way could break
    /// something again after the heal.
    busy: Arc<tokio::sync::Mutex<()>>,
}

struct Server<H> {
    host: Arc<H>,
    /// By number. A fault is in here from before its injection until its heal was observed.
    in_effect: Mutex<BTreeMap<u32, Ordered>>,
    probes: Probes,
    /// Set before the last heal, so that no order still under way breaks anything after it.
    ending: AtomicBool,
}

impl<H: Host> Server<H> {
    fn new(host: H) -> Server<H> {
        let probes = Probes::new(host.machine());
        Server { host: Arc::new(host), in_effect: Mutex::default(), probes, ending: AtomicBool::new(false) }
    }

    /// Begins an order; what it returns carries it out. An injection is registered by then, so a heal that was ordered
    /// after it finds it and waits for it, whichever of the two tasks comes to run first.
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
                Err(reason) => Answer::Failed(reason),
            }
        }
    }

    async fn carry_out(self: Arc<Self>, order: Order) -> Answer {
        let result = match order {
            Order::Clock => Ok(clock(&*self.host)),
            Order::Guard { bridge, table } => {
                self.on_host(move |host| host.guard(&bridge, &table)).await.map(|()| Answer::Done)
            }
            Order::Network { bridge, table } => {
                self.on_host(move |host| host.know_network(&bridge, &table)).await.map(|()| Answer::Done)
            }
            Order::Adopt { member, pid, scope, address } => {
                self.on_host(move |host| host.adopt(&member, pid, scope, address)).await.map(|()| Answer::Done)
            }
            Order::Inject { fault, injection } => self.inject(fault, injection).await.map(Answer::Observed),
            Order::Strike { fault, disarm } => self.strike(fault, disarm).await.map(Answer::Struck),
            Order::Heal { fault } => self.heal(fault).await.map(Answer::Observed),
            Order::HealAll => Ok(Answer::ObservedAll(self.heal_all().await)),
            Order::StartAnew => self.start_anew().await.map(|()| Answer::Done),
            Order::Clear { url, limit_ms } => {
                // It would be among those to be closed.
                self.probes.close(&url).await;
                clear::clear(&self.host.machine(), &url, Duration::from_millis(limit_ms)).await.map(|()| Answer::Done)
            }
            Order::Redis { url, command, limit_ms } => {
                self.probes.ask(&url, &command, Duration::from_millis(limit_ms)).await.map(Answer::Redis)
            }
        };
        result.unwrap_or_else(Answer::Failed)
    }

    /// Registers an injection before anything is done: whatever happens from here on, a heal must follow. Heals wait
    /// until what this returns is dropped.
    fn register(&self, fault: u32, injection: &Injection) -> Result<OwnedMutexGuard<()>, String> {
        for name in injection.members() {
            self.host.address_of(&name)?;
        }
        let busy = Arc::new(tokio::sync::Mutex::new(()));
        let guard = Arc::clone(&busy).try_lock_owned().map_err(|error| error.to_string())?;
        let mut in_effect = lock(&self.in_effect);
        if self.ending.load(Ordering::SeqCst) {
            return Err("the agent is ending".to_string());
        }
        if in_effect.contains_key(&fault) {
            return Err(format!("there is a fault {fault} already"));
        }
        in_effect.insert(fault, Ordered { injection: injection.clone(), busy });
        Ok(guard)
    }

    async fn inject(self: Arc<Self>, fault: u32, injection: Injection) -> Result<Observation, String> {
        match injection {
            Injection::Pause { members } => self.each(members, Deed::Stop).await,
            Injection::PauseBackground { members } => self.each(members, Deed::StopBackground).await,
            Injection::Kill { members } => self.each(members, Deed::Kill).await,
            Injection::Flush { members } => self.on_memory_of(members, memory::Action::Flush).await,
            Injection::Evict { members } => self.on_memory_of(members, memory::Action::Evict).await,
            Injection::Failover { primary, replicas, url, words } => {
                let servers = replicas.into_iter().map(|name| Ok((name.clone(), self.server_url(&name)?)));
                let servers = servers.collect::<Result<Vec<_>, String>>()?;
                Ok(failover::order(&self.host.machine(), &primary, &servers, &url, &words).await)
            }
            Injection::PowerLoss { members } => self.each(members, Deed::LosePower).await,
            Injection::Clock { members, skew } => self.each(members, Deed::Skew(skew)).await,
            Injection::Network { pairs, effect } => {
                let pairs = self.addresses(&pairs)?;
                self.on_host(move |host| host.inject(fault, &pairs, effect)).await
            }
            Injection::Call { pairs, call } => self.arm(fault, &pairs, call).await,
        }
    }

    /// Undoes a fault. It is forgotten only once that was observed; until then, every further call tries again.
    async fn heal(self: Arc<Self>, fault: u32) -> Result<Observation, String> {
        let found = lock(&self.in_effect).get(&fault).cloned();
        let Some(Ordered { injection, busy }) = found else { return Ok(nothing_to_undo()) };
        let _busy = busy.lock().await;
        let seen = match injection {
            Injection::Pause { members } => {
                let (kept, members) = self.kept_by_another(fault, FaultKind::Pause, members);
                self.each(members, Deed::Continue).await.map(|seen| besides(seen, &kept))
            }
            Injection::PauseBackground { members } => {
                let (kept, members) = self.kept_by_another(fault, FaultKind::PauseBackground, members);
                self.each(members, Deed::ContinueBackground).await.map(|seen| besides(seen, &kept))
            }
            Injection::Kill { members } | Injection::PowerLoss { members } => {
                self.each(members, Deed::SeeRunning).await
            }
            Injection::Flush { members } => {
                let text = format!("{}: lost data stays lost", members.join(", "));
                Ok(Observation { observed: true, ..Observation::unseen(text) })
            }
            Injection::Failover { .. } => {
                Ok(Observation { observed: true, ..Observation::unseen("the new primary stays primary".to_string()) })
            }
            Injection::Evict { members } => {
                // The memory limit of a server that died meanwhile is gone with it.
                let runs = |name: &String| self.host.runs(name);
                match members.into_iter().filter(runs).collect::<Vec<_>>() {
                    none if none.is_empty() => Ok(nothing_to_undo()),
                    members => Arc::clone(&self).on_memory_of(members, memory::Action::Unbound).await,
                }
            }
            Injection::Clock { members, .. } => {
                let (kept, members) = self.kept_by_another(fault, FaultKind::Clock, members);
                self.each(members, Deed::ShowTrueTime).await.map(|seen| besides(seen, &kept))
            }
            // A fault that was refused is not in effect anywhere.
            Injection::Network { .. } | Injection::Call { .. } if !self.host.on_network().contains(&fault) => {
                Ok(nothing_to_undo())
            }
            Injection::Network { .. } | Injection::Call { .. } => self.on_host(move |host| host.heal(fault)).await,
        };
        if seen.as_ref().is_ok_and(|seen| seen.observed) {
            lock(&self.in_effect).remove(&fault);
        }
        seen
    }

    /// Arms a fault at a command on the ways between clients and servers, both ways.
    async fn arm(
        self: Arc<Self>,
        fault: u32,
        pairs: &[(String, String)],
        mut call: Call,
    ) -> Result<Observation, String> {
        let ways = self.addresses(pairs)?;
        // A list of connections tells their last commands, not the keys of these.
        if call.action.chooses() && call.key.is_none() {
            let servers: BTreeSet<Ipv4Addr> = ways.iter().map(|(_, server)| *server).collect();
            for server in servers {
                let listed = RedisCommand::Words(vec!["CLIENT".to_string(), "LIST".to_string()]);
                let url = format!("redis://{server}:{REDIS_PORT}");
                if let RedisReply::Text(list) = self.probes.ask(&url, &listed, ASK_LIMIT).await? {
                    let open = call.chosen_from(&list, server);
                    call.chosen.extend(open.into_iter().filter(|(client, ..)| ways.contains(&(*client, server))));
                }
            }
        }
        if call.command == Command::Write {
            call.writing = self.writing_on(&ways).await;
        }
        if !call.chosen.is_empty() {
            // Those that the client opens in their place are spared.
            call.nth = Some(0);
        }
        let chosen: Vec<Ends> = call.chosen.clone();
        let both: Vec<_> = ways.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect();
        self.on_host(move |host| {
            let armed = host.inject(fault, &both, network::Effect::Call(call))?;
            host.provoke(fault, &chosen)?;
            Ok(armed)
        })
        .await
    }

    /// The commands that write, in capitals, as the first of the servers says that has an answer; none if none has, such
    /// as before Redis 6.
    async fn writing_on(&self, ways: &[(Ipv4Addr, Ipv4Addr)]) -> BTreeSet<String> {
        let servers: BTreeSet<Ipv4Addr> = ways.iter().map(|(_, server)| *server).collect();
        let listed = RedisCommand::Words(["ACL", "CAT", "write"].map(str::to_string).to_vec());
        for server in servers {
            let url = format!("redis://{server}:{REDIS_PORT}");
            if let Ok(RedisReply::Text(names)) = self.probes.ask(&url, &listed, ASK_TO_ARM).await {
                return names.lines().map(str::to_ascii_uppercase).collect();
            }
        }
        BTreeSet::new()
    }

    /// Whether a fault at a command has struck, and where.
    async fn strike(&self, fault: u32, disarm: bool) -> Result<Struck, String> {
        let strike = self.on_host(move |host| Ok(host.strike(fault, disarm))).await?;
        let injection = lock(&self.in_effect).get(&fault).map(|ordered| ordered.injection.clone());
        let Some(Injection::Call { pairs, call }) = injection else {
            return Err(format!("there is no fault {fault} at a command"));
        };
        let (first, hit) = match strike {
            Ok(struck) => struck,
            Err(spared) => {
                return Ok(Struck { members: Vec::new(), text: call.tell_none(&pairs, spared.as_ref()) });
            }
        };
        let name = |address| self.name_of(address, &pairs);
        let members: BTreeSet<String> = hit.into_iter().flat_map(|(one, other)| [name(one), name(other)]).collect();
        let text = call.tell(&first, &name(first.client), &name(first.server));
        Ok(Struck { members: members.into_iter().collect(), text })
    }

    /// The name of a member of these pairs that has this address.
    fn name_of(&self, address: Ipv4Addr, pairs: &[(String, String)]) -> String {
        let mut names = pairs.iter().flat_map(|(client, server)| [client, server]);
        let has_it = |name: &&String| self.host.address_of(name) == Ok(Some(address));
        names.find(has_it).map_or_else(|| address.to_string(), String::clone)
    }

    /// The members that another fault of this kind still affects, and the others.
    fn kept_by_another(&self, fault: u32, kind: FaultKind, members: Vec<String>) -> (Vec<String>, Vec<String>) {
        let in_effect = lock(&self.in_effect);
        let others: Vec<&Injection> = in_effect
            .iter()
            .filter(|(number, ordered)| **number != fault && ordered.injection.kind() == kind)
            .map(|(_, ordered)| &ordered.injection)
            .collect();
        members.into_iter().partition(|member| others.iter().any(|injection| injection.members().contains(member)))
    }

    fn addresses(&self, pairs: &[(String, String)]) -> Result<Vec<(Ipv4Addr, Ipv4Addr)>, String> {
        let address = |name: &String| self.host.address_of(name)?.ok_or_else(|| format!("{name} has no address"));
        pairs.iter().map(|(from, to)| Ok((address(from)?, address(to)?))).collect()
    }

    /// Undoes every fault, the latest first, and returns what was seen of each.
    async fn heal_all(self: Arc<Self>) -> Vec<Observation> {
        let faults: Vec<u32> = lock(&self.in_effect).keys().rev().copied().collect();
        let mut seen = Vec::new();
        for fault in faults {
            seen.push(Arc::clone(&self).heal(fault).await.unwrap_or_else(Observation::unseen));
        }
        seen
    }

    /// Returns to the state before the first order, except for the network. Refuses while any fault is in effect.
    async fn start_anew(self: Arc<Self>) -> Result<(), String> {
        let on_network = self.host.on_network();
        let broken: BTreeSet<u32> = lock(&self.in_effect).keys().copied().chain(on_network).collect();
        if let Some(fault) = broken.first() {
            return Err(format!("fault {fault} was not undone"));
        }
        self.on_host(H::start_anew).await
    }

    /// Heals everything, with several attempts if needed, and returns what would not heal. What was killed stays dead:
    /// nobody is left to restart it.
    async fn heal_for_good(self: Arc<Self>) -> Vec<String> {
        let ordered: Vec<(u32, Ordered)> =
            lock(&self.in_effect).iter().map(|(fault, ordered)| (*fault, ordered.clone())).collect();
        for (fault, Ordered { injection, busy }) in ordered {
            if matches!(injection, Injection::Kill { .. } | Injection::PowerLoss { .. }) {
                let _done = busy.lock().await;
                lock(&self.in_effect).remove(&fault);
            }
        }
        let mut unhealed = Vec::new();
        for attempt in 0..LAST_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let seen = Arc::clone(&self).heal_all().await;
            unhealed = seen.into_iter().filter(|seen| !seen.observed).map(|seen| seen.text).collect();
            if unhealed.is_empty() {
                break;
            }
        }
        unhealed.extend(self.host.close_network().err());
        unhealed
    }

    /// Does something to each member's processes.
    async fn each(&self, members: Vec<String>, deed: Deed) -> Result<Observation, String> {
        self.on_host(move |host| {
            let seen = members.iter().map(|name| host.act(name, deed));
            seen.collect::<Result<Vec<_>, String>>().map(Observation::all)
        })
        .await
    }

    /// Has the host do something that may take its time, without holding up other orders.
    async fn on_host<T: Send + 'static>(
        &self,
        work: impl FnOnce(&H) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        if !H::BLOCKS {
            return work(&self.host);
        }
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || work(&host)).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Does something to the memory of each member's server.
    async fn on_memory_of(self: Arc<Self>, members: Vec<String>, what: memory::Action) -> Result<Observation, String> {
        let (machine, mut seen) = (self.host.machine(), Vec::new());
        for name in members {
            let url = self.server_url(&name)?;
            seen.push(memory::act(what, &machine, &name, &url).await);
        }
        Ok(Observation::all(seen))
    }

    fn server_url(&self, name: &str) -> Result<String, String> {
        let address = self.host.address_of(name)?.ok_or_else(|| format!("{name} has no address"))?;
        Ok(format!("redis://{address}:{REDIS_PORT}"))
    }
}

fn nothing_to_undo() -> Observation {
    Observation { observed: true, ..Observation::unseen("nothing to undo".to_string()) }
}

/// What was seen of some members, plus those that another fault still holds.
fn besides(mut seen: Observation, kept: &[String]) -> Observation {
    if !kept.is_empty() {
        seen.observed |= seen.text.is_empty();
        seen.text.push_str(&format!(" (another fault still hits {})", kept.join(", ")));
    }
    seen
}

/// If a task panicked, its member must still be healed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::PipeWriter;
    use std::process::Command;

    use super::*;
    use crate::faults::Scope;
    use crate::faults::process::stat;

    /// An agent on pipes; returns where to write orders, where to read answers, and its task.
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
        let adopt =
            format!(r#"{{"adopt":{{"member":"c0","pid":{},"scope":"descendants","address":null}}}}"#, child.id());
        assert!(order(&mut to, &mut from, &adopt).contains("done"));
        let inject = r#"{"inject":{"fault":0,"injection":{"pause":{"members":["c0"]}}}}"#;
        assert!(order(&mut to, &mut from, inject).contains(r#""observed":true"#));
        assert_eq!(stat(child.id()).unwrap().state, 'T');
        let stranger = r#"{"inject":{"fault":1,"injection":{"pause":{"members":["c1"]}}}}"#;
        assert!(order(&mut to, &mut from, stranger).contains("no member `c1`"));
        drop(to);
        agent.await.unwrap().unwrap();
        assert_ne!(stat(child.id()).unwrap().state, 'T', "the agent's last deed");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_heal_waits_for_an_injection_that_was_ordered_before_and_has_not_begun() {
        let server = Arc::new(Server::new(ThisHost::default()));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        server.host.adopt("c0", child.id(), Scope::Descendants, None).unwrap();
        let pause = || Injection::Pause { members: vec!["c0".to_string()] };
        let state = || stat(child.id()).unwrap().state;
        // Nobody runs what the first order returned until the second one has been waiting for a while.
        let injected = Arc::clone(&server).begin(Order::Inject { fault: 3, injection: pause() });
        let healed = tokio::spawn(Arc::clone(&server).begin(Order::HealAll));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!healed.is_finished());
        assert_ne!(state(), 'T');
        assert!(matches!(injected.await, Answer::Observed(seen) if seen.observed));
        let Answer::ObservedAll(seen) = healed.await.unwrap() else { panic!("healed") };
        assert!(seen.len() == 1 && seen[0].observed, "{seen:?}");
        assert_ne!(state(), 'T');
        assert!(lock(&server.in_effect).is_empty());
        // What is refused is not registered, so nothing waits for it.
        let stranger = Injection::Pause { members: vec!["c1".to_string()] };
        let refused = Arc::clone(&server).begin(Order::Inject { fault: 4, injection: stranger });
        assert!(lock(&server.in_effect).is_empty());
        assert!(matches!(refused.await, Answer::Failed(reason) if reason.contains("no member `c1`")));
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
