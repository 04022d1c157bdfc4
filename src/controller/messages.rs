//! Messages from and to a client's process, and what is wrong with one.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use super::excerpt::told;
use super::flood::StderrLog;
use crate::client::protocol::{FromClient, LONGEST_LINE, ToClient, to_line};
use crate::cluster::{ClientOutput, ClientProcess};

/// How long a client may take to read a line.
const READ_LIMIT: Duration = Duration::from_secs(8);

/// Why a client's process can no longer be used.
#[derive(Debug)]
pub(super) struct Broken {
    pub text: String,
    /// Whether the process has ended, so that how it did and what it said last tell more.
    pub ended: bool,
}

impl Broken {
    pub fn new(text: impl Into<String>) -> Broken {
        Broken { text: text.into(), ended: false }
    }
}

pub(super) async fn send(link: &mut ClientProcess, message: &ToClient) -> Result<(), Broken> {
    let line = to_line(message);
    let write = async {
        link.stdin.write_all(line.as_bytes()).await?;
        link.stdin.flush().await
    };
    match timeout_at(Instant::now() + READ_LIMIT, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Broken::new(format!("its standard input is closed: {error}"))),
        Err(_) => Err(Broken::new("it does not read its standard input")),
    }
}

/// The next message; `None` if none came before the deadline.
pub(super) async fn receive(
    link: &mut ClientProcess,
    stderr: &mut StderrLog,
    deadline: Instant,
) -> Result<Option<FromClient>, Broken> {
    match timeout_at(deadline, next_message(link, stderr)).await {
        Ok(message) => message.map(Some),
        Err(_) => Ok(None),
    }
}

/// The next message, whenever it comes. Nothing is lost if this is dropped.
pub(super) async fn next_message(link: &mut ClientProcess, stderr: &mut StderrLog) -> Result<FromClient, Broken> {
    loop {
        match link.output.recv().await {
            Some(ClientOutput::Stdout(line)) => {
                return serde_json::from_slice(&line).map_err(|error| {
                    let line = told(&String::from_utf8_lossy(&line));
                    let error = told(&in_words_of_the_protocol(&error));
                    Broken::new(format!("its line is not a message of the protocol ({error}): {line}"))
                });
            }
            Some(ClientOutput::Stderr(line)) => stderr.add(&line),
            Some(ClientOutput::TooLong { .. }) => {
                return Err(Broken::new(format!("it wrote a line longer than {} bytes", LONGEST_LINE)));
            }
            Some(ClientOutput::Closed(reason)) => {
                let text = reason.map_or_else(|| "it ended".to_string(), |reason| format!("it ended: {reason}"));
                return Err(Broken { text, ended: true });
            }
            None => return Err(Broken { text: "it ended".to_string(), ended: true }),
        }
    }
}

/// A message in a sentence, as it is on the wire.
pub(super) fn shown(message: &FromClient) -> String {
    // No message lacks a form on the wire.
    told(&serde_json::to_string(message).unwrap_or_default())
}

/// What is wrong with a line, for the author of a client in any language. Where in the line it is does not help:
/// the line is shown.
fn in_words_of_the_protocol(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let mut text = text.replace("expected value", "it is not JSON");
    for (of_rust, plain) in [
        ("u64", "a whole number"),
        ("u32", "a whole number"),
        ("unknown variant", "unknown word"),
        ("sequence", "list"),
        ("a map", "an object"),
        ("map", "object"),
        ("internally tagged enum FromClient", "an object with `type`"),
        ("EOF while parsing", "it ends within"),
    ] {
        text = text.replace(of_rust, plain);
    }
    text
}
