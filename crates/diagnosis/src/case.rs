//! A run with facts and phrases that several diagnoses need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::acts::{Act, Acts, Change, EDGE, KeyEnd, Means, Owned};
use super::{Finding, Harm};
use base::members::Role;
use base::words;
use model::fault_kinds::{CallEffect, OnPackets, OnProcess};
use model::history::{FaultWindow, Header, History, Operation, Outcome, Phase, RecordedCommand, Waited, key_behind};

/// The agent reports a fault at a command at most this long after the command, in ns.
const STRIKE: u64 = 20_000_000;
/// A client may give up a request that the agent delays this long, in ns.
const AGENT_STOOD: u64 = 100_000_000;

pub(crate) struct Case<'a> {
    pub history: &'a History,
    pub run: &'a Header,
    pub commands: &'a [RecordedCommand],
    pub acts: Arc<Acts<'a>>,
    /// The lock's TTL, in ns.
    pub ttl: u64,
}

impl<'a> Case<'a> {
    pub fn new(history: &'a History, commands: &'a [RecordedCommand], acts: &Arc<Acts<'a>>) -> Option<Case<'a>> {
        let run = history.run.as_ref()?;
        if commands.is_empty() || run.permits > 1 || run.steals || history.has_readers() {
            return None;
        }
        let acts = Arc::clone(acts);
        Some(Case { history, run, commands, acts, ttl: run.ttl_ms.saturating_mul(1_000_000) })
    }

    pub fn operation(&self, place: Option<usize>) -> Option<&'a Operation> {
        place.map(|place| &self.history.operations[place])
    }

