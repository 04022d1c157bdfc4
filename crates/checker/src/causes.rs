//! How two clients came to hold a lock at once, as far as the history makes it certain.
//!
//! The first question: had the earlier holder's lock expired, by the holder's own account, when the other client acquired it? If
//! so, the holder stayed too long. The cause is its delay at the time of expiry: a pause, a missing answer, a machine that stood
//! still, or a breakpoint of a script. If not, the same lock was granted twice. Then an event between the two acquisitions may
//! explain it: a node that forgot, a promoted replica, or a disturbed acquisition or release. Faults in effect at other times
//! explain nothing. If only an order is known, only the order is reported. A history shows when a command was sent and answered,
//! never when a server executed it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::attribute::{asked, began as promotion_began, is_settled, last_try, promoted, trigger};
use super::reach::{
    Needed, clock_margin, is_between, is_too_short, kept_from, last_of_one_kind, may_keep_answers, most_telling,
    overlaps,
};
use super::starved::{SHARE, did_not_run, how};
use super::verdict::{Anomaly, How, HowKind};
use super::words::{Words, length, seconds};
use base::members::Role;
use model::fault_kinds::{OnData, OnPackets, OnProcess};
use model::history::{
    Breakpoint, CallEffect, FaultWindow, History, Operation, Outcome, Phase, PhaseStamp, SeenPromotion, WhyWaited,
};

/// A simulated client acts at most this long after a stop, in nanoseconds.
const AT_ONCE: u64 = 20_000_000;

/// Writes into each overlap how it came about, and the fault that explains it.
pub(super) fn of_overlaps(history: &History, overlapping: &mut [Anomaly]) {
    for anomaly in overlapping {
        let holders = &mut anomaly.operations;
        let &[earlier, later, ..] = holders.as_slice() else { continue };
        let of = |earlier| Overlap::new(history, history.place_of(earlier)?, history.place_of(later)?);
        let found = match holders.len() {
            2 => of(earlier).map(|overlap| overlap.causes()),
            // If several clients may hold the lock at once, a holder that stayed too long explains the overlap and is named
            // first. Otherwise the fault that hit the last client while it asked explains it. It is unknown which holder was one
            // too many.
            _ => {
                let stayed = |(place, holder): (usize, &u64)| Some((place, of(*holder)?.overstayed()?));
                let found = holders.iter().enumerate().filter(|(_, holder)| **holder != later).find_map(stayed);
                match found {
                    Some((place, found)) => {
                        holders.swap(0, place);
                        Some(found)
                    }
                    None => of(earlier).map(|overlap| Causes { how: None, fault: overlap.struck_while_it_asked() }),
                }
            }
        };
        if let Some(found) = found {
            anomaly.how = found.how;
            anomaly.fault = found.fault.map(|window| window.fault);
        }
    }
}

/// The explanation of an overlap.
#[derive(Default)]
struct Causes<'h> {
    how: Option<How>,
    fault: Option<&'h FaultWindow>,
}

/// Two holds of a lock. The later hold began before the earlier one was over.
struct Overlap<'h> {
    history: &'h History,
    words: Words<'h>,
    first: usize,
    second: usize,
    /// When the first and when the second operation acquired the lock.
    began: PhaseStamp,
    taken: PhaseStamp,
}

impl<'h> Overlap<'h> {
    fn new(history: &'h History, first: usize, second: usize) -> Option<Overlap<'h>> {
        let acquired = |place: usize| history.operations[place].phase(Phase::Acquired);
        let (began, taken) = (acquired(first)?, acquired(second)?);
        (began.stamped.is_some() && taken.stamped.is_some()).then_some(Overlap {
            history,
            words: Words::new(history),
            first,
            second,
            began,
            taken,
        })
    }

    fn causes(&self) -> Causes<'h> {
        let extended = self.extended_too_late();
        let found = self.overstayed().unwrap_or_else(|| self.given_twice());
        Causes { how: extended.or(found.how).or_else(|| self.without_validity()), ..found }
    }

