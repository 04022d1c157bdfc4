//! A scenario for each command that a library was seen to send, and for each fault there.
//!
//! Each scenario tests one situation, like those of the catalogue. The fault hits the command while its client acquires, holds
//! or releases the lock. Then another client has its turn, and the first one goes on. [`pairs`](super::pairs) uses the same
//! parts.

pub use super::aim::{FaultPoint, Place, Strike};
use super::commands::{ObservedCommand, RenewalMode, When};
use super::steps::{CLIENTS, Steps, others};
use base::words::capital;

/// The faults that are tried, the most promising first.
const ALL: [Strike; 19] = [
    Strike::LateReply,
    Strike::Pause,
    Strike::Reset,
    Strike::Refused,
    Strike::Cancel,
    Strike::LateRequest,
    Strike::LostReply,
    Strike::Overtaken,
    Strike::Kill,
    Strike::Close,
    Strike::Idle,
    Strike::GivenUp,
    Strike::Block,
    Strike::ClockBack,
    Strike::NodePause,
    Strike::NodeRestartSynced,
    Strike::NodeRestart,
    Strike::ClockForward,
    Strike::NodeClock,
];

/// A scenario with its place among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    pub name: String,
    pub description: String,
    pub toml: String,
    /// The faults of the scenario: one or two.
    pub aims: Vec<FaultPoint>,
}

/// The properties of a library, beside its commands, that determine its scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub nodes: u32,
    pub expires: bool,
    pub upkeep: RenewalMode,
    /// How many clients may hold the lock at once.
    pub permits: u32,
    /// True if its client can cancel an operation while it has only one at a time.
    pub cancels: bool,
    /// True if it has an event loop that can be blocked.
    pub blocks: bool,
    /// True if all scenarios of the catalogue were run. Faults that they already contain can then come later.
    pub knows_the_catalogue: bool,
}

/// The scenarios for these commands: one on all nodes at once and, if there are several nodes, one on each of the first three.
///
/// Time may not suffice for all, so the most telling ones come first. These are each fault at each distinct command, once, and
/// among them the ones that the catalogue has not run. Then come other nodes, and then repeated commands in the same operation
/// or on other keys.
pub fn scenarios(sent: &[ObservedCommand], setting: &Setting) -> Vec<Scripted> {
    let Some(others) = others(setting.permits) else { return Vec::new() };
    let single = if setting.nodes > 1 { setting.nodes.min(3) } else { 0 };
    let places: Vec<Place> = std::iter::once(Place::All).chain((0..single).map(Place::Node)).collect();
    let mut scenarios: Vec<((u32, usize, bool, usize), Scripted)> = Vec::new();
    // A command without any of the lock's keys does not concern the lock. If the lock has several permits, faults hit only
    // acquisitions and releases: a semaphore does not protect the work of a holder.
    let is_asked = |sent: &ObservedCommand| sent.key.is_some() && (setting.permits == 1 || sent.when != When::Holding);
    for (place, sent_now) in sent.iter().enumerate().filter(|(_, sent)| is_asked(sent)) {
        let is_first = sent[..place].iter().all(|earlier| earlier.key.is_none() || earlier.when != sent_now.when);
        for (rank, strike) in ALL.iter().enumerate().filter(|(_, strike)| strike.fits(sent_now.when, setting)) {
            let fitting = places.iter().filter(|place| strike.fits_at(**place, setting.nodes));
            for (far, place) in fitting.enumerate() {
                let aim = FaultPoint { strike: *strike, sent: sent_now.clone(), at: *place };
                let was_played =
                    setting.knows_the_catalogue && is_first && far == 0 && strike.is_in_the_catalogue(sent_now.when);
                let rank = (sent_now.nth + sent_now.nth_key, far, was_played, rank);
                let whole = |more: Option<Scripted>| more.filter(|_| *place == Place::All);
                let next = whole(aim.and_the_next_hold(setting, others));
                let others_turn = [aim.and_asks_again(setting, others), aim.at_a_later_attempt(setting, others)];
                let others_turn = others_turn.into_iter().filter_map(whole);
                let others_turn = others_turn.map(|more| ((rank.0, far, false, rank.3), more)).collect::<Vec<_>>();
                scenarios.push((rank, aim.scenario(setting.upkeep, others)));
                scenarios.extend(next.map(|next| ((rank.0, far + 1, was_played, rank.3), next)));
                scenarios.extend(others_turn);
            }
        }
    }
    scenarios.sort_by_key(|(rank, _)| *rank);
    scenarios.into_iter().map(|(_, scenario)| scenario).collect()
}

impl Strike {
    /// True if the fault can show anything about what the client is doing then.
    fn fits(self, when: When, setting: &Setting) -> bool {
        use Strike::*;
        match (self, when) {
            (Cancel, _) if !setting.cancels => false,
            (Block, _) if !setting.blocks => false,
            // A waiter holds no lock that could expire. But it may block other clients, or never be served.
            (
                LateReply | LateRequest | Reset | Close | Idle | LostReply | Kill | Cancel | NodeRestartSynced,
                When::Waiting,
            ) => true,
            (_, When::Waiting) => false,
            // An idle connection breaks only later, at another command.
            (Idle, _) => false,
            // Only a command from the background can arrive after the release.
            (Overtaken, _) => when == When::Holding && setting.upkeep == RenewalMode::InTheBackground,
            // Only an acquisition has a time limit.
            (GivenUp, _) => when == When::Taking && setting.expires,
            (Block, When::Releasing) => false,
            // `crash-holder` already tests a dead holder, and a late release does harm only by its request.
            (Kill, When::Holding) | (LateReply, When::Releasing) => false,
            // A client that releases a lock measures no time, and a node that has released it has nothing to forget.
            (ClockBack | ClockForward | NodePause | NodeRestart | NodeRestartSynced | NodeClock, When::Releasing) => {
                false
            }
            // These faults wait until the lock has expired.
            (LateReply | Pause | Block | LateRequest | ClockBack | ClockForward | NodePause | NodeClock, _) => {
                setting.expires
            }
            _ => true,
        }
    }

