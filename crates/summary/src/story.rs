//! A verdict's anomalies grouped into incidents, and the names of those involved.
//!
//! One late write often shows up several times: as an overlap of two holders, and as each update that it wiped out. A
//! reader wants to read about it once, so anomalies around the same overwriting operation become one [`Incident`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

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

/// What a run is told from, indexed.
pub struct Story<'a> {
    pub subject: Subject<'a>,
    /// By key: writes that are known to have taken effect, ordered by when they did.
    writes: HashMap<&'a str, Vec<(u64, &'a Operation)>>,
    certain: HashMap<&'a str, CertainWrites<'a>>,
    /// The updates that any anomaly calls lost, as indices of their `invoke` events.
    lost: HashSet<u64>,
    /// Those that lost updates first, then those that break a claim, each group ordered by time.
    pub incidents: Vec<Incident<'a>>,
    /// What became of the lock's keys; none if the nodes' commands are not known.
    pub(super) lives: Option<Lives<'a>>,
}

/// The writes of a key whose places in time are certain, in the order in which they were sent.
struct CertainWrites<'a> {
    writes: Vec<CertainWrite<'a>>,
    /// From when on another one may have been made as well.
    doubtful_from: u64,
}

struct CertainWrite<'a> {
    sent: u64,
    acknowledged: u64,
    /// When this and all before it were acknowledged.
    all_acknowledged: u64,
    operation: &'a Operation,
}

/// One thing that happened, with every anomaly that it shows up as.
pub struct Incident<'a> {
    pub key: &'a str,
    /// When it became visible.
    pub time: u64,
    pub anomalies: Vec<&'a Anomaly>,
    /// The operations involved, in the order in which they acquired the lock.
    pub operations: Vec<&'a Operation>,
    /// The acknowledged updates among them that did not survive.
    pub lost: Vec<u64>,
    pub fault: Option<&'a FaultWindow>,
    /// Whether it contradicts a property that the workload claims.
    pub claimed: bool,
}

