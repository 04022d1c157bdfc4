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
use tokio::sync::{Mutex, Notify};

use super::protocol::{self, FromClient, ToClient};
use base::sync::{lock, until};
use model::locks::perfect::Grantor;

/// One thread's end of the link.
pub struct Control {
    link: Arc<ControlLink>,
    /// The index of the thread in its process.
    thread: usize,
    /// `go` messages that arrived while the client waited for the lock, before it came to their breakpoints.
    opened: StdMutex<VecDeque<ToClient>>,
    operation: AtomicU64,
}

/// The part of the link that all threads of the process share. Each thread waits for its own messages. The first thread that
/// polls reads the next line and passes it to the thread that it addresses.
struct ControlLink {
    input: Mutex<Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>>,
    output: Mutex<Output>,
    state: StdMutex<ReaderState>,
    /// Notified when a message was read or an operation cancelled.
    changed: Notify,
}

#[derive(Default)]
struct ReaderState {
    threads: Vec<Inbox>,
    /// True if the controller is gone.
    is_closed: bool,
}

#[derive(Default)]
struct Inbox {
    messages: VecDeque<ToClient>,
    /// The id of the last operation that the controller sent to the thread.
    operation: Option<u64>,
    is_cancelled: bool,
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
        let link = ControlLink {
            input: Mutex::new(BufReader::new(input).lines()),
            output: Mutex::new(Output { stream: Box::new(output), unsent: BytesMut::new() }),
            state: StdMutex::new(ReaderState { threads: vec![Inbox::default()], is_closed: false }),
            changed: Notify::new(),
        };
        Control::of(&Arc::new(link), 0)
    }

    fn of(link: &Arc<ControlLink>, thread: usize) -> Arc<Control> {
        let (opened, operation) = (StdMutex::default(), AtomicU64::new(0));
        Arc::new(Control { link: Arc::clone(link), thread, opened, operation })
    }

    /// Creates the control endpoint of each thread; the endpoint of the calling thread comes first.
    pub fn threads(self: &Arc<Control>, threads: usize) -> Vec<Arc<Control>> {
        lock(&self.link.state).threads.resize_with(threads, Inbox::default);
        std::iter::once(Arc::clone(self)).chain((1..threads).map(|thread| Control::of(&self.link, thread))).collect()
    }

    /// Makes grants count for this operation from now on.
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
        loop {
            let changed = self.link.changed.notified();
            {
                let state = &mut *lock(&self.link.state);
                match state.threads.get_mut(self.thread).and_then(|inbox| inbox.messages.pop_front()) {
                    Some(message) => return Ok(Some(message)),
                    None if state.is_closed => return Ok(None),
                    None => {}
                }
            }
            tokio::select! {
                biased;
                read = self.link.read() => read?,
                () = changed => {}
            }
        }
    }

    /// Reads messages while the thread performs an operation, so that it learns of a cancellation. Returns only on an error.
    pub async fn listen(&self) -> anyhow::Error {
        loop {
            if lock(&self.link.state).is_closed {
                // The thread that waits for a message reports the closed link.
                std::future::pending::<()>().await;
            }
            if let Err(error) = self.link.read().await {
                return error;
            }
        }
    }

    /// True if the thread's operation is cancelled.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.link.state).threads.get(self.thread).is_some_and(|inbox| inbox.is_cancelled)
    }

    /// Waits until the thread's operation is cancelled.
    pub async fn cancelled(&self) {
        let is_cancelled = |state: &mut ReaderState| state.threads.get(self.thread)?.is_cancelled.then_some(());
        until(&self.link.state, &self.link.changed, is_cancelled).await
    }

    /// Writes at once: a phase reported late would delay the faults that wait for it.
    pub async fn say(&self, message: &FromClient) -> io::Result<()> {
        let Output { stream, unsent } = &mut *self.link.output.lock().await;
        // If this future is dropped half-way, the next message first sends the rest of this one, so no line is torn.
        unsent.extend_from_slice(protocol::to_line(message).as_bytes());
        stream.write_all_buf(unsent).await?;
        stream.flush().await
    }
}

impl ControlLink {
    /// Reads a line, and hands it to the thread that it addresses.
    async fn read(&self) -> anyhow::Result<()> {
        let line = self.input.lock().await.next_line().await?;
        let message: Option<ToClient> = match line {
            None => None,
            Some(line) => Some(serde_json::from_str(&line).map_err(|error| anyhow::anyhow!("{error}: {line}"))?),
        };
        lock(&self.state).take(message);
        self.changed.notify_waiters();
        Ok(())
    }
}

