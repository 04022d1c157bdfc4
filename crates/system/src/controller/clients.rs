//! Keeps each client busy with its operations, one at a time, and records its answers. Several clients may be threads of one
//! process ([`ClientHost`]); each thread has its own operations.
//!
//! A client that crashes, hangs, or sends invalid messages is reported with the message. Its operation becomes indeterminate. The
//! client is restarted under the next process number, so a crashed process never acts again. All threads of its process are
//! restarted with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::answers::{ClientAnswer, judge, report};
use super::excerpt::{shorten, told};
use super::flood::Allowance;
use super::grants::Holder;
use super::messages::{ClientFailure, ClientHost, shown};
use super::{Run, RunError};
use crate::client::protocol::{Breakpoints, FromClient, Hello, Invoke, NEWEST, PROTOCOL, Ready, Resource, ToClient};
use base::members::{client_name, node_name};
use base::units::nanos;
use base::words;
use model::history::{
    Body, ClientEvent, ClientStep, Completion, Function, Invocation, Orders, Outcome, Phase, Process, Reading,
    ResourceKind,
};
use model::plan::{Action, Operations, PlanError, PlannedOperation};
use model::scenario::Ability;

/// How long a client may take to say `ready`; loading an interpreter for the first time is slow.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long a client may take beyond its lock timeout, hold time and pause before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(8);
/// A client that fails this often in a row is broken, not unlucky.
const FAILURES_IN_A_ROW: u32 = 3;
/// How long to wait for the end of a process whose output is closed.
const STATE_LIMIT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// One client: its current process, and its next operations.
pub(super) struct Client {
    number: u32,
    process: u32,
    host: Arc<ClientHost>,
    /// The index of its thread in the host.
    thread: usize,
    operations: Operations,
    /// The script's instructions to it; `None` without a script.
    instructions: Option<UnboundedReceiver<Instruction>>,
    /// Operations that the script started while another operation was in flight.
    due: VecDeque<OperationOptions>,
}

/// How to perform an operation.
#[derive(Clone, Debug)]
pub(super) struct OperationOptions {
    /// True if the operation acquires the lock for reading; None if no script says so.
    pub reads: Option<bool>,
    pub breakpoints: Vec<Phase>,
    /// How long the client tries to acquire the lock.
    pub acquire_timeout: Duration,
    /// The delay between the release and a second release. None for no second release.
    pub release_again_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum Instruction {
    Begin(OperationOptions),
    Go(Phase),
    Cancel,
}

impl Run<'_> {
    /// Starts every client and waits until all have said `ready`.
    pub(super) async fn start_clients(&self) -> Result<Vec<Client>, RunError> {
        let firsts = (0..self.scenario.clients).step_by(self.scenario.threads as usize);
        let starts = firsts.map(|first| async move {
            let process = self.cluster.start_client(first).await?;
            let numbers = first..self.scenario.clients.min(first + self.scenario.threads);
            let host = Arc::new(ClientHost::new(first, numbers.len(), process));
            let clients = (0..).zip(numbers).map(|(thread, number)| {
                let (host, operations) = (Arc::clone(&host), Operations::of(self.scenario, number)?);
                let (instructions, due) = (None, VecDeque::new());
                Ok(Client { number, process: number, host, thread, operations, instructions, due })
            });
            let clients: Vec<Client> = clients.collect::<Result<_, PlanError>>()?;
            match self.greet(&host, first).await {
                Ok(name) => {
                    for client in &clients {
                        self.record_client(client, ClientStep::Ready, name.clone())?;
                    }
                    Ok((host, clients))
                }
                Err(broken) => {
                    let text = self.in_full(&host, broken).await;
                    Err(RunError::Client { client: host.name(), text: self.with_remedy(text) })
                }
            }
        });
        let (hosts, clients): (Vec<_>, Vec<_>) = super::all_or_first_error(starts).await?.into_iter().unzip();
        // Clients are started only once, so this can't fail.
        let _ = self.hosts.set(hosts);
        Ok(clients.into_iter().flatten().collect())
    }

