//! When members do not run though they should: the kernel is asked many times a second, and servers themselves are.
//!
//! A lock is not to blame for a client, a node or a resource that got no processor, was stopped from outside, or died. Each Redis
//! server is asked for a PING on a connection of its own, from where no fault between members reaches: one may run, and still not answer.
//! What a fault of the run does is left out: it has lines of its own. In virtual time there is nothing to see.
//!
//! A thread of its own does all this and owns what it knows. Orders and answers reach it by a channel that it empties at each look, so it
//! never keeps a task of the agent waiting, not even when it gets no processor itself.

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

/// How often the kernel is asked.
const EVERY: Duration = Duration::from_millis(50);
/// How often the processes and threads of members are listed anew, in nanoseconds.
const LIST_EVERY: u64 = 1_000_000_000;
/// Waits within so many nanoseconds are told as one: of many short ones, each is nothing, and together they are what a deadline is made of.
const TOGETHER: u64 = 500_000_000;
/// Every thread that wakes up waits for less than this, in nanoseconds.
const BRIEF: u64 = 1_000_000;
/// How often each server is asked.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// What takes longer than this counts as no answer so far.
const SILENT_AFTER: Duration = Duration::from_millis(250);
/// After which a new connection is tried.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(2);
/// For so long after a fault on servers a silence is put down to that: they catch up with each other.
const AFTERMATH: u64 = 2_000_000_000;
/// How much fits into one answer.
const TOLD_AT_ONCE: usize = 1000;

/// What the faults in effect hit.
#[derive(Clone, Default)]
pub(super) struct Hit {
    /// Members that stand still or have ended for that.
    pub standing: BTreeSet<String>,
    /// Whether there is one on a server or on its links.
    pub servers: bool,
}

impl Hit {
    fn and(mut self, other: &Hit) -> Hit {
        self.standing.extend(other.standing.iter().cloned());
        self.servers |= other.servers;
        self
    }
}

/// Notes when members do not run, until it is asked.
#[derive(Default)]
pub(super) struct Sampler(Mutex<Watched>);

/// What the agent's tasks know; the thread never takes it.
#[derive(Default)]
struct Watched {
    /// The first process of each member.
    members: BTreeMap<String, u32>,
    in_effect: Hit,
    running: Option<SamplerThread>,
    /// What was noted and not told yet.
    rest: VecDeque<Waited>,
}

/// The thread ends when this is dropped, and so do the questions.
struct SamplerThread {
    thread: Sender<Note>,
    _asking: JoinSet<()>,
}

/// What the thread has to know.
enum Note {
    /// The first process of a member from now on.
    Adopted(String, u32),
    /// What faults hit from now on.
    InEffect(Hit),
    Heard(Heard),
    /// Say what was noted, and end.
    Tell(oneshot::Sender<Vec<Waited>>),
}

/// What was heard of a server at `now`: nothing since `silent_from`, or an answer.
struct Heard {
    server: String,
    silent_from: Option<u64>,
    now: u64,
}

impl Sampler {
    /// Whose first process this is from now on.
    pub fn adopt(&self, member: &str, pid: u32) {
        let mut known = lock(&self.0);
        known.members.insert(member.to_string(), pid);
        known.send(|| Note::Adopted(member.to_string(), pid));
    }

    /// What faults hit from now on.
    pub fn know(&self, in_effect: Hit) {
        let mut known = lock(&self.0);
        known.send(|| Note::InEffect(in_effect.clone()));
        known.in_effect = in_effect;
    }

    /// Notes from now on who does not run for `least` ns, or of these servers, by name and URL, does not answer.
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

    /// Ends it and says what was noted, at times of the machine's monotonic clock: some of it at each call, and nothing once all is
    /// told.
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

    /// Ends it, and forgets the members and what was noted. Faults that are in effect stay so.
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

/// Asks a server again and again, and notes when it does not answer. Never ends.
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
                        // A late answer is an answer.
                        let Ok(answer) = timeout(GIVEN_UP_AFTER, answer).await else { break };
                        answer
                    }
                };
                // One that refuses to say PONG answers all the same.
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