    /// True if a scenario of the catalogue has this fault at the first command that a client writes at that stage.
    fn is_in_the_catalogue(self, when: When) -> bool {
        use Strike::*;
        match when {
            When::Taking => matches!(self, LateReply | Pause | Reset | Close | Kill | Block | Cancel),
            When::Holding => matches!(self, LateReply | LateRequest | Reset),
            When::Releasing => matches!(self, LateRequest | LostReply | Cancel),
            When::Waiting => false,
        }
    }

    /// If there are several nodes, a node fault hits only one of them.
    fn fits_at(self, place: Place, nodes: u32) -> bool {
        !self.is_of_a_node() || nodes == 1 || place != Place::All
    }

    /// True if the client's request fails, or if the client never learns its result. From then on its view of the lock may be
    /// wrong.
    fn fails(self) -> bool {
        use Strike::*;
        matches!(self, Reset | Close | LostReply | Refused | Cancel | GivenUp)
    }

    fn is_of_a_node(self) -> bool {
        use Strike::*;
        matches!(self, NodePause | NodeRestart | NodeRestartSynced | NodeClock)
    }
}

impl FaultPoint {
    fn scenario(self, upkeep: RenewalMode, others: u32) -> Scripted {
        Scripted::new(vec![self], upkeep, others, ("", ""), |steps, aims| steps.of_one(&aims[0]))
    }

    /// True if the client no longer wants the lock when it is granted.
    fn is_nobodys(&self) -> bool {
        matches!(self.strike, Strike::Cancel | Strike::GivenUp) && self.sent.when == When::Taking
    }

    /// The scenario in which the same client asks again after it left, before the first reply comes. None if there is no reply,
    /// or if the lock may never expire.
    fn and_asks_again(&self, setting: &Setting, others: u32) -> Option<Scripted> {
        let more = ("-and-asks-again", "; then its client asks again, while another client holds the lock");
        let write = |steps: &mut Steps, aims: &[FaultPoint]| steps.and_asks_again(&aims[0]);
        let fits = self.is_nobodys() && setting.expires;
        fits.then(|| Scripted::new(vec![self.clone()], setting.upkeep, others, more, write))
    }

    /// The scenario in which the client leaves at a later attempt, because another client held the lock at first. None if the
    /// client does not leave.
    fn at_a_later_attempt(&self, setting: &Setting, others: u32) -> Option<Scripted> {
        let more = ("-at-a-later-attempt", "; in a later attempt, since another client held the lock before");
        let write = |steps: &mut Steps, aims: &[FaultPoint]| steps.at_a_later_attempt(&aims[0]);
        self.is_nobodys().then(|| Scripted::new(vec![self.clone()], setting.upkeep, others, more, write))
    }

    /// The scenario of the next hold of the client that the fault hit. None if nothing could be left over from the hold before.
    fn and_the_next_hold(&self, setting: &Setting, others: u32) -> Option<Scripted> {
        if setting.upkeep != RenewalMode::InTheBackground || !self.strike.fails() || self.sent.when == When::Waiting {
            return None;
        }
        let more = ("-and-the-next-hold", "; then its client acquires the lock again, and works for longer than a TTL");
        let write = |steps: &mut Steps, aims: &[FaultPoint]| steps.and_the_next_hold(&aims[0]);
        Some(Scripted::new(vec![self.clone()], setting.upkeep, others, more, write))
    }
}

impl Scripted {
    /// The scenario of these faults. `write` writes its steps. `others` is the number of other clients with a permit. `more` is
    /// added to its name and description.
    pub(super) fn new(
        aims: Vec<FaultPoint>,
        upkeep: RenewalMode,
        others: u32,
        more: (&str, &str),
        write: impl Fn(&mut Steps, &[FaultPoint]),
    ) -> Scripted {
        let texts: Vec<String> = aims.iter().map(FaultPoint::text).collect();
        let examples: Vec<String> = aims.iter().map(|aim| aim.sent.example.replace(['"', '\\'], "'")).collect();
        let mut steps = Steps::new(upkeep);
        write(&mut steps, &aims);
        steps.beside(others);
        let name = aims.iter().map(FaultPoint::name).collect::<Vec<_>>().join("-then-") + more.0;
        let description = capital(&texts.join("; then, ")) + more.1;
        let commands = examples.join("; ");
        let story = format!("One of the faults at each command that the library sends: {commands}");
        let persistence = aims.iter().find_map(|aim| aim.strike.persistence());
        Scripted { aims, ..Scripted::of(name, &description, &story, persistence, others, &steps.steps) }
    }

    /// A scenario of these steps, with no fault at a command.
    pub(super) fn of(
        name: String,
        description: &str,
        story: &str,
        persistence: Option<&str>,
        others: u32,
        steps: &[String],
    ) -> Scripted {
        let steps: Vec<String> = steps.iter().map(|step| format!("  {step:?},\n")).collect();
        let persistence = persistence.map_or(String::new(), |kept| format!("persistence = {kept:?}\n"));
        let toml = format!(
            "description = {description:?}\nstory = {story:?}\nprogress = \"any\"\nclients = {}\n{persistence}script = [\n{}]\n",
            CLIENTS + others,
            steps.concat()
        );
        Scripted { name, description: description.to_string(), toml, aims: Vec::new() }
    }
}
