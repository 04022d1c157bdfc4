//! What each kind of fault is: how a nemesis file says it, what it needs and does, how it is told, drawn and coloured.
//!
//! One file a kind, with nothing but its declaration, so that whoever reads or writes phrases, histories and reports can ask
//! `kind.says.done` without knowing the kinds. What the agent does for a kind is in the file of the same name in
//! `faults/kinds`. The checker blames by what a kind [`Does`], never by its name, so a new kind is judged like the others.
//!
//! Deliberately absent: whom a fault of a run hits (`nemesis`, `plan`), and anything that happens (`faults`).

mod block;
mod busy;
mod call;
mod clock;
mod delay;
mod evict;
mod failover;
mod flush;
mod forget_scripts;
mod kill;
mod loss;
mod partition;
mod pause;
mod pause_background;
mod power_loss;
mod refuse_writes;
mod reset;
mod slow_disk;
mod snapshot;

use std::fmt;
use std::ops::Deref;

use clap::builder::PossibleValue;
use serde::{Deserialize, Serialize};

use base::members::Role;

pub use call::{CallEffect, Command, CommandFault, ErrorReply, names_a_key_of_the_run, ordinal};

/// The declaration of a kind of fault.
#[derive(Debug)]
pub struct FaultDef {
    /// As histories and `--faults` call it. It is in stored histories, so it never changes.
    pub id: &'static str,
    /// What it does, for `--help`.
    pub what: &'static str,
    pub phrase: Phrase,
    /// Who it may hit; checked when its phrase is read.
    pub allowed: Allowed,
    pub needs: Needs,
    pub does: Does,
    pub says: Says,
    pub blame: Blame,
    /// Of its windows in plots: red, green, blue.
    pub colour: (u8, u8, u8),
    /// How a fuzzer draws it; `None` for one that it never draws.
    pub drawn: Option<Drawn>,
}

/// How a nemesis file says it.
#[derive(Debug)]
pub struct Phrase {
    /// What it begins with. If several kinds fit, the one with more words is meant.
    pub words: &'static [&'static str],
    pub form: Form,
    /// For messages and `docs/faults.md`: `pause WHO`.
    pub usage: &'static str,
    /// A phrase that is understood.
    pub example: &'static str,
}

/// What follows the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The members, then what it takes: `clock node:2 +2ttl`.
    Members(Takes),
    /// What it takes, then the two sides: `delay 50ms client:0 to node:1`.
    Links(Takes),
    /// Sides, several with `;`, or the name of a shape: `partition minority`.
    Partition,
    /// A command, then a client and a server: `hold reply to 2nd SET client:0 from node:1`.
    Command,
}

/// What a fault takes besides whom it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// `30%`, from 1 to 99.
    Percent,
    /// `50ms`, `0.1ttl..0.2ttl`.
    Length,
    /// `for 1.3ttl`.
    For,
    /// `+2ttl`, `x1.5`, `strobe 200ms every 1ms`.
    ClockChange,
    /// Nothing in the phrase: the operator's command with which this cluster promotes a replica.
    Promotion,
}

/// Which targets make sense, and the sentence with which others are refused.
#[derive(Clone, Copy, Debug)]
pub enum Allowed {
    All,
    /// Members of these roles.
    Roles(&'static [Role], &'static str),
    /// `primary` and nothing else.
    Primary(&'static str),
}

/// What a run must have for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Members that run: it is skipped while another fault has ended one.
    pub process: bool,
    /// Members that were started with the preload library.
    pub preload: bool,
    /// Nodes that are Redis.
    pub redis: bool,
    /// Servers whose protocol can be followed on its way, which is Redis's.
    pub redis_protocol: bool,
    /// Nodes that are primaries and replicas.
    pub roles: bool,
    /// Clients that do it to themselves when the client protocol asks them to; the agent has no part in it.
    pub by_client: bool,
}

impl Needs {
    pub const NOTHING: Needs =
        Needs { process: false, preload: false, redis: false, redis_protocol: false, roles: false, by_client: false };
    pub const PROCESS: Needs = Needs { process: true, ..Needs::NOTHING };
}

/// What it does to whom it hits. Verdicts follow from this, so it must be true whatever the member does.
#[derive(Clone, Copy, Debug)]
pub struct Does {
    pub process: OnProcess,
    pub packets: OnPackets,
    pub data: OnData,
    /// Whether the wall clock is wrong.
    pub wall_clock: bool,
    /// Whether a node may leave a request unanswered meanwhile.
    pub silences: bool,
    /// What cannot happen meanwhile, so that a history in which it happens refutes the fault.
    pub rules_out: RulesOut,
}

