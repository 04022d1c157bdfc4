//! Finds the smallest scripted scenario that still breaks the lock in the same way.
//!
//! It leaves out steps, in ever smaller groups (delta debugging, Zeller and Hildebrandt 2002). Then it simplifies the rest: it
//! joins faults of one kind, removes nodes and targets, and shortens and rounds times.
//!
//! A candidate counts only if it breaks the lock with several seeds, in a data centre and on one machine. The seeds vary the
//! network and the clients. So the result does not depend on a lucky delay, and can be repeated on a real cluster. To run
//! candidates elsewhere, such as on real servers, implement [`Trials`].

use std::thread;

use super::cause::{By, Cause};
use super::fair::{PATIENCE, is_fair, longest_wait};
use base::interrupt::Interrupt;
use base::units::Length;
use model::history::Phase;
use model::nemesis::{Expectation, Fault, Nemesis, Step, Target, TargetSpec, Targets};
use model::plan::{Plan, seed_after};
use model::scenario::Scenario;
use runner::simulate::simulate_unless;
use system::cluster::{Distance, Simulated};

/// Each candidate runs with this many seeds. There are many candidates, so with few seeds a lucky one would be accepted.
const SEEDS: u64 = 20;
/// If this many seeds break the lock, the candidate does not depend on luck.
const ENOUGH: u64 = 19;
/// Round lengths, in TTLs. Simpler ones come first.
const ROUND: [f64; 6] = [1.0, 2.0, 0.5, 1.5, 3.0, 1.1];

/// The phases at which a client is stopped in place of a step that slows it.
const PINNED: [Phase; 3] = [Phase::BeforeWrite, Phase::Read, Phase::Acquired];

/// Longer times to try, in TTLs: some suffice while a client waits at a breakpoint, others for any other step.
const LONGER: [f64; 4] = [0.6, 1.5, 2.5, 4.0];

#[derive(Debug)]
pub struct Shrunk {
    pub scenario: Scenario,
    pub cause: Cause,
    /// The number of candidates that were tried.
    pub tried: u64,
    pub end: ShrinkEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShrinkEnd {
    /// No step can be left out.
    Smallest,
    /// The time ended before all candidates were tried.
    CutShort,
    /// The scenario breaks the lock with its own seed, but not with enough other seeds.
    ByLuck,
}

impl Shrunk {
    /// The scenario as a nemesis file. The file's story names its origin: a scenario drawn from `seed`.
    pub fn nemesis(&self, seed: u64) -> Nemesis {
        let Shrunk { scenario, cause, tried, end } = self;
        let workload = &scenario.workload_name;
        let story = match end {
            ShrinkEnd::Smallest => format!(
                "The smallest scenario with this outcome that redjepsen found from seed {seed}. It tried {tried} smaller \
                 scenarios in virtual time."
            ),
            ShrinkEnd::CutShort => format!(
                "Found with seed {seed} in virtual time. There was no time to shrink it completely: redjepsen tried {tried} \
                 smaller scenarios."
            ),
            ShrinkEnd::ByLuck => format!(
                "Found with seed {seed} in virtual time. It depends on the network's timing: with another seed the lock may pass."
            ),
        };
        Nemesis {
            description: format!("Found by fuzzing {workload}: {cause}"),
            story,
            expect: [(workload.clone(), Expectation::Violation)].into(),
            ..scenario.nemesis.clone()
        }
    }

    /// The name of the nemesis file: letters, digits and hyphens.
    pub fn name(&self) -> String {
        let cause = self.cause.to_string();
        let words = cause.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        format!("{}-{}", self.scenario.workload_name, words.collect::<Vec<_>>().join("-"))
    }
}

/// Runs candidates.
pub trait Trials {
    /// The number of runs in which a scenario breaks the lock with this cause; 0 if fewer than `least`.
    fn that_break(&mut self, scenario: &Scenario, cause: &Cause, least: u64) -> u64;

    /// If this many runs break the lock, the scenario does not depend on luck.
    fn enough(&self) -> u64;

