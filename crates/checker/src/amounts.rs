//! Counters and lists: do the amounts that clients read agree with the updates, and what is the final amount?
//!
//! A counter or list stores the identity of its last update next to its amount (`resource`). So lost updates follow from the
//! identities, as for any register. Amounts are separate evidence, against faulty clients and resources:
//! - with any lock, a reader of a value finds the amount that the value's writer left: one more than the writer had read;
//! - in a list that was read whole, each element follows the element that its writer had read. So the elements are exactly the
//!   line of descent that [`super::lineage`] finds, and a missing acknowledged element is lost there too.
//!
//! If a writer did not report the value that it had read, amounts settle what the identities leave open. A list shows the value
//! directly; a counter has no room for more updates than its number.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::AnomalyKind;
use super::known::Known;
use super::lineage::Lineage;
use super::order;
use super::register::{EMPTY, KeyValues, Root, completed, invoked, written};
use super::verdict::{Anomaly, KeyEnd};
use super::words::{Words, list, reading};
use base::mutants::planted;
use base::words::plural;
use model::history::{Amount, Operation, Outcome, Process, Reading};

/// For each value, the operation that was meant to write it, as an index in the history.
type Writers<'h> = HashMap<&'h str, usize>;

/// The operations. Unknown readings are filled in from the lists that were read whole.
pub(super) fn told_by_lists(operations: &[Operation]) -> Known<'_> {
    let mut known = Known::new(operations);
    let reads: Vec<&Operation> = operations.iter().filter(|operation| elements(operation).is_some()).collect();
    let mut writers = Writers::new();
    if !reads.is_empty() {
        writers.extend(operations.iter().enumerate().filter_map(|(place, writer)| Some((written(writer)?, place))));
    }
    // A list with a flaw proves nothing.
    let told = Known::new(operations);
    for read in reads.into_iter().filter(|read| flaw(&told, &writers, read).is_none()) {
        let mut before = Reading::Empty;
        for (element, count) in elements(read).unwrap_or_default().iter().zip(0..) {
            let (writer, old) = (writers[element.as_str()], before);
            before = Reading::Value(element.into());
            if operations[writer].old == Reading::Unknown {
                let writer = known.edit(writer);
                (writer.old, writer.amount) = (old, Some(Amount::Count(count)));
                if writer.outcome != Outcome::Ok {
                    // The writer wrote this value at some time, but not necessarily before its completion.
                    (writer.completed, writer.completed_index) = (None, None);
                }
            }
        }
    }
    known
}

/// Returns one anomaly for each value that was read with an amount other than its writer left, and for each list with a flaw.
/// Takes time linear in the number of values and elements read.
pub(super) fn check(register: &KeyValues, places: &[usize], words: Words) -> Vec<Anomaly> {
    let operations = register.operations;
    if places.iter().all(|&place| operations[place].amount.is_none()) {
        return Vec::new();
    }
    let writers = writers(operations, places.iter().copied());
    let mut found = wrong_counts(register, places, &writers, words);
    for &place in places {
        match flaw(operations, &writers, &operations[place]) {
            // If the last element is from nowhere, its value was already reported.
            Some(Flaw::FromNowhere(element, _)) if operations[place].old == Reading::Value(element.into()) => {}
            Some(flaw) => {
                let mut anomaly = flaw.told(register, place, words);
                anomaly.summary.push_str(&absent(operations, places, &operations[place]));
                found.push(anomaly);
            }
            None => {}
        }
    }
    found
}

fn wrong_counts(register: &KeyValues, places: &[usize], writers: &Writers, words: Words) -> Vec<Anomaly> {
    let operations = register.operations;
    // By value: the operation that left or first read it, with its count, and the readers of a different count.
    let mut left: HashMap<&str, (usize, u64)> = HashMap::new();
    let mut wrong: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (&value, &writer) in writers {
        let count = operations[writer].amount.as_ref().map(Amount::count);
        left.extend(count.map(|count| (value, (writer, count.saturating_add(1)))));
    }
    for &place in places {
        let operation = &operations[place];
        let Some(count) = operation.amount.as_ref().map(Amount::count) else { continue };
        match &operation.old {
            Reading::Empty if count != 0 => wrong.entry(None).or_default().push(place),
            // If the writer did not report the count that it left, all readers must find the same count.
            Reading::Value(value) if left.entry(value).or_insert((place, count)).1 != count => {
                wrong.entry(Some(value)).or_default().push(place);
            }
            Reading::Value(_) | Reading::Empty | Reading::Unknown => {}
        }
    }
    let told = |(value, readers): (Option<&str>, Vec<usize>)| {
        let mut counts: Vec<String> = readers.iter().filter_map(|&place| count_of(&operations[place])).collect();
        counts.dedup();
        let read = format!(
            "{} read {} with a count of {}",
            words.clients(readers.iter().copied()),
            reading(register.key, &operations[readers[0]].old),
            list(&counts)
        );
        let other = value.and_then(|value| left.get(value)).copied();
        let but = match other {
            None => "although an empty key has no amount".to_string(),
            Some((writer, left)) if operations[writer].new.as_deref() == value => {
                format!("but {} had left a count of {left}", words.client(writer))
            }
            Some((reader, count)) => format!("but {} had read it with a count of {count}", words.client(reader)),
        };
        let places = readers.iter().copied().chain(other.map(|(place, _)| place)).collect();
        impossible(register, readers[0], places, format!("{read}, {but}"))
    };
    wrong.into_iter().map(told).collect()
}