impl Does {
    pub const NOTHING: Does = Does {
        process: OnProcess::GoesOn,
        packets: OnPackets::Pass,
        data: OnData::Kept,
        wall_clock: false,
        silences: false,
        rules_out: RulesOut::Nothing("the fault does nothing"),
    };
}

/// What a member cannot do, or get, while a fault is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesOut {
    /// A target acts or answers: its processes stand still or are gone.
    Acts,
    /// A target answers, though its process goes on.
    Answers,
    /// A target acknowledges a write.
    Writes,
    /// An answer comes across one of its links.
    AnswersAcross,
    /// An answer comes across one of its links sooner than packets take there.
    SoonAnswersAcross,
    /// An answer to one of its commands, if it strikes at each of them. After a single strike, a client may ask again on
    /// another connection.
    AnswersToCommands,
    /// A read of a value that was written before, if it hits all servers that keep the value.
    OldValues,
    /// Nothing that a history shows, for this reason.
    Nothing(&'static str),
}

impl RulesOut {
    /// What a history would show if the fault had no effect; or why none can show it.
    pub fn words(self) -> String {
        match self {
            RulesOut::Acts => "a client acts, or a server answers, while its processes are stopped or gone".into(),
            RulesOut::Answers => "the server answers a request that was sent during the fault".into(),
            RulesOut::Writes => "the server acknowledges a write that was sent during the fault".into(),
            RulesOut::AnswersAcross => "a request that was sent during the fault is answered across the link".into(),
            RulesOut::SoonAnswersAcross => "an answer arrives sooner than packets can cross the link".into(),
            RulesOut::AnswersToCommands => {
                "with `each any` or `each write`, and no key: the server answers such a command. After a single fault, a client \
                 may ask again on another connection"
                    .into()
            }
            RulesOut::OldValues => {
                "if the fault hits all nodes that keep a replicated resource: a client still reads a value from before".into()
            }
            RulesOut::Nothing(why) => format!("nothing: {why}"),
        }
    }
}

/// What becomes of a member's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnProcess {
    GoesOn,
    /// They stand still until the heal.
    Stops,
    /// Some of their threads do.
    StopsInPart,
    /// They are gone; after the heal there are others.
    Ends,
}

/// What becomes of packets between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPackets {
    Pass,
    /// Some may be late or lost.
    Disturbed,
    /// None arrives.
    Cut,
}

/// What becomes of what a server keeps, such as a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnData {
    Kept,
    /// It may be given up before its time, though nothing is deleted: by a wrong clock, or by a replica without it.
    InDoubt,
    /// It may be lost.
    Lost,
}

/// Its words in reports.
#[derive(Debug)]
pub struct Says {
    /// `background pause`.
    pub name: &'static str,
    /// What its target was: `paused`.
    pub done: &'static str,
    /// By what means: `SIGSTOP`.
    pub how: &'static str,
    /// What it was reported to do to its target: `pause`.
    pub verb: &'static str,
    /// What was going on, if it hit the holder, another client, or a node.
    pub holder: &'static str,
    pub client: &'static str,
    pub node: &'static str,
    /// Whether it lasts until its heal, which undoes it.
    pub lasts: bool,
}

/// How much it explains by itself on a client that took part and on a node; a lower number explains more.
#[derive(Clone, Copy, Debug)]
pub struct Blame {
    pub client: u8,
    pub node: u8,
}

/// The phrase that a fuzzer fills in, in this order: `{client}`, `{nodes}`, `{member}` (one of the two), `{server}` (nodes or the
/// resource), `{one-way}` (`A to B` of a client and a server), `{length}`, `{change}` of a clock, or a whole `{command}` fault.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    pub phrase: &'static str,
    /// Half of the time, where nodes have roles.
    pub of_roles: Option<&'static str>,
}

impl Drawn {
    pub const fn phrase(phrase: &'static str) -> Option<Drawn> {
        Some(Drawn { phrase, of_roles: None })
    }
}

impl FaultDef {
    /// Whether its targets do nothing meanwhile, stopped or gone.
    pub fn halts(&self) -> bool {
        matches!(self.does.process, OnProcess::Stops | OnProcess::Ends)
    }

    /// Whether its targets' processes go on after a while from where they were.
    pub fn suspends(&self) -> bool {
        matches!(self.does.process, OnProcess::Stops | OnProcess::StopsInPart)
    }

    /// Whether its targets' processes are gone, and stay so until somebody starts others.
    pub fn ends_processes(&self) -> bool {
        self.does.process == OnProcess::Ends
    }

    /// Whether its targets answer writes with an error meanwhile.
    pub fn refuses_writes(&self) -> bool {
        self.does.rules_out == RulesOut::Writes
    }

