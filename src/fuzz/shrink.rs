//! The smallest scripted scenario that still breaks the lock in the same way.
//!
//! Steps are left out, in ever smaller groups (delta debugging, Zeller and Hildebrandt 2002), then what is left is made
//! simpler: fewer nodes and targets, shorter and rounder times. A candidate counts only if it breaks the lock with
//! several seeds of the network, so that the result does not depend on a lucky delay.

use std::thread;

use super::cause::Cause;
use super::fair::is_fair;
use crate::nemesis::{Fault, Nemesis, Step, Target, Targets};
use crate::plan::Plan;
use crate::runner::simulate::simulate;
use crate::scenario::Scenario;
use crate::units::Length;

/// With how many seeds a candidate must break the lock.
const SEEDS: u64 = 6;
/// Lengths that a person would write, in multiples of the TTL; the simpler one is tried first.
const ROUND: [f64; 6] = [1.0, 2.0, 0.5, 1.5, 3.0, 1.1];

/// Times that are long enough for anything, in multiples of the TTL.
const LONGER: [f64; 3] = [1.5, 2.5, 4.0];

/// A scenario that cannot be made smaller.
pub struct Shrunk {
    pub scenario: Scenario,
    pub cause: Cause,
    /// How many candidates were tried.
    pub tried: u64,
}

/// Shrinks a scripted scenario that breaks the lock with this cause. None if what is left does so only with some delays of
/// the network.
pub fn shrink(scenario: &Scenario, cause: &Cause) -> Option<Shrunk> {
    let mut shrinking = Shrinking { best: scenario.clone(), breaks: 0, cause: cause.clone(), tried: 0 };
    shrinking.breaks = shrinking.seeds_that_break(scenario, 1);
    if shrinking.breaks == 0 {
        return None;
    }
    loop {
        let before = shrinking.best.clone();
        shrinking.take_time();
        shrinking.leave_out();
        shrinking.leave_out_pairs();
        shrinking.simplify();
        if shrinking.best == before {
            break;
        }
    }
    let Shrinking { best: scenario, breaks, cause, tried } = shrinking;
    (breaks == SEEDS).then_some(Shrunk { scenario, cause, tried })
}

struct Shrinking {
    best: Scenario,
    /// With how many seeds it breaks the lock.
    breaks: u64,
    cause: Cause,
    tried: u64,
}

impl Shrinking {
    /// With how many of several seeds a scenario breaks the lock in the same way; 0 if not with so many at least.
    fn seeds_that_break(&mut self, scenario: &Scenario, least: u64) -> u64 {
        if !is_fair(&scenario.nemesis.script) || scenario.check().is_err() || Plan::draw(scenario).is_err() {
            return 0;
        }
        self.tried += 1;
        let cause = &self.cause;
        let breaks = |number: u64| {
            let seed = scenario.seed.wrapping_add(number);
            let run = simulate(&Scenario { seed, ..scenario.clone() });
            run.is_ok_and(|run| Cause::of(&run.history, &run.verdict).as_ref() == Some(cause))
        };
        // Most candidates that are no good fail with the first seed.
        let first = u64::from(breaks(0));
        if first + SEEDS - 1 < least {
            return 0;
        }
        let all = thread::scope(|scope| {
            let others: Vec<_> = (1..SEEDS).map(|number| scope.spawn(move || breaks(number))).collect();
            first + others.into_iter().map(|other| u64::from(other.join().unwrap_or(false))).sum::<u64>()
        });
        if all >= least { all } else { 0 }
    }

    /// Takes a candidate if it breaks the lock with as many seeds.
    fn take(&mut self, candidate: Scenario) -> bool {
        self.take_if(candidate, self.breaks.max(1))
    }

    fn take_if(&mut self, candidate: Scenario, least: u64) -> bool {
        if candidate == self.best {
            return false;
        }
        let breaks = self.seeds_that_break(&candidate, least);
        if breaks > 0 {
            (self.best, self.breaks) = (candidate, breaks);
        }
        breaks > 0
    }

    /// Waits longer wherever that breaks the lock with more seeds.
    fn take_time(&mut self) {
        for place in 0..self.best.nemesis.script.len() {
            for factor in LONGER {
                if self.breaks == SEEDS {
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

    /// Leaves out as many steps in a row as possible.
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
                script.remove(second);
                script.remove(first);
                let candidate = self.with_script(script);
                shorter = self.take(candidate);
                second += 1;
            }
            if !shorter {
                first += 1;
            }
        }
    }

    fn simplify(&mut self) {
        for place in 0..self.best.nemesis.script.len() {
            let Some(step) = self.best.nemesis.script.get(place).cloned() else { break };
            for simpler in simpler(&step) {
                let mut script = self.best.nemesis.script.clone();
                // A fault is named again by the steps that wait for it or heal it.
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

    /// How many clients there must be for the script's.
    fn clients_named(&self) -> Option<u32> {
        let of_step = |step: &Step| match step {
            Step::Start { client, .. } | Step::Go { client, .. } => vec![*client],
            Step::Await { client, .. } | Step::Expect { client, .. } => vec![*client],
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

/// A step that names a fault, with the fault in its simpler form.
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
        Step::Start { client, to: Some(_), gives_up } => {
            vec![Step::Start { client: *client, to: None, gives_up: *gives_up }]
        }
        Step::Inject(fault) => simpler_faults(fault).into_iter().map(Step::Inject).collect(),
        _ => Vec::new(),
    }
}

/// The same fault on fewer members.
fn simpler_faults(fault: &Fault) -> Vec<Fault> {
    let without_one = |targets: &Targets| -> Vec<Targets> {
        let all = &targets.0;
        let without = |place: usize| {
            let left = all.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, target)| *target);
            Targets(left.collect())
        };
        if all.len() > 1 { (0..all.len()).map(without).collect() } else { Vec::new() }
    };
    let of = |targets: &Targets, make: fn(Targets) -> Fault| without_one(targets).into_iter().map(make).collect();
    match fault {
        Fault::Pause(targets) => of(targets, Fault::Pause),
        Fault::Kill(targets) => of(targets, Fault::Kill),
        Fault::PowerLoss(targets) => of(targets, Fault::PowerLoss),
        Fault::Evict(targets) => of(targets, Fault::Evict),
        Fault::Flush(targets) => of(targets, Fault::Flush),
        Fault::Clock(targets, change) => {
            without_one(targets).into_iter().map(|targets| Fault::Clock(targets, *change)).collect()
        }
        _ => Vec::new(),
    }
}
