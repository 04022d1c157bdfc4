//! Finds the ends of values in passing data of the Redis protocol (RESP2 and RESP3), and the first words of commands.
//!
//! Reading never trusts a length. It keeps only the few words of a value that name a command and its key. Invalid data is an
//! error; the reader must then find the next beginning of a value by itself.

use std::mem;

/// At most this many words of a command are kept. With EVAL, the fourth word is the first key, and more keys may follow.
const WORDS: usize = 8;
/// At most this many bytes of each word are kept.
const WORD: usize = 256;
/// The most bytes of a header, inline command or simple string; error messages may be longer.
const LONGEST_LINE: usize = 4096;
const DEEPEST: usize = 32;
/// Redis itself allows no longer strings, and fewer elements.
const LONGEST: u64 = 512 << 20;

/// Reads one direction of a connection, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// The part of the current line that has been read.
    line: Vec<u8>,
    /// How many bytes of a string are still to come, including its line end.
    left: u64,
    /// True if this string is a kept word: the last of `words`.
    kept: bool,
    /// How many elements are still to come, for each open value, the outermost first.
    open: Vec<u64>,
    value: RespValue,
}

/// A complete value that has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RespValue {
    /// The value's first byte, such as `*`; `b' '` for an inline command.
    pub kind: u8,
    /// The value's first line, possibly cut.
    pub head: Vec<u8>,
    /// The first words, if the value is a string, a list of strings or an inline command.
    pub words: Vec<Vec<u8>>,
    /// The number of the first byte after the value, counted from the first byte that [`Scanner::read`] was given.
    pub end: u32,
}

/// The bytes are not RESP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoResp;

/// True if a request in Redis's usual form begins here, and hardly anything else could.
pub(super) fn begins_a_command(bytes: &[u8]) -> bool {
    matches!(bytes, [b'*', b'1'..=b'9', ..])
}

/// True if a reply may begin here.
pub(super) fn begins_a_reply(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| b"+-:$*_#,(%~>!=|".contains(first))
}

impl Scanner {
    /// True if a value has begun and not ended.
    pub fn is_within(&self) -> bool {
        !self.line.is_empty() || self.left > 0 || !self.open.is_empty()
    }

    /// The values that end in these bytes.
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<Vec<RespValue>, NoResp> {
        let mut values = Vec::new();
        let all = bytes.len();
        while !bytes.is_empty() {
            if self.left > 0 {
                let (here, rest) = bytes.split_at(bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX)));
                let content = usize::try_from(self.left.saturating_sub(2)).unwrap_or(usize::MAX);
                if let Some(word) = self.value.words.last_mut().filter(|_| self.kept) {
                    let room = WORD.saturating_sub(word.len()).min(content);
                    word.extend(&here[..here.len().min(room)]);
                }
                (self.left, bytes) = (self.left - here.len() as u64, rest);
                if self.left == 0 {
                    values.extend(self.one_ended().map(|value| ended(value, all - bytes.len())));
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (here, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            if self.line.len() + here.len() > LONGEST_LINE {
                return Err(NoResp);
            }
            (bytes, _) = (rest, self.line.extend(here));
            if end.is_some() {
                let line = mem::take(&mut self.line);
                values.extend(self.header(line.trim_ascii_end())?.map(|value| ended(value, all - bytes.len())));
            }
        }
        Ok(values)
    }

    /// The value that ends with this line; None if no value ends here.
    fn header(&mut self, line: &[u8]) -> Result<Option<RespValue>, NoResp> {
        let outermost = self.open.is_empty();
        let Some((&kind, rest)) = line.split_first() else {
            // Redis ignores empty lines between commands.
            return if outermost { Ok(None) } else { Err(NoResp) };
        };
        if outermost {
            self.value.kind = kind;
            self.value.head = line[..line.len().min(WORD)].to_vec();
        }
        match kind {
            b'$' | b'!' | b'=' => {
                let Some(length) = length(rest)? else { return Ok(self.one_ended()) };
                self.left = length + 2;
                self.kept = self.open.len() <= 1 && self.value.words.len() < WORDS;
                if self.kept {
                    self.value.words.push(Vec::new());
                }
                Ok(None)
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let elements = length(rest)?.unwrap_or(0) * if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                // Attributes come before their value.
                if let Some(left) = self.open.last_mut().filter(|_| kind == b'|') {
                    *left += 1;
                }
                if elements == 0 {
                    return Ok(self.one_ended());
                }
                if self.open.len() == DEEPEST {
                    return Err(NoResp);
                }
                self.open.push(elements);
                Ok(None)
            }
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(self.one_ended()),
            _ if outermost => {
                let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).take(WORDS);
                let words = words.map(|word| word[..word.len().min(WORD)].to_vec()).collect();
                Ok(Some(RespValue { kind: b' ', words, ..mem::take(&mut self.value) }))
            }
            _ => Err(NoResp),
        }
    }

