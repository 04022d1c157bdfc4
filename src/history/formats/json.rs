//! Histories of one JSON object a line: a run's own, or operations with Jepsen's fields.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::fast::{self, Fast, Shape};
use super::input::{Input, Line};
use super::pair::Pairing;
use super::tree::{self, Tree};
use super::{Broken, Loading, Options, at};

/// Adds every line of `input`.
pub(super) fn load(input: &mut Input, loading: &mut Loading, options: &Options) -> Result<(), Broken> {
    let mut shape = Shape::default();
    while let Some(line) = input.next_line()? {
        let Err(reason) = add(&line, &mut shape, &mut loading.pairing, options) else { continue };
        let number = line.number;
        // Our recorder writes whole lines: a last one without its end is what a writer that died left behind.
        if loading.pairing.info_is_no_end && !line.ended {
            loading.truncated_at_line = Some(number);
            return Ok(());
        }
        return Err(at(number, reason));
    }
    Ok(())
}

fn add(line: &Line, shape: &mut Shape, pairing: &mut Pairing, options: &Options) -> Result<(), String> {
    // Tuples of jepsen.independent are the fallback's business.
    if !options.independent {
        match &fast::scan(line.beyond, line.bytes.len(), shape) {
            Some(Fast::Event(event)) => return pairing.add(event, super::short(line.number)),
            Some(Fast::Skip) => {
                pairing.info_is_no_end |= pairing.len() == 0 && is_run(line.bytes);
                return Ok(());
            }
            None => {}
        }
    }
    let text = str::from_utf8(line.bytes).map_err(|error| format!("not UTF-8: {error}"))?;
    if text.trim_ascii().is_empty() {
        return Ok(());
    }
    let tree = parse(text)?;
    pairing.info_is_no_end |= pairing.len() == 0 && is_run_tree(&tree);
    match tree::event(&tree, options)? {
        Some(event) => pairing.add(&event, super::short(line.number)),
        None => Ok(()),
    }
}

/// Whether a line is the header of a run of ours.
pub(super) fn is_run(line: &[u8]) -> bool {
    str::from_utf8(line).is_ok_and(|text| parse(text).is_ok_and(|tree| is_run_tree(&tree)))
}

fn is_run_tree(tree: &Tree) -> bool {
    type_of(tree) == Some("run")
}

/// The `type` of a line, if it is an object that has one.
pub(super) fn type_of<'t>(tree: &'t Tree) -> Option<&'t str> {
    let Tree::Map(entries) = tree else { return None };
    entries.iter().find_map(|entry| match entry {
        (Tree::Text(name), Tree::Text(kind)) if name == "type" => Some(kind.as_ref()),
        _ => None,
    })
}

/// A line as a tree, or what is wrong with it and in which column.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, String> {
    serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        let reason = words.split(" at line ").next().unwrap_or(&words);
        format!("column {}: {reason}", error.column())
    })
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree<'de>, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Nil)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree<'de>, E> {
        Ok(i64::try_from(number).map_or_else(|_| Tree::Odd(number.to_string().into()), Tree::Int))
    }

    /// Floats, and whole numbers beyond 64 bits.
    fn visit_f64<E>(self, number: f64) -> Result<Tree<'de>, E> {
        Ok(Tree::Odd(number.to_string().into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree<'de>, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Tree::Map(map))
    }
}
