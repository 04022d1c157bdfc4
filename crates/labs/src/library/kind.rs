//! The reference lock of the same kind as a library's lock. If a scenario breaks it too, this is a limitation of the kind and
//! not a defect.

use std::fmt;

use super::commands::{RenewalMode, When};
use super::steps::CLIENTS;
use checker::Validity;
use model::fault_kinds::{Command, CommandFault};
use model::locks::LockSpec;
use model::nemesis::{Argument, Fault, Nemesis, Step};
use model::plan::Plan;
use model::scenario::{ClusterSettings, Scenario, catalogue};
use model::topology::{Program, Topology};

/// The reference lock whose holder asks if it still holds the lock.
const ASKS: &str = "redlock-asks";

/// The reference lock without a TTL.
const FOREVER: &str = "forever";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The workload of the reference lock. None if there is none of this kind.
    pub reference: Option<String>,
    /// A description: `a lock with a TTL on one node`.
    pub what: String,
    pub upkeep: RenewalMode,
}

/// The result of the reference lock under the same scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Baseline {
    Falls,
    Holds,
    /// The reference lock cannot run the scenario. But no fault hit a live client, and nothing excuses the failure.
    Unexcused,
    /// The reference lock cannot run the scenario. A client held the lock for longer than its TTL, and nothing had to renew it.
    Outlived,
    /// There is no reference lock, or its runs were inconclusive.
    #[default]
    Unknown,
}

impl Baseline {
    pub fn is_defect(self) -> bool {
        matches!(self, Baseline::Holds | Baseline::Unexcused)
    }

    /// True if the scenario breaks any lock of the kind.
    pub fn is_inherent(self) -> bool {
        matches!(self, Baseline::Falls | Baseline::Outlived)
    }
}

impl Kind {
    /// The kind of this scenario's lock. `upkeep` is how the library was seen to keep the lock while it is held.
    pub fn of(scenario: &Scenario, upkeep: RenewalMode) -> Kind {
        let workload = &scenario.workload;
        // With `check_every`, the client asks on schedule, and goes on even if a question gets no answer.
        let upkeep =
            if workload.check_every.is_some() && upkeep == RenewalMode::Asked { RenewalMode::None } else { upkeep };
        let program = workload.lock.program();
        if program != Program::Redis {
            return Kind { reference: None, what: format!("a lock on {program}"), upkeep };
        }
        let (place, lock, has_upkeep) = match (&workload.topology, scenario.nodes) {
            (Topology::Independent, 0) => {
                return Kind { reference: None, what: "a lock without nodes".to_string(), upkeep };
            }
            (Topology::Independent, 1) => ("one node", "single", true),
            (Topology::Independent, _) => ("several nodes with a majority", "redlock", true),
            (Topology::Sentinel(_), _) => ("a primary with Sentinels", "replicated", false),
            (Topology::Cluster(_), _) => ("a Redis Cluster", "cluster", false),
        };
        let (what, reference) = match (workload.lock.expires(), upkeep) {
            (false, _) if scenario.nodes == 1 => ("a lock without a TTL", FOREVER),
            (false, _) => ("a lock without a TTL", ""),
            (true, RenewalMode::None) => ("a lock with a TTL", lock),
            (true, RenewalMode::Asked) => ("a lock with a TTL whose holder asks whether it still holds the lock", ASKS),
            (true, RenewalMode::ByItsHolder) => ("a lock with a TTL that its holder extends", "redlock-extend"),
            (true, RenewalMode::InTheBackground) => ("a lock with a TTL and a background renewal", "redlock-watchdog"),
        };
        let reference = if has_upkeep || upkeep == RenewalMode::None { reference } else { "" };
        let reference = (!reference.is_empty()).then(|| reference.to_string());
        Kind { reference, what: format!("{what}, on {place}"), upkeep }
    }

    /// The result for a lock that broke without a fault, if the reference lock cannot run the scenario. A TTL that passed
    /// during the hold (`outlived`) excuses the failure, unless something renews the lock.
    pub fn without_faults(&self, outlived: bool) -> Baseline {
        let is_kept = self.upkeep == RenewalMode::InTheBackground;
        if outlived && !is_kept { Baseline::Outlived } else { Baseline::Unexcused }
    }

