//! Redlock with priorities: a client with a higher priority steals the lock, and acts once the victim has reported that it is
//! done.
//!
//! Source: the notes on the lock protocol of a priority Redlock (`specs.md`, unfinished by its own account). A node grants the
//! key to a client that finds it free or held under a lower priority, never under an equal one. The answer names the previous
//! holder. A thief with a majority notifies its victims and waits: until each has acknowledged, or for a fraction of the TTL,
//! `stolen_consistency_factor`. A victim that has not begun to write gives up the lock and acknowledges; a victim that is writing
//! acknowledges after its release. If a thief is robbed while it waits, it acknowledges only after its own victims have. So in a
//! chain of thieves the last thief waits for the first victim.
//!
//! With a factor of 1 it promises the same as Redlock. A thief without an acknowledgement waits until its own lock has expired,
//! which is later than the victim's, and has not acquired the lock. With a lower factor it acts without hearing from its victim,
//! which may act as well. If victims never answer, no client has the lock for a TTL.
//!
//! A thief that had to wait may have little of its own TTL left, so it should check again before it writes.
//!
//! A thief that fails removes nothing: the keys that it set keep other clients out as long as its victim may act.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::about::{asking, is_default};
use super::redlock::{self, RECHECK, Redlock, RedlockSettings};
use super::{About, Algorithm, Clock, Held, LockOptions, LockParts, LockTable, Mail, Node, PhaseHook, all};
use base::sync::{lock, until};
use base::units::{Length, LengthRange};

pub(super) const ABOUT: About =
    About { name: "steal", called: "Redlock with priorities", halves: true, steals: true, ..About::OF_ITS_OWN };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StealOptions {
    /// How long one request to one node may take; far below the TTL.
    pub node_timeout: Length,
    /// Fraction of the TTL by which clocks may drift apart while the lock is held, such as 0.01.
    pub drift_factor: f64,
    /// How long to wait before the next attempt, drawn each time.
    pub retry_delay: LengthRange,
    /// The clients' priorities in the order of their numbers, repeated as needed: client 0 has the first one.
    pub priorities: Vec<u32>,
    /// Fraction of the TTL for which a thief waits for its victim's acknowledgement before it acts without one. From 0 to 1; 1
    /// means that it never acts without one.
    pub stolen_consistency_factor: f64,
    /// True if the holder checks its remaining validity once more right before it writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recheck: bool,
}

/// The options for every client, besides those of Redlock.
#[derive(Serialize, Deserialize)]
struct StealSettings {
    stolen_consistency_factor: f64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct OfClient {
    /// A client with a higher priority may acquire the lock from a client with a lower one.
    priority: u32,
}

impl LockTable for StealOptions {
    fn resolve(&self, ttl: Duration) -> Result<LockOptions, String> {
        if self.priorities.is_empty() {
            return Err("`priorities` is empty; name at least one, such as `[1, 2, 3]`".to_string());
        }
        let factor = self.stolen_consistency_factor;
        if !(0.0..=1.0).contains(&factor) {
            return Err(format!("`stolen_consistency_factor = {factor}` must be a part of the TTL, from 0 to 1"));
        }
        let asking = asking(self.node_timeout, self.retry_delay, ttl)?;
        let options = LockOptions { recheck: self.recheck.then_some(true), ..asking };
        let options = options.with(&RedlockSettings::new(self.drift_factor)?);
        Ok(options.with(&StealSettings { stolen_consistency_factor: factor }))
    }

    fn describe(&self) -> String {
        let recheck = if self.recheck { RECHECK } else { "" };
        format!(
            ": priorities {:?}, clients that steal wait for {} of the TTL, node timeout {}, drift factor {}, retry after \
             {}{recheck}",
            self.priorities, self.stolen_consistency_factor, self.node_timeout, self.drift_factor, self.retry_delay
        )
    }

