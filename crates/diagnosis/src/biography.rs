//! The history of a key, line by line, from the commands of its nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::acts::{Act, Acts, Change, Gone, KeyEnd, KeyState, Means, Only};
use super::case::{Case, owned};
use super::commands::Expiry;
use super::{Diagnosis, Finding, Harm, all};
use base::words::{length, moment, sanitize};
use model::history::{History, RecordedCommand, key_behind};

/// An event in the history of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyEvent {
    /// Nanoseconds since the run's start.
    pub time: u64,
    pub node: String,
    /// The client that caused it; None if the key expired.
    pub client: Option<String>,
    /// `c0's SET created it, for 1 s`
    pub text: String,
}

/// The keys of a run's locks, from the commands of its nodes.
pub struct Lives<'a> {
    history: &'a History,
    pub commands: &'a [RecordedCommand],
    acts: Arc<Acts<'a>>,
}

impl<'a> Lives<'a> {
    pub fn of(history: &'a History, commands: &'a [RecordedCommand]) -> Lives<'a> {
        Lives { history, commands, acts: Arc::new(Acts::of(history, commands)) }
    }

    /// All diagnoses that the commands make certain, most harmful first. Empty without commands, and for locks with several holders
    /// or with stealing.
    pub fn diagnose(&self) -> Vec<Diagnosis> {
        Case::new(self.history, self.commands, &self.acts).map_or(Vec::new(), |case| all(&case))
    }

    /// The events of the keys behind a key of the run between two times, in order. Reads and requests without effect are left
    /// out.
    pub fn of_key(&self, key: &str, from: u64, to: u64) -> Vec<KeyEvent> {
        let mut events = Vec::new();
        let is_its = |act: &&Act| (from..=to).contains(&act.time) && key_behind(act.key) == Some(key);
        for act in self.acts.all.iter().filter(is_its) {
            if let KeyState::Absent(_, Some(Gone::Expired(end))) = act.before
                && end >= from
                && !events
                    .iter()
                    .any(|event: &KeyEvent| event.node == act.node && event.time >= end && event.client.is_none())
                && act.is_done()
            {
                let text = "the TTL had expired".to_string();
                events.push(KeyEvent { time: end.min(act.time), node: act.node.to_string(), client: None, text });
            }
            events.extend(self.event(act));
        }
        events.sort_by_key(|event| event.time);
        events
    }

    fn event(&self, act: &Act) -> Option<KeyEvent> {
        let text = self.text(act)?;
        Some(KeyEvent { time: act.time, node: act.node.to_string(), client: Some(act.client.to_string()), text })
    }

    /// The command by which a finding's lock was ended or left behind. None if no command did it, or the finding is of another
    /// kind.
    pub fn step(&self, finding: &Finding) -> Option<KeyEvent> {
        let is_it = |act: &&Act| {
            let is_change = matches!(act.before, KeyState::There(_)) && matches!(finding.harm, Harm::Ended(_));
            act.time == finding.time && act.is_done() && (is_change || finding.harm == Harm::Kept)
        };
        let cited = |act: &&Act| finding.commands.contains(&(act.place as u64 + 1));
        let from = self.acts.all.partition_point(|act| act.time < finding.time);
        let here = self.acts.all[from..].iter().take_while(|act| act.time == finding.time);
        here.filter(cited).find(is_it).and_then(|act| self.event(act))
    }

    /// When the lock of an operation expired on its nodes: when so few of its keys were left that other clients could acquire it.
    /// The inner None means that it did not expire, because it was removed or still exists; the outer None, that it is not
    /// certain.
    pub fn expiry(&self, index: u64) -> Option<Option<u64>> {
        self.history.run.as_ref().filter(|run| run.permits <= 1 && !run.steals && !self.history.has_readers())?;
        let place = self.history.place_of(index)?;
        let created = self.acts.of_operation(place).filter(|act| act.is_done() && act.create().is_some());
        let ends: Vec<KeyEnd> = created.map(|act| self.end(act)).collect::<Option<_>>()?;
        let mut times: Vec<u64> = Vec::new();
        for end in &ends {
            match end {
                KeyEnd::At(time) => times.push(*time),
                KeyEnd::Never => {}
                KeyEnd::Unknown => return None,
            }
        }
        times.sort_unstable();
        let majority = self.history.listed(&self.history.operations[place]) / 2 + 1;
        let needed = if ends.len() > 1 { majority } else { 1 };
        // This many keys may expire, and the lock still exists.
        let spare = ends.len().checked_sub(needed)?;
        Some(times.get(spare).copied())
    }

    /// When a key expired; `Never` if it was removed, or still exists.
    fn end(&self, created: &Act) -> Option<KeyEnd> {
        let mut end = KeyEnd::of(created.time, created.create()?.ttl);
        for act in self.acts.after(created) {
            let owned = match act.before {
                KeyState::Unknown => return Some(KeyEnd::Unknown),
                KeyState::There(owned) if owned.created == created.place => owned,
                KeyState::There(_) | KeyState::Absent(..) => break,
            };
            end = owned.end;
            match act.what {
                _ if act.done == Some(false) => {}
                Change::Read => {}
                _ if act.done.is_none() => return Some(KeyEnd::Unknown),
                Change::Renew(Some(ttl)) => end = KeyEnd::At(act.time.saturating_add(ttl)),
                Change::Renew(None) | Change::Other => return Some(KeyEnd::Unknown),
                Change::Persist | Change::Remove | Change::Create(_) => return Some(KeyEnd::Never),
            }
        }
        let until = match end {
            KeyEnd::At(time) => time,
            _ => self.history.last_time,
        };
        self.acts.was_watched(created.node, created.time, until).then_some(end)
    }

    fn text(&self, act: &Act) -> Option<String> {
        if act.done == Some(false) || act.what == Change::Read {
            return None;
        }
        let name = sanitize(&self.commands[act.place].name(), 20);
        let by = match act.by {
            Means::Script { compared: true } => {
                format!("{} compared it, and its {name}", self.owned(act.client, "script"))
            }
            Means::Script { compared: false } => format!("the {name} of {}", self.owned(act.client, "script")),
            Means::Plain | Means::Transaction { .. } => self.owned(act.client, &name),
        };
        let whose = match act.before {
            KeyState::There(owner) if owner.client != act.client || self.threads() > 1 => {
                self.owned(owner.client, "key")
            }
            KeyState::There(_) => "its own key".to_string(),
            _ => "the key".to_string(),
        };
        // The actual effect, the intended effect, and a remark.
        let (did, was_to, how) = match act.what {
            Change::Create(create) => {
                let ttl = match create.ttl {
                    Expiry::Never => ", without a TTL".to_string(),
                    Expiry::After(ttl) => format!(", for {}", length(ttl)),
                    Expiry::Unknown => ", with a TTL given as a server time".to_string(),
                };
                match (create.only, act.before) {
                    (Only::IfAbsent, _) | (_, KeyState::Absent(..)) => ("created the key", "create the key", ttl),
                    _ => ("set", "set", format!(" {whose}{ttl}")),
                }
            }
            Change::Renew(Some(ttl)) => {
                ("extended", "extend", format!(" {whose} to {}", moment(act.time.saturating_add(ttl))))
            }
            Change::Renew(None) => ("changed", "change", format!(" the TTL of {whose}")),
            Change::Persist => ("took", "take", format!(" the TTL from {whose}")),
            Change::Remove => ("removed", "remove", format!(" {whose}")),
            Change::Other => ("changed the key", "change the key", String::new()),
            Change::Read => return None,
        };
        Some(match act.done {
            Some(_) => format!("{by} {did}{how}"),
            None => format!("{by} tried to {was_to}{how}; the result is unknown"),
        })
    }

    fn threads(&self) -> u32 {
        self.history.run.as_ref().map_or(1, |run| run.threads)
    }

    fn owned(&self, client: &str, what: &str) -> String {
        owned(self.threads(), client, what)
    }
}
