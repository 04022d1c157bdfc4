//! `redjepsen library`: from a workload to a page that says what becomes of its lock under everything that there is to try.
//!
//! Stages, one after the other, each of them a suite: three runs without faults, from which it is learnt what the library sends; short
//! ones that show what else its client takes; one in which nothing goes wrong; the scenarios of the catalogue that fit; strikes at each command that was seen; pairs
//! of those that it withstood; all of that with other TTLs; and what broke it and is not the fate of its kind, with more seeds. That
//! is [compared](compare) with a lock of ours of the same kind, in virtual time, and [made smaller](shrink) on real servers.

mod compare;
mod shrink;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use compare::{Case, Compare};

use super::suite::progress::Progress;
use super::suite::{open_whole, versions};
use super::{CONSOLE, Exit, Failure, look, print, tell_progress};
use crate::files;
use crate::history::{self, History, Operation, Phase, PhaseStamp, RecordedCommand};
use crate::interrupt::Interrupt;
use crate::library::examined::{Came, Examined};
use crate::library::kind::Kind;
use crate::library::pairs;
use crate::library::releases::reach_again;
use crate::library::sent::{self, Sent, Upkeep};
use crate::library::strikes::{self, Aim, Scripted, Setting};
use crate::library::{afterwards, threads, waiters};
use crate::nemesis::{Nemesis, Step};
use crate::plan::Plan;
use crate::report::library as pages;
use crate::runner::{self, Ended, Jobs, Series, signals};
use crate::scenario::{Ability, Cause, Options, Scenario, catalogue, quoted};
use crate::suite::file::{Block, Expected, Names, SuiteFile};
use crate::suite::outcome::RunOutcome;
use crate::suite::plan::{Clusters, Source, Suite};
use crate::suite::state::State;
use crate::suite::sweep::Sweep;
use crate::topology::ClusterKind;
use crate::units::{Length, LengthRange};
use crate::words::{length, plural};

#[derive(Debug, Args)]
pub struct LibraryFlags {
    /// The library's workload: a name from `redjepsen list`, or the path of a .toml file
    workload: String,
    /// What the clusters are made of; simulated ones have no libraries
    #[arg(long, value_enum)]
    cluster: Option<ClusterKind>,
    /// After this, no more runs are begun; the same command goes on where it was
    #[arg(long, value_name = "LENGTH", default_value = "30m", allow_hyphen_values = true)]
    budget: Length,
    /// The lock's time to live; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1s,400ms", allow_hyphen_values = true)]
    ttl: Vec<Length>,
    /// With how many seeds everything is played; what breaks the lock is played with two more
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Runs at the same time, each on its own cluster; `auto`: as many as the machine can take
    #[arg(long, value_name = "N", default_value = "auto")]
    jobs: Jobs,
    /// Start again, even if an earlier one could be continued
    #[arg(long)]
    fresh: bool,
    /// Folder for the runs and the page
    #[arg(long, default_value = "store")]
    store: PathBuf,
    /// How long a run without a script takes, once that is known
    #[arg(skip)]
    time_limit: Option<Length>,
}

/// When each stage has to end, as a share of the time that learning left. What one leaves is for the next.
const CATALOGUE: f64 = 0.5;
/// A command that was never struck may tell of a defect that no other one has; a pair, or another TTL, seldom does.
const STRIKES: f64 = 0.84;
const PAIRS: f64 = 0.72;
const OTHER_TTLS: f64 = 0.84;
const MORE_SEEDS: f64 = 0.9;
/// With how many more seeds what breaks the lock is played.
const SEEDS_MORE: u32 = 2;
/// How many contend at least where nothing goes wrong: each may take seconds to start.
const USUAL_CLIENTS: u32 = 3;
/// How many wait for each other, each for longer than a TTL.
const QUEUE: u32 = 6;
/// How many threads a process has that shares several locks.
const THREADS: u32 = 2;
/// How long a run without a script takes: enough for two or three faults.
const TIME_LIMIT: &str = "12s";
/// The same where holders work for longer than their lock lives, as those do that extend it.
const LONG_TIME_LIMIT: &str = "30s";
/// Everything at once explains nothing.
const NOT_TRIED: [&str; 1] = ["all"];

