//! Turns a counterexample of the model ([`redlock_model`]) into a script for a run on real Redis.
//!
//! A client that asks all nodes without interruption is simply started. If other moves come between its requests, the script
//! still makes it ask all nodes at once. The network then holds each request until the model's client asks that node. A holder
//! that does nothing while time passes is paused. A lagging clock almost stands still while its client asks. A tick is the same
//! fraction of the TTL as in the model. Keys expire by themselves.

pub mod page;

use std::collections::BTreeSet;
use std::fmt::Write;

use redlock_model::{Actor, Claim, Counterexample, Crash, Fencing, Memory, Move, Settings, Step};

/// A counterexample as a scripted scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// A workload that shows the violation.
    pub workload: &'static str,
    pub nodes: u32,
    /// The text of the nemesis file. docs/faults.md describes the language.
    pub file: String,
}

/// Why a counterexample has no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoScript {
    #[error("c{0} gives up in between, but a real client would try again on its own")]
    GivesUp(u32),
    #[error("c{0}'s clock catches up with a part of its lag, and no fault can do that")]
    ClockCatchesUp(u32),
    #[error("c{0} releases the lock without a write, but a real client would write")]
    ReleasesUnused(u32),
    #[error("c{0} continues on its own once it has acquired the lock, so the other clients come too late")]
    GoesOn(u32),
    #[error("no workload has Redlock over a resource with such fencing")]
    NoWorkload,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct ClientProgress {
    holds: bool,
    has_read: bool,
    paused: bool,
    ended: bool,
    /// The turn in which the client began to ask.
    turn: usize,
}

struct Writer<'a> {
    settings: &'a Settings,
    moves: &'a [Move],
    clients: Vec<ClientProgress>,
    lines: Vec<String>,
}

/// Returns the script for a counterexample, or the reason why there is none.
pub fn script(settings: &Settings, counterexample: &Counterexample) -> Result<Script, NoScript> {
    let clients = vec![ClientProgress::default(); settings.bounds.clients as usize];
    let mut writer = Writer { settings, moves: &counterexample.moves, clients, lines: Vec::new() };
    let workload = writer.workload()?;
    for (turn, (actor, moves)) in counterexample.turns().enumerate() {
        match actor {
            Actor::Client(client) => writer.client(turn, client, moves)?,
            Actor::Environment => writer.environment(moves)?,
        }
    }
    writer.end();
    Ok(Script { workload, nodes: settings.bounds.nodes, file: writer.file(workload) })
}

