//! Answers to commands, and their bytes.
//!
//! Source: the specification of RESP2.

use std::borrow::Cow;

use crate::number;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Status(Cow<'static, str>),
    /// The text with its code, such as `ERR syntax error`.
    Error(Cow<'static, str>),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    /// The nil array.
    NilArray,
    Array(Vec<Reply>),
    /// No answer now.
    Nothing,
}

impl Reply {
    pub const OK: Reply = Reply::Status(Cow::Borrowed("OK"));

    pub const fn error(text: &'static str) -> Reply {
        Reply::Error(Cow::Borrowed(text))
    }

    pub fn failed(text: String) -> Reply {
        Reply::Error(Cow::Owned(text))
    }

    pub fn text(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    pub fn count(number: usize) -> Reply {
        Reply::Integer(number as i64)
    }

    pub fn yes(it_is: bool) -> Reply {
        Reply::Integer(i64::from(it_is))
    }

    /// The value or nil.
    pub fn maybe(value: Option<&[u8]>) -> Reply {
        value.map_or(Reply::Nil, |value| Reply::Bulk(value.to_vec()))
    }

    /// Appends the bytes of this answer.
    pub fn write(&self, into: &mut Vec<u8>) {
        match self {
            Reply::Status(text) => line(into, b'+', text.as_bytes()),
            Reply::Error(text) => error_line(into, text),
            Reply::Integer(value) => number_line(into, b':', *value),
            Reply::Bulk(bytes) => bulk(into, bytes),
            Reply::Nil => into.extend_from_slice(b"$-1\r\n"),
            Reply::NilArray => into.extend_from_slice(b"*-1\r\n"),
            Reply::Array(parts) => {
                number_line(into, b'*', parts.len() as i64);
                parts.iter().for_each(|part| part.write(into));
            }
            Reply::Nothing => {}
        }
    }
}

/// Replaces line breaks in an error's text, which may contain a client's words.
fn error_line(into: &mut Vec<u8>, text: &str) {
    into.push(b'-');
    into.extend(text.trim_end_matches(['\r', '\n']).bytes().map(|byte| match byte {
        b'\r' | b'\n' => b' ',
        byte => byte,
    }));
    into.extend_from_slice(b"\r\n");
}

fn line(into: &mut Vec<u8>, kind: u8, text: &[u8]) {
    into.push(kind);
    into.extend_from_slice(text);
    into.extend_from_slice(b"\r\n");
}

fn number_line(into: &mut Vec<u8>, kind: u8, value: i64) {
    into.push(kind);
    number::push(into, value);
    into.extend_from_slice(b"\r\n");
}

fn bulk(into: &mut Vec<u8>, bytes: &[u8]) {
    number_line(into, b'$', bytes.len() as i64);
    into.extend_from_slice(bytes);
    into.extend_from_slice(b"\r\n");
}

/// The first answer in these bytes and its length; None if incomplete. Malformed bytes are an error.
pub(crate) fn read(bytes: &[u8]) -> Option<(Reply, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, line) = bytes[..end].split_first()?;
    let text = || String::from_utf8_lossy(line).into_owned();
    let length = || number::integer(line).and_then(|length| usize::try_from(length).ok());
    let next = end + 2;
    Some(match kind {
        b'+' => (Reply::Status(text().into()), next),
        b'-' => (Reply::Error(text().into()), next),
        b':' => (Reply::Integer(number::integer(line).unwrap_or(0)), next),
        b'$' => match length() {
            None => (Reply::Nil, next),
            Some(length) => {
                let content = bytes.get(next..next + length)?.to_vec();
                bytes.get(next + length + 1)?;
                (Reply::Bulk(content), next + length + 2)
            }
        },
        b'*' => match length() {
            None => (Reply::NilArray, next),
            Some(count) => {
                let (mut parts, mut at) = (Vec::new(), next);
                for _ in 0..count {
                    let (part, length) = read(&bytes[at..])?;
                    parts.push(part);
                    at += length;
                }
                (Reply::Array(parts), at)
            }
        },
        _ => (Reply::error("ERR not an answer"), bytes.len()),
    })
}

/// Appends a command as a client sends it.
pub(crate) fn write_command(into: &mut Vec<u8>, words: &[&[u8]]) {
    number_line(into, b'*', words.len() as i64);
    words.iter().for_each(|word| bulk(into, word));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply) -> String {
        let mut bytes = Vec::new();
        reply.write(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn answers_are_written_as_clients_read_them() {
        for (reply, text) in [
            (Reply::OK, "+OK\r\n"),
            (Reply::failed("ERR a\r\nb\r\n".into()), "-ERR a  b\r\n"),
            (Reply::Integer(-7), ":-7\r\n"),
            (Reply::Nil, "$-1\r\n"),
            (Reply::NilArray, "*-1\r\n"),
            (Reply::Array(vec![Reply::text("role"), Reply::Nil]), "*2\r\n$4\r\nrole\r\n$-1\r\n"),
            (Reply::Nothing, ""),
        ] {
            assert_eq!(written(&reply), text);
        }
    }

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let parts = vec![Reply::OK, Reply::Integer(-3), Reply::Bulk(b"a\r\n".to_vec()), Reply::Nil];
        let reply = Reply::Array(vec![Reply::Array(parts), Reply::failed("ERR x".into()), Reply::NilArray]);
        let bytes = written(&reply).into_bytes();
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None, "{length}");
        }
        assert_eq!(read(&bytes), Some((reply, bytes.len())));
        assert!(matches!(read(b"nonsense\r\n"), Some((Reply::Error(_), _))));
    }
}
