//! Notes when members do not run although they should. It asks the kernel, and the servers themselves, many times per second.
//!
//! A lock is not to blame for a client, a node or a resource that got no processor, was stopped from outside, or crashed. Each
//! Redis server is also sent PING, on a separate connection that no fault between members affects. A server may run and still not
//! answer. Effects of the run's own faults are left out, because faults have their own lines in the history. In virtual time
//! there is nothing to note.
//!
//! A separate thread does all this and owns the data. Orders and answers reach it through a channel that it empties at each look.
//! So it never delays a task of the agent, even if it gets no processor itself.

mod kernel;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{mem, process, thread};

use redis::{Value, cmd};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::kernel::{Processes, Sight};
use super::probe::connect;
use base::machine::Machine;
use base::members::{AGENT, Role};
use base::sync::lock;
use base::units::nanos;
use model::history::{Waited, WhyWaited};

/// Interval between two questions to the kernel.
const EVERY: Duration = Duration::from_millis(50);
/// Interval between two listings of members' processes and threads, in nanoseconds.
const LIST_EVERY: u64 = 1_000_000_000;
/// Waits within this many nanoseconds are reported as one wait. Many short waits are harmless alone, but together they can cause
/// a missed deadline.
const TOGETHER: u64 = 500_000_000;
/// Waits shorter than this, in nanoseconds, are normal: every thread that wakes up has them.
const BRIEF: u64 = 1_000_000;
/// Interval between two questions to each server.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// An answer that takes longer than this counts as missing until it comes.
const SILENT_AFTER: Duration = Duration::from_millis(250);
/// After this time without an answer, a new connection is tried.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(2);
/// A silence within this time after a fault on servers, in nanoseconds, is attributed to the fault: the servers catch up with
/// each other.
const AFTERMATH: u64 = 2_000_000_000;
/// At most this many waits fit into one answer.
const TOLD_AT_ONCE: usize = 1000;

/// The members that faults in effect hit.
#[derive(Clone, Default)]
pub(super) struct Hit {
    /// Members that faults have stopped or ended.
    pub standing: BTreeSet<String>,
    /// True if a fault hits a server or its links.
    pub servers: bool,
}

impl Hit {
    fn and(mut self, other: &Hit) -> Hit {
        self.standing.extend(other.standing.iter().cloned());
        self.servers |= other.servers;
        self
    }
}

/// Notes when members do not run, until `tell` or `forget` is called.
#[derive(Default)]
pub(super) struct Sampler(Mutex<Watched>);

/// The data of the agent's tasks; the thread never locks it.
#[derive(Default)]
struct Watched {
    /// The first process of each member.
    members: BTreeMap<String, u32>,
    in_effect: Hit,
    running: Option<SamplerThread>,
    /// Waits that were noted and not returned yet.
    rest: VecDeque<Waited>,
}

/// Dropping it ends the thread and the questions to servers.
struct SamplerThread {
    thread: Sender<Note>,
    _asking: JoinSet<()>,
}

/// A message to the thread.
enum Note {
    /// From now on this is the member's first process.
    Adopted(String, u32),
    /// The members that faults hit from now on.
    InEffect(Hit),
    Heard(Heard),
    /// Return the noted waits, and end.
    Tell(oneshot::Sender<Vec<Waited>>),
}

/// An observation of a server at `now`: silent since `silent_from`, or an answer if None.
struct Heard {
    server: String,
    silent_from: Option<u64>,
    now: u64,
}

impl Sampler {
    /// Sets a member's first process.
    pub fn adopt(&self, member: &str, pid: u32) {
        let mut known = lock(&self.0);
        known.members.insert(member.to_string(), pid);
        known.send(|| Note::Adopted(member.to_string(), pid));
    }

    /// Sets the members that faults hit from now on.
    pub fn know(&self, in_effect: Hit) {
        let mut known = lock(&self.0);
        known.send(|| Note::InEffect(in_effect.clone()));
        known.in_effect = in_effect;
    }

