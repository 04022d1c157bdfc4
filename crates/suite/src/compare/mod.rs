//! Tests if one side's runs are worse than the other's. A side is a run, a cell of a suite, or a suite run.
//!
//! The comparison is of runs, never of updates: one late write may wipe out several updates, and one fault affects many. So
//! updates of one run depend on each other, and counting them one by one would find differences where there are none. A run
//! counts with one number: 0 if it is valid, otherwise 1 plus the share of lost updates. So a cell is worse if it fails in more
//! runs, or if failed runs lose more. Runs without a verdict do not count.
//!
//! Each direction is tested by itself. A single cell is worse if the probability of such ranks by chance is at most 5%. With
//! several cells, half of that is for all of them together, by their numbers of failed runs. The other half is for each cell,
//! with Holm's correction ([`ranks`]). If no outcome of so few runs could be that unlikely, the result is "too few": it does
//! not mean that nothing changed. One result needs no test: a cell that must hold, held in A and failed in B. A violation is
//! certain.
//!
//! Latency and throughput are shown too, but decide nothing: they depend on the machine.

pub mod ranks;
pub mod share;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use self::ranks::Stratum;
use self::share::share_95;
use crate::outcome::Sample;
use checker::{Remark, Validity, wilson_95};

/// The probability of reporting a difference where there is none.
pub const ALPHA: f64 = 0.05;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    pub about: About,
    pub cells: Vec<Runs>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    pub name: String,
    /// True if no violation is expected.
    pub must_hold: bool,
    pub runs: Vec<Sample>,
    /// The common settings of these runs, by name.
    pub setting: Vec<(String, String)>,
}

/// Both sides, and the result. Fields may be added; existing ones keep their names and meanings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Worse, not worse, too few runs, or not comparable. Not comparable: A shows something that B does not.
    pub verdict: Change,
    /// Why the sides are not comparable. Reported with every verdict.
    pub reasons: Vec<String>,
    pub a: About,
    pub b: About,
    /// The probability that B ranks as much worse, or better, by chance, over all cells.
    pub p_worse: f64,
    pub p_better: f64,
    pub cells: Vec<Cell>,
    /// The advisories with remarks from any run. They decide nothing.
    pub advisories: Vec<Advised>,
    /// The differences between the sides, by name: versions first, then settings. A dash means no value.
    pub differences: Vec<Difference>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct About {
    /// The name, as the user typed it.
    pub name: String,
    /// The kind of side: `night of suite smoke`.
    pub what: String,
    /// RFC 3339; may be empty.
    pub started: String,
    pub versions: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    pub name: String,
    pub a: String,
    pub b: String,
}

/// An advisory, and the number of runs with remarks in the paired cells of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advised {
    pub id: String,
    pub title: String,
    pub a: u64,
    pub b: u64,
}

/// A cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Its name. If the two cells have different names, both.
    pub name: String,
    pub change: Change,
    /// True if it held in A, failed in B, and no violation is expected.
    pub broke: bool,
    /// True if it failed in A, passed in each run of B, and no violation is expected. So few runs may not prove a difference.
    pub passes_again: bool,
    pub a: Numbers,
    pub b: Numbers,
    /// The probability that B ranks as much worse, or better, by chance, after Holm's correction for all cells.
    pub p_worse: f64,
    pub p_better: f64,
    /// The share of failed runs in B minus that in A, with a 95% interval. It is Newcombe's (1998, "Interval estimation for
    /// the difference between independent proportions", Statistics in Medicine 17, 873-890, method 10).
    pub more_broken: Option<(f64, f64, f64)>,
}