    fn of_client(&self, client: u32) -> LockOptions {
        let priority = self.priorities.iter().cycle().nth(client as usize % self.priorities.len().max(1));
        let of_client = priority.map(|priority| OfClient { priority: *priority });
        of_client.map(|told| LockOptions::default().with(&told)).unwrap_or_default()
    }
}

pub struct Steal<N, C, M> {
    redlock: Redlock<N, C>,
    priority: u32,
    /// Fraction of the TTL for which a thief waits for its victims.
    stolen_consistency_factor: f64,
    /// The address at which this client learns of thefts.
    address: String,
    desk: Arc<Desk>,
    mail: Arc<M>,
    /// The task that reads the mail; it ends when this is dropped.
    _reading: JoinSet<()>,
}

pub(super) fn build<N: Node, C: Clock, M: Mail>(parts: LockParts<'_, N, C, M>) -> Result<Steal<N, C, M>, String> {
    let settings = parts.settings;
    let (OfClient { priority }, StealSettings { stolen_consistency_factor }) = (settings.own()?, settings.own()?);
    let LockParts { settings, nodes, clock, mail } = parts;
    let redlock = redlock::build(LockParts { settings, nodes, clock, mail: () })?;
    Ok(Steal::new(redlock, priority, stolen_consistency_factor, mail))
}

/// How long a thief waits before it notifies its victims again, as a fraction of the TTL.
const TELL_AGAIN: f64 = 0.05;
/// At most this many failed attempts with victims that may still act are remembered. Other clients may still ask about them.
const ABANDONED: usize = 64;

const STOLEN: &str = "stolen by a higher priority";

/// A client's knowledge of its own acquisition and of its thieves.
#[derive(Default)]
struct Desk {
    state: Mutex<Ledger>,
    changed: Notify,
}

#[derive(Default)]
struct Ledger {
    /// The mark of the current acquisition, in progress or held.
    mark: String,
    stage: HolderStage,
    /// Thieves waiting for an acknowledgement: their addresses and marks.
    thieves: BTreeSet<(String, String)>,
    /// The marks of victims that have acknowledged.
    acknowledged: BTreeSet<String>,
    /// The marks of attempts whose victims never acknowledged, so this client can't acknowledge either.
    abandoned: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HolderStage {
    #[default]
    Idle,
    /// The client has notified its victims.
    Waiting,
    Held,
    /// The holder is about to write and can't be stopped any more.
    Acting,
    /// A thief took it and waits for the acknowledgement.
    Stolen,
}

/// A message between contenders, in words: the kind, the victim's mark, the thief's mark, the thief's address.
enum StealMessage {
    Stolen { victim: String, thief: String, address: String },
    Acknowledged { victim: String, thief: String },
}

/// A key's value: priority, mark, address. The nodes read the priority.
struct StealClaim {
    mark: String,
    address: String,
}

impl<N: Node, C: Clock, M: Mail> Steal<N, C, M> {
    /// Starts to listen for thieves; needs a runtime.
    pub fn new(redlock: Redlock<N, C>, priority: u32, factor: f64, mail: M) -> Steal<N, C, M> {
        let address = format!("lock-mail:{}", redlock.clock.mark());
        let (desk, mail) = (Arc::new(Desk::default()), Arc::new(mail));
        let mut letters = mail.listen(&address);
        let (reader, sender) = (desk.clone(), mail.clone());
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            while let Some(text) = letters.recv().await {
                if let Some((address, answer)) = StealMessage::parse(&text).and_then(|message| reader.hear(message)) {
                    sender.send(&address, &answer).await;
                }
            }
        });
        Steal { redlock, priority, stolen_consistency_factor: factor, address, desk, mail, _reading: reading }
    }

    fn clock(&self) -> &C {
        &self.redlock.clock
    }

    /// Notifies all victims repeatedly until each has acknowledged or the time is up. Returns true if all have.
    async fn hand_over(&self, mark: &str, victims: &[StealClaim], deadline: Duration) -> bool {
        loop {
            let heard = self.desk.changed.notified();
            let waiting: Vec<&StealClaim> = {
                let state = self.desk.state();
                victims.iter().filter(|victim| !state.acknowledged.contains(&victim.mark)).collect()
            };
            if waiting.is_empty() {
                return true;
            }
            let left = deadline.saturating_sub(self.clock().now());
            if left.is_zero() {
                return false;
            }
            all(waiting.iter().map(|victim| async {
                let (victim_mark, thief, address) = (victim.mark.clone(), mark.to_string(), self.address.clone());
                let text = StealMessage::Stolen { victim: victim_mark, thief, address }.to_text();
                self.mail.send(&victim.address, &text).await;
            }))
            .await;
            let pause = left.min(self.redlock.ttl.mul_f64(TELL_AGAIN));
            tokio::select! {
                biased;
                () = heard => {}
                () = self.clock().sleep(pause) => {}
            }
        }
    }

