//! Checks a user's lock client: which claims its reports can show, at which phases it stops on order, and which scenarios it
//! can serve.
//!
//! There are two runs. In the first, clients work by themselves. In the second, a script stops one client at each phase in
//! turn. Meanwhile another client asks for the lock.
//!
//! Pure: other code makes the runs, with the same controller and checker as any other run. The check does not rate the *lock*
//! itself.

pub mod page;
mod unwritten;

use std::collections::BTreeMap;
use std::time::Duration;

use checker::ClaimVerdict;
use checker::properties::Property;
use model::history::{
    Claim, ClientStep, Function, History, Operation, Outcome, Phase, PhaseStamp, Process, ResourceKind, StepEvent,
    StepOutcome,
};
use model::nemesis::{Nemesis, Step};
use model::scenario::Scenario;

/// The runs of a check are filed under the workload's name, followed by this name.
const NAME: &str = "client-check";

/// The phases at which a script may stop a client.
const STOPS: [Phase; 8] = [
    Phase::Acquiring,
    Phase::HalfAcquired,
    Phase::Acquired,
    Phase::Read,
    Phase::BeforeWrite,
    Phase::Written,
    Phase::Releasing,
    Phase::HalfReleased,
];

/// A lock may have no such phase, so a client may leave these out.
const OPTIONAL: [Phase; 2] = [Phase::HalfAcquired, Phase::HalfReleased];

/// The time limit of a step. A client that extends its lock works for longer than a TTL.
const WITHIN: &str = "8ttl";

/// Clients work by themselves for at most this long.
const MOST_TIME: Duration = Duration::from_secs(60);

/// A longer run in which clients work by themselves. None if `at_work` was long enough for [`ENOUGH`] operations of a client,
/// or if no operation succeeded.
pub fn longer_at_work(like: &Scenario, at_work: &History) -> Option<Scenario> {
    let time_limit = Duration::from_nanos(slow(at_work)?.saturating_mul(2 * ENOUGH)).min(MOST_TIME);
    Some(Scenario { time_limit, ..self::at_work(like) })
}

/// True if no client ever answered an operation. A script would only wait for each client again.
pub fn never_answers(at_work: &History) -> bool {
    let mut operations = at_work.operations.iter().filter(by_a_client).peekable();
    let hangs =
        |one: &Operation| one.error() == Some("crash") && one.text().is_some_and(|text| text.starts_with("it hangs"));
    operations.peek().is_some() && operations.all(hangs)
}

/// The step that stops a client at this phase.
fn start(phase: Phase) -> String {
    format!("start client:0 to {} or end within {WITHIN}", phase.word())
}

/// True if operations on such a resource reach this phase.
fn belongs(phase: Phase, kind: ResourceKind) -> bool {
    let of_the_resource = matches!(phase, Phase::Read | Phase::BeforeWrite | Phase::Written);
    match kind {
        ResourceKind::None => !of_the_resource,
        ResourceKind::Replicated => of_the_resource,
        _ => true,
    }
}

/// The run in which clients work by themselves.
pub fn at_work(like: &Scenario) -> Scenario {
    let mut scenario = like.clone();
    scenario.nemesis_name = NAME.to_string();
    scenario
}

