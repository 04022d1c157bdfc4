//! Did every acknowledged update survive, in an order that agrees with real time?
//!
//! If the values are unique, the result is exact: there is an anomaly iff no order of a key's operations is legal for a register.
//! The parts: the graph of values ([`super::register`]), surviving updates ([`super::lineage`], and under blind writes
//! [`super::rollback`]), real time ([`super::order`]), and the amounts ([`super::amounts`]). This module collects the losses.
//!
//! A write that the resource acknowledged (phase `written`) happened, whatever its client reported later. Any other indeterminate
//! write that no client saw never counts as having happened. This known limit may hide a violation, but never reports a false
//! one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::AnomalyKind;
use super::amounts;
use super::lineage::{Last, Line, LineKind, Lineage};
use super::order;
use super::register::{KeyValues, effective, sent};
use super::rollback;
use super::verdict::{Anomaly, KeyEnd, LostUpdates};
use super::words::{Words, reading, seconds};
use base::mutants::planted;
use model::history::{Function, History, Operation, Outcome, Phase};

pub(super) struct Updates {
    pub anomalies: Vec<Anomaly>,
    pub lost: LostUpdates,
    pub keys: Vec<KeyEnd>,
    /// The indices of the read-modify-writes and compare-and-sets that were acknowledged or seen, and whether the replaced value
    /// is known.
    pub happened: Vec<(u32, bool)>,
    /// For each key with updates, how many of them have an amount that can be compared with their line.
    pub measured: Vec<(String, u64)>,
}

/// Checks each key separately. Near-linear: values are hashed, a key's independent lines are sorted.
pub(super) fn check(history: &History) -> Updates {
    let words = Words::new(history);
    let mut operations = amounts::told_by_lists(&history.operations);
    let ignored = planted("updates.written-in-doubt");
    let done = if ignored { Vec::new() } else { written_in_doubt(&history.operations) };
    for &(place, received) in &done {
        let operation = operations.edit(place);
        operation.outcome = Outcome::Ok;
        // The report carries no index, so it counts as the last of its nanosecond.
        (operation.completed, operation.completed_index) = (Some(received), Some(u64::MAX));
    }
    for (place, operation) in history.operations.iter().enumerate() {
        // A value that a reader's lock protects from writers must still be there when the reader releases it.
        if let Some(until) = history.kept_until(operation) {
            operations.edit(place).invoked = until;
        }
    }
    let in_doubt: HashSet<usize> = done.iter().map(|(place, _)| *place).collect();
    let mut keys: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut acknowledged = 0;
    let (mut happened, mut measured) = (Vec::new(), Vec::new());
    let touches = |operation: &Operation| operation.f != Function::Hold;
    for (place, operation) in operations.iter().enumerate().filter(|(_, operation)| touches(operation)) {
        keys.entry(&operation.key).or_default().push(place);
        acknowledged += u64::from(operation.f.writes() && operation.outcome == Outcome::Ok);
    }
    if planted("updates.last-key") && keys.len() > 1 {
        keys.pop_last();
    }
    let mut anomalies = Vec::new();
    let mut ends = Vec::new();
    for (key, mut places) in keys {
        places.truncate(places.len() - usize::from(planted("updates.last-operation")));
        let mut register = KeyValues::new(&operations, key, &places);
        let mut found = amounts::check(&register, &places, words);
        let (length, wrong) = amounts::lengths(&register, &places, words);
        measured.extend((register.nodes.len() > 1).then(|| (key.to_string(), length)));
        // A client in doubt need not report the value that it replaced, as long as no operation saw its own value.
        let is_asked = |&(place, known): &(usize, bool)| known || !in_doubt.contains(&place) || register.is_seen(place);
        happened.extend(register.happened().filter(is_asked).map(|(place, known)| (place as u32, known)));
        // If a loss was reported already, this has the same cause.
        found.extend(wrong.filter(|_| found.is_empty()));
        found.extend(order::impossible_reads(&mut register, words));
        let mut lineage = Lineage::new(&register, &places);
        found.extend(losses(&register, &lineage, &places, words));
        found.extend(rollback::check(&register, &mut lineage, words));
        found.extend(order::check(&register, &lineage, words));
        let lost = found.iter().map(|anomaly| anomaly.lost.len() as u64).sum();
        let end = amounts::end(&register, &lineage, &places, lost);
        found.extend(amounts::no_room(&register, &lineage, &end, words));
        anomalies.extend(found);
        ends.push(end);
    }
    let count = ends.iter().map(|end| end.lost).sum();
    let fraction = if acknowledged == 0 { 0.0 } else { count as f64 / acknowledged as f64 };
    Updates { anomalies, lost: LostUpdates { count, acknowledged, fraction }, keys: ends, happened, measured }
}

