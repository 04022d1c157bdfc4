//! Advice for each reason for which a run is unknown: in words and, if possible, as a command.
//!
//! Each gate and each kind of missing step has its own advice, in a match that the compiler checks for completeness. A command
//! is that of the run itself with a change, or of a scenario that is known to work with this lock.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::remedies::known;
use super::repeat::{changed, said};
use super::story::Story;
use super::table::distinct;
use base::units::Length;
use checker::{GateName, LEAST_ACKNOWLEDGED, QUIETER, Validity, a_server_was_missing};
use model::history::{Missed, Phase, StepOutcome};
use model::nemesis::{Step, Target, TargetSpec};
use model::scenario::{catalogue, quoted};

/// The advice for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The reason, as in the list of reasons.
    pub reason: String,
    /// The advice, with its reason.
    pub text: String,
    /// The command. None if no command helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The kind of a reason.
enum Doubt {
    Gate(GateName),
    /// The step with which a script broke off.
    Step(Option<Missed>),
    /// A member had too little processor time for a claim.
    Busy,
    /// A claim had too few facts, or the client reports too little.
    Evidence,
}

/// The advice for each reason, in order. Empty unless the run is unknown.
pub(super) fn advice(story: &Story) -> Vec<Advice> {
    let verdict = story.subject.verdict;
    if verdict.valid != Validity::Unknown {
        return Vec::new();
    }
    let of = |reason: &String| {
        let (text, command) = to_do(&doubt(story, reason), story);
        Advice { reason: reason.clone(), text: text.to_string(), command }
    };
    // Several gates may have the same reason, such as that no fault was observed.
    let reasons = distinct(verdict.reasons.iter().map(String::as_str));
    reasons.iter().filter(|reason| !is_consequence(story, &doubt(story, reason))).map(of).collect()
}

/// True if another failed gate already explains this reason, so that its own advice would mislead. A script that broke off injects
/// no further faults. Without a fault, nothing happens during it.
fn is_consequence(story: &Story, doubt: &Doubt) -> bool {
    use GateName::*;
    let failed =
        |name: GateName| story.subject.verdict.gates.iter().any(|gate| !gate.passed && gate.which() == Some(name));
    let Doubt::Gate(gate) = doubt else { return false };
    let of_faults = matches!(gate, FaultsHealed | FaultsMetHolds | ProgressBefore | ProgressDuring | ProgressAfter);
    let of_updates = matches!(gate, EnoughAcknowledged | EveryClient | Contention);
    let was_injected = story.subject.history.faults.iter().any(|window| window.skipped.is_none());
    let has_none = story.subject.verdict.counts.ok == 0;
    (failed(ScriptPlayed) && (of_faults || of_updates || *gate == FaultsObserved))
        || (failed(FaultsObserved) && !was_injected && of_faults)
        || (failed(EnoughAcknowledged) && has_none && (of_faults || matches!(gate, EveryClient | Contention)))
}

fn doubt(story: &Story, reason: &str) -> Doubt {
    let mut failed = story.subject.verdict.gates.iter().filter(|gate| !gate.passed);
    match failed.find(|gate| gate.text == reason).and_then(|gate| gate.which()) {
        Some(GateName::ScriptPlayed) => {
            let steps = &story.subject.history.steps;
            match steps.iter().find(|(_, step)| step.outcome == StepOutcome::Failed) {
                Some((_, step)) => Doubt::Step(step.missed),
                None => Doubt::Gate(GateName::ScriptPlayed),
            }
        }
        Some(gate) => Doubt::Gate(gate),
        None if reason.ends_with(QUIETER) => Doubt::Busy,
        None => Doubt::Evidence,
    }
}

