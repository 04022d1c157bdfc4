//! Every value of a history, once, under a number: comparing values is comparing numbers.
//!
//! A file of a million operations names a value with almost every line, so a look-up must not allocate. The index is an
//! open-addressing table of its own whose slots hold the hash beside the number: a probe rarely
//! leaves the slots, and growing never touches the values.

/// A value, as its number in [`Values`]. Equal values have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

impl Value {
    /// Nothing: an empty register, an absent token.
    pub const NIL: Value = Value(0);
    /// It is not known.
    pub const UNKNOWN: Value = Value(u32::MAX);
}

/// What the numbers of values stand for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Value>),
}

/// Every value of a history, once.
#[derive(Clone, Debug)]
pub struct Values {
    contents: Vec<Content>,
    /// A power of two of slots: the hash in the upper half, the number in the lower; [`EMPTY`] where there is none.
    slots: Vec<u64>,
}

/// No value has the number [`Value::UNKNOWN`], so no filled slot looks like this.
const EMPTY: u64 = u64::MAX;

impl Default for Values {
    fn default() -> Values {
        Values { contents: vec![Content::Nil], slots: vec![EMPTY; 16] }
    }
}

/// Two tables are equal where the same values have the same numbers; how they are found is no part of it.
impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.contents == other.contents
    }
}

impl Values {
    /// The number of a value, a new one if it has not been seen.
    pub fn intern(&mut self, content: Content) -> Value {
        match &content {
            Content::Nil => Value::NIL,
            Content::Int(number) => self.intern_int(*number),
            Content::Text(text) => match self.find(hash_text(text), |known| *known == content) {
                Ok(value) => value,
                Err(vacant) => self.add(vacant, content),
            },
            Content::List(items) => match self.find(hash_list(items), |known| *known == content) {
                Ok(value) => value,
                Err(vacant) => self.add(vacant, content),
            },
        }
    }

    /// The number of a whole number, without a [`Content`] made for it.
    pub fn intern_int(&mut self, number: i64) -> Value {
        match self.find(hash_int(number), |known| matches!(known, Content::Int(known) if *known == number)) {
            Ok(value) => value,
            Err(vacant) => self.add(vacant, Content::Int(number)),
        }
    }

    /// The number of a text, copied only where it is new.
    pub fn intern_text(&mut self, text: &str) -> Value {
        match self.find(hash_text(text), |known| matches!(known, Content::Text(known) if known == text)) {
            Ok(value) => value,
            Err(vacant) => self.add(vacant, Content::Text(text.to_owned())),
        }
    }

    /// The number of a list, copied only where it is new.
    pub fn intern_list(&mut self, items: &[Value]) -> Value {
        match self.find(hash_list(items), |known| matches!(known, Content::List(known) if known == items)) {
            Ok(value) => value,
            Err(vacant) => self.add(vacant, Content::List(items.to_vec())),
        }
    }

    /// What a number stands for; none for [`Value::UNKNOWN`].
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

    pub fn len(&self) -> usize {
        self.contents.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The value with this hash that `same` recognizes, or the vacant slot where it belongs.
    fn find(&self, hash: u32, same: impl Fn(&Content) -> bool) -> Result<Value, Vacant> {
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot == EMPTY {
                return Err(Vacant { place, hash });
            }
            if (slot >> 32) as u32 == hash && same(&self.contents[slot as u32 as usize]) {
                return Ok(Value(slot as u32));
            }
            place = (place + 1) & mask;
        }
    }

    fn add(&mut self, vacant: Vacant, content: Content) -> Value {
        let number = self.contents.len() as u32;
        assert!(number < Value::UNKNOWN.0, "more values than numbers for them");
        self.contents.push(content);
        self.slots[vacant.place] = u64::from(vacant.hash) << 32 | u64::from(number);
        // At most half full: probes stay short, and the slots are small beside the values.
        if self.contents.len() * 2 > self.slots.len() {
            self.grow();
        }
        Value(number)
    }

    fn grow(&mut self) {
        let mut slots = vec![EMPTY; self.slots.len() * 2];
        let mask = slots.len() - 1;
        for &slot in self.slots.iter().filter(|slot| **slot != EMPTY) {
            let mut place = (slot >> 32) as usize & mask;
            while slots[place] != EMPTY {
                place = (place + 1) & mask;
            }
            slots[place] = slot;
        }
        self.slots = slots;
    }
}

/// The slot that a value which is not there would take.
struct Vacant {
    place: usize,
    hash: u32,
}

/// Multiplies to 128 bits and folds the halves: every bit of the input reaches every bit of the output.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

// Odd constants with no pattern: the digits of pi.
const INT: u64 = 0x243f_6a88_85a3_08d3;
const TEXT: u64 = 0x1319_8a2e_0370_7345;
const LIST: u64 = 0xa409_3822_299f_31d1;

fn hash_int(number: i64) -> u32 {
    fold(number as u64 ^ INT, TEXT) as u32
}

fn hash_text(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut hash = bytes.len() as u64 ^ TEXT;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        hash = fold(hash ^ word, LIST);
    }
    // The rest of less than a word, put together without a loop that is hard to predict.
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