/// The indices of the writes that the resource acknowledged though their clients did not answer `ok`, and when the controller
/// received the reports of it.
fn written_in_doubt(operations: &[Operation]) -> Vec<(usize, u64)> {
    let in_doubt = |operation: &Operation| operation.f.writes() && operation.outcome == Outcome::Info;
    let places = operations.iter().enumerate().filter(|(_, operation)| in_doubt(operation));
    places.filter_map(|(place, operation)| Some((place, operation.phase(Phase::Written)?.received))).collect()
}

/// Updates that one event took out of the lineage.
#[derive(Default)]
struct Gone {
    /// The first nodes of their branches.
    heads: BTreeSet<usize>,
    lost: Vec<usize>,
}

/// Returns one anomaly for each event that removed acknowledged updates from the lineage, however many it removed.
fn losses(register: &KeyValues, lineage: &Lineage, places: &[usize], words: Words) -> Vec<Anomaly> {
    let mut found = Vec::new();
    // Grouped by the node that their branches left and the node that erased them.
    let mut erased: BTreeMap<(usize, Option<usize>), Gone> = BTreeMap::new();
    for line in &lineage.lines {
        match line.kind {
            LineKind::Branch { parent } => {
                for &node in &line.lost {
                    let (head, parent, eraser) = eraser(register, lineage, (line.nodes[0], parent), node);
                    let gone = erased.entry((parent, eraser)).or_default();
                    gone.lost.push(node);
                    gone.heads.insert(head);
                }
                if let (true, Some(survivor)) = (line.lost.is_empty(), lineage.next(parent)) {
                    found.push(two_successors(register, line.nodes[0], survivor, words));
                }
            }
            LineKind::Main(_) => {
                if let (false, Some(last)) = (line.lost.is_empty(), lineage.last) {
                    found.push(left_out(register, lineage, line, last, words));
                }
            }
        }
    }
    let effects = Effects::new(register, places);
    for ((parent, eraser), gone) in erased {
        found.push(match (eraser, lineage.last) {
            (Some(eraser), _) => {
                let is_later = |&node: &usize| comes_after(register, eraser, node_effective(register, node));
                let certain = gone.heads.len() == 1
                    && gone.lost.iter().all(is_later)
                    && effects.nothing_came_between(register, &gone.lost, eraser);
                erasing(register, lineage, (parent, eraser, certain), &gone, words)
            }
            (None, Some(last)) => reverted(register, &gone, last, words),
            (None, None) => unreachable!("only a final read ends a line early"),
        });
    }
    found
}

/// Returns the write that erased a lost update: the first write on the other line that certainly took effect after it. If there
/// is none, the first that was acknowledged after it. Also returns the erased branch, as its first node and the node before it.
/// That is the update's own branch, or a branch that this one left in turn. If a final read missed the update, no write erased
/// it.
fn eraser(
    register: &KeyValues,
    lineage: &Lineage,
    (mut head, mut parent): (usize, usize),
    lost: usize,
) -> (usize, usize, Option<usize>) {
    let over = node_effective(register, lost);
    loop {
        let Some(survivor) = lineage.next(parent) else { return (head, parent, None) };
        let outer = lineage.head(survivor);
        let above = register.nodes[outer].parent().ok();
        if let Some(later) = lineage.first_after(survivor, over) {
            // A write is in doubt only as long as it takes, so a few steps decide.
            let certain = lineage.from(later).iter().take(DOUBTFUL).find(|&&node| comes_after(register, node, over));
            return (head, parent, Some(*certain.unwrap_or(&later)));
        }
        let Some(above) = above else {
            let line = lineage.from(survivor);
            let last = &line[line.len().saturating_sub(DOUBTFUL)..];
            let last = last.iter().find(|&&node| comes_after(register, node, over));
            return (head, parent, last.or(line.last()).copied());
        };
        (head, parent) = (outer, above);
    }
}

/// When the writes of a key were sent and when they took effect, each in order of time.
struct Effects {
    sent: Vec<u64>,
    effective: Vec<u64>,
}

