//! The lines of a history as events. A long history is parsed on several cores, and its events are handed on in their
//! order all the same: parsing is most of the time that it takes to check one.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::mpsc;
use std::thread;

use linearizability::formats::LONGEST_LINE;

use super::{Event, line};

/// How many bytes are read before they are parsed. A history that is not longer takes no thread.
const BATCH: usize = 1 << 18;

/// More cores are of no use: one puts the events together, in half of the time that it takes to parse them.
const MOST_PARSERS: usize = 3;

/// Why a history can't be read.
pub(super) enum Unread {
    Io(io::Error),
    /// A line, counted from 1, and what is wrong with it.
    Malformed(u64, String),
}

/// What came after some whole lines.
enum Then {
    More,
    End,
    /// The last line has no end: it is left out.
    Cut,
    TooLong,
    Failed(io::Error),
}

type Parsed = Result<Event, String>;

/// Hands on each event in its order, until one is refused. Returns whether the last line was cut off; it is not handed on.
pub(super) fn read(
    mut reader: impl BufRead,
    mut take: impl FnMut(Event) -> Result<(), String>,
) -> Result<(u64, bool), Unread> {
    let mut lines = 0;
    let mut take = |parsed: Parsed| {
        lines += 1;
        parsed.and_then(&mut take).map_err(|reason| Unread::Malformed(lines, reason))
    };
    let mut bytes = Vec::new();
    let mut then = batch(&mut reader, &mut bytes);
    let parsers = thread::available_parallelism().map_or(1, usize::from).min(MOST_PARSERS);
    if parsers > 1 && matches!(then, Then::More) {
        then = on_several_cores(parsers, bytes, &mut reader, &mut take)?;
    } else {
        loop {
            parse(&bytes).try_for_each(&mut take)?;
            if !matches!(then, Then::More) {
                break;
            }
            bytes.clear();
            then = batch(&mut reader, &mut bytes);
        }
    }
    match then {
        Then::Failed(error) => Err(Unread::Io(error)),
        Then::TooLong => {
            let reason = format!("longer than {LONGEST_LINE} bytes; this is not a history of redjepsen");
            Err(Unread::Malformed(lines + 1, reason))
        }
        Then::More | Then::End => Ok((lines, false)),
        Then::Cut => Ok((lines, true)),
    }
}

/// Parses batches side by side, and hands on what is in them in their order.
fn on_several_cores(
    parsers: usize,
    first: Vec<u8>,
    reader: &mut impl BufRead,
    take: &mut impl FnMut(Parsed) -> Result<(), Unread>,
) -> Result<Then, Unread> {
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..parsers)
            .map(|_| {
                let (give, work) = mpsc::channel::<Vec<u8>>();
                let (done, parsed) = mpsc::channel();
                scope.spawn(move || {
                    for bytes in work {
                        // Who no longer listens has refused an event.
                        if done.send(parse(&bytes).collect::<Vec<Parsed>>()).is_err() {
                            break;
                        }
                    }
                });
                (give, parsed)
            })
            .collect();
        let mut at_work = VecDeque::new();
        let (mut bytes, mut then) = (first, Then::More);
        for lane in (0..parsers).cycle() {
            if !bytes.is_empty() {
                let _ = lanes[lane].0.send(std::mem::take(&mut bytes));
                at_work.push_back(lane);
            }
            if matches!(then, Then::More) {
                then = batch(reader, &mut bytes);
            }
            // Each has one batch more to go on with, and no more than that is kept in memory.
            let most = if bytes.is_empty() { 0 } else { 2 * parsers - 1 };
            while at_work.len() > most {
                let Some(parsed) = at_work.pop_front().and_then(|lane| lanes[lane].1.recv().ok()) else { break };
                parsed.into_iter().try_for_each(&mut *take)?;
            }
            if bytes.is_empty() {
                break;
            }
        }
        Ok(then)
    })
}

/// Reads some whole lines.
fn batch(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> Then {
    while bytes.len() < BATCH {
        let before = bytes.len();
        let read = match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', bytes) {
            Ok(0) => return Then::End,
            Ok(read) => read as u64,
            Err(error) => {
                bytes.truncate(before);
                return Then::Failed(error);
            }
        };
        if bytes.last() != Some(&b'\n') {
            bytes.truncate(before);
            return if read == LONGEST_LINE { Then::TooLong } else { Then::Cut };
        }
    }
    Then::More
}

/// The events of some whole lines.
fn parse(bytes: &[u8]) -> impl Iterator<Item = Parsed> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(|bytes| {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8: {error}"))?;
        line::from_line(text.trim_end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: u64) -> String {
        (0..lines)
            .map(|number| format!("{{\"index\":{number},\"time\":{number},\"type\":\"cancel\",\"process\":1}}\n"))
            .collect()
    }

    /// How many events came, in their order, and how it ended.
    fn read_all(text: &[u8]) -> (u64, Result<(u64, bool), String>) {
        let mut next = 0;
        let read = read(text, |event| {
            assert_eq!(event.index, next);
            next += 1;
            Ok(())
        });
        let told = read.map_err(|unread| match unread {
            Unread::Io(error) => error.to_string(),
            Unread::Malformed(line, reason) => format!("{line}: {reason}"),
        });
        (next, told)
    }

    #[test]
    fn short_and_long_histories_come_in_their_order() {
        for lines in [0, 1, 20, 100_000] {
            assert_eq!(read_all(history(lines).as_bytes()), (lines, Ok((lines, false))));
            let cut = history(lines) + "{\"index\":";
            assert_eq!(read_all(cut.as_bytes()), (lines, Ok((lines, true))));
        }
    }

    #[test]
    fn what_is_refused_is_named_by_its_line_wherever_it_stands() {
        for lines in [0, 20, 100_000] {
            let wrong = history(lines) + "{}\n" + &history(100_000);
            let (before, told) = read_all(wrong.as_bytes());
            assert_eq!(before, lines);
            assert!(told.clone().unwrap_err().starts_with(&format!("{}: missing field", lines + 1)), "{told:?}");
            let (before, told) = read_all(&[history(lines).as_bytes(), b"\xff\n"].concat());
            assert_eq!((before, told.unwrap_err().contains("not UTF-8")), (lines, true));
        }
        let mut taken = 0;
        let refused = read(history(100_000).as_bytes(), |event| {
            taken += 1;
            if event.index == 50_000 { Err("enough".into()) } else { Ok(()) }
        });
        assert!(matches!(refused, Err(Unread::Malformed(50_001, reason)) if reason == "enough"));
        assert_eq!(taken, 50_001);
    }
}
