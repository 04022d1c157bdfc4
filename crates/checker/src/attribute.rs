//! Which fault explains an anomaly other than two holders at once ([`super::causes`])? It must have been observed in effect at a
//! time at which it could cause the anomaly.

use std::collections::BTreeMap;

use super::AnomalyKind;
use super::reach::{Needed, last_of_one_kind, lost_between, may_keep_answers, most_telling, overlaps, telling};
use super::verdict::{Anomaly, Blames, How, HowKind};
use super::words::{Words, seconds};
use base::members::Role;
use model::fault_kinds::{OnData, OnPackets};
use model::history::{FaultWindow, History, Operation, Phase, PhaseStamp, ResourceKind, SeenPromotion};

/// Writes into each anomaly the fault that explains it.
pub(super) fn explain_all(history: &History, anomalies: &mut [Anomaly]) {
    let mut tokens: BTreeMap<String, Tokens> = BTreeMap::new();
    for anomaly in anomalies {
        let blames = anomaly.kind.def().blames;
        if matches!(blames, Blames::Nothing | Blames::Holders) {
            continue;
        }
        let operations = operations(history, anomaly);
        let of_updates = blames == Blames::Writes;
        let replicated = history.run.as_ref().is_some_and(|run| run.resource == ResourceKind::Replicated);
        let lost = anomaly.lost.iter().filter_map(|index| history.place_of(*index));
        let of_lost = lost.map(|place| &history.operations[place]);
        let from = operations.iter().copied().chain(of_lost).map(|operation| operation.invoked).min();
        // Replicated data are lost together with the primary that had them.
        let is_in_a_group = of_updates && replicated || blames == Blames::Counters;
        let fall = match blames {
            Blames::Counters => {
                let of_key = tokens.entry(anomaly.key.clone()).or_insert_with(|| Tokens::new(history, &anomaly.key));
                let grants: Vec<Grant> = operations.iter().filter_map(|one| grant(history, one)).collect();
                // Without its last fall, the counter would still have been too low.
                if of_key.had_fallen_before(&grants) {
                    continue;
                }
                of_key.fall(&grants)
            }
            _ => None,
        };
        let span = fall.or(from.map(|from| (from, anomaly.time)));
        let still_apart =
            |seen, from| trigger(history, seen).is_some_and(|window| overlaps(window, from, anomaly.time));
        let promotions = history.promotions.iter().filter(|seen| {
            is_in_a_group
                && seen.promotion.key == anomaly.key
                && span.is_some_and(|(from, to)| seen.time <= to && (from <= seen.time || still_apart(seen, from)))
        });
        let promotions: Vec<&SeenPromotion> = promotions.collect();
        // If data were lost more than once in this time, it is unknown which loss this was.
        if is_in_a_group && span.is_some_and(|span| promotions.len() + other_losses(history, &promotions, span) > 1) {
            continue;
        }
        let seen = promotions.last().filter(|seen| is_settled(history, &anomaly.key, began(history, seen)));
        if let Some(seen) = seen {
            anomaly.how = promoted(seen);
            anomaly.fault = trigger(history, seen).map(|window| window.fault);
        } else if of_updates {
            anomaly.fault = between_reading_and_writing(history, anomaly, &operations, replicated);
        } else {
            let two_count = |(since, _)| is_in_a_group && !is_settled(history, &anomaly.key, since);
            if !fall.is_some_and(two_count) {
                anomaly.fault = in_effect(history, anomaly, &operations, blames, fall);
            }
        }
    }
}

/// How many faults removed data from a node in this time, apart from the causes of these promotions.
fn other_losses(history: &History, promotions: &[&SeenPromotion], (from, to): (u64, u64)) -> usize {
    let is_trigger = |window: &FaultWindow| {
        promotions.iter().filter_map(|seen| trigger(history, seen)).any(|trigger| trigger.fault == window.fault)
    };
    let lost = |window: &&FaultWindow| {
        window.was_observed() && window.hits(Role::Node) && lost_between(window, from, to) && !is_trigger(window)
    };
    history.faults.iter().filter(lost).count()
}

/// The operations of an anomaly. The operation that acted out of turn comes first.
fn operations<'h>(history: &'h History, anomaly: &Anomaly) -> Vec<&'h Operation> {
    let places = anomaly.operations.iter().filter_map(|index| history.place_of(*index));
    let mut operations: Vec<&Operation> = places.map(|place| &history.operations[place]).collect();
    if anomaly.kind == AnomalyKind::LostUpdate && operations.len() > 1 {
        operations.swap(0, 1);
    }
    operations
}

