//! A scanner for the lines that make up nearly every JSON history: one flat object, short words, plain numbers.
//!
//! It parses a line completely or not at all. On anything unusual (an escape, a non-ASCII character, a float, a nested object) it
//! gives up, and serde_json parses the line instead. So the meaning of a line never depends on this file; a property test
//! compares the two.
//!
//! It stays because without it the whole way from a file to an answer takes 2.5 times as long. A million rmw operations (2
//! million lines, 216 MB) took 0.35 s of one core's time with it. They took 0.92 s with serde_json into a tree, and 0.88 s with
//! serde_json into borrowed fields.
//!
//! Lines of one file have their fields in the same order, so the scanner remembers the layout of the last line and
//! tries that first ([`LineShape`]).

use super::cursor::{Cursor, Pattern, Scalar};
use super::event::{
    Datum, EventType, FileEvent, NEMESIS, Name, Remark, Second, Token, Written, function, token_of_text,
};
use crate::history::{Value, Values};

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fast<'a> {
    Event(FileEvent<'a, Flat<'a>>),
    /// An action of the nemesis.
    Nemesis,
}

/// A value without nesting; its parts are unchanged from the line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Flat<'a> {
    #[default]
    Absent,
    Scalar(Scalar<'a>),
    Pair(Scalar<'a>, Scalar<'a>),
    /// The inside of a list of scalars, already scanned once.
    Longer(&'a [u8]),
}

/// A field, as its index in [`FIELDS`]; one further index stands for all other fields.
type Field = u8;

const FIELDS: [&[u8]; 8] = [b"index", b"time", b"type", b"process", b"f", b"key", b"value", b"error"];
const OTHER: Field = FIELDS.len() as Field;

/// The fields of the last line in order, each with the text between the previous value and its own value: `,"time":`.
#[derive(Debug, Default)]
pub(super) struct LineShape {
    fields: Vec<(Pattern, Field)>,
}

/// At most this many fields of a line are remembered.
const REMEMBERED: usize = 16;

impl LineShape {
    /// The next field, whether or not the last line had it there. Leaves the cursor before its value.
    #[inline]
    fn next(&mut self, place: usize, cursor: &mut Cursor) -> Option<Field> {
        if let Some((pattern, field)) = self.fields.get(place)
            && cursor.skip_pattern(*pattern)
        {
            return Some(*field);
        }
        self.learn(place, cursor)
    }

    #[cold]
    fn learn(&mut self, place: usize, cursor: &mut Cursor) -> Option<Field> {
        let start = cursor.at();
        cursor.blank();
        cursor.byte(if place == 0 { b'{' } else { b',' })?;
        cursor.blank();
        let name = cursor.string()?;
        // Clojure's keywords may have a colon.
        let name = name.strip_prefix(b":").unwrap_or(name);
        cursor.blank();
        cursor.byte(b':')?;
        cursor.blank();
        let field = FIELDS.iter().position(|known| *known == name).map_or(OTHER, |field| field as Field);
        if place < REMEMBERED {
            self.fields.truncate(place);
            self.fields.push((Pattern::of(cursor.since(start)), field));
        }
        Some(field)
    }
}

/// Parses the first line of `bytes`, or gives up. Returns its content and its length. Bytes after its newline are never parsed,
/// but their presence saves checking for the end at every step.
pub(super) fn scan<'a>(bytes: &'a [u8], shape: &mut LineShape) -> Option<(Fast<'a>, usize)> {
    let mut cursor = Cursor::new(bytes);
    let mut fields = Fields::default();
    let mut place = 0;
    loop {
        let field = shape.next(place, &mut cursor)?;
        place += 1;
        // A duplicate field is an error, but not reported here.
        if field != OTHER && fields.seen & 1 << field != 0 {
            return None;
        }
        fields.seen |= 1_u16 << field;
        match field {
            0 => fields.index = cursor.whole()?,
            1 => fields.time = cursor.whole()?,
            2 => fields.kind = cursor.string()?,
            3 => fields.process = Some(cursor.scalar()?),
            4 => fields.f = cursor.string()?,
            5 => fields.key = Some(cursor.scalar()?),
            6 => fields.value = flat(&mut cursor)?,
            7 => fields.error = flat(&mut cursor)?,
            _ => _ = flat(&mut cursor)?,
        }
        if cursor.skip(b"}") {
            break;
        }
        cursor.blank();
        if cursor.skip(b"}") {
            break;
        }
    }
    cursor.blank();
    if cursor.is_at_end() || cursor.skip(b"\n") { Some((fields.event()?, cursor.at())) } else { None }
}

#[derive(Default)]
struct Fields<'a> {
    /// One bit for each field seen.
    seen: u16,
    index: Option<i64>,
    time: Option<i64>,
    kind: &'a [u8],
    process: Option<Scalar<'a>>,
    f: &'a [u8],
    key: Option<Scalar<'a>>,
    value: Flat<'a>,
    error: Flat<'a>,
}

