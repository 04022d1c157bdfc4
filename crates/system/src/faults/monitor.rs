//! The commands that a Redis server carries out, as its MONITOR reports them.
//!
//! This is not a fault, and no verdict uses it. MONITOR costs the server time for each command, so monitoring ends on a server
//! with very many commands. After a server's restart, it is monitored again. A gap in the commands is recorded in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use base::machine::{Address, Machine, Stream};
use base::sync::lock;
use base::units::nanos;

/// At most this many bytes of lines are kept. No run of a minute comes near it.
const MOST_BYTES: usize = 32 << 20;
/// At this many commands per second, MONITOR takes a large part of a server's time.
const MOST_A_SECOND: usize = 10_000;
/// Longer lines are cut: a script's text may have any length.
const LONGEST_LINE: usize = 4096;
const MOST_WORDS: usize = 32;
/// An answer of the agent is one line of at most a mebibyte. So the commands are returned in parts of about half a mebibyte.
const MOST_AT_ONCE: usize = 512 << 10;
/// Pause before connecting again to a lost server.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
/// Limit of each such try. A request to a server that is down may stay unanswered, and is not repeated for a second.
const TRY: Duration = Duration::from_millis(200);
/// On a busy machine, a line may come this much later than its command, in nanoseconds. An older time, or a time in the future,
/// is from a wrong clock.
const LATEST: u64 = 2_000_000_000;

/// A command that a server has carried out, or a gap in the commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCommand {
    /// The command's time, by CLOCK_MONOTONIC of the agent's machine, in nanoseconds.
    pub mono_ns: u64,
    /// The client's end of the connection that sent it; None if a script called it.
    pub from: Option<SocketAddr>,
    /// The command's name and arguments. In words that are not text, the invalid bytes are replaced.
    pub words: Vec<String>,
    /// Why the commands around this time are unknown; then this is not a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

/// The monitored servers, by their URLs.
#[derive(Default)]
pub(super) struct Monitors {
    watched: Mutex<BTreeMap<String, Watched>>,
}

/// Opens a connection to a server, within a limit. The error is a sentence.
pub(crate) type Open = Box<dyn Fn(Duration) -> BoxFuture<'static, Result<Box<dyn Stream>, String>> + Send + Sync>;

/// True for a line to keep. All other lines are dropped when they arrive.
pub(crate) type Keeps = Box<dyn FnMut(&str) -> bool + Send>;

/// A monitored server. Monitoring ends when it is dropped.
pub(crate) struct Watched {
    lines: Arc<Mutex<Vec<MonitorLine>>>,
    reader: JoinSet<()>,
}

/// A line of MONITOR with its time of arrival, or why there is none.
#[derive(Clone)]
pub(crate) struct MonitorLine {
    /// By CLOCK_MONOTONIC, in nanoseconds.
    pub mono_ns: u64,
    pub text: Result<String, &'static str>,
}

type Monitor = BufReader<Box<dyn Stream>>;

impl Watched {
    /// Monitors a server from now on. Fails if the server has no MONITOR or does not answer within `limit`.
    pub async fn begin(
        machine: &Arc<dyn Machine>,
        open: Open,
        keeps: Keeps,
        limit: Duration,
    ) -> Result<Watched, String> {
        let stream = opened(&open, limit).await?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let mut reader = JoinSet::new();
        reader.spawn(watch(Arc::clone(machine), open, keeps, stream, Arc::clone(&lines)));
        Ok(Watched { lines, reader })
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<MonitorLine> {
        lock(&self.lines).clone()
    }
}

impl Monitors {
    /// Monitors a server from now on. Fails if the server has no MONITOR or does not answer within `limit`.
    pub async fn begin(&self, machine: &Arc<dyn Machine>, url: &str, limit: Duration) -> Result<(), String> {
        let address = Arc::new(Address::of(url, machine)?);
        let open: Open = Box::new(move |_| {
            let address = Arc::clone(&address);
            Box::pin(async move { address.connect().await.map_err(|error| error.to_string()) })
        });
        let watched = Watched::begin(machine, open, Box::new(|_| true), limit)
            .await
            .map_err(|error| format!("{url}: {error}"))?;
        lock(&self.watched).insert(url.to_string(), watched);
        Ok(())
    }

    /// Stops monitoring all servers, and discards the commands.
    pub fn forget(&self) {
        lock(&self.watched).clear();
    }

