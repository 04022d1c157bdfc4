//! Decides from probes whether a fault is in effect or healed, on every link that it affects.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::Pair;
use super::links::Bridge;
use super::probe::{Probe, ProbeKind, Prober, Trace};

/// How long the probes of each round may take to enter the bridge. The last rounds are for a machine that stands still for a
/// moment: they take no time once a probe has entered.
const ENTRY_MS: [u64; 6] = [5, 15, 40, 100, 300, 600];
/// Within this time, a packet that entered the bridge has left it or never will: the bridge forwards without a queue.
const FORWARDED: Duration = Duration::from_millis(2);
/// The same limit for a heal, where waiting a little longer costs nothing if the heal succeeded.
pub(super) const FORWARDED_AT_LAST: Duration = Duration::from_millis(5);
/// Time limit for the RST that answers a TCP segment.
const ANSWERED: Duration = Duration::from_millis(20);
/// Longer delays than this are not watched to their end.
const LONGEST_WATCH: Duration = Duration::from_secs(1);
/// If a delay is not watched to its end, it counts as in effect when nothing has left within this time. The time must be short:
/// scripts continue once a fault was observed, and locks expire meanwhile.
const HELD: Duration = Duration::from_millis(100);
/// A packet may be this much later than its delay and still count as on time.
pub(super) const LATE: Duration = Duration::from_millis(30);
/// The first round of a loss sends this many probes per link, and at least the second number over all links.
const LOSS_PROBES: usize = 16;
const LOSS_PROBES_IN_ALL: usize = 40;
/// If, after this many rounds or this long, a link has not both lost a probe and passed one, its loss was not observed. With the
/// losses tested, this is almost impossible by chance.
const LOSS_ROUNDS: usize = 60;
const LOSS_LIMIT: Duration = Duration::from_millis(500);
/// At most this many links are listed individually.
const NAMED: usize = 5;

/// The expected state of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// No packet passes.
    Blocked,
    /// Some packets pass, within this time, and some do not.
    Lossy { most: Duration },
    /// Packets that pass take at least this long.
    Delayed { least: Duration, most: Duration },
    /// TCP segments do not pass and are answered with an RST.
    Reset,
    /// Probes pass within this time: all `probes` of them or, if another fault still loses some, at least one.
    Passes { within: Duration, probes: usize, all: bool },
    /// TCP segments pass, and no RST is forged.
    PassesTcp,
    /// Another fault hides the effect.
    Hidden,
}

/// The observations on all links.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// How many links are in the expected state.
    pub good: usize,
    /// How many links were probed.
    pub looked_at: usize,
    /// How many links are hidden by another fault.
    pub hidden: usize,
    /// Members that did not answer.
    pub gone: BTreeSet<Ipv4Addr>,
    /// Links that are not in the expected state, each with its actual state.
    pub bad: Vec<(Pair, &'static str)>,
    /// When the last of the good links was first observed in its expected state.
    pub effect: Option<Instant>,
    /// How many probes entered the bridge, and how many of them left it.
    pub entered: usize,
    pub left: usize,
    /// How long the probes took from entering to leaving, in ascending order.
    pub transits: Vec<Duration>,
}

/// The observations on one link so far.
#[derive(Debug, Default)]
struct Tally {
    entered: usize,
    left: usize,
    forged: usize,
    transits: Vec<Duration>,
    last_entered: Option<Instant>,
    last_left: Option<Instant>,
}

