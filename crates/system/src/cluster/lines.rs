//! Line-based stdio of a client's process or the agent: over pipes, sockets, an engine's connection, or streams within this
//! process.
//!
//! Output comes in pieces of any size. Lines have a maximum length: a client that never ends its line must not fill the
//! controller's memory.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;

use crate::client::protocol::LONGEST_LINE;
use base::sync::lock;

/// How many lines may wait for the controller before the client's output blocks.
const WAITING_LINES: usize = 1024;
/// At most this many bytes of a process's stderr are kept for its log.
const LONGEST_LOG: usize = 1 << 20;

/// How many bytes are read at a time.
const PIECE_BYTES: usize = 8 << 10;

/// A client's process, or the agent's.
pub struct ClientProcess {
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    /// Its output line by line, without line ends. The last item is [`ClientOutput::Closed`].
    pub output: mpsc::Receiver<ClientOutput>,
}

/// A line that a client process wrote, or the end of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOutput {
    /// A line of the protocol.
    Stdout(Vec<u8>),
    /// A line of the client's log, which is also kept for [`Cluster::collect_logs`](super::Cluster::collect_logs).
    Stderr(Vec<u8>),
    /// A line on stdout that was longer than [`LONGEST_LINE`]; only its beginning is here.
    TooLong { start: Vec<u8> },
    /// No more output will come: the process ended, or its output could not be read for this reason.
    Closed(Option<String>),
}

/// The newest part of a process's stderr.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<LogLines>>);

#[derive(Debug, Default)]
struct LogLines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
}

impl Log {
    pub fn append(&self, line: &[u8]) {
        let mut log = lock(&self.0);
        log.bytes += line.len() + 1;
        log.lines.push_back(line.to_vec());
        while log.bytes > LONGEST_LOG {
            let Some(oldest) = log.lines.pop_front() else { break };
            log.bytes -= oldest.len() + 1;
            log.dropped += 1;
        }
    }

    /// Deletes everything written so far.
    pub fn clear(&self) {
        *lock(&self.0) = LogLines::default();
    }

    pub fn text(&self) -> Vec<u8> {
        let log = lock(&self.0);
        let mut text = Vec::with_capacity(log.bytes);
        if log.dropped > 0 {
            text.extend_from_slice(format!("({} earlier lines are missing)\n", log.dropped).as_bytes());
        }
        for line in &log.lines {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        text
    }
}

/// A piece of a process's output, of any size.
pub enum Piece {
    Stdout(Bytes),
    Stderr(Bytes),
}

/// Splits a process's output into lines, in its own task, until the stream ends. If the stream ends with an error, the error is
/// the reason in [`ClientOutput::Closed`].
pub fn follow(
    stdin: Pin<Box<dyn AsyncWrite + Send>>,
    mut pieces: impl Stream<Item = Result<Piece, String>> + Send + Unpin + 'static,
    log: Log,
) -> ClientProcess {
    let (sender, output) = mpsc::channel(WAITING_LINES);
    tokio::spawn(async move {
        let (mut stdout, mut stderr) = (Splitter::default(), Splitter::default());
        let mut reason = None;
        while let Some(piece) = pieces.next().await {
            let mut lines = Vec::new();
            match piece {
                Ok(Piece::Stdout(bytes)) => stdout.push(&bytes, |line| lines.push(line.into_stdout())),
                Ok(Piece::Stderr(bytes)) => stderr.push(&bytes, |line| lines.push(line.into_stderr(&log))),
                Err(error) => {
                    reason = Some(error);
                    break;
                }
            }
            for line in lines {
                // Keeps reading even without a listener: the process must not block on a full pipe.
                let _ = sender.send(line).await;
            }
        }
        if let Some(line) = stderr.rest() {
            let _ = sender.send(line.into_stderr(&log)).await;
        }
        if let Some(line) = stdout.rest() {
            let _ = sender.send(line.into_stdout()).await;
        }
        let _ = sender.send(ClientOutput::Closed(reason)).await;
    });
    ClientProcess { stdin, output }
}

impl ClientProcess {
    /// Connects to a process or task at the other ends of these streams: its input, its output, and its log.
    pub fn over(
        stdin: impl AsyncWrite + Send + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
        stderr: impl AsyncRead + Send + Unpin + 'static,
        log: Log,
    ) -> ClientProcess {
        let output = futures_util::stream::select(pieces(stdout, Piece::Stdout), pieces(stderr, Piece::Stderr));
        follow(Box::pin(stdin), output, log)
    }
}

/// The pieces of a stream, until it ends.
fn pieces<R: AsyncRead + Send + Unpin + 'static>(
    from: R,
    piece: fn(Bytes) -> Piece,
) -> Pin<Box<dyn Stream<Item = Result<Piece, String>> + Send>> {
    Box::pin(futures_util::stream::unfold(from, move |mut from| async move {
        let mut buffer = BytesMut::with_capacity(PIECE_BYTES);
        match from.read_buf(&mut buffer).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(piece(buffer.freeze())), from)),
            Err(error) => Some((Err(error.to_string()), from)),
        }
    }))
}

