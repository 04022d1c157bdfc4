//! Losses that a library reported although its holder had the lock. They violate no claim, but a client that believes them gives
//! up its work.

use std::collections::BTreeSet;

use super::*;
use base::redis_commands;
use base::words::list;

pub static DEF: Advisory = Advisory {
    id: "false-losses",
    title: "The library reports a loss only if the lock is gone",
    applies: "runs whose nodes recorded their commands, without faults or with faults on a minority of the nodes",
    check: |run| {
        let losses = false_losses(run.history, run.commands);
        let remark = Remark::new(losses.told, losses.of, losses.words())?;
        let severity = losses.soonest.map_or(0, |loss| loss.ttl.saturating_sub(loss.after));
        Some(Remark { severity, disturbed: !losses.struck.is_empty(), ..remark })
    },
};

/// A lock counts as new for its TTL divided by this after it was acquired or extended.
const NEW: u64 = 2;

/// The false losses of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FalseLosses {
    /// The number of holders with a reported loss while they had the lock, and the number of all holders.
    pub told: u64,
    pub of: u64,
    /// The loss that was reported soonest.
    pub soonest: Option<FalseLoss>,
    /// The nodes that faults had hit, fewer than half of all nodes.
    pub struck: Vec<String>,
}

/// A reported loss, though the holder had the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FalseLoss {
    /// The time since the lock was acquired or extended, in nanoseconds.
    pub after: u64,
    pub ttl: u64,
    /// True if the release reported the loss, and nothing had removed the key before.
    pub by_release: bool,
}

/// The false losses of a run in which every member ran and faults hit at most a minority of the nodes. `commands` are the
/// commands that the nodes recorded. Without them nothing is reported, since an unseen command may have removed the lock's key.
pub fn false_losses(history: &History, commands: &[RecordedCommand]) -> FalseLosses {
    let mut losses = FalseLosses::default();
    let Some(run) = &history.run else { return losses };
    let Some(struck) = struck_nodes(history).filter(|struck| 2 * struck.len() < run.nodes.max(1) as usize) else {
        return losses;
    };
    if !history.stalls.is_empty() || commands.is_empty() {
        return losses;
    }
    losses.struck = struck.iter().map(|node| node.to_string()).collect();
    let ttl = run.ttl_ms.saturating_mul(1_000_000);
    let holders = history.operations.iter().filter(|one| one.f.is_locked() && one.process != Process::Controller);
    for holder in holders {
        let Some(acquired) = holder.phase(Phase::Acquired).map(PhaseStamp::time) else { continue };
        losses.of += 1;
        let Some(lost) = holder.phase(Phase::Lost).map(PhaseStamp::time) else { continue };
        let grants = history.grants(holder);
        let Some(granted) = grants.map(|stamp| stamp.time()).filter(|time| *time <= lost).max() else { continue };
        let after = lost - granted;
        // The holder still has a lock that its own release removes. If a check finds a loss, the client reports it right before
        // the release.
        let releasing = holder.phase(Phase::Releasing).map(PhaseStamp::time);
        let by_release = releasing.is_some_and(|releasing| releasing <= lost);
        let client = run.client_name(holder.process);
        let gone_by = |command: &RecordedCommand| match releasing {
            Some(releasing) if command.from.as_ref() == Some(&client) || command.in_script => {
                if by_release {
                    releasing
                } else {
                    lost.saturating_sub(CLOCK)
                }
            }
            _ => lost,
        };
        // Commands on the holder's key since it asked for the lock. They show what happened to the key at a node.
        let of_its_key: Vec<&RecordedCommand> = commands
            .iter()
            .filter(|command| within(command.time, holder.invoked, lost) && names(command, &holder.key))
            .filter(|command| !struck.contains(&*command.node))
            .collect();
        let gone = |command: &&RecordedCommand| {
            removes(command) && within(command.time, acquired, gone_by(command))
                || may_run_out(command, run.ttl_ms / NEW)
        };
        let may_be_gone = || {
            let left: BTreeSet<&str> = of_its_key.iter().map(|command| &*command.node).collect();
            let is_majority = struck.is_empty() && !left.is_empty() || 2 * left.len() > run.nodes as usize;
            !is_majority || of_its_key.iter().any(gone)
        };
        let taken = || history.operations.iter().any(|other| has_it_too(other, holder, acquired, lost));
        // If a node was hit, it is not known what other operations may have left on the remaining nodes.
        let is_clear = || struck.is_empty() || history.operations.iter().all(|other| was_over(other, holder, lost));
        if after < ttl / NEW
            && !may_be_gone()
            && !taken()
            && is_clear()
            && everyone_ran(history, (granted, lost), after)
        {
            let loss = FalseLoss { after, ttl, by_release };
            losses.told += 1;
            losses.soonest = losses.soonest.into_iter().chain([loss]).min();
        }
    }
    losses
}

