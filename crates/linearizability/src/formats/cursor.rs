//! Parses plain JSON scalars from a line, eight bytes at a time. Gives up on everything else.

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

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

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

    /// The next eight bytes as a number, the first one lowest. None near the end of the line.
    fn word(&self) -> Option<u64> {
        self.bytes.get(self.at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
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
    pub fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let start = self.at;
        loop {
            match self.word() {
                Some(word) => match not_plain(word) {
                    0 => {
                        self.at += 8;
                        continue;
                    }
                    marks => self.at += (marks.trailing_zeros() / 8) as usize,
                },
                None => {
                    while !matches!(self.peek()?, b'"' | b'\\' | ..0x20 | 0x80..) {
                        self.at += 1;
                    }
                }
            }
            self.byte(b'"')?;
            return Some(&self.bytes[start..self.at - 1]);
        }
    }

    /// An integer of at most 18 digits, in JSON's syntax.
    pub fn int(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        self.at += usize::from(negative);
        let start = self.at;
        let leading_zero = self.peek()? == b'0';
        let mut number = 0_u64;
        loop {
            if self.at - start > 18 {
                return None;
            }
            // No branch per digit: their number cannot be predicted.
            let Some(word) = self.word() else {
                while let Some(digit @ b'0'..=b'9') = self.peek() {
                    if self.at - start >= 18 {
                        return None;
                    }
                    number = number * 10 + u64::from(digit - b'0');
                    self.at += 1;
                }
                break;
            };
            let digits = (not_digits(word).trailing_zeros() / 8) as usize;
            self.at += digits;
            if digits == 8 {
                number = number.wrapping_mul(100_000_000).wrapping_add(eight_digits(word));
                continue;
            }
            if digits > 0 {
                // The digits move to the end, zeros before them.
                let (power, shift) = (POWERS[digits], 64 - 8 * digits as u32);
                number = number.wrapping_mul(power).wrapping_add(eight_digits(word << shift | ZEROS >> (8 * digits)));
            }
            break;
        }
        let digits = self.at - start;
        let refused = digits == 0 || digits > 18 || leading_zero && (digits > 1 || negative);
        if refused || matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        let number = number as i64;
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

/// Marks each byte that is a quote, a backslash, a control character or not ASCII. Marks above the lowest may be false.
fn not_plain(word: u64) -> u64 {
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    (below(quote, 1) | below(backslash, 1) | below(word, 0x20) | word) & HIGH
}

const ZEROS: u64 = ONES * b'0' as u64;

const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Marks each byte that is not a digit.
fn not_digits(word: u64) -> u64 {
    let digits = word ^ ZEROS;
    // Values of 10 or more set the highest bit, and nothing carries beyond it.
    (((digits & !HIGH) + (0x80 - 10) * ONES) | digits) & HIGH
}

/// The number that eight digits spell: pairs, then fours, then all, each step in one multiplication.
fn eight_digits(word: u64) -> u64 {
    let digits = word & (0x0f * ONES);
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}
