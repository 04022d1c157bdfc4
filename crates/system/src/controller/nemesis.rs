//! Injects and heals faults, and records the orders and the observations.
//!
//! Recurring faults come at their planned times. Faults of one series follow each other; several series run side by side. When
//! the run stops, all faults in effect are healed at once. A script's faults come when the script says so ([`super::script`]).
//!
//! Injecting a fault at a command only arms it. The injection is recorded once the fault fires. If it is healed before it fires,
//! it is recorded as not observed. A recurring fault then counts as skipped.
//!
//! A fault is noted from before its order until its heal is answered. So if the run ends or breaks off in between, the fault is
//! healed and recorded like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::mem;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use super::{Run, RunError};
use crate::faults::{AgentError, Injection, Observation, Parameter, RedisCommand, RedisReply, Skew, Struck};
use base::members::{client_name, node_name, sentinel_name};
use base::sync::lock;
use base::units::{millis, nanos};
use model::fault_kinds::{Form, RulesOut, Takes};
use model::history::{Body, FaultKind, FaultStep, NemesisEvent, Promotion, ResourceKind};
use model::nemesis::{Argument, ClockChange, Fault, LinkSelector, Target, TargetSpec, Targets};
use model::plan::quiet;
use model::topology::NamedServer;

/// Time limit for a node to say whether it has a key.
const ASK_LIMIT: Duration = Duration::from_millis(500);
/// The key that a script uses. If there is only one key, every fault uses it.
pub(super) const FIRST_KEY: &str = "k0";
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// How often to check whether faults at commands have fired.
const LOOK_FOR_STRIKES: Duration = Duration::from_millis(5);
/// How often to ask for the current primary.
const LOOK_FOR_PROMOTIONS: Duration = Duration::from_millis(20);
/// How long a killed client may take to be ready again. An idle client is not missed before its next operation.
pub(super) const REPLACED_LIMIT: Duration = Duration::from_secs(10);

/// The members and the key that a fault refers to when it begins.
struct TargetContext {
    /// The client that holds the lock, if the fault names the holder.
    holder: Option<u32>,
    /// The key whose voter, primary or replica the fault targets.
    key: String,
}

/// A fault that was ordered and is not known to be healed.
#[derive(Clone, Debug)]
pub(super) struct InEffect {
    pub(super) fault: u32,
    kind: FaultKind,
    pub(super) what: Fault,
    ordered: Instant,
    /// The affected links, each from sender to receiver; None if the fault is not on links.
    links: Option<Vec<(String, String)>>,
    pub(super) members: Vec<String>,
    /// The clients among the members, each with the number of its replacements before the fault.
    clients: Vec<(u32, u64)>,
    /// True if the fault still waits for its command.
    armed: bool,
    observed: bool,
    /// The last recorded step of the fault.
    step: FaultStep,
    /// The request to the client; None if a client does not carry out the fault itself.
    by_client: Option<Injection>,
}

impl InEffect {
    /// True if the fault ended the process of a client that has been replaced this many times.
    fn has_killed(&self, client: u32, replaced: u64) -> bool {
        self.kind.ends_processes() && !self.kind.is_at_command() && self.clients.contains(&(client, replaced))
    }
}

pub(super) type FaultsInEffect = Mutex<BTreeMap<u32, InEffect>>;

