//! What the faults of a run struck, told by the run itself: what its client was doing, at which command, and what that did.

use std::fmt;

use serde::Serialize;

use super::sent::{When, called, key_of, name_for_all, queued, when};
use crate::fault_kinds::CallEffect;
use crate::history::{FaultWindow, History, RecordedCommand};
use crate::words::{list, plural};

/// A command at which a fault struck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Struck {
    /// What its client was doing; None if it was in no operation.
    pub when: Option<When>,
    /// In capitals; `EVAL` stands for all that run a script. Empty if the history does not say.
    pub command: String,
    /// Which command of whom, and what it was answered, in the words of the history.
    pub what: String,
    /// How often it struck in this run.
    pub times: u64,
    /// Whether it was kept from its node, until the fault was healed.
    pub was_kept_away: bool,
    pub did: Did,
}

/// What a command did to the lock. Looked at were the commands that the node carried out, where they were recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Did {
    /// It wrote a key of the lock by these commands: itself, or those that its script called.
    Changed(Vec<String>),
    /// It wrote none; these are the commands.
    Nothing(Vec<String>),
    /// It was kept from the node, and never came.
    NeverCame,
    /// Nothing was recorded of it.
    Unknown,
}

/// What changes a key, or who is told of it: some libraries hold a lock by their subscription.
const WRITES: [&str; 38] = [
    "APPEND", "BITFIELD", "COPY", "DECR", "DECRBY", "DEL", "EXPIRE", "EXPIREAT", "GETDEL", "GETEX", "GETSET", "HDEL",
    "HEXPIRE", "HINCRBY", "HPEXPIRE", "HSET", "HSETEX", "HSETNX", "INCR", "INCRBY", "LPOP", "LPUSH", "PERSIST",
    "PEXPIRE", "PEXPIREAT", "PSETEX", "RENAME", "RPUSH", "SADD", "SET", "SETEX", "SETNX", "SREM", "SUBSCRIBE",
    "UNLINK", "XADD", "ZADD", "ZREM",
];

/// The commands at which the faults of a run struck, in the order of the faults.
pub fn struck(history: &History, commands: &[RecordedCommand]) -> Vec<Struck> {
    let at_commands = history.faults.iter().filter(|window| window.kind.is_at_command() && window.was_observed());
    at_commands.map(|window| one(history, window, commands)).collect()
}

/// What clients were doing when faults struck them: at each command, or else at the first fault that hit one. Empty if no
/// client was at work.
pub fn struck_when(history: &History) -> Vec<When> {
    let observed = || history.faults.iter().filter(|window| window.was_observed());
    let at_commands: Vec<When> =
        observed().filter(|window| window.kind.is_at_command()).filter_map(|window| doing(history, window)).collect();
    if at_commands.is_empty() { observed().find_map(|window| doing(history, window)).into_iter().collect() } else { at_commands }
}

/// What the client that a fault hit was doing then.
fn doing(history: &History, window: &FaultWindow) -> Option<When> {
    let header = history.run.as_ref()?;
    let mut hit = history.operations.iter().filter(|one| window.targets.contains(&header.client_name(one.process)));
    hit.find_map(|operation| when(operation, window.inject))
}

fn one(history: &History, window: &FaultWindow, commands: &[RecordedCommand]) -> Struck {
    let what = window.texts.first().cloned().unwrap_or_default();
    let named = Named::in_words(&what);
    let did = named.as_ref().map_or(Did::Unknown, |named| named.did(window, commands));
    Struck {
        when: doing(history, window),
        command: named.map(|named| name_for_all(named.command)).unwrap_or_default(),
        times: window.texts.iter().find_map(|text| times(text)).unwrap_or(1),
        was_kept_away: window.on_call == Some(CallEffect::HoldRequest),
        what,
        did,
    }
}

/// How often a fault struck, as its heal says it: `it struck once`, `it struck 3 times`.
fn times(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("it struck ")?;
    match after.split(' ').next()? {
        "once" => Some(1),
        number => number.parse().ok(),
    }
}

/// `c0's 1st SET of lock:k0 to n0 was answered ...`, as the agent says it.
struct Named<'t> {
    client: &'t str,
    command: &'t str,
    node: &'t str,
}

impl Named<'_> {
    fn in_words(text: &str) -> Option<Named<'_>> {
        let (client, rest) = text.split_once("'s ")?;
        let mut words = rest.split(' ');
        let (_, command) = (words.next()?, words.next()?);
        let node = words.skip_while(|word| *word != "to").nth(1)?;
        Some(Named { client, command, node })
    }

    fn did(&self, window: &FaultWindow, commands: &[RecordedCommand]) -> Did {
        if commands.is_empty() {
            return Did::Unknown;
        }
        /// When a strike is noticed.
        const NOTICED: u64 = 250_000_000;
        let is_it = |command: &RecordedCommand| {
            !command.in_script
                && command.from.as_deref() == Some(self.client)
                && command.node == self.node
                && command.words.first().is_some_and(|name| name.eq_ignore_ascii_case(self.command))
        };
        let its = || commands.iter().enumerate().filter(|(_, command)| is_it(command));
        let (from, until) = (window.inject.saturating_sub(NOTICED), window.inject.saturating_add(NOTICED / 10));
        let place = match window.on_call {
            Some(CallEffect::HoldRequest) => match its().find(|(_, command)| command.time > window.inject) {
                Some((place, _)) => place,
                None => return Did::NeverCame,
            },
            // It may be sent again at once.
            Some(CallEffect::ResetAfter) => {
                match its().find(|(_, command)| (from..=until).contains(&command.time)) {
                    Some((place, _)) => place,
                    None => return Did::Unknown,
                }
            }
            _ => match its().take_while(|(_, command)| command.time <= until).last() {
                Some((place, _)) => place,
                None => return Did::Unknown,
            },
        };
        let command = &commands[place];
        let carried_out: Vec<&RecordedCommand> = std::iter::once(command)
            .chain(queued(commands, place))
            .chain(called(&commands[place + 1..], &command.node))
            .collect();
        let name = |command: &RecordedCommand| command.words.first().map(|name| name.to_ascii_uppercase());
        let writes = |command: &RecordedCommand| {
            key_of(command).is_some() && name(command).is_some_and(|name| WRITES.contains(&&*name))
        };
        let changes: Vec<String> =
            carried_out.iter().filter(|command| writes(command)).filter_map(|command| name(command)).collect();
        match changes.is_empty() {
            false => Did::Changed(changes),
            true => Did::Nothing(carried_out.iter().filter_map(|command| name(command)).collect()),
        }
    }
}

impl Struck {
    /// Whether what was struck was not the lock, so that to withstand it is no news. What a request that came late does is the
    /// library's answer to it, and who waits has nothing to change.
    pub fn is_void(&self) -> bool {
        matches!(self.did, Did::Nothing(_)) && self.when != Some(When::Waiting) && !self.was_kept_away
    }
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.times > 1 {
            write!(f, " ({})", plural(self.times, "time"))?;
        }
        match &self.did {
            Did::Changed(by) => write!(f, "; it changed the lock's key by {}", list(by)),
            Did::Nothing(by) => write!(f, "; it changed nothing of the lock ({})", list(by)),
            Did::NeverCame => f.write_str("; it never came"),
            Did::Unknown => Ok(()),
        }
    }
}
