//! Commands that clients go on sending for a lock after their operation ended. That alone violates no claim, but such a command
//! may extend or acquire a lock that no operation uses.

use std::collections::HashMap;

use super::*;
use base::redis_commands::{self, asks, changes_a_lock, runs_a_script};

pub static DEF: Advisory = Advisory {
    id: "stray-commands",
    title: "No client sends commands for a lock that it no longer holds",
    applies: "runs whose nodes recorded their commands, and whose clients are processes",
    check: |run| stray_command(run.history, run.commands),
};

/// A command within the TTL divided by this may have been on its way, or due.
const DUE: u64 = 2;

/// The latest stray command of a run. Only if clients are processes: a thread may send commands for another thread of its
/// process.
fn stray_command(history: &History, commands: &[RecordedCommand]) -> Option<Remark> {
    let run = history.run.as_ref().filter(|run| run.threads == 1)?;
    let due = run.ttl_ms.saturating_mul(1_000_000) / DUE;
    let of_clients: Vec<(&Operation, String)> = history
        .operations
        .iter()
        .filter(|one| one.process != Process::Controller)
        .map(|one| (one, run.client_name(one.process)))
        .collect();
    let mut begins: HashMap<&str, Vec<u64>> = HashMap::new();
    for (operation, client) in &of_clients {
        begins.entry(client).or_default().push(operation.invoked);
    }
    begins.values_mut().for_each(|times| times.sort_unstable());
    let sent = SentCommands::new(commands);
    // The latest command: the time since the end of its operation, its client and name, and whether a fault or a cancellation
    // came before it.
    let (mut latest, mut operations, mut of): (Option<(u64, String, bool)>, u64, u64) = (None, 0, 0);
    for (operation, client) in of_clients.iter().filter(|(one, _)| one.f.is_locked()) {
        let Some(over) = over(operation) else { continue };
        of += 1;
        let times = &begins[client.as_str()];
        let until = times.get(times.partition_point(|time| *time < over)).copied().unwrap_or(history.last_time);
        let is_its = |(_, command): &(usize, &RecordedCommand)| {
            command.key().is_some_and(|key| key.contains(&*operation.key))
                && is_about_locks(command)
                && was_quiet(history, command.time, due)
        };
        let Some((place, command)) = sent.between(client, over.saturating_add(due), until).rfind(is_its) else {
            continue;
        };
        operations += 1;
        let after = command.time - over;
        if latest.as_ref().is_none_or(|(latest, ..)| *latest < after) {
            let all = std::iter::once(command).chain(RecordedCommand::called(&commands[place + 1..], &command.node));
            let renews = all.map(RecordedCommand::name).any(|name| redis_commands::renews(&name));
            let renews = if renews { ", which extends the TTL of a key" } else { "" };
            let over = match operation.phase(Phase::Acquired) {
                Some(_) => "it had released the lock",
                None => "its attempt had ended without the lock",
            };
            let text = format!("{client} sent {} {} after {over}{renews}", command.example(), length(after));
            latest = Some((after, text, was_disturbed(history, command.time)));
        }
    }
    let (severity, text, disturbed) = latest?;
    let text = sanitize(&format!("{text}; in total after {operations} of {}", plural(of, "operation")), 300);
    Some(Remark { severity, disturbed, ..Remark::new(operations, of, text)? })
}

/// The time at which an operation ended for its client: when it released the lock, or was refused. If its release is in doubt, it
/// may still be sending commands.
fn over(operation: &Operation) -> Option<u64> {
    let was_had = operation.phase(Phase::Acquired).is_some();
    let is_over = match operation.outcome {
        Outcome::Info => false,
        _ if was_had => operation.phase(Phase::Released).is_some(),
        outcome => outcome == Outcome::Fail,
    };
    operation.completed.filter(|_| is_over)
}

/// Leaving a channel or asking a node for its state does nothing to the lock.
fn is_about_locks(command: &RecordedCommand) -> bool {
    let name = command.name();
    changes_a_lock(&name) || asks(&name) || runs_a_script(&name)
}

/// True if no fault was in effect, and neither the machine nor a member stood still, for `due` before `time`.
fn was_quiet(history: &History, time: u64, due: u64) -> bool {
    let from = time.saturating_sub(due);
    let meets = |began: u64, ended: Option<u64>| began <= time && ended.is_none_or(|ended| ended >= from);
    !history.faults.iter().map(|window| window.span()).any(|(began, ended)| meets(began, ended))
        && !history.stalls.iter().any(|(began, ended)| meets(*began, Some(*ended)))
        && everyone_ran(history, (from, time), due)
}