impl Effects {
    /// A write in doubt whose value no client read may take effect at any time after it was sent.
    fn new(register: &KeyValues, places: &[usize]) -> Effects {
        let happened: HashSet<usize> = register.nodes.iter().filter_map(|node| node.writer()).collect();
        let of = |place: usize| &register.operations[place];
        let in_doubt = |place: &usize| of(*place).outcome == Outcome::Info && may_have_sent(of(*place));
        let in_doubt = places.iter().copied().filter(|place| !happened.contains(place)).filter(in_doubt);
        let mut effects = Effects {
            sent: happened.iter().copied().chain(in_doubt).map(|place| sent(of(place))).collect(),
            effective: (0..register.nodes.len()).filter_map(|node| over(register, node)).collect(),
        };
        effects.sent.sort_unstable();
        effects.effective.sort_unstable();
        effects
    }

    /// True if only writes that build on these updates can have taken effect between the last of them and the write of another node.
    fn nothing_came_between(&self, register: &KeyValues, lost: &[usize], later: usize) -> bool {
        let of = |node: usize| &register.operations[writer(register, node)];
        let to = effective(of(later));
        let Some(from) = lost.iter().max_by_key(|node| effective(of(**node))).map(|node| sent(of(*node))) else {
            return false;
        };
        let (mut open, mut built): (Vec<usize>, BTreeSet<usize>) = (lost.to_vec(), lost.iter().copied().collect());
        while let Some(node) = open.pop() {
            let mut in_time = |child: &usize| sent(of(*child)) <= to && built.insert(*child);
            open.extend(register.nodes[node].children.iter().copied().filter(|child| in_time(child)));
        }
        built.insert(later);
        let is_over = |node: usize| over(register, node).is_some_and(|over| over < from);
        let is_between = |node: &&usize| sent(of(**node)) <= to && !is_over(**node);
        let (begun, over) =
            (self.sent.partition_point(|time| *time <= to), self.effective.partition_point(|time| *time < from));
        from <= to && begun - over == built.iter().filter(is_between).count()
    }
}

/// Returns the time by which a node's write had certainly taken effect, in nanoseconds of run time. A write that never ended counts
/// once a client had read its value. None for a root without a writer.
fn over(register: &KeyValues, node: usize) -> Option<u64> {
    let here = &register.nodes[node];
    let operation = &register.operations[here.writer()?];
    if operation.completed.is_some() || operation.phases.has(Phase::Written) {
        return Some(effective(operation));
    }
    let reads = here.reads.iter().map(|read| read.completed);
    let seen = reads.chain(here.children.iter().map(|&child| register.nodes[child].completed));
    Some(seen.min().map_or(u64::MAX, |(time, _)| time))
}

/// Returns true if an operation may have sent a write. A client with phases reports `before-write` first.
fn may_have_sent(operation: &Operation) -> bool {
    let tells = operation.f.is_locked() && !operation.phases.is_empty();
    operation.f.writes() && (!tells || operation.phases.has(Phase::BeforeWrite))
}

/// At most this many writes of a line are searched for a write that certainly came after an update.
const DOUBTFUL: usize = 16;

/// True if a node's write certainly took effect after a time: it was sent later, or a client that asked later saw the written
/// value.
fn comes_after(register: &KeyValues, node: usize, moment: u64) -> bool {
    let here = &register.nodes[node];
    sent(&register.operations[writer(register, node)]) >= moment
        || here.reads.iter().any(|read| read.invoked.0 >= moment)
        || here.children.iter().any(|&child| register.nodes[child].invoked.0 >= moment)
}

