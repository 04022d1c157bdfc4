//! The words for cells and their numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::{CellAccount, Shown};
use base::words::{count, length, line, percent, plural};
use checker::{Remark, Validity};
use model::nemesis::Expectation;
use suite::file::FoundIn;
use suite::matrix::{Cell, CellNumbers, Matrix, Overall, Spread};
use suite::outcome::{CellStatus, RunOutcome, Timing};

/// Shown if there is no value.
pub const NOTHING: &str = "–";

/// The verdict in a word.
pub fn verdict(overall: Overall) -> &'static str {
    match overall {
        Overall::AsExpected => "AS EXPECTED",
        Overall::Surprise => "UNEXPECTED",
        Overall::Unknown => "UNKNOWN",
    }
}

/// The headline of a sweep.
pub fn side_by_side(matrix: &Matrix) -> String {
    let simulated = if matrix.simulated > 0 { "Simulated. " } else { "" };
    format!("{simulated}{} side by side, without expectations.", plural(matrix.cells.len() as u64, "cell"))
}

pub fn expected(expected: Option<Expectation>, found: Option<FoundIn>) -> &'static str {
    match (expected, found) {
        (None, _) => "nothing",
        (Some(Expectation::Valid), _) => "valid",
        (Some(Expectation::Violation), Some(FoundIn::Some)) => "violation in some runs",
        (Some(Expectation::Violation), _) => "violation in every run",
    }
}

/// A cell's status, as shown beside its runs.
pub fn note(cell: &Cell) -> &'static str {
    match cell.standing {
        CellStatus::AsExpected => "as expected",
        CellStatus::Observed => "observed",
        CellStatus::Surprise if cell.tally.misdiagnosed > 0 => "a different defect from the known one",
        CellStatus::Surprise | CellStatus::Unknown if cell.expected == Some(Expectation::Valid) => "expected: pass",
        CellStatus::Surprise | CellStatus::Unknown => "expected: fail",
        CellStatus::NotRun if cell.tally.done() > 0 => "some runs missing",
        CellStatus::NotRun => "",
    }
}

/// The result of a cell's runs, with numbers: `failed 2 of 3, 1 unknown`.
pub fn seen(cell: &Cell) -> String {
    let tally = cell.tally;
    let mut text = match Shown::of(cell) {
        Shown::Broken => format!("failed {} of {}", tally.invalid, tally.done()),
        Shown::Held => format!("passed {} of {}", tally.valid, tally.done()),
        Shown::Unknown if tally.valid > 0 => format!("passed {} of {}", tally.valid, tally.done()),
        Shown::Unknown => "nothing proven".to_string(),
        Shown::NotRun => Shown::NotRun.word().to_string(),
    };
    for (number, what) in [(tally.unknown, "unknown"), (tally.could_not_run, "could not run")] {
        if number > 0 {
            text.push_str(&format!(", {number} {what}"));
        }
    }
    let again = cell.runs.iter().filter(|run| run.first_attempt.is_some()).count();
    if again > 0 {
        text.push_str(&format!(", {again} rerun alone"));
    }
    if tally.done() > 0 && tally.done() < tally.planned {
        text.push_str(&format!(", {} to go", tally.planned - tally.done()));
    }
    text
}

/// The effect of busy processors on a run: why it was rerun alone, or how late its timers were. None if there was none.
pub fn timing(run: &RunOutcome) -> Option<String> {
    let late = |timing: Timing| Some(format!("the machine was too busy: {}", timing.why_not_kept()?));
    let now = late(run.timing);
    let Some(first) = &run.first_attempt else { return now };
    let verdict = match first.valid {
        Some(Validity::Valid) => "was valid",
        Some(Validity::Invalid) => "showed a violation",
        Some(Validity::Unknown) => "was unknown",
        None => "could not be run",
    };
    let why = late(first.timing).unwrap_or_else(|| "other runs were active at the same time".to_string());
    let now = now.map_or(String::new(), |now| format!("; in the rerun as well, {now}"));
    Some(format!("rerun alone with the same seed: the first attempt {verdict}, and {why}{now}"))
}

/// Each advisory with remarks: the number of runs, and the worst case.
pub fn advisories(matrix: &Matrix) -> Vec<String> {
    let made = || matrix.cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.valid.is_some());
    let ids = distinct(made().flat_map(|run| &run.advisories).map(|remark| remark.id.as_str()));
    let told = ids.iter().filter_map(|id| {
        let found = made().filter_map(|run| Some((run, run.advisories.iter().find(|remark| remark.id == *id)?)));
        let found: Vec<(&RunOutcome, &Remark)> = found.collect();
        // If several are equally bad, the first one.
        let (run, worst) = found.iter().rev().max_by_key(|(_, remark)| (remark.severity, remark.count))?;
        let (title, runs) = (&worst.title, plural(made().count() as u64, "run"));
        Some(format!(
            "Advisory \"{title}\": violated in {} of {runs}, for example in {}, seed {}: {}",
            found.len(),
            run.cell,
            run.seed,
            worst.text
        ))
    });
    told.collect()
}