/// The result of a comparison, overall or for one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Worse,
    /// Only an overall result.
    NotWorse,
    /// Only a result for one cell.
    Better,
    /// The runs show no difference, which does not prove that there is none.
    NoDifference,
    /// No outcome of so few runs could show a difference.
    TooFew,
    /// One side has no run with a verdict.
    NotComparable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub runs: u64,
    /// The number of runs with a verdict.
    pub judged: u64,
    pub broken: u64,
    /// Wilson's interval of the share of failed runs among those with a verdict.
    pub broken_95: Option<(f64, f64)>,
    pub lost: u64,
    pub acknowledged: u64,
    /// The share of lost updates. None if no update was acknowledged.
    pub lost_share: Option<f64>,
    /// Its 95% interval, from the variation between runs. None if too few runs lost updates ([`share`]).
    pub lost_95: Option<(f64, f64)>,
    pub overlaps: u64,
    /// The median of the runs' medians, in milliseconds.
    pub median_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub per_second: Option<f64>,
}

impl Change {
    pub fn word(self) -> &'static str {
        match self {
            Change::Worse => "worse",
            Change::NotWorse => "not worse",
            Change::Better => "better",
            Change::NoDifference => "no difference shown",
            Change::TooFew => "too few runs",
            Change::NotComparable => "not comparable",
        }
    }
}

/// Compares the sides. Cells are paired by name. If each side has one cell, these two are paired.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let (pairs, mut reasons) = pairs(a, b);
    let scores = |runs: &Runs| runs.runs.iter().filter_map(Sample::score).collect::<Vec<f64>>();
    let strata: Vec<Stratum> = pairs.iter().map(|(a, b)| Stratum::new(&scores(a), &scores(b))).collect();
    let judged: Vec<(u64, u64)> = pairs.iter().map(|(a, b)| (scores(a).len() as u64, scores(b).len() as u64)).collect();
    let one = pairs.len() == 1;
    let alpha = if one { ALPHA } else { ALPHA / 2.0 };
    // Shares are sums of many terms: a rounding error must not decide at exactly one twentieth.
    let at_most = |chance: f64, alpha: f64| chance <= alpha + 1e-9;
    let of_each = |test: fn(&[Stratum]) -> f64| {
        let comparable = |place: &usize| judged[*place].0 > 0 && judged[*place].1 > 0;
        let places: Vec<usize> = (0..strata.len()).filter(comparable).collect();
        let chances: Vec<f64> = places.iter().map(|place| test(std::slice::from_ref(&strata[*place]))).collect();
        let mut all = vec![1.0; strata.len()];
        places.into_iter().zip(ranks::holm(&chances)).for_each(|(place, chance)| all[place] = chance);
        all
    };
    let (worse, better) = (of_each(ranks::worse), of_each(ranks::better));
    let broken = |runs: &Runs| scores(runs).iter().map(|score| score.min(1.0)).collect::<Vec<f64>>();
    let together = match one {
        true => strata.clone(),
        false => pairs.iter().map(|(a, b)| Stratum::new(&broken(a), &broken(b))).collect(),
    };
    let (p_worse, p_better) = (ranks::worse(&together), ranks::better(&together));
    let mut cells = Vec::new();
    for (place, (of_a, of_b)) in pairs.iter().enumerate() {
        let (a, b) = (Numbers::of(of_a), Numbers::of(of_b));
        let broke = of_a.must_hold && of_b.must_hold && a.judged > 0 && a.broken == 0 && b.broken > 0;
        let passes_again = of_a.must_hold && of_b.must_hold && b.judged > 0 && b.broken == 0 && a.broken > 0;
        let change = match judged[place] {
            (0, _) | (_, 0) => Change::NotComparable,
            _ if broke => Change::Worse,
            _ if at_most(worse[place], alpha) => Change::Worse,
            _ if at_most(better[place], alpha) => Change::Better,
            // Judge the cell by itself: if Holm's correction leaves any room depends on the other cells.
            here if !at_most(ranks::least(&[here]), alpha) => Change::TooFew,
            _ => Change::NoDifference,
        };
        if let (1.., 0) = judged[place] {
            reasons.push(format!("`{}` has no run with a verdict in B", of_b.name));
        }
        cells.push(Cell {
            name: if of_a.name == of_b.name { of_a.name.clone() } else { format!("{} → {}", of_a.name, of_b.name) },
            change,
            broke,
            passes_again,
            a,
            b,
            p_worse: worse[place],
            p_better: better[place],
            more_broken: more_broken(&scores(of_a), &scores(of_b)),
        });
    }
    let is_worse = at_most(p_worse, alpha) || cells.iter().any(|cell| cell.change == Change::Worse);
    let verdict = if mixes(&pairs) {
        reasons.insert(0, "one side was simulated, the other was not".to_string());
        Change::NotComparable
    } else if is_worse {
        Change::Worse
    } else if !reasons.is_empty() || judged.iter().all(|(a, b)| *a == 0 || *b == 0) {
        Change::NotComparable
    } else if !at_most(ranks::least(&judged), alpha) {
        Change::TooFew
    } else {
        Change::NotWorse
    };
    if verdict == Change::NotComparable && reasons.is_empty() {
        let has = |side: fn(&(u64, u64)) -> u64| judged.iter().any(|pair| side(pair) > 0);
        reasons.push(match (has(|(a, _)| *a), has(|(_, b)| *b)) {
            (false, true) => {
                "A has no run with a verdict, so B cannot be compared with A; rerun A until its verdict is known"
                    .to_string()
            }
            (false, false) => "neither A nor B has a run with a verdict".to_string(),
            _ => "no cell has a run with a verdict in both A and B".to_string(),
        });
    }
    Comparison {
        verdict,
        reasons,
        a: a.about.clone(),
        b: b.about.clone(),
        p_worse,
        p_better,
        cells,
        advisories: advisories(&pairs),
        differences: differences(&a.about, &b.about, &pairs),
    }
}

