//! A scenario for each command that a library was seen to send, and for each thing that can go wrong there.
//!
//! Each is one moment, as the scenarios of the catalogue are: the command is struck while its client takes, holds or gives back
//! the lock, another client then has its turn, and the first one goes on. [`pairs`](super::pairs) are made of the same parts.

pub use super::aim::{FaultPoint, Place, Strike};
use super::commands::{ObservedCommand, RenewalMode, When};
use super::steps::{CLIENTS, Steps, others};
use base::words::capital;

/// What is tried, the likeliest first.
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
    /// As its file is called.
    pub name: String,
    pub description: String,
    /// The nemesis file.
    pub toml: String,
    /// What it strikes: one command, or two.
    pub aims: Vec<FaultPoint>,
}

/// What strikes have to know of a library, beside what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub nodes: u32,
    /// Whether its locks run out.
    pub expires: bool,
    pub upkeep: RenewalMode,
    /// How many may have the lock at once.
    pub permits: u32,
    /// Whether its client, with one operation at a time, ends one that is cancelled.
    pub cancels: bool,
    /// Whether it has an event loop that can be blocked.
    pub blocks: bool,
    /// Whether the scenarios of the catalogue were all played: a strike that one of them makes can wait then.
    pub knows_the_catalogue: bool,
}

/// The scenarios for these commands, on all nodes at once and, of several, on each of the first three. Time may not suffice for
/// all, so those that tell most come first: each strike at each distinct command, once; of these, what the catalogue has not played
/// already. Then come other nodes, and then what is sent again in the same operation, or on other keys.
pub fn scenarios(sent: &[ObservedCommand], setting: &Setting) -> Vec<Scripted> {
    let Some(others) = others(setting.permits) else { return Vec::new() };
    let single = if setting.nodes > 1 { setting.nodes.min(3) } else { 0 };
    let places: Vec<Place> = std::iter::once(Place::All).chain((0..single).map(Place::Node)).collect();
    let mut scenarios: Vec<((u32, usize, bool, usize), Scripted)> = Vec::new();
    // What names none of the lock's keys is not the lock. Who has one of several permits is struck when it takes it and gives it back:
    // what it does with it is nothing that a semaphore protects.
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
    /// Whether it can show anything of what the client is doing then.
    fn fits(self, when: When, setting: &Setting) -> bool {
        use Strike::*;
        match (self, when) {
            (Cancel, _) if !setting.cancels => false,
            (Block, _) if !setting.blocks => false,
            // Who waits has nothing that could run out, but may stand in the way of others, or be forgotten.
            (
                LateReply | LateRequest | Reset | Close | Idle | LostReply | Kill | Cancel | NodeRestartSynced,
                When::Waiting,
            ) => true,
            (_, When::Waiting) => false,
            // What breaks later is another command's.
            (Idle, _) => false,
            // Only what is sent in the background can be late for the release.
            (Overtaken, _) => when == When::Holding && setting.upkeep == RenewalMode::InTheBackground,
            // Only an acquisition has a limit.
            (GivenUp, _) => when == When::Taking && setting.expires,
            (Block, When::Releasing) => false,
            // A dead holder is what `crash-holder` is about, and a release that is late harms by its request alone.
            (Kill, When::Holding) | (LateReply, When::Releasing) => false,
            // Who gives a lock back measures nothing, and a node that has let go of it has nothing to forget.
            (ClockBack | ClockForward | NodePause | NodeRestart | NodeRestartSynced | NodeClock, When::Releasing) => {
                false
            }
            // These wait until the lock has run out.
            (LateReply | Pause | Block | LateRequest | ClockBack | ClockForward | NodePause | NodeClock, _) => {
                setting.expires
            }
            _ => true,
        }
    }

    /// Whether a scenario of the catalogue strikes so at the first command that a client writes then.
    fn is_in_the_catalogue(self, when: When) -> bool {
        use Strike::*;
        match when {
            When::Taking => matches!(self, LateReply | Pause | Reset | Close | Kill | Block | Cancel),
            When::Holding => matches!(self, LateReply | LateRequest | Reset),
            When::Releasing => matches!(self, LateRequest | LostReply | Cancel),
            When::Waiting => false,
        }
    }

    /// Of several nodes, one has its accident.
    fn fits_at(self, place: Place, nodes: u32) -> bool {
        !self.is_of_a_node() || nodes == 1 || place != Place::All
    }

    /// Whether the library learns that what it asked for failed, or never learns of it: what it keeps of a lock may be wrong from then on.
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

    /// Whether whoever asked for the lock has no use for it any more when it is given.
    fn is_nobodys(&self) -> bool {
        matches!(self.strike, Strike::Cancel | Strike::GivenUp) && self.sent.when == When::Taking
    }

    /// What becomes of the answer to what nobody wants any more, if the same client asks again; None where it has nothing to answer, and
    /// where the lock may never run out.
    fn and_asks_again(&self, setting: &Setting, others: u32) -> Option<Scripted> {
        let more = ("-and-asks-again", "; then its client asks again, while another client holds the lock");
        let write = |steps: &mut Steps, aims: &[FaultPoint]| steps.and_asks_again(&aims[0]);
        let fits = self.is_nobodys() && setting.expires;
        fits.then(|| Scripted::new(vec![self.clone()], setting.upkeep, others, more, write))
    }

    /// The same of an attempt that is not the first, since another one had the lock by then.
    fn at_a_later_attempt(&self, setting: &Setting, others: u32) -> Option<Scripted> {
        let more = ("-at-a-later-attempt", "; in a later attempt, since another client held the lock before");
        let write = |steps: &mut Steps, aims: &[FaultPoint]| steps.at_a_later_attempt(&aims[0]);
        self.is_nobodys().then(|| Scripted::new(vec![self.clone()], setting.upkeep, others, more, write))
    }

    /// What becomes of the next hold of whoever was struck; None where there is nothing to keep of the one before.
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
    /// The scenario of these strikes, whose steps `write` writes. `others`: how many have a permit beside. `more`: what is added to its
    /// name and to what it is.
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

    /// A scenario of these steps, which strikes no command.
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
