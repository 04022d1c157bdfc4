//! Reads facts that earlier versions wrote only in the words of a nemesis, and stores them in the fields of newer histories.
//!
//! The words are those of versions until 0.1, and never change. This reader is closed and shares no line with the grammar of
//! today's nemesis files, so changes there change no verdict about an old history. Words that it does not understand leave the
//! fact unknown.

use std::time::Duration;

use super::{CallEffect, Command, Expects, FaultWindow, Header};
use base::members::{Role, client_name, node_name};
use base::units::nanos;

/// No fault of a run is on more links: a run has at most 100 clients, 31 nodes, their Sentinels and a resource. A history from
/// elsewhere may contain anything.
const MOST_LINKS: usize = 20_000;

/// Fills in the fields of a fault that its history states only in words.
pub(super) fn complete(window: &mut FaultWindow, run: Option<&Header>) {
    if window.aftermath_ns.is_none() {
        window.aftermath_ns = aftermath(window, run);
    }
    if window.links.is_none() && window.kind.id == "partition" {
        window.links = cut(window);
    }
    if window.delay_ns.is_none() && window.kind.id == "delay" {
        let ttl = Duration::from_millis(run.map_or(0, |run| run.ttl_ms));
        let late = window.what.trim().strip_prefix("delay ").and_then(|rest| rest.trim_start().split_once(' '));
        let least = late.and_then(|(late, _)| length(late.split_once("..").map_or(late, |(least, _)| least), ttl));
        window.delay_ns = least.map(nanos);
    }
    window.links.take_if(|links| links.len() > MOST_LINKS);
    if window.on_call.is_none() && window.kind.id == "call" {
        window.on_each = on_each(window);
        window.on_call = ON_CALL.iter().find(|(words, _)| window.what.starts_with(words)).map(|(_, action)| *action);
    }
}

/// The phase that a client must reach by the end of a step such as `expect client:1 acquired within 0.5ttl`.
pub(super) fn expects(step: &str) -> Option<Expects> {
    let mut words = step.strip_prefix("expect client:")?.split(' ');
    let client = words.next()?.parse().ok()?;
    let phase = serde_json::from_value(words.next()?.into()).ok();
    Some(Expects { client, phase, within_ns: None })
}

const ON_CALL: [(&str, CallEffect); 6] = [
    ("hold request", CallEffect::HoldRequest),
    ("hold reply to", CallEffect::HoldReply),
    ("lose reply to", CallEffect::LoseReply),
    ("reset after", CallEffect::ResetAfter),
    ("reset connection of", CallEffect::ResetConnection),
    ("cut connection of", CallEffect::CutConnection),
];

/// The commands of `hold request each write client:0 to nodes`; None if a key limits them.
fn on_each(window: &FaultWindow) -> Option<Command> {
    let after = ON_CALL.iter().find_map(|(words, _)| window.what.strip_prefix(words))?;
    let mut words = after.trim_start().strip_prefix("each ")?.split_whitespace();
    let command = match words.next()? {
        "any" => Command::Any,
        "write" => Command::Write,
        _ => return None,
    };
    words.next().is_some_and(|next| next != "on").then_some(command)
}

/// See [`FaultWindow::aftermath_ns`]: only a wrong clock of a node has an aftermath.
fn aftermath(window: &FaultWindow, run: Option<&Header>) -> Option<u64> {
    if window.kind.id != "clock" || !window.hits(Role::Node) {
        return Some(0);
    }
    let (healed, _) = window.healed?;
    let ttl = Duration::from_millis(run.map_or(0, |run| run.ttl_ms));
    let (targets, change) = window.what.trim().strip_prefix("clock ")?.trim_start().split_once(' ')?;
    targets.split(',').map(target).collect::<Option<Vec<_>>>()?;
    let lasted = Duration::from_nanos(healed.saturating_sub(window.inject));
    let ahead = ahead(change.trim(), ttl, lasted)?;
    Some(nanos(ahead))
}

