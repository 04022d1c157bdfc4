//! The scenarios of each stage, as suite files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use super::compare::Case;
use super::{ASKS, CANCELS_A_HOLDER, Examination, KEEPS_A_HOLDER, SHARES_A_LOCK};
use crate::library::commands::RenewalMode;
use base::units::{Length, LengthRange};
use model::history::Phase;
use model::nemesis::{Need, Nemesis, Step};
use model::plan::Plan;
use model::scenario::{Ability, Cause, Options, Scenario, catalogue};
use suite::file::{Block, Expected, Names, SuiteFile};

/// Scenarios that break the lock are repeated with this many more seeds.
const SEEDS_MORE: u32 = 2;

/// The least number of clients in runs without a fault. Each may take seconds to start.
const USUAL_CLIENTS: u32 = 3;

/// How many clients wait for each other, each for longer than a TTL.
const QUEUE: u32 = 6;

/// How many threads a process has that shares several locks.
const THREADS: u32 = 2;

/// These faults hit renewals. They show nothing about a lock that is not renewed.
const OF_RENEWALS: [&str; 5] =
    ["late-extension", "late-extend-reply", "late-extend-request", "reset-in-renewal", "reset-in-extension"];

/// All faults at once explain nothing.
const NOT_TRIED: [&str; 1] = ["all"];

impl Examination {
    /// This many clients. If the lock has several permits, at least one client more than permits, so that one has to wait.
    fn at_least(&self, clients: u32) -> Option<u32> {
        let permits = self.plain.workload.permits;
        Some(if permits == 1 { clients } else { clients.max(permits + 1) })
    }

    /// Three runs in which the nodes record every command. In the first, two clients wait for each other, which shows most
    /// defects. In the second, a client is alone. In the third, a client holds the lock for longer than its TTL, so that
    /// renewals show.
    pub(super) fn without_faults(&self) -> SuiteFile {
        let alone = Options {
            time_limit: "4s".parse().ok(),
            clients: self.at_least(1),
            threads: Some(1),
            ..self.options(self.request.ttl.first().copied())
        };
        let two = Options { clients: self.at_least(2), hold: "0.2ttl..0.3ttl".parse().ok(), ..alone.clone() };
        let long = Options { time_limit: "6s".parse().ok(), hold: long_hold(), ..alone.clone() };
        // If the lock has several permits, a holder that stays beyond the TTL rightly has others beside it.
        let all = [two, alone, long].into_iter().filter(|with| with.clients == Some(1) || with.hold != long_hold());
        self.suite_file(all.map(|with| self.block("none", with)).collect())
    }

    /// All scenarios with the first of these TTLs, then all with the next one.
    pub(super) fn under(&self, nemeses: &[String], ttls: &[Length]) -> SuiteFile {
        let with = |ttl: &Length| Options { ttl: Some(*ttl), ..Options::default() };
        let blocks = ttls.iter().flat_map(|ttl| nemeses.iter().map(move |nemesis| self.block(nemesis, with(ttl))));
        SuiteFile { runs: self.request.seeds, ..self.suite_file(blocks.collect()) }
    }

