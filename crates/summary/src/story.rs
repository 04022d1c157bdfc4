//! Groups a verdict's anomalies into incidents, and names the members involved.
//!
//! One late write often causes several anomalies: an overlap of two holders, and each update that it wiped out. Readers want to
//! read about it once. So the anomalies around the same overwriting operation become one [`Incident`].

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Subject, times};
use base::units::nanos;
use base::words::sanitize;
use checker::properties::Seen;
use checker::{Anomaly, AnomalyKind, ClaimVerdict, How, HowKind, Validity};
use diagnosis::Lives;
use model::history::{
    CallEffect, Claim, ClientStep, FaultWindow, Function, Operation, Outcome, Phase, PhaseStamp, Process, Reading,
    RecordedCommand, ResourceKind,
};
use model::nemesis::Expectation;
use model::scenario::Fencing;
use model::topology::Group;

/// The sources of a summary, indexed.
pub struct Story<'a> {
    pub subject: Subject<'a>,
    /// By key: the writes that are known to have taken effect, ordered by that time.
    writes: HashMap<&'a str, Vec<(u64, &'a Operation)>>,
    certain: HashMap<&'a str, CertainWrites<'a>>,
    /// The updates that any anomaly reports as lost, as indices of their `invoke` events.
    lost: HashSet<u64>,
    /// Incidents that lost updates come first, then those that break a claim. Each group is ordered by time.
    pub incidents: Vec<Incident<'a>>,
    /// The history of the lock's keys. None if the nodes' commands are unknown.
    pub(super) lives: Option<Lives<'a>>,
}

/// The writes of a key whose times are certain, in the order in which they were sent.
struct CertainWrites<'a> {
    writes: Vec<CertainWrite<'a>>,
    /// The time from which another write may have happened as well.
    doubtful_from: u64,
}

struct CertainWrite<'a> {
    sent: u64,
    acknowledged: u64,
    /// When this and all earlier writes were acknowledged.
    all_acknowledged: u64,
    operation: &'a Operation,
}

/// An event of the run, with all its anomalies.
pub struct Incident<'a> {
    pub key: &'a str,
    /// When it became visible.
    pub time: u64,
    pub anomalies: Vec<&'a Anomaly>,
    /// The operations involved, in the order of their acquisitions.
    pub operations: Vec<&'a Operation>,
    /// The acknowledged updates among them that did not survive.
    pub lost: Vec<u64>,
    pub fault: Option<&'a FaultWindow>,
    /// True if it contradicts a property that the workload claims.
    pub claimed: bool,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimStatus {
    /// Nothing contradicts it, although something in the run could have.
    Held,
    /// Contradicted, and the workload claims it.
    Broken,
    /// Contradicted, but the workload does not claim it.
    Unclaimed,
    /// The run shows nothing about it.
    Unproven,
    /// It is about events that did not happen in the run ([`ClaimDef::conditional`](checker::properties::ClaimDef)).
    NotShown,
}

impl<'a> Story<'a> {
    pub fn new(subject: Subject<'a>) -> Story<'a> {
        let mut writes: HashMap<&str, Vec<_>> = HashMap::new();
        for operation in &subject.history.operations {
            if operation.f.writes()
                && operation.outcome != Outcome::Fail
                && let Some(time) = times::effect(operation)
            {
                writes.entry(&operation.key).or_default().push((time, operation));
            }
        }
        for of_key in writes.values_mut() {
            of_key.sort_by_key(|(time, operation)| (*time, operation.index));
        }
        let certain = certain_writes(&subject.history.operations);
        let lost = subject.verdict.anomalies.iter().flat_map(|anomaly| anomaly.lost.iter().copied()).collect();
        let mut story = Story { subject, writes, certain, lost, incidents: Vec::new(), lives: None };
        story.incidents = story.group();
        story
    }

    /// Reads the commands that the lock's nodes executed.
    pub fn follow(&mut self, commands: &'a [RecordedCommand]) {
        self.lives = Some(Lives::of(self.subject.history, commands));
    }

    /// When an operation's lock expired, given its reports up to `moment`, and the line with that time. From the lock's nodes
    /// if known, otherwise from the client's own count.
    pub fn expiry_at(&self, operation: &Operation, moment: u64) -> Option<(u64, u64)> {
        let counted =
            || times::expiry_at(self.subject.history, operation, moment).map(|(until, stamp)| (until, stamp.index));
        match self.lives.as_ref().and_then(|lives| lives.expiry(operation.index)) {
            Some(expired) => expired.zip(operation.phase(Phase::Acquired).map(|stamp| stamp.index)),
            None => counted(),
        }
    }

    /// When an operation's lock expired while its client still held it. None if it did not.
    pub fn expiry(&self, operation: &Operation) -> Option<u64> {
        let hold = times::hold(operation)?;
        self.expiry_at(operation, hold.end).map(|(until, _)| until).filter(|until| *until < hold.end)
    }

    /// True if clients wrote and none ever asked for a lock. Then reports do not mention locks.
    pub fn is_unlocked(&self) -> bool {
        let mut operations = self.subject.history.operations.iter();
        operations.clone().any(|operation| operation.f.writes()) && operations.all(|operation| !operation.f.is_locked())
    }

    /// True if the run was simulated.
    pub fn is_simulated(&self) -> bool {
        self.subject.history.is_simulated()
    }

    pub fn operation(&self, index: u64) -> Option<&'a Operation> {
        let history = self.subject.history;
        history.place_of(index).map(|place| &history.operations[place])
    }

