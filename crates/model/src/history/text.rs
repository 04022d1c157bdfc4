//! A text that is stored in place if it is short, as keys, values and error words are. A long history has millions of them, and a
//! heap allocation for each would cost more than the text itself.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An immutable text.
#[derive(Clone)]
pub struct Text(Storage);

/// The longest text that is stored in place. With its length it takes sixteen bytes, even inside an `Option`.
const SHORT: usize = 14;

#[derive(Clone)]
enum Storage {
    Short(u8, [u8; SHORT]),
    /// Boxed twice, since a pointer with a length would leave less room for a short text.
    Long(Box<Box<str>>),
}

impl Text {
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // SAFETY: these bytes are a copy of a whole `str`.
            Storage::Short(length, bytes) => unsafe { std::str::from_utf8_unchecked(&bytes[..usize::from(*length)]) },
            Storage::Long(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(there) => {
                there.copy_from_slice(text.as_bytes());
                Text(Storage::Short(text.len() as u8, bytes))
            }
            None => Text(Storage::Long(Box::new(text.into()))),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        text.as_str().into()
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Text {
        text.as_str().into()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        super::json::Word::deserialize(deserializer).map(|word| word.0[..].into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_come_back_as_they_were_and_take_little_room() {
        for text in ["", "k0", "c12:1234567890", "c12:12345678901", "é€𝄞 äöü", &"long ".repeat(50)] {
            let kept = Text::from(text);
            assert_eq!((kept.as_str(), kept.clone(), kept.len()), (text, Text::from(text.to_string()), text.len()));
            assert_eq!(matches!(kept.0, Storage::Short(..)), text.len() <= SHORT, "{text}");
        }
        assert_ne!(Text::from("c1:2"), Text::from("c1:3"));
        assert_eq!([size_of::<Text>(), size_of::<Option<Text>>()], [16, 16]);
    }
}
