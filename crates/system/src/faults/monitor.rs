//! What a Redis server is sent, command by command, as its own MONITOR tells it.
//!
//! This is no fault, and no part of a history: MONITOR costs the server time, so it is for runs whose only purpose is to see
//! what a library sends.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

use base::machine::{Address, Machine};
use base::sync::lock;

/// No run of a minute comes near to so many bytes of lines; what follows is not kept.
const MOST_BYTES: usize = 32 << 20;
/// A longer line is cut off: a script's text may be of any length.
const LONGEST_LINE: usize = 4096;
const MOST_WORDS: usize = 32;
/// An answer of the agent is one line of at most a mebibyte, so what was seen is handed out in parts of about half of that.
const MOST_AT_ONCE: usize = 512 << 10;

/// A command that a server has carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCommand {
    /// When it was, by CLOCK_MONOTONIC of the agent's machine, in nanoseconds.
    pub mono_ns: i64,
    /// Who sent it.
    pub from: Option<Ipv4Addr>,
    /// Whether a script called it.
    pub in_script: bool,
    /// Its name and what it was given; words that are no text have their strange bytes replaced.
    pub words: Vec<String>,
}

/// The servers that are watched, by their URLs.
#[derive(Default)]
pub(super) struct Monitors {
    watched: Mutex<BTreeMap<String, Watched>>,
}

struct Watched {
    lines: Arc<Mutex<Vec<String>>>,
    /// Ends when this is dropped.
    reader: JoinSet<()>,
}

impl Monitors {
    /// Watches a server from now on. Fails if it has no MONITOR or does not answer within `limit`.
    pub async fn begin(&self, machine: &Arc<dyn Machine>, url: &str, limit: Duration) -> Result<(), String> {
        let named = |error: String| format!("{url}: {error}");
        let address = Address::of(url, machine)?;
        let opened = tokio::time::timeout(limit, async {
            let mut stream = address.connect().await.map_err(|error| error.to_string())?;
            stream.write_all(b"MONITOR\r\n").await.map_err(|error| error.to_string())?;
            let mut stream = BufReader::new(stream);
            match next_line(&mut stream).await.as_deref() {
                Some("+OK") => Ok(stream),
                Some(answer) => Err(format!("to MONITOR it said `{answer}`")),
                None => Err("it closed the connection at MONITOR".to_string()),
            }
        });
        let late = |_| Err(format!("no answer to MONITOR within {} ms", limit.as_millis()));
        let mut stream = opened.await.unwrap_or_else(late).map_err(named)?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (kept, mut reader) = (Arc::clone(&lines), JoinSet::new());
        reader.spawn(async move {
            let mut bytes = 0;
            while let Some(line) = next_line(&mut stream).await {
                bytes += line.len();
                if bytes <= MOST_BYTES {
                    lock(&kept).push(line);
                }
            }
        });
        lock(&self.watched).insert(url.to_string(), Watched { lines, reader });
        Ok(())
    }

    /// Watches a server no longer, and says what was seen, in parts that fit into an answer: after the last one comes an empty one.
    /// The server's wall clock has to be that of this machine.
    pub fn take(&self, machine: &Arc<dyn Machine>, url: &str) -> Result<Vec<SeenCommand>, String> {
        let mut all = lock(&self.watched);
        let watched = all.get_mut(url).ok_or_else(|| format!("{url} is not watched"))?;
        watched.reader.abort_all();
        let (wall, mono) = (machine.wall(), machine.monotonic());
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let ahead = nanos(wall).saturating_sub(nanos(mono));
        let taken = fitting(&mut lock(&watched.lines));
        if taken.is_empty() {
            all.remove(url);
        }
        Ok(taken.iter().filter_map(|line| seen(line, ahead)).collect())
    }
}

/// The first of these lines, as many as fit into an answer.
fn fitting(lines: &mut Vec<String>) -> Vec<String> {
    // Strange bytes take half as much again in JSON, and what stands around the words is short.
    let mut bytes = 0;
    let fits = lines.iter().take_while(|line| {
        bytes += line.len() * 3 / 2 + 128;
        bytes <= MOST_AT_ONCE
    });
    let many = fits.count();
    lines.drain(..many).collect()
}