fn advisories(pairs: &[(&Runs, &Runs)]) -> Vec<Advised> {
    let mut all: Vec<Advised> = Vec::new();
    for (of, is_b) in pairs.iter().flat_map(|(a, b)| [(a, false), (b, true)]) {
        for Remark { id, title, .. } in of.runs.iter().flat_map(|run| &run.advisories) {
            let place = all.iter().position(|known| known.id == *id).unwrap_or_else(|| {
                all.push(Advised { id: id.clone(), title: title.clone(), a: 0, b: 0 });
                all.len() - 1
            });
            let Advised { a, b, .. } = &mut all[place];
            *(if is_b { b } else { a }) += 1;
        }
    }
    all
}

/// The pairs of cells with the same name, and why other cells cannot be compared.
fn pairs<'s>(a: &'s Side, b: &'s Side) -> (Vec<(&'s Runs, &'s Runs)>, Vec<String>) {
    if let ([one], [other]) = (&a.cells[..], &b.cells[..]) {
        return (vec![(one, other)], Vec::new());
    }
    let of_b: BTreeMap<&str, &Runs> = b.cells.iter().map(|cell| (cell.name.as_str(), cell)).collect();
    let mut reasons = Vec::new();
    let mut pairs = Vec::new();
    for cell in &a.cells {
        match of_b.get(cell.name.as_str()) {
            Some(other) => pairs.push((cell, *other)),
            None if cell.runs.iter().any(|run| run.score().is_some()) => {
                reasons.push(format!("`{}` is not in B", cell.name));
            }
            None => {}
        }
    }
    if pairs.is_empty() {
        reasons = vec!["A and B have no cell in common".to_string()];
    }
    (pairs, reasons)
}

fn mixes(pairs: &[(&Runs, &Runs)]) -> bool {
    let simulated = |runs: &Runs| runs.runs.iter().map(|run| run.simulated).collect::<BTreeSet<bool>>();
    pairs.iter().any(|(a, b)| {
        let both: BTreeSet<bool> = simulated(a).union(&simulated(b)).copied().collect();
        both.len() > 1
    })
}

