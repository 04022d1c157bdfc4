//! Parses commands as clients send them: arrays of bulk strings, the form that every client library writes.

use remote::Resp;

/// The bytes are not an array of bulk strings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoCommand;

/// A command's words, and its length in bytes.
type Framed = (Vec<Vec<u8>>, usize);

/// The first command in these bytes. It includes the empty lines before it, which Redis ignores. None if the command is not
/// complete yet.
pub(super) fn first(bytes: &[u8]) -> Result<Option<Framed>, NoCommand> {
    let lines = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    if bytes.get(lines).is_some_and(|first| *first != b'*') {
        return Err(NoCommand);
    }
    let Some((command, length)) = Resp::parse(&bytes[lines..]).map_err(|_| NoCommand)? else { return Ok(None) };
    let Resp::List(b'*', words) = command else { return Err(NoCommand) };
    let words = words.into_iter().map(|word| match word {
        Resp::Text(b'$', word) => Ok(word),
        _ => Err(NoCommand),
    });
    Ok(Some((words.collect::<Result<_, _>>()?, lines + length)))
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
        ] {
            assert_eq!(first(bytes), Err(NoCommand), "{}", String::from_utf8_lossy(bytes));
        }
        for bytes in [&b""[..], b"*", b"*2\r\n$1\r\na\r\n", b"*1\r\n$3\r\nab", b"\n\n"] {
            assert_eq!(first(bytes), Ok(None));
        }
        assert_eq!(first(b"\n\r\n*1\r\n$1\r\na\r\n"), Ok(Some((vec![b"a".to_vec()], 14))), "after empty lines");
    }
}