    /// The operation of an act.
    pub fn of(&self, act: &Act) -> Option<&'a Operation> {
        self.operation(act.operation)
    }

    /// The acts that certainly changed another client's key.
    pub fn on_others(&self) -> impl Iterator<Item = (&Act<'a>, Owned<'a>)> {
        let changed = self.acts.all.iter().filter(|act| act.is_done() && act.what != Change::Read);
        changed.filter_map(|act| Some((act, act.owner().filter(|owner| owner.client != act.client)?)))
    }

    /// How many nodes are on the list of the client that made an operation.
    pub fn listed(&self, place: usize) -> usize {
        self.history.listed(&self.history.operations[place])
    }

    /// The nodes on the list of the client that made an operation.
    pub fn list_of(&self, operation: &Operation) -> Vec<String> {
        let all = || (0..self.run.nodes).map(|node| format!("n{node}")).collect();
        self.history.list_of(operation).map_or_else(all, <[String]>::to_vec)
    }

    /// The act by which the client had last read the key, in the operation of this act. A read on a connection that later removed
    /// the key does not count: it was for the removal. Nor does a read before the client created the key: it was for the acquisition.
    pub fn had_asked<'s>(&'s self, act: &Act) -> Option<&'s Act<'a>> {
        self.asked(act).into_iter().next()
    }

    /// All these reads, the last one first.
    fn asked<'s>(&'s self, act: &Act) -> Vec<&'s Act<'a>> {
        let from = self.of(act).map_or(u64::MAX, |operation| operation.invoked.saturating_sub(EDGE));
        let before = self.acts.before(act).rev().take_while(|other| other.time >= from);
        let (mut asked, mut removed) = (Vec::new(), BTreeSet::new());
        for other in before.filter(|other| other.client == act.client) {
            match other.what {
                Change::Create(_) if other.is_done() => break,
                Change::Read if !removed.contains(&other.port) => asked.push(other),
                Change::Remove if !matches!(other.by, Means::Script { .. }) => _ = removed.insert(other.port),
                _ => {}
            }
        }
        asked
    }

    /// The act by which the client had read the owner of the key, certainly after it had acquired the lock and before this act. A read
    /// shortly before it acquired the lock belongs to the acquisition.
    pub fn had_compared<'s>(&'s self, act: &Act) -> Option<&'s Act<'a>> {
        let asked = self.had_asked(act)?;
        let tells = matches!(&*self.commands[asked.place].name(), "GET" | "MGET" | "GETRANGE");
        let acquired = self.of(act)?.phase(Phase::Acquired)?.time();
        (tells && acquired <= asked.time).then_some(asked)
    }

    /// True if the client certainly had the lock, and had not read the key since it acquired the lock.
    pub fn asked_nothing(&self, act: &Act) -> bool {
        let Some(operation) = self.of(act).filter(|operation| self.had_lock(operation, act.time)) else { return false };
        self.had_asked(act).is_none_or(|asked| !self.had_lock(operation, asked.time))
    }

    /// Also true if each read since then found another client's key, which no comparison accepts.
    pub fn compared_nothing(&self, act: &Act) -> bool {
        let Some(operation) = self.of(act).filter(|operation| self.had_lock(operation, act.time)) else { return false };
        let mut asked = self.asked(act).into_iter().filter(|asked| self.had_lock(operation, asked.time));
        asked.all(|asked| asked.owner().is_some_and(|owner| owner.client != act.client))
    }

    /// True if an operation had its lock by then, as its client reported.
    pub fn had_lock(&self, operation: &Operation, time: u64) -> bool {
        operation.phase(Phase::Acquired).is_some_and(|stamp| stamp.time() <= time.saturating_add(EDGE))
    }

    /// True if a key that this act created was certainly there at a later time, apart from its TTL.
    pub fn had_key(&self, created: &Act, time: u64) -> bool {
        let ends = |act: &Act| act.done != Some(false) && matches!(act.what, Change::Remove | Change::Create(_));
        !self.acts.after(created).take_while(|act| act.time <= time).any(ends)
    }

    /// The value that the last try of an operation wrote, by then. A late request of an earlier try repeats an older value, so the
    /// last new value counts. A try that every node refused wrote nothing.
    pub fn last_value(&self, place: usize, until: u64) -> Option<&'a str> {
        let mut values = BTreeSet::new();
        let by_then = self.acts.of_operation(place).filter(|act| act.time <= until.saturating_add(EDGE));
        let new = by_then
            .filter(|act| act.done != Some(false))
            .filter_map(Act::create)
            .map(|create| create.token)
            .filter(|token| values.insert(*token));
        new.fold(None, |_, token| Some(token))
    }

    /// True if the attempt of an act ended without the lock, and no node granted it meanwhile. The act is certainly of that attempt:
    /// no network held the request since an earlier one.
    pub fn was_refused(&self, act: &Act) -> bool {
        let Some(place) = act.operation.filter(|_| self.of(act).is_some_and(gave_up)) else { return false };
        let invoked = self.history.operations[place].invoked.saturating_sub(self.ttl);
        self.requests_pass(act.client, act.node, invoked, act.time)
            && !self.acts.of_operation(place).any(|other| other.create().is_some() && other.done != Some(false))
    }

    /// True if a node certainly granted the attempt of an act.
    pub fn was_granted_by_a_node(&self, act: &Act) -> bool {
        let of_attempt = act.operation.into_iter().flat_map(|place| self.acts.of_operation(place));
        of_attempt.filter(|other| other.create().is_some()).any(Act::is_done)
    }

    /// True if two acts are in one transaction of one connection.
    pub fn share_a_transaction(&self, one: &Act, other: &Act) -> bool {
        let in_one = |act: &Act| matches!(act.by, Means::Transaction { .. });
        let (from, to) = (one.place.min(other.place), one.place.max(other.place));
        let is_end = |command: &RecordedCommand| {
            command.node == one.node && command.port == one.port && command.name().eq_ignore_ascii_case("EXEC")
        };
        in_one(one)
            && in_one(other)
            && (&one.node, one.client, one.port) == (&other.node, other.client, other.port)
            && !self.commands[from..to].iter().any(is_end)
    }

    /// True if it certainly relied on its lock at this time.
    pub fn holds(&self, operation: &Operation, time: u64) -> bool {
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        self.history.certain_hold(operation).is_some_and(|(start, end)| start <= time && time < end)
    }

    /// True if no fault was in effect between two times.
    fn had_no_fault(&self, from: u64, to: u64) -> bool {
        let faults = self.history.faults.iter().filter(|window| window.skipped.is_none());
        !faults.map(|window| (window.span(), window.aftermath_ns)).any(|((began, ended), after)| {
            began <= to && ended.is_none_or(|ended| ended.saturating_add(after.unwrap_or(0)) >= from)
        })
    }

    /// True if a command that a client had sent at `sent` certainly arrived by `to`. No fault was in effect since `from`, and the
    /// client and the node both ran for a TTL after `sent`.
    pub fn has_arrived(&self, client: &str, node: &str, (from, sent, to): (u64, u64, u64)) -> bool {
        let ran = [client, node].map(|member| self.ran_for(member, sent, to)).iter().sum::<u64>();
        self.had_no_fault(from, to) && ran >= to.saturating_sub(sent).saturating_add(self.ttl)
    }

    /// True if no fault was in effect between two times, and the machine and its members ran.
    pub fn was_quiet(&self, from: u64, to: u64) -> bool {
        let meets = |began: u64, ended: Option<u64>| began <= to && ended.is_none_or(|ended| ended >= from);
        let history = self.history;
        self.had_no_fault(from, to)
            && !history.stalls.iter().any(|(began, ended)| meets(*began, Some(*ended)))
            && !history.kept_waiting.iter().any(|(_, waited)| meets(waited.from_ns, Some(waited.to_ns)))
    }

    /// True if this client ran during the whole time: it was not stopped, and had a processor.
    pub fn ran(&self, client: &str, from: u64, to: u64) -> bool {
        let meets = |began: u64, ended: Option<u64>| began <= to && ended.is_none_or(|ended| ended >= from);
        let history = self.history;
        let is_its = |members: &[String]| members.iter().any(|member| member == client);
        !history.faults.iter().any(|window| {
            let (began, ended) = window.span();
            is_its(&window.targets) && window.kind.does.process != OnProcess::GoesOn && meets(began, ended)
        }) && !history.stalls.iter().any(|(began, ended)| meets(*began, Some(*ended)))
            && !history.brief_stalls.iter().any(|(began, ended)| meets(*began, Some(*ended)))
            && !history
                .kept_waiting
                .iter()
                .any(|(_, waited)| is_its(&waited.members) && meets(waited.from_ns, Some(waited.to_ns)))
    }

    /// How long this client certainly ran between two moments, in ns.
    pub fn ran_for(&self, client: &str, from: u64, to: u64) -> u64 {
        self.ran_but_for(client, 0, from, to)
    }

    /// The same, counting only stops that began after `after`.
    pub fn ran_but_for(&self, client: &str, after: u64, from: u64, to: u64) -> u64 {
        let history = self.history;
        let is_its = |members: &[String]| members.iter().any(|member| member == client);
        let within = |began: u64, ended: u64| ended.min(to).saturating_sub(began.max(from));
        let stops = history.faults.iter().filter(|window| {
            let is_over = window.injected.is_some_and(|(time, observed)| observed && time <= after);
            is_its(&window.targets) && window.kind.does.process != OnProcess::GoesOn && !is_over
        });
        let stops = stops.map(|window| within(window.span().0, window.span().1.unwrap_or(u64::MAX)));
        let waits = history.kept_waiting.iter().filter(|(_, waited)| is_its(&waited.members));
        let waits = waits.map(|(_, waited)| within(waited.from_ns, waited.to_ns).min(waited.waited_ns));
        let stalls = history.stalls.iter().chain(&history.brief_stalls).filter(|(began, _)| *began > after);
        let stalls = stalls.map(|(began, ended)| within(*began, *ended));
        let stood = stops.chain(waits).chain(stalls).fold(0, u64::saturating_add);
        to.saturating_sub(from).saturating_sub(stood)
    }

    /// True if all requests from a client to a node between two times arrived. No fault was in effect on either of them, or only
    /// one that removes a reply. While a fault is on any packets, all packets go through the agent, so the agent must not have
    /// stood still.
    pub fn requests_pass(&self, client: &str, node: &str, from: u64, to: u64) -> bool {
        let within = |began: u64, ended: u64| ended.min(to).saturating_sub(began.max(from));
        let on_packets = |window: &&FaultWindow| {
            window.skipped.is_none() && window.kind.does.packets != OnPackets::Pass && {
                let (began, ended) = window.span();
                began <= to && ended.is_none_or(|ended| ended >= from)
            }
        };
        let stood = |(_, waited): &(u64, Waited)| {
            waited.members.iter().any(|member| Role::of(member) == Some(Role::Agent))
                && within(waited.from_ns, waited.to_ns).min(waited.waited_ns) >= AGENT_STOOD
        };
        if self.history.faults.iter().any(|window| on_packets(&window)) && self.history.kept_waiting.iter().any(stood) {
            return false;
        }
        let mut faults = self.history.faults.iter().filter(|window| window.skipped.is_none());
        !faults.any(|window| {
            let (began, ended) = window.span();
            let meets = began <= to && ended.is_none_or(|ended| ended >= from);
            meets && concerns(window, client, node) && !window.on_call.is_some_and(CallEffect::waits_for_the_reply)
        })
    }

    /// The earliest time at which the client can have received the reply to an act.
    pub fn replied(&self, act: &Act) -> u64 {
        let holds = |window: &&FaultWindow| {
            let mut links = window.links.iter().flatten();
            window.on_call == Some(CallEffect::HoldReply)
                && links.any(|(from, to)| [from, to].iter().all(|end| *end == act.client || *end == act.node))
                // The agent reports the fault a moment after the command.
                && window.inject <= act.time.saturating_add(STRIKE)
                && window.heal.is_none_or(|heal| heal > act.time)
                && window.was_observed()
        };
        let faults = || self.history.faults.iter().filter(|window| window.skipped.is_none());
        let held = faults().filter(holds).map(|window| window.heal.unwrap_or(u64::MAX));
        let delayed = faults().filter_map(|window| {
            let delay = window.delay_ns?;
            let is_on = |(from, to): &(String, String)| from == act.node && to == act.client;
            let began = window.injected.is_some_and(|(time, observed)| observed && time <= act.time);
            let is_delayed = began && window.links.iter().flatten().any(is_on);
            // The heal lets all packets go that are still delayed.
            is_delayed.then(|| act.time.saturating_add(delay).min(window.heal.unwrap_or(u64::MAX)))
        });
        held.chain(delayed).fold(act.time, u64::max)
    }

    /// Until when a fault held a single request of a client to a node. None if no fault did at `time`, or another one came
    /// between them.
    pub fn held_until(&self, client: &str, node: &str, time: u64) -> Option<u64> {
        let mut faults = self.history.faults.iter().filter(|window| window.skipped.is_none());
        let is_it = |window: &&FaultWindow| {
            window.on_call == Some(CallEffect::HoldRequest)
                && window.on_each.is_none()
                && window.injected.is_some_and(|(struck, observed)| observed && struck <= time)
                && concerns(window, client, node)
        };
        let held = faults.clone().find(is_it)?;
        let heal = held.heal.filter(|heal| *heal > time)?;
        let is_alone = !faults.any(|window| {
            let (began, ended) = window.span();
            let meets = began <= heal && ended.is_none_or(|ended| ended >= time);
            window.fault != held.fault && meets && concerns(window, client, node)
        });
        is_alone.then_some(heal)
    }

    /// When the connection was reset on which a client waited for the reply to an act; None if it was not, or that is not
    /// certain.
    pub fn reset_at(&self, act: &Act) -> Option<u64> {
        let soon = act.time..=act.time.saturating_add(STRIKE);
        let resets = self.history.faults.iter().filter(|window| {
            matches!(window.on_call, Some(CallEffect::ResetAfter | CallEffect::CloseAfter))
                && concerns(window, act.client, act.node)
        });
        let mut struck = resets.filter_map(|window| window.injected.filter(|(_, observed)| *observed));
        let (told, _) = struck.find(|(time, _)| soon.contains(time))?;
        let around = act.time.saturating_sub(STRIKE)..=told;
        let sent = self.commands.iter().enumerate().filter(|(_, command)| {
            let is_its = command.from.as_deref() == Some(act.client) && command.node == act.node;
            is_its && around.contains(&command.time)
        });
        // Certain only if the fault can have hit no other command.
        sent.map(|(place, _)| place).eq([act.sent]).then_some(told)
    }

    /// True if requests and replies between a client and a node passed during the whole time. The client may stand still.
    pub fn replies_pass(&self, client: &str, node: &str, from: u64, to: u64) -> bool {
        let mut faults = self.history.faults.iter().filter(|window| window.skipped.is_none());
        !faults.any(|window| {
            let (began, ended) = window.span();
            let meets = began <= to && ended.is_none_or(|ended| ended >= from);
            let does = &window.kind.does;
            let on_packets = does.packets != OnPackets::Pass || window.on_call.is_some();
            // A fault on links makes a node silent only for the members at their other ends.
            let silences = does.silences && window.links.is_none();
            let stops_node =
                (does.process != OnProcess::GoesOn || silences) && window.targets.iter().any(|target| target == node);
            meets && (stops_node || (on_packets && concerns(window, client, node)))
        })
    }

    /// True if a client could send requests to a node between two times, except for one call that a fault hit.
    pub fn could_send(&self, client: &str, node: &str, from: u64, to: u64) -> bool {
        let takes_one_reply =
            |effect: CallEffect| effect.waits_for_the_reply() || effect == CallEffect::ResetConnection;
        let strikes_once =
            |window: &&FaultWindow| window.on_call.is_some_and(takes_one_reply) && window.on_each.is_none();
        let mut faults = self.history.faults.iter().filter(|window| window.skipped.is_none() && !strikes_once(window));
        !faults.any(|window| {
            let (began, ended) = window.span();
            let meets = began <= to && ended.is_none_or(|ended| ended >= from);
            meets && concerns(window, client, node)
        })
    }

    /// A finding that depends on these acts' commands and concerns these operations.
    pub fn finding(&self, act: &Act, places: &[usize], of: &[Option<usize>], harm: Harm, sentence: String) -> Finding {
        let operations = of.iter().filter_map(|place| self.operation(*place)).map(|operation| operation.index);
        let mut commands: Vec<u64> = places.iter().map(|place| *place as u64 + 1).collect();
        commands.sort_unstable();
        commands.dedup();
        Finding {
            time: act.time,
            key: key_behind(act.key).unwrap_or(act.key).to_string(),
            sentence,
            operations: operations.collect(),
            commands,
            harm,
            fault: None,
        }
    }

    /// The name of a command in a sentence: `DEL`, or `the DEL of its script`.
    pub fn named(&self, act: &Act) -> String {
        let command = &self.commands[act.place];
        let name = words::sanitize(&command.name(), 20);
        if command.in_script { format!("script's {name}") } else { name }
    }

    /// Names the client, its command and the time: `c0's DEL at 1.205 s`.
    pub fn did(&self, act: &Act) -> String {
        let did = format!("{} {}", owned(self.run.threads, act.client, &self.named(act)), at(act.time));
        if self.run.threads > 1 { words::capital(&did) } else { did }
    }

    /// The harm of the end of a key: its owner may have relied on it.
    pub fn ended(&self, owner: &Owned, time: u64) -> Harm {
        match self.operation(owner.operation).filter(|operation| self.holds(operation, time)) {
            Some(operation) => Harm::Ended(operation.index),
            None => Harm::None,
        }
    }

    /// The harm of the end of a key, even if its owner relied on it only later. Unless the owner set it again, it had no lock
    /// then.
    pub fn cost(&self, owner: &Owned, time: u64) -> Harm {
        let sets_again =
            |place: usize| self.acts.of_operation(place).any(|act| act.time > time && act.create().is_some());
        let later = self.operation(owner.operation).filter(|operation| {
            operation.phase(Phase::Acquired).is_some_and(|acquired| acquired.time() > time)
                && !owner.operation.is_some_and(sets_again)
        });
        match (self.ended(owner, time), later) {
            (Harm::None, Some(operation)) => Harm::Ended(operation.index),
            (harm, _) => harm,
        }
    }

    /// If a lock is on several nodes, one key is not the lock: it ended only if too few keys for a majority are left.
    pub fn weighed(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let mut ended: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        for finding in &findings {
            if let Harm::Ended(operation) = finding.harm {
                let nodes = finding.commands.iter().map(|line| self.commands[*line as usize - 1].node.as_str());
                ended.entry(operation).or_default().extend(nodes);
            }
        }
        let is_weak = |index: u64| {
            let place = self.history.place_of(index)?;
            let created = self.acts.of_operation(place).filter(|act| act.is_done() && act.create().is_some());
            let nodes: BTreeSet<&str> = created.map(|act| act.node).collect();
            let left = nodes.len().saturating_sub(ended.get(&index)?.len());
            Some(nodes.len() > 1 && left * 2 > self.listed(place))
        };
        let weak: BTreeSet<u64> = ended.keys().copied().filter(|index| is_weak(*index) == Some(true)).collect();
        let weigh = |finding: Finding| match finding.harm {
            Harm::Ended(operation) if weak.contains(&operation) => Finding { harm: Harm::None, ..finding },
            _ => finding,
        };
        findings.into_iter().map(weigh).collect()
    }
}