/// The fault that made the watchers of a primary consider it dead, so that another node took its place.
pub(super) fn trigger<'h>(history: &'h History, seen: &SeenPromotion) -> Option<&'h FaultWindow> {
    let primary = &seen.promotion.instead_of;
    let is_watcher = |name: &String| matches!(Role::of(name), Some(Role::Node | Role::Sentinel));
    // If only clients cannot reach a primary, it is not replaced.
    let silent = |window: &&FaultWindow| match &window.links {
        Some(links) => links
            .iter()
            .any(|(one, other)| (one == primary && is_watcher(other)) || (other == primary && is_watcher(one))),
        None => window.kind.does.silences && !window.kind.is_at_command(),
    };
    let hits = |window: &&FaultWindow| window.was_observed() && window.targets.contains(primary) && silent(window);
    let faults = history.faults.iter().filter(hits);
    most_telling(faults.filter(|window| overlaps(window, seen.promotion.after_ns, seen.time)))
}

/// A Sentinel makes an old primary that is back a replica once it has called itself a primary for 8 s.
const SETTLES: u64 = 10_000_000_000;

/// True if certainly only one server called itself the primary of the key at this time. Then each earlier promotion was over, and
/// so was the fault that had caused it.
pub(super) fn is_settled(history: &History, key: &str, time: u64) -> bool {
    let mut earlier = history.promotions.iter().filter(|seen| seen.promotion.key == key && seen.time <= time);
    earlier.all(|seen| {
        let over = trigger(history, seen).map_or(Some(seen.time), |window| window.span().1);
        over.is_some_and(|over| over.max(seen.time).saturating_add(SETTLES) <= time)
    })
}

/// When the fault behind a promotion began; without such a fault, when the watchers began to see it.
pub(super) fn began(history: &History, seen: &SeenPromotion) -> u64 {
    trigger(history, seen).map_or(seen.promotion.after_ns, |window| window.inject)
}

/// `n1 had replaced n0 as the primary of k0 by 4.046 s`.
pub(super) fn promoted(seen: &SeenPromotion) -> Option<How> {
    let promotion = &seen.promotion;
    let text = format!(
        "{} had replaced {} as the primary of {} by {}",
        promotion.node,
        promotion.instead_of,
        promotion.key,
        seconds(seen.time)
    );
    How::new(HowKind::Promoted, text, [seen.index])
}

/// An update is lost because a client wrote late what it had read early, or because the server that had the data lost them.
fn between_reading_and_writing(
    history: &History,
    anomaly: &Anomaly,
    operations: &[&Operation],
    replicated: bool,
) -> Option<u32> {
    let words = Words::new(history);
    let from = operations.iter().map(|operation| operation.invoked).min()?;
    let keeper = if replicated { Role::Node } else { Role::Resource };
    let needed = Needed::new(history, &anomaly.key, anomaly.time);
    let keepers = |window: &FaultWindow| window.hits(keeper) && (!replicated || needed.hits(window));
    // A client that read the value after the lost update was there did not overwrite the update because it was late.
    let read_of = |operation: &Operation| operation.phase(Phase::Read).map_or(operation.invoked, PhaseStamp::time);
    let written_of =
        |operation: &Operation| operation.phase(Phase::Written).map(PhaseStamp::time).or(operation.completed);
    let last = anomaly.operations.last().and_then(|index| history.place_of(*index));
    let lost = || anomaly.lost.iter().filter_map(|index| history.place_of(*index));
    let read_before = |last: usize| {
        let read = read_of(&history.operations[last]);
        lost().any(|place| place != last && read <= written_of(&history.operations[place]).unwrap_or(u64::MAX))
    };
    let may_be_late = anomaly.kind != AnomalyKind::LostUpdate || last.is_none_or(read_before);
    // Without a lock, updates are lost without a fault too. A fault explains those that came while it kept the writer from its write.
    let kept_the_writer = |window: &FaultWindow| {
        let writer = last.map(|place| &history.operations[place]);
        history.takes_locks()
            || writer.is_some_and(|writer| {
                let client = words.process(writer.process);
                let keeps = window.hits_process(writer, &client) || may_keep_answers(history, window, &client);
                keeps && read_of(writer) <= window.inject
            }) && lost().all(|place| written_of(&history.operations[place]).is_none_or(|time| time >= window.inject))
    };
    // A fault that was over before the lost updates began delayed no write that erased them.
    let lost_from = lost().map(|place| history.operations[place].invoked).min().unwrap_or(0);
    let was_over = |window: &FaultWindow| window.span().1.is_some_and(|until| until < lost_from);
    // If other faults may also have delayed the writer, or the keeper may have lost the data, it is not certain which one did it.
    let ranked = history.faults.iter().filter(|window| is_disturbing(window)).filter_map(|window| {
        let may_delay = may_be_late && kept_the_writer(window) && !was_over(window);
        let mut candidates = if may_delay { operations } else { &[] }.iter();
        let late = candidates.position(|operation| {
            let client = words.process(operation.process);
            // Delayed packets to a member that does not store the data cannot delay a write.
            let keeps = match window.kind.is_of_the_network() || !window.hits_process(operation, &client) {
                true => may_keep_answers(history, window, &client),
                false => !window.kind.does.wall_clock,
            };
            let (from, to) = (read_of(operation), written_of(operation).unwrap_or(history.last_time));
            // A fault at a command waits for the next one, and does nothing meanwhile.
            let is_there = match window.kind.is_at_command() {
                true => (from..=to).contains(&window.inject),
                false => overlaps(window, from, to),
            };
            keeps && is_there
        });
        let gone = keepers(window) && lost_between(window, from, anomaly.time);
        late.or(gone.then_some(0)).map(|place| (place, window))
    });
    let found = first_of_one_kind(ranked.collect())?;
    (found.hits(Role::Client) || found.kind.does.data != OnData::Kept).then_some(found.fault)
}

