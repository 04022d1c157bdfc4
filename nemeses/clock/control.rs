//! The control page: the one place where the agent says what a process's wall clock shall show, and where the preload
//! library says what it saw and what was synced.
//!
//! The library (`nemeses/clock/lib.rs`) and the agent (`src/faults/clock/`) both compile this file, so it needs nothing
//! but `core`. Both map the same file, shared, and reach it through atomics alone: either may die at any instruction
//! and the other goes on, since nothing here is ever locked.
//!
//! What the clock shows is a [`State`]. The page keeps the last [`STATES`] of them under rising generations. The agent
//! fills the oldest one and then publishes its generation; a reader that was overtaken by so many states meanwhile
//! reads again. So readers never see half a state, never wait for a writer, and a writer that dies half-way changed
//! nothing.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

/// Bytes of the control file: one page.
pub const PAGE_BYTES: usize = 4096;
/// The first eight bytes of a control file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"rj-clock");
/// Of this layout. The library changes nothing where it finds another one.
pub const VERSION: u64 = 1;
/// How many states the page keeps.
const STATES: u64 = 8;
/// How many files can be remembered as synced: what is left of the page.
pub const FILES: usize = 144;
/// A rate of 1 in the fixed-point numbers of [`State::excess`].
#[allow(dead_code, reason = "only the agent makes states")]
pub const ONE: i64 = 1 << RATE_BITS;
const RATE_BITS: u32 = 32;
/// The part of [`SyncedFile::durable`] that is a length in bytes; a ticket stands above it.
const LENGTH_BITS: u32 = 48;
/// The longest length that can be remembered, in bytes.
pub const MAX_LENGTH: u64 = (1 << LENGTH_BITS) - 1;

/// The page as both sides map it. All zero but for `magic` and `version` means: the true time, nothing read, nothing
/// synced.
#[repr(C)]
pub struct Page {
    pub magic: AtomicU64,
    pub version: AtomicU64,
    /// Of the state in force; rises by one with each state.
    pub generation: AtomicU64,
    unused: [u64; 5],
    cells: [Cell; STATES as usize],
    /// How many times the wall clock was read, by all processes that have this page.
    pub readings: AtomicU64,
    /// The highest generation that a reading was made under.
    pub applied: AtomicU64,
    /// Not 0 when a sync could not be remembered, so that the table below cannot be trusted.
    pub incomplete: AtomicU64,
    unused_too: [u64; 5],
    pub files: [SyncedFile; FILES],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

/// A [`State`] in the page, on a cache line of its own.
#[repr(C)]
struct Cell {
    base_ns: AtomicI64,
    real_ns: AtomicI64,
    offset_ns: AtomicI64,
    excess: AtomicI64,
    strobe_ns: AtomicI64,
    period_ns: AtomicI64,
    excess_before: AtomicI64,
    unused: u64,
}

/// A file whose content was synced.
#[repr(C)]
pub struct SyncedFile {
    /// What [`file_key`] says; 0: free.
    pub key: AtomicU64,
    /// The last ticket drawn by a sync of this file.
    pub tickets: AtomicU64,
    /// Ticket and length of the newest sync that came back: the length that survives a loss of power.
    pub durable: AtomicU64,
}

/// What a wall clock shows, as a function of the true wall clock and of CLOCK_MONOTONIC. The default is the true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// CLOCK_MONOTONIC when this state begins, in ns.
    pub base_ns: i64,
    /// CLOCK_REALTIME at that moment, in ns.
    pub real_ns: i64,
    /// How far ahead of the true time the clock is at that moment, in ns.
    pub offset_ns: i64,
    /// The clock's rate less 1, in units of 1 / [`ONE`].
    pub excess: i64,
    /// The same for the time until `base_ns`, so that one rate can follow another at a moment that is still to come
    /// when the state is published, without a jump.
    pub excess_before: i64,
    /// Added in every other period, the first one included, in ns.
    pub strobe_ns: i64,
    /// Length of such a period in ns; 0: no strobe.
    pub period_ns: i64,
}

impl State {
    /// What the clock shows when the true wall clock says `real_ns`, without the strobe; all in ns.
    ///
    /// Under a rate this takes the time that went by from `mono_ns` alone, since two clocks that are read one after the
    /// other disagree by as long as the reader was interrupted between them, and a rate of 100 would show a hundred
    /// times that. A true clock that is set by hand meanwhile is therefore not followed while the rate is not 1.
    pub fn steady_ns(&self, real_ns: i64, mono_ns: impl FnOnce() -> i64) -> i64 {
        if self.excess == 0 && self.excess_before == 0 {
            return real_ns.saturating_add(self.offset_ns);
        }
        let elapsed = mono_ns().saturating_sub(self.base_ns);
        let excess = if elapsed < 0 { self.excess_before } else { self.excess };
        let extra = (i128::from(elapsed) * i128::from(excess)) >> RATE_BITS;
        let extra = extra.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        self.real_ns.saturating_add(self.offset_ns).saturating_add(elapsed).saturating_add(extra)
    }