impl Writer<'_> {
    fn workload(&self) -> Result<&'static str, NoScript> {
        let clients = 0..self.settings.bounds.clients;
        match self.settings.claim {
            Claim::Updates(Fencing::Token) => Ok("redlock-tokens"),
            Claim::Updates(Fencing::TokenReads | Fencing::CompareAndSet) => Err(NoScript::NoWorkload),
            _ if clients.clone().any(|client| self.is_fooled_by_its_clock(client)) => Ok("redlock-wall"),
            _ if clients.clone().any(|client| self.asks(client) && self.is_interrupted(client)) => {
                Ok("redlock-patient")
            }
            _ => Ok("redlock"),
        }
    }

    /// All moves from the client's first request to its acquisition, including those of other actors. Empty if it never
    /// acquires the lock.
    fn acquisition(&self, client: u32) -> &[Move] {
        let starts = |made: &Move| matches!(made.step, Step::Start { client: who, .. } if who == client);
        let acquires = |made: &Move| matches!(made.step, Step::Acquire { client: who, .. } if who == client);
        let range = (self.moves.iter().position(starts), self.moves.iter().position(acquires));
        if let (Some(from), Some(to)) = range { &self.moves[from..=to] } else { &[] }
    }

    fn asks(&self, client: u32) -> bool {
        self.moves.iter().any(|made| made.step.actor() == Actor::Client(client))
    }

    /// True if other moves come between the client's requests, or if it never acquires the lock.
    fn is_interrupted(&self, client: u32) -> bool {
        let acquisition = self.acquisition(client);
        acquisition.is_empty() || acquisition.iter().any(|made| made.step.actor() != Actor::Client(client))
    }

    /// True if the client's requests took a TTL or longer. Its clock did not show that.
    fn is_fooled_by_its_clock(&self, client: u32) -> bool {
        let took = |moves: &[Move]| Some(moves.last()?.time - moves.first()?.time);
        took(self.acquisition(client)).is_some_and(|took| took >= self.settings.bounds.ttl)
    }

    fn client(&mut self, turn: usize, client: u32, moves: &[Move]) -> Result<(), NoScript> {
        let place = client as usize;
        for (number, made) in moves.iter().enumerate() {
            self.why(made);
            if self.clients[place].ended
                && !matches!(made.step, Step::Read { .. } | Step::Write { .. } | Step::Release { .. })
            {
                return Err(NoScript::GoesOn(client));
            }
            match made.step {
                Step::Start { .. } => {
                    self.clients[place].turn = turn;
                    self.start(client, &moves[number..]);
                }
                Step::Set { node, .. } | Step::Taken { node, .. } | Step::Silent { node, .. }
                    if self.clients[place].turn != turn =>
                {
                    self.step(format!("heal {}", held(client, node)));
                }
                Step::Acquire { .. } => {
                    self.clients[place].holds = true;
                    if self.is_interrupted(client) {
                        // If time stands still, no key expires: the client must acquire the lock well before a key could
                        // expire.
                        let soon = if self.moves.iter().all(|made| made.time == 0) { "0.6ttl" } else { "1ttl" };
                        self.step(format!("await client:{client} acquired within {soon}"));
                        self.step(format!("await client:{client} end"));
                        self.clients[place].ended = true;
                    }
                }
                Step::GiveUp { .. } => return Err(NoScript::GivesUp(client)),
                Step::Read { .. } if !self.clients[place].has_read && !self.clients[place].ended => {
                    self.resume(client);
                    self.step(format!("go client:{client} to before-write"));
                    self.clients[place].has_read = true;
                }
                Step::Write { .. } => self.finish(client),
                Step::Release { .. } if !self.clients[place].ended => return Err(NoScript::ReleasesUnused(client)),
                _ => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, client: u32, turn: &[Move]) {
        if !self.is_interrupted(client) {
            let has_read = !matches!(self.settings.claim, Claim::Updates(_))
                || turn.iter().any(|made| matches!(made.step, Step::Read { .. }));
            self.clients[client as usize].has_read = has_read;
            let phase = if has_read { "before-write" } else { "acquired" };
            self.step(format!("start client:{client} to {phase}"));
            return;
        }
        self.step(format!("start client:{client} to acquiring"));
        if self.is_fooled_by_its_clock(client) {
            self.step(format!("clock client:{client} x0.001"));
        }
        let asked_now: BTreeSet<u32> = turn.iter().filter_map(|made| asked(&made.step)).collect();
        let later: Vec<u32> = (0..self.settings.bounds.nodes).filter(|node| !asked_now.contains(node)).collect();
        let steps = |words: &dyn Fn(u32) -> String| later.iter().map(|node| words(*node)).collect::<Vec<_>>();
        for step in steps(&|node| held(client, node)) {
            self.step(step);
        }
        self.step(format!("go client:{client}"));
        for step in steps(&|node| format!("await {} within 1ttl", held(client, node))) {
            self.step(step);
        }
    }

    fn environment(&mut self, moves: &[Move]) -> Result<(), NoScript> {
        let mut ticks = 0;
        for (number, made) in moves.iter().enumerate() {
            self.why(made);
            match made.step {
                Step::Tick { .. } => {
                    ticks += 1;
                    if !moves.get(number + 1).is_some_and(|next| matches!(next.step, Step::Tick { .. })) {
                        self.wait(std::mem::take(&mut ticks));
                    }
                }
                Step::ClockAdvances { client, .. } => return Err(NoScript::ClockCatchesUp(client)),
                Step::Crash { node, .. } => self.step(format!("kill node:{node}")),
                Step::Restart { node } => self.step(format!("heal kill node:{node}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets time pass while holders do nothing.
    fn wait(&mut self, ticks: u32) {
        for client in 0..self.clients.len() {
            let ClientProgress { holds, paused, ended, .. } = self.clients[client];
            if holds && !paused && !ended {
                self.step(format!("pause client:{client}"));
                self.clients[client].paused = true;
            }
        }
        // A little longer: keys were set a little after the previous step began.
        let ttls = f64::from(ticks) / f64::from(self.settings.bounds.ttl) + 0.1;
        let ttls = format!("{ttls:.2}");
        self.step(format!("wait {}ttl", ttls.trim_end_matches('0').trim_end_matches('.')));
    }

    fn resume(&mut self, client: u32) {
        if std::mem::take(&mut self.clients[client as usize].paused) {
            self.step(format!("heal pause client:{client}"));
        }
    }

    /// The client writes and releases, unless it already did.
    fn finish(&mut self, client: u32) {
        if std::mem::replace(&mut self.clients[client as usize].ended, true) {
            return;
        }
        self.resume(client);
        self.step(format!("go client:{client}"));
        self.step(format!("await client:{client} end"));
    }

    /// Lets the remaining holders go on, the latest first, so that the earlier holders write too late.
    fn end(&mut self) {
        let acquired = self.moves.iter().rev().filter_map(|made| match made.step {
            Step::Acquire { client, .. } => Some(client),
            _ => None,
        });
        let unfinished: Vec<u32> = acquired.filter(|client| !self.clients[*client as usize].ended).collect();
        if !unfinished.is_empty() {
            self.lines.push("  # and each client that holds the lock goes on".to_string());
        }
        unfinished.into_iter().for_each(|client| self.finish(client));
    }

    fn why(&mut self, made: &Move) {
        self.lines.push(format!("  # tick {}: {}", made.time, made.step));
    }

    fn step(&mut self, step: String) {
        self.lines.push(format!("  \"{step}\","));
    }

    fn file(&self, workload: &str) -> String {
        let bounds = self.settings.bounds;
        let steps = self.moves.len();
        let (broken, finds) = match self.settings.claim {
            Claim::MutualExclusion => ("Two clients hold the lock at once", "a second client holds the lock"),
            Claim::Updates(_) => ("An update is lost", "a write replaces a value that its writer has not read"),
        };
        let mut text = format!(
            "# redjepsen run --workload {workload} --nodes {} --nemesis FILE\n\
             description = \"{broken}: the shortest sequence of steps, found by `redjepsen explore`\"\n\
             story = \"\"\"\n\
             After {steps} steps of the model {finds}; no shorter sequence exists. The model: {}, {}, a TTL of {}.\n\
             A comment before each step of the script says what the step does in the model.\"\"\"\n\
             progress = \"any\"\n\
             clients = {}\n",
            bounds.nodes,
            counted(bounds.nodes, "node"),
            counted(bounds.clients, "client"),
            counted(bounds.ttl, "tick"),
            bounds.clients,
        );
        if let Some(Crash { memory, .. }) = self.settings.crash {
            let kept = if memory == Memory::Kept { "always" } else { "none" };
            let _ = write!(
                text,
                "ttl = \"3s\"                # restarting a node takes a while\npersistence = \"{kept}\"\n"
            );
        }
        let _ = write!(text, "script = [\n{}\n]\n\n[expect]\n{workload} = \"violation\"\n", self.lines.join("\n"));
        text
    }
}

fn counted(number: u32, noun: &str) -> String {
    base::words::plural(number.into(), noun)
}

fn held(client: u32, node: u32) -> String {
    format!("hold request SET client:{client} to node:{node}")
}

fn asked(step: &Step) -> Option<u32> {
    match *step {
        Step::Set { node, .. } | Step::Taken { node, .. } | Step::Silent { node, .. } => Some(node),
        _ => None,
    }
}
