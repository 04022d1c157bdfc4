//! `redjepsen risk`: estimates how many updates a lock loses per year, in virtual time; needs no Redis.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;

use super::console::{Exit, Failure, exit_after, look, print};
use super::flags::{from_to, jobs, processors};
use super::progress::{Bar, Far};
use base::files;
use base::sync::lock;
use base::units::{Length, LengthRange};
use base::words::{count, plural};
use labs::risk::distribution::PROFILES;
use labs::risk::page::RiskReport;
use labs::risk::{Distribution, FaultCause, Question, Risk, RiskError, assess};
use model::scenario::{Options, Scenario, quoted};
use model::topology::ClusterKind;
use runner::RunnerError;
use runner::simulate::{can_be_simulated, simulate_plan};

const PAUSES: &str = "jvm-g1";
/// Progress is shown after this many runs.
const SHOW_EVERY: u64 = 20;
/// Longer than any run. Each run ends by itself.
const TIME_LIMIT: Length = Length::Absolute(Duration::from_secs(24 * 3600));

#[derive(Debug, Args)]
pub struct RiskFlags {
    /// Lock and resource: a name from `redjepsen list`, or the path of a .toml file
    #[arg(long, default_value = "redlock")]
    workload: String,
    /// How long a client pauses, and how often: a file of measured lengths, or a profile that is an example (jvm-g1,
    /// jvm-parallel-old, quiet, vm-migration) [default: jvm-g1, unless other faults are given]
    #[arg(long, value_name = "FILE")]
    pauses: Option<String>,
    /// How long a client is cut off from the resource, and how often: a file or a profile
    #[arg(long, value_name = "FILE")]
    delays: Option<String>,
    /// How far the clock of a node jumps ahead, and how often: a file or a profile
    #[arg(long, value_name = "FILE")]
    clock_steps: Option<String>,
    /// How long one member was observed to collect these measurements [default: from the files]
    #[arg(long, value_name = "TIME", value_parser = super::flags::absolute)]
    measured_over: Option<Duration>,
    /// The lock's TTL for the answer
    #[arg(long, default_value = "10s", value_parser = super::flags::absolute)]
    ttl: Duration,
    /// Further TTLs for the table, with commas
    #[arg(long, default_value = "1s,2s,5s,10s,20s,30s,60s", value_delimiter = ',', value_parser = super::flags::absolute)]
    ttls: Vec<Duration>,
    /// Client processes of the service
    #[arg(long, default_value_t = 5)]
    clients: u32,
    /// Redis nodes under the lock [default: from the workload]
    #[arg(long)]
    nodes: Option<u32>,
    /// Keys that the clients update, each with its own lock [default: from the workload]
    #[arg(long)]
    keys: Option<u32>,
    /// Updates per second that all clients together aim for
    #[arg(long, default_value_t = 5.0)]
    rate: f64,
    /// Time between a holder's read and its write, drawn for each operation
    #[arg(long, default_value = "20ms..200ms")]
    hold: LengthRange,
    /// How long an operation may wait for the lock [default: 4ttl]
    #[arg(long)]
    acquire_timeout: Option<Length>,
    /// How often each client crashes per day
    #[arg(long, default_value_t = 0.1, value_name = "N", allow_negative_numbers = true)]
    crashes_per_day: f64,
    /// Simulated runs with a fault, for each TTL and kind of fault
    #[arg(long, default_value_t = 200, value_parser = from_to(20_u32, Some(1_000_000)), value_name = "N")]
    runs: u32,
    /// Runs at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Seed for all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page and the plot into this folder; files of the same names there are replaced
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub fn risk(flags: &RiskFlags) -> Result<Exit, Failure> {
    let question = flags.question()?;
    if let Some(folder) = &flags.out {
        files::create_folder(folder).map_err(Failure::could_not_run)?;
    }
    let risk = simulated(&question)?;
    let report = RiskReport { question: &question, risk: &risk, command: flags.command() };
    let shown = print(report.text(flags.out.as_deref(), look()));
    let written = flags.out.as_deref().map_or(Ok(()), |folder| report.write(folder));
    exit_after(Exit::Valid, shown.and(written.map_err(Failure::could_not_run)))
}

fn simulated(question: &Question) -> Result<Risk, Failure> {
    let (made, all, bar) = (AtomicU64::new(0), question.planned_runs(), Mutex::new(Bar::new()));
    let show = || {
        let made = made.fetch_add(1, Ordering::Relaxed) + 1;
        if made.is_multiple_of(SHOW_EVERY) {
            let mut bar = lock(&bar);
            let text = format!("{} of {}", count(made), plural(all, "simulated run"));
            let far = Far::of(made, all, bar.elapsed(), text);
            bar.show(&far, false);
        }
        true
    };
    let risk = assess(question, &simulate_plan, &show);
    drop(bar);
    risk.map_err(|error: RiskError<RunnerError>| match error {
        RiskError::Run(error) => error.into(),
        RiskError::Plan(_) | RiskError::Idle { .. } => Failure::arguments(error),
        RiskError::Interrupted => Failure::could_not_run(error),
    })
}

impl RiskFlags {
    fn question(&self) -> Result<Question, Failure> {
        let ttls: Vec<Duration> =
            self.ttls.iter().copied().chain([self.ttl]).collect::<BTreeSet<_>>().into_iter().collect();
        let asked = ttls.iter().position(|ttl| *ttl == self.ttl).unwrap_or_default();
        let scenarios = ttls.iter().map(|ttl| self.scenario(*ttl)).collect::<Result<Vec<_>, Failure>>()?;
        scenarios.first().map_or(Ok(()), can_be_simulated)?;
        if scenarios.iter().any(|scenario| scenario.workload.topology.has_roles()) {
            return Err(Failure::arguments(format!(
                "--workload {}: its nodes are primaries and replicas, and `risk` does not count the losses of a failover; to \
                 see a loss, use `redjepsen run --workload {0} --nemesis failover`",
                quoted(&self.workload)
            )));
        }
        if !(self.crashes_per_day.is_finite() && (0.0..=1e6).contains(&self.crashes_per_day)) {
            let text =
                format!("--crashes-per-day {} is out of range; it must be between 0 and 1000000", self.crashes_per_day);
            return Err(Failure::arguments(text));
        }
        let usual = (self.delays.is_none() && self.clock_steps.is_none()).then_some(PAUSES);
        let given = [
            ("--pauses", FaultCause::Pause, self.pauses.as_deref().or(usual)),
            ("--delays", FaultCause::Delay, self.delays.as_deref()),
            ("--clock-steps", FaultCause::ClockStep, self.clock_steps.as_deref()),
        ];
        let mut faults = Vec::new();
        for (flag, kind, name) in given {
            let Some(name) = name else { continue };
            let is_profile = PROFILES.iter().any(|(profile, _)| *profile == name);
            // The file of another fault may need the time, but a profile does not.
            let over = self.measured_over.filter(|_| !is_profile);
            let distribution =
                Distribution::named(name, over).map_err(|error| Failure::arguments(format!("{flag}: {error}")))?;
            faults.push((kind, distribution));
        }
        if self.measured_over.is_some() && !faults.iter().any(|(_, distribution)| distribution.is_measured()) {
            return Err(Failure::arguments("--measured-over needs a file of measured lengths, and none was given"));
        }
        let threads = self.jobs.unwrap_or_else(processors);
        let runs = usize::try_from(self.runs).unwrap_or(usize::MAX);
        Ok(Question { scenarios, asked, faults, runs, crashes_per_day: self.crashes_per_day, threads })
    }

