//! A fault as a phrase: `pause holder`, `loss 30% client:0 and node:1`, `clock node:2 +2ttl`.
//!
//! A fault consists of its kind, its targets and an argument. The kind's declaration says how these stand in the phrase, so this
//! module does not know the kinds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::command;
use super::links::{self, LinkSelector, TargetSpec};
use super::phrase::{PhraseError, first, length, lengths, only, serde_as_phrase};
use super::target::{Target, Targets};
use crate::fault_kinds::{Allowed, CommandFault, FaultKind, Form, Takes};
use crate::topology::NamedServer;
use base::units::{Length, LengthRange};

#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    pub whom: TargetSpec,
    pub with: Argument,
}

/// The argument of a fault, besides its targets.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    None,
    Percent(u8),
    Length(LengthRange),
    For(Length),
    Clock(ClockChange),
    Command(CommandFault),
    Nodes(Targets),
    Server(NamedServer),
    /// The name of a hook.
    Hook(String),
}

/// How a wall clock goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClockChange {
    Ahead(Length),
    Behind(Length),
    /// It runs this many times as fast.
    Rate(f64),
    /// It alternates between right and ahead by the first length; each state lasts the second length.
    Strobe(Length, Length),
}

/// True if a fault may begin with this word.
pub(super) fn is_verb(word: &str) -> bool {
    all_words().any(|(_, words)| first(words).0 == word)
}

/// The words that a fault may begin with, and the kind that they mean.
fn all_words() -> impl Iterator<Item = (FaultKind, &'static str)> {
    FaultKind::ALL.iter().flat_map(|kind| kind.phrase.words.iter().map(|words| (*kind, *words)))
}

/// The rest of the phrase after these words; None if it does not begin with them.
fn after<'t>(words: &str, phrase: &'t str) -> Option<&'t str> {
    words.split(' ').try_fold(phrase, |rest, expected| {
        let (word, after) = first(rest);
        (word == expected).then_some(after)
    })
}

/// The kind that a phrase begins with, its words, and the rest of the phrase.
fn begun(phrase: &str) -> Option<(FaultKind, &'static str, &str)> {
    let begun = all_words().filter_map(|(kind, words)| Some((kind, words, after(words, phrase)?)));
    begun.max_by_key(|(_, words, _)| words.len())
}

/// An error for a phrase that means no kind of fault, with the valid phrases.
fn unknown(phrase: &str) -> PhraseError {
    let (verb, rest) = first(phrase);
    if !rest.is_empty() && all_words().any(|(kind, words)| kind.is_at_command() && first(words).0 == verb) {
        return command::expected(phrase);
    }
    let usages: Vec<String> = FaultKind::ALL.iter().map(|kind| format!("`{}`", kind.phrase.usage)).collect();
    PhraseError::expected(phrase, &usages.join(", "))
}

impl Fault {
    /// A fault on members, without an argument.
    pub fn on(kind: FaultKind, targets: Targets) -> Fault {
        Fault { kind, whom: TargetSpec::Members(targets), with: Argument::None }
    }

    /// Every group of its targets.
    pub fn all_targets(&self) -> Vec<&Targets> {
        match &self.whom {
            TargetSpec::Members(targets) => vec![targets],
            TargetSpec::Links(parts) => parts.iter().flat_map(|part| [&part.one, &part.other]).collect(),
            TargetSpec::Shape(..) => Vec::new(),
        }
    }

    /// True if it names a target that passes the test.
    pub fn names(&self, is_such: impl Fn(Target) -> bool) -> bool {
        self.all_targets().iter().any(|targets| targets.0.iter().any(|target| is_such(*target)))
    }

    /// True if it names exactly one member.
    pub fn names_one(&self) -> bool {
        matches!(&self.all_targets()[..], [Targets(targets)] if targets.len() == 1 && targets[0] != Target::Clients)
    }

    /// How long after its heal it may still keep a lock of this TTL, if it was in effect for `lasted`. A node whose clock was
    /// ahead has keys that expire by that clock, so after the heal they live that much longer.
    pub fn aftermath(&self, ttl: Duration, lasted: Duration) -> Duration {
        match &self.with {
            Argument::Clock(change) if self.names(|target| target.is_node()) => change.ahead(ttl, lasted),
            _ => Duration::ZERO,
        }
    }

