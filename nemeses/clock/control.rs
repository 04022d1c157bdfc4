//! The control page: the one place where the agent says what a process's wall clock shall show and how slow its disk
//! shall be, and where the preload library reports what it saw and what was synced.
//!
//! The library (`nemeses/clock/lib.rs`) and the agent (`crates/system/src/faults/clock/`) both compile this file, so it needs only
//! `core`. Both map the same file, shared, and access it only through atomics. Nothing here is ever locked, so either
//! may die at any instruction and the other continues.
//!
//! What the clock shows is a [`State`]. The page keeps the last [`STATES`] of them, with rising generations. The agent
//! fills the oldest cell, then publishes its generation. A reader that was overtaken by that many states meanwhile
//! reads again. So readers never see half a state and never wait for a writer, and a writer that dies half-way has
//! changed nothing.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

/// How the agent finds a [`Process`] in a process's memory.
pub const PROCESS_MAGIC: [u64; 2] = [u64::from_ne_bytes(*b"rj-clock"), u64::from_ne_bytes(*b"-process")];
/// Bytes of the control file: one page.
pub const PAGE_BYTES: usize = 4096;
/// The first eight bytes of a control file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"rj-clock");
/// The version of this layout. The library changes nothing if it finds another one.
pub const VERSION: u64 = 2;
/// How many states the page keeps.
const STATES: u64 = 8;
/// How many synced files can be remembered: as many as fit in the rest of the page.
pub const FILES: usize = 144;
/// The longest middle and jitter of a wait, in µs. More is nonsense, and the library does not wait.
pub const MAX_WAIT_US: u32 = 10_000_000;
/// A rate of 1, in the fixed-point format of [`State::excess`].
#[allow(dead_code, reason = "only the agent makes states")]
pub const ONE: i64 = 1 << RATE_BITS;
const RATE_BITS: u32 = 32;
/// Bits of [`SyncedFile::durable`] that hold a length in bytes; the bits above hold a ticket.
const LENGTH_BITS: u32 = 48;
/// The longest length that can be remembered, in bytes.
pub const MAX_LENGTH: u64 = (1 << LENGTH_BITS) - 1;

/// The page as both sides map it. All zeros except `magic` and `version` means: the true time, nothing read, nothing
/// synced, and a disk as fast as it is.
#[repr(C)]
pub struct Page {
    pub magic: AtomicU64,
    pub version: AtomicU64,
    /// Generation of the current state; increases by one with each state.
    pub generation: AtomicU64,
    unused: [u64; 5],
    cells: [Cell; STATES as usize],
    /// How many times the wall clock was read, by all processes that share this page.
    pub readings: AtomicU64,
    /// The highest generation under which a reading was made.
    pub applied: AtomicU64,
    /// Not 0 if a sync could not be recorded, so that the table below cannot be trusted.
    pub incomplete: AtomicU64,
    pub disk: Disk,
    unused_too: [u64; 3],
    pub files: [SyncedFile; FILES],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

/// What the library knows of the one process that it is loaded into. Unlike the page, which several may share, it lies
/// in that process's own memory, where the agent reads it: `fork` copies it, since the child is the same program, and
/// `exec` begins anew.
#[repr(C)]
pub struct Process {
    pub magic: [u64; 2],
    /// Not 0 once the process has asked the library for the time, of whatever clock, while it had a control page.
    pub asked: AtomicU64,
}

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

/// How slow the disk seems: each sync begins with a wait, whose length is drawn from a range.
#[repr(C)]
pub struct Disk {
    /// The middle of the range, in µs; 0 means no wait. Who waits does so in the kernel, on this word, so that whoever
    /// changes it can end all waits at once.
    pub wait_us: AtomicU32,
    /// How far a wait may be from the middle, in µs.
    pub jitter_us: AtomicU32,
    /// How many syncs have begun to wait, by all processes that share this page.
    pub waited: AtomicU64,
}

/// A file whose content was synced.
#[repr(C)]
pub struct SyncedFile {
    /// The result of [`file_key`]; 0 means free.
    pub key: AtomicU64,
    /// The last ticket drawn for a sync of this file.
    pub tickets: AtomicU64,
    /// Ticket and length of the newest sync that returned: the length that survives a power failure.
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
    /// The clock's rate minus 1, in units of 1 / [`ONE`].
    pub excess: i64,
    /// The same for the time before `base_ns`, so that one rate can follow another without a jump, at a moment that is
    /// still in the future when the state is published.
    pub excess_before: i64,
    /// Added in every other period, starting with the first, in ns.
    pub strobe_ns: i64,
    /// Length of such a period in ns; 0 means no strobe.
    pub period_ns: i64,
}

impl State {
    /// What the clock shows when the true wall clock reads `real_ns`, without the strobe; all in ns.
    ///
    /// Under a rate, elapsed time is taken from `mono_ns` alone: two clocks read one after the other disagree by as
    /// long as the reader was interrupted in between, and a rate of 100 would show a hundred times that. So while the
    /// rate is not 1, the clock does not follow if somebody sets the true clock by hand.
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

