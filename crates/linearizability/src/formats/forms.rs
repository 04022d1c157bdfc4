//! Histories in EDN: one map per operation, either standalone or all in one vector.

use super::edn::{Parser, Stop};
use super::input::Input;
use super::{Broken, FormatOptions, Loading, at, tree};

/// Adds every operation of `input`.
pub(super) fn load(input: &mut Input, loading: &mut Loading, options: &FormatOptions) -> Result<(), Broken> {
    let mut place = ParserPlace::Start;
    loop {
        let mut parser = Parser::new(input.window(), input.is_exhausted());
        match step(&mut parser, &mut place) {
            Ok(FormStep::End) => return Ok(()),
            Ok(FormStep::Bracket) => {
                let taken = parser.at;
                input.take(taken);
            }
            Ok(FormStep::Form(tree, start)) => {
                let (line, _) = input.position(start);
                let added = tree::event(&tree, options).and_then(|event| match event {
                    Some(event) => loading.pairing.add(&event, super::short(line)),
                    None => Ok(()),
                });
                added.map_err(|reason| at(line, reason))?;
                let taken = parser.at;
                input.take(taken);
            }
            Err(Stop::More) => input.widen()?,
            Err(Stop::Bad(reason, place)) => {
                let (line, column) = input.position(place);
                return Err(at(line, format!("column {column}: {reason}")));
            }
        }
    }
}

/// The position of the window's start.
#[derive(Clone, Copy, PartialEq)]
enum ParserPlace {
    Start,
    /// Between standalone operations.
    Free,
    /// In the vector of all operations; this byte closes it.
    Inside(u8),
    /// After that vector.
    After,
}

enum FormStep<'a> {
    /// An operation, and where it starts in the window.
    Form(tree::Tree<'a>, usize),
    /// The start or the end of the vector.
    Bracket,
    End,
}

fn step<'a>(parser: &mut Parser<'a>, place: &mut ParserPlace) -> Result<FormStep<'a>, Stop> {
    let Some(byte) = parser.next_byte(0)? else {
        return match place {
            ParserPlace::Inside(close) => {
                Err(Stop::Bad(format!("the input ends where a `{}` was expected", char::from(*close)), parser.at))
            }
            _ => Ok(FormStep::End),
        };
    };
    let to = match (*place, byte) {
        (ParserPlace::Start, b'[') => ParserPlace::Inside(b']'),
        (ParserPlace::Start, b'(') => ParserPlace::Inside(b')'),
        (ParserPlace::Inside(close), _) if byte == close => ParserPlace::After,
        (ParserPlace::After, _) => return Err(Stop::Bad("something after the end of the history".into(), parser.at)),
        _ => {
            let start = parser.at;
            let form = parser.form(0)?;
            if *place == ParserPlace::Start {
                *place = ParserPlace::Free;
            }
            return Ok(FormStep::Form(form, start));
        }
    };
    *place = to;
    parser.at += 1;
    Ok(FormStep::Bracket)
}
