//! A scenario for each command that a library was seen to send, and for each thing that can go wrong there.
//!
//! Each is one moment, as the scenarios of the catalogue are: the command is struck while its client takes, holds or gives back
//! the lock, another client then has its turn, and the first one goes on. [`pairs`](super::pairs) are made of the same parts.

use std::fmt::{self, Write};

use super::sent::{Renewed, Sent, When};
use crate::fault_kinds::ordinal;
use crate::words::capital;

/// What goes wrong at a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// The reply comes when the lock has run out and another client has it.
    LateReply,
    /// The request comes when the lock has run out and another client has it.
    LateRequest,
    /// The client stops before it reads the reply, until the lock has run out.
    Pause,
    /// The connection breaks after the server has done it.
    Reset,
    /// The server closes the connection when it has done it, in place of a reply.
    Close,
    /// The reply never comes.
    LostReply,
    /// The client dies before it reads the reply.
    Kill,
    /// The server refuses it with an error.
    Refused,
    /// It arrives when its client has given the lock back.
    Overtaken,
    /// Its event loop is blocked before it reads the reply, until the lock has run out.
    Block,
    /// Whoever asked is cancelled while the reply is on its way; of a release, the request.
    Cancel,
    /// The reply comes when the time is over for which the client was ready to wait.
    GivenUp,
    /// The client's wall clock is set back before it reads the reply.
    ClockBack,
    /// The client's wall clock is set forward before it reads the reply.
    ClockForward,
    /// The node stops when it has done it, until the lock has run out.
    NodePause,
    /// The node is killed when it has done it and before it answers, and comes back with nothing.
    NodeRestart,
    /// The same, but it had synced its file before it answered.
    NodeRestartSynced,
    /// The node's wall clock is set forward when it has done it: the lock has run out there.
    NodeClock,
}

/// What is tried, the likeliest first.
const ALL: [Strike; 18] = [
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
    Strike::GivenUp,
    Strike::Block,
    Strike::ClockBack,
    Strike::NodePause,
    Strike::NodeRestartSynced,
    Strike::NodeRestart,
    Strike::ClockForward,
    Strike::NodeClock,
];

/// At which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    All,
    Node(u32),
}

/// A strike at one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    pub strike: Strike,
    pub sent: Sent,
    pub at: Place,
}

/// A scenario with its place among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// As its file is called.
    pub name: String,
    pub description: String,
    /// The nemesis file.
    pub toml: String,
    /// What it strikes: one command, or two.
    pub aims: Vec<Aim>,
}

/// What strikes have to know of a library, beside what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub nodes: u32,
    /// Whether its locks run out.
    pub expires: bool,
    pub renewed: Renewed,
    /// Whether its client's threads may have operations in flight at once.
    pub threads: bool,
    /// Whether its client ends an operation that is cancelled, and whether it has an event loop that can be blocked.
    pub cancels: bool,
    pub blocks: bool,
    /// Whether the scenarios of the catalogue were all played: a strike that one of them makes can wait then.
    pub knows_the_catalogue: bool,
}