impl ReaderState {
    fn take(&mut self, message: Option<ToClient>) {
        let of = |threads: &[Inbox], id: u64| threads.iter().position(|inbox| inbox.operation == Some(id));
        let thread = match &message {
            None => {
                self.is_closed = true;
                return;
            }
            Some(ToClient::Invoke(invoke)) => {
                let thread = invoke.thread as usize;
                if let Some(inbox) = self.threads.get_mut(thread) {
                    (inbox.operation, inbox.is_cancelled) = (Some(invoke.id), false);
                }
                thread
            }
            Some(ToClient::Cancel { id }) => {
                if let Some(thread) = of(&self.threads, *id) {
                    self.threads[thread].is_cancelled = true;
                }
                return;
            }
            // A message whose id no thread has is late: its operation is over.
            Some(ToClient::Go { id, .. } | ToClient::Granted { id, .. }) => of(&self.threads, *id).unwrap_or(0),
            Some(ToClient::Bye) => {
                self.threads.iter_mut().for_each(|inbox| inbox.messages.push_back(ToClient::Bye));
                return;
            }
            Some(ToClient::Hello(_) | ToClient::Block { .. }) => 0,
        };
        // A message for a thread that does not exist goes to the first thread, which rejects it as unexpected.
        let thread = if thread < self.threads.len() { thread } else { 0 };
        self.threads[thread].messages.extend(message);
    }
}

impl Grantor for Control {
    async fn ask(&self) -> Result<bool, String> {
        let id = self.operation.load(Ordering::Relaxed);
        self.say(&FromClient::Acquire { id }).await.map_err(|error| error.to_string())?;
        loop {
            match self.read().await.map_err(|error| error.to_string())? {
                Some(ToClient::Granted { id: granted_to, granted }) if granted_to == id => return Ok(granted),
                Some(go @ ToClient::Go { .. }) => {
                    lock(&self.opened).push_back(go);
                }
                Some(other) => return Err(format!("expected the answer about the lock, not {other:?}")),
                None => return Err("the controller is gone".to_string()),
            }
        }
    }

    async fn give_back(&self) {
        // If this fails, the controller is gone, and the lock with it.
        let _ = self.say(&FromClient::Release { id: self.operation.load(Ordering::Relaxed) }).await;
    }
}

/// This process's standard input, read by the task itself. The runtime's own stdin reads in another thread, which takes longer.
/// Fails unless standard input is a pipe.
pub fn piped_stdin() -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)
}

/// This process's standard output, written by the task itself. The runtime's own stdout writes in another thread, which takes
/// longer.
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
    use model::history::Phase;

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
    async fn each_thread_gets_its_own_messages_whichever_of_them_reads() {
        let invoke = |id, thread| {
            let line = format!(r#"{{"type":"invoke","id":{id},"thread":{thread},"f":"hold","key":"k0"}}"#);
            serde_json::from_str::<ToClient>(&line).unwrap()
        };
        let go = |id| ToClient::Go { id, phase: Phase::Read };
        let said = [invoke(7, 1), invoke(8, 0), go(7), ToClient::Cancel { id: 8 }, go(99), ToClient::Bye];
        let said = said.map(|said| protocol::to_line(&said));
        let threads = Control::new(std::io::Cursor::new(said.concat()), tokio::io::sink()).threads(2);
        assert_eq!(threads[0].next().await.unwrap(), Some(invoke(8, 0)));
        assert_eq!(threads[1].next().await.unwrap(), Some(invoke(7, 1)));
        assert_eq!(threads[1].next().await.unwrap(), Some(go(7)));
        assert_eq!(threads[1].next().await.unwrap(), Some(ToClient::Bye), "what comes before is for the other");
        assert!(threads[0].is_cancelled() && !threads[1].is_cancelled());
        threads[0].cancelled().await;
        assert_eq!(threads[0].next().await.unwrap(), Some(go(99)), "of no operation: whoever reads it knows that");
        assert_eq!(threads[0].next().await.unwrap(), Some(ToClient::Bye));
        for thread in &threads {
            assert_eq!(thread.next().await.unwrap(), None);
        }
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
