//! Tries everything on the lock of a workload: the runs of `redjepsen library`.
//!
//! Its stages are suites, one after the other:
//! - three runs without faults, which show the commands of the library
//! - short runs that show what else its client can do
//! - a run in which nothing goes wrong
//! - the scenarios of the catalogue that fit
//! - faults at each command that was seen
//! - pairs of such faults, if the library passed each of them alone
//! - all of these with other TTLs
//! - more seeds for scenarios that broke the lock, unless the failure is inherent to this kind of lock
//!
//! At the end it [compares](compare) the results with a reference lock of the same kind, in virtual time, and [shrinks](shrink)
//! scenarios on real servers.

mod compare;
mod discovery;
mod shrink;
mod stages;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;

use compare::{Case, Compare};
use discovery::{Learnt, learn, refused_ttls, runs_of, unable, unable_by_threads};

use super::commands::{self, ObservedCommand, RenewalMode};
use super::examined::Examined;
use super::kind::Kind;
use super::releases::reach_again;
use super::strikes::{self, FaultPoint, Scripted, Setting};
use super::{beside, pairs, takeovers};
use base::files;
use base::interrupt::Interrupt;
use base::units::Length;
use base::words::{length, plural};
use checker::Validity;
use model::scenario::{Ability, Options, Scenario, quoted, typed};
use model::topology::ClusterKind;
use runner::open::open_whole;
use runner::{Console, Ended, Jobs, Outlook, RunnerError, Series, SeriesProgress, signals};
use suite::file::SuiteFile;
use suite::outcome::RunOutcome;
use suite::plan::{PlannedCell, Source, Suite};
use suite::state::SuiteState;
use summary::store::versions;

pub struct CampaignRequest {
    /// Name or path of the library's workload.
    pub workload: String,
    /// Options of all runs: which servers they use.
    pub with: Options,
    /// No run begins after this time.
    pub budget: Duration,
    /// The lock's TTLs, at least one. All scenarios run with the first TTL.
    pub ttl: Vec<Length>,
    pub seeds: u32,
    pub jobs: Jobs,
    /// If true, starts again even if an earlier campaign could be resumed.
    pub fresh: bool,
    pub store: PathBuf,
}

/// Creates the progress display of a stage. The argument is true for a stage whose runs are watched but not judged.
pub type ShowStage = fn(bool) -> Box<dyn SeriesProgress>;

pub struct Finished {
    pub examined: Examined,
    /// The folder for the report page. The page's links are relative to this folder.
    pub folder: PathBuf,
    pub is_complete: bool,
    stages: Vec<StageRuns>,
}

impl Finished {
    /// Marks all stages as ended, so that the next campaign starts anew.
    pub fn end(self) -> Result<(), RunnerError> {
        let ended = self.stages.into_iter().try_for_each(|mut made| made.state.end());
        ended.map_err(RunnerError::could_not_run)
    }
}

/// The time limit of each stage, as a share of the time that learning left. If a stage ends early, the next one gets the rest.
const CATALOGUE: f64 = 0.5;
/// Faults at commands get more time than pairs. A fault at a new command may show a defect that no other fault shows; a pair or
/// another TTL seldom does.
const STRIKES: f64 = 0.84;
const PAIRS: f64 = 0.72;
const OTHER_TTLS: f64 = 0.84;
const MORE_SEEDS: f64 = 0.86;
const WHEN_QUIET: f64 = 0.91;
const CONTROLS: f64 = 0.95;
/// The time limit of the runs without faults that follow learning, as a share of the whole budget.
const WITHOUT_FAULTS: f64 = 0.3;
/// The search waits for a quiet machine for at most this long.
const LONGEST_UNREST: Duration = Duration::from_secs(60);
/// The machine is quiet if this many timers in a row are on time. Each may be late by less than this fraction of a TTL, the
/// limit for a run's timing.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const QUIET: u32 = 20;
/// The length of a run without a script: enough for two or three faults.
const TIME_LIMIT: &str = "12s";
/// The length of a run without a script if holders extend their lock, and so work for longer than its TTL.
const LONG_TIME_LIMIT: &str = "30s";

