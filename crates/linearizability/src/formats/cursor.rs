//! Parses plain JSON scalars from a line, and gives up on everything else.

/// A place in a line.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value that is neither a list nor an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool,
    Int(i64),
    /// Printable ASCII.
    Text(&'a [u8]),
}

/// A short text that is compared in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    text: u128,
    mask: u128,
    length: usize,
}

impl Pattern {
    /// A pattern for a text. If the text is too long for one, the pattern matches nowhere.
    pub fn of(text: &[u8]) -> Pattern {
        let mut bytes = [0; 16];
        match bytes.get_mut(..text.len()) {
            Some(start) => start.copy_from_slice(text),
            None => return Pattern { text: 1, mask: 0, length: 0 },
        }
        let mask = u128::MAX.checked_shr(128 - 8 * text.len() as u32).unwrap_or(0);
        Pattern { text: u128::from_le_bytes(bytes), mask, length: text.len() }
    }
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The bytes taken since the cursor was at `start`.
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Moves past a text, if it comes next.
    #[inline]
    pub fn skip(&mut self, text: &[u8]) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(text));
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Moves past a text of up to 16 bytes, if it comes next and is not too near the end of the line.
    #[inline]
    pub fn skip_pattern(&mut self, pattern: Pattern) -> bool {
        let next =
            self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).map(|bytes| u128::from_le_bytes(*bytes));
        let found = next.is_some_and(|next| next & pattern.mask == pattern.text);
        self.at += if found { pattern.length } else { 0 };
        found
    }

    pub fn byte(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    #[inline]
    pub fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// A string of printable ASCII without escapes.
    #[inline]
    pub fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20 | 0x80..))?;
        self.at += length;
        self.byte(b'"')?;
        Some(&rest[..length])
    }

    /// An integer of at most 18 digits, in JSON's syntax.
    #[inline]
    pub fn int(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        self.at += usize::from(negative);
        let start = self.at;
        let leading_zero = self.peek()? == b'0';
        let mut number = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.at - start;
        let refused = digits == 0 || digits > 18 || leading_zero && (digits > 1 || negative);
        if refused || matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        Some(if negative { -number } else { number })
    }

    #[inline(always)]
    pub fn scalar(&mut self) -> Option<Scalar<'a>> {
        match self.peek()? {
            b'"' => self.string().map(Scalar::Text),
            b'n' => self.skip(b"null").then_some(Scalar::Null),
            b't' => self.skip(b"true").then_some(Scalar::Bool),
            b'f' => self.skip(b"false").then_some(Scalar::Bool),
            _ => self.int().map(Scalar::Int),
        }
    }

    /// An integer, or null for None.
    pub fn whole(&mut self) -> Option<Option<i64>> {
        match self.peek()? {
            b'n' => self.skip(b"null").then_some(None),
            _ => self.int().map(Some),
        }
    }
}
