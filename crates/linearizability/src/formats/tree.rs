//! A form of JSON or EDN as a tree, and the event in a map of fields.
//!
//! Both notations lead here, so a history has the same meaning in either. Forms that cannot be part of an operation (a float, a
//! number beyond 64 bits) are kept. They are allowed in unused fields, and refused as values.

use std::borrow::Cow;

use super::FormatOptions;
use super::event::{
    Datum, EventType, FileEvent, NEMESIS, Name, Remark, Second, Token, Written, clip, function, no_token,
    token_of_text, unknown_function, unknown_type,
};
use crate::history::{Value, Values};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Text(Cow<'a, str>),
    /// An EDN keyword without its colon, or a symbol.
    Keyword(&'a str),
    /// A list, a vector or a set.
    List(Vec<Tree<'a>>),
    Map(Vec<(Tree<'a>, Tree<'a>)>),
    Tagged(&'a str, Box<Tree<'a>>),
    /// A form that cannot be a value, in words.
    Odd(Cow<'static, str>),
}

impl<'a> Tree<'a> {
    /// A word in a field: `invoke`, or `:invoke` if the JSON was made from EDN.
    pub fn word(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text.strip_prefix(':').unwrap_or(text)),
            Tree::Keyword(word) => Some(word),
            _ => None,
        }
    }

    pub fn name(&self) -> Option<Name<'_>> {
        match self {
            Tree::Int(number) => Some(Name::Number(*number)),
            Tree::Text(text) => Some(Name::Text(text)),
            Tree::Keyword(word) => Some(Name::Text(word)),
            _ => None,
        }
    }

    fn token(&self) -> Token {
        match self {
            Tree::Int(number) => Ok(Some(*number)),
            Tree::Odd(what) => Err(no_token(what)),
            Tree::Text(text) => token_of_text(text),
            Tree::Map(entries) => {
                let named = |entry: &&(Tree, Tree)| matches!(entry.0.word(), Some("fence" | "token" | "fencing-token"));
                let tokens = entries.iter().filter(named).map(|(_, value)| value.token());
                // The other field may contain a name, which is not a token.
                let first = |one: Token, other| {
                    if one.as_ref().is_ok_and(Option::is_some) || other == Ok(None) { one } else { other }
                };
                tokens.reduce(first).unwrap_or(Ok(None))
            }
            Tree::Tagged(_, tree) => tree.token(),
            _ => Ok(None),
        }
    }
}

/// A value that may be absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TreeValue<'t>(pub Option<&'t Tree<'t>>);

impl Written for TreeValue<'_> {
    fn read(&self, values: &mut Values, items: &mut Vec<Value>) -> Result<Datum, String> {
        Ok(match self.0 {
            None => Datum::Absent,
            Some(Tree::Nil) => Datum::Nil,
            Some(Tree::Bool(_) | Tree::Keyword(_)) => Datum::Remark,
            Some(Tree::List(list)) => {
                for item in list {
                    items.push(intern(item, values)?);
                }
                Datum::List
            }
            Some(tree) => Datum::One(intern(tree, values)?),
        })
    }

    fn token(&self) -> Token {
        self.0.map_or(Ok(None), Tree::token)
    }

    fn keyed(&self) -> Option<(Name<'_>, Second)> {
        let Some(Tree::List(items)) = self.0 else { return None };
        let [key, value] = items.as_slice() else { return None };
        let second = match value {
            Tree::Nil => Second::Nil,
            Tree::List(items) if items.len() == 2 => Second::Pair,
            _ => Second::Other,
        };
        Some((key.name()?, second))
    }
}

fn intern(tree: &Tree, values: &mut Values) -> Result<Value, String> {
    Ok(match tree {
        Tree::Nil => Value::NIL,
        Tree::Int(number) => values.intern_int(*number),
        Tree::Text(text) => values.intern_text(text),
        Tree::List(list) => {
            let items = list.iter().map(|item| intern(item, values)).collect::<Result<Vec<_>, _>>()?;
            values.intern_list(&items)
        }
        other => {
            let what = match other {
                Tree::Bool(truth) => format!("{truth}"),
                Tree::Keyword(word) => format!("the keyword :{}", clip(word)),
                Tree::Map(_) => "a map".to_string(),
                Tree::Tagged(tag, _) => format!("a #{}", clip(tag)),
                Tree::Odd(what) => what.to_string(),
                _ => unreachable!("handled above"),
            };
            return Err(format!(
                "{what} is not a value; expected text, a whole number of 64 bits, null or a list of them"
            ));
        }
    })
}