/// Newcombe's interval of the difference.
fn more_broken(a: &[f64], b: &[f64]) -> Option<(f64, f64, f64)> {
    let broken = |scores: &[f64]| scores.iter().filter(|score| **score > 0.0).count() as u64;
    let share = |scores: &[f64]| broken(scores) as f64 / scores.len() as f64;
    let (low_a, high_a) = wilson_95(broken(a), a.len() as u64)?;
    let (low_b, high_b) = wilson_95(broken(b), b.len() as u64)?;
    let (of_a, of_b) = (share(a), share(b));
    let more = of_b - of_a;
    let low = more - ((of_b - low_b).powi(2) + (high_a - of_a).powi(2)).sqrt();
    let high = more + ((high_b - of_b).powi(2) + (of_a - low_a).powi(2)).sqrt();
    Some((more, low.max(-1.0), high.min(1.0)))
}

/// The differences between the sides. Settings are compared only for a single pair, since the cells of several pairs are named
/// by their settings.
fn differences(a: &About, b: &About, pairs: &[(&Runs, &Runs)]) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut put = |name: &str, a: Option<&String>, b: Option<&String>| {
        let text = |side: Option<&String>| side.filter(|text| !text.is_empty()).map_or("–", String::as_str).to_string();
        if a != b {
            differences.push(Difference { name: name.to_string(), a: text(a), b: text(b) });
        }
    };
    for name in a.versions.keys().chain(b.versions.keys()).collect::<BTreeSet<_>>() {
        put(name, a.versions.get(name), b.versions.get(name));
    }
    if let [(one, other)] = pairs {
        let find = |runs: &'_ Runs, name: &str| {
            runs.setting.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
        };
        let mut names: Vec<&String> = Vec::new();
        for (name, _) in one.setting.iter().chain(&other.setting) {
            // A file's remarks on its lock or nemesis are not settings.
            if !names.contains(&name) && !["its source", "its story"].contains(&name.as_str()) {
                names.push(name);
            }
        }
        for name in names {
            put(name, find(one, name).as_ref(), find(other, name).as_ref());
        }
    }
    differences
}

impl Numbers {
    pub fn of(runs: &Runs) -> Numbers {
        let judged: Vec<&Sample> = runs.runs.iter().filter(|run| run.score().is_some()).collect();
        let broken = judged.iter().filter(|run| run.valid == Some(Validity::Invalid)).count() as u64;
        let sum = |number: fn(&Sample) -> u64| judged.iter().map(|run| number(run)).fold(0, u64::saturating_add);
        let (lost, acknowledged) = (sum(|run| run.numbers.lost), sum(|run| run.numbers.acknowledged));
        let median = |number: &dyn Fn(&Sample) -> Option<f64>| median(judged.iter().filter_map(|run| number(run)));
        let share = (acknowledged > 0).then(|| lost as f64 / acknowledged as f64);
        Numbers {
            runs: runs.runs.len() as u64,
            judged: judged.len() as u64,
            broken,
            broken_95: wilson_95(broken, judged.len() as u64),
            lost,
            acknowledged,
            lost_share: share,
            lost_95: share_95(
                &judged.iter().map(|run| (run.numbers.lost, run.numbers.acknowledged)).collect::<Vec<_>>(),
            ),
            overlaps: sum(|run| run.numbers.overlaps),
            median_ms: median(&|run| run.numbers.latency_ms.map(|(median, _)| median)),
            p99_ms: median(&|run| run.numbers.latency_ms.map(|(_, p99)| p99)),
            per_second: median(&|run| run.numbers.per_second),
        }
    }
}

