//! The steps of a scripted scenario: `start client:0 to before-write`, `pause client:0`, `wait 1.1ttl`, `heal all`.

use std::fmt;
use std::str::FromStr;

use super::fault::{Fault, is_verb};
use super::phrase::{PhraseError, first, length, serde_as_phrase};
use super::target::Target;
use crate::history::Phase;
use base::units::Length;

/// One step. The next step begins when this one is over.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `start client:0`: the client begins its next operation. `start client:0 to read`: it goes no further than that phase, and
    /// the step waits for it. With `giving up after 0.1ttl` it tries to acquire the lock for no longer than that. With `to read
    /// or end` the operation may also end without that phase, for example if the lock was refused. With `within 0.2ttl` the
    /// script fails if neither comes in that time. `start client:0 as reader`: it acquires the lock for reading. With `releasing
    /// again after 0.2ttl` it releases the lock a second time, that long after the first.
    Start {
        client: u32,
        reads: bool,
        to: Option<Phase>,
        or_end: bool,
        gives_up: Option<Length>,
        releases_again: Option<Length>,
        within: Option<Length>,
    },
    /// `go client:0`: the client continues from its breakpoint; with `to PHASE` no further than that phase, as above.
    Go { client: u32, to: Option<Phase> },
    /// `cancel client:0`: cancels the operation in flight, as by the end of its context or an interrupt of its thread.
    Cancel { client: u32 },
    /// `await client:1 end within 3ttl`: waits for a phase of the client's operation, or for its end. With `or go on` the step is
    /// over after that time in any case; otherwise the script has failed.
    Await { client: u32, event: Milestone, within: Option<Length>, or_go_on: bool },
    /// `expect client:1 acquired within 0.5ttl`: as above, but for an event that must happen if the lock is live. If it does not
    /// happen, the lock was not live, and the script goes on.
    Expect { client: u32, event: Milestone, within: Length },
    /// `await primary changes within 1ttl`: waits until a different node is the primary of the lock's key.
    AwaitPrimary { within: Length },
    /// `await hold reply to SET client:0 from node:0 within 1ttl`: waits until that fault at a command has fired. `or go on` as
    /// above.
    AwaitStrike { fault: Fault, within: Option<Length>, or_go_on: bool },
    /// `wait 1.1ttl`.
    Wait(Length),
    /// A fault, which stays in effect until it is healed.
    Inject(Fault),
    /// `heal pause client:0`: undoes that fault.
    Heal(Fault),
    /// `heal all`: heals everything, the latest fault first.
    HealAll,
}

/// The event that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// The operation has reached this phase.
    Phase(Phase),
    /// The operation has ended, whatever its result.
    End,
}

impl Step {
    /// The client that it instructs or waits for.
    pub fn client(&self) -> Option<u32> {
        match self {
            Step::Start { client, .. }
            | Step::Go { client, .. }
            | Step::Cancel { client }
            | Step::Await { client, .. }
            | Step::Expect { client, .. } => Some(*client),
            _ => None,
        }
    }

    /// The phase of a client's operation that it waits for, if any.
    pub fn phase(&self) -> Option<Phase> {
        match self {
            Step::Start { to, .. } | Step::Go { to, .. } => *to,
            Step::Await { event: Milestone::Phase(phase), .. }
            | Step::Expect { event: Milestone::Phase(phase), .. } => Some(*phase),
            _ => None,
        }
    }
}

const PHASES: [(&str, Phase); 11] = [
    ("acquiring", Phase::Acquiring),
    ("half-acquired", Phase::HalfAcquired),
    ("acquired", Phase::Acquired),
    ("extended", Phase::Extended),
    ("read", Phase::Read),
    ("before-write", Phase::BeforeWrite),
    ("written", Phase::Written),
    ("lost", Phase::Lost),
    ("releasing", Phase::Releasing),
    ("half-released", Phase::HalfReleased),
    ("released", Phase::Released),
];

const EXPECTED: &str = "`start client:N`, `start client:N to PHASE or end giving up after 1ttl within 2ttl`, `start client:N as reader`, `start client:N releasing again after 0.2ttl`, `go client:N`, `go client:N to PHASE`, `cancel client:N`, \
                        `await client:N PHASE`, `await client:N end within 3ttl or go on`, \
                        `expect client:N PHASE within 1ttl`, `await primary changes within 1ttl`, `await FAULT` (at a \
                        command), `wait 1.1ttl`, a fault, `heal FAULT` or `heal all`";

