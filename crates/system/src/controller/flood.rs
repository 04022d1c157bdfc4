//! Cuts off a client that sends too many messages. Most of a client's messages go into the history, and they must not use up the
//! machine's resources.

use std::collections::VecDeque;

use tokio::time::Instant;
use tracing::debug;

use super::excerpt::shorten;
use crate::client::protocol::FromClient;
use base::words;

/// At most this many phases may one operation report, however short it is. An update has about ten.
const AT_ONCE: u64 = 1_000;
/// At most this many more phases per second may an operation report: some locks extend their TTL very often.
const A_SECOND: u64 = 1_000;
/// A message with a longer value than this, in bytes, counts as several. Built-in clients' values have about a dozen bytes.
const VALUE_BYTES: usize = 256;
/// At most this many bytes of a process's standard error go into the run's log. The process's own log keeps the newest part of
/// its standard error.
const STDERR_BYTES: usize = 64 << 10;

/// When a process ends, its failure quotes at most this many of its newest lines, each with at most this many characters.
const LAST_LINES: usize = 3;
const LONGEST_LAST_WORDS: usize = 160;

/// The number of messages that a client may send during one operation.
pub(super) struct Allowance {
    since: Instant,
    used: u64,
}

impl Allowance {
    pub fn of_an_operation() -> Allowance {
        Allowance { since: Instant::now(), used: 0 }
    }

    /// Counts a message that goes into the history; the error says that the client sent too many.
    pub fn take(&mut self, message: &FromClient) -> Result<(), String> {
        let value = match message {
            FromClient::Phase(phase) => phase.value.as_ref(),
            FromClient::Ok { old, .. } => old.as_ref(),
            _ => return Ok(()),
        };
        let bytes = value.and_then(Option::as_ref).map_or(0, String::len);
        self.used += 1 + (bytes / VALUE_BYTES) as u64;
        let seconds = self.since.elapsed().as_secs();
        if self.used <= AT_ONCE + A_SECOND * seconds {
            return Ok(());
        }
        if bytes > VALUE_BYTES {
            return Err(format!("it floods the history: it reports that it read a value of {bytes} bytes"));
        }
        Err(format!(
            "it floods the history: more than {} phases of one operation within {} s ({AT_ONCE} are allowed, and {A_SECOND} more \
             per second)",
            self.used - 1,
            seconds + 1
        ))
    }
}

/// The part of a process's standard error that goes into the run's log.
pub(super) struct StderrLog {
    left: usize,
    /// The newest lines.
    last: VecDeque<String>,
    /// The newest line that names an error. Some runtimes print a whole page after it.
    error: Option<String>,
}

impl Default for StderrLog {
    fn default() -> StderrLog {
        StderrLog { left: STDERR_BYTES, last: VecDeque::new(), error: None }
    }
}

/// The markers of the line with the error: in Node.js, Python and PHP; in Go's runtime; in a Go panic; in Java; in Rust.
const ERRORS: [&str; 5] = ["Error: ", "error: ", "panic: ", "Exception in thread", " panicked at "];

impl StderrLog {
    pub fn add(&mut self, line: &[u8]) {
        let line = shorten(&String::from_utf8_lossy(line));
        if !line.trim().is_empty() {
            let words = words::line(&line, LONGEST_LAST_WORDS);
            if ERRORS.iter().any(|sign| line.contains(sign)) {
                self.error = Some(words.clone());
            }
            self.last.push_back(words);
        }
        if self.last.len() > LAST_LINES {
            self.last.pop_front();
        }
        if self.left == 0 {
            return;
        }
        debug!(stderr = %line);
        self.left = self.left.saturating_sub(line.len() + 1);
        if self.left == 0 {
            debug!("further lines of this client's standard error are only in its own log");
        }
    }
}

impl StderrLog {
    /// The process's newest lines, joined into one. If they only follow an error, the error's line.
    pub fn last_words(&self) -> String {
        match self.error.as_ref().filter(|error| !self.last.contains(error)) {
            Some(error) => error.clone(),
            None => self.last.iter().map(String::as_str).collect::<Vec<_>>().join(" | "),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;
    use crate::client::protocol::PhaseMessage;
    use model::history::Phase;

    fn phase(value: Option<String>) -> FromClient {
        let value = value.map(Some);
        let (phase, mono_ns, token, validity_ms, count, text) = (Phase::Extended, None, None, None, None, None);
        FromClient::Phase(PhaseMessage { id: 1, phase, mono_ns, token, validity_ms, value, count, text })
    }

    #[test]
    fn the_last_words_are_the_error_even_if_a_page_follows_it() {
        let mut log = StderrLog::default();
        for line in ["starting", "Error: Cannot find module '/nope.js'", "  at one", "  at two", "  at three", "}"] {
            log.add(line.as_bytes());
        }
        assert!(log.last_words().starts_with("Error: Cannot find module"), "{}", log.last_words());
        for first in [
            "panic: runtime error: invalid memory address",
            "Exception in thread \"main\" java.lang.NullPointerException",
            "thread 'main' panicked at src/main.rs:3:5:",
        ] {
            let mut log = StderrLog::default();
            for line in [first, "goroutine 1 [running]:", "main.main()", "  main.go:7", "  one.go:8"] {
                log.add(line.as_bytes());
            }
            assert_eq!(log.last_words(), first);
        }
        let mut short = StderrLog::default();
        for line in ["panicked at main.rs", "error: gone", "bye"] {
            short.add(line.as_bytes());
        }
        assert!(short.last_words().ends_with("error: gone | bye"), "{}", short.last_words());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_extended_again_and_again_is_no_flood_and_a_thousand_phases_at_once_are() {
        let mut patient = Allowance::of_an_operation();
        // Extends the lock as often as the shortest TTL, 10 ms, needs.
        for _ in 0..60 * 300 {
            patient.take(&phase(None)).unwrap();
            sleep(Duration::from_micros(3_400)).await;
        }
        let mut flooding = Allowance::of_an_operation();
        let said = (1..).find_map(|number| flooding.take(&phase(None)).err().map(|error| (number, error)));
        let (number, error) = said.unwrap();
        assert_eq!(number, AT_ONCE + 1);
        assert!(error.contains("more than 1000 phases of one operation within 1 s"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn values_count_by_their_length() {
        let mut allowance = Allowance::of_an_operation();
        allowance.take(&phase(Some("x".repeat(100 << 10)))).unwrap();
        allowance.take(&FromClient::Ok { id: 1, old: Some(None), new: None, count: None, text: None }).unwrap();
        let huge = FromClient::Ok { id: 1, old: Some(Some("x".repeat(1 << 20))), new: None, count: None, text: None };
        let error = allowance.take(&huge).unwrap_err();
        assert!(error.contains("a value of 1048576 bytes"), "{error}");
        let asks = FromClient::Acquire { id: 1 };
        allowance.take(&asks).unwrap();
    }
}
