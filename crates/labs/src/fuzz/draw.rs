//! Draws a scripted scenario from a seed. Clients begin operations and wait at any phase. Between their steps, faults from the
//! whole language begin and end.
//! Every drawn script is [fair](super::fair).

use std::collections::BTreeSet;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::fair::{PATIENCE, clash};
use base::units::Length;
use model::fault_kinds::{CallEffect, Drawn, FaultKind};
use model::history::Progress;
use model::nemesis::{Fault, Nemesis, Step, Target, TargetSpec, Targets};
use model::scenario::Scenario;
use model::topology::Persistence;

/// The kinds of faults that are drawn by default: those whose declaration has rules for drawing.
pub fn kinds() -> Vec<FaultKind> {
    FaultKind::ALL.iter().copied().filter(|kind| kind.drawn.is_some()).collect()
}

/// The default TTL of locks on groups that replace their primary. No lock expires before the group has a new primary.
pub const TTL_OF_GROUPS: Duration = Duration::from_secs(10);
/// The number of steps before the script lets all clients go on.
const STEPS: std::ops::RangeInclusive<u32> = 5..=14;
/// The phases at which an operation can wait.
const PHASES: [&str; 9] =
    ["acquiring", HALF, "acquired", "read", "before-write", "before-write", "before-write", "written", "releasing"];
/// The index in [`PHASES`] of the first phase at which a client holds the lock.
const HOLDS: usize = 2;
const WAITS: [f64; 7] = [0.1, 0.3, 0.5, 0.9, 1.1, 1.5, 2.5];
const CHANGES: [&str; 8] = ["+0.5ttl", "+1.1ttl", "+2ttl", "-2ttl", "x0.1", "x0.5", "x2", "x10"];
const LENGTHS: [&str; 4] = ["0.1ttl", "0.5ttl", "1.5ttl", "1m"];
/// The commands that clients send to the nodes of a lock, and to the resource.
const OF_NODES: [&str; 4] = ["SET", "EVAL", "write", "any"];
const OF_RESOURCE: [&str; 3] = ["GET", "write", "any"];
/// A phase of locks that clients acquire in two steps.
const HALF: &str = "half-acquired";

/// The activity of a client, as far as the script determines it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Nothing,
    /// It waits at this index of [`PHASES`], and may wait for this many more TTLs.
    Waits(usize, f64),
    Works,
    /// It is finished: each client makes only one operation.
    Done,
}

/// The scenario with a script drawn from this seed in place of its nemesis. Its simulated network uses the same seed.
pub fn scenario(base: &Scenario, kinds: &[FaultKind], seed: u64) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let clients = rng.random_range(2..=4);
    let persistence = *[Persistence::None, Persistence::Everysec, Persistence::Always]
        .choose(&mut rng)
        .filter(|_| kinds.iter().any(|kind| kind.ends_processes()))
        .unwrap_or(&base.persistence);
    let has_roles = base.workload.topology.has_roles();
    let has_halves = base.workload.lock.about().halves;
    let kinds = fitting(base, kinds);
    let has_readers = base.workload.has_readers();
    let (nodes, steps, readers) = (base.nodes, Vec::new(), BTreeSet::new());
    let script = Draw { rng, nodes, has_roles, has_halves, has_readers, clients, kinds, steps, readers }.script();
    let nemesis = Nemesis {
        description: format!("Random script from seed {seed}"),
        story: "A random script with all kinds of faults.".to_string(),
        progress: Progress::Any,
        clients: Some(clients),
        ttl: has_roles.then_some(Length::Absolute(base.ttl)),
        persistence: Some(persistence),
        // redjepsen wrote these phrases, so one that does not parse is a bug.
        script: script.iter().filter_map(|step| step.parse::<Step>().ok()).collect(),
        ..Nemesis::default()
    };
    Scenario { nemesis, nemesis_name: "fuzz".to_string(), clients, persistence, seed, keys: 1, ..base.clone() }
}

fn fitting(base: &Scenario, kinds: &[FaultKind]) -> Vec<FaultKind> {
    let of_redis = base.workload.lock.is_on_redis() && base.nodes > 0;
    let has_roles = base.workload.topology.has_roles();
    let fits = |kind: &FaultKind| (has_roles || !kind.needs.roles) && (of_redis || !kind.needs.redis);
    kinds.iter().copied().filter(fits).collect()
}

