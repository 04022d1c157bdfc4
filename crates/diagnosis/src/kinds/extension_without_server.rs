//! An extension that the library reports, but that its nodes did not execute.

use super::*;
use base::redis_commands::{may_write, runs_a_script};

pub static KIND: Kind = Kind {
    code: "RJ045",
    name: "extension-without-server",
    title: "The library reports an extension that the server did not carry out.",
    rule: "Only a reply from the server shows that the key was extended. An error, a refusal or a missing reply extends nothing.",
    source: REDIS_LOCKS,
    fix: "Report an extension only if a majority of the nodes replied that they extended the key.",
    commands: super::COMPARE_AND_EXTEND,
    right: Some(("redlock-extend", "late-extension")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Losses, Claim::Grants],
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    if case.run.threads > 1 {
        return Vec::new();
    }
    let operations = case.history.operations.iter().enumerate();
    operations.filter_map(|(place, operation)| finding(case, place, operation)).collect()
}

/// The first reported extension for which too few requests had reached a majority of the nodes by then.
fn finding(case: &Case, place: usize, operation: &Operation) -> Option<Finding> {
    let acquired = operation.phase(Phase::Acquired)?.time();
    let created: BTreeMap<&str, &Act> = case
        .acts
        .of_operation(place)
        .filter(|act| act.is_done() && act.create().is_some() && act.time <= acquired.saturating_add(EDGE))
        .map(|act| (act.node, act))
        .collect();
    let (first, last) = (created.values().next()?, operation.phases.iter().filter(is_extension).last()?);
    let until = last.time().saturating_add(EDGE);
    let names = |command: &RecordedCommand| {
        command.words.iter().skip(1).any(|word| key_behind(word) == Some(&*operation.key))
    };
    // The times of the client's commands to each node that may have extended the lock.
    let mut sent: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (number, command) in case.commands.iter().enumerate() {
        let is_its = command.from.as_deref() == Some(first.client) && !command.in_script;
        let meanwhile = (first.time..=until).contains(&command.time);
        if is_its && meanwhile && names(command) && may_extend(case, place, number) {
            sent.entry(&command.node).or_default().push(command.time);
        }
    }
    let majority = if created.len() > 1 { case.listed(place) / 2 + 1 } else { 1 };
    let watched = |node: &&str| case.acts.was_watched(node, operation.invoked.saturating_sub(EDGE), until);
    let all = case.list_of(operation);
    if !all.iter().map(String::as_str).all(|node| watched(&node)) {
        return None;
    }
    let error = case.history.clock.map_or(0, |clock| clock.error_ns);
    let told = operation.phases.iter().filter(is_extension).enumerate().find(|(before, stamp)| {
        let by = stamp.time().saturating_add(EDGE + error);
        let enough = sent.values().filter(|times| times.iter().filter(|time| **time <= by).count() > *before);
        enough.count() < majority
    })?;
    let (before, stamp) = told;
    let carried_out = |times: &&Vec<u64>| times.iter().filter(|time| **time <= stamp.time().saturating_add(EDGE)).count() > before;
    let on = sent.values().filter(carried_out).count();
    let on = match all.len() {
        1 => "the server had not extended its key".to_string(),
        nodes => format!("{on} of {nodes} nodes had extended its key"),
    };
    let sentence = format!(
        "{}'s library reported at {} that the lock was extended; {on} at that time.",
        first.client,
        moment(stamp.time())
    );
    let mut finding =
        case.finding(first, &[first.place], &[Some(place)], Harm::Misled(operation.index), sentence);
    finding.time = stamp.time();
    Some(finding)
}

fn is_extension(stamp: &PhaseStamp) -> bool {
    stamp.phase == Phase::Extended
}

/// True if a command of the client may have extended the lock of this operation: it writes, or a script that it calls does. Some
/// acts show that the command found the key gone, or another client's.
fn may_extend(case: &Case, operation: usize, number: usize) -> bool {
    let command = &case.commands[number];
    let name = command.name();
    if !may_write(&name) && !runs_a_script(&name) {
        return false;
    }
    let its = || case.acts.of_operation(operation).filter(|act| act.sent == number);
    // It created the lock, removed it, or certainly had no effect on it.
    let is_of_others = |act: &Act| act.owner().is_some_and(|owner| owner.operation != act.operation);
    let is_other = |act: &Act| match act.what {
        // A holder may extend its lock by setting the key again, also where it is not known whether the key was there.
        Change::Create(create) => create.only == Only::IfAbsent || act.done == Some(false) || is_of_others(act),
        Change::Remove => true,
        Change::Renew(_) => act.done == Some(false),
        _ => false,
    };
    if its().any(is_other) {
        return false;
    }
    if !runs_a_script(&name) {
        return true;
    }
    let called = case.commands[number + 1..].iter().filter(|next| next.node == command.node).take_while(|next| next.in_script);
    let mut called = called.peekable();
    // If a server does not record the commands of scripts, the script may have extended it.
    called.peek().is_none() || called.any(|next| may_write(&next.name()))
}