/// The stages that judge nothing.
const LEARNING: [&str; 3] = ["commands", "ttls", "abilities"];

/// Of these, those whose runs ask whether they can be made.
const ASKING: [&str; 2] = ["ttls", "abilities"];

/// By which scenarios it is found out what a client can do that not all can.
const ASKS: [(Ability, &str); 4] = [
    (Ability::Threads, SHARES_A_LOCK),
    (Ability::Cancel, CANCELS_A_HOLDER),
    (Ability::Block, "blocked-holder"),
    (Ability::ReleaseAgain, RELEASES_TWICE),
];

const SHARES_A_LOCK: &str = "shared-lock";
const CANCELS_A_HOLDER: &str = "cancelled-holder";
const RELEASES_TWICE: &str = "released-twice";
/// In which a holder dies, so that another one takes its lock over.
const LEAVES_A_LOCK: &str = "crash-holder";

/// In which a script keeps a holder for longer than its lock lives, so that only something in the background renews it.
const KEEPS_A_HOLDER: &str = "long-work";

/// No run of some seconds records more.
const MOST_BYTES: u64 = 256 << 20;

/// What a stage has made.
struct Made {
    suite: Suite,
    state: State,
    /// How many runs it lacks.
    lacking: usize,
    interrupted: bool,
}

impl Made {
    /// Whether a scenario that is written step by step was not played.
    fn lacks_a_script(&self) -> bool {
        let was_played = |name: &str| self.state.runs.iter().any(|run| run.cell == name && run.valid.is_some());
        self.suite.cells.iter().any(|cell| !cell.scenario.nemesis.script.is_empty() && !was_played(&cell.name))
    }

    fn is_without_faults(&self) -> bool {
        self.suite.cells.iter().all(|cell| cell.scenario.nemesis.is_plain())
    }
}

/// What came of a search.
struct Searched {
    cases: Vec<Case>,
    page_folder: PathBuf,
    /// How many runs are still to be made.
    not_made: usize,
}

/// Everything that stages share.
struct Examination {
    flags: LibraryFlags,
    interrupt: Interrupt,
    remains: signals::Remains,
    began: Instant,
    budget: Duration,
    /// When it was known what there is to play. Where clients take seconds to start, that takes a part of the time.
    learnt: Instant,
    /// The first run: without faults, with the first TTL.
    plain: Scenario,
}

pub async fn library(flags: LibraryFlags) -> Result<Exit, Failure> {
    let began = Instant::now();
    let budget = flags.budget.absolute().map_err(|error| Failure::arguments(format!("--budget: {error}")))?;
    let plain = flags.options(flags.ttl.first().copied()).scenario(&flags.workload, "none", 1, Path::new(""));
    let plain = plain.map_err(Failure::arguments)?;
    if plain.cluster_kind().is_simulated() {
        return Err(Failure::arguments(
            "--cluster sim makes no sense here: simulated servers can't be asked what they get; \
             for a lock of redjepsen's own, `redjepsen fuzz` searches in virtual time",
        ));
    }
    let (interrupt, remains) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let examination = Examination { flags, interrupt, remains, began, budget, learnt: began, plain };
    examination.made().await
}

impl LibraryFlags {
    fn options(&self, ttl: Option<Length>) -> Options {
        Options { ttl, ..self.of_every_run() }
    }

    fn of_every_run(&self) -> Options {
        let time_limit = self.time_limit.or(TIME_LIMIT.parse().ok());
        Options { cluster: self.cluster, time_limit, ..Options::default() }
    }
}

