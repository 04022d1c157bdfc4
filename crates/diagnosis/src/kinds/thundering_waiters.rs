//! Waiters that all ask for the lock at once after each release.

use super::*;

pub static KIND: Kind = Kind {
    code: "RJ044",
    name: "thundering-waiters",
    title: "After each release all waiters ask for the lock at once, and all but one fail.",
    rule: "Only one waiter can acquire the lock. The requests of the others, which grow with their number, delay that waiter and \
        the next release.",
    source: REDIS_LOCKS,
    fix: "Wake one waiter: push a message onto a list that waiters read with BLPOP. Or let each waiter wait for a random time after the \
          message.",
    commands: &["LPUSH FREE 1", "BLPOP FREE TIMEOUT"],
    right: Some(("single", "none")),
    breaks: WAITS,
    inherent: false,
    check,
};

/// Fewer waiters than this are not a crowd, and fewer releases may be chance.
const CROWD: usize = 3;
const RELEASES: usize = 5;
/// A release woke a waiter that asks within this time after it, and had last asked at least `RESTED` before it. In ns.
const AT_ONCE: u64 = 10_000_000;
const RESTED: u64 = 50_000_000;

/// A release that a crowd waited for.
struct Release<'c, 'a> {
    act: &'c Act<'a>,
    /// The requests that followed at once, if all of the crowd asked.
    woken: Option<Vec<&'c Act<'a>>>,
}

fn check(case: &Case) -> Vec<Finding> {
    if case.run.nodes > 1 || case.run.threads > 1 {
        return Vec::new();
    }
    let mut by_key: BTreeMap<&str, Vec<Release>> = BTreeMap::new();
    let is_release = |act: &&Act| {
        act.what == Change::Remove && act.is_done() && act.owner().is_some_and(|owner| owner.client == act.client)
    };
    for release in case.acts.all.iter().filter(is_release) {
        let waiters = waiters(case, release);
        if waiters.len() >= CROWD {
            let woken: Option<Vec<&Act>> = waiters.iter().map(|waiter| woken(case, release, waiter)).collect();
            by_key.entry(release.key).or_default().push(Release { act: release, woken });
        }
    }
    by_key.into_values().filter_map(|releases| finding(case, releases)).collect()
}

/// The clients that had asked for the lock before a release, and wait for it.
fn waiters(case: &Case, release: &Act) -> Vec<String> {
    let waits = |operation: &&Operation| {
        let acquired = operation.phase(Phase::Acquired).map_or(u64::MAX, |stamp| stamp.time());
        operation.process != Process::Controller
            && key_behind(release.key) == Some(&*operation.key)
            && operation.phase(Phase::Acquiring).is_some_and(|stamp| stamp.time() < release.time.saturating_sub(RESTED))
            && acquired > release.time
            && operation.completed.is_none_or(|over| over > release.time.saturating_add(AT_ONCE))
    };
    let waiting = case.history.operations.iter().filter(waits);
    waiting.map(|operation| case.run.client_name(operation.process)).filter(|name| name != release.client).collect()
}

/// The first request of a waiter after a release, if the waiter asked at once, and had rested before.
fn woken<'c, 'a>(case: &'c Case<'a>, release: &Act, waiter: &str) -> Option<&'c Act<'a>> {
    let is_its = |act: &&Act| act.client == waiter;
    let next = case.acts.after(release).find(is_its)?;
    let before = case.acts.before(release).rev().find(is_its)?;
    let at_once = next.time.saturating_sub(release.time) <= AT_ONCE;
    (at_once && release.time.saturating_sub(before.time) >= RESTED).then_some(next)
}

fn finding(case: &Case, releases: Vec<Release>) -> Option<Finding> {
    let all = releases.len();
    let herds = releases.into_iter().filter_map(|release| Some((release.act, release.woken?)));
    let herds: Vec<(&Act, Vec<&Act>)> = herds.collect();
    if herds.len() < RELEASES || herds.len() * 10 < all * 9 {
        return None;
    }
    let (release, woken) = herds.iter().max_by_key(|(_, woken)| woken.len())?;
    let sentence = format!(
        "After {} of {}, all waiters asked within 10 ms: {} of them after {}'s release at {}.",
        herds.len(),
        plural(all as u64, "release"),
        woken.len(),
        release.client,
        moment(release.time)
    );
    let places: Vec<usize> = [release.place].into_iter().chain(woken.iter().map(|act| act.place)).collect();
    Some(case.finding(release, &places, &[release.operation], Harm::None, sentence))
}
