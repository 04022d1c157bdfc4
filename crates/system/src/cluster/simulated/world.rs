//! Machines with their clocks, what runs on them, and what will happen when.

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

/// What monotonic clocks show when the world begins: machines have been up for a while.
const UP_FOR: Duration = Duration::from_secs(1000);
/// How long the network of a killed process outlives it, as seen of containers and of namespaces.
const REFUSES_FOR: Duration = Duration::from_millis(30);
/// How far a server's count of time may be from what was noted of it, in nanoseconds: it counts milliseconds.
const CLOCKS_DIFFER: u64 = 1_500_000;
/// The time of day when the world begins, since 1970: 2000-01-01, 00:00 UTC.
pub const START_OF_TIME: Duration = Duration::from_secs(946_684_800);
/// Runs this in virtual time, on a thread of its own: whenever nothing is left to do, the clock moves on to the next
/// moment at which there is. Fails only if the runtime can't be made.
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
    /// Told when something comes before what was to be the next.
    sooner: Notify,
}

pub(super) struct WorldState {
    began: Instant,
    /// What was read of the clock since the world was last locked: it doesn't move meanwhile.
    now: Cell<Option<Duration>>,
    rng: ChaCha8Rng,
    pub machines: BTreeMap<Ipv4Addr, Machine>,
    pub network: Network,
    pub bugs: Option<Arc<dyn BugInjector>>,
    /// What is seen of the servers, while somebody looks.
    pub sightings: Option<Sightings>,
    /// What nodes have carried out, by their names, while that is recorded.
    pub executed: Option<Vec<(String, SeenCommand)>>,
    agenda: BTreeMap<(Duration, u64), Due>,
    /// What is waited for; none if nothing was left to do.
    awaited: Option<Duration>,
    /// Orders what is due at the same moment.
    next: u64,
    next_pid: u32,
}

/// A machine, whether something runs on it or not.
pub(super) struct Machine {
    pub name: String,
    pub clock: WrongClock,
    pub running: Option<Running>,
    /// What a server that runs here starts with.
    pub program: Option<Program>,
    /// What is left on its disk while nothing runs.
    pub disk: Disk,
    /// Whether a snapshot must not outlast its process.
    pub keeps_no_snapshot: bool,
    /// How the last process ended.
    pub ended: Option<i32>,
    /// Until when it answers that nobody listens. Then, like a container whose process is gone, it says nothing at all.
    pub refuses_until: Duration,
}

/// A process on a machine.
pub(super) struct Running {
    pub pid: u32,
    /// Whether it stands still, as after SIGSTOP.
    pub stopped: bool,
    pub what: What,
}

pub(super) enum What {
    Server {
        server: servers::RunningServer,
        /// What has happened while it stood still.
        waiting: VecDeque<ServerEvent>,
        /// When it is to be woken, on its monotonic clock.
        wake: Option<Duration>,
    },
    /// A client, which is a task.
    Client {
        task: Option<AbortHandle>,
        /// Woken when it goes on, in their order.
        waiting: Vec<(Waiting, Waker)>,
    },
}

/// Which part of a client waits until it goes on. The program is looked at first, as the runtime of a real client does
/// with its outermost task: a time limit that has passed meanwhile is over before a reply that has come is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiting {
    Program,
    Connection,
}

