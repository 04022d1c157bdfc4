//! Limits of a search. They are checked often, so the expensive checks run only now and then.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How long a search may run, and how much memory it may use. It reads no clock: the caller decides when to give up.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Called now and then; the search stops once it returns true.
    pub give_up: &'a (dyn Fn() -> bool + Sync),
    /// Roughly how many bytes the configurations of one object may take.
    pub memory_bytes: usize,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { give_up: &|| false, memory_bytes: usize::MAX }
    }
}

/// Why a search stopped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The caller decided to give up.
    GaveUp,
    Memory,
    /// The other search has the answer.
    Raced,
    /// It took the maximum number of steps.
    Steps,
}

/// Data shared by the searches of one object.
#[derive(Default)]
pub struct Shared {
    pub decided: AtomicBool,
    pub breadth_bytes: AtomicUsize,
    pub depth_bytes: AtomicUsize,
    /// Everything before this event was shown to be legal.
    pub furthest: AtomicUsize,
}

const LOOK_EVERY: u32 = 1024;

pub struct Watch<'a> {
    limits: Limits<'a>,
    shared: &'a Shared,
    is_breadth: bool,
    steps: u64,
    until_look: u32,
}

impl<'a> Watch<'a> {
    pub fn new(limits: Limits<'a>, shared: &'a Shared, is_breadth: bool, steps: u64) -> Watch<'a> {
        Watch { limits, shared, is_breadth, steps, until_look: 1 }
    }

    /// Call this at every step.
    pub fn look(&mut self, bytes: usize, furthest: usize) -> Result<(), Stopped> {
        self.until_look -= 1;
        if self.until_look > 0 {
            return Ok(());
        }
        self.until_look = LOOK_EVERY;
        let (mine, other) = match self.is_breadth {
            true => (&self.shared.breadth_bytes, &self.shared.depth_bytes),
            false => (&self.shared.depth_bytes, &self.shared.breadth_bytes),
        };
        mine.store(bytes, Ordering::Relaxed);
        self.shared.furthest.fetch_max(furthest, Ordering::Relaxed);
        if self.shared.decided.load(Ordering::Relaxed) {
            return Err(Stopped::Raced);
        }
        if (self.limits.give_up)() {
            return Err(Stopped::GaveUp);
        }
        if bytes.saturating_add(other.load(Ordering::Relaxed)) > self.limits.memory_bytes {
            mine.store(0, Ordering::Relaxed);
            return Err(Stopped::Memory);
        }
        if self.steps < LOOK_EVERY.into() {
            return Err(Stopped::Steps);
        }
        self.steps -= u64::from(LOOK_EVERY);
        Ok(())
    }
}
