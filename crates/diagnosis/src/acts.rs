//! The effect of each command on the key of a lock: which client created, renewed, read or removed it, and whose key it was then.
//!
//! Nodes record commands in the order of execution, but without their answers. The effect of a command follows from the previous
//! state of the key: `SET … NX` creates a key that is absent. Sometimes that is not certain: within a few milliseconds of a key's
//! expiry, after a restart, or while a fault may have removed keys. Then the effect is unknown, and there is no diagnosis.

use std::collections::{BTreeMap, HashMap, HashSet};

pub(crate) use super::commands::{Change, Create, Only};
use super::commands::{Expiry, changes};
use base::redis_commands::{self, runs_a_script};
use model::fault_kinds::OnData;
use model::history::{
    FaultKind, History, Phase, Process, Promotion, RecordedCommand, SeenPromotion, key_behind, locked_key,
};

/// Tolerance in nanoseconds. Servers count a key's life in milliseconds, and record a command's time a little after reading their
/// clock.
pub(crate) const EDGE: u64 = 2_000_000;

/// The effect of a command on one key, or its intended effect.
#[derive(Clone, Debug)]
pub(crate) struct Act<'a> {
    /// The index of its command among the recorded commands.
    pub place: usize,
    /// The index of the command that the client sent: the same, or the call of the script.
    pub sent: usize,
    pub time: u64,
    pub node: &'a str,
    /// The client that sent it, or the script that called it.
    pub client: &'a str,
    pub port: Option<u16>,
    /// The key's name on the node: `lock:k0`.
    pub key: &'a str,
    /// The number of this key on this node, the index in `Acts::by_key`.
    pub life: usize,
    pub what: Change<'a>,
    pub by: Means,
    pub before: KeyState<'a>,
    /// True if it had its intended effect; None if that is not certain.
    pub done: Option<bool>,
    /// Its operation, as an index in the history: the client's operation in progress, or else its last one.
    pub operation: Option<usize>,
}

/// The kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// A command that the client sent by itself, outside MULTI and scripts.
    Plain,
    /// In MULTI; `watched` if its connection had sent WATCH before.
    Transaction { watched: bool },
    /// Called by a script; `compared` if the same call had read the key before.
    Script { compared: bool },
}

/// The state of a key on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyState<'a> {
    Unknown,
    /// The time since which it is absent, and why; without a reason it never existed.
    Absent(u64, Option<Gone>),
    There(Owned<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owned<'a> {
    pub client: &'a str,
    pub token: &'a str,
    /// The index of the command that created it.
    pub created: usize,
    pub since: u64,
    pub end: KeyEnd,
    /// The operation for which it was created.
    pub operation: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEnd {
    Never,
    At(u64),
    Unknown,
}

impl KeyEnd {
    /// The end of a key that was set at this time.
    pub fn of(time: u64, ttl: Expiry) -> KeyEnd {
        match ttl {
            Expiry::Never => KeyEnd::Never,
            Expiry::After(ttl) => KeyEnd::At(time.saturating_add(ttl)),
            Expiry::Unknown => KeyEnd::Unknown,
        }
    }
}

/// Why a key is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It expired at this time.
    Expired(u64),
    /// The command with this index removed it.
    Removed(usize),
}

/// The acts on all keys of all nodes, in the order of time; the acts of one node in the order of execution.
pub(crate) struct Acts<'a> {
    pub all: Vec<Act<'a>>,
    pub gaps: Gaps<'a>,
    /// Indices in `all`, by the number of the key, and by operation.
    by_key: Vec<Vec<usize>>,
    by_operation: HashMap<usize, Vec<usize>>,
}

/// For each node, the spans in which it was not watched, in the order of time.
#[derive(Default)]
pub(crate) struct Gaps<'a>(BTreeMap<&'a str, Vec<(u64, u64)>>);