    /// True if the shrinker should try to leave out both of these steps when neither can be left out alone.
    fn is_worth_leaving_out(&self, one: &Step, other: &Step) -> bool;
}

/// Shrinks a scripted scenario that breaks the lock with this cause, in virtual time. None if the result breaks the lock only
/// with some network delays. If `over` is raised, shrinking ends at once and returns the smallest scenario so far. If that one
/// may depend on luck, it returns the original scenario, which breaks the lock for certain with its own seed. The shrinker
/// calls `show` with the number of remaining steps and of scripts tried.
pub fn shrink(
    scenario: &Scenario,
    cause: &Cause,
    over: &Interrupt,
    show: &mut dyn FnMut(usize, u64),
) -> Option<Shrunk> {
    shrink_by(&mut InVirtualTime { over }, PATIENCE, scenario, cause, over, show)
}

/// Like [`shrink`], with any trials. If the script already lets clients wait at breakpoints for longer than is fair, candidates
/// may not exceed that time.
pub fn shrink_on(trials: &mut dyn Trials, scenario: &Scenario, cause: &Cause, over: &Interrupt) -> Option<Shrunk> {
    let patience = longest_wait(&scenario.nemesis.script, Phase::Acquiring).max(PATIENCE);
    shrink_by(trials, patience, scenario, cause, over, &mut |_, _| {})
}

fn shrink_by(
    trials: &mut dyn Trials,
    patience: f64,
    scenario: &Scenario,
    cause: &Cause,
    over: &Interrupt,
    show: &mut dyn FnMut(usize, u64),
) -> Option<Shrunk> {
    show(scenario.nemesis.script.len(), 0);
    let enough = trials.enough();
    let mut shrinking =
        Shrinking { best: scenario.clone(), breaks: 0, cause: cause.clone(), tried: 0, trials, patience, over, show };
    shrinking.breaks = shrinking.trials_that_break(scenario, 1);
    while shrinking.breaks > 0 {
        let before = shrinking.best.clone();
        shrinking.take_time();
        shrinking.leave_out();
        shrinking.leave_out_pairs();
        shrinking.pin();
        shrinking.join();
        shrinking.simplify();
        if shrinking.best == before || over.is_raised() {
            break;
        }
    }
    let Shrinking { best, breaks, mut cause, tried, .. } = shrinking;
    let has_faults = best.nemesis.script.iter().any(|step| matches!(step, Step::Inject(_)));
    if cause.by == By::Uncertain && !has_faults && breaks >= enough {
        cause.by = By::Nothing;
    }
    match (breaks >= enough, over.is_raised()) {
        (true, cut) => {
            let end = if cut { ShrinkEnd::CutShort } else { ShrinkEnd::Smallest };
            Some(Shrunk { scenario: best, cause, tried, end })
        }
        (false, true) => Some(Shrunk { scenario: scenario.clone(), cause, tried, end: ShrinkEnd::CutShort }),
        (false, false) => None,
    }
}

struct Shrinking<'a> {
    best: Scenario,
    /// The number of trials in which the best candidate breaks the lock.
    breaks: u64,
    cause: Cause,
    tried: u64,
    trials: &'a mut dyn Trials,
    /// How many TTLs a client may wait at breakpoints.
    patience: f64,
    over: &'a Interrupt,
    show: &'a mut dyn FnMut(usize, u64),
}

/// Runs candidates with many seeds in virtual time.
struct InVirtualTime<'a> {
    over: &'a Interrupt,
}