    /// Notifies every waiting thief that this acquisition no longer acts.
    async fn acknowledge(&self, mark: &str) {
        let thieves = {
            let mut state = self.desk.state();
            state.stage = HolderStage::Idle;
            std::mem::take(&mut state.thieves)
        };
        for (address, thief) in thieves {
            let text = StealMessage::Acknowledged { victim: mark.to_string(), thief }.to_text();
            self.mail.send(&address, &text).await;
        }
    }
}

#[async_trait]
impl<N: Node, C: Clock, M: Mail> Algorithm for Steal<N, C, M> {
    async fn attempt(&self, key: &str, hook: &dyn PhaseHook) -> Result<Held, String> {
        let mark = self.clock().mark();
        let claim = format!("{} {mark} {}", self.priority, self.address);
        let start = self.clock().now();
        self.desk.begin(&mark);
        let nodes = &self.redlock.nodes;
        let asked = nodes.iter().map(|node| node.set_if_outranks(key, &claim, self.priority, self.redlock.ttl));
        let answers = all(asked).await;
        let votes: Vec<bool> = answers.iter().map(|answer| matches!(answer, Ok((true, _)))).collect();
        let won = votes.iter().filter(|vote| **vote).count();
        let quorum = self.redlock.quorum();
        let took = || self.clock().now().saturating_sub(start);
        let mut held = Held { mark: claim, validity: Some(self.redlock.validity(took())), votes, token: None };
        let victims = victims(answers.into_iter().flatten().filter_map(|(set, before)| before.filter(|_| set)));
        if won < quorum {
            match victims.is_empty() {
                true => self.release(key, &held, hook).await,
                false => self.desk.abandon(&mark),
            }
            return Err(format!("{won} of {} nodes granted the lock, {quorum} needed", nodes.len()));
        }
        let mut acknowledged = true;
        if !victims.is_empty() {
            hook.half_acquired().await;
            let patience = self.redlock.ttl.mul_f64(self.stolen_consistency_factor);
            acknowledged = self.hand_over(&mark, &victims, start + patience).await;
            held.validity = Some(self.redlock.validity(took()));
        }
        let too_late = held.validity.is_none_or(|validity| validity.is_zero());
        if too_late || !self.desk.hold() {
            match acknowledged {
                true => self.release(key, &held, hook).await,
                false => self.desk.abandon(&mark),
            }
            return Err(if too_late { "the acquisition took longer than the TTL" } else { STOLEN }.to_string());
        }
        Ok(held)
    }

    async fn release(&self, key: &str, held: &Held, hook: &dyn PhaseHook) {
        self.redlock.release(key, held, hook).await;
        self.acknowledge(mark_of(held)).await;
    }

    async fn taken(&self, _: &Held) -> String {
        let stolen = |state: &mut Ledger| (state.stage == HolderStage::Stolen).then(|| STOLEN.to_string());
        until(&self.desk.state, &self.desk.changed, stolen).await
    }

    async fn let_go(&self, held: &Held) {
        self.acknowledge(mark_of(held)).await;
    }

