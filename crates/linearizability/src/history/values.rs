//! Every value of a history is stored once, under a number, so values compare as numbers.
//!
//! In a file of a million operations nearly every line names a value, so a look-up must neither allocate nor wait for memory.
//! Small integers are their own index. Other values are found by hash. The search for a new value reads one byte of a slot
//! (thanks to hashbrown); a recent value is in a small list of slots.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::Utf8Error;

use hashbrown::HashTable;

/// A value, as its index in [`Values`]. Equal values have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

impl Value {
    /// Nothing: an empty register, an absent token.
    pub const NIL: Value = Value(0);
    /// Unknown.
    pub const UNKNOWN: Value = Value(u32::MAX);
}

/// The content behind the number of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Nothing.
    Nil,
    /// An integer.
    Int(i64),
    /// A text.
    Text(Text),
    /// A list of other values.
    List(Vec<Value>),
}

/// An immutable text. Values are mostly short, and a million allocations would take longer than all other work on them, so a
/// short text is stored inline.
#[derive(Clone)]
pub struct Text(Stored);

#[derive(Clone)]
enum Stored {
    Here(u8, [u8; SHORT]),
    Elsewhere(Box<str>),
}

/// The longest text that fits without making [`Content`] larger than a list does.
const SHORT: usize = 30;

impl Text {
    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Stored::Here(length, bytes) => &bytes[..usize::from(*length)],
            Stored::Elsewhere(text) => text.as_bytes(),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        let mut bytes = [0; SHORT];
        Text(match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Stored::Here(text.len() as u8, bytes)
            }
            None => Stored::Elsewhere(text.into()),
        })
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            // It was valid UTF-8 when it was stored.
            Stored::Here(..) => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Stored::Elsewhere(text) => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_bytes().hash(hasher);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(&**self, out)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(&**self, out)
    }
}

/// Every value of a history, without duplicates.
#[derive(Clone, Debug)]
pub struct Values {
    contents: Vec<Content>,
    slots: HashTable<Slot>,
    /// The slots found last, by the lower bits of their hash. Most values that are read were written recently, and this list
    /// stays in the processor's cache while the slots of a large history do not.
    recent: Vec<Slot>,
    /// Index: an integer from 0. Content: the number of its value, 0 if it has none yet.
    small: Vec<u32>,
}

/// A value that is found by its hash.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    number: u32,
}

/// The number of slots in `recent`; a power of two.
const RECENT: usize = 1 << 12;

/// Integers below this have an entry in [`Values::small`], which therefore takes at most 16 MiB.
const SMALL: u64 = 1 << 22;

impl Default for Values {
    fn default() -> Values {
        Values {
            contents: vec![Content::Nil],
            slots: HashTable::new(),
            recent: vec![Slot { hash: 0, number: 0 }; RECENT],
            small: Vec::new(),
        }
    }
}

/// Two tables are equal if the same values have the same numbers; how values are looked up does not matter.
impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.contents == other.contents
    }
}

impl Values {
    /// The number of a value; a new number if the value is new.
    pub fn intern(&mut self, content: Content) -> Value {
        match &content {
            Content::Nil => Value::NIL,
            Content::Int(number) => self.intern_int(*number),
            Content::Text(text) => match self.find(hash_text(text.as_bytes()), |known| *known == content) {
                Ok(value) => value,
                Err(vacant) => self.add(vacant, content),
            },
            Content::List(items) => match self.find(hash_list(items), |known| *known == content) {
                Ok(value) => value,
                Err(vacant) => self.add(vacant, content),
            },
        }
    }

    /// The number of an integer, without building a [`Content`].
    pub fn intern_int(&mut self, number: i64) -> Value {
        if (number as u64) < SMALL {
            return self.intern_small(number as usize);
        }
        match self.find(hash_int(number), |known| matches!(known, Content::Int(known) if *known == number)) {
            Ok(value) => value,
            Err(vacant) => self.add(vacant, Content::Int(number)),
        }
    }

    fn intern_small(&mut self, number: usize) -> Value {
        if number >= self.small.len() {
            self.small.resize((number + 1).next_power_of_two(), 0);
        }
        if self.small[number] == 0 {
            self.small[number] = self.next_number();
            self.contents.push(Content::Int(number as i64));
        }
        Value(self.small[number])
    }

    /// The number of a text, which is copied only if it is new.
    pub fn intern_text(&mut self, text: &str) -> Value {
        let same = |known: &Content| matches!(known, Content::Text(known) if known.as_bytes() == text.as_bytes());
        match self.find(hash_text(text.as_bytes()), same) {
            Ok(value) => value,
            Err(vacant) => self.add(vacant, Content::Text(text.into())),
        }
    }

    /// Like [`Values::intern_text`], for bytes not yet checked to be UTF-8: only new ones are checked.
    pub fn intern_bytes(&mut self, text: &[u8]) -> Result<Value, Utf8Error> {
        match self.find(hash_text(text), |known| matches!(known, Content::Text(known) if known.as_bytes() == text)) {
            Ok(value) => Ok(value),
            Err(vacant) => Ok(self.add(vacant, Content::Text(str::from_utf8(text)?.into()))),
        }
    }

