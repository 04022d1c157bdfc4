//! A scenario for each command that a library was seen to send, and for each thing that can go wrong there.
//!
//! Each is one moment, as the scenarios of the catalogue are: the command is struck while its client takes, holds or gives back
//! the lock, another client then has its turn, and the first one goes on.

use std::fmt::Write;

use super::sent::{Sent, When};
use crate::fault_kinds::{names_a_key_of_the_run, ordinal};
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
    /// The reply never comes.
    LostReply,
    /// The client dies before it reads the reply.
    Kill,
}

/// What is tried, the likeliest first.
const ALL: [Strike; 6] =
    [Strike::LateReply, Strike::Pause, Strike::Reset, Strike::LostReply, Strike::LateRequest, Strike::Kill];

/// A scenario with its place among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// As its file is called.
    pub name: String,
    pub description: String,
    /// The nemesis file.
    pub toml: String,
    /// The same for a lock that sends other commands: struck is whatever it writes at that time.
    pub of_its_kind: String,
}

/// The scenarios for these commands, on all nodes at once and, of several, on each of the first three. Those that matter most
/// come first: each strike at the first command that takes, renews and releases, before the second ones.
pub fn scenarios(sent: &[Sent], nodes: u32, expires: bool) -> Vec<Scripted> {
    let single = if nodes > 1 { nodes.min(3) } else { 0 };
    let places: Vec<String> =
        std::iter::once("nodes".to_string()).chain((0..single).map(|node| format!("node:{node}"))).collect();
    let mut scenarios: Vec<((u32, usize, usize), Scripted)> = Vec::new();
    // What names none of the lock's keys is not the lock.
    for sent in sent.iter().filter(|sent| sent.key.is_some()) {
        for (rank, strike) in ALL.iter().enumerate().filter(|(_, strike)| strike.fits(sent.when, expires)) {
            for (far, place) in places.iter().enumerate() {
                scenarios.push(((sent.nth, far, rank), strike.scenario(sent, place)));
            }
        }
    }
    scenarios.sort_by_key(|(rank, _)| *rank);
    scenarios.into_iter().map(|(_, scenario)| scenario).collect()
}

impl Strike {
    /// Whether it can show anything of what the client is doing then.
    fn fits(self, when: When, expires: bool) -> bool {
        match (self, when) {
            // Who waits has nothing that could run out or be left behind.
            (Strike::LateRequest | Strike::Pause | Strike::Kill, When::Waiting) => false,
            // A dead holder is what `crash-holder` is about, and a release that is late harms by its request alone.
            (Strike::Kill, When::Holding) | (Strike::LateReply, When::Releasing) => false,
            // These wait until the lock has run out.
            (Strike::LateReply | Strike::Pause | Strike::LateRequest, _) => expires,
            _ => true,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Strike::LateReply => "late-reply",
            Strike::LateRequest => "late-request",
            Strike::Pause => "pause-before-reply",
            Strike::Reset => "reset-after",
            Strike::LostReply => "lost-reply",
            Strike::Kill => "kill-before-reply",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Strike::LateReply => "the reply comes when the lock has run out",
            Strike::LateRequest => "the request comes when the lock has run out",
            Strike::Pause => "the client stops before it reads the reply, until the lock has run out",
            Strike::Reset => "the connection breaks when it was carried out",
            Strike::LostReply => "the reply never comes",
            Strike::Kill => "the client dies before it reads the reply",
        }
    }

    fn fault(self, command: &str, at: &str) -> String {
        match self {
            Strike::LateReply | Strike::Pause | Strike::Kill => format!("hold reply to {command} client:0 from {at}"),
            Strike::LateRequest => format!("hold request {command} client:0 to {at}"),
            Strike::LostReply => format!("lose reply to {command} client:0 from {at}"),
            Strike::Reset => format!("reset after {command} client:0 and {at}"),
        }
    }