/// The stages whose runs are not judged.
const LEARNING: [&str; 3] = ["commands", "ttls", "abilities"];

/// The learning stages whose runs only show if they can be made.
const ASKING: [&str; 2] = ["ttls", "abilities"];

/// The scenarios that show abilities that not all clients have.
const ASKS: [(Ability, &str); 4] = [
    (Ability::Threads, SHARES_A_LOCK),
    (Ability::Cancel, CANCELS_A_HOLDER),
    (Ability::Block, "blocked-holder"),
    (Ability::ReleaseAgain, RELEASES_TWICE),
];

const SHARES_A_LOCK: &str = "shared-lock";
const CANCELS_A_HOLDER: &str = "cancelled-holder";
const RELEASES_TWICE: &str = "released-twice";
/// A scenario in which a holder crashes, so that another client takes over its lock.
const LEAVES_A_LOCK: &str = "crash-holder";

/// A scenario in which a script stops a holder for longer than the TTL. Only something in the background can renew its lock
/// then.
const KEEPS_A_HOLDER: &str = "long-work";

struct StageRuns {
    suite: Suite,
    state: SuiteState,
    /// How many runs are missing.
    lacking: usize,
    interrupted: bool,
}

impl StageRuns {
    /// True if a scripted scenario was not run.
    fn lacks_a_script(&self) -> bool {
        let was_played = |name: &str| self.state.runs.iter().any(|run| run.cell == name && run.valid.is_some());
        self.suite.cells.iter().any(|cell| !cell.scenario.nemesis.script.is_empty() && !was_played(&cell.name))
    }

    fn cell(&self, run: &RunOutcome) -> Option<&PlannedCell> {
        self.suite.cells.iter().find(|cell| cell.name == run.cell)
    }

    fn is_without_faults(&self) -> bool {
        self.suite.cells.iter().all(|cell| cell.scenario.nemesis.is_plain())
    }
}

struct Searched {
    cases: Vec<Case>,
    page_folder: PathBuf,
    /// How many runs are still missing.
    not_made: usize,
}

struct Examination {
    request: CampaignRequest,
    console: Console,
    show: ShowStage,
    /// The length of a run without a script. None until it is known.
    time_limit: Option<Length>,
    interrupt: Interrupt,
    leftovers: signals::Leftovers,
    began: Instant,
    /// The time at which learning ended. Learning takes a part of the budget if clients take seconds to start.
    learnt: Instant,
    /// The first run: without faults, with the first TTL.
    plain: Scenario,
    /// The codes of the defects that the progress display has already shown.
    told: RefCell<BTreeSet<String>>,
}

/// A progress display that announces each defect as soon as a run shows it, once in all stages.
struct Announced<'a> {
    shown: Box<dyn SeriesProgress>,
    known: &'a RefCell<BTreeSet<String>>,
}

impl SeriesProgress for Announced<'_> {
    fn starts(&mut self, outlook: Outlook) {
        self.shown.starts(outlook);
    }

    fn starts_again(&mut self, outlook: Outlook) {
        self.shown.starts_again(outlook);
    }

    fn changes_lanes(&mut self, lanes: usize, why: &str) {
        self.shown.changes_lanes(lanes, why);
    }

    fn begins(&mut self, lane: usize, cell: &PlannedCell, seed: u64) {
        self.shown.begins(lane, cell, seed);
    }

    fn says(&mut self, lane: usize, line: String) {
        self.shown.says(lane, line);
    }

    fn ended(&mut self, lane: usize, cell: &PlannedCell, outcome: &RunOutcome, planned: Duration) {
        self.shown.ended(lane, cell, outcome, planned);
        for defect in &outcome.defects {
            let code = defect.split(' ').next().unwrap_or_default();
            if self.known.borrow_mut().insert(code.to_string()) {
                self.shown.finds(defect);
            }
        }
    }

    fn warns(&mut self, text: &str) {
        self.shown.warns(text);
    }

    fn finds(&mut self, defect: &str) {
        self.shown.finds(defect);
    }
}

