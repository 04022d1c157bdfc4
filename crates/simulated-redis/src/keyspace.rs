//! The keys, their values, and their expiry times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// A table whose order of iteration depends only on the earlier operations.
pub(crate) type Table<V> = IndexMap<Vec<u8>, V, FxBuildHasher>;

/// A key's value, and its expiry in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub value: Vec<u8>,
    pub expires: Option<i64>,
}

impl Entry {
    /// Estimates the memory of the entry and its key, in bytes.
    pub fn size(&self, key: &[u8]) -> usize {
        const OF_A_KEY: usize = 72;
        OF_A_KEY + key.len() + self.value.len()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    keys: Table<Entry>,
    /// The number of keys with an expiry.
    volatile: usize,
    /// Expiry times, the earliest first. Outdated times stay in it until they come first.
    due: BinaryHeap<Reverse<(i64, Vec<u8>)>>,
}

impl Keyspace {
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn volatile(&self) -> usize {
        self.volatile
    }

    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.keys.iter().map(|(key, entry)| (&key[..], entry))
    }

    /// Sets the value and the expiry of a key.
    pub fn set(&mut self, key: &[u8], value: Vec<u8>, expires: Option<i64>) {
        let before = match self.keys.get_mut(key) {
            Some(entry) => std::mem::replace(entry, Entry { value, expires }).expires,
            None => {
                self.keys.insert(key.to_vec(), Entry { value, expires });
                None
            }
        };
        self.note(key, before, expires);
    }

    /// Sets the expiry of a key, if the key exists.
    pub fn expire(&mut self, key: &[u8], expires: Option<i64>) {
        if let Some(entry) = self.keys.get_mut(key) {
            let before = std::mem::replace(&mut entry.expires, expires);
            self.note(key, before, expires);
        }
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.keys.swap_remove(key)?;
        self.volatile -= usize::from(entry.expires.is_some());
        Some(entry)
    }

    pub fn clear(&mut self) {
        *self = Keyspace::default();
    }

    /// Returns the earliest expiry time of a key.
    pub fn next_due(&mut self) -> Option<i64> {
        loop {
            let Reverse((due, key)) = self.due.peek()?;
            if self.keys.get(key).is_some_and(|entry| entry.expires == Some(*due)) {
                return Some(*due);
            }
            self.due.pop();
        }
    }

    /// Returns a key that has expired by now.
    pub fn expired(&mut self, now: i64) -> Option<Vec<u8>> {
        let due = self.next_due()?;
        if now <= due {
            return None;
        }
        self.due.pop().map(|Reverse((_, key))| key)
    }

    /// Estimates the memory of all keys, in bytes.
    pub fn size(&self) -> usize {
        self.keys.iter().map(|(key, entry)| entry.size(key)).sum()
    }

    fn note(&mut self, key: &[u8], before: Option<i64>, now: Option<i64>) {
        self.volatile = self.volatile + usize::from(now.is_some()) - usize::from(before.is_some());
        let Some(due) = now else { return };
        self.due.push(Reverse((due, key.to_vec())));
        if self.due.len() > 2 * self.volatile + 64 {
            let holding = self.keys.iter().filter_map(|(key, entry)| Some(Reverse((entry.expires?, key.clone()))));
            self.due = holding.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn keys_are_due_by_the_time_that_holds() {
        let mut keys = Keyspace::default();
        keys.set(b"a", text("1"), Some(10));
        keys.set(b"b", text("1"), Some(20));
        keys.expire(b"a", Some(30));
        assert_eq!((keys.next_due(), keys.volatile()), (Some(20), 2));
        assert_eq!((keys.expired(20), keys.expired(21)), (None, Some(b"b".to_vec())));
        keys.remove(b"b");
        keys.set(b"a", text("2"), None);
        assert_eq!((keys.next_due(), keys.volatile(), keys.len()), (None, 0, 1));
    }

    #[test]
    fn old_times_do_not_pile_up() {
        let mut keys = Keyspace::default();
        for time in 0..10_000 {
            keys.set(b"a", text("1"), Some(time));
        }
        assert!(keys.due.len() < 100);
        assert_eq!(keys.next_due(), Some(9_999));
    }
}