    /// The largest error of the clocks that it hits, if it was in effect for `lasted`; None if it is not on clocks.
    pub fn clock_off(&self, ttl: Duration, lasted: Duration) -> Option<Duration> {
        match &self.with {
            Argument::Clock(change) => Some(change.off(ttl, lasted)),
            _ => None,
        }
    }

    /// Refuses targets that make no sense for it.
    fn check(self) -> Result<Fault, PhraseError> {
        let (fits, refusal): (&dyn Fn(&Targets) -> bool, _) = match self.kind.allowed {
            Allowed::All => return Ok(self),
            Allowed::Roles(roles, refusal) => {
                (&move |targets| targets.0.iter().all(|target| roles.contains(&target.role())), refusal)
            }
            Allowed::Primary(refusal) => (&|targets| targets.0 == [Target::Primary], refusal),
        };
        match self.all_targets().into_iter().find(|targets| !fits(targets)) {
            Some(targets) => Err(PhraseError::new(format!("`{self}`: {targets} can't be its target; {refusal}"))),
            None => Ok(self),
        }
    }
}

/// Parses the argument. The set is closed: a new kind of argument needs a new [`Takes`].
fn argument(takes: Takes, text: &str) -> Result<Argument, PhraseError> {
    Ok(match takes {
        Takes::Nothing | Takes::Promotion => Argument::None,
        Takes::Percent => match text.strip_suffix('%').and_then(|number| number.parse().ok()) {
            Some(number @ 1..=99) => Argument::Percent(number),
            _ => return Err(PhraseError::expected(text, "a part of the packets, from `1%` to `99%`")),
        },
        Takes::Length => Argument::Length(lengths(text)?),
        Takes::For => match text.strip_prefix("for ") {
            Some(text) => Argument::For(length(text.trim())?),
            None => return Err(PhraseError::expected(text, "a length, such as `for 1.3ttl`")),
        },
        Takes::ClockChange => Argument::Clock(text.parse()?),
        Takes::Nodes => Argument::Nodes(nodes(text)?),
        Takes::Server => Argument::Server(server(text)?),
    })
}

fn nodes(text: &str) -> Result<Targets, PhraseError> {
    let listed: Option<Targets> = text.strip_prefix("to ").and_then(|nodes| only(nodes.trim()).ok());
    listed
        .filter(|nodes| nodes.0.iter().all(|node| matches!(node, Target::Node(_))))
        .ok_or_else(|| PhraseError::expected(text, "the nodes on the list, such as `to node:0,node:1,node:2`"))
}

/// Parses a server, such as `to valkey:9.1`.
fn server(text: &str) -> Result<NamedServer, PhraseError> {
    let named = text.strip_prefix("to ").and_then(|server| server.trim().parse().ok());
    named.ok_or_else(|| PhraseError::expected(text, "a server, such as `to valkey:9.1`"))
}

/// Parses the name of a hook.
fn hook(text: &str) -> Result<String, PhraseError> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_name
        .then(|| text.to_string())
        .ok_or_else(|| PhraseError::expected(text, "the name of a hook: letters, digits and `-`"))
}

impl FromStr for Fault {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if first(text).1.is_empty() {
            return Err(unknown(text));
        }
        let (kind, words, rest) = begun(text).ok_or_else(|| unknown(text))?;
        let (whom, with) = match kind.phrase.form {
            Form::Members(Takes::Nothing | Takes::Promotion) => (TargetSpec::Members(only(rest)?), Argument::None),
            Form::Members(takes) => {
                let (targets, rest) = first(rest);
                (TargetSpec::Members(only(targets)?), argument(takes, rest)?)
            }
            Form::Links(Takes::Nothing) => (TargetSpec::Links(vec![LinkSelector::parse(rest)?]), Argument::None),
            Form::Links(takes) => {
                let (taken, rest) = first(rest);
                let with = argument(takes, taken)?;
                (TargetSpec::Links(vec![LinkSelector::parse(rest)?]), with)
            }
            Form::Partition => (links::partition(rest)?, Argument::None),
            Form::Command => {
                let (sides, what) = command::parse(text, words, rest)?;
                (TargetSpec::Links(vec![sides]), Argument::Command(what))
            }
            Form::Hook => (TargetSpec::Members(Targets::one(Target::Nodes)), Argument::Hook(hook(rest)?)),
        };
        Fault { kind, whom, with }.check()
    }
}