/// `12 of 610`; [`NOTHING`] if nothing was acknowledged.
pub fn lost(numbers: &CellNumbers) -> String {
    match numbers.lost_updates.acknowledged {
        0 => NOTHING.to_string(),
        acknowledged => format!("{} of {}", count(numbers.lost_updates.count), count(acknowledged)),
    }
}

/// The share with its confidence interval, if there is one: `2% (1.1 to 3.4)`. [`NOTHING`] for a scripted scenario, whose
/// share reflects the length of the script.
pub fn share(cell: &Cell) -> String {
    let numbers = &cell.numbers;
    if cell.scripted || numbers.lost_updates.acknowledged == 0 {
        return NOTHING.to_string();
    }
    let end = |share: f64| percent(share).trim_end_matches("%").to_string();
    let interval = numbers.lost_95.map_or(String::new(), |(low, high)| format!(" ({} to {})", end(low), end(high)));
    format!("{}{interval}", percent(numbers.lost_updates.fraction))
}

pub fn overlaps(numbers: &CellNumbers) -> String {
    if numbers.holds == 0 {
        NOTHING.to_string()
    } else {
        format!("{} among {}", count(numbers.overlaps), plural(numbers.holds, "hold"))
    }
}

/// A duration over several runs: the median, and the extremes if they differ.
pub fn seconds(spread: Option<Spread>) -> String {
    let text = |seconds: f64| length((seconds.max(0.0) * 1e9) as u64);
    spread_text(spread, text)
}

pub fn rate(spread: Option<Spread>) -> String {
    spread_text(spread, |rate| format!("{rate:.1}"))
}

fn spread_text(spread: Option<Spread>, text: impl Fn(f64) -> String) -> String {
    let Some(Spread { least, median, most }) = spread else { return NOTHING.to_string() };
    let (least, median, most) = (text(least), text(median), text(most));
    if least == most { median } else { format!("{median} ({least} to {most})") }
}

/// The duration and the environment, for the head of a page.
pub fn about(matrix: &Matrix) -> Vec<String> {
    let runs: usize = matrix.cells.iter().map(|cell| cell.runs.len()).sum();
    let mut about = vec![
        format!("suite {}", matrix.suite),
        matrix.started.clone(),
        format!("{} of {} cells", count(runs as u64) + if runs == 1 { " run" } else { " runs" }, matrix.cells.len()),
        format!("{} of runs", length((matrix.took_s * 1e9) as u64)),
    ];
    about.extend((!matrix.shards.is_empty()).then(|| {
        let shards: Vec<String> = matrix.shards.iter().map(ToString::to_string).collect();
        format!("shard {}", shards.join(", "))
    }));
    about
}

/// Distinct names, in order of first appearance.
pub fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).map(str::to_string).collect()
}

/// True if this run makes its cell alarming: it is unexpected or unknown.
pub fn alarms(cell: &Cell, run: &RunOutcome) -> bool {
    let as_expected = match cell.expected {
        Some(Expectation::Valid) => Some(Validity::Valid),
        Some(Expectation::Violation) => Some(Validity::Invalid),
        None => run.valid,
    };
    run.valid.is_none() || run.valid != as_expected
}

/// Why a cell was not completed, if that is known. None if it was.
pub fn why_not_run(cell: &Cell, matrix: &Matrix) -> Option<String> {
    if cell.standing != CellStatus::NotRun {
        return None;
    }
    match matrix.not_here.get(&cell.workload) {
        Some(reason) => Some(format!("skipped on this machine: {}", line(reason, 300))),
        None if cell.runs.is_empty() => Some("the suite ended before this cell".to_string()),
        None => Some("the suite ended before all runs of this cell".to_string()),
    }
}

/// Each reason why cells were not run, or left out, with their number: `etcd (5 cells): skipped on this machine: no etcd on PATH`.
pub fn not_run(matrix: &Matrix, cells: &[CellAccount]) -> Vec<String> {
    let mut reasons: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for cell in cells {
        if let Some(why) = &cell.not_run {
            *reasons.entry((&cell.workload, why)).or_default() += 1;
        }
    }
    let line_of = |(workload, why): (&str, &str), number: u64| {
        format!("{} ({}): {why}", line(workload, 60), plural(number, "cell"))
    };
    let not_run = reasons.into_iter().map(|(reason, number)| line_of(reason, number));
    let mut left_out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (workload, why) in &matrix.left_out {
        left_out.entry(why).or_default().push(workload);
    }
    let left_out = left_out.iter().map(|(why, names)| format!("{}, left out: {}", names.join(", "), line(why, 300)));
    not_run.chain(left_out).collect()
}