    fn may_act(&self, held: &Held) -> Result<(), String> {
        let mut state = self.desk.state();
        if state.mark == mark_of(held) && matches!(state.stage, HolderStage::Held | HolderStage::Acting) {
            state.stage = HolderStage::Acting;
            return Ok(());
        }
        Err(STOLEN.to_string())
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.state)
    }

    /// Begins an attempt under a new mark.
    fn begin(&self, mark: &str) {
        let mut state = self.state();
        state.mark = mark.to_string();
        state.stage = HolderStage::Waiting;
        state.thieves.clear();
        state.acknowledged.clear();
    }

    /// Marks the attempt as successful unless a thief took it meanwhile; returns whether it succeeded.
    fn hold(&self) -> bool {
        let mut state = self.state();
        let free = state.thieves.is_empty();
        if free {
            state.stage = HolderStage::Held;
        }
        free
    }

    /// Gives up an attempt that took keys from a holder that may still act.
    fn abandon(&self, mark: &str) {
        let mut state = self.state();
        state.stage = HolderStage::Idle;
        state.thieves.clear();
        state.abandoned.push(mark.to_string());
        let too_many = state.abandoned.len().saturating_sub(ABANDONED);
        state.abandoned.drain(..too_many);
    }

    /// The immediate reply to a message: address and text; None if there is none.
    fn hear(&self, message: StealMessage) -> Option<(String, String)> {
        let mut state = self.state();
        match message {
            StealMessage::Acknowledged { victim, thief } if thief == state.mark => {
                state.acknowledged.insert(victim);
            }
            StealMessage::Acknowledged { .. } => return None,
            StealMessage::Stolen { victim, .. } if state.abandoned.contains(&victim) => return None,
            StealMessage::Stolen { victim, thief, address }
                if victim == state.mark && state.stage != HolderStage::Idle =>
            {
                state.thieves.insert((address, thief));
                if state.stage == HolderStage::Held {
                    state.stage = HolderStage::Stolen;
                }
            }
            // That acquisition is over, or this client could never keep it.
            StealMessage::Stolen { victim, thief, address } => {
                return Some((address, StealMessage::Acknowledged { victim, thief }.to_text()));
            }
        }
        self.changed.notify_waiters();
        None
    }
}

impl StealMessage {
    fn to_text(&self) -> String {
        match self {
            StealMessage::Stolen { victim, thief, address } => format!("stolen {victim} {thief} {address}"),
            StealMessage::Acknowledged { victim, thief } => format!("acknowledged {victim} {thief}"),
        }
    }

    /// `None` for a text that no contender sends.
    fn parse(text: &str) -> Option<StealMessage> {
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        match words.as_slice() {
            [what, victim, thief, address] if what == "stolen" => {
                Some(StealMessage::Stolen { victim: victim.clone(), thief: thief.clone(), address: address.clone() })
            }
            [what, victim, thief] if what == "acknowledged" => {
                Some(StealMessage::Acknowledged { victim: victim.clone(), thief: thief.clone() })
            }
            _ => None,
        }
    }
}

/// The acquisitions from which the key was taken, without duplicates.
fn victims(values: impl Iterator<Item = String>) -> Vec<StealClaim> {
    let distinct: BTreeSet<String> = values.collect();
    let claim = |value: &String| {
        let mut words = value.split(' ').skip(1).map(String::from);
        Some(StealClaim { mark: words.next()?, address: words.next()? })
    };
    distinct.iter().filter_map(claim).collect()
}

