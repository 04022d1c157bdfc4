//! A lock that the library hands out although the server refused it.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ046",
    name: "refusal-ignored",
    title: "The lock is handed out although the server refused it.",
    rule: "If the key is there, SET with NX answers nil, and INCR a number above 1. Then another client has the lock.",
    source: REDIS_SET,
    fix: "If the reply to the creating command says that the key was there, report that the lock was not acquired.",
    commands: &["SET KEY TOKEN NX PX TTL"],
    right: Some(("single", "none")),
    breaks: TWO_HOLDERS,
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

fn finding(case: &Case, place: usize, operation: &Operation) -> Option<Finding> {
    let (start, _) = case.history.certain_hold(operation)?;
    let acquired = u64::try_from(start).ok()?;
    let before = |act: &&Act| act.time <= acquired.saturating_add(EDGE);
    // All its requests for the lock were refused, by one node: over several nodes a majority decides.
    let asked: Vec<&Act> = case.acts.of_operation(place).filter(before).filter(|act| act.what != Change::Read).collect();
    let last = asked.last()?;
    let is_refused = |act: &&Act| {
        act.done == Some(false) && act.node == last.node && act.create().is_some_and(|create| create.only == Only::IfAbsent)
    };
    let owner = last.owner()?;
    let is_own = last.create().is_some_and(|create| create.token == owner.token && !owner.token.is_empty());
    // A releasing client may set the key for the next client. So the owner must still rely on the lock, and its key must have
    // existed.
    let holder = case.operation(owner.operation)?;
    let has_it = holder.index != operation.index && case.holds(holder, acquired) && !is_gone(case, last, &owner, acquired);
    let (from, to) = (operation.invoked.saturating_sub(EDGE), acquired.saturating_add(EDGE));
    let is_whole = (0..case.run.nodes).all(|node| case.acts.was_watched(&format!("n{node}"), from, to));
    if !asked.iter().all(is_refused) || owner.client == last.client || is_own || !has_it || !is_whole {
        return None;
    }
    let sentence = format!(
        "{} found {}'s key{}, and {} received the lock at {} anyway.",
        case.did(last),
        owner.client,
        on(case, last.node),
        last.client,
        moment(acquired)
    );
    let of = [last.operation, owner.operation];
    Some(case.finding(last, &[owner.created, last.place], &of, Harm::Misled(operation.index), sentence))
}

/// True if the key of this owner may have ended between an act that found it and a time.
fn is_gone(case: &Case, met: &Act, owner: &Owned, until: u64) -> bool {
    let expired = end_of(owner).is_some_and(|end| end <= until.saturating_add(EDGE));
    let mut later = case.acts.after(met).take_while(|act| act.time <= until.saturating_add(EDGE));
    let changed = later.any(|act| {
        act.done != Some(false) && matches!(act.what, Change::Remove | Change::Create(_) | Change::Other)
    });
    expired || owner.end == KeyEnd::Unknown || changed
}
