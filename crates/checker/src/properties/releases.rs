//! A release that reports success released the client's lock. A release that reports that the client did not own the lock found
//! it gone.
//!
//! An answer is untrue only if the history makes the truth certain. A reported success is untrue if another client's lock existed
//! from before the request until after the answer, and the client could have known. An answer that the client did not own the
//! lock is untrue if only that release can have ended its lock. Another client acquired the lock before it can have expired.

use std::collections::BTreeMap;

use super::super::owners::{Owned, run_time, time, took_it_back};
use super::super::words::count;
use super::*;

pub static DEF: Property = Property {
    id: "releases",
    rank: Rank::Claim(ClaimDef::of_answers(
        Claim::Releases,
        |run| run.claims.contains(&Claim::Releases),
        |seen| match seen.contradictions() {
            0 => "every answer true".to_string(),
            many => plural(many, "untrue answer"),
        },
        |seen, of| format!("{} answered a release untruthfully{}.", of.lock, seen.times()),
    )),
    title: "Releases report their results truthfully",
    applies: "runs whose clients release a lock that another client already holds",
    parameter: None,
    check,
};

/// A release reported success when another client had the lock, or reported that its client did not own the lock when it did.
pub static FALSE_RELEASE: AnomalyDef = AnomalyDef {
    name: "release with a wrong result",
    incident: "Release reported the wrong result",
    lines: Lines::Answers,
    blames: Blames::Nothing,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleaseAnswer {
    Released,
    NotOwned,
}

/// A release with an answer.
struct Release {
    answer: ReleaseAnswer,
    /// Before its request left.
    sent: i64,
    /// After its answer was read.
    over: i64,
    /// When the client reported the answer, in run time.
    told: u64,
}

/// Reports releases with a false answer.
fn check(case: &Case) -> Findings {
    let (history, owners) = (case.history, case.owners());
    let sent = Sent::new(history);
    let words = Words::new(history);
    let (mut anomalies, mut of_others, mut own) = (Vec::new(), 0, 0);
    for (place, operation) in history.operations.iter().enumerate() {
        let Some(release) = release(operation) else { continue };
        let say = |what: String, other: &Owned| {
            let summary = format!("{}'s release {what}", words.client(place));
            let operations = vec![operation.index, history.operations[other.place].index];
            Anomaly::new(AnomalyKind::FalseRelease, &operation.key, release.told, operations, summary)
        };
        if let Some(other) = owners.other(&operation.key, operation.process, release.sent, release.over)
            && !took_it_back(operation, other)
            // A late release of a third client may have ended that lock.
            && !sent.any(&operation.key, other.from, release.over, [place, other.place])
        {
            of_others += 1;
            if release.answer == ReleaseAnswer::Released {
                let what = format!(
                    "at {} reported success, although {} had held the lock since {}",
                    seconds(run_time(release.sent)),
                    words.client(other.place),
                    seconds(run_time(other.from)),
                );
                anomalies.push(say(what, other));
            }
        } else if let Some(next) = ended_by(history, owners, &sent, place, &release) {
            own += 1;
            if release.answer == ReleaseAnswer::NotOwned {
                let what = format!(
                    "at {} reported that the client did not hold the lock, though nothing but this release can have ended it: {} \
                     acquired it at {}, before it can have expired",
                    seconds(run_time(release.sent)),
                    words.client(next.place),
                    seconds(run_time(next.from)),
                );
                anomalies.push(say(what, next));
            }
        }
    }
    let text = format!(
        "{} of a lock that another client already held, and {} that certainly released a lock",
        count(of_others, "release"),
        count(own, "release")
    );
    // Every run has answers about a client's own lock; they show nothing about a lost lock.
    let shown = if of_others > 0 || !anomalies.is_empty() { of_others + own } else { 0 };
    Findings::new(anomalies, shown, text, "no client released a lock that another client certainly held")
}

/// The answer to a client's release: `released`, or that the lock is lost. None without an answer, or if the client had reported
/// the loss before.
fn release(operation: &Operation) -> Option<Release> {
    let sent = operation.phases.iter().enumerate().filter(|(_, stamp)| stamp.phase == Phase::Releasing).last()?.0;
    let mut answers = operation.phases.after(sent).filter_map(|stamp| match stamp.phase {
        Phase::Released => Some((ReleaseAnswer::Released, stamp)),
        Phase::Lost => Some((ReleaseAnswer::NotOwned, stamp)),
        _ => None,
    });
    let (answer, stamp) = answers.next()?;
    let was_told = || operation.phases.before(sent).any(|stamp| stamp.phase == Phase::Lost);
    if answer == ReleaseAnswer::NotOwned && was_told() {
        return None;
    }
    Some(Release { answer, sent: operation.phases.get(sent)?.stamped?, over: stamp.stamped?, told: stamp.time() })
}

/// The next client's lock, if only this release can have ended the lock before it. The next client acquired it before the
/// previous lock can have expired, and no server, fault or other client's release may have ended that lock.
fn ended_by<'o>(
    history: &History,
    owners: &'o Owners,
    sent: &Sent,
    place: usize,
    release: &Release,
) -> Option<&'o Owned> {
    let operation = &history.operations[place];
    let mine = owners.of(operation, place)?;
    let others = owners.of_key(&operation.key);
    let later = &others[others.partition_point(|other| other.from <= release.sent)..];
    let next = later.iter().find(|other| other.place != place)?;
    let in_time = next.from < mine.runs_out && next.from > release.sent;
    let undisturbed = owners.is_after(mine, next) && owners.is_undisturbed(mine.taken, next.from);
    let by_another = || sent.any(&operation.key, mine.taken, next.from, [place, next.place]);
    (in_time && undisturbed && !by_another()).then_some(next)
}