impl<'a> Fields<'a> {
    #[inline]
    fn event(self) -> Option<Fast<'a>> {
        match self.process {
            Some(Scalar::Text(name)) if name == NEMESIS.as_bytes() => return Some(Fast::Nemesis),
            // Left to the fallback, which handles both spellings.
            Some(Scalar::Text([b':', ..])) => return None,
            _ => {}
        }
        let kind = EventType::of(self.kind)?;
        let process = match self.process? {
            Scalar::Int(number) => Name::Number(number),
            Scalar::Text(name) => Name::Text(str::from_utf8(name).ok()?),
            _ => return None,
        };
        let key = match self.key {
            None | Some(Scalar::Null) => None,
            Some(Scalar::Int(number)) => Some(Name::Number(number)),
            Some(Scalar::Text(name)) => Some(Name::Text(str::from_utf8(name).ok()?)),
            Some(Scalar::Bool) => return None,
        };
        let error = match self.error {
            Flat::Absent | Flat::Scalar(Scalar::Null) => Remark::None,
            Flat::Scalar(Scalar::Text(text)) => {
                Remark::Text(str::from_utf8(text.strip_prefix(b":").unwrap_or(text)).ok()?)
            }
            _ => Remark::Other,
        };
        let f = function(self.f)?;
        let Fields { value, time, index, .. } = self;
        Some(Fast::Event(FileEvent { process, kind, f, key, value, time, index, error }))
    }
}

/// A scalar, or a list of scalars.
fn flat<'a>(cursor: &mut Cursor<'a>) -> Option<Flat<'a>> {
    if !cursor.skip(b"[") {
        return cursor.scalar().map(Flat::Scalar);
    }
    let inside = cursor.at();
    let mut first_two = [Scalar::Null; 2];
    let mut count = 0;
    cursor.blank();
    if cursor.skip(b"]") {
        return Some(Flat::Longer(b""));
    }
    loop {
        cursor.blank();
        let item = cursor.scalar()?;
        if let Some(place) = first_two.get_mut(count) {
            *place = item;
        }
        count += 1;
        cursor.blank();
        if cursor.skip(b"]") {
            break;
        }
        cursor.byte(b',')?;
    }
    Some(if count == 2 {
        Flat::Pair(first_two[0], first_two[1])
    } else {
        let list = cursor.since(inside);
        Flat::Longer(&list[..list.len() - 1])
    })
}

fn intern(scalar: Scalar, values: &mut Values) -> Result<Value, String> {
    match scalar {
        Scalar::Null => Ok(Value::NIL),
        Scalar::Int(number) => Ok(values.intern_int(number)),
        Scalar::Text(text) => values.intern_bytes(text).map_err(|error| error.to_string()),
        Scalar::Bool => Err("a boolean inside a list is not a value; expected text, whole numbers or null".into()),
    }
}

impl Written for Flat<'_> {
    fn read(&self, values: &mut Values, items: &mut Vec<Value>) -> Result<Datum, String> {
        Ok(match *self {
            Flat::Absent => Datum::Absent,
            Flat::Scalar(Scalar::Null) => Datum::Nil,
            Flat::Scalar(Scalar::Bool) => Datum::Remark,
            Flat::Scalar(scalar) => Datum::One(intern(scalar, values)?),
            Flat::Pair(first, second) => {
                items.push(intern(first, values)?);
                items.push(intern(second, values)?);
                Datum::List
            }
            Flat::Longer(list) => {
                let mut cursor = Cursor::new(list);
                while !cursor.is_at_end() {
                    cursor.blank();
                    let item = cursor.scalar().ok_or("an unreadable list")?;
                    items.push(intern(item, values)?);
                    cursor.blank();
                    cursor.skip(b",");
                }
                Datum::List
            }
        })
    }

    fn token(&self) -> Token {
        match self {
            Flat::Scalar(Scalar::Int(number)) => Ok(Some(*number)),
            Flat::Scalar(Scalar::Text(text)) => str::from_utf8(text).map_or(Ok(None), token_of_text),
            _ => Ok(None),
        }
    }

    fn keyed(&self) -> Option<(Name<'_>, Second)> {
        let Flat::Pair(key, value) = self else { return None };
        let key = match key {
            Scalar::Int(number) => Name::Number(*number),
            Scalar::Text(text) => Name::Text(str::from_utf8(text).ok()?),
            Scalar::Null | Scalar::Bool => return None,
        };
        Some((key, if *value == Scalar::Null { Second::Nil } else { Second::Other }))
    }
}

#[cfg(test)]
#[path = "fast_tests.rs"]
mod tests;