/// The run in which a script stops one client at each phase in turn, and lets another client ask for a lock that is held.
///
/// # Errors
///
/// If a step cannot be parsed, which is a bug of this file.
pub fn stopped(like: &Scenario) -> Result<Scenario, String> {
    let mut script = Vec::new();
    for phase in STOPS.into_iter().filter(|phase| belongs(*phase, like.workload.resource.kind)) {
        script.extend([
            start(phase),
            // A client that does not stop goes on during this wait.
            "wait 0.15ttl".to_string(),
            "go client:0".to_string(),
            format!("await client:0 end within {WITHIN} or go on"),
        ]);
    }
    if like.workload.resource.kind != ResourceKind::Replicated {
        // As many holders as the lock allows, then one more client.
        let asks = like.workload.permits;
        script.extend((0..asks).map(|holder| format!("start client:{holder} to acquired or end within {WITHIN}")));
        script.push(format!("start client:{asks} giving up after 0.2ttl"));
        script.push(format!("await client:{asks} end within 0.6ttl or go on"));
        script.extend((0..asks).map(|holder| format!("go client:{holder}")));
        script.extend((0..=asks).map(|client| format!("await client:{client} end within {WITHIN} or go on")));
    }
    let script = script.iter().map(|step| step.parse::<Step>().map_err(|error| error.to_string()));
    let mut scenario = at_work(like);
    scenario.nemesis = Nemesis { script: script.collect::<Result<_, _>>()?, ..scenario.nemesis };
    // The script begins after clients have worked by themselves for a while. That takes long if each holds the lock for long.
    scenario.time_limit = scenario.time_limit.max(MOST_TIME);
    Ok(scenario)
}

/// How a client obeyed the order to stop at a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It waited, and reported the phase again when it continued.
    Waited,
    /// It never reported the phase.
    NotReported,
    /// It reported the phase but did not wait correctly. The text is that of the client's contradiction.
    WentOn(String),
    /// The script ended before this phase.
    NotTried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseUse {
    pub phase: Phase,
    /// The successful operations that reach this phase (`of`), those that reported it, and those whose report has a valid
    /// stamp. A stamp is valid if it agrees with the times that the controller saw.
    pub reported: u64,
    pub stamped: u64,
    pub of: u64,
    pub stopped: Stopped,
}

/// True if a run need not contain anything that the claim is about.
fn is_conditional(claim: &ClaimVerdict) -> bool {
    Property::of(claim.claim).is_conditional()
}

