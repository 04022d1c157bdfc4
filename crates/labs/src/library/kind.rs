//! A lock of ours that is of the same kind as a library's: what breaks it too is the fate of the kind, not a defect.

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

/// The lock whose holder asks whether it still has it.
const ASKS: &str = "redlock-asks";

/// The lock without a TTL.
const FOREVER: &str = "forever";

/// What kind of lock it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The workload to compare with; None if there is none of the kind.
    pub reference: Option<String>,
    /// In words: `a lock with a TTL on one node`.
    pub what: String,
    pub upkeep: RenewalMode,
}

/// How a lock of the same kind does under the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Baseline {
    Falls,
    Holds,
    /// No other lock can play it, but nobody who lived was struck, and nothing excuses it.
    Unexcused,
    /// The same, but somebody had it for longer than its TTL, and nothing was to renew it.
    Outlived,
    /// There is none, or it showed nothing.
    #[default]
    Unknown,
}

impl Baseline {
    /// Whether what broke the library need not break a lock.
    pub fn is_defect(self) -> bool {
        matches!(self, Baseline::Holds | Baseline::Unexcused)
    }

    /// Whether it breaks any lock of the kind.
    pub fn is_inherent(self) -> bool {
        matches!(self, Baseline::Falls | Baseline::Outlived)
    }
}

impl Kind {
    /// The kind of this scenario's lock. `upkeep`: what was seen to be done for it while it is held.
    pub fn of(scenario: &Scenario, upkeep: RenewalMode) -> Kind {
        let workload = &scenario.workload;
        // Who is asked again and again need not answer: a client goes on then.
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

    /// What excuses a lock that broke with no fault at all, where no other lock can play that: its TTL, if somebody had it for longer than
    /// that (`outlived`) and nothing was to renew it.
    pub fn without_faults(&self, outlived: bool) -> Baseline {
        let is_kept = self.upkeep == RenewalMode::InTheBackground;
        if outlived && !is_kept { Baseline::Outlived } else { Baseline::Unexcused }
    }

    /// The same run with the lock to compare with; None if there is none, or the nemesis is not about it. What strikes at a command
    /// of the library strikes there at whatever that lock writes then or, if the library was waiting then (`when`), at whatever it
    /// asks. It has no event loop that could be blocked, so it is stopped instead.
    pub fn scenario(&self, of: &Scenario, when: &[When], seed: u64) -> Option<Scenario> {
        let (workload_name, mut workload) = catalogue::workload(self.reference.as_deref()?).ok()?;
        // What the library's file asks of its lock is asked of this one too.
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
        // What such a lock sends while it is held is a question.
        let asks = self.reference.as_deref() == Some(ASKS) && when.contains(&When::Holding);
        let at = if asks || when.contains(&When::Waiting) { Command::Any } else { Command::Write };
        // Of a lock that several may have, others have all permits but one.
        let is_of_one = |step: &&Step| of.workload.permits == 1 || step.client().is_none_or(|client| client < CLIENTS);
        scenario.nemesis.script =
            of.nemesis.script.iter().filter(is_of_one).map(|step| adapt_step(step, &at)).collect();
        scenario.check().ok()?;
        Plan::draw(&scenario).ok()?;
        Some(scenario)
    }
}

/// Whether something is expected of the lock in time while a node hangs, so that it matters how long the user lets a request take.
fn awaits_a_node_that_hangs(nemesis: &Nemesis) -> bool {
    let hangs = |fault: &Fault| fault.kind.suspends() && fault.names(|target| target.is_node());
    nemesis.all_faults().any(hangs) && nemesis.script.iter().any(|step| matches!(step, Step::Expect { .. }))
}

/// A step of a script that is about one lock, for another one: its faults wait for any command `at` which it may be struck.
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

/// What is nearest to a fault that only some clients can do to themselves: they stand still.
fn stopped(fault: &Fault) -> Option<Fault> {
    let phrase = fault.to_string();
    let whom = phrase.split(' ').nth(1)?;
    format!("pause {whom}").parse().ok()
}

/// How the lock to compare with did, by the verdicts of its runs and what its client was doing whenever it was struck. None if they
/// show nothing. `when`: what the library's client was doing. A run in which that was something else withstood something else.
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
