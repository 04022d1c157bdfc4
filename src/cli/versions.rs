//! `redjepsen run --library-version 7.0..8.1`: makes the same run with several published versions of a library, to find the
//! first version with a different verdict.
//!
//! The first and the last version run first. If they differ, bisection finds the change, as in `git bisect`. With `--each`,
//! every version runs. A version without a verdict (unknown, or not installable) is skipped and named.

use super::console::{Exit, Failure, exit_after, look, print, tell};
use super::flags::{self, RunFlags};
use super::progress::CONSOLE;
use base::words::{line, plural};
use checker::Validity;
use model::scenario::{Package, Scenario, in_range, quoted};
use report::verdict_word;
use runner::{KeepCluster, Place, RunSettings, Runner};

/// If the first versions, this many, cannot be run, the cause is probably not the version.
const IN_VAIN: usize = 3;
/// At most this many characters of a headline are shown.
const LONGEST: usize = 200;

struct VersionResult {
    /// None if the run could not be made.
    valid: Option<Validity>,
    /// Its headline, or why the run could not be made.
    text: String,
}

pub async fn walk(flags: RunFlags, low: &str, high: &str) -> Result<Exit, Failure> {
    let seed = flags.seed()?;
    // Check everything but the version first: wrong flags are found before a registry is asked.
    let pinned = flags.scenario_with(None, seed)?;
    let package = package_of(&pinned)?;
    let mut runner = Runner::new(flags.verbose, CONSOLE)?;
    let published = runner::published(&package, &runner.interrupt()).await?;
    let versions = in_range(&published, low, high);
    if versions.len() < 2 {
        let text = format!(
            "--library-version {low}..{high}: published versions of {package} in this range: {}",
            found(&versions)
        );
        return Err(Failure::arguments(text));
    }
    tell(&format!("{package} has {} from {low} to {high}", plural(versions.len() as u64, "version")));
    let mut search = Bisection { shown: versions.iter().map(|_| None).collect(), each: flags.each };
    let mut failed = 0;
    while let Some(place) = search.next() {
        let version = &versions[place];
        let scenario = flags.scenario_with(Some(version), seed)?;
        let shown = match one(&mut runner, &flags, &scenario).await {
            Ok(shown) => shown,
            Err(failure) if runner.interrupt().is_raised() => return Err(failure),
            Err(failure) => {
                failed += 1;
                if failed == IN_VAIN && search.shown.iter().flatten().all(|shown| shown.valid.is_none()) {
                    return Err(failure);
                }
                VersionResult { valid: None, text: failure.text }
            }
        };
        tell(&row(version, &shown));
        search.shown[place] = Some(shown);
    }
    let rows = versions.iter().zip(&search.shown).filter_map(|(version, shown)| Some(row(version, shown.as_ref()?)));
    let (text, exit) = search.outcome(&versions);
    exit_after(exit, print(rows.map(|row| row + "\n").collect::<String>() + &format!("\n{text}\n")))
}

fn package_of(scenario: &Scenario) -> Result<Package, Failure> {
    let package = scenario.workload.library.as_ref().and_then(|library| library.package.clone());
    package.ok_or_else(|| {
        Failure::arguments(format!(
            "--library-version: workload {} has no `package`, so redjepsen cannot look up its versions",
            scenario.workload_name
        ))
    })
}

fn found(versions: &[String]) -> String {
    match versions {
        [] => "none".to_string(),
        some => format!("only {}; to run it, give it alone", some.join(" ")),
    }
}

/// Runs one version, and writes its report.
async fn one(runner: &mut Runner, flags: &RunFlags, scenario: &Scenario) -> Result<VersionResult, Failure> {
    let version = scenario.workload.library.as_ref().map(|library| library.version.clone()).unwrap_or_default();
    let settings = RunSettings {
        place: Place::Store(flags.store.clone()),
        repeat: Some(repeat(&version, scenario.seed)),
        keep_cluster: KeepCluster::No,
        observe: !flags.no_observer,
    };
    let mut made = runner.make(scenario, &settings).await?;
    let text = made.checked.report().summary.headline.clone();
    made.write_report(report::Pictures::Painted).map_err(Failure::could_not_run)?;
    Ok(VersionResult { valid: Some(made.checked.verdict.valid), text })
}

/// The command that repeats the run of one version: the user's command line with that version in place of the range.
fn repeat(version: &str, seed: u64) -> String {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--each").collect();
    let flag = "--library-version";
    if let Some(place) = words.iter().position(|word| word == flag) {
        words.splice(place + 1..(place + 2).min(words.len()), [quoted(version)]);
    }
    if let Some(word) = words.iter_mut().find(|word| word.starts_with(&format!("{flag}="))) {
        *word = format!("{flag}={}", quoted(version));
    }
    flags::repeat(&words, seed)
}

fn row(version: &str, shown: &VersionResult) -> String {
    match shown.valid {
        Some(valid) => {
            let (word, class) = verdict_word(valid);
            let padded = format!("{word:<8}");
            format!("{version:<14}  {}  {}", look().verdict(&padded, class), line(&shown.text, LONGEST))
        }
        None => format!("{version:<14}  not run   {}", line(&shown.text, LONGEST)),
    }
}

/// Chooses the next version to run, and stores the results.
struct Bisection {
    /// The result of each version, in order. None if it was not run.
    shown: Vec<Option<VersionResult>>,
    each: bool,
}