/// How a client fared that asked for a lock while another client held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It reported the refusal after this many nanoseconds.
    After(u64),
    /// It acquired the lock after this many nanoseconds, although all permits were taken.
    NotAtAll(u64),
    /// It does not know if it acquired the lock.
    Unsure,
    /// It was still waiting after three times its time limit.
    Late,
    /// No client was stopped while it held the lock.
    NotTried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCheck {
    pub name: String,
    /// The number of operations in both runs that succeeded, that failed, and that are in doubt.
    pub answers: [u64; 3],
    /// The client's mistakes against the protocol, one of each kind.
    pub mistakes: Vec<String>,
    /// True if one mistake is that the client answers `ok` to writes that the resource never received.
    pub unwritten: bool,
    /// If the client never answered `ok`: how often its most frequent answer came, and that answer with its first text. None
    /// otherwise.
    pub never_ok: Option<(u64, String)>,
    /// The phases with stamps that do not use the clients' common clock.
    pub unfit: Vec<Phase>,
    pub phases: Vec<PhaseUse>,
    /// The claims, each with what the client's reports lack to decide it.
    pub claims: Vec<ClaimVerdict>,
    /// The step at which the script broke off. None if the script reached its end.
    pub broke_off: Option<String>,
    /// The time that an operation takes, in nanoseconds. None unless it is the reason why a claim of the workload cannot be
    /// decided.
    pub slow: Option<u64>,
    /// None if there is no lock to ask for.
    pub refused: Option<Refused>,
    /// How often the client reported a token, the lock's validity, a renewal, and a loss.
    pub extras: [(&'static str, u64); 4],
    pub serves: Vec<String>,
    /// The scenarios that the client cannot serve, grouped by what they need.
    pub lacks: BTreeMap<String, Vec<String>>,
    /// How many scenarios are not about the workload.
    pub not_about: u64,
}

impl ClientCheck {
    /// The results of both runs. `catalogue` has every nemesis by name, or the reason why it is not about the workload.
    pub fn new(at_work: &History, stopped: &History, catalogue: &[(String, Result<Nemesis, String>)]) -> ClientCheck {
        let kind = at_work.run.as_ref().map_or(ResourceKind::Register, |run| run.resource);
        let phases: Vec<PhaseUse> = STOPS
            .into_iter()
            .chain([Phase::Released])
            .filter(|phase| belongs(*phase, kind))
            .map(|phase| phase_use(phase, at_work, stopped))
            .collect();
        let histories = [at_work, stopped];
        let operations = || histories.iter().flat_map(|history| &history.operations).filter(by_a_client);
        let count = |outcome| operations().filter(|operation| operation.outcome == outcome).count() as u64;
        let stamps = || operations().flat_map(|operation| &operation.phases);
        let told = |phase| stamps().filter(|stamp| stamp.phase == phase).count() as u64;
        let unwritten = histories.into_iter().find_map(unwritten::unwritten);
        let mut unfit: Vec<Phase> =
            histories.iter().flat_map(|history| history.unfit_stamps.values()).map(|unfit| unfit.phase).collect();
        unfit.sort_unstable();
        unfit.dedup();
        let mut check = ClientCheck {
            name: name(at_work),
            answers: [Outcome::Ok, Outcome::Fail, Outcome::Info].map(count),
            unwritten: unwritten.is_some(),
            mistakes: unwritten.into_iter().chain(mistakes(at_work, stopped)).collect(),
            never_ok: most_often(operations()),
            unfit,
            claims: checker::check(at_work).claims,
            broke_off: broke_off(stopped),
            slow: slow(at_work),
            refused: (kind != ResourceKind::Replicated).then(|| {
                let holds = phases.iter().any(|used| used.phase == Phase::Acquired && used.stopped == Stopped::Waited);
                if holds { refused(stopped) } else { Refused::NotTried }
            }),
            extras: [
                ("tokens", stamps().filter(|stamp| stamp.token.is_some()).count() as u64),
                ("validity", stamps().filter(|stamp| stamp.validity_ms.is_some()).count() as u64),
                ("renewals", told(Phase::Extended)),
                ("losses", told(Phase::Lost)),
            ],
            phases,
            serves: Vec::new(),
            lacks: BTreeMap::new(),
            not_about: 0,
        };
        for (name, nemesis) in catalogue {
            match nemesis {
                Err(_) => check.not_about += 1,
                Ok(nemesis) => match check.lacks_for(nemesis) {
                    None => check.serves.push(name.clone()),
                    Some(what) => check.lacks.entry(what).or_default().push(name.clone()),
                },
            }
        }
        check
    }

    /// True if the client follows the protocol and at least one operation succeeded.
    pub fn is_right(&self) -> bool {
        self.mistakes.is_empty() && self.answers[0] > 0
    }

    /// True if every workload claim can be decided, a script can stop the client at every phase, and the lock keeps other
    /// clients out.
    pub fn is_complete(&self) -> bool {
        let stops = |used: &PhaseUse| {
            used.stopped == Stopped::Waited || OPTIONAL.contains(&used.phase) || used.phase == Phase::Released
        };
        self.is_right()
            && self.claims.iter().all(|claim| !claim.claimed || claim.missing.is_none() || is_conditional(claim))
            && self.phases.iter().all(stops)
            && !matches!(self.refused, Some(Refused::Unsure | Refused::NotAtAll(_)))
            && !self.overstays()
    }

    /// True if the client waits beyond its time limit although its workload claims timeouts.
    pub fn overstays(&self) -> bool {
        let promises = self.claims.iter().any(|made| made.claim == Claim::Timeouts && made.claimed);
        promises && self.refused == Some(Refused::Late)
    }

    /// The need of a scenario that the client lacks. None if the client can serve the scenario.
    fn lacks_for(&self, nemesis: &Nemesis) -> Option<String> {
        nemesis.script.iter().find_map(|step| {
            let phase = step.phase()?;
            // Renewals and losses come at any time. The two runs need not have contained any.
            let used = self.phases.iter().find(|used| used.phase == phase)?;
            let stops = matches!(step, Step::Start { .. } | Step::Go { .. });
            match &used.stopped {
                Stopped::WentOn(_) if stops => Some(format!("stopping at `{}`", phase.word())),
                _ if used.reported == 0 && !matches!(used.stopped, Stopped::Waited) => {
                    Some(format!("the phase `{}`", phase.word()))
                }
                Stopped::NotReported | Stopped::NotTried if stops && phase != Phase::Released => {
                    Some(format!("stopping at `{}`", phase.word()))
                }
                _ => None,
            }
        })
    }
}

/// The step with which a script broke off: `step 3, 'await client:0 end within 8ttl': client c0 did not reach 'end' within 8 s`.
fn broke_off(stopped: &History) -> Option<String> {
    let failed = |event: &&StepEvent| matches!(event.outcome, StepOutcome::Failed | StepOutcome::NotLive);
    let event = stopped.steps.iter().map(|(_, event)| event).find(failed)?;
    Some(format!("step {}, '{}': {}", event.number, event.step, event.text))
}

/// A run is long enough if a client can make this many operations in it.
pub const ENOUGH: u64 = 8;

/// The median time of the successful operations, in nanoseconds. None if the run was long enough for [`ENOUGH`] of them, or had
/// none.
fn slow(at_work: &History) -> Option<u64> {
    let over = at_work.operations.iter().filter(by_a_client).filter(|one| one.outcome == Outcome::Ok);
    let mut took: Vec<u64> = over.filter_map(|one| Some(one.completed?.saturating_sub(one.invoked))).collect();
    took.sort_unstable();
    let middle = *took.get(took.len() / 2)?;
    (middle.saturating_mul(ENOUGH) > at_work.last_time).then_some(middle)
}

fn by_a_client(operation: &&Operation) -> bool {
    operation.process != Process::Controller
}

/// The most frequent answer: how often it came, and its word with its first text. None if any answer was `ok`.
fn most_often<'h>(operations: impl Iterator<Item = &'h Operation>) -> Option<(u64, String)> {
    let mut answers: BTreeMap<(&str, &str), (u64, &str)> = BTreeMap::new();
    for operation in operations {
        let word = match operation.outcome {
            Outcome::Ok => return None,
            Outcome::Fail => "fail",
            Outcome::Info => "info",
        };
        let said = operation.text().unwrap_or_default();
        answers.entry((word, operation.error().unwrap_or_default())).or_insert((0, said)).0 += 1;
    }
    let ((word, error), (times, said)) = answers.into_iter().max_by_key(|(_, (times, _))| *times)?;
    let of = [error, said].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    Some((times, format!("`{word}`{}{of}", if of.is_empty() { "" } else { ", " })))
}

fn named(history: &History, client: u32) -> String {
    history.run.as_ref().map_or(String::new(), |run| run.client_name(Process::Client(client)))
}

/// True if the operation is of this client. A client keeps its name when it is restarted.
fn is_of(history: &History, operation: &Operation, client: &str) -> bool {
    history.run.as_ref().is_some_and(|run| run.client_name(operation.process) == client)
}

/// The first name that a client reported; empty if no client was ready.
fn name(history: &History) -> String {
    let ready = history.clients.iter().find(|(_, event)| event.step == ClientStep::Ready);
    ready.map_or_else(String::new, |(_, event)| event.text.clone())
}

/// The clients' mistakes against the protocol.
fn mistakes(at_work: &History, stopped: &History) -> Vec<String> {
    let mut mistakes: Vec<String> = Vec::new();
    for (when, history) in [("at work", at_work), ("stopped by a script", stopped)] {
        let ended = history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ended);
        let contradictions = history.contradictions.iter().map(|contradiction| contradiction.text.clone());
        for text in contradictions.chain(ended.map(|(_, event)| event.text.clone())) {
            let text = format!("{when}: {text}");
            // List a repeated mistake only once.
            if mistakes.len() < MOST_MISTAKES && !mistakes.iter().any(|other| alike(other, &text)) {
                mistakes.push(text);
            }
        }
    }
    mistakes
}

