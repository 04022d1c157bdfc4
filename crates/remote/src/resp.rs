//! Values of the Redis protocol, RESP2 and RESP3, in the form that servers send.
//!
//! Reading a value and writing it again gives the same bytes. Source: the specification of the protocol.

use std::str;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resp {
    /// A value on one line, with its first byte, such as `+OK`, `-ERR …`, `:3`, `$-1` or `_`.
    Line(Vec<u8>),
    /// A string with a length, after the byte that names its kind: `$`, `!` or `=`.
    Text(u8, Vec<u8>),
    /// Further values, after the byte that names the kind: `*`, `~`, `>`, `%` or `|`. A map has keys and values in turn.
    /// Attributes come before the value that they belong to.
    List(u8, Vec<Resp>),
}

/// The bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not speak the Redis protocol")]
pub struct NoResp;

/// The limits of a value: bytes of a line, bytes in all, and nested lists.
const LONGEST_LINE: usize = 64 << 10;
const LONGEST: usize = 64 << 20;
const DEEPEST: usize = 32;

impl Resp {
    pub fn text(text: &str) -> Resp {
        Resp::Text(b'$', text.as_bytes().to_vec())
    }

    pub fn integer(number: u64) -> Resp {
        Resp::Line(format!(":{number}").into_bytes())
    }

    /// Parses the first value, and returns it with its number of bytes. None if the bytes end before the value does.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Resp, usize)>, NoResp> {
        parse(bytes, 0)
    }

    /// Appends the value in the form that servers send.
    pub fn write(&self, into: &mut Vec<u8>) {
        match self {
            Resp::Line(line) => into.extend(line),
            Resp::Text(kind, text) => {
                into.push(*kind);
                into.extend(format!("{}\r\n", text.len()).into_bytes());
                into.extend(text);
            }
            Resp::List(kind, parts) => {
                let count = match kind {
                    b'%' => parts.len() / 2,
                    b'|' => parts.len().saturating_sub(1) / 2,
                    _ => parts.len(),
                };
                into.push(*kind);
                into.extend(format!("{count}\r\n").into_bytes());
                return parts.iter().for_each(|part| part.write(into));
            }
        }
        into.extend(b"\r\n");
    }

    /// The text of a string, with or without a length. None if it is not UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        let bytes = match self {
            Resp::Text(b'=', text) => text.get(4..)?,
            Resp::Text(b'$', text) => text,
            Resp::Line(line) => line.strip_prefix(b"+")?,
            _ => return None,
        };
        str::from_utf8(bytes).ok()
    }

    pub fn as_error(&self) -> Option<String> {
        let bytes = match self {
            Resp::Line(line) => line.strip_prefix(b"-")?,
            Resp::Text(b'!', text) => text,
            _ => return None,
        };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A number, also in the form of a text.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Resp::Line(line) if line.starts_with(b":") => str::from_utf8(&line[1..]).ok()?.parse().ok(),
            other => other.as_text()?.parse().ok(),
        }
    }

    pub fn as_list(&self) -> Option<&[Resp]> {
        match self {
            Resp::List(_, parts) => Some(parts),
            _ => None,
        }
    }
}

fn parse(bytes: &[u8], depth: usize) -> Result<Option<(Resp, usize)>, NoResp> {
    let Some(end) = bytes.windows(2).take(LONGEST_LINE).position(|two| two == b"\r\n") else {
        return if bytes.len() < LONGEST_LINE { Ok(None) } else { Err(NoResp) };
    };
    let next = end + 2;
    let (&kind, rest) = bytes[..end].split_first().ok_or(NoResp)?;
    let line = || Ok(Some((Resp::Line(bytes[..end].to_vec()), next)));
    let length = || str::from_utf8(rest).ok().and_then(|digits| digits.parse::<usize>().ok()).filter(|n| *n <= LONGEST);
    match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => line(),
        b'$' | b'*' if rest == b"-1" => line(),
        b'$' | b'!' | b'=' => {
            let length = length().ok_or(NoResp)?;
            let Some(text) = bytes.get(next..next + length + 2) else { return Ok(None) };
            let text = text.strip_suffix(b"\r\n").ok_or(NoResp)?;
            Ok(Some((Resp::Text(kind, text.to_vec()), next + length + 2)))
        }
        b'*' | b'~' | b'>' | b'%' | b'|' if depth < DEEPEST => {
            let count = length().ok_or(NoResp)?;
            let count = match kind {
                b'%' => 2 * count,
                b'|' => 2 * count + 1,
                _ => count,
            };
            let (mut parts, mut at) = (Vec::with_capacity(count.min(64)), next);
            for _ in 0..count {
                let Some((part, length)) = parse(&bytes[at..], depth + 1)? else { return Ok(None) };
                parts.push(part);
                at += length;
            }
            Ok(Some((Resp::List(kind, parts), at)))
        }
        _ => Err(NoResp),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Resp> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..12);
        let word = prop::collection::vec(b' '..=b'~', 0..12);
        let line = (prop::sample::select(b"+-:_,#(".to_vec()), word).prop_map(|(kind, mut word)| {
            word.insert(0, kind);
            Resp::Line(word)
        });
        let nil = prop::sample::select(vec![Resp::Line(b"$-1".to_vec()), Resp::Line(b"*-1".to_vec())]);
        let text = (prop::sample::select(b"$!=".to_vec()), bytes()).prop_map(|(kind, text)| Resp::Text(kind, text));
        prop_oneof![line, nil, text].prop_recursive(3, 24, 4, |inner| {
            (prop::sample::select(b"*~>%|".to_vec()), prop::collection::vec(inner, 1..5)).prop_map(
                |(kind, mut parts)| {
                    let odd = parts.len() % 2 == 1;
                    if kind == b'%' && odd || kind == b'|' && !odd {
                        parts.push(Resp::integer(0));
                    }
                    Resp::List(kind, parts)
                },
            )
        })
    }

    proptest! {
        #[test]
        fn values_are_written_as_they_were_read_wherever_the_bytes_are_cut(
            values in prop::collection::vec(values(), 1..6),
            cut in 0usize..400,
        ) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| value.write(&mut bytes));
            let (mut found, mut waiting, mut written) = (Vec::new(), Vec::new(), Vec::new());
            for part in [&bytes[..cut.min(bytes.len())], &bytes[cut.min(bytes.len())..]] {
                waiting.extend(part);
                while let Some((value, length)) = Resp::parse(&waiting).unwrap() {
                    value.write(&mut written);
                    found.push(value);
                    waiting.drain(..length);
                }
            }
            prop_assert_eq!((found, waiting), (values, vec![]));
            prop_assert_eq!(written, bytes);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = Resp::parse(&bytes);
        }
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        let deep = b"*1\r\n".repeat(100);
        for bytes in [&b"x\r\n"[..], b"\r\n", b"$x\r\n", b"$-2\r\n", b"$1\r\nabc", b"*99999999999999999999\r\n", &deep]
        {
            assert_eq!(Resp::parse(bytes), Err(NoResp), "{}", String::from_utf8_lossy(bytes));
        }
        for bytes in [&b""[..], b"+O", b"$3\r\nab", b"*2\r\n:1\r\n", b"%1\r\n+a\r\n"] {
            assert_eq!(Resp::parse(bytes), Ok(None));
        }
        assert_eq!(Resp::Text(b'=', b"txt:ab".to_vec()).as_text(), Some("ab"));
        assert_eq!((Resp::text("12").as_number(), Resp::integer(7).as_number()), (Some(12), Some(7)));
    }
}