/// The scenarios for these commands, on all nodes at once and, of several, on each of the first three. Time may not suffice for
/// all, so those that tell most come first: each strike at each distinct command, once; of these, what the catalogue has not played
/// already. Then come other nodes, and then what is sent again in the same operation, or on other keys.
pub fn scenarios(sent: &[Sent], setting: &Setting) -> Vec<Scripted> {
    let single = if setting.nodes > 1 { setting.nodes.min(3) } else { 0 };
    let places: Vec<Place> = std::iter::once(Place::All).chain((0..single).map(Place::Node)).collect();
    let mut scenarios: Vec<((u32, usize, bool, usize), Scripted)> = Vec::new();
    // What names none of the lock's keys is not the lock.
    for (place, sent_now) in sent.iter().enumerate().filter(|(_, sent)| sent.key.is_some()) {
        let is_first = sent[..place].iter().all(|earlier| earlier.key.is_none() || earlier.when != sent_now.when);
        for (rank, strike) in ALL.iter().enumerate().filter(|(_, strike)| strike.fits(sent_now.when, setting)) {
            let fitting = places.iter().filter(|place| strike.fits_at(**place, setting.nodes));
            for (far, place) in fitting.enumerate() {
                let aim = Aim { strike: *strike, sent: sent_now.clone(), at: *place };
                let was_played =
                    setting.knows_the_catalogue && is_first && far == 0 && strike.is_in_the_catalogue(sent_now.when);
                let rank = (sent_now.nth + sent_now.nth_key, far, was_played, rank);
                let next = aim.and_the_next_hold(setting.renewed).filter(|_| *place == Place::All);
                scenarios.push((rank, aim.scenario(setting.renewed)));
                scenarios.extend(next.map(|next| ((rank.0, far + 1, was_played, rank.3), next)));
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
                LateReply | LateRequest | Reset | Close | LostReply | Kill | Cancel | NodeRestartSynced,
                When::Waiting,
            ) => true,
            (_, When::Waiting) => false,
            // Only what is sent in the background can be late for the release.
            (Overtaken, _) => when == When::Holding && setting.renewed == Renewed::InTheBackground,
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

    fn word(self) -> &'static str {
        match self {
            Strike::LateReply => "late-reply",
            Strike::LateRequest => "late-request",
            Strike::Pause => "pause-before-reply",
            Strike::Reset => "reset-after",
            Strike::Close => "close-after",
            Strike::LostReply => "lost-reply",
            Strike::Kill => "kill-before-reply",
            Strike::Refused => "refused",
            Strike::Overtaken => "overtaken-by-release",
            Strike::Block => "block-before-reply",
            Strike::Cancel => "cancel-before-reply",
            Strike::GivenUp => "given-up-before-reply",
            Strike::ClockBack => "clock-back-before-reply",
            Strike::ClockForward => "clock-forward-before-reply",
            Strike::NodePause => "node-pause-after",
            Strike::NodeRestart => "node-restart-before-reply",
            Strike::NodeRestartSynced => "node-restart-synced-before-reply",
            Strike::NodeClock => "node-clock-forward-after",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Strike::LateReply => "the reply comes when the lock has run out",
            Strike::LateRequest => "the request comes when the lock has run out",
            Strike::Pause => "the client stops before it reads the reply, until the lock has run out",
            Strike::Reset => "the connection breaks when it was carried out",
            Strike::Close => "the server closes the connection when it was carried out, in place of a reply",
            Strike::LostReply => "the reply never comes",
            Strike::Kill => "the client dies before it reads the reply",
            Strike::Refused => "the server refuses it with an error",
            Strike::Overtaken => "it arrives when the lock was given back",
            Strike::Block => "the client's event loop is blocked before it reads the reply, until the lock has run out",
            Strike::Cancel => "the operation is cancelled before the reply comes",
            Strike::GivenUp => "the time for which the client was ready to wait is over before the reply comes",
            Strike::ClockBack => "the client's wall clock is set back before it reads the reply",
            Strike::ClockForward => "the client's wall clock is set forward before it reads the reply",
            Strike::NodePause => "the node stops once it was carried out, until the lock has run out",
            Strike::NodeRestart => "the node is killed before it answers, and comes back empty",
            Strike::NodeRestartSynced => "the node is killed before it answers, and comes back with what it had synced",
            Strike::NodeClock => {
                "the node's wall clock is set forward once it was carried out, past the end of the lock"
            }
        }
    }

    /// What the nodes keep on their disks, if that matters.
    fn persistence(self) -> Option<&'static str> {
        match self {
            Strike::NodeRestart => Some("none"),
            Strike::NodeRestartSynced => Some("always"),
            _ => None,
        }
    }
}

/// Until a lock that nobody renews has run out.
const RUNS_OUT: &str = "wait 1.1ttl";

/// The steps of a script.
pub(super) struct Steps {
    pub steps: Vec<String>,
    renewed: Renewed,
}

impl Steps {
    pub fn add<const N: usize>(&mut self, steps: [&str; N]) {
        self.steps.extend(steps.map(str::to_string));
    }

    /// The fault itself.
    pub fn arm(&mut self, aim: &Aim) {
        self.steps.push(aim.fault());
    }

    pub fn await_strike(&mut self, aim: &Aim, within: &str) {
        self.steps.push(format!("await {} within {within}", aim.fault()));
    }

    pub fn heal(&mut self, aim: &Aim) {
        self.steps.push(format!("heal {}", aim.fault()));
    }

    /// One strike: how its client gets there, what goes wrong, and what comes of it.
    fn of_one(&mut self, aim: &Aim) {
        match aim.strike {
            _ if aim.sent.when == When::Waiting => self.of_waiting(aim),
            Strike::Cancel if aim.sent.when == When::Releasing => self.of_a_release(aim),
            Strike::Cancel | Strike::GivenUp => self.of_nobodys(aim),
            Strike::Overtaken => self.of_the_past(aim),
            _ => {
                self.begin(aim.sent.when, &[aim]);
                self.strike_and_after(aim);
            }
        }
    }

