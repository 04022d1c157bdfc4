//! The commands of a library, told from a run without faults in which every command was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::redis_commands::{asks, changes_a_lock, is_housekeeping, renews, runs_a_script};
use model::fault_kinds::names_a_key_of_the_run;
use model::history::{History, Operation, Phase, PhaseStamp, RecordedCommand};

/// What a client is doing when it sends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Nobody else has the lock, or it is not known that anybody has.
    Taking,
    /// Somebody else has the lock.
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

/// A command that a library sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedCommand {
    pub when: When,
    /// In capitals; `EVAL` stands for all that run a script.
    pub name: String,
    /// Which of this name and on such a key, from 1, of those that one operation sends to one node at that time.
    pub nth: u32,
    /// Which of the kinds of key, from 1, on which it has commands of this name at that time.
    pub nth_key: u32,
    /// The key of the operation that it names, if it does.
    pub key: Option<String>,
    /// Whether that stands where commands have their keys, so that it tells it from others of its name.
    pub is_keyed: bool,
    /// It with its first words, as it was sent once.
    pub example: String,
    /// What the script called, if it is one.
    pub calls: Vec<String>,
    /// In how many operations it was seen.
    pub operations: u64,
}

impl ObservedCommand {
    /// The pattern of its key, if a fault can tell it by that.
    pub(super) fn on(&self) -> Option<String> {
        self.key.as_deref().filter(|_| self.is_keyed).and_then(pattern)
    }
}

/// What clients sent of the lock's keys to take it in these runs, by name, and never in others, of which `sent` tells: what takes over the
/// lock of a dead holder, say. The text of a script that was not known yet has the name of all that run one.
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

/// What comes in less than one of so many operations of a run is not the way in which a library does it, nor what comes once.
const FEW: u64 = 10;
/// Of more of one name in one operation, the later ones are tries of the same.
const MOST_OF_A_NAME: u32 = 3;

/// What a fault can tell one command from another by: when its client sends it, its name, and on what kind of key.
type Known = (When, String, Option<String>, u32);

