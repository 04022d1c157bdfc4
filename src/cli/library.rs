//! `redjepsen library`: from a workload to a page that says what becomes of its lock under everything that there is to try.
//!
//! Three suites, one after the other: three runs without faults, from which it is learnt what the library sends; the scenarios of
//! the catalogue that fit; and strikes at each command that was seen. Whatever broke the lock is tried in virtual time on a lock
//! of ours of the same kind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::block_in_place;

use super::suite::progress::Progress;
use super::suite::{open_state, program_sha256, versions};
use super::{CONSOLE, Exit, Failure, look, print, tell_progress};
use crate::checker::Validity;
use crate::files;
use crate::fuzz::Cause;
use crate::history::{self, Phase, RecordedCommand};
use crate::interrupt::Interrupt;
use crate::library::examined::{Came, Examined, Tried, TriedRun};
use crate::library::kind::{self, Kind, OfItsKind};
use crate::library::sent::{self, Sent, When};
use crate::library::strikes::{self, Scripted};
use crate::nemesis::{Expectation, Nemesis, Step};
use crate::plan::Plan;
use crate::report::library as pages;
use crate::runner::simulate::{simulate_unless, usual};
use crate::runner::{self, Checked, Ended, Jobs, Series, signals};
use crate::scenario::{Options, Scenario, catalogue, quoted};
use crate::suite::file::{Block, Expected, Names, SuiteFile};
use crate::suite::outcome::RunOutcome;
use crate::suite::plan::{Clusters, Source, Suite};
use crate::suite::state::{Identity, State};
use crate::topology::ClusterKind;
use crate::units::Length;
use crate::words::{length, plural};

#[derive(Debug, Args)]
pub struct LibraryFlags {
    /// The library's workload: a name from `redjepsen list`, or the path of a .toml file
    workload: String,
    /// What the clusters are made of; simulated ones have no libraries
    #[arg(long, value_enum)]
    cluster: Option<ClusterKind>,
    /// After this, no more runs are begun; the same command goes on where it was
    #[arg(long, default_value = "30m", allow_hyphen_values = true)]
    time: Length,
    /// The lock's time to live; several with commas
    #[arg(long, value_delimiter = ',', default_values = ["1s", "400ms"], allow_hyphen_values = true)]
    ttl: Vec<Length>,
    /// Runs at the same time, each on its own cluster; `auto`: as many as the machine can take
    #[arg(long, value_name = "N", default_value = "auto")]
    jobs: Jobs,
    /// Start again, even if an earlier one could be continued
    #[arg(long)]
    fresh: bool,
    /// Folder for the runs and the page
    #[arg(long, default_value = "store")]
    store: PathBuf,
}

/// Of the time, this share is for the scenarios of the catalogue, the rest for strikes at what was seen.
const FOR_THE_CATALOGUE: f64 = 0.6;
/// How long a run without a script takes: enough for two or three faults.
const TIME_LIMIT: &str = "12s";
/// The seeds of the runs of a lock of ours.
const SEEDS: std::ops::Range<u64> = 1..4;
/// Everything at once explains nothing.
const NOT_TRIED: [&str; 1] = ["all"];

/// Why a scenario is not tried that asks of a client what nobody knows of this one before it runs.
const ONLY_SOME: &str =
    "only some clients can do what it asks for (version 2 of the client protocol); run it by its name";

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

/// Everything that stages share.
struct Examination {
    flags: LibraryFlags,
    interrupt: Interrupt,
    remains: signals::Remains,
    began: Instant,
    time: Duration,
    /// The first run: without faults, with the first TTL.
    plain: Scenario,
}

pub async fn library(flags: LibraryFlags) -> Result<Exit, Failure> {
    let began = Instant::now();
    let time = flags.time.absolute().map_err(|error| Failure::arguments(format!("--time: {error}")))?;
    let plain = flags.options(flags.ttl.first().copied()).scenario(&flags.workload, "none", 1, Path::new(""));
    let plain = plain.map_err(Failure::arguments)?;
    if plain.cluster_kind().is_simulated() {
        return Err(Failure::arguments(
            "--cluster sim makes no sense here: simulated servers can't be asked what they get; \
             for a lock of redjepsen's own, `redjepsen fuzz` searches in virtual time",
        ));
    }
    let (interrupt, remains) = signals::listen(CONSOLE).map_err(Failure::could_not_run)?;
    let examination = Examination { flags, interrupt, remains, began, time, plain };
    examination.made().await
}

