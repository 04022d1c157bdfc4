//! When members did not run though they should have: asked of the kernel many times a second, and of servers themselves.
//!
//! A lock is not to blame for a client, a node or a resource that got no processor, was stopped by somebody else, or died. What a
//! thread has waited for a processor is the second number of its `schedstat`; it rises when the thread runs again, so a wait is
//! seen at its end. Whoever is stopped is in state T. A process that ended can't be read any more. Each Redis server is asked on
//! a connection of its own, from where no fault between members reaches: one may run, and still not answer.
//!
//! What a fault of the run does is left out: it has lines of its own. In virtual time there is nothing to see. The files are kept
//! open, since opening them takes longer than reading them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{io, mem, process, thread};

use redis::{Value, cmd};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::probe::connect;
use super::process::{all_pids, parse_stat, pid_namespace, stat};
use super::wire::Scope;
use crate::history::{Waited, WhyWaited};
use crate::machine::Machine;
use crate::members::{AGENT, Role};
use crate::sync::lock;
use crate::units::nanos;

/// How often the kernel is asked.
const EVERY: Duration = Duration::from_millis(50);
/// How often the processes and threads of members are listed anew, in nanoseconds.
const LIST_EVERY: u64 = 1_000_000_000;
/// Waits within so many nanoseconds are told as one: of many short ones, each is nothing, and together they are what a deadline is made of.
const TOGETHER: u64 = 500_000_000;
/// Every thread that wakes up waits for less than this, in nanoseconds.
const BRIEF: u64 = 1_000_000;
/// More threads of a process than these are not looked at, and more files are not kept open.
const MOST_THREADS: usize = 64;
const MOST_FILES: usize = 512;
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
#[derive(Default)]
pub(super) struct Hit {
    /// Members that stand still or have ended for that.
    pub standing: BTreeSet<String>,
    /// Whether there is one on a server or on its links.
    pub servers: bool,
}

/// Says what the faults in effect hit.
pub(super) type InEffect = Box<dyn Fn() -> Hit + Send>;

/// Notes when members do not run, until it is asked.
#[derive(Default)]
pub(super) struct Sampler {
    members: Members,
    running: Mutex<Option<Running>>,
    /// What was noted and not told yet.
    rest: Mutex<VecDeque<Waited>>,
}

/// The first process of each member, and which others belong to it.
type Members = Arc<Mutex<BTreeMap<String, (u32, Scope)>>>;

/// Empty once it is over.
type Shared = Arc<Mutex<Option<Watch>>>;

struct Running {
    watch: Shared,
    /// They end when this is dropped.
    _asking: JoinSet<()>,
}

impl Sampler {
    /// Whose first process this is from now on.
    pub fn adopt(&self, member: &str, pid: u32, scope: Scope) {
        lock(&self.members).insert(member.to_string(), (pid, scope));
    }

    /// Notes from now on who does not run for `least` ns, or of these servers, by name and URL, does not answer.
    pub fn begin(
        &self,
        machine: &Arc<dyn Machine>,
        servers: Vec<(String, String)>,
        least: u64,
        in_effect: InEffect,
    ) -> Result<(), String> {
        let members = Arc::clone(&self.members);
        let watch: Shared = Arc::new(Mutex::new(Some(Watch::new(members, least, in_effect))));
        let (of_kernel, clock) = (Arc::clone(&watch), Arc::clone(machine));
        let sample = move || {
            loop {
                match lock(&of_kernel).as_mut() {
                    Some(watch) => watch.sample(nanos(clock.monotonic())),
                    None => return,
                }
                thread::sleep(EVERY);
            }
        };
        thread::Builder::new().name("sampler".to_string()).spawn(sample).map_err(|error| error.to_string())?;
        let mut asking = JoinSet::new();
        for (name, url) in servers {
            asking.spawn(ask(Arc::clone(machine), Arc::clone(&watch), name, url));
        }
        *lock(&self.running) = Some(Running { watch, _asking: asking });
        Ok(())
    }

    /// Ends it and says what was noted, at times of the machine's monotonic clock: some of it at each call, and nothing once all is
    /// told.
    pub fn tell(&self, machine: &Arc<dyn Machine>) -> Vec<Waited> {
        let mut rest = lock(&self.rest);
        if let Some(running) = lock(&self.running).take()
            && let Some(watch) = lock(&running.watch).take()
        {
            *rest = watch.over(nanos(machine.monotonic())).into();
        }
        let some = rest.len().min(TOLD_AT_ONCE);
        rest.drain(..some).collect()
    }