/// The releases of each key that may have been on their way, by the earliest time at which they were sent.
struct Sent<'h>(BTreeMap<&'h str, Vec<OnItsWay>>);

struct OnItsWay {
    place: usize,
    from: i64,
    until: i64,
    /// The latest end of this release and all before it.
    latest: i64,
}

impl<'h> Sent<'h> {
    fn new(history: &'h History) -> Sent<'h> {
        let mut keys: BTreeMap<&str, Vec<OnItsWay>> = BTreeMap::new();
        for (place, operation) in history.operations.iter().enumerate() {
            if let Some((from, until)) = may_release(operation) {
                keys.entry(&operation.key).or_default().push(OnItsWay { place, from, until, latest: until });
            }
        }
        for sent in keys.values_mut() {
            sent.sort_by_key(|one| one.from);
            let mut latest = i64::MIN;
            for one in sent.iter_mut() {
                latest = latest.max(one.until);
                one.latest = latest;
            }
        }
        Sent(keys)
    }

    /// True if a release of an operation outside `but` may have been on its way within this time.
    fn any(&self, key: &str, from: i64, to: i64, but: [usize; 2]) -> bool {
        let sent = self.0.get(key).map_or(&[][..], Vec::as_slice);
        let before = &sent[..sent.partition_point(|one| one.from <= to)];
        let mut late = before.iter().rev().take_while(|one| from <= one.latest);
        late.any(|one| from <= one.until && !but.contains(&one.place))
    }
}

/// The start and end of the time in which an operation's release may have been on its way.
fn may_release(operation: &Operation) -> Option<(i64, i64)> {
    let Some(sent) = operation.phase(Phase::Releasing) else {
        // An operation that may have had the lock may release it without reporting that.
        let may_have = operation.outcome == Outcome::Info && operation.phases.has(Phase::Acquiring);
        return may_have.then(|| (time(operation.invoked), operation.completed.map_or(i64::MAX, time)));
    };
    let over = operation.phase(Phase::Released).map(PhaseStamp::time).or(operation.completed);
    Some((time(sent.time()), over.map_or(i64::MAX, time)))
}
