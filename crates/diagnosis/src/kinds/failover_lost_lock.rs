//! A lock that a primary acknowledged, but that its successor never had.

use super::*;
use base::members::Role;

pub static KIND: Kind = Kind {
    code: "RJ020",
    name: "failover-lost-lock",
    title: "The new primary lacks the key that the old primary had acknowledged.",
    rule: "Redis replicates after it has answered. A primary that dies in between takes the newest locks with it.",
    source: ("Redis, Replication", "https://redis.io/docs/latest/operate/oss_and_stack/management/replication/"),
    fix: "Let the resource refuse late writes, by a fencing token or by comparing, or use a lock on which a majority agrees (etcd, \
        ZooKeeper). WAIT only makes this failure rarer.",
    commands: &["WAIT REPLICAS MILLISECONDS"],
    right: Some(("replicated-guarded", "failover")),
    breaks: TWO_HOLDERS,
    inherent: true,
    check,
};

/// A lock that was acquired on a primary before its failover. Another client acquired it on the successor while its holder still
/// relied on it.
pub(super) struct LostLock<'c, 'a> {
    pub seen: &'a SeenPromotion,
    pub lost: &'c Act<'a>,
    pub took: &'c Act<'a>,
    pub holder: &'a Operation,
}

fn check(case: &Case) -> Vec<Finding> {
    let lost = lost_locks(case).into_iter().filter(|lock| ignored(case, lock).is_none());
    lost.map(|LostLock { seen, lost, took, holder }| {
        let sentence = format!(
            "{} had become the primary by {} without {}'s key, which {} had created at {}; {} created its key on {} at {}.",
            seen.promotion.node,
            moment(seen.time),
            lost.client,
            seen.promotion.instead_of,
            moment(lost.time),
            took.client,
            took.node,
            moment(took.time)
        );
        let of = [lost.operation, took.operation];
        case.finding(took, &[lost.place, took.place], &of, Harm::Ended(holder.index), sentence)
    })
    .collect()
}

pub(super) fn lost_locks<'c, 'a>(case: &'c Case<'a>) -> Vec<LostLock<'c, 'a>> {
    let mut found = Vec::new();
    for seen in &case.history.promotions {
        let (new, old) = (seen.promotion.node.as_str(), seen.promotion.instead_of.as_str());
        let Some(began) = not_before(case, seen) else { continue };
        let is_granted = |act: &&Act| act.is_done() && act.create().is_some() && act.operation.is_some();
        // Certainly acquired before the promotion, on the old primary, and not yet expired.
        for lost in case.acts.all.iter().filter(|act| act.node == old && act.time <= began).filter(is_granted) {
            let Some(end) = lost.create().and_then(|create| create.ttl.after()).map(|ttl| lost.time.saturating_add(ttl)) else {
                continue;
            };
            if end <= began {
                continue;
            }
            let took =
                case.acts.all.iter().filter(|act| act.node == new && act.key == lost.key && act.client != lost.client);
            let took = took
                .filter(is_granted)
                .find(|act| act.time.saturating_add(EDGE) > began && act.time.saturating_add(EDGE) < end);
            let Some(took) = took else { continue };
            let (Some(holder), Some(other)) = (case.of(lost), case.of(took)) else { continue };
            let removed = case
                .acts
                .after(lost)
                .any(|act| act.time <= took.time && act.done != Some(false) && act.what == Change::Remove);
            let of_key = holder.key == seen.promotion.key;
            // Then the new primary may have had the key.
            let struck = case.history.faults.iter().any(|window| {
                let (from, to) = window.span();
                let does = window.kind.does;
                let meanwhile = from <= took.time && to.is_none_or(|to| to >= lost.time);
                meanwhile
                    && window.targets.iter().any(|target| target == new)
                    && (does.wall_clock || does.data != OnData::Kept)
            });
            if of_key && !struck && !removed && case.holds(holder, took.time) && holder.index != other.index {
                found.push(LostLock { seen, lost, took, holder });
            }
        }
    }
    found
}

/// A time before which the promotion certainly did not happen. It is that of a Sentinel's first transaction on the new primary, or
/// else of the first fault that silenced the old primary. None if the history shows neither.
fn not_before(case: &Case, seen: &SeenPromotion) -> Option<u64> {
    let (new, old) = (&seen.promotion.node, &seen.promotion.instead_of);
    let since = begun_after(case.history, seen);
    let is_within = |time: u64| since < time && time <= seen.time;
    let mut of_new = case.commands.iter().filter(|command| command.node == *new && is_within(command.time));
    if of_new.clone().any(|command| command.missed.is_some()) {
        return None;
    }
    let by_sentinel = |from: &str| Role::of(from) == Some(Role::Sentinel);
    let ordered = of_new.find(|command| command.name() == "EXEC" && command.from.as_deref().is_some_and(by_sentinel));
    let silenced = case.history.faults.iter().filter(|window| {
        let (began, healed) = window.span();
        let is_there = began <= seen.time && healed.is_none_or(|healed| healed >= since);
        window.skipped.is_none() && window.kind.does.silences && window.targets.contains(old) && is_there
    });
    ordered.map(|command| command.time).or_else(|| silenced.map(|window| window.inject).min())
}

/// The index of the WAIT of this lock's acquisition, if its client received the lock only when the time of WAIT was over. A WAIT
/// that reaches its replicas ends at once.
pub(super) fn ignored(case: &Case, lock: &LostLock) -> Option<usize> {
    let LostLock { lost, holder, .. } = lock;
    let acquired = holder.phase(Phase::Acquired)?.time();
    let after = case.commands.iter().enumerate().skip(lost.place + 1);
    let mut waits = after.filter(|(_, command)| {
        command.from.as_deref() == Some(lost.client)
            && command.node == lost.node
            && command.time <= acquired
            && command.name() == "WAIT"
    });
    let (place, wait) = waits.next()?;
    let limit = wait.words.get(2)?.parse::<u64>().ok().filter(|limit| *limit > 0)?.checked_mul(1_000_000)?;
    let over = wait.time.checked_add(limit)?;
    // A reply that was late for another reason proves nothing.
    let in_time =
        case.ran(lost.client, wait.time, acquired) && case.replies_pass(lost.client, &wait.node, wait.time, acquired);
    (acquired >= over && in_time).then_some(place)
}
