//! Plans the cells of a suite file: with all options, checked before anything starts, and with their planned duration.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::file::{Block, Expected, FoundIn, Names, SuiteFile};
use base::files;
use base::words::hex;
use model::nemesis::Expectation;
use model::plan::{Action, Plan, seed_after};
use model::scenario::catalogue::{self, CatalogueError};
use model::scenario::{self, Options, Scenario, WorkloadClient};
use model::topology::{ClusterKind, KINDS};

/// A suite whose cells can all be run.
#[derive(Clone, Debug)]
pub struct Suite {
    pub name: String,
    pub description: String,
    pub cells: Vec<PlannedCell>,
    /// SHA-256 of everything that determines the runs: cells, workloads and nemeses. In hexadecimal.
    pub sha256: String,
    /// SHA-256 of the cut into shards, in hexadecimal. None if the suite was not cut.
    pub cut_sha256: Option<String>,
}

/// One workload under one nemesis, to be run one or more times.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCell {
    /// Unique in the suite, for users and for the state file: `redlock under pause with ttl 400ms`.
    pub name: String,
    /// Its index in the whole suite, from 0. Shards keep it.
    pub place: u32,
    pub workload: String,
    pub nemesis: String,
    /// The options that differ from the suite's.
    pub with: String,
    /// True if the nemesis is a script that causes one situation step by step.
    pub scripted: bool,
    pub expected: Option<Expectation>,
    /// How many runs must find a violation, if one is expected.
    pub found: Option<FoundIn>,
    /// `redjepsen run` with all its arguments but the seed. None if only a saved scenario can express the run.
    pub command: Option<String>,
    /// The scenario of its first run.
    pub scenario: Scenario,
    pub seeds: Vec<u64>,
    /// The planned duration of all its runs, in milliseconds.
    pub planned_ms: u64,
}

impl PlannedCell {
    /// The scenario and the expectation as text, for the hash.
    fn described(&self) -> String {
        let PlannedCell { name, expected, found, seeds, scenario, .. } = self;
        format!("{name}\n{expected:?}\n{found:?}\n{seeds:?}\n{scenario:?}\n")
    }
}

/// A suite file and its origin.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub file: &'a SuiteFile,
    /// The folder that paths in the file are relative to.
    pub folder: &'a Path,
}

/// Why a suite cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {text}")]
pub struct SuiteError {
    /// The suite, and if known the block and the cell.
    place: String,
    pub text: String,
}

/// More runs than this are taken for a typo.
const MOST_RUNS: u32 = 1000;

impl Suite {
    /// Plans all cells. `auto` is the kind of cluster for scenarios that accept any kind; [`ClusterKind::Auto`] until it is known.
    pub fn plan(source: &Source, auto: ClusterKind) -> Result<Suite, SuiteError> {
        let Source { name, file, folder } = *source;
        let refuse = |text: String| Err(SuiteError { place: format!("suite {name}"), text });
        let mut cells: Vec<PlannedCell> = Vec::new();
        // Named cells win over implied ones, wherever they are in the file. The matrix keeps the file's order.
        let mut order: Vec<(usize, Cow<Block>)> = Vec::new();
        for (number, block) in file.cells.iter().enumerate() {
            match of_issues(block) {
                Ok(None) => order.push((number, Cow::Borrowed(block))),
                Ok(Some(blocks)) => order.extend(blocks.into_iter().map(|block| (number, Cow::Owned(block)))),
                Err(error) => return refuse(format!("block {}: {error}", number + 1)),
            }
        }
        order.sort_by_key(|(_, block)| block.is_open());
        let mut blocks = Vec::new();
        for (number, block) in order {
            let block = &*block;
            let refuse = |cell: &str, text: String| {
                Err(SuiteError { place: format!("suite {name}: block {}{cell}", number + 1), text })
            };
            if block.libraries && block.workload.is_some() {
                return refuse(
                    "",
                    "`libraries` chooses workloads if none is named; leave out either `libraries` or `workload`".into(),
                );
            }
            let pairs = match pairs(block, folder) {
                Ok(pairs) => pairs,
                Err(error) => return refuse("", error.to_string()),
            };
            for [workload, nemesis] in pairs {
                let place = format!(" ({workload} under {nemesis})");
                for swept in block.combinations() {
                    let planned = match cell(source, block, &swept, [&workload, &nemesis], auto) {
                        Ok(planned) => planned,
                        Err(text) => return refuse(&place, text),
                    };
                    let same = |(other, of): (&PlannedCell, &usize)| {
                        *of != number && (&other.workload, &other.nemesis) == (&planned.workload, &planned.nemesis)
                    };
                    if !(block.is_open() && cells.iter().zip(&blocks).any(same)) {
                        cells.push(planned);
                        blocks.push(number);
                    }
                }
            }
        }
        let mut in_order: Vec<_> = blocks.into_iter().zip(cells).collect();
        in_order.sort_by_key(|(block, _)| *block);
        // Cells that differed only in options that the user overrides are now equal. Keep one of them.
        if file.overrides != Options::default() {
            let mut names = BTreeSet::new();
            in_order.retain(|(_, cell)| names.insert(cell.name.clone()));
        }
        let mut hash = Sha256::new();
        for (_, cell) in &in_order {
            hash.update(cell.described());
        }
        // If the user's client has changed, the suite is another one.
        let clients = in_order.iter().filter_map(|(_, cell)| cell.scenario.workload.client.as_ref());
        for file in clients.flat_map(WorkloadClient::own_files).collect::<BTreeSet<_>>() {
            hash.update(files::content(&file).unwrap_or_default());
        }
        let placed = (0..).zip(in_order).map(|(place, (_, cell))| PlannedCell { place, ..cell });
        let cells: Vec<PlannedCell> = placed.collect();
        if cells.is_empty() {
            return refuse("there are no `[[cells]]`, so nothing would be run".into());
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|cell| !names.insert(&cell.name)) {
            let text = "appears twice; ask for more `runs` of it, or give one of them other options";
            return refuse(format!("the cell `{}` {text}", twice.name));
        }
        let sha256 = hex(&hash.finalize());
        Ok(Suite { name: name.to_string(), description: file.description.clone(), cells, sha256, cut_sha256: None })
    }

