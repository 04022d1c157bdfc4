//! The lines of a history as events. A long history is parsed on several cores, but its events are passed on in order. Most of
//! the time to check a history goes into parsing.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc;
use std::thread;

use linearizability::formats::LONGEST_LINE;

use super::{Event, line};

/// How many bytes are read before they are parsed. A shorter history needs no thread.
const BATCH: u64 = 1 << 18;

/// More cores would not help: one core puts the events together, and that takes half as long as parsing them.
const MOST_PARSERS: usize = 3;

/// Why a history can't be read.
pub(super) enum Unread {
    Io(io::Error),
    /// The number of a line, counted from 1, and its error.
    Malformed(u64, String),
}

/// The state after some whole lines.
enum Then {
    More,
    End,
    /// The last line has no end, and is left out.
    Cut,
    TooLong,
    Failed(io::Error),
}

type Parsed = Result<Event, String>;

/// Whole lines, and then their events. Each batch is reused, because allocating memory takes longer than filling it.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    events: Vec<Parsed>,
}

/// Passes on each event in order, until one is refused. Returns the number of lines, and whether the last line was cut off; a cut
/// line is not passed on.
pub(super) fn read(
    reader: impl Read,
    mut take: impl FnMut(Event) -> Result<(), String>,
) -> Result<(u64, bool), Unread> {
    let mut lines = 0;
    let mut take = |parsed: Parsed| {
        lines += 1;
        parsed.and_then(&mut take).map_err(|reason| Unread::Malformed(lines, reason))
    };
    let mut reader = WholeLines { reader, begun: Vec::new() };
    let mut batch = Batch::default();
    let mut then = reader.read(&mut batch.text);
    let parsers = thread::available_parallelism().map_or(1, usize::from).min(MOST_PARSERS);
    if parsers > 1 && matches!(then, Then::More) {
        then = on_several_cores(parsers, batch, &mut reader, &mut take)?;
    } else {
        loop {
            batch.parse();
            batch.events.drain(..).try_for_each(&mut take)?;
            if !matches!(then, Then::More) {
                break;
            }
            then = reader.read(&mut batch.text);
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

/// Parses batches in parallel, and passes on their events in order.
fn on_several_cores(
    parsers: usize,
    first: Batch,
    reader: &mut WholeLines<impl Read>,
    take: &mut impl FnMut(Parsed) -> Result<(), Unread>,
) -> Result<Then, Unread> {
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..parsers)
            .map(|_| {
                let (give, work) = mpsc::channel::<Batch>();
                let (done, parsed) = mpsc::channel();
                scope.spawn(move || {
                    for mut batch in work {
                        batch.parse();
                        // The receiver stops listening after it has refused an event.
                        if done.send(batch).is_err() {
                            break;
                        }
                    }
                });
                (give, parsed)
            })
            .collect();
        let mut at_work = VecDeque::new();
        let (mut batch, mut then) = (first, Then::More);
        for lane in (0..parsers).cycle() {
            if !batch.text.is_empty() {
                let _ = lanes[lane].0.send(batch);
                at_work.push_back(lane);
            }
            batch = Batch::default();
            // Each parser has one more batch waiting, and no further batches are kept in memory.
            let most = if matches!(then, Then::More) { 2 * parsers - 1 } else { 0 };
            while at_work.len() > most {
                let Some(parsed) = at_work.pop_front().and_then(|lane| lanes[lane].1.recv().ok()) else { break };
                batch = parsed;
                batch.events.drain(..).try_for_each(&mut *take)?;
            }
            if !matches!(then, Then::More) {
                break;
            }
            then = reader.read(&mut batch.text);
        }
        Ok(then)
    })
}

struct WholeLines<R> {
    reader: R,
    /// The beginning of a line whose end has yet to be read.
    begun: Vec<u8>,
}

impl<R: Read> WholeLines<R> {
    /// Reads some whole lines and replaces the old contents of `text`.
    fn read(&mut self, text: &mut Vec<u8>) -> Then {
        text.clear();
        text.append(&mut self.begun);
        loop {
            let known = text.len();
            let read = self.reader.by_ref().take(BATCH).read_to_end(text);
            let mut ends =
                text[known..].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| known + at + 1);
            let (first, last) = (ends.next(), ends.next_back());
            let whole = last.or(first).unwrap_or(0);
            let too_long = first.unwrap_or(text.len()) as u64 > LONGEST_LINE;
            match read {
                _ if too_long => {
                    text.clear();
                    return Then::TooLong;
                }
                Err(error) => {
                    text.truncate(whole);
                    return Then::Failed(error);
                }
                Ok(0) => {
                    let is_cut = text.len() > whole;
                    text.truncate(whole);
                    return if is_cut { Then::Cut } else { Then::End };
                }
                // The line is longer than a batch, so reading continues.
                Ok(_) if whole == 0 => {}
                Ok(_) => {
                    self.begun.extend_from_slice(&text[whole..]);
                    text.truncate(whole);
                    return Then::More;
                }
            }
        }
    }
}

impl Batch {
    /// Parses the events of its lines, up to the first line that is not text.
    fn parse(&mut self) {
        let valid = std::str::from_utf8(&self.text).map_or_else(|error| error.valid_up_to(), str::len);
        let whole = self.text[..valid].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (lines, rest) = self.text.split_at(whole);
        let lines = std::str::from_utf8(lines).unwrap_or_default().split_inclusive('\n');
        self.events.extend(lines.map(|line| line::from_line(line.trim_end())));
        let line = rest.split_inclusive(|byte| *byte == b'\n').next().map(std::str::from_utf8);
        self.events.extend(line.and_then(Result::err).map(|error| Err(format!("not UTF-8: {error}"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: u64) -> String {
        (0..lines)
            .map(|number| format!("{{\"index\":{number},\"time\":{number},\"type\":\"cancel\",\"process\":1}}\n"))
            .collect()
    }

    /// The number of events in the right order, and the result.
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