/// The event in a map of fields. None if it is not an operation of a client.
pub(super) fn event<'t>(
    tree: &'t Tree<'t>,
    options: &FormatOptions,
) -> Result<Option<FileEvent<'t, TreeValue<'t>>>, String> {
    let entries = match tree {
        Tree::Map(entries) => entries,
        Tree::Tagged(_, inner) if matches!(**inner, Tree::Map(_)) => return event(inner, options),
        _ => return Err("expected an operation as a map of its fields".into()),
    };
    let mut fields = Fields::default();
    for (name, value) in entries {
        let Some(name) = name.word() else { continue };
        let field = match name {
            "process" => &mut fields.process,
            "type" => &mut fields.kind,
            "f" => &mut fields.f,
            "key" => &mut fields.key,
            "value" => &mut fields.value,
            "time" => &mut fields.time,
            "index" => &mut fields.index,
            "error" => &mut fields.error,
            _ => continue,
        };
        if field.replace(value).is_some() {
            return Err(format!("field `{name}` twice"));
        }
    }
    fields.event(options)
}

#[derive(Default)]
struct Fields<'t> {
    process: Option<&'t Tree<'t>>,
    kind: Option<&'t Tree<'t>>,
    f: Option<&'t Tree<'t>>,
    key: Option<&'t Tree<'t>>,
    value: Option<&'t Tree<'t>>,
    time: Option<&'t Tree<'t>>,
    index: Option<&'t Tree<'t>>,
    error: Option<&'t Tree<'t>>,
}

impl<'t> Fields<'t> {
    fn event(self, options: &FormatOptions) -> Result<Option<FileEvent<'t, TreeValue<'t>>>, String> {
        if self.process.and_then(Tree::word) == Some(NEMESIS) {
            return Ok(None);
        }
        let kind = word(self.kind, "type")?;
        let kind = EventType::of(kind.as_bytes()).ok_or_else(|| unknown_type(kind))?;
        let process = match self.process {
            None => return Err("missing field `process`".into()),
            Some(tree) => {
                let name = tree.word().map(Name::Text).or_else(|| tree.name());
                name.ok_or("field `process` must be a number or a name")?
            }
        };
        let f = word(self.f, "f")?;
        let f = function(f.as_bytes()).ok_or_else(|| unknown_function(f))?;
        let mut key = match self.key {
            None | Some(Tree::Nil) => None,
            Some(tree) => Some(tree.name().ok_or("field `key` must be a name or a whole number")?),
        };
        let mut value = self.value;
        if key.is_none()
            && let Some((tuple_key, tuple_value)) = value.and_then(|value| tuple(value, options.independent))
        {
            key = Some(tuple_key.name().ok_or("the key of an independent tuple must be a name or a whole number")?);
            value = Some(tuple_value);
        }
        Ok(Some(FileEvent {
            process,
            kind,
            f,
            key,
            value: TreeValue(value),
            time: whole(self.time, "time")?,
            index: whole(self.index, "index")?,
            error: match self.error {
                None | Some(Tree::Nil) => Remark::None,
                Some(tree) => tree.word().map_or(Remark::Other, Remark::Text),
            },
        }))
    }
}

fn word<'t>(field: Option<&'t Tree<'t>>, name: &str) -> Result<&'t str, String> {
    match field {
        None => Err(format!("missing field `{name}`")),
        Some(tree) => tree.word().ok_or_else(|| format!("field `{name}` must be a word")),
    }
}

fn whole(field: Option<&Tree>, name: &str) -> Result<Option<i64>, String> {
    match field {
        None | Some(Tree::Nil) => Ok(None),
        Some(Tree::Int(number)) => Ok(Some(*number)),
        Some(_) => Err(format!("field `{name}` must be a whole number of 64 bits")),
    }
}

/// The parts of a tuple of jepsen.independent: a tagged one, or any pair if the user says that pairs are tuples.
pub(super) fn tuple<'t>(value: &'t Tree<'t>, pairs_are: bool) -> Option<(&'t Tree<'t>, &'t Tree<'t>)> {
    match value {
        Tree::Tagged(tag, inner) if tag.ends_with("Tuple") || tag.ends_with("MapEntry") => match &**inner {
            Tree::Map(entries) => {
                let part = |name| entries.iter().find(|(key, _)| key.word() == Some(name)).map(|(_, value)| value);
                Some((part("key")?, part("value")?))
            }
            inner => tuple(inner, true),
        },
        Tree::List(items) if pairs_are => match items.as_slice() {
            [key, value] => Some((key, value)),
            _ => None,
        },
        _ => None,
    }
}