impl<'a> Gaps<'a> {
    /// A gap begins after the last command that was seen before it, since the recorder may notice late that it sees nothing. It ends
    /// at the recorder's last line about it. If there is only one line, it ends at the next command, or never.
    fn of(commands: &'a [RecordedCommand]) -> Gaps<'a> {
        let mut gaps: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        // For each node, the time of the last command, and how many lines about a gap followed it.
        let mut last: HashMap<&str, (u64, u32)> = HashMap::new();
        for command in commands {
            let (time, lines) = last.entry(&command.node).or_default();
            let of_node = gaps.entry(&command.node).or_default();
            match (&command.missed, *lines) {
                (Some(_), 0) => of_node.push((*time, u64::MAX)),
                (Some(_), _) | (None, 1) => {
                    if let Some((_, end)) = of_node.last_mut() {
                        *end = command.time;
                    }
                }
                (None, _) => {}
            }
            (*time, *lines) = if command.missed.is_some() { (*time, *lines + 1) } else { (command.time, 0) };
        }
        Gaps(gaps)
    }

    /// True if each node was watched all the time.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(Vec::is_empty)
    }

    /// True if a node was watched during the whole time.
    fn leave_out(&self, node: &str, from: u64, to: u64) -> bool {
        self.0.get(node).is_none_or(|gaps| gaps.iter().all(|(start, end)| to <= *start || *end < from))
    }
}

/// A client's operations on a key, in order.
type ByClient<'a> = HashMap<(String, &'a str), Vec<usize>>;

struct Reader<'a> {
    history: &'a History,
    commands: &'a [RecordedCommand],
    operations: ByClient<'a>,
    /// True if a client's commands can be distinguished from those of other clients.
    is_by_client: bool,
    gaps: Gaps<'a>,
    /// By client and key, the commands that may change the key, as indices among the commands.
    requests: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// The operations in which a client wrote a value, by the times of its commands. By client and value, in order.
    values: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// The values that were written in an operation, by the same times.
    written: HashMap<usize, HashSet<&'a str>>,
    keys: HashMap<(&'a str, &'a str), KeyState<'a>>,
    scripts: HashMap<&'a str, ScriptCall<'a>>,
    connections: HashMap<(&'a str, &'a str, Option<u16>), Transaction>,
    acts: Vec<Act<'a>>,
    /// By node and key, the last known key, as long as nothing is known to have removed it.
    last: HashMap<(&'a str, &'a str), Owned<'a>>,
    /// True if a client was given a lock that the server had certainly refused.
    ignores_refusals: bool,
    /// By node and key, the requests since then that may have created the key, as indices among the acts.
    in_doubt: HashMap<(&'a str, &'a str), Vec<usize>>,
}

/// The call of a script that a node is executing.
struct ScriptCall<'a> {
    place: usize,
    client: &'a str,
    port: Option<u16>,
    read: Vec<&'a str>,
}

#[derive(Default)]
struct Transaction {
    watches: bool,
    is_open: bool,
}

