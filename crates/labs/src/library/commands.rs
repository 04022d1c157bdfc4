//! Finds the commands of a library from runs without faults in which every command was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::redis_commands::{asks, changes_a_lock, is_housekeeping, renews, runs_a_script};
use model::fault_kinds::names_a_key_of_the_run;
use model::history::{History, Operation, Phase, PhaseStamp, RecordedCommand};

/// The activity of a client when it sends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// No other client holds the lock, or no holder is known.
    Taking,
    /// Another client holds the lock.
    Waiting,
    Holding,
    Releasing,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            When::Taking => "while it acquires the lock",
            When::Waiting => "while it waits for the lock",
            When::Holding => "while it holds the lock",
            When::Releasing => "while it releases the lock",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedCommand {
    pub when: When,
    /// In capitals. `EVAL` stands for every command that runs a script.
    pub name: String,
    /// Its number, from 1, among the commands with this name and kind of key that one operation sends to one node at that
    /// stage.
    pub nth: u32,
    /// The index of this kind of key, from 1, among the kinds that commands of this name have at that stage.
    pub nth_key: u32,
    /// The operation's key in its arguments. None if it names none.
    pub key: Option<String>,
    /// True if the key is at the position where the command takes keys, so that a fault can recognize it by the key.
    pub is_keyed: bool,
    /// The command with its first arguments, as it was sent once.
    pub example: String,
    /// If it runs a script, the commands that the script called.
    pub calls: Vec<String>,
    pub operations: u64,
}

impl ObservedCommand {
    /// The pattern of its key. None if a fault cannot recognize the command by its key.
    pub(super) fn on(&self) -> Option<String> {
        self.key.as_deref().filter(|_| self.is_keyed).and_then(pattern)
    }
}

