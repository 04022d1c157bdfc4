//! Draws the faults of a run: the time and the duration of each fault, and its targets.

use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use serde::Serialize;

use super::{PlanError, millis, stream};
use crate::nemesis::{Argument, Direction, Fault, LinkSelector, Need, Shape, Step, Target, TargetSpec, Targets};
use crate::scenario::Scenario;
use crate::topology::Program;
use base::words;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedFault {
    /// Number in the run, from 0, in order of time.
    pub fault: u32,
    /// The fault with everything drawn that can be: the holder, the voter and the primary are found when it begins.
    pub what: Fault,
    /// The key whose voter, primary or replica is meant, if several keys have different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it begins, in milliseconds after the clients start.
    pub at_ms: u64,
    /// How long it lasts, in milliseconds.
    pub lasts_ms: u64,
    /// The index of the recurring fault in the nemesis; faults of one series never overlap.
    pub series: usize,
}

/// Each random stream of a run has its own number, so that adding clients or faults leaves the others unchanged.
const STREAMS: u64 = 1 << 32;

/// The quiet time before the first fault and after the last heal, in which the run shows that it works.
pub fn quiet(scenario: &Scenario) -> Duration {
    scenario.ttl.mul_f64(1.5).max(Duration::from_secs(1))
}

/// Checks that the lock has the properties that the nemesis needs.
pub(super) fn fits(scenario: &Scenario) -> Result<(), PlanError> {
    let (nemesis, workload) = (&scenario.nemesis_name, &scenario.workload_name);
    for need in scenario.nemesis.needs() {
        if let Some(why) = lacks(scenario, need) {
            return Err(PlanError::Nemesis(format!("`{nemesis}` needs a lock {why}")));
        }
    }
    let as_reader = |step: &Step| matches!(step, Step::Start { reads: true, .. });
    if scenario.nemesis.script.iter().any(as_reader) && !scenario.workload.has_readers() {
        return Err(PlanError::Nemesis(format!(
            "`{nemesis}` needs a lock with a read mode, but the `[operations]` of workload {workload} do not list `shared`"
        )));
    }
    Ok(())
}

/// Says which property a lock needs for a nemesis, and how the workload's lock differs; None if it has the property. It is
/// unknown before a run if a library renews its locks in the background, so such a lock is never refused.
fn lacks(scenario: &Scenario, need: Need) -> Option<String> {
    let (name, workload) = (&scenario.workload_name, &scenario.workload);
    let several = || match workload.permits {
        1 => format!("only one client may hold the lock of workload {name}"),
        permits => format!("{permits} clients may hold the lock of workload {name} at once"),
    };
    match need {
        Need::Holders(holders) if workload.permits != holders => {
            let wanted = if holders == 1 {
                "only one client may hold".to_string()
            } else {
                format!("{holders} clients may hold at once")
            };
            Some(format!("that {wanted}, but {}", several()))
        }
        Need::FreePermit if workload.permits > 1 => Some(format!(
            "that one client may hold, but {}; `redjepsen library` runs it while other clients hold all permits but one",
            several()
        )),
        Need::Takeover if workload.lock.is_granted_by_controller() => Some(format!(
            "that other clients take over from a holder that hangs, but the lock of workload {name} stays with its holder until \
             the holder ends"
        )),
        Need::Expiry if !workload.lock.expires() => {
            Some(format!("that expires, but the lock of workload {name} never does"))
        }
        Need::Nodes(nodes) if workload.topology.has_roles() || scenario.nodes < nodes => {
            let has = match workload.topology.has_roles() {
                true => "a primary and its replicas".to_string(),
                false => words::plural(scenario.nodes.into(), "node"),
            };
            Some(format!("on at least {nodes} independent nodes, but workload {name} has {has}"))
        }
        _ => None,
    }
}