impl LibraryFlags {
    fn options(&self, ttl: Option<Length>) -> Options {
        Options { ttl, ..self.of_every_run() }
    }

    fn of_every_run(&self) -> Options {
        Options { cluster: self.cluster, time_limit: TIME_LIMIT.parse().ok(), ..Options::default() }
    }
}

impl Examination {
    async fn made(mut self) -> Result<Exit, Failure> {
        tell_progress("learning what it sends, from three runs without faults");
        let learnt = self.make("commands", &self.without_faults(), None).await?;
        if learnt.lacking > 0 {
            return Err(self.broke_off(&learnt));
        }
        let (sent, operations, phases) = learn(&learnt)?;
        let others: Vec<Block> = self.flags.ttl.iter().skip(1).map(|ttl| self.shortly(*ttl)).collect();
        let other_ttls = match others.is_empty() {
            true => None,
            false => Some(self.make("ttls", &self.suite_file(others), None).await?),
        };
        let refused = other_ttls.as_ref().map(refused).unwrap_or_default();
        self.flags.ttl.retain(|ttl| !refused.iter().any(|(refused, _)| *refused == *ttl));
        let kind = Kind::of(&self.plain, sent::is_renewed(&sent));
        tell_progress(&format!(
            "{kind}; {} told apart in {operations} operations",
            plural(sent.len() as u64, "command")
        ));

        let (fitting, not_about) = self.fitting(&phases);
        let share = |share: f64| self.began + self.time.mul_f64(share);
        let catalogue = self.make("catalogue", &self.under(&fitting), Some(share(FOR_THE_CATALOGUE))).await?;
        let scripted = strikes::scenarios(&sent, self.plain.nodes, self.plain.workload.lock.expires());
        let folder = catalogue.state.folder().join("strikes");
        let files = write_scripts(&folder, &scripted)?;
        let search = match catalogue.interrupted || files.is_empty() {
            true => None,
            false => Some(self.make("strikes", &self.under(&files), Some(share(1.0))).await?),
        };

        tell_progress("comparing with a lock of ours of the same kind, in virtual time");
        let page_folder = catalogue.state.folder().to_path_buf();
        let compare = Compare { examination: &self, kind: &kind, page_folder: &page_folder };
        let mut tried = compare.tried(&catalogue, None)?;
        if let Some(search) = &search {
            tried.extend(compare.tried(search, Some(&folder))?);
        }
        let (name, version) = match &self.plain.workload.library {
            Some(library) => (library.name.clone(), format!(" {}", library.version)),
            None => (self.plain.workload_name.clone(), String::new()),
        };
        let examined = Examined {
            workload: quoted(&self.flags.workload),
            name: format!("{name}{version}"),
            kind: kind.clone(),
            ttls: self.flags.ttl.iter().map(ToString::to_string).collect(),
            sent,
            tried,
            not_about,
            refused: refused.into_iter().map(|(ttl, why)| (ttl.to_string(), why)).collect(),
            not_made: catalogue.lacking
                + search.as_ref().map_or(files.len() * self.flags.ttl.len(), |search| search.lacking),
            took: self.began.elapsed(),
            versions: versions(catalogue.state.folder(), &catalogue.state.runs),
        };
        let page = page_folder.join(pages::FILE);
        print(pages::terminal(&examined, look()))?;
        files::write(&page, pages::html(&examined)).map_err(Failure::could_not_run)?;
        print(format!("\n  page  {}\n", page.display()))?;
        self.conclude(examined.not_made, [Some(learnt), other_ttls, Some(catalogue), search])
    }