/// Compares each amount that was read with the number of updates between the empty key and its value. Returns how many updates
/// led to the final read (0 if its amount cannot be compared), and the first amount that does not fit. Linear.
pub(super) fn lengths(register: &KeyValues, places: &[usize], words: Words) -> (u64, Option<Anomaly>) {
    // How many updates each value descends from; None if part of its descent is unknown.
    let mut depth: Vec<Option<u64>> = vec![None; register.nodes.len()];
    for &node in &register.order {
        depth[node] = match register.nodes[node].parent() {
            Ok(parent) => depth[parent].map(|above| above + 1),
            Err(Root::Empty) => Some(0),
            Err(Root::Unknown | Root::Broken) => None,
        };
    }
    let mut measured = 0;
    let mut first = None;
    for &place in places {
        let operation = &register.operations[place];
        let Some(count) = operation.amount.as_ref().map(Amount::count) else { continue };
        let Some(length) = register.node_of(&operation.old).and_then(|node| depth[node]) else { continue };
        if operation.process == Process::Controller {
            measured = length;
        }
        if count != length && first.is_none() {
            let summary = format!(
                "{} read {} with a count of {count}, but that value is the result of {length} updates of the empty key",
                words.client(place),
                reading(register.key, &operation.old),
            );
            let time = operation.completed.unwrap_or(operation.invoked);
            first = Some(order::anomaly(register, AnomalyKind::WrongAmount, time, vec![place], summary));
        }
    }
    (measured, first)
}

/// Why a list is impossible.
enum Flaw<'h> {
    /// The element is already in the list.
    Twice(&'h str),
    /// No client was ever asked to append this element, or its append certainly failed.
    FromNowhere(&'h str, Option<usize>),
    /// The element's writer had read something other than the element before it.
    Misplaced(&'h str, usize),
    /// The last element of the list is not the update that was read as the last.
    OtherEnd,
}

/// The first flaw of a list; None if the list is sound or was not read whole.
fn flaw<'h>(operations: &Known, writers: &Writers, read: &'h Operation) -> Option<Flaw<'h>> {
    let whole = elements(read)?;
    let mut before = Reading::Empty;
    let mut seen = HashSet::new();
    for element in whole {
        let writer = writers.get(element.as_str()).copied().filter(|&writer| operations[writer].key == read.key);
        match writer.map(|writer| (writer, &operations[writer])) {
            _ if !seen.insert(element) => return Some(Flaw::Twice(element)),
            None => return Some(Flaw::FromNowhere(element, None)),
            Some((writer, operation)) if operation.outcome == Outcome::Fail => {
                return Some(Flaw::FromNowhere(element, Some(writer)));
            }
            Some((writer, operation)) if operation.old != Reading::Unknown && operation.old != before => {
                return Some(Flaw::Misplaced(element, writer));
            }
            Some(_) => before = Reading::Value(element.into()),
        }
    }
    (read.old != before).then_some(Flaw::OtherEnd)
}

impl Flaw<'_> {
    fn told(&self, register: &KeyValues, place: usize, words: Words) -> Anomaly {
        let (key, who) = (register.key, words.client(place));
        let (summary, writer) = match *self {
            Flaw::Twice(element) => (format!("{who} found {element} twice in the list of {key}"), None),
            Flaw::FromNowhere(element, None) => {
                let none = format!("but no client was asked to append {element}");
                (format!("{who} found {element} in the list of {key}, {none}"), None)
            }
            Flaw::FromNowhere(element, Some(writer)) => {
                let failed = format!("although {} had reported that appending it failed", words.client(writer));
                (format!("{who} found {element} in the list of {key}, {failed}"), Some(writer))
            }
            Flaw::Misplaced(element, writer) => {
                let had = reading(key, &register.operations[writer].old);
                let summary = format!(
                    "{who} found {element} at the wrong position in the list of {key}: {} had appended it after reading {had}",
                    words.client(writer)
                );
                (summary, Some(writer))
            }
            Flaw::OtherEnd => (format!("{who} read a list of {key} that does not end with its last update"), None),
        };
        impossible(register, place, std::iter::once(place).chain(writer).collect(), summary)
    }
}