struct Draw {
    rng: ChaCha8Rng,
    nodes: u32,
    has_roles: bool,
    /// True if clients acquire the lock in two steps.
    has_halves: bool,
    /// True if clients can also acquire the lock as readers.
    has_readers: bool,
    clients: u32,
    kinds: Vec<FaultKind>,
    steps: Vec<String>,
    readers: BTreeSet<usize>,
}

impl Draw {
    fn script(mut self) -> Vec<String> {
        let mut doing = vec![Doing::Nothing; self.clients as usize];
        let mut in_effect: Vec<Fault> = Vec::new();
        for _ in 0..self.rng.random_range(STEPS) {
            match self.rng.random_range(0..10) {
                0..=4 => self.advance(&mut doing),
                5..=7 if in_effect.len() < 3 => {
                    if let Some(fault) = self.fault(&doing)
                        && !in_effect.iter().any(|other| clash(&fault, other))
                    {
                        self.steps.push(fault.to_string());
                        self.go_if_stopped(&fault, &mut doing);
                        in_effect.push(fault);
                    }
                }
                5..=8 if !in_effect.is_empty() => {
                    let place = self.rng.random_range(0..in_effect.len());
                    self.steps.push(format!("heal {}", in_effect.remove(place)));
                }
                _ => {
                    if let Some(wait) = self.time(&mut doing) {
                        self.steps.push(format!("wait {wait}ttl"));
                    }
                }
            }
        }
        for fault in in_effect.iter().rev() {
            self.steps.push(format!("heal {fault}"));
        }
        for (client, doing) in doing.iter().enumerate() {
            if let Doing::Waits(..) = doing {
                self.steps.push(format!("go client:{client}"));
            }
        }
        for (client, doing) in doing.iter().enumerate() {
            if matches!(doing, Doing::Waits(..) | Doing::Works) {
                self.steps.push(format!("await client:{client} end within 4ttl or go on"));
            }
        }
        self.steps
    }

    /// If the fault suspends a client that waits at a breakpoint, usually lets that client go on. Then only the fault stops it.
    fn go_if_stopped(&mut self, fault: &Fault, doing: &mut [Doing]) {
        let TargetSpec::Members(Targets(targets)) = &fault.whom else { return };
        if !fault.kind.suspends() {
            return;
        }
        for target in targets {
            if let Target::Client(client) = target
                && let Some(Doing::Waits(..)) = doing.get(*client as usize)
                && self.rng.random_bool(0.8)
            {
                doing[*client as usize] = Doing::Works;
                self.steps.push(format!("go client:{client}"));
            }
        }
    }

    /// The index of a phase in [`PHASES`] at which an operation on this lock can wait.
    fn place(&mut self) -> usize {
        loop {
            let place = self.rng.random_range(0..PHASES.len());
            if self.has_halves || PHASES[place] != HALF {
                return place;
            }
        }
    }

