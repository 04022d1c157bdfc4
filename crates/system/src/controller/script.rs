//! Carries out a script: clients do only what its steps say, so that the same situation occurs every time.
//!
//! Before the first step, every client shows that the lock works and is contended. After the last step, every client shows that
//! the lock works again. Otherwise a script in which nothing happened would look like a script that the lock passes.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::clients::{Instruction, OperationOptions};
use super::nemesis::FIRST_KEY;
use super::{Run, RunError};
use model::history::{Body, Expects, Missed, Opened, Phase, StepEvent, StepOutcome};
use model::nemesis::Milestone;
use model::plan::{Action, PlannedStep};

/// How many acknowledged operations each client needs before the first step.
const OPENING: u64 = 4;
/// How many acknowledged operations each client needs after the last step.
const CLOSING: u64 = 2;

pub(super) struct ScriptedClients {
    instructions: Vec<UnboundedSender<Instruction>>,
    /// How many operations the script has made each client begin.
    begun: Vec<u64>,
    /// The primary of the lock's key when the script began, or since the last change that the script saw.
    primary: Option<String>,
    /// For each client, the breakpoints of its latest operation that have not been opened yet.
    closed: Vec<Vec<Phase>>,
}

/// Pause between two questions for the current primary.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Pause between two checks whether a fault has fired.
const LOOK_FOR_STRIKE: Duration = Duration::from_millis(2);

/// Why a step did not achieve its aim.
struct Failed {
    text: String,
    what: Missed,
}

impl ScriptedClients {
    pub fn new(instructions: Vec<UnboundedSender<Instruction>>) -> ScriptedClients {
        let (begun, closed) = (vec![0; instructions.len()], vec![Vec::new(); instructions.len()]);
        ScriptedClients { instructions, begun, closed, primary: None }
    }

    fn begin(&mut self, client: u32, options: OperationOptions) {
        if let Some(closed) = self.closed.get_mut(client as usize) {
            closed.clone_from(&options.breakpoints);
        }
        self.tell(client, Instruction::Begin(options));
        if let Some(begun) = self.begun.get_mut(client as usize) {
            *begun += 1;
        }
    }

    fn open(&mut self, client: u32, breakpoint: Phase) {
        if let Some(closed) = self.closed.get_mut(client as usize) {
            closed.retain(|closed| *closed != breakpoint);
        }
        self.tell(client, Instruction::Go(breakpoint));
    }

    /// Cancels the client's operation, which then waits at none of its breakpoints.
    fn cancel(&mut self, client: u32) {
        if let Some(closed) = self.closed.get_mut(client as usize) {
            closed.clear();
        }
        self.tell(client, Instruction::Cancel);
    }

    fn left(&self) -> Vec<Opened> {
        let of = |(client, closed): (u32, &Vec<Phase>)| {
            closed.iter().map(move |from| Opened { client, from: *from, meant: false }).collect::<Vec<_>>()
        };
        (0..).zip(&self.closed).flat_map(of).collect()
    }

    fn let_go(&mut self, client: u32) {
        for breakpoint in self.closed.get_mut(client as usize).map(std::mem::take).unwrap_or_default() {
            self.tell(client, Instruction::Go(breakpoint));
        }
    }

    /// Sends an instruction. A client that was given up ends the run anyway, so a failed send does not matter.
    fn tell(&self, client: u32, instruction: Instruction) {
        if let Some(instructions) = self.instructions.get(client as usize) {
            let _ = instructions.send(instruction);
        }
    }

    fn begun(&self, client: u32) -> u64 {
        self.begun.get(client as usize).copied().unwrap_or(0)
    }
}

