//! Packets that wait until they are due.
//!
//! Packets of one link stay in order, whatever the jitter: reordering is another fault, and TCP would react by slowing down.
//! Memory is bounded: packets without room are lost, as in a router.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::Pair;

/// At most this many bytes may wait in total.
const ROOM: usize = 64 << 20;
/// The approximate overhead of a packet, in bytes.
const OVERHEAD: usize = 128;

#[derive(Default)]
pub(super) struct Queue {
    /// Packets by due time, then by arrival.
    waiting: BTreeMap<(Instant, u64), (Pair, Vec<u8>)>,
    /// When the last packet of a link is due.
    last_due: HashMap<Pair, Instant>,
    came: u64,
    bytes: usize,
}

/// The decision on a link's waiting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They keep waiting, but not beyond this time.
    Wait(Instant),
    Send,
    Lose,
}

impl Queue {
    /// Keeps a packet until `due`, or until earlier packets have left; `false` if the queue has no room for it.
    pub fn push(&mut self, pair: Pair, due: Instant, bytes: &[u8]) -> bool {
        if self.bytes + bytes.len() + OVERHEAD > ROOM {
            return false;
        }
        let last_due = self.last_due.entry(pair).or_insert(due);
        *last_due = due.max(*last_due);
        self.waiting.insert((*last_due, self.came), (pair, bytes.to_vec()));
        self.came += 1;
        self.bytes += bytes.len() + OVERHEAD;
        true
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next packet, if it is due.
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let (_, bytes) = first.remove();
        self.bytes -= bytes.len() + OVERHEAD;
        Some(bytes)
    }

    /// Removes all packets that should no longer wait, and returns those to send at once, in order.
    pub fn sort_out(&mut self, fate: impl Fn(&Pair) -> Fate) -> Vec<Vec<u8>> {
        let mut send = Vec::new();
        for (key, (pair, bytes)) in std::mem::take(&mut self.waiting) {
            match fate(&pair) {
                Fate::Wait(latest) => _ = self.waiting.insert((key.0.min(latest), key.1), (pair, bytes)),
                Fate::Send => send.push(bytes),
                Fate::Lose => {}
            }
        }
        self.bytes = self.waiting.values().map(|(_, bytes)| bytes.len() + OVERHEAD).sum();
        self.last_due.retain(|pair, last_due| match fate(pair) {
            Fate::Wait(latest) => {
                *last_due = latest.min(*last_due);
                true
            }
            Fate::Send | Fate::Lose => false,
        });
        send
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn none_overtakes_another_of_its_way() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let after = |ms| now + Duration::from_millis(ms);
        assert!(queue.push(a_to(2), after(50), b"first"));
        assert!(queue.push(a_to(2), after(40), b"second"));
        assert!(queue.push(a_to(3), after(30), b"other link"));
        assert_eq!(queue.next_due(), Some(after(30)));
        assert_eq!(queue.pop(after(29)), None);
        assert_eq!(queue.pop(after(49)).unwrap(), b"other link");
        assert_eq!(queue.pop(after(49)), None);
        assert_eq!(queue.pop(after(50)).unwrap(), b"first");
        assert_eq!(queue.pop(after(50)).unwrap(), b"second");
        assert_eq!(queue.next_due(), None);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn what_finds_no_room_is_lost_and_the_rest_is_kept() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let large = vec![0; 1 << 20];
        let kept = (0..100).filter(|_| queue.push(a_to(2), now, &large)).count();
        assert_eq!(kept, 63, "64 MiB less what a packet takes besides");
        assert!(queue.pop(now).is_some());
        assert!(queue.push(a_to(2), now, &large));
    }

    #[test]
    fn ways_are_sorted_out_apart() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (to, bytes) in [(2, b"a"), (3, b"b"), (4, b"c"), (2, b"d")] {
            assert!(queue.push(a_to(to), now + Duration::from_secs(9), bytes));
        }
        let fate = |pair: &Pair| match pair.1.octets()[3] {
            2 => Fate::Send,
            3 => Fate::Lose,
            _ => Fate::Wait(now),
        };
        assert_eq!(queue.sort_out(fate), [b"a", b"d"]);
        assert_eq!(queue.pop(now).unwrap(), b"c");
        assert_eq!(queue.bytes, 0);
    }

    fn a_to(last: u8) -> Pair {
        ([10, 0, 0, 1].into(), [10, 0, 0, last].into())
    }
}
