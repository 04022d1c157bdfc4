//! Numbers for the names of processes and keys.

use std::collections::HashMap;

use super::FIRST_NAMED;
use super::event::Name;
use crate::history::{Content, Value, Values};

#[derive(Default)]
pub(super) struct Processes {
    names: HashMap<String, u32>,
}

impl Processes {
    pub fn number(&mut self, name: Name) -> Result<u32, String> {
        match name {
            Name::Number(number) => {
                u32::try_from(number).ok().filter(|number| *number < FIRST_NAMED).ok_or_else(|| {
                    format!("process {number} is out of range; expected a number from 0 to {}", FIRST_NAMED - 1)
                })
            }
            Name::Text(text) => {
                if let Some(number) = self.names.get(text) {
                    return Ok(*number);
                }
                let number = FIRST_NAMED + self.names.len() as u32;
                self.names.insert(text.to_owned(), number);
                Ok(number)
            }
        }
    }

    /// The display name of a process in messages.
    pub fn name(&self, number: u32) -> String {
        let named = self.names.iter().find(|(_, known)| **known == number);
        named.map_or_else(|| number.to_string(), |(name, _)| format!("`{}`", super::event::clip(name)))
    }

    /// The names; the first is that of process [`FIRST_NAMED`].
    pub fn into_names(self) -> Vec<String> {
        let mut names: Vec<_> = self.names.into_iter().collect();
        names.sort_unstable_by_key(|(_, number)| *number);
        names.into_iter().map(|(name, _)| name).collect()
    }
}

/// The keys in order of appearance; an absent key counts as one key too.
#[derive(Default)]
pub(super) struct Keys {
    names: Values,
    /// Index: the name's number in `names`. Content: the number of that key.
    numbers: Vec<Option<u32>>,
    /// Index: the number of the key. Content: its name in `names`.
    order: Vec<Value>,
}

impl Keys {
    pub fn number(&mut self, name: Option<Name>) -> u32 {
        let name = match name {
            None => Value::NIL,
            Some(Name::Number(number)) => self.names.intern_int(number),
            Some(Name::Text(text)) => self.names.intern_text(text),
        };
        let place = name.0 as usize;
        if place >= self.numbers.len() {
            self.numbers.resize(place + 1, None);
        }
        *self.numbers[place].get_or_insert_with(|| {
            self.order.push(name);
            self.order.len() as u32 - 1
        })
    }

    pub fn into_names(self) -> Vec<String> {
        self.order
            .iter()
            .map(|name| match self.names.content(*name) {
                Some(Content::Text(text)) => text.to_string(),
                Some(Content::Int(number)) => number.to_string(),
                _ => String::new(),
            })
            .collect()
    }
}