    /// Ends it, and forgets the members and what was noted.
    pub fn forget(&self) {
        if let Some(running) = lock(&self.running).take() {
            lock(&running.watch).take();
        }
        lock(&self.rest).clear();
        lock(&self.members).clear();
    }
}

/// Asks a server again and again, and notes when it does not answer. Never ends.
async fn ask(machine: Arc<dyn Machine>, watch: Shared, name: String, url: String) {
    let ping = cmd("PING");
    let now = || nanos(machine.monotonic());
    let note = |silent_from: Option<u64>| {
        if let Some(watch) = lock(&watch).as_mut() {
            watch.heard(&name, silent_from, now());
        }
    };
    loop {
        let mut asked = now();
        if let Ok(Ok(mut server)) = timeout(GIVEN_UP_AFTER, connect(&machine, &url, GIVEN_UP_AFTER)).await {
            loop {
                let answer = ping.query_async::<Value>(&mut server);
                tokio::pin!(answer);
                let answer = match timeout(SILENT_AFTER, &mut answer).await {
                    Ok(answer) => answer,
                    Err(_) => {
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
                note(None);
                sleep(ASK_EVERY).await;
                asked = now();
            }
        }
        note(Some(asked));
        sleep(ASK_EVERY).await;
    }
}

/// What is known while it goes on.
struct Watch {
    members: Members,
    in_effect: InEffect,
    least: u64,
    /// When the kernel was asked last, and when processes were listed last; 0 before that.
    looked: u64,
    listed: u64,
    known: BTreeMap<String, Known>,
    /// Since when servers have not answered.
    silent: BTreeMap<String, u64>,
    /// When a fault on servers was in effect last.
    fault_on_servers: Option<u64>,
    found: Vec<Waited>,
}

/// What is known of one member.
#[derive(Default)]
struct Known {
    /// The one that was adopted.
    first: u32,
    processes: BTreeMap<u32, Process>,
    /// A wait that may go on.
    waits: Option<(u64, u64, u64)>,
    /// Before it was first seen to be stopped, when that was seen first, and when last.
    stopped: Option<(u64, u64, u64)>,
    gone: Option<u64>,
}

/// A process and its threads, by their ids; each with what it has waited so far.
struct Process {
    stat: File,
    threads: BTreeMap<u32, (File, u64)>,
}

impl Watch {
    fn new(members: Members, least: u64, in_effect: InEffect) -> Watch {
        Watch {
            members,
            in_effect,
            least,
            looked: 0,
            listed: 0,
            known: BTreeMap::new(),
            silent: BTreeMap::new(),
            fault_on_servers: None,
            found: Vec::new(),
        }
    }

    /// Asks the kernel for everybody.
    fn sample(&mut self, now: u64) {
        let since = mem::replace(&mut self.looked, now);
        let before = (self.in_effect)();
        let adopted = lock(&self.members).clone();
        let is_new =
            |(name, (pid, _)): (&String, &(u32, Scope))| self.known.get(name).map(|known| known.first) != Some(*pid);
        let is_first = self.listed == 0;
        if is_first || now - self.listed >= LIST_EVERY || adopted.iter().any(is_new) {
            self.list(&adopted, now);
        }
        let seen: Vec<(String, Sight)> =
            self.known.iter_mut().map(|(name, known)| (name.clone(), known.look())).collect();
        let after = (self.in_effect)();
        if before.servers || after.servers {
            self.fault_on_servers = Some(now);
        }
        if is_first {
            return;
        }
        for (name, sight) in seen {
            let by_a_fault = before.standing.contains(&name) || after.standing.contains(&name);
            self.note(&name, sight, by_a_fault, (since, now));
        }
    }

    /// Notes what was seen of one member since the last time.
    fn note(&mut self, name: &str, sight: Sight, by_a_fault: bool, (since, now): (u64, u64)) {
        let Some(known) = self.known.get_mut(name) else { return };
        let mut found = Vec::new();
        if sight.waited >= BRIEF {
            let (from, _, waited) = known.waits.unwrap_or((since.min(now.saturating_sub(sight.waited)), 0, 0));
            known.waits = Some((from, now, waited + sight.waited));
        }
        let goes_on = known.waits.filter(|(from, ..)| now - from < TOGETHER);
        found.extend(mem::replace(&mut known.waits, goes_on).filter(|_| goes_on.is_none()).map(of_processor));
        // Whoever looks sees no other sign of having been stopped.
        let late = now.saturating_sub(since).saturating_sub(nanos(EVERY)).saturating_sub(sight.waited);
        if name == AGENT && late >= self.least {
            found.push((WhyWaited::Stopped, since, now, late));
        }
        if sight.stopped && !by_a_fault {
            let (from, first, _) = known.stopped.unwrap_or((since, now, now));
            known.stopped = Some((from, first, now));
        } else if let Some(stopped) = known.stopped.take() {
            found.push(of_stop(stopped, now));
        }
        let ends = Role::of(name).is_some_and(Role::is_server);
        if sight.gone && !by_a_fault && ends {
            known.gone.get_or_insert(since);
        }
        for (why, from, to, waited) in found {
            self.found(name, why, (from, to), waited);
        }
    }

    /// What was heard of a server: nothing since then, or an answer.
    fn heard(&mut self, name: &str, silent_from: Option<u64>, now: u64) {
        match silent_from {
            Some(from) => _ = self.silent.entry(name.to_string()).or_insert(from),
            None => {
                if let Some(from) = self.silent.remove(name) {
                    self.was_silent(name, from, now);
                }
            }
        }
    }

    fn was_silent(&mut self, name: &str, from: u64, to: u64) {
        let by_a_fault = self.fault_on_servers.is_some_and(|fault| from < fault.saturating_add(AFTERMATH));
        if !by_a_fault && to - from >= nanos(SILENT_AFTER) {
            self.found(name, WhyWaited::Silent, (from, to), to - from);
        }
    }

    fn found(&mut self, name: &str, why: WhyWaited, (from_ns, to_ns): (u64, u64), waited_ns: u64) {
        if waited_ns >= self.least {
            self.found.push(Waited { members: vec![name.to_string()], why, from_ns, to_ns, waited_ns });
        }
    }

    /// Everything that was noted, in the order of time.
    fn over(mut self, now: u64) -> Vec<Waited> {
        for (name, known) in mem::take(&mut self.known) {
            let open =
                known.waits.map(of_processor).into_iter().chain(known.stopped.map(|stopped| of_stop(stopped, now)));
            let gone = known.gone.map(|from| (WhyWaited::Gone, from, now, now - from));
            for (why, from, to, waited) in open.chain(gone) {
                self.found(&name, why, (from, to), waited);
            }
        }
        for (name, from) in mem::take(&mut self.silent) {
            self.was_silent(&name, from, now);
        }
        self.found.sort_by_key(|waited| waited.from_ns);
        self.found
    }

    /// Finds the processes and threads of everybody.
    fn list(&mut self, adopted: &BTreeMap<String, (u32, Scope)>, now: u64) {
        self.listed = now;
        let mut of = of_members(adopted).unwrap_or_default();
        let ourselves = (AGENT.to_string(), process::id());
        of.entry(ourselves.0.clone()).or_default().insert(ourselves.1);
        let firsts = adopted.iter().map(|(name, (pid, _))| (name.clone(), *pid)).chain([ourselves]);
        let mut open: usize = self
            .known
            .values()
            .flat_map(|known| known.processes.values())
            .map(|process| process.threads.len() + 1)
            .sum();
        for (name, first) in firsts {
            let known = self.known.entry(name.clone()).or_default();
            if known.first != first {
                // Another one is in its place.
                let gone = known.gone.take().map(|from| (WhyWaited::Gone, from, now, now - from));
                *known = Known { first, ..Known::default() };
                if let Some((why, from, to, waited)) = gone {
                    self.found(&name, why, (from, to), waited);
                }
            }
            let Some(known) = self.known.get_mut(&name) else { continue };
            let pids = of.remove(&name).unwrap_or_default();
            known.processes.retain(|pid, _| *pid == first || pids.contains(pid));
            for pid in pids {
                if let Some(process) = known.processes.get_mut(&pid) {
                    open += process.list(pid, MOST_FILES.saturating_sub(open));
                } else if open < MOST_FILES
                    && let Ok(mut process) = Process::open(pid)
                {
                    open += 1 + process.list(pid, MOST_FILES.saturating_sub(open));
                    known.processes.insert(pid, process);
                }
            }
        }
    }
}

type Found = (WhyWaited, u64, u64, u64);

fn of_processor((from, to, waited): (u64, u64, u64)) -> Found {
    (WhyWaited::Processor, from, to, waited)
}

/// Somebody was seen to be stopped from `first` to `last`, not before `from`, and not at `now`.
fn of_stop((from, first, last): (u64, u64, u64), now: u64) -> Found {
    (WhyWaited::Stopped, from, now, last - first + nanos(EVERY))
}

/// What the kernel says of a member.
struct Sight {
    /// For how long one of its threads has waited for a processor since the last time, the longest of them.
    waited: u64,
    stopped: bool,
    /// Its first process has ended.
    gone: bool,
}

impl Known {
    fn look(&mut self) -> Sight {
        let mut sight = Sight { waited: 0, stopped: false, gone: self.processes.is_empty() };
        for (pid, process) in &mut self.processes {
            let state = process.state();
            sight.stopped |= state == Some('T');
            sight.gone |= *pid == self.first && state.is_none_or(|state| matches!(state, 'Z' | 'X'));
            for (file, before) in process.threads.values_mut() {
                if let Some(waited) = waited(file) {
                    sight.waited = sight.waited.max(waited.saturating_sub(mem::replace(before, waited)));
                }
            }
        }
        sight
    }
}

impl Process {
    fn open(pid: u32) -> io::Result<Process> {
        Ok(Process { stat: File::open(format!("/proc/{pid}/stat"))?, threads: BTreeMap::new() })
    }

    /// None if it is gone: a file that was opened reads no other process that has its id now.
    fn state(&self) -> Option<char> {
        let mut buffer = [0; 1024];
        let read = self.stat.read_at(&mut buffer, 0).ok()?;
        Some(parse_stat(&buffer[..read])?.state)
    }

    /// Finds its threads, and opens at most so many that are new. Returns how many more files are open.
    fn list(&mut self, pid: u32, most: usize) -> usize {
        let Ok(listed) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
        let threads: BTreeSet<u32> =
            listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(MOST_THREADS).collect();
        self.threads.retain(|thread, _| threads.contains(thread));
        let before = self.threads.len();
        for thread in threads {
            if !self.threads.contains_key(&thread)
                && self.threads.len() < before + most
                && let Ok(file) = File::open(format!("/proc/{pid}/task/{thread}/schedstat"))
                && let Some(so_far) = waited(&file)
            {
                self.threads.insert(thread, (file, so_far));
            }
        }
        self.threads.len() - before
    }
}

/// For how long a thread has waited for a processor since it began, in nanoseconds; none if it is gone.
fn waited(schedstat: &File) -> Option<u64> {
    let mut buffer = [0; 128];
    let read = schedstat.read_at(&mut buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..read]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processes of each member.
fn of_members(adopted: &BTreeMap<String, (u32, Scope)>) -> io::Result<BTreeMap<String, BTreeSet<u32>>> {
    let of_scope = |wanted: Scope| adopted.iter().filter(move |(_, (_, scope))| *scope == wanted);
    let pids = all_pids()?;
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let namespaces: BTreeMap<String, &String> =
        of_scope(Scope::Namespace).filter_map(|(name, (pid, _))| Some((pid_namespace(*pid).ok()?, name))).collect();
    if !namespaces.is_empty() {
        for pid in &pids {
            if let Some(name) = pid_namespace(*pid).ok().and_then(|namespace| namespaces.get(&namespace)) {
                found.entry(name.to_string()).or_default().insert(*pid);
            }
        }
    }
    let firsts: BTreeMap<u32, &String> = of_scope(Scope::Descendants).map(|(name, (pid, _))| (*pid, name)).collect();
    if !firsts.is_empty() {
        let parents: BTreeMap<u32, u32> = pids.iter().filter_map(|pid| Some((*pid, stat(*pid).ok()?.parent))).collect();
        for pid in &pids {
            let mut at = *pid;
            while !firsts.contains_key(&at)
                && let Some(parent) = parents.get(&at)
            {
                at = *parent;
            }
            if let Some(name) = firsts.get(&at) {
                found.entry(name.to_string()).or_default().insert(*pid);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn watch(hit: fn() -> Hit) -> Watch {
        let mut watch = Watch::new(Arc::default(), 50 * MS, Box::new(hit));
        for name in ["c0", "n0", AGENT] {
            watch.known.insert(name.to_string(), Known::default());
        }
        watch
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
        let mut busy = watch(Hit::default);
        for (number, waited) in (0..).zip([0, 5, 30, 0, 40, 0, 0, 0, 0, 0, 0, 9, 20, 0]) {
            let since = 1_000 + 50 * number;
            busy.note("c0", sight(waited, false, false), false, (since * MS, (since + 50) * MS));
        }
        // What is seen at its end began before that.
        busy.note("n0", sight(300, false, false), false, (1_050 * MS, 1_100 * MS));
        let waits = |name: &str, from, to, waited| (name.to_string(), WhyWaited::Processor, from, to, waited);
        assert_eq!(told(busy), [waits("n0", 800, 1_100, 300), waits("c0", 1_050, 1_250, 75)]);
    }

    #[test]
    fn who_is_stopped_or_gone_is_told_unless_a_fault_does_that() {
        for by_a_fault in [false, true] {
            let mut seen = watch(Hit::default);
            for (number, stopped) in (0..).zip([false, true, true, true, false]) {
                let since = 1_000 + 50 * number;
                seen.note("c0", sight(0, stopped, false), by_a_fault, (since * MS, (since + 50) * MS));
            }
            seen.note("n0", sight(0, false, true), by_a_fault, (2_000 * MS, 2_050 * MS));
            seen.note("c0", sight(0, false, true), by_a_fault, (2_000 * MS, 2_050 * MS));
            let (stopped, gone) = (WhyWaited::Stopped, WhyWaited::Gone);
            // A client that ends is told by its own line.
            let all = [("c0".to_string(), stopped, 1_050, 1_250, 150), ("n0".to_string(), gone, 2_000, 10_000, 8_000)];
            assert_eq!(told(seen), if by_a_fault { &[][..] } else { &all[..] });
        }
        let mut late = watch(Hit::default);
        late.note(AGENT, sight(0, false, false), false, (1_000 * MS, 1_400 * MS));
        late.note(AGENT, sight(350, false, false), false, (1_400 * MS, 1_800 * MS));
        let agent = |why, from, to| (AGENT.to_string(), why, from, to, 350);
        assert_eq!(told(late), [agent(WhyWaited::Stopped, 1_000, 1_400), agent(WhyWaited::Processor, 1_400, 1_800)]);
    }

    #[test]
    fn a_server_is_silent_until_it_answers_unless_there_is_a_fault() {
        let mut silent = watch(Hit::default);
        silent.heard("n0", Some(1_000 * MS), 1_250 * MS);
        silent.heard("n0", Some(1_300 * MS), 1_550 * MS);
        silent.heard("n0", None, 1_900 * MS);
        silent.heard("n0", Some(3_000 * MS), 3_000 * MS);
        silent.heard("n0", None, 3_100 * MS);
        let silence = |from, to| ("n0".to_string(), WhyWaited::Silent, from, to, to - from);
        silent.heard("n0", Some(9_000 * MS), 9_300 * MS);
        assert_eq!(told(silent), [silence(1_000, 1_900), silence(9_000, 10_000)]);
        let mut broken = watch(|| Hit { servers: true, ..Hit::default() });
        broken.sample(900 * MS);
        broken.heard("n0", Some(1_000 * MS), 1_250 * MS);
        broken.heard("n0", None, 1_900 * MS);
        broken.heard("n0", Some(3_000 * MS), 3_250 * MS);
        let found = told(broken);
        assert_eq!(found, [silence(3_000, 10_000)], "two seconds after the fault");
    }

    #[test]
    fn the_kernel_tells_of_a_process_that_was_stopped_and_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let members: Members =
            Arc::new(Mutex::new(BTreeMap::from([("n0".to_string(), (child.id(), Scope::Descendants))])));
        let held = super::super::process::Process::open(child.id()).unwrap();
        let mut watch = Watch::new(members, 50 * MS, Box::new(Hit::default));
        watch.sample(1_000 * MS);
        watch.sample(1_050 * MS);
        held.signal(rustix::process::Signal::STOP).unwrap();
        while stat(child.id()).unwrap().state != 'T' {
            thread::yield_now();
        }
        watch.sample(1_100 * MS);
        watch.sample(1_150 * MS);
        held.signal(rustix::process::Signal::CONT).unwrap();
        while stat(child.id()).unwrap().state == 'T' {
            thread::yield_now();
        }
        watch.sample(1_200 * MS);
        child.kill().unwrap();
        child.wait().unwrap();
        watch.sample(1_250 * MS);
        let of_n0: Vec<_> =
            told(watch).into_iter().filter(|(name, why, ..)| name == "n0" && *why != WhyWaited::Processor).collect();
        let expected = [
            ("n0".to_string(), WhyWaited::Stopped, 1_050, 1_200, 100),
            ("n0".to_string(), WhyWaited::Gone, 1_200, 10_000, 8_800),
        ];
        assert_eq!(of_n0, expected);
    }
}
