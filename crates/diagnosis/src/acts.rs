//! What each command did to the key of a lock: who created it, renewed it, read it, removed it, and whose it was at that moment.
//!
//! Nodes tell commands in the order in which they carried them out, and not what they answered. What a command did follows from
//! what the key was before it: `SET … NX` creates a key that is absent. Where that is not certain, such as within a few milliseconds
//! of a key's end, after a restart, or while a fault may have removed keys, nothing is said to be done, and nothing is diagnosed.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::commands::changes;
pub(crate) use super::commands::{Change, Create, Only};
use base::redis_commands::{self, runs_a_script};
use model::fault_kinds::OnData;
use model::history::{History, Phase, Process, Promotion, RecordedCommand, key_behind, locked_key};

/// Servers count a key's life in milliseconds, and tell a command's time a moment after they have read their clock.
pub(crate) const EDGE: u64 = 2_000_000;

/// What a command did, or was to do, to one key.
#[derive(Clone, Debug)]
pub(crate) struct Act<'a> {
    /// The place of its command among those that were recorded.
    pub place: usize,
    /// The place of the command that the client sent: the same, or the call of the script.
    pub sent: usize,
    pub time: u64,
    pub node: &'a str,
    /// Who sent it, or the script that called it.
    pub client: &'a str,
    pub port: Option<u16>,
    /// As the node has it: `lock:k0`.
    pub key: &'a str,
    /// The number of this key on this node.
    pub life: usize,
    pub what: Change<'a>,
    pub by: Means,
    pub before: KeyState<'a>,
    /// Whether it did what it was to do; none if that is not certain.
    pub done: Option<bool>,
    /// The operation that it belongs to, as a place in the history: that which was under way, or else the last of this client.
    pub operation: Option<usize>,
}

/// In which kind of command it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// A command of its own.
    Plain,
    /// In MULTI; `watched` if its connection had asked for WATCH before.
    Transaction { watched: bool },
    /// Called by a script; `compared` if the same call had asked for the key before.
    Script { compared: bool },
}

/// What a key is on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyState<'a> {
    Unknown,
    /// Since when, and why; without a reason it never was there.
    Absent(u64, Option<Gone>),
    There(Owned<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owned<'a> {
    pub client: &'a str,
    pub token: &'a str,
    /// The place of the command that created it.
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

/// Why a key is there no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Its time was over.
    Expired(u64),
    /// By the command at this place.
    Removed(usize),
}

/// The acts on all keys of all nodes, in the order of time; those of a node in the order in which it carried them out.
pub(crate) struct Acts<'a> {
    pub all: Vec<Act<'a>>,
    /// By node, when it was not watched.
    pub gaps: BTreeMap<&'a str, Vec<u64>>,
    /// Places in `all`, by the number of the key, and by operation.
    by_key: Vec<Vec<usize>>,
    by_operation: HashMap<usize, Vec<usize>>,
}

/// A client's operations on a key, in their order.
type ByClient<'a> = HashMap<(String, &'a str), Vec<usize>>;

struct Reader<'a> {
    history: &'a History,
    commands: &'a [RecordedCommand],
    operations: ByClient<'a>,
    /// Whether a client's commands can be told apart from those of others.
    is_by_client: bool,
    /// When a node was not watched.
    gaps: Vec<(&'a str, u64)>,
    /// By client and key, what may change the key, as places among the commands.
    requests: HashMap<(&'a str, &'a str), Vec<usize>>,
    keys: HashMap<(&'a str, &'a str), KeyState<'a>>,
    scripts: HashMap<&'a str, ScriptCall<'a>>,
    connections: HashMap<(&'a str, &'a str, Option<u16>), Transaction>,
    acts: Vec<Act<'a>>,
    /// By node and key, what is known last to have been there, while nothing is known to have removed it.
    last: HashMap<(&'a str, &'a str), Owned<'a>>,
    /// By node and key, the requests that may have created the key since it was known last, as places among the acts.
    in_doubt: HashMap<(&'a str, &'a str), Vec<usize>>,
}

