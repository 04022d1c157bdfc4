//! Turns a script's steps into actions of the controller, with fault numbers, breakpoints and limits. So nothing remains to be
//! computed when a step begins.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{PlanError, faults, millis};
use crate::history::Phase;
use crate::nemesis::{Fault, Milestone, Step};
use crate::scenario::Scenario;

/// One step of a script, with everything drawn and resolved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedStep {
    pub text: String,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The client begins an operation that waits for a `go` at these phases. If `stops`, the step waits until the operation is at
    /// the first of them or, if `or_end`, has ended.
    Start {
        client: u32,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        reads: bool,
        breakpoints: Vec<Phase>,
        stops: bool,
        acquire_timeout_ms: u64,
        /// How long after its release it releases again.
        #[serde(skip_serializing_if = "Option::is_none")]
        release_again_ms: Option<u64>,
        within_ms: u64,
        or_end: bool,
    },
    /// The client continues from breakpoint `from`; the step waits until it is at breakpoint `to`, if there is one.
    Go {
        client: u32,
        from: Phase,
        to: Option<Phase>,
        within_ms: u64,
        /// True if, by the steps in between, it was meant to wait there as long as a lock lives.
        kept: bool,
    },
    /// Cancels the client's operation in flight.
    Cancel {
        client: u32,
    },
    Await {
        client: u32,
        event: Milestone,
        within_ms: u64,
        or_go_on: bool,
    },
    Expect {
        client: u32,
        event: Milestone,
        within_ms: u64,
    },
    /// Waits until a different node is the primary of the lock's key.
    AwaitPrimary {
        within_ms: u64,
    },
    /// Waits until this fault has fired.
    AwaitStrike {
        fault: u32,
        within_ms: u64,
        or_go_on: bool,
    },
    Wait {
        ms: u64,
    },
    Inject {
        fault: u32,
        what: Fault,
    },
    Heal {
        faults: Vec<u32>,
    },
}

impl Serialize for Milestone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Default)]
struct ScriptedClient {
    /// The action that started its operation.
    started: Option<usize>,
    /// The breakpoint at which it waits.
    at: Option<Phase>,
    /// How long it waits there because of steps that do not wait for it.
    kept: Duration,
}

impl ScriptedClient {
    /// It goes on from its breakpoint, no further than `to`. Returns the breakpoint, and whether it has waited there as long as a
    /// lock lives. The error says why it can't go on.
    fn goes_to(&mut self, to: Option<Phase>, ttl: Duration) -> Result<(Phase, bool), &'static str> {
        let from = self
            .at
            .ok_or("the client does not wait at a breakpoint; an earlier step must name one, such as `to read`")?;
        if to.is_some_and(|to| to <= from) {
            return Err("the client is past that phase already");
        }
        self.at = to;
        Ok((from, std::mem::take(&mut self.kept) >= ttl))
    }
}

const NOT_IN_EFFECT: &str = "no earlier step injects that fault, or a step has healed it";

/// Clients at breakpoints wait there for this much longer.
fn stand(clients: &mut BTreeMap<u32, ScriptedClient>, longer: Duration) {
    clients.values_mut().filter(|standing| standing.at.is_some()).for_each(|standing| standing.kept += longer);
}

/// How long a step waits for a client by default: longer than any operation may take.
fn patience(scenario: &Scenario) -> Duration {
    scenario.acquire_timeout + scenario.ttl * 2 + Duration::from_secs(5)
}

fn ambiguous_key(scenario: &Scenario) -> String {
    format!("ambiguous with {} keys, since each key has its own nodes; pass --keys 1", scenario.keys)
}