    /// The writes of a key that took effect between two times, both included.
    pub fn writes(&self, key: &str, from: u64, to: u64) -> &[(u64, &'a Operation)] {
        let of_key = self.writes.get(key).map_or(&[][..], Vec::as_slice);
        let start = of_key.partition_point(|(time, _)| *time < from);
        let end = of_key.partition_point(|(time, _)| *time <= to);
        &of_key[start..end.max(start)]
    }

    /// The write that an operation overwrote, according to the reported writes.
    pub fn overwritten(&self, operation: &Operation) -> Option<&'a Operation> {
        let time = times::effect(operation)?;
        let earlier = self.writes(&operation.key, 0, time);
        earlier.iter().rev().find(|(_, other)| other.index != operation.index).map(|(_, last)| *last)
    }

    /// The write that an operation certainly overwrote. It was acknowledged after the operation read and before it wrote, and
    /// no other write may have come in between or last.
    pub fn certainly_overwritten(&self, operation: &Operation) -> Option<&'a Operation> {
        let (own_sent, own_acknowledged) = times::certain_write(operation)?;
        let of_key = self.certain.get(operation.key.as_str())?;
        if of_key.doubtful_from < own_acknowledged {
            return None;
        }
        let of_key = &of_key.writes[..of_key.writes.partition_point(|write| write.sent < own_acknowledged)];
        let [before @ .., last, this] = of_key else { return None };
        let alone = this.operation.index == operation.index
            && last.acknowledged <= own_sent
            && before.last().is_none_or(|before| before.all_acknowledged <= last.sent);
        let read = operation.phase(Phase::Read).map(PhaseStamp::time);
        let unread = read.is_some_and(|read| read < last.acknowledged);
        let is_read = matches!((&operation.old, &last.operation.new), (Reading::Value(old), Some(new)) if old == new);
        (alone && (unread || is_read)).then_some(last.operation)
    }

    /// The name of a process's client: `c3`. `process 3` if the number of clients is unknown.
    pub fn name(&self, process: Process) -> String {
        match (&self.subject.history.run, process) {
            (Some(header), _) if header.clients > 0 => header.client_name(process),
            (_, Process::Controller) => "controller".to_string(),
            (_, Process::Client(number)) => format!("process {number}"),
        }
    }

    /// The names of the clients of several operations.
    pub fn names(&self, operations: &[u64]) -> Vec<String> {
        let known = operations.iter().filter_map(|index| self.operation(*index));
        known.map(|operation| self.name(operation.process)).collect()
    }

    /// True if any anomaly reports this operation's update as lost.
    pub fn is_lost(&self, operation: &Operation) -> bool {
        self.lost.contains(&operation.index)
    }

    /// True if the run has a resource that clients read or write.
    pub fn has_resource(&self) -> bool {
        self.resource() != Some(ResourceKind::None)
    }

    /// True if the lock has nodes, or if their number is unknown.
    pub fn has_nodes(&self) -> bool {
        self.subject.history.run.as_ref().is_none_or(|run| run.nodes > 0)
    }

    /// True if the commands of the lock's nodes are known.
    pub fn has_commands(&self) -> bool {
        self.lives.is_some()
    }

    /// True if some clients acquire the lock as readers, beside each other.
    pub fn has_readers(&self) -> bool {
        self.subject.history.has_readers()
    }

    /// How many clients may hold the lock at once.
    pub fn permits(&self) -> u32 {
        self.subject.history.permits()
    }

    /// The lock's TTL, in nanoseconds. None if it has none.
    pub fn ttl_ns(&self) -> Option<u64> {
        let run = self.subject.history.run.as_ref();
        if run.is_some_and(|run| !run.expires) {
            return None;
        }
        let header = run.map(|run| run.ttl_ms.saturating_mul(1_000_000));
        let scenario = self.subject.scenario.map(|scenario| nanos(scenario.ttl));
        header.or(scenario).filter(|ttl| *ttl > 0)
    }

    /// The name of the lock in sentences.
    pub fn lock_name(&self) -> Cow<'a, str> {
        let workload = self.subject.scenario.map(|scenario| &scenario.workload);
        if let Some(library) = workload.and_then(|workload| workload.library.as_ref()) {
            return format!("{} {}", library.name, library.version).into();
        }
        if let Some(name) = self.own_client().filter(|_| !self.is_unlocked()) {
            return sanitize(name, 60).into();
        }
        let group = workload.and_then(|workload| workload.topology.group());
        let about = workload.map(|workload| workload.lock.about());
        let name = match about {
            _ if self.is_unlocked() => group.map_or("The resource", Group::called),
            Some(about) => about.called_on_primary.filter(|_| group.is_some()).unwrap_or(about.called),
            None => "The lock",
        };
        name.into()
    }

    pub fn workload(&self) -> Option<&'a str> {
        let header = self.subject.history.run.as_ref().map(|run| run.workload.as_str());
        self.subject.scenario.map(|scenario| scenario.workload_name.as_str()).or(header)
    }

    pub fn nemesis(&self) -> Option<&'a str> {
        let header = self.subject.history.run.as_ref().map(|run| run.nemesis.as_str());
        self.subject.scenario.map(|scenario| scenario.nemesis_name.as_str()).or(header)
    }

    pub fn seed(&self) -> Option<u64> {
        self.subject.scenario.map(|scenario| scenario.seed).or(self.subject.history.run.as_ref().map(|run| run.seed))
    }

    pub fn started(&self) -> &'a str {
        self.subject.history.run.as_ref().map_or("", |run| &run.started)
    }

    /// The lock client's name and version, as it reported them. Empty if it reported none.
    pub fn client(&self) -> &'a str {
        let mut ready = self.subject.history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ready);
        ready.next().map_or("", |(_, event)| &event.text)
    }

    /// The name and version of a client, as it reported them. None for redjepsen's own clients.
    fn own_client(&self) -> Option<&'a str> {
        let is_ours = |name: &str| name.is_empty() || name.starts_with("redjepsen ");
        Some(self.client()).filter(|name| !is_ours(name))
    }

    /// The verdict on a claim. None if the workload does not make it and the history does not bear on it.
    pub fn claim(&self, claim: Claim) -> Option<&'a ClaimVerdict> {
        self.subject.verdict.claim(claim)
    }

    /// True if `claim` decides the workload's verdict.
    pub fn claims(&self, claim: Claim) -> bool {
        self.claim(claim).is_some_and(|verdict| verdict.claimed)
    }

    /// True if an anomaly of this kind breaks a claim of the workload.
    pub fn breaks(&self, kind: AnomalyKind) -> bool {
        kind.contradicts().is_some_and(|claim| self.claims(claim))
    }

    /// How the resource guards itself, so that an overlap does no harm. None if it does not.
    pub fn refusal(&self) -> Option<&'static str> {
        let resource = self.subject.scenario?.workload.resource;
        if !resource.refuses_late_writes() {
            return None;
        }
        match (resource.kind, resource.fencing) {
            (ResourceKind::Row, _) => Some("the database ends the transaction of a holder that comes too late"),
            (_, Fencing::None) => None,
            (_, Fencing::CompareAndSet) => Some("the resource refuses a write whose old value is no longer current"),
            (_, Fencing::Token) => Some("the resource refuses a write with a token older than the newest it has seen"),
            (_, Fencing::TokenGreater) => {
                Some("the resource refuses a write whose token is not greater than the newest it has seen")
            }
            (_, Fencing::TokenReads) => {
                Some("the resource refuses any request with a token older than the newest it has seen")
            }
        }
    }

    /// Why two holders at once did no harm. None if the incident is more than that, or if the resource has no guard.
    pub fn harmless(&self, incident: &Incident) -> Option<&'static str> {
        // An update that another incident is about may be of one of these holders.
        let loses = |one: &&Operation| {
            self.is_lost(one) || self.certainly_overwritten(one).is_some_and(|other| self.is_lost(other))
        };
        let is_harmless = !incident.claimed
            && incident.has(AnomalyKind::OverlappingHolders)
            && incident.lost.is_empty()
            && !incident.operations.iter().any(loses);
        self.refusal().filter(|_| is_harmless)
    }

    /// The resource. None if the run does not name it.
    pub fn resource(&self) -> Option<ResourceKind> {
        self.subject.history.run.as_ref().map(|run| run.resource)
    }

    /// The expected result, from the user, or else from the author of the workload or nemesis.
    pub fn expectation(&self) -> Option<Expectation> {
        let scenario = self.subject.scenario?;
        let of_workload = scenario.workload.expect.get(&scenario.nemesis_name);
        scenario.expect.or_else(|| of_workload.or(scenario.nemesis.expect.get(&scenario.workload_name)).copied())
    }

    /// True if the checker found an anomaly of this kind.
    pub fn has(&self, kind: AnomalyKind) -> bool {
        self.subject.verdict.has(kind)
    }

    /// The observations about a claim.
    pub fn seen(&self, claim: Claim) -> Seen<'a> {
        Seen::new(self.subject.history, self.subject.verdict, claim)
    }

    /// The number of contradictions of `claim`.
    pub fn contradictions(&self, claim: Claim) -> u64 {
        self.seen(claim).contradictions()
    }

    pub fn status(&self, claim: Claim) -> ClaimStatus {
        let unproven = || self.claim(claim).is_none_or(|verdict| verdict.missing.is_some());
        match (self.contradictions(claim) > 0, self.claims(claim), self.subject.verdict.valid) {
            (true, false, _) => ClaimStatus::Unclaimed,
            (true, true, Validity::Invalid) => ClaimStatus::Broken,
            (false, _, _) if self.seen(claim).def.conditional && unproven() => ClaimStatus::NotShown,
            (_, _, Validity::Unknown) => ClaimStatus::Unproven,
            (true, true, Validity::Valid) => ClaimStatus::Broken,
            (false, _, _) if unproven() => ClaimStatus::Unproven,
            (false, _, _) => ClaimStatus::Held,
        }
    }

    /// Operations of clients. The controller's own operations are not load.
    pub fn client_operations(&self) -> impl Iterator<Item = &'a Operation> + use<'a> {
        self.subject.history.operations.iter().filter(|operation| operation.process != Process::Controller)
    }

    /// Client reads that returned a value.
    pub fn acknowledged_reads(&self) -> u64 {
        self.client_operations().filter(|one| (one.f, one.outcome) == (Function::Read, Outcome::Ok)).count() as u64
    }

    /// The time from the first to the last event of a client, in seconds.
    pub fn busy_seconds(&self) -> f64 {
        let first = self.client_operations().map(|operation| operation.invoked).min().unwrap_or(0);
        let last = self.client_operations().filter_map(|operation| operation.completed).max().unwrap_or(first);
        last.saturating_sub(first) as f64 / 1e9
    }

    fn group(&self) -> Vec<Incident<'a>> {
        let anomalies = &self.subject.verdict.anomalies;
        let mut groups: Vec<Vec<&'a Anomaly>> = Vec::new();
        // The group in which an operation overwrote something, and the groups of which it is a member.
        let mut by_culprit: HashMap<u64, usize> = HashMap::new();
        let mut by_member: HashMap<u64, BTreeSet<usize>> = HashMap::new();
        let (updates, overlaps): (Vec<_>, Vec<_>) =
            anomalies.iter().partition(|anomaly| anomaly.kind != AnomalyKind::OverlappingHolders);
        for anomaly in updates.into_iter().chain(overlaps) {
            // The operation at the centre of the incident: it overwrote an update, or held too long.
            let culprit = match anomaly.kind {
                AnomalyKind::LostUpdate => anomaly.operations.last(),
                AnomalyKind::OverlappingHolders => anomaly.operations.first(),
                _ => None,
            };
            // A token that is too large is a member of all incidents after it, so the operation with the fewest is asked first.
            let members = anomaly.operations.iter().map(|index| by_member.get(index));
            let shared = members.collect::<Option<Vec<_>>>().and_then(|members| {
                let fewest = members.iter().min_by_key(|groups| groups.len())?;
                fewest.iter().find(|place| members.iter().all(|groups| groups.contains(place)))
            });
            let place = match anomaly.kind {
                AnomalyKind::LostUpdate => culprit.and_then(|index| by_culprit.get(index)),
                _ => shared
                    .or_else(|| anomaly.operations.iter().find_map(|index| by_culprit.get(index)))
                    .or_else(|| by_member.get(culprit?)?.first()),
            };
            let place = place.copied().unwrap_or_else(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            if let Some(index) = culprit {
                by_culprit.entry(*index).or_insert(place);
            }
            for index in anomaly.operations.iter().chain(&anomaly.lost) {
                by_member.entry(*index).or_default().insert(place);
            }
            groups[place].push(anomaly);
        }
        let mut incidents: Vec<_> = groups.into_iter().map(|anomalies| self.incident(anomalies)).collect();
        incidents.sort_by_key(|incident| (incident.lost.is_empty(), !incident.claimed, incident.time));
        incidents
    }

    fn incident(&self, anomalies: Vec<&'a Anomaly>) -> Incident<'a> {
        let mut indices: Vec<u64> = Vec::new();
        let mut lost: Vec<u64> = Vec::new();
        for anomaly in &anomalies {
            indices.extend(anomaly.operations.iter().chain(&anomaly.lost));
            lost.extend(&anomaly.lost);
        }
        for list in [&mut indices, &mut lost] {
            list.sort_unstable();
            list.dedup();
        }
        let mut operations: Vec<_> = indices.iter().filter_map(|index| self.operation(*index)).collect();
        operations.sort_by_key(|operation| times::hold(operation).map_or(operation.invoked, |hold| hold.start));
        let fault = deciding_fault(&anomalies, &operations);
        let fault = fault.and_then(|number| self.subject.history.faults.iter().find(|window| window.fault == number));
        // A fault that began later explains only what followed.
        let time = anomalies.iter().map(|anomaly| anomaly.time).min().unwrap_or(0);
        let fault = fault.filter(|window| window.inject <= time);
        Incident {
            key: anomalies.first().map_or("", |anomaly| &anomaly.key),
            time,
            claimed: anomalies.iter().any(|anomaly| self.breaks(anomaly.kind)),
            fault,
            operations,
            lost,
            anomalies,
        }
    }
}