impl ClockChange {
    /// The most by which it has set a clock ahead after `lasted`.
    fn ahead(self, ttl: Duration, lasted: Duration) -> Duration {
        match self {
            ClockChange::Ahead(by) | ClockChange::Strobe(by, _) => by.resolve(ttl),
            ClockChange::Rate(factor) => {
                let ahead = lasted.as_secs_f64() * (factor - 1.0).max(0.0);
                Duration::try_from_secs_f64(ahead).unwrap_or(Duration::MAX)
            }
            ClockChange::Behind(_) => Duration::ZERO,
        }
    }

    /// The most by which it has set a clock wrong after `lasted`, in either direction.
    fn off(self, ttl: Duration, lasted: Duration) -> Duration {
        match self {
            ClockChange::Behind(by) => by.resolve(ttl),
            ClockChange::Rate(factor) if factor < 1.0 => lasted.mul_f64((1.0 - factor).clamp(0.0, 1.0)),
            _ => self.ahead(ttl, lasted),
        }
    }
}

impl FromStr for ClockChange {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || {
            let changes = "`+2ttl` (ahead), `-500ms` (behind), `x1.5` (runs faster), or `strobe 200ms every 1ms`";
            PhraseError::expected(text, changes)
        };
        if let Some(ahead) = text.strip_prefix('+') {
            return Ok(ClockChange::Ahead(length(ahead)?));
        }
        if let Some(behind) = text.strip_prefix('-') {
            return Ok(ClockChange::Behind(length(behind)?));
        }
        if let Some(rate) = text.strip_prefix('x') {
            return match rate.parse::<f64>() {
                Ok(rate) if (0.001..=1000.0).contains(&rate) => Ok(ClockChange::Rate(rate)),
                _ => Err(PhraseError::expected(text, "a rate from `x0.001` to `x1000`")),
            };
        }
        let strobe = text.strip_prefix("strobe ").and_then(|rest| rest.split_once(" every "));
        let (by, every) = strobe.ok_or_else(expected)?;
        Ok(ClockChange::Strobe(length(by.trim())?, length(every.trim())?))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.kind.phrase.words.first().copied().unwrap_or_default();
        match (&self.whom, &self.with) {
            (TargetSpec::Links(sides), Argument::Command(what)) => command::write(f, what, sides),
            (_, with @ Argument::Hook(_)) => write!(f, "{words} {with}"),
            (TargetSpec::Members(targets), Argument::None) => write!(f, "{words} {targets}"),
            (TargetSpec::Members(targets), with) => write!(f, "{words} {targets} {with}"),
            (TargetSpec::Shape(shape, direction), _) => write!(f, "{words} {shape}{direction}"),
            (TargetSpec::Links(sides), with) => {
                f.write_str(words)?;
                if *with != Argument::None {
                    write!(f, " {with}")?;
                }
                // Uses the common word: members are partitioned `from` each other, but packets are lost between one member `and`
                // another.
                let both = if self.kind.phrase.form == Form::Partition { "from" } else { "and" };
                let sides: Vec<String> = sides.iter().map(|side| side.said(both)).collect();
                write!(f, " {}", sides.join("; "))
            }
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::None => Ok(()),
            Argument::Percent(percent) => write!(f, "{percent}%"),
            Argument::Nodes(nodes) => write!(f, "to {nodes}"),
            Argument::Server(server) => write!(f, "to {server}"),
            Argument::Length(by) => by.fmt(f),
            Argument::For(length) => write!(f, "for {length}"),
            Argument::Clock(change) => change.fmt(f),
            Argument::Command(what) => what.command.fmt(f),
            Argument::Hook(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for ClockChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockChange::Ahead(by) => write!(f, "+{by}"),
            ClockChange::Behind(by) => write!(f, "-{by}"),
            ClockChange::Rate(rate) => write!(f, "x{rate}"),
            ClockChange::Strobe(by, every) => write!(f, "strobe {by} every {every}"),
        }
    }
}

serde_as_phrase!(Fault);

#[cfg(test)]
mod tests {
    use super::*;
    use base::members::Role;

