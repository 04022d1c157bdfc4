//! The steps that a state allows, and the states that violate the property.
//!
//! Source of the algorithm: antirez, "Distributed locks with Redis"; of the attack: Kleppmann, "How to do distributed locking"
//! (2016). A client asks the nodes in order, one step per node. If it has a majority in time by its own clock, it has the lock.
//! Otherwise it deletes its keys and may try again. Keys expire by the true time, at their tick or later.
//!
//! Facts that can no longer matter are forgotten at once, such as the expiry of a free node's last key, or a finished client's
//! clock. States that differ only in such facts count as one.

use crate::layout::{ClientFields, Field, Layout, NodeFields, State};
use crate::settings::{Claim, Clocks, Crash, Fencing, Holding, Memory, Restart, Settings, SettingsError};
use crate::step::{Denial, Step};

/// The model for some settings.
#[derive(Clone, Debug)]
pub struct Model {
    settings: Settings,
    layout: Layout,
}

// The phases of a client. `READ` and `WROTE` occur only if updates are checked.
const IDLE: u32 = 0;
const ASKING: u32 = 1;
const HOLDING: u32 = 2;
const DONE: u32 = 3;
const READ: u32 = 4;
const WROTE: u32 = 5;

impl Model {
    /// Fails if the bounds are out of range or a state would not fit.
    pub fn new(settings: Settings) -> Result<Model, SettingsError> {
        Ok(Model { settings, layout: Layout::new(&settings)? })
    }

    /// The state before the first step.
    pub(crate) fn initial(&self) -> State {
        self.layout.empty()
    }

    /// The tick of a state.
    pub(crate) fn time(&self, state: State) -> u32 {
        self.layout.time.get(state)
    }

    /// True if the state violates the property.
    pub(crate) fn is_violated(&self, state: State) -> bool {
        match self.settings.claim {
            Claim::Updates(_) => self.layout.lost.get(state) == 1,
            Claim::MutualExclusion => {
                let holds = |client: &&ClientFields| client.phase.get(state) == HOLDING && self.may_act(state, client);
                self.clients().iter().filter(holds).count() > 1
            }
        }
    }

    /// Calls `visit` with every possible next step.
    pub(crate) fn steps(&self, state: State, mut visit: impl FnMut(Step, State)) {
        let time = self.time(state);
        if time < self.settings.bounds.time {
            visit(Step::Tick { to: time + 1 }, self.layout.time.set(state, time + 1));
        }
        for (node, fields) in (0..).zip(self.nodes()) {
            self.node_steps(state, node, fields, &mut visit);
        }
        for (client, fields) in (0..).zip(self.clients()) {
            self.clock_steps(state, client, fields, &mut visit);
            match fields.phase.get(state) {
                IDLE => {
                    let clock = self.clock(state, fields);
                    let next = fields.since.set(fields.phase.set(state, ASKING), clock);
                    visit(Step::Start { client, clock }, next);
                }
                ASKING => self.asking_steps(state, client, fields, &mut visit),
                DONE => {}
                phase => {
                    if matches!(self.settings.claim, Claim::Updates(_)) && self.may_act(state, fields) {
                        self.resource_step(state, client, fields, phase, &mut visit);
                    }
                    visit(Step::Release { client }, self.released(state, client, fields));
                }
            }
        }
    }

    fn clients(&self) -> &[ClientFields] {
        &self.layout.clients[..self.settings.bounds.clients as usize]
    }

    fn nodes(&self) -> &[NodeFields] {
        &self.layout.nodes[..self.settings.bounds.nodes as usize]
    }

    fn clock(&self, state: State, client: &ClientFields) -> u32 {
        match self.settings.clocks {
            Clocks::Perfect => self.time(state),
            Clocks::Lagging => client.clock.get(state),
        }
    }

    /// True if, by the client's own clock, the TTL since it began to ask is not over.
    fn is_in_time(&self, state: State, client: &ClientFields) -> bool {
        self.clock(state, client) - client.since.get(state) < self.settings.bounds.ttl
    }

    /// True if a client that acquired the lock still acts on it.
    fn may_act(&self, state: State, client: &ClientFields) -> bool {
        self.settings.holding == Holding::UntilRelease || self.is_in_time(state, client)
    }

    fn node_steps(&self, state: State, node: u32, fields: &NodeFields, visit: &mut impl FnMut(Step, State)) {
        let time = self.time(state);
        let owner = fields.owner.get(state);
        if owner != 0 && time >= fields.expiry.get(state) {
            visit(Step::Expire { node, client: owner - 1 }, without_key(state, fields));
        }
        let Some(Crash { memory, restart, times }) = self.settings.crash else { return };
        let crashes = self.layout.crashes;
        match (fields.down.get(state), restart) {
            (0, _) if crashes.get(state) == times => {}
            (0, _) => {
                let down = if restart == Restart::AtOnce { 1 } else { time + 1 };
                let next = fields.down.set(crashes.set(state, crashes.get(state) + 1), down);
                let (next, loses) = match memory {
                    Memory::Lost => (without_key(next, fields), owner.checked_sub(1)),
                    Memory::Kept => (next, None),
                };
                visit(Step::Crash { node, loses }, next);
            }
            (since, Restart::AfterTtl) if time < since - 1 + self.settings.bounds.ttl => {}
            _ => visit(Step::Restart { node }, fields.down.set(state, 0)),
        }
    }