/// Tries everything within the budget. Rejects an invalid request before the first run.
pub fn examine(
    request: CampaignRequest,
    console: Console,
    show: ShowStage,
) -> LocalBoxFuture<'static, Result<Finished, RunnerError>> {
    Box::pin(async move {
        let began = Instant::now();
        let with = Options { ttl: request.ttl.first().copied(), ..of_every_run(&request.with, None) };
        let plain = with.scenario(&request.workload, "none", 1, Path::new("")).map_err(RunnerError::request)?;
        if plain.cluster_kind().is_simulated() {
            return Err(RunnerError::request(
                "--cluster sim cannot be used here: `library` reads the commands that real servers receive; for redjepsen's own \
                 locks, `redjepsen fuzz` searches in virtual time",
            ));
        }
        let (interrupt, leftovers) = signals::listen(console).map_err(RunnerError::could_not_run)?;
        let (time_limit, learnt, told) = (None, began, RefCell::default());
        let examination =
            Examination { request, console, show, time_limit, interrupt, leftovers, began, learnt, plain, told };
        examination.made().await
    })
}

fn of_every_run(with: &Options, time_limit: Option<Length>) -> Options {
    Options { time_limit: time_limit.or(TIME_LIMIT.parse().ok()), ..with.clone() }
}

impl Examination {
    fn options(&self, ttl: Option<Length>) -> Options {
        Options { ttl, ..self.of_every_run() }
    }

    fn of_every_run(&self) -> Options {
        of_every_run(&self.request.with, self.time_limit)
    }

    async fn made(mut self) -> Result<Finished, RunnerError> {
        (self.console.progress)("recording the library's commands in three runs without faults");
        let learnt = self.make("commands", &self.without_faults(), None).await?;
        if learnt.lacking > 0 {
            return Err(self.broke_off(&learnt));
        }
        let Learnt { sent, operations, phases, holds_long } = learn(&learnt)?;
        if holds_long {
            self.time_limit = LONG_TIME_LIMIT.parse().ok();
        }
        let abilities = self.make("abilities", &self.asking(), None).await?;
        let mut unable = unable(&abilities);
        let by_threads = unable_by_threads(&abilities);
        let twice = runs_of(&abilities, Some(RELEASES_TWICE))?;
        if !twice.is_empty() && !twice.iter().any(|(history, commands)| reach_again(history, commands)) {
            unable.push((Ability::ReleaseAgain, "a second release of its client sends nothing".to_string()));
        }
        let kept = runs_of(&abilities, Some(KEEPS_A_HOLDER))?;
        let upkeep = commands::upkeep(&sent, kept.first());
        let kind = Kind::of(&self.plain, upkeep);
        (self.console.progress)(&format!(
            "{kind}; {} seen in {operations} operations",
            plural(sent.len() as u64, "command")
        ));
        let (fitting, not_about) = self.fitting(&phases, &unable, by_threads.as_deref(), upkeep);
        let (taken, refused, asked) = self.taken_ttls().await?;
        let can = |ability| unable.iter().all(|(unable, _)| *unable != ability);
        let usual = taken.iter().map(|ttl| self.usual(*ttl)).chain([self.queue()]);
        let several = (can(Ability::Threads) && upkeep == RenewalMode::InTheBackground).then(|| self.several_renewed());
        let usual = usual.chain(several).collect();
        let usual = self.make("without-faults", &self.suite_file(usual), Some(self.until(WITHOUT_FAULTS))).await?;
        let mut stages: Vec<StageRuns> = vec![learnt, abilities];
        stages.extend(asked);
        stages.push(usual);
        self.learnt = Instant::now();
        let setting = Setting {
            nodes: self.plain.nodes,
            expires: self.plain.workload.lock.expires(),
            upkeep,
            permits: self.plain.workload.permits,
            cancels: can(Ability::Cancel),
            blocks: can(Ability::Block),
            knows_the_catalogue: true,
        };
        self.request.ttl = taken;
        if holds_long {
            // Start with the shortest TTL, because its operations take the least time and so fit more often.
            self.request.ttl.sort_by_key(|ttl| ttl.absolute().unwrap_or_default());
        }
        let Searched { mut cases, page_folder, not_made } =
            self.search(&kind, &sent, setting, &fitting, &mut stages).await?;

        let compare = Compare { examination: &self, kind: &kind, page_folder: &page_folder };
        stages.extend(compare.judge(&mut cases).await?);
        stages.extend(compare.without_strikes(&mut cases, self.until(CONTROLS)).await?);
        let (name, version) = match &self.plain.workload.library {
            Some(library) => (library.name.clone(), format!(" {}", library.version)),
            None => (self.plain.workload_name.clone(), String::new()),
        };
        let found = shrink::all(&compare, &cases, self.until(1.0)).await?;
        let examined = Examined {
            repeat: format!(
                "redjepsen library {}{}",
                quoted(&self.request.workload),
                typed(self.request.with.to_flags())
            ),
            name: format!("{name}{version}"),
            kind: kind.clone(),
            ttls: self.request.ttl.iter().map(ToString::to_string).collect(),
            sent,
            tried: cases.into_iter().map(|case| case.tried).collect(),
            found,
            not_about,
            refused: refused.into_iter().map(|(ttl, why)| (ttl.to_string(), why)).collect(),
            not_made,
            took: self.began.elapsed(),
            versions: stages.iter().flat_map(|made| versions(made.state.folder(), &made.state.runs)).collect(),
        };
        let is_complete = not_made == 0 && !self.interrupt.is_raised();
        Ok(Finished { examined, folder: page_folder, is_complete, stages })
    }