    /// What the clock shows when the true wall clock says `real_ns`, all in ns. CLOCK_MONOTONIC is read only if needed.
    pub fn shown_ns(&self, real_ns: i64, mut mono_ns: impl FnMut() -> i64) -> i64 {
        let steady = self.steady_ns(real_ns, &mut mono_ns);
        if self.period_ns <= 0 {
            return steady;
        }
        // A coarse clock may be a tick behind the moment when the state was made.
        let elapsed = mono_ns().saturating_sub(self.base_ns).max(0);
        let is_away = elapsed.checked_div(self.period_ns).is_some_and(|periods| periods % 2 == 0);
        if is_away { steady.saturating_add(self.strobe_ns) } else { steady }
    }
}

impl Page {
    /// The state in force and its generation.
    pub fn state(&self) -> (u64, State) {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let state = self.cells[(generation % STATES) as usize].load();
            // Pairs with the fence in `publish`: whoever saw a value of a later state sees that state's forerunner
            // here.
            fence(Ordering::Acquire);
            let now = self.generation.load(Ordering::Relaxed);
            // The cell is filled again once its generation is STATES - 1 behind.
            if now.wrapping_sub(generation) < STATES - 1 {
                return (generation, state);
            }
        }
    }

    /// Puts a state in force and returns its generation. One writer at a time.
    #[allow(dead_code, reason = "only the agent writes")]
    pub fn publish(&self, state: &State) -> u64 {
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        fence(Ordering::Release);
        self.cells[(next % STATES) as usize].store(state);
        self.generation.store(next, Ordering::Release);
        next
    }
}

impl Cell {
    fn load(&self) -> State {
        State {
            base_ns: self.base_ns.load(Ordering::Relaxed),
            real_ns: self.real_ns.load(Ordering::Relaxed),
            offset_ns: self.offset_ns.load(Ordering::Relaxed),
            excess: self.excess.load(Ordering::Relaxed),
            strobe_ns: self.strobe_ns.load(Ordering::Relaxed),
            period_ns: self.period_ns.load(Ordering::Relaxed),
            excess_before: self.excess_before.load(Ordering::Relaxed),
        }
    }

    #[allow(dead_code, reason = "only the agent writes")]
    fn store(&self, state: &State) {
        self.base_ns.store(state.base_ns, Ordering::Relaxed);
        self.real_ns.store(state.real_ns, Ordering::Relaxed);
        self.offset_ns.store(state.offset_ns, Ordering::Relaxed);
        self.excess.store(state.excess, Ordering::Relaxed);
        self.strobe_ns.store(state.strobe_ns, Ordering::Relaxed);
        self.period_ns.store(state.period_ns, Ordering::Relaxed);
        self.excess_before.store(state.excess_before, Ordering::Relaxed);
    }
}

impl SyncedFile {
    /// Draws a ticket for a sync of this file; before its length is looked at.
    #[allow(dead_code, reason = "only the library sees syncs")]
    pub fn begin(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// Remembers that the first `length` bytes are durable, unless a sync that began later said so already: two threads
    /// may sync one file, and the one that looked first may come back last.
    #[allow(dead_code, reason = "only the library sees syncs")]
    pub fn end(&self, ticket: u64, length: u64) {
        let ticket = ticket as u16;
        let new = (u64::from(ticket) << LENGTH_BITS) | length.min(MAX_LENGTH);
        let mut old = self.durable.load(Ordering::Relaxed);
        // Only syncs that overlap compete, so that 16 bits are enough to tell who began later.
        while old == 0 || (ticket.wrapping_sub((old >> LENGTH_BITS) as u16) as i16) > 0 {
            match self.durable.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => old = other,
            }
        }
    }

    /// How many bytes of the file are durable; `None` where no sync came back yet.
    #[allow(dead_code, reason = "only the agent asks")]
    pub fn durable_bytes(&self) -> Option<u64> {
        match self.durable.load(Ordering::Acquire) {
            0 => None,
            durable => Some(durable & MAX_LENGTH),
        }
    }
}

/// One number for a file: device, inode, and when it was made (ns since 1970, 0 if the file system does not say), since
/// inodes are used again as soon as a file is gone. Never 0. That two files of a run share one is as likely as that two
/// of a few hundred random 64-bit numbers are equal.
pub fn file_key(device: u64, inode: u64, born_ns: u64) -> u64 {
    let mut key = 0;
    for word in [device, inode, born_ns] {
        key = mixed(key ^ word);
    }
    key.max(1)
}

/// Every bit of the result depends on every bit of the word (the finisher of SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