    /// Whether it acts on packets between members.
    pub fn is_of_the_network(&self) -> bool {
        self.does.packets != OnPackets::Pass
    }

    /// Whether its targets are told to lose keys, which a replica refuses.
    pub fn empties(&self) -> bool {
        self.does.data == OnData::Lost && !self.ends_processes()
    }

    /// True if a replica becomes the primary by a command, and nothing breaks.
    pub fn promotes_a_replica(&self) -> bool {
        self.phrase.form == Form::Members(Takes::Promotion)
    }

    /// Whether it waits for a command, and does nothing until that comes.
    pub fn is_at_command(&self) -> bool {
        self.phrase.form == Form::Command
    }
}

/// The kinds, and for each what its declaration says.
macro_rules! kinds {
    ($($kind:ident: $file:ident),* $(,)?) => {
        /// A kind of fault. It is its [declaration](FaultDef): `kind.says.done`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FaultKind {
            $(#[doc = concat!("See `fault_kinds::", stringify!($file), "`.")] $kind,)*
        }

        impl FaultKind {
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind),*];
        }

        impl Deref for FaultKind {
            type Target = FaultDef;

            fn deref(&self) -> &FaultDef {
                match self {
                    $(FaultKind::$kind => &$file::DEF,)*
                }
            }
        }
    };
}

kinds! {
    Pause: pause,
    Kill: kill,
    PowerLoss: power_loss,
    Clock: clock,
    Partition: partition,
    Loss: loss,
    Delay: delay,
    Reset: reset,
    Evict: evict,
    Flush: flush,
    Failover: failover,
    Call: call,
    PauseBackground: pause_background,
    Snapshot: snapshot,
    Busy: busy,
    SlowDisk: slow_disk,
    Block: block,
    RefuseWrites: refuse_writes,
    ForgetScripts: forget_scripts,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl Serialize for FaultKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

impl<'de> Deserialize<'de> for FaultKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FaultKind, D::Error> {
        let id = String::deserialize(deserializer)?;
        FaultKind::ALL.iter().copied().find(|kind| kind.id == id).ok_or_else(|| {
            let known: Vec<String> = FaultKind::ALL.iter().map(|kind| format!("`{kind}`")).collect();
            serde::de::Error::custom(format!("unknown kind of fault `{id}`, expected one of {}", known.join(", ")))
        })
    }
}

impl clap::ValueEnum for FaultKind {
    fn value_variants<'a>() -> &'a [FaultKind] {
        FaultKind::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.id).help(self.what))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_declaration_is_whole_and_no_two_are_confused() {
        let (mut ids, mut words) = (BTreeSet::new(), BTreeSet::new());
        for kind in FaultKind::ALL {
            assert!(ids.insert(kind.id), "{kind} twice");
            assert!(!kind.phrase.words.is_empty() && kind.phrase.words.iter().all(|one| words.insert(*one)), "{kind}");
            let Says { name, done, how, verb, holder, client, node, .. } = kind.says;
            let all = [kind.what, kind.phrase.usage, kind.phrase.example, name, done, how, verb, holder, client, node];
            assert!(all.iter().all(|text| !text.is_empty()), "{kind}: {all:?}");
            // A colour so light that it can lie below everything else.
            let (red, green, blue) = kind.colour;
            assert!([red, green, blue].iter().map(|part| u32::from(*part)).sum::<u32>() > 3 * 0x90, "{kind}");
            let as_text = serde_json::to_string(kind).unwrap();
            assert_eq!(as_text, format!("\"{}\"", kind.id));
            assert_eq!(serde_json::from_str::<FaultKind>(&as_text).unwrap(), *kind);
        }
        let unknown = serde_json::from_str::<FaultKind>("\"earthquake\"").unwrap_err().to_string();
        assert!(unknown.contains("unknown kind of fault `earthquake`, expected one of `pause`"), "{unknown}");
    }

    #[test]
    fn what_is_declared_fits_together() {
        for kind in FaultKind::ALL {
            let of_links = matches!(kind.phrase.form, Form::Links(_) | Form::Partition | Form::Command);
            assert_eq!(of_links, kind.is_of_the_network(), "{kind}: what is said of links acts on packets");
            assert_eq!(kind.halts(), kind.does.rules_out == RulesOut::Acts, "{kind}: only who stands still cannot act");
            let acts_on_members = kind.does.process != OnProcess::GoesOn || kind.does.wall_clock;
            assert!(!acts_on_members || kind.needs.process, "{kind}: it hits nobody whose process is gone");
            assert!(kind.does.process == OnProcess::GoesOn || kind.does.silences, "{kind}: who stands still is silent");
        }
    }
}