    /// SHA-256 of the suite without the content of clients' files, in hexadecimal. None for a shard.
    pub fn tests_sha256(&self) -> Option<String> {
        let hash = self.cells.iter().fold(Sha256::new(), |hash, cell| hash.chain_update(cell.described()));
        self.cut_sha256.is_none().then(|| hex(&hash.finalize()))
    }

    /// The planned duration of the suite, in milliseconds.
    pub fn planned_ms(&self) -> u64 {
        self.cells.iter().map(|cell| cell.planned_ms).sum()
    }

    pub fn runs(&self) -> usize {
        self.cells.iter().map(|cell| cell.seeds.len()).sum()
    }
}

impl PlannedCell {
    /// The command that repeats the run with this seed. None if only the run's saved scenario can express it.
    pub fn repeat(&self, seed: u64) -> Option<String> {
        Some(format!("{} --seed {seed}", self.command.as_ref()?))
    }
}

impl Block {
    /// The option sets of the block. Each workload and nemesis gets a cell for each of them.
    fn combinations(&self) -> Vec<Options> {
        let swept = self.sweep.combinations();
        let Some(Names(servers)) = &self.servers else { return swept };
        let on = |server: &String| Options { server: vec![server.clone()], ..Options::default() };
        swept.iter().flat_map(|swept| servers.iter().map(|server| on(server).or(swept))).collect()
    }

    /// True if the block leaves out its workloads or its nemeses.
    fn is_open(&self) -> bool {
        self.workload.is_none() || self.nemesis.is_none()
    }
}

/// The blocks that a block with `issues` expands to. Two for each known issue, if a version of it is fixed. None for any other
/// block.
fn of_issues(block: &Block) -> Result<Option<Vec<Block>>, String> {
    if !block.issues {
        return Ok(None);
    }
    let Block { workload: None, nemesis: None, expect: None, found: None, libraries: false, .. } = block else {
        return Err(
            "`issues` sets the workloads, nemeses and expectations; beside it, keep only `runs` and `with`".to_string()
        );
    };
    let mut blocks = Vec::new();
    for (file, _) in catalogue::ISSUES {
        let (_, issue) = scenario::known_issue(file).map_err(|error| error.to_string())?;
        let sides = [(Some(&issue.falls), Expected::Violation), (issue.holds.as_ref(), Expected::Valid)];
        for (side, expected) in sides {
            let Some(side) = side else { continue };
            let (workload, with) = issue.run(side);
            blocks.push(Block {
                workload: Some(Names(vec![workload])),
                nemesis: Some(Names(vec![issue.nemesis.clone()])),
                expect: Some(expected),
                with: with.or(&block.with),
                issues: false,
                ..block.clone()
            });
        }
    }
    Ok(Some(blocks))
}