/// The nodes with faults; None unless all faults were on nodes or at commands sent to nodes.
fn struck_nodes(history: &History) -> Option<BTreeSet<&str>> {
    let mut struck = BTreeSet::new();
    for window in history.faults.iter().filter(|window| window.skipped.is_none()) {
        let nodes: Vec<&str> = window.nodes().collect();
        let are_all = nodes.len() == window.targets.len() || window.kind.is_at_command();
        if nodes.is_empty() || !are_all {
            return None;
        }
        struck.extend(nodes);
    }
    Some(struck)
}

/// True if another operation had released its lock before this holder asked for it, or began only after the holder's reported
/// loss.
fn was_over(other: &Operation, holder: &Operation, lost: u64) -> bool {
    let gave_back = other.phase(Phase::Released).is_some() && other.outcome == Outcome::Ok;
    other.index == holder.index
        || other.key != holder.key
        || other.process == Process::Controller
        || other.invoked > lost
        || gave_back && other.completed.is_some_and(|over| over <= holder.invoked)
}

impl FalseLosses {
    /// `a holder was told that 8 ms after its client had got or extended the lock, whose TTL is 1 s, 3 of 40 holders; nobody else
    /// had it then, and nothing had removed its key`
    pub fn words(&self) -> String {
        let FalseLosses { told, of, soonest, struck } = self;
        let Some(soonest) = soonest else { return String::new() };
        let by_whom = if soonest.by_release {
            "a release reported the lock as lost"
        } else {
            "the library reported the lock as lost"
        };
        format!(
            "{by_whom} {} after its client had acquired or extended it, with a TTL of {}; {told} of {} received such a report; no other \
             client held it then, and no command had removed its key{}",
            length(soonest.after),
            length(soonest.ttl),
            plural(*of, "holder"),
            match &struck[..] {
                [] => String::new(),
                struck => format!(" from the unaffected nodes, which are a majority (faults hit {})", list(struck)),
            }
        )
    }
}

/// True if a command names a key that belongs to this key of the run.
fn names(command: &RecordedCommand, key: &str) -> bool {
    command.words.iter().skip(1).any(|word| word.contains(key))
}

fn removes(command: &RecordedCommand) -> bool {
    redis_commands::removes(&command.name())
}

/// True if a command may make a key expire in less than `within_ms` milliseconds. Commands that this function cannot parse count
/// as well.
fn may_run_out(command: &RecordedCommand, within_ms: u64) -> bool {
    let number = |place: usize| command.words.get(place).and_then(|word| word.parse::<u64>().ok());
    let after = |option: &str| {
        let place = command.words.iter().skip(3).position(|word| word.eq_ignore_ascii_case(option));
        place.and_then(|place| number(place + 4))
    };
    let seconds = |number: Option<u64>| number.map(|seconds| seconds.saturating_mul(1000));
    let lives_ms = match &*command.name() {
        "PEXPIRE" | "PSETEX" => number(2),
        "EXPIRE" | "SETEX" => seconds(number(2)),
        "SET" => after("PX").or(seconds(after("EX"))),
        name if redis_commands::renews(name) => None,
        _ => return false,
    };
    lives_ms.is_none_or(|lives_ms| lives_ms < within_ms)
}

/// The largest error of a node's clock, as its recorded commands show it, in nanoseconds.
const CLOCK: u64 = 5_000_000;

fn within(time: u64, from: u64, to: u64) -> bool {
    (from.saturating_sub(CLOCK)..=to.saturating_add(CLOCK)).contains(&time)
}

/// True if another client also holds the lock at some time between `from` and `to`, as far as that client knows.
fn has_it_too(other: &Operation, holder: &Operation, from: u64, to: u64) -> bool {
    let at = |phase| other.phase(phase).map(PhaseStamp::time);
    other.process != holder.process
        && other.key == holder.key
        && at(Phase::Acquired).is_some_and(|had| had <= to.saturating_add(CLOCK))
        && at(Phase::Released).or(other.completed).is_none_or(|until| until >= from)
}
