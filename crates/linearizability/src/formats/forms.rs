//! Histories in EDN: one map per operation, either standalone or all in one vector.

use super::edn::{Parser, Stop};
use super::input::Input;
use super::{Broken, Loading, Options, at, tree};

/// Adds every operation of `input`.
pub(super) fn load(input: &mut Input, loading: &mut Loading, options: &Options) -> Result<(), Broken> {
    let mut place = Place::Start;
    loop {
        let mut parser = Parser::new(input.window(), input.is_exhausted());
        match step(&mut parser, &mut place) {
            Ok(Step::End) => return Ok(()),
            Ok(Step::Bracket) => {
                let taken = parser.at;
                input.take(taken);
            }
            Ok(Step::Form(tree, start)) => {
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

/// Where the window starts.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Start,
    /// Between standalone operations.
    Free,
    /// In the vector of all operations; this byte closes it.
    Inside(u8),
    /// After that vector.
    After,
}

enum Step<'a> {
    /// An operation, and where it starts in the window.
    Form(tree::Tree<'a>, usize),
    /// The start or the end of the vector.
    Bracket,
    End,
}

fn step<'a>(parser: &mut Parser<'a>, place: &mut Place) -> Result<Step<'a>, Stop> {
    let Some(byte) = parser.next_byte(0)? else {
        return match place {
            Place::Inside(close) => {
                Err(Stop::Bad(format!("the input ends where a `{}` was expected", char::from(*close)), parser.at))
            }
            _ => Ok(Step::End),
        };
    };
    let to = match (*place, byte) {
        (Place::Start, b'[') => Place::Inside(b']'),
        (Place::Start, b'(') => Place::Inside(b')'),
        (Place::Inside(close), _) if byte == close => Place::After,
        (Place::After, _) => return Err(Stop::Bad("something after the end of the history".into(), parser.at)),
        _ => {
            let start = parser.at;
            let form = parser.form(0)?;
            if *place == Place::Start {
                *place = Place::Free;
            }
            return Ok(Step::Form(form, start));
        }
    };
    *place = to;
    parser.at += 1;
    Ok(Step::Bracket)
}
