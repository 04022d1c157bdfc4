//! The result of a suite run as one value: the content of `matrix.json`, for pages and for merging shards.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::file::FoundIn;
use super::outcome::{CellStatus, RunOutcome, Tally};
use super::plan::Suite;
use super::shard::Shard;
use super::trend::{Since, SuiteRun};
use crate::compare::share::share_95;
use base::words;
use checker::LostUpdates;
use model::nemesis::Expectation;
use model::scenario::Library;

/// At most this many characters of a name are in a message.
const SHOWN: usize = 200;

/// The result of a suite run. Fields may be added; existing ones keep their names and meanings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    #[serde(default, skip_serializing_if = "base::words::is_zero")]
    pub simulated: u64,
    pub suite: String,
    pub description: String,
    pub verdict: Overall,
    pub counts: Counts,
    /// RFC 3339.
    pub started: String,
    /// The planned duration of its runs, in seconds, not counting those of other shards.
    pub planned_s: f64,
    /// The total duration of its runs, in seconds.
    pub took_s: f64,
    /// The versions of the environment, by name. Several versions of the same thing are separated by ` / `.
    pub versions: BTreeMap<String, String>,
    /// The shards that it contains; empty if the suite was not split.
    pub shards: Vec<Shard>,
    /// Missing shards, whose cells are not here.
    pub missing_shards: Vec<Shard>,
    /// The command that repeats the whole suite.
    pub repeat: String,
    pub suite_sha256: String,
    /// Like `suite_sha256`, without the content of clients' files. None for shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_sha256: Option<String>,
    /// Identifies the cut into shards, see [`Suite`].
    pub cut_sha256: Option<String>,
    pub cells: Vec<Cell>,
    /// The published libraries under test, with the workload of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<TestedLibrary>,
    /// The workloads that could not run on this machine, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_here: BTreeMap<String, String>,
    /// The workloads that were left out because they cannot be simulated, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, String>,
    /// The changes since the last suite run. None if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
}

/// Adds a version, or several, to the entry of this name in [`Matrix::versions`].
pub fn add_version(versions: &mut BTreeMap<String, String>, name: String, version: &str) {
    let known = versions.entry(name).or_default();
    for version in version.split(BETWEEN_VERSIONS) {
        if known.is_empty() {
            known.push_str(version);
        } else if !known.split(BETWEEN_VERSIONS).any(|known| known == version) {
            known.push_str(BETWEEN_VERSIONS);
            known.push_str(version);
        }
    }
}

/// The separator between several versions of the same thing.
pub const BETWEEN_VERSIONS: &str = " / ";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestedLibrary {
    pub workload: String,
    pub library: Library,
}

/// Facts that are neither in the suite nor in its runs.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    pub shard: Option<Shard>,
    /// RFC 3339.
    pub started: String,
    pub versions: BTreeMap<String, String>,
    /// The command that repeats the whole suite.
    pub repeat: String,
    /// The workloads that cannot run on this machine, each with the reason.
    pub not_here: BTreeMap<String, String>,
    /// The workloads that were left out because they cannot be simulated, each with the reason.
    pub left_out: BTreeMap<String, String>,
}

/// The overall result of a suite run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overall {
    AsExpected,
    /// At least one cell's result certainly contradicts its expectation.
    Surprise,
    /// No cell is unexpected, but not every cell with an expectation was run and confirmed it.
    Unknown,
}

/// The number of cells with each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub as_expected: u64,
    pub surprise: u64,
    pub unknown: u64,
    pub not_run: u64,
    pub observed: u64,
}

/// One workload under one nemesis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub name: String,
    /// Its index in the whole suite, from 0.
    #[serde(default)]
    pub place: u32,
    pub workload: String,
    pub nemesis: String,
    /// The options that differ from the suite's.
    pub with: String,
    pub scripted: bool,
    pub expected: Option<Expectation>,
    pub found: Option<FoundIn>,
    pub standing: CellStatus,
    pub tally: Tally,
    pub numbers: CellNumbers,
    pub runs: Vec<RunOutcome>,
}

/// The comparable numbers of a cell, over all of its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellNumbers {
    /// Over all runs.
    pub lost_updates: LostUpdates,
    /// The 95% confidence interval of the share of lost updates, from the variation between runs ([`share_95`]). None if too
    /// few runs lost updates.
    pub lost_95: Option<(f64, f64)>,
    pub overlaps: u64,
    pub holds: u64,
    pub first_violation_s: Option<Spread>,
    pub without_lock_s: Option<Spread>,
    pub per_second: Option<Spread>,
}

