//! A lock over independent nodes that the library hands out without a majority of them.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ008",
    name: "quorum-too-small",
    title: "The lock is handed out although a majority of the nodes did not grant it.",
    rule: "Any two majorities share a node, so two clients can't both have a majority. With fewer nodes, both can acquire the \
    lock.",
    source: REDIS_LOCKS,
    fix: "Hand the lock out only if more than half of all nodes created the key.",
    commands: &[],
    right: Some(("redlock", "lost-reply")),
    breaks: TWO_HOLDERS,
    inherent: false,
    check,
};

/// A lock that its client received, and its keys at that time.
pub(super) struct Grant<'c, 'a> {
    /// The first act that created a key for it.
    pub first: &'c Act<'a>,
    /// The acts that created the key, one for each node that granted it. Then the number of nodes on which the key existed when
    /// the client received the lock.
    pub granted: Vec<&'c Act<'a>>,
    pub alive: usize,
    /// The number of nodes on the client's list.
    pub of: usize,
    /// The keys that had expired by then.
    pub expired: Vec<Owned<'a>>,
    pub acquired: u64,
}

impl Grant<'_, '_> {
    /// The harm: the granted lock itself does not protect its client.
    pub fn harm(&self, case: &Case) -> Harm {
        case.of(self.first).map_or(Harm::None, |operation| Harm::Ended(operation.index))
    }
}

/// True if most of these attempts, each with the number of nodes that it asked, asked a majority of the nodes. If nodes replicate,
/// or share the keys, a client asks one node at a time.
pub(super) fn asks_a_majority(case: &Case, asked: impl ExactSizeIterator<Item = (usize, usize)>) -> bool {
    let all = asked.len();
    case.run.nodes > 1 && asked.filter(|(place, nodes)| nodes * 2 > case.listed(*place)).count() * 2 > all
}

/// The same of all attempts of a run, by the nodes on which they were to create the key.
pub(super) fn attempts_ask_a_majority(case: &Case) -> bool {
    let mut nodes: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for act in case.acts.all.iter().filter(|act| act.create().is_some()) {
        act.operation.into_iter().for_each(|place| _ = nodes.entry(place).or_default().insert(act.node));
    }
    asks_a_majority(case, nodes.iter().map(|(place, nodes)| (*place, nodes.len())))
}

/// The locks that clients received, if the state of their keys is certain.
pub(super) fn grants<'c, 'a>(case: &'c Case<'a>) -> Vec<Grant<'c, 'a>> {
    // The keys of each operation, by node: the last ones that it created before it had the lock.
    let mut created: BTreeMap<usize, BTreeMap<&str, &Act>> = BTreeMap::new();
    for act in case.acts.all.iter().filter(|act| act.create().is_some()) {
        let Some(place) = act.operation else { continue };
        let operation = &case.history.operations[place];
        let Some((start, _)) = case.history.certain_hold(operation) else { continue };
        if i64::try_from(act.time).is_ok_and(|time| time <= start) && act.time.saturating_add(EDGE) >= operation.invoked
        {
            // A late request may come after the request that created the key.
            let kept = created.entry(place).or_default().entry(act.node).or_insert(act);
            if act.is_done() || !kept.is_done() {
                *kept = act;
            }
        }
    }
    let votes = asks_a_majority(case, created.iter().map(|(place, nodes)| (*place, nodes.len())));
    let mut all = Vec::new();
    for (place, nodes) in created.into_iter().filter(|(_, nodes)| votes || nodes.len() == 1) {
        let operation = &case.history.operations[place];
        let list = if votes { case.list_of(operation) } else { Vec::new() };
        let of = list.len().max(1);
        let Some((start, _)) = case.history.certain_hold(operation) else { continue };
        let error = case.history.clock.map_or(0, |clock| clock.error_ns);
        let Ok(acquired) = u64::try_from(start) else { continue };
        // On each node, it is certain whether the command created the key. A node without such a command was watched meanwhile.
        let began = operation.invoked.saturating_sub(EDGE);
        let is_seen = |node: &String| nodes.contains_key(&**node) || case.acts.was_watched(node, began, acquired);
        if nodes.values().any(|act| act.done.is_none()) || of > 1 && !list.iter().all(is_seen) {
            continue;
        }
        let (mut alive, mut granted, mut expired, mut first, mut is_certain) = (0, Vec::new(), Vec::new(), None, true);
        for act in nodes.values().filter(|act| act.is_done()) {
            granted.push(*act);
            if first.is_none_or(|first: &Act| act.time < first.time) {
                first = Some(*act);
            }
            // The state of the key at the first act after the grant, or its expiry since then.
            let changed = case
                .acts
                .after(act)
                .find(|other| {
                    let ends = |what: Change| !matches!(what, Change::Read | Change::Renew(_) | Change::Persist);
                    other.time > acquired || (other.is_done() && ends(other.what))
                });
            match changed.map(|act| (act.before, act.time)) {
                Some((KeyState::There(owned), _)) if owned.created == act.place && still(&owned, acquired, error) => {
                    alive += 1
                }
                Some((KeyState::There(owned), _)) if owned.created == act.place && over(&owned, acquired, error) => {
                    expired.push(owned);
                }
                Some((KeyState::Absent(end, gone), _)) if end.saturating_add(EDGE + error) < acquired => {
                    let of_creation = || act.create()?.ttl.after().map(|ttl| act.time.saturating_add(ttl));
                    let end = match gone {
                        Some(Gone::Expired(end)) => Some(end),
                        _ => of_creation(),
                    };
                    let end = end.map_or(KeyEnd::Unknown, KeyEnd::At);
                    expired.push(Owned {
                        client: act.client,
                        token: "",
                        created: act.place,
                        since: act.time,
                        end,
                        operation: act.operation,
                    });
                }
                Some((KeyState::Absent(end, _), _)) if end > acquired.saturating_add(EDGE + error) => alive += 1,
                _ => is_certain = false,
            }
        }
        if let Some(first) = first.filter(|_| is_certain) {
            all.push(Grant { first, granted, alive, of, expired, acquired });
        }
    }
    all
}

fn still(owned: &Owned, time: u64, error: u64) -> bool {
    match owned.end {
        KeyEnd::Never => true,
        KeyEnd::At(end) => end > time.saturating_add(EDGE + error),
        KeyEnd::Unknown => false,
    }
}

fn over(owned: &Owned, time: u64, error: u64) -> bool {
    matches!(owned.end, KeyEnd::At(end) if end.saturating_add(EDGE + error) < time)
}

fn check(case: &Case) -> Vec<Finding> {
    grants(case)
        .into_iter()
        .filter(|grant| grant.of > 1 && grant.granted.len() * 2 <= grant.of)
        .map(|grant| {
            let sentence = format!(
                "{} received the lock at {}, though only {} of {} nodes had created its key.",
                grant.first.client,
                moment(grant.acquired),
                grant.granted.len(),
                grant.of
            );
            case.finding(grant.first, &[grant.first.place], &[grant.first.operation], grant.harm(case), sentence)
        })
        .collect()
}
