//! `redjepsen explore`: searches a small model of Redlock exhaustively; needs no Redis.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use redlock_model::{
    Bounds, Claim, Clocks, Crash, Fencing, Holding, Limits, Memory, Model, Restart, Settings, SettingsError, Verdict,
};

use super::console::{Exit, Failure, exit_after, exit_for, look, print};
use base::files;
use base::units::nanos;
use checker::Validity;
use labs::explore;
use labs::explore::page::Exploration;
use model::nemesis::Expectation;

fn ticks(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a number of ticks without a unit, such as 3".to_string())
}

#[derive(Debug, Args)]
pub struct ExploreFlags {
    /// Redis nodes
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// Number of clients; each acquires the lock at most once
    #[arg(long, default_value_t = 2)]
    clients: u32,
    /// TTL of a key, in ticks
    #[arg(long, default_value_t = 3, value_name = "TICKS", value_parser = ticks)]
    ttl: u32,
    /// The tick at which time ends
    #[arg(long, default_value_t = 8, value_name = "TICKS", value_parser = ticks)]
    time: u32,
    /// Clocks by which clients measure how long an acquisition took
    #[arg(long, value_enum, default_value = "lagging")]
    clocks: ClocksFlag,
    /// How long a client acts as the holder
    #[arg(long, value_enum, default_value = "until-release")]
    holding: HoldingFlag,
    /// Whether nodes crash, and whether a crashed node keeps its keys
    #[arg(long, value_enum, default_value = "none")]
    crash: CrashFlag,
    /// When a crashed node may be back [default: now]
    #[arg(long, value_enum)]
    restart: Option<RestartFlag>,
    /// Maximum number of crashes [default: 1]
    #[arg(long, value_name = "N")]
    crashes: Option<u32>,
    /// The property [default: mutual-exclusion, or updates with --fencing]
    #[arg(long, value_enum)]
    claim: Option<ClaimFlag>,
    /// Late writes that the resource refuses [default: none]
    #[arg(long, value_enum)]
    fencing: Option<FencingFlag>,
    /// Write a page, the drawing and a script for real Redis into this folder; files of the same names there are replaced
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// How long to search
    #[arg(long, default_value = "60s", value_parser = super::flags::absolute)]
    timeout: Duration,
    /// How much memory to use
    #[arg(long, default_value = "4GiB", value_parser = super::flags::bytes)]
    memory: u64,
    /// Expected outcome: with `violation`, exit 0 if there is a violation, and 1 if there is none
    #[arg(long, value_enum)]
    expect: Option<Expectation>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClocksFlag {
    /// Clocks show the true time
    Perfect,
    /// Clocks may lag behind by any amount
    Lagging,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HoldingFlag {
    /// Only while its own clock says that the lock is valid
    WhileValid,
    /// Until it releases, however long that takes
    UntilRelease,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum CrashFlag {
    /// Nodes do not crash
    None,
    /// Nodes lose their keys when they crash
    Lose,
    /// Nodes keep their keys when they crash
    Keep,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RestartFlag {
    /// At any time
    Now,
    /// A TTL later at the earliest
    AfterTtl,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum ClaimFlag {
    /// No two clients hold the lock at once
    MutualExclusion,
    /// Each holder reads a value and replaces it, and no update is lost
    Updates,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FencingFlag {
    /// The resource accepts every write
    None,
    /// The resource refuses a write with an old token
    Token,
    /// The resource refuses a read or write with an old token
    TokenReads,
    /// The resource refuses a write unless it replaces the value that the writer read
    CompareAndSet,
}

/// Searches the model and prints the result.
pub fn explore(flags: &ExploreFlags) -> Result<Exit, Failure> {
    let settings = flags.settings()?;
    let model = Model::new(settings).map_err(|error| match error {
        SettingsError::OutOfRange { .. } => Failure::arguments(format!("--{error}")),
        SettingsError::TooLarge { .. } => Failure::arguments(error),
    })?;
    if let Some(folder) = &flags.out {
        if folder.to_string_lossy().contains(',') {
            let text = "--out: `redjepsen run` reads a comma as the end of a file's name; choose a folder without a comma in its \
                path";
            return Err(Failure::arguments(text));
        }
        files::create_folder(folder).map_err(Failure::could_not_run)?;
    }
    let start = Instant::now();
    let give_up = || start.elapsed() >= flags.timeout;
    let memory_bytes = usize::try_from(flags.memory).unwrap_or(usize::MAX);
    let outcome = redlock_model::search(&model, &Limits { give_up: &give_up, memory_bytes, ..Limits::default() });
    let took_ns = nanos(start.elapsed());
    let (valid, script) = match &outcome.verdict {
        Verdict::Holds => (Validity::Valid, None),
        Verdict::Violated(counterexample) => (Validity::Invalid, Some(explore::script(&settings, counterexample))),
        Verdict::Undecided(_) => (Validity::Unknown, None),
    };
    let exit = exit_for(valid, flags.expect);
    let report = Exploration { settings: &settings, outcome: &outcome, took_ns, script, command: flags.command() };
    let shown = print(report.text(flags.out.as_deref(), look()));
    let written = flags.out.as_deref().map_or(Ok(()), |folder| report.write(folder));
    exit_after(exit, shown.and(written.map_err(Failure::could_not_run)))
}

impl ExploreFlags {
    fn settings(&self) -> Result<Settings, Failure> {
        let crash = match self.crash {
            CrashFlag::None => {
                for (flag, given) in [("--restart", self.restart.is_some()), ("--crashes", self.crashes.is_some())] {
                    if given {
                        let text = format!("{flag} needs a crash; give --crash lose or --crash keep");
                        return Err(Failure::arguments(text));
                    }
                }
                None
            }
            kind => Some(Crash {
                memory: if kind == CrashFlag::Lose { Memory::Lost } else { Memory::Kept },
                restart: match self.restart {
                    Some(RestartFlag::AfterTtl) => Restart::AfterTtl,
                    Some(RestartFlag::Now) | None => Restart::AtOnce,
                },
                times: self.crashes.unwrap_or(1),
            }),
        };
        let fencing = match self.fencing {
            None | Some(FencingFlag::None) => Fencing::None,
            Some(FencingFlag::Token) => Fencing::Token,
            Some(FencingFlag::TokenReads) => Fencing::TokenReads,
            Some(FencingFlag::CompareAndSet) => Fencing::CompareAndSet,
        };
        let claim = match (self.claim, self.fencing) {
            (Some(ClaimFlag::MutualExclusion), Some(_)) => {
                let text = "--fencing protects updates, not the lock; give --claim updates, or leave --fencing out";
                return Err(Failure::arguments(text));
            }
            (Some(ClaimFlag::Updates), _) | (None, Some(_)) => Claim::Updates(fencing),
            (Some(ClaimFlag::MutualExclusion) | None, None) => Claim::MutualExclusion,
        };
        let bounds = Bounds { nodes: self.nodes, clients: self.clients, ttl: self.ttl, time: self.time };
        let clocks = match self.clocks {
            ClocksFlag::Perfect => Clocks::Perfect,
            ClocksFlag::Lagging => Clocks::Lagging,
        };
        let holding = match self.holding {
            HoldingFlag::WhileValid => Holding::WhileValid,
            HoldingFlag::UntilRelease => Holding::UntilRelease,
        };
        Ok(Settings { bounds, clocks, holding, crash, claim })
    }

    /// The command that repeats the search, without default values.
    fn command(&self) -> String {
        fn word(value: &impl ValueEnum) -> String {
            value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
        }
        let usual = |value: String, default: &str| (value != default).then_some(value);
        let given = [
            ("nodes", usual(self.nodes.to_string(), "3")),
            ("clients", usual(self.clients.to_string(), "2")),
            ("ttl", usual(self.ttl.to_string(), "3")),
            ("time", usual(self.time.to_string(), "8")),
            ("clocks", usual(word(&self.clocks), "lagging")),
            ("holding", usual(word(&self.holding), "until-release")),
            ("crash", usual(word(&self.crash), "none")),
            ("restart", self.restart.as_ref().map(word)),
            ("crashes", self.crashes.map(|crashes| crashes.to_string())),
            ("claim", self.claim.as_ref().map(word)),
            ("fencing", self.fencing.as_ref().map(word)),
        ];
        let given = given.into_iter().filter_map(|(flag, value)| Some(format!(" --{flag} {}", value?)));
        format!("redjepsen explore{}", given.collect::<String>())
    }
}