impl Trials for InVirtualTime<'_> {
    fn enough(&self) -> u64 {
        ENOUGH
    }

    fn is_worth_leaving_out(&self, _: &Step, _: &Step) -> bool {
        true
    }

    fn that_break(&mut self, scenario: &Scenario, cause: &Cause, least: u64) -> u64 {
        let over = self.over;
        let breaks = |number: u64| {
            let seed = seed_after(scenario.seed, number);
            let distance = if number.is_multiple_of(2) { Distance::DataCentre } else { Distance::OneMachine };
            // Every second pair of runs has another plan as well, so the clients draw other values.
            let plan = if number % 4 < 2 { scenario.seed } else { seed };
            let run = simulate_unless(over, Simulated { seed, distance }, &Scenario { seed: plan, ..scenario.clone() });
            let run = run.ok().flatten();
            run.and_then(|run| Cause::of(&run.history, &run.verdict)).is_some_and(|now| now.is(cause))
        };
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
        let (mut tried, mut all) = (0, 0);
        // Most useless candidates already fail with the first seeds.
        while tried < SEEDS && all + SEEDS - tried >= least {
            let next = tried..(tried + threads).min(SEEDS);
            tried = next.end;
            all += thread::scope(|scope| {
                let spawn = |number| thread::Builder::new().spawn_scoped(scope, move || breaks(number));
                // If the system grants no more threads, the runs are made in sequence.
                let runs: Vec<_> = next.map(|number| spawn(number).map_err(|_| breaks(number))).collect();
                let broke = |run: Result<thread::ScopedJoinHandle<bool>, bool>| match run {
                    Ok(run) => run.join().unwrap_or(false),
                    Err(broke) => broke,
                };
                runs.into_iter().map(|run| u64::from(broke(run))).sum::<u64>()
            });
        }
        if all >= least { all } else { 0 }
    }
}