    /// Notes from now on when members do not run for `least` ns or longer, and when these servers, by name and URL, do not
    /// answer.
    pub fn begin(&self, machine: &Arc<dyn Machine>, servers: Vec<(String, String)>, least: u64) -> Result<(), String> {
        let mut known = lock(&self.0);
        let (sender, notes) = channel();
        let watch = Watch::new(known.members.clone(), known.in_effect.clone(), least);
        let clock = Arc::clone(machine);
        let sample = move || watch.run(&notes, || nanos(clock.monotonic()));
        thread::Builder::new().name("sampler".to_string()).spawn(sample).map_err(|error| error.to_string())?;
        let mut asking = JoinSet::new();
        for (name, url) in servers {
            asking.spawn(ask(Arc::clone(machine), sender.clone(), name, url));
        }
        known.running = Some(SamplerThread { thread: sender, _asking: asking });
        Ok(())
    }

    /// Ends the watch and returns the noted waits, with times of the machine's monotonic clock. Each call returns the next part;
    /// an empty part is the end.
    pub async fn tell(&self) -> Vec<Waited> {
        let running = lock(&self.0).running.take();
        let (answer, all) = oneshot::channel();
        if running.is_some_and(|running| running.thread.send(Note::Tell(answer)).is_ok()) {
            lock(&self.0).rest = all.await.unwrap_or_default().into();
        }
        let rest = &mut lock(&self.0).rest;
        let some = rest.len().min(TOLD_AT_ONCE);
        rest.drain(..some).collect()
    }

    /// Ends the watch, and forgets the members and the noted waits. Keeps the faults in effect.
    pub fn forget(&self) {
        let mut known = lock(&self.0);
        let in_effect = mem::take(&mut known.in_effect);
        *known = Watched { in_effect, ..Watched::default() };
    }
}

impl Watched {
    fn send(&self, note: impl FnOnce() -> Note) {
        if let Some(running) = &self.running {
            _ = running.thread.send(note());
        }
    }
}

/// Asks a server repeatedly, and notes when it does not answer. Never returns.
async fn ask(machine: Arc<dyn Machine>, thread: Sender<Note>, name: String, url: String) {
    let ping = cmd("PING");
    let now = || nanos(machine.monotonic());
    let note = |silent_from| _ = thread.send(Note::Heard(Heard { server: name.clone(), silent_from, now: now() }));
    loop {
        let mut asked = now();
        if let Ok(Ok(mut server)) = timeout(GIVEN_UP_AFTER, connect(&machine, &url, GIVEN_UP_AFTER)).await {
            let mut was_silent = true;
            loop {
                let answer = ping.query_async::<Value>(&mut server);
                tokio::pin!(answer);
                let answer = match timeout(SILENT_AFTER, &mut answer).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        was_silent = true;
                        note(Some(asked));
                        // A late answer still counts.
                        let Ok(answer) = timeout(GIVEN_UP_AFTER, answer).await else { break };
                        answer
                    }
                };
                // A server that answers PING with an error still answers.
                if answer.is_err_and(|error| error.code().is_none()) {
                    break;
                }
                if mem::take(&mut was_silent) {
                    note(None);
                }
                sleep(ASK_EVERY).await;
                asked = now();
            }
        }
        note(Some(asked));
        sleep(ASK_EVERY).await;
    }
}

/// The data of the thread.
struct Watch {
    least: u64,
    /// When the kernel was asked last, and when processes were listed last; 0 before the first time.
    looked: u64,
    listed: u64,
    most_files: usize,
    members: BTreeMap<String, MemberWatch>,
    /// Silent servers, each with the start of its silence.
    silent: BTreeMap<String, u64>,
    in_effect: Hit,
    /// All members that faults have hit since the last look.
    hit: Hit,
    /// When a fault on servers was last in effect.
    fault_on_servers: Option<u64>,
    found: Vec<Waited>,
}

/// The data about one member.
struct MemberWatch {
    processes: Processes,
    /// A wait that may continue: its start, its end so far, and the time waited in between.
    waits: Option<(u64, u64, u64)>,
    /// A stop: the last time before it was first seen, the first time it was seen, and the last time it was seen.
    stopped: Option<(u64, u64, u64)>,
    gone: Option<u64>,
}

/// Why a member did not run, from when, until when, and for how long in all.
type Wait = (WhyWaited, u64, u64, u64);

impl MemberWatch {
    fn new(first: u32) -> MemberWatch {
        MemberWatch { processes: Processes::new(first), waits: None, stopped: None, gone: None }
    }

