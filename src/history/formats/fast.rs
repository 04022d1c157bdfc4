//! A scanner for the lines that nearly every JSON history consists of: one flat object, short words, plain numbers.
//!
//! It understands a line completely or not at all. Whatever is unusual (an escape, a letter beyond ASCII, a float, an object
//! inside) makes it give up, and the line goes to serde_json instead, so that what a line means never depends on this file;
//! a property test holds the two against each other.

use super::event::{Datum, Event, Kind, NEMESIS, Name, OTHER_TYPES, Remark, Written, function};
use crate::history::table::{Value, Values};

/// What a line is, where this scanner can tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fast<'a> {
    Event(Event<'a, Flat<'a>>),
    /// A line that is no operation of a client.
    Skip,
}

/// A value without depth: the parts are as in the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flat<'a> {
    Absent,
    Scalar(Scalar<'a>),
    Pair(Scalar<'a>, Scalar<'a>),
    /// The inside of a list of scalars, which the scanner has walked through before.
    Longer(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool,
    Int(i64),
    Text(&'a str),
}

/// Understands a line, or gives up.
pub(super) fn scan(line: &[u8]) -> Option<Fast<'_>> {
    let mut cursor = Cursor { bytes: line, at: 0 };
    let mut fields = Fields::default();
    cursor.blank();
    cursor.byte(b'{')?;
    loop {
        cursor.blank();
        let name = cursor.string()?;
        cursor.blank();
        cursor.byte(b':')?;
        cursor.blank();
        let number = match name {
            "index" => 0,
            "time" => 1,
            "type" => 2,
            "process" => 3,
            "f" => 4,
            "key" => 5,
            "value" => 6,
            "error" => 7,
            _ => {
                cursor.flat()?;
                if cursor.separator()? { continue } else { break }
            }
        };
        // A field that is there twice is an error, which is not told here.
        if fields.seen & 1 << number != 0 {
            return None;
        }
        fields.seen |= 1 << number;
        match number {
            0 => fields.index = cursor.whole()?,
            1 => fields.time = cursor.whole()?,
            2 => fields.kind = cursor.word()?,
            3 => fields.process = Some(cursor.scalar()?),
            4 => fields.f = cursor.word()?,
            5 => fields.key = Some(cursor.scalar()?),
            6 => fields.value = cursor.flat()?,
            _ => fields.error = cursor.flat()?,
        }
        if !cursor.separator()? {
            break;
        }
    }
    cursor.blank();
    if cursor.at != line.len() {
        return None;
    }
    fields.event()
}

struct Fields<'a> {
    /// One bit for each field that was there.
    seen: u8,
    index: Option<i64>,
    time: Option<i64>,
    kind: &'a str,
    process: Option<Scalar<'a>>,
    f: &'a str,
    key: Option<Scalar<'a>>,
    value: Flat<'a>,
    error: Flat<'a>,
}

impl Default for Fields<'_> {
    fn default() -> Self {
        Fields {
            seen: 0,
            index: None,
            time: None,
            kind: "",
            process: None,
            f: "",
            key: None,
            value: Flat::Absent,
            error: Flat::Absent,
        }
    }
}