    /// Stops monitoring a server, and returns the commands that it carried out for clients at these addresses. Each call returns
    /// a part that fits into an answer; an empty part is the end. Returns nothing for a server that is not monitored.
    pub fn take(&self, machine: &Arc<dyn Machine>, url: &str, of: &BTreeSet<Ipv4Addr>) -> Vec<SeenCommand> {
        let mut all = lock(&self.watched);
        let Some(watched) = all.get_mut(url) else { return Vec::new() };
        watched.reader.abort_all();
        let ahead = nanos(machine.wall()).saturating_sub(nanos(machine.monotonic()));
        loop {
            let taken = fitting(&mut lock(&watched.lines));
            if taken.is_empty() {
                all.remove(url);
                return Vec::new();
            }
            let seen: Vec<SeenCommand> = taken.iter().filter_map(|line| seen(line, ahead)).collect();
            let is_of = |from: SocketAddr| matches!(from.ip(), IpAddr::V4(address) if of.contains(&address));
            let of_theirs = theirs(seen, is_of);
            if !of_theirs.is_empty() {
                return of_theirs;
            }
        }
    }
}

async fn opened(open: &Open, limit: Duration) -> Result<Monitor, String> {
    let asked = timeout(limit, async {
        let mut stream = open(limit).await?;
        stream.write_all(b"MONITOR\r\n").await.map_err(|error| error.to_string())?;
        let mut stream = BufReader::new(stream);
        match next_line(&mut stream).await.as_deref() {
            Some("+OK") => Ok(stream),
            Some(answer) => Err(format!("it answered MONITOR with `{answer}`")),
            None => Err("it closed the connection at MONITOR".to_string()),
        }
    });
    asked.await.unwrap_or_else(|_| Err(format!("no answer to MONITOR within {} ms", limit.as_millis())))
}

/// Keeps a server's lines, and connects again whenever the server was lost. Ends when there are too many lines.
async fn watch(
    machine: Arc<dyn Machine>,
    open: Open,
    mut keeps: Keeps,
    mut stream: Monitor,
    lines: Arc<Mutex<Vec<MonitorLine>>>,
) {
    let keep = |text| lock(&lines).push(MonitorLine { mono_ns: nanos(machine.monotonic()), text });
    let (mut bytes, mut second, mut in_second) = (0, 0, 0);
    loop {
        while let Some(line) = next_line(&mut stream).await {
            bytes += line.len();
            let now = nanos(machine.monotonic()) / 1_000_000_000;
            (second, in_second) = if now == second { (second, in_second + 1) } else { (now, 1) };
            if bytes > MOST_BYTES {
                return keep(Err("the server had sent 32 MiB of commands"));
            }
            if in_second > MOST_A_SECOND {
                return keep(Err("the server executed more than 10,000 commands in a second"));
            }
            if keeps(&line) {
                keep(Ok(line));
            }
        }
        keep(Err("the server did not run, or closed the connection"));
        stream = loop {
            sleep(BETWEEN_TRIES).await;
            if let Ok(stream) = opened(&open, TRY).await {
                break stream;
            }
        };
        keep(Err("the server came back, and its commands were not recorded for a moment"));
    }
}

/// The commands from such addresses, and the commands that their scripts called.
pub(crate) fn theirs(seen: Vec<SeenCommand>, is_of: impl Fn(SocketAddr) -> bool) -> Vec<SeenCommand> {
    let mut is_theirs = false;
    let keeps = |command: &SeenCommand| {
        if let Some(from) = command.from {
            is_theirs = is_of(from);
        }
        command.missed.is_some() || is_theirs
    };
    let mut keeps = keeps;
    seen.into_iter().filter(|command| keeps(command)).collect()
}

/// As many of the first lines as fit into an answer. A script's commands stay with it.
fn fitting(lines: &mut Vec<MonitorLine>) -> Vec<MonitorLine> {
    let is_called = |line: &MonitorLine| line.text.as_ref().is_ok_and(|text| text.contains(" lua] "));
    // Escaped bytes take half as much again in JSON, and the text around the words is short.
    let (mut bytes, mut many, mut whole) = (0, 0, 0);
    for line in lines.iter() {
        bytes += line.text.as_ref().map_or(0, String::len) * 3 / 2 + 160;
        if bytes > MOST_AT_ONCE {
            break;
        }
        many += 1;
        if !lines.get(many).is_some_and(is_called) {
            whole = many;
        }
    }
    lines.drain(..if whole > 0 { whole } else { many }).collect()
}

/// The next line without its end, cut if it is very long. None once the connection is over.
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

/// Parses `+1700000000.123456 [0 10.0.0.3:5123] "SET" "lock:k0"`; a script's commands have `lua` in place of an address. None for
/// any other text. The wall clock is this many nanoseconds `ahead` of CLOCK_MONOTONIC.
pub(crate) fn seen(line: &MonitorLine, ahead: u64) -> Option<SeenCommand> {
    let came = line.mono_ns;
    let text = match &line.text {
        Ok(text) => text,
        Err(why) => {
            return Some(SeenCommand {
                mono_ns: came,
                from: None,
                words: Vec::new(),
                missed: Some((*why).to_string()),
            });
        }
    };
    let (time, rest) = text.strip_prefix('+')?.split_once(" [")?;
    let (seconds, micros) = time.split_once('.')?;
    let wall_us: u64 = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?;
    let (from, words) = rest.split_once("] ")?;
    let (_, from) = from.split_once(' ')?;
    let words = words_of(words);
    let told = wall_us.saturating_mul(1000).saturating_sub(ahead);
    let mono_ns = if (came.saturating_sub(LATEST)..=came).contains(&told) { told } else { came };
    let from = match from {
        "lua" => None,
        from => Some(from.parse().ok()?),
    };
    (!words.is_empty()).then_some(SeenCommand { mono_ns, from, words, missed: None })
}

/// The words between quotes, with backslash escapes as Redis writes them.
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

