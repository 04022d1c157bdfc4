//! A release that says that it gave the lock back did so, and one that says that the lock was not its client's did not.
//!
//! An answer is untrue only where the history makes the truth certain: another client's lock was there the whole time, from
//! before the request left until the answer was read, and the client could have known; or, of a release that found that
//! the lock was not its client's, another client got the lock before it can have run out, and nothing but that release
//! can have ended it.

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
    title: "A release says what it did",
    applies: "runs whose clients release a lock that another client holds by then",
    parameter: None,
    check,
};

/// A release said that it gave the lock back when another client had it, or that the lock was not its client's
/// when it gave it back.
pub static FALSE_RELEASE: AnomalyDef = AnomalyDef {
    name: "release that says what is not so",
    incident: "Release reported the wrong result",
    lines: Lines::Answers,
    blames: Blames::Nothing,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleaseAnswer {
    Released,
    NotOwned,
}

/// A release that was answered.
struct Release {
    answer: ReleaseAnswer,
    /// Before its request left.
    sent: i64,
    /// After its answer was read.
    over: i64,
    /// When the answer was told, in run time.
    told: u64,
}

/// Reports releases that say otherwise than it was.
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
        {
            of_others += 1;
            if release.answer == ReleaseAnswer::Released {
                let what = format!(
                    "at {} was answered as if it had released the lock, though {} had held it since {}",
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
        "{} of a lock that another client held by then, and {} that certainly released a lock",
        count(of_others, "release"),
        count(own, "release")
    );
    // Those of one's own lock are in every run, and show nothing of a lock that is gone.
    let shown = if of_others > 0 || !anomalies.is_empty() { of_others + own } else { 0 };
    Findings::new(anomalies, shown, text, "no client released a lock that another client certainly held by then")
}

/// What a client's release said, if it said anything: `released`, or that the lock is lost, which it was not told before.
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

/// The next client's lock, if only this release can have ended the one before it: it was got before that can have run out,
/// and no server, no fault and no other client's release may have ended it.
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

/// The releases of each key that may have been on their way, by when they were sent at the earliest.
struct Sent<'h>(BTreeMap<&'h str, Vec<OnItsWay>>);

struct OnItsWay {
    place: usize,
    from: i64,
    until: i64,
    /// The latest end of this one and all before it.
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

    /// Whether one of another operation than these may have been on its way within this time.
    fn any(&self, key: &str, from: i64, to: i64, but: [usize; 2]) -> bool {
        let sent = self.0.get(key).map_or(&[][..], Vec::as_slice);
        let before = &sent[..sent.partition_point(|one| one.from <= to)];
        let mut late = before.iter().rev().take_while(|one| from <= one.latest);
        late.any(|one| from <= one.until && !but.contains(&one.place))
    }
}

/// From when to when an operation's release may have been on its way.
fn may_release(operation: &Operation) -> Option<(i64, i64)> {
    let Some(sent) = operation.phase(Phase::Releasing) else {
        // One that may have had the lock may give it back without a word.
        let may_have = operation.outcome == Outcome::Info && operation.phases.has(Phase::Acquiring);
        return may_have.then(|| (time(operation.invoked), operation.completed.map_or(i64::MAX, time)));
    };
    let over = operation.phase(Phase::Released).map(PhaseStamp::time).or(operation.completed);
    Some((time(sent.time()), over.map_or(i64::MAX, time)))
}
