//! The declarations of the kinds of faults: phrase in a nemesis file, needs, effects, words in reports, fuzzing and colour.
//!
//! Each file contains one kind, with nothing but its declaration. So code for phrases, histories and reports can ask
//! `kind.says.done` without knowing the kinds. The agent's code for a kind is in the file of the same name in `faults/kinds`. The
//! checker blames a kind for what it [`Does`], never by its name, so it judges a new kind like the others.
//!
//! Deliberately absent: the targets of a run's faults (`nemesis`, `plan`), and the injection (`faults`).

mod block;
mod busy;
mod call;
mod clock;
mod delay;
mod evict;
mod failover;
mod flush;
mod forget_scripts;
mod hook;
mod kill;
mod loss;
mod partition;
mod pause;
mod pause_background;
mod power_loss;
mod reconfigure;
mod refuse_writes;
mod reset;
mod shutdown;
mod slow_disk;
mod snapshot;
mod upgrade;

use std::fmt;
use std::ops::Deref;

use clap::builder::PossibleValue;
use serde::{Deserialize, Serialize};

use base::members::Role;

pub use call::{CallEffect, Command, CommandFault, ErrorReply, names_a_key_of_the_run, ordinal};

#[derive(Debug)]
pub struct FaultDef {
    /// The id in histories and in `--faults`. Stored histories contain it, so it never changes.
    pub id: &'static str,
    /// A description for `--help`.
    pub what: &'static str,
    pub phrase: Phrase,
    /// The members that it may hit; checked when its phrase is read.
    pub allowed: Allowed,
    pub needs: Needs,
    pub does: Does,
    pub says: Says,
    pub blame: Blame,
    /// The colour of its windows in plots: red, green, blue.
    pub colour: (u8, u8, u8),
    /// How a fuzzer draws it; `None` if it never does.
    pub drawn: Option<Drawn>,
}

#[derive(Debug)]
pub struct Phrase {
    /// The first words of the phrase. If several kinds fit, the kind with more words is meant.
    pub words: &'static [&'static str],
    pub form: Form,
    /// A template for messages and `docs/faults.md`: `pause WHO`.
    pub usage: &'static str,
    /// A valid phrase.
    pub example: &'static str,
}

impl Phrase {
    const fn new(words: &'static [&'static str], form: Form, usage: &'static str, example: &'static str) -> Phrase {
        Phrase { words, form, usage, example }
    }
}

/// The part of a phrase after its first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The members, then the argument: `clock node:2 +2ttl`.
    Members(Takes),
    /// The argument, then the two sides: `delay 50ms client:0 to node:1`.
    Links(Takes),
    /// The sides, separated by `;` if there are several, or the name of a shape: `partition minority`.
    Partition,
    /// A command, then a client and a server: `hold reply to 2nd SET client:0 from node:1`.
    Command,
    /// The name of a hook: `hook restart-primary`. Its targets are all nodes of the lock.
    Hook,
}

/// The argument of a fault besides its targets.
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
    /// `to node:0,node:1,node:2`.
    Nodes,
    /// `to valkey:9.1`.
    Server,
    /// Nothing in the phrase: the command with which an operator promotes a replica of this cluster.
    Promotion,
}

/// Which targets make sense, and the message that refuses others.
#[derive(Clone, Copy, Debug)]
pub enum Allowed {
    All,
    Roles(&'static [Role], &'static str),
    /// Only `primary`.
    Primary(&'static str),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Members that run: the fault is skipped while another fault has ended one.
    pub process: bool,
    /// Members that were started with the preload library.
    pub preload: bool,
    /// Nodes that run Redis.
    pub redis: bool,
    /// Servers whose protocol the agent can follow, which is Redis's.
    pub redis_protocol: bool,
    /// Nodes that are primaries and replicas.
    pub roles: bool,
    /// Clients that do it to themselves when the client protocol asks; the agent has no part in it.
    pub by_client: bool,
}

impl Needs {
    pub const NOTHING: Needs =
        Needs { process: false, preload: false, redis: false, redis_protocol: false, roles: false, by_client: false };
    pub const PROCESS: Needs = Needs { process: true, ..Needs::NOTHING };
}

/// The effects of a kind on its targets. Verdicts follow from this, so it must be true whatever the member does.
#[derive(Clone, Copy, Debug)]
pub struct Does {
    pub process: OnProcess,
    pub packets: OnPackets,
    pub data: OnData,
    pub wall_clock: bool,
    /// True if a new process replaces the target when the fault begins, and another one at the heal.
    pub restarts: bool,
    /// True if a node may leave a request unanswered meanwhile.
    pub silences: bool,
    /// The event that is impossible meanwhile; if it happens, the history refutes the fault.
    pub rules_out: RulesOut,
}

impl Does {
    /// The processes end at once, and with them data of a server.
    pub const ENDS: Does = Does {
        process: OnProcess::Ends,
        data: OnData::Lost,
        silences: true,
        rules_out: RulesOut::Acts,
        ..Does::NOTHING
    };
    pub const NOTHING: Does = Does {
        process: OnProcess::GoesOn,
        packets: OnPackets::Pass,
        data: OnData::Kept,
        wall_clock: false,
        restarts: false,
        silences: false,
        rules_out: RulesOut::Nothing("the fault does nothing"),
    };
}

/// Something that is impossible while a fault is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesOut {
    /// A target acts or answers: its processes are stopped or gone.
    Acts,
    /// A target answers, though its process goes on.
    Answers,
    /// A target acknowledges a write.
    Writes,
    /// An answer comes across one of its links.
    AnswersAcross,
    /// An answer comes across one of its links sooner than packets take on it.
    SoonAnswersAcross,
    /// An answer to one of its commands, if the fault fires at each of them. If it fires only once, a client may ask again on
    /// another connection.
    AnswersToCommands,
    /// A read of a value from before the fault, if the fault hits all servers that store the value.
    OldValues,
    /// Nothing that a history shows, for this reason.
    Nothing(&'static str),
}

impl RulesOut {
    /// The observation that would refute the fault, or why none can.
    pub fn words(self) -> String {
        match self {
            RulesOut::Acts => "a client acts, or a server answers, while its processes are stopped or gone".into(),
            RulesOut::Answers => "the server answers a request that was sent during the fault".into(),
            RulesOut::Writes => "the server acknowledges a write that was sent during the fault".into(),
            RulesOut::AnswersAcross => "a request that was sent during the fault is answered across the link".into(),
            RulesOut::SoonAnswersAcross => "an answer arrives sooner than packets can cross the link".into(),
            RulesOut::AnswersToCommands => {
                "with `each any` or `each write`, and no key: the server answers such a command. Never with `refuse each write`, \
                 because a transaction may still write, and never after a single fault, because a client may ask again on another \
                 connection"
                    .into()
            }
            RulesOut::OldValues => {
                "the fault hits all nodes that keep a replicated resource, and a client still reads an earlier value".into()
            }
            RulesOut::Nothing(why) => format!("never: {why}"),
        }
    }
}

/// The effect on a member's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnProcess {
    GoesOn,
    /// All processes stop until the heal.
    Stops,
    /// Some of their threads stop.
    StopsInPart,
    /// They are gone; after the heal there are new ones.
    Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPackets {
    Pass,
    /// Some may be late or lost.
    Disturbed,
    /// No packet arrives.
    Cut,
}

/// The effect on the data of a server, such as a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnData {
    Kept,
    /// A server may drop or lack data before they expire, because of a wrong clock or a replica without them; nothing is deleted.
    InDoubt,
    /// Data may be lost.
    Lost,
}