impl Examination {
    async fn made(mut self) -> Result<Exit, Failure> {
        tell_progress("learning what it sends, from three runs without faults");
        let learnt = self.make("commands", &self.without_faults(), None).await?;
        if learnt.lacking > 0 {
            return Err(self.broke_off(&learnt));
        }
        let Learnt { sent, operations, phases, holds_long } = learn(&learnt)?;
        if holds_long {
            self.flags.time_limit = LONG_TIME_LIMIT.parse().ok();
        }
        let abilities = self.make("abilities", &self.asking(), None).await?;
        let mut unable = unable(&abilities);
        let cancels_threads = was_played_by_threads(&abilities);
        let twice = runs_of(&abilities, Some(RELEASES_TWICE))?;
        if !twice.is_empty() && !twice.iter().any(|(history, commands)| reach_again(history, commands)) {
            unable.push((Ability::ReleaseAgain, "a second release of its client does nothing".to_string()));
        }
        let kept = runs_of(&abilities, Some(KEEPS_A_HOLDER))?;
        let upkeep = sent::upkeep(&sent, kept.first());
        let kind = Kind::of(&self.plain, upkeep);
        tell_progress(&format!(
            "{kind}; {} told apart in {operations} operations",
            plural(sent.len() as u64, "command")
        ));
        let (fitting, not_about) = self.fitting(&phases, &unable);
        let (taken, refused, asked) = self.taken_ttls().await?;
        let can = |ability| unable.iter().all(|(unable, _)| *unable != ability);
        let usual = taken.iter().map(|ttl| self.usual(*ttl)).chain([self.queue()]);
        let several = (can(Ability::Threads) && upkeep == Upkeep::InTheBackground).then(|| self.several_renewed());
        let usual = usual.chain(several).collect();
        let usual = self.make("without-faults", &self.suite_file(usual), None).await?;
        let mut stages: Vec<Made> = vec![learnt, abilities];
        stages.extend(asked);
        stages.push(usual);
        self.learnt = Instant::now();
        let setting = Setting {
            nodes: self.plain.nodes,
            expires: self.plain.workload.lock.expires(),
            upkeep,
            permits: self.plain.workload.permits,
            threads: can(Ability::Threads),
            cancels: can(Ability::Cancel),
            cancels_threads,
            blocks: can(Ability::Block),
            releases_again: can(Ability::ReleaseAgain),
            knows_the_catalogue: true,
        };
        self.flags.ttl = taken;
        if holds_long {
            // Each operation takes longer than a TTL, and so do those with which each run begins: of a short one there are more runs.
            self.flags.ttl.sort_by_key(|ttl| ttl.absolute().unwrap_or_default());
        }
        let Searched { mut cases, page_folder, not_made } =
            self.search(&kind, &sent, setting, &fitting, &mut stages).await?;

        let compare = Compare { examination: &self, kind: &kind, page_folder: &page_folder };
        stages.extend(compare.judge(&mut cases).await?);
        let (name, version) = match &self.plain.workload.library {
            Some(library) => (library.name.clone(), format!(" {}", library.version)),
            None => (self.plain.workload_name.clone(), String::new()),
        };
        let found = shrink::all(&compare, &cases, self.until(1.0)).await?;
        let examined = Examined {
            workload: quoted(&self.flags.workload),
            name: format!("{name}{version}"),
            kind: kind.clone(),
            ttls: self.flags.ttl.iter().map(ToString::to_string).collect(),
            sent,
            tried: cases.into_iter().map(|case| case.tried).collect(),
            found,
            not_about,
            refused: refused.into_iter().map(|(ttl, why)| (ttl.to_string(), why)).collect(),
            not_made,
            took: self.began.elapsed(),
            versions: stages.iter().flat_map(|made| versions(made.state.folder(), &made.state.runs)).collect(),
        };
        let page = page_folder.join(pages::FILE);
        print(pages::terminal(&examined, look()))?;
        files::write(&page, pages::html(&examined)).map_err(Failure::could_not_run)?;
        print(format!("\n  page  {}\n", page.display()))?;
        self.conclude(examined.not_made, stages)
    }