pub(super) fn plan(scenario: &Scenario) -> Result<Vec<PlannedStep>, PlanError> {
    let mut rng = faults::stream_of_script(scenario);
    let mut steps: Vec<PlannedStep> = Vec::new();
    let mut clients: BTreeMap<u32, ScriptedClient> = BTreeMap::new();
    let mut in_effect: Vec<(u32, &Fault)> = Vec::new();
    let mut next_fault = 0;
    let ttl = scenario.ttl;
    for (number, step) in (1..).zip(&scenario.nemesis.script) {
        let wrong = |text: &str| PlanError::Nemesis(format!("step {number} of the nemesis, `{step}`: {text}"));
        if let Step::Start { client, .. }
        | Step::Go { client, .. }
        | Step::Cancel { client }
        | Step::Await { client, .. }
        | Step::Expect { client, .. } = step
            && *client >= scenario.clients
        {
            return Err(wrong(&faults::no_client(*client, scenario)));
        }
        let within_ms = millis(patience(scenario));
        let action = match step {
            Step::Start { client, reads, to, or_end, gives_up, releases_again, within } => {
                let kept = Duration::ZERO;
                clients.insert(*client, ScriptedClient { started: Some(steps.len()), at: *to, kept });
                let timeout = gives_up.map_or(scenario.acquire_timeout, |length| length.resolve(ttl));
                let within_ms = within.map_or(within_ms, |within| millis(within.resolve(ttl)));
                Action::Start {
                    client: *client,
                    reads: *reads,
                    breakpoints: to.iter().copied().collect(),
                    stops: to.is_some(),
                    acquire_timeout_ms: millis(timeout),
                    release_again_ms: releases_again.map(|after| millis(after.resolve(ttl))),
                    within_ms,
                    or_end: *or_end,
                }
            }
            Step::Go { client, to } => {
                let standing = clients.entry(*client).or_default();
                let (from, kept) = standing.goes_to(*to, ttl).map_err(wrong)?;
                let started = standing.started.and_then(|place| steps.get_mut(place));
                if let (Some(PlannedStep { action: Action::Start { breakpoints, .. }, .. }), Some(to)) = (started, to) {
                    breakpoints.push(*to);
                }
                Action::Go { client: *client, from, to: *to, within_ms, kept }
            }
            Step::Await { client, .. } | Step::Expect { client, .. } | Step::Cancel { client }
                if clients.get(client).is_none_or(|standing| standing.started.is_none()) =>
            {
                return Err(wrong("the client has not been started"));
            }
            Step::Cancel { client } => {
                // It waits at no breakpoint any more.
                clients.entry(*client).or_default().at = None;
                Action::Cancel { client: *client }
            }
            Step::Expect { client, event, within } => {
                Action::Expect { client: *client, event: *event, within_ms: millis(within.resolve(ttl)) }
            }
            Step::Await { client, event, within, or_go_on } => {
                let within_ms = within.map_or(within_ms, |within| millis(within.resolve(ttl)));
                Action::Await { client: *client, event: *event, within_ms, or_go_on: *or_go_on }
            }
            Step::AwaitPrimary { .. } if !scenario.workload.topology.has_roles() => {
                return Err(wrong("the lock's nodes are independent, so none of them is a primary"));
            }
            Step::AwaitPrimary { .. } if scenario.keys > 1 && faults::has_primaries(scenario) => {
                return Err(wrong(&ambiguous_key(scenario)));
            }
            Step::AwaitPrimary { within } => Action::AwaitPrimary { within_ms: millis(within.resolve(ttl)) },
            Step::AwaitStrike { fault, within, or_go_on } => {
                let armed = in_effect.iter().rfind(|(_, injected)| *injected == fault);
                let (fault, _) = armed.ok_or_else(|| wrong(NOT_IN_EFFECT))?;
                let within_ms = within.map_or(within_ms, |within| millis(within.resolve(ttl)));
                stand(&mut clients, Duration::from_millis(within_ms));
                Action::AwaitStrike { fault: *fault, within_ms, or_go_on: *or_go_on }
            }
            Step::Wait(length) => {
                stand(&mut clients, length.resolve(ttl));
                Action::Wait { ms: millis(length.resolve(ttl)) }
            }
            Step::Inject(fault) => {
                in_effect.push((next_fault, fault));
                let what = faults::resolve(&mut rng, fault, scenario)?;
                if faults::needs_key(&what, scenario) {
                    return Err(wrong(&ambiguous_key(scenario)));
                }
                next_fault += 1;
                Action::Inject { fault: next_fault - 1, what }
            }
            Step::Heal(fault) => {
                let place = in_effect.iter().rposition(|(_, injected)| *injected == fault);
                let place = place.ok_or_else(|| wrong(NOT_IN_EFFECT))?;
                Action::Heal { faults: vec![in_effect.remove(place).0] }
            }
            Step::HealAll => Action::Heal { faults: in_effect.drain(..).rev().map(|(number, _)| number).collect() },
        };
        steps.push(PlannedStep { text: step.to_string(), action });
    }
    // The run ends with all faults healed, whatever the file leaves in effect.
    if !in_effect.is_empty() {
        let faults = in_effect.into_iter().rev().map(|(number, _)| number).collect();
        steps.push(PlannedStep { text: "heal all".to_string(), action: Action::Heal { faults } });
    }
    Ok(steps)
}