    /// Whoever asked for the lock has no use for it any more when the answer comes: others must have it soon, and then nobody beside
    /// them, whose answer that may be taken for another one's.
    fn of_nobodys(&mut self, aim: &Aim) {
        if aim.strike == Strike::Cancel {
            self.begin(aim.sent.when, &[aim]);
            self.await_strike(aim, "2ttl");
            self.add(["cancel client:0", "await client:0 end within 0.2ttl or go on"]);
        } else {
            self.add(["start client:0 to acquiring giving up after 0.2ttl"]);
            self.arm(aim);
            self.add(["go client:0"]);
            self.await_strike(aim, "2ttl");
            self.add(["await client:0 end within 0.3ttl or go on"]);
        }
        self.heal(aim);
        self.add([
            "await client:0 end within 0.2ttl or go on",
            "start client:1 giving up after 0.2ttl",
            "expect client:1 acquired within 0.25ttl",
            "await client:1 end",
            "await client:0 end",
            "start client:1 to before-write",
            "start client:0 giving up after 0.2ttl",
            "await client:0 end within 0.4ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:0 end",
        ]);
    }

    /// The lock is given back while something that its holder sent is on its way: what comes of that is nobody's any more.
    fn of_the_past(&mut self, aim: &Aim) {
        self.begin(aim.sent.when, &[aim]);
        self.await_strike(aim, "2ttl");
        self.add(["go client:0", "await client:0 end within 0.1ttl or go on"]);
        self.heal(aim);
        self.add([
            "await client:0 end",
            "start client:1 to before-write giving up after 0.6ttl",
            "wait 0.3ttl",
            "start client:2 giving up after 0.2ttl",
            "await client:2 end within 0.35ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:2 end",
        ]);
    }

    /// Whoever was struck gives the lock back before it would run out. Then it takes it again, and works for longer than it lives: it is
    /// renewed as ever, and nobody else gets it.
    fn and_the_next_hold(&mut self, aim: &Aim) {
        self.begin(aim.sent.when, &[aim]);
        self.await_strike(aim, "2ttl");
        match aim.strike {
            Strike::Cancel | Strike::GivenUp => {
                if aim.strike == Strike::Cancel {
                    self.add(["cancel client:0"]);
                }
                self.add(["await client:0 end within 0.3ttl or go on"]);
                self.heal(aim);
            }
            Strike::LostReply => {
                self.add(["wait 0.2ttl"]);
                self.heal(aim);
            }
            _ => {
                let Course { before, after, .. } = aim.course();
                self.steps.extend(before);
                self.heal(aim);
                self.steps.extend(after.into_iter().filter(|step| *step != RUNS_OUT));
            }
        }
        if aim.sent.when == When::Holding && aim.strike != Strike::Cancel {
            self.add(["go client:0"]);
        }
        self.add([
            "await client:0 end",
            "start client:0 to before-write or end giving up after 1ttl within 1.2ttl",
            "wait 1.3ttl",
            "start client:1 giving up after 0.2ttl",
            "await client:1 end within 0.4ttl or go on",
            "go client:0",
            "await client:0 end",
            "await client:1 end",
        ]);
    }

    /// As `cancelled-release`: whoever closes the connection on which the request waits is free to ask again on another one.
    fn of_a_release(&mut self, aim: &Aim) {
        self.begin(aim.sent.when, &[aim]);
        self.await_strike(aim, "1ttl");
        self.add([
            "cancel client:0",
            "await client:0 end within 0.4ttl",
            "start client:1 giving up after 0.2ttl",
            "expect client:1 acquired within 0.25ttl",
            "await client:1 end",
            "start client:1 to before-write",
        ]);
        self.heal(aim);
        self.add([
            "start client:2 giving up after 0.2ttl",
            "await client:2 end within 0.35ttl or go on",
            "go client:1",
            "await client:1 end",
            "await client:2 end",
        ]);
    }