    /// Runs all scenarios within the budget. Adds the stages to `stages`.
    async fn search(
        &self,
        kind: &Kind,
        sent: &[ObservedCommand],
        setting: Setting,
        fitting: &[String],
        stages: &mut Vec<StageRuns>,
    ) -> Result<Searched, RunnerError> {
        let (first, others) = self.request.ttl.split_at(1);
        let mut cases = Vec::new();
        let catalogue = self.make("catalogue", &self.under(fitting, first), Some(self.until(CATALOGUE))).await?;
        let folder = catalogue.state.folder().to_path_buf();
        let compare =
            |made: &StageRuns, aims: &[Scripted], cases: &mut Vec<Case>| compare::collect(&folder, made, aims, cases);
        // If the lock broke during learning, it broke without a fault.
        for learnt in stages.iter().filter(|made| made.is_without_faults()) {
            compare(learnt, &[], &mut cases)?;
        }
        // If it breaks without a fault again, this limits what all other runs can show.
        let by_itself = self.again(cases.iter().filter(|case| case.tried.outcome() == Validity::Invalid));
        if !by_itself.cells.is_empty() {
            let made = self.make("by-itself", &by_itself, Some(self.until(1.0))).await?;
            compare(&made, &[], &mut cases)?;
            stages.push(made);
        }
        compare(&catalogue, &[], &mut cases)?;
        let knows_the_catalogue = !catalogue.lacks_a_script();
        let takes_over = commands::only_in(&runs_of(&catalogue, Some(LEAVES_A_LOCK))?, sent);
        let more = beside::scenarios(&setting).into_iter().chain(takeovers::takeovers(&takes_over, &setting));
        let strikes = strikes::scenarios(sent, &Setting { knows_the_catalogue, ..setting });
        let mut scripted: Vec<Scripted> = more.chain(strikes).collect();
        let scripts = folder.join("strikes");
        let mut files = self.write_scripts(&scripts, &mut scripted)?;
        let mut not_made = catalogue.lacking + stages.iter().map(|made| made.lacking).sum::<usize>();
        let mut go_on = !catalogue.interrupted;
        stages.push(catalogue);
        if go_on && !files.is_empty() {
            let strikes = self.make("strikes", &self.under(&files, first), Some(self.until(STRIKES))).await?;
            compare(&strikes, &scripted, &mut cases)?;
            (go_on, not_made) = (!strikes.interrupted, not_made + strikes.lacking);
            // The pairs of interest are known once all of these runs are made.
            let mut pairs =
                if strikes.lacking == 0 { pairs::pairs(&withstood(&cases), setting.upkeep) } else { Vec::new() };
            stages.push(strikes);
            if go_on && !pairs.is_empty() {
                let of_pairs = self.write_scripts(&scripts, &mut pairs)?;
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
        (self.console.progress)("comparing with a reference lock of the same kind, in virtual time");
        Compare { examination: self, kind, page_folder: &folder }.in_virtual_time(&mut cases);
        let is_due = |case: &&Case| {
            case.tried.outcome() == Validity::Invalid
                && !case.tried.of_its_kind.is_inherent()
                && !(case.tried.plain && case.tried.is_certain())
        };
        let again = self.again(cases.iter().filter(is_due));
        if go_on && !again.cells.is_empty() {
            let made = self.make("more-seeds", &again, Some(self.until(MORE_SEEDS))).await?;
            compare(&made, &scripted, &mut cases)?;
            not_made += made.lacking;
            stages.push(made);
        }
        if go_on {
            stages.extend(self.when_quiet(&folder, &scripted, &mut cases).await?);
        }
        Ok(Searched { cases, page_folder: folder, not_made })
    }

    /// Repeats scenarios that broke the lock only while the machine was late. The runs are made one after the other, as soon as
    /// the machine is quiet.
    async fn when_quiet(
        &self,
        folder: &Path,
        scripted: &[Scripted],
        cases: &mut Vec<Case>,
    ) -> Result<Option<StageRuns>, RunnerError> {
        let is_late = |case: &&Case| {
            case.tried.outcome() == Validity::Invalid && !case.tried.of_its_kind.is_inherent() && case.tried.is_late()
        };
        let late = self.again(cases.iter().filter(is_late));
        if late.cells.is_empty() || !self.is_quiet().await {
            return Ok(None);
        }
        let late = SuiteFile { seed: late.seed + u64::from(late.runs), ..late };
        let made = self.make_with("when-quiet", &late, Some(self.until(WHEN_QUIET)), Jobs::ALONE).await?;
        compare::collect(folder, &made, scripted, cases)?;
        for case in cases.iter_mut() {
            let was_made = |run: &RunOutcome| made.cell(run).is_some_and(|cell| cell.nemesis == case.tried.scenario);
            case.tried.tried_alone |= made.state.runs.iter().any(was_made);
        }
        Ok(Some(made))
    }

    /// Waits until timers of this machine are on time. Returns false if they are not by the time limit.
    async fn is_quiet(&self) -> bool {
        let until = self.until(WHEN_QUIET).min(Instant::now() + LONGEST_UNREST);
        while Instant::now() < until && !self.interrupt.is_raised() {
            let mut latest = Duration::ZERO;
            for _ in 0..LOOKS {
                let began = Instant::now();
                tokio::time::sleep(BETWEEN_LOOKS).await;
                latest = latest.max(began.elapsed().saturating_sub(BETWEEN_LOOKS));
            }
            if latest * QUIET < self.plain.ttl {
                return true;
            }
        }
        false
    }

    /// The TTLs that the library accepts, the TTLs that it rejects, each with its error, and the runs that asked.
    async fn taken_ttls(&self) -> Result<(Vec<Length>, Vec<(Length, String)>, Option<StageRuns>), RunnerError> {
        let (first, others) = self.request.ttl.split_at(1);
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

    /// The time by which this share of the remaining budget is spent. The remaining budget is what learning has left.
    fn until(&self, share: f64) -> Instant {
        let left = (self.began + self.request.budget).saturating_duration_since(self.learnt);
        self.learnt + left.mul_f64(share)
    }

    fn broke_off(&self, learnt: &StageRuns) -> RunnerError {
        let why = learnt.state.runs.iter().find(|run| run.valid.is_none()).map(|run| run.summary.clone());
        RunnerError::could_not_run(
            why.unwrap_or_else(|| "interrupted before the library's commands were known".to_string()),
        )
    }

    /// Writes the scenarios. Returns their files in the same order. On servers that already run, removes the scenarios whose
    /// faults would change a server.
    fn write_scripts(&self, folder: &Path, scripted: &mut Vec<Scripted>) -> Result<Vec<String>, RunnerError> {
        files::create_folder(folder).map_err(RunnerError::could_not_run)?;
        let mut written = Vec::new();
        for scripted in &*scripted {
            let file = folder.join(format!("{}.toml", scripted.name));
            files::write(&file, &scripted.toml).map_err(RunnerError::could_not_run)?;
            written.push(file.display().to_string());
        }
        if self.plain.cluster_kind().owns_nodes() {
            return Ok(written);
        }
        let options = self.options(self.request.ttl.first().copied());
        let fits = |file: &str| options.scenario(&self.request.workload, file, 1, Path::new("")).is_ok();
        let both = std::mem::take(scripted).into_iter().zip(written).filter(|(_, file)| fits(file));
        let (kept, files) = both.unzip();
        *scripted = kept;
        Ok(files)
    }

    /// Makes the runs of one stage, or resumes them.
    async fn make(&self, stage: &str, file: &SuiteFile, until: Option<Instant>) -> Result<StageRuns, RunnerError> {
        self.make_with(stage, file, until, self.request.jobs).await
    }

    /// Like [`make`](Self::make), with this many jobs at a time.
    async fn make_with(
        &self,
        stage: &str,
        file: &SuiteFile,
        until: Option<Instant>,
        jobs: Jobs,
    ) -> Result<StageRuns, RunnerError> {
        let name = format!("library-{}-{stage}", self.plain.workload_name);
        let plan = |auto| {
            let source = Source { name: &name, file, folder: Path::new("") };
            Suite::plan(&source, auto).map_err(RunnerError::request)
        };
        let prepared = runner::prepare(&plan(ClusterKind::Auto)?, &self.interrupt, self.console.say).await?;
        if let Some(why) = prepared.not_here.values().chain(prepared.not_simulated.values()).next() {
            return Err(RunnerError::could_not_run(why));
        }
        let suite = plan(prepared.auto)?;
        let mut state = open_whole(&self.request.store, &suite, self.request.fresh, self.console.say)?;
        (self.console.progress)(&format!(
            "{}, planned for {}",
            plural(suite.runs() as u64, "run"),
            length(suite.planned_ms() * 1_000_000)
        ));
        let series = Series {
            suite: &suite,
            interrupt: self.interrupt.clone(),
            leftovers: self.leftovers.clone(),
            fail_fast: false,
            until,
            new_clusters: false,
            observe: true,
            jobs,
            not_here: prepared.not_here,
        };
        let shown = (self.show)(LEARNING.contains(&stage));
        let mut progress = Announced { shown, known: &self.told };
        let ended = series.make(&mut state, &mut progress).await?;
        // The stage has its answer even if the client can do nothing that it was asked for.
        if let Ended::CannotRun(reason) = &ended
            && !ASKING.contains(&stage)
        {
            return Err(RunnerError::could_not_run(reason));
        }
        let done = state.runs.iter().filter(|run| run.valid.is_some()).count();
        let lacking = suite.runs().saturating_sub(done);
        Ok(StageRuns { suite, state, lacking, interrupted: matches!(ended, Ended::Interrupted) })
    }
}

/// The faults that the library passed one by one.
fn withstood(cases: &[Case]) -> Vec<FaultPoint> {
    let held = cases.iter().filter(|case| case.tried.outcome() == Validity::Valid);
    let mut withstood: Vec<FaultPoint> = Vec::new();
    for case in held {
        // Some faults occur in two scenarios.
        if let [aim] = &case.aims[..]
            && !withstood.contains(aim)
        {
            withstood.push(aim.clone());
        }
    }
    withstood
}
