//! The final state of a run's counters or lists, in words: their final amounts, and the number of acknowledged updates.

use super::story::Story;
use base::words::{count, plural, sanitize};
use checker::KeyEnd;
use model::history::ResourceKind;

/// The totals over all keys.
struct Sum {
    kind: ResourceKind,
    acknowledged: u64,
    unacknowledged: u64,
    amount: u64,
}

/// `the counter k0 ends at 93 after 100 acknowledged increments`. None without amounts or a final read of each key.
pub(super) fn end_of_all(story: &Story) -> Option<String> {
    let sum = sum(story)?;
    let acknowledged = count(sum.acknowledged);
    Some(match sum.kind {
        ResourceKind::List => format!("{}; {acknowledged} were acknowledged", where_it_ends(story, &sum)),
        _ => format!("{} after {acknowledged} acknowledged increments", where_it_ends(story, &sum)),
    })
}

/// Like [`end_of_all`], after a sentence with the number of acknowledged updates: `: the counter k0 ends at 93`.
pub(super) fn and_the_end(story: &Story) -> String {
    sum(story).map_or(String::new(), |sum| format!(": {}", where_it_ends(story, &sum)))
}

/// `4 of 5 lost updates`; None if there is only one key.
pub(super) fn keys(story: &Story) -> Option<String> {
    let keys = &story.subject.verdict.keys;
    let losers = keys.iter().filter(|key| key.lost > 0).count() as u64;
    (keys.len() > 1).then(|| format!("{} of {} keys lost updates", count(losers), count(keys.len() as u64)))
}

/// The number of lost updates that no anomaly names.
pub(super) fn unnamed_losses(story: &Story) -> u64 {
    story.subject.verdict.keys.iter().map(|key| key.lost_unnamed).sum()
}

/// The word for an update of this resource.
pub(super) fn update(story: &Story) -> &'static str {
    match story.resource() {
        Some(ResourceKind::Counter) => "increment",
        Some(ResourceKind::List) => "element",
        _ => "update",
    }
}

fn where_it_ends(story: &Story, sum: &Sum) -> String {
    let amount = count(sum.amount);
    let elements = plural(sum.amount, "element");
    let keys = &story.subject.verdict.keys;
    let end = match (sum.kind, &keys[..]) {
        (ResourceKind::List, [key]) => format!("the list {} ends with {elements}", name(key)),
        (ResourceKind::List, _) => format!("the {} lists end with {elements} in all", count(keys.len() as u64)),
        (_, [key]) => format!("the counter {} ends at {amount}", name(key)),
        (_, _) => format!("the {} counters add up to {amount}", count(keys.len() as u64)),
    };
    match sum.unacknowledged {
        0 => end,
        many => format!("{end} ({} of them never acknowledged)", count(many)),
    }
}

fn sum(story: &Story) -> Option<Sum> {
    let kind = story.resource().filter(|kind| matches!(kind, ResourceKind::Counter | ResourceKind::List))?;
    let keys = &story.subject.verdict.keys;
    let amount = keys.iter().map(|key| key.amount).sum::<Option<u64>>().filter(|_| !keys.is_empty())?;
    let of_all = |number: fn(&KeyEnd) -> u64| keys.iter().map(number).sum();
    Some(Sum {
        kind,
        amount,
        acknowledged: of_all(|key| key.acknowledged),
        unacknowledged: of_all(|key| key.unacknowledged),
    })
}

fn name(key: &KeyEnd) -> String {
    sanitize(&key.key, 30)
}