/// The most that a clock is ahead: `+2ttl`, `-500ms`, `x1.5`, `strobe 200ms every 1ms`.
fn ahead(change: &str, ttl: Duration, lasted: Duration) -> Option<Duration> {
    if let Some(by) = change.strip_prefix('+') {
        return length(by, ttl);
    }
    if let Some(by) = change.strip_prefix('-') {
        return length(by, ttl).map(|_| Duration::ZERO);
    }
    if let Some(rate) = change.strip_prefix('x') {
        let rate = rate.parse::<f64>().ok().filter(|rate| (0.001..=1000.0).contains(rate))?;
        return Some(
            Duration::try_from_secs_f64(lasted.as_secs_f64() * (rate - 1.0).max(0.0)).unwrap_or(Duration::MAX),
        );
    }
    let (by, every) = change.strip_prefix("strobe ")?.split_once(" every ")?;
    length(every, ttl)?;
    length(by, ttl)
}

/// `250ms`, `1s500ms`, `2.5ttl`.
fn length(text: &str, ttl: Duration) -> Option<Duration> {
    let text = text.trim();
    match text.strip_suffix("ttl") {
        Some(factor) => {
            let factor: f64 = factor.trim().parse().ok().filter(|factor| (0.0..=1000.0).contains(factor))?;
            Some(Duration::try_from_secs_f64(ttl.as_secs_f64() * factor).unwrap_or(Duration::MAX))
        }
        None => humantime::parse_duration(text).ok(),
    }
}

enum Target {
    Holder,
    Client(u32),
    Clients,
    Node(u32),
    Nodes,
    Resource,
    /// `voter`, `primary` or `replica`: one node, chosen when the fault began.
    OneNode,
    /// Members whose names do not follow from the phrase alone.
    Others,
}

fn target(word: &str) -> Option<Target> {
    Some(match word.trim() {
        "holder" => Target::Holder,
        "clients" => Target::Clients,
        "nodes" => Target::Nodes,
        // Its name before version 0.1, and its name since.
        "storage" | "resource" => Target::Resource,
        "voter" | "primary" | "replica" => Target::OneNode,
        "client" | "node" | "minority" | "majority" | "sentinels" => Target::Others,
        word => match word.split_once(':')? {
            ("client", number) => Target::Client(number.parse().ok()?),
            ("node", number) => Target::Node(number.parse().ok()?),
            _ => return None,
        },
    })
}

/// The cut links of `partition A from B; C to D`, as pairs of sender and receiver, as far as they are certain.
fn cut(window: &FaultWindow) -> Option<Vec<(String, String)>> {
    let parts = window.what.trim().strip_prefix("partition ")?;
    let mut links = Vec::new();
    for part in parts.split(';') {
        let between = [(" from ", true), (" and ", true), (" to ", false)];
        let split = between.iter().find_map(|(word, both)| Some((part.split_once(word)?, *both)));
        let ((one, other), both) = split?;
        let (one, other) = (members(one, window)?, members(other, window)?);
        if one.len().saturating_mul(other.len()) > MOST_LINKS.saturating_sub(links.len()) {
            return None;
        }
        for (from, to) in one.iter().flat_map(|one| other.iter().map(move |other| (one, other))) {
            links.push((from.clone(), to.clone()));
            if both {
                links.push((to.clone(), from.clone()));
            }
        }
    }
    Some(links)
}

/// The names of the fault's targets. For targets that are chosen only when the fault begins, only the certain ones.
fn members(targets: &str, window: &FaultWindow) -> Option<Vec<String>> {
    let hit = |role: Role| -> Vec<String> {
        window.targets.iter().filter(|target| Role::of(target) == Some(role)).cloned().collect()
    };
    let only = |role: Role| Some(hit(role)).filter(|hit| hit.len() == 1).unwrap_or_default();
    let targets: Option<Vec<Target>> = targets.split(',').map(target).collect();
    let named = targets?.into_iter().flat_map(|target| match target {
        Target::Client(number) => vec![client_name(number)],
        Target::Clients => hit(Role::Client),
        Target::Node(number) => vec![node_name(number)],
        Target::Nodes => hit(Role::Node),
        Target::Resource => hit(Role::Resource),
        Target::Holder => only(Role::Client),
        Target::OneNode => only(Role::Node),
        Target::Others => Vec::new(),
    });
    Some(named.collect())
}
