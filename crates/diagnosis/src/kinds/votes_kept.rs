//! An acquisition without a majority that keeps its keys until its next try.

use super::*;
use super::quorum_too_small::attempts_ask_a_majority;
use super::retry_meets_own_lock::RESENT;

pub static KIND: Kind = Kind {
    code: "RJ037",
    name: "votes-kept",
    title: "A client without a majority keeps its keys between its attempts.",
    rule: "If several clients each keep some nodes, none of them gets a majority. So an attempt without a majority must release \
        all nodes before the next attempt.",
    source: REDIS_LOCKS,
    fix: "After an attempt without a majority, send the release to all nodes. Then wait for a random time before the next attempt.",
    commands: super::COMPARE_AND_DELETE,
    right: Some(("redlock", "split-votes")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // A lock on one of several nodes has no votes.
    if !attempts_ask_a_majority(case) {
        return Vec::new();
    }
    let operations = case.history.operations.iter().enumerate();
    operations.filter_map(|(place, operation)| finding(case, place, operation)).collect()
}

fn finding(case: &Case, place: usize, operation: &Operation) -> Option<Finding> {
    let acquired = operation.phase(Phase::Acquired).map_or(u64::MAX, |stamp| stamp.time());
    let acts: Vec<&Act> = case.acts.of_operation(place).filter(|act| act.time < acquired).collect();
    let created = || acts.iter().filter(|act| act.is_done() && act.create().is_some());
    let again = acts.iter().find(|again| is_next_try(case, created().copied(), again))?;
    let own = created().find(|own| again.owner().is_some_and(|owner| owner.created == own.place))?;
    // A release that another node executed may have been lost on its way to this one.
    let released = acts.iter().any(|act| act.time >= own.time && act.time <= again.time && act.what == Change::Remove);
    if released
        || tried_to_release(case, &acts, own, again)
        || !case.requests_pass(own.client, own.node, operation.invoked.saturating_sub(case.ttl), again.time)
    {
        return None;
    }
    // A node may have accepted the value even if that is not certain.
    let accepted = acts.iter().filter(|act| act.done != Some(false) && act.create().is_some() && act.time <= again.time);
    let nodes: BTreeSet<&str> = accepted.map(|act| act.node).collect();
    if nodes.len() * 2 > case.listed(place) {
        return None;
    }
    // The keys of the same try, each still seen after the last of them was created. A network may deliver a request of an earlier
    // try long after its client has sent the releases.
    let token = own.create()?.token;
    let mut of_token = case.acts.all.iter().filter(|act| act.create().is_some_and(|one| one.token == token));
    let tried = of_token.next().map_or(own.time, |first| first.time);
    if own.time > tried.saturating_add(case.ttl / 10) {
        return None;
    }
    let is_of_try = |act: &Act| act.time <= own.time.saturating_add(RESENT);
    let of_try = || created().filter(|act| is_of_try(act) && act.create().is_some_and(|one| one.token == token));
    let since = of_try().map(|act| act.time).max()?;
    let stays = |act: &&&Act<'_>| {
        let is_its = |later: &Act| later.owner().is_some_and(|owner| owner.created == act.place);
        case.acts.after(act).any(|later| later.time >= since && is_its(later))
    };
    let kept: BTreeSet<&str> = of_try().filter(stays).map(|act| act.node).collect();
    let sentence = format!(
        "{} held its key on {} of {} nodes {}, and still held it {} later, when it asked again.",
        own.client,
        kept.len(),
        case.listed(place),
        at(since),
        length(again.time.saturating_sub(since))
    );
    Some(case.finding(again, &[own.place, again.place], &[again.operation], Harm::Waited, sentence))
}

/// True if the client called between these acts a script that removes keys in this run, and found nothing to remove.
fn tried_to_release(case: &Case, acts: &[&Act], own: &Act, again: &Act) -> bool {
    let script = |act: &Act| case.commands[act.sent].words.get(1);
    let releases = |act: &Act| {
        case.acts
            .all
            .iter()
            .any(|other| other.sent != other.place && other.what == Change::Remove && script(other) == script(act))
    };
    let between = acts.iter().filter(|act| act.sent != act.place && act.time > own.time && act.time < again.time);
    between.filter(|act| act.what == Change::Read).any(|act| releases(act))
}

/// True if an act asks for the key again on a node where its client's own key still exists.
fn is_next_try<'c, 'a: 'c>(case: &Case, mut created: impl Iterator<Item = &'c Act<'a>>, again: &Act) -> bool {
    let Some(owner) = again.owner() else { return false };
    let asks = match again.what {
        Change::Create(create) => create.only == Only::IfAbsent || again.is_done(),
        // The first TTL of a key completes the try that created it.
        Change::Renew(_) => again.extended(),
        _ => false,
    };
    asks && created
        .any(|own| own.place == owner.created && own.sent != again.sent && own.time.saturating_add(RESENT) < again.time)
        && case.acts.was_watched(again.node, owner.since, again.time)
}
