//! The checker's own summaries, read like other sentences.

use std::collections::HashSet;

use super::lines::{Lines, Operation, is_length, moment};
use super::pattern::Holes;
use super::sentences::{ensure, is_lost};

/// What a checker's own summary is made of: clients `c`, times `t` and values `x`, all of which the cited operations have.
pub const SUMMARIES: &[&str] = &[
    "{x=clients} both read {w=key} = {w=value}; {c}'s write of {w=value}[, which builds on {c}'s {w=value},] at {t} erased {x=values}, which had been acknowledged[{x=blamed}].",
    "{x=clients} all read {w=key} = {w=value}; {c}'s write of {w=value}[, which builds on {c}'s {w=value},] at {t} erased {x=values}, which had been acknowledged[{x=blamed}].",
    "the final read at {t} found {w=key} = {w=value}; {x=values} had been acknowledged after that and left no trace[{x=blamed}].",
    "{x=values} of {w=key} had been acknowledged, but what {c} saw at {t} descends from other values only[{x=blamed}].",
    "{x=clients} read {w=key} = {w=value}, and the values of all of them, {x=values}, were seen later: no order allows that.",
    "{x=clients} read {w=key} = {w=value}, a value that nobody was ever asked to write to {w}.",
    "{x=clients} read {w=key} = {w=value}, although {c} had reported that its write of that value failed.",
    "{x=clients} read {w=key} = {w=value} by {t}, before {c} began to write it at {t}.",
    "{c} read {w=key} = {w=value} before writing it.",
    "the writes of {x=values} to {w=key} each follow from the other: there is no first.",
    "{c} began to write {w=value} to {w=key} at {t}, but {c} had by {t} seen or written a value that descends from it.",
    "{c} read {w=key} = {w=value} after {t}, but {c}'s write of {w=value}, a later value, was over by {t}.",
    "{c} read {w=key} = {w=value} after {t}, but {c}'s read of {w=key} = {w=value}, a later value, was over by {t}.",
    "{c} read {w=key} = {w=value} and still had the lock for reading at {t}, but {c}'s write of {w=value}, a later value, was over by {t}.",
    "{c} read {w=key} = {w=value} and still had the lock for reading at {t}, but {c}'s read of {w=key} = {w=value}, a later value, was over by {t}.",
    "{c}'s write of {w=value} to {w=key} began at {t}, after {c} had by {t} seen or written a value of another lineage, which fits neither before nor after it.",
    "{c} found a count of {n} with {w=key} = {w=value}, which descends from {n} updates of the empty key.",
    "{c} found {w=value} twice in the list of {w=key}[{x}].",
    "{c} found {w=value} in the list of {w=key}, which nobody was ever asked to append[{x}].",
    "{c} found {w=value} in the list of {w=key}, although {c} had reported that appending it failed[{x}].",
    "{c} found {w=value} out of its place in the list of {w=key}: {c} had appended it where it read {w=key} = {w=value}[{x}].",
    "{c} read a list of {w=key} that does not end with its last update[{x}].",
    "{c} found a count of {n} for {w=key} at the end, which leaves no room for {n} more of the updates that had been acknowledged.",
    "{c} found {w=key} = {w=value} after {t}; {x=values} had been acknowledged by then and came after that value, and nobody ever saw it again.",
    "{c} found {w=key} = {w=value} after {t}; {x=values} had been acknowledged by then and came after that value, and nobody ever saw them again.",
    "{c} and {c} both held the lock of {w=key}[, the {w} for reading,] for {l} from {t}: {c} acquired it at {t} and still acted as its holder at {t}.",
    "{c} acquired the lock of {w=key} with token {n} at {t}, after {c} had acquired it with token {n}.",
    "{c} asked for the lock at {t} and gave up {l} later, though it should have been available (`{x}`).",
    "{c} asked for the lock at {t} and still did not have it {l} later, though it should have been available (`{x}`).",
    "a live lock would have come this far by {t} (`{x}`): {x}.",
    "{c} asked for the lock at {t} and got it {l} later, past its timeout of {l}.",
    "{c} asked for the lock at {t} and gave up {l} later, past its timeout of {l}.",
    "after the last client had gone, a lock was left that outlasts its TTL: {x}.",
    "the lock of {w=key} was free and requested from {t=free} on, yet no client acquired it for {l=long}, which is longer than the workload allows.",
    "no client acquired the lock of {w=key} for {l=long} from {t=free}, though it was free: {n} attempt failed, with no fault in effect.",
    "no client acquired the lock of {w=key} for {l=long} from {t=free}, though it was free: {n} attempts failed, with no fault in effect.",
];