impl<'a> Fields<'a> {
    fn event(self) -> Option<Fast<'a>> {
        let kind = match Kind::of(self.kind) {
            Some(kind) => kind,
            None if OTHER_TYPES.contains(&self.kind) => return Some(Fast::Skip),
            None => return None,
        };
        let process = match self.process? {
            Scalar::Int(number) => Name::Number(number),
            Scalar::Text(NEMESIS) => return Some(Fast::Skip),
            // A colon before it is left to the fallback, where the two spellings meet.
            Scalar::Text(name) if !name.starts_with(':') => Name::Text(name),
            _ => return None,
        };
        let key = match self.key {
            None | Some(Scalar::Null) => None,
            Some(Scalar::Int(number)) => Some(Name::Number(number)),
            Some(Scalar::Text(name)) => Some(Name::Text(name)),
            Some(Scalar::Bool) => return None,
        };
        let error = match self.error {
            Flat::Absent | Flat::Scalar(Scalar::Null) => Remark::None,
            Flat::Scalar(Scalar::Text(text)) => Remark::Text(text.strip_prefix(':').unwrap_or(text)),
            _ => Remark::Other,
        };
        let f = function(self.f).ok()?;
        let Fields { value, time, index, .. } = self;
        Some(Fast::Event(Event { process, kind, f, key, value, time, index, error }))
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn byte(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Past a comma: true. Past the closing brace: false.
    fn separator(&mut self) -> Option<bool> {
        self.blank();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }

    /// A string of printable ASCII without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.byte(b'"')?;
        let start = self.at;
        loop {
            // Eight bytes at once: the lowest marked byte is the first that is not plain.
            if let Some(word) = self.bytes.get(self.at..self.at + 8) {
                let marks = not_plain(u64::from_le_bytes(word.try_into().ok()?));
                if marks == 0 {
                    self.at += 8;
                    continue;
                }
                self.at += (marks.trailing_zeros() / 8) as usize;
            }
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return str::from_utf8(&self.bytes[start..self.at - 1]).ok();
                }
                b'\\' | ..0x20 | 0x80.. => return None,
                _ => self.at += 1,
            }
        }
    }

    /// A whole number of at most 18 digits, written as JSON wants it.
    fn int(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        self.at += usize::from(negative);
        let start = self.at;
        let mut number = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at - start == 18 {
                return None;
            }
            number = number * 10 + i64::from(digit - b'0');
            self.at += 1;
        }
        let leading_zero = self.bytes.get(start) == Some(&b'0') && (self.at - start > 1 || negative);
        if self.at == start || leading_zero || matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        Some(if negative { -number } else { number })
    }

    fn scalar(&mut self) -> Option<Scalar<'a>> {
        Some(match self.peek()? {
            b'"' => Scalar::Text(self.string()?),
            b'n' => self.literal(b"null", Scalar::Null)?,
            b't' => self.literal(b"true", Scalar::Bool)?,
            b'f' => self.literal(b"false", Scalar::Bool)?,
            _ => Scalar::Int(self.int()?),
        })
    }

    fn literal(&mut self, word: &[u8], scalar: Scalar<'a>) -> Option<Scalar<'a>> {
        self.bytes[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            scalar
        })
    }

    /// A scalar, or a list of scalars.
    fn flat(&mut self) -> Option<Flat<'a>> {
        if self.peek()? != b'[' {
            return self.scalar().map(Flat::Scalar);
        }
        self.at += 1;
        let inside = self.at;
        let mut first_two = [Scalar::Null; 2];
        let mut count = 0;
        self.blank();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(Flat::Longer(&[]));
        }
        loop {
            self.blank();
            let item = self.scalar()?;
            if let Some(place) = first_two.get_mut(count) {
                *place = item;
            }
            count += 1;
            self.blank();
            let byte = self.peek()?;
            self.at += 1;
            match (byte, count) {
                (b',', _) => {}
                (b']', 2) => return Some(Flat::Pair(first_two[0], first_two[1])),
                (b']', _) => return Some(Flat::Longer(&self.bytes[inside..self.at - 1])),
                _ => return None,
            }
        }
    }

    fn whole(&mut self) -> Option<Option<i64>> {
        match self.scalar()? {
            Scalar::Null => Some(None),
            Scalar::Int(number) => Some(Some(number)),
            _ => None,
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        self.string()
    }
}

/// Marks each byte that is a quote, a backslash, a control or not ASCII. Above the lowest mark there may be false ones.
fn not_plain(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    (below(quote, 1) | below(backslash, 1) | below(word, 0x20) | word) & HIGH
}

impl Scalar<'_> {
    fn intern(self, values: &mut Values) -> Result<Value, String> {
        match self {
            Scalar::Null => Ok(Value::NIL),
            Scalar::Int(number) => Ok(values.intern_int(number)),
            Scalar::Text(text) => Ok(values.intern_text(text)),
            Scalar::Bool => Err("a truth inside of a list is no value; expected text, whole numbers or null".into()),
        }
    }
}

impl Written for Flat<'_> {
    fn read(&self, values: &mut Values, items: &mut Vec<Value>) -> Result<Datum, String> {
        Ok(match *self {
            Flat::Absent => Datum::Absent,
            Flat::Scalar(Scalar::Null) => Datum::Nil,
            Flat::Scalar(Scalar::Bool) => Datum::Remark,
            Flat::Scalar(scalar) => Datum::One(scalar.intern(values)?),
            Flat::Pair(first, second) => {
                items.push(first.intern(values)?);
                items.push(second.intern(values)?);
                Datum::List
            }
            Flat::Longer(bytes) => {
                let mut cursor = Cursor { bytes, at: 0 };
                while cursor.at < bytes.len() {
                    cursor.blank();
                    let item = cursor.scalar().ok_or("a list that can't be read")?;
                    items.push(item.intern(values)?);
                    cursor.blank();
                    cursor.at += 1;
                }
                Datum::List
            }
        })
    }

    fn token(&self) -> Option<i64> {
        match self {
            Flat::Scalar(Scalar::Int(number)) => Some(*number),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "fast_tests.rs"]
mod tests;
