//! A waiter that asks a node for the lock again and again, with hardly a pause.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ043",
    name: "busy-polling",
    title: "A waiter asks for the lock hundreds of times per second while another client has it.",
    rule: "A server executes one command at a time. Requests that can't succeed take its time from the holder's renewal and \
    release.",
    source: REDIS_LOCKS,
    fix: "Wait for a random time of a few milliseconds before each further request, or wait for the release message.",
    commands: &[],
    right: Some(("single", "none")),
    breaks: WAITS,
    inherent: false,
    check,
};

fn check(case: &Case) -> Vec<Finding> {
    // By operation and node, the requests that found another client's key.
    let mut refused: BTreeMap<(usize, &str), Vec<&Act>> = BTreeMap::new();
    for act in &case.acts.all {
        let is_refused = act.owner().is_some_and(|owner| owner.client != act.client)
            && (act.done != Some(true) || act.what == Change::Read);
        if let Some(operation) = act.operation.filter(|_| is_refused) {
            let requests = refused.entry((operation, act.node)).or_default();
            if requests.last().is_none_or(|last| last.sent != act.sent) {
                requests.push(act);
            }
        }
    }
    refused.into_iter().filter_map(|((operation, _), requests)| finding(case, operation, requests)).collect()
}

fn finding(case: &Case, operation: usize, mut requests: Vec<&Act>) -> Option<Finding> {
    let waiter = case.operation(Some(operation))?;
    let from = waiter.phase(Phase::Acquiring)?.time();
    let until = waiter.phase(Phase::Acquired).map(PhaseStamp::time).or(waiter.completed)?;
    requests.retain(|act| (from..until).contains(&act.time));
    let (first, last) = (requests.first()?, requests.last()?);
    let took = last.time.saturating_sub(first.time);
    let per_second = u64::try_from((requests.len() as u128 - 1) * 1_000_000_000 / u128::from(took.max(1))).ok()?;
    if took < SHORT_WAIT_NS || per_second <= BUSY_PER_SECOND {
        return None;
    }
    let sentence = format!(
        "{} asked for the key{} {} times between {} and {}, {} times per second, while another client had it.",
        first.client,
        on(case, first.node),
        count(requests.len() as u64),
        moment(first.time),
        moment(last.time),
        count(per_second)
    );
    Some(case.finding(first, &[first.place, last.place], &[first.operation], Harm::None, sentence))
}