impl Shrinking<'_> {
    /// The number of trials in which a scenario breaks the lock in the same way. 0 if fewer than `least`, or if the scenario is
    /// invalid or unfair.
    fn trials_that_break(&mut self, scenario: &Scenario, least: u64) -> u64 {
        // At the end of a run, redjepsen heals every fault that is still active.
        let healed: Vec<Step> = scenario.nemesis.script.iter().cloned().chain([Step::HealAll]).collect();
        if self.over.is_raised()
            || !is_fair(&healed, self.patience)
            || scenario.check().is_err()
            || Plan::draw(scenario).is_err()
        {
            return 0;
        }
        self.tried += 1;
        (self.show)(self.best.nemesis.script.len(), self.tried);
        self.trials.that_break(scenario, &self.cause, least)
    }

    /// Accepts a candidate if it breaks the lock with as many seeds as the best one, or with enough.
    fn take(&mut self, candidate: Scenario) -> bool {
        self.take_if(candidate, self.breaks.clamp(1, self.trials.enough()))
    }

    fn take_if(&mut self, candidate: Scenario, least: u64) -> bool {
        if candidate == self.best {
            return false;
        }
        let breaks = self.trials_that_break(&candidate, least);
        if breaks > 0 {
            (self.best, self.breaks) = (candidate, breaks);
        }
        breaks > 0
    }

    /// Makes waits longer where this breaks the lock with more seeds.
    fn take_time(&mut self) {
        for place in 0..self.best.nemesis.script.len() {
            for factor in LONGER {
                if self.breaks >= self.trials.enough() {
                    return;
                }
                let mut script = self.best.nemesis.script.clone();
                match &mut script[place] {
                    Step::Wait(length) | Step::Await { within: Some(length), .. } => *length = Length::Ttl(factor),
                    _ => break,
                }
                let candidate = self.with_script(script);
                self.take_if(candidate, self.breaks + 1);
            }
        }
    }

    fn with_script(&self, script: Vec<Step>) -> Scenario {
        let best = self.best.clone();
        Scenario { nemesis: Nemesis { script, ..best.nemesis }, ..best }
    }

    /// Leaves out as many consecutive steps as possible.
    fn leave_out(&mut self) {
        let mut length = self.best.nemesis.script.len().div_ceil(2);
        while length > 0 {
            let mut place = 0;
            while place < self.best.nemesis.script.len() {
                let mut script = self.best.nemesis.script.clone();
                script.drain(place..(place + length).min(script.len()));
                let candidate = self.with_script(script);
                if !self.take(candidate) {
                    place += length;
                }
            }
            length /= 2;
        }
    }

    /// Leaves out two steps that make sense only together, such as a fault and its heal.
    fn leave_out_pairs(&mut self) {
        let mut first = 0;
        while first < self.best.nemesis.script.len() {
            let mut second = first + 1;
            let mut shorter = false;
            while second < self.best.nemesis.script.len() && !shorter {
                let mut script = self.best.nemesis.script.clone();
                let (other, one) = (script.remove(second), script.remove(first));
                if self.trials.is_worth_leaving_out(&one, &other) {
                    let candidate = self.with_script(script);
                    shorter = self.take(candidate);
                }
                second += 1;
            }
            if !shorter {
                first += 1;
            }
        }
    }

    /// Stops a client at a breakpoint in place of a step that only makes it slow, such as a delay of its packets. Without such a
    /// step the lock may break by luck, and with a breakpoint it breaks for certain.
    fn pin(&mut self) {
        let mut place = 0;
        while place < self.best.nemesis.script.len() {
            let script = self.best.nemesis.script.clone();
            let started = script[..place].iter().enumerate().filter_map(|(at, step)| match step {
                Step::Start { client, to: None, .. } => Some((at, *client)),
                _ => None,
            });
            let pinned = |(at, client): (usize, u32), phase: Phase| {
                let mut script = script.clone();
                if let Step::Start { to, .. } = &mut script[at] {
                    *to = Some(phase);
                }
                script.push(Step::Go { client, to: None });
                script.remove(place);
                script
            };
            let slows = matches!(&script[place], Step::Wait(_))
                || matches!(&script[place], Step::Inject(fault) if fault.kind.is_of_the_network());
            let candidates: Vec<_> =
                started.filter(|_| slows).flat_map(|start| PINNED.map(|phase| pinned(start, phase))).collect();
            let is_taken = candidates.into_iter().any(|script| {
                let candidate = self.with_script(script);
                self.take(candidate)
            });
            if !is_taken {
                place += 1;
            }
        }
    }

    /// Joins two faults into one, and two consecutive waits into one.
    fn join(&mut self) {
        loop {
            let script = &self.best.nemesis.script;
            let candidates: Vec<Scenario> =
                waits_joined(script).into_iter().chain(joined(script)).map(|script| self.with_script(script)).collect();
            if !candidates.into_iter().any(|candidate| self.take(candidate)) {
                return;
            }
        }
    }

    fn simplify(&mut self) {
        for place in 0..self.best.nemesis.script.len() {
            let Some(step) = self.best.nemesis.script.get(place).cloned() else { break };
            for simpler in simpler(&step) {
                let mut script = self.best.nemesis.script.clone();
                // The steps that wait for a fault or heal it name the fault again.
                for other in &mut script {
                    *other = renamed(other, &step, &simpler);
                }
                script[place] = simpler;
                let candidate = self.with_script(script);
                if self.take(candidate) {
                    break;
                }
            }
        }
        if let Some(script) = renumbered(&self.best.nemesis.script) {
            let candidate = self.with_script(script);
            self.take(candidate);
        }
        let Some(clients) = self.clients_named() else { return };
        if clients < self.best.clients {
            let mut candidate = self.best.clone();
            (candidate.clients, candidate.nemesis.clients) = (clients, Some(clients));
            self.take(candidate);
        }
        let mut candidate = self.best.clone();
        candidate.persistence = Default::default();
        candidate.nemesis.persistence = None;
        self.take(candidate);
    }

    /// The number of clients that the script needs. None if it does not name clients by number.
    fn clients_named(&self) -> Option<u32> {
        let of_step = |step: &Step| match step {
            Step::Start { client, .. } | Step::Go { client, .. } => vec![*client],
            Step::Await { client, .. } | Step::Expect { client, .. } | Step::Cancel { client } => vec![*client],
            Step::Inject(fault) => {
                let targets = fault.all_targets().into_iter().flat_map(|targets| &targets.0);
                targets
                    .filter_map(|target| if let Target::Client(client) = target { Some(*client) } else { None })
                    .collect()
            }
            _ => Vec::new(),
        };
        self.best.nemesis.script.iter().flat_map(of_step).max().map(|highest| (highest + 1).max(2))
    }
}

