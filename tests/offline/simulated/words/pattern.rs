//! Forms of sentences: text with holes such as `{c=who}` for a client, and `[parts]` that may be missing.

use std::collections::HashMap;

/// The texts in the holes, by the holes' names.
pub type Holes = HashMap<&'static str, String>;

enum Part {
    Text(&'static str),
    Hole(char, &'static str),
    Maybe(Vec<Part>),
}

/// The texts in the holes of a form; None if the text does not have this form. Holes by their letter: a client `c`, a time `t`, a
/// length `l`, a value in backticks `v`, a number `n`, a word `w`, any text `x`.
pub fn read(form: &'static str, text: &str) -> Option<Holes> {
    let (parts, rest) = parts(form);
    assert!(rest.is_empty(), "{form}");
    let parts: Vec<&Part> = parts.iter().collect();
    let mut holes = Holes::new();
    follow(&parts, text, &mut holes).then_some(holes)
}

fn parts(mut form: &'static str) -> (Vec<Part>, &'static str) {
    let mut parts = Vec::new();
    loop {
        match form.chars().next() {
            None | Some(']') => return (parts, form),
            Some('[') => {
                let (inner, rest) = self::parts(&form[1..]);
                parts.push(Part::Maybe(inner));
                form = rest.strip_prefix(']').expect("a part ends");
            }
            Some('{') => {
                let (hole, rest) = form[1..].split_once('}').expect("a hole ends");
                let (kind, name) = hole.split_once('=').unwrap_or((hole, ""));
                parts.push(Part::Hole(kind.chars().next().expect("a kind"), name));
                form = rest;
            }
            Some(_) => {
                let end = form.find(['[', ']', '{']).unwrap_or(form.len());
                parts.push(Part::Text(&form[..end]));
                form = &form[end..];
            }
        }
    }
}

fn follow(parts: &[&Part], text: &str, holes: &mut Holes) -> bool {
    let Some((first, rest)) = parts.split_first() else { return text.is_empty() };
    match first {
        Part::Text(expected) => text.strip_prefix(expected).is_some_and(|text| follow(rest, text, holes)),
        Part::Maybe(inner) => {
            let with: Vec<&Part> = inner.iter().chain(rest.iter().copied()).collect();
            follow(&with, text, holes) || follow(rest, text, holes)
        }
        Part::Hole(kind, name) => ends(*kind, text).into_iter().any(|end| {
            let fits = follow(rest, &text[end..], holes);
            if fits && !name.is_empty() {
                holes.insert(name, text[..end].to_string());
            }
            fits
        }),
    }
}

/// The positions where the text of a hole can end.
fn ends(kind: char, text: &str) -> Vec<usize> {
    let while_in = |from: usize, allowed: &dyn Fn(char) -> bool| {
        text[from..].find(|c| !allowed(c)).map_or(text.len(), |end| from + end)
    };
    let digits = |from| while_in(from, &|c| c.is_ascii_digit());
    match kind {
        'c' => match text.strip_prefix('c') {
            Some(_) if digits(1) > 1 => vec![digits(1)],
            _ if text.starts_with("the controller") => vec!["the controller".len()],
            _ if text.starts_with("controller") => vec!["controller".len()],
            _ => vec![],
        },
        'n' => {
            let end = while_in(0, &|c| c.is_ascii_digit() || c == ',');
            [end, end.saturating_sub(1)]
                .into_iter()
                .filter(|end| *end > 0 && !text[..*end].ends_with(','))
                .take(1)
                .collect()
        }
        'w' => vec![while_in(0, &|c| c.is_alphanumeric() || "-_:.".contains(c))]
            .into_iter()
            .flat_map(|end| [end, end.saturating_sub(1)])
            .filter(|end| *end > 0)
            .collect(),
        'v' => text.strip_prefix('`').and_then(|rest| rest.find('`')).map(|end| end + 2).into_iter().collect(),
        't' => {
            let end = while_in(0, &|c| c.is_ascii_digit() || c == '.');
            let is_moment = text[..end].split_once('.').is_some_and(|(_, after)| after.len() == 3);
            (is_moment && text[end..].starts_with(" s")).then_some(end + 2).into_iter().collect()
        }
        'l' => {
            let number = while_in(0, &|c| c.is_ascii_digit() || c == '.');
            let units = [" ms", " min", " s"];
            let Some(unit) = units.iter().find(|unit| number > 0 && text[number..].starts_with(**unit)) else {
                return vec![];
            };
            let end = number + unit.len();
            if *unit != " min" {
                return vec![end];
            }
            let seconds = digits((end + 1).min(text.len()));
            let with = text[seconds..].starts_with(" s").then_some(seconds + 2).filter(|_| seconds > end + 1);
            with.into_iter().chain([end]).collect()
        }
        'x' => text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]).collect(),
        other => panic!("no such hole: {other}"),
    }
}

#[test]
fn forms_have_holes_and_parts_that_may_be_missing() {
    let form = "{c=who} took it at {t=at}[ (for {l=long})][ and read {v=read}].";
    let holes = read(form, "c12 took it at 3.022 s (for 3 min 20 s) and read `c0:1`.").unwrap();
    assert_eq!(
        (&*holes["who"], &*holes["at"], &*holes["long"], &*holes["read"]),
        ("c12", "3.022 s", "3 min 20 s", "`c0:1`")
    );
    assert!(!read(form, "c1 took it at 3.022 s.").unwrap().contains_key("read"));
    for other in
        ["c1 took it at 3.02 s.", "n1 took it at 3.022 s.", "c1 took it at 3.022 s", "c1 took it at 3.022 s (for 1 h)."]
    {
        assert!(read(form, other).is_none(), "{other}");
    }
}