impl Run<'_> {
    /// Carries out one series of recurring faults until the run stops.
    pub(super) async fn inject_series(&self, series: usize, began: Instant) -> Result<(), RunError> {
        let late = tokio::select! {
            biased;
            () = self.stop.raised() => return Ok(()),
            late = self.late_start(began) => late,
        };
        for planned in self.plan.faults.iter().filter(|planned| planned.series == series) {
            let at = began + late + Duration::from_millis(planned.at_ms);
            let over = at + Duration::from_millis(planned.lasts_ms) + quiet(self.scenario);
            if !late.is_zero() && over > began + self.scenario.time_limit {
                let reason = format!("the first update was acknowledged {} ms late", millis(late));
                self.skip(planned.fault, &planned.what, &reason)?;
                continue;
            }
            tokio::select! {
                biased;
                () = self.stop.raised() => return Ok(()),
                () = sleep_until(at) => {}
            }
            let lasts = Duration::from_millis(planned.lasts_ms);
            if planned.what.kind.is_a_hook() && at.elapsed() > lasts {
                self.skip(planned.fault, &planned.what, "the fault before it took longer than planned")?;
                continue;
            }
            let injection = tokio::select! {
                biased;
                () = self.stop.raised() => return self.skip(planned.fault, &planned.what, "the run ended"),
                injection = self.injection(&planned.what, planned.key.as_deref()) => injection,
                // Any later, the fault would reach into the quiet time or the next fault.
                () = sleep_until(at + lasts) => {
                    self.skip(planned.fault, &planned.what, "no target was in the right state")?;
                    continue;
                }
            };
            if let Some(member) = self.down_among(&injection) {
                self.skip(planned.fault, &planned.what, &format!("{member} was down"))?;
                continue;
            }
            self.inject(planned.fault, &planned.what, injection).await?;
            tokio::select! {
                biased;
                () = self.stop.raised() => {}
                () = sleep(lasts) => {}
            }
            self.heal(planned.fault).await?;
        }
        Ok(())
    }

    /// How long the run's faults are postponed because clients began later than the plan expects: a cold runtime may take seconds
    /// for its first lock. Waits until an update was acknowledged.
    ///
    /// Faults from other sources than the nemesis were placed at fixed times of this very run (`crates/labs/src/risk`). They are
    /// not postponed.
    async fn late_start(&self, began: Instant) -> Duration {
        if self.scenario.nemesis.faults.is_empty() {
            return Duration::ZERO;
        }
        let first = self.board.first_acknowledged().await;
        first.saturating_duration_since(began).saturating_sub(quiet(self.scenario) / 2)
    }

    /// The fault with the names of its current targets. If the targets depend on the state of the run, waits for this state,
    /// possibly forever. `key` is the key that the plan drew for the fault.
    pub(super) async fn injection(&self, what: &Fault, key: Option<&str>) -> Injection {
        let now = &match what.names(|target| target == Target::Holder) {
            true => {
                let holder = self.board.fresh_holder().await;
                TargetContext { holder: Some(holder), key: self.board.key_of(holder) }
            }
            false => TargetContext { holder: None, key: key.unwrap_or(FIRST_KEY).to_string() },
        };
        if what.kind.phrase.form == Form::Members(Takes::Promotion) {
            return self.promotion(what.kind, &now.key).await;
        }
        let injection = match &what.whom {
            TargetSpec::Members(who) => Injection::on_members(what.kind, self.members(who, now).await),
            TargetSpec::Links(parts) => {
                let mut links = Vec::new();
                for part in parts {
                    links.extend(self.links(part, now).await);
                }
                Injection::on_links(what.kind, links)
            }
            // The plan has already turned shapes into sides.
            TargetSpec::Shape(..) => Injection::on_links(what.kind, Vec::new()),
        };
        injection.with(self.parameter(&what.with))
    }

    /// The fault's further argument, in numbers.
    fn parameter(&self, with: &Argument) -> Parameter {
        match with {
            Argument::None | Argument::Nodes(_) | Argument::Server(_) | Argument::Hook(_) => Parameter::None,
            Argument::Percent(percent) => Parameter::Percent(*percent),
            Argument::Length(by) => {
                let (low, high) = (by.low.resolve(self.scenario.ttl), by.high.resolve(self.scenario.ttl));
                let jitter = high.saturating_sub(low) / 2;
                Parameter::Length { ms: millis(low + jitter), jitter_ms: millis(jitter) }
            }
            Argument::For(length) => Parameter::Length { ms: millis(length.resolve(self.scenario.ttl)), jitter_ms: 0 },
            Argument::Clock(change) => Parameter::Skew(self.skew(*change)),
            Argument::Command(what) => {
                Parameter::Command(what.clone().with_key_prefix(&self.cluster.named_for_clients("")))
            }
        }
    }

    fn skew(&self, change: ClockChange) -> Skew {
        let signed = |length: base::units::Length| i64::try_from(millis(length.resolve(self.scenario.ttl)));
        let signed = |length| signed(length).unwrap_or(i64::MAX);
        match change {
            ClockChange::Ahead(by) => Skew::Jump { ms: signed(by) },
            ClockChange::Behind(by) => Skew::Jump { ms: -signed(by) },
            ClockChange::Rate(factor) => Skew::Rate { factor },
            ClockChange::Strobe(by, every) => {
                let period = every.resolve(self.scenario.ttl).as_micros();
                Skew::Strobe { ms: signed(by), period_us: u64::try_from(period).unwrap_or(u64::MAX) }
            }
        }
    }

    /// The selected links, each once.
    async fn links(&self, between: &LinkSelector, now: &TargetContext) -> Vec<(String, String)> {
        let (one, other) = (self.members(&between.one, now).await, self.members(&between.other, now).await);
        let mut links = Vec::new();
        for from in &one {
            for to in other.iter().filter(|to| *to != from) {
                links.push((from.clone(), to.clone()));
                if between.both_ways {
                    links.push((to.clone(), from.clone()));
                }
            }
        }
        links.sort();
        links.dedup();
        links
    }

    async fn members(&self, who: &Targets, now: &TargetContext) -> Vec<String> {
        let mut names = Vec::new();
        for target in &who.0 {
            match target {
                Target::Holder => names.extend(now.holder.map(|holder| self.process_of(holder))),
                Target::Client(number) => names.push(self.process_of(*number)),
                Target::Clients => {
                    names.extend((0..self.scenario.clients).step_by(self.scenario.threads as usize).map(client_name));
                }
                Target::Node(number) => names.push(node_name(*number)),
                Target::Nodes => names.extend((0..self.scenario.nodes).map(node_name)),
                Target::Voter => names.push(self.voter(&now.key).await),
                Target::Primary => names.push(self.primary(&now.key).await),
                Target::Replica => names.push(self.replica(&now.key).await),
                Target::Sentinels => names.extend((0..self.scenario.workload.topology.sentinels()).map(sentinel_name)),
                Target::Resource => names.extend(self.cluster.resource().map(|store| store.name.clone())),
                // The plan has already drawn these targets.
                Target::AnyClient | Target::AnyNode | Target::Minority | Target::Majority => {}
            }
        }
        // Several clients may be threads of one process.
        let mut known = BTreeSet::new();
        names.retain(|name| known.insert(name.clone()));
        names
    }

    /// The name of a client's process: the name of the first client that is a thread of it.
    fn process_of(&self, client: u32) -> String {
        client_name(client - client % self.scenario.threads)
    }

    /// The clients that are threads of this member; empty if the member is not a client.
    pub(super) fn threads_of(&self, member: &str) -> impl Iterator<Item = u32> {
        (0..self.scenario.clients).filter(move |client| self.process_of(*client) == member)
    }

    /// The member's names in the history: the names of the clients that are its threads, or its own.
    pub(super) fn as_recorded(&self, member: &str) -> Vec<String> {
        let threads: Vec<String> = self.threads_of(member).map(client_name).collect();
        if threads.is_empty() { vec![member.to_string()] } else { threads }
    }

    /// The links with their members' names in the history.
    fn links_as_recorded(&self, links: &[(String, String)]) -> Vec<(String, String)> {
        let each = |(from, to): &(String, String)| {
            let to = self.as_recorded(to);
            let of = move |from: String| to.clone().into_iter().map(move |to| (from.clone(), to));
            self.as_recorded(from).into_iter().flat_map(of).collect::<Vec<_>>()
        };
        links.iter().flat_map(each).collect()
    }

    /// The name of the key on the nodes: the lock's key, or the resource's own key if there is no lock.
    pub(super) fn on_the_nodes(&self, key: &str) -> String {
        let key = &self.cluster.named_for_clients(key);
        match self.scenario.workload.resource.kind {
            ResourceKind::Replicated => key.clone(),
            _ => crate::client::lock_key(key),
        }
    }

    /// The primary of a key. Waits until the key has one.
    pub(super) async fn primary(&self, key: &str) -> String {
        until_some(async || self.cluster.primary_of(&self.on_the_nodes(key)).await).await
    }

    /// The primary of a key, and the command that makes a replica take over. Waits until a server can carry it out.
    async fn promotion(&self, kind: FaultKind, key: &str) -> Injection {
        until_some(async || {
            let primary = self.primary(key).await;
            let order = self.cluster.failover_of(&primary).await?;
            Some(Injection::on_members(kind, vec![primary]).with(Parameter::Promotion(order)))
        })
        .await
    }

    /// The replica that would take over from the key's primary. Waits until there is one.
    async fn replica(&self, key: &str) -> String {
        until_some(async || self.cluster.replicas_of(&self.primary(key).await).await.into_iter().next()).await
    }

    /// A node that has the key of a lock. Waits until there is one.
    async fn voter(&self, key: &str) -> String {
        let lock_key = &crate::client::lock_key(&self.cluster.named_for_clients(key));
        until_some(async || {
            let asked = (0..).zip(self.cluster.node_urls()).map(async |(number, url)| {
                let exists = RedisCommand::Exists(lock_key.clone());
                let reply = self.cluster.agent.redis(&url, exists, ASK_LIMIT).await;
                matches!(reply, Ok(RedisReply::Count(1))).then(|| node_name(number))
            });
            join_all(asked).await.into_iter().flatten().next()
        })
        .await
    }

    /// Injects a fault and records what was observed. If the run is cut off, the heal records the rest.
    pub(super) async fn inject(&self, fault: u32, what: &Fault, injection: Injection) -> Result<(), RunError> {
        let members = injection.affected();
        let clients = members.iter().flat_map(|member| self.threads_of(member));
        let clients = clients.map(|client| (client, self.board.replaced(client))).collect();
        let in_effect = InEffect {
            fault,
            kind: injection.kind,
            what: what.clone(),
            ordered: Instant::now(),
            links: (!injection.links.is_empty()).then(|| injection.links.clone()),
            members,
            clients,
            armed: false,
            observed: false,
            step: FaultStep::Inject,
            by_client: injection.kind.needs.by_client.then(|| injection.clone()),
        };
        lock(&self.in_effect).insert(fault, in_effect.clone());
        self.record(&in_effect, FaultStep::Inject, false, what.to_string())?;
        self.status.send_modify(|status| status.faults.push((fault, what.to_string())));
        if injection.kind.needs.by_client {
            return self.inject_by_client(&in_effect, &injection).await;
        }
        if injection.kind.gives_a_list() {
            let (observed, text) = tokio::select! {
                biased;
                seen = self.restart_with_lists(&in_effect, false) => (seen.is_ok(), seen.unwrap_or_else(|reason| reason)),
                () = self.cut_off.raised() => return Ok(()),
            };
            return self.record_seen(&in_effect, FaultStep::Injected, Ok(Observation::of(observed, text)));
        }
        let begun = async {
            match injection.kind.is_a_hook() {
                true => Ok(self.begin_hook(fault, what).await),
                false => self.cluster.agent.inject(fault, &injection).await,
            }
        };
        let seen = tokio::select! {
            biased;
            seen = begun => seen,
            () = self.cut_off.raised() => return Ok(()),
        };
        let seen = match (&what.with, seen) {
            (Argument::Server(server), Ok(ended)) if ended.observed => Ok(self.start_as(&in_effect, server).await),
            (_, seen) => seen,
        };
        if injection.kind.is_at_command() && seen.as_ref().is_ok_and(|seen| seen.observed) {
            info!(fault, %what, "armed");
            if let Some(one) = lock(&self.in_effect).get_mut(&fault) {
                one.armed = true;
            }
            return Ok(());
        }
        self.record_seen(&in_effect, FaultStep::Injected, seen)
    }

    /// Injects a fault that a client carries out itself. If the client carries it out, its message is recorded.
    async fn inject_by_client(&self, in_effect: &InEffect, injection: &Injection) -> Result<(), RunError> {
        let begun = tokio::select! {
            biased;
            begun = self.block(in_effect, injection) => begun,
            () = self.cut_off.raised() => return Ok(()),
        };
        match begun {
            Ok(()) => {
                if let Some(one) = lock(&self.in_effect).get_mut(&in_effect.fault) {
                    (one.step, one.observed) = (FaultStep::Injected, true);
                }
                Ok(())
            }
            Err(text) => self.record(in_effect, FaultStep::Injected, false, text),
        }
    }

    /// Waits until a fault that a client carries out itself is over. Returns whether the client's message about it was recorded.
    async fn is_over_by_client(&self, fault: u32) -> bool {
        let by_client =
            lock(&self.in_effect).get(&fault).filter(|one| one.observed).and_then(|one| one.by_client.clone());
        let Some(injection) = by_client else { return false };
        let over = self.until_unblocked(&injection).await;
        if let Err(reason) = &over {
            warn!(fault, reason);
            return false;
        }
        self.no_longer_in_effect(fault);
        true
    }

    fn no_longer_in_effect(&self, fault: u32) {
        lock(&self.in_effect).remove(&fault);
        self.status.send_modify(|status| status.faults.retain(|(one, _)| *one != fault));
    }

    /// Records each fault at a command that has fired, with the members it hit. Never returns.
    pub(super) async fn watch_for_strikes(&self) -> Result<Infallible, RunError> {
        loop {
            let in_effect = lock(&self.in_effect).clone();
            for one in in_effect.into_values().filter(|one| one.kind.is_at_command()) {
                if let Ok(struck) = self.cluster.agent.strike(one.fault, false).await
                    && !struck.members.is_empty()
                {
                    self.record_strike(one.fault, Ok(struck))?;
                }
            }
            sleep(LOOK_FOR_STRIKES).await;
        }
    }

    /// Records each time that another node has become the primary of a key. Waits forever if nodes have no roles. Never returns.
    pub(super) async fn watch_for_promotions(&self) -> Result<Infallible, RunError> {
        if !self.scenario.workload.topology.has_roles() {
            return std::future::pending().await;
        }
        // The primary of each key, and when it was last seen as primary.
        let mut known: BTreeMap<String, (String, u64)> = BTreeMap::new();
        loop {
            for key in (0..self.scenario.keys).map(|number| format!("k{number}")) {
                // An answer describes a moment after its request and before its arrival.
                let asked = nanos(self.recorder.start().elapsed());
                let Some(node) = self.cluster.primary_of(&self.on_the_nodes(&key)).await else { continue };
                if let Some((instead_of, after_ns)) = known.insert(key.clone(), (node.clone(), asked))
                    && instead_of != node
                {
                    self.recorder.append(Body::Promotion(Promotion { key, node, instead_of, after_ns }))?;
                }
            }
            sleep(LOOK_FOR_PROMOTIONS).await;
        }
    }

    pub(super) fn is_armed(&self, fault: u32) -> bool {
        lock(&self.in_effect).get(&fault).is_some_and(|one| one.armed)
    }

    pub(super) fn has_effect(&self, fault: u32) -> bool {
        lock(&self.in_effect).get(&fault).is_some_and(|one| one.observed)
    }

    /// Notes the members that a fault at a command has hit, and records whether it has fired, unless this was done before.
    fn record_strike(&self, fault: u32, struck: Result<Struck, AgentError>) -> Result<(), RunError> {
        let noted = lock(&self.in_effect).get_mut(&fault).map(|one| {
            if let Ok(Struck { members, .. }) = &struck
                && !members.is_empty()
            {
                one.members.clone_from(members);
            }
            (mem::take(&mut one.armed), one.clone())
        });
        let Some((true, in_effect)) = noted else { return Ok(()) };
        let (observed, text) = match struck {
            Ok(Struck { members, text }) => (!members.is_empty(), self.cluster.as_in_the_history(text)),
            Err(error) => (false, error.to_string()),
        };
        info!(fault, observed, %text);
        self.record(&in_effect, FaultStep::Injected, observed, text)
    }

    /// Makes sure that a fault at a command does not fire any more, and records whether it has fired. Returns the reason if the
    /// fault counts as skipped.
    async fn disarm(&self, fault: u32) -> Result<Option<String>, RunError> {
        let at_command = lock(&self.in_effect).get(&fault).is_some_and(|one| one.kind.is_at_command());
        if !at_command {
            return Ok(None);
        }
        let struck = self.cluster.agent.strike(fault, true).await;
        let recurs = self.plan.script.is_empty() && self.is_armed(fault);
        let never = struck.as_ref().ok().filter(|struck| recurs && struck.members.is_empty());
        let never = never.map(|struck| self.cluster.as_in_the_history(struck.text.clone()));
        self.record_strike(fault, struck)?;
        Ok(never)
    }

    /// Heals a fault, if it is in effect, and records what was observed.
    pub(super) async fn heal(&self, fault: u32) -> Result<(), RunError> {
        if self.is_over_by_client(fault).await {
            return Ok(());
        }
        let never = self.disarm(fault).await?;
        let Some(in_effect) = self.begin_heal(fault)? else { return Ok(()) };
        let restarted = match in_effect.kind {
            kind if kind.ends_processes() => self.start_again(&in_effect).await,
            kind if kind.gives_a_list() => self.restart_with_lists(&in_effect, true).await.map(|_| ()),
            kind if kind.does.restarts => self.start_as_before(&in_effect).await,
            _ => Ok(()),
        };
        self.end_heal(&in_effect, restarted, never).await
    }

    /// Heals every fault in effect, the latest first.
    pub(super) async fn heal_each(&self) -> Result<(), RunError> {
        for fault in self.faults_in_effect() {
            self.heal(fault).await?;
        }
        Ok(())
    }

    fn faults_in_effect(&self) -> Vec<u32> {
        lock(&self.in_effect).keys().rev().copied().collect()
    }

    /// Records that a fault is about to be healed. If its injection was cut off, first records how far it came.
    fn begin_heal(&self, fault: u32) -> Result<Option<InEffect>, RunError> {
        let Some(in_effect) = lock(&self.in_effect).get(&fault).cloned() else { return Ok(None) };
        if in_effect.step == FaultStep::Inject {
            let text = "the run ended before its effect was observed".to_string();
            self.record(&in_effect, FaultStep::Injected, false, text)?;
        }
        if in_effect.step != FaultStep::Heal {
            self.record(&in_effect, FaultStep::Heal, false, String::new())?;
        }
        Ok(Some(in_effect))
    }

    /// Undoes a fault and records what was observed. If `never` gives a reason why the fault never fired, the fault counts as
    /// skipped.
    async fn end_heal(
        &self,
        in_effect: &InEffect,
        restarted: Result<(), String>,
        never: Option<String>,
    ) -> Result<(), RunError> {
        let mut seen = match &in_effect.by_client {
            // The controller has restarted the clients by now.
            None if in_effect.kind.gives_a_list() => {
                let back = format!("{}: ready with the earlier list of nodes", in_effect.members.join(", "));
                Ok(Observation::of(true, back))
            }
            None if in_effect.kind.is_a_hook() => Ok(self.undo_hook(in_effect).await),
            None => self.cluster.agent.heal(in_effect.fault).await,
            Some(injection) => {
                self.give_up_block(injection);
                let text = "the client did not report that its event loop goes on".to_string();
                Ok(Observation { text, ..Observation::default() })
            }
        };
        if let (Err(reason), Ok(seen)) = (restarted, &mut seen) {
            seen.observed = false;
            seen.text = reason;
        }
        self.no_longer_in_effect(in_effect.fault);
        let healed = seen.as_ref().is_ok_and(|seen| seen.observed);
        self.record_seen(in_effect, FaultStep::Healed, seen)?;
        match never.filter(|_| healed) {
            Some(reason) => self.record(in_effect, FaultStep::Skipped, false, reason),
            None => Ok(()),
        }
    }

    /// A member that this fault needs alive, but that another fault has killed and that was not restarted.
    fn down_among(&self, injection: &Injection) -> Option<String> {
        if !injection.kind.needs.process {
            return None;
        }
        let in_effect = lock(&self.in_effect);
        let is_down = |member: &String| {
            let mut down = in_effect.values().filter(|fault| fault.kind.ends_processes());
            down.any(|fault| match fault.clients.iter().find(|(client, _)| client_name(*client) == *member) {
                Some((client, before)) => self.board.replaced(*client) == *before,
                None => fault.members.contains(member),
            })
        };
        injection.affected().into_iter().find(is_down)
    }

    /// True if a fault in effect killed a client's process, and the client has not been replaced since.
    pub(super) fn is_killed(&self, client: u32) -> bool {
        let replaced = self.board.replaced(client);
        lock(&self.in_effect).values().any(|fault| fault.has_killed(client, replaced))
    }

    /// Restarts killed servers. The task that waits for a killed client's answer replaces the client, so this function
    /// only waits for that replacement.
    async fn start_again(&self, in_effect: &InEffect) -> Result<(), String> {
        let servers: Vec<String> = (0..self.scenario.nodes).map(node_name).collect();
        let killed = in_effect.members.iter().filter(|member| servers.contains(member));
        let started = join_all(killed.map(|member| self.cluster.restart_server(member))).await;
        started.into_iter().collect::<Result<(), _>>().map_err(|error| error.to_string())?;
        for (client, before) in &in_effect.clients {
            let replaced = self.board.until(*client, |standing| (standing.replaced > *before).then_some(()));
            if timeout(REPLACED_LIMIT, replaced).await.is_err() {
                return Err(format!("{} has not been replaced", client_name(*client)));
            }
        }
        Ok(())
    }

    /// Starts nodes that have ended as this server, and asks each for its name and version.
    async fn start_as(&self, fault: &InEffect, server: &NamedServer) -> Observation {
        let started = fault.members.iter().map(async |member| {
            let started = self.cluster.restart_server_as(member, Some(server)).await;
            started.map_err(|error| format!("{member} did not start as {server}: {error}"))?;
            let url =
                self.cluster.members().find(|one| one.name == *member).and_then(|one| one.url()).unwrap_or_default();
            match self.cluster.agent.redis(&url, RedisCommand::Version, ASK_LIMIT).await {
                Ok(RedisReply::Version(now)) => match now.split_once(' ') {
                    Some((name, version)) if server.means(name, version) => Ok(format!("{member} is {now} now")),
                    _ => Err(format!("{member} is {now}, not {server}")),
                },
                Ok(_) => Err(format!("{member} does not report its version")),
                Err(error) => Err(format!("{member} does not report its version: {error}")),
            }
        });
        let all = join_all(started).await;
        let observed = all.iter().all(Result::is_ok);
        let texts: Vec<String> = all.into_iter().map(|one| one.unwrap_or_else(|reason| reason)).collect();
        Observation::of(observed, texts.join("; "))
    }

    /// Restarts upgraded nodes as their own programs.
    async fn start_as_before(&self, fault: &InEffect) -> Result<(), String> {
        let started = fault.members.iter().map(|member| self.cluster.restart_as_before(member));
        join_all(started).await.into_iter().collect::<Result<(), _>>().map_err(|error| error.to_string())
    }

    /// Records what the agent observed. An order that the agent could not carry out counts as not observed.
    fn record_seen(
        &self,
        in_effect: &InEffect,
        step: FaultStep,
        seen: Result<Observation, AgentError>,
    ) -> Result<(), RunError> {
        let (observed, text, took_us) = match seen {
            Ok(seen) => (seen.observed, seen.text, seen.took_us),
            Err(error) => (false, error.to_string(), 0),
        };
        info!(fault = in_effect.fault, members = in_effect.members.join(","), ?step, observed, took_us, %text);
        self.record(in_effect, step, observed, text)
    }

    fn skip(&self, fault: u32, what: &Fault, reason: &str) -> Result<(), RunError> {
        let step = FaultStep::Skipped;
        let (armed, observed) = (false, false);
        let (members, clients) = (Vec::new(), Vec::new());
        let (kind, what, ordered, links) = (what.kind, what.clone(), Instant::now(), None);
        let by_client = None;
        let never = InEffect { fault, kind, what, ordered, links, members, clients, armed, observed, step, by_client };
        self.record(&never, FaultStep::Skipped, false, reason.to_string())
    }

    fn record(&self, fault: &InEffect, step: FaultStep, observed: bool, text: String) -> Result<(), RunError> {
        let event = self.event(fault, step, observed, text);
        if let Some(in_effect) = lock(&self.in_effect).get_mut(&fault.fault) {
            in_effect.step = step;
            in_effect.observed |= observed;
        }
        self.recorder.append(Body::Nemesis(event))?;
        Ok(())
    }

    pub(super) fn event(&self, fault: &InEffect, step: FaultStep, observed: bool, text: String) -> NemesisEvent {
        let InEffect { fault, kind, what, ordered, links, members, .. } = fault;
        let on_inject = step == FaultStep::Inject;
        let links = links.as_deref().filter(|_| on_inject).map(|links| self.links_as_recorded(links));
        let (mut on_call, mut on_each, mut delay_ns) = (None, None, None);
        match &what.with {
            Argument::Command(fault) if on_inject => {
                on_call = Some(fault.effect);
                on_each = Some(fault.command.clone()).filter(|_| fault.nth.is_none() && fault.key.is_none());
            }
            Argument::Length(late) if on_inject && kind.does.rules_out == RulesOut::SoonAnswersAcross => {
                delay_ns = Some(nanos(late.low.resolve(self.scenario.ttl)));
            }
            _ => {}
        }
        // The agent has answered by now, so the fault lasted no longer than this.
        let aftermath = (step == FaultStep::Healed).then(|| what.aftermath(self.scenario.ttl, ordered.elapsed()));
        let aftermath_ns = aftermath.map(nanos);
        let off = (step == FaultStep::Healed).then(|| what.clock_off(self.scenario.ttl, ordered.elapsed())).flatten();
        let clock_off_ns = off.map(nanos);
        let targets = members.iter().flat_map(|member| self.as_recorded(member)).collect();
        NemesisEvent {
            fault: *fault,
            kind: *kind,
            step,
            targets,
            observed,
            links,
            on_call,
            on_each,
            delay_ns,
            aftermath_ns,
            clock_off_ns,
            text,
        }
    }

    /// Heals everything still in effect, however the run ends. Does nothing if no fault is in effect. Killed members are not
    /// restarted, since the run is over.
    pub(super) async fn heal_everything(&self) {
        for fault in self.faults_in_effect() {
            let healed = async {
                if self.is_over_by_client(fault).await {
                    return Ok(());
                }
                let never = self.disarm(fault).await?;
                match self.begin_heal(fault)? {
                    Some(in_effect) => {
                        let restarted = match in_effect.kind.does.restarts {
                            true => Err("the run was over, so nothing was restarted".to_string()),
                            false => Ok(()),
                        };
                        self.end_heal(&in_effect, restarted, never).await
                    }
                    None => Ok(()),
                }
            };
            if let Err(error) = healed.await {
                warn!(%error, fault, "a heal was not recorded");
            }
        }
        match self.cluster.agent.heal_all().await {
            Ok(observations) => {
                for observation in observations.iter().filter(|observation| !observation.observed) {
                    warn!(text = observation.text, "a heal was not observed");
                }
            }
            // If the agent loses the controller, it heals by itself.
            Err(error) => warn!(%error, "the order to heal did not reach the agent"),
        }
    }
}

/// Repeats a question until it has an answer.
async fn until_some<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This fault on client 2, which had been replaced once before.
    fn on_client_2(what: &str) -> InEffect {
        let what: Fault = what.parse().unwrap();
        InEffect {
            fault: 1,
            kind: what.kind,
            what,
            ordered: Instant::now(),
            links: None,
            members: vec![client_name(2)],
            clients: vec![(2, 1)],
            armed: false,
            observed: true,
            step: FaultStep::Injected,
            by_client: None,
        }
    }

    #[test]
    fn a_client_was_killed_by_a_kill_since_its_last_replacement() {
        assert!(on_client_2("kill client:2").has_killed(2, 1));
    }

    #[test]
    fn a_client_that_ended_under_another_fault_or_after_its_replacement_was_not_killed() {
        let kill = on_client_2("kill client:2");
        assert!(!kill.has_killed(1, 1), "another client");
        assert!(!kill.has_killed(2, 2), "the kill hit the process before this one");
        assert!(!on_client_2("pause client:2").has_killed(2, 1), "a pause ends no process");
    }
}
