//! The client's link to the controller: one message per line on a pair of streams.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::protocol::{self, FromClient, ToClient};
use crate::locks::perfect::Grantor;
use crate::sync::lock;

pub struct Control {
    input: Mutex<Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>>,
    /// Breakpoints that were opened before the client came to them, while it waited for the lock.
    opened: StdMutex<VecDeque<ToClient>>,
    output: Mutex<Output>,
    /// The operation in flight.
    operation: AtomicU64,
}

struct Output {
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    /// Bytes that the stream has not taken yet.
    unsent: BytesMut,
}

impl Control {
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Arc<Control> {
        let input: Box<dyn AsyncRead + Send + Unpin> = Box::new(input);
        Arc::new(Control {
            input: Mutex::new(BufReader::new(input).lines()),
            opened: StdMutex::default(),
            output: Mutex::new(Output { stream: Box::new(output), unsent: BytesMut::new() }),
            operation: AtomicU64::new(0),
        })
    }

    /// From now on, grants are for this operation.
    pub fn begin(&self, operation: u64) {
        self.operation.store(operation, Ordering::Relaxed);
    }

    /// The next message; `None` if the controller is gone.
    pub async fn next(&self) -> anyhow::Result<Option<ToClient>> {
        let opened = lock(&self.opened).pop_front();
        match opened {
            Some(opened) => Ok(Some(opened)),
            None => self.read().await,
        }
    }

    async fn read(&self) -> anyhow::Result<Option<ToClient>> {
        match self.input.lock().await.next_line().await? {
            None => Ok(None),
            Some(line) => Ok(Some(serde_json::from_str(&line).map_err(|error| anyhow::anyhow!("{error}: {line}"))?)),
        }
    }

    /// Writes at once: a phase reported late would shift the moment at which the nemesis acts.
    pub async fn say(&self, message: &FromClient) -> io::Result<()> {
        let Output { stream, unsent } = &mut *self.output.lock().await;
        // If this is cancelled half-way, the next message starts with the rest of this one, so no line is torn.
        unsent.extend_from_slice(protocol::to_line(message).as_bytes());
        stream.write_all_buf(unsent).await?;
        stream.flush().await
    }
}

impl Grantor for Arc<Control> {
    async fn ask(&self) -> Result<bool, String> {
        let id = self.operation.load(Ordering::Relaxed);
        self.say(&FromClient::Acquire { id }).await.map_err(|error| error.to_string())?;
        loop {
            match self.read().await.map_err(|error| error.to_string())? {
                Some(ToClient::Granted { id: granted_to, granted }) if granted_to == id => return Ok(granted),
                Some(go @ ToClient::Go { .. }) => {
                    lock(&self.opened).push_back(go);
                }
                Some(other) => return Err(format!("{other:?} where the answer about the lock was expected")),
                None => return Err("the controller is gone".to_string()),
            }
        }
    }

    async fn give_back(&self) {
        // If this fails, the controller is gone, and the lock with it.
        let _ = self.say(&FromClient::Release { id: self.operation.load(Ordering::Relaxed) }).await;
    }
}

/// This process's standard input, read by the task itself: the runtime's own has another thread read, which takes
/// longer. Fails unless it is a pipe.
pub fn piped_stdin() -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)
}

/// This process's standard output, written by the task itself: the runtime's own hands every write to another thread,
/// which takes longer.
pub struct Stdout;

impl AsyncWrite for Stdout {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(io::stdout().write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(io::stdout().flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::history::Phase;

    #[tokio::test]
    async fn a_breakpoint_may_open_while_the_lock_is_asked_for() {
        let go = ToClient::Go { id: 1, phase: Phase::Read };
        let said = [go.clone(), ToClient::Granted { id: 1, granted: true }].map(|said| protocol::to_line(&said));
        let control = Control::new(std::io::Cursor::new(said.concat()), tokio::io::sink());
        control.begin(1);
        assert_eq!(control.ask().await, Ok(true));
        assert_eq!(control.next().await.unwrap(), Some(go));
        assert_eq!(control.next().await.unwrap(), None);
        assert!(control.ask().await.unwrap_err().contains("gone"));
    }

    #[tokio::test]
    async fn a_message_that_was_given_up_half_way_is_not_torn() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let control = Control::new(tokio::io::empty(), ours);
        let given_up = control.say(&FromClient::Acquire { id: 1 });
        assert!(futures_util::FutureExt::now_or_never(given_up).is_none(), "nobody reads yet");
        let next = tokio::spawn(async move { control.say(&FromClient::Release { id: 2 }).await });
        let mut said = String::new();
        theirs.read_to_string(&mut said).await.unwrap();
        next.await.unwrap().unwrap();
        let lines = [FromClient::Acquire { id: 1 }, FromClient::Release { id: 2 }].map(|said| protocol::to_line(&said));
        assert_eq!(said, lines.concat());
    }
}