impl FromStr for Step {
    type Err = PhraseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (verb, rest) = first(text);
        match verb {
            "start" => {
                let (rest, within) = with_length(rest, " within ")?;
                let (rest, releases_again) = with_length(rest, " releasing again after ")?;
                let (rest, gives_up) = with_length(rest, " giving up after ")?;
                let (rest, or_end) = match rest.strip_suffix(" or end") {
                    Some(rest) => (rest, true),
                    None => (rest, false),
                };
                let (rest, to) = to(rest)?;
                let (rest, reads) = match rest.strip_suffix(" as reader") {
                    Some(rest) => (rest, true),
                    None => (rest, false),
                };
                let client = client(rest)?;
                if to.is_none() && (within.is_some() || or_end) {
                    let expected = "`to PHASE`: without a phase this step waits for nothing";
                    return Err(PhraseError::expected(text, expected));
                }
                Ok(Step::Start { client, reads, to, or_end, gives_up, releases_again, within })
            }
            "go" => {
                let (rest, to) = to(rest)?;
                Ok(Step::Go { client: client(rest)?, to })
            }
            "cancel" => Ok(Step::Cancel { client: client(rest)? }),
            "await" if rest.starts_with("primary") => match rest.strip_prefix("primary changes within ") {
                Some(within) => Ok(Step::AwaitPrimary { within: length(within.trim())? }),
                None => Err(PhraseError::expected(text, "`await primary changes within 1ttl`")),
            },
            "await" if is_verb(first(rest).0) => strike_awaited(rest),
            "await" => awaited(rest),
            "expect" => match awaited(rest)? {
                Step::Await { client, event, within: Some(within), or_go_on: false } => {
                    Ok(Step::Expect { client, event, within })
                }
                _ => Err(PhraseError::expected(text, "`expect client:N PHASE within 0.5ttl`")),
            },
            "wait" => length(rest).map(Step::Wait),
            "heal" if rest == "all" => Ok(Step::HealAll),
            "heal" => rest.parse().map(Step::Heal),
            verb if is_verb(verb) => text.parse().map(Step::Inject),
            _ => Err(PhraseError::expected(text, EXPECTED)),
        }
    }
}

/// The text before `to PHASE`, and that phase, if there is one.
fn to(text: &str) -> Result<(&str, Option<Phase>), PhraseError> {
    match text.split_once(" to ") {
        None => Ok((text, None)),
        Some((what, to)) => Ok((what, Some(phase(to.trim())?))),
    }
}

/// The awaited event, the time limit, and whether the script goes on after it.
fn how_long(text: &str) -> Result<(&str, Option<Length>, bool), PhraseError> {
    let (rest, or_go_on) = match text.strip_suffix("or go on") {
        Some(rest) => (rest.trim(), true),
        None => (text, false),
    };
    let (what, within) = with_length(rest, " within ")?;
    Ok((what, within, or_go_on))
}

/// The text before this word, and the length after it, if there is one.
fn with_length<'t>(text: &'t str, word: &str) -> Result<(&'t str, Option<Length>), PhraseError> {
    match text.split_once(word) {
        Some((what, after)) => Ok((what, Some(length(after.trim())?))),
        None => Ok((text, None)),
    }
}

fn strike_awaited(text: &str) -> Result<Step, PhraseError> {
    let (fault, within, or_go_on) = how_long(text)?;
    let fault: Fault = fault.parse()?;
    match fault.kind.is_at_command() {
        true => Ok(Step::AwaitStrike { fault, within, or_go_on }),
        false => {
            let expected =
                "a fault at a command; any other fault takes effect in its own step, so there is nothing to wait for";
            Err(PhraseError::expected(text, expected))
        }
    }
}

fn awaited(text: &str) -> Result<Step, PhraseError> {
    let (what, within, or_go_on) = how_long(text)?;
    let (one, event) = first(what);
    let event = if event == "end" { Milestone::End } else { Milestone::Phase(phase(event)?) };
    Ok(Step::Await { client: client(one)?, event, within, or_go_on })
}

fn client(text: &str) -> Result<u32, PhraseError> {
    match text.trim().parse::<Target>() {
        Ok(Target::Client(number)) => Ok(number),
        _ => Err(PhraseError::expected(text, "`client:N`, N from 0")),
    }
}

fn phase(text: &str) -> Result<Phase, PhraseError> {
    let known = PHASES.iter().find(|(word, _)| *word == text);
    known.map(|(_, phase)| *phase).ok_or_else(|| {
        let words: Vec<_> = PHASES.iter().map(|(word, _)| format!("`{word}`")).collect();
        PhraseError::expected(
            text,
            &format!("a phase ({}); an `await` or `expect` step also takes `end`", words.join(", ")),
        )
    })
}

