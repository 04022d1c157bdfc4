//! Machines with their clocks and processes, and the future events.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use simulated_redis::{Action, Clocks, Disk, ProcessEvent};
use tokio::runtime;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::Distance;
use super::bug_injector::BugInjector;
use super::network::{self, AcceptDecision, Network, NetworkEffect, Tick};
use super::servers::{self, Program, ServerEvent};
use crate::faults::{Pair, Released, SeenCommand, Sightings, WrongClock};
use base::members::Role;
use base::sync::lock;
use base::units::nanos;

/// The time that monotonic clocks show when the world begins: machines have been up for a while.
const UP_FOR: Duration = Duration::from_secs(1000);
/// How long the network of a killed process outlives it, as measured with containers and namespaces.
const REFUSES_FOR: Duration = Duration::from_millis(30);
/// How far a server's time may differ from its recorded time, in nanoseconds: the server counts milliseconds.
const CLOCKS_DIFFER: u64 = 1_500_000;
/// The time of day when the world begins, as the time since 1970: 2000-01-01, 00:00 UTC.
pub const START_OF_TIME: Duration = Duration::from_secs(946_684_800);
/// Runs this in virtual time, on its own thread: whenever all tasks wait, the clock jumps to the time of the next event. Fails
/// only if the runtime can't be created.
pub fn in_virtual_time<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> io::Result<T> {
    let in_runtime = || {
        let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        Ok(runtime.block_on(work()))
    };
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("virtual time".to_string()).spawn_scoped(scope, in_runtime)?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// All machines and the network between them.
pub(super) struct World {
    state: Mutex<WorldState>,
    /// Notified when an event is scheduled before the next known event.
    sooner: Notify,
}

pub(super) struct WorldState {
    began: Instant,
    /// The time read since the world was last locked: the clock does not move meanwhile.
    now: Cell<Option<Duration>>,
    rng: ChaCha8Rng,
    pub machines: BTreeMap<Ipv4Addr, Machine>,
    pub network: Network,
    pub bugs: Option<Arc<dyn BugInjector>>,
    /// The observed states of the servers, while an observer watches.
    pub sightings: Option<Sightings>,
    /// The commands that nodes have carried out, with the nodes' names; None while they are not recorded.
    pub executed: Option<Vec<(String, SeenCommand)>>,
    agenda: BTreeMap<(Duration, u64), Due>,
    /// The time of the next event that the world waits for; None if no event was left.
    awaited: Option<Duration>,
    /// A counter that orders events at the same time.
    next: u64,
    next_pid: u32,
}

pub(super) struct Machine {
    pub name: String,
    pub clock: WrongClock,
    pub running: Option<Running>,
    /// The configured server of this machine; None if it is a client's machine.
    pub program: Option<Program>,
    /// The content of its disk while no server runs.
    pub disk: Disk,
    /// True if a snapshot must not outlive its process.
    pub keeps_no_snapshot: bool,
    /// How the last process ended.
    pub ended: Option<i32>,
    /// Until this time, the machine refuses connections. Then, like a container without its process, it does not answer at all.
    pub refuses_until: Duration,
}

impl Machine {
    /// A machine without a process, with an empty disk and a right clock.
    pub fn new(name: &str, program: Option<Program>) -> Machine {
        Machine {
            name: name.to_string(),
            clock: WrongClock::default(),
            running: None,
            program,
            disk: Disk::default(),
            keeps_no_snapshot: false,
            ended: None,
            refuses_until: Duration::ZERO,
        }
    }
}

pub(super) struct Running {
    pub pid: u32,
    /// True if the process is paused, as after SIGSTOP.
    pub stopped: bool,
    pub what: What,
}

pub(super) enum What {
    Server {
        server: servers::RunningServer,
        /// Events that happened while the server was paused.
        waiting: VecDeque<ServerEvent>,
        /// When to wake the server, on its monotonic clock.
        wake: Option<Duration>,
    },
    /// A client, which is a task.
    Client {
        task: Option<AbortHandle>,
        /// Woken in this order when the client continues.
        waiting: Vec<(Waiting, Waker)>,
    },
}

/// The part of a client that waits until the client continues. The program is polled first, as a real runtime does with its
/// outermost task. So a time limit that has passed takes effect before a reply that has already arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiting {
    Program,
    Connection,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Network(network::Due),
    /// A server has scheduled work to do.
    Wake(Ipv4Addr, u32),
}

