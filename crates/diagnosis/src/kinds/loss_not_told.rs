//! A renewal that finds the lock lost, while the holder keeps working.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ026",
    name: "loss-not-told",
    title: "The renewal finds that the lock is lost, and the library does not report it to the holder.",
    rule: "A holder that does not learn of the loss writes without the lock. The library should tell it when a renewal finds the \
        key gone, or another client's key.",
    source: REDIS_LOCKS,
    fix: "If the renewal finds no key or another value, end the lock for its holder: cancel its context, call its handler, or make \
          each later call fail.",
    commands: &[],
    right: Some(("redlock-watchdog", "long-work")),
    breaks: &[Claim::Updates, Claim::MutualExclusion, Claim::Amounts, Claim::Losses],
    inherent: false,
    check,
};

/// The library must report the loss within this time, or a quarter of a TTL if that is longer. In ns.
const TO_TELL: u64 = 200_000_000;

fn check(case: &Case) -> Vec<Finding> {
    // The renewals that found the lock lost, by operation.
    let mut found: BTreeMap<usize, Vec<&Act>> = BTreeMap::new();
    let calls = Calls::of(case);
    for act in case.acts.all.iter().filter(|act| is_lost(act) && calls.is_renewal(case, act)) {
        if let Some(place) = act.operation {
            found.entry(place).or_default().push(act);
        }
    }
    found.into_iter().filter_map(|(place, acts)| finding(case, &case.history.operations[place], &acts)).collect()
}

fn finding(case: &Case, operation: &Operation, acts: &[&Act]) -> Option<Finding> {
    let place = acts[0].operation?;
    // The nodes on which the holder had the key, and the nodes among them on which it was gone. Without a majority the lock is
    // lost.
    let created = case.acts.of_operation(place).filter(|act| act.is_done() && act.create().is_some());
    let had: BTreeSet<&str> = created.map(|act| act.node).collect();
    let mut gone = BTreeSet::new();
    let act = acts.iter().filter(|act| had.contains(act.node)).find(|act| {
        gone.insert(act.node);
        let left = had.len() - gone.len();
        left == 0 || (had.len() > 1 && left * 2 <= case.listed(place))
    })?;
    let is_work = |stamp: &PhaseStamp| {
        matches!(stamp.phase, Phase::Owned | Phase::BeforeWrite | Phase::Written | Phase::Releasing)
    };
    // The release may report it, but that is too late for the work.
    let released = operation.phase(Phase::Releasing).map_or(u64::MAX, PhaseStamp::time);
    let was_told = operation.phases.iter().any(|stamp| stamp.phase == Phase::Lost && stamp.time() < released);
    let worked = operation
        .phases
        .iter()
        .find(|stamp| is_work(stamp) && case.ran_for(act.client, act.time, stamp.time()) > TO_TELL.max(case.ttl / 4))?;
    if was_told
        || !case.replies_pass(act.client, act.node, act.time, worked.time())
        || !case.had_lock(operation, act.time)
    {
        return None;
    }
    let how = match act.before {
        KeyState::There(owner) => format!("found {}'s key{}", owner.client, on(case, act.node)),
        KeyState::Absent(_, Some(Gone::Expired(end))) => {
            format!("found no key{}: it had expired at {}", on(case, act.node), moment(end))
        }
        _ => format!("found no key{}", on(case, act.node)),
    };
    let later = acts.iter().filter(|other| other.place > act.place).count() as u64;
    let again =
        if later > 0 { format!(", and so did {}", plural(later, "later renewal")) } else { String::new() };
    let sentence = format!(
        "{}'s renewal {} {how}{again}; {} did not learn of it, and still worked at {}.",
        act.client,
        at(act.time),
        act.client,
        moment(worked.time())
    );
    Some(case.finding(act, &[act.place], &[act.operation], Harm::Misled(operation.index), sentence))
}

/// True if an act found its client's key gone, or another client's key.
fn is_lost(act: &Act) -> bool {
    match act.before {
        KeyState::There(owner) => owner.client != act.client,
        KeyState::Absent(_, gone) => gone.is_some(),
        KeyState::Unknown => false,
    }
}

/// The effects of script calls.
struct Calls<'a> {
    /// The scripts that extended a key that existed before the call, by their text or name.
    renew: HashSet<&'a str>,
    /// The calls that did more than reading.
    change: HashSet<usize>,
}

impl<'a> Calls<'a> {
    fn of(case: &Case<'a>) -> Calls<'a> {
        let in_scripts = || case.acts.all.iter().filter(|act| act.sent != act.place);
        let renews = in_scripts().filter(|act| {
            let was_there = act.owner().is_some_and(|owner| owner.created < act.sent);
            act.is_done() && was_there && matches!(act.what, Change::Renew(_))
        });
        let renew = renews.filter_map(|act| script(case, act)).collect();
        let change = in_scripts().filter(|act| act.what != Change::Read).map(|act| act.sent).collect();
        Calls { renew, change }
    }

    /// True if an act belongs to a renewal: it extends, or its call only read and its script extends elsewhere.
    fn is_renewal(&self, case: &Case<'a>, act: &Act) -> bool {
        match act.what {
            Change::Renew(_) => act.done == Some(false),
            Change::Read => {
                let renews = script(case, act).is_some_and(|script| self.renew.contains(script) || only_extends(script));
                act.sent != act.place && renews && !self.change.contains(&act.sent)
            }
            _ => false,
        }
    }
}

/// True if a script's text can extend a key, and neither set nor remove any.
fn only_extends(script: &str) -> bool {
    let text = script.to_ascii_lowercase();
    text.contains("expire") && !["set", "del", "incr", "unlink"].iter().any(|name| text.contains(name))
}

/// The text, or the name, of the script of an act.
fn script<'a>(case: &Case<'a>, act: &Act) -> Option<&'a str> {
    case.commands[act.sent].words.get(1).map(String::as_str)
}