/// True if a fault was observed and disturbs its targets while it lasts. A client that got another list of nodes works as before.
fn is_disturbing(window: &FaultWindow) -> bool {
    window.was_observed() && !window.kind.gives_a_list()
}

/// The last of the faults with the lowest rank; None if these faults are of several kinds.
fn first_of_one_kind<R: Ord>(ranked: Vec<(R, &FaultWindow)>) -> Option<&FaultWindow> {
    let lowest = ranked.iter().map(|(rank, _)| rank).min()?;
    let equals = ranked.iter().filter(|(rank, _)| rank == lowest).map(|(_, window)| *window);
    last_of_one_kind(&equals.collect::<Vec<_>>())
}

/// An acquisition with a token.
struct Grant {
    tried: u64,
    time: u64,
    token: u64,
}

/// The acquisitions of a key with their tokens, in order of time. Made once for each key, since each of a million acquisitions may
/// have a token that is too small.
struct Tokens {
    grants: Vec<Grant>,
    /// The last fall of the counter up to each acquisition: the places of the acquisitions before and after it.
    fell: Vec<Option<(usize, usize)>>,
    /// The next acquisition after each one whose token is not greater.
    smaller: Vec<Option<usize>>,
}

impl Tokens {
    fn new(history: &History, key: &str) -> Tokens {
        let of_key = history.operations.iter().filter(|one| one.key == key);
        let mut grants: Vec<Grant> = of_key.filter_map(|one| grant(history, one)).collect();
        grants.sort_by_key(|one| one.time);
        let (mut fell, mut last) = (Vec::with_capacity(grants.len()), None);
        for (place, after) in grants.iter().enumerate() {
            let before = grants[..place].partition_point(|before| before.time <= after.tried).checked_sub(1);
            last = before.filter(|before| after.token <= grants[*before].token).map(|before| (before, place)).or(last);
            fell.push(last);
        }
        let (mut smaller, mut open) = (vec![None; grants.len()], Vec::<usize>::new());
        for (place, after) in grants.iter().enumerate() {
            while let Some(before) = open.pop_if(|before| after.token <= grants[*before].token) {
                smaller[before] = Some(place);
            }
            open.push(place);
        }
        Tokens { grants, fell, smaller }
    }

    /// The places of the first and the last of these acquisitions. None without any.
    fn places(&self, of: &[Grant]) -> Option<(usize, usize)> {
        let (start, end) = (of.iter().map(|one| one.time).min()?, of.iter().map(|one| one.time).max()?);
        let last = self.grants.partition_point(|one| one.time <= end).checked_sub(1)?;
        Some((self.grants.partition_point(|one| one.time < start), last))
    }

    /// True if the counter had fallen before its last fall, and the smallest of these tokens would be too small without that last
    /// fall, too.
    fn had_fallen_before(&self, of: &[Grant]) -> bool {
        let tokens = || of.iter().map(|one| one.token);
        let (Some((first, last)), Some(most), Some(least)) = (self.places(of), tokens().max(), tokens().min()) else {
            return false;
        };
        // Each acquisition since the last fall would have counted on from the token before it.
        self.fell[last]
            .is_some_and(|(before, _)| before > first && self.grants[before].token.saturating_add(least) <= most)
    }

    /// When the counter last fell between these acquisitions: from the try for the last token before to the acquisition with the
    /// token after. If several acquisitions at once hide the last fall, this is the first one.
    fn fall(&self, of: &[Grant]) -> Option<(u64, u64)> {
        let (first, last) = self.places(of)?;
        let fell = self.fell[last].filter(|(before, _)| *before >= first);
        let smaller = || Some((first, self.smaller[first].filter(|place| *place <= last)?));
        let (before, after) = fell.or_else(smaller)?;
        Some((self.grants[before].tried, self.grants[after].time))
    }
}