    /// The client gets to where its command is sent next, the faults are armed, and it goes on.
    pub fn begin(&mut self, when: When, aims: &[&Aim]) {
        match when {
            When::Taking | When::Waiting => self.add(["start client:0 to acquiring giving up after 2ttl"]),
            // It extends its lock itself, or looks whether it has it, when it works.
            When::Holding if self.is_at_work(when) => self.add(["start client:0 to read"]),
            // Nothing of an earlier hold is on its way any more.
            When::Holding => self.add(["wait 1ttl", "start client:0 to read"]),
            When::Releasing => self.add(["start client:0 to releasing"]),
        }
        aims.iter().for_each(|aim| self.arm(aim));
        if when != When::Holding || self.is_at_work(when) {
            self.add(["go client:0"]);
        }
    }

    /// Whether its client is struck at work; else the script keeps it, and something in the background is struck.
    fn is_at_work(&self, when: When) -> bool {
        when == When::Holding && self.renewed != Renewed::InTheBackground
    }

    /// From the strike, which is awaited, to the end.
    pub fn strike_and_after(&mut self, aim: &Aim) {
        self.await_strike(aim, "2ttl");
        self.goes_wrong(aim);
        if aim.strike == Strike::Kill {
            return self.add(["start client:1", "await client:1 end"]);
        }
        self.comes_of_it(aim);
    }

    /// What happens at the command.
    fn goes_wrong(&mut self, aim: &Aim) {
        let Course { before, lasts, after } = aim.course();
        self.steps.extend(before);
        if !lasts {
            self.heal(aim);
        }
        self.steps.extend(after);
    }

    /// Another client has its turn, and the first one goes on.
    fn comes_of_it(&mut self, aim: &Aim) {
        let (strike, when) = (aim.strike, aim.sent.when);
        // Who extends its lock itself works for longer than a TTL.
        let to = if self.renewed == Renewed::ByItsHolder { "read" } else { "before-write" };
        self.steps.push(format!("start client:1 to {to} or end giving up after 0.6ttl within 0.8ttl"));
        let lasts = aim.course().lasts;
        if lasts && when != When::Holding {
            self.heal(aim);
        }
        match strike {
            Strike::Pause => self.add(["heal pause client:0"]),
            Strike::Block => self.add(["heal block client:0 for 1.3ttl"]),
            _ => {}
        }
        if self.is_at_work(when) {
            if lasts {
                self.heal(aim);
            }
        } else if when == When::Holding {
            // Before a late answer arrives, which may well say that the lock is over.
            self.add(["go client:0", "await client:0 end within 0.05ttl or go on"]);
            if lasts {
                self.heal(aim);
            }
        }
        self.add(["await client:0 end within 0.35ttl or go on"]);
        if when == When::Releasing {
            self.add(["start client:2 giving up after 0.2ttl", "await client:2 end within 0.35ttl or go on"]);
        }
        self.add(["go client:1", "await client:1 end"]);
        if when == When::Releasing {
            self.add(["await client:2 end"]);
        }
        self.add(["await client:0 end"]);
        match strike {
            Strike::ClockBack => self.add(["heal clock client:0 -3ttl"]),
            Strike::ClockForward => self.add(["heal clock client:0 +3ttl"]),
            Strike::NodeClock => self.steps.push(format!("heal clock {} +2ttl", aim.node())),
            _ => {}
        }
    }

    /// Whoever waits has to get the lock when it is given back, whatever became of what it or another one had asked. What waits at
    /// the server is answered only by then.
    fn of_waiting(&mut self, aim: &Aim) {
        self.add(["start client:1 to before-write", "start client:0 to acquiring giving up after 4ttl"]);
        self.arm(aim);
        self.add(["go client:0"]);
        if aim.strike == Strike::NodeRestartSynced {
            return self.of_waiting_at_a_node(aim);
        }
        self.steps.push(format!("await {} within 0.2ttl or go on", aim.fault()));
        let leaves = matches!(aim.strike, Strike::Kill | Strike::Cancel);
        if leaves {
            self.add(["start client:2 giving up after 4ttl", "wait 0.1ttl"]);
        }
        self.add(["go client:1", "await client:1 end"]);
        self.await_strike(aim, "0.5ttl");
        match aim.strike {
            Strike::Kill => self.add(["kill client:0"]),
            Strike::Cancel => self.add(["cancel client:0"]),
            _ => {}
        }
        // It is seen to be healed by what passes, and a dead client sends nothing.
        let is_dead = aim.strike == Strike::Kill;
        if !is_dead {
            self.heal(aim);
        }
        match leaves {
            true => self.add(["expect client:2 acquired within 2ttl", "await client:2 end"]),
            // Who asks after the release must not sleep until the TTL would have been over.
            false if aim.strike == Strike::LateRequest => self.add(["expect client:0 acquired within 0.9ttl"]),
            false => self.add(["expect client:0 acquired within 2ttl"]),
        }
        if is_dead {
            self.add(["heal kill client:0"]);
            self.heal(aim);
        } else {
            self.add(["await client:0 end"]);
        }
    }

