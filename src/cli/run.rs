//! `redjepsen run`, and `redjepsen runs`, which a suite starts.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::flags::{self, RunFlags};
use super::{CONSOLE, Exit, Failure, exit_despite, exit_of, look, print, tell};
use crate::report;
use crate::runner::{KeepCluster, Place, RunSettings, Runner, worker};

pub async fn run(flags: RunFlags) -> Result<Exit, Failure> {
    // Everything that can be wrong with the request is found before anything starts.
    let scenario = flags.scenario()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let settings = RunSettings {
        place: Place::Store(flags.store),
        repeat: Some(flags::repeat(&words, scenario.seed)),
        keep_cluster: if flags.keep { KeepCluster::ForUser } else { KeepCluster::No },
        observe: !flags.no_observer,
    };
    let mut made = Runner::new(flags.verbose, CONSOLE)?.make(&scenario, &settings).await?;
    // The verdict first: everything after it can fail, and must not take it along.
    let shown = print(report::summary(&made.checked.report(), look()));
    let written = made.write_report();
    let told = print(report::pointers(&made.checked.facts, written.is_ok()));
    if flags.open && written.is_ok() {
        open(&Path::new(&made.checked.facts.folder).join("report.html"));
    }
    match written.map_err(Failure::could_not_run).and(shown).and(told) {
        Ok(()) => Ok(exit_of(&made.checked)),
        Err(failure) => exit_despite(exit_of(&made.checked), failure),
    }
}

/// Opens a page as the desktop does. Only for who sits in front of it: in a pipe or in CI nothing is opened. That it can't be is
/// no reason for another exit code.
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

/// Runs the scenarios it reads from stdin; answers each with its exit code, a line on stdout.
pub async fn runs() -> Result<Exit, Failure> {
    let mut answer = |checked: &_| {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", exit_of(checked) as u8).and_then(|()| out.flush())
    };
    let last = worker::serve(CONSOLE, &mut answer).await?;
    Ok(last.as_ref().map_or(Exit::Valid, exit_of))
}
