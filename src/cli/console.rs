//! Shared by all commands: exit codes, and output for the user.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use base::words;
use checker::Validity;
use model::nemesis::Expectation;
use report::Look;
use runner::{Checked, RunnerError};

/// The exit codes, as in Jepsen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Valid = 0,
    Invalid = 1,
    Unknown = 2,
    BadArguments = 254,
    CouldNotRun = 255,
}

/// Why a command failed: one line for the user, and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub(super) exit: Exit,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn arguments(error: impl ToString) -> Failure {
        Failure { exit: Exit::BadArguments, text: error.to_string() }
    }

    pub(super) fn could_not_run(error: impl ToString) -> Failure {
        Failure { exit: Exit::CouldNotRun, text: error.to_string() }
    }
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Failure {
        match error {
            RunnerError::Request(text) => Failure::arguments(text),
            RunnerError::CouldNotRun(text) => Failure::could_not_run(text),
        }
    }
}

/// Prints a message to standard error. Messages may contain texts of clients, servers and files, so control characters are
/// escaped. Write errors are ignored: the program must go on to heal and clean up.
pub(super) fn tell(text: &str) {
    let _ = io::stderr().write_all(format!("{}\n", words::lines(text)).as_bytes());
}

pub(super) static QUIET: AtomicBool = AtomicBool::new(false);

/// Prints a progress message, unless `--quiet` was given.
pub(super) fn tell_progress(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        tell(text);
    }
}

/// Exits the program at once.
pub(super) fn leave() -> ! {
    std::process::exit(i32::from(Exit::CouldNotRun as u8))
}

/// Prints to standard output. A reader that closes the pipe early, like `head`, is not an error.
pub(super) fn print(text: impl fmt::Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::could_not_run(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

pub(super) fn look() -> Look {
    let out = io::stdout();
    if !out.is_terminal() {
        return Look::PLAIN;
    }
    let columns = rustix::termios::tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_col));
    // A terminal of unknown width reports 0.
    Look { color: !no_color() && !is_dumb(), width: Some(if columns == 0 { 80 } else { columns }) }
}

/// True if the user wants no colours (no-color.org).
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// True if the terminal supports neither colours nor overwriting a line.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
}

/// True if progress can be shown on one line of standard error that is overwritten.
pub(super) fn is_live() -> bool {
    io::stderr().is_terminal() && !is_dumb() && !QUIET.load(Ordering::Relaxed)
}

/// The exit code of a command after its verdict. Showing or writing the result may have failed, for example on a full disk. A
/// violation keeps its exit code anyway. So no code between a verdict and this call may return early.
pub(super) fn exit_after(exit: Exit, done: Result<(), Failure>) -> Result<Exit, Failure> {
    match done {
        Err(failure) if exit == Exit::Invalid => tell(&format!("redjepsen: {}", failure.text)),
        other => other?,
    }
    Ok(exit)
}

pub(super) fn exit_of(checked: &Checked) -> Exit {
    exit_for(checked.verdict.valid, checked.scenario.as_ref().and_then(|scenario| scenario.expect))
}

/// The exit code for a verdict, given the expected result.
pub(super) fn exit_for(valid: Validity, expected: Option<Expectation>) -> Exit {
    match (valid, expected) {
        (Validity::Invalid, Some(Expectation::Violation)) => Exit::Valid,
        (Validity::Valid | Validity::Unknown, Some(Expectation::Violation)) => Exit::Invalid,
        (Validity::Valid, _) => Exit::Valid,
        (Validity::Invalid, _) => Exit::Invalid,
        (Validity::Unknown, _) => Exit::Unknown,
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_and_expectations_become_exit_codes() {
        use Expectation::{Valid, Violation};
        for (valid, expected, exit) in [
            (Validity::Valid, None, Exit::Valid),
            (Validity::Valid, Some(Valid), Exit::Valid),
            (Validity::Valid, Some(Violation), Exit::Invalid),
            (Validity::Invalid, None, Exit::Invalid),
            (Validity::Invalid, Some(Valid), Exit::Invalid),
            (Validity::Invalid, Some(Violation), Exit::Valid),
            (Validity::Unknown, None, Exit::Unknown),
            (Validity::Unknown, Some(Valid), Exit::Unknown),
            // The run shows nothing, and that must not count as the absence of a violation.
            (Validity::Unknown, Some(Violation), Exit::Invalid),
        ] {
            assert_eq!(exit_for(valid, expected), exit, "{valid:?} where {expected:?} was expected");
        }
    }
}