impl Bisection {
    fn verdict(&self, place: usize) -> Option<Validity> {
        self.shown[place].as_ref()?.valid.filter(|valid| *valid != Validity::Unknown)
    }

    /// The first and the last index with a verdict.
    fn ends(&self) -> Option<(usize, usize)> {
        let mut with = (0..self.shown.len()).filter(|place| self.verdict(*place).is_some());
        let first = with.next()?;
        Some((first, with.next_back().unwrap_or(first)))
    }

    /// The indexes of the last version with the first verdict and of the first version with a different one. None if all are
    /// equal.
    fn change(&self) -> Option<(usize, usize)> {
        let (first, _) = self.ends()?;
        let before = self.verdict(first);
        let differs = |place: &usize| self.verdict(*place).is_some_and(|valid| Some(valid) != before);
        let after = (first..self.shown.len()).find(differs)?;
        let last = (first..after).rev().find(|place| self.verdict(*place).is_some())?;
        Some((last, after))
    }

    fn next(&self) -> Option<usize> {
        let open = |place: &usize| self.shown[*place].is_none();
        let all = 0..self.shown.len();
        // From each end inwards to the first version with a verdict.
        let low = all.clone().find(|place| open(place) || self.verdict(*place).is_some()).filter(open);
        let high = all.clone().rev().find(|place| open(place) || self.verdict(*place).is_some()).filter(open);
        if let Some(end) = low.or(high) {
            return Some(end);
        }
        if self.each {
            return all.clone().find(open);
        }
        let (low, high) = self.change()?;
        let middle = low.midpoint(high);
        (low..high).filter(open).min_by_key(|place| place.abs_diff(middle))
    }

    fn outcome(&self, versions: &[String]) -> (String, Exit) {
        let word = |place: usize| self.verdict(place).map_or("", |valid| verdict_word(valid).0);
        let Some((first, last)) = self.ends().filter(|(first, last)| first < last) else {
            return (
                "Fewer than two versions have a verdict, so there is nothing to compare.".to_string(),
                Exit::Unknown,
            );
        };
        match self.change() {
            Some((before, after)) => {
                let between = versions[before + 1..after].join(" ");
                let gap = if between.is_empty() {
                    String::new()
                } else {
                    format!(" The versions between them proved nothing: {between}.")
                };
                let text = format!(
                    "{} is the first version with a different verdict: {}, and {} before it was {}.{gap}",
                    versions[after],
                    word(after),
                    versions[before],
                    word(before)
                );
                (text, Exit::Valid)
            }
            None => {
                let run = self.shown.iter().flatten().count();
                let rest = if run < versions.len() {
                    "; versions between them were not run; to run them, use --each"
                } else {
                    ""
                };
                let ends = [first, last].map(|place| versions[place].as_str()).join(" and ");
                (format!("Nothing changed: {ends} are both {}{rest}.", word(first)), Exit::Invalid)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Validity::{Invalid, Unknown, Valid};

    /// Runs the search on versions with these results. Returns the indexes that were run, the message, and the exit code.
    fn played(each: bool, truth: &[Option<Validity>]) -> (Vec<usize>, String, Exit) {
        let versions: Vec<String> = (0..truth.len()).map(|minor| format!("1.{minor}")).collect();
        let mut search = Bisection { shown: truth.iter().map(|_| None).collect(), each };
        let mut run = Vec::new();
        while let Some(place) = search.next() {
            run.push(place);
            search.shown[place] = Some(VersionResult { valid: truth[place], text: String::new() });
        }
        let (text, exit) = search.outcome(&versions);
        (run, text, exit)
    }

    #[test]
    fn the_first_version_that_changed_is_found_by_halving() {
        for mended in 1..20 {
            let truth: Vec<_> = (0..20).map(|place| Some(if place < mended { Invalid } else { Valid })).collect();
            let (run, text, exit) = played(false, &truth);
            assert!(run.len() <= 7, "{run:?}");
            assert!(text.starts_with(&format!("1.{mended} is the first")), "{text}");
            assert_eq!(exit, Exit::Valid);
        }
    }

    #[test]
    fn versions_that_show_nothing_are_passed_by_and_named() {
        let truth = [None, Some(Invalid), Some(Unknown), None, Some(Valid), Some(Unknown)];
        let (_, text, exit) = played(false, &truth);
        assert_eq!(
            text,
            "1.4 is the first version with a different verdict: VALID, and 1.1 before it was INVALID. The versions between them proved nothing: 1.2 1.3."
        );
        assert_eq!(exit, Exit::Valid);
        let (run, _, exit) = played(false, &[None, Some(Unknown), Some(Valid), None]);
        assert_eq!((run.len(), exit), (4, Exit::Unknown));
    }

    #[test]
    fn where_the_ends_agree_nothing_is_claimed_of_what_lies_between() {
        let truth = [Some(Valid), Some(Invalid), Some(Valid)];
        let (run, text, exit) = played(false, &truth);
        assert_eq!((run, exit), (vec![0, 2], Exit::Invalid));
        assert!(text.contains("versions between them were not run"), "{text}");
        let (run, text, exit) = played(true, &truth);
        assert_eq!((run.len(), exit), (3, Exit::Valid));
        assert!(text.starts_with("1.1 is the first"), "{text}");
        let (_, text, exit) = played(true, &[Some(Valid), Some(Valid)]);
        assert_eq!((text.as_str(), exit), ("Nothing changed: 1.0 and 1.1 are both VALID.", Exit::Invalid));
    }
}
