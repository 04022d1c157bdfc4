//! `redjepsen run`, and `redjepsen runs`, which a suite starts.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::console::{Exit, Failure, exit_after, exit_of, look, print, tell};
use super::flags::{self, RunFlags};
use super::progress::CONSOLE;
use super::versions;
use checker::{ClaimVerdict, Validity};
use model::scenario::Issue;
use runner::{Checked, KeepCluster, PendingReport, Place, RunSettings, Runner, worker};

pub async fn run(flags: RunFlags) -> Result<Exit, Failure> {
    if let Some((low, high)) = flags.range()? {
        return versions::walk(flags, &low, &high).await;
    }
    // All errors in the request are found before anything starts.
    let (scenario, issue) = (flags.scenario()?, flags.known_issue()?);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let settings = RunSettings {
        place: Place::Store(flags.store),
        repeat: Some(flags::repeat(&words, scenario.seed)),
        keep_cluster: if flags.keep { KeepCluster::ForUser } else { KeepCluster::No },
        observe: !flags.no_observer,
    };
    let mut made = Runner::new(flags.verbose, CONSOLE)?.make(&scenario, &settings).await?;
    if flags.json {
        // The verdict first: later steps can fail and must not hide it.
        made.checked.play_remedies();
        let shown = print(report::results_json(&made.checked.report()));
        let written = made.write_report(report::Pictures::Painted).map_err(Failure::could_not_run);
        return exit_after(exit_of(&made.checked), written.and(shown));
    }
    let exit = show(&mut made, flags.verbose)?;
    if let Some((name, issue)) = issue {
        print(about(&name, &issue, &made.checked))?;
    }
    if flags.open {
        open(&Path::new(&made.checked.facts.folder).join("report.html"));
    }
    Ok(exit)
}

/// Prints the result of a run, writes its report, and prints where it is.
pub fn show(made: &mut PendingReport, verbose: bool) -> Result<Exit, Failure> {
    // The verdict first: later steps can fail and must not hide it.
    let shown = print(report::summary(&made.checked.report(), look(), verbose));
    let written = made.write_report(report::Pictures::Painted);
    let told = print(report::pointers(&made.checked.facts, written.is_ok()));
    exit_after(exit_of(&made.checked), written.map_err(Failure::could_not_run).and(shown).and(told))
}

/// The result of a run of an issue.
fn about(name: &str, issue: &Issue, checked: &Checked) -> String {
    let library = checked.scenario.as_ref().and_then(|scenario| scenario.workload.library.as_ref());
    let version = library.map_or("", |library| library.version.as_str());
    let breaks = |of: &ClaimVerdict| of.claim == issue.breaks && of.valid == Validity::Invalid;
    let is_it = checked.verdict.valid == Validity::Invalid && checked.verdict.claims.iter().any(breaks);
    let claim = issue.breaks.name();
    let holds = issue.holds.as_ref().map(|side| side.version.as_str());
    let seen = match (version == issue.falls.version, holds == Some(version), checked.verdict.valid) {
        (true, _, _) if is_it => format!("this is {name}: {version} violates {claim}, as expected"),
        (true, _, _) => format!("this is not {name}: {version} should violate {claim}"),
        (_, true, Validity::Valid) => format!("{name} is not in {version}, as expected"),
        (_, true, _) => format!("{name}: {version} should pass, but this run does not show that it does"),
        _ if is_it => format!("{version} violates {claim}, as in {name}"),
        _ => format!("{version} does not violate {claim} as in {name}"),
    };
    format!("\n{seen}\n  {}\n  {} ({})\n", issue.says, issue.url, issue.sides())
}

/// Opens a page in the desktop's browser, but only if standard output is a terminal. A failure does not change the exit code.
fn open(page: &Path) {
    if !io::stdout().is_terminal() {
        return;
    }
    let opened =
        Command::new("xdg-open").arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = opened {
        tell(&format!("redjepsen: --open: xdg-open: {error}; the page is {}", page.display()));
    }
}

/// Makes the runs that it reads from stdin. Answers each with its exit code, on a line of stdout.
pub async fn runs() -> Result<Exit, Failure> {
    let mut answer = |checked: &_| {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", exit_of(checked) as u8).and_then(|()| out.flush())
    };
    let last = worker::serve(CONSOLE, &mut answer).await?;
    Ok(last.as_ref().map_or(Exit::Valid, exit_of))
}