const MOST_MISTAKES: usize = 12;

/// True if two texts differ only in digits and in quotes between backticks.
fn alike(one: &str, other: &str) -> bool {
    let without = |text: &str| {
        let own = text.split('`').step_by(2).collect::<String>();
        own.chars().filter(|c| !c.is_ascii_digit()).collect::<String>()
    };
    without(one) == without(other)
}

fn phase_use(phase: Phase, at_work: &History, stopped: &History) -> PhaseUse {
    let succeeded = || {
        let of_it = |operation: &&Operation| operation.outcome == Outcome::Ok && comes_by(phase, operation.f);
        at_work.operations.iter().filter(by_a_client).filter(of_it)
    };
    let with = |wanted: fn(model::history::PhaseStamp) -> bool| {
        succeeded().filter(|operation| operation.phase(phase).is_some_and(wanted)).count() as u64
    };
    PhaseUse {
        phase,
        reported: with(|_| true),
        stamped: with(|stamp| stamp.stamped.is_some()),
        of: succeeded().count() as u64,
        stopped: how_it_stopped(phase, stopped),
    }
}

fn comes_by(phase: Phase, f: Function) -> bool {
    match phase {
        Phase::BeforeWrite | Phase::Written => f.writes(),
        _ => true,
    }
}

/// How the first operation behaved that had to stop at this phase.
fn how_it_stopped(phase: Phase, history: &History) -> Stopped {
    let wanted = start(phase);
    let Some((time, step)) = history.steps.iter().find(|(_, event)| event.step == wanted) else {
        return Stopped::NotTried;
    };
    if step.outcome != StepOutcome::Happened {
        return Stopped::NotReported;
    }
    // The step ends when the phase is reported, so its operation is the latest one that began by then.
    let first = |operation: &&Operation| is_of(history, operation, "c0") && operation.invoked <= *time;
    let operation = history.operations.iter().rfind(first);
    let said = operation.and_then(|operation| {
        let end = operation.completed_index.unwrap_or(u64::MAX);
        let of_it = |line: u64| (operation.index + 1..=end.saturating_add(1)).contains(&line);
        history.contradictions.iter().find(|contradiction| of_it(contradiction.line))
    });
    match said {
        Some(contradiction) => Stopped::WentOn(contradiction.text.clone()),
        None => Stopped::Waited,
    }
}