fn to_do(doubt: &Doubt, story: &Story) -> (&'static str, Option<String>) {
    let again = || changed(story, &[]);
    match doubt {
        Doubt::Step(missed) => of_step(*missed, story),
        Doubt::Busy => {
            ("Run it on a quieter machine, or with a longer TTL: then a delay is a smaller part of the TTL.", again())
        }
        Doubt::Evidence if has_own_client(story) || story.subject.scenario.is_none() => (
            "Run client-check: it names what the client does not report. If nothing is missing, a longer run shows more.",
            client_check(story),
        ),
        Doubt::Evidence => ("A longer run shows more.", longer(story)),
        Doubt::Gate(gate) => match gate {
            GateName::Completed if lacks_ability(story) => (
                "The client lacks a capability that this scenario needs. Choose a scenario with a known result for this workload.",
                suited(story),
            ),
            GateName::Completed => ("Let the run finish.", again()),
            GateName::ResourceEmpty => {
                ("Rerun it: each run starts with a resource of its own and checks that the resource is empty.", again())
            }
            GateName::ClientsReady => {
                ("The clients' logs in the run's folder say what is missing.", client_check(story))
            }
            GateName::NodesHealthy if a_server_was_missing(story.subject.history) => (
                "Another program may have stopped or killed this server: the kernel's log (dmesg) says whether memory ran out.",
                again(),
            ),
            GateName::NodesReady | GateName::NodesHealthy => {
                ("The nodes' logs in the run's folder say what is missing. If the machine was busy, rerun it.", again())
            }
            GateName::ClientsSteady => {
                ("Fix the client first: its log in the run's folder says why it exited.", client_check(story))
            }
            GateName::ClientsConsistent => {
                ("Fix what the client reports: client-check names each mistake.", client_check(story))
            }
            GateName::ClientsCareful => {
                ("Let the client wait for the reply to its write before it releases the lock.", client_check(story))
            }
            GateName::CancellationsTaken => {
                ("Let the client end a cancelled operation with the error `cancelled`.", client_check(story))
            }
            GateName::ScriptPlayed => ("Give the script more time.", longer(story)),
            GateName::BreakpointsBrief => {
                ("Use a longer TTL: then the script ends before the lock expires.", with_ttl(story, Duration::ZERO))
            }
            GateName::FaultsObserved | GateName::FaultsMetHolds if holds_are_too_short(story) => {
                ("Clients hold the lock so briefly that faults miss them. Use a longer --hold.", longer_holds(story))
            }
            GateName::FaultsObserved if story.subject.history.faults.iter().all(|fault| fault.skipped.is_some()) => {
                ("A longer run has room for more faults.", longer(story))
            }
            GateName::FaultsObserved if waited_for_a_command(story) => (
                "A fault waited for a command that no client sent. Choose a scenario with a known result for this lock.",
                suited(story),
            ),
            GateName::FaultsObserved | GateName::FaultsHealed => {
                ("The report says under Faults which effect was observed. If the machine was busy, rerun it.", again())
            }
            GateName::FinalReads => ("Rerun it and let the run finish, so that every key is read.", again()),
            GateName::EnoughAcknowledged if asks_too_rarely(story) => (
                "Clients begin too few operations in this time. Use a higher --rate or a longer --time-limit.",
                busier(story),
            ),
            GateName::EnoughAcknowledged if story.subject.verdict.counts.ok <= 1 => match without_faults(story) {
                None => (
                    "The clients' logs and commands.jsonl in the run's folder show what they tried. Then check the client alone.",
                    client_check(story),
                ),
                command => ("First check that clients acquire the lock without faults.", command),
            },
            GateName::EnoughAcknowledged => ("A longer run has more updates.", longer(story)),
            GateName::EveryClient => ("In a longer run each client gets a turn.", longer(story)),
            GateName::Contention => {
                ("Use more clients that ask for the lock more often, so that they compete for it.", crowded(story))
            }
            GateName::FaultsMetHolds if story.subject.history.run.as_ref().is_some_and(|run| run.script_steps > 0) => {
                ("Have the script start an operation of an affected client while the fault is in effect.", None)
            }
            GateName::FaultsMetHolds => {
                ("A longer run has more faults, and longer holds are hit more often.", longer_holds(story))
            }
            GateName::ProgressBefore | GateName::ProgressDuring | GateName::ProgressAfter => {
                ("A longer run leaves more time around its faults.", longer(story))
            }
        },
    }
}

