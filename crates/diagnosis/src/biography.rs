//! What became of a key, told line by line from the commands of its nodes.

use serde::{Deserialize, Serialize};

use super::acts::{Act, Acts, Change, Gone, KeyState, Means, Only};
use base::words::{length, moment, sanitize};
use model::history::{History, RecordedCommand, key_behind};

/// An entry in the life of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyEvent {
    /// Nanoseconds since the run's start.
    pub time: u64,
    pub node: String,
    /// Who did it; none if its time was over.
    pub client: Option<String>,
    /// `c0's SET created it, for 1 s`
    pub text: String,
}

/// The keys of a run's locks, and what each command did to them.
pub struct Biographies<'a> {
    acts: Acts<'a>,
    commands: &'a [RecordedCommand],
}

impl<'a> Biographies<'a> {
    /// Reads the commands once for all keys.
    pub fn new(history: &'a History, commands: &'a [RecordedCommand]) -> Biographies<'a> {
        Biographies { acts: Acts::of(history, commands), commands }
    }

    /// What happened to the keys behind a key of the run between two moments, in order. Reads and requests that did nothing are left
    /// out.
    pub fn of(&self, key: &str, from: u64, to: u64) -> Vec<KeyEvent> {
        biography(&self.acts, self.commands, key, from, to)
    }
}

fn biography(acts: &Acts, commands: &[RecordedCommand], key: &str, from: u64, to: u64) -> Vec<KeyEvent> {
    let mut events = Vec::new();
    for act in acts.all.iter().filter(|act| (from..=to).contains(&act.time) && key_behind(act.key) == Some(key)) {
        if let KeyState::Absent(_, Some(Gone::Expired(end))) = act.before
            && end >= from
            && !events
                .iter()
                .any(|event: &KeyEvent| event.node == act.node && event.time >= end && event.client.is_none())
            && act.is_done()
        {
            let text = "its TTL was over".to_string();
            events.push(KeyEvent { time: end.min(act.time), node: act.node.to_string(), client: None, text });
        }
        if let Some(text) = text(act, &commands[act.place]) {
            let (node, client) = (act.node.to_string(), Some(act.client.to_string()));
            events.push(KeyEvent { time: act.time, node, client, text });
        }
    }
    events.sort_by_key(|event| event.time);
    events
}

fn text(act: &Act, command: &RecordedCommand) -> Option<String> {
    if act.done == Some(false) || act.what == Change::Read {
        return None;
    }
    let name = sanitize(&command.name(), 20);
    let by = match act.by {
        Means::Script { compared: true } => format!("{}'s script compared it, and its {name}", act.client),
        Means::Script { compared: false } => format!("the {name} of {}'s script", act.client),
        Means::Plain | Means::Transaction { .. } => format!("{}'s {name}", act.client),
    };
    let whose = match act.before {
        KeyState::There(owner) if owner.client != act.client => format!("{}'s key", owner.client),
        KeyState::There(_) => "its own key".to_string(),
        _ => "the key".to_string(),
    };
    let perhaps = if act.done.is_none() { ", as far as is known" } else { "" };
    Some(match act.what {
        Change::Create(create) => {
            let ttl = create.ttl.map_or(", without an end".to_string(), |ttl| format!(", for {}", length(ttl)));
            let what = match (create.only, act.before) {
                (Only::IfAbsent, _) | (_, KeyState::Absent(..)) => "created the key".to_string(),
                _ => format!("set {whose}"),
            };
            format!("{by} {what}{ttl}{perhaps}")
        }
        Change::Renew(Some(ttl)) => {
            format!("{by} extended {whose} to {}{perhaps}", moment(act.time.saturating_add(ttl)))
        }
        Change::Renew(None) => format!("{by} changed how long {whose} lives{perhaps}"),
        Change::Persist => format!("{by} took the TTL from {whose}{perhaps}"),
        Change::Remove => format!("{by} removed {whose}{perhaps}"),
        Change::Other => format!("{by} changed the key{perhaps}"),
        Change::Read => return None,
    })
}