/// How the script's second client fared while the first client held the lock.
fn refused(history: &History) -> Refused {
    let asks = history.permits();
    let of_it = |event: &StepEvent, word: &str| event.step.starts_with(&format!("{word} client:{asks} "));
    let asked = history.steps.iter().find(|(_, event)| of_it(event, "start"));
    let Some((from, _)) = asked else { return Refused::NotTried };
    let awaited = history.steps.iter().find(|(time, event)| time > from && of_it(event, "await"));
    if awaited.is_some_and(|(_, event)| event.outcome != StepOutcome::Happened) {
        return Refused::Late;
    }
    let one_more = |operation: &&Operation| {
        is_of(history, operation, &named(history, asks)) && history.acquire_timeouts.contains_key(&operation.index)
    };
    let Some(operation) = history.operations.iter().find(one_more) else { return Refused::NotTried };
    let answered = operation.phase(Phase::Acquired).map(PhaseStamp::time).or(operation.completed);
    let after = answered.unwrap_or(operation.invoked).saturating_sub(operation.invoked);
    let had_it = |holder: u32| {
        let mut of_holder = history.operations.iter().filter(|one| is_of(history, one, &named(history, holder)));
        let began = |one: &Operation| one.phase(Phase::Acquired).is_some_and(|stamp| Some(stamp.time()) < answered);
        let over = |one: &Operation| one.phase(Phase::Releasing).map(PhaseStamp::time).or(one.completed);
        of_holder.any(|one| began(one) && over(one) > answered)
    };
    match operation.outcome {
        Outcome::Ok if !(0..asks).all(had_it) => Refused::NotTried,
        Outcome::Ok => Refused::NotAtAll(after),
        Outcome::Info => Refused::Unsure,
        Outcome::Fail => Refused::After(after),
    }
}