impl Run<'_> {
    /// Runs the script, then tells the clients to stop.
    pub(super) async fn run_script(&self, mut clients: ScriptedClients) -> Result<(), RunError> {
        let outcome = tokio::select! {
            biased;
            () = self.stop.raised() => Ok(()),
            outcome = self.run_steps(&mut clients) => outcome,
        };
        // If a script breaks off, clients still wait at breakpoints and faults are still in effect.
        for client in 0..self.scenario.clients {
            clients.let_go(client);
        }
        self.heal_each().await?;
        self.script_is_over.raise();
        self.stop.raise();
        outcome
    }

    async fn run_steps(&self, clients: &mut ScriptedClients) -> Result<(), RunError> {
        self.everybody(clients, OPENING).await;
        self.script_has_begun.raise();
        // By now, a library has created the keys that it keeps besides its locks, and no client holds a lock. It must be noted
        // here, since a script may break off before its end.
        if self.scenario.workload.library.is_some() {
            self.note_what_never_ends().await;
        }
        if self.scenario.workload.topology.has_roles() {
            clients.primary = Some(self.primary(FIRST_KEY).await);
        }
        for (number, step) in (1..).zip(&self.plan.script) {
            let (outcome, text, missed) = match self.step(step, clients).await? {
                Ok(()) => (StepOutcome::Happened, String::new(), None),
                Err(Failed { text, what }) => match step.action {
                    Action::Await { or_go_on: true, .. } | Action::AwaitStrike { or_go_on: true, .. } => {
                        (StepOutcome::WentOn, text, None)
                    }
                    Action::Start { or_end: true, .. } if what == Missed::Ended => (StepOutcome::WentOn, text, None),
                    Action::Expect { .. } => (StepOutcome::NotLive, text, None),
                    _ => (StepOutcome::Failed, text, Some(what)),
                },
            };
            info!(number, step = step.text, ?outcome, text, "step");
            let expects = match step.action {
                Action::Expect { client, event, within_ms } => {
                    let phase = match event {
                        Milestone::Phase(phase) => Some(phase),
                        Milestone::End => None,
                    };
                    Some(Expects { client, phase, within_ns: Some(within_ms.saturating_mul(1_000_000)) })
                }
                _ => None,
            };
            let opens = match step.action {
                Action::Go { client, from, kept: meant, .. } => vec![Opened { client, from, meant }],
                // After a failed step, waiting clients continue.
                _ if outcome == StepOutcome::Failed => clients.left(),
                _ => Vec::new(),
            };
            let step = step.text.clone();
            self.recorder.append(Body::Step(StepEvent { number, step, outcome, text, missed, expects, opens }))?;
            if outcome == StepOutcome::Failed {
                return Ok(());
            }
        }
        self.note_what_never_ends().await;
        self.script_is_over.raise();
        self.everybody(clients, CLOSING).await;
        Ok(())
    }

    /// Makes every client perform operations, all at once, until this many of each client's operations were acknowledged. Stolen
    /// or lost locks make some operations fail. So clients that lack some get further rounds, until a round brings no progress.
    async fn everybody(&self, clients: &mut ScriptedClients, operations: u64) {
        let wanted: Vec<u64> = self.board.acknowledged().iter().map(|acknowledged| acknowledged + operations).collect();
        loop {
            let before = self.board.acknowledged();
            for (client, (wanted, acknowledged)) in (0..).zip(wanted.iter().zip(&before)) {
                for _ in *acknowledged..*wanted {
                    let acquire_timeout = self.scenario.acquire_timeout;
                    clients.begin(
                        client,
                        OperationOptions {
                            reads: Some(false),
                            breakpoints: Vec::new(),
                            acquire_timeout,
                            release_again_ms: None,
                        },
                    );
                }
            }
            for client in 0..self.scenario.clients {
                let begun = clients.begun(client);
                self.board.until(client, |standing| (standing.ended >= begun).then_some(())).await;
            }
            if self.board.acknowledged() == before {
                return;
            }
        }
    }

    /// Carries out one step. If the awaited event does not happen, the failure says what happened instead.
    async fn step(&self, step: &PlannedStep, clients: &mut ScriptedClients) -> Result<Result<(), Failed>, RunError> {
        let waits_for = match &step.action {
            Action::Start {
                client,
                reads,
                breakpoints,
                stops,
                acquire_timeout_ms,
                release_again_ms,
                within_ms,
                ..
            } => {
                let options = OperationOptions {
                    reads: Some(*reads),
                    breakpoints: breakpoints.clone(),
                    acquire_timeout: Duration::from_millis(*acquire_timeout_ms),
                    release_again_ms: *release_again_ms,
                };
                clients.begin(*client, options);
                breakpoints
                    .first()
                    .filter(|_| *stops)
                    .map(|breakpoint| (*client, Milestone::Phase(*breakpoint), *within_ms))
            }
            Action::Go { client, from, to, within_ms, .. } => {
                clients.open(*client, *from);
                to.map(|to| (*client, Milestone::Phase(to), *within_ms))
            }
            Action::Await { client, event, within_ms, .. } | Action::Expect { client, event, within_ms } => {
                Some((*client, *event, *within_ms))
            }
            Action::Cancel { client } => {
                if !self.board.is_busy(*client) {
                    let text = format!("client c{client} had no operation to cancel");
                    return Ok(Err(Failed { text, what: Missed::NothingToCancel }));
                }
                clients.cancel(*client);
                None
            }
            Action::AwaitPrimary { within_ms } => return Ok(self.new_primary(clients, *within_ms).await),
            Action::AwaitStrike { fault, within_ms, .. } => return Ok(self.strike_of(*fault, *within_ms).await),
            Action::Wait { ms } => {
                sleep(Duration::from_millis(*ms)).await;
                None
            }
            Action::Inject { fault, what } => {
                let injection = self.injection(what, None).await;
                self.inject(*fault, what, injection).await?;
                None
            }
            Action::Heal { faults } => {
                for fault in faults {
                    self.heal(*fault).await?;
                }
                None
            }
        };
        Ok(match waits_for {
            Some((client, event, within_ms)) => self.awaited(clients, client, event, within_ms).await,
            None => Ok(()),
        })
    }

    /// Waits until a fault at a command has fired.
    async fn strike_of(&self, fault: u32, within_ms: u64) -> Result<(), Failed> {
        let struck = async {
            while self.is_armed(fault) {
                sleep(LOOK_FOR_STRIKE).await;
            }
        };
        match timeout(Duration::from_millis(within_ms), struck).await {
            Ok(()) if self.has_effect(fault) => Ok(()),
            Ok(()) => Err(Failed { text: "the fault could not be armed".to_string(), what: Missed::NotArmed }),
            Err(_) => {
                Err(Failed { text: format!("the fault did not fire within {within_ms} ms"), what: Missed::NotStruck })
            }
        }
    }

    /// Waits until a different node is the primary.
    async fn new_primary(&self, clients: &mut ScriptedClients, within_ms: u64) -> Result<(), Failed> {
        let before = clients.primary.clone();
        let changed = async {
            loop {
                let primary = self.primary(FIRST_KEY).await;
                if before.as_ref() != Some(&primary) {
                    return primary;
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        match timeout(Duration::from_millis(within_ms), changed).await {
            Ok(primary) => {
                clients.primary = Some(primary);
                Ok(())
            }
            Err(_) => {
                let text = format!("{} was still the primary", before.unwrap_or_default());
                Err(Failed { text, what: Missed::SamePrimary })
            }
        }
    }

    /// Waits until a client's latest operation has come this far.
    async fn awaited(
        &self,
        clients: &ScriptedClients,
        client: u32,
        event: Milestone,
        within_ms: u64,
    ) -> Result<(), Failed> {
        let number = clients.begun(client);
        let came = self.board.until(client, |standing| {
            if standing.begun < number {
                return None;
            }
            let over = standing.ended >= number;
            match event {
                Milestone::End => over.then_some(true),
                Milestone::Phase(phase) if has_come_to(phase, standing.reached.iter().map(|(reached, _)| *reached)) => {
                    Some(true)
                }
                Milestone::Phase(_) => over.then_some(false),
            }
        });
        match timeout(Duration::from_millis(within_ms), came).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = format!("client c{client} ended its operation without reaching `{event}`");
                Err(Failed { text, what: Missed::Ended })
            }
            Err(_) => {
                let text = format!("client c{client} did not reach `{event}` within {within_ms} ms");
                Err(Failed { text, what: Missed::Late })
            }
        }
    }
}