impl World {
    pub fn new(seed: u64, distance: Distance, bugs: Option<Arc<dyn BugInjector>>) -> Arc<World> {
        let state = WorldState {
            began: Instant::now(),
            now: Cell::new(None),
            rng: ChaCha8Rng::seed_from_u64(seed),
            machines: BTreeMap::new(),
            network: Network::new(distance),
            bugs,
            sightings: None,
            executed: None,
            agenda: BTreeMap::new(),
            awaited: None,
            next: 0,
            next_pid: 100,
        };
        Arc::new(World { state: Mutex::new(state), sooner: Notify::new() })
    }

    /// Changes the state, and wakes the world if this creates an earlier event.
    pub fn change<T>(&self, work: impl FnOnce(&mut WorldState) -> T) -> T {
        let mut state = self.lock();
        let before = state.next;
        let result = work(&mut state);
        if state.next != before && state.is_sooner() {
            self.sooner.notify_one();
        }
        result
    }

    /// Carries out every event at its time; never returns.
    pub async fn go_on(self: Arc<World>) {
        loop {
            let next = {
                let mut state = self.lock();
                state.awaited = state.do_what_is_due();
                state.awaited.map(|at| state.began + at)
            };
            tokio::select! {
                biased;
                () = self.sooner.notified() => {}
                () = until(next) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        let state = lock(&self.state);
        state.now.set(None);
        state
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl WorldState {
    pub fn now(&self) -> Duration {
        let now = self.now.get().unwrap_or_else(|| self.began.elapsed());
        self.now.set(Some(now));
        now
    }

    /// The monotonic clock, the same on all machines.
    pub fn monotonic(&self) -> Duration {
        UP_FOR + self.now()
    }

    /// The true time of day.
    pub fn wall(&self) -> Duration {
        START_OF_TIME + self.now()
    }

    /// The times that a machine's clocks show.
    pub fn clocks(&self, address: Ipv4Addr) -> Clocks {
        let (real, monotonic) = (self.wall(), self.monotonic());
        let wall = self.machines.get(&address).map_or(real, |machine| machine.clock.shows(real, monotonic));
        Clocks { wall, monotonic }
    }

    /// A random number from 0 to 1.
    pub fn draw(&mut self) -> f64 {
        self.rng.random()
    }

    /// True if an event on the agenda is earlier than the awaited event.
    fn is_sooner(&self) -> bool {
        let first = self.agenda.first_key_value();
        first.is_some_and(|((at, _), _)| self.awaited.is_none_or(|awaited| *at < awaited))
    }

    pub fn schedule(&mut self, at: Duration, due: Due) {
        self.agenda.insert((at, self.next), due);
        self.next += 1;
    }

    /// A machine by its member's name.
    pub fn machine_named(&mut self, name: &str) -> Option<(Ipv4Addr, &mut Machine)> {
        self.machines.iter_mut().find(|(_, machine)| machine.name == name).map(|(address, machine)| (*address, machine))
    }

    pub fn running(&mut self, address: Ipv4Addr) -> Option<&mut Running> {
        self.machines.get_mut(&address)?.running.as_mut()
    }

    /// Sets whether a snapshot of the server here must not outlive its process. If it may outlive it again, first removes the
    /// existing snapshot. False if no server runs here.
    pub fn keep_no_snapshot(&mut self, address: Ipv4Addr, keeps_none: bool) -> bool {
        let Some(machine) = self.machines.get_mut(&address) else { return false };
        machine.keeps_no_snapshot = keeps_none;
        let Some(Running { what: What::Server { server, .. }, .. }) = &mut machine.running else { return false };
        if !keeps_none {
            server.forget_snapshot();
        }
        true
    }

    /// Carries out all events that are due; returns the time of the next event.
    fn do_what_is_due(&mut self) -> Option<Duration> {
        loop {
            let now = self.now();
            let entry = self.agenda.first_entry()?;
            let at = entry.key().0;
            if at > now {
                return Some(at);
            }
            match entry.remove() {
                Due::Network(network::Due::Arrive(link, direction)) => {
                    while self.on_network(|network, tick| network.arrive(link, direction, tick)) {}
                }
                Due::Network(network::Due::SendAgain(link, direction)) => {
                    self.on_network(|network, tick| network.send_again(link, direction, tick));
                }
                Due::Wake(address, pid) => {
                    let monotonic = self.monotonic();
                    let is_due = self.running(address).is_some_and(|running| match &mut running.what {
                        What::Server { wake, .. } if running.pid == pid => {
                            wake.take_if(|wake| *wake <= monotonic).is_some()
                        }
                        _ => false,
                    });
                    if is_due {
                        self.happens(address, pid, ServerEvent::Wake);
                    }
                }
            }
        }
    }

    pub fn start(&mut self, address: Ipv4Addr, what: What) -> Option<u32> {
        let pid = self.next_pid;
        self.next_pid += 1;
        let machine = self.machines.get_mut(&address)?;
        machine.ended = None;
        let is_node = Role::of(&machine.name) == Some(Role::Node);
        let running = machine.running.insert(Running { pid, stopped: false, what });
        if let (true, true, What::Server { server, .. }) = (is_node, self.executed.is_some(), &mut running.what) {
            server.record_commands();
        }
        self.look_at(address);
        self.plan_wake(address);
        Some(pid)
    }

    /// Starts this machine's server with the content of its disk.
    pub fn start_server(&mut self, address: Ipv4Addr) -> Option<u32> {
        let clocks = self.clocks(address);
        let machine = self.machines.get_mut(&address)?;
        let program = machine.program.as_ref()?;
        let server = program.start(std::mem::take(&mut machine.disk), clocks);
        self.start(address, What::Server { server, waiting: VecDeque::new(), wake: None })
    }

    /// Ends a machine's process and its connections at once. With `unsynced_too`, data that the server had not synced is lost.
    /// False if no process runs.
    pub fn kill(&mut self, address: Ipv4Addr, unsynced_too: bool) -> bool {
        let now = self.now();
        let Some(machine) = self.machines.get_mut(&address) else { return false };
        let Some(running) = machine.running.take() else { return false };
        machine.ended = Some(128 + 9);
        machine.refuses_until = now + REFUSES_FOR;
        self.look_at(address);
        let Some(machine) = self.machines.get_mut(&address) else { return false };
        match running.what {
            What::Server { server, .. } => {
                machine.disk = server.end(unsynced_too);
                if machine.keeps_no_snapshot {
                    machine.disk.forget_snapshot();
                }
                self.on_network(|network, tick| network.close_all_of(running.pid, tick));
            }
            // The client's connections close when its task is dropped.
            What::Client { task, .. } => task.iter().for_each(AbortHandle::abort),
        }
        true
    }

    pub fn client_ended(&mut self, address: Ipv4Addr, pid: Option<u32>, code: i32) {
        if let Some(machine) = self.machines.get_mut(&address)
            && machine.running.take_if(|running| Some(running.pid) == pid).is_some()
        {
            machine.ended = Some(code);
        }
    }

    /// Pauses or resumes a process. False if no process runs.
    pub fn set_stopped(&mut self, address: Ipv4Addr, stopped: bool) -> bool {
        let Some(running) = self.running(address) else { return false };
        running.stopped = stopped;
        let pid = running.pid;
        if stopped {
            return true;
        }
        match &mut running.what {
            What::Server { waiting, .. } => {
                // As after a wait for events, the server reads the events that came meanwhile before it checks its own timers.
                for happened in std::mem::take(waiting) {
                    self.happens(address, pid, happened);
                }
                self.plan_wake(address);
            }
            What::Client { waiting, .. } => {
                let mut waiting = std::mem::take(waiting);
                waiting.sort_by_key(|(waiting, _)| *waiting);
                waiting.into_iter().for_each(|(_, waker)| waker.wake());
            }
        }
        true
    }

    /// Makes a server check for due work, for example after a change of its clock.
    pub fn wake(&mut self, address: Ipv4Addr) {
        if let Some(pid) = self.running(address).map(|running| running.pid) {
            self.happens(address, pid, ServerEvent::Wake);
        }
    }

    /// Delivers an event to a server: now, or when the server resumes.
    pub fn happens(&mut self, address: Ipv4Addr, pid: u32, happened: ServerEvent) {
        let clocks = self.clocks(address);
        let mut actions = Vec::new();
        let Some(running) = self.running(address).filter(|running| running.pid == pid) else { return };
        let What::Server { server, waiting, .. } = &mut running.what else { return };
        if running.stopped {
            waiting.push_back(happened);
            return;
        }
        let event = match &happened {
            ServerEvent::Accepted { connection, peer, local } => {
                ProcessEvent::Accepted { connection: *connection, peer: *peer, local: *local }
            }
            ServerEvent::Connected(connection) => ProcessEvent::Connected { connection: *connection },
            ServerEvent::Refused(connection) => ProcessEvent::Refused { connection: *connection },
            ServerEvent::Received(connection, bytes) => ProcessEvent::Received { connection: *connection, bytes },
            ServerEvent::Closed(connection) => ProcessEvent::Closed { connection: *connection },
            ServerEvent::Wake => ProcessEvent::Wake,
        };
        server.handle(event, clocks, &mut actions);
        self.look_at(address);
        self.keep_executed(address);
        for action in actions {
            self.act(address, pid, action);
        }
        self.plan_wake(address);
    }

    /// Observes every server from now on. Observing has no effect on the simulation: it takes no time, uses no random numbers,
    /// and wakes no task.
    pub fn begin_to_look(&mut self) {
        let mut sightings = Sightings::default();
        let now = nanos(self.monotonic());
        let nodes = self.machines.iter().filter(|(_, machine)| Role::of(&machine.name) == Some(Role::Node));
        let nodes: Vec<Ipv4Addr> =
            nodes.map(|(address, machine)| (sightings.begin(&machine.name, now, 0, None), *address).1).collect();
        self.sightings = Some(sightings);
        nodes.into_iter().for_each(|address| self.look_at(address));
    }

    /// Records from now on the commands that nodes carry out. Like observing, this has no effect on the simulation.
    pub fn begin_to_record(&mut self) {
        self.executed = Some(Vec::new());
        for machine in self.machines.values_mut().filter(|machine| Role::of(&machine.name) == Some(Role::Node)) {
            if let Some(Running { what: What::Server { server, .. }, .. }) = &mut machine.running {
                server.record_commands();
            }
        }
    }

    /// Keeps the commands that this node has carried out, if they are recorded.
    fn keep_executed(&mut self, address: Ipv4Addr) {
        let Some(executed) = &mut self.executed else { return };
        let Some(machine) = self.machines.get_mut(&address) else { return };
        if let Some(Running { what: What::Server { server, .. }, .. }) = &mut machine.running {
            executed.extend(server.take_executed().into_iter().map(|command| (machine.name.clone(), command)));
        }
    }

    /// Records a server's state, if an observer watches.
    fn look_at(&mut self, address: Ipv4Addr) {
        if self.sightings.is_none() {
            return;
        }
        let (clocks, wall) = (self.clocks(address), self.wall());
        let (Some(sightings), Some(machine)) = (&mut self.sightings, self.machines.get(&address)) else { return };
        let now = nanos(clocks.monotonic);
        match &machine.running {
            Some(Running { what: What::Server { server, .. }, .. }) => {
                if let Some(look) = server.look(clocks, wall) {
                    sightings.look(&machine.name, (now, now), look, CLOCKS_DIFFER);
                }
            }
            _ => sightings.unseen(&machine.name, now, "it is not running"),
        }
    }

    fn act(&mut self, address: Ipv4Addr, pid: u32, action: Action) {
        self.on_network(|network, tick| match action {
            Action::Connect { connection, to } => network.connect_process(address, pid, connection, to, tick),
            Action::Send { connection, bytes } => network.send_from_process(pid, connection, &bytes, tick),
            Action::Close { connection } => network.close_from_process(pid, connection, tick),
        });
    }

    /// Puts a server's next wake-up time on the agenda.
    fn plan_wake(&mut self, address: Ipv4Addr) {
        let Some(running) = self.running(address) else { return };
        let pid = running.pid;
        let What::Server { server, wake, .. } = &mut running.what else { return };
        if running.stopped {
            return;
        }
        let next = server.next_wake();
        // An earlier wake-up on the agenda will check again.
        if next.is_some_and(|next| wake.is_none_or(|planned| next < planned)) {
            *wake = next;
            if let Some(next) = next {
                let at = next.saturating_sub(UP_FOR).max(self.now());
                self.schedule(at, Due::Wake(address, pid));
            }
        }
    }
}

/// Events in the network, and the effects that they have outside it.
impl WorldState {
    fn on_network<T>(&mut self, work: impl FnOnce(&mut Network, &mut Tick) -> T) -> T {
        let now = self.now();
        let machines = &self.machines;
        let listens = |at| listens(machines, at, now);
        let mut tick = Tick { now, rng: &mut self.rng, listens: &listens, effects: Vec::new() };
        let result = work(&mut self.network, &mut tick);
        for effect in tick.effects {
            match effect {
                NetworkEffect::At(at, due) => self.schedule(at, Due::Network(due)),
                NetworkEffect::Tell(server, pid, mut happened) => {
                    let arrives = match (&mut happened, &self.bugs) {
                        (ServerEvent::Received(_, bytes), Some(bugs)) => bugs.arrives(server, bytes),
                        _ => true,
                    };
                    if arrives {
                        self.happens(*server.ip(), pid, happened);
                    }
                }
            }
        }
        result
    }

    /// Starts to open a connection for a task on this machine.
    pub fn connect_task(&mut self, from: Ipv4Addr, to: SocketAddrV4) -> u64 {
        self.on_network(|network, tick| network.connect_task(from, to, tick))
    }

    pub fn send_from_task(&mut self, link: u64, bytes: &[u8]) -> io::Result<usize> {
        self.on_network(|network, tick| network.send_from_task(link, bytes, tick))
    }

    pub fn close_from_task(&mut self, link: u64) {
        self.on_network(|network, tick| network.close_from_task(link, tick));
    }

    /// See [`Network::release`].
    pub fn release(&mut self, held: Vec<Released>, links: &BTreeSet<Pair>) {
        self.on_network(|network, tick| network.release(held, links, tick));
    }

    /// See [`Network::provoke`].
    pub fn provoke(&mut self, connections: &[(Ipv4Addr, u16, Ipv4Addr)]) {
        self.on_network(|network, tick| network.provoke(connections, tick));
    }
}

/// A machine's reaction to a request to open a connection. A machine without a process refuses if its process has just ended;
/// later it does not answer. A machine with a paused process accepts, since its kernel does.
fn listens(machines: &BTreeMap<Ipv4Addr, Machine>, at: SocketAddrV4, now: Duration) -> AcceptDecision {
    let Some(machine) = machines.get(at.ip()) else { return AcceptDecision::Silent };
    let has_it = machine.program.as_ref().is_some_and(|program| program.listens_on(at.port()));
    match &machine.running {
        Some(running) if has_it => AcceptDecision::Process(running.pid),
        Some(_) => AcceptDecision::Refuses,
        None if now < machine.refuses_until => AcceptDecision::Refuses,
        None => AcceptDecision::Silent,
    }
}