    /// Repeats scenarios that broke the lock, each with other seeds and the TTL at which it did. A library defect should be
    /// seen more than once.
    pub(super) fn again<'c>(&self, cases: impl Iterator<Item = &'c Case>) -> SuiteFile {
        let mut due: Vec<&Case> = cases.collect();
        due.sort_by_key(|case| (!case.tried.plain, case.is_drawn()));
        let blocks = due.into_iter().filter_map(|case| {
            let ttl = case.tried.telling()?.ttl.parse().ok();
            Some(self.block(&case.nemesis, Options { ttl, ..Options::default() }))
        });
        let seed = u64::from(self.request.seeds) + 1;
        SuiteFile { runs: SEEDS_MORE, seed, ..self.suite_file(blocks.collect()) }
    }

    /// A suite file with these cells. In all its runs the nodes record their commands.
    pub(super) fn suite_file(&self, cells: Vec<Block>) -> SuiteFile {
        let with = Options { record_commands: Some(true), ..self.of_every_run() };
        SuiteFile { description: String::new(), runs: 1, seed: 1, with, cells, overrides: Options::default() }
    }

    /// A run that only shows if the library accepts this TTL.
    pub(super) fn shortly(&self, ttl: Length) -> Block {
        let with = Options {
            ttl: Some(ttl),
            clients: self.at_least(1),
            threads: Some(1),
            time_limit: "2s".parse().ok(),
            ..Options::default()
        };
        self.block("none", with)
    }

    /// Several clients and no fault, for long enough that locks are also extended.
    pub(super) fn usual(&self, ttl: Length) -> Block {
        let with = Options {
            time_limit: self.time_limit.or("8s".parse().ok()),
            clients: self.at_least(USUAL_CLIENTS.max(self.plain.workload.threads)),
            ..self.options(Some(ttl))
        };
        self.block("none", with)
    }

    /// Each client waits for several others, and each of those holds the lock for a while.
    pub(super) fn queue(&self) -> Block {
        let with = Options {
            clients: self.at_least(QUEUE),
            hold: "0.3ttl..0.4ttl".parse().ok(),
            ..self.options(self.request.ttl.first().copied())
        };
        self.block("none", with)
    }

    /// Threads of one process hold several locks at once, each for longer than its TTL. A renewal must not end when another
    /// lock is released.
    pub(super) fn several_renewed(&self) -> Block {
        let with = Options {
            keys: Some(THREADS + 1),
            threads: Some(THREADS),
            clients: self.at_least(2 * THREADS),
            hold: long_hold(),
            ..self.options(self.request.ttl.first().copied())
        };
        self.block(SHARES_A_LOCK, with)
    }

    /// Short runs, each of which asks the client for an ability that only some clients have.
    pub(super) fn asking(&self) -> SuiteFile {
        let clients = (self.plain.workload.permits > 1).then(|| self.at_least(4)).flatten();
        let asks = ASKS.iter().map(|(_, nemesis)| *nemesis).chain([KEEPS_A_HOLDER]);
        let blocks = asks.map(|nemesis| {
            let with = Options { time_limit: "2s".parse().ok(), clients, ..Options::default() };
            self.block(nemesis, with)
        });
        // Some clients can cancel an operation only if no other one is active.
        let by_threads = Options {
            time_limit: "2s".parse().ok(),
            threads: Some(2),
            clients: clients.or(Some(4)),
            ..Options::default()
        };
        let cancelled = self.block(CANCELS_A_HOLDER, by_threads);
        self.suite_file(blocks.chain([cancelled]).collect())
    }

    /// One thread per process, if the workload's clients are threads and the nemesis has faults: a fault hits all threads of a
    /// process. None where the nemesis is plain or sets its own number of threads.
    fn threads(&self, nemesis: &str) -> Option<u32> {
        let (_, nemesis) = catalogue::nemesis(nemesis).ok().filter(|_| self.plain.workload.threads > 1)?;
        (nemesis.threads.is_none() && !nemesis.is_plain()).then_some(1)
    }

    pub(super) fn block(&self, nemesis: &str, with: Options) -> Block {
        Block {
            workload: Some(Names(vec![self.request.workload.clone()])),
            nemesis: Some(Names(vec![nemesis.to_string()])),
            expect: Some(Expected::Nothing),
            with: Options { threads: with.threads.or_else(|| self.threads(nemesis)), ..with },
            ..Block::default()
        }
    }

    /// The scenarios of the catalogue that fit this lock, and the others with the reason.
    ///
    /// The order: scripted scenarios, then those without random faults, then the rest. In each group, the scenarios that showed
    /// most libraries' own defects come first. Last come those about renewals, if the lock has none.
    pub(super) fn fitting(
        &self,
        phases: &[Phase],
        unable: &[(Ability, String)],
        by_threads: Option<&str>,
        upkeep: RenewalMode,
    ) -> (Vec<String>, Vec<(String, String)>) {
        let why_unable = |scenario: &Scenario| {
            let asked: Vec<Ability> = scenario.asks_of_clients().into_iter().map(|(ability, _)| ability).collect();
            let of_threads = asked.contains(&Ability::Threads) && asked.contains(&Ability::Cancel);
            // A client may be able to cancel its only operation, but not that of one of its threads.
            let is_unable = |ability: Ability| asked.contains(&ability) && !(of_threads && ability == Ability::Cancel);
            let of_one = || unable.iter().find(|(ability, _)| is_unable(*ability)).map(|(_, why)| why.clone());
            by_threads.filter(|_| of_threads).map(str::to_string).or_else(of_one)
        };
        let is_renewed = upkeep == RenewalMode::InTheBackground;
        let differs = |nemesis: &Nemesis| match nemesis.needs() {
            needs if needs.contains(&Need::Renewal) && !is_renewed => {
                Some("nothing renews its lock in the background".to_string())
            }
            needs if needs.contains(&Need::NoRenewal) && is_renewed => {
                Some("its lock is renewed in the background".to_string())
            }
            _ => None,
        };
        // If the lock has several permits, other clients hold all but one. Such scenarios are written anew.
        let is_beside = |name: &str| {
            self.plain.workload.permits > 1
                && catalogue::nemesis(name).is_ok_and(|(_, of)| of.needs().contains(&Need::FreePermit))
        };
        let (mut fitting, mut not_about) = (Vec::new(), Vec::new());
        let told = told();
        for (name, _) in catalogue::NEMESES.iter().filter(|(name, _)| !NOT_TRIED.contains(name) && !is_beside(name)) {
            let options = Options { threads: self.threads(name), ..self.options(self.request.ttl.first().copied()) };
            let scenario = options.scenario(&self.request.workload, name, 1, Path::new(""));
            let drawn = scenario.map_err(|error| error.to_string()).and_then(|scenario| {
                Plan::draw(&scenario).map_err(|error| error.to_string())?;
                Ok(scenario)
            });
            match drawn {
                Err(why) => not_about.push((name.to_string(), why)),
                Ok(scenario) => match (
                    why_unable(&scenario).or_else(|| differs(&scenario.nemesis)),
                    missing(&scenario.nemesis, phases),
                ) {
                    (Some(why), _) => not_about.push((name.to_string(), why)),
                    (None, Some(phase)) => {
                        not_about.push((name.to_string(), format!("its client never reports `{}`", phase.word())))
                    }
                    (None, None) => {
                        let Nemesis { script, faults, .. } = &scenario.nemesis;
                        let has_renewals = matches!(upkeep, RenewalMode::ByItsHolder | RenewalMode::InTheBackground);
                        let rank = match OF_RENEWALS.contains(name) && !has_renewals {
                            true => u8::MAX,
                            false => u8::from(script.is_empty()) + u8::from(!faults.is_empty()),
                        };
                        let told = told.get(*name).copied().unwrap_or_default();
                        fitting.push((rank, Reverse(told), name.to_string()))
                    }
                },
            }
        }
        // Long scenarios and random ones come last. Runs that can share a cluster follow each other, so a single long scenario
        // in front would pull the others there. The scenarios that showed most defects in other libraries come first: time may
        // not suffice for all.
        fitting.sort();
        (fitting.into_iter().map(|(.., name)| name).collect(), not_about)
    }
}

