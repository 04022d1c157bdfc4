//! Commands as they arrive: as arrays of bulk strings, in pieces of any length.
//!
//! Source: the specification of RESP, and Redis 7.0's answers to malformed requests.

use std::ops::Range;

use crate::number;

const LONGEST_LINE: usize = 64 * 1024;
const MOST_WORDS: i64 = i32::MAX as i64;
const LONGEST_WORD: i64 = 512 * 1024 * 1024;

/// The result of parsing the first bytes of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedRequest {
    /// An incomplete command.
    Incomplete,
    /// A command of this length in bytes. Its words are in `words`; a command without words is ignored.
    Command { length: usize },
    /// Malformed bytes; the rest cannot be parsed. The text follows `-ERR Protocol error: `.
    Broken(String),
}

/// Reads one command. Sets `words` to the positions of its words in `bytes`.
pub(crate) fn parse(bytes: &[u8], words: &mut Vec<Range<usize>>) -> ParsedRequest {
    words.clear();
    match bytes.first() {
        None => ParsedRequest::Incomplete,
        Some(b'*') => array(bytes, words).unwrap_or_else(ParsedRequest::Broken),
        // A line without words.
        Some(b'\n') => ParsedRequest::Command { length: 1 },
        Some(b'\r') if bytes.get(1).is_none_or(|next| *next == b'\n') => match bytes.len() {
            1 => ParsedRequest::Incomplete,
            _ => ParsedRequest::Command { length: 2 },
        },
        // Real servers also accept inline commands, which only people type.
        Some(kind) => ParsedRequest::Broken(format!("expected '*', got '{}'", char::from(*kind))),
    }
}

fn array(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Result<ParsedRequest, String> {
    let Some((line, mut at)) = line(bytes, 1) else {
        return too_long(bytes, "too big mbulk count string");
    };
    let count = number::integer(line).filter(|count| *count <= MOST_WORDS).ok_or("invalid multibulk length")?;
    for _ in 0..count.max(0) {
        let Some(kind) = bytes.get(at) else { return Ok(ParsedRequest::Incomplete) };
        let Some((line, start)) = self::line(bytes, at + 1) else {
            return too_long(&bytes[at..], "too big bulk count string");
        };
        if *kind != b'$' {
            return Err(format!("expected '$', got '{}'", char::from(*kind)));
        }
        let length = number::integer(line).filter(|length| (0..=LONGEST_WORD).contains(length));
        let end = start + length.ok_or("invalid bulk length")? as usize;
        if bytes.len() < end + 2 {
            return Ok(ParsedRequest::Incomplete);
        }
        words.push(start..end);
        at = end + 2;
    }
    Ok(ParsedRequest::Command { length: at })
}

/// Returns the line that begins at this place, and the start of the next line. Like Redis, it takes any byte after a carriage
/// return for the line feed.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    (rest.len() >= end + 2).then(|| (&rest[..end], from + end + 2))
}

fn too_long(bytes: &[u8], text: &str) -> Result<ParsedRequest, String> {
    if bytes.len() > LONGEST_LINE { Err(text.to_string()) } else { Ok(ParsedRequest::Incomplete) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(bytes: &[u8]) -> Option<(usize, Vec<Vec<u8>>)> {
        let mut words = Vec::new();
        match parse(bytes, &mut words) {
            ParsedRequest::Command { length } => {
                Some((length, words.into_iter().map(|word| bytes[word].to_vec()).collect()))
            }
            _ => None,
        }
    }

    #[test]
    fn a_command_is_read_once_it_is_whole() {
        let whole = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";
        for length in 0..20 {
            assert_eq!(parse(&whole[..length], &mut Vec::new()), ParsedRequest::Incomplete, "{length}");
        }
        assert_eq!(words_of(whole), Some((20, vec![b"GET".to_vec(), b"k".to_vec()])));
        assert_eq!(words_of(&whole[20..]), Some((14, vec![b"PING".to_vec()])));
        assert_eq!(words_of(b"*0\r\n*-1\r\n"), Some((4, Vec::new())));
        assert_eq!(words_of(b"\n*1\r\n"), Some((1, Vec::new())), "a line without words");
        assert_eq!(words_of(b"\r\n"), Some((2, Vec::new())));
        assert_eq!(parse(b"\r", &mut Vec::new()), ParsedRequest::Incomplete);
    }

    #[test]
    fn what_breaks_the_protocol_is_named() {
        for (bytes, reason) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*1\r\n+OK\r\n", "expected '$', got '+'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"PING\r\n", "expected '*', got 'P'"),
            (b"\rPING\r\n", "expected '*', got '\r'"),
        ] {
            assert_eq!(parse(bytes, &mut Vec::new()), ParsedRequest::Broken(reason.to_string()));
        }
    }
}
