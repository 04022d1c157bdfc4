//! Finds writes that a client answered with `ok` although the resource never received them.
//!
//! A server keeps the last write that it acknowledged, whatever the lock does. If a run without faults shows anything else, the
//! client is the cause.

use std::collections::{BTreeMap, BTreeSet};

use base::words::{list, plural, quoted};
use model::history::{Amount, History, Operation, Outcome, Process, Reading, ResourceKind};

/// The evidence, in a sentence, that writes answered with `ok` never reached the resource. None if there is none.
pub(super) fn unwritten(history: &History) -> Option<String> {
    let acknowledged = |one: &&Operation| one.f.writes() && one.outcome == Outcome::Ok && one.new.is_some();
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.operations.iter().filter(acknowledged) {
        keys.entry(&operation.key).or_default().push(operation);
    }
    never_seen(history, &keys).or_else(|| keys.iter().find_map(|(key, writes)| overtaken(history, key, writes)))
}

/// The controller's last read of a key. None if it never read the key.
fn last_read<'h>(history: &'h History, key: &str) -> Option<&'h Operation> {
    let is_it = |one: &&Operation| one.process == Process::Controller && *one.key == *key;
    history.operations.iter().rfind(is_it)
}

/// The evidence that the resource held no value of this run at the end, so none of these writes arrived. None otherwise.
fn never_seen(history: &History, keys: &BTreeMap<&str, Vec<&Operation>>) -> Option<String> {
    let values: BTreeSet<&str> = history.operations.iter().filter_map(|one| one.new.as_deref()).collect();
    let mut ends = Vec::new();
    for key in keys.keys() {
        let read = last_read(history, key)?;
        ends.push(match (&read.old, &read.amount) {
            (Reading::Empty, _) => format!("{key} was empty"),
            (_, Some(Amount::Elements(elements))) if elements.iter().any(|one| values.contains(&**one)) => return None,
            (Reading::Value(value), _) if !values.contains(&**value) => format!("{key} held {}", quoted(value)),
            // The resource held a value of another kind, and the controller reports it.
            (Reading::Unknown, _) => format!("of {key} {}", read.text().filter(|text| text.starts_with("it holds "))?),
            _ => return None,
        });
    }
    let writes = keys.values().map(Vec::len).sum::<usize>();
    (writes > 0).then(|| {
        let writes = plural(writes as u64, "write");
        format!(
            "the client answered {writes} with `ok`, but the resource has none of their values: at the end {}",
            list(&ends)
        )
    })
}

/// The evidence that a client read an old value after a later write to the key was acknowledged. None if there is none.
/// Replicas may lag, and after a stall old data may arrive late, so such runs show nothing.
fn overtaken(history: &History, key: &str, writes: &[&Operation]) -> Option<String> {
    let kind = history.run.as_ref().map(|run| run.resource);
    if kind == Some(ResourceKind::Replicated) || !history.stalls.is_empty() {
        return None;
    }
    let mut by_end: Vec<&Operation> = writes.to_vec();
    by_end.sort_by_key(|write| write.completed);
    let ends: BTreeMap<&str, u64> =
        writes.iter().filter_map(|write| Some((write.new.as_deref()?, write.completed?))).collect();
    let reads = history.operations.iter().filter(|one| *one.key == *key && one.outcome == Outcome::Ok);
    reads.filter(|read| read.old != Reading::Unknown).find_map(|read| {
        // An empty key is older than every write.
        let over = match &read.old {
            Reading::Value(value) => *ends.get(&**value)?,
            _ => 0,
        };
        // A write that was acknowledged before the read began, and that began after the write of the read value was
        // acknowledged.
        let before = by_end.partition_point(|write| write.completed.is_some_and(|end| end < read.invoked));
        let later = by_end[..before].iter().rfind(|write| write.invoked > over)?;
        let who = match read.process {
            Process::Controller => "the resource still held".to_string(),
            process => {
                let client = history.run.as_ref().map_or(process.to_string(), |run| run.client_name(process));
                format!("{client} still read")
            }
        };
        let value = match &read.old {
            Reading::Value(value) => quoted(value),
            _ => "nothing".to_string(),
        };
        let new = quoted(later.new.as_deref().unwrap_or_default());
        Some(format!(
            "the client answered the write of {new} to {key} with `ok`, but later {who} {value}, which is older"
        ))
    })
}
