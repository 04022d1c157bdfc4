//! The value that the resource stores under a key, as text: the identity of its last update and the amount in a counter or list.
//!
//! Every update has an identity that is unique in the run, such as `c3:17`, and the text always contains the identity of the last
//! update. So a value that a client read names the operation that it followed. Lost updates are reported one by one, not as a
//! difference of sums. A register is the identity itself; a counter is `18 c3:17`. A list is a JSON array of the identities of
//! all appends, `["c1:0","c3:17"]`; the last element is the identity of the last update.
//!
//! The clients build these texts, and the controller reads them at the end.

use crate::history::{Amount, ResourceKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceValue {
    kind: ResourceKind,
    /// The text that was read; `None` if the key was empty.
    text: Option<String>,
    /// The identity of the last update; `None` if there was none.
    pub value: Option<String>,
    /// The amount; `None` for a register, which has none.
    pub amount: Option<Amount>,
}

/// A key has content that no client of this resource writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key holds `{text}`, which is not a {kind}; expected {expected}")]
pub struct NotOfItsKind {
    text: String,
    kind: &'static str,
    expected: &'static str,
}

/// A message quotes at most this many characters of a text.
const SHOWN: usize = 60;

impl ResourceValue {
    /// Parses a value that was read from a key.
    pub fn read(kind: ResourceKind, text: Option<String>) -> Result<ResourceValue, NotOfItsKind> {
        let (value, amount) = match kind {
            ResourceKind::Register | ResourceKind::Replicated | ResourceKind::Row | ResourceKind::None => {
                (text.clone(), None)
            }
            ResourceKind::Counter => {
                let number = text.as_deref().map(|text| {
                    number(text)
                        .ok_or_else(|| not_of_its_kind(text, "counter", "its number and its last update, `18 c3:17`"))
                });
                let (count, value) = number.transpose()?.unzip();
                (value, Some(Amount::Count(count.unwrap_or(0))))
            }
            ResourceKind::List => {
                let elements = text.as_deref().map(|text| {
                    elements(text).ok_or_else(|| {
                        not_of_its_kind(text, "list", "a JSON array of one or more strings, `[\"c1:0\",\"c3:17\"]`")
                    })
                });
                let elements = elements.transpose()?.unwrap_or_default();
                (elements.last().cloned(), Some(Amount::Elements(elements)))
            }
        };
        Ok(ResourceValue { kind, text, value, amount })
    }

    /// The text that was read, for a resource that compares it.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The number of a counter, or the length of a list.
    pub fn count(&self) -> Option<u64> {
        self.amount.as_ref().map(Amount::count)
    }

    /// The text that a holder writes if its update has this identity.
    pub fn updated(&self, new: &str) -> String {
        match (self.kind, &self.amount) {
            (ResourceKind::Counter, Some(amount)) => format!("{} {new}", amount.count().saturating_add(1)),
            (ResourceKind::List, Some(Amount::Elements(before))) => {
                let elements: Vec<&str> = before.iter().map(String::as_str).chain([new]).collect();
                serde_json::to_string(&elements).expect("texts are JSON")
            }
            _ => new.to_string(),
        }
    }
}

fn number(text: &str) -> Option<(u64, String)> {
    let (number, value) = text.split_once(' ')?;
    let number = number.parse().ok().filter(|&number| number > 0)?;
    (!value.is_empty()).then(|| (number, value.to_string()))
}

fn elements(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok().filter(|elements: &Vec<String>| !elements.is_empty())
}

fn not_of_its_kind(text: &str, kind: &'static str, expected: &'static str) -> NotOfItsKind {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    NotOfItsKind { text: shown, kind, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: ResourceKind, text: &str) -> Result<ResourceValue, NotOfItsKind> {
        ResourceValue::read(kind, Some(text.to_string()))
    }

    #[test]
    fn what_is_written_back_is_read_with_its_identity_and_one_more() {
        for (kind, first, second, counts) in [
            (ResourceKind::Register, "c1:0", "c3:17", [None, None, None]),
            (ResourceKind::Row, "c1:0", "c3:17", [None, None, None]),
            (ResourceKind::Counter, "1 c1:0", "2 c3:17", [Some(0), Some(1), Some(2)]),
            (ResourceKind::List, r#"["c1:0"]"#, r#"["c1:0","c3:17"]"#, [Some(0), Some(1), Some(2)]),
        ] {
            let mut stored = ResourceValue::read(kind, None).unwrap();
            assert_eq!((stored.text(), &stored.value, stored.count()), (None, &None, counts[0]), "{kind:?}");
            for (new, text, count) in [("c1:0", first, counts[1]), ("c3:17", second, counts[2])] {
                assert_eq!(stored.updated(new), text);
                stored = read(kind, text).unwrap();
                assert_eq!((stored.text(), stored.value.as_deref(), stored.count()), (Some(text), Some(new), count));
            }
        }
    }

    #[test]
    fn values_of_strangers_survive() {
        for kind in [ResourceKind::Register, ResourceKind::Counter, ResourceKind::List] {
            for value in ["a b", "\"", "\u{1f512}\n", "[1]"] {
                let text = ResourceValue::read(kind, None).unwrap().updated(value);
                assert_eq!(read(kind, &text).unwrap().value.as_deref(), Some(value), "{text}");
            }
        }
        let full = read(ResourceKind::Counter, &format!("{} v", u64::MAX)).unwrap();
        assert_eq!(full.updated("w"), format!("{} w", u64::MAX), "no counter gets there, and none panics");
    }

    #[test]
    fn what_no_client_of_the_resource_writes_is_refused_in_words() {
        for text in ["", "18", "c3:17", "18 ", " c3:17", "-1 c3:17", "0 c3:17", "1.5 c3:17", "99999999999999999999 v"] {
            let error = read(ResourceKind::Counter, text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("`18 c3:17`"), "{error}");
        }
        for text in ["", "c3:17", "[]", "{}", "[1]", "[\"a\",null]", "[\"a\"", "[\"a\"] b"] {
            let error = read(ResourceKind::List, text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("JSON array"), "{error}");
        }
        let long = read(ResourceKind::List, &"ä".repeat(100_000)).unwrap_err().to_string();
        assert!(long.len() < 300 && long.contains('…'), "{long}");
    }
}
