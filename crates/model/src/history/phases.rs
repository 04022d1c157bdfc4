//! The phases of one operation, in a tenth of the memory of a list of stamps. Phases make up most of a long history.
//!
//! Each stamp is stored as its difference from the previous one, without loss and in as few bytes as possible. These are a byte
//! with the phase, a byte with the length of each number, and the numbers.

use std::fmt;
use std::iter::FusedIterator;

use super::{Phase, PhaseStamp};

/// Stamps of phases, in the order of their events. The first two bytes have a bit for each phase that is there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Phases(Box<[u8]>);

/// Packs the stamps of one operation.
#[derive(Debug)]
pub(super) struct Packer {
    bytes: Vec<u8>,
    /// The phases so far, one bit per phase.
    there: u16,
    /// Index and time of the previous event.
    before: (u64, u64),
}

/// The first byte of a stamp: the phase, the optional fields at the end, and in the highest two bits the code of their lengths.
const PHASE: u8 = 0xf;
const TOKEN: u8 = 0x10;
const VALIDITY: u8 = 0x20;

/// The possible lengths in bytes of the line (and the optional fields), the time and the client's stamp; length 0 means no stamp.
const LINES: [u8; 4] = [1, 2, 4, 8];
const TIMES: [u8; 4] = [2, 3, 4, 8];
const STAMPED: [u8; 5] = [0, 2, 3, 4, 8];

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
        let mut bytes = Vec::with_capacity(128);
        bytes.extend([0, 0]);
        Packer { bytes, there: 0, before: (0, 0) }
    }
}

impl Packer {
    pub fn push(&mut self, stamp: PhaseStamp) {
        let (index, received) = std::mem::replace(&mut self.before, (stamp.index, stamp.received));
        self.there |= bit(stamp.phase);
        let flag = |number: Option<u64>, flag| if number.is_some() { flag } else { 0 };
        let told = || stamp.token.into_iter().chain(stamp.validity_ms);
        let long = code(&LINES, told().max().unwrap_or(0));
        let flags = flag(stamp.token, TOKEN) | flag(stamp.validity_ms, VALIDITY) | (long << 6) as u8;
        let line = zigzag(stamp.index.wrapping_sub(index));
        let time = zigzag(stamp.received.wrapping_sub(received));
        let stamped = stamp.stamped.map(|stamped| zigzag(stamp.received.wrapping_sub(stamped as u64)));
        let (lines, times) = (code(&LINES, line), code(&TIMES, time));
        let stamps = stamped.map_or(0, |stamped| 1 + code(&STAMPED[1..], stamped));
        self.bytes.extend([stamp.phase as u8 | flags, (lines | times << 2 | stamps << 4) as u8]);
        self.put(LINES[lines], line);
        self.put(TIMES[times], time);
        self.put(STAMPED[stamps], stamped.unwrap_or(0));
        told().for_each(|number| self.put(LINES[long], number));
    }

    pub fn pack(&mut self) -> Phases {
        if self.there == 0 {
            return Phases::default();
        }
        self.bytes[..2].copy_from_slice(&self.there.to_le_bytes());
        Phases(self.bytes.as_slice().into())
    }

    fn put(&mut self, bytes: u8, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes()[..usize::from(bytes)]);
    }
}

fn bit(phase: Phase) -> u16 {
    1 << phase as u8
}

/// Maps a difference near zero, of either sign, to a number near zero; `unzigzag` reverses it.
fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// The index of the first length that is enough for a number; the last always is.
fn code(bytes: &[u8], number: u64) -> usize {
    let needed = 8 - (number.leading_zeros() / 8) as u8;
    bytes.iter().position(|bytes| *bytes >= needed).unwrap_or(bytes.len() - 1)
}

impl Phases {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, phase: Phase) -> bool {
        self.there() & bit(phase) > 0
    }

    /// The phases that the client reported, one bit per phase.
    fn there(&self) -> u16 {
        self.0.first_chunk().map_or(0, |there| u16::from_le_bytes(*there))
    }

    pub fn get(&self, place: usize) -> Option<PhaseStamp> {
        self.iter().nth(place)
    }

    pub fn iter(&self) -> Stamps<'_> {
        Stamps { rest: self.0.get(2..).unwrap_or_default(), before: (0, 0), left: usize::MAX }
    }

    pub fn after(&self, place: usize) -> Stamps<'_> {
        let mut stamps = self.iter();
        stamps.nth(place);
        stamps
    }

    pub fn before(&self, place: usize) -> Stamps<'_> {
        Stamps { left: place, ..self.iter() }
    }

    pub fn edit<T>(&mut self, change: impl FnOnce(&mut Vec<PhaseStamp>) -> T) -> T {
        let mut stamps = self.iter().collect();
        let changed = change(&mut stamps);
        *self = stamps.into_iter().collect();
        changed
    }

    pub fn each(&mut self, change: impl FnMut(&mut PhaseStamp)) {
        self.edit(|stamps| stamps.iter_mut().for_each(change));
    }
}

/// Some phases of an operation, one after the other.
#[derive(Clone)]
pub struct Stamps<'p> {
    rest: &'p [u8],
    /// Index and time of the previous event.
    before: (u64, u64),
    /// How many stamps may still come.
    left: usize,
}

impl Stamps<'_> {
    /// The number in the next `bytes` bytes, eight at most.
    fn number(&mut self, bytes: u8) -> u64 {
        let (number, rest) = self.rest.split_at(usize::from(bytes).min(self.rest.len()));
        // Reading eight bytes at once, where there are enough, is faster than reading just the needed ones.
        let number = match self.rest.first_chunk() {
            Some(all) if bytes > 0 => u64::from_le_bytes(*all) & (u64::MAX >> (64 - 8 * bytes)),
            _ => number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        };
        self.rest = rest;
        number
    }
}

impl Iterator for Stamps<'_> {
    type Item = PhaseStamp;

    #[inline]
    fn next(&mut self) -> Option<PhaseStamp> {
        let ([head, codes], rest) = self.rest.split_first_chunk()?;
        self.left = self.left.checked_sub(1)?;
        self.rest = rest;
        let (index, received) = self.before;
        let index = index.wrapping_add(unzigzag(self.number(LINES[usize::from(codes & 3)])));
        let received = received.wrapping_add(unzigzag(self.number(TIMES[usize::from(codes >> 2 & 3)])));
        let stamped = STAMPED.get(usize::from(codes >> 4)).copied().filter(|bytes| *bytes > 0);
        self.before = (index, received);
        Some(PhaseStamp {
            index,
            phase: PHASES[usize::from(head & PHASE)],
            received,
            stamped: stamped.map(|bytes| received.wrapping_sub(unzigzag(self.number(bytes))) as i64),
            token: (head & TOKEN > 0).then(|| self.number(LINES[usize::from(head >> 6)])),
            validity_ms: (head & VALIDITY > 0).then(|| self.number(LINES[usize::from(head >> 6)])),
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
        let packed = kept(&stamps);
        assert!(PHASES.iter().all(|phase| packed.has(*phase)) && !kept(&stamps[..1]).has(Phase::Read));
        // For each stamp: the phase, the lengths, a byte for the line, and two each for the time and the stamp.
        assert_eq!(packed.0.len(), 2 + 7 * PHASES.len());
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