/// What the thread knows.
struct Watch {
    least: u64,
    /// When the kernel was asked last, and when processes were listed last; 0 before that.
    looked: u64,
    listed: u64,
    most_files: usize,
    members: BTreeMap<String, MemberWatch>,
    /// Since when servers have not answered.
    silent: BTreeMap<String, u64>,
    in_effect: Hit,
    /// What faults have hit at some time since the last look.
    hit: Hit,
    /// When a fault on servers was in effect last.
    fault_on_servers: Option<u64>,
    found: Vec<Waited>,
}

/// What is known of one member.
struct MemberWatch {
    processes: Processes,
    /// A wait that may go on: from when to when, and for how long of that.
    waits: Option<(u64, u64, u64)>,
    /// Before it was first seen to be stopped, when that was seen first, and when last.
    stopped: Option<(u64, u64, u64)>,
    gone: Option<u64>,
}

/// Why, from when to when, and for how long a member did not run.
type Wait = (WhyWaited, u64, u64, u64);

impl MemberWatch {
    fn new(first: u32) -> MemberWatch {
        MemberWatch { processes: Processes::new(first), waits: None, stopped: None, gone: None }
    }

    /// What goes on at `now`.
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

    /// Looks until it is asked what it saw, or nobody can ask any more.
    fn run(mut self, notes: &Receiver<Note>, clock: impl Fn() -> u64) {
        loop {
            let now = clock();
            let seen = self.look(now);
            // What a fault did that was seen was noted before that.
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

    /// Asks the kernel for everybody.
    fn look(&mut self, now: u64) -> Vec<(String, Sight)> {
        if self.listed == 0 || now - self.listed >= LIST_EVERY {
            self.list(now);
        }
        let look = |(name, member): (&String, &mut MemberWatch)| (name.clone(), member.processes.look(now));
        self.members.iter_mut().map(look).collect()
    }

    /// Finds the processes and threads of everybody, of servers and the agent first.
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
        // What kept the one before it ended by now.
        if let Some(before) = self.members.insert(name.clone(), MemberWatch::new(first)) {
            for found in before.open(self.looked) {
                self.found(&name, found);
            }
        }
        self.listed = 0;
    }

    /// Notes what was seen, unless a fault did it.
    fn judge(&mut self, seen: Vec<(String, Sight)>, now: u64) {
        let since = mem::replace(&mut self.looked, now);
        let hit = mem::replace(&mut self.hit, self.in_effect.clone());
        if hit.servers {
            self.fault_on_servers = Some(now);
        }
        // Nothing is known of the time before the first look.
        if since > 0 {
            for (name, sight) in seen {
                self.note(&name, &sight, hit.standing.contains(&name), (since, now));
            }
        }
    }

    /// Notes what was seen of one member since the last time.
    fn note(&mut self, name: &str, sight: &Sight, by_a_fault: bool, (since, now): (u64, u64)) {
        let Some(member) = self.members.get_mut(name) else { return };
        let mut found = Vec::new();
        if sight.waited >= BRIEF {
            let (from, _, waited) = member.waits.unwrap_or((since.min(now.saturating_sub(sight.waited)), 0, 0));
            member.waits = Some((from, now, waited + sight.waited));
        }
        let goes_on = member.waits.filter(|(from, ..)| now - from < TOGETHER);
        found.extend(mem::replace(&mut member.waits, goes_on).filter(|_| goes_on.is_none()).map(of_processor));
        // The agent sees no other sign that it was stopped.
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
        // A client that ends has a line of its own.
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

    /// Everything that was noted, in the order of time.
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

/// A member was seen to be stopped from `first` to `last`, not before `from`, and not at `now`.
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

    /// Who did not run, why, from and to when, and for how long, in ms.
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
        // What is seen at its end began before that.
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
            // A client that ends is told by its own line.
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