/// How many elements that were acknowledged before the read are missing from the list, as the end of a sentence.
fn absent(operations: &Known, places: &[usize], read: &Operation) -> String {
    let there: HashSet<&str> = elements(read).unwrap_or_default().iter().map(String::as_str).collect();
    let before = places.iter().map(|&place| &operations[place]);
    let before = before.filter(|update| update.outcome == Outcome::Ok && completed(update) < invoked(read));
    match before.filter_map(written).filter(|element| !there.contains(element)).count() as u64 {
        0 => String::new(),
        1 => "; 1 acknowledged element is not in it".to_string(),
        many => format!("; {many} acknowledged elements are not in it"),
    }
}

/// The final state of a key: its amount after the last update, and its acknowledged updates. `lost` of these updates were found
/// to be lost.
pub(super) fn end(register: &KeyValues, lineage: &Lineage, places: &[usize], lost: u64) -> KeyEnd {
    let (operations, nodes) = (register.operations, &register.nodes);
    let is_update = |place: &&usize| written(&operations[**place]).is_some();
    let updates = places.iter().filter(is_update);
    let acknowledged = updates.filter(|&&place| operations[place].outcome == Outcome::Ok).count() as u64;
    let mut end = KeyEnd { key: register.key.to_string(), acknowledged, lost, ..KeyEnd::default() };
    let Some(last) = lineage.last.filter(|last| last.is_final) else { return end };
    // The updates from which the last value certainly descends, acknowledged or not.
    let (mut survivors, mut unacknowledged) = (0, 0);
    let mut node = last.node;
    let root = loop {
        survivors += u64::from(nodes[node].acknowledged);
        unacknowledged += u64::from(!nodes[node].acknowledged && node != EMPTY);
        match nodes[node].parent() {
            Ok(parent) => node = parent,
            Err(root) => break root,
        }
    };
    end.unacknowledged = unacknowledged;
    end.amount = operations[last.operation].amount.as_ref().map(Amount::count);
    if let Some(amount) = end.amount {
        if root == Root::Unknown {
            // Other updates may have survived too, but there is only this much room for them before the first known update.
            let room =
                amount.saturating_sub(survivors + unacknowledged) + u64::from(planted("amounts.room-for-one-more"));
            end.lost_unnamed = acknowledged.saturating_sub(survivors + lost + room);
            end.lost += end.lost_unnamed;
        }
        // All further updates are there without an acknowledgement, even if only part of the descent is known.
        end.unacknowledged = (amount + end.lost).saturating_sub(acknowledged);
    }
    end
}

/// Reports the updates that the amount has no room for, if it is unknown which updates they are.
pub(super) fn no_room(register: &KeyValues, lineage: &Lineage, end: &KeyEnd, words: Words) -> Option<Anomaly> {
    let (last, amount) = (lineage.last?, end.amount?);
    let more = if end.lost > end.lost_unnamed { "further " } else { "" };
    let summary = format!(
        "{} read a final count of {amount} for {}: too small by {}",
        words.client(last.operation),
        register.key,
        plural(end.lost_unnamed, &format!("{more}acknowledged update")),
    );
    let operation = &register.operations[last.operation];
    let time = operation.completed.unwrap_or(operation.invoked);
    let anomaly = || order::anomaly(register, AnomalyKind::LostUpdate, time, vec![last.operation], summary);
    (end.lost_unnamed > 0).then(anomaly)
}

fn writers<'h>(operations: &'h Known, places: impl Iterator<Item = usize>) -> Writers<'h> {
    places.filter_map(|place| written(&operations[place]).map(|new| (new, place))).collect()
}

fn elements(operation: &Operation) -> Option<&[String]> {
    match &operation.amount {
        Some(Amount::Elements(elements)) if operation.outcome == Outcome::Ok => Some(elements),
        _ => None,
    }
}

fn count_of(operation: &Operation) -> Option<String> {
    operation.amount.as_ref().map(|amount| amount.count().to_string())
}

fn impossible(register: &KeyValues, read: usize, places: Vec<usize>, summary: String) -> Anomaly {
    let read = &register.operations[read];
    let time = read.completed.unwrap_or(read.invoked);
    order::anomaly(register, AnomalyKind::ImpossibleRead, time, places, summary)
}
