//! The phases of one operation, in a tenth of the room that a list of stamps would take: they are most of a long history.
//!
//! Each is kept as what has changed since the one before, in as few bytes as that takes, without loss.

use std::fmt;
use std::iter::FusedIterator;

use super::{Phase, PhaseStamp};

/// Stamps of phases, in the order of their events.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Phases(Box<[u8]>);

/// Packs the stamps of one operation.
#[derive(Debug)]
pub(super) struct Packer {
    bytes: Vec<u8>,
    /// Index and time of the event before.
    before: (u64, u64),
}

/// What a stamp begins with: the phase, and which of these follow.
const PHASE: u8 = 0xf;
const STAMPED: u8 = 0x10;
const TOKEN: u8 = 0x20;
const VALIDITY: u8 = 0x40;

const PHASES: [Phase; 12] = [
    Phase::Acquiring,
    Phase::HalfAcquired,
    Phase::Acquired,
    Phase::Extended,
    Phase::Owned,
    Phase::Read,
    Phase::BeforeWrite,
    Phase::Written,
    Phase::Lost,
    Phase::Releasing,
    Phase::HalfReleased,
    Phase::Released,
];

impl Default for Packer {
    fn default() -> Packer {
        Packer { bytes: Vec::with_capacity(128), before: (0, 0) }
    }
}

impl Packer {
    pub fn push(&mut self, stamp: PhaseStamp) {
        let (index, received) = std::mem::replace(&mut self.before, (stamp.index, stamp.received));
        let flag = |there: bool, flag| if there { flag } else { 0 };
        self.bytes.push(
            stamp.phase as u8
                | flag(stamp.stamped.is_some(), STAMPED)
                | flag(stamp.token.is_some(), TOKEN)
                | flag(stamp.validity_ms.is_some(), VALIDITY),
        );
        self.signed(stamp.index.wrapping_sub(index));
        self.signed(stamp.received.wrapping_sub(received));
        if let Some(stamped) = stamp.stamped {
            self.signed(stamp.received.wrapping_sub(stamped as u64));
        }
        stamp.token.into_iter().chain(stamp.validity_ms).for_each(|number| self.number(number));
    }

    pub fn pack(&self) -> Phases {
        Phases(self.bytes.as_slice().into())
    }

    /// A difference, which is near zero on either side.
    fn signed(&mut self, difference: u64) {
        self.number(difference << 1 ^ ((difference as i64) >> 63) as u64);
    }

    /// Seven bits in each byte, the lowest first; the eighth says that more follow.
    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

impl Phases {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, place: usize) -> Option<PhaseStamp> {
        self.iter().nth(place)
    }

    pub fn iter(&self) -> Stamps<'_> {
        Stamps { rest: &self.0, before: (0, 0), left: usize::MAX }
    }

    /// Those after the one at this place.
    pub fn after(&self, place: usize) -> Stamps<'_> {
        let mut stamps = self.iter();
        stamps.nth(place);
        stamps
    }

    /// Those before the one at this place.
    pub fn before(&self, place: usize) -> Stamps<'_> {
        Stamps { left: place, ..self.iter() }
    }

    /// Changes them as a list.
    pub fn edit<T>(&mut self, change: impl FnOnce(&mut Vec<PhaseStamp>) -> T) -> T {
        let mut stamps = self.iter().collect();
        let changed = change(&mut stamps);
        *self = stamps.into_iter().collect();
        changed
    }

    /// Changes each of them.
    pub fn each(&mut self, change: impl FnMut(&mut PhaseStamp)) {
        self.edit(|stamps| stamps.iter_mut().for_each(change));
    }
}

/// Some phases of an operation, one after the other.
#[derive(Clone)]
pub struct Stamps<'p> {
    rest: &'p [u8],
    /// Index and time of the event before.
    before: (u64, u64),
    /// How many may still come.
    left: usize,
}

impl Stamps<'_> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *byte
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte <= 0x7f {
                return number;
            }
        }
    }

    fn signed(&mut self) -> u64 {
        let number = self.number();
        number >> 1 ^ (number & 1).wrapping_neg()
    }
}

