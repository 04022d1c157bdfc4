//! A state in 128 bits: small enough to keep tens of millions, and compared in one instruction or two.
//!
//! What a setting does not need takes no bits.

use crate::settings::{CLIENTS, Claim, Clocks, Crash, Fencing, NODES, Restart, Settings, SettingsError};

/// A state. One bit is always set, so that no state is 0.
pub type State = u128;

const MARK: State = 1 << 127;
/// How many bits are left for fields.
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

    /// The state with this number in the field, which must fit.
    pub fn set(self, state: State, number: u32) -> State {
        debug_assert!(number <= self.mask, "{number} does not fit");
        (state & !(State::from(self.mask) << self.shift)) | (State::from(number) << self.shift)
    }
}

/// What is known of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientFields {
    pub phase: Field,
    /// What its clock shows, if that is not the time.
    pub clock: Field,
    /// What its clock showed when it began to ask.
    pub since: Field,
    /// The nodes that said yes, a bit for each.
    pub votes: Field,
    /// The node that it asks next.
    pub next: Field,
    /// Who wrote what it read: 0 nobody, else the client and 1.
    pub seen: Field,
    pub token: Field,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFields {
    /// Whose key it has: 0 nobody's, else the client and 1.
    pub owner: Field,
    /// The tick at which that key may expire.
    pub expiry: Field,
    /// 0 if it is up; else 1, or the tick of its crash and 1 if that matters.
    pub down: Field,
}

/// Where everything is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    pub time: Field,
    pub clients: [ClientFields; *CLIENTS.end() as usize],
    pub nodes: [NodeFields; *NODES.end() as usize],
    /// Who wrote the resource last: 0 nobody, else the client and 1.
    pub register: Field,
    /// How many tokens were given.
    pub tokens: Field,
    /// The greatest token that the resource has seen.
    pub fence: Field,
    /// How many nodes have crashed.
    pub crashes: Field,
    /// Whether an update was lost.
    pub lost: Field,
}

impl Layout {
    pub fn new(settings: &Settings) -> Result<Layout, SettingsError> {
        let bounds = settings.bounds;
        settings.check()?;
        let mut layout = Layout::default();
        let mut used = 0;
        // Overlapping fields of a layout that is too large are never used.
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

    /// Everything is 0.
    pub fn empty(&self) -> State {
        MARK
    }
}