fn certain_writes(operations: &[Operation]) -> HashMap<&str, CertainWrites<'_>> {
    let mut keys: HashMap<&str, CertainWrites> = HashMap::new();
    for operation in operations.iter().filter(|one| one.f.writes() && one.outcome != Outcome::Fail) {
        let of_key =
            keys.entry(&operation.key).or_insert_with(|| CertainWrites { writes: Vec::new(), doubtful_from: u64::MAX });
        match times::certain_write(operation) {
            Some((sent, acknowledged)) => {
                of_key.writes.push(CertainWrite { sent, acknowledged, all_acknowledged: 0, operation });
            }
            None if times::may_have_sent(operation) => {
                of_key.doubtful_from = of_key.doubtful_from.min(operation.invoked);
            }
            None => {}
        }
    }
    for of_key in keys.values_mut() {
        of_key.writes.sort_by_key(|write| (write.sent, write.operation.index));
        let mut all = 0;
        for write in &mut of_key.writes {
            all = write.acknowledged.max(all);
            write.all_acknowledged = all;
        }
    }
    keys
}

/// The anomaly that explains the incident. A token out of order comes first, if it names the incident. Overlaps of holders come
/// before damage to the data, and those that involve the story's first operation come first.
fn decisive<'a>(anomalies: &[&'a Anomaly], operations: &[&Operation]) -> Option<&'a Anomaly> {
    let of = |kind: AnomalyKind| anomalies.iter().filter(move |anomaly| anomaly.kind == kind);
    let damaged = of(AnomalyKind::LostUpdate).next().is_some();
    let token = of(AnomalyKind::TokenRegress).next().filter(|_| !damaged);
    let overlaps = || of(AnomalyKind::OverlappingHolders);
    let first = operations.first().map(|operation| operation.index);
    let of_first = overlaps().find(|anomaly| anomaly.operations.first().copied() == first);
    let explained = || anomalies.iter().find(|anomaly| anomaly.fault.is_some() || anomaly.how.is_some());
    token.or(of_first).or_else(|| overlaps().next()).or_else(explained).copied()
}