/// The call of a script that a node is carrying out.
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
            gaps: commands.iter().filter(|one| one.missed.is_some()).map(|one| (&*one.node, one.time)).collect(),
            requests: requests(commands),
            keys: HashMap::new(),
            scripts: HashMap::new(),
            connections: HashMap::new(),
            acts: Vec::new(),
            last: HashMap::new(),
            in_doubt: HashMap::new(),
        };
        let mut gaps: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (place, command) in commands.iter().enumerate() {
            if command.missed.is_some() {
                gaps.entry(&command.node).or_default().push(command.time);
                reader.forget(&command.node);
            } else {
                reader.read(place, command);
            }
        }
        let mut all = reader.acts;
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

    /// The acts on the same key of the same node that came after this one.
    pub fn after<'s>(&'s self, act: &Act) -> impl DoubleEndedIterator<Item = &'s Act<'a>> + Clone + use<'s, 'a> {
        self.split(act).1.iter().map(|place| &self.all[*place])
    }

    /// Those that came before it.
    pub fn before<'s>(&'s self, act: &Act) -> impl DoubleEndedIterator<Item = &'s Act<'a>> + Clone + use<'s, 'a> {
        self.split(act).0.iter().map(|place| &self.all[*place])
    }

    fn split<'s>(&'s self, act: &Act) -> (&'s [usize], &'s [usize]) {
        let all = self.by_key.get(act.life).map_or(&[][..], Vec::as_slice);
        let before = all.partition_point(|place| self.all[*place].place < act.place);
        let not_after = all.partition_point(|place| self.all[*place].place <= act.place);
        (&all[..before], &all[not_after..])
    }

    /// The acts that belong to an operation, in order.
    pub fn of_operation(&self, operation: usize) -> impl DoubleEndedIterator<Item = &Act<'a>> + Clone {
        self.by_operation.get(&operation).map_or(&[][..], Vec::as_slice).iter().map(|place| &self.all[*place])
    }

    /// Whether a node was watched all the time between two moments.
    pub fn was_watched(&self, node: &str, from: u64, to: u64) -> bool {
        self.gaps.get(node).is_none_or(|gaps| !gaps.iter().any(|gap| (from..=to).contains(gap)))
    }
}

/// The keys that are locks: they are created where they are absent, have a TTL, or are removed. Others are kept beside them. A key that is
/// both set and counted is a count of holders, of which nothing is known here.
fn locks<'a>(acts: &[Act<'a>], commands: &[RecordedCommand]) -> HashSet<&'a str> {
    let has = |names: [&str; 3]| -> HashSet<&'a str> {
        acts.iter().filter(|act| names.contains(&&*commands[act.place].name())).map(|act| act.key).collect()
    };
    let (set, counted) = (has(["SET", "SETNX", "GETSET"]), has(["INCR", "DECR", "INCRBY"]));
    // Or its clients set the count: `0` and `1` in turn.
    let mut values: HashMap<&str, HashSet<&str>> = HashMap::new();
    for create in acts.iter().filter_map(|act| Some((act.key, act.create()?.token))) {
        values.entry(create.0).or_default().insert(create.1);
    }
    let is_number =
        |value: &&str| value.len() < 4 && value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty();
    let is_count = |key: &str| values.get(key).is_some_and(|values| values.len() > 1 && values.iter().all(is_number));
    let is_of_a_lock = |act: &&Act| match act.what {
        Change::Create(create) => create.ttl.is_some() || create.only == Only::IfAbsent,
        Change::Remove => true,
        _ => false,
    };
    let keys = acts.iter().filter(is_of_a_lock).map(|act| act.key).filter(|key| locked_key(key).is_some());
    keys.filter(|key| !(is_count(key) || set.contains(key) && counted.contains(key))).collect()
}

/// What is locked by several keys at once, such as one for readers and one for writers: none of them alone is the lock.
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

/// What changes a key that is there, and creates none.
const KEEPS: [&str; 5] = ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST"];