    /// Only what is complete is not gone on with.
    fn conclude(&self, not_made: usize, stages: [Option<Made>; 4]) -> Result<Exit, Failure> {
        if not_made > 0 || self.interrupt.is_raised() {
            print(format!("{} not made; the same command goes on where it was\n", plural(not_made as u64, "run")))?;
            return Ok(Exit::Unknown);
        }
        for mut made in stages.into_iter().flatten() {
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

    /// Three runs in which every command is recorded: one client alone, two that wait for each other, and one that holds the lock
    /// for longer than it lives, so that whatever renews it does.
    fn without_faults(&self) -> SuiteFile {
        let alone = Options {
            time_limit: "4s".parse().ok(),
            clients: Some(1),
            record_commands: Some(true),
            ..self.flags.options(self.flags.ttl.first().copied())
        };
        let two = Options { clients: Some(2), hold: "0.2ttl..0.3ttl".parse().ok(), ..alone.clone() };
        let long = Options { time_limit: "6s".parse().ok(), hold: "1.3ttl..1.4ttl".parse().ok(), ..alone.clone() };
        self.suite_file([alone, two, long].map(|with| Block { with, ..self.block("none".to_string()) }).to_vec())
    }

    /// All scenarios with the first TTL, then with the next one.
    fn under(&self, nemeses: &[String]) -> SuiteFile {
        let with = |ttl: &Length| Options { ttl: Some(*ttl), ..Options::default() };
        let blocks = self.flags.ttl.iter().flat_map(|ttl| {
            nemeses.iter().map(move |nemesis| Block { with: with(ttl), ..self.block(nemesis.clone()) })
        });
        self.suite_file(blocks.collect())
    }

    fn suite_file(&self, cells: Vec<Block>) -> SuiteFile {
        SuiteFile { description: String::new(), runs: 1, seed: 1, with: self.flags.of_every_run(), cells }
    }

    /// A run that only shows whether the library takes this TTL.
    fn shortly(&self, ttl: Length) -> Block {
        let with = Options { ttl: Some(ttl), time_limit: "2s".parse().ok(), ..Options::default() };
        Block { with, ..self.block("none".to_string()) }
    }

    fn block(&self, nemesis: String) -> Block {
        Block {
            workload: Some(Names(vec![self.flags.workload.clone()])),
            nemesis: Some(Names(vec![nemesis])),
            libraries: false,
            runs: None,
            expect: Some(Expected::Nothing),
            found: None,
            with: Options::default(),
        }
    }

    /// The scenarios of the catalogue that are about such a lock, those that are written step by step first; and the others,
    /// with the reason.
    fn fitting(&self, phases: &[Phase]) -> (Vec<String>, Vec<(String, String)>) {
        let (mut fitting, mut recurring, mut not_about) = (Vec::new(), Vec::new(), Vec::new());
        for (name, _) in catalogue::NEMESES.iter().filter(|(name, _)| !NOT_TRIED.contains(name)) {
            let scenario = self.flags.options(self.flags.ttl.first().copied()).scenario(
                &self.flags.workload,
                name,
                1,
                Path::new(""),
            );
            let drawn = scenario.map_err(|error| error.to_string()).and_then(|scenario| {
                Plan::draw(&scenario).map_err(|error| error.to_string())?;
                Ok(scenario)
            });
            match drawn {
                Err(why) => not_about.push((name.to_string(), why)),
                Ok(scenario) if scenario.asks_for_more_of_clients() => {
                    not_about.push((name.to_string(), ONLY_SOME.to_string()))
                }
                Ok(scenario) => match missing(&scenario.nemesis, phases) {
                    Some(phase) => {
                        not_about.push((name.to_string(), format!("its client never reports `{}`", phase.word())))
                    }
                    None if scenario.nemesis.script.is_empty() => recurring.push(name.to_string()),
                    None => fitting.push(name.to_string()),
                },
            }
        }
        fitting.extend(recurring);
        (fitting, not_about)
    }

    /// Makes the runs of one stage, or goes on with them.
    async fn make(&self, stage: &str, file: &SuiteFile, until: Option<Instant>) -> Result<Made, Failure> {
        let name = format!("library-{}-{stage}", self.plain.workload_name);
        let plan = |auto| {
            let source = Source { name: &name, file, folder: Path::new("") };
            Suite::plan(&source, Clusters { instead: self.flags.cluster, auto }).map_err(Failure::arguments)
        };
        let prepared = runner::prepare(&plan(ClusterKind::Auto)?, &self.interrupt, CONSOLE.say).await?;
        if let Some(why) = prepared.not_here.values().next() {
            return Err(Failure::could_not_run(why));
        }
        let suite = plan(prepared.auto)?;
        let identity = Identity {
            suite: suite.name.clone(),
            suite_sha256: suite.sha256.clone(),
            program_sha256: program_sha256().map_err(Failure::could_not_run)?,
            shard: None,
            cut_sha256: None,
        };
        let mut state = open_state(&self.flags.store, &identity, suite.runs(), self.flags.fresh)?;
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
            jobs: self.flags.jobs,
            not_here: prepared.not_here,
        };
        let ended = series.make(&mut state, &mut Progress::default()).await?;
        if let Ended::CannotRun(reason) = ended {
            return Err(Failure::could_not_run(reason));
        }
        let done = state.runs.iter().filter(|run| run.valid.is_some()).count();
        let lacking = suite.runs().saturating_sub(done);
        Ok(Made { suite, state, lacking, interrupted: matches!(ended, Ended::Interrupted) })
    }
}

/// A phase that a script waits for and the client does not report.
fn missing(nemesis: &Nemesis, phases: &[Phase]) -> Option<Phase> {
    let waits_for = nemesis.script.iter().filter_map(Step::phase);
    // It may well come only under this very scenario.
    waits_for.filter(|phase| !matches!(phase, Phase::Lost | Phase::Extended)).find(|phase| !phases.contains(phase))
}

/// What was sent in the runs of the first stage, in how many operations, and which phases clients reported.
fn learn(made: &Made) -> Result<(Vec<Sent>, u64, Vec<Phase>), Failure> {
    let mut runs = Vec::new();
    for run in &made.state.runs {
        let folder = made.state.folder().join(&run.folder);
        let history = history::load(&folder.join("history.jsonl")).map_err(Failure::could_not_run)?;
        let file = folder.join(RecordedCommand::FILE);
        let text = files::read_inside(&file, MOST_BYTES).map_err(Failure::could_not_run)?;
        let commands = RecordedCommand::read(&text)
            .map_err(|error| Failure::could_not_run(format!("{}: {error}", file.display())))?;
        runs.push((history, commands));
    }
    let operations = runs.iter().flat_map(|(history, _)| &history.operations);
    let mut phases: Vec<Phase> =
        operations.clone().flat_map(|operation| &operation.phases).map(|stamp| stamp.phase).collect();
    phases.sort_unstable();
    phases.dedup();
    let count = operations.count() as u64;
    Ok((sent::sent(&runs), count, phases))
}

/// The TTLs of which no run could be made, each with the reason.
fn refused(made: &Made) -> Vec<(Length, String)> {
    let failed = made.state.runs.iter().filter(|run| run.valid.is_none());
    let ttl =
        |run: &RunOutcome| made.suite.cells.iter().find(|cell| cell.name == run.cell).map(|cell| cell.scenario.ttl);
    failed.filter_map(|run| Some((Length::Absolute(ttl(run)?), run.summary.clone()))).collect()
}

/// Writes the scenarios, and returns their files, in their order.
fn write_scripts(folder: &Path, scripted: &[Scripted]) -> Result<Vec<String>, Failure> {
    let of_its_kind = folder.join("of-its-kind");
    files::create_folder(folder).and_then(|()| files::create_folder(&of_its_kind)).map_err(Failure::could_not_run)?;
    let mut written = Vec::new();
    for scripted in scripted {
        let file = folder.join(format!("{}.toml", scripted.name));
        files::write(&file, &scripted.toml).map_err(Failure::could_not_run)?;
        let other = of_its_kind.join(format!("{}.toml", scripted.name));
        files::write(&other, &scripted.of_its_kind).map_err(Failure::could_not_run)?;
        written.push(file.display().to_string());
    }
    Ok(written)
}

struct Compare<'a> {
    examination: &'a Examination,
    kind: &'a Kind,
    page_folder: &'a Path,
}