/// The fault that explains the incident. Unless it explains how a second client came to hold the first one's lock, it must explain
/// each lost update.
fn deciding_fault(anomalies: &[&Anomaly], operations: &[&Operation]) -> Option<u32> {
    let decisive = decisive(anomalies, operations)?;
    let explains = |anomaly: &Anomaly| anomaly.kind != AnomalyKind::LostUpdate || anomaly.fault == decisive.fault;
    let is_first = decisive.operations.first().copied() == operations.first().map(|first| first.index);
    let of_holders = decisive.kind == AnomalyKind::OverlappingHolders && is_first;
    decisive.fault.filter(|_| of_holders || anomalies.iter().all(|anomaly| explains(anomaly)))
}

impl<'a> Incident<'a> {
    /// The mechanism, if it is certain. A release by an earlier holder explains nothing that had already begun.
    pub fn how(&self) -> Option<&'a How> {
        let how = decisive(&self.anomalies, &self.operations)?.how.as_ref()?;
        let taken =
            self.operations.first().and_then(|first| first.phase(Phase::Acquired)).map_or(u64::MAX, |at| at.index);
        let came_before = how.sentence.lines().first().is_some_and(|line| *line < taken);
        (how.kind != HowKind::Released || came_before).then_some(how)
    }

    pub fn has(&self, kind: AnomalyKind) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.kind == kind)
    }

    /// The operation that overwrote the updates of others.
    pub fn culprit(&self) -> Option<&'a Operation> {
        let lost = self.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::LostUpdate)?;
        let index = lost.operations.last()?;
        self.operations.iter().find(|operation| operation.index == *index).copied()
    }

    /// Groups of operations that the checker found to hold the lock at once: pairs, or more than the permits.
    pub fn overlaps(&self) -> Vec<Vec<&'a Operation>> {
        let find = |index: u64| self.operations.iter().find(|operation| operation.index == index).copied();
        (self.anomalies.iter())
            .filter(|anomaly| anomaly.kind == AnomalyKind::OverlappingHolders)
            .filter(|anomaly| anomaly.operations.len() > 1)
            .filter_map(|anomaly| anomaly.operations.iter().map(|index| find(*index)).collect())
            .collect()
    }

    /// True if the fault hit the client of this operation, rather than a node.
    pub fn fault_hits(&self, story: &Story, operation: &Operation) -> bool {
        self.fault.is_some_and(|fault| fault.hits_process(operation, &story.name(operation.process)))
    }
}