    fn scenario(self, sent: &Sent, at: &str) -> Scripted {
        let doing = match sent.when {
            When::Taking => "taking",
            When::Waiting => "waiting",
            When::Holding => "holding",
            When::Releasing => "releasing",
        };
        let nth = if sent.nth == 1 { String::new() } else { format!("{} ", ordinal(sent.nth)) };
        let mut name = format!("{doing}-{}-{}", sent.name.to_ascii_lowercase(), self.word());
        if sent.nth > 1 {
            let _ = write!(name, "-{}", ordinal(sent.nth));
        }
        if let Some(node) = at.strip_prefix("node:") {
            let _ = write!(name, "-at-n{node}");
        }
        // Whatever key of the run it is, and whatever follows in it.
        let pattern = sent.key.as_deref().filter(|_| sent.is_keyed).and_then(pattern);
        let key = pattern.map_or_else(String::new, |pattern| format!(" on {pattern}"));
        let where_ = if at == "nodes" { String::new() } else { format!(" at {}", at.replace("node:", "n")) };
        let description =
            format!("{}: at its {nth}{}{where_}, {}", capital(&sent.when.to_string()), sent.name, self.what());
        let toml = |command: &str| {
            let steps = self.steps(sent.when, &self.fault(command, at));
            let steps: Vec<String> = steps.iter().map(|step| format!("  {step:?},\n")).collect();
            format!(
                "description = {description:?}\nstory = \"One of the strikes at each command that the library was seen to send: {}\"\n\
                 progress = \"any\"\nclients = 3\nscript = [\n{}]\n",
                sent.example.replace(['"', '\\'], "'"),
                steps.concat()
            )
        };
        Scripted { toml: toml(&format!("{nth}{}{key}", sent.name)), of_its_kind: toml("write"), name, description }
    }

    fn steps(self, when: When, fault: &str) -> Vec<String> {
        if when == When::Waiting {
            return waiting(fault);
        }
        let mut steps: Vec<&str> = Vec::new();
        let (await_fault, heal_fault) = (format!("await {fault} within 2ttl"), format!("heal {fault}"));
        // Nothing of an earlier hold is on its way any more.
        steps.extend(match when {
            When::Taking | When::Waiting => {
                vec!["start client:0 to acquiring giving up after 2ttl", fault, "go client:0"]
            }
            When::Holding => vec!["wait 1ttl", "start client:0 to read", fault],
            When::Releasing => vec!["start client:0 to releasing", fault, "go client:0"],
        });
        steps.push(&await_fault);
        match self {
            Strike::Pause => steps.extend(["pause client:0", &heal_fault, "wait 1.1ttl"]),
            Strike::Kill => steps.extend(["kill client:0", "heal kill client:0", &heal_fault]),
            Strike::LateReply | Strike::LateRequest => steps.push("wait 1.1ttl"),
            Strike::Reset => steps.push(&heal_fault),
            Strike::LostReply => {}
        }
        // A lock that lives is renewed by then, one that is not has run out.
        if when == When::Holding && matches!(self, Strike::Reset | Strike::LostReply) {
            steps.push("wait 1.1ttl");
        }
        match (self, when) {
            (Strike::Kill, _) => steps.extend(["start client:1", "await client:1 end"]),
            _ => {
                steps.push("start client:1 to before-write or end giving up after 0.6ttl within 0.8ttl");
                match self {
                    Strike::LateReply | Strike::LateRequest | Strike::LostReply if when != When::Holding => {
                        steps.push(&heal_fault)
                    }
                    Strike::Pause => steps.push("heal pause client:0"),
                    _ => {}
                }
                if when == When::Holding {
                    // Before a late answer arrives, which may well say that the lock is over.
                    steps.extend(["go client:0", "await client:0 end within 0.05ttl or go on"]);
                    if !matches!(self, Strike::Pause | Strike::Reset) {
                        steps.push(&heal_fault);
                    }
                }
                steps.push("await client:0 end within 0.35ttl or go on");
                if when == When::Releasing {
                    steps.extend([
                        "start client:2 giving up after 0.2ttl",
                        "await client:2 end within 0.35ttl or go on",
                    ]);
                }
                steps.extend(["go client:1", "await client:1 end"]);
                if when == When::Releasing {
                    steps.push("await client:2 end");
                }
                steps.push("await client:0 end");
            }
        }
        steps.into_iter().map(str::to_string).collect()
    }
}

/// Whoever waits has to get the lock when it is given back, whatever became of what it had asked.
fn waiting(fault: &str) -> Vec<String> {
    let (await_fault, heal_fault) = (format!("await {fault} within 0.4ttl"), format!("heal {fault}"));
    let steps = [
        "start client:1 to before-write",
        "start client:0 to acquiring giving up after 4ttl",
        fault,
        "go client:0",
        &await_fault,
        "go client:1",
        "await client:1 end",
        &heal_fault,
        "expect client:0 acquired within 2ttl",
        "await client:0 end",
    ];
    steps.map(str::to_string).to_vec()
}

/// `lock:k*` for `lock:k0` and for `lock:k0-reply-17`; None if it can't be said in a phrase.
fn pattern(key: &str) -> Option<String> {
    let mut ends = key.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.find(|end| names_a_key_of_the_run(&key[..*end]))?;
    // It ends with its first digit.
    let before = &key[..end - 2];
    before.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":_-{}./".contains(&byte)).then(|| format!("{before}k*"))
}