/// The next line without its end, cut off if it is very long. None once the connection is over.
async fn next_line(stream: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let part = stream.fill_buf().await.ok().filter(|part| !part.is_empty())?;
        let end = part.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(part.len(), |end| end + 1);
        line.extend_from_slice(&part[..used.min(LONGEST_LINE.saturating_sub(line.len()))]);
        stream.consume(used);
        if end.is_some() {
            return Some(String::from_utf8_lossy(&line).trim_end().to_string());
        }
    }
}

/// Reads `+1700000000.123456 [0 10.0.0.3:5123] "SET" "lock:k0"`; in place of an address a script's commands have `lua`. None for
/// anything else. The wall clock is so many nanoseconds `ahead` of CLOCK_MONOTONIC.
fn seen(line: &str, ahead: i64) -> Option<SeenCommand> {
    let (time, rest) = line.strip_prefix('+')?.split_once(" [")?;
    let (seconds, micros) = time.split_once('.')?;
    let wall_us: i64 = seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?;
    let (from, words) = rest.split_once("] ")?;
    let (_, from) = from.split_once(' ')?;
    let address = from.rsplit_once(':').and_then(|(address, _)| address.parse().ok());
    let words = words_of(words);
    (!words.is_empty()).then(|| SeenCommand {
        mono_ns: wall_us.saturating_mul(1000).saturating_sub(ahead),
        from: address,
        in_script: from == "lua",
        words,
    })
}

/// The words between quotes, with backslashes as Redis writes them.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut bytes = text.bytes();
    while words.len() < MOST_WORDS && bytes.any(|byte| byte == b'"') {
        let mut word = Vec::new();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => break,
                b'\\' => word.extend(match bytes.next() {
                    Some(b'n') => Some(b'\n'),
                    Some(b'r') => Some(b'\r'),
                    Some(b't') => Some(b'\t'),
                    Some(b'a') => Some(7),
                    Some(b'b') => Some(8),
                    Some(b'x') => {
                        let digits =
                            [bytes.next(), bytes.next()].map(|digit| (digit.unwrap_or(b'?') as char).to_digit(16));
                        Some(digits.iter().fold(0, |byte, digit| byte * 16 + digit.unwrap_or_default() as u8))
                    }
                    other => other,
                }),
                other => word.push(other),
            }
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_monitor_are_read() {
        let line = r#"+1700000000.123456 [0 10.0.0.3:5123] "SET" "lock:k0" "a\"b\\\n\x01" "NX""#;
        let command = seen(line, 1_699_999_999_000_000_000).unwrap();
        assert_eq!(command.mono_ns, 1_123_456_000);
        assert_eq!((command.from, command.in_script), (Some(Ipv4Addr::new(10, 0, 0, 3)), false));
        assert_eq!(command.words, ["SET", "lock:k0", "a\"b\\\n\u{1}", "NX"]);
        let of_a_script = seen(r#"+1.000001 [0 lua] "GET" "lock:k0""#, 0).unwrap();
        assert!(of_a_script.in_script && of_a_script.from.is_none());
    }

    #[test]
    fn what_was_seen_is_handed_out_in_parts_that_fit_into_an_answer() {
        let line = format!("+1.000001 [0 lua] \"SET\" \"{}\"", "\\x01".repeat(1000));
        let mut lines = vec![line; 300];
        let mut parts = Vec::new();
        while !lines.is_empty() {
            let part: Vec<SeenCommand> = fitting(&mut lines).iter().filter_map(|line| seen(line, 0)).collect();
            assert!(!part.is_empty() && serde_json::to_string(&part).unwrap().len() < 1 << 20);
            parts.push(part.len());
        }
        assert!(parts.len() > 1 && parts.iter().sum::<usize>() == 300, "{parts:?}");
    }

    #[test]
    fn what_is_no_line_of_monitor_is_left_out() {
        for line in [
            "",
            "+OK",
            "-ERR unknown command",
            "+1.x [0 lua] \"GET\"",
            "+1.2 [0 lua] ",
            "+99999999999999999999.1 [0 lua] \"A\"",
        ] {
            assert_eq!(seen(line, 0), None, "{line}");
        }
        // Cut off within a word.
        assert_eq!(seen("+1.000001 [0 lua] \"EVAL\" \"local x", 0).unwrap().words, ["EVAL", "local x"]);
    }
}