    fn line(text: &str) -> MonitorLine {
        MonitorLine { mono_ns: 1_130_000_000, text: Ok(text.to_string()) }
    }

    const AHEAD: u64 = 1_699_999_999_000_000_000;

    #[test]
    fn lines_of_monitor_are_read() {
        let text = r#"+1700000000.123456 [0 10.0.0.3:5123] "SET" "lock:k0" "a\"b\\\n\x01" "NX""#;
        let command = seen(&line(text), AHEAD).unwrap();
        assert_eq!(command.mono_ns, 1_123_456_000);
        assert_eq!(command.from, Some("10.0.0.3:5123".parse().unwrap()));
        assert_eq!(command.words, ["SET", "lock:k0", "a\"b\\\n\u{1}", "NX"]);
        let of_a_script = seen(&line(r#"+1700000009.000001 [0 lua] "GET" "lock:k0""#), AHEAD).unwrap();
        assert!(of_a_script.from.is_none());
        assert_eq!(of_a_script.mono_ns, 1_130_000_000, "the time of a wrong clock is not believed");
        let gap = MonitorLine { mono_ns: 5, text: Err("it ended") };
        assert_eq!(seen(&gap, AHEAD).unwrap().missed.as_deref(), Some("it ended"));
    }

    #[test]
    fn only_commands_of_members_and_of_their_scripts_are_kept() {
        let lines = ["10.0.0.3:1", "lua", "10.0.0.9:1", "lua", "10.0.0.9:2", "10.0.0.4:1"];
        let all = lines.map(|from| seen(&line(&format!("+1.000001 [0 {from}] \"EVAL\" \"x\"")), 0).unwrap());
        let of = BTreeSet::from([Ipv4Addr::new(10, 0, 0, 3), Ipv4Addr::new(10, 0, 0, 4)]);
        let kept: Vec<_> = theirs(all.to_vec(), |from| matches!(from.ip(), IpAddr::V4(ip) if of.contains(&ip)))
            .iter()
            .map(|command| command.from.map(|from| from.port()))
            .collect();
        assert_eq!(kept, [Some(1), None, Some(1)]);
    }

    #[test]
    fn what_was_seen_is_handed_out_in_parts_that_fit_into_an_answer() {
        let word = "\\x01".repeat(1000);
        let asked = line(&format!("+1.000001 [0 10.0.0.3:1] \"EVAL\" \"{word}\""));
        let called = line(&format!("+1.000001 [0 lua] \"SET\" \"{word}\""));
        let mut lines: Vec<MonitorLine> =
            (0..300).map(|place| if place % 2 == 0 { &asked } else { &called }.clone()).collect();
        let mut parts = Vec::new();
        while !lines.is_empty() {
            let part: Vec<SeenCommand> = fitting(&mut lines).iter().filter_map(|line| seen(line, 0)).collect();
            assert!(part[0].from.is_some(), "a script's command stays with it");
            assert!(serde_json::to_string(&part).unwrap().len() < 1 << 20);
            parts.push(part.len());
        }
        assert!(parts.len() > 1 && parts.iter().sum::<usize>() == 300, "{parts:?}");
    }

    #[test]
    fn what_is_no_line_of_monitor_is_left_out() {
        for text in [
            "",
            "+OK",
            "-ERR unknown command",
            "+1.x [0 lua] \"GET\"",
            "+1.2 [0 lua] ",
            "+1.2 [0 nobody] \"GET\"",
            "+99999999999999999999.1 [0 lua] \"A\"",
        ] {
            assert_eq!(seen(&line(text), 0), None, "{text}");
        }
        // The line is cut within a word.
        assert_eq!(seen(&line("+1.000001 [0 lua] \"EVAL\" \"local x"), 0).unwrap().words, ["EVAL", "local x"]);
    }
}
