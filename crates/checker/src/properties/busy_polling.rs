//! How often waiting clients ask a node for the lock. No claim limits it, but a node has other work.

use super::*;
use base::redis_commands::{BUSY_PER_SECOND, SHORT_WAIT_NS};

pub static DEF: Advisory = Advisory {
    id: "busy-polling",
    title: "A waiting client rests between its requests",
    applies: "runs without faults whose nodes recorded their commands and whose clients are processes",
    check: |run| most_often(run.history, run.commands),
};

/// The client that asked a node most often while it waited long. Only for runs without faults whose clients are processes.
fn most_often(history: &History, commands: &[RecordedCommand]) -> Option<Remark> {
    let run = history.run.as_ref().filter(|run| run.threads == 1 && history.faults.is_empty())?;
    let of_clients = history.operations.iter().filter(|one| one.f.is_locked() && one.process != Process::Controller);
    let waits = of_clients.filter_map(|one| Some((one, waited(one)?)));
    let sent = SentCommands::new(commands);
    let asked = waits.filter_map(|(operation, (from, until))| {
        let client = run.client_name(operation.process);
        let asks = sent.between(&client, from, until).map(|(_, command)| command);
        let (node, times) = busiest(asks.filter(|one| one.key().is_some_and(|key| key.contains(&*operation.key))))?;
        let waited = until - from;
        let per_second = (u128::from(times) * 1_000_000_000 / u128::from(waited)) as u64;
        Some((per_second, client, node, waited))
    });
    let often = asked.filter(|(per_second, ..)| *per_second > BUSY_PER_SECOND);
    let (severity, client, node, waited) = often.max_by_key(|(per_second, ..)| *per_second)?;
    let text = format!("{client} asked {node} for the lock {severity} times per second, for {}", length(waited));
    Some(Remark { severity, ..Remark::new(1, 1, sanitize(&text, 200))? })
}

/// The start and end of an operation's wait for the lock, if it took long.
fn waited(operation: &Operation) -> Option<(u64, u64)> {
    let from = operation.phase(Phase::Acquiring)?.time();
    let until = operation.phase(Phase::Acquired).map(PhaseStamp::time).or(operation.completed)?;
    (until.saturating_sub(from) >= SHORT_WAIT_NS).then_some((from, until))
}

/// The node that received most of these commands, and their number.
fn busiest<'a>(commands: impl Iterator<Item = &'a RecordedCommand>) -> Option<(&'a str, u64)> {
    let mut times = std::collections::BTreeMap::<&str, u64>::new();
    commands.for_each(|command| *times.entry(&command.node).or_default() += 1);
    times.into_iter().max_by_key(|(_, times)| *times)
}