pub(super) fn draw(scenario: &Scenario) -> Result<Vec<PlannedFault>, PlanError> {
    let quiet = quiet(scenario);
    let mut faults = Vec::new();
    for (series, recurring) in scenario.nemesis.faults.iter().enumerate() {
        let every = recurring.every.resolve(scenario.ttl)?;
        let lasts = recurring.lasts.resolve(scenario.ttl)?;
        if lasts.0.is_zero() {
            return Err(PlanError::Nemesis(format!(
                "in the nemesis, `for = \"{}\"` allows a fault without a length",
                recurring.lasts
            )));
        }
        if lasts.1 >= every.0 {
            return Err(PlanError::Nemesis(format!(
                "in the nemesis, a fault with `for = \"{}\"` can last as long as `every = \"{}\"`, so some fault would always be in \
                 effect; make `every` longer",
                recurring.lasts, recurring.every
            )));
        }
        let shortest_run = quiet * 2 + lasts.1;
        if scenario.time_limit < shortest_run {
            return Err(PlanError::Nemesis(format!(
                "--time-limit {} is too short for nemesis `{}`; use at least {}s. With --ttl {}, a run needs a quiet phase, a fault of \
                 up to {:.1} s, and another quiet phase",
                humantime::format_duration(scenario.time_limit),
                scenario.nemesis_name,
                shortest_run.as_secs_f64().ceil(),
                humantime::format_duration(scenario.ttl),
                lasts.1.as_secs_f64(),
            )));
        }
        let mut rng = stream(scenario.seed, STREAMS + series as u64);
        let mut at = quiet;
        loop {
            let length = between(&mut rng, lasts);
            if at + length + quiet > scenario.time_limit {
                break;
            }
            let faults_of_series = &recurring.fault.0;
            let which = if faults_of_series.len() == 1 { 0 } else { rng.random_range(0..faults_of_series.len()) };
            let what = resolve(&mut rng, &faults_of_series[which], scenario)?;
            let several = needs_key(&what, scenario);
            faults.push(PlannedFault {
                fault: 0,
                what,
                key: several.then(|| format!("k{}", rng.random_range(0..scenario.keys))),
                at_ms: millis(at),
                lasts_ms: millis(length),
                series,
            });
            at += between(&mut rng, every);
        }
    }
    faults.sort_by_key(|fault| (fault.at_ms, fault.series));
    for (number, fault) in (0..).zip(&mut faults) {
        fault.fault = number;
    }
    Ok(faults)
}

/// True if a fault hits different nodes for different keys. A fault that names the holder always uses the holder's key.
pub(super) fn needs_key(fault: &Fault, scenario: &Scenario) -> bool {
    let each_has_its_own = |target| match target {
        Target::Voter => true,
        Target::Primary | Target::Replica => has_primaries(scenario),
        _ => false,
    };
    scenario.keys > 1 && fault.names(each_has_its_own) && !fault.names(|target| target == Target::Holder)
}

/// True if keys have different primaries.
pub(super) fn has_primaries(scenario: &Scenario) -> bool {
    scenario.workload.topology.primaries(scenario.nodes) > 1 && scenario.workload.topology.has_roles()
}

/// The random stream for the parts that a script leaves open.
pub(super) fn stream_of_script(scenario: &Scenario) -> impl Rng + use<> {
    stream(scenario.seed, STREAMS - 1)
}

/// The fault with everything drawn that does not depend on the moment. Fails if it names a member that does not exist.
pub(super) fn resolve(rng: &mut impl Rng, fault: &Fault, scenario: &Scenario) -> Result<Fault, PlanError> {
    drawn(rng, fault, scenario).map_err(|error| match error {
        PlanError::Nemesis(text) => PlanError::Nemesis(format!("fault `{fault}` of the nemesis: {text}")),
        other => other,
    })
}

fn drawn(rng: &mut impl Rng, fault: &Fault, scenario: &Scenario) -> Result<Fault, PlanError> {
    if let Argument::Length(by) = &fault.with {
        by.resolve(scenario.ttl)?;
    }
    if fault.kind.needs.by_client && !fault.names_one() {
        return Err(PlanError::Nemesis("name one client, such as `client:0`".to_string()));
    }
    if let Argument::Nodes(nodes) = &fault.with {
        must_ask_each_node(scenario)?;
        members(rng, nodes, scenario)?;
    }
    let whom = match &fault.whom {
        TargetSpec::Members(who) => TargetSpec::Members(members(rng, &with_keys(fault, who, scenario), scenario)?),
        TargetSpec::Links(parts) => {
            if fault.kind.needs.redis_protocol {
                parts.iter().try_for_each(|sides| speaks_redis(&sides.other, scenario))?;
            }
            let links = parts.iter().map(|sides| self::sides(rng, sides, scenario)).collect::<Result<_, _>>()?;
            parts.iter().try_for_each(|sides| talk(sides, scenario))?;
            TargetSpec::Links(links)
        }
        TargetSpec::Shape(shape, direction) => {
            let parts = shaped(rng, *shape, scenario)?;
            TargetSpec::Links(parts.into_iter().map(|part| part.going(*direction)).collect())
        }
    };
    Ok(Fault { kind: fault.kind, whom, with: fault.with.clone() })
}

/// The targets of a fault that deletes keys. A replica refuses to delete keys, and loses those that its primary loses, so among
/// nodes with roles the target is the primary.
fn with_keys(fault: &Fault, who: &Targets, scenario: &Scenario) -> Targets {
    let is_any =
        |target: &Target| matches!(target, Target::AnyNode | Target::Minority | Target::Majority | Target::Nodes);
    match fault.kind.empties() && scenario.workload.topology.has_roles() {
        true => Targets(who.0.iter().map(|target| if is_any(target) { Target::Primary } else { *target }).collect()),
        false => who.clone(),
    }
}

