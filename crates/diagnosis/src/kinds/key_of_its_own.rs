//! Clients that lock the same thing under different keys.

use super::*;
use base::redis_commands::{removes, writes};

pub static KIND: Kind = Kind {
    code: "RJ047",
    name: "key-of-its-own",
    title: "Two clients lock the same thing under different keys.",
    rule: "A lock excludes other clients only if all clients use the same key. The value of the key says which client has it.",
    source: REDIS_LOCKS,
    fix: "Derive the key from the lock's name alone, and write the client's random value into it.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "none")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    if case.run.threads > 1 || !case.acts.gaps.is_empty() {
        return Vec::new();
    }
    // The node keys in each client's commands, by the key of its operations.
    let mut named: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for command in case.commands {
        let Some(client) = command.from.as_deref() else { continue };
        for word in command.words.iter().skip(1) {
            if let Some(key) = key_behind(word) {
                named.entry((client, key)).or_default().insert(word);
            }
        }
    }
    // The keys that any command sets, including the commands of scripts.
    let creates = |command: &&RecordedCommand| {
        let name = command.name();
        writes(&name) && !removes(&name)
    };
    let set: HashSet<&str> =
        case.commands.iter().filter(creates).flat_map(|one| one.words.iter().skip(1)).map(String::as_str).collect();
    // The locks for which no key is common to all clients.
    let mut common: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((_, lock), keys) in &named {
        let of_all = common.entry(*lock).or_insert_with(|| keys.clone());
        of_all.retain(|key| keys.contains(key) && set.contains(key));
    }
    let is_split = |operation: &&Operation| common.get(&*operation.key).is_some_and(BTreeSet::is_empty);
    let operations = case.history.operations.iter().filter(is_split);
    let held = operations.filter_map(|one| Some((one, case.history.certain_hold(one)?)));
    let held: Vec<(&Operation, (i64, i64))> = held.collect();
    let mut found: BTreeMap<(String, String), Finding> = BTreeMap::new();
    for (second, (acquired, _)) in &held {
        let Ok(time) = u64::try_from(*acquired) else { continue };
        let holds = |(first, (from, to)): &&(&Operation, (i64, i64))| {
            first.key == second.key && first.process != second.process && from < acquired && acquired < to
        };
        let Some((first, (from, _))) = held.iter().find(holds) else { continue };
        let [one, other] = [first, second].map(|operation| case.run.client_name(operation.process));
        let (its, theirs) = (named.get(&(&*one, &*second.key)), named.get(&(&*other, &*second.key)));
        let Some((its, theirs)) = its.zip(theirs) else { continue };
        let (Some(key), Some(another)) = (created(case, &one, first), created(case, &other, second)) else { continue };
        // If no command sets a key that both clients name, that key keeps no client out.
        let is_shared = its.intersection(theirs).any(|key| set.contains(key));
        if is_shared || found.contains_key(&(one.clone(), other.clone())) {
            continue;
        }
        let sentence = format!(
            "{one} held the lock from {} by the key `{}`, and {other} acquired it at {} by `{}`: neither client asked for the other key.",
            moment(u64::try_from(*from).unwrap_or(0)),
            sanitize(key.1, 60),
            moment(time),
            sanitize(another.1, 60)
        );
        let finding = Finding {
            time,
            key: second.key.to_string(),
            sentence,
            operations: vec![first.index, second.index],
            commands: vec![key.0 as u64 + 1, another.0 as u64 + 1],
            harm: Harm::Misled(second.index),
            fault: None,
        };
        found.insert((one, other), finding);
    }
    found.into_values().collect()
}

/// The index and the key of the operation's first command that sets a key of its lock.
fn created<'c>(case: &'c Case, client: &str, operation: &Operation) -> Option<(usize, &'c str)> {
    let acquired = operation.phase(Phase::Acquired)?.time().saturating_add(EDGE);
    case.commands.iter().enumerate().find_map(|(place, command)| {
        let is_its = command.from.as_deref() == Some(client) && (operation.invoked..=acquired).contains(&command.time);
        let key = command.words.get(1).filter(|word| key_behind(word) == Some(&*operation.key))?;
        let sets = matches!(&*command.name(), "SET" | "SETNX" | "HSETNX" | "HSET" | "INCR" | "PSETEX" | "SETEX");
        (is_its && sets).then_some((place, key.as_str()))
    })
}