    fn clock_steps(&self, state: State, client: u32, fields: &ClientFields, visit: &mut impl FnMut(Step, State)) {
        let clock = self.clock(state, fields);
        // The clock of a client that is done no longer matters.
        if clock < self.time(state) && fields.phase.get(state) != DONE {
            visit(Step::ClockAdvances { client, clock: clock + 1 }, fields.clock.set(state, clock + 1));
        }
    }

    fn asking_steps(&self, state: State, client: u32, fields: &ClientFields, visit: &mut impl FnMut(Step, State)) {
        let bounds = self.settings.bounds;
        let node = fields.next.get(state);
        let votes = fields.votes.get(state);
        if let Some(asked) = self.nodes().get(node as usize) {
            let next = fields.next.set(state, node + 1);
            let owner = asked.owner.get(state);
            if asked.down.get(state) != 0 {
                visit(Step::Silent { client, node }, next);
            } else if owner == 0 {
                let until = self.time(state) + bounds.ttl;
                let next = asked.expiry.set(asked.owner.set(next, client + 1), until);
                visit(Step::Set { client, node, until }, fields.votes.set(next, votes | 1 << node));
            } else if owner != client + 1 {
                visit(Step::Taken { client, node, by: owner - 1 }, next);
            } else {
                // The node has this client's key of an earlier attempt, which a crash kept it from deleting. Its new attempt has
                // another value, so the node refuses it.
                visit(Step::Taken { client, node, by: client }, next);
            }
            return;
        }
        let (votes, late) = (votes.count_ones(), !self.is_in_time(state, fields));
        let over = fields.next.set(fields.votes.set(state, 0), 0);
        if votes < bounds.majority() || late {
            let next = fields.since.set(fields.phase.set(over, IDLE), 0);
            visit(Step::GiveUp { client, votes, late: late && votes >= bounds.majority() }, self.deleted(next, client));
            return;
        }
        let mut next = fields.phase.set(over, HOLDING);
        if self.settings.holding == Holding::UntilRelease {
            next = fields.since.set(next, 0);
        }
        if self.has_tokens() {
            let token = self.layout.tokens.get(state) + 1;
            next = self.layout.tokens.set(fields.token.set(next, token), token);
        }
        visit(Step::Acquire { client, votes, clock: self.clock(state, fields) }, next);
    }

    fn has_tokens(&self) -> bool {
        matches!(self.settings.claim, Claim::Updates(Fencing::Token | Fencing::TokenReads))
    }

    /// A holder reads, and then writes.
    fn resource_step(
        &self,
        state: State,
        client: u32,
        fields: &ClientFields,
        phase: u32,
        visit: &mut impl FnMut(Step, State),
    ) {
        let Claim::Updates(fencing) = self.settings.claim else { return };
        let Layout { register, fence, lost, .. } = self.layout;
        let (current, seen, token) = (register.get(state), fields.seen.get(state), fields.token.get(state));
        let writer = |number: u32| number.checked_sub(1);
        let is_old = token < fence.get(state);
        match phase {
            HOLDING => {
                let refused = fencing == Fencing::TokenReads && is_old;
                let mut next = fields.phase.set(state, if refused { WROTE } else { READ });
                if !refused {
                    next = fields.seen.set(next, current);
                    next = raise(fence, next, token, fencing == Fencing::TokenReads);
                }
                visit(Step::Read { client, writer: writer(current), refused }, next);
            }
            READ => {
                let denied = match fencing {
                    Fencing::None => None,
                    Fencing::Token | Fencing::TokenReads => is_old.then_some(Denial::OldToken),
                    Fencing::CompareAndSet => (current != seen).then_some(Denial::OtherValue),
                };
                let mut next = fields.seen.set(fields.phase.set(state, WROTE), 0);
                if denied.is_none() {
                    next = register.set(next, client + 1);
                    next = raise(fence, next, token, self.has_tokens());
                    next = lost.set(next, u32::from(current != seen));
                }
                visit(Step::Write { client, seen: writer(seen), replaces: writer(current), denied }, next);
            }
            _ => {}
        }
    }

    fn released(&self, state: State, client: u32, fields: &ClientFields) -> State {
        let ClientFields { phase, clock, since, seen, token, .. } = fields;
        let forgotten = [clock, since, seen, token].into_iter().fold(state, |state, field| field.set(state, 0));
        self.deleted(phase.set(forgotten, DONE), client)
    }

    /// The state after the client has deleted its keys on all nodes that are up.
    fn deleted(&self, state: State, client: u32) -> State {
        let has_it = |node: &&NodeFields| node.owner.get(state) == client + 1 && node.down.get(state) == 0;
        self.nodes().iter().filter(has_it).fold(state, without_key)
    }
}

fn without_key(state: State, node: &NodeFields) -> State {
    node.expiry.set(node.owner.set(state, 0), 0)
}

fn raise(fence: Field, state: State, token: u32, counts: bool) -> State {
    if counts { fence.set(state, token) } else { state }
}