impl Iterator for Stamps<'_> {
    type Item = PhaseStamp;

    fn next(&mut self) -> Option<PhaseStamp> {
        if self.rest.is_empty() {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let head = self.byte();
        let (index, received) = self.before;
        let index = index.wrapping_add(self.signed());
        let received = received.wrapping_add(self.signed());
        self.before = (index, received);
        Some(PhaseStamp {
            index,
            phase: PHASES[usize::from(head & PHASE)],
            received,
            stamped: (head & STAMPED > 0).then(|| received.wrapping_sub(self.signed()) as i64),
            token: (head & TOKEN > 0).then(|| self.number()),
            validity_ms: (head & VALIDITY > 0).then(|| self.number()),
        })
    }
}

impl FusedIterator for Stamps<'_> {}

impl<'p> IntoIterator for &'p Phases {
    type Item = PhaseStamp;
    type IntoIter = Stamps<'p>;

    fn into_iter(self) -> Stamps<'p> {
        self.iter()
    }
}

impl FromIterator<PhaseStamp> for Phases {
    fn from_iter<I: IntoIterator<Item = PhaseStamp>>(stamps: I) -> Phases {
        let mut packer = Packer::default();
        stamps.into_iter().for_each(|stamp| packer.push(stamp));
        packer.pack()
    }
}

impl fmt::Debug for Phases {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(index: u64, received: u64) -> PhaseStamp {
        let stamped = i64::try_from(received).ok().map(|received| received - 20);
        PhaseStamp { index, phase: Phase::Read, received, stamped, token: None, validity_ms: None }
    }

    fn kept(stamps: &[PhaseStamp]) -> Phases {
        let phases: Phases = stamps.iter().copied().collect();
        assert_eq!(phases.iter().collect::<Vec<_>>(), stamps);
        phases
    }

    #[test]
    fn each_phase_comes_back_as_it_was() {
        let stamps: Vec<PhaseStamp> = PHASES.iter().map(|phase| PhaseStamp { phase: *phase, ..stamp(3, 5) }).collect();
        assert!(stamps.iter().enumerate().all(|(place, stamp)| stamp.phase as usize == place));
        // A byte each for the phase, the line, the time and the stamp.
        assert_eq!(kept(&stamps).0.len(), 4 * PHASES.len());
    }

    #[test]
    fn stamps_near_and_far_come_back_as_they_were() {
        let first = stamp(1 << 40, 1 << 50);
        for other in [
            stamp((1 << 40) + 0xff_ffff, (1 << 50) + 0xffff_ffff),
            PhaseStamp { stamped: None, ..stamp((1 << 40) + 1, 1 << 50) },
            PhaseStamp { stamped: Some((1 << 50) + 20), token: Some(0), validity_ms: Some(0), ..first },
            PhaseStamp { phase: Phase::Released, token: Some(u64::MAX), validity_ms: Some(950), ..first },
            PhaseStamp { stamped: Some(-5), ..first },
            PhaseStamp { stamped: Some(i64::MIN), ..first },
            PhaseStamp { stamped: Some(i64::MAX), validity_ms: Some(u64::MAX), ..stamp(0, 0) },
            stamp(6, 1_000),
            stamp(u64::MAX, u64::MAX),
        ] {
            kept(&[first, other, first, stamp(0, 0), other]);
        }
    }

    #[test]
    fn they_can_be_changed_and_walked_in_part() {
        let mut phases = kept(&[stamp(7, 1_000), stamp(8, 2_000), stamp(9, 3_000)]);
        phases.edit(|stamps| stamps.remove(0));
        assert_eq!(phases, kept(&[stamp(8, 2_000), stamp(9, 3_000)]));
        assert_eq!(phases.after(0).map(|stamp| stamp.index).collect::<Vec<_>>(), [9]);
        assert_eq!(phases.before(1).map(|stamp| stamp.index).collect::<Vec<_>>(), [8]);
        assert_eq!(phases.after(5).count() + phases.before(0).count() + Phases::default().iter().count(), 0);
    }
}