    /// Records that a value has ended. If it is the last element of the values around it, they end too.
    fn one_ended(&mut self) -> Option<RespValue> {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return None;
            }
            self.open.pop();
        }
        Some(mem::take(&mut self.value))
    }
}

fn ended(value: RespValue, end: usize) -> RespValue {
    RespValue { end: u32::try_from(end).unwrap_or(u32::MAX), ..value }
}

/// The number after the first byte of a header; None for -1, which means nil.
fn length(digits: &[u8]) -> Result<Option<u64>, NoResp> {
    if digits == b"-1" {
        return Ok(None);
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    number.filter(|number| *number <= LONGEST).map(Some).ok_or(NoResp)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(value: &RespValue) -> String {
        value.words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
    }

    const COMMANDS: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n\r\nPING now\r\n*1\r\n$4\r\nQUIT\r\n";

    #[test]
    fn commands_are_found_however_they_are_cut_up() {
        for piece in 1..=COMMANDS.len() {
            let mut scanner = Scanner::default();
            let read = COMMANDS.chunks(piece).flat_map(|piece| scanner.read(piece).unwrap());
            assert_eq!(read.map(|value| words(&value)).collect::<Vec<_>>(), ["SET k a\r\nb", "PING now", "QUIT"]);
            assert!(!scanner.is_within());
        }
    }

    #[test]
    fn replies_are_counted_as_whole_values() {
        for (reply, values) in [
            (&b"+OK\r\n$-1\r\n:1\r\n"[..], 3),
            (b"*2\r\n*1\r\n:1\r\n$2\r\nab\r\n-ERR no\r\n", 2),
            (b"%1\r\n+k\r\n*-1\r\n_\r\n#t\r\n*0\r\n", 4),
            (b"*1\r\n|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n", 1),
            (b"$5\r\n$1\r\n\r\n\r\n", 1),
        ] {
            let mut scanner = Scanner::default();
            assert_eq!(scanner.read(reply).unwrap().len(), values, "{}", String::from_utf8_lossy(reply));
            assert!(!scanner.is_within());
        }
        let mut scanner = Scanner::default();
        assert_eq!(scanner.read(b"*2\r\n:1\r\n"), Ok(Vec::new()));
        assert!(scanner.is_within(), "an element is missing");
    }

    #[test]
    fn each_value_ends_where_the_next_begins() {
        let ends = |scanner: &mut Scanner, bytes: &[u8]| -> Vec<u32> {
            scanner.read(bytes).unwrap().iter().map(|value| value.end).collect()
        };
        assert_eq!(ends(&mut Scanner::default(), COMMANDS), [30, 42, 56]);
        let mut scanner = Scanner::default();
        assert_eq!(ends(&mut scanner, &COMMANDS[..30]), [30]);
        assert_eq!(ends(&mut scanner, &COMMANDS[30..]), [12, 26], "from where this piece begins");
    }

    #[test]
    fn little_is_kept_of_what_is_long() {
        let mut scanner = Scanner::default();
        let command = [&b"*9\r\n$100000\r\n"[..], &[b'x'; 100_000], b"\r\n"].concat();
        assert_eq!(scanner.read(&command), Ok(Vec::new()));
        for _ in 1..9 {
            scanner.read(b"$1\r\ny\r\n").unwrap();
        }
        assert!(!scanner.is_within());
        for wrong in [&b"*1\r\nx\r\n"[..], b"$99999999999\r\n", b"*-5\r\n", &[b'x'; 5000]] {
            assert_eq!(Scanner::default().read(wrong), Err(NoResp));
        }
        assert_eq!(Scanner::default().read(&b"*1\r\n".repeat(40)), Err(NoResp), "too deep");
    }

    proptest! {
        #[test]
        fn nothing_makes_the_reader_stumble(pieces in prop::collection::vec("[*$%|+0-9a\\-\r\n]{0,20}", 0..20)) {
            let mut scanner = Scanner::default();
            for piece in pieces {
                if scanner.read(piece.as_bytes()).is_err() {
                    scanner = Scanner::default();
                }
            }
        }
    }
}