impl fmt::Display for Milestone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Milestone::End => "end",
            Milestone::Phase(phase) => PHASES.iter().find(|(_, known)| known == phase).map_or("", |(word, _)| word),
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let for_long = |within: &Option<Length>, or_go_on: bool| {
            let within = within.map_or(String::new(), |within| format!(" within {within}"));
            within + if or_go_on { " or go on" } else { "" }
        };
        let to = |to: &Option<Phase>| to.map_or(String::new(), |phase| format!(" to {}", Milestone::Phase(phase)));
        match self {
            Step::Start { client, reads, to: phase, or_end, gives_up, releases_again, within } => {
                write!(f, "start client:{client}{}", if *reads { " as reader" } else { "" })?;
                write!(f, "{}{}", to(phase), if *or_end { " or end" } else { "" })?;
                gives_up.map_or(Ok(()), |after| write!(f, " giving up after {after}"))?;
                releases_again.map_or(Ok(()), |after| write!(f, " releasing again after {after}"))?;
                f.write_str(&for_long(within, false))
            }
            Step::Go { client, to: phase } => write!(f, "go client:{client}{}", to(phase)),
            Step::Cancel { client } => write!(f, "cancel client:{client}"),
            Step::Await { client, event, within, or_go_on } => {
                write!(f, "await client:{client} {event}{}", for_long(within, *or_go_on))
            }
            Step::AwaitStrike { fault, within, or_go_on } => {
                write!(f, "await {fault}{}", for_long(within, *or_go_on))
            }
            Step::Expect { client, event, within } => write!(f, "expect client:{client} {event} within {within}"),
            Step::AwaitPrimary { within } => write!(f, "await primary changes within {within}"),
            Step::Wait(length) => write!(f, "wait {length}"),
            Step::Inject(fault) => fault.fmt(f),
            Step::Heal(fault) => write!(f, "heal {fault}"),
            Step::HealAll => f.write_str("heal all"),
        }
    }
}

serde_as_phrase!(Step);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_understood_and_survive_printing() {
        for text in [
            "start client:0",
            "start client:0 to before-write",
            "start client:0 giving up after 0.1ttl",
            "start client:0 releasing again after 0.2ttl",
            "start client:0 to releasing or end giving up after 1ttl releasing again after 0.2ttl within 2ttl",
            "start client:0 as reader",
            "start client:0 as reader to read or end giving up after 0.1ttl within 0.2ttl",
            "start client:0 to acquiring giving up after 0.1ttl",
            "start client:1 to before-write within 0.2ttl",
            "start client:1 to before-write or end giving up after 0.1ttl within 0.2ttl",
            "go client:0",
            "go client:1 to written",
            "cancel client:1",
            "block client:0 for 1.3ttl",
            "heal block client:0 for 1.3ttl",
            "await client:1 end",
            "await client:1 acquired within 2ttl",
            "await client:1 end within 3ttl or go on",
            "await client:1 end or go on",
            "expect client:1 acquired within 0.5ttl",
            "await primary changes within 1ttl",
            "hold reply to 2nd SET client:0 from nodes",
            "await hold reply to 2nd SET client:0 from nodes",
            "await reset after any client:0 and node:0 within 2ttl or go on",
            "heal hold reply to 2nd SET client:0 from nodes",
            "wait 1.1ttl",
            "pause client:0",
            "partition primary from replica",
            "partition client:0 from node:3,node:4",
            "heal pause client:0",
            "heal all",
        ] {
            let step: Step = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(step.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_step_is_refused_with_what_would_be() {
        for (text, expected) in [
            ("", "expected `start client:N`"),
            ("begin client:0", "expected `start client:N`"),
            ("start", "expected `client:N`"),
            ("start holder", "expected `client:N`"),
            ("start client:0 as writer", "expected `client:N`"),
            ("start client:0 to read as reader", "a phase (`acquiring`"),
            ("go client:0 as reader", "expected `client:N`"),
            ("start client:0 or end", "`to PHASE`"),
            ("start client:0 to read or go on", "a phase (`acquiring`"),
            ("start client:0 giving up after 1ttl within 1ttl", "`to PHASE`"),
            ("start client:0 to read within soon", "not a length"),
            ("start client:0 releasing again after a while", "not a length"),
            ("start client:0 to the end", "a phase (`acquiring`"),
            ("go client:0 to end", "a phase (`acquiring`"),
            ("cancel", "expected `client:N`"),
            ("cancel node:0", "expected `client:N`"),
            ("cancel client:0 to read", "expected `client:N`"),
            ("block client:0", "such as `for 1.3ttl`"),
            ("block client:0 1.3ttl", "such as `for 1.3ttl`"),
            ("block node:0 for 1ttl", "only a client has an event loop"),
            ("await client:0", "a phase (`acquiring`"),
            ("await client:0 read within soon", "not a length"),
            ("expect client:0 acquired", "within 0.5ttl"),
            ("expect client:0 end within 1s or go on", "within 0.5ttl"),
            ("await primary", "`await primary changes within 1ttl`"),
            ("await primary changes", "`await primary changes within 1ttl`"),
            ("await primary changes within soon", "not a length"),
            ("await pause client:0", "a fault at a command"),
            ("await hold reply to", "a command, `any` or `write`"),
            ("await hold reply to SET client:0 from node:0 within soon", "not a length"),
            ("wait", "not a length"),
            ("heal", "expected `pause WHO`"),
            ("pause", "expected `pause WHO`"),
            ("heal pause nobody", "unknown target `nobody`"),
        ] {
            let error = text.parse::<Step>().map(|step| panic!("{text} became {step}")).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