    #[test]
    fn faults_are_understood_and_survive_printing() {
        for text in [
            "pause holder",
            "pause client:0,node:3",
            "kill node",
            "kill client",
            "hook restart-primary",
            "hook by-hand",
            "shutdown node:0,node:1",
            "power-loss voter",
            "partition minority",
            "partition majorities-ring replies",
            "partition halves requests",
            "partition client:0 from node:0,node:1",
            "partition node:2 to client:0",
            "partition client:0 from node:1; client:1 from node:0",
            "partition clients from majority",
            "partition holder from resource",
            "partition primary from replica",
            "partition primary from nodes,sentinels",
            "kill primary",
            "loss 30% clients and nodes",
            "delay 50ms client:0 to resource",
            "delay 0.1ttl..0.2ttl nodes and clients",
            "reset client and node",
            "clock node:2 +2ttl",
            "clock minority -500ms",
            "clock client:0 x0.5",
            "clock nodes strobe 200ms every 1ms",
            "evict majority",
            "flush node",
            "forget-scripts nodes",
            "refuse-writes node:0,node:1",
            "failover primary",
            "slow-disk node:0,node:1 0.2ttl",
            "slow-disk primary 20ms..80ms",
            "pause background client:0",
            "block client:0 for 1.3ttl",
            "reconfigure client:0 to node:0,node:1,node:2",
            "reconfigure clients to node:4",
            "upgrade node:0,node:1 to valkey:9.1",
            "upgrade node to redis",
            "hold request SET client:0 to node:1",
            "hold reply to SET holder from resource",
            "hold reply to 2nd SET on lock:k? clients from nodes",
            "lose reply to each EVAL client:0,client:2 from majority",
            "reset after 11th write client and node:0",
            "reset connection of SUBSCRIBE client:0 and nodes",
            "cut connection of any client:1 and primary",
            "refuse WAIT with NOPERM client:0 to primary",
            "refuse each EVAL on lock:k? with OOM clients to nodes",
        ] {
            let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fault.to_string(), text);
            assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
        }
        assert_eq!("  pause   holder ".parse::<Fault>().unwrap().to_string(), "pause holder");
    }

    #[test]
    fn the_example_of_each_kind_is_one_of_it() {
        for kind in FaultKind::ALL {
            let fault: Fault = kind.phrase.example.parse().unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!((fault.kind, fault.to_string().as_str()), (*kind, kind.phrase.example));
            let Allowed::Roles(roles, refusal) = kind.allowed else { continue };
            for (role, target) in [(Role::Client, "client:0"), (Role::Node, "node:0"), (Role::Resource, "resource")] {
                let phrase = kind.phrase.usage.replace("WHO", target);
                match phrase.parse::<Fault>() {
                    Ok(_) => assert!(roles.contains(&role), "{phrase}"),
                    Err(error) => assert!(!roles.contains(&role) && error.to_string().contains(refusal), "{error}"),
                }
            }
        }
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be() {
        for (text, expected) in [
            ("", "expected `pause WHO`"),
            ("pause", "expected `pause WHO`"),
            ("paus holder", "expected `pause WHO`"),
            ("pause client:x", "unknown target `client:x`"),
            ("pause client:-1", "unknown target"),
            ("pause holder now", "unknown target `holder now`"),
            ("kill resource", "must survive"),
            ("flush client:0", "only nodes"),
            ("shutdown client:0", "`shutdown` works only on nodes"),
            ("power-loss resource", "only nodes"),
            ("evict sentinels", "only nodes"),
            ("refuse-writes client:0", "only nodes"),
            ("forget-scripts clients", "only nodes"),
            ("failover node:0", "only `primary`"),
            ("hook a b", "letters, digits and `-`"),
            ("hook $(reboot)", "letters, digits and `-`"),
            ("slow-disk client:0 200ms", "only nodes"),
            ("slow-disk node:0", "not a length"),
            ("failover primary,replica", "only `primary`"),
            ("clock resource +1s", "does not depend on a clock"),
            ("partition somewhere", "`A from B`"),
            ("partition one two", "`requests` or `replies`"),
            ("partition client:0 from", "`A from B`"),
            ("loss 0% client and node", "`1%` to `99%`"),
            ("loss 101% client and node", "`1%` to `99%`"),
            ("loss client and node", "`1%` to `99%`"),
            ("delay soon client to node", "not a length"),
            ("clock node", "`+2ttl`"),
            ("clock node 2ttl", "`+2ttl`"),
            ("clock node x0", "a rate from"),
            ("clock node xNaN", "a rate from"),
            ("clock node strobe 1ms", "strobe 200ms every 1ms"),
            ("pause background", "unknown target"),
            ("pause background node:0", "only clients have background threads to pause"),
            ("upgrade client:0 to valkey:9.1", "`upgrade` works only on nodes"),
            ("upgrade node:0", "`to valkey:9.1`"),
            ("upgrade node:0 to keydb:6", "`to valkey:9.1`"),
            ("reconfigure node:0 to node:1", "only a client has a list of nodes"),
            ("reconfigure client:0", "`to node:0,node:1,node:2`"),
            ("reconfigure client:0 node:1", "`to node:0,node:1,node:2`"),
            ("reconfigure client:0 to majority", "`to node:0,node:1,node:2`"),
            ("hold SET client:0 to node:0", "`hold request SET client:0 to node:0`"),
            ("lose", "expected `pause WHO`"),
            ("lose request SET client:0 to node:0", "`lose reply to SET client:0 from node:0`"),
            ("cut client:0 from node:0", "`cut connection of SUBSCRIBE client:0 and node:0`"),
            ("hold request SET", "a command, `any` or `write`, then `CLIENT to SERVER`"),
            ("hold request 2nd", "a command, `any` or `write`"),
            ("hold request SET on lock:k0", "a command, `any` or `write`"),
            ("hold request SET node:0 to client:0", "first the client"),
            ("hold request SET client:0 to client:1", "first the client"),
            ("hold request SET client:0 to sentinels", "first the client"),
            ("hold request 0th SET client:0 to node:0", "from `1st`"),
            ("hold request 2th SET client:0 to node:0", "`2nd`"),
            ("hold request S.T client:0 to node:0", "letters"),
            ("reset connection of 2nd SUBSCRIBE client:0 and node:0", "no number"),
            ("refuse SET client:0 to node:0", "`with` and one of `ERR`, `LOADING`"),
            ("refuse SET with client:0 to node:0", "one of `ERR`, `LOADING`"),
            ("refuse SET with oom client:0 to node:0", "`OOM`"),
            ("refuse SET with OOM", "`refuse 2nd SET on lock:k* with OOM client:0 to node:0`"),
            ("refuse with OOM SET client:0 to node:0", "`with` and one of"),
            ("hold request SET with OOM client:0 to node:0", "unknown target"),
        ] {
            let error = text.parse::<Fault>().map(|fault| panic!("{text} became {fault}")).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    /// Keys expire by their node's clock, so they outlive a heal by as much as that clock was ahead.
    #[test]
    fn only_a_nodes_clock_that_was_ahead_has_an_aftermath() {
        let aftermath = |text: &str, ttl: Duration| {
            text.parse::<Fault>().unwrap().aftermath(ttl, Duration::from_millis(70)).as_millis()
        };
        for (text, millis) in [
            ("clock node:0 x11", 700),
            ("clock node:0 x0.5", 0),
            ("clock voter +2ttl", 2_000),
            ("clock nodes strobe 200ms every 1ms", 200),
            ("clock node:0 -2ttl", 0),
            ("clock clients +2ttl", 0),
            ("clock sentinels +2ttl", 0),
            ("pause nodes", 0),
        ] {
            assert_eq!(aftermath(text, Duration::from_secs(1)), millis, "{text}");
        }
        assert_eq!(aftermath("clock node +1000ttl", Duration::MAX), Duration::MAX.as_millis());
    }

    #[test]
    fn a_clock_is_off_by_as_much_as_it_was_set_in_either_direction() {
        for (text, millis) in [
            ("clock client:0 +2ttl", Some(2_000)),
            ("clock client:0 -500ms", Some(500)),
            ("clock client:0 x0.5", Some(35)),
            ("clock client:0 x11", Some(700)),
            ("clock nodes strobe 200ms every 1ms", Some(200)),
            ("pause client:0", None),
        ] {
            let off = text.parse::<Fault>().unwrap().clock_off(Duration::from_secs(1), Duration::from_millis(70));
            assert_eq!(off.map(|off| off.as_millis()), millis, "{text}");
        }
    }
}