/// The variation of a number between runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

/// Why matrices cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MergeError(String);

impl Matrix {
    pub fn new(suite: &Suite, runs: &[RunOutcome], circumstances: Circumstances) -> Matrix {
        let Circumstances { shard, started, versions, repeat, not_here, left_out } = circumstances;
        let cells = suite.cells.iter().map(|cell| {
            let mut of_cell: Vec<RunOutcome> = runs.iter().filter(|run| run.cell == cell.name).cloned().collect();
            of_cell.sort_by_key(|run| run.run);
            let tally = Tally::of(cell.seeds.len() as u32, cell.expected, of_cell.iter());
            Cell {
                name: cell.name.clone(),
                place: cell.place,
                workload: cell.workload.clone(),
                nemesis: cell.nemesis.clone(),
                with: cell.with.clone(),
                scripted: cell.scripted,
                expected: cell.expected,
                found: cell.found,
                standing: tally.status(cell.expected, cell.found),
                tally,
                numbers: CellNumbers::of(&of_cell),
                runs: of_cell,
            }
        });
        let mut matrix = Matrix {
            simulated: 0,
            suite: suite.name.clone(),
            description: suite.description.clone(),
            verdict: Overall::Unknown,
            counts: Counts::default(),
            started,
            planned_s: suite.planned_ms() as f64 / 1e3,
            took_s: 0.0,
            versions,
            shards: shard.into_iter().collect(),
            missing_shards: Vec::new(),
            repeat,
            suite_sha256: suite.sha256.clone(),
            tests_sha256: suite.tests_sha256(),
            cut_sha256: suite.cut_sha256.clone(),
            cells: cells.collect(),
            libraries: libraries(suite),
            not_here,
            left_out,
            since: None,
        };
        matrix.conclude();
        matrix
    }

    /// Merges shards of one suite. Each comes with the path from the merged folder to its own. Only the runs of a part are
    /// used; all totals are recomputed.
    pub fn join(parts: Vec<(String, Matrix)>) -> Result<Matrix, MergeError> {
        let counted = parts.into_iter().map(|(folder, part)| Ok((folder.clone(), part.recount(&folder)?)));
        let mut parts = counted.collect::<Result<Vec<_>, MergeError>>()?.into_iter();
        let Some((first, mut whole)) = parts.next() else { return Err(MergeError("there is nothing to merge".into())) };
        whole.move_runs(&first);
        let mut homes: BTreeMap<String, String> =
            whole.cells.iter().map(|cell| (cell.name.clone(), first.clone())).collect();
        for (folder, mut part) in parts {
            if whole.mixes_with(&part) {
                let text =
                    "one of them was simulated and the other was not; merge simulated parts and real parts separately";
                return Err(MergeError(format!("the parts in {first} and in {folder} do not belong together: {text}")));
            }
            if (&part.suite, &part.suite_sha256) != (&whole.suite, &whole.suite_sha256) {
                let text = "are not from the same suite, or its files changed in between";
                return Err(MergeError(format!("suite {} and suite {} in {folder} {text}", whole.suite, part.suite)));
            }
            if part.cut_sha256 != whole.cut_sha256 {
                let text = "were divided differently; run all shards with the same N in `--shard I/N` and with the same \
                --durations, or all without it";
                return Err(MergeError(format!("the shards in {first} and in {folder} {text}")));
            }
            if let (Some(one), Some(other)) = (whole.shards.first(), part.shards.first())
                && one.of != other.of
            {
                let text = format!(
                    "come from {} and from {} shards; run all shards with the same N in `--shard I/N`",
                    one.of, other.of
                );
                return Err(MergeError(format!("the shards in {first} and in {folder} {text}")));
            }
            if let Some(twice) = part.cells.iter().find(|cell| homes.contains_key(&cell.name)) {
                let home = &homes[&twice.name];
                return Err(MergeError(format!("the cell `{}` is in {home} and in {folder}", twice.name)));
            }
            homes.extend(part.cells.iter().map(|cell| (cell.name.clone(), folder.clone())));
            part.move_runs(&folder);
            whole.started = whole.started.min(part.started);
            whole.planned_s += part.planned_s;
            whole.shards.extend(part.shards);
            whole.cells.extend(part.cells);
            let known = |tested: &TestedLibrary| whole.libraries.iter().any(|other| other.workload == tested.workload);
            let new: Vec<TestedLibrary> = part.libraries.into_iter().filter(|tested| !known(tested)).collect();
            whole.libraries.extend(new);
            whole.not_here.extend(part.not_here);
            whole.left_out.extend(part.left_out);
            for (name, version) in part.versions {
                add_version(&mut whole.versions, name, &version);
            }
        }
        whole.cells.sort_by_key(|cell| cell.place);
        whole.shards.sort_by_key(|shard| (shard.of, shard.index));
        whole.shards.dedup();
        whole.missing_shards.clear();
        if let Some(&Shard { of, .. }) = whole.shards.first() {
            let all = (1..=of).map(|index| Shard { index, of });
            whole.missing_shards = all.filter(|shard| !whole.shards.contains(shard)).collect();
        }
        whole.since = None;
        whole.conclude();
        Ok(whole)
    }

