//! Commands as they arrive: in pieces of any length, as arrays of bulk strings or as lines of words.
//!
//! Source: the specification of RESP, and how Redis 7.0 answers what breaks it.

use std::ops::Range;

use crate::number;

/// Longest line that is waited for.
const LONGEST_LINE: usize = 64 * 1024;
const MOST_WORDS: i64 = i32::MAX as i64;
const LONGEST_WORD: i64 = 512 * 1024 * 1024;

/// What the beginning of some bytes is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Not a whole command yet.
    Incomplete,
    /// A command, or none if it has no words, of so many bytes in total. Its words are in `words`.
    Command { length: usize },
    /// An inline command, whose words had to be copied.
    Inline { length: usize, words: Vec<Vec<u8>> },
    /// Nothing that comes after it can be understood. The text follows `-ERR Protocol error: `.
    Broken(String),
}

/// Reads one command; `words` becomes where its words are in `bytes`.
pub(crate) fn parse(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Parsed {
    words.clear();
    match bytes.first() {
        None => Parsed::Incomplete,
        Some(b'*') => array(bytes, words).unwrap_or_else(Parsed::Broken),
        Some(_) => inline(bytes),
    }
}

fn array(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Result<Parsed, String> {
    let Some((line, mut at)) = line(bytes, 1) else {
        return too_long(bytes, "too big mbulk count string");
    };
    let count = number::integer(line).filter(|count| *count <= MOST_WORDS).ok_or("invalid multibulk length")?;
    for _ in 0..count.max(0) {
        let Some(kind) = bytes.get(at) else { return Ok(Parsed::Incomplete) };
        let Some((line, start)) = self::line(bytes, at + 1) else {
            return too_long(&bytes[at..], "too big bulk count string");
        };
        if *kind != b'$' {
            return Err(format!("expected '$', got '{}'", char::from(*kind)));
        }
        let length = number::integer(line).filter(|length| (0..=LONGEST_WORD).contains(length));
        let end = start + length.ok_or("invalid bulk length")? as usize;
        if bytes.len() < end + 2 {
            return Ok(Parsed::Incomplete);
        }
        words.push(start..end);
        at = end + 2;
    }
    Ok(Parsed::Command { length: at })
}

/// The line that begins at this place, and where the next one begins. Like Redis, it takes what follows a carriage return
/// for the line feed.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    (rest.len() >= end + 2).then(|| (&rest[..end], from + end + 2))
}

fn too_long(bytes: &[u8], text: &str) -> Result<Parsed, String> {
    if bytes.len() > LONGEST_LINE { Err(text.to_string()) } else { Ok(Parsed::Incomplete) }
}

fn inline(bytes: &[u8]) -> Parsed {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() > LONGEST_LINE {
            true => Parsed::Broken("too big inline request".to_string()),
            false => Parsed::Incomplete,
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    match split(line) {
        Some(words) => Parsed::Inline { length: end + 1, words },
        None => Parsed::Broken("unbalanced quotes in request".to_string()),
    }
}

/// The words of a line: separated by spaces, quoted as in a shell, with escapes between double quotes.
fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        rest = one_word(rest, &mut word)?;
        words.push(word);
    }
}

fn one_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [quote @ (b'"' | b'\''), tail @ ..] => {
                rest = quoted(tail, *quote, word)?;
                // A closing quote ends a word.
                return (rest.is_empty() || rest[0].is_ascii_whitespace()).then_some(rest);
            }
            [byte, ..] if byte.is_ascii_whitespace() => return Some(rest),
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

/// What is left after the closing quote; None if there is no such quote.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let hex = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    loop {
        match rest {
            [] => return None,
            [byte, tail @ ..] if *byte == quote => return Some(tail),
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = tail;
            }
            [b'\\', b'x', high, low, tail @ ..] if quote == b'"' && hex(high).is_some() && hex(low).is_some() => {
                word.push(hex(high)? * 16 + hex(low)?);
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = tail;
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(bytes: &[u8]) -> Option<(usize, Vec<Vec<u8>>)> {
        let mut words = Vec::new();
        match parse(bytes, &mut words) {
            Parsed::Command { length } => Some((length, words.into_iter().map(|word| bytes[word].to_vec()).collect())),
            Parsed::Inline { length, words } => Some((length, words)),
            _ => None,
        }
    }

    #[test]
    fn a_command_is_read_once_it_is_whole() {
        let whole = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
        for length in 0..20 {
            assert_eq!(parse(&whole[..length], &mut Vec::new()), Parsed::Incomplete, "{length}");
        }
        assert_eq!(words_of(whole), Some((20, vec![b"GET".to_vec(), b"k".to_vec()])));
        assert_eq!(words_of(&whole[20..]), Some((6, vec![b"PING".to_vec()])));
        assert_eq!(words_of(b"*0\r\n*-1\r\n"), Some((4, Vec::new())));
    }

    #[test]
    fn what_breaks_the_protocol_is_named() {
        for (bytes, reason) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*1\r\n+OK\r\n", "expected '$', got '+'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"set \"k\n", "unbalanced quotes in request"),
            (b"set \"k\"v\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(parse(bytes, &mut Vec::new()), Parsed::Broken(reason.to_string()));
        }
        let endless = vec![b'x'; LONGEST_LINE + 1];
        assert_eq!(parse(&endless, &mut Vec::new()), Parsed::Broken("too big inline request".to_string()));
    }

    #[test]
    fn lines_have_words_with_quotes() {
        let (_, words) = words_of(b"set  k \"a \\x41\\n\\\"\" 'b\\'c\\n'\r\n").unwrap();
        assert_eq!(words, [&b"set"[..], b"k", b"a A\n\"", b"b'c\\n"]);
    }
}