/// The commands that may create a key, by the client that sent them and the key that they name.
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
    /// What is known of this node's keys so far is doubtful from now on.
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
                operation: self.operation_of(client, key, command.time),
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

    /// The client's operation on this key that was under way, or its last one before; none if there was none, or several.
    fn operation_of(&self, client: &str, key: &str, time: u64) -> Option<usize> {
        let of = key_behind(key).filter(|_| self.is_by_client)?;
        let places = self.operations.get(&(client.to_string(), of))?;
        let begun =
            places.partition_point(|place| self.history.operations[*place].invoked <= time.saturating_add(EDGE));
        let last = places[..begun].last().copied()?;
        // A moment before its invocation the one before was still under way.
        let before = begun.checked_sub(2).map(|place| places[place]).filter(|place| {
            let earlier = &self.history.operations[*place];
            self.history.operations[last].invoked > time && earlier.completed.is_none_or(|over| over >= time)
        });
        Some(before.unwrap_or(last))
    }

    fn act(&mut self, mut act: Act<'a>) {
        let name = (act.node, act.key);
        // Nobody has touched it before: a cluster is empty at its start.
        let was_missed = || self.gaps.iter().any(|(node, time)| *node == act.node && *time <= act.time);
        let untouched = || if was_missed() { KeyState::Unknown } else { KeyState::Absent(0, None) };
        let state = self.keys.get(&name).copied().unwrap_or_else(untouched);
        act.before = self.now(state, &act);
        // What a script compares and then changes was its caller's.
        if act.before == KeyState::Unknown && act.by == (Means::Script { compared: true }) && act.create().is_none() {
            act.before = self.settled(&act).unwrap_or(KeyState::Unknown);
        }
        act.done = self.is_done(&act);
        // A holder that sets its own value again extends its lock.
        if let (Some(Create { ttl: Some(ttl), token, .. }), Some(owner), true) =
            (act.create(), act.owner(), act.is_done())
            && owner.client == act.client
            && owner.token == token
            && owner.operation == act.operation
        {
            act.what = Change::Renew(Some(ttl));
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

    /// Whether an act gives the key that the same script has just created its TTL. Then it is part of that creation.
    fn completes_a_creation(&mut self, act: &Act<'a>) -> bool {
        let Change::Renew(Some(ttl)) = act.what else { return false };
        let is_same_key = |other: &&mut Act| other.node == act.node && other.key == act.key;
        let last = self.acts.iter_mut().rev().take_while(|other| other.sent == act.sent).find(is_same_key);
        let Some(creation) = last.filter(|last| act.sent != act.place && last.sent == act.sent) else { return false };
        let Change::Create(create) = &mut creation.what else { return false };
        if create.ttl.is_some() || creation.done == Some(false) {
            return false;
        }
        create.ttl = Some(ttl);
        let end = KeyEnd::At(act.time.saturating_add(ttl));
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

    /// The state before a request that created the key only if it was absent: the key that was known last had run out. Requests in
    /// doubt before it have created none, if theirs would be there still.
    fn found_absent(&mut self, act: &Act<'a>) -> KeyState<'a> {
        if act.create().is_none_or(|create| create.only != Only::IfAbsent) {
            return KeyState::Unknown;
        }
        let name = (act.node, act.key);
        let changed =
            |since| self.may_have_lost(act.node, since, act.time) || self.was_promoted(act.node, since, act.time);
        let would_be_there = |place: &usize| {
            let earlier = &self.acts[*place];
            let ttl = earlier.create().and_then(|create| create.ttl);
            ttl.is_none_or(|ttl| earlier.time.saturating_add(ttl) > act.time.saturating_add(EDGE))
                && !changed(earlier.time)
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

    /// The key of this act's client, if its last request in doubt is certain now to have created it.
    fn settled(&mut self, act: &Act<'a>) -> Option<KeyState<'a>> {
        let in_doubt = self.in_doubt.get(&(act.node, act.key))?.clone();
        let last = *in_doubt.iter().rev().find(|place| self.acts[**place].client == act.client)?;
        // It compared with what the request wrote.
        let token = self.acts[last].create()?.token;
        if !self.commands[act.sent].words.iter().skip(1).any(|word| word == token) {
            return None;
        }
        // Of those that came after it, none found the key absent.
        for place in in_doubt.iter().filter(|place| **place > last) {
            self.acts[*place].done = Some(false);
        }
        self.acts[last].done = Some(true);
        // It found the key absent, so that of an earlier owner had run out.
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

    /// The state at the time of an act: keys run out, and faults remove them.
    fn now(&self, state: KeyState<'a>, act: &Act) -> KeyState<'a> {
        let owned = match state {
            KeyState::There(owned) => owned,
            KeyState::Absent(since, _) if self.was_promoted(act.node, since, act.time) => return KeyState::Unknown,
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

    /// Whether a fault may have removed what a node kept between two moments, or have changed when it ends.
    fn may_have_lost(&self, node: &str, from: u64, to: u64) -> bool {
        let faults = self.history.faults.iter().filter(|window| window.skipped.is_none());
        let mut here = faults.filter(|window| window.targets.iter().any(|target| target == node));
        here.any(|window| {
            let (began, healed) = window.span();
            let ended = healed.map(|healed| healed.saturating_add(window.aftermath_ns.unwrap_or(0)));
            let meets = began <= to && ended.is_none_or(|ended| ended >= from);
            let does = &window.kind.does;
            meets && (does.wall_clock || !matches!(does.data, OnData::Kept))
        })
    }

    /// Whether a node may have taken over what another one keeps between two moments.
    fn was_promoted(&self, node: &str, from: u64, to: u64) -> bool {
        self.history.promotions.iter().any(|seen| {
            let Promotion { node: new, instead_of, after_ns, .. } = &seen.promotion;
            let began = seen.time.saturating_sub(*after_ns);
            (new == node || instead_of == node) && began <= to && seen.time >= from
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

    /// Whether a lock that was asked for by this command alone was then acquired. None if that is not certain.
    fn was_granted(&self, act: &Act) -> Option<bool> {
        let operation = &self.history.operations[act.operation?];
        let acquired = operation.phase(Phase::Acquired)?.received;
        // The last of its requests before it had the lock, all of which went to this node.
        let asked = self.requests.get(&(act.client, act.key))?;
        let time = |place: &usize| self.commands[*place].time;
        let from = asked.partition_point(|place| time(place).saturating_add(EDGE) < operation.invoked);
        let to = asked.partition_point(|place| time(place) <= acquired.saturating_add(EDGE));
        let meanwhile = asked.get(from..to)?;
        let is_alone = meanwhile.iter().all(|place| self.commands[*place].node == act.node)
            && !self.gaps.iter().any(|(node, time)| *node == act.node && (act.time..=acquired).contains(time));
        (is_alone && meanwhile.last() == Some(&act.sent)).then_some(true)
    }

    fn after(&self, act: &Act<'a>) -> KeyState<'a> {
        match (act.what, act.done) {
            (_, Some(false)) => act.before,
            (Change::Read, _) => act.before,
            (Change::Other, _) | (_, None) => match act.what {
                // Whatever it was, it is gone.
                Change::Remove => KeyState::Absent(act.time, Some(Gone::Removed(act.place))),
                _ => KeyState::Unknown,
            },
            (Change::Remove, _) => KeyState::Absent(act.time, Some(Gone::Removed(act.place))),
            (Change::Create(create), _) => KeyState::There(Owned {
                client: act.client,
                token: create.token,
                created: act.place,
                since: act.time,
                end: create.ttl.map_or(KeyEnd::Never, |ttl| KeyEnd::At(act.time.saturating_add(ttl))),
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

    /// Whose key it was before, if that is certain.
    pub fn owner(&self) -> Option<Owned<'a>> {
        match self.before {
            KeyState::There(owned) => Some(owned),
            _ => None,
        }
    }

    /// Whether its transaction had watched a key, so that it is one step with what was asked before.
    pub fn by_watch(&self) -> bool {
        self.by == Means::Transaction { watched: true }
    }

    /// Whether it was certainly done.
    pub fn is_done(&self) -> bool {
        self.done == Some(true)
    }
}