/// Several operations read one value, and the lineage continued with a later one of these branches. The lost update's value may
/// have been gone before the eraser's write. Then the text says only that the write does not build on it.
fn erasing(
    register: &KeyValues,
    lineage: &Lineage,
    (parent, eraser, certain): (usize, usize, bool),
    gone: &Gone,
    words: Words,
) -> Anomaly {
    let survivor = writer(register, lineage.next(parent).unwrap_or(eraser));
    let eraser = writer(register, eraser);
    let heads: Vec<usize> = gone.heads.iter().map(|&node| writer(register, node)).collect();
    let time = effective(&register.operations[eraser]);
    let lost = places(register, &gone.lost);
    let readers = words.readers(
        std::iter::once(survivor).chain(heads.iter().copied()),
        &reading(register.key, &register.operations[survivor].old),
    );
    let builds_on = if eraser == survivor {
        String::new()
    } else {
        format!(" (based on {}'s {})", words.client(survivor), words.new_value(survivor))
    };
    let on_others = if heads.iter().any(|head| lost.contains(head)) {
        String::new()
    } else {
        let verb = if lost.len() == 1 { "is" } else { "are" };
        format!("{verb} based on {} and ", words.new_values(&heads))
    };
    let was = if lost.len() == 1 { "was" } else { "were" };
    let acknowledged = if lost.iter().all(|&place| effective(&register.operations[place]) <= time) {
        "had been acknowledged".to_string()
    } else {
        format!("{was} nevertheless acknowledged")
    };
    let (by, new, lost_values) = (words.client(eraser), words.new_value(eraser), words.new_values(&lost));
    let wrote = match certain {
        true => format!("{by}'s write of {new}{builds_on} at {} erased {lost_values}", seconds(time)),
        false => format!("{by} wrote {new}{builds_on} at {} without reading {lost_values}", seconds(time)),
    };
    let summary = format!("{readers}; {wrote}, which {on_others}{acknowledged}");
    let mut places = vec![heads[0], eraser];
    places.extend(&heads[1..]);
    places.extend((survivor != eraser).then_some(survivor));
    lost_update(register, time, places, &lost, summary)
}

/// The final read saw a value that acknowledged updates had replaced.
fn reverted(register: &KeyValues, gone: &Gone, last: Last, words: Words) -> Anomaly {
    let read = &register.operations[last.operation];
    let time = read.completed.unwrap_or(read.invoked);
    let heads = gone.heads.iter().map(|&node| writer(register, node));
    let involved = heads.clone().take(1).chain([last.operation]).chain(heads.skip(1)).collect();
    let lost = places(register, &gone.lost);
    let (is, was) = if lost.len() == 1 { ("is", "it was") } else { ("are", "they were") };
    let summary = format!(
        "the final read at {} found {}, but {} {is} gone, although {was} acknowledged and based on that value",
        seconds(time),
        reading(register.key, &read.old),
        words.new_values(&lost),
    );
    lost_update(register, time, involved, &lost, summary)
}

/// Acknowledged updates in a separate lineage that fits neither before nor after the lineage of the last value.
fn left_out(register: &KeyValues, lineage: &Lineage, line: &Line, last: Last, words: Words) -> Anomaly {
    let lost = places(register, &line.lost);
    let written = node_effective(register, line.lost[0]);
    let overwriter = lineage.first_after(lineage.head(last.node), written).map(|node| writer(register, node));
    let by = overwriter.unwrap_or(last.operation);
    let operation = &register.operations[by];
    let time =
        if overwriter.is_some() { effective(operation) } else { operation.completed.unwrap_or(operation.invoked) };
    let summary = format!(
        "{} of {} had been acknowledged, but the value that {} saw at {} builds on other values only",
        words.new_values(&lost),
        register.key,
        words.client(last.operation),
        seconds(register.operations[last.operation].completed.unwrap_or_default()),
    );
    lost_update(register, time, vec![lost[0], by], &lost, summary)
}

/// Two operations replaced one value, but no acknowledged update was lost.
fn two_successors(register: &KeyValues, loser: usize, survivor: usize, words: Words) -> Anomaly {
    let places = vec![writer(register, loser), writer(register, survivor)];
    let time = places.iter().map(|&place| effective(&register.operations[place])).max().unwrap_or_default();
    let summary = format!(
        "{}, and the values that they then wrote, {}, were acknowledged or seen: no order allows that",
        words.readers(places.iter().copied(), &reading(register.key, &register.operations[places[0]].old)),
        words.new_values(&places),
    );
    order::anomaly(register, AnomalyKind::OrderViolation, time, places, summary)
}

fn lost_update(register: &KeyValues, time: u64, places: Vec<usize>, lost: &[usize], summary: String) -> Anomaly {
    let lost = lost.iter().map(|&place| register.operations[place].index).collect();
    Anomaly { lost, ..order::anomaly(register, AnomalyKind::LostUpdate, time, places, summary) }
}

/// The indices of the operations that wrote these nodes, in the order of the history.
fn places(register: &KeyValues, nodes: &[usize]) -> Vec<usize> {
    let mut places: Vec<usize> = nodes.iter().map(|&node| writer(register, node)).collect();
    places.sort_unstable();
    places
}

fn writer(register: &KeyValues, node: usize) -> usize {
    register.nodes[node]
        .writer()
        .expect("only a root has no writer, and what is lost or overwrites is no root without one")
}

fn node_effective(register: &KeyValues, node: usize) -> u64 {
    effective(&register.operations[writer(register, node)])
}
