//! JSON of any shape in one line of a history. Words and numbers, which make up most of a history, are borrowed from the line. A
//! history of a million operations has ten million lines.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// A word that may be borrowed from its line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Word<'l>(#[serde(borrow)] pub Cow<'l, str>);

#[derive(Debug, Default, PartialEq)]
pub(super) enum Json<'l> {
    #[default]
    Null,
    Number(u64),
    Text(Cow<'l, str>),
    List(Vec<Json<'l>>),
    /// JSON that no field of a history should have.
    Other(Value),
}

impl<'l> From<&'l str> for Word<'l> {
    fn from(text: &'l str) -> Word<'l> {
        Word(text.into())
    }
}

impl<'l> From<&'l str> for Json<'l> {
    fn from(text: &'l str) -> Json<'l> {
        Json::Text(text.into())
    }
}

impl From<u32> for Json<'_> {
    fn from(number: u32) -> Self {
        Json::Number(number.into())
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Number(number) => serializer.serialize_u64(*number),
            Json::Text(text) => serializer.serialize_str(text),
            Json::List(list) => serializer.collect_seq(list),
            Json::Other(other) => other.serialize(serializer),
        }
    }
}

impl<'de: 'l, 'l> Deserialize<'de> for Json<'l> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'l>, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Json<'de>;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Json<'de>, E> {
        Ok(Json::Other(yes.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Other(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json<'de>, E> {
        Ok(Json::Other(number.into()))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.to_string().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Json<'de>, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Json::Other)
    }
}