    /// The same run with the reference lock. None if there is no reference lock, or if the nemesis does not fit it.
    ///
    /// A fault at a command of the library hits any write of the reference lock at that stage. If the library was waiting then
    /// (`when`), it hits any command. The reference lock has no event loop that could be blocked, so it is paused instead.
    pub fn scenario(&self, of: &Scenario, when: &[When], seed: u64) -> Option<Scenario> {
        let (workload_name, mut workload) = catalogue::workload(self.reference.as_deref()?).ok()?;
        // The reference lock gets the same requirements as the library's file.
        workload.longest_gap = of.workload.longest_gap.or(workload.longest_gap);
        if let (LockSpec::Library(theirs), LockSpec::Redlock(ours)) = (&of.workload.lock, &mut workload.lock)
            && awaits_a_node_that_hangs(&of.nemesis)
        {
            ours.node_timeout = theirs.node_timeout;
        }
        let mut scenario = Scenario {
            workload_name,
            workload,
            seed,
            record_commands: None,
            expect: None,
            cluster: ClusterSettings::default(),
            client: None,
            ..of.clone()
        };
        // While this lock is held, it only sends questions.
        let asks = self.reference.as_deref() == Some(ASKS) && when.contains(&When::Holding);
        let at = if asks || when.contains(&When::Waiting) { Command::Any } else { Command::Write };
        // If the lock has several permits, other clients hold all but one.
        let is_of_one = |step: &&Step| of.workload.permits == 1 || step.client().is_none_or(|client| client < CLIENTS);
        scenario.nemesis.script =
            of.nemesis.script.iter().filter(is_of_one).map(|step| adapt_step(step, &at)).collect();
        scenario.check().ok()?;
        Plan::draw(&scenario).ok()?;
        Some(scenario)
    }
}

/// True if the lock must act in time while a node hangs. Then the user's time limit for a request matters.
fn awaits_a_node_that_hangs(nemesis: &Nemesis) -> bool {
    let hangs = |fault: &Fault| fault.kind.suspends() && fault.names(|target| target.is_node());
    nemesis.all_faults().any(hangs) && nemesis.script.iter().any(|step| matches!(step, Step::Expect { .. }))
}

/// Adapts a script step to the reference lock: its faults wait for any command that matches `at`.
fn adapt_step(step: &Step, at: &Command) -> Step {
    let of = |fault: &Fault| match &fault.with {
        Argument::Command(with) if matches!(with.command, Command::Named(_)) => {
            let with = CommandFault { nth: Some(1), command: at.clone(), key: None, ..with.clone() };
            Fault { with: Argument::Command(with), ..fault.clone() }
        }
        _ if fault.kind.needs.by_client => stopped(fault).unwrap_or_else(|| fault.clone()),
        _ => fault.clone(),
    };
    match step {
        Step::Inject(fault) => Step::Inject(of(fault)),
        Step::Heal(fault) => Step::Heal(of(fault)),
        Step::AwaitStrike { fault, within, or_go_on } => {
            Step::AwaitStrike { fault: of(fault), within: *within, or_go_on: *or_go_on }
        }
        other => other.clone(),
    }
}

/// A pause, as the closest replacement of a fault that only some clients can inject into themselves.
fn stopped(fault: &Fault) -> Option<Fault> {
    let phrase = fault.to_string();
    let whom = phrase.split(' ').nth(1)?;
    format!("pause {whom}").parse().ok()
}

/// The result of the reference lock, from the verdicts of its runs and what its client was doing at each fault. None if the
/// runs show nothing. `when` is what the library's client was doing. A run in which a fault hit at another stage does not count
/// as passed.
pub fn judged(runs: impl IntoIterator<Item = (Validity, Vec<When>)>, when: &[When]) -> Option<Baseline> {
    let (mut held, mut other) = (false, false);
    for (valid, struck) in runs {
        match valid {
            Validity::Invalid => return Some(Baseline::Falls),
            Validity::Valid if struck == when => held = true,
            Validity::Valid => other = true,
            Validity::Unknown => {}
        }
    }
    match (held, other) {
        (true, _) => Some(Baseline::Holds),
        (false, true) => Some(Baseline::Unknown),
        (false, false) => None,
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