#[derive(Debug, PartialEq)]
enum OutputLine {
    Whole(Vec<u8>),
    TooLong(Vec<u8>),
}

impl OutputLine {
    fn into_stdout(self) -> ClientOutput {
        match self {
            OutputLine::Whole(line) => ClientOutput::Stdout(line),
            OutputLine::TooLong(mut start) => {
                start.truncate(200);
                ClientOutput::TooLong { start }
            }
        }
    }

    /// A log keeps only the beginning of a line that is too long.
    fn into_stderr(self, log: &Log) -> ClientOutput {
        let (OutputLine::Whole(line) | OutputLine::TooLong(line)) = self;
        log.append(&line);
        ClientOutput::Stderr(line)
    }
}

/// Assembles pieces into lines no longer than [`LONGEST_LINE`].
#[derive(Default)]
struct Splitter {
    pending: Vec<u8>,
    /// The current line was too long and was reported; the rest of the line is dropped.
    skipping: bool,
}

impl Splitter {
    fn push(&mut self, mut piece: &[u8], mut line: impl FnMut(OutputLine)) {
        while !piece.is_empty() {
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (part, rest) = match end {
                Some(end) => (&piece[..end], &piece[end + 1..]),
                None => (piece, &piece[piece.len()..]),
            };
            if !self.skipping {
                let room = LONGEST_LINE - self.pending.len();
                self.pending.extend_from_slice(&part[..part.len().min(room)]);
                if part.len() > room {
                    line(OutputLine::TooLong(std::mem::take(&mut self.pending)));
                    self.skipping = true;
                }
            }
            if end.is_some() && !std::mem::take(&mut self.skipping) {
                line(OutputLine::Whole(std::mem::take(&mut self.pending)));
            }
            piece = rest;
        }
    }

    /// The text after the last line end.
    fn rest(&mut self) -> Option<OutputLine> {
        (!self.pending.is_empty()).then(|| OutputLine::Whole(std::mem::take(&mut self.pending)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<OutputLine> {
        let mut splitter = Splitter::default();
        let mut lines = Vec::new();
        for piece in pieces {
            splitter.push(piece, |line| lines.push(line));
        }
        lines.extend(splitter.rest());
        lines
    }

    fn complete_line(text: &str) -> OutputLine {
        OutputLine::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        assert_eq!(
            split(&[b"a", b"b\nc\n\nd"]),
            [complete_line("ab"), complete_line("c"), complete_line(""), complete_line("d")]
        );
        assert_eq!(split(&[]), []);
        assert_eq!(split(&[b"\n", b""]), [complete_line("")]);
    }

    #[test]
    fn a_line_that_does_not_end_is_reported_once_and_not_kept() {
        let long = vec![b'x'; LONGEST_LINE];
        assert_eq!(
            split(&[&long, b"\nnext\n"]),
            [OutputLine::Whole(long.clone()), complete_line("next")],
            "1 MiB is allowed"
        );
        let lines = split(&[&long, b"y", &long, &long, b"\nnext\n"]);
        assert_eq!(lines, [OutputLine::TooLong(long.clone()), complete_line("next")]);
        let longer = vec![b'x'; 3 * LONGEST_LINE];
        assert_eq!(split(&[&longer]), [OutputLine::TooLong(long)]);
    }

    #[test]
    fn a_log_keeps_its_newest_part() {
        let log = Log::default();
        for number in 0..3 {
            log.append(&vec![b'0' + number; LONGEST_LOG / 2 - 1]);
        }
        let text = log.text();
        assert!(text.starts_with(b"(1 earlier lines are missing)\n111"), "{}", String::from_utf8_lossy(&text[..50]));
        assert!(text.ends_with(b"222\n"));
    }
}