/// The advice if a step of a script did not happen in time.
fn of_step(missed: Option<Missed>, story: &Story) -> (&'static str, Option<String>) {
    match missed {
        Some(Missed::Ended | Missed::Late) if !was_reached(story) => (
            "No client reached this phase in this run: the operation ended first, or this lock has no such phase. Choose a scenario \
             with a known result for this workload, or a longer --hold.",
            suited(story),
        ),
        Some(Missed::Ended) => (
            "The client's attempt failed before that step. Choose a scenario with a known result for this workload.",
            suited(story),
        ),
        // In a simulation the machine is never busy, so this is the lock's own time.
        Some(Missed::Late) if story.is_simulated() => (
            "Clients wait longer than the scenario allows. Choose a scenario with a known result for this workload.",
            suited(story),
        ),
        Some(Missed::Late) => {
            ("The lock takes longer than the scenario allows. Use a longer TTL.", with_ttl(story, Duration::ZERO))
        }
        Some(Missed::NotStruck) => (
            "This workload never sends the command at which the fault fires. Choose a scenario with a known result for this workload.",
            suited(story),
        ),
        Some(Missed::SamePrimary) => (
            "No replica is promoted in the time that the scenario allows. Use a TTL that is longer than a failover.",
            with_ttl(story, FAILOVER),
        ),
        Some(Missed::NotArmed) => {
            ("The agent's log in the run's folder gives the reason. Then rerun it.", changed(story, &[]))
        }
        Some(Missed::NothingToCancel) => (
            "The operation ended before it could be cancelled. Choose a scenario with a known result for this workload.",
            suited(story),
        ),
        None => ("Choose a scenario with a known result for this workload.", suited(story)),
    }
}

/// redjepsen's replicated groups promote a replica within this time.
const FAILOVER: Duration = Duration::from_secs(10);

/// True if the run broke off because the client does not report an ability that the scenario needs.
fn lacks_ability(story: &Story) -> bool {
    let asks = story.subject.scenario.is_some_and(|scenario| !scenario.asks_of_clients().is_empty());
    let end = story.subject.history.end.as_ref();
    asks && end.is_some_and(|end| !end.completed && end.text.contains("`capabilities`"))
}

/// False if no operation reached the phase that the script waited for.
fn was_reached(story: &Story) -> bool {
    let history = story.subject.history;
    let failed = history.steps.iter().find(|(_, step)| step.outcome == StepOutcome::Failed);
    let phase: Option<Phase> = failed.and_then(|(_, step)| step.step.parse::<Step>().ok()?.phase());
    phase.is_none_or(|phase| history.operations.iter().any(|operation| operation.phases.has(phase)))
}

fn text(length: Duration) -> String {
    Length::Absolute(length).to_string()
}

fn longer(story: &Story) -> Option<String> {
    let limit = story.subject.scenario?.time_limit;
    changed(story, &[("time-limit", text(limit * 3))])
}

/// The command with twice the TTL, at least `least`, and with proportionally more time.
fn with_ttl(story: &Story, least: Duration) -> Option<String> {
    let scenario = story.subject.scenario?;
    let ttl = (scenario.ttl * 2).max(least);
    let times = ttl.as_secs_f64() / scenario.ttl.as_secs_f64().max(1e-3);
    let limit = Duration::from_secs(scenario.time_limit.mul_f64(times.min(100.0)).as_secs() + 1);
    changed(story, &[("ttl", text(ttl)), ("time-limit", text(limit))])
}

fn longer_holds(story: &Story) -> Option<String> {
    let limit = story.subject.scenario?.time_limit;
    changed(story, &[("time-limit", text(limit * 3)), ("hold", "0.2ttl..0.5ttl".to_string())])
}