/// True if an operation that has reached these phases has come to the awaited phase. Waiting for an extension also ends when the
/// lock turns out to be lost, unless the release showed this.
fn has_come_to(wanted: Phase, reached: impl Iterator<Item = Phase> + Clone) -> bool {
    let mut before_release = reached.clone().take_while(|phase| *phase != Phase::Releasing);
    reached.clone().any(|phase| phase == wanted)
        || wanted == Phase::Extended && before_release.any(|phase| phase == Phase::Lost)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn an_extension_is_over_when_the_lock_is_lost_but_not_when_its_release_fails() {
        use Phase::{Acquired, Extended, Lost, Read, Releasing};
        let over = |reached: &[Phase]| has_come_to(Extended, reached.iter().copied());
        assert!(over(&[Acquired, Read, Extended]));
        assert!(over(&[Acquired, Read, Lost, Releasing]));
        assert!(!over(&[Acquired, Read]));
        assert!(!over(&[Acquired, Read, Releasing, Lost]));
        assert!(!has_come_to(Read, [Acquired, Lost].into_iter()), "that goes for extensions alone");
    }

    #[test]
    fn a_client_that_is_let_go_passes_the_breakpoints_that_are_left() {
        let (sender, mut told) = unbounded_channel();
        let mut clients = ScriptedClients::new(vec![sender]);
        let breakpoints = vec![Phase::Acquired, Phase::BeforeWrite, Phase::Releasing];
        let acquire_timeout = Duration::ZERO;
        clients.begin(0, OperationOptions { reads: None, breakpoints, acquire_timeout, release_again_ms: None });
        clients.open(0, Phase::Acquired);
        clients.let_go(0);
        clients.let_go(0);
        let mut breakpoints = Vec::new();
        while let Ok(instruction) = told.try_recv() {
            breakpoints.extend(match instruction {
                Instruction::Go(breakpoint) => Some(breakpoint),
                Instruction::Begin(_) | Instruction::Cancel => None,
            });
        }
        assert_eq!(breakpoints, [Phase::Acquired, Phase::BeforeWrite, Phase::Releasing], "each once");
    }
}