    /// The part with totals from its runs. An error if no suite run can have written such a file.
    fn recount(mut self, folder: &str) -> Result<Matrix, MergeError> {
        let nonsense = |text: String| MergeError(format!("{folder}: {text}; it was changed by hand"));
        if let Some(shard) = self.shards.iter().find(|shard| !shard.is_possible()) {
            return Err(nonsense(format!("there is no shard {shard}")));
        }
        if self.shards.iter().any(|shard| Some(shard.of) != self.shards.first().map(|first| first.of)) {
            return Err(nonsense("its shards were divided differently".to_string()));
        }
        let mut names = BTreeSet::new();
        for cell in &mut self.cells {
            if !names.insert(cell.name.clone()) {
                return Err(nonsense(format!("the cell `{}` is there twice", words::line(&cell.name, SHOWN))));
            }
            cell.count_anew().map_err(nonsense)?;
        }
        Ok(self)
    }

    fn judged(&self) -> impl Iterator<Item = &RunOutcome> {
        self.cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.valid.is_some())
    }

    /// True if one of them has simulated runs and the other has real ones.
    fn mixes_with(&self, other: &Matrix) -> bool {
        let has = |matrix: &Matrix, simulated: bool| matrix.judged().any(|run| run.simulated == simulated);
        (has(self, true) && has(other, false)) || (has(self, false) && has(other, true))
    }

    fn move_runs(&mut self, folder: &str) {
        for run in self.cells.iter_mut().flat_map(|cell| &mut cell.runs) {
            if !run.folder.is_empty() {
                run.folder = format!("{folder}/{}", run.folder);
            }
        }
    }

    /// The cells with at least one run, for a comparison.
    pub fn as_run(&self) -> SuiteRun<'_> {
        let run = self.cells.iter().filter(|cell| cell.tally.done() > 0);
        SuiteRun { started: &self.started, cells: run.map(|cell| (cell.name.as_str(), cell.standing)).collect() }
    }

    /// Compares it with earlier suite runs, the newest first. Only those with the same command and kind of cluster count.
    pub fn compare(&mut self, earlier: &[Matrix]) {
        let alike = earlier.iter().filter(|older| older.repeat == self.repeat && !older.mixes_with(self));
        let nights: Vec<SuiteRun> = alike.map(Matrix::as_run).collect();
        self.since = Since::of(&self.as_run(), &nights);
    }

    /// Counts the cells, and sets the overall result.
    fn conclude(&mut self) {
        let count = |standing| self.cells.iter().filter(|cell| cell.standing == standing).count() as u64;
        self.counts = Counts {
            as_expected: count(CellStatus::AsExpected),
            surprise: count(CellStatus::Surprise),
            unknown: count(CellStatus::Unknown),
            not_run: count(CellStatus::NotRun),
            observed: count(CellStatus::Observed),
        };
        self.simulated = self.judged().filter(|run| run.simulated).count() as u64;
        self.took_s = self.cells.iter().flat_map(|cell| &cell.runs).map(|run| run.seconds).sum();
        let Counts { as_expected, surprise, unknown, not_run, .. } = self.counts;
        self.verdict = if surprise > 0 {
            Overall::Surprise
        } else if unknown + not_run > 0 || !self.missing_shards.is_empty() || as_expected == 0 {
            Overall::Unknown
        } else {
            Overall::AsExpected
        };
    }

    /// The overall result in one sentence. It begins with the number of simulated runs, if there are any.
    pub fn headline(&self) -> String {
        let Counts { as_expected, surprise, unknown, not_run, observed } = self.counts;
        let held = as_expected + surprise + unknown + not_run;
        let simulated = match (self.simulated, self.judged().count() as u64) {
            (0, _) => String::new(),
            (some, all) if some == all => "Simulated. ".to_string(),
            (some, all) => format!("Simulated in {some} of {all} runs. "),
        };
        let text = match (held, as_expected) {
            (0, _) => "No cell has an expectation, so the suite proves nothing".to_string(),
            (1, 1) => "The only cell is as expected".to_string(),
            (all, same) if all == same => format!("All {all} cells are as expected"),
            (all, same) => format!("{same} of {all} cells are as expected"),
        };
        let mut text = simulated + &text;
        for (number, what) in [
            (surprise, "not as expected"),
            (unknown, "unknown"),
            (not_run, "not run to the end"),
            (observed, "observed, without an expectation"),
        ] {
            if number > 0 {
                text.push_str(&format!("; {number} {what}"));
            }
        }
        if !self.missing_shards.is_empty() {
            let missing: Vec<String> = self.missing_shards.iter().map(Shard::to_string).collect();
            text.push_str(&format!("; missing: shard {}", missing.join(", ")));
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.keys().map(String::as_str).collect();
            text.push_str(&format!(
                "; left out, since they can't be simulated: {}",
                words::line(&names.join(", "), SHOWN)
            ));
        }
        match &self.since {
            Some(since) => format!("{text}. {}", since.sentence()),
            None => text + ".",
        }
    }
}