/// The script with its clients renumbered from 0, in order of appearance.
fn renumbered(script: &[Step]) -> Option<Vec<Step>> {
    const CLIENT: &str = "client:";
    let mut known: Vec<String> = Vec::new();
    let mut again = |step: &Step| {
        let text = step.to_string();
        let mut parts = text.split(CLIENT);
        let mut renamed = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (number, rest) = part.split_at(part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len()));
            let place = known.iter().position(|one| one == number).unwrap_or_else(|| {
                known.push(number.to_string());
                known.len() - 1
            });
            renamed.push_str(&format!("{CLIENT}{place}{rest}"));
        }
        renamed.parse().ok()
    };
    script.iter().map(&mut again).collect()
}

/// A step with the simpler form of a fault that it names.
fn renamed(step: &Step, before: &Step, after: &Step) -> Step {
    let (Step::Inject(before), Step::Inject(after)) = (before, after) else { return step.clone() };
    match step {
        Step::Heal(fault) if fault == before => Step::Heal(after.clone()),
        Step::AwaitStrike { fault, within, or_go_on } if fault == before => {
            Step::AwaitStrike { fault: after.clone(), within: *within, or_go_on: *or_go_on }
        }
        other => other.clone(),
    }
}

/// Simpler steps of the same kind, the simplest first.
fn simpler(step: &Step) -> Vec<Step> {
    let round = |length: Length| {
        ROUND.iter().map(|factor| Length::Ttl(*factor)).take_while(move |other| *other != length).collect::<Vec<_>>()
    };
    match step {
        Step::Wait(length) => round(*length).into_iter().map(Step::Wait).collect(),
        Step::Start { client, reads, to: Some(_), gives_up, releases_again, .. } => {
            vec![Step::Start {
                client: *client,
                reads: *reads,
                to: None,
                or_end: false,
                gives_up: *gives_up,
                releases_again: *releases_again,
                within: None,
            }]
        }
        Step::Inject(fault) => simpler_faults(fault).into_iter().map(Step::Inject).collect(),
        _ => Vec::new(),
    }
}

/// Scripts in which two consecutive waits are joined.
fn waits_joined(script: &[Step]) -> Vec<Vec<Step>> {
    let pairs = script.windows(2).enumerate().filter_map(|(place, pair)| match pair {
        [Step::Wait(Length::Ttl(one)), Step::Wait(Length::Ttl(other))] => {
            let sum = ((one + other) * 100.0).round() / 100.0;
            let both = std::iter::once(Step::Wait(Length::Ttl(sum)));
            Some(script[..place].iter().cloned().chain(both).chain(script[place + 2..].iter().cloned()).collect())
        }
        _ => None,
    });
    pairs.collect()
}

/// Scripts in which two faults of a kind are joined. The joined fault begins at the begin of one of them and ends at the end of
/// one of them.
fn joined(script: &[Step]) -> Vec<Vec<Step>> {
    let faults: Vec<(usize, usize, &Fault)> = script
        .iter()
        .enumerate()
        .filter_map(|(place, step)| {
            let Step::Inject(fault) = step else { return None };
            let heal = script[place..].iter().position(|step| matches!(step, Step::Heal(healed) if healed == fault))?;
            Some((place, place + heal, fault))
        })
        .collect();
    let mut scripts = Vec::new();
    for (number, (first, first_heal, one)) in faults.iter().enumerate() {
        for (second, second_heal, other) in &faults[number + 1..] {
            let Some(both) = on_all_of(one, other) else { continue };
            // Later begins come first: they leave less time that passes unused.
            for begin in [*second, *first] {
                for end in [*first_heal.max(second_heal), *first_heal.min(second_heal)] {
                    if begin < end {
                        let with_both = script.iter().enumerate().filter_map(|(place, step)| match place {
                            _ if place == begin => Some(Step::Inject(both.clone())),
                            _ if place == end => Some(Step::Heal(both.clone())),
                            _ if [first, first_heal, second, second_heal].contains(&&place) => None,
                            _ => Some(step.clone()),
                        });
                        scripts.push(with_both.collect());
                    }
                }
            }
        }
    }
    scripts
}