/// What happens by itself at a certain time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Network(network::Due),
    /// A server has something to do.
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

    /// Changes something; whatever follows from it is seen to.
    pub fn change<T>(&self, work: impl FnOnce(&mut WorldState) -> T) -> T {
        let mut state = self.lock();
        let before = state.next;
        let result = work(&mut state);
        if state.next != before && state.is_sooner() {
            self.sooner.notify_one();
        }
        result
    }

    /// Lets everything happen at its time; never ends.
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
    /// Time since the world began.
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

    /// What a machine's clocks show.
    pub fn clocks(&self, address: Ipv4Addr) -> Clocks {
        let (real, monotonic) = (self.wall(), self.monotonic());
        let wall = self.machines.get(&address).map_or(real, |machine| machine.clock.shows(real, monotonic));
        Clocks { wall, monotonic }
    }

    /// A number from 0 to 1.
    pub fn draw(&mut self) -> f64 {
        self.rng.random()
    }

    /// Whether something on the agenda comes before what is waited for.
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

    /// The process on a machine, if one runs.
    pub fn running(&mut self, address: Ipv4Addr) -> Option<&mut Running> {
        self.machines.get_mut(&address)?.running.as_mut()
    }

    /// Whether a snapshot of the server here must not outlast its process; if it may again, that which it has is removed
    /// first. False if nothing runs here.
    pub fn keep_no_snapshot(&mut self, address: Ipv4Addr, keeps_none: bool) -> bool {
        let Some(machine) = self.machines.get_mut(&address) else { return false };
        machine.keeps_no_snapshot = keeps_none;
        let Some(Running { what: What::Server { server, .. }, .. }) = &mut machine.running else { return false };
        if !keeps_none {
            server.forget_snapshot();
        }
        true
    }

    /// Does everything that is due by now; returns when the next thing is.
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

    /// Starts a process and returns its PID.
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

    /// Starts the server that this machine is for, with what is on its disk.
    pub fn start_server(&mut self, address: Ipv4Addr) -> Option<u32> {
        let clocks = self.clocks(address);
        let machine = self.machines.get_mut(&address)?;
        let program = machine.program.as_ref()?;
        let server = program.start(std::mem::take(&mut machine.disk), clocks);
        self.start(address, What::Server { server, waiting: VecDeque::new(), wake: None })
    }

    /// Ends a machine's process at once, and with it its connections. With `unsynced_too`, what it had not synced is
    /// lost. False if none runs.
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
            // Its connections close as they are dropped with it.
            What::Client { task, .. } => task.iter().for_each(AbortHandle::abort),
        }
        true
    }

    /// A client has ended by itself.
    pub fn client_ended(&mut self, address: Ipv4Addr, pid: Option<u32>, code: i32) {
        if let Some(machine) = self.machines.get_mut(&address)
            && machine.running.take_if(|running| Some(running.pid) == pid).is_some()
        {
            machine.ended = Some(code);
        }
    }

    /// Has a process stand still, or go on. False if none runs.
    pub fn set_stopped(&mut self, address: Ipv4Addr, stopped: bool) -> bool {
        let Some(running) = self.running(address) else { return false };
        running.stopped = stopped;
        let pid = running.pid;
        if stopped {
            return true;
        }
        match &mut running.what {
            What::Server { waiting, .. } => {
                // What came meanwhile is read before its own timers are looked at, as after a wait for events.
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

    /// Has a server look whether anything is due, as after a change of its clock.
    pub fn wake(&mut self, address: Ipv4Addr) {
        if let Some(pid) = self.running(address).map(|running| running.pid) {
            self.happens(address, pid, ServerEvent::Wake);
        }
    }

    /// Tells a server that something happened, now or when it goes on.
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

    /// Has somebody look at every server from now on, or say what there was to see. That is no event to anybody: it takes no
    /// time, draws nothing, and wakes nobody.
    pub fn begin_to_look(&mut self) {
        let mut sightings = Sightings::default();
        let now = nanos(self.monotonic());
        let nodes = self.machines.iter().filter(|(_, machine)| Role::of(&machine.name) == Some(Role::Node));
        let nodes: Vec<Ipv4Addr> =
            nodes.map(|(address, machine)| (sightings.begin(&machine.name, now, 0, None), *address).1).collect();
        self.sightings = Some(sightings);
        nodes.into_iter().for_each(|address| self.look_at(address));
    }

    /// Records from now on what nodes carry out. That is no event to anybody, as above.
    pub fn begin_to_record(&mut self) {
        self.executed = Some(Vec::new());
        for machine in self.machines.values_mut().filter(|machine| Role::of(&machine.name) == Some(Role::Node)) {
            if let Some(Running { what: What::Server { server, .. }, .. }) = &mut machine.running {
                server.record_commands();
            }
        }
    }

    /// Keeps what the node here has carried out, if that is recorded.
    fn keep_executed(&mut self, address: Ipv4Addr) {
        let Some(executed) = &mut self.executed else { return };
        let Some(machine) = self.machines.get_mut(&address) else { return };
        if let Some(Running { what: What::Server { server, .. }, .. }) = &mut machine.running {
            executed.extend(server.take_executed().into_iter().map(|command| (machine.name.clone(), command)));
        }
    }

    /// Notes what there is to see of a server, if somebody looks.
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

    /// Puts the next time at which a server wants to be woken on the agenda.
    fn plan_wake(&mut self, address: Ipv4Addr) {
        let Some(running) = self.running(address) else { return };
        let pid = running.pid;
        let What::Server { server, wake, .. } = &mut running.what else { return };
        if running.stopped {
            return;
        }
        let next = server.next_wake();
        // An earlier one is on the agenda already, and will look again.
        if next.is_some_and(|next| wake.is_none_or(|planned| next < planned)) {
            *wake = next;
            if let Some(next) = next {
                let at = next.saturating_sub(UP_FOR).max(self.now());
                self.schedule(at, Due::Wake(address, pid));
            }
        }
    }
}

/// What happens to the network, with what follows from it.
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

    /// Begins to open a connection for a task on this machine.
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

/// What a machine does with a request to open a connection. One on which nothing runs refuses, if its process has just
/// ended, or says nothing; one whose process stands still accepts all the same, since its kernel does.
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
