//! The hits of a run's faults, from the run's own records: the client's activity, the command, and its effect.

use std::fmt;

use super::commands::{When, name_for_all, queued, when};
use base::redis_commands::changes_a_lock;
use base::words::{list, plural};
use model::fault_kinds::CallEffect;
use model::history::{FaultWindow, History, Operation, Phase, PhaseStamp, RecordedCommand};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultHit {
    /// The client's activity. If the client was paused there, its activity by that time. None if it had no operation.
    pub when: Option<When>,
    /// In capitals. `EVAL` stands for every command that runs a script. Empty if the history does not say.
    pub command: String,
    /// The client, its command and the reply, in the words of the history.
    pub what: String,
    /// How many commands it hit in this run.
    pub times: u64,
    /// True if the fault held the command back from its node until the heal.
    pub was_kept_away: bool,
    pub did: CommandEffect,
}

/// The effect of a command on the lock, from the commands that the node executed, if they were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEffect {
    /// It wrote a key of the lock with these commands: its own, or those that its script called.
    Changed(Vec<String>),
    /// It wrote no key of the lock. These are its commands.
    Nothing(Vec<String>),
    /// The fault held it back from the node, and it never arrived.
    NeverCame,
    /// It arrived, and the node refused it.
    Refused,
    /// It was not recorded.
    Unknown,
}

/// A hit is noticed within this time, in nanoseconds.
const NOTICED: u64 = 250_000_000;
/// The largest error of the times that a node reports with its commands, in nanoseconds.
const CLOCK: u64 = 1_000_000;

/// The hits of a run's faults, in order. These are the commands, if any fault waited for one. Otherwise they are the clients,
/// nodes or links that faults hit.
pub fn struck(history: &History, commands: &[RecordedCommand]) -> Vec<FaultHit> {
    let observed = || history.faults.iter().filter(|window| window.was_observed());
    let at_commands: Vec<FaultHit> = observed()
        .filter(|window| window.kind.is_at_command())
        .map(|window| at_command(history, window, commands))
        .collect();
    if !at_commands.is_empty() {
        return at_commands;
    }
    let mut all: Vec<FaultHit> = Vec::new();
    for window in observed() {
        let what = format!("{} of {}", window.kind.says.name, list(&window.targets));
        match all.iter_mut().find(|other| other.what == what) {
            Some(other) => other.times += 1,
            None => all.push(FaultHit {
                when: doing(history, window, window.inject),
                command: String::new(),
                what,
                times: 1,
                was_kept_away: false,
                did: CommandEffect::Unknown,
            }),
        }
    }
    all
}

/// The clients' activities when faults hit them: at each command, or else at the first fault that hit a client. Empty if no
/// client was at work.
pub fn struck_when(struck: &[FaultHit]) -> Vec<When> {
    let is_at_command = struck.iter().any(|struck| !struck.command.is_empty());
    struck.iter().filter_map(|struck| struck.when).take(if is_at_command { usize::MAX } else { 1 }).collect()
}

/// The activity of the client that a fault hit, at that time. If its operation was over when the hit was noticed, its activity
/// shortly before.
fn doing(history: &History, window: &FaultWindow, time: u64) -> Option<When> {
    let header = history.run.as_ref()?;
    let hit = || history.operations.iter().filter(|one| window.targets.contains(&header.client_name(one.process)));
    let at = |operation, time| match when(operation, time)? {
        When::Taking if is_had_by_another(history, operation, time) => Some(When::Waiting),
        doing => Some(doing),
    };
    hit().find_map(|operation| at(operation, time)).or_else(|| {
        let shortly_before = |end: &u64| (time.saturating_sub(NOTICED)..time).contains(end);
        let ended = hit().filter_map(|operation| Some((operation, operation.completed.filter(shortly_before)?)));
        ended.max_by_key(|(_, end)| *end).and_then(|(operation, end)| at(operation, end))
    })
}

/// True if another client holds the lock that this operation asks for, as far as that other client knows.
fn is_had_by_another(history: &History, operation: &Operation, time: u64) -> bool {
    let at = |other: &Operation, phase| other.phase(phase).map(PhaseStamp::time);
    history.operations.iter().any(|other| {
        other.process != operation.process
            && other.key == operation.key
            && at(other, Phase::Acquired).is_some_and(|from| from <= time)
            && at(other, Phase::Released).or(other.completed).is_none_or(|until| until > time)
    })
}

fn at_command(history: &History, window: &FaultWindow, commands: &[RecordedCommand]) -> FaultHit {
    let what = window.texts.first().cloned().unwrap_or_default();
    let named = NamedCommand::in_words(&what);
    let was_kept_away = window.on_call == Some(CallEffect::HoldRequest);
    let refused_until = refused_until(history, window).filter(|_| was_kept_away);
    // A node does not record a command that it refuses. A later record is of another command.
    let was_refused = window.on_call == Some(CallEffect::Refuse);
    let place = named.as_ref().filter(|_| !was_refused).and_then(|named| named.place(window, commands));
    let place = place.filter(|place| refused_until.is_none_or(|until| commands[*place].time < until));
    let did = match place {
        Some(place) => did(commands, place),
        None if was_refused || refused_until.is_some() => CommandEffect::Refused,
        None if was_kept_away && named.is_some() && !commands.is_empty() => CommandEffect::NeverCame,
        None => CommandEffect::Unknown,
    };
    // The time of execution is more exact than the time at which the hit was noticed.
    let carried_out = place.filter(|_| !was_kept_away).map(|place| commands[place].time);
    // A majority of other nodes may have granted it the lock by the time of the pause.
    let time = stopped_at(history, window).or(carried_out).unwrap_or(window.inject);
    FaultHit {
        when: doing(history, window, time),
        command: named.map(|named| name_for_all(named.command)).unwrap_or_default(),
        times: window.texts.iter().find_map(|text| times(text)).unwrap_or(1),
        was_kept_away,
        what,
        did,
    }
}

