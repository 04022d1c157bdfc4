//! `redjepsen run`, and `redjepsen runs`, which a suite starts.

use std::io::{self, Write};

use super::flags::{self, RunFlags};
use super::{CONSOLE, Exit, Failure, exit_despite, exit_of, look, print};
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
    };
    let mut made = Runner::new(flags.verbose, CONSOLE)?.make(&scenario, &settings).await?;
    // The verdict first: everything after it can fail, and must not take it along.
    let json = flags.json;
    let shown = match json {
        true => print(report::results_json(&made.checked.report())),
        false => print(report::summary(&made.checked.report(), look())),
    };
    let written = made.write_report();
    let told = match json {
        true => Ok(()),
        false => print(report::pointers(&made.checked.facts, written.is_ok())),
    };
    match written.map_err(Failure::could_not_run).and(shown).and(told) {
        Ok(()) => Ok(exit_of(&made.checked)),
        Err(failure) => exit_despite(exit_of(&made.checked), failure),
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
