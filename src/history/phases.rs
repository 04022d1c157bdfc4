//! The phases of one operation, in a quarter of the room that a list of stamps would take: they are most of a long history.
//!
//! What is near the first of them, in time and in the file, is kept as distances from it, without loss. An operation with
//! a stamp that does not fit, such as one that waited for longer than four seconds, keeps them all as they are.

use std::fmt;
use std::ops::Range;

use super::{Phase, PhaseStamp};

/// Stamps of phases, in the order of their events.
#[derive(Clone, Default)]
pub struct Phases {
    /// Index and time of the first one's event.
    first: (u64, u64),
    kept: Kept,
}

#[derive(Clone)]
enum Kept {
    Near(Vec<Near>),
    Far(Vec<PhaseStamp>),
}

/// A stamp near the first one of its operation.
#[derive(Clone, Copy)]
struct Near {
    /// Nanoseconds after the first one.
    received: u32,
    /// By how many nanoseconds the client's stamp is earlier; [`NO_STAMP`] if there is none.
    earlier: i32,
    /// [`NOTHING`] if it was not told, as with the token.
    validity_ms: u32,
    token: u32,
    /// Lines after the first one.
    lines: [u8; 3],
    phase: Phase,
}

const NO_STAMP: i32 = i32::MIN;
const NOTHING: u32 = u32::MAX;

impl Default for Kept {
    fn default() -> Kept {
        Kept::Near(Vec::new())
    }
}

impl Phases {
    pub fn push(&mut self, stamp: PhaseStamp) {
        if self.is_empty() {
            self.first = (stamp.index, stamp.received);
        }
        match &mut self.kept {
            Kept::Far(stamps) => stamps.push(stamp),
            Kept::Near(stamps) => match Near::new(self.first, &stamp) {
                Some(near) => stamps.push(near),
                None => self.kept = Kept::Far(self.iter().chain([stamp]).collect()),
            },
        }
    }

    pub fn len(&self) -> usize {
        match &self.kept {
            Kept::Near(stamps) => stamps.len(),
            Kept::Far(stamps) => stamps.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, place: usize) -> Option<PhaseStamp> {
        (place < self.len()).then(|| self.at(place))
    }

    pub fn iter(&self) -> Stamps<'_> {
        self.range(0..self.len())
    }

    /// Those after the one at this place.
    pub fn after(&self, place: usize) -> Stamps<'_> {
        self.range((place + 1).min(self.len())..self.len())
    }

    /// Those before the one at this place.
    pub fn before(&self, place: usize) -> Stamps<'_> {
        self.range(0..place.min(self.len()))
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

    fn range(&self, places: Range<usize>) -> Stamps<'_> {
        Stamps { phases: self, places }
    }

    fn at(&self, place: usize) -> PhaseStamp {
        match &self.kept {
            Kept::Near(stamps) => stamps[place].stamp(self.first),
            Kept::Far(stamps) => stamps[place],
        }
    }
}

impl Near {
    /// None if it is not near enough.
    fn new((index, received): (u64, u64), stamp: &PhaseStamp) -> Option<Near> {
        let earlier = match stamp.stamped {
            None => NO_STAMP,
            Some(stamped) => {
                let earlier = i128::from(stamp.received) - i128::from(stamped);
                i32::try_from(earlier).ok().filter(|earlier| *earlier != NO_STAMP)?
            }
        };
        let told = |number: Option<u64>| match number {
            None => Some(NOTHING),
            Some(number) => u32::try_from(number).ok().filter(|number| *number != NOTHING),
        };
        let [a, b, c, 0] = u32::try_from(stamp.index.checked_sub(index)?).ok()?.to_le_bytes() else { return None };
        Some(Near {
            received: u32::try_from(stamp.received.checked_sub(received)?).ok()?,
            earlier,
            validity_ms: told(stamp.validity_ms)?,
            token: told(stamp.token)?,
            lines: [a, b, c],
            phase: stamp.phase,
        })
    }