    /// Plays all that there is to play, in the time that there is; the stages are added to `stages`.
    async fn search(
        &self,
        kind: &Kind,
        sent: &[Sent],
        setting: Setting,
        fitting: &[String],
        stages: &mut Vec<Made>,
    ) -> Result<Searched, Failure> {
        let (first, others) = self.flags.ttl.split_at(1);
        let mut cases = Vec::new();
        let catalogue = self.make("catalogue", &self.under(fitting, first), Some(self.until(CATALOGUE))).await?;
        let folder = catalogue.state.folder().to_path_buf();
        let compare =
            |made: &Made, aims: &[Scripted], cases: &mut Vec<Case>| compare::collect(&folder, made, aims, cases);
        // What broke while it was learnt broke with no fault.
        for learnt in stages.iter().filter(|made| made.is_without_faults()) {
            compare(learnt, &[], &mut cases)?;
        }
        // Whether it does so again decides what all the other runs can tell.
        let by_itself = self.again(cases.iter().filter(|case| case.tried.came() == Came::Fell));
        if !by_itself.cells.is_empty() {
            let made = self.make("by-itself", &by_itself, None).await?;
            compare(&made, &[], &mut cases)?;
            stages.push(made);
        }
        compare(&catalogue, &[], &mut cases)?;
        let knows_the_catalogue = !catalogue.lacks_a_script();
        let by_threads = if setting.threads { threads::scenarios(&setting) } else { Vec::new() };
        let takeovers = sent::only_in(&runs_of(&catalogue, Some(LEAVES_A_LOCK))?, sent);
        let waiters = waiters::scenarios(&setting).into_iter();
        let more = waiters.chain(afterwards::scenarios(&setting)).chain(afterwards::takeovers(&takeovers, &setting));
        let strikes = strikes::scenarios(sent, &Setting { knows_the_catalogue, ..setting });
        let mut scripted: Vec<Scripted> = by_threads.into_iter().chain(more).chain(strikes).collect();
        let scripts = folder.join("strikes");
        let mut files = write_scripts(&scripts, &scripted)?;
        let mut not_made = catalogue.lacking;
        let mut go_on = !catalogue.interrupted;
        stages.push(catalogue);
        if go_on && !files.is_empty() {
            let strikes = self.make("strikes", &self.under(&files, first), Some(self.until(STRIKES))).await?;
            compare(&strikes, &scripted, &mut cases)?;
            (go_on, not_made) = (!strikes.interrupted, not_made + strikes.lacking);
            // Which pairs are of interest is known once all of these are.
            let pairs =
                if strikes.lacking == 0 { pairs::pairs(&withstood(&cases), setting.upkeep) } else { Vec::new() };
            stages.push(strikes);
            if go_on && !pairs.is_empty() {
                let of_pairs = write_scripts(&scripts, &pairs)?;
                let made = self.make("pairs", &self.under(&of_pairs, first), Some(self.until(PAIRS))).await?;
                compare(&made, &pairs, &mut cases)?;
                (go_on, not_made) = (!made.interrupted, not_made + made.lacking);
                stages.push(made);
                scripted.extend(pairs);
            }
        }
        files.splice(0..0, fitting.iter().cloned());
        if go_on && !others.is_empty() {
            let made = self.make("other-ttls", &self.under(&files, others), Some(self.until(OTHER_TTLS))).await?;
            compare(&made, &scripted, &mut cases)?;
            (go_on, not_made) = (!made.interrupted, not_made + made.lacking);
            stages.push(made);
        }
        tell_progress("comparing with a lock of ours of the same kind, in virtual time");
        Compare { examination: self, kind, page_folder: &folder }.in_virtual_time(&mut cases);
        let is_due = |case: &&Case| {
            case.tried.came() == Came::Fell
                && !case.tried.of_its_kind.is_fate()
                && !(case.tried.plain && case.tried.is_certain())
        };
        let again = self.again(cases.iter().filter(is_due));
        if go_on && !again.cells.is_empty() {
            let made = self.make("more-seeds", &again, Some(self.until(MORE_SEEDS))).await?;
            compare(&made, &scripted, &mut cases)?;
            not_made += made.lacking;
            stages.push(made);
        }
        Ok(Searched { cases, page_folder: folder, not_made })
    }