fn mark_of(held: &Held) -> &str {
    held.mark.split(' ').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeClock, FakeMail, FakeNode, Nobody};
    use super::*;

    /// Nodes, a clock and a post office that contenders share.
    struct Contention {
        nodes: Vec<FakeNode>,
        clock: FakeClock,
        mail: FakeMail,
    }

    impl Contention {
        fn new() -> Contention {
            let clock = FakeClock::default();
            let nodes = (0..5).map(|_| FakeNode::new(&[], clock.clone())).collect();
            Contention { nodes, clock, mail: FakeMail::default() }
        }

        fn contender(&self, priority: u32, factor: f64) -> Steal<FakeNode, FakeClock, FakeMail> {
            let redlock = Redlock {
                nodes: self.nodes.clone(),
                clock: self.clock.clone(),
                ttl: Duration::from_millis(1000),
                settings: RedlockSettings::new(0.01).unwrap(),
            };
            Steal::new(redlock, priority, factor, self.mail.clone())
        }
    }

    #[tokio::test]
    async fn only_a_higher_priority_takes_the_lock_away_and_its_holder_is_told() {
        let world = Contention::new();
        let (low, equal, high) = (world.contender(1, 1.0), world.contender(1, 1.0), world.contender(2, 1.0));
        let held = low.attempt("k", &Nobody).await.unwrap();
        assert_eq!(equal.attempt("k", &Nobody).await, Err("0 of 5 nodes granted the lock, 3 needed".into()));
        let victim = async {
            assert_eq!(low.taken(&held).await, STOLEN);
            assert!(low.may_act(&held).is_err());
            low.let_go(&held).await;
        };
        let (stolen, ()) = tokio::join!(high.attempt("k", &Nobody), victim);
        let stolen = stolen.unwrap();
        assert!(high.may_act(&stolen).is_ok());
        assert_eq!(low.attempt("k", &Nobody).await, Err("0 of 5 nodes granted the lock, 3 needed".into()));
        high.release("k", &stolen, &Nobody).await;
        assert!(low.attempt("k", &Nobody).await.is_ok());
    }

    #[tokio::test]
    async fn a_thief_waits_for_a_victim_that_is_about_to_write() {
        let world = Contention::new();
        let (low, high) = (world.contender(1, 1.0), world.contender(2, 1.0));
        let held = low.attempt("k", &Nobody).await.unwrap();
        low.may_act(&held).unwrap();
        let thief = async {
            let stolen = high.attempt("k", &Nobody).await;
            (stolen, world.clock.now())
        };
        let victim = async {
            while world.clock.now() < Duration::from_millis(500) {
                tokio::task::yield_now().await;
            }
            low.release("k", &held, &Nobody).await;
        };
        let ((stolen, when), ()) = tokio::join!(thief, victim);
        assert!(stolen.is_ok() && when >= Duration::from_millis(500), "{stolen:?} after {when:?}");
    }

    #[tokio::test]
    async fn without_an_acknowledgement_only_a_hasty_thief_acts() {
        for (factor, acts) in [(1.0, false), (0.3, true)] {
            let world = Contention::new();
            let (low, high) = (world.contender(1, factor), world.contender(2, factor));
            let held = low.attempt("k", &Nobody).await.unwrap();
            world.mail.cut_off();
            assert_eq!(high.attempt("k", &Nobody).await.is_ok(), acts);
            assert!(low.may_act(&held).is_ok(), "the victim knows of nothing");
            let others = world.nodes.iter().filter(|node| node.value("k").is_some()).count();
            assert_eq!(others, if acts { 5 } else { 0 }, "a thief that fails leaves its keys to the TTL");
        }
    }

    #[tokio::test]
    async fn in_a_chain_the_last_thief_waits_for_the_first_victim() {
        let world = Contention::new();
        let [low, middle, high] = [1, 2, 3].map(|priority| world.contender(priority, 1.0));
        let held = low.attempt("k", &Nobody).await.unwrap();
        low.may_act(&held).unwrap();
        let victim = async {
            while world.clock.now() < Duration::from_millis(400) {
                tokio::task::yield_now().await;
            }
            low.release("k", &held, &Nobody).await;
            world.clock.now()
        };
        let last = async {
            tokio::task::yield_now().await;
            let stolen = high.attempt("k", &Nobody).await;
            (stolen, world.clock.now())
        };
        let (between, (stolen, when), released) = tokio::join!(middle.attempt("k", &Nobody), last, victim);
        assert_eq!(between, Err(STOLEN.to_string()));
        assert!(stolen.is_ok() && when >= released, "{stolen:?} at {when:?}, {released:?}");
    }

    #[tokio::test]
    async fn who_did_not_hear_from_its_victims_acknowledges_nothing() {
        let world = Contention::new();
        let [low, middle, high] = [1, 2, 3].map(|priority| world.contender(priority, 1.0));
        low.attempt("k", &Nobody).await.unwrap();
        // It takes the key from the victim on only two nodes.
        world.nodes[2..].iter().for_each(|node| node.cut_off(true));
        assert!(middle.attempt("k", &Nobody).await.is_err());
        // The next thief does not see the victim.
        world.nodes.iter().for_each(|node| node.cut_off(false));
        world.nodes[2..].iter().for_each(FakeNode::forget);
        assert_eq!(high.attempt("k", &Nobody).await, Err("the acquisition took longer than the TTL".into()));
    }

    #[test]
    fn what_no_contender_says_is_no_message() {
        for text in ["", "stolen", "stolen a b", "acknowledged a b c", "hello a b"] {
            assert!(StealMessage::parse(text).is_none(), "{text}");
        }
        for text in ["stolen a b c", "acknowledged a b"] {
            assert_eq!(StealMessage::parse(text).unwrap().to_text(), text);
        }
    }
}