    fn stamp(self, (index, received): (u64, u64)) -> PhaseStamp {
        let received = received + u64::from(self.received);
        let [a, b, c] = self.lines;
        let told = |number: u32| (number != NOTHING).then_some(u64::from(number));
        PhaseStamp {
            index: index + u64::from(u32::from_le_bytes([a, b, c, 0])),
            phase: self.phase,
            received,
            // Both directions fit: it came from an i64.
            stamped: (self.earlier != NO_STAMP).then(|| received.wrapping_sub(self.earlier as u64) as i64),
            token: told(self.token),
            validity_ms: told(self.validity_ms),
        }
    }
}

/// Some phases of an operation, one after the other.
#[derive(Clone)]
pub struct Stamps<'p> {
    phases: &'p Phases,
    places: Range<usize>,
}

impl Iterator for Stamps<'_> {
    type Item = PhaseStamp;

    fn next(&mut self) -> Option<PhaseStamp> {
        self.places.next().map(|place| self.phases.at(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl DoubleEndedIterator for Stamps<'_> {
    fn next_back(&mut self) -> Option<PhaseStamp> {
        self.places.next_back().map(|place| self.phases.at(place))
    }
}

impl ExactSizeIterator for Stamps<'_> {}

impl<'p> IntoIterator for &'p Phases {
    type Item = PhaseStamp;
    type IntoIter = Stamps<'p>;

    fn into_iter(self) -> Stamps<'p> {
        self.iter()
    }
}

impl FromIterator<PhaseStamp> for Phases {
    fn from_iter<I: IntoIterator<Item = PhaseStamp>>(stamps: I) -> Phases {
        let mut phases = Phases::default();
        stamps.into_iter().for_each(|stamp| phases.push(stamp));
        phases
    }
}

impl PartialEq for Phases {
    fn eq(&self, other: &Phases) -> bool {
        self.iter().eq(other.iter())
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
    fn stamps_near_each_other_are_kept_in_little_room_and_come_back_as_they_were() {
        let first = stamp(1 << 40, 1 << 50);
        let near = [
            stamp((1 << 40) + 0xff_ffff, (1 << 50) + 0xffff_ffff),
            PhaseStamp { stamped: None, ..stamp((1 << 40) + 1, 1 << 50) },
            PhaseStamp { stamped: Some((1 << 50) + 20), token: Some(0), validity_ms: Some(0), ..first },
            PhaseStamp { phase: Phase::Released, token: Some(0xffff_fffe), validity_ms: Some(950), ..first },
            PhaseStamp { stamped: Some(-5), ..stamp(1 << 40, 1 << 50) },
        ];
        for stamp in &near[..4] {
            assert!(matches!(kept(&[first, *stamp]).kept, Kept::Near(_)), "{stamp:?}");
        }
        let early =
            [PhaseStamp { stamped: Some(-5), ..stamp(0, 10) }, PhaseStamp { stamped: Some(17), ..stamp(1, 10) }];
        assert!(matches!(kept(&early).kept, Kept::Near(_)));
    }

    #[test]
    fn stamps_far_from_each_other_come_back_as_they_were_too() {
        let first = stamp(7, 1_000);
        for far in [
            stamp(7 + (1 << 24), 1_000),
            stamp(6, 1_000),
            stamp(8, 999),
            stamp(8, 1_000 + (1 << 32)),
            stamp(8, u64::MAX),
            PhaseStamp { stamped: Some(i64::MIN), ..first },
            PhaseStamp { stamped: Some(1_000 + (1 << 31)), ..first },
            PhaseStamp { token: Some(0xffff_ffff), ..first },
            PhaseStamp { validity_ms: Some(u64::MAX), ..first },
        ] {
            assert!(matches!(kept(&[first, far, first]).kept, Kept::Far(_)), "{far:?}");
        }
    }

    #[test]
    fn they_can_be_changed_and_walked_from_both_ends() {
        let mut phases = kept(&[stamp(7, 1_000), stamp(8, 2_000), stamp(9, 3_000)]);
        phases.edit(|stamps| stamps.remove(0));
        assert_eq!(phases, kept(&[stamp(8, 2_000), stamp(9, 3_000)]));
        assert_eq!(phases.iter().rev().map(|stamp| stamp.index).collect::<Vec<_>>(), [9, 8]);
        assert_eq!(phases.after(0).map(|stamp| stamp.index).collect::<Vec<_>>(), [9]);
        assert_eq!(phases.after(5).len() + phases.before(0).len(), 0);
    }
}
