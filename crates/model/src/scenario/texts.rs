//! Fields of files that may have one or several values.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// One text, or a list with at least one.
pub fn one_or_more<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<Vec<String>, D::Error> {
    struct OneOrMore(&'static str);
    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_string()])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
            let mut texts = Vec::new();
            while let Some(text) = list.next_element()? {
                texts.push(text);
            }
            if texts.is_empty() {
                return Err(A::Error::custom("an empty list; name at least one"));
            }
            Ok(texts)
        }
    }
    deserializer.deserialize_any(OneOrMore(expected))
}