/// Refuses links between members that never talk to each other: a fault on them does nothing.
fn talk(sides: &LinkSelector, scenario: &Scenario) -> Result<(), PlanError> {
    let are = |is_it: fn(&Target) -> bool| sides.one.0.iter().chain(&sides.other.0).all(is_it);
    let are_alone = scenario.workload.topology.is_independent() && scenario.workload.lock.program() == Program::Redis;
    let who = match () {
        () if are(|target| target.is_client()) => "clients".to_string(),
        () if are_alone && are(|target| target.is_node() || *target == Target::Resource) => {
            format!("the nodes of workload {}", scenario.workload_name)
        }
        () => return Ok(()),
    };
    Err(PlanError::Nemesis(format!(
        "{who} never talk to each other, so this fault does nothing; name clients on one side and nodes on the other"
    )))
}

/// Refuses locks whose clients learn the nodes from the servers.
fn must_ask_each_node(scenario: &Scenario) -> Result<(), PlanError> {
    if scenario.workload.lock.is_on_redis() && !scenario.workload.topology.has_roles() {
        return Ok(());
    }
    Err(PlanError::Nemesis(format!(
        "only a client of independent nodes has its own list of nodes; the clients of workload {} learn the nodes from the servers",
        scenario.workload_name
    )))
}

/// Refuses other systems: the agent can follow only Redis's protocol.
fn speaks_redis(servers: &Targets, scenario: &Scenario) -> Result<(), PlanError> {
    let name = scenario.workload.lock.name();
    let what = match scenario.workload.lock.program() {
        Program::Redis => return Ok(()),
        program if servers.0.contains(&Target::Resource) && program.keeps_resource() => "resource",
        _ if servers.0.iter().any(|target| target.is_node()) => "node",
        _ => return Ok(()),
    };
    Err(PlanError::Nemesis(format!(
        "this fault follows commands of Redis, but the {what} of lock {name} does not speak Redis's protocol"
    )))
}

fn sides(rng: &mut impl Rng, sides: &LinkSelector, scenario: &Scenario) -> Result<LinkSelector, PlanError> {
    let (one, other) = (members(rng, &sides.one, scenario)?, members(rng, &sides.other, scenario)?);
    Ok(LinkSelector { one, other, both_ways: sides.both_ways })
}

fn members(rng: &mut impl Rng, who: &Targets, scenario: &Scenario) -> Result<Targets, PlanError> {
    let mut resolved = Vec::new();
    for target in &who.0 {
        match target {
            node if node.is_node() && scenario.nodes == 0 => {
                return Err(no_nodes(&format!("target `{node}` needs nodes"), scenario));
            }
            Target::AnyClient => resolved.push(Target::Client(rng.random_range(0..scenario.clients))),
            Target::AnyNode => resolved.push(Target::Node(rng.random_range(0..scenario.nodes))),
            Target::Minority => resolved.extend(some_nodes(rng, (scenario.nodes - 1) / 2, scenario)?),
            Target::Majority => resolved.extend(some_nodes(rng, scenario.nodes / 2 + 1, scenario)?),
            Target::Client(number) if *number >= scenario.clients => {
                return Err(PlanError::Nemesis(no_client(*number, scenario)));
            }
            Target::Node(number) if *number >= scenario.nodes => {
                return Err(PlanError::Nemesis(format!(
                    "there is no node:{number}; the lock has {}, and the last is node:{}",
                    words::plural(scenario.nodes.into(), "node"),
                    scenario.nodes - 1
                )));
            }
            Target::Primary | Target::Replica if !scenario.workload.topology.has_roles() => {
                return Err(PlanError::Nemesis(format!(
                    "target `{target}` needs a primary, but the nodes of workload {} are independent; use a workload with a primary, \
                     such as `replicated` or `cluster`",
                    scenario.workload_name
                )));
            }
            Target::Voter if !scenario.workload.lock.is_on_redis() => {
                return Err(PlanError::Nemesis(format!(
                    "target `{target}` needs a node that stores the key, but lock {} is stored in a database that spans all nodes; name a \
                     `node`",
                    scenario.workload.lock.name()
                )));
            }
            Target::Sentinels if scenario.workload.topology.sentinels() == 0 => {
                return Err(PlanError::Nemesis(format!(
                    "target `{target}` needs Sentinels, but workload {} has no Sentinels; use a workload with Sentinels, such as \
                     `replicated`",
                    scenario.workload_name
                )));
            }
            target => resolved.push(*target),
        }
    }
    Ok(Targets(resolved))
}

/// Says that a client does not exist, and which clients do.
pub(super) fn no_client(number: u32, scenario: &Scenario) -> String {
    match scenario.clients {
        1 => format!("there is no client:{number}; with --clients 1, the only client is client:0"),
        clients => {
            format!("there is no client:{number}; with --clients {clients}, the last client is client:{}", clients - 1)
        }
    }
}

