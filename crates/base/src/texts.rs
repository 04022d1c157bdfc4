//! Fields of files that may have one or several values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that is written as one text, or a list with at least one.
pub fn one_or_more<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<Vec<T>, D::Error> {
    struct OneOrMore<T>(&'static str, PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
            Ok(vec![T::deserialize(text.into_deserializer())?])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
            let values = Vec::deserialize(SeqAccessDeserializer::new(list))?;
            if values.is_empty() {
                return Err(A::Error::custom("an empty list; name at least one"));
            }
            Ok(values)
        }
    }
    deserializer.deserialize_any(OneOrMore(expected, PhantomData))
}