    /// The waits that are still going on at `now`.
    fn open(&self, now: u64) -> impl Iterator<Item = Wait> + use<> {
        let ready = self.processes.ready_since().map(|from| (WhyWaited::Processor, from, now, now - from));
        let gone = self.gone.map(|from| (WhyWaited::Gone, from, now, now - from));
        let stopped = self.stopped.map(|stopped| of_stop(stopped, now));
        self.waits.map(of_processor).into_iter().chain(ready).chain(stopped).chain(gone)
    }
}

impl Watch {
    fn new(members: BTreeMap<String, u32>, in_effect: Hit, least: u64) -> Watch {
        let all = members.into_iter().chain([(AGENT.to_string(), process::id())]);
        Watch {
            least,
            looked: 0,
            listed: 0,
            most_files: kernel::most_files(),
            members: all.map(|(name, first)| (name, MemberWatch::new(first))).collect(),
            silent: BTreeMap::new(),
            hit: in_effect.clone(),
            in_effect,
            fault_on_servers: None,
            found: Vec::new(),
        }
    }

    /// Repeats looks until `tell` is called, or until the sender is gone.
    fn run(mut self, notes: &Receiver<Note>, clock: impl Fn() -> u64) {
        loop {
            let now = clock();
            let seen = self.look(now);
            // Notes are taken after the look: if the look saw a fault's effect, the fault's note is among them.
            let asked = loop {
                match notes.try_recv() {
                    Ok(Note::Tell(answer)) => break Some(answer),
                    Ok(note) => self.take(note),
                    Err(TryRecvError::Empty) => break None,
                    Err(TryRecvError::Disconnected) => return,
                }
            };
            self.judge(seen, now);
            if let Some(answer) = asked {
                _ = answer.send(self.over(clock()));
                return;
            }
            thread::sleep(EVERY);
        }
    }

    /// Asks the kernel about all members.
    fn look(&mut self, now: u64) -> Vec<(String, Sight)> {
        if self.listed == 0 || now - self.listed >= LIST_EVERY {
            self.list(now);
        }
        let look = |(name, member): (&String, &mut MemberWatch)| (name.clone(), member.processes.look(now));
        self.members.iter_mut().map(look).collect()
    }

    /// Lists the processes and threads of all members, first of servers and the agent.
    fn list(&mut self, now: u64) {
        self.listed = now;
        let mut open: usize = self.members.values().map(|member| member.processes.files()).sum();
        for clients in [false, true] {
            let is_wanted = |name: &String| (Role::of(name) == Some(Role::Client)) == clients;
            for (_, MemberWatch { processes, .. }) in self.members.iter_mut().filter(|(name, _)| is_wanted(name)) {
                let before = processes.files();
                processes.list(self.most_files.saturating_sub(open));
                open = open + processes.files() - before;
            }
        }
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Adopted(name, first) => self.adopt(name, first),
            Note::InEffect(hit) => {
                self.hit = mem::take(&mut self.hit).and(&hit);
                self.in_effect = hit;
            }
            Note::Heard(heard) => self.heard(heard),
            Note::Tell(_) => {}
        }
    }

    fn adopt(&mut self, name: String, first: u32) {
        if self.members.get(&name).is_some_and(|member| member.processes.first == first) {
            return;
        }
        // Waits of the member's earlier process have ended by now.
        if let Some(before) = self.members.insert(name.clone(), MemberWatch::new(first)) {
            for found in before.open(self.looked) {
                self.found(&name, found);
            }
        }
        self.listed = 0;
    }

    /// Notes the observed waits, unless a fault caused them.
    fn judge(&mut self, seen: Vec<(String, Sight)>, now: u64) {
        let since = mem::replace(&mut self.looked, now);
        let hit = mem::replace(&mut self.hit, self.in_effect.clone());
        if hit.servers {
            self.fault_on_servers = Some(now);
        }
        // Nothing is known about the time before the first look.
        if since > 0 {
            for (name, sight) in seen {
                self.note(&name, &sight, hit.standing.contains(&name), (since, now));
            }
        }
    }

    /// Notes the observations about one member since the last look.
    fn note(&mut self, name: &str, sight: &Sight, by_a_fault: bool, (since, now): (u64, u64)) {
        let Some(member) = self.members.get_mut(name) else { return };
        let mut found = Vec::new();
        if sight.waited >= BRIEF {
            let (from, _, waited) = member.waits.unwrap_or((since.min(now.saturating_sub(sight.waited)), 0, 0));
            member.waits = Some((from, now, waited + sight.waited));
        }
        let goes_on = member.waits.filter(|(from, ..)| now - from < TOGETHER);
        found.extend(mem::replace(&mut member.waits, goes_on).filter(|_| goes_on.is_none()).map(of_processor));
        // A late look is the agent's only sign that the agent itself was stopped.
        let late = now.saturating_sub(since).saturating_sub(nanos(EVERY)).saturating_sub(sight.waited);
        if name == AGENT && late >= self.least {
            found.push((WhyWaited::Late, since, now, late));
        }
        if sight.stopped && !by_a_fault {
            let (from, first, _) = member.stopped.unwrap_or((since, now, now));
            member.stopped = Some((from, first, now));
        } else if let Some(stopped) = member.stopped.take() {
            found.push(of_stop(stopped, now));
        }
        // A client's end is in the history anyway.
        if sight.gone && !by_a_fault && Role::of(name).is_some_and(Role::is_server) {
            member.gone.get_or_insert(since);
        }
        for found in found {
            self.found(name, found);
        }
    }

    fn heard(&mut self, Heard { server, silent_from, now }: Heard) {
        match silent_from {
            Some(from) => _ = self.silent.entry(server).or_insert(from),
            None => {
                if let Some(from) = self.silent.remove(&server) {
                    self.was_silent(&server, from, now);
                }
            }
        }
    }

    fn was_silent(&mut self, name: &str, from: u64, to: u64) {
        let by_a_fault =
            self.hit.servers || self.fault_on_servers.is_some_and(|fault| from < fault.saturating_add(AFTERMATH));
        if !by_a_fault && to - from >= nanos(SILENT_AFTER) {
            self.found(name, (WhyWaited::Silent, from, to, to - from));
        }
    }

    fn found(&mut self, name: &str, (why, from_ns, to_ns, waited_ns): Wait) {
        if waited_ns >= self.least {
            self.found.push(Waited { members: vec![name.to_string()], why, from_ns, to_ns, waited_ns });
        }
    }

    /// Everything that was noted, ordered by time.
    fn over(mut self, now: u64) -> Vec<Waited> {
        for (name, member) in mem::take(&mut self.members) {
            for found in member.open(now) {
                self.found(&name, found);
            }
        }
        for (name, from) in mem::take(&mut self.silent) {
            self.was_silent(&name, from, now);
        }
        self.found.sort_by_key(|waited| waited.from_ns);
        self.found
    }
}