impl<'a> Acts<'a> {
    pub fn of(history: &'a History, commands: &'a [RecordedCommand]) -> Acts<'a> {
        let mut operations: ByClient = HashMap::new();
        if let Some(run) = &history.run {
            for (place, operation) in history.operations.iter().enumerate() {
                if operation.process != Process::Controller {
                    let name = run.client_name(operation.process);
                    operations.entry((name, &operation.key)).or_default().push(place);
                }
            }
        }
        let mut reader = Reader {
            history,
            commands,
            operations,
            is_by_client: history.run.as_ref().is_some_and(|run| run.threads == 1),
            gaps: Gaps::of(commands),
            requests: requests(commands),
            values: HashMap::new(),
            written: HashMap::new(),
            keys: HashMap::new(),
            scripts: HashMap::new(),
            connections: HashMap::new(),
            acts: Vec::new(),
            last: HashMap::new(),
            ignores_refusals: false,
            in_doubt: HashMap::new(),
        };
        reader.note_values();
        for (place, command) in commands.iter().enumerate() {
            if command.missed.is_some() {
                reader.forget(&command.node);
            } else {
                reader.read(place, command);
            }
        }
        let Reader { acts: mut all, gaps, .. } = reader;
        let locks = locks(&all, commands);
        all.retain(|act| locks.contains(act.key));
        let in_parts = in_parts(&all);
        all.retain(|act| key_behind(act.key).is_none_or(|key| !in_parts.contains(key)));
        let mut by_key: Vec<Vec<usize>> = Vec::new();
        let mut numbers: HashMap<(&str, &str), usize> = HashMap::new();
        let mut by_operation: HashMap<usize, Vec<usize>> = HashMap::new();
        for (place, act) in all.iter_mut().enumerate() {
            let next = numbers.len();
            act.life = *numbers.entry((act.node, act.key)).or_insert(next);
            by_key.resize_with(numbers.len(), Vec::new);
            by_key[act.life].push(place);
            if let Some(operation) = act.operation {
                by_operation.entry(operation).or_default().push(place);
            }
        }
        Acts { all, gaps, by_key, by_operation }
    }

    /// The later acts on the same key of the same node.
    pub fn after<'s>(&'s self, act: &Act) -> impl DoubleEndedIterator<Item = &'s Act<'a>> + Clone + use<'s, 'a> {
        self.split(act).1.iter().map(|place| &self.all[*place])
    }

    /// The earlier acts on the same key of the same node.
    pub fn before<'s>(&'s self, act: &Act) -> impl DoubleEndedIterator<Item = &'s Act<'a>> + Clone + use<'s, 'a> {
        self.split(act).0.iter().map(|place| &self.all[*place])
    }

    fn split<'s>(&'s self, act: &Act) -> (&'s [usize], &'s [usize]) {
        let all = self.by_key.get(act.life).map_or(&[][..], Vec::as_slice);
        let before = all.partition_point(|place| self.all[*place].place < act.place);
        let not_after = all.partition_point(|place| self.all[*place].place <= act.place);
        (&all[..before], &all[not_after..])
    }

    /// The acts of an operation, in order.
    pub fn of_operation(&self, operation: usize) -> impl DoubleEndedIterator<Item = &Act<'a>> + Clone {
        self.by_operation.get(&operation).map_or(&[][..], Vec::as_slice).iter().map(|place| &self.all[*place])
    }

    /// True if a node was watched during the whole time.
    pub fn was_watched(&self, node: &str, from: u64, to: u64) -> bool {
        self.gaps.leave_out(node, from, to)
    }
}

/// The keys that are locks: they are created if absent, have a TTL, or are removed. Other keys are data beside a lock. A key that
/// is both set and counted is a count of holders, which this crate does not follow.
fn locks<'a>(acts: &[Act<'a>], commands: &[RecordedCommand]) -> HashSet<&'a str> {
    let has = |names: [&str; 3]| -> HashSet<&'a str> {
        acts.iter().filter(|act| names.contains(&&*commands[act.place].name())).map(|act| act.key).collect()
    };
    let (set, counted) = (has(["SET", "SETNX", "GETSET"]), has(["INCR", "DECR", "INCRBY"]));
    // Clients may also set the count: alternately `0` and `1`.
    let mut values: HashMap<&str, HashSet<&str>> = HashMap::new();
    for create in acts.iter().filter_map(|act| Some((act.key, act.create()?.token))) {
        values.entry(create.0).or_default().insert(create.1);
    }
    let is_number =
        |value: &&str| value.len() < 4 && value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty();
    let is_count = |key: &str| values.get(key).is_some_and(|values| values.len() > 1 && values.iter().all(is_number));
    let is_of_a_lock = |act: &&Act| match act.what {
        Change::Create(create) => create.ttl != Expiry::Never || create.only == Only::IfAbsent,
        Change::Remove => true,
        _ => false,
    };
    let keys = acts.iter().filter(is_of_a_lock).map(|act| act.key).filter(|key| locked_key(key).is_some());
    keys.filter(|key| !(is_count(key) || set.contains(key) && counted.contains(key))).collect()
}

/// Keys of locks that have several keys at once, such as one for readers and one for writers: no single key is the lock.
fn in_parts<'a>(acts: &[Act<'a>]) -> HashSet<&'a str> {
    let mut keys: HashMap<(usize, &str), HashSet<&'a str>> = HashMap::new();
    for act in acts.iter().filter(|act| act.create().is_some()) {
        if let Some(operation) = act.operation {
            keys.entry((operation, act.node)).or_default().insert(act.key);
        }
    }
    let parts = keys.into_values().filter(|keys| keys.len() > 1);
    parts.flatten().filter_map(|key| key_behind(key)).collect()
}