/// The effect of a fault on its target, in a few words for drawings, and true if it lasts.
pub fn fault_label(fault: &FaultWindow) -> (&'static str, bool) {
    let at_call = || CallEffect::ALL.into_iter().find(|what| fault.what.starts_with(what.words()));
    let labelled = fault.kind.is_at_command().then(at_call).flatten().map(CallEffect::label);
    let done = if fault.kind.does.wall_clock { "clock wrong" } else { fault.kind.says.done };
    labelled.unwrap_or((done, fault.kind.says.lasts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::history::FaultKind;

    #[test]
    fn a_picture_says_what_happened_to_a_call() {
        let label = |kind: FaultKind, what: &str| {
            fault_label(&FaultWindow { what: what.to_string(), ..FaultWindow::new(0, kind) })
        };
        assert_eq!(label(FaultKind::Call, "hold reply to 2nd SET client:0 from node:1"), ("reply held", true));
        assert_eq!(label(FaultKind::Call, "hold request any client:0 to node:1"), ("request held", true));
        assert_eq!(label(FaultKind::Call, "reset after write client:0 and nodes"), ("connection reset", false));
        assert_eq!(label(FaultKind::Call, "refuse SET with OOM client:0 to node:1"), ("command refused", false));
        // Histories from other tools, and other kinds.
        assert_eq!(label(FaultKind::Call, "").0, "hit by a fault at a command");
        assert_eq!(label(FaultKind::Pause, "pause holder"), ("paused", true));
        assert_eq!(label(FaultKind::Flush, "flush nodes"), ("flushed", false));
        assert_eq!(label(FaultKind::Clock, "clock node:2 +2ttl"), ("clock wrong", true));
    }
}