fn no_nodes(what: &str, scenario: &Scenario) -> PlanError {
    PlanError::Nemesis(format!(
        "{what}, but workload {} has none: the controller grants its lock; use `client`, `holder` or `resource`",
        scenario.workload_name
    ))
}

fn some_nodes(rng: &mut impl Rng, count: u32, scenario: &Scenario) -> Result<Vec<Target>, PlanError> {
    require_minority(count as usize, scenario)?;
    let mut nodes: Vec<u32> = (0..scenario.nodes).collect();
    nodes.shuffle(rng);
    nodes.truncate(count as usize);
    nodes.sort_unstable();
    Ok(nodes.into_iter().map(Target::Node).collect())
}

fn require_minority(count: usize, scenario: &Scenario) -> Result<(), PlanError> {
    match count {
        0 => Err(PlanError::Nemesis(format!(
            "a minority needs at least 3 nodes, but workload {} has {}. {}",
            scenario.workload_name,
            scenario.nodes,
            instead(scenario)
        ))),
        _ => Ok(()),
    }
}

/// A phrase to use if a lock has too few nodes for a shape or a part of them.
fn instead(scenario: &Scenario) -> String {
    let more = if scenario.nodes < 3 { "--nodes 3 if the lock supports it, or " } else { "" };
    format!("Use {more}`--nemesis \"partition clients from nodes\"` to cut off all nodes")
}

/// The cuts of a shape, with clients on one side and nodes on the other.
fn shaped(rng: &mut impl Rng, shape: Shape, scenario: &Scenario) -> Result<Vec<LinkSelector>, PlanError> {
    if scenario.nodes == 0 {
        return Err(no_nodes("a shape needs nodes", scenario));
    }
    let all_clients = || Targets::one(Target::Clients);
    let cut = LinkSelector::both_ways;
    match shape {
        Shape::One => Ok(vec![cut(all_clients(), Targets(some_nodes(rng, 1, scenario)?))]),
        Shape::Minority => Ok(vec![cut(all_clients(), Targets(some_nodes(rng, (scenario.nodes - 1) / 2, scenario)?))]),
        Shape::Majority => Ok(vec![cut(all_clients(), Targets(some_nodes(rng, scenario.nodes / 2 + 1, scenario)?))]),
        Shape::Halves | Shape::Bridge => {
            let (mut clients, mut nodes) = shuffled(rng, scenario);
            if shape == Shape::Bridge {
                // Both sides reach the bridge.
                nodes.pop();
            }
            let others = (clients.split_off(clients.len() / 2), nodes.split_off(nodes.len() / 2));
            let parts = [cut(Targets(clients), Targets(others.1)), cut(Targets(others.0), Targets(nodes))];
            let parts: Vec<_> =
                parts.into_iter().filter(|part| !part.one.0.is_empty() && !part.other.0.is_empty()).collect();
            if parts.is_empty() {
                return Err(PlanError::Nemesis(format!(
                    "{} and {} are too few for two halves{}. {}",
                    words::plural(scenario.clients.into(), "client"),
                    words::plural(scenario.nodes.into(), "node"),
                    if shape == Shape::Bridge { " and a bridge" } else { "" },
                    instead(scenario)
                )));
            }
            Ok(parts)
        }
        Shape::MajoritiesRing => {
            let (clients, nodes) = shuffled(rng, scenario);
            let minority = (nodes.len() - 1) / 2;
            require_minority(minority, scenario)?;
            let lost = |at: usize| (0..minority).map(|next| nodes[(at + next) % nodes.len()]).collect();
            Ok(clients.iter().enumerate().map(|(at, client)| cut(Targets::one(*client), Targets(lost(at)))).collect())
        }
    }
}

fn shuffled(rng: &mut impl Rng, scenario: &Scenario) -> (Vec<Target>, Vec<Target>) {
    let mut clients: Vec<Target> = (0..scenario.clients).map(Target::Client).collect();
    let mut nodes: Vec<Target> = (0..scenario.nodes).map(Target::Node).collect();
    clients.shuffle(rng);
    nodes.shuffle(rng);
    (clients, nodes)
}

impl LinkSelector {
    /// The cut in this direction; `self` has clients on one side and nodes on the other.
    fn going(self, direction: Direction) -> LinkSelector {
        match direction {
            Direction::Both => self,
            Direction::Requests => LinkSelector { both_ways: false, ..self },
            Direction::Replies => LinkSelector { one: self.other, other: self.one, both_ways: false },
        }
    }
}

fn between(rng: &mut impl Rng, (low, high): (Duration, Duration)) -> Duration {
    Duration::from_millis(rng.random_range(millis(low)..=millis(high)))
}
