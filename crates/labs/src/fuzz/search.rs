//! A whole search: it hunts for violations and shrinks them, in turn, within the user's time limit.

use std::time::{Duration, Instant};

use super::{Cause, Hunt, Shrunk, Until, draw, hunt, shrink};
use base::interrupt::Interrupt;
use model::history::FaultKind;
use model::plan::seed_after;
use model::scenario::Scenario;
use runner::RunnerError;

/// The default time limit of a search for the first violation.
pub const USUAL_TIME: Duration = Duration::from_secs(60);
/// A shorter hunt would hardly make a run.
const SHORTEST_HUNT: Duration = Duration::from_millis(100);

pub struct Search {
    pub base: Scenario,
    /// If true, the search runs the base scenario's own nemesis with seed after seed, and draws no scripts.
    pub own_nemesis: bool,
    pub kinds: Vec<FaultKind>,
    pub first_seed: u64,
    pub threads: usize,
    /// The limits, shrinking included. Half of the remaining time goes to hunting, then the search shrinks what it found, and
    /// so on.
    pub until: Until,
}

pub struct Violation {
    pub scenario: Scenario,
    pub cause: Cause,
    pub seed: u64,
    /// The smallest scenario with this cause. None if there is no script, or if the scenario breaks the lock only by luck.
    pub shrunk: Option<Shrunk>,
}

pub enum Progress<'a> {
    /// The search makes runs. Sent about ten times per second.
    Hunting(&'a Hunt),
    /// The search makes no runs for now.
    Paused,
    /// The search shrinks a violation with this cause: `steps` are left after `tried` scripts.
    Shrinking { cause: &'a Cause, steps: usize, tried: u64 },
}

impl Search {
    /// Searches until a limit is reached or the user stops it. Returns the results of all runs, and the first violation of each
    /// cause. Must be called in a runtime; blocks its thread. Fails if a run cannot be made.
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
                    // A violation that needs a lucky network delay is reported, but does not end the search.
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

    /// The limits of the next hunt, if this much time is left.
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

    /// Shrinks the scenario of the first of these seeds for which that works. Otherwise returns the last one tried.
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