/// Each client, time and value that a summary names belongs to a cited operation, or to one that the history has.
pub fn summary_holds(lines: &Lines, text: &str, holes: &Holes, cited: &[usize]) -> Result<(), String> {
    let cited: Vec<&Operation> = cited.iter().filter_map(|place| lines.operation_of(*place)).collect();
    let clients: HashSet<&str> = lines.operations.iter().map(|one| one.client.as_str()).collect();
    let text = text.split(" (`").next().unwrap_or_default();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != ':' && c != '.') {
        let word = word.trim_matches(['.', ':']);
        let is_client = word
            .strip_prefix('c')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        ensure(!is_client || clients.contains(word), || format!("there is no {word}"))?;
        let is_value = word.starts_with('c') && word.contains(':');
        let known = |value: &str| lines.operations.iter().any(|one| one.new.as_deref() == Some(value));
        ensure(!is_value || known(word), || format!("nobody wrote {word}"))?;
    }
    if let (Some(from), Some(long), Some(key)) = (holes.get("free"), holes.get("long"), holes.get("key")) {
        return nobody_got_it(lines, key, from, long);
    }
    let all_times = || {
        lines
            .operations
            .iter()
            .flat_map(|one| std::iter::once(one.invoke).chain(one.phases.iter().copied()).chain(one.answer))
    };
    let times: HashSet<String> = all_times()
        .flat_map(|place| [lines.time(place), lines.events[place]["time"].as_u64().unwrap()])
        .map(moment)
        .collect();
    for part in text
        .split(' ')
        .zip(text.split(' ').skip(1))
        .filter(|(_, unit)| unit.starts_with('s') && !unit.starts_with("st") && unit.len() <= 2)
    {
        let is_moment = part
            .0
            .split_once('.')
            .is_some_and(|(_, digits)| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()));
        ensure(!is_moment || times.contains(&format!("{} s", part.0)), || format!("nothing happened at {} s", part.0))?;
    }
    // What was erased was acknowledged, and is gone.
    if text.contains("which had been acknowledged") || text.contains("left no trace") {
        for value in holes["values"].split([',', ' ']).filter(|word| word.contains(':')) {
            ensure(cited.iter().any(|one| one.new.as_deref() == Some(value)), || format!("{value} is not cited"))?;
            is_lost(lines, value)?;
        }
    }
    Ok(())
}

/// Nobody came to have the lock of a key meanwhile, to the last digit that is told, and somebody asked for it.
fn nobody_got_it(lines: &Lines, key: &str, from: &str, long: &str) -> Result<(), String> {
    let ns = |text: &str| (text.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e9) as u64;
    let (from, margin) = (ns(from), 6_000_000);
    let length = (0..200_000u64).map(|ms| ms * 1_000_000).find(|length| is_length(long, *length)).ok_or("no length")?;
    let of_key = || lines.operations.iter().filter(|one| one.key == key);
    let got = of_key().flat_map(|one| lines.stamps(one, "acquired")).map(|place| lines.time(place));
    let meanwhile = got.filter(|time| (from + margin..(from + length).saturating_sub(margin)).contains(time)).count();
    ensure(meanwhile == 0, || format!("{meanwhile} got it"))?;
    let asked =
        of_key().any(|one| one.invoked < from + length && one.answer.is_none_or(|place| lines.time(place) > from));
    ensure(asked, || "nobody asked".to_string())
}