/// For each scenario, the number of library findings that name it first. Only findings that are the library's own count.
fn told() -> BTreeMap<String, usize> {
    let workloads = catalogue::WORKLOADS.iter().filter_map(|(name, _)| catalogue::workload(name).ok());
    let findings = workloads.filter_map(|(_, workload)| workload.library).flat_map(|library| library.findings);
    let mut told = BTreeMap::new();
    let own = findings.filter(|finding| finding.cause == Cause::Library);
    for name in own.filter_map(|finding| finding.nemesis.into_iter().next()) {
        *told.entry(name).or_default() += 1;
    }
    told
}

/// A phase that the script waits for but the client does not report. None if there is none.
fn missing(nemesis: &Nemesis, phases: &[Phase]) -> Option<Phase> {
    let waits_for = nemesis.script.iter().filter_map(Step::phase);
    // The client may report this phase only under this scenario.
    waits_for
        .filter(|phase| !matches!(phase, Phase::Lost | Phase::Extended | Phase::Owned))
        .find(|phase| !phases.contains(phase))
}

/// Longer than the TTL.
fn long_hold() -> Option<LengthRange> {
    "1.3ttl..1.4ttl".parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_libraries_own_defects_tells_and_the_fate_of_a_kind_does_not() {
        let told = told();
        assert!(told["late-acquire-reply"] > told["cancelled-release"], "{told:?}");
        assert_eq!(told.get("delayed-write"), None, "no lock of the kind withstands it");
    }
}
