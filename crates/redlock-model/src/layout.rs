//! A state in 128 bits: small enough to store tens of millions, and compared in one or two instructions.
//!
//! Fields that the settings do not need take no bits.

use crate::settings::{CLIENTS, Claim, Clocks, Crash, Fencing, NODES, Restart, Settings, SettingsError};

/// A state. One bit is always set, so that no state is 0.
pub type State = u128;

const MARK: State = 1 << 127;
/// The number of bits for fields.
const MOST: u32 = 127;

/// A number inside of a state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Field {
    shift: u32,
    mask: u32,
}

impl Field {
    pub fn get(self, state: State) -> u32 {
        (state >> self.shift) as u32 & self.mask
    }

    /// Sets the field to this number, which must fit.
    pub fn set(self, state: State, number: u32) -> State {
        debug_assert!(number <= self.mask, "{number} does not fit");
        (state & !(State::from(self.mask) << self.shift)) | (State::from(number) << self.shift)
    }
}

/// The fields of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientFields {
    pub phase: Field,
    /// The time on its clock, if that can differ from the true time.
    pub clock: Field,
    /// The time on its clock when it began to ask.
    pub since: Field,
    /// The nodes that said yes, one bit per node.
    pub votes: Field,
    /// The node that it asks next.
    pub next: Field,
    /// The writer of the value that it read: 0 for none, else the client plus 1.
    pub seen: Field,
    pub token: Field,
}

/// The fields of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFields {
    /// The owner of its key: 0 for none, else the client plus 1.
    pub owner: Field,
    /// The tick at which that key may expire.
    pub expiry: Field,
    /// 0 if it is up; else 1, or the tick of its crash plus 1 if that matters.
    pub down: Field,
}

/// The positions of all fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    pub time: Field,
    pub clients: [ClientFields; *CLIENTS.end() as usize],
    pub nodes: [NodeFields; *NODES.end() as usize],
    /// The last writer of the resource: 0 for none, else the client plus 1.
    pub register: Field,
    /// The number of tokens handed out.
    pub tokens: Field,
    /// The greatest token that the resource has seen.
    pub fence: Field,
    /// The number of crashes.
    pub crashes: Field,
    /// 1 if an update was lost.
    pub lost: Field,
}

impl Layout {
    pub fn new(settings: &Settings) -> Result<Layout, SettingsError> {
        let bounds = settings.bounds;
        settings.check()?;
        let mut layout = Layout::default();
        let mut used = 0;
        // If a layout is too large, its fields overlap, but it is never used.
        let mut field = |largest: u32| {
            let bits = u32::BITS - largest.leading_zeros();
            let field = Field { shift: used.min(MOST), mask: ((1u64 << bits) - 1) as u32 };
            used += bits;
            field
        };
        let updates = matches!(settings.claim, Claim::Updates(_));
        let tokens = matches!(settings.claim, Claim::Updates(Fencing::Token | Fencing::TokenReads));
        let or_0 = |needed: bool, largest: u32| if needed { largest } else { 0 };
        layout.time = field(bounds.time);
        for client in &mut layout.clients[..bounds.clients as usize] {
            *client = ClientFields {
                phase: field(if updates { 5 } else { 3 }),
                clock: field(or_0(settings.clocks == Clocks::Lagging, bounds.time)),
                since: field(bounds.time),
                votes: field((1 << bounds.nodes) - 1),
                next: field(bounds.nodes),
                seen: field(or_0(updates, bounds.clients)),
                token: field(or_0(tokens, bounds.clients)),
            };
        }
        let down = match settings.crash {
            None => 0,
            Some(Crash { restart: Restart::AtOnce, .. }) => 1,
            Some(Crash { restart: Restart::AfterTtl, .. }) => bounds.time + 1,
        };
        for node in &mut layout.nodes[..bounds.nodes as usize] {
            *node =
                NodeFields { owner: field(bounds.clients), expiry: field(bounds.time + bounds.ttl), down: field(down) };
        }
        layout.crashes = field(settings.crash.map_or(0, |crash| crash.times));
        layout.register = field(or_0(updates, bounds.clients));
        layout.tokens = field(or_0(tokens, bounds.clients));
        layout.fence = field(or_0(tokens, bounds.clients));
        layout.lost = field(or_0(updates, 1));
        if used > MOST { Err(SettingsError::TooLarge { bits: used, most: MOST }) } else { Ok(layout) }
    }

    /// The state in which every field is 0.
    pub fn empty(&self) -> State {
        MARK
    }
}