/// Commands that change an existing key and create none.
const KEEPS: [&str; 5] = ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST"];

/// The commands that may create a key, by the client that sent them and the key in them.
fn requests(commands: &[RecordedCommand]) -> HashMap<(&str, &str), Vec<usize>> {
    let mut requests: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (place, command) in commands.iter().enumerate() {
        let Some(from) = &command.from else { continue };
        let name = command.name();
        let creates = redis_commands::writes(&name) && !redis_commands::removes(&name) && !KEEPS.contains(&&*name);
        if creates || runs_a_script(&name) {
            let keys = command.words.iter().skip(1).filter(|word| key_behind(word).is_some());
            keys.for_each(|key| requests.entry((from, key)).or_default().push(place));
        }
    }
    requests
}

impl<'a> Reader<'a> {
    /// From now on the states of this node's keys are unknown.
    fn forget(&mut self, node: &str) {
        self.keys.iter_mut().filter(|((of, _), _)| *of == node).for_each(|(_, state)| *state = KeyState::Unknown);
        self.last.retain(|(of, _), _| *of != node);
    }

    fn read(&mut self, place: usize, command: &'a RecordedCommand) {
        let name = command.name();
        let node = command.node.as_str();
        let (client, port) = match (&command.from, self.scripts.get(node)) {
            (Some(from), _) => (from.as_str(), command.port),
            (None, Some(call)) if command.in_script => (call.client, call.port),
            _ => return,
        };
        if !command.in_script {
            let connection = self.connections.entry((node, client, port)).or_default();
            match &*name {
                "WATCH" => connection.watches = true,
                "MULTI" => connection.is_open = true,
                "EXEC" | "DISCARD" | "UNWATCH" => *connection = Transaction::default(),
                _ => {}
            }
            if runs_a_script(&name) {
                self.scripts.insert(node, ScriptCall { place, client, port, read: Vec::new() });
                return;
            }
            self.scripts.remove(node);
        }
        for (key, what) in changes(&name, &command.words) {
            let means = self.means(command, client, key);
            self.act(Act {
                place,
                sent: self.scripts.get(node).filter(|_| command.in_script).map_or(place, |call| call.place),
                time: command.time,
                node,
                client,
                port,
                key,
                life: 0,
                what,
                by: means,
                before: KeyState::Unknown,
                done: None,
                operation: self.operation_of(client, key, command.time).map(|operation| {
                    let call = self.scripts.get(node).filter(|_| command.in_script).map_or(place, |call| call.place);
                    self.late_of(client, &self.commands[call].words, operation)
                }),
            });
            if let (Change::Read, Some(call)) = (what, self.scripts.get_mut(node).filter(|_| command.in_script)) {
                call.read.push(key);
            }
        }
        if matches!(&*name, "FLUSHALL" | "FLUSHDB" | "SWAPDB") {
            self.forget(node);
        }
    }

    fn means(&self, command: &RecordedCommand, client: &str, key: &str) -> Means {
        let node = command.node.as_str();
        if command.in_script {
            return Means::Script { compared: self.scripts.get(node).is_some_and(|call| call.read.contains(&key)) };
        }
        match self.connections.get(&(node, client, command.port)) {
            Some(Transaction { is_open: true, watches }) => Means::Transaction { watched: *watches },
            _ => Means::Plain,
        }
    }

    /// Notes which values clients write in which operations.
    fn note_values(&mut self) {
        let mut callers: HashMap<&str, &str> = HashMap::new();
        for command in self.commands {
            let node = command.node.as_str();
            let client = match &command.from {
                Some(from) => *callers.entry(node).insert_entry(from).get(),
                None => match callers.get(node) {
                    Some(client) => *client,
                    None => continue,
                },
            };
            for (key, what) in changes(&command.name(), &command.words) {
                let Change::Create(create) = what else { continue };
                let Some(operation) = self.operation_of(client, key, command.time) else { continue };
                if create.token.is_empty() {
                    continue;
                }
                let of_value = self.values.entry((client, create.token)).or_default();
                if of_value.last() != Some(&operation) {
                    of_value.push(operation);
                }
                self.written.entry(operation).or_default().insert(create.token);
            }
        }
    }