/// The median; of two middle values, the lower one.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome;

    fn run(lost: u64) -> Sample {
        let valid = if lost > 0 { Validity::Invalid } else { Validity::Valid };
        let numbers = outcome::Numbers { lost, acknowledged: 100, ..outcome::Numbers::default() };
        Sample { valid: Some(valid), numbers, ..Sample::default() }
    }

    fn cell(name: &str, lost: &[u64]) -> Runs {
        Runs { name: name.into(), runs: lost.iter().map(|lost| run(*lost)).collect(), ..Runs::default() }
    }

    fn side(cells: Vec<Runs>) -> Side {
        Side { about: About::default(), cells }
    }

    fn verdict(a: &[u64], b: &[u64]) -> Change {
        compare(&side(vec![cell("one", a)]), &side(vec![cell("another", b)])).verdict
    }

    #[test]
    fn the_same_is_not_worse_and_worse_is() {
        assert_eq!(verdict(&[0, 0, 0], &[0, 0, 0]), Change::NotWorse);
        assert_eq!(verdict(&[5, 7, 3, 4], &[7, 5, 4, 3]), Change::NotWorse);
        assert_eq!(verdict(&[0, 0, 0], &[3, 1, 2]), Change::Worse);
        // Failed on both sides, and B loses more.
        assert_eq!(verdict(&[1, 2, 1], &[30, 35, 40]), Change::Worse);
        assert_eq!(verdict(&[30, 35, 40], &[1, 2, 1]), Change::NotWorse);
        // One failure in three may be chance.
        assert_eq!(verdict(&[0, 0, 0], &[0, 0, 5]), Change::NotWorse);
    }

    #[test]
    fn too_few_runs_say_so_whatever_they_show() {
        for (a, b) in [(&[0, 0][..], &[0, 0][..]), (&[0, 0], &[9, 9]), (&[0], &[50]), (&[0], &[0]), (&[0], &[9, 9, 9])]
        {
            assert_eq!(verdict(a, b), Change::TooFew, "{a:?} {b:?}");
        }
        // One run of A suffices against 19 of B.
        assert_eq!(verdict(&[0], &[9; 19]), Change::Worse);
        // A thousand lost updates in one run still count as one run.
        let mut one = side(vec![cell("one", &[1])]);
        let numbers = &mut one.cells[0].runs[0].numbers;
        (numbers.lost, numbers.acknowledged) = (1000, 100_000);
        assert_eq!(compare(&side(vec![cell("one", &[0])]), &one).verdict, Change::TooFew);
    }

    #[test]
    fn with_many_cells_one_may_differ_by_chance_and_five_may_not() {
        let cells = |broken: usize| {
            (0..30).map(move |number| cell(&number.to_string(), if number < broken { &[4, 4, 4] } else { &[0, 0, 0] }))
        };
        let night = |broken| side(cells(broken).collect());
        assert_eq!(compare(&night(0), &night(0)).verdict, Change::NotWorse);
        assert_eq!(compare(&night(0), &night(1)).verdict, Change::NotWorse);
        let worse = compare(&night(0), &night(5));
        assert_eq!((worse.verdict, worse.p_worse < 1e-6), (Change::Worse, true));
        assert_eq!(compare(&night(5), &night(0)).verdict, Change::NotWorse);
        // With a single run of each cell, 30 cells together suffice.
        let single = |lost: u64| side((0..30).map(|number| cell(&number.to_string(), &[lost])).collect());
        assert_eq!(compare(&single(0), &single(1)).verdict, Change::Worse);
        assert_eq!(compare(&single(0), &single(0)).verdict, Change::NotWorse);
        assert!(compare(&single(0), &single(1)).cells.iter().all(|cell| cell.change == Change::TooFew));
    }

    #[test]
    fn a_lock_that_must_hold_and_broke_is_worse_without_a_test() {
        let held = |lost: &[u64], must_hold| side(vec![Runs { must_hold, ..cell("one", lost) }]);
        let broke = compare(&held(&[0], true), &held(&[1], true));
        assert_eq!((broke.verdict, broke.cells[0].broke), (Change::Worse, true));
        let passes_again = |a: &Side, b: &Side| compare(a, b).cells[0].passes_again;
        let again = |b: &[u64]| passes_again(&held(&[1, 1], true), &held(b, true));
        assert_eq!((again(&[0, 0]), again(&[0, 1])), (true, false));
        assert!(!passes_again(&held(&[1, 1], false), &held(&[0, 0], false)), "it is expected to fail");
        assert_eq!(compare(&held(&[0], false), &held(&[1], false)).verdict, Change::TooFew);
        assert_eq!(compare(&held(&[1], true), &held(&[1], true)).verdict, Change::TooFew, "it was broken before");
        assert_eq!(compare(&held(&[1], true), &held(&[0], true)).verdict, Change::TooFew);
    }

    #[test]
    fn advisories_are_counted_on_both_sides_and_decide_nothing() {
        let mut b = side(vec![cell("one", &[0; 4])]);
        let a = side(vec![cell("one", &[0; 4])]);
        assert_eq!(compare(&a, &b).advisories, []);
        for run in &mut b.cells[0].runs[..3] {
            let (id, title, text) = ("busy-polling".to_string(), "It rests".to_string(), String::new());
            run.advisories.push(Remark { id, title, count: 1, of: 1, severity: 0, disturbed: false, text });
        }
        let found = compare(&a, &b);
        let counted: Vec<_> = found.advisories.iter().map(|of| (of.id.as_str(), of.a, of.b)).collect();
        assert_eq!((found.verdict, counted), (Change::NotWorse, vec![("busy-polling", 0, 3)]));
    }

    #[test]
    fn what_b_does_not_show_is_no_pass() {
        let both = || vec![cell("one", &[0; 4]), cell("two", &[0; 4])];
        let missing = compare(&side(both()), &side(vec![cell("one", &[0; 4])]));
        assert_eq!(missing.verdict, Change::NotComparable);
        assert!(missing.reasons[0].contains("`two` is not in B"), "{:?}", missing.reasons);
        let mut unknown = side(both());
        unknown.cells[1].runs.iter_mut().for_each(|run| run.valid = Some(Validity::Unknown));
        let silent = compare(&side(both()), &unknown);
        assert_eq!(silent.verdict, Change::NotComparable);
        assert!(silent.reasons[0].contains("no run with a verdict"), "{:?}", silent.reasons);
        // In the other direction, B shows more than A.
        assert_eq!(compare(&unknown, &side(both())).verdict, Change::NotWorse);
        assert_eq!(compare(&side(both()), &side(vec![cell("three", &[0])])).verdict, Change::NotComparable);
        let mut simulated = side(both());
        simulated.cells.iter_mut().flat_map(|cell| &mut cell.runs).for_each(|run| run.simulated = true);
        assert_eq!(compare(&side(both()), &simulated).verdict, Change::NotComparable);
        assert_eq!(compare(&simulated, &simulated).verdict, Change::NotWorse);
    }

    #[test]
    fn intervals_know_that_updates_of_one_run_belong_together() {
        let numbers = Numbers::of(&cell("one", &[0, 20, 1, 3]));
        let (low, high) = numbers.lost_95.unwrap();
        let (narrow, wide) = wilson_95(24, 400).unwrap();
        assert!(low < narrow && high > wide, "{low} to {high} of runs, {narrow} to {wide} of updates");
        assert_eq!((numbers.broken, numbers.judged, numbers.lost), (3, 4, 24));
        assert_eq!(Numbers::of(&cell("one", &[7])).lost_95, None, "a single run does not vary");
        // Newcombe's own example (a): 56/70 and 48/80, 0.0524 to 0.3339.
        let scores = |broken: usize, of: usize| (0..of).map(|n| f64::from(u8::from(n < broken))).collect::<Vec<_>>();
        let (more, low, high) = more_broken(&scores(48, 80), &scores(56, 70)).unwrap();
        assert!(
            (more - 0.2).abs() < 1e-9 && (low - 0.0524).abs() < 5e-5 && (high - 0.3339).abs() < 5e-5,
            "{low} {high}"
        );
    }
}