impl Cell {
    /// Recomputes the totals from the runs. The planned number comes from the file, but is at least the number of runs.
    fn count_anew(&mut self) -> Result<(), String> {
        let mut numbers = BTreeSet::new();
        let wrong = self.runs.iter().find(|run| run.cell != self.name || !numbers.insert(run.run));
        if let Some(run) = wrong {
            let [of, cell] = [&run.cell, &self.name].map(|name| words::line(name, SHOWN));
            return Err(format!("the cell `{cell}` has run {} of `{of}` twice or wrongly", run.run));
        }
        self.runs.sort_by_key(|run| run.run);
        let made = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        self.tally = Tally::of(self.tally.planned.max(made).max(1), self.expected, self.runs.iter());
        self.standing = self.tally.status(self.expected, self.found);
        self.numbers = CellNumbers::of(&self.runs);
        Ok(())
    }
}

fn libraries(suite: &Suite) -> Vec<TestedLibrary> {
    let mut libraries: Vec<TestedLibrary> = Vec::new();
    for cell in &suite.cells {
        let known = libraries.iter().any(|tested| tested.workload == cell.workload);
        if let Some(library) = cell.scenario.workload.library.as_ref().filter(|_| !known) {
            libraries.push(TestedLibrary { workload: cell.workload.clone(), library: library.clone() });
        }
    }
    libraries
}

impl CellNumbers {
    pub fn of(runs: &[RunOutcome]) -> CellNumbers {
        let sum = |number: fn(&RunOutcome) -> u64| runs.iter().map(number).fold(0, u64::saturating_add);
        let (count, acknowledged) = (sum(|run| run.numbers.lost), sum(|run| run.numbers.acknowledged));
        let fraction = if acknowledged > 0 { count as f64 / acknowledged as f64 } else { 0.0 };
        CellNumbers {
            lost_updates: LostUpdates { count, acknowledged, fraction },
            lost_95: share_95(&runs.iter().map(|run| (run.numbers.lost, run.numbers.acknowledged)).collect::<Vec<_>>()),
            overlaps: sum(|run| run.numbers.overlaps),
            holds: sum(|run| run.numbers.holds),
            first_violation_s: Spread::of(runs.iter().filter_map(|run| run.numbers.first_violation_s)),
            without_lock_s: Spread::of(runs.iter().filter_map(|run| run.numbers.without_lock_s)),
            per_second: Spread::of(runs.iter().filter_map(|run| run.numbers.per_second)),
        }
    }
}

impl Spread {
    /// The spread of these numbers, with the lower of two medians. None if there are none.
    pub fn of(numbers: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { least, median: sorted[(sorted.len() - 1) / 2], most })
    }
}