/// True if a fault may come between a client and a node. It is on the link between them or, if its links are unknown, on one of
/// them.
fn concerns(window: &FaultWindow, client: &str, node: &str) -> bool {
    let is_end = |member: &String| member == client || member == node;
    match &window.links {
        Some(links) => links.iter().any(|(from, to)| is_end(from) && is_end(to)),
        None => window.targets.iter().any(is_end),
    }
}

/// `c0's key`, or `the key of c0's process`: commands do not show the thread.
pub(crate) fn owned(threads: u32, client: &str, what: &str) -> String {
    if threads > 1 { format!("the {what} of {client}'s process") } else { format!("{client}'s {what}") }
}

/// A time of the run in a sentence.
pub(crate) fn at(time: u64) -> String {
    format!("at {}", words::moment(time))
}

/// When a key expires, if it does.
pub(crate) fn end_of(owner: &Owned) -> Option<u64> {
    match owner.end {
        KeyEnd::At(end) => Some(end),
        KeyEnd::Never | KeyEnd::Unknown => None,
    }
}

/// ` on n2`; empty if there is only one node.
pub(crate) fn on(case: &Case, node: &str) -> String {
    if case.run.nodes > 1 { format!(" on {node}") } else { String::new() }
}

/// True if an attempt ended without the lock.
pub(crate) fn gave_up(operation: &Operation) -> bool {
    operation.outcome == Outcome::Fail && operation.phase(Phase::Acquired).is_none()
}