/// True if a fault that recurs looks for a holder, and holds last less than a hundredth of the TTL on average.
fn holds_are_too_short(story: &Story) -> bool {
    let Some(scenario) = story.subject.scenario else { return false };
    let of_holders = scenario
        .nemesis
        .faults
        .iter()
        .flat_map(|series| &series.fault.0)
        .any(|fault| matches!(&fault.whom, TargetSpec::Members(members) if members.0.contains(&Target::Holder)));
    let mean = scenario.hold.resolve(scenario.ttl).map(|(shortest, longest)| (shortest + longest) / 2);
    of_holders && mean.is_ok_and(|mean| mean < scenario.ttl / 100)
}

/// True if the clients begin fewer than two operations for each update that a run needs.
fn asks_too_rarely(story: &Story) -> bool {
    story.subject.scenario.is_some_and(|scenario| {
        scenario.nemesis.script.is_empty()
            && scenario.rate * scenario.time_limit.as_secs_f64() < 2.0 * LEAST_ACKNOWLEDGED as f64
    })
}

/// The command with a higher rate: at least the usual one.
fn busier(story: &Story) -> Option<String> {
    changed(story, &[("rate", (story.subject.scenario?.rate * 10.0).max(50.0).to_string())])
}

fn crowded(story: &Story) -> Option<String> {
    let scenario = story.subject.scenario?;
    let clients = scenario.clients.max(2) * 2;
    let rate = scenario.rate.max(1.0) * 4.0;
    changed(story, &[("clients", clients.to_string()), ("rate", rate.to_string())])
}

fn without_faults(story: &Story) -> Option<String> {
    (story.nemesis()? != "none").then(|| changed(story, &[("nemesis", "none".to_string())]))?
}

/// True if a fault at a command never fired.
fn waited_for_a_command(story: &Story) -> bool {
    let faults = story.subject.history.faults.iter().filter(|window| window.skipped.is_none());
    let mut armed = faults.filter(|window| window.kind.is_at_command());
    armed.any(|window| !window.was_observed())
}

/// True if the client is not one of redjepsen.
fn has_own_client(story: &Story) -> bool {
    story.subject.scenario.is_some_and(|scenario| scenario.workload.client.is_some() || scenario.client.is_some())
}

fn client_check(story: &Story) -> Option<String> {
    // The command names the file of a user's own workload.
    let workload = said(story, "--workload").or(story.workload().map(str::to_string));
    let workload = workload.filter(|_| has_own_client(story))?;
    let own = story.subject.scenario.and_then(|scenario| scenario.client.as_ref());
    let own = own.map(|client| client.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
    let own = own.map_or(String::new(), |command| format!(" {}", quoted(&command)));
    Some(format!("redjepsen client-check{own} --workload {}", quoted(&workload)))
}

/// The command for another scenario with a known result for this lock, one that shares most of this one's faults. For a user's
/// own lock, client-check lists the scenarios that it can run.
fn suited(story: &Story) -> Option<String> {
    let scenario = story.subject.scenario?;
    let kinds = |nemesis: &model::nemesis::Nemesis| -> BTreeSet<&'static str> {
        nemesis.all_faults().map(|fault| fault.kind.id).collect()
    };
    let own = kinds(&scenario.nemesis);
    let others = known(&scenario.workload_name).filter(|name| *name != scenario.nemesis_name && *name != "none");
    // Of equals, the shortest script is the simplest.
    let unlike = |name: &&str| {
        let Ok((_, nemesis)) = catalogue::nemesis(name) else { return (usize::MAX, 0, 0) };
        let kinds = kinds(&nemesis);
        let shared = kinds.intersection(&own).count();
        (own.len() - shared, kinds.len() - shared, nemesis.script.len())
    };
    match others.min_by_key(unlike) {
        Some(other) => changed(story, &[("nemesis", other.to_string())]),
        None => client_check(story),
    }
}