    /// Why a client can't be used, with details if it has ended.
    async fn in_full(&self, host: &ClientHost, ClientFailure { text, ended }: ClientFailure) -> String {
        if !ended {
            return text;
        }
        let name = host.name();
        // The client's output may close a moment before the client ends.
        let code = async {
            loop {
                let states = self.cluster.member_states().await.unwrap_or_default();
                if let Some(state) = states.into_iter().find(|state| state.name == name && !state.running) {
                    return exit_code(&state.text);
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        let code = timeout_at(Instant::now() + STATE_LIMIT, code).await.ok().flatten();
        let code = code.map_or_else(String::new, |code| format!(" with exit code {code}"));
        let last = host.last_words();
        let said = if last.is_empty() {
            "said nothing on standard error".to_string()
        } else {
            format!("last lines on standard error: {last}")
        };
        format!("{text}{code}; {said} ({})", self.folder.join(&name).join("client.log").display())
    }

    /// Why a client can't take part, with a hint about a firewall. By now the agent has reached every server, so the servers work
    /// even if the client cannot reach one.
    fn with_remedy(&self, text: String) -> String {
        let in_vain = ["can't connect within", "timed out"].iter().any(|words| text.contains(words));
        match self.cluster.firewall_between_members().filter(|_| in_vain) {
            Some(hint) => format!("{text}; the agent reaches it, so {hint}"),
            None => text,
        }
    }

    /// Says hello to a process with this process number in the history, and waits for `ready`. Returns the client's name for
    /// itself.
    async fn greet(&self, host: &ClientHost, process: u32) -> Result<String, ClientFailure> {
        let needed = self.scenario.asks_of_clients();
        let protocol = if needed.is_empty() { PROTOCOL } else { NEWEST };
        let list = host.list();
        let urls = (0..).zip(self.cluster.node_urls()).filter(|(node, _)| list.is_empty() || list.contains(node));
        let settings = self.scenario.lock_settings(urls.map(|(_, url)| url).collect());
        let mut lock = settings.map_err(|error| ClientFailure::new(error.to_string()))?;
        lock.group = self.cluster.lock_group();
        lock.options.extend(self.scenario.workload.lock.of_client(host.first));
        let hello = ToClient::Hello(Hello {
            protocol,
            client: host.name(),
            threads: u32::try_from(host.threads()).unwrap_or(u32::MAX),
            lock,
            resource: Resource::new(self.scenario.workload.resource, self.cluster.resource_url()),
            seed: self.scenario.seed.wrapping_add(u64::from(process)),
            key_prefix: self.cluster.named_for_clients(""),
        });
        // A client may refuse or end before it reads this. Its own message then explains more than the failed write.
        let closed = host.send(&hello).await.err();
        let limit = if closed.is_none() { READY_LIMIT } else { STATE_LIMIT };
        match (host.receive(0, Instant::now() + limit).await?, closed) {
            (Some(FromClient::Failed { text }), _) => {
                Err(ClientFailure::new(format!("it cannot start: {}", told(&text))))
            }
            (_, Some(closed)) => Err(closed),
            (Some(FromClient::Ready(ready)), None) => {
                if ready.protocol != protocol {
                    let speaks = ready.protocol;
                    return Err(ClientFailure::new(format!("it speaks protocol {speaks}, this run needs {protocol}")));
                }
                check_capabilities(&ready, &needed).map_err(ClientFailure::new)?;
                self.check_library_version(&ready.name).map_err(ClientFailure::new)?;
                Ok(shorten(&ready.name))
            }
            (Some(other), None) => Err(ClientFailure::new(format!("it sent {} instead of `ready`", shown(&other)))),
            (None, None) => {
                let last = host.last_words();
                let last =
                    if last.is_empty() { last } else { format!("; last lines on standard error so far: {last}") };
                Err(ClientFailure::new(format!("it did not say `ready` within {} s{last}", READY_LIMIT.as_secs())))
            }
        }
    }

    /// Refuses a client whose library has a different version than its workload file says. Reports would otherwise name the wrong
    /// version.
    fn check_library_version(&self, name: &str) -> Result<(), String> {
        let Some(library) = &self.scenario.workload.library else { return Ok(()) };
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        match name.split(' ').find(is_version) {
            Some(version) if version != library.version => Err(format!(
                "it reports that it is {}, but its workload gives version {}; make `version` in `[library]` and the installed \
                 version agree",
                words::quoted(name),
                library.version
            )),
            _ => Ok(()),
        }
    }

    /// Keeps one client busy until the run stops. Returns the client, or the reason why the controller gave it up.
    pub(super) async fn drive(&self, mut client: Client) -> Result<Client, RunError> {
        let mut failures = 0;
        while let Some(operation) = client.operations.next() {
            let Some(options) = self.next_turn(&mut client, &operation, &mut failures).await? else { break };
            match self.perform(&mut client, &operation, options).await? {
                Ok(()) => failures = 0,
                Err(broken) => {
                    self.replace(&mut client, broken, "the outcome of its operation is unknown", &mut failures).await?;
                }
            }
        }
        client.host.leave();
        Ok(client)
    }

    /// Waits until the client's next operation is due; `None` if the run stops first. Replaces a client that breaks while it is
    /// idle.
    async fn next_turn(
        &self,
        client: &mut Client,
        operation: &PlannedOperation,
        failures: &mut u32,
    ) -> Result<Option<OperationOptions>, RunError> {
        loop {
            let acquire_timeout = self.scenario.acquire_timeout;
            let usual =
                OperationOptions { reads: None, breakpoints: Vec::new(), acquire_timeout, release_again_ms: None };
            let turn = tokio::select! {
                biased;
                () = self.stop.raised() => return Ok(None),
                turn = client.turn(operation, usual) => turn,
            };
            match turn {
                Ok(options) => return Ok(Some(options)),
                Err(broken) => self.replace(client, broken, "it had no operation in progress", failures).await?,
            }
        }
    }

    /// Performs one operation and records it from invocation to completion.
    async fn perform(
        &self,
        client: &mut Client,
        operation: &PlannedOperation,
        options: OperationOptions,
    ) -> Result<Result<(), ClientFailure>, RunError> {
        self.board.begin(client.number, &operation.key);
        let id = self.next_operation_id();
        let process = Process::Client(client.process);
        let (f, new) = match self.scenario.workload.resource.kind {
            ResourceKind::Register | ResourceKind::Counter | ResourceKind::List | ResourceKind::Row => {
                let scripted = options.reads.map(|reads| if reads { Function::Shared } else { Function::Rmw });
                let f = scripted.or(operation.f).unwrap_or(Function::Rmw);
                (f, f.writes().then(|| operation.value.clone()))
            }
            ResourceKind::Replicated => {
                // Scripts wait for phases, and only a compare-and-set goes through all of them.
                let scripted = (!self.plan.script.is_empty()).then_some(Function::Cas);
                let f = scripted.or(operation.f).unwrap_or(Function::Read);
                (f, f.writes().then(|| operation.value.clone()))
            }
            ResourceKind::None => (Function::Hold, None),
        };
        let acquire_timeout_ms = options.acquire_timeout.as_millis() as u64;
        let orders = Orders {
            acquire_timeout_ms: (Some(acquire_timeout_ms) != self.usual_timeout_ms).then_some(acquire_timeout_ms),
            release_again_ms: options.release_again_ms,
            breakpoints: options.breakpoints.clone(),
        };
        self.recorder.append(Body::Invoke(Invocation {
            process,
            f,
            key: operation.key.as_str().into(),
            new: new.as_deref().map(Into::into),
            orders,
        }))?;
        let invoke = ToClient::Invoke(Invoke {
            id,
            thread: u32::try_from(client.thread).unwrap_or(u32::MAX),
            f,
            key: self.cluster.named_for_clients(&operation.key),
            value: new.clone(),
            hold_ms: operation.hold_ms,
            acquire_timeout_ms,
            release_again_ms: options.release_again_ms,
            check_every_ms: self.scenario.in_ms(self.scenario.workload.check_every),
            breakpoints: Breakpoints::at(options.breakpoints),
        });
        client.host.begin(client.thread, id);
        let waits = self.scenario.acquire_timeout.max(options.acquire_timeout);
        let told = operation.hold_ms + options.release_again_ms.unwrap_or_default();
        let by_itself = waits + Duration::from_millis(told) + PATIENCE;
        let mut cancelled = false;
        let answer = match client.host.send(&invoke).await {
            Ok(()) => self.follow(client, id, f, operation, by_itself, &mut cancelled).await?,
            Err(broken) => Err(broken),
        };
        client.host.end(client.thread);
        let mut completion = Completion {
            process,
            f,
            key: operation.key.as_str().into(),
            outcome: Outcome::Info,
            old: Reading::Unknown,
            amount: None,
            new: new.map(Into::into),
            error: None,
            text: None,
        };
        let judged = judge(answer, cancelled, &mut completion);
        let outcome = completion.outcome;
        self.count(outcome);
        self.overlapped(self.seen.end(&operation.key, client.process));
        let unique = matches!(self.scenario.workload.resource.kind, ResourceKind::Register | ResourceKind::Row);
        if unique && f.writes() && outcome == Outcome::Ok && self.seen.replaced(&operation.key, &completion.old) {
            self.status.send_modify(|status| status.lost += 1);
        }
        self.recorder.append(Body::Complete(completion))?;
        self.board.end(client.number, outcome);
        Ok(judged)
    }

    /// Records the phases of a client's operation until the client answers or breaks, or the run is over. `by_itself` is how long
    /// the operation may take without faults.
    async fn follow(
        &self,
        client: &mut Client,
        id: u64,
        f: Function,
        operation: &PlannedOperation,
        by_itself: Duration,
        cancelled: &mut bool,
    ) -> Result<Result<ClientAnswer, ClientFailure>, RunError> {
        // Before a script's first step, no fault delays a client.
        let is_free = !self.plan.script.is_empty() && !self.script_has_begun.is_raised();
        let held_up = if is_free { Duration::ZERO } else { self.longest_fault() };
        let began = Instant::now();
        let mut hung_at = began + by_itself + held_up;
        let mut last_said = None;
        let mut is_scripted = true;
        let mut allowance = Allowance::of_an_operation();
        loop {
            let received = tokio::select! {
                biased;
                received = client.host.receive(client.thread, hung_at) => received,
                instruction = next_instruction(&mut client.instructions) => {
                    let told = match instruction {
                        Instruction::Begin(options) => {
                            client.due.push_back(options);
                            continue;
                        }
                        Instruction::Go(phase) => ToClient::Go { id, phase },
                        Instruction::Cancel => {
                            *cancelled = true;
                            self.recorder.append(Body::Cancel { process: client.process })?;
                            ToClient::Cancel { id }
                        }
                    };
                    if let Err(broken) = client.host.send(&told).await {
                        return Ok(Err(broken));
                    }
                    continue;
                }
                // From now on, no step of the script delays the client.
                () = self.script_is_over.raised(), if is_scripted => {
                    is_scripted = false;
                    hung_at = hung_at.min(Instant::now() + by_itself);
                    continue;
                }
                () = self.cut_off.raised() => return Ok(Ok(ClientAnswer::CutOff)),
            };
            let message = match received {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(Err(hangs(began.elapsed(), last_said))),
                Err(broken) => return Ok(Err(broken)),
            };
            if message.id() != Some(id) {
                return Ok(Err(ClientFailure::new(format!(
                    "it sent {} while operation {id} is in progress",
                    shown(&message)
                ))));
            }
            if let Err(reason) = allowance.take(&message) {
                return Ok(Err(ClientFailure::new(reason)));
            }
            match message {
                FromClient::Phase(phase) => {
                    let reached = phase.phase;
                    last_said = Some(reached);
                    let overlaps = self.seen.phase(&operation.key, client.process, f, reached, phase.mono_ns);
                    self.overlapped(overlaps);
                    self.recorder.append(Body::Phase(report(client.process, phase)))?;
                    // An ownership check does not move the operation forward.
                    if reached != Phase::Owned {
                        self.board.reach(client.number, reached);
                    }
                }
                FromClient::Ok { new: Some(new), .. } if new != operation.value => {
                    return Ok(Err(ClientFailure::new(format!(
                        "it reports that it wrote {} instead of `{}`",
                        words::quoted(&new),
                        operation.value
                    ))));
                }
                FromClient::Acquire { .. } if self.scenario.workload.lock.is_granted_by_controller() => {
                    let granted = self
                        .grants
                        .ask(&operation.key, Holder { process: client.process, operation: id, shared: f.is_shared() });
                    if let Err(broken) = client.host.send(&ToClient::Granted { id, granted }).await {
                        return Ok(Err(broken));
                    }
                }
                FromClient::Release { .. } if self.scenario.workload.lock.is_granted_by_controller() => {
                    self.grants.give_back(
                        &operation.key,
                        Holder { process: client.process, operation: id, shared: f.is_shared() },
                    );
                }
                answer => return Ok(Ok(ClientAnswer::Message(answer))),
            }
        }
    }

    /// Records that a client is unusable, and restarts it under the next process number. Gives up after too many `failures` in a
    /// row.
    async fn replace(
        &self,
        client: &mut Client,
        broken: ClientFailure,
        consequence: &str,
        failures: &mut u32,
    ) -> Result<(), RunError> {
        let on_purpose = client.host.is_restarted();
        client.host.break_down(&broken);
        let is_killed = broken.ended && self.is_killed(client.number);
        *failures += u32::from(!on_purpose && !is_killed);
        let reason = self.in_full(&client.host, broken).await;
        let reason = if on_purpose || is_killed { reason } else { format!("{reason} (failure {failures} in a row)") };
        let name = client_name(client.number);
        let ending = match is_killed {
            true => format!("{name} was killed by the scenario"),
            false => format!("client {name}: {reason}"),
        };
        if !on_purpose {
            warn!(client = client.number, %reason, "client broken");
            self.status.send_modify(|status| status.notes.push(format!("{ending}; {consequence}")));
        }
        self.record_client(client, ClientStep::Ended, reason.clone())?;
        let give_up_with = |text| Err(RunError::Client { client: name, text });
        if *failures >= FAILURES_IN_A_ROW {
            return give_up_with(reason);
        }
        self.take_from(client.host.first, client.process).await?;
        client.process += self.scenario.clients;
        if client.host.is_to_replace().await {
            client.host.renew(self.cluster.restart_client(client.host.first).await?).await;
            match self.greet(&client.host, client.process).await {
                Ok(name) => client.host.go_on(name),
                Err(broken) => {
                    let text = self.in_full(&client.host, broken).await;
                    return give_up_with(format!("after a restart (it had failed: {reason}): {text}"));
                }
            }
        }
        self.record_client(client, ClientStep::Ready, client.host.reported_name())?;
        self.board.replace(client.number);
        Ok(())
    }

    /// Records which clients have ended between two operations. Without this, their end would be noticed only at their next
    /// operation.
    pub(super) fn note_ends(&self, clients: &[Client]) -> Result<(), RunError> {
        for host in self.hosts() {
            let Some(reason) = host.ended_unnoticed() else { continue };
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            for client in clients.iter().filter(|client| Arc::ptr_eq(&client.host, host)) {
                let text = format!("it ended between two operations{reason}");
                self.record_client(client, ClientStep::Ended, text)?;
            }
        }
        Ok(())
    }

    fn record_client(&self, client: &Client, step: ClientStep, text: String) -> Result<(), RunError> {
        let list = if step == ClientStep::Ready { client.host.list() } else { Vec::new() };
        let nodes = list.into_iter().map(node_name).collect();
        self.recorder.append(Body::Client(ClientEvent { process: client.process, step, text, nodes }))?;
        Ok(())
    }

    /// How long the plan may delay a client: the sum of each series' longest fault, or all waits of a script.
    pub(super) fn longest_fault(&self) -> Duration {
        let mut series = BTreeMap::<usize, u64>::new();
        for fault in &self.plan.faults {
            let longest = series.entry(fault.series).or_default();
            *longest = fault.lasts_ms.max(*longest);
        }
        let recurring = series.values().sum();
        let scripted = self.plan.script.iter().map(|step| match step.action {
            Action::Wait { ms } => ms,
            Action::Start { within_ms, .. }
            | Action::Go { within_ms, .. }
            | Action::Await { within_ms, .. }
            | Action::AwaitPrimary { within_ms }
            | Action::AwaitStrike { within_ms, .. }
            | Action::Expect { within_ms, .. } => within_ms,
            Action::Inject { .. } | Action::Heal { .. } | Action::Cancel { .. } => 0,
        });
        Duration::from_millis(scripted.sum::<u64>().max(recurring))
    }
}

/// The failure of a client that has not answered for this long. It names the last phase, which shows where the client got stuck.
fn hangs(waited: Duration, last_said: Option<Phase>) -> ClientFailure {
    let last = match last_said {
        Some(phase) => format!("its last report was `{}`", phase.word()),
        None => "no report".to_string(),
    };
    ClientFailure::new(format!("it hangs: no answer {} after its `invoke`, and {last}", words::length(nanos(waited))))
}

/// The script's next instruction; never resolves if there is no script or the script is over.
async fn next_instruction(instructions: &mut Option<UnboundedReceiver<Instruction>>) -> Instruction {
    if let Some(receiver) = instructions
        && let Some(instruction) = receiver.recv().await
    {
        return instruction;
    }
    std::future::pending().await
}

impl Client {
    /// Makes the client carry out only a script's instructions.
    pub(super) fn follow_script(&mut self) -> UnboundedSender<Instruction> {
        let (sender, receiver) = unbounded_channel();
        self.instructions = Some(receiver);
        sender
    }

    /// Waits until the next operation is due; returns how to perform it. Also reads the client's messages meanwhile, so that they
    /// do not pile up; each is a protocol error.
    async fn turn(
        &mut self,
        operation: &PlannedOperation,
        usual: OperationOptions,
    ) -> Result<OperationOptions, ClientFailure> {
        if let Some(options) = self.due.pop_front() {
            return Ok(options);
        }
        let instructions = &mut self.instructions;
        let due = async {
            if instructions.is_none() {
                // The runtime's timers count whole milliseconds: even a wait of zero length would take one.
                if operation.think_ms > 0 {
                    sleep(Duration::from_millis(operation.think_ms)).await;
                }
                return usual;
            }
            loop {
                match next_instruction(instructions).await {
                    Instruction::Begin(options) => return options,
                    // The operation is already over, for example because its client broke.
                    Instruction::Go(_) | Instruction::Cancel => {}
                }
            }
        };
        tokio::select! {
            biased;
            options = due => Ok(options),
            said = self.host.next(self.thread) => {
                Err(ClientFailure::new(format!("it sent {} while no operation is in progress", shown(&said?))))
            }
        }
    }
}

/// Refuses a client that lacks an ability that the run needs.
fn check_capabilities(ready: &Ready, needed: &[(Ability, String)]) -> Result<(), String> {
    match needed.iter().find(|(ability, _)| !ready.capabilities.iter().any(|has| has == ability.word())) {
        Some((ability, what)) => Err(format!(
            "{what} needs the capability `{}`, but the client's `ready` does not list it in `capabilities`. Choose a workload \
             whose client lists it (docs/client-protocol.md)",
            ability.word()
        )),
        None => Ok(()),
    }
}

/// The exit code in a state such as `Exited (137) 2 seconds ago`, with the name of its signal.
fn exit_code(state: &str) -> Option<String> {
    let code: i32 = state.split_once('(')?.1.split_once(')')?.0.parse().ok()?;
    Some(match code {
        137 => "137 (SIGKILL)".to_string(),
        139 => "139 (SIGSEGV)".to_string(),
        143 => "143 (SIGTERM)".to_string(),
        code => code.to_string(),
    })
}