/// The workloads and nemeses of a block, by name or path.
fn pairs(block: &Block, folder: &Path) -> Result<Vec<[String; 2]>, CatalogueError> {
    let named = |names: &Names| names.0.iter().map(|name| in_folder(name, folder)).collect::<Vec<_>>();
    let mut pairs = Vec::new();
    match (&block.workload, &block.nemesis) {
        (Some(workloads), Some(nemeses)) => {
            for workload in named(workloads) {
                pairs.extend(named(nemeses).into_iter().map(|nemesis| [workload.clone(), nemesis]));
            }
        }
        (None, Some(nemeses)) => {
            for nemesis in named(nemeses) {
                let (name, file) = catalogue::nemesis(&nemesis)?;
                let mut workloads: BTreeSet<String> = file.expect.into_keys().collect();
                for (workload, _) in catalogue::WORKLOADS {
                    if catalogue::workload(workload)?.1.expect.contains_key(&name) {
                        workloads.insert(workload.to_string());
                    }
                }
                let workloads = of_kind(workloads.into_iter().collect(), block)?;
                pairs.extend(workloads.into_iter().map(|workload| [workload, nemesis.clone()]));
            }
        }
        (workloads, None) => {
            let all = || of_kind(catalogue::WORKLOADS.iter().map(|(name, _)| name.to_string()).collect(), block);
            for workload in workloads.as_ref().map_or_else(all, |names| Ok(named(names)))? {
                let (name, file) = catalogue::workload(&workload)?;
                let mut nemeses: BTreeSet<String> = file.expect.into_keys().collect();
                for (nemesis, _) in catalogue::NEMESES {
                    if catalogue::nemesis(nemesis)?.1.expect.contains_key(&name) {
                        nemeses.insert(nemesis.to_string());
                    }
                }
                pairs.extend(nemeses.into_iter().map(|nemesis| [workload.clone(), nemesis]));
            }
        }
    }
    Ok(pairs)
}

/// If a block names no workloads, the kind that it means: published libraries, or all others.
fn of_kind(workloads: Vec<String>, block: &Block) -> Result<Vec<String>, CatalogueError> {
    let mut asked_for = Vec::new();
    for workload in workloads {
        if catalogue::workload(&workload)?.1.library.is_some() == block.libraries {
            asked_for.push(workload);
        }
    }
    Ok(asked_for)
}

/// A path, made relative to the suite's folder; names, phrases and absolute paths stay as they are.
fn in_folder(names: &str, folder: &Path) -> String {
    let one = |name: &str| {
        let is_path = !name.contains(' ') && (name.contains('/') || name.ends_with(".toml"));
        if is_path { folder.join(name).display().to_string() } else { name.to_string() }
    };
    names.split(',').map(|name| one(name.trim())).collect::<Vec<_>>().join(",")
}

fn cell(
    source: &Source,
    block: &Block,
    swept: &Options,
    [workload, nemesis]: [&str; 2],
    auto: ClusterKind,
) -> Result<PlannedCell, String> {
    let file = source.file;
    let runs = block.runs.unwrap_or(file.runs);
    if !(1..=MOST_RUNS).contains(&runs) {
        return Err(format!("`runs = {runs}` is out of range; it must be between 1 and {MOST_RUNS}"));
    }
    if file.seed.checked_add(u64::from(runs) - 1).is_none() {
        return Err(format!("`seed = {}` is too large for {runs} runs, which use consecutive seeds", file.seed));
    }
    let instead = &file.overrides;
    let with = instead.or(swept).or(&block.with).or(&file.with);
    let of_suite = instead.or(&file.with).to_flags();
    let own = with.to_flags().into_iter().filter(|said| !of_suite.contains(said));
    let own: Vec<String> = own.map(|(name, value)| format!("{name} {value}")).collect();

    let mut with = with.in_folder(source.folder);
    let mut scenario = with.scenario(workload, nemesis, file.seed, source.folder).map_err(|error| error.to_string())?;
    let plan = Plan::draw(&scenario).map_err(|error| error.to_string())?;
    scenario.cluster.kind = match scenario.cluster_kind() {
        ClusterKind::Auto | ClusterKind::Any if auto != ClusterKind::Auto => auto,
        kind => kind,
    };
    with.cluster = Some(scenario.cluster.kind);
    let expected = match block.expect {
        Some(said) => said.expectation(),
        None => expected_by_files(&scenario)?,
    };
    scenario.expect = expected;
    let scripted = !scenario.nemesis.script.is_empty();
    let found = match (expected, block.found) {
        (Some(Expectation::Violation), Some(said)) => Some(said),
        (Some(Expectation::Violation), None) => Some(if scripted { FoundIn::Every } else { FoundIn::Some }),
        (_, Some(_)) if block.expect.is_some() => {
            return Err("`found` says how often an expected violation must occur, but `expect` expects none".into());
        }
        _ => None,
    };
    let named = format!("{} under {}", scenario.workload_name, scenario.nemesis_name);
    let with_own = own.join(", ");
    Ok(PlannedCell {
        name: if own.is_empty() { named } else { format!("{named} with {with_own}") },
        // Set when all cells are known.
        place: 0,
        workload: scenario.workload_name.clone(),
        nemesis: scenario.nemesis_name.clone(),
        with: with_own,
        scripted,
        expected,
        found,
        command: with.command(workload, nemesis, expected),
        seeds: (0..u64::from(runs)).map(|run| seed_after(file.seed, run)).collect(),
        planned_ms: u64::from(runs) * (run_ms(&scenario, &plan) + around_ms(scenario.cluster.kind)),
        scenario,
    })
}