/// The commands that take, keep or release locks in these runs, those that come first in an operation first. What a client sends
/// to take a lock is told by runs of one client; where there are several, what is not among that belongs to waiting. A command
/// that comes in few of the operations is left out: the text of a script that was not known yet, say.
pub fn sent(runs: &[(History, Vec<RecordedCommand>)]) -> Vec<ObservedCommand> {
    let mut alone: Vec<_> = runs.iter().collect();
    alone.sort_by_key(|(history, _)| history.run.as_ref().is_some_and(|run| run.clients > 1));
    let mut seen: BTreeMap<Known, ObservedCommand> = BTreeMap::new();
    let mut order: Vec<Known> = Vec::new();
    // Some runs show what others do not: a lock that is held for a moment is not renewed.
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
            // Which nodes it has asked for the lock, by which command on which key.
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
                // It had its majority before the last of the nodes, or of the keys, was asked for; of nodes that were asked before,
                // after a try that failed, what takes only what is free tells.
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
                // What a holder sends only if it had to wait for the lock, such as to leave a channel, is sent by none of those who are struck.
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
                // A script that was not known yet calls nothing.
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

/// What clients send during their first hold, before which they have had no lock. A command that comes in later holds alone, and so early
/// that the first one would have had it too, is left over from the hold before: a client may send it after its release.
#[derive(Default)]
struct FirstHolds {
    /// How long the longest of these holds was, in nanoseconds.
    longest: u64,
    sent: BTreeSet<(String, Option<String>)>,
    /// How long after an acquisition each command was sent at the earliest, in holds that were not the first.
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

/// For how long a client had had the lock by then, or by the beginning of its release, in nanoseconds; None if it had not acquired it.
fn held_until(operation: &Operation, time: u64) -> Option<u64> {
    let from = operation.phase(Phase::Acquired)?.time();
    let until = operation.phase(Phase::Releasing).map(PhaseStamp::time).or(operation.completed).unwrap_or(from);
    Some(until.min(time).saturating_sub(from))
}

/// Whether a lock is seen to be renewed while it is held. Who only looks whether it still has it does not.
pub fn is_renewed(sent: &[ObservedCommand]) -> bool {
    let is_renewal = |sent: &ObservedCommand| sent.calls.iter().chain([&sent.name]).any(|name| renews(name));
    sent.iter().any(|sent| sent.when == When::Holding && sent.key.is_some() && is_renewal(sent))
}

/// Whether a holder looks whether it still has the lock, and does nothing else to it. What is known of a script is what it called.
fn is_asked_for(sent: &[ObservedCommand]) -> bool {
    let held = || sent.iter().filter(|sent| sent.when == When::Holding && sent.key.is_some());
    let does =
        |sent: &ObservedCommand, what: fn(&str) -> bool| sent.calls.iter().chain([&sent.name]).any(|name| what(name));
    held().any(|sent| does(sent, asks)) && !held().any(|sent| does(sent, changes_a_lock))
}

/// What is done for a lock of a library while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalMode {
    None,
    /// Its holder asks whether it still has it.
    Asked,
    /// Its holder renews it, while it works.
    ByItsHolder,
    /// Something in the background renews it, for as long as the holder has the lock.
    InTheBackground,
}

/// What is done for locks while they are held. `kept`: a run in which a script kept a holder that did nothing, for longer than its lock
/// lives, and what the nodes carried out; where there is none, nobody saw anything in the background.
pub fn upkeep(sent: &[ObservedCommand], kept: Option<&(History, Vec<RecordedCommand>)>) -> RenewalMode {
    match kept {
        _ if !is_renewed(sent) && is_asked_for(sent) => RenewalMode::Asked,
        _ if !is_renewed(sent) => RenewalMode::None,
        Some((history, commands)) if renews_in_the_background(history, commands) => RenewalMode::InTheBackground,
        _ => RenewalMode::ByItsHolder,
    }
}

/// Whether a holder's client renewed its lock while it was kept at its first breakpoint, `read`: it says so when it gets there, and once
/// more when it goes on. What counts is the last TTL of that time: what comes sooner may be left over from its hold before.
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

/// Whether the command in this place takes a lock only if nobody has it, so that it renews none: itself, or its script.
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

/// What the client of an operation was doing at that time.
pub(super) fn when(operation: &Operation, time: u64) -> Option<When> {
    let at = |phase| operation.phase(phase).map(PhaseStamp::time);
    let end = operation.completed.unwrap_or(u64::MAX);
    match time {
        _ if time < operation.invoked || time > end => None,
        _ if at(Phase::Releasing).is_some_and(|from| time >= from) => Some(When::Releasing),
        // A lock that was not had is not held.
        _ if at(Phase::Acquired).is_some_and(|from| time >= from) => Some(When::Holding),
        _ => at(Phase::Acquiring).is_none_or(|from| time >= from).then_some(When::Taking),
    }
}

/// The commands that a script called, which the node tells right after it.
fn calls(following: &[RecordedCommand], node: &str) -> Vec<String> {
    let called = RecordedCommand::called(following, node).filter_map(|command| command.words.first());
    called.map(|name| name.to_ascii_uppercase()).collect()
}

/// `EVAL` stands for all that run a script.
pub(super) fn name_for_all(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    if runs_a_script(&name) { "EVAL".to_string() } else { name }
}

/// `lock:k*` for `lock:k0` and for `lock:k0-reply-17`; None if it can't be said in a phrase.
pub(super) fn pattern(key: &str) -> Option<String> {
    let mut ends = key.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.find(|end| names_a_key_of_the_run(&key[..*end]))?;
    // It ends with its first digit.
    let before = &key[..end - 2];
    before.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":_-{}./".contains(&byte)).then(|| format!("{before}k*"))
}

/// What an EXEC in this place carried out; nothing for any other command.
pub(super) fn queued(commands: &[RecordedCommand], place: usize) -> impl Iterator<Item = &RecordedCommand> {
    let is = |command: &RecordedCommand, name: &str| {
        command.words.first().is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    let exec = &commands[place];
    let same = |command: &&RecordedCommand| command.from == exec.from && command.node == exec.node;
    let before = commands[..place].iter().rev().filter(same);
    before.take_while(move |command| is(exec, "EXEC") && !is(command, "MULTI"))
}