/// The names of commands that clients sent to acquire the lock only in these runs, and never in `sent`. An example is a command
/// that takes over the lock of a crashed holder. A script's text that was not yet cached on the server counts under the name
/// `EVAL`.
pub fn only_in(runs: &[(History, Vec<RecordedCommand>)], sent: &[ObservedCommand]) -> Vec<String> {
    let mut names = Vec::new();
    for (history, commands) in runs {
        let Some(header) = &history.run else { continue };
        for operation in &history.operations {
            let client = header.client_name(operation.process);
            let is_its = |command: &&RecordedCommand| {
                command.from.as_ref() == Some(&client)
                    && !command.in_script
                    && command.key().is_some()
                    && when(operation, command.time) == Some(When::Taking)
            };
            for name in commands.iter().filter(is_its).filter_map(|command| command.words.first()) {
                let name = name_for_all(&name.to_ascii_uppercase());
                if !names.contains(&name) && sent.iter().all(|sent| sent.name != name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// A command seen only once, or in less than one tenth of a run's operations, is not the library's usual way.
const FEW: u64 = 10;
/// Further commands of one name in one operation are retries.
const MOST_OF_A_NAME: u32 = 3;

/// The properties by which a fault can recognize a command: when its client sends it, its name, its kind of key, and its
/// number.
type Known = (When, String, Option<String>, u32);

/// The commands that acquire, extend or release locks in these runs, in the order of an operation. Runs of one client show how
/// a client acquires a lock. With several clients, other commands before the acquisition belong to waiting. Commands in only a
/// few operations are left out, such as the text of a script that was not yet cached on the server.
pub fn sent(runs: &[(History, Vec<RecordedCommand>)]) -> Vec<ObservedCommand> {
    let mut alone: Vec<_> = runs.iter().collect();
    alone.sort_by_key(|(history, _)| history.run.as_ref().is_some_and(|run| run.clients > 1));
    let mut seen: BTreeMap<Known, ObservedCommand> = BTreeMap::new();
    let mut order: Vec<Known> = Vec::new();
    // Some runs show what others cannot: a lock that is held briefly is not renewed.
    let mut usual: BTreeSet<Known> = BTreeSet::new();
    let has_one_client = |(history, _): &&(History, _)| history.run.as_ref().is_some_and(|run| run.clients == 1);
    let any_alone = alone.iter().any(has_one_client);
    let mut first_holds = FirstHolds::default();
    for (history, commands) in alone {
        let Some(header) = &history.run else { continue };
        let several = header.clients > 1;
        let mut reached: BTreeMap<When, u64> = BTreeMap::new();
        let mut in_run: BTreeMap<Known, u64> = BTreeMap::new();
        let mut begun = BTreeSet::new();
        for operation in &history.operations {
            for (phase, when) in [(Phase::Acquired, When::Holding), (Phase::Releasing, When::Releasing)] {
                *reached.entry(when).or_default() += u64::from(operation.phase(phase).is_some());
            }
            *reached.entry(if several { When::Waiting } else { When::Taking }).or_default() += 1;
            let client = header.client_name(operation.process);
            let is_first = begun.insert(client.clone());
            if is_first {
                first_holds.longest = first_holds.longest.max(held_until(operation, u64::MAX).unwrap_or(0));
            }
            let mut counts: BTreeMap<(When, &str, String, Option<String>), u32> = BTreeMap::new();
            let mut counted = BTreeSet::new();
            // The nodes that the client has asked for the lock, with the command and the key.
            let mut asked: BTreeSet<(String, &str, Option<String>)> = BTreeSet::new();
            for (place, command) in commands.iter().enumerate() {
                let Some(mut when) = when(operation, command.time) else { continue };
                let Some(name) = command.words.first().map(|name| name.to_ascii_uppercase()) else { continue };
                if command.from.as_deref() != Some(&*client) || command.in_script || is_housekeeping(&name) {
                    continue;
                }
                let is_keyed =
                    runs_a_script(&name) || command.words.get(1).is_some_and(|word| names_a_key_of_the_run(word));
                let name = name_for_all(&name);
                let key = command.key().or_else(|| queued(commands, place).find_map(RecordedCommand::key)).cloned();
                let on = key.as_deref().filter(|_| is_keyed).and_then(pattern);
                // The client had its majority before it asked the last nodes or keys. After a failed try, nodes may be asked
                // again: then only a command that acquires a free lock tells.
                let is_asked = asked.iter().any(|(known, ..)| *known == name);
                let asks = (name.clone(), &*command.node, on.clone());
                let is_new = !asked.contains(&asks) || takes_if_free(commands, place);
                if when == When::Holding && is_asked && is_new {
                    when = When::Taking;
                }
                if when == When::Taking {
                    asked.insert(asks);
                }
                if several && when == When::Taking {
                    let takes = |known: &Known| known.0 == When::Taking && (&known.1, &known.2) == (&name, &on);
                    if order.iter().any(takes) {
                        continue;
                    }
                    when = When::Waiting;
                }
                // A command that a holder sends only after it waited, such as leaving a channel, is not sent by the clients
                // that faults hit.
                let is_alike = |known: &Known| known.0 == When::Holding && (&known.1, &known.2) == (&name, &on);
                if several && any_alone && when == When::Holding && !order.iter().any(is_alike) {
                    continue;
                }
                if when == When::Holding {
                    first_holds.saw((name.as_str(), &on), is_first, held_until(operation, command.time).unwrap_or(0));
                }
                let nth = counts.entry((when, &command.node, name.clone(), on.clone())).or_default();
                *nth += 1;
                if *nth > MOST_OF_A_NAME {
                    continue;
                }
                let known: Known = (when, name.clone(), on.clone(), *nth);
                if !seen.contains_key(&known) {
                    order.push(known.clone());
                }
                let entry = seen.entry(known.clone()).or_insert_with(|| ObservedCommand {
                    when,
                    name,
                    nth: *nth,
                    nth_key: 1,
                    key,
                    is_keyed,
                    example: command.example(),
                    calls: Vec::new(),
                    operations: 0,
                });
                // A script that was not yet cached on the server calls nothing.
                if entry.calls.is_empty() {
                    entry.calls = calls(&commands[place + 1..], &command.node);
                }
                if counted.insert(known.clone()) {
                    entry.operations += 1;
                    *in_run.entry(known).or_default() += 1;
                }
            }
        }
        usual.extend(in_run.into_iter().filter_map(|(known, operations)| {
            let reached = reached.get(&known.0).copied().unwrap_or_default();
            (operations * FEW >= reached && (operations > 1 || reached == 1)).then_some(known)
        }));
    }
    order.sort_by_key(|(when, ..)| *when);
    order.retain(|known| usual.contains(known) && !first_holds.is_left_over(known));
    let mut keys: Vec<(When, &String, &Option<String>)> = Vec::new();
    for (when, name, on, _) in &order {
        let of_it = (*when, name, on);
        if !keys.contains(&of_it) {
            keys.push(of_it);
        }
    }
    let told = order.iter().filter_map(|known| {
        let of_name = keys.iter().filter(|(when, name, _)| (*when, *name) == (known.0, &known.1));
        let nth_key = of_name.take_while(|(.., on)| **on != known.2).count() as u32 + 1;
        Some(ObservedCommand { nth_key, ..seen.remove(known)? })
    });
    told.collect()
}

/// Commands that clients send during their first hold, before which they held no lock.
///
/// Some commands are seen only in later holds, although they came early enough that the first hold was long enough for them.
/// Such a command is left over from the previous hold: a client may send it after its release.
#[derive(Default)]
struct FirstHolds {
    /// The length of the longest of these holds, in nanoseconds.
    longest: u64,
    sent: BTreeSet<(String, Option<String>)>,
    /// The earliest time after an acquisition at which each command was sent, in later holds.
    later: BTreeMap<(String, Option<String>), u64>,
}

impl FirstHolds {
    fn saw(&mut self, (name, on): (&str, &Option<String>), is_first: bool, after: u64) {
        let command = (name.to_string(), on.clone());
        if is_first {
            self.sent.insert(command);
        } else {
            let earliest = self.later.entry(command).or_insert(after);
            *earliest = after.min(*earliest);
        }
    }

    fn is_left_over(&self, (when, name, on, _): &Known) -> bool {
        let command = (name.clone(), on.clone());
        let comes_early = || self.later.get(&command).is_some_and(|after| *after < self.longest);
        *when == When::Holding && !self.sent.contains(&command) && comes_early()
    }
}

/// How long the client had held the lock at `time`, or at the start of its release, in nanoseconds. None if it had not acquired
/// it.
fn held_until(operation: &Operation, time: u64) -> Option<u64> {
    let from = operation.phase(Phase::Acquired)?.time();
    let until = operation.phase(Phase::Releasing).map(PhaseStamp::time).or(operation.completed).unwrap_or(from);
    Some(until.min(time).saturating_sub(from))
}

/// True if the recorded commands renew the lock while it is held. Asking for the lock's state is not a renewal.
pub fn is_renewed(sent: &[ObservedCommand]) -> bool {
    let is_renewal = |sent: &ObservedCommand| sent.calls.iter().chain([&sent.name]).any(|name| renews(name));
    sent.iter().any(|sent| sent.when == When::Holding && sent.key.is_some() && is_renewal(sent))
}

/// True if a holder only asks if it still holds the lock, and does not change it. A script counts as the commands that it
/// called.
fn is_asked_for(sent: &[ObservedCommand]) -> bool {
    let held = || sent.iter().filter(|sent| sent.when == When::Holding && sent.key.is_some());
    let does =
        |sent: &ObservedCommand, what: fn(&str) -> bool| sent.calls.iter().chain([&sent.name]).any(|name| what(name));
    held().any(|sent| does(sent, asks)) && !held().any(|sent| does(sent, changes_a_lock))
}

/// How a library keeps a lock while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalMode {
    None,
    /// The holder asks if it still holds the lock.
    Asked,
    /// The holder renews the lock while it works.
    ByItsHolder,
    /// Something in the background renews the lock for as long as it is held.
    InTheBackground,
}

/// How the library keeps a lock while it is held. `kept` is a run in which a script stopped a holder beyond the TTL, with the
/// nodes' commands. Without such a run, nothing in the background is known.
pub fn upkeep(sent: &[ObservedCommand], kept: Option<&(History, Vec<RecordedCommand>)>) -> RenewalMode {
    match kept {
        _ if !is_renewed(sent) && is_asked_for(sent) => RenewalMode::Asked,
        _ if !is_renewed(sent) => RenewalMode::None,
        Some((history, commands)) if renews_in_the_background(history, commands) => RenewalMode::InTheBackground,
        _ => RenewalMode::ByItsHolder,
    }
}

/// True if a holder's client renewed its lock while the script kept it at its first breakpoint, `read`. It reports the
/// breakpoint when it arrives and when it continues. Only the last TTL of that time counts: earlier commands may be left over
/// from the previous hold.
fn renews_in_the_background(history: &History, commands: &[RecordedCommand]) -> bool {
    let Some(run) = &history.run else { return false };
    let ttl = run.ttl_ms.saturating_mul(1_000_000);
    let mut kept = history.operations.iter().filter_map(|operation| {
        let mut reads = operation.phases.iter().filter(|stamp| stamp.phase == Phase::Read).map(|stamp| stamp.time());
        Some((operation, reads.next()?, reads.last()?))
    });
    kept.any(|(operation, from, until)| {
        let client = run.client_name(operation.process);
        let from = from.max(until.saturating_sub(ttl));
        let is_renewal = |(place, command): (usize, &RecordedCommand)| {
            let mut all =
                std::iter::once(command).chain(RecordedCommand::called(&commands[place + 1..], &command.node));
            command.from.as_deref() == Some(&*client)
                && (from..until).contains(&command.time)
                && command.key().is_some()
                && all.any(|one| one.words.first().is_some_and(|name| renews(&name.to_ascii_uppercase())))
        };
        commands.iter().enumerate().any(is_renewal)
    })
}

/// True if the command at this index, or its script, acquires a lock only if it is free. Such a command renews nothing.
fn takes_if_free(commands: &[RecordedCommand], place: usize) -> bool {
    let takes = |command: &RecordedCommand| {
        let is = |word: &String, name: &str| word.eq_ignore_ascii_case(name);
        let (name, rest) = command.words.split_first()?;
        let only_if_free = is(name, "SETNX") || is(name, "HSETNX");
        Some(only_if_free || is(name, "SET") && rest.iter().skip(2).any(|word| is(word, "NX")))
    };
    let command = &commands[place];
    let mut all = std::iter::once(command).chain(RecordedCommand::called(&commands[place + 1..], &command.node));
    all.any(|command| takes(command) == Some(true))
}

/// The activity of the operation's client at `time`. None if the operation was not active.
pub(super) fn when(operation: &Operation, time: u64) -> Option<When> {
    let at = |phase| operation.phase(phase).map(PhaseStamp::time);
    let end = operation.completed.unwrap_or(u64::MAX);
    match time {
        _ if time < operation.invoked || time > end => None,
        _ if at(Phase::Releasing).is_some_and(|from| time >= from) => Some(When::Releasing),
        // A lock that was never acquired is not held.
        _ if at(Phase::Acquired).is_some_and(|from| time >= from) => Some(When::Holding),
        _ => at(Phase::Acquiring).is_none_or(|from| time >= from).then_some(When::Taking),
    }
}

/// The commands that a script called. The node lists them right after the script.
fn calls(following: &[RecordedCommand], node: &str) -> Vec<String> {
    let called = RecordedCommand::called(following, node).filter_map(|command| command.words.first());
    called.map(|name| name.to_ascii_uppercase()).collect()
}

/// The name of a command, with `EVAL` for every command that runs a script.
pub(super) fn name_for_all(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    if runs_a_script(&name) { "EVAL".to_string() } else { name }
}

/// `lock:k*` for `lock:k0` and `lock:k0-reply-17`. None if a fault phrase cannot contain the pattern.
pub(super) fn pattern(key: &str) -> Option<String> {
    let mut ends = key.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.find(|end| names_a_key_of_the_run(&key[..*end]))?;
    // The run's key name ends with its first digit.
    let before = &key[..end - 2];
    before.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":_-{}./".contains(&byte)).then(|| format!("{before}k*"))
}

/// The commands that an EXEC at this index executed. Empty for any other command.
pub(super) fn queued(commands: &[RecordedCommand], place: usize) -> impl Iterator<Item = &RecordedCommand> {
    let is = |command: &RecordedCommand, name: &str| {
        command.words.first().is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    let exec = &commands[place];
    let same = |command: &&RecordedCommand| command.from == exec.from && command.node == exec.node;
    let before = commands[..place].iter().rev().filter(same);
    before.take_while(move |command| is(exec, "EXEC") && !is(command, "MULTI"))
}