/// How a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimStatus {
    /// Nothing contradicts it, though something in the run could have.
    Held,
    /// Contradicted, and the workload claims it.
    Broken,
    /// Contradicted, but the workload does not claim it.
    Unclaimed,
    /// The run proves nothing about it.
    Unproven,
    /// It is about what did not come up in the run ([`ClaimDef::conditional`](checker::properties::ClaimDef)).
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

    /// Reads what the lock's nodes carried out.
    pub fn follow(&mut self, commands: &'a [RecordedCommand]) {
        self.lives = Some(Lives::of(self.subject.history, commands));
    }

    /// When the lock of an operation expired, by what it was told up to a moment, and the line that says so: as its nodes had it,
    /// where that is known, or else by its own count.
    pub fn expiry_at(&self, operation: &Operation, moment: u64) -> Option<(u64, u64)> {
        let counted = || times::expiry_at(operation, moment).map(|(until, stamp)| (until, stamp.index));
        match self.lives.as_ref().and_then(|lives| lives.expiry(operation.index)) {
            Some(expired) => expired.zip(operation.phase(Phase::Acquired).map(|stamp| stamp.index)),
            None => counted(),
        }
    }

    /// When the lock of an operation expired while its client still held it.
    pub fn expiry(&self, operation: &Operation) -> Option<u64> {
        let hold = times::hold(operation)?;
        self.expiry_at(operation, hold.end).map(|(until, _)| until).filter(|until| *until < hold.end)
    }

    /// Whether clients wrote and none of them ever asked for a lock, so that locks need no mention.
    pub fn is_unlocked(&self) -> bool {
        let mut operations = self.subject.history.operations.iter();
        operations.clone().any(|operation| operation.f.writes()) && operations.all(|operation| !operation.f.is_locked())
    }

    /// Whether the run was simulated.
    pub fn is_simulated(&self) -> bool {
        self.subject.history.is_simulated()
    }

    pub fn operation(&self, index: u64) -> Option<&'a Operation> {
        let history = self.subject.history;
        history.place_of(index).map(|place| &history.operations[place])
    }

    /// The writes of a key that took effect between two moments, both included.
    pub fn writes(&self, key: &str, from: u64, to: u64) -> &[(u64, &'a Operation)] {
        let of_key = self.writes.get(key).map_or(&[][..], Vec::as_slice);
        let start = of_key.partition_point(|(time, _)| *time < from);
        let end = of_key.partition_point(|(time, _)| *time <= to);
        &of_key[start..end.max(start)]
    }

    /// The write that an operation overwrote, as far as the reported writes tell.
    pub fn overwritten(&self, operation: &Operation) -> Option<&'a Operation> {
        let time = times::effect(operation)?;
        let earlier = self.writes(&operation.key, 0, time);
        earlier.iter().rev().find(|(_, other)| other.index != operation.index).map(|(_, last)| *last)
    }

    /// The write that an operation certainly overwrote: acknowledged before the operation wrote, though not before it read,
    /// and no other write may have come in between or last.
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

    /// The name of the client behind a process: `c3`; `process 3` where the number of clients is unknown.
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

    /// Whether any anomaly calls this operation's update lost.
    pub fn is_lost(&self, operation: &Operation) -> bool {
        self.lost.contains(&operation.index)
    }

    /// Whether some clients take the lock for reading, beside each other.
    pub fn has_readers(&self) -> bool {
        self.subject.history.has_readers()
    }

    /// How many clients may hold a lock at once.
    pub fn permits(&self) -> u32 {
        self.subject.history.permits()
    }

    /// The lock's time to live, in nanoseconds, if it has one.
    pub fn ttl_ns(&self) -> Option<u64> {
        let run = self.subject.history.run.as_ref();
        if run.is_some_and(|run| !run.expires) {
            return None;
        }
        let header = run.map(|run| run.ttl_ms.saturating_mul(1_000_000));
        let scenario = self.subject.scenario.map(|scenario| nanos(scenario.ttl));
        header.or(scenario).filter(|ttl| *ttl > 0)
    }

    /// What the sentences call the lock.
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

    /// The lock client's name and version, as it reported them; empty if it reported none.
    pub fn client(&self) -> &'a str {
        let mut ready = self.subject.history.clients.iter().filter(|(_, event)| event.step == ClientStep::Ready);
        ready.next().map_or("", |(_, event)| &event.text)
    }

    /// The name and version of a client that is not ours, as it reported them.
    fn own_client(&self) -> Option<&'a str> {
        let is_ours = |name: &str| name.is_empty() || name.starts_with("redjepsen ");
        Some(self.client()).filter(|name| !is_ours(name))
    }

    /// The outcome of a claim; None if the workload does not make it and the history does not bear on it.
    pub fn claim(&self, claim: Claim) -> Option<&'a ClaimVerdict> {
        self.subject.verdict.claim(claim)
    }

    /// Whether `claim` decides the workload's verdict.
    pub fn claims(&self, claim: Claim) -> bool {
        self.claim(claim).is_some_and(|verdict| verdict.claimed)
    }

    /// Whether an anomaly of this kind breaks what the workload claims.
    pub fn breaks(&self, kind: AnomalyKind) -> bool {
        kind.contradicts().is_some_and(|claim| self.claims(claim))
    }

    /// How the resource guards itself, if it does, so that an overlap does no harm.
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

    /// Why two holders at once did no harm, if that is all that an incident is, and the resource guards itself.
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

    /// What the lock protects, if the run says so.
    pub fn resource(&self) -> Option<ResourceKind> {
        self.subject.history.run.as_ref().map(|run| run.resource)
    }

    /// What the run was expected to show, according to the user, or else to the author of the workload or nemesis.
    pub fn expectation(&self) -> Option<Expectation> {
        let scenario = self.subject.scenario?;
        let of_workload = scenario.workload.expect.get(&scenario.nemesis_name);
        scenario.expect.or_else(|| of_workload.or(scenario.nemesis.expect.get(&scenario.workload_name)).copied())
    }

    /// Whether the checker found anything of this kind.
    pub fn has(&self, kind: AnomalyKind) -> bool {
        self.subject.verdict.has(kind)
    }

    /// What was seen of a claim.
    pub fn seen(&self, claim: Claim) -> Seen<'a> {
        Seen::new(self.subject.history, self.subject.verdict, claim)
    }

    /// How many contradictions of `claim` were seen.
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

    /// Operations of clients; the controller's own operations are not load.
    pub fn client_operations(&self) -> impl Iterator<Item = &'a Operation> + use<'a> {
        self.subject.history.operations.iter().filter(|operation| operation.process != Process::Controller)
    }

    /// Client reads that returned a value.
    pub fn acknowledged_reads(&self) -> u64 {
        self.client_operations().filter(|one| (one.f, one.outcome) == (Function::Read, Outcome::Ok)).count() as u64
    }

    /// From the first to the last event of a client, in seconds.
    pub fn busy_seconds(&self) -> f64 {
        let first = self.client_operations().map(|operation| operation.invoked).min().unwrap_or(0);
        let last = self.client_operations().filter_map(|operation| operation.completed).max().unwrap_or(first);
        last.saturating_sub(first) as f64 / 1e9
    }

    fn group(&self) -> Vec<Incident<'a>> {
        let anomalies = &self.subject.verdict.anomalies;
        let mut groups: Vec<Vec<&'a Anomaly>> = Vec::new();
        // The group in which an operation overwrote something, and the groups that it takes part in.
        let mut by_culprit: HashMap<u64, usize> = HashMap::new();
        let mut by_member: HashMap<u64, Vec<usize>> = HashMap::new();
        let (updates, overlaps): (Vec<_>, Vec<_>) =
            anomalies.iter().partition(|anomaly| anomaly.kind != AnomalyKind::OverlappingHolders);
        for anomaly in updates.into_iter().chain(overlaps) {
            // The operation that the incident is about: it overwrote something, or held too long.
            let culprit = match anomaly.kind {
                AnomalyKind::LostUpdate => anomaly.operations.last(),
                AnomalyKind::OverlappingHolders => anomaly.operations.first(),
                _ => None,
            };
            let of_all = |place: &&usize| {
                anomaly.operations.iter().all(|index| by_member.get(index).is_some_and(|of| of.contains(place)))
            };
            let shared = anomaly.operations.first().and_then(|first| by_member.get(first)?.iter().find(of_all));
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
                let of = by_member.entry(*index).or_default();
                if !of.contains(&place) {
                    of.push(place);
                }
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
        let fault = decisive(&anomalies, &operations).and_then(|anomaly| anomaly.fault);
        Incident {
            key: anomalies.first().map_or("", |anomaly| &anomaly.key),
            time: anomalies.iter().map(|anomaly| anomaly.time).min().unwrap_or(0),
            claimed: anomalies.iter().any(|anomaly| self.breaks(anomaly.kind)),
            fault: fault.and_then(|number| self.subject.history.faults.iter().find(|window| window.fault == number)),
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

/// The anomaly that says why: two holders at once come before what they did to the data, and those that the story begins with
/// before others.
fn decisive<'a>(anomalies: &[&'a Anomaly], operations: &[&Operation]) -> Option<&'a Anomaly> {
    let overlaps = || anomalies.iter().filter(|anomaly| anomaly.kind == AnomalyKind::OverlappingHolders);
    let first = operations.first().map(|operation| operation.index);
    let of_first = overlaps().find(|anomaly| anomaly.operations.first().copied() == first);
    let explained = || anomalies.iter().find(|anomaly| anomaly.fault.is_some() || anomaly.how.is_some());
    of_first.or_else(|| overlaps().next()).or_else(explained).copied()
}