    /// The operation that sent these words: a network may hold a request until its client is in a later operation. A value that an
    /// earlier operation wrote first is that operation's, if the later one wrote a value of its own.
    fn late_of(&self, client: &str, words: &[String], operation: usize) -> usize {
        let of_earlier = words.iter().find_map(|word| {
            let first = match self.values.get(&(client, word.as_str()))?[..] {
                [first] => first,
                [first, later] if later == operation => first,
                // A client that uses one value for all its locks.
                _ => return None,
            };
            let has_own = self.written.get(&operation).is_some_and(|own| own.iter().any(|value| value != word));
            (first < operation && has_own).then_some(first)
        });
        of_earlier.unwrap_or(operation)
    }

    /// The client's operation on this key in progress, or its last one before; None if there was none, or several.
    fn operation_of(&self, client: &str, key: &str, time: u64) -> Option<usize> {
        let of = key_behind(key).filter(|_| self.is_by_client)?;
        let places = self.operations.get(&(client.to_string(), of))?;
        let begun =
            places.partition_point(|place| self.history.operations[*place].invoked <= time.saturating_add(EDGE));
        let last = places[..begun].last().copied()?;
        // A moment before its invocation the previous operation was still in progress.
        let before = begun.checked_sub(2).map(|place| places[place]).filter(|place| {
            let earlier = &self.history.operations[*place];
            self.history.operations[last].invoked > time && earlier.completed.is_none_or(|over| over >= time)
        });
        Some(before.unwrap_or(last))
    }

    fn act(&mut self, mut act: Act<'a>) {
        let name = (act.node, act.key);
        // No command has touched it before: a cluster is empty at its start.
        let was_watched = || self.gaps.leave_out(act.node, 0, act.time);
        let untouched = || if was_watched() { KeyState::Absent(0, None) } else { KeyState::Unknown };
        let state = self.keys.get(&name).copied().unwrap_or_else(untouched);
        act.before = self.now(state, &act);
        // If a script compares a key and then changes it, the key was its caller's.
        if act.before == KeyState::Unknown && act.by == (Means::Script { compared: true }) && act.create().is_none() {
            act.before = self.settled(&act).unwrap_or(KeyState::Unknown);
        }
        act.done = self.is_done(&act);
        self.ignores_refusals |= self.was_given_in_spite(&act);
        // A holder that sets its own value again extends its lock.
        if let (Some(Create { ttl, token, .. }), Some(owner), true) = (act.create(), act.owner(), act.is_done())
            && owner.client == act.client
            && owner.token == token
            && owner.operation == act.operation
            && ttl != Expiry::Never
        {
            act.what = Change::Renew(ttl.after());
        }
        if act.is_done() && act.before == KeyState::Unknown {
            act.before = self.found_absent(&act);
        }
        if self.completes_a_creation(&act) {
            return;
        }
        let after = if act.what == Change::Read { act.before } else { self.after(&act) };
        match (act.done, act.create()) {
            (None, Some(_)) => self.in_doubt.entry(name).or_default().push(self.acts.len()),
            _ if after != KeyState::Unknown => self.in_doubt.entry(name).or_default().clear(),
            // Whatever it did, such as DELIFEQ, a key that is absent later says nothing of the requests before it.
            _ if act.what == Change::Other => self.in_doubt.entry(name).or_default().clear(),
            _ => {}
        }
        match after {
            KeyState::There(owned) => _ = self.last.insert(name, owned),
            KeyState::Absent(..) => _ = self.last.remove(&name),
            KeyState::Unknown => {}
        }
        self.keys.insert(name, after);
        self.acts.push(act);
    }