    /// Which of the TTLs the library takes, those that it does not, each with what it says, and the runs that asked.
    async fn taken_ttls(&self) -> Result<(Vec<Length>, Vec<(Length, String)>, Option<Made>), Failure> {
        let (first, others) = self.flags.ttl.split_at(1);
        if others.is_empty() {
            return Ok((first.to_vec(), Vec::new(), None));
        }
        let shortly = others.iter().map(|ttl| self.shortly(*ttl)).collect();
        let asked = self.make("ttls", &self.suite_file(shortly), None).await?;
        let refused = refused_ttls(&asked);
        let is_taken = |ttl: &&Length| !refused.iter().any(|(refused, _)| refused == *ttl);
        let taken = first.iter().chain(others.iter().filter(is_taken)).copied().collect();
        Ok((taken, refused, Some(asked)))
    }

    /// The moment by which this share of the budget is spent, of what learning left of it.
    fn until(&self, share: f64) -> Instant {
        let left = (self.began + self.budget).saturating_duration_since(self.learnt);
        self.learnt + left.mul_f64(share)
    }

    /// Only what is complete is not gone on with.
    fn conclude(&self, not_made: usize, stages: Vec<Made>) -> Result<Exit, Failure> {
        if not_made > 0 || self.interrupt.is_raised() {
            print(format!("{} not made; the same command goes on where it was\n", plural(not_made as u64, "run")))?;
            return Ok(Exit::Unknown);
        }
        for mut made in stages {
            made.state.end().map_err(Failure::could_not_run)?;
        }
        Ok(Exit::Valid)
    }

    fn broke_off(&self, learnt: &Made) -> Failure {
        let why = learnt.state.runs.iter().find(|run| run.valid.is_none()).map(|run| run.summary.clone());
        Failure::could_not_run(
            why.unwrap_or_else(|| "interrupted before it was known what the library sends".to_string()),
        )
    }

    /// So many clients, and more where several may have the lock: one more than may asks for it.
    fn at_least(&self, clients: u32) -> Option<u32> {
        let permits = self.plain.workload.permits;
        Some(if permits == 1 { clients } else { clients.max(permits + 1) })
    }

    /// Three runs in which every command is recorded: one client alone, two that wait for each other, and one that holds the lock
    /// for longer than it lives, so that whatever renews it does.
    fn without_faults(&self) -> SuiteFile {
        let alone = Options {
            time_limit: "4s".parse().ok(),
            clients: self.at_least(1),
            threads: Some(1),
            ..self.flags.options(self.flags.ttl.first().copied())
        };
        let two = Options { clients: self.at_least(2), hold: "0.2ttl..0.3ttl".parse().ok(), ..alone.clone() };
        let long = Options { time_limit: "6s".parse().ok(), hold: long_hold(), ..alone.clone() };
        // Where several may have the lock, a holder that stays for longer than it lives has others beside it, rightly.
        let all = [alone, two, long].into_iter().filter(|with| with.clients == Some(1) || with.hold != long_hold());
        self.suite_file(all.map(|with| self.block("none", with)).collect())
    }

    /// All scenarios with the first of these TTLs, then with the next one.
    fn under(&self, nemeses: &[String], ttls: &[Length]) -> SuiteFile {
        let with = |ttl: &Length| Options { ttl: Some(*ttl), ..Options::default() };
        let blocks = ttls.iter().flat_map(|ttl| nemeses.iter().map(move |nemesis| self.block(nemesis, with(ttl))));
        SuiteFile { runs: self.flags.seeds, ..self.suite_file(blocks.collect()) }
    }

