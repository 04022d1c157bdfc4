//! Commands as clients send them: arrays of bulk strings, which is what every client library writes.

/// Bytes of one command that are kept while its end has not come; Redis itself allows 512 MiB for a string.
const LONGEST: usize = 64 << 20;
const MOST_WORDS: usize = 1 << 20;
const LONGEST_LINE: usize = 64;

/// The bytes are not such a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoCommand;

/// A command's words, and how many bytes it has.
type Framed = (Vec<Vec<u8>>, usize);

/// The first command of these bytes, with the empty lines before it, which Redis ignores; none if its end has not come yet.
pub(super) fn first(bytes: &[u8]) -> Result<Option<Framed>, NoCommand> {
    let lines = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let Some((count, header)) = number(&bytes[lines..], b'*')? else { return Ok(None) };
    let mut at = lines + header;
    if count > MOST_WORDS {
        return Err(NoCommand);
    }
    let mut words = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let Some((length, header)) = number(bytes.get(at..).unwrap_or_default(), b'$')? else { return Ok(None) };
        if length > LONGEST || at > LONGEST {
            return Err(NoCommand);
        }
        let begin = at + header;
        let Some(word) = bytes.get(begin..begin + length + 2) else { return Ok(None) };
        words.push(word.strip_suffix(b"\r\n").ok_or(NoCommand)?.to_vec());
        at = begin + length + 2;
    }
    Ok(Some((words, at)))
}

/// The number of a line that begins with `kind`, and the length of the line with its end.
fn number(bytes: &[u8], kind: u8) -> Result<Option<(usize, usize)>, NoCommand> {
    if bytes.first().is_some_and(|first| *first != kind) {
        return Err(NoCommand);
    }
    let Some(end) = bytes.windows(2).take(LONGEST_LINE).position(|two| two == b"\r\n") else {
        return if bytes.len() < LONGEST_LINE { Ok(None) } else { Err(NoCommand) };
    };
    let digits = bytes.get(1..end).unwrap_or_default();
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    Ok(Some((number.ok_or(NoCommand)?, end + 2)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use remote::packed;

    use super::*;

    proptest! {
        #[test]
        fn commands_are_found_wherever_the_bytes_are_cut(
            commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6), 1..5),
            cut in 0usize..400,
        ) {
            let bytes: Vec<u8> = commands.iter().flat_map(|words| packed(words)).collect();
            let mut found = Vec::new();
            let mut waiting = Vec::new();
            for part in [&bytes[..cut.min(bytes.len())], &bytes[cut.min(bytes.len())..]] {
                waiting.extend(part);
                while let Some((words, length)) = first(&waiting).unwrap() {
                    found.push(words);
                    waiting.drain(..length);
                }
            }
            prop_assert_eq!((found, waiting), (commands, vec![]));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = first(&bytes);
        }
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        for bytes in [
            &b"PING\r\n"[..],
            b"*x\r\n",
            b"*-1\r\n",
            b"*1\r\n:3\r\n",
            b"*1\r\n$3\r\nabcd\r\n",
            b"*9999999999999999999999\r\n",
            b"*1\r\n$99999999999\r\n",
            &[b'*'; 100],
        ] {
            assert_eq!(first(bytes), Err(NoCommand), "{}", String::from_utf8_lossy(bytes));
        }
        for bytes in [&b""[..], b"*", b"*2\r\n$1\r\na\r\n", b"*1\r\n$3\r\nab", b"\n\n"] {
            assert_eq!(first(bytes), Ok(None));
        }
        assert_eq!(first(b"\n\r\n*1\r\n$1\r\na\r\n"), Ok(Some((vec![b"a".to_vec()], 14))), "after empty lines");
    }
}