    /// The mode in which a client acquires a lock that it must hold until this phase: ` as reader`, or empty for a writer.
    fn how(&mut self, client: usize, until: &str) -> &'static str {
        let of_writers = matches!(until, "before-write" | "written");
        if !self.has_readers || of_writers || !self.rng.random_bool(0.6) {
            return "";
        }
        self.readers.insert(client);
        " as reader"
    }

    /// Moves a random client one step further.
    fn advance(&mut self, doing: &mut [Doing]) {
        let client = self.rng.random_range(0..doing.len());
        let (step, now) = match doing[client] {
            Doing::Nothing if self.rng.random_bool(if held(doing) { 0.2 } else { 0.7 }) => {
                let place = self.place();
                let limit = match doing.iter().any(|doing| matches!(doing, Doing::Waits(..))) {
                    true => match self.time(doing) {
                        Some(time) => format!(" giving up after {time}ttl"),
                        None => return,
                    },
                    false => String::new(),
                };
                let how = self.how(client, PHASES[place]);
                (format!("start client:{client}{how} to {}{limit}", PHASES[place]), Doing::Waits(place, PATIENCE))
            }
            Doing::Nothing => (format!("start client:{client}{}", self.how(client, "")), Doing::Works),
            // Readers do not reach the other phases.
            Doing::Waits(..) if self.readers.contains(&client) => (format!("go client:{client}"), Doing::Works),
            Doing::Waits(place, patience) => {
                let later = self.rng.random_range(place..PHASES.len());
                // A phase can have several indexes.
                let alone = doing.iter().filter(|doing| matches!(doing, Doing::Waits(..))).count() == 1;
                let exists = self.has_halves || PHASES[later] != HALF;
                if exists && PHASES[later] != PHASES[place] && (place >= HOLDS || alone) && self.rng.random_bool(0.3) {
                    (format!("go client:{client} to {}", PHASES[later]), Doing::Waits(later, patience))
                } else {
                    (format!("go client:{client}"), Doing::Works)
                }
            }
            Doing::Done => return,
            Doing::Works => {
                let Some(within) = self.time(doing) else { return };
                (format!("await client:{client} end within {within}ttl or go on"), Doing::Done)
            }
        };
        doing[client] = now;
        self.steps.push(step);
    }

    /// Draws a time, in TTLs, for which every waiting client may wait, and subtracts it from their patience. None if some
    /// client may not wait any longer.
    fn time(&mut self, doing: &mut [Doing]) -> Option<f64> {
        let left = |doing: &Doing| if let Doing::Waits(_, left) = doing { *left } else { f64::INFINITY };
        let most = doing.iter().map(left).fold(f64::INFINITY, f64::min);
        // Earlier sums of binary fractions are slightly off.
        let short_enough = WAITS.iter().take_while(|wait| **wait <= most + 1e-9).count();
        if short_enough == 0 {
            return None;
        }
        let time = WAITS[self.rng.random_range(0..short_enough)];
        for doing in doing {
            if let Doing::Waits(_, left) = doing {
                *left -= time;
            }
        }
        Some(time)
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of.choose(&mut self.rng).copied().unwrap_or_default()
    }

    /// A random client, usually one that waits in the middle of an operation.
    fn client(&mut self, doing: &[Doing]) -> String {
        let those = |fit: fn(&Doing) -> bool| -> Vec<u32> {
            (0..self.clients).zip(doing).filter(|(_, doing)| fit(doing)).map(|(client, _)| client).collect()
        };
        let (waiting, not_done) =
            (those(|doing| matches!(doing, Doing::Waits(..))), those(|doing| *doing != Doing::Done));
        let anybody = not_done.choose(&mut self.rng).copied().unwrap_or_default();
        let drawn = waiting.choose(&mut self.rng).copied();
        let in_the_middle = self.rng.random_bool(0.7);
        format!("client:{}", drawn.filter(|_| in_the_middle).unwrap_or(anybody))
    }

    /// A random node, or several.
    fn nodes(&mut self) -> String {
        if self.has_roles && self.rng.random_bool(0.6) {
            return self.one(&["primary", "replica"]).to_string();
        }
        let count = match self.rng.random_range(0..4) {
            0 | 1 => 1,
            2 => self.nodes / 2 + 1,
            _ => self.nodes,
        };
        let first = self.rng.random_range(0..self.nodes);
        let mut nodes: Vec<u32> = (0..count).map(|place| (first + place) % self.nodes).collect();
        nodes.sort_unstable();
        nodes.iter().map(|node| format!("node:{node}")).collect::<Vec<_>>().join(",")
    }

    fn server(&mut self) -> String {
        if self.nodes == 0 || self.rng.random_bool(0.3) { "resource".to_string() } else { self.nodes() }
    }

    fn fault(&mut self, doing: &[Doing]) -> Option<Fault> {
        let kind = *self.kinds.choose(&mut self.rng)?;
        let on_nodes = self.nodes > 0 && self.rng.random_bool(0.5);
        let Drawn { phrase, of_roles } = kind.drawn?;
        let of_roles = of_roles.filter(|_| self.has_roles && self.rng.random_bool(0.5));
        let mut filled = String::new();
        let mut parts = of_roles.unwrap_or(phrase).split('{');
        filled.push_str(parts.next()?);
        for part in parts {
            let (name, rest) = part.split_once('}')?;
            let drawn = match name {
                "client" => self.client(doing),
                "nodes" => self.nodes(),
                "member" => {
                    if on_nodes {
                        self.nodes()
                    } else {
                        self.client(doing)
                    }
                }
                "server" => self.server(),
                "one-way" => {
                    let (client, server) = (self.client(doing), self.server());
                    match self.rng.random_bool(0.5) {
                        true => format!("{client} to {server}"),
                        false => format!("{server} to {client}"),
                    }
                }
                "length" => self.one(&LENGTHS).to_string(),
                "change" => self.one(&CHANGES).to_string(),
                "command" => self.command(doing)?,
                _ => return None,
            };
            filled = filled + &drawn + rest;
        }
        filled.parse().ok()
    }

    /// A fault at a client's command. None if no command fits.
    fn command(&mut self, doing: &[Doing]) -> Option<String> {
        let effect = *[CallEffect::HoldRequest, CallEffect::HoldReply, CallEffect::LoseReply, CallEffect::ResetAfter]
            .choose(&mut self.rng)?;
        let (client, server) = (self.client(doing), self.server());
        let command = self.one(if server == "resource" { &OF_RESOURCE } else { &OF_NODES });
        Some(format!("{} {command} {client} {} {server}", effect.words(), effect.between()))
    }
}