    /// The number of a list, which is copied only if it is new.
    pub fn intern_list(&mut self, items: &[Value]) -> Value {
        match self.find(hash_list(items), |known| matches!(known, Content::List(known) if known == items)) {
            Ok(value) => value,
            Err(vacant) => self.add(vacant, Content::List(items.to_vec())),
        }
    }

    /// The content behind a number. None for [`Value::UNKNOWN`].
    pub fn content(&self, value: Value) -> Option<&Content> {
        self.contents.get(value.0 as usize)
    }

    /// The value as a number, if it is one.
    pub fn int(&self, value: Value) -> Option<i64> {
        match self.content(value) {
            Some(Content::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// The number of values, including nil.
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Never, since nil is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The value with this hash that `same` accepts. The error has the hash.
    fn find(&mut self, hash: u32, same: impl Fn(&Content) -> bool) -> Result<Value, Vacant> {
        let recent = &mut self.recent[hash as usize & (RECENT - 1)];
        let is_it = |slot: &Slot| slot.hash == hash && same(&self.contents[slot.number as usize]);
        if !is_it(recent) {
            *recent = *self.slots.find(wide(hash), is_it).ok_or(Vacant(hash))?;
        }
        Ok(Value(recent.number))
    }

    fn add(&mut self, Vacant(hash): Vacant, content: Content) -> Value {
        let slot = Slot { hash, number: self.next_number() };
        self.contents.push(content);
        self.recent[hash as usize & (RECENT - 1)] = slot;
        self.slots.insert_unique(wide(hash), slot, |slot| wide(slot.hash));
        Value(slot.number)
    }

    fn next_number(&self) -> u32 {
        let number = self.contents.len() as u32;
        assert!(number < Value::UNKNOWN.0, "more values than fit into 32 bits");
        number
    }
}

/// The hash of a value that is not there.
struct Vacant(u32);

/// The hash in both halves: the table takes the slot from the lowest bits and the tag from the highest.
fn wide(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Multiplies to 128 bits and folds the halves: every bit of the input reaches every bit of the output.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

// Odd constants without a pattern: the digits of pi.
const INT: u64 = 0x243f_6a88_85a3_08d3;
const TEXT: u64 = 0x1319_8a2e_0370_7345;
const LIST: u64 = 0xa409_3822_299f_31d1;

fn hash_int(number: i64) -> u32 {
    fold(number as u64 ^ INT, TEXT) as u32
}

fn hash_text(bytes: &[u8]) -> u32 {
    let mut hash = bytes.len() as u64 ^ TEXT;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        hash = fold(hash ^ word, LIST);
    }
    // The last bytes, less than a word, are combined without a loop, which would be hard to predict.
    let rest = words.remainder();
    let tail = match rest.len() {
        0 => 0,
        1..=3 => u64::from(rest[0]) | u64::from(rest[rest.len() / 2]) << 8 | u64::from(rest[rest.len() - 1]) << 16,
        _ => {
            let low = rest[..4].try_into().map_or(0, u32::from_le_bytes);
            let high = rest[rest.len() - 4..].try_into().map_or(0, u32::from_le_bytes);
            u64::from(low) | u64::from(high) << 32
        }
    };
    fold(hash ^ tail, INT) as u32
}

fn hash_list(items: &[Value]) -> u32 {
    items.iter().fold(items.len() as u64 ^ LIST, |hash, item| fold(hash ^ u64::from(item.0), TEXT)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_number_however_they_come() {
        let mut values = Values::default();
        assert_eq!(values.intern(Content::Nil), Value::NIL);
        let one = values.intern_int(1);
        assert_eq!(values.intern(Content::Int(1)), one);
        let text = values.intern_text("1");
        assert_ne!(one, text);
        assert_eq!(values.intern(Content::Text("1".into())), text);
        let list = values.intern_list(&[one, text]);
        assert_eq!(values.intern(Content::List(vec![one, text])), list);
        assert_ne!(values.intern_list(&[text, one]), list);
        assert_eq!((values.int(one), values.int(text), values.len()), (Some(1), None, 5));
        assert_eq!(values.content(Value::UNKNOWN), None);
    }

    #[test]
    fn texts_of_any_length_are_kept_whole() {
        let long = "a text with an ö, longer than what fits".repeat(2);
        for end in (0..long.len()).filter(|end| long.is_char_boundary(*end)) {
            let (text, mut values) = (&long[..end], Values::default());
            let value = values.intern_text(text);
            assert_eq!(values.intern_bytes(text.as_bytes()), Ok(value));
            assert_eq!(values.intern(Content::Text(text.into())), value);
            assert!(matches!(values.content(value), Some(Content::Text(kept)) if &**kept == text), "{text}");
        }
        assert!(Values::default().intern_bytes(b"\xff").is_err());
        assert_eq!(size_of::<Content>(), 32);
    }

    #[test]
    fn values_keep_their_numbers_while_the_table_grows() {
        let mut values = Values::default();
        let numbers: Vec<_> =
            (0..5000).map(|n| (values.intern_int(n * 8 - 7), values.intern_text(&format!("c{n}:{}", n % 7)))).collect();
        assert_eq!(values.len(), 10_001);
        for (n, (int, text)) in numbers.into_iter().enumerate() {
            let n = n as i64;
            assert_eq!(values.intern_int(n * 8 - 7), int);
            assert_eq!(values.intern_text(&format!("c{n}:{}", n % 7)), text);
        }
        assert_eq!(values.len(), 10_001);
    }
}