    /// The cause of the first holder's delay, if its lock had expired when the other client acquired it.
    fn overstayed(&self) -> Option<Causes<'h>> {
        let ran_out = self.ran_out().filter(|ran_out| *ran_out <= self.taken.time())?;
        Some(self.stayed_too_long(ran_out))
    }

    fn operation(&self, place: usize) -> &'h Operation {
        &self.history.operations[place]
    }

    fn client(&self, place: usize) -> String {
        self.words.client(place)
    }

    /// When the first holder's lock expired, by the last grant or extension that it had received when the other client acquired
    /// the lock. None if locks do not expire.
    fn ran_out(&self) -> Option<u64> {
        let run = self.history.run.as_ref().filter(|run| run.expires)?;
        let told = self.history.grants(self.operation(self.first));
        let told = told.filter(|stamp| stamp.stamped.is_some() && stamp.time() <= self.taken.time());
        let until = |stamp: PhaseStamp| {
            stamp.time().saturating_add(stamp.validity_ms.unwrap_or(run.ttl_ms).saturating_mul(1_000_000))
        };
        told.map(until).max()
    }

    /// The first holder received an extension of its lock after the other client had acquired it.
    fn extended_too_late(&self) -> Option<How> {
        let mut extensions = self.operation(self.first).phases.iter().filter(|stamp| stamp.phase == Phase::Extended);
        let extended = extensions.find(|stamp| stamp.stamped > self.taken.stamped)?;
        let text = format!(
            "At {} {} was notified that its lock was extended, {} after {} had acquired it",
            seconds(extended.time()),
            self.client(self.first),
            length(extended.time() - self.taken.time()),
            self.client(self.second),
        );
        How::new(HowKind::Extended, text, [extended.index, self.taken.index])
    }

    /// The cause of the first holder's delay when its lock expired. If several faults could each have delayed it, none is certain.
    fn stayed_too_long(&self, ran_out: u64) -> Causes<'h> {
        let holder = self.operation(self.first);
        let stops = self.history.stops_at(holder, ran_out);
        let on_the_way = self.waits_at(ran_out);
        if !stops.is_empty() {
            let is_alone = self.may_wait_at(ran_out).is_empty() && last_of_one_kind(&stops).is_some();
            let stop = first_in_effect(&stops, ran_out).filter(|_| is_alone && self.went_on_after(&stops, ran_out));
            return Causes { how: None, fault: stop };
        }
        if let Some(how) = self.machine_stood_still(ran_out).or_else(|| self.did_not_run(ran_out)) {
            return Causes { how: Some(how), fault: None };
        }
        if let Some(Breakpoint { reached, repeated, .. }) = self.history.breakpoint_at(holder, ran_out) {
            let text = format!(
                "The script stopped {} at `{}` at {}, and its lock expired there",
                self.client(self.first),
                reached.phase.word(),
                seconds(reached.time()),
            );
            let lines = [self.began.index, reached.index, repeated.index];
            return Causes { how: How::new(HowKind::Breakpoint, text, lines), fault: None };
        }
        let is_of_one_kind = last_of_one_kind(&on_the_way).is_some();
        let first = on_the_way.into_iter().min_by_key(|window| window.inject).filter(|_| is_of_one_kind);
        let asked = self.last_act(ran_out).map_or(0, PhaseStamp::time);
        let was_there = |window: &FaultWindow| window.kind.is_at_command() || window.inject <= asked;
        let lasts = |window: &&FaultWindow| was_there(window) && overlaps(window, ran_out, ran_out);
        Causes { how: None, fault: first.filter(lasts) }
    }

    /// The last act that the first holder had reported by this time, apart from its renewals.
    fn last_act(&self, moment: u64) -> Option<PhaseStamp> {
        self.operation(self.first).acts().filter(|stamp| stamp.time() <= moment).last()
    }

    /// The faults that kept an answer of the resource from the first holder at this time. Empty if it had asked for none.
    fn waits_at(&self, moment: u64) -> Vec<&'h FaultWindow> {
        let asks = |last: PhaseStamp| matches!(last.phase, Phase::Acquired | Phase::BeforeWrite);
        if self.last_act(moment).is_some_and(asks) { self.may_wait_at(moment) } else { Vec::new() }
    }

    /// The faults that may have kept an answer of the resource from the first holder at this time, had it asked. Empty if its write
    /// was over.
    fn may_wait_at(&self, moment: u64) -> Vec<&'h FaultWindow> {
        let Some(last) = self.last_act(moment).filter(|last| last.phase < Phase::Written) else { return Vec::new() };
        let client = self.client(self.first);
        // A lost packet is sent again only some time after the fault.
        let since =
            |window: &FaultWindow| if window.kind.does.packets == OnPackets::Pass { moment } else { last.time() };
        let keeps = |window: &&FaultWindow| {
            may_keep_answers(self.history, window, &client)
                && overlaps(window, since(window), moment)
                && !is_too_short(self.history, window, moment.saturating_sub(last.time()))
        };
        self.history.faults.iter().filter(keeps).collect()
    }

    /// True if the first holder acted as soon as these stops were over. If it did not, other work kept it.
    fn went_on_after(&self, stops: &[&FaultWindow], ran_out: u64) -> bool {
        let ends = stops.iter().map(|window| window.span().1).collect::<Option<Vec<_>>>();
        let holder = self.operation(self.first);
        let next = holder.acts().find(|stamp| stamp.time() > ran_out);
        let (Some(end), Some(next)) = (ends.and_then(|ends| ends.into_iter().max()), next) else { return true };
        // The story names the breakpoint beside the fault.
        if self.history.breakpoint_at(holder, end).is_some() {
            return true;
        }
        // A simulated client goes on at once; a real one may wait for a processor.
        let ttl = self.history.run.as_ref().map_or(0, |run| run.ttl_ms.saturating_mul(1_000_000));
        let soon = if self.history.is_simulated() { AT_ONCE } else { ttl / SHARE };
        next.time().saturating_sub(end) <= soon
    }

    /// Explains the overlap if the machine stood still when the first holder's lock expired, and had not stood still when it was
    /// acquired.
    fn machine_stood_still(&self, ran_out: u64) -> Option<How> {
        let stalls = self.history.stalls.iter().zip(&self.history.stall_lines);
        let mut meanwhile =
            stalls.filter(|((from, to), _)| (*from..=*to).contains(&ran_out) && *from >= self.began.time());
        let (&(from, to), line) = meanwhile.next()?;
        let text = format!(
            "The machine stood still from {} to {}, and {}'s lock expired meanwhile",
            seconds(from),
            seconds(to),
            self.client(self.first),
        );
        How::new(HowKind::StoodStill, text, [self.began.index, *line])
    }

    /// Explains the overlap if the first holder did not run when its lock expired, though the machine ran and no fault delayed
    /// the holder.
    fn did_not_run(&self, ran_out: u64) -> Option<How> {
        let client = self.client(self.first);
        let (_, ended) = self.operation(self.first).certain_hold()?;
        let times = (self.began.time(), ran_out, u64::try_from(ended).unwrap_or(0));
        let (line, waited) = did_not_run(self.history, &client, times)?;
        let text = format!("{}, and its lock expired meanwhile", how(&client, waited));
        let kind = if waited.why == WhyWaited::Processor { HowKind::Starved } else { HowKind::StoppedOutside };
        How::new(kind, text, [self.began.index, line])
    }

    /// The cause of two grants: an event between the two acquisitions, or a disturbance of them.
    fn given_twice(&self) -> Causes<'h> {
        let (first, second) = (self.operation(self.first), self.operation(self.second));
        let steals = self.history.run.as_ref().is_some_and(|run| run.steals);
        let half = second
            .phase(Phase::HalfAcquired)
            .filter(|half| (self.began.time()..=self.taken.time()).contains(&half.time()));
        if let Some(half) = half.filter(|_| steals) {
            let text = format!(
                "{} stole the lock from another client, as this kind of lock allows, and was about to report it at {}",
                self.client(self.second),
                seconds(half.time()),
            );
            let fault = self.most_telling(|window| {
                let does = window.kind.does;
                let keeps = does.process == OnProcess::Stops || does.packets == OnPackets::Cut;
                keeps && self.hits(window, self.first) && overlaps(window, half.time(), self.taken.time())
            });
            return Causes { how: How::new(HowKind::Stolen, text, [half.index, self.taken.index]), fault };
        }
        if let Some(seen) = self.promotion() {
            let fault = trigger(self.history, seen);
            let is_first = is_settled(self.history, &first.key, promotion_began(self.history, seen));
            return if is_first && !self.has_a_wrong_clock(fault) {
                Causes { how: promoted(seen), fault }
            } else {
                Causes::default()
            };
        }
        // Of two primaries, the history does not show which one granted a lock.
        if !is_settled(self.history, &first.key, self.began.time()) {
            return Causes::default();
        }
        let needed = Needed::new(self.history, &first.key, self.taken.time());
        let kept = kept_from(self.history, &self.client(self.first), asked(first), self.began.time());
        let lost = |from| needed.lost(self.history, &kept, from, self.taken.time());
        let struck = || {
            let lost = lost(asked(first));
            self.most_telling(|window| {
                let of_the_first = window.kind.is_at_command() && self.hits(window, self.first);
                if window.hits(Role::Node) && (window.kind.does.data != OnData::Kept || of_the_first) {
                    return match window.kind.does.data {
                        OnData::Lost => lost.flatten().is_some_and(|lost| lost.fault == window.fault),
                        OnData::InDoubt if !needed.hits(window) => false,
                        OnData::InDoubt | OnData::Kept => overlaps(window, asked(first), self.taken.time()),
                    };
                }
                // A fault that was over when the first client acquired the lock did not let the second one in.
                let asked_beside = asked(second).max(self.began.time());
                self.disturbed(window, self.second, asked_beside, self.taken)
                    || self.disturbed(window, self.first, asked(first), self.began)
            })
        };
        // If too few nodes still have the first holder's key, no other cause is needed.
        let fault = lost(self.began.time()).unwrap_or_else(|| self.other_list().or_else(struck));
        let is_certain = |window: &FaultWindow| !self.has_a_wrong_clock(Some(window)) && !self.has_another_loss(window);
        let fault = fault.filter(|window| window.kind.gives_a_list() || is_certain(window));
        if let Some(how) = self.without_validity() {
            return Causes { how: Some(how), fault };
        }
        match (fault, self.release_in_between()) {
            (None, Some((how, fault))) => Causes { how, fault: fault.or(self.late_command()) },
            (None, None) => Causes { how: None, fault: self.late_command() },
            (Some(_), _) => Causes { how: None, fault },
        }
    }

    /// True if nodes with wrong clocks may have dropped the key instead: enough of them, or any if this fault alone removed too few
    /// keys.
    fn has_a_wrong_clock(&self, fault: Option<&FaultWindow>) -> bool {
        let needed = Needed::new(self.history, &self.operation(self.first).key, self.taken.time());
        let is_too_few = fault.is_some_and(|window| window.kind.does.data != OnData::Kept && !needed.hits(window));
        self.others_on_nodes(fault).any(|other| other.kind.does.wall_clock && (is_too_few || needed.hits(other)))
    }

    /// True if another fault removed keys from a node, and this one did not.
    fn has_another_loss(&self, fault: &FaultWindow) -> bool {
        let loses = |window: &FaultWindow| window.kind.does.data == OnData::Lost;
        !loses(fault) && self.others_on_nodes(Some(fault)).any(loses)
    }

    /// The other faults on nodes that were in effect between the two acquisitions.
    fn others_on_nodes(&self, fault: Option<&FaultWindow>) -> impl Iterator<Item = &'h FaultWindow> {
        let number = fault.map(|fault| fault.fault);
        let (from, to) = (self.began.time(), self.taken.time());
        let on_nodes = self.history.faults.iter().filter(|other| other.was_observed() && other.hits(Role::Node));
        on_nodes.filter(move |other| Some(other.fault) != number && overlaps(other, from, to))
    }

    /// The fault that gave one of the two clients another list of nodes. None if any majority of one list shares a node with any
    /// majority of the other. Of two such faults, the later one.
    fn other_list(&self) -> Option<&'h FaultWindow> {
        let lists = [self.first, self.second].map(|place| self.history.list_of(self.operation(place)));
        let listed = [self.first, self.second].map(|place| self.history.listed(self.operation(place)));
        let all = match lists {
            [Some(one), Some(other)] => one.iter().chain(other).collect::<BTreeSet<_>>().len(),
            _ => listed[0].max(listed[1]),
        };
        if listed.iter().map(|nodes| nodes / 2 + 1).sum::<usize>() > all {
            return None;
        }
        let mut windows =
            self.history.faults.iter().filter(|window| window.kind.gives_a_list() && window.was_observed());
        windows.rfind(|window| {
            [self.first, self.second].into_iter().zip(&lists).any(|(place, list)| {
                list.is_some()
                    && self.hits(window, place)
                    && overlaps(window, asked(self.operation(place)), self.taken.time())
            })
        })
    }

    /// True if a fault disturbed a client while it acquired the lock: it was certainly in effect after the client had asked. The
    /// wall clock of a client matters only if the client believes in more validity than its own stamps leave.
    fn disturbed(&self, window: &FaultWindow, place: usize, since: u64, acquired: PhaseStamp) -> bool {
        if !self.hits(window, place) || !is_between(window, &self.client(place), Role::Node) {
            return false;
        }
        let taken = acquired.time();
        if window.kind.is_at_command() {
            return overlaps(window, since, taken);
        }
        let operation = self.operation(place);
        let tried = last_try(self.history, operation, acquired);
        if window.kind.does.wall_clock && (tried == asked(operation) || acquired.validity_ms.is_none()) {
            return false;
        }
        let margin = clock_margin(self.history, i64::try_from(taken).unwrap_or(i64::MAX)).cast_unsigned();
        let from = since.max(tried).saturating_add(margin);
        window.certain_span().is_some_and(|(began, ended)| began <= taken && ended > from)
    }

    /// The fault that hit a command of the second holder while it asked for the lock.
    fn struck_while_it_asked(&self) -> Option<&'h FaultWindow> {
        let from = asked(self.operation(self.second));
        self.most_telling(|window| {
            window.kind.is_at_command() && self.hits(window, self.second) && overlaps(window, from, self.taken.time())
        })
    }

    /// A fault that kept a client's command from a node until the first holder had the lock.
    fn late_command(&self) -> Option<&'h FaultWindow> {
        self.most_telling(|window| {
            window.kind.is_at_command()
                && window.on_call == Some(CallEffect::HoldRequest)
                && window.hits(Role::Node)
                && window.healed.is_some_and(|(time, _)| (self.began.time()..=self.taken.time()).contains(&time))
        })
    }

    /// The last promotion for this key before the second client acquired the lock. None if the promotion was over when the first
    /// client acquired the lock, and its cause no longer isolated the old primary.
    fn promotion(&self) -> Option<&'h SeenPromotion> {
        let (first, taken) = (self.operation(self.first), self.taken.time());
        let mut of_key = self.history.promotions.iter().filter(|seen| first.key == seen.promotion.key);
        let seen = of_key.rfind(|seen| seen.time <= taken)?;
        let began = self.began.time();
        let still_apart = || trigger(self.history, seen).is_some_and(|window| overlaps(window, began, taken));
        (began <= seen.time || still_apart()).then_some(seen)
    }

    /// One of the two clients acquired the lock with a reported validity of zero.
    fn without_validity(&self) -> Option<How> {
        let of = [(self.second, self.taken), (self.first, self.began)];
        let (place, stamp) = of.into_iter().find(|(_, stamp)| stamp.validity_ms == Some(0))?;
        let text =
            format!("At {} {} acquired the lock with no validity left", seconds(stamp.time()), self.client(place));
        How::new(HowKind::Expired, text, [stamp.index])
    }

    /// An earlier holder was still releasing the lock after the first of these two had acquired it.
    fn release_in_between(&self) -> Option<(Option<How>, Option<&'h FaultWindow>)> {
        let key = &self.operation(self.first).key;
        let began = self.began.time();
        // Skips most of a long history: operations that were over by then, or began later.
        let is_under_way = |other: &Operation| {
            other.invoked <= began && (other.outcome == Outcome::Info || other.completed.is_none_or(|end| end > began))
        };
        let mut others = self.history.operations.iter().enumerate().filter(|(place, other)| {
            is_under_way(other) && other.key == *key && ![self.first, self.second].contains(place)
        });
        others.find_map(|(place, other)| {
            let (held_from, _) = self.history.certain_hold(other)?;
            let sent = other.phases.iter().filter(|stamp| stamp.phase == Phase::Releasing).last()?;
            let over = other.phase(Phase::Released);
            // A request of a process that is gone may still be on its way, but the client is no longer releasing.
            let is_over = other.outcome != Outcome::Info || other.error() == Some("crash");
            let until = over.map(PhaseStamp::time).or(other.completed.filter(|_| is_over)).unwrap_or(u64::MAX);
            let before = i64::try_from(began).is_ok_and(|began| held_from < began);
            if !before || until <= began || sent.time() >= self.taken.time() {
                return None;
            }
            let end = over.map_or(String::new(), |over| format!(" to {}", seconds(over.time())));
            let text = format!(
                "{}, which had acquired the lock before at {}, was releasing it from {}{end}",
                self.client(place),
                seconds(u64::try_from(held_from).unwrap_or(0)),
                seconds(sent.time()),
            );
            let acquired = other.phase(Phase::Acquired).map(|stamp| stamp.index);
            let lines = acquired.into_iter().chain([sent.index]).chain(over.map(|over| over.index));
            let release_began = other.phase(Phase::Releasing).map_or(sent.time(), PhaseStamp::time);
            let fault = self.most_telling(|window| {
                self.hits(window, place)
                    && !window.kind.does.wall_clock
                    && overlaps(window, release_began, until.min(self.taken.time()))
            });
            Some((How::new(HowKind::Released, text, lines), fault))
        })
    }

    fn hits(&self, window: &FaultWindow, place: usize) -> bool {
        window.hits_process(&self.history.operations[place], &self.client(place))
    }

    /// The most telling of the observed faults that fit.
    fn most_telling(&self, fits: impl Fn(&FaultWindow) -> bool) -> Option<&'h FaultWindow> {
        most_telling(self.history.faults.iter().filter(|window| window.was_observed() && fits(window)))
    }
}

/// The first of these stops that was in effect at this time; of equals, the longest.
fn first_in_effect<'h>(stops: &[&'h FaultWindow], moment: u64) -> Option<&'h FaultWindow> {
    let there = stops.iter().copied().filter(|window| overlaps(window, moment, moment));
    there.min_by_key(|window| (window.inject, Reverse(window.span().1.unwrap_or(u64::MAX))))
}
