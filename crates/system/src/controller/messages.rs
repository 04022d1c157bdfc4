//! A client's process, and its messages from and to the controller.
//!
//! Several clients may be threads of one process. Each waits for its own messages. The first client that is polled reads the next
//! line and passes on messages for other clients. With one client per process, this is a plain read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Mutex as StdMutex;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, timeout_at};

use super::block::Block;
use super::excerpt::told;
use super::flood::StderrLog;
use crate::client::protocol::{FromClient, LONGEST_LINE, ToClient, to_line};
use crate::cluster::{ClientOutput, ClientProcess};
use base::members::client_name;
use base::sync::{lock, until};

/// Time limit for a client to read a line.
const READ_LIMIT: Duration = Duration::from_secs(8);

/// Why a client's process can no longer be used.
#[derive(Clone, Debug)]
pub(super) struct ClientFailure {
    pub text: String,
    /// True if the process has ended; its exit code and last output then explain more.
    pub ended: bool,
}

impl ClientFailure {
    pub fn new(text: impl Into<String>) -> ClientFailure {
        ClientFailure { text: text.into(), ended: false }
    }
}

pub(super) struct ClientHost {
    /// The number of the client that gives the process its name: the first of its threads.
    pub first: u32,
    stdin: Mutex<Pin<Box<dyn AsyncWrite + Send>>>,
    output: Mutex<mpsc::Receiver<ClientOutput>>,
    state: StdMutex<HostState>,
    /// Notified when the state has changed in a way that a thread may wait for.
    changed: Notify,
}

#[derive(Default)]
struct HostState {
    stderr: StderrLog,
    threads: Vec<Thread>,
    /// Why the process can't be used. From then on, its threads get only this error.
    broken: Option<ClientFailure>,
    /// How often the process has been replaced.
    replaced: u32,
    /// How many of its threads still work, and how many of these wait for its replacement.
    driven: usize,
    waiting: usize,
    /// The process's own name, once it has been replaced.
    name: String,
    /// The latest request to block its event loop, if any.
    block: Option<Block>,
    /// The numbers of the nodes that its next process gets; empty for all nodes.
    list: Vec<u32>,
    /// True while the controller restarts the process on purpose.
    is_restarted: bool,
}

#[derive(Default)]
struct Thread {
    operation: Option<u64>,
    inbox: VecDeque<FromClient>,
}

impl ClientHost {
    pub fn new(first: u32, threads: usize, process: ClientProcess) -> ClientHost {
        let ClientProcess { stdin, output } = process;
        let state = HostState {
            threads: std::iter::repeat_with(Thread::default).take(threads).collect(),
            driven: threads,
            ..HostState::default()
        };
        ClientHost {
            first,
            stdin: Mutex::new(stdin),
            output: Mutex::new(output),
            state: StdMutex::new(state),
            changed: Notify::new(),
        }
    }

    pub fn name(&self) -> String {
        client_name(self.first)
    }

    pub fn threads(&self) -> usize {
        lock(&self.state).threads.len()
    }