    fn scenario(&self, ttl: Duration) -> Result<Scenario, Failure> {
        let options = Options {
            cluster: Some(ClusterKind::SIM),
            time_limit: Some(TIME_LIMIT),
            ttl: Some(Length::Absolute(ttl)),
            clients: Some(self.clients),
            nodes: self.nodes,
            keys: self.keys,
            rate: Some(self.rate),
            hold: Some(self.hold),
            acquire_timeout: self.acquire_timeout,
            ..Options::default()
        };
        options.scenario(&self.workload, "none", self.seed, Path::new("")).map_err(Failure::arguments)
    }

    fn command(&self) -> String {
        let text = |duration: &Duration| humantime::format_duration(*duration).to_string().replace(' ', "");
        let given = [
            ("workload", Some(self.workload.clone())),
            ("pauses", self.pauses.clone()),
            ("delays", self.delays.clone()),
            ("clock-steps", self.clock_steps.clone()),
            ("measured-over", self.measured_over.as_ref().map(text)),
            ("ttl", Some(text(&self.ttl))),
            ("ttls", Some(self.ttls.iter().map(text).collect::<Vec<_>>().join(","))),
            ("clients", Some(self.clients.to_string())),
            ("nodes", self.nodes.map(|nodes| nodes.to_string())),
            ("keys", self.keys.map(|keys| keys.to_string())),
            ("rate", Some(self.rate.to_string())),
            ("hold", Some(self.hold.to_string())),
            ("acquire-timeout", self.acquire_timeout.map(|length| length.to_string())),
            ("crashes-per-day", Some(self.crashes_per_day.to_string())),
            ("runs", Some(self.runs.to_string())),
            ("seed", Some(self.seed.to_string())),
        ];
        let given = given.into_iter().filter_map(|(flag, value)| Some(format!(" --{flag} {}", quoted(&value?))));
        format!("redjepsen risk{}", given.collect::<String>())
    }
}