/// The time until which a node refused writes, if it did so when the held-back command arrived. None if no node refused writes
/// then.
fn refused_until(history: &History, window: &FaultWindow) -> Option<u64> {
    let came = window.heal.unwrap_or(u64::MAX);
    let refusals = history.faults.iter().filter(|other| other.kind.refuses_writes() && other.was_observed());
    let mut until = refusals.filter(|other| other.inject <= came).map(|other| other.heal.unwrap_or(u64::MAX));
    until.find(|until| *until >= came)
}

/// The time at which the client was paused or blocked, if that was before the command's fault was healed. None otherwise.
fn stopped_at(history: &History, window: &FaultWindow) -> Option<u64> {
    let header = history.run.as_ref()?;
    let is_client = |name: &String| history.operations.iter().any(|one| header.client_name(one.process) == *name);
    let stopped = history.faults.iter().filter(|other| {
        other.kind.suspends()
            && other.was_observed()
            && (window.inject..window.heal.unwrap_or(u64::MAX)).contains(&other.inject)
            && other.targets.iter().any(|name| window.targets.contains(name) && is_client(name))
    });
    stopped.map(|other| other.injected.map_or(other.inject, |(time, _)| time)).min()
}

/// How many commands a fault hit, from the text of its heal: `it fired once`, `it fired 3 times`. Older runs say `struck`.
fn times(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("it fired ").or_else(|| text.split_once("it struck "))?;
    match after.split(' ').next()? {
        "once" => Some(1),
        number => number.parse().ok(),
    }
}

/// `c0's 1st SET of lock:k0 to n0 was answered ...`, in the words of the agent.
struct NamedCommand<'t> {
    client: &'t str,
    command: &'t str,
    node: &'t str,
}

impl NamedCommand<'_> {
    fn in_words(text: &str) -> Option<NamedCommand<'_>> {
        let (client, rest) = text.split_once("'s ")?;
        let mut words = rest.split(' ');
        let (_, command) = (words.next()?, words.next()?);
        let node = words.skip_while(|word| *word != "to").nth(1)?;
        Some(NamedCommand { client, command, node })
    }

    fn place(&self, window: &FaultWindow, commands: &[RecordedCommand]) -> Option<usize> {
        let is_it = |command: &RecordedCommand| {
            !command.in_script
                && command.from.as_deref() == Some(self.client)
                && command.node == self.node
                && command.words.first().is_some_and(|name| name.eq_ignore_ascii_case(self.command))
        };
        let mut its = commands.iter().enumerate().filter(|(_, command)| is_it(command));
        let found = match window.on_call {
            Some(CallEffect::HoldRequest) => its.find(|(_, command)| command.time > window.inject),
            _ => its
                .take_while(|(_, command)| command.time <= window.inject.saturating_add(CLOCK))
                .last()
                .filter(|(_, command)| command.time.saturating_add(NOTICED) >= window.inject),
        };
        found.map(|(place, _)| place)
    }
}

fn did(commands: &[RecordedCommand], place: usize) -> CommandEffect {
    let command = &commands[place];
    let carried_out: Vec<&RecordedCommand> = std::iter::once(command)
        .chain(queued(commands, place))
        .chain(RecordedCommand::called(&commands[place + 1..], &command.node))
        .collect();
    let name = |command: &RecordedCommand| command.words.first().map(|name| name.to_ascii_uppercase());
    let writes =
        |command: &RecordedCommand| command.key().is_some() && name(command).is_some_and(|name| changes_a_lock(&name));
    let changes: Vec<String> =
        carried_out.iter().filter(|command| writes(command)).filter_map(|command| name(command)).collect();
    match changes.is_empty() {
        false => CommandEffect::Changed(changes),
        true => CommandEffect::Nothing(carried_out.iter().filter_map(|command| name(command)).collect()),
    }
}

impl FaultHit {
    /// True if the fault hit nothing that matters to the lock, so that passing means nothing. A command that arrived late is
    /// not void: its effect is the library's own. A waiter's command is not void either: it has nothing to change.
    pub fn is_void(&self) -> bool {
        matches!(self.did, CommandEffect::Nothing(_)) && self.when != Some(When::Waiting) && !self.was_kept_away
    }
}

impl fmt::Display for FaultHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.times > 1 {
            write!(f, " ({})", plural(self.times, "time"))?;
        }
        match &self.did {
            CommandEffect::Changed(by) => write!(f, "; the command changed the lock's key by {}", list(by)),
            CommandEffect::Nothing(by) => write!(f, "; the command changed nothing about the lock ({})", list(by)),
            CommandEffect::NeverCame => f.write_str("; no client sent the command"),
            CommandEffect::Refused => f.write_str("; the node refused the command"),
            CommandEffect::Unknown => Ok(()),
        }
    }
}