fn of_processor((from, to, waited): (u64, u64, u64)) -> Wait {
    (WhyWaited::Processor, from, to, waited)
}

/// The stop of a member that was seen stopped from `first` to `last`, not before `from`, and not at `now`.
fn of_stop((from, first, last): (u64, u64, u64), now: u64) -> Wait {
    (WhyWaited::Stopped, from, now, last - first + nanos(EVERY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn watch() -> Watch {
        let members = ["c0", "n0"].map(|name| (name.to_string(), 0));
        Watch::new(members.into(), Hit::default(), 50 * MS)
    }

    fn heard(watch: &mut Watch, silent_from: Option<u64>, now: u64) {
        let silent_from = silent_from.map(|from| from * MS);
        watch.take(Note::Heard(Heard { server: "n0".to_string(), silent_from, now: now * MS }));
    }

    fn sight(waited: u64, stopped: bool, gone: bool) -> Sight {
        Sight { waited: waited * MS, stopped, gone }
    }

    /// The waits: which member, why, from when, to when, and how long, in ms.
    fn told(watch: Watch) -> Vec<(String, WhyWaited, u64, u64, u64)> {
        let told = watch.over(10_000 * MS).into_iter();
        told.map(|one| (one.members[0].clone(), one.why, one.from_ns / MS, one.to_ns / MS, one.waited_ns / MS))
            .collect()
    }

    #[test]
    fn waits_of_half_a_second_are_told_as_one_if_together_they_matter() {
        let mut busy = watch();
        for (number, waited) in (0..).zip([0, 5, 30, 0, 40, 0, 0, 0, 0, 0, 0, 9, 20, 0]) {
            let since = 1_000 + 50 * number;
            busy.note("c0", &sight(waited, false, false), false, (since * MS, (since + 50) * MS));
        }
        // A wait that is seen at its end began before the look.
        busy.note("n0", &sight(300, false, false), false, (1_050 * MS, 1_100 * MS));
        let waits = |name: &str, from, to, waited| (name.to_string(), WhyWaited::Processor, from, to, waited);
        assert_eq!(told(busy), [waits("n0", 800, 1_100, 300), waits("c0", 1_050, 1_250, 75)]);
    }

    #[test]
    fn who_is_stopped_or_gone_is_told_unless_a_fault_does_that() {
        for by_a_fault in [false, true] {
            let mut seen = watch();
            for (number, stopped) in (0..).zip([false, true, true, true, false]) {
                let since = 1_000 + 50 * number;
                seen.note("c0", &sight(0, stopped, false), by_a_fault, (since * MS, (since + 50) * MS));
            }
            seen.note("n0", &sight(0, false, true), by_a_fault, (2_000 * MS, 2_050 * MS));
            seen.note("c0", &sight(0, false, true), by_a_fault, (2_000 * MS, 2_050 * MS));
            let (stopped, gone) = (WhyWaited::Stopped, WhyWaited::Gone);
            // A client's end is reported elsewhere.
            let all = [("c0".to_string(), stopped, 1_050, 1_250, 150), ("n0".to_string(), gone, 2_000, 10_000, 8_000)];
            assert_eq!(told(seen), if by_a_fault { &[][..] } else { &all[..] });
        }
        let mut late = watch();
        late.note(AGENT, &sight(0, false, false), false, (1_000 * MS, 1_400 * MS));
        late.note(AGENT, &sight(350, false, false), false, (1_400 * MS, 1_800 * MS));
        let agent = |why, from, to| (AGENT.to_string(), why, from, to, 350);
        assert_eq!(told(late), [agent(WhyWaited::Late, 1_000, 1_400), agent(WhyWaited::Processor, 1_400, 1_800)]);
    }

    #[test]
    fn a_server_is_silent_until_it_answers_unless_there_is_a_fault() {
        let mut silent = watch();
        heard(&mut silent, Some(1_000), 1_250);
        heard(&mut silent, Some(1_300), 1_550);
        heard(&mut silent, None, 1_900);
        heard(&mut silent, Some(3_000), 3_000);
        heard(&mut silent, None, 3_100);
        let silence = |from, to| ("n0".to_string(), WhyWaited::Silent, from, to, to - from);
        heard(&mut silent, Some(9_000), 9_300);
        assert_eq!(told(silent), [silence(1_000, 1_900), silence(9_000, 10_000)]);
        let mut broken = watch();
        broken.take(Note::InEffect(Hit { servers: true, ..Hit::default() }));
        broken.take(Note::InEffect(Hit::default()));
        broken.judge(Vec::new(), 900 * MS);
        heard(&mut broken, Some(1_000), 1_250);
        heard(&mut broken, None, 1_900);
        heard(&mut broken, Some(3_000), 3_250);
        let found = told(broken);
        assert_eq!(found, [silence(3_000, 10_000)], "two seconds after the fault");
    }

    #[test]
    fn the_kernel_tells_of_a_process_that_was_stopped_and_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let members = BTreeMap::from([("n0".to_string(), child.id())]);
        let held = super::super::process::ProcessHandle::open(child.id()).unwrap();
        let mut watch = Watch::new(members, Hit::default(), 50 * MS);
        let look = |watch: &mut Watch, now| {
            let seen = watch.look(now * MS);
            watch.judge(seen, now * MS);
        };
        look(&mut watch, 1_000);
        look(&mut watch, 1_050);
        held.signal(rustix::process::Signal::STOP).unwrap();
        while super::super::process::stat(child.id()).unwrap().state != 'T' {
            thread::yield_now();
        }
        look(&mut watch, 1_100);
        look(&mut watch, 1_150);
        held.signal(rustix::process::Signal::CONT).unwrap();
        while super::super::process::stat(child.id()).unwrap().state == 'T' {
            thread::yield_now();
        }
        look(&mut watch, 1_200);
        child.kill().unwrap();
        child.wait().unwrap();
        look(&mut watch, 1_250);
        let of_n0: Vec<_> =
            told(watch).into_iter().filter(|(name, why, ..)| name == "n0" && *why != WhyWaited::Processor).collect();
        let expected = [
            ("n0".to_string(), WhyWaited::Stopped, 1_050, 1_200, 100),
            ("n0".to_string(), WhyWaited::Gone, 1_200, 10_000, 8_800),
        ];
        assert_eq!(of_n0, expected);
    }
}