/// The expectation in the files of the nemesis and of the workload.
fn expected_by_files(scenario: &Scenario) -> Result<Option<Expectation>, String> {
    let by_nemesis = scenario.nemesis.expect.get(&scenario.workload_name);
    let by_workload = scenario.workload.expect.get(&scenario.nemesis_name);
    match (by_nemesis, by_workload) {
        (Some(one), Some(other)) if one != other => {
            Err("the files of the workload and of the nemesis expect different results; give `expect` in the cell"
                .into())
        }
        (one, other) => Ok(one.or(other).copied()),
    }
}

/// The planned time in which clients work. A script ends after its last step. Its waits are assumed to end at once, except one
/// wait until a lock expires. (The estimate is within one or two seconds of the real time.)
fn run_ms(scenario: &Scenario, plan: &Plan) -> u64 {
    let time_limit = scenario.time_limit.as_millis() as u64;
    if plan.script.is_empty() {
        return time_limit;
    }
    let steps = plan.script.iter().map(|step| match &step.action {
        Action::Wait { ms } => *ms,
        Action::Await { within_ms, or_go_on: true, .. } => within_ms / 2,
        Action::Inject { .. } | Action::Heal { .. } => STEP_MS,
        _ => 0,
    });
    (steps.sum::<u64>() + scenario.ttl.as_millis() as u64).min(time_limit)
}

/// The time to inject or heal a fault.
const STEP_MS: u64 = 100;

/// The time of a run before and after its clients work. If the kind of cluster is unknown, that of the slowest kind.
fn around_ms(cluster: ClusterKind) -> u64 {
    let slowest = || KINDS.iter().map(|kind| kind.around_ms).max().unwrap_or_default();
    cluster.named().map_or_else(slowest, |kind| kind.around_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_ones_own_that_was_changed_makes_another_suite() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let workload = catalogue::WORKLOADS.iter().find(|(name, _)| *name == "redis-py").unwrap().1;
        let workload = workload.replace("clients/python/adapters/redis-py.py", "mine.py");
        write("mine.toml", &workload.replace("clients/python/requirements/redis-py.txt", "mine.txt"));
        write("mine.txt", "redis==8.1.0\n");
        write("suite.toml", "[[cells]]\nworkload = \"./mine.toml\"\nnemesis = \"none\"\n");
        let sha256 = |adapter: &str| {
            write("mine.py", adapter);
            let (name, file, from) =
                super::super::file::open(&folder.path().join("suite.toml").to_string_lossy()).unwrap();
            let source = Source { name: &name, file: &file, folder: &from };
            let suite = Suite::plan(&source, ClusterKind::LOCAL).unwrap();
            let sources = suite.cells[0].scenario.workload.client.as_ref().unwrap().sources();
            (suite.sha256.clone(), sources.unwrap(), suite.tests_sha256().unwrap())
        };
        let before = sha256("print(1)");
        assert_eq!(sha256("print(1)"), before);
        let after = sha256("print(2)");
        assert!(after.0 != before.0 && after.1 != before.1, "{before:?} {after:?}");
        assert_eq!(after.2, before.2, "the tests are the same");
    }
}
