//! What is played of a library in each stage, as files of suites.

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

/// With how many more seeds what breaks the lock is played.
const SEEDS_MORE: u32 = 2;

/// How many contend at least where nothing goes wrong: each may take seconds to start.
const USUAL_CLIENTS: u32 = 3;

/// How many wait for each other, each for longer than a TTL.
const QUEUE: u32 = 6;

/// How many threads a process has that shares several locks.
const THREADS: u32 = 2;

/// These strike renewals: of a lock that is not renewed they show nothing.
const OF_RENEWALS: [&str; 5] =
    ["late-extension", "late-extend-reply", "late-extend-request", "reset-in-renewal", "reset-in-extension"];

/// Everything at once explains nothing.
const NOT_TRIED: [&str; 1] = ["all"];

impl Examination {
    /// So many clients, and more where several may have the lock: one more than may asks for it.
    fn at_least(&self, clients: u32) -> Option<u32> {
        let permits = self.plain.workload.permits;
        Some(if permits == 1 { clients } else { clients.max(permits + 1) })
    }

    /// Three runs in which every command is recorded. In the first, two clients wait for each other, which shows most defects. Then a client
    /// is alone. In the last, a client holds the lock for longer than it lives, so that whatever renews it does.
    pub(super) fn without_faults(&self) -> SuiteFile {
        let alone = Options {
            time_limit: "4s".parse().ok(),
            clients: self.at_least(1),
            threads: Some(1),
            ..self.options(self.request.ttl.first().copied())
        };
        let two = Options { clients: self.at_least(2), hold: "0.2ttl..0.3ttl".parse().ok(), ..alone.clone() };
        let long = Options { time_limit: "6s".parse().ok(), hold: long_hold(), ..alone.clone() };
        // Where several may have the lock, a holder that stays for longer than it lives has others beside it, rightly.
        let all = [two, alone, long].into_iter().filter(|with| with.clients == Some(1) || with.hold != long_hold());
        self.suite_file(all.map(|with| self.block("none", with)).collect())
    }

    /// All scenarios with the first of these TTLs, then with the next one.
    pub(super) fn under(&self, nemeses: &[String], ttls: &[Length]) -> SuiteFile {
        let with = |ttl: &Length| Options { ttl: Some(*ttl), ..Options::default() };
        let blocks = ttls.iter().flat_map(|ttl| nemeses.iter().map(move |nemesis| self.block(nemesis, with(ttl))));
        SuiteFile { runs: self.request.seeds, ..self.suite_file(blocks.collect()) }
    }

    /// What broke the lock and is not the fate of its kind, with other seeds, each with the TTL with which it did: what is called
    /// the library's own should have been seen more than once.
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

    /// In all of these runs the nodes tell what they carry out.
    pub(super) fn suite_file(&self, cells: Vec<Block>) -> SuiteFile {
        let with = Options { record_commands: Some(true), ..self.of_every_run() };
        SuiteFile { description: String::new(), runs: 1, seed: 1, with, cells, overrides: Options::default() }
    }

    /// A run that only shows whether the library takes this TTL.
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

    /// Several clients, and nothing goes wrong: for long enough that locks are extended too.
    pub(super) fn usual(&self, ttl: Length) -> Block {
        let with = Options {
            time_limit: self.time_limit.or("8s".parse().ok()),
            clients: self.at_least(USUAL_CLIENTS.max(self.plain.workload.threads)),
            ..self.options(Some(ttl))
        };
        self.block("none", with)
    }

    /// Whoever asks waits for several others, each of which has the lock for a while.
    pub(super) fn queue(&self) -> Block {
        let with = Options {
            clients: self.at_least(QUEUE),
            hold: "0.3ttl..0.4ttl".parse().ok(),
            ..self.options(self.request.ttl.first().copied())
        };
        self.block("none", with)
    }

    /// Threads of one process have several locks at once, each for longer than it lives: what renews one is not to end with another's.
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

    /// Short runs of which each asks of the client what only some can do.
    pub(super) fn asking(&self) -> SuiteFile {
        let clients = (self.plain.workload.permits > 1).then(|| self.at_least(4)).flatten();
        let asks = ASKS.iter().map(|(_, nemesis)| *nemesis).chain([KEEPS_A_HOLDER]);
        let blocks = asks.map(|nemesis| {
            let with = Options { time_limit: "2s".parse().ok(), clients, ..Options::default() };
            self.block(nemesis, with)
        });
        // Some can be cancelled only where one operation is in flight.
        let by_threads = Options {
            time_limit: "2s".parse().ok(),
            threads: Some(2),
            clients: clients.or(Some(4)),
            ..Options::default()
        };
        let cancelled = self.block(CANCELS_A_HOLDER, by_threads);
        self.suite_file(blocks.chain([cancelled]).collect())
    }

    /// Where the workload's clients are threads, they are so where nothing is done to anybody, and where a scenario says so: a fault hits
    /// all threads of a process.
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

    /// The scenarios of the catalogue that are about such a lock, those that are written step by step first, then those without
    /// faults, of each those first that show most libraries' own defects, and last those about renewals of a lock that has none; and the
    /// others, with the reason.
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
            // A client may cancel its only operation, and not that of one of its threads.
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
        // Of several permits others have all but one: such a scenario is written anew.
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
        // What takes long and what tells by chance come last. Runs that can share a cluster follow each other, so a single one of
        // these in front would bring all of them there. What told most of other libraries comes first: time may not suffice for all.
        fitting.sort();
        (fitting.into_iter().map(|(.., name)| name).collect(), not_about)
    }
}

/// Of how many libraries of the catalogue each scenario is the plainest to show a defect of their own: what the others show too is
/// known by then.
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

/// A phase that a script waits for and the client does not report.
fn missing(nemesis: &Nemesis, phases: &[Phase]) -> Option<Phase> {
    let waits_for = nemesis.script.iter().filter_map(Step::phase);
    // It may well come only under this very scenario.
    waits_for
        .filter(|phase| !matches!(phase, Phase::Lost | Phase::Extended | Phase::Owned))
        .find(|phase| !phases.contains(phase))
}

/// Longer than a lock lives.
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