/// Links without a decision yet: the expected state, the observations, and their meaning so far.
type Open = BTreeMap<Pair, (Goal, Tally, &'static str)>;

enum Judgement {
    Good(Option<Instant>),
    Bad(&'static str),
    /// More probes may decide. If no more are sent, this is the result.
    Open(&'static str),
}

/// Probes all links at once until each is decided. For links that no probe enters, it calls `bridge` again: another fault may
/// kill a member meanwhile, and a restarted member has another port.
pub(super) fn observe(
    prober: &mut Prober,
    bridge: impl Fn() -> io::Result<Bridge>,
    goals: &BTreeMap<Pair, Goal>,
) -> io::Result<Sight> {
    let began = Instant::now();
    let addresses = goals.keys().flat_map(|(from, to)| [*from, *to]).collect();
    let mut now = bridge()?;
    let mut macs = prober.who_is_there(&now, &addresses)?;
    let mut sight =
        Sight { gone: addresses.into_iter().filter(|a| !macs.contains_key(a)).collect(), ..Sight::default() };
    let mut open = Open::new();
    for (pair, goal) in goals {
        match goal {
            Goal::Hidden => sight.hidden += 1,
            _ if sight.gone.contains(&pair.0) || sight.gone.contains(&pair.1) => {}
            goal => _ = open.insert(*pair, (*goal, Tally::default(), "not observed")),
        }
    }
    let mut round = 0;
    while !open.is_empty() && may_go_on(open.values().map(|(goal, ..)| *goal), round, began.elapsed()) {
        let silent: BTreeSet<Ipv4Addr> = if round == 0 { BTreeSet::new() } else { unentered(&open).collect() };
        if !silent.is_empty() {
            now = bridge()?;
            let there = prober.who_is_there(&now, &silent)?;
            macs.retain(|address, _| !silent.contains(address));
            macs.extend(there);
        }
        let links = open.len();
        let there = open.iter().filter(|((from, to), _)| macs.contains_key(from) && macs.contains_key(to));
        let probes: Vec<_> = there.flat_map(|(pair, (goal, ..))| probes(*pair, goal, round, links)).collect();
        let traces = prober.follow(&now, &macs, &probes)?;
        for (probe, trace) in probes.iter().zip(traces.iter().flatten()) {
            if let Some((_, tally, _)) = open.get_mut(&probe.pair) {
                tally.add(trace);
                sight.entered += usize::from(trace.entered.is_some());
                sight.left += usize::from(trace.left.is_some());
            }
        }
        open.retain(|pair, (goal, tally, how)| match judge(goal, tally) {
            Judgement::Good(at) => {
                sight.good += 1;
                sight.effect = sight.effect.max(at);
                sight.transits.append(&mut tally.transits);
                false
            }
            Judgement::Bad(how) => {
                sight.bad.push((*pair, how));
                false
            }
            Judgement::Open(so_far) => {
                *how = so_far;
                // One probe may get lost by chance; in the next round, all must pass again.
                if matches!(goal, Goal::Passes { all: true, .. }) {
                    *tally = Tally::default();
                }
                true
            }
        });
        round += 1;
    }
    // These members went away meanwhile.
    let lost: BTreeSet<Ipv4Addr> = unentered(&open).filter(|address| !macs.contains_key(address)).collect();
    open.retain(|(from, to), (_, tally, _)| tally.entered > 0 || !(lost.contains(from) || lost.contains(to)));
    sight.looked_at = sight.good + sight.bad.len() + open.len();
    sight.gone.extend(lost);
    sight.bad.extend(open.into_iter().map(|(pair, (_, _, how))| (pair, how)));
    sight.transits.sort_unstable();
    Ok(sight)
}

/// The ends of the links on which no probe has entered the bridge.
fn unentered(open: &Open) -> impl Iterator<Item = Ipv4Addr> {
    open.iter().filter(|(_, (_, tally, _))| tally.entered == 0).flat_map(|((from, to), _)| [*from, *to])
}

fn may_go_on(mut goals: impl Iterator<Item = Goal>, round: usize, elapsed: Duration) -> bool {
    let more_may_tell = |goal| matches!(goal, Goal::Lossy { .. }) && round < LOSS_ROUNDS && elapsed < LOSS_LIMIT;
    round < ENTRY_MS.len() || goals.any(more_may_tell)
}

fn probes(pair: Pair, goal: &Goal, round: usize, links: usize) -> impl Iterator<Item = Probe> {
    let (kind, count, transit) = match goal {
        Goal::Blocked => (ProbeKind::Echo, 1, FORWARDED),
        Goal::Lossy { most } => {
            let transit = if most.is_zero() { FORWARDED } else { LONGEST_WATCH.min(*most + LATE) };
            (ProbeKind::Echo, LOSS_PROBES.max(LOSS_PROBES_IN_ALL / links), transit)
        }
        Goal::Delayed { least, .. } if *least >= LONGEST_WATCH => (ProbeKind::Echo, 4, HELD),
        Goal::Delayed { most, .. } => (ProbeKind::Echo, 4, LONGEST_WATCH.min(*most + LATE)),
        Goal::Reset => (ProbeKind::Tcp, 1, ANSWERED),
        Goal::Passes { within, probes, .. } => (ProbeKind::Echo, *probes, *within),
        Goal::PassesTcp => (ProbeKind::Tcp, 1, FORWARDED_AT_LAST),
        Goal::Hidden => (ProbeKind::Echo, 0, Duration::ZERO),
    };
    let entry = Duration::from_millis(ENTRY_MS[round.min(ENTRY_MS.len() - 1)]);
    std::iter::repeat_n(Probe { pair, kind, entry, transit }, count)
}

impl Tally {
    fn add(&mut self, trace: &Trace) {
        self.entered += usize::from(trace.entered.is_some());
        self.left += usize::from(trace.left.is_some());
        self.forged += usize::from(trace.forged.is_some());
        self.last_entered = self.last_entered.max(trace.entered);
        self.last_left = self.last_left.max(trace.left);
        self.transits.extend(trace.transit());
    }

    fn fastest(&self) -> Duration {
        self.transits.iter().min().copied().unwrap_or_default()
    }
}

fn judge(goal: &Goal, tally: &Tally) -> Judgement {
    use Judgement::{Bad, Good, Open};
    if tally.entered == 0 {
        return Open("no packet entered the bridge there");
    }
    match goal {
        Goal::Blocked if tally.left > 0 => Bad("packets pass"),
        Goal::Blocked => Good(tally.last_entered),
        Goal::Lossy { .. } if tally.left == 0 => Open("nothing passed"),
        Goal::Lossy { .. } if tally.left == tally.entered => Open("no packet was lost"),
        Goal::Lossy { .. } => Good(tally.last_entered),
        Goal::Delayed { least, .. } if tally.left > 0 && tally.fastest() + FORWARDED < *least => {
            Bad("packets pass without delay")
        }
        Goal::Delayed { .. } if tally.left > 0 => Good(tally.last_entered),
        Goal::Delayed { least, .. } if *least >= LONGEST_WATCH => Good(tally.last_entered),
        Goal::Delayed { .. } => Open("nothing passed"),
        Goal::Reset if tally.left > 0 => Bad("packets pass"),
        Goal::Reset if tally.forged > 0 => Good(tally.last_entered),
        Goal::Reset => Open("packets do not pass, but nothing was reset"),
        Goal::Passes { .. } if tally.left == 0 => Open("no packet passed in time"),
        Goal::Passes { all: true, .. } if tally.left < tally.entered => Open("not every packet passed in time"),
        Goal::Passes { within, .. } if tally.fastest() > *within => Open("packets pass late"),
        Goal::Passes { .. } => Good(tally.last_left),
        Goal::PassesTcp if tally.forged > 0 => Bad("packets are still reset"),
        Goal::PassesTcp if tally.left > 0 => Good(tally.last_left),
        Goal::PassesTcp => Open("nothing passed"),
        Goal::Hidden => Open("another fault hides it"),
    }
}

impl Sight {
    /// The observations in words: how many links are in the state `state`, which are not, and how many are hidden.
    pub fn tell(&self, state: &str, hidden_by: &str) -> String {
        let mut text = format!("{} of {} links {state}", self.good, self.looked_at);
        if !self.bad.is_empty() {
            let named: Vec<_> =
                self.bad.iter().take(NAMED).map(|((from, to), how)| format!("{from} to {to}: {how}")).collect();
            text.push_str(&format!("; not {}", named.join(", ")));
            if self.bad.len() > NAMED {
                text.push_str(&format!(", and {} more", self.bad.len() - NAMED));
            }
        }
        if self.hidden > 0 {
            text.push_str(&format!("; {} {hidden_by}", self.hidden));
        }
        for address in &self.gone {
            text.push_str(&format!("; {address} is gone"));
        }
        text
    }
}