fn grant(history: &History, operation: &Operation) -> Option<Grant> {
    let stamp = operation.phase(Phase::Acquired)?;
    Some(Grant { tried: last_try(history, operation, stamp), time: stamp.time(), token: stamp.token? })
}

/// The time before an operation asked for the lock.
pub(super) fn asked(operation: &Operation) -> u64 {
    operation.phase(Phase::Acquiring).map_or(operation.invoked, PhaseStamp::time)
}

/// When the try began that acquired the lock. A lock that subtracts the elapsed time from its TTL tells this by the validity that
/// is left. Otherwise it is when the client asked.
pub(super) fn last_try(history: &History, operation: &Operation, acquired: PhaseStamp) -> u64 {
    let asked = asked(operation);
    let ttl = history.run.as_ref().map_or(0, |run| run.ttl_ms);
    let spent = acquired.validity_ms.map(|left| ttl.saturating_sub(left).saturating_mul(1_000_000));
    spent.filter(|spent| *spent > 0).map_or(asked, |spent| asked.max(acquired.time().saturating_sub(spent)))
}

/// Among the faults in effect at the time, a pause explains most, then a node that forgot or misjudged, then delayed packets,
/// then a partition. Between equals, a fault on a client that took part comes first, then one on enough nodes. A fault that
/// began after the anomaly explains nothing.
fn in_effect(
    history: &History,
    anomaly: &Anomaly,
    operations: &[&Operation],
    blames: Blames,
    fall: Option<(u64, u64)>,
) -> Option<u32> {
    let words = Words::new(history);
    let start = operations.iter().map(|operation| operation.invoked).min()?;
    let end = operations.iter().filter_map(|operation| operation.completed).max().unwrap_or(start).max(anomaly.time);
    let needed = Needed::new(history, &anomaly.key, anomaly.time);
    // A node that keeps its data counts on, whatever happens to its clients. Independent nodes that clients cannot reach miss
    // acquisitions.
    let nodes = history.run.as_ref().map_or(1, |run| run.nodes);
    let is_independent = nodes > 1 && matches!(needed, Needed::Several(_));
    let of_counters = blames == Blames::Counters;
    let forgets = |window: &FaultWindow| window.kind.does.data != OnData::Kept && !window.kind.does.wall_clock;
    let sets_back = |window: &&FaultWindow| {
        let misses = is_independent && (window.kind.does.packets == OnPackets::Cut || window.kind.halts());
        !of_counters || window.hits(Role::Node) && (forgets(window) || misses)
    };
    // The only counter of a key was set back as it fell. Independent nodes may have missed acquisitions long before.
    let (start, end) = fall.filter(|_| !is_independent).unwrap_or((start, end));
    // Few locks read the wall clock of their client.
    let by_wall_clock = history.run.as_ref().is_some_and(|run| run.waits_by_wall_clock);
    // The reader of a stale value had it in hand before its operation was over.
    let read = operations.first().and_then(|reader| reader.phase(Phase::Read));
    let seen = match anomaly.kind {
        AnomalyKind::StaleRead => read.map_or(anomaly.time, |read| read.received),
        // Tokens that follow the fall of a counter are small for the same reason.
        AnomalyKind::TokenRegress => fall.map_or(anomaly.time, |(_, to)| to),
        _ => anomaly.time,
    };
    let ranked =
        history.faults.iter().filter(|window| is_disturbing(window) && sets_back(window)).filter_map(|window| {
            let hit = operations.iter().filter(|_| !of_counters).position(|operation| {
                let end = operation.completed.unwrap_or(history.last_time);
                (by_wall_clock || !window.kind.does.wall_clock)
                    && window.hits_process(operation, &words.process(operation.process))
                    && overlaps(window, operation.invoked, end)
            });
            let takes_data_at_once = of_counters && window.kind.does.data == OnData::Lost;
            let on_a_node = || match takes_data_at_once {
                true => window.hits(Role::Node) && lost_between(window, start, end),
                false => window.hits(Role::Node) && overlaps(window, start, end),
            };
            let place = hit.or_else(|| on_a_node().then_some(operations.len()))?;
            let too_few = hit.is_none() && !needed.hits(window);
            // A counter that was lost needs no node that clients could not reach.
            let may_have_kept = of_counters && !forgets(window);
            let rank = (may_have_kept, telling(window.kind, hit.is_some()), place, too_few);
            // A fault explains nothing that happened before it.
            (window.inject <= seen).then_some((rank, window))
        });
    first_of_one_kind(ranked.collect()).map(|window| window.fault)
}