    /// What the clock shows when the true one reads `real_ns`, all in ns. CLOCK_MONOTONIC is read only if needed.
    pub fn shown_ns(&self, real_ns: i64, mut mono_ns: impl FnMut() -> i64) -> i64 {
        let steady = self.steady_ns(real_ns, &mut mono_ns);
        if self.period_ns <= 0 {
            return steady;
        }
        // A coarse clock may be a tick behind the moment at which the state was made.
        let elapsed = mono_ns().saturating_sub(self.base_ns).max(0);
        let is_away = elapsed.checked_div(self.period_ns).is_some_and(|periods| periods % 2 == 0);
        if is_away { steady.saturating_add(self.strobe_ns) } else { steady }
    }
}

impl Page {
    /// The current state and its generation.
    pub fn state(&self) -> (u64, State) {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let state = self.cells[(generation % STATES) as usize].load();
            // Pairs with the fence in `publish`: whoever read a value of a later state sees at least the generation
            // before that state here.
            fence(Ordering::Acquire);
            let now = self.generation.load(Ordering::Relaxed);
            // The cell is reused once its generation is STATES - 1 behind.
            if now.wrapping_sub(generation) < STATES - 1 {
                return (generation, state);
            }
        }
    }

    /// Makes a state the current one and returns its generation. One writer at a time.
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

impl Disk {
    /// How long the sync of this number waits, if `wait_us` is the middle of the range; in ns.
    #[allow(dead_code, reason = "only the library waits")]
    pub fn wait_ns(&self, wait_us: u32, number: u64) -> i64 {
        let (middle, jitter) = (i64::from(wait_us), i64::from(self.jitter_us.load(Ordering::Relaxed)));
        let drawn = ((mixed(number) >> 32) as i64).checked_rem(2 * jitter + 1).unwrap_or(jitter);
        (middle - jitter + drawn).max(0) * 1000
    }
}

impl SyncedFile {
    /// Draws a ticket for a sync of this file, before its length is read.
    #[allow(dead_code, reason = "only the library sees syncs")]
    pub fn begin(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// Records that the first `length` bytes are durable, unless a sync that began later has already recorded its own:
    /// two threads may sync one file, and the one that read the length first may return last.
    #[allow(dead_code, reason = "only the library sees syncs")]
    pub fn end(&self, ticket: u64, length: u64) {
        let ticket = ticket as u16;
        let new = (u64::from(ticket) << LENGTH_BITS) | length.min(MAX_LENGTH);
        let mut old = self.durable.load(Ordering::Relaxed);
        // Only overlapping syncs compete, so 16 bits are enough to tell which one began later.
        while old == 0 || (ticket.wrapping_sub((old >> LENGTH_BITS) as u16) as i16) > 0 {
            match self.durable.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => old = other,
            }
        }
    }

    /// How many bytes of the file are durable; `None` if no sync has returned yet.
    #[allow(dead_code, reason = "only the agent asks")]
    pub fn durable_bytes(&self) -> Option<u64> {
        match self.durable.load(Ordering::Acquire) {
            0 => None,
            durable => Some(durable & MAX_LENGTH),
        }
    }
}

/// One number for a file, from its device, inode and creation time (ns since 1970, 0 if the file system does not record
/// it), since inodes are reused as soon as a file is gone. Never 0. Two files of a run are as unlikely to share one as
/// two of a few hundred random 64-bit numbers are to be equal.
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