/// True if a client waits while it holds the lock. Then other clients usually have to wait for the lock.
fn held(doing: &[Doing]) -> bool {
    doing.iter().any(|doing| matches!(doing, Doing::Waits(place, _) if *place >= HOLDS))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::fair::{PATIENCE, is_fair};
    use super::*;
    use model::plan::Plan;
    use model::scenario::Options;

    #[test]
    fn every_declared_draw_is_a_fault_of_its_kind() {
        for has_roles in [false, true] {
            for kind in kinds() {
                let mut draw = Draw {
                    rng: ChaCha8Rng::seed_from_u64(1),
                    nodes: 3,
                    has_roles,
                    has_halves: false,
                    has_readers: false,
                    clients: 2,
                    kinds: vec![kind],
                    steps: vec![],
                    readers: BTreeSet::new(),
                };
                for _ in 0..50 {
                    assert_eq!(draw.fault(&[Doing::Nothing; 2]).map(|fault| fault.kind), Some(kind));
                }
            }
        }
    }

    #[test]
    fn locks_are_taken_for_reading_where_the_workload_does_that_and_a_reader_waits_nowhere_to_write() {
        let steps = |workload: &str| -> Vec<String> {
            let base = Options::default().scenario(workload, "none", 1, Path::new("")).unwrap();
            let scripts = (0..200).flat_map(|seed| scenario(&base, &kinds(), seed).nemesis.script);
            scripts.map(|step| step.to_string()).filter(|step| step.contains(" as reader")).collect()
        };
        assert!(steps("perfect").is_empty());
        let readers = steps("perfect-shared");
        assert!(readers.len() > 50 && !readers.iter().any(|step| step.contains("write") || step.contains("written")));
    }

    #[test]
    fn whatever_is_drawn_can_be_played_and_is_the_same_for_the_same_seed() {
        for workload in ["redlock", "single", "perfect", "perfect-shared", "fenced", "replicated", "cluster"] {
            let base = Options::default().scenario(workload, "none", 1, Path::new("")).unwrap();
            let mut drawn_kinds = std::collections::BTreeSet::new();
            for seed in 0..300 {
                let drawn = scenario(&base, &kinds(), seed);
                assert_eq!(drawn, scenario(&base, &kinds(), seed));
                drawn.check().unwrap();
                let plan = Plan::draw(&drawn).unwrap_or_else(|error| panic!("{:?}: {error}", drawn.nemesis.script));
                assert!(!plan.script.is_empty());
                assert!(is_fair(&drawn.nemesis.script, PATIENCE), "{:?}", drawn.nemesis.script);
                drawn_kinds.extend(drawn.nemesis.all_faults().map(|fault| fault.kind));
            }
            let expected = match workload {
                "perfect" | "perfect-shared" => 8,
                "replicated" | "cluster" => kinds().len(),
                _ => kinds().len() - 1,
            };
            assert_eq!(drawn_kinds.len(), expected, "{workload}: {drawn_kinds:?}");
        }
    }
}