    /// What broke the lock and is not the fate of its kind, with other seeds, each with the TTL with which it did: what is called
    /// the library's own should have been seen more than once.
    fn again<'c>(&self, cases: impl Iterator<Item = &'c Case>) -> SuiteFile {
        let mut due: Vec<&Case> = cases.collect();
        due.sort_by_key(|case| (!case.tried.plain, case.is_drawn()));
        let blocks = due.into_iter().filter_map(|case| {
            let ttl = case.tried.telling()?.ttl.parse().ok();
            Some(self.block(&case.nemesis, Options { ttl, ..Options::default() }))
        });
        let seed = u64::from(self.flags.seeds) + 1;
        SuiteFile { runs: SEEDS_MORE, seed, ..self.suite_file(blocks.collect()) }
    }

    /// In all of these runs the nodes tell what they carry out.
    fn suite_file(&self, cells: Vec<Block>) -> SuiteFile {
        let with = Options { record_commands: Some(true), ..self.flags.of_every_run() };
        SuiteFile { description: String::new(), runs: 1, seed: 1, with, cells, instead: Options::default() }
    }

    /// A run that only shows whether the library takes this TTL.
    fn shortly(&self, ttl: Length) -> Block {
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
    fn usual(&self, ttl: Length) -> Block {
        let with = Options {
            time_limit: self.flags.time_limit.or("8s".parse().ok()),
            clients: self.at_least(USUAL_CLIENTS.max(self.plain.workload.threads)),
            ..self.flags.options(Some(ttl))
        };
        self.block("none", with)
    }

    /// Whoever asks waits for several others, each of which has the lock for a while.
    fn queue(&self) -> Block {
        let with = Options {
            clients: self.at_least(QUEUE),
            hold: "0.3ttl..0.4ttl".parse().ok(),
            ..self.flags.options(self.flags.ttl.first().copied())
        };
        self.block("none", with)
    }

    /// Threads of one process have several locks at once, each for longer than it lives: what renews one is not to end with another's.
    fn several_renewed(&self) -> Block {
        let with = Options {
            keys: Some(THREADS + 1),
            threads: Some(THREADS),
            clients: self.at_least(2 * THREADS),
            hold: long_hold(),
            ..self.flags.options(self.flags.ttl.first().copied())
        };
        self.block(SHARES_A_LOCK, with)
    }

    /// Short runs of which each asks of the client what only some can do.
    fn asking(&self) -> SuiteFile {
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

    fn block(&self, nemesis: &str, with: Options) -> Block {
        Block {
            workload: Some(Names(vec![self.flags.workload.clone()])),
            nemesis: Some(Names(vec![nemesis.to_string()])),
            libraries: false,
            issues: false,
            runs: None,
            expect: Some(Expected::Nothing),
            found: None,
            with: Options { threads: with.threads.or_else(|| self.threads(nemesis)), ..with },
            sweep: Sweep::default(),
        }
    }

    /// The scenarios of the catalogue that are about such a lock, those that are written step by step first, then those without
    /// faults, of each those first that show most libraries' own defects; and the others, with the reason.
    fn fitting(&self, phases: &[Phase], unable: &[(Ability, String)]) -> (Vec<String>, Vec<(String, String)>) {
        let why_unable = |scenario: &Scenario| {
            let asked = scenario.asks_of_clients();
            unable.iter().find(|(ability, _)| asked.contains(ability)).map(|(_, why)| why.clone())
        };
        let (mut fitting, mut not_about) = (Vec::new(), Vec::new());
        let told = told();
        for (name, _) in catalogue::NEMESES.iter().filter(|(name, _)| !NOT_TRIED.contains(name)) {
            let options =
                Options { threads: self.threads(name), ..self.flags.options(self.flags.ttl.first().copied()) };
            let scenario = options.scenario(&self.flags.workload, name, 1, Path::new(""));
            let drawn = scenario.map_err(|error| error.to_string()).and_then(|scenario| {
                Plan::draw(&scenario).map_err(|error| error.to_string())?;
                Ok(scenario)
            });
            match drawn {
                Err(why) => not_about.push((name.to_string(), why)),
                Ok(scenario) => match (why_unable(&scenario), missing(&scenario.nemesis, phases)) {
                    (Some(why), _) => not_about.push((name.to_string(), why)),
                    (None, Some(phase)) => {
                        not_about.push((name.to_string(), format!("its client never reports `{}`", phase.word())))
                    }
                    (None, None) => {
                        let Nemesis { script, faults, .. } = &scenario.nemesis;
                        let rank = u8::from(script.is_empty()) + u8::from(!faults.is_empty());
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

    /// Makes the runs of one stage, or goes on with them.
    async fn make(&self, stage: &str, file: &SuiteFile, until: Option<Instant>) -> Result<Made, Failure> {
        let name = format!("library-{}-{stage}", self.plain.workload_name);
        let plan = |auto| {
            let source = Source { name: &name, file, folder: Path::new("") };
            Suite::plan(&source, Clusters { instead: self.flags.cluster, auto }).map_err(Failure::arguments)
        };
        let prepared = runner::prepare(&plan(ClusterKind::Auto)?, &self.interrupt, CONSOLE.say).await?;
        if let Some(why) = prepared.not_here.values().chain(prepared.not_simulated.values()).next() {
            return Err(Failure::could_not_run(why));
        }
        let suite = plan(prepared.auto)?;
        let mut state = open_whole(&self.flags.store, &suite, self.flags.fresh)?;
        tell_progress(&format!(
            "{}, planned for {}",
            plural(suite.runs() as u64, "run"),
            length(suite.planned_ms() * 1_000_000)
        ));
        let series = Series {
            suite: &suite,
            interrupt: self.interrupt.clone(),
            remains: self.remains.clone(),
            fail_fast: false,
            until,
            new_clusters: false,
            observe: true,
            jobs: self.flags.jobs,
            not_here: prepared.not_here,
        };
        let mut progress = if LEARNING.contains(&stage) { Progress::learning() } else { Progress::default() };
        let ended = series.make(&mut state, &mut progress).await?;
        // A client that can do nothing of what it is asked for has answered.
        if let Ended::CannotRun(reason) = &ended
            && !ASKING.contains(&stage)
        {
            return Err(Failure::could_not_run(reason));
        }
        let done = state.runs.iter().filter(|run| run.valid.is_some()).count();
        let lacking = suite.runs().saturating_sub(done);
        Ok(Made { suite, state, lacking, interrupted: matches!(ended, Ended::Interrupted) })
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

/// What is known from the runs of the first stage.
struct Learnt {
    sent: Vec<Sent>,
    /// In how many operations.
    operations: u64,
    /// The phases that clients reported.
    phases: Vec<Phase>,
    /// Whether a client holds the lock for longer than half its TTL where it was not told to: one that extends it does.
    holds_long: bool,
}

/// The runs of a stage, of all its scenarios or of one, with what the nodes carried out in each; those that could not be made are left out.
fn runs_of(made: &Made, nemesis: Option<&str>) -> Result<Vec<(History, Vec<RecordedCommand>)>, Failure> {
    let is_of = |run: &&RunOutcome| {
        let cell = || made.suite.cells.iter().find(|cell| cell.name == run.cell);
        run.valid.is_some() && nemesis.is_none_or(|name| cell().is_some_and(|cell| cell.nemesis == name))
    };
    let mut runs = Vec::new();
    for run in made.state.runs.iter().filter(is_of) {
        let folder = made.state.folder().join(&run.folder);
        let history = history::load(&folder.join("history.jsonl")).map_err(Failure::could_not_run)?;
        let file = folder.join(RecordedCommand::FILE);
        let text = files::read_inside(&file, MOST_BYTES).map_err(Failure::could_not_run)?;
        let commands = RecordedCommand::read(&text)
            .map_err(|error| Failure::could_not_run(format!("{}: {error}", file.display())))?;
        runs.push((history, commands));
    }
    Ok(runs)
}

fn learn(made: &Made) -> Result<Learnt, Failure> {
    let runs = runs_of(made, None)?;
    let operations = runs.iter().flat_map(|(history, _)| &history.operations);
    let mut phases: Vec<Phase> =
        operations.clone().flat_map(|operation| &operation.phases).map(|stamp| stamp.phase).collect();
    phases.sort_unstable();
    phases.dedup();
    let count = operations.count() as u64;
    // In one of them it was told to.
    let holds_long = runs.iter().all(|(history, _)| holds_long(history));
    Ok(Learnt { sent: sent::sent(&runs), operations: count, phases, holds_long })
}

/// Whether holds usually last for longer than half the TTL.
fn holds_long(history: &History) -> bool {
    let ttl = history.run.as_ref().map_or(Duration::MAX, |run| Duration::from_millis(run.ttl_ms));
    let mut held: Vec<Duration> = history.operations.iter().filter_map(held_for).collect();
    held.sort_unstable();
    held.get(held.len() / 2).is_some_and(|held| *held > ttl / 2)
}

/// For how long its client had the lock, until it began to give it back, or the operation ended; None if it never had it.
fn held_for(operation: &Operation) -> Option<Duration> {
    let until = operation.phase(Phase::Releasing).map(PhaseStamp::time).or(operation.completed).unwrap_or(u64::MAX);
    Some(Duration::from_nanos(until.saturating_sub(operation.phase(Phase::Acquired)?.time())))
}

/// The TTLs of which no run could be made, each with the reason.
fn refused_ttls(made: &Made) -> Vec<(Length, String)> {
    let failed = made.state.runs.iter().filter(|run| run.valid.is_none());
    let ttl =
        |run: &RunOutcome| made.suite.cells.iter().find(|cell| cell.name == run.cell).map(|cell| cell.scenario.ttl);
    failed.filter_map(|run| Some((Length::Absolute(ttl(run)?), run.summary.clone()))).collect()
}

/// Whether a client whose threads are several could play what was asked of one.
fn was_played_by_threads(made: &Made) -> bool {
    let cells = made.suite.cells.iter().filter(|cell| cell.nemesis == CANCELS_A_HOLDER && cell.scenario.threads > 1);
    let mut names = cells.map(|cell| &cell.name);
    names.any(|name| made.state.runs.iter().any(|run| run.cell == *name && run.valid.is_some()))
}

/// What this client can't do, each with what it says: the runs that asked for it could not be made.
fn unable(made: &Made) -> Vec<(Ability, String)> {
    let why = |nemesis: &str| {
        let cell = made.suite.cells.iter().find(|cell| cell.nemesis == nemesis)?;
        match made.state.runs.iter().find(|run| run.cell == cell.name) {
            Some(run) => run.valid.is_none().then(|| run.summary.clone()),
            None => Some("it could not be asked whether it can".to_string()),
        }
    };
    ASKS.iter().filter_map(|(ability, nemesis)| Some((*ability, why(nemesis)?))).collect()
}

/// Writes the scenarios, and returns their files, in their order.
fn write_scripts(folder: &Path, scripted: &[Scripted]) -> Result<Vec<String>, Failure> {
    files::create_folder(folder).map_err(Failure::could_not_run)?;
    let mut written = Vec::new();
    for scripted in scripted {
        let file = folder.join(format!("{}.toml", scripted.name));
        files::write(&file, &scripted.toml).map_err(Failure::could_not_run)?;
        written.push(file.display().to_string());
    }
    Ok(written)
}

/// The strikes that the library withstood one by one.
fn withstood(cases: &[Case]) -> Vec<Aim> {
    let held = cases.iter().filter(|case| case.tried.came() == Came::Held);
    let mut withstood: Vec<Aim> = Vec::new();
    for case in held {
        // Some are struck in two scenarios.
        if let [aim] = &case.aims[..]
            && !withstood.contains(aim)
        {
            withstood.push(aim.clone());
        }
    }
    withstood
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