/// One fault in place of two that differ only in their targets. None if they differ in more.
fn on_all_of(one: &Fault, other: &Fault) -> Option<Fault> {
    let (its, others) = (hits(one)?, hits(other)?);
    if on(one, others.clone()) != *other {
        return None;
    }
    let mut all = its.clone();
    all.0.extend(others.0.iter().filter(|target| !its.0.contains(target)));
    all.0.sort_by_key(ToString::to_string);
    Some(on(one, all))
}

/// The targets of a fault. None if the fault hits links or a whole shape.
fn hits(fault: &Fault) -> Option<&Targets> {
    match &fault.whom {
        TargetSpec::Members(targets) => Some(targets),
        TargetSpec::Links(_) | TargetSpec::Shape(..) => None,
    }
}

/// The same fault on these members.
fn on(fault: &Fault, targets: Targets) -> Fault {
    Fault { whom: TargetSpec::Members(targets), ..fault.clone() }
}

/// The same fault on fewer members.
fn simpler_faults(fault: &Fault) -> Vec<Fault> {
    let Some(Targets(all)) = hits(fault).filter(|targets| targets.0.len() > 1) else { return Vec::new() };
    let without = |place: usize| {
        let left = all.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, target)| *target);
        on(fault, Targets(left.collect()))
    };
    (0..all.len()).map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Vec<Step> {
        text.split("; ").map(|step| step.parse().unwrap()).collect()
    }

    fn words(script: &[Step]) -> String {
        script.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn two_faults_of_a_kind_become_one() {
        let two = "kill node:2; start client:0; kill node:1; heal kill node:2; go client:0; heal kill node:1";
        assert_eq!(
            joined(&script(two)).iter().map(|script| words(script)).collect::<Vec<_>>(),
            [
                "start client:0; kill node:1,node:2; go client:0; heal kill node:1,node:2",
                "start client:0; kill node:1,node:2; heal kill node:1,node:2; go client:0",
                "kill node:1,node:2; start client:0; go client:0; heal kill node:1,node:2",
                "kill node:1,node:2; start client:0; heal kill node:1,node:2; go client:0",
            ]
        );
        let after = "kill node:1; heal kill node:1; start client:0; kill node:1; heal kill node:1";
        assert_eq!(
            joined(&script(after)).iter().map(|script| words(script)).collect::<Vec<_>>(),
            [
                "start client:0; kill node:1; heal kill node:1",
                "kill node:1; start client:0; heal kill node:1",
                "kill node:1; heal kill node:1; start client:0",
            ]
        );
    }

    #[test]
    fn clients_are_numbered_in_the_order_in_which_they_are_named() {
        let three = "start client:3 to read; hold reply to 2nd SET client:10 from node:1; pause client:3,client:0,node:3; go client:3";
        assert_eq!(
            words(&renumbered(&script(three)).unwrap()),
            "start client:0 to read; hold reply to 2nd SET client:1 from node:1; pause client:0,client:2,node:3; go client:0"
        );
    }

    #[test]
    fn two_waits_in_a_row_become_one() {
        let two = waits_joined(&script("wait 0.1ttl; wait 0.2ttl; start client:0; wait 1ttl"));
        assert_eq!(
            two.iter().map(|script| words(script)).collect::<Vec<_>>(),
            ["wait 0.3ttl; start client:0; wait 1ttl"]
        );
        assert!(waits_joined(&script("wait 0.1ttl; start client:0; wait 1ttl; wait 20ms")).is_empty());
    }

    #[test]
    fn faults_that_differ_in_more_do_not() {
        for script_of in [
            "kill node:1; pause node:2; heal kill node:1; heal pause node:2",
            "clock node:1 x2; clock node:2 x3; heal clock node:1 x2; heal clock node:2 x3",
            "kill node:1; kill node:2; heal all",
            "partition client:0 from node:1; partition client:0 from node:2; heal all",
        ] {
            assert!(joined(&script(script_of)).is_empty(), "{script_of}");
        }
    }

    /// A fake that breaks the lock if a script has all of these steps.
    struct NeededSteps(&'static [&'static str], u64);

    impl Trials for NeededSteps {
        fn that_break(&mut self, scenario: &Scenario, _: &Cause, _: u64) -> u64 {
            self.1 += 1;
            let steps: Vec<String> = scenario.nemesis.script.iter().map(ToString::to_string).collect();
            u64::from(self.0.iter().all(|needed| steps.iter().any(|step| step == needed)))
        }

        fn enough(&self) -> u64 {
            1
        }

        fn is_worth_leaving_out(&self, one: &Step, other: &Step) -> bool {
            one.to_string().contains("client:2") && other.to_string().contains("client:2")
        }
    }

    /// A fake that breaks the lock if a client is slow at its work: by a delay, or for certain by a breakpoint.
    struct SlowAtWork;

    impl Trials for SlowAtWork {
        fn that_break(&mut self, scenario: &Scenario, _: &Cause, _: u64) -> u64 {
            let has = |wanted: &str| scenario.nemesis.script.iter().any(|step| step.to_string() == wanted);
            let is_slow = has("delay 1m resource to client:0") && has("start client:0");
            let is_kept = has("start client:0 to before-write") && has("go client:0");
            u64::from(has("flush node:0") && (is_slow || is_kept))
        }

        fn enough(&self) -> u64 {
            1
        }

        fn is_worth_leaving_out(&self, _: &Step, _: &Step) -> bool {
            true
        }
    }

    #[test]
    fn a_breakpoint_takes_the_place_of_a_delay() {
        let mut scenario =
            model::scenario::Options::default().scenario("single", "none", 1, std::path::Path::new("")).unwrap();
        scenario.nemesis.script = script("start client:0; delay 1m resource to client:0; flush node:0");
        let cause = Cause { anomaly: checker::AnomalyKind::LostUpdate, by: By::Nothing };
        let shrunk = shrink_on(&mut SlowAtWork, &scenario, &cause, &Interrupt::new().1).unwrap();
        assert_eq!(words(&shrunk.scenario.nemesis.script), "start client:0 to before-write; flush node:0; go client:0");
    }

    #[test]
    fn who_plays_candidates_elsewhere_is_left_with_what_it_needs() {
        let mut scenario =
            model::scenario::Options::default().scenario("single", "none", 1, std::path::Path::new("")).unwrap();
        scenario.nemesis.script = script(
            "start client:0 to acquiring; hold reply to SET client:0 from nodes; go client:0; wait 1.1ttl; \
             start client:2; wait 0.1ttl; await client:2 end; heal hold reply to SET client:0 from nodes; await client:0 end",
        );
        let cause = Cause { anomaly: checker::AnomalyKind::LostUpdate, by: By::Nothing };
        let never = Interrupt::new().1;
        let mut trials = NeededSteps(&["hold reply to SET client:0 from nodes", "go client:0"], 0);
        let shrunk = shrink_on(&mut trials, &scenario, &cause, &never).unwrap();
        assert_eq!(
            words(&shrunk.scenario.nemesis.script),
            "start client:0 to acquiring; hold reply to SET client:0 from nodes; go client:0"
        );
        assert!(
            shrunk.end == ShrinkEnd::Smallest && shrunk.tried == trials.1 && shrunk.scenario.clients < scenario.clients
        );
        // A scenario that does not break the lock cannot be shrunk.
        assert!(shrink_on(&mut NeededSteps(&["kill client:0"], 0), &scenario, &cause, &never).is_none());
    }
}