    /// The lock can't be given back, and runs out at a node that is there again.
    fn of_waiting_at_a_node(&mut self, aim: &Aim) {
        self.await_strike(aim, "0.4ttl");
        self.steps.push(format!("kill {}", aim.node()));
        self.add(["go client:1", "await client:1 end within 0.2ttl or go on"]);
        self.steps.push(format!("heal kill {}", aim.node()));
        self.heal(aim);
        self.add(["expect client:0 acquired within 2ttl", "await client:0 end", "await client:1 end"]);
    }
}

/// What happens once the command is struck.
struct Course {
    before: Vec<String>,
    /// Whether the fault lasts until another client has the lock; else it is healed between what comes before and after.
    lasts: bool,
    after: Vec<String>,
}

impl Aim {
    fn course(&self) -> Course {
        let (holding, node) = (self.sent.when == When::Holding, self.node());
        let runs_out = || vec![RUNS_OUT.to_string()];
        let (before, lasts, mut after) = match self.strike {
            // The lock runs out before the time is over that it asks for, by which some go.
            Strike::LateRequest if holding => (vec![], true, vec!["wait 0.7ttl".to_string()]),
            Strike::LateReply | Strike::LateRequest => (vec![], true, runs_out()),
            Strike::LostReply => (vec![], true, vec![]),
            Strike::Reset | Strike::Close => (vec![], false, vec![]),
            Strike::Pause => (vec!["pause client:0".to_string()], false, runs_out()),
            Strike::Block => (vec!["block client:0 for 1.3ttl".to_string()], false, runs_out()),
            Strike::Cancel | Strike::GivenUp | Strike::Overtaken => (vec![], true, vec![]),
            Strike::Refused => {
                let refusal = format!("refuse-writes {}", self.at);
                (vec![refusal.clone()], false, vec!["wait 0.1ttl".to_string(), format!("heal {refusal}")])
            }
            Strike::Kill => (vec!["kill client:0".to_string(), "heal kill client:0".to_string()], false, vec![]),
            // Whoever measures by this clock how long it took finds that no time has passed; and a renewal is due much later.
            Strike::ClockBack => (vec!["clock client:0 -3ttl".to_string()], !holding, runs_out()),
            Strike::ClockForward => (vec!["clock client:0 +3ttl".to_string()], false, vec![]),
            Strike::NodePause => {
                let after = [runs_out(), vec![format!("heal pause {node}")]].concat();
                (vec![format!("pause {node}")], false, after)
            }
            Strike::NodeRestart | Strike::NodeRestartSynced => {
                (vec![format!("kill {node}"), format!("heal kill {node}")], false, vec![])
            }
            Strike::NodeClock => (vec![format!("clock {node} +2ttl")], false, vec![]),
        };
        // A lock that lives is renewed by then, one that is not has run out.
        if holding
            && matches!(
                self.strike,
                Strike::Reset | Strike::Close | Strike::LostReply | Strike::ClockForward | Strike::Refused
            )
        {
            after.extend(runs_out());
        }
        Course { before, lasts, after }
    }

    fn fault(&self) -> String {
        let (command, at) = (self.command(), self.at);
        match self.strike {
            Strike::LateRequest | Strike::Refused | Strike::Overtaken => {
                format!("hold request {command} client:0 to {at}")
            }
            Strike::Cancel if self.sent.when == When::Releasing => format!("hold request {command} client:0 to {at}"),
            Strike::LostReply | Strike::NodeRestart | Strike::NodeRestartSynced => {
                format!("lose reply to {command} client:0 from {at}")
            }
            Strike::Reset => format!("reset after {command} client:0 and {at}"),
            Strike::Close => format!("close after {command} client:0 and {at}"),
            _ => format!("hold reply to {command} client:0 from {at}"),
        }
    }

    /// Whose accident it is, where it is a node's.
    fn node(&self) -> String {
        match self.at {
            Place::All => "node:0".to_string(),
            Place::Node(node) => format!("node:{node}"),
        }
    }