    /// True if an act gives a TTL to the key that the same script has just created. Then it is part of that creation.
    fn completes_a_creation(&mut self, act: &Act<'a>) -> bool {
        let Change::Renew(ttl) = act.what else { return false };
        let ttl = ttl.map_or(Expiry::Unknown, Expiry::After);
        let is_same_key = |other: &&mut Act| other.node == act.node && other.key == act.key;
        let last = self.acts.iter_mut().rev().take_while(|other| other.sent == act.sent).find(is_same_key);
        let Some(creation) = last.filter(|last| act.sent != act.place && last.sent == act.sent) else { return false };
        let Change::Create(create) = &mut creation.what else { return false };
        if create.ttl != Expiry::Never || creation.done == Some(false) {
            return false;
        }
        create.ttl = ttl;
        let end = KeyEnd::of(act.time, ttl);
        let name = (act.node, act.key);
        let states = self.keys.get_mut(&name).into_iter().filter_map(|state| match state {
            KeyState::There(owned) => Some(owned),
            _ => None,
        });
        states
            .chain(self.last.get_mut(&name))
            .filter(|owned| owned.created == creation.place)
            .for_each(|owned| owned.end = end);
        true
    }

    /// The state before a request that created the key only if it was absent: the last known key had expired. Earlier requests in
    /// doubt created no key, if their key would still exist.
    fn found_absent(&mut self, act: &Act<'a>) -> KeyState<'a> {
        if act.create().is_none_or(|create| create.only != Only::IfAbsent) {
            return KeyState::Unknown;
        }
        let name = (act.node, act.key);
        let changed =
            |since| self.may_have_lost(act.node, since, act.time) || self.was_promoted(act.node, since, act.time);
        let would_be_there = |place: &usize| {
            let earlier = &self.acts[*place];
            let end = earlier.create().map_or(KeyEnd::Never, |create| KeyEnd::of(earlier.time, create.ttl));
            let is_later = match end {
                KeyEnd::At(end) => end > act.time.saturating_add(EDGE),
                KeyEnd::Never => true,
                KeyEnd::Unknown => false,
            };
            is_later && !changed(earlier.time)
        };
        let in_doubt = self.in_doubt.get(&name).cloned().unwrap_or_default();
        let refuted: Vec<usize> = in_doubt.iter().copied().filter(would_be_there).collect();
        let over = match self.last.get(&name) {
            Some(Owned { end: KeyEnd::At(end), since, .. }) if !changed(*since) => Some(*end),
            _ => None,
        };
        for place in &refuted {
            self.acts[*place].done = Some(false);
        }
        match over {
            Some(end) if act.time.saturating_add(EDGE) >= end && refuted.len() == in_doubt.len() => {
                KeyState::Absent(end, Some(Gone::Expired(end)))
            }
            _ => KeyState::Unknown,
        }
    }

    /// The key of this act's client, if it is now certain that the client's last request in doubt created it.
    fn settled(&mut self, act: &Act<'a>) -> Option<KeyState<'a>> {
        let in_doubt = self.in_doubt.get(&(act.node, act.key))?.clone();
        let last = *in_doubt.iter().rev().find(|place| self.acts[**place].client == act.client)?;
        // The script compared with the value in that request.
        let token = self.acts[last].create()?.token;
        if !self.commands[act.sent].words.iter().skip(1).any(|word| word == token) {
            return None;
        }
        // Another client that writes the same value may have created it.
        let is_shared = self.acts.iter().any(|other| {
            other.client != act.client
                && other.key == act.key
                && other.create().is_some_and(|create| create.token == token)
        });
        if is_shared {
            return None;
        }
        // The later requests did not find the key absent.
        for place in in_doubt.iter().filter(|place| **place > last) {
            self.acts[*place].done = Some(false);
        }
        self.acts[last].done = Some(true);
        // The request found the key absent, so an earlier owner's key had expired.
        let name = (act.node, act.key);
        self.in_doubt.insert(name, in_doubt.iter().copied().filter(|place| *place < last).collect());
        let created = self.acts[last].clone();
        self.acts[last].before = self.found_absent(&created);
        match self.after(&self.acts[last]) {
            KeyState::There(owned) => {
                for place in in_doubt.iter().filter(|place| **place > last) {
                    self.acts[*place].before = KeyState::There(owned);
                }
                Some(KeyState::There(owned))
            }
            _ => None,
        }
    }

    /// The state at the time of an act: keys expire, and faults remove them.
    fn now(&self, state: KeyState<'a>, act: &Act) -> KeyState<'a> {
        let owned = match state {
            KeyState::There(owned) => owned,
            KeyState::Absent(since, _) if self.was_promoted(act.node, since, act.time) => return KeyState::Unknown,
            // A server that starts again may have an older state, in which a removed key is still there.
            KeyState::Absent(since, Some(_)) if self.may_have_reverted(act.node, since, act.time) => {
                return KeyState::Unknown;
            }
            other => return other,
        };
        if self.may_have_lost(act.node, owned.since, act.time) || self.was_promoted(act.node, owned.since, act.time) {
            return KeyState::Unknown;
        }
        match owned.end {
            KeyEnd::At(end) if act.time > end.saturating_add(EDGE) => KeyState::Absent(end, Some(Gone::Expired(end))),
            KeyEnd::At(end) if act.time.saturating_add(EDGE) >= end => KeyState::Unknown,
            KeyEnd::Unknown => KeyState::Unknown,
            KeyEnd::Never | KeyEnd::At(_) => state,
        }
    }

    /// True if a fault may have removed a node's data between two times, or changed their expiry.
    fn may_have_lost(&self, node: &str, from: u64, to: u64) -> bool {
        self.was_struck(node, from, to, |kind| kind.does.wall_clock || kind.does.data != OnData::Kept)
    }

    /// True if a fault may have brought back a key that was absent, between two times.
    fn may_have_reverted(&self, node: &str, from: u64, to: u64) -> bool {
        let ends_and_loses =
            |kind: FaultKind| (kind.ends_processes() || kind.does.restarts) && kind.does.data != OnData::Kept;
        self.was_struck(node, from, to, |kind| kind.does.wall_clock || ends_and_loses(kind))
    }

    /// True if a fault of such a kind had an effect on a node between two times.
    fn was_struck(&self, node: &str, from: u64, to: u64, is_such: impl Fn(FaultKind) -> bool) -> bool {
        let faults = self.history.faults.iter().filter(|window| window.skipped.is_none() && is_such(window.kind));
        let mut here = faults.filter(|window| window.targets.iter().any(|target| target == node));
        here.any(|window| {
            let (began, healed) = window.span();
            let ended = healed.map(|healed| healed.saturating_add(window.aftermath_ns.unwrap_or(0)));
            began <= to && ended.is_none_or(|ended| ended >= from)
        })
    }

    /// True if a node may have taken over another one's data between two times.
    fn was_promoted(&self, node: &str, from: u64, to: u64) -> bool {
        self.history.promotions.iter().any(|seen| {
            let Promotion { node: new, instead_of, .. } = &seen.promotion;
            (new == node || instead_of == node) && begun_after(self.history, seen) <= to && seen.time >= from
        })
    }

    fn is_done(&self, act: &Act) -> Option<bool> {
        let is_there = match act.before {
            KeyState::Unknown => None,
            KeyState::Absent(..) => Some(false),
            KeyState::There(_) => Some(true),
        };
        match act.what {
            Change::Read => Some(true),
            Change::Create(Create { only: Only::Always, .. }) => Some(true),
            Change::Create(Create { only: Only::IfAbsent, .. }) => {
                is_there.map(|there| !there).or_else(|| self.was_granted(act))
            }
            Change::Create(Create { only: Only::IfThere, if_value: Some(value), .. }) => match act.before {
                KeyState::There(owner) => Some(owner.token == value),
                _ => is_there,
            },
            Change::Create(Create { only: Only::IfThere, .. })
            | Change::Renew(_)
            | Change::Persist
            | Change::Remove => is_there,
            Change::Other => None,
        }
    }

    /// True if a lock was acquired after only this command asked for it. None if that is not certain.
    fn was_granted(&self, act: &Act) -> Option<bool> {
        let operation = &self.history.operations[act.operation?];
        let acquired = operation.phase(Phase::Acquired)?.received;
        // The client's last request before it had the lock, if all requests went to this node.
        let asked = self.requests.get(&(act.client, act.key))?;
        let time = |place: &usize| self.commands[*place].time;
        let from = asked.partition_point(|place| time(place).saturating_add(EDGE) < operation.invoked);
        let to = asked.partition_point(|place| time(place) <= acquired.saturating_add(EDGE));
        let meanwhile = asked.get(from..to)?;
        let is_alone = meanwhile.iter().all(|place| self.commands[*place].node == act.node)
            && self.gaps.leave_out(act.node, act.time, acquired);
        // A library that has handed out a refused lock before proves nothing by handing out another.
        (is_alone && !self.ignores_refusals && meanwhile.last() == Some(&act.sent)).then_some(true)
    }

    /// True if its client received the lock although this last request for it was certainly refused.
    fn was_given_in_spite(&self, act: &Act) -> bool {
        let operation = act.operation.map(|place| &self.history.operations[place]);
        let Some(acquired) = operation.and_then(|operation| operation.phase(Phase::Acquired)) else { return false };
        let asked = self.requests.get(&(act.client, act.key)).map_or(&[][..], Vec::as_slice);
        let to = asked.partition_point(|place| self.commands[*place].time <= acquired.received.saturating_add(EDGE));
        act.done == Some(false) && act.create().is_some() && asked[..to].last() == Some(&act.sent)
    }

    fn after(&self, act: &Act<'a>) -> KeyState<'a> {
        match (act.what, act.done) {
            (_, Some(false)) => act.before,
            (Change::Read, _) => act.before,
            (Change::Other, _) | (_, None) => match act.what {
                // Whatever it was, the key is gone.
                Change::Remove => KeyState::Absent(act.time, Some(Gone::Removed(act.place))),
                _ => KeyState::Unknown,
            },
            (Change::Remove, _) => KeyState::Absent(act.time, Some(Gone::Removed(act.place))),
            (Change::Create(create), _) => KeyState::There(Owned {
                client: act.client,
                token: create.token,
                created: act.place,
                since: act.time,
                end: KeyEnd::of(act.time, create.ttl),
                operation: act.operation,
            }),
            (Change::Renew(ttl), _) => match act.before {
                KeyState::There(owned) => {
                    let end = ttl.map_or(KeyEnd::Unknown, |ttl| KeyEnd::At(act.time.saturating_add(ttl)));
                    KeyState::There(Owned { end, ..owned })
                }
                other => other,
            },
            (Change::Persist, _) => match act.before {
                KeyState::There(owned) => KeyState::There(Owned { end: KeyEnd::Never, ..owned }),
                other => other,
            },
        }
    }
}

impl<'a> Act<'a> {
    pub fn create(&self) -> Option<Create<'a>> {
        match self.what {
            Change::Create(create) => Some(create),
            _ => None,
        }
    }

    /// The owner of the key before the act; None if that is not certain.
    pub fn owner(&self) -> Option<Owned<'a>> {
        match self.before {
            KeyState::There(owned) => Some(owned),
            _ => None,
        }
    }

    /// True if it certainly extended a key that had a TTL. The first TTL of a key belongs to its creation.
    pub fn extended(&self) -> bool {
        let is_first = self.owner().is_some_and(|owner| owner.end == KeyEnd::Never);
        self.is_done() && matches!(self.what, Change::Renew(_)) && !is_first
    }

    /// True if its transaction had watched a key, so that it is one step with the question before.
    pub fn by_watch(&self) -> bool {
        self.by == Means::Transaction { watched: true }
    }

    /// True if it certainly had its effect.
    pub fn is_done(&self) -> bool {
        self.done == Some(true)
    }
}

/// The time after which a promotion began: the previous promotion for the key, or the start of the run. Watchers learn of a
/// promotion seconds later.
pub(crate) fn begun_after(history: &History, seen: &SeenPromotion) -> u64 {
    let of_key = history.promotions.iter().filter(|other| other.promotion.key == seen.promotion.key);
    of_key.map(|other| other.time).filter(|time| *time < seen.time).max().unwrap_or(0)
}
