//! The end of the stream of changes.

#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    /// The offset of the first byte.
    from: u64,
}

/// The default of Redis.
const KEPT: usize = 1 << 20;

impl Backlog {
    /// Returns an empty backlog that begins at this offset.
    pub fn new(offset: u64) -> Backlog {
        Backlog { bytes: Vec::new(), from: offset }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * KEPT {
            let dropped = self.bytes.len() - KEPT;
            self.bytes.drain(..dropped);
            self.from += dropped as u64;
        }
    }

    /// Returns the stream after this offset; None if a part of it is gone or has not come yet.
    pub fn since(&self, offset: u64) -> Option<&[u8]> {
        let skipped = usize::try_from(offset.checked_sub(self.from)?).ok()?;
        self.bytes.get(skipped..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_an_offset_is_there_or_not() {
        let mut backlog = Backlog::new(100);
        backlog.push(b"abc");
        assert_eq!(backlog.since(101), Some(&b"bc"[..]));
        assert_eq!(backlog.since(103), Some(&b""[..]));
        assert_eq!((backlog.since(99), backlog.since(104)), (None, None));
        backlog.push(&vec![0; 2 * KEPT]);
        assert_eq!(backlog.since(101), None);
        assert_eq!(backlog.since(103 + 2 * KEPT as u64), Some(&b""[..]));
    }
}