    pub async fn send(&self, message: &ToClient) -> Result<(), ClientFailure> {
        let line = to_line(message);
        let write = async {
            let mut stdin = self.stdin.lock().await;
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        };
        match timeout_at(Instant::now() + READ_LIMIT, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ClientFailure::new(format!("its standard input is closed: {error}"))),
            Err(_) => Err(ClientFailure::new("it does not read its standard input")),
        }
    }

    /// From now on, messages about this operation go to this thread.
    pub fn begin(&self, thread: usize, operation: u64) {
        if let Some(thread) = lock(&self.state).threads.get_mut(thread) {
            thread.operation = Some(operation);
        }
    }

    /// Records that the thread has no operation any more.
    pub fn end(&self, thread: usize) {
        if let Some(thread) = lock(&self.state).threads.get_mut(thread) {
            thread.operation = None;
        }
    }

    /// The next message for this thread; `None` if none came before the deadline.
    pub async fn receive(&self, thread: usize, deadline: Instant) -> Result<Option<FromClient>, ClientFailure> {
        match timeout_at(deadline, self.next(thread)).await {
            Ok(message) => message.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The next message for this thread or for no thread, without a time limit. Dropping this future loses no message.
    pub async fn next(&self, thread: usize) -> Result<FromClient, ClientFailure> {
        loop {
            let changed = self.changed.notified();
            if let Some(kept) = self.kept(thread) {
                return kept;
            }
            let read = async { self.output.lock().await.recv().await };
            tokio::select! {
                biased;
                output = read => self.take(thread, output),
                () = changed => {}
            }
        }
    }

    /// The next message that was read for this thread, in the order in which the process sent them.
    fn kept(&self, thread: usize) -> Option<Result<FromClient, ClientFailure>> {
        let state = &mut *lock(&self.state);
        match state.threads.get_mut(thread).and_then(|thread| thread.inbox.pop_front()) {
            Some(message) => Some(Ok(message)),
            None => state.broken.clone().map(Err),
        }
    }

    /// Takes the line that a thread has read. If the message is about no operation in flight, it goes to the thread that has read
    /// it.
    fn take(&self, reader: usize, output: Option<ClientOutput>) {
        let message = match understood(output) {
            Ok(Heard::Message(message)) => message,
            Ok(Heard::Stderr(line)) => return lock(&self.state).stderr.add(&line),
            Err(broken) => return self.break_down(&broken),
        };
        let state = &mut *lock(&self.state);
        if let (FromClient::Blocked { mono_ns } | FromClient::Unblocked { mono_ns }, Some(block)) =
            (&message, &mut state.block)
        {
            block.said(matches!(message, FromClient::Blocked { .. }), *mono_ns);
            self.changed.notify_waiters();
            return;
        }
        if let Some(block) = &mut state.block {
            block.heard();
        }
        let of = |thread: &Thread| message.id().is_some() && thread.operation == message.id();
        let owner = state.threads.iter().position(of).unwrap_or(reader);
        if let Some(thread) = state.threads.get_mut(owner) {
            thread.inbox.push_back(message);
        }
        if owner != reader {
            self.changed.notify_waiters();
        }
    }

    /// Marks the process as unusable and tells all its threads.
    pub fn break_down(&self, broken: &ClientFailure) {
        lock(&self.state).broken.get_or_insert_with(|| broken.clone());
        self.changed.notify_waiters();
    }

    /// The newest lines of its standard error.
    pub fn last_words(&self) -> String {
        lock(&self.state).stderr.last_words()
    }

    /// Whether the process has ended and no thread has read so yet: its reason, if known. Only for a process whose threads are
    /// all done.
    pub fn ended_unnoticed(&self) -> Option<Option<String>> {
        let mut output = self.output.try_lock().ok()?;
        let mut ended = None;
        while let Ok(output) = output.try_recv() {
            if let ClientOutput::Closed(reason) = output {
                ended = Some(reason);
            }
        }
        ended
    }

    /// Records that one of its threads has stopped working.
    pub fn leave(&self) {
        lock(&self.state).driven -= 1;
        self.changed.notify_waiters();
    }

    /// Waits until all threads that still work wait here, so that none uses the broken process. Then one thread gets true and
    /// must replace the process; the others wait until it has.
    pub async fn is_to_replace(&self) -> bool {
        let before = {
            let state = &mut *lock(&self.state);
            state.waiting += 1;
            state.replaced
        };
        self.changed.notify_waiters();
        let is_decided = |state: &mut HostState| {
            if state.replaced != before {
                return Some(false);
            }
            let is_last = state.waiting == state.driven;
            if is_last {
                // Makes sure that no other thread gets true.
                state.waiting = usize::MAX;
            }
            is_last.then_some(true)
        };
        until(&self.state, &self.changed, is_decided).await
    }

    pub async fn renew(&self, process: ClientProcess) {
        *self.stdin.lock().await = process.stdin;
        *self.output.lock().await = process.output;
        let state = &mut *lock(&self.state);
        (state.stderr, state.broken, state.block) = (StderrLog::default(), None, None);
        state.threads.iter_mut().for_each(|thread| *thread = Thread::default());
    }

    /// Records that the new process is ready and has this name, and lets the threads continue.
    pub fn go_on(&self, name: String) {
        {
            let state = &mut *lock(&self.state);
            state.name = name;
            state.replaced += 1;
            state.waiting = 0;
            state.is_restarted = false;
        }
        self.changed.notify_waiters();
    }

    /// The next process gets these nodes, and the end of this process is on purpose.
    pub fn restart_with(&self, list: Vec<u32>) {
        let state = &mut *lock(&self.state);
        (state.list, state.is_restarted) = (list, true);
    }

    /// The numbers of the nodes that its next process gets; empty for all nodes.
    pub fn list(&self) -> Vec<u32> {
        lock(&self.state).list.clone()
    }

    /// True while the controller restarts the process on purpose.
    pub fn is_restarted(&self) -> bool {
        lock(&self.state).is_restarted
    }

    /// The new process's own name.
    pub fn reported_name(&self) -> String {
        lock(&self.state).name.clone()
    }

    /// Expects a block of the event loop; the process's messages about it are recorded at once.
    pub fn expect_block(&self, block: Block) {
        lock(&self.state).block = Some(block);
    }

    /// Waits until `is_so` returns a value for the block's state, possibly forever.
    pub async fn until_block<T>(&self, is_so: impl Fn(&Block) -> Option<T>) -> T {
        until(&self.state, &self.changed, |state| state.block.as_ref().and_then(&is_so)).await
    }

    /// Stops expecting a block. Returns the block's state; None if no block was expected.
    pub fn forget_block(&self) -> Option<Block> {
        lock(&self.state).block.take()
    }
}

/// A parsed line of a process.
enum Heard {
    Message(FromClient),
    Stderr(Vec<u8>),
}

fn understood(output: Option<ClientOutput>) -> Result<Heard, ClientFailure> {
    match output {
        Some(ClientOutput::Stdout(line)) => serde_json::from_slice(&line).map(Heard::Message).map_err(|error| {
            let line = told(&String::from_utf8_lossy(&line));
            let error = told(&in_words_of_the_protocol(&error));
            ClientFailure::new(format!("its line is not a message of the protocol ({error}): {line}"))
        }),
        Some(ClientOutput::Stderr(line)) => Ok(Heard::Stderr(line)),
        Some(ClientOutput::TooLong { .. }) => {
            Err(ClientFailure::new(format!("it wrote a line longer than {} bytes", LONGEST_LINE)))
        }
        Some(ClientOutput::Closed(reason)) => {
            let text = reason.map_or_else(|| "it ended".to_string(), |reason| format!("it ended: {reason}"));
            Err(ClientFailure { text, ended: true })
        }
        None => Err(ClientFailure { text: "it ended".to_string(), ended: true }),
    }
}

/// A message in its JSON form, for error messages.
pub(super) fn shown(message: &FromClient) -> String {
    // Every message has a JSON form.
    told(&serde_json::to_string(message).unwrap_or_default())
}

/// The error in a line, in words for the author of a client in any language. The position in the line is left out, since the line
/// itself is shown.
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