impl Compare<'_> {
    /// The scenarios of a stage with their runs, each compared with a lock of ours if it broke this one.
    fn tried(&self, made: &Made, searched: Option<&Path>) -> Result<Vec<Tried>, Failure> {
        let mut tried: Vec<Tried> = Vec::new();
        for cell in &made.suite.cells {
            let runs = made.state.runs.iter().filter(|run| run.cell == cell.name);
            let runs: Vec<TriedRun> =
                runs.map(|run| self.run(made.state.folder(), run, &cell.scenario)).collect::<Result<_, _>>()?;
            match tried.iter_mut().find(|other| other.scenario == cell.nemesis) {
                Some(same) => same.runs.extend(runs),
                None if runs.is_empty() => {}
                None => tried.push(Tried {
                    scenario: cell.nemesis.clone(),
                    description: cell.scenario.nemesis.description.clone(),
                    searched: searched.is_some(),
                    scripted: cell.scripted,
                    of_its_kind: OfItsKind::Unknown,
                    runs,
                }),
            }
        }
        for one in tried.iter_mut().filter(|one| one.came() == Came::Fell) {
            let nemesis = match searched {
                None => one.scenario.clone(),
                Some(folder) => folder.join("of-its-kind").join(format!("{}.toml", one.scenario)).display().to_string(),
            };
            let when = one.telling().and_then(|run| run.when);
            one.of_its_kind = block_in_place(|| self.of_its_kind(&nemesis, when));
            // Faults that are drawn are others in each run: what such a lock withstood was not the same.
            if !(one.scripted && one.is_certain()) && one.of_its_kind == OfItsKind::Holds {
                one.of_its_kind = OfItsKind::Unknown;
            }
        }
        Ok(tried)
    }

    fn run(&self, suite: &Path, outcome: &RunOutcome, scenario: &Scenario) -> Result<TriedRun, Failure> {
        let folder = suite.join(&outcome.folder);
        let mut run = TriedRun {
            ttl: humantime::format_duration(scenario.ttl).to_string(),
            valid: outcome.valid,
            timing_was_kept: outcome.timing.was_kept(),
            summary: outcome.summary.clone(),
            struck: None,
            when: None,
            anomaly: None,
            folder: relative(self.page_folder, &folder),
            repeat: outcome.repeat.clone(),
        };
        if outcome.valid.is_some() {
            let history = history::load(&folder.join("history.jsonl")).map_err(Failure::could_not_run)?;
            run.struck = sent::struck_at(&history).map(str::to_string);
            run.when = sent::struck_when(&history);
            let checked = Checked::new(history, Some(scenario.clone()), Default::default());
            let cause = Cause::of(&checked.history, &checked.verdict).map(|cause| cause.anomaly);
            let first = || checked.verdict.anomalies.first().map(|anomaly| anomaly.kind);
            run.anomaly = cause
                .or_else(first)
                .filter(|_| outcome.valid == Some(Validity::Invalid))
                .map(|kind| kind.name().to_string());
        }
        Ok(run)
    }

    /// Whether a lock of ours of the same kind falls to this as well: by runs in virtual time, or by what is expected of it where
    /// those show nothing. A run in which a client was struck while it was doing something else withstood something else.
    fn of_its_kind(&self, nemesis: &str, when: Option<When>) -> OfItsKind {
        let flags = &self.examination.flags;
        let runs = flags.ttl.iter().flat_map(|ttl| SEEDS.map(move |seed| (*ttl, seed))).filter_map(|(ttl, seed)| {
            let like = &self.examination.plain;
            let scenario = self.kind.scenario(like, nemesis, &flags.options(Some(ttl)), seed)?;
            let checked = simulate_unless(&self.examination.interrupt, usual(&scenario), &scenario).ok()??;
            Some((checked.verdict.valid, sent::struck_when(&checked.history)))
        });
        kind::judged(runs, when).unwrap_or_else(|| self.expected(nemesis))
    }

    /// What the catalogue expects of that lock.
    fn expected(&self, nemesis: &str) -> OfItsKind {
        let (Some(reference), Ok((name, file))) = (&self.kind.reference, catalogue::nemesis(nemesis)) else {
            return OfItsKind::Unknown;
        };
        let by_lock = catalogue::workload(reference).ok().and_then(|(_, workload)| workload.expect.get(&name).copied());
        match file.expect.get(reference).copied().or(by_lock) {
            Some(Expectation::Violation) => OfItsKind::Falls,
            Some(Expectation::Valid) => OfItsKind::Holds,
            None => OfItsKind::Unknown,
        }
    }
}

/// The way from one folder of a store to another one in it.
fn relative(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let same = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..".to_string(), from.len() - same);
    let down = to[same..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}