    /// `2nd SET on lock:k*`: whatever key of the run it is, and whatever follows in it.
    fn command(&self) -> String {
        let key = self.sent.on().map_or_else(String::new, |pattern| format!(" on {pattern}"));
        format!("{}{}{key}", self.nth(), self.sent.name)
    }

    fn nth(&self) -> String {
        if self.sent.nth == 1 { String::new() } else { format!("{} ", ordinal(self.sent.nth)) }
    }

    /// `taking-set-late-reply-2nd-at-n1`
    pub(super) fn name(&self) -> String {
        let mut name =
            format!("{}-{}-{}", doing(self.sent.when), self.sent.name.to_ascii_lowercase(), self.strike.word());
        if self.sent.nth > 1 {
            let _ = write!(name, "-{}", ordinal(self.sent.nth));
        }
        if self.sent.nth_key > 1 {
            let _ = write!(name, "-on-{}-key", ordinal(self.sent.nth_key));
        }
        if let Place::Node(node) = self.at {
            let _ = write!(name, "-at-n{node}");
        }
        name
    }

    /// `while it takes the lock: at its 2nd SET at n1, the reply never comes`
    pub(super) fn text(&self) -> String {
        let at = match self.at {
            Place::All => String::new(),
            Place::Node(node) => format!(" at n{node}"),
        };
        let on = match self.sent.on() {
            Some(pattern) if self.sent.nth_key > 1 => format!(" on {pattern}"),
            _ => String::new(),
        };
        format!("{}: at its {}{}{on}{at}, {}", self.sent.when, self.nth(), self.sent.name, self.strike.what())
    }

    fn scenario(self, renewed: Renewed) -> Scripted {
        Scripted::new(vec![self], renewed, ("", ""), |steps, aims| steps.of_one(&aims[0]))
    }

    /// What becomes of the next hold of whoever was struck; None where there is nothing to keep of the one before.
    fn and_the_next_hold(&self, renewed: Renewed) -> Option<Scripted> {
        if renewed != Renewed::InTheBackground || !self.strike.fails() || self.sent.when == When::Waiting {
            return None;
        }
        let more = ("-and-the-next-hold", "; then its client takes the lock again, and works for longer than a TTL");
        Some(Scripted::new(vec![self.clone()], renewed, more, |steps, aims| steps.and_the_next_hold(&aims[0])))
    }
}

impl Scripted {
    /// The scenario of these strikes, whose steps `write` writes; `more`: what is added to its name and to what it is.
    pub(super) fn new(
        aims: Vec<Aim>,
        renewed: Renewed,
        more: (&str, &str),
        write: impl Fn(&mut Steps, &[Aim]),
    ) -> Scripted {
        let texts: Vec<String> = aims.iter().map(Aim::text).collect();
        let examples: Vec<String> = aims.iter().map(|aim| aim.sent.example.replace(['"', '\\'], "'")).collect();
        let mut steps = Steps { steps: Vec::new(), renewed };
        write(&mut steps, &aims);
        let name = aims.iter().map(Aim::name).collect::<Vec<_>>().join("-then-") + more.0;
        let description = capital(&texts.join("; then, ")) + more.1;
        let commands = examples.join("; ");
        let story = format!("One of the strikes at each command that the library was seen to send: {commands}");
        let persistence = aims.iter().find_map(|aim| aim.strike.persistence());
        Scripted { aims, ..Scripted::of(name, &description, &story, persistence, &steps.steps) }
    }

    /// A scenario of these steps, which strikes no command.
    pub(super) fn of(
        name: String,
        description: &str,
        story: &str,
        persistence: Option<&str>,
        steps: &[String],
    ) -> Scripted {
        let steps: Vec<String> = steps.iter().map(|step| format!("  {step:?},\n")).collect();
        let persistence = persistence.map_or(String::new(), |kept| format!("persistence = {kept:?}\n"));
        let toml = format!(
            "description = {description:?}\nstory = {story:?}\nprogress = \"any\"\nclients = 3\n{persistence}script = [\n{}]\n",
            steps.concat()
        );
        Scripted { name, description: description.to_string(), toml, aims: Vec::new() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::All => f.write_str("nodes"),
            Place::Node(node) => write!(f, "node:{node}"),
        }
    }
}

fn doing(when: When) -> &'static str {
    match when {
        When::Taking => "taking",
        When::Waiting => "waiting",
        When::Holding => "holding",
        When::Releasing => "releasing",
    }
}