#[derive(Debug)]
pub struct Says {
    /// `background pause`.
    pub name: &'static str,
    /// A participle for its target: `paused`.
    pub done: &'static str,
    /// The means: `SIGSTOP`.
    pub how: &'static str,
    /// The verb with which reports say that it was observed: `pause`.
    pub verb: &'static str,
    /// The circumstance, if it hit the holder, another client, or a node.
    pub holder: &'static str,
    pub client: &'static str,
    pub node: &'static str,
    /// True if it lasts until its heal, which undoes it.
    pub lasts: bool,
}

/// Its rank as an explanation, on a client that took part and on a node; a lower number explains more.
#[derive(Clone, Copy, Debug)]
pub struct Blame {
    pub client: u8,
    pub node: u8,
}

/// The phrase that a fuzzer fills in, in this order: `{client}`, `{nodes}`, `{member}` (a client or a node), `{server}` (nodes or
/// the resource), `{one-way}` (`A to B` with a client and a server), `{length}`, `{change}` of a clock, or a whole `{command}`
/// fault.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    pub phrase: &'static str,
    /// The phrase to use half of the time, where nodes have roles.
    pub of_roles: Option<&'static str>,
}

impl Drawn {
    pub const fn phrase(phrase: &'static str) -> Option<Drawn> {
        Some(Drawn { phrase, of_roles: None })
    }
}

impl FaultDef {
    /// True if its targets do nothing meanwhile, because they are stopped or gone.
    pub fn halts(&self) -> bool {
        matches!(self.does.process, OnProcess::Stops | OnProcess::Ends)
    }

    /// True if its targets' processes stop and later continue where they were.
    pub fn suspends(&self) -> bool {
        matches!(self.does.process, OnProcess::Stops | OnProcess::StopsInPart)
    }

    /// True if its targets' processes are gone until they are started again.
    pub fn ends_processes(&self) -> bool {
        self.does.process == OnProcess::Ends
    }

    /// True if it keeps something from happening for as long as it lasts. A reset does not: it breaks connections at once.
    pub fn is_an_outage(&self) -> bool {
        use RulesOut::{Acts, Answers, AnswersAcross, SoonAnswersAcross, Writes};
        match self.does.rules_out {
            AnswersAcross => self.does.packets == OnPackets::Cut,
            rules_out => matches!(rules_out, Acts | Answers | SoonAnswersAcross | Writes),
        }
    }

    /// True if its targets answer writes with an error meanwhile.
    pub fn refuses_writes(&self) -> bool {
        self.does.rules_out == RulesOut::Writes
    }

    /// True if it acts on packets between members.
    pub fn is_of_the_network(&self) -> bool {
        self.does.packets != OnPackets::Pass
    }

    /// True if it makes its targets delete keys, which a replica refuses.
    pub fn empties(&self) -> bool {
        self.does.data == OnData::Lost && !self.ends_processes()
    }

    /// True if a replica becomes the primary by a command, and nothing breaks.
    pub fn promotes_a_replica(&self) -> bool {
        self.phrase.form == Form::Members(Takes::Promotion)
    }

    pub fn gives_a_list(&self) -> bool {
        self.phrase.form == Form::Members(Takes::Nodes)
    }

    /// True if the user's own commands carry it out.
    pub fn is_a_hook(&self) -> bool {
        self.phrase.form == Form::Hook
    }

    /// True if the agent carries it out, not a client or the controller.
    pub fn is_by_the_agent(&self) -> bool {
        !self.needs.by_client && !self.gives_a_list() && !self.is_a_hook()
    }

    /// True if it waits for a command, and does nothing before it comes.
    pub fn is_at_command(&self) -> bool {
        self.phrase.form == Form::Command
    }
}

/// Declares the kinds and their functions.
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
    Reconfigure: reconfigure,
    Shutdown: shutdown,
    Upgrade: upgrade,
    Hook: hook,
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
            // The colour must be light enough to lie below everything else.
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