impl<'a> Incident<'a> {
    /// How it came about, if that is certain. A release of somebody who had the lock before explains nothing that had begun by then.
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

    /// The operation that overwrote what others had written.
    pub fn culprit(&self) -> Option<&'a Operation> {
        let lost = self.anomalies.iter().find(|anomaly| anomaly.kind == AnomalyKind::LostUpdate)?;
        let index = lost.operations.last()?;
        self.operations.iter().find(|operation| operation.index == *index).copied()
    }

    /// Operations that the checker found to hold the lock at once: pairs, or more than may.
    pub fn overlaps(&self) -> Vec<Vec<&'a Operation>> {
        let find = |index: u64| self.operations.iter().find(|operation| operation.index == index).copied();
        (self.anomalies.iter())
            .filter(|anomaly| anomaly.kind == AnomalyKind::OverlappingHolders)
            .filter(|anomaly| anomaly.operations.len() > 1)
            .filter_map(|anomaly| anomaly.operations.iter().map(|index| find(*index)).collect())
            .collect()
    }

    /// Whether the fault hit this client, rather than a node.
    pub fn fault_hits(&self, name: &str) -> bool {
        self.fault.is_some_and(|fault| fault.targets.iter().any(|target| target == name))
    }
}

/// What a fault does to its target, as a picture says it in a few words, and whether it lasts.
pub fn fault_label(fault: &FaultWindow) -> (&'static str, bool) {
    let at_call = || CallEffect::ALL.into_iter().find(|what| fault.what.starts_with(what.words()));
    let labelled = fault.kind.is_at_command().then(at_call).flatten().map(CallEffect::label);
    labelled.unwrap_or((fault.kind.says.done, fault.kind.says.lasts))
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
        // Histories from elsewhere, and other kinds.
        assert_eq!(label(FaultKind::Call, "").0, "interrupted while a command was on its way");
        assert_eq!(label(FaultKind::Pause, "pause holder"), ("paused", true));
        assert_eq!(label(FaultKind::Flush, "flush nodes"), ("flushed", false));
    }
}
