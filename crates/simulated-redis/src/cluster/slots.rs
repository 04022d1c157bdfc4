//! Slots of keys, and sets of slots.
//!
//! Source: the Redis Cluster specification.

use std::fmt::Write;

pub(crate) const SLOTS: usize = 16384;

/// Returns the slot of a key: CRC16 (XMODEM) of the key, or of the part between its first braces.
pub(crate) fn slot(key: &[u8]) -> usize {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[open..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open..open + length])
    };
    let crc = tag().unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    });
    usize::from(crc) % SLOTS
}

#[derive(Clone, Debug)]
pub(crate) struct Slots(pub Vec<bool>);

impl Slots {
    pub fn has(&self, key: &[u8]) -> bool {
        self.0[slot(key)]
    }
}

/// First and last of each range of slots.
pub(crate) type Ranges = Vec<(usize, usize)>;

/// The ranges of slots that one node owns.
pub(crate) fn ranges_of(owners: &[Option<usize>], node: usize) -> Ranges {
    let mut ranges = Ranges::new();
    for (slot, _) in owners.iter().enumerate().filter(|(_, owner)| **owner == Some(node)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Writes ranges in the form of `CLUSTER NODES`.
pub(crate) fn text(ranges: &[(usize, usize)]) -> String {
    let mut text = String::new();
    for (first, last) in ranges {
        let space = if text.is_empty() { "" } else { " " };
        let _ = if first == last { write!(text, "{space}{first}") } else { write!(text, "{space}{first}-{last}") };
    }
    text
}

/// The reverse of [`text`].
pub(crate) fn parse(text: &str) -> Ranges {
    let range = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < SLOTS).then_some((first, last))
    };
    text.split(' ').filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_redis_says() {
        // The answers of `CLUSTER KEYSLOT`.
        assert_eq!((slot(b"foo"), slot(b"123456789"), slot(b"")), (12182, 12739, 0));
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
    }

    #[test]
    fn ranges_are_written_and_read() {
        let mut owners = vec![None; SLOTS];
        owners[3..9].fill(Some(1));
        owners[100] = Some(1);
        let ranges = ranges_of(&owners, 1);
        assert_eq!((text(&ranges), parse("3-8 100")), ("3-8 100".to_string(), ranges));
        assert!(parse("9-3 x 20000").is_empty());
    }
}
