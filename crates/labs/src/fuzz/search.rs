//! A whole search: hunting and making smaller what was found, by turns, in the time that the user gave.

use std::time::{Duration, Instant};

use super::{Cause, Hunt, Shrunk, Until, draw, hunt, shrink};
use base::interrupt::Interrupt;
use model::history::FaultKind;
use model::plan::seed_after;
use model::scenario::Scenario;
use runner::RunnerError;

/// How long a search for the first violation goes on unless the user says.
pub const USUAL_TIME: Duration = Duration::from_secs(60);
/// A shorter hunt would make hardly a run.
const SHORTEST_HUNT: Duration = Duration::from_millis(100);

/// What is looked for, and where.
pub struct Search {
    pub base: Scenario,
    /// Whether the base's own nemesis is run seed after seed, in place of scripts that are drawn.
    pub own_nemesis: bool,
    /// The kinds of faults that scripts are drawn from.
    pub kinds: Vec<FaultKind>,
    pub first_seed: u64,
    pub threads: usize,
    /// The time is for making smaller as well: half of what is left is for hunting, then what was found is made smaller,
    /// and so on.
    pub until: Until,
}

/// A violation that was found.
pub struct Violation {
    pub scenario: Scenario,
    pub cause: Cause,
    pub seed: u64,
    /// The smallest scenario with this cause; None if there is no script, or if it breaks the lock by luck only.
    pub shrunk: Option<Shrunk>,
}

/// How far a search is.
pub enum Progress<'a> {
    /// Runs are being made; told about ten times a second.
    Hunting(&'a Hunt),
    /// No runs are made for now.
    Paused,
    /// A violation with this cause is being made smaller: it has so many steps after so many scripts that were tried.
    Shrinking { cause: &'a Cause, steps: usize, tried: u64 },
}

impl Search {
    /// Searches until enough was found or the user wants to stop, and returns what was seen and the first violation of
    /// each cause. To be called in a runtime; blocks its thread. Fails if a run cannot be made.
    pub fn run(&self, user: &Interrupt, mut show: impl FnMut(Progress)) -> Result<(Hunt, Vec<Violation>), RunnerError> {
        let began = Instant::now();
        let over = self.until.time.map_or_else(|| user.clone(), |time| user.or_after(time));
        let (mut hunted, mut found, mut robust) = (Hunt::default(), Vec::<Violation>::new(), false);
        loop {
            let left = self.until.time.unwrap_or(USUAL_TIME).saturating_sub(began.elapsed());
            let (first, until) = (seed_after(self.first_seed, hunted.runs), self.next(&hunted, left));
            let scenario_of = |seed| self.scenario(seed);
            let more = hunt(scenario_of, first, self.threads, until, &over, |hunt| show(Progress::Hunting(hunt)));
            show(Progress::Paused);
            let more = more?;
            hunted.add(&more);
            for (cause, seen) in more.found {
                found.retain(|known: &Violation| known.cause != cause || known.shrunk.is_some());
                if !found.iter().any(|known| known.cause == cause) {
                    let smaller = self.smaller(&cause, &seen.seeds, &over, &mut show);
                    show(Progress::Paused);
                    // One that needs a lucky delay of the network is told of, and is not what the search was for.
                    robust |= smaller.as_ref().is_some_and(|one| self.is_enough(one));
                    found.extend(smaller);
                }
            }
            let all_made = self.until.runs.is_some_and(|runs| hunted.runs >= runs);
            let is_over = over.is_raised() || all_made || left.is_zero();
            if is_over || (self.until.first_violation && robust) {
                return Ok((hunted, found));
            }
        }
    }

    /// When the next hunt stops, if this much time is left.
    fn next(&self, hunted: &Hunt, left: Duration) -> Until {
        let time = match (self.until.time, self.until.first_violation) {
            (Some(_), _) => Some((left / 2).max(SHORTEST_HUNT)),
            (None, true) => Some(left),
            (None, false) => None,
        };
        Until { runs: self.until.runs.map(|runs| runs.saturating_sub(hunted.runs)), time, ..self.until }
    }

    fn scenario(&self, seed: u64) -> Scenario {
        match self.own_nemesis {
            true => Scenario { seed, ..self.base.clone() },
            false => draw::scenario(&self.base, &self.kinds, seed),
        }
    }

    /// The first of these seeds whose scenario can be made smaller, or else the last one that was tried.
    fn smaller(
        &self,
        cause: &Cause,
        seeds: &[u64],
        over: &Interrupt,
        show: &mut dyn FnMut(Progress),
    ) -> Option<Violation> {
        let mut last = None;
        for seed in seeds {
            let scenario = self.scenario(*seed);
            let told = &mut |steps, tried| show(Progress::Shrinking { cause, steps, tried });
            let shrunk = if self.own_nemesis { None } else { shrink(&scenario, cause, over, told) };
            let one = Violation { scenario, cause: cause.clone(), seed: *seed, shrunk };
            if self.is_enough(&one) || over.is_raised() {
                return Some(one);
            }
            last = Some(one);
        }
        last
    }

    fn is_enough(&self, one: &Violation) -> bool {
        one.shrunk.is_some() || self.own_nemesis
    }
}
